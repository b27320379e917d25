//! A function with the places in it that edits act on. Offsets are bytes of the function's span.

use std::collections::BTreeSet;
use std::ops::Range;

use tree_sitter::{Node, QueryCursor, StreamingIterator, Tree};

use crate::lang::functions::{Definition, path_of, visit};
use crate::lang::language::Language;
use crate::lang::lex::Kind;
use crate::lang::outline::Outline;
use crate::lang::words::{is_attribute, is_specifier, is_type_keyword};

/// A parsed function.
pub(super) struct Parsed<'a> {
    language: &'a Language,
    /// The bytes of the span.
    text: &'a [u8],
    /// The span with everything before the body as the grammar accepts it, same offsets.
    masked: Vec<u8>,
    tree: Tree,
    pub(super) body: Range<usize>,
    /// The grammar is at a loss somewhere in the body.
    pub(super) strange: bool,
    /// The return type as it can stand in a cast; nothing if it cannot be written that simply.
    pub(super) result: Option<Vec<u8>>,
    /// Some `return` has a value, in whatever branch of a conditional.
    pub(super) returns_value: bool,
    /// Ranges in which no structure may be changed: directives and what is between them.
    closed: Vec<Range<usize>>,
    /// The language has objects, whose operators can mean anything.
    pub(super) objects: bool,
    /// A constant expression may be made of it: it must hold nothing that is not constant.
    pub(super) constant: bool,
    /// Its type is exactly that of what it returns, brackets included.
    pub(super) exact_type: bool,
}

impl<'a> Parsed<'a> {
    pub(super) fn of(
        language: &'a Language,
        definition: &Definition,
        source: &'a [u8],
    ) -> Option<Self> {
        let text = source.get(definition.span.clone())?;
        let shift = |at: usize| at.checked_sub(definition.span.start);
        let body = shift(definition.body.start)?..shift(definition.body.end)?;
        text.get(body.clone())?;
        let masked = masked(text, &body);
        let tree = language.parse(&masked)?;
        let objects = language.id().may_overload();
        let head = Outline::of(language.id(), &text[..body.start]);
        let says = |word: &str| (0..head.tokens.len()).any(|i| head.is(i, word));
        let mut strange = false;
        let mut closed = Vec::new();
        visit(tree.root_node(), |node| {
            strange |= (node.is_error() || node.is_missing()) && node.end_byte() > body.start;
            // What a lambda or a local class returns is not what the function returns.
            let other = matches!(
                node.kind(),
                "lambda_expression" | "class_specifier" | "struct_specifier"
            );
            if node.kind().starts_with("preproc_") || (objects && other) {
                closed.push(node.byte_range());
            }
            true
        });
        Some(Parsed {
            result: match objects {
                true => simple_result(language, definition, source),
                false => result(language, definition, source),
            },
            returns_value: returns_value(language, &text[body.clone()]),
            objects,
            constant: objects && (says("constexpr") || says("consteval")),
            exact_type: objects && says("decltype"),
            language,
            text,
            masked,
            tree,
            body,
            strange,
            closed,
        })
    }

    /// The function's own bytes.
    pub(super) fn original(&self) -> &'a [u8] {
        self.text
    }

    pub(super) fn slice(&self, range: Range<usize>) -> &'a [u8] {
        self.text.get(range).unwrap_or_default()
    }

    pub(super) fn node_text(&self, node: Node<'_>) -> &'a [u8] {
        self.slice(node.byte_range())
    }

    /// The nodes captured as `name`, in order, that lie in the body, are sound, and are in no
    /// conditional.
    pub(super) fn captured(&self, name: &str) -> Vec<Node<'_>> {
        let compiled = &self.language.queries().edits;
        let mut cursor = QueryCursor::new();
        let mut found = Vec::new();
        let mut matches = cursor.matches(&compiled.query, self.tree.root_node(), &self.masked[..]);
        while let Some(m) = matches.next() {
            for capture in m.captures() {
                if compiled.capture(capture.index) == name && self.open(capture.node) {
                    found.push(capture.node);
                }
            }
        }
        found.sort_by_key(|n| (n.start_byte(), std::cmp::Reverse(n.end_byte())));
        found.dedup_by_key(|n| n.id());
        found
    }

    /// Names that are parameters or variables of the function. Words in capitals may be macros
    /// after a parameter.
    pub(super) fn locals(&self) -> BTreeSet<&'a [u8]> {
        let compiled = &self.language.queries().edits;
        let mut cursor = QueryCursor::new();
        let head = Outline::of(self.language.id(), self.slice(0..self.body.start));
        let parameter = |i: &usize| {
            head.is_word(*i)
                && head.text(*i).iter().any(u8::is_ascii_lowercase)
                && matches!(head.text(i + 1), b"," | b")" | b";" | b"[")
                && i.checked_sub(1).is_some_and(|before| match self.objects {
                    true => is_type_keyword(head.text(before)) && !head.is(before, "void"),
                    false => head.is_word(before) || head.is(before, "*"),
                })
        };
        let mut found: BTreeSet<&'a [u8]> = (0..head.tokens.len())
            .filter(parameter)
            .map(|i| head.text(i))
            .collect();
        let mut matches = cursor.matches(&compiled.query, self.tree.root_node(), &self.masked[..]);
        while let Some(m) = matches.next() {
            for capture in m.captures() {
                if compiled.capture(capture.index) == "local" && !capture.node.has_error() {
                    found.insert(self.node_text(capture.node));
                }
            }
        }
        found
    }

    /// Whether a node lies in the body, is sound and neither holds nor is in a directive.
    fn open(&self, node: Node<'_>) -> bool {
        let range = node.byte_range();
        let cut = self
            .closed
            .iter()
            .any(|c| c.start < range.end && range.start < c.end);
        range.start > self.body.start && range.end < self.body.end && !cut && !node.has_error()
    }
}

/// The span with its head replaced by one the grammar certainly takes, of the same length where
/// there is room; otherwise the span as it is.
fn masked(text: &[u8], body: &Range<usize>) -> Vec<u8> {
    const HEAD: &[u8] = b"int f()";
    let mut masked = text.to_vec();
    if body.start >= HEAD.len() {
        for c in &mut masked[..body.start] {
            if *c != b'\n' {
                *c = b' ';
            }
        }
        masked[..HEAD.len()].copy_from_slice(HEAD);
    }
    masked
}

fn returns_value(language: &Language, body: &[u8]) -> bool {
    let o = Outline::of(language.id(), body);
    (0..o.tokens.len()).any(|i| o.is(i, "return") && !o.is(i + 1, ";"))
}

/// The return type of a plain declarator: the specifiers and stars before the name.
fn result(language: &Language, definition: &Definition, source: &[u8]) -> Option<Vec<u8>> {
    let head = source.get(definition.definition.start..definition.name_range.start)?;
    let o = Outline::of(language.id(), head);
    let mut words: Vec<&[u8]> = Vec::new();
    for i in 0..o.tokens.len() {
        let word = o.text(i);
        match o.kind(i) {
            Some(Kind::Word) if is_attribute(word) => return None,
            Some(Kind::Word) if is_specifier(word) && word != b"const" => {}
            Some(Kind::Word) => words.push(word),
            Some(Kind::Punct) if word == b"*" => words.push(word),
            _ => return None,
        }
    }
    // The name must be followed by its parameters: no parenthesised declarator.
    let rest = source.get(definition.name_range.end..definition.body.start)?;
    (rest.trim_ascii_start().first() == Some(&b'(')).then_some(())?;
    let words = without_macros(words);
    Some(match words.is_empty() {
        true => b"int".to_vec(),
        false => words.join(&b' '),
    })
}

/// The return type where it is a number, a pointer or nothing: of these it is certain what a zero
/// and a cast mean. Constructors and destructors return nothing.
fn simple_result(language: &Language, definition: &Definition, source: &[u8]) -> Option<Vec<u8>> {
    let path = path_of(&definition.name);
    let own = path.last().copied().unwrap_or_default();
    if own.starts_with('~') || path.iter().rev().nth(1) == Some(&own) {
        return Some(b"void".to_vec());
    }
    let head = source.get(definition.definition.start..definition.name_range.start)?;
    let o = Outline::of(language.id(), head);
    let mut words: Vec<&[u8]> = Vec::new();
    let mut named = 0;
    for i in 0..o.tokens.len() {
        let word = o.text(i);
        match word {
            b"static" | b"inline" | b"virtual" | b"friend" | b"extern" => {}
            b"const" | b"*" | b"::" => words.push(word),
            b"std" if o.is(i + 1, "::") => words.push(word),
            b"auto" => return None,
            _ if is_type_keyword(word) && !matches!(word, b"struct" | b"union" | b"enum") => {
                words.push(word)
            }
            _ if o.is_word(i) => {
                named += 1;
                words.push(word);
            }
            _ => return None,
        }
    }
    let last = words.last().copied()?;
    let number = |w: &[u8]| is_type_keyword(w) || w.ends_with(b"_t");
    let simple = last == b"*" || (named == 0 && number(last)) || (named == 1 && number(last));
    (simple && (named <= 1)).then(|| words.join(&b' '))
}

/// Plain words before the type are macros: one plain word at most is the type, and none where a
/// keyword is.
fn without_macros(words: Vec<&[u8]>) -> Vec<&[u8]> {
    let tag = |w: &[u8]| matches!(w, b"struct" | b"union" | b"enum");
    let keyword = words.iter().any(|w| is_type_keyword(w));
    let plain = |w: &[u8]| w != b"*" && w != b"const" && !is_type_keyword(w);
    let last_plain = words.iter().rposition(|w| plain(w));
    words
        .iter()
        .enumerate()
        .filter(|(k, w)| {
            let tagged = *k > 0 && tag(words[*k - 1]);
            !plain(w) || tagged || (!keyword && Some(*k) == last_plain)
        })
        .map(|(_, w)| *w)
        .collect()
}
