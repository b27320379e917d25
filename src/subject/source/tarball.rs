//! `tarball`: an archive, by URL or path.

use super::{Kind, Source, inside, location, or_empty, sha256};
use crate::job::Value;
use crate::subject::toml_tree::{Log, Section};

/// An archive: tar, plain or compressed, or zip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TarballSource {
    /// An `http` or `https` URL, or a path, absolute or relative to the directory that holds the
    /// manifest.
    pub location: String,
    /// SHA-256 of the archive: 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// A file of it that is an archive and holds the tree; the archive itself when absent.
    pub archive_inside: Option<String>,
    /// The directory that is the root of the tree; all of it when absent.
    pub path_inside: Option<String>,
}

pub(super) const KIND: Kind = Kind {
    key: "tarball",
    others: &["sha256", "archive-inside", "path-inside"],
    read: |log, s| read(log, s).map(Source::Tarball),
};

fn read(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<TarballSource> {
    let place = s
        .text("tarball")
        .and_then(|u| location(log, u, "not an archive's URL or path"));
    let place = place.and_then(|u| match u.split_once("://") {
        Some((scheme, _)) if !matches!(scheme, "http" | "https") => {
            s.say(
                format!("archives are not fetched by `{scheme}`"),
                Some("give an http or https URL, or a path".into()),
            );
            None
        }
        _ => Some(u),
    });
    s.require("sha256", "sha256 = \"<64 hexadecimal digits>\"");
    let hint = "`sha256sum` prints it for an archive that you trust";
    let checksum = s.text("sha256").and_then(|c| sha256(log, c, hint));
    let archive_inside = inside(log, s, "archive-inside");
    let path_inside = inside(log, s, "path-inside");
    Some(TarballSource {
        location: place?,
        sha256: checksum?,
        archive_inside: archive_inside?,
        path_inside: path_inside?,
    })
}

impl TarballSource {
    /// The checksum names the content by itself; where it was fetched from does not count.
    pub(super) fn identity(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("from", "tarball".into()),
            ("sha256", self.sha256.as_str().into()),
            ("archive-inside", or_empty(&self.archive_inside)),
            ("inside", or_empty(&self.path_inside)),
        ]
    }
}
