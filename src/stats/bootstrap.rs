//! The weighted bootstrap: instead of drawing items again, every item gets a random weight of
//! mean 1 (exponential, as in Rubin's Bayesian bootstrap), so that no item ever disappears.
//!
//! Weights depend on the seed, the replicate and the item's id only. All models of a comparison
//! therefore get the same weights, which makes intervals of differences and ranks honest: what
//! was hard for all of them moves all of them together.
//!
//! Replicates are independent and collected in order, so any number of threads gives the same
//! bits.

use super::compare::groups;
use super::interval::Interval;
use super::mix::{exponential, mix64};
use super::{StatsError, check_confidence, check_finite};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Replicates that a published interval must have at least.
pub const MIN_REPLICATES: u32 = 2000;

/// What the pinned mix is asked for, so that clusters and iterations with one id are unrelated.
const CLUSTER_WEIGHT: u64 = 1;
const ITERATION_WEIGHT: u64 = 2;

/// The weights of one replicate, in the order of the ids they were drawn for.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// One per cluster of functions.
    pub clusters: Vec<f64>,
    /// One per iteration, before it is multiplied by the mean weight of its functions.
    pub iterations: Vec<f64>,
}

impl Weights {
    /// Draws the weights of a replicate: positive, of mean 1 and variance 1, each a function of
    /// the seed, the replicate and its own id alone.
    pub fn draw(seed: u64, replicate: u64, clusters: &[u64], iterations: &[u64]) -> Weights {
        let draw = |kind: u64, ids: &[u64]| {
            ids.iter()
                .map(|&id| exponential(mix64(seed, &[kind, replicate, id])))
                .collect()
        };
        Weights {
            clusters: draw(CLUSTER_WEIGHT, clusters),
            iterations: draw(ITERATION_WEIGHT, iterations),
        }
    }
}

/// Runs `replicate(0..count)` on all threads and returns the results in order.
pub fn replicates<T: Send>(count: u32, replicate: impl Fn(u64) -> T + Sync) -> Vec<T> {
    (0..count)
        .into_par_iter()
        .map(|b| replicate(u64::from(b)))
        .collect()
}

/// The central interval that holds the given share of the values, ends interpolated linearly
/// (Hyndman and Fan's type 7, numpy's default).
///
/// # Errors
/// No values, a value that is not finite, a confidence outside (0, 1).
pub fn percentile(values: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    check_confidence(confidence)?;
    check_finite(values)?;
    if values.is_empty() {
        return Err(StatsError::Empty { what: "replicates" });
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |p: f64| {
        let at = p * (sorted.len() - 1) as f64;
        let below = at.floor() as usize;
        let above = (below + 1).min(sorted.len() - 1);
        sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
    };
    let tail = (1.0 - confidence) / 2.0;
    Ok(Interval {
        lo: quantile(tail),
        hi: quantile(1.0 - tail),
    })
}

/// Standard deviation of the replicates; 0 for fewer than two.
pub fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    (values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (n - 1.0))
        .sqrt()
}

/// Two models compared by replicates with shared weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Position of the model with the higher score, in the input.
    pub higher: usize,
    /// Position of the other.
    pub lower: usize,
    /// Score of `higher` minus score of `lower`, not negative.
    pub difference: f64,
    /// Standard deviation of the difference over the replicates.
    pub standard_error: f64,
    /// Percentile interval of this difference alone.
    pub interval: Interval,
    /// Whether the difference stands when all pairs are looked at, see [`compare`].
    pub told_apart: bool,
}

/// Models in order, with what the data say about that order.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// Positions in the input, from the highest score to the lowest; equal scores as given.
    pub order: Vec<usize>,
    /// Per model in input order: the ranks, 1 the best, that hold the given share of the
    /// replicates. Equal scores share the better rank.
    pub rank_intervals: Vec<(u32, u32)>,
    /// All pairs, those of the best model first.
    pub differences: Vec<Difference>,
    /// Runs of neighbours in `order` of which no two are told apart, none within another. A
    /// model can be in several, as letters in a table of means.
    pub groups: Vec<Vec<usize>>,
}

/// Compares models: `scores[m]` is the score of model m and `draws[m][b]` its replicate b.
///
/// A pair is told apart when its difference, in standard errors, exceeds what the largest such
/// figure of all pairs exceeds in `1 - confidence` of the replicates around their centre (the
/// single-step max-t rule). The chance of one false claim or more in the whole table is then
/// about `1 - confidence`, as with Holm's correction, but correlation between pairs is used and
/// a few thousand replicates are enough.
///
/// # Errors
/// No models, lists of different lengths, values that are not finite, a confidence outside
/// (0, 1).
pub fn compare(scores: &[f64], draws: &[Vec<f64>], confidence: f64) -> Result<Ranking, StatsError> {
    check(scores, draws, confidence)?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&x, &y| scores[y].total_cmp(&scores[x]).then(x.cmp(&y)));
    let pairs: Vec<(usize, usize)> = (0..order.len())
        .flat_map(|x| (x + 1..order.len()).map(move |y| (x, y)))
        .map(|(x, y)| (order[x], order[y]))
        .collect();
    let mut differences: Vec<Difference> = Vec::with_capacity(pairs.len());
    // Per replicate, the largest deviation of a pair from its own centre, in standard errors.
    let mut largest = vec![0.0_f64; draws[0].len()];
    for (higher, lower) in pairs {
        let drawn: Vec<f64> = draws[higher]
            .iter()
            .zip(&draws[lower])
            .map(|(x, y)| x - y)
            .collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let standard_error = standard_error(&drawn);
        if standard_error > 0.0 {
            for (largest, drawn) in largest.iter_mut().zip(&drawn) {
                *largest = largest.max((drawn - mean).abs() / standard_error);
            }
        }
        differences.push(Difference {
            higher,
            lower,
            difference: scores[higher] - scores[lower],
            standard_error,
            interval: percentile(&drawn, confidence)?,
            told_apart: false,
        });
    }
    largest.sort_by(f64::total_cmp);
    let critical =
        largest[((largest.len() as f64 * confidence).ceil() as usize).clamp(1, largest.len()) - 1];
    for pair in &mut differences {
        pair.told_apart = pair.difference > critical * pair.standard_error;
    }
    let apart: BTreeSet<(usize, usize)> = differences
        .iter()
        .filter(|pair| pair.told_apart)
        .map(|pair| (pair.higher, pair.lower))
        .collect();
    let groups = groups(&order, |higher, lower| apart.contains(&(higher, lower)));
    let rank_intervals = rank_intervals(draws, confidence);
    Ok(Ranking {
        order,
        rank_intervals,
        differences,
        groups,
    })
}

fn check(scores: &[f64], draws: &[Vec<f64>], confidence: f64) -> Result<(), StatsError> {
    check_confidence(confidence)?;
    check_finite(scores)?;
    if scores.is_empty() {
        return Err(StatsError::Empty { what: "models" });
    }
    if scores.len() != draws.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "scores",
            left: scores.len(),
            right_name: "draws",
            right: draws.len(),
        });
    }
    if draws[0].is_empty() {
        return Err(StatsError::Empty { what: "replicates" });
    }
    for model in draws {
        check_finite(model)?;
        if model.len() != draws[0].len() {
            return Err(StatsError::LengthMismatch {
                left_name: "the first model's draws",
                left: draws[0].len(),
                right_name: "another model's draws",
                right: model.len(),
            });
        }
    }
    Ok(())
}

fn rank_intervals(draws: &[Vec<f64>], confidence: f64) -> Vec<(u32, u32)> {
    let count = draws[0].len();
    // How often each model has each rank.
    let mut tally = vec![vec![0_usize; draws.len()]; draws.len()];
    for b in 0..count {
        for (model, tally) in tally.iter_mut().enumerate() {
            let better = draws
                .iter()
                .filter(|other| other[b] > draws[model][b])
                .count();
            tally[better] += 1;
        }
    }
    // The widest ranks with at most half of the remainder outside on either side.
    let outside = ((1.0 - confidence) / 2.0 * count as f64) as usize;
    let first_beyond = |counts: &mut dyn Iterator<Item = usize>| {
        let mut sum = 0;
        counts
            .take_while(|count| {
                sum += count;
                sum <= outside
            })
            .count() as u32
    };
    tally
        .iter()
        .map(|counts| {
            let lo = 1 + first_beyond(&mut counts.iter().copied());
            let hi = draws.len() as u32 - first_beyond(&mut counts.iter().rev().copied());
            (lo, hi)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::mix::uniform;

    #[test]
    fn weights_depend_on_ids_alone() {
        let all = Weights::draw(7, 3, &[1, 2, 3], &[1, 2]);
        let some = Weights::draw(7, 3, &[3, 1], &[2]);
        assert_eq!(some.clusters, [all.clusters[2], all.clusters[0]]);
        assert_eq!(some.iterations, [all.iterations[1]]);
        assert_ne!(
            all.clusters[0], all.iterations[0],
            "clusters and iterations are unrelated"
        );
        assert_ne!(all, Weights::draw(7, 4, &[1, 2, 3], &[1, 2]));
        assert_ne!(all, Weights::draw(8, 3, &[1, 2, 3], &[1, 2]));
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                replicates(500, |b| {
                    Weights::draw(1, b, &[1, 2, 3], &[])
                        .clusters
                        .iter()
                        .sum::<f64>()
                })
            })
        };
        let one = run(1);
        assert_eq!(
            one.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            run(5).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        );
    }

    #[test]
    fn percentiles_equal_numpys() {
        // numpy.percentile([3, 1, 4, 1, 5, 9, 2, 6], [10, 90]) and [2.5, 97.5].
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let got = percentile(&values, 0.8).unwrap();
        assert!(
            (got.lo - 1.0).abs() < 1e-12 && (got.hi - 6.9).abs() < 1e-12,
            "{got:?}"
        );
        let got = percentile(&values, 0.95).unwrap();
        assert!(
            (got.lo - 1.0).abs() < 1e-12 && (got.hi - 8.475).abs() < 1e-12,
            "{got:?}"
        );
        assert_eq!(
            percentile(&[2.0], 0.95).unwrap(),
            Interval { lo: 2.0, hi: 2.0 }
        );
        assert!(percentile(&[], 0.95).is_err() && percentile(&[f64::NAN], 0.95).is_err());
    }

    #[test]
    fn the_bootstrap_of_a_mean_has_its_standard_error() {
        let values: Vec<f64> = (0..300).map(|i| exponential(mix64(4, &[i]))).collect();
        let ids: Vec<u64> = (0..300).collect();
        let means = replicates(4000, |b| {
            let weights = Weights::draw(11, b, &ids, &[]).clusters;
            let total: f64 = weights.iter().sum();
            values.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>() / total
        });
        let plain = standard_error(&values) / 300_f64.sqrt();
        let ratio = standard_error(&means) / plain;
        assert!((0.96..1.04).contains(&ratio), "bootstrap / plain = {ratio}");
    }

    /// Replicates around `score`: common noise that all models share, and noise of its own.
    fn draws(model: u64, score: f64, common: f64, own: f64) -> Vec<f64> {
        let noise = |kind, b| uniform(mix64(2, &[kind, b])) + uniform(mix64(3, &[kind, b])) - 1.0;
        (0..2000)
            .map(|b| score + common * noise(0, b) + own * noise(1 + model, b))
            .collect()
    }

    #[test]
    fn noise_that_is_shared_does_not_hide_a_difference() {
        let scores = [70.0, 72.0, 69.9];
        let shared: Vec<_> = (0..3)
            .map(|m| draws(m, scores[m as usize], 20.0, 0.5))
            .collect();
        let got = compare(&scores, &shared, 0.95).unwrap();
        assert_eq!(got.order, [1, 0, 2]);
        assert_eq!(got.groups, [vec![1], vec![0, 2]]);
        assert_eq!(got.rank_intervals, [(2, 3), (1, 1), (2, 3)]);
        let first = &got.differences[0];
        assert_eq!((first.higher, first.lower, first.told_apart), (1, 0, true));
        assert!(first.interval.lo > 0.0 && first.interval.contains(2.0));

        let own: Vec<_> = (0..3)
            .map(|m| draws(m, scores[m as usize], 0.0, 20.0))
            .collect();
        let got = compare(&scores, &own, 0.95).unwrap();
        assert_eq!(got.groups, [vec![1, 0, 2]]);
        assert_eq!(got.rank_intervals, [(1, 3); 3]);
    }

    #[test]
    fn groups_overlap_where_neighbours_are_alike_and_ends_are_not() {
        let scores = [10.0, 9.0, 8.0];
        let all: Vec<_> = (0..3)
            .map(|m| draws(m, scores[m as usize], 0.0, 1.4))
            .collect();
        assert_eq!(
            compare(&scores, &all, 0.95).unwrap().groups,
            [vec![0, 1], vec![1, 2]]
        );
    }

    #[test]
    fn twenty_equal_models_are_one_group_in_nineteen_of_twenty_tables() {
        let mut split = 0;
        for table in 0..100_u64 {
            // The scores are one more draw of what the replicates are draws of.
            let noise = |m: u64, b: u64| {
                exponential(mix64(table, &[m, b])) - exponential(mix64(table, &[m, b, 1]))
            };
            let scores: Vec<f64> = (0..20).map(|m| 50.0 + noise(m, 5000)).collect();
            let draws: Vec<Vec<f64>> = (0..20)
                .map(|m| (0..400).map(|b| 50.0 + noise(m, b)).collect())
                .collect();
            split += u32::from(
                compare(&scores, &draws, 0.95)
                    .unwrap()
                    .differences
                    .iter()
                    .any(|d| d.told_apart),
            );
        }
        assert!(
            (1..=11).contains(&split),
            "{split} of 100 tables claim a difference"
        );
    }

    #[test]
    fn equal_rows_are_never_told_apart_and_bad_input_is_an_error() {
        let same = vec![draws(1, 5.0, 1.0, 1.0); 2];
        let got = compare(&[5.0, 5.0], &same, 0.95).unwrap();
        assert_eq!(
            (got.groups, got.rank_intervals),
            (vec![vec![0, 1]], vec![(1, 1), (1, 1)])
        );
        let one = compare(&[5.0], &same[..1], 0.95).unwrap();
        assert_eq!((one.order, one.groups), (vec![0], vec![vec![0]]));
        assert!(compare(&[], &[], 0.95).is_err());
        assert!(compare(&[1.0], &same, 0.95).is_err());
        assert!(compare(&[1.0, 2.0], &[vec![1.0], vec![]], 0.95).is_err());
        assert!(compare(&[1.0], &[vec![f64::NAN]], 0.95).is_err());
    }
}
