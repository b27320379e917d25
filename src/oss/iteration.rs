//! One iteration: a set of functions replaced at once, built, tested, watched by sanitizers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, BuiltFile, PROGRAM, ProgramDoc, RunDoc};
use super::baseline::{self, ended, read_reports, read_run};
use super::carry;
use super::case::{self, Case};
use super::inputs::{Model, Scoring, Settings, Subject};
use super::jobs;
use super::places::{Sources, tree_path};
use super::population::{self, FunctionArg};
use super::reads::{self, NamesArg};
use super::suite::suite;
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::job::Job;
use crate::lang;
use crate::logs::{self, Class};
use crate::oss::artifact::Replacement;
use crate::stats::mix;

/// What is known of an alert, for people and for the penalty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AlertInfo {
    /// `AddressSanitizer`, ...
    pub sanitizer: String,
    /// `heap-buffer-overflow`, ...
    pub kind: String,
    /// In which class it counts.
    pub class: Class,
    /// The function it is in.
    pub function: String,
    /// The file, relative to the tree.
    pub file: String,
    /// The line, in the tree with the variants in it; 0 when it is not known.
    pub line: u32,
}

/// What came of an iteration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Iteration {
    /// The functions drawn, as positions in the sample, sorted.
    pub drawn: Vec<u32>,
    /// Those whose text was replaced by another.
    pub applied: Vec<u32>,
    /// Cases passed.
    pub passed: u64,
    /// Cases counted.
    pub total: u64,
    /// Why no case was reported, if none was.
    pub na: Option<String>,
    /// Cases by what became of them: `failed`, `timeout`, ...
    pub outcomes: BTreeMap<String, u64>,
    /// Alerts that the baseline does not have.
    pub alerts: BTreeMap<String, AlertInfo>,
    /// Lines of sanitizer logs that no report could be read from.
    pub unread: u64,
    /// The commit at which this was measured, if it was kept from there; see [`carry`].
    pub stale: Option<String>,
    /// How it compares with what could have been kept in its place.
    pub audited: Option<Audited>,
}

/// An iteration that was measured although an earlier result could have been kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Audited {
    /// The commit at which that was measured.
    pub measured_at: String,
    /// Whether passed cases or alerts are others.
    pub differs: bool,
}

/// The functions of iteration `i` in order of their draw: by keyed mix of seed, i and identity.
/// No model is in it, and no text: adding or removing a function changes at most one of the first n.
#[salsa::tracked(returns(clone))]
pub fn ranking(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    i: u32,
) -> Result<Arc<Vec<u32>>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    let seed = settings.seed(db);
    let mut ranked: Vec<(u64, &str, u32)> = sample
        .iter()
        .enumerate()
        .map(|(at, f)| {
            (
                mix::keyed(seed, u64::from(i), f.id.as_bytes()),
                f.id.as_str(),
                at as u32,
            )
        })
        .collect();
    ranked.sort_unstable();
    Ok(Arc::new(ranked.into_iter().map(|(_, _, at)| at).collect()))
}

/// The set of an iteration: the functions drawn, and what replaces those that are replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set {
    drawn: Vec<u32>,
    applied: Vec<u32>,
    replacements: Vec<Replacement>,
    identity: Digest,
}

impl Set {
    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.replacements.is_empty()
    }

    /// What identifies it whichever model and index it has, wherever its functions stand: which they
    /// are, their texts, and what replaces them.
    pub fn identity(&self) -> Digest {
        self.identity
    }

    /// The functions drawn and those replaced, as positions in the sample.
    pub fn positions(&self) -> (Vec<u32>, Vec<u32>) {
        (self.drawn.clone(), self.applied.clone())
    }

    /// One function replaced, drawn for no iteration.
    pub fn of_one(replacement: Replacement) -> Set {
        Set {
            drawn: Vec::new(),
            applied: Vec::new(),
            replacements: vec![replacement],
            identity: Digest([0; 32]),
        }
    }
}

/// Which functions iteration `i` of a model replaces, and by what.
#[salsa::tracked(returns(clone))]
pub fn set(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
    i: u32,
) -> Result<Arc<Set>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    let ranking = ranking(db, settings, subject, i)?;
    let n = subject.rules(db).scoring.functions_per_iteration as usize;
    let case = |at: u32| {
        let f = FunctionArg::new(db, sample[at as usize].clone());
        case::case(db, settings, subject, model, f)
    };
    let mut chosen: Vec<(u32, Arc<Case>)> = Vec::new();
    match scoring {
        Scoring::Paired => {
            let drawn = &ranking[..n.min(ranking.len())];
            chosen.extend(fold(drawn.iter().map(|at| Ok((*at, case(*at)?))))?);
        }
        Scoring::Paper => {
            // Walk in blocks of what is still needed, so that what is missing is asked for at once.
            let mut rest = ranking.as_slice();
            while chosen.len() < n && !rest.is_empty() {
                let (block, later) = rest.split_at((n - chosen.len()).min(rest.len()));
                let cases = fold(block.iter().map(|at| Ok((*at, case(*at)?))))?;
                chosen.extend(cases.into_iter().filter(|(_, c)| c.compiles));
                rest = later;
            }
        }
    }
    chosen.sort_by_key(|(at, _)| *at);
    let mut set = Set {
        drawn: Vec::new(),
        applied: Vec::new(),
        replacements: Vec::new(),
        identity: Digest([0; 32]),
    };
    let mut members = BTreeSet::new();
    for (at, case) in chosen {
        set.drawn.push(at);
        if let (true, Some(variant)) = (case.compiles, case.variant) {
            let function = &sample[at as usize];
            set.applied.push(at);
            set.replacements.push(jobs::replacement(function, variant));
            members.insert((&function.id, function.text, variant));
        }
    }
    set.identity = Digest::of(&artifact::write(&members));
    Ok(Arc::new(set))
}

/// The jobs of a set: its program, unless nothing is replaced, and the shards' runs once the
/// program is known.
pub struct SetJobs {
    /// The program's job.
    pub program: Option<Job>,
    /// What building it gave.
    pub built: Option<ProgramDoc>,
    /// One run per shard; empty when the program does not build.
    pub runs: Vec<Job>,
}

/// Derives the jobs of a set.
pub fn set_jobs(db: &dyn Db, subject: Subject, set: &Set) -> Result<SetJobs, Hold> {
    let mut jobs = SetJobs {
        program: None,
        built: None,
        runs: Vec::new(),
    };
    if !set.replacements.is_empty() {
        let job = jobs::program(db, subject, &set.replacements)?;
        let doc: ProgramDoc = artifact::read(PROGRAM, &db.blob(db.demand(&job)?)?)?;
        let failed = doc.failed.is_some();
        jobs.program = Some(job);
        jobs.built = Some(doc);
        if failed {
            return Ok(jobs);
        }
    }
    let files = jobs.built.as_ref().map_or(&[][..], |doc| &doc.files);
    let program = jobs.program.as_ref();
    let shards = suite(db, subject)?.shards.len();
    jobs.runs = fold((0..shards).map(|at| run(db, subject, at, (program, files), set)))?;
    Ok(jobs)
}

/// The run of a shard on a program, whose key holds all that it opens or that is missing. It starts
/// from what the unchanged subject opens there.
fn run(
    db: &dyn Db,
    subject: Subject,
    at: usize,
    (program, files): (Option<&Job>, &[BuiltFile]),
    set: &Set,
) -> Result<Job, Hold> {
    let shard = &suite(db, subject)?.shards[at];
    let mut base = baseline::reads_of(db, subject, at)?;
    loop {
        let reads = base.with(db, subject, files, &set.replacements)?;
        let job = jobs::run(db, subject, shard, &reads, program.cloned(), 0)?;
        let Ok(output) = db.demand(&job) else {
            // Whoever needs it demands it.
            return Ok(job);
        };
        let opened = read_run(db, output)?.opened;
        if reads.cover(db, &opened)? {
            return Ok(job);
        }
        // What is not in the tree was made by the run itself.
        let there = reads::reads(db, subject, NamesArg::new(db, opened.clone()))?;
        if reads.cover(db, &there.names)? && reads.tells(&opened) {
            return Ok(job);
        }
        let names = reads.and(&opened);
        base = reads::reads(db, subject, NamesArg::new(db, names))?;
    }
}

/// An iteration of a model.
#[salsa::tracked(returns(clone))]
pub fn iteration(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
    i: u32,
) -> Result<Arc<Iteration>, Hold> {
    let set = set(db, settings, subject, model, scoring, i)?;
    let mut iteration = measured(db, settings, subject, scoring, &set);
    if subject.carried(db).is_some() {
        let at = (model, scoring, i);
        iteration = carry::or_kept(db, settings, subject, at, &set, iteration);
    }
    iteration.map(Arc::new)
}

/// What comes of replacing a set: built, tested, watched.
pub fn measured(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    scoring: Scoring,
    set: &Set,
) -> Result<Iteration, Hold> {
    // What is missing of the baseline must not hide what is missing of the iteration.
    let baseline = baseline::baseline(db, settings, subject);
    let jobs = set_jobs(db, subject, set);
    let runs = jobs.and_then(|jobs| Ok((fold(jobs.runs.iter().map(|job| db.demand(job)))?, jobs)));
    let (baseline, (runs, jobs)) = match (baseline, runs) {
        (Ok(baseline), Ok(runs)) => (baseline, runs),
        (baseline, runs) => {
            let mut hold = baseline.err().unwrap_or_default();
            hold.merge(&runs.err().unwrap_or_default());
            return Err(hold.settle());
        }
    };
    let mut out = Iteration {
        drawn: set.drawn.clone(),
        applied: set.applied.clone(),
        passed: 0,
        total: 0,
        na: None,
        outcomes: BTreeMap::new(),
        alerts: BTreeMap::new(),
        unread: 0,
        stale: None,
        audited: None,
    };
    if let Some(failed) = jobs.built.and_then(|doc| doc.failed) {
        out.total = counted(&baseline, scoring);
        out.na = Some(failed.error.unwrap_or(failed.ended));
        return Ok(out);
    }
    let tests = &subject.rules(db).tests;
    let shards = suite(db, subject)?;
    let mut heard = false;
    for (at, output) in runs.into_iter().enumerate() {
        let run = read_run(db, output)?;
        let reports = read_reports(db, tests, &shards.shards[at], &run)?.reports;
        heard |= !reports.is_empty();
        let expected = baseline::expected(db, settings, subject, at)?;
        let result = logs::fold(&expected, &reports, ended(&run.end));
        let shard = &baseline.shards[at];
        let tally =
            result.tally(|case| scoring == Scoring::Paper || shard.stable_pass.contains(case));
        out.passed += u64::from(tally.passed);
        out.total += u64::from(tally.total());
        let rest = [
            ("failed", tally.failed),
            ("skipped", tally.skipped),
            ("not_run", tally.not_run),
            ("timeout", tally.timeout),
            ("crashed", tally.crashed),
            ("unconfirmed", tally.unconfirmed),
        ];
        for (name, n) in rest.into_iter().filter(|(_, n)| *n > 0) {
            *out.outcomes.entry(name.to_string()).or_default() += u64::from(n);
        }
        let (alerts, unread) = alerts(db, settings, subject, &run, &set.replacements)?;
        out.alerts.extend(alerts);
        out.unread += unread;
    }
    out.alerts.retain(|id, _| !baseline.alerts.contains_key(id));
    if !heard {
        out.na = Some("not one case was reported: the suite did not start, or crashed or hung in its first test".into());
    }
    Ok(out)
}

/// The denominator of a scoring.
pub fn counted(baseline: &baseline::Baseline, scoring: Scoring) -> u64 {
    match scoring {
        Scoring::Paper => baseline.cases(),
        Scoring::Paired => baseline.stable(),
    }
}

impl AlertInfo {
    /// Whether its top frame is in `function`.
    pub fn is_in(&self, function: &population::Function) -> bool {
        lang::is_called(function.language, &self.function, &function.name)
    }
}

/// The alerts in a run's logs, and how many lines no report could be read from. Lines of source
/// are those of the tree with `set` spliced in.
pub fn alerts(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    run: &RunDoc,
    set: &[Replacement],
) -> Result<(BTreeMap<String, AlertInfo>, u64), Hold> {
    let scan = logs::parse_sanitizer(&db.blob(run.sanitizers)?);
    if scan.alerts.is_empty() {
        return Ok((BTreeMap::new(), scan.unparsed.len() as u64));
    }
    let sources = Sources::read(db, settings, subject, &scan.alerts, set)?;
    let own = |file: &str| sources.has(file);
    let mut found = BTreeMap::new();
    for alert in &scan.alerts {
        let alert = sources.placed(alert);
        let id = logs::unique_key(&alert, own, |file, line| sources.line(file, line));
        let top = alert.top_project_frame(own);
        let place = alert
            .location
            .as_ref()
            .filter(|l| own(&l.file))
            .map(|l| (l.file.clone(), l.line))
            .or_else(|| top.and_then(|f| Some((f.file.clone()?, f.line?))));
        let (file, line) = place.unwrap_or_default();
        found.insert(
            id.to_string(),
            AlertInfo {
                sanitizer: format!("{:?}", alert.sanitizer),
                kind: alert.kind.clone(),
                class: alert.class,
                function: top.and_then(|f| f.function.clone()).unwrap_or_default(),
                file: tree_path(&file).unwrap_or(file),
                line,
            },
        );
    }
    Ok((found, scan.unparsed.len() as u64))
}

/// What identifies an iteration's program and runs, for manifests and for `show`, with what they
/// are called: `program`, and `run/` with the shard's name.
pub fn jobs_of(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    scoring: Scoring,
    i: u32,
) -> Result<Vec<(String, Job)>, Hold> {
    let set = set(db, settings, subject, model, scoring, i)?;
    let jobs = set_jobs(db, subject, &set)?;
    let program = jobs.program.map(|job| ("program".to_string(), job));
    let suite = suite(db, subject)?;
    let runs = suite.shards.iter().zip(jobs.runs);
    let runs = runs.map(|(shard, job)| (format!("run/{}", shard.name), job));
    Ok(program.into_iter().chain(runs).collect())
}
