//! What complete evaluations leave behind for later ones: a summary for comparing, and the ages of
//! the subject's texts. Neither is needed for anything else, and neither is ever the ground of a score
//! that is not about time.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use super::board::{Bench, Evaluation, Plan, RowResult, SubjectBoard, SubjectPlan};
use super::retract::{honour_in, retracted_keys};
use super::{App, AppError};
use crate::date;
use crate::digest::Digest;
use crate::oss::history::{SCHEMA, Summary, lines};
use crate::oss::population::{self, FunctionArg};
use crate::oss::seen::{Ages, Followed, Lines};
use crate::oss::{artifact, leaderboard};
use crate::source::{Git, Snapshot};
use crate::store::Reader;
use crate::subject::Source;

/// The root of a summary.
fn history_name(subject: &str, evaluation: Digest) -> String {
    format!("history/{subject}/{}", evaluation.short())
}

/// The root of the ages of a subject's texts.
fn texts_name(subject: &str) -> String {
    format!("texts/{subject}")
}

/// The time by this machine's clock.
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date::time(since.map_or(0, |d| d.as_secs() as i64))
}

impl App {
    /// Notes a complete evaluation, once.
    pub(super) fn keep_history(
        &self,
        evaluation: &Evaluation,
        plan: &Plan,
    ) -> Result<(), AppError> {
        let world = &evaluation.world;
        let boards = evaluation.boards.iter().zip(&plan.subjects);
        for (bench, (board, planned)) in world.benches.iter().zip(boards) {
            let args = (&world.models, &world.scorings);
            let digest = leaderboard::evaluation_digest(
                &world.db,
                bench.settings,
                bench.subject,
                args.0,
                args.1,
            );
            let Ok(digest) = digest else { continue };
            let name = history_name(&board.manifest.name, digest);
            let reader = self.store.reader()?;
            let noted: Option<Summary> = match reader.root(&name)? {
                Some(noted) => Some(document(&reader, &name, noted)?),
                None => None,
            };
            // A row that was retracted when this was noted may count again.
            let has = |row: &&RowResult| {
                let of = |s: &Summary| s.iterations_of(&row.spec.name, row.scoring).is_empty();
                !noted.as_ref().is_none_or(of)
            };
            let facts = |row: &&RowResult| row.facts.is_some();
            if board.board.rows.iter().filter(facts).all(|row| has(&row)) {
                continue;
            }
            let Ok((tree, snapshot)) = population::snapshot(&world.db, bench.subject) else {
                continue;
            };
            let evaluated = noted.map_or_else(now, |s| s.evaluated);
            let committed = self.committed(planned);
            let followed = Followed {
                commit: board.commit.clone(),
                tree,
                date: committed.clone().unwrap_or(evaluated.clone()),
                dated: committed.is_some(),
            };
            self.follow_texts(evaluation, *bench, board, followed, &snapshot)?;
            let mut summary = Summary {
                schema: SCHEMA.into(),
                subject: board.manifest.name.clone(),
                commit: board.commit.clone(),
                tree,
                evaluated,
                committed,
                evaluation: digest,
                toolchain: Digest::of(&planned.toolchain),
                compiler: evaluation.compiler.clone(),
                task: world.task.name.into(),
                extractor: board.manifest.functions.extractor.name().into(),
                seed: plan.seed,
                population: population_of(board),
                functions: board
                    .board
                    .sample
                    .as_deref()
                    .map_or(Vec::new(), |s| lines(s)),
                cases: BTreeMap::new(),
                iterations: BTreeMap::new(),
                retracted: BTreeMap::new(),
            };
            for row in &board.board.rows {
                if let Some(facts) = &row.facts {
                    summary.add(&row.spec.name, row.scoring, facts);
                }
            }
            let bytes = artifact::write(&summary);
            self.store.put_blobs(&[&bytes])?;
            self.store.set_root(&name, Digest::of(&bytes))?;
        }
        Ok(())
    }

    /// When the source was committed, if it says that.
    pub(super) fn committed(&self, planned: &SubjectPlan) -> Option<String> {
        match &planned.manifest.source {
            Source::Git(git) => {
                let seconds = Git::new(&self.private()).committed(git, &planned.manifest_dir)?;
                Some(date::time(seconds))
            }
            _ => None,
        }
    }

    /// Notes the ages of the texts of a subject's population.
    fn follow_texts(
        &self,
        evaluation: &Evaluation,
        Bench { settings, subject }: Bench,
        board: &SubjectBoard,
        now: Followed,
        snapshot: &Snapshot,
    ) -> Result<(), AppError> {
        let Some(population) = &board.board.population else {
            return Ok(());
        };
        let reader = self.store.reader()?;
        let name = &board.manifest.name;
        let mut ages = ages(&reader, name)?;
        let texts: Vec<Digest> = population.functions.iter().map(|f| f.text).collect();
        let new = ages.unknown(&texts);
        let mut lacked = HashSet::new();
        if let Some(before) = ages.before(&now).filter(|_| !new.is_empty())
            && let Some(tree) = tree_lines(&reader, before.tree)?
        {
            let db = &evaluation.world.db;
            // What the build generates was perhaps generated before, and is in no tree.
            let brought = population
                .functions
                .iter()
                .filter(|f| new.contains(&f.text) && snapshot.files.contains_key(&f.path));
            for f in brought {
                let arg = FunctionArg::new(db, f.clone());
                if let Ok(text) = population::text(db, settings, subject, arg)
                    && tree.lack(&text)
                {
                    lacked.insert(f.text);
                }
            }
        }
        ages.follow(now, &texts, &lacked);
        let bytes = artifact::write(&ages);
        self.store.put_blobs(&[&bytes])?;
        Ok(self.store.set_root(&texts_name(name), Digest::of(&bytes))?)
    }

    /// The ages of the texts of a subject, as far as runs have noted them.
    pub fn ages(&self, subject: &str) -> Result<Ages, AppError> {
        ages(&self.store.reader()?, subject)
    }

    /// What complete evaluations of a subject have left, oldest first: by the date of the commit
    /// where the source has one, else by that of the evaluation.
    pub fn summaries(&self, subject: &str) -> Result<Vec<Summary>, AppError> {
        let reader = self.store.reader()?;
        let retracted = retracted_keys(&reader)?;
        let mut found = Vec::new();
        for (root, digest) in reader.roots()? {
            let below = format!("history/{subject}/");
            if !root.starts_with(&below) {
                continue;
            }
            let mut summary: Summary = document(&reader, &root, digest)?;
            honour_in(&reader, &retracted, &mut summary)?;
            found.push(summary);
        }
        found.sort_by(|a, b| a.evaluated.cmp(&b.evaluated));
        if found.iter().all(|s| s.committed.is_some()) {
            found.sort_by(|a, b| a.committed.cmp(&b.committed));
        }
        Ok(found)
    }
}

/// How many functions there are to draw from.
pub(super) fn population_of(board: &SubjectBoard) -> u64 {
    let population = board.board.population.as_deref();
    population.map_or(0, |p| p.functions.len() as u64)
}

fn ages(reader: &Reader, subject: &str) -> Result<Ages, AppError> {
    let name = texts_name(subject);
    match reader.root(&name)? {
        Some(digest) => document(reader, &name, digest),
        None => Ok(Ages::default()),
    }
}

pub(super) fn document<T: serde::de::DeserializeOwned>(
    reader: &Reader,
    root: &str,
    digest: Digest,
) -> Result<T, AppError> {
    let bytes = reader.blob(&digest)?.ok_or_else(|| {
        AppError::Environment(format!(
            "the blob of root `{root}` is gone from the store\n  help: `everbench store verify` says what is damaged"
        ))
    })?;
    serde_json::from_slice(&bytes).map_err(|e| {
        AppError::Input(format!(
            "what is noted as `{root}` cannot be read: {e}\n  help: another version of everbench wrote it; use that one, or a newer one"
        ))
    })
}

/// The lines of a tree's files; nothing if the store does not have all of them any more.
fn tree_lines(reader: &Reader, tree: Digest) -> Result<Option<Lines>, AppError> {
    let mut lines = Lines::default();
    let Some(bytes) = reader.blob(&tree)? else {
        return Ok(None);
    };
    let Ok(snapshot) = Snapshot::decode(&bytes) else {
        return Ok(None);
    };
    for file in snapshot.files.values() {
        let Some(bytes) = reader.blob(&file.digest)? else {
            return Ok(None);
        };
        lines.add(&bytes);
    }
    Ok(Some(lines))
}
