//! What each run found, executed and could not keep: counters for people, by kind. No result
//! depends on them; of runs long ago only the sum is kept.

use std::collections::BTreeMap;

use redb::{ReadableTable, ReadableTableMetadata};

use super::error::StoreError;
use super::index::{self, Fault};
use super::layout::now_ms;
use super::open::Store;
use super::reader::Reader;
use super::record::{Bad, In, Out};

/// Runs that are kept one by one.
const KEPT: u64 = 100;
/// Under this number is the sum of those before.
const SUM: u64 = 0;

/// Counters of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct KindTally {
    /// Jobs whose output was there.
    pub hits: u64,
    /// Jobs that were executed and their outputs committed.
    pub executed: u64,
    /// Jobs that were still missing at the end.
    pub missing: u64,
    /// Executions that gave nothing because the surroundings failed.
    pub transient: u64,
    /// Executions that gave nothing, and would not if tried again.
    pub fatal: u64,
    /// Executions that were stopped.
    pub cancelled: u64,
    /// Plain bytes of the outputs of what was executed, further blobs included.
    pub bytes: u64,
    /// Processor time of what was executed, microseconds.
    pub cpu_us: u64,
}

impl KindTally {
    fn numbers(&mut self) -> [&mut u64; 8] {
        [
            &mut self.hits,
            &mut self.executed,
            &mut self.missing,
            &mut self.transient,
            &mut self.fatal,
            &mut self.cancelled,
            &mut self.bytes,
            &mut self.cpu_us,
        ]
    }

    fn add(&mut self, other: &KindTally) {
        let mut other = *other;
        for (sum, n) in self.numbers().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(*n);
        }
    }
}

/// One run, or several added up.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct RunTally {
    /// How many runs these are.
    pub runs: u64,
    /// How many of them ended with nothing missing. Only these count hits.
    pub complete: u64,
    /// When the last of them ended, milliseconds since 1970 UTC.
    pub ended_ms: u64,
    /// Their wall time, microseconds.
    pub wall_us: u64,
    /// Counters by the name of the kind.
    pub kinds: BTreeMap<String, KindTally>,
}

impl RunTally {
    /// The counters of a kind.
    pub fn of(&mut self, kind: &str) -> &mut KindTally {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_string(), KindTally::default());
        }
        self.kinds.get_mut(kind).expect("it was just put there")
    }

    /// Adds other runs.
    pub fn add(&mut self, other: &RunTally) {
        self.runs = self.runs.saturating_add(other.runs);
        self.complete = self.complete.saturating_add(other.complete);
        self.ended_ms = self.ended_ms.max(other.ended_ms);
        self.wall_us = self.wall_us.saturating_add(other.wall_us);
        for (kind, tally) in &other.kinds {
            self.of(kind).add(tally);
        }
    }

    fn seal(&self, seq: u64) -> Vec<u8> {
        let mut out = Out::default();
        for n in [self.runs, self.complete, self.ended_ms, self.wall_us] {
            out.u64(n);
        }
        out.u32(self.kinds.len() as u32);
        for (kind, tally) in &self.kinds {
            out.text(kind);
            let mut tally = *tally;
            for n in tally.numbers() {
                out.u64(*n);
            }
        }
        out.seal("runs", &seq.to_be_bytes())
    }

    pub(super) fn open(seq: u64, bytes: &[u8]) -> Result<RunTally, Bad> {
        let mut r = In::unseal("runs", &seq.to_be_bytes(), bytes)?;
        let mut run = RunTally {
            runs: r.u64()?,
            complete: r.u64()?,
            ended_ms: r.u64()?,
            wall_us: r.u64()?,
            kinds: BTreeMap::new(),
        };
        for _ in 0..r.u32()? {
            let kind = r.text()?;
            let mut tally = KindTally::default();
            for n in tally.numbers() {
                *n = r.u64()?;
            }
            run.kinds.insert(kind, tally);
        }
        r.end().map(|()| run)
    }
}

/// A record with its number, unless it cannot be read.
type Numbered = Result<(u64, RunTally), Bad>;

impl Store {
    /// Notes what a run that ends now has done. Of more than a hundred runs the oldest are added up.
    ///
    /// # Errors
    /// Those of the index.
    pub fn record_run(&self, mut run: RunTally) -> Result<(), StoreError> {
        run.ended_ms = now_ms();
        self.inner.write(|txn| {
            let next = index::next_seq(txn, index::RUNS)?.max(SUM + 1);
            let mut table = txn.open_table(index::RUNS)?;
            table.insert(next, run.seal(next).as_slice())?;
            let mut sum = match table.get(SUM)? {
                // What cannot be read any more is forgotten: nothing depends on it.
                Some(bytes) => RunTally::open(SUM, bytes.value()).unwrap_or_default(),
                None => RunTally::default(),
            };
            let mut oldest = Vec::new();
            let more = (table.len()? - u64::from(sum.runs > 0)).saturating_sub(KEPT);
            for entry in table.range(SUM + 1..)?.take(more as usize) {
                let (seq, bytes) = entry?;
                oldest.push(seq.value());
                if let Ok(run) = RunTally::open(seq.value(), bytes.value()) {
                    sum.add(&run);
                }
            }
            if !oldest.is_empty() {
                table.insert(SUM, sum.seal(SUM).as_slice())?;
            }
            for seq in oldest {
                table.remove(seq)?;
            }
            Ok(())
        })
    }
}

impl Reader {
    /// What the last run did and what all did together; `None` if no run has ended yet.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a corrupt record, and those of the index.
    pub fn runs(&self) -> Result<Option<(RunTally, RunTally)>, StoreError> {
        let (mut last, mut all) = (None, RunTally::default());
        for entry in self.each_run()? {
            let (seq, run) = entry.map_err(|bad| self.bad_log("runs", bad))?;
            all.add(&run);
            if seq != SUM {
                last = Some(run);
            }
        }
        Ok(last.map(|last| (last, all)))
    }

    /// Every record, by its number.
    pub(super) fn each_run(&self) -> Result<Vec<Numbered>, StoreError> {
        self.guard(|| {
            let table = match self.0.txn.open_table(index::RUNS) {
                Ok(table) => table,
                // A store that was made before there was this table, and no run has ended since.
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                Err(e) => return Err(Fault::from(e)),
            };
            let mut found = Vec::new();
            for entry in table.iter()? {
                let (seq, bytes) = entry?;
                let seq = seq.value();
                found.push(RunTally::open(seq, bytes.value()).map(|run| (seq, run)));
            }
            Ok(found)
        })
    }
}
