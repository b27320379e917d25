//! A store under the hardest use: its process is killed, its bytes are overwritten, the disk is
//! full, several processes want it. Invariant: what was acknowledged is there, and a value that
//! comes back is the value that was stored.
//!
//! The children are this test binary again: with `EVERBENCH_STORE_CHILD` set, the test
//! `child` does what it says instead of passing at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use everbench::digest::Digest;
use everbench::job::{Job, Kind, Nature, Value};
use everbench::store::{
    Access, Attempt, Completed, Entry, IndexCheck, Manifest, Problem, Provenance, Reader, Store,
    StoreError,
};

const ROLE: &str = "EVERBENCH_STORE_CHILD";
const DIR: &str = "EVERBENCH_STORE_DIR";

const KIND: Kind = Kind {
    name: "test/reply",
    version: 1,
    nature: Nature::Sampled,
};

fn open(dir: &Path) -> Store {
    Store::open(dir, Access::ReadWrite, "0.1.0").unwrap()
}

fn job(n: u64) -> Job {
    let prompt = format!("complete function {n}").into_bytes();
    Job::of(KIND)
        .put("n", n as i64)
        .blob("prompt", prompt)
        .done()
}

/// Bytes that do not compress, so that large ones are large on the disk too.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Every fifth output is large.
fn output(n: u64) -> Vec<u8> {
    noise(
        n,
        if n.is_multiple_of(5) {
            80_000
        } else {
            200 + n as usize % 900
        },
    )
}

fn completed(n: u64) -> Completed {
    Completed {
        job: job(n),
        output: output(n),
        blobs: vec![format!("log of {n}\n").repeat(20).into_bytes()],
        provenance: Provenance {
            tool: "test 1".into(),
            ..Provenance::default()
        },
    }
}

const BATCH: u64 = 7;

fn batch(i: u64) -> Vec<Completed> {
    (i * BATCH..(i + 1) * BATCH).map(completed).collect()
}

/// Whether batch `i` is there; fails if half of it is, or a value is wrong.
fn has_batch(reader: &Reader, i: u64) -> bool {
    let there: BTreeSet<bool> = (i * BATCH..(i + 1) * BATCH)
        .map(|n| {
            let found = reader.output(&job(n).key()).unwrap();
            if let Some(digest) = found {
                assert_eq!(*reader.blob(&digest).unwrap().unwrap(), *output(n));
                let action = reader.action(&job(n).key()).unwrap().unwrap();
                assert!(reader.blob(&action.blobs[0]).unwrap().is_some());
                assert!(reader.preimage(&job(n).digest("prompt")).unwrap().is_some());
            }
            found.is_some()
        })
        .collect();
    assert_eq!(there.len(), 1, "half of batch {i} is there");
    there.contains(&true)
}

/// A child process that answers in lines and is told in lines.
struct Other {
    process: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
}

impl Other {
    fn start(role: &str, dir: &Path) -> Other {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Other {
            says: BufReader::new(process.stdout.take().unwrap()),
            hears: process.stdin.take().unwrap(),
            process,
        }
    }

    /// The next line that is ours; the test harness writes some of its own.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.says.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A killed child may leave half a line, which acknowledges nothing.
            if let Some(at) = line.find("#> ")
                && line.ends_with('\n')
            {
                return Some(line[at + 3..].trim_end().to_string());
            }
        }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.hears, "{what}").unwrap();
    }

    fn end(mut self) {
        drop(self.hears);
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success(), "{rest}");
    }
}

fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "#> {what}").unwrap();
    out.flush().unwrap();
}

fn heard() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().lock().read_line(&mut line).unwrap() > 0).then(|| line.trim().to_string())
}

/// What the child processes do.
#[test]
fn child() {
    let (Ok(role), Ok(dir)) = (std::env::var(ROLE), std::env::var(DIR)) else {
        return;
    };
    let dir = PathBuf::from(dir);
    match role.as_str() {
        "commit" => {
            let store = open(&dir);
            let reader = store.reader().unwrap();
            let first = (0..).find(|i| !has_batch(&reader, *i)).unwrap();
            drop(reader);
            say(format!("from {first}"));
            for i in first.. {
                store.commit(batch(i)).unwrap();
                say(i);
            }
        }
        "hold" => {
            let store = open(&dir);
            say("open");
            while let Some(line) = heard() {
                let i = line.parse().unwrap();
                store.commit(batch(i)).unwrap();
                say(i);
            }
        }
        "limit" => full_in_child(&dir, &mut FileLimit),
        "tmpfs" => full_in_child(&dir, &mut Tmpfs(dir.clone())),
        _ => panic!("unknown role {role}"),
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    let mut unacknowledged = 0;
    for round in 0..25u64 {
        let mut other = Other::start("commit", dir.path());
        let from = other.line().unwrap();
        assert_eq!(from, format!("from {acknowledged}"));
        // So many batches are waited for, then so many microseconds: killed in the middle of
        // whatever it does then.
        for _ in 0..round % 4 {
            let i: u64 = other.line().unwrap().parse().unwrap();
            acknowledged = i + 1;
        }
        let word = u16::from_le_bytes(Digest::of(&round.to_le_bytes()).0[..2].try_into().unwrap());
        std::thread::sleep(std::time::Duration::from_micros(u64::from(word) / 2));
        other.process.kill().unwrap();
        other.process.wait().unwrap();
        while let Some(line) = other.line() {
            acknowledged = line.parse::<u64>().unwrap() + 1;
        }

        // For reading only, as a report would: the recovery is done on the way.
        let store = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
        let reader = store.reader().unwrap();
        for i in 0..acknowledged {
            assert!(has_batch(&reader, i), "batch {i} of {acknowledged} is lost");
        }
        // The one in flight may have been committed without its acknowledgement.
        if has_batch(&reader, acknowledged) {
            acknowledged += 1;
            unacknowledged += 1;
        }
        assert!(!has_batch(&reader, acknowledged));
        drop((reader, store));
        let verified = open(dir.path()).verify().unwrap();
        assert!(verified.is_sound(), "{verified:?}");
    }
    assert!(
        acknowledged > 25,
        "{acknowledged} batches, {unacknowledged} found beyond"
    );
}

#[test]
fn one_process_writes_and_others_read_what_it_commits() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Other::start("hold", dir.path());
    writer.line().unwrap();
    match Store::open(dir.path(), Access::ReadWrite, "0.1.0") {
        Err(StoreError::Locked { owner, .. }) => {
            let pid = format!("process {} ", writer.process.id());
            assert!(owner.contains(&pid), "{owner}");
        }
        other => panic!("{:?}", other.err()),
    }
    let store = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
    let second = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
    let mut before = store.reader().unwrap();
    for i in 0..30 {
        writer.tell(&i.to_string());
        writer.line().unwrap();
        let after = store.reader().unwrap();
        assert!(!has_batch(&before, i));
        assert!(has_batch(&after, i));
        assert!((0..=i).all(|i| has_batch(&second.reader().unwrap(), i)));
        before = after;
    }
    writer.end();
    drop((before, store, second));
    assert!(has_batch(&open(dir.path()).reader().unwrap(), 29));
}

/// A way to have no room, and to make some.
trait NoRoom {
    fn start(&mut self) -> bool;
    fn make_room(&mut self);
}

/// A limit on the size of files: acts on the index, which is one large file.
struct FileLimit;

impl FileLimit {
    fn set(bytes: u64) {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the limit is a valid struct, and the signal is set to be ignored.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        }
    }
}

impl NoRoom for FileLimit {
    fn start(&mut self) -> bool {
        Self::set(3 << 20);
        true
    }
    fn make_room(&mut self) {
        Self::set(libc::RLIM_INFINITY);
    }
}

/// A file system of a few megabytes, in a mount namespace of its own. Only root may.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(&self, flags: libc::c_ulong, options: &str) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(self.0.as_os_str().as_bytes()).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        // SAFETY: all pointers are to strings that end with zero and live through the call.
        unsafe {
            libc::mount(
                c"none".as_ptr(),
                path.as_ptr(),
                c"tmpfs".as_ptr(),
                flags,
                options.as_ptr().cast(),
            ) == 0
        }
    }
}

impl NoRoom for Tmpfs {
    fn start(&mut self) -> bool {
        // SAFETY: plain system calls; the paths are constants.
        let own = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    c"none".as_ptr(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
        };
        own && self.mount(0, "size=4m")
    }
    fn make_room(&mut self) {
        assert!(self.mount(libc::MS_REMOUNT, "size=64m"));
    }
}

fn full_in_child(dir: &Path, no_room: &mut dyn NoRoom) {
    if !no_room.start() {
        say("cannot");
        return;
    }
    let store = open(dir);
    let mut stored = 0;
    let error = loop {
        match store.commit(batch(stored)) {
            Ok(_) => stored += 1,
            Err(e) => break e,
        }
        assert!(stored < 1000, "it is never full");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(stored > 2, "{stored}");
    // Everything from before is there and readable while it is full, and stays so.
    for _ in 0..3 {
        let reader = store.reader().unwrap();
        assert!((0..stored).all(|i| has_batch(&reader, i)));
        assert!(!has_batch(&reader, stored));
        drop(reader);
        let again = store.commit(batch(stored));
        assert!(matches!(again, Err(StoreError::Full { .. })), "{again:?}");
    }
    no_room.make_room();
    for i in stored..stored + 10 {
        store.commit(batch(i)).unwrap();
    }
    let reader = store.reader().unwrap();
    assert!((0..stored + 10).all(|i| has_batch(&reader, i)));
    drop(reader);
    assert!(store.verify().unwrap().is_sound());
    drop(store);
    assert!(has_batch(&open(dir).reader().unwrap(), stored));
    say(format!("full after {stored}"));
}

#[test]
fn a_full_disk_is_an_error_and_nothing_before_it_is_lost() {
    // The limit on file sizes works for everyone; the small file system needs root, and is tried
    // besides, since a real full disk also refuses new files.
    for (role, required) in [("limit", true), ("tmpfs", false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut other = Other::start(role, dir.path());
        match other.line().as_deref() {
            Some("cannot") => assert!(!required),
            Some(line) => assert!(line.starts_with("full after"), "{line}"),
            None => panic!("the child for `{role}` failed"),
        }
        other.end();
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().map(Result::unwrap) {
        let path = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::copy(entry.path(), path).unwrap();
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 += 1;
        let hash = Digest::of(&self.0.to_le_bytes());
        u64::from_le_bytes(hash.0[..8].try_into().unwrap()) % below
    }
}

/// Overwrites one to three runs of bytes, of one to 600.
fn overwrite(path: &Path, random: &mut Random) {
    let mut bytes = fs::read(path).unwrap();
    for _ in 0..=random.next(3) {
        let len = bytes.len() as u64;
        let at = random.next(len);
        let most = [1, 8, 600][random.next(3) as usize];
        let run = 1 + random.next(most);
        for i in at..(at + run).min(len) {
            bytes[i as usize] = random.next(256) as u8;
        }
    }
    fs::write(path, bytes).unwrap();
}

/// Asks a store through a reader. After an error of input the index must be opened again, which
/// ends the reader: a new one then answers.
struct Asker<'a>(&'a Store, Option<Reader>);

impl Asker<'_> {
    fn ask<T>(&mut self, what: impl Fn(&Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        for _ in 0..2 {
            if self.1.is_none() {
                self.1 = Some(self.0.reader()?);
            }
            match what(self.1.as_ref().unwrap()) {
                Err(StoreError::Closed { .. }) => self.1 = None,
                answer => return answer,
            }
        }
        panic!("a new reader is no better than the old one");
    }
}

/// Reads all that was stored; every answer is right, absent or an error.
fn read_all(store: &Store, n: u64, tally: &mut BTreeMap<&'static str, u32>) {
    let mut asker = Asker(store, None);
    let mut count = |what| *tally.entry(what).or_default() += 1;
    for n in 0..n {
        let expected = output(n);
        let right = Digest::of(&expected);
        match asker.ask(|r| r.output(&job(n).key())) {
            Ok(Some(digest)) => {
                assert_eq!(digest, right, "a wrong output for {n}");
                count("output");
            }
            Ok(None) => count("no output"),
            Err(StoreError::Damaged { .. } | StoreError::CorruptAction { .. }) => {
                count("output refused");
            }
            Err(e) => panic!("{e:?}"),
        }
        match asker.ask(|r| r.action(&job(n).key())) {
            Ok(Some(action)) => {
                assert_eq!(action.output, right);
                assert_eq!(action.provenance.tool, "test 1");
                assert_eq!(action.job.kind, "test/reply");
                assert_eq!(action.job.inputs["n"], Value::Int(n as i64));
            }
            Ok(None) => {}
            Err(StoreError::Damaged { .. } | StoreError::CorruptAction { .. }) => {}
            Err(e) => panic!("{e:?}"),
        }
        match asker.ask(|r| r.blob(&right)) {
            Ok(Some(bytes)) => {
                assert_eq!(*bytes, *expected);
                count("blob");
            }
            Ok(None) => count("no blob"),
            Err(StoreError::Damaged { .. } | StoreError::CorruptBlob { .. }) => {
                count("blob refused");
            }
            Err(e) => panic!("{e:?}"),
        }
        if let Ok(Some(row)) = asker.ask(|r| r.row(&right)) {
            assert_eq!(row, n.to_le_bytes());
        }
    }
    let all = asker.ask(|r| Ok(r.actions(None)?.flatten().collect::<Vec<_>>()));
    for action in all.into_iter().flatten() {
        let is = |n| job(n).key() == action.key && Digest::of(&output(n)) == action.output;
        assert!((0..n).any(is));
    }
    let entries = asker.ask(|r| {
        let root = r.root("latest")?;
        root.map(|root| Manifest::load(r, root)?.entries())
            .transpose()
    });
    if let Ok(Some(entries)) = entries {
        assert_eq!(entries, listed(n));
    }
}

fn listed(n: u64) -> Vec<Entry> {
    let mut entries: Vec<_> = (0..n)
        .map(|n| Entry {
            id: format!("case/{n}"),
            key: job(n).key(),
            output: Digest::of(&output(n)),
        })
        .collect();
    entries.sort();
    entries
}

#[test]
fn overwritten_bytes_are_noticed_or_harmless_and_never_a_wrong_value() {
    const N: u64 = 6 * BATCH;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (0..6).for_each(|i| drop(store.commit(batch(i)).unwrap()));
    let manifest = Manifest::build(listed(N)).unwrap();
    store.put_manifest("latest", &manifest).unwrap();
    let rows = (0..N).map(|n| (Digest::of(&output(n)), n.to_le_bytes().to_vec()));
    assert!(store.put_rows(0, rows.collect()).unwrap());
    drop(store);
    let blobs: Vec<_> = walkdir::WalkDir::new(dir.path().join("blobs"))
        .into_iter()
        .map(|e| e.unwrap().into_path())
        .filter(|p| p.is_file())
        .collect();
    assert!(!blobs.is_empty());

    let mut random = Random(0);
    let mut tally = BTreeMap::new();
    for round in 0..200 {
        let hurt = tempfile::tempdir().unwrap();
        copy(dir.path(), hurt.path());
        let in_blob = round % 5 == 0;
        if in_blob {
            let blob = &blobs[random.next(blobs.len() as u64) as usize];
            overwrite(
                &hurt.path().join(blob.strip_prefix(dir.path()).unwrap()),
                &mut random,
            );
        } else {
            overwrite(&hurt.path().join("index.redb"), &mut random);
        }
        let access = [Access::ReadOnly, Access::ReadWrite][round % 2];
        let store = match Store::open(hurt.path(), access, "0.1.0") {
            Ok(store) => store,
            Err(StoreError::Damaged { .. }) => {
                *tally.entry("not opened").or_default() += 1;
                continue;
            }
            Err(e) => panic!("{e:?}"),
        };
        read_all(&store, N, &mut tally);
        if access == Access::ReadOnly {
            continue;
        }
        // What verify names can be taken out; what was taken out can be computed again.
        let verified = store.verify().unwrap();
        if verified.is_sound() {
            *tally.entry("sound").or_default() += 1;
        }
        for problem in &verified.problems {
            let _ = match problem {
                Problem::Blob { digest, .. } | Problem::Missing { digest, .. } => {
                    store.quarantine(digest).map(|_| ())
                }
                Problem::Action { key, why } => store.quarantine_action(key, why).map(|_| ()),
                Problem::Root { .. } | Problem::Log { .. } => Ok(()),
            };
        }
        let again: Result<Vec<_>, _> = (0..6).map(|i| store.commit(batch(i))).collect();
        if verified.index == IndexCheck::Sound {
            again.unwrap();
            let reader = store.reader().unwrap();
            assert!((0..6).all(|i| has_batch(&reader, i)));
            *tally.entry("whole again").or_default() += 1;
        }
        read_all(&store, N, &mut tally);
        drop(store);
        if let Ok(store) = Store::open(hurt.path(), Access::ReadWrite, "0.1.0") {
            read_all(&store, N, &mut tally);
        }
    }
    // The test has met each of these.
    for what in [
        "output",
        "output refused",
        "blob refused",
        "whole again",
        "not opened",
    ] {
        assert!(tally.contains_key(what), "{what}: {tally:?}");
    }
}

/// What the fixture of a format holds. The first format's was written by the program of that
/// time with this very function; it is never written again.
fn fill_fixture(store: &Store) {
    let mut rival = completed(3);
    rival.output = b"another reply".to_vec();
    rival.provenance.note = Some("second machine".into());
    store.commit((0..8).map(completed).collect()).unwrap();
    store.commit(vec![rival]).unwrap();
    store.remove(&job(7).key()).unwrap();
    store
        .attempt(Attempt {
            key: job(8).key(),
            kind: KIND.name.into(),
            at_ms: 1_800_000_000_000,
            transient: true,
            why: "429: try again".into(),
        })
        .unwrap();
    let manifest = Manifest::build(listed(7)).unwrap();
    store.put_manifest("latest", &manifest).unwrap();
    let epoch = store.reader().unwrap().epoch();
    let row = (Digest::of(b"row"), b"7 of 8".to_vec());
    assert!(store.put_rows(epoch, vec![row]).unwrap());
}

/// Every value of a filled fixture, whatever format it is in.
fn check_fixture(store: &Store) {
    let reader = store.reader().unwrap();
    assert_eq!(reader.actions(Some("test/reply")).unwrap().count(), 7);
    for n in 0..7 {
        let action = reader.action(&job(n).key()).unwrap().unwrap();
        assert_eq!(action.output, Digest::of(&output(n)));
        assert_eq!(*reader.blob(&action.output).unwrap().unwrap(), *output(n));
        assert_eq!(action.nature, Nature::Sampled);
        assert_eq!(action.provenance.tool, "test 1");
        let log = reader.blob(&action.blobs[0]).unwrap().unwrap();
        assert!(log.starts_with(format!("log of {n}\n").as_bytes()));
        let prompt = reader.preimage(&job(n).digest("prompt")).unwrap().unwrap();
        assert_eq!(*prompt, *format!("complete function {n}").as_bytes());
    }
    let conflicts = reader.conflicts().unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].kept, Digest::of(&output(3)));
    assert_eq!(conflicts[0].other, Digest::of(b"another reply"));
    let note = conflicts[0].other_provenance.note.as_deref();
    assert_eq!(note, Some("second machine"));
    let removed = reader.removed().unwrap();
    assert_eq!(removed[0].job.as_ref().unwrap().inputs["n"], Value::Int(7));
    assert_eq!(
        reader.attempts(&job(8).key()).unwrap()[0].why,
        "429: try again"
    );
    let root = reader.root("latest").unwrap().unwrap();
    let manifest = Manifest::load(&reader, root).unwrap();
    assert_eq!(manifest.entries().unwrap(), listed(7));
    let row = reader.row(&Digest::of(b"row")).unwrap();
    assert_eq!(row.as_deref(), Some(&b"7 of 8"[..]));
}

#[test]
fn a_store_of_the_first_format_is_read_and_written() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stores/v1");
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture, dir.path());
    let store = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
    check_fixture(&store);
    assert_eq!(store.stats().unwrap().format, 1);
    drop(store);
    let store = open(dir.path());
    assert!(store.verify().unwrap().is_sound());
    store.commit(batch(3)).unwrap();
    assert!(has_batch(&store.reader().unwrap(), 3));
    // What the program writes today holds the same.
    let today = tempfile::tempdir().unwrap();
    fill_fixture(&open(today.path()));
    check_fixture(&open(today.path()));
}
