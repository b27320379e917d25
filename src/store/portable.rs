//! The file that carries a part of a store elsewhere: its bytes, and reading it back with every
//! record checked. The layout is in `docs/store.md`. Never touches a store.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::reader::decode_job;
use super::record::{ActionRecord, Bad, Conflict, In, Out, open_root};
use super::write::check_root_name;
use crate::digest::Digest;
use crate::job::{JobRecord, Key, Kind};

/// The format of exports that this program writes.
pub const EXPORT_FORMAT: u32 = 1;
/// The lowest format a program must know to read what this one writes.
const MIN_READER: u32 = 1;
/// The first version of everbench that knows [`MIN_READER`].
const NEEDS: &str = "0.1.0";

pub(super) const MAGIC: &[u8; 16] = b"everbench export";
/// Bytes of the digest at the end of the file.
const END: u64 = 32;
const LEVEL: i32 = 3;

const BLOB: u8 = 1;
const ACTION: u8 = 2;
const CONFLICT: u8 = 3;
const ROOT: u8 = 4;
const TRAILER: u8 = 5;

/// How many records of each sort a file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Contents {
    /// Values by digest.
    pub blobs: u64,
    /// Their bytes, uncompressed.
    pub bytes: u64,
    /// Finished jobs.
    pub actions: u64,
    /// Second outputs of some of them.
    pub conflicts: u64,
    /// Named roots.
    pub roots: u64,
}

/// Writes a file, record by record: first all blobs by digest, then actions by key, conflicts by
/// key and output, roots by name.
pub(super) struct Packer<'a> {
    path: &'a Path,
    out: zstd::stream::write::Encoder<'static, Hashing>,
    contents: Contents,
}

/// What was written, hashed on the way.
struct Hashing {
    file: BufWriter<File>,
    hasher: blake3::Hasher,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<'a> Packer<'a> {
    pub fn create(path: &'a Path) -> Result<Packer<'a>, StoreError> {
        let start = || {
            let mut out = Hashing {
                file: BufWriter::new(File::create(path)?),
                hasher: blake3::Hasher::new(),
            };
            out.write_all(&head())?;
            zstd::stream::write::Encoder::new(out, LEVEL)
        };
        Ok(Packer {
            path,
            out: start().map_err(|e| writing(path, e))?,
            contents: Contents::default(),
        })
    }

    pub fn blob(&mut self, digest: &Digest, plain: &[u8]) -> Result<(), StoreError> {
        self.contents.blobs += 1;
        self.contents.bytes += plain.len() as u64;
        self.record(BLOB, &[&digest.0, plain])
    }

    /// `sealed` is the record as the table `actions` holds it.
    pub fn action(&mut self, encoding: &[u8], sealed: &[u8]) -> Result<(), StoreError> {
        self.contents.actions += 1;
        let len = (encoding.len() as u64).to_le_bytes();
        self.record(ACTION, &[&len, encoding, sealed])
    }

    pub fn conflict(&mut self, conflict: &Conflict) -> Result<(), StoreError> {
        self.contents.conflicts += 1;
        let key = Conflict::table_key(&conflict.key, &conflict.other);
        self.record(CONFLICT, &[&key, &conflict.seal()])
    }

    pub fn root(&mut self, name: &str, sealed: &[u8]) -> Result<(), StoreError> {
        self.contents.roots += 1;
        let len = (name.len() as u64).to_le_bytes();
        self.record(ROOT, &[&len, name.as_bytes(), sealed])
    }

    pub fn record(&mut self, tag: u8, parts: &[&[u8]]) -> Result<(), StoreError> {
        let len: u64 = parts.iter().map(|p| p.len() as u64).sum();
        let mut write = || {
            self.out.write_all(&[tag])?;
            self.out.write_all(&len.to_le_bytes())?;
            parts.iter().try_for_each(|part| self.out.write_all(part))
        };
        write().map_err(|e| writing(self.path, e))
    }

    /// Ends the file, durably; gives what is in it, its size, and the digest it ends with.
    pub fn finish(mut self) -> Result<(Contents, u64, Digest), StoreError> {
        let trailer = trailer(&self.contents);
        self.record(TRAILER, &[&trailer])?;
        let path = self.path;
        let end = || {
            let mut out = self.out.finish()?;
            let digest = Digest(*out.hasher.finalize().as_bytes());
            out.write_all(&digest.0)?;
            let file = out.file.into_inner().map_err(|e| e.into_error())?;
            file.sync_all()?;
            Ok((self.contents, file.metadata()?.len(), digest))
        };
        end().map_err(|e| writing(path, e))
    }
}

fn writing(path: &Path, e: io::Error) -> StoreError {
    StoreError::io(path, "writing the export", e)
}

fn reading(path: &Path, e: io::Error) -> StoreError {
    StoreError::io(path, "reading the export", e)
}

fn head() -> Vec<u8> {
    let mut out = Out(MAGIC.to_vec());
    out.u32(EXPORT_FORMAT);
    out.u32(MIN_READER);
    out.text(NEEDS);
    out.0
}

fn trailer(contents: &Contents) -> Vec<u8> {
    let mut out = Out::default();
    for n in [
        contents.blobs,
        contents.bytes,
        contents.actions,
        contents.conflicts,
        contents.roots,
    ] {
        out.u64(n);
    }
    out.0
}

/// One record of a file, checked.
pub(super) enum Record {
    Blob(Digest, Vec<u8>),
    /// Key, record, and the job's encoding, which hashes to the key.
    Action(Key, ActionRecord, Vec<u8>),
    Conflict(Box<Conflict>),
    Root(String, Digest),
}

/// A file that is what was written: every byte, every record, every name in it.
pub(super) struct Package {
    path: PathBuf,
    /// Where the records start, and how many bytes they take, compressed.
    records: (u64, u64),
    pub contents: Contents,
}

impl Package {
    /// Reads the whole file once for its digest and once for its records. `kinds` are those that
    /// the program knows: a job of another name, or of a later version, is refused.
    pub fn open(path: &Path, kinds: &[Kind]) -> Result<Package, StoreError> {
        let records = whole(path)?;
        let mut package = Package {
            path: path.to_path_buf(),
            records,
            contents: Contents::default(),
        };
        let bad = |why: String| StoreError::BadExport {
            path: path.to_path_buf(),
            why,
        };
        let mut blobs: HashSet<Digest> = HashSet::new();
        let mut unknown: BTreeMap<(String, u32), u64> = BTreeMap::new();
        package.contents = package.each(|record| {
            let absent = |what: String, digest: Digest| {
                bad(format!("{what} names blob {digest}, which is not in it"))
            };
            match record {
                Record::Blob(digest, _) => {
                    blobs.insert(digest);
                }
                Record::Action(key, record, _) => {
                    let known = |k: &&Kind| k.name == record.kind && record.version <= k.version;
                    if !kinds.iter().any(|k| known(&k)) {
                        *unknown.entry((record.kind, record.version)).or_default() += 1;
                    }
                    for digest in record.blobs.iter().chain([&record.output]) {
                        if !blobs.contains(digest) {
                            return Err(absent(format!("job {key}"), *digest));
                        }
                    }
                }
                Record::Conflict(conflict) => {
                    for digest in conflict.other_blobs.iter().chain([&conflict.other]) {
                        if !blobs.contains(digest) {
                            return Err(absent(format!("job {}", conflict.key), *digest));
                        }
                    }
                }
                Record::Root(name, digest) => {
                    check_root_name(&name)?;
                    if !blobs.contains(&digest) {
                        return Err(absent(format!("root `{name}`"), digest));
                    }
                }
            }
            Ok(())
        })?;
        if !unknown.is_empty() {
            let name = |((kind, version), n): (&(String, u32), &u64)| match n {
                1 => format!("{kind} v{version} (1 job)"),
                n => format!("{kind} v{version} ({n} jobs)"),
            };
            return Err(StoreError::UnknownKinds {
                path: path.to_path_buf(),
                kinds: unknown.iter().map(name).collect(),
            });
        }
        Ok(package)
    }

    /// Calls `f` with every record in the order of the file; each was checked by itself.
    pub fn each(
        &self,
        mut f: impl FnMut(Record) -> Result<(), StoreError>,
    ) -> Result<Contents, StoreError> {
        let path = self.path.as_path();
        let bad = |why: &str| StoreError::BadExport {
            path: path.to_path_buf(),
            why: why.to_string(),
        };
        let open = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(self.records.0))?;
            let body = BufReader::new(file).take(self.records.1);
            Ok(BufReader::new(zstd::stream::read::Decoder::with_buffer(
                BufReader::new(body),
            )?))
        };
        let mut body = open().map_err(|e| reading(path, e))?;
        let mut seen = Contents::default();
        let mut last: Option<(u8, Vec<u8>)> = None;
        loop {
            let mut start = [0; 9];
            body.read_exact(&mut start)
                .map_err(|_| bad("its records end too early"))?;
            let (tag, len) = (start[0], &start[1..]);
            let len = u64::from_le_bytes(len.try_into().expect("8 bytes"));
            let mut bytes = Vec::new();
            // Not allocated ahead: a length that lies must not fill the memory.
            let read = body.by_ref().take(len).read_to_end(&mut bytes);
            read.map_err(|_| bad("its records do not decompress"))?;
            if bytes.len() as u64 != len {
                return Err(bad("a record ends too early"));
            }
            if tag == TRAILER {
                if bytes != trailer(&seen) {
                    return Err(bad("it does not hold as much as its end says"));
                }
                let more = body.read(&mut [0; 1]).map_err(|e| reading(path, e))?;
                if more != 0 {
                    return Err(bad("something follows its end"));
                }
                return Ok(seen);
            }
            let (order, record) = parse(tag, bytes, &mut seen).map_err(|e| bad(e.0))?;
            let place = Some((tag, order));
            if last >= place {
                return Err(bad("its records are not sorted, or one comes twice"));
            }
            last = place;
            f(record)?;
        }
    }
}

/// A record, and what it is sorted by.
fn parse(tag: u8, bytes: Vec<u8>, seen: &mut Contents) -> Result<(Vec<u8>, Record), Bad> {
    let mut r = In(&bytes);
    Ok(match tag {
        BLOB => {
            let digest = r.digest()?;
            if Digest::of(r.0) != digest {
                return Err(Bad("a blob has another digest than its name"));
            }
            seen.blobs += 1;
            seen.bytes += r.0.len() as u64;
            (digest.0.to_vec(), Record::Blob(digest, r.0.to_vec()))
        }
        ACTION => {
            let encoding = long(&mut r)?;
            let key = JobRecord::key_of(encoding);
            let job = decode_job(&key, encoding).map_err(|_| Bad("a job cannot be read"))?;
            let record = ActionRecord::open(&key, r.0)?;
            if record.kind != job.kind || record.version != job.version {
                return Err(Bad("an output's kind is not that of its job"));
            }
            seen.actions += 1;
            let order = key.0.0.to_vec();
            (order, Record::Action(key, record, encoding.to_vec()))
        }
        CONFLICT => {
            let key: [u8; 64] = r.take(64)?.try_into().expect("64 bytes");
            let conflict = Conflict::open(&key, r.0)?;
            seen.conflicts += 1;
            (key.to_vec(), Record::Conflict(Box::new(conflict)))
        }
        ROOT => {
            let name = long(&mut r)?.to_vec();
            let name = String::from_utf8(name).map_err(|_| Bad("a root's name is not UTF-8"))?;
            let digest = open_root(&name, r.0)?;
            seen.roots += 1;
            (name.clone().into_bytes(), Record::Root(name, digest))
        }
        _ => return Err(Bad("it has records of an unknown sort")),
    })
}

/// Bytes that are preceded by their length as u64.
fn long<'a>(r: &mut In<'a>) -> Result<&'a [u8], Bad> {
    let len = usize::try_from(r.u64()?).map_err(|_| Bad("a length is too large"))?;
    r.take(len)
}

/// Checks the head and the digest of the whole; gives where the records are.
fn whole(path: &Path) -> Result<(u64, u64), StoreError> {
    let bad = |why: &str| StoreError::BadExport {
        path: path.to_path_buf(),
        why: why.to_string(),
    };
    let mut file = File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => bad("there is no such file"),
        _ => reading(path, e),
    })?;
    let meta = file.metadata().map_err(|e| reading(path, e))?;
    if !meta.is_file() {
        return Err(bad("it is no file"));
    }
    let len = meta.len();
    let mut start = Vec::new();
    let read = (&file).take(256).read_to_end(&mut start);
    read.map_err(|e| reading(path, e))?;
    if !start.starts_with(MAGIC) {
        return Err(bad("it is no export of everbench"));
    }
    let mut r = In(&start[MAGIC.len()..]);
    let mut fields = || Ok::<_, Bad>((r.u32()?, r.u32()?, r.text()?));
    let (found, min_reader, needs) = fields().map_err(|_| bad("its head is cut short"))?;
    if min_reader > EXPORT_FORMAT {
        return Err(StoreError::ExportNewer {
            path: path.to_path_buf(),
            found,
            min_reader,
            ours: EXPORT_FORMAT,
            needs,
        });
    }
    let head = (start.len() - r.0.len()) as u64;
    let altered = "it was cut short or changed after it was written";
    let body = len.checked_sub(head + END).ok_or_else(|| bad(altered))?;
    let mut digest = [0; END as usize];
    let mut hasher = blake3::Hasher::new();
    let mut hash = || {
        file.rewind()?;
        io::copy(&mut (&file).take(head + body), &mut hasher)?;
        file.read_exact(&mut digest)
    };
    hash().map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => bad(altered),
        _ => reading(path, e),
    })?;
    match hasher.finalize().as_bytes() == &digest {
        true => Ok((head, body)),
        false => Err(bad(altered)),
    }
}
