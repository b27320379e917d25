//! The store: what was computed, kept under the key of the job that asked for it.
//!
//! One directory is one store: an index (redb), and a file for each large value. The room keeps
//! bytes and never judges what they mean; it runs no job, and it deletes nothing unless asked.
//! No type of redb leaves this room. The layout on disk, the commit protocol and the reasons are
//! in `docs/store.md`.
//!
//! - [`Store`] owns the directory and is the only one that writes: [`Store::commit`].
//! - [`Reader`] is one consistent snapshot of it.
//! - [`Manifest`] lists an evaluation: logical id, key, output. Its root is what `gc` keeps.
//!
//! Inside: `layout` (directory, format, temporary files), `index` (tables, errors of redb),
//! `record` (bytes of each table's values), `blob` (values by digest), `reader`, `write`, `rows`,
//! `manifest`, `gc` (with `retain`), `verify`, `runs` and `usage` (figures for people); `portable` (the file that carries a part of a store elsewhere),
//! `export`, `import`.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

mod blob;
mod error;
mod export;
mod gc;
mod import;
mod index;
mod layout;
mod ledger;
mod manifest;
mod open;
mod portable;
mod reader;
mod record;
mod retain;
mod rows;
mod runs;
mod usage;
mod verify;
mod write;

#[cfg(test)]
mod crash_images;
#[cfg(test)]
mod manifest_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod portable_tests;
#[cfg(test)]
mod retain_tests;
#[cfg(test)]
mod tests;

pub use blob::INLINE_LIMIT;
pub use error::StoreError;
pub use export::Exported;
pub use gc::GcReport;
pub use import::{ImportOptions, Imported, KeptRoot};
pub use index::catches_panics;
pub use layout::{FORMAT, MIN_READER};
pub use ledger::StoreLedger;
pub use manifest::{Built, Change, Entry, Manifest};
pub use open::{Access, Store};
pub use portable::{Contents, EXPORT_FORMAT};
pub use reader::{Action, Actions, KindCount, Listed, Reader};
pub use record::{Attempt, Conflict, Provenance, Quarantined, Removed};
pub use retain::{Class, ClassReport, Retention};
pub use runs::{KindTally, RunTally};
pub use usage::KindUsage;
pub use verify::{IndexCheck, Problem, Stats, VerifyReport};
pub use write::{Committed, Completed};
