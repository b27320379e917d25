//! Wires the rooms: a project's files become inputs, the rooms' kinds get their executors, the
//! driver runs, and rows come out. Impure; prints nothing.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ask;
use crate::cancel::Cancel;
use crate::config::{self, Config, ModelConfig};
use crate::digest::Digest;
use crate::engine::{
    Db, DriveError, Driver, EngineDb, Executor, Failure, Hold, Ledger, Observer, Registry,
};
use crate::exec::answer::{Calibration, Replay, ReplayError, Replays};
use crate::exec::toolchain::{Toolchain, ToolchainError};
use crate::exec::{NoSandbox, Policy, Sandbox};
use crate::exec::{base, fetch, program, run, runner::Workshop, trees::Trees, verdict};
use crate::job::{Job, Key};
use crate::lang::QueryTexts;
use crate::oss::inputs::{Answers, Model, ModelSpec, Origin, Scoring, Settings, Subject};
use crate::oss::leaderboard::{self, RowFacts};
use crate::oss::population::FlavourArg;
use crate::oss::{artifact, baseline, case, population};
use crate::source::{self, ReadError};
use crate::store::{
    Access, Completed, Manifest as EvaluationManifest, Provenance, Reader, Store, StoreError,
    StoreLedger,
};
use crate::subject::{self, Manifest, Preset, Problems, Source, UnknownPreset};

/// The program's name and version, as provenance says it.
pub const TOOL: &str = concat!("everbench ", env!("CARGO_PKG_VERSION"));

/// How much disk the caches of programs and objects may hold between runs.
const TREES_BUDGET: u64 = 4 << 30;

/// Anything that keeps a command from doing its work, by whose turn it is.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A file that the user wrote is wrong.
    #[error("{0}")]
    Input(String),
    /// The machine lacks something.
    #[error("{0}")]
    Environment(String),
    /// The unchanged subject cannot be measured.
    #[error("{what}\n  help: {help}")]
    Broken {
        /// What is wrong.
        what: String,
        /// The way out.
        help: String,
    },
    /// The store.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The drive ended early.
    #[error("{0}")]
    Drive(DriveError),
}

impl From<config::ConfigError> for AppError {
    fn from(e: config::ConfigError) -> Self {
        AppError::Input(e.to_string())
    }
}
impl From<Problems> for AppError {
    fn from(e: Problems) -> Self {
        AppError::Input(e.to_string())
    }
}
impl From<UnknownPreset> for AppError {
    fn from(e: UnknownPreset) -> Self {
        AppError::Input(e.to_string())
    }
}
impl From<ReplayError> for AppError {
    fn from(e: ReplayError) -> Self {
        AppError::Input(e.to_string())
    }
}
impl From<ReadError> for AppError {
    fn from(e: ReadError) -> Self {
        AppError::Input(e.to_string())
    }
}
impl From<ToolchainError> for AppError {
    fn from(e: ToolchainError) -> Self {
        AppError::Environment(e.to_string())
    }
}
impl From<NoSandbox> for AppError {
    fn from(e: NoSandbox) -> Self {
        AppError::Environment(e.to_string())
    }
}

/// What a command was asked for beside the project file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`config::RunConfig::limit`].
    pub limit: Option<u32>,
    /// See [`config::RunConfig::iterations`].
    pub iterations: Option<u32>,
    /// See [`config::RunConfig::seed`].
    pub seed: Option<u64>,
    /// See [`config::ScoreConfig::penalty`].
    pub penalty: Option<f64>,
    /// See [`config::ScoreConfig::scorings`].
    pub scorings: Vec<Scoring>,
    /// Only these models.
    pub models: Vec<String>,
    /// See [`config::RunConfig::compiler`].
    pub compiler: Option<String>,
    /// How many jobs run at once; the number of cores when absent.
    pub jobs: Option<usize>,
}

/// A project folder, read.
pub struct Project {
    /// Where it is.
    pub dir: PathBuf,
    /// Its file.
    pub config: Config,
    /// The subject's manifest.
    pub manifest: Arc<Manifest>,
    /// Where relative paths of the manifest begin.
    manifest_dir: PathBuf,
}

impl Project {
    /// Reads the project in `dir`.
    pub fn read(dir: &Path) -> Result<Project, AppError> {
        let path = dir.join(config::FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(AppError::Input(format!(
                    "there is no {} in {}\n  help: `everbench init` writes one; `--dir` names another folder",
                    config::FILE,
                    dir.display()
                )));
            }
            Err(e) => return Err(AppError::Input(format!("{}: {e}", path.display()))),
        };
        let config = Config::parse(&text, &path)?;
        let (manifest, manifest_dir) = read_manifest(dir, &config)?;
        Ok(Project {
            dir: dir.to_path_buf(),
            config,
            manifest: Arc::new(manifest),
            manifest_dir,
        })
    }

    /// The store's folder.
    pub fn store_dir(&self) -> PathBuf {
        self.dir.join(".everbench").join("store")
    }
}

fn read_manifest(dir: &Path, config: &Config) -> Result<(Manifest, PathBuf), AppError> {
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))
    };
    if let Some(path) = &config.subject.manifest {
        let path = dir.join(path);
        let manifest = Manifest::parse(&read(&path)?, &path.display().to_string())?;
        let parent = path.parent().unwrap_or(dir).to_path_buf();
        return Ok((manifest, parent));
    }
    let name = config.subject.preset.as_deref().unwrap_or_default();
    match subject::preset(name)? {
        Preset::Text(text) => Ok((
            Manifest::parse(text, &format!("preset {name}"))?,
            dir.to_path_buf(),
        )),
        Preset::Path(path) => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            let manifest = Manifest::parse(&read(&path)?, &path.display().to_string())?;
            Ok((manifest, path.parent().unwrap_or(dir).to_path_buf()))
        }
    }
}

/// A model with what answers for it.
struct Answering {
    spec: Arc<ModelSpec>,
    replay: Option<Arc<Replay>>,
}

fn models(project: &Project, only: &[String]) -> Result<Vec<Answering>, AppError> {
    for name in only {
        if !project.config.models.iter().any(|m| m.name == *name) {
            let known: Vec<&str> = project
                .config
                .models
                .iter()
                .map(|m| m.name.as_str())
                .collect();
            return Err(AppError::Input(format!(
                "there is no model `{name}` in {}; there are: {}",
                config::FILE,
                known.join(", ")
            )));
        }
    }
    let wanted = project
        .config
        .models
        .iter()
        .filter(|m| only.is_empty() || only.contains(&m.name));
    let found: Vec<Answering> = wanted
        .map(|m| answering(project, m))
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(AppError::Input(format!(
            "{} names no model\n  help: add a `[[model]]`; `everbench init` in a fresh folder shows some",
            config::FILE
        )));
    }
    Ok(found)
}

fn answering(project: &Project, model: &ModelConfig) -> Result<Answering, AppError> {
    let (answers, card, replay) = match (&model.calibration, &model.replay) {
        (Some(shares), _) => (Answers::Calibration(shares.clone()), None, None),
        (None, Some(path)) => {
            let replay = Arc::new(Replay::read(&project.dir.join(path))?);
            let answers = Answers::Replay {
                revision: replay.revision.clone(),
                sampling: replay.sampling.clone(),
            };
            (answers, Some(replay.card.clone()), Some(replay))
        }
        (None, None) => unreachable!("the project file was checked"),
    };
    let spec = ModelSpec {
        name: model.name.clone(),
        answers,
        card: model.card.clone().or(card).unwrap_or_default(),
    };
    Ok(Answering {
        spec: Arc::new(spec),
        replay,
    })
}

/// The inputs of one evaluation in a database.
pub struct World {
    /// The database.
    pub db: EngineDb,
    /// See [`Settings`].
    pub settings: Settings,
    /// See [`Subject`].
    pub subject: Subject,
    /// In the project's order.
    pub models: Vec<Model>,
    /// Which scorings are wanted.
    pub scorings: Vec<Scoring>,
}

/// What an evaluation starts from, before there is a database.
struct Plan {
    manifest: Arc<Manifest>,
    origin: Origin,
    toolchain: Arc<[u8]>,
    queries: Arc<QueryTexts>,
    template: Arc<str>,
    limit: Option<u32>,
    iterations: u32,
    seed: u64,
    models: Vec<Arc<ModelSpec>>,
    scorings: Vec<Scoring>,
}

impl Plan {
    fn world(&self, reader: &Reader) -> World {
        let db = EngineDb::new(Arc::new(reader.clone()));
        let settings = Settings::new(
            &db,
            self.queries.clone(),
            self.template.clone(),
            self.limit,
            self.iterations,
            self.seed,
        );
        let subject = Subject::new(
            &db,
            self.manifest.clone(),
            self.origin,
            self.toolchain.clone(),
        );
        let models = self
            .models
            .iter()
            .map(|spec| Model::new(&db, spec.clone()))
            .collect();
        World {
            db,
            settings,
            subject,
            models,
            scorings: self.scorings.clone(),
        }
    }
}

/// A row's place on the board.
pub struct RowResult {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The scoring.
    pub scoring: Scoring,
    /// Its facts, unless something is missing.
    pub facts: Option<Arc<RowFacts>>,
}

/// What the root query of a run gives.
pub struct Board {
    /// By scoring, then in the project's order.
    pub rows: Vec<RowResult>,
    /// The functions asked.
    pub sample: Option<Arc<Vec<Arc<population::Function>>>>,
    /// The whole population.
    pub population: Option<Arc<population::Population>>,
    /// The unchanged subject's results.
    pub baseline: Option<Arc<baseline::Baseline>>,
}

/// The outcome of a run or of a scoring.
pub struct Evaluation {
    /// The rows.
    pub board: Board,
    /// What is still missing, by kind.
    pub missing: BTreeMap<String, u64>,
    /// Why.
    pub failures: Vec<(Job, Failure)>,
    /// Jobs executed, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Jobs whose outputs were there already, by kind.
    pub reused: BTreeMap<String, u64>,
    /// True if it was stopped.
    pub stopped: bool,
    /// Which source it was: a version, or a snapshot's digest.
    pub commit: String,
    /// The compiler's version line.
    pub compiler: String,
    /// The database, to ask more of.
    pub world: World,
}

/// A project with its store open.
pub struct App {
    /// The project.
    pub project: Project,
    /// The store.
    pub store: Arc<Store>,
    writable: bool,
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

    /// Opens the project in `dir` for writing. Waits a moment for a command that only shows
    /// something: it has the store for as long as it reads.
    pub fn open_to_run(dir: &Path) -> Result<App, AppError> {
        let mut tries = 0;
        loop {
            match App::open(dir, Access::ReadWrite) {
                Err(AppError::Store(StoreError::Locked { .. })) if tries < 60 => {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                other => return other,
            }
        }
    }

    fn with(project: Project, store: Store, access: Access) -> App {
        App {
            project,
            store: Arc::new(store),
            writable: access == Access::ReadWrite,
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
        let answering = models(&self.project, &options.models)?;
        let compiler = options
            .compiler
            .as_ref()
            .unwrap_or(&self.project.config.run.compiler);
        let tools = Toolchain::probe(compiler, &programs(&self.project.manifest))?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        self.remember_surroundings(&plan, &tools)?;
        // All that was asked for may be there: then no sandbox and no cache is needed.
        let first = self.drive(&plan, None, cancel, observer)?;
        let evaluation = if first.2.is_empty() {
            first
        } else {
            let shop = self.workshop(tools.clone())?;
            let replays = answering.iter().filter_map(|a| a.replay.clone());
            let registry = registry(&Arc::new(shop), &plan, replays);
            let jobs = options.jobs.unwrap_or_else(cores);
            self.drive(&plan, Some((&registry, jobs)), cancel, observer)?
        };
        self.finish(evaluation, &plan, tools.version)
    }

    /// Gives the rows as far as the store has them; runs nothing.
    pub fn score(&self, options: &Options) -> Result<Evaluation, AppError> {
        let answering = models(&self.project, &options.models)?;
        let plan = self.plan(options, &answering, None)?;
        let compiler = self
            .surrounding("compiler")?
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default();
        let evaluation = self.drive(&plan, None, &Cancel::new(), &mut ())?;
        self.finish(evaluation, &plan, compiler)
    }

    /// A database with the project's inputs, for queries beside the board. Runs nothing.
    pub fn world(&self, options: &Options) -> Result<World, AppError> {
        let answering = models(&self.project, &options.models)?;
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
        let answering = models(&self.project, &options.models)?;
        let compiler = options
            .compiler
            .as_ref()
            .unwrap_or(&self.project.config.run.compiler);
        let tools = Toolchain::probe(compiler, &programs(&self.project.manifest))?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        self.remember_surroundings(&plan, &tools)?;
        let shop = Arc::new(self.workshop(tools)?);
        let registry = registry(
            &shop,
            &plan,
            answering.iter().filter_map(|a| a.replay.clone()),
        );
        let reader = self.store.reader()?;
        let mut world = plan.world(&reader);
        let ledger = StoreLedger::new(self.store.clone(), &reader, TOOL);
        let driver = Driver {
            registry: &registry,
            ledger: &ledger,
            cores: options.jobs.unwrap_or_else(cores),
            cancel: cancel.clone(),
        };
        let (settings, subject, models) = (world.settings, world.subject, world.models.clone());
        let driven = driver
            .drive(&mut world.db, observer, |db| {
                match audits(db, settings, subject, &models) {
                    Ok(audited) => (audited, Hold::default()),
                    Err(hold) => (Vec::new(), hold),
                }
            })
            .map_err(AppError::Drive)?;
        fault_of(&driven.hold)?;
        if let Some((_, failure)) = driven.failures.first() {
            return Err(failure_error(failure));
        }
        if !driven.hold.is_empty() {
            return Err(AppError::Environment(
                "the audit was stopped; run it again to go on".into(),
            ));
        }
        Ok(driven.value)
    }

    fn workshop(&self, tools: Toolchain) -> Result<Workshop, AppError> {
        let sandbox = Sandbox::probe(Policy::Required)?;
        let environment =
            |e: std::io::Error| AppError::Environment(format!("the build cache: {e}"));
        let root = trees_dir(&self.project.dir.join(".everbench")).map_err(environment)?;
        let trees = Trees::open(&root, TREES_BUDGET).map_err(environment)?;
        let recorder = std::env::current_exe().map_err(environment)?;
        Workshop::new(sandbox, tools, trees, &recorder).map_err(environment)
    }

    fn plan(
        &self,
        options: &Options,
        answering: &[Answering],
        tools: Option<&Toolchain>,
    ) -> Result<Plan, AppError> {
        let run = &self.project.config.run;
        let manifest = self.project.manifest.clone();
        let toolchain: Arc<[u8]> = match tools {
            Some(tools) => tools.identity.canonical().into(),
            None => match self.surrounding("toolchain")? {
                Some(bytes) => bytes,
                None => return Err(nothing_stored()),
            },
        };
        let origin = match &manifest.source {
            Source::Crate(_) => Origin::Manifest,
            Source::Directory(directory) if tools.is_some() => {
                let path = self.project.manifest_dir.join(&directory.path);
                let tree =
                    source::read_directory(&path, &directory.ignore, &source::Limits::default())?;
                Origin::Snapshot(self.adopt_tree(&tree)?)
            }
            Source::Directory(_) => match self.surrounding("snapshot")? {
                Some(bytes) => Origin::Snapshot(Digest::of(&bytes)),
                None => return Err(nothing_stored()),
            },
        };
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path)
                .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))
        };
        let template: Arc<str> = match &run.template {
            Some(path) => read(self.project.dir.join(path))?.into(),
            None => ask::task("improve")
                .expect("the task comes with the program")
                .default
                .into(),
        };
        let queries = match &run.queries {
            Some(dir) => {
                let dir = self.project.dir.join(dir);
                QueryTexts {
                    functions: read(dir.join("functions.scm"))?,
                    edits: read(dir.join("edits.scm"))?,
                }
            }
            None => QueryTexts::c(),
        };
        let score = &self.project.config.score;
        Ok(Plan {
            origin,
            toolchain,
            queries: Arc::new(queries),
            template,
            limit: options.limit.or(run.limit),
            iterations: options
                .iterations
                .or(run.iterations)
                .unwrap_or(manifest.scoring.iterations),
            seed: options.seed.unwrap_or(run.seed),
            models: answering.iter().map(|a| a.spec.clone()).collect(),
            scorings: if options.scorings.is_empty() {
                score.scorings.clone()
            } else {
                options.scorings.clone()
            },
            manifest,
        })
    }

    /// Puts a directory's files into the store, as the output of a job like every other.
    fn adopt_tree(&self, tree: &source::Tree) -> Result<Digest, AppError> {
        let digest = tree.snapshot.digest();
        let job = adoption(digest);
        if self.store.reader()?.output(&job.key())?.is_none() {
            self.store.commit(vec![Completed {
                job,
                output: tree.snapshot.canonical(),
                blobs: tree.blobs.values().map(|b| b.to_vec()).collect(),
                provenance: Provenance {
                    tool: TOOL.into(),
                    ..Provenance::default()
                },
            }])?;
        }
        Ok(digest)
    }

    /// Notes what this machine ran with, so that `score` can be asked where there is no compiler.
    fn remember_surroundings(&self, plan: &Plan, tools: &Toolchain) -> Result<(), AppError> {
        let note = |name: &str, bytes: &[u8]| -> Result<(), AppError> {
            let digest = Digest::of(bytes);
            if self.store.reader()?.root(&format!("surroundings/{name}"))? != Some(digest) {
                self.store.put_blobs(&[bytes])?;
                self.store
                    .set_root(&format!("surroundings/{name}"), digest)?;
            }
            Ok(())
        };
        note("toolchain", &plan.toolchain)?;
        note("compiler", tools.version.as_bytes())?;
        if let Origin::Snapshot(digest) = plan.origin
            && let Some(bytes) = self.store.reader()?.blob(&digest)?
        {
            note("snapshot", &bytes)?;
        }
        Ok(())
    }

    fn surrounding(&self, name: &str) -> Result<Option<Arc<[u8]>>, AppError> {
        let reader = self.store.reader()?;
        match reader.root(&format!("surroundings/{name}"))? {
            Some(digest) => Ok(reader.blob(&digest)?),
            None => Ok(None),
        }
    }

    /// Evaluates the board; with a registry, runs what it lacks.
    #[allow(clippy::type_complexity)]
    fn drive(
        &self,
        plan: &Plan,
        executors: Option<(&Registry, usize)>,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<
        (
            World,
            Board,
            Hold,
            Vec<(Job, Failure)>,
            BTreeMap<String, u64>,
            bool,
        ),
        AppError,
    > {
        // A corrupt blob makes its actions run again, on a new database: each pass takes out at
        // least one, so this ends.
        loop {
            let reader = self.store.reader()?;
            let mut world = plan.world(&reader);
            let ledger = StoreLedger::new(self.store.clone(), &reader, TOOL);
            let (settings, subject) = (world.settings, world.subject);
            let (models, scorings) = (world.models.clone(), world.scorings.clone());
            let root = |db: &EngineDb| board(db, settings, subject, &models, &scorings);
            let result = match executors {
                Some((registry, jobs)) => {
                    let driver = Driver {
                        registry,
                        ledger: &ledger,
                        cores: jobs,
                        cancel: cancel.clone(),
                    };
                    driver.drive(&mut world.db, observer, root).map(|d| {
                        let executed = d
                            .executed
                            .iter()
                            .map(|(k, n)| (k.to_string(), *n))
                            .collect();
                        (d.value, d.hold, d.failures, executed, d.stopped)
                    })
                }
                None => {
                    let (value, hold) = root(&world.db);
                    ledger.remember(world.db.take_rows());
                    match hold.corrupt_blobs() {
                        [] => Ok((value, hold, Vec::new(), BTreeMap::new(), false)),
                        corrupt => Err(DriveError::Corrupt(corrupt.to_vec())),
                    }
                }
            };
            match result {
                Ok((board, hold, failures, executed, stopped)) => {
                    fault_of(&hold)?;
                    return Ok((world, board, hold, failures, executed, stopped));
                }
                Err(DriveError::Corrupt(digests)) => {
                    let mut taken = 0;
                    for digest in &digests {
                        taken += self.store.quarantine(digest)?.len();
                    }
                    if taken == 0 {
                        return Err(AppError::Environment(format!(
                            "blob {} is corrupt or missing, and no stored job gives it\n  help: run `everbench store verify`",
                            digests[0]
                        )));
                    }
                }
                Err(other) => return Err(AppError::Drive(other)),
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn finish(
        &self,
        (world, board, hold, failures, executed, stopped): (
            World,
            Board,
            Hold,
            Vec<(Job, Failure)>,
            BTreeMap<String, u64>,
            bool,
        ),
        plan: &Plan,
        compiler: String,
    ) -> Result<Evaluation, AppError> {
        let mut missing = BTreeMap::new();
        for job in hold.jobs() {
            *missing.entry(job.kind().name.to_string()).or_default() += 1;
        }
        let mut reused = BTreeMap::new();
        if hold.is_empty() {
            self.keep_manifest(&world)?;
            let args = (&world.models, &world.scorings);
            if let Ok(uses) =
                leaderboard::uses(&world.db, world.settings, world.subject, args.0, args.1)
            {
                reused = uses;
                for (kind, n) in &executed {
                    let left = reused.get(kind).copied().unwrap_or(0).saturating_sub(*n);
                    reused.insert(kind.clone(), left);
                }
            }
            let rows = world.db.take_rows();
            if !rows.is_empty() {
                StoreLedger::new(self.store.clone(), &self.store.reader()?, TOOL).remember(rows);
            }
        }
        let commit = match (&plan.manifest.source, plan.origin) {
            (Source::Crate(c), _) => format!("{} {}", c.name, c.version),
            (_, Origin::Snapshot(digest)) => digest.short(),
            _ => String::new(),
        };
        Ok(Evaluation {
            board,
            missing,
            failures,
            executed,
            reused,
            stopped,
            commit,
            compiler,
            world,
        })
    }

    /// Stores the list of everything the rows rest on, unless it is stored already.
    fn keep_manifest(&self, world: &World) -> Result<(), AppError> {
        let (db, settings, subject) = (&world.db, world.settings, world.subject);
        let Ok(digest) =
            leaderboard::evaluation_digest(db, settings, subject, &world.models, &world.scorings)
        else {
            return Ok(());
        };
        let reader = self.store.reader()?;
        let name = format!("evaluation/{}", digest.short());
        if reader.root(&name)?.is_some() {
            return Ok(());
        }
        let Ok(entries) =
            leaderboard::entries(db, settings, subject, &world.models, &world.scorings)
        else {
            return Ok(());
        };
        let mut lines = Vec::new();
        for entry in entries {
            if let Some(output) = reader.output(&entry.job.key())? {
                lines.push(crate::store::Entry {
                    id: entry.name,
                    key: entry.job.key(),
                    output,
                });
            }
        }
        if let Origin::Snapshot(digest) = subject.origin(db) {
            lines.push(crate::store::Entry {
                id: format!("{}/source", subject.manifest(db).name),
                key: adoption(digest).key(),
                output: digest,
            });
        }
        lines.sort();
        lines.dedup_by(|a, b| a.id == b.id);
        let built = EvaluationManifest::build(lines)?;
        if self.writable {
            self.store.put_manifest(&name, &built)?;
        }
        Ok(())
    }
}

/// The job whose output is a directory's snapshot: nothing ran for it.
fn adoption(snapshot: Digest) -> Job {
    Job::of(artifact::SOURCE)
        .put("from", "directory")
        .put("snapshot", snapshot.hex())
        .done()
}

/// One case seen by both ways of deciding a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// The function.
    pub function: String,
    /// The variant.
    pub variant: Digest,
    /// By replaying the touched commands.
    pub verdict: artifact::VerdictDoc,
    /// By the subject's own build.
    pub audit: artifact::VerdictDoc,
}

fn audits(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    models: &[Model],
) -> Result<Vec<Audited>, Hold> {
    let mut seen: BTreeMap<Key, ()> = BTreeMap::new();
    let mut out = Vec::new();
    let mut hold = Hold::default();
    for model in models {
        let cases = match leaderboard::cases_of(db, settings, subject, *model) {
            Ok(cases) => cases,
            Err(h) => {
                hold.merge(&h);
                continue;
            }
        };
        for (function, case) in cases {
            let (Some(variant), Some(verdict)) = (case.variant, case.verdict) else {
                continue;
            };
            let arg = population::FunctionArg::new(db, function.clone());
            let one = || -> Result<Option<Audited>, Hold> {
                let text = population::text(db, settings, subject, arg)?;
                let job = crate::oss::jobs::audit(db, subject, &function, text, db.blob(variant)?)?;
                let audit = db.demand(&job)?;
                Ok(Some(Audited {
                    function: function.id.clone(),
                    variant,
                    verdict: artifact::read(artifact::VERDICT, &db.blob(verdict)?)?,
                    audit: artifact::read(artifact::AUDIT, &db.blob(audit)?)?,
                }))
            };
            let key = Key(Digest::of(&[function.id.as_bytes(), &variant.0].concat()));
            if seen.insert(key, ()).is_some() {
                continue;
            }
            match one() {
                Ok(audited) => out.extend(audited),
                Err(h) => hold.merge(&h),
            }
        }
    }
    if hold.is_empty() {
        Ok(out)
    } else {
        Err(hold.settle())
    }
}

/// The root query: the rows of all models and scorings, and what stands in their way.
pub fn board(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) -> (Board, Hold) {
    let mut hold = Hold::default();
    let mut rows = Vec::new();
    let baseline = baseline::baseline(db, settings, subject);
    // Until the plain base is there, nothing more can be asked for. To evaluate on would only
    // replace what is known of the last revision by "unknown", and with that everything would
    // run again for which the new base says the same as the old one.
    if let Err(h) = population::base(db, subject, FlavourArg::Plain) {
        hold.merge(&h);
        if let Err(h) = &baseline {
            hold.merge(h);
        }
        let rows = scorings.iter().flat_map(|scoring| {
            models.iter().map(|model| RowResult {
                spec: model.spec(db).clone(),
                scoring: *scoring,
                facts: None,
            })
        });
        let board = Board {
            rows: rows.collect(),
            sample: None,
            population: None,
            baseline: baseline.ok(),
        };
        return (board, hold.settle());
    }
    if population::sample(db, settings, subject).is_ok() {
        leaderboard::warm(db, settings, subject, models, scorings);
    }
    for scoring in scorings {
        for model in models {
            let facts = leaderboard::row_facts(db, settings, subject, *model, *scoring);
            if let Err(h) = &facts {
                hold.merge(h);
            }
            rows.push(RowResult {
                spec: model.spec(db).clone(),
                scoring: *scoring,
                facts: facts.ok(),
            });
        }
    }
    if let Err(h) = &baseline {
        hold.merge(h);
    }
    let board = Board {
        rows,
        sample: population::sample(db, settings, subject).ok(),
        population: population::population(db, settings, subject).ok(),
        baseline: baseline.ok(),
    };
    (board, hold.settle())
}

fn fault_of(hold: &Hold) -> Result<(), AppError> {
    match hold.faults().first() {
        Some(fault) => Err(AppError::Broken {
            what: fault.what.clone(),
            help: fault.help.clone(),
        }),
        None => Ok(()),
    }
}

/// A failure as an error of the command.
pub fn failure_error(failure: &Failure) -> AppError {
    match failure {
        Failure::Transient(why) => AppError::Environment(why.clone()),
        Failure::Fatal { what, help } => AppError::Input(format!("{what}\n  help: {help}")),
        Failure::Cancelled => AppError::Environment("stopped".into()),
    }
}

fn nothing_stored() -> AppError {
    AppError::Input("nothing was run here yet\n  help: `everbench run` comes first; `score` only reads the store".into())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The programs that the subject's commands name.
pub fn programs(manifest: &Manifest) -> Vec<String> {
    let commands = manifest.build.configure.iter().chain(&manifest.build.build);
    let mut names: Vec<String> = commands
        .filter_map(|c| c.first())
        .map(|t| t.source().to_string())
        .filter(|name| !name.contains(['{', '/']))
        .collect();
    // CMake's default generator runs make.
    if names.iter().any(|n| n == "cmake") {
        names.push("make".into());
    }
    names.sort();
    names.dedup();
    names
}

/// Where build trees lie: beside the store, or under `/var/tmp` when the sandboxed user could not
/// get there (a home directory that is closed to others).
fn trees_dir(project: &Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(project)?;
    let project = project.canonicalize()?;
    let open = project
        .ancestors()
        .all(|dir| std::fs::metadata(dir).is_ok_and(|m| m.permissions().mode() & 0o001 != 0));
    if open {
        return Ok(project.join("trees"));
    }
    let name = Digest::of(project.as_os_str().as_encoded_bytes()).short();
    Ok(Path::new("/var/tmp").join(format!("everbench-{name}")))
}

/// Every kind with its executor.
fn registry(
    shop: &Arc<Workshop>,
    plan: &Plan,
    replays: impl Iterator<Item = Arc<Replay>>,
) -> Registry {
    let mut registry = Registry::default();
    let mut add =
        |kind, urgency, executor: Arc<dyn Executor>| registry.add(kind, urgency, executor);
    let replays = replays.map(|r| (r.revision.clone(), r)).collect();
    add(artifact::SOURCE, 100, Arc::new(fetch::Fetch(shop.clone())));
    add(artifact::BASE, 90, Arc::new(base::BaseBuild(shop.clone())));
    // Programs lie in an evictable cache: their runs go first.
    add(artifact::RUN, 80, Arc::new(run::TestRun(shop.clone())));
    add(
        artifact::PROGRAM,
        70,
        Arc::new(program::Program(shop.clone())),
    );
    add(
        artifact::VERDICT,
        50,
        Arc::new(verdict::Verdict(shop.clone())),
    );
    add(artifact::AUDIT, 40, Arc::new(verdict::Audit(shop.clone())));
    add(
        case::CALIBRATION,
        60,
        Arc::new(Calibration {
            queries: plan.queries.clone(),
        }),
    );
    add(ask::COMPLETION, 60, Arc::new(Replays(replays)));
    registry
}
