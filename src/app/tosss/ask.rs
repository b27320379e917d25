//! Asking models which side of a pair they prefer. A question is a completion like any other: its key
//! holds the question's text and how the model is asked, so that a new pair asks its own questions
//! only, and a better reader of answers asks nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::{Quarry, nothing_mined};
use crate::app::asking::{self, Answerer, Inquiry, Run, Whom, usable};
use crate::app::{AppError, Statement, TOOL, store_to_look};
use crate::ask::{self, Reply, Request, Sampling};
use crate::cancel::Cancel;
use crate::engine::{Db, EngineDb, Hold, Ledger, Observer};
use crate::job::Job;
use crate::store::StoreLedger;
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
fn job(pair: &Pair, arm: Arm, order: Order, plan: &Plan, model: &Answerer) -> Job {
    let text = question(pair, arm, plan.seed, order).text;
    model.request(text, 0).to_job(ask::COMPLETION)
}

/// Every question to a model, in one order of arms and orders.
fn questions<'a>(plan: &'a Plan) -> impl Iterator<Item = (Arm, Order)> + use<'a> {
    let arms = Arm::ALL.into_iter();
    arms.flat_map(|arm| plan.orders().iter().map(move |order| (arm, *order)))
}

/// What a model answered, as far as it is known, and what is missing: a pure function of the facts.
fn answers(db: &dyn Db, pairs: &[Pair], model: &Answerer, plan: &Plan) -> (Vec<Answers>, Hold) {
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

fn evaluated(db: &dyn Db, quarry: &Quarry, asked: &[Answerer], plan: &Plan) -> (Evaluated, Hold) {
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
    fn answered(self, asked: &[Answerer], plan: &Plan) -> Answered {
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
    usable(&hold)?;
    StoreLedger::new(store, &reader, TOOL).remember(db.take_rows());
    Ok(value.answered(&asked, plan))
}

impl Quarry {
    /// Notes models that are asked, in place of what is noted under their names.
    fn note(&mut self, asked: &[Answerer]) {
        for model in asked {
            self.asked.retain(|known| known.name != model.name);
            self.asked.push(model.clone());
        }
        self.asked.sort_by(|a, b| a.name.cmp(&b.name));
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
    let inquiry = Inquiry::open(dir, whom)?;
    // Noted first, so that what is answered before an end belongs to somebody.
    quarry.note(&inquiry.models);
    quarry.write(dir)?;
    let run = Run { cancel, observer };
    let asked = inquiry.run(run, |_| {
        |db: &EngineDb, models: &[Answerer]| evaluated(db, &quarry, models, plan)
    })?;
    quarry.note(&asked.models);
    quarry.write(dir)?;
    // With those that were asked before.
    let reader = inquiry.store.reader()?;
    let db = EngineDb::new(Arc::new(reader));
    let (value, hold) = evaluated(&db, &quarry, &quarry.asked, plan);
    usable(&hold)?;
    let pairs = &asked.value.pairs;
    let jobs = quarry.asked.iter().flat_map(|model| {
        questions(plan).flat_map(move |(arm, order)| {
            let jobs = pairs.iter();
            jobs.map(move |pair| job(pair, arm, order, plan, model))
        })
    });
    let named = jobs.map(|job| (format!("tosss/answer/{}", job.key()), job));
    asking::keep(&inquiry.store, ROOT, named)?;
    let mut answered = value.answered(&quarry.asked, plan);
    answered.executed = asked.executed;
    answered.failures = asked.failures;
    answered.statement = asked.statement;
    Ok(answered)
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
