//! The unchanged subject's own results: which cases it has, which of them can be trusted, and which
//! alerts are its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, EndDoc, READS, RUN, RunDoc};
use super::environment;
use super::inputs::{Settings, Subject};
use super::iteration::{self, AlertInfo};
use super::jobs;
use super::layout::{self, TREE};
use super::population::{self, FlavourArg};
use super::reads::{self, Names, NamesArg, ROUNDS, Reads};
use super::suite::{suite, way_out};
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::job::Job;
use crate::logs::{self, BaselineError, Ended, Expected, Log, Reading};
use crate::subject::{GroupCount, Report, Shard, Suite, Tests};

/// How often the unchanged subject is run.
pub const RUNS: u32 = 3;

/// What iterations are measured against.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Baseline {
    /// By shard, in the suite's order.
    pub shards: Vec<logs::Baseline>,
    /// The alerts of the unchanged subject, which no model is charged with.
    pub alerts: BTreeMap<String, AlertInfo>,
    /// Pass rate of each run, cases that were skipped left out.
    pub pass_rates: Vec<(u64, u64)>,
    /// What became of the groups of files.
    pub groups: Vec<GroupCount>,
}

impl Baseline {
    fn count(&self, of: impl Fn(&logs::Baseline) -> usize) -> u64 {
        self.shards.iter().map(|s| of(s) as u64).sum()
    }

    /// Cases that passed in every run.
    pub fn stable(&self) -> u64 {
        self.count(|s| s.stable_pass.len())
    }

    /// Cases that failed in every run.
    pub fn failing(&self) -> u64 {
        self.count(|s| s.failing.len())
    }

    /// Cases that did not always do the same.
    pub fn flaky(&self) -> u64 {
        self.count(|s| s.flaky.len())
    }

    /// Cases that were skipped in every run.
    pub fn skipped(&self) -> u64 {
        self.count(|s| s.skipped.len())
    }

    /// All cases but the skipped ones: the denominator of `paper`.
    pub fn cases(&self) -> u64 {
        self.stable() + self.failing() + self.flaky()
    }
}

/// The runs of one shard of the unchanged subject, and what they may open.
#[derive(Clone, PartialEq, Eq)]
struct Round {
    reads: Arc<Reads>,
    jobs: Vec<Job>,
    /// Whether they have run and opened nothing else.
    settled: Result<(), Hold>,
}

/// The last runs of a shard that are known to be wanted: those whose key holds what they open, or
/// that are missing. Of several ways to start, one that needs no further run goes first.
#[salsa::tracked(returns(clone))]
fn round(db: &dyn Db, subject: Subject, at: usize) -> Result<Arc<Round>, Hold> {
    // Without it there is nothing to run, and what is wrong with it is to be said.
    population::base(db, subject, FlavourArg::Sanitized)?;
    let shard = &suite(db, subject)?.shards[at];
    let first_run = || -> Result<Names, Hold> {
        let job = jobs::first_run(db, subject, shard)?;
        Ok(read_run(db, db.demand(&job)?)?.opened)
    };
    let remembered = subject.reads(db).get(&shard.name);
    let Some((first, others)) = remembered.and_then(|all| all.split_first()) else {
        return round_from(db, subject, shard, first_run()?);
    };
    let round = round_from(db, subject, shard, first.clone())?;
    if round.settled.is_ok() {
        return Ok(round);
    }
    for names in others {
        let other = round_from(db, subject, shard, names.clone())?;
        if other.settled.is_ok() {
            return Ok(other);
        }
    }
    Ok(round)
}

fn round_from(
    db: &dyn Db,
    subject: Subject,
    shard: &Shard,
    mut names: Names,
) -> Result<Arc<Round>, Hold> {
    for n in 0.. {
        let reads = reads::reads(db, subject, NamesArg::new(db, names.clone()))?;
        let runs = (0..RUNS).map(|r| jobs::run(db, subject, shard, &reads, None, r));
        let runs = runs.collect::<Result<Vec<Job>, Hold>>()?;
        let opened = fold(runs.iter().map(|job| {
            let run = read_run(db, db.demand(job)?)?;
            Ok(run.opened)
        }));
        let round = |settled| {
            Arc::new(Round {
                reads: reads.clone(),
                jobs: runs.clone(),
                settled,
            })
        };
        let opened: Names = match opened {
            Ok(opened) => opened.into_iter().flatten().collect(),
            Err(hold) => return Ok(round(Err(hold))),
        };
        let there = reads::reads(db, subject, NamesArg::new(db, opened.clone()))?;
        let covered = || Ok::<bool, Hold>(reads.cover(db, &there.names)? && reads.tells(&opened));
        if there.names == reads.names || n >= ROUNDS && covered()? {
            return Ok(round(Ok(())));
        }
        names = match n + 1 >= ROUNDS {
            true => reads.and(&opened),
            false => Names::clone(&there.names),
        };
    }
    unreachable!("the names of all rounds together are at most those of the tree")
}

/// What a shard of the unchanged subject opens, once all its runs are known.
#[salsa::tracked(returns(clone))]
pub fn reads_of(db: &dyn Db, subject: Subject, at: usize) -> Result<Arc<Reads>, Hold> {
    let round = round(db, subject, at)?;
    round.settled.clone().map(|()| round.reads.clone())
}

/// A run of the unchanged subject's tests.
pub struct BaselineRun {
    /// The shard's place in the suite.
    pub shard: usize,
    /// Which of [`RUNS`]; none for a run that only tells what the shard opens.
    pub repeat: Option<u32>,
    /// The job.
    pub job: Job,
}

impl BaselineRun {
    /// `baseline/unit/0`: what an evaluation calls it.
    pub fn called(&self, shards: &[Shard]) -> String {
        let shard = &shards[self.shard].name;
        match self.repeat {
            Some(repeat) => format!("baseline/{shard}/{repeat}"),
            None => format!("reads/{shard}"),
        }
    }
}

/// The first runs that told what shards open, as far as there are any: names start from there where
/// nothing is remembered.
pub fn first_runs(db: &dyn Db, subject: Subject) -> Result<Vec<BaselineRun>, Hold> {
    let mut runs = Vec::new();
    for (shard, it) in suite(db, subject)?.shards.iter().enumerate() {
        let job = jobs::first_run(db, subject, it)?;
        if db.demand(&job).is_ok() {
            runs.push(BaselineRun {
                shard,
                repeat: None,
                job,
            });
        }
    }
    Ok(runs)
}

/// The runs of the unchanged subject's tests, as far as they are known to be wanted.
pub fn runs(db: &dyn Db, subject: Subject) -> Result<Vec<BaselineRun>, Hold> {
    let mut runs = Vec::new();
    for shard in 0..suite(db, subject)?.shards.len() {
        match round(db, subject, shard) {
            Ok(round) => runs.extend(round.jobs.iter().zip(0..).map(|(job, repeat)| BaselineRun {
                shard,
                repeat: Some(repeat),
                job: job.clone(),
            })),
            // What it opens is to be learnt first.
            Err(hold) if hold.jobs().iter().any(|job| job.kind() == READS) => {
                let jobs = hold.jobs().iter().filter(|job| job.kind() == READS);
                runs.extend(jobs.map(|job| BaselineRun {
                    shard,
                    repeat: None,
                    job: job.clone(),
                }));
            }
            Err(hold) => return Err(hold),
        }
    }
    Ok(runs)
}

/// The baseline, from [`RUNS`] runs.
#[salsa::tracked(returns(clone))]
pub fn baseline(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Arc<Baseline>, Hold> {
    let manifest = subject.rules(db);
    let suite = suite(db, subject)?;
    let rounds = fold((0..suite.shards.len()).map(|at| {
        let round = round(db, subject, at)?;
        round.settled.clone().map(|()| round)
    }))?;
    let jobs = rounds.iter().flat_map(|round| &round.jobs);
    let outputs = fold(jobs.map(|job| db.demand(job)))?;
    // Where alerts are is read from the source.
    let (tree, _) = population::snapshot(db, subject)?;
    let inputs: Vec<Digest> = outputs
        .iter()
        .copied()
        .chain([
            Digest::of(&manifest.parser_part()),
            Digest::of(&manifest.tests_part()),
            tree,
        ])
        .collect();
    population::recalled(db, "baseline", &inputs, || {
        summarise(db, settings, subject, &suite, &outputs)
    })
    .map(Arc::new)
}

/// The digest of the baseline.
#[salsa::tracked(returns(clone))]
pub fn digest(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Digest, Hold> {
    let baseline = baseline(db, settings, subject)?;
    Ok(Digest::of(&artifact::write(&*baseline)))
}

fn summarise(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    suite: &Suite,
    outputs: &[Digest],
) -> Result<Baseline, Hold> {
    let manifest = subject.rules(db);
    let mut shards = Vec::new();
    let mut alerts = BTreeMap::new();
    let mut pass_rates = vec![(0, 0); RUNS as usize];
    let mut useless = Vec::new();
    let mut first_useless = None;
    let alone = suite.shards.len() == 1;
    for (shard, outputs) in suite.shards.iter().zip(outputs.chunks(RUNS as usize)) {
        let mut runs = Vec::new();
        let mut doubt = None;
        let mut ends = Vec::new();
        for output in outputs {
            let run = read_run(db, *output)?;
            let reading = read_reports(db, &manifest.tests, shard, &run)?;
            doubt = doubt.or(reading.doubts.into_iter().next());
            runs.push((reading.reports, ended(&run.end)));
            alerts.extend(iteration::alerts(db, settings, subject, &run, &[])?.0);
            ends.push(run.end);
        }
        // Whatever the parser makes of a run that never was.
        let not_started = ends.iter().find_map(|end| match end {
            EndDoc::NotStarted(error) => Some(*error),
            _ => None,
        });
        if let Some(error) = not_started {
            first_useless = first_useless.or(Some((shard, outputs[0])));
            useless.push(never_ran(shard, error));
            continue;
        }
        let baseline = match logs::Baseline::from_runs(&runs) {
            Err(BaselineError::NoCases) if shard.may_be_empty => logs::Baseline::of_any(&runs),
            other => other,
        };
        if baseline.is_err() || doubt.is_some() {
            first_useless = first_useless.or(Some((shard, outputs[0])));
        }
        let baseline = match (baseline, doubt) {
            (Ok(baseline), None) => baseline,
            (Ok(_), Some(doubt)) => {
                useless.push(format!(
                    "`{}`: {doubt}: the parser `{}` does not fit its log, or `check-counts = false` is needed",
                    shard.name,
                    manifest.tests.parser.name(),
                ));
                continue;
            }
            (Err(e), _) => {
                useless.push(complaint(shard, alone, manifest.tests.report, &e, &ends));
                continue;
            }
        };
        let expected = baseline.expected();
        for (rate, (reports, ended)) in pass_rates.iter_mut().zip(&runs) {
            let tally = logs::fold(&expected, reports, *ended).tally(|_| true);
            rate.0 += u64::from(tally.passed);
            rate.1 += u64::from(tally.total());
        }
        shards.push(baseline);
    }
    if let Some((shard, output)) = first_useless {
        let said = said(shard, &read_run(db, output)?);
        let of = suite.shards.len();
        return Err(useless_shards(&manifest.name, of, &useless, &said));
    }
    if shards.iter().all(|s| s.stable_pass.is_empty()) {
        let said = match suite.shards.first().zip(outputs.first()) {
            Some((shard, output)) => said(shard, &read_run(db, *output)?),
            None => String::new(),
        };
        return Err(Hold::baseline_broken(
            format!(
                "not one test of the unchanged subject `{}` passes",
                manifest.name
            ),
            format!(
                "a benchmark needs tests that pass; run them by hand and check `[tests]` in the \
                 manifest{said}"
            ),
        ));
    }
    Ok(Baseline {
        shards,
        alerts,
        pass_rates,
        groups: suite.groups.clone(),
    })
}

/// How many shards that are of no use are named.
const NAMED: usize = 20;

/// Where what a run wrote can be read.
fn said(shard: &Shard, run: &RunDoc) -> String {
    let logs: Vec<String> = run
        .written()
        .iter()
        .map(|(what, digest)| format!("\n    {what}: `everbench store cat {}`", digest.short()))
        .collect();
    match logs.as_slice() {
        // What did not start has been said.
        [] if matches!(run.end, EndDoc::NotStarted(_)) => String::new(),
        [] => format!("; `{}` wrote nothing at all", shard.name),
        logs => format!("\n  what `{}` wrote:{}", shard.name, logs.concat()),
    }
}

fn useless_shards(subject: &str, of: usize, useless: &[String], said: &str) -> Hold {
    let mut what = format!(
        "{} of the {of} shards of subject `{subject}` are of no use in the unchanged subject:",
        useless.len()
    );
    for line in useless.iter().take(NAMED) {
        what.push_str("\n  ");
        what.push_str(line);
    }
    if useless.len() > NAMED {
        what.push_str(&format!("\n  and {} more", useless.len() - NAMED));
    }
    Hold::baseline_broken(
        what,
        format!(
            "run the unchanged tests by hand; check `[tests]` in the manifest: the commands, the limits, \
             where results are reported and the options of `[tests.parser]`{said}"
        ),
    )
}

/// That the program of a shard could not be started, and where it was looked for.
fn never_ran(shard: &Shard, error: i32) -> String {
    let (word, path) = environment::called(shard);
    let started = layout::program(&word);
    let wrong = match error {
        2 => "there is none".to_string(),
        8 => "it is no program".to_string(),
        13 => "it may not be executed".to_string(),
        error => format!("error {error}"),
    };
    // The kernel says of a script without its interpreter that the script is not there.
    let script = match error {
        2 => ", or its first line names an interpreter that is not there",
        _ => "",
    };
    let from_root = match error {
        2 => "; a program with a `/` is looked for from the root of the tree, whatever `cwd` is",
        _ => "",
    };
    let how = match layout::in_tree(".", &started) {
        _ if !started.contains('/') => format!(
            "looked for in {path}: {wrong}; one of the tree is written with a `/`, as in `./{word}`"
        ),
        Some(place) => {
            format!("looked for at `{place}` in the built tree: {wrong}{script}{from_root}")
        }
        None => format!("looked for at `{started}` in the sandbox: {wrong}{script}"),
    };
    format!(
        "`{}` did not start its program `{word}`, {how}: mend `argv`, or {}",
        shard.name,
        way_out(shard)
    )
}

/// What is wrong with a shard, and what to do.
fn complaint(
    shard: &Shard,
    alone: bool,
    report: Report,
    error: &BaselineError,
    ends: &[EndDoc],
) -> String {
    let name = &shard.name;
    let out = way_out(shard);
    match error {
        BaselineError::Died { run, .. } => {
            let died = |end: &&EndDoc| !matches!(ended(end), Ended::Exit(_));
            let times = ends.iter().filter(died).count();
            let often = match times == ends.len() {
                true => "always".to_string(),
                false => format!("it is flaky: in {times} of {} runs", ends.len()),
            };
            let (how, todo) = match &ends[*run] {
                EndDoc::Limit(limit) => {
                    let key = match limit.as_str() {
                        "cpu" => "raise `cpu-seconds`",
                        "wall" => "raise `wall-seconds`",
                        "memory" => "raise `memory-mib`",
                        "processes" => "raise `processes`",
                        "disk" => "raise `file-mib` and `scratch-mib`",
                        _ => "let it print less",
                    };
                    (
                        format!("ran into its limit of {limit}"),
                        format!("{key}, or "),
                    )
                }
                EndDoc::Signal(signal) => (format!("was ended by signal {signal}"), String::new()),
                _ => ("did not end".into(), String::new()),
            };
            format!("`{name}` {how} ({often}): {todo}{out}")
        }
        BaselineError::NoCases => {
            let place = match report {
                Report::Stdout => "on stdout and stderr",
                Report::Results => "on the descriptor of the harness",
                Report::File => "in the file `{results}`",
            };
            let end = match &ends[0] {
                EndDoc::Exit(code) => format!("; it left with status {code}"),
                _ => String::new(),
            };
            // A suite of nothing is no way out.
            let out = match alone {
                true => String::new(),
                false => format!(", say `may-be-empty = true`, or {out}"),
            };
            format!("`{name}` reported no case {place}{end}: check its command and the parser{out}")
        }
        BaselineError::TooFewRuns(_) => format!("`{name}`: {error}"),
    }
}

/// A run's document.
pub fn read_run(db: &dyn Db, output: Digest) -> Result<RunDoc, Hold> {
    artifact::read(RUN, &db.blob(output)?)
}

/// What a run's log says of the shard's cases.
pub fn read_reports(
    db: &dyn Db,
    tests: &Tests,
    shard: &Shard,
    run: &RunDoc,
) -> Result<Reading, Hold> {
    let text = match tests.report {
        Report::Results | Report::File => db.blob(run.results)?.to_vec(),
        Report::Stdout => [db.blob(run.stdout)?, db.blob(run.stderr)?].concat(),
    };
    Ok(tests.parser.read(&Log {
        text: &text,
        shard: &shard.name,
        tree: TREE,
        ended: ended(&run.end),
    }))
}

/// How a run ended, as the logs room has it.
pub fn ended(end: &EndDoc) -> Ended {
    match end {
        EndDoc::Exit(code) => Ended::Exit(*code),
        EndDoc::Signal(signal) => Ended::Signal(*signal),
        EndDoc::Limit(_) => Ended::Limit,
        // As a shell says it of a program that cannot be run.
        EndDoc::NotStarted(_) => Ended::Exit(127),
    }
}

/// What a shard's runs are measured against.
#[salsa::tracked(returns(clone))]
pub fn expected(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    shard: usize,
) -> Result<Arc<Expected>, Hold> {
    Ok(Arc::new(
        baseline(db, settings, subject)?.shards[shard].expected(),
    ))
}
