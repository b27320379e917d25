//! Looks at the machine: what files of the system hold, and what its programs are made of. Paths
//! are those of the sandbox, which shows the system's folders under their own names. Nothing of a
//! subject is touched here, and no file is looked at twice: in one process it holds one thing.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::base::texts;
use super::toolchain::{loaded, visible};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output, Registry};
use crate::job::Job;
use crate::oss::artifact;
use crate::oss::environment::{FILES, Files, PROGRAMS};

/// How a file is read: its bytes' digest, nothing if it is not there.
type Reader = dyn Fn(&str) -> io::Result<Option<Digest>> + Send + Sync;

/// The system as this process sees it.
pub struct System {
    /// Files that change later than this are caught by [`System::unchanged`].
    since: SystemTime,
    read: Box<Reader>,
    seen: Mutex<HashMap<String, Option<Digest>>>,
}

impl System {
    /// The machine's own.
    pub fn of_machine() -> System {
        System::with(|name| match std::fs::read(name) {
            Ok(bytes) => Ok(Some(Digest::of(&bytes))),
            Err(e) if is_absence(&e) => Ok(None),
            Err(e) => Err(e),
        })
    }

    /// One that holds what `read` says: for tests, which cannot change a machine.
    pub fn with(
        read: impl Fn(&str) -> io::Result<Option<Digest>> + Send + Sync + 'static,
    ) -> System {
        System {
            since: SystemTime::now(),
            read: Box::new(read),
            seen: Mutex::default(),
        }
    }

    /// What a file holds.
    pub fn file(&self, name: &str) -> Result<Option<Digest>, Failure> {
        let lock = || {
            self.seen
                .lock()
                .expect("nothing panics while it holds the lock")
        };
        if let Some(known) = lock().get(name) {
            return Ok(*known);
        }
        let digest =
            (self.read)(name).map_err(|e| Failure::Transient(format!("looking at {name}: {e}")))?;
        // Of two that looked at once, the first is believed by both.
        Ok(*lock().entry(name.to_string()).or_insert(digest))
    }

    /// What these files hold.
    pub fn files<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Result<Files, Failure> {
        let one = |name: &String| Ok((name.clone(), self.file(name)?));
        names.into_iter().map(one).collect()
    }

    /// Refuses what was made of files of which one has changed since this process began: it is not
    /// known which state of it was read.
    pub fn unchanged<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), Failure> {
        use std::os::unix::fs::MetadataExt;
        let since = self.since.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.map_or(0, |t| i64::try_from(t.as_secs()).unwrap_or(i64::MAX));
        for name in names {
            let path = Path::new(name);
            let states = [path.symlink_metadata(), path.metadata()];
            if states.iter().flatten().any(|meta| meta.ctime() > since) {
                return Err(Failure::Fatal {
                    what: format!("{name} changed while the subject was being built"),
                    help: "run again when the system's packages are as they should be".into(),
                });
            }
        }
        Ok(())
    }

    /// Programs of the system, the interpreters that their first lines name, and the libraries that
    /// all of these load. `path` is where names without a `/` are looked for.
    fn programs(&self, names: Vec<String>, path: &str) -> Result<Files, Failure> {
        let mut files = Files::new();
        let mut open = names;
        while let Some(name) = open.pop() {
            let Some(found) = which(&name, path) else {
                files.insert(name, None);
                continue;
            };
            if files.contains_key(&found) {
                continue;
            }
            files.insert(found.clone(), self.file(&found)?);
            let trouble = |e| Failure::Transient(format!("looking at {found}: {e}"));
            match first_bytes(Path::new(&found)).map_err(trouble)? {
                start if start.starts_with(b"#!") => open.extend(interpreters(&start)),
                start if start.starts_with(ELF) => {
                    for library in loaded(&[Path::new(&found)]) {
                        let library = library.display().to_string();
                        let digest = self.file(&library)?;
                        files.insert(library, digest);
                    }
                }
                _ => {}
            }
        }
        Ok(files)
    }
}

/// How a program or a library begins.
pub(super) const ELF: &[u8] = b"\x7fELF";

/// As much of a file as the kernel reads of a script's first line.
pub(super) fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(256);
    std::fs::File::open(path)?
        .take(256)
        .read_to_end(&mut start)?;
    Ok(start)
}

/// The programs that the first line of a script names: the interpreter, and the one that `env` is
/// to find.
pub(super) fn interpreters(start: &[u8]) -> Vec<String> {
    let line = start.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!").unwrap_or_default());
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else {
        return Vec::new();
    };
    let mut found = vec![first.to_string()];
    if first.ends_with("/env") {
        let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
        found.extend(named.map(str::to_string));
    }
    found
}

/// Where a program of the system is that is called by `name`.
fn which(name: &str, path: &str) -> Option<String> {
    if name.contains('/') {
        return shown(name).filter(|found| Path::new(found).is_file());
    }
    let places = path.split(':').filter(|dir| dir.starts_with('/'));
    let mut found = places.filter_map(|dir| shown(&format!("{dir}/{name}")));
    found.find(|found| Path::new(found).is_file())
}

/// The name of a file of the system in keys: without `.` and `..`, links as they were named. Nothing
/// for what the sandbox does not show, or has no name in UTF-8.
pub(super) fn shown(path: &str) -> Option<String> {
    let mut short = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                short.pop();
            }
            Component::CurDir => {}
            other => short.push(other),
        }
    }
    // After a link to a folder, `..` leads elsewhere than it seems.
    let same = || Some(short.canonicalize().ok()? == Path::new(path).canonicalize().ok()?);
    let name = match same() {
        Some(true) => short,
        _ => PathBuf::from(path),
    };
    let real = visible(&name).then_some(name)?;
    Some(real.to_str()?.to_string())
}

fn is_absence(e: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(e.kind(), NotFound | IsADirectory | NotADirectory)
}

/// Registers the observations.
pub fn register(registry: &mut Registry, system: &Arc<System>) {
    registry.add(FILES, 0, Arc::new(LookAtFiles(system.clone())));
    registry.add(PROGRAMS, 0, Arc::new(LookAtPrograms(system.clone())));
}

/// Runs jobs of kind `env/files`.
struct LookAtFiles(Arc<System>);

impl Executor for LookAtFiles {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        Ok(output(&self.0.files(&texts(job.list("names")))?))
    }
}

/// Runs jobs of kind `env/programs`.
struct LookAtPrograms(Arc<System>);

impl Executor for LookAtPrograms {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        let names = texts(job.list("programs"));
        Ok(output(&self.0.programs(names, job.text("path"))?))
    }
}

fn output(files: &BTreeMap<String, Option<Digest>>) -> Output {
    Output {
        bytes: artifact::write(files),
        blobs: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_name_interpreters() {
        let of = |line: &str| interpreters(line.as_bytes());
        assert_eq!(of("#!/bin/sh\necho"), ["/bin/sh"]);
        assert_eq!(of("#! /usr/bin/perl -w\n"), ["/usr/bin/perl"]);
        assert_eq!(of("#!/usr/bin/env python3\n"), ["/usr/bin/env", "python3"]);
        assert_eq!(
            of("#!/usr/bin/env -S A=1 tclsh -x"),
            ["/usr/bin/env", "tclsh"]
        );
        assert_eq!(of("#!\n"), [""; 0]);
    }

    #[test]
    fn names_are_those_of_the_sandbox() {
        let crt = shown("/usr/lib/../include/./stdio.h");
        assert_eq!(crt.as_deref(), Some("/usr/include/stdio.h"));
        assert_eq!(shown("/etc/passwd"), None);
        assert_eq!(shown("/eb/tree/a.h"), None);
        assert_eq!(shown("<built-in>"), None);
    }

    #[test]
    fn a_file_holds_one_thing_for_a_process() {
        let count = Arc::new(Mutex::new(0));
        let looks = count.clone();
        let system = System::with(move |name| {
            let mut looks = looks.lock().unwrap();
            *looks += 1;
            Ok((name == "/usr/a").then(|| Digest::of(&[*looks])))
        });
        let names = ["/usr/a".to_string(), "/usr/b".to_string()];
        let first = system.files(&names).unwrap();
        assert_eq!(first["/usr/a"], Some(Digest::of(&[1])));
        assert_eq!(first["/usr/b"], None);
        assert_eq!(system.files(&names).unwrap(), first);
        assert_eq!(*count.lock().unwrap(), 2);
    }

    #[test]
    fn a_program_is_all_that_it_is_made_of() {
        let files = System::of_machine()
            .programs(
                vec!["ldd".into(), "no-such-program".into()],
                "/usr/bin:/bin",
            )
            .unwrap();
        assert!(files["/usr/bin/ldd"].is_some());
        // It is a script of bash, which is a program with libraries.
        let named = |end: &str| files.iter().any(|(n, d)| n.ends_with(end) && d.is_some());
        assert!(named("/bash") && named("/libc.so.6"), "{files:?}");
        assert_eq!(files["no-such-program"], None);
    }
}
