//! `everbench history`

use std::path::Path;

use super::common::{CliResult, Format, exit, print};
use super::run::json;
use crate::app::{App, Options};
use crate::report;

/// Scores through the commits that were run, and what changed over the functions that two
/// neighbours have in common; runs nothing and evaluates nothing again.
#[derive(clap::Args)]
pub struct Args {
    /// Only this subject of several; may be given several times.
    #[arg(long = "subject", value_name = "NAME")]
    subjects: Vec<String>,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = App::open_to_score(dir)?;
    let penalties = app.project.penalties(&Options::default());
    let mut subjects = Vec::new();
    for subject in app.project.chosen(&args.subjects)? {
        let name = &subject.manifest.name;
        let own = penalties.get(name).copied().flatten();
        let penalty = own.or(subject.manifest.scoring.penalty);
        let summaries = app.summaries(name)?;
        let broken = app.broken(name)?;
        let config = &app.project.config.score;
        subjects.push(report::history(name, &summaries, &broken, config, penalty));
    }
    match args.format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": report::HISTORY_SCHEMA, "subjects": subjects,
        })))?,
        Format::Text => {
            let texts: Vec<String> = subjects.iter().map(report::history_text).collect();
            print(&texts.join("\n"))?;
        }
    }
    Ok(exit::OK)
}
