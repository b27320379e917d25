//! Mines fixes: what commits change, and what the patches of Debian source packages change. Nothing
//! of a repository is checked out, and nothing of it is run.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::digest::Digest;
use crate::engine::{Absent, Context, Executor, Failure, Lately, Output};
use crate::job::Job;
use crate::lang::SnippetLanguage;
use crate::source::{Apt, DebianError, Git, GitError, History, HistoryError};
use crate::subject::DebianSource;
use crate::tosss::change::{Change, ChangedFile, Dropped, licence};
use crate::tosss::debian::patches;

/// A file of more bytes than this is not read.
const MOST: u64 = 8 << 20;
/// Bytes of objects that are kept at hand.
const AT_HAND: usize = 32 << 20;
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
    /// Objects of any repository, by their ids, which say what is in them: what one commit leaves is
    /// what the next one changes.
    recent: Mutex<Lately<String, Blob>>,
    /// Licences by the object of the file that says them.
    licences: Mutex<HashMap<String, Option<String>>>,
}

#[derive(Clone)]
struct Blob {
    digest: Digest,
    bytes: Arc<[u8]>,
}

impl Changes {
    /// An executor that knows these places.
    pub fn new(places: BTreeMap<String, PathBuf>, private: &Path) -> Changes {
        Changes {
            places,
            git: Git::new(private),
            idle: Mutex::default(),
            recent: Mutex::new(Lately::new(AT_HAND)),
            licences: Mutex::default(),
        }
    }

    fn read(&self, path: &Path, commit: &str) -> Result<Output, HistoryError> {
        let known = held(&self.idle).get_mut(path).and_then(Vec::pop);
        let mut history = match known {
            Some(history) => history,
            None => History::open(path)?,
        };
        let read = self.change(&mut history, commit);
        if matches!(read, Ok(_) | Err(HistoryError::NoCommit { .. })) {
            let mut idle = held(&self.idle);
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

impl Changes {
    /// A commit's change with the bytes of its sources.
    fn change(&self, history: &mut History, id: &str) -> Result<Output, HistoryError> {
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
            let (Some((from, old)), Some((to, new)), true) =
                (&file.before, &file.after, file.regular)
            else {
                change.left_out.push((path.clone(), Dropped::OneSided));
                continue;
            };
            let (Some(before), Some(after)) = (self.blob(history, old)?, self.blob(history, new)?)
            else {
                change.left_out.push((path.clone(), Dropped::TooLarge));
                continue;
            };
            let mut put = |blob: &Blob| {
                let bytes = || blob.bytes.to_vec();
                blobs.entry(blob.digest).or_insert_with(bytes);
                blob.digest
            };
            change.sources.push(ChangedFile {
                path: to.clone(),
                from: (from != to).then(|| from.clone()),
                before: put(&before),
                after: put(&after),
            });
        }
        if !change.sources.is_empty() {
            let top = history.top(&commit.id)?;
            let named = |name: &&str| top.iter().find(|(file, _)| file == name);
            if let Some((_, id)) = LICENCES.iter().find_map(named) {
                change.licence = self.licence(history, id)?;
            }
        }
        Ok(Output {
            bytes: change.encode(),
            blobs: blobs.into_values().collect(),
        })
    }

    /// An object's bytes and their digest; nothing if there are too many.
    fn blob(&self, history: &mut History, id: &str) -> Result<Option<Blob>, HistoryError> {
        let id = id.to_string();
        if let Some(known) = held(&self.recent).get(&id) {
            return Ok(Some(known.clone()));
        }
        let Some(bytes) = history.blob(&id, MOST)? else {
            return Ok(None);
        };
        let digest = Digest::of(&bytes);
        let blob = Blob { digest, bytes };
        held(&self.recent).put(id, blob.clone(), blob.bytes.len());
        Ok(Some(blob))
    }

    /// The licence that a file says; nothing if it is none that is known, or too long.
    fn licence(&self, history: &mut History, id: &str) -> Result<Option<String>, HistoryError> {
        if let Some(known) = held(&self.licences).get(id) {
            return Ok(known.clone());
        }
        let bytes = history.blob(id, 1 << 20)?;
        let known = bytes.and_then(|b| licence(&String::from_utf8_lossy(&b)).map(str::to_string));
        held(&self.licences).insert(id.to_string(), known.clone());
        Ok(known)
    }
}

/// What a mutex guards, also after a panic of another thread: it is whole at all times.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
