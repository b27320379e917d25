//! A package archive on this machine's own disk, served to the real apt.

use std::path::PathBuf;

use super::*;
use crate::subject::DebianSource;

/// Makes an archive with source packages `eb-lib` 1.0-1 and 1.0-2 (quilt, with a patch) and
/// `eb-native` 3 (native); and a machine whose apt sources have it in a `.list` file.
pub(super) fn archive(dir: &Path) -> Apt {
    let script = r#"
mkdir -p pool etc/sources.list.d eb-lib-1.0/src; cd pool
printf 'int a;\n' > ../eb-lib-1.0/src/a.c; printf '#!/bin/sh\n' > ../eb-lib-1.0/run; chmod +x ../eb-lib-1.0/run
tar -C .. -czf eb-lib_1.0.orig.tar.gz eb-lib-1.0
cp -a ../eb-lib-1.0 build; cd build; mkdir -p debian/source debian/patches
printf '3.0 (quilt)\n' > debian/source/format
cat > debian/control <<'END'
Source: eb-lib
Maintainer: A <a@example.org>
Standards-Version: 4.6.0

Package: eb-lib
Architecture: any
Description: x
END
cat > debian/rules <<END
#!/bin/sh
touch $MARK
END
chmod +x debian/rules
printf 'fix.patch\n' > debian/patches/series
printf -- '--- a/src/a.c\n+++ b/src/a.c\n@@ -1 +1 @@\n-int a;\n+int fixed;\n' > debian/patches/fix.patch
for v in 1.0-1 1.0-2; do
  printf 'eb-lib (%s) x; urgency=low\n\n  * x\n\n -- A <a@example.org>  Mon, 01 Jan 2024 00:00:00 +0000\n' $v > debian/changelog
  (cd ..; dpkg-source -b build >/dev/null 2>&1)
done
printf '3.0 (native)\n' > debian/source/format; rm -r debian/patches; sed -i s/eb-lib/eb-native/ debian/control
printf 'eb-native (3) x; urgency=low\n\n  * x\n\n -- A <a@example.org>  Mon, 01 Jan 2024 00:00:00 +0000\n' > debian/changelog
cd ..; dpkg-source -b build >/dev/null 2>&1; rm -r build; cd ..
dpkg-scansources pool > Sources 2>/dev/null
printf 'deb [trusted=yes] file:%s ./\n' "$PWD" > etc/sources.list.d/eb.list
printf '#!/bin/sh\ntouch %s\n' "$MARK" > hook; chmod +x hook
printf 'Dir::Etc::sourcelist "%s/etc/sources.list";\nDir::Etc::sourceparts "%s/etc/sources.list.d";\nAPT::Update::Post-Invoke { "%s/hook"; };\n' "$PWD" "$PWD" "$PWD" > apt.conf
chmod -R a+rX .
"#;
    let output = Command::new("sh")
        .args(["-ec", script])
        .env("MARK", dir.join("mark"))
        .env("LC_ALL", "C.UTF-8")
        .current_dir(dir)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "dpkg-dev is needed (tools/setup installs it): {err}"
    );
    Apt {
        private: dir.join("private"),
        env: vec![("APT_CONFIG".into(), dir.join("apt.conf").into())],
    }
}

pub(super) fn source(name: &str, version: Option<&str>) -> DebianSource {
    DebianSource {
        name: name.into(),
        version: version.map(str::to_string),
        follow: None,
        sha256: None,
        patched: true,
        path_inside: None,
    }
}

fn fetch(apt: &Apt, source: &DebianSource) -> Result<Tree, DebianError> {
    let scratch = tempdir().unwrap();
    apt.fetch(source, scratch.path())
}

pub(super) fn open_dir() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    builder
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap()
}

#[test]
fn a_package_comes_patched_or_not_by_the_machines_own_sources() {
    let dir = open_dir();
    let apt = archive(dir.path());
    let lib = source("eb-lib", Some("1.0-2"));
    let tree = fetch(&apt, &lib).unwrap();
    assert_eq!(&tree.bytes("src/a.c").unwrap()[..], b"int fixed;\n");
    assert!(tree.snapshot.files["run"].executable);
    assert!(tree.snapshot.files.contains_key("debian/rules"));
    assert_eq!(tree.ignored, [".pc"]);
    // The same again, and from nothing in another place.
    assert_eq!(fetch(&apt, &lib).unwrap().snapshot, tree.snapshot);
    let elsewhere = tempdir().unwrap();
    let other = Apt {
        private: elsewhere.path().join("p"),
        ..apt.clone()
    };
    assert_eq!(fetch(&other, &lib).unwrap().snapshot, tree.snapshot);
    let plain = DebianSource {
        patched: false,
        path_inside: Some("src".into()),
        ..lib.clone()
    };
    let plain = fetch(&apt, &plain).unwrap();
    assert_eq!(&plain.bytes("a.c").unwrap()[..], b"int a;\n");
    fetch(&apt, &source("eb-native", Some("3"))).unwrap();

    let offered = "on offer: 1.0-1, 1.0-2";
    for (version, said) in [
        (None, "`eb-lib` needs an exact `version`"),
        (Some("1.0"), "`eb-lib` is not to be had in version 1.0"),
    ] {
        let e = fetch(&apt, &source("eb-lib", version))
            .unwrap_err()
            .to_string();
        let sorted = e.contains(offered) || e.contains("on offer: 1.0-2, 1.0-1");
        assert!(e.contains(said) && sorted, "{e}");
    }
    let e = fetch(&apt, &source("eb-none", Some("1"))).unwrap_err();
    assert!(matches!(e, DebianError::NoSuchPackage { .. }), "{e}");
    let wrong = DebianSource {
        sha256: Some("0".repeat(64)),
        ..lib.clone()
    };
    let e = fetch(&apt, &wrong).unwrap_err();
    let DebianError::Checksum { found, .. } = &e else {
        panic!("{e}")
    };
    let right = DebianSource {
        sha256: Some(found.clone()),
        ..lib.clone()
    };
    fetch(&apt, &right).unwrap();
    let nowhere = DebianSource {
        path_inside: Some("lib".into()),
        ..lib.clone()
    };
    let e = fetch(&apt, &nowhere).unwrap_err().to_string();
    assert!(e.contains("no directory `lib`; it has: debian, src"), "{e}");
    assert!(
        !dir.path().join("mark").exists(),
        "a hook or the package was run"
    );

    // A file that is not the one of the index, and one that is no longer there.
    let orig = dir.path().join("pool/eb-lib_1.0.orig.tar.gz");
    let bytes = fs::read(&orig).unwrap();
    let mut other = bytes.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    fs::write(&orig, other).unwrap();
    let e = fetch(&apt, &lib).unwrap_err();
    assert!(
        e.to_string().contains("Hash Sum mismatch") && e.is_transient(),
        "{e}"
    );
    fs::remove_file(&orig).unwrap();
    let e = fetch(&apt, &lib).unwrap_err();
    assert!(matches!(e, DebianError::Gone { .. }), "{e}");
    assert!(e.to_string().contains("no longer served"), "{e}");
    assert!(!e.to_string().contains("newer version"), "{e}");
}

#[test]
fn an_ordinary_user_needs_nothing_but_a_folder() {
    if !rustix::process::geteuid().is_root() {
        // Every other test of this file then runs as one.
        return;
    }
    let dir = open_dir();
    archive(dir.path());
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    // The programs themselves run as somebody else: wrappers first in PATH.
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["apt-get", "apt-cache", "apt-config", "dpkg-source"] {
        let text = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin exec setpriv --reuid=65534 --regid=65534 --clear-groups {name} \"$@\"\n"
        );
        fs::write(bin.join(name), text).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let apt = Apt {
        private: home.join("private"),
        env: vec![
            ("APT_CONFIG".into(), dir.path().join("apt.conf").into()),
            (
                "PATH".into(),
                format!("{}:/usr/bin:/bin", bin.display()).into(),
            ),
            ("HOME".into(), home.clone().into()),
        ],
    };
    let scratch = home.join("scratch");
    // What this process makes, the other user must be able to write.
    for folder in [
        "private",
        "private/state/lists/partial",
        "private/cache/archives/partial",
        "private/parts",
        "scratch/files",
    ] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    let owned = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(&home)
        .status();
    assert!(owned.unwrap().success());
    let tree = apt
        .fetch(&source("eb-lib", Some("1.0-1")), &scratch)
        .unwrap();
    assert_eq!(&tree.bytes("src/a.c").unwrap()[..], b"int fixed;\n");
    let lists: PathBuf = home.join("private/state/lists");
    let owner = fs::metadata(
        fs::read_dir(lists)
            .unwrap()
            .flatten()
            .next()
            .unwrap()
            .path(),
    );
    assert_eq!(owner.unwrap().uid(), 65534);
}

#[test]
fn machines_that_cannot_are_told_what_they_lack() {
    let dir = open_dir();
    let apt = archive(dir.path());
    let lib = source("eb-lib", Some("1.0-1"));
    let with = |name: &str, value: &Path| {
        let mut env = apt.env.clone();
        env.push((name.into(), value.into()));
        Apt {
            private: dir.path().join("other"),
            env,
        }
    };
    // No apt, hence no Debian; apt, but nothing that unpacks.
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let e = fetch(&with("PATH", &bin), &lib).unwrap_err();
    assert!(matches!(e, DebianError::NoApt { .. }), "{e}");
    assert!(
        e.to_string().contains("Elsewhere use `tarball` or `git`"),
        "{e}"
    );
    symlink("/usr/bin/apt-get", bin.join("apt-get")).unwrap();
    let e = fetch(&with("PATH", &bin), &lib).unwrap_err();
    assert!(e.to_string().contains("apt-get install dpkg-dev"), "{e}");
    assert!(SourceError::from(e).is_environment());

    // No source at all; one that does not answer.
    let list = dir.path().join("etc/sources.list.d/eb.list");
    fs::remove_file(&list).unwrap();
    let e = fetch(&with("X", &bin), &lib).unwrap_err();
    assert!(matches!(e, DebianError::NoSources(_)), "{e}");
    let stanza = "Types: deb\nURIs: http://127.0.0.1:9/debian\nSuites: ./\nTrusted: yes\n";
    fs::write(list.with_extension("sources"), stanza).unwrap();
    let e = fetch(&with("X", &bin), &lib).unwrap_err();
    assert!(matches!(e, DebianError::Network { .. }), "{e}");
    assert!(SourceError::from(e).is_transient());
}
