//! Derived values that outlive a process: kept under a digest of their inputs and of the code that
//! computes them.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::engine::{Db, Hold};

/// A derived value, from an earlier process if one computed it with the same code.
pub(in crate::oss) fn recalled<T>(
    db: &dyn Db,
    what: &str,
    inputs: &[Digest],
    compute: impl FnOnce() -> Result<T, Hold>,
) -> Result<T, Hold>
where
    T: Serialize + for<'a> Deserialize<'a>,
{
    if let Some(value) = recall(db, what, inputs) {
        return Ok(value);
    }
    let value = compute()?;
    remember(db, what, inputs, &value);
    Ok(value)
}

/// A derived value that an earlier process computed with the same code, if one did.
pub(in crate::oss) fn recall<T: for<'a> Deserialize<'a>>(
    db: &dyn Db,
    what: &str,
    inputs: &[Digest],
) -> Option<T> {
    let row = db.recall(row_key(db, what, inputs))?;
    postcard::from_bytes(&row).ok()
}

/// Keeps a derived value for later processes.
pub(in crate::oss) fn remember<T: Serialize>(
    db: &dyn Db,
    what: &str,
    inputs: &[Digest],
    value: &T,
) {
    let row = postcard::to_stdvec(value).expect("derived values have lengths");
    db.remember(row_key(db, what, inputs), row);
}

/// The key of a derived value: what it is, the code of the pure rooms, and its inputs.
fn row_key(db: &dyn Db, what: &str, inputs: &[Digest]) -> Digest {
    let mut h = blake3::Hasher::new_derive_key("everbench 2026-11 row v2");
    h.update(db.code().as_bytes());
    h.update(&(what.len() as u64).to_le_bytes());
    h.update(what.as_bytes());
    for digest in inputs {
        h.update(&digest.0);
    }
    Digest(*h.finalize().as_bytes())
}
