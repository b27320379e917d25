//! What to run in a sandbox, within which limits, and how it ended. Plain data: nothing here starts
//! a process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A program to run in a [`Sandbox`](super::Sandbox). Start from [`Command::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment of the program.
    pub env: BTreeMap<OsString, OsString>,
    /// The working directory, as seen inside.
    pub cwd: PathBuf,
    /// What the program sees beside the system; a later entry lies over an earlier one.
    pub binds: Vec<Bind>,
    /// What the program may use.
    pub limits: Limits,
    /// What the program reads on standard input; `None` is an empty input.
    pub stdin: Option<Vec<u8>>,
    /// Turn off the randomisation of addresses, so that a faulty program fails the same way twice.
    pub fixed_addresses: bool,
    /// Open descriptor 9 for writing: a channel beside stdout and stderr, for [`Ended::results`].
    pub results: bool,
    /// Give back the files of the private `/tmp` whose path begins with one of these: `/tmp/NAME`,
    /// no deeper.
    pub collect: Vec<PathBuf>,
    /// Empty folders to make in the private `/tmp`: `/tmp/NAME`. Only in a sandbox.
    pub folders: Vec<PathBuf>,
}

impl Command {
    /// A command with the fixed default environment, in `/tmp`, with [`Limits::default`].
    pub fn new<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Command {
        let env = [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/tmp"),
            ("TZ", "UTC"),
        ];
        Command {
            argv: argv.into_iter().map(Into::into).collect(),
            env: env
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: PathBuf::from("/tmp"),
            binds: Vec::new(),
            limits: Limits::default(),
            stdin: None,
            fixed_addresses: false,
            results: false,
            collect: Vec::new(),
            folders: Vec::new(),
        }
    }
}

/// A file or directory of the host, shown inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Where it lies. The sandbox's user must be able to reach it.
    pub host: PathBuf,
    /// Where the program sees it: an absolute path, in no read-only part of the system.
    pub inside: PathBuf,
    /// Whether the program may write it; see [`Sandbox::scratch_dir`](super::Sandbox::scratch_dir).
    pub writable: bool,
}

/// What one run may use. All hold for the whole tree of processes unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processor time, user and system.
    pub cpu: Duration,
    /// Time on the clock: SIGTERM when it is over, SIGKILL 200 ms later.
    pub wall: Duration,
    /// Bytes of memory, the private file systems included.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u32,
    /// Bytes of stdout, and as many of stderr.
    pub output: u64,
    /// Bytes on descriptor 9.
    pub results: u64,
    /// Bytes of the largest file.
    pub file_size: u64,
    /// Bytes of the private `/tmp`, and of all that is collected from it for one prefix.
    pub scratch: u64,
    /// Bytes by which all writable binds together may grow, each file counted in whole blocks.
    pub disk: u64,
    /// Bytes of the main thread's stack.
    pub stack: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        const MIB: u64 = 1 << 20;
        Limits {
            cpu: Duration::from_secs(60),
            wall: Duration::from_secs(300),
            memory: 2048 * MIB,
            processes: 128,
            output: 8 * MIB,
            results: 8 * MIB,
            file_size: 512 * MIB,
            scratch: 256 * MIB,
            disk: 1024 * MIB,
            stack: 8 * MIB,
        }
    }
}

/// How a run ended, with all that it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the command ended.
    pub status: Status,
    /// At most `limits.output` bytes.
    pub stdout: Vec<u8>,
    /// At most `limits.output` bytes.
    pub stderr: Vec<u8>,
    /// What was written on descriptor 9: at most `limits.results` bytes.
    pub results: Vec<u8>,
    /// The files asked for by [`Command::collect`], by prefix and then by name.
    pub collected: Vec<Collected>,
    /// What the run used.
    pub usage: Usage,
}

/// An entry of the private `/tmp` that was asked for. Written by the program: not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Its path inside.
    pub path: PathBuf,
    /// What it held, or why that is not given.
    pub content: Result<Vec<u8>, String>,
}

/// How the command ended, as told by the kernel to the first process of the sandbox, which the
/// command can neither kill, trace nor write for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It ended with this exit code, from 0 to 255.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It used up a limit, and everything was killed.
    Limit(Limit),
    /// It could not be executed: the error number of `execve` (2 no such file, 8 no program, ...).
    NotStarted(i32),
}

/// A limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Processor time.
    Cpu,
    /// Time on the clock. On a busy machine this can happen to an honest program: try once alone.
    Wall,
    /// Memory.
    Memory,
    /// Number of processes and threads.
    Processes,
    /// stdout, stderr or results.
    Output,
    /// A file too large, the private file systems full, or the writable binds grown too much.
    Disk,
}

/// What a run used, the sandbox's own start included (about 3 ms of processor time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all processes, user and system.
    pub cpu: Duration,
    /// Time on the clock.
    pub wall: Duration,
    /// Bytes of memory of the largest process.
    pub max_rss: u64,
}

/// Why there is no result. None of these says anything about the command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// [`Cancel::kill`](crate::cancel::Cancel::kill) was called; everything was killed.
    #[error("cancelled")]
    Cancelled,
    /// The host's trouble: the same run may succeed later.
    #[error("the run failed for a reason of this machine, try again: {0}")]
    Transient(String),
    /// The command cannot be set up as described.
    #[error("cannot set up the run: {0}")]
    Setup(String),
}
