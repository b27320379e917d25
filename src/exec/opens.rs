//! Which files of the tree a test run opens. Each run sees the tree through a folder of its own,
//! a stand, whose files are hard links to the tree's: the kernel tells who watches a folder what is
//! opened in it, by any process and through any mount, and in a stand nobody else opens anything.
//! What is only looked up (a name that is not there, a size, a time) is not seen.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::trees::Trees;
use crate::oss::artifact::EVERYTHING;

/// The stands of this process that no run uses at the moment, by their trees.
#[derive(Default)]
pub struct Stands(Mutex<HashMap<PathBuf, Vec<tempfile::TempDir>>>);

/// A folder that looks like a tree; given back when it is dropped.
pub struct Stand<'a> {
    stands: &'a Stands,
    tree: PathBuf,
    dir: Option<tempfile::TempDir>,
}

impl Stands {
    /// A stand of `tree`, which must not change while there are any.
    pub fn take<'a>(&'a self, trees: &Trees, tree: &Path) -> io::Result<Stand<'a>> {
        let free = self.lock().get_mut(tree).and_then(Vec::pop);
        let dir = match free {
            Some(dir) => dir,
            None => {
                let dir = trees.scratch()?;
                link(tree, &dir.path().join("tree"))?;
                dir
            }
        };
        Ok(Stand {
            stands: self,
            tree: tree.to_path_buf(),
            dir: Some(dir),
        })
    }

    /// How many stands lie ready.
    pub fn ready(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Vec<tempfile::TempDir>>> {
        self.0
            .lock()
            .expect("nothing panics while it holds the lock")
    }
}

impl Stand<'_> {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        let dir = self.dir.as_ref().expect("it is there until it is dropped");
        dir.path().join("tree")
    }
}

impl Drop for Stand<'_> {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take() {
            let tree = std::mem::take(&mut self.tree);
            self.stands.lock().entry(tree).or_default().push(dir);
        }
    }
}

/// Makes `to` a folder of hard links to the files of `from`; symbolic links are made again.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if found.is_file() {
        return fs::hard_link(from, to);
    }
    if !found.is_dir() {
        // Sockets and pipes that a build has left say nothing to a test.
        return Ok(());
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        link(&entry.path(), &to.join(entry.file_name()))?;
    }
    fs::set_permissions(to, found.permissions())
}

/// A part of what a run sees of the tree.
pub struct Seen {
    /// The folder on the host.
    pub host: PathBuf,
    /// Where it is in the tree; empty for the root.
    pub inside: String,
    /// Whether the run may write to it. What a run has made is nothing it read, and who measures how
    /// much it writes opens its folders: so all of these count as listed.
    pub writable: bool,
}

/// Watches folders until it is asked what was opened.
pub struct Watch {
    fd: Arc<std::os::fd::OwnedFd>,
    /// Path in the tree of each watched folder, by its number.
    folders: Arc<HashMap<i32, String>>,
    listed: BTreeSet<String>,
    done: Arc<AtomicBool>,
    reader: Option<JoinHandle<Opens>>,
}

#[derive(Default)]
struct Opens {
    paths: BTreeSet<String>,
    overflow: bool,
}

impl Watch {
    /// Starts to watch; nothing where the kernel has no more watches to give.
    pub fn start(parts: &[Seen]) -> io::Result<Option<Watch>> {
        let fd = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::MFILE | Errno::NFILE) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let (mut folders, mut listed) = (HashMap::new(), BTreeSet::new());
        for part in parts {
            for entry in walkdir::WalkDir::new(&part.host) {
                let entry = entry?;
                if !entry.file_type().is_dir() {
                    continue;
                }
                let below = entry.path().strip_prefix(&part.host).ok();
                let Some(below) = below.and_then(Path::to_str) else {
                    continue;
                };
                let path = joined(&part.inside, below);
                let wanted = WatchFlags::OPEN | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
                match inotify::add_watch(&fd, entry.path(), wanted) {
                    Ok(number) => {
                        if part.writable {
                            listed.insert(folder(&path));
                        }
                        folders.insert(number, path);
                    }
                    Err(Errno::NOSPC) => return Ok(None),
                    Err(e) => return Err(e.into()),
                }
            }
        }
        let mut watch = Watch {
            fd: Arc::new(fd),
            folders: Arc::new(folders),
            listed,
            done: Arc::default(),
            reader: None,
        };
        let (fd, folders, done) = (watch.fd.clone(), watch.folders.clone(), watch.done.clone());
        watch.reader = Some(std::thread::spawn(move || read(&fd, &folders, &done)));
        Ok(Some(watch))
    }

    /// What was opened since the start: files by their paths in the tree, folders with a `/` at
    /// the end; [`EVERYTHING`] if it was more than the kernel keeps.
    pub fn stop(mut self) -> BTreeSet<String> {
        let listed = std::mem::take(&mut self.listed);
        let Opens {
            mut paths,
            overflow,
        } = self.finish();
        if overflow {
            return BTreeSet::from([EVERYTHING.to_string()]);
        }
        paths.extend(listed);
        paths
    }

    fn finish(&mut self) -> Opens {
        self.done.store(true, Ordering::SeqCst);
        let reader = self.reader.take();
        // A reader that panicked has lost what was opened.
        let lost = Opens {
            paths: BTreeSet::new(),
            overflow: true,
        };
        reader.map_or(Opens::default(), |r| r.join().unwrap_or(lost))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Takes events until there are none and nobody waits for more.
fn read(fd: &std::os::fd::OwnedFd, folders: &HashMap<i32, String>, done: &AtomicBool) -> Opens {
    let mut out = Opens::default();
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    loop {
        // Before the last look, so that nothing can come between.
        let last = done.load(Ordering::SeqCst);
        loop {
            match reader.next() {
                Ok(event) => {
                    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        out.overflow = true;
                        continue;
                    }
                    let Some(at) = folders.get(&event.wd()) else {
                        continue;
                    };
                    let is_folder = event.events().contains(ReadFlags::ISDIR);
                    match event.file_name().map(|name| name.to_str()) {
                        // A folder tells of itself, and is told of by the one above.
                        None if is_folder => out.paths.insert(folder(at)),
                        Some(Ok(name)) if !is_folder => out.paths.insert(joined(at, name)),
                        _ => false,
                    };
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(_) => {
                    out.overflow = true;
                    return out;
                }
            }
        }
        if last {
            return out;
        }
        let mut wait = [PollFd::new(fd, PollFlags::IN)];
        let pause = Timespec::try_from(Duration::from_millis(10)).expect("it is short");
        let _ = poll(&mut wait, Some(&pause));
    }
}

fn joined(at: &str, below: &str) -> String {
    match (at, below) {
        ("", below) => below.to_string(),
        (at, "") => at.to_string(),
        (at, below) => format!("{at}/{below}"),
    }
}

fn folder(path: &str) -> String {
    format!("{path}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Trees, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 0).unwrap();
        let tree = dir.path().join("subject");
        for (path, text) in [("a.txt", "a"), ("t/one.txt", "1"), ("t/deep/two.txt", "2")] {
            let file = tree.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        std::os::unix::fs::symlink("t/one.txt", tree.join("link")).unwrap();
        (dir, trees, tree)
    }

    fn part(host: PathBuf, inside: &str, writable: bool) -> Seen {
        Seen {
            host,
            inside: inside.into(),
            writable,
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    #[test]
    fn a_stand_tells_what_is_opened_in_it_and_nowhere_else() {
        let (_dir, trees, tree) = tree();
        let stands = Stands::default();
        let (one, other) = (
            stands.take(&trees, &tree).unwrap(),
            stands.take(&trees, &tree).unwrap(),
        );
        let watch = Watch::start(&[part(one.path(), "", false)])
            .unwrap()
            .unwrap();
        let sh = |at: &Path, script: &str| {
            let status = std::process::Command::new("sh")
                .args(["-c", script])
                .current_dir(at)
                .status()
                .unwrap();
            assert!(status.success());
        };
        sh(
            &one.path(),
            "cat link t/deep/two.txt; ls t >/dev/null; test -e a.txt",
        );
        sh(&other.path(), "cat a.txt");
        fs::read(tree.join("a.txt")).unwrap();
        assert_eq!(watch.stop(), names(&["t/", "t/one.txt", "t/deep/two.txt"]));
        // It is used again, and what was opened before is not opened now.
        let at = one.path();
        drop(one);
        let again = stands.take(&trees, &tree).unwrap();
        assert_eq!(again.path(), at);
        let watch = Watch::start(&[part(again.path(), "", false)])
            .unwrap()
            .unwrap();
        assert_eq!(watch.stop(), names(&[]));
    }

    #[test]
    fn folders_that_may_be_written_to_count_as_listed() {
        let (_dir, trees, tree) = tree();
        let stands = Stands::default();
        let stand = stands.take(&trees, &tree).unwrap();
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("deep")).unwrap();
        let parts = [
            part(stand.path(), "", false),
            part(copy.path().to_path_buf(), "t", true),
        ];
        let watch = Watch::start(&parts).unwrap().unwrap();
        fs::write(copy.path().join("new.txt"), "new").unwrap();
        assert_eq!(watch.stop(), names(&["t/", "t/deep/", "t/new.txt"]));
    }

    #[test]
    fn more_than_the_kernel_keeps_is_everything() {
        let (_dir, trees, tree) = tree();
        let stands = Stands::default();
        let stand = stands.take(&trees, &tree).unwrap();
        let watch = Watch::start(&[part(stand.path(), "", false)])
            .unwrap()
            .unwrap();
        let all: BTreeSet<String> = {
            // Equal events in a row are one; these alternate, faster than anybody reads them.
            let (a, b) = (stand.path().join("a.txt"), stand.path().join("t/one.txt"));
            for _ in 0..200_000 {
                let _ = (fs::File::open(&a), fs::File::open(&b));
            }
            watch.stop()
        };
        // Either everything was read in time, or nothing is claimed.
        assert!(
            all == names(&[EVERYTHING]) || all == names(&["a.txt", "t/one.txt"]),
            "{all:?}"
        );
    }
}
