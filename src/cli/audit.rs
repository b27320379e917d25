//! `everbench audit`

use std::path::Path;

use super::common::{
    CliResult, EvaluationArgs, ExecutionArgs, Format, cancel_on_signals, exit, options, print,
};
use super::progress::Reporter;
use super::run::json;
use crate::app::App;

/// Compare verdicts with the subject's own build: every variant of the sample, built in full.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// How the result is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let cancel = cancel_on_signals()?;
    let app = App::open_to_run(dir)?;
    let options = options(&args.evaluation, Some(&args.execution));
    let mut reporter = Reporter::new(1, false);
    let result = app.audit(&options, &cancel, &mut reporter);
    reporter.finish();
    let audited = result?;
    let differ: Vec<_> = audited
        .iter()
        .filter(|a| a.verdict.compiles != a.audit.compiles)
        .collect();
    let fail = audited.iter().filter(|a| !a.audit.compiles).count();
    match args.format {
        Format::Json => {
            let rows: Vec<_> = differ
                .iter()
                .map(|a| serde_json::json!({ "function": a.function, "variant": a.variant, "verdict": a.verdict, "build": a.audit }))
                .collect();
            print(&json(&serde_json::json!({
                "schema": "everbench/audit/1", "variants": audited.len(), "fail": fail, "differ": differ.len(), "rows": rows,
            })))?;
        }
        Format::Text => {
            let mut out = format!(
                "{} variants built in full (equal ones of a function once), {fail} of them fail; {} verdicts agree, {} differ\n",
                audited.len(),
                audited.len() - differ.len(),
                differ.len()
            );
            for a in &differ {
                out.push_str(&format!(
                    "{} (variant {}): verdict {:?} {:?}, build {:?} {:?}\n",
                    a.function,
                    a.variant.short(),
                    a.verdict.compiles,
                    a.verdict.error,
                    a.audit.compiles,
                    a.audit.error
                ));
            }
            print(&out)?;
        }
    }
    Ok(if differ.is_empty() {
        exit::OK
    } else {
        exit::DIFFERS
    })
}
