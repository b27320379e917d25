//! Mines fixes: what commits change, and what the patches of Debian source packages change. Nothing
//! of a repository is checked out, and nothing of it is run.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::digest::Digest;
use crate::engine::{Absent, Context, Executor, Failure, Output};
use crate::job::Job;
use crate::lang::SnippetLanguage;
use crate::source::{Apt, DebianError, Git, GitError, History, HistoryError};
use crate::subject::DebianSource;
use crate::tosss::change::{Change, ChangedFile, Dropped, licence};
use crate::tosss::debian::patches;

/// A file of more bytes than this is not read.
const MOST: u64 = 8 << 20;
/// Where a repository says under which licence it is.
const LICENCES: [&str; 5] = ["LICENSE", "COPYING", "LICENSE.txt", "LICENSE.md", "LICENCE"];

/// Runs jobs of kind `tosss/change`.
pub struct Changes {
    /// Where repositories are on this machine, by the names that jobs have for them. Others are
    /// fetched from the address that their name is.
    pub places: BTreeMap<String, PathBuf>,
    /// How others are fetched.
    pub git: Git,
    /// Repositories that are being read and that no job uses now.
    idle: Mutex<HashMap<PathBuf, Vec<History>>>,
}

impl Changes {
    /// An executor that knows these places.
    pub fn new(places: BTreeMap<String, PathBuf>, private: &Path) -> Changes {
        Changes {
            places,
            git: Git::new(private),
            idle: Mutex::default(),
        }
    }

    fn read(&self, path: &Path, commit: &str) -> Result<Output, HistoryError> {
        let known = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(path)
            .and_then(Vec::pop);
        let mut history = match known {
            Some(history) => history,
            None => History::open(path)?,
        };
        let read = change(&mut history, commit);
        if matches!(read, Ok(_) | Err(HistoryError::NoCommit { .. })) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.entry(path.to_path_buf()).or_default().push(history);
        }
        read
    }
}

impl Executor for Changes {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        let (repository, commit) = (job.text("repository"), job.text("commit"));
        if let Some(path) = self.places.get(repository) {
            return self.read(path, commit).map_err(|e| unread(&e));
        }
        let mirror = self.git.mirror_of(repository);
        let fetched = match mirror.as_ref().map(|path| self.read(path, commit)) {
            Some(Ok(output)) => return Ok(output),
            Some(Err(error)) if !matches!(error, HistoryError::NoCommit { .. }) => {
                return Err(unread(&error));
            }
            _ => self.git.obtain_history(repository, commit),
        };
        let path = fetched.map_err(|e| unfetched(&e))?;
        self.read(&path, commit).map_err(|e| unread(&e))
    }
}

fn unread(error: &HistoryError) -> Failure {
    absent(
        error,
        match error {
            HistoryError::NoGit(_) => None,
            HistoryError::NoCommit { .. } => Some(Absent::Part),
            HistoryError::NoRepository(_)
            | HistoryError::NotWhole { .. }
            | HistoryError::Git { .. } => Some(Absent::Source),
        },
    )
}

fn unfetched(error: &GitError) -> Failure {
    if error.is_transient() {
        return Failure::Transient(error.to_string());
    }
    absent(
        error,
        match error {
            GitError::NoGit { .. } | GitError::Mirror { .. } => None,
            GitError::NoRevision { .. } | GitError::NotACommit { .. } => Some(Absent::Part),
            _ => Some(Absent::Source),
        },
    )
}

fn absent(error: &dyn std::error::Error, of: Option<Absent>) -> Failure {
    let what = error.to_string();
    match of {
        Some(of) => Failure::Absent {
            of,
            what,
            help: "what it fixes gives no pair; `--repositories DIR` says where clones are".into(),
        },
        None => Failure::Fatal {
            what,
            help: "mend that and mine again".into(),
        },
    }
}

/// A commit's change with the bytes of its sources.
fn change(history: &mut History, id: &str) -> Result<Output, HistoryError> {
    let commit = history.commit(id)?;
    let mut change = Change {
        parents: commit.parents.len(),
        files: commit.files.len(),
        date: Some(crate::date::day(commit.committed)),
        ..Change::default()
    };
    let mut blobs: BTreeMap<Digest, Vec<u8>> = BTreeMap::new();
    for file in &commit.files {
        let path = file.after.as_ref().or(file.before.as_ref());
        let Some((path, _)) = path.filter(|(path, _)| SnippetLanguage::of_path(path).is_some())
        else {
            continue;
        };
        let (Some((from, old)), Some((to, new)), true) = (&file.before, &file.after, file.regular)
        else {
            change.left_out.push((path.clone(), Dropped::OneSided));
            continue;
        };
        let (Some(before), Some(after)) = (history.blob(old, MOST)?, history.blob(new, MOST)?)
        else {
            change.left_out.push((path.clone(), Dropped::TooLarge));
            continue;
        };
        let mut put = |bytes: &[u8]| {
            let digest = Digest::of(bytes);
            blobs.entry(digest).or_insert_with(|| bytes.to_vec());
            digest
        };
        change.sources.push(ChangedFile {
            path: to.clone(),
            from: (from != to).then(|| from.clone()),
            before: put(&before),
            after: put(&after),
        });
    }
    if !change.sources.is_empty() {
        for name in LICENCES {
            if let Some(bytes) = history.file(&commit.id, name, 1 << 20)? {
                change.licence = licence(&String::from_utf8_lossy(&bytes)).map(str::to_string);
                break;
            }
        }
    }
    Ok(Output {
        bytes: change.encode(),
        blobs: blobs.into_values().collect(),
    })
}

/// A source package without its patches; the newest version where none is given.
pub fn source_package(name: &str, version: Option<&str>) -> DebianSource {
    DebianSource {
        name: name.to_string(),
        version: version.map(str::to_string),
        follow: None,
        sha256: None,
        patched: false,
        path_inside: None,
    }
}

/// Runs jobs of kind `tosss/patches`.
pub struct Patches {
    /// How source packages are fetched.
    pub apt: Apt,
    /// Holds a folder for each call, which is removed afterwards.
    pub scratch: PathBuf,
}

impl Executor for Patches {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        let broken = |e: std::io::Error| Failure::Transient(format!("a scratch folder: {e}"));
        std::fs::create_dir_all(&self.scratch).map_err(broken)?;
        let scratch = tempfile::tempdir_in(&self.scratch).map_err(broken)?;
        let source = source_package(job.text("name"), Some(job.text("version")));
        let tree = self
            .apt
            .fetch(&source, scratch.path())
            .map_err(|e: DebianError| match e.is_transient() {
                true => Failure::Transient(e.to_string()),
                false => match e {
                    DebianError::NoApt { .. }
                    | DebianError::NoDpkgSource(_)
                    | DebianError::NoSources(_) => absent(&e, None),
                    _ => Failure::Absent {
                        of: Absent::Source,
                        what: e.to_string(),
                        help: "`--debian NAME` takes the newest version that is on offer".into(),
                    },
                },
            })?;
        let (found, blobs) = patches(|path| tree.bytes(path).cloned());
        Ok(Output {
            bytes: serde_json::to_vec(&found).expect("texts and numbers are JSON"),
            blobs: blobs.into_values().map(|b| b.to_vec()).collect(),
        })
    }
}
