//! Asking models which side of a pair they prefer. A question is a completion like any other: its key
//! holds the question's text and how the model is asked, so that a new pair asks its own questions
//! only, and a better reader of answers asks nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use super::{Quarry, nothing_mined};
use crate::app::asking::{self, Answerer, Inquiry, Run, Whom, usable};
use crate::app::{AppError, Statement, TOOL, store_to_look};
use crate::ask::{self, Request, Sampling};
use crate::cancel::Cancel;
use crate::contamination::findings::{Findings, Known, Why, fingerprint};
use crate::engine::{EngineDb, Ledger, Observer};
use crate::store::StoreLedger;
use crate::tosss::bench::{Answers, Report, sample, scores_without};
use crate::tosss::pair::{Mined, Pair};
use crate::tosss::query::{self, Board, questions};
use crate::tosss::question::{Order, question};
use crate::tosss::score::{Scores, Settings};

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

/// Scores, and what they lack.
pub struct Answered {
    /// The pairs that are asked.
    pub pairs: Arc<Vec<Pair>>,
    /// The tables, over the built-in answerers and models that answered everything; nothing without
    /// a pair.
    pub report: Option<Arc<Report>>,
    /// The same without what models know, if that was asked for.
    pub clean: Option<Clean>,
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

/// Scores without what models were found to know.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Clean {
    /// Over the pairs that are left to each model.
    #[serde(flatten)]
    pub scores: Scores,
    /// What is left out, by model; the built-in answerers know nothing.
    pub left_out: BTreeMap<String, LeftOut>,
}

/// What is left out for one model.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LeftOut {
    /// Pairs that are asked.
    pub asked: usize,
    /// Of these, those of code that was tested.
    pub tested: usize,
    /// Those that are left out, by reason: `repository`, `named`.
    pub pairs: BTreeMap<&'static str, usize>,
}

/// Scores without the pairs of which a model knows the repository, or a side.
fn clean(
    pairs: &[Pair],
    answers: &[Answers],
    models: &[Answerer],
    findings: &Findings,
    seed: u64,
) -> Result<Clean, AppError> {
    let prints = pairs.par_iter().map(|pair| {
        let print = |text: &str| fingerprint(pair.language, text.as_bytes());
        [print(&pair.before), print(&pair.after)]
    });
    let prints: Vec<[u64; 2]> = prints.collect();
    let (mut told, mut gone) = (BTreeMap::new(), BTreeMap::new());
    for model in models {
        let known = findings.of(&model.revision);
        let why = |(pair, sides): (&Pair, &[u64; 2])| -> Option<Why<'_>> {
            let known = known?;
            let either = sides.iter().find_map(|side| known.function(*side));
            either.or_else(|| known.repository(&pair.repository))
        };
        let why: Vec<Option<Why<'_>>> = pairs.iter().zip(&prints).map(why).collect();
        let tested = |(why, sides): &(&Option<Why<'_>>, &[u64; 2])| {
            let is = |known: Known<'_>| sides.iter().any(|side| known.is_tested(*side));
            why.is_some() || known.is_some_and(is)
        };
        let mut left_out = LeftOut {
            asked: pairs.len(),
            tested: why.iter().zip(&prints).filter(tested).count(),
            pairs: BTreeMap::new(),
        };
        for why in why.iter().flatten() {
            *left_out.pairs.entry(why.name()).or_default() += 1;
        }
        told.insert(model.name.clone(), left_out);
        gone.insert(
            model.name.clone(),
            why.iter().map(Option::is_some).collect(),
        );
    }
    let all: Vec<&Pair> = pairs.iter().collect();
    let scores = scores_without(&all, answers, &gone, seed, &Settings::default());
    Ok(Clean {
        scores: scores.map_err(|e| AppError::Input(e.to_string()))?,
        left_out: told,
    })
}

/// The pairs that are asked, and how many jobs of mining are missing.
fn pairs_asked(
    db: &EngineDb,
    quarry: &Quarry,
    plan: &Plan,
) -> Result<(Arc<Vec<Pair>>, usize), AppError> {
    let (parts, hold) = quarry.mined(db);
    usable(&hold)?;
    let (mined, unmined) = quarry.told(&parts, &hold);
    Ok((Arc::new(plan.pairs(mined)), unmined))
}

fn answers(
    db: &EngineDb,
    pairs: &Arc<Vec<Pair>>,
    models: &[Answerer],
    plan: &Plan,
) -> Arc<query::Answered> {
    query::warm(db, pairs, models, plan.orders(), plan.seed);
    query::answered(db, board(db, pairs, models, plan))
}

fn board<'db>(
    db: &'db EngineDb,
    pairs: &Arc<Vec<Pair>>,
    models: &[Answerer],
    plan: &Plan,
) -> Board<'db> {
    let orders = plan.orders().to_vec();
    Board::new(db, pairs.clone(), models.to_vec(), orders, plan.seed)
}

/// Everything that the store holds of answers.
fn scored(
    db: &EngineDb,
    quarry: &Quarry,
    plan: &Plan,
    findings: Option<&Findings>,
) -> Result<Answered, AppError> {
    let (pairs, unmined) = pairs_asked(db, quarry, plan)?;
    let answered = answers(db, &pairs, &quarry.asked, plan);
    usable(&answered.hold)?;
    let report = match pairs.is_empty() {
        true => None,
        false => {
            let board = board(db, &pairs, &quarry.asked, plan);
            let report = query::tables(db, board);
            Some(report.map_err(|e| AppError::Input(e.to_string()))?)
        }
    };
    let clean = match findings.filter(|_| report.is_some()) {
        Some(findings) => {
            let (models, seed) = (&quarry.asked, plan.seed);
            Some(clean(&pairs, &answered.answers, models, findings, seed)?)
        }
        None => None,
    };
    Ok(Answered {
        pairs,
        report,
        clean,
        incomplete: answered.incomplete.clone(),
        unmined,
        executed: BTreeMap::new(),
        failures: Vec::new(),
        statement: None,
    })
}

/// Scores from the store alone: the built-in answerers and every model that was asked here. With
/// findings also without what models know.
///
/// # Errors
/// Nothing was mined; a store that cannot be used.
pub fn answered(
    dir: &Path,
    plan: &Plan,
    findings: Option<&Findings>,
) -> Result<Answered, AppError> {
    let quarry = Quarry::read(dir)?.ok_or_else(|| nothing_mined(dir))?;
    let store = Arc::new(store_to_look(dir)?);
    let reader = store.reader()?;
    let db = EngineDb::new(Arc::new(reader.clone()));
    let answered = scored(&db, &quarry, plan, findings)?;
    StoreLedger::new(store, &reader, TOOL).remember(db.take_rows());
    Ok(answered)
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
    let looked = EngineDb::new(Arc::new(inquiry.store.reader()?));
    let (pairs, _) = pairs_asked(&looked, &quarry, plan)?;
    let run = Run { cancel, observer };
    let asked = inquiry.run(run, |_| {
        |db: &EngineDb, models: &[Answerer]| {
            let answered = answers(db, &pairs, models, plan);
            ((), answered.hold.clone())
        }
    })?;
    quarry.note(&asked.models);
    quarry.write(dir)?;
    let jobs = quarry.asked.iter().flat_map(|model| {
        let pairs = &pairs;
        questions(plan.orders()).flat_map(move |(arm, order)| {
            pairs.iter().map(move |pair| {
                let text = question(pair, arm, plan.seed, order).text;
                model.request(text, 0).to_job(ask::COMPLETION)
            })
        })
    });
    let named = jobs.map(|job| (format!("tosss/answer/{}", job.key()), job));
    asking::keep(&inquiry.store, ROOT, named)?;
    // With those that were asked before.
    let reader = inquiry.store.reader()?;
    let db = EngineDb::new(Arc::new(reader.clone()));
    let answered = scored(&db, &quarry, plan, None)?;
    StoreLedger::new(inquiry.store.clone(), &reader, TOOL).remember(db.take_rows());
    Ok(Answered {
        executed: asked.executed,
        failures: asked.failures,
        statement: asked.statement,
        ..answered
    })
}

/// The questions, one JSON object a line as `everbench prompts` prints them: id, system, user.
///
/// # Errors
/// Nothing was mined; a store that cannot be used.
pub fn prompts(dir: &Path, plan: &Plan) -> Result<String, AppError> {
    let quarry = Quarry::read(dir)?.ok_or_else(|| nothing_mined(dir))?;
    let store = store_to_look(dir)?;
    let db = EngineDb::new(Arc::new(store.reader()?));
    let (pairs, _) = pairs_asked(&db, &quarry, plan)?;
    let mut seen = BTreeSet::new();
    let mut out = String::new();
    for pair in pairs.iter() {
        for (arm, order) in questions(plan.orders()) {
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
