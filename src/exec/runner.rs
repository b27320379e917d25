//! What all executors of this room share: the sandbox, the tools, the caches, and the one way in
//! which they run a command.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, RwLock};
use std::time::Duration;

use regex::bytes::Regex;

use super::footprint::KeptBuilds;
use super::libclang::Libclang;
use super::observe::System;
use super::opens::Stands;
use super::recorder;
use super::run::KeptRuns;
use super::toolchain::Toolchain;
use super::trees::Trees;
use super::{Bind, Command, Ended, Limit, Limits, Sandbox, SandboxError, Status};
use crate::engine::{Context, Failure};
use crate::lang::QuerySet;
use crate::oss::artifact::EndDoc;
use crate::oss::layout::{BIN, OUT, REACH_HEADER, REPORT_HEADER, REPORT_HEADER_CPP, TREE};

/// The workshop of the executors.
pub struct Workshop {
    /// Where commands run.
    pub sandbox: Sandbox,
    /// What builds.
    pub tools: Toolchain,
    /// What can be made again.
    pub trees: Trees,
    /// libclang, where an extractor needs it.
    pub libclang: Option<Libclang>,
    /// This program, which is also the recording tools and libclang's worker.
    pub recorder: PathBuf,
    /// The harness headers for C and for C++ and the one that notes reach, as files.
    pub headers: [PathBuf; 3],
    /// What a compiler, an archiver or a linker may use for one variant; see [`compiler_limits`].
    pub limits: Limits,
    /// The queries by which functions are found in the files that are spliced.
    pub queries: Arc<QuerySet>,
    /// Packages that the subjects' builds need and that are not installed.
    pub missing_packages: Vec<String>,
    /// What the machine is like.
    pub system: Arc<System>,
    /// Builds that wait for the base that they are.
    pub kept: KeptBuilds,
    /// Runs that wait for the job that they are.
    pub runs: KeptRuns,
    /// Trees as test runs see them.
    pub stands: Stands,
    /// Held for reading by every command, for writing by one that must run alone.
    alone: RwLock<()>,
}

/// A command on a tree.
pub struct Call<'a> {
    /// The program as the sandbox sees it, and its arguments.
    pub argv: Vec<String>,
    /// Working directory inside.
    pub cwd: String,
    /// The tree on the host.
    pub tree: &'a Path,
    /// Whether the tree may be written to.
    pub tree_writable: bool,
    /// Directories of the tree that may be written to, each with a copy on the host that is seen in
    /// its place; `.` is the whole tree.
    pub writable: Vec<(String, PathBuf)>,
    /// Files of the tree to be seen in place of its own: path in the tree -> path on the host.
    pub over: Vec<(String, PathBuf)>,
    /// A folder to write to, at [`OUT`].
    pub out: Option<&'a Path>,
    /// Further mounts.
    pub binds: Vec<Bind>,
    /// Environment beyond the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// What it may use.
    pub limits: Limits,
    /// Whether a report is taken out of band.
    pub results: bool,
    /// Prefixes of the files in the private `/tmp` to bring back.
    pub collect: Vec<String>,
    /// Empty folders to make in the private `/tmp`.
    pub folders: Vec<String>,
    /// Done before each attempt: puts back what an earlier one may have changed.
    pub before: Option<&'a dyn Fn() -> Result<(), Failure>>,
}

impl<'a> Call<'a> {
    /// A command in the root of a tree that it only reads, within a compiler's limits.
    pub fn on(tree: &'a Path, argv: Vec<String>) -> Call<'a> {
        Call {
            argv,
            cwd: TREE.into(),
            tree,
            tree_writable: false,
            writable: Vec::new(),
            over: Vec::new(),
            out: None,
            binds: Vec::new(),
            env: BTreeMap::new(),
            limits: compiler_limits(),
            results: false,
            collect: Vec::new(),
            folders: Vec::new(),
            before: None,
        }
    }
}

/// With less room than this on the disk of the trees, a failure is the host's and no value.
const LEAST_FREE: u64 = 64 << 20;

/// What a compiler may use for one command.
pub fn compiler_limits() -> Limits {
    Limits {
        cpu: Duration::from_secs(120),
        wall: Duration::from_secs(300),
        memory: 3 << 30,
        processes: 64,
        output: 16 << 20,
        results: 0,
        file_size: 1 << 30,
        scratch: 512 << 20,
        disk: 2 << 30,
        stack: 64 << 20,
    }
}

impl Workshop {
    /// Sets up shop. `recorder` is this program; it and the harness header are put into the
    /// folder of the trees, where the sandboxed user can reach them.
    pub fn new(
        sandbox: Sandbox,
        tools: Toolchain,
        trees: Trees,
        recorder: &Path,
    ) -> io::Result<Workshop> {
        let recorder = trees.keep_tool("recorder", &std::fs::read(recorder)?)?;
        let headers = [
            trees.keep_tool("report.h", crate::subject::REPORT_HEADER.as_bytes())?,
            trees.keep_tool("report.hpp", crate::subject::REPORT_HEADER_CPP.as_bytes())?,
            trees.keep_tool("reach.h", crate::subject::REACH_HEADER.as_bytes())?,
        ];
        Ok(Workshop {
            sandbox,
            tools,
            trees,
            libclang: None,
            recorder,
            headers,
            limits: compiler_limits(),
            queries: Arc::default(),
            missing_packages: Vec::new(),
            system: Arc::new(System::of_machine()),
            kept: KeptBuilds::default(),
            runs: KeptRuns::default(),
            stands: Stands::default(),
            alone: RwLock::new(()),
        })
    }

    /// Runs a command in the sandbox. A wall-clock limit is believed only after it was hit again
    /// with nothing else running: a loaded machine must not decide a verdict.
    pub fn run(&self, call: &Call<'_>, context: &Context<'_>) -> Result<Ended, Failure> {
        let command = self.command(call);
        let ended = self.supervised(call, &command, context)?;
        if ended.status != Status::Exited(0) {
            self.check_room()?;
        }
        Ok(ended)
    }

    /// A command that failed on a full disk says nothing about what it was given.
    fn check_room(&self) -> Result<(), Failure> {
        let disk = rustix::fs::statvfs(self.trees.root())
            .map_err(|e| host("looking at the disk")(e.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= LEAST_FREE && (disk.f_files == 0 || disk.f_favail > 0) {
            return Ok(());
        }
        Err(Failure::Transient(format!(
            "{}: no room left ({} MiB free, {} MiB are needed): make room and run again",
            self.trees.root().display(),
            free >> 20,
            LEAST_FREE >> 20
        )))
    }

    fn supervised(
        &self,
        call: &Call<'_>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Ended, Failure> {
        let prepare = || call.before.map_or(Ok(()), |before| before());
        prepare()?;
        let ended = {
            let _together = self
                .alone
                .read()
                .expect("nothing panics while it holds the lock");
            self.counted(command, context)?
        };
        if ended.status != Status::Limit(Limit::Wall) {
            return Ok(ended);
        }
        prepare()?;
        let _alone = self
            .alone
            .write()
            .expect("nothing panics while it holds the lock");
        self.counted(command, context)
    }

    /// Runs a command; what it took is the job's, whether or not it gave a result.
    fn counted(&self, command: &Command, context: &Context<'_>) -> Result<Ended, Failure> {
        let ended = self.sandbox.run(command, context.cancel).map_err(failure)?;
        context.spent.add(ended.usage.cpu);
        Ok(ended)
    }

    fn command(&self, call: &Call<'_>) -> Command {
        let mut binds = vec![Bind {
            host: call.tree.to_path_buf(),
            inside: TREE.into(),
            writable: call.tree_writable,
        }];
        binds.extend(call.writable.iter().map(|(path, host)| Bind {
            host: host.clone(),
            inside: match path.as_str() {
                "." => TREE.into(),
                path => format!("{TREE}/{path}").into(),
            },
            writable: true,
        }));
        binds.extend(call.over.iter().map(|(path, host)| Bind {
            host: host.clone(),
            inside: format!("{TREE}/{path}").into(),
            writable: false,
        }));
        binds.extend(call.out.map(|out| Bind {
            host: out.to_path_buf(),
            inside: OUT.into(),
            writable: true,
        }));
        let headers = [REPORT_HEADER, REPORT_HEADER_CPP, REACH_HEADER];
        for (host, inside) in self.headers.iter().zip(headers) {
            binds.push(Bind {
                host: host.clone(),
                inside: inside.into(),
                writable: false,
            });
        }
        binds.extend(call.binds.iter().cloned());
        let mut command = Command::new(&call.argv);
        command.cwd = call.cwd.clone().into();
        command.binds = binds;
        command.limits = call.limits;
        command.fixed_addresses = true;
        command.results = call.results;
        command.collect = call.collect.iter().map(Into::into).collect();
        command.folders = call.folders.iter().map(Into::into).collect();
        for (name, value) in &call.env {
            command.env.insert(name.into(), value.into());
        }
        command
    }

    /// The mounts and variables that put the recording tools first in `PATH`.
    pub fn recording(&self) -> (Vec<Bind>, BTreeMap<String, String>) {
        let binds = recorder::NAMES.iter().map(|(name, _)| Bind {
            host: self.recorder.clone(),
            inside: format!("{BIN}/{name}").into(),
            writable: false,
        });
        let mut env = BTreeMap::from([(
            "PATH".to_string(),
            format!("{BIN}:/usr/local/bin:/usr/bin:/bin"),
        )]);
        for tool in recorder::TOOLS {
            let path = self.tools.tool(tool).display().to_string();
            env.insert(recorder::variable(tool), path);
        }
        if self.tools.symbolizer.is_some() {
            env.insert(recorder::CLANG.into(), "1".into());
        }
        (binds.collect(), env)
    }
}

fn failure(e: SandboxError) -> Failure {
    match e {
        SandboxError::Cancelled => Failure::Cancelled,
        SandboxError::Transient(why) => Failure::Transient(why),
        SandboxError::Setup(what) => Failure::Fatal {
            what: format!("the sandbox cannot run a command: {what}"),
            help: "run `everbench doctor`".into(),
        },
    }
}

/// How a command ended, as documents say it.
pub fn end_doc(status: &Status) -> EndDoc {
    match status {
        Status::Exited(code) => EndDoc::Exit(*code),
        Status::Signaled(signal) => EndDoc::Signal(*signal),
        Status::Limit(limit) => EndDoc::Limit(limit_name(*limit).into()),
        Status::NotStarted(errno) => EndDoc::NotStarted(*errno),
    }
}

/// The word for a limit.
pub fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu => "cpu",
        Limit::Wall => "wall",
        Limit::Memory => "memory",
        Limit::Processes => "processes",
        Limit::Output => "output",
        Limit::Disk => "disk",
    }
}

/// A command's output without the random names of a compiler's temporary files, so that the same
/// job writes the same log every time.
pub fn stable_log(log: &[u8]) -> Vec<u8> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?-u)/tmp/cc[A-Za-z0-9]{6}\b").expect("the pattern is a constant")
    });
    NAME.replace_all(log, &b"/tmp/cc"[..]).into_owned()
}

/// Trouble of the host with files: worth another try.
pub fn host(what: &str) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |e| Failure::Transient(format!("{what}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::stable_log;

    #[test]
    fn only_the_random_part_of_a_name_goes() {
        assert_eq!(
            stable_log(b"/tmp/ccAb3xYz.s:4: Error\n\xff /tmp/ccache /tmp/ccAb3xYzq"),
            b"/tmp/cc.s:4: Error\n\xff /tmp/ccache /tmp/ccAb3xYzq"
        );
    }
}
