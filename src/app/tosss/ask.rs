//! Asking models which side of a pair they prefer. A question is a completion like any other: its key
//! holds the question's text and how the model is asked, so that a new pair asks its own questions
//! only, and a better reader of answers asks nobody.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Quarry, nothing_mined};
use crate::app::error::fault_of;
use crate::app::models::StoreNotes;
use crate::app::project::{Options, cores};
use crate::app::stored::store_to_fill;
use crate::app::{App, AppError, Environment, Statement, TOOL, store_to_look};
use crate::ask::{self, Reply, Request, Sampling};
use crate::cancel::Cancel;
use crate::config;
use crate::engine::{Db, Driver, EngineDb, Failure, Hold, Ledger, Observer, Registry};
use crate::exec::answer::Replay;
use crate::exec::models::Models;
use crate::job::Job;
use crate::store::{Entry, Manifest, Store, StoreLedger};
use crate::tosss::Arm;
use crate::tosss::answer::{Outcome, read};
use crate::tosss::bench::{Answers, baselines, sample};
use crate::tosss::pair::{Mined, Pair};
use crate::tosss::question::{Order, question};

/// The root of what answers rest on.
const ROOT: &str = "tosss/asked";

/// Which pairs are asked, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Pairs of each group of languages.
    pub limit: usize,
    /// Of the sample, of positions and of the coin.
    pub seed: u64,
    /// Whether every pair is asked in both orders.
    pub both_orders: bool,
    /// Only pairs that were published on this day or later.
    pub since: Option<String>,
    /// Only pairs of fixes that change one function.
    pub single_function: bool,
}

impl Plan {
    fn orders(&self) -> &'static [Order] {
        match self.both_orders {
            true => &[Order::Drawn, Order::Reversed],
            false => &[Order::Drawn],
        }
    }

    /// The pairs that are asked.
    fn pairs(&self, mined: Mined) -> Vec<Pair> {
        let wanted = |pair: &Pair| {
            let published = pair.vulnerability.published.as_deref();
            let young = |since: &String| published.is_some_and(|day| day >= since.as_str());
            self.since.as_ref().is_none_or(young)
                && (!self.single_function || pair.functions_in_fix == 1)
        };
        let pairs: Vec<Pair> = mined.pairs.into_iter().filter(wanted).collect();
        let asked = sample(&pairs, self.limit, self.seed);
        asked.into_iter().cloned().collect()
    }
}

/// A model as it is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// As tables call it.
    pub name: String,
    /// The model and its revision, as keys have it.
    pub revision: String,
    /// How it samples.
    pub sampling: Sampling,
    /// Its own system text; may be empty.
    pub system: String,
}

/// Answers to pairs, the built-in answerers first.
pub struct Answered {
    /// The pairs that are asked.
    pub pairs: Vec<Pair>,
    /// Of the built-in answerers, and of models that answered everything.
    pub answers: Vec<Answers>,
    /// Questions without an answer yet, by model.
    pub incomplete: BTreeMap<String, usize>,
    /// Jobs of mining that are missing.
    pub unmined: usize,
    /// Jobs that were run, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Why questions have no answer, each reason once.
    pub failures: Vec<String>,
    /// What models over HTTP were asked, and what that cost.
    pub statement: Option<Statement>,
}

/// The job of one question.
fn job(pair: &Pair, arm: Arm, order: Order, plan: &Plan, model: &Asked) -> Job {
    let request = Request {
        system: model.system.as_str().into(),
        user: question(pair, arm, plan.seed, order).text.into(),
        model: model.revision.clone(),
        sampling: model.sampling.clone(),
        sample: 0,
    };
    request.to_job(ask::COMPLETION)
}

/// Every question to a model, in one order of arms and orders.
fn questions<'a>(plan: &'a Plan) -> impl Iterator<Item = (Arm, Order)> + use<'a> {
    let arms = Arm::ALL.into_iter();
    arms.flat_map(|arm| plan.orders().iter().map(move |order| (arm, *order)))
}

/// What a model answered, as far as it is known, and what is missing: a pure function of the facts.
fn answers(db: &dyn Db, pairs: &[Pair], model: &Asked, plan: &Plan) -> (Vec<Answers>, Hold) {
    let mut all = Vec::new();
    let mut hold = Hold::default();
    for (arm, order) in questions(plan) {
        let mut outcome = |pair: &Pair| {
            let stored = db.demand(&job(pair, arm, order, plan, model));
            match stored.and_then(|output| db.blob(output)) {
                // Bytes that are no reply are of another version: that is no choice either.
                Ok(bytes) => Some(Reply::decode(&bytes).map_or(Outcome::Unparsable, |r| read(&r))),
                Err(missing) => {
                    hold.merge(&missing);
                    None
                }
            }
        };
        all.push(Answers {
            model: model.name.clone(),
            arm,
            order,
            outcomes: pairs.iter().map(&mut outcome).collect(),
        });
    }
    (all, hold.settle())
}

/// What the root query of asking gives.
struct Evaluated {
    pairs: Vec<Pair>,
    answers: Vec<(Vec<Answers>, usize)>,
    unmined: usize,
}

fn evaluated(db: &dyn Db, quarry: &Quarry, asked: &[Asked], plan: &Plan) -> (Evaluated, Hold) {
    let (mined, hold) = quarry.mined(db);
    let (mined, unmined) = quarry.told(mined, &hold);
    let mut all = Hold::default();
    let pairs = plan.pairs(mined);
    let mut each = Vec::new();
    for model in asked {
        let (answers, hold) = answers(db, &pairs, model, plan);
        each.push((answers, hold.jobs().len()));
        all.merge(&hold);
    }
    let value = Evaluated {
        pairs,
        answers: each,
        unmined,
    };
    (value, all.settle())
}

impl Evaluated {
    fn answered(self, asked: &[Asked], plan: &Plan) -> Answered {
        let pairs: Vec<&Pair> = self.pairs.iter().collect();
        let mut answers = baselines(&pairs, plan.seed, plan.both_orders);
        let mut incomplete = BTreeMap::new();
        for (model, (own, missing)) in asked.iter().zip(self.answers) {
            match missing {
                0 => answers.extend(own),
                missing => {
                    incomplete.insert(model.name.clone(), missing);
                }
            }
        }
        Answered {
            pairs: self.pairs,
            answers,
            incomplete,
            unmined: self.unmined,
            executed: BTreeMap::new(),
            failures: Vec::new(),
            statement: None,
        }
    }
}

/// Scores from the store alone: the built-in answerers and every model that was asked here.
///
/// # Errors
/// Nothing was mined; a store that cannot be used.
pub fn answered(dir: &Path, plan: &Plan) -> Result<Answered, AppError> {
    let quarry = Quarry::read(dir)?.ok_or_else(|| nothing_mined(dir))?;
    let store = Arc::new(store_to_look(dir)?);
    let reader = store.reader()?;
    let db = EngineDb::new(Arc::new(reader.clone()));
    let asked = quarry.asked.clone();
    let (value, hold) = evaluated(&db, &quarry, &asked, plan);
    whole(&hold)?;
    StoreLedger::new(store, &reader, TOOL).remember(db.take_rows());
    Ok(value.answered(&asked, plan))
}

fn whole(hold: &Hold) -> Result<(), AppError> {
    if let Some(digest) = hold.corrupt_blobs().first() {
        return Err(AppError::Environment(format!(
            "blob {digest} is damaged or gone from the store\n  help: `everbench store verify` says what else is damaged"
        )));
    }
    fault_of(hold)
}

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

impl Quarry {
    /// Notes models that are asked, in place of what is noted under their names.
    fn note(&mut self, asked: &[Asked]) {
        for model in asked {
            self.asked.retain(|known| known.name != model.name);
            self.asked.push(model.clone());
        }
        self.asked.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// The models that are asked, the service that answers for them, and the store.
struct Answerers {
    asked: Vec<Asked>,
    models: Arc<Models>,
    store: Arc<Store>,
}

impl Answerers {
    fn of_recordings(dir: &Path, replays: &[PathBuf]) -> Result<Answerers, AppError> {
        let recorded = replays.iter().map(|path| Ok(Arc::new(Replay::read(path)?)));
        let recorded: Vec<Arc<Replay>> = recorded.collect::<Result<_, AppError>>()?;
        let asked = recorded.iter().map(|replay| Asked {
            name: replay
                .revision
                .split('@')
                .next()
                .unwrap_or_default()
                .to_string(),
            revision: replay.revision.clone(),
            sampling: replay.sampling.clone(),
            system: replay.system.clone(),
        });
        let asked = asked.collect();
        let store = Arc::new(store_to_fill(dir)?);
        let notes = Arc::new(StoreNotes(store.clone()));
        Ok(Answerers {
            asked,
            models: Arc::new(Models::new(Vec::new(), recorded, None, notes)?),
            store,
        })
    }

    fn of_project(dir: &Path, whom: &Whom) -> Result<Answerers, AppError> {
        if !dir.join(config::FILE).exists() {
            return Err(AppError::Input(format!(
                "there is no model to ask\n  help: `--replay FILE` has recorded replies to the output of `everbench tosss prompts`; or name models in {}",
                config::FILE
            )));
        }
        let app = App::open_to_run(dir)?;
        let mut answering = app.answering(&whom.models)?;
        // Calibration models edit functions: there is nothing to edit here.
        answering.retain(|one| one.spec.answers.asked().is_some());
        let asked = answering.iter().filter_map(|one| {
            let (revision, sampling, system) = one.spec.answers.asked()?;
            Some(Asked {
                name: one.spec.name.clone(),
                revision: revision.to_string(),
                sampling: sampling.clone(),
                system: system.to_string(),
            })
        });
        let asked: Vec<Asked> = asked.collect();
        if asked.is_empty() {
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
        Ok(Answerers {
            asked,
            models: app.asks(&answering, &options)?,
            store: app.store.clone(),
        })
    }
}

/// Asks models what is missing, and gives all answers.
///
/// # Errors
/// Nothing was mined, no model to ask, a store that cannot be used.
pub fn ask(
    dir: &Path,
    plan: &Plan,
    whom: &Whom,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<Answered, AppError> {
    let mut quarry = Quarry::read(dir)?.ok_or_else(|| nothing_mined(dir))?;
    let Answerers {
        asked,
        models,
        store,
    } = match whom.replays.is_empty() {
        true => Answerers::of_project(dir, whom)?,
        false => Answerers::of_recordings(dir, &whom.replays)?,
    };
    // Noted first, so that what is answered before an end belongs to somebody.
    quarry.note(&asked);
    quarry.write(dir)?;
    let mut registry = Registry::default();
    registry.add_service(ask::COMPLETION, models.clone());
    let reader = store.reader()?;
    let mut db = EngineDb::new(Arc::new(reader.clone()));
    let ledger = StoreLedger::new(store.clone(), &reader, TOOL);
    let driver = Driver {
        registry: &registry,
        ledger: &ledger,
        cores: cores(),
        cancel: cancel.clone(),
    };
    // Which revision answers under a name may be known only when it does.
    let now = RefCell::new(asked);
    let mut adjust = |_: &mut EngineDb| {
        for (name, revision) in models.revisions() {
            let mut asked = now.borrow_mut();
            if let Some(model) = asked.iter_mut().find(|model| model.name == name) {
                model.revision = revision;
            }
        }
    };
    let driven = driver
        .drive_adjusting(&mut db, observer, &mut adjust, |db| {
            evaluated(db, &quarry, &now.borrow(), plan)
        })
        .map_err(AppError::Drive)?;
    ledger.remember(db.take_rows());
    whole(&driven.hold)?;
    quarry.note(&now.into_inner());
    quarry.write(dir)?;
    list(&store, &driven.value.pairs, &quarry.asked, plan)?;
    let executed = driven.executed.iter();
    let executed = executed.map(|(kind, n)| (kind.to_string(), *n)).collect();
    let failures: BTreeSet<String> = driven
        .failures
        .iter()
        .filter_map(|(_, failure)| match failure {
            Failure::Transient(what) | Failure::Fatal { what, .. } => Some(what.clone()),
            _ => None,
        })
        .collect();
    // With those that were asked before.
    let reader = store.reader()?;
    let db = EngineDb::new(Arc::new(reader));
    let (value, hold) = evaluated(&db, &quarry, &quarry.asked, plan);
    whole(&hold)?;
    let mut answered = value.answered(&quarry.asked, plan);
    answered.executed = executed;
    answered.failures = failures.into_iter().collect();
    answered.statement = Some(models.statement()).filter(|s| !s.models.is_empty());
    Ok(answered)
}

/// Adds the answers to what stays in the store, whoever was asked before.
fn list(store: &Store, pairs: &[Pair], asked: &[Asked], plan: &Plan) -> Result<(), AppError> {
    let reader = store.reader()?;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    if let Some(root) = reader.root(ROOT)? {
        for entry in Manifest::load(&reader, root)?.entries()? {
            entries.insert(entry.id.clone(), entry);
        }
    }
    for model in asked {
        for (arm, order) in questions(plan) {
            for pair in pairs {
                let key = job(pair, arm, order, plan, model).key();
                if let Some(output) = reader.output(&key)? {
                    let id = format!("tosss/answer/{key}");
                    entries.insert(id.clone(), Entry { id, key, output });
                }
            }
        }
    }
    store.put_manifest(ROOT, &Manifest::build(entries.into_values())?)?;
    Ok(())
}

/// The questions, one JSON object a line as `everbench prompts` prints them: id, system, user.
///
/// # Errors
/// Nothing was mined; a store that cannot be used.
pub fn prompts(dir: &Path, plan: &Plan) -> Result<String, AppError> {
    let answered = answered(dir, plan)?;
    let mut seen = BTreeSet::new();
    let mut out = String::new();
    for pair in &answered.pairs {
        for (arm, order) in questions(plan) {
            let request = Request {
                system: "".into(),
                user: question(pair, arm, plan.seed, order).text.into(),
                model: String::new(),
                sampling: Sampling::default(),
                sample: 0,
            };
            let id = request.prompt_digest();
            if seen.insert(id) {
                let line = serde_json::json!({ "id": id, "system": &*request.system, "user": &*request.user });
                out.push_str(&line.to_string());
                out.push('\n');
            }
        }
    }
    Ok(out)
}
