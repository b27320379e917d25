//! Why a query has no value yet. Pure.

use crate::digest::Digest;
use crate::job::Job;

/// A fault that no further run of jobs can mend: the baseline does not build, a manifest's test
/// pattern matches nothing. It ends the evaluation of everything that depends on it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Broken {
    /// What is wrong and where.
    pub what: String,
    /// What the user can do about it.
    pub help: String,
    /// What is at fault.
    pub whose: Whose,
}

/// Whose fault it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Whose {
    /// The unchanged project's: another commit of it may be whole.
    Project,
    /// The store's: its index cannot be read.
    Store,
    /// That of what was asked for or given: a manifest, a template, a choice.
    Request,
}

/// What stands between a query and its value: jobs to run, corrupt blobs to replace, faults. Parts
/// that were set aside for their faults are named beside it: they stand in nobody's way.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hold {
    missing: Vec<Job>,
    corrupt: Vec<Digest>,
    broken: Vec<Broken>,
    aside: Vec<Broken>,
}

impl Hold {
    /// One missing job.
    pub fn missing(job: Job) -> Self {
        Hold {
            missing: vec![job],
            ..Hold::default()
        }
    }

    /// One blob whose bytes do not hash to its digest, or are gone.
    pub fn corrupt(digest: Digest) -> Self {
        Hold {
            corrupt: vec![digest],
            ..Hold::default()
        }
    }

    /// One fault.
    pub fn broken(what: impl Into<String>, help: impl Into<String>) -> Self {
        Hold {
            broken: vec![Broken {
                what: what.into(),
                help: help.into(),
                whose: Whose::Request,
            }],
            ..Hold::default()
        }
    }

    /// One fault of the unchanged project.
    pub fn baseline_broken(what: impl Into<String>, help: impl Into<String>) -> Self {
        Hold::broken(what, help).of(Whose::Project)
    }

    /// A store that cannot be read.
    pub fn unreadable(what: impl Into<String>, help: impl Into<String>) -> Self {
        Hold::broken(what, help).of(Whose::Store)
    }

    fn of(mut self, whose: Whose) -> Self {
        self.broken.iter_mut().for_each(|fault| fault.whose = whose);
        self
    }

    /// If the unchanged project is at fault: without those faults and without the jobs, which cannot
    /// help. Others go on.
    #[must_use]
    pub fn set_aside(mut self) -> Self {
        let (baseline, others): (Vec<Broken>, _) = self
            .broken
            .into_iter()
            .partition(|f| f.whose == Whose::Project);
        if !baseline.is_empty() {
            self.missing.clear();
        }
        self.broken = others;
        self.aside.extend(baseline);
        self
    }

    /// The faults for which parts were set aside.
    pub fn aside(&self) -> &[Broken] {
        &self.aside
    }

    /// True when nothing stands in the way.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.corrupt.is_empty() && self.broken.is_empty()
    }

    /// The missing jobs; sorted and unique by key once [`Hold::settle`] was called.
    pub fn jobs(&self) -> &[Job] {
        &self.missing
    }

    /// The blobs to replace.
    pub fn corrupt_blobs(&self) -> &[Digest] {
        &self.corrupt
    }

    /// The faults.
    pub fn faults(&self) -> &[Broken] {
        &self.broken
    }

    /// Adds what stands in the way of something else.
    pub fn merge(&mut self, other: &Hold) {
        self.missing.extend_from_slice(&other.missing);
        self.corrupt.extend_from_slice(&other.corrupt);
        self.broken.extend_from_slice(&other.broken);
        self.aside.extend_from_slice(&other.aside);
    }

    /// Sorts and removes duplicates, so that equal holds are equal values.
    #[must_use]
    pub fn settle(mut self) -> Self {
        self.missing.sort_unstable();
        self.missing.dedup();
        self.corrupt.sort_unstable();
        self.corrupt.dedup();
        self.broken.sort_unstable();
        self.broken.dedup();
        self.aside.sort_unstable();
        self.aside.dedup();
        self
    }
}

/// All values, or all that stands in the way of any of them: no item hides what another lacks.
pub fn fold<T>(items: impl IntoIterator<Item = Result<T, Hold>>) -> Result<Vec<T>, Hold> {
    let mut values = Vec::new();
    let mut hold = Hold::default();
    for item in items {
        match item {
            Ok(value) => values.push(value),
            Err(h) => hold.merge(&h),
        }
    }
    if hold.is_empty() {
        Ok(values)
    } else {
        Err(hold.settle())
    }
}
