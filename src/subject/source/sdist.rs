//! `sdist`: a Python source distribution that carries a C project.

use super::follow::{Asked, Follow, Versions, asked};
use super::{Kind, Source, inside, or_empty, sha256};
use crate::job::Value;
use crate::subject::check::valid;
use crate::subject::toml_tree::{Log, Section};

/// A Python source distribution that carries a C project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SdistSource {
    /// The project's name in the package index.
    pub name: String,
    /// The exact version; while it is followed, what the manifest says of it.
    pub version: String,
    /// Which versions are followed; nothing for an exact one.
    pub follow: Option<Follow>,
    /// SHA-256 of the file: 64 lower-case hexadecimal digits; empty while the version is followed.
    pub sha256: String,
    /// A file of it that is an archive and holds the tree; the distribution itself when absent.
    pub archive_inside: Option<String>,
    /// The directory that is the root of the tree; all of it when absent.
    pub path_inside: Option<String>,
}

pub(super) const KIND: Kind = Kind {
    key: "sdist",
    others: &[
        "version",
        "pre-releases",
        "sha256",
        "archive-inside",
        "path-inside",
    ],
    read: |log, s| read(log, s).map(Source::Sdist),
};

/// How versions are written: as the package index has them.
const VERSIONS: Versions = Versions {
    exact: |version| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-._!".contains(c);
        version.starts_with(|c: char| c.is_ascii_alphanumeric())
            && version.len() <= 128
            && version.chars().all(plain)
    },
    wrong: "not one exact version",
    example: "1.2.3",
    checksum: "sha256",
};

fn read(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<SdistSource> {
    let name = s.text("sdist").and_then(|n| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let ends = |c: char| c.is_ascii_alphanumeric();
        let good = n.value.starts_with(ends)
            && n.value.ends_with(ends)
            && n.value.len() <= 128
            && n.value.chars().all(plain);
        valid(log, n, good, "not a Python project's name", None)
    });
    s.require("version", "version = \"1.2.3\"");
    let (followed, asked) = asked(log, s, &VERSIONS);
    let checksum = match followed {
        true => Some(String::new()),
        false => {
            s.require("sha256", "sha256 = \"<64 hexadecimal digits>\"");
            let hint = "copy the SHA-256 that the package index gives for the .tar.gz file";
            s.text("sha256").and_then(|c| sha256(log, c, hint))
        }
    };
    let archive_inside = inside(log, s, "archive-inside");
    let path_inside = inside(log, s, "path-inside");
    let Asked { version, follow } = asked?;
    Some(SdistSource {
        name: name?,
        version,
        follow,
        sha256: checksum?,
        archive_inside: archive_inside?,
        path_inside: path_inside?,
    })
}

impl SdistSource {
    /// The checksum names the content; name and version are there to be read.
    pub(super) fn identity(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("from", "sdist".into()),
            ("name", self.name.as_str().into()),
            ("version", self.version.as_str().into()),
            ("sha256", self.sha256.as_str().into()),
            ("archive-inside", or_empty(&self.archive_inside)),
            ("inside", or_empty(&self.path_inside)),
        ]
    }
}
