//! The source files that sanitizers' reports name, as they were compiled, and the lines of them that
//! the reports mean. Where the base was compiled without places (`lang::placeless`) a report tells a
//! line counted from the brace of the function it is in; here it becomes one of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::artifact::{BaseDoc, Replacement};
use super::inputs::{Settings, Subject};
use super::layout::{TREE, in_tree};
use super::population::{self, FlavourArg};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{self, FileFunctions, LanguageId};
use crate::logs::Alert;

/// The files that some reports name, by the names they give them.
pub struct Sources(BTreeMap<String, Source>);

/// A file of the project.
struct Source {
    text: Vec<u8>,
    /// Nothing where reports tell the file's own lines.
    functions: Option<Functions>,
}

/// What is needed to tell which line of a function is meant.
struct Functions {
    language: LanguageId,
    found: Arc<FileFunctions>,
    /// Name and rank of those that are compiled; looked for only where a name occurs twice.
    compiled: BTreeSet<(String, usize)>,
}

impl Sources {
    /// The files that `alerts` name, with `set` spliced in.
    pub fn read(
        db: &dyn Db,
        settings: Settings,
        subject: Subject,
        alerts: &[Alert],
        set: &[Replacement],
    ) -> Result<Sources, Hold> {
        let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
        let names: BTreeSet<&String> = alerts.iter().flat_map(files).collect();
        let mut sources = BTreeMap::new();
        for name in names {
            let Some(named) = tree_path(name) else {
                continue;
            };
            let Some((path, digest)) = population::source(db, subject, &named)? else {
                continue;
            };
            let here: Vec<&Replacement> = set.iter().filter(|r| r.path == path).collect();
            let text = spliced(db, settings, (&path, digest), &here)?;
            let functions = match is_placeless(&doc, &[&named, &path]) {
                true => {
                    let file = (path.as_str(), digest, text.as_slice());
                    Some(functions(db, settings, subject, &doc, file, &here)?)
                }
                false => None,
            };
            sources.insert(name.clone(), Source { text, functions });
        }
        Ok(Sources(sources))
    }

    /// Whether a file that a report names is the project's own.
    pub fn has(&self, file: &str) -> bool {
        self.0.contains_key(file)
    }

    /// A line of a file, from 1, without its end.
    pub fn line(&self, file: &str, line: u32) -> Option<String> {
        let at = line.checked_sub(1)? as usize;
        let line = self.0.get(file)?.text.split(|b| *b == b'\n').nth(at)?;
        Some(String::from_utf8_lossy(line).into_owned())
    }

    /// The report with the lines of its files. A line that is not known is 0: in what a macro makes,
    /// or in a function without a name.
    pub fn placed(&self, alert: &Alert) -> Alert {
        let mut placed = alert.clone();
        for frame in &mut placed.frames {
            let source = frame.file.as_ref().and_then(|file| self.0.get(file));
            if let (Some(source), Some(line)) = (source, frame.line) {
                frame.line = Some(source.placed(frame.function.as_deref(), line));
            }
        }
        if let Some(location) = &mut placed.location
            && let Some(source) = self.0.get(&location.file)
        {
            let file = tree_path(&location.file);
            let same = |other: &Option<String>| other.as_deref().and_then(tree_path) == file;
            let top = alert.frames.iter().find(|frame| same(&frame.file));
            let function = top.and_then(|frame| frame.function.as_deref());
            location.line = source.placed(function, location.line);
        }
        placed
    }
}

impl Source {
    /// The line that is told as `line` in the function that a report calls `called`.
    fn placed(&self, called: Option<&str>, line: u32) -> u32 {
        let Some(functions) = &self.functions else {
            return line;
        };
        let called = called.unwrap_or_default();
        // `f.part.0` is a piece of f.
        let called = match functions.language {
            LanguageId::C => called.split('.').next().unwrap_or_default(),
            _ => called,
        };
        let found = functions.found.definitions.iter();
        let mut candidates: Vec<&lang::Definition> = found
            .filter(|d| lang::is_called(functions.language, called, &d.name))
            .collect();
        let compiled = |d: &&lang::Definition| {
            let of = (d.name.clone(), d.ordinal);
            functions.compiled.contains(&of)
        };
        candidates.sort_by_key(|d| !compiled(d));
        let told = candidates
            .iter()
            .find_map(|d| lang::source_line(&self.text, d, line));
        // A variant that asks for its own place made its unit tell lines as they are.
        let as_it_is = || {
            let has = |d: &&lang::Definition| {
                let before = &self.text[..d.definition.start];
                let inside = &self.text[d.definition.clone()];
                let lines = |text: &[u8]| text.iter().filter(|b| **b == b'\n').count() as u32;
                let first = lines(before) + 1;
                (first..=first + lines(inside)).contains(&line)
            };
            candidates.iter().any(has).then_some(line)
        };
        told.or_else(as_it_is).unwrap_or(0)
    }
}

/// The files that a report names where it says what happened.
fn files(alert: &Alert) -> impl Iterator<Item = &String> {
    let frames = alert.frames.iter().filter_map(|f| f.file.as_ref());
    frames.chain(alert.location.iter().map(|l| &l.file))
}

/// Whether what is compiled of a file, under one of these names, tells lines without places.
fn is_placeless(doc: &BaseDoc, paths: &[&String]) -> bool {
    let mut units = doc.units.iter().filter(|u| u.placed.is_none());
    doc.placeless && units.any(|u| paths.iter().any(|path| u.reads.contains(path)))
}

fn functions(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    doc: &BaseDoc,
    (path, digest, text): (&str, Digest, &[u8]),
    here: &[&Replacement],
) -> Result<Functions, Hold> {
    let manifest = subject.rules(db);
    let own = manifest.functions.language_of(path);
    let language = here.first().map(|r| r.language).or(own);
    let language = language.unwrap_or(LanguageId::C);
    let original =
        || population::file_functions(db, settings, language, population::Text::new(db, digest));
    let found = match here.is_empty() {
        true => original()?,
        false => {
            let read = population::language(db, settings, language)?.0;
            Arc::new(lang::functions(&read, text))
        }
    };
    let mut compiled = BTreeSet::new();
    // Overloads are all compiled; of C functions with one name only one is.
    if language == LanguageId::C && found.definitions.iter().any(|d| d.ordinal > 0) {
        let lines = population::compiled_lines(db, settings, subject, doc, path)?;
        let original = original()?;
        let own = original.definitions.iter();
        let own = own.filter(|d| lines.contains(&(d.name.clone(), d.line)));
        compiled = own.map(|d| (d.name.clone(), d.ordinal)).collect();
    }
    Ok(Functions {
        language,
        found,
        compiled,
    })
}

/// Reports name files as the compiler was told: absolute, or relative to where it ran, which for
/// a build folder directly below the root resolves like this.
pub fn tree_path(file: &str) -> Option<String> {
    in_tree(TREE, file.trim_start_matches("../"))
}

/// The bytes of a source file with replacements in it.
fn spliced(
    db: &dyn Db,
    settings: Settings,
    (path, digest): (&str, Digest),
    here: &[&Replacement],
) -> Result<Vec<u8>, Hold> {
    let source = db.blob(digest)?;
    let Some(first) = here.first() else {
        return Ok(source.to_vec());
    };
    let functions = population::file_functions(
        db,
        settings,
        first.language,
        population::Text::new(db, digest),
    )?;
    let mut edits = Vec::new();
    for r in here {
        let function = (r.name.as_str(), r.ordinal as usize);
        let original = || db.blob(r.original).map_err(Unplaced::Hold);
        let range = lang::locate(&functions, &source, function, original).map_err(|e| match e {
            Unplaced::Hold(hold) => hold,
            Unplaced::Text(e) => unfit(path, &e),
        })?;
        edits.push(lang::Splice {
            range,
            expected: r.original,
            replacement: db.blob(r.variant)?.to_vec(),
        });
    }
    lang::splice(&source, &edits).map_err(|e| unfit(path, &e))
}

/// Why the place of a replacement is not known.
enum Unplaced {
    Hold(Hold),
    Text(lang::LocateError),
}

impl From<lang::LocateError> for Unplaced {
    fn from(e: lang::LocateError) -> Unplaced {
        Unplaced::Text(e)
    }
}

fn unfit(path: &str, e: &dyn std::fmt::Display) -> Hold {
    Hold::broken(
        format!("{path}: {e}"),
        "this is a fault in everbench; please report it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::{Language, QueryTexts};
    use crate::logs::{parse_sanitizer, unique_key};

    const SOURCE: &str = "\n#ifdef OLD\nint sum(int *v)\n{\n  v++;\n  return v[1];\n}\n#else\n\n\nint sum(int *v) {\n\n  return v[2];\n}\n#endif\nMADE(f)\nint top(int *v)\n{\n  return sum(v);\n}\n";

    fn sources(is_placeless: bool) -> Sources {
        let language = Language::new(LanguageId::C, &QueryTexts::of(LanguageId::C)).unwrap();
        let functions = Functions {
            language: LanguageId::C,
            found: Arc::new(lang::functions(&language, SOURCE.as_bytes())),
            compiled: BTreeSet::from([("sum".to_string(), 1), ("top".to_string(), 0)]),
        };
        let source = Source {
            text: SOURCE.into(),
            functions: is_placeless.then_some(functions),
        };
        Sources(BTreeMap::from([("a.c".to_string(), source)]))
    }

    /// A report of both kinds, with these lines in it.
    fn report([ubsan, sum, top]: [u32; 3], function: &str) -> Vec<Alert> {
        let log = format!(
            "a.c:{ubsan}:3: runtime error: signed integer overflow: 1 + 2\n    #0 0x5 in {function} a.c:{sum}\n    #1 0x6 in top a.c:{top}\n\n\
             ==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1 at pc 0x2\nREAD of size 4 at 0x1 thread T0\n    #0 0x5 in {function} a.c:{sum}\n    #1 0x6 in top a.c:{top}\n    #2 0x7 in main (/p+0x1)\n\nSUMMARY: AddressSanitizer: heap-buffer-overflow a.c:{sum} in {function}\n"
        );
        parse_sanitizer(log.as_bytes()).alerts
    }

    fn lines(alert: &Alert) -> Vec<Option<u32>> {
        let frames = alert.frames.iter().map(|f| f.line);
        alert
            .location
            .iter()
            .map(|l| Some(l.line))
            .chain(frames)
            .collect()
    }

    #[test]
    fn told_lines_are_read_as_those_of_the_file_and_identities_stay() {
        let told = report([1002, 1002, 1001], "sum");
        let meant = report([13, 13, 19], "sum");
        let (placeless, placed) = (sources(true), sources(false));
        let id = |sources: &Sources, alert: &Alert| {
            unique_key(alert, |f| sources.has(f), |f, l| sources.line(f, l))
        };
        assert_eq!(told.len(), 2);
        for (told, meant) in told.iter().zip(&meant) {
            let found = placeless.placed(told);
            assert_eq!(lines(&found), lines(meant));
            assert_eq!(placed.placed(meant), *meant);
            assert_eq!(id(&placeless, &found), id(&placed, meant));
        }
        // A piece of a function is the function; the head is counted from its start.
        let piece = report([1, 1, 1], "sum.part.0");
        assert_eq!(
            lines(&placeless.placed(&piece[1]))[..2],
            [Some(11), Some(17)]
        );
    }

    #[test]
    fn a_line_that_nothing_in_the_text_leads_to_is_unknown() {
        let lines = |alerts: Vec<Alert>| lines(&sources(true).placed(&alerts[0]));
        // Made by a macro; longer than the function; as the file has it after all.
        assert_eq!(lines(report([1001, 1001, 1001], "f"))[..2], [Some(0); 2]);
        assert_eq!(lines(report([1009, 1009, 1001], "sum"))[..2], [Some(0); 2]);
        assert_eq!(lines(report([12, 12, 1001], "sum"))[..2], [Some(12); 2]);
    }
}
