//! A subject checked before anybody is measured on it: whether it builds, what its suite does, what
//! it executes, and what it notices.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::board::Bench;
use super::drive::Ready;
use super::{App, AppError, Options, Project};
use crate::cancel::Cancel;
use crate::config::{self, Config, SubjectRef};
use crate::digest::Digest;
use crate::engine::{Db, EngineDb, Hold, Observer, fold};
use crate::job::Job;
use crate::lang::calibration::Edit;
use crate::oss::artifact::BaseDoc;
use crate::oss::check::{self, Coverage, Planted};
use crate::oss::inputs::{Answers, Card, Model, ModelSpec, Settings, Subject};
use crate::oss::population::{self, FlavourArg, Population};
use crate::oss::reach::Whole;
use crate::oss::suite::suite;
use crate::oss::{baseline, jobs, reach};
use crate::store::{Access, Store};
use crate::subject::Flavour;

/// What is looked at beside the baseline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Faults of each kind that are planted, one at a time.
    pub planted: u32,
    /// Whether executed lines are counted.
    pub coverage: bool,
}

/// What a check found.
pub struct Checked {
    /// The subject's name.
    pub subject: String,
    /// Which source it was.
    pub commit: String,
    /// The compiler's version line.
    pub compiler: String,
    /// Its functions.
    pub population: Arc<Population>,
    /// Its unchanged self, built without sanitizers.
    pub base: Arc<BaseDoc>,
    /// Its unchanged self, tested.
    pub baseline: Arc<baseline::Baseline>,
    /// The names of its shards, in the order of the baseline's.
    pub shards: Vec<String>,
    /// Processor seconds that each flavour took to build, as far as it was built here.
    pub build_seconds: BTreeMap<&'static str, f64>,
    /// Processor seconds of one run of all shards.
    pub suite_seconds: f64,
    /// What the suite executes.
    pub coverage: Option<Coverage>,
    /// Each program that the suite opens, and why all of it counts in keys of runs, if it does.
    pub programs: BTreeMap<String, Option<Whole>>,
    /// What became of planted faults, by kind.
    pub planted: BTreeMap<&'static str, Arc<Vec<Planted>>>,
    /// What the shard of which most cases always fail wrote in a run, by what it is.
    pub failing_logs: Option<(String, Vec<(&'static str, Digest)>)>,
}

/// The faults that are planted.
const FAULTS: [Edit; 2] = [Edit::BreaksBehaviour, Edit::PlantsMemoryError];

impl Project {
    /// A project on one subject: one of the project in `dir` by its name, or a preset, or the path of
    /// a manifest. There need not be a project.
    pub fn of_subject(dir: &Path, subject: &str) -> Result<Project, AppError> {
        let mut config = Config::default();
        if dir.join(config::FILE).exists() {
            let project = Project::read(dir)?;
            if let Some(known) = project.subjects.iter().find(|s| s.manifest.name == subject) {
                let known = known.clone();
                return Ok(Project {
                    subjects: vec![known],
                    ..project
                });
            }
            config.run = project.config.run;
        }
        let path = PathBuf::from(subject);
        config.subjects = vec![match path.extension().is_some_and(|e| e == "toml") {
            true => SubjectRef {
                manifest: Some(
                    std::path::absolute(&path)
                        .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))?,
                ),
                ..SubjectRef::default()
            },
            false => SubjectRef {
                preset: Some(subject.to_string()),
                ..SubjectRef::default()
            },
        }];
        Project::with_config(dir, config)
    }
}

impl App {
    /// Opens the store in `dir` for a check of `subject`.
    pub fn open_to_check(dir: &Path, subject: &str) -> Result<App, AppError> {
        let project = Project::of_subject(dir, subject)?;
        let store = project.store_dir();
        std::fs::create_dir_all(&store)
            .map_err(|e| AppError::Environment(format!("{}: {e}", store.display())))?;
        let store = Store::open(&store, Access::ReadWrite, env!("CARGO_PKG_VERSION"))?;
        Ok(App::with(project, store, Access::ReadWrite))
    }

    /// Checks the project's only subject.
    pub fn check(
        &self,
        options: &Options,
        checks: Checks,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Checked, AppError> {
        let tools = self.tools(options)?;
        let options = Options {
            limit: Some(checks.planted.max(1)),
            ..options.clone()
        };
        let plan = self.plan(&options, &[], Some(&tools))?;
        let ready = Ready {
            plan: &plan,
            tools: tools.clone(),
            answering: &[],
            options: &options,
        };
        let found = self.driven(ready, cancel, observer, "the check", |world| {
            let Bench { settings, subject } = world.benches[0];
            let planters: Vec<(Edit, Model)> = FAULTS
                .iter()
                .filter(|_| checks.planted > 0)
                .map(|edit| (*edit, Model::new(&world.db, planter(*edit))))
                .collect();
            move |db| match found(db, settings, subject, &planters, checks.coverage) {
                Ok(found) => (Some(found), Hold::default()),
                Err(hold) => (None, hold),
            }
        })?;
        let found = found.expect("nothing is missing of it");
        let subject = &plan.subjects[0];
        let mut build_seconds = BTreeMap::new();
        for (flavour, jobs) in &found.builds {
            // The base may have taken over what the footprint built.
            let [footprint, base] = jobs;
            let seconds = self.seconds(footprint)?.max(self.seconds(base)?);
            build_seconds.insert(flavour.name(), seconds);
        }
        let mut suite_seconds = 0.0;
        for job in &found.runs {
            suite_seconds += self.seconds(job)?;
        }
        Ok(Checked {
            subject: subject.manifest.name.clone(),
            commit: subject.commit(),
            compiler: tools.version,
            population: found.population,
            base: found.base,
            baseline: found.baseline,
            shards: found.shards,
            build_seconds,
            suite_seconds,
            coverage: found.coverage,
            programs: found.programs,
            planted: found.planted,
            failing_logs: found.failing_logs,
        })
    }

    /// The processor time of the commands of a job when it was executed.
    fn seconds(&self, job: &Job) -> Result<f64, AppError> {
        let action = self.store.reader()?.action(&job.key())?;
        Ok(action.map_or(0.0, |a| a.provenance.cpu_us as f64 / 1e6))
    }
}

fn planter(edit: Edit) -> Arc<ModelSpec> {
    Arc::new(ModelSpec {
        name: "planted".into(),
        answers: Answers::Calibration(BTreeMap::from([(edit, 1.0)])),
        card: Card::default(),
    })
}

struct Found {
    population: Arc<Population>,
    base: Arc<BaseDoc>,
    baseline: Arc<baseline::Baseline>,
    shards: Vec<String>,
    builds: Vec<(Flavour, [Job; 2])>,
    runs: Vec<Job>,
    coverage: Option<Coverage>,
    programs: BTreeMap<String, Option<Whole>>,
    planted: BTreeMap<&'static str, Arc<Vec<Planted>>>,
    failing_logs: Option<(String, Vec<(&'static str, Digest)>)>,
}

fn found(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    planters: &[(Edit, Model)],
    counted: bool,
) -> Result<Found, Hold> {
    let baseline = baseline::baseline(db, settings, subject);
    // As for a board: until that is there, what depends on the functions is not to be evaluated.
    if let Err(mut hold) = population::ground(db, subject) {
        if let Err(missing) = &baseline {
            hold.merge(missing);
        }
        return Err(hold.settle());
    }
    let (_, plain) = population::base(db, subject, FlavourArg::Plain)?;
    let coverage = match counted {
        true => check::coverage(db, settings, subject).map(Some),
        false => Ok(None),
    };
    let planted = fold(planters.iter().map(|(edit, model)| {
        let fates = check::planted(db, settings, subject, *model)?;
        Ok((edit.name(), fates))
    }));
    // All of what is missing is asked for at once.
    let mut hold = Hold::default();
    for missing in [
        baseline.as_ref().err(),
        coverage.as_ref().err(),
        planted.as_ref().err(),
    ] {
        hold.merge(missing.unwrap_or(&Hold::default()));
    }
    if !hold.is_empty() {
        return Err(hold.settle());
    }
    let suite = suite(db, subject)?;
    let runs = baseline::runs(db, subject)?;
    let first = runs.into_iter().filter(|run| run.repeat == Some(0));
    let runs: Vec<Job> = first.map(|run| run.job).collect();
    let mut opened = Vec::new();
    for run in &runs {
        opened.push(baseline::read_run(db, db.demand(run)?)?.opened.clone());
    }
    let mut builds = Vec::new();
    for flavour in [Flavour::Plain, Flavour::Sanitized] {
        let footprint = jobs::footprint(db, subject, flavour.into())?;
        builds.push((flavour, [footprint, jobs::base(db, subject, flavour)?]));
    }
    let baseline = baseline?;
    let fails = baseline.shards.iter().map(|shard| shard.failing.len());
    let worst = fails.enumerate().max_by_key(|(_, fails)| *fails);
    let mut failing_logs = None;
    if let Some((at, _)) = worst.filter(|(_, fails)| *fails > 0) {
        let run = baseline::read_run(db, db.demand(&runs[at])?)?;
        failing_logs = Some((suite.shards[at].name.clone(), run.written()));
    }
    Ok(Found {
        population: population::population(db, settings, subject)?,
        base: plain,
        baseline,
        shards: suite.shards.iter().map(|s| s.name.clone()).collect(),
        builds,
        runs,
        coverage: coverage?,
        programs: reach::programs(db, subject, &opened)?,
        planted: planted?.into_iter().collect(),
        failing_logs,
    })
}
