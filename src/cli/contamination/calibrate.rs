//! `everbench contamination calibrate`

use std::path::{Path, PathBuf};

use super::patches::share;
use crate::app::asking::Run;
use crate::app::embedding::{Embedder, calibrated};
use crate::app::patches::{places, read_benchmark};
use crate::app::{Environment, Options};
use crate::cli::common::{CliResult, Format, cancel_on_signals, exit, print, usd};
use crate::cli::progress::Reporter;
use crate::cli::run::json;
use crate::contamination::patch::decide::Thresholds;

/// Find out from where on code counts as like the code after a patch, for an embedder.
///
/// The patches of a benchmark are measured where the truth is known: against their base, from which they
/// are absent, and against their base with the patch. The threshold is the lowest at which at most so many
/// of the absent blocks are taken to be present; it is noted beside the store, and `contamination
/// patches` takes it from there.
#[derive(clap::Args)]
pub struct Args {
    /// As for `contamination patches`; best one that is not judged with the outcome.
    benchmark: PathBuf,
    /// A folder of whole clones, called owner/name or name; or a JSON file with the path of each.
    #[arg(long, value_name = "DIR|FILE")]
    repositories: PathBuf,
    /// A model of the project file with `api = "openai-embeddings"`; without it, shared tokens are
    /// calibrated.
    #[arg(long, value_name = "NAME")]
    embedder: Option<String>,
    /// The greatest share of absent blocks that may be taken to be present.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0.05")]
    false_positives: f64,
    /// What the model may cost in this run, in dollars.
    #[arg(long, value_name = "USD", value_parser = usd, requires = "embedder")]
    max_cost: Option<u64>,
    /// Say nothing of progress.
    #[arg(long, short)]
    quiet: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let benchmark = read_benchmark(&args.benchmark)?;
    let places = places(&benchmark, &args.repositories)?;
    let embedder = args.embedder.as_ref().map(|name| Embedder {
        name: name.clone(),
        options: Options {
            max_cost: args.max_cost,
            environment: Environment(Some(|name| std::env::var(name).ok())),
            ..Options::default()
        },
    });
    let cancel = cancel_on_signals()?;
    let mut reporter = Reporter::new(1, args.quiet);
    let run = Run {
        cancel: &cancel,
        observer: &mut reporter,
    };
    let limits = (Thresholds::default().containment, args.false_positives);
    let asked = calibrated(dir, &benchmark, &places, embedder.as_ref(), limits, run);
    reporter.finish();
    let asked = asked?;
    for why in asked.failures.iter().take(5) {
        eprintln!("not embedded: {why}");
    }
    let Some(found) = &asked.value else {
        eprintln!(
            "incomplete: {} jobs are missing; the same command goes on",
            asked.missing
        );
        return Ok(exit::INCOMPLETE);
    };
    match args.format {
        Format::Json => print(&json(
            &serde_json::to_value(found).expect("numbers are JSON"),
        ))?,
        Format::Text => print(&format!(
            "{}: from {:.3} on code is like the code after a patch\n{} blocks that are absent, {:.1} % of them taken to be present; {} that are present, {:.1} %\n",
            found.embedder,
            found.theta,
            found.absent,
            100.0 * found.false_positives,
            found.present,
            100.0 * found.true_positives,
        ))?,
    }
    Ok(exit::OK)
}
