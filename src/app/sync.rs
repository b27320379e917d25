//! Follows upstream: a revision that is a name, or a version that is followed, is looked up again and
//! the lock file set to what it stands for now. Only what moved is changed; what that costs is for a plan
//! to say.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use super::lock::{self, Lock};
use super::sources::followed;
use super::{App, AppError, BrokenCommit, Options, ProjectSubject};
use crate::digest::Digest;
use crate::source::{self, Git, SourceError};
use crate::subject::{GitSource, Pin, Source, is_commit};

/// What became of one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Synced {
    /// Its name.
    pub subject: String,
    /// What it follows: a revision of a repository, a version of a package, a directory; else what it
    /// is pinned to.
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
    /// It is what it was: the commit, the version, or a directory's snapshot.
    Same(String),
    /// It is another one: what it was, if it was looked at before, and what it is.
    New(Option<String>, String),
    /// Nobody could say now: what it was and stays, and why.
    Unknown(String, String),
}

impl Moved {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Moved::Pinned => "pinned",
            Moved::Same(_) => "same",
            Moved::New(..) => "new",
            Moved::Unknown(..) => "unknown",
        }
    }
}

impl App {
    /// Looks up where the subjects' sources are now; with `set` the lock file follows. A directory
    /// is only compared with what was last run: a run reads it anyway. What cannot be asked now stays
    /// what is locked.
    ///
    /// # Errors
    /// No repository or package, no such revision or version, another checksum for the same version,
    /// no network and nothing locked, an unreadable directory; subjects before the one at fault have
    /// been set.
    pub fn sync(&self, options: &Options, set: bool) -> Result<Vec<Synced>, AppError> {
        let subjects = self.project.chosen(&options.subjects)?;
        let one = |subject: &&ProjectSubject| self.sync_one(subject, set);
        subjects.iter().map(one).collect()
    }

    fn sync_one(&self, subject: &ProjectSubject, set: bool) -> Result<Synced, AppError> {
        let name = subject.manifest.name.clone();
        let (follows, moved) = match &subject.manifest.source {
            Source::Git(git) if !is_commit(&git.revision) => (
                format!("{} of {}", git.revision, git.url),
                self.sync_commit(subject, git, set)?,
            ),
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
            source if source.followed().is_some() => {
                (followed(source), self.sync_version(subject, set)?)
            }
            source => (source.label(), Moved::Pinned),
        };
        let broken = match &moved {
            Moved::Pinned => None,
            Moved::Same(is) | Moved::New(_, is) | Moved::Unknown(is, _) => {
                let called = called(&subject.manifest.source, is);
                let mut known = self.broken(&name)?.into_iter();
                known.find(|broken| called.starts_with(&broken.commit))
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

    fn sync_commit(
        &self,
        subject: &ProjectSubject,
        git: &GitSource,
        set: bool,
    ) -> Result<Moved, AppError> {
        let name = &subject.manifest.name;
        let mut lock = Lock::read(&self.project.dir)?;
        let was = lock.commit(name, git).map(str::to_string);
        let is = Git::new(&self.private()).resolve(git, &subject.manifest_dir);
        match (is.map_err(SourceError::from), was) {
            (Ok(is), Some(was)) if was == is => Ok(Moved::Same(is)),
            (Ok(is), was) => {
                if set {
                    lock.set(name, git, &is)?;
                }
                Ok(Moved::New(was, is))
            }
            (Err(e), Some(was)) if e.is_transient() => Ok(Moved::Unknown(was, e.to_string())),
            (Err(e), _) => Err(e.into()),
        }
    }

    fn sync_version(&self, subject: &ProjectSubject, set: bool) -> Result<Moved, AppError> {
        let (name, source) = (&subject.manifest.name, &subject.manifest.source);
        let mut lock = Lock::read(&self.project.dir)?;
        let was = lock.pin(name, source).cloned();
        match (self.newest(subject), was) {
            (Ok(is), Some(was)) if was == is => Ok(Moved::Same(is.version)),
            (Ok(is), Some(was)) if was.version == is.version => Err(AppError::Input(format!(
                "{} of subject {name} was locked with SHA-256 {}, and has SHA-256 {} now: what was \
                 published under one version was exchanged\n  help: if that is as it should be, remove \
                 the subject's entry from {}; results of the old one stay in the store",
                source.at(&is).label(),
                was.checksum,
                is.checksum,
                lock::FILE,
            ))),
            (Ok(is), was) => {
                if set {
                    lock.set_pin(name, source, &is)?;
                }
                Ok(Moved::New(was.map(|w| w.version), is.version))
            }
            (Err(e), Some(was)) if e.is_transient() => {
                Ok(Moved::Unknown(was.version, e.to_string()))
            }
            (Err(e), _) => Err(e.into()),
        }
    }
}

/// What reports call the source where it is now.
fn called(source: &Source, is: &str) -> String {
    let pin = Pin {
        version: is.to_string(),
        checksum: String::new(),
    };
    match source.followed() {
        Some(_) => source.at(&pin).label(),
        None => is.to_string(),
    }
}
