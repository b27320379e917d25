//! Walks patches through the histories of their repositories. Nothing of a repository is checked out,
//! and nothing of it is run.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::contamination::patch::diff;
use crate::contamination::patch::edit::{NoEdit, edit};
use crate::contamination::patch::follow::{Index, walk};
use crate::contamination::patch::source::plain_lines;
use crate::contamination::patch::walk::{Changes, Line, Problem, Step, Walk};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::Job;
use crate::source::line::{first_parents, joined};
use crate::source::{History, HistoryError};

/// A file of more bytes than this is not read.
const MOST: u64 = 4 << 20;
/// So many lines are kept in memory, read once for all patches of a repository.
const LINES_KEPT: usize = 4;

/// Where repositories are on this machine, by the names that jobs have for them.
pub type Places = BTreeMap<String, PathBuf>;

/// Runs jobs of kind `contamination/line`.
pub struct Lines {
    /// Where repositories are.
    pub places: Places,
}

/// Runs jobs of kind `contamination/walk`.
pub struct Walks {
    /// Where repositories are.
    pub places: Places,
    lines: Mutex<Vec<(Digest, Arc<Read>)>>,
    /// Repositories that are being read and that no job uses now.
    idle: Mutex<HashMap<PathBuf, Vec<History>>>,
}

/// A line that was read.
struct Read {
    index: Index,
    positions: HashMap<String, usize>,
    ids: Vec<String>,
}

fn place<'a>(places: &'a Places, repository: &str) -> Result<&'a Path, Failure> {
    let path = places.get(repository).map(PathBuf::as_path);
    path.ok_or_else(|| Failure::Fatal {
        what: format!("there is no clone of {repository}"),
        help: "`--repositories DIR` says where clones are".into(),
    })
}

/// A git that ended is started again another time; what a repository lacks it will lack then, too.
fn failure(error: &HistoryError) -> Failure {
    match error {
        HistoryError::Git { .. } | HistoryError::NoGit(_) => Failure::Transient(error.to_string()),
        HistoryError::NoCommit { .. } | HistoryError::NoRepository(_) => Failure::Fatal {
            what: error.to_string(),
            help: "`--repositories DIR` says where whole clones are".into(),
        },
    }
}

impl Executor for Lines {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        let path = place(&self.places, job.text("repository"))?;
        let commits = first_parents(path, job.text("tip")).map_err(|e| failure(&e))?;
        let mut changes = Changes::default();
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut line = Line::default();
        for commit in commits {
            let mut side = |side: Option<(String, String)>| {
                side.map(|(path, object)| {
                    let next = known.len() as u32;
                    let place = *known.entry(path.clone()).or_insert_with(|| {
                        changes.paths.push(path);
                        next
                    });
                    (place, object)
                })
            };
            let regular = commit.files.into_iter().filter(|f| f.regular);
            let steps = regular.map(|file| Step {
                from: side(file.before),
                to: side(file.after),
            });
            let steps: Vec<Step> = steps.collect();
            changes.commits.push(steps);
            line.commits.push((commit.id, commit.committed));
        }
        let bytes = changes.encode();
        line.changes = Some(Digest::of(&bytes));
        Ok(Output {
            bytes: line.encode(),
            blobs: vec![bytes],
        })
    }
}

impl Walks {
    /// An executor that knows these places.
    pub fn new(places: Places) -> Walks {
        Walks {
            places,
            lines: Mutex::default(),
            idle: Mutex::default(),
        }
    }

    /// The line of this digest, read once.
    fn line(&self, digest: Digest, context: &Context<'_>) -> Result<Arc<Read>, Failure> {
        // Held while it is read: others that need the same wait instead of reading it, too.
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, read)) = lines.iter().find(|(known, _)| *known == digest) {
            return Ok(read.clone());
        }
        let broken = |e: postcard::Error| Failure::Fatal {
            what: format!("a history in the store cannot be read: {e}"),
            help: "another version of this program wrote it: begin in a fresh folder".into(),
        };
        let line = Line::decode(&(context.blob)(digest)?).map_err(broken)?;
        let changes = match line.changes {
            Some(digest) => Changes::decode(&(context.blob)(digest)?).map_err(broken)?,
            None => Changes::default(),
        };
        let ids: Vec<String> = line.commits.into_iter().map(|(id, _)| id).collect();
        let read = Arc::new(Read {
            index: Index::new(changes),
            positions: ids.iter().cloned().zip(0..).collect(),
            ids,
        });
        if lines.len() == LINES_KEPT {
            lines.remove(0);
        }
        lines.push((digest, read.clone()));
        Ok(read)
    }

    fn walk(
        &self,
        path: &Path,
        job: &Job,
        read: &Read,
        patch: &[u8],
    ) -> Result<Walk, HistoryError> {
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
        let walked = walked(&mut history, path, job, read, patch);
        if walked.is_ok() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.entry(path.to_path_buf()).or_default().push(history);
        }
        walked
    }
}

impl Executor for Walks {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let path = place(&self.places, job.text("repository"))?;
        let read = self.line(job.digest("line"), context)?;
        let patch = (context.blob)(job.digest("patch"))?;
        let walk = self.walk(path, job, &read, &patch);
        Ok(Output {
            bytes: walk.map_err(|e| failure(&e))?.encode(),
            blobs: Vec::new(),
        })
    }
}

fn walked(
    history: &mut History,
    path: &Path,
    job: &Job,
    read: &Read,
    patch: &[u8],
) -> Result<Walk, HistoryError> {
    let diff = diff::read(patch);
    if diff.files.is_empty() && diff.left_out.is_empty() {
        return Ok(Walk::failed(Problem::NoHunks, ""));
    }
    let base = job.text("base");
    let Some(id) = history.id(base)? else {
        return Ok(Walk::failed(Problem::BaseGone, base));
    };
    let mut misread = None;
    let edit = edit(&diff, |file| match history.file(&id, file, MOST) {
        Ok(bytes) => bytes.map(|b| plain_lines(&b)),
        Err(error) => {
            misread.get_or_insert(error);
            None
        }
    });
    if let Some(error) = misread {
        return Err(error);
    }
    let edit = match edit {
        Ok(edit) => edit,
        Err(NoEdit::NoFile(file)) => return Ok(Walk::failed(Problem::NoFile, file)),
        Err(NoEdit::Misfit(file)) => return Ok(Walk::failed(Problem::Misfit, file)),
    };
    if edit.sites.is_empty() {
        let mut walk = Walk::failed(Problem::NothingCompared, "");
        walk.left_out = edit.left_out;
        return Ok(walk);
    }
    let at = match read.positions.get(&id) {
        Some(at) => Some(*at),
        None => {
            let on_line = |id: &str| read.positions.contains_key(id);
            let joined = joined(path, &id, job.text("tip"), on_line)?;
            joined.and_then(|id| read.positions.get(&id).copied())
        }
    };
    let Some(at) = at else {
        return Ok(Walk::failed(Problem::BaseApart, base));
    };
    // Objects are asked for through one process, by the walk and for the base's files in turn.
    let history = std::cell::RefCell::new(history);
    let mut blobs = |object: &str| history.borrow_mut().blob(object, MOST);
    let mut file = |path: &str| history.borrow_mut().object(&read.ids[at], path);
    walk(&edit, &read.index, at, &mut blobs, &mut file)
}
