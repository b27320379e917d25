//! Control groups, version 1 or 2: the kernel's own count and bound of memory, processes and
//! processor time of one run. A group is made below the caller's own (version 1) or beside it
//! (version 2, whose groups with processes have no children), so that limits set on the caller
//! still hold. Must never change a group that it did not make.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::command::Limits;

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// One folder for each controller; without `cpuacct` time is read elsewhere.
    V1 {
        memory: PathBuf,
        pids: PathBuf,
        cpuacct: Option<PathBuf>,
    },
    /// One folder, which offers memory and pids to its children.
    V2 { parent: PathBuf },
}

/// The groups of one run. Dropping removes them; every process must have ended.
#[derive(Debug)]
pub(super) struct Group {
    memory: PathBuf,
    pids: PathBuf,
    cpu: Option<PathBuf>,
    unified: bool,
}

static COUNT: AtomicU64 = AtomicU64::new(0);
const PREFIX: &str = "everbench-";
/// bubblewrap and the sandbox's first process.
const OWN_PROCESSES: u32 = 2;

impl Hierarchy {
    /// Finds a place and proves it by making a group with limits.
    ///
    /// # Errors
    /// Why there is none, for a person to read.
    pub(super) fn discover() -> Result<Hierarchy, String> {
        let read = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let mounts = read("/proc/self/mountinfo")?;
        let groups = read("/proc/self/cgroup")?;
        let candidates = candidates(&mounts, &groups);
        let mut reasons = Vec::new();
        for candidate in candidates {
            candidate.sweep();
            match candidate.create(&Limits::default()) {
                Ok(_) => return Ok(candidate),
                Err(error) => reasons.push(format!("{}: {error}", candidate.place().display())),
            }
        }
        if reasons.is_empty() {
            reasons.push("no hierarchy with memory and pids is mounted".into());
        }
        Err(reasons.join("; "))
    }

    /// 1 or 2.
    pub(super) fn version(&self) -> u8 {
        match self {
            Hierarchy::V1 { .. } => 1,
            Hierarchy::V2 { .. } => 2,
        }
    }

    fn place(&self) -> &Path {
        match self {
            Hierarchy::V1 { memory, .. } => memory,
            Hierarchy::V2 { parent } => parent,
        }
    }

    fn folders(&self) -> Vec<&Path> {
        match self {
            Hierarchy::V1 {
                memory,
                pids,
                cpuacct,
            } => {
                let mut all = vec![memory.as_path(), pids];
                all.extend(cpuacct.as_deref());
                all.dedup();
                all
            }
            Hierarchy::V2 { parent } => vec![parent],
        }
    }

    /// Removes groups of runs whose program was killed before it could. A group in use stays: the
    /// kernel refuses.
    fn sweep(&self) {
        for folder in self.folders() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
                if let Some((pid, _)) = owner
                    && !Path::new("/proc").join(pid).exists()
                {
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// Makes the groups of one run.
    ///
    /// # Errors
    /// What the kernel refused; nothing is left then.
    pub(super) fn create(&self, limits: &Limits) -> io::Result<Group> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let group = match self {
            Hierarchy::V1 {
                memory,
                pids,
                cpuacct,
            } => Group {
                memory: memory.join(&name),
                pids: pids.join(&name),
                cpu: cpuacct.as_ref().map(|folder| folder.join(&name)),
                unified: false,
            },
            Hierarchy::V2 { parent } => {
                let folder = parent.join(&name);
                Group {
                    memory: folder.clone(),
                    pids: folder.clone(),
                    cpu: Some(folder),
                    unified: true,
                }
            }
        };
        // From here on a failure drops `group`, which removes what was made.
        for folder in group.folders() {
            fs::create_dir(folder).map_err(|error| named(folder, error))?;
        }
        let memory = limits.memory.to_string();
        let processes = limits.processes.saturating_add(OWN_PROCESSES).to_string();
        if group.unified {
            set(&group.memory.join("memory.max"), &memory)?;
            set_if_there(&group.memory.join("memory.swap.max"), "0")?;
            set_if_there(&group.memory.join("memory.oom.group"), "1")?;
        } else {
            set(&group.memory.join("memory.limit_in_bytes"), &memory)?;
            set_if_there(&group.memory.join("memory.memsw.limit_in_bytes"), &memory)?;
        }
        set(&group.pids.join("pids.max"), &processes)?;
        Ok(group)
    }
}

impl Group {
    /// Files through which a process joins by writing `0`.
    pub(super) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |folder: &Path| {
            let path = folder.join("cgroup.procs");
            let file = OpenOptions::new().write(true).open(&path);
            Ok(OwnedFd::from(file.map_err(|error| named(&path, error))?))
        };
        self.folders().into_iter().map(open).collect()
    }

    /// Processor time of all that ever ran in the group.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let folder = self.cpu.as_ref()?;
        if self.unified {
            let micros = field(&folder.join("cpu.stat"), "usage_usec")?;
            return Some(Duration::from_micros(micros));
        }
        let text = fs::read_to_string(folder.join("cpuacct.usage")).ok()?;
        Some(Duration::from_nanos(text.trim().parse().ok()?))
    }

    /// Whether the kernel killed a process of the group for its memory.
    pub(super) fn out_of_memory(&self) -> bool {
        let file = if self.unified {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        field(&self.memory.join(file), "oom_kill").is_some_and(|count| count > 0)
    }

    /// Whether a process or thread was refused.
    pub(super) fn out_of_processes(&self) -> bool {
        field(&self.pids.join("pids.events"), "max").is_some_and(|count| count > 0)
    }

    fn folders(&self) -> Vec<&Path> {
        let mut all = vec![self.memory.as_path()];
        for folder in [Some(&self.pids), self.cpu.as_ref()].into_iter().flatten() {
            if !all.contains(&folder.as_path()) {
                all.push(folder);
            }
        }
        all
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in self.folders() {
            // The kernel may need a moment to let go of a process that has been reaped.
            for pause in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256] {
                std::thread::sleep(Duration::from_millis(pause));
                match fs::remove_dir(folder) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                    _ => break,
                }
            }
        }
    }
}

/// Places to try, best first, from the text of `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn candidates(mounts: &str, groups: &str) -> Vec<Hierarchy> {
    let own = |controller: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            names
                .split(',')
                .any(|name| name == controller)
                .then(|| path.to_owned())
        })
    };
    let place = |kind: &str, controller: &str| {
        let path = own(controller)?;
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (root, point) = (*left.get(3)?, *left.get(4)?);
            let here = *right.first()? == kind
                && (controller.is_empty()
                    || right.last()?.split(',').any(|option| option == controller));
            if !here {
                return None;
            }
            // A mount shows the tree from `root` on; the own group may lie outside of it.
            let below = if root == "/" {
                path.as_str()
            } else {
                path.strip_prefix(root)?
            };
            let below = below.trim_start_matches('/');
            (!below.split('/').any(|part| part == ".."))
                .then(|| Path::new(&point.replace("\\040", " ")).join(below))
        })
    };
    let mut all = Vec::new();
    if let Some(folder) = place("cgroup2", "") {
        let beside = folder.parent().map(Path::to_path_buf);
        all.push(Hierarchy::V2 { parent: folder });
        all.extend(beside.map(|parent| Hierarchy::V2 { parent }));
    }
    if let (Some(memory), Some(pids)) = (place("cgroup", "memory"), place("cgroup", "pids")) {
        all.push(Hierarchy::V1 {
            memory,
            pids,
            cpuacct: place("cgroup", "cpuacct"),
        });
    }
    all.retain(|candidate| match candidate {
        Hierarchy::V1 { .. } => true,
        Hierarchy::V2 { parent } => {
            let offered = fs::read_to_string(parent.join("cgroup.subtree_control"));
            let offered = offered.unwrap_or_default();
            let has = |name| offered.split_whitespace().any(|word| word == name);
            has("memory") && has("pids")
        }
    });
    all
}

/// The number after `name` in a file of lines `name number`.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn set(path: &Path, value: &str) -> io::Result<()> {
    // Not `fs::write`: a file of the kernel's is never to be created.
    let write = |mut file: File| io::Write::write_all(&mut file, value.as_bytes());
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(write)
        .map_err(|error| named(path, error))
}

fn set_if_there(path: &Path, value: &str) -> io::Result<()> {
    if path.exists() {
        set(path, value)
    } else {
        Ok(())
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_a_hybrid_layout() {
        let mounts = "\
25 24 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
26 24 0:23 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
27 24 0:24 /jobs /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
28 24 0:25 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
";
        let groups = "9:memory:/jobs/7\n8:pids:/jobs/7\n2:cpu,cpuacct:/\n0::/\n";
        let root = Path::new("/sys/fs/cgroup");
        assert_eq!(
            candidates(mounts, groups),
            [Hierarchy::V1 {
                memory: root.join("memory/jobs/7"),
                pids: root.join("pids/7"),
                cpuacct: Some(root.join("cpu,cpuacct")),
            }]
        );
    }

    #[test]
    fn version_2_takes_the_nearest_folder_that_offers_both_controllers() {
        let top = tempfile::tempdir().expect("a temporary folder");
        let slice = top.path().join("user.slice/app.slice");
        fs::create_dir_all(slice.join("run.scope")).expect("folders");
        fs::write(slice.join("run.scope/cgroup.subtree_control"), "").expect("a file");
        fs::write(slice.join("cgroup.subtree_control"), "cpu memory pids\n").expect("a file");
        let mounts = format!(
            "25 24 0:22 / {} rw - cgroup2 cgroup2 rw\n",
            top.path().display()
        );
        let found = candidates(&mounts, "0::/user.slice/app.slice/run.scope\n");
        assert_eq!(
            found,
            [Hierarchy::V2 {
                parent: slice.clone()
            }]
        );

        fs::write(slice.join("cgroup.subtree_control"), "cpu pids\n").expect("a file");
        assert_eq!(
            candidates(&mounts, "0::/user.slice/app.slice/run.scope\n"),
            []
        );
        assert_eq!(candidates(&mounts, "0::/../elsewhere\n"), []);
    }
}
