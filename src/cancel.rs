//! The wish to stop, shared between threads: first gently, then at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A clonable flag with two levels. *Stop*: nothing new is started, what runs may end.
/// *Kill*: what runs is ended too.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicU8>);

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Cancel::default()
    }

    /// Asks to start nothing new.
    pub fn stop(&self) {
        self.0.fetch_max(1, Ordering::SeqCst);
    }

    /// Asks to end what runs.
    pub fn kill(&self) {
        self.0.fetch_max(2, Ordering::SeqCst);
    }

    /// Stops at the first call and kills at the second: what a signal handler does.
    pub fn escalate(&self) {
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |level| {
                Some((level + 1).min(2))
            });
    }

    /// True once either was asked for.
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= 1
    }

    /// True once what runs is to end.
    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::SeqCst) >= 2
    }
}
