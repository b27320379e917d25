//! A source tree as data: paths, digests and the executable bit. No times, owners, absolute paths
//! or empty directories, so that the same sources have the same digest everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::digest::Digest;
use crate::subject::path::{self, BadPath};

/// First bytes of the canonical encoding; a change of the encoding is a new line.
const MAGIC: &[u8] = b"everbench tree 1\n";

/// A regular file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileEntry {
    /// Of its bytes.
    pub digest: Digest,
    /// Whether its owner may run it.
    pub executable: bool,
    /// In bytes.
    pub size: u64,
}

/// A tree. Paths are relative to its root, `/`-separated, and obey [`path::check`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Regular files by path.
    pub files: BTreeMap<String, FileEntry>,
    /// Symbolic links by path; the targets obey [`path::check_link`] and may be missing.
    pub links: BTreeMap<String, String>,
}

/// A snapshot with the bytes it names.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The tree.
    pub snapshot: Snapshot,
    /// The bytes of every file, by digest.
    pub blobs: BTreeMap<Digest, Arc<[u8]>>,
    /// What was left out on purpose, sorted: a directory stands for everything below it.
    pub ignored: Vec<String>,
}

/// Why a set of paths, or a byte string, is not a snapshot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSnapshot {
    /// A path that could not be written safely.
    #[error("path {path:?} cannot be used: {why}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        why: BadPath,
    },
    /// A link that points outside, or could.
    #[error(
        "link {path:?} points to {target:?}, which may be outside the tree ({why}); replace the \
         link by what it points to"
    )]
    Link {
        /// Where the link is.
        path: String,
        /// Where it points.
        target: String,
        /// Why that is refused.
        why: BadPath,
    },
    /// A file or a link where another path needs a directory, or a file and a link of one path.
    #[error("{path:?} is a file or a link, and {below:?} is there too")]
    Conflict {
        /// The file or link.
        path: String,
        /// The path that is equal to it or below it.
        below: String,
    },
    /// Bytes that no snapshot has as its encoding.
    #[error("not the encoding of a source tree: {0}")]
    Encoding(&'static str),
}

impl Snapshot {
    /// Checks every path and link: none leaves the tree, none is in the way of another.
    pub fn check(&self) -> Result<(), BadSnapshot> {
        let links = self.links.keys().map(String::as_str);
        for path in self.files.keys().map(String::as_str).chain(links) {
            path::check(path).map_err(|why| BadSnapshot::Path {
                path: path.to_string(),
                why,
            })?;
            let conflict = |other: &str| BadSnapshot::Conflict {
                path: other.to_string(),
                below: path.to_string(),
            };
            for (at, _) in path.match_indices('/') {
                let above = &path[..at];
                if self.files.contains_key(above) || self.links.contains_key(above) {
                    return Err(conflict(above));
                }
            }
            if self.files.contains_key(path) && self.links.contains_key(path) {
                return Err(conflict(path));
            }
        }
        for (path, target) in &self.links {
            let nul = target.contains('\0').then_some(BadPath::Nul);
            let checked = path::check_link(path.matches('/').count(), target);
            if let Some(why) = nul.or(checked.err()) {
                return Err(BadSnapshot::Link {
                    path: path.clone(),
                    target: target.clone(),
                    why,
                });
            }
        }
        Ok(())
    }

    /// The canonical bytes: a first line, the number of entries as a little-endian u64, then the
    /// entries sorted by path: a tag (`f` file, `x` executable, `l` link), the path preceded by its
    /// length as u64, then 32 bytes of digest and the size as u64, or the target like the path.
    pub fn canonical(&self) -> Vec<u8> {
        let mut entries: Vec<(&str, Entry<'_>)> = Vec::new();
        entries.extend(self.files.iter().map(|(p, f)| (p.as_str(), Entry::File(f))));
        entries.extend(self.links.iter().map(|(p, t)| (p.as_str(), Entry::Link(t))));
        entries.sort_by_key(|(path, _)| *path);
        let mut out = MAGIC.to_vec();
        out.extend((entries.len() as u64).to_le_bytes());
        for (path, entry) in entries {
            match entry {
                Entry::File(file) => {
                    out.push(if file.executable { b'x' } else { b'f' });
                    text(&mut out, path);
                    out.extend(file.digest.0);
                    out.extend(file.size.to_le_bytes());
                }
                Entry::Link(target) => {
                    out.push(b'l');
                    text(&mut out, path);
                    text(&mut out, target);
                }
            }
        }
        out
    }

    /// Reads back what [`Snapshot::canonical`] wrote, checked as by [`Snapshot::check`].
    pub fn decode(bytes: &[u8]) -> Result<Snapshot, BadSnapshot> {
        let bad = BadSnapshot::Encoding;
        let rest = bytes.strip_prefix(MAGIC).ok_or(bad("wrong first line"))?;
        let mut r = Reader(rest);
        let mut snapshot = Snapshot::default();
        let mut last: Option<String> = None;
        for _ in 0..r.number()? {
            let tag = r.take(1)?[0];
            let path = r.text()?;
            if last.as_ref().is_some_and(|last| *last >= path) {
                return Err(bad("paths are not sorted or not unique"));
            }
            last = Some(path.clone());
            match tag {
                b'f' | b'x' => {
                    let digest = r.take(32)?.try_into().map_err(|_| bad("a digest"))?;
                    let file = FileEntry {
                        digest: Digest(digest),
                        executable: tag == b'x',
                        size: r.number()?,
                    };
                    snapshot.files.insert(path, file);
                }
                b'l' => {
                    let target = r.text()?;
                    snapshot.links.insert(path, target);
                }
                _ => return Err(bad("an unknown tag")),
            }
        }
        if !r.0.is_empty() {
            return Err(bad("bytes after the last entry"));
        }
        snapshot.check()?;
        Ok(snapshot)
    }

    /// The digest of the canonical bytes: the tree's name everywhere.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.canonical())
    }

    /// The sum of all files' sizes, in bytes.
    pub fn total_size(&self) -> u64 {
        self.files.values().map(|f| f.size).sum()
    }

    /// The tree below `directory`, as a tree of its own; links that point out of it are refused.
    pub fn below(&self, directory: &str) -> Result<Snapshot, BadSnapshot> {
        let prefix = format!("{directory}/");
        let inner = |path: &String| path.strip_prefix(&prefix).map(str::to_string);
        let files = self.files.iter();
        let links = self.links.iter();
        let snapshot = Snapshot {
            files: files.filter_map(|(p, f)| Some((inner(p)?, *f))).collect(),
            links: links
                .filter_map(|(p, t)| Some((inner(p)?, t.clone())))
                .collect(),
        };
        snapshot.check()?;
        Ok(snapshot)
    }
}

impl Tree {
    /// Adds a file's bytes at `path`.
    pub fn insert(&mut self, path: String, executable: bool, bytes: Arc<[u8]>) {
        let digest = Digest::of(&bytes);
        let size = bytes.len() as u64;
        self.snapshot.files.insert(
            path,
            FileEntry {
                digest,
                executable,
                size,
            },
        );
        self.blobs.insert(digest, bytes);
    }

    /// Drops the bytes that no file has any more.
    pub fn forget_unused(&mut self) {
        let used: BTreeSet<Digest> = self.snapshot.files.values().map(|f| f.digest).collect();
        self.blobs.retain(|digest, _| used.contains(digest));
    }

    /// The bytes of the file at `path`.
    pub fn bytes(&self, path: &str) -> Option<&Arc<[u8]>> {
        self.blobs.get(&self.snapshot.files.get(path)?.digest)
    }
}

enum Entry<'a> {
    File(&'a FileEntry),
    Link(&'a str),
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], BadSnapshot> {
        let too_early = BadSnapshot::Encoding("it ends too early");
        let (head, tail) = self.0.split_at_checked(n).ok_or(too_early)?;
        self.0 = tail;
        Ok(head)
    }

    fn number(&mut self) -> Result<u64, BadSnapshot> {
        let bytes = self.take(8)?.try_into();
        let bytes = bytes.map_err(|_| BadSnapshot::Encoding("a number"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn text(&mut self) -> Result<String, BadSnapshot> {
        let n = self.number()?;
        let n = usize::try_from(n).map_err(|_| BadSnapshot::Encoding("a length is too large"))?;
        String::from_utf8(self.take(n)?.to_vec())
            .map_err(|_| BadSnapshot::Encoding("a path is not UTF-8"))
    }
}
