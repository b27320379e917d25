//! Objects without places: what a sanitized subject is made of is compiled from preprocessed text in
//! which no line depends on what stands around a declaration (`lang::placeless`), so that an edit
//! of comments leaves its programs as they were. The work is done by the recording tool, inside the
//! sandbox, in the subject's own build and when a unit is compiled again: both give the same bytes.
//! What it gives is part of what a base and a program mean; a change is a new version of their kinds.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Bind;
use super::commands;
use super::recorder;
use super::runner::Workshop;
use crate::lang;
use crate::oss::layout::BIN;

/// Set when compilers are to make objects without places: [`AFTER`] or [`ONLY`].
pub const PLACELESS: &str = "EVERBENCH_PLACELESS";
/// After the command itself, which gives the status, the messages and the files beside the object.
pub const AFTER: &str = "after";
/// Without the command itself, unless there is no other way.
pub const ONLY: &str = "only";

/// A longer text than this is compiled as it is.
const LONGEST: u64 = 256 << 20;

/// Compiles the one source of a compiler's command into its object, without places; `real` starts
/// the compiler. An object that is there is written over only when all went well.
///
/// # Errors
/// Why it cannot be done; in words that are the same every time.
pub fn compile(
    real: impl Fn() -> Result<Command, String>,
    tool: &str,
    argv: &[String],
) -> Result<(), String> {
    let halves = commands::halves(tool, argv)?;
    let text = preprocessed(real()?.args(&halves.preprocess))?;
    let text = lang::placeless(halves.language, &text).map_err(|e| e.to_string())?;
    // Not beside the object: whatever looks into the tree meanwhile is to see the build's own files.
    let made = format!("/tmp/everbench-{}.o", std::process::id());
    let compiled = fed(real()?.args(&halves.compile).arg(&made), &text);
    let kept = compiled.and_then(|()| {
        let copied = std::fs::copy(&made, Path::new(&halves.object));
        copied.map_err(|e| format!("its object cannot be kept: {e}"))
    });
    let _ = std::fs::remove_file(&made);
    kept.map(|_| ())
}

fn preprocessed(command: &mut Command) -> Result<Vec<u8>, String> {
    let cannot = |e: std::io::Error| format!("the preprocessor cannot be run: {e}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot)?;
    let mut text = Vec::new();
    let stdout = child.stdout.take().expect("it was asked for");
    let read = stdout.take(LONGEST + 1).read_to_end(&mut text);
    if text.len() as u64 > LONGEST {
        let _ = child.kill();
    }
    let status = child.wait().map_err(cannot)?;
    read.map_err(cannot)?;
    if text.len() as u64 > LONGEST {
        return Err(format!("its text is longer than {} MiB", LONGEST >> 20));
    }
    match status.success() {
        true => Ok(text),
        false => Err("it does not preprocess by itself".into()),
    }
}

/// Runs a compiler on a text.
fn fed(command: &mut Command, text: &[u8]) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("the compiler cannot be run: {e}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot)?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    // A compiler that stops reading says by its status why.
    let _ = stdin.write_all(text);
    drop(stdin);
    match child.wait().map_err(cannot)?.success() {
        true => Ok(()),
        false => Err("its text without places does not compile".into()),
    }
}

/// How a unit is compiled again: the program, with what it needs.
pub struct Compiler {
    /// The program as the sandbox sees it.
    pub program: String,
    /// Mounts.
    pub binds: Vec<Bind>,
    /// Variables.
    pub env: BTreeMap<String, String>,
}

/// The compiler of a unit that is compiled by `tool`; with or without places.
pub fn compiler(shop: &Workshop, tool: &str, placeless: bool) -> Compiler {
    let real = shop.tools.tool(tool).display().to_string();
    if !placeless {
        return Compiler {
            program: real,
            binds: Vec::new(),
            env: BTreeMap::new(),
        };
    }
    let program = format!("{BIN}/{tool}");
    Compiler {
        binds: vec![Bind {
            host: shop.recorder.clone(),
            inside: program.clone().into(),
            writable: false,
        }],
        env: BTreeMap::from([
            (recorder::variable(tool), real),
            (PLACELESS.to_string(), ONLY.to_string()),
        ]),
        program,
    }
}
