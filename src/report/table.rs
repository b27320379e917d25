//! The leaderboard as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};

use super::aggregate::AggregateRow;
use super::board::{Leaderboard, PlacedRow, RankNote, SubjectSummary};
use super::history::retired_text;
use super::upstream::{broken_line, paragraph};
use crate::oss::inputs::Scoring;
use crate::oss::metrics;
use crate::oss::scoring::PENALTY_CAP;

/// How text may look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Bold for what matters most; only for a terminal.
    pub colour: bool,
}

/// The whole report: what was measured, the rows, what was left out, what is missing.
pub fn text(board: &Leaderboard, style: Style) -> String {
    let mut out = String::new();
    for subject in &board.subjects {
        let own = |r: &&PlacedRow| r.subject == subject.subject;
        let Some(row) = board.rows.iter().find(own) else {
            continue;
        };
        if !out.is_empty() {
            out.push('\n');
        }
        head(&mut out, board, subject, row);
        for scoring in [Scoring::Paired, Scoring::Paper] {
            let rows = board.rows.iter().filter(own);
            let rows: Vec<&PlacedRow> = rows.filter(|r| r.scoring == scoring).collect();
            if !rows.is_empty() {
                let _ = writeln!(out, "\n{}", title(scoring));
                let _ = writeln!(out, "{}", table(&rows, style));
            }
        }
        if let Some(upstream) = &subject.upstream {
            paragraph(upstream, &mut out);
        }
        if let Some(carry) = &subject.carry {
            let _ = writeln!(out, "{}", carry.line());
        }
    }
    for scoring in [Scoring::Paired, Scoring::Paper] {
        let rows = board.aggregate.iter().filter(|r| r.scoring == scoring);
        let rows: Vec<&AggregateRow> = rows.collect();
        if let Some(row) = rows.first() {
            let _ = writeln!(
                out,
                "\nall subjects, {}: means of {}, each with the same weight",
                scoring.name(),
                row.subjects.join(", ")
            );
            let _ = writeln!(out, "{}", aggregate(&rows, style));
        }
    }
    if board.rows.iter().any(|r| r.calibration) {
        let _ = writeln!(
            out,
            "cal: a calibration model, edits with known effects; not a language model, not ranked."
        );
    }
    if board.stale() > 0 {
        out.push_str(
            "*: not all of it was measured on this commit; `everbench run` without `--carry` measures all.\n",
        );
    }
    for row in &board.rows {
        if row.interval_disagreement.is_some_and(|d| d > 0.2) {
            let _ = writeln!(
                out,
                "note: the interval of {} on {} ({}) is rough: two ways to compute it differ by {:.0} %.",
                row.model,
                row.subject,
                row.scoring.name(),
                100.0 * row.interval_disagreement.unwrap_or_default()
            );
        }
    }
    out.push_str(&retired_text(&board.retired));
    for row in &board.rows {
        if let Some(retracted) = &row.retracted {
            let _ = writeln!(
                out,
                "retracted: {} on {} ({}) rests on {} facts that were taken back: {}. It is not scored until its replies are of another revision.",
                row.model,
                row.subject,
                row.scoring.name(),
                retracted.facts,
                retracted.reasons.join("; ")
            );
        }
    }
    if !board.missing.is_empty() {
        let missing = counts(&board.missing);
        let _ = match &board.asked_otherwise {
            None => writeln!(
                out,
                "incomplete: still missing {missing}. `everbench run` goes on where it stopped."
            ),
            Some(why) => writeln!(
                out,
                "incomplete: still missing {missing}; {why}. `everbench run` with what this was asked with runs the rest."
            ),
        };
    }
    for broken in &board.baseline_broken {
        let reason = broken.what.lines().next().unwrap_or_default();
        let said = broken_line(&broken.commit, reason, broken.last_good.as_deref());
        let _ = writeln!(out, "skipped: {} at {said}", broken.subject);
    }
    for problem in &board.problems {
        let _ = writeln!(out, "problem: {problem}");
    }
    out
}

fn title(scoring: Scoring) -> &'static str {
    match scoring {
        Scoring::Paired => {
            "paired: the same functions replaced for every model; what does not compile stays original"
        }
        Scoring::Paper => "paper: functions drawn from what compiles for the model, as published",
    }
}

fn head(out: &mut String, board: &Leaderboard, subject: &SubjectSummary, row: &PlacedRow) {
    let _ = writeln!(
        out,
        "{} ({}), {}: {} of {} functions asked, seed {}; {} not compiled; {}",
        row.subject,
        row.commit,
        row.task,
        row.functions,
        subject.population,
        board.seed,
        row.unrelated,
        row.compiler
    );
    if !subject.excluded.is_empty() {
        let excluded = counts(&subject.excluded);
        let _ = writeln!(out, "not in the population: {excluded}");
    }
    if let Some(b) = &row.baseline {
        let profile = row.profile.as_ref();
        let profile = profile.map_or(String::new(), |name| format!(" of profile {name}"));
        let _ = writeln!(
            out,
            "baseline{}: {} test cases in {} shards, {} failing, {} flaky, {} skipped; {} runs passed {} %; {} alerts of its own",
            profile,
            b.cases,
            b.shards,
            b.failing,
            b.flaky,
            b.skipped,
            b.runs,
            b.rates(),
            b.alerts
        );
        for group in &b.groups {
            let _ = write!(
                out,
                "tests of files `{}`: {} shards, {} files excluded",
                group.name, group.shards, group.excluded
            );
            if !group.unused.is_empty() {
                let _ = write!(out, "; no file matches {}", group.unused.join(", "));
            }
            out.push('\n');
        }
    }
    let _ = writeln!(
        out,
        "penalty {:.3} a unique alert{}; weights {:.3} {:.3} {:.3}, {:.2} a changed line",
        subject.penalty,
        match subject.penalty_is_default {
            true if subject.penalty >= PENALTY_CAP =>
                " (capped at 10: the population's size would give more)",
            true => " (from the population's size)",
            false => "",
        },
        board.weights[0],
        board.weights[1],
        board.weights[2],
        board.weights[3]
    );
}

/// `a 3, b 1`.
pub fn counts(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".into();
    }
    counts
        .iter()
        .map(|(k, n)| format!("{k} {n}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn table(rows: &[&PlacedRow], style: Style) -> Table {
    let rows = by_score(rows, |r| (r.score, &r.model));
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let header = [
        "rank", "model", "compiles", "s1", "s2", "s3", "alerts", "d", "c2", "c3", "score", "95 %",
        "N/A", "applied",
    ];
    let further: BTreeSet<&str> = rows
        .iter()
        .flat_map(|r| r.metrics.keys().copied())
        .collect();
    let columns: Vec<(&str, &str, &str)> = further
        .iter()
        .filter_map(|name| metrics::named(name))
        .flat_map(|m| {
            m.columns
                .iter()
                .map(|(group, title)| (m.name, *group, *title))
        })
        .collect();
    let titles = columns.iter().map(|(_, _, title)| title);
    table.set_header(
        header
            .iter()
            .chain(titles)
            .map(|h| bold(Cell::new(h), style)),
    );
    for row in rows {
        let compiles = match (row.compiles, row.fails) {
            (Some(c), Some(f)) => format!("{c}/{}", c + f),
            _ => "-".into(),
        };
        let count = |v: Option<u64>| v.map_or("-".to_string(), |v| v.to_string());
        let cells = [
            rank(row.rank, row.rank_interval, row.unranked),
            marked(&row.model, row.stale.is_some()),
            compiles,
            number(row.s1, 2),
            number(row.s2, 2),
            number(row.s3, 2),
            count(row.alerts),
            number(row.d, 2),
            number(row.c2, 2),
            number(row.c3, 2),
            number(row.score, 1),
            interval(row.interval),
            count(row.na),
            number(row.mean_applied, 2),
        ];
        let further = columns.iter().map(|(name, group, _)| {
            let total = row.metrics.get(name).and_then(|m| m.groups.get(group));
            total.map_or("-".to_string(), |g| g.total.to_string())
        });
        let cells: Vec<String> = cells.into_iter().chain(further).collect();
        table.add_row(aligned(cells, 10, style));
    }
    table
}

/// The highest score first, rows without one last, equal ones by model.
fn by_score<'a, T>(rows: &[&'a T], of: impl Fn(&T) -> (Option<f64>, &String)) -> Vec<&'a T> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| {
        let ((a, model), (b, other)) = (of(a), of(b));
        let number = |score: Option<f64>| score.unwrap_or(f64::NEG_INFINITY);
        number(b)
            .total_cmp(&number(a))
            .then_with(|| model.cmp(other))
    });
    rows
}

/// The table of the aggregate.
fn aggregate(rows: &[&AggregateRow], style: Style) -> Table {
    let rows = by_score(rows, |r| (r.score, &r.model));
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let header = [
        "rank", "model", "s1", "s2", "s3", "d", "c2", "c3", "score", "95 %",
    ];
    table.set_header(header.iter().map(|h| bold(Cell::new(h), style)));
    for row in rows {
        let cells = [
            rank(row.rank, row.rank_interval, row.unranked),
            marked(&row.model, row.stale > 0),
            number(row.s1, 2),
            number(row.s2, 2),
            number(row.s3, 2),
            number(row.d, 2),
            number(row.c2, 2),
            number(row.c3, 2),
            number(row.score, 1),
            interval(row.interval),
        ];
        table.add_row(aligned(cells, 8, style));
    }
    table
}

/// The first two columns to the left, the others to the right; `bold_at` is the score.
fn aligned(
    cells: impl IntoIterator<Item = String>,
    bold_at: usize,
    style: Style,
) -> impl Iterator<Item = Cell> {
    cells.into_iter().enumerate().map(move |(i, text)| {
        let cell = match i {
            0 | 1 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        };
        if i == bold_at {
            bold(cell, style)
        } else {
            cell
        }
    })
}

/// A model's name, with a mark if its row holds what was not measured on this commit.
fn marked(model: &str, stale: bool) -> String {
    format!("{model}{}", if stale { " *" } else { "" })
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_string(), |v| format!("{v:.digits$}"))
}

fn interval(interval: Option<[f64; 2]>) -> String {
    interval.map_or("-".to_string(), |[lo, hi]| format!("{lo:.1} .. {hi:.1}"))
}

fn rank(rank: Option<u32>, interval: Option<[u32; 2]>, unranked: Option<RankNote>) -> String {
    match (rank, interval, unranked) {
        (Some(rank), Some([lo, hi]), _) if lo < hi => format!("{rank} ({lo}-{hi})"),
        (Some(rank), ..) => rank.to_string(),
        (None, _, Some(RankNote::Calibration)) => "cal".into(),
        (None, _, Some(RankNote::TooFewChanges)) => "few edits".into(),
        (None, _, Some(RankNote::Incomplete)) => "incomplete".into(),
        (None, _, Some(RankNote::Retracted)) => "retracted".into(),
        (None, ..) => "-".into(),
    }
}

fn bold(cell: Cell, style: Style) -> Cell {
    if style.colour {
        cell.add_attribute(Attribute::Bold)
    } else {
        cell
    }
}
