//! `debian`: a source package of the distribution.

use super::follow::{Asked, Follow, Versions, asked};
use super::{Kind, Source, inside, or_empty, sha256};
use crate::job::Value;
use crate::subject::check::valid;
use crate::subject::toml_tree::{Log, Section};

/// A source package of the distribution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebianSource {
    /// The source package's name.
    pub name: String,
    /// The exact version, as `1.7.15-1+deb12u4`; while it is followed, what the manifest says of it.
    /// Absent: fetching answers with what is on offer.
    pub version: Option<String>,
    /// Which versions are followed; nothing for an exact one.
    pub follow: Option<Follow>,
    /// SHA-256 of the `.dsc` file, which lists those of all others; any when absent.
    pub sha256: Option<String>,
    /// Whether the package's patches are applied.
    pub patched: bool,
    /// The directory of the package that is the root of the tree; all of it when absent.
    pub path_inside: Option<String>,
}

pub(super) const KIND: Kind = Kind {
    key: "debian",
    others: &[
        "version",
        "pre-releases",
        "sha256",
        "patched",
        "path-inside",
    ],
    read: |log, s| read(log, s).map(Source::Debian),
};

/// How versions are written: as Debian has them.
const VERSIONS: Versions = Versions {
    exact: |version| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-.:~".contains(c);
        version.starts_with(|c: char| c.is_ascii_digit())
            && version.len() <= 128
            && version.chars().all(plain)
    },
    wrong: "not a package's version",
    example: "1.7.15-1+deb12u4",
    checksum: "sha256",
};

fn read(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<DebianSource> {
    let name = s.text("debian").and_then(|n| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        let good = n
            .value
            .starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && (2..=128).contains(&n.value.len())
            && n.value.chars().all(plain);
        valid(log, n, good, "not a source package's name", None)
    });
    let (followed, asked) = match s.has("version") {
        false => (false, Some(None)),
        true => {
            let (followed, asked) = asked(log, s, &VERSIONS);
            (followed, asked.map(Some))
        }
    };
    let hint = "give the SHA-256 of the package's .dsc file, or leave it out";
    let dsc = match s.has("sha256") && !followed {
        false => Some(None),
        true => s
            .text("sha256")
            .and_then(|c| sha256(log, c, hint))
            .map(Some),
    };
    let patched = match s.has("patched") {
        false => Some(true),
        true => s.boolean("patched").map(|b| b.value),
    };
    let path_inside = inside(log, s, "path-inside");
    let (version, follow) = match asked? {
        Some(Asked { version, follow }) => (Some(version), follow),
        None => (None, None),
    };
    Some(DebianSource {
        name: name?,
        version,
        follow,
        sha256: dsc?,
        patched: patched?,
        path_inside: path_inside?,
    })
}

impl DebianSource {
    pub(super) fn identity(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("from", "debian".into()),
            ("name", self.name.as_str().into()),
            ("version", or_empty(&self.version)),
            ("sha256", or_empty(&self.sha256)),
            ("patched", self.patched.into()),
            ("inside", or_empty(&self.path_inside)),
        ]
    }
}
