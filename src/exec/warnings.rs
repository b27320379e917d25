//! What the compiler warns of in one function: the front end's word on every unit that reads it,
//! as verdicts replay them, with the usual flags for warnings. What is said of other lines is left
//! out, and lines are counted from the function's own, so that no position is in the answer.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::Status;
use super::replay::{Replay, first_line};
use super::runner::{Workshop, limit_name};
use super::verdict::{base_doc, replacement};
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::oss::artifact::{self, Warning, WarningsDoc};
use crate::oss::layout::in_tree;

/// Runs jobs of kind `oss/warnings`.
pub struct Warnings(pub Arc<Workshop>);

impl Executor for Warnings {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let base = job.material("base");
        let doc = base_doc(base, context)?;
        let r = replacement(job)?;
        let first = first_line(&self.0, base, &doc, context, &r)?;
        let text = (context.blob)(r.variant)?;
        let last = first + text.iter().filter(|b| **b == b'\n').count();
        let flags: Vec<&str> = job
            .list("flags")
            .iter()
            .filter_map(|f| match f {
                Value::Text(flag) => Some(flag.as_str()),
                _ => None,
            })
            .collect();
        let path = r.path.clone();
        let replay = Replay::new(&self.0, context, base, &doc, vec![r])?;
        let mut found = BTreeSet::new();
        let mut limit = None;
        for unit in replay.touched() {
            let ended = replay.diagnose(unit, &flags)?;
            if let Status::Limit(hit) = ended.status {
                limit = Some(limit_name(hit).to_string());
                break;
            }
            let log = String::from_utf8_lossy(&ended.stderr);
            let here = log.lines().filter_map(warning).filter(|w| {
                in_tree(&unit.cwd, &w.file).is_some_and(|file| file == path)
                    && (first..=last).contains(&w.line)
            });
            found.extend(here.map(|w| Warning {
                line: (w.line - first) as u32,
                column: w.column,
                flag: w.flag,
                message: w.message,
            }));
        }
        let doc = WarningsDoc {
            warnings: match limit {
                None => found.into_iter().collect(),
                // How far it got is chance.
                Some(_) => Vec::new(),
            },
            limit,
        };
        Ok(Output {
            bytes: artifact::write(&doc),
            blobs: vec![],
        })
    }
}

struct Said {
    file: String,
    line: usize,
    column: u32,
    flag: String,
    message: String,
}

/// A warning as GCC and Clang write it, also one that the project's own flags make an error.
fn warning(line: &str) -> Option<Said> {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(.+?):(\d+):(?:(\d+):)? (warning|error): (.*?)(?: \[(-W[^\]]*)\])?$")
            .expect("a pattern of this file compiles")
    });
    let found = LINE.captures(line)?;
    // `-Werror=flag`, and Clang's `-Werror,-Wflag`.
    let flag = found.get(6).map_or("", |m| m.as_str());
    let flag = flag.strip_prefix("-Werror,").unwrap_or(flag);
    let flag = match flag.strip_prefix("-Werror=") {
        Some(name) => format!("-W{name}"),
        None => flag.to_string(),
    };
    if &found[4] == "error" && flag.is_empty() {
        return None;
    }
    // `-Wformat=` and `-Wimplicit-fallthrough=` stand for a level: the flag is the same.
    let flag = flag.trim_end_matches('=').to_string();
    Some(Said {
        file: found[1].to_string(),
        line: found[2].parse().ok()?,
        column: found
            .get(3)
            .and_then(|c| c.as_str().parse().ok())
            .unwrap_or(0),
        flag,
        message: found[5].to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_with_their_flags() {
        let told = |line: &str| warning(line).map(|w| (w.file, w.line, w.flag));
        let of = |file: &str, line, flag: &str| Some((file.to_string(), line, flag.to_string()));
        for (line, expected) in [
            (
                "src/a.c:3:7: warning: unused variable 'x' [-Wunused-variable]",
                of("src/a.c", 3, "-Wunused-variable"),
            ),
            (
                "../a.c:3: warning: format '%d' expects [int] [-Wformat=]",
                of("../a.c", 3, "-Wformat"),
            ),
            (
                "a.c:9:1: error: no return [-Werror=return-type]",
                of("a.c", 9, "-Wreturn-type"),
            ),
            (
                "a.c:9:1: error: unused [-Werror,-Wunused]",
                of("a.c", 9, "-Wunused"),
            ),
            ("a.c:1:1: warning: something", of("a.c", 1, "")),
            ("a.c:1:1: error: 'x' undeclared", None),
            ("a.c:1:1: note: declared here", None),
            ("a.c: In function 'f':", None),
        ] {
            assert_eq!(told(line), expected, "{line}");
        }
    }
}
