//! Headers of patches in Debian source packages, DEP-3: which CVEs a patch fixes, and where it
//! comes from.

use super::{commit_of_url, cves};

/// What a patch says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PatchHeader {
    /// The CVEs that its name or, if that names none, its header names.
    pub cves: Vec<String>,
    /// Upstream's repository and commit.
    pub origin: Option<(String, String)>,
    /// The day it was written, `2023-04-11`, if the header has a date in that form.
    pub date: Option<String>,
}

/// Reads the header of the patch called `name`: everything before the first file.
pub fn header(name: &str, patch: &str) -> PatchHeader {
    let ends = |line: &&str| {
        line.starts_with("--- ")
            || line.starts_with("diff ")
            || line.starts_with("Index: ")
            || *line == "---"
    };
    let lines: Vec<&str> = patch.lines().take_while(|l| !ends(l)).collect();
    let file = name.rsplit('/').next().unwrap_or(name);
    let mut found = cves(file);
    if found.is_empty() {
        found = cves(&lines.join("\n"));
    }
    let field = |line: &&str| {
        let (key, value) = line.split_once(':')?;
        let known = ["origin", "applied-upstream", "bug", "forwarded"];
        let key = key.trim().to_ascii_lowercase();
        known.contains(&key.as_str()).then(|| value.to_string())
    };
    let mut addresses = lines.iter().filter_map(field);
    let address = |text: &str| {
        let mut words = text.split([' ', ',', '<', '>', '\t']);
        words.find_map(commit_of_url)
    };
    let origin = addresses.find_map(|value| address(&value)).or_else(|| {
        // `git format-patch` begins with the commit.
        let word = lines.first()?.strip_prefix("From ")?.split(' ').next()?;
        let is_commit = word.len() == 40 && word.bytes().all(|b| b.is_ascii_hexdigit());
        is_commit.then(|| (String::new(), word.to_lowercase()))
    });
    let date = lines.iter().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        let key = key.trim().to_ascii_lowercase();
        (key == "last-update" || key == "date")
            .then(|| super::day(value.trim()))
            .flatten()
    });
    PatchHeader {
        cves: found,
        origin,
        date,
    }
}
