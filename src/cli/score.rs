//! `everbench score`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::common::{CliResult, EvaluationArgs, Format, colour, exit, options, print};
use super::release::{head, parsed};
use super::run::{board, code, json, tell};
use crate::app::findings::{findings, fingerprints};
use crate::app::{App, AppError, Evaluation, Options, Release};
use crate::oss::scoring::{self, RawRow, Unranked, Weights};
use crate::report::{self, Since, Style};

/// Score what the store holds; runs nothing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    /// Apply the arithmetic to raw scores instead: a CSV file with columns model, s1, s2, s3 and
    /// d (changed lines) or bonus (already weighted).
    #[arg(long, value_name = "FILE.csv")]
    raw: Option<PathBuf>,
    /// Show a release beside it, with what differs.
    #[arg(long, value_name = "RELEASE", conflicts_with = "raw")]
    beside: Option<String>,
    /// Score only functions whose text cannot have been in the repository before this day:
    /// YYYY-MM-DD. For subjects from git; others say nothing about the age of their texts.
    #[arg(long, value_name = "DATE", value_parser = report::Since::day, conflicts_with_all = ["raw", "beside", "since_cutoff"])]
    since: Option<report::Since>,
    /// The same, for each model from the day after its training data ended: `cutoff` in its card.
    #[arg(long, conflicts_with_all = ["raw", "beside"])]
    since_cutoff: bool,
    /// Score with and without the functions that a model was found to know: of repositories that
    /// `contamination repo` called contaminated, and those from which it named their project in
    /// `contamination probe`.
    #[arg(long, conflicts_with_all = ["raw", "beside", "since", "since_cutoff"])]
    without_contaminated: bool,
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
    let cutoff = args.since_cutoff.then_some(Since::Cutoff);
    if let Some(since) = args.since.clone().or(cutoff) {
        return young(&app, &options, &evaluation, &since, args.format);
    }
    if args.without_contaminated {
        return clean(dir, &app, &options, &evaluation, args.format);
    }
    let board = board(&app, &options, &evaluation)?;
    if let Some(name) = &args.beside {
        let frozen = Release::open(&app.store, name)?.board()?;
        let (frozen, rolling) = (parsed(&frozen), parsed(&json(&board)));
        let beside = report::beside((name, &frozen), ("now", &rolling));
        match args.format {
            Format::Json => print(&json(&serde_json::json!({
                "schema": beside.schema, "frozen": frozen, "now": rolling, "beside": beside,
            })))?,
            Format::Text => {
                let release = Release::open(&app.store, name)?;
                let now = report::text(&board, Style { colour: colour() });
                let head = format!("{}\n\n{}", head(&release.record), release.text()?);
                let beside = report::beside_text(&beside);
                print(&format!("{head}\nnow:\n\n{now}\n{beside}"))?;
            }
        }
        return Ok(code(&board));
    }
    match args.format {
        Format::Json => print(&json(&board))?,
        Format::Text if board.subjects.is_empty() => {}
        Format::Text => print(&report::text(&board, Style { colour: colour() }))?,
    }
    Ok(code(&board))
}

/// Scores over the functions that are young enough.
fn young(
    app: &App,
    options: &Options,
    evaluation: &Evaluation,
    since: &Since,
    format: Format,
) -> CliResult {
    let mut ages = BTreeMap::new();
    for board in &evaluation.boards {
        let name = &board.manifest.name;
        ages.insert(name.clone(), app.ages(name)?);
    }
    let penalties = app.project.penalties(options);
    let config = &app.project.config.score;
    let rows = report::since(evaluation, &ages, config, &penalties, since)?;
    match format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": report::SINCE_SCHEMA, "rows": rows, "missing": evaluation.missing,
        })))?,
        Format::Text => print(&report::since_text(&rows))?,
    }
    Ok(ended(evaluation))
}

/// Scores with and without what models were found to know.
fn clean(
    dir: &Path,
    app: &App,
    options: &Options,
    evaluation: &Evaluation,
    format: Format,
) -> CliResult {
    let rows = report::known(
        evaluation,
        &findings(dir)?,
        &fingerprints(evaluation),
        &app.project.config.score,
        &app.project.penalties(options),
    )?;
    match format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": report::KNOWN_SCHEMA, "rows": rows, "missing": evaluation.missing,
        })))?,
        Format::Text => print(&report::known_text(&rows))?,
    }
    Ok(ended(evaluation))
}

/// How a command over an evaluation ends that shows no leaderboard.
fn ended(evaluation: &Evaluation) -> u8 {
    let broken = evaluation
        .boards
        .iter()
        .filter_map(|b| b.board.broken.as_ref());
    let broken: Vec<_> = broken.map(|fault| tell(&fault.what, &fault.help)).collect();
    match (broken.is_empty(), evaluation.missing.is_empty()) {
        (false, _) => exit::BASELINE,
        (true, true) => exit::OK,
        (true, false) => exit::INCOMPLETE,
    }
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
