//! Both stages of contamination in one go: of a benchmark's repositories those are tested in which the
//! patch of an instance was there, or may have been, each as it was at the cutoff.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::Path;

use super::AppError;
use super::asking::Whom;
use super::corpus::{Entry, List};
use super::patches::Found;
use super::presence::{self, Plan, Told, test_presence};
use crate::contamination::patch::benchmark::Benchmark;
use crate::contamination::patch::joint::{Known, Repository};
use crate::contamination::patch::verdict::Verdict;

/// The repositories of which Stage I has to say something, each at the snapshot that Stage II looked
/// at. Where all patches were absent no model need be asked: whatever it knows, these it has not seen.
fn repositories(benchmark: &Benchmark, found: &Found) -> List {
    let mut snapshots: BTreeMap<&str, &str> = BTreeMap::new();
    for (instance, told) in benchmark.instances.iter().zip(&found.told) {
        if let Some(told) = told
            && told.verdict != Verdict::Absent
            && let Some(snapshot) = &told.snapshot
        {
            snapshots.insert(&instance.repository, &snapshot.id);
        }
    }
    let entry = |(name, id): (&&str, &&str)| {
        let clone = found.places.get(*name)?;
        let clone = std::path::absolute(clone).unwrap_or_else(|_| clone.clone());
        Some(Entry::commit(name, &clone, id))
    };
    List::with(snapshots.iter().filter_map(entry).collect())
}

/// Asks models about the repositories of a benchmark after its patches were looked for. `plan` says
/// against what is tested; which repositories, this does. Nothing if no patch was there.
///
/// # Errors
/// No model to ask, no corpus or control, a store that cannot be used.
pub fn knows(
    dir: &Path,
    benchmark: &Benchmark,
    found: &Found,
    plan: Plan,
    whom: &Whom,
    told: Told<'_>,
) -> Result<Option<presence::Found>, AppError> {
    let repositories = repositories(benchmark, found);
    if repositories.families.is_empty() {
        return Ok(None);
    }
    let plan = Plan {
        repositories: vec![repositories],
        ..plan
    };
    test_presence(dir, &plan, whom, told).map(Some)
}

/// What asking gave, as the joint verdict wants it.
pub fn known(presence: &presence::Found) -> Vec<Known> {
    let mut all = Vec::with_capacity(presence.models.len());
    for tested in &presence.models {
        let mut repositories = BTreeMap::new();
        for (repository, (verdict, _)) in presence.repositories.iter().zip(&tested.verdicts) {
            let known = Repository {
                presence: verdict.presence.name().to_string(),
                p: Some(verdict.test.p),
            };
            repositories.insert(repository.name.clone(), known);
        }
        all.push(Known {
            model: tested.model.clone(),
            repositories,
        });
    }
    all
}
