//! A subject's source tree, as it will be built, in a folder: for whoever writes a manifest, or wants
//! to look at what functions are drawn from.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::Path;

use super::drive::Ready;
use super::{App, AppError, Options};
use crate::cancel::Cancel;
use crate::engine::{Hold, Observer};
use crate::oss::population;
use crate::source::{self, Snapshot};

/// What was written.
pub struct Fetched {
    /// Which source it was.
    pub commit: String,
    /// Its digest.
    pub snapshot: String,
    /// How many files it has.
    pub files: usize,
}

impl App {
    /// Fetches the source of the project's only subject and writes it to `to`, which must be empty or
    /// not there.
    ///
    /// # Errors
    /// [`AppError::Input`] if something is in the way; those of fetching.
    pub fn fetch(
        &self,
        options: &Options,
        to: &Path,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Fetched, AppError> {
        let entries = match std::fs::read_dir(to) {
            Ok(entries) => entries.count(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 0,
            Err(e) => return Err(AppError::Input(format!("{}: {e}", to.display()))),
        };
        if entries > 0 {
            return Err(AppError::Input(format!(
                "{} is not empty\n  help: name a folder that is not there yet",
                to.display()
            )));
        }
        let tools = self.tools(options)?;
        let plan = self.plan(options, &[], Some(&tools))?;
        let ready = Ready {
            plan: &plan,
            tools,
            answering: &[],
            options,
        };
        let found = self.driven(ready, cancel, observer, "fetching", |world| {
            let subject = world.benches[0].subject;
            move |db| match population::snapshot(db, subject) {
                Ok(found) => (Some(found), Hold::default()),
                Err(hold) => (None, hold),
            }
        })?;
        let (digest, snapshot) = found.expect("nothing is missing of it");
        let reader = self.store.reader()?;
        let snapshot: &Snapshot = &snapshot;
        let blob = |digest: &_| reader.blob(digest).ok().flatten();
        source::write_tree(snapshot, blob, to)
            .map_err(|e| AppError::Environment(format!("{}: {e}", to.display())))?;
        Ok(Fetched {
            commit: plan.subjects[0].commit(),
            snapshot: digest.short(),
            files: snapshot.files.len(),
        })
    }
}
