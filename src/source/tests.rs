//! Trees on real disks, a real crate from the real registry, and hostile ones.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::tempdir;

use super::*;
use crate::digest::Digest;
use crate::subject;
use crate::subject::path::BadPath;
use crate::subject::{CrateSource, Globs, Manifest, Preset, Selection, preset};

mod archives;
mod debian;
mod git;
mod history;
mod http;
mod newest;
mod sdist;

fn globs(patterns: &[&str]) -> Globs {
    Globs::new(patterns.iter().map(|p| p.to_string()).collect()).unwrap()
}

fn read(path: &Path) -> Result<Tree, ReadError> {
    read_directory(path, &globs(&[]), &Limits::default())
}

fn file(byte: u8) -> FileEntry {
    FileEntry {
        digest: Digest([byte; 32]),
        executable: byte.is_multiple_of(2),
        size: u64::from(byte),
    }
}

fn write(tree: &Tree, dest: &Path) -> Result<(), WriteError> {
    write_tree(&tree.snapshot, |d| tree.blobs.get(d).cloned(), dest)
}

/// Trees with names that need care: spaces, newlines, accents, names of version control's kin.
fn trees() -> impl Strategy<Value = Tree> {
    let name = "[ab][ab]?|größe|a b|c\nd|\\.x|\\\\|\\*";
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    let entry = (path.clone(), any::<bool>(), bytes, prop::option::of(path));
    prop::collection::vec(entry, 0..12).prop_map(|entries| {
        let mut tree = Tree::default();
        for (path, executable, bytes, link) in entries {
            let before = tree.clone();
            match link {
                Some(to) => {
                    let ups = "../".repeat(path.matches('/').count());
                    tree.snapshot.links.insert(path, format!("{ups}{to}"));
                }
                None => tree.insert(path, executable, bytes.into()),
            }
            if tree.snapshot.check().is_err() {
                tree = before;
            }
        }
        tree
    })
}

proptest! {
    #[test]
    fn decode_reads_back_what_canonical_wrote(tree in trees()) {
        let bytes = tree.snapshot.canonical();
        prop_assert_eq!(Snapshot::decode(&bytes).unwrap(), tree.snapshot);
    }

    #[test]
    fn damaged_encodings_are_refused_or_other_trees(tree in trees(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = tree.snapshot.canonical();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(other) = Snapshot::decode(&bytes) {
            prop_assert_eq!(&other.canonical(), &bytes);
        }
        bytes.truncate(at);
        prop_assert!(Snapshot::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = Snapshot::decode(&[b"everbench tree 1\n", &bytes[..]].concat());
    }

    #[test]
    fn what_is_written_reads_back_with_the_same_digest(tree in trees()) {
        let dir = tempdir().unwrap();
        write(&tree, dir.path()).unwrap();
        let back = read(dir.path()).unwrap();
        prop_assert_eq!(&back.snapshot, &tree.snapshot);
        prop_assert_eq!(back.snapshot.digest(), tree.snapshot.digest());
        for path in tree.snapshot.files.keys() {
            prop_assert_eq!(back.bytes(path), tree.bytes(path));
        }
    }
}

#[test]
fn the_encoding_is_pinned() {
    let mut tree = Tree::default();
    tree.insert("src/a.c".into(), false, b"int a;\r\n".to_vec().into());
    tree.insert("configure".into(), true, b"#!/bin/sh\n".to_vec().into());
    tree.snapshot
        .links
        .insert("inc/a.h".into(), "../src/a.h".into());
    insta::assert_snapshot!(tree.snapshot.digest().hex(), @"173f6baf91f48873bf01f2289580afd0d648d7c809fcfe1db2a1c4f86169ce94");
}

#[test]
fn hostile_snapshots_are_refused_before_anything_is_written() {
    let dir = tempdir().unwrap();
    let dest = dir.path().join("dest");
    let refused = |snapshot: Snapshot| {
        assert!(Snapshot::decode(&snapshot.canonical()).is_err());
        let never = |_: &Digest| -> Option<Arc<[u8]>> { panic!("no bytes are asked for") };
        match write_tree(&snapshot, never, &dest) {
            Err(WriteError::Bad(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let long = "n".repeat(300);
    for path in [
        "../x",
        "/etc/x",
        "a/../../x",
        "a\0b",
        "",
        "a//b",
        ".",
        &long,
    ] {
        let mut s = Snapshot::default();
        s.files.insert(path.into(), file(1));
        assert!(matches!(refused(s), BadSnapshot::Path { .. }), "{path:?}");
    }
    for target in ["/etc/passwd", "../../x", "b/../../x", "b/..", "a\0b", ""] {
        let mut s = Snapshot::default();
        s.links.insert("d/l".into(), target.into());
        assert!(matches!(refused(s), BadSnapshot::Link { .. }), "{target:?}");
    }
    // A link that is in the way of a file: writing the file would follow it.
    let mut s = Snapshot::default();
    s.links.insert("a".into(), "b".into());
    s.files.insert("a/f".into(), file(1));
    assert!(matches!(refused(s), BadSnapshot::Conflict { .. }));
    let mut s = Snapshot::default();
    s.files.insert("a".into(), file(1));
    s.files.insert("a/f".into(), file(1));
    assert!(matches!(refused(s), BadSnapshot::Conflict { .. }));
    let mut s = Snapshot::default();
    s.files.insert("a".into(), file(1));
    s.links.insert("a".into(), "b".into());
    assert!(matches!(refused(s), BadSnapshot::Conflict { .. }));
    assert!(!dest.exists());
}

#[test]
fn written_files_have_fixed_modes_and_times() {
    let dir = tempdir().unwrap();
    let mut tree = Tree::default();
    tree.insert("d/plain.c".into(), false, b"x".to_vec().into());
    tree.insert("d/run.sh".into(), true, b"y".to_vec().into());
    tree.snapshot.links.insert("l".into(), "d/gone".into());
    write(&tree, dir.path()).unwrap();
    for (path, mode) in [("d", 0o755), ("d/plain.c", 0o644), ("d/run.sh", 0o755)] {
        let meta = fs::metadata(dir.path().join(path)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, mode, "{path}");
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (FIXED_TIME, 0), "{path}");
    }
    let link = fs::symlink_metadata(dir.path().join("l")).unwrap();
    assert_eq!(link.mtime(), FIXED_TIME);
}

#[test]
fn make_does_not_remake_shipped_files_and_sees_a_later_change() {
    let dir = tempdir().unwrap();
    let mut tree = Tree::default();
    let makefile =
        "all: out\nout: made\n\tcp made out\nmade: source\n\techo REMADE; cp source made\n";
    tree.insert("Makefile".into(), false, makefile.as_bytes().into());
    tree.insert("made".into(), false, b"shipped".to_vec().into());
    tree.insert("source".into(), false, b"source".to_vec().into());
    write(&tree, dir.path()).unwrap();
    let make = || {
        let out = Command::new("make").current_dir(dir.path()).output();
        String::from_utf8(out.expect("make runs").stdout).unwrap()
    };
    assert!(!make().contains("REMADE"));
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"shipped");
    fs::write(dir.path().join("source"), "changed").unwrap();
    assert!(make().contains("REMADE"));
}

#[test]
fn wrong_and_missing_bytes_and_full_directories_are_refused() {
    let dir = tempdir().unwrap();
    let mut tree = Tree::default();
    tree.insert("a".into(), false, b"right".to_vec().into());
    let s = &tree.snapshot;
    let to = |name: &str| dir.path().join(name);
    let wrong = |_: &Digest| Some(Arc::from(&b"wrong"[..]));
    let e = write_tree(s, wrong, &to("1")).unwrap_err();
    assert!(matches!(e, WriteError::WrongBlob { .. }), "{e}");
    let e = write_tree(s, |_| None, &to("2")).unwrap_err();
    assert!(matches!(e, WriteError::MissingBlob { .. }), "{e}");
    fs::create_dir(to("3")).unwrap();
    symlink("/tmp", to("3").join("a")).unwrap();
    assert!(matches!(
        write(&tree, &to("3")),
        Err(WriteError::NotEmpty(_))
    ));
    fs::write(to("4"), "").unwrap();
    assert!(matches!(write(&tree, &to("4")), Err(WriteError::Io { .. })));
}

#[test]
fn a_directory_is_read_with_what_was_left_out_listed() {
    let dir = tempdir().unwrap();
    let root = dir.path();
    for d in ["src", ".git/objects", "sub/build", "empty"] {
        fs::create_dir_all(root.join(d)).unwrap();
    }
    fs::write(root.join("src/latin1.c"), b"/* \xe9 */\r\nint x;").unwrap();
    fs::write(root.join(".git/objects/x"), "").unwrap();
    fs::write(root.join("sub/build/x.o"), "").unwrap();
    fs::write(root.join("notes.txt~"), "").unwrap();
    symlink("src/latin1.c", root.join("here.c")).unwrap();
    let tree = read_directory(root, &globs(&["**/build", "*~"]), &Limits::default()).unwrap();
    assert_eq!(
        tree.snapshot.files.keys().collect::<Vec<_>>(),
        ["src/latin1.c"]
    );
    assert_eq!(tree.snapshot.links["here.c"], "src/latin1.c");
    assert_eq!(tree.ignored, [".git", "notes.txt~", "sub/build"]);
    let bytes = tree.bytes("src/latin1.c").unwrap();
    assert_eq!(&bytes[..], b"/* \xe9 */\r\nint x;");
    assert_eq!(tree.snapshot.total_size(), 15);
}

#[test]
fn what_cannot_be_read_is_refused_for_its_reason() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert!(matches!(read(&at("none")), Err(ReadError::Missing(_))));
    fs::write(at("file"), "").unwrap();
    assert!(matches!(
        read(&at("file")),
        Err(ReadError::NotADirectory(_))
    ));
    assert!(matches!(
        read(&at("file/x")),
        Err(ReadError::NotADirectory(_))
    ));

    fs::create_dir(at("latin1")).unwrap();
    fs::write(at("latin1").join(OsStr::from_bytes(b"gr\xf6sse.c")), "").unwrap();
    let e = read(&at("latin1")).unwrap_err();
    assert!(matches!(e, ReadError::NotUtf8(_)), "{e}");

    fs::create_dir(at("pipe")).unwrap();
    let made = Command::new("mkfifo").arg(at("pipe/p")).status().unwrap();
    assert!(made.success());
    assert!(matches!(read(&at("pipe")), Err(ReadError::Special(_))));

    for (i, target) in ["/etc/passwd", "../file", "x/../../file"]
        .iter()
        .enumerate()
    {
        let name = at(&format!("out{i}"));
        fs::create_dir(&name).unwrap();
        symlink(target, name.join("l")).unwrap();
        let e = read(&name).unwrap_err();
        assert!(e.to_string().contains("may be outside the tree"), "{e}");
    }
    let gone = directory::read_file(&at("gone"), 10).unwrap_err();
    assert!(matches!(gone, ReadError::Vanished(_)));
    symlink(at("file"), at("swapped")).unwrap();
    let swapped = directory::read_file(&at("swapped"), 10).unwrap_err();
    assert!(matches!(swapped, ReadError::Unreadable { .. }));
}

#[test]
fn a_name_deeper_than_the_limit_is_refused() {
    let dir = tempdir().unwrap();
    let deep = vec!["d".repeat(200); 6].join("/");
    fs::create_dir_all(dir.path().join(&deep)).unwrap();
    fs::write(dir.path().join(&deep).join("f"), "").unwrap();
    let e = read(dir.path()).unwrap_err();
    let too_long = |e: &ReadError| {
        matches!(
            e,
            ReadError::Bad {
                error: BadSnapshot::Path {
                    why: BadPath::TooLong,
                    ..
                },
                ..
            }
        )
    };
    assert!(too_long(&e), "{e}");
}

#[test]
fn limits_are_held_and_named() {
    let dir = tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::write(dir.path().join(name), "12345").unwrap();
    }
    let exact = Limits {
        file_bytes: 5,
        total_bytes: 15,
        entries: 3,
    };
    let with = |limits| read_directory(dir.path(), &globs(&[]), &limits).map_err(|e| e.to_string());
    assert!(with(exact).is_ok());
    let file_bytes = Limits {
        file_bytes: 4,
        ..exact
    };
    assert!(
        with(file_bytes)
            .unwrap_err()
            .contains("bytes in one file (the limit is 4)")
    );
    let total_bytes = Limits {
        total_bytes: 14,
        ..exact
    };
    assert!(
        with(total_bytes)
            .unwrap_err()
            .contains("bytes in all (the limit is 14)")
    );
    let entries = Limits {
        entries: 2,
        ..exact
    };
    assert!(
        with(entries)
            .unwrap_err()
            .contains("files (the limit is 2)")
    );
}

fn place<'a>(private: &'a Path, scratch: &'a Path) -> Place<'a> {
    Place {
        manifest: private,
        private,
        scratch,
    }
}

fn oniguruma() -> (Manifest, CrateSource) {
    let Ok(Preset::Text(text)) = preset("oniguruma") else {
        panic!("the preset is a text");
    };
    let manifest = Manifest::parse(text, "oniguruma").unwrap();
    let subject::Source::Crate(source) = manifest.source.clone() else {
        panic!("oniguruma comes in a crate");
    };
    (manifest, source)
}

#[test]
fn oniguruma_comes_from_the_registry_whole_and_the_same_each_time() {
    let (manifest, source) = oniguruma();
    let dir = tempdir().unwrap();
    let scratch = dir.path().join("scratch");
    let tree = fetch(&manifest.source, place(dir.path(), &scratch)).unwrap();
    let files: Vec<&str> = tree.snapshot.files.keys().map(String::as_str).collect();
    assert!(files.contains(&"CMakeLists.txt") && files.contains(&"test/test_utf8.c"));
    assert!(
        !files
            .iter()
            .any(|f| f.contains("Cargo") || f.contains("cargo"))
    );
    let chosen = files
        .iter()
        .filter(|f| manifest.selection(f) == Selection::Selected);
    assert!(chosen.clone().any(|f| *f == "src/regparse.c"));
    assert!(chosen.clone().all(|f| f.starts_with("src/")));
    // The crate is pinned by its checksum, so its tree has one digest everywhere.
    insta::assert_snapshot!(tree.snapshot.digest().hex(), @"bd0e156123ce1e530349e5b5362d810c1766876ebf224a1b4a3c96b7e419a22b");

    // A second time in the same place, then onto the disk and back.
    let again = fetch(&manifest.source, place(dir.path(), &scratch)).unwrap();
    assert_eq!(again.snapshot, tree.snapshot);
    let out = dir.path().join("out");
    write(&tree, &out).unwrap();
    assert_eq!(
        read(&out).unwrap().snapshot.digest(),
        tree.snapshot.digest()
    );

    // The same crate with a wrong pin, a wrong folder, and no folder.
    let wrong = CrateSource {
        checksum: "0".repeat(64),
        ..source.clone()
    };
    let e = Fetcher::default().fetch(&wrong, &scratch).unwrap_err();
    assert!(
        matches!(&e, CrateError::Checksum { found, .. } if *found == source.checksum),
        "{e}"
    );
    let nowhere = CrateSource {
        path_inside: Some("onig".into()),
        ..source.clone()
    };
    let e = Fetcher::default().fetch(&nowhere, &scratch).unwrap_err();
    assert!(
        e.to_string()
            .contains("no directory `onig`; it has: oniguruma, src"),
        "{e}"
    );
    let whole = CrateSource {
        path_inside: None,
        ..source
    };
    let whole = Fetcher::default().fetch(&whole, &scratch).unwrap();
    assert!(whole.snapshot.files.contains_key("build.rs"));
    assert!(!whole.snapshot.files.contains_key(".cargo-checksum.json"));
    assert_eq!(whole.snapshot.below("oniguruma").unwrap(), tree.snapshot);
}

#[test]
fn versions_and_crates_that_do_not_exist_are_told_apart() {
    let (_, source) = oniguruma();
    let dir = tempdir().unwrap();
    let version = CrateSource {
        version: "69.99.99".into(),
        ..source.clone()
    };
    let e = Fetcher::default().fetch(&version, dir.path()).unwrap_err();
    assert!(matches!(e, CrateError::NoSuchVersion { .. }), "{e}");
    assert!(!SourceError::from(e).is_transient());
    let name = CrateSource {
        name: "everbench-no-crate-has-this-name".into(),
        ..source
    };
    let e = Fetcher::default().fetch(&name, dir.path()).unwrap_err();
    assert!(matches!(e, CrateError::NoSuchCrate { .. }), "{e}");
}

#[test]
fn no_cargo_and_no_network_are_told_apart() {
    let (_, source) = oniguruma();
    let dir = tempdir().unwrap();
    let none = Fetcher {
        cargo: dir.path().join("cargo"),
        env: Vec::new(),
    };
    let e = none.fetch(&source, &dir.path().join("1")).unwrap_err();
    assert!(matches!(e, CrateError::NoCargo { .. }), "{e}");
    // A cargo that has downloaded nothing yet, behind a proxy where nobody listens.
    let home = dir.path().join("home");
    let cut_off = Fetcher {
        env: vec![
            ("CARGO_HOME".into(), home.into()),
            ("CARGO_HTTP_PROXY".into(), "http://127.0.0.1:9".into()),
            ("CARGO_NET_RETRY".into(), "0".into()),
        ],
        ..Fetcher::default()
    };
    let e = cut_off.fetch(&source, &dir.path().join("2")).unwrap_err();
    assert!(matches!(e, CrateError::Network { .. }), "{e}");
    assert!(SourceError::from(e).is_transient());
}

/// A stand-in for cargo that unpacks what it is told to, for what the real one never does.
#[test]
fn unpacked_files_that_differ_from_the_list_are_refused() {
    use sha2::{Digest as _, Sha256};
    let sum = "5".repeat(64);
    let digest = Sha256::digest(b"int a;\n");
    let good: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    let run = |listed: &str, script: &str| {
        let dir = tempdir().unwrap();
        let cargo = dir.path().join("cargo");
        let text = format!(
            "#!/bin/sh\nset -e\nmkdir -p vendor/x-1.0.0/c\ncd vendor/x-1.0.0\n\
             printf 'int a;\\n' > c/a.c\n\
             printf '%s' '{{\"files\":{{{listed}}},\"package\":\"{sum}\"}}' > .cargo-checksum.json\n\
             printf '[[package]]\\nname = \"x\"\\nversion = \"1.0.0\"\\nchecksum = \"{sum}\"\\n' > ../../Cargo.lock\n\
             {script}\n"
        );
        fs::write(&cargo, text).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let fetcher = Fetcher {
            cargo,
            env: Vec::new(),
        };
        let source = CrateSource {
            name: "x".into(),
            version: "1.0.0".into(),
            follow: None,
            checksum: sum.clone(),
            path_inside: Some("c".into()),
        };
        let fetched = fetcher.fetch(&source, &dir.path().join("s"));
        fetched
            .map(|t| t.snapshot.files.len())
            .map_err(|e| e.to_string())
    };
    let listed = format!("\"c/a.c\":\"{good}\"");
    assert_eq!(run(&listed, "true"), Ok(1));
    for (listed, script, said) in [
        (
            listed.as_str(),
            "printf x >> c/a.c",
            "c/a.c differs from cargo's list",
        ),
        (&listed, "printf x > c/b.c", "c/b.c is not on cargo's list"),
        (&listed, "mv c/a.c c/b.c", "c/b.c is not on cargo's list"),
        (&listed, "rm c/a.c", "c/a.c is missing"),
        (&listed, "ln -s a.c c/l.c", "c/l.c is a link"),
        (
            &listed,
            "printf '{' > .cargo-checksum.json",
            "not a list of checksums",
        ),
        (
            &listed,
            "rm .cargo-checksum.json",
            ".cargo-checksum.json is missing",
        ),
        (
            &listed,
            "printf '' > ../../Cargo.lock",
            "no checksum for it",
        ),
        (
            &listed,
            "printf '[' > ../../Cargo.lock",
            "its lock file is odd",
        ),
        (
            &listed,
            "echo 'error: full' >&2; exit 101",
            "could not fetch x 1.0.0: error: full",
        ),
        (&listed, "kill -9 $$", "it said nothing (signal: 9"),
        ("", "true", "c/a.c is not on cargo's list"),
    ] {
        let e = run(listed, script).unwrap_err();
        assert!(e.contains(said), "{script}: {e}");
    }
}
