//! One output of a run: a pipe that is drained as the run goes and never holds more than its limit.
//! Must not wait.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::fchown;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Uid};

use super::spawn;

/// The reading end and what came out of it.
pub(super) struct Stream {
    /// `None` once closed from either side.
    pub(super) pipe: Option<OwnedFd>,
    /// At most `limit` bytes.
    pub(super) bytes: Vec<u8>,
    limit: usize,
}

impl Stream {
    /// Takes what is there, at most 1 MiB at a time; whether that was more than the limit.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 32 << 10];
        for _ in 0..32 {
            let Some(pipe) = &self.pipe else { return false };
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = self.limit - self.bytes.len();
                    self.bytes.extend_from_slice(&buffer[..count.min(room)]);
                    if count > room {
                        self.pipe = None;
                        return true;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        false
    }
}

/// A pipe whose writing end belongs to `owner`, so that the command can open /dev/stdout, which leads
/// to it.
pub(super) fn pipe(owner: Option<(u32, u32)>, limit: u64) -> io::Result<(Stream, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    if let Some((uid, gid)) = owner {
        fchown(&writer, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok((
        Stream {
            pipe: Some(reader),
            bytes: Vec::new(),
            limit,
        },
        spawn::raise(writer)?,
    ))
}
