//! The store as the engine's driver sees it.

use std::sync::{Arc, Mutex, PoisonError};

use super::layout::now_ms;
use super::{Attempt, Completed, Provenance, Reader, RunTally, Store, StoreError};
use crate::digest::Digest;
use crate::engine::{Done, Facts, FactsError, Lately, Ledger, Output, Tried};
use crate::job::{Job, Key};

impl Facts for Reader {
    fn output(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Reader::output(self, key).map_err(|e| FactsError::Unreadable(e.to_string()))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, FactsError> {
        Reader::blob(self, digest).map_err(|e| match e {
            StoreError::CorruptBlob { digest, .. } => FactsError::Corrupt(digest),
            other => FactsError::Unreadable(other.to_string()),
        })
    }

    fn noted(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Reader::root(self, &noted(key)).map_err(|e| FactsError::Unreadable(e.to_string()))
    }

    fn row(&self, key: &Digest) -> Option<Arc<[u8]>> {
        // A row that cannot be read is a row that is not there: it is computed again.
        Reader::row(self, key).ok().flatten().map(Into::into)
    }
}

/// The root under which it is noted what an observation last gave.
fn noted(key: &Key) -> String {
    format!("observed/{key}")
}

/// Bytes of blobs that are kept at hand.
const AT_HAND: usize = 64 << 20;

/// Blobs that were committed lately: what derives from an output reads its blobs soon after, and need
/// not unpack and verify what was in memory when it was written.
type Recent = Arc<Mutex<Lately<Digest, Arc<[u8]>>>>;

/// A snapshot, with what this process committed lately at hand.
struct Fresh {
    reader: Reader,
    recent: Recent,
}

impl Facts for Fresh {
    fn output(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Facts::output(&self.reader, key)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, FactsError> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.get(digest).cloned();
        drop(recent);
        match known {
            Some(bytes) => Ok(Some(bytes)),
            None => Facts::blob(&self.reader, digest),
        }
    }

    fn noted(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Facts::noted(&self.reader, key)
    }

    fn row(&self, key: &Digest) -> Option<Arc<[u8]>> {
        Facts::row(&self.reader, key)
    }
}

/// Writes what a drive gives into a store.
pub struct StoreLedger {
    store: Arc<Store>,
    recent: Recent,
    /// Of the facts that the current database was made of: rows derived from them carry it.
    epoch: u64,
    tool: String,
    tally: Mutex<RunTally>,
}

impl StoreLedger {
    /// A ledger for a database that starts from `facts`.
    pub fn new(store: Arc<Store>, facts: &Reader, tool: &str) -> StoreLedger {
        StoreLedger {
            store,
            recent: Arc::new(Mutex::new(Lately::new(AT_HAND))),
            epoch: facts.epoch(),
            tool: tool.to_string(),
            tally: Mutex::default(),
        }
    }

    /// What was committed and what could not be, so far.
    pub fn tally(&self) -> RunTally {
        self.counted(|tally| tally.clone())
    }

    fn counted<T>(&self, f: impl FnOnce(&mut RunTally) -> T) -> T {
        f(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Ledger for StoreLedger {
    fn commit(&self, done: Vec<Done>) -> Result<(), String> {
        let now = now_ms();
        let mut tally = RunTally::default();
        for d in &done {
            let of = tally.of(d.job.kind().name);
            let blobs = d.output.blobs.iter().map(Vec::len).sum::<usize>();
            of.executed += 1;
            of.bytes += (d.output.bytes.len() + blobs) as u64;
            of.cpu_us += d.cpu.as_micros() as u64;
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        for blob in done.iter().flat_map(|d| &d.output.blobs) {
            let digest = Digest::of(blob);
            if recent.get(&digest).is_none() {
                recent.put(digest, blob.as_slice().into(), blob.len());
            }
        }
        drop(recent);
        let completed = done.into_iter().map(|d| {
            let wall = d.wall.as_micros() as u64;
            Completed {
                job: d.job,
                output: d.output.bytes,
                blobs: d.output.blobs,
                provenance: Provenance {
                    started_ms: now.saturating_sub(wall / 1000),
                    wall_us: wall,
                    cpu_us: d.cpu.as_micros() as u64,
                    tool: self.tool.clone(),
                    note: None,
                },
            }
        });
        self.store
            .commit(completed.collect())
            .map_err(|e| e.to_string())?;
        self.counted(|all| all.add(&tally));
        Ok(())
    }

    fn attempts(&self, tried: Vec<Tried>) {
        let now = now_ms();
        self.counted(|tally| {
            for one in &tried {
                let of = tally.of(one.job.kind().name);
                of.transient += u64::from(one.transient);
                of.fatal += u64::from(!one.transient);
            }
        });
        let attempt = |one: Tried| Attempt {
            key: one.job.key(),
            kind: one.job.kind().name.to_string(),
            at_ms: now,
            transient: one.transient,
            why: one.why,
        };
        let attempts: Vec<Attempt> = tried.into_iter().map(attempt).collect();
        // A log that cannot be written must not end a run whose results can.
        let _ = self.store.attempts(&attempts);
    }

    fn cancelled(&self, job: &Job) {
        self.counted(|tally| tally.of(job.kind().name).cancelled += 1);
    }

    fn note(&self, seen: Vec<(Job, Output)>) -> Result<(), String> {
        let note = || -> Result<(), StoreError> {
            let reader = self.store.reader()?;
            for (job, output) in &seen {
                let (name, digest) = (noted(&job.key()), Digest::of(&output.bytes));
                let there = reader.root(&name)? == Some(digest);
                if !there || !matches!(reader.blob(&digest), Ok(Some(_))) {
                    self.store.put_blobs(&[&output.bytes])?;
                    self.store.set_root(&name, digest)?;
                }
            }
            Ok(())
        };
        note().map_err(|e| e.to_string())
    }

    fn facts(&self) -> Result<Arc<dyn Facts>, String> {
        let reader = self.store.reader().map_err(|e| e.to_string())?;
        let recent = self.recent.clone();
        Ok(Arc::new(Fresh { reader, recent }))
    }

    fn remember(&self, rows: Vec<(Digest, Vec<u8>)>) {
        if !rows.is_empty() {
            let _ = self.store.put_rows(self.epoch, rows);
        }
    }
}
