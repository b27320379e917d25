//! One row of a model over several subjects: the mean of its rows, every subject with the same
//! weight however many functions it has, so that no subject drowns the others.
//!
//! Intervals come from the replicates of the subjects' own rows, replicate by replicate: that is
//! right when the subjects' weights were drawn independently, with another seed for each
//! ([`subject_seed`]).

use super::{Chained, Draws, Intervals, RowEstimate, interval};
use crate::stats::{StatsError, mix};

/// A model's row on one subject.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The estimates.
    pub estimate: &'a RowEstimate,
    /// The replicates behind their intervals; empty lists without intervals.
    pub draws: &'a Draws,
}

/// A model over several subjects. All numbers are means of the subjects' numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// Compilability, in percent.
    pub s1: f64,
    /// Tests passed, in percent.
    pub s2: f64,
    /// Memory safety, in percent.
    pub s3: f64,
    /// Changed lines per function.
    pub d: f64,
    /// The score and its parts. The mean of products is not the product of means: c2 here is not
    /// s2 * c1 / 100.
    pub chained: Chained,
    /// `None` when a subject's row has none.
    pub intervals: Option<Intervals>,
    /// Means of the subjects' replicates; empty without intervals.
    pub draws: Draws,
}

/// The seed of a subject's bootstrap weights, from that of the evaluation.
pub fn subject_seed(seed: u64, subject: &str) -> u64 {
    const WEIGHTS_OF_A_SUBJECT: u64 = 0x7375_626a;
    mix::keyed(seed, WEIGHTS_OF_A_SUBJECT, subject.as_bytes())
}

/// The aggregate of a model's rows, one per subject.
///
/// # Errors
/// No parts, or replicates of different numbers.
pub fn aggregate(parts: &[Part<'_>], confidence: f64) -> Result<Aggregate, StatsError> {
    if parts.is_empty() {
        return Err(StatsError::Empty { what: "subjects" });
    }
    let mean = |of: &dyn Fn(&RowEstimate) -> f64| {
        parts.iter().map(|p| of(p.estimate)).sum::<f64>() / parts.len() as f64
    };
    let with_intervals = parts.iter().all(|p| p.estimate.intervals.is_some());
    let draws = if with_intervals {
        Draws {
            s1: means(parts, |d| &d.s1)?,
            s2: means(parts, |d| &d.s2)?,
            s3: means(parts, |d| &d.s3)?,
            d: means(parts, |d| &d.d)?,
            score: means(parts, |d| &d.score)?,
        }
    } else {
        Draws::default()
    };
    Ok(Aggregate {
        s1: mean(&|r| r.s1),
        s2: mean(&|r| r.s2),
        s3: mean(&|r| r.s3),
        d: mean(&|r| r.d),
        chained: Chained {
            c1: mean(&|r| r.chained.c1),
            c2: mean(&|r| r.chained.c2),
            c3: mean(&|r| r.chained.c3),
            score: mean(&|r| r.chained.score),
        },
        intervals: match with_intervals {
            true => Some(interval::intervals(&draws, confidence)?),
            false => None,
        },
        draws,
    })
}

/// Replicate by replicate, the mean over the parts.
fn means(parts: &[Part<'_>], of: impl Fn(&Draws) -> &Vec<f64>) -> Result<Vec<f64>, StatsError> {
    let first = of(parts[0].draws);
    let mut sums = vec![0.0; first.len()];
    for part in parts {
        let list = of(part.draws);
        if list.len() != sums.len() {
            return Err(StatsError::LengthMismatch {
                left_name: "the first subject's replicates",
                left: sums.len(),
                right_name: "another's",
                right: list.len(),
            });
        }
        for (sum, value) in sums.iter_mut().zip(list) {
            *sum += value;
        }
    }
    Ok(sums.into_iter().map(|s| s / parts.len() as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oss::scoring::{
        Bootstrap, Evaluation, FunctionResult, IterationResult, RowData, Weights, evaluate,
    };
    use std::collections::BTreeMap;

    /// A subject whose functions compile with a chance of `percent`, drawn by `key`.
    fn subject(key: u64, functions: u32, percent: u64) -> RowData {
        let chance = |at: u64| mix::keyed(key, at, b"chance") % 100;
        RowData {
            model: "m".into(),
            functions: (0..functions)
                .map(|f| FunctionResult {
                    cluster: f / 3,
                    compiles: Some(chance(u64::from(f)) < percent),
                    changed_lines: 1 + f % 4,
                })
                .collect(),
            iterations: (0..12)
                .map(|i| IterationResult {
                    functions: vec![i % functions, (i * 7 + 1) % functions],
                    pass_rate: 0.5 + (chance(1000 + u64::from(i)) as f64) / 250.0,
                    alerts: vec![],
                })
                .collect(),
            alerts: BTreeMap::new(),
            penalty: 1.0,
            weights: Weights::default(),
        }
    }

    fn evaluated(row: &RowData, seed: u64) -> Evaluation {
        let options = Bootstrap {
            seed,
            ..Bootstrap::default()
        };
        evaluate(std::slice::from_ref(row), options).unwrap()
    }

    fn part(e: &Evaluation) -> Part<'_> {
        Part {
            estimate: &e.rows[0],
            draws: &e.draws[0],
        }
    }

    #[test]
    fn one_subject_is_itself() {
        let e = evaluated(&subject(1, 60, 70), 5);
        let all = aggregate(&[part(&e)], 0.95).unwrap();
        assert_eq!(all.chained, e.rows[0].chained);
        assert_eq!(all.intervals, e.rows[0].intervals);
    }

    #[test]
    fn a_large_subject_weighs_no_more_than_a_small_one() {
        let (small, large) = (subject(1, 12, 0), subject(2, 900, 100));
        let (a, b) = (evaluated(&small, 1), evaluated(&large, 2));
        let all = aggregate(&[part(&a), part(&b)], 0.95).unwrap();
        assert_eq!(all.s1, 50.0);
        let mean = (a.rows[0].chained.score + b.rows[0].chained.score) / 2.0;
        assert!((all.chained.score - mean).abs() < 1e-12);
    }

    #[test]
    fn uncertainty_of_independent_subjects_adds_in_quadrature() {
        let spread = |draws: &[f64]| crate::stats::bootstrap::standard_error(draws);
        let names = ["tidelib", "cjson", "jansson", "sqlite"];
        let parts: Vec<Evaluation> = names
            .iter()
            .map(|name| evaluated(&subject(9, 90, 60), subject_seed(0, name)))
            .collect();
        let views: Vec<Part<'_>> = parts.iter().map(part).collect();
        let all = aggregate(&views, 0.95).unwrap();
        let sum: f64 = views.iter().map(|p| spread(&p.draws.s1).powi(2)).sum();
        let expected = sum.sqrt() / 4.0;
        let found = spread(&all.draws.s1);
        assert!((found / expected - 1.0).abs() < 0.1, "{found} {expected}");
        // With one seed for all they would move together and the interval would be twice as wide.
        let together: Vec<Evaluation> = names
            .iter()
            .map(|_| evaluated(&subject(9, 90, 60), 0))
            .collect();
        let views: Vec<Part<'_>> = together.iter().map(part).collect();
        let wrong = aggregate(&views, 0.95).unwrap();
        assert!(spread(&wrong.draws.s1) > 1.8 * found);
    }

    #[test]
    fn a_row_without_an_interval_leaves_the_aggregate_without_one() {
        let mut one_file = subject(3, 30, 50);
        for f in &mut one_file.functions {
            f.cluster = 0;
        }
        let (a, b) = (evaluated(&one_file, 1), evaluated(&subject(4, 30, 50), 2));
        let all = aggregate(&[part(&a), part(&b)], 0.95).unwrap();
        assert_eq!((all.intervals, all.draws), (None, Draws::default()));
        assert!(aggregate(&[], 0.95).is_err());
    }
}
