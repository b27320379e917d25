//! What can be run: each room registers its kinds with an executor for each. An executor is the
//! only code that does impure work for a job; it never holds a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::service::Service;
use crate::cancel::Cancel;
use crate::digest::Digest;
use crate::job::{Job, Kind};

/// What a job gave: the bytes of its output, and the further blobs which the output names.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The output itself.
    pub bytes: Vec<u8>,
    /// Blobs named by digest inside `bytes`.
    pub blobs: Vec<Vec<u8>>,
}

/// Why a job gave nothing. None of these is ever stored as a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The surroundings failed (memory, disk, network); trying again can help.
    Transient(String),
    /// Trying again cannot help until somebody mends something: what, and how.
    Fatal {
        /// What is wrong.
        what: String,
        /// The way out.
        help: String,
    },
    /// What the job reads is not where it should be. Trying again helps once somebody brings it.
    Absent {
        /// How much of it is absent.
        of: Absent,
        /// What is wrong.
        what: String,
        /// The way out.
        help: String,
    },
    /// Not begun, because it could cost more than may be spent: what, and how to go on.
    Money {
        /// What is spent, and what is left to do.
        what: String,
        /// The way out.
        help: String,
    },
    /// The run was stopped.
    Cancelled,
}

/// What is absent: all that a job reads from, or the one thing in it that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The whole source: a repository, a package.
    Source,
    /// A thing in it: a commit, a version.
    Part,
}

/// What an executor may use besides the job.
pub struct Context<'a> {
    /// Reads a blob: the job's own preimages first, then the store.
    pub blob: &'a (dyn Fn(Digest) -> Result<Arc<[u8]>, Failure> + Sync),
    /// The stored output of another job, if there is one.
    pub output: &'a (dyn Fn(&Job) -> Result<Option<Digest>, Failure> + Sync),
    /// Set when the run is to stop.
    pub cancel: &'a Cancel,
    /// Takes the processor time of the commands that the job ran.
    pub spent: &'a Spent,
}

/// Processor time, added up over the threads of a job.
#[derive(Debug, Default)]
pub struct Spent(AtomicU64);

impl Spent {
    /// Adds what one command took.
    pub fn add(&self, cpu: Duration) {
        self.0.fetch_add(cpu.as_micros() as u64, Ordering::Relaxed);
    }

    /// All that was added.
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Runs the jobs of one kind.
pub trait Executor: Send + Sync {
    /// Does the work. Called on a worker thread of the driver's own, which may wait and block.
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure>;

    /// How many of the driver's cores the job keeps busy.
    fn cores(&self) -> usize {
        1
    }
}

/// A kind with its executor.
pub struct Registered {
    /// The kind.
    pub kind: Kind,
    /// Jobs with a higher urgency start first: those whose inputs lie in an evictable cache, and
    /// those on which many others wait.
    pub urgency: i32,
    /// Who runs it.
    pub runs: Runs,
}

/// Who runs the jobs of a kind.
pub enum Runs {
    /// An executor, on the driver's worker threads.
    Here(Arc<dyn Executor>),
    /// A service, beside them.
    Outside(Arc<dyn Service>),
}

/// All kinds that can be run, by name.
#[derive(Default)]
pub struct Registry(BTreeMap<&'static str, Registered>);

impl Registry {
    /// Adds a kind.
    ///
    /// # Panics
    /// If the name is taken: two rooms claim the same kind.
    pub fn add(&mut self, kind: Kind, urgency: i32, executor: Arc<dyn Executor>) {
        self.insert(kind, urgency, Runs::Here(executor));
    }

    /// Adds a kind whose jobs wait on others than this machine.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn add_service(&mut self, kind: Kind, service: Arc<dyn Service>) {
        self.insert(kind, 0, Runs::Outside(service));
    }

    fn insert(&mut self, kind: Kind, urgency: i32, runs: Runs) {
        let old = self.0.insert(
            kind.name,
            Registered {
                kind,
                urgency,
                runs,
            },
        );
        assert!(old.is_none(), "kind `{}` is registered twice", kind.name);
    }

    /// The entry of a kind.
    pub fn get(&self, name: &str) -> Option<&Registered> {
        self.0.get(name)
    }

    /// Every entry, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.0.values()
    }
}
