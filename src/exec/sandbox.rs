//! The sandbox: what a program inside can see and touch. Root becomes nobody *before* bubblewrap
//! starts; the host's root folder is never bound; the system is read-only, the network empty, /tmp
//! private. Must never run a command less confined than the probe was.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::cancel::Cancel;

use super::cgroup::Hierarchy;
use super::command::{Bind, Command, Ended, SandboxError, Status};
use super::supervise::{self, Host};
use super::{spawn, tree, words};

/// The user and group of nobody, also inside.
const NOBODY: (u32, u32) = (65534, 65534);
/// Since this version bubblewrap can bound a tmpfs.
const OLDEST: (u32, u32) = (0, 7);
/// Since this version it can forbid user namespaces inside.
const NO_NESTING: (u32, u32) = (0, 8);
/// The largest file that a command may be allowed to write; a smaller limit of the caller's would
/// take the place of the command's own.
const LEAST_FILE_SIZE: u64 = 1 << 30;
/// The parts of `/etc` that compilers and the dynamic linker need.
const ETC: [&str; 4] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
];

/// Whether a run without a sandbox is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No sandbox, no run.
    Required,
    /// Everything runs as the caller, with its rights and its files. Limits hold for honest programs
    /// only; a bind must have the same path inside as on the host. No command offers it: a subject
    /// is built and tested at a fixed path, which only a sandbox can give.
    UnsafeNone,
}

/// How memory, processes and processor time of a run are bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metering {
    /// Control groups where they can be made, else the watcher.
    Automatic,
    /// Control groups of this version, 1 or 2: the kernel enforces.
    Groups(u8),
    /// A look at all processes every 20 ms, and why. Memory that no process maps is not seen.
    Watcher(String),
}

/// Runs commands that are not trusted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    /// The part of bubblewrap's command line that is the same for all; empty without a sandbox.
    system: Vec<OsString>,
    features: Features,
}

/// What the probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Path and version of bubblewrap; `None`: no sandbox, by the user's wish.
    pub bubblewrap: Option<(PathBuf, String)>,
    /// Whether root becomes nobody first.
    pub drops_to_nobody: bool,
    /// Whether programs inside are kept from making user namespaces of their own.
    pub no_nested_namespaces: bool,
    /// How a run is bounded.
    pub metering: Metering,
}

/// Why there is no sandbox, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSandbox {
    /// The program is missing.
    #[error(
        "bubblewrap is not installed (no bwrap in {0}): install it, for example with `apt-get \
         install bubblewrap`"
    )]
    Missing(String),
    /// The program is too old.
    #[error("bubblewrap at {path} is version {found:?}, but 0.7 or newer is needed: update it")]
    TooOld {
        /// Where it lies.
        path: PathBuf,
        /// What it says about itself.
        found: String,
    },
    /// It does not start here.
    #[error("bubblewrap does not work on this machine: {reason}. {hint}")]
    Refused {
        /// Its own words.
        reason: String,
        /// What usually helps.
        hint: String,
    },
    /// It starts but does not confine.
    #[error("the sandbox does not confine: {0}. Do not run anything here; please report this")]
    Leaks(String),
    /// This machine lacks something else.
    #[error("no sandbox: {0}")]
    Machine(String),
}

impl Sandbox {
    /// Finds out what this machine can do and proves it by a run.
    ///
    /// # Errors
    /// What is missing and what to do about it.
    pub fn probe(policy: Policy) -> Result<Sandbox, NoSandbox> {
        Sandbox::probe_with(policy, Metering::Automatic)
    }

    /// As [`probe`](Sandbox::probe), with the way of metering given: control groups that must be
    /// there, or the watcher although there may be groups.
    ///
    /// # Errors
    /// As [`probe`](Sandbox::probe).
    pub fn probe_with(policy: Policy, metering: Metering) -> Result<Sandbox, NoSandbox> {
        let machine = |what: &str, error: io::Error| NoSandbox::Machine(format!("{what}: {error}"));
        let most = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if let Some(most) = most.filter(|most| *most < LEAST_FILE_SIZE) {
            return Err(NoSandbox::Machine(format!(
                "files may have at most {most} bytes in this shell (`ulimit -f`), which would fail \
                 builds that are right: raise the limit to {LEAST_FILE_SIZE} bytes or more"
            )));
        }
        let image = spawn::image().map_err(|error| machine("memory files", error))?;
        let (hierarchy, metering) = meter(metering)?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let counts_apart = words::counts_apart(&release);
        let host = Host {
            image,
            hierarchy,
            drop: None,
            sandboxed: false,
            counts_apart,
        };
        if policy == Policy::UnsafeNone {
            let features = Features {
                bubblewrap: None,
                drops_to_nobody: false,
                no_nested_namespaces: false,
                metering,
            };
            return Ok(Sandbox(Arc::new(Inner {
                host,
                system: Vec::new(),
                features,
            })));
        }
        let (path, version) = find()?;
        let root = rustix::process::geteuid().is_root();
        let host = Host {
            drop: root.then_some(NOBODY),
            sandboxed: true,
            ..host
        };
        let features = Features {
            drops_to_nobody: root,
            no_nested_namespaces: number(&version) >= Some(NO_NESTING),
            metering,
            bubblewrap: Some((path.clone(), version)),
        };
        let system = system(&path, features.no_nested_namespaces);
        let sandbox = Sandbox(Arc::new(Inner {
            host,
            system,
            features,
        }));
        sandbox.prove()?;
        Ok(sandbox)
    }

    /// What the probe found.
    pub fn describe(&self) -> Features {
        self.0.features.clone()
    }

    /// Runs `command` and waits, at most until `cancel` is killed. When this returns, no process of the run is alive. The calling
    /// thread must not end before.
    ///
    /// # Errors
    /// [`SandboxError`]; none of its cases says anything about the command itself.
    pub fn run(&self, command: &Command, cancel: &Cancel) -> Result<Ended, SandboxError> {
        words::validate(command)?;
        let wrapper = self.wrapper(command)?;
        supervise::run(&self.0.host, wrapper, command, cancel)
    }

    /// Makes a folder below `parent` that a writable bind can show: the sandbox's user owns it and
    /// nobody else can enter it.
    ///
    /// # Errors
    /// It cannot be made, or the sandbox's user cannot reach `parent`.
    pub fn scratch_dir(&self, parent: &Path) -> io::Result<PathBuf> {
        let parent = fs::canonicalize(parent)?;
        self.check_reach(&parent)?;
        let folder = tempfile::Builder::new()
            .prefix("everbench-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent)?
            .keep();
        if let Some((uid, gid)) = self.0.host.drop {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid))?;
        }
        Ok(folder)
    }

    /// Gives everything at and below `path` to the sandbox's user, for a writable bind. No link is
    /// followed.
    ///
    /// # Errors
    /// The first entry that cannot be given.
    pub fn hand_over(&self, path: &Path) -> io::Result<()> {
        tree::own(path, self.0.host.drop)
    }

    /// Takes back everything at and below `path` after a run: the caller owns it, can read and
    /// remove it, and no set-user-id bit is left. No link is followed.
    ///
    /// # Errors
    /// The first entry that cannot be changed; folders nested more than 128 deep.
    pub fn reclaim(path: &Path) -> io::Result<()> {
        tree::own(path, None)
    }

    /// Deletes `path` and all below it, whatever a program made of it. No link is followed. It is
    /// no error if nothing is there.
    ///
    /// # Errors
    /// The first entry that cannot be deleted.
    pub fn remove(path: &Path) -> io::Result<()> {
        tree::remove(path)
    }

    fn wrapper(&self, command: &Command) -> Result<Vec<OsString>, SandboxError> {
        for bind in &command.binds {
            self.check_bind(bind)?;
        }
        if !self.0.host.sandboxed {
            if !command.folders.is_empty() {
                let what = "without a sandbox there is no private /tmp to make folders in";
                return Err(SandboxError::Setup(what.into()));
            }
            return Ok(Vec::new());
        }
        let scratch = command.limits.scratch.max(4096);
        let shared = scratch.min(64 << 20);
        let mut words = self.0.system.clone();
        let mut add = |part: &[&dyn AsRef<std::ffi::OsStr>]| {
            words.extend(part.iter().map(|word| word.as_ref().to_owned()));
        };
        add(&[
            &"--perms",
            &"1777",
            &"--size",
            &scratch.to_string(),
            &"--tmpfs",
            &"/tmp",
        ]);
        add(&[
            &"--perms",
            &"1777",
            &"--size",
            &shared.to_string(),
            &"--tmpfs",
            &"/dev/shm",
        ]);
        for folder in &command.folders {
            add(&[&"--perms", &"0700", &"--dir", folder]);
        }
        for bind in &command.binds {
            let how = if bind.writable { "--bind" } else { "--ro-bind" };
            add(&[&how, &bind.host, &bind.inside]);
        }
        // Both are memory of no bounded size: nothing may be written there.
        add(&[&"--remount-ro", &"/dev", &"--remount-ro", &"/", &"--"]);
        Ok(words)
    }

    fn check_bind(&self, bind: &Bind) -> Result<(), SandboxError> {
        let (host, inside) = (bind.host.display(), bind.inside.display());
        let setup = |what: String| Err(SandboxError::Setup(what));
        let plain = |path: &Path| {
            path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
        };
        if !plain(&bind.host) || !plain(&bind.inside) {
            return setup(format!(
                "bind {host} at {inside}: both must be absolute, without `..`"
            ));
        }
        if bind.host.parent().is_none() || bind.inside.parent().is_none() {
            return setup(format!(
                "bind {host} at {inside}: the root folder is never bound"
            ));
        }
        if let Err(error) = fs::metadata(&bind.host) {
            return setup(format!("bind {host}: {error}"));
        }
        if !self.0.host.sandboxed && bind.host != bind.inside {
            return setup(format!(
                "without a sandbox {host} cannot be shown at {inside}: use the same path"
            ));
        }
        if let Err(error) = self.check_reach(bind.host.parent().unwrap_or(&bind.host)) {
            return setup(error.to_string());
        }
        Ok(())
    }

    /// Whether nobody can walk to `folder`.
    fn check_reach(&self, folder: &Path) -> io::Result<()> {
        let Some((uid, gid)) = self.0.host.drop else {
            return Ok(());
        };
        for step in folder.ancestors() {
            let found = fs::metadata(step)?;
            let needed = match () {
                () if found.uid() == uid => 0o100,
                () if found.gid() == gid => 0o010,
                () => 0o001,
            };
            if found.mode() & needed == 0 {
                return Err(io::Error::other(format!(
                    "the sandbox's user (nobody) cannot enter {}: use a folder outside of it, or \
                     `chmod o+x` it",
                    step.display()
                )));
            }
        }
        Ok(())
    }

    /// A real run, which must see what it should and nothing else.
    fn prove(&self) -> Result<(), NoSandbox> {
        let witness = tempfile::NamedTempFile::new()
            .and_then(|file| {
                fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644))?;
                Ok(file)
            })
            .map_err(|error| NoSandbox::Machine(format!("a temporary file: {error}")))?;
        let script = "\
            [ ! -e \"$0\" ] || { echo 'it reads files of the host'; exit 1; }
            [ ! -e /etc/shadow ] || { echo 'it sees /etc/shadow'; exit 1; }
            [ ! -w /usr/bin ] || { echo 'it can write the system'; exit 1; }
            [ \"$(id -u)\" = 65534 ] || { echo 'it is not nobody'; exit 1; }
            grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status || { echo 'it is privileged'; exit 1; }
            echo confined";
        let mut command = Command::new(["/bin/sh", "-c", script]);
        command.argv.push(witness.path().into());
        match self.run(&command, &Cancel::new()) {
            Ok(ended) if ended.status == Status::Exited(0) && ended.stdout == b"confined\n" => {
                Ok(())
            }
            Ok(ended) if !ended.stdout.is_empty() => Err(NoSandbox::Leaks(
                String::from_utf8_lossy(&ended.stdout).trim().to_owned(),
            )),
            Ok(ended) => Err(NoSandbox::Machine(format!(
                "the probe ended with {:?}: {}",
                ended.status,
                String::from_utf8_lossy(&ended.stderr).trim()
            ))),
            Err(SandboxError::Setup(reason) | SandboxError::Transient(reason)) => {
                Err(NoSandbox::Refused {
                    reason,
                    hint: hint(),
                })
            }
            Err(SandboxError::Cancelled) => Err(NoSandbox::Machine("cancelled".into())),
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bubblewrap {
            Some((path, version)) => write!(out, "bubblewrap {version} at {}", path.display())?,
            None => {
                return write!(
                    out,
                    "NO SANDBOX: programs run with all rights of the caller"
                );
            }
        }
        if self.drops_to_nobody {
            write!(out, ", root becomes nobody")?;
        }
        if !self.no_nested_namespaces {
            write!(
                out,
                ", nested user namespaces cannot be forbidden (bubblewrap before 0.8)"
            )?;
        }
        match &self.metering {
            Metering::Groups(version) => write!(out, ", limits by control groups v{version}"),
            Metering::Automatic => write!(out, ", limits not probed"),
            Metering::Watcher(why) => write!(out, ", limits by watching every 20 ms ({why})"),
        }
    }
}

fn meter(wanted: Metering) -> Result<(Option<Hierarchy>, Metering), NoSandbox> {
    if let Metering::Watcher(why) = wanted {
        return Ok((None, Metering::Watcher(why)));
    }
    match (Hierarchy::discover(), wanted) {
        (Ok(found), Metering::Groups(version)) if found.version() != version => {
            let other = found.version();
            let reason = format!("control groups are version {other}, not {version}");
            Err(NoSandbox::Machine(reason))
        }
        (Ok(found), _) => {
            let version = found.version();
            Ok((Some(found), Metering::Groups(version)))
        }
        (Err(why), Metering::Groups(version)) => Err(NoSandbox::Machine(format!(
            "no control groups of version {version}: {why}"
        ))),
        (Err(why), _) => Ok((None, Metering::Watcher(format!("no control groups: {why}")))),
    }
}

fn find() -> Result<(PathBuf, String), NoSandbox> {
    let folders = [
        "/usr/bin",
        "/usr/local/bin",
        "/bin",
        "/run/current-system/sw/bin",
    ];
    let places = folders.map(|folder| Path::new(folder).join("bwrap"));
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        return Err(NoSandbox::Missing(folders.join(", ")));
    };
    let said = std::process::Command::new(path)
        .arg("--version")
        .env_clear()
        .output();
    let said = said.map_err(|error| NoSandbox::Refused {
        reason: format!("{}: {error}", path.display()),
        hint: String::new(),
    })?;
    let said = String::from_utf8_lossy(&said.stdout);
    let version = said.trim().trim_start_matches("bubblewrap ").to_owned();
    if number(&version) < Some(OLDEST) {
        return Err(NoSandbox::TooOld {
            path: path.clone(),
            found: version,
        });
    }
    Ok((path.clone(), version))
}

fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// bubblewrap's command line up to what differs between commands.
fn system(path: &Path, no_nesting: bool) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![path.into()];
    let fixed = "--unshare-all --unshare-user --uid 65534 --gid 65534 --hostname sandbox \
                 --die-with-parent --new-session --as-pid-1 --cap-drop ALL";
    words.extend(fixed.split_whitespace().map(OsString::from));
    if no_nesting {
        words.push("--disable-userns".into());
    }
    words.extend(["--ro-bind", "/usr", "/usr"].map(OsString::from));
    for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        // As on the host: links on a merged system, folders on others.
        match fs::read_link(name) {
            Ok(target) => words.extend(["--symlink".into(), target.into(), name.into()]),
            Err(_) if Path::new(name).is_dir() => {
                words.extend(["--ro-bind", name, name].map(OsString::from));
            }
            Err(_) => {}
        }
    }
    for name in ETC {
        words.extend(["--ro-bind-try", name, name].map(OsString::from));
    }
    words.extend(["--proc", "/proc", "--dev", "/dev"].map(OsString::from));
    words
}

/// The usual reason for a refusal, from what the kernel says about itself.
fn hint() -> String {
    let setting = |path: &str| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let way_out = if setting("/proc/sys/user/max_user_namespaces") == "0" {
        "User namespaces are turned off: `sysctl -w user.max_user_namespaces=10000`"
    } else if setting("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        "User namespaces are turned off: `sysctl -w kernel.unprivileged_userns_clone=1`"
    } else if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "AppArmor forbids user namespaces: `sysctl -w \
         kernel.apparmor_restrict_unprivileged_userns=0`, or a profile for bwrap"
    } else {
        "In a container, allow namespaces (for Docker: `--security-opt seccomp=unconfined \
         --security-opt systempaths=unconfined`)"
    };
    way_out.to_string()
}
