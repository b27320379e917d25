//! What became of the unchanged subject from commit to commit: which commits are broken, and how its
//! tests differ from those of the last complete evaluation.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::board::{Bench, SubjectPlan, World};
use super::{App, AppError};
use crate::digest::Digest;
use crate::engine::Broken;
use crate::oss::artifact;
use crate::oss::upstream::{self, Tested, Upstream};

/// Under which name the unchanged subject's cases are noted.
const BASELINE: &str = "baseline";
/// Under which name the commits are noted that could not be measured.
const BROKEN: &str = "broken";

/// A commit at which the unchanged subject could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BrokenCommit {
    /// What reports call it.
    pub commit: String,
    /// Its tree.
    pub tree: Option<Digest>,
    /// What is wrong.
    pub what: String,
    /// The way out.
    pub help: String,
    /// When it was first found so: seconds since 1970, UTC.
    pub seen: u64,
    /// When it was committed, if the source says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<String>,
}

impl BrokenCommit {
    /// What is wrong, in one line.
    pub fn reason(&self) -> &str {
        first_line(&self.what)
    }
}

/// What is said of a commit in one line.
pub(super) fn first_line(what: &str) -> &str {
    what.lines().next().unwrap_or_default()
}

impl App {
    /// The commits of a subject that could not be measured, the oldest first.
    ///
    /// # Errors
    /// Those of the store.
    pub fn broken(&self, subject: &str) -> Result<Vec<BrokenCommit>, AppError> {
        let bytes = self.surrounding(subject, BROKEN)?;
        let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(read.unwrap_or_default())
    }

    /// What reports call the commit of a subject's last complete evaluation.
    ///
    /// # Errors
    /// Those of the store.
    pub fn last_good(&self, subject: &str) -> Result<Option<String>, AppError> {
        let bytes = self.surrounding(subject, BASELINE)?;
        let noted = bytes.and_then(|bytes| serde_json::from_slice::<Tested>(&bytes).ok());
        Ok(noted.map(|noted| noted.commit))
    }

    /// Notes whether a subject is broken at its commit. A commit that is broken no more, under
    /// another manifest or on another machine, is taken off the list.
    pub(super) fn remember_broken(
        &self,
        subject: &SubjectPlan,
        broken: Option<&Broken>,
    ) -> Result<(), AppError> {
        let (name, commit) = (&subject.manifest.name, subject.commit());
        let tree = self.tree(&subject.manifest, subject.origin)?;
        let mut all = self.broken(name)?;
        let known = all.iter().position(|b| b.commit == commit);
        match (known, broken) {
            (None, None) => return Ok(()),
            (Some(at), None) => drop(all.remove(at)),
            (known, Some(broken)) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let new = BrokenCommit {
                    commit,
                    tree,
                    what: broken.what.clone(),
                    help: broken.help.clone(),
                    seen: known.map_or(now.map_or(0, |d| d.as_secs()), |at| all[at].seen),
                    committed: self.committed(subject),
                };
                match known {
                    Some(at) => all[at] = new,
                    None => all.push(new),
                }
            }
        }
        self.note(name, BROKEN, &artifact::write(&all))
    }

    /// How a subject's tests differ from those of the last complete evaluation of another tree;
    /// nothing without one, or before they are known.
    pub(super) fn upstream(
        &self,
        world: &World,
        bench: Bench,
        commit: &str,
    ) -> Result<Option<Upstream>, AppError> {
        let Bench { settings, subject } = bench;
        let Ok(now) = upstream::tested(&world.db, settings, subject, commit) else {
            return Ok(None);
        };
        let name = &subject.manifest(&world.db).name;
        let then = self.noted_elsewhere(name, BASELINE, now.tree)?;
        let then = then.and_then(|bytes| serde_json::from_slice::<Tested>(&bytes).ok());
        Ok(then.and_then(|then| upstream::compare(&then, &now)))
    }

    /// Notes the unchanged subject's cases of a complete evaluation.
    pub(super) fn remember_tested(
        &self,
        world: &World,
        bench: Bench,
        commit: &str,
    ) -> Result<(), AppError> {
        let Bench { settings, subject } = bench;
        let Ok(now) = upstream::tested(&world.db, settings, subject, commit) else {
            return Ok(());
        };
        let name = &subject.manifest(&world.db).name;
        self.note_of_tree(name, BASELINE, now.tree, &artifact::write(&now))
    }
}
