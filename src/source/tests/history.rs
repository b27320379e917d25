//! Commits read out of real repositories, made by git in a temporary folder.

use std::path::Path;
use std::process::Command;

use crate::source::line::{changes, first_parents, tip};
use crate::source::{History, HistoryError};

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([
            ("GIT_AUTHOR_NAME", "a"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "a"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
            ("GIT_AUTHOR_DATE", "1580000000 +0000"),
            ("GIT_COMMITTER_DATE", "1580000000 +0000"),
        ])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn commit(dir: &Path) -> String {
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(dir, &["rev-parse", "HEAD"])
}

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "-b", "main"]);
    dir
}

#[test]
fn commits_list_what_they_change_with_both_sides() {
    let keeps = repository();
    let dir = keeps.path();
    let long: String = (0..50).map(|n| format!("line {n}\n")).collect();
    write(dir, "a.c", "one\n");
    write(dir, "moved.c", &long);
    write(dir, "gone.c", "gone\n");
    write(dir, "caf\u{e9} \"x\".c", "name\n");
    write(dir, "LICENSE", "terms\n");
    let root = commit(dir);
    write(dir, "a.c", b"two \xff\n");
    std::fs::remove_file(dir.join("gone.c")).unwrap();
    std::fs::remove_file(dir.join("moved.c")).unwrap();
    write(dir, "sub/moved.c", format!("{long}and one more\n"));
    write(dir, "caf\u{e9} \"x\".c", "other\n");
    std::os::unix::fs::symlink("a.c", dir.join("link.c")).unwrap();
    let second = commit(dir);
    git(dir, &["checkout", "-q", "-b", "side", &root]);
    write(dir, "b.c", "b\n");
    commit(dir);
    git(dir, &["checkout", "-q", "main"]);
    git(dir, &["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    let merge = git(dir, &["rev-parse", "HEAD"]);

    let mut history = History::open(dir).unwrap();
    let read = history.commit(&second).unwrap();
    assert_eq!(read.parents, std::slice::from_ref(&root));
    assert_eq!(read.committed, 1_580_000_000);
    let path = |side: &Option<(String, String)>| side.as_ref().map(|(p, _)| p.clone());
    let sides: Vec<_> = read
        .files
        .iter()
        .map(|f| (path(&f.before), path(&f.after), f.regular))
        .collect();
    let some = |name: &str| Some(name.to_string());
    assert_eq!(
        sides,
        [
            (some("a.c"), some("a.c"), true),
            (some("caf\u{e9} \"x\".c"), some("caf\u{e9} \"x\".c"), true),
            (some("gone.c"), None, true),
            (None, some("link.c"), false),
            (some("moved.c"), some("sub/moved.c"), true),
        ]
    );
    let after = &read.files[0].after.as_ref().unwrap().1;
    assert_eq!(
        &history.blob(after, 100).unwrap().unwrap()[..],
        b"two \xff\n"
    );
    assert!(history.blob(after, 3).unwrap().is_none(), "too long");
    // What was too long is passed over, and the next answer is the next one's.
    assert_eq!(
        &history.blob(after, 100).unwrap().unwrap()[..],
        b"two \xff\n"
    );
    let licence = history.file(&second, "LICENSE", 100).unwrap();
    assert_eq!(&licence.unwrap()[..], b"terms\n");
    assert!(history.file(&second, "COPYING", 100).unwrap().is_none());
    // Files alone: neither the folder nor the link.
    let top = history.top(&second).unwrap();
    let names: Vec<&str> = top.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["LICENSE", "a.c", "caf\u{e9} \"x\".c"]);
    assert_eq!(
        &history.blob(&top[0].1, 100).unwrap().unwrap()[..],
        b"terms\n"
    );

    // An abbreviated id is the same commit; roots and merges list nothing.
    assert_eq!(history.commit(&second[..10]).unwrap(), read);
    assert!(history.commit(&root).unwrap().files.is_empty());
    let merge = history.commit(&merge).unwrap();
    assert_eq!((merge.parents.len(), merge.files.len()), (2, 0));
}

#[test]
fn a_commit_that_is_gone_leaves_the_others_readable() {
    let keeps = repository();
    let dir = keeps.path();
    write(dir, "a.c", "one\n");
    commit(dir);
    write(dir, "a.c", "two\n");
    let second = commit(dir);
    write(dir, "a.c", "three\n");
    let third = commit(dir);
    let mut history = History::open(dir).unwrap();
    for absent in [
        "0123456789012345678901234567890123456789",
        "HEAD",
        "",
        "--all",
    ] {
        let got = history.commit(absent);
        assert!(
            matches!(got, Err(HistoryError::NoCommit { parent: false, .. })),
            "{absent}: {got:?}"
        );
        assert_eq!(history.commit(&second).unwrap().files.len(), 1);
    }
    let clone = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.display());
    git(
        clone.path(),
        &["clone", "-q", "--depth=1", "--bare", &url, "c.git"],
    );
    let mut shallow = History::open(&clone.path().join("c.git")).unwrap();
    let got = shallow.commit(&third);
    assert!(
        matches!(got, Err(HistoryError::NoCommit { parent: true, .. })),
        "{got:?}"
    );
    git(
        clone.path(),
        &["clone", "-q", "--depth=2", "--bare", &url, "d.git"],
    );
    let mut deeper = History::open(&clone.path().join("d.git")).unwrap();
    assert_eq!(deeper.commit(&third).unwrap().files.len(), 1);
    let nothing = History::open(clone.path());
    assert!(matches!(nothing, Err(HistoryError::NoRepository(_))));
}

#[test]
fn the_default_branch_is_that_of_the_origin_in_a_clone_and_head_in_a_mirror() {
    let keeps = repository();
    let dir = keeps.path();
    write(dir, "a.c", "one\n");
    let old = commit(dir);
    write(dir, "a.c", "two\n");
    let new = commit(dir);
    // Whoever works in the clone may be on any branch.
    git(dir, &["update-ref", "refs/remotes/origin/HEAD", &old]);
    assert_eq!(tip(dir).unwrap(), old);
    // In a mirror that is where somebody else's origin was once.
    let mirror = tempfile::tempdir().unwrap();
    let place = mirror.path().display().to_string();
    git(dir, &["clone", "-q", "--mirror", ".", &place]);
    git(mirror.path(), &["rev-parse", "refs/remotes/origin/HEAD"]);
    assert_eq!(tip(mirror.path()).unwrap(), new);
}

#[test]
fn a_clone_that_lacks_objects_says_so() {
    let keeps = repository();
    let dir = keeps.path();
    let long: String = (0..50).map(|n| format!("line {n}\n")).collect();
    write(dir, "a.c", &long);
    commit(dir);
    std::fs::rename(dir.join("a.c"), dir.join("b.c")).unwrap();
    write(dir, "b.c", format!("{long}more\n"));
    let last = commit(dir);
    assert_eq!(changes(dir, &last, 2).unwrap().len(), 2);
    let blob = git(dir, &["rev-parse", "HEAD:b.c"]);
    let (folder, file) = blob.split_at(2);
    std::fs::remove_file(dir.join(".git/objects").join(folder).join(file)).unwrap();
    // Which commits there are can be told, and what the newest renames cannot any more.
    assert_eq!(first_parents(dir, &last).unwrap().len(), 2);
    match changes(dir, &last, 2) {
        Err(HistoryError::NotWhole { said, .. }) => assert!(said.contains(&blob), "{said}"),
        other => panic!("{other:?}"),
    }
}
