//! What upstream did to its own tests: the unchanged subject's cases against those of an earlier
//! evaluation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::artifact;
use super::baseline;
use super::inputs::{Settings, Subject};
use super::population;
use super::suite::suite;
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::logs::{Baseline, Case};

/// The unchanged subject's cases at a commit, as noted of a complete evaluation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tested {
    /// The tree.
    pub tree: Option<Digest>,
    /// What reports call it.
    pub commit: String,
    /// How it is tested and read: under another suite or parser, other cases are not upstream's doing.
    pub under: Digest,
    /// By shard.
    pub shards: BTreeMap<String, Baseline>,
}

/// A case by its shard.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Told {
    /// The shard's name.
    pub shard: String,
    /// The case's name, with a number from the second of that name on.
    pub case: String,
}

/// How the cases differ from those of an earlier commit. A case is in one list at most.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Upstream {
    /// The earlier commit.
    pub since: String,
    /// Fail in every run and did not.
    pub newly_failing: Vec<Told>,
    /// Do not always do the same and did.
    pub newly_flaky: Vec<Told>,
    /// Are skipped in every run and were not.
    pub newly_skipped: Vec<Told>,
    /// Pass in every run and did not.
    pub recovered: Vec<Told>,
    /// Are reported no more.
    pub vanished: Vec<Told>,
    /// Were not reported.
    pub appeared: Vec<Told>,
}

/// The unchanged subject's cases.
///
/// # Errors
/// What the baseline lacks.
pub fn tested(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    commit: &str,
) -> Result<Tested, Hold> {
    let baseline = baseline::baseline(db, settings, subject)?;
    let suite = suite(db, subject)?;
    let rules = subject.rules(db);
    let under = [rules.tests_part(), rules.parser_part()].map(|part| Digest::of(&part));
    let shards = suite.shards.iter().zip(&baseline.shards);
    Ok(Tested {
        tree: Some(population::snapshot(db, subject)?.0),
        commit: commit.to_string(),
        under: Digest::of(&artifact::write(&under)),
        shards: shards.map(|(s, b)| (s.name.clone(), b.clone())).collect(),
    })
}

/// How `now` differs from `then`; nothing if they were not tested alike.
pub fn compare(then: &Tested, now: &Tested) -> Option<Upstream> {
    if then.under != now.under {
        return None;
    }
    let mut out = Upstream {
        since: then.commit.clone(),
        ..Upstream::default()
    };
    let names: BTreeSet<&String> = then.shards.keys().chain(now.shards.keys()).collect();
    for shard in names {
        let (old, new) = (
            states(then.shards.get(shard)),
            states(now.shards.get(shard)),
        );
        let cases: BTreeSet<&Case> = old.keys().chain(new.keys()).copied().collect();
        for case in cases {
            let list = match (old.get(case), new.get(case)) {
                (old, new) if old == new => continue,
                (_, None) => &mut out.vanished,
                (None, _) => &mut out.appeared,
                (_, Some(State::Passing)) => &mut out.recovered,
                (_, Some(State::Failing)) => &mut out.newly_failing,
                (_, Some(State::Flaky)) => &mut out.newly_flaky,
                (_, Some(State::Skipped)) => &mut out.newly_skipped,
            };
            list.push(Told {
                shard: shard.clone(),
                case: match case.ordinal {
                    0 | 1 => case.name.clone(),
                    n => format!("{} #{n}", case.name),
                },
            });
        }
    }
    Some(out)
}

/// What a case does in all runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Passing,
    Failing,
    Flaky,
    Skipped,
}

fn states(shard: Option<&Baseline>) -> BTreeMap<&Case, State> {
    let Some(shard) = shard else {
        return BTreeMap::new();
    };
    let sets = [
        (&shard.stable_pass, State::Passing),
        (&shard.failing, State::Failing),
        (&shard.flaky, State::Flaky),
        (&shard.skipped, State::Skipped),
    ];
    let all = sets.into_iter();
    all.flat_map(|(cases, state)| cases.iter().map(move |case| (case, state)))
        .collect()
}

impl Upstream {
    /// The lists that are not empty, with what is said of their cases.
    pub fn told(&self) -> Vec<(&'static str, &[Told])> {
        let all: [(&'static str, &[Told]); 6] = [
            ("newly failing", &self.newly_failing),
            ("newly flaky", &self.newly_flaky),
            ("newly skipped", &self.newly_skipped),
            ("vanished", &self.vanished),
            ("appeared", &self.appeared),
            ("pass again", &self.recovered),
        ];
        all.into_iter()
            .filter(|(_, list)| !list.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A shard in which case `i` does what the `i`-th number says; 4 is not reported.
    fn tested(states: &[u8]) -> Tested {
        let mut shard = Baseline {
            stable_pass: BTreeSet::new(),
            failing: BTreeSet::new(),
            flaky: BTreeSet::new(),
            skipped: BTreeSet::new(),
            exits: BTreeSet::new(),
            runs: 3,
        };
        for (i, state) in states.iter().enumerate() {
            let case = Case {
                name: format!("case {i}"),
                ordinal: 1,
            };
            match state {
                0 => shard.stable_pass.insert(case),
                1 => shard.failing.insert(case),
                2 => shard.flaky.insert(case),
                3 => shard.skipped.insert(case),
                _ => false,
            };
        }
        Tested {
            tree: None,
            commit: "then".into(),
            under: Digest::of(b""),
            shards: BTreeMap::from([("shard".into(), shard)]),
        }
    }

    proptest! {
        /// Each case whose state is another is told once, by what it is now.
        #[test]
        fn what_changed_is_told_once(states in prop::collection::vec((0u8..5, 0u8..5), 0..20)) {
            let (old, new): (Vec<u8>, Vec<u8>) = states.iter().copied().unzip();
            let said = compare(&tested(&old), &tested(&new)).unwrap();
            let lists = [
                &said.recovered, &said.newly_failing, &said.newly_flaky, &said.newly_skipped,
                &said.vanished, &said.appeared,
            ];
            for (i, (old, new)) in states.iter().enumerate() {
                let name = format!("case {i}");
                let told: Vec<usize> = (0..6).filter(|n| lists[*n].iter().any(|t| t.case == name)).collect();
                let expected = match (old, new) {
                    (old, new) if old == new => vec![],
                    (4, _) => vec![5],
                    (_, new) => vec![usize::from(*new)],
                };
                prop_assert_eq!(told, expected);
            }
        }
    }
}
