//! The recording tools: while a subject is built, `cc`, `c++`, `ar` and `ranlib` are this program
//! under those names. It writes down what it was asked and becomes the real tool. It runs inside
//! the sandbox, so it reads its orders from the environment that the sandbox gave it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode};

use super::commands::{self, Part, Recorded, Understood};
use super::placeless;
use super::products::{Made, Work};
use crate::digest::Digest;
use crate::lang::LanguageId;
use crate::oss::artifact::Step;
use crate::oss::layout::{BIN, RECORD, REPORT_HEADER, REPORT_HEADER_CPP, TREE, in_tree};

/// Names under which this program is a recording tool, and what each stands for.
pub const NAMES: &[(&str, &str)] = &[
    ("cc", "cc"),
    ("gcc", "cc"),
    ("clang", "cc"),
    ("c++", "c++"),
    ("g++", "c++"),
    ("clang++", "c++"),
    ("ar", "ar"),
    ("gcc-ar", "ar"),
    ("llvm-ar", "ar"),
    ("ranlib", "ranlib"),
    ("gcc-ranlib", "ranlib"),
    ("llvm-ranlib", "ranlib"),
    ("ld", "ld"),
    ("strip", "strip"),
    ("objcopy", "objcopy"),
];

/// What the recording tools stand for.
pub const TOOLS: &[&str] = &["cc", "c++", "ar", "ranlib", "ld", "strip", "objcopy"];

/// Variable that holds the real tool's path: `EVERBENCH_CC`, `EVERBENCH_CXX`, `EVERBENCH_AR`, ...
pub fn variable(tool: &str) -> String {
    let name = if tool == "c++" { "cxx" } else { tool };
    format!("EVERBENCH_{}", name.to_uppercase())
}

/// Set while a subject is built (not configured): [`RECORDING`], or [`WHOLE`].
pub const ACTIVE: &str = "EVERBENCH_RECORD";
/// What the tools do is recorded; commands that compile and link at once are taken apart.
pub const RECORDING: &str = "record";
/// Nothing is recorded and commands stay whole where they can: the build as it is by itself.
pub const WHOLE: &str = "whole";
/// Globs of the test programs' own sources, one a line; set when they are to report out of band.
pub const HARNESS: &str = "EVERBENCH_HARNESS";

/// Set when units are to note which of their functions are entered.
pub const REACH: &str = "EVERBENCH_REACH";

/// Set when the compiler is clang.
pub const CLANG: &str = "EVERBENCH_CLANG";
/// What clang does without being told, and takes for a mistake when it is.
const CLANG_DOES: &[&str] = &["-static-libasan", "-static-libubsan"];

/// Acts as a recording tool if the program was called as one; does not return if all goes well.
pub fn act_as_tool() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    let name = Path::new(&name).file_name()?.to_str()?.to_string();
    let (_, tool) = NAMES.iter().find(|(n, _)| *n == name)?;
    let real = std::env::var_os(variable(tool))?;
    let acted = act(tool, &real, args.collect());
    Some(acted.unwrap_or_else(|why| {
        let _ = writeln!(std::io::stderr(), "everbench recording {tool}: {why}");
        ExitCode::from(125)
    }))
}

fn act(tool: &'static str, real: &OsString, mut args: Vec<OsString>) -> Result<ExitCode, String> {
    if matches!(tool, "cc" | "c++") && std::env::var_os(CLANG).is_some() {
        args.retain(|arg| !CLANG_DOES.iter().any(|word| arg == word));
    }
    let without_places = std::env::var_os(placeless::PLACELESS);
    let Some(mode) = std::env::var_os(ACTIVE) else {
        if without_places.is_some_and(|how| how == placeless::ONLY)
            && let Ok(argv) = expanded(args.clone())
            && placeless::compile(|| real_tool(real), tool, &argv).is_ok()
        {
            return Ok(ExitCode::SUCCESS);
        }
        let error = real_tool(real)?.args(&args).exec();
        return Err(format!("cannot run {}: {error}", real.to_string_lossy()));
    };
    let argv = expanded(args)?;
    let cwd = std::env::current_dir().map_err(|e| e.to_string())?;
    let cwd = cwd
        .to_str()
        .ok_or("the working directory is not UTF-8")?
        .to_string();
    let job = Job {
        tool,
        real,
        recording: mode == RECORDING,
        placeless: without_places.is_some_and(|how| how == placeless::AFTER),
        reach: std::env::var_os(REACH).is_some(),
    };
    if !matches!(tool, "cc" | "c++") {
        return job.run(argv, &cwd, false);
    }
    let harness = Harness::read()?;
    let parts = commands::split(tool, &argv, &cwd);
    let ours = |part: &Part| {
        let source = part.source.as_ref();
        source.is_some_and(|s| harness.has(&cwd, s))
    };
    match parts {
        Some(parts) => {
            let sources = parts.iter().filter(|p| p.source.is_some());
            let mixed = sources.clone().any(ours) && !sources.clone().all(ours);
            if !job.recording && !mixed {
                let all = sources.clone().any(ours);
                return job.run(argv, &cwd, all);
            }
            let mut failed = None;
            for part in &parts {
                if part.source.is_none() && failed.is_some() {
                    break;
                }
                let object = part.argv.iter().rposition(|a| a == "-o");
                if let Some(object) = object.and_then(|at| Path::new(&part.argv[at + 1]).parent()) {
                    std::fs::create_dir_all(object)
                        .map_err(|e| format!("cannot make {}: {e}", object.display()))?;
                }
                let code = job.run(part.argv.clone(), &cwd, ours(part))?;
                if code != ExitCode::SUCCESS {
                    failed.get_or_insert(code);
                }
            }
            Ok(failed.unwrap_or(ExitCode::SUCCESS))
        }
        None => {
            let ours = argv
                .iter()
                .any(|a| !a.starts_with('-') && !a.ends_with(".o") && harness.has(&cwd, a));
            job.run(argv, &cwd, ours)
        }
    }
}

/// The real tool. It can be a script that calls another by name: that one is not to be this
/// program once more, or the two call each other for ever.
fn real_tool(real: &OsString) -> Result<Command, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).filter(|dir| dir != Path::new(BIN));
    let path = std::env::join_paths(others).map_err(|e| e.to_string())?;
    let mut command = Command::new(real);
    command.env("PATH", path);
    Ok(command)
}

/// The arguments, with response files in place.
fn expanded(args: Vec<OsString>) -> Result<Vec<String>, String> {
    let mut argv = Vec::with_capacity(args.len());
    for arg in args {
        let arg = arg
            .into_string()
            .map_err(|a| format!("argument {a:?} is not UTF-8"))?;
        match arg
            .strip_prefix('@')
            .filter(|file| Path::new(file).is_file())
        {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
                argv.extend(split_response(&text));
            }
            None => argv.push(arg),
        }
    }
    Ok(argv)
}

struct Job<'a> {
    tool: &'static str,
    real: &'a OsString,
    recording: bool,
    /// Objects are made again without places.
    placeless: bool,
    /// Units in C note which of their functions are entered.
    reach: bool,
}

impl Job<'_> {
    /// Runs the real tool and writes down what it read and made.
    fn run(&self, mut argv: Vec<String>, cwd: &str, harness: bool) -> Result<ExitCode, String> {
        if harness {
            let cpp = self.tool == "c++" || argv.iter().any(|a| is_cpp(a));
            let header = if cpp {
                REPORT_HEADER_CPP
            } else {
                REPORT_HEADER
            };
            argv.splice(0..0, ["-include".to_string(), header.to_string()]);
        }
        let is_c = |argv: &[String]| {
            commands::halves(self.tool, argv).is_ok_and(|halves| halves.language == LanguageId::C)
        };
        if self.reach && is_c(&argv) {
            argv.splice(0..0, commands::REACHING.map(String::from));
        }
        let mut command = real_tool(self.real)?;
        command.args(&argv);
        let recorded = Recorded {
            tool: self.tool.to_string(),
            argv,
            cwd: cwd.to_string(),
            harness,
        };
        let planned = match self.recording {
            true => plan(&recorded),
            false => Vec::new(),
        };
        let status = command
            .status()
            .map_err(|e| format!("cannot run {}: {e}", self.real.to_string_lossy()))?;
        if !status.success() {
            let code = status.code().or(status.signal().map(|s| 128 + s));
            let code = code.and_then(|c| u8::try_from(c).ok()).unwrap_or(1);
            return Ok(ExitCode::from(code));
        }
        if planned.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let mut lines = Vec::new();
        for mut made in planned {
            if self.placeless && matches!(made.work, Work::Compile(_)) {
                let argv = &made.recorded.argv;
                let again = placeless::compile(|| real_tool(self.real), self.tool, argv);
                made.placed = again.err();
            }
            if made.work != Work::Extract {
                let Some(after) = digest(&made.output) else {
                    continue;
                };
                made.after = after;
            }
            lines.extend(serde_json::to_vec(&made).map_err(|e| e.to_string())?);
            lines.push(b'\n');
        }
        // One write to a file opened for appending: records of parallel compilers do not mix.
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(format!("{RECORD}/commands"))
            .and_then(|mut file| file.write_all(&lines))
            .map_err(|e| format!("cannot record: {e}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What a command is going to make, with what its files hold before it runs.
fn plan(recorded: &Recorded) -> Vec<Made> {
    let made = |work: Work, output: String, inputs: Vec<(usize, String, Digest)>| {
        let output = parent_resolved(&output);
        Made {
            recorded: recorded.clone(),
            work,
            before: digest(&output),
            output,
            after: Digest::of(b""),
            inputs,
            placed: None,
        }
    };
    if recorded.tool == "ar" && commands::extracts(recorded) {
        let archive = recorded.argv.iter().enumerate().skip(1);
        let archive = archive
            .filter_map(|(i, a)| read(i, &in_tree(&recorded.cwd, a)?))
            .take(1);
        let folder = in_tree(&recorded.cwd, "x").unwrap_or_default();
        let folder = parent_resolved(&folder);
        let folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
        return vec![made(Work::Extract, folder.to_string(), archive.collect())];
    }
    let exists = |path: &str| Path::new(TREE).join(path).exists();
    match commands::understand(recorded, &exists) {
        Understood::Nothing => Vec::new(),
        Understood::Compile(pairs) => pairs
            .into_iter()
            .map(|(source, object)| made(Work::Compile(source), object, Vec::new()))
            .collect(),
        Understood::Make(steps) => steps
            .into_iter()
            .map(|step| {
                let inputs: Vec<(usize, String, Digest)> = step
                    .inputs
                    .iter()
                    .filter_map(|(i, path)| read(*i, path))
                    .collect();
                let output = parent_resolved(&step.output);
                let step = Step {
                    inputs: inputs
                        .iter()
                        .map(|(i, path, _)| (*i, path.clone()))
                        .collect(),
                    ..step
                };
                made(Work::Step(step), output, inputs)
            })
            .collect(),
    }
}

/// A file that a command reads: without symbolic links, with what it holds.
fn read(at: usize, path: &str) -> Option<(usize, String, Digest)> {
    let real = Path::new(TREE).join(path).canonicalize().ok()?;
    let real = real.strip_prefix(TREE).ok()?.to_str()?.to_string();
    let digest = digest(&real)?;
    Some((at, real, digest))
}

/// A path without symbolic links but for its last part, which a tool replaces.
fn parent_resolved(path: &str) -> String {
    let resolved = || {
        let full = Path::new(TREE).join(path);
        let parent = full.parent()?.canonicalize().ok()?;
        let full = parent.join(full.file_name()?);
        Some(full.strip_prefix(TREE).ok()?.to_str()?.to_string())
    };
    resolved().unwrap_or_else(|| path.to_string())
}

fn digest(path: &str) -> Option<Digest> {
    let bytes = std::fs::read(Path::new(TREE).join(path)).ok()?;
    Some(Digest::of(&bytes))
}

/// Whether an argument is a source file in C++.
fn is_cpp(arg: &str) -> bool {
    !arg.starts_with('-') && LanguageId::of_path(arg) == Some(LanguageId::CPP)
}

/// The test programs' own sources.
struct Harness(globset::GlobSet);

impl Harness {
    fn read() -> Result<Harness, String> {
        let mut set = globset::GlobSetBuilder::new();
        for glob in std::env::var(HARNESS).unwrap_or_default().lines() {
            let glob = globset::GlobBuilder::new(glob)
                .literal_separator(true)
                .build();
            set.add(glob.map_err(|e| e.to_string())?);
        }
        Ok(Harness(set.build().map_err(|e| e.to_string())?))
    }

    fn has(&self, cwd: &str, source: &str) -> bool {
        in_tree(cwd, source).is_some_and(|path| self.0.is_match(&path))
    }
}

/// Splits a response file as GCC does: white space separates, quotes and backslashes protect.
fn split_response(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(chars.next()),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(q)) if c == q => quote = None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::split_response;

    #[test]
    fn response_files_are_split_as_gcc_does() {
        assert_eq!(
            split_response("-o 'a b' \"c\\\"d\"\n\\ x ''"),
            ["-o", "a b", "c\"d", " x", ""]
        );
    }
}
