//! The lock file `everbench.lock`: which commits the revisions in manifests stood for when they were
//! first asked, and which was the newest of the versions that are followed. With it a branch is the same
//! commit in every later run and on every machine, without the network, until the manifest asks for
//! something else or `everbench sync` moves on.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AppError;
use crate::subject::{GitSource, Pin, Source, is_commit};

/// The file's name, beside the project file.
pub const FILE: &str = "everbench.lock";
/// The version of its format. 1 had commits only.
const VERSION: u32 = 2;
const HEAD: &str = "# Written by everbench: what the revisions and versions in manifests stood for when they were\n\
                    # looked up. Keep it with the project; remove an entry to have it looked up again.\n";

/// A lock file, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    subject: BTreeMap<String, toml::Table>,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    subject: &'a BTreeMap<String, Entry>,
}

/// What is locked of one subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
enum Entry {
    Commit(CommitEntry),
    Version(VersionEntry),
}

/// A commit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitEntry {
    /// The repository, as the manifest has it.
    git: String,
    /// The revision, as the manifest has it.
    revision: String,
    /// The commit it stood for.
    commit: String,
}

/// A version of a package.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct VersionEntry {
    /// The kind of source, as the key is called in manifests.
    from: String,
    /// The package.
    name: String,
    /// What is followed, as the manifest has it.
    follows: String,
    /// Whether versions before a release count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pre_releases: bool,
    /// The newest version when it was looked up, with its checksum.
    locked: Pin,
}

impl VersionEntry {
    /// The entry for a source; nothing for one that follows no version.
    fn of(source: &Source, pin: &Pin) -> Option<VersionEntry> {
        let followed = source.followed()?;
        Some(VersionEntry {
            from: followed.from.to_string(),
            name: followed.name.to_string(),
            follows: followed.version.to_string(),
            pre_releases: followed.follow.pre_releases,
            locked: pin.clone(),
        })
    }
}

impl Entry {
    fn read(table: toml::Table) -> Result<Entry, String> {
        let commit = table.contains_key("git");
        let value = toml::Value::Table(table);
        match commit {
            true => {
                let entry: CommitEntry = value.try_into().map_err(|e| e.to_string())?;
                if !is_commit(&entry.commit) {
                    return Err(format!("{:?} is not a full commit id", entry.commit));
                }
                Ok(Entry::Commit(entry))
            }
            false => {
                let entry: VersionEntry = value.try_into().map_err(|e| e.to_string())?;
                let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
                let sum = &entry.locked.checksum;
                if sum.len() != 64 || !sum.bytes().all(hex) {
                    return Err(format!("{sum:?} is no SHA-256"));
                }
                Ok(Entry::Version(entry))
            }
        }
    }
}

impl Lock {
    /// Reads the lock file of the project in `dir`; an absent one is empty.
    pub fn read(dir: &Path) -> Result<Lock, AppError> {
        let path = dir.join(FILE);
        let wrong = |said: String| {
            let help = "remove the file to have all revisions looked up again";
            AppError::Input(format!("{}: {said}\n  help: {help}", path.display()))
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Lock {
                    path,
                    entries: BTreeMap::new(),
                });
            }
            Err(e) => return Err(wrong(e.to_string())),
        };
        let file: File = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if !(1..=VERSION).contains(&file.version) {
            return Err(wrong(format!(
                "version {} is not known to this everbench, which knows {VERSION}",
                file.version
            )));
        }
        let mut entries = BTreeMap::new();
        for (name, table) in file.subject {
            let entry = Entry::read(table).map_err(|e| wrong(format!("subject {name}: {e}")))?;
            entries.insert(name, entry);
        }
        Ok(Lock { path, entries })
    }

    /// The commit of a subject's source, if it is locked for this repository and revision.
    pub fn commit(&self, subject: &str, source: &GitSource) -> Option<&str> {
        let Entry::Commit(entry) = self.entries.get(subject)? else {
            return None;
        };
        let same = entry.git == source.url && entry.revision == source.revision;
        same.then_some(entry.commit.as_str())
    }

    /// The version of a subject's source, if it is locked for this package and what is followed of it.
    pub fn pin(&self, subject: &str, source: &Source) -> Option<&Pin> {
        let Entry::Version(entry) = self.entries.get(subject)? else {
            return None;
        };
        let same = VersionEntry::of(source, &entry.locked).as_ref() == Some(entry);
        same.then_some(&entry.locked)
    }

    /// Locks a subject's source to a commit, and writes the file whole or not at all.
    pub fn set(&mut self, subject: &str, source: &GitSource, commit: &str) -> Result<(), AppError> {
        let entry = CommitEntry {
            git: source.url.clone(),
            revision: source.revision.clone(),
            commit: commit.to_string(),
        };
        self.put(subject, Entry::Commit(entry))
    }

    /// Locks a subject's source, which follows versions, to one of them; writes as [`Lock::set`].
    pub fn set_pin(&mut self, subject: &str, source: &Source, pin: &Pin) -> Result<(), AppError> {
        match VersionEntry::of(source, pin) {
            Some(entry) => self.put(subject, Entry::Version(entry)),
            None => Ok(()),
        }
    }

    fn put(&mut self, subject: &str, entry: Entry) -> Result<(), AppError> {
        self.entries.insert(subject.to_string(), entry);
        let file = Written {
            version: VERSION,
            subject: &self.entries,
        };
        let body = toml::to_string(&file).expect("texts by text are TOML");
        let failed = |e: std::io::Error| {
            AppError::Environment(format!(
                "{}: {e}\n  help: without it a run could not say later which commit or version it used",
                self.path.display()
            ))
        };
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new()
            .prefix(".everbench.lock")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(dir)
            .map_err(failed)?;
        new.write_all(format!("{HEAD}{body}").as_bytes())
            .and_then(|()| new.as_file().sync_all())
            .map_err(failed)?;
        new.persist(&self.path).map_err(|e| failed(e.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Follow, SdistSource};

    fn source(url: &str, revision: &str) -> GitSource {
        GitSource {
            url: url.into(),
            revision: revision.into(),
            path_inside: None,
            without_submodules: false,
        }
    }

    #[test]
    fn what_was_locked_is_read_back_for_the_same_repository_and_revision_only() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = ("1".repeat(40), "2".repeat(64));
        let mut lock = Lock::read(dir.path()).unwrap();
        assert_eq!(lock.commit("mylib", &source("../r", "main")), None);
        lock.set("mylib", &source("../r", "main"), &one).unwrap();
        lock.set("a.b c", &source("https://h/\"r\"", "HEAD~3"), &two)
            .unwrap();
        let lock = Lock::read(dir.path()).unwrap();
        assert_eq!(
            lock.commit("mylib", &source("../r", "main")),
            Some(&one[..])
        );
        assert_eq!(lock.commit("mylib", &source("../r", "next")), None);
        assert_eq!(lock.commit("mylib", &source("../s", "main")), None);
        assert_eq!(
            lock.commit("a.b c", &source("https://h/\"r\"", "HEAD~3")),
            Some(&two[..])
        );
        let package = |version: &str, pre_releases: bool| {
            let numbers = version.strip_suffix(".*");
            Source::Sdist(SdistSource {
                name: "p".into(),
                version: version.into(),
                follow: Some(Follow {
                    within: numbers.map(str::to_string),
                    pre_releases,
                }),
                sha256: String::new(),
                archive_inside: None,
                path_inside: None,
            })
        };
        let pin = Pin {
            version: "1.7.2".into(),
            checksum: "3".repeat(64),
        };
        let mut lock = lock;
        lock.set_pin("package", &package("1.7.*", false), &pin)
            .unwrap();
        let lock = Lock::read(dir.path()).unwrap();
        assert_eq!(lock.pin("package", &package("1.7.*", false)), Some(&pin));
        for other in [package("latest", false), package("1.7.*", true)] {
            assert_eq!(lock.pin("package", &other), None);
        }
        assert_eq!(lock.pin("mylib", &package("1.7.*", false)), None);
        assert_eq!(lock.commit("package", &source("../r", "main")), None);
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        insta::assert_snapshot!(text, @r#"
        # Written by everbench: what the revisions and versions in manifests stood for when they were
        # looked up. Keep it with the project; remove an entry to have it looked up again.
        version = 2

        [subject."a.b c"]
        git = 'https://h/"r"'
        revision = "HEAD~3"
        commit = "2222222222222222222222222222222222222222222222222222222222222222"

        [subject.mylib]
        git = "../r"
        revision = "main"
        commit = "1111111111111111111111111111111111111111"

        [subject.package]
        from = "sdist"
        name = "p"
        follows = "1.7.*"

        [subject.package.locked]
        version = "1.7.2"
        checksum = "3333333333333333333333333333333333333333333333333333333333333333"
        "#);
    }

    #[test]
    fn a_lock_of_the_first_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let commit = "1".repeat(40);
        let text = format!(
            "version = 1\n\n[subject.x]\ngit = \"../r\"\nrevision = \"main\"\ncommit = \"{commit}\"\n"
        );
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let lock = Lock::read(dir.path()).unwrap();
        assert_eq!(lock.commit("x", &source("../r", "main")), Some(&commit[..]));
    }

    #[test]
    fn a_lock_that_cannot_be_used_is_refused_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let said = |text: &str| {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            Lock::read(dir.path()).unwrap_err().to_string()
        };
        let entry = "[subject.x]\ngit = \"u\"\nrevision = \"main\"\ncommit = \"abc\"\n";
        let version = "[subject.x]\nfrom = \"crate\"\nname = \"x\"\nfollows = \"latest\"\n\
                       locked = { version = \"1\", checksum = \"abc\" }\n";
        for (text, part) in [
            ("version = ", "everbench.lock"),
            ("version = 3\n", "version 3 is not known"),
            (&format!("version = 2\n{version}"), "\"abc\" is no SHA-256"),
            (
                &format!("version = 2\n{}", version.replace("follows", "asks")),
                "unknown field `asks`",
            ),
            ("", "missing field `version`"),
            (&format!("version = 1\n{entry}"), "not a full commit id"),
            ("version = 1\nextra = 1\n", "unknown field `extra`"),
        ] {
            let said = said(text);
            assert!(
                said.contains(part) && said.contains("remove the file"),
                "{said}"
            );
        }
    }
}
