//! Corpora of folders, archives and repositories, and mining that reads again only what changed.

use std::process::Command;

use super::*;
use crate::contamination::Settings;
use crate::lang::SnippetLanguage;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    std::fs::write(path, text).expect("it can be written");
}

fn imported(dir: &Path, list: &str) -> Imported {
    write(&dir.join("corpus.toml"), list);
    let list = List::read(&dir.join("corpus.toml")).expect("a list");
    import(dir, &list, &Cancel::new(), &mut |_| {}).expect("a store")
}

#[test]
fn folders_archives_and_repositories_become_families_with_their_upstream() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |path: &str| dir.path().join(path);
    write(&at("one/a.c"), "int a;\n");
    write(
        &at("each/x-1.0/Cargo.toml"),
        "[package]\nrepository = \"https://example.com/o/x\"\n",
    );
    write(&at("each/x-1.0/src/lib.rs"), "fn a() {}\n");
    let tar = |from: &str, to: &str| {
        let args = ["-czf", to, from];
        let done = Command::new("tar")
            .args(args)
            .current_dir(dir.path())
            .status();
        assert!(done.expect("tar runs").success());
    };
    write(&at("y-1.0/src/lib.rs"), "fn y() {}\n");
    tar("y-1.0", "each/y-1.0.crate");
    write(&at("repo/b.c"), "int b;\n");
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .arg("-C")
            .arg(at("repo"))
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(args)
            .output();
        assert!(done.expect("git runs").status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "a"]);
    let list = "[[family]]\ndirectory = \"one\"\nname = \"first\"\nurl = \"https://example.com/o/one\"\n\
                [[family]]\neach = \"each\"\n[[family]]\ngit = \"repo\"\n[[family]]\ndirectory = \"none\"\n\
                [[family]]\narchive = \"corpus.toml\"\n";
    let all = imported(dir.path(), list);
    let told: Vec<(&str, Option<&str>, usize)> = all
        .families
        .iter()
        .map(|f| (&*f.name, f.url.as_deref(), f.files.len()))
        .collect();
    assert_eq!(
        told,
        [
            ("first", Some("https://example.com/o/one"), 1),
            ("x-1.0", Some("https://example.com/o/x"), 2),
            ("y-1.0.crate", None, 1),
            ("repo", None, 1),
        ]
    );
    assert_eq!(all.families[2].files[0].path, "src/lib.rs");
    let missing: Vec<&str> = all.missing.iter().map(|(name, _)| &**name).collect();
    assert_eq!((missing, all.fetched), (vec!["none", "corpus.toml"], 1));
    // The commit was noted and its files are stored: nothing is fetched, nothing is lost.
    std::fs::remove_dir_all(at("repo")).expect("it was there");
    let again = imported(dir.path(), list);
    assert_eq!((again.families, again.fetched), (all.families, 0));
}

#[test]
fn what_is_wrong_in_a_list_is_said_with_its_place() {
    let cases = [
        ("[[family]]\n", "number 1: exactly one of"),
        (
            "[[family]]\ncrate = \"a\"\nsdist = \"b\"\n",
            "exactly one of",
        ),
        (
            "[[family]]\ncrate = \"a\"\nrevision = \"b\"\n",
            "`revision` does not go",
        ),
        (
            "[[family]]\narchive = \"http://x/y.tar\"\n",
            "needs its `sha256`",
        ),
        (
            "[[family]]\neach = \"a\"\nname = \"b\"\n",
            "`name` does not go with `each`",
        ),
        ("[[family]]\nkrate = \"a\"\n", "unknown field"),
    ];
    for (text, expected) in cases {
        let said = List::parse(text, PathBuf::new()).expect_err(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
    let list = List::parse(
        "[[family]]\ncrate = \"a\"\nversion = \"1.2.3\"\n",
        PathBuf::new(),
    );
    assert_eq!(list.expect("a list").families[0].name(), "a 1.2.3");
    assert_eq!(List::of("sdist:attrs=1.0").families[0].name(), "attrs 1.0");
    assert_eq!(
        List::of("git:https://example.com/a#v1").families[0].name(),
        "https://example.com/a"
    );
}

#[test]
fn only_files_that_changed_are_read_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let language = SnippetLanguage::named("c").expect("C");
    let settings = Settings::default();
    let file = |n: usize, text: &str| File {
        path: format!("{n}.c"),
        bytes: text.as_bytes().into(),
    };
    let body: String = (0..12)
        .map(|i| format!("    weigh_basket({i});\n"))
        .collect();
    let text = |n: usize| format!("int f_{n}(void) {{\n{body}    return settle_scales(1);\n}}\n");
    let mut files: Vec<File> = (0..6).map(|n| file(n, &text(n))).collect();
    let run = |files: &[File], settings: &Settings| {
        mine_in(dir.path(), language, files, settings).expect("a store")
    };
    let first = run(&files, &settings);
    assert_eq!((first.read, first.recalled), (6, 0));
    assert!(!first.mined.candidates.is_empty());
    let second = run(&files, &settings);
    assert_eq!((second.read, second.recalled), (0, 6));
    assert_eq!(second.mined, first.mined);
    // A changed file is read; one that moved is not, and the answer is that of a fresh start.
    files[3] = file(3, &text(3).replace("settle_scales", "settle_other"));
    files[4].path = "moved/4.c".into();
    let third = run(&files, &settings);
    assert_eq!((third.read, third.recalled), (1, 5));
    assert_eq!(
        third.mined,
        crate::contamination::mine(language, &files, &settings)
    );
    // What selection alone depends on reads nothing; what blocks depend on reads all.
    let selection = Settings {
        bits: 9.0,
        probes: 10,
        ..settings.clone()
    };
    assert_eq!(run(&files, &selection).read, 0);
    let blocks = Settings {
        block_lines: (5, 2500),
        ..settings
    };
    assert_eq!(run(&files, &blocks).read, 6);
    // A path that says that it gives nothing is no file to be read.
    files[5].path = "vendor/5.c".into();
    assert_eq!(run(&files, &selection).recalled, 5);
}
