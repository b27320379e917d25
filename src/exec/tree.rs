//! Walking folders that a hostile program has written. Every step opens one name below an open
//! directory without following a link, so a planted link never leads out; FIFOs and devices are
//! never opened for reading. Must not be used while the program still runs, except to measure.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawDir, Stat, chmodat, chownat, fstat, openat,
    renameat, statat, unlinkat,
};
use rustix::process::{Gid, Uid};

use super::command::Collected;

/// Folders nested deeper than this are refused, so that a walk needs few descriptors.
const DEPTH: usize = 128;
/// What an entry costs at least: an inode is not free.
const ENTRY: u64 = 4096;
const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC);

/// Bytes below `path` on disk: whole blocks, at least 4 KiB an entry. Entries that vanish while
/// they are counted count nothing. Stops counting once there are more than `enough`. `None`: nested
/// too deeply to count.
pub(super) fn measure(path: &Path, enough: u64) -> Option<u64> {
    let Ok(found) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return Some(0);
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Some(size(&found));
    }
    let Ok(root) = openat(CWD, path, DIRECTORY, Mode::empty()) else {
        return Some(0);
    };
    measure_below(root, enough, 0)
}

fn measure_below(directory: OwnedFd, enough: u64, depth: usize) -> Option<u64> {
    if depth > DEPTH {
        return None;
    }
    let mut total: u64 = 0;
    let mut below = Vec::new();
    let mut buffer = Vec::with_capacity(16 << 10);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    while total <= enough
        && let Some(Ok(entry)) = entries.next()
    {
        if is_dot(entry.file_name().to_bytes()) {
            continue;
        }
        if let Ok(found) = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            total = total.saturating_add(size(&found));
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                below.push(entry.file_name().to_owned());
            }
        }
    }
    for name in below {
        if total > enough {
            break;
        }
        if let Ok(child) = openat(&directory, name.as_c_str(), DIRECTORY, Mode::empty()) {
            total = total.saturating_add(measure_below(child, enough - total, depth + 1)?);
        }
    }
    Some(total)
}

pub(super) fn size(found: &Stat) -> u64 {
    (found.st_blocks as u64).saturating_mul(512).max(ENTRY)
}

/// Gives everything at and below `path` to `owner`, or to the caller: `rwx` for directories and
/// `rw` for files, and no set-user-id bits. Links stay links.
///
/// # Errors
/// The first entry that cannot be changed, or folders nested more than 128 deep.
pub(super) fn own(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let (uid, gid) = match owner {
        Some((uid, gid)) => (Uid::from_raw(uid), Gid::from_raw(gid)),
        None => (rustix::process::geteuid(), rustix::process::getegid()),
    };
    let (parent, name) = split(path)?;
    let parent = openat(
        CWD,
        parent,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    own_entry(parent.as_fd(), name, uid, gid, 0)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn own_entry(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    uid: Uid,
    gid: Gid,
    depth: usize,
) -> io::Result<()> {
    if depth > DEPTH {
        let message = format!("folders nested more than {DEPTH} deep: {}", name.display());
        return Err(io::Error::other(message));
    }
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if found.st_uid != uid.as_raw() || found.st_gid != gid.as_raw() {
        chownat(
            parent,
            name,
            Some(uid),
            Some(gid),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    let least = match kind {
        FileType::Directory => 0o700,
        FileType::RegularFile => 0o600,
        _ => return Ok(()),
    };
    let mode = (found.st_mode & 0o777) | least;
    if mode != found.st_mode & 0o7777 {
        // Nobody can swap the entry for a link: the program is dead and the parent is ours by now.
        chmodat(parent, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    if kind == FileType::Directory {
        let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
        for name in names(&directory)? {
            own_entry(directory.as_fd(), &name, uid, gid, depth + 1)?;
        }
    }
    Ok(())
}

/// Deletes `path` and everything below, however deep, without following a link. Missing is fine.
///
/// # Errors
/// The first entry that cannot be deleted.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let (parent, name) = split(path)?;
    let parent = openat(
        CWD,
        parent,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let found = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        found => found?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Ok(unlinkat(&parent, name, AtFlags::empty())?);
    }
    let top = open_writable(parent.as_fd(), name)?;
    // A folder nested too deeply is moved to the top, where the next round meets it again.
    let mut moved: u64 = 0;
    loop {
        let before = moved;
        empty(top.as_fd(), top.as_fd(), 0, &mut moved)?;
        if moved == before {
            break;
        }
    }
    Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

fn empty(
    directory: BorrowedFd<'_>,
    top: BorrowedFd<'_>,
    depth: usize,
    moved: &mut u64,
) -> io::Result<()> {
    for name in names(directory)? {
        match unlinkat(directory, &name, AtFlags::empty()) {
            Err(rustix::io::Errno::ISDIR | rustix::io::Errno::PERM) => {}
            done => {
                done?;
                continue;
            }
        }
        if depth == DEPTH {
            open_writable(directory, &name)?;
            loop {
                *moved += 1;
                let aside = format!(".removing-{}-{moved}", std::process::id());
                if statat(top, &aside, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                    renameat(directory, &name, top, &aside)?;
                    break;
                }
            }
            continue;
        }
        let child = open_writable(directory, &name)?;
        empty(child.as_fd(), top, depth + 1, moved)?;
        unlinkat(directory, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Opens a directory after giving its owner all rights to it.
fn open_writable(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && found.st_mode & 0o700 != 0o700
    {
        chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
    }
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// The entries directly in `directory`, inside known as `shown`, whose name begins with `prefix`,
/// sorted by name. Regular files are read until `limit` bytes in all; at most `limit / 4096 + 16`
/// entries are given.
///
/// # Errors
/// The directory itself cannot be read.
pub(super) fn collect(
    directory: &OwnedFd,
    shown: &Path,
    prefix: &OsStr,
    limit: u64,
) -> io::Result<Vec<Collected>> {
    let mut wanted: Vec<OsString> = names(directory)?
        .into_iter()
        .filter(|name| name.as_bytes().starts_with(prefix.as_bytes()))
        .collect();
    wanted.sort();
    let most = (limit / ENTRY + 16) as usize;
    let left_out = wanted.len().saturating_sub(most);
    wanted.truncate(most);
    let mut left = limit;
    let mut all = Vec::with_capacity(wanted.len() + 1);
    for name in wanted {
        let content = read(directory, &name, left).map_err(|error| error.to_string());
        left -= content.as_ref().map_or(0, |bytes| bytes.len() as u64);
        all.push(Collected {
            path: shown.join(name),
            content,
        });
    }
    if left_out > 0 {
        let path = PathBuf::from(OsString::from_vec(
            [shown.as_os_str().as_bytes(), b"/", prefix.as_bytes(), b"*"].concat(),
        ));
        all.push(Collected {
            path,
            content: Err(format!("{left_out} more entries: too many")),
        });
    }
    Ok(all)
}

fn read(directory: &OwnedFd, name: &OsStr, left: u64) -> io::Result<Vec<u8>> {
    let kind = |found: &Stat| FileType::from_raw_mode(found.st_mode);
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if kind(&found) != FileType::RegularFile {
        return Err(io::Error::other(format!(
            "not a regular file: {:?}",
            kind(&found)
        )));
    }
    if found.st_mode & 0o400 == 0 {
        chmodat(directory, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let found = fstat(&file)?;
    if found.st_size as u64 > left {
        let message = format!("{} bytes, more than the {left} left", found.st_size);
        return Err(io::Error::other(message));
    }
    let mut bytes = Vec::with_capacity(found.st_size as usize);
    std::fs::File::from(file)
        .take(left)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn names(directory: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut all = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !is_dot(name) {
            all.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(all)
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(io::Error::other(format!(
            "{} has no name of its own",
            path.display()
        ))),
    }
}
