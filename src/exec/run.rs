//! Metric II and III: runs one shard of the test suite on a program and brings back, raw, what it
//! reported and what the sanitizers wrote.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::runner::{Call, Workshop, end_doc, host};
use super::writable::Copies;
use super::{Bind, Collected, Ended, Limit, Limits, Status};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::oss::artifact::{self, ProgramDoc, RunDoc};
use crate::oss::layout::{RESULTS_FILE, SANITIZER_LOG, SCRATCH, TREE};
use crate::subject::{REPORT_TOKEN, REPORT_TOKEN_LENGTH, Report, reported};

/// The longest report, in bytes. Frames of the descriptor are longer than what they carry.
const RESULTS: u64 = 64 << 20;

/// Runs jobs of kind `oss/run`.
pub struct TestRun(pub Arc<Workshop>);

impl Executor for TestRun {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let Tested { ended, token } = tested(&self.0, job, context, environment(job), Vec::new())?;
        Ok(document(ended, token))
    }
}

/// A run that ended.
pub(super) struct Tested {
    pub(super) ended: Ended,
    /// The token of its report, if it has one.
    token: Option<String>,
}

/// Runs the shard of `job` with this environment and these further mounts.
pub(super) fn tested(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    mut env: BTreeMap<String, String>,
    binds: Vec<Bind>,
) -> Result<Tested, Failure> {
    let tree = super::base::tree(shop, job.material("base"), context)?;
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
    if let Some(first) = argv.first_mut()
        && first.contains('/')
        && !first.starts_with('/')
    {
        *first = format!("{TREE}/{}", first.trim_start_matches("./"));
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
    let make = || copies.as_ref().map_or(Ok(()), Copies::make);
    let mib = |name: &str| u64::try_from(job.int(name)).unwrap_or(0) << 20;
    let to_file = job.text("report") == Report::File.name();
    let mut collect = vec![SANITIZER_LOG.to_string()];
    collect.extend(to_file.then(|| RESULTS_FILE.to_string()));
    let call = Call {
        argv,
        cwd: match cwd {
            SCRATCH => SCRATCH.to_string(),
            "." => TREE.to_string(),
            cwd => format!("{TREE}/{cwd}"),
        },
        tree: &tree,
        tree_writable: false,
        writable: copies.as_ref().map_or(Vec::new(), |c| c.places().to_vec()),
        over: copies.as_ref().map_or(over.clone(), Copies::outside),
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
        folders: match job.inputs().get("scratch") {
            Some(Value::Bool(true)) => vec![SCRATCH.to_string()],
            _ => Vec::new(),
        },
        before: Some(&make),
    };
    let mut ended = shop.run(&call, context)?;
    if to_file {
        report_file(&mut ended);
    }
    Ok(Tested { ended, token })
}

/// What a run brought back, raw.
fn document(ended: Ended, token: Option<String>) -> Output {
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
    };
    Output {
        bytes: artifact::write(&doc),
        blobs: vec![ended.stdout, ended.stderr, results, sanitizers],
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
