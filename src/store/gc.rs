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
use super::retain::{self, ClassReport, Retention};
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
    /// Roots that were forgotten first.
    pub forgotten_roots: Vec<String>,
    /// What becomes of each class of actions, if classes were given.
    pub classes: Vec<ClassReport>,
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
        let retention = Retention {
            also,
            always: &[],
            forget: &[],
            pins: |_| true,
            classes: &[],
        };
        self.sweep(&retention, dry_run)
    }

    /// As [`Store::gc`], with a say in what stays: kinds that nothing needs, and what old roots
    /// alone reach as far as the budgets allow. A manifest whose actions went by a budget stays,
    /// and lists what is no longer there.
    ///
    /// # Errors
    /// As [`Store::gc`].
    pub fn sweep(&self, retention: &Retention, dry_run: bool) -> Result<GcReport, StoreError> {
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
        let (forgotten, mut roots): (Vec<_>, Vec<_>) = reader
            .roots()?
            .into_iter()
            .partition(|(name, _)| retention.forget.contains(name));
        report.forgotten_roots = forgotten.into_iter().map(|(name, _)| name).collect();
        roots.extend(retention.also.iter().map(|d| ("given".to_string(), *d)));
        if roots.is_empty() {
            return Err(StoreError::NoRoots {
                dir: inner.layout.dir.clone(),
            });
        }
        report.roots = roots.len() as u64;
        let none = HashSet::new();
        let mut live = mark(&reader, &roots, &none)?;
        let mut gone = HashSet::new();
        if retention.classes.iter().any(|c| c.budget.is_some()) {
            let pins = roots.iter().filter(|(name, _)| (retention.pins)(name));
            let pins: Vec<_> = pins.cloned().collect();
            let pinned = mark(&reader, &pins, &none)?;
            gone = retain::over_budget(&reader, &live, &pinned, retention)?;
        }
        if !gone.is_empty() {
            live = mark(&reader, &roots, &gone)?;
        }
        for key in retain::of_kinds(&reader, retention.always)? {
            if live.keys.insert(key) {
                mark_action(&reader, &key, &mut live)?;
            }
        }
        mark_conflicts(&reader, &mut live)?;
        report.classes = retain::report(&reader, &live, &gone, retention)?;
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
                for name in &report.forgotten_roots {
                    txn.open_table(index::ROOTS)?.remove(name.as_str())?;
                }
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

    /// Gives room that is free in the index back to the file system. `false` when there is none, or
    /// a reader is open.
    ///
    /// # Errors
    /// Those of the index.
    pub fn compact(&self) -> Result<bool, StoreError> {
        if self.inner.access == Access::ReadOnly {
            return Err(StoreError::ReadOnly {
                dir: self.inner.layout.dir.clone(),
            });
        }
        self.inner.compact(&self.inner.lock_writing())
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

/// Follows roots, given by name and digest, past the actions in `gone`.
pub(super) fn mark(
    reader: &Reader,
    roots: &[(String, Digest)],
    gone: &HashSet<Key>,
) -> Result<Live, StoreError> {
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
            for entry in entries.into_iter().filter(|e| !gone.contains(&e.key)) {
                live.blobs.insert(entry.output);
                if live.keys.insert(entry.key) {
                    mark_action(reader, &entry.key, &mut live)?;
                }
            }
        }
    }
    Ok(live)
}

/// Second outputs stay with their actions.
pub(super) fn mark_conflicts(reader: &Reader, live: &mut Live) -> Result<(), StoreError> {
    for conflict in reader.conflicts()? {
        if live.keys.contains(&conflict.key) {
            live.blobs.insert(conflict.other);
            live.blobs.extend(conflict.other_blobs);
        }
    }
    Ok(())
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
