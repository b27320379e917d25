//! What a release says of itself: everything by which its leaderboard can be evaluated again without
//! the project's files, a compiler or the machine it was made on. JSON with fields in the order
//! written here; larger texts are blobs, named by their digests. Fractions are texts that read back
//! as the same number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::board::{Plan, SubjectPlan};
use super::super::project::ProjectSubject;
use super::super::{AppError, TOOL};
use crate::ask::Sampling;
use crate::config::{self, ScoreConfig};
use crate::digest::Digest;
use crate::job::Key;
use crate::lang::{QuerySet, calibration::Edit};
use crate::oss::inputs::{Answers, Card, ModelSpec, Origin, Scoring};
use crate::oss::reads::{self, Remembered};
use crate::oss::{artifact, metrics};
use crate::store::Reader;
use crate::subject::{Extractor, Manifest, Pin, Source};

/// The version of the document.
pub const SCHEMA: &str = "everbench/release/1";

/// A release.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// What it is called.
    pub name: String,
    /// When it was frozen, as the clock of the one who did it said.
    pub frozen: String,
    /// The program that froze it.
    pub tool: String,
    /// The code of that program's pure rooms.
    pub code: String,
    /// What was measured on.
    pub subjects: Vec<RecordSubject>,
    /// Who answered.
    pub models: Vec<RecordModel>,
    /// How sets were drawn.
    pub scorings: Vec<Scoring>,
    /// What models were asked to do.
    pub task: String,
    /// The prompt template.
    pub template: Digest,
    /// The query files by which languages were read.
    pub queries: Digest,
    /// The seed of all draws.
    pub seed: u64,
    /// The metrics beside the three of the benchmark.
    pub metrics: Vec<String>,
    /// How rows were scored.
    pub score: RecordScore,
    /// The compiler's version line.
    pub compiler: String,
    /// What the machine's files were seen to hold: observation and what it gave.
    pub observed: BTreeMap<Key, Digest>,
    /// Digests among the inputs of jobs whose bytes were not kept when it was frozen.
    pub absent: BTreeSet<Digest>,
    /// How many facts it pins.
    pub facts: u64,
    /// The leaderboard as JSON.
    pub board: Digest,
    /// The leaderboard as text.
    pub text: Digest,
}

/// A subject of a release.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSubject {
    /// Its name.
    pub name: String,
    /// Which source it was: a version, or a snapshot's digest.
    pub source: String,
    /// Its manifest's text.
    pub manifest: Digest,
    /// The profile of its tests.
    pub profile: Option<String>,
    /// Who found the functions.
    pub extractor: Extractor,
    /// The commit, where the manifest has a revision.
    pub commit: Option<String>,
    /// The version, where the manifest follows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// The snapshot, where the source was a directory.
    pub snapshot: Option<Digest>,
    /// The toolchain's identity.
    pub toolchain: Digest,
    /// libclang's identity, where it found the functions.
    pub libclang: Option<Digest>,
    /// What shards opened of the tree in earlier runs: where the evaluation started.
    pub reads: Digest,
    /// Functions in the sample; all when absent.
    pub limit: Option<u32>,
    /// Iterations per model.
    pub iterations: u32,
    /// Points per unique alert, where the manifest's own were not used.
    pub penalty: Option<Exact>,
    /// Identifies the evaluation.
    pub evaluation: Digest,
    /// The root of its list of facts.
    pub root: Digest,
}

/// A model of a release.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordModel {
    /// The name in reports.
    pub name: String,
    /// How its replies came about.
    pub answers: RecordAnswers,
    /// What is known of it.
    pub card: Card,
}

/// See [`Answers`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RecordAnswers {
    /// Edits with known effects, by their shares.
    Calibration(BTreeMap<Edit, Exact>),
    /// Recorded replies.
    Replay {
        /// The model's revision.
        revision: String,
        /// How it was sampled.
        sampling: Sampling,
        /// What stood behind the task's own system text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        system: String,
    },
    /// A model over HTTP.
    Remote {
        /// Provider, model and revision.
        revision: String,
        /// How it was asked.
        sampling: Sampling,
        /// What stood behind the task's own system text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        system: String,
    },
}

/// See [`ScoreConfig`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordScore {
    weights: Option<[Exact; 3]>,
    dissimilarity_weight: Option<Exact>,
    minimum_changed_lines: Exact,
    replicates: u32,
}

/// A fraction that reads back as the same number.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Exact(pub f64);

impl From<Exact> for String {
    fn from(x: Exact) -> String {
        x.0.to_string()
    }
}

impl TryFrom<String> for Exact {
    type Error = std::num::ParseFloatError;

    fn try_from(text: String) -> Result<Exact, Self::Error> {
        text.parse().map(Exact)
    }
}

impl Record {
    /// What a plan says, for a release called `name`. The larger texts are put into `blobs`.
    pub(super) fn of(
        name: &str,
        frozen: &str,
        plan: &Plan,
        score: &ScoreConfig,
        blobs: &mut Vec<Vec<u8>>,
    ) -> Record {
        let mut keep = |bytes: &[u8]| {
            blobs.push(bytes.to_vec());
            Digest::of(bytes)
        };
        let nothing = Digest::of(b"");
        let queries = serde_json::to_vec(&*plan.queries).expect("names and texts are JSON");
        Record {
            schema: SCHEMA.into(),
            name: name.into(),
            frozen: frozen.into(),
            tool: TOOL.into(),
            code: crate::CODE.into(),
            subjects: Vec::new(),
            models: plan.models.iter().map(|m| RecordModel::of(m)).collect(),
            scorings: plan.scorings.clone(),
            task: plan.task.name.into(),
            template: keep(plan.template.as_bytes()),
            queries: keep(&queries),
            seed: plan.seed,
            metrics: plan.metrics.iter().map(ToString::to_string).collect(),
            score: RecordScore {
                weights: score.weights.map(|w| w.map(Exact)),
                dissimilarity_weight: score.dissimilarity_weight.map(Exact),
                minimum_changed_lines: Exact(score.minimum_changed_lines),
                replicates: score.replicates,
            },
            compiler: String::new(),
            observed: BTreeMap::new(),
            absent: BTreeSet::new(),
            facts: 0,
            board: nothing,
            text: nothing,
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`AppError::Input`] for one of another version.
    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Record, AppError> {
        serde_json::from_slice(bytes)
            .map_err(|e| e.to_string())
            .and_then(|record: Record| match record.schema == SCHEMA {
                true => Ok(record),
                false => Err(format!("its schema is {}", record.schema)),
            })
            .map_err(|why| {
                AppError::Input(format!(
                    "the record of release `{name}` cannot be read: {why}\n  help: use the everbench that froze it, or a newer one"
                ))
            })
    }

    /// The record's bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("records have string keys")
    }

    /// What the evaluation starts from; `reader` has the larger texts.
    pub(super) fn plan(&self, reader: &Reader) -> Result<Plan, AppError> {
        let text = |what: &str, digest: Digest| -> Result<String, AppError> {
            let bytes = kept(reader, what, digest)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let queries = QuerySet::decode(&kept(reader, "the query files", self.queries)?)
            .map_err(AppError::Input)?;
        let known = |name: &String| {
            let metric = metrics::named(name).map(|m| m.name);
            metric.ok_or_else(|| AppError::Input(format!("there is no metric `{name}`")))
        };
        let metrics: Vec<&'static str> =
            self.metrics.iter().map(known).collect::<Result<_, _>>()?;
        let subjects = self.subjects.iter().map(|subject| {
            let written = text("a subject's manifest", subject.manifest)?;
            subject.plan(reader, &written)
        });
        Ok(Plan {
            subjects: subjects.collect::<Result<_, _>>()?,
            looks_back: true,
            queries: Arc::new(queries),
            template: text("the prompt template", self.template)?.into(),
            seed: self.seed,
            task: config::task(&self.task).map_err(AppError::Input)?,
            metrics: Arc::new(metrics),
            models: self.models.iter().map(|m| Arc::new(m.spec())).collect(),
            scorings: self.scorings.clone(),
        })
    }

    /// How rows are scored.
    pub fn score_config(&self) -> ScoreConfig {
        ScoreConfig {
            scorings: self.scorings.clone(),
            penalty: None,
            weights: self.score.weights.map(|w| w.map(|x| x.0)),
            dissimilarity_weight: self.score.dissimilarity_weight.map(|x| x.0),
            minimum_changed_lines: self.score.minimum_changed_lines.0,
            replicates: self.score.replicates,
            metrics: self.metrics.clone(),
        }
    }

    /// Points per unique alert by subject, where they are not the manifest's.
    pub fn penalties(&self) -> BTreeMap<String, Option<f64>> {
        let own = |s: &RecordSubject| (s.name.clone(), s.penalty.map(|x| x.0));
        self.subjects.iter().map(own).collect()
    }
}

impl RecordSubject {
    /// What a plan says of a subject; its evaluation is not known yet.
    pub(super) fn of(
        subject: &ProjectSubject,
        plan: &SubjectPlan,
        penalty: Option<f64>,
        blobs: &mut Vec<Vec<u8>>,
    ) -> RecordSubject {
        let mut keep = |bytes: &[u8]| {
            blobs.push(bytes.to_vec());
            Digest::of(bytes)
        };
        RecordSubject {
            name: plan.manifest.name.clone(),
            source: plan.commit(),
            manifest: keep(subject.text.as_bytes()),
            profile: plan.manifest.tests.profile.clone(),
            extractor: plan.manifest.functions.extractor,
            commit: match &plan.manifest.source {
                Source::Git(git) => Some(git.revision.clone()),
                _ => None,
            },
            pin: match subject.manifest.source.followed() {
                Some(_) => plan.manifest.source.pin(),
                None => None,
            },
            snapshot: match plan.origin {
                Origin::Snapshot(digest) => Some(digest),
                Origin::Manifest => None,
            },
            toolchain: keep(&plan.toolchain),
            libclang: plan.libclang.as_deref().map(&mut keep),
            reads: keep(&artifact::write(&*plan.reads)),
            limit: plan.limit,
            iterations: plan.iterations,
            penalty: penalty.map(Exact),
            evaluation: Digest::of(b""),
            root: Digest::of(b""),
        }
    }

    fn plan(&self, reader: &Reader, written: &str) -> Result<SubjectPlan, AppError> {
        let parsed = Manifest::parse(written, &format!("the manifest of `{}`", self.name))?;
        let mut manifest = parsed
            .with_profile(self.profile.as_deref())
            .map_err(|e| AppError::Input(e.to_string()))?;
        manifest.functions.extractor = self.extractor;
        if let (Source::Git(git), Some(commit)) = (&mut manifest.source, &self.commit) {
            git.revision.clone_from(commit);
        }
        if let Some(pin) = &self.pin {
            manifest.source = manifest.source.at(pin);
        }
        let reads = kept(reader, "what shards opened", self.reads)?;
        let reads: Remembered = serde_json::from_slice(&reads)
            .map_err(|e| AppError::Input(format!("what shards opened cannot be read: {e}")))?;
        let reads = reads::still(reads, |list| {
            reader.blob(list).is_ok_and(|bytes| bytes.is_some())
        });
        Ok(SubjectPlan {
            manifest_dir: PathBuf::new(),
            manifest: Arc::new(manifest),
            origin: self.snapshot.map_or(Origin::Manifest, Origin::Snapshot),
            toolchain: kept(reader, "the toolchain's identity", self.toolchain)?,
            libclang: match self.libclang {
                Some(digest) => Some(kept(reader, "libclang's identity", digest)?),
                None => None,
            },
            reads: Arc::new(reads),
            // Releases are measured: nothing of another commit stands in them.
            carried: None,
            limit: self.limit,
            iterations: self.iterations,
        })
    }
}

impl RecordModel {
    fn of(spec: &ModelSpec) -> RecordModel {
        RecordModel {
            name: spec.name.clone(),
            answers: match &spec.answers {
                Answers::Calibration(shares) => {
                    let exact = shares.iter().map(|(edit, share)| (*edit, Exact(*share)));
                    RecordAnswers::Calibration(exact.collect())
                }
                Answers::Replay {
                    revision,
                    sampling,
                    system,
                } => RecordAnswers::Replay {
                    revision: revision.clone(),
                    sampling: sampling.clone(),
                    system: system.clone(),
                },
                Answers::Remote {
                    revision,
                    sampling,
                    system,
                } => RecordAnswers::Remote {
                    revision: revision.clone(),
                    sampling: sampling.clone(),
                    system: system.clone(),
                },
            },
            card: spec.card.clone(),
        }
    }

    fn spec(&self) -> ModelSpec {
        ModelSpec {
            name: self.name.clone(),
            answers: match &self.answers {
                RecordAnswers::Calibration(shares) => {
                    let shares = shares.iter().map(|(edit, share)| (*edit, share.0));
                    Answers::Calibration(shares.collect())
                }
                RecordAnswers::Replay {
                    revision,
                    sampling,
                    system,
                } => Answers::Replay {
                    revision: revision.clone(),
                    sampling: sampling.clone(),
                    system: system.clone(),
                },
                RecordAnswers::Remote {
                    revision,
                    sampling,
                    system,
                } => Answers::Remote {
                    revision: revision.clone(),
                    sampling: sampling.clone(),
                    system: system.clone(),
                },
            },
            card: self.card.clone(),
        }
    }
}

/// The bytes of something that a record names.
pub(super) fn kept(reader: &Reader, what: &str, digest: Digest) -> Result<Arc<[u8]>, AppError> {
    reader
        .blob(&digest)?
        .ok_or_else(|| AppError::Input(format!("{what} (blob {digest}) is not in the store")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_read_back_as_the_same_number() {
        for x in [0.0, 0.1, 1.0 / 3.0, 0.69, 1e-300, f64::MAX, 5e-324] {
            let text = serde_json::to_string(&Exact(x)).unwrap();
            let back: Exact = serde_json::from_str(&text).unwrap();
            assert_eq!(back.0.to_bits(), x.to_bits(), "{text}");
        }
    }
}
