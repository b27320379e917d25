//! `everbench rollover`

use std::path::Path;

use super::common::{CliResult, Format, exit, print};
use super::run::json;
use crate::app::{App, Rollover};

/// After a change of the compiler: what both say of the same cases. Runs nothing: `everbench run`
/// judges under the new one, with `--limit` a sample.
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
    let found = app.rollovers(&args.subjects)?;
    match args.format {
        Format::Json => print(&json(&serde_json::json!({
            "schema": "everbench/rollover/1", "subjects": found,
        })))?,
        Format::Text => print(&found.iter().map(text).collect::<String>())?,
    }
    Ok(exit::OK)
}

fn text(rollover: &Rollover) -> String {
    let mut out = format!("{}: ", rollover.subject);
    let (Some([old, new]), Some(bridge)) = (&rollover.compilers, &rollover.bridge) else {
        out.push_str("evaluated under one toolchain only; there is nothing to bridge\n");
        return out;
    };
    out.push_str(&format!("from {old} to {new}\n"));
    if let Some([old, new]) = rollover.commits.as_ref().filter(|[a, b]| a != b) {
        out.push_str(&format!(
            "  the source is another one too: {old}, then {new}; only functions with the same text are compared\n"
        ));
    }
    let share = match bridge.cases {
        0 => "no case has a verdict under both".to_string(),
        n => format!(
            "{n} cases have a verdict under both: {} agree ({:.1} %)",
            bridge.agree,
            100.0 * bridge.agree as f64 / n as f64
        ),
    };
    out.push_str(&format!("  {share}\n"));
    for flip in &bridge.flipped {
        let (was, is) = match flip.built {
            true => ("builds", "fails"),
            false => ("fails", "builds"),
        };
        out.push_str(&format!(
            "    {} of {}: {was} -> {is}\n",
            flip.function, flip.model
        ));
    }
    out.push_str(&format!(
        "  {} iterations replace the same by the same: in {} as many tests pass\n",
        bridge.iterations, bridge.same_tests
    ));
    out
}
