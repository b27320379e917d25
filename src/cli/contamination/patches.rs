//! `everbench contamination patches`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::repo::{lists, notes};
use crate::app::asking::{Run, Whom};
use crate::app::embedding::{Calibrations, Embedder, embedded};
use crate::app::patches::{Found, Question, patches, read_benchmark};
use crate::app::presence::{self, Plan, Told, language};
use crate::app::trial::Environments;
use crate::app::{AppError, Environment, Options, stages, trial};
use crate::cancel::Cancel;
use crate::cli::common::{
    CliError, CliResult, Format, cancel_on_signals, exit, libclang_path, print, usd,
};
use crate::cli::progress::Reporter;
use crate::cli::run::json;
use crate::contamination::Settings;
use crate::contamination::patch::benchmark::{Benchmark, Instance};
use crate::contamination::patch::calibrate::LEXICAL;
use crate::contamination::patch::category::Window;
use crate::contamination::patch::decide::Thresholds;
use crate::contamination::patch::joint::{self, Joint, Known, joint};
use crate::contamination::patch::leaderboard::{self, Entry, effects};
use crate::contamination::patch::verdict::Verdict;
use crate::contamination::probe::Draws;
use crate::contamination::verdict::Rules;
use crate::date::last_second;
use crate::report::{
    Patches, patches_json, patches_text, presence_evidence, presence_json, presence_text,
};

/// Say of each instance of a bug-fixing benchmark whether its patch was in its repository at a
/// model's cutoff, since which commit, and by which hunk.
///
/// Histories are read without a checkout, and what they say is kept: another cutoff reads nothing
/// again. Needs no project file. With `--corpus` and `--control` the models of the project file are
/// then asked, as `contamination repo` does, whether they know the repositories in which a patch was
/// there, as they were at the cutoff, and each instance gets a verdict of both stages.
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
    /// The model that is asked, or asked about: of those in the project file or in `--presence` only
    /// this one.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What `contamination repo --format json` said of models and repositories: then each instance
    /// gets a verdict and a score of both stages for each model.
    #[arg(long, value_name = "FILE", conflicts_with = "corpus")]
    presence: Option<PathBuf>,
    #[command(flatten)]
    ask: Ask,
    /// How repositories are built and tested, as `[[environment]]` tables with `repository` and
    /// `manifest`: where comparing code says nothing, the instance's tests decide, in the sandbox.
    #[arg(long, value_name = "FILE")]
    environments: Option<PathBuf>,
    /// Let the tests decide wherever they can.
    #[arg(long, requires = "environments")]
    test_all: bool,
    /// A model of the project file with `api = "openai-embeddings"`: code is compared by its vectors in
    /// place of shared tokens.
    #[arg(long, value_name = "NAME")]
    embedder: Option<String>,
    /// From where on code counts as like the code after a patch, 0 to 1 [default: what `contamination
    /// calibrate` found out here, else 0.7].
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

/// How models are asked about repositories; see `contamination repo`.
#[derive(clap::Args)]
struct Ask {
    /// Ask models, and measure against these families of the repositories' language what is rare;
    /// may be given several times.
    #[arg(long, value_name = "SOURCE", requires_all = ["control", "language"])]
    corpus: Vec<String>,
    /// Repositories that no model can have seen: they say what luck explains. May be given several
    /// times.
    #[arg(long, value_name = "SOURCE", requires = "corpus")]
    control: Vec<String>,
    /// The language of the repositories.
    #[arg(long, value_name = "LANGUAGE", requires = "corpus")]
    language: Option<String>,
    /// Recorded replies; may be given several times.
    #[arg(long, value_name = "FILE", requires = "corpus")]
    replay: Vec<PathBuf>,
    /// Ask four times at temperature 0.8 in place of once; one hit is enough.
    #[arg(long, requires = "corpus")]
    four_draws: bool,
    /// What models over HTTP may cost in this run, in dollars.
    #[arg(long, value_name = "USD", value_parser = usd, requires = "corpus")]
    max_cost: Option<u64>,
    /// Show every snippet that was asked.
    #[arg(long, requires = "corpus")]
    evidence: bool,
}

fn date(text: &str) -> Result<i64, String> {
    last_second(text).ok_or_else(|| "a date such as 2024-06-30 or 2024-06 is expected".into())
}

pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share from 0 to 1 is expected".into()),
    }
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let benchmark = read_benchmark(&args.benchmark)?;
    let entries = entries(args)?;
    let known = known(args)?;
    let threshold = threshold(dir, args)?;
    let inquiry = Inquiry {
        dir,
        args,
        benchmark: &benchmark,
        question: Question {
            window: window(args)?,
            thresholds: threshold.thresholds,
            repositories: args.repositories.clone(),
            jobs: args.jobs.map(usize::from),
        },
        cancel: cancel_on_signals()?,
    };
    let mut found = inquiry.walked()?;
    let mut compared = LEXICAL.to_string();
    if let (Some(name), 0) = (&args.embedder, found.missing) {
        compared = inquiry.embedded(&mut found, name)?;
    }
    if let (Some(path), 0) = (&args.environments, found.missing) {
        inquiry.tried(&mut found, path)?;
    }
    if let Some(other) = threshold.found_for.filter(|found| *found != compared) {
        eprintln!("note: the threshold was calibrated for {other}, and this is {compared}");
    }
    let presence = match (&args.ask.language, found.missing) {
        (Some(named), 0) => inquiry.asked(named, &found)?,
        _ => None,
    };
    let known = presence.as_ref().map_or(known, stages::known);
    let unanswered: usize = presence.iter().flat_map(|p| p.incomplete.values()).sum();
    let contaminated = contaminated(&benchmark, &found, &known);
    let mut rows = Vec::new();
    if found.missing + unanswered == 0 {
        let is = |i: &Instance| contaminated.contains(&*i.id);
        rows = effects(&entries, &benchmark.instances, is);
        if let Some(out) = &args.filtered {
            let unknown = with_verdict(&benchmark, &found, Verdict::Unknown);
            let kept = |i: &Instance| !is(i) && (args.keep_unknown || !unknown.contains(&*i.id));
            for (name, bytes) in benchmark.filtered(kept) {
                write(out, &name, &bytes)?;
            }
        }
    }
    let told = Patches {
        benchmark: &benchmark,
        told: &found.told,
        asked: inquiry.told(&compared),
        known: &known,
        rows: &rows,
        executed: &found.executed,
        missing: found.missing,
    };
    show(args, &told, presence.as_ref())?;
    Ok(ended(args, &found, presence.as_ref()))
}

/// The leaderboard that is told without the contaminated instances.
fn entries(args: &Args) -> Result<Vec<Entry>, AppError> {
    let Some(path) = &args.leaderboard else {
        return Ok(Vec::new());
    };
    let wrong = |e: &dyn std::fmt::Display| AppError::Input(format!("{}: {e}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
    leaderboard::read(&bytes).map_err(|e| wrong(&e))
}

/// From where on code counts as like other code.
struct Threshold {
    thresholds: Thresholds,
    /// What it was calibrated for, if it was.
    found_for: Option<String>,
}

fn threshold(dir: &Path, args: &Args) -> Result<Threshold, AppError> {
    let usual = Thresholds::default();
    let embedder = args.embedder.as_deref().unwrap_or(LEXICAL);
    let mut calibrations = Calibrations::read(dir)?;
    let calibration = calibrations.embedders.remove(embedder);
    let calibration = calibration.filter(|_| args.threshold.is_none());
    let found_out = calibration.as_ref().map(|c| c.theta);
    Ok(Threshold {
        thresholds: Thresholds {
            similarity: args.threshold.or(found_out).unwrap_or(usual.similarity),
            containment: args.containment.unwrap_or(usual.containment),
        },
        found_for: calibration.map(|c| c.embedder),
    })
}

/// What is asked, and the ways to find it out, in the order in which they are gone.
struct Inquiry<'a> {
    dir: &'a Path,
    args: &'a Args,
    benchmark: &'a Benchmark,
    question: Question,
    cancel: Cancel,
}

impl Inquiry<'_> {
    fn reporter(&self, jobs: Option<usize>) -> Reporter {
        Reporter::new(jobs.unwrap_or(1), self.args.quiet)
    }

    /// Histories are walked.
    fn walked(&self) -> Result<Found, AppError> {
        let question = &self.question;
        let mut reporter = self.reporter(question.jobs);
        let found = patches(
            self.dir,
            self.benchmark,
            question,
            &self.cancel,
            &mut reporter,
        );
        reporter.finish();
        found
    }

    /// Code is compared by its vectors; gives the model's revision.
    fn embedded(&self, found: &mut Found, name: &str) -> Result<String, AppError> {
        let embedder = Embedder {
            name: name.to_string(),
            options: Options {
                max_cost: self.args.ask.max_cost,
                environment: Environment(Some(|name| std::env::var(name).ok())),
                ..Options::default()
            },
        };
        let mut reporter = self.reporter(self.question.jobs);
        let run = Run {
            cancel: &self.cancel,
            observer: &mut reporter,
        };
        let (dir, benchmark) = (self.dir, self.benchmark);
        let asked = embedded(dir, benchmark, &self.question, found, &embedder, run);
        reporter.finish();
        let asked = asked?;
        for why in asked.failures.iter().take(5) {
            eprintln!("not embedded: {why}");
        }
        found.told = asked.value;
        found.missing = asked.missing;
        for (kind, n) in asked.executed {
            *found.executed.entry(kind).or_default() += n;
        }
        Ok(asked.models[0].revision.clone())
    }

    /// Tests decide, in the sandbox.
    fn tried(&self, found: &mut Found, environments: &Path) -> Result<(), AppError> {
        let environments = Environments::read(environments)?;
        let options = Options {
            jobs: self.question.jobs,
            libclang: libclang_path(),
            ..Options::default()
        };
        let mut reporter = self.reporter(None);
        let tried = trial::decide(
            self.dir,
            self.benchmark,
            found,
            &environments,
            self.args.test_all,
            &options,
            &self.cancel,
            &mut reporter,
        );
        reporter.finish();
        let tried = tried?;
        eprintln!("tests decided {} instances", tried.decided);
        for (why, n) in &tried.open {
            eprintln!("{n:>7}  not: {why}");
        }
        Ok(())
    }

    /// Stage I for the repositories in which a patch was there.
    fn asked(&self, named: &str, found: &Found) -> Result<Option<presence::Found>, AppError> {
        let ask = &self.args.ask;
        let plan = Plan {
            language: language(named)?,
            repositories: Vec::new(),
            corpus: lists(&ask.corpus)?,
            controls: lists(&ask.control)?,
            settings: Settings::default(),
            rules: Rules::default(),
            draws: match ask.four_draws {
                true => Draws::Four,
                false => Draws::Greedy,
            },
        };
        let whom = Whom {
            replays: ask.replay.clone(),
            models: self.args.model.iter().cloned().collect(),
            max_cost: ask.max_cost,
            environment: Environment(Some(|name| std::env::var(name).ok())),
        };
        let mut reporter = self.reporter(None);
        let told = Told {
            run: Run {
                cancel: &self.cancel,
                observer: &mut reporter,
            },
            tell: &mut |_| {},
        };
        let presence = stages::knows(self.dir, self.benchmark, found, plan, &whom, told);
        reporter.finish();
        presence
    }

    /// How the question was put, for the document.
    fn told(&self, compared: &str) -> serde_json::Value {
        let (window, thresholds) = (&self.question.window, &self.question.thresholds);
        let day = crate::date::day;
        serde_json::json!({
            "cutoff": day(window.cutoff),
            "collection": [day(window.start), day(window.end)],
            "model": self.args.model,
            "embedder": compared,
            "similarity": thresholds.similarity,
            "containment": thresholds.containment,
        })
    }
}

fn with_verdict<'a>(
    benchmark: &'a Benchmark,
    found: &Found,
    verdict: Verdict,
) -> BTreeSet<&'a str> {
    let all = benchmark.instances.iter().zip(&found.told);
    all.filter(|(_, told)| told.as_ref().is_some_and(|t| t.verdict == verdict))
        .map(|(instance, _)| &*instance.id)
        .collect()
}

/// With one model the question is what that model was trained on; else what was there for any.
fn contaminated<'a>(benchmark: &'a Benchmark, found: &Found, known: &[Known]) -> BTreeSet<&'a str> {
    let [model] = known else {
        return with_verdict(benchmark, found, Verdict::Present);
    };
    let all = benchmark.instances.iter().zip(&found.told);
    all.filter(|(instance, told)| {
        let repository = model.repository(&instance.repository);
        told.as_ref()
            .is_some_and(|t| joint(repository, t.verdict).0 == Joint::Contaminated)
    })
    .map(|(instance, _)| &*instance.id)
    .collect()
}

fn show(
    args: &Args,
    told: &Patches<'_>,
    presence: Option<&presence::Found>,
) -> Result<(), CliError> {
    match args.format {
        Format::Json => {
            let mut document = patches_json(told);
            if let Some(presence) = presence {
                document["presence"] = presence_json(presence, args.ask.evidence);
            }
            print(&json(&document))
        }
        Format::Text => {
            print(&patches_text(told))?;
            if let Some(presence) = presence {
                print(&format!("\n{}", presence_text(presence)))?;
                if args.ask.evidence {
                    print(&presence_evidence(presence))?;
                }
            }
            Ok(())
        }
    }
}

/// Says what is missing, and how to leave.
fn ended(args: &Args, found: &Found, presence: Option<&presence::Found>) -> u8 {
    if args.ask.language.is_some() && presence.is_none() && found.missing == 0 {
        eprintln!("note: no patch was there at the cutoff, so no model was asked");
    }
    let complete = presence.map_or(exit::OK, notes);
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
        return exit::INCOMPLETE;
    }
    if complete != exit::OK && args.filtered.is_some() {
        eprintln!("nothing was written: not all was answered");
    }
    complete
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
