//! Files on disk that can be made again from a job: build trees, programs, objects. An evictable
//! cache beside the store: what is missing is rebuilt, what is here was checked against the
//! receipt in the store when it was made. Deleting the whole folder costs time, nothing else.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::digest::Digest;

/// The cache. One process at a time, which holds the store's lock.
pub struct Trees {
    root: PathBuf,
    /// One lock per entry being made, so that two workers do not make it twice.
    making: Mutex<HashMap<Digest, Arc<Mutex<()>>>>,
}

impl Trees {
    /// Opens the cache in `root`, empties what an earlier process left unfinished, and evicts the
    /// entries used longest ago until programs and objects hold at most `budget` bytes.
    pub fn open(root: &Path, budget: u64) -> io::Result<Trees> {
        let trees = Trees {
            root: root.to_path_buf(),
            making: Mutex::default(),
        };
        remove_dir(&trees.root.join("scratch"))?;
        for dir in ["base", "program", "object", "scratch"] {
            fs::create_dir_all(trees.root.join(dir))?;
        }
        trees.evict(budget)?;
        Ok(trees)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A new empty folder that is removed when the value is dropped.
    pub fn scratch(&self) -> io::Result<tempfile::TempDir> {
        let dir = tempfile::tempdir_in(self.root.join("scratch"))?;
        // The sandboxed user is another one: it must be able to pass through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        Ok(dir)
    }

    /// Where the build tree of a base is or will be.
    pub fn base(&self, key: &Digest) -> PathBuf {
        self.root.join("base").join(key.hex())
    }

    /// Where the files of a program are or will be.
    pub fn program(&self, key: &Digest) -> PathBuf {
        self.root.join("program").join(key.hex())
    }

    /// Where an object is or will be.
    pub fn object(&self, key: &Digest) -> PathBuf {
        self.root.join("object").join(key.hex())
    }

    /// Puts a program or a file of this program's own where the sandbox can show it.
    pub fn keep_tool(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let dir = self.root.join("tool");
        let path = dir.join(format!("{}-{name}", Digest::of(bytes).short()));
        if !path.exists() {
            fs::create_dir_all(&dir)?;
            let scratch = self.scratch()?;
            let file = scratch.path().join(name);
            fs::write(&file, bytes)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
            self.adopt(&file, &path)?;
        }
        Ok(path)
    }

    /// The lock under which an entry is made.
    pub fn lock(&self, key: &Digest) -> Arc<Mutex<()>> {
        let mut making = self
            .making
            .lock()
            .expect("nothing panics while it holds the lock");
        making.entry(*key).or_default().clone()
    }

    /// Puts a finished folder or file in its place, whole or not at all.
    pub fn adopt(&self, made: &Path, place: &Path) -> io::Result<()> {
        match fs::rename(made, place) {
            // Another worker was first; both made the same.
            Err(_) if place.exists() => Ok(()),
            other => other,
        }
    }

    fn evict(&self, budget: u64) -> io::Result<()> {
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for dir in ["program", "object"] {
            for entry in fs::read_dir(self.root.join(dir))? {
                let entry = entry?;
                let meta = entry.metadata()?;
                let used = meta.accessed().or_else(|_| meta.modified())?;
                entries.push((
                    used.max(meta.modified()?),
                    size(&entry.path()),
                    entry.path(),
                ));
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|e| e.1).sum();
        for (_, size, path) in entries {
            if total <= budget {
                break;
            }
            remove_dir(&path)?;
            total -= size;
        }
        Ok(())
    }
}

fn size(path: &Path) -> u64 {
    let files = walkdir::WalkDir::new(path).into_iter().flatten();
    files
        .filter_map(|e| e.metadata().ok())
        .filter(|m| m.is_file())
        .map(|m| m.len())
        .sum()
}

/// Removes a file or a folder with all it holds; absence is fine.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
