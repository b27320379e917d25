//! Standard errors by derivatives, beside those of the bootstrap.

use super::Weights;
use super::sums::{Composition, Sums};

/// Standard error of the score to first order: the score's derivative by every weight, squared
/// and summed, since weights are independent with variance 1.
pub(super) fn delta_standard_error(
    sums: &Sums,
    set: &Composition,
    [s1, s2, s3, d]: [f64; 4],
) -> f64 {
    let Weights { w1, w2, w3, wd } = sums.weights;
    let by_s1 = w1 + w2 * s2 / 100.0 + w3 * s3 * s2 / 1e4;
    let by_s2 = w2 * s1 / 100.0 + w3 * s3 * s1 / 1e4;
    // A floored s3 does not move.
    let by_s3 = if s3 > 0.0 { w3 * s2 * s1 / 1e4 } else { 0.0 };
    let [_, counted, asked, _] = sums.cluster_totals();
    let mut by_cluster: Vec<f64> = sums
        .clusters
        .iter()
        .map(|[compiling, n, all, lines]| {
            by_s1 * (100.0 * compiling - s1 * n) / counted + wd * (lines - d * all) / asked
        })
        .collect();
    let n = sums.iterations.len() as f64;
    let once = sums
        .iterations
        .iter()
        .map(|iteration| iteration[1])
        .sum::<f64>();
    let mut variance = 0.0;
    for (i, [rate, alone]) in sums.iterations.iter().enumerate() {
        let by_weight = by_s2 * (rate - s2) / n - by_s3 * sums.penalty * (alone - once / n);
        variance += by_weight * by_weight;
        for (cluster, share) in set.iteration(i) {
            by_cluster[cluster] += share * by_weight;
        }
    }
    variance += by_cluster.iter().map(|by| by * by).sum::<f64>();
    variance.sqrt()
}

/// Standard error of s2 for other functions and other replies as well as other sets.
///
/// A function in an iteration of n moves its pass rate by its whole effect, so functions drawn
/// again move s2 by n times what weights averaged over a set say. The sum over files of the
/// squared effect is estimated from pairs of different iterations that share a file; with squares
/// of single iterations it would hold their noise too, which is larger. Never below the share of
/// the iterations.
pub(super) fn redrawn_s2_standard_error(sums: &Sums, set: &Composition, s2: f64) -> f64 {
    let n = sums.iterations.len() as f64;
    let deviations: Vec<f64> = sums
        .iterations
        .iter()
        .map(|[rate, _]| (rate - s2) / n)
        .collect();
    // Per cluster, over the iterations: functions, and those times the deviation, squares too.
    let mut moments = vec![[0.0; 4]; sums.clusters.len()];
    for (i, deviation) in deviations.iter().enumerate() {
        for (cluster, share) in set.iteration(i) {
            let members = share * set.size(i);
            let of = &mut moments[cluster];
            of[0] += members;
            of[1] += members * deviation;
            of[2] += members * deviation * deviation;
            of[3] += (members * deviation).powi(2);
        }
    }
    let alone: f64 = deviations
        .iter()
        .map(|deviation| deviation * deviation)
        .sum();
    let shared: f64 = moments
        .iter()
        .map(|[members, by_deviation, by_square, squared]| {
            let mean = members / n;
            // The deviations sum to zero, so the mean drops out of the first sum.
            by_deviation * by_deviation - (squared - 2.0 * mean * by_square + mean * mean * alone)
        })
        .sum();
    (alone + shared.max(0.0)).sqrt()
}
