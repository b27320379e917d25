//! Models over several subjects: rows of means, and ranks among them.

use serde::Serialize;

use super::board::{PlacedRow, RankNote, Scored, SubjectSummary, fault, ranks, tidy};
use crate::app::AppError;
use crate::oss::inputs::Scoring;
use crate::oss::scoring::{self, Aggregate, Bootstrap, Part};

/// A model over all subjects in one scoring: means with equal weights. Scores are absent while a
/// subject's row is incomplete.
#[derive(Clone, Debug, Serialize)]
pub struct AggregateRow {
    /// The subjects, each with the same weight.
    pub subjects: Vec<String>,
    /// The model's name.
    pub model: String,
    /// True for edits with known effects: no language model.
    pub calibration: bool,
    /// `paper` or `paired`.
    pub scoring: Scoring,
    /// Compilability, percent.
    pub s1: Option<f64>,
    /// Tests passed, percent.
    pub s2: Option<f64>,
    /// Memory safety.
    pub s3: Option<f64>,
    /// Changed lines per function.
    pub d: Option<f64>,
    /// Mean of c1.
    pub c1: Option<f64>,
    /// Mean of c2.
    pub c2: Option<f64>,
    /// Mean of c3.
    pub c3: Option<f64>,
    /// Mean of the scores.
    pub score: Option<f64>,
    /// The score's 95 % interval; absent when a subject's row has none.
    pub interval: Option<[f64; 2]>,
    /// The interval of s1.
    pub s1_interval: Option<[f64; 2]>,
    /// The interval of s2.
    pub s2_interval: Option<[f64; 2]>,
    /// The interval of s3.
    pub s3_interval: Option<[f64; 2]>,
    /// Position among the ranked rows of this scoring, from 1.
    pub rank: Option<u32>,
    /// The positions that the interval of differences leaves open.
    pub rank_interval: Option<[u32; 2]>,
    /// Why a row has no rank.
    pub unranked: Option<RankNote>,
    /// Iterations of its rows that were kept from earlier commits.
    #[serde(skip_serializing_if = "is_none")]
    pub stale: u64,
    /// True if nothing is missing.
    pub complete: bool,
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

/// The aggregate rows; none with a single subject.
pub(super) fn aggregate_rows(
    rows: &[PlacedRow],
    scored: &[Scored],
    subjects: &[SubjectSummary],
) -> Result<Vec<AggregateRow>, AppError> {
    if subjects.len() < 2 {
        return Ok(Vec::new());
    }
    let names: Vec<String> = subjects.iter().map(|s| s.subject.clone()).collect();
    let mut out = Vec::new();
    for scoring in [Scoring::Paired, Scoring::Paper] {
        let first = |r: &&PlacedRow| r.subject == names[0] && r.scoring == scoring;
        let mut made: Vec<(AggregateRow, Option<Aggregate>)> = Vec::new();
        for row in rows.iter().filter(first) {
            let of_model: Vec<&Scored> = scored
                .iter()
                .filter(|s| s.scoring == scoring && s.model == row.model)
                .collect();
            let rows = rows.iter();
            let rows = rows.filter(|r| r.scoring == scoring && r.model == row.model);
            let rows: Vec<&PlacedRow> = rows.collect();
            made.push(one(row, &names, &of_model, &rows)?);
        }
        let equal = scored
            .iter()
            .all(|s| s.scoring != scoring || s.equal_iterations);
        if equal {
            rank(&mut made)?;
        }
        out.extend(made.into_iter().map(|(row, _)| row));
    }
    Ok(out)
}

fn one(
    row: &PlacedRow,
    names: &[String],
    parts: &[&Scored],
    rows: &[&PlacedRow],
) -> Result<(AggregateRow, Option<Aggregate>), AppError> {
    let complete = parts.len() == names.len();
    let aggregate = if complete {
        let parts: Vec<Part<'_>> = parts
            .iter()
            .map(|s| Part {
                estimate: &s.estimate,
                draws: &s.draws,
            })
            .collect();
        let confidence = Bootstrap::default().confidence;
        Some(scoring::aggregate(&parts, confidence).map_err(|e| fault(&e))?)
    } else {
        None
    };
    let number = |of: &dyn Fn(&Aggregate) -> f64| aggregate.as_ref().map(|a| tidy(of(a)));
    let intervals = aggregate.as_ref().and_then(|a| a.intervals);
    let pair = |i: crate::stats::Interval| [tidy(i.lo), tidy(i.hi)];
    let unranked = match complete {
        false => Some(RankNote::Incomplete),
        true => rows.iter().find_map(|row| row.unranked),
    };
    let placed = AggregateRow {
        subjects: names.to_vec(),
        model: row.model.clone(),
        calibration: row.calibration,
        scoring: row.scoring,
        s1: number(&|a| a.s1),
        s2: number(&|a| a.s2),
        s3: number(&|a| a.s3),
        d: number(&|a| a.d),
        c1: number(&|a| a.chained.c1),
        c2: number(&|a| a.chained.c2),
        c3: number(&|a| a.chained.c3),
        score: number(&|a| a.chained.score),
        interval: intervals.map(|i| pair(i.score)),
        s1_interval: intervals.map(|i| pair(i.s1)),
        s2_interval: intervals.map(|i| pair(i.s2)),
        s3_interval: intervals.map(|i| pair(i.s3)),
        rank: None,
        rank_interval: None,
        unranked,
        stale: rows
            .iter()
            .filter_map(|row| row.stale.as_ref())
            .map(|stale| stale.iterations)
            .sum(),
        complete,
    };
    Ok((placed, aggregate))
}

/// Ranks the rows that may have one, among each other.
fn rank(rows: &mut [(AggregateRow, Option<Aggregate>)]) -> Result<(), AppError> {
    let ranked: Vec<usize> = (0..rows.len())
        .filter(|i| rows[*i].0.unranked.is_none())
        .collect();
    let parts: Vec<&Aggregate> = ranked.iter().filter_map(|i| rows[*i].1.as_ref()).collect();
    let scores: Vec<f64> = parts.iter().map(|a| a.chained.score).collect();
    let draws: Vec<&[f64]> = parts.iter().map(|a| a.draws.score.as_slice()).collect();
    for (i, (rank, interval)) in ranked.iter().zip(ranks(&scores, &draws)?) {
        let row = &mut rows[*i].0;
        (row.rank, row.rank_interval) = (Some(rank), Some(interval));
    }
    Ok(())
}
