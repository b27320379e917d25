//! What of the machine a subject's results rest on, beside the toolchain: the files of the system
//! that its build opens and its programs load. Their names come from builds and are facts; what
//! they hold is observed by every process anew, and stands in the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::artifact::{self, BaseDoc, FOOTPRINT, Opened};
use super::inputs::Subject;
use super::jobs;
use super::layout::{RESULTS_FILE, SCRATCH, TREE, in_tree};
use super::population::{self, FlavourArg};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::job::{Job, Kind, Nature};
use crate::subject::{Places, Shard};

/// What files of the system hold: [`Files`].
pub const FILES: Kind = Kind {
    name: "env/files",
    version: 1,
    nature: Nature::Observed,
};
/// Programs of the system with their interpreters and the libraries that all of these load, and
/// what the files hold: [`Files`].
pub const PROGRAMS: Kind = Kind {
    name: "env/programs",
    version: 1,
    nature: Nature::Observed,
};

/// Where a run looks for programs if its shard does not say it.
const PATH: &str = "/usr/bin:/bin";

/// Files of the system by their names in the sandbox, with the digests of what they hold; nothing
/// for a file that is not there. A program that is on no path has its bare name.
pub type Files = BTreeMap<String, Option<Digest>>;

/// What these files hold.
fn observed<'a>(db: &dyn Db, names: impl Iterator<Item = &'a String>) -> Result<Files, Hold> {
    let names: Vec<String> = names.cloned().collect();
    if names.is_empty() {
        return Ok(Files::new());
    }
    let seen = db.demand(&Job::of(FILES).put("names", names).done())?;
    artifact::read(FILES, &db.blob(seen)?)
}

/// The job that builds the unchanged subject in this environment. What a build opens is known only
/// after a build: the names of an earlier one (the footprint) are where this starts, and when the
/// base has opened others, it is demanded again with these in its key, until there are none.
#[salsa::tracked(returns(clone))]
pub(super) fn base_job(db: &dyn Db, subject: Subject, flavour: FlavourArg) -> Result<Job, Hold> {
    let footprint = jobs::footprint(db, subject, flavour)?;
    let opened: Opened = artifact::read(FOOTPRINT, &db.blob(db.demand(&footprint)?)?)?;
    let mut names: BTreeSet<String> = opened.files().cloned().collect();
    loop {
        let seen = observed(db, names.iter())?;
        let job = jobs::base_in(db, subject, flavour, &footprint, artifact::write(&seen))?;
        let Ok(output) = db.demand(&job) else {
            // Whoever needs it demands it.
            return Ok(job);
        };
        let doc: BaseDoc = artifact::read(artifact::BASE, &db.blob(output)?)?;
        let known = names.len();
        names.extend(doc.opened.files().cloned());
        if names.len() == known {
            return Ok(job);
        }
    }
}

/// All that is in the base's key of the system.
#[salsa::tracked(returns(clone))]
fn files(db: &dyn Db, subject: Subject, flavour: FlavourArg) -> Result<Arc<Files>, Hold> {
    let job = base_job(db, subject, flavour)?;
    let digest = job.digest("environment");
    let bytes = job.preimages().iter().find(|(d, _)| *d == digest);
    let (_, bytes) = bytes.expect("the job was made here, with its environment");
    artifact::read(FILES, bytes).map(Arc::new)
}

fn part<'a>(files: &Files, names: impl IntoIterator<Item = &'a String>) -> Files {
    let known = |name: &String| Some((name.clone(), *files.get(name)?));
    names.into_iter().filter_map(known).collect()
}

/// The files that links of the subject open.
#[salsa::tracked(returns(clone))]
pub(super) fn link(db: &dyn Db, subject: Subject, flavour: FlavourArg) -> Result<Arc<[u8]>, Hold> {
    let (_, doc) = population::base(db, subject, flavour)?;
    let files = files(db, subject, flavour)?;
    Ok(artifact::write(&part(&files, &doc.opened.link)).into())
}

/// The program that a command names, and where it is looked for: as an argument of queries.
#[salsa::interned]
struct Program<'db> {
    #[returns(ref)]
    name: String,
    #[returns(ref)]
    path: String,
}

/// The files that a run of a shard loads: libraries of the built programs, and the program that the
/// shard's command names with all that this one is made of.
pub(super) fn of_run(
    db: &dyn Db,
    subject: Subject,
    flavour: FlavourArg,
    shard: &Shard,
) -> Result<Arc<[u8]>, Hold> {
    let (name, path) = called(shard);
    run(db, subject, flavour, Program::new(db, name, path))
}

/// The first word of a shard's command, and where that is looked for if it has no `/`.
pub(super) fn called(shard: &Shard) -> (String, String) {
    let places = Places {
        tree: TREE,
        results: RESULTS_FILE,
        scratch: SCRATCH,
    };
    let first = shard.argv.first();
    let name = first.map_or(String::new(), |word| shard.text(word, places));
    let path = shard.env.get("PATH");
    let path = path.map_or(PATH.to_string(), |path| shard.text(path, places));
    (name, path)
}

#[salsa::tracked(returns(clone))]
fn run<'db>(
    db: &'db dyn Db,
    subject: Subject,
    flavour: FlavourArg,
    program: Program<'db>,
) -> Result<Arc<[u8]>, Hold> {
    let (_, doc) = population::base(db, subject, flavour)?;
    let mut loaded = part(&*files(db, subject, flavour)?, &doc.opened.loaded);
    let programs = of_the_system(program.name(db), &doc.opened.scripts);
    if !programs.is_empty() {
        let job = Job::of(PROGRAMS)
            .put("programs", programs)
            .put("path", program.path(db).as_str());
        let seen = db.demand(&job.done())?;
        loaded.extend(artifact::read::<Files>(PROGRAMS, &db.blob(seen)?)?);
    }
    Ok(artifact::write(&loaded).into())
}

/// The programs of the system that a command starts with: the one it names, or those that a script
/// of the tree names in its first line.
fn of_the_system(name: &str, scripts: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    if !name.contains('/') {
        return vec![name.to_string()];
    }
    match in_tree(".", name) {
        Some(path) => scripts.get(&path).cloned().unwrap_or_default(),
        None => vec![name.to_string()],
    }
}

/// One digest of all that results of a subject rest on in the environment.
#[salsa::tracked(returns(clone))]
pub(super) fn digest(db: &dyn Db, subject: Subject) -> Result<Digest, Hold> {
    let flavour = FlavourArg::Sanitized;
    let mut parts = BTreeSet::new();
    for shard in &super::suite::suite(db, subject)?.shards {
        parts.insert(Digest::of(&of_run(db, subject, flavour, shard)?));
    }
    let links = [FlavourArg::Plain, flavour].map(|f| Ok(Digest::of(&link(db, subject, f)?)));
    let links = links.into_iter().collect::<Result<Vec<Digest>, Hold>>()?;
    Ok(Digest::of(&artifact::write(&(links, parts))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_starts_with_programs_of_the_system() {
        let words = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        let scripts = BTreeMap::from([("t/run".to_string(), words(&["/usr/bin/env", "python3"]))]);
        let of = |name: &str| of_the_system(name, &scripts);
        assert_eq!(of("prove"), ["prove"]);
        assert_eq!(of("/usr/bin/tclsh"), ["/usr/bin/tclsh"]);
        assert_eq!(of("./t/run"), ["/usr/bin/env", "python3"]);
        assert_eq!(of("/eb/tree/t/run"), ["/usr/bin/env", "python3"]);
        // A program of the tree's own: what it loads is known from the base.
        assert_eq!(of("t/other"), words(&[]));
    }
}
