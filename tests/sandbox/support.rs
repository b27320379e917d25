//! Both sandboxes, scratch folders, and the compiled hostile programs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everbench::cancel::Cancel;
use everbench::exec::{Bind, Command, Ended, Metering, Policy, Sandbox, Status};

pub const MIB: u64 = 1 << 20;
/// The variable by which the processes of one run are found again.
pub const MARK: &str = "EVERBENCH_TEST_MARK";
/// Set for the copy of this test that is to be killed.
pub const VICTIM: &str = "EVERBENCH_TEST_VICTIM";

/// Both ways to bound a run.
pub fn sandboxes() -> &'static [Sandbox] {
    static ALL: OnceLock<Vec<Sandbox>> = OnceLock::new();
    ALL.get_or_init(|| {
        let automatic = Sandbox::probe(Policy::Required).unwrap_or_else(|error| panic!("{error}"));
        let watcher = Metering::Watcher("for the test".into());
        let watcher = Sandbox::probe_with(Policy::Required, watcher);
        vec![automatic, watcher.unwrap_or_else(|error| panic!("{error}"))]
    })
}

/// A folder for one test, gone with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(
            sandboxes()[0]
                .scratch_dir(&std::env::temp_dir())
                .expect("a scratch folder"),
        )
    }

    pub fn bind(&self, inside: &str) -> Bind {
        Bind {
            host: self.0.clone(),
            inside: inside.into(),
            writable: true,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        Sandbox::remove(&self.0).expect("the scratch folder can be removed");
    }
}

/// The folder with the compiled programs.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = programs_of(process::id());
        Sandbox::remove(&folder).expect("an old folder can be removed");
        fs::create_dir(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        let source = folder.join("hostile.c");
        fs::write(&source, include_str!("hostile.c")).expect("the source");
        for (name, flags) in [("plain", "-O1"), ("asan", "-fsanitize=address")] {
            let built = process::Command::new("gcc")
                .args(["-g", "-w", "-pthread", flags, "-o"])
                .arg(folder.join(name))
                .arg(&source)
                .output()
                .expect("these tests need gcc: apt-get install gcc");
            assert!(
                built.status.success(),
                "{}",
                String::from_utf8_lossy(&built.stderr)
            );
        }
        extern "C" fn remove() {
            let _ = Sandbox::remove(&programs_of(process::id()));
        }
        // SAFETY: the function outlives the process and does not unwind.
        unsafe { libc::atexit(remove) };
        folder
    })
}

/// Where the process with this number has its programs.
pub fn programs_of(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("everbench-hostile-{process}"))
}

pub fn compiled(program: &str, words: &[&str]) -> Command {
    let mut command = Command::new([format!("/programs/{program}")]);
    command.argv.extend(words.iter().map(OsString::from));
    command.env.insert(MARK.into(), mark().into());
    let (host, inside) = (programs().to_path_buf(), "/programs".into());
    command.binds.push(Bind {
        host,
        inside,
        writable: false,
    });
    // Far above what an honest run needs here on a busy machine, so that a test that waits for
    // another limit does not meet this one.
    command.limits.wall = Duration::from_secs(120);
    command
}

/// Marks one command among all of this machine.
pub fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{}-{}",
        process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

pub fn hostile(words: &[&str]) -> Command {
    compiled("plain", words)
}

/// Runs and checks what holds for every run.
pub fn run(sandbox: &Sandbox, command: &Command) -> Ended {
    let start = Instant::now();
    let ended = sandbox.run(command, &Cancel::new()).expect("a result");
    assert_eq!(left(command), Vec::<String>::new(), "processes left");
    let output = command.limits.output as usize;
    assert!(ended.stdout.len() <= output && ended.stderr.len() <= output);
    assert!(ended.results.len() as u64 <= command.limits.results);
    assert!(ended.usage.wall <= start.elapsed());
    ended
}

/// Runs in both sandboxes and expects a status.
pub fn expect(command: &Command, status: Status) -> Vec<Ended> {
    let run_one = |sandbox| {
        let ended = run(sandbox, command);
        assert_eq!(
            ended.status,
            status,
            "{}\n{}",
            sandbox.describe(),
            text(&ended.stderr)
        );
        ended
    };
    sandboxes().iter().map(run_one).collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Living processes of a run, by the mark in their environment or arguments.
pub fn left(command: &Command) -> Vec<String> {
    let mark = command.env[&OsString::from(MARK)].to_str().expect("text");
    marked(&format!("{MARK}={mark}\0"))
}

pub fn marked(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let own = entry.file_name() == process::id().to_string().as_str();
        if own
            || entry
                .file_name()
                .as_bytes()
                .iter()
                .any(|byte| !byte.is_ascii_digit())
        {
            continue;
        }
        for file in ["environ", "cmdline"] {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            if bytes
                .windows(mark.len())
                .any(|part| part == mark.as_bytes())
            {
                let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
                found.push(status.lines().take(3).collect::<Vec<_>>().join(" "));
                break;
            }
        }
    }
    found
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
