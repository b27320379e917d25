//! The index: redb's tables, how it is opened, and its errors and panics turned into ours.
//! Never decides what a value means; nothing of redb is public outside this room.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{
    Builder, ConcurrencyMode, Database, ReadOnlyDatabase, ReadTransaction, ReadableDatabase,
    TableDefinition, WriteTransaction,
};

use super::error::StoreError;
use super::layout::Layout;

/// Values by digest: what a table keyed by 32 bytes is to redb.
pub(super) type ByDigest = TableDefinition<'static, &'static [u8; 32], &'static [u8]>;
/// Logs: a running number.
pub(super) type BySeq = TableDefinition<'static, u64, &'static [u8]>;

pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(super) const ACTIONS: ByDigest = TableDefinition::new("actions");
pub(super) const JOBS: ByDigest = TableDefinition::new("jobs");
pub(super) const BLOBS: ByDigest = TableDefinition::new("blobs");
pub(super) const ROWS: ByDigest = TableDefinition::new("rows");
pub(super) const CONFLICTS: TableDefinition<&[u8; 64], &[u8]> = TableDefinition::new("conflicts");
pub(super) const ATTEMPTS: BySeq = TableDefinition::new("attempts");
/// Key and big-endian number of an attempt, so that a range gives the attempts of a key in order.
pub(super) const ATTEMPTS_BY_KEY: TableDefinition<&[u8; 40], ()> =
    TableDefinition::new("attempts_by_key");
pub(super) const REMOVED: BySeq = TableDefinition::new("removed");
pub(super) const QUARANTINE: BySeq = TableDefinition::new("quarantine");
/// Counters of runs; absent from stores that were made before there was this table.
pub(super) const RUNS: BySeq = TableDefinition::new("runs");
pub(super) const ROOTS: TableDefinition<&str, &[u8]> = TableDefinition::new("roots");

/// In the table `meta`: raised when rows computed before must no longer be seen.
pub(super) const EPOCH: &str = "epoch";

/// More would hold what the system's page cache holds already.
const CACHE_BYTES: usize = 256 << 20;

/// An open index.
pub(super) enum Handle {
    Rw(Box<Database>),
    Ro(Box<ReadOnlyDatabase>),
}

impl Handle {
    pub fn begin_read(&self) -> Result<ReadTransaction, Fault> {
        Ok(match self {
            Handle::Rw(db) => db.begin_read()?,
            Handle::Ro(db) => db.begin_read()?,
        })
    }
}

/// One process writes and any number read beside it: all of them must open in this mode.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .set_cache_size(CACHE_BYTES)
        .set_concurrency_mode(ConcurrencyMode::SingleWriter);
    builder
}

/// Opens an existing index for writing, with recovery if the last owner was killed.
pub(super) fn open_rw(layout: &Layout) -> Result<Handle, StoreError> {
    let db = guard(&layout.dir, || Ok(builder().open(layout.index())?));
    Ok(Handle::Rw(Box::new(named_owner(layout, db)?)))
}

/// Opens an existing index for reading. If its last owner was killed, it must be recovered first,
/// which needs the permission to write for a moment.
pub(super) fn open_ro(layout: &Layout) -> Result<Handle, StoreError> {
    let open = || {
        guard(
            &layout.dir,
            || Ok(builder().open_read_only(layout.index())?),
        )
    };
    let db = match open() {
        Err(StoreError::Damaged { what, .. }) if what == UNCLEAN => {
            match open_rw(layout) {
                Ok(recovered) => drop(recovered),
                // Someone else came first, who recovers it.
                Err(StoreError::Locked { .. }) => {}
                Err(e) => return Err(e),
            }
            open()
        }
        other => other,
    };
    Ok(Handle::Ro(Box::new(named_owner(layout, db)?)))
}

fn named_owner<T>(layout: &Layout, r: Result<T, StoreError>) -> Result<T, StoreError> {
    r.map_err(|e| match e {
        StoreError::Locked { dir, .. } => StoreError::Locked {
            dir,
            owner: layout.owner(),
        },
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            StoreError::damaged(&layout.dir, "its file index.redb is missing")
        }
        e => e,
    })
}

/// Makes an index with all its tables under a name of its own and links it into place, so that
/// `index.redb` is at all times either absent or whole.
pub(super) fn create(layout: &Layout) -> Result<(), StoreError> {
    if layout.index().exists() {
        return Ok(());
    }
    let tmp = layout.tmp_name("index");
    guard(&layout.dir, || {
        let db = builder().create(&tmp)?;
        create_tables(&db)?;
        Ok(db.close()?)
    })?;
    match std::fs::hard_link(&tmp, layout.index()) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io(&layout.index(), "creating the index", e));
        }
        _ => {}
    }
    // The second name is a leftover from here on; opening cleans such.
    let _ = std::fs::remove_file(&tmp);
    layout.sync_dir(&layout.dir)
}

pub(super) fn create_tables(db: &Database) -> Result<(), Fault> {
    let mut txn = db.begin_write()?;
    txn.set_quick_repair(true);
    {
        txn.open_table(META)?.insert(EPOCH, 0)?;
        for table in [ACTIONS, JOBS, BLOBS, ROWS] {
            txn.open_table(table)?;
        }
        for table in [ATTEMPTS, REMOVED, QUARANTINE, RUNS] {
            txn.open_table(table)?;
        }
        txn.open_table(CONFLICTS)?;
        txn.open_table(ATTEMPTS_BY_KEY)?;
        txn.open_table(ROOTS)?;
    }
    Ok(txn.commit()?)
}

/// The number after the last one of a log.
pub(super) fn next_seq(txn: &WriteTransaction, log: BySeq) -> Result<u64, Fault> {
    use redb::ReadableTable;
    let table = txn.open_table(log)?;
    let last = table.last()?.map(|(seq, _)| seq.value());
    Ok(last.map_or(0, |n| n.saturating_add(1)))
}

/// An error on the way, ours or redb's.
pub(super) enum Fault {
    Redb(Box<redb::Error>),
    Store(StoreError),
}

impl From<StoreError> for Fault {
    fn from(e: StoreError) -> Fault {
        Fault::Store(e)
    }
}

macro_rules! from_redb {
    ($($error:ident),*) => {
        $(impl From<redb::$error> for Fault {
            fn from(e: redb::$error) -> Fault {
                Fault::Redb(Box::new(e.into()))
            }
        })*
    };
}
from_redb!(
    StorageError,
    TableError,
    TransactionError,
    CommitError,
    DatabaseError,
    CompactionError
);

/// Why a read-only open is refused after the last owner was killed.
const UNCLEAN: &str = "its last owner was killed and it must be opened for writing once";

thread_local! {
    static GUARDED: Cell<u32> = const { Cell::new(0) };
}

/// Whether a panic on this thread would be one of redb's own checks on a damaged index, which the
/// store catches and tells as an error: a message of its own would say it twice.
pub fn catches_panics() -> bool {
    GUARDED.get() > 0
}

/// Runs an operation on the index. Its errors become ours, and so do its panics: on a file that
/// was changed from outside, redb's own checks may panic, and a damaged page is no reason to end
/// the program.
pub(super) fn guard<T>(dir: &Path, f: impl FnOnce() -> Result<T, Fault>) -> Result<T, StoreError> {
    GUARDED.set(GUARDED.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(f));
    GUARDED.set(GUARDED.get() - 1);
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Fault::Store(e))) => Err(e),
        Ok(Err(Fault::Redb(e))) => Err(translate(dir, *e)),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(StoreError::damaged(
                dir,
                format!("the index cannot be followed: {text}"),
            ))
        }
    }
}

fn translate(dir: &Path, e: redb::Error) -> StoreError {
    match e {
        redb::Error::Io(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            StoreError::damaged(dir, format!("the index is cut short or no index: {e}"))
        }
        redb::Error::Io(e) => StoreError::io(&dir.join("index.redb"), "using the index", e),
        redb::Error::DatabaseAlreadyOpen => StoreError::Locked {
            dir: dir.to_path_buf(),
            owner: String::new(),
        },
        redb::Error::DatabaseClosed | redb::Error::PreviousIo | redb::Error::LockPoisoned(_) => {
            StoreError::Closed {
                dir: dir.to_path_buf(),
            }
        }
        redb::Error::RepairAborted => StoreError::damaged(dir, UNCLEAN),
        e => StoreError::damaged(dir, e.to_string()),
    }
}
