//! The jobs of Stage II: what the walk of a patch depends on. Where a repository is to be had is no
//! part of that, and neither is a cutoff: patches are walked through all of a line.

use super::benchmark::Instance;
use crate::digest::Digest;
use crate::job::{Job, JobBuilder, Kind, Nature};

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
    version: 2,
    nature: Nature::Deterministic,
};

/// The texts that are compared for a walk; the output is an encoded [`Texts`](super::embed::Texts).
pub const TEXTS: Kind = Kind {
    name: "contamination/texts",
    version: 1,
    nature: Nature::Deterministic,
};

/// A patch measured against its base and against its base with the patch; the output is an encoded
/// [`Planted`](super::embed::Planted).
pub const PLANTED: Kind = Kind {
    name: "contamination/planted",
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

/// The walk of an instance's patch through a line, which is the output of its job.
pub fn walk(instance: &Instance, line: Digest, tip: &str) -> Job {
    of(WALK, instance).put("line", line).put("tip", tip).done()
}

/// The texts of a walk, which is the output of its job.
pub fn texts(instance: &Instance, walk: Digest) -> Job {
    of(TEXTS, instance).put("walk", walk).done()
}

/// An instance's patch with its two sides, known to be absent from the one and present in the other.
pub fn planted(instance: &Instance) -> Job {
    of(PLANTED, instance).done()
}

/// A job about the patch of an instance.
fn of(kind: Kind, instance: &Instance) -> JobBuilder {
    let job = Job::of(kind)
        .put("repository", &*instance.repository)
        .put("base", &*instance.base)
        .blob("patch", instance.patch.clone());
    match instance.fixed {
        false => job,
        true => job.put("fits", BACKWARDS),
    }
}

/// What the input `fits` says where the base is as after the patch; there is none elsewhere.
pub const BACKWARDS: &str = "backwards";
