//! Wires the rooms: a project's files become inputs, the rooms' kinds get their executors, the
//! driver runs, and rows come out. Impure; prints nothing.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::ask;
use crate::cancel::Cancel;
use crate::config;
use crate::digest::Digest;
use crate::engine::{Failure, Hold, Observer, Registry};
use crate::exec::answer::Calibration;
use crate::exec::fetch::Sources;
use crate::exec::libclang::Libclang;
use crate::exec::models::Models;
use crate::exec::observe::System;
use crate::exec::packages::missing;
use crate::exec::toolchain::Toolchain;
use crate::exec::{Policy, Sandbox};
use crate::exec::{runner::Workshop, trees::Trees};
use crate::job::{Job, Nature};
use crate::lang::{LanguageId, QuerySet, QueryTexts};
use crate::oss::artifact;
use crate::oss::inputs::Origin;
use crate::oss::reads::{self, Remembered};
use crate::oss::suite::suite;
use crate::oss::{baseline, case, metrics};
use crate::store::{Access, Store, StoreError};
use crate::subject::Extractor;

mod asked;
pub mod asking;
mod audit;
mod board;
mod carry;
mod check;
pub mod corpus;
mod drive;
pub mod embedding;
mod error;
mod extractors;
mod fetch;
pub mod findings;
mod forecast;
mod history;
mod lock;
mod models;
pub mod naming;
pub mod patches;
mod portable;
pub mod presence;
mod project;
mod release;
mod retain;
mod retract;
mod rollover;
mod roster;
mod sources;
pub mod stages;
mod stored;
mod subjects;
mod sync;
pub mod tosss;
pub mod trial;
mod upstream;
mod why;

pub use crate::exec::models::{Account, Statement};
pub use audit::Audited;
pub use board::{Bench, Board, Evaluation, RowResult, SubjectBoard, World, board, boards};
pub use carry::{AUDITED, Carry};
pub use check::{Checked, Checks};
pub use error::{AppError, MADE_AGAIN, broken, failure_error, lost};
pub use fetch::Fetched;
pub use forecast::{
    Asking, BrokenForecast, Forecast, Group, ModelForecast, SubjectForecast, Tokens,
};
pub use models::Environment;
pub use portable::{export_release, export_store, import_store, store_of_export};
pub use project::{Options, Project, ProjectSubject, programs, source_programs};
pub use release::{
    Draft, Fault, RELEASE, Record, RecordSubject, Release, Verified, drop_release, release_name,
    release_names, verify_release,
};
pub use retain::{keeps_within_limits, sweep_store};
pub use retract::{Retract, Retracted, Retraction, retract, retractions, undo_retraction};
pub use rollover::Rollover;
pub use roster::{KeyState, Listed, PriceState, Probe, Reached, Trouble};
pub use stored::{store_to_change, store_to_look};
pub use subjects::{Known, guess_manifest, known};
pub use sync::{Moved, Synced};
pub use upstream::BrokenCommit;
pub use why::{Explained, State};

use audit::audits;
use board::{Plan, SubjectPlan};
use drive::{Executors, Ready};
use error::nothing_stored;
use project::{Answering, compilers, cores, trees_dir};
use stored::patiently;

/// The program's name and version, as provenance says it.
pub const TOOL: &str = concat!("everbench ", env!("CARGO_PKG_VERSION"));

/// Under which name it is noted what the tests of a subject open.
const READS: &str = "reads";

/// How much disk the caches of programs and objects may hold between runs.
const TREES_BUDGET: u64 = 4 << 30;

/// A project with its store open.
pub struct App {
    /// The project.
    pub project: Project,
    /// The store.
    pub store: Arc<Store>,
    writable: bool,
    /// The machine, as this process sees it.
    system: Arc<System>,
}

impl App {
    /// Opens the project in `dir`.
    pub fn open(dir: &Path, access: Access) -> Result<App, AppError> {
        let project = Project::read(dir)?;
        let store_dir = project.store_dir();
        if access == Access::ReadWrite {
            std::fs::create_dir_all(&store_dir)
                .map_err(|e| AppError::Environment(format!("{}: {e}", store_dir.display())))?;
        }
        let store = Store::open(&store_dir, access, env!("CARGO_PKG_VERSION"))?;
        Ok(App::with(project, store, access))
    }

    /// Opens the project in `dir` for writing.
    pub fn open_to_run(dir: &Path) -> Result<App, AppError> {
        patiently(|| App::open(dir, Access::ReadWrite))
    }

    fn with(project: Project, store: Store, access: Access) -> App {
        App {
            project,
            store: Arc::new(store),
            writable: access == Access::ReadWrite,
            system: Arc::new(System::of_machine()),
        }
    }

    /// Opens the project in `dir` for a plan: beside a process that writes, if there is one.
    pub fn open_to_plan(dir: &Path) -> Result<App, AppError> {
        match App::open(dir, Access::ReadWrite) {
            Err(AppError::Store(StoreError::Locked { .. })) => App::open(dir, Access::ReadOnly),
            other => other,
        }
    }

    /// Opens the project in `dir` for commands that run nothing: for writing if that is possible,
    /// so that what is derived is remembered, else beside the process that writes, or from a disk
    /// that takes nothing more.
    pub fn open_to_score(dir: &Path) -> Result<App, AppError> {
        if !Project::read(dir)?.store_dir().exists() {
            return Err(nothing_stored());
        }
        match App::open(dir, Access::ReadWrite) {
            Err(AppError::Store(
                StoreError::Locked { .. } | StoreError::Full { .. } | StoreError::Io { .. },
            )) => App::open(dir, Access::ReadOnly),
            other => other,
        }
    }

    /// Runs everything that the rows lack, and gives the rows.
    pub fn run(
        &self,
        options: &Options,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Evaluation, AppError> {
        let started = Instant::now();
        let answering = self.answering(&options.models)?;
        let tools = self.tools(options)?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        self.remember_surroundings(&plan, &tools)?;
        self.remember_asked(options, &plan)?;
        self.remember_carry(options, &plan.subjects)?;
        // All that was asked for may be there: then no sandbox and no cache is needed.
        let first = self.drive(&plan, None, cancel, observer)?;
        let mut statement = None;
        let evaluation = if first.hold.is_empty() {
            first
        } else {
            let shop = self.workshop(tools.clone(), options, &plan)?;
            let models = self.asks(&answering, options)?;
            let sources = self.sources(&plan);
            let registry = registry(&Arc::new(shop), &plan, sources, models.clone());
            let executors = Executors {
                registry: &registry,
                models: &models,
                jobs: options.jobs.unwrap_or_else(cores),
            };
            let drove = self.drive(&plan, Some(executors), cancel, observer)?;
            statement = Some(models.statement());
            drove
        };
        // Without its source there is nothing to say of a subject, and another run cannot help.
        let no_source = |(job, failure): &&(Job, Failure)| {
            job.kind().name == artifact::SOURCE.name && matches!(failure, Failure::Fatal { .. })
        };
        if let ([_], Some((_, failure))) = (
            plan.subjects.as_slice(),
            evaluation.failures.iter().find(no_source),
        ) {
            return Err(failure_error(failure));
        }
        let tally = evaluation.tally.clone();
        let mut evaluation = self.finish(evaluation, &plan, tools.version)?;
        evaluation.statement = statement.filter(|s| !s.models.is_empty());
        self.count(tally, &evaluation, started.elapsed());
        if evaluation.missing.is_empty() {
            self.keep_history(&evaluation, &plan)?;
        }
        Ok(evaluation)
    }

    /// Gives the rows as far as the store has them; runs nothing.
    pub fn score(&self, options: &Options) -> Result<Evaluation, AppError> {
        let answering = self.answering(&options.models)?;
        let plan = self.plan(options, &answering, None)?;
        let compiler = self.last_compiler(&plan)?;
        let evaluation = self.drive(&plan, None, &Cancel::new(), &mut ())?;
        self.finish(evaluation, &plan, compiler)
    }

    /// The version line of the compiler that was last run with.
    fn last_compiler(&self, plan: &Plan) -> Result<String, AppError> {
        let compiler = match plan.subjects.first() {
            Some(first) => self.surrounding(&first.manifest.name, "compiler")?,
            None => None,
        };
        let text = compiler.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(text.unwrap_or_default())
    }

    /// A database with the project's inputs, for queries beside the board. Runs nothing.
    pub fn world(&self, options: &Options) -> Result<World, AppError> {
        let answering = self.answering(&options.models)?;
        let plan = self.plan(options, &answering, None)?;
        Ok(plan.world(&self.store.reader()?))
    }

    /// Runs the audits of the cases in `wanted` and gives, per case, the two verdicts.
    pub fn audit(
        &self,
        options: &Options,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Audited>, AppError> {
        let answering = self.answering(&options.models)?;
        let tools = self.tools(options)?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        self.remember_surroundings(&plan, &tools)?;
        let ready = Ready {
            plan: &plan,
            tools,
            answering: &answering,
            options,
        };
        self.driven(ready, cancel, observer, "the audit", |world| {
            let (benches, models) = (world.benches.clone(), world.models.clone());
            move |db| {
                let mut audited = Vec::new();
                let mut hold = Hold::default();
                for bench in &benches {
                    match audits(db, bench.settings, bench.subject, &models) {
                        Ok(some) => audited.extend(some),
                        Err(h) => hold.merge(&h),
                    }
                }
                (audited, hold)
            }
        })
    }

    fn tools(&self, options: &Options) -> Result<Toolchain, AppError> {
        let usual = &self.project.config.run.compiler;
        Ok(Toolchain::probe(
            options.compiler.as_ref().unwrap_or(usual),
        )?)
    }

    fn workshop(
        &self,
        tools: Toolchain,
        options: &Options,
        plan: &Plan,
    ) -> Result<Workshop, AppError> {
        let libclang = match plan.subjects.iter().any(|s| s.libclang.is_some()) {
            true => Some(Libclang::probe(
                options.libclang.as_deref(),
                &tools.identity.target,
            )?),
            false => None,
        };
        let sandbox = Sandbox::probe(Policy::Required)?;
        let environment =
            |e: std::io::Error| AppError::Environment(format!("the build cache: {e}"));
        let root = trees_dir(&self.project.dir.join(".everbench")).map_err(environment)?;
        let trees = Trees::open(&root, TREES_BUDGET).map_err(environment)?;
        let recorder = std::env::current_exe().map_err(environment)?;
        let mut shop = Workshop::new(sandbox, tools, trees, &recorder).map_err(environment)?;
        shop.queries = plan.queries.clone();
        shop.libclang = libclang;
        shop.system = self.system.clone();
        let needed = plan.subjects.iter().map(|s| &s.manifest.build.packages);
        shop.missing_packages = needed
            .flat_map(|p| missing(p).unwrap_or_default())
            .collect();
        shop.missing_packages.sort();
        shop.missing_packages.dedup();
        Ok(shop)
    }

    fn plan(
        &self,
        options: &Options,
        answering: &[Answering],
        tools: Option<&Toolchain>,
    ) -> Result<Plan, AppError> {
        let run = &self.project.config.run;
        let subjects = self.project.chosen(&options.subjects)?;
        let subjects: Vec<SubjectPlan> = subjects
            .into_iter()
            .map(|subject| self.subject_plan(options, subject, tools))
            .collect::<Result<_, _>>()?;
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path)
                .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))
        };
        let task =
            config::task(options.task.as_deref().unwrap_or(&run.task)).map_err(AppError::Input)?;
        let template: Arc<str> = match &run.template {
            Some(path) => read(self.project.dir.join(path))?.into(),
            None => task.default.into(),
        };
        let mut queries = QuerySet::default();
        if let Some(dir) = &run.queries {
            let dir = self.project.dir.join(dir);
            let mut found = false;
            for language in LanguageId::all() {
                let own = dir.join(language.facts().folder);
                let plain = language == LanguageId::C && dir.join("functions.scm").exists();
                let folder = match own.is_dir() {
                    true => own,
                    false if plain => dir.clone(),
                    false => continue,
                };
                found = true;
                let texts = QueryTexts {
                    functions: read(folder.join("functions.scm"))?,
                    edits: read(folder.join("edits.scm"))?,
                };
                queries.set(language, texts);
            }
            if !found {
                return Err(AppError::Input(format!(
                    "{}: no query files are there\n  help: put `functions.scm` and `edits.scm` into a folder `c` or `cpp` of it",
                    dir.display()
                )));
            }
        }
        let score = &self.project.config.score;
        Ok(Plan {
            subjects,
            looks_back: tools.is_none(),
            queries: Arc::new(queries),
            template,
            seed: options.seed.unwrap_or(run.seed),
            task,
            metrics: Arc::new(
                score
                    .metrics
                    .iter()
                    .filter_map(|name| metrics::named(name).map(|m| m.name))
                    .collect(),
            ),
            models: answering.iter().map(|a| a.spec.clone()).collect(),
            scorings: if options.scorings.is_empty() {
                score.scorings.clone()
            } else {
                options.scorings.clone()
            },
        })
    }

    fn subject_plan(
        &self,
        options: &Options,
        subject: &ProjectSubject,
        tools: Option<&Toolchain>,
    ) -> Result<SubjectPlan, AppError> {
        let run = &self.project.config.run;
        let extractor = subject.extractor(options.extractor);
        let mut selected = subject.selected(options)?;
        selected.functions.extractor = extractor;
        let subject = &ProjectSubject {
            manifest: Arc::new(selected),
            ..subject.clone()
        };
        let manifest = &subject.manifest;
        if let Some(tools) = tools {
            compilers(manifest, tools)?;
        }
        let libclang = match (extractor, tools) {
            (Extractor::TreeSitter, _) => None,
            (Extractor::Libclang, Some(tools)) => {
                let found = Libclang::probe(options.libclang.as_deref(), &tools.identity.target)?;
                Some(found.identity.canonical().into())
            }
            (Extractor::Libclang, None) => match self.surrounding(&manifest.name, "libclang")? {
                Some(bytes) => Some(bytes),
                None => return Err(nothing_stored()),
            },
        };
        let toolchain: Arc<[u8]> = match tools {
            Some(tools) => tools.identity_with(&programs(manifest))?.canonical().into(),
            None => match self.surrounding(&manifest.name, "toolchain")? {
                Some(bytes) => bytes,
                None => return Err(nothing_stored()),
            },
        };
        let (manifest, origin) = self.origin(subject, tools.is_some())?;
        Ok(SubjectPlan {
            manifest_dir: subject.manifest_dir.clone(),
            reads: self.reads(&manifest.name)?,
            carried: self.carried(options, &manifest, origin)?,
            origin,
            toolchain,
            libclang,
            limit: subject.limit(options, run),
            iterations: subject.iterations(options, run),
            manifest,
        })
    }

    /// Notes what this machine ran with, so that `score` can be asked where there is no compiler.
    fn remember_surroundings(&self, plan: &Plan, tools: &Toolchain) -> Result<(), AppError> {
        for subject in &plan.subjects {
            let note = |what: &str, bytes: &[u8]| self.note(&subject.manifest.name, what, bytes);
            note("toolchain", &subject.toolchain)?;
            note("compiler", tools.version.as_bytes())?;
            if let Some(libclang) = &subject.libclang {
                note("libclang", libclang)?;
            }
            if let Origin::Snapshot(digest) = subject.origin
                && let Some(bytes) = self.store.reader()?.blob(&digest)?
            {
                note("snapshot", &bytes)?;
            }
        }
        Ok(())
    }

    /// What the shards of a subject opened in earlier runs. Wherever it is wrong, a run more is made.
    fn reads(&self, subject: &str) -> Result<Arc<Remembered>, AppError> {
        let bytes = self.surrounding(subject, READS)?;
        let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let reader = self.store.reader()?;
        let there = |list: &Digest| reader.blob(list).is_ok_and(|bytes| bytes.is_some());
        Ok(Arc::new(reads::still(read.unwrap_or_default(), there)))
    }

    /// Notes what the shards of a complete evaluation opened.
    fn remember_reads(&self, world: &World, bench: Bench) -> Result<(), AppError> {
        let (db, subject) = (&world.db, bench.subject);
        let mut all = Remembered::clone(subject.reads(db));
        let Ok(suite) = suite(db, subject) else {
            return Ok(());
        };
        for (at, shard) in suite.shards.iter().enumerate() {
            if let Ok(reads) = baseline::reads_of(db, subject, at) {
                reads::remember(&mut all, &shard.name, &reads.names);
            }
        }
        let name = subject.manifest(db).name.clone();
        self.note(&name, READS, &artifact::write(&all))
    }

    fn note(&self, subject: &str, what: &str, bytes: &[u8]) -> Result<(), AppError> {
        let name = surrounding_name(subject, what);
        let digest = Digest::of(bytes);
        if self.store.reader()?.root(&name)? != Some(digest) {
            self.store.put_blobs(&[bytes])?;
            self.store.set_root(&name, digest)?;
        }
        Ok(())
    }

    fn surrounding(&self, subject: &str, what: &str) -> Result<Option<Arc<[u8]>>, AppError> {
        let reader = self.store.reader()?;
        match reader.root(&surrounding_name(subject, what))? {
            Some(digest) => Ok(reader.blob(&digest)?),
            None => Ok(None),
        }
    }
}

/// The root under which what a subject was last run with is noted.
fn surrounding_name(subject: &str, what: &str) -> String {
    format!("surroundings/{subject}/{what}")
}

/// Every kind with its executor.
fn registry(shop: &Arc<Workshop>, plan: &Plan, sources: Sources, models: Arc<Models>) -> Registry {
    let mut registry = Registry::default();
    crate::exec::register(&mut registry, shop, sources);
    let calibration = Calibration {
        queries: plan.queries.clone(),
    };
    registry.add(case::CALIBRATION, 60, Arc::new(calibration));
    registry.add_service(ask::COMPLETION, models);
    debug_assert!(
        registry
            .iter()
            .all(|r| r.kind.nature == Nature::Observed || portable::KINDS.contains(&r.kind)),
        "a kind is missing in the list of those that can be imported"
    );
    registry
}
