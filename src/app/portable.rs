//! Carrying what evaluations and releases rest on from one store to another, in a file.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::Path;

use super::AppError;
use super::release::{RELEASE, Release};
use super::stored::{store_to_change, store_to_fill, store_to_look, stored};
use crate::ask;
use crate::contamination::patch;
use crate::job::Kind;
use crate::oss::{artifact, case, compiled};
use crate::store::{Exported, ImportOptions, Imported, Store, StoreError};
use crate::tosss;

/// Every kind whose outputs are kept.
pub(super) const KINDS: [Kind; 23] = [
    ask::COMPLETION,
    case::CALIBRATION,
    artifact::SOURCE,
    artifact::FOOTPRINT,
    artifact::BASE,
    artifact::VERDICT,
    artifact::AUDIT,
    artifact::PROGRAM,
    artifact::READS,
    artifact::RUN,
    artifact::WARNINGS,
    artifact::COVERAGE,
    compiled::EXTRACT,
    tosss::jobs::CHANGE,
    tosss::jobs::PATCHES,
    patch::jobs::LINE,
    patch::jobs::STRETCH,
    patch::jobs::JOIN,
    patch::jobs::WALK,
    patch::jobs::LEG,
    patch::jobs::TEXTS,
    patch::jobs::PLANTED,
    RELEASE,
];

/// Roots below these go along with any other: what was noted of the machine and the last run,
/// without which a score elsewhere does not know what to look for; and what was taken back.
const ALONG: [&str; 3] = ["surroundings/", "observed/", "retraction/"];

/// Writes what the `wanted` roots rest on into `file`, all roots if none is given. A root's name
/// stands for the roots below it too: `release/x` for `release/x/subject`.
pub fn export_store(dir: &Path, file: &Path, wanted: &[String]) -> Result<Exported, AppError> {
    let store = store_to_look(dir)?;
    let all = store.reader()?.roots()?;
    let all: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
    let is = |name: &str, wanted: &str| {
        let below = name.strip_prefix(wanted.trim_end_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for root in wanted {
        if !all.iter().any(|name| is(name, root)) {
            let name = root.clone();
            let noted = |n: &String| !ALONG.iter().any(|note| n.starts_with(note));
            let known = all.into_iter().filter(noted).collect();
            return Err(StoreError::NoSuchRoot { name, known }.into());
        }
    }
    let chosen = |name: &String| {
        wanted.is_empty()
            || wanted.iter().any(|root| is(name, root))
            || ALONG.iter().any(|note| name.starts_with(note))
    };
    let roots: Vec<String> = all.into_iter().filter(chosen).collect();
    if roots.is_empty() {
        return Err(AppError::Input("there is nothing to export: no evaluation is complete\n  help: `everbench run` completes one".into()));
    }
    Ok(store.export(&roots, file)?)
}

/// Takes what `file` holds into the store of the folder, which is made if there is none.
pub fn import_store(
    dir: &Path,
    file: &Path,
    replace_roots: bool,
    dry_run: bool,
) -> Result<Imported, AppError> {
    let options = ImportOptions {
        kinds: &KINDS,
        replace_roots,
        dry_run,
    };
    Ok(match (dry_run, stored(dir)) {
        (true, false) => Imported::into_nothing(file, &KINDS)?,
        (true, true) => store_to_look(dir)?.import(file, &options)?,
        (false, true) => store_to_change(dir)?.import(file, &options)?,
        (false, false) => {
            // Refused before a folder is made for it.
            Imported::into_nothing(file, &KINDS)?;
            store_to_fill(dir)?.import(file, &options)?
        }
    })
}

/// Writes what a release rests on into `file`, and nothing else: it is all that
/// `release verify --from` needs.
///
/// # Errors
/// [`AppError::Input`] if there is no such release; those of writing.
pub fn export_release(dir: &Path, name: &str, file: &Path) -> Result<Exported, AppError> {
    let store = store_to_look(dir)?;
    let roots = Release::open(&store, name)?.roots()?;
    Ok(store.export(&roots, file)?)
}

/// A store that holds what is in `file`, in a folder that goes when this is dropped.
///
/// # Errors
/// A file that is no export, was altered or has kinds that are not known; no room.
pub fn store_of_export(file: &Path) -> Result<(Store, tempfile::TempDir), AppError> {
    let no_folder = |e: std::io::Error| {
        AppError::Environment(format!(
            "a folder for the imported store: {e}\n  help: `TMPDIR` says where temporary files go"
        ))
    };
    let folder = tempfile::Builder::new()
        .prefix("everbench-")
        .tempdir()
        .map_err(no_folder)?;
    let store = store_to_fill(folder.path())?;
    let options = ImportOptions {
        kinds: &KINDS,
        replace_roots: false,
        dry_run: false,
    };
    store.import(file, &options)?;
    Ok((store, folder))
}
