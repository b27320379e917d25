//! Asking models in a folder, whatever the questions are for: who is asked, the service that asks
//! them, the store, and the drive that runs what a query lacks. A benchmark beside OSS-Bench gives a
//! pure query over answers and has nothing else to do with how these come about.
//!
//! The short way, for a list of questions to each model:
//!
//! ```text
//! let asked = ask_all(dir, &whom, "contamination/asked", Run { cancel, observer }, |model| {
//!     snippets.iter().map(|snippet| model.request(prompt(snippet), 0)).collect()
//! })?;
//! for answers in &asked.value {
//!     // answers.model.name, and answers.replies[n] of snippets[n]; `None`: not answered (yet)
//! }
//! ```
//!
//! The long way, for a query that demands other jobs too: [`Inquiry::open`], kinds with their
//! executors into [`Inquiry::registry`], [`Inquiry::run`] with the query, and [`keep`] for what has
//! to stay in the store. A query reads an answer by [`reply`], and folds what is missing upward.
//!
//! A completion has the key of its texts, model, sampling and draw: what is in the store is not
//! asked again, whoever asked it. Answers are looked up without asking by [`look_up`].
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::drive::quarantined;
use super::error::{fault_of, lost};
use super::models::StoreNotes;
use super::project::{Answering, Options, cores};
use super::stored::store_to_fill;
use super::{App, AppError, Environment, Statement, TOOL, store_to_look};
pub use crate::ask::Answerer;
use crate::ask::wire::Api;
use crate::ask::{COMPLETION, Reply, Request};
use crate::cancel::Cancel;
use crate::config;
use crate::engine::{Db, DriveError, Driver, EngineDb, Failure, Hold, Ledger, Observer, Registry};
use crate::exec::answer::Replay;
use crate::exec::models::Models;
use crate::job::Job;
use crate::store::{Entry, Manifest, Reader, Store, StoreLedger};

/// Whom to ask.
#[derive(Clone, Debug, Default)]
pub struct Whom {
    /// Recorded replies, in place of the models of the project file.
    pub replays: Vec<PathBuf>,
    /// Only these models of the project file; all when empty.
    pub models: Vec<String>,
    /// What models over HTTP may cost in this run, in millionths of a dollar.
    pub max_cost: Option<u64>,
    /// Where keys come from.
    pub environment: Environment,
}

/// What asking gave.
#[derive(Debug)]
pub struct Asked<T> {
    /// The query's value in its last evaluation.
    pub value: T,
    /// Who was asked, under the revisions that answered.
    pub models: Vec<Answerer>,
    /// Jobs that are still missing; 0 when all is done.
    pub missing: usize,
    /// Jobs that were run, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Why jobs are missing, each reason once.
    pub failures: Vec<String>,
    /// What models over HTTP were asked, and what that cost; nothing where none is.
    pub statement: Option<Statement>,
    /// Whether it was stopped.
    pub stopped: bool,
}

impl<T> Asked<T> {
    /// The same about another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Asked<U> {
        Asked {
            value: change(self.value),
            models: self.models,
            missing: self.missing,
            executed: self.executed,
            failures: self.failures,
            statement: self.statement,
            stopped: self.stopped,
        }
    }
}

/// Who stops a run, and who is told how it goes on.
pub struct Run<'a> {
    /// Stops it.
    pub cancel: &'a Cancel,
    /// Is told of it.
    pub observer: &'a mut dyn Observer,
}

/// What one model said to a list of questions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replies {
    /// The model.
    pub model: Answerer,
    /// A reply for each question, in the order of the questions; nothing where there is none yet.
    pub replies: Vec<Option<Reply>>,
}

/// Puts to every model its own list of questions (`questions`, which must be a pure function of the
/// model), runs what is missing and keeps the answers under `root`.
///
/// # Errors
/// No model to ask, a project file or store that cannot be used. Questions without an answer are no
/// error: they are counted in [`Asked::missing`].
pub fn ask_all(
    dir: &Path,
    whom: &Whom,
    root: &str,
    run: Run<'_>,
    questions: impl Fn(&Answerer) -> Vec<Request>,
) -> Result<Asked<Vec<Replies>>, AppError> {
    let inquiry = Inquiry::open(dir, whom)?;
    let asked = inquiry.run(run, |_| {
        |db: &EngineDb, models: &[Answerer]| all_replies(db, models, &questions)
    })?;
    let jobs = asked.models.iter().flat_map(&questions).map(|request| {
        let job = request.to_job(COMPLETION);
        (format!("{root}/{}", job.key()), job)
    });
    keep(&inquiry.store, root, jobs)?;
    Ok(asked)
}

/// The same answers from the store alone, as far as they are there, and how many are not.
///
/// # Errors
/// A store that cannot be used.
pub fn look_up(
    dir: &Path,
    models: &[Answerer],
    questions: impl Fn(&Answerer) -> Vec<Request>,
) -> Result<(Vec<Replies>, usize), AppError> {
    let store = store_to_look(dir)?;
    let db = EngineDb::new(Arc::new(store.reader()?));
    let (value, hold) = all_replies(&db, models, &questions);
    usable(&hold)?;
    Ok((value, hold.jobs().len()))
}

fn all_replies(
    db: &dyn Db,
    models: &[Answerer],
    questions: &impl Fn(&Answerer) -> Vec<Request>,
) -> (Vec<Replies>, Hold) {
    let mut hold = Hold::default();
    let mut all = Vec::new();
    for model in models {
        let mut one = |request: &Request| match reply(db, request) {
            Ok(reply) => Some(reply),
            Err(missing) => {
                hold.merge(&missing);
                None
            }
        };
        all.push(Replies {
            model: model.clone(),
            replies: questions(model).iter().map(&mut one).collect(),
        });
    }
    (all, hold.settle())
}

/// The reply to a request: for queries.
///
/// # Errors
/// What is missing, as a value.
pub fn reply(db: &dyn Db, request: &Request) -> Result<Reply, Hold> {
    let output = db.demand(&request.to_job(COMPLETION))?;
    Reply::decode(&db.blob(output)?).map_err(|e| {
        Hold::broken(
            format!("reply {output}: {e}"),
            "run `everbench store verify`",
        )
    })
}

/// The models that are asked, what runs jobs, and the store: all that a run of a query needs.
pub struct Inquiry {
    /// Whom; revisions as far as they are known before anybody answers.
    pub models: Vec<Answerer>,
    /// Who runs which kind of job. Completions are in it.
    pub registry: Registry,
    /// The store, open for writing.
    pub store: Arc<Store>,
    service: Arc<Models>,
}

impl Inquiry {
    /// Opens the store in `dir` (makes it for recorded replies, which need no project) and finds who
    /// is to be asked.
    ///
    /// # Errors
    /// No model to ask, files or a store that cannot be used.
    pub fn open(dir: &Path, whom: &Whom) -> Result<Inquiry, AppError> {
        Ok(Inquiry::of(match whom.replays.is_empty() {
            true => of_project(dir, whom)?,
            false => of_recordings(dir, &whom.replays)?,
        }))
    }

    /// The same with one model of the project file that gives vectors.
    ///
    /// # Errors
    /// There is no such model; files or a store that cannot be used.
    pub fn with_embedder(dir: &Path, name: &str, options: &Options) -> Result<Inquiry, AppError> {
        if !dir.join(config::FILE).exists() {
            return Err(AppError::Input(format!(
                "there is no {} in {}\n  help: `--embedder` names one of its models: `[[model]]` with `api = \"openai-embeddings\"`",
                config::FILE,
                dir.display()
            )));
        }
        let app = App::open_to_run(dir)?;
        let one = app.embedder(name)?;
        let models = answerers(std::slice::from_ref(&one));
        let service = app.asks(&[one], options)?;
        Ok(Inquiry::of((models, service, app.store.clone())))
    }

    /// The same for a query that asks nobody.
    ///
    /// # Errors
    /// A store that cannot be used.
    pub fn without_models(dir: &Path) -> Result<Inquiry, AppError> {
        of_recordings(dir, &[]).map(Inquiry::of)
    }

    fn of((models, service, store): Found) -> Inquiry {
        let mut registry = Registry::default();
        registry.add_service(COMPLETION, service.clone());
        Inquiry {
            models,
            registry,
            store,
            service,
        }
    }

    /// Evaluates a query until it lacks nothing that can be had. `make` gives the query for a fresh
    /// database, on which it may set inputs; the query gives its value for models under the revisions
    /// that are known now, with everything that is missing, and must be pure.
    ///
    /// # Errors
    /// A fault that the query found; a store that cannot be used.
    pub fn run<T, Q>(
        &self,
        run: Run<'_>,
        make: impl Fn(&EngineDb) -> Q,
    ) -> Result<Asked<T>, AppError>
    where
        Q: FnMut(&EngineDb, &[Answerer]) -> (T, Hold),
    {
        let Run { cancel, observer } = run;
        // A damaged blob makes its jobs run again, on a new database: each pass takes out at least
        // one, so this ends.
        loop {
            let reader = self.store.reader()?;
            let mut db = EngineDb::new(Arc::new(reader.clone()));
            let ledger = StoreLedger::new(self.store.clone(), &reader, TOOL);
            let driver = Driver {
                registry: &self.registry,
                ledger: &ledger,
                cores: cores(),
                cancel: cancel.clone(),
            };
            // Which revision answers under a name may be known only when it does.
            let now = RefCell::new(self.models.clone());
            let mut adjust = |_: &mut EngineDb| self.follow(&mut now.borrow_mut());
            let mut query = make(&db);
            let driven = driver.drive_adjusting(&mut db, observer, &mut adjust, |db| {
                query(db, &now.borrow())
            });
            let driven = match driven {
                Err(DriveError::Corrupt(digests)) => {
                    quarantined(&self.store, &digests)?;
                    continue;
                }
                other => other.map_err(AppError::Drive)?,
            };
            ledger.remember(db.take_rows());
            fault_of(&driven.hold)?;
            let executed = driven.executed.iter();
            let failures: BTreeSet<String> = driven
                .failures
                .iter()
                .filter_map(|(_, failure)| match failure {
                    Failure::Transient(what)
                    | Failure::Fatal { what, .. }
                    | Failure::Absent { what, .. }
                    | Failure::Money { what, .. } => Some(what.clone()),
                    Failure::Cancelled => None,
                })
                .collect();
            return Ok(Asked {
                value: driven.value,
                models: now.take(),
                missing: driven.hold.jobs().len(),
                executed: executed.map(|(kind, n)| (kind.to_string(), *n)).collect(),
                failures: failures.into_iter().collect(),
                statement: Some(self.service.statement()).filter(|s| !s.models.is_empty()),
                stopped: driven.stopped,
            });
        }
    }

    fn follow(&self, models: &mut [Answerer]) {
        for (name, revision) in self.service.revisions() {
            if let Some(model) = models.iter_mut().find(|model| model.name == name) {
                model.revision = revision;
            }
        }
    }
}

type Found = (Vec<Answerer>, Arc<Models>, Arc<Store>);

fn of_recordings(dir: &Path, replays: &[PathBuf]) -> Result<Found, AppError> {
    let recorded = replays.iter().map(|path| Ok(Arc::new(Replay::read(path)?)));
    let recorded: Vec<Arc<Replay>> = recorded.collect::<Result<_, AppError>>()?;
    let models = recorded.iter().map(|replay| {
        let name = replay.revision.split('@').next().unwrap_or_default();
        Answerer {
            name: name.to_string(),
            revision: replay.revision.clone(),
            sampling: replay.sampling.clone(),
            system: replay.system.clone(),
            continues: false,
        }
    });
    let models = models.collect();
    let store = Arc::new(store_to_fill(dir)?);
    let notes = Arc::new(StoreNotes(store.clone()));
    let service = Arc::new(Models::new(Vec::new(), recorded, None, notes)?);
    Ok((models, service, store))
}

fn of_project(dir: &Path, whom: &Whom) -> Result<Found, AppError> {
    if !dir.join(config::FILE).exists() {
        return Err(AppError::Input(format!(
            "there is no model to ask\n  help: `--replay FILE` has recorded replies to the questions as they are printed; or name models in {}",
            config::FILE
        )));
    }
    let app = App::open_to_run(dir)?;
    let mut answering = app.answering(&whom.models)?;
    // Calibration models edit functions: there is nothing to edit here.
    answering.retain(|one| one.spec.answers.asked().is_some());
    let models = answerers(&answering);
    if models.is_empty() {
        return Err(AppError::Input(
            "no model of this project answers questions: calibration models only edit functions"
                .into(),
        ));
    }
    let options = Options {
        max_cost: whom.max_cost,
        environment: whom.environment,
        ..Options::default()
    };
    let service = app.asks(&answering, &options)?;
    Ok((models, service, app.store.clone()))
}

fn answerers(answering: &[Answering]) -> Vec<Answerer> {
    let one = |one: &Answering| {
        let (revision, sampling, system) = one.spec.answers.asked()?;
        let api = one.remote.as_ref().map(|remote| remote.shape.api);
        Some(Answerer {
            name: one.spec.name.clone(),
            revision: revision.to_string(),
            sampling: sampling.clone(),
            system: system.to_string(),
            continues: api == Some(Api::OpenaiCompletions),
        })
    };
    answering.iter().filter_map(one).collect()
}

/// Lists the outputs that these jobs have, each under its id, as `root` of what stays in the store;
/// what was listed there before stays too.
///
/// # Errors
/// Those of the store.
pub fn keep(
    store: &Store,
    root: &str,
    jobs: impl Iterator<Item = (String, Job)>,
) -> Result<(), AppError> {
    let reader: Reader = store.reader()?;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    if let Some(root) = reader.root(root)? {
        for entry in Manifest::load(&reader, root)?.entries()? {
            entries.insert(entry.id.clone(), entry);
        }
    }
    for (id, job) in jobs {
        let key = job.key();
        if let Some(output) = reader.output(&key)? {
            entries.insert(id.clone(), Entry { id, key, output });
        }
    }
    store.put_manifest(root, &Manifest::build(entries.into_values())?)?;
    Ok(())
}

/// Refuses what a command that only looks cannot tell: damaged blobs and faults.
///
/// # Errors
/// Those.
pub fn usable(hold: &Hold) -> Result<(), AppError> {
    if let Some(digest) = hold.corrupt_blobs().first() {
        return Err(lost(
            digest,
            "`everbench store verify` says what else is damaged",
        ));
    }
    fault_of(hold)
}
