//! `everbench extractors`

use std::path::Path;

use super::common::{
    CliResult, EvaluationArgs, ExecutionArgs, Format, cancel_on_signals, exit, options, print,
};
use super::progress::Reporter;
use super::run::json;
use crate::app::App;
use crate::oss::extractors::Comparison;
use crate::subject::Extractor;

/// Compare the extractors: which functions tree-sitter and libclang find, and why one does not.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// How the comparison is shown.
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
    let mut options = options(&args.evaluation, Some(&args.execution));
    options.extractor = Some(Extractor::Libclang);
    let cores = options
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut reporter = Reporter::new(cores, args.quiet);
    let compared = app.compare_extractors(&options, &cancel, &mut reporter);
    reporter.finish();
    let compared = compared?;
    match args.format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": "everbench/extractors/1", "subjects": compared,
        })))?,
        Format::Text => {
            for one in &compared {
                print(&text(one))?;
            }
        }
    }
    Ok(exit::OK)
}

fn text(c: &Comparison) -> String {
    let mut out = format!("{}: {} units\n", c.subject, c.units);
    let mut line = |what: &str, n: u64| out.push_str(&format!("  {n:>7}  {what}\n"));
    line("by both, with the same text", c.both);
    line(
        "  of these with empty macros in front, which the text keeps",
        c.with_empty_macros,
    );
    line("by both, with another range", c.differing);
    for (reason, n) in &c.only_tree_sitter {
        line(&format!("only by tree-sitter: {reason}"), *n);
    }
    for (reason, n) in &c.only_libclang {
        line(&format!("only by libclang: {reason}"), *n);
    }
    line("in the population of tree-sitter", c.populations[0]);
    line("in the population of libclang", c.populations[1]);
    for (source, why) in &c.lost {
        out.push_str(&format!("  unit lost: {source}: {why}\n"));
    }
    for (source, error) in &c.errors {
        out.push_str(&format!("  unit with errors: {source}: {error}\n"));
    }
    for (flag, n) in &c.dropped {
        out.push_str(&format!("  flag left out: {flag} ({n} units)\n"));
    }
    for listed in &c.listed {
        out.push_str(&format!("  {listed}\n"));
    }
    out
}
