//! Metric II and III: runs one shard of the test suite on a program and brings back, raw, what it
//! reported, what the sanitizers wrote, and which files of the tree it opened.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::opens::{Seen, Watch, link};
use super::reach::entered;
use super::runner::{Call, Workshop, end_doc, host};
use super::writable::Copies;
use super::{Bind, Collected, Ended, Limit, Limits, Status};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::oss::artifact::{self, EVERYTHING, ProgramDoc, READS, RunDoc};
use crate::oss::layout::{
    REACH_FILE, REACH_FOLDER, RESULTS_FILE, SANITIZER_LOG, SCRATCH, TREE, program,
};
use crate::oss::reach;
use crate::oss::reads::LINKS;
use crate::subject::{REPORT_TOKEN, REPORT_TOKEN_LENGTH, Report, reported};

/// The longest report, in bytes. Frames of the descriptor are longer than what they carry.
const RESULTS: u64 = 64 << 20;

/// Runs jobs of kind `oss/run`, and those of kind `oss/reads`, which are the same without a key.
pub struct TestRun(pub Arc<Workshop>);

impl Executor for TestRun {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let same = same_run(job);
        let known: BTreeSet<String> = names_of(job, context)?;
        // The lists of a run that was just made are not in the store yet.
        let covers = |opened: &BTreeSet<String>, lists: &[Vec<u8>]| {
            let own = |digest: Digest| lists.iter().find(|list| Digest::of(list) == digest);
            reach::cover(&known, opened, |digest| match own(digest) {
                Some(list) => Ok(list.as_slice().into()),
                None => (context.blob)(digest),
            })
        };
        let kept = self
            .0
            .runs
            .take(same, |kept| covers(&kept.opened, &kept.output.blobs))?;
        if let Some(kept) = kept {
            // It is this job's run as much as the other's: what such a run takes is known by it.
            context.spent.add(kept.cpu);
            return Ok(kept.output);
        }
        let Tested {
            ended,
            token,
            opened,
            lists,
        } = tested(&self.0, job, context, environment(job), Vec::new(), true)?;
        let output = document(ended, token, opened.clone(), lists);
        let lists = &output.blobs;
        // It opened what is not in its key, or, being the unchanged subject's, less than that: the
        // run that has just these names in its key takes this one over.
        let closed = match job.try_material("program") {
            Some(_) => known.contains(EVERYTHING) || covers(&opened, lists)?,
            None => reach::counted(&known, &opened) == known,
        };
        if !closed {
            let kept = KeptRun {
                opened,
                output: output.clone(),
                cpu: context.spent.total(),
            };
            self.0.runs.put(same, kept);
        }
        Ok(output)
    }
}

/// The names of the tree's files in a run's key.
fn names_of(job: &Job, context: &Context<'_>) -> Result<BTreeSet<String>, Failure> {
    if job.kind() == READS {
        return Ok(BTreeSet::new());
    }
    let bytes = (context.blob)(job.digest("reads"))?;
    let held: BTreeMap<String, Option<Digest>> =
        serde_json::from_slice(&bytes).map_err(|e| Failure::Fatal {
            what: format!("what {job:?} may read cannot be read: {e}"),
            help: "run `everbench store verify`".into(),
        })?;
    let products = job.list("products").iter().filter_map(|pair| match pair {
        Value::List(pair) => match pair.as_slice() {
            [Value::Text(path), _, lists @ ..] => Some((path, lists)),
            _ => None,
        },
        _ => None,
    });
    let products = products.flat_map(|(path, lists)| {
        let lists = lists.iter().filter_map(|list| match list {
            Value::Digest(list) => Some(reach::entry(path, list)),
            _ => None,
        });
        lists.chain([path.clone()]).collect::<Vec<String>>()
    });
    let held = held.into_keys().filter(|name| name != LINKS);
    Ok(held.chain(products).collect())
}

/// What two runs have in common that differ in their keys only by what they may read: all else that
/// is in the key, the tree and the program.
fn same_run(job: &Job) -> Digest {
    let inputs = job
        .inputs()
        .iter()
        .filter(|(name, _)| !matches!(**name, "reads" | "products" | "environment"))
        .map(|(name, value)| (name.to_string(), value.clone()));
    let materials = ["base", "program"].map(|name| job.try_material(name).map(Job::key));
    let mut inputs: BTreeMap<String, Value> = inputs.collect();
    // The first run is the first of the three.
    inputs.entry("repeat".into()).or_insert(0.into());
    Digest::of(format!("{inputs:?} {materials:?}").as_bytes())
}

/// Runs of this process that opened other files than their keys hold, until those take them over
/// that hold just these.
#[derive(Default)]
pub struct KeptRuns(Mutex<HashMap<Digest, KeptRun>>);

struct KeptRun {
    opened: BTreeSet<String>,
    output: Output,
    cpu: Duration,
}

impl KeptRuns {
    fn put(&self, same: Digest, kept: KeptRun) {
        let mut all = self
            .0
            .lock()
            .expect("nothing panics while it holds the lock");
        all.insert(same, kept);
    }

    /// The run, if `covers` says that its key holds all that it opened of the tree.
    fn take(
        &self,
        same: Digest,
        covers: impl Fn(&KeptRun) -> Result<bool, Failure>,
    ) -> Result<Option<KeptRun>, Failure> {
        let kept = {
            let mut all = self
                .0
                .lock()
                .expect("nothing panics while it holds the lock");
            all.remove(&same)
        };
        let Some(kept) = kept else {
            return Ok(None);
        };
        Ok(covers(&kept)?.then_some(kept))
    }
}

/// A run that ended.
pub(super) struct Tested {
    pub(super) ended: Ended,
    /// The token of its report, if it has one.
    token: Option<String>,
    /// What it opened of the tree, if that was asked.
    opened: BTreeSet<String>,
    /// The lists of functions that `opened` names.
    lists: Vec<Vec<u8>>,
}

/// Runs the shard of `job` with this environment and these further mounts.
pub(super) fn tested(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    mut env: BTreeMap<String, String>,
    binds: Vec<Bind>,
    watched: bool,
) -> Result<Tested, Failure> {
    let tree = super::base::tree(shop, job.material("base"), context)?;
    let trouble = host("preparing the tree that a test sees");
    let mut over = Vec::new();
    if let Some(program) = job.try_material("program") {
        let digest = (context.output)(program)?
            .ok_or_else(|| Failure::Transient("the program is not in the store any more".into()))?;
        let doc: ProgramDoc =
            serde_json::from_slice(&(context.blob)(digest)?).map_err(|e| Failure::Fatal {
                what: format!("the program's document cannot be read: {e}"),
                help: "run `everbench store verify`".into(),
            })?;
        let folder = super::program::files(shop, program, &doc, context)?;
        over.extend(
            doc.files
                .iter()
                .map(|f| (f.path.clone(), folder.join(&f.path))),
        );
    }
    let cwd = job.text("cwd");
    let mut argv: Vec<String> = words(job.list("argv"));
    if let Some(first) = argv.first_mut() {
        *first = program(first);
    }
    // Test programs with the header report in frames, which carry a token of this run.
    let token = match job.material("base").list("harness") {
        [] => None,
        _ => Some(fresh_token().map_err(host("drawing a token"))?),
    };
    if let Some(symbolizer) = &shop.tools.symbolizer {
        // Standalone UBSan has a variable of its own.
        for name in ["ASAN_SYMBOLIZER_PATH", "UBSAN_SYMBOLIZER_PATH"] {
            env.insert(name.into(), symbolizer.display().to_string());
        }
    }
    env.extend(token.iter().map(|t| (REPORT_TOKEN.to_string(), t.clone())));
    let directories = words(job.list("writable"));
    let copies = match directories.as_slice() {
        [] => None,
        directories => Some(Copies::new(shop, &tree, &over, directories)?),
    };
    let over = copies.as_ref().map_or(over.clone(), Copies::outside);
    // What a run opens is seen in folders that only it looks into.
    let (stand, own) = match watched {
        true => (
            Some(shop.stands.take(&shop.trees, &tree).map_err(&trouble)?),
            Some(shop.trees.scratch().map_err(&trouble)?),
        ),
        false => (None, None),
    };
    let mut seen = Vec::new();
    seen.extend(stand.as_ref().map(|stand| Seen {
        host: stand.path(),
        inside: String::new(),
        writable: false,
    }));
    let mut laid = over;
    if let Some(own) = &own {
        for (path, file) in &mut laid {
            let place = own.path().join("over").join(&path);
            let folder = place.parent().expect("a path in a folder has a parent");
            std::fs::create_dir_all(folder).map_err(&trouble)?;
            link(file, &place).map_err(&trouble)?;
            *file = place;
        }
        if !laid.is_empty() {
            seen.push(Seen {
                host: own.path().join("over"),
                inside: String::new(),
                writable: false,
            });
        }
    }
    let places = copies.as_ref().map_or(&[][..], Copies::places);
    seen.extend(places.iter().map(|(path, place)| Seen {
        host: place.clone(),
        inside: match path.as_str() {
            "." => String::new(),
            path => path.to_string(),
        },
        writable: true,
    }));
    let watch: RefCell<Option<Watch>> = RefCell::new(None);
    let make = || {
        copies.as_ref().map_or(Ok(()), Copies::make)?;
        if watched {
            *watch.borrow_mut() = Watch::start(&seen).map_err(&trouble)?;
        }
        Ok(())
    };
    let shown = stand.as_ref().map_or(tree.clone(), |stand| stand.path());
    let mib = |name: &str| u64::try_from(job.int(name)).unwrap_or(0) << 20;
    let to_file = job.text("report") == Report::File.name();
    let mut collect = vec![SANITIZER_LOG.to_string()];
    collect.extend(to_file.then(|| RESULTS_FILE.to_string()));
    collect.extend(watched.then(|| REACH_FILE.to_string()));
    let call = Call {
        argv,
        cwd: match cwd {
            SCRATCH => SCRATCH.to_string(),
            "." => TREE.to_string(),
            cwd => format!("{TREE}/{cwd}"),
        },
        tree: &shown,
        tree_writable: false,
        writable: places.to_vec(),
        over: laid,
        out: None,
        binds,
        env,
        limits: Limits {
            cpu: seconds(job.int("cpu-seconds")),
            wall: seconds(job.int("wall-seconds")),
            memory: mib("memory-mib"),
            processes: u32::try_from(job.int("processes")).unwrap_or(0),
            output: 16 << 20,
            results: RESULTS,
            file_size: mib("file-mib"),
            scratch: mib("scratch-mib"),
            disk: mib("scratch-mib"),
            stack: 8 << 20,
        },
        results: true,
        collect,
        folders: {
            let scratch = matches!(job.inputs().get("scratch"), Some(Value::Bool(true)));
            let scratch = scratch.then(|| SCRATCH.to_string());
            let reach = watched.then(|| REACH_FOLDER.to_string());
            scratch.into_iter().chain(reach).collect()
        },
        before: Some(&make),
    };
    let mut ended = shop.run(&call, context)?;
    let mut opened = match (watched, watch.take()) {
        (false, _) => BTreeSet::new(),
        (true, Some(watch)) => {
            let mut opened = watch.stop();
            // What is not in the tree was made by the run itself.
            opened.retain(|name| {
                name == EVERYTHING
                    || tree.join(name.trim_end_matches('/')).exists()
                    || call.over.iter().any(|(path, _)| path == name)
            });
            opened
        }
        (true, None) => BTreeSet::from([EVERYTHING.to_string()]),
    };
    let mut lists = Vec::new();
    if watched && !opened.contains(EVERYTHING) {
        let host = |path: &str| {
            let laid = call.over.iter().find(|(laid, _)| laid == path);
            laid.map_or_else(|| shown.join(path), |(_, host)| host.clone())
        };
        let entered = entered(opened.iter(), &ended.collected, host);
        lists = entered.lists;
        opened.extend(entered.names);
    }
    if to_file {
        report_file(&mut ended);
    }
    Ok(Tested {
        ended,
        token,
        opened,
        lists,
    })
}

/// What a run brought back, raw.
fn document(
    ended: Ended,
    token: Option<String>,
    opened: BTreeSet<String>,
    lists: Vec<Vec<u8>>,
) -> Output {
    let results = match &token {
        Some(token) => reported(&ended.results, token),
        None => ended.results,
    };
    let mut collected = ended.collected;
    collected.retain(|c| {
        c.path
            .as_os_str()
            .as_bytes()
            .starts_with(SANITIZER_LOG.as_bytes())
    });
    // The names end in process ids; what matters is the order in which the processes started.
    collected.sort_by_key(|c| (c.path.as_os_str().len(), c.path.clone()));
    let mut sanitizers = Vec::new();
    for file in collected {
        match file.content {
            Ok(text) => sanitizers.extend(text),
            // A log that cannot be had is itself something to see.
            Err(why) => sanitizers
                .extend(format!("everbench: {}: {why}\n", file.path.display()).into_bytes()),
        }
    }
    let doc = RunDoc {
        end: end_doc(&ended.status),
        stdout: Digest::of(&ended.stdout),
        stderr: Digest::of(&ended.stderr),
        results: Digest::of(&results),
        sanitizers: Digest::of(&sanitizers),
        opened,
    };
    Output {
        bytes: artifact::write(&doc),
        blobs: [ended.stdout, ended.stderr, results, sanitizers]
            .into_iter()
            .chain(lists)
            .collect(),
    }
}

/// Puts what the test runner wrote to its file in the place of what came on the descriptor. The code
/// under test can write there too, and can leave anything at all.
fn report_file(ended: &mut Ended) {
    ended.results.clear();
    let file = |c: &Collected| c.path == Path::new(RESULTS_FILE);
    // Without the file there is no report: a runner that crashed early has left none.
    let Some(found) = ended.collected.iter().position(file) else {
        return;
    };
    match ended.collected.swap_remove(found).content {
        Ok(mut text) => {
            if text.len() as u64 > RESULTS {
                text.truncate(RESULTS as usize);
                ended.status = Status::Limit(Limit::Output);
            }
            ended.results = text;
        }
        Err(why) => {
            let said = format!("\neverbench: the report {RESULTS_FILE}: {why}\n");
            ended.stderr.extend(said.into_bytes());
        }
    }
}

/// What nobody can guess. It reaches no output, so that runs stay comparable.
fn fresh_token() -> std::io::Result<String> {
    let mut bytes = [0; REPORT_TOKEN_LENGTH / 2];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// The sanitizers write to files of their own, go on after an alert, end a process that cannot go
/// on by a signal, and never change an exit status: what the test program says by it stands.
fn environment(job: &Job) -> BTreeMap<String, String> {
    let leaks = matches!(job.inputs().get("leaks"), Some(Value::Bool(true)));
    let common = format!("log_path={SANITIZER_LOG}:halt_on_error=0:abort_on_error=1:exitcode=0");
    let mut env = BTreeMap::from([
        (
            "ASAN_OPTIONS".to_string(),
            format!(
                "{common}:detect_leaks={}:allocator_may_return_null=1",
                i32::from(leaks)
            ),
        ),
        (
            "UBSAN_OPTIONS".to_string(),
            format!("{common}:print_stacktrace=1"),
        ),
        ("LSAN_OPTIONS".to_string(), "exitcode=0".to_string()),
    ]);
    for (name, value) in own_environment(job) {
        let slot = env.entry(name.clone()).or_default();
        // A subject's own options come after ours, so that they win.
        if name.ends_with("SAN_OPTIONS") && !slot.is_empty() {
            slot.push(':');
            slot.push_str(&value);
        } else {
            *slot = value;
        }
    }
    env
}

/// What the job says of the environment.
pub(super) fn own_environment(job: &Job) -> BTreeMap<String, String> {
    let pair = |value: &Value| match value {
        Value::List(pair) => match pair.as_slice() {
            [Value::Text(name), Value::Text(value)] => Some((name.clone(), value.clone())),
            _ => None,
        },
        _ => None,
    };
    job.list("env").iter().filter_map(pair).collect()
}

fn words(values: &[Value]) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Text(s) => Some(s.clone()),
        _ => None,
    };
    values.iter().filter_map(text).collect()
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(u64::try_from(n).unwrap_or(0))
}
