//! Rows: small values derived from actions, kept so that a cold start need not derive them again,
//! and disposable at any time. A row says what was computed while certain actions stood; once an
//! action is taken out, no row from before may be seen. Each carries the epoch for that.

use redb::WriteTransaction;

use super::error::StoreError;
use super::index::{self, Fault};
use super::open::Store;
use super::record;
use crate::digest::Digest;

impl Store {
    /// Stores rows that were computed from a reader of epoch `epoch` ([`super::Reader::epoch`]).
    /// If an action was taken out since, nothing is stored. Returns whether the rows were.
    ///
    /// # Errors
    /// Those of the index.
    pub fn put_rows(
        &self,
        epoch: u64,
        mut rows: Vec<(Digest, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        rows.sort_by_key(|(digest, _)| *digest);
        self.inner.write(|txn| {
            let now = {
                let meta = txn.open_table(index::META)?;
                redb::ReadableTable::get(&meta, index::EPOCH)?.map_or(0, |e| e.value())
            };
            if now != epoch {
                return Ok(false);
            }
            let mut table = txn.open_table(index::ROWS)?;
            for (digest, row) in &rows {
                table.insert(&digest.0, record::seal_row(digest, epoch, row).as_slice())?;
            }
            Ok(true)
        })
    }
}

/// Starts a new epoch: every row goes.
pub(super) fn raise_epoch(txn: &WriteTransaction) -> Result<(), Fault> {
    let mut meta = txn.open_table(index::META)?;
    let now = redb::ReadableTable::get(&meta, index::EPOCH)?.map_or(0, |e| e.value());
    meta.insert(index::EPOCH, now.wrapping_add(1))?;
    txn.delete_table(index::ROWS)?;
    txn.open_table(index::ROWS)?;
    Ok(())
}
