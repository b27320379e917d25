//! Which functions of a subject are asked about: what its source defines, what of it the compiler
//! sees, what the manifest's filters leave, and the sample drawn of that. Every exclusion is
//! counted by its reason.

mod built;
mod by_libclang;
mod drawn;
mod extract;
mod reading;
mod rows;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use built::{FlavourArg, base, link_context, skeleton, snapshot, source};
pub use drawn::{sample, sample_digest};
pub use reading::{
    SharedLanguage, Text, UnitFacts, file_functions, is_positional, language, languages, readings,
    substance, unit_facts,
};
pub use units::language_of;

pub(super) use drawn::identity;
pub(super) use extract::{Selected, by, selected};
pub(super) use rows::{recall, recalled, remember};
pub(super) use units::compiled_lines;

use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::LanguageId;
use crate::oss::compiled;
use crate::oss::inputs::{Settings, Subject};
use crate::subject::Extractor;
use extract::{Places, extraction};

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
    if subject.rules(db).functions.extractor == Extractor::Libclang {
        inputs.push(compiled::documents(db, subject)?.0);
    }
    Ok(Arc::new(inputs))
}

/// What has to be there before the functions are known: the plain base, and what its extractor
/// says of it.
pub fn ground(db: &dyn Db, subject: Subject) -> Result<(), Hold> {
    base(db, subject, FlavourArg::Plain)?;
    if subject.rules(db).functions.extractor == Extractor::Libclang {
        compiled::documents(db, subject)?;
    }
    Ok(())
}

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
