//! Builds the unchanged subject in one flavour with its own commands, records them, and keeps the
//! tree for everything that is replayed on it later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::commands::{self, Recorded, Understood};
use super::recorder;
use super::runner::{Call, Workshop, compiler_limits, end_doc, host, stable_log};
use super::{Bind, Limits, Sandbox, Status};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::logs::first_error;
use crate::oss::artifact::{self, BaseDoc, BrokenBuild, BuiltFile, Step, Unit};
use crate::oss::layout::{RECORD, TREE, in_tree};
use crate::source;

/// Runs jobs of kind `oss/base`.
pub struct BaseBuild(pub Arc<Workshop>);

impl Executor for BaseBuild {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let lock = self.0.trees.lock(&job.key().0);
        let _making = lock.lock().expect("nothing panics while it holds the lock");
        let built = build(&self.0, job, context)?;
        keep(&self.0, job, built)
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
        let known = (context.output)(job)?;
        if known.is_some_and(|d| d != Digest::of(&again.bytes)) {
            super::trees::remove_dir(&place).map_err(host("removing a build tree"))?;
            return Err(Failure::Fatal {
                what: "building the unchanged subject again gave other files than the first time"
                    .into(),
                help:
                    "the subject's build is not reproducible (a time or a random number in it?); \
                       use a fresh store, or keep its folder `trees`"
                        .into(),
            });
        }
    }
    Ok(place)
}

struct Built {
    doc: BaseDoc,
    blobs: Vec<Vec<u8>>,
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

fn build(shop: &Workshop, job: &Job, context: &Context<'_>) -> Result<Built, Failure> {
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
        &mut blobs,
    )? {
        let doc = BaseDoc {
            broken: Some(broken),
            units: vec![],
            steps: vec![],
            files: vec![],
        };
        return Ok(Built {
            doc,
            blobs,
            scratch,
        });
    }
    // From here on nothing inside the sandbox can write to the tree.
    Sandbox::reclaim(&tree).map_err(host("taking the build tree back"))?;
    let (units, steps) = understand(&record.join("commands"), &tree)?;
    let units = examine(shop, context, &tree, units, &mut blobs)?;
    let outputs: BTreeSet<&String> = units
        .iter()
        .map(|u| &u.object)
        .chain(steps.iter().map(|s| &s.output))
        .collect();
    let files = outputs
        .into_iter()
        .filter_map(|path| receipt(&tree, path))
        .collect();
    Ok(Built {
        doc: BaseDoc {
            broken: None,
            units,
            steps,
            files,
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

/// Runs the build commands of the base `job` again in a tree that was built before.
pub fn rebuild(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    tree: &Path,
    record: &Path,
    blobs: &mut Vec<Vec<u8>>,
) -> Result<Option<BrokenBuild>, Failure> {
    run_phases(shop, job, context, (tree, record), &["build"], blobs)
}

/// Runs the subject's own commands of the given phases in `tree`; the recording tools write to
/// the folder `record`.
fn run_phases(
    shop: &Workshop,
    job: &Job,
    context: &Context<'_>,
    (tree, record): (&Path, &Path),
    phases: &[&str],
    blobs: &mut Vec<Vec<u8>>,
) -> Result<Option<BrokenBuild>, Failure> {
    let (mut binds, mut env) = shop.recording();
    binds.push(Bind {
        host: record.to_path_buf(),
        inside: RECORD.into(),
        writable: true,
    });
    for pair in job.list("env") {
        if let Value::List(pair) = pair
            && let [Value::Text(name), Value::Text(value)] = pair.as_slice()
        {
            env.insert(name.clone(), value.clone());
        }
    }
    for phase in phases {
        let mut env = env.clone();
        if *phase == "build" {
            env.insert(recorder::ACTIVE.into(), "1".into());
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
                argv,
                cwd: TREE.into(),
                tree,
                tree_writable: true,
                over: Vec::new(),
                out: None,
                binds: binds.clone(),
                env: env.clone(),
                limits: build_limits(),
                results: false,
                collect: None,
            };
            let ended = shop.run(&call, context.cancel)?;
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

fn texts(values: &[Value]) -> Vec<String> {
    let text = |value: &'_ Value| -> Option<String> {
        match value {
            Value::Text(s) => Some(s.clone()),
            _ => None,
        }
    };
    values.iter().filter_map(text).collect()
}

/// The recorded compilations (not yet examined) and steps.
fn understand(record: &Path, tree: &Path) -> Result<(Vec<Unit>, Vec<Step>), Failure> {
    let text = match std::fs::read_to_string(record) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(host("reading the recorded commands")(e)),
    };
    let exists = |path: &str| tree.join(path).exists();
    let mut units = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        let recorded: Recorded = serde_json::from_str(line).map_err(|e| Failure::Fatal {
            what: format!("a recorded command cannot be read: {e}: {line}"),
            help: "this is a fault in everbench; please report it".into(),
        })?;
        match commands::understand(&recorded, &exists) {
            Understood::Nothing => {}
            Understood::Compile(pairs) => {
                for (source, object) in pairs {
                    // What was compiled only to try something out has left no object.
                    if !exists(&object) {
                        continue;
                    }
                    let unit = Unit {
                        tool: recorded.tool.clone(),
                        argv: commands::only(&recorded.argv, &recorded.cwd, &source),
                        cwd: recorded.cwd.clone(),
                        source,
                        object: object.clone(),
                        reads: Vec::new(),
                        harness: recorded.harness,
                        preprocessed: Digest::of(b""),
                        symbols: Digest::of(b""),
                    };
                    units.insert(object, unit);
                }
            }
            Understood::Make(step) => {
                let temporary = !exists(&step.output);
                // A link that is done twice replaces itself; archives are filled in several steps.
                let repeated = steps.iter().position(|s| *s == step);
                if let Some(at) = repeated {
                    steps.remove(at);
                }
                if !temporary {
                    steps.push(step);
                }
            }
        }
    }
    // Parallel makes record in any order: sorted, with a step after those that make its inputs.
    let mut units: Vec<Unit> = units.into_values().collect();
    units.sort_by(|a, b| (&a.source, &a.object).cmp(&(&b.source, &b.object)));
    Ok((units, in_order(steps)))
}

/// Sorts steps by their output, each after the steps that make what it reads; the steps of one
/// output keep the order in which they ran.
fn in_order(steps: Vec<Step>) -> Vec<Step> {
    let mut by_output: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for step in steps {
        by_output.entry(step.output.clone()).or_default().push(step);
    }
    let mut ordered = Vec::new();
    while !by_output.is_empty() {
        let ready = by_output
            .iter()
            .find(|(output, steps)| {
                let mut inputs = steps.iter().flat_map(|s| &s.inputs);
                inputs.all(|(_, path)| path == *output || !by_output.contains_key(path))
            })
            // A circle cannot be built from; should one be recorded, any order is as good.
            .or_else(|| by_output.iter().next())
            .map(|(output, _)| output.clone())
            .expect("it is not empty");
        ordered.extend(by_output.remove(&ready).expect("it was just found"));
    }
    ordered
}

/// Preprocesses every unit and lists every object's symbols.
fn examine(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    units: Vec<Unit>,
    blobs: &mut Vec<Vec<u8>>,
) -> Result<Vec<Unit>, Failure> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let examined = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    let Some(unit) = units.get(i) else { break };
                    let result = examine_one(shop, context, tree, unit);
                    examined
                        .lock()
                        .expect("nothing panics while it holds the lock")
                        .push((i, result));
                }
            });
        }
    });
    let mut examined = examined
        .into_inner()
        .expect("nothing panics while it holds the lock");
    examined.sort_by_key(|(i, _)| *i);
    let mut out = Vec::with_capacity(units.len());
    for (_, result) in examined {
        let (unit, texts) = result?;
        blobs.extend(texts);
        out.push(unit);
    }
    Ok(out)
}

fn examine_one(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    unit: &Unit,
) -> Result<(Unit, [Vec<u8>; 2]), Failure> {
    let run =
        |program: &Path, args: Vec<String>| {
            let argv = [vec![program.display().to_string()], args].concat();
            let call = Call {
                argv: argv.clone(),
                cwd: unit.cwd.clone(),
                tree,
                tree_writable: false,
                over: Vec::new(),
                out: None,
                binds: Vec::new(),
                env: BTreeMap::new(),
                limits: Limits {
                    output: 256 << 20,
                    ..compiler_limits()
                },
                results: false,
                collect: None,
            };
            let ended = shop.run(&call, context.cancel)?;
            if ended.status == Status::Exited(0) {
                return Ok(ended.stdout);
            }
            Err(Failure::Fatal {
            what: format!(
                "`{}` ended with {}: {}",
                argv.join(" "),
                describe(&ended.status),
                String::from_utf8_lossy(&ended.stderr).lines().next().unwrap_or_default()
            ),
            help: "the same command went well in the subject's own build; does it depend on files \
                   that the build removes?"
                .into(),
        })
        };
    let text = run(shop.tools.tool(&unit.tool), commands::preprocess(unit))?;
    let listing = run(
        &shop.tools.nm,
        vec!["-g".into(), "-P".into(), format!("{TREE}/{}", unit.object)],
    )?;
    let symbols = symbols(&listing);
    let unit = Unit {
        reads: reads(&text, &unit.cwd),
        preprocessed: Digest::of(&text),
        symbols: Digest::of(&symbols),
        ..unit.clone()
    };
    Ok((unit, [text, symbols]))
}

/// Kind and name of each symbol, sorted, one a line: no addresses, no sizes.
fn symbols(listing: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(listing);
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, kind) = (words.next()?, words.next()?);
            Some(format!("{kind} {name}\n"))
        })
        .collect();
    lines.sort_unstable();
    lines.concat().into_bytes()
}

/// The files of the tree that line markers name.
fn reads(preprocessed: &[u8], cwd: &str) -> Vec<String> {
    let mut files = BTreeSet::new();
    for line in preprocessed.split(|b| *b == b'\n') {
        let Some(rest) = line.strip_prefix(b"# ") else {
            continue;
        };
        let Some(start) = rest.iter().position(|b| *b == b'"') else {
            continue;
        };
        let Some(end) = rest.iter().rposition(|b| *b == b'"').filter(|e| *e > start) else {
            continue;
        };
        if let Ok(path) = std::str::from_utf8(&rest[start + 1..end]) {
            files.extend(in_tree(cwd, path));
        }
    }
    files.into_iter().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(output: &str, inputs: &[&str]) -> Step {
        Step {
            tool: "cc".into(),
            argv: vec![],
            cwd: TREE.into(),
            output: output.into(),
            inputs: inputs
                .iter()
                .enumerate()
                .map(|(i, p)| (i, p.to_string()))
                .collect(),
        }
    }

    #[test]
    fn steps_come_after_what_they_read_in_whatever_order_they_were_recorded() {
        let steps = vec![
            step("z", &["b.a", "t.o"]),
            step("b.a", &["y.o"]),
            step("a", &["z"]),
            step("b.a", &["x.o"]),
        ];
        let order: Vec<(String, String)> = in_order(steps)
            .into_iter()
            .map(|s| (s.output, s.inputs[0].1.clone()))
            .collect();
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            order,
            [
                pair("b.a", "y.o"),
                pair("b.a", "x.o"),
                pair("z", "b.a"),
                pair("a", "z")
            ]
        );
    }

    #[test]
    fn symbols_lose_their_addresses_and_line_markers_give_the_files() {
        assert_eq!(
            symbols(b"puts U         \nf T 0000 001a\n"),
            b"T f\nU puts\n"
        );
        let text = b"# 1 \"../src/a.c\"\n# 1 \"/usr/include/stdio.h\" 1 3 4\n# 2 \"../src/a.h\" 1\nint x;\n";
        assert_eq!(reads(text, "/eb/tree/build"), ["src/a.c", "src/a.h"]);
    }
}
