//! The chained score of OSS-Bench, from raw scores or from the results of single functions and
//! iterations, with intervals.
//!
//! Scores are percentages in [0, 100]; `d` is in changed lines per function. Nothing here reads
//! a store, a file or a clock, and nothing is rounded: rounding is for whoever prints.
//!
//! * [`Weights::chain`]: the definition;
//! * [`raw_table`]: the definition applied to a table of raw scores (`score --raw`);
//! * [`evaluate`]: point estimates, intervals and ranks from [`RowData`];
//! * [`aggregate()`]: a model over several subjects.

mod aggregate;
mod interval;
mod raw;

pub use aggregate::{Aggregate, Part, aggregate, subject_seed};
pub use interval::{
    Alert, Bootstrap, Draws, EvaluateError, Evaluation, FunctionResult, Intervals, IterationResult,
    RowData, RowEstimate, evaluate,
};
pub use raw::{RawError, RawRow, Unranked, raw_table};

/// Weights of the parts of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Of compilability, c1.
    pub w1: f64,
    /// Of tests passed, c2.
    pub w2: f64,
    /// Of memory safety, c3.
    pub w3: f64,
    /// Of dissimilarity, per changed line.
    pub wd: f64,
}

impl Default for Weights {
    /// The paper's: equal thirds, and a tenth of a point per changed line.
    fn default() -> Self {
        Weights {
            w1: 1.0 / 3.0,
            w2: 1.0 / 3.0,
            w3: 1.0 / 3.0,
            wd: 0.1,
        }
    }
}

/// A score and its chained parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chained {
    /// Compilability: s1 itself.
    pub c1: f64,
    /// Tests, of what compiles: s2 * c1 / 100.
    pub c2: f64,
    /// Memory safety, of what passes: s3 * c2 / 100.
    pub c3: f64,
    /// The weighted sum of the three and of `d`; can exceed 100 for a large `d`.
    pub score: f64,
}

impl Weights {
    /// Chains raw scores: a later metric counts only as far as the earlier ones let it.
    pub fn chain(&self, s1: f64, s2: f64, s3: f64, d: f64) -> Chained {
        let c1 = s1;
        let c2 = s2 * c1 / 100.0;
        let c3 = s3 * c2 / 100.0;
        Chained {
            c1,
            c2,
            c3,
            score: self.w1 * c1 + self.w2 * c2 + self.w3 * c3 + self.wd * d,
        }
    }

    /// Weights that make sense: finite, none negative.
    fn are_valid(&self) -> bool {
        [self.w1, self.w2, self.w3, self.wd]
            .iter()
            .all(|w| w.is_finite() && *w >= 0.0)
    }
}

/// The memory score: 100 less the penalty for every unique alert, leaks at half of it, not
/// below 0. (The paper prints a floored score as 0.01.)
pub fn memory_score(penalty: f64, alerts: u64, leaks: u64) -> f64 {
    (100.0 - penalty * (alerts as f64 + leaks as f64 / 2.0)).max(0.0)
}

/// The most that [`default_penalty`] gives: a tenth of all points.
pub const PENALTY_CAP: f64 = 10.0;

/// The penalty of a subject that the paper does not name (0.69 for PHP, 0.19 for SQLite): PHP's,
/// scaled by PHP's 10,534 functions over this subject's, at most [`PENALTY_CAP`]. This rule is ours.
pub fn default_penalty(functions: usize) -> f64 {
    (0.69 * 10_534.0 / functions as f64).min(PENALTY_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_penalty_scales_and_is_capped() {
        assert!((default_penalty(10_534) - 0.69).abs() < 1e-12);
        assert!((default_penalty(2_000) - 3.634_23).abs() < 1e-9);
        assert_eq!((default_penalty(300), default_penalty(0)), (10.0, 10.0));
    }

    #[test]
    fn leaks_cost_half_and_the_floor_is_zero() {
        // PHP, GPT-O1 and Llama3.3 in the paper's table: 15 and 76 alerts.
        assert!((memory_score(0.69, 15, 0) - 89.65).abs() < 1e-9);
        assert!((memory_score(0.69, 70, 12) - 47.56).abs() < 1e-9);
        assert_eq!(memory_score(0.69, 145, 0), 0.0);
    }

    #[test]
    fn what_does_not_compile_cannot_pass() {
        let all = Weights::default().chain(100.0, 100.0, 100.0, 0.0);
        assert!((all.score - 100.0).abs() < 1e-12);
        let none = Weights::default().chain(0.0, 100.0, 100.0, 3.0);
        assert_eq!((none.c2, none.c3), (0.0, 0.0));
        assert!((none.score - 0.3).abs() < 1e-12);
    }
}
