//! Fetches source trees into the store.

use std::sync::Arc;

use super::runner::{Workshop, host};
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::Job;
use crate::source;
use crate::subject::{CrateSource, Source};

/// Runs jobs of kind `source/snapshot`.
pub struct Fetch(pub Arc<Workshop>);

impl Executor for Fetch {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        if job.text("from") != "crate" {
            return Err(Failure::Fatal {
                what: "the source tree was taken out of the store".into(),
                help: "run the command again: the directory is read anew".into(),
            });
        }
        let inside = job.text("inside");
        let crate_source = Source::Crate(CrateSource {
            name: job.text("name").into(),
            version: job.text("version").into(),
            checksum: job.text("checksum").into(),
            path_inside: (!inside.is_empty()).then(|| inside.to_string()),
        });
        let scratch = self
            .0
            .trees
            .scratch()
            .map_err(host("making a scratch folder"))?;
        let tree = source::fetch(&crate_source, scratch.path(), scratch.path()).map_err(|e| {
            if e.is_transient() {
                Failure::Transient(e.to_string())
            } else {
                Failure::Fatal {
                    what: e.to_string(),
                    help: "mend `[source]` in the subject's manifest".into(),
                }
            }
        })?;
        Ok(Output {
            bytes: tree.snapshot.canonical(),
            blobs: tree.blobs.values().map(|b| b.to_vec()).collect(),
        })
    }
}
