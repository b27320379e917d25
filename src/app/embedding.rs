//! Stage II with similarity by embeddings, and the calibration of thresholds: texts of walks go to a
//! model over HTTP once, and what its vectors mean for a cutoff is derived whenever it is asked for.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::asking::{Asked, Inquiry, Run, keep, reply};
use super::patches::{Found, Lookup, Question, known, register, unreadable};
use super::{AppError, Options};
use crate::ask::{Answerer, COMPLETION};
use crate::contamination::patch::benchmark::{Benchmark, Instance};
use crate::contamination::patch::calibrate::{Calibration, LEXICAL, calibrate};
use crate::contamination::patch::embed::{Planted, Texts, vector};
use crate::contamination::patch::jobs::{PLANTED, TEXTS, planted, texts};
use crate::contamination::patch::measure::Measure;
use crate::contamination::patch::verdict::{Told, told};
use crate::engine::{Db, Hold};
use crate::exec::patches::Sides;
use crate::job::Job;

/// The root of what vectors rest on.
const ROOT: &str = "contamination/embedded";
/// Where calibrations are, beside the store.
const CALIBRATIONS: &str = "embedders.json";
/// What that file says of its format.
const FORMAT: &str = "everbench-embedders/1";

/// Which embedder, and what it may cost.
#[derive(Clone, Debug)]
pub struct Embedder {
    /// Its name in the project file.
    pub name: String,
    /// Keys, and what models may cost.
    pub options: Options,
}

fn open(
    dir: &Path,
    embedder: Option<&Embedder>,
    places: &BTreeMap<String, PathBuf>,
) -> Result<Inquiry, AppError> {
    let mut inquiry = match embedder {
        Some(one) => Inquiry::with_embedder(dir, &one.name, &one.options)?,
        None => Inquiry::without_models(dir)?,
    };
    let sides = Arc::new(Sides {
        places: places.clone(),
    });
    let registry = &mut inquiry.registry;
    register(registry, places, &Lookup::default());
    registry.add(TEXTS, 0, sides.clone());
    registry.add(PLANTED, 0, sides);
    Ok(inquiry)
}

/// The vectors of texts, in order, or all that is missing of them.
fn vectors(db: &dyn Db, model: &Answerer, texts: &[String]) -> Result<Vec<Vec<f32>>, Hold> {
    let mut hold = Hold::default();
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        match reply(db, &model.request(text.as_str(), 0)) {
            Ok(reply) => all.push(vector(&reply.text).map_err(|e| {
                Hold::broken(
                    format!("{} gave {e}", model.name),
                    "an embedder gives a list of numbers for each text",
                )
            })?),
            Err(missing) => hold.merge(&missing),
        }
    }
    match hold.is_empty() {
        true => Ok(all),
        false => Err(hold.settle()),
    }
}

/// What is said of each instance with an embedder's similarities; nothing where something is missing.
/// `found` is what the same question gave without it.
///
/// # Errors
/// No such embedder; a store that cannot be used.
pub fn embedded(
    dir: &Path,
    benchmark: &Benchmark,
    question: &Question,
    found: &Found,
    embedder: &Embedder,
    run: Run<'_>,
) -> Result<Asked<Vec<Option<Told>>>, AppError> {
    let inquiry = open(dir, Some(embedder), &found.places)?;
    let one = |db: &dyn Db, model: &Answerer, lookup: &Lookup, instance: &Instance, tip: &str| {
        let (line, walk) = known(db, lookup, instance, tip)?;
        let job = texts(instance, &walk);
        let output = db.demand(&job)?;
        let texts_of = Texts::decode(&db.blob(output)?).map_err(|e| unreadable(&e))?;
        let walk = match walk.problem {
            Some(_) => walk,
            None => texts_of.measured(&walk, &vectors(db, model, &texts_of.texts)?),
        };
        let asked = texts_of.texts.iter();
        let mut rests: Vec<Job> = asked
            .map(|text| model.request(text.as_str(), 0).to_job(COMPLETION))
            .collect();
        rests.push(job);
        let told = told(&walk, &line, &question.window, &question.thresholds);
        Ok((told, rests))
    };
    let asked = inquiry.run(run, |_| {
        let lookup = Lookup::default();
        move |db, models: &[Answerer]| {
            let model = &models[0];
            let mut hold = Hold::default();
            let mut all = Vec::with_capacity(benchmark.instances.len());
            for (instance, lexical) in benchmark.instances.iter().zip(&found.told) {
                let Some(tip) = found.tips.get(&instance.repository) else {
                    all.push(lexical.clone().map(|told| (told, Vec::new())));
                    continue;
                };
                all.push(match one(db, model, &lookup, instance, tip) {
                    Ok(found) => Some(found),
                    Err(missing) => {
                        hold.merge(&missing);
                        None
                    }
                });
            }
            (all, hold.settle())
        }
    })?;
    let rests = asked.value.iter().flatten().flat_map(|(_, jobs)| jobs);
    let rests = rests.map(|job| (format!("{ROOT}/{}", job.key()), job.clone()));
    keep(&inquiry.store, ROOT, rests)?;
    Ok(asked.map(|all| {
        let told = all.into_iter();
        told.map(|found| found.map(|(told, _)| told)).collect()
    }))
}

/// Calibrates similarity on the patches of a benchmark, each with its base, where it is absent, and its
/// base with the patch, where it is present. `most` is the greatest share of absent blocks that may be
/// taken to be present. Notes the outcome in `dir`; nothing if something is missing.
///
/// # Errors
/// No such embedder; no patch that can be measured; a store that cannot be used.
pub fn calibrated(
    dir: &Path,
    benchmark: &Benchmark,
    places: &BTreeMap<String, PathBuf>,
    embedder: Option<&Embedder>,
    (containment, most): (f64, f64),
    run: Run<'_>,
) -> Result<Asked<Option<Calibration>>, AppError> {
    let inquiry = open(dir, embedder, places)?;
    let one = |db: &dyn Db, model: Option<&Answerer>, instance: &Instance| {
        let job = planted(instance);
        let output = db.demand(&job)?;
        let planted = Planted::decode(&db.blob(output)?).map_err(|e| unreadable(&e))?;
        let walk = match model {
            None => planted.walk,
            Some(model) => {
                let vectors = vectors(db, model, &planted.texts.texts)?;
                planted.texts.measured(&planted.walk, &vectors)
            }
        };
        Ok(Planted::pairs(&walk))
    };
    let asked = inquiry.run(run, |_| {
        |db: &crate::engine::EngineDb, models: &[Answerer]| {
            let mut hold = Hold::default();
            let mut pairs: Vec<(Measure, bool)> = Vec::new();
            let had = |i: &&Instance| places.contains_key(&i.repository);
            for instance in benchmark.instances.iter().filter(had) {
                match one(db, models.first(), instance) {
                    Ok(found) => pairs.extend(found),
                    Err(missing) => hold.merge(&missing),
                }
            }
            (pairs, hold.settle())
        }
    })?;
    let model = asked.models.first();
    let revision = model.map_or(LEXICAL.to_string(), |m| m.revision.clone());
    let missing = asked.missing;
    let asked = asked.map(|pairs| match missing {
        0 => calibrate(&revision, &pairs, containment, most),
        _ => None,
    });
    if missing == 0 && asked.value.is_none() {
        return Err(AppError::Input(
            "no patch of this benchmark can be measured against its base\n  help: `everbench contamination patches` says of each instance why".into(),
        ));
    }
    if let Some(calibration) = &asked.value {
        let name = embedder.map_or(LEXICAL.to_string(), |one| one.name.clone());
        let mut noted = Calibrations::read(dir)?;
        noted.embedders.insert(name, calibration.clone());
        noted.write(dir)?;
    }
    Ok(asked)
}

/// What was found out about embedders, beside the store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibrations {
    format: String,
    /// By name; in it stands the revision that it is of.
    pub embedders: BTreeMap<String, Calibration>,
}

impl Calibrations {
    /// What is noted in `dir`; nothing yet if there is no such file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(dir: &Path) -> Result<Calibrations, AppError> {
        let path = dir.join(".everbench").join(CALIBRATIONS);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                AppError::Input(format!(
                    "{}: {e}\n  help: remove it, and run `everbench contamination calibrate` again",
                    path.display()
                ))
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Calibrations {
                format: FORMAT.into(),
                embedders: BTreeMap::new(),
            }),
            Err(e) => Err(AppError::Environment(format!("{}: {e}", path.display()))),
        }
    }

    fn write(&self, dir: &Path) -> Result<(), AppError> {
        let path = dir.join(".everbench").join(CALIBRATIONS);
        let bytes = serde_json::to_vec_pretty(self).expect("texts and numbers are JSON");
        std::fs::write(&path, bytes)
            .map_err(|e| AppError::Environment(format!("{}: {e}", path.display())))
    }
}
