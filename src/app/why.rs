//! Why a job has to run: what is called the same in the last complete evaluation, compared with it
//! input by input.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::board::{Bench, World};
use super::drive::Drove;
use super::error::{broken, unusable};
use super::{App, AppError, Options};
use crate::cancel::Cancel;
use crate::digest::Digest;
use crate::job::{Job, Key, Value};
use crate::oss::changes::{Changed, changes, details, record, said};
use crate::oss::leaderboard::{self, Entry};
use crate::oss::outlook;
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

impl App {
    /// Compares what an evaluation rests on with the complete evaluation before it: everything
    /// whose name has `id` as one of its parts, or begins with it.
    ///
    /// # Errors
    /// Those of a plan; [`AppError::Input`] if nothing is called so, or nothing was run yet.
    pub fn why(&self, options: &Options, id: &str) -> Result<Vec<Explained>, AppError> {
        let answering = self.answering(&options.models)?;
        let tools = self.tools(options)?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        let Drove { world, boards, .. } = self.drive(&plan, None, &Cancel::new(), &mut ())?;
        let mut fault = None;
        let reader = self.store.reader()?;
        let db = &world.db;
        let mut out = Vec::new();
        let mut compared = false;
        for (bench, board) in world.benches.iter().zip(boards) {
            if board.broken.is_some() {
                fault = fault.or(board.broken);
                continue;
            }
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
        if let (true, Some(fault)) = (out.is_empty(), fault) {
            return Err(broken(&fault));
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
        Some(digest) => reader.root(&super::drive::evaluation_name(digest))?,
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
    let mut out = outlook::ground(db, subject).map_err(unusable)?;
    if outlook::built(db, subject).is_ok() {
        for model in &world.models {
            let outlook = outlook::outlook(db, settings, subject, *model, &world.scorings);
            out.extend(outlook.map_err(unusable)?.jobs);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_beginnings_of_names_are_found() {
        let name = "tide/case/tide_new/model-x/verdict";
        for id in ["tide_new", "model-x", "tide/case", name] {
            assert!(is_called(name, id), "{id}");
        }
        assert!(!is_called(name, "tide_ne") && !is_called(name, "case/tide_new"));
    }
}
