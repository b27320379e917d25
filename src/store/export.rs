//! Writing a part of a store into one file: what its roots reach, with everything that is needed to
//! check and to use it elsewhere. The same content gives the same bytes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::error::StoreError;
use super::gc::{mark, mark_conflicts};
use super::open::Store;
use super::portable::{Contents, MAGIC, Packer};
use super::reader::{Reader, corrupt_action, decode_job};
use super::record::{ActionRecord, Bad, seal_root};
use crate::digest::Digest;
use crate::job::Key;

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Exported {
    /// What is in the file.
    pub contents: Contents,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// The digest it ends with: of all bytes before.
    pub digest: Digest,
    /// Jobs that a manifest lists and that were taken out of the store since.
    pub absent: Vec<Key>,
}

impl Store {
    /// Writes what the named roots reach, and the roots themselves, into `file`: chunks of
    /// manifests, the actions they list with jobs and provenance, outputs, further blobs, the
    /// blobs behind their inputs, and their conflicts. The file is there whole or not at all;
    /// another export there is replaced. Works beside a process that writes.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRoot`]; [`StoreError::NoExportThere`];
    /// anything on the way from the roots; those of writing the file.
    pub fn export(&self, roots: &[String], file: &Path) -> Result<Exported, StoreError> {
        replaceable(file)?;
        let reader = self.reader()?;
        let all = reader.roots()?;
        let mut chosen: Vec<(String, Digest)> = Vec::new();
        for name in roots {
            let found = all.iter().find(|(n, _)| n == name);
            let found = found.ok_or_else(|| StoreError::NoSuchRoot {
                name: name.clone(),
                known: all.iter().map(|(n, _)| n.clone()).collect(),
            })?;
            chosen.push(found.clone());
        }
        chosen.sort();
        chosen.dedup();
        let part = part_of(file);
        let written = write(&reader, &chosen, &part).and_then(|written| {
            fs::rename(&part, file).map_err(|e| StoreError::io(file, "naming the export", e))?;
            reader.0.layout.sync_dir(folder(file))?;
            Ok(written)
        });
        if written.is_err() {
            // It is of no use, and the error says more than a failure to remove it.
            let _ = fs::remove_file(&part);
        }
        written
    }
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The name under which the file is written, beside it.
fn part_of(file: &Path) -> std::path::PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// A file of another sort is no export that has grown old.
fn replaceable(file: &Path) -> Result<(), StoreError> {
    let mut start = Vec::new();
    match File::open(file) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io(file, "looking at the export", e)),
        Ok(there) => there
            .take(MAGIC.len() as u64)
            .read_to_end(&mut start)
            .map_err(|e| StoreError::io(file, "looking at the export", e))?,
    };
    match start == MAGIC {
        true => Ok(()),
        false => Err(StoreError::NoExportThere {
            path: file.to_path_buf(),
        }),
    }
}

fn write(reader: &Reader, roots: &[(String, Digest)], file: &Path) -> Result<Exported, StoreError> {
    let mut live = mark(reader, roots, &HashSet::new())?;
    mark_conflicts(reader, &mut live)?;
    let mut packer = Packer::create(file)?;
    let mut blobs: Vec<Digest> = live.blobs.iter().copied().collect();
    blobs.sort_unstable();
    for digest in &blobs {
        // An input may name what is kept elsewhere; what must be there is looked for below.
        if let Some(plain) = reader.blob(digest)? {
            packer.blob(digest, &plain)?;
        }
    }
    let mut keys: Vec<Key> = live.keys.iter().copied().collect();
    keys.sort_unstable();
    let mut absent = Vec::new();
    for key in keys {
        let found = reader.guard(|| {
            let Some(sealed) = reader.0.actions.get(&key.0.0)? else {
                return Ok(None);
            };
            let job = reader.0.jobs.get(&key.0.0)?;
            let job = job.ok_or_else(|| corrupt_action(&key, Bad("its job is missing")))?;
            Ok(Some((job.value().to_vec(), sealed.value().to_vec())))
        })?;
        let Some((encoding, sealed)) = found else {
            absent.push(key);
            continue;
        };
        decode_job(&key, &encoding)?;
        let record = ActionRecord::open(&key, &sealed).map_err(|bad| corrupt_action(&key, bad))?;
        for digest in record.blobs.iter().chain([&record.output]) {
            present(reader, &key, digest)?;
        }
        packer.action(&encoding, &sealed)?;
    }
    for conflict in reader.conflicts()? {
        if live.keys.contains(&conflict.key) {
            for digest in conflict.other_blobs.iter().chain([&conflict.other]) {
                present(reader, &conflict.key, digest)?;
            }
            packer.conflict(&conflict)?;
        }
    }
    for (name, digest) in roots {
        packer.root(name, &seal_root(name, digest))?;
    }
    let (contents, file_bytes, digest) = packer.finish()?;
    Ok(Exported {
        contents,
        file_bytes,
        digest,
        absent,
    })
}

fn present(reader: &Reader, key: &Key, digest: &Digest) -> Result<(), StoreError> {
    match reader.has_blob(digest)? {
        true => Ok(()),
        false => Err(StoreError::MissingBlob {
            what: format!("job {key}"),
            digest: *digest,
        }),
    }
}
