//! Where source trees come from: a crate or a directory becomes a [`Tree`], a content-addressed
//! [`Snapshot`] with the bytes it names, and a snapshot becomes files again. Impure: it runs cargo
//! and reads and writes directories. It never builds or runs anything of what it fetched.
//!
//! - [`snapshot`]: the tree as data; same tree, same digest, on every machine.
//! - [`directory`]: reading a directory.
//! - [`write`]: writing a snapshot out.
//! - [`registry`]: fetching a crate with the ordinary cargo and checking it against its checksum.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

pub mod directory;
pub mod registry;
pub mod snapshot;
pub mod write;

use std::path::{Path, PathBuf};

pub use directory::{Limits, ReadError, read_directory};
pub use registry::{CrateError, Fetcher};
pub use snapshot::{BadSnapshot, FileEntry, Snapshot, Tree};
pub use write::{FIXED_TIME, WriteError, write_tree};

use crate::subject;

/// Why a subject's source could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// From the registry.
    #[error(transparent)]
    Crate(#[from] CrateError),
    /// From a directory.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl SourceError {
    /// Whether trying again later may help: the network, not the manifest, is to blame.
    pub fn is_transient(&self) -> bool {
        matches!(self, SourceError::Crate(CrateError::Network { .. }))
    }
}

/// The tree of a manifest's `[source]`.
///
/// `manifest_dir` is the directory that holds the manifest: relative directories start there.
/// `scratch` is a directory for this call alone, created if absent; what it holds afterwards is of
/// no further use.
pub fn fetch(
    source: &subject::Source,
    manifest_dir: &Path,
    scratch: &Path,
) -> Result<Tree, SourceError> {
    match source {
        subject::Source::Crate(c) => Ok(Fetcher::default().fetch(c, scratch)?),
        subject::Source::Directory(d) => {
            let path: PathBuf = manifest_dir.join(&d.path);
            Ok(read_directory(&path, &d.ignore, &Limits::default())?)
        }
    }
}

#[cfg(test)]
mod tests;
