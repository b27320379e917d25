//! `everbench score`

use std::path::{Path, PathBuf};

use super::common::{CliResult, EvaluationArgs, Format, colour, exit, options, print};
use super::run::{board, code, json};
use crate::app::{App, AppError};
use crate::oss::scoring::{self, RawRow, Unranked, Weights};
use crate::report::{self, Style};

/// Score what the store holds; runs nothing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    /// Apply the arithmetic to raw scores instead: a CSV file with columns model, s1, s2, s3 and
    /// d (changed lines) or bonus (already weighted).
    #[arg(long, value_name = "FILE.csv")]
    raw: Option<PathBuf>,
    /// How the leaderboard is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    if let Some(path) = &args.raw {
        return raw(path, args.format);
    }
    let app = App::open_to_score(dir)?;
    let options = options(&args.evaluation, None);
    let evaluation = app.score(&options)?;
    let board = board(&app, &options, &evaluation)?;
    match args.format {
        Format::Json => print(&json(&board))?,
        Format::Text => print(&report::text(&board, Style { colour: colour() }))?,
    }
    Ok(code(&board))
}

fn raw(path: &Path, format: Format) -> CliResult {
    let text = std::fs::read_to_string(path)
        .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))?;
    let rows = scoring::raw_table(&text, Weights::default(), 0.5)
        .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))?;
    match format {
        Format::Json => print(&json(
            &serde_json::json!({ "schema": "everbench/raw/1", "rows": raw_json(&rows) }),
        ))?,
        Format::Text => print(&raw_text(&rows))?,
    }
    Ok(exit::OK)
}

fn unranked(row: &RawRow) -> Option<&'static str> {
    row.rank.as_ref().err().map(|u| match u {
        Unranked::Yardstick => "yardstick",
        Unranked::HardlyEdits => "too_few_changes",
    })
}

fn raw_json(rows: &[RawRow]) -> Vec<serde_json::Value> {
    rows.iter()
        .map(|r| {
            serde_json::json!({
                "benchmark": r.benchmark, "model": r.model, "rank": r.rank.as_ref().ok(), "unranked": unranked(r),
                "s1": r.s1, "s2": r.s2, "s3": r.s3, "bonus": r.bonus,
                "c1": r.chained.c1, "c2": r.chained.c2, "c3": r.chained.c3, "score": r.chained.score,
            })
        })
        .collect()
}

fn raw_text(rows: &[RawRow]) -> String {
    let mut out = String::from("rank  score    c1      c2      c3      bonus  model\n");
    let mut benchmark = "";
    for r in rows {
        if r.benchmark != benchmark {
            benchmark = &r.benchmark;
            out.push_str(&format!("-- {benchmark}\n"));
        }
        let rank = r.rank.as_ref().map_or("-".to_string(), ToString::to_string);
        out.push_str(&format!(
            "{rank:>4}  {:>5.1}  {:>6.2}  {:>6.2}  {:>6.2}  {:>5.2}  {}\n",
            r.chained.score, r.chained.c1, r.chained.c2, r.chained.c3, r.bonus, r.model
        ));
    }
    out
}
