//! The lock file `everbench.lock`: which commits the revisions in manifests stood for when they were
//! first asked. With it a branch is the same commit in every later run and on every machine, without
//! the network, until the manifest asks for another revision.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AppError;
use crate::subject::{GitSource, is_commit};

/// The file's name, beside the project file.
pub const FILE: &str = "everbench.lock";
/// The version of its format.
const VERSION: u32 = 1;
const HEAD: &str = "# Written by everbench: what the revisions in manifests stood for when they were first asked.\n\
                    # Keep it with the project; remove an entry to have its revision looked up again.\n";

/// A lock file, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    subject: BTreeMap<String, Entry>,
}

/// What is locked of one subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The repository, as the manifest has it.
    git: String,
    /// The revision, as the manifest has it.
    revision: String,
    /// The commit it stood for.
    commit: String,
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
        if file.version != VERSION {
            return Err(wrong(format!(
                "version {} is not known to this everbench, which knows {VERSION}",
                file.version
            )));
        }
        if let Some((name, entry)) = file.subject.iter().find(|(_, e)| !is_commit(&e.commit)) {
            let said = format!("subject {name}: {:?} is not a full commit id", entry.commit);
            return Err(wrong(said));
        }
        Ok(Lock {
            path,
            entries: file.subject,
        })
    }

    /// The commit of a subject's source, if it is locked for this repository and revision.
    pub fn commit(&self, subject: &str, source: &GitSource) -> Option<&str> {
        let entry = self.entries.get(subject)?;
        let same = entry.git == source.url && entry.revision == source.revision;
        same.then_some(entry.commit.as_str())
    }

    /// Locks a subject's source to a commit, and writes the file whole or not at all.
    pub fn set(&mut self, subject: &str, source: &GitSource, commit: &str) -> Result<(), AppError> {
        let entry = Entry {
            git: source.url.clone(),
            revision: source.revision.clone(),
            commit: commit.to_string(),
        };
        self.entries.insert(subject.to_string(), entry);
        let file = File {
            version: VERSION,
            subject: self.entries.clone(),
        };
        let body = toml::to_string(&file).expect("texts by text are TOML");
        let failed = |e: std::io::Error| {
            AppError::Environment(format!(
                "{}: {e}\n  help: without it a run could not say later which commit it used",
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
        insta::assert_snapshot!(std::fs::read_to_string(dir.path().join(FILE)).unwrap());
    }

    #[test]
    fn a_lock_that_cannot_be_used_is_refused_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let said = |text: &str| {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            Lock::read(dir.path()).unwrap_err().to_string()
        };
        let entry = "[subject.x]\ngit = \"u\"\nrevision = \"main\"\ncommit = \"abc\"\n";
        for (text, part) in [
            ("version = ", "everbench.lock"),
            ("version = 2\n", "version 2 is not known"),
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
