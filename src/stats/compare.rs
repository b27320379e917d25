//! Tests and corrections beside the intervals: the normal test, McNemar, sign flips, Holm,
//! Benjamini-Hochberg, groups that cannot be told apart, power, and pass@k.

use super::StatsError;
use statrs::function::erf::erfc;
use statrs::function::factorial::ln_binomial;

/// Two-sided p-value of an estimate that is `z` standard errors from zero, by the normal
/// approximation. NaN for NaN.
pub fn normal_p(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Two-sided exact McNemar test: of two models on the same items, `only_a` items were solved by
/// the first alone and `only_b` by the second alone. 1 when they never disagree.
pub fn mcnemar_exact(only_a: u64, only_b: u64) -> f64 {
    let n = only_a.saturating_add(only_b);
    let tail: f64 = (0..=only_a.min(only_b))
        .map(|k| (ln_binomial(n, k) - n as f64 * std::f64::consts::LN_2).exp())
        .sum();
    (2.0 * tail).min(1.0)
}

/// Two-sided McNemar test of the mid-p kind: as [`mcnemar_exact`], with the probability of what
/// was observed counted half. The exact test keeps its level at the price of power; this one is
/// close to its level on average (Fagerland, Lydersen and Laake 2013). 1 when they never disagree.
pub fn mcnemar_mid_p(only_a: u64, only_b: u64) -> f64 {
    let n = only_a.saturating_add(only_b);
    if n == 0 {
        return 1.0;
    }
    let log = |k| ln_binomial(n, k) - n as f64 * std::f64::consts::LN_2;
    let observed = log(only_a.min(only_b)).exp();
    let tail: f64 = (0..=only_a.min(only_b)).map(|k| log(k).exp()).sum();
    // With as many on either side the tail holds the middle term, which belongs to both sides.
    (2.0 * tail - observed).min(1.0)
}

/// Two-sided sign-flip permutation test of the sums of paired differences, one sum per cluster: the
/// share of all sign patterns whose total is at least as far from zero as the total of `sums`. It is
/// exact: the totals are whole numbers, so that their distribution over all patterns can be written
/// down: in memory that grows with the sum of their sizes, and in time with that times the clusters.
/// What is below 1e-250 is given as that.
///
/// # Errors
/// No clusters.
pub fn sign_flip(sums: &[i32]) -> Result<f64, StatsError> {
    if sums.is_empty() {
        return Err(StatsError::Empty { what: "clusters" });
    }
    let observed = sums.iter().map(|&sum| i64::from(sum)).sum::<i64>().abs();
    // A cluster without a difference is the same under either sign.
    let mut steps: Vec<usize> = sums.iter().map(|sum| sum.unsigned_abs() as usize).collect();
    steps.retain(|&step| step > 0);
    // Small steps first: the sums that they reach are few.
    steps.sort_unstable();
    let whole: i64 = steps.iter().map(|&step| step as i64).sum();
    // The chance that those with a minus add up to `first + index`; the total is `whole` less twice that.
    let (mut first, mut chances) = (0_i64, vec![1.0_f64]);
    let mut next = Vec::new();
    for step in steps {
        next.clear();
        next.resize(chances.len() + step, 0.0);
        for (to, chance) in next.iter_mut().zip(&chances) {
            *to = 0.5 * chance;
        }
        for (to, chance) in next[step..].iter_mut().zip(&chances) {
            *to += 0.5 * chance;
        }
        let likely = |chance: &f64| *chance >= NEGLIGIBLE;
        let from = next.iter().position(likely).unwrap_or(0);
        let to = next
            .iter()
            .rposition(likely)
            .map_or(next.len(), |at| at + 1);
        chances.clear();
        chances.extend_from_slice(&next[from..to]);
        first += from as i64;
    }
    let far = |minus: i64| (whole - 2 * minus).abs() >= observed;
    let tail = (first..).zip(&chances).filter(|(minus, _)| far(*minus));
    let p: f64 = tail.map(|(_, chance)| chance).sum();
    Ok(p.clamp(NEGLIGIBLE, 1.0))
}

/// Chances below this are left out of distributions: numbers that are still normal, and far from it.
const NEGLIGIBLE: f64 = 1e-250;

/// Holm's adjusted p-values, in input order: claims at level alpha are those below alpha, with
/// the chance of one false claim or more at most alpha.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    adjusted(p_values, false)
}

/// Benjamini and Hochberg's adjusted p-values, in input order: of the claims below alpha, at
/// most a share alpha is expected to be false. For exploration.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    adjusted(p_values, true)
}

fn adjusted(p_values: &[f64], false_discovery: bool) -> Vec<f64> {
    let n = p_values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&x, &y| p_values[x].total_cmp(&p_values[y]).then(x.cmp(&y)));
    let mut result = vec![1.0; n];
    if false_discovery {
        let mut least = 1.0_f64;
        for (rank, &at) in order.iter().enumerate().rev() {
            least = least.min(p_values[at] * n as f64 / (rank + 1) as f64);
            result[at] = least;
        }
    } else {
        let mut most = 0.0_f64;
        for (rank, &at) in order.iter().enumerate() {
            most = most.max(p_values[at] * (n - rank) as f64).min(1.0);
            result[at] = most;
        }
    }
    result
}

/// Runs of neighbours in `order` of which no two are told apart, none within another. An entry
/// can be in several, as letters in a table of means.
pub fn groups(order: &[usize], told_apart: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut reached = 0;
    for from in 0..order.len() {
        let mut to = from + 1;
        while to < order.len() && (from..to).all(|x| !told_apart(order[x], order[to])) {
            to += 1;
        }
        if to > reached {
            groups.push(order[from..to].to_vec());
            reached = to;
        }
    }
    groups
}

/// The smallest true difference found in 80 % of studies with a two-sided test at 0.05, from the
/// standard error of the difference.
pub fn minimum_detectable_effect(standard_error: f64) -> f64 {
    2.8 * standard_error
}

/// Unbiased estimate of the chance that at least one of `k` samples is right when `right` of
/// `samples` were (Chen et al. 2021): 1 - C(n-c, k) / C(n, k).
///
/// # Errors
/// `right` above `samples`, or `k` outside 1..=samples.
pub fn pass_at_k(samples: u64, right: u64, k: u64) -> Result<f64, StatsError> {
    if right > samples {
        return Err(StatsError::MoreSuccessesThanTrials {
            successes: right,
            trials: samples,
        });
    }
    if k == 0 || k > samples {
        return Err(StatsError::OutOfRange {
            name: "k",
            value: k as f64,
            expected: "at least 1 and at most the number of samples",
        });
    }
    if samples - right < k {
        return Ok(1.0);
    }
    let all_wrong: f64 = (0..k)
        .map(|i| (samples - right - i) as f64 / (samples - i) as f64)
        .product();
    Ok(1.0 - all_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::mix::mix64;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "{got}, expected {expected}");
    }

    #[test]
    fn mcnemar_equals_the_reference() {
        // scipy 1.17.1: binomtest(min, n, 0.5).pvalue.
        for (a, b, p) in MCNEMAR {
            close(mcnemar_exact(a, b), p);
            close(mcnemar_exact(b, a), p);
        }
    }

    /// `fixtures/tables/stats-reference.json` is written by tools/make-stats-reference, which
    /// computes with fractions and by enumeration, and shares no code and no formula with this.
    #[test]
    fn tests_and_corrections_equal_exact_arithmetic() {
        let text = include_str!("../../fixtures/tables/stats-reference.json");
        let reference: serde_json::Value = serde_json::from_str(text).unwrap();
        let number = |v: &serde_json::Value| v.as_f64().unwrap();
        let list = |v: &serde_json::Value| {
            let list = v.as_array().unwrap().iter();
            list.map(|v| v.as_f64().unwrap()).collect::<Vec<f64>>()
        };
        let rows = |name: &str| {
            let rows = reference[name].as_array().unwrap();
            assert!(rows.len() >= 4, "{name}");
            rows.clone()
        };
        for row in rows("mcnemar") {
            let count = |key: &str| row[key].as_u64().unwrap();
            let (a, b) = (count("only_a"), count("only_b"));
            close(mcnemar_exact(a, b), number(&row["exact"]));
            close(mcnemar_mid_p(a, b), number(&row["mid_p"]));
            close(mcnemar_mid_p(b, a), number(&row["mid_p"]));
        }
        for row in rows("normal") {
            close(normal_p(number(&row["z"])), number(&row["p"]));
        }
        for row in rows("corrections") {
            let p = list(&row["p"]);
            for (got, expected) in holm(&p).into_iter().zip(list(&row["holm"])) {
                close(got, expected);
            }
            let found = benjamini_hochberg(&p);
            for (got, expected) in found.into_iter().zip(list(&row["benjamini_hochberg"])) {
                close(got, expected);
            }
        }
        for row in rows("sign_flip") {
            // Quarters occur; the test does not depend on the unit.
            let sums = list(&row["sums"]).into_iter().map(|sum| (4.0 * sum) as i32);
            let got = sign_flip(&sums.collect::<Vec<i32>>()).unwrap();
            close(got, number(&row["p"]));
        }
        for row in rows("clustered") {
            let names = row["clusters"].as_array().unwrap().iter();
            let names: Vec<Option<u64>> = names.map(serde_json::Value::as_u64).collect();
            let (a, b) = (list(&row["a"]), list(&row["b"]));
            let of = |got: crate::stats::cluster::ClusteredMean, key: &str| {
                let expected = &row[key];
                close(got.mean, number(&expected["mean"]));
                close(
                    got.standard_error.unwrap().powi(2),
                    number(&expected["variance"]),
                );
                close(
                    got.design_effect.unwrap(),
                    number(&expected["design_effect"]),
                );
            };
            of(
                crate::stats::cluster::clustered_mean(&a, &names, 0.95).unwrap(),
                "mean",
            );
            of(
                crate::stats::cluster::paired_difference(&a, &b, &names, 0.95).unwrap(),
                "difference",
            );
        }
    }

    #[test]
    fn groups_are_the_longest_runs_without_a_difference() {
        let apart = |pairs: &'static [(usize, usize)]| {
            move |a: usize, b: usize| pairs.contains(&(a, b)) || pairs.contains(&(b, a))
        };
        let order = [2, 0, 1, 3];
        assert_eq!(groups(&order, apart(&[])), [vec![2, 0, 1, 3]]);
        assert_eq!(
            groups(&order, apart(&[(2, 3), (2, 1)])),
            [vec![2, 0], vec![0, 1, 3]]
        );
        assert_eq!(groups(&[0, 1], apart(&[(0, 1)])), [vec![0], vec![1]]);
        assert!(groups(&[], apart(&[])).is_empty());
    }

    const MCNEMAR: [(u64, u64, f64); 5] = [
        (0, 0, 1.0),
        (0, 1, 1.0),
        (5, 0, 0.0625),
        (12, 3, 0.03515625),
        (400, 340, 0.030022787407877474),
    ];

    #[test]
    fn corrections_equal_the_reference() {
        // statsmodels 0.15.0: multipletests(method="holm") and (method="fdr_bh").
        let p = [0.01, 0.04, 0.03, 0.005, 0.5, 0.04];
        for (got, expected) in holm(&p).into_iter().zip(HOLM) {
            close(got, expected);
        }
        for (got, expected) in benjamini_hochberg(&p).into_iter().zip(BH) {
            close(got, expected);
        }
        assert!(holm(&[]).is_empty());
    }
    const HOLM: [f64; 6] = [0.05, 0.12, 0.12, 0.03, 0.5, 0.12];
    const BH: [f64; 6] = [
        0.030000000000000002,
        0.048,
        0.048,
        0.030000000000000002,
        0.5,
        0.048,
    ];

    proptest::proptest! {
        /// The oracle counts all patterns one by one.
        #[test]
        fn sign_flips_agree_with_all_patterns_counted(
            sums in proptest::collection::vec(proptest::prop_oneof![-1..=1, -9..=9], 1..13)
        ) {
            let total = |signs: u32| -> i32 {
                let flipped = sums.iter().enumerate();
                flipped.map(|(i, sum)| if signs >> i & 1 == 0 { *sum } else { -sum }).sum()
            };
            let patterns = 1_u32 << sums.len();
            let extreme = (0..patterns).filter(|p| total(*p).abs() >= total(0).abs()).count();
            let exact = extreme as f64 / f64::from(patterns);
            proptest::prop_assert!((sign_flip(&sums).unwrap() - exact).abs() < 1e-12);
        }
    }

    /// As many clusters as real tables have, where the patterns can only be drawn.
    #[test]
    fn sign_flips_of_many_clusters_agree_with_drawn_patterns() {
        for (clusters, spread, lean) in [(300, 2, 20), (588, 1, 30), (40, 7, 25), (70, 3, 0)] {
            let draw = |i: i32| mix64(5, &[i as u64, clusters as u64]);
            let sum = |i: i32| (draw(i) % (2 * spread + 1)) as i32 - spread as i32;
            let sums: Vec<i32> = (0..clusters)
                .map(|i| sum(i) + i32::from(i < lean))
                .collect();
            let observed = sums.iter().sum::<i32>().abs();
            const DRAWS: u64 = 20_000;
            let far = |pattern: &u64| {
                let sign = |i: usize| 1 - 2 * (mix64(9, &[*pattern, i as u64]) & 1) as i32;
                let total: i32 = sums.iter().enumerate().map(|(i, sum)| sign(i) * sum).sum();
                total.abs() >= observed
            };
            let drawn = (0..DRAWS).filter(far).count() as f64 / DRAWS as f64;
            let got = sign_flip(&sums).unwrap();
            let error = (got * (1.0 - got) / DRAWS as f64).sqrt();
            assert!((got - drawn).abs() < 4.0 * error, "{got}, drawn {drawn}");
        }
    }

    #[test]
    fn sign_flips_at_the_ends() {
        assert_eq!(sign_flip(&[0; 70]).unwrap(), 1.0);
        assert_eq!(sign_flip(&[1; 20]).unwrap(), 0.5_f64.powi(19));
        // 2 in 2^4000 is no number that a double can hold.
        assert_eq!(sign_flip(&[1; 4000]).unwrap(), NEGLIGIBLE);
        assert!(sign_flip(&[]).is_err());
    }

    #[test]
    fn pass_at_k_is_the_mean_over_all_draws() {
        // Of 5 samples 2 are right; of the 10 pairs 3 hold none of them.
        close(pass_at_k(5, 2, 2).unwrap(), 0.7);
        close(pass_at_k(5, 2, 1).unwrap(), 0.4);
        close(pass_at_k(5, 4, 2).unwrap(), 1.0);
        close(pass_at_k(200, 0, 100).unwrap(), 0.0);
        close(pass_at_k(3, 3, 3).unwrap(), 1.0);
        assert!(
            pass_at_k(3, 4, 1).is_err()
                && pass_at_k(3, 1, 0).is_err()
                && pass_at_k(3, 1, 4).is_err()
        );
    }

    #[test]
    fn the_detectable_effect_is_both_quantiles_together() {
        let z = crate::stats::interval::normal_quantile;
        assert!((minimum_detectable_effect(1.0) - (z(0.975) + z(0.8))).abs() < 0.01);
    }
}
