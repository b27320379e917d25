//! Scores over the functions that a model cannot have seen.

use std::collections::BTreeMap;

use super::board::weights;
use super::history::SinceRow;
use crate::app::{AppError, Evaluation, SubjectBoard};
use crate::config::ScoreConfig;
use crate::date;
use crate::oss::history::{Partial, case_lines, iteration_lines, partial, within};
use crate::oss::leaderboard::{Prices, RowFacts};
use crate::oss::scoring::{Weights, default_penalty};
use crate::oss::seen::Ages;
use crate::stats::interval::wilson;

/// The version of the JSON document.
pub const SINCE_SCHEMA: &str = "everbench/since/1";

/// From when on a function counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Since {
    /// From the beginning of this day: `2024-06-30`.
    Day(String),
    /// For each model from the day after its training data ended.
    Cutoff,
}

impl Since {
    /// From this day on.
    ///
    /// # Errors
    /// A text that is no date.
    pub fn day(text: &str) -> Result<Since, String> {
        match date::last_day(text) {
            Some(day) if day == text => Ok(Since::Day(day)),
            _ => Err("a day is expected: YYYY-MM-DD".into()),
        }
    }

    /// The least time that counts, and how it is said.
    fn bound(&self, cutoff: Option<&str>) -> Option<(String, String)> {
        match self {
            Since::Day(day) => Some((day.clone(), format!("since {day}"))),
            Since::Cutoff => {
                let last = date::last_day(cutoff?)?;
                // No time of that day is as late.
                Some((format!("{last}T24"), format!("after {last}")))
            }
        }
    }
}

/// The rows of an evaluation over the functions that are young enough, by the ages of each
/// subject's texts.
pub fn since(
    evaluation: &Evaluation,
    ages: &BTreeMap<String, Ages>,
    config: &ScoreConfig,
    penalties: &BTreeMap<String, Option<f64>>,
    since: &Since,
) -> Result<Vec<SinceRow>, AppError> {
    let mut out = Vec::new();
    for board in &evaluation.boards {
        let name = &board.manifest.name;
        let unknown = Ages::default();
        let ages = ages.get(name).unwrap_or(&unknown);
        let sample = board.board.sample.as_deref().map_or(&[][..], Vec::as_slice);
        let prices = prices(board, weights(config, evaluation.world.task), penalties);
        for row in &board.board.rows {
            let bound = since.bound(row.spec.card.cutoff.as_deref());
            let known: Vec<Option<bool>> = match &bound {
                Some((bound, _)) => sample.iter().map(|f| ages.since(&f.text, bound)).collect(),
                None => Vec::new(),
            };
            let count = |which: Option<bool>| known.iter().filter(|k| **k == which).count() as u64;
            let young: Vec<bool> = known.iter().map(|k| *k == Some(true)).collect();
            let facts = row.facts.as_deref().filter(|_| bound.is_some());
            let Part {
                scored,
                s1_interval,
            } = part(facts, &young, prices)?;
            out.push(SinceRow {
                subject: name.clone(),
                model: row.spec.name.clone(),
                scoring: row.scoring,
                since: bound.map(|(_, said)| said),
                asked: sample.len() as u64,
                older: count(Some(false)),
                unknown: count(None),
                young: scored,
                s1_interval,
                iterations: row.facts.as_ref().map_or(0, |f| f.iterations.len()) as u64,
            });
        }
    }
    Ok(out)
}

/// What alerts and changed lines count on a board.
pub(super) fn prices(
    board: &SubjectBoard,
    weights: Weights,
    penalties: &BTreeMap<String, Option<f64>>,
) -> Prices {
    let population = board.board.population.as_deref();
    let population = population.map_or(0, |p| p.functions.len());
    let given = penalties.get(&board.manifest.name).copied().flatten();
    let given = given.or(board.manifest.scoring.penalty);
    Prices {
        penalty: given.unwrap_or_else(|| default_penalty(population)),
        weights,
    }
}

/// A row over some of its functions.
pub(super) struct Part {
    /// Over these functions, and the iterations that replace only these; absent without facts.
    pub scored: Option<Partial>,
    /// The 95 % interval of s1, percent: Wilson's.
    pub s1_interval: Option<[f64; 2]>,
}

/// The row over the functions that are marked, by position.
pub(super) fn part(
    facts: Option<&RowFacts>,
    functions: &[bool],
    prices: Prices,
) -> Result<Part, AppError> {
    let scored = facts.map(|facts| {
        let (cases, iterations) = (case_lines(facts), iteration_lines(facts));
        let own = within(&iterations, functions);
        partial(&cases, &iterations, prices, Some(functions), Some(&own))
    });
    let interval = scored.as_ref().filter(|p| p.functions > 0).map(|p| {
        let interval = wilson(p.compiles, p.functions, 0.95);
        interval.map(|i| [100.0 * i.lo, 100.0 * i.hi])
    });
    let s1_interval = interval.transpose().map_err(|e| super::board::fault(&e))?;
    Ok(Part {
        scored,
        s1_interval,
    })
}
