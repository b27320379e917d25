//! Where comparing code leaves open whether a patch was there, its tests decide: the snapshot's code goes
//! into the base of the instance, the benchmark's tests are added, and the project is built and tested
//! in the sandbox as any subject is. Only where that works for the patch itself is anything believed, and
//! that the patch was there only where its tests do not pass without it.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::check::Checks;
use super::patches::{Found, Lookup, known};
use super::{App, AppError, Checked, Options};
use crate::cancel::Cancel;
use crate::contamination::patch::benchmark::{Benchmark, Instance};
use crate::contamination::patch::diff::is_inside;
use crate::contamination::patch::splice::Files;
use crate::contamination::patch::verdict::{TESTED, Told, Verdict};
use crate::engine::{EngineDb, Observer};
use crate::exec::patches::trial;

/// How the projects of a benchmark are built and tested.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environments {
    #[serde(default, rename = "environment")]
    all: Vec<Environment>,
    #[serde(skip)]
    dir: PathBuf,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Environment {
    /// As the benchmark calls the repository.
    repository: String,
    /// A subject's manifest; of its source only `submodules` counts.
    manifest: PathBuf,
}

impl Environments {
    /// Reads a file of `[[environment]]` tables; paths in it are relative to it.
    ///
    /// # Errors
    /// No such file, or what is wrong in it.
    pub fn read(path: &Path) -> Result<Environments, AppError> {
        let wrong = |e: &dyn std::fmt::Display| AppError::Input(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let mut read: Environments = toml::from_str(&text).map_err(|e| {
            wrong(&format!(
                "{e}\n  help: `[[environment]]` tables with `repository` and `manifest` are expected"
            ))
        })?;
        read.dir = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(read)
    }

    fn manifest(&self, repository: &str) -> Option<PathBuf> {
        let found = self.all.iter().find(|e| e.repository == repository);
        found.map(|e| self.dir.join(&e.manifest))
    }
}

/// What became of trying.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tried {
    /// Instances that the tests decided.
    pub decided: usize,
    /// Why others were not, by reason.
    pub open: BTreeMap<String, usize>,
}

/// Runs the tests of those instances of which comparing says nothing, and sets their verdicts; of all
/// that can be tried, if `all`.
///
/// # Errors
/// A manifest that cannot be read, a machine without a compiler or sandbox, a store that cannot be used.
#[allow(clippy::too_many_arguments, reason = "one question, and who is told")]
pub fn decide(
    dir: &Path,
    benchmark: &Benchmark,
    found: &mut Found,
    environments: &Environments,
    all: bool,
    options: &Options,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Tried, AppError> {
    let mut tried = Tried::default();
    for (instance, told) in benchmark.instances.iter().zip(&mut found.told) {
        let Some(told) = told else { continue };
        if cancel.is_stopping() {
            break;
        }
        if told.problem.is_some() || !(all || told.verdict == Verdict::Unknown) {
            continue;
        }
        let (Some(place), Some(tip)) = (
            found.places.get(&instance.repository),
            found.tips.get(&instance.repository),
        ) else {
            continue;
        };
        let said = match environments.manifest(&instance.repository) {
            None => Err("no environment is given for its repository".to_string()),
            Some(_) if instance.fail_to_pass.is_empty() => {
                Err("the benchmark names no test that fails before it".into())
            }
            Some(manifest) => {
                let trial = Trial {
                    dir,
                    manifest: &manifest,
                    instance,
                    place,
                    tip,
                    options,
                };
                trial.run(told, cancel, observer)?
            }
        };
        match said {
            Ok((verdict, reason)) => {
                told.verdict = verdict;
                told.reason = reason;
                told.by = TESTED;
                tried.decided += 1;
            }
            Err(why) => {
                *tried.open.entry(why).or_default() += 1;
            }
        }
    }
    Ok(tried)
}

/// One instance that is tried.
struct Trial<'a> {
    dir: &'a Path,
    manifest: &'a Path,
    instance: &'a Instance,
    place: &'a Path,
    tip: &'a str,
    options: &'a Options,
}

/// What was found out, or why nothing was.
type Said = Result<(Verdict, String), String>;

impl Trial<'_> {
    fn run(
        &self,
        told: &Told,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Said, AppError> {
        let instance = self.instance;
        let (line, walk) = {
            let store = super::store_to_look(self.dir)?;
            let db = EngineDb::new(std::sync::Arc::new(store.reader()?));
            let lookup = Lookup::default();
            let Ok((line, walk)) = known(&db, &lookup, instance, self.tip) else {
                return Ok(Err("its history is not at hand".into()));
            };
            (line, walk)
        };
        let snapshot = told.snapshot.as_ref();
        let at = snapshot.and_then(|s| line.commits.iter().position(|(id, _)| *id == s.id));
        let Some(at) = at else {
            return Ok(Err("there is no snapshot".into()));
        };
        let put = trial(self.place, &walk, at, instance);
        let put = put.map_err(|e| AppError::Environment(e.to_string()))?;
        let Some(put) = put else {
            return Ok(Err("the patch does not fit".into()));
        };
        let (snapshot, patched, unpatched) = match (put.snapshot, put.patched, put.unpatched) {
            (Ok(snapshot), Ok(patched), Ok(unpatched)) => (snapshot, patched, unpatched),
            (Err(why), _, _) | (_, Err(why), _) | (_, _, Err(why)) => return Ok(Err(why)),
        };
        let wanted = |tests: &[String]| -> BTreeSet<String> { tests.iter().cloned().collect() };
        let (cured, kept) = (
            wanted(&instance.fail_to_pass),
            wanted(&instance.pass_to_pass),
        );
        // An environment in which the patch itself does not do what it does elsewhere says nothing.
        let gold = match self.tested(&put.base, &patched, cancel, observer)? {
            Ok(outcomes) => outcomes,
            Err(why) => return Ok(Err(format!("with the patch itself, {why}"))),
        };
        if let Some(test) = cured.iter().chain(&kept).find(|t| gold.of(t) != Some(true)) {
            return Ok(Err(format!(
                "with the patch itself, the benchmark's test `{test}` {}",
                match gold.of(test) {
                    None => "is not reported",
                    Some(_) => "does not pass",
                }
            )));
        }
        let outcomes = match self.tested(&put.base, &snapshot, cancel, observer)? {
            Ok(outcomes) => outcomes,
            Err(why) => return Ok(Err(format!("with the snapshot's code, {why}"))),
        };
        let passes = |tests: &BTreeSet<String>| {
            tests
                .iter()
                .filter(|t| outcomes.of(t) == Some(true))
                .count()
        };
        let (fixed, whole) = (passes(&cured), passes(&kept));
        let counts = format!(
            "tests: {fixed} of {} that the patch makes pass do with the snapshot's code, {whole} of {} others",
            cured.len(),
            kept.len()
        );
        match (fixed == cured.len(), whole == kept.len()) {
            (false, _) => return Ok(Ok((Verdict::Absent, counts))),
            (true, false) => return Ok(Err("the patch's tests pass, but others do not".into())),
            (true, true) => {}
        }
        // Tests that pass whatever the code is say nothing. Where they do not even build, they fail.
        let bare = match self.tested(&put.base, &unpatched, cancel, observer)? {
            Ok(outcomes) => cured.iter().find(|t| outcomes.of(t) == Some(true)).cloned(),
            Err(_) => None,
        };
        Ok(match bare {
            Some(test) => Err(format!(
                "without the patch, the benchmark's test `{test}` passes, too"
            )),
            None => Ok((Verdict::Present, counts)),
        })
    }

    /// Builds and tests the base with these files in it.
    fn tested(
        &self,
        base: &str,
        files: &Files,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Result<Outcomes, String>, AppError> {
        let work = self.dir.join(".everbench").join("trials");
        std::fs::create_dir_all(&work)
            .map_err(|e| AppError::Environment(format!("{}: {e}", work.display())))?;
        let scratch = tempfile::tempdir_in(&work)
            .map_err(|e| AppError::Environment(format!("{}: {e}", work.display())))?;
        let place = std::path::absolute(self.place).unwrap_or_else(|_| self.place.to_path_buf());
        let outside = |path: &str| format!("{path} leads out of the project");
        if let Some(path) = files.keys().find(|path| !is_inside(path)) {
            return Ok(Err(outside(path)));
        }
        // The base as it is, and then as a folder with the files in it.
        let mut origin: toml::Table = [
            ("git", place.display().to_string()),
            ("revision", base.to_string()),
        ]
        .into_iter()
        .map(|(key, text)| (key.to_string(), toml::Value::String(text)))
        .collect();
        if let Some(without) = self
            .manifest()?
            .get("source")
            .and_then(|s| s.get(SUBMODULES))
        {
            origin.insert(SUBMODULES.into(), without.clone());
        }
        let tree = scratch.path().join("tree");
        {
            let manifest = self.with_source(scratch.path(), "base.toml", origin)?;
            let app = self.app(&manifest)?;
            app.fetch(self.options, &tree, cancel, observer)?;
        }
        if let Some(path) = files.keys().find(|path| through_link(&tree, path)) {
            return Ok(Err(outside(path)));
        }
        for (path, bytes) in files {
            write(&tree, path, bytes.as_deref())
                .map_err(|e| AppError::Environment(format!("{path}: {e}")))?;
        }
        let folder = toml::Table::from_iter([(
            "directory".to_string(),
            toml::Value::String(tree.display().to_string()),
        )]);
        let manifest = self.with_source(scratch.path(), "trial.toml", folder)?;
        let app = self.app(&manifest)?;
        let checks = Checks {
            planted: 0,
            coverage: false,
        };
        match app.check(self.options, checks, cancel, observer) {
            Ok(checked) => Ok(Ok(Outcomes(checked))),
            Err(AppError::Broken { what, .. }) => {
                let first = what.lines().next().unwrap_or_default();
                Ok(Err(format!("it cannot be tested: {first}")))
            }
            Err(other) => Err(other),
        }
    }

    /// The project on a manifest that was made; what is wrong in it is wrong in the one it was made of.
    fn app(&self, made: &Path) -> Result<App, AppError> {
        let made = made.display().to_string();
        App::open_to_check(self.dir, &made).map_err(|error| match error {
            AppError::Input(what) => {
                AppError::Input(what.replace(&made, &self.manifest.display().to_string()))
            }
            other => other,
        })
    }

    fn manifest(&self) -> Result<toml::Table, AppError> {
        let wrong = |e: &dyn std::fmt::Display| {
            AppError::Input(format!("{}: {e}", self.manifest.display()))
        };
        let text = std::fs::read_to_string(self.manifest).map_err(|e| wrong(&e))?;
        toml::from_str(&text).map_err(|e| wrong(&e))
    }

    /// The manifest with another source.
    fn with_source(
        &self,
        folder: &Path,
        name: &str,
        source: toml::Table,
    ) -> Result<PathBuf, AppError> {
        let mut manifest = self.manifest()?;
        manifest.insert("source".into(), toml::Value::Table(source));
        let text = toml::to_string(&manifest)
            .map_err(|e| AppError::Input(format!("{}: {e}", self.manifest.display())))?;
        let path = folder.join(name);
        std::fs::write(&path, text)
            .map_err(|e| AppError::Environment(format!("{}: {e}", path.display())))?;
        Ok(path)
    }
}

/// The one thing in the source of an environment's manifest that counts: whether it builds without them.
const SUBMODULES: &str = "submodules";

/// Whether a path of the project is, or goes through, a symbolic link, which can lead anywhere.
fn through_link(tree: &Path, path: &str) -> bool {
    let mut at = tree.to_path_buf();
    path.split('/').any(|part| {
        at.push(part);
        at.is_symlink()
    })
}

fn write(tree: &Path, path: &str, bytes: Option<&[u8]>) -> std::io::Result<()> {
    let path = tree.join(path);
    match bytes {
        None => match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        },
        Some(bytes) => {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, bytes)
        }
    }
}

/// What the tests of a tree came to.
struct Outcomes(Checked);

impl Outcomes {
    /// Whether a test always passed, `Some(false)` if it did not; nothing if no such test reported. It
    /// is called by its name, or by its shard's and its own with `/` between them.
    fn of(&self, test: &str) -> Option<bool> {
        let shards = self.0.shards.iter().zip(&self.0.baseline.shards);
        let mut found = None;
        for (shard, outcomes) in shards {
            let own = test.strip_prefix(shard.as_str());
            let own = own.and_then(|rest| rest.strip_prefix('/'));
            let names: Vec<&str> = std::iter::once(test).chain(own).collect();
            match outcomes.passed(&names) {
                Some(false) => return Some(false),
                Some(true) => found = Some(true),
                None => {}
            }
        }
        found
    }
}
