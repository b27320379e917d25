//! Projects in temporary folders, and the program run in them. One project is run to its end once
//! per test binary; tests work on copies of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

pub const BIN: &str = env!("CARGO_BIN_EXE_everbench");
/// What every project here has in common: 16 functions, 2 iterations.
pub const RUN: &str = "[run]\nlimit = 16\niterations = 2\nseed = 3\n";
pub const UNCHANGED: &str = "[[model]]\nname = \"unchanged\"\ncalibration = { unchanged = 1.0 }\n";
pub const PRESERVING: &str =
    "[[model]]\nname = \"preserving\"\ncalibration = { preserving = 1.0 }\n";
pub const BREAKER: &str =
    "[[model]]\nname = \"breaker\"\ncalibration = { preserving = 0.6, breaks_compile = 0.4 }\n";
pub const SLOPPY: &str = "[[model]]\nname = \"sloppy\"\ncalibration = { breaks_behaviour = 0.6, plants_memory_error = 0.4 }\n";

/// How a command ended.
pub struct Ended {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn ok(self) -> Ended {
        self.exits(0)
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Ended {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    /// Every part is said on standard error.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Ended {
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not in:\n{}", self.err);
        }
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}\nstdout:\n{}\nstderr:\n{}", self.out, self.err))
    }
}

/// A project's folder.
pub struct Project {
    pub dir: PathBuf,
    _keeps: tempfile::TempDir,
}

impl Project {
    /// A folder that the sandbox's user can walk into, so that the trees lie in it.
    pub fn empty() -> Project {
        let keeps = tempfile::Builder::new()
            .prefix("everbench-cli-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .unwrap();
        let dir = keeps.path().join("project");
        fs::create_dir(&dir).unwrap();
        Project { dir, _keeps: keeps }
    }

    /// A project on the preset with these models.
    pub fn fresh(models: &[&str]) -> Project {
        let project = Project::empty();
        project.configure("preset = \"tidelib\"", RUN, models);
        project
    }

    /// A project on a copy of the subject, which `change` has changed.
    pub fn on_changed_subject(run: &str, models: &[&str], change: impl Fn(&Path)) -> Project {
        let project = Project::empty();
        let subject = project.dir.join("subject");
        copy(&fixtures("tidelib"), &subject);
        change(&subject);
        project.configure("manifest = \"subject/everbench.toml\"", run, models);
        project
    }

    /// A copy of the project that was run to its end, store and trees included.
    pub fn prepared() -> Project {
        static PREPARED: OnceLock<Project> = OnceLock::new();
        let first = PREPARED.get_or_init(|| {
            let project = Project::fresh(&[UNCHANGED, PRESERVING, BREAKER, SLOPPY]);
            let ended = project.run(["run", "--quiet", "--format", "json"]).ok();
            fs::write(project.dir.join("first.json"), ended.out).unwrap();
            project
        });
        let project = Project::empty();
        fs::remove_dir(&project.dir).unwrap();
        copy(&first.dir, &project.dir);
        project
    }

    /// Puts in what every evaluation of the unchanged preset begins with, its builds: made once per test
    /// binary, and nothing evaluated. For tests of what comes after them.
    pub fn with_builds(self) -> Project {
        static BUILT: OnceLock<Project> = OnceLock::new();
        let first = BUILT.get_or_init(|| {
            let project = Project::fresh(&[UNCHANGED]);
            project.run(["plan", "--build"]).ok();
            project
        });
        copy(&first.dir.join(".everbench"), &self.dir.join(".everbench"));
        self
    }

    /// What the first run of the prepared project printed.
    pub fn first(&self) -> Value {
        serde_json::from_str(&self.read("first.json")).unwrap()
    }

    pub fn configure(&self, subject: &str, run: &str, models: &[&str]) {
        let text = format!("[subject]\n{subject}\n\n{run}\n{}", models.join("\n"));
        self.write("everbench.toml", &text);
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.dir.join(path), text).unwrap();
    }

    pub fn add_model(&self, model: &str) {
        let text = self.read("everbench.toml");
        self.write("everbench.toml", &format!("{text}\n{model}"));
    }

    pub fn store(&self) -> PathBuf {
        self.dir.join(".everbench/store")
    }

    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(BIN);
        command.arg("--dir").arg(&self.dir).args(args);
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        ended(self.command(args))
    }

    /// Runs the shell text `setup` in a mount namespace of its own, where it can show the program
    /// another machine: a full disk, other programs. `$EB` runs everbench here.
    pub fn elsewhere(&self, setup: &str) -> Ended {
        let root = rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !root {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        let script = format!("set -e; cd \"$1\"; EB=\"$0 --dir $1\"; {setup}");
        command.args(["sh", "-c", &script, BIN]).arg(&self.dir);
        ended(command)
    }

    /// Key -> kind and output of everything in the store.
    pub fn jobs(&self) -> BTreeMap<String, (String, String)> {
        listed(&self.run(["store", "ls"]).ok().out)
    }

    /// Key -> kind and output of the jobs that executors ran: an adopted folder is not one.
    pub fn ran(&self) -> BTreeMap<String, (String, String)> {
        let mut jobs = self.jobs();
        jobs.retain(|_, (kind, _)| kind != "source/snapshot");
        jobs
    }

    /// Starts a command and waits until it has put `more` jobs into the store, or has ended.
    pub fn started(&self, args: &[&str], more: usize) -> Child {
        let before = if self.store().join("STORE").exists() {
            self.jobs().len()
        } else {
            0
        };
        let mut child = self
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("jobs in the store", || {
            let now = self.run(["store", "ls"]);
            let ready = now.code == Some(0) && listed(&now.out).len() >= before + more;
            ready || child.try_wait().unwrap().is_some()
        });
        child
    }

    /// No process is left that works in this project's folders.
    #[track_caller]
    pub fn leaves_no_process(&self) {
        let marker = self.dir.display().to_string();
        let mut left = BTreeSet::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            left = processes_with(&marker);
            if left.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("still running: {left:#?}");
    }
}

fn listed(text: &str) -> BTreeMap<String, (String, String)> {
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_string).collect() };
    text.lines()
        .map(words)
        .map(|w| (w[0].clone(), (w[1].clone(), w[2].clone())))
        .collect()
}

/// Their command lines.
fn processes_with(marker: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) {
            found.insert(line);
        }
    }
    found
}

/// Waits for something that must come; gives up long after it should have.
#[track_caller]
pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !ready() {
        assert!(Instant::now() < deadline, "{what}: it did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn ended(mut command: Command) -> Ended {
    let output = command.env_remove("COLUMNS").output().unwrap();
    finished(output)
}

pub fn finished(output: std::process::Output) -> Ended {
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// With owners and times, as `cp -a`.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

/// Replaces the one place where `old` stands in a file.
#[track_caller]
pub fn edit(path: &Path, old: &str, new: &str) {
    // Not all of the subject's files are UTF-8.
    let text = fs::read(path).unwrap();
    let at = find(&text, old.as_bytes())
        .unwrap_or_else(|| panic!("`{old}` is not in {}", path.display()));
    let text = [&text[..at], new.as_bytes(), &text[at + old.len()..]].concat();
    fs::write(path, text).unwrap();
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|w| w == part)
}

/// The row of a model in a scoring.
#[track_caller]
pub fn row<'a>(board: &'a Value, model: &str, scoring: &str) -> &'a Value {
    let rows = board["rows"].as_array().unwrap();
    let here = |r: &&Value| r["model"] == model && r["scoring"] == scoring;
    rows.iter()
        .find(here)
        .unwrap_or_else(|| panic!("no row {model} {scoring} in {board:#}"))
}

/// The sum of a map of counts.
pub fn total(counts: &Value) -> u64 {
    let counts = counts.as_object().unwrap();
    counts.values().map(|n| n.as_u64().unwrap()).sum()
}

/// A replay file: a header, and a reply to each prompt.
pub fn replay(revision: &str, replies: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = serde_json::json!({
        "format": "everbench-replies/1",
        "model": { "name": "recorded", "revision": revision },
        "sampling": { "temperature": 0.0, "seed": 0, "max_tokens": 4096 },
    })
    .to_string();
    text.push('\n');
    for (id, reply) in replies {
        let line = serde_json::json!({ "id": id, "text": reply, "finish_reason": "stop" });
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// The prompts of a project: id and what the user says.
pub fn prompts(project: &Project) -> Vec<(String, String)> {
    let text = project.run(["prompts"]).ok().out;
    text.lines()
        .map(|line| {
            let prompt: Value = serde_json::from_str(line).unwrap();
            let word = |key: &str| prompt[key].as_str().unwrap().to_string();
            (word("id"), word("user"))
        })
        .collect()
}

/// The function that a prompt shows. Its text may hold fences itself.
pub fn asked(prompt: &str) -> String {
    let (_, code) = prompt.split_once("```c\n").unwrap();
    code.rsplit_once("```").unwrap().0.to_string()
}

/// What git says to a command on the day `date`, without anybody's configuration.
pub fn git(dir: &Path, date: &str, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", format!("{date}T12:00:00Z"))
        .env("GIT_COMMITTER_DATE", format!("{date}T12:00:00Z"))
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
