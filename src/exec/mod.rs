//! Running other programs: builds, compilers, tests. Impure. Everything compiled from a model's
//! text is hostile, and so is compiling it: it runs in the sandbox and nowhere else.
pub mod answer;
pub mod base;
pub mod commands;
pub mod fetch;
pub mod layout;
pub mod program;
pub mod recorder;
pub mod replay;
pub mod run;
pub mod runner;
pub mod toolchain;
pub mod trees;
pub mod verdict;

pub use replay::Replacement;
