//! Classes of finished jobs and what they may take up. Decides which go by a budget; `gc` removes
//! them. Never chooses what a pinned root reaches.

use std::collections::{BTreeMap, HashMap, HashSet};

use redb::ReadableTable;

use super::error::StoreError;
use super::gc::Live;
use super::reader::{Reader, corrupt_action};
use super::record::ActionRecord;
use crate::digest::Digest;
use crate::job::Key;

/// Kinds that are kept or dropped together.
#[derive(Clone, Debug)]
pub struct Class<'a> {
    /// What people call it.
    pub name: &'a str,
    /// The names of its kinds.
    pub kinds: &'a [&'a str],
    /// How many bytes what it gave may take up, as stored; no limit when absent.
    pub budget: Option<u64>,
}

/// What [`super::Store::sweep`] keeps besides what roots reach, and drops although they do.
#[derive(Clone, Debug)]
pub struct Retention<'a> {
    /// Digests that are kept as roots are.
    pub also: &'a [Digest],
    /// Kinds whose actions stay, whether anything reaches them or not.
    pub always: &'a [&'a str],
    /// Roots that are forgotten first.
    pub forget: &'a [String],
    /// Whether what a root of this name reaches stays whatever a budget says.
    pub pins: fn(&str) -> bool,
    /// What may take up how much.
    pub classes: &'a [Class<'a>],
}

/// What becomes of a class.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Its budget, bytes.
    pub budget: Option<u64>,
    /// Actions that stay.
    pub kept_actions: u64,
    /// Stored bytes of what they gave. What several classes gave counts for the first.
    pub kept_bytes: u64,
    /// Actions that go.
    pub actions: u64,
    /// How many of them go by the budget: something that does not pin still lists them.
    pub by_budget: u64,
    /// Stored bytes that go.
    pub bytes: u64,
}

struct Candidate {
    committed_at: u64,
    key: Key,
    blobs: Vec<Digest>,
}

/// The actions that go by a budget: of those that `live` has and `pinned` has not, the oldest first.
pub(super) fn over_budget(
    reader: &Reader,
    live: &Live,
    pinned: &Live,
    retention: &Retention,
) -> Result<HashSet<Key>, StoreError> {
    let mut gone = HashSet::new();
    let sizes = reader.blob_sizes()?;
    for class in retention.classes {
        let Some(budget) = class.budget else {
            continue;
        };
        let mut users: HashMap<Digest, u32> = HashMap::new();
        let mut candidates = Vec::new();
        each_action(reader, |key, record| {
            let kind = record.kind.as_str();
            if !class.kinds.contains(&kind) || !live.keys.contains(&key) {
                return;
            }
            let mut blobs = record.blobs;
            blobs.push(record.output);
            blobs.sort_unstable();
            blobs.dedup();
            for digest in &blobs {
                *users.entry(*digest).or_default() += 1;
            }
            if !pinned.keys.contains(&key) && !retention.always.contains(&kind) {
                let committed_at = record.committed_at;
                candidates.push(Candidate {
                    committed_at,
                    key,
                    blobs,
                });
            }
        })?;
        let size = |digest: &Digest| sizes.get(digest).copied().unwrap_or(0);
        let mut total: u64 = users.keys().map(size).sum();
        candidates.sort_by_key(|c| (c.committed_at, c.key));
        for candidate in candidates {
            if total <= budget {
                break;
            }
            gone.insert(candidate.key);
            for digest in &candidate.blobs {
                let left = users.get_mut(digest).expect("it was counted");
                *left -= 1;
                if *left == 0 && !pinned.blobs.contains(digest) {
                    total -= size(digest);
                }
            }
        }
    }
    Ok(gone)
}

/// What of each class stays and goes.
pub(super) fn report(
    reader: &Reader,
    live: &Live,
    gone: &HashSet<Key>,
    retention: &Retention,
) -> Result<Vec<ClassReport>, StoreError> {
    let mut reports = Vec::new();
    if retention.classes.is_empty() {
        return Ok(reports);
    }
    let mut sizes = reader.blob_sizes()?;
    let mut named: BTreeMap<usize, Vec<Digest>> = BTreeMap::new();
    for class in retention.classes {
        reports.push(ClassReport {
            name: class.name.to_string(),
            budget: class.budget,
            ..ClassReport::default()
        });
    }
    each_action(reader, |key, record| {
        let of = |c: &Class| c.kinds.contains(&record.kind.as_str());
        let Some(i) = retention.classes.iter().position(of) else {
            return;
        };
        match live.keys.contains(&key) {
            true => reports[i].kept_actions += 1,
            false => reports[i].actions += 1,
        }
        reports[i].by_budget += u64::from(gone.contains(&key));
        let blobs = named.entry(i).or_default();
        blobs.push(record.output);
        blobs.extend(record.blobs);
    })?;
    for (i, blobs) in named {
        for digest in blobs {
            let size = sizes.remove(&digest).unwrap_or(0);
            match live.blobs.contains(&digest) {
                true => reports[i].kept_bytes += size,
                false => reports[i].bytes += size,
            }
        }
    }
    Ok(reports)
}

/// The keys of the actions of some kinds.
pub(super) fn of_kinds(reader: &Reader, kinds: &[&str]) -> Result<Vec<Key>, StoreError> {
    let mut keys = Vec::new();
    if !kinds.is_empty() {
        each_action(reader, |key, record| {
            if kinds.contains(&record.kind.as_str()) {
                keys.push(key);
            }
        })?;
    }
    Ok(keys)
}

fn each_action(reader: &Reader, mut f: impl FnMut(Key, ActionRecord)) -> Result<(), StoreError> {
    reader.guard(|| {
        for entry in reader.0.actions.iter()? {
            let (key, bytes) = entry?;
            let key = Key(Digest(*key.value()));
            let record =
                ActionRecord::open(&key, bytes.value()).map_err(|bad| corrupt_action(&key, bad))?;
            f(key, record);
        }
        Ok(())
    })
}
