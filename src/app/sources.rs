//! From what a manifest says of its source to what an evaluation starts from: a directory is read
//! into the store, a revision or a version that is followed is looked up and locked, everything else is
//! left to a job.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::PathBuf;
use std::sync::Arc;

use super::board::Plan;
use super::error::nothing_stored;
use super::lock::{self, Lock};
use super::{App, AppError, ProjectSubject, TOOL};
use crate::digest::Digest;
use crate::exec::fetch::Sources;
use crate::job::Job;
use crate::oss::inputs::Origin;
use crate::oss::{artifact, jobs};
use crate::source::{self, Git, SourceError};
use crate::store::{Completed, Provenance};
use crate::subject::{GitSource, Manifest, Pin, Source, is_commit};

impl App {
    /// The subject's manifest with a source that identifies its content, and where that is. Unless
    /// `running` nothing is looked at but the store and the lock file.
    pub(super) fn origin(
        &self,
        subject: &ProjectSubject,
        running: bool,
    ) -> Result<(Arc<Manifest>, Origin), AppError> {
        let manifest = subject.manifest.clone();
        match &manifest.source {
            Source::Directory(directory) if running => {
                let path = subject.manifest_dir.join(&directory.path);
                let limits = source::Limits::default();
                let tree = source::read_directory(&path, &directory.ignore, &limits)?;
                let digest = self.adopt_tree(&tree)?;
                Ok((manifest, Origin::Snapshot(digest)))
            }
            Source::Directory(_) => match self.surrounding(&manifest.name, "snapshot")? {
                Some(bytes) => Ok((manifest, Origin::Snapshot(Digest::of(&bytes)))),
                None => Err(nothing_stored()),
            },
            Source::Git(git) if !is_commit(&git.revision) => {
                let commit = self.commit(subject, git, running)?;
                let mut pinned = Manifest::clone(&manifest);
                pinned.source = Source::Git(GitSource {
                    revision: commit,
                    ..git.clone()
                });
                Ok((Arc::new(pinned), Origin::Manifest))
            }
            source if source.followed().is_some() => {
                let pin = self.pin(subject, running)?;
                let mut pinned = Manifest::clone(&manifest);
                pinned.source = source.at(&pin);
                Ok((Arc::new(pinned), Origin::Manifest))
            }
            _ => Ok((manifest, Origin::Manifest)),
        }
    }

    /// The commit that a revision stands for: the locked one, or the one it has now, which is
    /// locked.
    fn commit(
        &self,
        subject: &ProjectSubject,
        git: &GitSource,
        running: bool,
    ) -> Result<String, AppError> {
        let name = &subject.manifest.name;
        let mut lock = Lock::read(&self.project.dir)?;
        if let Some(commit) = lock.commit(name, git) {
            return Ok(commit.to_string());
        }
        if !running {
            return Err(AppError::Input(format!(
                "revision `{}` of {} is not in {} yet\n  help: `everbench run` looks it up",
                git.revision,
                git.url,
                lock::FILE
            )));
        }
        let commit = Git::new(&self.private())
            .resolve(git, &subject.manifest_dir)
            .map_err(SourceError::from)?;
        lock.set(name, git, &commit)?;
        Ok(commit)
    }

    /// The version that is meant by one that is followed: the locked one, or the newest one now, which
    /// is locked.
    fn pin(&self, subject: &ProjectSubject, running: bool) -> Result<Pin, AppError> {
        let (name, source) = (&subject.manifest.name, &subject.manifest.source);
        let mut lock = Lock::read(&self.project.dir)?;
        if let Some(pin) = lock.pin(name, source) {
            return Ok(pin.clone());
        }
        if !running {
            return Err(AppError::Input(format!(
                "{} is not in {} yet\n  help: `everbench run` looks it up",
                followed(source),
                lock::FILE
            )));
        }
        let pin = self.newest(subject)?;
        lock.set_pin(name, source, &pin)?;
        Ok(pin)
    }

    /// The newest version that a subject follows.
    pub(super) fn newest(&self, subject: &ProjectSubject) -> Result<Pin, SourceError> {
        let private = self.private();
        // Its name does not count, so any place does if this one cannot be used.
        let scratch = std::fs::create_dir_all(&private)
            .and_then(|()| tempfile::tempdir_in(&private))
            .or_else(|_| tempfile::tempdir())
            .map_err(SourceError::Folder)?;
        let place = source::Place {
            manifest: &subject.manifest_dir,
            private: &private,
            scratch: scratch.path(),
        };
        let found = source::newest(&subject.manifest.source, place)?;
        Ok(found.expect("only sources that follow a version get here"))
    }

    /// Where mirrors and package lists are kept between runs.
    pub(super) fn private(&self) -> PathBuf {
        self.project.dir.join(".everbench").join("sources")
    }

    /// Where the plan's sources are to be had.
    pub(super) fn sources(&self, plan: &Plan) -> Sources {
        let mut sources = Sources::default();
        for subject in &plan.subjects {
            // A directory has no job: it was read already.
            if let Ok(job) = jobs::source(&subject.manifest) {
                sources.add(
                    &job,
                    subject.manifest.source.clone(),
                    subject.manifest_dir.clone(),
                    self.private(),
                );
            }
        }
        sources
    }

    /// Puts a directory's files into the store, as the output of a job like every other.
    fn adopt_tree(&self, tree: &source::Tree) -> Result<Digest, AppError> {
        let digest = tree.snapshot.digest();
        let job = adoption(digest);
        if self.store.reader()?.output(&job.key())?.is_none() {
            self.store.commit(vec![Completed {
                job,
                output: tree.snapshot.canonical(),
                blobs: tree.blobs.values().map(|b| b.to_vec()).collect(),
                provenance: Provenance {
                    tool: TOOL.into(),
                    ..Provenance::default()
                },
            }])?;
        }
        Ok(digest)
    }
}

/// What is followed, in words: `version 1.7.* of debian cjson`.
pub(super) fn followed(source: &Source) -> String {
    match source.followed() {
        Some(f) => format!("version {} of {} {}", f.version, f.from, f.name),
        None => source.label(),
    }
}

/// The job whose output is a directory's snapshot: nothing ran for it.
pub(super) fn adoption(snapshot: Digest) -> Job {
    Job::of(artifact::SOURCE)
        .put("from", "directory")
        .put("snapshot", snapshot.hex())
        .done()
}
