//! `everbench list`

use std::path::Path;

use super::common::{CliResult, EvaluationArgs, Format, exit, held, options, print};
use super::run::json;
use crate::app::App;
use crate::engine::Db;
use crate::oss::artifact::{self, VERDICT, VerdictDoc};
use crate::oss::case::calibration_edit;
use crate::oss::inputs::Answers;
use crate::oss::leaderboard;

/// List functions with what became of them.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    evaluation: EvaluationArgs,
    /// Only these: compiles, fails (no code included), code, unchanged, refused, truncated, empty,
    /// unparsable, context_exceeded.
    #[arg(long, value_name = "WHAT", value_parser = OUTCOMES)]
    outcome: Option<String>,
    /// How the list is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const OUTCOMES: [&str; 9] = [
    "compiles",
    "fails",
    "code",
    "unchanged",
    "refused",
    "truncated",
    "empty",
    "unparsable",
    "context_exceeded",
];

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = App::open_to_score(dir)?;
    let options = options(&args.evaluation, None);
    let world = app.world(&options)?;
    let db = &world.db;
    let mut rows = Vec::new();
    let mut missing = 0;
    let pairs = world
        .benches
        .iter()
        .flat_map(|bench| world.models.iter().map(move |model| (bench, model)));
    for (bench, model) in pairs {
        let subject = &bench.subject.manifest(db).name;
        let cases = match leaderboard::cases_of(db, bench.settings, bench.subject, *model) {
            Ok(cases) => cases,
            Err(hold) => {
                if !hold.faults().is_empty() || !hold.corrupt_blobs().is_empty() {
                    return Err(held(&hold, None).into());
                }
                missing += hold.jobs().len();
                continue;
            }
        };
        for (function, case) in cases {
            let wanted = match args.outcome.as_deref() {
                None => true,
                Some("compiles") => case.compiles,
                Some("fails") => !case.compiles,
                Some("unchanged") => case.compiles && case.variant.is_none(),
                Some(outcome) => case.outcome.name() == outcome,
            };
            if !wanted {
                continue;
            }
            let verdict: Option<VerdictDoc> = case
                .verdict
                .and_then(|d| db.blob(d).ok())
                .and_then(|b| artifact::read(VERDICT, &b).ok());
            let why = case
                .why
                .clone()
                .or_else(|| verdict.as_ref().and_then(|v| v.error.clone()));
            // What a calibration model was told to do: the yardstick's own marks.
            let planted = match &model.spec(db).answers {
                Answers::Calibration(shares) => {
                    let name = &model.spec(db).name;
                    let seed = bench.settings.seed(db);
                    Some(calibration_edit(shares, name, seed, &function.id).0.name())
                }
                Answers::Replay { .. } | Answers::Remote { .. } => None,
            };
            rows.push(serde_json::json!({
                "subject": subject, "function": function.id, "path": function.path, "model": model.spec(db).name,
                "planted": planted,
                "outcome": case.outcome.name(), "compiles": case.compiles,
                "stage": verdict.and_then(|v| v.stage), "why": why, "changed_lines": case.changed_lines,
            }));
        }
    }
    match args.format {
        Format::Json => print(&json(
            &serde_json::json!({ "schema": "everbench/list/1", "rows": rows, "missing": missing }),
        ))?,
        Format::Text => {
            let mut out = String::new();
            let several = world.benches.len() > 1;
            for row in &rows {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_string();
                let verdict = if row["compiles"] == true {
                    "compiles"
                } else {
                    "fails"
                };
                if several {
                    out.push_str(&format!("{:<11} ", text("subject")));
                }
                out.push_str(&format!(
                    "{:<9} {:<11} {:<14} {} ({})",
                    verdict,
                    text("outcome"),
                    text("model"),
                    text("function"),
                    text("path")
                ));
                if !text("why").is_empty() {
                    out.push_str(&format!(": {}", text("why")));
                }
                out.push('\n');
            }
            if missing > 0 {
                let why = match app.asked_otherwise(&options)? {
                    None => "`everbench run` goes on".into(),
                    Some(why) => why,
                };
                out.push_str(&format!("incomplete: {missing} jobs are missing; {why}\n"));
            }
            print(&out)?;
        }
    }
    Ok(if missing > 0 {
        exit::INCOMPLETE
    } else {
        exit::OK
    })
}
