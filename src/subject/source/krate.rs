//! `crate`: a Rust crate that carries a C project.

use super::{Kind, Source, inside, or_empty, sha256};
use crate::job::Value;
use crate::subject::check::{exact_version, valid};
use crate::subject::toml_tree::{Log, Section};

/// A crate that carries a C project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrateSource {
    /// The crate's name.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// SHA-256 of the packed crate as a `Cargo.lock` shows it: 64 lower-case hexadecimal digits.
    pub checksum: String,
    /// The directory of the crate that is the root of the tree; the whole crate when absent.
    pub path_inside: Option<String>,
}

pub(super) const KIND: Kind = Kind {
    key: "crate",
    others: &["version", "checksum", "path-inside"],
    read: |log, s| read(log, s).map(Source::Crate),
};

fn read(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<CrateSource> {
    let name = s.text("crate").and_then(|n| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let good = n.value.starts_with(|c: char| c.is_ascii_alphabetic())
            && n.value.len() <= 64
            && n.value.chars().all(plain);
        valid(log, n, good, "not a crate's name", None)
    });
    s.require("version", "version = \"1.2.3\"");
    let version = s.text("version").and_then(|v| {
        let hint = "write all of it, as in \"1.2.3\", without `^`, `=` or `*`".to_string();
        let good = exact_version(&v.value);
        valid(log, v, good, "not one exact version", Some(hint))
    });
    s.require(
        "checksum",
        "checksum = \"<64 hexadecimal digits from a Cargo.lock>\"",
    );
    let hint = "copy `checksum` from a Cargo.lock that lists the crate";
    let checksum = s.text("checksum").and_then(|c| sha256(log, c, hint));
    let path_inside = inside(log, s, "path-inside");
    Some(CrateSource {
        name: name?,
        version: version?,
        checksum: checksum?,
        path_inside: path_inside?,
    })
}

impl CrateSource {
    pub(super) fn identity(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("from", "crate".into()),
            ("name", self.name.as_str().into()),
            ("version", self.version.as_str().into()),
            ("checksum", self.checksum.as_str().into()),
            ("inside", or_empty(&self.path_inside)),
        ]
    }
}
