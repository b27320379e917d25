//! The bytes of each table's values. A record starts with a seal of 16 bytes: a keyed BLAKE3 hash
//! of table, key and body, so that an overwritten page is noticed when it is read and never taken
//! for a value. Numbers are little-endian; a text or list is preceded by its length as u32.
//! Nothing here reads or writes a file; no input makes it panic.

use std::sync::LazyLock;

use serde::Serialize;

use crate::digest::Digest;
use crate::job::{JobRecord, Key, Nature};

/// Bytes of a seal.
pub(super) const SEAL: usize = 16;

static SEAL_KEY: LazyLock<[u8; 32]> =
    LazyLock::new(|| blake3::derive_key("everbench 2026-11 store record seal v1", b""));

/// How and when an output came to be. Takes no part in identity.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Provenance {
    /// When execution started, milliseconds since 1970 UTC.
    pub started_ms: u64,
    /// Wall time of the execution, microseconds.
    pub wall_us: u64,
    /// CPU time of the execution with its children, microseconds.
    pub cpu_us: u64,
    /// The program that ran it, with its version.
    pub tool: String,
    /// Anything a person should know: a request id, a machine, a file that was imported.
    pub note: Option<String>,
}

/// An execution that gave no output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Attempt {
    /// The job.
    pub key: Key,
    /// The name of its kind.
    pub kind: String,
    /// When it failed, milliseconds since 1970 UTC.
    pub at_ms: u64,
    /// Whether trying again can help.
    pub transient: bool,
    /// What went wrong; at most [`Attempt::WHY_LIMIT`] bytes are kept.
    pub why: String,
}

impl Attempt {
    /// Longer reasons are cut here, and say so.
    pub const WHY_LIMIT: usize = 16 * 1024;
}

/// A second, different output for a key that had one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Conflict {
    /// The job.
    pub key: Key,
    /// The kind's name.
    pub kind: String,
    /// A conflict of a deterministic kind is a fault; of the others it is expected.
    pub nature: Nature,
    /// The output that stands.
    pub kept: Digest,
    /// The output that came later; its blob is in the store too.
    pub other: Digest,
    /// How the standing output came to be.
    pub kept_provenance: Provenance,
    /// How the later output came to be.
    pub other_provenance: Provenance,
    /// Further blobs that the later output names.
    pub other_blobs: Vec<Digest>,
    /// When the later output came, milliseconds since 1970 UTC.
    pub at_ms: u64,
}

/// An action that a user deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Removed {
    /// The job's key.
    pub key: Key,
    /// The job, unless its record was corrupt.
    pub job: Option<JobRecord>,
    /// The output it had, unless its record was corrupt.
    pub output: Option<Digest>,
    /// When it was removed, milliseconds since 1970 UTC.
    pub at_ms: u64,
}

/// An action that was taken out because its bytes are corrupt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Quarantined {
    /// The job's key.
    pub key: Key,
    /// The job, unless its record was corrupt.
    pub job: Option<JobRecord>,
    /// The output it had, unless its record was corrupt.
    pub output: Option<Digest>,
    /// When it was taken out, milliseconds since 1970 UTC.
    pub at_ms: u64,
    /// What was wrong.
    pub reason: String,
}

/// The value of the table `actions`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ActionRecord {
    pub output: Digest,
    pub nature: Nature,
    pub committed_at: u64,
    pub kind: String,
    pub version: u32,
    pub blobs: Vec<Digest>,
    pub provenance: Provenance,
}

impl ActionRecord {
    pub fn seal(&self, key: &Key) -> Vec<u8> {
        let mut out = Out::default();
        out.digest(&self.output);
        out.nature(self.nature);
        out.u64(self.committed_at);
        out.text(&self.kind);
        out.u32(self.version);
        out.digests(&self.blobs);
        out.provenance(&self.provenance);
        out.seal("actions", &key.0.0)
    }

    pub fn open(key: &Key, bytes: &[u8]) -> Result<ActionRecord, Bad> {
        let mut r = In::unseal("actions", &key.0.0, bytes)?;
        let output = r.digest()?;
        let nature = r.nature()?;
        let committed_at = r.u64()?;
        let kind = r.text()?;
        let version = r.u32()?;
        let blobs = r.digests()?;
        let record = ActionRecord {
            output,
            nature,
            committed_at,
            kind,
            version,
            blobs,
            provenance: r.provenance()?,
        };
        r.end().map(|()| record)
    }

    /// Only the output, for point reads: the whole record is still checked by its seal.
    pub fn output(key: &Key, bytes: &[u8]) -> Result<Digest, Bad> {
        In::unseal("actions", &key.0.0, bytes)?.digest()
    }
}

impl Conflict {
    pub(super) fn table_key(key: &Key, other: &Digest) -> [u8; 64] {
        let mut k = [0; 64];
        k[..32].copy_from_slice(&key.0.0);
        k[32..].copy_from_slice(&other.0);
        k
    }

    pub(super) fn seal(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.text(&self.kind);
        out.nature(self.nature);
        out.digest(&self.kept);
        out.u64(self.at_ms);
        out.provenance(&self.kept_provenance);
        out.provenance(&self.other_provenance);
        out.digests(&self.other_blobs);
        out.seal("conflicts", &Self::table_key(&self.key, &self.other))
    }

    pub(super) fn open(table_key: &[u8; 64], bytes: &[u8]) -> Result<Conflict, Bad> {
        let mut r = In::unseal("conflicts", table_key, bytes)?;
        let (key, other) = table_key.split_at(32);
        let conflict = Conflict {
            key: Key(Digest(key.try_into().expect("32 bytes"))),
            other: Digest(other.try_into().expect("32 bytes")),
            kind: r.text()?,
            nature: r.nature()?,
            kept: r.digest()?,
            at_ms: r.u64()?,
            kept_provenance: r.provenance()?,
            other_provenance: r.provenance()?,
            other_blobs: r.digests()?,
        };
        r.end().map(|()| conflict)
    }
}

impl Attempt {
    pub(super) fn seal(&self, seq: u64) -> Vec<u8> {
        let mut out = Out::default();
        out.digest(&self.key.0);
        out.text(&self.kind);
        out.u64(self.at_ms);
        out.u8(u8::from(self.transient));
        if self.why.len() > Self::WHY_LIMIT {
            let cut = self.why.floor_char_boundary(Self::WHY_LIMIT);
            let rest = self.why.len() - cut;
            out.text(&format!("{} [{rest} bytes cut]", &self.why[..cut]));
        } else {
            out.text(&self.why);
        }
        out.seal("attempts", &seq.to_be_bytes())
    }

    pub(super) fn open(seq: u64, bytes: &[u8]) -> Result<Attempt, Bad> {
        let mut r = In::unseal("attempts", &seq.to_be_bytes(), bytes)?;
        let attempt = Attempt {
            key: Key(r.digest()?),
            kind: r.text()?,
            at_ms: r.u64()?,
            transient: r.flag()?,
            why: r.text()?,
        };
        r.end().map(|()| attempt)
    }
}

/// The value of the tables `removed` and `quarantine`: an action that is no more.
pub(super) struct Departed {
    pub key: Key,
    pub job: Option<Vec<u8>>,
    pub output: Option<Digest>,
    pub at_ms: u64,
    pub reason: String,
}

impl Departed {
    pub fn seal(&self, table: &str, seq: u64) -> Vec<u8> {
        let mut out = Out::default();
        out.digest(&self.key.0);
        out.u64(self.at_ms);
        out.text(&self.reason);
        out.u8(u8::from(self.output.is_some()));
        if let Some(output) = &self.output {
            out.digest(output);
        }
        out.u8(u8::from(self.job.is_some()));
        if let Some(job) = &self.job {
            out.bytes(job);
        }
        out.seal(table, &seq.to_be_bytes())
    }

    pub fn open(table: &str, seq: u64, bytes: &[u8]) -> Result<Departed, Bad> {
        let mut r = In::unseal(table, &seq.to_be_bytes(), bytes)?;
        let departed = Departed {
            key: Key(r.digest()?),
            at_ms: r.u64()?,
            reason: r.text()?,
            output: if r.flag()? { Some(r.digest()?) } else { None },
            job: if r.flag()? {
                Some(r.bytes()?.to_vec())
            } else {
                None
            },
        };
        r.end().map(|()| departed)
    }

    /// The job, if its encoding still hashes to the key.
    pub fn job(&self) -> Option<JobRecord> {
        let encoding = self.job.as_deref()?;
        (JobRecord::key_of(encoding) == self.key)
            .then(|| JobRecord::decode(encoding).ok())
            .flatten()
    }
}

/// A sealed record of one digest (the table `roots`).
pub(super) fn seal_root(name: &str, digest: &Digest) -> Vec<u8> {
    let mut out = Out::default();
    out.digest(digest);
    out.seal("roots", name.as_bytes())
}

pub(super) fn open_root(name: &str, bytes: &[u8]) -> Result<Digest, Bad> {
    let mut r = In::unseal("roots", name.as_bytes(), bytes)?;
    let digest = r.digest()?;
    r.end().map(|()| digest)
}

/// A sealed row: the epoch in which it was computed, then its bytes.
pub(super) fn seal_row(digest: &Digest, epoch: u64, row: &[u8]) -> Vec<u8> {
    let mut out = Out::default();
    out.u64(epoch);
    out.0.extend_from_slice(row);
    out.seal("rows", &digest.0)
}

pub(super) fn open_row(digest: &Digest, bytes: &[u8]) -> Result<(u64, Vec<u8>), Bad> {
    let mut r = In::unseal("rows", &digest.0, bytes)?;
    Ok((r.u64()?, r.0.to_vec()))
}

/// Why bytes are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Bad(pub &'static str);

pub(super) fn seal_of(table: &str, key: &[u8], body: &[u8]) -> [u8; SEAL] {
    let mut hasher = blake3::Hasher::new_keyed(&SEAL_KEY);
    hasher.update(&[table.len() as u8]);
    hasher.update(table.as_bytes());
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(body);
    let mut seal = [0; SEAL];
    seal.copy_from_slice(&hasher.finalize().as_bytes()[..SEAL]);
    seal
}

#[derive(Default)]
pub(super) struct Out(pub Vec<u8>);

impl Out {
    pub fn u8(&mut self, n: u8) {
        self.0.push(n);
    }
    pub fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }
    pub fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }
    pub fn bytes(&mut self, b: &[u8]) {
        self.u32(b.len() as u32);
        self.0.extend_from_slice(b);
    }
    pub fn text(&mut self, s: &str) {
        self.bytes(s.as_bytes());
    }
    pub fn digest(&mut self, d: &Digest) {
        self.0.extend_from_slice(&d.0);
    }
    fn digests(&mut self, digests: &[Digest]) {
        self.u32(digests.len() as u32);
        for digest in digests {
            self.digest(digest);
        }
    }
    fn nature(&mut self, nature: Nature) {
        self.u8(match nature {
            Nature::Deterministic => 0,
            Nature::Sampled => 1,
            Nature::Measured => 2,
            Nature::Observed => unreachable!("a commit refuses observations"),
        });
    }
    fn provenance(&mut self, p: &Provenance) {
        self.u64(p.started_ms);
        self.u64(p.wall_us);
        self.u64(p.cpu_us);
        self.text(&p.tool);
        self.u8(u8::from(p.note.is_some()));
        if let Some(note) = &p.note {
            self.text(note);
        }
    }

    /// The record: seal and body.
    pub fn seal(self, table: &str, key: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(SEAL + self.0.len());
        record.extend_from_slice(&seal_of(table, key, &self.0));
        record.extend_from_slice(&self.0);
        record
    }
}

pub(super) struct In<'a>(pub &'a [u8]);

impl<'a> In<'a> {
    /// The body of a record whose seal fits.
    pub fn unseal(table: &str, key: &[u8], record: &'a [u8]) -> Result<In<'a>, Bad> {
        let (seal, body) = record
            .split_at_checked(SEAL)
            .ok_or(Bad("it is shorter than its seal"))?;
        if seal == seal_of(table, key, body) {
            Ok(In(body))
        } else {
            Err(Bad("its seal does not fit"))
        }
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Bad> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Bad("it ends too early"))?;
        self.0 = tail;
        Ok(head)
    }
    pub fn u8(&mut self) -> Result<u8, Bad> {
        Ok(self.take(1)?[0])
    }
    pub fn u32(&mut self) -> Result<u32, Bad> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().expect("4 bytes"),
        ))
    }
    pub fn u64(&mut self) -> Result<u64, Bad> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().expect("8 bytes"),
        ))
    }
    pub fn digest(&mut self) -> Result<Digest, Bad> {
        Ok(Digest(self.take(32)?.try_into().expect("32 bytes")))
    }
    fn digests(&mut self) -> Result<Vec<Digest>, Bad> {
        (0..self.u32()?).map(|_| self.digest()).collect()
    }
    pub fn bytes(&mut self) -> Result<&'a [u8], Bad> {
        let n = self.u32()? as usize;
        self.take(n)
    }
    pub fn text(&mut self) -> Result<String, Bad> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Bad("a text is not UTF-8"))
    }
    fn flag(&mut self) -> Result<bool, Bad> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Bad("a truth value is neither 0 nor 1")),
        }
    }
    fn nature(&mut self) -> Result<Nature, Bad> {
        match self.u8()? {
            0 => Ok(Nature::Deterministic),
            1 => Ok(Nature::Sampled),
            2 => Ok(Nature::Measured),
            _ => Err(Bad("an unknown nature")),
        }
    }
    fn provenance(&mut self) -> Result<Provenance, Bad> {
        Ok(Provenance {
            started_ms: self.u64()?,
            wall_us: self.u64()?,
            cpu_us: self.u64()?,
            tool: self.text()?,
            note: if self.flag()? {
                Some(self.text()?)
            } else {
                None
            },
        })
    }
    pub fn end(&self) -> Result<(), Bad> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Bad("bytes follow its end"))
        }
    }
}
