//! The functions a source file defines, with the exact bytes a variant replaces, and everything
//! that looks like a function and is left out, with the reason. Works on bytes and decodes
//! nothing; a function depends on its own text only, never on how well the rest of the file
//! parses.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tree_sitter::Node;

use super::facts::{Family, LanguageId};
use super::head::{Head, head};
use super::language::Language;
use super::lex::{Kind, Lines, Token};
use super::outline::{Block, Outline, Place, Top};

/// What [`functions`] finds in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FileFunctions {
    /// In order of position, spans disjoint.
    pub definitions: Vec<Definition>,
    /// What looks like a function and is none that can be replaced, in order of position.
    pub skipped: Vec<Skipped>,
}

/// One function definition. All ranges are bytes of the file; lines count from 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// The function's name; in C++ with the namespaces and classes it is in, without template
    /// arguments: `shop::Basket::add`. Overloads share it.
    pub name: String,
    /// Rank among the definitions of that name in this file, from 0. With the name it is the
    /// function's identity for drawing and history.
    pub ordinal: usize,
    /// What a variant replaces: [`definition`](Self::definition) and the comment directly before.
    pub span: Range<usize>,
    /// From the first specifier to the closing brace.
    pub definition: Range<usize>,
    /// From the opening to the closing brace, both included. Initialisers of a constructor come
    /// before it and handlers of a function's `try` behind it.
    pub body: Range<usize>,
    /// From the first specifier to the last parameter (old style: parameter declaration).
    pub signature: Range<usize>,
    /// The name in the declarator, with the part of its path that is written there.
    pub name_range: Range<usize>,
    /// How many parts of the path that are.
    pub written: usize,
    /// From the opening to the closing bracket of the parameters.
    pub parameters: Range<usize>,
    /// Line of the name, which is what the preprocessor's line markers lead to.
    pub line: usize,
    /// Line of the first byte of the span.
    pub span_line: usize,
    /// Has internal linkage by its own words.
    pub is_static: bool,
    /// Parameters are declared between the parentheses and the body, as before 1989.
    pub old_style: bool,
    /// Takes `...`.
    pub variadic: bool,
    /// White-space separated words of the span, comment included: the unit of the token window.
    pub tokens: usize,
    /// A preprocessor line is inside the definition.
    pub has_directives: bool,
    /// Places in the body the grammar cannot make sense of (macros, mostly). Name and extent are
    /// certain all the same.
    pub errors: usize,
}

/// Something that looks like a function and is left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Skipped {
    /// Its bytes, as far as they can be known.
    pub span: Range<usize>,
    /// Its first and last line, from 1.
    pub lines: (usize, usize),
    /// The name it seems to have.
    pub name: Option<String>,
    /// Why.
    pub reason: SkipReason,
}

/// Why something that looks like a function is left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its head or its braces are spread over branches of conditionals.
    SplitByIfdef,
    /// A macro makes its head, so that its name or type is not in the text.
    MacroDefined,
    /// Its head is not C, or its braces never close.
    ParseError,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::SplitByIfdef => "split_by_ifdef",
            SkipReason::MacroDefined => "macro_defined",
            SkipReason::ParseError => "parse_error",
        })
    }
}

/// The functions defined in `source`, which may be any bytes.
pub fn functions(language: &Language, source: &[u8]) -> FileFunctions {
    of_outline(language, &Outline::of(language.id(), source))
}

/// The same for texts that are only shown and compared: how well the grammar understands bodies is
/// left out (`errors` is 0), which is most of the work.
pub(super) fn delimited(language: &Language, source: &[u8]) -> FileFunctions {
    let o = Outline::of(language.id(), source);
    read_all(language, &o, false, &HashSet::new())
}

/// The same of two sides of a text, without what stands on both with the same text in the same place:
/// reading heads is most of what is left of the work, and they would be equal.
pub(super) fn differing(language: &Language, sides: [&Outline<'_>; 2]) -> [FileFunctions; 2] {
    let [old, new] = common(sides);
    [
        read_all(language, sides[0], false, &old),
        read_all(language, sides[1], false, &new),
    ]
}

/// The blocks, by their opening braces, that stand on both sides, each as often as on either.
fn common([before, after]: [&Outline<'_>; 2]) -> [HashSet<usize>; 2] {
    let text = |o: &Outline<'_>, block: &Block| {
        o.tokens[block.head.start.min(block.open)].start..o.tokens[block.end].end
    };
    // What conditionals split is read on either side: other functions of its name are told of it.
    let blocks = |o: &Outline<'_>| -> Vec<Block> {
        let all = o.items.iter().filter_map(|item| match item {
            Top::Function(block) | Top::Block(block) if !block.split => Some(block.clone()),
            _ => None,
        });
        all.collect()
    };
    let mut known: HashMap<(&[u8], Arc<Place>), Vec<usize>> = HashMap::new();
    for block in blocks(before).into_iter().rev() {
        let key = (&before.source[text(before, &block)], block.place);
        known.entry(key).or_default().push(block.open);
    }
    let mut both = [HashSet::new(), HashSet::new()];
    for block in blocks(after) {
        let key = (&after.source[text(after, &block)], block.place);
        if let Some(open) = known.get_mut(&key).and_then(Vec::pop) {
            both[0].insert(open);
            both[1].insert(block.open);
        }
    }
    both
}

/// The function called `name` in `text`, its own text as a file has it: what stood around it says
/// where the parts of its name come from that are not written in it.
pub fn function_alone(language: &Language, text: &[u8], name: &str) -> Option<Definition> {
    places(language.id(), name).into_iter().find_map(|place| {
        let o = Outline::within(language.id(), text, place);
        let found = of_outline(language, &o);
        found.definitions.into_iter().find(|d| d.name == name)
    })
}

/// The places in which a text can define a function called `name`, the innermost first.
fn places(language: LanguageId, name: &str) -> Vec<Place> {
    if language.facts().family == Family::C {
        return vec![Place::default()];
    }
    let parts = path_of(name);
    (0..parts.len())
        .rev()
        .map(|n| Place {
            path: parts[..n].iter().map(|p| p.to_string()).collect(),
            classes: 0,
            in_class: n > 0,
            in_template: false,
        })
        .collect()
}

/// The parts of a name: `a`, `B`, `operator std::string`.
pub(super) fn path_of(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.starts_with("operator")
        && let Some((part, after)) = rest.split_once("::")
    {
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// Whether a symbolizer's `reported` is the function called `name`: in C++ it may have a type before
/// it, template arguments, namespaces without a name, and the types of the parameters behind it.
pub fn is_called(language: LanguageId, reported: &str, name: &str) -> bool {
    if reported == name || language.facts().family == Family::C {
        return reported == name;
    }
    let reported = reported.replace("(anonymous namespace)::", "");
    let own = path_of(name);
    let is_operator = own.last().is_some_and(|n| n.starts_with("operator"));
    if is_operator {
        // Its own signs are brackets to anybody else.
        let at = reported.find(name);
        return at.is_some_and(|at| reported[at + name.len()..].starts_with(['(', '<']));
    }
    let mut depth = 0usize;
    let mut plain = String::new();
    for c in reported.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.rsplit(' ').next() == Some(name)
}

/// The place in which `asked` was found, as far as its name tells.
pub(super) fn place_of(language: LanguageId, asked: &Definition) -> Place {
    let parts = path_of(&asked.name).len();
    let outside = parts.saturating_sub(asked.written);
    let found = places(language, &asked.name);
    let at = found.into_iter().find(|p| p.path.len() == outside);
    at.unwrap_or_default()
}

pub(super) fn of_outline(language: &Language, o: &Outline<'_>) -> FileFunctions {
    read_all(language, o, true, &HashSet::new())
}

/// `judged`: whether bodies are parsed. Blocks in `but`, by their opening braces, are left out.
fn read_all(
    language: &Language,
    o: &Outline<'_>,
    judged: bool,
    but: &HashSet<usize>,
) -> FileFunctions {
    let lines = Lines::of(o.source);
    let mut found = FileFunctions::default();
    let mut ordinals: HashMap<String, usize> = HashMap::new();
    for item in &o.items {
        let (block, is_function) = match item {
            Top::Function(block) => (block, true),
            Top::Block(block) => (block, false),
            _ => continue,
        };
        if but.contains(&block.open) {
            continue;
        }
        match read(language, o, block, is_function) {
            Ok(head) => {
                let mut definition = describe(o, &lines, block, &head);
                if judged {
                    definition.errors = errors(language, &o.source[definition.body.clone()]);
                }
                let ordinal = ordinals.entry(definition.name.clone()).or_default();
                definition.ordinal = *ordinal;
                *ordinal += 1;
                found.definitions.push(definition);
            }
            Err((start, name, reason)) => {
                let span = start..o.tokens[block.end].end.max(start);
                found.skipped.push(Skipped {
                    lines: (lines.line(span.start), lines.line(span.end)),
                    span,
                    name: name.map(|n| lossy(&o.source[n])),
                    reason,
                });
            }
        }
    }
    found
}

type Refused = (usize, Option<Range<usize>>, SkipReason);

fn read(
    language: &Language,
    o: &Outline<'_>,
    block: &Block,
    is_function: bool,
) -> Result<Head, Refused> {
    let first = o.tokens[block.head.start.min(block.open)].start;
    if !is_function {
        let reason = match block.head.is_empty() {
            true => SkipReason::ParseError,
            false => SkipReason::MacroDefined,
        };
        return Err((first, None, reason));
    }
    let head = head(language, o, block, false).map_err(|no| (no.start, no.name, no.reason))?;
    let reason = if block.split {
        SkipReason::SplitByIfdef
    } else if !block.closed {
        SkipReason::ParseError
    } else {
        return Ok(head);
    };
    Err((head.start, Some(head.name), reason))
}

fn describe(o: &Outline<'_>, lines: &Lines, block: &Block, head: &Head) -> Definition {
    let body = o.tokens[block.open].start..o.tokens[block.close].end;
    let definition = head.start..o.tokens[block.end].end;
    let span = leading_comment(o, lines, head.start).unwrap_or(head.start)..definition.end;
    let directive = |t: &Token| {
        t.kind == Kind::Directive && definition.start <= t.start && t.end <= definition.end
    };
    let first = o.tokens.partition_point(|t| t.start < definition.start);
    Definition {
        name: head.called.clone(),
        ordinal: 0,
        line: lines.line(head.name.start),
        span_line: lines.line(span.start),
        is_static: head.is_static,
        old_style: head.old_style,
        variadic: head.variadic,
        tokens: words(&o.source[span.clone()]),
        has_directives: o.tokens[first..=block.end].iter().any(directive),
        errors: 0,
        signature: head.start..head.end,
        name_range: head.name.clone(),
        written: head.written,
        parameters: head.parameters.clone(),
        span,
        definition,
        body,
    }
}

/// Where the comment directly before `at` starts: comments that begin their line and have no blank
/// line between each other or before the definition.
pub(super) fn leading_comment(o: &Outline<'_>, lines: &Lines, at: usize) -> Option<usize> {
    let mut start = None;
    let mut next = at;
    let mut k = o.comments.partition_point(|c| c.start < at);
    while let Some(comment) = k.checked_sub(1).map(|k| o.comments[k]) {
        let between = &o.source[comment.end.min(next)..next];
        let alone = o.source[lines.start_of(comment.start)..comment.start]
            .iter()
            .all(u8::is_ascii_whitespace);
        let newlines = between.iter().filter(|c| **c == b'\n').count();
        if !alone || newlines > 1 || !between.iter().all(u8::is_ascii_whitespace) {
            break;
        }
        start = Some(comment.start);
        next = comment.start;
        k -= 1;
    }
    start
}

/// Words as Python's `str.split()` counts them in ASCII text.
pub(super) fn words(text: &[u8]) -> usize {
    text.split(|c| c.is_ascii_whitespace() || matches!(c, 0x0b | 0x1c..=0x1f))
        .filter(|w| !w.is_empty())
        .count()
}

/// How many places in a body the grammar cannot make sense of.
fn errors(language: &Language, body: &[u8]) -> usize {
    // The head has been judged already, and may hold macros.
    let mut text = b"int f()\n".to_vec();
    let body_at = text.len();
    text.extend_from_slice(body);
    text.push(b'\n');
    let Some(tree) = language.parse(&text) else {
        return 1;
    };
    let mut count = 0;
    visit(tree.root_node(), |node| {
        let wrong = node.is_error() || node.is_missing();
        count += usize::from(wrong && node.end_byte() > body_at);
        node.has_error()
    });
    count
}

/// Visits nodes in order without recursion; `enter` says whether to go on below a node.
pub(super) fn visit<'t>(root: Node<'t>, mut enter: impl FnMut(Node<'t>) -> bool) {
    let mut cursor = root.walk();
    loop {
        if enter(cursor.node()) && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
