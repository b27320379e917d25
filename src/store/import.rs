//! Taking what an export holds into a store. The file is read to its end and checked before
//! anything is written; then it is committed in batches, roots last. An import that was interrupted
//! is done again, and finds what it had done.

use std::borrow::Cow;
use std::path::Path;

use redb::ReadableTable;

use super::error::StoreError;
use super::index::{self, Fault};
use super::open::Store;
use super::portable::{Contents, Package, Record};
use super::reader::corrupt_action;
use super::record::{ActionRecord, Conflict};
use super::write::{Blobs, Committed, Order, Prepared, Trust, put_actions, set_root};
use crate::digest::Digest;
use crate::job::{Key, Kind};

/// Blobs are committed when this many plain bytes are together, or this many blobs.
const BATCH_BYTES: usize = 16 << 20;
const BATCH: usize = 8192;

/// How an import is done.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions<'a> {
    /// The kinds that the program knows; jobs of others, or of later versions, are refused.
    pub kinds: &'a [Kind],
    /// Whether a root of the file takes the place of one of the store that has another digest.
    pub replace_roots: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// A root that the store has with another digest, and that stayed.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct KeptRoot {
    /// Its name.
    pub name: String,
    /// The store's digest, which stands.
    pub here: Digest,
    /// The file's.
    pub there: Digest,
}

/// What an import did, or would do.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Imported {
    /// Nothing was written: this is what would be.
    pub dry_run: bool,
    /// What the file holds.
    pub contents: Contents,
    /// Jobs that have their output from the file.
    pub new_actions: u64,
    /// Jobs that had this same output already.
    pub equal_actions: u64,
    /// Blobs that were new.
    pub new_blobs: u64,
    /// Their plain bytes.
    pub new_bytes: u64,
    /// Jobs that have another output here, which stands; the file's is kept beside it.
    pub conflicts: Vec<Conflict>,
    /// Names of roots that were set.
    pub new_roots: Vec<String>,
    /// Names of roots that had another digest, and have the file's now.
    pub replaced_roots: Vec<String>,
    /// Roots that have another digest here, and keep it.
    pub kept_roots: Vec<KeptRoot>,
}

impl Imported {
    /// What an import into an empty store would do.
    ///
    /// # Errors
    /// As [`Store::import`].
    pub fn into_nothing(file: &Path, kinds: &[Kind]) -> Result<Imported, StoreError> {
        let package = Package::open(file, kinds)?;
        let mut imported = Imported {
            dry_run: true,
            contents: package.contents,
            new_actions: package.contents.actions,
            new_blobs: package.contents.blobs,
            new_bytes: package.contents.bytes,
            ..Imported::default()
        };
        package.each(|record| {
            if let Record::Root(name, _) = record {
                imported.new_roots.push(name);
            }
            Ok(())
        })?;
        Ok(imported)
    }
}

impl Store {
    /// Takes in what `file` holds. Every blob is checked against its digest, every key is computed
    /// from its job, every record against its seal, and the whole against its digest, before the
    /// first byte is written. The first output of a key stands here too: another one goes to the
    /// conflicts. Import what was written by somebody you trust: that a job really gave what the
    /// file says cannot be seen without running it.
    ///
    /// # Errors
    /// [`StoreError::BadExport`], [`StoreError::ExportNewer`], [`StoreError::UnknownKinds`]: then
    /// nothing was written. Those of the index and the files: then what was written is sound and
    /// the import can be done again.
    pub fn import(&self, file: &Path, options: &ImportOptions) -> Result<Imported, StoreError> {
        let package = Package::open(file, options.kinds)?;
        let mut imported = Imported {
            dry_run: options.dry_run,
            contents: package.contents,
            ..Imported::default()
        };
        if options.dry_run {
            self.compare(&package, options, &mut imported)?;
        } else {
            self.take(&package, options, &mut imported)?;
        }
        imported
            .conflicts
            .sort_by_key(|conflict| (conflict.key, conflict.other));
        Ok(imported)
    }

    /// What is new in the file.
    fn compare(
        &self,
        package: &Package,
        options: &ImportOptions,
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        let reader = self.reader()?;
        package.each(|record| {
            match record {
                Record::Blob(digest, plain) => {
                    if !matches!(reader.blob(&digest), Ok(Some(_))) {
                        imported.new_blobs += 1;
                        imported.new_bytes += plain.len() as u64;
                    }
                }
                Record::Action(key, record, _) => match reader.action(&key) {
                    Ok(Some(here)) if here.output == record.output => imported.equal_actions += 1,
                    Ok(Some(here)) => imported.conflicts.push(Conflict {
                        key,
                        kind: record.kind,
                        nature: record.nature,
                        kept: here.output,
                        other: record.output,
                        kept_provenance: here.provenance,
                        other_provenance: record.provenance,
                        other_blobs: record.blobs,
                        at_ms: record.committed_at,
                    }),
                    Ok(None) | Err(StoreError::CorruptAction { .. }) => imported.new_actions += 1,
                    Err(e) => return Err(e),
                },
                Record::Conflict(_) => {}
                Record::Root(name, there) => {
                    let here = reader.root(&name)?;
                    sort_root(options, imported, name, here, there);
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    fn take(
        &self,
        package: &Package,
        options: &ImportOptions,
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        let mut blobs = Blobs::new();
        let mut waiting = 0;
        let mut actions: Vec<(Key, ActionRecord, Vec<u8>)> = Vec::new();
        let (mut conflicts, mut roots) = (Vec::new(), Vec::new());
        package.each(|record| {
            match record {
                Record::Blob(digest, plain) => {
                    waiting += plain.len();
                    blobs.insert(digest, Cow::Owned(plain));
                    if waiting >= BATCH_BYTES || blobs.len() >= BATCH {
                        self.take_blobs(&mut blobs, imported)?;
                        waiting = 0;
                    }
                }
                Record::Action(key, record, encoding) => {
                    actions.push((key, record, encoding));
                    if actions.len() >= BATCH {
                        self.take_blobs(&mut blobs, imported)?;
                        self.take_actions(&mut actions, imported)?;
                    }
                }
                Record::Conflict(conflict) => conflicts.push(*conflict),
                Record::Root(name, digest) => roots.push((name, digest)),
            }
            Ok(())
        })?;
        self.take_blobs(&mut blobs, imported)?;
        self.take_actions(&mut actions, imported)?;
        self.inner.write(|txn| {
            for conflict in conflicts {
                put_second(txn, conflict)?;
            }
            for (name, there) in roots {
                let here = {
                    let table = txn.open_table(index::ROOTS)?;
                    let bytes = table.get(name.as_str())?;
                    // A root that cannot be read is set again.
                    bytes.and_then(|b| super::record::open_root(&name, b.value()).ok())
                };
                if sort_root(options, imported, name.clone(), here, there) {
                    set_root(txn, &name, there)?;
                }
            }
            Ok(())
        })
    }

    fn take_blobs(&self, blobs: &mut Blobs, imported: &mut Imported) -> Result<(), StoreError> {
        if blobs.is_empty() {
            return Ok(());
        }
        let mut committed = Committed::default();
        self.inner
            .write(|txn| self.put_new_blobs(txn, blobs, Trust::Bytes, &mut committed))?;
        imported.new_blobs += committed.new_blobs;
        imported.new_bytes += committed.new_bytes;
        blobs.clear();
        Ok(())
    }

    fn take_actions(
        &self,
        actions: &mut Vec<(Key, ActionRecord, Vec<u8>)>,
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        if actions.is_empty() {
            return Ok(());
        }
        let prepared: Vec<Prepared> = actions
            .iter()
            .map(|(key, record, encoding)| (*key, record.clone(), Order::Encoding(encoding)))
            .collect();
        let mut committed = Committed::default();
        self.inner
            .write(|txn| put_actions(txn, &prepared, &mut committed))?;
        imported.new_actions += committed.stored.len() as u64;
        imported.equal_actions += committed.equal;
        imported.conflicts.extend(committed.conflicts);
        actions.clear();
        Ok(())
    }
}

/// Notes what becomes of a root; true if it is to be set.
fn sort_root(
    options: &ImportOptions,
    imported: &mut Imported,
    name: String,
    here: Option<Digest>,
    there: Digest,
) -> bool {
    match here {
        Some(here) if here == there => false,
        Some(here) if !options.replace_roots => {
            imported.kept_roots.push(KeptRoot { name, here, there });
            false
        }
        Some(_) => {
            imported.replaced_roots.push(name);
            true
        }
        None => {
            imported.new_roots.push(name);
            true
        }
    }
}

/// Keeps a second output that the file's store knew, beside the output that stands here.
fn put_second(txn: &redb::WriteTransaction, mut conflict: Conflict) -> Result<(), Fault> {
    let key = conflict.key;
    let actions = txn.open_table(index::ACTIONS)?;
    let Some(bytes) = actions.get(&key.0.0)? else {
        return Ok(());
    };
    let here = ActionRecord::open(&key, bytes.value()).map_err(|bad| corrupt_action(&key, bad))?;
    if here.output == conflict.other {
        return Ok(());
    }
    if here.output != conflict.kept {
        conflict.kept = here.output;
        conflict.kept_provenance = here.provenance;
    }
    let mut table = txn.open_table(index::CONFLICTS)?;
    let table_key = Conflict::table_key(&key, &conflict.other);
    let known = table
        .get(&table_key)?
        .is_some_and(|bytes| Conflict::open(&table_key, bytes.value()).is_ok());
    if !known {
        table.insert(&table_key, conflict.seal().as_slice())?;
    }
    Ok(())
}
