//! How fast stored results become a leaderboard. A synthetic project of 10,000 functions in 500
//! files, asked of 17 models, lies evaluated in a store: 170,000 replies, as many verdicts less
//! those that no reply needs, and 170,000 test runs (17 models, two scorings, 1,000 iterations,
//! five shards). Every measure is a fresh process that opens the store and ends with the rows,
//! intervals and ranks included; its processor time and peak memory are the kernel's figures.
//! The reference way is the same evaluation without remembered rows: every leaf is point-read,
//! every reply parsed.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[allow(dead_code)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use everbench::app::{self, App, Evaluation, Options, SubjectBoard, World};
use everbench::digest::Digest;
use everbench::engine::{Hold, Ledger};
use everbench::oss::inputs::Answers;
use everbench::report;
use everbench::store::StoreLedger;
use serde::{Deserialize, Serialize};
use synthetic::workbench::{self, Workbench};
use synthetic::{World as Synthetic, fakes};

type Fallible<T> = Result<T, Box<dyn Error>>;

/// How often a measure of ours is taken; the middle one counts.
const TAKES: usize = 3;
/// Seconds of processor time that rows may take when nothing changed.
const GOAL_CPU: f64 = 1.0;
/// Mebibytes of memory that they may take.
const GOAL_RSS: f64 = 400.0;

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--child") => child(&args[1], &args[2], Path::new(&args[3])),
        Some("--make") => make(
            Shape {
                files: args[1].parse()?,
                ..FULL
            },
            Path::new(&args[2]),
        ),
        Some("--small") => bench(Shape { files: 25, ..FULL }, args.get(1).map(PathBuf::from)),
        Some("--keep") => bench(FULL, args.get(1).map(PathBuf::from)),
        Some(other) => {
            Err(format!("`{other}` is not known; there are --small and --keep DIR").into())
        }
        None => bench(FULL, None),
    }
}

#[derive(Clone, Copy)]
struct Shape {
    files: usize,
    per_file: usize,
    models: usize,
    iterations: u32,
    shards: usize,
}

const FULL: Shape = Shape {
    files: 500,
    per_file: 20,
    models: 17,
    iterations: 1000,
    shards: 5,
};

fn world(shape: Shape) -> Synthetic {
    let mut world = Synthetic::new(shape.files, shape.per_file, 8, shape.models);
    world.iterations = shape.iterations;
    world.per_iteration = 10;
    world.shards = (0..shape.shards).map(|i| format!("shard{i}")).collect();
    world
}

/// The world after the `n`th edit: another body of one function. In a store that is kept, another
/// one each time the benchmark runs: the last time's replies are known.
fn edited(shape: Shape, n: usize) -> Synthetic {
    let mut world = world(shape);
    let at = shape.files / 2 + n;
    world.files[at].functions[7].body[0] = format!("int r = a * {n} + {};", std::process::id());
    world
}

/// One measure of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu: f64,
    wall: f64,
    rss: f64,
}

/// What a child says on standard output.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    /// Of the leaderboard.
    rows: String,
    /// Jobs wanted, by kind.
    missing: BTreeMap<String, u64>,
    /// Seconds of processor time and of wall time until these were known.
    wanted: (f64, f64),
}

fn bench(shape: Shape, keep: Option<PathBuf>) -> Fallible<()> {
    let temporary = tempfile::tempdir()?;
    let dir = keep.unwrap_or_else(|| temporary.path().join("project"));
    if !dir.join("everbench.toml").exists() {
        let started = Instant::now();
        // In a process of its own: a child's peak memory counts from its parent's.
        let status = Command::new(std::env::current_exe()?)
            .args(["--make", &shape.files.to_string()])
            .arg(&dir)
            .status()?;
        if !status.success() {
            return Err("the store could not be made".into());
        }
        eprintln!(
            "the store was made in {:.0} s, {:.0} s of processor time",
            started.elapsed().as_secs_f64(),
            cpu_of(libc::RUSAGE_CHILDREN)
        );
    }
    let mut table = Table::default();

    let (ours, said) = middle(|| take("unchanged", "ours", &dir))?;
    let (reference, same) = take("unchanged", "reference", &dir)?;
    assert_eq!(said.rows, same.rows, "both ways give the same leaderboard");
    assert!(said.missing.is_empty(), "{:?}", said.missing);
    table.add(
        "unchanged_cpu",
        ours.cpu,
        reference.cpu,
        "s",
        Some(GOAL_CPU),
    );
    table.add("unchanged_wall", ours.wall, reference.wall, "s", None);
    table.add(
        "unchanged_peak_rss",
        ours.rss,
        reference.rss,
        "MiB",
        Some(GOAL_RSS),
    );

    let (ours, said) = middle(|| take("penalty", "ours", &dir))?;
    let (reference, same) = take("penalty", "reference", &dir)?;
    assert_eq!(said.rows, same.rows, "both ways give the same leaderboard");
    table.add("penalty_changed_cpu", ours.cpu, reference.cpu, "s", None);

    let mut takes = (0..TAKES).map(|n| {
        adopt(&edited(shape, n), &dir)?;
        take("edited", "ours", &dir)
    });
    let takes: Vec<(Usage, Said)> = takes.by_ref().collect::<Fallible<_>>()?;
    adopt(&edited(shape, TAKES), &dir)?;
    let (reference, reference_said) = take("edited", "reference", &dir)?;
    adopt(&world(shape), &dir)?;
    for (_, said) in &takes {
        assert_eq!(said.missing["ask/completion"], shape.models as u64);
        // Which iterations draw the function, and so the number of programs, differs by edit.
        let replies = |said: &Said| said.missing.get("ask/completion").copied();
        assert_eq!(replies(said), replies(&reference_said));
    }
    let wanted = median(takes.iter().map(|(_, s)| s.wanted.0).collect());
    let finished = median(takes.iter().map(|(u, _)| u.cpu).collect());
    let cpu = reference_said.wanted.0;
    table.add("edited_wanted_known_cpu", wanted, cpu, "s", None);
    table.add(
        "edited_cases_finished_cpu",
        finished,
        reference.cpu,
        "s",
        None,
    );
    println!("wanted after an edit: {:?}", takes[0].1.missing);

    let mut n = 0;
    let (ours, said) = middle(|| {
        n += 1;
        let code = format!("reply parser {n} of {}", std::process::id());
        take("parser", &code, &dir)
    })?;
    let (reference, same) = take("parser", "reference", &dir)?;
    assert_eq!(said.rows, same.rows, "both ways give the same leaderboard");
    table.add(
        "reply_parser_changed_cpu",
        ours.cpu,
        reference.cpu,
        "s",
        None,
    );
    table.print();
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The take with the median processor time.
fn middle(mut take: impl FnMut() -> Fallible<(Usage, Said)>) -> Fallible<(Usage, Said)> {
    let mut takes = (0..TAKES).map(|_| take()).collect::<Fallible<Vec<_>>>()?;
    takes.sort_by(|(a, _), (b, _)| a.cpu.total_cmp(&b.cpu));
    Ok(takes.swap_remove(TAKES / 2))
}

#[derive(Serialize)]
struct Measure {
    name: &'static str,
    ours: f64,
    reference: f64,
    ratio: f64,
    unit: &'static str,
    goal: Option<f64>,
    met: Option<bool>,
}

#[derive(Default)]
struct Table(Vec<Measure>);

impl Table {
    fn add(
        &mut self,
        name: &'static str,
        ours: f64,
        reference: f64,
        unit: &'static str,
        goal: Option<f64>,
    ) {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        self.0.push(Measure {
            name,
            ours: round(ours),
            reference: round(reference),
            ratio: round(reference / ours),
            unit,
            goal,
            met: goal.map(|goal| ours <= goal),
        });
    }

    fn print(&self) {
        println!(
            "{:<28} {:>9} {:>10} {:>7}  unit  goal",
            "measure", "ours", "reference", "ratio"
        );
        for m in &self.0 {
            let goal = match (m.goal, m.met) {
                (Some(goal), Some(true)) => format!("{goal} met"),
                (Some(goal), _) => format!("{goal} MISSED"),
                _ => String::new(),
            };
            println!(
                "{:<28} {:>9.3} {:>10.3} {:>7.1}  {:<4}  {goal}",
                m.name, m.ours, m.reference, m.ratio, m.unit
            );
        }
        let line = serde_json::json!({ "bench": "rescore", "measures": self.0 });
        println!("{line}");
    }
}

/// Makes the project in `dir`, with everything evaluated in its store.
fn make(shape: Shape, dir: &Path) -> Fallible<()> {
    let world = world(shape);
    let store_dir = dir.join(".everbench/store");
    std::fs::create_dir_all(&store_dir)?;
    std::fs::write(dir.join("subject.toml"), world.manifest())?;
    std::fs::write(dir.join("template.txt"), &world.template)?;
    let mut project = format!(
        "[subject]\nmanifest = \"subject.toml\"\n[run]\ntemplate = \"template.txt\"\nseed = {}\n",
        world.seed
    );
    for model in &world.models {
        let Answers::Replay { sampling, .. } = &model.answers else {
            return Err("every model is asked by prompt".into());
        };
        // The replies are in the store: a replay file is its first line.
        let name = &model.name;
        project += &format!("[[model]]\nname = \"{name}\"\nreplay = \"{name}.jsonl\"\n");
        let header = serde_json::json!({
            "format": everbench::exec::answer::REPLAY_FORMAT,
            "model": { "name": name, "revision": "1" },
            "sampling": {
                "temperature": 0.0, "seed": sampling.seed, "max_tokens": sampling.max_tokens,
            },
        });
        std::fs::write(dir.join(format!("{name}.jsonl")), format!("{header}\n"))?;
    }
    let store = workbench::store(&store_dir);
    for (name, bytes) in [
        ("toolchain", world.toolchain.as_bytes()),
        ("compiler", b"none"),
    ] {
        let digest = store.put_blobs(&[bytes])?[0];
        store.set_root(&format!("surroundings/{name}"), digest)?;
    }
    let mut workbench = Workbench::new(store.clone(), &world);
    let (_, waves) = workbench.settle();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for job in waves.iter().flatten() {
        *kinds.entry(job.kind().name).or_default() += 1;
    }
    eprintln!("in the store: {kinds:?}");
    store.set_root("surroundings/snapshot", world.tree().0.digest())?;
    drop(workbench);
    drop(store);
    std::fs::write(dir.join("everbench.toml"), project)?;
    // What a first `run` leaves behind beside results: the manifest of the evaluation.
    evaluate_ours(dir, &Options::default())?;
    Ok(())
}

/// Makes `world` the project's source, its two base builds done.
fn adopt(world: &Synthetic, dir: &Path) -> Fallible<()> {
    let store = workbench::store(&dir.join(".everbench/store"));
    let mut workbench = Workbench::new(store.clone(), world);
    // The footprints first, then the bases on them.
    let builds = ["oss/footprint", "oss/base"];
    for _ in builds {
        let (_, hold) = workbench.rows();
        let jobs: Vec<_> = hold.jobs().to_vec();
        if jobs.iter().all(|j| builds.contains(&j.kind().name)) {
            workbench.run(&jobs);
        }
    }
    store.set_root("surroundings/snapshot", world.tree().0.digest())?;
    Ok(())
}

/// Runs a measure in a process of its own.
fn take(measure: &str, way: &str, dir: &Path) -> Fallible<(Usage, Said)> {
    let started = Instant::now();
    let child = Command::new(std::env::current_exe()?)
        .args(["--child", measure, way])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut said = String::new();
    let mut out = child.stdout.ok_or("no output")?;
    std::io::Read::read_to_string(&mut out, &mut said)?;
    let mut status = 0;
    // SAFETY: both are plain C structs of this function's own, and the child is this process's.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::wait4(pid, &mut status, 0, &mut usage) != pid {
            return Err(std::io::Error::last_os_error().into());
        }
        usage
    };
    if status != 0 {
        return Err(format!("{measure} ({way}) ended with {status}").into());
    }
    let usage = Usage {
        cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        wall: started.elapsed().as_secs_f64(),
        rss: usage.ru_maxrss as f64 / 1024.0,
    };
    let said: Said = serde_json::from_str(&said)?;
    eprintln!(
        "{measure} ({way}): {usage:.3?}, wanted known {:.3?}",
        said.wanted
    );
    Ok((usage, said))
}

fn seconds(t: libc::timeval) -> f64 {
    t.tv_sec as f64 + t.tv_usec as f64 / 1e6
}

/// Processor seconds of this process so far.
fn cpu() -> f64 {
    cpu_of(libc::RUSAGE_SELF)
}

fn cpu_of(whom: libc::c_int) -> f64 {
    // SAFETY: a plain C struct of this function's own.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whom, &mut usage);
        usage
    };
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn child(measure: &str, way: &str, dir: &Path) -> Fallible<()> {
    let started = Instant::now();
    let mut options = Options::default();
    if measure == "penalty" {
        options.penalty = Some(2.5);
    }
    let said = match (measure, way) {
        ("edited", _) => finish_edit(dir, way, started)?,
        (_, "ours") => {
            let (rows, missing) = evaluate_ours(dir, &options)?;
            Said {
                rows,
                missing,
                wanted: (cpu(), started.elapsed().as_secs_f64()),
            }
        }
        _ => {
            let (rows, missing) = evaluate_anew(dir, &options, way)?;
            Said {
                rows,
                missing,
                wanted: (cpu(), started.elapsed().as_secs_f64()),
            }
        }
    };
    println!("{}", serde_json::to_string(&said)?);
    Ok(())
}

/// What `everbench score` does.
fn evaluate_ours(dir: &Path, options: &Options) -> Fallible<(String, BTreeMap<String, u64>)> {
    let app = App::open_to_score(dir)?;
    let evaluation = app.score(options)?;
    let missing = evaluation.missing.clone();
    Ok((leaderboard(&app, &evaluation, options)?, missing))
}

/// The same for a program with other code, by which no row was remembered. The reference
/// remembers nothing either.
fn evaluate_anew(
    dir: &Path,
    options: &Options,
    code: &str,
) -> Fallible<(String, BTreeMap<String, u64>)> {
    let app = App::open_to_score(dir)?;
    let world = with_code(app.world(options)?, code);
    let (boards, hold) = app::boards(&world.db, &world.benches, &world.models, &world.scorings);
    let boards = app
        .project
        .subjects
        .iter()
        .zip(boards)
        .map(|(subject, board)| SubjectBoard {
            manifest: subject.manifest.clone(),
            commit: String::new(),
            board,
            carries: false,
            upstream: None,
        })
        .collect();
    if code != "reference" {
        let reader = app.store.reader()?;
        StoreLedger::new(app.store.clone(), &reader, app::TOOL).remember(world.db.take_rows());
    }
    let evaluation = Evaluation {
        boards,
        missing: by_kind(&hold),
        failures: Vec::new(),
        executed: BTreeMap::new(),
        reused: BTreeMap::new(),
        stopped: false,
        compiler: String::new(),
        statement: None,
        world,
    };
    let missing = evaluation.missing.clone();
    Ok((leaderboard(&app, &evaluation, options)?, missing))
}

fn with_code(world: World, code: &str) -> World {
    World {
        db: world.db.with_code(code),
        ..world
    }
}

fn by_kind(hold: &Hold) -> BTreeMap<String, u64> {
    let mut missing = BTreeMap::new();
    for job in hold.jobs() {
        *missing.entry(job.kind().name.to_string()).or_default() += 1;
    }
    missing
}

/// A digest of the rows, scores and intervals and ranks.
fn leaderboard(app: &App, evaluation: &Evaluation, options: &Options) -> Fallible<String> {
    let project = &app.project;
    let seed = project.config.run.seed;
    let penalties = project.subjects.iter();
    let penalties = penalties.map(|s| (s.manifest.name.clone(), options.penalty));
    let board = report::leaderboard(
        evaluation,
        &project.config.score,
        &penalties.collect(),
        seed,
    )?;
    let mut rows = serde_json::to_value(&board.rows)?;
    for row in rows.as_array_mut().into_iter().flatten() {
        // Names of what was evaluated, which the reference way does not look up.
        row["commit"] = "".into();
        row["compiler"] = "".into();
    }
    Ok(Digest::of(rows.to_string().as_bytes()).hex())
}

/// Evaluates until the wanted set is known, then until every reply and verdict is in.
fn finish_edit(dir: &Path, way: &str, started: Instant) -> Fallible<Said> {
    let app = App::open_to_score(dir)?;
    let mut world = app.world(&Options::default())?;
    if way == "reference" {
        world = with_code(world, way);
    }
    let benches = world.benches.clone();
    let (models, scorings) = (world.models.clone(), world.scorings.clone());
    let ledger = StoreLedger::new(app.store.clone(), &app.store.reader()?, app::TOOL);
    // What answers here does not look at the system.
    let registry = fakes::registry(&Synthetic::new(0, 0, 0, 0));
    let mut said: Option<Said> = None;
    loop {
        let (_, hold) = app::boards(&world.db, &benches, &models, &scorings);
        if way == "ours" {
            ledger.remember(world.db.take_rows());
        }
        said.get_or_insert_with(|| Said {
            rows: String::new(),
            missing: by_kind(&hold),
            wanted: (cpu(), started.elapsed().as_secs_f64()),
        });
        let cases = ["ask/completion", "oss/verdict"];
        let jobs = hold.jobs().iter();
        let jobs: Vec<_> = jobs
            .filter(|j| cases.contains(&j.kind().name))
            .cloned()
            .collect();
        if jobs.is_empty() {
            return said.ok_or_else(|| "nothing was evaluated".into());
        }
        let arrived = workbench::run(&app.store, &registry, &jobs);
        let facts = ledger.facts()?;
        world.db.arrive(&arrived, facts);
    }
}
