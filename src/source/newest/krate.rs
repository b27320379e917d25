//! The newest version of a crate, by cargo: what it would lock for a package that depends on the
//! crate. Yanked versions are not for new lock files, so they are left out.

use std::fs;
use std::path::Path;

use super::super::registry::{CANDIDATES, CrateError, FETCH, Fetcher, Lock, explain, prepare};
use crate::subject::{CrateSource, Pin};

/// A requirement that no version meets: cargo then tells which there are, the newest first, those
/// before a release too.
const NONE: &str = "=0.0.0-everbench-asks";

impl Fetcher {
    /// The newest version that `source` follows. `scratch` is for this call alone; created if absent.
    ///
    /// # Errors
    /// As [`Fetcher::fetch`].
    pub fn newest(&self, source: &CrateSource, scratch: &Path) -> Result<Pin, CrateError> {
        let follow = source.follow.as_ref();
        let requirement = match follow.and_then(|f| f.within.as_ref()) {
            Some(within) => format!("{within}.*"),
            None => "*".to_string(),
        };
        match follow.is_some_and(|f| f.pre_releases) {
            // No requirement means "also those before a release".
            true => {
                let version = self.newest_of_all(source, scratch)?;
                self.lock(source, &format!("={version}"), scratch)
            }
            false => self.lock(source, &requirement, scratch),
        }
    }

    /// The checksum of one exact version. `scratch` as above.
    ///
    /// # Errors
    /// As [`Fetcher::fetch`].
    pub fn pin(
        &self,
        source: &CrateSource,
        version: &str,
        scratch: &Path,
    ) -> Result<Pin, CrateError> {
        self.lock(source, &format!("={version}"), scratch)
    }

    /// What cargo locks for a requirement.
    fn lock(
        &self,
        source: &CrateSource,
        requirement: &str,
        scratch: &Path,
    ) -> Result<Pin, CrateError> {
        let krate = format!("{} {}", source.name, source.version);
        prepare(&source.name, requirement, scratch)?;
        let output = self.cargo(scratch, &["generate-lockfile"])?;
        if !output.status.success() {
            return Err(explain(source, &krate, &output));
        }
        let path = scratch.join("Cargo.lock");
        let text =
            fs::read_to_string(&path).map_err(|error| CrateError::Scratch { path, error })?;
        locked(&text, &source.name).map_err(|said| CrateError::Cargo { krate, said })
    }

    /// The newest version, be it before a release or not.
    fn newest_of_all(&self, source: &CrateSource, scratch: &Path) -> Result<String, CrateError> {
        let krate = format!("{} {}", source.name, source.version);
        prepare(&source.name, NONE, scratch)?;
        let output = self.cargo(scratch, &["generate-lockfile"])?;
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find_map(|line| {
            let (_, versions) = line.split_once(CANDIDATES)?;
            let (_, versions) = versions.split_once(':')?;
            versions.split(',').next().map(str::trim)
        });
        match first {
            Some(version) if !version.is_empty() => Ok(version.to_string()),
            _ => Err(explain(source, &krate, &output)),
        }
    }
}

/// The version and the checksum of the crate that our package depends on, in its lock file.
fn locked(text: &str, name: &str) -> Result<Pin, String> {
    let lock: Lock = toml::from_str(text).map_err(|e| format!("its lock file is odd: {e}"))?;
    let own = lock.package.iter().find(|p| p.name == FETCH);
    let wanted = own.and_then(|p| p.dependencies.first());
    // The crate may depend on another version of itself; then the version stands behind the name.
    let version = wanted.and_then(|w| w.split(' ').nth(1));
    let ours = |p: &&super::super::registry::Locked| {
        p.name == name && version.is_none_or(|version| p.version == version)
    };
    let found = lock.package.iter().find(ours);
    let found = found.ok_or("its lock file does not have it")?;
    Ok(Pin {
        version: found.version.clone(),
        checksum: found
            .checksum
            .clone()
            .ok_or("its lock file has no checksum for it")?,
    })
}

#[cfg(test)]
mod tests {
    use super::locked;

    #[test]
    fn of_two_versions_in_a_lock_file_the_one_is_taken_that_was_asked_for() {
        let lock = |depends: &str| {
            format!(
                "[[package]]\nname = \"x\"\nversion = \"1.0.0\"\nchecksum = \"aa\"\n\
                 [[package]]\nname = \"x\"\nversion = \"2.0.0\"\nchecksum = \"bb\"\n\
                 [[package]]\nname = \"everbench-fetch\"\nversion = \"0.0.0\"\n\
                 dependencies = [\"{depends}\"]\n"
            )
        };
        let pin = locked(&lock("x 2.0.0"), "x").unwrap();
        assert_eq!((&pin.version[..], &pin.checksum[..]), ("2.0.0", "bb"));
        assert!(locked(&lock("y"), "y").is_err());
        assert!(locked("[", "x").unwrap_err().contains("is odd"));
    }
}
