//! The newest version of a Debian source package: what apt's lists have, in the order of dpkg.

use std::process::Stdio;
use std::sync::PoisonError;

use super::super::apt::Record;
use super::super::debian::{Apt, DebianError, NETWORK, ONE_AT_A_TIME, complaint, failed, offered};
use crate::subject::{DebianSource, Pin};

/// What stands after a `~` in the version of something that is not released yet.
const BEFORE: [&str; 16] = [
    "a", "alpha", "b", "beta", "bzr", "cvs", "dev", "exp", "git", "hg", "m", "pre", "preview",
    "rc", "snapshot", "svn",
];

impl Apt {
    /// The newest version that `source` follows, over all archives of the machine's apt sources.
    ///
    /// # Errors
    /// As [`Apt::fetch`]; an archive that was not reached is one of them, since it may have a newer
    /// version.
    pub fn newest(&self, source: &DebianSource) -> Result<Pin, DebianError> {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let written = source.version.as_deref().unwrap_or_default();
        let package = format!("{} {written}", source.name);
        let conf = self.prepare()?;
        let updated = self.update(&conf)?;
        if let Some(said) = complaint(&updated, &NETWORK) {
            return Err(DebianError::Network { package, said });
        }
        let known = self.records(&conf, &source.name, &package)?;
        if known.is_empty() {
            let said = complaint(&updated, &["E: ", "Failed to fetch"]);
            return Err(DebianError::NoSuchPackage {
                name: source.name.clone(),
                said: said.map(|s| format!(". Apt says: {s}")).unwrap_or_default(),
            });
        }
        let mut newest: Option<&Record> = None;
        for record in &known {
            let taken = source.follow.as_ref().is_none_or(|follow| {
                follow.takes(&record.version)
                    && (follow.pre_releases || !is_before_release(&record.version))
            });
            if taken
                && match newest {
                    Some(newest) => self.is_newer(&record.version, &newest.version, &package)?,
                    None => true,
                }
            {
                newest = Some(record);
            }
        }
        let Some(newest) = newest else {
            let asked = format!(
                "has no version that is meant by {written:?}; check `version` and `pre-releases`"
            );
            return Err(DebianError::NoSuchVersion {
                name: source.name.clone(),
                asked,
                offered: offered(&known),
            });
        };
        let without = || {
            failed(
                "apt-cache",
                &package,
                "the index has no SHA-256 of its .dsc file",
            )
        };
        Ok(Pin {
            version: newest.version.clone(),
            checksum: newest.dsc.clone().ok_or_else(without)?,
        })
    }

    /// Whether a version is newer than another.
    fn is_newer(&self, version: &str, than: &str, package: &str) -> Result<bool, DebianError> {
        let mut command = self.apt("dpkg");
        command.args(["--compare-versions", version, "gt", than]);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| DebianError::NoApt {
            program: "dpkg",
            error,
        })?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(failed("dpkg", package, &said))
            }
        }
    }
}

/// Whether a version comes before a release, by the conventions of the distribution: a mark after `~`
/// in upstream's part of it, or a day. `~dfsg` and `~deb12u1` are releases.
fn is_before_release(version: &str) -> bool {
    let without_epoch = version.split_once(':').map_or(version, |(_, v)| v);
    let upstream = without_epoch
        .rsplit_once('-')
        .map_or(without_epoch, |(v, _)| v);
    upstream.split('~').skip(1).any(|part| {
        let part = part.to_ascii_lowercase();
        let letters: String = part.chars().take_while(char::is_ascii_alphabetic).collect();
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        BEFORE.contains(&letters.as_str()) || digits >= 8
    })
}

#[cfg(test)]
mod tests {
    use super::is_before_release;

    #[test]
    fn what_comes_before_a_release_is_told_from_repacked_and_backported_releases() {
        for version in [
            "1.8~rc1-1",
            "2:3.0~beta2",
            "0.5~git20230101-1",
            "1.0~20230101-2",
            "2~a1",
        ] {
            assert!(is_before_release(version), "{version}");
        }
        for version in [
            "1.7.15-1+deb12u4",
            "8.2.32-1~deb12u1",
            "3.0~dfsg-4",
            "12~deb12u1",
            "1.2-3~rc1",
            "1.0~bpo12+1",
        ] {
            assert!(!is_before_release(version), "{version}");
        }
    }
}
