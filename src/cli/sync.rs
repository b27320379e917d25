//! `everbench sync`

use std::path::Path;

use super::common::{CliResult, Format, exit, print};
use super::run::json;
use crate::app::{App, Moved, Options};
use crate::report;

/// Look up where upstream is now and follow it; `plan` then says what that costs.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing; leave with 7 if there is something new, with 0 if there is not, with 75 if
    /// upstream cannot be asked now.
    #[arg(long)]
    check: bool,
    /// Only this subject of several; may be given several times.
    #[arg(long = "subject", value_name = "NAME")]
    subjects: Vec<String>,
    /// How the result is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let app = App::open_to_plan(dir)?;
    let options = Options {
        subjects: args.subjects.clone(),
        ..Options::default()
    };
    let synced = app.sync(&options, !args.check)?;
    match args.format {
        Format::Json => {
            let rows: Vec<serde_json::Value> = synced
                .iter()
                .map(|s| {
                    let (old, new) = match &s.moved {
                        Moved::Pinned => (None, None),
                        Moved::Same(is) => (Some(is), Some(is)),
                        Moved::New(was, is) => (was.as_ref(), Some(is)),
                        Moved::Unknown(was, _) => (Some(was), None),
                    };
                    let why = match &s.moved {
                        Moved::Unknown(_, why) => Some(why),
                        _ => None,
                    };
                    serde_json::json!({
                        "subject": s.subject, "follows": s.follows, "state": s.moved.name(),
                        "old": old, "new": new, "why": why, "last_good": s.last_good,
                        "baseline_broken": s.broken.as_ref().map(|b| {
                            serde_json::json!({ "commit": b.commit, "what": b.what, "help": b.help })
                        }),
                    })
                })
                .collect();
            print(&json(&serde_json::json!({
                "schema": "everbench/sync/1", "subjects": rows, "set": !args.check,
            })))?;
        }
        Format::Text => {
            let mut out = String::new();
            for s in &synced {
                let said = match &s.moved {
                    Moved::Pinned => "the manifest names exactly this; change it there".to_string(),
                    Moved::Same(is) => format!("still {is}"),
                    Moved::New(None, is) => format!("now {is}"),
                    Moved::New(Some(was), is) => format!("now {is}, was {was}"),
                    Moved::Unknown(was, why) => format!("goes on with {was}, as locked: {why}"),
                };
                out.push_str(&format!("{}: {}: {said}\n", s.subject, s.follows));
                if let Some(broken) = &s.broken {
                    let said = report::broken_line(
                        &broken.commit,
                        broken.reason(),
                        s.last_good.as_deref(),
                    );
                    out.push_str(&format!("  {said}\n"));
                }
            }
            print(&out)?;
        }
    }
    let any = |is: fn(&Moved) -> bool| synced.iter().any(|s| is(&s.moved));
    Ok(match args.check {
        true if any(|moved| matches!(moved, Moved::New(..))) => exit::MOVED,
        // Who only asks whether there is something new has no answer.
        true if any(|moved| matches!(moved, Moved::Unknown(..))) => exit::INCOMPLETE,
        _ => exit::OK,
    })
}
