//! What is tested and how: the manifest of a subject, read from TOML into a [`Manifest`].
//!
//! A manifest says where a project's source comes from, how it is built in two flavours, how its
//! tests are run and read, which functions are drawn and how they are scored. `docs/subjects.md`
//! tells authors how to write one. This room is pure: it gets the text and gives back the typed
//! manifest or every problem in it; fetching is the room `source`, running is `exec`.
//!
//! - [`manifest`]: the types, and what is derived from them (commands, environment, selection).
//! - [`suite`]: the tests: shards, groups of files, profiles.
//! - [`template`]: `{cc}` and the other placeholders in build commands.
//! - [`globs`], [`path`]: the patterns and the paths that may stand in a manifest.
//! - [`part`]: canonical bytes of the parts that different stages depend on, for their keys.
//! - [`source`]: one file per kind of source.
//! - [`read`], with `read_suite`, `toml_tree` and `check`, and [`problem`]: reading TOML, with
//!   all problems and their places.
//! - `report`: the header of test programs, and which part of a report counts.
//! - [`preset`]: the subjects that come with the program; [`guess`]: a first manifest for a tree.

mod check;
pub mod globs;
pub mod guess;
pub mod manifest;
pub mod part;
pub mod path;
pub mod preset;
pub mod problem;
pub mod read;
mod read_suite;
mod report;
pub mod source;
pub mod suite;
pub mod template;
mod toml_tree;

pub use globs::Globs;
pub use manifest::{
    Build, BuildPlan, COUNTS, Extractor, Flavour, Functions, Manifest, Report, Sanitizers, Scoring,
    Selection, Tools,
};
pub use part::Digests;
pub use preset::{Preset, UnknownPreset, preset, presets};
pub use problem::{Problem, Problems};
pub use report::{
    REACH_HEADER, REPORT_HEADER, REPORT_HEADER_CPP, REPORT_TOKEN, REPORT_TOKEN_LENGTH, reported,
};
pub use source::{
    CrateSource, DebianSource, DirectorySource, Follow, Followed, GitSource, Pin, SdistSource,
    Source, TarballSource, Unidentified, is_commit,
};
pub use suite::{
    Cwd, EmptyGroup, FileGroup, GroupCount, Places, Shard, ShardLimits, Suite, TestHole, TestText,
    Tests, UnknownProfile,
};

#[cfg(test)]
mod report_tests;
