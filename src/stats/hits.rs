//! How surprising hits are when each probe can also hit by luck: exact tails of weighted and of
//! overdispersed trials, and what is estimated from controls.
//!
//! A trial hits with a small chance that is known from controls. The question is always the same:
//! how likely are at least as many hits by luck alone? [`weighted_tail`] is exact for trials of
//! different chances and weights, [`binomial_tail`] for equal ones, [`beta_tail`] is an
//! approximation for weights that are no whole numbers, and [`beta_binomial_tail`] is for trials
//! that come in groups with chances of their own.

use statrs::function::beta::beta_reg;
use statrs::function::factorial::ln_binomial;

use super::StatsError;

/// The largest weight of a [`Trial`].
pub const MOST_WEIGHT: u8 = 16;
/// How much weight one step of a [`Trial`]'s weight stands for.
pub const STEP: f64 = 0.25;

/// Something that hits or not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// What a hit counts, in steps of [`STEP`]: from 1 to [`MOST_WEIGHT`].
    pub weight: u8,
    /// The chance of a hit by luck.
    pub chance: f64,
}

/// The chance of a hit by luck, from `hits` of `trials` of controls: (k + 1) / (n + 2), so that it
/// is one half where nothing is known, and never zero.
pub fn chance(hits: u64, trials: u64) -> f64 {
    (hits as f64 + 1.0) / (trials as f64 + 2.0)
}

/// P(X >= `hits`) for X from the binomial distribution: the sum over i from `hits` to `trials` of
/// C(n,i) p^i (1-p)^(n-i).
///
/// # Errors
/// More hits than trials, or a chance that is none.
pub fn binomial_tail(hits: u64, trials: u64, chance: f64) -> Result<f64, StatsError> {
    check(hits, trials, chance)?;
    if hits == 0 || chance == 1.0 {
        return Ok(1.0);
    }
    if chance == 0.0 {
        return Ok(0.0);
    }
    let (yes, no) = (chance.ln(), (-chance).ln_1p());
    let term = |i: u64| (ln_binomial(trials, i) + i as f64 * yes + (trials - i) as f64 * no).exp();
    // The smallest first, which lie at the end where the tail is one.
    Ok((hits..=trials).rev().map(term).sum::<f64>().min(1.0))
}

/// The binomial tail for counts that are no whole numbers, by the regularised incomplete beta
/// function I_p(k, n - k + 1). 1 for no hits.
///
/// # Errors
/// More hits than trials, a negative number, or a chance that is none.
pub fn beta_tail(hits: f64, trials: f64, chance: f64) -> Result<f64, StatsError> {
    check_chance(chance)?;
    if !(hits >= 0.0 && hits <= trials * (1.0 + 1e-12)) {
        return Err(StatsError::OutOfRange {
            name: "hits",
            value: hits,
            expected: "at least 0 and at most the number of trials",
        });
    }
    if hits == 0.0 || chance == 1.0 {
        return Ok(1.0);
    }
    if chance == 0.0 {
        return Ok(0.0);
    }
    Ok(beta_reg(hits, (trials - hits).max(0.0) + 1.0, chance))
}

/// P(T >= `score`) for T the sum of the weights of the trials that hit, each by itself: exact, by
/// convolution. The work is the number of trials times the sum of weights.
///
/// # Errors
/// A weight outside 1..=[`MOST_WEIGHT`], or a chance that is none.
pub fn weighted_tail(trials: &[Trial], score: u64) -> Result<f64, StatsError> {
    let mut all = 0_usize;
    for trial in trials {
        check_chance(trial.chance)?;
        if !(1..=MOST_WEIGHT).contains(&trial.weight) {
            return Err(StatsError::OutOfRange {
                name: "weight",
                value: trial.weight.into(),
                expected: "from 1 to 16",
            });
        }
        all += usize::from(trial.weight);
    }
    if score == 0 {
        return Ok(1.0);
    }
    let Some(score) = usize::try_from(score).ok().filter(|score| *score <= all) else {
        return Ok(0.0);
    };
    // Sums of positive numbers only: small tails are as exact as large ones.
    let mut chances = vec![0.0; all + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for trial in trials {
        let weight = usize::from(trial.weight);
        for at in (0..=reached).rev() {
            let here = chances[at];
            chances[at + weight] += here * trial.chance;
            chances[at] = here * (1.0 - trial.chance);
        }
        reached += weight;
    }
    Ok(chances[score..].iter().rev().sum::<f64>().min(1.0))
}

/// Weights over their mean, clipped to what [`quantised`] can tell apart: [`STEP`] to 4. All 1
/// when they have no mean to be divided by.
pub fn normalised(weights: &[f64]) -> Vec<f64> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let most = STEP * f64::from(MOST_WEIGHT);
    let one = |weight: &f64| match mean.is_finite() && mean > 0.0 {
        true => (weight / mean).clamp(STEP, most),
        false => 1.0,
    };
    weights.iter().map(one).collect()
}

/// A weight in steps of [`STEP`], at least one of them and at most [`MOST_WEIGHT`].
pub fn quantised(weight: f64) -> u8 {
    (weight / STEP).round().clamp(1.0, MOST_WEIGHT.into()) as u8
}

/// How many equal weights would be as many as these: (sum w)^2 / sum w^2; 0 for none.
pub fn effective_size(weights: &[f64]) -> f64 {
    let sum = weights.iter().sum::<f64>();
    let squares = weights.iter().map(|w| w * w).sum::<f64>();
    match squares > 0.0 {
        true => sum * sum / squares,
        false => 0.0,
    }
}

/// P(X >= `hits`) for X from the beta-binomial distribution of mean `chance` and correlation `rho`
/// within a group: alpha = chance (1 - rho) / rho, beta = (1 - chance) (1 - rho) / rho. With
/// `rho` 0 it is the binomial one.
///
/// # Errors
/// More hits than trials, a chance that is none, or `rho` outside 0..1.
pub fn beta_binomial_tail(
    hits: u64,
    trials: u64,
    chance: f64,
    rho: f64,
) -> Result<f64, StatsError> {
    check(hits, trials, chance)?;
    if !(0.0..1.0).contains(&rho) {
        return Err(StatsError::OutOfRange {
            name: "rho",
            value: rho,
            expected: "at least 0 and less than 1",
        });
    }
    if hits == 0 || chance == 1.0 {
        return Ok(1.0);
    }
    if chance == 0.0 {
        return Ok(0.0);
    }
    let term = |i: u64| (ln_binomial(trials, i) + ln_sequence(i, trials, chance, rho)).exp();
    Ok((hits..=trials).rev().map(term).sum::<f64>().min(1.0))
}

/// How much more groups differ in their share of hits than chance allows: the `rho` of the
/// beta-binomial distribution under which the groups, each (hits, trials), are likeliest, with the
/// mean at their common share. 0 when there are no hits, or nothing but hits.
///
/// # Errors
/// More hits than trials.
pub fn overdispersion(groups: &[(u64, u64)]) -> Result<f64, StatsError> {
    let (mut hits, mut trials) = (0, 0);
    for &(k, n) in groups {
        check(k, n, 0.5)?;
        hits += k;
        trials += n;
    }
    if hits == 0 || hits == trials {
        return Ok(0.0);
    }
    let mean = hits as f64 / trials as f64;
    let likelihood = |rho: f64| -> f64 {
        let each = groups.iter().map(|&(k, n)| ln_sequence(k, n, mean, rho));
        each.sum()
    };
    // A grid first: far from its top the likelihood need not rise towards it.
    let grid: Vec<f64> = std::iter::once(0.0)
        .chain((0..=80).map(|i| 10_f64.powf(-4.0 + f64::from(i) * 0.05) * 0.99))
        .collect();
    let mut best = 0;
    for at in 1..grid.len() {
        if likelihood(grid[at]) > likelihood(grid[best]) {
            best = at;
        }
    }
    let (mut low, mut high) = (
        grid[best.saturating_sub(1)],
        grid[(best + 1).min(grid.len() - 1)],
    );
    let golden = (5_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let span = (high - low) * golden;
        match likelihood(high - span) >= likelihood(low + span) {
            true => high = low + span,
            false => low += high - low - span,
        }
    }
    let found = f64::midpoint(low, high);
    // By more than rounding.
    Ok(match likelihood(found) > likelihood(0.0) + 1e-9 {
        true => found,
        false => 0.0,
    })
}

/// The logarithm of the chance of one sequence of `trials` with `hits` hits in it, under the
/// beta-binomial distribution. Written with `rho` multiplied out, so that 0 is no special case.
fn ln_sequence(hits: u64, trials: u64, mean: f64, rho: f64) -> f64 {
    let rising = |from: f64, steps: u64| -> f64 {
        let steps = (0..steps).map(|j| (from * (1.0 - rho) + j as f64 * rho).ln());
        steps.sum()
    };
    rising(mean, hits) + rising(1.0 - mean, trials - hits) - rising(1.0, trials)
}

fn check(hits: u64, trials: u64, chance: f64) -> Result<(), StatsError> {
    if hits > trials {
        return Err(StatsError::MoreSuccessesThanTrials {
            successes: hits,
            trials,
        });
    }
    check_chance(chance)
}

fn check_chance(chance: f64) -> Result<(), StatsError> {
    match (0.0..=1.0).contains(&chance) {
        true => Ok(()),
        false => Err(StatsError::OutOfRange {
            name: "chance",
            value: chance,
            expected: "at least 0 and at most 1",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(got: f64, expected: f64) {
        let error = (got - expected).abs();
        assert!(
            error <= 1e-9 * expected.abs() + 1e-300,
            "{got}, expected {expected}"
        );
    }

    /// What the paper writes down, in the plainest way.
    fn formula(k: u64, n: u64, p: f64) -> f64 {
        let choose = |n: u64, i: u64| -> f64 {
            (0..i).fold(1.0, |c, j| c * (n - j) as f64 / (j + 1) as f64)
        };
        (k..=n)
            .map(|i| choose(n, i) * p.powi(i as i32) * (1.0 - p).powi((n - i) as i32))
            .sum()
    }

    /// Every set of trials that can hit, one by one.
    fn enumerated(trials: &[Trial], score: u64) -> f64 {
        let mut all = 0.0;
        for set in 0_u32..1 << trials.len() {
            let (mut chance, mut sum) = (1.0, 0);
            for (i, trial) in trials.iter().enumerate() {
                if set >> i & 1 == 1 {
                    chance *= trial.chance;
                    sum += u64::from(trial.weight);
                } else {
                    chance *= 1.0 - trial.chance;
                }
            }
            if sum >= score {
                all += chance;
            }
        }
        all
    }

    #[test]
    fn with_equal_weights_and_chances_the_exact_tail_is_the_papers_formula() {
        for n in [1, 7, 20, 60] {
            for p in [0.001, 0.02, 0.3, 0.95] {
                for k in 0..=n {
                    let expected = formula(k, n, p);
                    for weight in [1, 4, 16] {
                        let trials = vec![Trial { weight, chance: p }; n as usize];
                        close(
                            weighted_tail(&trials, k * u64::from(weight)).unwrap(),
                            expected,
                        );
                    }
                    close(binomial_tail(k, n, p).unwrap(), expected);
                    close(beta_tail(k as f64, n as f64, p).unwrap(), expected);
                    close(beta_binomial_tail(k, n, p, 0.0).unwrap(), expected);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_exact_tail_is_what_counting_every_outcome_gives(
            trials in proptest::collection::vec((1..=16_u8, 0.0..=1.0_f64), 0..11),
            score in 0..80_u64,
        ) {
            let trials: Vec<Trial> = trials.into_iter().map(|(weight, chance)| Trial { weight, chance }).collect();
            let got = weighted_tail(&trials, score).unwrap();
            prop_assert!((got - enumerated(&trials, score)).abs() < 1e-12);
        }

        #[test]
        fn more_hits_are_never_likelier_and_a_higher_chance_is_never_less_so(
            weights in proptest::collection::vec(1..=16_u8, 1..40),
            chance in 0.0..0.5_f64,
            score in 0..400_u64,
        ) {
            let tail = |chance: f64, score| {
                let trials: Vec<Trial> = weights.iter().map(|&weight| Trial { weight, chance }).collect();
                weighted_tail(&trials, score).unwrap()
            };
            prop_assert!(tail(chance, score + 1) <= tail(chance, score) + 1e-12);
            prop_assert!(tail(chance + 0.1, score) >= tail(chance, score) - 1e-12);
        }

        #[test]
        fn the_chances_of_all_counts_of_a_beta_binomial_sum_to_one(
            n in 1..40_u64, mean in 0.01..0.99_f64, rho in 0.0..0.9_f64,
        ) {
            let tail = |k| beta_binomial_tail(k, n, mean, rho).unwrap();
            prop_assert!((tail(0) - 1.0).abs() < 1e-12);
            let mut expectation = 0.0;
            for k in 1..=n {
                prop_assert!(tail(k) <= tail(k - 1) + 1e-9);
                expectation += tail(k);
            }
            prop_assert!((expectation - n as f64 * mean).abs() < 1e-6);
        }
    }

    #[test]
    fn tails_equal_the_reference() {
        // scipy 1.17.1: binom.sf(k - 1, n, p), special.betainc(k, n - k + 1, p), betabinom.sf(k - 1, n, a, b).
        for (k, n, p, expected) in BINOMIAL {
            close(binomial_tail(k, n, p).unwrap(), expected);
        }
        for (k, n, p, expected) in BETA {
            close(beta_tail(k, n, p).unwrap(), expected);
        }
        for (k, n, p, rho, expected) in BETA_BINOMIAL {
            close(beta_binomial_tail(k, n, p, rho).unwrap(), expected);
        }
    }

    const BINOMIAL: [(u64, u64, f64, f64); 5] = [
        (1, 60, 0.02, 0.7024468573078793),
        (5, 60, 0.02, 0.007024641409398259),
        (12, 60, 0.004, 1.9659683736030124e-17),
        (30, 44, 0.3, 1.9797895514783245e-07),
        (60, 60, 0.01, 1.0000000000000012e-120),
    ];
    const BETA: [(f64, f64, f64, f64); 3] = [
        (2.5, 41.3, 0.02, 0.10340471201401455),
        (0.75, 12.5, 0.1, 0.8215340945472039),
        (17.25, 20.0, 0.3, 2.886522991045412e-07),
    ];
    const BETA_BINOMIAL: [(u64, u64, f64, f64, f64); 4] = [
        (1, 60, 0.02, 0.05, 0.4243114301666731),
        (5, 60, 0.02, 0.02, 0.047354139753413065),
        (9, 60, 0.01, 0.2, 0.02201045059111727),
        (40, 44, 0.3, 0.01, 1.96315217675324e-12),
    ];
    const OVERDISPERSED: f64 = 0.077530606417749;

    #[test]
    fn overdispersion_equals_the_reference() {
        // scipy 1.17.1: minimize_scalar of -sum(betabinom.logpmf) over rho, the mean held.
        let groups: [(u64, u64); 8] = [
            (0, 60),
            (1, 58),
            (9, 60),
            (0, 44),
            (2, 60),
            (0, 60),
            (5, 31),
            (1, 60),
        ];
        let got = overdispersion(&groups).unwrap();
        assert!((got - OVERDISPERSED).abs() < 1e-5, "{got}");
        let even = overdispersion(&[(3, 60); 12]).unwrap();
        assert_eq!(even, 0.0);
        assert_eq!(overdispersion(&[(0, 60), (0, 3)]).unwrap(), 0.0);
        assert_eq!(overdispersion(&[(4, 4)]).unwrap(), 0.0);
        assert_eq!(overdispersion(&[]).unwrap(), 0.0);
        assert!(overdispersion(&[(1, 1), (0, 1), (1, 1), (0, 0)]).unwrap() < 1.0);
    }

    #[test]
    fn weights_have_mean_one_and_are_clipped() {
        assert_eq!(normalised(&[8.0, 8.0, 8.0]), [1.0; 3]);
        assert_eq!(normalised(&[1.0, 3.0]), [0.5, 1.5]);
        assert_eq!(
            normalised(&[0.0, 0.0, 0.0, 0.0, 0.0, 60.0]),
            [0.25, 0.25, 0.25, 0.25, 0.25, 4.0]
        );
        assert_eq!(normalised(&[0.0, 0.0]), [1.0, 1.0]);
        assert!(normalised(&[]).is_empty());
        assert_eq!(
            [0.0, 0.25, 1.0, 1.1, 4.0, 9.0].map(quantised),
            [1, 1, 4, 4, 16, 16]
        );
        close(effective_size(&[2.0; 7]), 7.0);
        close(effective_size(&[1.0, 3.0]), 1.6);
        assert_eq!(effective_size(&[]), 0.0);
    }

    #[test]
    fn luck_is_never_nothing() {
        assert_eq!(chance(0, 0), 0.5);
        assert_eq!(chance(0, 98), 0.01);
        assert_eq!(chance(3, 3), 0.8);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        assert!(binomial_tail(3, 2, 0.5).is_err());
        assert!(binomial_tail(1, 2, f64::NAN).is_err());
        assert!(beta_tail(-1.0, 2.0, 0.5).is_err());
        assert!(beta_tail(3.0, 2.0, 0.5).is_err());
        assert!(beta_binomial_tail(1, 2, 0.5, 1.0).is_err());
        assert!(overdispersion(&[(2, 1)]).is_err());
        let trial = |weight, chance| weighted_tail(&[Trial { weight, chance }], 1);
        assert!(trial(0, 0.5).is_err() && trial(17, 0.5).is_err() && trial(1, 1.5).is_err());
        assert_eq!(weighted_tail(&[], 0).unwrap(), 1.0);
        assert_eq!(weighted_tail(&[], 1).unwrap(), 0.0);
    }
}
