//! Tests and corrections beside the intervals: the normal test, McNemar, sign flips, Holm,
//! Benjamini-Hochberg, groups that cannot be told apart, power, and pass@k.

use super::mix::mix64;
use super::{StatsError, check_finite};
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

/// Two-sided sign-flip permutation test of the sums of paired differences, one sum per cluster:
/// the share of random sign patterns, the observed one included, whose total is at least as far
/// from zero. Deterministic for a seed.
///
/// # Errors
/// No clusters, or a sum that is not finite.
pub fn sign_flip(cluster_sums: &[f64], permutations: u32, seed: u64) -> Result<f64, StatsError> {
    if cluster_sums.is_empty() {
        return Err(StatsError::Empty { what: "clusters" });
    }
    check_finite(cluster_sums)?;
    let observed = cluster_sums.iter().sum::<f64>().abs();
    // Patterns that give the same total in exact arithmetic must count as equal.
    let slack = 1e-12 * cluster_sums.iter().map(|sum| sum.abs()).sum::<f64>();
    let mut extreme = 1_u64;
    for permutation in 0..permutations {
        let mut total = 0.0;
        for (block, sums) in cluster_sums.chunks(64).enumerate() {
            let signs = mix64(seed, &[u64::from(permutation), block as u64]);
            for (bit, sum) in sums.iter().enumerate() {
                total += if signs >> bit & 1 == 0 { *sum } else { -sum };
            }
        }
        extreme += u64::from(total.abs() >= observed - slack);
    }
    Ok(extreme as f64 / (f64::from(permutations) + 1.0))
}

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
            let got = sign_flip(&list(&row["sums"]), 20_000, 7).unwrap();
            let exact = number(&row["p"]);
            // Five standard errors of 20,000 draws.
            let slack = 5.0 * (exact * (1.0 - exact) / 20_000.0).sqrt() + 1e-4;
            assert!((got - exact).abs() < slack, "{got}, exactly {exact}");
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

    #[test]
    fn sign_flips_agree_with_all_patterns_counted() {
        let sums = [3.0, -1.0, 2.0, 2.5, 0.5, -0.25, 4.0, 1.0];
        let total: f64 = sums.iter().sum();
        let extreme = (0..256_u32)
            .filter(|signs| {
                let flipped: f64 = (0..8)
                    .map(|i| {
                        if signs >> i & 1 == 0 {
                            sums[i]
                        } else {
                            -sums[i]
                        }
                    })
                    .sum();
                flipped.abs() >= total.abs() - 1e-12
            })
            .count();
        let exact = extreme as f64 / 256.0;
        let got = sign_flip(&sums, 40_000, 1).unwrap();
        assert!((got - exact).abs() < 0.005, "{got}, exactly {exact}");
        assert_eq!(got, sign_flip(&sums, 40_000, 1).unwrap());
        assert_eq!(sign_flip(&[0.0; 70], 99, 1).unwrap(), 1.0);
        assert!(sign_flip(&[], 99, 1).is_err() && sign_flip(&[f64::NAN], 99, 1).is_err());
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
