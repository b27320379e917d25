//! Opening a store: creation, format check, the owner's lock, and the handle that all else uses.
//! A store that this program does not understand is refused before a byte of it is changed.

use std::path::Path;
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
    /// `None` only after an error that closed the index and kept it from being opened again.
    handle: RwLock<Option<Handle>>,
    writing: Mutex<()>,
}

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
                handle: RwLock::new(Some(handle)),
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
        Reader::new(&self.inner)
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
    /// Calls `f` with the open index.
    pub fn with_handle<T>(
        &self,
        f: impl FnOnce(&Handle) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        loop {
            let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(handle) = handle.as_ref() {
                return guard(&self.layout.dir, || f(handle));
            }
            drop(handle);
            let lock = self.lock_writing();
            self.ensure_open(&lock)?;
        }
    }

    /// Opens the index again if an error had closed it. Who holds the lock and wants a reader
    /// calls this first, since taking a reader would wait for the lock.
    pub fn ensure_open(&self, _lock: &MutexGuard<'_, ()>) -> Result<(), StoreError> {
        if self.is_closed() {
            self.reopen()
        } else {
            Ok(())
        }
    }

    /// Only one thread writes at a time, files of blobs included.
    pub fn lock_writing(&self) -> MutexGuard<'_, ()> {
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
        lock: &MutexGuard<'_, ()>,
        f: impl FnOnce(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.ensure_open(lock)?;
        let written = {
            let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
            match handle.as_ref() {
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
            let _ = self.reopen();
        }
        written
    }

    fn is_closed(&self) -> bool {
        let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
        handle.is_none()
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        // Closed first, or our own lock would refuse us.
        if let Some(old) = handle.take() {
            let _ = guard(&self.layout.dir, || {
                drop(old);
                Ok(())
            });
        }
        *handle = Some(match self.access {
            Access::ReadWrite => index::open_rw(&self.layout)?,
            Access::ReadOnly => index::open_ro(&self.layout)?,
        });
        Ok(())
    }

    /// Gives free pages back to the file system. `false` when a reader is open, or nothing to do.
    pub fn compact(&self, _lock: &MutexGuard<'_, ()>) -> Result<bool, StoreError> {
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        match handle.as_mut() {
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
        let handle = self
            .handle
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
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
