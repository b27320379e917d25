//! Whether a store still has what a release pins: each fact with the output it had, and each byte
//! behind it.

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;

use super::super::AppError;
use crate::digest::Digest;
use crate::job::{Key, Value};
use crate::store::{Entry, Reader, StoreError};

/// Something that is not as a release pins it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// What the release calls it.
    pub id: String,
    /// The job.
    pub key: Option<Key>,
    /// The blob.
    pub digest: Option<Digest>,
    /// What is wrong with it.
    pub what: String,
}

/// What a list of facts reaches.
#[derive(Default)]
pub(super) struct Reached {
    /// Every blob: outputs, what they name, and what is behind the inputs.
    pub blobs: HashSet<Digest>,
    /// Digests among the inputs whose bytes are not there.
    pub absent: BTreeSet<Digest>,
    /// What is not as it should be.
    pub faults: Vec<Fault>,
}

/// Reads everything that the facts reach. `absent` are inputs whose bytes need not be there; without
/// it none need be.
pub(super) fn reach(
    reader: &Reader,
    entries: &[Entry],
    absent: Option<&BTreeSet<Digest>>,
) -> Result<Reached, AppError> {
    let mut out = Reached::default();
    for entry in entries {
        let action = match reader.action(&entry.key) {
            Ok(Some(action)) => action,
            Ok(None) => {
                out.fault(entry, Some(entry.output), "its result is not in the store");
                continue;
            }
            Err(e) => {
                let what = damage(e)?;
                out.fault(entry, None, what);
                continue;
            }
        };
        if action.output != entry.output {
            let what = format!("the store has another result for it: {}", action.output);
            out.fault(entry, Some(entry.output), what);
        }
        let outputs = [action.output].into_iter().chain(action.blobs);
        for digest in outputs {
            if !out.blobs.contains(&digest) && !out.read(reader, entry, digest)? {
                out.fault(entry, Some(digest), "a blob of its result is missing");
            }
        }
        for digest in action.job.inputs.values().flat_map(Value::digests) {
            if out.blobs.contains(&digest) || out.absent.contains(&digest) {
                continue;
            }
            if !out.read(reader, entry, digest)? {
                out.absent.insert(digest);
                if absent.is_some_and(|known| !known.contains(&digest)) {
                    out.fault(entry, Some(digest), "a blob behind its inputs is missing");
                }
            }
        }
    }
    Ok(out)
}

impl Reached {
    fn fault(&mut self, entry: &Entry, digest: Option<Digest>, what: impl Into<String>) {
        self.faults.push(Fault {
            id: entry.id.clone(),
            key: Some(entry.key),
            digest,
            what: what.into(),
        });
    }

    /// Reads a blob; false if there is none. One that is altered is a fault, once.
    fn read(&mut self, reader: &Reader, entry: &Entry, digest: Digest) -> Result<bool, AppError> {
        match reader.blob(&digest) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(false),
            Err(e) => {
                let what = damage(e)?;
                self.fault(entry, Some(digest), what);
            }
        }
        self.blobs.insert(digest);
        Ok(true)
    }
}

/// What damage an error tells of, in words; any other error stays one.
pub(super) fn damage(e: StoreError) -> Result<String, AppError> {
    match e {
        StoreError::CorruptBlob { why, .. } => Ok(format!("a blob was altered: {why}")),
        StoreError::CorruptAction { why, .. } => Ok(format!("its record was altered: {why}")),
        e @ (StoreError::Damaged { .. }
        | StoreError::Gone { .. }
        | StoreError::MissingBlob { .. }
        | StoreError::BadManifest { .. }) => Ok(e.to_string()),
        other => Err(other.into()),
    }
}
