//! What a store promises, on real directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::*;
use crate::digest::Digest;
use crate::job::{Job, Key, Kind, Nature};

pub(super) const KIND: Kind = Kind {
    name: "test/reply",
    version: 2,
    nature: Nature::Sampled,
};
pub(super) const OTHER: Kind = Kind {
    name: "test/verdict",
    version: 1,
    nature: Nature::Deterministic,
};

pub(super) fn open(dir: &Path) -> Store {
    Store::open(dir, Access::ReadWrite, "0.1.0").unwrap()
}

pub(super) fn job(n: i64) -> Job {
    let prompt = format!("prompt {n}: complete this function, please").into_bytes();
    Job::of(KIND).put("sample", n).blob("prompt", prompt).done()
}

/// `len` bytes that do not compress.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

pub(super) fn done(job: Job, output: &[u8]) -> Completed {
    Completed {
        job,
        output: output.to_vec(),
        blobs: Vec::new(),
        provenance: Provenance {
            started_ms: 1_700_000_000_000,
            wall_us: 12,
            cpu_us: 7,
            tool: "test 1".into(),
            note: None,
        },
    }
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let walk = walkdir::WalkDir::new(dir).into_iter();
    walk.map(Result::unwrap)
        .filter(|e| e.file_type().is_file())
        .map(|e| (e.path().display().to_string(), fs::read(e.path()).unwrap()))
        .collect()
}

#[test]
fn everything_about_a_finished_job_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let big = noise(1, 100_000);
    let text = b"int f(void) { return 1; }\n".repeat(5000);
    let job = job(1);
    let store = open(dir.path());
    let mut completed = done(job.clone(), &big);
    completed.blobs = vec![text.clone(), Vec::new()];
    completed.provenance.note = Some("request 17".into());
    let committed = store.commit(vec![completed.clone()]).unwrap();
    assert_eq!(committed.stored, [job.key()]);
    drop(store);

    let store = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
    let reader = store.reader().unwrap();
    let action = reader.action(&job.key()).unwrap().unwrap();
    assert_eq!(action.job.kind, "test/reply");
    assert_eq!(action.job.version, 2);
    assert_eq!(action.nature, Nature::Sampled);
    assert_eq!(action.provenance, completed.provenance);
    assert_eq!(action.blobs, [Digest::of(&text), Digest::of(b"")]);
    assert_eq!(reader.output(&job.key()).unwrap(), Some(Digest::of(&big)));
    for bytes in [&big, &text, &Vec::new()] {
        let read = reader.blob(&Digest::of(bytes)).unwrap().unwrap();
        assert_eq!(*read, **bytes);
    }
    let prompt = reader.preimage(&job.digest("prompt")).unwrap().unwrap();
    assert!(prompt.starts_with(b"prompt 1"));
    assert_eq!(reader.blob(&Digest::of(b"absent")).unwrap(), None);
    assert_eq!(reader.output(&super::tests::job(2).key()).unwrap(), None);
    let stats = store.stats().unwrap();
    assert_eq!((stats.inline_blobs, stats.file_blobs), (2, 2));
    // The text is compressed, the noise is not.
    assert!(stats.file_bytes < 100_000 + 5_000, "{stats:?}");
    assert!(matches!(
        store.commit(vec![completed]),
        Err(StoreError::ReadOnly { .. })
    ));
}

#[test]
fn the_first_output_stands_and_the_second_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut second = done(job(1), b"b");
    second.provenance.tool = "other machine".into();
    second.blobs = vec![b"a log".to_vec()];
    let both = store.commit(vec![done(job(1), b"a"), second]).unwrap();
    assert_eq!(both.stored, [job(1).key()]);
    assert_eq!(both.conflicts.len(), 1);
    let again = store
        .commit(vec![done(job(1), b"b"), done(job(1), b"a")])
        .unwrap();
    assert_eq!((again.equal, again.conflicts.len()), (1, 1));

    let reader = store.reader().unwrap();
    assert_eq!(
        reader.output(&job(1).key()).unwrap(),
        Some(Digest::of(b"a"))
    );
    let conflicts = reader.conflicts().unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].kept, Digest::of(b"a"));
    assert_eq!(conflicts[0].other, Digest::of(b"b"));
    assert_eq!(conflicts[0].other_provenance.tool, "other machine");
    assert_eq!(conflicts[0].kept_provenance.tool, "test 1");
    assert_eq!(&*reader.blob(&Digest::of(b"b")).unwrap().unwrap(), b"b");
}

#[test]
fn attempts_are_listed_by_job_and_newest_first_over_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let attempt = |n: i64, at_ms: u64, why: &str| Attempt {
        key: job(n).key(),
        kind: "test/reply".into(),
        at_ms,
        transient: at_ms.is_multiple_of(2),
        why: why.into(),
    };
    store.attempt(attempt(1, 10, "429")).unwrap();
    store.attempt(attempt(2, 11, "reset")).unwrap();
    store.attempt(attempt(1, 12, &"é".repeat(20_000))).unwrap();
    let reader = store.reader().unwrap();
    let of_one = reader.attempts(&job(1).key()).unwrap();
    assert_eq!(of_one.iter().map(|a| a.at_ms).collect::<Vec<_>>(), [10, 12]);
    assert_eq!(of_one[0], attempt(1, 10, "429"));
    assert!(of_one[1].why.ends_with(" bytes cut]"));
    let recent = reader.recent_attempts(2).unwrap();
    assert_eq!(recent.iter().map(|a| a.at_ms).collect::<Vec<_>>(), [12, 11]);
}

#[test]
fn a_reader_sees_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![done(job(1), b"a")]).unwrap();
    let before = store.reader().unwrap();
    store.remove(&job(1).key()).unwrap();
    store.commit(vec![done(job(2), b"b")]).unwrap();
    assert!(before.output(&job(1).key()).unwrap().is_some());
    assert!(before.output(&job(2).key()).unwrap().is_none());
    let after = store.reader().unwrap();
    assert!(after.output(&job(1).key()).unwrap().is_none());
    assert!(after.output(&job(2).key()).unwrap().is_some());
    let removed = after.removed().unwrap();
    assert_eq!(removed[0].key, job(1).key());
    assert_eq!(removed[0].output, Some(Digest::of(b"a")));
    assert_eq!(removed[0].job.as_ref().unwrap().kind, "test/reply");
    // A reader outlives its store as an error, not as a lock on it.
    drop(store);
    open(dir.path());
    let ended = (0..100)
        .map(job)
        .find_map(|j| before.blob(&Digest::of(j.text_prompt())).err());
    assert!(ended.is_none_or(|e| matches!(e, StoreError::Closed { .. })));
}

trait Prompt {
    fn text_prompt(&self) -> &[u8];
}
impl Prompt for Job {
    fn text_prompt(&self) -> &[u8] {
        &self.preimages()[0].1
    }
}

#[test]
fn listings_are_by_kind_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let verdict = |n: i64| Job::of(OTHER).put("n", n).done();
    let mut batch: Vec<_> = (0..50).map(|n| done(job(n), b"reply")).collect();
    batch.extend((0..7).map(|n| done(verdict(n), b"ok")));
    store.commit(batch).unwrap();
    let reader = store.reader().unwrap();
    let list = |kind| -> Vec<Key> {
        let actions = reader.actions(kind).unwrap();
        actions.map(|a| a.unwrap().key).collect()
    };
    let expected: BTreeSet<Key> = (0..7).map(|n| verdict(n).key()).collect();
    assert_eq!(list(Some("test/verdict")), Vec::from_iter(expected));
    assert_eq!(list(None).len(), 57);
    let counts: Vec<_> = reader.counts_by_kind().unwrap();
    let counts = counts.iter().map(|c| (&*c.kind, c.version, c.actions));
    assert_eq!(
        Vec::from_iter(counts),
        [("test/reply", 2, 50), ("test/verdict", 1, 7)]
    );
}

#[test]
fn rows_from_before_a_removal_are_never_seen() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store
        .commit(vec![done(job(1), b"a"), done(job(2), b"b")])
        .unwrap();
    let before = store.reader().unwrap();
    let row = Digest::of(b"row");
    assert!(
        store
            .put_rows(before.epoch(), vec![(row, b"score 2".to_vec())])
            .unwrap()
    );
    assert_eq!(
        store.reader().unwrap().row(&row).unwrap(),
        Some(b"score 2".to_vec())
    );
    store.remove(&job(1).key()).unwrap();
    // Computed from the old snapshot, finished after the removal.
    assert!(
        !store
            .put_rows(before.epoch(), vec![(row, b"score 2".to_vec())])
            .unwrap()
    );
    assert_eq!(store.reader().unwrap().row(&row).unwrap(), None);
}

#[test]
fn a_store_of_a_newer_format_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let text = "everbench store\nformat 9\nmin_reader 7\nneeds 4.2.0\nshape round\n";
    fs::write(dir.path().join("STORE"), text).unwrap();
    let before = files(dir.path());
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let error = Store::open(dir.path(), access, "0.1.0").err().unwrap();
        assert!(matches!(
            error,
            StoreError::FormatNewer {
                found: 9,
                min_reader: 7,
                ..
            }
        ));
        assert!(error.to_string().contains("use everbench 4.2.0 or later"));
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_newer_format_that_allows_it_is_read_and_an_older_one_is_used() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).commit(vec![done(job(1), b"a")]).unwrap();
    let set = |format| {
        let text = format!("everbench store\nformat {format}\nmin_reader {MIN_READER}\nneeds 9\n");
        fs::write(dir.path().join("STORE"), text).unwrap();
    };
    set(FORMAT + 1);
    let newer = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
    assert!(
        newer
            .reader()
            .unwrap()
            .output(&job(1).key())
            .unwrap()
            .is_some()
    );
    drop(newer);
    let refused = Store::open(dir.path(), Access::ReadWrite, "0.1.0");
    assert!(matches!(refused, Err(StoreError::FormatNewer { .. })));
    set(FORMAT - 1);
    let older = open(dir.path());
    older.commit(vec![done(job(2), b"b")]).unwrap();
    assert_eq!(older.stats().unwrap().format, FORMAT - 1);
}

#[test]
fn what_is_no_store_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "all my work").unwrap();
    let before = files(dir.path());
    for (at, access) in [
        (dir.path().to_path_buf(), Access::ReadWrite),
        (dir.path().to_path_buf(), Access::ReadOnly),
        (dir.path().join("thesis.tex"), Access::ReadWrite),
        (dir.path().join("absent"), Access::ReadOnly),
    ] {
        let refused = Store::open(&at, access, "0.1.0");
        assert!(
            matches!(refused, Err(StoreError::NotAStore { .. })),
            "{at:?}"
        );
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn an_interrupted_creation_is_finished_and_a_lost_format_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    fs::remove_file(dir.path().join("STORE")).unwrap();
    open(dir.path()).commit(vec![done(job(1), b"a")]).unwrap();
    fs::remove_file(dir.path().join("STORE")).unwrap();
    let lost = Store::open(dir.path(), Access::ReadWrite, "0.1.0");
    assert!(matches!(lost, Err(StoreError::Damaged { .. })));

    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    fs::remove_file(dir.path().join("index.redb")).unwrap();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let lost = Store::open(dir.path(), access, "0.1.0");
        assert!(matches!(lost, Err(StoreError::Damaged { .. })));
    }
}

#[test]
fn gc_keeps_what_roots_reach_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut kept = done(job(1), &noise(1, 80_000));
    kept.blobs = vec![noise(2, 90_000)];
    let mut rival = done(job(1), b"rival");
    rival.blobs = vec![b"rival's log".to_vec()];
    store.commit(vec![kept.clone(), rival]).unwrap();
    store
        .commit(vec![
            done(job(2), &noise(3, 70_000)),
            done(job(2), b"loser"),
            done(job(3), b"small"),
        ])
        .unwrap();
    assert!(matches!(
        store.gc(&[], false),
        Err(StoreError::NoRoots { .. })
    ));

    let manifest = Manifest::build([Entry {
        id: "case/1".into(),
        key: job(1).key(),
        output: Digest::of(&kept.output),
    }])
    .unwrap();
    store.put_manifest("latest", &manifest).unwrap();
    let release = store.put_blobs(&[b"a release document"]).unwrap()[0];
    store.set_root("release/1", release).unwrap();
    let leftover = noise(9, 66_000);
    let path = dir
        .path()
        .join("blobs")
        .join(&Digest::of(&leftover).hex()[..2]);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(&Digest::of(&leftover).hex()[2..]), &leftover).unwrap();
    fs::write(dir.path().join("blobs/README"), "mine").unwrap();

    let before = files(dir.path());
    let plan = store.gc(&[], true).unwrap();
    assert_eq!((plan.actions, plan.kept_actions, plan.conflicts), (2, 1, 1));
    assert_eq!((plan.leftover_files, plan.foreign_files), (1, 1));
    assert_eq!(files(dir.path()), before);

    let old = store.reader().unwrap();
    let epoch = old.epoch();
    let report = store.gc(&[], false).unwrap();
    assert_eq!(
        GcReport {
            dry_run: true,
            ..report.clone()
        },
        plan
    );
    assert!(matches!(
        old.blob(&Digest::of(&noise(3, 70_000))),
        Err(StoreError::Gone { .. })
    ));
    let reader = store.reader().unwrap();
    assert_eq!(reader.epoch(), epoch + 1);
    assert!(reader.action(&job(1).key()).unwrap().is_some());
    for wanted in [
        &kept.output[..],
        &noise(2, 90_000),
        b"rival",
        b"rival's log",
        b"a release document",
        job(1).text_prompt(),
    ] {
        assert!(reader.blob(&Digest::of(wanted)).unwrap().is_some());
    }
    for unwanted in [
        &noise(3, 70_000)[..],
        b"loser",
        b"small",
        job(2).text_prompt(),
    ] {
        assert!(reader.blob(&Digest::of(unwanted)).unwrap().is_none());
    }
    assert_eq!(reader.conflicts().unwrap().len(), 1);
    assert_eq!(fs::read(dir.path().join("blobs/README")).unwrap(), b"mine");
    let verified = store.verify().unwrap();
    assert!(verified.is_sound(), "{verified:?}");
    drop((old, reader));
    let again = store.gc(&[], false).unwrap();
    assert_eq!(
        (again.actions, again.blobs, again.leftover_files),
        (0, 0, 0)
    );
}

#[test]
fn gc_removes_nothing_when_a_root_cannot_be_followed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![done(job(1), b"a")]).unwrap();
    let entry = |n: i64| Entry {
        id: format!("case/{n}/{}", "x".repeat(1000)),
        key: job(n).key(),
        output: Digest::of(b"a"),
    };
    let manifest = Manifest::build((0..3000).map(entry)).unwrap();
    store.put_manifest("latest", &manifest).unwrap();
    let large = manifest
        .chunks
        .iter()
        .find(|c| c.len() > INLINE_LIMIT)
        .unwrap();
    let hex = Digest::of(large).hex();
    fs::remove_file(dir.path().join("blobs").join(&hex[..2]).join(&hex[2..])).unwrap();
    assert!(matches!(
        store.gc(&[], false),
        Err(StoreError::CorruptBlob { .. })
    ));
    assert!(
        store
            .reader()
            .unwrap()
            .output(&job(1).key())
            .unwrap()
            .is_some()
    );
    let verified = store.verify().unwrap();
    assert!(
        verified
            .problems
            .iter()
            .any(|p| matches!(p, Problem::Root { .. }))
    );
}

#[test]
fn compaction_gives_room_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store
        .commit(
            (0..200)
                .map(|n| done(job(n), &noise(n as u64, 30_000)))
                .collect(),
        )
        .unwrap();
    let manifest = Manifest::build([]).unwrap();
    store.put_manifest("latest", &manifest).unwrap();
    let before = store.stats().unwrap().index_bytes;
    let report = store.gc(&[], false).unwrap();
    assert!(report.compacted);
    assert!(store.stats().unwrap().index_bytes < before / 4);
    store.commit(vec![done(job(1), b"again")]).unwrap();
    assert!(store.verify().unwrap().is_sound());
}

/// Corrupts a blob's file, which takes no knowledge of the index.
pub(super) fn damage(dir: &Path, digest: &Digest) {
    let hex = digest.hex();
    let path = dir.join("blobs").join(&hex[..2]).join(&hex[2..]);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_corrupt_blob_takes_its_actions_along_and_is_computed_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let shared = noise(5, 100_000);
    let mut by_further_blob = done(job(2), b"report");
    by_further_blob.blobs = vec![shared.clone()];
    let batch = vec![
        done(job(1), &shared),
        by_further_blob,
        done(job(3), b"well"),
    ];
    store.commit(batch.clone()).unwrap();
    let digest = Digest::of(&shared);
    // As long as it reads well, nothing is condemned.
    assert_eq!(store.quarantine(&digest).unwrap(), []);
    damage(dir.path(), &digest);
    let read = store.reader().unwrap().blob(&digest);
    assert!(matches!(read, Err(StoreError::CorruptBlob { .. })));
    assert!(!store.verify().unwrap().is_sound());
    let mut expected = vec![job(1).key(), job(2).key()];
    expected.sort();
    assert_eq!(store.quarantine(&digest).unwrap(), expected);
    let reader = store.reader().unwrap();
    assert_eq!(reader.output(&job(1).key()).unwrap(), None);
    assert!(reader.output(&job(3).key()).unwrap().is_some());
    let quarantined = reader.quarantined().unwrap();
    assert_eq!(quarantined.len(), 2);
    assert!(quarantined[0].reason.contains("another digest"));
    assert!(quarantined[0].job.is_some());
    let again = store.commit(batch).unwrap();
    assert_eq!((again.stored.len(), again.equal), (2, 1));
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn a_corrupt_record_is_quarantined_by_the_next_commit_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let batch: Vec<_> = (0..3).map(|n| done(job(n), &[n as u8])).collect();
    store.commit(batch.clone()).unwrap();
    let key = job(1).key();
    let hurt = |txn: &redb::WriteTransaction| {
        let mut table = txn.open_table(super::index::ACTIONS)?;
        let mut bytes = {
            let bytes = redb::ReadableTable::get(&table, &key.0.0)?;
            bytes.map_or_else(Vec::new, |b| b.value().to_vec())
        };
        bytes[20] ^= 4;
        table.insert(&key.0.0, bytes.as_slice())?;
        Ok(())
    };
    store.inner.write(hurt).unwrap();
    let reader = store.reader().unwrap();
    assert!(matches!(
        reader.output(&key),
        Err(StoreError::CorruptAction { .. })
    ));
    assert_eq!(
        reader.actions(None).unwrap().filter(|a| a.is_ok()).count(),
        2
    );
    assert_eq!(store.stats().unwrap().corrupt_actions, 1);
    let verified = store.verify().unwrap();
    assert!(matches!(&verified.problems[..], [Problem::Action { key: k, .. }] if *k == key));
    let again = store.commit(batch).unwrap();
    assert_eq!((again.stored, again.equal), (vec![key], 2));
    let reader = store.reader().unwrap();
    assert_eq!(reader.output(&key).unwrap(), Some(Digest::of(&[1])));
    assert_eq!(reader.quarantined().unwrap()[0].key, key);
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn a_missing_file_is_written_again_by_the_next_commit_of_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let big = noise(5, 100_000);
    store.commit(vec![done(job(1), &big)]).unwrap();
    fs::remove_dir_all(dir.path().join("blobs")).unwrap();
    let digest = Digest::of(&big);
    assert!(store.reader().unwrap().blob(&digest).is_err());
    store.commit(vec![done(job(2), &big)]).unwrap();
    assert_eq!(
        *store.reader().unwrap().blob(&digest).unwrap().unwrap(),
        *big
    );
}

#[test]
fn root_names_are_checked_and_roots_need_their_blob() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let digest = store.put_blobs(&["x"]).unwrap()[0];
    for name in ["", "a\nb", &"n".repeat(201)] {
        assert!(matches!(
            store.set_root(name, digest),
            Err(StoreError::BadRootName { .. })
        ));
    }
    let absent = store.set_root("r", Digest::of(b"absent"));
    assert!(matches!(absent, Err(StoreError::MissingBlob { .. })));
    store.set_root("r", digest).unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.root("r").unwrap(), Some(digest));
    assert_eq!(reader.root("s").unwrap(), None);
    assert_eq!(reader.roots().unwrap(), [("r".to_string(), digest)]);
    assert!(store.remove_root("r").unwrap());
    assert!(!store.remove_root("r").unwrap());
}

#[test]
fn leftovers_of_an_interrupted_write_go_at_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    fs::write(dir.path().join("tmp/write.1.2"), "half").unwrap();
    drop(open(dir.path()));
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "the measured rates are shown, not asserted"
)]
fn a_hundred_and_seventy_thousand_actions_are_committed_and_read() {
    const N: i64 = 170_000;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let small = |n: i64| Job::of(OTHER).put("case", n).put("model", "m").done();
    let output = |n: i64| format!("verdict {n}").into_bytes();
    let start = std::time::Instant::now();
    for from in (0..N).step_by(17_000) {
        let batch = (from..from + 17_000).map(|n| done(small(n), &output(n)));
        let committed = store.commit(batch.collect()).unwrap();
        assert_eq!(committed.stored.len(), 17_000);
    }
    let written = start.elapsed();
    let jobs: Vec<Key> = (0..N).map(|n| small(n).key()).collect();
    let reader = store.reader().unwrap();
    let start = std::time::Instant::now();
    for (n, key) in (0..N).zip(&jobs) {
        assert_eq!(reader.output(key).unwrap(), Some(Digest::of(&output(n))));
    }
    let read = start.elapsed();
    let start = std::time::Instant::now();
    assert_eq!(reader.counts_by_kind().unwrap()[0].actions, N as u64);
    let rate = |t: std::time::Duration| (N as f64 / t.as_secs_f64()).round();
    eprintln!(
        "170k actions: {} commits/s, {} point reads/s, {} listed/s, index {} MiB",
        rate(written),
        rate(read),
        rate(start.elapsed()),
        store.stats().unwrap().index_bytes >> 20
    );
}
