//! `everbench why`

use std::path::Path;

use super::common::{CliResult, EvaluationArgs, ExecutionArgs, Format, exit, options, print};
use super::run::json;
use crate::app::{App, Explained, State};
use crate::job::Value;

/// Say what a result depends on that is not what it was in the evaluation before; runs nothing.
#[derive(clap::Args)]
pub struct Args {
    /// A function, a model, `base`, `baseline`, `iteration`, or the whole name of something that an
    /// evaluation rests on, or its beginning.
    id: String,
    #[command(flatten)]
    evaluation: EvaluationArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = App::open_to_plan(dir)?;
    let options = options(&args.evaluation, Some(&args.execution));
    let explained = app.why(&options, &args.id)?;
    match args.format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": "everbench/why/1",
            "rows": explained.iter().map(row).collect::<Vec<_>>(),
        })))?,
        Format::Text => print(&text(&explained))?,
    }
    Ok(exit::OK)
}

fn row(e: &Explained) -> serde_json::Value {
    let inputs: Vec<serde_json::Value> = e
        .changed
        .iter()
        .map(|c| {
            serde_json::json!({
                "input": c.input.name, "said": c.said, "details": c.details,
                "old": c.input.old, "new": c.input.new,
            })
        })
        .collect();
    serde_json::json!({
        "id": e.id, "kind": e.kind, "state": e.state.name(), "missing": e.missing,
        "old": e.keys.0, "new": e.keys.1, "cut_off": e.cut_off, "changed": inputs,
    })
}

fn text(explained: &[Explained]) -> String {
    let mut out = String::new();
    let mut same = 0;
    for e in explained {
        let said = match (e.state, e.missing) {
            (State::Same, false) => {
                same += 1;
                continue;
            }
            (State::Same, true) => "the same job, but its result is gone from the store",
            (State::New, true) => "new; has still to run",
            (State::New, false) => "new",
            (State::Gone, _) => "gone",
            (State::Changed, true) => "has to run again",
            (State::Changed, false) if e.cut_off => {
                "ran again and gave the same: what builds on it was not touched"
            }
            (State::Changed, false) => "ran again",
        };
        out.push_str(&format!("{} ({}): {said}\n", e.id, e.kind));
        for changed in &e.changed {
            let from = match (&changed.input.old, &changed.input.new) {
                (Some(old), Some(new)) => match (short(old), short(new)) {
                    (Some(old), Some(new)) => format!(": {old} -> {new}"),
                    _ => String::new(),
                },
                (None, _) => ": was no input before".into(),
                (_, None) => ": is no input any more".into(),
            };
            out.push_str(&format!("    {}{from}\n", changed.said));
            for detail in &changed.details {
                out.push_str(&format!("        {detail}\n"));
            }
        }
    }
    if same > 0 {
        let (things, are) = if same == 1 {
            ("thing", "is")
        } else {
            ("things", "are")
        };
        let other = if same == explained.len() {
            ""
        } else {
            "other "
        };
        out.push_str(&format!(
            "{same} {other}{things} of that name {are} the same as before\n"
        ));
    }
    out
}

/// A value that fits on a line.
fn short(value: &Value) -> Option<String> {
    match value {
        Value::Digest(digest) => Some(digest.short()),
        Value::Text(text) if text.len() <= 60 && !text.contains('\n') => Some(format!("{text:?}")),
        Value::Int(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}
