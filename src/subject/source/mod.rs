//! Where a source tree comes from, as a manifest says it: one file per kind of source, with its
//! keys, their checks, and what identifies the content. How each is fetched is the room `source`;
//! docs/extending.md tells how to add one.

mod debian;
mod directory;
mod follow;
mod git;
mod krate;
mod sdist;
mod tarball;

pub use debian::DebianSource;
pub use directory::DirectorySource;
pub use follow::{Follow, Followed, Pin};
pub use git::{GitSource, is_commit};
pub use krate::CrateSource;
pub use sdist::SdistSource;
pub use tarball::TarballSource;

use super::check::{ok, valid};
use super::path;
use super::toml_tree::{At, Log, Section};
use crate::job::Value;

/// Where a source tree comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// From the registry of Rust crates, at an exact version with a known checksum, or followed.
    Crate(CrateSource),
    /// From a source package of the distribution, at an exact version, or followed.
    Debian(DebianSource),
    /// From a directory of this machine.
    Directory(DirectorySource),
    /// From a git repository, at a commit.
    Git(GitSource),
    /// From a Python source distribution, at an exact version with a known checksum, or followed.
    Sdist(SdistSource),
    /// From an archive with a known checksum.
    Tarball(TarballSource),
}

/// Reads the keys of a source whose kind is known.
type Read = fn(&Log<'_>, &mut Section<'_, '_, '_>) -> Option<Source>;

/// A kind of source.
struct Kind {
    /// The key that chooses it.
    key: &'static str,
    /// The keys that it has besides.
    others: &'static [&'static str],
    read: Read,
}

/// Every kind, by the key that chooses it.
const KINDS: [Kind; 6] = [
    krate::KIND,
    debian::KIND,
    directory::KIND,
    git::KIND,
    sdist::KIND,
    tarball::KIND,
];

/// The section `[source]`.
pub(super) fn source(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Source> {
    let mut chosen: Vec<&Kind> = Vec::new();
    for kind in &KINDS {
        if s.has(kind.key) {
            chosen.push(kind);
        }
    }
    let source = match chosen[..] {
        [kind] => (kind.read)(log, &mut s),
        _ => {
            // Which of the other keys belong here depends on a choice that was not made.
            for key in KINDS.iter().flat_map(|k| k.others) {
                s.has(key);
            }
            let quoted = |kinds: &[&Kind]| {
                let names: Vec<String> = kinds.iter().map(|k| format!("`{}`", k.key)).collect();
                names.join(", ")
            };
            if chosen.is_empty() {
                let all: Vec<&Kind> = KINDS.iter().collect();
                s.say(
                    format!("one of {} is needed", quoted(&all)),
                    Some("write for example `directory = \".\"`".into()),
                );
            } else {
                s.say(
                    format!("more than one source is given: {}", quoted(&chosen)),
                    Some("keep one of them".into()),
                );
            }
            None
        }
    };
    s.finish();
    source
}

/// Why a source does not say yet which content it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unidentified {
    /// A directory: its content is known once it was read.
    Directory,
    /// A revision that is no commit: it has to be looked up once.
    Revision,
    /// A version that is followed: likewise.
    Version,
}

impl Source {
    /// What identifies the content, as the inputs of the job that fetches it. The machine's paths
    /// and places that only serve to get at it are no part.
    pub fn identity(&self) -> Result<Vec<(&'static str, Value)>, Unidentified> {
        if self.followed().is_some() {
            return Err(Unidentified::Version);
        }
        match self {
            Source::Crate(s) => Ok(s.identity()),
            Source::Debian(s) => Ok(s.identity()),
            Source::Directory(_) => Err(Unidentified::Directory),
            Source::Git(s) => s.identity().ok_or(Unidentified::Revision),
            Source::Sdist(s) => Ok(s.identity()),
            Source::Tarball(s) => Ok(s.identity()),
        }
    }

    /// What reports call the content; empty where only its snapshot has a name.
    pub fn label(&self) -> String {
        let short = |hex: &str| hex.chars().take(12).collect::<String>();
        match self {
            Source::Crate(s) => format!("{} {}", s.name, s.version),
            Source::Debian(s) => format!("{} {}", s.name, s.version.as_deref().unwrap_or("?")),
            Source::Directory(_) => String::new(),
            Source::Git(s) => short(&s.revision),
            Source::Sdist(s) => format!("{} {}", s.name, s.version),
            Source::Tarball(s) => short(&s.sha256),
        }
    }
}

/// An optional key that names a file or a directory of the tree.
fn inside(log: &Log<'_>, s: &mut Section<'_, '_, '_>, key: &'static str) -> Option<Option<String>> {
    match s.has(key) {
        false => Some(None),
        true => s.text(key).and_then(|p| {
            let checked = path::check(&p.value).map_err(|e| e.to_string());
            ok(log, p, checked).map(Some)
        }),
    }
}

/// A SHA-256 as text.
fn sha256(log: &Log<'_>, at: At<String>, hint: &str) -> Option<String> {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let good = at.value.len() == 64 && at.value.bytes().all(hex);
    let message = "64 lower-case hexadecimal digits are expected";
    valid(log, at, good, message, Some(hint.to_string()))
}

/// What is asked of an archive: a URL that is fetched, or a path. Nothing that a program could take
/// for an option.
fn location(log: &Log<'_>, at: At<String>, what: &str) -> Option<String> {
    let good = !at.value.is_empty()
        && !at.value.starts_with('-')
        && !at.value.chars().any(char::is_control);
    valid(log, at, good, what, None)
}

/// An absent path as an input of a job.
fn or_empty(text: &Option<String>) -> Value {
    text.clone().unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
