//! Removing what no evaluation uses any more. Only ever called because a user asked; it keeps
//! everything that a named root reaches, and gives up before removing anything when it cannot
//! follow a root.

use std::collections::HashSet;
use std::fs;

use redb::{ReadableTable, ReadableTableMetadata};

use super::blob::Place;
use super::error::StoreError;
use super::index;
use super::manifest::Manifest;
use super::open::{Access, Store, WritingLock};
use super::reader::{Reader, corrupt_action, decode_job};
use super::record::{ActionRecord, Bad};
use super::rows::raise_epoch;
use crate::digest::Digest;
use crate::job::{Key, Value};

/// What `gc` removed, or would remove.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct GcReport {
    /// Nothing was removed: this is what would be.
    pub dry_run: bool,
    /// Roots that were followed.
    pub roots: u64,
    /// Actions that stay.
    pub kept_actions: u64,
    /// Blobs that stay.
    pub kept_blobs: u64,
    /// Actions that go.
    pub actions: u64,
    /// Second outputs that go, with the actions they belong to.
    pub conflicts: u64,
    /// Blobs that go.
    pub blobs: u64,
    /// Stored bytes of the blobs that go, in the index and in files.
    pub bytes: u64,
    /// Files that no blob of the index had: left by an interrupted write.
    pub leftover_files: u64,
    /// Files among the blobs that the store has not made; they stay.
    pub foreign_files: u64,
    /// Whether the index gave room back to the file system; it cannot while a reader is open.
    pub compacted: bool,
}

/// What is reached.
#[derive(Default)]
pub(super) struct Live {
    /// Also of actions that are no longer there.
    pub keys: HashSet<Key>,
    /// Also those that are not in the store.
    pub blobs: HashSet<Digest>,
}

impl Store {
    /// Removes every action and blob that neither a named root nor one of `also` reaches, then
    /// compacts the index. A root that is a manifest reaches its chunks, the actions and outputs
    /// it lists, their further blobs, the blobs behind their inputs, and their conflicts; any
    /// other root reaches itself. Logs stay. All rows are forgotten if an action goes.
    ///
    /// # Errors
    /// [`StoreError::NoRoots`]; any error on the way from the roots, before anything is removed;
    /// those of the index and the files.
    pub fn gc(&self, also: &[Digest], dry_run: bool) -> Result<GcReport, StoreError> {
        let inner = &self.inner;
        if inner.access == Access::ReadOnly && !dry_run {
            return Err(StoreError::ReadOnly {
                dir: inner.layout.dir.clone(),
            });
        }
        let lock = inner.lock_writing();
        let reader = Reader::new(inner, Some(&lock))?;
        let mut report = GcReport {
            dry_run,
            ..GcReport::default()
        };
        let mut roots = reader.roots()?;
        roots.extend(also.iter().map(|d| ("given".to_string(), *d)));
        if roots.is_empty() {
            return Err(StoreError::NoRoots {
                dir: inner.layout.dir.clone(),
            });
        }
        report.roots = roots.len() as u64;
        let live = mark(&reader, &roots)?;
        let condemned = condemned(&reader, &live, &mut report)?;
        drop(reader);
        if !dry_run {
            inner.write_locked(&lock, |txn| {
                let live_key = |k: &[u8; 32]| live.keys.contains(&Key(Digest(*k)));
                txn.open_table(index::ACTIONS)?.retain(|k, _| live_key(k))?;
                txn.open_table(index::JOBS)?.retain(|k, _| live_key(k))?;
                txn.open_table(index::CONFLICTS)?
                    .retain(|k, _| k.first_chunk().is_some_and(live_key))?;
                txn.open_table(index::BLOBS)?
                    .retain(|d, _| live.blobs.contains(&Digest(*d)))?;
                if report.actions > 0 {
                    raise_epoch(txn)?;
                }
                Ok(())
            })?;
            for digest in condemned {
                let path = inner.layout.blob(&digest);
                fs::remove_file(&path)
                    .or_else(|e| match e.kind() {
                        std::io::ErrorKind::NotFound => Ok(()),
                        _ => Err(e),
                    })
                    .map_err(|e| StoreError::io(&path, "removing a blob", e))?;
            }
        }
        self.leftovers(&lock, &mut report)?;
        if !dry_run && report.actions + report.blobs > 0 {
            report.compacted = inner.compact(&lock)?;
        }
        Ok(report)
    }

    /// Files under `blobs/` that the index does not name.
    fn leftovers(&self, lock: &WritingLock, report: &mut GcReport) -> Result<(), StoreError> {
        let reader = Reader::new(&self.inner, Some(lock))?;
        for (path, digest) in self.inner.layout.blob_files()? {
            let Some(digest) = digest else {
                report.foreign_files += 1;
                continue;
            };
            let named = reader.guard(|| {
                let record = reader.0.blobs.get(&digest.0)?;
                Ok(record.is_some_and(|r| {
                    // A record that cannot be read may be a file's: when in doubt it stays.
                    !matches!(Place::parse(&digest, r.value()), Ok(Place::Inline { .. }))
                }))
            })?;
            if !named {
                report.leftover_files += 1;
                if !report.dry_run {
                    fs::remove_file(&path)
                        .map_err(|e| StoreError::io(&path, "removing a leftover", e))?;
                }
            }
        }
        Ok(())
    }
}

/// Follows roots, given by name and digest.
pub(super) fn mark(reader: &Reader, roots: &[(String, Digest)]) -> Result<Live, StoreError> {
    let mut live = Live::default();
    for (name, digest) in roots {
        let digest = *digest;
        let bytes = reader
            .blob(&digest)?
            .ok_or_else(|| StoreError::MissingBlob {
                what: format!("root `{name}`"),
                digest,
            })?;
        live.blobs.insert(digest);
        if Manifest::is_one(&bytes) {
            let (chunks, entries) = Manifest::load(reader, digest)?.reach()?;
            live.blobs.extend(chunks);
            for entry in entries {
                live.blobs.insert(entry.output);
                if live.keys.insert(entry.key) {
                    mark_action(reader, &entry.key, &mut live)?;
                }
            }
        }
    }
    for conflict in reader.conflicts()? {
        if live.keys.contains(&conflict.key) {
            live.blobs.insert(conflict.other);
            live.blobs.extend(conflict.other_blobs);
        }
    }
    Ok(live)
}

fn mark_action(reader: &Reader, key: &Key, live: &mut Live) -> Result<(), StoreError> {
    reader.guard(|| {
        let Some(bytes) = reader.0.actions.get(&key.0.0)? else {
            return Ok(());
        };
        let record =
            ActionRecord::open(key, bytes.value()).map_err(|bad| corrupt_action(key, bad))?;
        live.blobs.insert(record.output);
        live.blobs.extend(record.blobs);
        let job = reader.0.jobs.get(&key.0.0)?;
        let job = job.ok_or_else(|| corrupt_action(key, Bad("its job is missing")))?;
        let job = decode_job(key, job.value())?;
        live.blobs
            .extend(job.inputs.values().flat_map(Value::digests));
        Ok(())
    })
}

/// Counts what goes; returns the blobs that have a file.
fn condemned(
    reader: &Reader,
    live: &Live,
    report: &mut GcReport,
) -> Result<Vec<Digest>, StoreError> {
    reader.guard(|| {
        for entry in reader.0.actions.iter()? {
            let (key, _) = entry?;
            if live.keys.contains(&Key(Digest(*key.value()))) {
                report.kept_actions += 1;
            } else {
                report.actions += 1;
            }
        }
        let conflicts = reader.0.txn.open_table(index::CONFLICTS)?;
        let all = conflicts.len()?;
        let mut kept = 0;
        for entry in conflicts.iter()? {
            let (key, _) = entry?;
            let key = key.value().first_chunk().expect("64 bytes have 32");
            kept += u64::from(live.keys.contains(&Key(Digest(*key))));
        }
        report.conflicts = all - kept;
        Ok(())
    })?;
    let mut files = Vec::new();
    reader.blob_places(|digest, place| {
        if live.blobs.contains(&digest) {
            report.kept_blobs += 1;
            return;
        }
        report.blobs += 1;
        match place {
            Ok((inline, _, stored)) => {
                report.bytes += stored;
                if !inline {
                    files.push(digest);
                }
            }
            Err(_) => files.push(digest),
        }
    })?;
    Ok(files)
}
