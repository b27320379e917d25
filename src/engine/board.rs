//! The queue of the worker threads, and how many cores are free.

use std::collections::{BinaryHeap, HashSet};
use std::sync::{Condvar, Mutex};

use super::driver::Tally;
use crate::job::{Job, Key};

/// A job with what a worker must know of it.
pub(super) struct Ticket {
    urgency: i32,
    /// The job.
    pub(super) job: Job,
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

/// The queue.
pub(super) struct Board {
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
    pub(super) fn new(cores: usize) -> Self {
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

    pub(super) fn push(&self, job: Job, urgency: i32, cores: usize) {
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
    pub(super) fn forget(&self, wanted: &HashSet<Key>) -> Vec<Key> {
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
    pub(super) fn next(&self) -> Option<Ticket> {
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

    pub(super) fn release(&self, ticket: &Ticket) {
        let mut state = self.lock();
        state.free += ticket.cores;
        *state
            .running
            .get_mut(ticket.job.kind().name)
            .expect("it was running") -= 1;
        drop(state);
        self.changed.notify_all();
    }

    /// True when no worker has anything to do.
    pub(super) fn idle(&self) -> bool {
        let state = self.lock();
        state.queue.is_empty() && state.free == self.cores
    }

    /// True when workers have less than one job each to go on with.
    pub(super) fn hungry(&self) -> bool {
        self.lock().queue.len() < self.cores
    }

    /// What waits and what runs, by kind.
    pub(super) fn tallies(&self) -> (Tally, Tally) {
        let state = self.lock();
        (state.queued.clone(), state.running.clone())
    }

    /// Empties the queue; how many jobs were in it.
    pub(super) fn drop_queue(&self) -> usize {
        let mut state = self.lock();
        let dropped = state.queue.len();
        state.queue.clear();
        state.queued.clear();
        dropped
    }

    /// Empties the queue and sends the workers home.
    pub(super) fn close(&self) -> usize {
        let dropped = self.drop_queue();
        self.lock().closed = true;
        self.changed.notify_all();
        dropped
    }
}
