//! Looking over a whole store: every blob's digest, every record's seal, every reference, every
//! page of the index. Reports and never changes anything; also figures about what is stored.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use redb::{Builder, ReadableTable, ReadableTableMetadata, StorageBackend};

use super::error::StoreError;
use super::index::{self, guard};
use super::manifest::Manifest;
use super::open::{Access, Store};
use super::reader::{KindCount, Reader, decode_job};
use super::record::{ActionRecord, Conflict, open_row};
use crate::digest::Digest;
use crate::job::{Key, Value};

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Problem {
    /// A blob that cannot be read as it was stored: quarantine it.
    Blob {
        /// The blob.
        digest: Digest,
        /// How it shows.
        why: String,
    },
    /// An action whose record or job is not what was stored: quarantine the action.
    Action {
        /// The action.
        key: Key,
        /// How it shows.
        why: String,
    },
    /// An action whose output or further blob is absent: quarantine the blob.
    Missing {
        /// The action.
        key: Key,
        /// The blob.
        digest: Digest,
    },
    /// A root that cannot be followed: set it again, or remove it.
    Root {
        /// Its name.
        name: String,
        /// How it shows.
        why: String,
    },
    /// A record of a log, or a second output, that is not what was stored.
    Log {
        /// The table.
        table: String,
        /// How it shows.
        why: String,
    },
}

/// How the pages of the index are.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexCheck {
    /// Every page has the checksum it was written with.
    Sound,
    /// At least one has not; what is on it may be absent.
    Damaged(String),
    /// The store is open for reading only, and another process may be writing.
    NotChecked,
}

/// What `verify` found.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct VerifyReport {
    /// Actions looked at.
    pub actions: u64,
    /// Blobs read and hashed.
    pub blobs: u64,
    /// Their plain bytes.
    pub bytes: u64,
    /// Rows that are corrupt; they count as absent and are computed again.
    pub bad_rows: u64,
    /// Digests among the inputs of jobs whose preimage is not in the store, each once. Not a
    /// fault: an input may name what is kept elsewhere, such as an object of git.
    pub inputs_without_preimage: u64,
    /// Files among the blobs that the index does not name; `gc` removes them.
    pub leftover_files: u64,
    /// The pages of the index.
    pub index: IndexCheck,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl VerifyReport {
    /// Whether all is as it was stored.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && !matches!(self.index, IndexCheck::Damaged(_))
    }
}

/// Figures about a store.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Stats {
    /// Actions by kind and version.
    pub by_kind: Vec<KindCount>,
    /// Actions whose record is corrupt.
    pub corrupt_actions: u64,
    /// Blobs in the index.
    pub inline_blobs: u64,
    /// Their bytes as stored.
    pub inline_bytes: u64,
    /// Blobs in files.
    pub file_blobs: u64,
    /// Their bytes as stored.
    pub file_bytes: u64,
    /// Plain bytes of all blobs.
    pub plain_bytes: u64,
    /// Size of the index file, bytes.
    pub index_bytes: u64,
    /// Second outputs.
    pub conflicts: u64,
    /// Failed attempts.
    pub attempts: u64,
    /// Actions that users deleted.
    pub removed: u64,
    /// Actions that were taken out as corrupt.
    pub quarantined: u64,
    /// Rows of this epoch.
    pub rows: u64,
    /// The epoch.
    pub epoch: u64,
    /// The format of the store.
    pub format: u32,
    /// The lowest format a program must know to read it.
    pub min_reader: u32,
}

impl Store {
    /// Looks over the whole store; what is wrong is in the report. Reads everything once.
    ///
    /// # Errors
    /// Only if nothing can be looked at: [`StoreError::Io`], or an index that does not open.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        let lock = self.inner.lock_writing();
        let reader = Reader::new(&self.inner, Some(&lock))?;
        let mut report = VerifyReport {
            actions: 0,
            blobs: 0,
            bytes: 0,
            bad_rows: 0,
            inputs_without_preimage: 0,
            leftover_files: 0,
            index: self.check_index()?,
            problems: Vec::new(),
        };
        // A damaged index may end a listing early: what could be read is reported all the same.
        for part in [blobs as Part, actions, logs, roots, leftovers] {
            if let Err(e) = part(&reader, &mut report) {
                report.index = IndexCheck::Damaged(e.to_string());
            }
        }
        Ok(report)
    }

    /// Checks every page of the index on a copy of it that exists in memory only where it is
    /// changed, since redb's check repairs what it finds.
    fn check_index(&self) -> Result<IndexCheck, StoreError> {
        let layout = &self.inner.layout;
        if self.inner.access == Access::ReadOnly {
            return Ok(IndexCheck::NotChecked);
        }
        let path = layout.index();
        let overlay = Overlay::open(&path).map_err(|e| StoreError::io(&path, "reading", e))?;
        let checked = guard(&layout.dir, || {
            let mut db = Builder::new().create_with_backend(overlay)?;
            Ok(db.check_integrity()?)
        });
        Ok(match checked {
            Ok(true) => IndexCheck::Sound,
            Ok(false) => IndexCheck::Damaged("a page differs from its checksum".into()),
            Err(e) => IndexCheck::Damaged(e.to_string()),
        })
    }

    /// Figures about what is stored; walks the index once.
    ///
    /// # Errors
    /// Those of the index.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let reader = self.reader()?;
        let mut stats = Stats {
            by_kind: reader.counts_by_kind()?,
            corrupt_actions: 0,
            inline_blobs: 0,
            inline_bytes: 0,
            file_blobs: 0,
            file_bytes: 0,
            plain_bytes: 0,
            index_bytes: std::fs::metadata(self.inner.layout.index()).map_or(0, |m| m.len()),
            conflicts: reader.guard(|| Ok(reader.0.txn.open_table(index::CONFLICTS)?.len()?))?,
            attempts: reader.count(index::ATTEMPTS)?,
            removed: reader.count(index::REMOVED)?,
            quarantined: reader.count(index::QUARANTINE)?,
            rows: reader.guard(|| Ok(reader.0.rows.len()?))?,
            epoch: reader.epoch(),
            format: self.inner.format.format,
            min_reader: self.inner.format.min_reader,
        };
        let all = reader.guard(|| Ok(reader.0.actions.len()?))?;
        let sound: u64 = stats.by_kind.iter().map(|k| k.actions).sum();
        stats.corrupt_actions = all.saturating_sub(sound);
        reader.blob_places(|_, place| {
            if let Ok((inline, plain, stored)) = place {
                let (n, bytes) = if inline {
                    (&mut stats.inline_blobs, &mut stats.inline_bytes)
                } else {
                    (&mut stats.file_blobs, &mut stats.file_bytes)
                };
                *n += 1;
                *bytes += stored;
                stats.plain_bytes += plain;
            }
        })?;
        Ok(stats)
    }
}

type Part = fn(&Reader, &mut VerifyReport) -> Result<(), StoreError>;

fn blobs(reader: &Reader, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut digests = Vec::new();
    reader.blob_places(|digest, _| digests.push(digest))?;
    for digest in digests {
        report.blobs += 1;
        match reader.blob(&digest) {
            Ok(bytes) => report.bytes += bytes.map_or(0, |b| b.len() as u64),
            Err(StoreError::CorruptBlob { digest, why }) => {
                report.problems.push(Problem::Blob { digest, why });
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn actions(reader: &Reader, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut absent = HashSet::new();
    reader.guard(|| {
        for entry in reader.0.actions.iter()? {
            let (key, bytes) = entry?;
            let key = Key(Digest(*key.value()));
            report.actions += 1;
            let mut problem = |why: &str| {
                let why = why.to_string();
                report.problems.push(Problem::Action { key, why });
            };
            let record = match ActionRecord::open(&key, bytes.value()) {
                Ok(record) => record,
                Err(bad) => {
                    problem(bad.0);
                    continue;
                }
            };
            if reader.0.actions.get(&key.0.0)?.is_none() {
                problem("it is listed and cannot be looked up");
            }
            let job = match reader.0.jobs.get(&key.0.0)? {
                Some(bytes) => decode_job(&key, bytes.value()),
                None => {
                    problem("its job is missing");
                    continue;
                }
            };
            match job {
                Ok(job) if job.kind != record.kind || job.version != record.version => {
                    problem("its kind is not that of its job");
                }
                Ok(job) => {
                    for input in job.inputs.values().flat_map(Value::digests) {
                        if reader.0.blobs.get(&input.0)?.is_none() {
                            absent.insert(input);
                        }
                    }
                }
                Err(StoreError::CorruptAction { why, .. }) => problem(&why),
                Err(e) => return Err(e.into()),
            }
            for digest in std::iter::once(record.output).chain(record.blobs) {
                if reader.0.blobs.get(&digest.0)?.is_none() {
                    report.problems.push(Problem::Missing { key, digest });
                }
            }
        }
        Ok(())
    })?;
    report.inputs_without_preimage = absent.len() as u64;
    Ok(())
}

fn logs(reader: &Reader, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut note = |table: &str, e: StoreError| {
        let (table, why) = (table.to_string(), e.to_string());
        report.problems.push(Problem::Log { table, why });
    };
    reader.guard(|| {
        for entry in reader.0.txn.open_table(index::CONFLICTS)?.iter()? {
            let (key, bytes) = entry?;
            if let Err(bad) = Conflict::open(key.value(), bytes.value()) {
                note("conflicts", reader.bad_log("conflicts", bad));
            }
        }
        for entry in reader.0.rows.iter()? {
            let (digest, bytes) = entry?;
            report.bad_rows +=
                u64::from(open_row(&Digest(*digest.value()), bytes.value()).is_err());
        }
        Ok(())
    })?;
    for run in reader.each_run()? {
        if let Err(bad) = run {
            note("runs", reader.bad_log("runs", bad));
        }
    }
    if let Err(e) = reader.recent_attempts(usize::MAX) {
        note("attempts", e);
    }
    if let Err(e) = reader.removed() {
        note("removed", e);
    }
    if let Err(e) = reader.quarantined() {
        note("quarantine", e);
    }
    Ok(())
}

fn roots(reader: &Reader, report: &mut VerifyReport) -> Result<(), StoreError> {
    let roots = match reader.roots() {
        Ok(roots) => roots,
        Err(e) => {
            let (table, why) = ("roots".to_string(), e.to_string());
            report.problems.push(Problem::Log { table, why });
            return Ok(());
        }
    };
    for (name, digest) in roots {
        let why = match reader.blob(&digest) {
            Ok(None) => format!("blob {digest} is missing"),
            Err(e) => e.to_string(),
            Ok(Some(bytes)) if Manifest::is_one(&bytes) => {
                match Manifest::load(reader, digest).and_then(|m| m.reach()) {
                    Ok(_) => continue,
                    Err(e) => e.to_string(),
                }
            }
            Ok(Some(_)) => continue,
        };
        report.problems.push(Problem::Root { name, why });
    }
    Ok(())
}

fn leftovers(reader: &Reader, report: &mut VerifyReport) -> Result<(), StoreError> {
    if reader.access() == Some(Access::ReadWrite) {
        for (_, digest) in reader.0.layout.blob_files()? {
            let named = match digest {
                Some(digest) => reader.has_blob(&digest)?,
                None => false,
            };
            report.leftover_files += u64::from(!named);
        }
    }
    Ok(())
}

/// A file that is read, and whose changes stay in memory.
#[derive(Debug)]
struct Overlay {
    file: File,
    state: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// What of the file is still visible: cut by `set_len`.
    file_len: u64,
    pages: HashMap<u64, Box<[u8]>>,
}

const PAGE: u64 = 4096;

impl Overlay {
    fn open(path: &std::path::Path) -> std::io::Result<Overlay> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Overlay {
            file,
            state: Mutex::new(Changes {
                len,
                file_len: len,
                pages: HashMap::new(),
            }),
        })
    }

    fn page(&self, state: &Changes, n: u64) -> std::io::Result<Box<[u8]>> {
        if let Some(page) = state.pages.get(&n) {
            return Ok(page.clone());
        }
        let mut page = vec![0; PAGE as usize].into_boxed_slice();
        let have = state.file_len.saturating_sub(n * PAGE).min(PAGE) as usize;
        self.file.read_exact_at(&mut page[..have], n * PAGE)?;
        Ok(page)
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> std::io::Result<u64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > state.len) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let from = (at % PAGE) as usize;
            let n = (PAGE as usize - from).min(out.len() - done);
            let page = self.page(&state, at / PAGE)?;
            out[done..done + n].copy_from_slice(&page[from..from + n]);
            done += n;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if len < state.len {
            // What is cut off reads as zero when the length grows again.
            let last = len / PAGE;
            let mut page = self.page(&state, last)?;
            page[(len % PAGE) as usize..].fill(0);
            state.pages.retain(|n, _| *n < last);
            state.pages.insert(last, page);
            state.file_len = state.file_len.min(len);
        }
        state.len = len;
        Ok(())
    }

    fn sync_data(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let from = (at % PAGE) as usize;
            let n = (PAGE as usize - from).min(data.len() - done);
            let mut page = self.page(&state, at / PAGE)?;
            page[from..from + n].copy_from_slice(&data[done..done + n]);
            state.pages.insert(at / PAGE, page);
            done += n;
        }
        state.len = state.len.max(offset + data.len() as u64);
        Ok(())
    }
}
