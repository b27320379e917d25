//! `everbench contamination probe`

use std::path::{Path, PathBuf};

use super::repo::lists;
use crate::app::Environment;
use crate::app::asking::{Run, Whom};
use crate::app::naming::{Plan, Probe, probe};
use crate::app::presence::language;
use crate::cli::common::{CliResult, Format, cancel_on_signals, exit, print, usd};
use crate::cli::progress::Reporter;
use crate::cli::run::json;
use crate::contamination::named::Project;
use crate::report::{naming_json, naming_text};

/// OSS-Bench's own probe: does a model, shown a function, name the project that it is from?
///
/// Functions are shown as they are, with the project's names taken out of their identifiers, and, as a
/// control, functions of other projects: who names the project there names it without knowing.
#[derive(clap::Args)]
pub struct Args {
    /// Where the project's functions are: sources as for `contamination repo`.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// What the project is called; an answer that holds it in any case names the project. May be given
    /// several times.
    #[arg(long, required = true, value_name = "NAME")]
    name: Vec<String>,
    /// A further word that is taken out of identifiers, such as `zend`. May be given several times.
    #[arg(long, value_name = "WORD")]
    redact: Vec<String>,
    /// Other projects; may be given several times.
    #[arg(long, value_name = "SOURCE")]
    control: Vec<String>,
    /// The functions' language.
    #[arg(long, value_name = "LANGUAGE", default_value = "c")]
    language: String,
    /// Functions of each kind.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Of the draw of functions.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Only this model of the project file; may be given several times.
    #[arg(long = "model", value_name = "NAME", conflicts_with = "replay")]
    models: Vec<String>,
    /// Recorded replies; may be given several times.
    #[arg(long, value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// What models over HTTP may cost in this run, in dollars.
    #[arg(long, value_name = "USD", value_parser = usd)]
    max_cost: Option<u64>,
    /// Show what was said of every function.
    #[arg(long)]
    evidence: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Say nothing of progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Functions of fewer bytes say nothing of anything, and those of more do not fit everywhere.
const BYTES: (usize, usize) = (200, 6000);

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let texts = |all: &[String]| all.to_vec();
    let (names, words) = (texts(&args.name), texts(&args.redact));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let plan = Plan {
        project: Project::new(&names, &words),
        sources: lists(&args.sources)?,
        controls: lists(&args.control)?,
        language: language(&args.language)?,
        limit: args.limit,
        bytes: BYTES,
        seed: args.seed,
    };
    let whom = Whom {
        replays: args.replay.clone(),
        models: args.models.clone(),
        max_cost: args.max_cost,
        environment: Environment(Some(|name| std::env::var(name).ok())),
    };
    let cancel = cancel_on_signals()?;
    let mut reporter = Reporter::new(1, args.quiet);
    let run = Run {
        cancel: &cancel,
        observer: &mut reporter,
    };
    let probed = probe(dir, &plan, &whom, run);
    reporter.finish();
    show(&probed?, args)
}

fn show(probe: &Probe, args: &Args) -> CliResult {
    match args.format {
        Format::Json => print(&json(&naming_json(probe, args.evidence)))?,
        Format::Text => print(&naming_text(probe, args.evidence))?,
    }
    for (name, why) in &probe.missing {
        eprintln!("left out: {name}: {why}");
    }
    for why in probe.failures.iter().take(5) {
        eprintln!("not answered: {why}");
    }
    for (model, missing) in &probe.incomplete {
        eprintln!(
            "incomplete: {model} has not answered {missing} questions, and is in no table; the same command goes on"
        );
    }
    Ok(match probe.incomplete.is_empty() {
        true => exit::OK,
        false => exit::INCOMPLETE,
    })
}
