//! The reports of a run against the list of cases its baseline has. Here it is decided what is a
//! pass. The denominator is always the baseline's, so that a hang, a crash or a forged line can
//! lower a pass rate and never raise it. Nothing here reads logs or runs tests.
//!
//! Rules:
//! - A case passed if the log said so, not more often than in the baseline, nowhere said that it
//!   failed, and the way the process ended does not contradict it.
//! - A case of the baseline that did not report is `timeout` if a limit ended the process,
//!   `crashed` if a signal did, `not_run` if the process left by itself.
//! - A name reported more often than in the baseline: the surplus counts in `duplicates`. If any
//!   report of such a name is a failure, all cases of that name are failed; else if any is a
//!   skip, all are skipped.
//! - Names the baseline does not have count in `unknown` and nowhere else.
//! - *Contradiction*: the process ended badly (a signal, a limit, or an exit code that is not 0
//!   and that no baseline run had), yet no case failed or is missing but those that
//!   always fail. Then nobody knows which of the passes to believe: all are `unconfirmed`.
//!   Exit code 0 beside reported failures is no contradiction: many runners do that.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::cases::{Case, Outcome, Report};

/// How the process of a test run ended, seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It left with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// A limit of the run (time, memory, output, processes) ended it.
    Limit,
}

/// What a case does in the unchanged subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Usual {
    /// Passed in every baseline run.
    Passes,
    /// Failed in every baseline run.
    Fails,
    /// Neither: it changed, or was missing in some run.
    Flaky,
}

/// What a run is measured against: the baseline of the same shard, since ordinals of equal names
/// are counted within one log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Expected {
    /// The denominator: every case of the baseline that is not skipped there.
    #[serde(with = "pairs")]
    pub cases: BTreeMap<Case, Usual>,
    /// Cases skipped in every baseline run.
    pub skipped: BTreeSet<Case>,
    /// The exit codes of the baseline runs.
    pub exits: BTreeSet<i32>,
}

/// What became of one case in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    /// The only one that counts.
    Passed,
    /// Reported as failed.
    Failed,
    /// Reported as skipped, though the baseline runs it.
    Skipped,
    /// Not reported; the process left by itself.
    NotRun,
    /// Not reported; a limit ended the process.
    Timeout,
    /// Not reported; a signal ended the process.
    Crashed,
    /// Reported as passed, but the process's end contradicts the reports.
    Unconfirmed,
}

/// A run, or a shard of one, case by case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardResult {
    /// One entry for each of [`Expected::cases`], no more and no fewer.
    #[serde(with = "pairs")]
    pub cases: BTreeMap<Case, CaseOutcome>,
    /// Reports of names that the baseline does not have, by name.
    pub unknown: BTreeMap<String, u32>,
    /// Reports beyond those the baseline has of that name, by name.
    pub duplicates: BTreeMap<String, u32>,
    /// Reports of cases that the baseline skips, by case: outside the denominator.
    pub outside: u32,
    /// How the process ended.
    pub ended: Ended,
}

/// Numbers of cases; their sum is the denominator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "each is the number of the CaseOutcome of that name"
)]
pub struct Tally {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
    pub not_run: u32,
    pub timeout: u32,
    pub crashed: u32,
    pub unconfirmed: u32,
}

impl Tally {
    /// All cases counted: what `passed` is divided by.
    pub fn total(&self) -> u32 {
        self.passed
            + self.failed
            + self.skipped
            + self.not_run
            + self.timeout
            + self.crashed
            + self.unconfirmed
    }
}

impl ShardResult {
    /// Counts the cases that `counts` keeps: all of them, or those a quarantine leaves.
    pub fn tally(&self, counts: impl Fn(&Case) -> bool) -> Tally {
        let mut t = Tally::default();
        for (_, outcome) in self.cases.iter().filter(|(case, _)| counts(case)) {
            *match outcome {
                CaseOutcome::Passed => &mut t.passed,
                CaseOutcome::Failed => &mut t.failed,
                CaseOutcome::Skipped => &mut t.skipped,
                CaseOutcome::NotRun => &mut t.not_run,
                CaseOutcome::Timeout => &mut t.timeout,
                CaseOutcome::Crashed => &mut t.crashed,
                CaseOutcome::Unconfirmed => &mut t.unconfirmed,
            } += 1;
        }
        t
    }
}

/// Decides what became of every expected case. The rules are at the top of this file.
pub fn fold(expected: &Expected, reports: &[Report], ended: Ended) -> ShardResult {
    let allowed = allowance(expected);
    let mut by_name: HashMap<&str, Vec<Outcome>> = HashMap::new();
    for report in reports {
        by_name
            .entry(&report.case.name)
            .or_default()
            .push(report.outcome);
    }

    let mut cases = BTreeMap::new();
    for case in expected.cases.keys() {
        let said = by_name.get(case.name.as_str()).map_or(&[][..], |v| v);
        let surplus = said.len() > allowed[case.name.as_str()] as usize;
        let here = said.get((case.ordinal as usize).saturating_sub(1));
        let outcome = match here {
            Some(_) if surplus && said.contains(&Outcome::Failed) => CaseOutcome::Failed,
            Some(_) if surplus && said.contains(&Outcome::Skipped) => CaseOutcome::Skipped,
            Some(Outcome::Passed) => CaseOutcome::Passed,
            Some(Outcome::Failed) => CaseOutcome::Failed,
            Some(Outcome::Skipped) => CaseOutcome::Skipped,
            None => match ended {
                Ended::Exit(_) => CaseOutcome::NotRun,
                Ended::Signal(_) => CaseOutcome::Crashed,
                Ended::Limit => CaseOutcome::Timeout,
            },
        };
        cases.insert(case.clone(), outcome);
    }
    if contradicts(expected, &by_name, &allowed, ended) {
        for outcome in cases.values_mut() {
            if *outcome == CaseOutcome::Passed {
                *outcome = CaseOutcome::Unconfirmed;
            }
        }
    }

    let mut result = ShardResult {
        cases,
        unknown: BTreeMap::new(),
        duplicates: BTreeMap::new(),
        outside: 0,
        ended,
    };
    for (name, said) in by_name {
        let said = said.len() as u32;
        match allowed.get(name) {
            None => {
                result.unknown.insert(name.to_string(), said);
            }
            Some(&n) => {
                if said > n {
                    result.duplicates.insert(name.to_string(), said - n);
                }
                let skipped = |o: &u32| {
                    expected.skipped.contains(&Case {
                        name: name.to_string(),
                        ordinal: *o,
                    })
                };
                result.outside += (1..=said.min(n)).filter(skipped).count() as u32;
            }
        }
    }
    result
}

/// How often the baseline reports each name.
fn allowance(expected: &Expected) -> HashMap<&str, u32> {
    let mut allowed: HashMap<&str, u32> = HashMap::new();
    for case in expected.cases.keys().chain(&expected.skipped) {
        let n = allowed.entry(&case.name).or_insert(0);
        *n = (*n).max(case.ordinal);
    }
    allowed
}

/// Whether the process ended badly though no report and no missing case says why.
fn contradicts(
    expected: &Expected,
    said: &HashMap<&str, Vec<Outcome>>,
    allowed: &HashMap<&str, u32>,
    ended: Ended,
) -> bool {
    let bad_end = match ended {
        Ended::Exit(code) => code != 0 && !expected.exits.contains(&code),
        Ended::Signal(_) | Ended::Limit => true,
    };
    let explains = |name: &str, allowed: u32| {
        let said = said.get(name).map_or(&[][..], |v| v);
        let usual = |ordinal| {
            expected.cases.get(&Case {
                name: name.to_string(),
                ordinal,
            })
        };
        let fails = |o: &Outcome| *o == Outcome::Failed;
        if said.len() <= allowed as usize {
            (1..=allowed).any(|ordinal| match said.get(ordinal as usize - 1) {
                Some(outcome) => fails(outcome) && usual(ordinal) != Some(&Usual::Fails),
                None => !matches!(usual(ordinal), None | Some(Usual::Fails)),
            })
        } else {
            // Which report is whose is unknown here. A pass printed on top must not turn a usual
            // failure into an unusual one, so only their number counts.
            let usually = (1..=allowed).filter(|&o| usual(o) == Some(&Usual::Fails));
            said.iter().filter(|o| fails(o)).count() > usually.count()
        }
    };
    bad_end && !allowed.iter().any(|(name, n)| explains(name, *n))
}

/// The unchanged subject's cases, from repeated runs of its whole suite.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Baseline {
    /// Passed in every run.
    pub stable_pass: BTreeSet<Case>,
    /// Failed in every run.
    pub failing: BTreeSet<Case>,
    /// Passed, failed, skipped or missing by turns.
    pub flaky: BTreeSet<Case>,
    /// Skipped in every run.
    pub skipped: BTreeSet<Case>,
    /// The exit codes of the runs.
    pub exits: BTreeSet<i32>,
    /// How many runs there were.
    pub runs: usize,
}

/// Runs that make no baseline.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// Flaky cases cannot be told from fewer.
    #[error(
        "a baseline needs at least {min} runs to tell flaky cases, {0} given",
        min = Baseline::MIN_RUNS
    )]
    TooFewRuns(usize),
    /// The unchanged subject's suite must end by itself.
    #[error(
        "baseline run {run} did not end by itself but by {ended:?}: raise its limits or leave the crashing tests out"
    )]
    Died {
        /// Which run, from 0.
        run: usize,
        /// How it ended.
        ended: Ended,
    },
    /// Nothing to measure against.
    #[error("no baseline run reported any case")]
    NoCases,
}

impl Baseline {
    /// The fewest runs a baseline is made of.
    pub const MIN_RUNS: usize = 3;

    /// Whether all cases that go by one of these names passed in every run; nothing if there is none.
    pub fn passed(&self, names: &[&str]) -> Option<bool> {
        let is_it = |case: &Case| names.iter().any(|name| case.is_called(name));
        let not_passed = [&self.failing, &self.flaky, &self.skipped];
        if not_passed.into_iter().flatten().any(is_it) {
            return Some(false);
        }
        self.stable_pass.iter().any(is_it).then_some(true)
    }

    /// Sorts the cases of `runs` by whether they behave the same in all of them. There may be none
    /// that counts: a shard can skip all it has.
    pub fn from_runs(runs: &[(Vec<Report>, Ended)]) -> Result<Self, BaselineError> {
        match runs.iter().all(|(reports, _)| reports.is_empty()) {
            // How it died says more than that it was silent.
            true => Err(Self::of_any(runs).err().unwrap_or(BaselineError::NoCases)),
            false => Self::of_any(runs),
        }
    }

    /// As [`from_runs`](Self::from_runs), where no case at all is none the less a baseline.
    pub fn of_any(runs: &[(Vec<Report>, Ended)]) -> Result<Self, BaselineError> {
        if runs.len() < Self::MIN_RUNS {
            return Err(BaselineError::TooFewRuns(runs.len()));
        }
        let mut exits = BTreeSet::new();
        let mut said: BTreeMap<&Case, Vec<Outcome>> = BTreeMap::new();
        for (run, (reports, ended)) in runs.iter().enumerate() {
            match ended {
                Ended::Exit(code) => exits.insert(*code),
                ended => return Err(BaselineError::Died { run, ended: *ended }),
            };
            for report in reports {
                said.entry(&report.case).or_default().push(report.outcome);
            }
        }
        let mut baseline = Baseline {
            stable_pass: BTreeSet::new(),
            failing: BTreeSet::new(),
            flaky: BTreeSet::new(),
            skipped: BTreeSet::new(),
            exits,
            runs: runs.len(),
        };
        for (case, outcomes) in said {
            let all = |o| outcomes.len() == runs.len() && outcomes.iter().all(|x| *x == o);
            let set = if all(Outcome::Passed) {
                &mut baseline.stable_pass
            } else if all(Outcome::Failed) {
                &mut baseline.failing
            } else if all(Outcome::Skipped) {
                &mut baseline.skipped
            } else {
                &mut baseline.flaky
            };
            set.insert(case.clone());
        }
        Ok(baseline)
    }

    /// What a run of the whole suite is measured against.
    pub fn expected(&self) -> Expected {
        let usual = |set: &BTreeSet<Case>, usual| {
            set.iter()
                .map(|case| (case.clone(), usual))
                .collect::<Vec<_>>()
        };
        Expected {
            cases: usual(&self.stable_pass, Usual::Passes)
                .into_iter()
                .chain(usual(&self.failing, Usual::Fails))
                .chain(usual(&self.flaky, Usual::Flaky))
                .collect(),
            skipped: self.skipped.clone(),
            exits: self.exits.clone(),
        }
    }
}

/// Maps whose keys are structs, as lists of pairs: JSON objects have strings for keys.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(d: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(d)?.into_iter().collect())
    }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
