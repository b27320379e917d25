//! The store of a folder, for commands that look into it and need no project: a subject can be
//! checked where there is none.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::Path;
use std::time::Duration;

use super::error::nothing_stored;
use super::project::store_dir;
use super::{AppError, Project};
use crate::store::{Access, Store, StoreError};

/// Opens the store in `dir` to look into it: for writing if that is possible, else beside the
/// process that writes, or from a disk that takes nothing more.
pub fn store_to_look(dir: &Path) -> Result<Store, AppError> {
    match open(dir, Access::ReadWrite) {
        Err(AppError::Store(
            StoreError::Locked { .. } | StoreError::Full { .. } | StoreError::Io { .. },
        )) => open(dir, Access::ReadOnly),
        other => other,
    }
}

/// Opens the store in `dir` to change it.
pub fn store_to_change(dir: &Path) -> Result<Store, AppError> {
    patiently(|| open(dir, Access::ReadWrite))
}

/// Whether there is a store in `dir`.
pub(super) fn stored(dir: &Path) -> bool {
    store_dir(dir).exists()
}

/// Opens the store in `dir` to put something into it: makes it if there is none.
pub(super) fn store_to_fill(dir: &Path) -> Result<Store, AppError> {
    let store = store_dir(dir);
    std::fs::create_dir_all(&store)
        .map_err(|e| AppError::Environment(format!("{}: {e}", store.display())))?;
    store_to_change(dir)
}

fn open(dir: &Path, access: Access) -> Result<Store, AppError> {
    let store = store_dir(dir);
    if !store.exists() {
        // Either there is no project, which is said, or nothing was run in it.
        Project::read(dir)?;
        return Err(nothing_stored());
    }
    Ok(Store::open(&store, access, env!("CARGO_PKG_VERSION"))?)
}

/// Waits a moment for a command that only shows something: it has the store for as long as it
/// reads.
pub(super) fn patiently<T>(open: impl Fn() -> Result<T, AppError>) -> Result<T, AppError> {
    let mut tries = 0;
    loop {
        match open() {
            Err(AppError::Store(StoreError::Locked { .. })) if tries < 60 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
}
