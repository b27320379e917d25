//! What an evaluation starts from and what it gives: inputs in a database, and the root query over
//! them.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use super::retract::Retracted;
use crate::ask::Task;
use crate::engine::{Broken, EngineDb, Facts, Failure, Hold};
use crate::exec::models::Statement;
use crate::job::Job;
use crate::lang::QuerySet;
use crate::oss::carry::Carried;
use crate::oss::inputs::{Model, ModelSpec, Origin, Scoring, Settings, Subject};
use crate::oss::leaderboard::{self, RowFacts};
use crate::oss::reads::Remembered;
use crate::oss::upstream::Upstream;
use crate::oss::{baseline, metrics, population};
use crate::store::Reader;
use crate::subject::Manifest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The inputs of one evaluation in a database.
pub struct World {
    /// The database.
    pub db: EngineDb,
    /// In the project's order.
    pub benches: Vec<Bench>,
    /// In the project's order.
    pub models: Vec<Model>,
    /// Which scorings are wanted.
    pub scorings: Vec<Scoring>,
    /// What models are asked to do.
    pub task: &'static Task,
}

/// A subject with what is set for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bench {
    /// See [`Settings`].
    pub settings: Settings,
    /// See [`Subject`].
    pub subject: Subject,
}

/// What an evaluation starts from, before there is a database.
pub(super) struct Plan {
    pub(super) subjects: Vec<SubjectPlan>,
    /// Whether this process runs nothing, and takes the machine to be what it last was.
    pub(super) looks_back: bool,
    pub(super) queries: Arc<QuerySet>,
    pub(super) template: Arc<str>,
    pub(super) seed: u64,
    pub(super) task: &'static Task,
    pub(super) metrics: Arc<Vec<&'static str>>,
    pub(super) models: Vec<Arc<ModelSpec>>,
    pub(super) scorings: Vec<Scoring>,
}

/// What is one subject's own in it.
pub(super) struct SubjectPlan {
    /// Where relative paths of the manifest begin.
    pub(super) manifest_dir: std::path::PathBuf,
    pub(super) manifest: Arc<Manifest>,
    pub(super) origin: Origin,
    pub(super) toolchain: Arc<[u8]>,
    pub(super) libclang: Option<Arc<[u8]>>,
    pub(super) reads: Arc<Remembered>,
    pub(super) carried: Option<Arc<Carried>>,
    pub(super) limit: Option<u32>,
    pub(super) iterations: u32,
}

impl SubjectPlan {
    /// What reports call its source: a version, or a snapshot's digest.
    pub(super) fn commit(&self) -> String {
        match self.origin {
            Origin::Manifest => self.manifest.source.label(),
            Origin::Snapshot(digest) => digest.short(),
        }
    }
}

impl Plan {
    pub(super) fn world(&self, reader: &Reader) -> World {
        self.world_on(Arc::new(reader.clone()))
    }

    /// The boards with what they were measured on.
    pub(super) fn named(&self, boards: Vec<Board>) -> Vec<SubjectBoard> {
        let named = self.subjects.iter().zip(boards);
        named
            .map(|(subject, board)| SubjectBoard {
                manifest: subject.manifest.clone(),
                commit: subject.commit(),
                board,
                carries: subject.carried.is_some(),
                upstream: None,
            })
            .collect()
    }

    /// The inputs in a database over these facts.
    pub(super) fn world_on(&self, facts: Arc<dyn Facts>) -> World {
        let db = EngineDb::new(facts);
        let db = match self.looks_back {
            true => db.looking_back(),
            false => db,
        };
        let benches = self
            .subjects
            .iter()
            .map(|plan| Bench {
                settings: Settings::new(
                    &db,
                    self.queries.clone(),
                    self.template.clone(),
                    plan.limit,
                    plan.iterations,
                    self.seed,
                    self.task,
                    self.metrics.clone(),
                ),
                subject: Subject::builder(
                    plan.manifest.clone(),
                    plan.origin,
                    plan.toolchain.clone(),
                )
                .libclang(plan.libclang.clone())
                .reads(plan.reads.clone())
                .carried(plan.carried.clone())
                .new(&db),
            })
            .collect();
        let models = self
            .models
            .iter()
            .map(|spec| Model::new(&db, spec.clone()))
            .collect();
        World {
            db,
            benches,
            models,
            scorings: self.scorings.clone(),
            task: self.task,
        }
    }
}

/// A row's place on the board.
pub struct RowResult {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The scoring.
    pub scoring: Scoring,
    /// Its facts, unless something is missing.
    pub facts: Option<Arc<RowFacts>>,
    /// The further metrics that were asked for, as far as they are known.
    pub metrics: BTreeMap<&'static str, Arc<metrics::Summary>>,
    /// What it rests on that was taken back; then it has no facts.
    pub retracted: Option<Retracted>,
}

/// What the root query of a run gives.
pub struct Board {
    /// By scoring, then in the project's order.
    pub rows: Vec<RowResult>,
    /// The functions asked.
    pub sample: Option<Arc<Vec<Arc<population::Function>>>>,
    /// The whole population.
    pub population: Option<Arc<population::Population>>,
    /// The unchanged subject's results.
    pub baseline: Option<Arc<baseline::Baseline>>,
    /// Why the unchanged subject cannot be measured at this commit; then there are no rows.
    pub broken: Option<Broken>,
}

/// A subject's board, and what it was measured on.
pub struct SubjectBoard {
    /// The subject.
    pub manifest: Arc<Manifest>,
    /// Which source it was: a version, or a snapshot's digest.
    pub commit: String,
    /// The rows.
    pub board: Board,
    /// Whether iterations of earlier commits may be among theirs.
    pub carries: bool,
    /// How the unchanged subject's tests differ from those of the last complete evaluation of another
    /// tree.
    pub upstream: Option<Upstream>,
}

/// The outcome of a run or of a scoring.
pub struct Evaluation {
    /// In the project's order; at least one.
    pub boards: Vec<SubjectBoard>,
    /// What is still missing, by kind.
    pub missing: BTreeMap<String, u64>,
    /// Why.
    pub failures: Vec<(Job, Failure)>,
    /// Jobs executed, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Jobs whose outputs were there already, by kind.
    pub reused: BTreeMap<String, u64>,
    /// True if it was stopped.
    pub stopped: bool,
    /// The compiler's version line.
    pub compiler: String,
    /// What models over HTTP were asked, and what that cost, if any were.
    pub statement: Option<Statement>,
    /// The database, to ask more of.
    pub world: World,
}

/// The summaries of the metrics that were asked for; what they lack goes to `hold`.
fn further_metrics(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    model: Model,
    hold: &mut Hold,
) -> BTreeMap<&'static str, Arc<metrics::Summary>> {
    let mut found = BTreeMap::new();
    for metric in settings
        .metrics(db)
        .iter()
        .filter_map(|m| metrics::named(m))
    {
        match metrics::summary(db, settings, subject, model, metric) {
            Ok(summary) => {
                found.insert(metric.name, summary);
            }
            Err(h) => hold.merge(&h),
        }
    }
    found
}

/// The root query: the boards of all subjects, and what stands in their way. A subject that is itself
/// broken is set aside.
pub fn boards(
    db: &EngineDb,
    benches: &[Bench],
    models: &[Model],
    scorings: &[Scoring],
) -> (Vec<Board>, Hold) {
    let mut hold = Hold::default();
    let boards = benches
        .iter()
        .map(|bench| {
            let (mut board, h) = board(db, bench.settings, bench.subject, models, scorings);
            let h = h.set_aside();
            board.broken = h.aside().first().cloned();
            if board.broken.is_some() {
                board.rows.clear();
            }
            hold.merge(&h);
            board
        })
        .collect();
    (boards, hold.settle())
}

/// The rows of all models and scorings on one subject.
pub fn board(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) -> (Board, Hold) {
    let mut hold = Hold::default();
    let mut rows = Vec::new();
    let baseline = baseline::baseline(db, settings, subject);
    // Until the plain base is there, and what an extractor says of it, nothing more can be asked
    // for. To evaluate on would only replace what is known of the last revision by "unknown", and
    // with that everything would run again for which the new base says the same as the old one.
    if let Err(h) = population::ground(db, subject) {
        hold.merge(&h);
        if let Err(h) = &baseline {
            hold.merge(h);
        }
        let rows = scorings.iter().flat_map(|scoring| {
            models.iter().map(|model| RowResult {
                spec: model.spec(db).clone(),
                scoring: *scoring,
                facts: None,
                metrics: BTreeMap::new(),
                retracted: None,
            })
        });
        let board = Board {
            rows: rows.collect(),
            sample: None,
            population: None,
            baseline: baseline.ok(),
            broken: None,
        };
        return (board, hold.settle());
    }
    if population::sample(db, settings, subject).is_ok() {
        leaderboard::warm(db, settings, subject, models, scorings);
    }
    for scoring in scorings {
        for model in models {
            let facts = leaderboard::row_facts(db, settings, subject, *model, *scoring);
            if let Err(h) = &facts {
                hold.merge(h);
            }
            rows.push(RowResult {
                spec: model.spec(db).clone(),
                scoring: *scoring,
                facts: facts.ok(),
                metrics: further_metrics(db, settings, subject, *model, &mut hold),
                retracted: None,
            });
        }
    }
    if let Err(h) = &baseline {
        hold.merge(h);
    }
    let board = Board {
        rows,
        sample: population::sample(db, settings, subject).ok(),
        population: population::population(db, settings, subject).ok(),
        baseline: baseline.ok(),
        broken: None,
    };
    (board, hold.settle())
}
