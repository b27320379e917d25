//! Subjects before they are tested: those that come with the program, and a first manifest for a
//! directory. Reads files; writes none.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeSet;
use std::path::Path;

use super::AppError;
use crate::lang::{self, LanguageId, QuerySet};
use crate::source::{Limits, read_directory};
use crate::subject::guess::{Debian, Guess, Tree, guess};
use crate::subject::{Globs, Manifest, Preset, preset, presets};

/// A subject that comes with the program.
pub struct Known {
    /// Its manifest.
    pub manifest: Manifest,
    /// The comment at the top of its manifest.
    pub about: String,
}

/// All subjects that come with the program, by name.
pub fn known() -> Result<Vec<Known>, AppError> {
    presets().map(one).collect()
}

fn one(name: &str) -> Result<Known, AppError> {
    let text = match preset(name)? {
        Preset::Text(text) => text.to_string(),
        Preset::Path(path) => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            std::fs::read_to_string(&path)
                .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))?
        }
    };
    Ok(Known {
        manifest: Manifest::parse(&text, &format!("preset {name}"))?,
        about: about(&text),
    })
}

/// The comment that a manifest begins with, as one line.
fn about(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// A first manifest for the tree in `directory`, in which it is called `named`.
pub fn guess_manifest(directory: &Path, named: &str, name: &str) -> Result<Guess, AppError> {
    let nothing = Globs::new(Vec::new()).map_err(|(_, e)| AppError::Input(e))?;
    let tree = read_directory(directory, &nothing, &Limits::default())?;
    let queries = QuerySet::default();
    let paths: BTreeSet<String> = tree.snapshot.files.keys().cloned().collect();
    let text = |path: &str| {
        let bytes = tree.bytes(path)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let functions = |aside: &[String]| {
        let aside = Globs::new(aside.to_vec()).unwrap_or_else(|_| nothing.clone());
        let mut sum = 0;
        for path in paths.iter().filter(|p| !aside.matches(p)) {
            let language = LanguageId::of_path(path).map(|l| queries.language(l));
            if let (Some(Ok(language)), Some(bytes)) = (language, tree.bytes(path)) {
                sum += lang::functions(&language, bytes).definitions.len();
            }
        }
        sum
    };
    let tree = Tree {
        paths: &paths,
        text: &text,
        functions: &functions,
        debian: debian(directory),
    };
    guess(name, named, &tree).map_err(|e| AppError::Input(format!("{}: {e}", directory.display())))
}

/// How far above a directory its package's root is looked for.
const LEVELS: usize = 3;

/// The Debian source package that a directory is, or is in.
fn debian(directory: &Path) -> Option<Debian> {
    let mut roots = directory.ancestors().take(LEVELS);
    roots.find_map(|root| {
        let changelog = std::fs::read(root.join("debian/changelog")).ok()?;
        let inside = directory.strip_prefix(root).ok()?;
        Debian::of_changelog(&String::from_utf8_lossy(&changelog), inside.to_str()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_says_what_it_is() {
        for known in known().unwrap() {
            let name = &known.manifest.name;
            assert!(
                known.about.split_whitespace().count() > 5,
                "{name}: {}",
                known.about
            );
        }
    }
}
