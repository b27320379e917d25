//! The recording tools: while a subject is built, `cc`, `c++`, `ar` and `ranlib` are this program
//! under those names. It writes down what it was asked and becomes the real tool. It runs inside
//! the sandbox, so it reads its orders from the environment that the sandbox gave it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use super::commands::Recorded;
use crate::oss::layout::{BIN, RECORD, REPORT_HEADER, in_tree};

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
    ("ranlib", "ranlib"),
    ("gcc-ranlib", "ranlib"),
];

/// Variable that holds the real tool's path: `EVERBENCH_CC`, `EVERBENCH_CXX`, `EVERBENCH_AR`,
/// `EVERBENCH_RANLIB`.
pub fn variable(tool: &str) -> &'static str {
    match tool {
        "cc" => "EVERBENCH_CC",
        "c++" => "EVERBENCH_CXX",
        "ar" => "EVERBENCH_AR",
        _ => "EVERBENCH_RANLIB",
    }
}

/// Set while what the tools do is to be recorded (building, not configuring).
pub const ACTIVE: &str = "EVERBENCH_RECORD";
/// Globs of the test programs' own sources, one a line; set when they are to report out of band.
pub const HARNESS: &str = "EVERBENCH_HARNESS";

/// Acts as a recording tool if the program was called as one; does not return if all goes well.
pub fn act_as_tool() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    let name = Path::new(&name).file_name()?.to_str()?.to_string();
    let (_, tool) = NAMES.iter().find(|(n, _)| *n == name)?;
    let real = std::env::var_os(variable(tool))?;
    Some(act(tool, &real, args.collect()))
}

fn act(tool: &str, real: &OsString, args: Vec<OsString>) -> ExitCode {
    let result: Result<(), String> = prepare(tool, args).and_then(|argv| {
        // A real tool can be a script that calls another by name: that one is not to be this
        // program once more, or the two call each other for ever.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let others = std::env::split_paths(&path).filter(|dir| dir != Path::new(BIN));
        let path = std::env::join_paths(others).map_err(|e| e.to_string())?;
        // Only an error comes back from here.
        let error = Command::new(real).args(&argv).env("PATH", path).exec();
        Err(format!("cannot run {}: {error}", real.to_string_lossy()))
    });
    let why = result.err().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "everbench recording {tool}: {why}");
    ExitCode::from(125)
}

/// The arguments to run the real tool with, written down first if that is wanted.
fn prepare(tool: &str, args: Vec<OsString>) -> Result<Vec<OsString>, String> {
    if std::env::var_os(ACTIVE).is_none() {
        return Ok(args);
    }
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
    let cwd = std::env::current_dir().map_err(|e| e.to_string())?;
    let cwd = cwd
        .to_str()
        .ok_or("the working directory is not UTF-8")?
        .to_string();
    let harness = matches!(tool, "cc" | "c++") && is_harness(&cwd, &argv)?;
    if harness {
        argv.splice(0..0, ["-include".to_string(), REPORT_HEADER.to_string()]);
    }
    let recorded = Recorded {
        tool: tool.to_string(),
        argv: argv.clone(),
        cwd,
        harness,
    };
    let mut line = serde_json::to_vec(&recorded).map_err(|e| e.to_string())?;
    line.push(b'\n');
    // One write to a file opened for appending: records of parallel compilers do not mix.
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(format!("{RECORD}/commands"))
        .and_then(|mut file| file.write_all(&line))
        .map_err(|e| format!("cannot record: {e}"))?;
    Ok(argv.into_iter().map(OsString::from).collect())
}

fn is_harness(cwd: &str, argv: &[String]) -> Result<bool, String> {
    let Ok(globs) = std::env::var(HARNESS) else {
        return Ok(false);
    };
    let mut set = globset::GlobSetBuilder::new();
    for glob in globs.lines() {
        let glob = globset::GlobBuilder::new(glob)
            .literal_separator(true)
            .build();
        set.add(glob.map_err(|e| e.to_string())?);
    }
    let set = set.build().map_err(|e| e.to_string())?;
    Ok(argv
        .iter()
        .filter(|a| !a.starts_with('-'))
        .filter_map(|a| in_tree(cwd, a))
        .any(|path| set.is_match(&path) && !path.ends_with(".o")))
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
