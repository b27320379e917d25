//! Reading a directory into a [`Tree`]. Follows no link but the one that names the directory
//! itself, writes nothing, and skips nothing without saying so.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walkdir::{DirEntry, WalkDir};

use super::snapshot::{BadSnapshot, Tree};
use crate::subject::Globs;

/// Directories of version control systems: never part of a source tree, at any depth.
pub(super) const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// What a tree may have at most, so that a wrong path cannot fill the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes in one file.
    pub file_bytes: u64,
    /// Bytes in all files.
    pub total_bytes: u64,
    /// Files and links.
    pub entries: usize,
}

impl Default for Limits {
    /// 64 MiB a file, 1 GiB and 200,000 entries a tree.
    fn default() -> Self {
        Limits {
            file_bytes: 64 << 20,
            total_bytes: 1 << 30,
            entries: 200_000,
        }
    }
}

/// Why a directory could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is nothing at the path.
    #[error("there is no directory {}", .0.display())]
    Missing(PathBuf),
    /// Something else is at the path.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The operating system refused.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It was listed and then gone.
    #[error("{} vanished while the tree was read; something else is changing it", .0.display())]
    Vanished(PathBuf),
    /// A socket, a pipe or a device.
    #[error(
        "{} is neither a file, a directory nor a link; remove it or add it to `ignore`",
        .0.display()
    )]
    Special(PathBuf),
    /// A name that is not UTF-8. Manifests and reports are text, so these cannot be named there.
    #[error("{} has a name that is not UTF-8, which is not supported; rename it or add the \
             directory it is in to `ignore`", .0.display())]
    NotUtf8(PathBuf),
    /// More than [`Limits`] allow.
    #[error("{} is too large: {what} (the limit is {limit}); add what is not source to `ignore`",
            path.display())]
    TooLarge {
        /// The file or the directory.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
    /// A path or a link that no snapshot may hold.
    #[error("{}: {error}", path.display())]
    Bad {
        /// The directory that was read.
        path: PathBuf,
        /// What is wrong.
        error: BadSnapshot,
    },
}

/// Reads everything below `path` that no pattern of `ignore` matches.
///
/// A pattern that matches a directory leaves out all below it. Version control's own directories
/// are left out as well. Empty directories are not part of a tree.
pub fn read_directory(path: &Path, ignore: &Globs, limits: &Limits) -> Result<Tree, ReadError> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(ReadError::NotADirectory(path.to_path_buf())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(ReadError::Missing(path.to_path_buf()));
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(ReadError::NotADirectory(path.to_path_buf()));
        }
        Err(error) => return Err(unreadable(path, error)),
    }
    let too_large = |path: &Path, what, limit| ReadError::TooLarge {
        path: path.to_path_buf(),
        what,
        limit,
    };
    let mut tree = Tree::default();
    let mut total = 0;
    let mut walk = WalkDir::new(path)
        .min_depth(1)
        .follow_links(false)
        .sort_by_file_name()
        .into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry.map_err(|e| {
            let at = e.path().unwrap_or(path).to_path_buf();
            let error = e
                .into_io_error()
                .unwrap_or_else(|| io::Error::other("a loop of links"));
            unreadable(&at, error)
        })?;
        let name = inside(path, &entry)?;
        let kind = entry.file_type();
        if ignored(&name, &entry, ignore) {
            tree.ignored.push(name);
            if kind.is_dir() {
                walk.skip_current_dir();
            }
        } else if kind.is_dir() {
            continue;
        } else if kind.is_file() {
            let (bytes, executable) = read_file(entry.path(), limits.file_bytes)?;
            total += bytes.len() as u64;
            tree.insert(name, executable, bytes);
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(|e| unreadable(entry.path(), e))?;
            let target = target.into_os_string().into_string();
            let target = target.map_err(|_| ReadError::NotUtf8(entry.path().to_path_buf()))?;
            tree.snapshot.links.insert(name, target);
        } else {
            return Err(ReadError::Special(entry.path().to_path_buf()));
        }
        if total > limits.total_bytes {
            return Err(too_large(path, "bytes in all", limits.total_bytes));
        }
        if tree.snapshot.files.len() + tree.snapshot.links.len() > limits.entries {
            return Err(too_large(path, "files", limits.entries as u64));
        }
    }
    tree.snapshot.check().map_err(|error| ReadError::Bad {
        path: path.to_path_buf(),
        error,
    })?;
    Ok(tree)
}

fn ignored(name: &str, entry: &DirEntry, ignore: &Globs) -> bool {
    let last = entry.file_name();
    // `.git` is a file in a worktree or a submodule.
    VERSION_CONTROL.iter().any(|v| last == *v) || ignore.matches(name)
}

/// The path below the root.
fn inside(root: &Path, entry: &DirEntry) -> Result<String, ReadError> {
    let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
    let text = below.to_str().map(str::to_string);
    text.ok_or_else(|| ReadError::NotUtf8(entry.path().to_path_buf()))
}

/// Reads at most `limit` bytes, whatever the size was said to be.
pub(super) fn read_file(path: &Path, limit: u64) -> Result<(Arc<[u8]>, bool), ReadError> {
    let failed = |e| unreadable(path, e);
    // Between listing and opening, the file may have become a link or a pipe.
    let mut options = fs::OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.read(true).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge {
            path: path.to_path_buf(),
            what: "bytes in one file",
            limit,
        });
    }
    Ok((bytes.into(), meta.permissions().mode() & 0o100 != 0))
}

fn unreadable(path: &Path, error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound => ReadError::Vanished(path.to_path_buf()),
        _ => ReadError::Unreadable {
            path: path.to_path_buf(),
            error,
        },
    }
}
