//! The subject's source tree, and what its unchanged build is: the ground that all else stands on.

use std::sync::Arc;

use super::reading::Text;
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::oss::artifact::{self, BaseDoc, BuiltFile, Step};
use crate::oss::inputs::{Origin, Subject};
use crate::oss::jobs;
use crate::source::Snapshot;
use crate::subject::Flavour;

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
            return Err(Hold::baseline_broken(
                format!(
                    "the unchanged subject `{}` does not build ({flavour}): `{}` did not start: {why}",
                    subject.manifest(db).name,
                    broken.command,
                ),
                "check `[build]` in the manifest: a program is looked for in the folder where the command \
                 runs when its name has a `/`, else in /usr/local/bin, /usr/bin and /bin",
            ));
        }
        return Err(Hold::baseline_broken(
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

/// What the symbols of an object define, one a line: others can be linked to these, or clash with
/// them. What the object refers to was found when the unchanged subject was linked, and stays found.
#[salsa::tracked(returns(clone))]
fn defined<'db>(db: &'db dyn Db, symbols: Text<'db>) -> Result<Digest, Hold> {
    let listing = db.blob(symbols.digest(db))?;
    let defines = |line: &&[u8]| !matches!(line.first(), Some(b'U' | b'w' | b'v'));
    let lines: Vec<&[u8]> = listing.split(|b| *b == b'\n').filter(defines).collect();
    Ok(Digest::of(&lines.join(&b'\n')))
}

/// The digest of everything that a link can depend on besides the replaced unit: all symbols that
/// are defined, all archive and link commands.
#[salsa::tracked(returns(clone))]
pub fn link_context(db: &dyn Db, subject: Subject) -> Result<Digest, Hold> {
    let (_, doc) = base(db, subject, FlavourArg::Plain)?;
    let symbols = fold(doc.units.iter().map(|unit| {
        let defined = defined(db, Text::new(db, unit.symbols))?;
        Ok((&unit.object, defined))
    }))?;
    let steps: &Vec<Step> = &doc.steps;
    Ok(Digest::of(&match doc.env.is_empty() {
        true => artifact::write(&(symbols, steps)),
        false => artifact::write(&(symbols, steps, &doc.env)),
    }))
}

/// The digest of what the sanitized base is made of and made into, without the texts of its units
/// and without what else lies in its tree: what a program depends on besides the units it compiles.
#[salsa::tracked(returns(clone))]
pub fn skeleton(db: &dyn Db, subject: Subject) -> Result<Digest, Hold> {
    let (_, doc) = base(db, subject, FlavourArg::Sanitized)?;
    let mut doc = BaseDoc::clone(&doc);
    for unit in &mut doc.units {
        unit.preprocessed = Digest([0; 32]);
    }
    doc.opened = artifact::Opened::default();
    doc.others.clear();
    Ok(Digest::of(&artifact::write(&doc)))
}
