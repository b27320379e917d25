//! Builds the unchanged subject in one flavour with its own commands, records them, and keeps the
//! tree for everything that is replayed on it later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::footprint::{self, Kept, environment_of, sound};
use super::products::{Made, Products, products};
use super::runner::{Call, Workshop, compiler_limits, end_doc, host, stable_log};
use super::{Bind, Limits, Sandbox, Status};
use super::{commands, examine, placeless, recorder};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::logs::first_error;
use crate::oss::artifact::{self, BaseDoc, BrokenBuild, BuiltFile, Step, Unit, Untracked};
use crate::oss::layout::RECORD;
use crate::source;
use crate::subject::{COUNTS, Flavour};

/// Runs jobs of kind `oss/base`.
pub struct BaseBuild(pub Arc<Workshop>);

impl Executor for BaseBuild {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let shop = &self.0;
        let lock = shop.trees.lock(&job.key().0);
        let _making = lock.lock().expect("nothing panics while it holds the lock");
        let footprint = job.material("footprint").key();
        let environment = environment_of(job, context)?;
        let kept = match shop.kept.take(footprint, &environment) {
            Some(kept) => kept,
            None => Kept::new(shop, sound(shop, build(shop, job, context)?)?)?,
        };
        if kept.is_closed_in(&environment) {
            return keep(shop, job, kept.into_built());
        }
        // It opened what is not in its key: only the names count, and the base that has them all in
        // its key takes the build over.
        let bytes = artifact::write(&kept.built().doc);
        shop.kept.put(footprint, kept);
        Ok(Output {
            bytes,
            blobs: vec![],
        })
    }

    fn cores(&self) -> usize {
        usize::MAX
    }
}

/// The tree of a base that is in the store: made again if it is not on this disk any more, and
/// then only accepted if it is the same in every file that a command wrote.
pub fn tree(shop: &Workshop, job: &Job, context: &Context<'_>) -> Result<PathBuf, Failure> {
    let place = shop.trees.base(&job.key().0);
    let lock = shop.trees.lock(&job.key().0);
    let _making = lock.lock().expect("nothing panics while it holds the lock");
    if !place.exists() {
        let built = build(shop, job, context)?;
        let again = keep(shop, job, built)?;
        if !is_known(job, &again.bytes, context)? {
            super::trees::remove_dir(&place).map_err(host("removing a build tree"))?;
            return Err(Failure::Fatal {
                what: "building the unchanged subject again gave other files than the first time"
                    .into(),
                help:
                    "the subject's build is not reproducible (a time or a random number in it?), or \
                       finds other files of the system than then; use a fresh store, or keep its \
                       folder `trees`"
                        .into(),
            });
        }
    }
    Ok(place)
}

/// Whether the stored document of `job`, if there is one, says the same as `again`. What the build
/// has left besides its products is not compared: it is only read.
fn is_known(job: &Job, again: &[u8], context: &Context<'_>) -> Result<bool, Failure> {
    let Some(known) = (context.output)(job)? else {
        return Ok(true);
    };
    let products = |bytes: &[u8]| {
        let mut doc: BaseDoc = serde_json::from_slice(bytes).ok()?;
        doc.others.clear();
        Some(doc)
    };
    Ok(known == Digest::of(again) || products(&(context.blob)(known)?) == products(again))
}

/// A build of the unchanged subject.
pub struct Built {
    /// What came of it.
    pub doc: BaseDoc,
    blobs: Vec<Vec<u8>>,
    /// Holds the tree.
    scratch: tempfile::TempDir,
}

fn keep(shop: &Workshop, job: &Job, built: Built) -> Result<Output, Failure> {
    let Built {
        doc,
        blobs,
        scratch,
    } = built;
    if doc.broken.is_none() {
        let place = shop.trees.base(&job.key().0);
        shop.trees
            .adopt(&scratch.path().join("tree"), &place)
            .map_err(host("keeping a build tree"))?;
    }
    Ok(Output {
        bytes: artifact::write(&doc),
        blobs,
    })
}

/// Builds the unchanged subject as `job` says, a base or a footprint.
pub fn build(shop: &Workshop, job: &Job, context: &Context<'_>) -> Result<Built, Failure> {
    let scratch = shop
        .trees
        .scratch()
        .map_err(host("making a scratch folder"))?;
    let tree = scratch.path().join("tree");
    write_snapshot(job.digest("snapshot"), &tree, context)?;
    let record = scratch.path().join("record");
    std::fs::create_dir(&record).map_err(host("making a scratch folder"))?;
    hand_over(shop, &tree)?;
    hand_over(shop, &record)?;

    let mut blobs = Vec::new();
    if let Some(broken) = run_phases(
        shop,
        job,
        context,
        (&tree, &record),
        &["configure", "build"],
        recorder::RECORDING,
        &mut blobs,
    )? {
        let doc = BaseDoc {
            broken: Some(broken),
            ..BaseDoc::default()
        };
        return Ok(Built {
            doc,
            blobs,
            scratch,
        });
    }
    // From here on nothing inside the sandbox can write to the tree.
    Sandbox::reclaim(&tree).map_err(host("taking the build tree back"))?;
    let snapshot = snapshot(job.digest("snapshot"), context)?;
    let made = recorded(&record)?;
    let survey = examine::survey(&tree, &snapshot, &made)?;
    let mut products = products(&made, &survey.binaries, &|path| {
        let bytes = std::fs::read(tree.join(path)).ok()?;
        Some(Digest::of(&bytes))
    });
    let mut untracked = std::mem::take(&mut products.untracked);
    untracked.extend(restore(shop, job, context, &tree, &products)?);
    let compiled = products.units.clone();
    let present = compiled
        .into_iter()
        .filter(|u| tree.join(&u.object).exists());
    let env = environment(job);
    let (mut units, headers) =
        examine::units(shop, context, &tree, &env, present.collect(), &mut blobs)?;
    let sources = examine::sources(&tree, &snapshot, &mut units)?;
    untracked.extend(examine::untracked(
        shop, context, &tree, &products, &units, &blobs,
    )?);
    untracked.sort();
    let wanted = texts(job.list("generated"));
    let wanted = crate::subject::Globs::new(wanted).map_err(|(_, e)| Failure::Fatal {
        what: format!("the job's `generated` cannot be used: {e}"),
        help: "this is a fault in everbench; please report it".into(),
    })?;
    let mut generated = Vec::new();
    for (path, file) in sources.generated {
        if wanted.matches(&path) {
            blobs.push(std::fs::read(tree.join(&path)).map_err(host("reading a generated file"))?);
            generated.push(file);
        }
    }
    let asked = |path: &String| generated.iter().any(|file: &BuiltFile| file.path == *path);
    let rewritten = survey.rewritten.into_iter().filter(|p| !asked(p)).collect();
    let opened = footprint::opened(
        shop,
        context,
        &tree,
        (&products.steps, &env),
        headers,
        &mut survey.binaries.keys(),
    )?;
    let outputs: BTreeSet<&String> = units
        .iter()
        .map(|u| &u.object)
        .chain(products.steps.iter().map(|s| &s.output))
        .collect();
    let files: Vec<BuiltFile> = outputs
        .iter()
        .filter_map(|path| receipt(&tree, path))
        .collect();
    // Tests run in this flavour only; what they may read is of no use in others.
    let others = match job.text("flavour") == Flavour::Sanitized.name() {
        true => survey.others,
        false => BTreeMap::new(),
    };
    let others = others
        .into_iter()
        .filter(|(path, _)| !outputs.contains(path))
        .collect();
    Ok(Built {
        doc: BaseDoc {
            broken: None,
            placeless: is_placeless(job),
            units,
            steps: products.steps,
            files,
            copies: sources.copies,
            generated,
            rewritten,
            untracked,
            env,
            opened,
            others,
        },
        blobs,
        scratch,
    })
}

/// Gives a folder to the sandboxed user.
pub fn hand_over(shop: &Workshop, path: &Path) -> Result<(), Failure> {
    shop.sandbox
        .hand_over(path)
        .map_err(host("giving a folder to the sandboxed user"))
}

/// Writes the files of a snapshot in the store to `dest`.
pub fn write_snapshot(digest: Digest, dest: &Path, context: &Context<'_>) -> Result<(), Failure> {
    let snapshot = snapshot(digest, context)?;
    // The blob that could not be had, if any, says more than the tree writer's own error.
    let mut cause = None;
    let result = source::write_tree(
        &snapshot,
        |d: &Digest| (context.blob)(*d).map_err(|e| cause = Some(e)).ok(),
        dest,
    );
    match (result, cause) {
        (_, Some(cause)) => Err(cause),
        (Err(e), None) => Err(Failure::Transient(e.to_string())),
        (Ok(()), None) => Ok(()),
    }
}

/// Reads a snapshot's list of files.
pub fn snapshot(digest: Digest, context: &Context<'_>) -> Result<source::Snapshot, Failure> {
    let bytes = (context.blob)(digest)?;
    source::Snapshot::decode(&bytes).map_err(|e| Failure::Fatal {
        what: format!("snapshot {digest} cannot be read: {e}"),
        help: "run `everbench store verify`".into(),
    })
}

/// Runs commands of the base `job` in another tree, as the project itself would: nothing is
/// recorded or taken apart.
pub fn rebuild(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    places: (&Path, &Path),
    phases: &[&str],
    blobs: &mut Vec<Vec<u8>>,
) -> Result<Option<BrokenBuild>, Failure> {
    run_phases(shop, job, context, places, phases, recorder::WHOLE, blobs)
}

/// Runs the subject's own commands of the given phases in `tree`; the recording tools write to
/// the folder `record`.
fn run_phases(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    (tree, record): (&Path, &Path),
    phases: &[&str],
    mode: &str,
    blobs: &mut Vec<Vec<u8>>,
) -> Result<Option<BrokenBuild>, Failure> {
    let (mut binds, mut env) = shop.recording();
    binds.push(Bind {
        host: record.to_path_buf(),
        inside: RECORD.into(),
        writable: true,
    });
    env.extend(environment(job));
    if job.text("flavour") == Flavour::Coverage.name() {
        // For programs that are run while it is configured and built; nothing is read from it.
        let counts = record.with_file_name("counts");
        std::fs::create_dir_all(&counts).map_err(host("making a folder for counts"))?;
        hand_over(shop, &counts)?;
        binds.push(Bind {
            host: counts,
            inside: COUNTS.into(),
            writable: true,
        });
    }
    for phase in phases {
        let mut env = env.clone();
        if *phase == "build" {
            env.insert(recorder::ACTIVE.into(), mode.into());
            if mode == recorder::RECORDING && is_placeless(job) {
                env.insert(placeless::PLACELESS.into(), placeless::AFTER.into());
            }
            if job.inputs().contains_key("reach-header") {
                env.insert(recorder::REACH.into(), "1".into());
            }
            let globs = texts(job.list("harness"));
            if !globs.is_empty() {
                env.insert(recorder::HARNESS.into(), globs.join("\n"));
            }
        }
        for command in job.list(phase) {
            let Value::List(words) = command else {
                continue;
            };
            let argv = texts(words);
            let shown = argv.join(" ");
            let call = Call {
                tree_writable: true,
                binds: binds.clone(),
                env: env.clone(),
                limits: build_limits(),
                ..Call::on(tree, argv)
            };
            let ended = shop.run(&call, context)?;
            if ended.status != Status::Exited(0) {
                let log = stable_log(&[ended.stdout, ended.stderr].concat());
                let broken = BrokenBuild {
                    command: shown,
                    ended: describe(&ended.status),
                    error: first_error(&log).map(|e| e.to_string()),
                    log: Digest::of(&log),
                };
                blobs.push(log);
                return Ok(Some(broken));
            }
        }
    }
    Ok(None)
}

/// Whether objects are made without places: only what is run with sanitizers tells where it is.
fn is_placeless(job: &Job) -> bool {
    job.text("flavour") == Flavour::Sanitized.name()
}

/// The environment that the subject's manifest gives its build. Recorded commands are run again in
/// it: `SOURCE_DATE_EPOCH` is in what they make, and `CPATH` decides whether they can.
pub fn environment(job: &Job) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for pair in job.list("env") {
        if let Value::List(pair) = pair
            && let [Value::Text(name), Value::Text(value)] = pair.as_slice()
        {
            env.insert(name.clone(), value.clone());
        }
    }
    env
}

fn build_limits() -> Limits {
    Limits {
        cpu: Duration::from_secs(4 * 3600),
        wall: Duration::from_secs(2 * 3600),
        memory: 8 << 30,
        processes: 512,
        output: 64 << 20,
        disk: 16 << 30,
        ..compiler_limits()
    }
}

/// `exit status 2`, `signal 11`, `limit: cpu`.
pub fn describe(status: &Status) -> String {
    match end_doc(status) {
        artifact::EndDoc::Exit(code) => format!("exit status {code}"),
        artifact::EndDoc::Signal(signal) => format!("signal {signal}"),
        artifact::EndDoc::Limit(limit) => format!("limit: {limit}"),
        artifact::EndDoc::NotStarted(2) => "not started: no such program".into(),
        artifact::EndDoc::NotStarted(errno) => format!("not started: error {errno}"),
    }
}

/// The texts in a list.
pub(super) fn texts(values: &[Value]) -> Vec<String> {
    let text = |value: &'_ Value| -> Option<String> {
        match value {
            Value::Text(s) => Some(s.clone()),
            _ => None,
        }
    };
    values.iter().filter_map(text).collect()
}

/// What the recording tools wrote down.
fn recorded(record: &Path) -> Result<Vec<Made>, Failure> {
    let text = match std::fs::read_to_string(record.join("commands")) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(host("reading the recorded commands")(e)),
    };
    let read = |line: &str| {
        serde_json::from_str(line).map_err(|e| Failure::Fatal {
            what: format!("a recorded command cannot be read: {e}: {line}"),
            help: "this is a fault in everbench; please report it".into(),
        })
    };
    text.lines().map(read).collect()
}

/// Makes again what the build has thrown away and what its products are made of, and puts it into
/// the tree. What cannot be made again as it was is told.
fn restore(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    tree: &Path,
    products: &Products,
) -> Result<Vec<Untracked>, Failure> {
    let mut untracked = Vec::new();
    let scratch = shop
        .trees
        .scratch()
        .map_err(host("making a scratch folder"))?;
    let out = scratch.path();
    let lost = |path: &str| products.lost.contains_key(path);
    let compile = |unit: &Unit| {
        let argv = commands::compile_to(unit, &commands::out_path(&unit.object));
        let placeless = is_placeless(job) && unit.placed.is_none();
        (
            unit.object.clone(),
            placeless::compiler(shop, &unit.tool, placeless),
            unit.cwd.clone(),
            argv,
        )
    };
    let make = |step: &Step| {
        let argv = commands::retarget(step);
        (
            step.output.clone(),
            placeless::compiler(shop, &step.tool, false),
            step.cwd.clone(),
            argv,
        )
    };
    let units = products
        .units
        .iter()
        .filter(|u| lost(&u.object))
        .map(compile);
    let steps = products.steps.iter().filter(|s| lost(&s.output)).map(make);
    for (path, tool, cwd, args) in units.chain(steps) {
        let file = out.join(&path);
        let folder = file.parent().expect("a path in a folder has a parent");
        std::fs::create_dir_all(folder).map_err(host("making a scratch folder"))?;
        hand_over(shop, out)?;
        let mut env = environment(job);
        env.extend(tool.env);
        let call = Call {
            cwd,
            out: Some(out),
            binds: tool.binds,
            env,
            ..Call::on(tree, [vec![tool.program], args].concat())
        };
        shop.run(&call, context)?;
        // What is made in several steps goes on from here; the tree has the last state.
        if let Ok(bytes) = std::fs::read(&file) {
            let place = tree.join(&path);
            let folder = place.parent().expect("a path in a folder has a parent");
            std::fs::create_dir_all(folder).map_err(host("keeping an object"))?;
            std::fs::write(place, bytes).map_err(host("keeping an object"))?;
        }
    }
    for (path, digest) in &products.lost {
        if receipt(tree, path).is_some_and(|file| file.digest == *digest) {
            continue;
        }
        let feeds = |object: &String| {
            object == path
                || commands::reached(&products.steps, std::slice::from_ref(object))
                    .iter()
                    .any(|s| s.output == *path)
        };
        let objects = products.units.iter().map(|u| &u.object);
        untracked.push(Untracked {
            path: path.clone(),
            reason: "the build threw it away, and it cannot be made again as it was".into(),
            units: objects.filter(|o| feeds(o)).cloned().collect(),
        });
    }
    Ok(untracked)
}

/// What a file holds, for the receipt.
pub fn receipt(root: &Path, path: &str) -> Option<BuiltFile> {
    let bytes = std::fs::read(root.join(path)).ok()?;
    Some(BuiltFile {
        path: path.to_string(),
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    })
}
