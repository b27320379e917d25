//! What `store gc` keeps: which classes there are, and which old evaluations stay.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::stored::{store_to_change, store_to_look};
use super::{AppError, Project};
use crate::ask;
use crate::config::KeepConfig;
use crate::contamination::patch;
use crate::digest::Digest;
use crate::oss::{artifact, case, compiled};
use crate::store::{Class, GcReport, Manifest, Reader, Retention};

/// Below this are the evaluations that are kept only as far as budgets allow.
const EVALUATIONS: &str = "evaluation/";

/// Replies of models cost money, so that even those that no evaluation lists stay.
const REPLIES: [&str; 1] = [ask::COMPLETION.name];

fn classes(keep: &KeepConfig) -> [Class<'static>; 5] {
    let class = |name, kinds, budget: Option<crate::config::Size>| Class {
        name,
        kinds,
        budget: budget.map(|size| size.0),
    };
    [
        class(
            "replies",
            const { &[ask::COMPLETION.name, case::CALIBRATION.name] },
            None,
        ),
        class(
            "verdicts",
            const {
                &[
                    artifact::VERDICT.name,
                    artifact::AUDIT.name,
                    artifact::WARNINGS.name,
                    artifact::COVERAGE.name,
                ]
            },
            keep.verdicts,
        ),
        class(
            "runs",
            const { &[artifact::RUN.name, artifact::READS.name] },
            keep.runs,
        ),
        class(
            "builds",
            const {
                &[
                    artifact::FOOTPRINT.name,
                    artifact::BASE.name,
                    compiled::EXTRACT.name,
                    artifact::PROGRAM.name,
                ]
            },
            keep.builds,
        ),
        class(
            "sources",
            const {
                &[
                    artifact::SOURCE.name,
                    patch::jobs::LINE.name,
                    patch::jobs::STRETCH.name,
                    patch::jobs::JOIN.name,
                    patch::jobs::WALK.name,
                    patch::jobs::LEG.name,
                    patch::jobs::TEXTS.name,
                    patch::jobs::PLANTED.name,
                ]
            },
            keep.sources,
        ),
    ]
}

/// Removes what no root needs from the store in `dir`. What `[store.keep]` limits goes too if
/// `budgets` is set; with `dry_run` nothing goes.
pub fn sweep_store(dir: &Path, budgets: bool, dry_run: bool) -> Result<GcReport, AppError> {
    // A store can be there without a project: then nothing is limited.
    let keep = match (budgets, dir.join(crate::config::FILE).exists()) {
        (true, true) => Project::read(dir)?.config.store.keep,
        _ => KeepConfig::default(),
    };
    let store = match dry_run {
        true => store_to_look(dir)?,
        false => store_to_change(dir)?,
    };
    let forget = match keep.evaluations {
        Some(n) => old_evaluations(&store.reader()?, n as usize)?,
        None => Vec::new(),
    };
    Ok(store.sweep(
        &Retention {
            also: &[],
            always: &REPLIES,
            forget: &forget,
            pins: |root| !root.starts_with(EVALUATIONS),
            classes: &classes(&keep),
        },
        dry_run,
    )?)
}

/// Whether the project limits what is kept.
pub fn keeps_within_limits(dir: &Path) -> Result<bool, AppError> {
    match dir.join(crate::config::FILE).exists() {
        true => Ok(Project::read(dir)?.config.store.keep.limits()),
        false => Ok(false),
    }
}

/// The roots of all evaluations but the `keep` newest of each subject, and those that another root
/// (the last, the one before, a release) names too. An evaluation is as old as the newest job in it.
fn old_evaluations(reader: &Reader, keep: usize) -> Result<Vec<String>, AppError> {
    let roots = reader.roots()?;
    let (evaluations, others): (Vec<_>, Vec<_>) = roots
        .into_iter()
        .partition(|(name, _)| name.starts_with(EVALUATIONS));
    let pinned: HashSet<Digest> = others.into_iter().map(|(_, digest)| digest).collect();
    let mut by_subject: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for (name, digest) in evaluations {
        if pinned.contains(&digest) {
            continue;
        }
        let entries = Manifest::load(reader, digest)?.entries()?;
        let subject = entries.first().and_then(|e| e.id.split('/').next());
        let subject = subject.unwrap_or("").to_string();
        let mut newest = 0;
        for entry in &entries {
            let action = reader.action(&entry.key)?;
            newest = newest.max(action.map_or(0, |a| a.committed_at));
        }
        by_subject.entry(subject).or_default().push((newest, name));
    }
    let mut old = Vec::new();
    for mut evaluations in by_subject.into_values() {
        evaluations.sort();
        let n = evaluations.len().saturating_sub(keep);
        old.extend(evaluations.into_iter().take(n).map(|(_, name)| name));
    }
    old.sort();
    Ok(old)
}
