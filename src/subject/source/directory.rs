//! `directory`: a directory of this machine.

use super::{Kind, Source};
use crate::subject::check::{globs, valid};
use crate::subject::globs::Globs;
use crate::subject::toml_tree::{Log, Section};

/// A directory of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectorySource {
    /// Absolute, or relative to the directory that holds the manifest.
    pub path: String,
    /// What of it is left out, besides version control's own directories.
    pub ignore: Globs,
}

pub(super) const KIND: Kind = Kind {
    key: "directory",
    others: &["ignore"],
    read: |log, s| read(log, s).map(Source::Directory),
};

fn read(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<DirectorySource> {
    let path = s.text("directory").and_then(|d| {
        let good = !d.value.is_empty() && !d.value.contains('\0');
        valid(log, d, good, "not a directory's path", None)
    });
    let ignore = globs(log, s, "ignore", &[]);
    Some(DirectorySource {
        path: path?,
        ignore: ignore?,
    })
}
