//! The incremental engine: pure queries over salsa on one side, a driver that runs what they lack
//! on the other, and between them nothing but values.
//!
//! A query that needs something impure derives a [`Job`](crate::job::Job) and calls [`Db::demand`].
//! What is missing comes back as a [`Hold`], is folded upward by [`fold`] and reaches the driver as
//! the root's value. It is never collected on the side: a memoised query does not run again, so
//! a side effect in it would be lost.
//!
//! An observation of the machine ([`Driver::look`]) is a job like others to a query, and no fact to
//! the store.
//!
//! Must never happen here: running a job inside a query, reading a clock inside a query, cloning
//! the database inside a query.

mod board;
mod db;
mod driver;
mod hold;
mod lately;
mod observe;
mod registry;
mod scribe;
mod service;

pub use db::{Db, EngineDb, Facts, FactsError, Slot};
pub use driver::{Done, DriveError, Driven, Driver, Ledger, Observer, Progress, Tally, Tried};
pub use hold::{Broken, Hold, Whose, fold};
pub use lately::Lately;
pub use registry::{Absent, Context, Executor, Failure, Output, Registered, Registry, Runs, Spent};
pub use service::{Order, Service};

#[cfg(test)]
mod tests;
