//! `everbench contamination`

mod calibrate;
mod patches;
mod probe;
mod repo;

use std::path::Path;

use clap::Subcommand;

use super::common::CliResult;

/// Was a repository, or the patch of a bug's fix, in what a model was trained on?
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Repo(repo::Args),
    Probe(probe::Args),
    Patches(patches::Args),
    Calibrate(calibrate::Args),
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::Repo(args) => repo::run(dir, args),
        Command::Probe(args) => probe::run(dir, args),
        Command::Patches(args) => patches::run(dir, args),
        Command::Calibrate(args) => calibrate::run(dir, args),
    }
}
