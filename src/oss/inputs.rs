//! What an evaluation of OSS-Bench starts from: the salsa inputs, set by the application.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ask::Task;
use crate::digest::Digest;
use crate::engine::Db;
use crate::lang::QuerySet;
use crate::lang::calibration::Edit;
use crate::oss::carry::Carried;
use crate::oss::reads::Remembered;
use crate::subject::Manifest;

/// Where a subject's source tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// To be fetched as the manifest says.
    Manifest,
    /// In the store already, under this snapshot's digest.
    Snapshot(Digest),
}

/// A project under test.
#[salsa::input]
pub struct Subject {
    /// How it is built, tested and drawn from.
    #[returns(ref)]
    pub manifest: Arc<Manifest>,
    /// Where its source is.
    #[returns(copy)]
    pub origin: Origin,
    /// The canonical bytes of the toolchain's identity.
    #[returns(ref)]
    pub toolchain: Arc<[u8]>,
    /// The canonical bytes of libclang's identity, where the extractor is libclang.
    #[default]
    #[returns(ref)]
    pub libclang: Option<Arc<[u8]>>,
    /// What each shard's tests opened of the tree in earlier runs, the last first, by the shard's
    /// name: where [`super::reads`] start. For shards that are not in it a first run tells.
    #[default]
    #[returns(ref)]
    pub reads: Arc<Remembered>,
    /// The iterations of an earlier commit that may be kept; nothing unless a run is asked to.
    #[default]
    #[returns(ref)]
    pub carried: Option<Arc<Carried>>,
}

impl Subject {
    /// The manifest as results see it: without what an alert costs, how many iterations are
    /// usual, what the profile is called and which packages a machine needs, so that changing these
    /// re-runs nothing.
    pub fn rules(self, db: &dyn Db) -> &Arc<Manifest> {
        rules(db, self)
    }
}

#[salsa::tracked(returns(ref))]
fn rules(db: &dyn Db, subject: Subject) -> Arc<Manifest> {
    let mut manifest = Manifest::clone(subject.manifest(db));
    manifest.scoring.penalty = None;
    manifest.scoring.iterations = 0;
    // They are for messages about the machine.
    manifest.build.packages.clear();
    // Its tests are selected; what the selection is called changes nothing.
    manifest.tests.profile = None;
    Arc::new(manifest)
}

/// What the whole evaluation has in common.
#[salsa::input]
pub struct Settings {
    /// The tree-sitter queries by which each language is read.
    #[returns(ref)]
    pub queries: Arc<QuerySet>,
    /// The prompt template's text.
    #[returns(ref)]
    pub template: Arc<str>,
    /// How many functions are drawn from the population; all when absent.
    #[returns(copy)]
    pub limit: Option<u32>,
    /// How many iterations each model has.
    #[returns(copy)]
    pub iterations: u32,
    /// The seed of every draw: sample, rankings, calibration.
    #[returns(copy)]
    pub seed: u64,
    /// What models are asked to do.
    #[returns(copy)]
    pub task: &'static Task,
    /// The metrics that are measured beside the three of the benchmark, by name.
    #[returns(ref)]
    pub metrics: Arc<Vec<&'static str>>,
}

/// Something that answers prompts.
#[salsa::input]
pub struct Model {
    /// What it is.
    #[returns(ref)]
    pub spec: Arc<ModelSpec>,
}

/// A model's description.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelSpec {
    /// The name in reports.
    pub name: String,
    /// How its replies come about.
    pub answers: Answers,
    /// What is known of it.
    pub card: Card,
}

/// How a model's replies come about.
#[derive(Clone, PartialEq, Debug)]
pub enum Answers {
    /// Edits with known effects, drawn per function with these shares (they sum to 1). Not a
    /// language model: the benchmark's own yardstick.
    Calibration(BTreeMap<Edit, f64>),
    /// Recorded replies.
    Replay {
        /// The revision that the recording names; part of every completion's key.
        revision: String,
        /// The sampling that was recorded.
        sampling: crate::ask::Sampling,
        /// What stood behind the task's own system text; may be empty.
        system: String,
    },
    /// A model over HTTP.
    Remote {
        /// Provider, model and revision; part of every completion's key.
        revision: String,
        /// How it is asked.
        sampling: crate::ask::Sampling,
        /// What stands behind the task's own system text; may be empty.
        system: String,
    },
}

impl Answers {
    /// Who is asked by prompt, and how: revision, sampling, further system text. Nothing for
    /// calibrations. Recorded and live answers of one model have the same keys.
    pub fn asked(&self) -> Option<(&str, &crate::ask::Sampling, &str)> {
        match self {
            Answers::Calibration(_) => None,
            Answers::Replay {
                revision,
                sampling,
                system,
            }
            | Answers::Remote {
                revision,
                sampling,
                system,
            } => Some((revision, sampling, system)),
        }
    }
}

impl ModelSpec {
    /// True for what is no language model.
    pub fn is_calibration(&self) -> bool {
        matches!(self.answers, Answers::Calibration(_))
    }
}

/// What is known of a model. Absent means unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Card {
    /// Models of one family share a name here.
    pub family: Option<String>,
    /// Number of parameters, as the maker writes it.
    pub size: Option<String>,
    /// `open` or `closed`.
    pub weights: Option<String>,
    /// Numeric precision of the weights.
    pub precision: Option<String>,
    /// Release date, `YYYY-MM-DD`.
    pub released: Option<String>,
    /// The end of its training data, `YYYY-MM-DD` or `YYYY-MM`.
    pub cutoff: Option<String>,
    /// Licence of the weights.
    pub licence: Option<String>,
}

/// Which sets of functions an iteration replaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scoring {
    /// As published: drawn from what compiles for the model.
    Paper,
    /// The same functions for every model; what does not compile stays original.
    Paired,
}

impl Scoring {
    /// `paper` or `paired`.
    pub fn name(self) -> &'static str {
        match self {
            Scoring::Paper => "paper",
            Scoring::Paired => "paired",
        }
    }
}
