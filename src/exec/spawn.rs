//! Starts the program of `init/main.rs` with exactly the descriptors it needs. Uses `posix_spawn`,
//! which does not copy the page tables of a large caller, and lets no descriptor leak into a child
//! that another thread starts at the same time. Also the plain calls around a child: its messages,
//! waiting, reaping. Must not decide anything.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::process::Pid;

const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbox-init"));
/// Descriptors for a child are moved to numbers from here on, clear of 0, 1, 2 and 9.
const LOWEST: RawFd = 16;

/// The program as a file without a name that nobody can change.
///
/// # Errors
/// The kernel refuses memory files that can be executed.
pub(super) fn image() -> io::Result<OwnedFd> {
    const EXECUTABLE: MemfdFlags = MemfdFlags::from_bits_retain(0x10);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // The flag is unknown before Linux 6.3, where such files can always be executed.
    let file = rustix::fs::memfd_create("sandbox-init", flags | EXECUTABLE)
        .or_else(|_| rustix::fs::memfd_create("sandbox-init", flags))?;
    fill(file, INIT)
}

/// A standard input that holds `bytes`.
pub(super) fn input(bytes: Option<&[u8]>) -> io::Result<OwnedFd> {
    match bytes {
        None => Ok(rustix::fs::open(
            "/dev/null",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?),
        Some(bytes) => {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            fill(rustix::fs::memfd_create("stdin", flags)?, bytes)
        }
    }
}

fn fill(file: OwnedFd, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    file.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    raise(file.into())
}

/// The same open file under a number that is clear of those with a meaning in the child.
pub(super) fn raise(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= LOWEST {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, LOWEST)?)
}

/// A child's program, and the descriptors it keeps.
pub(super) struct Spawn<'a> {
    /// stdin, stdout and stderr.
    pub(super) standard: [&'a OwnedFd; 3],
    /// Kept under their own numbers, all from [`raise`].
    pub(super) kept: Vec<&'a OwnedFd>,
    /// The program: see [`image`].
    pub(super) image: &'a OwnedFd,
    /// All arguments, from the program's name on.
    pub(super) argv: Vec<OsString>,
}

impl Spawn<'_> {
    /// Starts the child with an empty environment, no blocked and no ignored signal.
    ///
    /// # Errors
    /// As `posix_spawn`; `InvalidInput` for an argument that holds a zero byte.
    pub(super) fn start(&self) -> io::Result<Pid> {
        let strings: Vec<CString> = self.argv.iter().map(c_string).collect::<io::Result<_>>()?;
        let mut argv: Vec<*mut libc::c_char> = strings
            .iter()
            .map(|text| text.as_ptr().cast_mut())
            .collect();
        argv.push(ptr::null_mut());
        let environment = [ptr::null_mut()];
        let program = c_string(format!("/proc/self/fd/{}", self.image.as_raw_fd()))?;
        let mut actions = Actions::new()?;
        for (number, fd) in self.standard.iter().enumerate() {
            actions.keep(fd.as_raw_fd(), number as RawFd)?;
        }
        for fd in self.kept.iter().chain([&self.image]) {
            actions.keep(fd.as_raw_fd(), fd.as_raw_fd())?;
        }
        let attributes = Attributes::new()?;
        let mut pid = 0;
        // SAFETY: every pointer leads to a value that lives until the call returns; both lists end
        // in NULL.
        check(unsafe {
            libc::posix_spawn(
                &mut pid,
                program.as_ptr(),
                &actions.0,
                &attributes.0,
                argv.as_ptr(),
                environment.as_ptr(),
            )
        })?;
        Pid::from_raw(pid).ok_or_else(|| io::Error::other("posix_spawn gave no process"))
    }
}

fn c_string(text: impl AsRef<OsStr>) -> io::Result<CString> {
    let text = text.as_ref();
    CString::new(text.as_bytes()).map_err(|_| {
        let message = format!("{:?} holds a zero byte", text.to_string_lossy());
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: initialises what it is given, or reports that it did not.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Actions(unsafe { actions.assume_init() }))
    }

    /// `from` is open as `to` in the child. With equal numbers this clears close-on-exec.
    fn keep(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, from, to) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initialises what it is given, or reports that it did not.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        let mut attributes = Attributes(unsafe { attributes.assume_init() });
        let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: the attributes and both sets are initialised before they are used.
        unsafe {
            let mut every = MaybeUninit::uninit();
            let mut none = MaybeUninit::uninit();
            libc::sigfillset(every.as_mut_ptr());
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(
                &mut attributes.0,
                every.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setsigmask(
                &mut attributes.0,
                none.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setflags(
                &mut attributes.0,
                flags as libc::c_short,
            ))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// Two ends of a socket that keeps the borders of messages.
pub(super) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut pair = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: writes two descriptors, which nobody else owns.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])))
    }
}

/// What the sandbox's first process says.
#[derive(Debug)]
pub(super) enum Message {
    /// It is there: descriptors of itself, of `/proc`, `/tmp` and `/dev/shm`.
    Hello([OwnedFd; 4]),
    /// A step before the command failed: its letter and the error number.
    Failed(u8, i32),
    /// The command's wait status.
    Ended(i32),
    /// The other end is closed.
    Closed,
}

/// Reads one message without waiting; `None` when there is none.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Option<Message>> {
    let mut bytes = [0u8; 5];
    let mut rights = [0u64; 8];
    let mut segment = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zero is a valid header; its pointers outlive the call, its lengths are theirs,
    // and the kernel's answer is walked with the macros meant for it.
    let (count, descriptors) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut segment;
        header.msg_iovlen = 1;
        header.msg_control = rights.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&rights) as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        let count = libc::recvmsg(socket.as_fd().as_raw_fd(), &mut header, flags);
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                io::ErrorKind::ConnectionReset => Ok(Some(Message::Closed)),
                _ => Err(error),
            };
        }
        let mut descriptors = Vec::new();
        let mut part = libc::CMSG_FIRSTHDR(&header);
        while !part.is_null() {
            if (*part).cmsg_level == libc::SOL_SOCKET && (*part).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(part);
                let length = (*part).cmsg_len as usize - (data as usize - part as usize);
                for at in 0..length / size_of::<RawFd>() {
                    let fd = data.cast::<RawFd>().add(at).read_unaligned();
                    descriptors.push(OwnedFd::from_raw_fd(fd));
                }
            }
            part = libc::CMSG_NXTHDR(&header, part);
        }
        (count, descriptors)
    };
    let value = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    Ok(Some(match (count, bytes[0]) {
        (0, _) => Message::Closed,
        (5, b'H') => match descriptors.try_into() {
            Ok(all) => Message::Hello(all),
            Err(_) => return Err(io::Error::other("too few descriptors from the sandbox")),
        },
        (5, b'S') => Message::Ended(value),
        (5, letter) => Message::Failed(letter, value),
        _ => return Err(io::Error::other("a broken message from the sandbox")),
    }))
}

/// Waits for the child and gives the processor time of it and all it waited for, and the resident
/// bytes of the largest of them.
pub(super) fn reap(pid: Pid) -> (Duration, u64) {
    let mut status = 0;
    // SAFETY: all zero is a valid value; the call fills what it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(pid.as_raw_pid(), &mut status, 0, &mut usage) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        usage
    };
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    (
        time(usage.ru_utime) + time(usage.ru_stime),
        (usage.ru_maxrss as u64) << 10,
    )
}

pub(super) fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    wait(&[fd], timeout)
}

/// Whether one of `fds` has something to read, or its other end is closed.
pub(super) fn wait(fds: &[BorrowedFd<'_>], timeout: Duration) -> bool {
    let mut fds: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = Timespec {
        tv_sec: timeout.as_secs().min(3600) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // An interrupted or failed wait only means that the caller looks earlier.
    matches!(poll(&mut fds, Some(&timeout)), Ok(ready) if ready > 0)
}
