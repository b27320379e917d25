//! Runs what the queries lack: evaluates and observes, takes the missing jobs out of the hold, runs
//! them on worker threads of its own or hands them to services, commits their outputs, makes them
//! known to the database and evaluates again, until nothing is missing or nothing more can be done.
//!
//! A job is never lost: it stays in the hold until its output is in the store. A failure is never
//! a value: it is logged as an attempt, and the job stays missing.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::board::Board;
use super::observe::is_observation;
use super::registry::Runs;
use super::scribe::{self, Ended, Kept, Settled, Told};
use super::service::{Begun, Order, Service};
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

/// A run that gave nothing.
pub struct Tried {
    /// The job.
    pub job: Job,
    /// True if trying again can help.
    pub transient: bool,
    /// Why.
    pub why: String,
}

/// Where outputs are kept. The store implements it; tests have one in memory.
pub trait Ledger: Send + Sync {
    /// Makes outputs durable, all or none. Another output for a known key does not replace it.
    fn commit(&self, done: Vec<Done>) -> Result<(), String>;
    /// Notes what observations gave, for processes that cannot look themselves. It is no fact: the
    /// next observation of the same things takes its place.
    fn note(&self, seen: Vec<(Job, Output)>) -> Result<(), String>;
    /// Logs runs that gave nothing.
    fn attempts(&self, tried: Vec<Tried>);
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
    /// Jobs known to be missing that wait for a worker or a service, by kind.
    pub queued: Tally,
    /// Jobs being run, by kind.
    pub running: Tally,
    /// Facts and rows found in the store.
    pub hits: u64,
    /// Runs that gave nothing and will be tried again.
    pub retries: u64,
    /// Mean seconds a job took, by kind.
    pub seconds: BTreeMap<&'static str, f64>,
    /// Kinds that occupy no core: how long they take depends on others.
    pub outside: BTreeSet<&'static str>,
    /// What the services say of themselves.
    pub services: Vec<String>,
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
/// How often progress is told.
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// How long a service has to answer when everything is to end.
const ABORT_WITHIN: Duration = Duration::from_millis(900);

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
        root: impl FnMut(&EngineDb) -> (T, Hold),
    ) -> Result<Driven<T>, DriveError> {
        self.drive_adjusting(db, observer, &mut |_| {}, root)
    }

    /// The same, where before each evaluation `adjust` may set inputs: what services have found
    /// out can change what is asked.
    pub fn drive_adjusting<T>(
        &self,
        db: &mut EngineDb,
        observer: &mut dyn Observer,
        adjust: &mut dyn FnMut(&mut EngineDb),
        mut root: impl FnMut(&EngineDb) -> (T, Hold),
    ) -> Result<Driven<T>, DriveError> {
        let board = Board::new(self.cores);
        let (tell, told) = channel();
        let (settle, settled) = channel();
        std::thread::scope(|scope| {
            let desk = Desk {
                driver: self,
                board: &board,
                tell: tell.clone(),
                settled,
            };
            // Whatever ends this scope, workers and scribe must be told, or it waits for ever.
            let _close = CloseOnDrop(&desk);
            let (ledger, board) = (self.ledger, &board);
            scope.spawn(move || scribe::write(ledger, board, &told, &settle));
            for _ in 0..self.cores {
                let tell = tell.clone();
                scope.spawn(move || self.work(board, &tell));
            }
            desk.steer(db, observer, adjust, &mut root)
        })
    }

    fn work(&self, board: &Board, tell: &Sender<Told>) {
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
            let _ = tell.send(Told::Ended(Ended {
                job,
                becomes: None,
                result,
                wall: started.elapsed(),
                cpu: spent.total(),
                outside: false,
            }));
            board.release(&ticket);
        }
    }

    pub(super) fn run(&self, job: &Job, spent: &Spent) -> Result<Output, Failure> {
        let kind = job.kind().name;
        let entry = self.registry.get(kind).ok_or_else(|| Failure::Fatal {
            what: DriveError::UnknownKind(kind).to_string(),
            help: "this is a fault in everbench; please report it".into(),
        })?;
        let Runs::Here(executor) = &entry.runs else {
            return Err(Failure::Fatal {
                what: format!("kind `{kind}` is answered by a service, not by a worker"),
                help: "this is a fault in everbench; please report it".into(),
            });
        };
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
        executor.run(
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

/// Where the driver's thread sits while a drive lasts.
struct Desk<'a> {
    driver: &'a Driver<'a>,
    board: &'a Board,
    tell: Sender<Told>,
    settled: Receiver<Settled>,
}

impl Desk<'_> {
    fn steer<T>(
        &self,
        db: &mut EngineDb,
        observer: &mut dyn Observer,
        adjust: &mut dyn FnMut(&mut EngineDb),
        root: &mut dyn FnMut(&EngineDb) -> (T, Hold),
    ) -> Result<Driven<T>, DriveError> {
        let (driver, board) = (self.driver, self.board);
        let mut wave = Wave::default();
        loop {
            adjust(db);
            wave.stale = false;
            let started = Instant::now();
            let (value, hold) = driver.look(db, &mut wave.failures, root)?;
            let cost = started.elapsed();
            wave.hits = db.hits();
            driver.ledger.remember(db.take_rows());
            if !hold.corrupt_blobs().is_empty() {
                wave.open -= board.close();
                self.forget(&|_| false);
                while wave.open > 0 {
                    if driver.cancel.is_killed() {
                        self.abort(&mut wave);
                    }
                    self.receive(&mut wave)?;
                }
                return Err(DriveError::Corrupt(hold.corrupt_blobs().to_vec()));
            }
            // A fault ends the command whatever else is run: what runs may end, nothing new starts.
            let faulty = !hold.faults().is_empty();
            // What was wanted for a part that is set aside now is wanted no more.
            if !hold.aside().is_empty() {
                let wanted = hold.jobs().iter().map(Job::key).collect();
                for key in board.forget(&wanted) {
                    wave.known.remove(&key);
                    wave.open -= 1;
                }
                self.forget(&|key| wanted.contains(key));
            }
            let lacking = hold.jobs().iter().filter(|job| !is_observation(job));
            for job in lacking.filter(|_| !faulty) {
                if !wave.known.contains_key(&job.key()) && !driver.cancel.is_stopping() {
                    self.queue(job.clone(), &mut wave)?;
                }
            }
            let evaluated = Instant::now();
            let mut flushed = false;
            loop {
                while let Ok(settled) = self.settled.try_recv() {
                    self.take(settled, &mut wave)?;
                }
                if wave.open == 0 && wave.arrived.is_empty() && !wave.stale {
                    observer.progress(&self.progress(&wave));
                    return Ok(Driven {
                        value,
                        hold,
                        failures: wave.failures,
                        executed: wave.executed,
                        executed_keys: wave.executed_keys,
                        stopped: driver.cancel.is_stopping(),
                    });
                }
                if faulty || driver.cancel.is_stopping() {
                    wave.open -= board.drop_queue();
                    self.forget(&|_| false);
                }
                if driver.cancel.is_killed() {
                    self.abort(&mut wave);
                }
                let changed = !wave.arrived.is_empty() || wave.stale;
                if !changed && !flushed && board.idle() {
                    flushed = true;
                    self.services().for_each(|service| service.flush());
                }
                if wave.shown.is_none_or(|t| t.elapsed() >= SHOW_EVERY) {
                    wave.shown = Some(Instant::now());
                    observer.progress(&self.progress(&wave));
                }
                let passed = evaluated.elapsed();
                let cheap = cost * 20 < passed;
                // Workers without work are worth an evaluation, but while replies stream in, a
                // core must not do nothing else.
                let outside: usize = wave.outside.values().sum();
                let hungry = board.hungry() && (outside == 0 || cost * 16 < passed);
                if changed && (hungry || cheap) {
                    break;
                }
                if wave.open > 0 {
                    self.receive(&mut wave)?;
                }
            }
            let facts = driver.ledger.facts().map_err(DriveError::Store)?;
            db.arrive(&std::mem::take(&mut wave.arrived), facts);
        }
    }

    /// Hands a job to whoever runs its kind.
    fn queue(&self, job: Job, wave: &mut Wave) -> Result<(), DriveError> {
        let kind = job.kind().name;
        let registry = self.driver.registry;
        let entry = registry.get(kind).ok_or(DriveError::UnknownKind(kind))?;
        wave.known.entry(job.key()).or_insert(1);
        wave.open += 1;
        match &entry.runs {
            Runs::Here(executor) => {
                let cores = executor.cores().min(self.driver.cores);
                self.board.push(job, entry.urgency, cores);
            }
            Runs::Outside(service) => {
                *wave.outside.entry(kind).or_default() += 1;
                let cancel = self.driver.cancel.clone();
                let begun = wave.begun.clone();
                service.take(Order::new(job, cancel, self.tell.clone(), begun));
            }
        }
        Ok(())
    }

    /// Waits a moment for news.
    fn receive(&self, wave: &mut Wave) -> Result<(), DriveError> {
        match self.settled.recv_timeout(SHOW_EVERY) {
            Ok(settled) => self.take(settled, wave),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(DriveError::Store(
                "the thread that writes to the store has ended; this is a fault in everbench"
                    .into(),
            )),
        }
    }

    fn take(&self, settled: Settled, wave: &mut Wave) -> Result<(), DriveError> {
        let stopping = self.driver.cancel.is_stopping();
        match settled {
            Settled::Lost(why) => return Err(DriveError::Store(why)),
            Settled::Tried => wave.retries += 1,
            Settled::Kept(all) => {
                for kept in all {
                    wave.close(&kept.asked, kept.outside);
                    wave.keep(kept);
                }
            }
            Settled::Failed {
                job,
                failure,
                outside,
            } => {
                wave.close(&job, outside);
                match failure {
                    // What a service gives back may be wanted again.
                    Failure::Cancelled if outside => {
                        wave.known.remove(&job.key());
                        wave.stale |= !stopping;
                    }
                    Failure::Cancelled => {}
                    Failure::Transient(why) => {
                        let tries = wave.known.entry(job.key()).or_insert(1);
                        if *tries < TRIES && !stopping && !outside {
                            *tries += 1;
                            wave.retries += 1;
                            self.queue(job, wave)?;
                        } else {
                            wave.failures.push((job, Failure::Transient(why)));
                        }
                    }
                    failure => wave.failures.push((job, failure)),
                }
            }
        }
        Ok(())
    }

    fn services(&self) -> impl Iterator<Item = &Arc<dyn Service>> {
        self.driver.registry.iter().filter_map(|r| match &r.runs {
            Runs::Outside(service) => Some(service),
            Runs::Here(_) => None,
        })
    }

    fn forget(&self, keep: &dyn Fn(&Key) -> bool) {
        self.services().for_each(|service| service.forget(keep));
    }

    /// Ends what the services do, and waits for them no longer than people like to wait.
    fn abort(&self, wave: &mut Wave) {
        match wave.aborted {
            None => {
                wave.aborted = Some(Instant::now());
                self.services().for_each(|service| service.abort());
            }
            Some(at) if at.elapsed() >= ABORT_WITHIN => {
                let left: usize = wave.outside.values().sum();
                wave.open -= left;
                wave.outside.clear();
            }
            Some(_) => {}
        }
    }

    fn progress(&self, wave: &Wave) -> Progress {
        let (mut queued, mut running) = self.board.tallies();
        // Services answer orders while they hold locks of their own: none is held here when they
        // are asked for their status.
        let begun = wave
            .begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (kind, n) in &wave.outside {
            let under_way = begun.get(kind).copied().unwrap_or(0).min(*n as u64);
            *running.entry(kind).or_default() += under_way;
            *queued.entry(kind).or_default() += *n as u64 - under_way;
        }
        let outside = self.driver.registry.iter();
        Progress {
            executed: wave.executed.clone(),
            queued,
            running,
            hits: wave.hits,
            retries: wave.retries,
            seconds: wave
                .time
                .iter()
                .map(|(kind, (sum, n))| (*kind, sum / *n as f64))
                .collect(),
            outside: outside
                .filter(|r| matches!(r.runs, Runs::Outside(_)))
                .map(|r| r.kind.name)
                .collect(),
            services: self.services().filter_map(|s| s.status()).collect(),
        }
    }
}

/// What the steering thread remembers between two evaluations.
#[derive(Default)]
struct Wave {
    /// Every job ever queued in this drive, with the number of its tries.
    known: HashMap<Key, u32>,
    /// How many jobs are queued or run, whose end was not heard of.
    open: usize,
    /// Those of them that services have, by kind.
    outside: BTreeMap<&'static str, usize>,
    /// Those of these that are under way.
    begun: Begun,
    /// True if something was given back that may be wanted again.
    stale: bool,
    aborted: Option<Instant>,
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
    /// A job has ended, one way or another.
    fn close(&mut self, job: &Job, outside: bool) {
        if outside {
            // After an abort nothing is waited for, and what still comes is counted no more.
            let Some(n) = self.outside.get_mut(job.kind().name).filter(|n| **n > 0) else {
                return;
            };
            *n -= 1;
        }
        self.open -= 1;
    }

    fn keep(&mut self, kept: Kept) {
        let kind = kept.asked.kind().name;
        if kept.asked.key() != kept.key {
            self.known.remove(&kept.asked.key());
        }
        self.arrived.push((kept.key, kept.output));
        *self.executed.entry(kind).or_default() += 1;
        self.executed_keys.insert(kept.key);
        let time = self.time.entry(kind).or_default();
        time.0 += kept.seconds;
        time.1 += 1;
    }
}

struct CloseOnDrop<'a>(&'a Desk<'a>);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let desk = self.0;
        desk.board.close();
        desk.forget(&|_| false);
        if std::thread::panicking() || desk.driver.cancel.is_killed() {
            desk.services().for_each(|service| service.abort());
        }
        let _ = desk.tell.send(Told::Close);
    }
}
