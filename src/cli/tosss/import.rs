//! `everbench tosss import-results`

use std::path::{Path, PathBuf};

use crate::app::AppError;
use crate::cli::common::{CliResult, Format, exit, print};
use crate::cli::run::json;
use crate::report::{tosss_json, tosss_text};
use crate::tosss::results;
use crate::tosss::score::{Settings, scores};

/// Score answers that another harness wrote down, with intervals clustered by CVE, comparisons of
/// models and groups.
///
/// Each file is CSV with columns `cve_id` and `success` (True, False or skipped). Its name says
/// whose answers they are, as in maker-model_c_cpp_hint.csv, or columns `model`, `language` and
/// `arm` do. Needs no project.
#[derive(clap::Args)]
pub struct Args {
    /// The files, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How it is shown.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args) -> CliResult {
    let mut files = Vec::new();
    for path in &args.files {
        files.extend(listed(path)?);
    }
    let mut read = Vec::new();
    for path in files {
        let bytes = std::fs::read(&path).map_err(|e| unreadable(&path, &e))?;
        read.push((path.display().to_string(), bytes));
    }
    let given = read.iter().map(|(name, bytes)| (&**name, &**bytes));
    let results = results::read(given).map_err(|e| AppError::Input(e.to_string()))?;
    let scores = scores(&results.sheets, &Settings::default())
        .map_err(|e| AppError::Input(e.to_string()))?;
    for (file, line, why) in results.left_out.iter().take(SHOWN) {
        eprintln!("left out: {file}:{line}: {why}");
    }
    if results.left_out.len() > SHOWN {
        eprintln!("left out: {} rows in all", results.left_out.len());
    }
    match args.format {
        Format::Text => print(&tosss_text(&scores))?,
        Format::Json => {
            let mut document = tosss_json(&scores);
            let rows = results.left_out.iter();
            let rows = rows.map(|(file, line, why)| {
                serde_json::json!({ "file": file, "line": line, "reason": why })
            });
            document["left_out"] = rows.collect();
            print(&json(&document))?;
        }
    }
    Ok(exit::OK)
}

/// So many rows that were left out are told one by one.
const SHOWN: usize = 10;

/// The file itself, or the `.csv` files of a folder by name.
fn listed(path: &Path) -> Result<Vec<PathBuf>, AppError> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| unreadable(path, &e))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "csv"))
        .collect();
    files.sort();
    match files.is_empty() {
        true => Err(AppError::Input(format!(
            "{}: there is no .csv file in this folder",
            path.display()
        ))),
        false => Ok(files),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> AppError {
    AppError::Input(format!("{}: {error}", path.display()))
}
