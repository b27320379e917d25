//! everbench: a live benchmark generator for coding LLMs, as an incremental engine.
//! The rooms and what each may do are listed in ARCHITECTURE.md. The library never touches the
//! terminal, the environment or the clock outside the rooms marked impure there.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod app;
pub mod ask;
pub mod cancel;
pub mod cli;
pub mod config;
pub mod contamination;
pub mod date;
pub mod digest;
pub mod engine;
pub mod exec;
pub mod job;
pub mod lang;
pub mod logs;
pub mod oss;
pub mod report;
pub mod source;
pub mod stats;
pub mod store;
pub mod subject;
pub mod tosss;

/// The digest of the code of the pure rooms and of all dependencies' versions.
pub const CODE: &str = env!("EVERBENCH_CODE");
