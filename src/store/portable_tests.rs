//! A part of a store, carried elsewhere in a file.

use std::fs;
use std::path::{Path, PathBuf};

use super::portable::{EXPORT_FORMAT, MAGIC, Packer};
use super::record::seal_root;
use super::tests::{KIND, OTHER, done, job, noise, open};
use super::*;
use crate::digest::Digest;
use crate::job::{Job, Key, Kind};

const OPTIONS: ImportOptions = ImportOptions {
    kinds: &[KIND, OTHER],
    replace_roots: false,
    dry_run: false,
};

fn entry(n: i64, output: &[u8]) -> Entry {
    Entry {
        id: format!("case/{n}"),
        key: job(n).key(),
        output: Digest::of(output),
    }
}

fn roots(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Two jobs under the root `latest`, with further blobs and a conflict; one job under none.
fn filled(dir: &Path) -> Store {
    let store = open(dir);
    let mut first = done(job(1), &noise(1, 80_000));
    first.blobs = vec![noise(2, 90_000), b"a log".to_vec()];
    let mut rival = done(job(1), b"rival");
    rival.blobs = vec![b"rival's log".to_vec()];
    let batch = vec![first.clone(), rival, done(job(2), b"two")];
    store.commit(batch).unwrap();
    store.commit(vec![done(job(3), b"nobody's")]).unwrap();
    let built = Manifest::build([entry(1, &first.output), entry(2, b"two")]).unwrap();
    store.put_manifest("latest", &built).unwrap();
    let note = store.put_blobs(&[b"gcc 12"]).unwrap()[0];
    store.set_root("notes/compiler", note).unwrap();
    store
}

/// A filled store's file.
fn exported(dir: &Path) -> PathBuf {
    let store = filled(&dir.join("from"));
    let file = dir.join("part.eb");
    let wanted = roots(&["latest", "notes/compiler"]);
    let exported = store.export(&wanted, &file).unwrap();
    let contents = exported.contents;
    assert_eq!(
        (contents.actions, contents.conflicts, contents.roots),
        (2, 1, 2)
    );
    assert_eq!(exported.file_bytes, fs::metadata(&file).unwrap().len());
    file
}

#[test]
fn what_roots_reach_arrives_whole_and_gives_the_same_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path());
    let from = open(&dir.path().join("from"));
    let to = open(&dir.path().join("to"));
    let would = ImportOptions {
        dry_run: true,
        ..OPTIONS
    };
    let would = to.import(&file, &would).unwrap();
    assert_eq!(to.stats().unwrap().inline_blobs, 0, "a dry run");
    let into_nothing = Imported::into_nothing(&file, OPTIONS.kinds).unwrap();
    assert_eq!(would, into_nothing);
    let imported = to.import(&file, &OPTIONS).unwrap();
    let dry_run = true;
    assert_eq!(
        would,
        Imported {
            dry_run,
            ..imported.clone()
        }
    );
    assert_eq!(imported.new_roots, ["latest", "notes/compiler"]);
    let (a, b) = (from.reader().unwrap(), to.reader().unwrap());
    for n in [1, 2] {
        let key = job(n).key();
        let action = a.action(&key).unwrap().unwrap();
        assert_eq!(b.action(&key).unwrap().as_ref(), Some(&action));
        let named = action.blobs.iter().chain([&action.output]).copied();
        let inputs = action.job.inputs.values().flat_map(|v| v.digests());
        for digest in named.chain(inputs) {
            let bytes = b.blob(&digest).unwrap();
            assert!(bytes.is_some());
            assert_eq!(bytes, a.blob(&digest).unwrap());
        }
    }
    assert_eq!(b.action(&job(3).key()).unwrap(), None);
    assert_eq!(b.conflicts().unwrap(), a.conflicts().unwrap());
    assert_eq!(b.roots().unwrap(), a.roots().unwrap());
    let log = Digest::of(b"rival's log");
    assert!(b.blob(&log).unwrap().is_some());
    let verified = to.verify().unwrap();
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(verified.inputs_without_preimage, 0);

    let again = dir.path().join("again.eb");
    to.export(&roots(&["notes/compiler", "latest"]), &again)
        .unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&file).unwrap());
    // Another export may be replaced, and a second import changes nothing.
    to.export(&roots(&["latest"]), &again).unwrap();
    let imported = to.import(&file, &OPTIONS).unwrap();
    assert_eq!((imported.new_actions, imported.equal_actions), (0, 2));
    assert_eq!((imported.new_blobs, imported.new_roots.len()), (0, 0));
    assert!(imported.conflicts.is_empty());
}

#[test]
fn a_file_with_any_byte_changed_or_missing_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("from"));
    store.commit(vec![done(job(1), b"one")]).unwrap();
    let built = Manifest::build([entry(1, b"one")]).unwrap();
    store.put_manifest("latest", &built).unwrap();
    let file = dir.path().join("small.eb");
    store.export(&roots(&["latest"]), &file).unwrap();
    let whole = fs::read(&file).unwrap();
    let to = open(&dir.path().join("to"));
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let e = to.import(&file, &OPTIONS).unwrap_err();
        // A changed head may ask for a newer program.
        let fine = matches!(
            e,
            StoreError::BadExport { .. } | StoreError::ExportNewer { .. }
        );
        assert!(fine, "{e}");
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes);
        refused(&whole[..at]);
    }
    refused(&[&whole[..], b"x"].concat());
    let stats = to.stats().unwrap();
    assert_eq!((stats.inline_blobs, stats.by_kind.len()), (0, 0));
    fs::write(&file, &whole).unwrap();
    assert_eq!(to.import(&file, &OPTIONS).unwrap().new_actions, 1);
}

/// A sort, and the parts of the rest.
type Raw<'a> = (u8, &'a [&'a [u8]]);

/// A file whose digest is right, with these records in it.
fn packed(file: &Path, records: &[Raw]) -> Result<Imported, StoreError> {
    let mut packer = Packer::create(file).unwrap();
    for (tag, parts) in records {
        packer.record(*tag, parts).unwrap();
    }
    packer.finish().unwrap();
    Imported::into_nothing(file, OPTIONS.kinds)
}

#[test]
fn a_file_that_was_made_to_lie_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lie.eb");
    let store = filled(&dir.path().join("from"));
    let reader = store.reader().unwrap();
    let key = job(2).key();
    let sealed = reader
        .guard(|| Ok(reader.0.actions.get(&key.0.0)?.unwrap().value().to_vec()))
        .unwrap();
    let (encoding, other) = (job(2).encoding(), job(3).encoding());
    let len = (encoding.len() as u64).to_le_bytes();
    let (two, three) = (Digest::of(b"two"), Digest::of(b"three"));
    let (blob, root) = (&two.0[..], seal_root("latest", &three));
    let name = 6u64.to_le_bytes();
    let cases: [(&str, &[Raw]); 7] = [
        ("another digest", &[(1, &[blob, b"three"])]),
        (
            "which is not in it",
            &[(2, &[&len[..], &encoding, &sealed])],
        ),
        // The output of another job: the key is that of the job in the file.
        (
            "seal does not fit",
            &[(1, &[blob, b"two"]), (2, &[&len[..], &other, &sealed])],
        ),
        (
            "which is not in it",
            &[
                (1, &[blob, b"two"]),
                (4, &[&name[..], b"latest", root.as_slice()]),
            ],
        ),
        (
            "not sorted, or one comes twice",
            &[(1, &[blob, b"two"]), (1, &[blob, b"two"])],
        ),
        ("unknown sort", &[(9, &[b"?"])]),
        ("as much as its end says", &[(1, &[blob, b"two"])]),
    ];
    for (why, records) in cases {
        let e = packed(&file, records).unwrap_err();
        assert!(e.to_string().contains(why), "{why}: {e}");
    }
}

#[test]
fn what_is_here_stands_and_what_differs_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path());
    let to = open(&dir.path().join("to"));
    to.commit(vec![done(job(2), b"mine"), done(job(1), b"rival")])
        .unwrap();
    let mine = Manifest::build([entry(2, b"mine")]).unwrap();
    to.put_manifest("latest", &mine).unwrap();
    let imported = to.import(&file, &OPTIONS).unwrap();
    let differ: Vec<Key> = imported.conflicts.iter().map(|c| c.key).collect();
    let mut expected = vec![job(1).key(), job(2).key()];
    expected.sort_unstable();
    assert_eq!(differ, expected);
    assert_eq!(imported.new_roots, ["notes/compiler"]);
    let kept = &imported.kept_roots[0];
    assert_eq!(
        (kept.name.as_str(), kept.here, kept.there != mine.root),
        ("latest", mine.root, true)
    );
    let reader = to.reader().unwrap();
    let two = reader.output(&job(2).key()).unwrap();
    assert_eq!(two, Some(Digest::of(b"mine")));
    assert_eq!(reader.root("latest").unwrap(), Some(mine.root));
    // The file's second output of job 1 is what stands here, and its first is the second here.
    let conflicts = reader.conflicts().unwrap();
    let of_one: Vec<_> = conflicts.iter().filter(|c| c.key == job(1).key()).collect();
    assert_eq!(of_one.len(), 1);
    assert_eq!(of_one[0].kept, Digest::of(b"rival"));
    assert_eq!(of_one[0].other, Digest::of(&noise(1, 80_000)));
    assert!(to.verify().unwrap().is_sound());

    let replace_roots = true;
    let options = ImportOptions {
        replace_roots,
        ..OPTIONS
    };
    let imported = to.import(&file, &options).unwrap();
    assert_eq!(imported.replaced_roots, ["latest"]);
    assert_ne!(
        to.reader().unwrap().root("latest").unwrap(),
        Some(mine.root)
    );
}

#[test]
fn jobs_of_unknown_kinds_and_newer_formats_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path());
    let to = open(&dir.path().join("to"));
    let import = |kinds: &[Kind]| to.import(&file, &ImportOptions { kinds, ..OPTIONS });
    let e = import(&[OTHER]).unwrap_err();
    assert!(e.to_string().contains("test/reply v2 (2 jobs)"), "{e}");
    let e = import(&[Kind { version: 1, ..KIND }]).unwrap_err();
    assert!(matches!(e, StoreError::UnknownKinds { .. }));
    // What an earlier version of the program wrote is still what it was.
    import(&[Kind { version: 3, ..KIND }]).unwrap();

    let mut bytes = fs::read(&file).unwrap();
    let at = MAGIC.len() + 4;
    bytes[at..at + 4].copy_from_slice(&(EXPORT_FORMAT + 1).to_le_bytes());
    fs::write(&file, bytes).unwrap();
    let e = import(&[KIND]).unwrap_err();
    assert!(matches!(e, StoreError::ExportNewer { .. }), "{e}");
}

#[test]
fn an_import_goes_on_where_it_was_and_mends_what_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let file = exported(dir.path());
    let to = open(&dir.path().join("to"));
    // As after an interruption: a part of the blobs, one of the jobs.
    to.put_blobs(&[noise(1, 80_000), b"a log".to_vec()])
        .unwrap();
    to.commit(vec![done(job(2), b"two")]).unwrap();
    let imported = to.import(&file, &OPTIONS).unwrap();
    assert_eq!((imported.new_actions, imported.equal_actions), (1, 1));
    // A file of the right length with other bytes.
    let digest = Digest::of(&noise(2, 90_000));
    let hex = digest.hex();
    let path = dir.path().join("to/blobs").join(&hex[..2]).join(&hex[2..]);
    fs::write(&path, vec![0; 90_000]).unwrap();
    assert!(!to.verify().unwrap().is_sound());
    assert_eq!(to.import(&file, &OPTIONS).unwrap().new_blobs, 1);
    assert!(to.verify().unwrap().is_sound());
}

#[test]
fn an_export_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir.path().join("from"));
    let file = dir.path().join("file");
    fs::write(&file, "a letter").unwrap();
    let e = store.export(&roots(&["latest"]), &file).unwrap_err();
    assert!(matches!(e, StoreError::NoExportThere { .. }), "{e}");
    assert_eq!(fs::read(&file).unwrap(), b"a letter");
    fs::remove_file(&file).unwrap();
    let e = store.export(&roots(&["lastest"]), &file).unwrap_err();
    assert!(e.to_string().contains("latest, notes/compiler"), "{e}");
    let digest = Digest::of(&noise(2, 90_000)).hex();
    let blob = dir.path().join("from/blobs").join(&digest[..2]);
    fs::remove_file(blob.join(&digest[2..])).unwrap();
    let e = store.export(&roots(&["latest"]), &file).unwrap_err();
    assert!(matches!(e, StoreError::CorruptBlob { .. }), "{e}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // A job that was taken out is listed, and the rest goes.
    store.remove(&job(1).key()).unwrap();
    let one = store.put_blobs(&[noise(2, 90_000)]).unwrap();
    assert_eq!(one.len(), 1);
    let exported = store.export(&roots(&["latest"]), &file).unwrap();
    assert_eq!(exported.absent, [job(1).key()]);
}

#[test]
fn an_export_works_beside_the_process_that_writes() {
    let dir = tempfile::tempdir().unwrap();
    let writer = filled(dir.path());
    let beside = Store::open(dir.path(), Access::ReadOnly, "0.1.0").unwrap();
    let file = dir.path().with_extension("eb");
    beside.export(&roots(&["latest"]), &file).unwrap();
    fs::remove_file(&file).unwrap();
    writer
        .commit(vec![done(Job::of(KIND).put("sample", 9).done(), b"9")])
        .unwrap();
}
