//! Writing: batches of finished jobs, failed attempts, roots, and taking out what a user or a
//! corrupt byte condemns. Each call is one transaction; files of blobs are durable before the
//! transaction that names them is committed. The first output of a key is never replaced.

use std::borrow::Cow;
use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};

use super::blob::{self, Writer};
use super::error::StoreError;
use super::index::{self, Fault};
use super::layout::now_ms;
use super::manifest::Built;
use super::open::Store;
use super::reader::{attempt_key, corrupt_action};
use super::record::{self, ActionRecord, Attempt, Bad, Conflict, Departed, Provenance};
use super::rows::raise_epoch;
use crate::digest::Digest;
use crate::job::{Job, Key, Nature};

/// A job that was executed.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The job; the preimages it carries are stored with it.
    pub job: Job,
    /// The output.
    pub output: Vec<u8>,
    /// Further blobs, which the output names by digest.
    pub blobs: Vec<Vec<u8>>,
    /// How the output came to be.
    pub provenance: Provenance,
}

/// What a batch did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Committed {
    /// Keys that have their output from this batch, sorted.
    pub stored: Vec<Key>,
    /// Keys that had this same output already.
    pub equal: u64,
    /// Keys that had another output, which stands.
    pub conflicts: Vec<Conflict>,
    /// Blobs that were new.
    pub new_blobs: u64,
    /// Plain bytes of the new blobs.
    pub new_bytes: u64,
}

/// Blobs of a batch, each once, in the order of the index.
pub(super) type Blobs<'a> = BTreeMap<Digest, Cow<'a, [u8]>>;

/// When a blob that the index has is taken to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Its file has the length that was stored.
    Length,
    /// Its bytes have the digest.
    Bytes,
}

impl Store {
    /// Stores finished jobs in one transaction: all of them are durable when this returns `Ok`,
    /// and none was stored otherwise. Of two outputs for one key the first stands, also within a
    /// batch; a different second one is kept as a conflict.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::WrongPreimage`], [`StoreError::Observation`], and those
    /// of the index and the files.
    pub fn commit(&self, batch: Vec<Completed>) -> Result<Committed, StoreError> {
        let mut blobs = Blobs::new();
        let mut actions = Vec::with_capacity(batch.len());
        let at = now_ms();
        for done in &batch {
            let key = done.job.key();
            if done.job.kind().nature == Nature::Observed {
                let kind = done.job.kind().name;
                return Err(StoreError::Observation { key, kind });
            }
            for (digest, bytes) in done.job.preimages() {
                if !blobs.contains_key(digest) {
                    if Digest::of(bytes) != *digest {
                        let digest = *digest;
                        return Err(StoreError::WrongPreimage { key, digest });
                    }
                    blobs.insert(*digest, Cow::Borrowed(bytes));
                }
            }
            let output = Digest::of(&done.output);
            blobs.entry(output).or_insert(Cow::Borrowed(&done.output));
            let mut further = Vec::with_capacity(done.blobs.len());
            for bytes in &done.blobs {
                let digest = Digest::of(bytes);
                blobs.entry(digest).or_insert(Cow::Borrowed(bytes));
                further.push(digest);
            }
            let record = ActionRecord {
                output,
                nature: done.job.kind().nature,
                committed_at: at,
                kind: done.job.kind().name.to_string(),
                version: done.job.kind().version,
                blobs: further,
                provenance: done.provenance.clone(),
            };
            actions.push((key, record, Order::Job(&done.job)));
        }
        // Stable: of two outputs for one key, the one that came first in the batch comes first.
        actions.sort_by_key(|(key, ..)| *key);
        self.inner.write(|txn| {
            let mut committed = Committed::default();
            self.put_new_blobs(txn, &blobs, Trust::Length, &mut committed)?;
            put_actions(txn, &actions, &mut committed)?;
            Ok(committed)
        })
    }

    /// Stores blobs that belong to no action: chunks of a manifest, a release document. Unless a
    /// root reaches them, the next `gc` removes them.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn put_blobs<B: AsRef<[u8]>>(&self, blobs: &[B]) -> Result<Vec<Digest>, StoreError> {
        let digests: Vec<_> = blobs.iter().map(|b| Digest::of(b.as_ref())).collect();
        let named = digests.iter().copied();
        let named = named.zip(blobs.iter().map(|b| Cow::Borrowed(b.as_ref())));
        let named: Blobs = named.collect();
        self.inner.write(|txn| {
            self.put_new_blobs(txn, &named, Trust::Length, &mut Committed::default())
        })?;
        Ok(digests)
    }

    /// Writes the blobs that are absent, or whose file is. Files are durable afterwards.
    pub(super) fn put_new_blobs(
        &self,
        txn: &WriteTransaction,
        blobs: &Blobs,
        trust: Trust,
        committed: &mut Committed,
    ) -> Result<(), Fault> {
        let layout = &self.inner.layout;
        let mut table = txn.open_table(index::BLOBS)?;
        let mut writer = Writer::new(layout);
        for (digest, plain) in blobs {
            let whole = table.get(&digest.0)?.is_some_and(|record| match trust {
                Trust::Length => blob::looks_whole(layout, digest, record.value()),
                Trust::Bytes => blob::read(layout, digest, record.value()).is_ok(),
            });
            if !whole {
                let record = writer.put(digest, plain)?;
                table.insert(&digest.0, record.as_slice())?;
                committed.new_blobs += 1;
                committed.new_bytes += plain.len() as u64;
            }
        }
        Ok(writer.sync()?)
    }

    /// Logs a failed attempt.
    ///
    /// # Errors
    /// Those of the index.
    pub fn attempt(&self, attempt: Attempt) -> Result<(), StoreError> {
        self.attempts(std::slice::from_ref(&attempt))
    }

    /// Logs failed attempts in one transaction.
    ///
    /// # Errors
    /// Those of the index.
    pub fn attempts(&self, attempts: &[Attempt]) -> Result<(), StoreError> {
        self.inner.write(|txn| {
            let first = index::next_seq(txn, index::ATTEMPTS)?;
            let mut log = txn.open_table(index::ATTEMPTS)?;
            let mut by_key = txn.open_table(index::ATTEMPTS_BY_KEY)?;
            for (seq, attempt) in (first..).zip(attempts) {
                log.insert(seq, attempt.seal(seq).as_slice())?;
                by_key.insert(&attempt_key(&attempt.key, seq), ())?;
            }
            Ok(())
        })
    }

    /// Deletes an action, so that its job is run again when it is next wanted. The job stays
    /// listed ([`super::Reader::removed`]), its blobs stay until `gc`, all rows are forgotten.
    /// Returns whether there was such an action.
    ///
    /// # Errors
    /// Those of the index.
    pub fn remove(&self, key: &Key) -> Result<bool, StoreError> {
        self.inner.write(|txn| {
            let Some(departed) = depart(txn, key, "")? else {
                return Ok(false);
            };
            let seq = index::next_seq(txn, index::REMOVED)?;
            let record = departed.seal("removed", seq);
            txn.open_table(index::REMOVED)?
                .insert(seq, record.as_slice())?;
            raise_epoch(txn)?;
            Ok(true)
        })
    }

    /// Takes a blob out that is corrupt or whose file is missing, with every action whose output
    /// or further blob it is: their jobs are run again when next wanted. Returns their keys. A
    /// blob that reads well stays, and so does what gave it: the reply of a model costs money.
    ///
    /// # Errors
    /// Those of the index and of reading the blob's file.
    pub fn quarantine(&self, digest: &Digest) -> Result<Vec<Key>, StoreError> {
        let layout = &self.inner.layout;
        let lock = self.inner.lock_writing();
        let keys = self.inner.write_locked(&lock, |txn| {
            let mut blobs = txn.open_table(index::BLOBS)?;
            let read = blobs
                .get(&digest.0)?
                .map(|record| blob::read(layout, digest, record.value()));
            let reason = match read {
                Some(Ok(_)) => return Ok(None),
                Some(Err(StoreError::CorruptBlob { why, .. })) => format!("blob {digest}: {why}"),
                Some(Err(e)) => return Err(e.into()),
                None => format!("blob {digest} is missing"),
            };
            blobs.remove(&digest.0)?;
            let mut keys = Vec::new();
            for entry in txn.open_table(index::ACTIONS)?.iter()? {
                let (key, bytes) = entry?;
                let key = Key(Digest(*key.value()));
                // Those with a corrupt record of their own are met by quarantine_action.
                if let Ok(record) = ActionRecord::open(&key, bytes.value())
                    && (record.output == *digest || record.blobs.contains(digest))
                {
                    keys.push(key);
                }
            }
            txn.open_table(index::CONFLICTS)?
                .retain(|key, _| key[32..] != digest.0)?;
            for key in &keys {
                quarantine_one(txn, key, &reason)?;
            }
            raise_epoch(txn)?;
            Ok(Some(keys))
        })?;
        let Some(keys) = keys else {
            return Ok(Vec::new());
        };
        // The index no longer names the file; if removing fails, gc finds it.
        let _ = std::fs::remove_file(layout.blob(digest));
        Ok(keys)
    }

    /// Takes out an action whose record or job is corrupt ([`StoreError::CorruptAction`]).
    /// Returns whether there was anything under the key.
    ///
    /// # Errors
    /// Those of the index.
    pub fn quarantine_action(&self, key: &Key, reason: &str) -> Result<bool, StoreError> {
        self.inner.write(|txn| {
            let was = quarantine_one(txn, key, reason)?;
            if was {
                raise_epoch(txn)?;
            }
            Ok(was)
        })
    }

    /// Stores a manifest's chunks and names its root: from then on `gc` keeps what it lists.
    ///
    /// # Errors
    /// Those of [`Store::put_blobs`] and [`Store::set_root`].
    pub fn put_manifest(&self, name: &str, built: &Built) -> Result<(), StoreError> {
        check_root_name(name)?;
        let chunks = built.chunks.iter();
        let chunks: Blobs = chunks
            .map(|c| (Digest::of(c), Cow::Borrowed(c.as_slice())))
            .collect();
        // One transaction: a gc in between would find chunks that no root reaches.
        self.inner.write(|txn| {
            self.put_new_blobs(txn, &chunks, Trust::Length, &mut Committed::default())?;
            set_root(txn, name, built.root)
        })
    }

    /// Names a blob: what it reaches is kept by `gc`. The name may have had another digest.
    ///
    /// # Errors
    /// [`StoreError::BadRootName`], [`StoreError::MissingBlob`] and those of the index.
    pub fn set_root(&self, name: &str, digest: Digest) -> Result<(), StoreError> {
        check_root_name(name)?;
        self.inner.write(|txn| set_root(txn, name, digest))
    }

    /// Forgets a named root; nothing it reached is deleted before `gc`. Returns whether it was set.
    ///
    /// # Errors
    /// Those of the index.
    pub fn remove_root(&self, name: &str) -> Result<bool, StoreError> {
        self.inner
            .write(|txn| Ok(txn.open_table(index::ROOTS)?.remove(name)?.is_some()))
    }
}

pub(super) fn check_root_name(name: &str) -> Result<(), StoreError> {
    if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
        let name = name.chars().take(200).collect();
        return Err(StoreError::BadRootName { name });
    }
    Ok(())
}

pub(super) fn set_root(txn: &WriteTransaction, name: &str, digest: Digest) -> Result<(), Fault> {
    if txn.open_table(index::BLOBS)?.get(&digest.0)?.is_none() {
        let what = format!("root `{name}`");
        return Err(StoreError::MissingBlob { what, digest }.into());
    }
    let record = record::seal_root(name, &digest);
    txn.open_table(index::ROOTS)?
        .insert(name, record.as_slice())?;
    Ok(())
}

/// Where a job's encoding comes from.
pub(super) enum Order<'a> {
    Job(&'a Job),
    Encoding(&'a [u8]),
}

impl Order<'_> {
    fn encoding(&self) -> Cow<'_, [u8]> {
        match self {
            Order::Job(job) => job.encoding().into(),
            Order::Encoding(bytes) => Cow::Borrowed(bytes),
        }
    }
}

pub(super) type Prepared<'a> = (Key, ActionRecord, Order<'a>);

/// Puts actions that are sorted by key; records in their way that are corrupt are quarantined.
pub(super) fn put_actions(
    txn: &WriteTransaction,
    actions: &[Prepared],
    committed: &mut Committed,
) -> Result<(), Fault> {
    let broken = put_where_sound(txn, actions.iter(), committed)?;
    if broken.is_empty() {
        return Ok(());
    }
    for (key, bad) in &broken {
        quarantine_one(txn, key, &corrupt_action(key, *bad).to_string())?;
    }
    raise_epoch(txn)?;
    let again = actions.iter().filter(|(key, ..)| broken.contains_key(key));
    put_where_sound(txn, again, committed)?;
    committed.stored.sort();
    Ok(())
}

/// Puts the actions, except over records that are corrupt, which it returns.
fn put_where_sound<'a>(
    txn: &WriteTransaction,
    prepared: impl Iterator<Item = &'a Prepared<'a>>,
    committed: &mut Committed,
) -> Result<BTreeMap<Key, Bad>, Fault> {
    let mut broken = BTreeMap::new();
    let mut actions = txn.open_table(index::ACTIONS)?;
    let mut jobs = txn.open_table(index::JOBS)?;
    for (key, record, order) in prepared {
        let old = actions.get(&key.0.0)?;
        let old = old.map(|bytes| ActionRecord::open(key, bytes.value()));
        match old {
            Some(Ok(old)) if old.output == record.output => committed.equal += 1,
            Some(Ok(old)) => {
                let conflict = put_conflict(txn, key, old, record)?;
                committed.conflicts.push(conflict);
            }
            Some(Err(bad)) => {
                broken.insert(*key, bad);
            }
            None => {
                actions.insert(&key.0.0, record.seal(key).as_slice())?;
                jobs.insert(&key.0.0, order.encoding().as_ref())?;
                committed.stored.push(*key);
            }
        }
    }
    Ok(broken)
}

/// Keeps a second output; of several equal ones the first.
fn put_conflict(
    txn: &WriteTransaction,
    key: &Key,
    old: ActionRecord,
    new: &ActionRecord,
) -> Result<Conflict, Fault> {
    let conflict = Conflict {
        key: *key,
        kind: new.kind.clone(),
        nature: new.nature,
        kept: old.output,
        other: new.output,
        kept_provenance: old.provenance,
        other_provenance: new.provenance.clone(),
        other_blobs: new.blobs.clone(),
        at_ms: new.committed_at,
    };
    let mut table = txn.open_table(index::CONFLICTS)?;
    let table_key = Conflict::table_key(key, &conflict.other);
    let known = table
        .get(&table_key)?
        .is_some_and(|bytes| Conflict::open(&table_key, bytes.value()).is_ok());
    if !known {
        table.insert(&table_key, conflict.seal().as_slice())?;
    }
    Ok(conflict)
}

fn quarantine_one(txn: &WriteTransaction, key: &Key, reason: &str) -> Result<bool, Fault> {
    let Some(departed) = depart(txn, key, reason)? else {
        return Ok(false);
    };
    let seq = index::next_seq(txn, index::QUARANTINE)?;
    let record = departed.seal("quarantine", seq);
    txn.open_table(index::QUARANTINE)?
        .insert(seq, record.as_slice())?;
    Ok(true)
}

/// Takes an action and its job out of their tables.
fn depart(txn: &WriteTransaction, key: &Key, reason: &str) -> Result<Option<Departed>, Fault> {
    let action = txn
        .open_table(index::ACTIONS)?
        .remove(&key.0.0)?
        .map(|bytes| ActionRecord::output(key, bytes.value()));
    let Some(output) = action else {
        return Ok(None);
    };
    let mut jobs = txn.open_table(index::JOBS)?;
    let job = jobs.remove(&key.0.0)?;
    Ok(Some(Departed {
        key: *key,
        job: job.map(|encoding| encoding.value().to_vec()),
        output: output.ok(),
        at_ms: now_ms(),
        reason: reason.to_string(),
    }))
}
