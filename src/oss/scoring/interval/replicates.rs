//! The replicates of all rows, with the same weights for each.

use super::sums::{Composition, Sets, Sums};
use super::{Bootstrap, Draws};
use crate::stats::bootstrap;

/// Replicates computed side by side, so that the sums over clusters read memory in order.
const LANES: usize = 8;

/// Draws the replicates of all rows with the same weights.
pub(super) fn draw(sums: &[Sums], sets: &Sets, clusters: &[u32], options: Bootstrap) -> Vec<Draws> {
    let clusters: Vec<u64> = clusters.iter().map(|&cluster| u64::from(cluster)).collect();
    let most = sets.iter().map(Composition::iterations).max().unwrap_or(0);
    let iterations: Vec<u64> = (0..most as u64).collect();
    let blocks = bootstrap::replicates(options.replicates.div_ceil(LANES as u32), |block| {
        let (by_cluster, by_iteration) = lanes(options.seed, block, &clusters, &iterations);
        let by_set: Vec<Vec<[f64; LANES]>> = sets
            .iter()
            .map(|set| iteration_weights(set, &by_cluster, &by_iteration))
            .collect();
        sums.iter()
            .map(|sums| replicate(sums, &by_cluster, &by_set[sums.set]))
            .collect::<Vec<_>>()
    });
    let mut draws = vec![Draws::default(); sums.len()];
    for block in blocks {
        for (draws, raw) in draws.iter_mut().zip(block) {
            let left = options.replicates as usize - draws.s1.len();
            for [s1, s2, s3, d, score] in raw.into_iter().take(left) {
                draws.s1.push(s1);
                draws.s2.push(s2);
                draws.s3.push(s3);
                draws.d.push(d);
                draws.score.push(score);
            }
        }
    }
    draws
}

/// The weights of one block of replicates, by cluster and by iteration.
fn lanes(
    seed: u64,
    block: u64,
    clusters: &[u64],
    iterations: &[u64],
) -> (Vec<[f64; LANES]>, Vec<[f64; LANES]>) {
    let mut by_cluster = vec![[0.0; LANES]; clusters.len()];
    let mut by_iteration = vec![[0.0; LANES]; iterations.len()];
    for lane in 0..LANES {
        let replicate = block * LANES as u64 + lane as u64;
        let weights = bootstrap::Weights::draw(seed, replicate, clusters, iterations);
        by_cluster
            .iter_mut()
            .zip(weights.clusters)
            .for_each(|(to, weight)| to[lane] = weight);
        by_iteration
            .iter_mut()
            .zip(weights.iterations)
            .for_each(|(to, weight)| to[lane] = weight);
    }
    (by_cluster, by_iteration)
}

/// An iteration's own weight times the mean weight of its functions; without functions, its own.
fn iteration_weights(
    set: &Composition,
    by_cluster: &[[f64; LANES]],
    by_iteration: &[[f64; LANES]],
) -> Vec<[f64; LANES]> {
    (0..set.iterations())
        .map(|i| {
            let mut mean = [0.0; LANES];
            for (cluster, share) in set.iteration(i) {
                for (mean, weight) in mean.iter_mut().zip(&by_cluster[cluster]) {
                    *mean += share * weight;
                }
            }
            if set.size(i) == 0.0 {
                mean = [1.0; LANES];
            }
            mean.iter_mut()
                .zip(&by_iteration[i])
                .for_each(|(mean, own)| *mean *= own);
            mean
        })
        .collect()
}

/// s1, s2, s3, d and the score of a row in one block of replicates.
fn replicate(
    sums: &Sums,
    by_cluster: &[[f64; LANES]],
    by_iteration: &[[f64; LANES]],
) -> [[f64; 5]; LANES] {
    let mut totals = [[0.0; LANES]; 4];
    for (sums, weights) in sums.clusters.iter().zip(by_cluster) {
        for (total, sum) in totals.iter_mut().zip(sums) {
            total
                .iter_mut()
                .zip(weights)
                .for_each(|(total, weight)| *total += sum * weight);
        }
    }
    let mut rates = [[0.0; LANES]; 3];
    for ([rate, alone], weights) in sums.iterations.iter().zip(by_iteration) {
        for lane in 0..LANES {
            rates[0][lane] += weights[lane];
            rates[1][lane] += rate * weights[lane];
            rates[2][lane] += alone * weights[lane];
        }
    }
    let n = sums.iterations.len() as f64;
    std::array::from_fn(|lane| {
        let s1 = 100.0 * totals[0][lane] / totals[1][lane];
        let s2 = rates[1][lane] / rates[0][lane];
        let cost = sums.settled + rates[2][lane] * n / rates[0][lane];
        let s3 = (100.0 - sums.penalty * cost).max(0.0);
        let d = totals[3][lane] / totals[2][lane];
        [s1, s2, s3, d, sums.weights.chain(s1, s2, s3, d).score]
    })
}
