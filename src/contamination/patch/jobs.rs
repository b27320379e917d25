//! The jobs of Stage II: what the walk of a patch depends on. Where a repository is to be had is no
//! part of that, and neither is a cutoff: patches are walked through all of a line.

use super::benchmark::Instance;
use super::course;
use super::walk::{Line, Walk};
use crate::digest::Digest;
use crate::job::{Job, JobBuilder, Kind, Nature};

/// The first-parent commits of a branch; the output is an encoded [`Line`].
pub const LINE: Kind = Kind {
    name: "contamination/line",
    version: 2,
    nature: Nature::Deterministic,
};

/// What the commits of one stretch of a line change; the output is an encoded
/// [`Changes`](super::walk::Changes).
pub const STRETCH: Kind = Kind {
    name: "contamination/stretch",
    version: 1,
    nature: Nature::Deterministic,
};

/// Where a base that is no commit of the line belongs to it; the output is an encoded
/// [`Join`](super::walk::Join).
pub const JOIN: Kind = Kind {
    name: "contamination/join",
    version: 1,
    nature: Nature::Deterministic,
};

/// A patch walked from its base back to the first commit; the output is an encoded
/// [`Leg`](super::walk::Leg).
pub const WALK: Kind = Kind {
    name: "contamination/walk",
    version: 3,
    nature: Nature::Deterministic,
};

/// A patch walked on from where another leg ended; the output is an encoded [`Leg`](super::walk::Leg).
pub const LEG: Kind = Kind {
    name: "contamination/leg",
    version: 1,
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

/// The line of `repository` up to commit `tip`.
pub fn line(repository: &str, tip: &str) -> Job {
    Job::of(LINE)
        .put("repository", repository)
        .put("tip", tip)
        .done()
}

/// A line that patches are walked along, which is the output of its job.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// The line.
    pub line: &'a Line,
    /// Its last commit.
    pub tip: &'a str,
    /// Bounds the search for moved files.
    pub renames: u32,
}

impl Way<'_> {
    /// Its stretches, the oldest first. A commit's id stands for all that is before it, so of a line that
    /// has grown only the last one is another.
    pub fn stretches(&self, repository: &str) -> Vec<Job> {
        let all = course::stretches(self.line.commits.len(), course::STRETCH);
        let job = |range: std::ops::Range<usize>| {
            Job::of(STRETCH)
                .put("repository", repository)
                .put("until", self.id(range.end - 1))
                .put("commits", range.len() as i64)
                .put("renames", i64::from(self.renames))
                .done()
        };
        all.map(job).collect()
    }

    /// Where `base` belongs to it.
    pub fn join(&self, repository: &str, base: &str) -> Job {
        Job::of(JOIN)
            .put("repository", repository)
            .put("base", base)
            .put("tip", self.tip)
            .done()
            .with_material(LINE_OF, line(repository, self.tip))
    }

    /// The walk of an instance's patch back from `position`, where its base is or belongs. What comes
    /// after that is no part of it.
    pub fn walk(&self, instance: &Instance, position: usize) -> Job {
        let job = of(WALK, instance)
            .put("at", self.id(position))
            .put("position", position as i64);
        self.along(instance, job)
    }

    /// The walk of an instance's patch on from position `from`, where the leg of output `after` ended, to
    /// position `to`. What comes after that is no part of it.
    pub fn leg(&self, instance: &Instance, after: Digest, (from, to): (usize, usize)) -> Job {
        let job = of(LEG, instance)
            .put("after", after)
            .put("from", from as i64)
            .put("until", self.id(to))
            .put("position", to as i64);
        self.along(instance, job)
    }

    fn along(&self, instance: &Instance, job: JobBuilder) -> Job {
        let job = job.put("renames", i64::from(self.renames)).done();
        job.with_material(LINE_OF, line(&instance.repository, self.tip))
    }

    fn id(&self, position: usize) -> &str {
        &self.line.commits[position].0
    }
}

/// The name by which the job of the line comes along with those that are about it.
pub const LINE_OF: &str = "line";

/// The texts of a walk.
pub fn texts(instance: &Instance, walk: &Walk) -> Job {
    of(TEXTS, instance).blob("walk", walk.encode()).done()
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
