//! `everbench tosss`

mod import;
mod mine;
mod pairs;
mod plan;
mod run;
mod score;

use std::path::Path;

use clap::Subcommand;

use super::common::CliResult;

/// Which of two versions of a function, before and after a security fix, does a model prefer?
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Mine(mine::Args),
    Pairs(pairs::Args),
    Prompts(run::PromptsArgs),
    Run(run::Args),
    Score(score::Args),
    ImportResults(import::Args),
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    match &args.command {
        Command::Mine(args) => mine::run(dir, args),
        Command::Pairs(args) => pairs::run(dir, args),
        Command::Prompts(args) => run::run_prompts(dir, args),
        Command::Run(args) => run::run(dir, args),
        Command::Score(args) => score::run(dir, args),
        Command::ImportResults(args) => import::run(args),
    }
}
