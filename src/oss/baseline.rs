//! The unchanged subject's own results: which cases it has, which of them can be trusted, and which
//! alerts are its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, BaseDoc, EndDoc, RUN, RunDoc};
use super::inputs::{Settings, Subject};
use super::iteration::{self, AlertInfo};
use super::jobs;
use super::population::{self, FlavourArg};
use super::suite::{suite, way_out};
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::job::Job;
use crate::logs::{self, BaselineError, Ended, Expected, Log, Reading};
use crate::oss::layout::TREE;
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

/// The runs of the unchanged subject's tests: the shard's place in the suite, the repeat, the job.
pub fn runs(db: &dyn Db, subject: Subject) -> Result<Vec<(usize, u32, Job)>, Hold> {
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let files = files_identity(&doc, &[]);
    let mut runs = Vec::new();
    for (at, shard) in suite(db, subject)?.shards.iter().enumerate() {
        for repeat in 0..RUNS {
            let job = jobs::run(db, subject, shard, files, None, repeat)?;
            runs.push((at, repeat, job));
        }
    }
    Ok(runs)
}

/// The baseline, from [`RUNS`] runs.
#[salsa::tracked(returns(clone))]
pub fn baseline(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Arc<Baseline>, Hold> {
    let manifest = subject.rules(db);
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let files = files_identity(&doc, &[]);
    let suite = suite(db, subject)?;
    let runs = runs(db, subject)?;
    let outputs = fold(runs.iter().map(|(_, _, job)| db.demand(job)))?;
    let inputs: Vec<Digest> = outputs
        .iter()
        .copied()
        .chain([
            Digest::of(&manifest.parser_part()),
            Digest::of(&manifest.tests_part()),
            files,
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
        return Err(Hold::broken(
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
    Hold::broken(
        what,
        format!(
            "run the unchanged tests by hand; check `[tests]` in the manifest: the commands, the limits, \
             where results are reported and the options of `[tests.parser]`{said}"
        ),
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
                EndDoc::NotStarted(2) => "; its program was not found".to_string(),
                EndDoc::NotStarted(error) => format!("; it did not start: error {error}"),
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

/// The digest of everything that is linked: the base's files with those in `changed` in their place.
pub fn files_identity(base: &BaseDoc, changed: &[artifact::BuiltFile]) -> Digest {
    let linked: BTreeSet<&String> = base
        .steps
        .iter()
        .map(|s| &s.output)
        .filter(|p| !p.ends_with(".a"))
        .collect();
    let mut files: BTreeMap<&String, Digest> = base
        .files
        .iter()
        .filter(|f| linked.contains(&f.path))
        .map(|f| (&f.path, f.digest))
        .collect();
    files.extend(changed.iter().map(|f| (&f.path, f.digest)));
    Digest::of(&artifact::write(&files))
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
