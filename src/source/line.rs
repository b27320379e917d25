//! The first-parent line of a branch, and what each of its commits changes: one `git log` serves many.
//! Nothing is checked out.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Stdio};

use super::history::{Commit, FileChange, HistoryError, RENAME_LIMIT, command, failed, places};

/// The commit that the default branch is at: what `HEAD` is in a bare repository, which has nothing
/// checked out; else that of its origin, if it has one. What a mirror keeps of others' origins may be old.
///
/// # Errors
/// No git, no repository, or one without a commit.
pub fn tip(repository: &Path) -> Result<String, HistoryError> {
    let (whole, dir) = places(repository)?;
    let bare = whole == dir && !dir.ends_with(".git");
    let names = match bare {
        true => ["HEAD", "refs/remotes/origin/HEAD"],
        false => ["refs/remotes/origin/HEAD", "HEAD"],
    };
    for name in names {
        let name = format!("{name}^{{commit}}");
        if let Some(id) = said(repository, &["rev-parse", "--verify", "--quiet", &name])? {
            return Ok(id);
        }
    }
    Err(HistoryError::NoCommit {
        repository: repository.to_path_buf(),
        commit: "HEAD".into(),
        parent: false,
    })
}

/// The ids of the first-parent commits up to `tip`, the oldest first, and when each was committed, in
/// seconds since 1970.
///
/// # Errors
/// No git, no repository, no such commit.
pub fn first_parents(repository: &Path, tip: &str) -> Result<Vec<(String, i64)>, HistoryError> {
    let read = |out: &mut BufReader<ChildStdout>| {
        let line = |line: io::Result<String>| {
            let line = line?;
            let (id, time) = line.split_once(' ').unwrap_or((&line, ""));
            let time = time.parse();
            let time = time.map_err(|_| io::Error::other(format!("log gave `{line}`")))?;
            Ok((id.to_string(), time))
        };
        out.lines().map(line).collect::<io::Result<Vec<_>>>()
    };
    log(repository, tip, &["--format=%H %ct"], read)
}

/// The last `count` first-parent commits up to `tip`, the oldest first. Each has the files by which it
/// differs from its first parent, merges too; renames are followed.
///
/// # Errors
/// No git, no repository, no such commit, or objects that it lacks.
pub fn changes(repository: &Path, tip: &str, count: usize) -> Result<Vec<Commit>, HistoryError> {
    let (limit, count) = (format!("-l{RENAME_LIMIT}"), format!("--max-count={count}"));
    let options = [
        &count,
        "--diff-merges=first-parent",
        "--root",
        "--raw",
        "-z",
        "-M",
        &limit,
        "--no-abbrev",
        "--no-ext-diff",
        "--format=%x01%H %ct %P",
    ];
    log(repository, tip, &options, commits)
}

/// What `git log` of the first parents says, turned round.
fn log<T>(
    repository: &Path,
    tip: &str,
    options: &[&str],
    read: impl FnOnce(&mut BufReader<ChildStdout>) -> io::Result<Vec<T>>,
) -> Result<Vec<T>, HistoryError> {
    let (_, dir) = places(repository)?;
    let head = ["log", "--first-parent", "--no-show-signature"];
    let args = [&head[..], options, &[tip, "--"]].concat();
    let mut child = command(&dir, &args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(HistoryError::NoGit)?;
    // Beside what is read of the log, so that neither waits for the other.
    let complaints = child.stderr.take().map(|mut complaints| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = io::Read::read_to_end(&mut complaints, &mut said);
            String::from_utf8_lossy(&said).into_owned()
        })
    });
    let output = child.stdout.take();
    let read = output.map(|out| read(&mut BufReader::new(out)));
    let status = child.wait().map_err(|e| failed(repository, e))?;
    let read = read.unwrap_or_else(|| Err(io::Error::other("it has no pipe")));
    let mut all = read.map_err(|e| failed(repository, e))?;
    let complaints = complaints.and_then(|thread| thread.join().ok());
    let said = complaints.unwrap_or_default();
    if !status.success() && (!all.is_empty() || said.contains("unable to read")) {
        return Err(HistoryError::NotWhole {
            repository: repository.to_path_buf(),
            said: said.lines().last().unwrap_or_default().to_string(),
        });
    }
    if !status.success() || all.is_empty() {
        return Err(HistoryError::NoCommit {
            repository: repository.to_path_buf(),
            commit: tip.to_string(),
            parent: false,
        });
    }
    all.reverse();
    Ok(all)
}

/// The commit of the line up to `tip` at which what is in `commit` was brought in, or from which it
/// was branched: the newest of the line that `commit` has in common with it.
///
/// # Errors
/// No git, no repository.
pub fn joined(
    repository: &Path,
    commit: &str,
    tip: &str,
    line: impl Fn(&str) -> bool,
) -> Result<Option<String>, HistoryError> {
    let Some(base) = said(repository, &["merge-base", commit, tip])? else {
        return Ok(None);
    };
    if line(&base) {
        return Ok(Some(base));
    }
    // A commit of a side branch has ancestors on the line.
    let (_, dir) = places(repository)?;
    let output = command(&dir, &["rev-list", "--topo-order", &base])
        .stdin(Stdio::null())
        .output()
        .map_err(HistoryError::NoGit)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().find(|id| line(id)).map(str::to_string))
}

/// What a command of git says; nothing if it fails.
fn said(repository: &Path, args: &[&str]) -> Result<Option<String>, HistoryError> {
    let (_, dir) = places(repository)?;
    let output = command(&dir, args)
        .stdin(Stdio::null())
        .output()
        .map_err(HistoryError::NoGit)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().filter(|_| output.status.success());
    Ok(first.map(str::to_string))
}

fn commits(log: &mut impl BufRead) -> io::Result<Vec<Commit>> {
    let mut all: Vec<Commit> = Vec::new();
    while let Some(part) = until_zero(log)? {
        let part = part.trim_start_matches('\n');
        if let Some(head) = part.strip_prefix('\u{1}') {
            let mut words = head.split(' ');
            let (id, time) = (words.next(), words.next().and_then(|t| t.parse().ok()));
            let (Some(id), Some(committed)) = (id, time) else {
                return Err(io::Error::other(format!("log gave `{head}`")));
            };
            all.push(Commit {
                id: id.to_string(),
                parents: words
                    .filter(|w| !w.is_empty())
                    .map(str::to_string)
                    .collect(),
                committed,
                files: Vec::new(),
            });
        } else if let (true, Some(commit)) = (part.starts_with(':'), all.last_mut()) {
            let (head, path) = (part.to_string(), until_zero(log)?.unwrap_or_default());
            let to = match head
                .rsplit(' ')
                .next()
                .is_some_and(|s| s.starts_with(['R', 'C']))
            {
                true => until_zero(log)?,
                false => None,
            };
            let change = FileChange::of_raw(&head, path, to);
            commit
                .files
                .push(change.ok_or_else(|| io::Error::other(format!("log gave `{head}`")))?);
        } else if !part.is_empty() {
            return Err(io::Error::other(format!("log gave `{part}`")));
        }
    }
    Ok(all)
}

fn until_zero(log: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if log.read_until(0, &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
