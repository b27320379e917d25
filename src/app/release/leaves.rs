//! The facts that a release is evaluated from: replies, verdicts, logs and what was observed, and
//! none of the values that earlier processes derived from them, which could hide that a fact was
//! altered. What was asked for is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::digest::Digest;
use crate::engine::{Facts, FactsError};
use crate::job::Key;
use crate::store::Reader;

/// See the top of this file.
pub(super) struct Leaves {
    reader: Reader,
    pins: Option<Pins>,
    seen: Mutex<Seen>,
}

/// The only facts there are.
pub(super) struct Pins {
    /// Outputs.
    pub outputs: BTreeMap<Key, Digest>,
    /// What observations gave.
    pub observed: BTreeMap<Key, Digest>,
}

/// What an evaluation asked for and got.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Outputs.
    pub outputs: BTreeMap<Key, Digest>,
    /// What observations gave.
    pub observed: BTreeMap<Key, Digest>,
    /// Bytes.
    pub blobs: BTreeSet<Digest>,
}

impl Leaves {
    /// All facts of a store, or only the pinned ones.
    pub fn new(reader: &Reader, pins: Option<Pins>) -> Arc<Leaves> {
        Arc::new(Leaves {
            reader: reader.clone(),
            pins,
            seen: Mutex::default(),
        })
    }

    /// What was asked for so far.
    pub fn seen(&self) -> Seen {
        self.noting(|seen| seen.clone())
    }

    fn noting<T>(&self, f: impl FnOnce(&mut Seen) -> T) -> T {
        f(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Facts for Leaves {
    fn output(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        let output = match &self.pins {
            Some(pins) => pins.outputs.get(key).copied(),
            None => Facts::output(&self.reader, key)?,
        };
        if let Some(output) = output {
            self.noting(|seen| seen.outputs.insert(*key, output));
        }
        Ok(output)
    }

    fn noted(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        let gave = match &self.pins {
            Some(pins) => pins.observed.get(key).copied(),
            None => self.reader.noted(key)?,
        };
        if let Some(gave) = gave {
            self.noting(|seen| seen.observed.insert(*key, gave));
        }
        Ok(gave)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, FactsError> {
        self.noting(|seen| seen.blobs.insert(*digest));
        Facts::blob(&self.reader, digest)
    }

    fn row(&self, _: &Digest) -> Option<Arc<[u8]>> {
        None
    }
}
