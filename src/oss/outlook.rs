//! What an evaluation has and what it lacks, stage by stage: the same queries as a run's, with
//! every missing job named as an evaluation's list would name it. What can be asked for now is
//! exact; what waits for another answer is a forecast, and is counted apart.

use serde::Serialize;

use super::artifact::PROGRAM;
use super::baseline;
use super::carry::{self, Awaits};
use super::case;
use super::compiled;
use super::inputs::{Model, Origin, Scoring, Settings, Subject};
use super::iteration;
use super::jobs;
use super::leaderboard::Entry;
use super::population::{self, FlavourArg, FunctionArg};
use super::suite::suite;
use crate::engine::{Db, Hold};
use crate::job::Job;
use crate::stats;
use crate::subject::{Extractor, Flavour};

/// How far one stage of an evaluation is, in the things it is about: replies, verdicts, iterations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Stage {
    /// Known already.
    pub known: u64,
    /// Can be worked on now.
    pub now: u64,
    /// Wait for an earlier stage. An upper bound: what comes may be known already, or not be needed.
    pub later: u64,
    /// Kept from an earlier commit, if the unchanged subject's tests count the same cases.
    #[serde(skip_serializing_if = "is_none")]
    pub carried: u64,
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

/// What one model's rows have and lack.
#[derive(Default)]
pub struct Outlook {
    /// Replies, one for each function.
    pub replies: Stage,
    /// Verdicts on functions; replies without code, and the original text itself, need none and
    /// count as known.
    pub verdicts: Stage,
    /// Iterations, by scoring.
    pub iterations: Vec<(Scoring, Stage)>,
    /// The jobs that can run now.
    pub jobs: Vec<Entry>,
}

/// What must be there before anything is known of a model: the missing jobs of the source, the two
/// builds and the unchanged tests.
///
/// # Errors
/// The faults and damaged blobs in the way; jobs are never an error here.
pub fn ground(db: &dyn Db, subject: Subject) -> Result<Vec<Entry>, Hold> {
    let manifest = subject.rules(db);
    let at = |what: String| format!("{}/{what}", manifest.name);
    let mut out = Vec::new();
    if subject.origin(db) == Origin::Manifest {
        let job = jobs::source(manifest)?;
        if lacks(db, &job)? {
            out.push(Entry {
                name: at("source".into()),
                job,
            });
            return Ok(out);
        }
    }
    let mut built = true;
    for flavour in [Flavour::Plain, Flavour::Sanitized] {
        let mut stage = |what: &str, job: Result<Job, Hold>| {
            let name = at(format!("{what}/{}", flavour.name()));
            let before = out.len();
            match job {
                Ok(job) if !lacks(db, &job)? => {}
                Ok(job) => out.push(Entry { name, job }),
                Err(hold) => named(hold, &name, &mut out)?,
            }
            Ok::<bool, Hold>(out.len() == before)
        };
        // What the base is keyed by is known from its footprint.
        built &= stage("footprint", jobs::footprint(db, subject, flavour.into()))?
            && stage("base", jobs::base(db, subject, flavour))?;
    }
    if !built {
        return Ok(out);
    }
    if subject.rules(db).functions.extractor == Extractor::Libclang {
        for (object, job) in compiled::jobs(db, subject)? {
            if lacks(db, &job)? {
                let name = at(format!("extract/{object}"));
                out.push(Entry { name, job });
            }
        }
    }
    let shards = &suite(db, subject)?.shards;
    for run in baseline::runs(db, subject)? {
        if lacks(db, &run.job)? {
            let name = at(run.called(shards));
            out.push(Entry { name, job: run.job });
        }
    }
    Ok(out)
}

/// Whether the functions of a subject can be known and its tests be run: its builds are there, and
/// what its extractor says of them.
///
/// # Errors
/// What is missing.
pub fn built(db: &dyn Db, subject: Subject) -> Result<(), Hold> {
    let mut hold = population::ground(db, subject).err().unwrap_or_default();
    let sanitized = population::base(db, subject, FlavourArg::Sanitized);
    hold.merge(&sanitized.err().unwrap_or_default());
    match hold.is_empty() {
        true => Ok(()),
        false => Err(hold.settle()),
    }
}

/// What the rows of `model` have and lack. To be asked when [`ground`] lacks nothing of the builds.
///
/// # Errors
/// As [`ground`]'s; what the sample itself lacks is among the jobs.
pub fn outlook(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scorings: &[Scoring],
) -> Result<Outlook, Hold> {
    let mut out = Outlook::default();
    let manifest = subject.rules(db);
    let at = |what: String| format!("{}/{what}", manifest.name);
    let sample = match population::sample(db, settings, subject) {
        Ok(sample) => sample,
        Err(hold) => {
            named(hold, &at("population".into()), &mut out.jobs)?;
            return Ok(out);
        }
    };
    let spec = model.spec(db);
    for f in sample.iter() {
        let arg = FunctionArg::new(db, f.clone());
        let name = at(format!("case/{}/{}", f.id, spec.name));
        // A remembered case needs none of its jobs.
        let hold = match case::case(db, settings, subject, model, arg) {
            Ok(_) => {
                out.replies.known += 1;
                out.verdicts.known += 1;
                continue;
            }
            Err(hold) => hold,
        };
        let text = match population::text(db, settings, subject, arg) {
            Ok(text) => text,
            Err(hold) => {
                named(hold, &at("population".into()), &mut out.jobs)?;
                continue;
            }
        };
        let reply = case::completion_job(db, settings, spec, f, &text)?;
        if lacks(db, &reply)? {
            out.replies.now += 1;
            out.verdicts.later += 1;
            let name = format!("{name}/reply");
            out.jobs.push(Entry { name, job: reply });
        } else {
            out.replies.known += 1;
            out.verdicts.now += 1;
            named(hold, &format!("{name}/verdict"), &mut out.jobs)?;
        }
    }
    for scoring in scorings {
        let mut stage = Stage::default();
        for i in 0..settings.iterations(db) {
            if let Ok(known) = iteration::iteration(db, settings, subject, model, *scoring, i) {
                match known.stale {
                    Some(_) => stage.carried += 1,
                    None => stage.known += 1,
                }
                continue;
            }
            match carry::awaits(db, settings, subject, (model, *scoring, i)) {
                Awaits::Measured => {}
                Awaits::Kept => {
                    stage.carried += 1;
                    continue;
                }
                Awaits::Unknown => {
                    stage.later += 1;
                    continue;
                }
            }
            let name = at(carry::name(&spec.name, *scoring, i));
            match iteration::jobs_of(db, settings, subject, model, *scoring, i) {
                // The program is there: what lacks is runs, or only the baseline.
                Ok(jobs) => {
                    stage.now += 1;
                    for (what, job) in jobs {
                        if lacks(db, &job)? {
                            let name = format!("{name}/{what}");
                            out.jobs.push(Entry { name, job });
                        }
                    }
                }
                Err(hold) if hold.jobs().iter().any(|j| j.kind() == PROGRAM) => {
                    stage.now += 1;
                    named(hold, &format!("{name}/program"), &mut out.jobs)?;
                }
                Err(hold) => {
                    fault(&hold)?;
                    stage.later += 1;
                }
            }
        }
        out.iterations.push((*scoring, stage));
    }
    Ok(out)
}

/// Whether a job's output is not there.
fn lacks(db: &dyn Db, job: &Job) -> Result<bool, Hold> {
    match db.demand(job) {
        Ok(_) => Ok(false),
        Err(hold) => fault(&hold).map(|()| true),
    }
}

/// What no run of jobs can mend is an error everywhere.
fn fault(hold: &Hold) -> Result<(), Hold> {
    match hold.faults().is_empty() && hold.corrupt_blobs().is_empty() {
        true => Ok(()),
        false => Err(hold.clone()),
    }
}

/// The jobs of a hold under one name.
fn named(hold: Hold, name: &str, out: &mut Vec<Entry>) -> Result<(), Hold> {
    fault(&hold)?;
    out.extend(hold.jobs().iter().map(|job| Entry {
        name: name.to_string(),
        job: job.clone(),
    }));
    Ok(())
}

/// The smallest true difference between two models' s1, in points, that is found in four of five cases
/// at a level of 0.05: for independent functions of which half compile, the widest case.
pub fn detectable_s1(functions: usize) -> f64 {
    // Of two independent shares at one half.
    let error = (0.5 / functions as f64).sqrt();
    100.0 * stats::compare::minimum_detectable_effect(error)
}
