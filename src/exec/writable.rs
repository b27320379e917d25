//! Directories of a tree that a test run may write to: copies of its own, so that no run sees what
//! another has written and the tree stays what it was. Times are kept, since make and the like
//! look at them; files of the variant's program lie in the copies in place of the base's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::Sandbox;
use super::runner::{Workshop, host};
use super::trees::Trees;
use crate::engine::Failure;

/// The copies of one run; gone with it.
pub struct Copies<'a> {
    shop: &'a Workshop,
    tree: &'a Path,
    /// Files that take the place of the tree's: path in the tree -> path on the host.
    over: &'a [(String, PathBuf)],
    folder: tempfile::TempDir,
    /// Directory of the tree -> its copy on the host.
    places: Vec<(String, PathBuf)>,
}

impl<'a> Copies<'a> {
    /// Names the places; [`Copies::make`] fills them.
    pub fn new(
        shop: &'a Workshop,
        tree: &'a Path,
        over: &'a [(String, PathBuf)],
        directories: &[String],
    ) -> Result<Copies<'a>, Failure> {
        let folder = scratch(&shop.trees)?;
        for directory in directories {
            if !tree.join(directory).is_dir() {
                return Err(Failure::Fatal {
                    what: format!("`writable` names `{directory}`, which is no directory of the built tree"),
                    help: "name a directory that the source has or the build makes; an empty folder elsewhere is `{scratch}`".into(),
                });
            }
        }
        let named = |(n, directory): (usize, &String)| {
            (directory.clone(), folder.path().join(n.to_string()))
        };
        let places = directories.iter().enumerate().map(named).collect();
        Ok(Copies {
            shop,
            tree,
            over,
            folder,
            places,
        })
    }

    /// Where they are: directory of the tree -> path on the host.
    pub fn places(&self) -> &[(String, PathBuf)] {
        &self.places
    }

    /// The files of the variant's program that lie outside of them.
    pub fn outside(&self) -> Vec<(String, PathBuf)> {
        let outside = |(path, _): &&(String, PathBuf)| self.inside(path).is_none();
        self.over.iter().filter(outside).cloned().collect()
    }

    /// Makes them anew, whatever an earlier attempt has left there.
    pub fn make(&self) -> Result<(), Failure> {
        let copying = |e| host("copying what a test may write to")(e);
        for (directory, place) in &self.places {
            Sandbox::remove(place).map_err(copying)?;
            copy(&self.tree.join(directory), place).map_err(copying)?;
        }
        for (path, file) in self.over {
            if let Some(place) = self.inside(path) {
                Sandbox::remove(&place).map_err(copying)?;
                if let Some(parent) = place.parent() {
                    fs::create_dir_all(parent).map_err(copying)?;
                }
                copy(file, &place).map_err(copying)?;
            }
        }
        for (_, place) in &self.places {
            self.shop.sandbox.hand_over(place).map_err(copying)?;
        }
        Ok(())
    }

    /// Where a path of the tree is in the copies, if it is in one.
    fn inside(&self, path: &str) -> Option<PathBuf> {
        self.places.iter().find_map(|(directory, place)| {
            if directory == "." {
                return Some(place.join(path));
            }
            let rest = path.strip_prefix(directory.as_str())?.strip_prefix('/')?;
            Some(place.join(rest))
        })
    }
}

impl Drop for Copies<'_> {
    /// A program can leave what the ordinary way of removing does not get rid of.
    fn drop(&mut self) {
        for (_, place) in &self.places {
            let _ = Sandbox::remove(place);
        }
        debug_assert!(self.folder.path().exists());
    }
}

fn scratch(trees: &Trees) -> Result<tempfile::TempDir, Failure> {
    trees
        .scratch()
        .map_err(host("making a folder for what a test may write to"))
}

/// Copies a file, a link or a directory with all below it; modes and times of modification too.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if found.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        fs::set_permissions(to, found.permissions())?;
    } else if found.is_file() {
        fs::copy(from, to)?;
    } else {
        // Sockets and pipes that a build has left say nothing to a test.
        return Ok(());
    }
    let modified = found
        .modified()?
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let time = Timespec {
        tv_sec: modified.as_secs().try_into().unwrap_or(0),
        tv_nsec: modified.subsec_nanos().into(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
