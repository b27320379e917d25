//! The jobs of Stage II: what the walk of a patch depends on. Where a repository is to be had is no
//! part of that, and neither is a cutoff: patches are walked through all of a line.

use std::sync::Arc;

use crate::digest::Digest;
use crate::job::{Job, Kind, Nature};

/// The first-parent commits of a branch; the output is an encoded [`Line`](super::walk::Line), whose
/// digest is a blob of the job.
pub const LINE: Kind = Kind {
    name: "contamination/line",
    version: 1,
    nature: Nature::Deterministic,
};

/// A patch walked through a line; the output is an encoded [`Walk`](super::walk::Walk).
pub const WALK: Kind = Kind {
    name: "contamination/walk",
    version: 1,
    nature: Nature::Deterministic,
};

/// The line of `repository` up to commit `tip`. `renames` bounds the search for moved files.
pub fn line(repository: &str, tip: &str, renames: u32) -> Job {
    Job::of(LINE)
        .put("repository", repository)
        .put("tip", tip)
        .put("renames", i64::from(renames))
        .done()
}

/// The walk of `patch`, which fits commit `base`, through a line, which is the output of its job.
pub fn walk(repository: &str, line: Digest, tip: &str, base: &str, patch: &Arc<[u8]>) -> Job {
    Job::of(WALK)
        .put("repository", repository)
        .put("line", line)
        .put("tip", tip)
        .put("base", base)
        .blob("patch", patch.clone())
        .done()
}
