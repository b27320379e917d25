//! `git`: the tree of a commit, by git's own commands, out of a private bare mirror. There is never
//! a checkout: no hook, no filter, no attribute and no configuration of the user's or of the
//! repository's own takes part, so that the bytes are those that were committed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::collect::{Collector, Refused, inside, no_directory, text};
use super::directory::Limits;
use super::snapshot::Tree;
use crate::digest::Digest;
use crate::subject::{GitSource, is_commit};

/// How many names a message lists.
const LISTED: usize = 8;

/// Variables by which git could be led elsewhere or made to run something.
pub(super) const CLEARED: [&str; 22] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ASKPASS",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_SYSTEM",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PROXY_COMMAND",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_SSH",
    "GIT_TEMPLATE_DIR",
    "GIT_TRACE",
    "GIT_WORK_TREE",
    "SSH_ASKPASS",
];

/// One mirror is used by one command at a time: git's own locks make a second one fail.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How git is run.
#[derive(Clone, Debug)]
pub struct Git {
    /// The program, looked up in `PATH` when it has no `/`.
    pub git: PathBuf,
    /// The folder of the mirrors; created if absent.
    pub mirrors: PathBuf,
    /// Environment beyond this process's own.
    pub env: Vec<(OsString, OsString)>,
}

/// Why a commit's tree could not be had.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git.
    #[error("cannot run `{}`: {error}; git is needed for this source (on Debian: `apt-get install git`)", git.display())]
    NoGit {
        /// What was run.
        git: PathBuf,
        /// Why it did not.
        error: io::Error,
    },
    /// The repository was not reached.
    #[error("cannot reach {url}: {said}; try again when it answers")]
    Network {
        /// The repository.
        url: String,
        /// Git's words.
        said: String,
    },
    /// There is no repository, or not for this user.
    #[error(
        "{url} is no git repository that can be read: {said}; check `git` in the subject's manifest"
    )]
    NoRepository {
        /// The repository.
        url: String,
        /// Git's words.
        said: String,
    },
    /// The repository does not know the revision.
    #[error("{url} has no revision `{revision}`; check `revision`. It has: {there}")]
    NoRevision {
        /// The repository.
        url: String,
        /// The revision as asked for.
        revision: String,
        /// Branches and tags, those alike first.
        there: String,
    },
    /// The name is that of something else than a commit.
    #[error("`{revision}` of {url} is no commit but {what}; a commit is needed")]
    NotACommit {
        /// The repository.
        url: String,
        /// The revision as asked for.
        revision: String,
        /// What it is.
        what: String,
    },
    /// The tree has submodules, and the manifest does not say that it can do without.
    #[error(
        "commit {commit} has submodules ({count}), which are not fetched: {paths}; write \
         `submodules = false` if the subject builds without them"
    )]
    Submodules {
        /// The commit.
        commit: String,
        /// How many.
        count: usize,
        /// The first of them.
        paths: String,
    },
    /// The tree cannot stand.
    #[error("commit {commit}: {why}")]
    Refused {
        /// The commit.
        commit: String,
        /// Why.
        why: Refused,
    },
    /// Git failed for another reason.
    #[error("git failed on {url}: {said}; if its mirror {} is damaged, remove it", mirror.display())]
    Git {
        /// The repository.
        url: String,
        /// Git's words.
        said: String,
        /// The private mirror.
        mirror: PathBuf,
    },
    /// The mirrors' folder could not be used.
    #[error("cannot use {}: {error}", path.display())]
    Mirror {
        /// It.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl GitError {
    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, GitError::Network { .. })
    }
}

impl Git {
    /// Git from `PATH`, with mirrors below the private folder of a project.
    pub fn new(private: &Path) -> Git {
        Git {
            git: "git".into(),
            mirrors: private.join("git"),
            env: Vec::new(),
        }
    }

    /// The commit that the revision stands for now. Asks the repository unless the revision is a
    /// full commit id; afterwards the mirror has the commit.
    pub fn resolve(&self, source: &GitSource, manifest_dir: &Path) -> Result<String, GitError> {
        if is_commit(&source.revision) {
            return Ok(source.revision.clone());
        }
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mirror = Mirror::open(self, source, manifest_dir)?;
        let refs = mirror.remote_refs()?;
        let revision = source.revision.as_str();
        if let Some(id) = named(&refs, revision) {
            mirror.obtain(id, &refs)?;
            return mirror.commit_of(revision, id);
        }
        // An expression, or the beginning of a commit id: it takes the history.
        mirror.everything(&refs)?;
        let local = match revision.strip_prefix("HEAD").or(revision.strip_prefix('@')) {
            Some(rest) if rest.is_empty() || rest.starts_with(['~', '^']) => {
                format!("{HEAD}{rest}")
            }
            _ => revision.to_string(),
        };
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
        let object = format!("{local}^{{object}}");
        let found = mirror.run(args.iter().copied().chain([object.as_str()]))?;
        if !found.status.success() {
            return Err(mirror.no_revision(revision, &refs));
        }
        let id = String::from_utf8_lossy(&found.stdout).trim().to_string();
        mirror.commit_of(revision, &id)
    }

    /// When the commit that `source` names by its full id came to be what it is: the committer's
    /// date, in seconds since 1970. Asks no repository: nothing if the mirror lacks the commit.
    pub fn committed(&self, source: &GitSource, manifest_dir: &Path) -> Option<i64> {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mirror = Mirror::open(self, source, manifest_dir).ok()?;
        let commit = source.revision.as_str();
        if !mirror.has(commit).ok()? {
            return None;
        }
        let args = ["show", "--no-patch", "--no-show-signature", "--format=%ct"];
        let shown = mirror.run(args.into_iter().chain([commit])).ok()?;
        String::from_utf8_lossy(&shown.stdout).trim().parse().ok()
    }

    /// The mirror of the repository at `url`, if there is one.
    pub fn mirror_of(&self, url: &str) -> Option<PathBuf> {
        let mirror = Mirror::open(self, &at_url(url), Path::new(".")).ok()?;
        mirror.made.then_some(mirror.dir)
    }

    /// Fetches a commit and its parents from `url`, and gives the mirror that then has them: two
    /// steps of history if the server gives single commits, else all of it.
    pub fn obtain_history(&self, url: &str, commit: &str) -> Result<PathBuf, GitError> {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mirror = Mirror::open(self, &at_url(url), Path::new("."))?;
        let refs = mirror.remote_refs()?;
        if is_commit(commit) {
            mirror.make(commit)?;
            let refspec = format!("+{commit}:refs/everbench/{commit}");
            let output = mirror.fetch(&["--depth=2"], &[refspec])?;
            if output.status.success() {
                return Ok(mirror.dir);
            }
            let error = mirror.failed(&output);
            if error.is_transient() {
                return Err(error);
            }
        }
        mirror.everything(&refs)?;
        Ok(mirror.dir)
    }

    /// The tree of the commit that `source` names by its full id. Needs no network when the mirror
    /// has the commit.
    pub fn fetch(&self, source: &GitSource, manifest_dir: &Path) -> Result<Tree, GitError> {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mirror = Mirror::open(self, source, manifest_dir)?;
        let commit = source.revision.as_str();
        if !mirror.has(commit)? {
            let refs = mirror.remote_refs()?;
            mirror.obtain(commit, &refs)?;
        }
        let id = mirror.commit_of(commit, commit)?;
        mirror.tree(&id, source)
    }
}

fn at_url(url: &str) -> GitSource {
    GitSource {
        url: url.to_string(),
        revision: String::new(),
        path_inside: None,
        without_submodules: true,
    }
}

/// Where the mirror keeps what the repository's HEAD is.
const HEAD: &str = "refs/everbench/HEAD";

/// Reference -> object id, as the repository lists them.
type Refs = BTreeMap<String, String>;

/// What a name without an expression stands for, in git's own order.
fn named<'a>(refs: &'a Refs, revision: &str) -> Option<&'a String> {
    let full = [
        revision.to_string(),
        format!("refs/{revision}"),
        format!("refs/tags/{revision}"),
        format!("refs/heads/{revision}"),
    ];
    // A tag that is an object of its own is listed a second time as what it points to.
    full.iter()
        .find_map(|name| refs.get(&format!("{name}^{{}}")).or(refs.get(name)))
}

struct Mirror<'a> {
    git: &'a Git,
    url: String,
    dir: PathBuf,
    config: PathBuf,
    made: bool,
}

impl<'a> Mirror<'a> {
    fn open(git: &'a Git, source: &GitSource, manifest_dir: &Path) -> Result<Mirror<'a>, GitError> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error| GitError::Mirror { path, error }
        };
        fs::create_dir_all(&git.mirrors).map_err(at(&git.mirrors))?;
        let mirrors = git.mirrors.canonicalize().map_err(at(&git.mirrors))?;
        let path = match is_url(&source.url) {
            true => source.url.strip_prefix("file://").map(PathBuf::from),
            false => Some(manifest_dir.join(&source.url)),
        };
        let url = match &path {
            Some(path) if !is_url(&source.url) => match path.canonicalize() {
                Ok(path) => path.display().to_string(),
                Err(error) => {
                    return Err(GitError::NoRepository {
                        url: path.display().to_string(),
                        said: error.to_string(),
                    });
                }
            },
            _ => source.url.clone(),
        };
        let name = Digest::of(url.as_bytes()).hex();
        let dir = mirrors.join(&name[..32]);
        let config = mirrors.join(format!("{}.config", &name[..32]));
        let mut safe = vec![dir.clone()];
        if let Some(path) = path.and_then(|p| p.canonicalize().ok()) {
            safe.push(path.join(".git"));
            safe.push(path);
        }
        fs::write(&config, configuration(&safe)).map_err(at(&config))?;
        let made = dir.join("HEAD").exists();
        Ok(Mirror {
            git,
            url,
            dir,
            config,
            made,
        })
    }

    fn command<'s>(&self, args: impl IntoIterator<Item = &'s str>) -> Command {
        let mut command = Command::new(&self.git.git);
        for name in CLEARED {
            command.env_remove(name);
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", &self.config)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(self.git.env.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.git.mirrors)
            .stdin(Stdio::null());
        if self.made {
            command.arg("--git-dir").arg(&self.dir);
        }
        command.args(args);
        command
    }

    fn run<'s>(&self, args: impl IntoIterator<Item = &'s str>) -> Result<Output, GitError> {
        let output = self.command(args).output();
        output.map_err(|error| self.no_git(error))
    }

    fn no_git(&self, error: io::Error) -> GitError {
        GitError::NoGit {
            git: self.git.git.clone(),
            error,
        }
    }

    /// Makes the mirror, for ids of this length.
    fn make(&mut self, id: &str) -> Result<(), GitError> {
        if self.made {
            return Ok(());
        }
        let format = if id.len() == 64 { "sha256" } else { "sha1" };
        let dir = self.dir.display().to_string();
        let format = format!("--object-format={format}");
        let args = ["init", "--quiet", "--bare", "--template=", &format, &dir];
        let output = self.run(args)?;
        if !output.status.success() {
            return Err(self.failed(&output));
        }
        self.made = true;
        Ok(())
    }

    fn has(&self, commit: &str) -> Result<bool, GitError> {
        if !self.made {
            return Ok(false);
        }
        let object = format!("{commit}^{{}}");
        Ok(self.run(["cat-file", "-e", &object])?.status.success())
    }

    fn remote_refs(&self) -> Result<Refs, GitError> {
        let output = self.run(["ls-remote", "--quiet", "--", &self.url])?;
        if !output.status.success() {
            return Err(self.failed(&output));
        }
        let listed = String::from_utf8_lossy(&output.stdout);
        let pairs = listed.lines().filter_map(|line| line.split_once('\t'));
        Ok(pairs
            .map(|(id, name)| (name.to_string(), id.to_string()))
            .collect())
    }

    /// Fetches one object with what it needs and no history; all of the repository if the server
    /// does not give single ones.
    fn obtain(&mut self, id: &str, refs: &Refs) -> Result<(), GitError> {
        self.make(id)?;
        if self.has(id)? {
            return Ok(());
        }
        let refspec = format!("+{id}:refs/everbench/{id}");
        let output = self.fetch(&["--depth=1"], &[refspec])?;
        if output.status.success() && self.has(id)? {
            return Ok(());
        }
        let error = self.failed(&output);
        if error.is_transient() {
            return Err(error);
        }
        self.everything(refs)?;
        if self.has(id)? {
            return Ok(());
        }
        Err(self.no_revision(id, refs))
    }

    /// Fetches all branches and tags with their history.
    fn everything(&mut self, refs: &Refs) -> Result<(), GitError> {
        let Some(id) = refs.values().next() else {
            return Err(GitError::NoRepository {
                url: self.url.clone(),
                said: "it has no branch and no tag".into(),
            });
        };
        self.make(id)?;
        let mut refspecs = vec![
            "+refs/heads/*:refs/heads/*".to_string(),
            "+refs/tags/*:refs/tags/*".to_string(),
        ];
        if refs.contains_key("HEAD") {
            refspecs.push(format!("+HEAD:{HEAD}"));
        }
        let shallow = self.dir.join("shallow").exists();
        let more: &[&str] = if shallow { &["--unshallow"] } else { &[] };
        let output = self.fetch(more, &refspecs)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(self.failed(&output)),
        }
    }

    fn fetch(&self, more: &[&str], refspecs: &[String]) -> Result<Output, GitError> {
        let args = [
            "fetch",
            "--quiet",
            "--force",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--update-head-ok",
        ];
        let all = args.iter().copied().chain(more.iter().copied());
        let refspecs = refspecs.iter().map(String::as_str);
        self.run(all.chain(["--", self.url.as_str()]).chain(refspecs))
    }

    /// The commit that an object is or points to.
    fn commit_of(&self, revision: &str, id: &str) -> Result<String, GitError> {
        let object = format!("{id}^{{commit}}");
        let output = self.run([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &object,
        ])?;
        let found = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if output.status.success() && is_commit(&found) {
            return Ok(found);
        }
        let output = self.run(["cat-file", "-t", id])?;
        Err(GitError::NotACommit {
            url: self.url.clone(),
            revision: revision.to_string(),
            what: format!("a {}", String::from_utf8_lossy(&output.stdout).trim()),
        })
    }

    fn tree(&self, commit: &str, source: &GitSource) -> Result<Tree, GitError> {
        let refused = |why| GitError::Refused {
            commit: commit.to_string(),
            why,
        };
        let output = self.run(["ls-tree", "-r", "-z", "--full-tree", commit])?;
        if !output.status.success() {
            return Err(self.failed(&output));
        }
        let mut entries =
            listing(&output.stdout).ok_or_else(|| self.odd("its list of a tree is odd"))?;
        if let Some(path) = &source.path_inside {
            let prefix = format!("{path}/");
            let wanted = |e: &Entry<'_>| e.path.starts_with(prefix.as_bytes());
            if !entries.iter().any(wanted) {
                let names: Vec<_> = entries
                    .iter()
                    .map(|e| String::from_utf8_lossy(e.path))
                    .collect();
                let names = names.iter().map(|name| name.as_ref());
                return Err(refused(no_directory(path, names)));
            }
            entries.retain(wanted);
        }
        let links: Vec<String> = entries
            .iter()
            .filter(|e| e.mode == b"160000")
            .map(|e| String::from_utf8_lossy(e.path).into_owned())
            .collect();
        if !links.is_empty() && !source.without_submodules {
            return Err(GitError::Submodules {
                commit: commit.to_string(),
                count: links.len(),
                paths: first(&links),
            });
        }
        let tree = self.read(&entries, &refused)?;
        inside(tree, source.path_inside.as_deref()).map_err(refused)
    }

    /// Reads the entries' bytes through one process.
    fn read(
        &self,
        entries: &[Entry<'_>],
        refused: &dyn Fn(Refused) -> GitError,
    ) -> Result<Tree, GitError> {
        let mut child = self
            .command(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| self.no_git(error))?;
        let (Some(ask), Some(answer)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(self.odd("it has no pipes"));
        };
        let mut objects = Objects {
            ask,
            answer: BufReader::new(answer),
        };
        let collected = self.collect(entries, &mut objects, refused);
        // Its input is closed here, so it ends; after an error it may still be writing.
        drop(objects);
        let _ = child.kill();
        let _ = child.wait();
        collected
    }

    fn collect(
        &self,
        entries: &[Entry<'_>],
        objects: &mut Objects,
        refused: &dyn Fn(Refused) -> GitError,
    ) -> Result<Tree, GitError> {
        let limits = Limits::default();
        let mut collector = Collector::new(limits);
        let mut known: BTreeMap<&[u8], Arc<[u8]>> = BTreeMap::new();
        for entry in entries {
            let path = text(entry.path).map_err(refused)?;
            if entry.mode == b"160000" {
                collector.leave_out(path);
                continue;
            }
            let bytes = match known.get(entry.id) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes = objects
                        .get(entry.id, limits.file_bytes)
                        .map_err(|e| self.odd(&e.to_string()))?
                        .ok_or_else(|| {
                            refused(Refused::TooLarge {
                                path: format!("{path:?}"),
                                what: "bytes in one file",
                                limit: limits.file_bytes,
                            })
                        })?;
                    known.insert(entry.id, bytes.clone());
                    bytes
                }
            };
            match entry.mode {
                b"120000" => collector.link(path, &bytes),
                mode => {
                    // Old repositories have other modes than 100644 and 100755.
                    let executable = matches!(mode.get(3), Some(b'1' | b'3' | b'5' | b'7'));
                    collector.shared(path, executable, bytes)
                }
            }
            .map_err(refused)?;
        }
        collector.finish().map_err(refused)
    }

    fn odd(&self, said: &str) -> GitError {
        GitError::Git {
            url: self.url.clone(),
            said: said.to_string(),
            mirror: self.dir.clone(),
        }
    }

    fn no_revision(&self, revision: &str, refs: &Refs) -> GitError {
        let mut names: Vec<&str> = refs
            .keys()
            .filter(|name| !name.ends_with("^{}"))
            .filter_map(|name| {
                name.strip_prefix("refs/heads/")
                    .or(name.strip_prefix("refs/tags/"))
            })
            .collect();
        names.sort_by_key(|name| (strsim::damerau_levenshtein(name, revision), *name));
        let names: Vec<String> = names.into_iter().map(str::to_string).collect();
        GitError::NoRevision {
            url: self.url.clone(),
            revision: revision.to_string(),
            there: first(&names),
        }
    }

    /// Why a command failed, from git's words.
    fn failed(&self, output: &Output) -> GitError {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines = said.lines().map(str::trim).filter(|l| !l.is_empty());
        let told = |l: &&str| l.starts_with("fatal:") || l.starts_with("ERROR:");
        let line = lines.clone().find(told).or(lines.clone().next_back());
        let line = match line {
            Some(line) => line.trim_start_matches("fatal: ").to_string(),
            None => format!("it said nothing ({})", output.status),
        };
        let has = |parts: &[&str]| parts.iter().any(|p| said.contains(p));
        let url = self.url.clone();
        let network = [
            "Could not resolve",
            "Couldn't resolve",
            "Failed to connect",
            "Couldn't connect",
            "Connection refused",
            "Connection reset",
            "Connection timed out",
            "Operation timed out",
            "Operation too slow",
            "Temporary failure",
            "Network is unreachable",
            "unable to connect",
            "early EOF",
            "RPC failed",
            "returned error: 429",
            "returned error: 5",
            "unexpected disconnect",
            "the remote end hung up",
        ];
        let absent = [
            "does not appear to be a git repository",
            "not a git repository",
            "does not exist",
            "epository not found",
            "repository '",
            "Authentication failed",
            "could not read Username",
            "Permission denied",
            "returned error: 40",
            "transport '",
            "No such file or directory",
        ];
        // A missing repository ends the connection too, so that is asked first.
        if has(&absent) {
            return GitError::NoRepository { url, said: line };
        }
        if has(&network) {
            return GitError::Network { url, said: line };
        }
        self.odd(&line)
    }
}

/// A git configuration in place of the user's and the system's.
fn configuration(safe: &[PathBuf]) -> String {
    let mut text = String::from(
        "[core]\n\thooksPath = /dev/null\n[protocol \"ext\"]\n\tallow = never\n\
         [http]\n\tlowSpeedLimit = 1000\n\tlowSpeedTime = 60\n[gc]\n\tauto = 0\n[safe]\n",
    );
    for path in safe {
        let path = path.display().to_string();
        let path = path.replace('\\', "\\\\").replace('"', "\\\"");
        let path = path.replace('\n', "\\n").replace('\t', "\\t");
        text.push_str(&format!("\tdirectory = \"{path}\"\n"));
    }
    text
}

/// Whether git would take it for a URL; `host:path` is one.
fn is_url(location: &str) -> bool {
    let scp = |l: &str| {
        l.split_once(':')
            .is_some_and(|(host, _)| !host.contains('/'))
    };
    location.contains("://") || scp(location)
}

fn first(names: &[String]) -> String {
    let mut listed = names[..names.len().min(LISTED)].join(", ");
    match names.len().checked_sub(LISTED) {
        Some(more) if more > 0 => listed.push_str(&format!(" and {more} more")),
        _ if names.is_empty() => listed.push_str("none"),
        _ => {}
    }
    listed
}

/// A line of `ls-tree`.
struct Entry<'a> {
    mode: &'a [u8],
    id: &'a [u8],
    path: &'a [u8],
}

fn listing(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let lines = bytes.split(|b| *b == 0).filter(|l| !l.is_empty());
    lines
        .map(|line| {
            let tab = line.iter().position(|b| *b == b'\t')?;
            let mut words = line[..tab].split(|b| *b == b' ');
            let (mode, _, id) = (words.next()?, words.next()?, words.next()?);
            Some(Entry {
                mode,
                id,
                path: &line[tab + 1..],
            })
        })
        .collect()
}

/// A running `cat-file --batch`.
pub(super) struct Objects {
    pub(super) ask: std::process::ChildStdin,
    pub(super) answer: BufReader<std::process::ChildStdout>,
}

impl Objects {
    /// An object's bytes; `None` when there are more than `most`.
    pub(super) fn get(&mut self, id: &[u8], most: u64) -> io::Result<Option<Arc<[u8]>>> {
        let head = self.ask(id)?;
        let size = head.trim_end().rsplit(' ').next().unwrap_or_default();
        let size: u64 = size
            .parse()
            .map_err(|_| io::Error::other(format!("object {}", head.trim_end())))?;
        self.take(size, most)
    }

    /// The object that a name stands for: its id and bytes. `None` when there is none, or when it
    /// has more than `most` bytes.
    pub(super) fn look_up(
        &mut self,
        name: &[u8],
        most: u64,
    ) -> io::Result<Option<(String, Arc<[u8]>)>> {
        let head = self.ask(name)?;
        let mut words = head.trim_end().rsplit(' ');
        let size = words.next().and_then(|s| s.parse::<u64>().ok());
        let (Some(size), Some(_), Some(id)) = (size, words.next(), words.next()) else {
            // `missing`, `ambiguous`; anything else is git's end.
            return match head.is_empty() {
                true => Err(io::Error::other("cat-file ended")),
                false => Ok(None),
            };
        };
        let id = id.to_string();
        Ok(self.take(size, most)?.map(|bytes| (id, bytes)))
    }

    fn ask(&mut self, name: &[u8]) -> io::Result<String> {
        self.ask.write_all(name)?;
        self.ask.write_all(b"\n")?;
        let mut head = String::new();
        self.answer.read_line(&mut head)?;
        Ok(head)
    }

    /// Takes an object of this size, or passes over it.
    fn take(&mut self, size: u64, most: u64) -> io::Result<Option<Arc<[u8]>>> {
        if size > most {
            let mut left = (&mut self.answer).take(size + 1);
            io::copy(&mut left, &mut io::sink())?;
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        self.answer.read_exact(&mut bytes)?;
        let mut end = [0];
        self.answer.read_exact(&mut end)?;
        Ok(Some(bytes.into()))
    }
}
