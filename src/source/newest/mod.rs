//! Which version of a package is the newest, where a manifest follows it: asked of the tools to which
//! the order of versions belongs (cargo, dpkg, pip), never found by comparing texts.

mod debian;
mod krate;
mod sdist;

use super::{Apt, Fetcher, Index, Place, SourceError};
use crate::subject::{Pin, Source};

/// The newest of the versions that a source follows, and its checksum; nothing for a source that
/// follows none. Looks where packages come from, so it needs what fetching needs.
///
/// # Errors
/// No network, no such package, no version within the bound; those of a missing program.
pub fn newest(source: &Source, place: Place<'_>) -> Result<Option<Pin>, SourceError> {
    if source.followed().is_none() {
        return Ok(None);
    }
    let pin = match source {
        Source::Crate(s) => Fetcher::default().newest(s, place.scratch)?,
        Source::Debian(s) => Apt::new(place.private).newest(s)?,
        Source::Sdist(s) => Index::default().newest(s, place.scratch)?,
        Source::Directory(_) | Source::Git(_) | Source::Tarball(_) => return Ok(None),
    };
    Ok(Some(pin))
}
