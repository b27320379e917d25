//! How fast a repository becomes candidates. Crates that carry C projects are fetched by name and
//! written out as one tree of about a million lines. Every measure is a fresh process that reads the tree and
//! mines it with the same store: first with nothing remembered, then again, then after one function was
//! added to one file. The reference compares all pairs of blocks of a small part by the textbook's table.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use everbench::app::corpus::{List, import, mine_in};
use everbench::cancel::Cancel;
use everbench::contamination::clones::pairs;
use everbench::contamination::leaf::{leaf, reading};
use everbench::contamination::{File, Settings};
use everbench::lang::SnippetLanguage;
use everbench::source::{Limits, read_directory};
use everbench::subject::Globs;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// Crates whose C sources are mined as one repository.
const CRATES: [&str; 8] = [
    "aws-lc-sys",
    "freetype-sys",
    "libgit2-sys",
    "libz-sys",
    "onig_sys",
    "openssl-src",
    "ring",
    "zstd-sys",
];
/// Lines of C that are mined.
const LINES: usize = 1_000_000;
/// Seconds that a cold start may take.
const GOAL_COLD: f64 = 90.0;
/// Seconds when one file has changed.
const GOAL_CHANGED: f64 = 2.0;
/// Mebibytes.
const GOAL_MEMORY: f64 = 2048.0;
/// Blocks of which all pairs are compared by table.
const REFERENCE: usize = 1500;

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--child") => child(Path::new(&args[1])),
        Some(dir) => bench(&PathBuf::from(dir)),
        None => {
            let dir = tempfile::tempdir()?;
            bench(dir.path())
        }
    }
}

fn c() -> SnippetLanguage {
    SnippetLanguage::named("c").expect("C is in the table")
}

/// What one process measures of itself.
#[derive(Clone, Copy, Debug)]
struct Measure {
    seconds: f64,
    /// Of the processor, on all cores.
    cpu: f64,
    mebibytes: f64,
    read: usize,
}

fn child(dir: &Path) -> Fallible<()> {
    let started = Instant::now();
    let files = tree(&dir.join("tree"))?;
    let mining = mine_in(&dir.join("project"), c(), &files, &Settings::default())?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{seconds} {} {} {}", processor(), peak()?, mining.read);
    let kinds = mining.mined.candidates.iter();
    let kinds = kinds.fold(BTreeMap::new(), |mut kinds, c| {
        *kinds.entry(format!("{:?}", c.pattern)).or_insert(0) += 1;
        kinds
    });
    eprintln!("  {kinds:?}, left out: {:?}", mining.mined.excluded);
    Ok(())
}

/// Seconds that this process has had of the processor.
fn processor() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage`, which the call fills in.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Peak memory of this process, in mebibytes.
fn peak() -> Fallible<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1));
    Ok(kib.ok_or("no peak memory")?.parse::<f64>()? / 1024.0)
}

fn tree(dir: &Path) -> Fallible<Vec<File>> {
    let tree = read_directory(dir, &Globs::default(), &Limits::default())?;
    let files = tree.snapshot.files.keys().filter_map(|path| {
        Some(File {
            path: path.clone(),
            bytes: tree.bytes(path)?.clone(),
        })
    });
    Ok(files.collect())
}

fn bench(dir: &Path) -> Fallible<()> {
    let lines = prepare(dir)?;
    let measure = |what: &str| -> Fallible<Measure> {
        eprintln!("{what}:");
        let own = std::env::current_exe()?;
        let output = Command::new(own)
            .arg("--child")
            .arg(dir)
            .stderr(std::process::Stdio::inherit())
            .output()?;
        let said = String::from_utf8(output.stdout)?;
        let words: Vec<&str> = said.split_whitespace().collect();
        let [seconds, cpu, mebibytes, read] = words[..] else {
            return Err(format!("{what}: it failed").into());
        };
        let measure = Measure {
            seconds: seconds.parse()?,
            cpu: cpu.parse()?,
            mebibytes: mebibytes.parse()?,
            read: read.parse()?,
        };
        println!(
            "{what:<18} {:>7.2} s {:>7.2} CPU s {:>6.0} MiB {:>6} files read",
            measure.seconds, measure.cpu, measure.mebibytes, measure.read
        );
        Ok(measure)
    };
    println!("{lines} lines of C");
    let cold = measure("cold")?;
    let again = measure("again")?;
    change(dir)?;
    let changed = measure("one file changed")?;
    let (naive, ours) = reference(dir)?;
    println!("all pairs of {REFERENCE} blocks: {naive:.2} s by table, {ours:.3} s here");
    let row = |name: &str, ours: f64, cpu: Option<f64>, goal: f64, unit: &str| {
        serde_json::json!({
            "name": name, "ours": round(ours), "goal": goal, "ratio": round(goal / ours),
            "unit": unit, "met": ours < goal, "cpu_s": cpu.map(round),
        })
    };
    let memory = cold.mebibytes.max(again.mebibytes).max(changed.mebibytes);
    let line = serde_json::json!({
        "bench": "mining", "lines": lines, "measures": [
            row("cold", cold.seconds, Some(cold.cpu), GOAL_COLD, "s"),
            row("one file changed", changed.seconds, Some(changed.cpu), GOAL_CHANGED, "s"),
            row("memory", memory, None, GOAL_MEMORY, "MiB"),
            {
                "name": "clone pairs", "ours": round(ours), "reference": round(naive),
                "ratio": round(naive / ours), "unit": "s", "goal": 1.0, "met": ours < naive,
            },
        ],
    });
    println!("{line}");
    Ok(())
}

fn round(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// Fetches the crates and writes their C sources out; how many lines that are.
fn prepare(dir: &Path) -> Fallible<usize> {
    let list = CRATES
        .map(|name| format!("[[family]]\ncrate = \"{name}\"\n"))
        .concat();
    let root = dir.join("tree");
    for old in [&root, &dir.join("project")] {
        let _ = std::fs::remove_dir_all(old);
    }
    std::fs::create_dir_all(dir)?;
    let path = dir.join("corpus.toml");
    std::fs::write(&path, list)?;
    let fetched = import(
        &dir.join("fetched"),
        &List::read(&path)?,
        &Cancel::new(),
        &mut |name| {
            eprintln!("{name}");
        },
    )?;
    if let Some((name, why)) = fetched.missing.first() {
        return Err(format!("{name}: {why}").into());
    }
    let settings = Settings::default();
    let mut lines = 0;
    for family in fetched.families {
        for file in family.files {
            let own = format!("{}/{}", family.name, file.path);
            let file = File { path: own, ..file };
            // What mining leaves out counts for nothing.
            let code = reading(c(), &file.path).is_ok_and(|r| r.is_code());
            if !code || leaf(c(), &file, &settings).reason.is_some() || lines >= LINES {
                continue;
            }
            lines += file.bytes.iter().filter(|b| **b == b'\n').count();
            let path = root.join(&file.path);
            std::fs::create_dir_all(path.parent().ok_or("a file has a folder")?)?;
            std::fs::write(path, &file.bytes)?;
        }
    }
    Ok(lines)
}

/// Adds a function to one file.
fn change(dir: &Path) -> Fallible<()> {
    let files = tree(&dir.join("tree"))?;
    let middle = &files[files.len() / 2];
    let more = "\nint added_by_bench(int a)\n{\n    int b = a;\n    b += 1;\n    b += 2;\n    return b;\n}\n";
    let bytes = [&middle.bytes[..], more.as_bytes()].concat();
    std::fs::write(dir.join("tree").join(&middle.path), bytes)?;
    Ok(())
}

/// Seconds for all pairs of some blocks, by table and by this program.
fn reference(dir: &Path) -> Fallible<(f64, f64)> {
    let settings = Settings::default();
    let mut blocks: Vec<Vec<u64>> = Vec::new();
    for file in tree(&dir.join("tree"))? {
        blocks.extend(
            leaf(c(), &file, &settings)
                .blocks
                .into_iter()
                .map(|b| b.lines),
        );
        if blocks.len() >= REFERENCE {
            break;
        }
    }
    blocks.truncate(REFERENCE);
    let lists: Vec<&[u64]> = blocks.iter().map(Vec::as_slice).collect();
    let started = Instant::now();
    let mut by_table = Vec::new();
    for (i, a) in lists.iter().enumerate() {
        for (j, b) in lists.iter().enumerate().skip(i + 1) {
            let common = table(a, b) as f64;
            let near = |n: usize| (n as f64 - common) / n as f64 <= settings.dissimilarity + 1e-9;
            if near(a.len()) && near(b.len()) {
                by_table.push((i as u32, j as u32));
            }
        }
    }
    let naive = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let found = pairs(&lists, &settings);
    let ours = started.elapsed().as_secs_f64();
    match found == by_table {
        true => Ok((naive, ours)),
        false => Err("the two ways do not find the same pairs".into()),
    }
}

/// The length of the longest common subsequence, by the textbook's table, two rows of it at a time.
fn table(a: &[u64], b: &[u64]) -> u32 {
    let mut above = vec![0u32; b.len() + 1];
    let mut row = above.clone();
    for x in a {
        for (j, y) in b.iter().enumerate() {
            row[j + 1] = match x == y {
                true => above[j] + 1,
                false => above[j + 1].max(row[j]),
            };
        }
        std::mem::swap(&mut above, &mut row);
    }
    above[b.len()]
}
