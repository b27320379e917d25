//! `everbench init`

use std::path::Path;

use super::common::{CliResult, exit, print};
use crate::app::AppError;
use crate::{config, subject};

/// Write an everbench.toml with a subject and the calibration models.
#[derive(clap::Args)]
pub struct Args {
    /// A subject that comes with everbench, or the path of a manifest.
    #[arg(long, value_name = "NAME|PATH", default_value = "oniguruma")]
    subject: String,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(dir: &Path, args: &Args) -> CliResult {
    let path = dir.join(config::FILE);
    if path.exists() && !args.force {
        return Err(AppError::Input(format!(
            "{} exists\n  help: `--force` replaces it",
            path.display()
        ))
        .into());
    }
    let io = |e: std::io::Error| AppError::Environment(format!("{}: {e}", path.display()));
    let manifest = Path::new(&args.subject);
    let line = if manifest.extension().is_some_and(|e| e == "toml") {
        let full = manifest
            .canonicalize()
            .map_err(|e| AppError::Input(format!("{}: {e}", manifest.display())))?;
        format!("manifest = {:?}", full.display().to_string())
    } else {
        subject::preset(&args.subject)?;
        format!("preset = {:?}", args.subject)
    };
    std::fs::create_dir_all(dir).map_err(io)?;
    std::fs::write(&path, config::default_text(&line)).map_err(io)?;
    print(&format!(
        "wrote {}\nnext: `everbench doctor` checks this machine, `everbench run --limit 40` tries it out\n",
        path.display()
    ))?;
    Ok(exit::OK)
}
