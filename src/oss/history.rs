//! What is remembered of a complete evaluation for comparing it with later ones, so that nothing has
//! to be evaluated again: of each function its identity, file and text, of each model what became of
//! them, and what each iteration gave. Here is also the arithmetic over a part of the functions.
//!
//! Compilability and changed lines are of single functions and can be taken over any part of them.
//! Tests and alerts are of sets of functions replaced at once: over a part of the functions they can
//! be taken only from those iterations whose functions are all in that part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::case::Outcome;
use super::inputs::Scoring;
use super::leaderboard::{Prices, RowFacts};
use super::population::Function;
use super::scoring::{self, Chained};
use crate::digest::Digest;
use crate::logs::Class;

/// The version of the document.
pub const SCHEMA: &str = "everbench/history/1";

/// A complete evaluation, as later ones remember it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// The subject's name.
    pub subject: String,
    /// Which source it was: a version, or a snapshot's digest.
    pub commit: String,
    /// The source tree.
    pub tree: Digest,
    /// When it was evaluated, as the clock of the one who did it said.
    pub evaluated: String,
    /// The date that the source has of its own: when it was committed.
    pub committed: Option<String>,
    /// Identifies the evaluation.
    pub evaluation: Digest,
    /// The toolchain's identity.
    pub toolchain: Digest,
    /// The compiler's version line.
    pub compiler: String,
    /// What models were asked to do.
    pub task: String,
    /// Who found the functions.
    pub extractor: String,
    /// The seed of all draws.
    pub seed: u64,
    /// The size of the population that the sample was drawn from.
    pub population: u64,
    /// The sample, in its order.
    pub functions: Vec<FunctionLine>,
    /// By model.
    pub cases: BTreeMap<String, Vec<CaseLine>>,
    /// By model and scoring.
    pub iterations: BTreeMap<String, BTreeMap<Scoring, Vec<IterationLine>>>,
    /// Models whose rows rest on something that was taken back since, with the reasons: they are not
    /// in the two above. Not part of the document.
    #[serde(skip)]
    pub retracted: BTreeMap<String, Vec<String>>,
}

/// A function of the sample.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionLine {
    /// See [`Function::id`].
    pub id: String,
    /// The source file.
    pub path: String,
    /// Digest of the text.
    pub text: Digest,
}

/// What became of a function: outcome, whether the subject builds with it, whether its text
/// differs, changed lines, and these after normalising the formatting.
pub type CaseLine = (Outcome, bool, bool, u32, u32);

/// What came of an iteration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IterationLine {
    /// The functions drawn, as positions in the sample.
    pub drawn: Vec<u32>,
    /// Cases passed.
    pub passed: u64,
    /// Cases counted.
    pub total: u64,
    /// Whether no case was reported.
    pub na: bool,
    /// Alerts that the baseline does not have, each with whether it is a leak.
    pub alerts: BTreeMap<String, bool>,
    /// Whether it was kept from an earlier commit: then it says nothing of this one by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

impl Summary {
    /// Takes in a model's row.
    pub fn add(&mut self, model: &str, scoring: Scoring, facts: &RowFacts) {
        self.cases.insert(model.into(), case_lines(facts));
        let of_model = self.iterations.entry(model.into()).or_default();
        of_model.insert(scoring, iteration_lines(facts));
    }

    /// Whether `later` says all that this one does, of the same tree, so that there is no need to
    /// show both.
    pub fn is_in(&self, later: &Summary) -> bool {
        let same = |s: &Summary| {
            let (tree, tools) = (s.tree, s.toolchain);
            (tree, tools, s.task.clone(), s.extractor.clone(), s.seed)
        };
        let iterations =
            |s: &Summary, model: &String, scoring: &Scoring| s.iterations_of(model, *scoring).len();
        same(self) == same(later)
            && self.functions == later.functions
            && self.iterations.iter().all(|(model, rows)| {
                rows.keys()
                    .all(|row| iterations(self, model, row) == iterations(later, model, row))
            })
    }

    /// The iterations of a row.
    pub fn iterations_of(&self, model: &str, scoring: Scoring) -> &[IterationLine] {
        let of_model = self.iterations.get(model);
        of_model
            .and_then(|m| m.get(&scoring))
            .map_or(&[], Vec::as_slice)
    }
}

/// The cases of a row.
pub fn case_lines(facts: &RowFacts) -> Vec<CaseLine> {
    let line = |c: &super::leaderboard::CaseFacts| {
        let lines = (c.changed_lines, c.changed_lines_normalised);
        (c.outcome, c.compiles, c.differs, lines.0, lines.1)
    };
    facts.cases.iter().map(line).collect()
}

/// The iterations of a row.
pub fn iteration_lines(facts: &RowFacts) -> Vec<IterationLine> {
    let line = |i: &super::iteration::Iteration| IterationLine {
        drawn: i.drawn.clone(),
        passed: i.passed,
        total: i.total,
        na: i.na.is_some(),
        alerts: i
            .alerts
            .iter()
            .map(|(id, info)| (id.clone(), info.class == Class::Leak))
            .collect(),
        stale: i.stale.is_some(),
    };
    facts.iterations.iter().map(line).collect()
}

/// The lines of a sample.
pub fn lines(sample: &[Arc<Function>]) -> Vec<FunctionLine> {
    let line = |f: &Arc<Function>| FunctionLine {
        id: f.id.clone(),
        path: f.path.clone(),
        text: f.text,
    };
    sample.iter().map(line).collect()
}

/// Scores over a part of the functions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Partial {
    /// Functions counted.
    pub functions: u64,
    /// Of these, those with which the subject builds.
    pub compiles: u64,
    /// Compilability, percent.
    pub s1: Option<f64>,
    /// Changed lines per function.
    pub d: Option<f64>,
    /// Iterations counted: those that replace only such functions.
    pub iterations: u64,
    /// Of these, those that were kept from an earlier commit.
    pub stale: u64,
    /// Tests passed in these, percent.
    pub s2: Option<f64>,
    /// Memory safety in these.
    pub s3: Option<f64>,
    /// The chained score; only where all functions and iterations are counted.
    pub score: Option<f64>,
}

/// Scores of a row over the functions that `functions` names and the iterations that `iterations`
/// names, both by position; all of them when absent.
pub fn partial(
    cases: &[CaseLine],
    rows: &[IterationLine],
    prices: Prices,
    functions: Option<&[bool]>,
    iterations: Option<&BTreeSet<usize>>,
) -> Partial {
    let counted = |at: usize| functions.is_none_or(|f| f.get(at) == Some(&true));
    let own: Vec<&CaseLine> = cases
        .iter()
        .enumerate()
        .filter(|(at, _)| counted(*at))
        .map(|(_, case)| case)
        .collect();
    let compiles = own.iter().filter(|c| c.1).count();
    let lines: u64 = own.iter().map(|c| u64::from(c.3)).sum();
    let chosen: Vec<&IterationLine> = rows
        .iter()
        .enumerate()
        .filter(|(at, _)| iterations.is_none_or(|i| i.contains(at)))
        .map(|(_, iteration)| iteration)
        .collect();
    let rate = |i: &&IterationLine| match (i.na, i.total) {
        (false, total) if total > 0 => i.passed as f64 / total as f64,
        _ => 0.0,
    };
    let mut alerts: BTreeMap<&str, bool> = BTreeMap::new();
    for (id, leak) in chosen.iter().flat_map(|i| &i.alerts) {
        alerts.insert(id, *leak);
    }
    let leaks = alerts.values().filter(|leak| **leak).count() as u64;
    let mean = |sum: f64, n: usize| (n > 0).then(|| sum / n as f64);
    let s1 = mean(100.0 * compiles as f64, own.len());
    let d = mean(lines as f64, own.len());
    let s2 = mean(100.0 * chosen.iter().map(rate).sum::<f64>(), chosen.len());
    let s3 = (!chosen.is_empty())
        .then(|| scoring::memory_score(prices.penalty, alerts.len() as u64 - leaks, leaks));
    let whole = functions.is_none() && iterations.is_none();
    let score = match (s1, s2, s3, d) {
        (Some(s1), Some(s2), Some(s3), Some(d)) if whole => {
            let Chained { score, .. } = prices.weights.chain(s1, s2, s3, d);
            Some(score)
        }
        _ => None,
    };
    Partial {
        functions: own.len() as u64,
        compiles: compiles as u64,
        s1: s1.map(tidy),
        d: d.map(tidy),
        iterations: chosen.len() as u64,
        stale: chosen.iter().filter(|i| i.stale).count() as u64,
        s2: s2.map(tidy),
        s3: s3.map(tidy),
        score: score.map(tidy),
    }
}

/// Without the last digits of sums, as in leaderboards.
fn tidy(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

/// The iterations all of whose functions are counted, by position; without stale ones.
pub fn within(rows: &[IterationLine], functions: &[bool]) -> BTreeSet<usize> {
    let counted = |at: &u32| functions.get(*at as usize) == Some(&true);
    rows.iter()
        .enumerate()
        .filter(|(_, i)| !i.stale && i.drawn.iter().all(counted))
        .map(|(at, _)| at)
        .collect()
}

/// How two samples differ, by the identities of functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Composition {
    /// In both.
    pub common: u64,
    /// In both, with another text.
    pub changed: Vec<String>,
    /// Only in the later one.
    pub added: Vec<String>,
    /// Only in the earlier one.
    pub removed: Vec<String>,
}

/// A row over the functions that two evaluations have in common: the earlier, then the later.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Common {
    /// Over all of them. s2 and s3 are over the iterations that in both evaluations replace only
    /// common functions.
    pub all: [Partial; 2],
    /// Over those whose text is the same; without iterations.
    pub unchanged: [Partial; 2],
}

/// Two evaluations of a subject, the earlier first.
pub struct Pair<'a> {
    summaries: [&'a Summary; 2],
    common: [Vec<bool>; 2],
    unchanged: [Vec<bool>; 2],
    /// How the samples differ.
    pub composition: Composition,
}

impl<'a> Pair<'a> {
    /// Puts two evaluations beside each other.
    pub fn new(old: &'a Summary, new: &'a Summary) -> Pair<'a> {
        let texts = |s: &'a Summary| -> BTreeMap<&'a str, Digest> {
            let lines = s.functions.iter();
            lines.map(|f| (f.id.as_str(), f.text)).collect()
        };
        let (before, after) = (texts(old), texts(new));
        let names = |of: &BTreeMap<&str, Digest>, keep: &dyn Fn(&str, Digest) -> bool| {
            let kept = of.iter().filter(|(id, text)| keep(id, **text));
            kept.map(|(id, _)| id.to_string()).collect::<Vec<_>>()
        };
        let composition = Composition {
            common: before.keys().filter(|id| after.contains_key(*id)).count() as u64,
            changed: names(&after, &|id, text| {
                before.get(id).is_some_and(|old| *old != text)
            }),
            added: names(&after, &|id, _| !before.contains_key(id)),
            removed: names(&before, &|id, _| !after.contains_key(id)),
        };
        let mask = |s: &Summary, other: &BTreeMap<&str, Digest>, same: bool| -> Vec<bool> {
            let counted = |f: &FunctionLine| match other.get(f.id.as_str()) {
                Some(text) => !same || *text == f.text,
                None => false,
            };
            s.functions.iter().map(counted).collect()
        };
        Pair {
            summaries: [old, new],
            common: [mask(old, &after, false), mask(new, &before, false)],
            unchanged: [mask(old, &after, true), mask(new, &before, true)],
            composition,
        }
    }

    /// A model's row in both, if both have it.
    pub fn row(&self, model: &str, scoring: Scoring, prices: Prices) -> Option<Common> {
        let [old, new] = self.summaries;
        let cases = [old.cases.get(model)?, new.cases.get(model)?];
        let rows = [
            old.iterations_of(model, scoring),
            new.iterations_of(model, scoring),
        ];
        let both: BTreeSet<usize> = within(rows[0], &self.common[0])
            .intersection(&within(rows[1], &self.common[1]))
            .copied()
            .collect();
        let nothing = BTreeSet::new();
        let at = |i: usize, functions: &[bool], iterations: &BTreeSet<usize>| {
            partial(cases[i], rows[i], prices, Some(functions), Some(iterations))
        };
        Some(Common {
            all: [0, 1].map(|i| at(i, &self.common[i], &both)),
            unchanged: [0, 1].map(|i| at(i, &self.unchanged[i], &nothing)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oss::scoring::Weights;

    const PRICES: Prices = Prices {
        penalty: 1.0,
        weights: Weights {
            w1: 1.0 / 3.0,
            w2: 1.0 / 3.0,
            w3: 1.0 / 3.0,
            wd: 0.1,
        },
    };

    fn summary(functions: &[(&str, &str, bool)], iterations: &[(&[u32], u64)]) -> Summary {
        let nothing = Digest::of(b"");
        let line = |(id, text, _): &(&str, &str, bool)| FunctionLine {
            id: id.to_string(),
            path: "a.c".into(),
            text: Digest::of(text.as_bytes()),
        };
        let case = |(_, _, compiles): &(&str, &str, bool)| (Outcome::Code, *compiles, true, 2, 1);
        let iteration = |(drawn, passed): &(&[u32], u64)| IterationLine {
            drawn: drawn.to_vec(),
            passed: *passed,
            total: 10,
            na: false,
            alerts: BTreeMap::from([(format!("alert {passed}"), false)]),
            stale: false,
        };
        Summary {
            schema: SCHEMA.into(),
            subject: "t".into(),
            commit: "c".into(),
            tree: nothing,
            evaluated: String::new(),
            committed: None,
            evaluation: nothing,
            toolchain: nothing,
            compiler: String::new(),
            task: "improve".into(),
            extractor: "tree-sitter".into(),
            seed: 0,
            population: 3,
            functions: functions.iter().map(line).collect(),
            cases: BTreeMap::from([("m".into(), functions.iter().map(case).collect())]),
            retracted: BTreeMap::new(),
            iterations: BTreeMap::from([(
                "m".into(),
                BTreeMap::from([(Scoring::Paired, iterations.iter().map(iteration).collect())]),
            )]),
        }
    }

    #[test]
    fn what_came_and_went_takes_no_part_in_the_comparison() {
        let old = summary(
            &[("a", "1", true), ("b", "1", true), ("gone", "1", true)],
            &[(&[0, 1], 10), (&[1, 2], 0), (&[0], 10)],
        );
        let new = summary(
            &[("a", "1", true), ("b", "2", false), ("new", "1", false)],
            &[(&[0, 1], 5), (&[0, 1], 9), (&[0, 2], 0)],
        );
        let pair = Pair::new(&old, &new);
        assert_eq!(
            pair.composition,
            Composition {
                common: 2,
                changed: vec!["b".into()],
                added: vec!["new".into()],
                removed: vec!["gone".into()],
            }
        );
        let common = pair.row("m", Scoring::Paired, PRICES).unwrap();
        let [before, after] = common.all;
        assert_eq!((before.functions, after.functions), (2, 2));
        assert_eq!((before.s1, after.s1), (Some(100.0), Some(50.0)));
        // Only the first iteration has in both evaluations nothing but a and b.
        assert_eq!((before.iterations, after.iterations), (1, 1));
        assert_eq!((before.s2, after.s2), (Some(100.0), Some(50.0)));
        assert_eq!((before.s3, after.score), (Some(99.0), None));
        let [before, after] = common.unchanged;
        assert_eq!((before.s1, after.s1), (Some(100.0), Some(100.0)));
        assert_eq!((before.functions, after.s2), (1, None));
        assert_eq!(pair.row("x", Scoring::Paired, PRICES), None);
    }

    #[test]
    fn the_whole_is_the_row_itself() {
        let all = summary(&[("a", "1", true), ("b", "1", false)], &[(&[0], 10)]);
        let rows = all.iterations_of("m", Scoring::Paired);
        let whole = partial(&all.cases["m"], rows, PRICES, None, None);
        assert_eq!((whole.s1, whole.s2), (Some(50.0), Some(100.0)));
        assert_eq!((whole.s3, whole.d), (Some(99.0), Some(2.0)));
        let c3 = 99.0 * 50.0 / 100.0;
        let score = (50.0 + 50.0 + c3) / 3.0 + 0.2;
        assert!((whole.score.unwrap() - score).abs() < 1e-9);
    }
}
