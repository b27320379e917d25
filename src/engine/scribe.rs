//! Writes down what jobs gave, on a thread of its own: how long an evaluation takes must not decide
//! when a reply that was paid for becomes durable.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use super::board::Board;
use super::db::Facts;
use super::driver::{Done, Ledger, Tried};
use super::{Failure, Output};
use crate::digest::Digest;
use crate::job::{Job, Key};

/// No output waits longer than this to be committed.
const COMMIT_WITHIN: Duration = Duration::from_millis(500);
const COMMIT_AT: usize = 512;
/// When workers have nothing to do, outputs are committed at once, but replies of services wait
/// this long for others: they come in numbers, and each commit waits for the disk.
const LINGER: Duration = Duration::from_millis(100);
/// How often it is looked whether workers have something to do.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Replies of services come by the thousand: to be woken for each would cost more than to write it.
const GATHER: Duration = Duration::from_millis(5);

/// What is said to the scribe.
pub(super) enum Told {
    /// A run ended.
    Ended(Ended),
    /// A run gave nothing and may be tried again by whoever runs it.
    Attempt {
        job: Job,
        transient: bool,
        why: String,
    },
    /// The drive is over.
    Close,
}

/// How a run ended.
pub(super) struct Ended {
    pub(super) job: Job,
    /// The job whose output it is, if that is another one.
    pub(super) becomes: Option<Job>,
    pub(super) result: Result<Output, Failure>,
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    /// True if a service ran it.
    pub(super) outside: bool,
}

/// What the scribe says to the driver.
pub(super) enum Settled {
    /// These are in the store.
    Kept(Vec<Kept>),
    /// A run gave nothing.
    Failed {
        job: Job,
        failure: Failure,
        outside: bool,
    },
    /// An attempt failed, and a service tries again.
    Tried,
    /// The store takes nothing more.
    Lost(String),
}

/// A job whose output is in the store.
pub(super) struct Kept {
    /// The job that was run.
    pub(super) asked: Job,
    /// The key under which the output is.
    pub(super) key: Key,
    /// What the store has under it.
    pub(super) output: Digest,
    pub(super) seconds: f64,
    pub(super) outside: bool,
}

/// A job whose output is on the page.
struct Awaited {
    asked: Job,
    key: Key,
    seconds: f64,
    outside: bool,
}

#[derive(Default)]
struct Page {
    done: Vec<Done>,
    kept: Vec<Awaited>,
    tried: Vec<Tried>,
    /// To be said when this page is written: what a service gives back because of an output that
    /// it gave before must not be wanted again before that output is known.
    later: Vec<Settled>,
    oldest: Option<Instant>,
}

/// Writes until it is told to close.
pub(super) fn write(
    ledger: &dyn Ledger,
    board: &Board,
    told: &Receiver<Told>,
    settled: &Sender<Settled>,
) {
    let mut page = Page::default();
    loop {
        let message = match page.oldest {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) if page.lingers() => {
                std::thread::sleep(GATHER);
                told.try_recv().map_err(|e| match e {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            }
            Some(_) => told.recv_timeout(LOOK_EVERY),
        };
        let mut open = match message {
            Ok(message) => page.add(ledger, settled, message),
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        };
        while open && page.done.len() < COMMIT_AT {
            match told.try_recv() {
                Ok(message) => open = page.add(ledger, settled, message),
                Err(_) => break,
            }
        }
        if !open || page.is_due(board) {
            page.turn(ledger, settled);
        }
        if !open {
            return;
        }
    }
}

impl Page {
    /// Takes a message in; false if it is the last.
    fn add(&mut self, ledger: &dyn Ledger, settled: &Sender<Settled>, message: Told) -> bool {
        let ended = match message {
            Told::Close => return false,
            Told::Attempt {
                job,
                transient,
                why,
            } => {
                self.note(job, transient, why);
                let _ = settled.send(Settled::Tried);
                return true;
            }
            Told::Ended(ended) => ended,
        };
        let outside = ended.outside;
        match ended.result {
            Ok(output) => {
                self.oldest.get_or_insert_with(Instant::now);
                let job = ended.becomes.unwrap_or_else(|| ended.job.clone());
                self.kept.push(Awaited {
                    asked: ended.job,
                    key: job.key(),
                    seconds: ended.wall.as_secs_f64(),
                    outside,
                });
                self.done.push(Done {
                    job,
                    output,
                    wall: ended.wall,
                    cpu: ended.cpu,
                });
            }
            Err(failure) => {
                match &failure {
                    Failure::Cancelled => ledger.cancelled(&ended.job),
                    // A service has said which attempts it made.
                    _ if outside => {}
                    Failure::Transient(why) => self.note(ended.job.clone(), true, why.clone()),
                    Failure::Fatal { what, .. }
                    | Failure::Absent { what, .. }
                    | Failure::Money { what, .. } => {
                        self.note(ended.job.clone(), false, what.clone());
                    }
                }
                let failed = Settled::Failed {
                    job: ended.job,
                    failure,
                    outside,
                };
                if outside && !self.done.is_empty() {
                    self.later.push(failed);
                } else {
                    let _ = settled.send(failed);
                }
            }
        }
        true
    }

    fn note(&mut self, job: Job, transient: bool, why: String) {
        self.oldest.get_or_insert_with(Instant::now);
        self.tried.push(Tried {
            job,
            transient,
            why,
        });
    }

    /// Whether what came last waits for others of its kind.
    fn lingers(&self) -> bool {
        self.kept.last().is_some_and(|last| last.outside)
    }

    fn is_due(&self, board: &Board) -> bool {
        let Some(waited) = self.oldest.map(|t| t.elapsed()) else {
            return false;
        };
        let patience = match self.kept.is_empty() {
            // Attempts alone are in no hurry.
            true => COMMIT_WITHIN,
            false if self.lingers() => LINGER,
            false => Duration::ZERO,
        };
        waited >= COMMIT_WITHIN
            || self.done.len() >= COMMIT_AT
            || (waited >= patience && board.hungry())
    }

    fn turn(&mut self, ledger: &dyn Ledger, settled: &Sender<Settled>) {
        let page = std::mem::take(self);
        if !page.tried.is_empty() {
            ledger.attempts(page.tried);
        }
        if page.done.is_empty() {
            return;
        }
        let later = page.later;
        let written = ledger
            .commit(page.done)
            .and_then(|()| kept(page.kept, &*ledger.facts()?));
        let _ = settled.send(match written {
            Ok(kept) => Settled::Kept(kept),
            Err(e) => Settled::Lost(e),
        });
        for one in later {
            let _ = settled.send(one);
        }
    }
}

/// What the store has now under the keys of a page. It can differ from what came: the first output
/// of a key stands.
fn kept(page: Vec<Awaited>, facts: &dyn Facts) -> Result<Vec<Kept>, String> {
    let known = |one: Awaited| {
        let output = facts.output(&one.key).map_err(|e| e.to_string())?;
        Ok(Kept {
            output: output.ok_or_else(|| format!("{} was written and is not there", one.key))?,
            asked: one.asked,
            key: one.key,
            seconds: one.seconds,
            outside: one.outside,
        })
    };
    page.into_iter().map(known).collect()
}
