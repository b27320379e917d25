//! Scores through the commits of a subject: of each complete evaluation, and what changed since the
//! one before over the functions that both have.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::board::weights;
use crate::app::BrokenCommit;
use crate::ask;
use crate::config::ScoreConfig;
use crate::date;
use crate::digest::Digest;
use crate::oss::history::{Common, Composition, Pair, Partial, Summary, partial};
use crate::oss::inputs::Scoring;
use crate::oss::leaderboard::Prices;
use crate::oss::scoring::default_penalty;

/// The version of the JSON document.
pub const HISTORY_SCHEMA: &str = "everbench/scores-by-commit/1";

/// How many names of functions are listed in text.
const LISTED: usize = 8;

/// A subject through its commits.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SubjectHistory {
    /// Its name.
    pub subject: String,
    /// Oldest first.
    pub commits: Vec<CommitLine>,
    /// Commits that could not be measured, oldest first.
    pub broken: Vec<BrokenLine>,
}

/// A commit at which the unchanged subject does not build, or its tests say nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BrokenLine {
    /// Which source it was.
    pub commit: String,
    /// When it was committed, if the source says that.
    pub committed: Option<String>,
    /// When it was first found to be broken.
    pub seen: String,
    /// What is wrong, in one line.
    pub reason: String,
    /// The commit of the evaluation that is listed before it, if there is one.
    pub after: Option<String>,
    /// How many evaluations are listed before it.
    #[serde(skip)]
    place: usize,
}

/// A complete evaluation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CommitLine {
    /// Which source it was: a version, or a snapshot's digest.
    pub commit: String,
    /// When it was committed, if the source says that.
    pub committed: Option<String>,
    /// When it was evaluated.
    pub evaluated: String,
    /// Identifies the evaluation.
    pub evaluation: Digest,
    /// The compiler's version line.
    pub compiler: String,
    /// Whether the toolchain is another one than in the evaluation before.
    pub other_toolchain: bool,
    /// The size of the population that the sample was drawn from.
    pub population: u64,
    /// How many broken commits lie between the evaluation that is listed before it and this one.
    pub skipped: usize,
    /// What it is compared with.
    pub before: Option<String>,
    /// How the functions differ from those of that one.
    pub composition: Option<Composition>,
    /// One per model and scoring.
    pub rows: Vec<RowLine>,
    /// Models without rows since these rest on retracted facts, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub retracted: BTreeMap<String, Vec<String>>,
}

/// A row of an evaluation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RowLine {
    /// The model's name.
    pub model: String,
    /// `paired` or `paper`.
    pub scoring: Scoring,
    /// Over all functions that were asked.
    pub all: Partial,
    /// Over those that the evaluation before had too; absent if the row was not in it.
    pub common: Option<Common>,
}

/// The history of a subject out of its summaries, oldest first, and its broken commits, with the
/// penalty that is set for it.
pub fn history(
    subject: &str,
    summaries: &[Summary],
    broken: &[BrokenCommit],
    config: &ScoreConfig,
    penalty: Option<f64>,
) -> SubjectHistory {
    let shown: Vec<&Summary> = summaries
        .iter()
        .enumerate()
        .filter(|(at, s)| !summaries[at + 1..].iter().any(|later| s.is_in(later)))
        .map(|(_, s)| s)
        .collect();
    let broken = placed(broken, &shown);
    let commits = shown.iter().enumerate().map(|(at, summary)| {
        let comparable = |s: &&&Summary| {
            s.tree != summary.tree && s.task == summary.task && s.extractor == summary.extractor
        };
        let before = shown[..at].iter().rev().find(comparable).copied();
        CommitLine {
            skipped: broken.iter().filter(|b| b.place == at).count(),
            ..line(summary, before, config, penalty)
        }
    });
    SubjectHistory {
        subject: subject.to_string(),
        commits: commits.collect(),
        broken,
    }
}

/// Broken commits among evaluations: by the dates of the commits where all have one, else by when
/// this program came upon them.
fn placed(broken: &[BrokenCommit], shown: &[&Summary]) -> Vec<BrokenLine> {
    let dated =
        shown.iter().all(|s| s.committed.is_some()) && broken.iter().all(|b| b.committed.is_some());
    let seen = |b: &BrokenCommit| date::time(b.seen.try_into().unwrap_or(i64::MAX));
    let time = |b: &BrokenCommit| match &b.committed {
        Some(committed) if dated => committed.clone(),
        _ => seen(b),
    };
    let is_before = |s: &Summary, time: &str| match &s.committed {
        Some(committed) if dated => committed.as_str() <= time,
        _ => s.evaluated.as_str() <= time,
    };
    let mut sorted: Vec<&BrokenCommit> = broken.iter().collect();
    sorted.sort_by_key(|b| time(b));
    let line = |b: &BrokenCommit| {
        let place = shown
            .iter()
            .rposition(|s| is_before(s, &time(b)))
            .map_or(0, |at| at + 1);
        BrokenLine {
            commit: b.commit.clone(),
            committed: b.committed.clone(),
            seen: seen(b),
            reason: b.reason().to_string(),
            after: place.checked_sub(1).map(|at| shown[at].commit.clone()),
            place,
        }
    };
    sorted.into_iter().map(line).collect()
}

fn line(
    summary: &Summary,
    before: Option<&Summary>,
    config: &ScoreConfig,
    penalty: Option<f64>,
) -> CommitLine {
    let task = ask::task(&summary.task).unwrap_or(&ask::tasks()[0]);
    let usual = default_penalty(summary.population as usize);
    let prices = Prices {
        penalty: penalty.unwrap_or(usual),
        weights: weights(config, task),
    };
    let pair = before.map(|before| Pair::new(before, summary));
    let mut rows = Vec::new();
    for (model, by_scoring) in &summary.iterations {
        for (scoring, iterations) in by_scoring {
            let cases = summary.cases.get(model).map_or(&[][..], Vec::as_slice);
            let there = |before: &&Summary| !before.iterations_of(model, *scoring).is_empty();
            let compared = before.filter(there).and(pair.as_ref());
            rows.push(RowLine {
                model: model.clone(),
                scoring: *scoring,
                all: partial(cases, iterations, prices, None, None),
                common: compared.and_then(|pair| pair.row(model, *scoring, prices)),
            });
        }
    }
    CommitLine {
        commit: summary.commit.clone(),
        committed: summary.committed.clone(),
        evaluated: summary.evaluated.clone(),
        evaluation: summary.evaluation,
        compiler: summary.compiler.clone(),
        other_toolchain: before.is_some_and(|b| b.toolchain != summary.toolchain),
        population: summary.population,
        skipped: 0,
        before: before.map(|b| b.commit.clone()),
        composition: pair.map(|pair| pair.composition),
        rows,
        retracted: summary.retracted.clone(),
    }
}

/// The same for people.
pub fn history_text(history: &SubjectHistory) -> String {
    let mut out = format!("{}\n", history.subject);
    if history.commits.is_empty() {
        out.push_str("  nothing was evaluated to the end yet; `everbench run` does that\n");
    }
    for (at, line) in history.commits.iter().enumerate() {
        broken_at(history, at, &mut out);
        let dated = match &line.committed {
            Some(date) => format!("committed {}", day(date)),
            None => format!("evaluated {}", day(&line.evaluated)),
        };
        let functions = line.rows.first().map_or(0, |r| r.all.functions);
        let _ = writeln!(
            out,
            "\n  {} ({dated}): {functions} of {} functions asked",
            line.commit, line.population
        );
        if let (Some(before), Some(c)) = (&line.before, &line.composition) {
            let skipped = match line.skipped {
                0 => String::new(),
                1 => " (1 broken commit skipped)".to_string(),
                n => format!(" ({n} broken commits skipped)"),
            };
            let _ = writeln!(
                out,
                "    against {before}{skipped}: {} in common{}{}{}",
                c.common,
                named("with another text", &c.changed),
                named("added", &c.added),
                named("removed", &c.removed),
            );
        }
        if line.other_toolchain {
            let _ = writeln!(
                out,
                "    another toolchain: {}; see `everbench rollover`",
                line.compiler
            );
        }
        for (model, reasons) in &line.retracted {
            let _ = writeln!(out, "    {model}: retracted: {}", reasons.join("; "));
        }
        let width = line.rows.iter().map(|r| r.model.len()).max().unwrap_or(0);
        for row in &line.rows {
            let a = &row.all;
            let _ = write!(
                out,
                "    {:width$}  {:6}  score {}  s1 {}  s2 {}  s3 {}",
                row.model,
                row.scoring.name(),
                number(a.score),
                number(a.s1),
                number(a.s2),
                number(a.s3)
            );
            if a.stale > 0 {
                let _ = write!(out, "  ({} of {} iterations stale)", a.stale, a.iterations);
            }
            if let Some(common) = &row.common {
                out.push_str(&compared(common, a.iterations));
            }
            out.push('\n');
        }
    }
    broken_at(history, history.commits.len(), &mut out);
    out
}

/// The broken commits that are listed after so many evaluations.
fn broken_at(history: &SubjectHistory, place: usize, out: &mut String) {
    let mut here = history
        .broken
        .iter()
        .filter(|b| b.place == place)
        .peekable();
    if here.peek().is_some() {
        out.push('\n');
    }
    for broken in here {
        let dated = match &broken.committed {
            Some(date) => format!("committed {}", day(date)),
            None => format!("seen {}", day(&broken.seen)),
        };
        let _ = writeln!(
            out,
            "  {} ({dated}): baseline_broken, skipped: {}",
            broken.commit, broken.reason
        );
    }
}

fn compared(common: &Common, iterations: u64) -> String {
    let [old, new] = &common.all;
    let mut out = format!("  | in common: s1 {}", arrow(old.s1, new.s1));
    match new.iterations {
        0 => out.push_str(", no iteration of common functions only"),
        n => {
            let _ = write!(
                out,
                ", s2 {}, s3 {} ({n} of {iterations} iterations)",
                arrow(old.s2, new.s2),
                arrow(old.s3, new.s3)
            );
        }
    }
    out
}

fn named(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let first: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    format!("; {} {what}: {}{more}", names.len(), first.join(", "))
}

fn arrow(old: Option<f64>, new: Option<f64>) -> String {
    match old == new {
        true => number(new).trim_start().to_string(),
        false => format!("{} -> {}", number(old).trim(), number(new).trim()),
    }
}

fn number(x: Option<f64>) -> String {
    x.map_or("     -".into(), |x| format!("{x:6.2}"))
}

fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

/// A row of a model that is not asked any more.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RetiredRow {
    /// The subject's name.
    pub subject: String,
    /// The model's name.
    pub model: String,
    /// `paired` or `paper`.
    pub scoring: Scoring,
    /// Since when it is not asked.
    pub retired: String,
    /// The source that it was last evaluated on.
    pub commit: String,
    /// When that was.
    pub evaluated: String,
    /// What it gave.
    pub all: Partial,
}

/// The last rows of the models in `retired`, each with its day, out of a subject's summaries.
pub fn retired_rows(
    subject: &str,
    summaries: &[Summary],
    retired: &BTreeMap<String, String>,
    config: &ScoreConfig,
    penalty: Option<f64>,
) -> Vec<RetiredRow> {
    let mut out = Vec::new();
    for (model, day) in retired {
        for scoring in &config.scorings {
            let has = |s: &&Summary| !s.iterations_of(model, *scoring).is_empty();
            let Some(last) = summaries.iter().rev().find(has) else {
                continue;
            };
            let rows = line(last, None, config, penalty).rows.into_iter();
            let own = rows.filter(|r| r.model == *model && r.scoring == *scoring);
            out.extend(own.map(|row| RetiredRow {
                subject: subject.to_string(),
                model: row.model,
                scoring: row.scoring,
                retired: day.clone(),
                commit: last.commit.clone(),
                evaluated: last.evaluated.clone(),
                all: row.all,
            }));
        }
    }
    out
}

/// Rows of retired models, a line each.
pub(super) fn retired_text(rows: &[RetiredRow]) -> String {
    let mut out = String::new();
    for row in rows {
        let _ = writeln!(
            out,
            "retired: {} on {} ({}), not asked since {}: score {}, s1 {}, s2 {}, s3 {} on {}, evaluated {}; frozen, not ranked",
            row.model,
            row.subject,
            row.scoring.name(),
            row.retired,
            number(row.all.score).trim(),
            number(row.all.s1).trim(),
            number(row.all.s2).trim(),
            number(row.all.s3).trim(),
            row.commit,
            day(&row.evaluated)
        );
    }
    out
}

/// Scores over functions that are young enough.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SinceRow {
    /// The subject's name.
    pub subject: String,
    /// The model's name.
    pub model: String,
    /// `paired` or `paper`.
    pub scoring: Scoring,
    /// The day from which on a function counts; absent if the model's card has no cutoff.
    pub since: Option<String>,
    /// Functions asked.
    pub asked: u64,
    /// Of these, those that were there before, or may have been.
    pub older: u64,
    /// Those of unknown age.
    pub unknown: u64,
    /// Over the functions that are left, and the iterations that replace only these; absent while
    /// the row is incomplete or the date is not known.
    pub young: Option<Partial>,
    /// The 95 % interval of s1, percent: Wilson's.
    pub s1_interval: Option<[f64; 2]>,
    /// Iterations of the whole row.
    pub iterations: u64,
}

/// Rows over young functions, for people.
pub fn since_text(rows: &[SinceRow]) -> String {
    let mut out = String::from(
        "only functions whose text was in no earlier commit that was followed: not there before the date, as far as the\nrepository's own dates say; functions of unknown age are left out\n",
    );
    let width = rows.iter().map(|r| r.model.len()).max().unwrap_or(0);
    let mut subjects: BTreeMap<&str, Vec<&SinceRow>> = BTreeMap::new();
    for row in rows {
        subjects.entry(&row.subject).or_default().push(row);
    }
    for (subject, rows) in subjects {
        let _ = writeln!(out, "\n{subject}");
        for row in rows {
            let _ = write!(out, "  {:width$}  {:6}  ", row.model, row.scoring.name());
            let since = match &row.since {
                Some(since) => since,
                None => {
                    out.push_str("its card has no cutoff: not scored\n");
                    continue;
                }
            };
            let _ = write!(out, "{since}: ");
            match &row.young {
                None => out.push_str("incomplete"),
                Some(p) if p.functions == 0 => out.push_str("no function is young enough"),
                Some(p) => {
                    let _ = write!(out, "s1 {}", number(p.s1).trim());
                    if let Some([lo, hi]) = row.s1_interval {
                        let _ = write!(out, " [{lo:.1}, {hi:.1}]");
                    }
                    let _ = write!(out, " over {} functions", p.functions);
                    match p.iterations {
                        0 => out.push_str("; no iteration replaces only such functions"),
                        n => {
                            let _ = write!(
                                out,
                                "; s2 {}, s3 {} over {n} of {} iterations",
                                number(p.s2).trim(),
                                number(p.s3).trim(),
                                row.iterations
                            );
                        }
                    }
                }
            }
            let _ = writeln!(
                out,
                " (of {} asked, {} older, {} of unknown age)",
                row.asked, row.older, row.unknown
            );
        }
    }
    out
}
