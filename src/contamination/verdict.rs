//! From answers to a verdict: were there more hits than luck explains?
//!
//! What luck explains is measured on *controls*, repositories that cannot have been in the training
//! data, for each kind of pattern by itself, since a name is guessed more easily in one than in
//! another. A hit counts by how rare and how surprising its target is. The verdict rests on the
//! exact tail of the weighted sum; the two approximations stand beside it. Where the controls
//! differ from each other more than chance allows, the tail that knows of this is taken if it
//! is larger. Over all repositories of a model the p-values are corrected together.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::probe::{Answer, Outcome};
use super::{Pattern, Snippet};
use crate::stats::StatsError;
use crate::stats::compare::benjamini_hochberg;
use crate::stats::hits::{
    Trial, beta_binomial_tail, beta_tail, binomial_tail, chance, effective_size, normalised,
    overdispersion, quantised, weighted_tail,
};

/// Thresholds of the verdict.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// With fewer answered probes there is no verdict.
    pub fewest_probes: u64,
    /// A larger correlation within controls counts.
    pub rho: f64,
    /// The share of false verdicts among those of presence that is borne.
    pub false_discovery: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            fewest_probes: 20,
            rho: 0.01,
            false_discovery: 0.05,
        }
    }
}

/// A snippet that was asked, with what the model made of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Probed {
    /// The snippet.
    pub snippet: Snippet,
    /// The answer; of several draws the best.
    pub answer: Answer,
}

impl Probed {
    fn hit(&self) -> bool {
        self.answer.outcome == Outcome::Hit
    }

    /// What a hit counts before it is normalised: surprisal over how many families have the target.
    fn weight(&self) -> f64 {
        self.snippet.bits.max(0.0) / (1.0 + f64::from(self.snippet.df))
    }
}

/// Those that the model tried to continue.
fn tried(probed: &[Probed]) -> impl Iterator<Item = &Probed> {
    probed.iter().filter(|p| p.answer.outcome.tried())
}

/// What luck explains, for one model and language.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Luck {
    /// Controls with at least one answered probe.
    pub controls: usize,
    /// Hits and answered probes of all controls, by kind of pattern.
    pub counts: BTreeMap<Pattern, (u64, u64)>,
    /// How much more controls differ than chance allows.
    pub rho: f64,
}

impl Luck {
    /// From the controls' answers, one list for each control.
    ///
    /// # Errors
    /// None that counts of this kind can give.
    pub fn of(controls: &[Vec<Probed>]) -> Result<Luck, StatsError> {
        let mut counts: BTreeMap<Pattern, (u64, u64)> = BTreeMap::new();
        let mut groups = Vec::new();
        for control in controls {
            let mut group = (0, 0);
            for probed in tried(control) {
                let count = counts.entry(probed.snippet.pattern).or_default();
                for (hits, trials) in [&mut *count, &mut group].map(|(h, t)| (h, t)) {
                    *hits += u64::from(probed.hit());
                    *trials += 1;
                }
            }
            if group.1 > 0 {
                groups.push(group);
            }
        }
        Ok(Luck {
            controls: groups.len(),
            counts,
            rho: overdispersion(&groups)?,
        })
    }

    /// P0 of a kind of pattern: (k + 1) / (n + 2) over all controls.
    pub fn chance(&self, pattern: Pattern) -> f64 {
        let (hits, trials) = self.counts.get(&pattern).copied().unwrap_or_default();
        chance(hits, trials)
    }
}

/// The tests over one repository's probes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Test {
    /// Answered probes.
    pub probes: u64,
    /// Hits among them.
    pub hits: u64,
    /// Probes by what became of them.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// The mean chance of a hit by luck.
    pub chance: f64,
    /// The exact tail of the weighted sum of hits.
    pub weighted: f64,
    /// The tail of the number of hits, as the paper writes it, at the mean chance.
    pub binomial: f64,
    /// The beta form with the effective number of probes.
    pub beta: f64,
    /// The tail of the number of hits with the controls' correlation, where that counts.
    pub beta_binomial: Option<f64>,
    /// What decides: the exact tail, or the last one if it is larger.
    pub p: f64,
}

/// Tests whether there are more hits than luck explains.
///
/// # Errors
/// None that counts of this kind can give.
pub fn test(probed: &[Probed], luck: &Luck, rules: &Rules) -> Result<Test, StatsError> {
    let mut outcomes = BTreeMap::new();
    for one in probed {
        *outcomes.entry(one.answer.outcome).or_default() += 1;
    }
    let tried: Vec<&Probed> = tried(probed).collect();
    let weights: Vec<f64> = tried.iter().map(|p| p.weight()).collect();
    let weights = normalised(&weights);
    let mut trials = Vec::new();
    let (mut score, mut hits, mut weight_of_hits) = (0, 0, 0.0);
    for (one, weight) in tried.iter().zip(&weights) {
        let trial = Trial {
            weight: quantised(*weight),
            chance: luck.chance(one.snippet.pattern),
        };
        if one.hit() {
            hits += 1;
            score += u64::from(trial.weight);
            weight_of_hits += weight;
        }
        trials.push(trial);
    }
    let probes = tried.len() as u64;
    let chance = match probes {
        0 => 1.0,
        n => trials.iter().map(|t| t.chance).sum::<f64>() / n as f64,
    };
    let effective = effective_size(&weights);
    let share = weight_of_hits / weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let weighted = weighted_tail(&trials, score)?;
    let beta_binomial = match luck.rho > rules.rho {
        true => Some(beta_binomial_tail(hits, probes, chance, luck.rho)?),
        false => None,
    };
    Ok(Test {
        probes,
        hits,
        outcomes,
        chance,
        weighted,
        binomial: binomial_tail(hits, probes, chance)?,
        beta: beta_tail(share * effective, effective, chance)?,
        beta_binomial,
        p: weighted.max(beta_binomial.unwrap_or(0.0)),
    })
}

/// Whether a repository was in the training data, as far as can be told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The model knows what it cannot have guessed.
    Contaminated,
    /// It knows no more than luck explains. That is no proof of absence.
    NotShown,
    /// Too few probes were answered to say anything.
    Inconclusive,
}

impl Presence {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Presence::Contaminated => "contaminated",
            Presence::NotShown => "not_shown",
            Presence::Inconclusive => "inconclusive",
        }
    }

    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            Presence::Contaminated => "contaminated",
            Presence::NotShown => "not shown",
            Presence::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A test with what follows from it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub presence: Presence,
    /// The p-value corrected over the model's repositories; none without a verdict.
    pub q: Option<f64>,
    /// The test.
    #[serde(flatten)]
    pub test: Test,
}

/// The verdicts over one model's repositories, in order: those with enough answered probes are
/// corrected together by Benjamini and Hochberg's procedure.
pub fn verdicts(tests: &[Test], rules: &Rules) -> Vec<Verdict> {
    let enough = |test: &&Test| test.probes >= rules.fewest_probes;
    let p: Vec<f64> = tests.iter().filter(enough).map(|test| test.p).collect();
    let mut corrected = benjamini_hochberg(&p).into_iter();
    let verdict = |test: &Test| {
        let q = match enough(&test) {
            true => corrected.next(),
            false => None,
        };
        let presence = match q {
            None => Presence::Inconclusive,
            Some(q) if q <= rules.false_discovery => Presence::Contaminated,
            Some(_) => Presence::NotShown,
        };
        Verdict {
            presence,
            q,
            test: test.clone(),
        }
    };
    tests.iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use proptest::prelude::*;

    fn probed(pattern: Pattern, outcome: Outcome, bits: f64, df: u32) -> Probed {
        Probed {
            snippet: Snippet {
                pattern,
                path: "src/shelf.c".into(),
                offset: 0,
                context: "shelf_take(".into(),
                target: "heronlock".into(),
                class: Digest::of(b""),
                repeats: 2,
                df,
                bits,
            },
            answer: Answer {
                outcome,
                said: String::new(),
            },
        }
    }

    fn many(pattern: Pattern, hits: usize, misses: usize) -> Vec<Probed> {
        let hits = (0..hits).map(|_| probed(pattern, Outcome::Hit, 12.0, 0));
        let misses = (0..misses).map(|_| probed(pattern, Outcome::Miss, 12.0, 0));
        hits.chain(misses).collect()
    }

    fn luck(controls: &[Vec<Probed>]) -> Luck {
        Luck::of(controls).unwrap()
    }

    #[test]
    fn with_equal_weights_the_test_is_the_papers() {
        let luck = luck(&[many(Pattern::Clone, 1, 97)]);
        assert_eq!(luck.chance(Pattern::Clone), 0.02);
        assert_eq!(luck.rho, 0.0);
        let test = test(&many(Pattern::Clone, 5, 55), &luck, &Rules::default()).unwrap();
        // scipy 1.17.1: binom.sf(4, 60, 0.02).
        for p in [test.p, test.weighted, test.binomial, test.beta] {
            assert!((p - 0.007024641409398259).abs() < 1e-12, "{p}");
        }
        assert_eq!((test.hits, test.probes), (5, 60));
        assert_eq!(test.beta_binomial, None);
    }

    #[test]
    fn a_rare_and_surprising_hit_counts_more() {
        let luck = luck(&[many(Pattern::Clone, 3, 95)]);
        let kinds = [(12.0, 0), (24.0, 0), (12.0, 3)];
        let hit = |at: usize| {
            let mut all: Vec<Probed> = (0..60)
                .map(|i| kinds[i % 3])
                .map(|(bits, df)| probed(Pattern::Clone, Outcome::Miss, bits, df))
                .collect();
            all[at].answer.outcome = Outcome::Hit;
            test(&all, &luck, &Rules::default()).unwrap().p
        };
        assert!(hit(1) < hit(0), "surprising");
        assert!(hit(0) < hit(2), "rare");
    }

    #[test]
    fn luck_is_of_each_kind_of_pattern_and_one_half_without_controls() {
        let luck = luck(&[many(Pattern::Clone, 1, 97), many(Pattern::Text, 8, 10)]);
        assert_eq!(luck.chance(Pattern::Text), 9.0 / 20.0);
        assert_eq!(luck.chance(Pattern::Cooccurrence), 0.5);
        let of = |pattern| test(&many(pattern, 6, 20), &luck, &Rules::default()).unwrap();
        assert!(of(Pattern::Clone).weighted < 0.001);
        assert!(of(Pattern::Text).weighted > 0.9);
    }

    #[test]
    fn controls_that_differ_make_the_test_milder() {
        let even = luck(&vec![many(Pattern::Clone, 1, 59); 20]);
        let mut uneven = vec![many(Pattern::Clone, 0, 60); 18];
        uneven.extend(vec![many(Pattern::Clone, 10, 50); 2]);
        let uneven = luck(&uneven);
        assert!(even.rho == 0.0 && uneven.rho > 0.05, "{}", uneven.rho);
        assert_eq!(
            even.chance(Pattern::Clone),
            uneven.chance(Pattern::Clone),
            "the same hits"
        );
        let probed = many(Pattern::Clone, 5, 55);
        let of = |luck| test(&probed, luck, &Rules::default()).unwrap();
        assert!(of(&even).p < 0.01);
        assert!(of(&uneven).p > 0.05);
        assert_eq!(Some(of(&uneven).p), of(&uneven).beta_binomial);
        assert_eq!(of(&even).weighted, of(&uneven).weighted);
    }

    #[test]
    fn answers_that_do_not_try_are_counted_and_take_no_part() {
        let luck = luck(&[many(Pattern::Clone, 1, 97)]);
        let mut all = many(Pattern::Clone, 3, 20);
        let plain = test(&all, &luck, &Rules::default()).unwrap();
        for outcome in [
            Outcome::Refusal,
            Outcome::Empty,
            Outcome::Echo,
            Outcome::Prose,
            Outcome::Truncated,
        ] {
            all.extend(vec![probed(Pattern::Clone, outcome, 12.0, 0); 7]);
        }
        let with = test(&all, &luck, &Rules::default()).unwrap();
        assert_eq!((with.p, with.probes), (plain.p, plain.probes));
        assert_eq!(with.outcomes[&Outcome::Refusal], 7);
        assert_eq!(with.outcomes.values().sum::<u64>(), all.len() as u64);
    }

    #[test]
    fn a_model_that_never_tries_gets_no_verdict() {
        let luck = luck(&[many(Pattern::Clone, 1, 97)]);
        let refusals = vec![probed(Pattern::Clone, Outcome::Refusal, 12.0, 0); 60];
        let of = |probed: &[Probed]| test(probed, &luck, &Rules::default()).unwrap();
        let tests = [
            of(&refusals),
            of(&[]),
            of(&many(Pattern::Clone, 19, 0)),
            of(&many(Pattern::Clone, 9, 11)),
            of(&many(Pattern::Clone, 0, 60)),
        ];
        let presence: Vec<Presence> = verdicts(&tests, &Rules::default())
            .iter()
            .map(|v| v.presence)
            .collect();
        use Presence as P;
        assert_eq!(
            presence,
            [
                P::Inconclusive,
                P::Inconclusive,
                P::Inconclusive,
                P::Contaminated,
                P::NotShown
            ]
        );
        assert!(tests[0].p == 1.0 && tests[1].p == 1.0);
    }

    #[test]
    fn what_is_inconclusive_takes_no_part_in_the_correction() {
        let luck = luck(&[many(Pattern::Clone, 1, 97)]);
        let of = |probed: &[Probed]| test(probed, &luck, &Rules::default()).unwrap();
        let strong = of(&many(Pattern::Clone, 4, 40));
        let mut tests = vec![strong.clone()];
        let alone = verdicts(&tests, &Rules::default())[0].q;
        assert_eq!(alone, Some(strong.p));
        tests.extend(vec![of(&[]); 50]);
        assert_eq!(verdicts(&tests, &Rules::default())[0].q, alone);
        tests.extend(vec![of(&many(Pattern::Clone, 0, 40)); 50]);
        assert!(verdicts(&tests, &Rules::default())[0].q > alone);
    }

    proptest! {
        /// More hits never make presence less likely, and no p-value is anything but a probability.
        #[test]
        fn p_values_are_probabilities_and_fall_with_hits(
            weights in proptest::collection::vec((0.0..60.0_f64, 0..9_u32), 1..70),
            control in (0..30_usize, 0..200_usize),
            at in any::<proptest::sample::Index>(),
        ) {
            let luck = luck(&[many(Pattern::Clone, control.0, control.1)]);
            let mut all: Vec<Probed> = weights
                .iter()
                .map(|&(bits, df)| probed(Pattern::Clone, Outcome::Miss, bits, df))
                .collect();
            let before = test(&all, &luck, &Rules::default()).unwrap();
            let at = at.index(all.len());
            all[at].answer.outcome = Outcome::Hit;
            let after = test(&all, &luck, &Rules::default()).unwrap();
            for p in [after.p, after.weighted, after.binomial, after.beta] {
                prop_assert!((0.0..=1.0).contains(&p));
            }
            prop_assert!(after.p <= before.p);
        }
    }
}
