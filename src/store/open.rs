//! Opening a store: creation, format check, the owner's lock, and the handle that all else uses.
//! A store that this program does not understand is refused before a byte of it is changed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{ReadableTableMetadata, WriteTransaction};

use super::error::StoreError;
use super::index::{self, Fault, Handle, guard};
use super::layout::{FORMAT, Format, Layout};
use super::reader::Reader;

/// What a store is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// One process at a time. Creates the store when it is absent.
    ReadWrite,
    /// Any number of processes, also beside the one that writes, whose commits they follow.
    ReadOnly,
}

/// An open store. Writes are serialised inside; dropping it closes the store and ends its readers.
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub layout: Layout,
    pub access: Access,
    pub format: Format,
    state: RwLock<State>,
    /// See [`Inner::suspect`].
    suspected: AtomicBool,
    writing: Mutex<()>,
}

struct State {
    /// `None` only after an error that closed the index and kept it from being opened again.
    handle: Option<Handle>,
    /// Raised each time the index is opened.
    generation: u64,
}

/// Held by the one thread that writes, or opens the index again.
pub(super) type WritingLock<'a> = MutexGuard<'a, ()>;

impl Store {
    /// Opens the store in `dir`; `tool_version` is what a newer program's message or another
    /// process is told about this one.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::Locked`], [`StoreError::FormatNewer`],
    /// [`StoreError::Damaged`], [`StoreError::Full`], [`StoreError::Io`].
    pub fn open(dir: &Path, access: Access, tool_version: &str) -> Result<Store, StoreError> {
        let layout = Layout {
            dir: dir.to_path_buf(),
        };
        match (layout.format()?, access) {
            (Some(format), _) => check_format(&layout, &format, access)?,
            (None, Access::ReadWrite) => {
                layout.create_dirs()?;
                index::create(&layout)?;
            }
            (None, Access::ReadOnly) => {
                return Err(
                    layout.not_a_store("there is no store yet; run a command that fills it")
                );
            }
        }
        let handle = match access {
            Access::ReadWrite => index::open_rw(&layout)?,
            Access::ReadOnly => index::open_ro(&layout)?,
        };
        Store::assemble(layout, access, handle, tool_version)
    }

    /// Under the lock: the format is read again, since who held it before may have changed it.
    pub(super) fn assemble(
        layout: Layout,
        access: Access,
        handle: Handle,
        tool_version: &str,
    ) -> Result<Store, StoreError> {
        let format = match layout.format()? {
            Some(format) => {
                check_format(&layout, &format, access)?;
                format
            }
            None => {
                refuse_if_filled(&layout, &handle)?;
                let format = Format::current(tool_version);
                layout.write_format(&format)?;
                format
            }
        };
        if access == Access::ReadWrite {
            layout.create_dirs()?;
            layout.clean_tmp()?;
            layout.write_owner(tool_version)?;
        }
        Ok(Store {
            inner: Arc::new(Inner {
                layout,
                access,
                format,
                state: RwLock::new(State {
                    handle: Some(handle),
                    generation: 0,
                }),
                suspected: AtomicBool::new(false),
                writing: Mutex::new(()),
            }),
        })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.inner.layout.dir
    }

    /// A snapshot of everything committed so far.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] and [`StoreError::Io`].
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::new(&self.inner, None)
    }
}

fn check_format(layout: &Layout, format: &Format, access: Access) -> Result<(), StoreError> {
    let understood = match access {
        Access::ReadOnly => format.min_reader <= FORMAT,
        // A newer format that we may read may still hold what we would not keep up when writing.
        Access::ReadWrite => format.min_reader <= FORMAT && format.format <= FORMAT,
    };
    if understood {
        Ok(())
    } else {
        Err(StoreError::FormatNewer {
            dir: layout.dir.clone(),
            found: format.format,
            min_reader: format.min_reader,
            ours: FORMAT,
            needs: format.needs.clone(),
        })
    }
}

/// A creation that was interrupted leaves an empty index without the format file; a filled one
/// has lost it, and with it what its bytes mean.
fn refuse_if_filled(layout: &Layout, handle: &Handle) -> Result<(), StoreError> {
    let filled = guard(&layout.dir, || {
        let txn = handle.begin_read()?;
        let blobs = txn.open_table(index::BLOBS)?.len()?;
        Ok(blobs + txn.open_table(index::ACTIONS)?.len()? > 0)
    })?;
    if filled {
        return Err(StoreError::damaged(
            &layout.dir,
            "its file STORE, which says the format, is missing",
        ));
    }
    Ok(())
}

impl Inner {
    /// Calls `f` with the open index. Who holds the writing lock gives it, since the index may
    /// have to be opened again on the way, which takes the lock.
    pub fn with_handle<T>(
        &self,
        lock: Option<&WritingLock>,
        f: impl Fn(&Handle, u64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut tries = 0;
        loop {
            match lock {
                Some(lock) => self.ensure_open(lock)?,
                None if self.needs_reopening() => self.ensure_open(&self.lock_writing())?,
                None => {}
            }
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let generation = state.generation;
            let Some(handle) = &state.handle else {
                continue;
            };
            let result = guard(&self.layout.dir, || f(handle, generation));
            drop(state);
            tries += 1;
            match result {
                Err(StoreError::Closed { .. }) if tries < 2 => self.suspect(generation),
                result => return result,
            }
        }
    }

    /// Calls `f` with the index as it is: waits for no lock and opens nothing again. `None` when
    /// the index does not answer.
    pub fn peek<T>(&self, f: impl FnOnce(&Handle) -> Result<T, Fault>) -> Option<T> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let handle = state.handle.as_ref()?;
        guard(&self.layout.dir, || f(handle)).ok()
    }

    /// Notes that the index of this generation refuses to answer, as it does after one error of
    /// input or output, so that it is opened again before it is next used.
    pub fn suspect(&self, generation: u64) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.generation == generation {
            self.suspected.store(true, Ordering::Release);
        }
    }

    fn needs_reopening(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.handle.is_none() || self.suspected.load(Ordering::Acquire)
    }

    fn ensure_open(&self, lock: &WritingLock) -> Result<(), StoreError> {
        if self.needs_reopening() {
            self.reopen(lock)
        } else {
            Ok(())
        }
    }

    /// Only one thread writes at a time, files of blobs included.
    pub fn lock_writing(&self) -> WritingLock<'_> {
        // A panic inside a write has dropped its transaction: nothing is left half-done.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` in one write transaction: committed and durable when this returns `Ok`, and
    /// without effect otherwise.
    pub fn write<T>(
        &self,
        f: impl FnOnce(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let lock = self.lock_writing();
        self.write_locked(&lock, f)
    }

    pub fn write_locked<T>(
        &self,
        lock: &WritingLock,
        f: impl FnOnce(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.ensure_open(lock)?;
        let written = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            match &state.handle {
                Some(Handle::Rw(db)) => guard(&self.layout.dir, || {
                    let mut txn = db.begin_write()?;
                    txn.set_quick_repair(true);
                    let value = f(&txn)?;
                    txn.commit()?;
                    Ok(value)
                }),
                _ => Err(StoreError::ReadOnly {
                    dir: self.layout.dir.clone(),
                }),
            }
        };
        if let Err(
            StoreError::Full { .. }
            | StoreError::Io { .. }
            | StoreError::Closed { .. }
            | StoreError::Damaged { .. },
        ) = &written
        {
            // After an input or output error the index refuses everything until it is opened
            // again. If that fails too (no room yet), the next call tries once more.
            let _ = self.reopen(lock);
        }
        written
    }

    /// Ends all readers.
    fn reopen(&self, _lock: &WritingLock) -> Result<(), StoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.generation += 1;
        self.suspected.store(false, Ordering::Release);
        // Closed first, or our own lock would refuse us.
        if let Some(old) = state.handle.take() {
            let _ = guard(&self.layout.dir, || {
                drop(old);
                Ok(())
            });
        }
        state.handle = Some(match self.access {
            Access::ReadWrite => index::open_rw(&self.layout)?,
            Access::ReadOnly => index::open_ro(&self.layout)?,
        });
        Ok(())
    }

    /// Gives free pages back to the file system. `false` when a reader is open, or nothing to do.
    pub fn compact(&self, _lock: &WritingLock) -> Result<bool, StoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match &mut state.handle {
            Some(Handle::Rw(db)) => guard(&self.layout.dir, || match db.compact() {
                Ok(done) => Ok(done),
                Err(redb::CompactionError::TransactionInProgress) => Ok(false),
                Err(e) => Err(e.into()),
            }),
            _ => Ok(false),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let handle = state.handle.take();
        if self.access == Access::ReadWrite && handle.is_some() {
            self.layout.remove_owner();
        }
        // Everything committed is durable already; closing only marks the file as clean.
        let _ = guard(&self.layout.dir, || {
            drop(handle);
            Ok(())
        });
    }
}
