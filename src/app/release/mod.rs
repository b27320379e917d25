//! Releases: an evaluation pinned under a name, with everything by which it can be evaluated again
//! from raw replies and logs, on a machine that has nothing but a store. A release is never changed.
//!
//! It is a manifest under the root `release/NAME`: the lists of its evaluations, further facts that
//! were asked for on the way, and under `@release` the record, which is the output of a job of its
//! own so that whatever keeps, exports and imports facts does so with records.

mod check;
mod leaves;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use check::Fault;
pub use record::{Record, RecordSubject};

use super::board::{Evaluation, Plan, World, boards};
use super::drive::{evaluation_lines, uses};
use super::error::{broken, fault_of, unusable};
use super::retract::{Retracted, of_keys, retracted_keys, retractions};
use super::{App, AppError, Carry, Options, TOOL};
use crate::digest::Digest;
use crate::engine::Hold;
use crate::job::{Job, Kind, Nature};
use crate::oss::leaderboard;
use crate::store::{Completed, Entry, Manifest, Provenance, Reader, Store};
use check::{damage, reach};
use leaves::{Leaves, Pins, Seen};
use record::kept;

/// What a release says of itself: a [`Record`].
pub const RELEASE: Kind = Kind {
    name: "app/release",
    version: 1,
    nature: Nature::Deterministic,
};

/// The record's name in a release's manifest; no subject can be called so.
const RECORD: &str = "@release";

/// The root of a release.
pub fn release_name(name: &str) -> String {
    format!("release/{name}")
}

/// An evaluation that is about to be frozen.
pub struct Draft {
    /// What it gave.
    pub evaluation: Evaluation,
    record: Record,
    lines: Vec<Entry>,
    blobs: Vec<Vec<u8>>,
}

/// What an evaluation from leaves gave.
struct Looked {
    evaluation: Evaluation,
    /// Of each subject: what identifies its evaluation, and what that rests on.
    lists: Vec<(Digest, Vec<Entry>)>,
}

/// Evaluates from facts alone; what is missing comes back.
fn look(
    plan: &Plan,
    leaves: &Arc<Leaves>,
    reader: &Reader,
    compiler: &str,
) -> Result<Result<Looked, Hold>, AppError> {
    let world: World = plan.world_on(leaves.clone());
    let (boards, hold) = boards(&world.db, &world.benches, &world.models, &world.scorings);
    fault_of(&hold)?;
    if let Some(fault) = hold.aside().first() {
        return Err(broken(fault));
    }
    if !hold.corrupt_blobs().is_empty() {
        return Err(unusable(hold));
    }
    if !hold.is_empty() {
        return Ok(Err(hold));
    }
    let mut lists = Vec::new();
    for bench in &world.benches {
        let args = (&world.models, &world.scorings);
        let (settings, subject) = (bench.settings, bench.subject);
        let digest = leaderboard::evaluation_digest(&world.db, settings, subject, args.0, args.1);
        match (
            digest,
            evaluation_lines(&world, *bench, reader, Vec::new())?,
        ) {
            (Ok(digest), Some(lines)) => lists.push((digest, lines)),
            (Err(hold), _) => return Ok(Err(hold)),
            (Ok(_), None) => return Ok(Err(Hold::default())),
        }
    }
    let reused = match uses(&world, &boards) {
        Ok(uses) => uses,
        Err(hold) => return Ok(Err(hold)),
    };
    Ok(Ok(Looked {
        evaluation: Evaluation {
            boards: plan.named(boards),
            missing: BTreeMap::new(),
            failures: Vec::new(),
            executed: BTreeMap::new(),
            reused,
            stopped: false,
            compiler: compiler.to_string(),
            statement: None,
            world,
        },
        lists,
    }))
}

impl App {
    /// Opens the project in `dir` for freezing what was evaluated in it.
    ///
    /// # Errors
    /// [`AppError::Input`] if nothing was run yet.
    pub fn open_to_freeze(dir: &std::path::Path) -> Result<App, AppError> {
        if !super::Project::read(dir)?.store_dir().exists() {
            return Err(super::error::nothing_stored());
        }
        App::open_to_run(dir)
    }

    /// Evaluates what is to be frozen, from facts alone. `frozen` is the time.
    ///
    /// # Errors
    /// [`AppError::Input`] if the name is taken or cannot be one, or if something is missing.
    pub fn draft(&self, name: &str, options: &Options, frozen: &str) -> Result<Draft, AppError> {
        check_name(name)?;
        // What was measured at another commit is no fact of this one.
        let options = &Options {
            carry: Carry::No,
            ..options.clone()
        };
        let reader = self.store.reader()?;
        if reader.root(&release_name(name))?.is_some() {
            return Err(AppError::Input(format!(
                "there is a release `{name}` already, and a release is never changed\n  help: take another name; `everbench release show {name}` shows the one there is"
            )));
        }
        let answering = self.answering(&options.models)?;
        let plan = self.plan(options, &answering, None)?;
        let compiler = self.last_compiler(&plan)?;
        let leaves = Leaves::new(&reader, None);
        let looked = match look(&plan, &leaves, &reader, &compiler)? {
            Ok(looked) => looked,
            Err(hold) => return Err(self.incomplete(&hold, options)?),
        };
        let mut blobs = Vec::new();
        let mut record = Record::of(name, frozen, &plan, &self.project.config.score, &mut blobs);
        record.compiler = compiler;
        let penalties = self.project.penalties(options);
        let subjects = self.project.chosen(&options.subjects)?;
        let mut lines = Vec::new();
        for ((subject, planned), (digest, list)) in
            subjects.iter().zip(&plan.subjects).zip(looked.lists)
        {
            let penalty = penalties.get(&subject.manifest.name).copied().flatten();
            let mut own = RecordSubject::of(subject, planned, penalty, &mut blobs);
            own.evaluation = digest;
            own.root = Manifest::build(list.clone())?.root;
            record.subjects.push(own);
            lines.extend(list);
        }
        self.complete(&mut record, &mut lines, &mut blobs, &reader, leaves.seen())?;
        Ok(Draft {
            evaluation: looked.evaluation,
            record,
            lines,
            blobs,
        })
    }

    /// Why nothing can be frozen.
    fn incomplete(&self, hold: &Hold, options: &Options) -> Result<AppError, AppError> {
        let mut missing: BTreeMap<&str, u64> = BTreeMap::new();
        for job in hold.jobs() {
            *missing.entry(job.kind().name).or_default() += 1;
        }
        let missing: Vec<String> = missing.iter().map(|(k, n)| format!("{n} {k}")).collect();
        let otherwise = self.asked_otherwise(options)?;
        Ok(AppError::Input(format!(
            "only a complete evaluation can be frozen, and this one lacks {}\n  help: {}",
            missing.join(", "),
            otherwise.unwrap_or("`everbench run --tier release` runs the rest".into())
        )))
    }

    /// Adds to a record, its facts and its blobs what the evaluation asked for beyond its lists.
    fn complete(
        &self,
        record: &mut Record,
        lines: &mut Vec<Entry>,
        blobs: &mut Vec<Vec<u8>>,
        reader: &Reader,
        seen: Seen,
    ) -> Result<(), AppError> {
        let listed: BTreeSet<_> = lines.iter().map(|line| line.key).collect();
        let others = seen.outputs.into_iter();
        let others = others.filter(|(key, _)| !listed.contains(key));
        lines.extend(others.map(|(key, output)| Entry {
            id: format!("@also/{key}"),
            key,
            output,
        }));
        let retracted = retracted_keys(reader)?;
        if let Some(line) = lines.iter().find(|line| retracted.contains_key(&line.key)) {
            return Err(AppError::Input(format!(
                "{} was retracted: {}\n  help: leave out what rests on it, with `--model` for the others, or ask under another revision",
                line.id, retracted[&line.key]
            )));
        }
        let reached = reach(reader, lines, None)?;
        if let Some(fault) = reached.faults.first() {
            return Err(AppError::Environment(format!(
                "{}: {}\n  help: `everbench store verify` says what is damaged, `everbench run` makes it again",
                fault.id, fault.what
            )));
        }
        record.observed = seen.observed;
        record.absent = reached.absent;
        record.facts = lines.len() as u64;
        let read = seen
            .blobs
            .into_iter()
            .chain(record.observed.values().copied());
        for digest in read.filter(|d| !reached.blobs.contains(d)) {
            blobs.push(kept(reader, "what was observed", digest)?.to_vec());
        }
        Ok(())
    }

    /// Freezes a draft with its leaderboard, as JSON and as text.
    ///
    /// # Errors
    /// Those of the store.
    pub fn freeze(&self, draft: Draft, board: &str, text: &str) -> Result<Record, AppError> {
        let Draft {
            mut record,
            mut lines,
            mut blobs,
            ..
        } = draft;
        record.board = Digest::of(board.as_bytes());
        record.text = Digest::of(text.as_bytes());
        blobs.extend([board.into(), text.into()]);
        let bytes = record.bytes();
        let job = Job::of(RELEASE).blob("record", bytes.clone()).done();
        lines.push(Entry {
            id: RECORD.into(),
            key: job.key(),
            output: Digest::of(&bytes),
        });
        self.store.commit(vec![Completed {
            job,
            output: bytes,
            blobs,
            provenance: Provenance {
                tool: TOOL.into(),
                ..Provenance::default()
            },
        }])?;
        let built = Manifest::build(lines)?;
        self.store
            .put_manifest(&release_name(&record.name), &built)?;
        Ok(record)
    }
}

fn check_name(name: &str) -> Result<(), AppError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if name.is_empty() || name.len() > 100 || !name.chars().all(fine) {
        return Err(AppError::Input(format!(
            "`{}` cannot be a release's name\n  help: use letters, digits, `-`, `_`, `.` and `+`, for example `2026-11`",
            name.escape_debug()
        )));
    }
    Ok(())
}

/// A release in a store.
pub struct Release {
    /// What it says of itself.
    pub record: Record,
    manifest: Manifest,
    reader: Reader,
}

impl Release {
    /// Opens a release.
    ///
    /// # Errors
    /// [`AppError::Input`] if there is none of this name; those of the store.
    pub fn open(store: &Store, name: &str) -> Result<Release, AppError> {
        let reader = store.reader()?;
        let Some(root) = reader.root(&release_name(name))? else {
            let there = release_names(&reader)?;
            let there = match there.as_slice() {
                [] => "`everbench release freeze NAME` makes one".to_string(),
                names => format!("there are: {}", names.join(", ")),
            };
            return Err(AppError::Input(format!(
                "there is no release `{name}`\n  help: {there}"
            )));
        };
        let manifest = Manifest::load(&reader, root)?;
        let Some((_, output)) = manifest.get(RECORD)? else {
            return Err(AppError::Input(format!(
                "what is kept as release `{name}` has no record\n  help: another program made it"
            )));
        };
        let record = Record::read(name, &kept(&reader, "the release's record", output)?)?;
        Ok(Release {
            record,
            manifest,
            reader,
        })
    }

    /// The leaderboard as JSON.
    pub fn board(&self) -> Result<String, AppError> {
        self.pinned("the leaderboard", self.record.board)
    }

    /// The leaderboard as text.
    pub fn text(&self) -> Result<String, AppError> {
        self.pinned("the leaderboard's text", self.record.text)
    }

    fn pinned(&self, what: &str, digest: Digest) -> Result<String, AppError> {
        let bytes = kept(&self.reader, what, digest)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What it pins that was taken back since.
    pub fn retracted(&self) -> Result<Option<Retracted>, AppError> {
        let keys = self.manifest.entries()?.into_iter().map(|entry| entry.key);
        Ok(of_keys(&retracted_keys(&self.reader)?, keys))
    }

    /// The roots by which the release is exported: its own, and those of what it rests on that was
    /// taken back.
    pub(super) fn roots(&self) -> Result<Vec<String>, AppError> {
        let keys: BTreeSet<_> = self.manifest.entries()?.iter().map(|e| e.key).collect();
        let mut roots = vec![release_name(&self.record.name)];
        for (id, retraction) in retractions(&self.reader)? {
            if !keys.is_disjoint(&retraction.keys) {
                roots.push(format!("retraction/{id}"));
            }
        }
        Ok(roots)
    }

    /// Evaluates from the pinned facts alone, after these were checked; what keeps it from that, or
    /// is not what was frozen, goes to `faults`.
    fn evaluate(
        &self,
        entries: &[Entry],
        faults: &mut Vec<Fault>,
    ) -> Result<Option<Evaluation>, AppError> {
        let plan = self.record.plan(&self.reader)?;
        let outputs = entries.iter().map(|e| (e.key, e.output)).collect();
        let pins = Pins {
            outputs,
            observed: self.record.observed.clone(),
        };
        let leaves = Leaves::new(&self.reader, Some(pins));
        let looked = match look(&plan, &leaves, &self.reader, &self.record.compiler)? {
            Ok(looked) => looked,
            Err(hold) => {
                faults.extend(hold.jobs().iter().map(|job| Fault {
                    id: job.kind().name.to_string(),
                    key: Some(job.key()),
                    digest: None,
                    what: "this program asks for a fact that the release does not have".into(),
                }));
                return Ok(None);
            }
        };
        for (subject, (digest, list)) in self.record.subjects.iter().zip(looked.lists) {
            let root = Manifest::build(list)?.root;
            if (subject.evaluation, subject.root) != (digest, root) {
                faults.push(Fault {
                    id: format!("{}/", subject.name),
                    key: None,
                    digest: Some(subject.root),
                    what: "the evaluation rests on other facts than the one that was frozen".into(),
                });
            }
        }
        Ok(Some(looked.evaluation))
    }
}

/// What became of verifying a release.
pub struct Verified {
    /// The release's record, if it can be read.
    pub record: Option<Record>,
    /// Facts looked at.
    pub facts: u64,
    /// Blobs read.
    pub blobs: u64,
    /// What is not as it was frozen; nothing if the release stands.
    pub faults: Vec<Fault>,
    /// What it rests on that was taken back since.
    pub retracted: Option<Retracted>,
}

/// Whether a release gives the leaderboard that was frozen, from raw replies and logs, every byte of
/// which is read. Runs nothing. `score` makes the leaderboard's JSON out of an evaluation.
///
/// # Errors
/// [`AppError::Input`] if there is no such release; a store that cannot be read at all. Whatever
/// differs is no error but a fault.
pub fn verify_release(
    store: &Store,
    name: &str,
    score: impl FnOnce(&Evaluation, &Record) -> Result<String, AppError>,
) -> Result<Verified, AppError> {
    let mut verified = Verified {
        record: None,
        facts: 0,
        blobs: 0,
        faults: Vec::new(),
        retracted: None,
    };
    let opened = Release::open(store, name);
    let entries = |release: &Release| release.manifest.entries();
    let (release, entries) = match opened.and_then(|r| Ok((entries(&r)?, r))) {
        Ok((entries, release)) => (release, entries),
        Err(AppError::Store(e)) => {
            verified.faults.push(whole(name, damage(e)?));
            return Ok(verified);
        }
        Err(other) => return Err(other),
    };
    let record = release.record.clone();
    let reached = reach(&release.reader, &entries, Some(&record.absent))?;
    verified.facts = entries.len() as u64;
    let keys = entries.iter().map(|entry| entry.key);
    verified.retracted = of_keys(&retracted_keys(&release.reader)?, keys);
    verified.blobs = reached.blobs.len() as u64;
    verified.faults = reached.faults;
    if record.name != name {
        let what = format!("it was frozen as `{}`", record.name);
        verified.faults.push(whole(name, what));
    }
    if verified.faults.is_empty() {
        let evaluated = release.evaluate(&entries, &mut verified.faults);
        match evaluated {
            Ok(Some(evaluation)) => {
                let board = score(&evaluation, &record)?;
                if Digest::of(board.as_bytes()) != record.board {
                    let pinned = release.board()?;
                    verified.faults.push(Fault {
                        id: "leaderboard".into(),
                        key: None,
                        digest: Some(record.board),
                        what: differs(&pinned, &board),
                    });
                }
            }
            Ok(None) => {}
            Err(
                AppError::Broken { what, .. }
                | AppError::Damaged { what, .. }
                | AppError::Input(what),
            ) => {
                verified.faults.push(whole(name, what));
            }
            Err(AppError::Store(e)) => verified.faults.push(whole(name, damage(e)?)),
            Err(other) => return Err(other),
        }
    }
    verified.record = Some(record);
    Ok(verified)
}

fn whole(name: &str, what: String) -> Fault {
    Fault {
        id: release_name(name),
        key: None,
        digest: None,
        what,
    }
}

/// The first place where two leaderboards differ.
fn differs(pinned: &str, now: &str) -> String {
    let parsed = (serde_json::from_str(pinned), serde_json::from_str(now));
    let place = match parsed {
        (Ok(pinned), Ok(now)) => first_difference("", &pinned, &now),
        _ => None,
    };
    match place {
        Some(place) => format!("the leaderboard is another one: {place}"),
        None => "the leaderboard is another one".into(),
    }
}

fn first_difference(at: &str, old: &serde_json::Value, new: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let null = Value::Null;
            keys.into_iter().find_map(|key| {
                let (old, new) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                first_difference(&format!("{at}.{key}"), old, new)
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let both = a.iter().zip(b).enumerate();
            both.filter_map(|(i, (a, b))| first_difference(&format!("{at}[{i}]"), a, b))
                .next()
        }
        (a, b) if a == b => None,
        (a, b) => {
            let short = |v: &Value| v.to_string().chars().take(60).collect::<String>();
            Some(format!("{at} was {} and is {}", short(a), short(b)))
        }
    }
}

/// The names of all releases in a store.
pub fn release_names(reader: &Reader) -> Result<Vec<String>, AppError> {
    let roots = reader.roots()?.into_iter();
    let names = roots.filter_map(|(root, _)| root.strip_prefix("release/").map(str::to_string));
    Ok(names.collect())
}

/// Forgets a release; what only it kept goes with the next `gc`.
///
/// # Errors
/// [`AppError::Input`] if there is none of this name.
pub fn drop_release(store: &Store, name: &str) -> Result<(), AppError> {
    if !store.remove_root(&release_name(name))? {
        // Says that there is none, and which there are.
        Release::open(store, name)?;
    }
    Ok(())
}
