//! The leaderboard as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};

use super::board::{Leaderboard, PlacedRow, RankNote};
use crate::oss::inputs::Scoring;

/// How text may look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Bold for what matters most; only for a terminal.
    pub colour: bool,
}

/// The whole report: what was measured, the rows, what was left out, what is missing.
pub fn text(board: &Leaderboard, style: Style) -> String {
    let mut out = String::new();
    if let Some(row) = board.rows.first() {
        head(&mut out, board, row);
    }
    for scoring in [Scoring::Paired, Scoring::Paper] {
        let rows: Vec<&PlacedRow> = board.rows.iter().filter(|r| r.scoring == scoring).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "\n{}", title(scoring));
            let _ = writeln!(out, "{}", table(&rows, style));
        }
    }
    if board.rows.iter().any(|r| r.calibration) {
        let _ = writeln!(
            out,
            "cal: a calibration model, edits with known effects; not a language model, not ranked."
        );
    }
    for row in &board.rows {
        if row.interval_disagreement.is_some_and(|d| d > 0.2) {
            let _ = writeln!(
                out,
                "note: the interval of {} ({}) is rough: two ways to compute it differ by {:.0} %.",
                row.model,
                row.scoring.name(),
                100.0 * row.interval_disagreement.unwrap_or_default()
            );
        }
    }
    if !board.missing.is_empty() {
        let _ = writeln!(
            out,
            "incomplete: still missing {}. `everbench run` goes on where it stopped.",
            counts(&board.missing)
        );
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

fn head(out: &mut String, board: &Leaderboard, row: &PlacedRow) {
    let _ = writeln!(
        out,
        "{} ({}): {} of {} functions asked, seed {}; {} not compiled; {}",
        row.subject,
        row.commit,
        row.functions,
        board.population,
        board.seed,
        row.unrelated,
        row.compiler
    );
    if !board.excluded.is_empty() {
        let _ = writeln!(out, "not in the population: {}", counts(&board.excluded));
    }
    if let Some(b) = &row.baseline {
        let rates: Vec<String> = b.pass_rates.iter().map(|r| format!("{r:.2}")).collect();
        let _ = writeln!(
            out,
            "baseline: {} test cases, {} failing, {} flaky, {} skipped; {} runs passed {} %; {} alerts of its own",
            b.cases,
            b.failing,
            b.flaky,
            b.skipped,
            b.runs,
            rates.join(", "),
            b.alerts
        );
    }
    let _ = writeln!(
        out,
        "penalty {:.3} a unique alert{}; weights {:.3} {:.3} {:.3}, {:.2} a changed line",
        board.penalty,
        if board.penalty_is_default {
            " (from the population's size)"
        } else {
            ""
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
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| {
        let key = |r: &PlacedRow| r.score.unwrap_or(f64::NEG_INFINITY);
        key(b)
            .total_cmp(&key(a))
            .then_with(|| a.model.cmp(&b.model))
    });
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let header = [
        "rank", "model", "compiles", "s1", "s2", "s3", "alerts", "d", "c2", "c3", "score", "95 %",
        "N/A", "applied",
    ];
    table.set_header(header.iter().map(|h| bold(Cell::new(h), style)));
    for row in rows {
        let number =
            |v: Option<f64>, digits: usize| v.map_or("-".to_string(), |v| format!("{v:.digits$}"));
        let rank = match (row.rank, row.rank_interval, row.unranked) {
            (Some(rank), Some([lo, hi]), _) if lo < hi => format!("{rank} ({lo}-{hi})"),
            (Some(rank), ..) => rank.to_string(),
            (None, _, Some(RankNote::Calibration)) => "cal".into(),
            (None, _, Some(RankNote::TooFewChanges)) => "few edits".into(),
            (None, _, Some(RankNote::Incomplete)) => "incomplete".into(),
            (None, ..) => "-".into(),
        };
        let compiles = match (row.compiles, row.fails) {
            (Some(c), Some(f)) => format!("{c}/{}", c + f),
            _ => "-".into(),
        };
        let interval = row
            .interval
            .map_or("-".to_string(), |[lo, hi]| format!("{lo:.1} .. {hi:.1}"));
        let count = |v: Option<u64>| v.map_or("-".to_string(), |v| v.to_string());
        let cells = [
            rank,
            row.model.clone(),
            compiles,
            number(row.s1, 2),
            number(row.s2, 2),
            number(row.s3, 2),
            count(row.alerts),
            number(row.d, 2),
            number(row.c2, 2),
            number(row.c3, 2),
            number(row.score, 1),
            interval,
            count(row.na),
            number(row.mean_applied, 2),
        ];
        table.add_row(cells.into_iter().enumerate().map(|(i, text)| {
            let cell = Cell::new(text);
            let cell = if i < 2 {
                cell
            } else {
                cell.set_alignment(CellAlignment::Right)
            };
            if i == 10 { bold(cell, style) } else { cell }
        }));
    }
    table
}

fn bold(cell: Cell, style: Style) -> Cell {
    if style.colour {
        cell.add_attribute(Attribute::Bold)
    } else {
        cell
    }
}
