//! TOSSS in a folder: which fixes are mined, what they gave, and scores over that. The list of
//! fixes is a file beside the store, what commits and packages change are facts in the store, and
//! pairs are derived from both whenever they are asked for.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

pub mod ask;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::asking::{Answerer, usable};
use super::error::fault_of;
use super::project::cores;
use super::stored::store_to_fill;
use super::{AppError, TOOL, store_to_look};
use crate::cancel::Cancel;
use crate::engine::{Absent, Db, Driver, EngineDb, Failure, Hold, Ledger, Observer, Registry};
use crate::exec::mine::{Changes, Patches, source_package};
use crate::job::{Job, Key};
use crate::source::history::RENAME_LIMIT;
use crate::source::{Apt, Limits as ArchiveLimits, SourceError, archive};
use crate::store::{Entry, Manifest, Store, StoreLedger};
use crate::tosss::change::Dropped;
use crate::tosss::jobs::{CHANGE, PATCHES, change, patches};
use crate::tosss::pair::{Limits, Mined, NoPair, Pair};
use crate::tosss::query::{FixArg, PackageArg, fix_pairs, package_pairs};
use crate::tosss::record::{self, Fix, Found, Problem, is_record};

/// What the file of fixes says of its format.
const FORMAT: &str = "everbench-tosss/1";
/// The root of what mining rests on.
const ROOT: &str = "tosss/mined";

/// What is mined in a folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quarry {
    format: String,
    /// Debian source packages: name and version.
    pub packages: Vec<(String, String)>,
    /// Commits that are said to fix something.
    pub fixes: Vec<Fix>,
    /// Records that gave no fix: how many for each reason.
    pub problems: BTreeMap<Problem, usize>,
    /// What a fix may change.
    pub limits: Limits,
    /// Pairs that were mined elsewhere.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// What could not be had when it was last tried: the job's key and what is told of it.
    #[serde(default)]
    gone: BTreeMap<String, Vec<NoPair>>,
    /// Models that were asked.
    #[serde(default)]
    pub asked: Vec<Answerer>,
}

impl Default for Quarry {
    fn default() -> Self {
        Quarry {
            format: FORMAT.into(),
            packages: Vec::new(),
            fixes: Vec::new(),
            problems: BTreeMap::new(),
            limits: Limits::default(),
            pairs: Vec::new(),
            gone: BTreeMap::new(),
            asked: Vec::new(),
        }
    }
}

impl Quarry {
    fn path(dir: &Path) -> PathBuf {
        dir.join(".everbench").join("tosss.json")
    }

    /// What is mined in `dir`; nothing yet if there is no list.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Quarry>, AppError> {
        let path = Quarry::path(dir);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(AppError::Environment(format!("{}: {e}", path.display()))),
        };
        let broken = |what: &dyn std::fmt::Display| {
            AppError::Input(format!(
                "{}: {what}\n  help: remove it and mine again; what is in the store is not read twice",
                path.display()
            ))
        };
        let quarry: Quarry = serde_json::from_slice(&bytes).map_err(|e| broken(&e))?;
        match quarry.format == FORMAT {
            true => Ok(Some(quarry)),
            false => Err(broken(&format!(
                "its format is `{}`, not `{FORMAT}`",
                quarry.format
            ))),
        }
    }

    fn write(&self, dir: &Path) -> Result<(), AppError> {
        let path = Quarry::path(dir);
        let fault = |e: std::io::Error| AppError::Environment(format!("{}: {e}", path.display()));
        let folder = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(folder).map_err(fault)?;
        let bytes = serde_json::to_vec_pretty(self).expect("texts and numbers are JSON");
        // Renamed into place, so that whoever reads it finds all of it.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
        std::io::Write::write_all(&mut file, &bytes).map_err(fault)?;
        file.persist(&path).map_err(|e| fault(e.error))?;
        Ok(())
    }

    /// Adds fixes that are not there yet, and counts the records that gave none.
    pub fn add(&mut self, found: Found) {
        for (problem, count) in found.counts() {
            *self.problems.entry(problem).or_default() += count;
        }
        let mut known: BTreeSet<Fix> = self.fixes.iter().cloned().collect();
        let new = found
            .fixes
            .into_iter()
            .filter(|fix| known.insert(fix.clone()));
        self.fixes.extend(new);
    }

    /// Adds a source package, in place of another version of it.
    pub fn add_package(&mut self, name: &str, version: &str) {
        self.packages.retain(|(known, _)| known != name);
        self.packages.push((name.to_string(), version.to_string()));
    }

    /// The jobs that it rests on, each with what it is called.
    fn jobs(&self) -> BTreeMap<String, Job> {
        let packages = self
            .packages
            .iter()
            .map(|(name, version)| (format!("tosss/package/{name}"), patches(name, version)));
        let commits = self.fixes.iter().map(|fix| {
            let id = format!("tosss/commit/{}/{}", fix.repository, fix.commit);
            (id, change_of(fix))
        });
        packages.chain(commits).collect()
    }

    /// What was mined with what could not be had, and how many jobs may yet give something.
    fn told(&self, parts: &[Arc<Mined>], hold: &Hold) -> (Mined, usize) {
        let brought = Mined {
            pairs: self.pairs.clone(),
            dropped: Vec::new(),
        };
        let parts = parts.iter().map(|part| &**part);
        let mut mined = Mined::join(parts.chain([&brought]));
        let jobs = hold.jobs().iter();
        let keys = jobs.map(|job| job.key().to_string());
        let mut missing = 0;
        for key in keys {
            let told = self.gone.get(&key).map_or(&[][..], Vec::as_slice);
            // What does not answer now may do so later.
            let lost = |no: &NoPair| no.reason != Dropped::Unreachable;
            missing += usize::from(!told.iter().any(lost));
            mined.dropped.extend_from_slice(told);
        }
        (mined, missing)
    }

    /// What each package and fix gives as far as it is known, and what is missing: queries, evaluated
    /// on all cores.
    pub fn mined(&self, db: &EngineDb) -> (Vec<Arc<Mined>>, Hold) {
        db.warm(&self.packages, |db, (name, version)| {
            let _ = package(db, name, version, self.limits);
        });
        db.warm(&self.fixes, |db, fix| {
            let _ = commit(db, fix, self.limits);
        });
        let mut parts = Vec::new();
        let mut hold = Hold::default();
        let mut take = |part: Result<Arc<Mined>, Hold>| match part {
            Ok(mined) => parts.push(mined),
            Err(missing) => hold.merge(&missing),
        };
        for (name, version) in &self.packages {
            take(package(db, name, version, self.limits));
        }
        for fix in &self.fixes {
            take(commit(db, fix, self.limits));
        }
        (parts, hold.settle())
    }
}

fn change_of(fix: &Fix) -> Job {
    change(&fix.repository, &fix.commit, RENAME_LIMIT)
}

fn package(db: &dyn Db, name: &str, version: &str, limits: Limits) -> Result<Arc<Mined>, Hold> {
    let arg = PackageArg::new(db, name.to_string(), version.to_string(), limits);
    package_pairs(db, arg)
}

fn commit(db: &dyn Db, fix: &Fix, limits: Limits) -> Result<Arc<Mined>, Hold> {
    fix_pairs(db, FixArg::new(db, fix.clone(), limits, RENAME_LIMIT))
}

/// What mining gave.
pub struct Mining {
    /// Pairs, and what gave none.
    pub mined: Mined,
    /// Jobs that were run, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Jobs that are still missing.
    pub missing: usize,
    /// Whether it was stopped.
    pub stopped: bool,
    /// What keeps jobs from being run that the user or the machine has to mend, each once.
    pub failures: BTreeSet<String>,
}

/// Where what is mined is to be had on this machine.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A folder of clones, called as their repositories are: `owner/name` or `name`, perhaps with
    /// `.git`.
    pub repositories: Option<PathBuf>,
    /// Jobs run at once.
    pub jobs: Option<usize>,
}

impl Places {
    /// The clone of a repository, if there is one.
    pub(super) fn find(&self, repository: &str) -> Option<PathBuf> {
        let own = Path::new(repository);
        if own.is_absolute() {
            return own.exists().then(|| own.to_path_buf());
        }
        let folder = self.repositories.as_ref()?;
        let path = repository
            .split_once("://")
            .map_or(repository, |(_, rest)| rest);
        let words: Vec<&str> = path.trim_end_matches(".git").split('/').collect();
        let name = words.last()?;
        let owner = words.len().checked_sub(2).and_then(|at| words.get(at));
        let mut names = vec![name.to_string()];
        if let Some(owner) = owner {
            names.insert(0, format!("{owner}/{name}"));
        }
        names
            .iter()
            .flat_map(|n| [folder.join(n), folder.join(format!("{n}.git"))])
            .find(|path| path.join("HEAD").exists() || path.join(".git").exists())
    }
}

/// Gives the newest version of a source package that is on offer.
pub type Newest<'a> = &'a dyn Fn(&str) -> Result<String, AppError>;

/// Mines what `change` makes of the list in `dir`, and writes the list down. What is in the store
/// is not read again; what cannot be had is told as a reason, and the rest goes on.
///
/// # Errors
/// A list or store that cannot be used.
pub fn mine(
    dir: &Path,
    places: &Places,
    cancel: &Cancel,
    observer: &mut dyn Observer,
    change: impl FnOnce(&mut Quarry, Newest<'_>) -> Result<(), AppError>,
) -> Result<Mining, AppError> {
    let private = dir.join(".everbench").join("sources");
    let apt = Apt::new(&private);
    let mut quarry = Quarry::read(dir)?.unwrap_or_default();
    let newest = |name: &str| {
        let found = apt.newest(&source_package(name, None));
        let found = found.map_err(|e| AppError::from(SourceError::from(e)));
        found.map(|pin| pin.version)
    };
    change(&mut quarry, &newest)?;
    let store = Arc::new(store_to_fill(dir)?);
    quarry.write(dir)?;
    let names: BTreeSet<&String> = quarry.fixes.iter().map(|f| &f.repository).collect();
    let known = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), places.find(name)?)));
    let mut registry = Registry::default();
    registry.add(CHANGE, 0, Arc::new(Changes::new(known.collect(), &private)));
    let patches = Patches {
        apt,
        scratch: private.join("scratch"),
    };
    registry.add(PATCHES, 10, Arc::new(patches));

    let reader = store.reader()?;
    let mut db = EngineDb::new(Arc::new(reader.clone()));
    let ledger = StoreLedger::new(store.clone(), &reader, TOOL);
    let driver = Driver {
        registry: &registry,
        ledger: &ledger,
        cores: places.jobs.unwrap_or_else(cores),
        cancel: cancel.clone(),
    };
    let driven = driver
        .drive(&mut db, observer, |db| quarry.mined(db))
        .map_err(AppError::Drive)?;
    ledger.remember(db.take_rows());
    fault_of(&driven.hold)?;
    quarry.gone = gone(&quarry, &driven.failures);
    quarry.write(dir)?;
    list(&store, &quarry)?;
    let (mined, missing) = quarry.told(&driven.value, &driven.hold);
    let failures = driven.failures.iter().filter_map(|(_, why)| match why {
        Failure::Fatal { what, help } => Some(format!("{what}\n  help: {help}")),
        _ => None,
    });
    Ok(Mining {
        mined,
        missing,
        failures: failures.collect(),
        executed: driven
            .executed
            .iter()
            .map(|(kind, n)| (kind.to_string(), *n))
            .collect(),
        stopped: driven.stopped,
    })
}

/// What could not be had, by the keys of its jobs.
fn gone(quarry: &Quarry, failures: &[(Job, Failure)]) -> BTreeMap<String, Vec<NoPair>> {
    let mut reasons: BTreeMap<Key, (&str, Dropped)> = BTreeMap::new();
    for (job, failure) in failures {
        let reason = match failure {
            Failure::Absent { of, what, .. } => match of {
                Absent::Source => (what.as_str(), Dropped::RepositoryGone),
                Absent::Part => (what.as_str(), Dropped::CommitGone),
            },
            Failure::Transient(what) => (what.as_str(), Dropped::Unreachable),
            _ => continue,
        };
        reasons.insert(job.key(), reason);
    }
    let mut gone: BTreeMap<String, Vec<NoPair>> = BTreeMap::new();
    let mut note = |key: Key, id: &str, commit: &str| {
        let Some((what, reason)) = reasons.get(&key) else {
            return;
        };
        gone.entry(key.to_string()).or_default().push(NoPair {
            id: id.to_string(),
            commit: commit.to_string(),
            path: Some(what.to_string()),
            function: None,
            reason: *reason,
        });
    };
    for fix in &quarry.fixes {
        note(change_of(fix).key(), &fix.vulnerability.id, &fix.commit);
    }
    for (name, version) in &quarry.packages {
        note(
            patches(name, version).key(),
            &format!("debian:{name}"),
            version,
        );
    }
    gone
}

/// Lists what mining rests on, so that it stays in the store.
fn list(store: &Store, quarry: &Quarry) -> Result<(), AppError> {
    let reader = store.reader()?;
    let mut entries = Vec::new();
    for (id, job) in quarry.jobs() {
        if let Some(output) = reader.output(&job.key())? {
            entries.push(Entry {
                id,
                key: job.key(),
                output,
            });
        }
    }
    store.put_manifest(ROOT, &Manifest::build(entries)?)?;
    Ok(())
}

fn nothing_mined(dir: &Path) -> AppError {
    AppError::Input(format!(
        "nothing was mined in {}\n  help: `everbench tosss mine --debian libxml2` mines a source package",
        dir.display()
    ))
}

/// What was mined in `dir`, from the store alone, and how many jobs are missing.
///
/// # Errors
/// Nothing was mined there; a list or store that cannot be used.
pub fn mined(dir: &Path) -> Result<(Mined, usize), AppError> {
    let quarry = Quarry::read(dir)?.ok_or_else(|| nothing_mined(dir))?;
    let store = Arc::new(store_to_look(dir)?);
    let reader = store.reader()?;
    let db = EngineDb::new(Arc::new(reader.clone()));
    let (parts, hold) = quarry.mined(&db);
    usable(&hold)?;
    StoreLedger::new(store, &reader, TOOL).remember(db.take_rows());
    Ok(quarry.told(&parts, &hold))
}

/// What the records in a file or folder give: JSON files of OSV, CVE JSON 5 and NVD 2.0, YAML files of
/// OSV, and zip archives of them.
///
/// # Errors
/// A path that cannot be read.
pub fn records_in(path: &Path) -> Result<Found, AppError> {
    let unreadable = |path: &Path, e: &dyn std::fmt::Display| {
        AppError::Input(format!("{}: {e}", path.display()))
    };
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut damaged = Vec::new();
    let entries = walkdir::WalkDir::new(path).sort_by_file_name();
    for entry in entries {
        let entry = entry.map_err(|e| unreadable(path, &e))?;
        let name = entry.path().display().to_string();
        let given = entry.depth() == 0;
        // What was given may be a link.
        if !(entry.file_type().is_file() || given && entry.path().is_file()) {
            continue;
        }
        let zip = name.ends_with(".zip");
        if !(given || zip || is_record(&name)) {
            continue;
        }
        let bytes = std::fs::read(entry.path()).map_err(|e| unreadable(entry.path(), &e))?;
        if !zip {
            files.push((name, bytes));
            continue;
        }
        let wanted = archive::Wanted {
            archive_inside: None,
            path_inside: None,
        };
        match archive::read_archive(&name, &bytes, wanted, ZIPPED) {
            Err(_) => damaged.push((name, Problem::Archive)),
            Ok(tree) => {
                let inside = tree.snapshot.files.keys();
                let inside = inside.filter(|path| is_record(path));
                files.extend(inside.filter_map(|path| {
                    let bytes = tree.bytes(path)?.to_vec();
                    Some((format!("{name}: {path}"), bytes))
                }));
            }
        }
    }
    let mut found = record::read(files.iter().map(|(name, bytes)| (&**name, &**bytes)));
    found.records += damaged.len();
    found.problems.extend(damaged);
    Ok(found)
}

/// What an archive of records may hold.
const ZIPPED: ArchiveLimits = ArchiveLimits {
    file_bytes: 16 << 20,
    total_bytes: 4 << 30,
    entries: 1_000_000,
};
