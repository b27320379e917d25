//! Writes down what jobs gave, on a thread of its own: how long an evaluation takes must not decide
//! when a reply that was paid for becomes durable.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::board::Board;
use super::driver::{Done, Ledger, Tried};
use super::{Failure, Output};
use crate::digest::Digest;
use crate::job::{Job, Key};

/// No output waits longer than this to be committed.
const COMMIT_WITHIN: Duration = Duration::from_millis(500);
const COMMIT_AT: usize = 256;
/// When workers have nothing to do, outputs are committed at once, but replies of services wait
/// this long for others: they come in numbers, and each commit waits for the disk.
const LINGER: Duration = Duration::from_millis(100);
/// How often it is looked whether workers have something to do.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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

#[derive(Default)]
struct Page {
    done: Vec<Done>,
    kept: Vec<Kept>,
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
                self.kept.push(Kept {
                    asked: ended.job,
                    key: job.key(),
                    output: Digest::of(&output.bytes),
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
                    Failure::Fatal { what, .. } | Failure::Money { what, .. } => {
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

    fn is_due(&self, board: &Board) -> bool {
        let Some(waited) = self.oldest.map(|t| t.elapsed()) else {
            return false;
        };
        let patience = match self.kept.last() {
            Some(last) if last.outside => LINGER,
            // Attempts alone are in no hurry.
            None => COMMIT_WITHIN,
            Some(_) => Duration::ZERO,
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
        let mut kept = page.kept;
        let written = ledger.commit(page.done).and_then(|()| ledger.facts());
        let _ = settled.send(match written {
            Ok(facts) => {
                // What the store holds for a key can differ from what came now: the first one
                // stands.
                for one in &mut kept {
                    if let Ok(Some(first)) = facts.output(&one.key) {
                        one.output = first;
                    }
                }
                Settled::Kept(kept)
            }
            Err(e) => Settled::Lost(e),
        });
        for one in later {
            let _ = settled.send(one);
        }
    }
}
