//! Collecting a tree in memory, entry by entry, from something that is not trusted: an archive, a
//! repository. Checks every name and every limit when an entry comes, not afterwards.

use std::io::{self, Read};
use std::sync::Arc;

use super::directory::{Limits, VERSION_CONTROL};
use super::snapshot::{BadSnapshot, Tree};
use crate::subject::path::{self, BadPath};

/// Why an entry, or a set of them, is no source tree.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Manifests and reports are text, so other names cannot be written there.
    #[error("entry {0:?} has a name that is not UTF-8, which is not supported")]
    NotUtf8(String),
    /// A name that could not be written safely.
    #[error("entry {path:?} is refused: {why}")]
    Path {
        /// The name.
        path: String,
        /// Why.
        why: BadPath,
    },
    /// Something else than a file, a directory or a symbolic link.
    #[error("entry {path:?} is refused: it is {what}")]
    Kind {
        /// The name.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// Two entries of one name.
    #[error("entry {0:?} is there twice")]
    Twice(String),
    /// More than [`Limits`] allow.
    #[error("{path} is too large: {what} (the limit is {limit})")]
    TooLarge {
        /// The entry, or what holds all of them.
        path: String,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
    /// An entry whose bytes cannot be read.
    #[error("entry {path:?} cannot be read: {error}")]
    Unreadable {
        /// The name.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A link that points outside, or entries that are in each other's way.
    #[error(transparent)]
    Bad(#[from] BadSnapshot),
    /// There is not one file.
    #[error("it holds no file")]
    Empty,
    /// The directory that is to be the root is not there.
    #[error("it has no directory `{path}`; it has: {there}. Mend `path-inside`")]
    NoSuchDirectory {
        /// The `path-inside` of the manifest.
        path: String,
        /// What is at the top.
        there: String,
    },
}

/// A tree that grows.
pub struct Collector {
    limits: Limits,
    tree: Tree,
    total: u64,
}

impl Collector {
    /// An empty one.
    pub fn new(limits: Limits) -> Collector {
        Collector {
            limits,
            tree: Tree::default(),
            total: 0,
        }
    }

    /// Adds a file, of whose bytes no more are read than the limits allow.
    pub fn file(
        &mut self,
        path: String,
        executable: bool,
        bytes: &mut dyn Read,
    ) -> Result<(), Refused> {
        if !self.admit(&path)? {
            return Ok(());
        }
        let left = self.limits.total_bytes.saturating_sub(self.total);
        let most = self.limits.file_bytes.min(left);
        let mut read = Vec::new();
        let result = bytes.take(most.saturating_add(1)).read_to_end(&mut read);
        if let Err(error) = result {
            return Err(Refused::Unreadable { path, error });
        }
        let size = read.len() as u64;
        if size > self.limits.file_bytes {
            return Err(Refused::TooLarge {
                path: format!("{path:?}"),
                what: "bytes in one file",
                limit: self.limits.file_bytes,
            });
        }
        if size > left {
            return Err(self.too_many_bytes());
        }
        self.total += size;
        self.tree.insert(path, executable, read.into());
        Ok(())
    }

    /// Adds a file whose bytes are there already, under another name as well.
    pub fn shared(
        &mut self,
        path: String,
        executable: bool,
        bytes: Arc<[u8]>,
    ) -> Result<(), Refused> {
        if !self.admit(&path)? {
            return Ok(());
        }
        self.total += bytes.len() as u64;
        if self.total > self.limits.total_bytes {
            return Err(self.too_many_bytes());
        }
        self.tree.insert(path, executable, bytes);
        Ok(())
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: String, target: &[u8]) -> Result<(), Refused> {
        if !self.admit(&path)? {
            return Ok(());
        }
        let target = text(target)?;
        self.tree.snapshot.links.insert(path, target);
        Ok(())
    }

    /// Notes what is left out on purpose.
    pub fn leave_out(&mut self, path: String) {
        self.tree.ignored.push(path);
    }

    /// The tree, checked as a whole.
    pub fn finish(mut self) -> Result<Tree, Refused> {
        self.tree.snapshot.check()?;
        self.tree.ignored.sort();
        self.tree.ignored.dedup();
        if self.tree.snapshot.files.is_empty() {
            return Err(Refused::Empty);
        }
        Ok(self.tree)
    }

    /// Whether an entry of this name is to be added.
    fn admit(&mut self, path: &str) -> Result<bool, Refused> {
        path::check(path).map_err(|why| Refused::Path {
            path: path.to_string(),
            why,
        })?;
        if let Some(place) = version_control(path) {
            // One place stands for everything below it.
            if self.tree.ignored.last().is_none_or(|last| last != place) {
                self.tree.ignored.push(place.to_string());
            }
            return Ok(false);
        }
        let snapshot = &self.tree.snapshot;
        if snapshot.files.contains_key(path) || snapshot.links.contains_key(path) {
            return Err(Refused::Twice(path.to_string()));
        }
        if snapshot.files.len() + snapshot.links.len() >= self.limits.entries {
            return Err(Refused::TooLarge {
                path: "the tree".into(),
                what: "files",
                limit: self.limits.entries as u64,
            });
        }
        Ok(true)
    }

    fn too_many_bytes(&self) -> Refused {
        Refused::TooLarge {
            path: "the tree".into(),
            what: "bytes in all",
            limit: self.limits.total_bytes,
        }
    }
}

/// The path up to the first name that version control uses for itself.
fn version_control(path: &str) -> Option<&str> {
    let mut end = 0;
    for name in path.split('/') {
        end += name.len();
        if VERSION_CONTROL.contains(&name) {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

/// A name as text.
pub fn text(name: &[u8]) -> Result<String, Refused> {
    match std::str::from_utf8(name) {
        Ok(text) => Ok(text.to_string()),
        Err(_) => Err(Refused::NotUtf8(String::from_utf8_lossy(name).into_owned())),
    }
}

/// The part of a tree that a manifest asks for: all of it, or a directory of it.
pub fn inside(mut tree: Tree, path: Option<&str>) -> Result<Tree, Refused> {
    let Some(path) = path else { return Ok(tree) };
    let below = tree.snapshot.below(path)?;
    if below.files.is_empty() {
        let files = tree.snapshot.files.keys().map(String::as_str);
        return Err(no_directory(path, files));
    }
    tree.snapshot = below;
    let prefix = format!("{path}/");
    tree.ignored = tree
        .ignored
        .iter()
        .filter_map(|p| p.strip_prefix(&prefix).map(str::to_string))
        .collect();
    tree.forget_unused();
    Ok(tree)
}

/// Why there is no tree below `path`, when `files` are all there are.
pub fn no_directory<'a>(path: &str, files: impl Iterator<Item = &'a str>) -> Refused {
    let tops = files.filter_map(|p| p.split_once('/').map(|(top, _)| top));
    let mut there: Vec<&str> = tops.collect();
    there.sort_unstable();
    there.dedup();
    Refused::NoSuchDirectory {
        path: path.to_string(),
        there: match there[..] {
            [] => "none".into(),
            _ => there.join(", "),
        },
    }
}

/// The first names of all paths.
pub fn top(tree: &Tree) -> Vec<String> {
    let paths = tree.snapshot.files.keys().chain(tree.snapshot.links.keys());
    let mut names: Vec<String> = paths
        .filter_map(|p| p.split('/').next().map(str::to_string))
        .collect();
    names.sort();
    names.dedup();
    names
}
