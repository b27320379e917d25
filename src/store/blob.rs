//! Values by digest: small ones in the index, large ones in files of their own, either compressed
//! when that saves a tenth. The digest is that of the plain bytes and is checked on every read.
//! Never gives out bytes that do not hash to the digest asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::error::StoreError;
use super::layout::Layout;
use super::record::{In, Out};
use crate::digest::Digest;

/// Up to this many plain bytes, a blob is kept in the index: 64 KiB.
pub const INLINE_LIMIT: usize = 64 * 1024;

const RAW: u8 = 0;
const ZSTD: u8 = 1;
const FILE_RAW: u8 = 2;
const FILE_ZSTD: u8 = 3;

const LEVEL: i32 = 3;
/// Below this, a frame's header eats what it saves.
const WORTH_COMPRESSING: usize = 128;

/// Where a blob is, as its record says. An inline record is `form, length as u64, bytes`, checked
/// by the digest alone; a file's record is sealed: `form, length, stored length`.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Inline {
        zstd: bool,
        len: u64,
        body: &'a [u8],
    },
    File {
        zstd: bool,
        len: u64,
        stored: u64,
    },
}

impl<'a> Place<'a> {
    pub fn parse(digest: &Digest, record: &'a [u8]) -> Result<Place<'a>, StoreError> {
        let bad = |why: &str| corrupt(digest, format!("its record in the index is broken: {why}"));
        match record.first() {
            Some(&form @ (RAW | ZSTD)) => {
                let mut r = In(&record[1..]);
                let len = r.u64().map_err(|e| bad(e.0))?;
                if len > INLINE_LIMIT as u64 {
                    return Err(bad("its length is out of range"));
                }
                Ok(Place::Inline {
                    zstd: form == ZSTD,
                    len,
                    body: r.0,
                })
            }
            Some(&form @ (FILE_RAW | FILE_ZSTD)) => {
                let mut r = In::unseal("blobs", &digest.0, &record[1..]).map_err(|e| bad(e.0))?;
                let mut read = || {
                    let sealed = r.u8()?;
                    Ok::<_, super::record::Bad>((sealed, r.u64()?, r.u64()?))
                };
                let (sealed, len, stored) = read().map_err(|e| bad(e.0))?;
                if sealed != form {
                    return Err(bad("its form is not the one sealed"));
                }
                Ok(Place::File {
                    zstd: form == FILE_ZSTD,
                    len,
                    stored,
                })
            }
            _ => Err(bad("an unknown form")),
        }
    }
}

fn corrupt(digest: &Digest, why: impl Into<String>) -> StoreError {
    StoreError::CorruptBlob {
        digest: *digest,
        why: why.into(),
    }
}

/// The plain bytes of a blob whose record is `record`.
pub(super) fn read(
    layout: &Layout,
    digest: &Digest,
    record: &[u8],
) -> Result<Arc<[u8]>, StoreError> {
    let (plain, len) = match Place::parse(digest, record)? {
        Place::Inline {
            zstd: false,
            len,
            body,
        } => (body.to_vec(), len),
        Place::Inline {
            zstd: true,
            len,
            body,
        } => {
            let plain = decompressed(body, len as usize)
                .map_err(|e| corrupt(digest, format!("it does not decompress: {e}")))?;
            (plain, len)
        }
        Place::File { zstd, len, .. } => (read_file(layout, digest, zstd, len)?, len),
    };
    if plain.len() as u64 != len {
        return Err(corrupt(
            digest,
            format!("it has {} bytes, {len} were stored", plain.len()),
        ));
    }
    if Digest::of(&plain) != *digest {
        return Err(corrupt(digest, "its bytes have another digest"));
    }
    Ok(plain.into())
}

thread_local! {
    /// Making a context costs more than what most blobs do.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> =
        const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { RefCell::new(None) };
}

fn compressed(plain: &[u8]) -> io::Result<Option<Vec<u8>>> {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some(compressor) => compressor,
            None => slot.insert(zstd::bulk::Compressor::new(LEVEL)?),
        };
        // What cannot be compressed is kept as it is.
        Ok(compressor.compress(plain).ok())
    })
}

fn decompressed(body: &[u8], len: usize) -> io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress(body, len)
    })
}

fn read_file(
    layout: &Layout,
    digest: &Digest,
    zstd: bool,
    len: u64,
) -> Result<Vec<u8>, StoreError> {
    let path = layout.blob(digest);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(corrupt(digest, "its file is missing"));
        }
        Err(e) => return Err(StoreError::io(&path, "reading a blob", e)),
    };
    // One byte more than the recorded length is enough to see that there is too much, and keeps a
    // changed file from filling the memory.
    let limit = len.saturating_add(1);
    let mut plain = Vec::new();
    if zstd {
        let mut decoder = zstd::stream::read::Decoder::new(file)
            .map_err(|e| StoreError::io(&path, "reading a blob", e))?;
        let read = decoder.by_ref().take(limit).read_to_end(&mut plain);
        read.map_err(|e| corrupt(digest, format!("it does not decompress: {e}")))?;
    } else {
        let read = file.take(limit).read_to_end(&mut plain);
        read.map_err(|e| StoreError::io(&path, "reading a blob", e))?;
    }
    Ok(plain)
}

/// Whether the blob can be expected to be readable: a file must be there with its length. The
/// digest is not checked.
pub(super) fn looks_whole(layout: &Layout, digest: &Digest, record: &[u8]) -> bool {
    match Place::parse(digest, record) {
        Ok(Place::Inline { .. }) => true,
        Ok(Place::File { stored, .. }) => {
            fs::metadata(layout.blob(digest)).is_ok_and(|m| m.is_file() && m.len() == stored)
        }
        Err(_) => false,
    }
}

/// Writes blobs: one per batch, so that folders are synced once.
pub(super) struct Writer<'a> {
    layout: &'a Layout,
    folders: BTreeSet<PathBuf>,
}

impl<'a> Writer<'a> {
    pub fn new(layout: &'a Layout) -> Writer<'a> {
        Writer {
            layout,
            folders: BTreeSet::new(),
        }
    }

    /// Puts a blob's bytes where they belong; returns its record for the index. A file is durable
    /// only after [`Writer::sync`].
    pub fn put(&mut self, digest: &Digest, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        let compressed = if plain.len() < WORTH_COMPRESSING {
            None
        } else {
            let done = compressed(plain);
            done.map_err(|e| StoreError::io(&self.layout.dir, "compressing a blob", e))?
                .filter(|z| z.len() < plain.len() / 10 * 9)
        };
        let body = compressed.as_deref().unwrap_or(plain);
        if plain.len() <= INLINE_LIMIT {
            let mut record = Vec::with_capacity(9 + body.len());
            record.push(if compressed.is_some() { ZSTD } else { RAW });
            record.extend_from_slice(&(plain.len() as u64).to_le_bytes());
            record.extend_from_slice(body);
            return Ok(record);
        }
        self.write_file(digest, body)?;
        let form = if compressed.is_some() {
            FILE_ZSTD
        } else {
            FILE_RAW
        };
        let mut out = Out::default();
        out.u8(form);
        out.u64(plain.len() as u64);
        out.u64(body.len() as u64);
        let mut record = vec![form];
        record.extend_from_slice(&out.seal("blobs", &digest.0));
        Ok(record)
    }

    fn write_file(&mut self, digest: &Digest, body: &[u8]) -> Result<(), StoreError> {
        let path = self.layout.blob(digest);
        let folder = path.parent().expect("a blob is in a folder").to_path_buf();
        if !self.folders.contains(&folder) {
            fs::create_dir_all(&folder)
                .map_err(|e| StoreError::io(&folder, "creating the directory", e))?;
        }
        self.layout.write_durably(&path, body)?;
        self.folders.insert(folder);
        Ok(())
    }

    /// Makes the names of all written files durable.
    pub fn sync(self) -> Result<(), StoreError> {
        for folder in &self.folders {
            self.layout.sync_dir(folder)?;
        }
        // Also when the folders are not new: who made them may have been killed before its sync.
        if !self.folders.is_empty() {
            self.layout.sync_dir(&self.layout.blobs())?;
        }
        Ok(())
    }
}
