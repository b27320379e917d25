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
//! - `runner`: what the executors share; `toolchain`, `packages`; `trees`: the cache of what can be made again
//! - `base`, recorded by `recorder`, understood by `commands` and `products`, looked at by
//!   `examine`: the unchanged subject
//! - `placeless`: objects in which nothing says where in a file a function stands
//! - `footprint`: which files of the system a build opens; `observe`: what these hold
//! - `replay`, for `verdict` and `program`: variants in its place; `run`: its tests, with `writable`
//! - `libclang`, asked in `libclang_worker`: the functions that a compiler sees
//! - `warnings`: what the compiler says of a variant that compiles; `coverage`: what tests execute
//! - `mine`, `patches`: what commits change, and patches walked through histories
//! - `fetch`, `answer`: sources, and models without a network; `models`: those over HTTP
#![allow(clippy::disallowed_methods, reason = "an impure room")]

pub mod answer;
pub mod base;
mod cgroup;
mod command;
pub mod commands;
pub mod coverage;
mod examine;
pub mod fetch;
pub mod footprint;
pub mod libclang;
pub mod libclang_worker;
pub mod mine;
pub mod models;
pub mod observe;
mod opens;
pub mod packages;
pub mod patches;
pub mod placeless;
mod products;
pub mod program;
mod reach;
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
pub mod warnings;
mod watch;
mod words;
mod writable;

pub use command::{Bind, Collected, Command, Ended, Limit, Limits, SandboxError, Status, Usage};
pub use sandbox::{Features, Metering, NoSandbox, Policy, Sandbox};

use std::sync::Arc;

use crate::engine::Registry;
use crate::oss::{artifact, compiled};

/// Registers what this room runs on a subject. Programs lie in an evictable cache, so their runs
/// go first; models are registered by whoever knows them.
pub fn register(registry: &mut Registry, shop: &Arc<runner::Workshop>, sources: fetch::Sources) {
    let fetch = fetch::Fetch {
        shop: shop.clone(),
        sources,
    };
    registry.add(artifact::SOURCE, 100, Arc::new(fetch));
    observe::register(registry, &shop.system);
    let footprint = footprint::Footprint(shop.clone());
    registry.add(artifact::FOOTPRINT, 95, Arc::new(footprint));
    registry.add(artifact::BASE, 90, Arc::new(base::BaseBuild(shop.clone())));
    registry.add(
        compiled::EXTRACT,
        85,
        Arc::new(libclang::Extract(shop.clone())),
    );
    for kind in [artifact::READS, artifact::RUN] {
        registry.add(kind, 80, Arc::new(run::TestRun(shop.clone())));
    }
    let coverage = coverage::CoverageRun(shop.clone());
    registry.add(artifact::COVERAGE, 30, Arc::new(coverage));
    registry.add(
        artifact::PROGRAM,
        70,
        Arc::new(program::Program(shop.clone())),
    );
    registry.add(
        artifact::VERDICT,
        50,
        Arc::new(verdict::Verdict(shop.clone())),
    );
    registry.add(
        artifact::WARNINGS,
        45,
        Arc::new(warnings::Warnings(shop.clone())),
    );
    registry.add(artifact::AUDIT, 40, Arc::new(verdict::Audit(shop.clone())));
}
