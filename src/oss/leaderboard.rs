//! From cases and iterations to rows: what the score needs of a model, and everything a report
//! says beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact;
use super::baseline;
use super::carry;
use super::case::{self, Case, Outcome, PathArg};
use super::compiled;
use super::environment;
use super::inputs::{Model, Scoring, Settings, Subject};
use super::iteration::{self, AlertInfo, Iteration};
use super::jobs;
use super::metrics;
use super::population::{self, FlavourArg, FunctionArg, recalled};
use super::scoring::{self, FunctionResult, IterationResult, RowData};
use super::suite::suite;
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::job::Job;
use crate::logs::Class;
use crate::subject::{Extractor, Flavour};

/// What the score needs of one function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CaseFacts {
    /// What the reply was.
    pub outcome: Outcome,
    /// Whether the subject builds with it.
    pub compiles: bool,
    /// Whether its text differs from the original.
    pub differs: bool,
    /// Changed lines.
    pub changed_lines: u32,
    /// Changed lines after normalising the formatting.
    pub changed_lines_normalised: u32,
}

impl From<&Case> for CaseFacts {
    fn from(case: &Case) -> CaseFacts {
        CaseFacts {
            outcome: case.outcome,
            compiles: case.compiles,
            differs: case.variant.is_some(),
            changed_lines: case.changed_lines,
            changed_lines_normalised: case.changed_lines_normalised,
        }
    }
}

/// All that a model's row is computed from; no penalty and no weight is in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowFacts {
    /// In the order of the sample.
    pub cases: Vec<CaseFacts>,
    /// In order of their index.
    pub iterations: Vec<Iteration>,
}

impl RowFacts {
    /// The iterations that are kept from an earlier commit, by index.
    pub fn stale(&self) -> impl Iterator<Item = u32> {
        let iterations = (0..).zip(&self.iterations);
        iterations
            .filter(|(_, iteration)| iteration.stale.is_some())
            .map(|(i, _)| i)
    }

    /// Whether it is what any process would measure that keeps nothing.
    fn is_measured(&self) -> bool {
        let kept = |i: &Iteration| i.stale.is_some() || i.audited.is_some();
        !self.iterations.iter().any(kept)
    }
}

/// The facts of a model's row.
#[salsa::tracked(returns(clone))]
pub fn row_facts(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Result<Arc<RowFacts>, Hold> {
    if let Some(row) = kept_row(db, settings, subject, model, scoring) {
        return Ok(row);
    }
    let inputs = match row_inputs(db, settings, subject, model, scoring) {
        Ok(inputs) => inputs,
        // Without a baseline nothing can be recalled, but what the cases lack can be asked for.
        Err(mut hold) => {
            if let Err(more) = compute_row(db, settings, subject, model, scoring) {
                hold.merge(&more);
            }
            return Err(hold.settle());
        }
    };
    let row = compute_row(db, settings, subject, model, scoring)?;
    match subject.carried(db) {
        Some(carried) if !row.is_measured() => {
            let inputs = [&inputs[..], &[carried.digest()]].concat();
            population::remember(db, KEPT_ROW, &inputs, &row);
        }
        _ => population::remember(db, "row", &inputs, &row),
    }
    Ok(Arc::new(row))
}

/// As what a row is remembered of which something is kept from an earlier commit.
const KEPT_ROW: &str = "row with kept iterations";

/// The facts of a model's row if an earlier process remembered them: measured ones, or with what
/// may be kept.
#[salsa::tracked(returns(clone))]
pub fn kept_row(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Option<Arc<RowFacts>> {
    let inputs = row_inputs(db, settings, subject, model, scoring).ok()?;
    let measured = population::recall(db, "row", &inputs);
    let row = measured.or_else(|| {
        let carried = subject.carried(db).as_ref()?;
        let inputs = [&inputs[..], &[carried.digest()]].concat();
        population::recall(db, KEPT_ROW, &inputs)
    });
    row.map(Arc::new)
}

/// What a row rests on: the inputs of its row, and what of it is kept from an earlier commit.
fn grounds(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Result<Vec<Digest>, Hold> {
    let mut inputs = row_inputs(db, settings, subject, model, scoring)?.to_vec();
    if let Some(carried) = subject.carried(db) {
        let row = row_facts(db, settings, subject, model, scoring);
        let stale: Option<Vec<u32>> = row.ok().map(|row| row.stale().collect());
        if stale.as_ref().is_none_or(|stale| !stale.is_empty()) {
            let kept = (carried.digest(), stale);
            inputs.push(Digest::of(&artifact::write(&kept)));
        }
    }
    Ok(inputs)
}

/// Everything that a row depends on.
#[salsa::tracked(returns(clone))]
fn row_inputs(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Result<Arc<Vec<Digest>>, Hold> {
    let manifest = subject.rules(db);
    let sample = population::sample_digest(db, settings, subject)?;
    let baseline = baseline::digest(db, settings, subject)?;
    let (tree, _) = population::snapshot(db, subject)?;
    let (base, _) = population::base(db, subject, FlavourArg::Sanitized)?;
    let mut inputs = case::case_inputs(db, settings, subject, model)?;
    let numbers = (
        scoring.name(),
        settings.iterations(db),
        settings.seed(db),
        manifest.scoring.functions_per_iteration,
    );
    inputs.extend([
        sample,
        tree,
        base,
        baseline,
        environment::digest(db, subject)?,
        Digest::of(&manifest.tests_part()),
        Digest::of(&manifest.parser_part()),
        Digest::of(&artifact::write(&numbers)),
    ]);
    if manifest.functions.extractor == Extractor::Libclang {
        inputs.push(compiled::documents(db, subject)?.0);
    }
    Ok(Arc::new(inputs))
}

fn compute_row(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Result<RowFacts, Hold> {
    let sample = population::sample(db, settings, subject)?;
    let cases = fold(sample.iter().map(|f| {
        let case = case::case(
            db,
            settings,
            subject,
            model,
            FunctionArg::new(db, f.clone()),
        )?;
        Ok(CaseFacts::from(&*case))
    }));
    let iterations = fold((0..settings.iterations(db)).map(|i| {
        let iteration = iteration::iteration(db, settings, subject, model, scoring, i)?;
        Ok(Iteration::clone(&iteration))
    }));
    match (cases, iterations) {
        (Ok(cases), Ok(iterations)) => Ok(RowFacts { cases, iterations }),
        (cases, iterations) => {
            let mut hold = cases.err().unwrap_or_default();
            hold.merge(&iterations.err().unwrap_or_default());
            Err(hold.settle())
        }
    }
}

/// The numbers that turn facts into scores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prices {
    /// Points per unique alert.
    pub penalty: f64,
    /// Weights of the parts.
    pub weights: scoring::Weights,
}

/// The rows' facts as the statistics take them. The alerts of all rows share one table, and equal
/// files have equal cluster numbers.
pub fn row_data(
    sample: &[Arc<population::Function>],
    rows: &[(String, Arc<RowFacts>)],
    prices: Prices,
) -> Vec<RowData> {
    let paths: BTreeSet<&str> = sample.iter().map(|f| f.path.as_str()).collect();
    let cluster: BTreeMap<&str, u32> = paths.into_iter().zip(0..).collect();
    let clusters: Vec<u32> = sample.iter().map(|f| cluster[f.path.as_str()]).collect();
    let all: BTreeMap<&String, &AlertInfo> = rows
        .iter()
        .flat_map(|(_, facts)| facts.iterations.iter().flat_map(|i| &i.alerts))
        .collect();
    let number: BTreeMap<&String, u32> = all.keys().copied().zip(0..).collect();
    let alerts: BTreeMap<u32, scoring::Alert> = all
        .iter()
        .map(|(id, info)| {
            (
                number[*id],
                scoring::Alert {
                    leak: info.class == Class::Leak,
                },
            )
        })
        .collect();
    rows.iter()
        .map(|(model, facts)| RowData {
            model: model.clone(),
            functions: clusters
                .iter()
                .zip(&facts.cases)
                .map(|(cluster, case)| FunctionResult {
                    cluster: *cluster,
                    compiles: Some(case.compiles),
                    changed_lines: case.changed_lines,
                })
                .collect(),
            iterations: facts
                .iterations
                .iter()
                .map(|i| IterationResult {
                    functions: i.drawn.clone(),
                    pass_rate: match (&i.na, i.total) {
                        (None, total) if total > 0 => i.passed as f64 / total as f64,
                        _ => 0.0,
                    },
                    alerts: i.alerts.keys().map(|id| number[id]).collect(),
                })
                .collect(),
            alerts: alerts.clone(),
            penalty: prices.penalty,
            weights: prices.weights,
        })
        .collect()
}

/// One entry of an evaluation: what it is called, and the job it comes from.
pub struct Entry {
    /// `oniguruma/case/onig_new/strong`, ...
    pub name: String,
    /// The job.
    pub job: Job,
}

/// Every job that the rows of these models rest on, without those of iterations that are kept from an
/// earlier commit. For a complete evaluation; what is missing is a hold as everywhere.
pub fn entries(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) -> Result<Vec<Entry>, Hold> {
    let manifest = subject.rules(db);
    let at = |what: String| format!("{}/{what}", manifest.name);
    let mut out = Vec::new();
    let mut add = |name: String, job: Job| out.push(Entry { name, job });
    if subject.origin(db) == super::inputs::Origin::Manifest {
        add(at("source".into()), jobs::source(manifest)?);
    }
    for flavour in [Flavour::Plain, Flavour::Sanitized] {
        add(
            at(format!("footprint/{}", flavour.name())),
            jobs::footprint(db, subject, flavour.into())?,
        );
        add(
            at(format!("base/{}", flavour.name())),
            jobs::base(db, subject, flavour)?,
        );
    }
    if manifest.functions.extractor == Extractor::Libclang {
        for (object, job) in compiled::jobs(db, subject)? {
            add(at(format!("extract/{object}")), job);
        }
    }
    let shards = &suite(db, subject)?.shards;
    let first = baseline::first_runs(db, subject)?;
    for run in first.into_iter().chain(baseline::runs(db, subject)?) {
        add(at(run.called(shards)), run.job);
    }
    let sample = population::sample(db, settings, subject)?;
    for model in models {
        let spec = model.spec(db);
        for f in sample.iter() {
            let arg = FunctionArg::new(db, f.clone());
            let text = population::text(db, settings, subject, arg)?;
            let name = at(format!("case/{}/{}", f.id, spec.name));
            let case = case::case(db, settings, subject, *model, arg)?;
            add(
                format!("{name}/reply"),
                case::completion_job(db, settings, spec, f, &text)?,
            );
            if let Some(variant) = case.variant {
                let variant = db.blob(variant)?;
                add(
                    format!("{name}/verdict"),
                    jobs::verdict(db, subject, f, text, variant)?,
                );
            }
        }
        for metric in settings
            .metrics(db)
            .iter()
            .filter_map(|m| metrics::named(m))
        {
            for (id, job) in metrics::entries(db, settings, subject, *model, metric)? {
                let text = job.key().0.short();
                let name = format!(
                    "{}/{}/{id}/{}/{text}",
                    manifest.name, metric.name, spec.name
                );
                add(name, job);
            }
        }
        for scoring in scorings {
            let stale: BTreeSet<u32> = match subject.carried(db) {
                None => BTreeSet::new(),
                Some(_) => row_facts(db, settings, subject, *model, *scoring)?
                    .stale()
                    .collect(),
            };
            for i in (0..settings.iterations(db)).filter(|i| !stale.contains(i)) {
                let name = at(carry::name(&spec.name, *scoring, i));
                let jobs = iteration::jobs_of(db, settings, subject, *model, *scoring, i)?;
                for (what, job) in jobs {
                    add(format!("{name}/{what}"), job);
                }
            }
        }
    }
    Ok(out)
}

/// How many distinct jobs of each kind the rows rest on: recalled when it was counted before.
pub fn uses(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) -> Result<BTreeMap<String, u64>, Hold> {
    let mut inputs = Vec::new();
    for model in models {
        for scoring in scorings {
            inputs.extend(grounds(db, settings, subject, *model, *scoring)?);
        }
    }
    inputs.push(metrics_digest(db, settings));
    recalled(db, "uses", &inputs, || {
        let entries = entries(db, settings, subject, models, scorings)?;
        let unique: BTreeMap<_, _> = entries
            .iter()
            .map(|e| (e.job.key(), e.job.kind().name))
            .collect();
        let mut counts = BTreeMap::new();
        for kind in unique.into_values() {
            *counts.entry(kind.to_string()).or_default() += 1;
        }
        Ok(counts)
    })
}

/// What identifies an evaluation: equal when all of its rows' inputs are, and what of them is kept.
pub fn evaluation_digest(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) -> Result<Digest, Hold> {
    let mut bytes = Vec::new();
    for model in models {
        for scoring in scorings {
            for digest in grounds(db, settings, subject, *model, *scoring)? {
                bytes.extend(digest.0);
            }
        }
    }
    if !settings.metrics(db).is_empty() {
        bytes.extend(metrics_digest(db, settings).0);
    }
    Ok(Digest::of(&bytes))
}

fn metrics_digest(db: &dyn Db, settings: Settings) -> Digest {
    Digest::of(&artifact::write(&**settings.metrics(db)))
}

/// A case with the file it is in: what `list` shows.
#[allow(clippy::type_complexity)]
pub fn cases_of(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
) -> Result<Vec<(Arc<population::Function>, Arc<Case>)>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    fold(sample.iter().map(|f| {
        let case = case::case(
            db,
            settings,
            subject,
            model,
            FunctionArg::new(db, f.clone()),
        )?;
        Ok((f.clone(), case))
    }))
}

/// Fills the memo tables in parallel: rows that are remembered, and of the models that lack one
/// the cases of all files, which are the costly part of a cold start.
pub fn warm(
    db: &crate::engine::EngineDb,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) {
    let Ok(sample) = population::sample(db, settings, subject) else {
        return;
    };
    let rows: Vec<(Model, Scoring)> = models
        .iter()
        .flat_map(|m| scorings.iter().map(move |s| (*m, *s)))
        .collect();
    db.warm(&rows, |db, (model, scoring)| {
        let _ = kept_row(db, settings, subject, *model, *scoring);
    });
    let lacking = models.iter().filter(|model| {
        let kept = |scoring: &Scoring| kept_row(db, settings, subject, **model, *scoring);
        scorings.iter().any(|scoring| kept(scoring).is_none())
    });
    let paths: BTreeSet<&String> = sample.iter().map(|f| &f.path).collect();
    let items: Vec<(Model, &String)> = lacking
        .flat_map(|m| paths.iter().map(move |p| (*m, *p)))
        .collect();
    db.warm(&items, |db, (model, path)| {
        let _ = case::file_cases(
            db,
            settings,
            subject,
            *model,
            PathArg::new(db, (*path).clone()),
        );
    });
}
