//! Archives: tar (plain, or compressed by gzip, bzip2, xz or zstd) and zip, read into a [`Tree`] in
//! memory. Nothing is ever unpacked onto a disk. An archive is hostile until it was read to its
//! end: names, links, kinds of entries, and sizes after decompression are checked while reading.

use std::cell::Cell;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use tar::EntryType;

use super::collect::{Collector, Refused, inside, text, top};
use super::directory::Limits;
use super::snapshot::Tree;

/// The largest dictionary that an xz archive may ask for, in KiB.
const XZ_MEMORY: u32 = 256 << 10;
/// The same for zstd, as a power of two of bytes.
const ZSTD_WINDOW: u32 = 27;

/// Why an archive is no source tree.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The first bytes are those of no known kind.
    #[error(
        "{0} is not an archive that is understood: tar, plain or packed by gzip, bzip2, xz or \
         zstd, and zip are"
    )]
    Unknown(String),
    /// The bytes are not what the kind says.
    #[error("{archive} is damaged: {error}")]
    Damaged {
        /// The archive.
        archive: String,
        /// The reader's words.
        error: io::Error,
    },
    /// An entry, or all of them, cannot stand.
    #[error("{archive}: {why}")]
    Refused {
        /// The archive.
        archive: String,
        /// Why.
        why: Refused,
    },
    /// There is no such file to look into.
    #[error("{archive} has no file `{path}`; mend `archive-inside`. Files with such names: {near}")]
    NoSuchArchive {
        /// The outer archive.
        archive: String,
        /// The `archive-inside` of the manifest.
        path: String,
        /// Archives that it has.
        near: String,
    },
}

/// What of an archive is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// A file of the archive that is an archive itself and holds the tree.
    pub archive_inside: Option<&'a str>,
    /// The directory that is the root of the tree.
    pub path_inside: Option<&'a str>,
}

/// The tree in an archive; `name` is what messages call it. When everything is in one directory at
/// the top, that directory is the root.
pub fn read_archive(
    name: &str,
    bytes: &[u8],
    wanted: Wanted<'_>,
    limits: Limits,
) -> Result<Tree, ArchiveError> {
    let refused = |archive: &str| {
        let archive = archive.to_string();
        move |why| ArchiveError::Refused { archive, why }
    };
    let Some(path) = wanted.archive_inside else {
        let tree = unpack(name, bytes, limits)?;
        return inside(tree, wanted.path_inside).map_err(refused(name));
    };
    // An archive in an archive may be larger than a source file may be.
    let outer = Limits {
        file_bytes: limits.total_bytes,
        ..limits
    };
    let tree = unpack(name, bytes, outer)?;
    let Some(inner) = tree.bytes(path) else {
        let packed = [".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".zip"];
        let files = tree.snapshot.files.keys();
        let near: Vec<&str> = files
            .filter(|f| packed.iter().any(|end| f.ends_with(end)))
            .map(String::as_str)
            .take(10)
            .collect();
        return Err(ArchiveError::NoSuchArchive {
            archive: name.to_string(),
            path: path.to_string(),
            near: if near.is_empty() {
                "none".into()
            } else {
                near.join(", ")
            },
        });
    };
    let name = format!("{name}, in it {path}");
    let tree = unpack(&name, inner, limits)?;
    inside(tree, wanted.path_inside).map_err(refused(&name))
}

fn unpack(name: &str, bytes: &[u8], limits: Limits) -> Result<Tree, ArchiveError> {
    let damaged = |error| ArchiveError::Damaged {
        archive: name.to_string(),
        error,
    };
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    let tree = if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        zip(name, bytes, limits)
    } else if starts(b"\x1f\x8b") {
        tar(name, flate2::read::MultiGzDecoder::new(bytes), limits)
    } else if starts(b"BZh") {
        tar(name, bzip2::read::MultiBzDecoder::new(bytes), limits)
    } else if starts(b"\xfd7zXZ\0") {
        let reader = lzma_rust2::XzReader::new_mem_limit(bytes, true, XZ_MEMORY);
        tar(name, reader, limits)
    } else if starts(b"\x28\xb5\x2f\xfd") {
        let mut reader = zstd::stream::read::Decoder::new(bytes).map_err(damaged)?;
        reader.window_log_max(ZSTD_WINDOW).map_err(damaged)?;
        tar(name, reader, limits)
    } else if bytes.get(257..262) == Some(b"ustar") {
        tar(name, bytes, limits)
    } else {
        return Err(ArchiveError::Unknown(name.to_string()));
    }?;
    let refused = |why| ArchiveError::Refused {
        archive: name.to_string(),
        why,
    };
    match &top(&tree)[..] {
        [only] if !tree.snapshot.files.contains_key(only) => {
            inside(tree, Some(only)).map_err(refused)
        }
        _ => Ok(tree),
    }
}

/// A reader that ends with an error after a number of bytes: what is decompressed may be entries'
/// names and padding as well, which no limit on files sees.
struct Bounded<R> {
    inner: R,
    left: u64,
    exceeded: Rc<Cell<bool>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.left = match self.left.checked_sub(n as u64) {
            Some(left) => left,
            None => {
                self.exceeded.set(true);
                return Err(io::Error::other("it unpacks to too much"));
            }
        };
        Ok(n)
    }
}

fn tar(name: &str, inner: impl Read, limits: Limits) -> Result<Tree, ArchiveError> {
    let exceeded = Rc::new(Cell::new(false));
    // A header and padding for each entry, and twice that for long names.
    let left = limits.total_bytes + 4 * 512 * limits.entries as u64;
    let reader = Bounded {
        inner,
        left,
        exceeded: exceeded.clone(),
    };
    entries(reader, limits).map_err(|why| {
        let archive = name.to_string();
        match why {
            _ if exceeded.get() => ArchiveError::Refused {
                archive,
                why: Refused::TooLarge {
                    path: "what it unpacks to".into(),
                    what: "bytes in all",
                    limit: left,
                },
            },
            Failed::Read(error) => ArchiveError::Damaged { archive, error },
            Failed::Refused(why) => ArchiveError::Refused { archive, why },
        }
    })
}

enum Failed {
    Read(io::Error),
    Refused(Refused),
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Self {
        Failed::Read(e)
    }
}

impl From<Refused> for Failed {
    fn from(e: Refused) -> Self {
        Failed::Refused(e)
    }
}

fn entries(reader: impl Read, limits: Limits) -> Result<Tree, Failed> {
    let mut collector = Collector::new(limits);
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            // Where an archive was made from; nothing of a tree.
            continue;
        }
        let raw = entry.path_bytes().into_owned();
        let directory = kind == EntryType::Directory || raw.ends_with(b"/");
        let path = plain(&text(&raw)?);
        let refuse = |what| Refused::Kind {
            path: path.clone(),
            what,
        };
        if let Some(extensions) = entry.pax_extensions()? {
            for extension in extensions {
                if extension?.key_bytes().starts_with(b"GNU.sparse.") {
                    return Err(refuse("a sparse file, which source archives do not need").into());
                }
            }
        }
        match kind {
            EntryType::Directory | EntryType::Regular if directory => {
                // Directories are made for what is in them; a bad name is refused all the same.
                if !path.is_empty() {
                    crate::subject::path::check(&path).map_err(|why| Refused::Path {
                        path: path.clone(),
                        why,
                    })?;
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                let executable = entry.header().mode()? & 0o100 != 0;
                collector.file(path, executable, &mut entry)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                collector.link(path, &target)?;
            }
            EntryType::Link => return Err(refuse("a hard link; pack it as a file").into()),
            EntryType::GNUSparse => {
                return Err(refuse("a sparse file, which source archives do not need").into());
            }
            EntryType::Char | EntryType::Block => return Err(refuse("a device").into()),
            EntryType::Fifo => return Err(refuse("a pipe").into()),
            _ => return Err(refuse("of a kind that no source archive needs").into()),
        }
    }
    Ok(collector.finish()?)
}

fn zip(name: &str, bytes: &[u8], limits: Limits) -> Result<Tree, ArchiveError> {
    zip_entries(bytes, limits).map_err(|why| {
        let archive = name.to_string();
        match why {
            Failed::Read(error) => ArchiveError::Damaged { archive, error },
            Failed::Refused(why) => ArchiveError::Refused { archive, why },
        }
    })
}

fn zip_entries(bytes: &[u8], limits: Limits) -> Result<Tree, Failed> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(io::Error::from)?;
    unique(bytes, archive.central_directory_start())?;
    let mut collector = Collector::new(limits);
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(|e| {
            let error = io::Error::from(e);
            io::Error::other(format!("entry {} of it: {error}", i + 1))
        })?;
        let raw = entry.name_raw().to_vec();
        let path = plain(&text(&raw)?);
        if raw.ends_with(b"/") {
            if !path.is_empty() {
                crate::subject::path::check(&path).map_err(|why| Refused::Path {
                    path: path.clone(),
                    why,
                })?;
            }
            continue;
        }
        // What the file system of another system has no modes for is a plain file.
        let mode = entry.unix_mode().unwrap_or(0o100_644);
        match mode & 0o170_000 {
            0 | 0o100_000 => collector.file(path, mode & 0o100 != 0, &mut entry)?,
            0o120_000 => {
                let mut target = Vec::new();
                entry.by_ref().take(4097).read_to_end(&mut target)?;
                collector.link(path, &target)?;
            }
            _ => {
                let what = "neither a file, a directory nor a link";
                return Err(Refused::Kind { path, what }.into());
            }
        }
    }
    Ok(collector.finish()?)
}

/// The reader keeps one entry of each name, so repeated ones are looked for in the directory of the
/// archive itself.
fn unique(bytes: &[u8], start: u64) -> Result<(), Failed> {
    let mut seen = std::collections::BTreeSet::new();
    let mut rest = usize::try_from(start)
        .ok()
        .and_then(|start| bytes.get(start..))
        .unwrap_or_default();
    while rest.starts_with(b"PK\x01\x02") && rest.len() >= 46 {
        let number = |at: usize| usize::from(u16::from_le_bytes([rest[at], rest[at + 1]]));
        let (name, extra, comment) = (number(28), number(30), number(32));
        let Some(raw) = rest.get(46..46 + name) else {
            break;
        };
        if !seen.insert(raw) {
            return Err(Refused::Twice(String::from_utf8_lossy(raw).into_owned()).into());
        }
        rest = rest.get(46 + name + extra + comment..).unwrap_or_default();
    }
    Ok(())
}

/// The name without `./` before it and `/` after it, which archivers write for directories.
fn plain(name: &str) -> String {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("./") {
        name = rest.trim_start_matches('/');
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    if name == "." {
        String::new()
    } else {
        name.to_string()
    }
}
