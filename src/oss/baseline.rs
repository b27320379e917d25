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
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::logs::{self, Ended, Expected, LineParser, Report};
use crate::subject::{Manifest, Parser, Report as ReportFrom};

/// How often the unchanged subject is run.
pub const RUNS: u32 = 3;

/// What iterations are measured against.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Baseline {
    /// By shard, in the manifest's order.
    pub shards: Vec<logs::Baseline>,
    /// The alerts of the unchanged subject, which no model is charged with.
    pub alerts: BTreeMap<String, AlertInfo>,
    /// Pass rate of each run, cases that were skipped left out.
    pub pass_rates: Vec<(u64, u64)>,
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

/// The baseline, from [`RUNS`] runs.
#[salsa::tracked(returns(clone))]
pub fn baseline(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Arc<Baseline>, Hold> {
    let manifest = subject.rules(db);
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let files = files_identity(&doc, &[]);
    let mut demanded = Vec::new();
    for shard in &manifest.tests.shards {
        for repeat in 0..RUNS {
            let job = jobs::run(db, subject, shard, files, None, repeat)?;
            demanded.push(db.demand(&job));
        }
    }
    let outputs = fold(demanded)?;
    let inputs: Vec<Digest> = outputs
        .iter()
        .copied()
        .chain([Digest::of(&manifest.parser_part()), files])
        .collect();
    population::recalled(db, "baseline", &inputs, || {
        summarise(db, settings, subject, &outputs)
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
    outputs: &[Digest],
) -> Result<Baseline, Hold> {
    let manifest = subject.rules(db);
    let parser = parser(db, subject)?.0;
    let mut shards = Vec::new();
    let mut alerts = BTreeMap::new();
    let mut pass_rates = vec![(0, 0); RUNS as usize];
    for (shard, outputs) in manifest
        .tests
        .shards
        .iter()
        .zip(outputs.chunks(RUNS as usize))
    {
        let mut runs = Vec::new();
        for output in outputs {
            let run = read_run(db, *output)?;
            runs.push((reports(db, manifest, &parser, &run)?, ended(&run.end)));
            alerts.extend(iteration::alerts(db, settings, subject, &run, &[])?.0);
        }
        let baseline = logs::Baseline::from_runs(&runs).map_err(|e| {
            Hold::broken(
                format!("shard `{}` of subject `{}`: {e}", shard.name, manifest.name),
                "run the unchanged tests by hand; check `[tests]` in the manifest: the commands, the limits \
                 and the patterns of `[tests.parser]`",
            )
        })?;
        let expected = baseline.expected();
        for (rate, (reports, ended)) in pass_rates.iter_mut().zip(&runs) {
            let tally = logs::fold(&expected, reports, *ended).tally(|_| true);
            rate.0 += u64::from(tally.passed);
            rate.1 += u64::from(tally.total());
        }
        shards.push(baseline);
    }
    if shards.iter().all(|s| s.stable_pass.is_empty()) {
        return Err(Hold::broken(
            format!(
                "not one test of the unchanged subject `{}` passes",
                manifest.name
            ),
            "a benchmark needs tests that pass; run them by hand and check `[tests]` in the manifest",
        ));
    }
    Ok(Baseline {
        shards,
        alerts,
        pass_rates,
    })
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

/// A parser of test logs, with the part of the manifest that it was made of; equal when that is.
#[derive(Clone)]
pub struct SharedParser(pub Arc<LineParser>, Vec<u8>);

impl PartialEq for SharedParser {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

/// The manifest's parser of test logs.
#[salsa::tracked(returns(clone))]
pub fn parser(db: &dyn Db, subject: Subject) -> Result<SharedParser, Hold> {
    let manifest = subject.rules(db);
    let Parser::Lines(lines) = &manifest.tests.parser;
    let parser = LineParser::new(&lines.pass, &lines.fail, &lines.skip)
        .map_err(|e| Hold::broken(e.to_string(), "mend `[tests.parser]` in the manifest"))?;
    Ok(SharedParser(Arc::new(parser), manifest.parser_part()))
}

/// What a run reported.
pub fn reports(
    db: &dyn Db,
    manifest: &Manifest,
    parser: &LineParser,
    run: &RunDoc,
) -> Result<Vec<Report>, Hold> {
    let log = match manifest.tests.report {
        ReportFrom::Results => db.blob(run.results)?.to_vec(),
        ReportFrom::Stdout => [db.blob(run.stdout)?, db.blob(run.stderr)?].concat(),
    };
    Ok(parser.parse(&log))
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
