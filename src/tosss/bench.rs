//! The benchmark over pairs: which pairs are asked, and all the tables over the answers: scores of
//! all pairs and of fixes of one function, by weakness, and what the position of an option does.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Arm;
use super::answer::Outcome;
use super::baseline::Baseline;
use super::pair::Pair;
use super::question::{Choice, Order, position};
use super::score::{Answer, Item, Scores, Settings, Sheet, scores, share_interval};
use crate::stats::StatsError;
use crate::stats::cluster::clustered_mean;
use crate::stats::mix::keyed;

/// How many pairs of each group of languages are asked if nothing else is said.
pub const SAMPLE: usize = 500;

/// Separates the sample from positions and coins.
const DRAW: u64 = 0x6472_6177;

/// The pairs that are asked: of each group of languages at most `most`, whole CVEs in an order
/// drawn by a keyed hash, which is the same for every model and does not move when others come.
pub fn sample(pairs: &[Pair], most: usize, seed: u64) -> Vec<&Pair> {
    let mut groups: BTreeMap<&str, BTreeMap<(u64, &str), Vec<&Pair>>> = BTreeMap::new();
    for pair in pairs {
        let cluster = pair.cluster();
        let drawn = (keyed(seed ^ DRAW, 0, cluster.as_bytes()), cluster);
        let group = groups.entry(pair.language.group()).or_default();
        group.entry(drawn).or_default().push(pair);
    }
    let mut taken = Vec::new();
    for clusters in groups.into_values() {
        let mut room = most;
        for cluster in clusters.into_values() {
            if cluster.len() <= room {
                room -= cluster.len();
                taken.extend(cluster);
            }
        }
    }
    taken
}

/// What one model answered to one wording in one order.
#[derive(Clone, PartialEq, Debug)]
pub struct Answers {
    /// Who.
    pub model: String,
    /// To which wording.
    pub arm: Arm,
    /// In which order.
    pub order: Order,
    /// By pair; nothing where it was not asked, or no answer came.
    pub outcomes: Vec<Option<Outcome>>,
}

/// What the position of an option does to one model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Position {
    /// Who answered.
    pub model: String,
    /// Of which language the pairs are.
    pub language: String,
    /// How it was asked.
    pub arm: Arm,
    /// Questions with a choice, of either order.
    pub answered: usize,
    /// Of these, the share that chose A.
    pub share_a: Option<f64>,
    /// Of that share, clustered; nothing with fewer than two clusters.
    pub interval: Option<[f64; 2]>,
    /// Pairs answered in both orders.
    pub both: usize,
    /// Of these, the share in which the same side was chosen in both.
    pub consistency: Option<f64>,
}

/// Scores of one weakness.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Weakness {
    /// `CWE-125`.
    pub cwe: String,
    /// The rows of that weakness alone.
    pub scores: Scores,
}

/// Everything that answers to pairs give.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Of all pairs.
    #[serde(flatten)]
    pub all: Scores,
    /// Of fixes that change one function only.
    pub single_function: Scores,
    /// By weakness.
    pub weaknesses: Vec<Weakness>,
    /// What positions do.
    pub positions: Vec<Position>,
    /// Outcomes by model and arm: how many of each.
    pub outcomes: BTreeMap<String, BTreeMap<String, usize>>,
}

/// The answers of the built-in answerers, to both wordings.
pub fn baselines(pairs: &[&Pair], seed: u64, both_orders: bool) -> Vec<Answers> {
    let orders: &[Order] = match both_orders {
        true => &[Order::Drawn, Order::Reversed],
        false => &[Order::Drawn],
    };
    let mut all = Vec::new();
    for rule in Baseline::ALL {
        for &order in orders {
            let outcome = |pair: &&Pair| {
                let digest = pair.digest();
                let (a, b) = match secure(pair, seed, order) {
                    Choice::A => (&pair.after, &pair.before),
                    Choice::B => (&pair.before, &pair.after),
                };
                Some(Outcome::Chose(rule.choose(seed, digest, order, a, b)))
            };
            let outcomes: Vec<_> = pairs.iter().map(outcome).collect();
            all.extend(Arm::ALL.map(|arm| Answers {
                model: rule.name().to_string(),
                arm,
                order,
                outcomes: outcomes.clone(),
            }));
        }
    }
    all
}

fn secure(pair: &Pair, seed: u64, order: Order) -> Choice {
    let drawn = position(seed, pair.digest());
    match order {
        Order::Drawn => drawn,
        Order::Reversed => drawn.other(),
    }
}

/// The tables over all answers; the outcomes are parallel to `pairs`.
///
/// # Errors
/// Those of [`scores`].
pub fn report(
    pairs: &[&Pair],
    answers: &[Answers],
    seed: u64,
    settings: &Settings,
) -> Result<Report, StatsError> {
    let of = |wanted: &dyn Fn(&Pair) -> bool, settings: &Settings| {
        scores(&sheets(pairs, answers, seed, wanted), settings)
    };
    let mut cwes: Vec<&String> = pairs.iter().flat_map(|p| &p.vulnerability.cwes).collect();
    cwes.sort();
    cwes.dedup();
    // By weakness there are few pairs: no check by sign flips, and claims are not made there.
    let plain = Settings {
        sign_flips: false,
        ..*settings
    };
    let mut weaknesses = Vec::new();
    for cwe in cwes {
        let mut scores = of(&|p| p.vulnerability.cwes.contains(cwe), &plain)?;
        scores.comparisons.clear();
        weaknesses.push(Weakness {
            cwe: cwe.clone(),
            scores,
        });
    }
    let mut outcomes: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for answers in answers {
        let own = outcomes
            .entry(format!("{} {}", answers.model, answers.arm))
            .or_default();
        for outcome in answers.outcomes.iter().flatten() {
            *own.entry(outcome.to_string()).or_default() += 1;
        }
    }
    Ok(Report {
        all: of(&|_| true, settings)?,
        single_function: of(&|p| p.functions_in_fix == 1, settings)?,
        weaknesses,
        positions: positions(pairs, answers, seed, settings)?,
        outcomes,
    })
}

/// Scores without some pairs, which may be others for each model: `left_out` says of each pair whether it
/// is, parallel to `pairs`. Two models are compared on the pairs that are left to both.
///
/// # Errors
/// Those of [`scores`].
pub fn scores_without(
    pairs: &[&Pair],
    answers: &[Answers],
    left_out: &BTreeMap<String, Vec<bool>>,
    seed: u64,
    settings: &Settings,
) -> Result<Scores, StatsError> {
    let kept = |answers: &Answers| {
        let mut kept = answers.clone();
        if let Some(left_out) = left_out.get(&answers.model) {
            for (outcome, gone) in kept.outcomes.iter_mut().zip(left_out) {
                *outcome = outcome.filter(|_| !gone);
            }
        }
        kept
    };
    let kept: Vec<Answers> = answers.iter().map(kept).collect();
    scores(&sheets(pairs, &kept, seed, &|_| true), settings)
}

/// A sheet for each model, group of languages and arm. A pair asked in both orders is two items of
/// its cluster, so that the score is the mean of both.
fn sheets(
    pairs: &[&Pair],
    answers: &[Answers],
    seed: u64,
    wanted: &dyn Fn(&Pair) -> bool,
) -> Vec<Sheet> {
    let mut sheets: BTreeMap<(&str, &str, Arm), Vec<Item>> = BTreeMap::new();
    for answers in answers {
        for (pair, outcome) in pairs.iter().zip(&answers.outcomes) {
            let Some(outcome) = outcome.filter(|_| wanted(pair)) else {
                continue;
            };
            let item = Item {
                id: pair.digest().hex(),
                repeat: answers.order as u8,
                cluster: pair.cluster().to_string(),
                answer: match outcome {
                    Outcome::Chose(c) if c == secure(pair, seed, answers.order) => Answer::Secure,
                    Outcome::Chose(_) => Answer::Vulnerable,
                    _ => Answer::None,
                },
            };
            let key = (answers.model.as_str(), pair.language.group(), answers.arm);
            sheets.entry(key).or_default().push(item);
        }
    }
    let sheet = |((model, language, arm), items): ((&str, &str, Arm), Vec<Item>)| Sheet {
        model: model.to_string(),
        language: language.to_string(),
        arm,
        items,
    };
    sheets.into_iter().map(sheet).collect()
}

fn positions(
    pairs: &[&Pair],
    answers: &[Answers],
    seed: u64,
    settings: &Settings,
) -> Result<Vec<Position>, StatsError> {
    type Chosen = BTreeMap<usize, BTreeMap<Order, Choice>>;
    let mut all: BTreeMap<(&str, &str, Arm), Chosen> = BTreeMap::new();
    for answers in answers {
        for (n, (pair, outcome)) in pairs.iter().zip(&answers.outcomes).enumerate() {
            if let Some(Outcome::Chose(choice)) = outcome {
                let key = (answers.model.as_str(), pair.language.group(), answers.arm);
                let pair = all.entry(key).or_default().entry(n).or_default();
                pair.insert(answers.order, *choice);
            }
        }
    }
    let mut found = Vec::new();
    for ((model, language, arm), chosen) in all {
        let each = || {
            let of = |(n, by): (&usize, &BTreeMap<Order, Choice>)| {
                let choices: Vec<_> = by.values().map(|c| (*n, *c)).collect();
                choices
            };
            chosen.iter().flat_map(of)
        };
        let values: Vec<f64> = each()
            .map(|(_, c)| f64::from(u8::from(c == Choice::A)))
            .collect();
        let clusters: Vec<_> = each().map(|(n, _)| Some(pairs[n].cluster())).collect();
        let mean = clustered_mean(&values, &clusters, settings.confidence)?;
        let both: Vec<bool> = chosen
            .iter()
            .filter_map(|(n, by)| {
                let side = |order| Some(*by.get(&order)? == secure(pairs[*n], seed, order));
                Some(side(Order::Drawn)? == side(Order::Reversed)?)
            })
            .collect();
        let same = both.iter().filter(|same| **same).count();
        found.push(Position {
            model: model.to_string(),
            language: language.to_string(),
            arm,
            answered: mean.items,
            share_a: Some(mean.mean),
            interval: share_interval(&mean, values.iter().filter(|v| **v > 0.0).count(), settings)?,
            both: both.len(),
            consistency: (!both.is_empty()).then(|| same as f64 / both.len() as f64),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::SnippetLanguage;
    use crate::tosss::record::Vulnerability;

    fn pair(n: usize) -> Pair {
        Pair {
            vulnerability: Vulnerability {
                id: format!("CVE-2020-{:04}", n / 2),
                cwes: vec![format!("CWE-{}", n % 3)],
                ..Vulnerability::default()
            },
            also: Vec::new(),
            repository: String::new(),
            commit: String::new(),
            path: "a.c".into(),
            function: "f".into(),
            language: SnippetLanguage::of_path("a.c").unwrap(),
            licence: None,
            functions_in_fix: 1 + n % 2,
            before: format!("int f(void) {{ return {n}; }}"),
            after: format!("int f(void) {{ if (x < {n}) return 0; return {n}; }}"),
        }
    }

    #[test]
    fn a_sample_takes_whole_clusters_and_stays_when_others_come() {
        let pairs: Vec<Pair> = (0..200).map(pair).collect();
        let few = sample(&pairs, 40, 1);
        assert_eq!(few.len(), 40);
        let ids = |all: &[&Pair]| {
            let mut ids: Vec<_> = all.iter().map(|p| p.vulnerability.id.clone()).collect();
            ids.dedup();
            ids
        };
        assert_eq!(ids(&few).len(), 20, "both pairs of each");
        let mut turned: Vec<Pair> = pairs.clone();
        turned.reverse();
        assert_eq!(ids(&sample(&turned, 40, 1)), ids(&few));
        assert_ne!(ids(&sample(&pairs, 40, 2)), ids(&few));
        let more = sample(&pairs, 80, 1);
        assert!(ids(&few).iter().all(|id| ids(&more).contains(id)));
        assert_eq!(sample(&pairs, 500, 1).len(), 200);
    }

    #[test]
    fn the_rules_score_as_they_must() {
        let pairs: Vec<Pair> = (0..400).map(pair).collect();
        let pairs: Vec<&Pair> = pairs.iter().collect();
        let answers = baselines(&pairs, 1, true);
        let got = report(&pairs, &answers, 1, &Settings::default()).unwrap();
        let row = |model: &str| {
            let found = got.all.rows.iter().find(|r| r.model == model);
            found.unwrap().clone()
        };
        // The fixed side is the longer one here, and the one with more checks.
        assert_eq!(row("baseline/longer").strict, 1.0);
        assert_eq!(row("baseline/more-checks").strict, 1.0);
        // In both orders A is the secure option exactly half of the time.
        assert_eq!(row("baseline/always-a").strict, 0.5);
        assert!((row("baseline/coin").strict - 0.5).abs() < 0.1);
        let coin = row("baseline/coin");
        assert_eq!((coin.pairs, coin.questions), (400, 800));
        let place = |model: &str| {
            let found = got.positions.iter().find(|p| p.model == model);
            found.unwrap().clone()
        };
        assert_eq!(place("baseline/always-a").share_a, Some(1.0));
        assert_eq!(place("baseline/always-a").consistency, Some(0.0));
        assert_eq!(place("baseline/longer").consistency, Some(1.0));
        assert_eq!(got.weaknesses.len(), 3);
        let single = &got.single_function.rows[0];
        assert_eq!((single.pairs, single.clusters), (200, 200));
        assert_eq!(got.outcomes["baseline/always-a hint"]["A"], 800);
    }

    #[test]
    fn what_a_model_knows_is_left_out_of_its_own_scores_only() {
        let pairs: Vec<Pair> = (0..40).map(pair).collect();
        let pairs: Vec<&Pair> = pairs.iter().collect();
        // Right in the first half and wrong in the other.
        let outcome = |n: usize| match n < 20 {
            true => secure(pairs[n], 1, Order::Drawn),
            false => secure(pairs[n], 1, Order::Reversed),
        };
        let answers = |model: &str| Answers {
            model: model.into(),
            arm: Arm::Hint,
            order: Order::Drawn,
            outcomes: (0..40).map(|n| Some(Outcome::Chose(outcome(n)))).collect(),
        };
        let answers = ["all", "half", "knows"].map(answers);
        let left_out = BTreeMap::from([
            ("half".to_string(), (0..40).map(|n| n < 20).collect()),
            ("knows".to_string(), vec![true; 40]),
        ]);
        let got = scores_without(&pairs, &answers, &left_out, 1, &Settings::default()).unwrap();
        let rows: Vec<_> = got
            .rows
            .iter()
            .map(|r| (&*r.model, r.pairs, r.strict))
            .collect();
        assert_eq!(rows, [("all", 40, 0.5), ("half", 20, 0.0)]);
        let [compared] = &got.comparisons[..] else {
            panic!("{:?}", got.comparisons);
        };
        assert_eq!(
            (compared.difference.pairs, compared.difference.difference),
            (20, 0.0)
        );
    }

    #[test]
    fn what_is_not_a_choice_counts_in_the_strict_score() {
        let pairs: Vec<Pair> = (0..4).map(pair).collect();
        let pairs: Vec<&Pair> = pairs.iter().collect();
        let right = |n: usize| Some(Outcome::Chose(secure(pairs[n], 1, Order::Drawn)));
        let answers = Answers {
            model: "m".into(),
            arm: Arm::Hint,
            order: Order::Drawn,
            outcomes: vec![right(0), Some(Outcome::Refused), None, right(3)],
        };
        let got = report(&pairs, &[answers], 1, &Settings::default()).unwrap();
        let row = &got.all.rows[0];
        assert_eq!((row.pairs, row.answered, row.secure), (3, 2, 2));
        assert_eq!(got.positions[0].answered, 2);
    }
}
