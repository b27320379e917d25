//! Which version is the newest: local registries, archives and indexes, asked by the real cargo, apt and
//! pip. Everywhere there are versions whose order as texts is not that of versions.

use super::debian::{archive, open_dir, source as package};
use super::http::{Pages, serve};
use super::sdist::{JSON, index, source as distribution};
use super::*;
use crate::source::download::sha256;
use crate::subject::{DebianSource, Follow, Pin, SdistSource, Source};

fn follow(within: Option<&str>, pre_releases: bool) -> Option<Follow> {
    Some(Follow {
        within: within.map(str::to_string),
        pre_releases,
    })
}

/// What a manifest writes for it.
fn written(within: Option<&str>) -> String {
    within.map_or("latest".into(), |w| format!("{w}.*"))
}

/// A registry in a folder with these versions of the crate `demo`, each yanked or not, and a cargo that
/// knows no other.
fn registry(dir: &Path, versions: &[(&str, bool)]) -> Fetcher {
    let registry = dir.join("registry");
    let listed = registry.join("index/de/mo");
    fs::create_dir_all(&listed).unwrap();
    let mut lines = String::new();
    for (version, yanked) in versions {
        let name = format!("demo-{version}");
        let folder = dir.join(&name);
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
        fs::write(folder.join("a.c"), format!("int a; // {version}\n")).unwrap();
        let manifest =
            format!("[package]\nname = \"demo\"\nversion = \"{version}\"\nedition = \"2021\"\n");
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        let packed = registry.join(format!("{name}.crate"));
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&packed).arg("-C").arg(dir).arg(&name);
        assert!(tar.status().unwrap().success());
        let sum = sha256(&fs::read(&packed).unwrap());
        lines += &format!(
            "{{\"name\":\"demo\",\"vers\":\"{version}\",\"deps\":[],\"cksum\":\"{sum}\",\
             \"features\":{{}},\"yanked\":{yanked}}}\n"
        );
    }
    fs::write(listed.join("demo"), lines).unwrap();
    let home = dir.join("home");
    fs::create_dir_all(&home).unwrap();
    let config = format!(
        "[source.crates-io]\nreplace-with = \"local\"\n[source.local]\nlocal-registry = {:?}\n",
        registry.display().to_string()
    );
    fs::write(home.join("config.toml"), config).unwrap();
    Fetcher {
        env: vec![("CARGO_HOME".into(), home.into())],
        ..Fetcher::default()
    }
}

fn krate(within: Option<&str>, pre_releases: bool) -> CrateSource {
    CrateSource {
        name: "demo".into(),
        version: written(within),
        follow: follow(within, pre_releases),
        checksum: String::new(),
        path_inside: None,
    }
}

#[test]
fn the_newest_crate_is_what_cargo_would_lock() {
    let dir = tempdir().unwrap();
    let versions = [
        ("1.10.0", false),
        ("1.9.0", false),
        ("1.2.0", false),
        ("1.11.0", true),
        ("2.0.0-rc.1", false),
    ];
    let cargo = registry(dir.path(), &versions);
    let scratch = dir.path().join("scratch");
    let newest = |within, pre| cargo.newest(&krate(within, pre), &scratch);
    let found = |within, pre| newest(within, pre).unwrap().version;
    assert_eq!(found(None, false), "1.10.0");
    assert_eq!(found(Some("1.2"), false), "1.2.0");
    assert_eq!(found(Some("1"), false), "1.10.0");
    assert_eq!(found(None, true), "2.0.0-rc.1");
    // What was found is what is fetched, by its checksum.
    let pin = newest(None, false).unwrap();
    let Source::Crate(exact) = Source::Crate(krate(None, false)).at(&pin) else {
        panic!("it stays a crate");
    };
    let tree = cargo.fetch(&exact, &scratch).unwrap();
    assert_eq!(&tree.bytes("a.c").unwrap()[..], b"int a; // 1.10.0\n");

    let e = newest(Some("3"), false).unwrap_err();
    assert!(matches!(e, CrateError::NoSuchVersion { .. }), "{e}");
    assert!(
        e.to_string().contains("has no version 3.* to be had") && e.to_string().contains("1.10.0"),
        "{e}"
    );
    let other = CrateSource {
        name: "other".into(),
        ..krate(None, false)
    };
    for pre_releases in [false, true] {
        let other = CrateSource {
            follow: follow(None, pre_releases),
            ..other.clone()
        };
        let e = cargo.newest(&other, &scratch).unwrap_err();
        assert!(matches!(e, CrateError::NoSuchCrate { .. }), "{e}");
    }
    // Nothing but what is withdrawn or not released yet.
    let dir = tempdir().unwrap();
    let cargo = registry(dir.path(), &[("1.0.0", true), ("2.0.0-rc.1", false)]);
    let e = cargo.newest(&krate(None, false), &scratch).unwrap_err();
    assert!(matches!(e, CrateError::NoSuchVersion { .. }), "{e}");

    let cut_off = Fetcher {
        env: vec![
            ("CARGO_HOME".into(), dir.path().join("other").into()),
            ("CARGO_HTTP_PROXY".into(), "http://127.0.0.1:9".into()),
            ("CARGO_NET_RETRY".into(), "0".into()),
        ],
        ..Fetcher::default()
    };
    let e = cut_off.newest(&krate(None, false), &scratch).unwrap_err();
    assert!(matches!(e, CrateError::Network { .. }), "{e}");
}

fn debian(within: Option<&str>, pre_releases: bool) -> DebianSource {
    DebianSource {
        version: Some(written(within)),
        follow: follow(within, pre_releases),
        ..package("eb-lib", None)
    }
}

#[test]
fn the_newest_debian_package_is_that_by_dpkg() {
    let dir = open_dir();
    let apt = archive(dir.path());
    let pin = apt.newest(&debian(None, false)).unwrap();
    let dsc = fs::read(dir.path().join("pool/eb-lib_1.0-2.dsc")).unwrap();
    let expected = Pin {
        version: "1.0-2".into(),
        checksum: sha256(&dsc),
    };
    assert_eq!(pin, expected);
    let Source::Debian(exact) = Source::Debian(debian(None, false)).at(&pin) else {
        panic!("it stays a Debian package");
    };
    let scratch = tempdir().unwrap();
    let tree = apt.fetch(&exact, scratch.path()).unwrap();
    assert_eq!(&tree.bytes("src/a.c").unwrap()[..], b"int fixed;\n");

    // The archive goes on: for the order it takes no more than the index.
    let sources = dir.path().join("Sources");
    let text = fs::read_to_string(&sources).unwrap();
    let stanza = text
        .split("\n\n")
        .find(|s| s.contains("\nVersion: 1.0-2\n"))
        .unwrap();
    let versions = [
        "1.0-10",
        "1.0-9",
        "1.1~dfsg-1",
        "1.1~rc1-1",
        "1:0.9-1",
        "1:0.10-1",
    ];
    let with = |versions: &[&str]| {
        let more = versions
            .iter()
            .map(|v| stanza.replace("\nVersion: 1.0-2\n", &format!("\nVersion: {v}\n")));
        let all: Vec<String> = std::iter::once(text.trim_end().to_string())
            .chain(more.map(|s| s.trim_end().to_string()))
            .collect();
        fs::write(&sources, all.join("\n\n") + "\n").unwrap();
    };
    let found = |within, pre| apt.newest(&debian(within, pre)).unwrap().version;
    with(&versions[..4]);
    assert_eq!(found(None, false), "1.1~dfsg-1");
    assert_eq!(found(None, true), "1.1~rc1-1");
    assert_eq!(found(Some("1.0"), false), "1.0-10");
    with(&versions);
    assert_eq!(found(None, false), "1:0.10-1");

    let e = apt.newest(&debian(Some("4"), false)).unwrap_err();
    assert!(matches!(e, DebianError::NoSuchVersion { .. }), "{e}");
    assert!(e.to_string().contains("1:0.10-1"), "{e}");
    let none = DebianSource {
        name: "eb-none".into(),
        ..debian(None, false)
    };
    let e = apt.newest(&none).unwrap_err();
    assert!(matches!(e, DebianError::NoSuchPackage { .. }), "{e}");
    // An archive that does not answer may be the one with a newer version.
    let list = dir.path().join("etc/sources.list.d/eb.list");
    let mut lines = fs::read_to_string(&list).unwrap();
    lines += "deb [trusted=yes] http://127.0.0.1:9/debian ./\n";
    fs::write(&list, lines).unwrap();
    let e = apt.newest(&debian(None, false)).unwrap_err();
    assert!(matches!(e, DebianError::Network { .. }), "{e}");
}

fn sdist(within: Option<&str>, pre_releases: bool) -> SdistSource {
    SdistSource {
        follow: follow(within, pre_releases),
        ..distribution("Demo", &written(within), "")
    }
}

#[test]
fn the_newest_source_distribution_is_that_by_pip() {
    let listed = |name: &str, more: &str| {
        format!(
            "{{\"filename\":\"{name}\",\"url\":\"../f/{name}\",\"hashes\":{{\"sha256\":\"{}\"}}{more}}}",
            sha256(name.as_bytes())
        )
    };
    let page = |files: &[String]| {
        let text = format!("{{\"files\":[{}]}}", files.join(","));
        (200, JSON, text.into_bytes())
    };
    let files = [
        listed("demo-1.10.tar.gz", ""),
        listed("demo-1.9.tar.gz", ""),
        listed("demo-1.10.post1.zip", ""),
        listed("demo-2.0-beta.2.tar.gz", ""),
        listed("demo-2.0rc1.tar.gz", ""),
        listed("demo-1.11.tar.gz", ",\"yanked\":\"broken\""),
        listed("demo-3.0-py3-none-any.whl", ""),
        listed("demo-what.ever.tar.gz", ""),
        listed("demo-9 9.tar.gz", ""),
    ];
    let wheels = [listed("demo-3.0-py3-none-any.whl", "")];
    let early = [listed("demo-1.0a1.tar.gz", "")];
    let bare = "<a href=\"/f/demo-1.0.tar.gz\">demo-1.0.tar.gz</a>".to_string();
    let url = serve(Pages::from([
        ("/json/demo/".into(), page(&files)),
        ("/wheels/demo/".into(), page(&wheels)),
        ("/early/demo/".into(), page(&early)),
        ("/bare/demo/".into(), (200, "text/html", bare.into_bytes())),
        ("/f/demo-1.0.tar.gz".into(), (200, "x", b"bytes".to_vec())),
    ]));
    let scratch = tempdir().unwrap();
    let newest = |kind: &str, within, pre| {
        let scratch = tempfile::tempdir_in(scratch.path()).unwrap();
        index(&format!("{url}/{kind}")).newest(&sdist(within, pre), scratch.path())
    };
    let found = |within, pre| newest("json", within, pre).unwrap();
    let pin = |version: &str, file: &str| Pin {
        version: version.into(),
        checksum: sha256(file.as_bytes()),
    };
    assert_eq!(found(None, false), pin("1.10.post1", "demo-1.10.post1.zip"));
    assert_eq!(found(Some("1.9"), false), pin("1.9", "demo-1.9.tar.gz"));
    assert_eq!(found(None, true), pin("2.0rc1", "demo-2.0rc1.tar.gz"));
    // Without a checksum in the index it is that of the file.
    assert_eq!(newest("bare", None, false).unwrap(), pin("1.0", "bytes"));

    for (kind, within, said) in [
        ("json", Some("4"), "It has those of: 1.10, 1.9"),
        ("wheels", None, "none; its files (1) are built packages"),
        ("early", None, "It has those of: 1.0a1"),
    ] {
        let e = newest(kind, within, false).unwrap_err();
        assert!(matches!(e, SdistError::NoSuchVersion { .. }), "{e}");
        assert!(e.to_string().contains(said), "{e}");
    }
    assert_eq!(newest("early", None, true).unwrap().version, "1.0a1");
    let e = newest("none", None, false).unwrap_err();
    assert!(matches!(e, SdistError::NoSuchProject(_)), "{e}");
    let cut_off = index("http://127.0.0.1:9/simple");
    let e = cut_off
        .newest(&sdist(None, false), scratch.path())
        .unwrap_err();
    assert!(e.is_transient(), "{e}");
}
