//! Asks the service by itself: a driver, a real store, and a query that wants some completions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everbench::ask::wire::{Api, Shape};
use everbench::ask::{COMPLETION, Reply, Request, Sampling, Usage};
use everbench::cancel::Cancel;
use everbench::engine::{Db, Driven, Driver, EngineDb, Failure, Hold, Registry};
use everbench::exec::models::{Model, Models, Notes, Patience, Price, Secret, Statement, Timeouts};
use everbench::job::Job;
use everbench::store::{Access, Attempt, Store, StoreLedger};

/// So quick that a test need not wait, and so patient that it can.
pub const PATIENCE: Patience = Patience {
    tries: 4,
    base: Duration::from_millis(1),
    most: Duration::from_millis(4),
    longest_pause: Duration::from_secs(60),
    in_a_row: 6,
};

pub const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    idle: Duration::from_millis(300),
    total: Duration::from_secs(2),
};

/// Notes in memory; they outlive a service.
#[derive(Default)]
pub struct Kept(pub Mutex<BTreeMap<String, Vec<u8>>>);

impl Notes for Kept {
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.0.lock().unwrap().insert(name.into(), bytes.to_vec());
        Ok(())
    }
}

/// Each request costs this at worst, in millionths of a dollar.
pub const WORST: u64 = 1000;

/// Tokens cost a millionth each.
pub struct PerToken;

impl Price for PerToken {
    fn worst(&self, _: &Request) -> u64 {
        WORST
    }

    fn cost(&self, usage: &Usage) -> u64 {
        usage.input_tokens + usage.output_tokens
    }
}

/// A model called `m` at an address.
pub fn model(url: &str) -> Model {
    Model {
        name: "m".into(),
        revision: "custom/m".into(),
        sampling: Sampling::default(),
        shape: Shape::new(Api::OpenaiChat, "m"),
        base_url: url.into(),
        secrets: Ok(vec![(
            "authorization".into(),
            "Bearer ",
            Secret::new("sk-planted", "a test").ok().unwrap(),
        )]),
        most_in_flight: 16,
        timeouts: TIMEOUTS,
        batches: None,
        patience: PATIENCE,
        price: Some(Arc::new(PerToken)),
        max_cost: None,
        spent: 0,
    }
}

/// A store with what belongs to it.
pub struct Lab {
    pub store: Arc<Store>,
    pub notes: Arc<Kept>,
    pub dir: tempfile::TempDir,
}

/// What became of some questions.
pub struct Told {
    /// By the question's number.
    pub replies: Vec<Option<Reply>>,
    /// Why there is none, each reason once.
    pub failures: Vec<Failure>,
    pub stopped: bool,
    pub statement: Statement,
}

impl Told {
    pub fn texts(&self) -> Vec<Option<&str>> {
        let replies = self.replies.iter();
        replies
            .map(|reply| reply.as_ref().map(|r| r.text.as_str()))
            .collect()
    }

    #[track_caller]
    pub fn all_answered(&self) {
        assert!(
            self.replies.iter().all(Option::is_some),
            "{:?}\n{:?}",
            self.texts(),
            self.failures
        );
    }
}

/// The question with this number.
pub fn question(revision: &str, n: usize) -> Request {
    Request {
        system: "Answer.".into(),
        user: format!("question {n}").as_str().into(),
        model: revision.into(),
        sampling: Sampling::default(),
        sample: 0,
    }
}

pub fn job(revision: &str, n: usize) -> Job {
    question(revision, n).to_job(COMPLETION)
}

impl Lab {
    pub fn new() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store"), Access::ReadWrite, "test").unwrap();
        Lab {
            store: Arc::new(store),
            notes: Arc::default(),
            dir,
        }
    }

    pub fn store_dir(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// Asks `n` questions of a model.
    pub fn ask(&self, model: Model, n: usize) -> Told {
        self.ask_all(vec![model], n, None, &Cancel::new())
    }

    /// Asks `n` questions of each model.
    pub fn ask_all(
        &self,
        models: Vec<Model>,
        n: usize,
        max_cost: Option<u64>,
        cancel: &Cancel,
    ) -> Told {
        let service = Models::new(models, [], max_cost, self.notes.clone());
        let service = Arc::new(service.unwrap_or_else(|e| panic!("{e}")));
        let mut registry = Registry::default();
        registry.add_service(COMPLETION, service.clone());
        let reader = self.store.reader().unwrap();
        let ledger = StoreLedger::new(self.store.clone(), &reader, "test");
        let driver = Driver {
            registry: &registry,
            ledger: &ledger,
            cores: 1,
            cancel: cancel.clone(),
        };
        let mut db = EngineDb::new(Arc::new(reader));
        let root = |db: &EngineDb| {
            let mut hold = Hold::default();
            let mut outputs = Vec::new();
            for (_, revision) in service.revisions() {
                for n in 0..n {
                    match db.demand(&job(&revision, n)) {
                        Ok(output) => outputs.push(Some(output)),
                        Err(h) => {
                            outputs.push(None);
                            hold.merge(&h);
                        }
                    }
                }
            }
            (outputs, hold.settle())
        };
        let driven: Driven<_> = driver.drive(&mut db, &mut (), root).unwrap();
        let reader = self.store.reader().unwrap();
        let read = |digest| Reply::decode(&reader.blob(&digest).unwrap().unwrap()).unwrap();
        let mut failures: Vec<Failure> = Vec::new();
        for (_, failure) in driven.failures {
            if !failures.contains(&failure) {
                failures.push(failure);
            }
        }
        Told {
            replies: driven.value.into_iter().map(|d| d.map(read)).collect(),
            failures,
            stopped: driven.stopped,
            statement: service.statement(),
        }
    }

    /// What is in the store: how many replies.
    pub fn stored(&self) -> usize {
        let reader = self.store.reader().unwrap();
        reader.actions(Some(COMPLETION.name)).unwrap().count()
    }

    /// The attempts that were logged, the last first.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.store
            .reader()
            .unwrap()
            .recent_attempts(10_000)
            .unwrap()
    }
}
