//! What commits change, read out of a git repository by git's own commands and without a checkout:
//! one `cat-file --batch` and one `diff-tree --stdin` serve any number of commits, so that a commit
//! costs what it changes and not what its repository holds. No configuration of the user's or of
//! the repository's takes part; renames are looked for among a bounded number of files.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use bstr::ByteSlice;

use super::git::{CLEARED, Objects};

/// Renames are looked for only if at most so many files were added or removed.
pub const RENAME_LIMIT: u32 = 200;

/// Why a commit could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no git.
    #[error("cannot run git: {0}; install it (on Debian: `apt-get install git`)")]
    NoGit(io::Error),
    /// The path is no repository.
    #[error("{}: this is no git repository", .0.display())]
    NoRepository(PathBuf),
    /// The repository does not have the commit, or not its parent.
    #[error("{} does not have commit {commit}{}", repository.display(), if *.parent { "'s parent: it is a shallow clone" } else { "" })]
    NoCommit {
        /// The repository.
        repository: PathBuf,
        /// The commit as asked for.
        commit: String,
        /// Whether it is only its parent that is missing.
        parent: bool,
    },
    /// Objects of its history cannot be read: a clone that is not whole, or a damaged one.
    #[error("{} is not whole: {said}", repository.display())]
    NotWhole {
        /// The repository.
        repository: PathBuf,
        /// What git says.
        said: String,
    },
    /// Git ended or said something that it should not.
    #[error("git failed on {}: {error}", repository.display())]
    Git {
        /// The repository.
        repository: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

/// A commit with the files it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Its full id.
    pub id: String,
    /// Ids of its parents.
    pub parents: Vec<String>,
    /// When it was committed, in seconds since 1970.
    pub committed: i64,
    /// The files, if it has one parent; a merge and a root list none.
    pub files: Vec<FileChange>,
}

/// A file that a commit changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileChange {
    /// Its path before, and the object's id; nothing if it was added.
    pub before: Option<(String, String)>,
    /// Its path after, and the object's id; nothing if it was removed.
    pub after: Option<(String, String)>,
    /// Whether both sides are ordinary files: not links, not submodules.
    pub regular: bool,
}

impl FileChange {
    /// Out of a line of git's raw format, perhaps with its colon, and the paths behind it: the second
    /// one is there if the file was renamed or copied.
    pub(super) fn of_raw(head: &str, path: String, to: Option<String>) -> Option<FileChange> {
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let [old_mode, new_mode, old, new, _] = words[..] else {
            return None;
        };
        let to = to.unwrap_or_else(|| path.clone());
        let there = |mode: &str| mode.bytes().any(|b| b != b'0');
        let regular = |mode: &str| !there(mode) || mode.starts_with("100");
        Some(FileChange {
            regular: regular(old_mode) && regular(new_mode),
            before: there(old_mode).then(|| (path, old.to_string())),
            after: there(new_mode).then(|| (to, new.to_string())),
        })
    }
}

/// A repository that is being read: two processes, which end with it.
pub struct History {
    path: PathBuf,
    dir: PathBuf,
    objects: Objects,
    ask: ChildStdin,
    changes: BufReader<ChildStdout>,
    children: [Child; 2],
}

impl History {
    /// Starts reading the repository at `path`: a work tree's folder or a bare repository.
    ///
    /// # Errors
    /// No git, no repository.
    pub fn open(path: &Path) -> Result<History, HistoryError> {
        let (whole, dir) = places(path)?;
        let (first, ask, answer) = start(&dir, &["cat-file", "--batch"])?;
        let limit = format!("-l{RENAME_LIMIT}");
        let (second, commits, changes) = start(
            &dir,
            &[
                "diff-tree",
                "--stdin",
                "-r",
                "--raw",
                "-z",
                "--no-abbrev",
                "--no-commit-id",
                "--no-ext-diff",
                "-M",
                &limit,
            ],
        )?;
        Ok(History {
            path: whole,
            dir,
            objects: Objects {
                ask,
                answer: BufReader::new(answer),
            },
            ask: commits,
            changes: BufReader::new(changes),
            children: [first, second],
        })
    }

    /// The commit that `id` names, perhaps abbreviated, and what it changes.
    ///
    /// # Errors
    /// [`HistoryError::NoCommit`] leaves this usable for other commits.
    pub fn commit(&mut self, id: &str) -> Result<Commit, HistoryError> {
        let gone = |repository: &Path, parent| HistoryError::NoCommit {
            repository: repository.to_path_buf(),
            commit: id.to_string(),
            parent,
        };
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(gone(&self.path, false));
        }
        let found = self
            .objects
            .look_up(format!("{id}^{{commit}}").as_bytes(), 1 << 20)
            .map_err(|e| failed(&self.path, e))?;
        let Some((full, bytes)) = found else {
            return Err(gone(&self.path, false));
        };
        let mut commit = header(full, &bytes);
        if let [parent] = &commit.parents[..] {
            // In a shallow clone the parent may be missing, and `diff-tree` would end over it; or it
            // is there, and git takes the commit for a root unless it is told otherwise. A clone can
            // become shallow by a fetch; where a file stands for its directory it may be anywhere.
            if !self.dir.is_dir() || self.dir.join("shallow").exists() {
                let tree = format!("{parent}^{{tree}}");
                let known = self.objects.look_up(tree.as_bytes(), u64::MAX);
                if known.map_err(|e| failed(&self.path, e))?.is_none() {
                    return Err(gone(&self.path, true));
                }
            }
            let both = format!("{} {parent}", commit.id);
            commit.files = self.changed(&both).map_err(|e| failed(&self.path, e))?;
        }
        Ok(commit)
    }

    /// An object's bytes; nothing if there are more than `most`.
    ///
    /// # Errors
    /// Git has no such object, or ended.
    pub fn blob(&mut self, id: &str, most: u64) -> Result<Option<Arc<[u8]>>, HistoryError> {
        let read = self.objects.get(id.as_bytes(), most);
        read.map_err(|e| failed(&self.path, e))
    }

    /// The bytes of a file at a commit; nothing if it has none of that name or a longer one.
    ///
    /// # Errors
    /// Git ended.
    pub fn file(
        &mut self,
        commit: &str,
        path: &str,
        most: u64,
    ) -> Result<Option<Arc<[u8]>>, HistoryError> {
        let object = format!("{commit}:{path}");
        let found = self.objects.look_up(object.as_bytes(), most);
        let found = found.map_err(|e| failed(&self.path, e))?;
        Ok(found.map(|(_, bytes)| bytes))
    }

    /// The files at the top of a commit's tree that are ordinary files: name and object, as the tree
    /// has them.
    ///
    /// # Errors
    /// Git ended.
    pub fn top(&mut self, commit: &str) -> Result<Vec<(String, String)>, HistoryError> {
        let object = format!("{commit}^{{tree}}");
        let found = self.objects.look_up(object.as_bytes(), u64::MAX);
        let found = found.map_err(|e| failed(&self.path, e))?;
        Ok(found.map_or_else(Vec::new, |(id, bytes)| files_of_tree(&bytes, id.len() / 2)))
    }

    /// The full id of a commit; nothing if there is none of that name.
    ///
    /// # Errors
    /// Git ended.
    pub fn id(&mut self, commit: &str) -> Result<Option<String>, HistoryError> {
        if commit.is_empty() || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let name = format!("{commit}^{{commit}}");
        let found = self.objects.look_up(name.as_bytes(), u64::MAX);
        let found = found.map_err(|e| failed(&self.path, e))?;
        Ok(found.map(|(id, _)| id))
    }

    /// The object that a file is at a commit; nothing if there is no such file.
    ///
    /// # Errors
    /// Git ended.
    pub fn object(&mut self, commit: &str, path: &str) -> Result<Option<String>, HistoryError> {
        let object = format!("{commit}:{path}");
        let found = self.objects.look_up(object.as_bytes(), u64::MAX);
        let found = found.map_err(|e| failed(&self.path, e))?;
        Ok(found.map(|(id, _)| id))
    }

    /// The files that differ between a commit and its parent, both by their ids.
    fn changed(&mut self, commit_and_parent: &str) -> io::Result<Vec<FileChange>> {
        // A line that is no id is repeated as it is: where the answer ends.
        writeln!(self.ask, "{commit_and_parent}\nend")?;
        self.ask.flush()?;
        let mut files = Vec::new();
        loop {
            let mut first = [0];
            self.changes.read_exact(&mut first)?;
            if first[0] != b':' {
                let mut rest = Vec::new();
                self.changes.read_until(b'\n', &mut rest)?;
                return match (first[0], &rest[..]) {
                    (b'e', b"nd\n") => Ok(files),
                    _ => Err(io::Error::other("diff-tree gave an odd line")),
                };
            }
            let head = self.until_zero()?;
            let path = self.until_zero()?;
            let to = match head
                .rsplit(' ')
                .next()
                .is_some_and(|s| s.starts_with(['R', 'C']))
            {
                true => Some(self.until_zero()?),
                false => None,
            };
            let change = FileChange::of_raw(&head, path, to);
            files.push(change.ok_or_else(|| io::Error::other(format!("diff-tree gave `{head}`")))?);
        }
    }

    fn until_zero(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.changes.read_until(0, &mut bytes)?;
        if bytes.pop() != Some(0) {
            return Err(io::Error::other("diff-tree ended"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The repository at `path` and its git directory.
pub(super) fn places(path: &Path) -> Result<(PathBuf, PathBuf), HistoryError> {
    let no_repository = || HistoryError::NoRepository(path.to_path_buf());
    let whole = path.canonicalize().map_err(|_| no_repository())?;
    let inside = whole.join(".git");
    let dir = match inside.exists() {
        true => inside,
        false => whole.clone(),
    };
    if dir.is_dir() && !dir.join("HEAD").exists() {
        return Err(no_repository());
    }
    Ok((whole, dir))
}

/// A command of git on a git directory, without any configuration.
pub(super) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    for name in CLEARED {
        command.env_remove(name);
    }
    // Whose repository it is does not matter to reading objects, and is allowed for this call only.
    let safe = |path: &Path| format!("safe.directory={}", path.display());
    let worktree = dir.parent().unwrap_or(dir);
    command
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(["-c", &safe(dir), "-c", &safe(worktree)])
        .arg("--git-dir")
        .arg(dir)
        .args(args)
        .stderr(Stdio::null());
    command
}

fn start(dir: &Path, args: &[&str]) -> Result<(Child, ChildStdin, ChildStdout), HistoryError> {
    let mut child = command(dir, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(HistoryError::NoGit)?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(ask), Some(answer)) => Ok((child, ask, answer)),
        _ => Err(HistoryError::NoGit(io::Error::other("it has no pipes"))),
    }
}

pub(super) fn failed(repository: &Path, error: io::Error) -> HistoryError {
    HistoryError::Git {
        repository: repository.to_path_buf(),
        error,
    }
}

/// The ordinary files in a tree object: each entry is its mode, a blank, its name, a zero byte and its
/// id of `width` bytes.
fn files_of_tree(mut tree: &[u8], width: usize) -> Vec<(String, String)> {
    let mut files = Vec::new();
    while let Some(end) = tree.iter().position(|b| *b == 0) {
        let (Some((mode, name)), Some(id)) = (
            tree[..end].split_once_str(" "),
            tree.get(end + 1..end + 1 + width),
        ) else {
            break;
        };
        if mode.starts_with(b"100") {
            let id = id.iter().map(|b| format!("{b:02x}")).collect();
            files.push((String::from_utf8_lossy(name).into_owned(), id));
        }
        tree = &tree[end + 1 + width..];
    }
    files
}

/// Parents and date out of a commit object.
fn header(id: String, bytes: &[u8]) -> Commit {
    let text = String::from_utf8_lossy(bytes);
    let lines = || text.lines().take_while(|l| !l.is_empty());
    let parents = lines().filter_map(|l| l.strip_prefix("parent "));
    let committed = lines().find_map(|l| {
        let (_, when) = l.strip_prefix("committer ")?.rsplit_once('>')?;
        when.split_whitespace().next()?.parse().ok()
    });
    Commit {
        id,
        parents: parents.map(str::to_string).collect(),
        committed: committed.unwrap_or(0),
        files: Vec::new(),
    }
}
