//! The jobs of mining: what a change depends on. Where a repository is to be had is no part of
//! that.

use crate::job::{Job, Kind, Nature};

/// What a commit changes; the output is an encoded [`Change`](super::change::Change), whose digests
/// are blobs of the job.
pub const CHANGE: Kind = Kind {
    name: "tosss/change",
    version: 1,
    nature: Nature::Deterministic,
};

/// The patches of a Debian source package; the output is JSON, a list of
/// [`Patch`](super::debian::Patch), whose digests are blobs of the job.
pub const PATCHES: Kind = Kind {
    name: "tosss/patches",
    version: 1,
    nature: Nature::Deterministic,
};

/// What `commit` of `repository` changes. `renames` bounds the search for moved files.
pub fn change(repository: &str, commit: &str, renames: u32) -> Job {
    Job::of(CHANGE)
        .put("repository", repository)
        .put("commit", commit)
        .put("renames", i64::from(renames))
        .done()
}

/// The patches of `version` of source package `name`.
pub fn patches(name: &str, version: &str) -> Job {
    Job::of(PATCHES)
        .put("name", name)
        .put("version", version)
        .done()
}
