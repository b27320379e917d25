//! Walks patches through the histories of their repositories. Nothing of a repository is checked out,
//! and nothing of it is run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::contamination::patch::benchmark::Instance;
use crate::contamination::patch::course::{Course, Index, STRETCH as STRETCH_LENGTH, Stretch};
use crate::contamination::patch::diff::{self, Diff};
use crate::contamination::patch::edit::{Edit, NoEdit, edit};
use crate::contamination::patch::embed::{ABSENT, PRESENT, Planted, Texts, texts};
use crate::contamination::patch::follow::{further, start};
use crate::contamination::patch::jobs::{LEG, LINE, LINE_OF, PLANTED, STRETCH, Way};
use crate::contamination::patch::measure::measure;
use crate::contamination::patch::source::{Outline, Source, outline, plain_lines};
use crate::contamination::patch::splice::{Files, splice};
use crate::contamination::patch::walk::{
    Changes, Head, Join, Leg, Line, Problem, Step, Trail, Visit, Walk,
};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Lately, Output};
use crate::job::Job;
use crate::lang::SnippetLanguage;
use crate::source::history::Commit;
use crate::source::line::{changes, first_parents, joined};
use crate::source::{History, HistoryError};
use crate::tosss::patch::FilePatch;

/// A file of more bytes than this is not read.
const MOST: u64 = 4 << 20;
/// So many lines are kept in memory, read once for all patches of a repository.
const LINES_KEPT: usize = 4;

/// Where repositories are on this machine, by the names that jobs have for them.
pub type Places = BTreeMap<String, PathBuf>;

/// Runs jobs of kinds `contamination/line`, `contamination/stretch` and `contamination/join`.
pub struct Lines {
    /// Where repositories are.
    pub places: Places,
}

/// Runs jobs of kinds `contamination/walk` and `contamination/leg`.
pub struct Walks {
    places: Places,
    courses: Arc<Courses>,
    /// Repositories that are being read and that no job uses now.
    idle: Mutex<HashMap<PathBuf, Vec<History>>>,
    fitted: Mutex<Lately<Digest, Known>>,
    shelf: Shelf,
}

/// A patch with its base, or why it has none.
type Known = Arc<Result<Fitted, Walk>>;

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
        HistoryError::NoCommit { .. }
        | HistoryError::NoRepository(_)
        | HistoryError::NotWhole { .. } => Failure::Fatal {
            what: error.to_string(),
            help: "`--repositories DIR` says where whole clones are".into(),
        },
    }
}

impl Executor for Lines {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let path = place(&self.places, job.text("repository"))?;
        let bytes = match job.kind() {
            kind if kind == LINE => {
                let commits = first_parents(path, job.text("tip")).map_err(|e| failure(&e))?;
                Line { commits }.encode()
            }
            kind if kind == STRETCH => {
                let count = job.int("commits") as usize;
                let read = changes(path, job.text("until"), count).map_err(|e| failure(&e))?;
                if read.len() != count {
                    let what = format!("git gave {} of {count} commits", read.len());
                    return Err(Failure::Transient(what));
                }
                stretch(read).encode()
            }
            _ => self.join(path, job, context)?.encode(),
        };
        Ok(Output {
            bytes,
            blobs: Vec::new(),
        })
    }
}

impl Lines {
    fn join(&self, path: &Path, job: &Job, context: &Context<'_>) -> Result<Join, Failure> {
        let line = stored(job.material(LINE_OF), context)?;
        let line = Line::decode(&(context.blob)(line)?).map_err(|e| unreadable(&e))?;
        let ids: HashSet<&str> = line.commits.iter().map(|(id, _)| &**id).collect();
        let mut history = History::open(path).map_err(|e| failure(&e))?;
        let id = history.id(job.text("base")).map_err(|e| failure(&e))?;
        Ok(match id {
            None => Join::Gone,
            Some(id) if ids.contains(&*id) => Join::At(id),
            Some(id) => {
                let joined = joined(path, &id, job.text("tip"), |id| ids.contains(id));
                match joined.map_err(|e| failure(&e))? {
                    None => Join::Apart,
                    Some(id) => Join::At(id),
                }
            }
        })
    }
}

/// What commits change, each path once.
fn stretch(commits: Vec<Commit>) -> Changes {
    let mut changes = Changes::default();
    let mut known: HashMap<String, u32> = HashMap::new();
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
    }
    changes
}

/// The output of a job that was run before.
fn stored(job: &Job, context: &Context<'_>) -> Result<Digest, Failure> {
    let output = (context.output)(job)?;
    output.ok_or_else(|| Failure::Transient(format!("the output of {job:?} is not in the store")))
}

fn unreadable(error: &dyn std::fmt::Display) -> Failure {
    Failure::Fatal {
        what: format!("a history in the store cannot be read: {error}"),
        help: "another version of this program wrote it: begin in a fresh folder".into(),
    }
}

/// Lines that were read, with their stretches, each once for all patches of a repository.
#[derive(Default)]
pub struct Courses(Mutex<Shelves>);

#[derive(Default)]
struct Shelves {
    courses: Vec<(Digest, Arc<Course>)>,
    stretches: HashMap<Digest, Arc<Stretch>>,
}

/// Gives a blob.
type Blob<'a, E> = &'a dyn Fn(Digest) -> Result<Arc<[u8]>, E>;

impl Courses {
    /// The line of this digest up to `tip`. `output` gives what a job gave, and `broken` says that something
    /// cannot be read.
    ///
    /// # Errors
    /// Those of `blob`, `output` and `broken`.
    pub fn get<E>(
        &self,
        (repository, tip, renames): (&str, &str, u32),
        digest: Digest,
        blob: Blob<'_, E>,
        output: &dyn Fn(&Job) -> Result<Digest, E>,
        broken: &dyn Fn(&dyn std::fmt::Display) -> E,
    ) -> Result<Arc<Course>, E> {
        // Held while it is read: others that need the same wait instead of reading it, too.
        let mut shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, read)) = shelves.courses.iter().find(|(known, _)| *known == digest) {
            return Ok(read.clone());
        }
        let line = Line::decode(&blob(digest)?).map_err(|e| broken(&e))?;
        let way = Way {
            line: &line,
            tip,
            renames,
        };
        let mut stretches = Vec::new();
        for (number, job) in way.stretches(repository).iter().enumerate() {
            let output = output(job)?;
            stretches.push(match shelves.stretches.get(&output) {
                Some(known) => known.clone(),
                None => {
                    let changes = Changes::decode(&blob(output)?).map_err(|e| broken(&e))?;
                    let read = Arc::new(Stretch::new(number * STRETCH_LENGTH, changes));
                    shelves.stretches.insert(output, read.clone());
                    read
                }
            });
        }
        let course = Arc::new(Course::new(line, stretches));
        if shelves.courses.len() == LINES_KEPT {
            let (_, gone) = shelves.courses.remove(0);
            shelves.stretches.retain(|_, kept| !gone.index.has(kept));
        }
        shelves.courses.push((digest, course.clone()));
        Ok(course)
    }
}

impl Walks {
    /// An executor that knows these places; it shares what it reads of lines.
    pub fn new(places: Places, courses: Arc<Courses>) -> Walks {
        Walks {
            places,
            courses,
            idle: Mutex::default(),
            fitted: Mutex::new(Lately::new(FITTED_KEPT)),
            shelf: Shelf(Mutex::new(Lately::new(FUNCTIONS_KEPT))),
        }
    }

    fn course(&self, job: &Job, context: &Context<'_>) -> Result<Arc<Course>, Failure> {
        let line = job.material(LINE_OF);
        let digest = stored(line, context)?;
        let output = |job: &Job| stored(job, context);
        let renames = u32::try_from(job.int("renames")).unwrap_or(u32::MAX);
        let of = (job.text("repository"), line.text("tip"), renames);
        self.courses
            .get(of, digest, context.blob, &output, &unreadable)
    }

    /// The patch with its base, read once for all legs of its walk.
    fn fitted(
        &self,
        history: &mut History,
        job: &Job,
        patch: &[u8],
    ) -> Result<Known, HistoryError> {
        let of = ["repository", "base"].map(|name| job.text(name));
        let key = Digest::of(format!("{of:?} {} {}", backwards(job), Digest::of(patch)).as_bytes());
        let lock = || self.fitted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        let read = Arc::new(fitted(history, job.text("base"), backwards(job), patch)?);
        let bytes = read.as_ref().as_ref().map_or(0, |fitted| {
            fitted.files.values().map(Vec::len).sum::<usize>()
        });
        lock().put(key, read.clone(), bytes + patch.len() + 1);
        Ok(read)
    }

    fn leg(
        &self,
        history: &mut History,
        job: &Job,
        index: &Index,
        patch: &[u8],
        before: Option<&Leg>,
    ) -> Result<Leg, HistoryError> {
        let known = self.fitted(history, job, patch)?;
        let edit = match &*known {
            Ok(fitted) => &fitted.edit,
            Err(failed) => return Ok(Leg::failed(failed.clone())),
        };
        let outlines = |object: &str, path: &str, text: &[u8]| -> Outline {
            self.shelf.outline(object, path, text)
        };
        let position = job.int("position") as usize;
        // Objects are asked for through one process, by the walk and for the base's files in turn.
        let history = std::cell::RefCell::new(history);
        let mut blobs = |object: &str| history.borrow_mut().blob(object, MOST);
        match before {
            None => {
                let at = job.text("at");
                let mut file = |path: &str| history.borrow_mut().object(at, path);
                start(edit, index, position, &mut blobs, &outlines, &mut file)
            }
            Some(before) => {
                let span = (job.int("from") as usize, position);
                further(edit, index, before, span, &mut blobs, &outlines)
            }
        }
    }
}

impl Executor for Walks {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let path = place(&self.places, job.text("repository"))?;
        let course = self.course(job, context)?;
        let patch = (context.blob)(job.digest("patch"))?;
        let before = match job.kind() == LEG {
            false => None,
            true => {
                let bytes = (context.blob)(job.digest("after"))?;
                Some(Leg::decode(&bytes).map_err(|e| unreadable(&e))?)
            }
        };
        let known = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(path)
            .and_then(Vec::pop);
        let mut history = match known {
            Some(history) => history,
            None => History::open(path).map_err(|e| failure(&e))?,
        };
        let leg = self.leg(&mut history, job, &course.index, &patch, before.as_ref());
        let leg = leg.map_err(|e| failure(&e))?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.entry(path.to_path_buf()).or_default().push(history);
        Ok(Output {
            bytes: leg.encode(),
            blobs: Vec::new(),
        })
    }
}

/// Whether the base is as after the patch.
fn backwards(job: &Job) -> bool {
    job.inputs().contains_key("fits")
}

/// A patch that fits its base.
struct Fitted {
    /// The base's whole id.
    id: String,
    edit: Edit,
    diff: Diff,
    /// Files of the base, with plain line ends.
    files: BTreeMap<String, Vec<u8>>,
}

/// The patch with the files of its base, or the walk that says why it has none.
fn fitted(
    history: &mut History,
    base: &str,
    fixed: bool,
    patch: &[u8],
) -> Result<Result<Fitted, Walk>, HistoryError> {
    let diff = diff::read(patch);
    if diff.files.is_empty() && diff.left_out.is_empty() {
        return Ok(Err(Walk::failed(Problem::NoHunks, "")));
    }
    if let Some(path) = diff.outside() {
        return Ok(Err(Walk::failed(Problem::Outside, path)));
    }
    let Some(id) = history.id(base)? else {
        return Ok(Err(Walk::failed(Problem::BaseGone, base)));
    };
    let mut misread = None;
    let mut misfit = None;
    let mut files = BTreeMap::new();
    let edit = edit(&diff, |file| {
        // Where the base is as after the patch, what was before it is what taking it back gives.
        let back = match fixed {
            true => diff
                .files
                .iter()
                .find(|f| f.before.as_deref() == Some(file)),
            false => None,
        };
        let there = match back {
            Some(patch) => patch.after.as_deref(),
            None => Some(file),
        };
        let bytes = match there.map(|path| history.file(&id, path, MOST)) {
            None => Vec::new(),
            Some(Ok(bytes)) => plain_lines(&bytes?),
            Some(Err(error)) => {
                misread.get_or_insert(error);
                return None;
            }
        };
        let bytes = match back {
            None => bytes,
            Some(patch) => match patch.inverted().apply(&bytes) {
                Some(bytes) => bytes,
                None => {
                    misfit.get_or_insert(file.to_string());
                    return None;
                }
            },
        };
        files.insert(file.to_string(), bytes.clone());
        Some(bytes)
    });
    if let Some(error) = misread {
        return Err(error);
    }
    if let Some(file) = misfit {
        return Ok(Err(Walk::failed(Problem::Misfit, file)));
    }
    let edit = match edit {
        Ok(edit) => edit,
        Err(NoEdit::NoFile(file)) => return Ok(Err(Walk::failed(Problem::NoFile, file))),
        Err(NoEdit::Misfit(file)) => return Ok(Err(Walk::failed(Problem::Misfit, file))),
    };
    if edit.sites.is_empty() {
        let mut walk = Walk::failed(Problem::NothingCompared, "");
        walk.left_out = edit.left_out;
        return Ok(Err(walk));
    }
    Ok(Ok(Fitted {
        id,
        edit,
        diff,
        files,
    }))
}

/// Runs jobs of kinds `contamination/texts` and `contamination/planted`: what embeddings compare.
pub struct Sides {
    /// Where repositories are.
    pub places: Places,
}

impl Executor for Sides {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let path = place(&self.places, job.text("repository"))?;
        let patch = (context.blob)(job.digest("patch"))?;
        let mut history = History::open(path).map_err(|e| failure(&e))?;
        let fitted = fitted(&mut history, job.text("base"), backwards(job), &patch);
        let fitted = fitted.map_err(|e| failure(&e))?;
        let bytes = match (job.kind() == PLANTED, fitted) {
            (true, Ok(fitted)) => planted(&fitted).encode(),
            (true, Err(_)) => Planted::default().encode(),
            (false, Err(_)) => Texts::default().encode(),
            (false, Ok(fitted)) => {
                let walk = Walk::decode(&(context.blob)(job.digest("walk"))?);
                let walk = walk.map_err(|e| Failure::Fatal {
                    what: format!("a walk in the store cannot be read: {e}"),
                    help: "another version of this program wrote it: begin in a fresh folder"
                        .into(),
                })?;
                let seen = |_: usize, visit: &Visit| -> Result<Option<Vec<u8>>, HistoryError> {
                    let bytes = history.blob(&visit.object, MOST)?;
                    Ok(bytes.map(|b| plain_lines(&b)))
                };
                let texts = texts(&fitted.edit, &walk.trails, seen);
                texts.map_err(|e| failure(&e))?.encode()
            }
        };
        Ok(Output {
            bytes,
            blobs: Vec::new(),
        })
    }
}

/// The files of a patch's base with the code of a snapshot in them, and with what the benchmark adds to the
/// tests; beside it the same with the patch itself.
pub struct Trial {
    /// The base's whole id.
    pub base: String,
    /// With the snapshot's code.
    pub snapshot: Result<Files, String>,
    /// With the patch.
    pub patched: Result<Files, String>,
    /// With its tests alone.
    pub unpatched: Result<Files, String>,
}

/// Puts together what the tests of an instance are run on. `at` is the snapshot's position in the line of
/// `walk`.
///
/// # Errors
/// The repository cannot be read.
pub fn trial(
    repository: &Path,
    walk: &Walk,
    at: usize,
    instance: &Instance,
) -> Result<Option<Trial>, HistoryError> {
    let mut history = History::open(repository)?;
    let fitted = fitted(
        &mut history,
        &instance.base,
        instance.fixed,
        &instance.patch,
    )?;
    let Ok(fitted) = fitted else {
        return Ok(None);
    };
    let seen = |visit: &Visit| -> Result<Option<Vec<u8>>, HistoryError> {
        let bytes = history.blob(&visit.object, MOST)?;
        Ok(bytes.map(|b| plain_lines(&b)))
    };
    let spliced = splice(&fitted.edit, walk, at, &fitted.files, seen)?;
    let mut patched = Ok(Files::new());
    for file in &fitted.diff.files {
        applied(&mut history, &fitted, file, &mut patched)?;
    }
    let mut snapshot = spliced.map_err(|why| why.words());
    let mut unpatched = Ok(Files::new());
    for file in &diff::read(&instance.test_patch).files {
        for files in [&mut snapshot, &mut patched, &mut unpatched] {
            applied(&mut history, &fitted, file, files)?;
        }
    }
    Ok(Some(Trial {
        base: fitted.id,
        snapshot,
        patched,
        unpatched,
    }))
}

/// Applies the patch of one file to what is there already, or to the base's.
fn applied(
    history: &mut History,
    fitted: &Fitted,
    patch: &FilePatch,
    files: &mut Result<Files, String>,
) -> Result<(), HistoryError> {
    let Ok(known) = files else { return Ok(()) };
    let before = match &patch.before {
        None => Some(Vec::new()),
        Some(path) => match known.get(path) {
            Some(bytes) => bytes.clone(),
            None => match fitted.files.get(path) {
                Some(bytes) => Some(bytes.clone()),
                None => history
                    .file(&fitted.id, path, MOST)?
                    .map(|bytes| plain_lines(&bytes)),
            },
        },
    };
    let path = patch.after.clone().or_else(|| patch.before.clone());
    let path = path.unwrap_or_default();
    match before.and_then(|bytes| patch.apply(&bytes)) {
        None => *files = Err(format!("the patch of {path} does not fit")),
        Some(bytes) => {
            if let Some(from) = &patch.before {
                known.insert(from.clone(), None);
            }
            if let Some(to) = &patch.after {
                known.insert(to.clone(), Some(bytes));
            }
        }
    }
    Ok(())
}

/// The patch against both of its sides. What only one side has (a file or function that is made or
/// removed) can be told apart without a threshold, and is left out.
fn planted(fitted: &Fitted) -> Planted {
    let mut edit = fitted.edit.clone();
    edit.sites
        .retain(|site| site.before.is_some() && site.after.is_some());
    let mut trails = Vec::new();
    let mut files: Vec<[Vec<u8>; 2]> = Vec::new();
    edit.sites.retain(|site| {
        let (Some(from), Some(to)) = (&site.from, &site.to) else {
            return false;
        };
        let mut patches = fitted.diff.files.iter();
        let patch =
            patches.find(|f| f.before.as_ref() == Some(from) && f.after.as_ref() == Some(to));
        let (Some(before), Some(patch)) = (fitted.files.get(from), patch) else {
            return false;
        };
        let Some(after) = patch.apply(before) else {
            return false;
        };
        let visit = |at: usize, path: &str, file: &[u8]| Visit {
            at,
            path: path.to_string(),
            object: String::new(),
            seen: measure(site, &Source::read(path, file)),
        };
        trails.push(Trail {
            head: Head::of(site),
            visits: vec![visit(ABSENT, from, before), visit(PRESENT, to, &after)],
        });
        files.push([before.clone(), after]);
        true
    });
    let bytes = |number: usize, visit: &Visit| {
        Ok::<_, std::convert::Infallible>(Some(files[number][visit.at].clone()))
    };
    let Ok(texts) = texts(&edit, &trails, bytes);
    Planted {
        walk: Walk {
            trails,
            ..Walk::default()
        },
        texts,
    }
}

/// Outlines of files, by object and language, for all walks of a process: a file of a long history is
/// read once, and not once for each patch that touches it.
struct Shelf(Mutex<Lately<(String, Option<&'static str>), Outline>>);

/// Patches whose base's files have so many bytes together are kept while they are walked.
const FITTED_KEPT: usize = 16 << 20;
/// So many functions are kept.
const FUNCTIONS_KEPT: usize = 400_000;

impl Shelf {
    fn outline(&self, object: &str, path: &str, text: &[u8]) -> Outline {
        let language = SnippetLanguage::of_path(path).map(SnippetLanguage::name);
        let key = (object.to_string(), language);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        // Two may read the same at once: they read the same.
        let read = outline(path, text);
        lock().put(key, read.clone(), read.len() + 1);
        read
    }
}
