//! From the code in a model's reply to the bytes that replace a function, or to the reason why it
//! is not the function that was asked for. Code that is wrong is not refused here: it is the
//! compiler that says so. Refused is what would be unfair to compile (another function) or would
//! reach beyond the function's own bytes (directives, an open comment).
//!
//! The rules (ours; the paper is silent):
//! - Exactly one definition of the name. Further definitions are helpers and stay where they are,
//!   prototypes of them or of the function too; `main` and everything else at top level is refused.
//! - `#include` lines are dropped and noted: a function is spliced into a file that has its
//!   headers. Any other directive outside of a body is refused.
//! - A definition the grammar cannot read, or whose braces do not close, is taken as it is.
//! - A comment directly before the definition replaces the original's; without one the original
//!   comment stays.
//! - Line ends become those of the file.
//! - In C++ the name must be written with at least as much of its path as in the original: a member
//!   defined outside of its class stays one. Of several overloads the one with as many parameters
//!   is meant, the others are helpers; a single one with another number of parameters is refused,
//!   since it would stand beside what it should replace. Helpers of a function that is defined in
//!   its class become members, which is for the compiler to accept; a namespace or a class around
//!   the function is refused, since it would open another place.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::functions::{
    Definition, FileFunctions, SkipReason, lossy, of_outline, path_of, place_of,
};
use super::language::Language;
use super::lex::{Dialect, Kind, directive_word, lex};
use super::outline::{Outline, Top};
use super::words::is_statement_keyword;

/// The text a model wrote for a function, ready to be spliced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// What replaces [`Definition::span`].
    pub text: Vec<u8>,
    /// Definitions besides the one asked for.
    pub helpers: usize,
    /// What was left out or done to the reply's code, in order.
    pub notes: Vec<Note>,
}

/// Something done to a reply's code on its way to a variant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// An `#include` line was dropped.
    DroppedInclude(String),
    /// Line ends were changed to those of the file.
    LineEnds,
    /// The reply has no comment before the function: the original one stays.
    KeptComment,
    /// The code cannot be read; it is spliced as it is.
    NotRead,
}

/// Why code is not the function that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// No function definition at all.
    #[error("no function definition in the code")]
    NoDefinition,
    /// Definitions, but none of the name asked for.
    #[error("the code defines `{found}`, not `{asked}`")]
    WrongName {
        /// The name asked for.
        asked: String,
        /// The first name found.
        found: String,
    },
    /// The name is defined more than once.
    #[error("the code defines `{0}` more than once")]
    DuplicateDefinition(String),
    /// A function of that name for other arguments.
    #[error("the code defines `{name}` with {found} parameters; the one asked for has {asked}")]
    OtherOverload {
        /// The name asked for.
        name: String,
        /// Parameters of the one asked for.
        asked: usize,
        /// Parameters of the one found.
        found: usize,
    },
    /// Something at top level that is neither the function nor a helper function.
    #[error("more than the function: {kind} (`{text}`)")]
    ExtraItem {
        /// What it is.
        kind: ExtraKind,
        /// Its first line.
        text: String,
    },
    /// The code would change more of the file than the function.
    #[error("the code would reach beyond its place in the file: {0}")]
    Unparsable(String),
}

/// What a thing at top level is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraKind {
    /// A `main` function.
    Main,
    /// `typedef`, `struct`, `union` or `enum`.
    Type,
    /// A variable, or a prototype of something that is not in the code.
    Declaration,
    /// A preprocessor line other than `#include`.
    Directive,
    /// `extern "C"`.
    Linkage,
    /// A namespace or a class around something.
    Scope,
    /// Anything else.
    Other,
}

impl std::fmt::Display for ExtraKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ExtraKind::Main => "main",
            ExtraKind::Type => "type",
            ExtraKind::Declaration => "declaration",
            ExtraKind::Directive => "directive",
            ExtraKind::Linkage => "linkage",
            ExtraKind::Scope => "namespace or class",
            ExtraKind::Other => "other",
        })
    }
}

/// Decides whether `code`, taken from a reply, is the function `asked` of `source`, and makes the
/// text that replaces [`Definition::span`] of it.
///
/// # Errors
/// [`Refusal`]: it is not the function asked for, by the rules at the top of this file.
pub fn variant_of(
    language: &Language,
    asked: &Definition,
    source: &[u8],
    code: &[u8],
) -> Result<Variant, Refusal> {
    let mut notes = Vec::new();
    let code = code.trim_ascii();
    let fitted = fit_line_ends(source, code);
    if fitted != code {
        notes.push(Note::LineEnds);
    }
    let place = place_of(language.id(), asked);
    let o = Outline::within(language.id(), &fitted, place);
    if o.open_comment {
        return Err(Refusal::Unparsable("a comment does not end".to_string()));
    }
    if !o.conditionals_balance(0..o.tokens.len()) {
        return Err(Refusal::Unparsable(
            "`#if` and `#endif` do not match".to_string(),
        ));
    }
    let found = of_outline(language, &o);
    let (start, commented, helpers) = match target(&o, &found, asked, source)? {
        Target::Read(d) => {
            check_items(&o, &found, &asked.name)?;
            let commented = d.span.start < d.definition.start;
            (d.definition.start, commented, found.definitions.len() - 1)
        }
        Target::NotRead => {
            notes.push(Note::NotRead);
            let start = first_item(&o);
            let commented = o.comments.first().is_some_and(|c| c.start < start);
            (start, commented, 0)
        }
    };
    let mut changes: Vec<(Range<usize>, &[u8])> = includes(&o, &mut notes)
        .into_iter()
        .map(|r| (r, &b""[..]))
        .collect();
    let comment = source
        .get(asked.span.start..asked.definition.start)
        .unwrap_or_default();
    if !commented && !comment.is_empty() {
        notes.push(Note::KeptComment);
        let at = changes.partition_point(|(r, _)| r.end <= start);
        changes.insert(at, (start..start, comment));
    }
    let mut text = changed(&fitted, &changes).trim_ascii().to_vec();
    // A trailing `// comment` must not swallow what follows on the line in the file.
    let line_comment = o
        .comments
        .last()
        .is_some_and(|c| c.end == fitted.len() && c.text(&fitted).starts_with(b"//"));
    let ends_with_directive = o
        .tokens
        .last()
        .is_some_and(|t| t.end == fitted.len() && t.kind == Kind::Directive);
    if line_comment || ends_with_directive {
        text.push(b'\n');
    }
    Ok(Variant {
        text,
        helpers,
        notes,
    })
}

enum Target<'f> {
    Read(&'f Definition),
    NotRead,
}

/// Finds the definition asked for.
fn target<'f>(
    o: &Outline<'_>,
    found: &'f FileFunctions,
    asked: &Definition,
    source: &[u8],
) -> Result<Target<'f>, Refusal> {
    let path = path_of(&asked.name);
    let own = path.last().copied().unwrap_or_default();
    let mut named: Vec<&Definition> = found
        .definitions
        .iter()
        .filter(|d| is_asked(d, asked, &path))
        .collect();
    let torn = found
        .skipped
        .iter()
        .filter(|s| {
            let name = s.name.as_deref();
            name.is_some_and(|n| path_of(n).last() == Some(&own))
        })
        .count();
    let name = || asked.name.clone();
    if o.language.may_overload() {
        let wanted = parameters(source, &asked.parameters);
        let count = |d: &Definition| parameters(o.source, &d.parameters);
        let first = named.first().map(|d| count(d));
        named.retain(|d| count(d) == wanted);
        if let (true, Some(found)) = (named.is_empty(), first) {
            return Err(Refusal::OtherOverload {
                name: name(),
                asked: wanted,
                found,
            });
        }
    }
    match (named.as_slice(), torn) {
        ([d], 0) => return Ok(Target::Read(d)),
        ([_, ..], _) => return Err(Refusal::DuplicateDefinition(name())),
        ([], 1) => return Ok(Target::NotRead),
        ([], n) if n > 1 => return Err(Refusal::DuplicateDefinition(name())),
        _ => {}
    }
    let defined = |d: &Definition| path_of(&d.name).last() == Some(&own);
    if !found.definitions.iter().any(defined) && mentions_head(o, own) {
        return Ok(Target::NotRead);
    }
    let other = found
        .definitions
        .first()
        .map(|d| d.name.clone())
        .or_else(|| found.skipped.iter().find_map(|s| s.name.clone()));
    Err(match other {
        Some(found) => Refusal::WrongName {
            asked: name(),
            found,
        },
        None => Refusal::NoDefinition,
    })
}

/// Whether a definition is that of the function asked for: by its name in the same place, or with
/// more of the path than is needed there, which is for the compiler to accept.
fn is_asked(d: &Definition, asked: &Definition, path: &[&str]) -> bool {
    let own = path_of(&d.name);
    let written = &own[own.len() - d.written.min(own.len())..];
    d.name == asked.name || (d.written >= asked.written && path.ends_with(written))
}

/// The number of parameters between the brackets in `range` of `text`.
fn parameters(text: &[u8], range: &Range<usize>) -> usize {
    let list = text.get(range.clone()).unwrap_or_default();
    let tokens = lex(Dialect::default(), list).tokens;
    let tokens: Vec<&[u8]> = tokens
        .iter()
        .filter(|t| t.kind != Kind::Comment)
        .map(|t| t.text(list))
        .collect();
    let mut depth = 0isize;
    let mut commas = 0;
    for token in &tokens {
        match *token {
            b"(" | b"[" | b"{" | b"<" => depth += 1,
            b")" | b"]" | b"}" | b">" => depth -= 1,
            b">>" => depth -= 2,
            b"," if depth == 1 => commas += 1,
            _ => {}
        }
    }
    match tokens.as_slice() {
        [] | [_] | [_, _] | [_, b"void", _] => 0,
        _ => commas + 1,
    }
}

/// Whether, outside of all braces that close, `asked (` occurs with a brace after it before any
/// semicolon: a head nothing could be made of.
fn mentions_head(o: &Outline<'_>, asked: &str) -> bool {
    let outside = o.items.iter().filter_map(|item| match item {
        Top::Declaration(range) => Some(range.clone()),
        Top::Function(b) | Top::Block(b) => Some(b.head.start..b.open + 1),
        _ => None,
    });
    let mut named = false;
    for range in outside {
        for i in range {
            if o.is(i, asked) && o.is(i + 1, "(") {
                named = true;
            } else if o.is(i, ";") {
                named = false;
            } else if named && o.is(i, "{") {
                return true;
            }
        }
    }
    false
}

/// Refuses everything at top level but the function, its helpers and their prototypes.
fn check_items(o: &Outline<'_>, found: &FileFunctions, asked: &str) -> Result<(), Refusal> {
    let extra = |kind: ExtraKind, token: usize| {
        let rest = o
            .tokens
            .get(token)
            .map_or(&b""[..], |t| &o.source[t.start..]);
        let line = rest.split(|c| *c == b'\n').next().unwrap_or_default();
        Refusal::ExtraItem {
            kind,
            text: lossy(line.trim_ascii()).chars().take(80).collect(),
        }
    };
    let own = |name: &str| path_of(name).last().is_some_and(|n| *n == "main");
    if !own(asked) && found.definitions.iter().any(|d| own(&d.name)) {
        let at = o.tokens.iter().position(|t| t.is(o.source, "main"));
        return Err(extra(ExtraKind::Main, at.unwrap_or(0)));
    }
    if let Some(skipped) = found.skipped.first() {
        let at = o.tokens.partition_point(|t| t.start < skipped.span.start);
        return Err(match skipped.reason {
            SkipReason::SplitByIfdef => extra(ExtraKind::Directive, at),
            _ => extra(ExtraKind::Other, at),
        });
    }
    for item in &o.items {
        match item {
            Top::Function(b) => {
                // Macros before the definition are the model's own; directives are not.
                let start = o.tokens[b.open].start;
                let d = found.definitions.iter().find(|d| d.body.start == start);
                let before = |i: &usize| d.is_none_or(|d| o.tokens[*i].start < d.definition.start);
                let directive = b
                    .head
                    .clone()
                    .find(|i| before(i) && o.kind(*i) == Some(Kind::Directive));
                if let Some(i) = directive {
                    return Err(extra(ExtraKind::Directive, i));
                }
            }
            Top::Directive(i) if is_include(o, *i) => {}
            Top::Directive(i) => return Err(extra(ExtraKind::Directive, *i)),
            Top::Linkage(range) => return Err(extra(ExtraKind::Linkage, range.start)),
            Top::Scope(range) => return Err(extra(ExtraKind::Scope, range.start)),
            Top::Block(b) => return Err(extra(ExtraKind::Other, b.head.start)),
            Top::Declaration(range) if is_prototype(o, range, found) => {}
            Top::Declaration(range) => return Err(extra(kind_of(o, range), range.start)),
            // A stray `}` is an error the compiler will name; `;` is none.
            Top::Empty(_) | Top::Closing(_) => {}
        }
    }
    Ok(())
}

fn kind_of(o: &Outline<'_>, range: &Range<usize>) -> ExtraKind {
    let ends = range.end > 0 && o.is(range.end - 1, ";");
    let aggregate = matches!(
        o.text(range.start),
        b"typedef" | b"struct" | b"union" | b"enum" | b"class" | b"using"
    );
    match (aggregate, ends) {
        (true, _) => ExtraKind::Type,
        (false, true) if !is_statement_keyword(o.text(range.start)) => ExtraKind::Declaration,
        _ => ExtraKind::Other,
    }
}

fn is_prototype(o: &Outline<'_>, range: &Range<usize>, found: &FileFunctions) -> bool {
    let name = range
        .clone()
        .find(|i| o.is_word(*i) && o.is(i + 1, "("))
        .map(|i| lossy(o.text(i)));
    let plain = !range
        .clone()
        .any(|i| matches!(o.text(i), b"=" | b"{" | b"typedef"));
    plain
        && o.is(range.end.saturating_sub(1), ";")
        && name.is_some_and(|n| {
            let mut defined = found.definitions.iter();
            defined.any(|d| path_of(&d.name).last() == Some(&n.as_str()))
        })
}

fn is_include(o: &Outline<'_>, i: usize) -> bool {
    o.kind(i) == Some(Kind::Directive) && directive_word(o.text(i)).0 == b"include"
}

/// The top-level `#include`s, each with its line end.
fn includes(o: &Outline<'_>, notes: &mut Vec<Note>) -> Vec<Range<usize>> {
    let mut dropped = Vec::new();
    for item in &o.items {
        let Top::Directive(i) = item else { continue };
        if is_include(o, *i) {
            let token = o.tokens[*i];
            notes.push(Note::DroppedInclude(lossy(
                token.text(o.source).trim_ascii(),
            )));
            let newline = o.source[token.end..].iter().position(|c| *c == b'\n');
            let end = newline.map_or(o.source.len(), |n| token.end + n + 1);
            dropped.push(token.start..end);
        }
    }
    dropped
}

/// `text` with disjoint, sorted ranges replaced.
fn changed(text: &[u8], changes: &[(Range<usize>, &[u8])]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for (r, replacement) in changes {
        out.extend_from_slice(&text[at..r.start]);
        out.extend_from_slice(replacement);
        at = r.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Start of the first token that is not an `#include`.
fn first_item(o: &Outline<'_>) -> usize {
    (0..o.tokens.len())
        .find(|i| !is_include(o, *i))
        .map_or(0, |i| o.tokens[i].start)
}

/// `code` with the line ends most lines of `source` have.
fn fit_line_ends(source: &[u8], code: &[u8]) -> Vec<u8> {
    let newlines = source.iter().filter(|c| **c == b'\n').count();
    let crlf = source.windows(2).filter(|w| w == b"\r\n").count();
    let wants_crlf = crlf * 2 > newlines;
    let mut out = Vec::with_capacity(code.len());
    let mut rest = code.iter().peekable();
    while let Some(c) = rest.next() {
        let newline = match c {
            b'\r' => {
                rest.next_if(|n| **n == b'\n');
                true
            }
            b'\n' => true,
            _ => false,
        };
        match (newline, wants_crlf) {
            (true, true) => out.extend_from_slice(b"\r\n"),
            (true, false) => out.push(b'\n'),
            (false, _) => out.push(*c),
        }
    }
    out
}
