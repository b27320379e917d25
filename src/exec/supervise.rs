//! One run from start to end: starts the child, drains its output, measures, enforces every limit,
//! waits. All on the calling thread, which must live as long as the run: the kernel kills the
//! sandbox when that *thread* ends. Must never take the command's word for how it ended, and must
//! not return while a process of the run is alive.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cancel::Cancel;

use super::cgroup::{Group, Hierarchy};
use super::command::{Collected, Command, Ended, Limit, SandboxError, Status, Usage};
use super::spawn::{self, Message, Spawn, is_readable, reap, wait};
use super::stream::{Stream, pipe};
use super::tree;
use super::watch::{self, Disk, Processes};
use super::words::{init_words, is_host_trouble, outer_words, setup_failed};

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(200);
/// After SIGKILL, before bubblewrap itself is killed too.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_TICK: Duration = Duration::from_millis(4);

/// What every run on this machine shares.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) image: OwnedFd,
    pub(super) hierarchy: Option<Hierarchy>,
    /// The user and group that root becomes before anything else.
    pub(super) drop: Option<(u32, u32)>,
    /// Whether runs have a namespace of their own.
    pub(super) sandboxed: bool,
    /// Whether the kernel counts a user's processes for each namespace: see [`counts_apart`].
    pub(super) counts_apart: bool,
}

/// Runs `command` behind `wrapper`, the whole command line of bubblewrap up to its program, empty
/// without a sandbox.
pub(super) fn run(
    host: &Host,
    wrapper: Vec<OsString>,
    command: &Command,
    cancel: &Cancel,
) -> Result<Ended, SandboxError> {
    let trouble = |what: &str, error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong => {
            SandboxError::Setup(format!("{what}: {error}"))
        }
        _ => SandboxError::Transient(format!("{what}: {error}")),
    };
    let group = match &host.hierarchy {
        Some(hierarchy) => Some(
            hierarchy
                .create(&command.limits)
                .map_err(|error| trouble("control group", error))?,
        ),
        None => None,
    };
    let disk = Disk::new(
        command
            .binds
            .iter()
            .filter(|bind| bind.writable)
            .map(|bind| bind.host.clone())
            .collect(),
        command.limits.disk,
    );
    if cancel.is_killed() {
        return Err(SandboxError::Cancelled);
    }
    let mut run = Run::start(host, wrapper, command, group, disk)
        .map_err(|error| trouble("starting the sandbox", error))?;
    while !run.has_ended() {
        run.wait_for_news();
        run.listen();
        run.drain();
        run.enforce(cancel);
    }
    run.finish()
}

struct Run<'a> {
    host: &'a Host,
    command: &'a Command,
    start: Instant,
    pid: Pid,
    /// The child: bubblewrap, or the first process itself without a sandbox.
    child: OwnedFd,
    reaped: bool,
    control: Option<OwnedFd>,
    streams: [Stream; 3],
    inside: Option<Inside>,
    group: Option<Group>,
    disk: Option<Disk>,
    /// How the command ended, from the first process.
    report: Option<Message>,
    /// Why the run is being ended from outside.
    reason: Option<Reason>,
    stop: Stop,
    next_tick: Instant,
    tick: Duration,
    cpu: Duration,
}

/// What the first process of the sandbox handed over.
struct Inside {
    first: OwnedFd,
    processes: Processes,
    tmp: OwnedFd,
    shm: OwnedFd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Asked { until: Instant },
    Killed { until: Instant },
}

enum Reason {
    Cancelled,
    Limit(Limit),
    Trouble(String),
}

impl<'a> Run<'a> {
    fn start(
        host: &'a Host,
        wrapper: Vec<OsString>,
        command: &'a Command,
        group: Option<Group>,
        disk: Option<Disk>,
    ) -> io::Result<Run<'a>> {
        let limits = &command.limits;
        let input = spawn::input(command.stdin.as_deref())?;
        let (output, stdout) = pipe(host.drop, limits.output)?;
        let (errors, stderr) = pipe(host.drop, limits.output)?;
        let (mut results, results_end) = pipe(host.drop, limits.results)?;
        let (ours, theirs) = spawn::socket_pair()?;
        let theirs = spawn::raise(theirs)?;
        let doors = match &group {
            Some(group) => group
                .doors()?
                .into_iter()
                .map(spawn::raise)
                .collect::<io::Result<_>>()?,
            None => Vec::new(),
        };
        let mut kept = vec![&theirs];
        kept.extend(&doors);
        if command.results {
            kept.push(&results_end);
        } else {
            results.pipe = None;
        }

        let program = OsString::from(format!("/proc/self/fd/{}", host.image.as_raw_fd()));
        let mut argv = vec![program.clone()];
        argv.extend(outer_words(host, limits, command.fixed_addresses, &doors));
        argv.extend(wrapper);
        argv.push(program);
        argv.extend(init_words(
            host,
            command,
            &theirs,
            command.results.then_some(&results_end),
        ));
        let start = Instant::now();
        let pid = Spawn {
            standard: [&input, &stdout, &stderr],
            kept,
            image: &host.image,
            argv,
        }
        .start()?;
        // The child is not reaped before `has_ended`, so its number cannot be another's.
        let child = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(child) => child,
            Err(error) => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                reap(pid);
                return Err(error.into());
            }
        };
        Ok(Run {
            host,
            command,
            start,
            pid,
            child,
            reaped: false,
            control: Some(ours),
            streams: [output, errors, results],
            inside: None,
            group,
            disk,
            report: None,
            reason: None,
            stop: Stop::No,
            next_tick: start + FIRST_TICK,
            tick: FIRST_TICK,
            cpu: Duration::ZERO,
        })
    }

    fn has_ended(&self) -> bool {
        is_readable(self.child.as_fd(), Duration::ZERO)
    }

    /// Sleeps until the child ends, says or writes something, or something is due: at most one tick,
    /// so that a cancellation is seen soon.
    fn wait_for_news(&self) {
        let mut due = self.next_tick;
        match self.stop {
            Stop::No => due = due.min(self.start + self.command.limits.wall),
            Stop::Asked { until } | Stop::Killed { until } => due = due.min(until),
        }
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.child.as_fd()];
        fds.extend(self.control.as_ref().map(AsFd::as_fd));
        fds.extend(
            self.streams
                .iter()
                .filter_map(|stream| stream.pipe.as_ref())
                .map(AsFd::as_fd),
        );
        wait(&fds, due.saturating_duration_since(Instant::now()));
    }

    fn listen(&mut self) {
        while let Some(control) = &self.control {
            match spawn::receive(control) {
                Ok(None) => return,
                Ok(Some(Message::Closed)) => self.control = None,
                Ok(Some(Message::Hello([first, proc, tmp, shm]))) => {
                    let root = match self.host.sandboxed {
                        true => 1,
                        false => self.pid.as_raw_pid() as u32,
                    };
                    let processes = Processes::new(proc, root);
                    self.inside = Some(Inside {
                        first,
                        processes,
                        tmp,
                        shm,
                    });
                    if matches!(self.stop, Stop::Killed { .. }) {
                        self.kill();
                    }
                }
                Ok(Some(message)) => {
                    // The first report counts: after it the command has no more say.
                    if self.report.is_none() {
                        self.report = Some(message);
                    }
                    if !self.host.sandboxed {
                        self.kill();
                    }
                }
                Err(error) => {
                    self.control = None;
                    self.end(Reason::Trouble(format!("the sandbox's socket: {error}")));
                }
            }
        }
    }

    fn drain(&mut self) {
        let mut over = false;
        for stream in &mut self.streams {
            over |= stream.read();
        }
        if over {
            self.end(Reason::Limit(Limit::Output));
        }
    }

    fn enforce(&mut self, cancel: &Cancel) {
        let now = Instant::now();
        match self.stop {
            Stop::Asked { until } if now >= until => self.kill(),
            Stop::Killed { until } if now >= until => {
                // Its death takes the namespace along.
                let _ = pidfd_send_signal(&self.child, Signal::KILL);
                self.kill();
            }
            _ => {}
        }
        if self.reason.is_some() || self.report.is_some() {
            return;
        }
        if cancel.is_killed() {
            return self.end(Reason::Cancelled);
        }
        if now >= self.start + self.command.limits.wall {
            self.reason = Some(Reason::Limit(Limit::Wall));
            return self.ask();
        }
        if now < self.next_tick {
            return;
        }
        if let Some(limit) = self.exceeded() {
            return self.end(Reason::Limit(limit));
        }
        // Short commands are looked at early and often, long ones seldom.
        let most = if self.group.is_some() { 50 } else { 20 };
        self.tick = (self.tick * 2).min(Duration::from_millis(most));
        self.next_tick = Instant::now() + self.tick;
    }

    /// Measures; a limit that is passed.
    fn exceeded(&mut self) -> Option<Limit> {
        let inside = self.inside.as_ref()?;
        let limits = &self.command.limits;
        // Without a sandbox these are the host's own, and say nothing about the run.
        let (tmp, shm) = match self.host.sandboxed {
            true => (watch::fill(&inside.tmp), watch::fill(&inside.shm)),
            false => Default::default(),
        };
        let mut cpu = None;
        if let Some(group) = &self.group {
            if group.out_of_memory() {
                return Some(Limit::Memory);
            }
            if group.out_of_processes() {
                return Some(Limit::Processes);
            }
            cpu = group.cpu();
        } else {
            let sample = inside.processes.sample();
            if sample.tasks > limits.processes {
                return Some(Limit::Processes);
            }
            let files = tmp.0 + shm.0;
            if sample.rss + files > limits.memory
                && inside.processes.proportional(&sample) + files > limits.memory
            {
                return Some(Limit::Memory);
            }
            cpu = cpu.or(Some(sample.cpu));
        }
        let cpu = cpu.unwrap_or_else(|| inside.processes.sample().cpu);
        self.cpu = self.cpu.max(cpu);
        if self.cpu > limits.cpu {
            return Some(Limit::Cpu);
        }
        if tmp.1 || shm.1 {
            return Some(Limit::Disk);
        }
        let over = self
            .disk
            .as_mut()
            .and_then(|disk| disk.check(&inside.processes));
        (over == Some(true)).then_some(Limit::Disk)
    }

    fn end(&mut self, reason: Reason) {
        if self.reason.is_none() {
            self.reason = Some(reason);
            self.kill();
        }
    }

    fn ask(&mut self) {
        match &self.inside {
            Some(inside) => {
                let _ = pidfd_send_signal(&inside.first, Signal::TERM);
                self.stop = Stop::Asked {
                    until: Instant::now() + GRACE,
                };
            }
            None => self.kill(),
        }
    }

    /// Kills the first process, with which the kernel ends its whole namespace. Bubblewrap sees it
    /// and ends by itself.
    fn kill(&mut self) {
        self.stop = Stop::Killed {
            until: Instant::now() + PATIENCE,
        };
        // Nothing of the command runs before the greeting, and bubblewrap killed while it starts can
        // leave a child behind: `listen` kills as soon as there is something to kill.
        let Some(inside) = &self.inside else { return };
        if !self.host.sandboxed {
            // The first process adopts orphans; it goes last, so that none escapes.
            for _ in 0..200 {
                if inside.processes.kill(Signal::KILL) == 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = pidfd_send_signal(&inside.first, Signal::KILL);
    }

    fn finish(mut self) -> Result<Ended, SandboxError> {
        let wall = self.start.elapsed();
        let (cpu, max_rss) = reap(self.pid);
        self.reaped = true;
        self.listen();
        if let Some(inside) = &self.inside {
            // When bubblewrap was killed from outside, its namespace may end a moment later.
            while !is_readable(inside.first.as_fd(), Duration::from_secs(1)) {
                let _ = pidfd_send_signal(&inside.first, Signal::KILL);
            }
        }
        self.drain();
        let status = self.status(cpu)?;
        let collected = self.collect()?;
        let cpu = cpu.max(self.cpu);
        let [stdout, stderr, results] = &mut self.streams;
        let [stdout, stderr, results] =
            [stdout, stderr, results].map(|s| std::mem::take(&mut s.bytes));
        let usage = Usage { cpu, wall, max_rss };
        Ok(Ended {
            status,
            stdout,
            stderr,
            results,
            collected,
            usage,
        })
    }

    fn status(&mut self, cpu: Duration) -> Result<Status, SandboxError> {
        if let Some(used) = self.group.as_ref().and_then(Group::cpu) {
            self.cpu = self.cpu.max(used);
        }
        match &self.reason {
            Some(Reason::Cancelled) => return Err(SandboxError::Cancelled),
            Some(Reason::Trouble(what)) => return Err(SandboxError::Transient(what.clone())),
            Some(Reason::Limit(limit)) => return Ok(Status::Limit(*limit)),
            None => {}
        }
        if self.group.as_ref().is_some_and(Group::out_of_memory) {
            return Ok(Status::Limit(Limit::Memory));
        }
        match self.report {
            Some(Message::Ended(status)) => Ok(self.judge(status, cpu.max(self.cpu))),
            Some(Message::Failed(b'X', error)) if !is_host_trouble(error) => {
                Ok(Status::NotStarted(error))
            }
            Some(Message::Failed(b'C', error)) if !is_host_trouble(error) => {
                let reason = io::Error::from_raw_os_error(error);
                let cwd = self.command.cwd.display();
                Err(SandboxError::Setup(format!(
                    "working directory {cwd}: {reason}"
                )))
            }
            Some(Message::Failed(_, error)) => {
                let reason = io::Error::from_raw_os_error(error);
                Err(SandboxError::Transient(format!(
                    "starting the command: {reason}"
                )))
            }
            _ if self.inside.is_some() => Err(SandboxError::Transient(
                "the sandbox's first process was killed from outside".into(),
            )),
            _ => Err(setup_failed(&self.streams[1].bytes)),
        }
    }

    fn judge(&self, status: i32, cpu: Duration) -> Status {
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        let full = self.host.sandboxed
            && self
                .inside
                .as_ref()
                .is_some_and(|inside| watch::fill(&inside.tmp).1 || watch::fill(&inside.shm).1);
        if self.group.as_ref().is_some_and(Group::out_of_processes) {
            Status::Limit(Limit::Processes)
        } else if cpu > self.command.limits.cpu || signal == Some(libc::SIGXCPU) {
            Status::Limit(Limit::Cpu)
        } else if signal == Some(libc::SIGXFSZ)
            || full
            || self.disk.as_ref().is_some_and(|disk| disk.is_over(0))
        {
            Status::Limit(Limit::Disk)
        } else {
            signal.map_or(Status::Exited(libc::WEXITSTATUS(status)), Status::Signaled)
        }
    }

    fn collect(&self) -> Result<Vec<Collected>, SandboxError> {
        let mut all = Vec::new();
        for prefix in &self.command.collect {
            let Some(inside) = &self.inside else { break };
            let name = prefix.file_name().unwrap_or_default();
            let limit = self.command.limits.scratch;
            let found = tree::collect(&inside.tmp, Path::new("/tmp"), name, limit);
            all.extend(found.map_err(|error| {
                SandboxError::Transient(format!("collecting from /tmp: {error}"))
            })?);
        }
        Ok(all)
    }
}

impl Drop for Run<'_> {
    /// A panic must not leave a process either.
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            let _ = pidfd_send_signal(&self.child, Signal::KILL);
            reap(self.pid);
        }
    }
}
