//! Looks at a tree after the build: what each recorded unit reads and defines, what the build made
//! of the source besides, and what it made by commands that were not recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use super::base::describe;
use super::commands;
use super::observe::shown;
use super::products::{Made, Products};
use super::runner::{Call, Workshop, compiler_limits, host};
use super::{Limits, Status};
use crate::digest::Digest;
use crate::engine::{Context, Failure};
use crate::oss::artifact::{BuiltFile, Unit, Untracked};
use crate::oss::layout::{KEPT, TREE, in_tree};
use crate::source::Snapshot;

/// What the files of a tree are after the build.
pub struct Survey {
    /// Objects, archives, libraries and programs that the source did not bring.
    pub binaries: BTreeMap<String, Digest>,
    /// Source files that do not hold any more what the source brought.
    pub rewritten: BTreeSet<String>,
    /// All files that the source did not bring as they are, with what they hold; without that for
    /// those that are never the same twice. What recorded commands made is among them.
    pub others: BTreeMap<String, Option<Digest>>,
}

/// Names of files in which build systems write down the time, the machine or a process.
const VOLATILE: &[&str] = &[
    "config.log",
    "config.status",
    "libtool",
    "CMakeConfigureLog.yaml",
    "CMakeOutput.log",
    "CMakeError.log",
    "LastTest.log",
    ".ninja_log",
    ".ninja_deps",
];

/// Whether a build is not to be expected to write the same file twice.
fn is_volatile(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    VOLATILE.contains(&name) || name.ends_with(".log")
}

/// First bytes of ELF files, archives, thin archives and LLVM's bitcode.
const BINARY: &[&[u8]] = &[b"\x7fELF", b"!<arch>\n", b"!<thin>\n", b"BC\xc0\xde"];

/// Looks through the tree.
pub fn survey(tree: &Path, snapshot: &Snapshot, made: &[Made]) -> Result<Survey, Failure> {
    let trouble = host("looking through the build tree");
    let known: BTreeSet<&String> = made.iter().map(|m| &m.output).collect();
    let mut out = Survey {
        binaries: BTreeMap::new(),
        rewritten: BTreeSet::new(),
        others: BTreeMap::new(),
    };
    for entry in walkdir::WalkDir::new(tree).sort_by_file_name() {
        let entry = entry.map_err(|e| trouble(e.into()))?;
        let path = entry.path().strip_prefix(tree).ok();
        // What is not UTF-8 has not been named by a recorded command.
        let (true, Some(path)) = (entry.file_type().is_file(), path.and_then(Path::to_str)) else {
            continue;
        };
        let brought = snapshot.files.get(path);
        let made = known.contains(&path.to_string());
        let digest = Digest::of(&std::fs::read(entry.path()).map_err(&trouble)?);
        let same = brought.is_some_and(|f| f.digest == digest);
        if !same {
            let held = (!is_volatile(path)).then_some(digest);
            out.others.insert(path.to_string(), held);
        }
        let binary = made || is_binary(entry.path()).map_err(&trouble)?;
        if !binary && !brought.is_some_and(|_| is_source(path)) || !made && same {
            continue;
        }
        if brought.is_some() && is_source(path) {
            out.rewritten.insert(path.to_string());
        } else if binary {
            out.binaries.insert(path.to_string(), digest);
        }
    }
    Ok(out)
}

fn is_binary(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::with_capacity(8);
    std::fs::File::open(path)?.take(8).read_to_end(&mut start)?;
    Ok(BINARY.iter().any(|magic| start.starts_with(magic)))
}

fn is_source(path: &str) -> bool {
    path.ends_with(".c") || path.ends_with(".h")
}

/// Preprocesses every unit and lists every object's symbols. Gives the headers of the system as well
/// that the units read.
pub fn units(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    env: &BTreeMap<String, String>,
    units: Vec<Unit>,
    blobs: &mut Vec<Vec<u8>>,
) -> Result<(Vec<Unit>, BTreeSet<String>), Failure> {
    let examined = side_by_side(&units, |unit| unit_of(shop, context, tree, env, unit));
    let mut out = Vec::with_capacity(units.len());
    let mut headers = BTreeSet::new();
    for result in examined {
        let (unit, texts) = result?;
        headers.extend(system_headers(&texts[0], &unit.cwd));
        blobs.extend(texts);
        out.push(unit);
    }
    Ok((out, headers))
}

/// What `work` makes of each item, in their order, on all cores.
pub fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    let Some(item) = items.get(i) else { break };
                    let result = work(item);
                    done.lock()
                        .expect("nothing panics while it holds the lock")
                        .push((i, result));
                }
            });
        }
    });
    let mut done = done
        .into_inner()
        .expect("nothing panics while it holds the lock");
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

fn unit_of(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    env: &BTreeMap<String, String>,
    unit: &Unit,
) -> Result<(Unit, [Vec<u8>; 2]), Failure> {
    let argv =
        |program: &Path, args: Vec<String>| [vec![program.display().to_string()], args].concat();
    let preprocess = argv(shop.tools.tool(&unit.tool), commands::preprocess(unit));
    let text = output(shop, context, tree, (&unit.cwd, env), preprocess)?;
    let object = format!("{TREE}/{}", unit.object);
    let list = argv(&shop.tools.nm, vec!["-g".into(), "-P".into(), object]);
    let symbols = symbols(&output(shop, context, tree, (&unit.cwd, env), list)?);
    let unit = Unit {
        reads: reads(&text, &unit.cwd),
        preprocessed: Digest::of(&text),
        symbols: Digest::of(&symbols),
        ..unit.clone()
    };
    Ok((unit, [text, symbols]))
}

fn output(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    (cwd, env): (&str, &BTreeMap<String, String>),
    argv: Vec<String>,
) -> Result<Vec<u8>, Failure> {
    let call = Call {
        cwd: cwd.to_string(),
        env: env.clone(),
        limits: Limits {
            output: 256 << 20,
            ..compiler_limits()
        },
        ..Call::on(tree, argv.clone())
    };
    let ended = shop.run(&call, context)?;
    if ended.status == Status::Exited(0) {
        return Ok(ended.stdout);
    }
    Err(Failure::Fatal {
        what: format!(
            "`{}` ended with {}: {}",
            argv.join(" "),
            describe(&ended.status),
            String::from_utf8_lossy(&ended.stderr)
                .lines()
                .next()
                .unwrap_or_default()
        ),
        help: "the same command went well in the subject's own build; does it depend on files \
               that the build removes?"
            .into(),
    })
}

/// The standard output of a command whose exit status says nothing.
pub fn output_of(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    argv: Vec<String>,
) -> Result<Vec<u8>, Failure> {
    let ended = shop.run(&Call::on(tree, argv.clone()), context)?;
    match ended.status {
        Status::Exited(_) => Ok(ended.stdout),
        other => Err(Failure::Fatal {
            what: format!("`{}` ended with {}", argv[0], describe(&other)),
            help: "run `everbench doctor`".into(),
        }),
    }
}

/// Kind and name of each symbol, sorted, one a line: no addresses, no sizes.
fn symbols(listing: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(listing);
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, kind) = (words.next()?, words.next()?);
            // An archive's listing has the names of its members between.
            (kind.len() == 1).then(|| format!("{kind} {name}\n"))
        })
        .collect();
    lines.sort_unstable();
    lines.concat().into_bytes()
}

/// What a listing of [`symbols`] defines, without what every program has.
fn defined(symbols: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(symbols);
    let names = text.lines().filter_map(|line| line.split_once(' '));
    names
        .filter(|(kind, name)| !matches!(*kind, "U" | "w" | "v") && *name != "main")
        .map(|(_, name)| name.to_string())
        .collect()
}

/// The files of the tree that line markers name.
fn reads(preprocessed: &[u8], cwd: &str) -> Vec<String> {
    let files: BTreeSet<String> = marked(preprocessed)
        .into_iter()
        .filter_map(|path| in_tree(cwd, path))
        .collect();
    files.into_iter().collect()
}

/// The files of the system that line markers name.
fn system_headers(preprocessed: &[u8], cwd: &str) -> Vec<String> {
    let outside = marked(preprocessed).into_iter();
    let outside = outside.filter(|path| !path.starts_with('<') && in_tree(cwd, path).is_none());
    outside.filter_map(shown).collect()
}

/// The files that line markers name, each once.
fn marked(preprocessed: &[u8]) -> BTreeSet<&str> {
    let markers = preprocessed
        .split(|b| *b == b'\n')
        .filter_map(|line| line.strip_prefix(b"# "));
    let names = markers.filter_map(|rest| {
        let start = rest.iter().position(|b| *b == b'"')?;
        let end = rest
            .iter()
            .rposition(|b| *b == b'"')
            .filter(|e| *e > start)?;
        std::str::from_utf8(&rest[start + 1..end]).ok()
    });
    names.collect()
}

/// What the build made of the source, as far as units read it.
#[derive(Default)]
pub struct Sources {
    /// See `BaseDoc::copies`.
    pub copies: BTreeMap<String, String>,
    /// Files that are neither of the source nor copies of it.
    pub generated: BTreeMap<String, BuiltFile>,
}

/// Finds out what each file is that a unit reads, and has units that read a copy read the original
/// as well. A copy is a file that holds exactly what one file of the source holds (of several, the
/// one with its name).
pub fn sources(tree: &Path, snapshot: &Snapshot, units: &mut [Unit]) -> Result<Sources, Failure> {
    let mut by_digest: BTreeMap<Digest, Vec<&String>> = BTreeMap::new();
    for (path, entry) in snapshot.files.iter().filter(|(_, e)| e.size > 0) {
        by_digest.entry(entry.digest).or_default().push(path);
    }
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
    let mut out = Sources::default();
    let read: BTreeSet<String> = units.iter().flat_map(|u| u.reads.clone()).collect();
    for path in read {
        let real = tree.join(&path).canonicalize().ok();
        let real = real.and_then(|p| Some(p.strip_prefix(tree).ok()?.to_str()?.to_string()));
        // `<built-in>` and the like are no files.
        let Some(real) = real.filter(|p| tree.join(p).is_file()) else {
            continue;
        };
        let bytes = std::fs::read(tree.join(&real)).map_err(host("reading a source file"))?;
        let digest = Digest::of(&bytes);
        if snapshot
            .files
            .get(&real)
            .is_some_and(|f| f.digest == digest)
        {
            if real != path {
                out.copies.insert(path, real);
            }
            continue;
        }
        let equal = by_digest.get(&digest).cloned().unwrap_or_default();
        let named: Vec<&&String> = equal.iter().filter(|p| name(p) == name(&real)).collect();
        let original = match (named.as_slice(), equal.as_slice()) {
            ([one], _) => Some((**one).clone()),
            ([], [one]) => Some((*one).clone()),
            _ => None,
        };
        if let Some(original) = original {
            out.copies.insert(path, original.clone());
            out.copies.insert(real, original);
        } else {
            if real != path {
                out.copies.insert(path, real.clone());
            }
            let file = BuiltFile {
                path: real.clone(),
                digest,
                size: bytes.len() as u64,
            };
            out.generated.insert(real, file);
        }
    }
    for unit in units {
        let originals: Vec<String> = unit
            .reads
            .iter()
            .filter_map(|path| out.copies.get(path).cloned())
            .collect();
        unit.reads.extend(originals);
        unit.reads.sort();
        unit.reads.dedup();
    }
    Ok(out)
}

/// The products that no recorded command made and that matter: a recorded command reads them, or
/// they define what a unit defines.
pub fn untracked(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    products: &Products,
    units: &[Unit],
    blobs: &[Vec<u8>],
) -> Result<Vec<Untracked>, Failure> {
    if products.unknown.is_empty() {
        return Ok(Vec::new());
    }
    let texts: BTreeMap<Digest, &Vec<u8>> = blobs.iter().map(|b| (Digest::of(b), b)).collect();
    let mut owners: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for unit in units {
        let listing = texts.get(&unit.symbols).map(|b| b.as_slice());
        for symbol in defined(listing.unwrap_or_default()) {
            owners.entry(symbol).or_default().insert(&unit.object);
        }
    }
    let mut found = Vec::new();
    for path in products.unknown.iter().filter(|p| !p.starts_with(KEPT)) {
        let mut names = BTreeSet::new();
        for flags in [["-g", "-P"].as_slice(), &["-g", "-P", "-D"]] {
            let words = [shop.tools.nm.display().to_string()].into_iter();
            let words = words.chain(flags.iter().map(|f| f.to_string()));
            let argv = words.chain([format!("{TREE}/{path}")]).collect();
            match output(shop, context, tree, (TREE, &BTreeMap::new()), argv) {
                Ok(listing) => names.extend(defined(&symbols(&listing))),
                // It is no file that has symbols.
                Err(Failure::Fatal { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let objects: BTreeSet<&String> = names
            .iter()
            .filter_map(|name| owners.get(name))
            .flatten()
            .copied()
            .collect();
        let reader = products
            .steps
            .iter()
            .find(|s| s.inputs.iter().any(|(_, p)| p == path));
        let reason = match (reader, objects.is_empty()) {
            (None, true) => continue,
            (Some(step), _) => format!(
                "`{}` is made of it, and no recorded command made it",
                step.output
            ),
            (None, false) => "no recorded command made it".to_string(),
        };
        found.push(Untracked {
            path: path.clone(),
            reason,
            units: objects.into_iter().cloned().collect(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_lose_their_addresses_and_line_markers_give_the_files() {
        assert_eq!(
            symbols(b"lib.a[x.o]:\nputs U         \nf T 0000 001a\n"),
            b"T f\nU puts\n"
        );
        let text = b"# 1 \"../src/a.c\"\n# 1 \"/usr/include/stdio.h\" 1 3 4\n# 2 \"../src/a.h\" 1\nint x;\n";
        assert_eq!(reads(text, "/eb/tree/build"), ["src/a.c", "src/a.h"]);
        assert_eq!(
            system_headers(text, "/eb/tree/build"),
            ["/usr/include/stdio.h"]
        );
    }
}
