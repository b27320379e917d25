//! Scores with and without the functions that a model was found to know.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::board::weights;
use super::since::{Part, part};
use crate::app::{AppError, Evaluation};
use crate::config::ScoreConfig;
use crate::contamination::findings::{Findings, Why};
use crate::digest::Digest;
use crate::oss::history::{Partial, case_lines, iteration_lines, partial};
use crate::oss::inputs::Scoring;

/// The version of the JSON document.
pub const KNOWN_SCHEMA: &str = "everbench/without-contaminated/1";

/// Scores of a row, over all functions and over those that the model was not found to know.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KnownRow {
    /// The subject's name.
    pub subject: String,
    /// The model's name.
    pub model: String,
    /// `paired` or `paper`.
    pub scoring: Scoring,
    /// Functions asked.
    pub asked: u64,
    /// Of these, those that were tested, in a repository or by themselves.
    pub tested: u64,
    /// Those that are left out, by reason: `repository`, `named`.
    pub left_out: BTreeMap<&'static str, u64>,
    /// The repository that the model knows, if the subject is a version of it: then all functions are
    /// left out.
    pub version_of: Option<String>,
    /// Over all functions; absent while the row is incomplete.
    pub all: Option<Partial>,
    /// Over the functions that are left, and the iterations that replace only these.
    pub clean: Option<Partial>,
    /// The 95 % interval of the latter's s1, percent: Wilson's.
    pub s1_interval: Option<[f64; 2]>,
}

/// The rows of an evaluation with and without what models know, by the fingerprints of functions' texts.
///
/// # Errors
/// Counts of which no interval can be had.
pub fn known(
    evaluation: &Evaluation,
    findings: &Findings,
    fingerprints: &BTreeMap<Digest, u64>,
    config: &ScoreConfig,
    penalties: &BTreeMap<String, Option<f64>>,
) -> Result<Vec<KnownRow>, AppError> {
    let mut out = Vec::new();
    for board in &evaluation.boards {
        let sample = board.board.sample.as_deref().map_or(&[][..], Vec::as_slice);
        let prices = super::since::prices(board, weights(config, evaluation.world.task), penalties);
        let functions: Vec<Option<u64>> = sample
            .iter()
            .map(|f| fingerprints.get(&f.text).copied())
            .collect();
        let all: Vec<u64> = functions.iter().copied().flatten().collect();
        for row in &board.board.rows {
            let revision = row.spec.answers.asked().map(|(revision, ..)| revision);
            let known = revision.and_then(|revision| findings.of(revision));
            let version = known.and_then(|known| known.version(&all));
            let why = |function: &Option<u64>| -> Option<Why<'_>> {
                version.or_else(|| known?.function((*function)?))
            };
            let left_out: Vec<Option<Why<'_>>> = functions.iter().map(why).collect();
            let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
            for why in left_out.iter().flatten() {
                *reasons.entry(why.name()).or_default() += 1;
            }
            let tested = |function: &&Option<u64>| {
                let tested = known.zip(**function);
                version.is_some() || tested.is_some_and(|(known, f)| known.is_tested(f))
            };
            let clean: Vec<bool> = left_out.iter().map(Option::is_none).collect();
            let facts = row.facts.as_deref();
            let Part {
                scored,
                s1_interval,
            } = part(facts, &clean, prices)?;
            out.push(KnownRow {
                subject: board.manifest.name.clone(),
                model: row.spec.name.clone(),
                scoring: row.scoring,
                asked: sample.len() as u64,
                tested: functions.iter().filter(tested).count() as u64,
                left_out: reasons,
                version_of: version.map(|why| why.whose().to_string()),
                all: facts.map(|facts| {
                    let (cases, iterations) = (case_lines(facts), iteration_lines(facts));
                    partial(&cases, &iterations, prices, None, None)
                }),
                clean: scored,
                s1_interval,
            });
        }
    }
    Ok(out)
}

/// The same for people.
pub fn known_text(rows: &[KnownRow]) -> String {
    let mut out = String::from(
        "with and without the functions that a model was found to know (`everbench contamination repo` and `probe`)\n",
    );
    let width = rows.iter().map(|r| r.model.len()).max().unwrap_or(0);
    let mut subjects: BTreeMap<&str, Vec<&KnownRow>> = BTreeMap::new();
    for row in rows {
        subjects.entry(&row.subject).or_default().push(row);
    }
    for (subject, rows) in subjects {
        let _ = writeln!(out, "\n{subject}");
        for row in rows {
            let _ = write!(out, "  {:width$}  {:6}  ", row.model, row.scoring.name());
            match (&row.all, &row.clean) {
                (Some(all), Some(clean)) => {
                    let _ = write!(out, "all: {}; without: ", figures(all, None));
                    match clean.functions {
                        0 => out.push_str("no function is left"),
                        _ => out.push_str(&figures(clean, row.s1_interval)),
                    }
                }
                _ => out.push_str("incomplete"),
            }
            let _ = writeln!(out, " ({})", counted(row));
        }
    }
    out
}

fn figures(part: &Partial, interval: Option<[f64; 2]>) -> String {
    let number = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.2}"));
    let mut out = format!("s1 {}", number(part.s1));
    if let Some([lo, hi]) = interval {
        let _ = write!(out, " [{lo:.1}, {hi:.1}]");
    }
    let _ = write!(out, " over {} functions", part.functions);
    match part.iterations {
        0 => out.push_str(", no iteration"),
        n => {
            let (s2, s3) = (number(part.s2), number(part.s3));
            let _ = write!(out, ", s2 {s2}, s3 {s3} over {n} iterations");
        }
    }
    out
}

fn counted(row: &KnownRow) -> String {
    if let Some(repository) = &row.version_of {
        return format!("the model knows {repository}, of which this is a version");
    }
    if row.tested == 0 {
        return "not tested".into();
    }
    let of = |why: &str| row.left_out.get(why).copied().unwrap_or(0);
    format!(
        "{} of {} tested; left out: {} of repositories that it knows, {} that it named",
        row.tested,
        row.asked,
        of("repository"),
        of("named")
    )
}
