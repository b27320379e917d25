//! What stands before a function's brace: is it a definition's head, where does it start, what is
//! its name. The grammar decides; tokens only help it over macros it cannot know, by blanking
//! them out, which keeps every offset. Never looks into the body.

use std::ops::Range;

use tree_sitter::{Node, QueryCursor, StreamingIterator};

use super::facts::Family;
use super::functions::{SkipReason, lossy};
use super::head_cpp;
use super::language::Language;
use super::lex::Kind;
use super::mask::Mask;
use super::outline::{Block, Outline};
use super::words::{is_attribute, is_specifier, is_statement_keyword, is_type_keyword};

/// A definition's head. Ranges are bytes of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// First byte of the definition.
    pub(super) start: usize,
    /// One past the last byte before the body that is not white space or comment.
    pub(super) end: usize,
    pub(super) name: Range<usize>,
    /// What it is called: with the path to it, where the language has paths.
    pub(super) called: String,
    /// How many parts of that path are written in the head.
    pub(super) written: usize,
    pub(super) parameters: Range<usize>,
    pub(super) is_static: bool,
    pub(super) old_style: bool,
    pub(super) variadic: bool,
    /// What is compiled elsewhere can depend on its body: a template, a constant expression.
    pub(super) transparent: bool,
}

/// Why there is no head, with the name it seems to have and where it seems to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NoHead {
    pub(super) name: Option<Range<usize>>,
    pub(super) start: usize,
    pub(super) reason: SkipReason,
}

/// Reads the head of `block`; `in_unit` if the text is a preprocessed unit.
pub(super) fn head(
    language: &Language,
    o: &Outline<'_>,
    block: &Block,
    in_unit: bool,
) -> Result<Head, NoHead> {
    if language.id().facts().family == Family::Cpp {
        return head_cpp::head(language, o, block, !in_unit);
    }
    let reader = Reader { language, o, block };
    let all = block.head.clone();
    let mut directives = all.clone().filter(|i| o.kind(*i) == Some(Kind::Directive));
    // What precedes a directive is usually a thing of its own: a macro without a semicolon, or
    // `static` under a conditional.
    if let Some(last) = directives.next_back()
        && let Ok(found) = reader.read(last + 1..all.end)
    {
        return Ok(found);
    }
    if !o.conditionals_balance(all.clone()) {
        return Err(reader.none(&all, SkipReason::SplitByIfdef));
    }
    reader.read(all)
}

struct Reader<'a, 's> {
    language: &'a Language,
    o: &'a Outline<'s>,
    block: &'a Block,
}

impl Reader<'_, '_> {
    fn none(&self, tokens: &Range<usize>, reason: SkipReason) -> NoHead {
        let o = self.o;
        NoHead {
            name: self
                .guess(tokens)
                .map(|g| o.tokens[g.name].start..o.tokens[g.name].end),
            start: o
                .tokens
                .get(tokens.start)
                .map_or(o.tokens[self.block.open].start, |t| t.start),
            reason,
        }
    }

    fn read(&self, tokens: Range<usize>) -> Result<Head, NoHead> {
        let o = self.o;
        let Some(guess) = self.guess(&tokens) else {
            return Err(self.none(&tokens, SkipReason::ParseError));
        };
        if is_statement_keyword(o.text(guess.name)) || is_statement_keyword(o.text(tokens.start)) {
            return Err(NoHead {
                name: None,
                ..self.none(&tokens, SkipReason::ParseError)
            });
        }
        if guess.named_by_macro {
            return Err(self.none(&tokens, SkipReason::MacroDefined));
        }
        let tokens = guess.first..tokens.end;
        let raw = Mask::new(o, &tokens);
        if let Some(head) = self.parse(&tokens, raw, &guess) {
            return Ok(head);
        }
        let mut mask = Mask::new(o, &tokens);
        mask.macros(o, &tokens, &guess);
        if let Some(head) = self.parse(&tokens, mask.clone(), &guess) {
            return Ok(head);
        }
        if guess.plain && guess.types > 0 {
            // Only the parameters are strange: name and extent are certain all the same.
            return Ok(self.head_of(
                &tokens,
                mask,
                &guess,
                o.tokens[guess.name].start..o.tokens[guess.name].end,
                o.tokens[guess.open].start..o.tokens[guess.close].end,
            ));
        }
        Err(self.none(&tokens, SkipReason::ParseError))
    }

    /// Asks the grammar about the masked text.
    fn parse(&self, tokens: &Range<usize>, mask: Mask, guess: &Guess) -> Option<Head> {
        let mut text = Vec::new();
        if guess.types == 0 {
            text.extend_from_slice(b"int ");
        }
        let shift = text.len();
        text.extend_from_slice(&mask.text);
        let body_at = text.len() + 1;
        text.extend_from_slice(b"\n{}\n");
        let tree = self.language.parse(&text)?;
        let root = tree.root_node();
        if root.has_error() || root.named_child_count() != 1 {
            return None;
        }
        let found = definition(self.language, root, &text)?;
        // With a macro before it the grammar takes `void (f)(int a)` for a function `void`.
        if found.body.start != body_at
            || found.name.start < shift
            || is_type_keyword(&text[found.name.clone()])
        {
            return None;
        }
        let back = |r: Range<usize>| r.start - shift + mask.at..r.end - shift + mask.at;
        Some(self.head_of(
            tokens,
            mask.clone(),
            guess,
            back(found.name),
            back(found.parameters),
        ))
    }

    fn head_of(
        &self,
        tokens: &Range<usize>,
        mask: Mask,
        guess: &Guess,
        name: Range<usize>,
        parameters: Range<usize>,
    ) -> Head {
        let o = self.o;
        let inside =
            |r: &Range<usize>, i: usize| r.start <= o.tokens[i].start && o.tokens[i].end <= r.end;
        let variadic = tokens
            .clone()
            .any(|i| inside(&parameters, i) && o.is(i, "..."));
        let is_static = tokens
            .clone()
            .take_while(|i| o.tokens[*i].start < name.start)
            .any(|i| o.is(i, "static"));
        Head {
            start: mask.at,
            end: mask.at + mask.text.len(),
            called: lossy(&o.source[name.clone()]),
            written: 1,
            name,
            parameters,
            is_static,
            old_style: self.block.old_style || guess.bare_names,
            variadic,
            transparent: false,
        }
    }

    /// Finds name and parameters by tokens alone: the first word before parentheses that is no
    /// attribute, where parameters of a macro before the type are passed over.
    fn guess(&self, tokens: &Range<usize>) -> Option<Guess> {
        let o = self.o;
        let end = if self.block.old_style {
            // Up to the parameter declarations.
            let open = tokens.clone().find(|i| o.is(*i, "("))?;
            o.closing(open, tokens.end)? + 1
        } else {
            tokens.end
        };
        // Words and directives after the last parentheses are macros.
        let mut last = end;
        while last > tokens.start
            && (o.is_word(last - 1) || o.kind(last - 1) == Some(Kind::Directive))
        {
            last -= 1;
        }
        let mut close = last.checked_sub(1)?;
        let mut open;
        loop {
            if close < tokens.start || !o.is(close, ")") {
                return None;
            }
            open = o.opening(close, tokens.start)?;
            let word = open.checked_sub(1).filter(|w| *w >= tokens.start)?;
            let before = word.checked_sub(1).filter(|b| *b >= tokens.start);
            // `int f(int a) MACRO(x) {` has a macro after its parameters, but `TYPE(x) f(int a) {`
            // one before its name.
            let follows = before.is_some_and(|b| o.is(b, ")") && self.has_name_and_type(tokens, b))
                && !o.text(word).iter().any(u8::is_ascii_lowercase);
            if !(o.is_word(word) && (is_attribute(o.text(word)) || follows)) {
                break;
            }
            close = before?;
        }
        let name = self.name_before(tokens, open)?;
        self.describe(tokens, name, open, close)
    }

    /// Whether a name and a word that can be its type stand before the parentheses closed at
    /// `close`.
    fn has_name_and_type(&self, tokens: &Range<usize>, close: usize) -> bool {
        let o = self.o;
        let Some(open) = o.opening(close, tokens.start) else {
            return false;
        };
        open >= tokens.start + 2
            && o.is_word(open - 1)
            && (tokens.start..open - 1).any(|i| o.is_word(i) && !is_specifier(o.text(i)))
    }

    /// The name of the declarator whose last parameters open at `open`.
    fn name_before(&self, tokens: &Range<usize>, open: usize) -> Option<usize> {
        let o = self.o;
        let mut open = open;
        loop {
            let before = open.checked_sub(1).filter(|w| *w >= tokens.start)?;
            if o.is_word(before) {
                return (!is_type_keyword(o.text(before))).then_some(before);
            }
            if !o.is(before, ")") {
                return None;
            }
            // `(*f(int a))(int)` or `(f)(int a)`: look inside.
            let inner = o.opening(before, tokens.start)?;
            let last = before - 1;
            if o.is_word(last) {
                return Some(last);
            }
            if !o.is(last, ")") {
                return None;
            }
            open = o.opening(last, inner)?;
            if open <= inner {
                return None;
            }
        }
    }

    fn describe(
        &self,
        tokens: &Range<usize>,
        name: usize,
        open: usize,
        close: usize,
    ) -> Option<Guess> {
        let o = self.o;
        let first = self.first(tokens, name);
        // `int name PARAMETERS((int a)) {`: the macro is for compilers without prototypes.
        let shouts = |i: usize| !o.text(i).iter().any(u8::is_ascii_lowercase);
        let wrapped = name > first + 1
            && open == name + 1
            && shouts(name)
            && o.is(open + 1, "(")
            && o.is(close - 1, ")")
            && o.is_word(name - 1)
            && !is_type_keyword(o.text(name - 1))
            && !is_specifier(o.text(name - 1));
        let name = name - usize::from(wrapped);
        let is_type =
            |i: usize| o.is_word(i) && !is_specifier(o.text(i)) && !is_attribute(o.text(i));
        let types = (first..name).filter(|i| is_type(*i)).count();
        let inner = open + 1..close;
        let bare_names = !inner.is_empty()
            && inner.clone().enumerate().all(|(k, i)| {
                if k % 2 == 0 {
                    o.is_word(i) && !is_type_keyword(o.text(i))
                } else {
                    o.is(i, ",")
                }
            });
        let empty = inner.is_empty() || (inner.len() == 1 && o.is(inner.start, "void"));
        let shouts = shouts(name);
        // `int NAME(x)(int a) {`, but not `int (name)(int a) {`
        let curried = name >= 2
            && o.is(name - 1, "(")
            && open == name + 2
            && is_type(name - 2)
            && !is_type_keyword(o.text(name - 2))
            && (first..name - 2).any(is_type);
        let named_by_macro = !self.block.old_style
            && ((types == 0 && (shouts || !empty)) || (bare_names && shouts) || curried);
        let plain = (first..name).all(|i| o.is_word(i) || o.is(i, "*"))
            && (open == name + 1 || wrapped)
            && (!self.block.old_style || bare_names || wrapped);
        Some(Guess {
            first,
            name,
            open,
            close,
            types,
            bare_names,
            named_by_macro,
            plain,
        })
    }

    /// The first token of the definition: after leading `MACRO(...)` and leading words in capitals
    /// that have their line for themselves, which may belong to what comes before (`END_TEST`) and
    /// stay where they are either way. Something must be left to be the type.
    fn first(&self, tokens: &Range<usize>, name: usize) -> usize {
        let o = self.o;
        let has_type = |from: usize| {
            (from..name)
                .any(|i| o.is_word(i) && !is_specifier(o.text(i)) && !is_attribute(o.text(i)))
        };
        let mut first = tokens.start;
        while first + 1 < name
            && o.is_word(first)
            && !is_attribute(o.text(first))
            && !is_type_keyword(o.text(first))
        {
            let last = if o.is(first + 1, "(") {
                o.closing(first + 1, name)
            } else {
                let word = o.text(first);
                let gap = o.tokens[first].end..o.tokens[first + 1].start;
                let alone = o.source[gap].contains(&b'\n');
                (alone && !is_specifier(word) && !word.iter().any(u8::is_ascii_lowercase))
                    .then_some(first)
            };
            match last {
                Some(last) if has_type(last + 1) => first = last + 1,
                _ => break,
            }
        }
        first
    }
}

/// What tokens say about a head. All are token numbers.
pub(super) struct Guess {
    pub(super) first: usize,
    pub(super) name: usize,
    pub(super) open: usize,
    pub(super) close: usize,
    /// Words before the name that can be (part of) a type.
    pub(super) types: usize,
    /// The parameters are names only: old style, or a macro's arguments.
    pub(super) bare_names: bool,
    pub(super) named_by_macro: bool,
    /// `words and stars name ( ... ) {`
    pub(super) plain: bool,
}

/// The one function definition of a tree. Ranges are bytes of the parsed text.
pub(super) struct Found {
    pub(super) name: Range<usize>,
    pub(super) parameters: Range<usize>,
    pub(super) body: Range<usize>,
}

fn at_root(definition: Node<'_>, root: Node<'_>) -> bool {
    let mut around = definition.parent();
    while let Some(node) = around {
        if node.id() == root.id() {
            return true;
        }
        if !matches!(
            node.kind(),
            "template_declaration" | "linkage_specification"
        ) {
            return false;
        }
        around = node.parent();
    }
    false
}

/// Runs `functions.scm`; nothing unless there is exactly one definition at the root, where a template
/// and a linkage may be around it.
pub(super) fn definition(language: &Language, root: Node<'_>, text: &[u8]) -> Option<Found> {
    let compiled = &language.queries().functions;
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches(&compiled.query, root, text);
    let mut definitions: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let mut names: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    while let Some(m) = matches.next() {
        let capture = |wanted: &str| {
            m.captures()
                .iter()
                .find(|c| compiled.capture(c.index) == wanted)
                .map(|c| c.node)
        };
        if let (Some(d), Some(declarator), Some(body)) = (
            capture("definition"),
            capture("declarator"),
            capture("body"),
        ) && at_root(d, root)
        {
            definitions.push((declarator.byte_range(), body.byte_range()));
        } else if let (Some(name), Some(parameters)) = (capture("name"), capture("parameters")) {
            names.push((name.byte_range(), parameters.byte_range()));
        }
    }
    let [(declarator, body)] = definitions.as_slice() else {
        return None;
    };
    // The first name inside the declarator: names among its parameters come later.
    let (name, parameters) = names
        .into_iter()
        .filter(|(n, _)| declarator.start <= n.start && n.end <= declarator.end)
        .min_by_key(|(n, _)| n.start)?;
    Some(Found {
        name,
        parameters,
        body: body.clone(),
    })
}
