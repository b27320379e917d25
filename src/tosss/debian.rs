//! The fixes in a Debian source package: patches that name a CVE, each against the tree as the
//! patches before it left it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::{Change, ChangedFile, Dropped};
use super::patch::files;
use super::record::{Fix, Vulnerability, dep3};
use crate::digest::Digest;
use crate::lang::SnippetLanguage;

/// A patch that fixes something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Patch {
    /// Its file's name.
    pub name: String,
    /// The CVEs that it names.
    pub cves: Vec<String>,
    /// Upstream's repository and commit, if it names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<(String, String)>,
    /// What it changes.
    pub change: Change,
}

impl Patch {
    /// The fixes that the patch is, one for each CVE, in package `package`.
    pub fn fixes(&self, package: &str) -> Vec<Fix> {
        let fix = |id: &String| Fix {
            vulnerability: Vulnerability {
                id: id.clone(),
                ..Vulnerability::default()
            },
            repository: format!("debian:{package}"),
            commit: self.name.clone(),
        };
        self.cves.iter().map(fix).collect()
    }
}

/// A file's bytes, if it is there.
type Side = Option<Arc<[u8]>>;

/// The patches of a tree that is not patched yet, in the order of its series, and the bytes that
/// their changes name. `read` gives a file of the tree.
pub fn patches(
    read: impl Fn(&str) -> Option<Arc<[u8]>>,
) -> (Vec<Patch>, BTreeMap<Digest, Arc<[u8]>>) {
    let series = read("debian/patches/series").unwrap_or_else(|| Vec::new().into());
    let series = String::from_utf8_lossy(&series).into_owned();
    let mut tree: BTreeMap<String, Side> = BTreeMap::new();
    let mut blobs = BTreeMap::new();
    let mut found = Vec::new();
    for line in series.lines() {
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let Some(name) = words.next() else { continue };
        let strip = words.find_map(|w| w.strip_prefix("-p")?.parse().ok());
        let Some(bytes) = read(&format!("debian/patches/{name}")) else {
            continue;
        };
        let header = dep3::header(name, &String::from_utf8_lossy(&bytes));
        let mut change = Change {
            parents: 1,
            date: header.date,
            ..Change::default()
        };
        // A file can be in a patch twice; then the first side of the first and the last of the last
        // are its sides.
        let mut sides: BTreeMap<String, (Side, Side)> = BTreeMap::new();
        for file in files(&bytes, strip.unwrap_or(1)) {
            let Some(path) = file.after.clone().or(file.before.clone()) else {
                continue;
            };
            let now = match tree.get(&path) {
                Some(known) => known.clone(),
                None => read(&path),
            };
            let before = now.clone().filter(|_| file.before.is_some());
            let after = match (
                file.after.is_some(),
                file.apply(before.as_deref().unwrap_or(&[])),
            ) {
                (false, _) => None,
                (true, Some(after)) => Some(Arc::from(after)),
                (true, None) => {
                    change.left_out.push((path, Dropped::PatchFails));
                    continue;
                }
            };
            tree.insert(path.clone(), after.clone());
            sides.entry(path).or_insert((before, None)).1 = after;
        }
        change.files = sides.len() + change.left_out.len();
        for (path, side) in sides {
            if SnippetLanguage::of_path(&path).is_none() {
                continue;
            }
            let (Some(before), Some(after)) = side else {
                change.left_out.push((path, Dropped::OneSided));
                continue;
            };
            let mut put = |bytes: Arc<[u8]>| {
                let digest = Digest::of(&bytes);
                blobs.insert(digest, bytes);
                digest
            };
            if !header.cves.is_empty() {
                change.sources.push(ChangedFile {
                    path,
                    from: None,
                    before: put(before),
                    after: put(after),
                });
            }
        }
        if !header.cves.is_empty() {
            found.push(Patch {
                name: name.to_string(),
                cves: header.cves,
                origin: header.origin,
                change,
            });
        }
    }
    (found, blobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tosss::pair::{Limits, pairs};

    #[test]
    fn patches_build_on_each_other() {
        let source = "int f(int n)\n{\n    return g(n);\n}\n";
        let first = "--- a/x.c\n+++ b/x.c\n@@ -1,4 +1,5 @@\n int f(int n)\n {\n+    n++;\n     return g(n);\n }\n";
        let second = "Subject: fix\n--- a/x.c\n+++ b/x.c\n@@ -1,5 +1,7 @@\n int f(int n)\n {\n     n++;\n+    if (n < 0)\n+        return 0;\n     return g(n);\n }\n";
        let third = "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n int f(int n)\n-{ not there\n+{\n";
        let tree = BTreeMap::from([
            ("x.c", source),
            (
                "debian/patches/series",
                "# first\nbuild.patch\nCVE-2021-0001.patch -p1 # why\nCVE-2021-0002.patch\nabsent.patch\n",
            ),
            ("debian/patches/build.patch", first),
            ("debian/patches/CVE-2021-0001.patch", second),
            ("debian/patches/CVE-2021-0002.patch", third),
        ]);
        let read = |path: &str| tree.get(path).map(|t| Arc::from(t.as_bytes()));
        let (found, blobs) = patches(read);
        assert_eq!(found.len(), 2);
        let fix = found[0].fixes("p").remove(0);
        assert_eq!(
            (&*fix.vulnerability.id, &*fix.repository),
            ("CVE-2021-0001", "debian:p")
        );
        let mined = pairs(&fix, &found[0].change, &Limits::default(), |d| {
            blobs.get(&d).cloned().ok_or("no blob")
        })
        .unwrap();
        assert_eq!(mined.pairs.len(), 1);
        assert!(mined.pairs[0].before.contains("n++") && !mined.pairs[0].before.contains("if"));
        assert!(mined.pairs[0].after.contains("if (n < 0)"));
        assert_eq!(
            found[1].change.left_out,
            [("x.c".to_string(), Dropped::PatchFails)]
        );
    }
}
