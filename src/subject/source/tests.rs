//! What authors of `[source]` see, and the identity of what it names.

use proptest::prelude::*;

use crate::digest::Digest;
use crate::job::{Job, Kind, Nature};
use crate::subject::read::reading_tests::EXAMPLE;
use crate::subject::{Manifest, Pin, Source};

fn with(section: &str) -> Result<Source, String> {
    let from = "directory = \".\"\nignore = [\"build/**\"]";
    assert!(EXAMPLE.contains(from));
    let text = EXAMPLE.replacen(from, section, 1);
    match Manifest::parse(&text, "m") {
        Ok(manifest) => Ok(manifest.source),
        Err(problems) => Err(problems.to_string()),
    }
}

fn sum() -> String {
    "0123456789abcdef".repeat(4)
}

/// One of each kind, with all keys, and with as few as may be.
fn examples() -> Vec<(&'static str, String)> {
    let sum = sum();
    vec![
        (
            "crate",
            format!(
                "crate = \"x\"\nversion = \"1.2.3\"\nchecksum = \"{sum}\"\npath-inside = \"c\""
            ),
        ),
        (
            "debian",
            format!(
                "debian = \"cjson\"\nversion = \"1.7.15-1+deb12u4\"\nsha256 = \"{sum}\"\npatched = false\npath-inside = \"c\""
            ),
        ),
        (
            "debian, short",
            "debian = \"php8.2\"\nversion = \"1:8.2.32-1~deb12u1\"".into(),
        ),
        (
            "git",
            format!(
                "git = \"https://h.example/r.git\"\nrevision = \"{}\"\npath-inside = \"c\"\nsubmodules = false",
                &sum[..40]
            ),
        ),
        (
            "git, short",
            format!("git = \"../r\"\nrevision = \"{}\"", &sum[..40]),
        ),
        (
            "sdist",
            format!(
                "sdist = \"jq\"\nversion = \"1.8.0\"\nsha256 = \"{sum}\"\narchive-inside = \"deps/jq.tar.gz\"\npath-inside = \"src\""
            ),
        ),
        (
            "tarball",
            format!(
                "tarball = \"https://h.example/x.tar.gz\"\nsha256 = \"{sum}\"\narchive-inside = \"x.zip\"\npath-inside = \"src\""
            ),
        ),
        (
            "tarball, short",
            format!("tarball = \"../x.tar.gz\"\nsha256 = \"{sum}\""),
        ),
    ]
}

fn key(source: &Source) -> Digest {
    let kind = Kind {
        name: "source/snapshot",
        version: 1,
        nature: Nature::Deterministic,
    };
    let inputs = source
        .identity()
        .expect("the source identifies its content");
    let job = inputs
        .into_iter()
        .fold(Job::of(kind), |job, (n, v)| job.put(n, v));
    job.done().key().0
}

#[test]
fn the_identity_of_each_kind_is_pinned() {
    let lines: Vec<String> = examples()
        .iter()
        .map(|(name, text)| {
            let source = with(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            format!("{name}: {} ({})", key(&source).hex(), source.label())
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn only_what_identifies_the_content_counts() {
    let sum = sum();
    let same = |a: &str, b: &str| key(&with(a).unwrap()) == key(&with(b).unwrap());
    let git =
        |url: &str, more: &str| format!("git = \"{url}\"\nrevision = \"{}\"\n{more}", &sum[..40]);
    assert!(same(&git("../r", ""), &git("https://h.example/r", "")));
    assert!(!same(&git("../r", ""), &git("../r", "path-inside = \"c\"")));
    assert!(!same(&git("../r", ""), &git("../r", "submodules = false")));
    let tarball = |place: &str| format!("tarball = \"{place}\"\nsha256 = \"{sum}\"");
    assert!(same(&tarball("a.tar"), &tarball("http://h.example/b.tar")));
    let debian = |more: &str| format!("debian = \"x1\"\nversion = \"1\"\n{more}");
    assert!(same(&debian(""), &debian("patched = true")));
    assert!(!same(&debian(""), &debian("patched = false")));
}

#[test]
fn a_name_is_no_identity_before_it_is_resolved() {
    for revision in [
        "main",
        "v1.0",
        "HEAD~3",
        "abc1234",
        &"A".repeat(40),
        &"1".repeat(41),
    ] {
        let source = with(&format!("git = \"../r\"\nrevision = \"{revision}\"")).unwrap();
        assert!(source.identity().is_err(), "{revision}");
    }
    for id in ["1".repeat(40), "a".repeat(64)] {
        let source = with(&format!("git = \"../r\"\nrevision = \"{id}\"")).unwrap();
        assert!(source.identity().is_ok(), "{id}");
    }
    assert!(with("directory = \".\"").unwrap().identity().is_err());
}

#[test]
fn a_version_that_is_followed_is_no_identity_before_it_is_found() {
    let pin = Pin {
        version: "1.7.2".into(),
        checksum: sum(),
    };
    for (from, name, checksum) in [
        ("crate", "x", "checksum"),
        ("debian", "xy", "sha256"),
        ("sdist", "x", "sha256"),
    ] {
        for (version, within) in [("latest", None), ("1.7.*", Some("1.7"))] {
            let source = with(&format!("{from} = \"{name}\"\nversion = \"{version}\"")).unwrap();
            let followed = source.followed().unwrap();
            assert_eq!(
                (followed.from, followed.name, followed.version),
                (from, name, version)
            );
            assert_eq!(followed.follow.within.as_deref(), within);
            assert!(!followed.follow.pre_releases);
            assert!(source.identity().is_err() && source.pin().is_none());
            // At a version it is what a manifest says that names it.
            let exact = format!(
                "{from} = \"{name}\"\nversion = \"1.7.2\"\n{checksum} = \"{}\"",
                sum()
            );
            assert_eq!(source.at(&pin), with(&exact).unwrap());
            assert_eq!(source.at(&pin).pin().as_ref(), Some(&pin));
            assert!(source.at(&pin).identity().is_ok());
        }
        let pre = format!("{from} = \"{name}\"\nversion = \"latest\"\npre-releases = true");
        assert!(with(&pre).unwrap().followed().unwrap().follow.pre_releases);
    }
}

#[test]
fn impossible_sources_are_refused_with_all_problems() {
    let sum = sum();
    let good =
        |key: &str, value: &str| format!("{key} = \"x1\"\nversion = \"1\"\nsha256 = \"{value}\"");
    for (section, said) in [
        (
            "".to_string(),
            "one of `crate`, `debian`, `directory`, `git`, `sdist`, `tarball` is needed",
        ),
        (
            "git = \"r\"\ntarball = \"t\"".into(),
            "more than one source is given: `git`, `tarball`",
        ),
        ("git = \"r\"".into(), "`revision` is missing"),
        (
            "git = \"\"\nrevision = \"main\"".into(),
            "not a repository's URL or path",
        ),
        (
            "git = \"--upload-pack=x\"\nrevision = \"main\"".into(),
            "not a repository's URL or path",
        ),
        (
            "git = \"ext::sh -c x\"\nrevision = \"main\"".into(),
            "remote helper",
        ),
        ("git = \"r\"\nrevision = \"-x\"".into(), "not one revision"),
        (
            "git = \"r\"\nrevision = \"a..b\"".into(),
            "not one revision",
        ),
        (
            "git = \"r\"\nrevision = \"HEAD:src\"".into(),
            "not one revision",
        ),
        (
            "git = \"r\"\nrevision = \"main\"\nsubmodules = true".into(),
            "submodules are not fetched",
        ),
        (
            "git = \"r\"\nrevision = \"main\"\nsubmodule = false".into(),
            "did you mean `submodules`?",
        ),
        (
            "git = \"r\"\nrevision = \"main\"\nversion = \"1\"".into(),
            "unknown key `version`",
        ),
        (
            "git = \"r\"\nrevision = \"main\"\npath-inside = \"../x\"".into(),
            "could leave the tree",
        ),
        ("debian = \"X\"".into(), "not a source package's name"),
        (
            "debian = \"cjson\"\nversion = \">= 1\"".into(),
            "not a package's version",
        ),
        (
            "debian = \"cjson\"\nversion = \"1\"\npatched = \"yes\"".into(),
            "true or false is expected",
        ),
        (
            "debian = \"cjson\"\nversion = \"1\"\nsha256 = \"0\"".into(),
            "64 lower-case hexadecimal",
        ),
        ("sdist = \"jq\"".into(), "`version` is missing"),
        (
            "sdist = \"jq\"\nversion = \"1\"".into(),
            "`sha256` is missing",
        ),
        (
            "sdist = \"../jq\"\nversion = \"1\"".into(),
            "not a Python project's name",
        ),
        (
            good("sdist", &sum).replace("\"1\"", "\"==1\""),
            "not one exact version",
        ),
        (good("sdist", &sum[1..]), "64 lower-case hexadecimal"),
        (
            good("sdist", &sum).replace("\"1\"", "\"latest\""),
            "`sha256` is of one exact version",
        ),
        (
            good("sdist", &sum) + "\npre-releases = true",
            "it is for a version that is followed",
        ),
        (
            "debian = \"x1\"\nversion = \"1.a.*\"".into(),
            "not a bound of versions",
        ),
        (
            "crate = \"x\"\nversion = \"*\"".into(),
            "or \"latest\" to follow it",
        ),
        (
            "crate = \"x\"\nversion = \"1.*\"\npre-releases = true".into(),
            "cargo does not say which pre-releases",
        ),
        (
            "crate = \"x\"\nversion = \"latest\"\npre-releases = 1".into(),
            "true or false is expected",
        ),
        (
            good("sdist", &sum) + "\narchive-inside = \"/x\"",
            "it is absolute",
        ),
        ("tarball = \"x.tar\"".into(), "`sha256` is missing"),
        (
            format!("tarball = \"ftp://h/x.tar\"\nsha256 = \"{sum}\""),
            "not fetched by `ftp`",
        ),
        (
            format!("tarball = \"x\\ny\"\nsha256 = \"{sum}\""),
            "not an archive's URL or path",
        ),
        (good("tarball", &sum), "unknown key `version`"),
    ] {
        let e = with(&section).unwrap_err();
        assert!(e.contains(said), "{section}\n{e}");
        assert!(!e.contains("fault of this program"), "{section}\n{e}");
    }
    let two =
        with("sdist = \"-\"\nversion = \"\"\nsha256 = \"\"\npath-inside = \"..\"").unwrap_err();
    assert_eq!(two.lines().count(), 4, "{two}");
}

proptest! {
    #[test]
    fn any_damage_of_a_source_is_read_or_explained(
        which in 0usize..8, at in any::<prop::sample::Index>(), cut in 0usize..20, put in "[ -~\n]{0,6}"
    ) {
        let (_, text) = examples().swap_remove(which);
        let at = at.index(text.len());
        let end = (at + cut).min(text.len());
        let damaged = format!("{}{put}{}", &text[..at], &text[end..]);
        if let Err(e) = with(&damaged) {
            prop_assert!(!e.is_empty() && !e.contains("fault of this program"), "{}", e);
        }
    }
}
