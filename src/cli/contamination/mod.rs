//! `everbench contamination`

mod patches;

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
    Patches(patches::Args),
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::Patches(args) => patches::run(dir, args),
    }
}
