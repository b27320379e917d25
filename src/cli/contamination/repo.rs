//! `everbench contamination repo`

use std::path::{Path, PathBuf};

use crate::app::asking::{Run, Whom};
use crate::app::corpus::List;
use crate::app::presence::{Found, Plan, Told, language, test_presence};
use crate::app::{AppError, Environment};
use crate::ask::prices::dollars;
use crate::cli::common::{CliResult, Format, cancel_on_signals, exit, print, usd};
use crate::cli::progress::Reporter;
use crate::cli::run::json;
use crate::contamination::Settings;
use crate::contamination::probe::Draws;
use crate::contamination::verdict::Rules;
use crate::report::{presence_evidence, presence_json, presence_text};

/// Were repositories in the training data of models? Asks them to continue places that only those
/// who have seen the repository can continue, and tests whether there are more hits than luck
/// explains.
///
/// A source is a folder, an archive, `crate:NAME[=VERSION]`, `sdist:NAME[=VERSION]`,
/// `debian:NAME[=VERSION]`, `git:LOCATION[#REVISION]`, or a list of sources whose name ends in
/// `.toml`. Models are those of the project file, or recorded replies.
#[derive(clap::Args)]
pub struct Args {
    /// The repositories under test.
    #[arg(required = true, value_name = "SOURCE")]
    repositories: Vec<String>,
    /// Their language.
    #[arg(long, value_name = "LANGUAGE")]
    language: String,
    /// Families of the same language, against which it is measured what is rare and what can be
    /// guessed; may be given several times.
    #[arg(long, required = true, value_name = "SOURCE")]
    corpus: Vec<String>,
    /// Repositories that cannot have been in the training data, such as those published after it was
    /// collected: they say what luck explains. May be given several times.
    #[arg(long, required = true, value_name = "SOURCE")]
    control: Vec<String>,
    /// Only this model of the project file; may be given several times.
    #[arg(long = "model", value_name = "NAME", conflicts_with = "replay")]
    models: Vec<String>,
    /// Recorded replies; may be given several times.
    #[arg(long, value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// Ask four times at temperature 0.8 in place of once; one hit is enough.
    #[arg(long)]
    four_draws: bool,
    /// What models over HTTP may cost in this run, in dollars.
    #[arg(long, value_name = "USD", value_parser = usd)]
    max_cost: Option<u64>,
    /// Show every snippet that was asked: what stands before it, what was expected, what was said.
    #[arg(long)]
    evidence: bool,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Say nothing of progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let plan = Plan {
        language: language(&args.language)?,
        repositories: lists(&args.repositories)?,
        corpus: lists(&args.corpus)?,
        controls: lists(&args.control)?,
        settings: Settings::default(),
        rules: Rules::default(),
        draws: match args.four_draws {
            true => Draws::Four,
            false => Draws::Greedy,
        },
    };
    let whom = Whom {
        replays: args.replay.clone(),
        models: args.models.clone(),
        max_cost: args.max_cost,
        environment: Environment(Some(|name| std::env::var(name).ok())),
    };
    let cancel = cancel_on_signals()?;
    let mut reporter = Reporter::new(1, args.quiet);
    let told = Told {
        run: Run {
            cancel: &cancel,
            observer: &mut reporter,
        },
        tell: &mut |_| {},
    };
    let found = test_presence(dir, &plan, &whom, told);
    reporter.finish();
    show(&found?, args)
}

/// What names of sources on a command line mean.
pub fn lists(named: &[String]) -> Result<Vec<List>, AppError> {
    let list = |name: &String| match name.ends_with(".toml") {
        true => List::read(Path::new(name)),
        false => Ok(List::of(name)),
    };
    named.iter().map(list).collect()
}

fn show(found: &Found, args: &Args) -> CliResult {
    match args.format {
        Format::Json => print(&json(&presence_json(found, args.evidence)))?,
        Format::Text => {
            print(&presence_text(found))?;
            if args.evidence {
                print(&presence_evidence(found))?;
            }
        }
    }
    Ok(notes(found))
}

/// Says what was left out, spent and not answered, and how to leave.
pub fn notes(found: &Found) -> u8 {
    for (name, why) in &found.missing {
        eprintln!("left out: {name}: {why}");
    }
    if let Some(statement) = &found.statement {
        for event in &statement.events {
            eprintln!("note: {event}");
        }
        if statement.micro_usd > 0 {
            eprintln!("spent in this run: {}", dollars(statement.micro_usd));
        }
    }
    for why in found.failures.iter().take(5) {
        eprintln!("not answered: {why}");
    }
    for (model, missing) in &found.incomplete {
        eprintln!(
            "incomplete: {model} has not answered {missing} questions, and is in no table; the same command goes on"
        );
    }
    match found.incomplete.is_empty() {
        true => exit::OK,
        false => exit::INCOMPLETE,
    }
}
