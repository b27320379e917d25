//! The threshold of similarity (theta) of an embedder: the lowest at which at most so many of the
//! blocks that are known not to be there are taken to be there.

use serde::{Deserialize, Serialize};

use super::decide::{Presence, Thresholds, hunk};
use super::measure::Measure;

/// The name of the similarity that needs no model.
pub const LEXICAL: &str = "lexical";

/// What was found out about an embedder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Its name.
    pub embedder: String,
    /// The threshold of similarity.
    pub theta: f64,
    /// The share of absent blocks that are taken to be present at it.
    pub false_positives: f64,
    /// The share of present blocks that are taken to be present at it.
    pub true_positives: f64,
    /// How many pairs were absent.
    pub absent: usize,
    /// How many were present.
    pub present: usize,
}

/// A threshold is never lower, since below it a block is like anything.
const LOWEST: f64 = 0.5;

/// The calibration by pairs of what was measured and whether the block is there; nothing without a
/// pair of either kind. `most` is the greatest share of false positives that is allowed.
pub fn calibrate(
    embedder: &str,
    pairs: &[(Measure, bool)],
    containment: f64,
    most: f64,
) -> Option<Calibration> {
    let absent = pairs.iter().filter(|(_, there)| !there).count();
    let present = pairs.len() - absent;
    if absent == 0 || present == 0 {
        return None;
    }
    let rates = |theta: f64| {
        let thresholds = Thresholds {
            similarity: theta,
            containment,
        };
        let taken = |there: bool| {
            let alike = pairs
                .iter()
                .filter(|(m, is)| *is == there && hunk(m, &thresholds).0 == Presence::Present);
            alike.count()
        };
        (
            taken(false) as f64 / absent as f64,
            taken(true) as f64 / present as f64,
        )
    };
    // Only at what was measured can a rate change. Rates fall as theta rises.
    let mut thetas: Vec<f64> = pairs.iter().map(|(m, _)| m.after.max(LOWEST)).collect();
    thetas.push(LOWEST);
    thetas.sort_by(f64::total_cmp);
    thetas.dedup();
    let lowest = thetas.partition_point(|theta| rates(*theta).0 > most);
    // Above all that was measured nothing is taken.
    let theta = thetas.get(lowest).copied().unwrap_or(1.0);
    let (false_positives, true_positives) = rates(theta);
    Some(Calibration {
        embedder: embedder.to_string(),
        theta,
        false_positives,
        true_positives,
        absent,
        present,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measure(before: u32, after: u32) -> Measure {
        Measure {
            hunk: 0,
            before: f64::from(before) / 10.0,
            after: f64::from(after) / 10.0,
            added: Some(1.0),
            deleted: None,
            line: 1,
            regions: [0..0, 0..0],
        }
    }

    #[test]
    fn one_kind_of_pairs_calibrates_nothing() {
        assert_eq!(calibrate("x", &[(measure(1, 9), true)], 0.7, 0.05), None);
    }

    proptest! {
        /// The oracle tries every threshold in small steps.
        #[test]
        fn the_lowest_threshold_with_few_false_positives(
            pairs in prop::collection::vec((0_u32..11, 0_u32..11, any::<bool>()), 2..40),
        ) {
            let pairs: Vec<_> = pairs.into_iter().map(|(b, a, there)| (measure(b, a), there)).collect();
            let Some(found) = calibrate("x", &pairs, 0.7, 0.05) else {
                return Ok(());
            };
            let rate = |theta: f64| {
                let taken = pairs.iter().filter(|(m, there)| {
                    !there && m.after > m.before && m.after >= theta
                });
                taken.count() as f64 / found.absent as f64
            };
            let fits = (500..=1000).map(|n| f64::from(n) / 1000.0).find(|t| rate(*t) <= 0.05);
            match fits {
                Some(fits) => {
                    prop_assert!(found.false_positives <= 0.05);
                    prop_assert!((rate(found.theta) - found.false_positives).abs() < 1e-12);
                    // Not lower, and above the oracle by no more than up to the next measurement.
                    prop_assert!(found.theta >= fits - 1e-3);
                    prop_assert_eq!(rate(found.theta), rate(fits));
                }
                None => prop_assert_eq!(found.theta, 1.0),
            }
        }
    }
}
