//! Running other programs. Everything compiled from a model's text is hostile, and so is compiling
//! it: it runs in [`Sandbox`] and nowhere else.
//!
//! - `command`: what to run, its limits, and how it ended
//! - `sandbox`: what a sandboxed program can see; folders it may write
//! - `supervise`: one run from start to end, with its limits; on `spawn`, `stream` and `words`
//! - `cgroup`, `watch`: the two ways to measure and bound a run
//! - `tree`: walking folders that a hostile program has written
//! - `commands`, `layout`: the recorded commands of a build, and where things are inside
//! - `init`: the program that runs first inside a sandbox; compiled by `build.rs`

mod cgroup;
mod command;
pub mod commands;
pub mod layout;
mod sandbox;
mod spawn;
mod stream;
mod supervise;
mod tree;
mod watch;
mod words;

pub use command::{Bind, Collected, Command, Ended, Limit, Limits, SandboxError, Status, Usage};
pub use sandbox::{Features, Metering, NoSandbox, Policy, Sandbox};
