//! `everbench tosss run` and `everbench tosss prompts`

use std::path::{Path, PathBuf};

use super::plan::PlanArgs;
use super::score::{ShownArgs, show};
use crate::app::Environment;
use crate::app::asking::Whom;
use crate::app::tosss::ask::{ask, prompts};
use crate::cli::common::{CliResult, cancel_on_signals, exit, print, usd};
use crate::cli::progress::Reporter;

/// Ask models about the pairs that were mined in this folder: what is missing. Shows the scores.
///
/// Models are recorded replies (`--replay`), or those of the project file.
#[derive(clap::Args)]
pub struct Args {
    /// Recorded replies to the output of `everbench tosss prompts`; may be given several times.
    #[arg(long, value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// Only this model of the project file; may be given several times.
    #[arg(long = "model", value_name = "NAME", conflicts_with = "replay")]
    models: Vec<String>,
    /// What models over HTTP may cost in this run, in dollars. Before each request it is checked
    /// that the most it can cost is left; what is not asked stays missing.
    #[arg(long, value_name = "USD", value_parser = usd)]
    max_cost: Option<u64>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    shown: ShownArgs,
    /// Say nothing of progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Print the questions, one JSON object a line: id, system, user.
///
/// Replies to them, one JSON object a line with the prompt's id, text and finish_reason, behind a
/// first line that names the model, make a file for `everbench tosss run --replay`.
#[derive(clap::Args)]
pub struct PromptsArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

/// Runs the first command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let plan = args.plan.plan();
    let cancel = cancel_on_signals()?;
    let mut reporter = Reporter::new(1, args.quiet);
    let whom = Whom {
        replays: args.replay.clone(),
        models: args.models.clone(),
        max_cost: args.max_cost,
        environment: Environment(Some(|name| std::env::var(name).ok())),
    };
    let answered = ask(dir, &plan, &whom, &cancel, &mut reporter);
    reporter.finish();
    show(&answered?, &args.shown)
}

/// Runs the second command.
pub fn run_prompts(dir: &Path, args: &PromptsArgs) -> CliResult {
    print(&prompts(dir, &args.plan.plan())?)?;
    Ok(exit::OK)
}
