//! A process that evaluates a world over a store: the inputs, the root query, and a loop that
//! runs what is missing with the executors of [`super::fakes`].

use std::path::Path;
use std::sync::Arc;

use everbench::app;
use everbench::cancel::Cancel;
use everbench::digest::Digest;
use everbench::engine::{Context, Driver, EngineDb, Failure, Hold, Ledger, Registry, Runs, Spent};
use everbench::job::{Job, Key};
use everbench::oss::artifact::SOURCE;
use everbench::oss::carry::{self, Carried, Note};
use everbench::oss::inputs::{Model, Origin, Scoring, Settings, Subject};
use everbench::oss::leaderboard::RowFacts;
use everbench::store::{Access, Completed, Provenance, Store, StoreLedger};
use everbench::subject::Manifest;
use rayon::prelude::*;
use salsa::Setter;

use super::{World, fakes, shared};

/// Both, in this order.
pub const SCORINGS: [Scoring; 2] = [Scoring::Paired, Scoring::Paper];

/// Jobs committed at once.
const BATCH: usize = 20_000;

/// Rows by scoring, then by model; absent while something is missing.
pub type Rows = Vec<Option<Arc<RowFacts>>>;

/// A database with a world's inputs, over a store.
pub struct Workbench {
    /// The store.
    pub store: Arc<Store>,
    /// The database.
    pub db: EngineDb,
    /// See [`Settings`].
    pub settings: Settings,
    /// See [`Subject`].
    pub subject: Subject,
    /// In the world's order.
    pub models: Vec<Model>,
    /// The fakes.
    pub registry: Registry,
    /// Over the store.
    pub ledger: StoreLedger,
}

/// Opens or makes the store in `dir`.
pub fn store(dir: &Path) -> Arc<Store> {
    Arc::new(Store::open(dir, Access::ReadWrite, "synthetic").expect("the store opens"))
}

/// Puts a world's files into the store; the tree's digest.
pub fn adopt(store: &Store, world: &World) -> Digest {
    let (snapshot, blobs) = world.tree();
    let digest = snapshot.digest();
    let job = Job::of(SOURCE)
        .put("from", "directory")
        .put("snapshot", digest.hex())
        .done();
    let done = Completed {
        job,
        output: snapshot.canonical(),
        blobs,
        provenance: Provenance::default(),
    };
    store.commit(vec![done]).expect("the tree is stored");
    digest
}

fn manifest(world: &World) -> Arc<Manifest> {
    let manifest = Manifest::parse(&world.manifest(), "synthetic").expect("a manifest");
    let profile = world.profile.as_deref();
    Arc::new(manifest.with_profile(profile).expect("a known profile"))
}

impl Workbench {
    /// A new process over `store`.
    pub fn new(store: Arc<Store>, world: &World) -> Workbench {
        Workbench::with_code(store, world, everbench::CODE)
    }

    /// A new process of a program whose pure code has this digest.
    pub fn with_code(store: Arc<Store>, world: &World, code: &str) -> Workbench {
        let tree = adopt(&store, world);
        let reader = store.reader().expect("a snapshot");
        let ledger = StoreLedger::new(store.clone(), &reader, "synthetic");
        let db = EngineDb::new(Arc::new(reader)).with_code(code);
        let settings = Settings::new(
            &db,
            Arc::new(world.queries.clone()),
            world.template.as_str().into(),
            world.limit,
            world.iterations,
            world.seed,
            everbench::ask::task("improve").expect("a task"),
            Arc::default(),
        );
        let subject = Subject::new(
            &db,
            manifest(world),
            Origin::Snapshot(tree),
            shared(&world.toolchain),
        );
        let models = world.models.iter().cloned().map(Arc::new);
        let models = models.map(|spec| Model::new(&db, spec)).collect();
        Workbench {
            registry: fakes::registry(world),
            store,
            db,
            settings,
            subject,
            models,
            ledger,
        }
    }

    /// The same process as one that runs nothing.
    pub fn looking_back(mut self) -> Workbench {
        self.db = self.db.looking_back();
        self
    }

    /// From now on iterations are kept from what is noted, but for a share that is audited; or none.
    pub fn carry(&mut self, from: Option<(Note, f64)>) {
        let carried = from.map(|(note, share)| Arc::new(Carried::new(note, share)));
        self.subject.set_carried(&mut self.db).to(carried);
    }

    /// What an application notes at the end of a complete evaluation of `commit`.
    pub fn note(&self, commit: &str) -> Note {
        let of = (&self.models[..], &SCORINGS[..]);
        let manifest = Digest::of(commit.as_bytes());
        carry::note(&self.db, self.settings, self.subject, of, commit, manifest)
            .expect("nothing is missing")
    }

    /// Sets the inputs in which `world` differs, as an application does after an edit.
    pub fn apply(&mut self, world: &World) {
        let tree = Origin::Snapshot(adopt(&self.store, world));
        // What was adopted is read from a later snapshot of the store.
        let facts = self.ledger.facts().expect("a snapshot");
        self.db.arrive(&[], facts);
        let (db, settings, subject) = (&mut self.db, self.settings, self.subject);
        macro_rules! set {
            ($input:expr, $get:ident, $set:ident, $value:expr) => {
                let value = $value;
                if $input.$get(db).clone() != value {
                    $input.$set(db).to(value);
                }
            };
        }
        set!(
            settings,
            queries,
            set_queries,
            Arc::new(world.queries.clone())
        );
        set!(
            settings,
            template,
            set_template,
            Arc::from(world.template.as_str())
        );
        set!(settings, limit, set_limit, world.limit);
        set!(settings, iterations, set_iterations, world.iterations);
        set!(settings, seed, set_seed, world.seed);
        set!(subject, manifest, set_manifest, manifest(world));
        set!(subject, origin, set_origin, tree);
        set!(subject, toolchain, set_toolchain, shared(&world.toolchain));
        self.models.truncate(world.models.len());
        for (at, spec) in world.models.iter().enumerate() {
            match self.models.get(at) {
                Some(model) => {
                    set!(model, spec, set_spec, Arc::new(spec.clone()));
                }
                None => self.models.push(Model::new(db, Arc::new(spec.clone()))),
            }
        }
    }

    /// The rows as far as the store has them, and what they lack. Looks at the world's system, as
    /// it was when this process began.
    pub fn rows(&mut self) -> (Rows, Hold) {
        let (settings, subject, models) = (self.settings, self.subject, &self.models);
        let driver = Driver {
            registry: &self.registry,
            ledger: &self.ledger,
            cores: 1,
            cancel: Cancel::new(),
        };
        let mut root = |db: &EngineDb| app::board(db, settings, subject, models, &SCORINGS);
        let mut failures = Vec::new();
        let looked = driver.look(&mut self.db, &mut failures, &mut root);
        let (board, hold) = looked.expect("what was seen is noted");
        assert_eq!(failures, []);
        (board.rows.into_iter().map(|r| r.facts).collect(), hold)
    }

    /// Evaluates and runs what is missing until nothing is; gives the rows and the waves.
    pub fn settle(&mut self) -> (Rows, Vec<Vec<Job>>) {
        let mut waves = Vec::new();
        loop {
            let (rows, hold) = self.rows();
            self.ledger.remember(self.db.take_rows());
            assert_eq!(hold.faults(), []);
            assert_eq!(hold.corrupt_blobs(), []);
            if hold.is_empty() {
                return (rows, waves);
            }
            self.run(hold.jobs());
            waves.push(hold.jobs().to_vec());
        }
    }

    /// Runs jobs, stores what they give and makes it known to the database.
    pub fn run(&mut self, jobs: &[Job]) {
        let arrived = run(&self.store, &self.registry, jobs);
        let facts = self.ledger.facts().expect("a snapshot");
        self.db.arrive(&arrived, facts);
    }
}

/// Runs jobs and stores what they give, many in a transaction.
pub fn run(store: &Store, registry: &Registry, jobs: &[Job]) -> Vec<(Key, Digest)> {
    let mut arrived = Vec::new();
    for batch in jobs.chunks(BATCH) {
        let reader = store.reader().expect("a snapshot");
        let one = |job: &Job| {
            let blob = |digest| {
                let mut own = job.preimages().iter();
                if let Some((_, bytes)) = own.find(|(d, _)| *d == digest) {
                    return Ok(bytes.clone());
                }
                let stored = reader.blob(&digest).ok().flatten();
                stored.ok_or_else(|| Failure::Transient(format!("no blob {digest}")))
            };
            let context = Context {
                blob: &blob,
                output: &|job| Ok(reader.output(&job.key()).ok().flatten()),
                cancel: &Cancel::new(),
                spent: &Spent::default(),
            };
            let entry = registry.get(job.kind().name).expect("a known kind");
            let Runs::Here(executor) = &entry.runs else {
                panic!("fakes are executors");
            };
            let output = executor.run(job, &context).expect("fakes do not fail");
            Completed {
                job: job.clone(),
                output: output.bytes,
                blobs: output.blobs,
                provenance: Provenance::default(),
            }
        };
        let done: Vec<Completed> = batch.par_iter().map(one).collect();
        let keys = done.iter().map(|d| (d.job.key(), Digest::of(&d.output)));
        arrived.extend(keys.collect::<Vec<_>>());
        let committed = store.commit(done).expect("the store takes it");
        assert_eq!(committed.conflicts, [], "fakes are deterministic");
    }
    arrived
}
