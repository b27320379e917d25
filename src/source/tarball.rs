//! `tarball`: an archive by URL or path, which must have the manifest's checksum.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::archive::{ArchiveError, Wanted, read_archive};
use super::directory::Limits;
use super::download::{self, DownloadError, MAX_BYTES};
use super::snapshot::Tree;
use crate::subject::TarballSource;

/// Why an archive's tree could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TarballError {
    /// Over the network.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// From the disk.
    #[error("cannot read the archive {}: {error}", path.display())]
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not the archive that was meant.
    #[error(
        "{location} has SHA-256 {found}, but the subject's manifest says {expected}: either the \
         manifest is wrong or this is not the archive its author used"
    )]
    Checksum {
        /// URL or path.
        location: String,
        /// The manifest's.
        expected: String,
        /// The file's.
        found: String,
    },
    /// It is no source tree.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The tree of `source`.
pub fn fetch(source: &TarballSource, manifest_dir: &Path) -> Result<Tree, TarballError> {
    let location = &source.location;
    let bytes = if location.contains("://") {
        download::get(location, "*/*")?.bytes
    } else {
        read(&manifest_dir.join(location))?
    };
    let found = download::sha256(&bytes);
    if found != source.sha256 {
        return Err(TarballError::Checksum {
            location: location.clone(),
            expected: source.sha256.clone(),
            found,
        });
    }
    let wanted = Wanted {
        archive_inside: source.archive_inside.as_deref(),
        path_inside: source.path_inside.as_deref(),
    };
    Ok(read_archive(location, &bytes, wanted, Limits::default())?)
}

fn read(path: &Path) -> Result<Vec<u8>, TarballError> {
    let failed = |error| TarballError::Unreadable {
        path: path.to_path_buf(),
        error,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a file")));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        let said = format!("it is larger than {MAX_BYTES} bytes");
        return Err(failed(io::Error::other(said)));
    }
    Ok(bytes)
}
