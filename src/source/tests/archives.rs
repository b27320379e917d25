//! Archives as real programs make them, and as nobody should.

use std::io::Write;

use super::http::{Pages, serve};
use super::*;
use crate::source::archive::{Wanted, read_archive};
use crate::source::download::sha256;
use crate::subject::TarballSource;

/// An entry of a tar archive, written as given.
pub struct Item {
    kind: u8,
    name: Vec<u8>,
    target: Vec<u8>,
    mode: u32,
    bytes: Vec<u8>,
}

impl Item {
    pub fn file(name: &str, bytes: &[u8]) -> Item {
        Item {
            kind: b'0',
            name: name.into(),
            target: Vec::new(),
            mode: 0o644,
            bytes: bytes.into(),
        }
    }

    fn of(kind: u8, name: impl Into<Vec<u8>>, target: &str) -> Item {
        Item {
            kind,
            name: name.into(),
            target: target.into(),
            mode: 0o644,
            bytes: Vec::new(),
        }
    }
}

/// A tar archive of these entries; nothing is checked or mended.
pub fn tar(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..item.name.len()].copy_from_slice(&item.name);
        header.as_mut_bytes()[157..157 + item.target.len()].copy_from_slice(&item.target);
        header.as_mut_bytes()[156] = item.kind;
        header.set_mode(item.mode);
        header.set_size(item.bytes.len() as u64);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        out.extend(header.as_bytes());
        out.extend(&item.bytes);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn unpack(bytes: &[u8]) -> Result<Tree, String> {
    let read = read_archive("x.tar", bytes, Wanted::default(), Limits::default());
    read.map_err(|e| e.to_string())
}

fn small(bytes: &[u8]) -> Result<Tree, String> {
    let limits = Limits {
        file_bytes: 1000,
        total_bytes: 5000,
        entries: 10,
    };
    read_archive("x.tar", bytes, Wanted::default(), limits).map_err(|e| e.to_string())
}

/// Runs a shell script and gives what it wrote to standard output.
fn made(dir: &Path, script: &str) -> Vec<u8> {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {err}");
    output.stdout
}

#[test]
fn archives_of_real_programs_give_the_tree_that_was_packed() {
    let dir = tempdir().unwrap();
    let deep = format!("lib-1.0/{}/{}", "d".repeat(90), "e".repeat(90));
    made(
        dir.path(),
        &format!(
            "mkdir -p {deep} lib-1.0/empty; printf 'int a;\\r\\n' > lib-1.0/a.c
             printf '#!/bin/sh\\n' > lib-1.0/run; chmod 755 lib-1.0/run
             printf 'größe' > lib-1.0/größe.txt; : > {deep}/none; ln -s a.c lib-1.0/l"
        ),
    );
    let expected = read(&dir.path().join("lib-1.0")).unwrap().snapshot;
    assert_eq!(expected.files.len() + expected.links.len(), 5);
    let zip = "python3 - <<'END'
import os, sys, zipfile
z = zipfile.ZipFile('/dev/stdout', 'w', zipfile.ZIP_DEFLATED)
for top, dirs, names in os.walk('lib-1.0'):
    for name in dirs + names:
        path = os.path.join(top, name)
        info = zipfile.ZipInfo.from_file(path)
        if os.path.islink(path):
            info = zipfile.ZipInfo(path)
            info.create_system = 3
            info.external_attr = 0o120777 << 16
            z.writestr(info, os.readlink(path))
        elif os.path.isdir(path):
            z.writestr(info, b'')
        else:
            z.writestr(info, open(path, 'rb').read())
z.close()
END";
    for script in [
        "tar -cf - lib-1.0",
        "tar --format=pax -cf - lib-1.0",
        "tar --format=ustar -cf - lib-1.0",
        "tar -czf - lib-1.0",
        "tar -cjf - lib-1.0",
        "tar -cJf - lib-1.0",
        "tar --zstd -cf - lib-1.0",
        "cd lib-1.0; tar -czf - .",
        "cd lib-1.0; tar -cf - a.c run größe.txt l d*",
        // As servers of git repositories pack it: with a global header before all.
        "git init -q r; cp -a lib-1.0/. r; cd r; git add .; git -c user.name=a -c user.email=a commit -qm x
         git archive --format=tar.gz --prefix=lib-1.0/ HEAD",
        zip,
    ] {
        let bytes = made(dir.path(), script);
        let tree = unpack(&bytes).unwrap_or_else(|e| panic!("{script}: {e}"));
        assert_eq!(tree.snapshot, expected, "{script}");
    }
}

#[test]
fn hostile_entries_are_refused_by_name() {
    let file = |name: &str| Item::file(name, b"x");
    let long = "n".repeat(90);
    for (items, said) in [
        (
            vec![file("/etc/x")],
            "\"/etc/x\" is refused: it is absolute",
        ),
        (
            vec![file("a/../../x")],
            "\"a/../../x\" is refused: it contains `..`",
        ),
        (
            vec![file("a//b")],
            "\"a//b\" is refused: it is not in its shortest form",
        ),
        (
            vec![Item::of(b'5', "../d/", "")],
            "\"../d\" is refused: it contains `..`",
        ),
        (vec![Item::of(b'0', &b"gr\xf6n"[..], "")], "not UTF-8"),
        (
            vec![file("a"), Item::of(b'2', "l", "/etc/passwd")],
            "link \"l\" points to \"/etc/passwd\"",
        ),
        (
            vec![file("a"), Item::of(b'2', "d/l", "../../x")],
            "may be outside the tree",
        ),
        // Inside before the top directory is taken away, outside after.
        (
            vec![file("d/a"), Item::of(b'2', "d/l", "../e")],
            "may be outside the tree",
        ),
        (
            vec![Item::of(b'2', "l", "."), file("l/x")],
            "is a file or a link, and",
        ),
        (
            vec![file("a"), Item::of(b'1', "h", "a")],
            "\"h\" is refused: it is a hard link",
        ),
        (
            vec![Item::of(b'3', "dev", "")],
            "\"dev\" is refused: it is a device",
        ),
        (
            vec![Item::of(b'4', "dev", "")],
            "\"dev\" is refused: it is a device",
        ),
        (
            vec![Item::of(b'6', "pipe", "")],
            "\"pipe\" is refused: it is a pipe",
        ),
        (
            vec![Item::of(b'V', "label", "")],
            "\"label\" is refused: it is of a kind",
        ),
        (
            vec![file("a"), file("b"), file("a")],
            "\"a\" is there twice",
        ),
        (vec![file("a"), file("./a")], "\"a\" is there twice"),
        (
            vec![file("a"), Item::of(b'2', "a", "b")],
            "\"a\" is there twice",
        ),
        (
            vec![file(&long), file(&format!("{long}/x"))],
            "is a file or a link, and",
        ),
        (vec![], "it holds no file"),
        (vec![Item::of(b'5', "d/", "")], "it holds no file"),
        (vec![file("d/.git/config")], "it holds no file"),
    ] {
        let bytes = tar(&items);
        let e = unpack(&gz(&bytes)).unwrap_err();
        assert!(e.starts_with("x.tar: ") && e.contains(said), "{said}: {e}");
    }
    let tree = unpack(&tar(&[
        file("d/a"),
        file("d/.git/x"),
        file("d/.git/y"),
        file("d/s/.svn"),
    ]));
    assert_eq!(tree.unwrap().ignored, [".git", "s/.svn"]);
}

#[test]
fn bombs_end_at_the_limits() {
    let zeros = |n: usize| vec![0; n];
    let big = |name: &str, n| Item::file(name, &zeros(n));
    assert!(small(&gz(&tar(&[big("a", 1000)]))).is_ok());
    let e = small(&gz(&tar(&[big("a", 1001)]))).unwrap_err();
    assert!(
        e.contains("\"a\" is too large: bytes in one file (the limit is 1000)"),
        "{e}"
    );
    let six: Vec<Item> = (0..6).map(|i| big(&format!("f{i}"), 900)).collect();
    let e = small(&gz(&tar(&six))).unwrap_err();
    assert!(e.contains("bytes in all (the limit is 5000)"), "{e}");
    let many: Vec<Item> = (0..11).map(|i| big(&format!("f{i}"), 0)).collect();
    let e = small(&gz(&tar(&many))).unwrap_err();
    assert!(e.contains("files (the limit is 10)"), "{e}");
    // Nothing but directories, and a name without end: no file that could be too large.
    let empty: Vec<Item> = (0..100)
        .map(|i| Item::of(b'5', format!("d{i}/"), ""))
        .collect();
    let mut name = Item::of(b'L', "././@LongLink", "");
    name.bytes = vec![b'n'; 100_000];
    for items in [empty, vec![name]] {
        let e = small(&gz(&tar(&items))).unwrap_err();
        assert!(e.contains("what it unpacks to is too large"), "{e}");
    }
    // Sparse: a small archive says that a file is large.
    let dir = tempdir().unwrap();
    for format in ["gnu", "pax"] {
        let script = format!("truncate -s 1T s; tar --format={format} -Scf - s");
        let bytes = made(dir.path(), &script);
        let e = unpack(&bytes).unwrap_err();
        assert!(
            e.contains("a sparse file") || e.contains("of a kind"),
            "{format}: {e}"
        );
    }
    // A zip whose entries share their bytes.
    let script = "python3 - <<'END'
import io, zipfile, sys
b = io.BytesIO(); z = zipfile.ZipFile(b, 'w', zipfile.ZIP_DEFLATED)
z.writestr('a', b'0' * 900)
first = z.infolist()[0]
import copy
for i in range(8):
    c = copy.copy(first); c.filename = 'b%d' % i; z.filelist.append(c)
z._didModify = True
z.close(); sys.stdout.buffer.write(b.getvalue())
END";
    let e = small(&made(dir.path(), script)).unwrap_err();
    assert!(e.contains("limit is") || e.contains("damaged"), "{e}");
}

#[test]
fn zips_are_as_strict_as_tars() {
    let dir = tempdir().unwrap();
    let zip = |body: &str| {
        let script = format!(
            "python3 -W ignore - <<'END'
import io, sys, zipfile
b = io.BytesIO(); z = zipfile.ZipFile(b, 'w')
def link(name, to, mode=0o120777):
    i = zipfile.ZipInfo(name); i.create_system = 3; i.external_attr = mode << 16; z.writestr(i, to)
z.writestr('a', 'x')
{body}
z.close(); sys.stdout.buffer.write(b.getvalue())
END"
        );
        unpack(&made(dir.path(), &script)).unwrap_err()
    };
    for (body, said) in [
        (
            "z.writestr('../b', 'x')",
            "\"../b\" is refused: it contains `..`",
        ),
        ("z.writestr('/b', 'x')", "\"/b\" is refused: it is absolute"),
        ("z.writestr('a', 'y')", "\"a\" is there twice"),
        ("link('l', '/etc/passwd')", "may be outside the tree"),
        (
            "link('p', '', 0o010644)",
            "neither a file, a directory nor a link",
        ),
        ("z.infolist()[0].CRC ^= 1", "cannot be read"),
    ] {
        let e = zip(body);
        assert!(e.contains(said), "{body}: {e}");
    }
}

#[test]
fn what_is_no_archive_or_damaged_is_said() {
    let e = unpack(b"<html>not found</html>").unwrap_err();
    assert!(e.contains("not an archive that is understood"), "{e}");
    assert!(unpack(b"").is_err());
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), vec![7; 100_000]).unwrap();
    for pack in ["-z", "-j", "-J", "--zstd"] {
        let whole = made(dir.path(), &format!("tar -c {pack} -f - f"));
        unpack(&whole).unwrap();
        let e = unpack(&whole[..whole.len() / 2]).unwrap_err();
        assert!(
            e.contains("damaged") || e.contains("cannot be read"),
            "{pack}: {e}"
        );
    }
}

proptest! {
    #[test]
    fn damaged_archives_are_refused_or_read_without_a_panic(
        which in 0usize..3, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()
    ) {
        let plain = tar(&[Item::file("d/a.c", b"int a;\n"), Item::of(b'2', "d/l", "a.c")]);
        let mut bytes = match which {
            0 => gz(&plain),
            1 => zstd::encode_all(&plain[..], 1).unwrap(),
            _ => plain,
        };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = unpack(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = unpack(&bytes);
    }
}

fn source(location: &str, sha: &str) -> TarballSource {
    TarballSource {
        location: location.into(),
        sha256: sha.into(),
        archive_inside: None,
        path_inside: None,
    }
}

#[test]
fn tarballs_come_by_url_and_by_path_and_must_have_their_checksum() {
    let dir = tempdir().unwrap();
    let packed = gz(&tar(&[
        Item::file("x-1/src/a.c", b"int a;\n"),
        Item::file("x-1/b", b""),
    ]));
    let sum = sha256(&packed);
    fs::write(dir.path().join("x.tgz"), &packed).unwrap();
    let url = serve(Pages::from([
        ("/x.tgz".into(), (200, "application/gzip", packed.clone())),
        ("/busy".into(), (429, "text/plain", Vec::new())),
        ("/cut".into(), (0, "application/gzip", packed)),
        ("/closed".into(), (403, "text/plain", Vec::new())),
    ]));
    let fetch = |location: &str, sha: &str| tarball::fetch(&source(location, sha), dir.path());
    let near = fetch("x.tgz", &sum).unwrap();
    let far = fetch(&format!("{url}/x.tgz"), &sum).unwrap();
    assert_eq!(near.snapshot, far.snapshot);
    assert_eq!(
        near.snapshot.files.keys().collect::<Vec<_>>(),
        ["b", "src/a.c"]
    );
    let part = TarballSource {
        path_inside: Some("src".into()),
        ..source("x.tgz", &sum)
    };
    let part = tarball::fetch(&part, dir.path()).unwrap();
    assert_eq!(part.snapshot.files.keys().collect::<Vec<_>>(), ["a.c"]);
    assert_eq!(part.blobs.len(), 1);

    let e = fetch("x.tgz", &"0".repeat(64)).unwrap_err();
    assert!(
        matches!(&e, TarballError::Checksum { found, .. } if *found == sum),
        "{e}"
    );
    let error = |path: &str| SourceError::from(fetch(path, &sum).unwrap_err());
    for path in ["/busy", "/cut"] {
        let e = error(&format!("{url}{path}"));
        assert!(e.is_transient(), "{path}: {e}");
    }
    assert!(error("http://127.0.0.1:9/x").is_transient());
    for (path, said) in [
        (format!("{url}/none"), "404"),
        (format!("{url}/closed"), "403"),
        ("none.tgz".into(), "No such file"),
        (".".into(), "it is not a file"),
        ("http://".into(), "cannot fetch"),
    ] {
        let e = error(&path);
        assert!(
            !e.is_transient() && e.to_string().contains(said),
            "{path}: {e}"
        );
    }
}
