//! Writing a snapshot out as files. Writes only into a directory that was empty, so that nothing
//! already there can redirect it, and only bytes whose digest is right.
//!
//! Every file, link and directory gets one fixed time. Make then sees a shipped `configure` and the
//! `configure.ac` it was made from as equally old and leaves it alone, and two trees with the same
//! digest are the same on disk. A file that is changed afterwards must get a later time, as it does
//! when it is simply written: with the fixed time, make would not see the change.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::snapshot::{BadSnapshot, Snapshot};
use crate::digest::Digest;

/// When everything written was last changed, in seconds since 1970: 2001-09-09T01:46:40Z.
pub const FIXED_TIME: i64 = 1_000_000_000;

/// Why a tree could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The snapshot holds a path or a link that could leave the directory.
    #[error("the source tree is refused: {0}")]
    Bad(#[from] BadSnapshot),
    /// The directory holds something already.
    #[error("{} is not empty; a source tree is only written to an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// The bytes of a file are not to be had.
    #[error("the bytes of {path} ({digest}) are missing")]
    MissingBlob {
        /// The file.
        path: String,
        /// Its digest.
        digest: Digest,
    },
    /// The bytes that were given for a file are not those it names.
    #[error("the bytes given for {path} are not those of {digest}")]
    WrongBlob {
        /// The file.
        path: String,
        /// Its digest.
        digest: Digest,
    },
    /// The operating system refused.
    #[error("cannot write {}: {error}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Writes `snapshot` below `dest`, which is created if absent and must be empty. Modes are 0644,
/// or 0755 for executables and directories, whatever the umask; times are [`FIXED_TIME`]. `blob`
/// gives the bytes of a digest. On an error, what was written so far stays.
pub fn write_tree(
    snapshot: &Snapshot,
    mut blob: impl FnMut(&Digest) -> Option<Arc<[u8]>>,
    dest: &Path,
) -> Result<(), WriteError> {
    snapshot.check()?;
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| WriteError::Io { path, error }
    };
    fs::create_dir_all(dest).map_err(at(dest))?;
    if fs::read_dir(dest).map_err(at(dest))?.next().is_some() {
        return Err(WriteError::NotEmpty(dest.to_path_buf()));
    }
    let directories = directories(snapshot);
    for directory in &directories {
        let path = dest.join(directory);
        fs::create_dir(&path).map_err(at(&path))?;
        set_mode(&path, 0o755).map_err(at(&path))?;
    }
    for (name, file) in &snapshot.files {
        let digest = file.digest;
        let missing = || WriteError::MissingBlob {
            path: name.clone(),
            digest,
        };
        let bytes = blob(&digest).ok_or_else(missing)?;
        if bytes.len() as u64 != file.size || Digest::of(&bytes) != digest {
            return Err(WriteError::WrongBlob {
                path: name.clone(),
                digest,
            });
        }
        let path = dest.join(name);
        let mode = if file.executable { 0o755 } else { 0o644 };
        write_file(&path, &bytes, mode).map_err(at(&path))?;
    }
    for (name, target) in &snapshot.links {
        let path = dest.join(name);
        symlink(target, &path).map_err(at(&path))?;
        set_time(&path).map_err(at(&path))?;
    }
    // Last and from the deepest up: writing into a directory changes its time.
    for directory in directories.iter().rev() {
        let path = dest.join(directory);
        set_time(&path).map_err(at(&path))?;
    }
    set_time(dest).map_err(at(dest))
}

/// Every directory that holds something, each after the one it is in.
fn directories(snapshot: &Snapshot) -> BTreeSet<&str> {
    let paths = snapshot.files.keys().chain(snapshot.links.keys());
    paths
        .flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]))
        .collect()
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    drop(file);
    set_mode(path, mode)?;
    set_time(path)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn set_time(path: &Path) -> io::Result<()> {
    let fixed = Timespec {
        tv_sec: FIXED_TIME,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: fixed,
        last_modification: fixed,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}
