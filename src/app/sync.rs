//! Follows upstream: a revision that is a name is looked up again and the lock file set to what it
//! stands for now. Only what moved is changed; what that costs is for a plan to say.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use super::lock::Lock;
use super::{App, AppError, BrokenCommit, Options, ProjectSubject};
use crate::digest::Digest;
use crate::source::{self, Git, SourceError};
use crate::subject::{Source, is_commit};

/// What became of one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Synced {
    /// Its name.
    pub subject: String,
    /// What it follows: a revision of a repository, a directory, an exact version.
    pub follows: String,
    /// Whether there is something new.
    pub moved: Moved,
    /// What is wrong with the commit it is at now, if it was found to be broken.
    pub broken: Option<BrokenCommit>,
    /// What reports call the commit of the last complete evaluation.
    pub last_good: Option<String>,
}

/// Whether a source is another than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The manifest names one commit, version or archive: only another manifest changes it.
    Pinned,
    /// It is what it was: the commit, or a directory's snapshot.
    Same(String),
    /// It is another one: what it was, if it was looked at before, and what it is.
    New(Option<String>, String),
}

impl Moved {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Moved::Pinned => "pinned",
            Moved::Same(_) => "same",
            Moved::New(..) => "new",
        }
    }
}

impl App {
    /// Looks up where the subjects' sources are now; with `set` the lock file follows. A directory
    /// is only compared with what was last run: a run reads it anyway.
    ///
    /// # Errors
    /// No repository, no such revision, no network, an unreadable directory; subjects before the
    /// one at fault have been set.
    pub fn sync(&self, options: &Options, set: bool) -> Result<Vec<Synced>, AppError> {
        let subjects = self.project.chosen(&options.subjects)?;
        let one = |subject: &&ProjectSubject| self.sync_one(subject, set);
        subjects.iter().map(one).collect()
    }

    fn sync_one(&self, subject: &ProjectSubject, set: bool) -> Result<Synced, AppError> {
        let name = subject.manifest.name.clone();
        let (follows, moved) = match &subject.manifest.source {
            Source::Git(git) if !is_commit(&git.revision) => {
                let mut lock = Lock::read(&self.project.dir)?;
                let was = lock.commit(&name, git).map(str::to_string);
                let is = Git::new(&self.private())
                    .resolve(git, &subject.manifest_dir)
                    .map_err(SourceError::from)?;
                let follows = format!("{} of {}", git.revision, git.url);
                match was {
                    Some(was) if was == is => (follows, Moved::Same(is)),
                    was => {
                        if set {
                            lock.set(&name, git, &is)?;
                        }
                        (follows, Moved::New(was, is))
                    }
                }
            }
            Source::Directory(directory) => {
                let path = subject.manifest_dir.join(&directory.path);
                let limits = source::Limits::default();
                let tree = source::read_directory(&path, &directory.ignore, &limits)?;
                let is = tree.snapshot.digest();
                let was = self.surrounding(&name, "snapshot")?;
                let was = was.map(|bytes| Digest::of(&bytes));
                let follows = format!("directory {}", directory.path);
                match was == Some(is) {
                    true => (follows, Moved::Same(is.short())),
                    false => (follows, Moved::New(was.map(|w| w.short()), is.short())),
                }
            }
            source => (source.label(), Moved::Pinned),
        };
        let broken = match &moved {
            Moved::Pinned => None,
            Moved::Same(is) | Moved::New(_, is) => {
                let mut known = self.broken(&name)?.into_iter();
                known.find(|broken| is.starts_with(&broken.commit))
            }
        };
        Ok(Synced {
            last_good: self.last_good(&name)?,
            subject: name,
            follows,
            moved,
            broken,
        })
    }
}
