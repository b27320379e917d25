//! Observations: what the machine is like, as far as results depend on it. A job of nature
//! [`Observed`](crate::job::Nature::Observed) is run before anything else that an evaluation lacks,
//! once per process; its output is no fact of the store, since the next process must look again.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use super::{DriveError, Driver, EngineDb, Failure, Hold, Output, Spent};
use crate::digest::Digest;
use crate::job::{Job, Key, Nature};

impl Driver<'_> {
    /// Evaluates `root` and makes the observations it lacks, until it lacks none that can be made.
    /// Runs no other job: what the hold then names is exactly what a run would start with.
    /// Observations in `failures` are not tried again; those that fail now are added.
    ///
    /// # Errors
    /// [`DriveError::Store`]: what was seen could not be noted.
    pub fn look<T>(
        &self,
        db: &mut EngineDb,
        failures: &mut Vec<(Job, Failure)>,
        root: &mut dyn FnMut(&EngineDb) -> (T, Hold),
    ) -> Result<(T, Hold), DriveError> {
        loop {
            let (value, hold) = root(db);
            let mut seen: Vec<(Job, Output)> = Vec::new();
            for job in hold.jobs().iter().filter(|job| is_observation(job)) {
                if failures.iter().any(|(failed, _)| failed == job) {
                    continue;
                }
                match self.run(job, &Spent::default()) {
                    Ok(output) => seen.push((job.clone(), output)),
                    Err(failure) => failures.push((job.clone(), failure)),
                }
            }
            if seen.is_empty() {
                return Ok((value, hold));
            }
            let outputs: Vec<(Key, Digest)> = seen
                .iter()
                .map(|(job, output)| (job.key(), Digest::of(&output.bytes)))
                .collect();
            self.ledger.note(seen).map_err(DriveError::Store)?;
            db.arrive(&outputs, self.ledger.facts().map_err(DriveError::Store)?);
        }
    }
}

/// Whether a job is to be run by [`Driver::look`] and by nothing else.
pub(super) fn is_observation(job: &Job) -> bool {
    job.kind().nature == Nature::Observed
}
