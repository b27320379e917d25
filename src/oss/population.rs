//! Which functions of a subject are asked about: what its source defines, what of it the compiler
//! sees, what the manifest's filters leave, and the sample drawn of that. Every exclusion is
//! counted by its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, BaseDoc, BuiltFile, Step, Unit};
use super::inputs::{Origin, Settings, Subject};
use super::jobs;
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{
    self, CompiledDefinition, FileFunctions, Language, LanguageId, Reality, StrippedUnit,
};
use crate::source::Snapshot;
use crate::stats::mix;
use crate::subject::{Flavour, Manifest, Selection};

/// One function of the population: everything its verdict can depend on, and no position.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Name, and `#rank` from the second definition of that name in the subject on: the identity
    /// for drawing and history.
    pub id: String,
    /// The source file.
    pub path: String,
    /// The language of the file.
    pub language: LanguageId,
    /// The digest of the queries it is read by, unless they are those that come with the program.
    pub queries: Option<Digest>,
    /// The name.
    pub name: String,
    /// The rank among the definitions of that name in the file, from 0.
    pub ordinal: u32,
    /// Digest of the text, doc comment included.
    pub text: Digest,
    /// The places it is compiled in.
    pub contexts: Vec<Context>,
}

/// What a unit gives to a function that is compiled in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Context {
    /// Digest of the unit's text without function bodies.
    pub stripped: Digest,
    /// Digest of the unit's macro definitions.
    pub macros: Digest,
    /// The function's place among the unit's definitions.
    pub order: u32,
    /// Digest of the compile command.
    pub command: Digest,
}

/// Where a function's text is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The file's bytes.
    pub file: Digest,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: usize,
}

/// The functions of a subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Population {
    /// Those in the window that are compiled, sorted by path and position.
    pub functions: Vec<Arc<Function>>,
    /// Those in the window that are not compiled: their variants could not fail.
    pub unrelated: Vec<String>,
    /// All others, counted by reason.
    pub excluded: BTreeMap<String, u64>,
}

/// Why the source of a subject's functions is no source.
const EXTRACTOR: &str = "tree-sitter";

/// The name of the extractor of every population made here.
pub fn extractor() -> &'static str {
    EXTRACTOR
}

/// The language in use; equal when its queries are.
#[derive(Clone)]
pub struct SharedLanguage(pub Language);

impl PartialEq for SharedLanguage {
    fn eq(&self, other: &Self) -> bool {
        self.0.queries().digest() == other.0.queries().digest()
    }
}

/// A language, or what is wrong with its query files.
#[salsa::tracked(returns(clone))]
pub fn language(db: &dyn Db, settings: Settings, id: LanguageId) -> Result<SharedLanguage, Hold> {
    let language = settings.queries(db).language(id);
    language
        .map(SharedLanguage)
        .map_err(|e| Hold::broken(e.to_string(), "mend the query file"))
}

/// The languages of the files in which functions are looked for.
#[salsa::tracked(returns(clone))]
pub fn languages(db: &dyn Db, subject: Subject) -> Result<Arc<BTreeSet<LanguageId>>, Hold> {
    let (_, files) = snapshot(db, subject)?;
    let manifest = subject.rules(db);
    let selected = files
        .files
        .keys()
        .filter(|path| manifest.selection(path) == Selection::Selected);
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    let made = doc.generated.iter().map(|f| &f.path);
    let mut found: BTreeSet<LanguageId> = selected
        .chain(made)
        .filter_map(|path| manifest.functions.language_of(path))
        .collect();
    if found.is_empty() {
        found.insert(LanguageId::C);
    }
    Ok(Arc::new(found))
}

/// The digests of the queries by which the subject is read.
pub fn readings(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Vec<Digest>, Hold> {
    let used = languages(db, subject)?;
    let digest = |id| Ok(language(db, settings, id)?.0.queries().digest());
    used.iter().map(|id| digest(*id)).collect()
}

/// The subject's source tree.
#[salsa::tracked(returns(clone))]
pub fn snapshot(db: &dyn Db, subject: Subject) -> Result<(Digest, Arc<Snapshot>), Hold> {
    let digest = match subject.origin(db) {
        Origin::Snapshot(digest) => digest,
        Origin::Manifest => db.demand(&jobs::source(subject.rules(db))?)?,
    };
    let bytes = db.blob(digest)?;
    let snapshot = Snapshot::decode(&bytes).map_err(|e| {
        Hold::broken(
            format!("snapshot {digest} cannot be read: {e}"),
            "run `everbench store verify`",
        )
    })?;
    Ok((digest, Arc::new(snapshot)))
}

/// The unchanged subject, built: the digest of its document, and the document.
#[salsa::tracked(returns(clone))]
pub fn base(
    db: &dyn Db,
    subject: Subject,
    flavour: FlavourArg,
) -> Result<(Digest, Arc<BaseDoc>), Hold> {
    let digest = db.demand(&jobs::base(db, subject, flavour.into())?)?;
    let doc: BaseDoc = artifact::read(artifact::BASE, &db.blob(digest)?)?;
    if let Some(broken) = &doc.broken {
        let flavour = Flavour::from(flavour).name();
        if let Some(why) = broken.ended.strip_prefix("not started: ") {
            return Err(Hold::broken(
                format!(
                    "the unchanged subject `{}` does not build ({flavour}): `{}` did not start: {why}",
                    subject.manifest(db).name,
                    broken.command,
                ),
                "check `[build]` in the manifest: a program is looked for in the folder where the command \
                 runs when its name has a `/`, else in /usr/local/bin, /usr/bin and /bin",
            ));
        }
        return Err(Hold::broken(
            format!(
                "the unchanged subject `{}` does not build ({flavour}): `{}` ended with {}{}",
                subject.rules(db).name,
                broken.command,
                broken.ended,
                broken
                    .error
                    .as_ref()
                    .map(|e| format!(": {e}"))
                    .unwrap_or_default()
            ),
            format!(
                "see the whole output with `everbench store cat {}`; `everbench doctor` says what is missing",
                broken.log.short()
            ),
        ));
    }
    if flavour == FlavourArg::Sanitized && !subject.rules(db).functions.generated.is_empty() {
        let (_, plain) = base(db, subject, FlavourArg::Plain)?;
        if let Some(path) = differing(&plain.generated, &doc.generated) {
            return Err(Hold::broken(
                format!(
                    "`{}`: the two flavours do not generate the same {path}",
                    subject.manifest(db).name
                ),
                "what depends on compiler flags cannot be spliced in both: leave the file out of `[functions] generated`",
            ));
        }
    }
    Ok((digest, Arc::new(doc)))
}

/// The first file that is not the same in both.
fn differing<'a>(one: &'a [BuiltFile], other: &'a [BuiltFile]) -> Option<&'a str> {
    let missing =
        |from: &'a [BuiltFile], of: &'a [BuiltFile]| of.iter().find(|f| !from.contains(f));
    let file = missing(one, other).or_else(|| missing(other, one))?;
    Some(&file.path)
}

/// [`Flavour`] as an argument of queries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlavourArg {
    /// See [`Flavour::Plain`].
    Plain,
    /// See [`Flavour::Sanitized`].
    Sanitized,
    /// See [`Flavour::Coverage`].
    Coverage,
}

impl From<Flavour> for FlavourArg {
    fn from(f: Flavour) -> FlavourArg {
        match f {
            Flavour::Plain => FlavourArg::Plain,
            Flavour::Sanitized => FlavourArg::Sanitized,
            Flavour::Coverage => FlavourArg::Coverage,
        }
    }
}

impl From<FlavourArg> for Flavour {
    fn from(f: FlavourArg) -> Flavour {
        match f {
            FlavourArg::Plain => Flavour::Plain,
            FlavourArg::Sanitized => Flavour::Sanitized,
            FlavourArg::Coverage => Flavour::Coverage,
        }
    }
}

/// A text by its digest, as an argument of queries: equal texts are read once, wherever they are.
#[salsa::interned]
pub struct Text<'db> {
    /// Its digest.
    #[returns(copy)]
    pub digest: Digest,
}

/// The functions defined in a file.
#[salsa::tracked(returns(clone))]
pub fn file_functions<'db>(
    db: &'db dyn Db,
    settings: Settings,
    id: LanguageId,
    text: Text<'db>,
) -> Result<Arc<FileFunctions>, Hold> {
    let language = language(db, settings, id)?.0;
    let digest = text.digest(db);
    recalled(
        db,
        "functions",
        &[language.queries().digest(), digest],
        || Ok(lang::functions(&language, &db.blob(digest)?)),
    )
    .map(Arc::new)
}

/// What a preprocessed unit says of the functions in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnitFacts {
    definitions: Vec<CompiledDefinition>,
    stripped: Digest,
    macros: Digest,
}

/// Reads a preprocessed unit.
#[salsa::tracked(returns(clone))]
pub fn unit_facts<'db>(
    db: &'db dyn Db,
    settings: Settings,
    id: LanguageId,
    text: Text<'db>,
) -> Result<Arc<UnitFacts>, Hold> {
    let language = language(db, settings, id)?.0;
    let digest = text.digest(db);
    recalled(db, "unit", &[language.queries().digest(), digest], || {
        let (text, macros) = split_macros(&db.blob(digest)?);
        let unit = StrippedUnit::new(&language, &text);
        Ok(UnitFacts {
            definitions: unit.definitions().to_vec(),
            stripped: unit.digest(),
            macros: Digest::of(&macros),
        })
    })
    .map(Arc::new)
}

/// Splits the output of `-E -dD` into the text, its lines where they were, and the definitions.
fn split_macros(preprocessed: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut text, mut macros) = (Vec::with_capacity(preprocessed.len()), Vec::new());
    for line in preprocessed.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"#define ") || line.starts_with(b"#undef ") {
            macros.extend_from_slice(line);
            text.push(b'\n');
        } else {
            text.extend_from_slice(line);
        }
    }
    (text, macros)
}

/// A derived value, from an earlier process if one computed it with the same code.
pub(super) fn recalled<T>(
    db: &dyn Db,
    what: &str,
    inputs: &[Digest],
    compute: impl FnOnce() -> Result<T, Hold>,
) -> Result<T, Hold>
where
    T: Serialize + for<'a> Deserialize<'a>,
{
    if let Some(value) = recall(db, what, inputs) {
        return Ok(value);
    }
    let value = compute()?;
    remember(db, what, inputs, &value);
    Ok(value)
}

/// A derived value that an earlier process computed with the same code, if one did.
pub(super) fn recall<T: for<'a> Deserialize<'a>>(
    db: &dyn Db,
    what: &str,
    inputs: &[Digest],
) -> Option<T> {
    let row = db.recall(row_key(db, what, inputs))?;
    postcard::from_bytes(&row).ok()
}

/// Keeps a derived value for later processes.
pub(super) fn remember<T: Serialize>(db: &dyn Db, what: &str, inputs: &[Digest], value: &T) {
    let row = postcard::to_stdvec(value).expect("derived values have lengths");
    db.remember(row_key(db, what, inputs), row);
}

/// The key of a derived value: what it is, the code of the pure rooms, and its inputs.
fn row_key(db: &dyn Db, what: &str, inputs: &[Digest]) -> Digest {
    let mut h = blake3::Hasher::new_derive_key("everbench 2026-11 row v2");
    h.update(db.code().as_bytes());
    h.update(&(what.len() as u64).to_le_bytes());
    h.update(what.as_bytes());
    for digest in inputs {
        h.update(&digest.0);
    }
    Digest(*h.finalize().as_bytes())
}

/// What the functions of a subject and their places depend on.
#[salsa::tracked(returns(clone))]
fn extraction_inputs(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Arc<Vec<Digest>>, Hold> {
    let (tree, _) = snapshot(db, subject)?;
    let (doc, _) = base(db, subject, FlavourArg::Plain)?;
    let functions = Digest::of(&subject.rules(db).functions_part());
    let mut inputs = vec![tree, doc, functions];
    inputs.extend(readings(db, settings, subject)?);
    Ok(Arc::new(inputs))
}

/// The functions of a subject and where they are, from the source.
#[salsa::tracked(returns(clone))]
fn extraction(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Arc<Extraction>, Hold> {
    let (_, files) = snapshot(db, subject)?;
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    extract(db, settings, subject, &files, &doc).map(Arc::new)
}

/// What [`extraction`] finds.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Extraction {
    population: Arc<Population>,
    places: Places,
}

/// Where functions are, by id.
type Places = Arc<BTreeMap<String, Place>>;

/// The population, without positions: equal after an edit that only moved functions.
#[salsa::tracked(returns(clone))]
pub fn population(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Arc<Population>, Hold> {
    let inputs = extraction_inputs(db, settings, subject)?;
    recalled(db, "population", &inputs, || {
        Ok(extraction(db, settings, subject)?.population.clone())
    })
}

/// Where the functions are. A leaderboard whose rows are known needs none of them.
#[salsa::tracked(returns(clone))]
fn places(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Places, Hold> {
    let inputs = extraction_inputs(db, settings, subject)?;
    recalled(db, "places", &inputs, || {
        Ok(extraction(db, settings, subject)?.places.clone())
    })
}

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

/// The source file that `path` stands for (its original, if the build copied it) with the digest
/// of its bytes: what the build made of it, if functions are drawn from that, else what the source
/// has. Nothing if it is no source.
pub fn source(db: &dyn Db, subject: Subject, path: &str) -> Result<Option<(String, Digest)>, Hold> {
    let (_, files) = snapshot(db, subject)?;
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    let path = doc.copies.get(path).map_or(path, String::as_str);
    let made = doc.generated.iter().find(|file| file.path == path);
    let brought = || Some(files.files.get(path)?.digest);
    let digest = made.map(|file| file.digest).or_else(brought);
    Ok(digest.map(|digest| (path.to_string(), digest)))
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

/// The digest of everything that a link can depend on besides the replaced unit: all symbols, all
/// archive and link commands.
#[salsa::tracked(returns(clone))]
pub fn link_context(db: &dyn Db, subject: Subject) -> Result<Digest, Hold> {
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    let symbols: Vec<(&String, Digest)> =
        doc.units.iter().map(|u| (&u.object, u.symbols)).collect();
    let steps: &Vec<Step> = &doc.steps;
    Ok(Digest::of(&match doc.env.is_empty() {
        true => artifact::write(&(symbols, steps)),
        false => artifact::write(&(symbols, steps, &doc.env)),
    }))
}

/// A function as an argument of queries.
#[salsa::interned]
pub struct FunctionArg<'db> {
    /// It.
    #[returns(ref)]
    pub function: Arc<Function>,
}

/// A function's text, doc comment included.
#[salsa::tracked(returns(clone))]
pub fn text<'db>(
    db: &'db dyn Db,
    settings: Settings,
    subject: Subject,
    f: FunctionArg<'db>,
) -> Result<Arc<[u8]>, Hold> {
    let places = places(db, settings, subject)?;
    let place = &places[&f.function(db).id];
    let file = db.blob(place.file)?;
    Ok(file[place.start..place.end].into())
}

/// Where a function is.
pub fn place(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    id: &str,
) -> Result<Option<Place>, Hold> {
    Ok(places(db, settings, subject)?.get(id).cloned())
}

/// The functions that are asked about: the whole population, or a sample of it. A sample has from
/// each source file its share, and there the functions with the smallest keyed mix of seed and
/// identity: a larger sample contains a smaller one's functions of each file but for the last.
#[salsa::tracked(returns(clone))]
pub fn sample(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Arc<Vec<Arc<Function>>>, Hold> {
    let population = population(db, settings, subject)?;
    if population.functions.is_empty() {
        let counts: Vec<String> = population
            .excluded
            .iter()
            .map(|(k, v)| format!("{k} {v}"))
            .collect();
        return Err(Hold::broken(
            format!(
                "subject `{}` has no function to ask about",
                subject.rules(db).name
            ),
            format!(
                "check `[functions] include` and the window of tokens in the manifest; not compiled: {}; excluded: {}",
                population.unrelated.len(),
                if counts.is_empty() {
                    "none".to_string()
                } else {
                    counts.join(", ")
                }
            ),
        ));
    }
    let all = &population.functions;
    let limit = settings.limit(db).map_or(all.len(), |n| n as usize);
    if limit >= all.len() {
        return Ok(Arc::new(all.clone()));
    }
    Ok(Arc::new(stratified(all, limit, settings.seed(db))))
}

/// The digest of the functions that are asked about.
#[salsa::tracked(returns(clone))]
pub fn sample_digest(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Digest, Hold> {
    Ok(identity(&sample(db, settings, subject)?))
}

/// The digest of a list of functions: of everything their cases depend on.
pub(super) fn identity(functions: &[Arc<Function>]) -> Digest {
    let bytes = postcard::to_stdvec(functions).expect("functions have lengths");
    Digest::of(&bytes)
}

/// `limit` of `all`, by file in proportion (largest remainders), by keyed mix within a file.
fn stratified(all: &[Arc<Function>], limit: usize, seed: u64) -> Vec<Arc<Function>> {
    const SAMPLE: u64 = 0x7361_6d70_6c65;
    let key = |id: &str| mix::keyed(seed, SAMPLE, id.as_bytes());
    let mut by_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, f) in all.iter().enumerate() {
        by_path.entry(&f.path).or_default().push(i);
    }
    let mut quotas: Vec<(&str, usize, usize)> = by_path
        .iter()
        .map(|(path, members)| {
            let share = members.len() * limit;
            (*path, share / all.len(), share % all.len())
        })
        .collect();
    let given: usize = quotas.iter().map(|q| q.1).sum();
    quotas.sort_by_key(|(path, _, rest)| (std::cmp::Reverse(*rest), key(path)));
    for quota in quotas.iter_mut().take(limit - given) {
        quota.1 += 1;
    }
    let mut chosen = Vec::new();
    for (path, quota, _) in quotas {
        let mut members = by_path[path].clone();
        members.sort_by_key(|i| key(&all[*i].id));
        chosen.extend(members.into_iter().take(quota));
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|i| all[i].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn functions(sizes: &[usize]) -> Vec<Arc<Function>> {
        let mut all = Vec::new();
        for (file, n) in sizes.iter().enumerate() {
            for i in 0..*n {
                all.push(Arc::new(Function {
                    id: format!("f{file}_{i}"),
                    path: format!("{file}.c"),
                    language: LanguageId::C,
                    queries: None,
                    name: String::new(),
                    ordinal: 0,
                    text: Digest::of(b""),
                    contexts: vec![],
                }));
            }
        }
        all
    }

    proptest! {
        /// A sample has its size, its order and, within one, each file's share; and a function
        /// that is added changes at most as many members as files can change their quota.
        #[test]
        fn a_sample_is_stratified(sizes in prop::collection::vec(1usize..30, 1..8), percent in 1usize..100, seed: u64) {
            let all = functions(&sizes);
            let limit = (all.len() * percent / 100).max(1);
            let chosen = stratified(&all, limit, seed);
            prop_assert_eq!(chosen.len(), limit);
            let mut sorted = chosen.clone();
            sorted.sort_by_key(|f| all.iter().position(|g| g.id == f.id));
            sorted.dedup();
            prop_assert_eq!(&sorted, &chosen);
            for (file, n) in sizes.iter().enumerate() {
                let exact = (*n * limit) as f64 / all.len() as f64;
                let got = chosen.iter().filter(|f| f.path == format!("{file}.c")).count() as f64;
                prop_assert!((got - exact).abs() < 1.0, "{} for {}", got, exact);
            }
        }
    }

    #[test]
    fn macro_definitions_are_told_from_text_without_moving_lines() {
        let (text, macros) = split_macros(b"# 1 \"a.c\"\n#define X 1\nint a;\n#undef X\nint b;\n");
        assert_eq!(text, b"# 1 \"a.c\"\n\nint a;\n\nint b;\n");
        assert_eq!(macros, b"#define X 1\n#undef X\n");
    }
}
