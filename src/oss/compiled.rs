//! What libclang says of the functions in a unit: the documents of kind `oss/extract`, and the jobs
//! that give them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, BaseDoc, Unit};
use super::inputs::Subject;
use super::jobs::{base, pairs};
use super::population::{self, FlavourArg};
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::job::{Job, Kind, Nature, Value};
use crate::source::Snapshot;
use crate::subject::Flavour;

/// What libclang finds in one unit: an [`ExtractDoc`].
pub const EXTRACT: Kind = Kind {
    name: "oss/extract",
    version: 1,
    nature: Nature::Deterministic,
};

/// What a function definition is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundKind {
    /// A function of C, or one outside of classes.
    Function,
    /// A member function.
    Method,
    /// A constructor.
    Constructor,
    /// A destructor.
    Destructor,
    /// A conversion operator.
    Conversion,
    /// A function template.
    Template,
}

/// The storage class a definition is written with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// None.
    None,
    /// `extern`.
    Extern,
    /// `static`.
    Static,
}

/// A function definition as libclang sees it. Offsets are bytes of the file; what a macro makes is
/// where the macro is used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The file: relative to the tree in documents.
    pub file: String,
    /// First byte of the declaration.
    pub start: u32,
    /// One past its last byte.
    pub end: u32,
    /// Where the name is.
    pub name_at: u32,
    /// Where the body's brace is.
    pub body_at: u32,
    /// The line of the name, from 1.
    pub line: u32,
    /// The name that the compiler sees.
    pub name: String,
    /// What it is.
    pub kind: FoundKind,
    /// How it is stored.
    pub storage: Storage,
    /// A macro makes the name.
    pub name_in_macro: bool,
    /// A macro makes the braces.
    pub body_in_macro: bool,
    /// All of it is in one file.
    pub one_file: bool,
}

/// What libclang finds in a unit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExtractDoc {
    /// Why it finds nothing, if the unit could not be read: `crashed`, `failed`, `limit: cpu`.
    pub lost: Option<String>,
    /// Errors it reports: definitions around them may be missing or cut short.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Flags of the recorded command that it was not given, since it does not know them.
    pub dropped: Vec<String>,
    /// Definitions in files that functions may be drawn from, sorted. Files are called as the unit
    /// reads them.
    pub found: Vec<Definition>,
    /// How many definitions are in other files that the build made.
    pub generated: u64,
}

/// A definition with its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// What libclang says.
    #[serde(flatten)]
    pub found: Found,
    /// Digest of the bytes from `start` to `end`.
    pub text: Digest,
}

/// The job that asks libclang about a unit of the unchanged subject.
fn job(
    db: &dyn Db,
    subject: Subject,
    unit: &Unit,
    files: &Snapshot,
    doc: &BaseDoc,
) -> Result<Job, Hold> {
    let Some(libclang) = subject.libclang(db) else {
        return Err(Hold::broken(
            "libclang is needed and was not looked for",
            "this is a fault in everbench; please report it",
        ));
    };
    // What the build made and nobody asks for is in the preprocessed text.
    let read: Vec<Value> = unit
        .reads
        .iter()
        .filter_map(|path| {
            let digest = asked_for(path, files, doc)?;
            Some(Value::List(vec![path.as_str().into(), digest.into()]))
        })
        .collect();
    Ok(Job::of(EXTRACT)
        .put("tool", unit.tool.as_str())
        .put("argv", unit.argv.clone())
        .put("cwd", unit.cwd.as_str())
        .put("env", pairs(&doc.env))
        .put("source", unit.source.as_str())
        .put("preprocessed", unit.preprocessed)
        .put("files", read)
        .blob("libclang", libclang.clone())
        .material("base", base(db, subject, Flavour::Plain)?)
        .done())
}

/// What a file of the built tree holds if functions may be drawn from it: it is of the source, or a
/// copy, or made by the build and asked for.
fn asked_for(path: &str, files: &Snapshot, doc: &BaseDoc) -> Option<Digest> {
    let path = doc.copies.get(path).map_or(path, String::as_str);
    let made = doc.generated.iter().find(|file| file.path == path);
    let brought = || {
        let entry = files.files.get(path)?;
        let same = doc.rewritten.iter().all(|rewritten| rewritten != path);
        same.then_some(entry.digest)
    };
    made.map(|file| file.digest).or_else(brought)
}

/// The jobs of every unit but the test programs' own, in the units' order, by their object.
pub fn jobs(db: &dyn Db, subject: Subject) -> Result<Vec<(String, Job)>, Hold> {
    let (_, files) = population::snapshot(db, subject)?;
    let (_, doc) = population::base(db, subject, FlavourArg::Plain)?;
    let units = doc.units.iter().filter(|u| !u.harness);
    units
        .map(|unit| Ok((unit.object.clone(), job(db, subject, unit, &files, &doc)?)))
        .collect()
}

/// What libclang finds in every unit but the test programs' own, in their order. What it finds in a
/// copy that the build makes is the original's.
#[salsa::tracked(returns(clone))]
pub fn documents(db: &dyn Db, subject: Subject) -> Result<(Digest, Arc<Vec<ExtractDoc>>), Hold> {
    let jobs = jobs(db, subject)?;
    let outputs = fold(jobs.iter().map(|(_, job)| db.demand(job)))?;
    let all = Digest::of(&artifact::write(&outputs));
    let (_, base) = population::base(db, subject, FlavourArg::Plain)?;
    let documents = outputs.into_iter().map(|digest| {
        let mut doc: ExtractDoc = artifact::read(EXTRACT, &db.blob(digest)?)?;
        for definition in &mut doc.found {
            if let Some(original) = base.copies.get(&definition.found.file) {
                definition.found.file = original.clone();
            }
        }
        doc.found.sort();
        doc.found.dedup();
        Ok(doc)
    });
    let documents = fold(documents)?;
    Ok((all, Arc::new(documents)))
}

/// The definitions in one file over all units: each with the units it is in, by number.
pub fn in_file(documents: &[ExtractDoc], path: &str) -> BTreeMap<Definition, Vec<usize>> {
    let mut all: BTreeMap<Definition, Vec<usize>> = BTreeMap::new();
    for (unit, doc) in documents.iter().enumerate() {
        for definition in doc.found.iter().filter(|d| d.found.file == path) {
            let units = all.entry(definition.clone()).or_default();
            if units.last() != Some(&unit) {
                units.push(unit);
            }
        }
    }
    all
}
