//! The shards of a subject's test suite. A group of files has a shard for each file that matches, so
//! which shards there are follows from the source tree: queries ask here, never the manifest.

use std::sync::Arc;

use super::inputs::Subject;
use super::population;
use crate::engine::{Db, Hold};
use crate::subject::{Shard, Suite};

/// The suite on the subject's source tree.
#[salsa::tracked(returns(clone))]
pub fn suite(db: &dyn Db, subject: Subject) -> Result<Arc<Suite>, Hold> {
    let manifest = subject.rules(db);
    // Without groups nothing of the tree is asked for, so that nothing has to wait for it.
    let expanded = if manifest.tests.files.is_empty() {
        manifest.tests.expand(std::iter::empty())
    } else {
        let (_, snapshot) = population::snapshot(db, subject)?;
        manifest
            .tests
            .expand(snapshot.files.keys().map(String::as_str))
    };
    expanded.map(Arc::new).map_err(|e| {
        Hold::baseline_broken(
            format!("subject `{}`: {e}", manifest.name),
            "patterns are relative to the root of the source tree; `*` stops at `/`, `**` does not",
        )
    })
}

/// What to do about a shard whose baseline is of no use.
pub(super) fn way_out(shard: &Shard) -> String {
    match &shard.file {
        Some(file) => {
            let group = shard.name.strip_suffix(file.as_str()).unwrap_or_default();
            let group = group.trim_end_matches('/');
            format!("add \"{file}\" to `exclude` of [[tests.files]] `{group}`")
        }
        None => "leave its tests out".into(),
    }
}
