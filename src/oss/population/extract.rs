//! The population out of files and units: what the source defines, what of it the compiler sees, and
//! what the manifest's filters leave.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::by_libclang::by_libclang;
use super::reading::{Text, file_functions, language, languages};
use super::units::Units;
use super::{Context, Function, Place, Population, snapshot};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{self, FileFunctions, LanguageId, Reality};
use crate::oss::artifact::BaseDoc;
use crate::oss::compiled;
use crate::oss::inputs::{Settings, Subject};
use crate::source::Snapshot;
use crate::subject::{Extractor, Manifest, Selection};

/// The functions of a subject and where they are, from the source.
#[salsa::tracked(returns(clone))]
pub(super) fn extraction(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Arc<Extraction>, Hold> {
    let extractor = subject.rules(db).functions.extractor;
    extract(db, settings, subject, extractor).map(Arc::new)
}

/// The population by one extractor, whichever the manifest names.
pub(in crate::oss) fn by(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    extractor: Extractor,
) -> Result<Arc<Population>, Hold> {
    Ok(extract(db, settings, subject, extractor)?.population)
}

/// What [`extraction`] finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Extraction {
    pub(super) population: Arc<Population>,
    pub(super) places: Places,
}

/// Where functions are, by id.
pub(super) type Places = Arc<BTreeMap<String, Place>>;

fn extract(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    extractor: Extractor,
) -> Result<Extraction, Hold> {
    let units = Units::read(db, settings, subject)?;
    let (files, others) = read_files(db, settings, subject, &units)?;
    let documents = match extractor {
        Extractor::TreeSitter => None,
        Extractor::Libclang => Some(compiled::documents(db, subject)?.1),
    };
    let mut making = Making {
        manifest: subject.rules(db),
        units: &units,
        population: Population {
            functions: Vec::new(),
            unrelated: Vec::new(),
            excluded: BTreeMap::new(),
        },
        places: BTreeMap::new(),
        ranks: BTreeMap::new(),
    };
    for (reason, n) in others {
        making.exclude(reason, n);
    }
    for file in &files {
        match &documents {
            None => by_tree_sitter(&mut making, file),
            Some(documents) => {
                let language = language(db, settings, file.language)?.0;
                by_libclang(&mut making, file, &language, documents);
            }
        }
    }
    Ok(Extraction {
        population: Arc::new(making.population),
        places: Arc::new(making.places),
    })
}

/// A file that the manifest selects, read both as it is and as it is compiled.
pub(in crate::oss) struct Selected {
    pub(in crate::oss) path: String,
    pub(in crate::oss) language: LanguageId,
    /// See [`Function::queries`].
    queries: Option<Digest>,
    digest: Digest,
    pub(in crate::oss) source: Arc<[u8]>,
    pub(in crate::oss) found: Arc<FileFunctions>,
    pub(in crate::oss) both: lang::Intersection,
}

/// The files that the manifest selects, in order of their path.
pub(in crate::oss) fn selected(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Vec<Selected>, Hold> {
    let units = Units::read(db, settings, subject)?;
    Ok(read_files(db, settings, subject, &units)?.0)
}

/// How many functions are excluded, and why.
type Excluded = (&'static str, u64);

/// The selected files, and how much is elsewhere, by reason.
fn read_files(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    units: &Units,
) -> Result<(Vec<Selected>, Vec<Excluded>), Hold> {
    let (_, files) = snapshot(db, subject)?;
    let manifest = subject.rules(db);
    let used = languages(db, subject)?;
    let sources = sources(manifest, &used, &files, &units.doc);
    let definitions = units.definitions();
    let named = |unit: usize, file: &str| units.named(unit, file);
    let (mut selected, mut others) = (Vec::new(), Vec::new());
    for (path, (language, digest)) in &sources {
        let found = file_functions(db, settings, *language, Text::new(db, *digest))?;
        let reason = match manifest.selection(path) {
            _ if units.doc.rewritten.contains(path) => "rewritten_by_build",
            Selection::Selected => {
                let source = db.blob(*digest)?;
                let both = lang::intersect(*language, &found, &source, path, &definitions, &named);
                selected.push(Selected {
                    path: path.clone(),
                    language: *language,
                    queries: custom(db, settings, *language)?,
                    digest: *digest,
                    source,
                    found,
                    both,
                });
                continue;
            }
            Selection::Harness(_) => "harness",
            Selection::Excluded(_) => "excluded_by_glob",
            Selection::NotIncluded => "not_included",
        };
        let all = found.definitions.len() + found.skipped.len();
        others.push((reason, all as u64));
    }
    others.push(("generated", unseen(units, &sources, &selected)));
    Ok((selected, others))
}

/// How many functions the units have in files of the tree that are looked at under no name: what the
/// build makes. Those that a file claims for another by `#line` are that file's.
fn unseen(
    units: &Units,
    sources: &BTreeMap<String, (LanguageId, Digest)>,
    selected: &[Selected],
) -> u64 {
    let mut all = BTreeSet::new();
    let definitions = units.definitions();
    for definition in definitions.iter().flat_map(|unit| unit.iter()) {
        let file = &definition.file;
        if !file.starts_with(['/', '<']) && !sources.contains_key(file) {
            all.insert((file.as_str(), definition.line, definition.name.as_str()));
        }
    }
    for file in selected {
        for (_, reality) in &file.both.definitions {
            if let Reality::Compiled { units, orders, .. } = reality {
                for (unit, order) in units.iter().zip(orders) {
                    let d = &definitions[*unit][*order];
                    all.remove(&(d.file.as_str(), d.line, d.name.as_str()));
                }
            }
        }
        for only in &file.both.only_compiled {
            all.remove(&(only.file.as_str(), only.line, only.name.as_str()));
        }
    }
    all.len() as u64
}

/// The files that functions are looked for in, with the language each is read in: those of the
/// source, and those that the build makes and the manifest asks for.
fn sources(
    manifest: &Manifest,
    used: &BTreeSet<LanguageId>,
    files: &Snapshot,
    doc: &BaseDoc,
) -> BTreeMap<String, (LanguageId, Digest)> {
    let brought = files.files.iter().map(|(path, f)| (path, f.digest));
    let made = doc.generated.iter().map(|f| (&f.path, f.digest));
    brought
        .chain(made)
        .filter_map(|(path, digest)| {
            let language = manifest.functions.language_of(path)?;
            used.contains(&language)
                .then(|| (path.clone(), (language, digest)))
        })
        .collect()
}

/// The digest of a language's queries if they are not those that come with the program.
fn custom(db: &dyn Db, settings: Settings, id: LanguageId) -> Result<Option<Digest>, Hold> {
    let texts = settings.queries(db).of(id);
    match texts == lang::QueryTexts::of(id) {
        true => Ok(None),
        false => Ok(Some(language(db, settings, id)?.0.queries().digest())),
    }
}

/// A population being made.
pub(super) struct Making<'a> {
    manifest: &'a Manifest,
    pub(super) units: &'a Units,
    pub(super) population: Population,
    pub(super) places: BTreeMap<String, Place>,
    ranks: BTreeMap<String, u32>,
}

impl Making<'_> {
    pub(super) fn exclude(&mut self, reason: &str, n: u64) {
        if n > 0 {
            let excluded = &mut self.population.excluded;
            *excluded.entry(reason.to_string()).or_default() += n;
        }
    }

    pub(super) fn id(&mut self, name: &str) -> String {
        let rank = self.ranks.entry(name.to_string()).or_insert(0);
        *rank += 1;
        match *rank {
            1 => name.to_string(),
            n => format!("{name}#{n}"),
        }
    }

    /// Whether the window lets a function of so many tokens pass; counts it if not.
    pub(super) fn in_window(&mut self, tokens: usize) -> bool {
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let functions = &self.manifest.functions;
        if tokens < functions.min_tokens {
            self.exclude("too_short", 1);
        } else if tokens >= functions.max_tokens {
            self.exclude("too_long", 1);
        } else {
            return true;
        }
        false
    }

    /// Adds a definition of the file's own reading that is compiled.
    pub(super) fn add(
        &mut self,
        id: String,
        file: &Selected,
        definition: &lang::Definition,
        (units, orders): (&[usize], &[usize]),
    ) {
        let places = units.iter().zip(orders);
        let contexts = places.map(|(unit, order)| self.units.context(*unit, *order));
        let contexts = contexts.collect();
        let name = (definition.name.as_str(), definition.ordinal);
        let place = (definition.span.clone(), definition.span_line);
        self.place(id, file, name, place, units, contexts);
    }

    /// Adds a function that is compiled in `units`, if its code can be followed from there.
    pub(super) fn place(
        &mut self,
        id: String,
        file: &Selected,
        (name, ordinal): (&str, usize),
        (span, line): (Range<usize>, usize),
        units: &[usize],
        contexts: Vec<Context>,
    ) {
        if self.units.untracked(units) {
            self.exclude("untracked", 1);
            return;
        }
        let place = Place {
            file: file.digest,
            start: span.start,
            end: span.end,
            line,
        };
        self.places.insert(id.clone(), place);
        self.population.functions.push(Arc::new(Function {
            id,
            path: file.path.clone(),
            language: file.language,
            queries: file.queries,
            name: name.to_string(),
            ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
            text: Digest::of(&file.source[span]),
            contexts,
        }));
    }
}

fn by_tree_sitter(making: &mut Making<'_>, file: &Selected) {
    let Selected { found, both, .. } = file;
    for skipped in &found.skipped {
        making.exclude(&skipped.reason.to_string(), 1);
    }
    for only in &both.only_compiled {
        // What the file's own reading skipped is counted there.
        let known = found
            .skipped
            .iter()
            .any(|s| (s.lines.0..=s.lines.1).contains(&only.line));
        if !known {
            making.exclude(&only.reason.to_string(), 1);
        }
    }
    for (definition, reality) in &both.definitions {
        let id = making.id(&definition.name);
        if !making.in_window(definition.tokens) {
            continue;
        }
        match reality {
            Reality::NotCompiled => making.population.unrelated.push(id),
            Reality::Compiled { units, orders, .. } => {
                making.add(id, file, definition, (units, orders));
            }
        }
    }
}
