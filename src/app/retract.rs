//! Taking back facts that are wrong though they were recorded rightly: a provider served another model
//! for a day, a machine was out of order. Facts are never changed, so what is taken back gets a
//! tombstone with a reason, and every score, history and release says what rests on it.
//!
//! A row that rests on a retracted fact is not scored. Nothing is asked again in its place, since the
//! same request has the same key: raise the model's revision, or leave the model out.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::board::{Board, World};
use super::history::{document, now};
use super::{App, AppError};
use crate::date;
use crate::digest::Digest;
use crate::job::Key;
use crate::oss::history::Summary;
use crate::oss::{artifact, leaderboard};
use crate::store::{Entry, Manifest, Reader, Store};

/// The version of the document.
const SCHEMA: &str = "everbench/retraction/1";

/// Facts taken back together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Retraction {
    /// [`SCHEMA`].
    pub schema: String,
    /// Why.
    pub reason: String,
    /// When it was taken back.
    pub at: String,
    /// How the facts were named.
    pub asked: String,
    /// Their jobs.
    pub keys: BTreeSet<Key>,
}

/// Which facts are to be taken back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Retract {
    /// Those whose keys begin so.
    Keys(Vec<String>),
    /// Replies of a model that were committed from the first time on and before the second.
    Between(String, String, String),
}

/// What a row rests on that was taken back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Retracted {
    /// How many facts.
    pub facts: u64,
    /// Why, each reason once.
    pub reasons: Vec<String>,
}

/// All retractions of a store, by the name that undoes them, oldest first.
///
/// # Errors
/// Those of the store; a document of another version.
pub fn retractions(reader: &Reader) -> Result<Vec<(String, Retraction)>, AppError> {
    let mut found: Vec<(String, Retraction)> = Vec::new();
    for (root, digest) in reader.roots()? {
        if let Some(id) = root.strip_prefix("retraction/") {
            found.push((id.to_string(), document(reader, &root, digest)?));
        }
    }
    found.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    Ok(found)
}

/// Retracted keys, each with its reason.
pub(super) fn retracted_keys(reader: &Reader) -> Result<BTreeMap<Key, String>, AppError> {
    let all = retractions(reader)?.into_iter();
    let keys = all.flat_map(|(_, r)| r.keys.into_iter().map(move |k| (k, r.reason.clone())));
    Ok(keys.collect())
}

/// What of these facts was taken back; nothing if none was.
pub(super) fn of_keys(
    retracted: &BTreeMap<Key, String>,
    keys: impl IntoIterator<Item = Key>,
) -> Option<Retracted> {
    let keys: BTreeSet<Key> = keys.into_iter().collect();
    let own: Vec<&String> = keys.iter().filter_map(|key| retracted.get(key)).collect();
    let mut reasons: Vec<String> = own.iter().map(|reason| (*reason).clone()).collect();
    reasons.sort();
    reasons.dedup();
    (!own.is_empty()).then_some(Retracted {
        facts: own.len() as u64,
        reasons,
    })
}

/// Takes facts back; gives the name that undoes it.
///
/// # Errors
/// [`AppError::Input`] if no such fact is there, or a time is none.
pub fn retract(
    store: &Store,
    which: &Retract,
    reason: &str,
) -> Result<(String, Retraction), AppError> {
    let reader = store.reader()?;
    let (keys, asked) = match which {
        Retract::Keys(prefixes) => (by_prefix(&reader, prefixes)?, prefixes.join(" ")),
        Retract::Between(model, from, to) => {
            let asked = format!("replies of {model} committed from {from} until {to}");
            (replies(&reader, model, [from, to])?, asked)
        }
    };
    let retraction = Retraction {
        schema: SCHEMA.into(),
        reason: reason.into(),
        at: now(),
        asked,
        keys,
    };
    let bytes = artifact::write(&retraction);
    let id = Digest::of(&bytes).short();
    store.put_blobs(&[&bytes])?;
    store.set_root(&format!("retraction/{id}"), Digest::of(&bytes))?;
    Ok((id, retraction))
}

/// Takes a retraction back.
///
/// # Errors
/// [`AppError::Input`] if there is none of this name.
pub fn undo_retraction(store: &Store, id: &str) -> Result<(), AppError> {
    match store.remove_root(&format!("retraction/{id}"))? {
        true => Ok(()),
        false => Err(AppError::Input(format!(
            "there is no retraction `{id}`\n  help: `everbench retract --list` names them"
        ))),
    }
}

fn by_prefix(reader: &Reader, prefixes: &[String]) -> Result<BTreeSet<Key>, AppError> {
    let mut keys = BTreeSet::new();
    let mut found: BTreeMap<&String, u64> = prefixes.iter().map(|p| (p, 0)).collect();
    for listed in reader.actions(None)? {
        let key = listed?.key;
        let hex = key.0.hex();
        for (_, n) in found
            .iter_mut()
            .filter(|(p, _)| hex.starts_with(p.as_str()))
        {
            keys.insert(key);
            *n += 1;
        }
    }
    match found.into_iter().find(|(_, n)| *n != 1) {
        None => Ok(keys),
        Some((prefix, 0)) => Err(AppError::Input(format!(
            "no job's key begins with `{prefix}`\n  help: `everbench store ls` lists the keys, `everbench why` says which a function rests on"
        ))),
        Some((prefix, n)) => Err(AppError::Input(format!(
            "{n} jobs begin with `{prefix}`\n  help: give more digits"
        ))),
    }
}

/// The replies that evaluations list for a model, by when they were committed.
fn replies(reader: &Reader, model: &str, between: [&String; 2]) -> Result<BTreeSet<Key>, AppError> {
    for time in between {
        // Times are compared as texts, so there is one way to write them.
        let (day, clock) = time.split_once('T').unwrap_or((time, "00:00:00Z"));
        let digits = clock
            .bytes()
            .zip(*b"00:00:00Z")
            .all(|(c, form)| match form {
                b'0' => c.is_ascii_digit(),
                form => c == form,
            });
        if clock.len() != 9 || !digits || date::last_day(day).as_deref() != Some(day) {
            return Err(AppError::Input(format!(
                "`{time}` is no time\n  help: write YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ, in UTC"
            )));
        }
    }
    let [from, to] = between;
    let end = format!("/{model}/reply");
    let (mut listed, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for (root, digest) in reader.roots()? {
        if !root.starts_with("evaluation/") && !root.starts_with("release/") {
            continue;
        }
        for Entry { id, key, .. } in Manifest::load(reader, digest)?.entries()? {
            if !id.ends_with(&end) {
                continue;
            }
            listed.insert(key);
            if let Some(action) = reader.action(&key)? {
                let time = date::time((action.committed_at / 1000) as i64);
                if *from <= time && time < *to {
                    keys.insert(key);
                }
            }
        }
    }
    match (listed.len(), keys.is_empty()) {
        (_, false) => Ok(keys),
        (0, _) => Err(AppError::Input(format!(
            "no complete evaluation has a reply of `{model}`\n  help: `everbench retract KEY` takes single facts back"
        ))),
        (n, _) => Err(AppError::Input(format!(
            "none of the {n} replies of `{model}` was committed from {from} until {to}\n  help: `everbench store job KEY` says when one was"
        ))),
    }
}

impl App {
    /// Takes the facts out of rows that rest on something retracted, and says so in them.
    pub(super) fn honour(&self, world: &World, boards: &mut [Board]) -> Result<(), AppError> {
        let retracted = retracted_keys(&self.store.reader()?)?;
        if retracted.is_empty() {
            return Ok(());
        }
        let reader = self.store.reader()?;
        for (bench, board) in world.benches.iter().zip(boards) {
            // What stands for iterations of this commit rests on facts of another one.
            let kept = self.kept_lines(world, *bench, &reader)?;
            for row in &mut board.rows {
                let mut models = world.models.iter();
                let own = models.find(|m| m.spec(&world.db).name == row.spec.name);
                let Some(model) = own else { continue };
                let (db, settings, subject) = (&world.db, bench.settings, bench.subject);
                // What is missing of an incomplete row cannot have been retracted.
                let Ok(entries) =
                    leaderboard::entries(db, settings, subject, &[*model], &[row.scoring])
                else {
                    continue;
                };
                let name = &subject.manifest(db).name;
                let scoring = row.scoring.name();
                let below = format!("{name}/iteration/{}/{scoring}/", row.spec.name);
                let kept = kept.iter().filter(|line| line.id.starts_with(&below));
                let keys = entries.iter().map(|entry| entry.job.key());
                let keys = keys.chain(kept.map(|line| line.key));
                if let Some(found) = of_keys(&retracted, keys) {
                    row.facts = None;
                    row.metrics.clear();
                    row.retracted = Some(found);
                }
            }
        }
        Ok(())
    }
}

/// Takes the rows out of a summary that rest on something retracted.
pub(super) fn honour_in(
    reader: &Reader,
    retracted: &BTreeMap<Key, String>,
    summary: &mut Summary,
) -> Result<(), AppError> {
    if retracted.is_empty() {
        return Ok(());
    }
    let name = super::drive::evaluation_name(summary.evaluation);
    let Some(root) = reader.root(&name)? else {
        let why =
            "its evaluation was forgotten: whether it rests on what was taken back cannot be told";
        for model in std::mem::take(&mut summary.cases).into_keys() {
            summary.retracted.insert(model, vec![why.to_string()]);
        }
        summary.iterations.clear();
        return Ok(());
    };
    let entries = Manifest::load(reader, root)?.entries()?;
    let struck: Vec<&Entry> = entries
        .iter()
        .filter(|entry| retracted.contains_key(&entry.key))
        .collect();
    let models: Vec<String> = summary.cases.keys().cloned().collect();
    for model in models {
        let own = |id: &str| {
            let below = id.strip_prefix(&format!("{}/", summary.subject));
            let (part, rest) = below.and_then(|b| b.split_once('/')).unwrap_or_default();
            match part {
                "case" => rest
                    .split_once('/')
                    .is_some_and(|(_, rest)| rest.starts_with(&format!("{model}/"))),
                "iteration" => rest.starts_with(&format!("{model}/")),
                // The ground of all rows.
                _ => true,
            }
        };
        let found = struck.iter().filter(|e| own(&e.id)).map(|e| e.key);
        if let Some(found) = of_keys(retracted, found) {
            summary.cases.remove(&model);
            summary.iterations.remove(&model);
            summary.retracted.insert(model, found.reasons);
        }
    }
    Ok(())
}
