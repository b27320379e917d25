//! `crate`: a Rust crate that carries a C project.

use super::follow::{Asked, Follow, Versions, asked};
use super::{Kind, Source, inside, or_empty, sha256};
use crate::job::Value;
use crate::subject::check::{exact_version, valid};
use crate::subject::toml_tree::{Log, Section};

/// A crate that carries a C project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrateSource {
    /// The crate's name.
    pub name: String,
    /// The exact version; while it is followed, what the manifest says of it.
    pub version: String,
    /// Which versions are followed; nothing for an exact one.
    pub follow: Option<Follow>,
    /// SHA-256 of the packed crate as a `Cargo.lock` shows it: 64 lower-case hexadecimal digits;
    /// empty while the version is followed.
    pub checksum: String,
    /// The directory of the crate that is the root of the tree; the whole crate when absent.
    pub path_inside: Option<String>,
}

pub(super) const KIND: Kind = Kind {
    key: "crate",
    others: &["version", "pre-releases", "checksum", "path-inside"],
    read: |log, s| read(log, s).map(Source::Crate),
};

/// How versions are written: as cargo has them, without a requirement around them.
const VERSIONS: Versions = Versions {
    exact: exact_version,
    wrong: "not one exact version",
    example: "1.2.3",
    checksum: "checksum",
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
    let (followed, asked) = asked(log, s, &VERSIONS);
    let asked = asked.filter(|asked| {
        let both = |f: &Follow| f.pre_releases && f.within.is_some();
        let untold = asked.follow.as_ref().is_some_and(both);
        if untold {
            s.say(
                "cargo does not say which pre-releases there are within a bound",
                Some("write `version = \"latest\"`, or name the pre-release".into()),
            );
        }
        !untold
    });
    let checksum = match followed {
        true => Some(String::new()),
        false => {
            s.require(
                "checksum",
                "checksum = \"<64 hexadecimal digits from a Cargo.lock>\"",
            );
            let hint = "copy `checksum` from a Cargo.lock that lists the crate";
            s.text("checksum").and_then(|c| sha256(log, c, hint))
        }
    };
    let path_inside = inside(log, s, "path-inside");
    let Asked { version, follow } = asked?;
    Some(CrateSource {
        name: name?,
        version,
        follow,
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
