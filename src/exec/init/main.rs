//! The program that stands before and inside every sandbox. Built by `build.rs`, embedded in the
//! library, started from a sealed memory file. It has two parts:
//!
//! - `outer`: before bubblewrap, with the caller's rights: joins the control groups, sets resource
//!   limits, gives up root, and becomes bubblewrap (or, without a sandbox, `init`).
//! - `init`: process 1 of the sandbox: hands the supervisor descriptors of the place, starts the
//!   command, reaps everything, and reports the command's raw wait status on a socket that the
//!   command cannot reach.
//!
//! It must never allocate, read a file of the command's, or interpret anything the command says.
//! No standard library: it starts with every command, so it must start fast.
#![no_std]
#![no_main]

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use core::ptr;

#[link(name = "c")]
unsafe extern "C" {
    static mut environ: *const *const c_char;
    fn __errno_location() -> *mut c_int;
    fn _exit(code: c_int) -> !;
    fn chdir(path: *const c_char) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn fork() -> c_int;
    fn getpid() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn pause() -> c_int;
    fn personality(persona: c_ulong) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn sendmsg(fd: c_int, message: *const MessageHeader, flags: c_int) -> isize;
    fn setgroups(count: usize, groups: *const c_uint) -> c_int;
    fn setpgid(pid: c_int, group: c_int) -> c_int;
    fn setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setrlimit(resource: c_uint, limit: *const [c_ulong; 2]) -> c_int;
    fn setsid() -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn strlen(text: *const c_char) -> usize;
    fn syscall(number: c_long, ...) -> c_long;
    fn umask(mask: c_uint) -> c_uint;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn write(fd: c_int, bytes: *const c_void, count: usize) -> isize;
}

const PR_SET_PDEATHSIG: c_int = 1;
const PR_SET_DUMPABLE: c_int = 4;
const PR_SET_CHILD_SUBREAPER: c_int = 36;
const ADDR_NO_RANDOMIZE: c_ulong = 0x0040000;
const SIGKILL: c_int = 9;
const SIGTERM: c_int = 15;
const O_WRONLY: c_int = 1;
const O_RDONLY_DIRECTORY_CLOEXEC: c_int = 0o2000000 | DIRECTORY;
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const DIRECTORY: c_int = 0o40000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const DIRECTORY: c_int = 0o200000;
const F_SETFD: c_int = 2;
const FD_CLOEXEC: c_int = 1;
const SYS_PIDFD_OPEN: c_long = 434;
const SYS_CLOSE_RANGE: c_long = 436;
const CLOSE_RANGE_CLOEXEC: c_uint = 4;
const RLIMIT_NPROC: c_uint = 6;
const EINTR: c_int = 4;
const ECHILD: c_int = 10;
/// Where the command finds its channel for results.
const RESULTS: c_int = 9;

type Arguments = *const *const c_char;

#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, arguments: Arguments) -> c_int {
    // SAFETY: the C start code passes a NULL-terminated array; the supervisor wrote it, complete
    // for the part that its first word names.
    unsafe {
        let mut words = Words {
            next: arguments.add(1),
        };
        match *words.text() as u8 {
            b'o' => outer(words),
            b'i' => init(words),
            _ => fail(b"unknown part\n\0"),
        }
    }
}

/// Arguments: `outer UID GID NO_RANDOM CGROUPS fd.. LIMITS (resource soft hard).. -- argv`.
/// UID -1 keeps the present user.
unsafe fn outer(mut words: Words) -> ! {
    unsafe {
        let (uid, gid) = (words.number(), words.number());
        let fixed_addresses = words.number() == 1;
        for _ in 0..words.number() {
            let group = words.number() as c_int;
            if write(group, c"0".as_ptr().cast(), 1) != 1 {
                fail(b"cannot join the control group\n\0");
            }
            close(group);
        }
        for _ in 0..words.number() {
            let resource = words.number() as c_uint;
            let limit = [words.number() as c_ulong, words.number() as c_ulong];
            if setrlimit(resource, &limit) != 0 {
                fail(b"cannot set a resource limit\n\0");
            }
        }
        umask(0o022);
        // Away from the terminal: an interrupt there is for the supervisor to pass on.
        setsid();
        if fixed_addresses && personality(ADDR_NO_RANDOMIZE) < 0 {
            fail(b"cannot fix the addresses of programs (personality refused)\n\0");
        }
        if uid >= 0
            && (setgroups(0, ptr::null()) != 0
                || setresgid(gid as c_uint, gid as c_uint, gid as c_uint) != 0
                || setresuid(uid as c_uint, uid as c_uint, uid as c_uint) != 0)
        {
            fail(b"cannot give up root\n\0");
        }
        let nothing = [ptr::null()];
        execve(*words.next, words.next, nothing.as_ptr());
        fail(b"cannot execute the next program\n\0")
    }
}

/// Arguments: `init CONTROL RESULTS PROCESSES CWD ENVIRONMENT name=value.. argv`; RESULTS and
/// PROCESSES may be -1. Messages on CONTROL: `H` with descriptors of itself, /proc, /tmp and
/// /dev/shm; `C` or `F` or `X` with an errno (cannot change directory, fork, execute); `S` with
/// the wait status. Each is its letter and four bytes.
unsafe fn init(mut words: Words) -> ! {
    unsafe {
        let control = words.number() as c_int;
        let results = words.number() as c_int;
        let processes = words.number();
        let directory = words.text();
        let variables = words.number() as usize;
        let (environment, command) = split(words.next as *mut *const c_char, variables);

        let first = getpid() == 1;
        // Not dumpable: nothing in the sandbox can trace this process or open its descriptors.
        prctl(PR_SET_DUMPABLE, 0 as c_ulong);
        prctl(PR_SET_PDEATHSIG, SIGKILL as c_ulong);
        if !first {
            prctl(PR_SET_CHILD_SUBREAPER, 1 as c_ulong);
        }
        // If the supervisor died before this process could be bound to its life, nobody listens to
        // the greeting, and this ends. So `outer` need not, and must not, bind bubblewrap: killed
        // between its fork and its message to the child, it would leave a child that waits for ever.
        hello(control);
        if processes >= 0 {
            // Set here and not outside, so that it counts in this user namespace only.
            let limit = [processes as c_ulong, processes as c_ulong];
            setrlimit(RLIMIT_NPROC, &limit);
        }
        if chdir(directory) != 0 {
            report(control, b'C', errno());
            _exit(1);
        }
        signal(SIGTERM, pass_on as *const () as usize);
        let child = fork();
        if child < 0 {
            report(control, b'F', errno());
            _exit(1);
        }
        if child == 0 {
            start(control, results, environment, command, first);
        }
        if !first {
            setpgid(child, child);
            GROUP = child;
        }
        let status = wait_for(child);
        if first {
            // Nobody may outlive the command, and all are reaped here so that their time counts.
            kill(-1, SIGKILL);
            while waitpid(-1, ptr::null_mut(), 0) > 0 || errno() == EINTR {}
            report(control, b'S', status);
            _exit(0);
        }
        // Without a namespace the supervisor kills what is left, then this process.
        report(control, b'S', status);
        loop {
            while waitpid(-1, ptr::null_mut(), 0) > 0 {}
            if errno() == ECHILD {
                pause();
            }
        }
    }
}

/// Moves the variables down over the word that counts them, which is read by now, so that a NULL
/// fits between them and the command, and nothing is allocated.
unsafe fn split(environment: *mut *const c_char, variables: usize) -> (Arguments, Arguments) {
    unsafe {
        let moved = environment.sub(1);
        for at in 0..variables {
            *moved.add(at) = *environment.add(at);
        }
        *moved.add(variables) = ptr::null();
        (moved, environment.add(variables))
    }
}

/// The command's side of the fork.
unsafe fn start(
    control: c_int,
    results: c_int,
    environment: Arguments,
    command: Arguments,
    first: bool,
) -> ! {
    unsafe {
        if !first {
            setpgid(0, 0);
        }
        let mut kept = 2;
        if results >= 0 {
            // `control` and `results` are at least 10, by agreement with the supervisor.
            dup2(results, RESULTS);
            kept = RESULTS;
            close_later(3, RESULTS - 1);
        }
        close_later(kept + 1, c_int::MAX);
        // If the machine runs short of memory, this goes first.
        let preference = open(c"/proc/self/oom_score_adj".as_ptr(), O_WRONLY);
        if preference >= 0 {
            write(preference, c"1000".as_ptr().cast(), 4);
            close(preference);
        }
        environ = environment;
        execvp(*command, command);
        report(control, b'X', errno());
        _exit(127)
    }
}

unsafe fn close_later(from: c_int, to: c_int) {
    unsafe {
        let last = to as c_uint;
        if syscall(SYS_CLOSE_RANGE, from as c_uint, last, CLOSE_RANGE_CLOEXEC) != 0 {
            // Linux before 5.11. The limit on open files bounds the numbers in use.
            for fd in from..=to.min(4096) {
                fcntl(fd, F_SETFD, FD_CLOEXEC);
            }
        }
    }
}

unsafe fn wait_for(child: c_int) -> c_int {
    unsafe {
        loop {
            let mut status = 0;
            let ended = waitpid(-1, &mut status, 0);
            if ended == child {
                return status;
            }
            if ended < 0 && errno() != EINTR {
                _exit(1);
            }
        }
    }
}

static mut GROUP: c_int = 0;

/// SIGTERM from the supervisor is for everything in the sandbox.
extern "C" fn pass_on(_signal: c_int) {
    // SAFETY: async-signal-safe; `GROUP` is written once, before a signal can matter.
    unsafe {
        let before = errno();
        if getpid() == 1 {
            kill(-1, SIGTERM);
        } else if GROUP > 0 {
            kill(-GROUP, SIGTERM);
        }
        *__errno_location() = before;
    }
}

#[repr(C)]
struct Segment {
    base: *const c_void,
    length: usize,
}

#[repr(C)]
struct MessageHeader {
    name: *const c_void,
    name_length: c_uint,
    segments: *const Segment,
    segment_count: usize,
    control: *const c_void,
    control_length: usize,
    flags: c_int,
}

#[repr(C)]
struct Rights {
    length: usize,
    level: c_int,
    kind: c_int,
    descriptors: [c_int; 4],
}

unsafe fn hello(control: c_int) {
    unsafe {
        let descriptors = [
            syscall(SYS_PIDFD_OPEN, getpid(), 0) as c_int,
            open(c"/proc".as_ptr(), O_RDONLY_DIRECTORY_CLOEXEC),
            open(c"/tmp".as_ptr(), O_RDONLY_DIRECTORY_CLOEXEC),
            open(c"/dev/shm".as_ptr(), O_RDONLY_DIRECTORY_CLOEXEC),
        ];
        if descriptors.iter().any(|&fd| fd < 0) {
            report(control, b'F', errno());
            _exit(1);
        }
        let bytes = [b'H', 0, 0, 0, 0];
        let segment = Segment {
            base: bytes.as_ptr().cast(),
            length: bytes.len(),
        };
        let rights = Rights {
            length: 16 + 4 * descriptors.len(),
            level: 1, // SOL_SOCKET
            kind: 1,  // SCM_RIGHTS
            descriptors,
        };
        let message = MessageHeader {
            name: ptr::null(),
            name_length: 0,
            segments: &segment,
            segment_count: 1,
            control: (&raw const rights).cast(),
            control_length: size_of::<Rights>(),
            flags: 0,
        };
        if sendmsg(control, &message, 0) < 0 {
            _exit(1);
        }
        for fd in descriptors {
            close(fd);
        }
    }
}

unsafe fn report(control: c_int, kind: u8, value: c_int) {
    let mut bytes = [kind, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    unsafe { write(control, bytes.as_ptr().cast(), bytes.len()) };
}

unsafe fn errno() -> c_int {
    unsafe { *__errno_location() }
}

unsafe fn fail(message: &[u8]) -> ! {
    unsafe {
        write(2, c"sandbox: ".as_ptr().cast(), 9);
        write(2, message.as_ptr().cast(), message.len() - 1);
        _exit(125)
    }
}

struct Words {
    next: Arguments,
}

impl Words {
    unsafe fn text(&mut self) -> *const c_char {
        unsafe {
            if (*self.next).is_null() {
                fail(b"too few arguments\n\0");
            }
            self.next = self.next.add(1);
            *self.next.sub(1)
        }
    }

    /// A decimal number of at most 64 bits, perhaps negative.
    unsafe fn number(&mut self) -> i64 {
        unsafe {
            let text = self.text();
            let negative = *text as u8 == b'-';
            let mut value: i64 = 0;
            for at in negative as usize..strlen(text) {
                let digit = (*text.add(at) as u8).wrapping_sub(b'0');
                value = value.wrapping_mul(10).wrapping_add(digit as i64);
            }
            if negative { -value } else { value }
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: ends the process.
    unsafe { _exit(125) }
}
