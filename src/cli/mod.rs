//! The command line: the only room that prints. One file per command; `main` reads the arguments,
//! runs one command and turns its error into a message and an exit code.
#![allow(clippy::disallowed_methods, reason = "an impure room")]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod audit;
mod common;
mod contamination;
mod doctor;
mod extractors;
mod history;
mod init;
mod list;
mod models;
mod plan;
mod progress;
mod prompts;
mod release;
mod retract;
mod rollover;
mod run;
mod score;
mod show;
mod store;
mod subjects;
mod sync;
mod tosss;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use common::CliError;
pub use common::exit;

/// A live benchmark generator for coding LLMs.
#[derive(Parser)]
#[command(name = "everbench", version, after_help = common::EXIT_HELP)]
struct Cli {
    /// The project's folder: where everbench.toml is.
    #[arg(long, global = true, default_value = ".")]
    dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    Doctor(doctor::Args),
    Plan(plan::Args),
    Rollover(rollover::Args),
    Run(run::Args),
    Score(score::Args),
    History(history::Args),
    List(list::Args),
    Models(models::Args),
    Show(show::Args),
    Audit(audit::Args),
    Contamination(contamination::Args),
    Extractors(extractors::Args),
    Prompts(prompts::Args),
    Release(release::Args),
    Retract(retract::Args),
    #[command(visible_alias = "cache")]
    Store(store::Args),
    Subjects(subjects::Args),
    Sync(sync::Args),
    Tosss(tosss::Args),
    Why(why::Args),
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() {
                exit::USAGE
            } else {
                exit::OK
            });
        }
    };
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !crate::store::catches_panics() {
            tell(info);
        }
    }));
    // With a handler, a file that reaches a size limit (`ulimit -f`) is an error of writing, which
    // the store survives and tells, and not the end of this process. The flag itself is not read.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let dir = &cli.dir;
    let result = match cli.command {
        Command::Init(args) => init::run(dir, &args),
        Command::Doctor(args) => doctor::run(dir, &args),
        Command::Plan(args) => plan::run(dir, &args),
        Command::Rollover(args) => rollover::run(dir, &args),
        Command::Run(args) => run::run(dir, &args),
        Command::Score(args) => score::run(dir, &args),
        Command::History(args) => history::run(dir, &args),
        Command::List(args) => list::run(dir, &args),
        Command::Models(args) => models::run(dir, &args),
        Command::Show(args) => show::run(dir, &args),
        Command::Audit(args) => audit::run(dir, &args),
        Command::Contamination(args) => contamination::run(dir, &args),
        Command::Extractors(args) => extractors::run(dir, &args),
        Command::Prompts(args) => prompts::run(dir, &args),
        Command::Release(args) => release::run(dir, &args),
        Command::Retract(args) => retract::run(dir, &args),
        Command::Store(args) => store::run(dir, &args),
        Command::Subjects(args) => subjects::run(dir, &args),
        Command::Sync(args) => sync::run(dir, &args),
        Command::Tosss(args) => tosss::run(dir, &args),
        Command::Why(args) => why::run(dir, &args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        // Whoever reads our output may stop reading it.
        Err(CliError::Closed) => ExitCode::from(exit::OK),
        Err(CliError::App(e)) => {
            eprintln!("error: {e}");
            ExitCode::from(common::code_of(&e))
        }
    }
}
