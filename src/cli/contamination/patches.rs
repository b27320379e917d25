//! `everbench contamination patches`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::app::AppError;
use crate::app::patches::{Question, patches, read_benchmark};
use crate::cli::common::{CliResult, Format, cancel_on_signals, exit, print};
use crate::cli::progress::Reporter;
use crate::cli::run::json;
use crate::contamination::patch::category::Window;
use crate::contamination::patch::decide::Thresholds;
use crate::contamination::patch::joint::{self, Joint, Known, joint};
use crate::contamination::patch::leaderboard::{self, effects};
use crate::contamination::patch::verdict::Verdict;
use crate::date::last_second;
use crate::report::{Patches, patches_json, patches_text};

/// Say of each instance of a bug-fixing benchmark whether its patch was in its repository at a
/// model's cutoff, since which commit, and by which hunk.
///
/// Histories are read without a checkout, and what they say is kept: another cutoff reads nothing
/// again. Needs no project file.
#[derive(clap::Args)]
pub struct Args {
    /// SWE-bench and its relatives or Multi-SWE-bench: JSON lines or an array; Defects4J or BugsInPy:
    /// their folder of projects, or one project's.
    benchmark: PathBuf,
    /// A folder of whole clones, called owner/name or name; or a JSON file with the path of each.
    #[arg(long, value_name = "DIR|FILE")]
    repositories: PathBuf,
    /// Up to when the model's training data was collected: YYYY-MM-DD or YYYY-MM.
    #[arg(long, value_name = "DATE", value_parser = date)]
    cutoff: i64,
    /// When collecting began, for the categories [default: a year before it ended].
    #[arg(long, value_name = "DATE", value_parser = date)]
    collection_start: Option<i64>,
    /// When collecting ended, for the categories [default: the cutoff].
    #[arg(long, value_name = "DATE", value_parser = date)]
    collection_end: Option<i64>,
    /// The model that is asked about: of those in `--presence` only this one.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What `contamination repo --format json` said of models and repositories: then each instance
    /// gets a verdict and a score of both stages for each model.
    #[arg(long, value_name = "FILE")]
    presence: Option<PathBuf>,
    /// From where on code counts as like the code after a patch, 0 to 1 [default: 0.7].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<f64>,
    /// How much of the added lines must be there, 0 to 1 [default: 0.7].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    containment: Option<f64>,
    /// Write the instances whose patch was absent, in the benchmark's own form: a file, or a folder
    /// for benchmarks that are folders.
    #[arg(long, value_name = "OUT")]
    filtered: Option<PathBuf>,
    /// Keep in it those of which nothing could be said, too.
    #[arg(long, requires = "filtered")]
    keep_unknown: bool,
    /// A leaderboard, to be told without the contaminated instances: JSON, an object of entries with
    /// the instances each resolves, or a list of objects with `name` and `resolved`.
    #[arg(long, value_name = "FILE")]
    leaderboard: Option<PathBuf>,
    /// Jobs run at once; by default one per core.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Say nothing of progress.
    #[arg(long, short)]
    quiet: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn date(text: &str) -> Result<i64, String> {
    last_second(text).ok_or_else(|| "a date such as 2024-06-30 or 2024-06 is expected".into())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share from 0 to 1 is expected".into()),
    }
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let window = window(args)?;
    let benchmark = read_benchmark(&args.benchmark)?;
    let entries = match &args.leaderboard {
        None => Vec::new(),
        Some(path) => {
            let wrong =
                |e: &dyn std::fmt::Display| AppError::Input(format!("{}: {e}", path.display()));
            let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
            leaderboard::read(&bytes).map_err(|e| wrong(&e))?
        }
    };
    let known = known(args)?;
    let usual = Thresholds::default();
    let thresholds = Thresholds {
        similarity: args.threshold.unwrap_or(usual.similarity),
        containment: args.containment.unwrap_or(usual.containment),
    };
    let question = Question {
        window,
        thresholds,
        repositories: args.repositories.clone(),
        jobs: args.jobs.map(usize::from),
    };
    let cancel = cancel_on_signals()?;
    let mut reporter = Reporter::new(question.jobs.unwrap_or(1), args.quiet);
    let found = patches(dir, &benchmark, &question, &cancel, &mut reporter);
    reporter.finish();
    let found = found?;
    let verdict_of = |verdict: Verdict| -> BTreeSet<&str> {
        let all = benchmark.instances.iter().zip(&found.told);
        all.filter(|(_, told)| told.as_ref().is_some_and(|t| t.verdict == verdict))
            .map(|(instance, _)| &*instance.id)
            .collect()
    };
    let (present, unknown) = (verdict_of(Verdict::Present), verdict_of(Verdict::Unknown));
    // With one model the question is what that model was trained on; else what was there for any.
    let contaminated: BTreeSet<&str> = match &known[..] {
        [model] => {
            let all = benchmark.instances.iter().zip(&found.told);
            all.filter(|(instance, told)| {
                let repository = model.repository(&instance.repository);
                told.as_ref()
                    .is_some_and(|t| joint(repository, t.verdict).0 == Joint::Contaminated)
            })
            .map(|(instance, _)| &*instance.id)
            .collect()
        }
        _ => present,
    };
    let rows = match found.missing {
        0 => effects(&entries, &benchmark.instances, |i| {
            contaminated.contains(&*i.id)
        }),
        _ => Vec::new(),
    };
    if let (Some(out), 0) = (&args.filtered, found.missing) {
        let files = benchmark.filtered(|i| {
            !contaminated.contains(&*i.id) && (args.keep_unknown || !unknown.contains(&*i.id))
        });
        for (name, bytes) in files {
            write(out, &name, &bytes)?;
        }
    }
    let told = Patches {
        benchmark: &benchmark,
        told: &found.told,
        asked: serde_json::json!({
            "cutoff": crate::date::day(window.cutoff),
            "collection": [crate::date::day(window.start), crate::date::day(window.end)],
            "model": args.model,
            "embedder": crate::contamination::patch::calibrate::LEXICAL,
            "similarity": thresholds.similarity,
            "containment": thresholds.containment,
        }),
        known: &known,
        rows: &rows,
        executed: &found.executed,
        missing: found.missing,
    };
    match args.format {
        Format::Json => print(&json(&patches_json(&told)))?,
        Format::Text => print(&patches_text(&told))?,
    }
    if found.missing > 0 {
        let why = match found.stopped {
            true => "it was stopped",
            false => "they failed for now",
        };
        eprintln!(
            "incomplete: {} jobs are missing, {why}; the same command goes on{}",
            found.missing,
            match args.filtered.is_some() {
                true => "; nothing was written",
                false => "",
            }
        );
        return Ok(exit::INCOMPLETE);
    }
    Ok(exit::OK)
}

/// What Stage I says of the models that are asked about.
fn known(args: &Args) -> Result<Vec<Known>, AppError> {
    let Some(path) = &args.presence else {
        return Ok(Vec::new());
    };
    let wrong = |e: &dyn std::fmt::Display| AppError::Input(format!("{}: {e}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
    let mut known = joint::read(&bytes).map_err(|e| wrong(&e))?;
    if let Some(model) = &args.model {
        let all: Vec<String> = known.iter().map(|k| k.model.clone()).collect();
        known.retain(|k| k.model == *model);
        if known.is_empty() {
            return Err(wrong(&format!(
                "it says nothing of `{model}`\n  help: it has {}",
                all.join(", ")
            )));
        }
    }
    Ok(known)
}

fn window(args: &Args) -> Result<Window, AppError> {
    let end = args.collection_end.unwrap_or(args.cutoff);
    let usual = Window::before(end);
    let window = Window {
        start: args.collection_start.unwrap_or(usual.start),
        end,
        cutoff: args.cutoff,
    };
    match window.start <= window.end && window.end <= window.cutoff {
        true => Ok(window),
        false => Err(AppError::Input(
            "collecting begins before it ends, and ends no later than the cutoff\n  help: see --collection-start and --collection-end"
                .into(),
        )),
    }
}

fn write(out: &Path, name: &str, bytes: &[u8]) -> Result<(), AppError> {
    let path = match name.is_empty() {
        true => out.to_path_buf(),
        false => out.join(name),
    };
    let fault = |e: std::io::Error| AppError::Environment(format!("{}: {e}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fault)?;
    }
    std::fs::write(&path, bytes).map_err(fault)
}
