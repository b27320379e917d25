//! The store's directory: which files there are, the format file, temporary files, durable
//! renames. Never opens the index, and never removes a file that is not the store's own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::StoreError;
use crate::digest::Digest;

/// The format this program writes.
pub const FORMAT: u32 = 1;
/// The lowest format a program must know to read what this one writes.
pub const MIN_READER: u32 = 1;
/// The first version of everbench that knows [`MIN_READER`].
const NEEDS: &str = "0.1.0";

const MAGIC: &str = "everbench store";
const OURS: [&str; 6] = ["STORE", "index.redb", "blobs", "tmp", "owner", "lost+found"];

/// The paths of one store.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub dir: PathBuf,
}

/// What the format file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Format {
    pub format: u32,
    pub min_reader: u32,
    pub needs: String,
    pub created_by: String,
}

impl Format {
    pub fn current(tool_version: &str) -> Format {
        Format {
            format: FORMAT,
            min_reader: MIN_READER,
            needs: NEEDS.into(),
            created_by: tool_version.replace(['\n', '\r'], " "),
        }
    }

    fn text(&self) -> String {
        format!(
            "{MAGIC}\nformat {}\nmin_reader {}\nneeds {}\ncreated_by {}\n",
            self.format, self.min_reader, self.needs, self.created_by
        )
    }

    /// Lines it does not know are left to newer programs.
    fn parse(text: &str) -> Option<Format> {
        let rest = text.strip_prefix(MAGIC)?.strip_prefix('\n')?;
        let field = |name: &str| {
            rest.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        Some(Format {
            format: field("format")?.parse().ok()?,
            min_reader: field("min_reader")?.parse().ok()?,
            needs: field("needs")?.to_string(),
            created_by: field("created_by").unwrap_or("").to_string(),
        })
    }
}

impl Layout {
    pub fn index(&self) -> PathBuf {
        self.dir.join("index.redb")
    }
    pub fn blobs(&self) -> PathBuf {
        self.dir.join("blobs")
    }
    pub fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// The file of a large blob: two digits for the folder, the other 62 for the file.
    pub fn blob(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.blobs().join(&hex[..2]).join(&hex[2..])
    }

    /// The format file; `None` when there is none but nothing speaks against a store here
    /// (the directory is empty, absent, or a creation was interrupted).
    pub fn format(&self) -> Result<Option<Format>, StoreError> {
        let path = self.dir.join("STORE");
        match fs::read(&path) {
            Ok(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(Format::parse)
                .map(Some)
                .ok_or_else(|| {
                    StoreError::damaged(&self.dir, "the file STORE is not what a store begins with")
                }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.nothing_else_here(),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                Err(self.not_a_store("it is a file; give the directory of a store, or a new one"))
            }
            Err(e) => Err(StoreError::io(&path, "reading the format", e)),
        }
    }

    fn nothing_else_here(&self) -> Result<Option<Format>, StoreError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io(&self.dir, "listing the directory", e)),
        };
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::io(&self.dir, "listing the directory", e))?;
            let name = entry.file_name();
            if !OURS.iter().any(|ours| name == *ours) {
                return Err(self.not_a_store(&format!(
                    "it has no file STORE and holds other things (`{}`); give the directory of a store, or an empty one",
                    name.to_string_lossy()
                )));
            }
        }
        Ok(None)
    }

    pub fn not_a_store(&self, why: &str) -> StoreError {
        StoreError::NotAStore {
            dir: self.dir.clone(),
            why: why.to_string(),
        }
    }

    pub fn create_dirs(&self) -> Result<(), StoreError> {
        for dir in [self.dir.clone(), self.blobs(), self.tmp()] {
            fs::create_dir_all(&dir)
                .map_err(|e| StoreError::io(&dir, "creating the directory", e))?;
        }
        self.sync_dir(&self.dir)?;
        if let Some(parent) = self.dir.parent().filter(|p| !p.as_os_str().is_empty()) {
            self.sync_dir(parent)?;
        }
        Ok(())
    }

    pub fn write_format(&self, format: &Format) -> Result<(), StoreError> {
        self.write_durably(&self.dir.join("STORE"), format.text().as_bytes())?;
        self.sync_dir(&self.dir)
    }

    /// Writes `bytes` under a temporary name, syncs, and renames; the caller syncs the directory.
    pub fn write_durably(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let tmp = self.tmp_name("write");
        let written = (|| {
            let mut file = File::create_new(&tmp)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&tmp, path)
        })();
        written.map_err(|e| {
            // Best effort: what stays behind is removed at the next open.
            let _ = fs::remove_file(&tmp);
            StoreError::io(path, "writing", e)
        })
    }

    pub fn sync_dir(&self, dir: &Path) -> Result<(), StoreError> {
        File::open(dir)
            .and_then(|d| d.sync_all())
            .map_err(|e| StoreError::io(dir, "syncing the directory", e))
    }

    /// A name in `tmp/` that no one else has.
    pub fn tmp_name(&self, what: &str) -> PathBuf {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        self.tmp()
            .join(format!("{what}.{}.{n}", std::process::id()))
    }

    /// Removes what interrupted writes left in `tmp/`; only the owner of the store may.
    /// Returns how many files went.
    pub fn clean_tmp(&self) -> Result<u64, StoreError> {
        let tmp = self.tmp();
        let mut removed = 0;
        let list = || -> io::Result<u64> {
            for entry in fs::read_dir(&tmp)? {
                fs::remove_file(entry?.path())?;
                removed += 1;
            }
            Ok(removed)
        };
        match { list }() {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(&tmp, "removing leftovers", e))
            }
            _ => Ok(removed),
        }
    }

    /// Every file under `blobs/` with the digest its name stands for, or `None` for a name that
    /// the store never gives.
    pub fn blob_files(&self) -> Result<Vec<(PathBuf, Option<Digest>)>, StoreError> {
        let mut files = Vec::new();
        let blobs = self.blobs();
        let mut list = || -> io::Result<()> {
            for folder in fs::read_dir(&blobs)? {
                let folder = folder?;
                if !folder.file_type()?.is_dir() {
                    files.push((folder.path(), None));
                    continue;
                }
                let prefix = folder.file_name().to_string_lossy().into_owned();
                for file in fs::read_dir(folder.path())? {
                    let file = file?;
                    let name = format!("{prefix}{}", file.file_name().to_string_lossy());
                    let digest = name
                        .parse::<Digest>()
                        .ok()
                        .filter(|d| self.blob(d) == file.path());
                    files.push((file.path(), digest));
                }
            }
            Ok(())
        };
        match list() {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(&blobs, "listing the blobs", e))
            }
            _ => {
                files.sort();
                Ok(files)
            }
        }
    }

    /// Says who writes, for the message of a process that comes second. Not a lock.
    pub fn write_owner(&self, tool_version: &str) -> Result<(), StoreError> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let text = format!(
            "process {} on host {} (everbench {tool_version})",
            std::process::id(),
            host.trim()
        );
        self.write_durably(&self.dir.join("owner"), text.as_bytes())
    }

    pub fn owner(&self) -> String {
        match fs::read_to_string(self.dir.join("owner")) {
            Ok(text) if !text.is_empty() => text,
            _ => "another process".to_string(),
        }
    }

    pub fn remove_owner(&self) {
        // Only a message for others: a stale one is never read while the store is free.
        let _ = fs::remove_file(self.dir.join("owner"));
    }
}

/// Now, in milliseconds since 1970 UTC.
pub(super) fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
