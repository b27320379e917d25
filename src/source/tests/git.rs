//! Real repositories with everything that a checkout would trip over.

use std::path::PathBuf;

use super::*;
use crate::subject::GitSource;

/// Runs a shell script in `dir`, with a git that no configuration of the machine changes.
fn sh(dir: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(dir);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .env("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z");
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{err}");
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

/// A repository with three commits on `main`, a lightweight and an annotated tag, a branch, and
/// traps: attributes that convert, a filter and hooks that leave a mark.
fn repository(dir: &Path) -> PathBuf {
    let repo = dir.join("repo");
    fs::create_dir(&repo).unwrap();
    let mark = dir.join("mark");
    sh(
        &repo,
        &format!(
            "git init -q -b main .
            printf 'one\\n' > a.c; git add a.c; git commit -qm one; git tag light
            mkdir -p lib 'größe x'
            printf 'int a;\\r\\n' > lib/crlf.c
            printf 'lf\\n' > lib/lf.txt
            printf '$Format:%%H$ $Id$\\n' > lib/subst.c
            printf 'x\\n' > lib/filtered.c
            printf '#!/bin/sh\\n' > lib/run.sh; chmod +x lib/run.sh
            printf 'y\\n' > 'größe x/b.c'
            ln -s lf.txt lib/link
            git add .; git commit -qm two; git tag -am annotated v1.0
            cat > .gitattributes <<'END'
*.c text eol=lf ident
*.txt text eol=crlf
lib/subst.c export-subst
lib/lf.txt export-ignore
lib/filtered.c filter=mark
END
            git add .gitattributes; git commit -qm three; git branch side main~1
            git config filter.mark.smudge 'touch {mark}; cat'
            git config filter.mark.clean cat
            git config filter.mark.required true
            git config uploadpack.packObjectsHook 'touch {mark}; exec'
            git config core.fsmonitor 'touch {mark}'
            git config core.sshCommand 'touch {mark}'
            for h in post-checkout post-merge reference-transaction pre-auto-gc; do
              printf '#!/bin/sh\\ntouch {mark}\\n' > .git/hooks/$h; chmod +x .git/hooks/$h
            done",
            mark = mark.display()
        ),
    );
    repo
}

fn from(url: &Path, revision: &str) -> GitSource {
    GitSource {
        url: url.display().to_string(),
        revision: revision.into(),
        path_inside: None,
        without_submodules: false,
    }
}

fn git(dir: &Path) -> Git {
    Git::new(&dir.join("private"))
}

#[test]
fn a_commit_is_read_byte_for_byte_and_nothing_is_run() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    let head = sh(&repo, "git rev-parse HEAD");
    let tree = git(dir.path())
        .fetch(&from(&repo, &head), dir.path())
        .unwrap();
    let names: Vec<&str> = tree.snapshot.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            ".gitattributes",
            "a.c",
            "größe x/b.c",
            "lib/crlf.c",
            "lib/filtered.c",
            "lib/lf.txt",
            "lib/run.sh",
            "lib/subst.c"
        ]
    );
    assert_eq!(&tree.bytes("lib/crlf.c").unwrap()[..], b"int a;\r\n");
    assert_eq!(&tree.bytes("lib/lf.txt").unwrap()[..], b"lf\n");
    assert_eq!(
        &tree.bytes("lib/subst.c").unwrap()[..],
        b"$Format:%H$ $Id$\n"
    );
    assert!(tree.snapshot.files["lib/run.sh"].executable);
    assert!(!tree.snapshot.files["a.c"].executable);
    assert_eq!(tree.snapshot.links["lib/link"], "lf.txt");
    assert!(
        !dir.path().join("mark").exists(),
        "something of the repository was run"
    );
    // The same commit as a directory's content: the same tree.
    fs::remove_dir_all(repo.join(".git")).unwrap();
    fs::write(repo.join("lib/subst.c"), "$Format:%H$ $Id$\n").unwrap();
    assert_eq!(read(&repo).unwrap().snapshot, tree.snapshot);
}

#[test]
fn every_kind_of_revision_is_resolved_as_git_does() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    for revision in [
        "main",
        "side",
        "light",
        "v1.0",
        "HEAD",
        "HEAD~2",
        "@~1",
        "main~1",
        "refs/heads/side",
        "heads/side",
        "tags/v1.0",
        "v1.0^{}",
        "HEAD^^",
    ] {
        let expected = sh(&repo, &format!("git rev-parse '{revision}^{{commit}}'"));
        // A mirror of its own each time: none profits from what another fetched.
        let own = tempdir().unwrap();
        let found = git(own.path()).resolve(&from(&repo, revision), dir.path());
        assert_eq!(found.unwrap(), expected, "{revision}");
    }
    let short = sh(&repo, "git rev-parse --short=10 HEAD~1");
    let found = git(dir.path())
        .resolve(&from(&repo, &short), dir.path())
        .unwrap();
    assert!(found.starts_with(&short) && found.len() == 40);
    // After a shallow fetch of one commit the history is still to be had.
    let own = tempdir().unwrap();
    git(own.path())
        .resolve(&from(&repo, "main"), dir.path())
        .unwrap();
    let old = git(own.path())
        .resolve(&from(&repo, "main~2"), dir.path())
        .unwrap();
    assert_eq!(old, sh(&repo, "git rev-parse light"));
}

#[test]
fn a_commit_in_the_mirror_needs_no_repository_any_more() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    let commit = git(dir.path())
        .resolve(&from(&repo, "v1.0"), dir.path())
        .unwrap();
    fs::rename(repo.join(".git"), repo.join("gone")).unwrap();
    let tree = git(dir.path())
        .fetch(&from(&repo, &commit), dir.path())
        .unwrap();
    assert_eq!(tree.snapshot.files.len(), 7);
    let e = git(dir.path())
        .fetch(&from(&repo, &"1".repeat(40)), dir.path())
        .unwrap_err();
    assert!(matches!(e, GitError::NoRepository { .. }), "{e}");
}

#[test]
fn a_relative_path_starts_at_the_manifest_and_a_directory_can_be_the_root() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    let manifest = dir.path().join("m");
    fs::create_dir(&manifest).unwrap();
    let commit = sh(&repo, "git rev-parse HEAD");
    let source = GitSource {
        path_inside: Some("lib".into()),
        ..from(Path::new("../repo"), &commit)
    };
    let tree = git(dir.path()).fetch(&source, &manifest).unwrap();
    assert_eq!(tree.snapshot.files.len(), 5);
    let nowhere = GitSource {
        path_inside: Some("src".into()),
        ..source
    };
    let e = git(dir.path())
        .fetch(&nowhere, &manifest)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("no directory `src`; it has: größe x, lib"),
        "{e}"
    );
}

#[test]
fn submodules_are_named_and_only_left_out_when_the_manifest_says_so() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    let id = sh(&repo, "git rev-parse HEAD");
    let script = format!(
        "git update-index --add --cacheinfo 160000,{id},deps/sub
         git -c core.hooksPath=/dev/null commit -qm sub; git rev-parse HEAD"
    );
    let commit = sh(&repo, &script);
    let source = from(&repo, &commit);
    let e = git(dir.path())
        .fetch(&source, dir.path())
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("has submodules (1), which are not fetched: deps/sub; write"),
        "{e}"
    );
    let without = GitSource {
        without_submodules: true,
        ..source.clone()
    };
    let tree = git(dir.path()).fetch(&without, dir.path()).unwrap();
    assert_eq!(tree.ignored, ["deps/sub"]);
    assert_eq!(tree.snapshot.files.len(), 8);
    // One outside of the part that is used does not matter.
    let part = GitSource {
        path_inside: Some("lib".into()),
        ..source
    };
    git(dir.path()).fetch(&part, dir.path()).unwrap();
}

#[test]
fn hostile_trees_are_refused() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    let commit = |entry: &str| {
        let script = format!(
            "export GIT_INDEX_FILE=.git/other; rm -f .git/other
             blob=$(printf '{entry}' | cut -d: -f3 | tr -d '\\n' | git hash-object -w --stdin)
             mode=$(printf '{entry}' | cut -d: -f1); name=$(printf '{entry}' | cut -d: -f2)
             tree=$(printf '%s blob %s\\t%s\\0' $mode $blob \"$name\" | git mktree -z)
             git commit-tree -m x $tree"
        );
        let id = sh(&repo, &script);
        sh(
            &repo,
            &format!("git -c core.hooksPath=/dev/null update-ref refs/heads/h-{id} {id}"),
        );
        git(dir.path())
            .fetch(&from(&repo, &id), dir.path())
            .unwrap_err()
            .to_string()
    };
    for (entry, said) in [
        ("120000:l:/etc/passwd", "may be outside the tree"),
        ("120000:l:../x", "may be outside the tree"),
        ("100644:..:x", "contains `..`"),
        ("100644:gr\\366n.c:x", "not UTF-8"),
        ("100644:.git:x", "holds no file"),
    ] {
        let e = commit(entry);
        assert!(e.contains(said), "{entry}: {e}");
    }
}

#[test]
fn what_cannot_be_had_is_explained() {
    let dir = tempdir().unwrap();
    let repo = repository(dir.path());
    let resolve = |source: &GitSource| git(dir.path()).resolve(source, dir.path()).unwrap_err();
    let e = resolve(&from(&repo, "v1.1"));
    assert!(!e.is_transient());
    let said = e.to_string();
    assert!(
        said.contains("no revision `v1.1`") && said.contains("It has: v1.0, "),
        "{said}"
    );
    let e = git(dir.path())
        .fetch(&from(&repo, &"1".repeat(40)), dir.path())
        .unwrap_err();
    assert!(matches!(e, GitError::NoRevision { .. }), "{e}");
    sh(&repo, "git -c core.hooksPath=/dev/null tag blob HEAD:a.c");
    let e = resolve(&from(&repo, "blob"));
    assert!(
        matches!(&e, GitError::NotACommit { what, .. } if what == "a blob"),
        "{e}"
    );
    let e = resolve(&from(&dir.path().join("none"), "main"));
    assert!(matches!(e, GitError::NoRepository { .. }), "{e}");
    fs::create_dir(dir.path().join("plain")).unwrap();
    let e = resolve(&from(&dir.path().join("plain"), "main"));
    assert!(matches!(e, GitError::NoRepository { .. }), "{e}");
    sh(dir.path(), "git init -q empty");
    let e = resolve(&from(&dir.path().join("empty"), "main"));
    assert!(
        matches!(
            e,
            GitError::NoRevision { .. } | GitError::NoRepository { .. }
        ),
        "{e}"
    );
    // Nobody listens there.
    let e = resolve(&from(Path::new("http://127.0.0.1:9/x.git"), "main"));
    assert!(e.is_transient(), "{e}");
    let e = resolve(&from(Path::new("ext::sh -c 'touch mark'"), "main"));
    assert!(matches!(e, GitError::NoRepository { .. }), "{e}");
    assert!(!dir.path().join("mark").exists());
    let missing = Git {
        git: dir.path().join("no-git"),
        ..git(dir.path())
    };
    let e = missing
        .resolve(&from(&repo, "main"), dir.path())
        .unwrap_err();
    assert!(matches!(e, GitError::NoGit { .. }), "{e}");
    assert!(SourceError::from(e).is_environment());
}

#[test]
fn repositories_with_longer_ids_are_read_too() {
    let dir = tempdir().unwrap();
    let script = "git init -q -b main --object-format=sha256 r; cd r; printf x > f
                  git add f; git commit -qm one; git rev-parse HEAD";
    let commit = sh(dir.path(), script);
    let source = from(&dir.path().join("r"), "main");
    assert_eq!(
        git(dir.path()).resolve(&source, dir.path()).unwrap(),
        commit
    );
    let tree = git(dir.path()).fetch(&from(&dir.path().join("r"), &commit), dir.path());
    assert_eq!(tree.unwrap().snapshot.files.len(), 1);
}
