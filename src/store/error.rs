//! What can go wrong with a store: one enum, each variant with its way out in the message.
//! Never holds a type of the database underneath.

use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::job::Key;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory is missing, or holds something else.
    #[error("{}: not a store: {why}", dir.display())]
    NotAStore {
        /// The directory that was given.
        dir: PathBuf,
        /// What was found instead, and what to do.
        why: String,
    },
    /// Another process writes to this store.
    #[error(
        "{}: the store is being written by {owner}; wait until it ends; `score`, `plan`, `why`, `list`, `show` and `store stats` work meanwhile",
        dir.display()
    )]
    Locked {
        /// The store.
        dir: PathBuf,
        /// Process, host and program, as the owner wrote them down.
        owner: String,
    },
    /// A newer program wrote it, in a way this one does not understand. Nothing was changed.
    #[error(
        "{}: the store has format {found} (readable from format {min_reader} on), this program knows format {ours}; use everbench {needs} or later",
        dir.display()
    )]
    FormatNewer {
        /// The store.
        dir: PathBuf,
        /// The store's format.
        found: u32,
        /// The lowest format a program must know to read it.
        min_reader: u32,
        /// The format of this program.
        ours: u32,
        /// The version of everbench that is needed.
        needs: String,
    },
    /// The store's own files are broken beyond single values.
    #[error(
        "{}: the store is damaged: {what}; run verify to see what is left, then restore the directory from a copy or start a new store and fill it from a remote",
        dir.display()
    )]
    Damaged {
        /// The store.
        dir: PathBuf,
        /// What was found.
        what: String,
    },
    /// A value's bytes are not those that were stored.
    #[error("blob {digest} is corrupt: {why}; quarantine it, and what gave it is computed again")]
    CorruptBlob {
        /// The blob.
        digest: Digest,
        /// How it shows.
        why: String,
    },
    /// An action's record, or its job, is not what was stored.
    #[error("the record of {key} is corrupt: {why}; quarantine it, and it is computed again")]
    CorruptAction {
        /// The action.
        key: Key,
        /// How it shows.
        why: String,
    },
    /// `gc` removed the blob after this snapshot was taken.
    #[error("blob {digest} was removed by gc while this reader was open; take a new reader")]
    Gone {
        /// The blob.
        digest: Digest,
    },
    /// The store was closed, or opened again after an input or output error.
    #[error("{}: the reader's snapshot has ended with its store; take a new reader", dir.display())]
    Closed {
        /// The store.
        dir: PathBuf,
    },
    /// No room on the disk, or the file-size limit or quota is used up.
    #[error(
        "{}: no room left ({source}); nothing of this batch was stored and everything before it is safe: make room and try again",
        path.display()
    )]
    Full {
        /// Where writing failed.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Any other failure of the file system.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A write was asked of a store opened for reading.
    #[error("{}: the store was opened for reading only; open it for writing", dir.display())]
    ReadOnly {
        /// The store.
        dir: PathBuf,
    },
    /// What was observed on a machine was given as if it were a result.
    #[error(
        "{key}: jobs of kind `{kind}` are observations and never stored: this is a fault in everbench; please report it"
    )]
    Observation {
        /// The job.
        key: Key,
        /// Its kind.
        kind: &'static str,
    },
    /// A job came with bytes that are not those its input names.
    #[error(
        "{key}: the bytes given for input digest {digest} have another digest; nothing of this batch was stored"
    )]
    WrongPreimage {
        /// The job.
        key: Key,
        /// The digest that was promised.
        digest: Digest,
    },
    /// A blob that something else relies on is absent.
    #[error("{what}: blob {digest} is not in the store")]
    MissingBlob {
        /// What names it.
        what: String,
        /// The blob.
        digest: Digest,
    },
    /// `gc` was asked to keep nothing.
    #[error(
        "{}: no root is set, so gc would remove everything; set a root (an evaluation does) or remove the directory",
        dir.display()
    )]
    NoRoots {
        /// The store.
        dir: PathBuf,
    },
    /// Bytes that are not a manifest, or a list that cannot be one.
    #[error("manifest {at}: {why}")]
    BadManifest {
        /// The chunk's digest, or the logical id.
        at: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file that is no export, or no longer the one that was written.
    #[error("{}: {why}; nothing was imported", path.display())]
    BadExport {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An export was to replace a file of another sort.
    #[error("{}: the file is there and is no export; give another name, or remove it", path.display())]
    NoExportThere {
        /// The file.
        path: PathBuf,
    },
    /// An export of a newer program, in a format this one does not understand.
    #[error(
        "{}: the file has export format {found} (readable from format {min_reader} on), this program knows format {ours}; use everbench {needs} or later",
        path.display()
    )]
    ExportNewer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The lowest format a program must know to read it.
        min_reader: u32,
        /// The format of this program.
        ours: u32,
        /// The version of everbench that is needed.
        needs: String,
    },
    /// An export holds jobs of kinds that this program does not know.
    #[error(
        "{}: it holds jobs of kinds that this program does not know: {}; use a newer everbench; nothing was imported",
        path.display(),
        kinds.join(", ")
    )]
    UnknownKinds {
        /// The file.
        path: PathBuf,
        /// Name and version of each.
        kinds: Vec<String>,
    },
    /// A root that was asked for is not set.
    #[error("there is no root `{name}`; there are: {}", known.join(", "))]
    NoSuchRoot {
        /// The name.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A name that cannot be a root's.
    #[error("`{name}` cannot name a root: 1 to 200 bytes without control characters are expected")]
    BadRootName {
        /// The name.
        name: String,
    },
}

impl StoreError {
    /// An error of the file system at `path`; a lack of room is told apart.
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> StoreError {
        let path = path.to_path_buf();
        if is_full(&source) {
            StoreError::Full { path, source }
        } else {
            StoreError::Io {
                path,
                doing,
                source,
            }
        }
    }

    pub(super) fn damaged(dir: &Path, what: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            dir: dir.to_path_buf(),
            what: what.into(),
        }
    }
}

/// Whether an error means that there is no room: the disk, a quota, or a limit on file sizes.
fn is_full(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
    ) || matches!(
        e.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
