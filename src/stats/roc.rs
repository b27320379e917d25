//! How well a score tells two groups apart: the area under the ROC curve, its interval, and what is
//! left of it when labels are drawn by chance.

use super::mix::mix64;
use super::{Interval, StatsError, check_confidence, check_finite};

/// The chance that a member drawn at random has a higher score than another one drawn at random;
/// equal scores count half. `scores` and `members` are parallel.
///
/// # Errors
/// A score that is not finite, lists of different lengths, or no member, or nothing but members.
pub fn auc(scores: &[f64], members: &[bool]) -> Result<f64, StatsError> {
    check_finite(scores)?;
    if scores.len() != members.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "scores",
            left: scores.len(),
            right_name: "members",
            right: members.len(),
        });
    }
    let inside = members.iter().filter(|member| **member).count();
    if inside == 0 || inside == members.len() {
        return Err(StatsError::Empty {
            what: if inside == 0 { "members" } else { "others" },
        });
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    // Twice the number of pairs that are in order, so that halves are whole.
    let (mut pairs, mut below) = (0_u64, 0_u64);
    for equal in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let in_run = equal.iter().filter(|&&at| members[at]).count() as u64;
        let others = equal.len() as u64 - in_run;
        pairs += in_run * (2 * below + others);
        below += others;
    }
    Ok(pairs as f64 / (2 * inside * (members.len() - inside)) as f64)
}

/// A percentile interval of [`auc`]: members and others are drawn again, each group by itself,
/// `draws` times. Deterministic for a seed.
///
/// # Errors
/// Those of [`auc`], no draws, or a confidence that is none.
pub fn auc_interval(
    scores: &[f64],
    members: &[bool],
    confidence: f64,
    draws: u32,
    seed: u64,
) -> Result<Interval, StatsError> {
    check_confidence(confidence)?;
    auc(scores, members)?;
    if draws == 0 {
        return Err(StatsError::Empty { what: "draws" });
    }
    let of = |group: bool| -> Vec<f64> {
        let all = scores.iter().zip(members);
        all.filter(|(_, m)| **m == group).map(|(s, _)| *s).collect()
    };
    let (inside, others) = (of(true), of(false));
    let labels: Vec<bool> = (0..scores.len()).map(|at| at < inside.len()).collect();
    let mut areas = Vec::new();
    for draw in 0..draws {
        let again = |group: &[f64], which: u64| -> Vec<f64> {
            let at = |i: usize| mix64(seed, &[u64::from(draw), which, i as u64]) as usize;
            (0..group.len())
                .map(|i| group[at(i) % group.len()])
                .collect()
        };
        let mut drawn = again(&inside, 0);
        drawn.extend(again(&others, 1));
        areas.push(auc(&drawn, &labels)?);
    }
    areas.sort_by(f64::total_cmp);
    let at = |share: f64| areas[((areas.len() - 1) as f64 * share).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Ok(Interval {
        lo: at(tail),
        hi: at(1.0 - tail),
    })
}

/// The mean of [`auc`] over `permutations` random exchanges of the labels: one half, if nothing but
/// the labels carries what tells the groups apart.
///
/// # Errors
/// Those of [`auc`], or no permutations.
pub fn permuted_auc(
    scores: &[f64],
    members: &[bool],
    permutations: u32,
    seed: u64,
) -> Result<f64, StatsError> {
    if permutations == 0 {
        return Err(StatsError::Empty {
            what: "permutations",
        });
    }
    let mut sum = 0.0;
    for permutation in 0..permutations {
        let mut labels = members.to_vec();
        for i in (1..labels.len()).rev() {
            let draw = mix64(seed, &[u64::from(permutation), i as u64]);
            labels.swap(i, (draw % (i as u64 + 1)) as usize);
        }
        sum += auc(scores, &labels)?;
    }
    Ok(sum / f64::from(permutations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_area_is_the_share_of_pairs_in_order(
            all in proptest::collection::vec((0..6_u8, any::<bool>()), 2..40),
        ) {
            let scores: Vec<f64> = all.iter().map(|(s, _)| f64::from(*s)).collect();
            let members: Vec<bool> = all.iter().map(|(_, m)| *m).collect();
            let (mut in_order, mut pairs) = (0.0, 0.0);
            for (a, m) in all.iter().filter(|(_, m)| *m) {
                for (b, _) in all.iter().filter(|(_, n)| n != m) {
                    pairs += 1.0;
                    in_order += if a > b { 1.0 } else if a == b { 0.5 } else { 0.0 };
                }
            }
            match auc(&scores, &members) {
                Ok(area) => prop_assert!((area - in_order / pairs).abs() < 1e-12),
                Err(_) => prop_assert_eq!(pairs, 0.0),
            }
        }
    }

    #[test]
    fn the_interval_holds_the_area_and_narrows_with_more_items() {
        let sample = |n: usize| -> (Vec<f64>, Vec<bool>) {
            let scores =
                (0..n).map(|i| (mix64(1, &[i as u64]) % 1000) as f64 + 300.0 * (i % 2) as f64);
            (scores.collect(), (0..n).map(|i| i % 2 == 1).collect())
        };
        let width = |n| {
            let (scores, members) = sample(n);
            let area = auc(&scores, &members).unwrap();
            let interval = auc_interval(&scores, &members, 0.95, 400, 3).unwrap();
            assert!(
                interval.lo < area && area < interval.hi,
                "{area} {interval:?}"
            );
            assert_eq!(
                interval,
                auc_interval(&scores, &members, 0.95, 400, 3).unwrap()
            );
            interval.hi - interval.lo
        };
        assert!(width(400) < width(40));
    }

    #[test]
    fn labels_by_chance_tell_nothing() {
        let scores: Vec<f64> = (0..80).map(f64::from).collect();
        let members: Vec<bool> = (0..80).map(|i| i >= 40).collect();
        assert_eq!(auc(&scores, &members).unwrap(), 1.0);
        let mean = permuted_auc(&scores, &members, 200, 1).unwrap();
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn what_has_no_area_is_an_error() {
        assert!(auc(&[1.0], &[true]).is_err() && auc(&[1.0], &[false]).is_err());
        assert!(
            auc(&[1.0, 2.0], &[true]).is_err() && auc(&[f64::NAN, 1.0], &[true, false]).is_err()
        );
        assert!(auc_interval(&[1.0, 2.0], &[true, false], 0.95, 0, 0).is_err());
        assert!(permuted_auc(&[1.0, 2.0], &[true, false], 0, 0).is_err());
    }
}
