//! `everbench show`

use std::path::Path;

use similar::TextDiff;

use super::common::{CliResult, EvaluationArgs, Format, exit, held, options, print};
use super::run::json;
use crate::app::{App, AppError, World};
use crate::ask::{self, Reply};
use crate::engine::Db;
use crate::oss::artifact::{self, VERDICT, VerdictDoc};
use crate::oss::iteration::{self, AlertInfo};
use crate::oss::{case, population};

/// Show one function of one model: the reply, the difference, the verdict, its iterations, alerts.
#[derive(clap::Args)]
pub struct Args {
    /// The function's name; `name#2` for the second of that name.
    function: String,
    #[command(flatten)]
    evaluation: EvaluationArgs,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = App::open_to_score(dir)?;
    let options = options(&args.evaluation, None);
    let world = app.world(&options)?;
    let db = &world.db;
    let missing = |hold: crate::engine::Hold| {
        let otherwise = app.asked_otherwise(&options).ok().flatten();
        held(&hold, otherwise.as_deref())
    };
    let mut found = Vec::new();
    for bench in &world.benches {
        let sample = population::sample(db, bench.settings, bench.subject).map_err(missing)?;
        if let Some(at) = sample.iter().position(|f| f.id == args.function) {
            found.push((*bench, at, sample[at].clone()));
        }
    }
    let (bench, at, function) = match found.as_slice() {
        [one] => one.clone(),
        [] => return Err(unknown(&world, &args.function)?.into()),
        several => {
            let names: Vec<&str> = several
                .iter()
                .map(|(bench, ..)| bench.subject.manifest(db).name.as_str())
                .collect();
            return Err(AppError::Input(format!(
                "there is a function `{}` in {}\n  help: name one with `--subject`",
                args.function,
                names.join(" and ")
            ))
            .into());
        }
    };
    let (settings, subject) = (bench.settings, bench.subject);
    let arg = population::FunctionArg::new(db, function.clone());
    let text = population::text(db, settings, subject, arg).map_err(missing)?;
    let place = population::place(db, settings, subject, &function.id).map_err(missing)?;
    let mut shown = Vec::new();
    for model in &world.models {
        let spec = model.spec(db);
        let case = case::case(db, settings, subject, *model, arg).map_err(missing)?;
        let reply = Reply::decode(&db.blob(case.reply).map_err(missing)?)
            .map_err(|e| AppError::Input(format!("reply {}: {e}", case.reply)))?;
        let variant = match case.variant {
            Some(digest) => Some(db.blob(digest).map_err(missing)?),
            None => None,
        };
        let verdict: Option<VerdictDoc> = match case.verdict {
            Some(digest) => {
                Some(artifact::read(VERDICT, &db.blob(digest).map_err(missing)?).map_err(missing)?)
            }
            None => None,
        };
        let mut alerts: Vec<AlertInfo> = Vec::new();
        let mut iterations = Vec::new();
        for scoring in &world.scorings {
            for i in 0..settings.iterations(db) {
                let Ok(iteration) =
                    iteration::iteration(db, settings, subject, *model, *scoring, i)
                else {
                    continue;
                };
                if iteration.applied.contains(&(at as u32)) {
                    iterations.push(serde_json::json!({
                        "scoring": scoring, "iteration": i, "passed": iteration.passed, "total": iteration.total,
                        "na": iteration.na, "outcomes": iteration.outcomes, "stale": iteration.stale,
                    }));
                }
                alerts.extend(
                    iteration
                        .alerts
                        .values()
                        .filter(|a| a.is_in(&function))
                        .cloned(),
                );
            }
        }
        alerts.sort();
        alerts.dedup();
        let diff = variant
            .as_ref()
            .map(|v| difference(&text, v))
            .unwrap_or_default();
        shown.push(serde_json::json!({
            "model": spec.name, "calibration": spec.is_calibration(), "outcome": case.outcome.name(), "why": case.why,
            "compiles": case.compiles, "verdict": verdict, "changed_lines": case.changed_lines,
            "reply": reply.text, "diff": diff, "alerts": alerts, "iterations": iterations,
            "keys": { "reply": case.reply, "variant": case.variant, "verdict": case.verdict },
        }));
    }
    let place = place.map(|p| p.line).unwrap_or_default();
    let document = serde_json::json!({
        "schema": "everbench/show/1", "subject": subject.manifest(db).name, "function": function.id, "path": function.path, "line": place,
        "text": ask::decode(&text), "models": shown,
    });
    match args.format {
        Format::Json => print(&json(&document))?,
        Format::Text => print(&page(&document))?,
    }
    Ok(exit::OK)
}

/// Why there is no such function to show.
fn unknown(world: &World, function: &str) -> Result<AppError, AppError> {
    let db = &world.db;
    let mut help = "`everbench list` names the functions that were asked";
    for bench in &world.benches {
        let all = population::population(db, bench.settings, bench.subject)
            .map_err(|h| held(&h, None))?;
        if all.functions.iter().any(|f| f.id == function) {
            help = "it is in the population, not in the sample: raise `--limit`";
        } else if all.unrelated.iter().any(|id| id == function) {
            help = "it is not compiled, so nothing is asked about it";
        }
    }
    Ok(AppError::Input(format!(
        "there is no function `{function}` here\n  help: {help}"
    )))
}

fn difference(old: &[u8], new: &[u8]) -> String {
    let (old, new) = (ask::decode(old), ask::decode(new));
    TextDiff::from_lines(old.as_str(), new.as_str())
        .unified_diff()
        .context_radius(3)
        .header("original", "variant")
        .to_string()
}

fn page(document: &serde_json::Value) -> String {
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_string();
    let mut out = format!(
        "{} ({}:{})\n",
        text(&document["function"]),
        text(&document["path"]),
        document["line"]
    );
    for m in document["models"].as_array().into_iter().flatten() {
        let label = if m["calibration"] == true {
            " (calibration)"
        } else {
            ""
        };
        out.push_str(&format!(
            "\n== {}{label}: {}",
            text(&m["model"]),
            text(&m["outcome"])
        ));
        if m["why"].is_string() {
            out.push_str(&format!(": {}", text(&m["why"])));
        }
        let verdict = if m["compiles"] == true {
            "compiles"
        } else {
            "fails"
        };
        out.push_str(&format!(
            ", {verdict}, {} changed lines\n",
            m["changed_lines"]
        ));
        let error = &m["verdict"]["error"];
        if error.is_string() {
            out.push_str(&format!(
                "first error ({}): {}\n",
                text(&m["verdict"]["stage"]),
                text(error)
            ));
        }
        let diff = text(&m["diff"]);
        if !diff.is_empty() {
            out.push_str(&diff);
        } else if m["outcome"] != "code" {
            out.push_str("reply:\n");
            out.push_str(text(&m["reply"]).trim_end());
            out.push('\n');
        }
        for a in m["alerts"].as_array().into_iter().flatten() {
            out.push_str(&format!(
                "alert: {} {} in {} ({}:{})\n",
                text(&a["sanitizer"]),
                text(&a["kind"]),
                text(&a["function"]),
                text(&a["file"]),
                a["line"]
            ));
        }
        for i in m["iterations"].as_array().into_iter().flatten() {
            out.push_str(&format!(
                "iteration {} ({}): {}/{} passed\n",
                i["iteration"],
                text(&i["scoring"]),
                i["passed"],
                i["total"]
            ));
        }
    }
    out
}
