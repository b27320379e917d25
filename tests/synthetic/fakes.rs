//! Executors that answer at once, for the real kinds. Each output is a function of the job's
//! inputs, of the same inputs that the real executor's output depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everbench::ask::{self, Reply, Request, Stop};
use everbench::digest::Digest;
use everbench::engine::{Context, Executor, Failure, Output, Registry};
use everbench::job::{Job, Value};
use everbench::oss::artifact::{
    self, BaseDoc, BuiltFile, EndDoc, Opened, ProgramDoc, Replacement, RunDoc, Stage, Step, Unit,
    VerdictDoc,
};
use everbench::oss::environment::{self, Files};
use everbench::oss::{case, layout};
use everbench::source::Snapshot;

use super::{LINKED, LOADED, SHARED, World};

/// In a variant's body: it does not compile.
pub const BREAKS: &str = "BREAKS";
/// In a variant's body: a test fails.
pub const LOSES: &str = "LOSES";
/// In a variant's body: a sanitizer complains.
pub const TRAPS: &str = "TRAPS";

/// Cases that a shard reports.
pub const CASES: u64 = 12;

/// Every kind of an evaluation, on the system of `world`.
pub fn registry(world: &World) -> Registry {
    let mut registry = Registry::default();
    let world = Arc::new(world.clone());
    let mut add = |kind, does| {
        let world = world.clone();
        registry.add(kind, 0, Arc::new(Fake { world, does }));
    };
    add(environment::FILES, files);
    add(environment::PROGRAMS, programs);
    add(artifact::FOOTPRINT, footprint);
    add(artifact::BASE, base);
    add(artifact::VERDICT, |_, job, context| verdict(job, context));
    add(artifact::PROGRAM, |_, job, _| program(job));
    add(artifact::READS, |_, job, context| run(job, context));
    add(artifact::RUN, |_, job, context| run(job, context));
    add(ask::COMPLETION, |_, job, context| completion(job, context));
    add(case::CALIBRATION, |_, job, context| {
        calibration(job, context)
    });
    registry
}

struct Fake {
    world: Arc<World>,
    does: fn(&World, &Job, &Context<'_>) -> Result<Output, Failure>,
}

impl Executor for Fake {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        (self.does)(&self.world, job, context)
    }
}

/// What files of the world's system hold.
fn held<'a>(world: &World, names: impl IntoIterator<Item = &'a String>) -> Output {
    let digest = |name: &String| Some(Digest::of(world.system.get(name)?.as_bytes()));
    let files: Files = names.into_iter().map(|n| (n.clone(), digest(n))).collect();
    Output {
        bytes: artifact::write(&files),
        blobs: vec![],
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    values.iter().map(text).collect()
}

fn files(world: &World, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
    Ok(held(world, &texts(job.list("names"))))
}

fn programs(world: &World, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
    Ok(held(world, &texts(job.list("programs"))))
}

fn footprint(world: &World, _: &Job, _: &Context<'_>) -> Result<Output, Failure> {
    Ok(Output {
        bytes: artifact::write(&opened(world)),
        blobs: vec![],
    })
}

/// What a build opens on the world's system.
fn opened(world: &World) -> Opened {
    let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
    Opened {
        headers: world.headers(),
        link: names(&[LINKED, SHARED]),
        loaded: names(&[SHARED, LOADED]),
        scripts: BTreeMap::new(),
    }
}

fn number(parts: &[&[u8]]) -> u64 {
    let digest = Digest::of(&parts.concat());
    u64::from_le_bytes(digest.0[..8].try_into().expect("8 bytes"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the world is ASCII")
}

/// What a compiler makes of a file before it compiles it (`-E -dD`): comments are white space,
/// lines stay where they are.
pub fn preprocessed(path: &str, source: &str) -> String {
    let mut out = format!("# 1 \"{path}\"\n");
    let mut rest = source;
    while let Some(at) = rest.find("/*") {
        let end = at + rest[at..].find("*/").expect("comments are closed") + 2;
        out.push_str(&rest[..at]);
        out.push(' ');
        out.extend(rest[at..end].chars().filter(|c| *c == '\n'));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// What of a unit is in its object: its file's name, no comments, no white space around lines, no
/// positions.
pub fn placeless(unit: &str) -> String {
    let lines = unit.lines().map(str::trim);
    let kept = lines.filter(|line| !line.is_empty());
    kept.fold(String::new(), |text, line| text + line + "\n")
}

/// The global symbols of a file: what it defines, and what of a library it calls.
pub fn symbols(source: &str) -> String {
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let calls: BTreeSet<&str> = words.filter(|word| word.starts_with("lib_")).collect();
    let calls = calls.into_iter().map(|name| format!("U {name}\n"));
    definitions(source) + &calls.collect::<String>()
}

/// The global symbols that a file defines.
pub fn definitions(source: &str) -> String {
    let heads = source.lines().filter_map(|l| l.strip_prefix("int "));
    let mut names: Vec<&str> = heads.filter_map(|l| Some(l.split_once('(')?.0)).collect();
    names.sort_unstable();
    names.iter().map(|n| format!("T {n}\n")).collect()
}

fn base(world: &World, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
    let snapshot =
        Snapshot::decode(&(context.blob)(job.digest("snapshot"))?).expect("it was encoded here");
    let mut doc = BaseDoc {
        opened: opened(world),
        ..BaseDoc::default()
    };
    let (mut blobs, mut all) = (Vec::new(), job.text("flavour").as_bytes().to_vec());
    all.extend(job.digest("toolchain").0);
    let sources = snapshot
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".c"));
    for (path, entry) in sources {
        let source = text(&(context.blob)(entry.digest)?);
        let (unit, symbols) = (preprocessed(path, &source), symbols(&source));
        let object = format!("{path}.o");
        let argv = ["-O0", "-c", path, "-o", &object];
        doc.units.push(Unit {
            tool: "cc".into(),
            argv: argv.map(String::from).to_vec(),
            cwd: ".".into(),
            source: path.clone(),
            object,
            reads: vec![path.clone()],
            harness: false,
            preprocessed: Digest::of(unit.as_bytes()),
            symbols: Digest::of(symbols.as_bytes()),
            placed: None,
        });
        all.extend_from_slice(placeless(&unit).as_bytes());
        blobs.extend([unit.into_bytes(), symbols.into_bytes()]);
    }
    let objects: Vec<String> = doc.units.iter().map(|u| u.object.clone()).collect();
    doc.steps.push(Step {
        tool: "cc".into(),
        inputs: objects.iter().cloned().enumerate().collect(),
        argv: objects,
        cwd: ".".into(),
        output: "test".into(),
    });
    doc.files.push(built(Digest::of(&all)));
    Ok(Output {
        bytes: artifact::write(&doc),
        blobs,
    })
}

/// The test program; its bytes never exist.
fn built(digest: Digest) -> BuiltFile {
    BuiltFile {
        path: "test".into(),
        digest,
        size: 1,
    }
}

/// The text with a line more at the beginning of its body; without a body, the text.
pub fn edited(text: &str, line: &str) -> String {
    text.replacen("{\n", &format!("{{\n    {line}\n"), 1)
}

/// What a model makes of a function: nothing, the same, or one of four edits.
pub fn answer(revision: &str, function: &str) -> Result<String, Stop> {
    let draw = number(&[revision.as_bytes(), b"\0", function.as_bytes()]);
    let name = revision.split('@').next().unwrap_or(revision);
    let line = |what: &str| format!("int {name}_{what} = {}; (void){name}_{what};", draw % 97);
    Ok(match draw % 40 {
        0 => return Err(Stop::Refusal),
        1 => return Err(Stop::Length),
        2..5 => function.to_string(),
        5..10 => edited(function, &line(BREAKS)),
        10..12 => edited(function, &line(LOSES)),
        12 => edited(function, &line(TRAPS)),
        _ => edited(function, &line("spare")),
    })
}

fn reply(answer: Result<String, Stop>) -> Output {
    let reply = match answer {
        Ok(code) => Reply::complete(format!("```c\n{code}\n```\n")),
        Err(stop) => Reply {
            stop,
            ..Reply::complete("")
        },
    };
    Output {
        bytes: reply.encode(),
        blobs: vec![],
    }
}

/// The function that a prompt shows.
fn shown(user: &str) -> &str {
    let from = user.rfind("```c\n").expect("the prompt has a block") + 5;
    let to = user.rfind("\n```").expect("the block ends");
    &user[from..to]
}

fn completion(job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
    let request = Request::of_job(job, |d| (context.blob)(d).ok()).expect("a request");
    Ok(reply(answer(&request.model, shown(&request.user))))
}

/// What a calibration model makes of a function.
pub fn calibrated(edit: &str, item: i64, function: &str) -> String {
    let line = |what: &str| format!("int item_{what} = {};", item.rem_euclid(3));
    match edit {
        "unchanged" => function.to_string(),
        "preserving" => edited(function, &line("spare")),
        "breaks_compile" => edited(function, &line(BREAKS)),
        "breaks_behaviour" => edited(function, &line(LOSES)),
        "plants_memory_error" => edited(function, &line(TRAPS)),
        other => panic!("an edit called {other}"),
    }
}

fn calibration(job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
    let function = text(&(context.blob)(job.digest("function"))?);
    let code = calibrated(job.text("edit"), job.int("item"), &function);
    Ok(reply(Ok(code)))
}

fn replacement(value: &Value) -> Replacement {
    Replacement::from_value(value).expect("a replacement")
}

fn verdict(job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
    let replacement = replacement(&job.inputs()["replace"]);
    let variant = text(&(context.blob)(replacement.variant)?);
    let compiles = !variant.contains(BREAKS);
    let doc = VerdictDoc {
        compiles,
        stage: (!compiles).then_some(Stage::Syntax),
        error: (!compiles).then(|| "no such name".into()),
        limit: None,
        log: None,
    };
    Ok(Output {
        bytes: artifact::write(&doc),
        blobs: vec![],
    })
}

fn program(job: &Job) -> Result<Output, Failure> {
    // The files of the system that a link reads decide whether it is done, not what it gives.
    let made_of = ["base", "set", "toolchain"].map(|name| &job.inputs()[name]);
    let doc = ProgramDoc {
        failed: None,
        files: vec![built(Digest::of(&artifact::write(&made_of)))],
    };
    Ok(Output {
        bytes: artifact::write(&doc),
        blobs: vec![],
    })
}

/// The cases that fail whatever is replaced: those of lines `fails N` in the shard's data.
fn failing(shard: &str, job: &Job, context: &Context<'_>) -> Result<Vec<u64>, Failure> {
    let snapshot = (context.blob)(job.material("base").digest("snapshot"))?;
    let snapshot = Snapshot::decode(&snapshot).expect("it was encoded here");
    let Some(data) = snapshot.files.get(&format!("data/{shard}.txt")) else {
        return Ok(Vec::new());
    };
    let data = text(&(context.blob)(data.digest)?);
    let lines = data.lines().filter_map(|line| line.strip_prefix("fails "));
    Ok(lines.map(|n| n.parse().expect("a number")).collect())
}

/// What a shard opens: the test program, its file or its data, and what is named in the data.
fn opened_by(shard: &str, job: &Job, context: &Context<'_>) -> Result<BTreeSet<String>, Failure> {
    let snapshot = (context.blob)(job.material("base").digest("snapshot"))?;
    let snapshot = Snapshot::decode(&snapshot).expect("it was encoded here");
    let mut opened = BTreeSet::from(["test".to_string()]);
    let mut open = vec![shard.to_string(), format!("data/{shard}.txt")];
    while let Some(path) = open.pop() {
        let Some(entry) = snapshot.files.get(&path) else {
            continue;
        };
        if path.starts_with("data/") {
            let names = text(&(context.blob)(entry.digest)?);
            open.extend(names.lines().map(String::from));
        }
        opened.insert(path);
    }
    Ok(opened)
}

fn run(job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
    let Value::List(argv) = &job.inputs()["argv"] else {
        panic!("a list of arguments");
    };
    let Some(Value::Text(shard)) = argv.last() else {
        panic!("an argument");
    };
    let failing = failing(shard, job, context)?;
    let mut failed: BTreeMap<u64, ()> = failing.into_iter().map(|n| (n, ())).collect();
    let mut sanitizers = String::new();
    let set = job
        .try_material("program")
        .map_or(&[][..], |p| p.list("set"));
    for value in set {
        let r = replacement(value);
        let variant = text(&(context.blob)(r.variant)?);
        let draw = number(&[shard.as_bytes(), r.name.as_bytes()]);
        if variant.contains(LOSES) {
            failed.insert(draw % CASES, ());
        }
        if variant.contains(TRAPS) {
            sanitizers += &format!(
                "{}/{}:{}:5: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'\n",
                layout::TREE,
                r.path,
                3 + draw % 10,
            );
        }
    }
    let case = |n: u64| {
        let word = if failed.contains_key(&n) {
            "FAIL"
        } else {
            "OK"
        };
        format!("{word}: {shard} case {n}\n")
    };
    let results: String = (0..CASES).map(case).collect();
    let nothing = Digest::of(b"");
    let doc = RunDoc {
        end: EndDoc::Exit(i32::from(!failed.is_empty())),
        stdout: nothing,
        stderr: nothing,
        results: Digest::of(results.as_bytes()),
        sanitizers: Digest::of(sanitizers.as_bytes()),
        opened: opened_by(shard, job, context)?,
    };
    Ok(Output {
        bytes: artifact::write(&doc),
        blobs: vec![vec![], results.into_bytes(), sanitizers.into_bytes()],
    })
}
