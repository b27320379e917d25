//! The newest version of a Python source distribution: what the index lists, in pip's own order. Pip
//! is shown the names of the files and nothing else, so that it runs nothing and asks nobody.

use std::fs;
use std::path::Path;

use super::super::download;
use super::super::sdist::{Index, Listed, SdistError, normal, offered, version_in};
use crate::subject::{Pin, SdistSource};

/// How pip says that no file is left.
const NO_FILE: &str = "No matching distribution";

impl Index {
    /// The newest version that `source` follows. `scratch` is for this call alone; created if absent.
    ///
    /// # Errors
    /// As [`Index::fetch`].
    pub fn newest(&self, source: &SdistSource, scratch: &Path) -> Result<Pin, SdistError> {
        let page = self.page(&source.name)?;
        let project = normal(&source.name);
        let there: Vec<(&str, &Listed)> = page
            .files
            .iter()
            .filter(|f| !f.yanked)
            .filter_map(|f| Some((version_in(&f.name, &project)?, f)))
            .collect();
        let pre_releases = source.follow.as_ref().is_some_and(|f| f.pre_releases);
        let versions: Vec<&str> = there.iter().map(|(v, _)| *v).collect();
        let ordered = self.ordered(&project, &versions, pre_releases, scratch)?;
        let taken = |at: &usize| {
            let follow = source.follow.as_ref();
            follow.is_none_or(|follow| follow.takes(versions[*at]))
        };
        let Some(at) = ordered.into_iter().find(taken) else {
            return Err(SdistError::NoSuchVersion {
                name: source.name.clone(),
                version: source.version.clone(),
                offered: offered(&page.files, &versions),
            });
        };
        let (version, file) = there[at];
        let checksum = match &file.sha256 {
            Some(sha256) => sha256.clone(),
            None => {
                let url = page.file(file)?;
                download::sha256(&download::get(url.as_str(), "*/*")?.bytes)
            }
        };
        Ok(Pin {
            version: version.to_string(),
            checksum,
        })
    }

    /// The places of `versions`, the newest first, without those that are no versions to pip and,
    /// unless they are wanted, those before a release.
    fn ordered(
        &self,
        project: &str,
        versions: &[&str],
        pre_releases: bool,
        scratch: &Path,
    ) -> Result<Vec<usize>, SdistError> {
        let folder = scratch.join("names");
        let trouble = |e: std::io::Error| SdistError::Scratch(folder.display().to_string(), e);
        fs::create_dir_all(&folder).map_err(trouble)?;
        for (at, version) in versions.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "+-._!".contains(c);
            if version.len() > 128 || !version.chars().all(plain) {
                continue;
            }
            // The place comes back in what pip makes of the version, however it writes that.
            let sign = if version.contains('+') { '.' } else { '+' };
            let name = format!("{project}-{version}{sign}eb{at}.tar.gz");
            fs::write(folder.join(name), "").map_err(trouble)?;
        }
        let folder = folder.display().to_string();
        let mut args = vec!["--isolated", "index", "versions", project];
        args.extend(["--no-index", "--find-links", &folder]);
        args.extend(["--no-binary", ":all:", "--ignore-requires-python"]);
        args.extend(pre_releases.then_some("--pre"));
        // No configuration has a say in it.
        let said = match self.pip(&args, &[("PIP_CONFIG_FILE", "/dev/null")]) {
            Err(SdistError::NoPip(said)) if said.contains(NO_FILE) => return Ok(Vec::new()),
            other => other?,
        };
        let line = said.lines().find_map(|l| l.split_once("versions:"));
        let (_, line) = line.ok_or_else(|| SdistError::NoPip("it lists no versions".into()))?;
        let place = |version: &str| version.rsplit_once("eb")?.1.parse().ok();
        let places = line.split(',').filter_map(|version| place(version.trim()));
        Ok(places.filter(|at| *at < versions.len()).collect())
    }
}
