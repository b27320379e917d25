//! Derives the jobs of OSS-Bench: the one place that says what each output depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::artifact::{
    AUDIT, BASE, COVERAGE, FOOTPRINT, PROGRAM, READS, RUN, SOURCE, VERDICT, WARNINGS,
};
use super::environment;
use super::inputs::Subject;
use super::population::{self, FlavourArg, Function, Text};
use super::reads::Reads;
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::job::{Job, JobBuilder, Kind, Value};
use crate::lang::LanguageId;
use crate::oss::artifact::Replacement;
use crate::oss::layout::{BIN, RESULTS_FILE, SCRATCH, TREE};
use crate::subject::{
    Cwd, Flavour, Manifest, Places, REACH_HEADER, REPORT_HEADER, REPORT_HEADER_CPP, Report,
    Selection, Shard, Tools, Unidentified,
};

/// Processes that a subject's own build runs at once. A constant, since it is in the key.
const JOBS: u32 = 4;

/// Fetches a source tree.
pub fn source(manifest: &Manifest) -> Result<Job, Hold> {
    let identity = manifest.source.identity().map_err(|why| {
        let what = match why {
            Unidentified::Directory => "the subject's directory was not read",
            Unidentified::Revision => "the subject's revision was not resolved",
            Unidentified::Version => "the subject's version was not resolved",
        };
        Hold::broken(what, "this is a fault in everbench; please report it")
    })?;
    let job = Job::of(SOURCE);
    Ok(identity
        .into_iter()
        .fold(job, |job, (name, value)| job.put(name, value))
        .done())
}

/// Builds the unchanged subject, as far as the names of the files are known that its build opens:
/// see [`environment`].
pub fn base(db: &dyn Db, subject: Subject, flavour: Flavour) -> Result<Job, Hold> {
    environment::base_job(db, subject, flavour.into())
}

/// An environment as an input.
pub(super) fn pairs(env: &BTreeMap<String, String>) -> Vec<Value> {
    let pair = |(k, v): (&String, &String)| Value::from(vec![k.clone(), v.clone()]);
    env.iter().map(pair).collect()
}

/// Finds out which files of the system a build of the unchanged subject opens.
#[salsa::tracked(returns(clone))]
pub fn footprint(db: &dyn Db, subject: Subject, flavour: FlavourArg) -> Result<Job, Hold> {
    Ok(building(db, subject, flavour, FOOTPRINT)?.done())
}

/// Builds the unchanged subject in this environment: the canonical bytes of files and digests. The
/// job that found their names goes along, since it may have done the work.
pub(super) fn base_in(
    db: &dyn Db,
    subject: Subject,
    flavour: FlavourArg,
    footprint: &Job,
    environment: Vec<u8>,
) -> Result<Job, Hold> {
    Ok(building(db, subject, flavour, BASE)?
        .blob("environment", environment)
        .material("footprint", footprint.clone())
        .done())
}

/// All that a build of the unchanged subject is made from.
fn building(
    db: &dyn Db,
    subject: Subject,
    flavour: FlavourArg,
    kind: Kind,
) -> Result<JobBuilder, Hold> {
    let flavour = Flavour::from(flavour);
    let manifest = subject.rules(db);
    let (tree, snapshot) = population::snapshot(db, subject)?;
    let tool = |name: &str| format!("{BIN}/{name}");
    let plan = manifest.plan(
        flavour,
        &Tools {
            cc: tool("cc"),
            cxx: tool("c++"),
            ar: tool("ar"),
            ranlib: tool("ranlib"),
            jobs: JOBS,
        },
    );
    let lists = |commands: Vec<Vec<String>>| {
        commands
            .into_iter()
            .map(Value::from)
            .collect::<Vec<Value>>()
    };
    let harness = match manifest.tests.report {
        Report::Results => manifest.tests.harness.patterns().to_vec(),
        Report::Stdout | Report::File => Vec::new(),
    };
    let mut job = Job::of(kind)
        .put("snapshot", tree)
        .put("flavour", flavour.name())
        .put("configure", lists(plan.configure))
        .put("build", lists(plan.build))
        .put("env", pairs(&plan.env))
        .put("harness", harness)
        .put(
            "generated",
            manifest.functions.generated.patterns().to_vec(),
        )
        .blob("toolchain", subject.toolchain(db).clone());
    if flavour == Flavour::Sanitized && manifest.sanitizers.reach {
        job = job.blob("reach-header", REACH_HEADER.as_bytes().to_vec());
    }
    if manifest.tests.report == Report::Results {
        job = job.blob("report-header", REPORT_HEADER.as_bytes().to_vec());
        // The other header is part of what is built only where a test program is in C++.
        let cpp = |path: &&String| {
            manifest.functions.language_of(path) == Some(LanguageId::CPP)
                && matches!(manifest.selection(path), Selection::Harness(_))
        };
        if snapshot.files.keys().find(cpp).is_some() {
            job = job.blob("report-header-c++", REPORT_HEADER_CPP.as_bytes().to_vec());
        }
    }
    Ok(job)
}

/// The verdict on `variant` in place of `function`. The base that it is put into is no input of the
/// job, and which base that is changes with every edit of the tree: it is looked at only when
/// the verdict is missing, so that a known one does not hang on it.
pub fn demand_verdict(
    db: &dyn Db,
    subject: Subject,
    function: &Function,
    original: Arc<[u8]>,
    variant: Arc<[u8]>,
) -> Result<Digest, Hold> {
    let job = bare_verdict(db, subject, function, original, variant)?;
    demand_on_base(db, subject, job)
}

fn demand_on_base(db: &dyn Db, subject: Subject, job: Job) -> Result<Digest, Hold> {
    match db.demand(&job) {
        Err(hold) if !hold.jobs().is_empty() => {
            let base = base(db, subject, Flavour::Plain)?;
            Err(Hold::missing(job.with_material("base", base)))
        }
        known => known,
    }
}

/// The flags under which warnings are counted; part of the job's key.
pub const WARNING_FLAGS: [&str; 2] = ["-Wall", "-Wextra"];

/// What the compiler warns of in `text` in place of `function`, whose own text is `original`.
pub fn warnings(
    db: &dyn Db,
    subject: Subject,
    function: &Function,
    original: Arc<[u8]>,
    text: Arc<[u8]>,
) -> Job {
    replacing(WARNINGS, function, original, text)
        .put("contexts", contexts(function))
        .put("flags", WARNING_FLAGS.map(str::to_string).to_vec())
        .blob("toolchain", subject.toolchain(db).clone())
        .done()
}

/// [`warnings`], demanded: the base it is worked on in is looked at only when it is missing.
pub fn demand_warnings(
    db: &dyn Db,
    subject: Subject,
    function: &Function,
    original: Arc<[u8]>,
    text: Arc<[u8]>,
) -> Result<Digest, Hold> {
    demand_on_base(db, subject, warnings(db, subject, function, original, text))
}

/// Decides whether the subject builds with `variant` in place of `function`.
pub fn verdict(
    db: &dyn Db,
    subject: Subject,
    function: &Function,
    original: Arc<[u8]>,
    variant: Arc<[u8]>,
) -> Result<Job, Hold> {
    let base = base(db, subject, Flavour::Plain)?;
    let job = bare_verdict(db, subject, function, original, variant)?;
    Ok(job.with_material("base", base))
}

/// [`verdict`] without the base it is worked on in: all that identifies it.
fn bare_verdict(
    db: &dyn Db,
    subject: Subject,
    function: &Function,
    original: Arc<[u8]>,
    variant: Arc<[u8]>,
) -> Result<Job, Hold> {
    let job = replacing(VERDICT, function, original, variant)
        .put("contexts", contexts(function))
        .put("link", population::link_context(db, subject)?)
        // Headers are in the contexts: what matters of them is in the units' texts.
        .blob(
            "environment",
            environment::link(db, subject, FlavourArg::Plain)?,
        )
        .blob("toolchain", subject.toolchain(db).clone());
    Ok(job.done())
}

/// The places in which a function is compiled, as they stand in a key.
fn contexts(function: &Function) -> Vec<Value> {
    function
        .contexts
        .iter()
        .map(|c| {
            Value::List(vec![
                c.stripped.into(),
                c.macros.into(),
                i64::from(c.order).into(),
                c.command.into(),
            ])
        })
        .collect()
}

/// The same question, put to the subject's own build.
pub fn audit(
    db: &dyn Db,
    subject: Subject,
    function: &Function,
    original: Arc<[u8]>,
    variant: Arc<[u8]>,
) -> Result<Job, Hold> {
    let (doc, _) = population::base(db, subject, FlavourArg::Plain)?;
    let job = replacing(AUDIT, function, original, variant)
        .put("base", doc)
        .blob(
            "environment",
            environment::link(db, subject, FlavourArg::Plain)?,
        )
        .blob("toolchain", subject.toolchain(db).clone())
        .material("base", base(db, subject, Flavour::Plain)?);
    Ok(job.done())
}

fn replacing(
    kind: Kind,
    function: &Function,
    original: Arc<[u8]>,
    variant: Arc<[u8]>,
) -> JobBuilder {
    let replacement = replacement(function, Digest::of(&variant));
    debug_assert_eq!(function.text, Digest::of(&original));
    Job::of(kind)
        .preimage(replacement.original, original)
        .preimage(replacement.variant, variant)
        .put("replace", replacement.to_value())
}

/// What goes where.
pub fn replacement(function: &Function, variant: Digest) -> Replacement {
    Replacement {
        path: function.path.clone(),
        name: function.name.clone(),
        ordinal: function.ordinal,
        original: function.text,
        variant,
        language: function.language,
        queries: function.queries,
    }
}

/// Builds the sanitized subject with a set of functions replaced. The variants are in the store:
/// each has a verdict. Where in its file a function stands is in the key only if a variant may tell.
pub fn program(db: &dyn Db, subject: Subject, set: &[Replacement]) -> Result<Job, Hold> {
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let paths: BTreeSet<&String> = set.iter().map(|r| &r.path).collect();
    let mut units: Vec<Value> = Vec::new();
    for unit in &doc.units {
        if !unit.reads.iter().any(|path| paths.contains(path)) {
            continue;
        }
        let language = population::language_of(subject.rules(db), unit);
        let text = Text::new(db, unit.preprocessed);
        let mut parts: Vec<Value> = vec![
            unit.object.as_str().into(),
            population::substance(db, language, text)?.digest.into(),
        ];
        let inside = set.iter().filter(|r| unit.reads.contains(&r.path));
        for replacement in inside {
            let variant = Text::new(db, replacement.variant);
            if population::is_positional(db, language, variant, text)? {
                parts.push(unit.preprocessed.into());
                break;
            }
        }
        units.push(Value::List(parts));
    }
    let set: Vec<Value> = set.iter().map(Replacement::to_value).collect();
    Ok(Job::of(PROGRAM)
        .put("base", population::skeleton(db, subject)?)
        .put("units", units)
        .put("set", set)
        // A base that links to the same bytes as before does not say that a variant does.
        .blob(
            "environment",
            environment::link(db, subject, FlavourArg::Sanitized)?,
        )
        .blob("toolchain", subject.toolchain(db).clone())
        .material("base", base(db, subject, Flavour::Sanitized)?)
        .done())
}

/// Runs one shard of the tests. `reads` is what it may open of the tree, with the files of `program`
/// in it; `program` is absent for the unchanged subject.
pub fn run(
    db: &dyn Db,
    subject: Subject,
    shard: &Shard,
    reads: &Reads,
    program: Option<Job>,
    repeat: u32,
) -> Result<Job, Hold> {
    let products = reads.products.iter().map(|(path, product)| {
        let told: Vec<Value> = vec![path.as_str().into(), product.digest.into()];
        let lists = product.lists.iter().map(|list| (*list).into());
        Value::List(told.into_iter().chain(lists).collect())
    });
    let mut job = watched(db, subject, RUN, shard)?
        .blob("reads", reads.held.clone())
        .put("products", products.collect::<Vec<Value>>())
        .blob(
            "environment",
            environment::of_run(db, subject, FlavourArg::Sanitized, shard)?,
        )
        .put("repeat", i64::from(repeat));
    if let Some(program) = program {
        job = job.material("program", program);
    }
    Ok(job.done())
}

/// Runs one shard of the tests on the unchanged subject to learn what it opens. Nothing of the tree
/// is in the key: the answer is where [`super::reads`] start, whatever it is.
pub fn first_run(db: &dyn Db, subject: Subject, shard: &Shard) -> Result<Job, Hold> {
    Ok(watched(db, subject, READS, shard)?.done())
}

/// A run in the sanitized flavour, without what is run.
fn watched(db: &dyn Db, subject: Subject, kind: Kind, shard: &Shard) -> Result<JobBuilder, Hold> {
    let options = subject.rules(db).sanitizers.options.clone();
    let job = test_run(db, subject, kind, FlavourArg::Sanitized, shard, options)?;
    Ok(job.put("leaks", subject.rules(db).sanitizers.leaks))
}

/// Runs one shard of the tests on the unchanged subject and counts the lines that it executes.
pub fn coverage(db: &dyn Db, subject: Subject, shard: &Shard) -> Result<Job, Hold> {
    let (base, _) = population::base(db, subject, FlavourArg::Coverage)?;
    let (tree, _) = population::snapshot(db, subject)?;
    let (none, flavour) = (BTreeMap::new(), FlavourArg::Coverage);
    Ok(test_run(db, subject, COVERAGE, flavour, shard, none)?
        .put("base", base)
        // Tests may read any file of the source tree.
        .put("snapshot", tree)
        .blob(
            "environment",
            environment::of_run(db, subject, flavour, shard)?,
        )
        .blob("toolchain", subject.toolchain(db).clone())
        .done())
}

/// A run of a shard, without what is run.
fn test_run(
    db: &dyn Db,
    subject: Subject,
    kind: Kind,
    flavour: FlavourArg,
    shard: &Shard,
    options: BTreeMap<String, String>,
) -> Result<JobBuilder, Hold> {
    let manifest = subject.rules(db);
    let places = Places {
        tree: TREE,
        results: RESULTS_FILE,
        scratch: SCRATCH,
    };
    let argv: Vec<String> = shard.argv.iter().map(|a| shard.text(a, places)).collect();
    let own = shard
        .env
        .iter()
        .map(|(name, value)| (name.clone(), shard.text(value, places)));
    let env: Vec<Value> = own
        .chain(options)
        .map(|(name, value)| Value::from(vec![name, value]))
        .collect();
    let limits = shard.limits;
    Ok(Job::of(kind)
        .put("argv", argv)
        .put(
            "cwd",
            match &shard.cwd {
                Cwd::Tree(path) => path.as_str(),
                Cwd::Scratch => SCRATCH,
            },
        )
        .put("env", env)
        .put("report", manifest.tests.report.name())
        .put("scratch", shard.needs_scratch())
        .put("writable", shard.writable.clone())
        .put("cpu-seconds", i64::from(limits.cpu_seconds))
        .put("wall-seconds", i64::from(limits.wall_seconds))
        .put("memory-mib", i64::from(limits.memory_mib))
        .put("scratch-mib", i64::from(limits.scratch_mib))
        .put("processes", i64::from(limits.processes))
        .put("file-mib", i64::from(limits.file_mib))
        .material("base", base(db, subject, flavour.into())?))
}
