//! Intervals for a rate (Wilson for display, Clopper-Pearson for gates) and for a mean (Student's
//! t). Rates are proportions in [0, 1], not percentages.
//!
//! Nothing here decides what an item is: for items that come in clusters give the design effect,
//! the variance of the mean divided by what it would be for independent items.

use super::{StatsError, check_confidence};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::checked_beta_reg;

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl Interval {
    /// Upper minus lower end.
    pub fn width(&self) -> f64 {
        self.hi - self.lo
    }

    /// Whether a value lies in the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

/// Nothing is known of a rate without trials.
const WHOLE: Interval = Interval { lo: 0.0, hi: 1.0 };

/// Wilson's score interval for a rate. [0, 1] for no trials.
pub fn wilson(successes: u64, trials: u64, confidence: f64) -> Result<Interval, StatsError> {
    wilson_clustered(successes, trials, 1.0, confidence)
}

/// Wilson's score interval with `trials / design_effect` trials at the same rate.
///
/// The ends are exactly 0 without successes and exactly 1 without failures.
pub fn wilson_clustered(
    successes: u64,
    trials: u64,
    design_effect: f64,
    confidence: f64,
) -> Result<Interval, StatsError> {
    let Some(n) = effective_trials(successes, trials, design_effect, confidence)? else {
        return Ok(WHOLE);
    };
    let p = successes as f64 / trials as f64;
    let z = normal_quantile(0.5 + confidence / 2.0);
    let shrink = 1.0 + z * z / n;
    let centre = (p + z * z / (2.0 * n)) / shrink;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / shrink;
    Ok(Interval {
        lo: if successes == 0 {
            0.0
        } else {
            (centre - half).max(0.0)
        },
        hi: if successes == trials {
            1.0
        } else {
            (centre + half).min(1.0)
        },
    })
}

/// Clopper and Pearson's interval for a rate, which covers at least as often as it says.
/// [0, 1] for no trials.
pub fn clopper_pearson(
    successes: u64,
    trials: u64,
    confidence: f64,
) -> Result<Interval, StatsError> {
    clopper_pearson_clustered(successes, trials, 1.0, confidence)
}

/// Clopper and Pearson's interval with successes and trials both divided by the design effect
/// (Korn and Graubard 1998, without their correction for few clusters).
pub fn clopper_pearson_clustered(
    successes: u64,
    trials: u64,
    design_effect: f64,
    confidence: f64,
) -> Result<Interval, StatsError> {
    let Some(n) = effective_trials(successes, trials, design_effect, confidence)? else {
        return Ok(WHOLE);
    };
    let tail = (1.0 - confidence) / 2.0;
    let x = successes as f64 * (n / trials as f64);
    let failures = (trials - successes) as f64 * (n / trials as f64);
    Ok(Interval {
        lo: if successes == 0 {
            0.0
        } else {
            beta_quantile(x, failures + 1.0, tail)
        },
        hi: if successes == trials {
            1.0
        } else {
            beta_quantile(x + 1.0, failures, 1.0 - tail)
        },
    })
}

/// Student's t interval of a mean from its standard error. With a standard error of zero both
/// ends are the mean.
pub fn student_t(
    mean: f64,
    standard_error: f64,
    degrees_of_freedom: f64,
    confidence: f64,
) -> Result<Interval, StatsError> {
    let half = t_quantile(degrees_of_freedom, confidence)? * standard_error;
    if !(standard_error >= 0.0 && standard_error.is_finite()) {
        return Err(StatsError::OutOfRange {
            name: "standard error",
            value: standard_error,
            expected: "finite and not negative",
        });
    }
    if !mean.is_finite() {
        return Err(StatsError::NotFinite {
            index: 0,
            value: mean,
        });
    }
    Ok(Interval {
        lo: mean - half,
        hi: mean + half,
    })
}

/// The two-sided critical value of Student's t: 12.7 for one degree of freedom at 0.95.
pub fn t_quantile(degrees_of_freedom: f64, confidence: f64) -> Result<f64, StatsError> {
    check_confidence(confidence)?;
    let bad = StatsError::OutOfRange {
        name: "degrees of freedom",
        value: degrees_of_freedom,
        expected: "finite and above 0",
    };
    if !degrees_of_freedom.is_finite() {
        return Err(bad);
    }
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom).map_err(|_| bad)?;
    let upper = 0.5 + confidence / 2.0;
    Ok(bisect(0.0, 1e12, |x| t.cdf(x) < upper))
}

/// The quantile of the standard normal distribution, `p` in (0, 1).
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// `None` without trials.
fn effective_trials(
    successes: u64,
    trials: u64,
    design_effect: f64,
    confidence: f64,
) -> Result<Option<f64>, StatsError> {
    check_confidence(confidence)?;
    if successes > trials {
        return Err(StatsError::MoreSuccessesThanTrials { successes, trials });
    }
    if !(design_effect > 0.0 && design_effect.is_finite()) {
        return Err(StatsError::OutOfRange {
            name: "design effect",
            value: design_effect,
            expected: "finite and above 0",
        });
    }
    Ok((trials > 0).then(|| trials as f64 / design_effect))
}

fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    bisect(0.0, 1.0, |x| {
        checked_beta_reg(a, b, x).is_ok_and(|below| below < p)
    })
}

/// Where `below` turns false in `[lo, hi]`, to the last bit that the cumulative distribution
/// can tell apart.
fn bisect(mut lo: f64, mut hi: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = lo + (hi - lo) / 2.0;
        if middle <= lo || middle >= hi {
            break;
        }
        if below(middle) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    hi
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // statsmodels 0.15.0 (proportion_confint) and scipy 1.17.1.
    /// Successes, trials, confidence, Wilson's ends, Clopper and Pearson's ends.
    const RATES: [(u64, u64, f64, f64, f64, f64, f64); 11] = [
        (
            0,
            10,
            0.95,
            0.0,
            0.2775327998628892,
            0.0,
            0.30849710781876294,
        ),
        (
            10,
            10,
            0.95,
            0.7224672001371107,
            1.0,
            0.6915028921812371,
            1.0,
        ),
        (
            1,
            10,
            0.95,
            0.017876213095072896,
            0.4041500267952385,
            0.0025285785444625728,
            0.44501611702819543,
        ),
        (
            5,
            10,
            0.9,
            0.26927182113826714,
            0.7307281788617328,
            0.22244110100812892,
            0.777558898991871,
        ),
        (0, 1, 0.95, 0.0, 0.7934506856227626, 0.0, 0.975),
        (
            1,
            1,
            0.99,
            0.13097754328018596,
            1.0,
            0.0050000000000000044,
            1.0,
        ),
        (
            3,
            1000,
            0.95,
            0.0010207838811386186,
            0.008783014053503173,
            0.0006190999316499173,
            0.008742023238657654,
        ),
        (
            9297,
            10534,
            0.95,
            0.8762830756228481,
            0.8885794468867672,
            0.8762695457124314,
            0.8886595558763234,
        ),
        (
            10534,
            10534,
            0.95,
            0.9996354605603334,
            1.0,
            0.9996498733976716,
            1.0,
        ),
        (
            1,
            100000,
            0.99,
            1.1740557298708449e-06,
            8.516918149582939e-05,
            5.0124957369145935e-08,
            7.429890621410854e-05,
        ),
        (
            499999,
            1000000,
            0.95,
            0.4990190198938482,
            0.5009789801138348,
            0.49901851919820994,
            0.5009794808075826,
        ),
    ];
    /// Successes, trials, design effect, then as above at 0.95.
    const CLUSTERED_RATES: [(u64, u64, f64, f64, f64, f64, f64); 5] = [
        (
            80,
            100,
            2.5,
            0.652426936536005,
            0.895000102745623,
            0.6435219813207653,
            0.9094775906000093,
        ),
        (0, 60, 4.0, 0.0, 0.20388330103584867, 0.0, 0.218019360910534),
        (
            7321,
            10534,
            17.25,
            0.6573458092598262,
            0.7301916660947286,
            0.6567722093267667,
            0.731305004129688,
        ),
        (
            60,
            60,
            3.0,
            0.8388748419471804,
            1.0,
            0.8315665290169146,
            1.0,
        ),
        (
            1,
            40,
            8.0,
            0.0007650510663154142,
            0.46199329047770077,
            1.733723795112224e-14,
            0.5508466730294811,
        ),
    ];
    /// Degrees of freedom, confidence, two-sided critical value.
    const T_VALUES: [(f64, f64, f64); 8] = [
        (1.0, 0.95, 12.706204736174694),
        (2.0, 0.95, 4.302652729749462),
        (4.0, 0.95, 2.7764451051977934),
        (39.0, 0.95, 2.022690920036761),
        (345.0, 0.95, 1.9668639088811686),
        (10000.0, 0.95, 1.960201239890626),
        (7.0, 0.9, 1.8945786050900062),
        (3.0, 0.999, 12.923978636687961),
    ];

    fn close(got: f64, expected: f64, what: &str) {
        let error = (got - expected).abs();
        assert!(
            error <= 1e-9 * expected.abs().max(1e-3),
            "{what}: {got}, reference {expected}"
        );
    }

    #[test]
    fn rates_equal_the_reference() {
        for (x, n, confidence, wilson_lo, wilson_hi, exact_lo, exact_hi) in RATES {
            let what = format!("{x} of {n} at {confidence}");
            let interval = wilson(x, n, confidence).unwrap();
            close(interval.lo, wilson_lo, &what);
            close(interval.hi, wilson_hi, &what);
            let interval = clopper_pearson(x, n, confidence).unwrap();
            close(interval.lo, exact_lo, &what);
            close(interval.hi, exact_hi, &what);
        }
    }

    #[test]
    fn rates_with_a_design_effect_equal_the_reference() {
        for (x, n, effect, wilson_lo, wilson_hi, exact_lo, exact_hi) in CLUSTERED_RATES {
            let what = format!("{x} of {n} with design effect {effect}");
            let interval = wilson_clustered(x, n, effect, 0.95).unwrap();
            close(interval.lo, wilson_lo, &what);
            close(interval.hi, wilson_hi, &what);
            let interval = clopper_pearson_clustered(x, n, effect, 0.95).unwrap();
            close(interval.lo, exact_lo, &what);
            close(interval.hi, exact_hi, &what);
        }
    }

    #[test]
    fn critical_values_of_t_equal_the_reference() {
        for (freedom, confidence, value) in T_VALUES {
            close(
                t_quantile(freedom, confidence).unwrap(),
                value,
                &format!("t with {freedom}"),
            );
        }
        let interval = student_t(10.0, 2.0, 4.0, 0.95).unwrap();
        close(
            interval.hi,
            10.0 + 2.0 * t_quantile(4.0, 0.95).unwrap(),
            "upper end",
        );
        assert_eq!(
            student_t(3.0, 0.0, 5.0, 0.95).unwrap(),
            Interval { lo: 3.0, hi: 3.0 }
        );
    }

    #[test]
    fn no_trials_say_nothing_and_wrong_input_is_an_error() {
        assert_eq!(wilson(0, 0, 0.95).unwrap(), WHOLE);
        assert_eq!(clopper_pearson(0, 0, 0.95).unwrap(), WHOLE);
        assert_eq!(
            wilson(3, 2, 0.95),
            Err(StatsError::MoreSuccessesThanTrials {
                successes: 3,
                trials: 2
            })
        );
        for confidence in [0.0, 1.0, 95.0, f64::NAN] {
            assert!(wilson(1, 2, confidence).is_err());
            assert!(clopper_pearson(1, 2, confidence).is_err());
            assert!(t_quantile(3.0, confidence).is_err());
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(wilson_clustered(1, 2, bad, 0.95).is_err());
            assert!(t_quantile(bad, 0.95).is_err());
        }
        assert!(student_t(f64::NAN, 1.0, 3.0, 0.95).is_err());
        assert!(student_t(1.0, -1.0, 3.0, 0.95).is_err());
    }

    proptest! {
        #[test]
        fn intervals_hold_the_rate_and_mirror(
            n in 1_u64..20_000, share in 0.0..=1.0_f64, effect in 0.5..20.0_f64,
        ) {
            let x = (n as f64 * share).round() as u64;
            let p = x as f64 / n as f64;
            for rule in [wilson_clustered, clopper_pearson_clustered] {
                let interval = rule(x, n, effect, 0.95).unwrap();
                let mirrored = rule(n - x, n, effect, 0.95).unwrap();
                prop_assert!(0.0 <= interval.lo && interval.lo <= p && p <= interval.hi && interval.hi <= 1.0);
                prop_assert!((interval.lo - (1.0 - mirrored.hi)).abs() < 1e-9);
                let wider = rule(x, n, effect * 2.0, 0.95).unwrap();
                prop_assert!(wider.width() >= interval.width() - 1e-12);
            }
        }
    }
}
