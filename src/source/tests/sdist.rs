//! A package index on loopback, asked through the real pip's settings.

use super::archives::{Item, gz, tar};
use super::http::{Pages, serve};
use super::*;
use crate::source::download::sha256;
use crate::subject::SdistSource;

pub(super) const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// A package whose `setup.py` leaves a mark where it is run.
fn package(mark: &Path) -> Vec<u8> {
    let setup = format!(
        "open({:?}, 'w').close()\nfrom setuptools import setup\nsetup(name='marker', version='1.0')\n",
        mark.display().to_string()
    );
    let inner = gz(&tar(&[Item::file("lib-2/src/a.c", b"int a;\n")]));
    gz(&tar(&[
        Item::file("marker-1.0/setup.py", setup.as_bytes()),
        Item::file(
            "marker-1.0/PKG-INFO",
            b"Metadata-Version: 2.1\nName: marker\nVersion: 1.0\n",
        ),
        Item::file("marker-1.0/deps/lib-2.tar.gz", &inner),
    ]))
}

pub(super) fn index(url: &str) -> Index {
    Index {
        env: vec![
            ("PIP_INDEX_URL".into(), url.into()),
            ("PIP_CONFIG_FILE".into(), "/dev/null".into()),
            ("NO_PROXY".into(), "127.0.0.1".into()),
        ],
        ..Index::default()
    }
}

pub(super) fn source(name: &str, version: &str, sha: &str) -> SdistSource {
    SdistSource {
        name: name.into(),
        version: version.into(),
        follow: None,
        sha256: sha.into(),
        archive_inside: None,
        path_inside: None,
    }
}

#[test]
fn a_package_comes_from_the_index_that_pip_is_set_to_and_nothing_of_it_runs() {
    let dir = tempdir().unwrap();
    let mark = dir.path().join("mark");
    let packed = package(&mark);
    let sum = sha256(&packed);
    let json = format!(
        "{{\"files\":[{{\"filename\":\"marker-0.9-py3-none-any.whl\",\"url\":\"w\",\"hashes\":{{}}}},\
         {{\"filename\":\"marker-1.0.tar.gz\",\"url\":\"../../f/m.tar.gz\",\"hashes\":{{\"sha256\":\"{sum}\"}}}}]}}"
    );
    let html =
        format!("<html><a href=\"../../f/m.tar.gz#sha256={sum}\">marker-1.0.tar.gz</a></html>");
    let unhashed = "<a href=\"/f/m.tar.gz\">marker-1.0.tar.gz</a>".to_string();
    let url = serve(Pages::from([
        ("/json/marker/".into(), (200, JSON, json.into_bytes())),
        (
            "/html/marker/".into(),
            (200, "text/html", html.into_bytes()),
        ),
        (
            "/bare/marker/".into(),
            (200, "text/html", unhashed.into_bytes()),
        ),
        ("/odd/marker/".into(), (200, JSON, b"[]".to_vec())),
        ("/busy/marker/".into(), (503, JSON, Vec::new())),
        ("/cut/marker/".into(), (0, JSON, b"{".to_vec())),
        ("/f/m.tar.gz".into(), (200, "application/gzip", packed)),
    ]));
    let good = source("Marker", "1.0", &sum);
    for kind in ["json", "html/", "bare"] {
        let tree = index(&format!("{url}/{kind}")).fetch(&good).unwrap();
        assert!(tree.snapshot.files.contains_key("setup.py"), "{kind}");
    }
    let nested = SdistSource {
        archive_inside: Some("deps/lib-2.tar.gz".into()),
        path_inside: Some("src".into()),
        ..good.clone()
    };
    let index_at = |kind: &str| index(&format!("{url}/{kind}"));
    let tree = index_at("json").fetch(&nested).unwrap();
    assert_eq!(tree.snapshot.files.keys().collect::<Vec<_>>(), ["a.c"]);
    let elsewhere = SdistSource {
        archive_inside: Some("deps/lib-3.tar.gz".into()),
        ..nested
    };
    let said = index_at("json").fetch(&elsewhere).unwrap_err().to_string();
    assert!(
        said.contains("Files with such names: deps/lib-2.tar.gz"),
        "{said}"
    );
    for kind in ["json", "bare"] {
        let e = index_at(kind)
            .fetch(&source("marker", "1.0", &"0".repeat(64)))
            .unwrap_err();
        assert!(
            matches!(&e, SdistError::Checksum { found, .. } if *found == sum),
            "{e}"
        );
    }
    let said = index_at("json")
        .fetch(&source("marker", "0.9", &sum))
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("no source distribution of version 0.9") && said.contains("of: 1.0"),
        "{said}"
    );
    let e = index_at("json")
        .fetch(&source("other", "1.0", &sum))
        .unwrap_err();
    assert!(
        matches!(&e, SdistError::NoSuchProject(name) if name == "other"),
        "{e}"
    );
    let e = index_at("odd").fetch(&good).unwrap_err();
    assert!(matches!(e, SdistError::Odd { .. }), "{e}");
    for kind in ["busy", "cut"] {
        let e = index_at(kind).fetch(&good).unwrap_err();
        assert!(e.is_transient(), "{e}");
    }
    let e = index("http://127.0.0.1:9/simple").fetch(&good).unwrap_err();
    assert!(e.is_transient(), "{e}");
    let e = index("/a/local/folder").fetch(&good).unwrap_err();
    assert!(matches!(e, SdistError::Index(_)), "{e}");
    assert!(!mark.exists(), "code of the package was run");
}

#[test]
fn a_machine_without_pip_is_told_what_to_install() {
    let none = Index {
        pip: vec![vec!["/no/such/pip".into()]],
        env: Vec::new(),
    };
    let e = none.fetch(&source("x", "1", &"0".repeat(64))).unwrap_err();
    assert!(e.to_string().contains("apt-get install python3-pip"), "{e}");
    assert!(SourceError::from(e).is_environment());
}

#[test]
fn without_a_setting_pip_still_names_an_index() {
    let unset = Index {
        env: vec![("PIP_CONFIG_FILE".into(), "/dev/null".into())],
        ..Index::default()
    };
    let url = unset.url().unwrap();
    assert!(url.starts_with("http") && !url.contains(')'), "{url}");
}
