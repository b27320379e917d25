//! Fetches source trees into the store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::runner::{Workshop, host};
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Key};
use crate::source::{self, Place};
use crate::subject::Source;

/// Where the sources of jobs are. A job holds what identifies the content; where that is to be had
/// (a URL, a path) is no part of its identity.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<Key, Origin>);

#[derive(Clone, Debug)]
struct Origin {
    source: Source,
    manifest_dir: PathBuf,
    private: PathBuf,
}

impl Sources {
    /// Notes where the source of `job` is; the folders are those of [`Place`].
    pub fn add(&mut self, job: &Job, source: Source, manifest_dir: PathBuf, private: PathBuf) {
        let origin = Origin {
            source,
            manifest_dir,
            private,
        };
        self.0.insert(job.key(), origin);
    }
}

/// Runs jobs of kind `source/snapshot`.
pub struct Fetch {
    /// What the executors share.
    pub shop: Arc<Workshop>,
    /// Where the sources are.
    pub sources: Sources,
}

impl Executor for Fetch {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        let Some(origin) = self.sources.0.get(&job.key()) else {
            return Err(Failure::Fatal {
                what: "the source tree was taken out of the store".into(),
                help: "run the command again: the directory is read anew".into(),
            });
        };
        let scratch = self
            .shop
            .trees
            .scratch()
            .map_err(host("making a scratch folder"))?;
        let place = Place {
            manifest: &origin.manifest_dir,
            private: &origin.private,
            scratch: scratch.path(),
        };
        let tree = source::fetch(&origin.source, place).map_err(|e| match e.is_transient() {
            true => Failure::Transient(e.to_string()),
            false => Failure::Fatal {
                what: e.to_string(),
                help: e.help().into(),
            },
        })?;
        Ok(Output {
            bytes: tree.snapshot.canonical(),
            blobs: tree.blobs.values().map(|b| b.to_vec()).collect(),
        })
    }
}
