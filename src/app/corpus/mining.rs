//! Mining with what earlier processes remember: what a file gives alone is a row under its bytes,
//! the language, the settings and the code, so a repository of which one file has changed is mined
//! anew by reading one file anew.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use crate::app::stored::store_to_fill;
use crate::app::{AppError, TOOL};
use crate::contamination::leaf::{Leaf, key, leaf};
use crate::contamination::mine::assemble;
use crate::contamination::{File, Mined, Settings};
use crate::engine::{Db, EngineDb, Ledger};
use crate::lang::SnippetLanguage;
use crate::store::StoreLedger;

/// What mining gave.
#[derive(Clone, Debug)]
pub struct Mining {
    /// The candidates and what was left out.
    pub mined: Mined,
    /// Files that were read anew.
    pub read: usize,
    /// Files whose part was remembered.
    pub recalled: usize,
}

/// Mines a repository's files, with rows out of `db` as far as it has them; it is offered the others.
pub fn mine_files(
    db: &dyn Db,
    language: SnippetLanguage,
    files: &[File],
    settings: &Settings,
) -> Mining {
    let code = db.code().to_string();
    let keys: Vec<_> = files
        .par_iter()
        .map(|file| key(language, file, settings, &code))
        .collect();
    let rows: Vec<Option<Arc<[u8]>>> = keys
        .iter()
        .map(|key| key.and_then(|key| db.recall(key)))
        .collect();
    let known: Vec<(Leaf, bool)> = files
        .par_iter()
        .zip(&rows)
        .map(|(file, row)| {
            let known = row.as_ref().and_then(|r| postcard::from_bytes(r).ok());
            match known {
                Some(known) => (known, true),
                None => (leaf(language, file, settings), false),
            }
        })
        .collect();
    let (mut read, mut recalled) = (0, 0);
    for (key, (leaf, known)) in keys.iter().zip(&known) {
        match (key, known) {
            (_, true) => recalled += 1,
            (Some(key), false) => {
                read += 1;
                let row = postcard::to_stdvec(leaf).expect("numbers can be written");
                db.remember(*key, row);
            }
            // Its path alone says that it gives nothing.
            (None, false) => {}
        }
    }
    let leaves: Vec<Leaf> = known.into_iter().map(|(leaf, _)| leaf).collect();
    Mining {
        mined: assemble(language, files, &leaves, settings),
        read,
        recalled,
    }
}

/// The same with the store in `dir`, which is made if there is none.
///
/// # Errors
/// A store that cannot be used.
pub fn mine_in(
    dir: &Path,
    language: SnippetLanguage,
    files: &[File],
    settings: &Settings,
) -> Result<Mining, AppError> {
    let store = Arc::new(store_to_fill(dir)?);
    let reader = store.reader()?;
    let db = EngineDb::new(Arc::new(reader.clone()));
    let mining = mine_files(&db, language, files, settings);
    StoreLedger::new(store, &reader, TOOL).remember(db.take_rows());
    Ok(mining)
}
