//! `everbench prompts`

use std::path::Path;

use super::common::{CliResult, EvaluationArgs, exit, held, options, print};
use crate::app::{App, AppError};
use crate::oss::{case, population};

/// Print the prompts of the sample, one JSON object a line: id, system, user.
///
/// Replies to them, one JSON object a line with the prompt's id, text and finish_reason, behind a
/// first line that names the model, make a replay file.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = App::open_to_score(dir)?;
    let world = app.world(&options(&args.evaluation, None))?;
    let db = &world.db;
    let missing = |hold: crate::engine::Hold| {
        if hold.faults().is_empty() && hold.corrupt_blobs().is_empty() {
            AppError::Input(
                "the subject was not built here yet\n  help: `everbench run` comes first".into(),
            )
        } else {
            held(&hold, None)
        }
    };
    // Functions with the same text ask the same.
    let mut seen = std::collections::BTreeSet::new();
    let mut out = String::new();
    for bench in &world.benches {
        let (settings, subject) = (bench.settings, bench.subject);
        for function in population::sample(db, settings, subject)
            .map_err(missing)?
            .iter()
        {
            let arg = population::FunctionArg::new(db, function.clone());
            let text = population::text(db, settings, subject, arg).map_err(missing)?;
            let request = case::request(
                db,
                settings,
                "",
                &crate::ask::Sampling::default(),
                function,
                &text,
            )
            .map_err(missing)?;
            if !seen.insert(request.prompt_digest()) {
                continue;
            }
            let line = serde_json::json!({ "id": request.prompt_digest(), "system": &*request.system, "user": &*request.user });
            out.push_str(&line.to_string());
            out.push('\n');
        }
    }
    print(&out)?;
    Ok(exit::OK)
}
