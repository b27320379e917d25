//! Running other programs: builds, compilers, tests. Impure. Everything compiled from a model's
//! text is hostile, and so is compiling it: it runs in [`Sandbox`] and nowhere else.
//!
//! The sandbox:
//! - `command`: what to run, its limits, and how it ended
//! - `sandbox`: what a sandboxed program can see; folders it may write
//! - `supervise`: one run from start to end, with its limits; on `spawn`, `stream` and `words`
//! - `cgroup`, `watch`: the two ways to measure and bound a run
//! - `tree`: walking folders that a hostile program has written
//! - `init`: the program that runs first inside a sandbox; compiled by `build.rs`
//!
//! What is run in it:
//! - `runner`: what the executors share; `toolchain`; `trees`: the cache of what can be made again
//! - `base`, recorded by `recorder`, understood by `commands`: the unchanged subject
//! - `replay`, for `verdict` and `program`: variants in its place; `run`: its tests
//! - `fetch`, `answer`: sources, and models without a network
#![allow(clippy::disallowed_methods, reason = "an impure room")]

pub mod answer;
pub mod base;
mod cgroup;
mod command;
pub mod commands;
pub mod fetch;
pub mod program;
pub mod recorder;
pub mod replay;
pub mod run;
pub mod runner;
mod sandbox;
mod spawn;
mod stream;
mod supervise;
pub mod toolchain;
mod tree;
pub mod trees;
pub mod verdict;
mod watch;
mod words;

pub use command::{Bind, Collected, Command, Ended, Limit, Limits, SandboxError, Status, Usage};
pub use sandbox::{Features, Metering, NoSandbox, Policy, Sandbox};
