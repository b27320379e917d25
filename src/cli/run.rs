//! `everbench run`

use std::collections::BTreeMap;
use std::path::Path;

use super::common::{
    CarryArgs, CliResult, EvaluationArgs, ExecutionArgs, Format, cancel_on_signals, colour, exit,
    options, print, usd,
};
use super::progress::{Reporter, duration};
use crate::app::{App, AppError, Evaluation, Options, Statement};
use crate::ask::prices::dollars;
use crate::report::{self, Leaderboard, Style};

/// Ask, build, test and score: run what is missing, show the leaderboard.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    carry: CarryArgs,
    /// What models over HTTP may cost in this run, in dollars. Before each request it is checked
    /// that the most it can cost is left; what is not asked stays missing.
    #[arg(long, value_name = "USD", value_parser = usd)]
    max_cost: Option<u64>,
    /// How the leaderboard is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Say nothing while it runs.
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let cancel = cancel_on_signals()?;
    let app = App::open_to_run(dir)?;
    let options = Options {
        carry: args.carry.carry()?,
        max_cost: args.max_cost,
        ..options(&args.evaluation, Some(&args.execution))
    };
    if !args.quiet {
        eprintln!("{}", estimate(&app, &options)?);
    }
    let cores = options
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut reporter = Reporter::new(cores, args.quiet);
    let result = app.run(&options, &cancel, &mut reporter);
    reporter.finish();
    let evaluation = result?;
    let board = board(&app, &options, &evaluation)?;
    if let Some(statement) = &board.asked {
        tell_asked(statement, &board);
    }
    match args.format {
        Format::Json => print(&json(&board))?,
        Format::Text if board.subjects.is_empty() => {}
        Format::Text => {
            print(&report::text(&board, Style { colour: colour() }))?;
            print(&format!(
                "executed: {}; reused: {}\n",
                report::counts(&board.executed),
                report::counts(&board.reused)
            ))?;
        }
    }
    Ok(code(&board))
}

/// The leaderboard of an evaluation with what belongs beside it now: the last rows of retired models.
pub fn board(
    app: &App,
    options: &Options,
    evaluation: &Evaluation,
) -> Result<Leaderboard, AppError> {
    let mut board = rows(app, options, evaluation)?;
    let config = &app.project.config;
    let retired: BTreeMap<String, String> = config
        .models
        .iter()
        .filter_map(|m| Some((m.name.clone(), m.retired.clone()?)))
        .collect();
    if retired.is_empty() {
        return Ok(board);
    }
    let penalties = app.project.penalties(options);
    for subject in app.project.chosen(&options.subjects)? {
        let name = &subject.manifest.name;
        let own = penalties.get(name).copied().flatten();
        let penalty = own.or(subject.manifest.scoring.penalty);
        let summaries = app.summaries(name)?;
        let rows = report::retired_rows(name, &summaries, &retired, &config.score, penalty);
        board.retired.extend(rows);
    }
    Ok(board)
}

/// The leaderboard of an evaluation, with the project's settings where no option replaces them.
pub fn rows(
    app: &App,
    options: &Options,
    evaluation: &Evaluation,
) -> Result<Leaderboard, AppError> {
    let config = &app.project.config;
    let mut board = report::leaderboard(
        evaluation,
        &config.score,
        &app.project.penalties(options),
        options.seed.unwrap_or(config.run.seed),
    )?;
    for broken in &mut board.baseline_broken {
        broken.last_good = app.last_good(&broken.subject)?;
    }
    if !board.missing.is_empty() {
        board.asked_otherwise = app.asked_otherwise(options)?;
    }
    Ok(board)
}

/// The exit code that goes with a leaderboard. What is wrong with unchanged subjects is an error that
/// is told, also beside the rows of others.
pub fn code(board: &Leaderboard) -> u8 {
    for broken in &board.baseline_broken {
        tell(&broken.what, &broken.help);
        if let Some(commit) = &broken.last_good {
            eprintln!("  the last good evaluation is of {commit}");
        }
    }
    if !board.baseline_broken.is_empty() {
        exit::BASELINE
    } else if board.asked.as_ref().is_some_and(|asked| asked.out_of_money) {
        exit::MONEY
    } else if board.missing.is_empty() {
        exit::OK
    } else {
        exit::INCOMPLETE
    }
}

/// Says what models over HTTP were asked, what that cost, and what people should know of it.
fn tell_asked(statement: &Statement, board: &Leaderboard) {
    for event in &statement.events {
        eprintln!("{event}");
    }
    for account in statement.models.iter().filter(|a| a.counts.requests > 0) {
        let counts = &account.counts;
        let mut line = format!(
            "asked {}: {} replies, {} tokens in ({} cached), {} out ({} thinking)",
            account.model,
            counts.replies,
            counts.input_tokens,
            counts.cached_input_tokens,
            counts.output_tokens,
            counts.reasoning_tokens,
        );
        match counts.micro_usd {
            Some(cost) => line.push_str(&format!(", {}", dollars(cost))),
            None => line.push_str(", price not known"),
        }
        if counts.failed > 0 {
            line.push_str(&format!(", {} attempts failed", counts.failed));
        }
        if counts.without_usage > 0 {
            line.push_str(&format!(
                ", {} replies without a count of tokens",
                counts.without_usage
            ));
        }
        eprintln!("{line}");
    }
    if statement.out_of_money {
        let left = board.missing.get(crate::ask::COMPLETION.name).copied();
        eprintln!(
            "the money is at its end: {} spent in this run, {} requests left to ask\n  help: run again with a higher `--max-cost`, or raise the model's `max-cost`; what was answered is kept",
            dollars(statement.micro_usd),
            left.unwrap_or(0)
        );
    }
}

/// Says what is wrong with an unchanged subject.
pub fn tell(what: &str, help: &str) {
    eprintln!("error: {what}\n  help: {help}");
}

/// A document as JSON text.
pub fn json<T: serde::Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("reports have string keys");
    text.push('\n');
    text
}

/// What the run can cost at most, from the sizes that are known before it and from how long jobs
/// took before.
fn estimate(app: &App, options: &Options) -> Result<String, super::common::CliError> {
    let config = &app.project.config;
    let models = if options.models.is_empty() {
        let asked = config.models.iter().filter(|m| m.retired.is_none());
        asked.count()
    } else {
        options.models.len()
    } as u64;
    let scorings = if options.scorings.is_empty() {
        config.score.scorings.len()
    } else {
        options.scorings.len()
    } as u64;
    let reader = app.store.reader()?;
    let seconds = |kind: &str, guess: f64| -> f64 {
        let mut sum = (0.0, 0u32);
        for listed in reader
            .actions(Some(kind))
            .into_iter()
            .flatten()
            .flatten()
            .take(200)
        {
            if let Ok(Some(action)) = reader.action(&listed.key) {
                sum.0 += action.provenance.wall_us as f64 / 1e6;
                sum.1 += 1;
            }
        }
        if sum.1 == 0 {
            guess
        } else {
            sum.0 / f64::from(sum.1)
        }
    };
    let cores = options
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        as f64;
    let mut lines = Vec::new();
    for subject in app.project.chosen(&options.subjects)? {
        let manifest = &subject.selected(options)?;
        let iterations = subject.iterations(options, &config.run);
        let limit = subject.limit(options, &config.run);
        let programs = (models * scorings * u64::from(iterations)) as f64;
        let shards = manifest.tests.shards.len() as f64;
        let mut total = programs * (seconds("oss/program", 4.0) + shards * seconds("oss/run", 0.3));
        let (functions, more) = match limit {
            Some(n) => {
                total += f64::from(n) * models as f64 * seconds("oss/verdict", 0.6);
                (format!("{n} functions"), "")
            }
            None => ("all functions".to_string(), " and the verdicts"),
        };
        // How many files there are is known once the source is in the store.
        let files = match manifest.tests.files.as_slice() {
            [] => "",
            _ => " and the tests of [[tests.files]]",
        };
        // The build is done for the footprint; the base takes it over.
        total = total / cores + 2.0 * seconds("oss/footprint", 20.0);
        lines.push(format!(
            "{}: {functions}, {models} models, {iterations} iterations, {scorings} scorings: at most about {}{more}{files}; what is in the store is not run again",
            manifest.name,
            duration(total.ceil() as u64),
        ));
    }
    Ok(lines.join("\n"))
}
