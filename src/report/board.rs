//! From an evaluation to a leaderboard: scores, intervals, ranks, and every count beside them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::aggregate::{AggregateRow, aggregate_rows};
use super::carry::{CarrySummary, StaleRow, carry_summary, stale_row};
use super::history::RetiredRow;
use super::upstream::BrokenSubject;
use crate::app::{AppError, Evaluation, Retracted, RowResult, Statement, SubjectBoard};
use crate::ask::{Shows, Task};
use crate::config::ScoreConfig;
use crate::oss::baseline;
use crate::oss::inputs::{Card, Scoring};
use crate::oss::leaderboard::{Prices, row_data};
use crate::oss::metrics;
use crate::oss::scoring::{self, Bootstrap, Draws, RowEstimate, Weights};
use crate::oss::upstream::Upstream;
use crate::subject::GroupCount;

/// The version of the JSON document.
pub const SCHEMA: &str = "everbench/leaderboard/1";

/// Everything that `run` and `score` give.
#[derive(Clone, Debug, Serialize)]
pub struct Leaderboard {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// One per subject, scoring and model.
    pub rows: Vec<PlacedRow>,
    /// Over all subjects, one per model and scoring; empty when there is one subject.
    pub aggregate: Vec<AggregateRow>,
    /// What was measured on.
    pub subjects: Vec<SubjectSummary>,
    /// The subjects that cannot be measured at their commits: they have no rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub baseline_broken: Vec<BrokenSubject>,
    /// Jobs executed by this command, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Jobs that the rows rest on and that were there already, by kind; empty while rows are
    /// incomplete.
    pub reused: BTreeMap<String, u64>,
    /// Definitions that are not in a population, by reason, over all subjects.
    pub excluded: BTreeMap<String, u64>,
    /// What this command asked of models over HTTP, and what that cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Statement>,
    /// Jobs that the rows lack, by kind.
    pub missing: BTreeMap<String, u64>,
    /// Why, each reason once.
    pub problems: Vec<String>,
    /// Rows of models that are not asked any more, as they last were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<RetiredRow>,
    /// That the last run was asked for something else, if something is missing for that reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_otherwise: Option<String>,
    /// The sizes of the populations that samples were drawn from, summed.
    pub population: u64,
    /// Points per unique alert when there is one subject; each subject's own is in `subjects`.
    pub penalty: Option<f64>,
    /// Weights of c1, c2, c3 and d.
    pub weights: [f64; 4],
    /// The seed of all draws.
    pub seed: u64,
}

/// A subject, and what of it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectSummary {
    /// Its name.
    pub subject: String,
    /// Which source it was.
    pub commit: String,
    /// The size of the population that the sample was drawn from.
    pub population: u64,
    /// Definitions that are not in the population, by reason.
    pub excluded: BTreeMap<String, u64>,
    /// Points per unique alert.
    pub penalty: f64,
    /// True if the penalty was computed from the size of the population.
    pub penalty_is_default: bool,
    /// What was kept from earlier commits, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carry: Option<CarrySummary>,
    /// What became of the unchanged subject's tests since the last complete evaluation of another
    /// tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
}

/// A model's row in one scoring. Scores are absent while the row is incomplete.
#[derive(Clone, Debug, Serialize)]
pub struct PlacedRow {
    /// The subject's name.
    pub subject: String,
    /// The profile of the subject's tests, if they are in profiles.
    pub profile: Option<String>,
    /// Which source it was.
    pub commit: String,
    /// The model's name.
    pub model: String,
    /// True for edits with known effects: no language model.
    pub calibration: bool,
    /// `paper` or `paired`.
    pub scoring: Scoring,
    /// What models were asked to do. Rows of different tasks are never ranked together.
    pub task: &'static str,
    /// Functions asked.
    pub functions: u64,
    /// Of these, those with which the subject builds.
    pub compiles: Option<u64>,
    /// Those with which it does not, replies without code included.
    pub fails: Option<u64>,
    /// Functions of the population that are not compiled at all: not asked, not counted.
    pub unrelated: u64,
    /// Replies by what they were.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Replies whose function is the original's text.
    pub unchanged: Option<u64>,
    /// Compilability, percent.
    pub s1: Option<f64>,
    /// Tests passed, percent.
    pub s2: Option<f64>,
    /// Memory safety.
    pub s3: Option<f64>,
    /// Unique alerts that the baseline does not have, leaks included.
    pub alerts: Option<u64>,
    /// Of these, leaks.
    pub leaks: Option<u64>,
    /// Unique alerts by class.
    pub alert_classes: BTreeMap<String, u64>,
    /// Changed lines per function.
    pub d: Option<f64>,
    /// The same after normalising the formatting.
    pub d_normalised: Option<f64>,
    /// s1.
    pub c1: Option<f64>,
    /// s2 * c1 / 100.
    pub c2: Option<f64>,
    /// s3 * c2 / 100.
    pub c3: Option<f64>,
    /// The weighted sum of c1, c2, c3 and d.
    pub score: Option<f64>,
    /// The score's 95 % interval; absent with fewer than two files or iterations.
    pub interval: Option<[f64; 2]>,
    /// The interval of s1.
    pub s1_interval: Option<[f64; 2]>,
    /// The interval of s2.
    pub s2_interval: Option<[f64; 2]>,
    /// The interval of s3.
    pub s3_interval: Option<[f64; 2]>,
    /// How far the bootstrap's and the delta method's standard errors are apart; above 0.2 the
    /// interval should not be trusted.
    pub interval_disagreement: Option<f64>,
    /// Iterations run.
    pub iterations: u64,
    /// Of these, those that were not run but kept from an earlier commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<StaleRow>,
    /// Of these, those from which no case was reported.
    pub na: Option<u64>,
    /// Functions replaced per iteration, mean.
    pub mean_applied: Option<f64>,
    /// Test cases by what became of them, over all iterations; passes left out.
    pub test_outcomes: BTreeMap<String, u64>,
    /// Lines of sanitizer logs that no report could be read from.
    pub unread_sanitizer_lines: u64,
    /// Position among the ranked rows of this scoring, from 1.
    pub rank: Option<u32>,
    /// The positions that the interval of differences leaves open.
    pub rank_interval: Option<[u32; 2]>,
    /// Why a row has no rank.
    pub unranked: Option<RankNote>,
    /// Which extractor made the population.
    pub extractor: &'static str,
    /// The compiler's version line.
    pub compiler: String,
    /// The unchanged subject's results.
    pub baseline: Option<BaselineSummary>,
    /// The further metrics that the project asks for, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<&'static str, metrics::Summary>,
    /// What is known of the model.
    pub card: Card,
    /// True if nothing is missing.
    pub complete: bool,
    /// What the row rests on that was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retracted: Option<Retracted>,
}

/// Why a row has no rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RankNote {
    /// A calibration model.
    Calibration,
    /// It changes too little to be judged.
    TooFewChanges,
    /// Something is missing.
    Incomplete,
    /// It rests on something that was taken back.
    Retracted,
}

/// The unchanged subject's results.
#[derive(Clone, Debug, Serialize)]
pub struct BaselineSummary {
    /// Parts of the suite that run by themselves.
    pub shards: u64,
    /// Those of them that are one for each file of a pattern, by group.
    pub groups: Vec<GroupCount>,
    /// Test cases, skipped ones left out.
    pub cases: u64,
    /// Those that passed in every run.
    pub passing: u64,
    /// Those that failed in every run.
    pub failing: u64,
    /// Those that did not always do the same: quarantined in `paired`.
    pub flaky: u64,
    /// Those that were skipped in every run.
    pub skipped: u64,
    /// How often it was run.
    pub runs: u64,
    /// Pass rate of each run, percent.
    pub pass_rates: Vec<f64>,
    /// The unchanged subject's own alerts, which are subtracted.
    pub alerts: u64,
}

impl BaselineSummary {
    /// The pass rates as text.
    pub(super) fn rates(&self) -> String {
        let rates = self.pass_rates.iter().map(|r| format!("{r:.2}"));
        rates.collect::<Vec<_>>().join(", ")
    }
}

impl From<&baseline::Baseline> for BaselineSummary {
    fn from(b: &baseline::Baseline) -> Self {
        BaselineSummary {
            shards: b.shards.len() as u64,
            groups: b.groups.clone(),
            cases: b.cases(),
            passing: b.stable(),
            failing: b.failing(),
            flaky: b.flaky(),
            skipped: b.skipped(),
            runs: u64::from(baseline::RUNS),
            pass_rates: b
                .pass_rates
                .iter()
                .map(|(p, n)| tidy(100.0 * *p as f64 / (*n).max(1) as f64))
                .collect(),
            alerts: b.alerts.len() as u64,
        }
    }
}

impl Leaderboard {
    /// How many iterations were not measured on what the board is of, but kept from an earlier
    /// commit: such a board is no release.
    pub fn stale(&self) -> u64 {
        let rows = self.rows.iter().filter_map(|row| row.stale.as_ref());
        rows.map(|stale| stale.iterations).sum()
    }
}

/// Scores an evaluation. A penalty in `penalties`, by subject, takes the place of its manifest's.
pub fn leaderboard(
    evaluation: &Evaluation,
    config: &ScoreConfig,
    penalties: &BTreeMap<String, Option<f64>>,
    seed: u64,
) -> Result<Leaderboard, AppError> {
    let rewards_changes = rewards_changes(evaluation.world.task);
    let weights = weights(config, evaluation.world.task);
    let Weights { w1, w2, w3, .. } = weights;
    let mut rows = Vec::new();
    let mut subjects: Vec<SubjectSummary> = Vec::new();
    let mut scored = Vec::new();
    let mut baseline_broken = Vec::new();
    for board in &evaluation.boards {
        let name = &board.manifest.name;
        if let Some(broken) = &board.board.broken {
            baseline_broken.push(BrokenSubject {
                subject: name.clone(),
                commit: board.commit.clone(),
                what: broken.what.clone(),
                help: broken.help.clone(),
                last_good: None,
            });
            continue;
        }
        let population = board.board.population.as_deref();
        let functions = population.map_or(0, |p| p.functions.len());
        let given = penalties.get(name).copied().flatten();
        let given = given.or(board.manifest.scoring.penalty);
        let prices = Prices {
            penalty: given.unwrap_or_else(|| scoring::default_penalty(functions)),
            weights,
        };
        let mut of_subject: Vec<PlacedRow> = board
            .board
            .rows
            .iter()
            .map(|r| counted(evaluation, board, r))
            .collect();
        let seed = scoring::subject_seed(seed, name);
        for which in [Scoring::Paired, Scoring::Paper] {
            scored.extend(score_rows(
                board,
                config,
                &mut of_subject,
                which,
                prices,
                seed,
                rewards_changes,
            )?);
        }
        rows.extend(of_subject);
        subjects.push(SubjectSummary {
            subject: name.clone(),
            commit: board.commit.clone(),
            population: functions as u64,
            excluded: population.map(|p| p.excluded.clone()).unwrap_or_default(),
            penalty: prices.penalty,
            penalty_is_default: given.is_none(),
            carry: board.carries.then(|| carry_summary(board)),
            upstream: board.upstream.clone(),
        });
    }
    let mut problems: Vec<String> = evaluation
        .failures
        .iter()
        .map(|(_, f)| crate::app::failure_error(f).to_string())
        .collect();
    problems.sort();
    problems.dedup();
    let mut excluded = BTreeMap::new();
    for (reason, n) in subjects.iter().flat_map(|s| &s.excluded) {
        *excluded.entry(reason.clone()).or_default() += n;
    }
    Ok(Leaderboard {
        schema: SCHEMA,
        aggregate: aggregate_rows(&rows, &scored, &subjects)?,
        rows,
        baseline_broken,
        executed: evaluation.executed.clone(),
        reused: evaluation.reused.clone(),
        asked: evaluation.statement.clone(),
        excluded,
        missing: evaluation.missing.clone(),
        problems,
        retired: Vec::new(),
        asked_otherwise: None,
        population: subjects.iter().map(|s| s.population).sum(),
        penalty: match subjects.as_slice() {
            [one] => Some(one.penalty),
            _ => None,
        },
        subjects,
        weights: [w1, w2, w3, weights.wd],
        seed,
    })
}

/// Where the model is not shown the original, to come out far from it is no merit.
fn rewards_changes(task: &Task) -> bool {
    task.shows == Shows::Original
}

/// The weights of a task's rows.
pub(super) fn weights(config: &ScoreConfig, task: &Task) -> Weights {
    let defaults = Weights::default();
    let [w1, w2, w3] = config
        .weights
        .unwrap_or([defaults.w1, defaults.w2, defaults.w3]);
    let usual = match rewards_changes(task) {
        true => defaults.wd,
        false => 0.0,
    };
    Weights {
        w1,
        w2,
        w3,
        wd: config.dissimilarity_weight.unwrap_or(usual),
    }
}

/// A row's counts, without scores.
fn counted(evaluation: &Evaluation, subject: &SubjectBoard, row: &RowResult) -> PlacedRow {
    let board = &subject.board;
    let facts = row.facts.as_deref();
    let cases = facts.map_or(&[][..], |f| &f.cases);
    let iterations = facts.map_or(&[][..], |f| &f.iterations);
    let count = |n: usize| facts.map(|_| n as u64);
    let mut outcomes = BTreeMap::new();
    for case in cases {
        *outcomes.entry(case.outcome.name()).or_default() += 1;
    }
    let mut test_outcomes = BTreeMap::new();
    let mut alerts = BTreeMap::new();
    for iteration in iterations {
        for (outcome, n) in &iteration.outcomes {
            *test_outcomes.entry(outcome.clone()).or_default() += n;
        }
        alerts.extend(&iteration.alerts);
    }
    let mut alert_classes = BTreeMap::new();
    for info in alerts.values() {
        *alert_classes
            .entry(format!("{:?}", info.class).to_lowercase())
            .or_default() += 1;
    }
    let mean = |sum: u64, n: usize| facts.filter(|_| n > 0).map(|_| sum as f64 / n as f64);
    let applied: u64 = iterations.iter().map(|i| i.applied.len() as u64).sum();
    let normalised: u64 = cases
        .iter()
        .map(|c| u64::from(c.changed_lines_normalised))
        .sum();
    PlacedRow {
        subject: subject.manifest.name.clone(),
        profile: subject.manifest.tests.profile.clone(),
        commit: subject.commit.clone(),
        model: row.spec.name.clone(),
        calibration: row.spec.is_calibration(),
        scoring: row.scoring,
        task: evaluation.world.task.name,
        functions: board.sample.as_ref().map_or(0, |s| s.len()) as u64,
        compiles: count(cases.iter().filter(|c| c.compiles).count()),
        fails: count(cases.iter().filter(|c| !c.compiles).count()),
        unrelated: board.population.as_ref().map_or(0, |p| p.unrelated.len()) as u64,
        unchanged: count(
            cases
                .iter()
                .filter(|c| c.outcome == crate::oss::case::Outcome::Code && !c.differs)
                .count(),
        ),
        outcomes,
        s1: None,
        s2: None,
        s3: None,
        alerts: None,
        leaks: None,
        alert_classes,
        d: None,
        d_normalised: mean(normalised, cases.len()),
        c1: None,
        c2: None,
        c3: None,
        score: None,
        interval: None,
        s1_interval: None,
        s2_interval: None,
        s3_interval: None,
        interval_disagreement: None,
        iterations: iterations.len() as u64,
        stale: stale_row(iterations),
        na: count(iterations.iter().filter(|i| i.na.is_some()).count()),
        mean_applied: mean(applied, iterations.len()),
        test_outcomes,
        unread_sanitizer_lines: iterations.iter().map(|i| i.unread).sum(),
        rank: None,
        rank_interval: None,
        unranked: match (&row.retracted, facts) {
            (Some(_), _) => Some(RankNote::Retracted),
            (None, None) => Some(RankNote::Incomplete),
            (None, Some(_)) => None,
        },
        extractor: subject.manifest.functions.extractor.name(),
        compiler: evaluation.compiler.clone(),
        baseline: board.baseline.as_deref().map(BaselineSummary::from),
        metrics: row
            .metrics
            .iter()
            .map(|(name, summary)| (*name, metrics::Summary::clone(summary)))
            .collect(),
        card: row.spec.card.clone(),
        complete: facts.is_some(),
        retracted: row.retracted.clone(),
    }
}

pub(super) fn fault(e: &dyn std::fmt::Display) -> AppError {
    AppError::Input(format!("scoring: {e}"))
}

/// Without the last digits of sums of thirds: 100, not 99.99999999999999. Ranks are computed from
/// the numbers as they are.
pub(super) fn tidy(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

/// The rank of each row by score, and the ranks that the intervals of differences leave open; none
/// when a row has no replicates.
pub(super) fn ranks(scores: &[f64], draws: &[&[f64]]) -> Result<Vec<(u32, [u32; 2])>, AppError> {
    if scores.is_empty() || draws.iter().any(|d| d.is_empty()) {
        return Ok(Vec::new());
    }
    let draws: Vec<Vec<f64>> = draws.iter().map(|d| d.to_vec()).collect();
    let confidence = Bootstrap::default().confidence;
    let ranking =
        crate::stats::bootstrap::compare(scores, &draws, confidence).map_err(|e| fault(&e))?;
    let mut ranks = vec![(0, [0, 0]); scores.len()];
    for (position, i) in ranking.order.iter().enumerate() {
        let (lo, hi) = ranking.rank_intervals[*i];
        ranks[*i] = (position as u32 + 1, [lo, hi]);
    }
    Ok(ranks)
}

/// A complete row's numbers: what an aggregate over subjects is made of.
pub(super) struct Scored {
    pub(super) model: String,
    pub(super) scoring: Scoring,
    pub(super) estimate: RowEstimate,
    pub(super) draws: Draws,
    /// Whether the rows beside it have as many iterations; else it is not ranked.
    pub(super) equal_iterations: bool,
}

/// Fills in the scores of the rows of one scoring, which are compared with each other.
fn score_rows(
    subject: &SubjectBoard,
    config: &ScoreConfig,
    rows: &mut [PlacedRow],
    which: Scoring,
    prices: Prices,
    seed: u64,
    rewards_changes: bool,
) -> Result<Vec<Scored>, AppError> {
    let board = &subject.board;
    let Some(sample) = &board.sample else {
        return Ok(Vec::new());
    };
    let done: Vec<(usize, String, _)> = board
        .rows
        .iter()
        .enumerate()
        .filter(|(_, r)| r.scoring == which)
        .filter_map(|(at, r)| Some((at, r.spec.name.clone(), r.facts.clone()?)))
        .collect();
    if done.is_empty() {
        return Ok(Vec::new());
    }
    let facts: Vec<_> = done
        .iter()
        .map(|(_, name, facts)| (name.clone(), facts.clone()))
        .collect();
    let data = row_data(sample, &facts, prices);
    let options = Bootstrap {
        seed,
        replicates: config.replicates,
        ..Bootstrap::default()
    };
    let evaluated = scoring::evaluate(&data, options).map_err(|e| fault(&e))?;
    let pair = |i: crate::stats::Interval| [tidy(i.lo), tidy(i.hi)];
    for ((at, ..), estimate) in done.iter().zip(&evaluated.rows) {
        let row = &mut rows[*at];
        row.s1 = Some(tidy(estimate.s1));
        row.s2 = Some(tidy(estimate.s2));
        row.s3 = Some(tidy(estimate.s3));
        row.alerts = Some((estimate.alerts + estimate.leaks) as u64);
        row.leaks = Some(estimate.leaks as u64);
        row.d = Some(tidy(estimate.d));
        row.c1 = Some(tidy(estimate.chained.c1));
        row.c2 = Some(tidy(estimate.chained.c2));
        row.c3 = Some(tidy(estimate.chained.c3));
        row.score = Some(tidy(estimate.chained.score));
        if let Some(intervals) = &estimate.intervals {
            row.interval = Some(pair(intervals.score));
            row.s1_interval = Some(pair(intervals.s1));
            row.s2_interval = Some(pair(intervals.s2));
            row.s3_interval = Some(pair(intervals.s3));
        }
        row.interval_disagreement = estimate.disagreement();
        row.unranked = if row.calibration {
            Some(RankNote::Calibration)
        } else if rewards_changes && estimate.d < config.minimum_changed_lines {
            Some(RankNote::TooFewChanges)
        } else {
            None
        };
    }
    let scored = done
        .iter()
        .zip(evaluated.rows.iter().zip(&evaluated.draws))
        .map(|((_, model, _), (estimate, draws))| Scored {
            model: model.clone(),
            scoring: which,
            estimate: estimate.clone(),
            draws: draws.clone(),
            equal_iterations: evaluated.equal_iterations,
        })
        .collect();
    // Ranks are among the rows that may have one, so they are computed from these alone.
    let ranked: Vec<usize> = (0..done.len())
        .filter(|i| rows[done[*i].0].unranked.is_none())
        .collect();
    if !evaluated.equal_iterations {
        return Ok(scored);
    }
    let score = |i: &usize| evaluated.rows[*i].chained.score;
    let drawn = |i: &usize| evaluated.draws[*i].score.as_slice();
    let scores: Vec<f64> = ranked.iter().map(score).collect();
    let draws: Vec<&[f64]> = ranked.iter().map(drawn).collect();
    for (i, (rank, interval)) in ranked.iter().zip(ranks(&scores, &draws)?) {
        let row = &mut rows[done[*i].0];
        (row.rank, row.rank_interval) = (Some(rank), Some(interval));
    }
    Ok(scored)
}
