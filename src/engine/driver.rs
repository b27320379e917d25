//! Runs what the queries lack: evaluates and observes, takes the missing jobs out of the hold, runs
//! them on worker threads of its own, commits their outputs, makes them known to the database and
//! evaluates again, until nothing is missing or nothing more can be done.
//!
//! A job is never lost: it stays in the hold until its output is in the store. A failure is never
//! a value: it is logged as an attempt, and the job stays missing.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::observe::is_observation;
use crate::cancel::Cancel;
use crate::digest::Digest;
use crate::engine::{Context, EngineDb, Facts, Failure, Hold, Output, Registry, Spent};
use crate::job::{Job, Key};

/// A job with what it gave, on its way into the store.
pub struct Done {
    /// The job.
    pub job: Job,
    /// What it gave.
    pub output: Output,
    /// How long it took.
    pub wall: Duration,
    /// Processor time of the commands that it ran.
    pub cpu: Duration,
}

/// Where outputs are kept. The store implements it; tests have one in memory.
pub trait Ledger: Send + Sync {
    /// Makes outputs durable, all or none. Another output for a known key does not replace it.
    fn commit(&self, done: Vec<Done>) -> Result<(), String>;
    /// Notes what observations gave, for processes that cannot look themselves. It is no fact: the
    /// next observation of the same things takes its place.
    fn note(&self, seen: Vec<(Job, Output)>) -> Result<(), String>;
    /// Logs a run that gave nothing.
    fn attempt(&self, job: &Job, transient: bool, why: &str);
    /// Is told of a run that was stopped.
    fn cancelled(&self, _job: &Job) {}
    /// The facts as they stand now.
    fn facts(&self) -> Result<Arc<dyn Facts>, String>;
    /// Adopts derived values for later processes.
    fn remember(&self, rows: Vec<(Digest, Vec<u8>)>);
}

/// Counts by kind.
pub type Tally = BTreeMap<&'static str, u64>;

/// How far a drive has come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Jobs whose outputs were committed, by kind.
    pub executed: Tally,
    /// Jobs known to be missing that wait for a worker, by kind.
    pub queued: Tally,
    /// Jobs being run, by kind.
    pub running: Tally,
    /// Facts and rows found in the store.
    pub hits: u64,
    /// Runs that gave nothing and will be tried again.
    pub retries: u64,
    /// Mean seconds a job took, by kind.
    pub seconds: BTreeMap<&'static str, f64>,
}

/// Is told how a drive goes on; called on the driver's thread.
pub trait Observer {
    /// Something changed, or a second went by.
    fn progress(&mut self, progress: &Progress);
}

impl Observer for () {
    fn progress(&mut self, _: &Progress) {}
}

/// How a drive ended.
#[derive(Debug)]
pub struct Driven<T> {
    /// The root's value in the last evaluation.
    pub value: T,
    /// What the value still lacks: empty when all is done.
    pub hold: Hold,
    /// Why jobs in the hold could not be run, each reason once.
    pub failures: Vec<(Job, Failure)>,
    /// Jobs executed, by kind.
    pub executed: Tally,
    /// The keys of the jobs executed.
    pub executed_keys: BTreeSet<Key>,
    /// True if the drive was asked to stop.
    pub stopped: bool,
}

/// What ends a drive before its time.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The store took nothing more.
    #[error("{0}")]
    Store(String),
    /// These blobs are damaged: their actions are to be quarantined and the database made anew.
    #[error("{} blobs are corrupt", .0.len())]
    Corrupt(Vec<Digest>),
    /// A kind that no room has registered.
    #[error("no executor for jobs of kind `{0}`")]
    UnknownKind(&'static str),
}

/// How often a job whose surroundings fail is tried in one drive.
const TRIES: u32 = 3;
/// No output waits longer than this to be committed.
const COMMIT_WITHIN: Duration = Duration::from_millis(500);
const COMMIT_AT: usize = 256;
/// How often progress is told.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Runs jobs on behalf of queries.
pub struct Driver<'a> {
    /// Who can run what.
    pub registry: &'a Registry,
    /// Where outputs go.
    pub ledger: &'a dyn Ledger,
    /// How many cores the jobs may keep busy together.
    pub cores: usize,
    /// Ends the drive early.
    pub cancel: Cancel,
}

impl Driver<'_> {
    /// Evaluates `root` until it lacks nothing, running what it lacks.
    ///
    /// `root` gives a value and its hold; it must be a pure function of the database.
    pub fn drive<T>(
        &self,
        db: &mut EngineDb,
        observer: &mut dyn Observer,
        mut root: impl FnMut(&EngineDb) -> (T, Hold),
    ) -> Result<Driven<T>, DriveError> {
        let board = Board::new(self.cores);
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            // Whatever ends this scope, the workers must be told, or the scope waits for ever.
            let _close = CloseOnDrop(&board);
            for _ in 0..self.cores {
                let (board, send) = (&board, send.clone());
                scope.spawn(move || self.work(board, &send));
            }
            self.steer(db, observer, &mut root, &board, &receive)
        })
    }

    fn steer<T>(
        &self,
        db: &mut EngineDb,
        observer: &mut dyn Observer,
        root: &mut dyn FnMut(&EngineDb) -> (T, Hold),
        board: &Board,
        receive: &Receiver<Ended>,
    ) -> Result<Driven<T>, DriveError> {
        let mut wave = Wave::default();
        loop {
            let started = Instant::now();
            let (value, hold) = self.look(db, &mut wave.failures, root)?;
            let cost = started.elapsed();
            wave.hits = db.hits();
            self.ledger.remember(db.take_rows());
            if !hold.corrupt_blobs().is_empty() {
                board.close();
                self.commit_rest(&mut wave, board, receive)?;
                return Err(DriveError::Corrupt(hold.corrupt_blobs().to_vec()));
            }
            // A fault ends the command whatever else is run: what runs may end, nothing new starts.
            let faulty = !hold.faults().is_empty();
            // What was wanted for a part that is set aside now is wanted no more.
            if !hold.aside().is_empty() {
                let wanted = hold.jobs().iter().map(Job::key).collect();
                for key in board.forget(&wanted) {
                    wave.known.remove(&key);
                }
            }
            let lacking = hold.jobs().iter().filter(|job| !is_observation(job));
            for job in lacking.filter(|_| !faulty) {
                if !wave.known.contains_key(&job.key()) && !self.cancel.is_stopping() {
                    let entry = self
                        .registry
                        .get(job.kind().name)
                        .ok_or(DriveError::UnknownKind(job.kind().name))?;
                    wave.known.insert(job.key(), 1);
                    board.push(
                        job.clone(),
                        entry.urgency,
                        entry.executor.cores().min(self.cores),
                    );
                }
            }
            let evaluated = Instant::now();
            loop {
                // In this order: a worker sends its result before it gives its cores back, so what
                // an idle board has left in the channel is all there will be.
                let idle = board.idle();
                while let Ok(ended) = receive.try_recv() {
                    self.take(ended, &mut wave, board);
                }
                if idle && wave.arrived.is_empty() && wave.done.is_empty() && board.idle() {
                    observer.progress(&wave.progress(board));
                    return Ok(Driven {
                        value,
                        hold,
                        failures: wave.failures,
                        executed: wave.executed,
                        executed_keys: wave.executed_keys,
                        stopped: self.cancel.is_stopping(),
                    });
                }
                if faulty || self.cancel.is_stopping() {
                    board.drop_queue();
                }
                if wave.shown.is_none_or(|t| t.elapsed() >= SHOW_EVERY) {
                    wave.shown = Some(Instant::now());
                    observer.progress(&wave.progress(board));
                }
                if !idle {
                    match receive.recv_timeout(SHOW_EVERY) {
                        Ok(ended) => self.take(ended, &mut wave, board),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => {
                            unreachable!("the driver holds a sender")
                        }
                    }
                }
                let due = wave.oldest.is_some_and(|t| t.elapsed() >= COMMIT_WITHIN);
                if due || wave.done.len() >= COMMIT_AT || board.hungry() {
                    self.commit(&mut wave)?;
                }
                let cheap = cost * 20 < evaluated.elapsed();
                if !wave.arrived.is_empty() && (board.hungry() || cheap) {
                    break;
                }
            }
            self.commit(&mut wave)?;
            let facts = self.ledger.facts().map_err(DriveError::Store)?;
            db.arrive(&std::mem::take(&mut wave.arrived), facts);
        }
    }

    fn take(&self, ended: Ended, wave: &mut Wave, board: &Board) {
        let Ended {
            job,
            result,
            wall,
            cpu,
        } = ended;
        match result {
            Ok(output) => {
                wave.oldest.get_or_insert_with(Instant::now);
                wave.done.push(Done {
                    job,
                    output,
                    wall,
                    cpu,
                });
            }
            Err(Failure::Cancelled) => self.ledger.cancelled(&job),
            Err(Failure::Transient(why)) => {
                self.ledger.attempt(&job, true, &why);
                let tries = wave.known.entry(job.key()).or_insert(1);
                if *tries < TRIES && !self.cancel.is_stopping() {
                    *tries += 1;
                    wave.retries += 1;
                    let entry = self.registry.get(job.kind().name).expect("it was run");
                    board.push(job, entry.urgency, entry.executor.cores().min(self.cores));
                } else {
                    wave.failures.push((job, Failure::Transient(why)));
                }
            }
            Err(Failure::Fatal { what, help }) => {
                self.ledger.attempt(&job, false, &what);
                wave.failures.push((job, Failure::Fatal { what, help }));
            }
        }
    }

    fn commit(&self, wave: &mut Wave) -> Result<(), DriveError> {
        if wave.done.is_empty() {
            return Ok(());
        }
        let done = std::mem::take(&mut wave.done);
        wave.oldest = None;
        let keys: Vec<(Key, Digest, &'static str, f64)> = done
            .iter()
            .map(|d| {
                (
                    d.job.key(),
                    Digest::of(&d.output.bytes),
                    d.job.kind().name,
                    d.wall.as_secs_f64(),
                )
            })
            .collect();
        self.ledger.commit(done).map_err(DriveError::Store)?;
        // What the store holds for a key can differ from what came now: the first one stands.
        let facts = self.ledger.facts().map_err(DriveError::Store)?;
        for (key, output, kind, seconds) in keys {
            let output = facts.output(&key).ok().flatten().unwrap_or(output);
            wave.arrived.push((key, output));
            *wave.executed.entry(kind).or_default() += 1;
            wave.executed_keys.insert(key);
            let time = wave.time.entry(kind).or_default();
            time.0 += seconds;
            time.1 += 1;
        }
        Ok(())
    }

    /// Waits for what still runs and commits it: work that was done is never thrown away.
    fn commit_rest(
        &self,
        wave: &mut Wave,
        board: &Board,
        receive: &Receiver<Ended>,
    ) -> Result<(), DriveError> {
        while board.running() > 0 {
            if let Ok(ended) = receive.recv_timeout(Duration::from_millis(200)) {
                self.take(ended, wave, board);
            }
        }
        while let Ok(ended) = receive.try_recv() {
            self.take(ended, wave, board);
        }
        self.commit(wave)
    }

    fn work(&self, board: &Board, send: &Sender<Ended>) {
        while let Some(ticket) = board.next() {
            let started = Instant::now();
            let job = ticket.job.clone();
            let spent = Spent::default();
            let run = || self.run(&job, &spent);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
                .unwrap_or_else(|panic| {
                    let text = panic
                        .downcast_ref::<String>()
                        .cloned()
                        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                        .unwrap_or_default();
                    Err(Failure::Fatal {
                        what: format!("running {job:?} failed inside everbench: {text}"),
                        help: "this is a fault in everbench; please report it with this text"
                            .into(),
                    })
                });
            // The result is sent before the ticket is given back, so that an idle board means
            // that every result is in the channel.
            let _ = send.send(Ended {
                job,
                result,
                wall: started.elapsed(),
                cpu: spent.total(),
            });
            board.release(&ticket);
        }
    }

    pub(super) fn run(&self, job: &Job, spent: &Spent) -> Result<Output, Failure> {
        let kind = job.kind().name;
        let entry = self.registry.get(kind).ok_or_else(|| Failure::Fatal {
            what: DriveError::UnknownKind(kind).to_string(),
            help: "this is a fault in everbench; please report it".into(),
        })?;
        let facts = self.ledger.facts().map_err(Failure::Transient)?;
        let blob = |digest: Digest| -> Result<Arc<[u8]>, Failure> {
            if let Some((_, bytes)) = job.preimages().iter().find(|(d, _)| *d == digest) {
                return Ok(bytes.clone());
            }
            match facts.blob(&digest) {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => Err(Failure::Transient(format!(
                    "blob {digest} is not in the store"
                ))),
                Err(e) => Err(Failure::Transient(e.to_string())),
            }
        };
        let output = |job: &Job| {
            facts
                .output(&job.key())
                .map_err(|e| Failure::Transient(e.to_string()))
        };
        entry.executor.run(
            job,
            &Context {
                blob: &blob,
                output: &output,
                cancel: &self.cancel,
                spent,
            },
        )
    }
}

struct Ended {
    job: Job,
    result: Result<Output, Failure>,
    wall: Duration,
    cpu: Duration,
}

/// What the steering thread remembers between two evaluations.
#[derive(Default)]
struct Wave {
    /// Every job ever queued in this drive, with the number of its tries.
    known: HashMap<Key, u32>,
    done: Vec<Done>,
    oldest: Option<Instant>,
    arrived: Vec<(Key, Digest)>,
    failures: Vec<(Job, Failure)>,
    executed: Tally,
    executed_keys: BTreeSet<Key>,
    time: BTreeMap<&'static str, (f64, u64)>,
    retries: u64,
    hits: u64,
    shown: Option<Instant>,
}

impl Wave {
    fn progress(&self, board: &Board) -> Progress {
        let (queued, running) = board.tallies();
        let mut executed = self.executed.clone();
        for done in &self.done {
            *executed.entry(done.job.kind().name).or_default() += 1;
        }
        Progress {
            executed,
            queued,
            running,
            hits: self.hits,
            retries: self.retries,
            seconds: self
                .time
                .iter()
                .map(|(kind, (sum, n))| (*kind, sum / *n as f64))
                .collect(),
        }
    }
}

struct Ticket {
    urgency: i32,
    job: Job,
    cores: usize,
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Ticket {}
impl PartialOrd for Ticket {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ticket {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.urgency
            .cmp(&other.urgency)
            .then_with(|| other.job.cmp(&self.job))
    }
}

/// The queue, and how many cores are free.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
    cores: usize,
}

struct State {
    queue: BinaryHeap<Ticket>,
    free: usize,
    queued: Tally,
    running: Tally,
    closed: bool,
}

impl Board {
    fn new(cores: usize) -> Self {
        let state = State {
            queue: BinaryHeap::new(),
            free: cores,
            queued: Tally::new(),
            running: Tally::new(),
            closed: false,
        };
        Board {
            state: Mutex::new(state),
            changed: Condvar::new(),
            cores,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds the board")
    }

    fn push(&self, job: Job, urgency: i32, cores: usize) {
        let mut state = self.lock();
        *state.queued.entry(job.kind().name).or_default() += 1;
        state.queue.push(Ticket {
            urgency,
            job,
            cores,
        });
        drop(state);
        self.changed.notify_all();
    }

    /// Takes out of the queue what is not wanted; the keys of what went.
    fn forget(&self, wanted: &HashSet<Key>) -> Vec<Key> {
        let mut state = self.lock();
        let queue = std::mem::take(&mut state.queue).into_vec();
        let (kept, gone): (Vec<Ticket>, Vec<Ticket>) = queue
            .into_iter()
            .partition(|ticket| wanted.contains(&ticket.job.key()));
        state.queue = kept.into();
        for ticket in &gone {
            let queued = state.queued.get_mut(ticket.job.kind().name);
            *queued.expect("it was queued") -= 1;
        }
        gone.iter().map(|ticket| ticket.job.key()).collect()
    }

    /// Waits for the most urgent job and for as many free cores as it needs.
    fn next(&self) -> Option<Ticket> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            // A large job at the head waits for its cores; nothing overtakes it, or it would starve.
            if state.queue.peek().is_some_and(|t| t.cores <= state.free) {
                let ticket = state.queue.pop().expect("it was just seen");
                state.free -= ticket.cores;
                *state
                    .queued
                    .get_mut(ticket.job.kind().name)
                    .expect("it was queued") -= 1;
                *state.running.entry(ticket.job.kind().name).or_default() += 1;
                return Some(ticket);
            }
            state = self
                .changed
                .wait(state)
                .expect("nothing panics while it holds the board");
        }
    }

    fn release(&self, ticket: &Ticket) {
        let mut state = self.lock();
        state.free += ticket.cores;
        *state
            .running
            .get_mut(ticket.job.kind().name)
            .expect("it was running") -= 1;
        drop(state);
        self.changed.notify_all();
    }

    fn running(&self) -> usize {
        self.cores - self.lock().free
    }

    fn idle(&self) -> bool {
        let state = self.lock();
        state.queue.is_empty() && state.free == self.cores
    }

    /// True when workers have less than one job each to go on with.
    fn hungry(&self) -> bool {
        self.lock().queue.len() < self.cores
    }

    fn tallies(&self) -> (Tally, Tally) {
        let state = self.lock();
        (state.queued.clone(), state.running.clone())
    }

    fn drop_queue(&self) {
        let mut state = self.lock();
        state.queue.clear();
        state.queued.clear();
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queue.clear();
        state.queued.clear();
        drop(state);
        self.changed.notify_all();
    }
}

struct CloseOnDrop<'a>(&'a Board);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
