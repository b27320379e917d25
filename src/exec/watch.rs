//! Measures a run from outside through descriptors that the sandbox's first process handed over:
//! the processes of the sandbox from its own `/proc`, and the fill of its private file systems.
//! Stands in for control groups where none can be made; then it sees a peak only if it lasts for
//! 20 ms, and not memory that no process maps (an unmapped memory file). Must never trust the text
//! in a process's name.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstatvfs, openat, stat, statat};
use rustix::io::Errno;

use super::tree;

/// Between two looks at the writable binds.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// What the processes of a run use at one moment.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Processes and threads, without the sandbox's own.
    pub(super) tasks: u32,
    /// Resident bytes; pages shared by several processes count for each.
    pub(super) rss: u64,
    /// Processor time of the living and of the reaped.
    pub(super) cpu: Duration,
    /// The living processes, without the sandbox's own.
    pub(super) processes: Vec<u32>,
}

/// The processes of one run.
#[derive(Debug)]
pub(super) struct Processes {
    proc: OwnedFd,
    /// The process at the root of the tree, as numbered in `proc`.
    root: u32,
}

struct Stat {
    parent: u32,
    ticks: u64,
    threads: u32,
    pages: u64,
    zombie: bool,
}

impl Processes {
    pub(super) fn new(proc: OwnedFd, root: u32) -> Processes {
        Processes { proc, root }
    }

    pub(super) fn sample(&self) -> Sample {
        let mut all = HashMap::new();
        for name in tree::names(&self.proc).unwrap_or_default() {
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process may end between the list and the read.
            if let Some(stat) = self
                .read(pid, "stat")
                .ok()
                .and_then(|line| parse_stat(&line))
            {
                all.insert(pid, stat);
            }
        }
        // SAFETY: plain queries.
        let (per_second, page) = unsafe {
            (
                libc::sysconf(libc::_SC_CLK_TCK),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        let mut sample = Sample::default();
        let mut ticks = 0;
        for (&pid, stat) in &all {
            if pid == self.root {
                ticks += stat.ticks;
            } else if self.is_below(pid, &all) {
                ticks += stat.ticks;
                sample.rss += stat.pages * page.max(1) as u64;
                sample.tasks += if stat.zombie { 1 } else { stat.threads };
                if !stat.zombie {
                    sample.processes.push(pid);
                }
            }
        }
        sample.cpu = Duration::from_secs_f64(ticks as f64 / per_second.max(1) as f64);
        sample
    }

    fn is_below(&self, pid: u32, all: &HashMap<u32, Stat>) -> bool {
        if self.root == 1 {
            return true;
        }
        let (mut at, mut steps) = (pid, 0);
        while let Some(stat) = all.get(&at)
            && steps <= all.len()
        {
            if stat.parent == self.root {
                return true;
            }
            at = stat.parent;
            steps += 1;
        }
        false
    }

    /// Resident bytes with shared pages counted once. Slower; `rss` where it may not be read.
    pub(super) fn proportional(&self, sample: &Sample) -> u64 {
        let parts = sample.processes.iter().map(|&pid| {
            match self.read(pid, "smaps_rollup") {
                Ok(text) => {
                    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
                    let number = line.and_then(|line| line.split_whitespace().next());
                    // A process that is just ending has no memory and no such line.
                    Some(
                        number
                            .and_then(|number| number.parse::<u64>().ok())
                            .unwrap_or(0),
                    )
                }
                Err(Errno::NOENT | Errno::SRCH) => Some(0),
                Err(_) => None,
            }
        });
        let parts: Option<Vec<u64>> = parts.collect();
        parts.map_or(sample.rss, |parts| parts.iter().sum::<u64>() << 10)
    }

    /// Bytes of files on `devices` that a process holds open but has deleted, which no walk of a
    /// folder meets.
    fn deleted(&self, processes: &[u32], devices: &HashSet<u64>) -> u64 {
        let mut seen = HashSet::new();
        let mut total: u64 = 0;
        for pid in processes {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(folder) = openat(&self.proc, format!("{pid}/fd"), flags, Mode::empty()) else {
                continue;
            };
            for name in tree::names(&folder).unwrap_or_default() {
                // Following is meant here: these links lead to the open file itself.
                if let Ok(found) = statat(&folder, name, AtFlags::empty())
                    && found.st_nlink == 0
                    && devices.contains(&found.st_dev)
                    && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
                    && seen.insert((found.st_dev, found.st_ino))
                {
                    total = total.saturating_add(tree::size(&found));
                }
            }
        }
        total
    }

    /// Sends `signal` to every process of the run but the root. For runs without a namespace.
    pub(super) fn kill(&self, signal: rustix::process::Signal) -> usize {
        let processes = self.sample().processes;
        for &pid in &processes {
            if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        processes.len()
    }

    fn read(&self, pid: u32, file: &str) -> Result<String, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.proc, format!("{pid}/{file}"), flags, Mode::empty())?;
        let mut bytes = vec![0; 4096];
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::io::read(&file, &mut bytes[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(String::from_utf8_lossy(&bytes[..filled]).into_owned())
    }
}

/// One line of `/proc/PID/stat`. The name in it may hold anything, also spaces and parentheses.
fn parse_stat(line: &str) -> Option<Stat> {
    let fields: Vec<&str> = line
        .get(line.rfind(')')? + 1..)?
        .split_whitespace()
        .collect();
    // Counted from 3 in proc(5): fields[0] is the state.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: number(4)? as u32,
        ticks: number(14)? + number(15)? + number(16)? + number(17)?,
        threads: number(20)? as u32,
        pages: number(24)?,
        zombie: matches!(fields[0], "Z" | "X"),
    })
}

/// Bytes used in a private file system (entries counted with what the kernel needs for them), and
/// whether it is full.
pub(super) fn fill(mount: &OwnedFd) -> (u64, bool) {
    match fstatvfs(mount) {
        Ok(found) => {
            let used = found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize;
            let entries = found.f_files.saturating_sub(found.f_ffree);
            (
                used + entries * 1024,
                found.f_blocks > 0 && found.f_bavail == 0,
            )
        }
        Err(_) => (0, false),
    }
}

/// Watches how much the writable binds of a run grow.
#[derive(Debug)]
pub(super) struct Disk {
    paths: Vec<PathBuf>,
    devices: HashSet<u64>,
    before: u64,
    limit: u64,
    next: Instant,
}

impl Disk {
    /// `None` when nothing is writable.
    pub(super) fn new(paths: Vec<PathBuf>, limit: u64) -> Option<Disk> {
        if paths.is_empty() {
            return None;
        }
        let devices = paths
            .iter()
            .filter_map(|path| Some(stat(path).ok()?.st_dev))
            .collect();
        let mut disk = Disk {
            paths,
            devices,
            before: 0,
            limit,
            next: Instant::now(),
        };
        disk.before = disk.now(u64::MAX);
        Some(disk)
    }

    /// Whether the limit is passed, or `None` when it is not yet time to look again.
    pub(super) fn check(&mut self, processes: &Processes) -> Option<bool> {
        let start = Instant::now();
        if start < self.next {
            return None;
        }
        let deleted = processes.deleted(&processes.sample().processes, &self.devices);
        let over = self.is_over(deleted);
        // About a tenth of the time at most, but never so seldom that a program can write much more
        // than the limit between two looks.
        let pause = (start.elapsed() * 10).clamp(FIRST_LOOK, LAST_LOOK);
        self.next = Instant::now() + pause;
        Some(over)
    }

    /// Whether the limit is passed, with `deleted` bytes in files that have no name any more.
    pub(super) fn is_over(&self, deleted: u64) -> bool {
        let most = self.before.saturating_add(self.limit);
        self.now(most).saturating_add(deleted) > most
    }

    /// Stops counting above `enough`.
    fn now(&self, enough: u64) -> u64 {
        self.paths.iter().fold(0, |total: u64, path| {
            // Too deep to count is more than any limit.
            let more = tree::measure(path, enough.saturating_sub(total)).unwrap_or(u64::MAX);
            total.saturating_add(more)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pose_as_fields() {
        let fields = "S 41 1 1 0 -1 4194304 9 0 0 0 5 6 7 8 20 0 3 0 100 4096 77 0";
        for name in ["sh", "a) R 1 1 (b", ") (", "))", "\n 1 (x)"] {
            let stat = parse_stat(&format!("42 ({name}) {fields}")).expect("understood");
            assert_eq!(
                (stat.parent, stat.ticks, stat.threads, stat.pages),
                (41, 26, 3, 77)
            );
        }
        assert!(parse_stat("42 (sh").is_none() && parse_stat("42 (sh) S 1").is_none());
    }

    #[test]
    fn a_process_that_shares_nothing_with_the_root_is_not_of_the_run() {
        let proc = std::fs::File::open("/proc").expect("/proc");
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & wait"])
            .spawn()
            .expect("sh");
        let processes = Processes::new(proc.into(), std::process::id());
        let below = |root: u32| {
            let proc = std::fs::File::open("/proc").expect("/proc");
            Processes::new(proc.into(), root).sample().processes
        };
        while below(child.id()).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let grandchildren = below(child.id());
        let all = processes.sample();
        assert!(all.processes.contains(&child.id()));
        assert!(grandchildren.iter().all(|pid| all.processes.contains(pid)));
        assert!(!all.processes.contains(&std::process::id()) && !all.processes.contains(&1));
        // Shared pages count once. Only of a moment in which nothing grew can both be asked.
        let proc = std::fs::File::open("/proc").expect("/proc");
        let own = Processes::new(proc.into(), child.id());
        let (rss, proportional) = loop {
            let before = own.sample();
            let proportional = own.proportional(&before);
            if own.sample().rss == before.rss {
                break (before.rss, proportional);
            }
        };
        assert!(proportional <= rss && rss > 0, "{proportional} of {rss}");

        own.kill(rustix::process::Signal::KILL);
        child.wait().expect("reaped");
        assert_eq!(below(child.id()), Vec::<u32>::new());
    }
}
