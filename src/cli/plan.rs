//! `everbench plan`

use std::path::Path;

use super::common::{
    CarryArgs, CliResult, EvaluationArgs, ExecutionArgs, Format, cancel_on_signals, exit, options,
    print,
};
use super::progress::Reporter;
use super::run::json;
use crate::app::{App, Options};
use crate::report;

/// Say what a run would do, and why; runs nothing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    carry: CarryArgs,
    /// Fetch and build the unchanged subject first, if it is not: before that nobody knows which
    /// functions a new commit has. Asks no model and runs no test.
    #[arg(long)]
    build: bool,
    /// How the plan is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = match args.build {
        true => App::open_to_run(dir)?,
        false => App::open_to_plan(dir)?,
    };
    let options = Options {
        carry: args.carry.carry()?,
        ..options(&args.evaluation, Some(&args.execution))
    };
    let cancel = cancel_on_signals()?;
    let mut reporter = Reporter::new(1, !args.build || args.format == Format::Json);
    let plan = app.forecast(&options, args.build, &cancel, &mut reporter);
    reporter.finish();
    let plan = plan?;
    match args.format {
        Format::Json => print(&json(&report::plan(&plan)))?,
        Format::Text => print(&report::plan_text(&plan))?,
    }
    let broken = plan.subjects.iter().any(|s| s.baseline_broken.is_some());
    Ok(if broken { exit::BASELINE } else { exit::OK })
}
