//! Evaluates boards and runs what they lack; what they rest on is listed in the store when they are
//! complete.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::board::{Bench, Board, Evaluation, Plan, World, boards};
use super::error::{failure_error, fault_of, lost};
use super::models::follow;
use super::project::{Answering, Options, cores};
use super::sources::adoption;
use super::{App, AppError, TOOL, registry, why};
use crate::cancel::Cancel;
use crate::digest::Digest;
use crate::engine::{
    DriveError, Driven, Driver, EngineDb, Failure, Hold, Ledger, Observer, Registry,
};
use crate::exec::models::Models;
use crate::exec::observe;
use crate::exec::toolchain::Toolchain;
use crate::job::Job;
use crate::oss::inputs::Origin;
use crate::oss::leaderboard;
use crate::store::{Manifest as EvaluationManifest, Reader, RunTally, Store, StoreLedger};

/// What a drive of the board gave.
pub(super) struct Drove {
    pub(super) world: World,
    pub(super) boards: Vec<Board>,
    /// What is still missing.
    pub(super) hold: Hold,
    /// Why.
    pub(super) failures: Vec<(Job, Failure)>,
    /// Jobs executed, by kind.
    pub(super) executed: BTreeMap<String, u64>,
    /// The same by bytes and time, and what could not be kept.
    pub(super) tally: RunTally,
    /// True if it was stopped.
    pub(super) stopped: bool,
}

/// Who runs what a board lacks.
#[derive(Clone, Copy)]
pub(super) struct Executors<'a> {
    pub(super) registry: &'a Registry,
    /// The service for completions, which is in the registry too.
    pub(super) models: &'a Models,
    /// How many cores the jobs may keep busy together.
    pub(super) jobs: usize,
}

/// What a query other than the board is driven with.
pub(super) struct Ready<'a> {
    pub(super) plan: &'a Plan,
    pub(super) tools: Toolchain,
    pub(super) answering: &'a [Answering],
    pub(super) options: &'a Options,
}

impl App {
    /// Runs everything that a query lacks and gives its value; `what` is what people call it.
    /// `query` is made on the world in which it will be asked.
    pub(super) fn driven<T, Q: FnMut(&EngineDb) -> (T, Hold)>(
        &self,
        ready: Ready<'_>,
        cancel: &Cancel,
        observer: &mut dyn Observer,
        what: &str,
        query: impl FnOnce(&World) -> Q,
    ) -> Result<T, AppError> {
        let Ready { plan, options, .. } = ready;
        let shop = Arc::new(self.workshop(ready.tools, options, plan)?);
        let models = self.asks(ready.answering, options)?;
        let registry = registry(&shop, plan, self.sources(plan), models.clone());
        let reader = self.store.reader()?;
        let mut world = plan.world(&reader);
        let ledger = StoreLedger::new(self.store.clone(), &reader, TOOL);
        let driver = Driver {
            registry: &registry,
            ledger: &ledger,
            cores: options.jobs.unwrap_or_else(cores),
            cancel: cancel.clone(),
        };
        let query = query(&world);
        let inputs = world.models.clone();
        let mut adjust = |db: &mut EngineDb| follow(db, &inputs, &models);
        let driven = driver
            .drive_adjusting(&mut world.db, observer, &mut adjust, query)
            .map_err(AppError::Drive)?;
        whole(driven, what)
    }

    /// Evaluates the board; with a registry, runs what it lacks.
    pub(super) fn drive(
        &self,
        plan: &Plan,
        executors: Option<Executors<'_>>,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Drove, AppError> {
        // A corrupt blob makes its actions run again, on a new database: each pass takes out at
        // least one, so this ends.
        let mut tally = RunTally::default();
        loop {
            let reader = self.store.reader()?;
            let mut world = plan.world(&reader);
            let ledger = StoreLedger::new(self.store.clone(), &reader, TOOL);
            let (benches, models) = (world.benches.clone(), world.models.clone());
            let scorings = world.scorings.clone();
            let root = |db: &EngineDb| boards(db, &benches, &models, &scorings);
            let result = match executors {
                Some(executors) => {
                    let driver = Driver {
                        registry: executors.registry,
                        ledger: &ledger,
                        cores: executors.jobs,
                        cancel: cancel.clone(),
                    };
                    let inputs = world.models.clone();
                    let mut adjust = |db: &mut EngineDb| follow(db, &inputs, executors.models);
                    let driven = driver.drive_adjusting(&mut world.db, observer, &mut adjust, root);
                    driven.map(|d| {
                        let executed = d
                            .executed
                            .iter()
                            .map(|(k, n)| (k.to_string(), *n))
                            .collect();
                        (d.value, d.hold, d.failures, executed, d.stopped)
                    })
                }
                None => {
                    // To look at the machine takes no sandbox, and belongs to knowing what is there.
                    let mut registry = Registry::default();
                    observe::register(&mut registry, &self.system);
                    let driver = Driver {
                        registry: &registry,
                        ledger: &ledger,
                        cores: 1,
                        cancel: cancel.clone(),
                    };
                    let mut root = root;
                    let (value, hold) = match plan.looks_back {
                        true => root(&world.db),
                        false => driver
                            .look(&mut world.db, &mut Vec::new(), &mut root)
                            .map_err(AppError::Drive)?,
                    };
                    ledger.remember(world.db.take_rows());
                    match hold.corrupt_blobs() {
                        [] => Ok((value, hold, Vec::new(), BTreeMap::new(), false)),
                        corrupt => Err(DriveError::Corrupt(corrupt.to_vec())),
                    }
                }
            };
            tally.add(&ledger.tally());
            match result {
                Ok((boards, hold, failures, executed, stopped)) => {
                    fault_of(&hold)?;
                    return Ok(Drove {
                        world,
                        boards,
                        hold,
                        failures,
                        executed,
                        tally,
                        stopped,
                    });
                }
                Err(DriveError::Corrupt(digests)) => quarantined(&self.store, &digests)?,
                Err(other) => return Err(AppError::Drive(other)),
            }
        }
    }

    pub(super) fn finish(
        &self,
        drove: Drove,
        plan: &Plan,
        compiler: String,
    ) -> Result<Evaluation, AppError> {
        let Drove {
            world,
            mut boards,
            hold,
            failures,
            executed,
            tally: _,
            stopped,
        } = drove;
        let mut missing = BTreeMap::new();
        for job in hold.jobs() {
            *missing.entry(job.kind().name.to_string()).or_default() += 1;
        }
        let notes = self.writable && !plan.looks_back;
        let mut upstream = Vec::new();
        for ((bench, subject), board) in world.benches.iter().zip(&plan.subjects).zip(&boards) {
            if notes && (board.broken.is_some() || board.baseline.is_some()) {
                self.remember_broken(subject, board.broken.as_ref())?;
            }
            upstream.push(self.upstream(&world, *bench, &subject.commit())?);
        }
        let mut reused = BTreeMap::new();
        if hold.is_empty() {
            let subjects = world.benches.iter().zip(&plan.subjects).zip(&boards);
            let whole = subjects.filter(|(_, board)| board.broken.is_none());
            for ((bench, subject), _) in whole {
                let root = self.keep_manifest(&world, *bench, plan)?;
                if notes {
                    self.remember_reads(&world, *bench)?;
                    self.remember_tested(&world, *bench, &subject.commit())?;
                    if let Some(root) = root {
                        self.remember_iterations(&world, *bench, &subject.commit(), root)?;
                    }
                }
            }
            if let Ok(uses) = uses(&world, &boards) {
                reused = uses;
                for (kind, n) in &executed {
                    let left = reused.get(kind).copied().unwrap_or(0).saturating_sub(*n);
                    reused.insert(kind.clone(), left);
                }
            }
            let rows = world.db.take_rows();
            if !rows.is_empty() {
                StoreLedger::new(self.store.clone(), &self.store.reader()?, TOOL).remember(rows);
            }
        }
        self.honour(&world, &mut boards)?;
        let mut boards = plan.named(boards);
        for (board, upstream) in boards.iter_mut().zip(upstream) {
            board.upstream = upstream;
        }
        Ok(Evaluation {
            boards,
            missing,
            failures,
            executed,
            reused,
            stopped,
            compiler,
            statement: None,
            world,
        })
    }

    /// Notes what a run found, executed and could not keep.
    pub(super) fn count(&self, mut tally: RunTally, evaluation: &Evaluation, wall: Duration) {
        tally.runs = 1;
        tally.complete = u64::from(evaluation.missing.is_empty());
        tally.wall_us = wall.as_micros() as u64;
        for (kind, n) in &evaluation.reused {
            tally.of(kind).hits += n;
        }
        for (kind, n) in &evaluation.missing {
            tally.of(kind).missing += n;
        }
        // Counters that cannot be written must not end a run whose results can.
        let _ = self.store.record_run(tally);
    }

    /// Notes which complete evaluation of a subject is the last, and which one was before.
    fn follow(&self, reader: &Reader, subject: &str, root: Digest) -> Result<(), AppError> {
        let name = why::last_name(subject);
        match reader.root(&name)? {
            Some(last) if last == root => return Ok(()),
            Some(last) => self.store.set_root(&why::previous_name(subject), last)?,
            None => {}
        }
        Ok(self.store.set_root(&name, root)?)
    }

    /// Stores the list of everything the rows rest on, unless it is stored already; its root.
    fn keep_manifest(
        &self,
        world: &World,
        bench: Bench,
        plan: &Plan,
    ) -> Result<Option<Digest>, AppError> {
        let (db, settings, subject) = (&world.db, bench.settings, bench.subject);
        let Ok(digest) =
            leaderboard::evaluation_digest(db, settings, subject, &world.models, &world.scorings)
        else {
            return Ok(None);
        };
        let reader = self.store.reader()?;
        let name = evaluation_name(digest);
        let subject_name = &subject.manifest(db).name;
        if let Some(root) = reader.root(&name)? {
            // What a later plan compares with is the last one that was run, not the newest.
            if self.writable && !plan.looks_back {
                self.follow(&reader, subject_name, root)?;
            }
            return Ok(Some(root));
        }
        let kept = self.kept_lines(world, bench, &reader)?;
        let Some(lines) = evaluation_lines(world, bench, &reader, kept)? else {
            return Ok(None);
        };
        let built = EvaluationManifest::build(lines)?;
        if self.writable {
            self.store.put_manifest(&name, &built)?;
            if !plan.looks_back {
                self.follow(&reader, subject_name, built.root)?;
            }
        }
        Ok(Some(built.root))
    }
}

/// What an evaluation rests on as a manifest lists it, besides `kept` lines of earlier ones; nothing
/// while something is missing.
pub(super) fn evaluation_lines(
    world: &World,
    bench: Bench,
    reader: &Reader,
    kept: Vec<crate::store::Entry>,
) -> Result<Option<Vec<crate::store::Entry>>, AppError> {
    let (db, settings, subject) = (&world.db, bench.settings, bench.subject);
    let Ok(entries) = leaderboard::entries(db, settings, subject, &world.models, &world.scorings)
    else {
        return Ok(None);
    };
    let mut lines = kept;
    for entry in entries {
        if let Some(output) = reader.output(&entry.job.key())? {
            lines.push(crate::store::Entry {
                id: entry.name,
                key: entry.job.key(),
                output,
            });
        }
    }
    if let Origin::Snapshot(digest) = subject.origin(db) {
        lines.push(crate::store::Entry {
            id: format!("{}/source", subject.manifest(db).name),
            key: adoption(digest).key(),
            output: digest,
        });
    }
    lines.sort();
    lines.dedup_by(|a, b| a.id == b.id);
    Ok(Some(lines))
}

/// How many distinct jobs of each kind all rows rest on.
pub(super) fn uses(world: &World, boards: &[Board]) -> Result<BTreeMap<String, u64>, Hold> {
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    let benches = world.benches.iter().zip(boards);
    for (Bench { settings, subject }, _) in benches.filter(|(_, b)| b.broken.is_none()) {
        let args = (&world.models, &world.scorings);
        for (kind, n) in leaderboard::uses(&world.db, *settings, *subject, args.0, args.1)? {
            *sum.entry(kind).or_default() += n;
        }
    }
    Ok(sum)
}

/// Takes the jobs out of the store that gave these blobs, so that they run again.
pub(super) fn quarantined(store: &Store, digests: &[Digest]) -> Result<(), AppError> {
    let mut taken = 0;
    for digest in digests {
        taken += store.quarantine(digest)?.len();
    }
    match (taken, digests.first()) {
        (0, Some(digest)) => Err(lost(
            digest,
            "no stored job gives it: `everbench store verify` says what is damaged",
        )),
        _ => Ok(()),
    }
}

/// The root under which a complete evaluation is kept.
pub(super) fn evaluation_name(digest: Digest) -> String {
    format!("evaluation/{}", digest.short())
}

/// What was driven for, if nothing of it is missing.
fn whole<T>(driven: Driven<T>, what: &str) -> Result<T, AppError> {
    fault_of(&driven.hold)?;
    match (driven.failures.first(), driven.hold.is_empty()) {
        (Some((_, failure)), _) => Err(failure_error(failure)),
        (None, false) => Err(AppError::Environment(format!(
            "{what} was stopped; run it again to go on"
        ))),
        (None, true) => Ok(driven.value),
    }
}
