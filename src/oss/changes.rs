//! What differs between two jobs, input by input, and how that is said. Knows the names of inputs,
//! and nothing of what they mean.

use crate::job::{Job, JobRecord, Value};

/// One input of a job that is not what it was.
#[derive(Clone, PartialEq, Debug)]
pub struct Changed {
    /// The input's name.
    pub name: String,
    /// What it was; absent if there was no such input.
    pub old: Option<Value>,
    /// What it is.
    pub new: Option<Value>,
}

/// The inputs in which two jobs differ, by name. A kind of another version counts as an input
/// called `version`.
pub fn changes(old: &JobRecord, new: &JobRecord) -> Vec<Changed> {
    let mut out = Vec::new();
    if old.version != new.version {
        let value = |version: u32| Some(Value::Int(i64::from(version)));
        out.push(Changed {
            name: "version".into(),
            old: value(old.version),
            new: value(new.version),
        });
    }
    let names: std::collections::BTreeSet<&String> =
        old.inputs.keys().chain(new.inputs.keys()).collect();
    for name in names {
        let (was, is) = (old.inputs.get(name), new.inputs.get(name));
        if was != is {
            out.push(Changed {
                name: name.clone(),
                old: was.cloned(),
                new: is.cloned(),
            });
        }
    }
    out
}

/// A job as a record.
pub fn record(job: &Job) -> JobRecord {
    JobRecord {
        kind: job.kind().name.to_string(),
        version: job.kind().version,
        inputs: job
            .inputs()
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
    }
}

/// What an input is called when people are told that it changed.
pub fn said<'a>(kind: &str, input: &'a str) -> &'a str {
    match (kind, input) {
        (_, "version") => "the kind's version",
        (_, "toolchain") => "the compiler",
        ("ask/calibration", "function") => "the function's text",
        ("ask/calibration", "edit" | "item") => "the draw",
        (_, "queries") => "the language's queries",
        (_, "user" | "system" | "messages") => "the prompt",
        (_, "model") => "the model's revision",
        (_, "sampling") => "the sampling",
        ("oss/verdict" | "oss/warnings" | "oss/audit", "replace") => "the text or the reply",
        (_, "contexts") => "what it is compiled with",
        (_, "link") => "what it is linked with",
        ("oss/program", "set") => "the variants",
        ("oss/program", "base") => "the unchanged program",
        ("oss/program", "units") => "what it is compiled with",
        (_, "products") => "the program",
        (_, "reads") => "a file that the tests read",
        (_, "snapshot") => "the source tree",
        (_, "argv" | "cwd" | "env" | "report" | "scratch" | "writable") => "the test command",
        ("oss/base", "configure" | "build") => "the build commands",
        (_, other) => other,
    }
}

/// At most so many details of one input are told.
const DETAILS: usize = 12;

/// What differs between two byte strings: members of JSON objects, or lines.
pub fn details(old: &[u8], new: &[u8]) -> Vec<String> {
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    let mut out = Vec::new();
    match (json(old), json(new)) {
        (Some(old), Some(new)) if old.is_object() && new.is_object() => {
            members("", Some(&old), Some(&new), &mut out);
        }
        _ => {
            let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else {
                return vec![format!("{} bytes, {} before", new.len(), old.len())];
            };
            let diff = similar::TextDiff::from_lines(old, new);
            for change in diff.iter_all_changes() {
                let sign = match change.tag() {
                    similar::ChangeTag::Equal => continue,
                    similar::ChangeTag::Delete => '-',
                    similar::ChangeTag::Insert => '+',
                };
                out.push(format!("{sign} {}", change.value().trim_end_matches('\n')));
            }
        }
    }
    if out.len() > DETAILS {
        let more = out.len() - DETAILS;
        out.truncate(DETAILS);
        out.push(format!("... and {more} more"));
    }
    out
}

fn members(
    at: &str,
    old: Option<&serde_json::Value>,
    new: Option<&serde_json::Value>,
    out: &mut Vec<String>,
) {
    use serde_json::Value as Json;
    match (old, new) {
        (Some(Json::Object(a)), Some(Json::Object(b))) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let path = match at {
                    "" => name.clone(),
                    _ => format!("{at}: {name}"),
                };
                members(&path, a.get(name), b.get(name), out);
            }
        }
        (a, b) if a == b => {}
        (None, _) => out.push(format!("{at} (new)")),
        (_, None) => out.push(format!("{at} (gone)")),
        _ => out.push(at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Kind, Nature};

    fn job(version: u32, command: &str, extra: Option<i64>) -> JobRecord {
        let kind = Kind {
            name: "test/kind",
            version,
            nature: Nature::Deterministic,
        };
        let mut job = Job::of(kind).put("argv", command).put("same", 1);
        if let Some(extra) = extra {
            job = job.put("extra", extra);
        }
        record(&job.done())
    }

    #[test]
    fn inputs_that_differ_are_named_and_others_are_not() {
        let names = |old: &JobRecord, new: &JobRecord| -> Vec<String> {
            changes(old, new).into_iter().map(|c| c.name).collect()
        };
        let old = job(1, "a", None);
        assert_eq!(names(&old, &old), Vec::<String>::new());
        assert_eq!(names(&old, &job(1, "b", None)), ["argv"]);
        assert_eq!(names(&old, &job(1, "a", Some(2))), ["extra"]);
        assert_eq!(names(&job(1, "a", Some(2)), &old), ["extra"]);
        assert_eq!(
            names(&old, &job(2, "b", Some(2))),
            ["version", "argv", "extra"]
        );
    }

    #[test]
    fn a_difference_is_told_by_members_or_by_lines() {
        let old = br#"{"target":"x","files":{"cc1":"1","ld":"2","as":"3"}}"#;
        let new = br#"{"target":"x","files":{"cc1":"9","ld":"2","nm":"4"}}"#;
        assert_eq!(
            details(old, new),
            ["files: as (gone)", "files: cc1", "files: nm (new)"]
        );
        assert_eq!(
            details(b"int f(void)\n{\n}\n", b"int f(int a)\n{\n}\n"),
            ["- int f(void)", "+ int f(int a)"]
        );
        assert_eq!(details(b"\xff", b"ab"), ["2 bytes, 1 before"]);
        let many: String = (0..40).map(|n| format!("{n}\n")).collect();
        let told = details(b"", many.as_bytes());
        assert_eq!(told.len(), DETAILS + 1);
        assert_eq!(told[DETAILS], "... and 28 more");
    }
}
