//! The list of an evaluation: logical id, key and output of everything it used, as a tree of
//! blobs. Where a chunk ends is decided by the ids alone, so that a changed output changes one
//! chunk of each level, and an id that comes or goes changes its chunk or merges or splits it.
//! Knows nothing of what an id means.
//!
//! A chunk is `EVMF`, version 1, its level, the number of entries as u32, and the entries. At
//! level 0 an entry is id, key, output; above, the last id below a child, its digest, and how
//! many entries of level 0 it holds as u64. Ids are preceded by their length as u32.

use std::collections::{BTreeMap, HashSet};

use super::error::StoreError;
use super::reader::Reader;
use super::record::{Bad, In, Out};
use crate::digest::Digest;
use crate::job::Key;

const MAGIC: &[u8; 4] = b"EVMF";
const VERSION: u8 = 1;
/// A chunk ends after an id whose hash is a multiple of this: so many entries on average.
const MEAN: u32 = 128;
/// A chunk ends here at the latest.
const MOST: usize = 1024;
/// No manifest is higher: with two children to each chunk, this holds more than memory does.
const LEVELS: u8 = 40;
/// Longest logical id in bytes.
const ID_LIMIT: usize = 4096;

/// One line of a manifest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub struct Entry {
    /// What the evaluation calls it, for example `case/sqlite/btree.c/sqlite3BtreeNext/model-x`.
    pub id: String,
    /// The job.
    pub key: Key,
    /// The output that was used.
    pub output: Digest,
}

/// One difference between two manifests: at least one of `old` and `new` is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The logical id.
    pub id: String,
    /// Key and output before.
    pub old: Option<(Key, Digest)>,
    /// Key and output after.
    pub new: Option<(Key, Digest)>,
}

/// A manifest to be stored.
#[derive(Clone, Debug)]
pub struct Built {
    /// The digest of the topmost chunk.
    pub root: Digest,
    /// Every chunk, the root last.
    pub chunks: Vec<Vec<u8>>,
    /// Entries.
    pub len: u64,
}

/// A stored manifest.
#[derive(Clone)]
pub struct Manifest {
    reader: Reader,
    root: Digest,
    len: u64,
}

struct Child {
    last: String,
    digest: Digest,
    len: u64,
}

enum Chunk {
    Leaf(Vec<Entry>),
    Node { level: u8, children: Vec<Child> },
}

impl Manifest {
    /// Builds the chunks of a list, whatever its order. An entry that comes twice is one.
    ///
    /// # Errors
    /// [`StoreError::BadManifest`] if an id has two meanings, or is longer than 4096 bytes.
    pub fn build(entries: impl IntoIterator<Item = Entry>) -> Result<Built, StoreError> {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort();
        entries.dedup();
        for (i, entry) in entries.iter().enumerate() {
            if entry.id.len() > ID_LIMIT {
                let start: String = entry.id.chars().take(80).collect();
                return Err(bad(start, "the id is longer than 4096 bytes"));
            }
            if i > 0 && entries[i - 1].id == entry.id {
                return Err(bad(&entry.id, "the id is given two keys or outputs"));
            }
        }
        let mut built = Built {
            root: Digest([0; 32]),
            chunks: Vec::new(),
            len: entries.len() as u64,
        };
        let mut level = 0;
        let mut row: Vec<Child> = split(&entries, 0, |e| &e.id)
            .map(|part| built.push(Chunk::encode_leaf(part), last_id(part.last()), part.len()))
            .collect();
        while row.len() > 1 {
            level += 1;
            let next = split(&row, level, |c| &c.last).map(|part| {
                let len: u64 = part.iter().map(|c| c.len).sum();
                let last = part.last().map_or(String::new(), |c| c.last.clone());
                built.push(Chunk::encode_node(level, part), last, len as usize)
            });
            row = next.collect();
        }
        built.root = row[0].digest;
        Ok(built)
    }

    /// Opens the manifest with this root; its chunks are read when needed.
    ///
    /// # Errors
    /// [`StoreError::MissingBlob`], [`StoreError::BadManifest`], and those of [`Reader::blob`].
    pub fn load(reader: &Reader, root: Digest) -> Result<Manifest, StoreError> {
        let len = match read_chunk(reader, &root)? {
            Chunk::Leaf(entries) => entries.len() as u64,
            Chunk::Node { children, .. } => {
                children.iter().fold(0, |n: u64, c| n.saturating_add(c.len))
            }
        };
        Ok(Manifest {
            reader: reader.clone(),
            root,
            len,
        })
    }

    /// The digest of the topmost chunk.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, sorted by id.
    ///
    /// # Errors
    /// Those of [`Manifest::load`].
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let mut all = Vec::new();
        self.walk(|_, chunk| {
            if let Chunk::Leaf(entries) = chunk {
                all.extend(entries);
            }
        })?;
        Ok(all)
    }

    /// Key and output of one id; reads one chunk of each level.
    ///
    /// # Errors
    /// Those of [`Manifest::load`].
    pub fn get(&self, id: &str) -> Result<Option<(Key, Digest)>, StoreError> {
        let mut at = self.root;
        let mut above = LEVELS + 1;
        loop {
            match self.descend(&at, above)? {
                Chunk::Leaf(entries) => {
                    let found = entries.binary_search_by(|e| e.id.as_str().cmp(id));
                    return Ok(found.ok().map(|i| (entries[i].key, entries[i].output)));
                }
                Chunk::Node { level, children } => {
                    let i = children.partition_point(|c| c.last.as_str() < id);
                    let Some(child) = children.get(i) else {
                        return Ok(None);
                    };
                    at = child.digest;
                    above = level;
                }
            }
        }
    }

    /// What changed from `a` to `b`, sorted by id. Chunks that both have are not read.
    ///
    /// # Errors
    /// Those of [`Manifest::load`].
    pub fn diff(a: &Manifest, b: &Manifest) -> Result<Vec<Change>, StoreError> {
        let mut old = vec![a.root];
        let mut new = vec![b.root];
        let (mut left, mut right) = (Vec::new(), Vec::new());
        // Level by level from the top. A side whose chunks are higher is expanded alone.
        loop {
            let common: HashSet<Digest> = old.iter().copied().collect();
            let common: HashSet<Digest> =
                new.iter().copied().filter(|d| common.contains(d)).collect();
            old.retain(|d| !common.contains(d));
            new.retain(|d| !common.contains(d));
            let levels = |m: &Manifest, row: &[Digest]| match row.first() {
                Some(digest) => Ok(read_chunk(&m.reader, digest)?.level()),
                None => Ok::<u8, StoreError>(0),
            };
            let (i, j) = (levels(a, &old)?, levels(b, &new)?);
            if i == 0 && j == 0 {
                break;
            }
            if i >= j {
                old = a.expand(&old)?;
            }
            if j >= i {
                new = b.expand(&new)?;
            }
        }
        a.leaves(&old, &mut left)?;
        b.leaves(&new, &mut right)?;
        let mut changes: BTreeMap<String, Change> = BTreeMap::new();
        for entry in left {
            changes.insert(
                entry.id.clone(),
                Change {
                    id: entry.id,
                    old: Some((entry.key, entry.output)),
                    new: None,
                },
            );
        }
        for entry in right {
            let change = changes.entry(entry.id.clone()).or_insert(Change {
                id: entry.id,
                old: None,
                new: None,
            });
            change.new = Some((entry.key, entry.output));
        }
        let changes = changes.into_values();
        Ok(changes.filter(|c| c.old != c.new).collect())
    }

    /// The children of the nodes of one row.
    fn expand(&self, row: &[Digest]) -> Result<Vec<Digest>, StoreError> {
        let (mut below, mut seen) = (Vec::new(), HashSet::new());
        for digest in row {
            match read_chunk(&self.reader, digest)? {
                // A chunk that comes twice is none of ours; read once, it cannot multiply.
                Chunk::Node { children, .. } => {
                    let children = children.iter().map(|c| c.digest);
                    below.extend(children.filter(|d| seen.insert(*d)));
                }
                Chunk::Leaf(_) => return Err(bad(digest, "its chunks have unequal levels")),
            }
        }
        Ok(below)
    }

    fn leaves(&self, row: &[Digest], into: &mut Vec<Entry>) -> Result<(), StoreError> {
        for digest in row {
            match read_chunk(&self.reader, digest)? {
                Chunk::Leaf(entries) => into.extend(entries),
                Chunk::Node { .. } => return Err(bad(digest, "its chunks have unequal levels")),
            }
        }
        Ok(())
    }

    fn descend(&self, digest: &Digest, above: u8) -> Result<Chunk, StoreError> {
        let chunk = read_chunk(&self.reader, digest)?;
        if chunk.level() < above {
            Ok(chunk)
        } else {
            Err(bad(digest, "its level is not below its parent's"))
        }
    }

    /// Calls `f` with the digests of all chunks and their entries, from left to right.
    fn walk(&self, mut f: impl FnMut(Digest, Chunk)) -> Result<(), StoreError> {
        let mut stack = vec![(self.root, LEVELS + 1, None)];
        while let Some((digest, above, last)) = stack.pop() {
            let chunk = self.descend(&digest, above)?;
            // With it, no chunk can come twice below one node, and a small hostile manifest
            // cannot stand for an endless one.
            if last.is_some_and(|last| last != chunk.last()) {
                return Err(bad(digest, "its last id is not the one its parent gives"));
            }
            if let Chunk::Node { level, children } = &chunk {
                let below = children.iter().rev();
                stack.extend(below.map(|c| (c.digest, *level, Some(c.last.clone()))));
            }
            f(digest, chunk);
        }
        Ok(())
    }

    /// The digests of all chunks, and all entries: what `gc` keeps.
    pub(super) fn reach(&self) -> Result<(Vec<Digest>, Vec<Entry>), StoreError> {
        let (mut chunks, mut all) = (Vec::new(), Vec::new());
        self.walk(|digest, chunk| {
            chunks.push(digest);
            if let Chunk::Leaf(entries) = chunk {
                all.extend(entries);
            }
        })?;
        Ok((chunks, all))
    }

    /// Whether a blob begins as a manifest does.
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }
}

impl Built {
    fn push(&mut self, chunk: Vec<u8>, last: String, len: usize) -> Child {
        let digest = Digest::of(&chunk);
        self.chunks.push(chunk);
        Child {
            last,
            digest,
            len: len as u64,
        }
    }
}

fn last_id(entry: Option<&Entry>) -> String {
    entry.map_or(String::new(), |e| e.id.clone())
}

/// Cuts a sorted row into chunks; an empty row is one empty chunk.
fn split<'a, T>(
    row: &'a [T],
    level: u8,
    id: impl Fn(&T) -> &str + 'a,
) -> impl Iterator<Item = &'a [T]> + 'a {
    let mut rest = Some(row);
    std::iter::from_fn(move || {
        let row = rest.take()?;
        let end = row
            .iter()
            .take(MOST)
            .enumerate()
            // Two at least, above the leaves, so that each level is at most half of the one below.
            .position(|(i, t)| (level == 0 || i > 0) && ends_chunk(level, id(t)))
            .map_or(row.len().min(MOST), |i| i + 1);
        let (part, tail) = row.split_at(end);
        rest = (!tail.is_empty()).then_some(tail);
        Some(part)
    })
}

fn ends_chunk(level: u8, id: &str) -> bool {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[level]);
    hasher.update(id.as_bytes());
    let hash = hasher.finalize();
    let word = u32::from_le_bytes(hash.as_bytes()[..4].try_into().expect("4 bytes"));
    word.is_multiple_of(MEAN)
}

fn read_chunk(reader: &Reader, digest: &Digest) -> Result<Chunk, StoreError> {
    let bytes = reader
        .blob(digest)?
        .ok_or_else(|| StoreError::MissingBlob {
            what: "a manifest".to_string(),
            digest: *digest,
        })?;
    Chunk::decode(&bytes).map_err(|e| bad(digest, e.0))
}

fn bad(at: impl std::fmt::Display, why: &str) -> StoreError {
    StoreError::BadManifest {
        at: at.to_string(),
        why: why.to_string(),
    }
}

impl Chunk {
    fn level(&self) -> u8 {
        match self {
            Chunk::Leaf(_) => 0,
            Chunk::Node { level, .. } => *level,
        }
    }

    fn last(&self) -> &str {
        let last = match self {
            Chunk::Leaf(entries) => entries.last().map(|e| e.id.as_str()),
            Chunk::Node { children, .. } => children.last().map(|c| c.last.as_str()),
        };
        last.unwrap_or("")
    }

    fn header(level: u8, len: usize) -> Out {
        let mut out = Out(MAGIC.to_vec());
        out.u8(VERSION);
        out.u8(level);
        out.u32(len as u32);
        out
    }

    fn encode_leaf(entries: &[Entry]) -> Vec<u8> {
        let mut out = Chunk::header(0, entries.len());
        for entry in entries {
            out.text(&entry.id);
            out.digest(&entry.key.0);
            out.digest(&entry.output);
        }
        out.0
    }

    fn encode_node(level: u8, children: &[Child]) -> Vec<u8> {
        let mut out = Chunk::header(level, children.len());
        for child in children {
            out.text(&child.last);
            out.digest(&child.digest);
            out.u64(child.len);
        }
        out.0
    }

    fn decode(bytes: &[u8]) -> Result<Chunk, Bad> {
        let mut r = In(bytes);
        if r.take(4)? != MAGIC {
            return Err(Bad("it does not begin as a manifest does"));
        }
        if r.u8()? != VERSION {
            return Err(Bad("it has another version; a newer program wrote it"));
        }
        let level = r.u8()?;
        if level > LEVELS {
            return Err(Bad("its level is out of range"));
        }
        let n = r.u32()?;
        let (mut entries, mut children) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let id = r.text()?;
            let digest = r.digest()?;
            if level == 0 {
                entries.push(Entry {
                    id,
                    key: Key(digest),
                    output: r.digest()?,
                });
            } else {
                children.push(Child {
                    last: id,
                    digest,
                    len: r.u64()?,
                });
            }
        }
        r.end()?;
        let sorted = entries.is_sorted_by(|a, b| a.id < b.id)
            && children.is_sorted_by(|a, b| a.last < b.last);
        if !sorted || (level > 0 && n == 0) {
            return Err(Bad("its entries are not sorted, or there are none"));
        }
        Ok(if level == 0 {
            Chunk::Leaf(entries)
        } else {
            Chunk::Node { level, children }
        })
    }
}
