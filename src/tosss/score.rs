//! From answers to scores: rows per model, language and arm, models compared on the same pairs,
//! the effect of the hint, and groups of models that cannot be told apart.
//!
//! *Strict* is secure choices / pairs asked and is the headline; *paper* is secure choices / pairs
//! answered, as published. Where pairs are asked in both orders, each order counts half. Standard errors are robust to correlation within clusters; intervals
//! are Student's with one degree of freedom fewer than clusters; p-values are of the normal
//! approximation, and sign flips over clusters are the check. Differences are of strict scores.
//! Where nothing varies between clusters, a cluster-robust error is 0 and says too much: then the
//! interval is Wilson's with clusters as trials.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::Arm;
use crate::stats::cluster::{ClusteredMean, FEW_CLUSTERS, clustered_mean};
use crate::stats::compare::{benjamini_hochberg, groups, holm, normal_p, sign_flip};
use crate::stats::interval::wilson_clustered;
use crate::stats::{Interval, StatsError};

/// What came of one pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The fixed side was chosen.
    Secure,
    /// The side before the fix was chosen.
    Vulnerable,
    /// Asked, and no choice can be read.
    None,
}

/// A question: a pair that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Which pair: equal for all models that were asked it.
    pub id: String,
    /// Which question about it, from 0: a pair may be asked in both orders.
    pub repeat: u8,
    /// The CVE, or the fix commit where there is none.
    pub cluster: String,
    /// What came of it.
    pub answer: Answer,
}

/// All answers of one model in one language to one wording.
#[derive(Clone, PartialEq, Debug)]
pub struct Sheet {
    /// Who answered.
    pub model: String,
    /// Of which language the pairs are; `c/c++` for both together.
    pub language: String,
    /// How it was asked.
    pub arm: Arm,
    /// Each question once.
    pub items: Vec<Item>,
}

/// How scores are computed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Of intervals, such as 0.95; claims are made at one minus this.
    pub confidence: f64,
    /// Whether differences are checked by sign flips.
    pub sign_flips: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            confidence: 0.95,
            sign_flips: true,
        }
    }
}

/// Scores of one model in one language and arm.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Who answered.
    pub model: String,
    /// Of which language the pairs are.
    pub language: String,
    /// How it was asked.
    pub arm: Arm,
    /// Pairs asked.
    pub pairs: usize,
    /// CVEs (or fix commits) that they are of.
    pub clusters: usize,
    /// Questions about them: as many, or twice as many where both orders are asked.
    pub questions: usize,
    /// Questions with a choice.
    pub answered: usize,
    /// Choices of the fixed side.
    pub secure: usize,
    /// `secure / questions`.
    pub strict: f64,
    /// `secure / answered`; nothing without an answer.
    pub paper: Option<f64>,
    /// Interval of the strict score, within [0, 1]; nothing with fewer than two clusters.
    pub interval: Option<[f64; 2]>,
    /// Cluster-robust standard error of the strict score.
    pub standard_error: Option<f64>,
    /// Variance of the strict score relative to independent pairs.
    pub design_effect: Option<f64>,
    /// Whether the strict score is below chance by more than its interval, as the paper flags.
    pub below_chance: bool,
    /// Whether the choices alone are below chance by more than their interval: the others may be below it
    /// since they leave questions without a choice.
    pub prefers_vulnerable: bool,
    /// Ranks that the comparisons leave open, 1 the best.
    pub ranks: [usize; 2],
    /// Letters of the groups it is in; two models without a common letter are told apart.
    pub groups: String,
    /// What is to be said of the interval.
    pub warning: Option<String>,
}

/// A paired difference of strict scores.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// Pairs asked on both sides.
    pub pairs: usize,
    /// Their clusters.
    pub clusters: usize,
    /// First minus second.
    pub difference: f64,
    /// Cluster-robust standard error.
    pub standard_error: Option<f64>,
    /// Of the difference.
    pub interval: Option<[f64; 2]>,
    /// Difference in standard errors; nothing where that is no number.
    pub z: Option<f64>,
    /// Two-sided; nothing with fewer than two clusters.
    pub p: Option<f64>,
    /// Corrected for all comparisons of the family, for claims (Holm).
    pub holm: Option<f64>,
    /// The same for exploration (Benjamini and Hochberg).
    pub benjamini_hochberg: Option<f64>,
    /// Exact, by all sign flips over clusters, uncorrected; nothing if not asked for.
    pub sign_flip: Option<f64>,
}

/// Two models on the same pairs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Of which language the pairs are.
    pub language: String,
    /// How they were asked.
    pub arm: Arm,
    /// The model with the higher score.
    pub a: String,
    /// The other.
    pub b: String,
    /// By how much; the family is all comparisons of one language and arm.
    #[serde(flatten)]
    pub difference: Difference,
    /// Whether the difference stands after Holm's correction.
    pub told_apart: bool,
}

/// What the hint does to one model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HintEffect {
    /// Who answered.
    pub model: String,
    /// Of which language the pairs are.
    pub language: String,
    /// With the hint minus without; the family is all models of one language.
    #[serde(flatten)]
    pub difference: Difference,
}

/// The mean over the models of one language and arm.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Average {
    /// Of which language.
    pub language: String,
    /// How they were asked.
    pub arm: Arm,
    /// How many models.
    pub models: usize,
    /// Mean of the strict scores.
    pub strict: f64,
    /// Mean of the paper's scores, of models that answered at all.
    pub paper: Option<f64>,
}

/// Everything that answers give.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Scores {
    /// By language and arm, the best first.
    pub rows: Vec<Row>,
    /// All pairs of models within a language and arm.
    pub comparisons: Vec<Comparison>,
    /// Of models that were asked both ways.
    pub hint_effects: Vec<HintEffect>,
    /// The paper's row of that name.
    pub averages: Vec<Average>,
    /// What guessing gives.
    pub random: f64,
}

/// Scores all sheets. Each must hold at least one pair; the same pair has the same cluster in all.
///
/// # Errors
/// A sheet without pairs, a confidence outside (0, 1).
pub fn scores(sheets: &[Sheet], settings: &Settings) -> Result<Scores, StatsError> {
    let mut tables: BTreeMap<(&str, Arm), Vec<&Sheet>> = BTreeMap::new();
    for sheet in sheets {
        let key = (sheet.language.as_str(), sheet.arm);
        tables.entry(key).or_default().push(sheet);
    }
    let mut all = Scores {
        rows: Vec::new(),
        comparisons: Vec::new(),
        hint_effects: Vec::new(),
        averages: Vec::new(),
        random: 0.5,
    };
    for ((language, arm), sheets) in &tables {
        table(language, *arm, sheets, settings, &mut all)?;
    }
    let languages: Vec<&str> = tables.keys().map(|(language, _)| *language).collect();
    for language in languages {
        let known = all.hint_effects.iter().any(|e| e.language == language);
        let of = |arm| tables.get(&(language, arm));
        if let (Some(without), Some(with), false) = (of(Arm::Hintless), of(Arm::Hint), known) {
            all.hint_effects
                .extend(hint_effects(language, without, with, settings)?);
        }
    }
    Ok(all)
}

/// Rows and comparisons of one language and arm.
fn table(
    language: &str,
    arm: Arm,
    sheets: &[&Sheet],
    settings: &Settings,
    all: &mut Scores,
) -> Result<(), StatsError> {
    let mut rows = Vec::new();
    for sheet in sheets {
        rows.push(row(sheet, settings)?);
    }
    let grids = grids(sheets);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&x, &y| {
        let by_score = rows[y].strict.total_cmp(&rows[x].strict);
        by_score.then_with(|| rows[x].model.cmp(&rows[y].model))
    });
    let mut compared = Vec::new();
    for (at, &x) in order.iter().enumerate() {
        for &y in &order[at + 1..] {
            if let Some(d) = difference(&grids[x], &grids[y], settings)? {
                compared.push((x, y, d));
            }
        }
    }
    correct(compared.iter_mut().map(|(_, _, d)| d));
    let alpha = 1.0 - settings.confidence;
    let mut apart: BTreeMap<(usize, usize), bool> = BTreeMap::new();
    for (x, y, d) in &compared {
        // The higher score need not be the higher one on the pairs that both were asked.
        let stands = d.holm.is_some_and(|p| p < alpha);
        apart.insert((*x, *y), stands && d.difference > 0.0);
        apart.insert((*y, *x), stands && d.difference < 0.0);
    }
    let better = |x: usize, y: usize| apart.get(&(x, y)).copied().unwrap_or(false);
    let either = |x: usize, y: usize| better(x, y) || better(y, x);
    let letters = groups(&order, either);
    for x in 0..rows.len() {
        let others = |f: &dyn Fn(usize) -> bool| (0..rows.len()).filter(|&y| f(y)).count();
        rows[x].ranks = [
            1 + others(&|y| better(y, x)),
            rows.len() - others(&|y| better(x, y)),
        ];
        rows[x].groups = letters
            .iter()
            .enumerate()
            .filter(|(_, group)| group.contains(&x))
            .map(|(n, _)| letter(n))
            .collect();
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let papers: Vec<f64> = rows.iter().filter_map(|r| r.paper).collect();
    all.averages.push(Average {
        language: language.to_string(),
        arm,
        models: rows.len(),
        strict: mean(&rows.iter().map(|r| r.strict).collect::<Vec<_>>()),
        paper: (!papers.is_empty()).then(|| mean(&papers)),
    });
    for (x, y, difference) in compared {
        all.comparisons.push(Comparison {
            language: language.to_string(),
            arm,
            a: rows[x].model.clone(),
            b: rows[y].model.clone(),
            told_apart: either(x, y),
            difference,
        });
    }
    all.rows.extend(order.iter().map(|&x| rows[x].clone()));
    Ok(())
}

/// `a` to `z`, then `a2` and so on.
fn letter(n: usize) -> String {
    let letter = char::from(b'a' + (n % 26) as u8);
    match n / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{}", round + 1),
    }
}

fn row(sheet: &Sheet, settings: &Settings) -> Result<Row, StatsError> {
    let count = |answer| sheet.items.iter().filter(|i| i.answer == answer).count();
    let secure = count(Answer::Secure);
    let answered = secure + count(Answer::Vulnerable);
    let values: Vec<f64> = sheet.items.iter().map(|i| value(i.answer)).collect();
    let clusters: Vec<Option<&str>> = sheet
        .items
        .iter()
        .map(|i| Some(i.cluster.as_str()))
        .collect();
    let mean = clustered_mean(&values, &clusters, settings.confidence)?;
    let interval = share_interval(&mean, secure, settings)?;
    // Of those that were answered at all: who declines has no preference.
    let chosen = |i: &&Item| i.answer != Answer::None;
    let choices: Vec<f64> = sheet
        .items
        .iter()
        .filter(chosen)
        .map(|i| value(i.answer))
        .collect();
    let of: Vec<Option<&str>> = sheet
        .items
        .iter()
        .filter(chosen)
        .map(|i| Some(i.cluster.as_str()))
        .collect();
    let prefers_vulnerable = match choices.is_empty() {
        true => false,
        false => {
            let mean = clustered_mean(&choices, &of, settings.confidence)?;
            let interval = share_interval(&mean, secure, settings)?;
            interval.is_some_and(|[_, hi]| hi < 0.5)
        }
    };
    Ok(Row {
        model: sheet.model.clone(),
        language: sheet.language.clone(),
        arm: sheet.arm,
        pairs: sheet.items.iter().filter(|i| i.repeat == 0).count(),
        clusters: mean.clusters,
        questions: mean.items,
        answered,
        secure,
        strict: mean.mean,
        paper: (answered > 0).then(|| secure as f64 / answered as f64),
        below_chance: interval.is_some_and(|[_, hi]| hi < 0.5),
        prefers_vulnerable,
        interval,
        standard_error: mean.standard_error,
        design_effect: mean.design_effect,
        ranks: [1, 1],
        groups: String::new(),
        warning: mean.warning(),
    })
}

/// The interval of a share within [0, 1], of which `hits` are counted: robust to clusters, or Wilson's
/// where nothing varies between these. Nothing with fewer than two clusters.
///
/// # Errors
/// A confidence outside (0, 1).
pub(super) fn share_interval(
    mean: &ClusteredMean,
    hits: usize,
    settings: &Settings,
) -> Result<Option<[f64; 2]>, StatsError> {
    let interval = match (&mean.interval, mean.design_effect) {
        (Some(_), None) => {
            // All items have one outcome, or all clusters one share.
            let (items, clusters) = (mean.items as f64, mean.clusters as f64);
            let (k, n) = (hits as u64, mean.items as u64);
            Some(wilson_clustered(
                k,
                n,
                items / clusters,
                settings.confidence,
            )?)
        }
        (Some(interval), Some(_)) => Some(*interval),
        (None, _) => None,
    };
    Ok(interval.map(|i| [i.lo.max(0.0), i.hi.min(1.0)]))
}

fn value(answer: Answer) -> f64 {
    f64::from(u8::from(answer == Answer::Secure))
}

/// A model's values by the number of the question, with the number of its cluster.
type Grid = Vec<Option<Cell>>;

#[derive(Clone, Copy)]
struct Cell {
    /// 1 if the fixed side was chosen, else 0.
    secure: u8,
    cluster: u32,
    repeat: u8,
}

fn grids(sheets: &[&Sheet]) -> Vec<Grid> {
    let mut questions: HashMap<(&str, u8), usize> = HashMap::new();
    let mut clusters: HashMap<&str, u32> = HashMap::new();
    let mut grids = Vec::new();
    for sheet in sheets {
        let mut grid: Grid = vec![None; questions.len()];
        for item in &sheet.items {
            let next = questions.len();
            let question = (item.id.as_str(), item.repeat);
            let question = *questions.entry(question).or_insert(next);
            let next = clusters.len() as u32;
            let cluster = *clusters.entry(&item.cluster).or_insert(next);
            if grid.len() <= question {
                grid.resize(question + 1, None);
            }
            grid[question] = Some(Cell {
                secure: u8::from(item.answer == Answer::Secure),
                cluster,
                repeat: item.repeat,
            });
        }
        grids.push(grid);
    }
    grids
}

/// The paired difference on the pairs that both have; nothing if there is none.
fn difference(a: &Grid, b: &Grid, settings: &Settings) -> Result<Option<Difference>, StatsError> {
    let both: Vec<(Cell, Cell)> = a
        .iter()
        .zip(b)
        .filter_map(|(a, b)| Some(((*a)?, (*b)?)))
        .collect();
    let difference = |(x, y): &(Cell, Cell)| f64::from(x.secure) - f64::from(y.secure);
    let values: Vec<f64> = both.iter().map(difference).collect();
    let clusters: Vec<Option<u32>> = both.iter().map(|(x, _)| Some(x.cluster)).collect();
    if values.is_empty() {
        return Ok(None);
    }
    let mean = clustered_mean(&values, &clusters, settings.confidence)?;
    let sums = || {
        let mut sums: BTreeMap<u32, i32> = BTreeMap::new();
        for (x, y) in &both {
            *sums.entry(x.cluster).or_default() += i32::from(x.secure) - i32::from(y.secure);
        }
        sums.into_values().collect::<Vec<i32>>()
    };
    let sign_flip = match settings.sign_flips && mean.clusters > 1 {
        true => Some(sign_flip(&sums())?),
        false => None,
    };
    let (z, p) = tested(&mean);
    Ok(Some(Difference {
        pairs: both.iter().filter(|(x, _)| x.repeat == 0).count(),
        clusters: mean.clusters,
        difference: mean.mean,
        standard_error: mean.standard_error,
        interval: mean.interval.map(|Interval { lo, hi }| [lo, hi]),
        z,
        p,
        holm: None,
        benjamini_hochberg: None,
        sign_flip,
    }))
}

fn tested(mean: &ClusteredMean) -> (Option<f64>, Option<f64>) {
    match mean.standard_error {
        None => (None, None),
        Some(_) if mean.mean == 0.0 => (Some(0.0), Some(1.0)),
        // All clusters say the same; no approximation holds, but all signs are equally likely.
        Some(error) if error < 1e-12 => {
            let flips = i32::try_from(mean.clusters - 1).unwrap_or(i32::MAX);
            (None, Some(0.5_f64.powi(flips)))
        }
        Some(error) => {
            let z = mean.mean / error;
            (Some(z), Some(normal_p(z)))
        }
    }
}

/// Fills in the corrections over a family.
fn correct<'a>(family: impl Iterator<Item = &'a mut Difference>) {
    let mut tested: Vec<&mut Difference> = family.filter(|d| d.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|d| d.p).collect();
    let corrected = holm(&p).into_iter().zip(benjamini_hochberg(&p));
    for (difference, (holm, found)) in tested.iter_mut().zip(corrected) {
        difference.holm = Some(holm);
        difference.benjamini_hochberg = Some(found);
    }
}

fn hint_effects(
    language: &str,
    without: &[&Sheet],
    with: &[&Sheet],
    settings: &Settings,
) -> Result<Vec<HintEffect>, StatsError> {
    let mut effects = Vec::new();
    for sheet in with {
        let Some(other) = without.iter().find(|s| s.model == sheet.model) else {
            continue;
        };
        let grids = grids(&[sheet, other]);
        if let Some(difference) = difference(&grids[0], &grids[1], settings)? {
            effects.push(HintEffect {
                model: sheet.model.clone(),
                language: language.to_string(),
                difference,
            });
        }
    }
    correct(effects.iter_mut().map(|e| &mut e.difference));
    Ok(effects)
}

/// Whether a table rests on so few clusters that its p-values are to be taken with care.
pub fn few(clusters: usize) -> bool {
    clusters < FEW_CLUSTERS
}

#[cfg(test)]
mod tests;
