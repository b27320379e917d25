//! What the actions of each kind take up, and what they once took to compute.

use std::collections::{BTreeMap, HashMap};

use redb::ReadableTable;

use super::error::StoreError;
use super::reader::Reader;
use super::record::ActionRecord;
use crate::digest::Digest;
use crate::job::Key;

/// What the actions of one kind and version take up and took.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct KindUsage {
    /// The kind's name.
    pub kind: String,
    /// The kind's version.
    pub version: u32,
    /// Actions.
    pub actions: u64,
    /// Blobs that they gave, as stored, in bytes. What several kinds gave counts for the first.
    pub bytes: u64,
    /// Wall time of their executions, microseconds.
    pub wall_us: u64,
    /// Processor time of their executions, microseconds.
    pub cpu_us: u64,
}

impl Reader {
    /// What each kind takes up, sorted by kind and version, and the stored bytes of the blobs that no
    /// action gave: inputs, lists of evaluations, notes. Walks the index once; corrupt records do
    /// not count.
    ///
    /// # Errors
    /// Those of the index.
    pub fn usage(&self) -> Result<(Vec<KindUsage>, u64), StoreError> {
        let mut left = self.blob_sizes()?;
        let mut kinds: BTreeMap<(String, u32), (KindUsage, Vec<Digest>)> = BTreeMap::new();
        self.guard(|| {
            for entry in self.0.actions.iter()? {
                let (key, bytes) = entry?;
                let key = Key(Digest(*key.value()));
                let Ok(record) = ActionRecord::open(&key, bytes.value()) else {
                    continue;
                };
                let name = (record.kind.clone(), record.version);
                let (usage, blobs) = kinds.entry(name).or_insert_with(|| {
                    let usage = KindUsage {
                        kind: record.kind.clone(),
                        version: record.version,
                        actions: 0,
                        bytes: 0,
                        wall_us: 0,
                        cpu_us: 0,
                    };
                    (usage, Vec::new())
                });
                usage.actions += 1;
                usage.wall_us += record.provenance.wall_us;
                usage.cpu_us += record.provenance.cpu_us;
                blobs.push(record.output);
                blobs.extend(record.blobs);
            }
            Ok(())
        })?;
        let usages = kinds.into_values().map(|(mut usage, blobs)| {
            usage.bytes = blobs.iter().filter_map(|digest| left.remove(digest)).sum();
            usage
        });
        let usages = usages.collect();
        Ok((usages, left.values().sum()))
    }

    /// How many bytes each blob takes up.
    pub(super) fn blob_sizes(&self) -> Result<HashMap<Digest, u64>, StoreError> {
        let mut sizes = HashMap::new();
        self.blob_places(|digest, place| {
            if let Ok((_, _, stored)) = place {
                sizes.insert(digest, stored);
            }
        })?;
        Ok(sizes)
    }
}
