//! Preprocessed translation units: which functions the compiler really gets, from which line of
//! which file, and what of a unit a function's verdict can depend on. Reads text only; it never
//! runs a preprocessor.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::functions::lossy;
use super::head::head;
use super::language::Language;
use super::lex::{Kind, Lines, directive_word};
use super::outline::{Outline, Top};
use crate::digest::Digest;

/// A function definition in a preprocessed unit.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CompiledDefinition {
    /// The function's name.
    pub name: String,
    /// The file its name stands in, as the line marker spells it; empty without any marker.
    pub file: String,
    /// The line of its name in that file, from 1.
    pub line: usize,
    /// The definition's bytes in the preprocessed text.
    pub span: Range<usize>,
}

/// The function definitions of a preprocessed unit, headers included, in order.
pub fn compiled_definitions(language: &Language, preprocessed: &[u8]) -> Vec<CompiledDefinition> {
    let o = Outline::of(language.id(), preprocessed);
    let markers = Markers::of(&o);
    bodies(language, &o, &markers)
        .into_iter()
        .map(|b| b.definition)
        .collect()
}

/// A definition with what of it stays when its body is taken away.
struct Body {
    definition: CompiledDefinition,
    /// One past the declarator; before old-style parameter declarations.
    declared: usize,
    /// Others are compiled differently when its body changes: it stays.
    transparent: bool,
}

fn bodies(language: &Language, o: &Outline<'_>, markers: &Markers) -> Vec<Body> {
    let mut found = Vec::new();
    for item in &o.items {
        let Top::Function(block) = item else { continue };
        let Ok(head) = head(language, o, block, true) else {
            continue;
        };
        let (file, line) = markers.place(head.name.start);
        found.push(Body {
            declared: if head.old_style {
                head.parameters.end
            } else {
                head.end
            },
            transparent: head.transparent,
            definition: CompiledDefinition {
                name: head.called,
                file,
                line,
                span: head.start..o.tokens[block.end].end,
            },
        });
    }
    found
}

/// Line markers: from a byte of the preprocessed text to a file and a line.
pub(super) struct Markers {
    lines: Lines,
    /// Line of the preprocessed text after the marker, line it stands for, file.
    marks: Vec<(usize, usize, usize)>,
    files: Vec<String>,
}

impl Markers {
    pub(super) fn of(o: &Outline<'_>) -> Self {
        let lines = Lines::of(o.source);
        let mut files = vec![String::new()];
        let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut marks = Vec::new();
        for token in o.tokens.iter().filter(|t| t.kind == Kind::Directive) {
            let Some((line, path)) = marker(token.text(o.source)) else {
                continue;
            };
            let file = match path {
                None => marks.last().map_or(0, |(_, _, f)| *f),
                Some(path) => *known.entry(path).or_insert_with_key(|path| {
                    files.push(lossy(path));
                    files.len() - 1
                }),
            };
            marks.push((lines.line(token.start) + 1, line, file));
        }
        Markers {
            lines,
            marks,
            files,
        }
    }

    /// The file and line byte `at` comes from.
    pub(super) fn place(&self, at: usize) -> (String, usize) {
        let here = self.lines.line(at);
        match self.marks.partition_point(|(after, _, _)| *after <= here) {
            0 => (String::new(), here),
            n => {
                let (after, line, file) = self.marks[n - 1];
                (self.files[file].clone(), line.saturating_add(here - after))
            }
        }
    }
}

/// The line and, if it names one, the unescaped file of a line marker: `# 12 "a.c" 1 2` or
/// `#line 12 "a.c"`.
pub(super) fn marker(directive: &[u8]) -> Option<(usize, Option<Vec<u8>>)> {
    let (mut word, mut rest) = directive_word(directive);
    if word == b"line" {
        rest = rest.trim_ascii_start();
        let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
        (word, rest) = rest.split_at(digits);
    }
    let line = std::str::from_utf8(word).ok()?.parse().ok()?;
    let Some(quoted) = rest.trim_ascii_start().strip_prefix(b"\"") else {
        return Some((line, None));
    };
    let mut path = Vec::new();
    let mut i = 0;
    while i < quoted.len() && quoted[i] != b'"' {
        let digits = quoted[i + 1..]
            .iter()
            .take(3)
            .take_while(|c| matches!(c, b'0'..=b'7'))
            .count();
        match (quoted[i], digits) {
            (b'\\', 0) => {
                path.extend(quoted.get(i + 1));
                i += 2;
            }
            (b'\\', n) => {
                let octal = quoted[i + 1..i + 1 + n]
                    .iter()
                    .fold(0u32, |value, c| value * 8 + u32::from(c - b'0'));
                path.push(octal as u8);
                i += 1 + n;
            }
            (c, _) => {
                path.push(c);
                i += 1;
            }
        }
    }
    Some((line, Some(path)))
}

/// A preprocessed unit without line markers, blank lines and bodies: what a definition's verdict
/// can depend on besides its own text.
///
/// Editing any function's body changes neither the digest nor an order, unless what is compiled
/// elsewhere can depend on that body (a C++ template, a constant expression, a deduced type); editing a declaration, a
/// type, a signature or a macro that expands outside of bodies changes the digest. So one digest
/// and the order of a function among the unit's definitions stand for the context of each of them.
/// It does not see what a body takes from macros (that is in the function's own preprocessed
/// text), nor `__LINE__` inside bodies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrippedUnit {
    digest: Digest,
    definitions: Vec<CompiledDefinition>,
}

/// Where in which context a function is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Context {
    /// Digest of the stripped unit's text.
    pub digest: Digest,
    /// The function's place among the definitions of the unit, headers included, from 0.
    pub order: usize,
}

impl StrippedUnit {
    /// Strips a preprocessed unit: one pass, whatever the number of its functions.
    pub fn new(language: &Language, preprocessed: &[u8]) -> Self {
        let o = Outline::of(language.id(), preprocessed);
        let bodies = bodies(language, &o, &Markers::of(&o));
        StrippedUnit {
            digest: Digest::of(&strip(&o, &bodies, None)),
            definitions: bodies.into_iter().map(|b| b.definition).collect(),
        }
    }

    /// Digest of the stripped text.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The unit's definitions, in order: what [`compiled_definitions`] gives.
    pub fn definitions(&self) -> &[CompiledDefinition] {
        &self.definitions
    }

    /// The context of the function of this name whose name is on this line of this file; nothing
    /// if the unit does not compile it.
    pub fn context_of(&self, name: &str, file: &str, line: usize) -> Option<Context> {
        self.definitions
            .iter()
            .position(|d| d.line == line && d.name == name && super::same_path(&d.file, file))
            .map(|order| Context {
                digest: self.digest,
                order,
            })
    }
}

/// The text of a stripped unit: line markers and blank lines removed, white space collapsed, every
/// definition but the one that holds byte `keep.start` turned into a declaration. What is kept is
/// kept whole.
pub fn strip_unit(language: &Language, preprocessed: &[u8], keep: Option<Range<usize>>) -> Vec<u8> {
    let o = Outline::of(language.id(), preprocessed);
    let bodies = bodies(language, &o, &Markers::of(&o));
    strip(&o, &bodies, keep)
}

fn strip(o: &Outline<'_>, bodies: &[Body], keep: Option<Range<usize>>) -> Vec<u8> {
    let kept = |b: &Body| {
        keep.as_ref()
            .is_some_and(|k| b.definition.span.contains(&k.start))
    };
    let mut gone = bodies
        .iter()
        .filter(|b| !b.transparent && !kept(b))
        .map(|b| b.declared..b.definition.span.end)
        .peekable();
    let mut out = Vec::with_capacity(o.source.len() / 2);
    let mut last = 0;
    for token in &o.tokens {
        let text = token.text(o.source);
        while gone.next_if(|g| g.end <= token.start).is_some() {}
        if let Some(g) = gone.peek()
            && g.start <= token.start
        {
            // The body's closing brace stands for the semicolon.
            if token.end == g.end {
                out.push(b';');
            }
            last = token.end;
            continue;
        }
        if token.kind == Kind::Directive && marker(text).is_some() {
            continue;
        }
        let between = o.source.get(last..token.start).unwrap_or_default();
        if out.is_empty() {
            // No blank line at the start either.
        } else if between.contains(&b'\n') {
            out.push(b'\n');
        } else if !between.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(text);
        last = token.end;
    }
    out
}
