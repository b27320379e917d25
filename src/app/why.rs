//! Why a job has to run: what is called the same in the last complete evaluation, compared with it
//! input by input.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::board::{Bench, World};
use super::error::fault_of;
use super::project::models;
use super::{App, AppError, Options};
use crate::digest::Digest;
use crate::job::{Job, JobRecord, Key, Value};
use crate::oss::leaderboard::{self, Entry};
use crate::oss::outlook;
use crate::oss::population;
use crate::store::{Manifest, Reader};

/// The last complete evaluation of a subject.
pub struct Last {
    reader: Reader,
    manifest: Manifest,
    /// The models that it has rows of.
    models: HashSet<String>,
}

/// The root that names a subject's last complete evaluation.
pub(super) fn last_name(subject: &str) -> String {
    format!("latest/{subject}")
}

/// The root that names the complete evaluation before the last one.
pub(super) fn previous_name(subject: &str) -> String {
    format!("previous/{subject}")
}

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

impl Last {
    /// The last complete evaluation of `subject`, if there was one, and which of `models` it has.
    pub fn of(reader: &Reader, subject: &str, models: &[&str]) -> Result<Option<Last>, AppError> {
        let Some(root) = reader.root(&last_name(subject))? else {
            return Ok(None);
        };
        let manifest = Manifest::load(reader, root)?;
        let mut unseen: Vec<(&str, String)> = models
            .iter()
            .map(|model| (*model, format!("/{model}/reply")))
            .collect();
        let mut seen = HashSet::new();
        for entry in manifest.entries()? {
            if let Some(at) = unseen.iter().position(|(_, end)| entry.id.ends_with(end)) {
                seen.insert(unseen.swap_remove(at).0.to_string());
            }
            if unseen.is_empty() {
                break;
            }
        }
        let models = seen;
        Ok(Some(Last {
            reader: reader.clone(),
            manifest,
            models,
        }))
    }

    /// Why the job that is called `id` has to run, in a few words.
    pub fn reason(&self, id: &str, model: Option<&str>, job: &Job) -> Result<String, AppError> {
        let Some((key, _)) = self.manifest.get(id)? else {
            let part = id.split('/').nth(1).unwrap_or_default();
            return Ok(match model {
                Some(model) if !self.models.contains(model) => "new model".into(),
                _ if part == "case" => "function not asked before".into(),
                _ if part == "iteration" => "iteration not run before".into(),
                _ => "not run before".into(),
            });
        };
        if key == job.key() {
            return Ok("its result is gone from the store".into());
        }
        let Some(old) = self.reader.action(&key)? else {
            return Ok("changed".into());
        };
        let mut names: Vec<&str> = Vec::new();
        let changed = changes(&old.job, &record(job));
        for change in &changed {
            let said = said(job.kind().name, &change.name);
            if !names.contains(&said) {
                names.push(said);
            }
        }
        Ok(names.join(", "))
    }
}

/// What an input is called when people are told that it changed.
fn said<'a>(kind: &str, input: &'a str) -> &'a str {
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
        (_, "files") => "the program",
        (_, "snapshot") => "the source tree",
        (_, "argv" | "cwd" | "env" | "report" | "scratch" | "writable") => "the test command",
        ("oss/base", "configure" | "build") => "the build commands",
        (_, other) => other,
    }
}

/// How many of each.
pub(super) fn count(reasons: impl IntoIterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    counts
}

/// What is to be said of one thing that an evaluation rests on.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// What an evaluation calls it.
    pub id: String,
    /// The kind of its job.
    pub kind: String,
    /// How it stands to what it was.
    pub state: State,
    /// Whether its job has still to run.
    pub missing: bool,
    /// The job's key then and now.
    pub keys: (Option<Key>, Option<Key>),
    /// The inputs that differ.
    pub changed: Vec<ChangedInput>,
    /// Whether another input gave the same output, so that nothing that builds on it had to run.
    pub cut_off: bool,
}

/// How something stands to the evaluation before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The same job.
    Same,
    /// Another job.
    Changed,
    /// It was not there.
    New,
    /// It is not there any more.
    Gone,
}

impl State {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            State::Same => "same",
            State::Changed => "changed",
            State::New => "new",
            State::Gone => "gone",
        }
    }
}

/// An input that differs, with what can be said of the difference.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangedInput {
    /// The input, and its values.
    pub input: Changed,
    /// In words: what changed.
    pub said: String,
    /// Where the bytes behind the values are known: the members or lines that differ.
    pub details: Vec<String>,
}

/// At most so many details of one input are told.
const DETAILS: usize = 12;

impl App {
    /// Compares what an evaluation rests on with the complete evaluation before it: everything
    /// whose name has `id` as one of its parts, or begins with it.
    ///
    /// # Errors
    /// Those of a plan; [`AppError::Input`] if nothing is called so, or nothing was run yet.
    pub fn why(&self, options: &Options, id: &str) -> Result<Vec<Explained>, AppError> {
        let answering = models(&self.project, &options.models)?;
        let tools = self.tools(options)?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        let reader = self.store.reader()?;
        let world = plan.world(&reader);
        let db = &world.db;
        let mut out = Vec::new();
        let mut compared = false;
        for bench in &world.benches {
            let (settings, subject) = (bench.settings, bench.subject);
            let name = &subject.manifest(db).name;
            let args = (&world.models, &world.scorings);
            let now = match leaderboard::entries(db, settings, subject, args.0, args.1) {
                Ok(entries) => entries,
                Err(_) => wanted(&world, *bench)?,
            };
            let digest = leaderboard::evaluation_digest(db, settings, subject, args.0, args.1).ok();
            let Some(before) = before(&reader, name, digest)? else {
                continue;
            };
            compared = true;
            let mut names = BTreeMap::new();
            for entry in now.iter().filter(|e| is_called(&e.name, id)) {
                names.insert(entry.name.as_str(), Some(&entry.job));
            }
            let old = before.entries()?;
            let old: BTreeMap<&str, &crate::store::Entry> = old
                .iter()
                .filter(|e| is_called(&e.id, id))
                .map(|e| (e.id.as_str(), e))
                .collect();
            let complete = digest.is_some();
            for name in old.keys().filter(|_| complete) {
                names.entry(name).or_insert(None);
            }
            for (name, job) in names {
                let old = old.get(name).copied();
                out.push(explain(&reader, name, old, job)?);
            }
        }
        if out.is_empty() {
            return Err(AppError::Input(match compared {
                false => "there is no earlier complete evaluation to compare with\n  help: `everbench run` makes one; `why` explains the next".into(),
                true => format!(
                    "no part of the evaluation is called `{id}`\n  help: name a function, a model, `base`, `baseline`, or a whole name as `why` prints it"
                ),
            }));
        }
        Ok(out)
    }
}

/// The evaluation to compare with: the last complete one, or, when that is the present one, the
/// one before.
fn before(
    reader: &Reader,
    subject: &str,
    digest: Option<Digest>,
) -> Result<Option<Manifest>, AppError> {
    let last = reader.root(&last_name(subject))?;
    let present = match digest {
        Some(digest) => reader.root(&super::evaluation_name(digest))?,
        None => None,
    };
    let root = match last {
        Some(last) if Some(last) == present => reader.root(&previous_name(subject))?,
        other => other,
    };
    Ok(match root {
        Some(root) => Some(Manifest::load(reader, root)?),
        None => None,
    })
}

/// What is missing of an evaluation, by name.
fn wanted(world: &World, bench: Bench) -> Result<Vec<Entry>, AppError> {
    let (db, settings, subject) = (&world.db, bench.settings, bench.subject);
    let fault = |hold: crate::engine::Hold| match fault_of(&hold) {
        Err(fault) => fault,
        Ok(()) => AppError::Environment(
            "a blob is damaged\n  help: `everbench store verify` says which".into(),
        ),
    };
    let mut out = outlook::ground(db, subject).map_err(fault)?;
    if population::ground(db, subject).is_ok() {
        for model in &world.models {
            let outlook = outlook::outlook(db, settings, subject, *model, &world.scorings);
            out.extend(outlook.map_err(fault)?.jobs);
        }
    }
    Ok(out)
}

fn is_called(name: &str, id: &str) -> bool {
    name.starts_with(id) || name.split('/').any(|part| part == id)
}

fn explain(
    reader: &Reader,
    id: &str,
    old: Option<&crate::store::Entry>,
    job: Option<&Job>,
) -> Result<Explained, AppError> {
    let key = job.map(Job::key);
    let output = match key {
        Some(key) => reader.output(&key)?,
        None => None,
    };
    let mut out = Explained {
        id: id.to_string(),
        kind: job.map_or(String::new(), |j| j.kind().name.to_string()),
        state: match (old, key) {
            (Some(old), Some(key)) if old.key == key => State::Same,
            (Some(_), Some(_)) => State::Changed,
            (None, _) => State::New,
            (Some(_), None) => State::Gone,
        },
        missing: key.is_some() && output.is_none(),
        keys: (old.map(|o| o.key), key),
        changed: Vec::new(),
        cut_off: false,
    };
    let action = match old {
        Some(old) => reader.action(&old.key)?,
        None => None,
    };
    if let Some(action) = &action
        && out.kind.is_empty()
    {
        out.kind.clone_from(&action.job.kind);
    }
    if let (State::Changed, Some(action), Some(job)) = (out.state, action, job) {
        out.cut_off = output == old.map(|o| o.output);
        for input in changes(&action.job, &record(job)) {
            let bytes = |value: &Option<Value>| match value {
                Some(Value::Digest(digest)) => behind(reader, job, *digest),
                _ => None,
            };
            let details = match (bytes(&input.old), bytes(&input.new)) {
                (Some(old), Some(new)) => details(&old, &new),
                _ => Vec::new(),
            };
            out.changed.push(ChangedInput {
                said: said(job.kind().name, &input.name).to_string(),
                details,
                input,
            });
        }
    }
    Ok(out)
}

/// The bytes behind a digest, as far as they are kept.
fn behind(reader: &Reader, job: &Job, digest: Digest) -> Option<Arc<[u8]>> {
    let own = job.preimages().iter().find(|(d, _)| *d == digest);
    if let Some((_, bytes)) = own {
        return Some(bytes.clone());
    }
    reader.preimage(&digest).ok().flatten()
}

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

    #[test]
    fn parts_and_beginnings_of_names_are_found() {
        let name = "tide/case/tide_new/model-x/verdict";
        for id in ["tide_new", "model-x", "tide/case", name] {
            assert!(is_called(name, id), "{id}");
        }
        assert!(!is_called(name, "tide_ne") && !is_called(name, "case/tide_new"));
    }
}
