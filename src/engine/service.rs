//! Jobs that wait for somebody else: requests over a network. Many are under way at once, so they
//! occupy neither worker threads nor cores: a [`Service`] takes an [`Order`] and answers it later,
//! from whatever thread.
//!
//! A service is the only one that tries its jobs again: what it gives up is not tried again by
//! the driver, or attempts would multiply.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::driver::Tally;
use super::scribe::{Ended, Told};
use super::{Failure, Output};
use crate::cancel::Cancel;
use crate::digest::Digest;
use crate::job::{Job, Key};

/// Answers the jobs of one kind, many at a time, without a thread for each. All methods return soon.
pub trait Service: Send + Sync {
    /// Takes a job. It must be answered once, sooner or later, whatever happens.
    fn take(&self, order: Order);

    /// Is told that nothing more will come until it answers: what waits for company may go.
    fn flush(&self) {}

    /// Gives back, as [`Failure::Cancelled`], what nobody can lose by: jobs whose key is not kept
    /// and for which nothing has been sent, or what was sent can be collected another time.
    fn forget(&self, keep: &dyn Fn(&Key) -> bool);

    /// Ends what is under way too; within a second all orders are to be answered, those whose
    /// result has arrived with their result.
    fn abort(&self);

    /// What people should know of how it goes on, such as the money spent.
    fn status(&self) -> Option<String> {
        None
    }
}

/// What is under way outside, by kind.
pub(super) type Begun = Arc<Mutex<Tally>>;

/// A job for a service, to be answered once. One that is dropped unanswered ends as a fault.
pub struct Order {
    job: Job,
    cancel: Cancel,
    tell: Option<Sender<Told>>,
    begun: Begun,
    since: Option<Instant>,
}

impl Order {
    pub(super) fn new(job: Job, cancel: Cancel, tell: Sender<Told>, begun: Begun) -> Order {
        Order {
            job,
            cancel,
            tell: Some(tell),
            begun,
            since: None,
        }
    }

    /// What is asked.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The bytes behind a digest in the job's inputs, if they travel with it.
    pub fn blob(&self, digest: Digest) -> Option<Arc<[u8]>> {
        let mut carried = self.job.preimages().iter();
        carried
            .find(|(known, _)| *known == digest)
            .map(|(_, bytes)| bytes.clone())
    }

    /// True once nothing new is to be begun: what fails now is not worth another attempt.
    pub fn is_stopping(&self) -> bool {
        self.cancel.is_stopping()
    }

    /// Says that the job is under way: it counts as running from here.
    pub fn begin(&mut self) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
            self.count(|n| *n += 1);
        }
    }

    /// Logs an attempt that gave nothing.
    pub fn failed(&self, transient: bool, why: &str) {
        if let Some(tell) = &self.tell {
            let _ = tell.send(Told::Attempt {
                job: self.job.clone(),
                transient,
                why: why.to_string(),
            });
        }
    }

    /// Answers. Failures are not logged as attempts by this: see [`Order::failed`].
    pub fn end(mut self, result: Result<Output, Failure>) {
        self.give(None, result);
    }

    /// Answers with the output of another job, which turned out to be the one that was done: the
    /// output is kept under `job`, and the one that was asked for stays missing.
    pub fn end_as(mut self, job: Job, output: Output) {
        self.give(Some(job), Ok(output));
    }

    fn count(&self, change: impl FnOnce(&mut u64)) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        change(begun.entry(self.job.kind().name).or_default());
    }

    fn give(&mut self, becomes: Option<Job>, result: Result<Output, Failure>) {
        let Some(tell) = self.tell.take() else {
            return;
        };
        if self.since.is_some() {
            self.count(|n| *n = n.saturating_sub(1));
        }
        // A drive that has ended takes nothing more.
        let _ = tell.send(Told::Ended(Ended {
            job: self.job.clone(),
            becomes,
            result,
            wall: self.since.map_or(Duration::ZERO, |since| since.elapsed()),
            cpu: Duration::ZERO,
            outside: true,
        }));
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let what = format!("{:?} was taken and never answered", self.job);
        self.give(
            None,
            Err(Failure::Fatal {
                what,
                help: "this is a fault in everbench; please report it with this text".into(),
            }),
        );
    }
}
