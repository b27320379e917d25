//! The population out of files and units: what the source defines, what of it the compiler sees, and
//! what the manifest's filters leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::reading::{Text, UnitFacts, file_functions, language, languages, unit_facts};
use super::{Context, FlavourArg, Function, Place, Population, base, snapshot};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{self, CompiledDefinition, LanguageId, Reality};
use crate::oss::artifact::{self, BaseDoc, Unit};
use crate::oss::inputs::{Settings, Subject};
use crate::source::Snapshot;
use crate::subject::{Manifest, Selection};

/// The functions of a subject and where they are, from the source.
#[salsa::tracked(returns(clone))]
pub(super) fn extraction(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Arc<Extraction>, Hold> {
    let (_, files) = snapshot(db, subject)?;
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    extract(db, settings, subject, &files, &doc).map(Arc::new)
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
    files: &Snapshot,
    doc: &BaseDoc,
) -> Result<Extraction, Hold> {
    let manifest = subject.rules(db);
    let units: Vec<&Unit> = doc.units.iter().filter(|u| !u.harness).collect();
    let facts = crate::engine::fold(units.iter().map(|u| {
        unit_facts(
            db,
            settings,
            unit_language(manifest, u),
            Text::new(db, u.preprocessed),
        )
    }))?;
    let used = languages(db, subject)?;
    // Line markers name files as the compiler was told; here they are relative to the tree.
    let in_tree: Vec<Vec<CompiledDefinition>> = units
        .iter()
        .zip(&facts)
        .map(|(unit, facts)| {
            let definitions = facts.definitions.iter().cloned();
            let file = |file: &str| match crate::oss::layout::in_tree(&unit.cwd, file) {
                Some(path) => doc.copies.get(&path).cloned().unwrap_or(path),
                None => file.to_string(),
            };
            definitions
                .map(|d| CompiledDefinition {
                    file: file(&d.file),
                    ..d
                })
                .collect()
        })
        .collect();
    let in_tree: Vec<&[CompiledDefinition]> = in_tree.iter().map(Vec::as_slice).collect();

    let mut out = Population {
        functions: Vec::new(),
        unrelated: Vec::new(),
        excluded: BTreeMap::new(),
    };
    let mut places = BTreeMap::new();
    let mut ranks: BTreeMap<String, u32> = BTreeMap::new();
    let mut exclude = |reason: &str, n: u64| {
        if n > 0 {
            *out.excluded.entry(reason.to_string()).or_default() += n;
        }
    };
    let untracked: BTreeSet<&String> = doc.untracked.iter().flat_map(|u| &u.units).collect();
    let sources = sources(manifest, &used, files, doc);
    let unseen = in_tree.iter().flat_map(|unit| unit.iter());
    let unseen =
        unseen.filter(|d| !d.file.starts_with(['/', '<']) && !sources.contains_key(&d.file));
    let unseen: BTreeSet<_> = unseen.map(|d| (&d.file, d.line, &d.name)).collect();
    exclude("generated", unseen.len() as u64);
    for (path, (reading, file)) in &sources {
        let reading = *reading;
        let found = file_functions(db, settings, reading, Text::new(db, *file))?;
        if doc.rewritten.contains(path) {
            let all = found.definitions.len() + found.skipped.len();
            exclude("rewritten_by_build", all as u64);
            continue;
        }
        let selected = match manifest.selection(path) {
            Selection::Selected => None,
            Selection::Harness(_) => Some("harness"),
            Selection::Excluded(_) => Some("excluded_by_glob"),
            Selection::NotIncluded => Some("not_included"),
        };
        if let Some(reason) = selected {
            exclude(
                reason,
                (found.definitions.len() + found.skipped.len()) as u64,
            );
            continue;
        }
        for skipped in &found.skipped {
            exclude(&skipped.reason.to_string(), 1);
        }
        let source = db.blob(*file)?;
        let both = lang::intersect(reading, &found, &source, path, &in_tree);
        for only in &both.only_compiled {
            // What the file's own reading skipped is counted there.
            let known = found
                .skipped
                .iter()
                .any(|s| (s.lines.0..=s.lines.1).contains(&only.line));
            if !known {
                exclude(&only.reason.to_string(), 1);
            }
        }
        for (definition, reality) in &both.definitions {
            let rank = ranks.entry(definition.name.clone()).or_insert(0);
            *rank += 1;
            let id = match *rank {
                1 => definition.name.clone(),
                n => format!("{}#{n}", definition.name),
            };
            let tokens = u32::try_from(definition.tokens).unwrap_or(u32::MAX);
            if tokens < manifest.functions.min_tokens {
                exclude("too_short", 1);
                continue;
            }
            if tokens >= manifest.functions.max_tokens {
                exclude("too_long", 1);
                continue;
            }
            let compiled_in = match reality {
                Reality::NotCompiled => {
                    out.unrelated.push(id);
                    continue;
                }
                Reality::Compiled { units: numbers, .. } => numbers,
            };
            if compiled_in
                .iter()
                .any(|n| untracked.contains(&units[*n].object))
            {
                exclude("untracked", 1);
                continue;
            }
            let span = definition.span.clone();
            let contexts = compiled_in.iter().map(|n| {
                context(
                    units[*n],
                    &doc.env,
                    &facts[*n],
                    in_tree[*n],
                    definition,
                    path,
                )
            });
            places.insert(
                id.clone(),
                Place {
                    file: *file,
                    start: span.start,
                    end: span.end,
                    line: definition.span_line,
                },
            );
            out.functions.push(Arc::new(Function {
                id,
                path: path.clone(),
                language: reading,
                queries: custom(db, settings, reading)?,
                name: definition.name.clone(),
                ordinal: u32::try_from(definition.ordinal).unwrap_or(u32::MAX),
                text: Digest::of(&source[span]),
                contexts: contexts.collect(),
            }));
        }
    }
    Ok(Extraction {
        population: Arc::new(out),
        places: Arc::new(places),
    })
}

fn context(
    unit: &Unit,
    env: &BTreeMap<String, String>,
    facts: &UnitFacts,
    definitions: &[CompiledDefinition],
    definition: &lang::Definition,
    path: &str,
) -> Context {
    let order = definitions
        .iter()
        .position(|d| d.file == path && d.line == definition.line && d.name == definition.name)
        .unwrap_or_else(|| {
            definitions
                .iter()
                .filter(|d| d.file == path && d.line < definition.line)
                .count()
        });
    Context {
        stripped: facts.stripped,
        macros: facts.macros,
        order: u32::try_from(order).unwrap_or(u32::MAX),
        command: Digest::of(&match env.is_empty() {
            true => artifact::write(&(&unit.tool, &unit.argv, &unit.cwd)),
            false => artifact::write(&(&unit.tool, &unit.argv, &unit.cwd, env)),
        }),
    }
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

/// The language in which a unit is read: what its compiler is for, else that of its source.
fn unit_language(manifest: &Manifest, unit: &Unit) -> LanguageId {
    let compiler = LanguageId::all().find(|l| *l != LanguageId::C && l.facts().tool == unit.tool);
    let own = || manifest.functions.language_of(&unit.source);
    compiler.or_else(own).unwrap_or(LanguageId::C)
}

/// The digest of a language's queries if they are not those that come with the program.
fn custom(db: &dyn Db, settings: Settings, id: LanguageId) -> Result<Option<Digest>, Hold> {
    let texts = settings.queries(db).of(id);
    match texts == lang::QueryTexts::of(id) {
        true => Ok(None),
        false => Ok(Some(language(db, settings, id)?.0.queries().digest())),
    }
}
