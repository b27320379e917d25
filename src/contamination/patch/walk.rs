//! The history of a repository as it is walked, and what the walk of a patch through it gives. These
//! are the outputs of jobs; what they mean is decided each time they are read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decide::{Decision, Thresholds, least, site};
use super::diff::LeftOut;
use super::edit::{Place, Site};
use super::measure::{Found, Seen};

/// The first-parent commits of a branch, the oldest first. Positions are places in this list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Line {
    /// Ids, and when each was committed, in seconds since 1970.
    pub commits: Vec<(String, i64)>,
}

/// What commits in a row of a [`Line`] change, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Changes {
    /// Paths, each once.
    pub paths: Vec<String>,
    /// For each commit its ordinary files.
    pub commits: Vec<Vec<Step>>,
}

/// A file that a commit changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its path before, by its place among the paths, and the object's id; nothing if it was added.
    pub from: Option<(u32, String)>,
    /// Its path after; nothing if it was removed.
    pub to: Option<(u32, String)>,
}

impl Line {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("texts and numbers have a form")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Line, postcard::Error> {
        postcard::from_bytes(bytes)
    }

    /// The position of the last commit that was committed at or before a time: the snapshot that
    /// whoever collected then has seen.
    pub fn snapshot(&self, time: i64) -> Option<usize> {
        self.commits
            .iter()
            .rposition(|(_, committed)| *committed <= time)
    }
}

impl Changes {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("texts and numbers have a form")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Changes, postcard::Error> {
        postcard::from_bytes(bytes)
    }
}

/// Where the base of a patch is in a line, if it is none of its commits by its whole id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// The repository does not have it.
    Gone,
    /// It has nothing in common with the line.
    Apart,
    /// It is this commit, or was brought in by it, or branched from it.
    At(String),
}

impl Join {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts are JSON")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Join, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// Why nothing can be said of a patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The repository is not to be had.
    RepositoryGone,
    /// The repository does not have the base commit.
    BaseGone,
    /// The base commit is in no line with the branch.
    BaseApart,
    /// The base does not have a file that the patch changes.
    NoFile,
    /// A hunk does not fit its file.
    Misfit,
    /// The text is no patch, or a patch without hunks.
    NoHunks,
    /// Nothing of the patch can be compared.
    NothingCompared,
    /// No commit is as old as the cutoff.
    NoSnapshot,
    /// A path of the patch leads out of the project.
    Outside,
}

impl Problem {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Problem::RepositoryGone => "the repository cannot be had",
            Problem::BaseGone => "the repository does not have the base commit",
            Problem::BaseApart => "the base commit has nothing in common with the branch",
            Problem::NoFile => "the base does not have a file of the patch",
            Problem::Misfit => "the patch does not fit the base",
            Problem::NoHunks => "the patch has no hunk",
            Problem::NothingCompared => "nothing of the patch can be compared",
            Problem::NoSnapshot => "no commit is as old as the cutoff",
            Problem::Outside => "a path of the patch leads out of the project",
        }
    }
}

/// A patch walked through a line.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Walk {
    /// Why nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<(Problem, String)>,
    /// The position from which on the base's code is there.
    pub base: usize,
    /// What the patch touches, in its order.
    pub trails: Vec<Trail>,
    /// What of it was not compared.
    pub left_out: Vec<(String, LeftOut)>,
    /// First-parent commits that touch one of its files.
    pub touching: usize,
}

/// Where one site of a patch was seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trail {
    /// What is followed.
    pub head: Head,
    /// What was seen, by rising position: each holds until the next one.
    pub visits: Vec<Visit>,
}

/// What of a site a decision needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The file: after the patch, or before it if the patch removes it.
    pub path: String,
    /// The function, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Whether the patch removes all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl Head {
    /// That of a site.
    pub fn of(site: &Site) -> Head {
        Head {
            path: site
                .to
                .clone()
                .or_else(|| site.from.clone())
                .unwrap_or_default(),
            function: match &site.place {
                Place::Function { name, .. } => Some(name.clone()),
                Place::Outside | Place::File => None,
            },
            removed: site.after.is_none(),
        }
    }
}

/// A commit at which a site begins to look as it was seen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Visit {
    /// Its position.
    pub at: usize,
    /// The file there.
    pub path: String,
    /// The file's object; empty if there is none.
    pub object: String,
    /// What was seen.
    pub seen: Seen,
}

/// One leg of a walk: from the base back to the first commit, or from where another leg ended towards the
/// tip.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Leg {
    /// What was seen on it.
    pub walk: Walk,
    /// How each site stands at its end: all that the next one goes on from.
    pub ends: Vec<Stand>,
}

/// How a site stands after a commit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stand {
    /// The file there; where there is none, the one that it was.
    pub path: String,
    /// What was seen last.
    pub seen: Seen,
    /// Whether the function was not in the text that was looked at last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Commits up to here that touch its file.
    pub touching: usize,
}

impl Leg {
    /// A walk that could not begin.
    pub fn failed(walk: Walk) -> Leg {
        Leg {
            walk,
            ends: Vec::new(),
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Leg, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// What a patch is from a position on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    /// The position.
    pub at: usize,
    /// Of the hunk that is least there.
    pub decision: Decision,
}

impl Trail {
    /// What looks the same again is one visit.
    pub fn settle(&mut self) {
        self.visits.dedup_by(|next, last| {
            next.seen == last.seen && next.path == last.path && next.seen.found != Found::NoFile
                || next.seen.found == Found::NoFile && last.seen.found == Found::NoFile
        });
    }
}

#[cfg(test)]
impl Stand {
    /// One that has seen nothing of a file.
    pub fn at(path: &str) -> Stand {
        Stand {
            path: path.to_string(),
            seen: Seen {
                found: Found::NoFile,
                blocks: Vec::new(),
            },
            gone: false,
            touching: 0,
        }
    }
}

impl Walk {
    /// A walk that could not begin.
    pub fn failed(problem: Problem, what: impl Into<String>) -> Walk {
        Walk {
            problem: Some((problem, what.into())),
            ..Walk::default()
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Walk, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Goes on with what was seen on a further leg.
    pub fn extend(&mut self, further: &Walk) {
        for (trail, more) in self.trails.iter_mut().zip(&further.trails) {
            trail.visits.extend_from_slice(&more.visits);
            trail.settle();
        }
        self.touching = self.touching.max(further.touching);
    }

    /// What the patch is, by rising position: each holds until the next one; the first is at 0.
    pub fn states(&self, thresholds: &Thresholds) -> Vec<State> {
        // For each position at which anything changes, which sites do.
        let mut turns: BTreeMap<usize, Vec<(usize, &Visit)>> = BTreeMap::new();
        for (number, trail) in self.trails.iter().enumerate() {
            for visit in &trail.visits {
                turns.entry(visit.at).or_default().push((number, visit));
            }
        }
        turns.entry(0).or_default();
        turns.entry(self.base).or_default();
        let mut now: Vec<Option<&Visit>> = vec![None; self.trails.len()];
        let nothing = Seen {
            found: Found::NoFile,
            blocks: Vec::new(),
        };
        let mut states: Vec<State> = Vec::new();
        for (at, visits) in turns {
            for (number, visit) in visits {
                now[number] = Some(visit);
            }
            let decisions = self.trails.iter().zip(&now).enumerate();
            let decisions = decisions.map(|(number, (trail, visit))| {
                let seen = visit.map_or(&nothing, |v| &v.seen);
                site(&trail.head, number, seen, at >= self.base, thresholds)
            });
            if let Some(decision) = least(decisions) {
                states.push(State { at, decision });
            }
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::Presence;
    use super::super::measure::Measure;
    use super::*;

    #[test]
    fn a_snapshot_is_the_last_commit_until_then() {
        let line = Line {
            commits: [10, 30, 20, 40].map(|t| (t.to_string(), t)).to_vec(),
        };
        assert_eq!(line.snapshot(9), None);
        assert_eq!(line.snapshot(10), Some(0));
        // A clock that was wrong once does not hide what came after it.
        assert_eq!(line.snapshot(25), Some(2));
        assert_eq!(line.snapshot(99), Some(3));
        assert_eq!(Line::decode(&line.encode()).unwrap(), line);
    }

    fn trail(visits: &[(usize, f64)]) -> Trail {
        let visit = |(at, after): &(usize, f64)| Visit {
            at: *at,
            path: "a".into(),
            object: String::new(),
            seen: Seen {
                found: Found::Same,
                blocks: vec![Measure {
                    hunk: 0,
                    before: 0.9,
                    after: *after,
                    added: Some(*after),
                    deleted: None,
                    line: 1,
                    regions: [0..0, 0..0],
                }],
            },
        };
        Trail {
            head: Head {
                path: "a".into(),
                function: Some("f".into()),
                removed: false,
            },
            visits: visits.iter().map(visit).collect(),
        }
    }

    #[test]
    fn a_patch_is_there_while_all_its_sites_are() {
        let walk = Walk {
            base: 1,
            trails: vec![
                trail(&[(1, 0.2), (3, 1.0), (7, 0.2)]),
                trail(&[(1, 0.2), (4, 1.0)]),
            ],
            ..Walk::default()
        };
        let states = walk.states(&Thresholds::default());
        let there: Vec<_> = states
            .iter()
            .map(|s| (s.at, s.decision.presence == Presence::Present))
            .collect();
        assert_eq!(
            there,
            [(0, false), (1, false), (3, false), (4, true), (7, false)]
        );
        assert_eq!(states[2].decision.site, 1);
        assert_eq!(Walk::decode(&walk.encode()).unwrap(), walk);
    }
}
