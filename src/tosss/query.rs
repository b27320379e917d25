//! TOSSS as queries on the engine, each tracked by itself: what one fix gives, what is asked about one
//! pair, what one model chose, all answers, and the tables. So a new fix is read alone, a new pair asks
//! only its own questions, a new model only its own, and a reply that arrives is read once.
//!
//! What mining gave and what a model answered to all that is asked are also remembered from one process
//! to the next, under everything that they depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::Arm;
use super::answer::{Outcome, read};
use super::bench::{Answers, Report, baselines, report};
use super::change::Change;
use super::debian::Patch;
use super::jobs::{change, patches};
use super::pair::{Limits, Mined, Pair, pairs};
use super::question::{Order, question};
use super::record::Fix;
use super::score::Settings;
use crate::ask::{Answerer, COMPLETION, Reply};
use crate::digest::Digest;
use crate::engine::{Db, EngineDb, Hold, fold};
use crate::stats::StatsError;

/// A fix as it is mined.
#[salsa::interned]
pub struct FixArg<'db> {
    /// It.
    #[returns(ref)]
    pub fix: Fix,
    /// What it may change.
    #[returns(copy)]
    pub limits: Limits,
    /// Bounds the search for moved files.
    #[returns(copy)]
    pub renames: u32,
}

/// The pairs of one commit.
#[salsa::tracked(returns(clone))]
pub fn fix_pairs<'db>(db: &'db dyn Db, arg: FixArg<'db>) -> Result<Arc<Mined>, Hold> {
    let (fix, limits) = (arg.fix(db), arg.limits(db));
    let output = db.demand(&change(&fix.repository, &fix.commit, arg.renames(db)))?;
    let text = serde_json::to_vec(fix).expect("texts are JSON");
    let key = row_key(db, "pairs", &[b"commit", &output.0, &text, &json(&limits)]);
    let mined = remembered(db, key, || {
        let change = Change::decode(&db.blob(output)?).map_err(|e| unreadable(&e))?;
        pairs(fix, &change, &limits, |d| db.blob(d))
    })?;
    Ok(Arc::new(mined))
}

/// A Debian source package as it is mined.
#[salsa::interned]
pub struct PackageArg<'db> {
    /// Its name.
    #[returns(ref)]
    pub name: String,
    /// Its version.
    #[returns(ref)]
    pub version: String,
    /// What a fix may change.
    #[returns(copy)]
    pub limits: Limits,
}

/// The pairs of all patches of one source package.
#[salsa::tracked(returns(clone))]
pub fn package_pairs<'db>(db: &'db dyn Db, arg: PackageArg<'db>) -> Result<Arc<Mined>, Hold> {
    let (name, version, limits) = (arg.name(db), arg.version(db), arg.limits(db));
    let output = db.demand(&patches(name, version))?;
    let parts: [&[u8]; 5] = [
        b"package",
        &output.0,
        name.as_bytes(),
        version.as_bytes(),
        &json(&limits),
    ];
    let mined = remembered(db, row_key(db, "pairs", &parts), || {
        let bytes = db.blob(output)?;
        let all: Vec<Patch> = serde_json::from_slice(&bytes).map_err(|e| unreadable(&e))?;
        let mut parts = Vec::new();
        for patch in &all {
            for fix in patch.fixes(&format!("{name} {version}")) {
                parts.push(pairs(&fix, &patch.change, &limits, |d| db.blob(d)));
            }
        }
        Ok(Mined::join(&fold(parts)?))
    })?;
    Ok(Arc::new(mined))
}

/// A pair that is asked.
#[salsa::interned]
pub struct PairArg<'db> {
    /// It.
    #[returns(ref)]
    pub pair: Pair,
}

/// A model that is asked.
#[salsa::interned]
pub struct AnswererArg<'db> {
    /// It.
    #[returns(ref)]
    pub model: Answerer,
}

/// What is asked about a pair, whoever is asked.
#[salsa::tracked(returns(clone))]
pub fn asked<'db>(
    db: &'db dyn Db,
    pair: PairArg<'db>,
    arm: Arm,
    order: Order,
    seed: u64,
) -> Arc<str> {
    question(pair.pair(db), arm, seed, order).text.into()
}

/// What a model chose for one pair.
#[salsa::tracked(returns(clone))]
pub fn chosen<'db>(
    db: &'db dyn Db,
    pair: PairArg<'db>,
    arm: Arm,
    order: Order,
    seed: u64,
    model: AnswererArg<'db>,
) -> Result<Outcome, Hold> {
    let text = asked(db, pair, arm, order, seed);
    let output = db.demand(&model.model(db).request(text, 0).to_job(COMPLETION))?;
    // Bytes that are no reply are of another version: that is no choice either.
    let reply = Reply::decode(&db.blob(output)?);
    Ok(reply.map_or(Outcome::Unparsable, |reply| read(&reply)))
}

/// All that is asked: which pairs, of whom, how.
#[salsa::interned]
pub struct Board<'db> {
    /// The pairs.
    #[returns(ref)]
    pub pairs: Arc<Vec<Pair>>,
    /// Who is asked.
    #[returns(ref)]
    pub models: Vec<Answerer>,
    /// In which orders every pair is asked.
    #[returns(ref)]
    pub orders: Vec<Order>,
    /// Of positions and of the coin.
    #[returns(copy)]
    pub seed: u64,
}

/// The questions to a model: arms and orders, in one order of both.
pub fn questions(orders: &[Order]) -> impl Iterator<Item = (Arm, Order)> {
    let arms = Arm::ALL.into_iter();
    arms.flat_map(move |arm| orders.iter().map(move |order| (arm, *order)))
}

/// What one model answered to all pairs in one arm and order, as far as it is known.
#[salsa::tracked(returns(clone))]
fn column<'db>(
    db: &'db dyn Db,
    board: Board<'db>,
    model: AnswererArg<'db>,
    arm: Arm,
    order: Order,
) -> (Arc<Vec<Option<Outcome>>>, Hold) {
    let (pairs, seed) = (board.pairs(db), board.seed(db));
    let how = json(&(model.model(db), arm, order, seed));
    let digests: Vec<[u8; 32]> = pairs.iter().map(|pair| pair.digest().0).collect();
    let key = row_key(db, "answers", &[&how, digests.as_flattened()]);
    if let Some(bytes) = db.recall(key)
        && let Ok(known) = serde_json::from_slice::<Vec<Outcome>>(&bytes)
        && known.len() == pairs.len()
    {
        return (
            Arc::new(known.into_iter().map(Some).collect()),
            Hold::default(),
        );
    }
    let mut hold = Hold::default();
    let of = |pair: &Pair| {
        let pair = PairArg::new(db, pair.clone());
        match chosen(db, pair, arm, order, seed, model) {
            Ok(outcome) => Some(outcome),
            Err(missing) => {
                hold.merge(&missing);
                None
            }
        }
    };
    let outcomes: Vec<Option<Outcome>> = pairs.iter().map(of).collect();
    if outcomes.iter().all(Option::is_some) {
        let whole: Vec<Outcome> = outcomes.iter().copied().flatten().collect();
        db.remember(key, json(&whole));
    }
    (Arc::new(outcomes), hold.settle())
}

/// Evaluates what every model answered on all cores, before a sequential query reads it.
pub fn warm(
    db: &EngineDb,
    pairs: &Arc<Vec<Pair>>,
    models: &[Answerer],
    orders: &[Order],
    seed: u64,
) {
    let items: Vec<(&Answerer, Arm, Order)> = models
        .iter()
        .flat_map(|model| questions(orders).map(move |(arm, order)| (model, arm, order)))
        .collect();
    db.warm(&items, |db, (model, arm, order)| {
        let board = Board::new(db, pairs.clone(), models.to_vec(), orders.to_vec(), seed);
        let model = AnswererArg::new(db, (*model).clone());
        column(db, board, model, *arm, *order);
    });
}

/// What models answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Answered {
    /// Of the built-in answerers, and of models that answered everything.
    pub answers: Vec<Answers>,
    /// Questions without an answer yet, by model.
    pub incomplete: BTreeMap<String, usize>,
    /// What is missing.
    pub hold: Hold,
}

/// All answers, as far as they are known.
#[salsa::tracked(returns(clone))]
pub fn answered<'db>(db: &'db dyn Db, board: Board<'db>) -> Arc<Answered> {
    let pairs: Vec<&Pair> = board.pairs(db).iter().collect();
    let both = board.orders(db).len() > 1;
    let mut all = Answered {
        answers: baselines(&pairs, board.seed(db), both),
        incomplete: BTreeMap::new(),
        hold: Hold::default(),
    };
    for model in board.models(db) {
        let arg = AnswererArg::new(db, model.clone());
        let mut own = Vec::new();
        let mut missing = Hold::default();
        for (arm, order) in questions(board.orders(db)) {
            let (outcomes, hold) = column(db, board, arg, arm, order);
            missing.merge(&hold);
            own.push(Answers {
                model: model.name.clone(),
                arm,
                order,
                outcomes: outcomes.to_vec(),
            });
        }
        let missing = missing.settle();
        match missing.is_empty() {
            true => all.answers.extend(own),
            false => {
                let questions = missing.jobs().len();
                all.incomplete.insert(model.name.clone(), questions);
            }
        }
        all.hold.merge(&missing);
    }
    all.hold = all.hold.settle();
    Arc::new(all)
}

/// The tables over all answers.
#[salsa::tracked(returns(clone))]
pub fn tables<'db>(db: &'db dyn Db, board: Board<'db>) -> Result<Arc<Report>, StatsError> {
    let settings = Settings::default();
    let pairs: Vec<&Pair> = board.pairs(db).iter().collect();
    let answered = answered(db, board);
    report(&pairs, &answered.answers, board.seed(db), &settings).map(Arc::new)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}

fn unreadable(error: &serde_json::Error) -> Hold {
    Hold::broken(
        format!("what was mined cannot be read: {error}"),
        "another version of this program wrote it: mine with that one, or in a fresh folder",
    )
}

/// Everything that a remembered value depends on besides the bytes: the code is in it, so that a better
/// reader of functions mines again without asking any repository.
fn row_key(db: &dyn Db, what: &str, parts: &[&[u8]]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("everbench tosss rows v2");
    for part in parts.iter().chain(&[db.code().as_bytes(), what.as_bytes()]) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Digest(*hasher.finalize().as_bytes())
}

fn remembered(
    db: &dyn Db,
    key: Digest,
    compute: impl FnOnce() -> Result<Mined, Hold>,
) -> Result<Mined, Hold> {
    if let Some(bytes) = db.recall(key)
        && let Ok(known) = serde_json::from_slice(&bytes)
    {
        return Ok(known);
    }
    let mined = compute()?;
    db.remember(key, json(&mined));
    Ok(mined)
}

#[cfg(test)]
mod tests;
