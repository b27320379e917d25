//! One consistent snapshot of a store. Every value is checked before it is handed out: what comes
//! back is what was stored, nothing, or an error. Never writes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata};

use super::blob::{self, Place};
use super::error::StoreError;
use super::index::{self, Fault, guard};
use super::layout::Layout;
use super::open::{Access, Inner, WritingLock};
use super::record::{
    self, ActionRecord, Attempt, Bad, Conflict, Departed, Provenance, Quarantined, Removed,
};
use crate::digest::Digest;
use crate::job::{JobRecord, Key, Nature};

pub(super) type ByDigest = ReadOnlyTable<&'static [u8; 32], &'static [u8]>;

/// A snapshot. Cheap to clone; may be shared between threads. It keeps the pages it sees from
/// being used again, so it should not outlive the work it is for.
#[derive(Clone)]
pub struct Reader(pub(super) Arc<Snapshot>);

pub(super) struct Snapshot {
    pub layout: Layout,
    /// Weak, so that a forgotten reader does not keep the store locked.
    store: Weak<Inner>,
    /// Which opening of the index this is a snapshot of.
    generation: u64,
    pub epoch: u64,
    pub actions: ByDigest,
    pub jobs: ByDigest,
    pub blobs: ByDigest,
    pub rows: ByDigest,
    pub txn: ReadTransaction,
}

/// A finished job: what was asked, what came out, how.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Action {
    /// The work order.
    pub job: JobRecord,
    /// The output.
    pub output: Digest,
    /// Further blobs that the output names.
    pub blobs: Vec<Digest>,
    /// The nature of its kind when it was committed.
    pub nature: Nature,
    /// When it was committed, milliseconds since 1970 UTC.
    pub committed_at: u64,
    /// How the output came to be.
    pub provenance: Provenance,
}

/// An action in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// The kind's name.
    pub kind: String,
    /// The kind's version.
    pub version: u32,
    /// The output.
    pub output: Digest,
}

/// How many actions of one kind and version there are.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct KindCount {
    /// The kind's name.
    pub kind: String,
    /// The kind's version.
    pub version: u32,
    /// Actions.
    pub actions: u64,
}

impl Reader {
    /// Who holds the writing lock must give it.
    pub(super) fn new(
        inner: &Arc<Inner>,
        lock: Option<&WritingLock>,
    ) -> Result<Reader, StoreError> {
        inner.with_handle(lock, |handle, generation| {
            let txn = handle.begin_read()?;
            let epoch = txn.open_table(index::META)?.get(index::EPOCH)?;
            Ok(Reader(Arc::new(Snapshot {
                layout: inner.layout.clone(),
                store: Arc::downgrade(inner),
                generation,
                epoch: epoch.map_or(0, |e| e.value()),
                actions: txn.open_table(index::ACTIONS)?,
                jobs: txn.open_table(index::JOBS)?,
                blobs: txn.open_table(index::BLOBS)?,
                rows: txn.open_table(index::ROWS)?,
                txn,
            })))
        })
    }

    /// The epoch of this snapshot: rows computed from it are stored under it ([`super::Store::put_rows`]).
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// The output of a job, if it is known. A point read.
    ///
    /// # Errors
    /// [`StoreError::CorruptAction`] and the errors of the index.
    pub fn output(&self, key: &Key) -> Result<Option<Digest>, StoreError> {
        self.guard(|| {
            let record = self.0.actions.get(&key.0.0)?;
            let output = record.map(|r| ActionRecord::output(key, r.value()));
            Ok(output.transpose().map_err(|bad| corrupt_action(key, bad))?)
        })
    }

    /// All that is known about a finished job.
    ///
    /// # Errors
    /// [`StoreError::CorruptAction`] and the errors of the index.
    pub fn action(&self, key: &Key) -> Result<Option<Action>, StoreError> {
        self.guard(|| {
            let Some(bytes) = self.0.actions.get(&key.0.0)? else {
                return Ok(None);
            };
            let record =
                ActionRecord::open(key, bytes.value()).map_err(|bad| corrupt_action(key, bad))?;
            let job = self.0.jobs.get(&key.0.0)?;
            let job = job.ok_or_else(|| corrupt_action(key, Bad("its job is missing")))?;
            Ok(Some(Action {
                job: decode_job(key, job.value())?,
                output: record.output,
                blobs: record.blobs,
                nature: record.nature,
                committed_at: record.committed_at,
                provenance: record.provenance,
            }))
        })
    }

    /// The bytes of a blob, checked against the digest; `None` when it is not in the store.
    ///
    /// # Errors
    /// [`StoreError::CorruptBlob`], [`StoreError::Gone`] and the errors of the index.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        let read = self.guard(|| {
            let record = self.0.blobs.get(&digest.0)?;
            let read = record.map(|r| blob::read(&self.0.layout, digest, r.value()));
            Ok(read.transpose()?)
        });
        match read {
            Err(StoreError::CorruptBlob { .. }) if self.is_gone(digest) => {
                Err(StoreError::Gone { digest: *digest })
            }
            read => read,
        }
    }

    /// Whether the blob is in the index; its bytes are not read.
    ///
    /// # Errors
    /// Those of the index.
    pub fn has_blob(&self, digest: &Digest) -> Result<bool, StoreError> {
        self.guard(|| Ok(self.0.blobs.get(&digest.0)?.is_some()))
    }

    /// The bytes behind an input's digest: the same as [`Reader::blob`].
    ///
    /// # Errors
    /// Those of [`Reader::blob`].
    pub fn preimage(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.blob(digest)
    }

    /// The actions of a kind, or all, in the order of their keys.
    ///
    /// # Errors
    /// Those of the index, also for each item; after one of these the listing ends. A corrupt
    /// record is an `Err` item of its own, and the listing goes on.
    pub fn actions(&self, kind: Option<&str>) -> Result<Actions, StoreError> {
        let range = self.guard(|| Ok(self.0.actions.range_owned::<&[u8; 32]>(..)?))?;
        Ok(Actions {
            range,
            kind: kind.map(str::to_string),
            reader: self.clone(),
            ended: false,
        })
    }

    /// How many actions there are by kind and version, sorted.
    ///
    /// # Errors
    /// Those of the index. Corrupt records are not counted.
    pub fn counts_by_kind(&self) -> Result<Vec<KindCount>, StoreError> {
        let mut counts = BTreeMap::new();
        for action in self.actions(None)? {
            match action {
                Ok(a) => *counts.entry((a.kind, a.version)).or_insert(0) += 1,
                Err(StoreError::CorruptAction { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let counts = counts.into_iter();
        Ok(counts
            .map(|((kind, version), actions)| KindCount {
                kind,
                version,
                actions,
            })
            .collect())
    }

    /// A row, if it was computed in this snapshot's epoch. A corrupt row is no row: it can be
    /// computed again.
    ///
    /// # Errors
    /// Those of the index.
    pub fn row(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.guard(|| {
            let bytes = self.0.rows.get(&digest.0)?;
            Ok(bytes
                .and_then(|b| record::open_row(digest, b.value()).ok())
                .filter(|(epoch, _)| *epoch == self.0.epoch)
                .map(|(_, row)| row))
        })
    }

    /// The digest of a named root.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a corrupt record, and the errors of the index.
    pub fn root(&self, name: &str) -> Result<Option<Digest>, StoreError> {
        self.guard(|| {
            let bytes = self.0.txn.open_table(index::ROOTS)?.get(name)?;
            let root = bytes.map(|b| record::open_root(name, b.value()));
            Ok(root.transpose().map_err(|bad| self.bad_root(name, bad))?)
        })
    }

    /// All named roots, sorted by name.
    ///
    /// # Errors
    /// Those of [`Reader::root`].
    pub fn roots(&self) -> Result<Vec<(String, Digest)>, StoreError> {
        self.guard(|| {
            let mut roots = Vec::new();
            for entry in self.0.txn.open_table(index::ROOTS)?.iter()? {
                let (name, bytes) = entry?;
                let name = name.value().to_string();
                let digest = record::open_root(&name, bytes.value())
                    .map_err(|bad| self.bad_root(&name, bad))?;
                roots.push((name, digest));
            }
            Ok(roots)
        })
    }

    /// Second outputs, sorted by key.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a corrupt record, and the errors of the index.
    pub fn conflicts(&self) -> Result<Vec<Conflict>, StoreError> {
        self.guard(|| {
            let mut conflicts = Vec::new();
            for entry in self.0.txn.open_table(index::CONFLICTS)?.iter()? {
                let (key, bytes) = entry?;
                let conflict = Conflict::open(key.value(), bytes.value());
                conflicts.push(conflict.map_err(|bad| self.bad_log("conflicts", bad))?);
            }
            Ok(conflicts)
        })
    }

    /// The failed attempts at a job, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a corrupt record, and the errors of the index.
    pub fn attempts(&self, key: &Key) -> Result<Vec<Attempt>, StoreError> {
        self.guard(|| {
            let by_key = self.0.txn.open_table(index::ATTEMPTS_BY_KEY)?;
            let attempts = self.0.txn.open_table(index::ATTEMPTS)?;
            let (from, to) = (attempt_key(key, 0), attempt_key(key, u64::MAX));
            let mut found = Vec::new();
            for entry in
                by_key.range::<&[u8; 40]>((Bound::Included(&from), Bound::Included(&to)))?
            {
                let (k, _) = entry?;
                let seq = u64::from_be_bytes(k.value()[32..].try_into().expect("8 bytes"));
                if let Some(bytes) = attempts.get(seq)? {
                    let attempt = Attempt::open(seq, bytes.value());
                    found.push(attempt.map_err(|bad| self.bad_log("attempts", bad))?);
                }
            }
            Ok(found)
        })
    }

    /// The last `n` failed attempts at any job, newest first.
    ///
    /// # Errors
    /// Those of [`Reader::attempts`].
    pub fn recent_attempts(&self, n: usize) -> Result<Vec<Attempt>, StoreError> {
        self.guard(|| {
            let mut found = Vec::new();
            let attempts = self.0.txn.open_table(index::ATTEMPTS)?;
            for entry in attempts.iter()?.rev().take(n) {
                let (seq, bytes) = entry?;
                let attempt = Attempt::open(seq.value(), bytes.value());
                found.push(attempt.map_err(|bad| self.bad_log("attempts", bad))?);
            }
            Ok(found)
        })
    }

    /// The actions that a user deleted, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a corrupt record, and the errors of the index.
    pub fn removed(&self) -> Result<Vec<Removed>, StoreError> {
        let departed = self.departed("removed", index::REMOVED)?;
        Ok(departed
            .into_iter()
            .map(|d| Removed {
                job: d.job(),
                key: d.key,
                output: d.output,
                at_ms: d.at_ms,
            })
            .collect())
    }

    /// The actions that were taken out because their bytes are corrupt, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a corrupt record, and the errors of the index.
    pub fn quarantined(&self) -> Result<Vec<Quarantined>, StoreError> {
        let departed = self.departed("quarantine", index::QUARANTINE)?;
        Ok(departed
            .into_iter()
            .map(|d| Quarantined {
                job: d.job(),
                key: d.key,
                output: d.output,
                at_ms: d.at_ms,
                reason: d.reason,
            })
            .collect())
    }

    fn departed(&self, table: &str, log: index::BySeq) -> Result<Vec<Departed>, StoreError> {
        self.guard(|| {
            let mut found = Vec::new();
            for entry in self.0.txn.open_table(log)?.iter()? {
                let (seq, bytes) = entry?;
                let departed = Departed::open(table, seq.value(), bytes.value());
                found.push(departed.map_err(|bad| self.bad_log(table, bad))?);
            }
            Ok(found)
        })
    }

    pub(super) fn guard<T>(&self, f: impl FnOnce() -> Result<T, Fault>) -> Result<T, StoreError> {
        let result = guard(&self.0.layout.dir, f);
        if let Err(StoreError::Closed { .. }) = &result
            && let Some(store) = self.0.store.upgrade()
        {
            store.suspect(self.0.generation);
        }
        result
    }

    /// Whether a blob that cannot be read has meanwhile left the store, or moved within it.
    fn is_gone(&self, digest: &Digest) -> bool {
        let Some(store) = self.0.store.upgrade() else {
            return false;
        };
        let record = |blobs: &ByDigest| Ok(blobs.get(&digest.0)?.map(|r| r.value().to_vec()));
        let now = store.peek(|handle| record(&handle.begin_read()?.open_table(index::BLOBS)?));
        let then = self.guard(|| record(&self.0.blobs));
        matches!((then, now), (Ok(Some(_)), Some(None)))
    }

    pub(super) fn access(&self) -> Option<Access> {
        self.0.store.upgrade().map(|s| s.access)
    }

    pub(super) fn bad_log(&self, table: &str, bad: Bad) -> StoreError {
        StoreError::damaged(
            &self.0.layout.dir,
            format!("a record of its log `{table}` is corrupt: {bad}"),
        )
    }

    fn bad_root(&self, name: &str, bad: Bad) -> StoreError {
        StoreError::damaged(
            &self.0.layout.dir,
            format!("its root `{name}` is corrupt: {bad}; set it again"),
        )
    }

    /// How many records the log or table holds.
    pub(super) fn count(&self, log: index::BySeq) -> Result<u64, StoreError> {
        self.guard(|| Ok(self.0.txn.open_table(log)?.len()?))
    }

    /// Where a blob's bytes are and how many: for statistics.
    pub(super) fn blob_places(
        &self,
        mut f: impl FnMut(Digest, Result<(bool, u64, u64), StoreError>),
    ) -> Result<(), StoreError> {
        self.guard(|| {
            for entry in self.0.blobs.iter()? {
                let (digest, bytes) = entry?;
                let digest = Digest(*digest.value());
                let place = Place::parse(&digest, bytes.value()).map(|place| match place {
                    Place::Inline { len, body, .. } => (true, len, body.len() as u64),
                    Place::File { len, stored, .. } => (false, len, stored),
                });
                f(digest, place);
            }
            Ok(())
        })
    }
}

/// An iterator over actions; see [`Reader::actions`].
pub struct Actions {
    range: redb::OwnedRange<&'static [u8; 32], &'static [u8]>,
    kind: Option<String>,
    reader: Reader,
    ended: bool,
}

impl Iterator for Actions {
    type Item = Result<Listed, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let range = &mut self.range;
            let next = self.reader.guard(|| {
                let Some(entry) = range.next() else {
                    return Ok(None);
                };
                let (key, bytes) = entry?;
                let key = Key(Digest(*key.value()));
                let record = ActionRecord::open(&key, bytes.value());
                Ok(Some((key, record)))
            });
            match next {
                Ok(None) => self.ended = true,
                Ok(Some((key, Err(bad)))) => return Some(Err(corrupt_action(&key, bad))),
                Ok(Some((key, Ok(record)))) => {
                    if self.kind.as_ref().is_none_or(|kind| *kind == record.kind) {
                        return Some(Ok(Listed {
                            key,
                            kind: record.kind,
                            version: record.version,
                            output: record.output,
                        }));
                    }
                }
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

pub(super) fn corrupt_action(key: &Key, bad: Bad) -> StoreError {
    StoreError::CorruptAction {
        key: *key,
        why: bad.0.to_string(),
    }
}

/// A job's encoding is its own seal: it hashes to the key.
pub(super) fn decode_job(key: &Key, encoding: &[u8]) -> Result<JobRecord, StoreError> {
    let corrupt = |why: String| StoreError::CorruptAction { key: *key, why };
    if JobRecord::key_of(encoding) != *key {
        return Err(corrupt("its job hashes to another key".into()));
    }
    JobRecord::decode(encoding).map_err(|e| corrupt(e.to_string()))
}

pub(super) fn attempt_key(key: &Key, seq: u64) -> [u8; 40] {
    let mut k = [0; 40];
    k[..32].copy_from_slice(&key.0.0);
    k[32..].copy_from_slice(&seq.to_be_bytes());
    k
}
