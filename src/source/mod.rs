//! Where source trees come from: whatever a manifest's `[source]` names becomes a [`Tree`], a
//! content-addressed [`Snapshot`] with the bytes it names, and a snapshot becomes files again.
//! Impure: it runs cargo, git, apt and pip, asks the network, and reads and writes directories. It
//! never builds or runs anything of what it fetched.
//!
//! - [`snapshot`]: the tree as data; same tree, same digest, on every machine.
//! - [`write`]: writing a snapshot out.
//! - [`directory`], [`registry`] (crates), [`git`], [`debian`] with [`apt`], [`sdist`], [`tarball`]:
//!   one file per kind of source. docs/extending.md tells how to add one.
//! - [`newest`]: the newest version of a package that is followed.
//! - [`history`]: what single commits of a repository change.
//! - `collect`, `archive`, `download`: what several of them need.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

pub mod apt;
pub mod archive;
pub mod collect;
pub mod debian;
pub mod directory;
pub mod download;
pub mod git;
pub mod history;
pub mod line;
pub mod newest;
pub mod registry;
pub mod sdist;
pub mod snapshot;
pub mod tarball;
pub mod write;

use std::path::Path;

pub use archive::ArchiveError;
pub use debian::{Apt, DebianError};
pub use directory::{Limits, ReadError, read_directory};
pub use download::DownloadError;
pub use git::{Git, GitError};
pub use history::{History, HistoryError};
pub use newest::newest;
pub use registry::{CrateError, Fetcher};
pub use sdist::{Index, SdistError};
pub use snapshot::{BadSnapshot, FileEntry, Snapshot, Tree};
pub use tarball::TarballError;
pub use write::{FIXED_TIME, WriteError, write_tree};

use crate::subject::Source;

/// Why a subject's source could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// From the registry.
    #[error(transparent)]
    Crate(#[from] CrateError),
    /// From a directory.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// From a repository.
    #[error(transparent)]
    Git(#[from] GitError),
    /// From the distribution.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// From the Python package index.
    #[error(transparent)]
    Sdist(#[from] SdistError),
    /// From an archive.
    #[error(transparent)]
    Tarball(#[from] TarballError),
    /// A folder for looking something up could not be made.
    #[error("cannot make a temporary folder: {0}")]
    Folder(std::io::Error),
}

impl SourceError {
    /// Whether trying again later may help: the network, not the manifest, is to blame.
    pub fn is_transient(&self) -> bool {
        match self {
            SourceError::Crate(e) => matches!(e, CrateError::Network { .. }),
            SourceError::Read(_) => false,
            SourceError::Folder(_) => true,
            SourceError::Git(e) => e.is_transient(),
            SourceError::Debian(e) => e.is_transient(),
            SourceError::Sdist(e) => e.is_transient(),
            SourceError::Tarball(e) => {
                matches!(e, TarballError::Download(e) if e.is_transient())
            }
        }
    }

    /// Whether a program is missing: the machine, not the manifest, is to be mended.
    pub fn is_environment(&self) -> bool {
        matches!(
            self,
            SourceError::Crate(CrateError::NoCargo { .. })
                | SourceError::Git(GitError::NoGit { .. })
                | SourceError::Debian(DebianError::NoApt { .. } | DebianError::NoDpkgSource(_))
                | SourceError::Sdist(SdistError::NoPip(_))
        )
    }

    /// What to do about an error that trying again does not mend.
    pub fn help(&self) -> &'static str {
        match self.is_environment() {
            true => "install it; `everbench doctor` says what is missing",
            false => "mend `[source]` in the subject's manifest",
        }
    }
}

/// The folders that fetching needs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Holds the manifest: relative paths in it start there.
    pub manifest: &'a Path,
    /// A project's own, for mirrors and package lists: what makes a second fetch cheap. Created if
    /// absent; removing it costs time, nothing else.
    pub private: &'a Path,
    /// For this call alone, created if absent; what it holds afterwards is of no further use.
    pub scratch: &'a Path,
}

/// The tree of a manifest's `[source]`. A git revision must be a commit by now, a version an exact one.
pub fn fetch(source: &Source, place: Place<'_>) -> Result<Tree, SourceError> {
    match source {
        Source::Crate(s) => Ok(Fetcher::default().fetch(s, place.scratch)?),
        Source::Debian(s) => Ok(Apt::new(place.private).fetch(s, place.scratch)?),
        Source::Directory(s) => {
            let path = place.manifest.join(&s.path);
            Ok(read_directory(&path, &s.ignore, &Limits::default())?)
        }
        Source::Git(s) => Ok(Git::new(place.private).fetch(s, place.manifest)?),
        Source::Sdist(s) => Ok(Index::default().fetch(s)?),
        Source::Tarball(s) => Ok(tarball::fetch(s, place.manifest)?),
    }
}

/// The programs by which a source is fetched, each with the Debian package that has it.
pub fn programs(source: &Source) -> &'static [(&'static str, &'static str)] {
    match source {
        Source::Crate(_) => &[("cargo", "cargo")],
        Source::Debian(_) => &[("apt-get", "apt"), ("dpkg-source", "dpkg-dev")],
        Source::Git(_) => &[("git", "git")],
        Source::Sdist(_) => &[("pip", "python3-pip")],
        Source::Directory(_) | Source::Tarball(_) => &[],
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
