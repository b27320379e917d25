//! The line of a repository in stretches of so many commits, counted from the oldest: new commits leave
//! all of them as they are but the last. Says which commits touch a path, and up to where a walk goes
//! next, which is the only thing that it needs to know of the commits that it has not seen.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::walk::{Changes, Line, Stand, Step};

/// Commits of a stretch, except for the last one, which may have fewer. A new commit is read with at most
/// so many others, and a patch that it touches is walked again through at most so many.
pub const STRETCH: usize = 256;

/// The stretches of a line of so many commits, as positions in it.
pub fn stretches(commits: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..commits)
        .step_by(length)
        .map(move |first| first..commits.min(first + length))
}

/// One stretch with its changes, by path.
pub struct Stretch {
    first: usize,
    changes: Changes,
    by_path: HashMap<u32, Vec<usize>>,
    places: HashMap<String, u32>,
}

impl Stretch {
    /// Reads the changes of a stretch that begins at a position.
    pub fn new(first: usize, changes: Changes) -> Stretch {
        let mut by_path: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, steps) in (first..).zip(&changes.commits) {
            for step in steps {
                let sides = [&step.from, &step.to].into_iter().flatten();
                for (path, _) in sides {
                    let all = by_path.entry(*path).or_default();
                    if all.last() != Some(&at) {
                        all.push(at);
                    }
                }
            }
        }
        let places = changes.paths.iter().cloned().zip(0..).collect();
        Stretch {
            first,
            changes,
            by_path,
            places,
        }
    }

    /// Positions of its commits that touch a path, rising.
    fn touching(&self, path: &str) -> &[usize] {
        let place = self.places.get(path);
        place.and_then(|p| self.by_path.get(p)).map_or(&[], |v| v)
    }
}

/// The changes of a line.
pub struct Index {
    stretches: Vec<Arc<Stretch>>,
    length: usize,
}

impl Index {
    /// Of stretches of this length, the oldest first.
    pub fn new(stretches: Vec<Arc<Stretch>>, length: usize) -> Index {
        Index { stretches, length }
    }

    /// The first commit behind `after`, and none behind `to`, that touches a path.
    pub fn next(&self, path: &str, after: usize, to: usize) -> Option<usize> {
        let some = self.stretches.get((after + 1) / self.length..)?;
        let mut some = some.iter().take_while(|stretch| stretch.first <= to);
        let first = some.find_map(|stretch| {
            let all = stretch.touching(path);
            all.get(all.partition_point(|at| *at <= after)).copied()
        });
        first.filter(|at| *at <= to)
    }

    /// The last commit before `until` that touches a path.
    pub fn previous(&self, path: &str, until: usize) -> Option<usize> {
        let end = until.div_ceil(self.length).min(self.stretches.len());
        self.stretches[..end].iter().rev().find_map(|stretch| {
            let all = stretch.touching(path);
            let before = all.partition_point(|at| *at < until);
            before.checked_sub(1).map(|last| all[last])
        })
    }

    /// Up to where a walk goes on that has come to `from` and stands there so: of the next stretch in which
    /// anything touches it, the last commit that does. Nothing if it stands so at the tip, too.
    pub fn further(&self, ends: &[Stand], from: usize) -> Option<usize> {
        let some = self.stretches.get((from + 1) / self.length..)?;
        some.iter().find_map(|stretch| {
            let last = |end: &Stand| stretch.touching(&end.path).last().copied();
            ends.iter().filter_map(last).filter(|at| *at > from).max()
        })
    }

    /// What a commit changes.
    pub fn steps(&self, at: usize) -> &[Step] {
        let stretch = self.stretch(at);
        &stretch.changes.commits[at - stretch.first]
    }

    /// The path of this place in a commit's changes.
    pub fn path(&self, at: usize, place: u32) -> &str {
        &self.stretch(at).changes.paths[place as usize]
    }

    /// Whether a stretch is one of its own.
    pub fn has(&self, stretch: &Arc<Stretch>) -> bool {
        self.stretches.iter().any(|own| Arc::ptr_eq(own, stretch))
    }

    fn stretch(&self, at: usize) -> &Stretch {
        &self.stretches[at / self.length]
    }
}

/// A line that was read, with its changes.
pub struct Course {
    /// The line.
    pub line: Arc<Line>,
    /// Where each of its commits is.
    pub positions: HashMap<String, usize>,
    /// Its changes.
    pub index: Index,
}

impl Course {
    /// Of a line and its stretches.
    pub fn new(line: Line, stretches: Vec<Arc<Stretch>>) -> Course {
        let ids = line.commits.iter().map(|(id, _)| id.clone());
        Course {
            positions: ids.zip(0..).collect(),
            line: Arc::new(line),
            index: Index::new(stretches, STRETCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The oracle looks at every commit.
        #[test]
        fn what_touches_a_path_is_found_in_stretches(
            commits in prop::collection::vec(prop::collection::vec(0_u32..3, 0..3), 1..20),
            length in 1_usize..7,
            at in 0_usize..20,
            to in 0_usize..20,
            path in 0_u32..4,
        ) {
            let step = |place: &u32| Step {
                from: None,
                to: Some((*place, String::new())),
            };
            let steps: Vec<Vec<Step>> = commits.iter().map(|c| c.iter().map(step).collect()).collect();
            let read = |range: Range<usize>| {
                Arc::new(Stretch::new(range.start, Changes {
                    paths: ["p0", "p1", "p2"].map(str::to_string).to_vec(),
                    commits: steps[range].to_vec(),
                }))
            };
            let index = Index::new(stretches(commits.len(), length).map(read).collect(), length);
            let all: Vec<usize> = (0..commits.len()).filter(|c| commits[*c].contains(&path)).collect();
            let name = format!("p{path}");
            let next = all.iter().find(|c| **c > at && **c <= to);
            prop_assert_eq!(index.next(&name, at, to), next.copied());
            let previous = all.iter().rfind(|c| **c < at);
            prop_assert_eq!(index.previous(&name, at), previous.copied());
            let stand = Stand::at(&name);
            let further = all.iter().find(|c| **c > at).map(|first| first / length);
            let further = further.and_then(|own| all.iter().rfind(|c| **c / length == own));
            prop_assert_eq!(index.further(&[stand], at), further.copied());
            for (own, steps) in steps.iter().enumerate() {
                prop_assert_eq!(index.steps(own), &steps[..]);
            }
        }
    }
}
