//! Iterations of an earlier evaluation, kept in place of new ones when a run is asked to. A commit
//! that changes one function changes the program of every iteration, of those too that do not replace
//! it; what is kept is labelled with the commit at which it was measured, and is never called equal.
//!
//! Rules:
//! - What is in the store is used as ever. Only what would have to be built and run is kept.
//! - An iteration is kept if its set is what it was (the same functions, texts and variants), the
//!   unchanged subject counts the same cases, and compiler, flags, tests and code are the same.
//! - Of what could be kept of a row, a drawn share is measured all the same, and at least one
//!   iteration; the result is compared with what would have been kept. The draw has the tree in it,
//!   so that each commit audits others.
//! - What an evaluation of one tree keeps from is what was noted at another one: asked again, the
//!   evaluation is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact;
use super::baseline;
use super::inputs::{Model, Scoring, Settings, Subject};
use super::iteration::{self, Audited, Iteration, Set};
use super::leaderboard;
use super::population;
use super::suite::suite;
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::logs::Case;
use crate::stats::mix;
use crate::subject::Flavour;

/// An iteration of a complete evaluation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Noted {
    /// What identifies its set; see [`Set::identity`].
    pub set: Digest,
    /// What else it must have in common with what it stands for; see [`conditions`].
    pub under: Digest,
    /// The cases that counted.
    pub cases: Digest,
    /// The keys of its jobs.
    pub jobs: Digest,
    /// The commit at which it was measured, as reports write it.
    pub measured_at: String,
    /// The root of an evaluation's manifest that lists its jobs.
    pub evaluation: Digest,
    /// What came of it, without the positions of its functions.
    pub result: Iteration,
}

/// What is noted of a subject's complete evaluations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Note {
    /// The tree of the last of them.
    pub tree: Option<Digest>,
    /// The root of its manifest.
    pub evaluation: Option<Digest>,
    /// By [`name`]: those of the last evaluation, and of earlier ones what it did not have.
    pub iterations: BTreeMap<String, Noted>,
}

/// What an evaluation may keep: an input of its subject.
#[derive(PartialEq, Eq, Debug)]
pub struct Carried {
    note: Note,
    /// Of a million that could be kept, so many are audited.
    audits: u32,
    digest: Digest,
}

impl Carried {
    /// From a note of another tree; `share` (0 to 1) of what could be kept is audited.
    pub fn new(note: Note, share: f64) -> Carried {
        let audits = (share.clamp(0.0, 1.0) * 1e6).round() as u32;
        Carried {
            digest: Digest::of(&artifact::write(&(&note.iterations, audits))),
            note,
            audits,
        }
    }

    /// What identifies it.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// What an evaluation calls an iteration, behind the subject's name.
pub fn name(model: &str, scoring: Scoring, i: u32) -> String {
    format!("iteration/{model}/{}/{i}", scoring.name())
}

/// An iteration by its model, scoring and index.
pub(super) type At = (Model, Scoring, u32);

/// What becomes of an iteration where something may be kept.
pub(super) enum Kept<'db> {
    /// It is measured.
    No,
    /// It is measured and compared with this.
    Audited(&'db Noted),
    /// This stands for it, unless all of it is in the store.
    Yes(&'db Noted),
}

/// Compiler, flags, suite, parser, and the code that reads what they give: under others, results
/// are none of the commit's.
#[salsa::tracked(returns(clone))]
fn conditions(db: &dyn Db, subject: Subject) -> Digest {
    let rules = subject.rules(db);
    let parts = [
        Digest::of(&rules.build_part(Flavour::Sanitized)),
        Digest::of(&rules.tests_part()),
        Digest::of(&rules.parser_part()),
        Digest::of(subject.toolchain(db)),
        Digest::of(db.code().as_bytes()),
    ];
    Digest::of(&artifact::write(&parts))
}

/// The cases that count in a scoring, and of those of `paper` which never pass.
#[salsa::tracked(returns(clone))]
fn counted_cases(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    scoring: Scoring,
) -> Result<Digest, Hold> {
    let baseline = baseline::baseline(db, settings, subject)?;
    let suite = suite(db, subject)?;
    let mut cases: Vec<(&str, &str, Vec<&Case>)> = Vec::new();
    for (shard, of) in suite.shards.iter().zip(&baseline.shards) {
        let name = shard.name.as_str();
        match scoring {
            Scoring::Paired => cases.push((name, "counted", of.stable_pass.iter().collect())),
            Scoring::Paper => {
                let all = of.stable_pass.iter().chain(&of.failing).chain(&of.flaky);
                let all: BTreeSet<&Case> = all.collect();
                cases.push((name, "counted", all.into_iter().collect()));
                cases.push((name, "failing", of.failing.iter().collect()));
            }
        }
    }
    Ok(Digest::of(&artifact::write(&cases)))
}

/// What is noted of an iteration with this very set. Of an empty set nothing is: it is the unchanged
/// subject, which runs anyway.
fn candidate<'db>(
    db: &'db dyn Db,
    subject: Subject,
    (model, scoring, i): At,
    set: &Set,
) -> Option<&'db Noted> {
    let carried = subject.carried(db).as_ref()?;
    let name = name(&model.spec(db).name, scoring, i);
    let noted = carried.note.iterations.get(&name)?;
    let same = noted.set == set.identity() && noted.under == conditions(db, subject);
    (same && !set.is_empty()).then_some(noted)
}

/// The iterations of a row that are measured although they could be kept.
#[salsa::tracked(returns(clone))]
fn audited(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Result<Arc<BTreeSet<u32>>, Hold> {
    let Some(carried) = subject.carried(db) else {
        return Ok(Arc::default());
    };
    let draws = fold(draws(db, settings, subject, model, scoring)?)?;
    Ok(Arc::new(chosen(draws, carried)))
}

/// The draw of each iteration of a row that could be kept; what is missing where that is not known.
#[allow(clippy::type_complexity)]
fn draws(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
) -> Result<Vec<Result<Option<(u64, u32)>, Hold>>, Hold> {
    let (tree, _) = population::snapshot(db, subject)?;
    let row = format!("{}/{}", model.spec(db).name, scoring.name());
    let row = [&tree.0, row.as_bytes()].concat();
    let draw = |i| {
        let set = iteration::set(db, settings, subject, model, scoring, i)?;
        let draw = mix::keyed(settings.seed(db), u64::from(i), &row);
        Ok(candidate(db, subject, (model, scoring, i), &set).map(|_| (draw, i)))
    };
    Ok((0..settings.iterations(db)).map(draw).collect())
}

/// Those below the share, and the first in any case.
fn chosen(draws: Vec<Option<(u64, u32)>>, carried: &Carried) -> BTreeSet<u32> {
    let mut draws: Vec<(u64, u32)> = draws.into_iter().flatten().collect();
    draws.sort_unstable();
    let share = f64::from(carried.audits) / 1e6;
    let below = |(draw, _): &&(u64, u32)| mix::uniform(*draw) < share;
    let n = draws.iter().take_while(below).count().max(1);
    draws.iter().take(n).map(|(_, i)| *i).collect()
}

/// What becomes of an iteration with this set.
fn kept<'db>(
    db: &'db dyn Db,
    settings: Settings,
    subject: Subject,
    at: At,
    set: &Set,
) -> Result<Kept<'db>, Hold> {
    let Some(noted) = candidate(db, subject, at, set) else {
        return Ok(Kept::No);
    };
    let (model, scoring, i) = at;
    if audited(db, settings, subject, model, scoring)?.contains(&i) {
        return Ok(Kept::Audited(noted));
    }
    match counted_cases(db, settings, subject, scoring)? == noted.cases {
        true => Ok(Kept::Yes(noted)),
        false => Ok(Kept::No),
    }
}

/// The measured iteration, or what stands for it. While it is not known whether something may, an
/// error that asks for what that takes and for nothing of the iteration.
pub(super) fn or_kept(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    at: At,
    set: &Set,
    measured: Result<Iteration, Hold>,
) -> Result<Iteration, Hold> {
    match (measured, kept(db, settings, subject, at, set)) {
        (Ok(measured), Ok(Kept::Audited(noted))) => {
            compared(db, settings, subject, at, set, measured, noted)
        }
        (Ok(measured), _) => Ok(measured),
        // What no job can mend is not to be hidden.
        (Err(hold), _) if !hold.faults().is_empty() || !hold.corrupt_blobs().is_empty() => {
            Err(hold)
        }
        (Err(hold), Ok(Kept::No | Kept::Audited(_))) => Err(hold),
        (Err(_), Err(hold)) => Err(hold),
        (Err(_), Ok(Kept::Yes(noted))) => {
            let own = baseline::baseline(db, settings, subject)?;
            let mut kept = noted.result.clone();
            (kept.drawn, kept.applied) = set.positions();
            kept.alerts.retain(|id, _| !own.alerts.contains_key(id));
            kept.stale = Some(noted.measured_at.clone());
            Ok(kept)
        }
    }
}

fn compared(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    (_, scoring, _): At,
    set: &Set,
    mut measured: Iteration,
    noted: &Noted,
) -> Result<Iteration, Hold> {
    // The same jobs cannot differ, and with other cases nothing would have been kept.
    if jobs(db, subject, set)? != noted.jobs
        && counted_cases(db, settings, subject, scoring)? == noted.cases
    {
        let own = baseline::baseline(db, settings, subject)?;
        let ids = |i: &Iteration| -> BTreeSet<String> {
            let ids = i.alerts.keys().filter(|id| !own.alerts.contains_key(*id));
            ids.cloned().collect()
        };
        let kept = &noted.result;
        measured.audited = Some(Audited {
            measured_at: noted.measured_at.clone(),
            differs: (measured.passed, measured.total, measured.na.is_some())
                != (kept.passed, kept.total, kept.na.is_some())
                || ids(&measured) != ids(kept),
        });
    }
    Ok(measured)
}

/// What identifies the jobs of a set.
fn jobs(db: &dyn Db, subject: Subject, set: &Set) -> Result<Digest, Hold> {
    let jobs = iteration::set_jobs(db, subject, set)?;
    let keys = jobs.program.iter().chain(&jobs.runs).map(|job| job.key().0);
    Ok(Digest::of(&artifact::write(&keys.collect::<Vec<_>>())))
}

/// What becomes of an iteration that is not known yet, for plans.
pub(super) enum Awaits {
    /// It is to be measured.
    Measured,
    /// It will be kept, if the unchanged subject counts the same cases.
    Kept,
    /// It depends on what is not known yet.
    Unknown,
}

/// What can be said of an iteration that is not known yet. A set that is not known holds a function
/// that has to be asked, so it is taken for one that cannot be kept.
pub(super) fn awaits(db: &dyn Db, settings: Settings, subject: Subject, at: At) -> Awaits {
    let Some(carried) = subject.carried(db) else {
        return Awaits::Measured;
    };
    let (model, scoring, i) = at;
    let Ok(set) = iteration::set(db, settings, subject, model, scoring, i) else {
        return Awaits::Unknown;
    };
    if kept(db, settings, subject, at, &set).is_ok() {
        return Awaits::Measured;
    }
    match draws(db, settings, subject, model, scoring) {
        Ok(draws) => {
            let known = draws.into_iter().filter_map(Result::ok).collect();
            match chosen(known, carried).contains(&i) {
                true => Awaits::Measured,
                false => Awaits::Kept,
            }
        }
        Err(_) => Awaits::Unknown,
    }
}

/// The iterations of an evaluation that are kept: their names, and where their jobs are listed.
///
/// # Errors
/// What the rows lack.
pub fn stale(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
) -> Result<Vec<(String, Digest)>, Hold> {
    let mut out = Vec::new();
    each(
        db,
        settings,
        subject,
        models,
        scorings,
        |at, set, result| {
            if let (Some(_), Some(noted)) = (&result.stale, candidate(db, subject, at, set)) {
                let (model, scoring, i) = at;
                let name = name(&model.spec(db).name, scoring, i);
                out.push((name, noted.evaluation));
            }
            Ok(())
        },
    )?;
    Ok(out)
}

/// What is to be noted of a complete evaluation at `commit`, whose manifest has the root
/// `evaluation`. What was kept stays what it was, with its label.
///
/// # Errors
/// What the rows lack.
pub fn note(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    (models, scorings): (&[Model], &[Scoring]),
    commit: &str,
    evaluation: Digest,
) -> Result<Note, Hold> {
    let under = conditions(db, subject);
    let mut iterations = BTreeMap::new();
    each(
        db,
        settings,
        subject,
        models,
        scorings,
        |at, set, result| {
            if set.is_empty() {
                return Ok(());
            }
            let (model, scoring, i) = at;
            let noted = match (&result.stale, candidate(db, subject, at, set)) {
                (Some(_), Some(noted)) => Noted {
                    evaluation,
                    ..noted.clone()
                },
                _ => Noted {
                    set: set.identity(),
                    under,
                    cases: counted_cases(db, settings, subject, scoring)?,
                    jobs: jobs(db, subject, set)?,
                    measured_at: commit.to_string(),
                    evaluation,
                    result: Iteration {
                        drawn: Vec::new(),
                        applied: Vec::new(),
                        stale: None,
                        audited: None,
                        ..result.clone()
                    },
                },
            };
            iterations.insert(name(&model.spec(db).name, scoring, i), noted);
            Ok(())
        },
    )?;
    let (tree, _) = population::snapshot(db, subject)?;
    Ok(Note {
        tree: Some(tree),
        evaluation: Some(evaluation),
        iterations,
    })
}

impl Note {
    /// Takes over what an earlier note has and this one lacks.
    #[must_use]
    pub fn over(mut self, earlier: &Note) -> Note {
        for (name, noted) in &earlier.iterations {
            self.iterations
                .entry(name.clone())
                .or_insert_with(|| noted.clone());
        }
        self
    }
}

/// Calls `f` with every iteration of the rows.
fn each(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    models: &[Model],
    scorings: &[Scoring],
    mut f: impl FnMut(At, &Set, &Iteration) -> Result<(), Hold>,
) -> Result<(), Hold> {
    for model in models {
        for scoring in scorings {
            let row = leaderboard::row_facts(db, settings, subject, *model, *scoring)?;
            for (i, result) in (0..).zip(&row.iterations) {
                let set = iteration::set(db, settings, subject, *model, *scoring, i)?;
                f((*model, *scoring, i), &set, result)?;
            }
        }
    }
    Ok(())
}
