//! Benchmarks of bug fixes against histories: was the patch of each instance in its repository when a
//! model's data was collected? What histories say is facts in the store; what that means for a
//! cutoff is derived whenever it is asked for.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::fault_of;
use super::project::cores;
use super::stored::store_to_fill;
use super::tosss::Places;
use super::{AppError, TOOL};
use crate::cancel::Cancel;
use crate::contamination::patch::benchmark::{Benchmark, Instance, folders, rows};
use crate::contamination::patch::category::Window;
use crate::contamination::patch::course::Course;
use crate::contamination::patch::decide::Thresholds;
use crate::contamination::patch::jobs::{JOIN, LEG, LINE, STRETCH, WALK, Way, line};
use crate::contamination::patch::verdict::{Told, told};
use crate::contamination::patch::walk::{Join, Leg, Line, Problem, Walk};
use crate::digest::Digest;
use crate::engine::{Db, Driver, EngineDb, Failure, Hold, Ledger, Observer, Registry};
use crate::exec::patches::{Courses, Lines, Walks};
use crate::job::{Job, Key};
use crate::source::history::RENAME_LIMIT;
use crate::source::line::tip;
use crate::store::{Entry, Manifest, Store, StoreLedger};

/// The root of what the patches of a benchmark rest on is below this.
const ROOT: &str = "contamination/patches";
/// Files of a folder that are no larger are read.
const MOST: u64 = 64 << 20;

/// Reads a benchmark: a file of JSON rows, or a folder of Defects4J or BugsInPy.
///
/// # Errors
/// A path that cannot be read, or that holds no instance.
pub fn read_benchmark(path: &Path) -> Result<Benchmark, AppError> {
    let wrong = |e: &dyn std::fmt::Display| AppError::Input(format!("{}: {e}", path.display()));
    let help = "a file of JSON rows (SWE-bench, Multi-SWE-bench) or a folder of Defects4J or BugsInPy is expected";
    let none = |e: &dyn std::fmt::Display| wrong(&format!("{e}\n  help: {help}"));
    if !path.is_dir() {
        let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
        return rows(&bytes).map_err(|e| none(&e));
    }
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        let entry = entry.map_err(|e| wrong(&e))?;
        let below = entry.path().strip_prefix(path).unwrap_or(entry.path());
        let name = below.to_string_lossy().into_owned();
        if entry.file_type().is_file() && wanted(&name) {
            let size = entry.metadata().map_or(0, |m| m.len());
            if size <= MOST {
                files.insert(name, std::fs::read(entry.path()).map_err(|e| wrong(&e))?);
            }
        }
    }
    // A project's own folder tells its name only from above.
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
    let own = files.contains_key("active-bugs.csv") || files.contains_key("project.info");
    if let (Some(name), true) = (name, own) {
        files = files
            .into_iter()
            .map(|(p, b)| (format!("{name}/{p}"), b))
            .collect();
    }
    folders(&files).map_err(|e| none(&e))
}

/// The files of a folder that say anything of an instance.
fn wanted(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [
        "active-bugs.csv",
        "bug.info",
        "project.info",
        "bug_patch.txt",
        "run_test.sh",
    ]
    .contains(&name)
        || path.contains("patches/") && name.ends_with(".patch")
        || path.contains("trigger_tests/")
}

/// What is asked of a benchmark.
#[derive(Clone, Debug)]
pub struct Question {
    /// When data was collected.
    pub window: Window,
    /// From where on something counts as there.
    pub thresholds: Thresholds,
    /// Where clones are: a folder of them, or a JSON file with the path of each.
    pub repositories: PathBuf,
    /// Jobs run at once.
    pub jobs: Option<usize>,
}

/// What was found out.
pub struct Found {
    /// For each instance in the benchmark's order what is said of it; nothing while a job is missing.
    pub told: Vec<Option<Told>>,
    /// Where the clones of repositories are.
    pub places: BTreeMap<String, PathBuf>,
    /// The commit that each one's default branch is at.
    pub tips: BTreeMap<String, String>,
    /// Jobs that were run, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Jobs that are missing.
    pub missing: usize,
    /// Whether it was stopped.
    pub stopped: bool,
}

/// The clones of the repositories of a benchmark, and for each that is there the commit its default
/// branch is at.
struct Clones {
    places: BTreeMap<String, PathBuf>,
    tips: BTreeMap<String, String>,
    /// Why others cannot be had.
    gone: BTreeMap<String, String>,
}

fn clones(benchmark: &Benchmark, repositories: &Path) -> Result<Clones, AppError> {
    let listed: Option<BTreeMap<String, PathBuf>> = match repositories.is_dir() {
        true => None,
        false => {
            let wrong = |e: &dyn std::fmt::Display| {
                AppError::Input(format!(
                    "{}: {e}\n  help: a folder of clones is expected, or a JSON file such as {{\"owner/name\": \"path/of/its/clone\"}}",
                    repositories.display()
                ))
            };
            let bytes = std::fs::read(repositories).map_err(|e| wrong(&e))?;
            let all: BTreeMap<String, PathBuf> =
                serde_json::from_slice(&bytes).map_err(|e| wrong(&e))?;
            let folder = repositories.parent().unwrap_or(Path::new("."));
            Some(all.into_iter().map(|(n, p)| (n, folder.join(p))).collect())
        }
    };
    let folder = Places {
        repositories: Some(repositories.to_path_buf()),
        jobs: None,
    };
    let names: BTreeSet<&String> = benchmark.instances.iter().map(|i| &i.repository).collect();
    let mut clones = Clones {
        places: BTreeMap::new(),
        tips: BTreeMap::new(),
        gone: BTreeMap::new(),
    };
    for name in names {
        let path = match &listed {
            Some(all) => all.get(name).cloned(),
            None => folder.find(name),
        };
        let Some(path) = path else {
            let what = format!("there is no clone of {name}");
            clones.gone.insert(name.clone(), what);
            continue;
        };
        match tip(&path) {
            Ok(id) => {
                clones.tips.insert(name.clone(), id);
                clones.places.insert(name.clone(), path);
            }
            Err(error) => {
                clones.gone.insert(name.clone(), error.to_string());
            }
        }
    }
    Ok(clones)
}

/// Where the clones of a benchmark's repositories are, as far as they can be had.
///
/// # Errors
/// A list of clones that cannot be read.
pub fn places(
    benchmark: &Benchmark,
    repositories: &Path,
) -> Result<BTreeMap<String, PathBuf>, AppError> {
    clones(benchmark, repositories).map(|clones| clones.places)
}

/// What was read of the store.
#[derive(Default)]
pub(super) struct Lookup {
    courses: Arc<Courses>,
    /// By repository and tip.
    lines: Mutex<HashMap<(String, String), Arc<Known>>>,
    /// By digest.
    legs: Mutex<HashMap<Digest, Arc<Leg>>>,
}

/// The line of a repository with its changes, and the jobs that these are the outputs of.
struct Known {
    course: Arc<Course>,
    jobs: Vec<(Job, Digest)>,
}

impl Lookup {
    fn leg(&self, db: &dyn Db, digest: Digest) -> Result<Arc<Leg>, Hold> {
        let mut legs = self.legs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leg) = legs.get(&digest) {
            return Ok(leg.clone());
        }
        let leg = Leg::decode(&db.blob(digest)?).map_err(|e| unreadable(&e))?;
        let leg = Arc::new(leg);
        legs.insert(digest, leg.clone());
        Ok(leg)
    }

    /// The line of a repository, or all that is missing of it.
    fn line(&self, db: &dyn Db, repository: &str, tip: &str) -> Result<Arc<Known>, Hold> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let of = (repository.to_string(), tip.to_string());
        if let Some(known) = lines.get(&of) {
            return Ok(known.clone());
        }
        let job = line(repository, tip);
        let digest = db.demand(&job)?;
        let line = Line::decode(&db.blob(digest)?).map_err(|e| unreadable(&e))?;
        let mut jobs = vec![(job, digest)];
        let mut hold = Hold::default();
        for job in way(&line, tip).stretches(repository) {
            match db.demand(&job) {
                Ok(output) => jobs.push((job, output)),
                Err(missing) => hold.merge(&missing),
            }
        }
        if !hold.is_empty() {
            return Err(hold.settle());
        }
        let course = self.courses.get(
            (repository, tip, RENAME_LIMIT),
            digest,
            &|digest| db.blob(digest),
            &|job| db.demand(job),
            &|error| unreadable(error),
        )?;
        let known = Arc::new(Known { course, jobs });
        lines.insert(of, known.clone());
        Ok(known)
    }
}

fn way<'a>(line: &'a Line, tip: &'a str) -> Way<'a> {
    Way {
        line,
        tip,
        renames: RENAME_LIMIT,
    }
}

pub(super) fn unreadable(error: &dyn std::fmt::Display) -> Hold {
    Hold::broken(
        format!("what a history gave cannot be read: {error}"),
        "another version of this program wrote it: begin in a fresh folder",
    )
}

/// The registered executors of what histories say.
pub(super) fn register(
    registry: &mut Registry,
    places: &BTreeMap<String, PathBuf>,
    lookup: &Lookup,
) {
    let lines = Arc::new(Lines {
        places: places.clone(),
    });
    let walks = Arc::new(Walks::new(places.clone(), lookup.courses.clone()));
    // All walks of a repository wait for its line. What was begun is ended first: its base is at hand.
    registry.add(LINE, 10, lines.clone());
    registry.add(STRETCH, 9, lines.clone());
    registry.add(JOIN, 8, lines);
    registry.add(LEG, 7, walks.clone());
    registry.add(WALK, 5, walks);
}

/// The legs of the walk of a patch, from its base to the first commit and to the tip.
struct Walked {
    course: Arc<Course>,
    /// Why it could not begin.
    failed: Option<Walk>,
    legs: Vec<Arc<Leg>>,
    /// What it rests on, with the outputs.
    jobs: Vec<(Job, Digest)>,
}

/// What is known of one instance, or the job that is missing. Which legs there are follows from the line
/// alone: whoever walks it finds the same ones, whatever tips were seen before.
fn walked(db: &dyn Db, lookup: &Lookup, instance: &Instance, tip: &str) -> Result<Walked, Hold> {
    let line = lookup.line(db, &instance.repository, tip)?;
    let course = &line.course;
    let way = way(&course.line, tip);
    let mut walked = Walked {
        failed: None,
        legs: Vec::new(),
        jobs: line.jobs.clone(),
        course: course.clone(),
    };
    let base = &instance.base;
    let mut at = course.positions.get(base).copied();
    if at.is_none() {
        let job = way.join(&instance.repository, base);
        let output = db.demand(&job)?;
        walked.jobs.push((job, output));
        let join = Join::decode(&db.blob(output)?).map_err(|e| unreadable(&e))?;
        let problem = match join {
            Join::Gone => Problem::BaseGone,
            Join::Apart => Problem::BaseApart,
            Join::At(id) => {
                at = course.positions.get(&id).copied();
                Problem::BaseApart
            }
        };
        if at.is_none() {
            walked.failed = Some(Walk::failed(problem, base));
        }
    }
    let Some(mut from) = at else {
        return Ok(walked);
    };
    let mut job = way.walk(instance, from);
    loop {
        let output = db.demand(&job)?;
        walked.jobs.push((job, output));
        let leg = lookup.leg(db, output)?;
        walked.legs.push(leg.clone());
        let Some(to) = course.index.further(&leg.ends, from) else {
            return Ok(walked);
        };
        job = way.leg(instance, output, (from, to));
        from = to;
    }
}

impl Walked {
    /// All legs as one walk.
    fn walk(&self) -> Walk {
        let mut walk = self.failed.clone().unwrap_or_default();
        let mut legs = self.legs.iter();
        if let Some(first) = legs.next() {
            walk = first.walk.clone();
        }
        for leg in legs {
            walk.extend(&leg.walk);
        }
        walk
    }
}

/// What is known of one instance, or the job that is missing: the line and the walk.
pub(super) fn known(
    db: &dyn Db,
    lookup: &Lookup,
    instance: &Instance,
    tip: &str,
) -> Result<(Arc<Line>, Walk), Hold> {
    let walked = walked(db, lookup, instance, tip)?;
    Ok((walked.course.line.clone(), walked.walk()))
}

/// Finds out of each instance of a benchmark whether its patch was there, running what is missing.
///
/// # Errors
/// A store or a list of clones that cannot be used.
pub fn patches(
    dir: &Path,
    benchmark: &Benchmark,
    question: &Question,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Found, AppError> {
    let clones = clones(benchmark, &question.repositories)?;
    let store = Arc::new(store_to_fill(dir)?);
    let mut registry = Registry::default();
    let lookup = Lookup::default();
    register(&mut registry, &clones.places, &lookup);
    let reader = store.reader()?;
    let mut db = EngineDb::new(Arc::new(reader.clone()));
    let ledger = StoreLedger::new(store.clone(), &reader, TOOL);
    let driver = Driver {
        registry: &registry,
        ledger: &ledger,
        cores: question.jobs.unwrap_or_else(cores),
        cancel: cancel.clone(),
    };
    let driven = driver
        .drive(&mut db, observer, |db| {
            let mut hold = Hold::default();
            let mut lines = BTreeSet::new();
            for (repository, tip) in &clones.tips {
                match lookup.line(db, repository, tip) {
                    Ok(_) => _ = lines.insert(repository),
                    Err(missing) => hold.merge(&missing),
                }
            }
            for instance in &benchmark.instances {
                if let Some(tip) = clones.tips.get(&instance.repository)
                    && lines.contains(&instance.repository)
                    && let Err(missing) = walked(db, &lookup, instance, tip)
                {
                    hold.merge(&missing);
                }
            }
            ((), hold.settle())
        })
        .map_err(AppError::Drive)?;
    ledger.remember(db.take_rows());
    fault_of(&driven.hold)?;
    let mut reasons: BTreeMap<Key, String> = BTreeMap::new();
    for (job, failure) in &driven.failures {
        if let Failure::Fatal { what, .. } = failure {
            reasons.insert(job.key(), what.clone());
        }
    }
    let mut missing = 0;
    let mut entries = BTreeMap::new();
    let mut all = Vec::with_capacity(benchmark.instances.len());
    for instance in &benchmark.instances {
        let one = clones
            .tips
            .get(&instance.repository)
            .map(|tip| walked(&db, &lookup, instance, tip));
        let gone = |what: &str| {
            let mut told = Told::unknown(Some(Problem::RepositoryGone));
            told.reason = what.to_string();
            Some(told)
        };
        all.push(match one {
            None => gone(&clones.gone[&instance.repository]),
            Some(Ok(walked)) => {
                let line = &walked.course.line;
                let (window, thresholds) = (&question.window, &question.thresholds);
                let told = told(&walked.walk(), line, window, thresholds);
                list(instance, walked.jobs, &mut entries);
                Some(told)
            }
            Some(Err(hold)) => {
                let mut fatal = hold.jobs().iter().filter_map(|job| reasons.get(&job.key()));
                match fatal.next() {
                    Some(what) => gone(what),
                    None => {
                        missing += hold.jobs().len();
                        None
                    }
                }
            }
        });
    }
    keep(&store, benchmark, entries)?;
    Ok(Found {
        told: all,
        places: clones.places,
        tips: clones.tips,
        executed: driven
            .executed
            .iter()
            .map(|(kind, n)| (kind.to_string(), *n))
            .collect(),
        missing,
        stopped: driven.stopped,
    })
}

/// Notes the jobs that an instance rests on, with their outputs.
fn list(
    instance: &Instance,
    jobs: Vec<(Job, Digest)>,
    entries: &mut BTreeMap<String, (Job, Digest)>,
) {
    for (number, (job, output)) in jobs.into_iter().enumerate() {
        let of = match [LINE, STRETCH].contains(&job.kind()) {
            true => &instance.repository,
            false => &instance.id,
        };
        let what = job.kind().name.rsplit('/').next().unwrap_or_default();
        entries.insert(format!("{what}/{of}/{number}"), (job, output));
    }
}

/// Lists what a benchmark rests on, so that it stays in the store: a benchmark is known by its
/// instances, whatever of it was asked.
fn keep(
    store: &Store,
    benchmark: &Benchmark,
    entries: BTreeMap<String, (Job, Digest)>,
) -> Result<(), AppError> {
    let mut ids: Vec<&str> = benchmark.instances.iter().map(|i| &*i.id).collect();
    ids.sort_unstable();
    let name = Digest::of(ids.join("\n").as_bytes()).short();
    let entries = entries.into_iter().map(|(id, (job, output))| Entry {
        id,
        key: job.key(),
        output,
    });
    let manifest = Manifest::build(entries)?;
    store.put_manifest(&format!("{ROOT}/{name}"), &manifest)?;
    Ok(())
}
