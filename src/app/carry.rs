//! What later evaluations may keep: at the end of every complete run its iterations are noted, and
//! a run that is asked to starts from what was noted at another tree.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::board::{Bench, SubjectPlan, World};
use super::{App, AppError, Options};
use crate::digest::Digest;
use crate::oss::artifact;
use crate::oss::carry::{self, Carried, Note};
use crate::oss::inputs::Origin;
use crate::oss::jobs;
use crate::store::{Entry, Manifest as EvaluationManifest, Reader};
use crate::subject::Manifest;

/// Under which name the iterations are noted.
const ITERATIONS: &str = "iterations";
/// Under which name it is noted whether the last run kept any, and how many it audited.
const CARRY: &str = "carry";

/// Of what could be kept, so much is measured all the same.
pub const AUDITED: f64 = 0.1;

/// Whether iterations of an earlier commit may stand for those of this one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Carry {
    /// As it was in the last run.
    #[default]
    AsLastRun,
    /// None: everything is measured.
    No,
    /// Those whose sets are what they were, but for this share (0 to 1), which is audited.
    Audited(f64),
}

/// What a note that goes with a tree begins with.
#[derive(Deserialize)]
struct OfTree {
    tree: Option<Digest>,
}

impl App {
    /// What this evaluation of a subject may keep.
    pub(super) fn carried(
        &self,
        options: &Options,
        manifest: &Manifest,
        origin: Origin,
    ) -> Result<Option<Arc<Carried>>, AppError> {
        let share = match options.carry {
            Carry::No => return Ok(None),
            Carry::Audited(share) => Some(share),
            Carry::AsLastRun => {
                let bytes = self.surrounding(&manifest.name, CARRY)?;
                bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok().flatten())
            }
        };
        let Some(share) = share else { return Ok(None) };
        let tree = self.tree(manifest, origin)?;
        let noted = self.noted_elsewhere(&manifest.name, ITERATIONS, tree)?;
        let Some(mut note) = noted.and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok())
        else {
            return Ok(None);
        };
        // What is kept must be listed again, so that it stays in the store.
        let reader = self.store.reader()?;
        let mut there = BTreeMap::new();
        for noted in note.iterations.values() {
            let root = noted.evaluation;
            let load = || EvaluationManifest::load(&reader, root).is_ok();
            there.entry(root).or_insert_with(load);
        }
        note.iterations.retain(|_, noted| there[&noted.evaluation]);
        Ok(Some(Arc::new(Carried::new(note, share))))
    }

    /// Notes what a run was asked to keep.
    pub(super) fn remember_carry(
        &self,
        options: &Options,
        subjects: &[SubjectPlan],
    ) -> Result<(), AppError> {
        let share = match options.carry {
            Carry::AsLastRun => return Ok(()),
            Carry::No => None,
            Carry::Audited(share) => Some(share),
        };
        for subject in subjects {
            self.note(&subject.manifest.name, CARRY, &artifact::write(&share))?;
        }
        Ok(())
    }

    /// Notes the iterations of a complete evaluation, whose manifest has the root `evaluation`.
    pub(super) fn remember_iterations(
        &self,
        world: &World,
        bench: Bench,
        commit: &str,
        evaluation: Digest,
    ) -> Result<(), AppError> {
        let Bench { settings, subject } = bench;
        let name = &subject.manifest(&world.db).name;
        let last = self.surrounding(name, ITERATIONS)?;
        let last = last.and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok());
        let last = last.unwrap_or_default();
        if last.evaluation == Some(evaluation) {
            return Ok(());
        }
        let of = (&world.models[..], &world.scorings[..]);
        let Ok(note) = carry::note(&world.db, settings, subject, of, commit, evaluation) else {
            return Ok(());
        };
        let tree = note.tree;
        let note = artifact::write(&note.over(&last));
        self.note_of_tree(name, ITERATIONS, tree, &note)
    }

    /// The lines that earlier evaluations have of what this one keeps.
    pub(super) fn kept_lines(
        &self,
        world: &World,
        bench: Bench,
        reader: &Reader,
    ) -> Result<Vec<Entry>, AppError> {
        let Bench { settings, subject } = bench;
        let db = &world.db;
        if subject.carried(db).is_none() {
            return Ok(Vec::new());
        }
        let Ok(stale) = carry::stale(db, settings, subject, &world.models, &world.scorings) else {
            return Ok(Vec::new());
        };
        let mut by_root: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
        for (name, root) in stale {
            let name = format!("{}/{name}/", subject.manifest(db).name);
            by_root.entry(root).or_default().push(name);
        }
        let mut lines = Vec::new();
        for (root, mut names) in by_root {
            names.sort_unstable();
            for entry in EvaluationManifest::load(reader, root)?.entries()? {
                let at = names.partition_point(|name| *name <= entry.id);
                if at > 0 && entry.id.starts_with(&names[at - 1]) {
                    lines.push(entry);
                }
            }
        }
        Ok(lines)
    }

    /// The tree that a subject has, if it was fetched.
    pub(super) fn tree(
        &self,
        manifest: &Manifest,
        origin: Origin,
    ) -> Result<Option<Digest>, AppError> {
        match origin {
            Origin::Snapshot(digest) => Ok(Some(digest)),
            Origin::Manifest => match jobs::source(manifest) {
                Ok(job) => Ok(self.store.reader()?.output(&job.key())?),
                Err(_) => Ok(None),
            },
        }
    }

    /// Notes something that goes with a tree. What was noted of another tree stays beside it: what
    /// is compared with it is the same however often this tree is looked at.
    pub(super) fn note_of_tree(
        &self,
        subject: &str,
        what: &str,
        tree: Option<Digest>,
        bytes: &[u8],
    ) -> Result<(), AppError> {
        if let Some(last) = self.surrounding(subject, what)?
            && of_tree(&last) != tree
        {
            self.note(subject, &before(what), &last)?;
        }
        self.note(subject, what, bytes)
    }

    /// What was last noted of a tree that is not this one.
    pub(super) fn noted_elsewhere(
        &self,
        subject: &str,
        what: &str,
        tree: Option<Digest>,
    ) -> Result<Option<Arc<[u8]>>, AppError> {
        match self.surrounding(subject, what)? {
            Some(last) if tree.is_some() && of_tree(&last) == tree => {
                self.surrounding(subject, &before(what))
            }
            last => Ok(last),
        }
    }
}

fn before(what: &str) -> String {
    format!("{what}-before")
}

fn of_tree(note: &[u8]) -> Option<Digest> {
    let read = serde_json::from_slice::<OfTree>(note);
    read.ok().and_then(|note| note.tree)
}
