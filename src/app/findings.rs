//! What tests found of models, in a file beside the store: verdicts of `contamination repo`, and what
//! models named in `contamination probe`.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{AppError, Evaluation};
use crate::contamination::findings::{FORMAT, Findings, fingerprint};
use crate::digest::Digest;
use crate::lang::SnippetLanguage;
use crate::oss::population::{self, FunctionArg};

/// Where they are, below the folder of the store.
const NOTED: &str = "contamination.json";

fn place(dir: &Path) -> PathBuf {
    dir.join(".everbench").join(NOTED)
}

/// What was found in `dir`; nothing yet if there is no such file.
///
/// # Errors
/// A file that cannot be read.
pub fn findings(dir: &Path) -> Result<Findings, AppError> {
    let path = place(dir);
    let unreadable = |why: String| {
        AppError::Input(format!(
            "{}: {why}\n  help: remove it, and run `everbench contamination repo` and `contamination probe` as before; nobody is asked twice",
            path.display()
        ))
    };
    match std::fs::read(&path) {
        Ok(bytes) => {
            let value: serde_json::Value =
                serde_json::from_slice(&bytes).map_err(|e| unreadable(e.to_string()))?;
            if value["format"] != FORMAT {
                return Err(unreadable(format!(
                    "its format is {}, and not \"{FORMAT}\"",
                    value["format"]
                )));
            }
            serde_json::from_value(value).map_err(|e| unreadable(e.to_string()))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Findings::default()),
        Err(e) => Err(AppError::Environment(format!("{}: {e}", path.display()))),
    }
}

/// Notes what was found besides what is noted.
///
/// # Errors
/// A file that cannot be read or written.
pub(super) fn note(dir: &Path, add: impl FnOnce(&mut Findings)) -> Result<(), AppError> {
    let mut all = findings(dir)?;
    add(&mut all);
    let path = place(dir);
    let fault = |e: std::io::Error| AppError::Environment(format!("{}: {e}", path.display()));
    let bytes = serde_json::to_vec(&all).expect("texts and numbers are JSON");
    let folder = path.parent().unwrap_or(dir);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
    std::io::Write::write_all(&mut file, &bytes).map_err(fault)?;
    file.persist(&path).map_err(|e| fault(e.error))?;
    Ok(())
}

/// The fingerprints of the functions that an evaluation asks, by the digests of their texts.
pub fn fingerprints(evaluation: &Evaluation) -> BTreeMap<Digest, u64> {
    let db = &evaluation.world.db;
    let mut all = BTreeMap::new();
    for (board, bench) in evaluation.boards.iter().zip(&evaluation.world.benches) {
        for function in board.board.sample.iter().flat_map(|sample| sample.iter()) {
            let arg = FunctionArg::new(db, function.clone());
            let text = population::text(db, bench.settings, bench.subject, arg);
            if let (Some(language), Ok(text)) = (SnippetLanguage::of_path(&function.path), text) {
                all.insert(function.text, fingerprint(language, &text));
            }
        }
    }
    all
}
