//! What a unit of impure work is: a kind and its named inputs. The canonical encoding of both,
//! hashed, is the key under which its output is stored; the same job is the work order of the
//! executor and the provenance of the output. Nothing here runs anything.
//!
//! Encoding (pinned by golden tests; a change of it is a new `DOMAIN`):
//! every string and byte string is preceded by its length as a little-endian u64; a value is one
//! tag byte and its body (see [`Value`]); inputs are sorted by name, each name once.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The context string of BLAKE3's key derivation for job keys.
const DOMAIN: &str = "everbench 2026-11 job key v1";

/// How far two executions of one job can be expected to agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nature {
    /// The same inputs give the same bytes on every machine: a second output is a fault.
    Deterministic,
    /// Drawn from a distribution (a model's reply): the first one committed stands.
    Sampled,
    /// Measured on a machine (a test run): the first one committed stands.
    Measured,
    /// What this machine is like at this moment (the bytes of a system file): looked up by every
    /// process for itself, never committed, never taken from elsewhere.
    Observed,
}

/// A kind of job: its name, the version of what its output means, and its nature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// `room/what`, for example `oss/verdict`.
    pub name: &'static str,
    /// Raised when the same inputs would give an output with another meaning or encoding.
    pub version: u32,
    /// See [`Nature`].
    pub nature: Nature,
}

/// One input of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// Tag 1: 32 bytes; the preimage is a blob in the store.
    Digest(Digest),
    /// Tag 2: UTF-8.
    Text(String),
    /// Tag 3: little-endian i64.
    Int(i64),
    /// Tag 4: one byte, 0 or 1.
    Bool(bool),
    /// Tag 5: the number of values as u64, then each value. Order matters.
    List(Vec<Value>),
}

impl From<Digest> for Value {
    fn from(d: Digest) -> Self {
        Value::Digest(d)
    }
}
impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::Text(s.to_string())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::Text(s)
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Self {
        Value::List(v.into_iter().map(Into::into).collect())
    }
}

impl Value {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Digest(d) => {
                out.push(1);
                out.extend_from_slice(&d.0);
            }
            Value::Text(s) => {
                out.push(2);
                bytes(out, s.as_bytes());
            }
            Value::Int(n) => {
                out.push(3);
                out.extend_from_slice(&n.to_le_bytes());
            }
            Value::Bool(b) => {
                out.push(4);
                out.push(u8::from(*b));
            }
            Value::List(values) => {
                out.push(5);
                out.extend_from_slice(&(values.len() as u64).to_le_bytes());
                for value in values {
                    value.encode(out);
                }
            }
        }
    }

    /// Every digest in the value, lists included, in order.
    pub fn digests(&self) -> Vec<Digest> {
        match self {
            Value::Digest(d) => vec![*d],
            Value::List(values) => values.iter().flat_map(Value::digests).collect(),
            _ => Vec::new(),
        }
    }
}

fn bytes(out: &mut Vec<u8>, b: &[u8]) {
    out.extend_from_slice(&(b.len() as u64).to_le_bytes());
    out.extend_from_slice(b);
}

/// The key of a job: the hash of its canonical encoding under [`DOMAIN`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub Digest);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A kind with its inputs; equal, ordered and hashed by its key.
///
/// Two things travel with a job and take no part in its identity. `preimages` are the bytes behind
/// digests among the inputs which the deriving query had in hand, for the store to keep beside the
/// output. `materials` are other jobs whose outputs an executor works on or in (the build tree a
/// variant is put into); what of them can change the output is among the inputs.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    kind: Kind,
    inputs: BTreeMap<&'static str, Value>,
    preimages: Vec<(Digest, Arc<[u8]>)>,
    materials: BTreeMap<&'static str, Job>,
    key: Key,
}

impl Job {
    /// Starts a job of `kind`; see [`JobBuilder`].
    pub fn of(kind: Kind) -> JobBuilder {
        JobBuilder {
            kind,
            inputs: BTreeMap::new(),
            preimages: Vec::new(),
            materials: BTreeMap::new(),
        }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The inputs, sorted by name.
    pub fn inputs(&self) -> &BTreeMap<&'static str, Value> {
        &self.0.inputs
    }

    /// The bytes behind some of the digests among the inputs.
    pub fn preimages(&self) -> &[(Digest, Arc<[u8]>)] {
        &self.0.preimages
    }

    /// The key.
    pub fn key(&self) -> Key {
        self.0.key
    }

    /// The job that came along as `name`.
    ///
    /// # Panics
    /// If there is none: a fault in the room that registers the kind.
    pub fn material(&self, name: &str) -> &Job {
        match self.0.materials.get(name) {
            Some(job) => job,
            None => panic!("{}: no material `{name}`", self.0.kind.name),
        }
    }

    /// The canonical bytes whose keyed hash is the key; stored as the job's record.
    pub fn encoding(&self) -> Vec<u8> {
        encode(self.0.kind.name, self.0.kind.version, &self.0.inputs)
    }

    /// The job that came along as `name`, if one did.
    pub fn try_material(&self, name: &str) -> Option<&Job> {
        self.0.materials.get(name)
    }

    /// The same job with another job going along; see [`Job`].
    #[must_use]
    pub fn with_material(&self, name: &'static str, job: Job) -> Job {
        let mut materials = self.0.materials.clone();
        materials.insert(name, job);
        Job(Arc::new(Inner {
            kind: self.0.kind,
            inputs: self.0.inputs.clone(),
            preimages: self.0.preimages.clone(),
            materials,
            key: self.0.key,
        }))
    }

    /// The digest given as input `name`.
    ///
    /// # Panics
    /// If there is no such input or it is no digest: a fault in the room that registers the kind.
    pub fn digest(&self, name: &str) -> Digest {
        match self.0.inputs.get(name) {
            Some(Value::Digest(d)) => *d,
            other => panic!(
                "{}: input `{name}` is {other:?}, not a digest",
                self.0.kind.name
            ),
        }
    }

    /// The text given as input `name`. Panics as [`Job::digest`] does.
    pub fn text(&self, name: &str) -> &str {
        match self.0.inputs.get(name) {
            Some(Value::Text(s)) => s,
            other => panic!(
                "{}: input `{name}` is {other:?}, not a text",
                self.0.kind.name
            ),
        }
    }

    /// The number given as input `name`. Panics as [`Job::digest`] does.
    pub fn int(&self, name: &str) -> i64 {
        match self.0.inputs.get(name) {
            Some(Value::Int(n)) => *n,
            other => panic!(
                "{}: input `{name}` is {other:?}, not a number",
                self.0.kind.name
            ),
        }
    }

    /// The list given as input `name`. Panics as [`Job::digest`] does.
    pub fn list(&self, name: &str) -> &[Value] {
        match self.0.inputs.get(name) {
            Some(Value::List(v)) => v,
            other => panic!(
                "{}: input `{name}` is {other:?}, not a list",
                self.0.kind.name
            ),
        }
    }
}

fn encode(name: &str, version: u32, inputs: &BTreeMap<&'static str, Value>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * (inputs.len() + 1));
    bytes(&mut out, name.as_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&(inputs.len() as u64).to_le_bytes());
    for (name, value) in inputs {
        bytes(&mut out, name.as_bytes());
        value.encode(&mut out);
    }
    out
}

/// A job's record as the store holds it, readable without knowing the kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JobRecord {
    /// The kind's name.
    pub kind: String,
    /// The kind's version.
    pub version: u32,
    /// The inputs, sorted by name.
    pub inputs: BTreeMap<String, Value>,
}

/// Bytes that are not the encoding of a job.
#[derive(Debug, thiserror::Error)]
#[error("not a job's encoding: {0}")]
pub struct BadEncoding(&'static str);

impl JobRecord {
    /// The key these inputs have: equal to [`Job::key`] of the job that was encoded.
    pub fn key_of(encoding: &[u8]) -> Key {
        Key(Digest(blake3::derive_key(DOMAIN, encoding)))
    }

    /// Reads back what [`Job::encoding`] wrote.
    pub fn decode(encoding: &[u8]) -> Result<JobRecord, BadEncoding> {
        let mut r = Reader(encoding);
        let kind = r.text()?;
        let version = u32::from_le_bytes(r.take(4)?.try_into().expect("4 bytes"));
        let n = r.u64()?;
        let mut inputs = BTreeMap::new();
        for _ in 0..n {
            let name = r.text()?;
            let value = r.value(0)?;
            if inputs
                .last_key_value()
                .is_some_and(|(last, _)| *last >= name)
            {
                return Err(BadEncoding("inputs are not sorted or not unique"));
            }
            inputs.insert(name, value);
        }
        if r.0.is_empty() {
            Ok(JobRecord {
                kind,
                version,
                inputs,
            })
        } else {
            Err(BadEncoding("bytes after the last input"))
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], BadEncoding> {
        if n > self.0.len() {
            return Err(BadEncoding("it ends too early"));
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    fn u64(&mut self) -> Result<u64, BadEncoding> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().expect("8 bytes"),
        ))
    }

    fn text(&mut self) -> Result<String, BadEncoding> {
        let n = usize::try_from(self.u64()?).map_err(|_| BadEncoding("a length is too large"))?;
        String::from_utf8(self.take(n)?.to_vec()).map_err(|_| BadEncoding("a text is not UTF-8"))
    }

    fn value(&mut self, depth: u32) -> Result<Value, BadEncoding> {
        if depth > 32 {
            return Err(BadEncoding("lists are nested too deeply"));
        }
        Ok(match self.take(1)?[0] {
            1 => Value::Digest(Digest(self.take(32)?.try_into().expect("32 bytes"))),
            2 => Value::Text(self.text()?),
            3 => Value::Int(i64::from_le_bytes(
                self.take(8)?.try_into().expect("8 bytes"),
            )),
            4 => match self.take(1)?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                _ => return Err(BadEncoding("a truth value is neither 0 nor 1")),
            },
            5 => {
                let n = self.u64()?;
                let mut values = Vec::new();
                for _ in 0..n {
                    values.push(self.value(depth + 1)?);
                }
                Value::List(values)
            }
            _ => return Err(BadEncoding("an unknown tag")),
        })
    }
}

/// Collects a job's inputs.
pub struct JobBuilder {
    kind: Kind,
    inputs: BTreeMap<&'static str, Value>,
    preimages: Vec<(Digest, Arc<[u8]>)>,
    materials: BTreeMap<&'static str, Job>,
}

impl JobBuilder {
    /// Adds an input. A digest's preimage must be in the store already, or come by [`Self::blob`].
    ///
    /// # Panics
    /// If the name is taken: a fault in the deriving query.
    #[must_use]
    pub fn put(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        let old = self.inputs.insert(name, value.into());
        assert!(
            old.is_none(),
            "{}: input `{name}` given twice",
            self.kind.name
        );
        self
    }

    /// Adds the digest of `bytes` as an input and carries the bytes along. Panics as `put` does.
    #[must_use]
    pub fn blob(self, name: &'static str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        self.preimage(digest, bytes).put(name, digest)
    }

    /// Carries along the bytes behind a digest that is inside a list.
    #[must_use]
    pub fn preimage(mut self, digest: Digest, bytes: Arc<[u8]>) -> Self {
        debug_assert_eq!(digest, Digest::of(&bytes));
        self.preimages.push((digest, bytes));
        self
    }

    /// Sends another job along; see [`Job`].
    #[must_use]
    pub fn material(mut self, name: &'static str, job: Job) -> Self {
        self.materials.insert(name, job);
        self
    }

    /// The finished job.
    pub fn done(self) -> Job {
        let encoding = encode(self.kind.name, self.kind.version, &self.inputs);
        Job(Arc::new(Inner {
            kind: self.kind,
            key: JobRecord::key_of(&encoding),
            inputs: self.inputs,
            preimages: self.preimages,
            materials: self.materials,
        }))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Job {}
impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Job {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
impl Hash for Job {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.kind().name, self.key().0.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIND: Kind = Kind {
        name: "test/kind",
        version: 3,
        nature: Nature::Deterministic,
    };

    fn example() -> Job {
        Job::of(KIND)
            .put("text", "größe")
            .put(
                "list",
                vec![Value::Int(-1), Value::Bool(true), Value::List(vec![])],
            )
            .blob("source", b"int f(void);\r\n".to_vec())
            .done()
    }

    #[test]
    fn the_encoding_is_pinned() {
        let hex: String = example()
            .encoding()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        insta::assert_snapshot!(hex);
        insta::assert_snapshot!(example().key());
    }

    #[test]
    fn order_of_putting_does_not_matter_and_everything_else_does() {
        let job = |a: i64, b: &str| Job::of(KIND).put("b", b).put("a", a).done();
        let swapped = Job::of(KIND).put("a", 1).put("b", "x").done();
        assert_eq!(job(1, "x").key(), swapped.key());
        assert_ne!(job(1, "x").key(), job(2, "x").key());
        assert_ne!(job(1, "x").key(), job(1, "").key());
        let newer = Job::of(Kind { version: 4, ..KIND })
            .put("a", 1)
            .put("b", "x")
            .done();
        assert_ne!(newer.key(), swapped.key());
    }

    #[test]
    fn preimages_take_no_part_in_identity() {
        let bytes = b"text".to_vec();
        let with = Job::of(KIND).blob("a", bytes.clone()).done();
        let without = Job::of(KIND).put("a", Digest::of(&bytes)).done();
        assert_eq!(with, without);
        assert_eq!(with.preimages().len(), 1);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<[u8; 32]>().prop_map(|b| Value::Digest(Digest(b))),
            any::<String>().prop_map(Value::Text),
            any::<i64>().prop_map(Value::Int),
            any::<bool>().prop_map(Value::Bool),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(Value::List)
        })
    }

    proptest! {
        #[test]
        fn decode_reads_back_what_encode_wrote(a in values(), b in values()) {
            let job = Job::of(KIND).put("a", a.clone()).put("b", b.clone()).done();
            let record = JobRecord::decode(&job.encoding()).unwrap();
            prop_assert_eq!(JobRecord::key_of(&job.encoding()), job.key());
            prop_assert_eq!(&record.inputs["a"], &a);
            prop_assert_eq!(&record.inputs["b"], &b);
        }

        #[test]
        fn distinct_inputs_have_distinct_encodings(a in values(), b in values()) {
            let one = Job::of(KIND).put("a", a.clone()).done();
            let two = Job::of(KIND).put("a", b.clone()).done();
            prop_assert_eq!(a == b, one.encoding() == two.encoding());
        }

        #[test]
        fn decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = JobRecord::decode(&bytes);
        }
    }
}
