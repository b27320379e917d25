//! Point estimates, intervals and ranks of models from the results of their functions and
//! iterations, by the weighted bootstrap.
//!
//! In a replicate every source file gets a random weight (so that functions of one file move
//! together), and so does every iteration; an iteration's weight is its own times the mean of its
//! functions'. s1, s2, s3, d and the score are computed together from these, and all models get
//! the same weights ([`crate::stats::bootstrap`]).
//!
//! *Unique alerts.* The number of distinct alerts is not resampled: leaving iterations out can
//! only lose alerts, so a classic bootstrap is biased low, and with positive weights that leave
//! nothing out the number would not vary at all. What varies is alerts seen in exactly one
//! iteration, for it is by them that a count changes when one iteration is left out. Such an
//! alert counts with its iteration's weight (relative to the mean weight of the iterations), any
//! other alert counts as 1. The estimate stays centred on the observed number, and its variance
//! is the jackknife's, which by Efron and Stein's inequality is on average not too small (in the
//! simulation of the tests the standard error is 1.4 times the real spread: rather too wide).
//!
//! *What the interval covers.* The files and functions as a sample for s1 and d, and the drawing
//! of iterations for s2 and s3. It does not cover how s2 and s3 would differ had the model
//! answered differently: an iteration of n functions averages their weights, which lets one
//! function move s2 by a share 1/N, while another reply can move it by about n/N. For that
//! there is [`RowEstimate::redrawn_s2_se`], or further samples of the model.

mod delta;
mod replicates;
mod sums;

use self::delta::{delta_standard_error, redrawn_s2_standard_error};
use self::replicates::draw;
use self::sums::{Sets, Sums};
use super::{Chained, Weights};
use crate::stats::bootstrap::{self, MIN_REPLICATES, Ranking, percentile, standard_error};
use crate::stats::{Interval, StatsError};
use std::collections::{BTreeMap, BTreeSet};

/// The verdict and the edit of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionResult {
    /// Its source file: the same number for the same file in every row that is compared.
    pub cluster: u32,
    /// Whether the subject builds with it; `None` when it is unrelated to the build, and then
    /// not part of s1.
    pub compiles: Option<bool>,
    /// Lines changed, 0 when the model gave no code.
    pub changed_lines: u32,
}

/// The outcome of one iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationResult {
    /// The functions of its set, as positions in [`RowData::functions`].
    pub functions: Vec<u32>,
    /// Share of the tests passed, 0 to 1; 0 when the suite did not start.
    pub pass_rate: f64,
    /// Alerts seen, as keys of [`RowData::alerts`]; repeats count once.
    pub alerts: Vec<u32>,
}

/// What an alert is, as far as a score is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// Leaks cost half.
    pub leak: bool,
}

impl Alert {
    fn cost(self) -> f64 {
        if self.leak { 0.5 } else { 1.0 }
    }
}

/// All results of a model on a subject.
#[derive(Debug, Clone, PartialEq)]
pub struct RowData {
    /// The model.
    pub model: String,
    /// Every function asked.
    pub functions: Vec<FunctionResult>,
    /// The iterations, in order of their index: iteration i of all rows shares its weight.
    pub iterations: Vec<IterationResult>,
    /// The alerts that iterations name. Only those that one names are counted, so rows may share
    /// a table.
    pub alerts: BTreeMap<u32, Alert>,
    /// Points per unique alert.
    pub penalty: f64,
    /// Weights of the score's parts.
    pub weights: Weights,
}

/// How to bootstrap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Seed of the weights.
    pub seed: u64,
    /// Replicates, at least [`MIN_REPLICATES`].
    pub replicates: u32,
    /// Confidence of all intervals, such as 0.95.
    pub confidence: f64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Bootstrap {
            seed: 0,
            replicates: MIN_REPLICATES,
            confidence: 0.95,
        }
    }
}

/// Percentile intervals of a row. They are not clipped: a score can exceed 100 by its bonus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// Of compilability.
    pub s1: Interval,
    /// Of tests passed.
    pub s2: Interval,
    /// Of memory safety.
    pub s3: Interval,
    /// Of changed lines per function.
    pub d: Interval,
    /// Of the score.
    pub score: Interval,
    /// Standard error of the logarithm of the score, from the replicates.
    pub log_se: f64,
}

/// Replicates of a row, each list in order of the replicate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Draws {
    /// Compilability.
    pub s1: Vec<f64>,
    /// Tests passed.
    pub s2: Vec<f64>,
    /// Memory safety.
    pub s3: Vec<f64>,
    /// Changed lines per function.
    pub d: Vec<f64>,
    /// The score.
    pub score: Vec<f64>,
}

/// Estimates of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowEstimate {
    /// The model.
    pub model: String,
    /// Compilability, in percent of the functions that the build knows.
    pub s1: f64,
    /// Tests passed, mean over iterations, in percent.
    pub s2: f64,
    /// Memory safety, in percent.
    pub s3: f64,
    /// Changed lines per function asked.
    pub d: f64,
    /// The score and its parts.
    pub chained: Chained,
    /// Functions in s1, and unrelated ones that are not.
    pub counted: usize,
    /// Functions left out of s1 as unrelated to the build.
    pub unrelated: usize,
    /// Unique alerts that are not leaks.
    pub alerts: usize,
    /// Unique leaks.
    pub leaks: usize,
    /// Alerts and leaks seen in exactly one iteration; many of them mean that more iterations
    /// would find more.
    pub seen_once: usize,
    /// Source files of the functions in s1.
    pub clusters: usize,
    /// Iterations.
    pub iterations: usize,
    /// `None` with fewer than two clusters or iterations.
    pub intervals: Option<Intervals>,
    /// Standard error of the logarithm of the score by the delta method, as a check of
    /// [`Intervals::log_se`]; `None` like the intervals, or when the score is 0.
    pub delta_log_se: Option<f64>,
    /// Standard error of s2 if not only the sets but also the functions and the replies were
    /// drawn again: several times that of the interval when iterations replace many functions.
    /// `None` like the intervals.
    pub redrawn_s2_se: Option<f64>,
}

impl RowEstimate {
    /// How far the two standard errors of the log score are apart, relative to the delta
    /// method's. Above 0.2 the interval should not be trusted.
    pub fn disagreement(&self) -> Option<f64> {
        let delta = self.delta_log_se.filter(|&se| se > 0.0)?;
        Some((self.intervals?.log_se - delta).abs() / delta)
    }
}

/// Rows with their comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// In the order of the input.
    pub rows: Vec<RowEstimate>,
    /// Ranks by score, with shared weights; `None` when a row has no interval.
    pub ranking: Option<Ranking>,
    /// The replicates behind both, in the order of the input; empty lists without an interval.
    pub draws: Vec<Draws>,
    /// Whether all rows have the same number of iterations. If not, s3 and with it the score
    /// must not be ranked: more iterations find more alerts.
    pub equal_iterations: bool,
}

/// Why rows cannot be evaluated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EvaluateError {
    /// No rows.
    #[error("there are no rows to evaluate")]
    NoRows,
    /// Too few replicates.
    #[error("{0} replicates are too few for an interval: at least {MIN_REPLICATES}")]
    TooFewReplicates(u32),
    /// A row without what a score needs.
    #[error("{model}: there are no {what}, so there is no score")]
    Nothing {
        /// The row.
        model: String,
        /// What is missing.
        what: &'static str,
    },
    /// An iteration names a function that is not there.
    #[error("{model}, iteration {iteration}: function {function} is not one of {functions}")]
    UnknownFunction {
        /// The row.
        model: String,
        /// Position of the iteration.
        iteration: usize,
        /// The number given.
        function: u32,
        /// Functions of the row.
        functions: usize,
    },
    /// An iteration names an alert that is not in the table.
    #[error("{model}, iteration {iteration}: alert {alert} is not in the table of alerts")]
    UnknownAlert {
        /// The row.
        model: String,
        /// Position of the iteration.
        iteration: usize,
        /// The number given.
        alert: u32,
    },
    /// A share of tests outside 0 to 1.
    #[error("{model}, iteration {iteration}: pass rate {value} is not between 0 and 1")]
    PassRate {
        /// The row.
        model: String,
        /// Position of the iteration.
        iteration: usize,
        /// The value given.
        value: f64,
    },
    /// A penalty or weight that is negative or not finite.
    #[error("{model}: the penalty and the weights must be finite and not negative")]
    Constants {
        /// The row.
        model: String,
    },
    /// Rows scored by different rules.
    #[error("{model} is scored with another penalty or other weights than {first}: not comparable")]
    Mixed {
        /// The row.
        model: String,
        /// The first row.
        first: String,
    },
    /// From the statistics underneath.
    #[error(transparent)]
    Stats(#[from] StatsError),
}

/// Evaluates rows of one subject together.
///
/// # Errors
/// Any of [`EvaluateError`]; nothing is dropped to make a row fit.
pub fn evaluate(rows: &[RowData], options: Bootstrap) -> Result<Evaluation, EvaluateError> {
    let first = rows.first().ok_or(EvaluateError::NoRows)?;
    if options.replicates < MIN_REPLICATES {
        return Err(EvaluateError::TooFewReplicates(options.replicates));
    }
    for row in rows {
        check(row)?;
        if row.penalty != first.penalty || row.weights != first.weights {
            return Err(EvaluateError::Mixed {
                model: row.model.clone(),
                first: first.model.clone(),
            });
        }
    }
    let clusters: BTreeSet<u32> = rows
        .iter()
        .flat_map(|row| row.functions.iter().map(|function| function.cluster))
        .collect();
    let clusters: Vec<u32> = clusters.into_iter().collect();
    let mut sets = Sets::default();
    let sums: Vec<Sums> = rows
        .iter()
        .map(|row| Sums::of(row, &clusters, &mut sets))
        .collect();
    let mut estimates: Vec<RowEstimate> = rows
        .iter()
        .zip(&sums)
        .map(|(row, sums)| estimate(row, sums, &sets))
        .collect();
    let enough = |row: &RowEstimate| row.clusters >= 2 && row.iterations >= 2;
    let mut draws = draw(&sums, &sets, &clusters, options);
    for (row, draws) in estimates.iter_mut().zip(&mut draws) {
        if enough(row) {
            row.intervals = Some(intervals(draws, options.confidence)?);
        } else {
            *draws = Draws::default();
            (row.delta_log_se, row.redrawn_s2_se) = (None, None);
        }
    }
    let ranking = if estimates.iter().all(enough) {
        let scores: Vec<f64> = estimates.iter().map(|row| row.chained.score).collect();
        let drawn: Vec<Vec<f64>> = draws.iter().map(|draws| draws.score.clone()).collect();
        Some(bootstrap::compare(&scores, &drawn, options.confidence)?)
    } else {
        None
    };
    let equal_iterations = rows
        .iter()
        .all(|row| row.iterations.len() == first.iterations.len());
    Ok(Evaluation {
        rows: estimates,
        ranking,
        draws,
        equal_iterations,
    })
}

fn check(row: &RowData) -> Result<(), EvaluateError> {
    let model = || row.model.clone();
    if !(row.weights.are_valid() && row.penalty.is_finite() && row.penalty >= 0.0) {
        return Err(EvaluateError::Constants { model: model() });
    }
    if !row
        .functions
        .iter()
        .any(|function| function.compiles.is_some())
    {
        return Err(EvaluateError::Nothing {
            model: model(),
            what: "functions that the build knows",
        });
    }
    if row.iterations.is_empty() {
        return Err(EvaluateError::Nothing {
            model: model(),
            what: "iterations",
        });
    }
    for (iteration, result) in row.iterations.iter().enumerate() {
        if !(0.0..=1.0).contains(&result.pass_rate) {
            return Err(EvaluateError::PassRate {
                model: model(),
                iteration,
                value: result.pass_rate,
            });
        }
        let functions = row.functions.len();
        if let Some(&function) = result.functions.iter().find(|&&f| f as usize >= functions) {
            return Err(EvaluateError::UnknownFunction {
                model: model(),
                iteration,
                function,
                functions,
            });
        }
        if let Some(&alert) = result
            .alerts
            .iter()
            .find(|alert| !row.alerts.contains_key(alert))
        {
            return Err(EvaluateError::UnknownAlert {
                model: model(),
                iteration,
                alert,
            });
        }
    }
    Ok(())
}

fn estimate(row: &RowData, sums: &Sums, sets: &Sets) -> RowEstimate {
    let [compiling, counted, asked, lines] = sums.cluster_totals();
    let n = sums.iterations.len() as f64;
    let s1 = 100.0 * compiling / counted;
    let s2 = sums
        .iterations
        .iter()
        .map(|iteration| iteration[0])
        .sum::<f64>()
        / n;
    let s3 = super::memory_score(row.penalty, sums.alerts as u64, sums.leaks as u64);
    let d = lines / asked;
    let chained = row.weights.chain(s1, s2, s3, d);
    let se = delta_standard_error(sums, &sets[sums.set], [s1, s2, s3, d]);
    RowEstimate {
        model: row.model.clone(),
        s1,
        s2,
        s3,
        d,
        chained,
        counted: counted as usize,
        unrelated: row.functions.len() - counted as usize,
        alerts: sums.alerts,
        leaks: sums.leaks,
        seen_once: sums.seen_once,
        clusters: sums
            .clusters
            .iter()
            .filter(|cluster| cluster[1] > 0.0)
            .count(),
        iterations: sums.iterations.len(),
        intervals: None,
        redrawn_s2_se: Some(redrawn_s2_standard_error(sums, &sets[sums.set], s2)),
        delta_log_se: (chained.score > 0.0).then(|| se / chained.score),
    }
}

pub(super) fn intervals(draws: &Draws, confidence: f64) -> Result<Intervals, StatsError> {
    let logs: Vec<f64> = draws.score.iter().map(|score| score.ln()).collect();
    Ok(Intervals {
        s1: percentile(&draws.s1, confidence)?,
        s2: percentile(&draws.s2, confidence)?,
        s3: percentile(&draws.s3, confidence)?,
        d: percentile(&draws.d, confidence)?,
        score: percentile(&draws.score, confidence)?,
        log_se: standard_error(&logs),
    })
}

#[cfg(test)]
mod tests;
