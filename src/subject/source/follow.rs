//! Versions that are followed: what a manifest says in place of one exact version, and what that was
//! found to be.

use serde::{Deserialize, Serialize};

use super::Source;
use crate::subject::check::valid;
use crate::subject::toml_tree::{At, Log, Section};

/// What a manifest writes for the newest version of all.
const LATEST: &str = "latest";

/// Which versions of a package are followed; the newest of them is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Follow {
    /// What their numbers begin with, as in `1.7` for `1.7.*`; any when absent.
    pub within: Option<String>,
    /// Whether versions count that come before a release: alpha, beta, candidate.
    pub pre_releases: bool,
}

impl Follow {
    /// Whether a version's numbers begin as they should. `1.7` is within `1.7.*`, `1.70` is not; the
    /// epochs of Debian and of Python are no part of the numbers.
    pub fn takes(&self, version: &str) -> bool {
        let Some(within) = &self.within else {
            return true;
        };
        let without_epoch = version.split_once([':', '!']).map_or(version, |(_, v)| v);
        let end = without_epoch
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(without_epoch.len());
        let mut numbers = without_epoch[..end].split('.').map(number);
        within.split('.').all(|n| {
            // What a version does not say is 0.
            numbers.next().unwrap_or("") == number(n)
        })
    }
}

/// A number without the zeros before it; nothing for 0.
fn number(digits: &str) -> &str {
    digits.trim_start_matches('0')
}

/// A source whose version is followed, as its manifest has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Followed<'a> {
    /// The key that chooses the kind of source: `crate`, `debian`, `sdist`.
    pub from: &'static str,
    /// The package's name.
    pub name: &'a str,
    /// What is written for the version: `latest`, or a bound like `1.7.*`.
    pub version: &'a str,
    /// Which versions that are.
    pub follow: &'a Follow,
}

/// A version of a package and the checksum that its source needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The exact version.
    pub version: String,
    /// SHA-256: of the packed crate, of the `.dsc` file, of the source distribution.
    pub checksum: String,
}

impl Source {
    /// What is followed, if the manifest does not name one exact version.
    pub fn followed(&self) -> Option<Followed<'_>> {
        let (from, name, version, follow) = match self {
            Source::Crate(s) => ("crate", &s.name, Some(&s.version), &s.follow),
            Source::Debian(s) => ("debian", &s.name, s.version.as_ref(), &s.follow),
            Source::Sdist(s) => ("sdist", &s.name, Some(&s.version), &s.follow),
            Source::Directory(_) | Source::Git(_) | Source::Tarball(_) => return None,
        };
        Some(Followed {
            from,
            name,
            version: version?,
            follow: follow.as_ref()?,
        })
    }

    /// The same source at one exact version. Sources without versions stay what they are.
    pub fn at(&self, pin: &Pin) -> Source {
        let Pin { version, checksum } = pin.clone();
        let mut source = self.clone();
        match &mut source {
            Source::Crate(s) => {
                (s.version, s.checksum, s.follow) = (version, checksum, None);
            }
            Source::Debian(s) => {
                (s.version, s.sha256, s.follow) = (Some(version), Some(checksum), None);
            }
            Source::Sdist(s) => {
                (s.version, s.sha256, s.follow) = (version, checksum, None);
            }
            Source::Directory(_) | Source::Git(_) | Source::Tarball(_) => {}
        }
        source
    }

    /// The version and the checksum that this source is at, where it has both.
    pub fn pin(&self) -> Option<Pin> {
        let (version, checksum) = match self {
            Source::Crate(s) if s.follow.is_none() => (&s.version, &s.checksum),
            Source::Debian(s) if s.follow.is_none() => (s.version.as_ref()?, s.sha256.as_ref()?),
            Source::Sdist(s) if s.follow.is_none() => (&s.version, &s.sha256),
            _ => return None,
        };
        Some(Pin {
            version: version.clone(),
            checksum: checksum.clone(),
        })
    }
}

/// What a manifest asks for.
pub(super) struct Asked {
    /// The version as it is written.
    pub version: String,
    /// Which versions that are, if it is not an exact one.
    pub follow: Option<Follow>,
}

/// How the versions of a kind of source are written.
pub(super) struct Versions {
    /// Whether a text is one exact version.
    pub exact: fn(&str) -> bool,
    /// What is wrong with one that is not.
    pub wrong: &'static str,
    /// An exact version, as an example.
    pub example: &'static str,
    /// The key of the checksum, which only an exact version has.
    pub checksum: &'static str,
}

/// Reads `version`, which must be there, and `pre-releases`; whether the version is followed is known
/// even where something is wrong with it.
pub(super) fn asked(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    versions: &Versions,
) -> (bool, Option<Asked>) {
    let pre_releases = s.has("pre-releases").then(|| s.boolean("pre-releases"));
    let Some(version) = s.text("version") else {
        return (false, None);
    };
    let Some(within) = followed_in(&version.value) else {
        if let Some(Some(at)) = &pre_releases {
            let hint = format!("leave it out, or write `version = \"{LATEST}\"`");
            log.at(at, "it is for a version that is followed", Some(hint));
        }
        let good = (versions.exact)(&version.value);
        let hint = format!(
            "write all of it, as in \"{}\", or \"{LATEST}\" to follow it",
            versions.example
        );
        let version = valid(log, version, good, versions.wrong, Some(hint));
        let version = version.filter(|_| pre_releases.is_none());
        let exact = |version| Asked {
            version,
            follow: None,
        };
        return (false, version.map(exact));
    };
    let mut good = within.as_ref().is_none_or(|w| bound(log, &version, w));
    if s.has(versions.checksum) {
        let key = versions.checksum;
        s.say(
            format!("`{key}` is of one exact version, and the version is followed"),
            Some("leave it out: everbench.lock has that of the version that was found".into()),
        );
        good = false;
    }
    let pre_releases = match pre_releases {
        None => Some(false),
        Some(read) => read.map(|b| b.value),
    };
    let asked = pre_releases.filter(|_| good).map(|pre_releases| Asked {
        version: version.value,
        follow: Some(Follow {
            within,
            pre_releases,
        }),
    });
    (true, asked)
}

/// What a version begins with if it is followed; nothing if it is an exact one.
fn followed_in(version: &str) -> Option<Option<String>> {
    if version == LATEST {
        return Some(None);
    }
    let within = version.strip_suffix(".*")?;
    Some(Some(within.to_string()))
}

fn bound(log: &Log<'_>, at: &At<String>, within: &str) -> bool {
    let number = |n: &str| (1..=18).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit());
    let good = within.len() <= 100 && within.split('.').all(number);
    if !good {
        let hint = format!("write \"{LATEST}\", or numbers and `.*`, as in \"1.7.*\"");
        log.at(at, "not a bound of versions", Some(hint));
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_takes_versions_by_their_numbers() {
        let within = |bound: &str| Follow {
            within: Some(bound.into()),
            pre_releases: false,
        };
        for (bound, version, taken) in [
            ("1.7", "1.7.15-1+deb12u4", true),
            ("1.7", "2:1.7-3", true),
            ("1.7", "1.07.2", true),
            ("1.7", "1.70.1", false),
            ("1.7", "1.8~rc1-1", false),
            ("1.7", "17", false),
            ("1.0", "1", true),
            ("1.0", "1-2", true),
            ("1.0", "1.1", false),
            ("1", "1!1.2.post1", true),
            ("1", "1!2.1", false),
        ] {
            assert_eq!(within(bound).takes(version), taken, "{bound} {version}");
        }
        let any = Follow {
            within: None,
            pre_releases: false,
        };
        assert!(any.takes("anything"));
    }
}
