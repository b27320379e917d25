//! `everbench tosss score`

use std::path::Path;

use super::plan::PlanArgs;
use crate::app::AppError;
use crate::app::findings::findings;
use crate::app::tosss::ask::{Answered, answered};
use crate::ask::prices::dollars;
use crate::cli::common::{CliResult, Format, exit, print};
use crate::cli::run::json;
use crate::report::{tosss_clean_text, tosss_report_json, tosss_report_text};

/// Score what the store holds of the pairs that were mined in this folder; runs nothing.
///
/// In every table are the built-in answerers: a coin, always A, the longer snippet, the one with more
/// checks. A model is in it when it answered every pair that is asked.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,
    /// Beside the scores those without the pairs that a model was found to know: of repositories that
    /// `contamination repo` called contaminated, and functions from which it named their project in
    /// `contamination probe`.
    #[arg(long)]
    without_contaminated: bool,
    #[command(flatten)]
    shown: ShownArgs,
}

/// How scores are shown.
#[derive(clap::Args)]
pub struct ShownArgs {
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let plan = args.plan.plan();
    let findings = match args.without_contaminated {
        true => Some(findings(dir)?),
        false => None,
    };
    show(&answered(dir, &plan, findings.as_ref())?, &args.shown)
}

/// Prints the tables over answers.
pub fn show(answered: &Answered, shown: &ShownArgs) -> CliResult {
    let Some(report) = &answered.report else {
        return Err(AppError::Input(
            "there is no pair to score\n  help: `everbench tosss pairs why-dropped` says why; without `--since` and `--single-function` there may be some"
                .into(),
        )
        .into());
    };
    match shown.format {
        Format::Json => {
            let mut document = tosss_report_json(report, answered.unmined);
            document["incomplete"] = serde_json::json!(answered.incomplete);
            document["executed"] = serde_json::json!(answered.executed);
            document["asked"] = serde_json::json!(answered.statement);
            if let Some(clean) = &answered.clean {
                document["without_contaminated"] = serde_json::json!(clean);
            }
            print(&json(&document))?;
        }
        Format::Text => {
            print(&tosss_report_text(report))?;
            if let Some(clean) = &answered.clean {
                print(&tosss_clean_text(report, clean))?;
            }
        }
    }
    if let Some(statement) = &answered.statement {
        for event in &statement.events {
            eprintln!("note: {event}");
        }
        for account in statement.models.iter().filter(|a| a.counts.requests > 0) {
            let name = &account.model;
            eprintln!("{name}: {} requests", account.counts.requests);
        }
        if statement.micro_usd > 0 {
            eprintln!("spent in this run: {}", dollars(statement.micro_usd));
        }
    }
    for why in answered.failures.iter().take(5) {
        eprintln!("not answered: {why}");
    }
    for (model, missing) in &answered.incomplete {
        eprintln!(
            "incomplete: {model} has not answered {missing} questions, and is in no table; `everbench tosss run` goes on"
        );
    }
    if answered.unmined > 0 {
        eprintln!(
            "incomplete: {} jobs of mining are missing; `everbench tosss mine` goes on",
            answered.unmined
        );
    }
    Ok(
        match answered.unmined == 0 && answered.incomplete.is_empty() {
            true => exit::OK,
            false => exit::INCOMPLETE,
        },
    )
}
