//! Two extractors side by side: what this program's own reading finds in a file against what
//! libclang finds there. Matched by position; every definition of either side ends up in one
//! place, and what only one side has, has a reason.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::compiled::{self, ExtractDoc, Found};
use super::inputs::{Settings, Subject};
use super::population::{self, Selected};
use crate::engine::{Db, Hold};
use crate::lang::{self, FileFunctions, Intersection, Language, LanguageId, Reality};

/// What libclang says of one file, beside the file's own reading.
#[derive(Debug, Default)]
pub(super) struct View {
    /// For each definition of the file's own reading: libclang has it too.
    pub seen: Vec<Option<Seen>>,
    /// What only libclang has, in order of position.
    pub foreign: Vec<Foreign>,
}

/// How libclang has a definition of the file's own reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// The same bytes.
    Alike,
    /// The same, without macros in front that stand for nothing.
    WithoutMacros,
    /// It starts earlier or ends elsewhere.
    Otherwise,
}

/// A definition that only libclang has.
#[derive(Debug)]
pub(super) struct Foreign {
    /// The name that the compiler sees.
    pub name: String,
    /// The line of the name.
    pub line: usize,
    /// The units it is in, by number.
    pub units: Vec<usize>,
    /// What a variant would replace, or why nothing can.
    pub span: Result<Range<usize>, &'static str>,
    /// Its bytes as libclang gives them.
    bytes: Range<usize>,
}

/// Compares one file.
pub(super) fn view(
    language: &Language,
    found: &FileFunctions,
    source: &[u8],
    path: &str,
    documents: &[ExtractDoc],
) -> View {
    let mut view = View {
        seen: vec![None; found.definitions.len()],
        foreign: Vec::new(),
    };
    for (definition, units) in compiled::in_file(documents, path) {
        let f = &definition.found;
        let bytes = f.start as usize..f.end as usize;
        let own = found
            .definitions
            .iter()
            .position(|d| d.name_range.contains(&(f.name_at as usize)));
        if let Some(k) = own.filter(|_| !f.body_in_macro) {
            let d = &found.definitions[k].definition;
            view.seen[k] = Some(if *d == bytes {
                Seen::Alike
            } else if d.end == bytes.end && d.start < bytes.start {
                Seen::WithoutMacros
            } else {
                Seen::Otherwise
            });
            continue;
        }
        view.foreign.push(Foreign {
            name: f.name.clone(),
            line: f.line as usize,
            units,
            span: span(language, found, source, f),
            bytes,
        });
    }
    // Two views of one place, by units with other macros: neither can be replaced for both.
    let taken: Vec<Range<usize>> = found.definitions.iter().map(|d| d.span.clone()).collect();
    let all: Vec<Range<usize>> = view.foreign.iter().map(|f| f.bytes.clone()).collect();
    for (k, foreign) in view.foreign.iter_mut().enumerate() {
        let Ok(own) = foreign.span.clone() else {
            continue;
        };
        let meets = |r: &Range<usize>| r.start < own.end && own.start < r.end;
        let others = all.iter().enumerate().filter(|(j, _)| *j != k);
        if taken.iter().any(meets) || others.map(|(_, r)| r).any(meets) {
            foreign.span = Err("overlapping");
        }
    }
    view
}

/// What a variant of a function that only libclang has would replace, or why it cannot be asked
/// about: its own text, alone, must be a definition of its name, and that text must be in the file
/// once, since that is how its place is found again. What surrounds a function in C++ is part of its
/// name, and libclang's word alone does not say how this program would call it.
fn span(
    language: &Language,
    found: &FileFunctions,
    source: &[u8],
    f: &Found,
) -> Result<Range<usize>, &'static str> {
    let (start, end) = (f.start as usize, f.end as usize);
    let name_at = f.name_at as usize;
    let spelt = source
        .get(name_at..)
        .is_some_and(|rest| rest.starts_with(f.name.as_bytes()));
    let brace = |at: usize, brace: u8| source.get(at) == Some(&brace);
    let whole = brace(f.body_at as usize, b'{') && end > start && brace(end - 1, b'}');
    if f.name_in_macro || f.body_in_macro || !f.one_file || !spelt || !whole {
        return Err("macro_defined");
    }
    if language.id() != LanguageId::C {
        return Err("not_c");
    }
    let span = lang::with_comment(language.id(), source, start)..end;
    let text = &source[span.clone()];
    if lang::alone(&lang::functions(language, text), &f.name).is_none() {
        let line = f.line as usize;
        let covering = found
            .skipped
            .iter()
            .find(|s| (s.lines.0..=s.lines.1).contains(&line));
        return Err(match covering.map(|s| s.reason) {
            Some(lang::SkipReason::SplitByIfdef) => "split_by_ifdef",
            Some(lang::SkipReason::MacroDefined) => "macro_defined",
            Some(lang::SkipReason::ParseError) | None => "parse_error",
        });
    }
    match lang::occurrences(source, text).len() {
        1 => Ok(span),
        _ => Err("repeated_text"),
    }
}

/// Why a function that the file's own reading has is not in a population of libclang's; nothing
/// if it is.
pub(super) fn missing(
    reality: &Reality,
    seen: Option<Seen>,
    documents: &[ExtractDoc],
) -> Option<&'static str> {
    match (reality, seen) {
        (Reality::NotCompiled, None) => Some("not_compiled"),
        // What the subject's own compiler leaves out cannot fail to build.
        (Reality::NotCompiled, Some(_)) => Some("only_clang_compiles"),
        (Reality::Compiled { .. }, Some(Seen::Otherwise)) => Some("differing_range"),
        (Reality::Compiled { .. }, Some(_)) => None,
        (Reality::Compiled { units, .. }, None) => {
            let trouble = |n: &usize| documents[*n].lost.is_some() || documents[*n].errors > 0;
            Some(if units.iter().any(|n| documents[*n].lost.is_some()) {
                "unit_lost"
            } else if units.iter().any(trouble) {
                "unit_with_errors"
            } else {
                "not_compiled_by_clang"
            })
        }
    }
}

/// Both extractors on a subject: counts of definitions in the files that the manifest selects,
/// before the window of tokens.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Comparison {
    /// The subject.
    pub subject: String,
    /// Units that libclang was asked about.
    pub units: u64,
    /// Definitions that both have, with the same text.
    pub both: u64,
    /// Of these, how many have macros in front that stand for nothing, which libclang leaves out
    /// and the text keeps.
    pub with_empty_macros: u64,
    /// Definitions with another range.
    pub differing: u64,
    /// Only in the tree-sitter extractor, by reason.
    pub only_tree_sitter: BTreeMap<String, u64>,
    /// Only in libclang, by reason; `asked` are those that a population of libclang's has.
    pub only_libclang: BTreeMap<String, u64>,
    /// Functions in the populations: by tree-sitter, by libclang.
    pub populations: [u64; 2],
    /// Units that libclang could not read, and why.
    pub lost: BTreeMap<String, String>,
    /// Units with errors, and the first.
    pub errors: BTreeMap<String, String>,
    /// Flags that were left out, with how many commands had them.
    pub dropped: BTreeMap<String, u64>,
    /// What only one side has, or has otherwise, but for what is not compiled:
    /// `path:line name: reason`.
    pub listed: Vec<String>,
}

/// Compares the extractors on a subject, whichever it uses.
pub fn comparison(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Comparison, Hold> {
    let (_, documents) = compiled::documents(db, subject)?;
    let (_, base) = population::base(db, subject, population::FlavourArg::Plain)?;
    let mut out = Comparison {
        subject: subject.rules(db).name.clone(),
        units: documents.len() as u64,
        ..Comparison::default()
    };
    let units = base.units.iter().filter(|u| !u.harness);
    for (unit, doc) in units.zip(documents.iter()) {
        if let Some(why) = &doc.lost {
            out.lost.insert(unit.source.clone(), why.clone());
        }
        if let Some(error) = &doc.first_error {
            let error = format!("{} errors: {error}", doc.errors);
            out.errors.insert(unit.source.clone(), error);
        }
        for flag in &doc.dropped {
            *out.dropped.entry(flag.clone()).or_default() += 1;
        }
    }
    for file in population::selected(db, settings, subject)? {
        let Selected {
            path,
            source,
            found,
            both,
            ..
        } = &file;
        let language = population::language(db, settings, file.language)?.0;
        let view = view(&language, found, source, path, &documents);
        out.add(path, both, &view, &documents);
    }
    use crate::subject::Extractor::{Libclang, TreeSitter};
    for (at, extractor) in [TreeSitter, Libclang].into_iter().enumerate() {
        let made = population::by(db, settings, subject, extractor)?;
        out.populations[at] = made.functions.len() as u64;
    }
    Ok(out)
}

impl Comparison {
    fn add(&mut self, path: &str, both: &Intersection, view: &View, documents: &[ExtractDoc]) {
        for ((definition, reality), seen) in both.definitions.iter().zip(&view.seen) {
            let place = format!("{path}:{} {}", definition.line, definition.name);
            match missing(reality, *seen, documents) {
                None => {
                    self.both += 1;
                    self.with_empty_macros += u64::from(*seen == Some(Seen::WithoutMacros));
                }
                Some("differing_range") => {
                    self.differing += 1;
                    self.listed.push(format!("{place}: differing_range"));
                }
                Some(reason) => {
                    *self.only_tree_sitter.entry(reason.into()).or_default() += 1;
                    if reason != "not_compiled" {
                        self.listed
                            .push(format!("{place}: only tree-sitter, {reason}"));
                    }
                }
            }
        }
        for foreign in &view.foreign {
            let reason = foreign.span.as_ref().err().copied().unwrap_or("asked");
            *self.only_libclang.entry(reason.into()).or_default() += 1;
            let place = format!("{path}:{} {}", foreign.line, foreign.name);
            self.listed
                .push(format!("{place}: only libclang, {reason}"));
        }
    }
}
