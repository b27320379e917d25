//! `everbench subjects`

use std::path::{Path, PathBuf};

use super::common::{
    CliResult, ExecutionArgs, Format, cancel_on_signals, exit, libclang_path, print,
};
use super::progress::Reporter;
use super::run::json;
use crate::app::{self, App, AppError, Checks, Options};
use crate::report;
use crate::subject::Source;

/// What can be tested: list the subjects that come with everbench, check one, write a manifest.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(ListArgs),
    Check(CheckArgs),
    Fetch(FetchArgs),
    New(NewArgs),
}

/// Write a subject's source, as it will be built, into a folder.
#[derive(clap::Args)]
struct FetchArgs {
    /// A subject of the project, one that comes with everbench, or the path of a manifest.
    subject: String,
    /// The folder, which must be empty or not there.
    folder: PathBuf,
}

/// The subjects that come with everbench.
#[derive(clap::Args)]
struct ListArgs {
    /// How the list is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Build a subject, run its unchanged tests three times, and say how much they execute and notice.
#[derive(clap::Args)]
struct CheckArgs {
    /// A subject of the project, one that comes with everbench, or the path of a manifest.
    subject: String,
    /// Faults of each kind that are planted, one at a time, to see whether the suite notices.
    #[arg(long, value_name = "N", default_value = "20")]
    planted: u32,
    /// Do not count which lines and functions the suite executes.
    #[arg(long)]
    no_coverage: bool,
    /// Seed of the draw of functions.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Which of the subject's profiles.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// How the result is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Write a first manifest for a directory, with a guess at how it is built and tested.
#[derive(clap::Args)]
struct NewArgs {
    /// The directory that holds the project's source.
    directory: PathBuf,
    /// What the subject is called; the directory's own name without this.
    #[arg(long)]
    name: Option<String>,
    /// The file to write; NAME.toml in the project's folder without this.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::List(args) => list(args),
        Command::Check(args) => check(dir, args),
        Command::Fetch(args) => fetch(dir, args),
        Command::New(args) => new(dir, args),
    }
}

fn list(args: &ListArgs) -> CliResult {
    let known = app::known()?;
    match args.format {
        Format::Json => {
            let rows: Vec<_> = known
                .iter()
                .map(|k| {
                    serde_json::json!({
                        "name": k.manifest.name, "source": origin(&k.manifest.source), "about": k.about,
                        "functions_per_iteration": k.manifest.scoring.functions_per_iteration,
                    })
                })
                .collect();
            print(&json(
                &serde_json::json!({ "schema": "everbench/subjects/1", "rows": rows }),
            ))?;
        }
        Format::Text => {
            let mut out = String::new();
            for k in &known {
                let origin = origin(&k.manifest.source);
                out.push_str(&format!(
                    "{:<20} {origin}\n{:<20} {}\n",
                    k.manifest.name, "", k.about
                ));
            }
            print(&out)?;
        }
    }
    Ok(exit::OK)
}

fn origin(source: &Source) -> String {
    match source {
        Source::Crate(_) => format!("crate {}", source.label()),
        Source::Debian(_) => format!("Debian source package {}", source.label()),
        Source::Directory(_) => "comes with everbench".into(),
        Source::Git(_) => format!("git {}", source.label()),
        Source::Sdist(_) => format!("Python source distribution {}", source.label()),
        Source::Tarball(_) => format!("archive {}", source.label()),
    }
}

fn check(dir: &Path, args: &CheckArgs) -> CliResult {
    let cancel = cancel_on_signals()?;
    let app = App::open_to_check(dir, &args.subject)?;
    let options = Options {
        seed: args.seed,
        profile: args.profile.clone(),
        compiler: args.execution.compiler.clone(),
        jobs: args.execution.jobs.map(usize::from),
        libclang: libclang_path(),
        ..Options::default()
    };
    let checks = Checks {
        planted: args.planted,
        coverage: !args.no_coverage,
    };
    let mut reporter = Reporter::new(1, args.format == Format::Json);
    let result = app.check(&options, checks, &cancel, &mut reporter);
    reporter.finish();
    let checked = report::check(&result?);
    match args.format {
        Format::Json => print(&json(&checked))?,
        Format::Text => print(&report::check_text(&checked))?,
    }
    Ok(match checked.suspect {
        Some(_) => exit::BASELINE,
        None => exit::OK,
    })
}

fn fetch(dir: &Path, args: &FetchArgs) -> CliResult {
    let cancel = cancel_on_signals()?;
    let app = App::open_to_check(dir, &args.subject)?;
    let mut reporter = Reporter::new(1, false);
    let result = app.fetch(&Options::default(), &args.folder, &cancel, &mut reporter);
    reporter.finish();
    let fetched = result?;
    print(&format!(
        "{}, snapshot {}: {} files in {}\n",
        fetched.commit,
        fetched.snapshot,
        fetched.files,
        args.folder.display()
    ))?;
    Ok(exit::OK)
}

fn new(dir: &Path, args: &NewArgs) -> CliResult {
    let input =
        |path: &Path, e: std::io::Error| AppError::Input(format!("{}: {e}", path.display()));
    let directory = args
        .directory
        .canonicalize()
        .map_err(|e| input(&args.directory, e))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => name_of(&directory),
    };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| dir.join(format!("{name}.toml")));
    if output.exists() && !args.force {
        return Err(AppError::Input(format!(
            "{} exists\n  help: `--force` replaces it, `--output` writes another",
            output.display()
        ))
        .into());
    }
    let guess = app::guess_manifest(&directory, &directory.display().to_string(), &name)?;
    if let Some(parent) = output.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|e| input(parent, e))?;
    }
    std::fs::write(&output, &guess.text).map_err(|e| input(&output, e))?;
    let mut out = format!("wrote {} ({:?})\n", output.display(), guess.system);
    for note in &guess.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out.push_str(&format!(
        "next: look at the lines that say `check`, then `everbench subjects check {}`\n",
        output.display()
    ));
    print(&out)?;
    Ok(exit::OK)
}

/// A subject's name from a directory's: what may not stand in one becomes `-`.
fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') => c,
        _ => '-',
    };
    let name: String = name.chars().map(plain).take(64).collect();
    match name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        true => name,
        false => "subject".into(),
    }
}
