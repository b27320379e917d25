//! The salsa database: facts from one snapshot of a store, and a slot for each fact that was
//! absent when first demanded. It never runs a job and never writes to the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use salsa::{Database as _, Durability, Setter};

use super::observe::is_observation;
use crate::digest::Digest;
use crate::engine::Hold;
use crate::job::{Job, Key};

/// What a wave reads: the store's facts as they stood at one moment.
pub trait Facts: Send + Sync {
    /// The output of the job with this key, if it was ever committed.
    fn output(&self, key: &Key) -> Result<Option<Digest>, FactsError>;
    /// What the observation with this key gave when it was last made for this store.
    fn noted(&self, key: &Key) -> Result<Option<Digest>, FactsError>;
    /// The bytes behind a digest, verified.
    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, FactsError>;
    /// A derived value remembered under `key` by an earlier process.
    fn row(&self, key: &Digest) -> Option<Arc<[u8]>>;
}

/// Why facts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The bytes found do not hash to the digest they are filed under.
    #[error("blob {0} is corrupt")]
    Corrupt(Digest),
    /// The store itself could not be read.
    #[error("{0}")]
    Unreadable(String),
}

/// What queries may ask of their surroundings.
#[salsa::db]
pub trait Db: salsa::Database {
    /// The output of `job`, or the hold that names it.
    fn demand(&self, job: &Job) -> Result<Digest, Hold>;

    /// The bytes behind a digest that came out of [`Db::demand`] or an input.
    fn blob(&self, digest: Digest) -> Result<Arc<[u8]>, Hold>;

    /// A derived value remembered under `key`, which must be a digest of everything that the value
    /// depends on, the code that computes it included.
    fn recall(&self, key: Digest) -> Option<Arc<[u8]>>;

    /// Offers a derived value for later processes to recall. Losing it costs time, never truth:
    /// that is why this one side effect is allowed in a query.
    fn remember(&self, key: Digest, value: Vec<u8>);
    /// Which code computes derived values: part of the key of each.
    fn code(&self) -> &str;
}

/// Stands for a fact that was absent when first demanded; set once, when it arrives.
#[salsa::input]
pub struct Slot {
    /// The output, once there is one.
    #[returns(copy)]
    pub output: Option<Digest>,
}

/// The database.
#[salsa::db]
#[derive(Clone)]
pub struct EngineDb {
    storage: salsa::Storage<Self>,
    facts: Arc<dyn Facts>,
    slots: Arc<Mutex<HashMap<Key, Slot>>>,
    rows: Arc<Mutex<BTreeMap<Digest, Vec<u8>>>>,
    code: Arc<str>,
    looks_back: bool,
    executed: Arc<Mutex<HashMap<salsa::IngredientIndex, u64>>>,
    hits: Arc<AtomicU64>,
}

#[salsa::db]
impl salsa::Database for EngineDb {}

#[salsa::db]
impl Db for EngineDb {
    fn demand(&self, job: &Job) -> Result<Digest, Hold> {
        let slot = {
            let mut slots = self
                .slots
                .lock()
                .expect("no query panics while it holds the slots");
            match slots.get(&job.key()) {
                Some(slot) => *slot,
                None => {
                    // What is known never changes, so it needs no dependency edge.
                    match self.known(job) {
                        Ok(Some(output)) => {
                            self.hits.fetch_add(1, Ordering::Relaxed);
                            return Ok(output);
                        }
                        Ok(None) => {}
                        Err(e) => return Err(unreadable(&e)),
                    }
                    let slot = Slot::new(self, None);
                    slots.insert(job.key(), slot);
                    slot
                }
            }
        };
        slot.output(self).ok_or_else(|| Hold::missing(job.clone()))
    }

    fn blob(&self, digest: Digest) -> Result<Arc<[u8]>, Hold> {
        match self.facts.blob(&digest) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) | Err(FactsError::Corrupt(_)) => Err(Hold::corrupt(digest)),
            Err(e) => Err(unreadable(&e)),
        }
    }

    fn recall(&self, key: Digest) -> Option<Arc<[u8]>> {
        let row = self.facts.row(&key);
        self.hits
            .fetch_add(u64::from(row.is_some()), Ordering::Relaxed);
        row
    }

    fn remember(&self, key: Digest, value: Vec<u8>) {
        self.rows
            .lock()
            .expect("the lock is never poisoned")
            .insert(key, value);
    }

    fn code(&self) -> &str {
        &self.code
    }
}

impl EngineDb {
    /// The output of a job as far as it is known without running anything.
    fn known(&self, job: &Job) -> Result<Option<Digest>, FactsError> {
        match (is_observation(job), self.looks_back) {
            (false, _) => self.facts.output(&job.key()),
            (true, true) => self.facts.noted(&job.key()),
            // Whatever was seen before, by whomever: this process looks for itself.
            (true, false) => Ok(None),
        }
    }
}

fn unreadable(e: &FactsError) -> Hold {
    Hold::unreadable(
        format!("the store cannot be read: {e}"),
        "run `everbench store verify` to see what is damaged",
    )
}

impl EngineDb {
    /// A database over `facts`, without inputs.
    pub fn new(facts: Arc<dyn Facts>) -> Self {
        let executed: Arc<Mutex<HashMap<salsa::IngredientIndex, u64>>> = Arc::default();
        let log = executed.clone();
        let callback = move |event: salsa::Event| {
            if let salsa::EventKind::WillExecute { database_key } = event.kind {
                let mut log = log.lock().expect("the lock is never poisoned");
                *log.entry(database_key.ingredient_index()).or_default() += 1;
            }
        };
        EngineDb {
            storage: salsa::Storage::new(Some(Box::new(callback))),
            facts,
            slots: Arc::default(),
            rows: Arc::default(),
            code: crate::CODE.into(),
            looks_back: false,
            executed,
            hits: Arc::default(),
        }
    }

    /// The same database for other code: nothing that this program remembered is recalled, as
    /// after a change of a parser. For benchmarks, and to be called before any query.
    #[doc(hidden)]
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        self.code = code.into();
        self
    }

    /// The same database for a process that runs nothing: of the machine it believes what was noted
    /// by the last process that looked. To be called before any query.
    #[must_use]
    pub fn looking_back(mut self) -> Self {
        self.looks_back = true;
        self
    }

    /// Makes the outputs of jobs known that were committed since the facts were read; `facts` is
    /// a later snapshot of the same store, which holds them. Facts only grow while a database
    /// lives, so what was read from an earlier snapshot still stands.
    pub fn arrive(&mut self, outputs: &[(Key, Digest)], facts: Arc<dyn Facts>) {
        self.facts = facts;
        for (key, output) in outputs {
            let slot = self
                .slots
                .lock()
                .expect("the lock is never poisoned")
                .get(key)
                .copied();
            // A fact is set once and never taken back; a job that nothing demanded has no slot.
            if let Some(slot) = slot
                && slot.output(self).is_none()
            {
                slot.set_output(self)
                    .with_durability(Durability::NEVER_CHANGE)
                    .to(Some(*output));
            }
        }
    }

    /// Runs `query` for every item on all cores, to fill the memo tables before a sequential
    /// query reads them. Handles live only here, outside every query: a live one would block the
    /// setting of inputs.
    pub fn warm<T: Sync>(&self, items: &[T], query: impl Fn(&dyn Db, &T) + Sync + Send) {
        items
            .par_iter()
            .for_each_with(self.clone(), |db, item| query(db, item));
    }

    /// The values offered by [`Db::remember`] since this was last called.
    pub fn take_rows(&self) -> Vec<(Digest, Vec<u8>)> {
        std::mem::take(&mut *self.rows.lock().expect("the lock is never poisoned"))
            .into_iter()
            .collect()
    }

    /// How many facts and rows were found in the store so far: for progress, where being off by a
    /// query that ran twice does not matter.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// How many times each query ran since this was last called, by name.
    pub fn take_executed(&self) -> BTreeMap<String, u64> {
        let counts =
            std::mem::take(&mut *self.executed.lock().expect("the lock is never poisoned"));
        counts
            .into_iter()
            .map(|(index, n)| (self.ingredient_debug_name(index).into_owned(), n))
            .collect()
    }
}
