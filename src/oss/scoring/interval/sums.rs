//! A row in sums over source files and iterations, all that a replicate has to look at.

use super::{RowData, Weights};
use std::collections::{BTreeMap, BTreeSet};

/// Per iteration, the share of its functions in each cluster, for all iterations of a row one
/// after the other. Models that replace the same sets have the same.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Composition {
    /// Where an iteration begins in the other two; one more entry than iterations.
    starts: Vec<usize>,
    clusters: Vec<u32>,
    shares: Vec<f64>,
    /// Functions per iteration.
    sizes: Vec<f64>,
}

impl Composition {
    fn of(row: &RowData, clusters: &[u32]) -> Composition {
        let position: BTreeMap<u32, u32> = clusters
            .iter()
            .enumerate()
            .map(|(at, &cluster)| (cluster, at as u32))
            .collect();
        let mut composition = Composition {
            starts: vec![0],
            ..Composition::default()
        };
        for iteration in &row.iterations {
            let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
            for &function in &iteration.functions {
                *counts
                    .entry(position[&row.functions[function as usize].cluster])
                    .or_default() += 1;
            }
            for (cluster, count) in counts {
                composition.clusters.push(cluster);
                composition
                    .shares
                    .push(f64::from(count) / iteration.functions.len() as f64);
            }
            composition.starts.push(composition.clusters.len());
            composition.sizes.push(iteration.functions.len() as f64);
        }
        composition
    }

    pub(super) fn iteration(&self, i: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.starts[i]..self.starts[i + 1];
        let clusters = self.clusters[range.clone()]
            .iter()
            .map(|&cluster| cluster as usize);
        clusters.zip(self.shares[range].iter().copied())
    }

    /// Functions of an iteration.
    pub(super) fn size(&self, i: usize) -> f64 {
        self.sizes[i]
    }

    pub(super) fn iterations(&self) -> usize {
        self.starts.len() - 1
    }
}

/// The distinct compositions of all rows.
pub(super) type Sets = Vec<Composition>;

/// What a row is in sums, so that a replicate need not look at single functions.
pub(super) struct Sums {
    /// Per cluster: functions that compile, functions in s1, functions asked, lines changed.
    pub(super) clusters: Vec<[f64; 4]>,
    /// Per iteration: pass rate in percent, cost of the alerts seen in it alone.
    pub(super) iterations: Vec<[f64; 2]>,
    /// Cost of the alerts seen in several iterations.
    pub(super) settled: f64,
    /// Which of the [`Sets`].
    pub(super) set: usize,
    pub(super) penalty: f64,
    pub(super) weights: Weights,
    pub(super) alerts: usize,
    pub(super) leaks: usize,
    pub(super) seen_once: usize,
}

impl Sums {
    pub(super) fn of(row: &RowData, clusters: &[u32], sets: &mut Sets) -> Sums {
        let mut per_cluster: BTreeMap<u32, [f64; 4]> =
            clusters.iter().map(|&c| (c, [0.0; 4])).collect();
        for function in &row.functions {
            if let Some(sums) = per_cluster.get_mut(&function.cluster) {
                sums[0] += f64::from(function.compiles == Some(true));
                sums[1] += f64::from(function.compiles.is_some());
                sums[2] += 1.0;
                sums[3] += f64::from(function.changed_lines);
            }
        }
        let mut seen_in: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (i, iteration) in row.iterations.iter().enumerate() {
            for &alert in &iteration.alerts {
                seen_in.entry(alert).or_default().insert(i);
            }
        }
        let mut iterations: Vec<[f64; 2]> = row
            .iterations
            .iter()
            .map(|iteration| [100.0 * iteration.pass_rate, 0.0])
            .collect();
        let (mut settled, mut leaks, mut seen_once) = (0.0, 0, 0);
        for (alert, seen) in &seen_in {
            let alert = row.alerts[alert];
            leaks += usize::from(alert.leak);
            match seen.first() {
                Some(&i) if seen.len() == 1 => {
                    iterations[i][1] += alert.cost();
                    seen_once += 1;
                }
                _ => settled += alert.cost(),
            }
        }
        let composition = Composition::of(row, clusters);
        let set = sets
            .iter()
            .position(|known| *known == composition)
            .unwrap_or_else(|| {
                sets.push(composition);
                sets.len() - 1
            });
        Sums {
            clusters: per_cluster.into_values().collect(),
            iterations,
            settled,
            set,
            penalty: row.penalty,
            weights: row.weights,
            alerts: seen_in.len() - leaks,
            leaks,
            seen_once,
        }
    }

    pub(super) fn cluster_totals(&self) -> [f64; 4] {
        let mut totals = [0.0; 4];
        for sums in &self.clusters {
            totals
                .iter_mut()
                .zip(sums)
                .for_each(|(total, sum)| *total += sum);
        }
        totals
    }
}
