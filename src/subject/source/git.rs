//! `git`: a commit of a git repository.

use super::{Kind, Source, inside, location, or_empty};
use crate::job::Value;
use crate::subject::check::valid;
use crate::subject::toml_tree::{Log, Section};

/// A commit of a git repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GitSource {
    /// A URL, or a path, absolute or relative to the directory that holds the manifest.
    pub url: String,
    /// Anything that git resolves to a commit.
    pub revision: String,
    /// The directory of the repository that is the root of the tree; all of it when absent.
    pub path_inside: Option<String>,
    /// Whether the manifest knows that submodules are left out; a tree that has some is refused
    /// otherwise.
    pub without_submodules: bool,
}

pub(super) const KIND: Kind = Kind {
    key: "git",
    others: &["revision", "path-inside", "submodules"],
    read: |log, s| read(log, s).map(Source::Git),
};

fn read(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<GitSource> {
    let url = s
        .text("git")
        .and_then(|u| location(log, u, "not a repository's URL or path"));
    let url = url.and_then(|u| {
        if u.split_once("::")
            .is_some_and(|(helper, _)| !helper.contains(['/', ':', '[']))
        {
            s.say(
                format!("`git = \"{u}\"` names a remote helper, which is a program to run"),
                Some("give a URL (https, ssh, git, file) or a path".into()),
            );
            return None;
        }
        Some(u)
    });
    s.require("revision", "revision = \"v1.2.3\"");
    let revision = s.text("revision").and_then(|r| {
        let good = !r.value.is_empty()
            && r.value.len() <= 200
            && !r.value.starts_with(['-', ':', '^'])
            && !r.value.contains("..")
            && !r.value.contains([':', ' '])
            && !r.value.chars().any(char::is_control);
        let hint = "a commit, a tag, a branch, or something like `HEAD~3` is expected";
        valid(log, r, good, "not one revision", Some(hint.into()))
    });
    let path_inside = inside(log, s, "path-inside");
    let without_submodules = match s.has("submodules") {
        false => Some(false),
        true => s.boolean("submodules").and_then(|b| {
            let hint = "write `submodules = false` if the subject builds without them".to_string();
            let good = !b.value;
            valid(log, b, good, "submodules are not fetched", Some(hint)).map(|_| true)
        }),
    };
    Some(GitSource {
        url: url?,
        revision: revision?,
        path_inside: path_inside?,
        without_submodules: without_submodules?,
    })
}

/// Whether a revision is a full commit id, which means the same everywhere and always.
pub fn is_commit(revision: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    matches!(revision.len(), 40 | 64) && revision.bytes().all(hex)
}

impl GitSource {
    /// The commit names the content by itself; where it was fetched from does not count.
    pub(super) fn identity(&self) -> Option<Vec<(&'static str, Value)>> {
        is_commit(&self.revision).then(|| {
            vec![
                ("from", "git".into()),
                ("commit", self.revision.as_str().into()),
                ("inside", or_empty(&self.path_inside)),
                ("without-submodules", self.without_submodules.into()),
            ]
        })
    }
}
