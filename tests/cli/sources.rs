//! A subject out of a repository: a branch is looked up once, and stays the commit it was.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];

/// Runs a shell script in `dir`, with a git that no configuration of the machine changes.
pub fn sh(dir: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

pub const COMMIT: &str = "git add .; git -c user.name=a -c user.email=a commit -qm x";

/// A project whose subject is our own library, with this `[source]`.
pub fn project(source: &str) -> Project {
    let project = Project::empty();
    let repo = project.dir.join("repo");
    copy(&fixtures("tidelib"), &repo);
    let manifest = fs::read_to_string(repo.join("everbench.toml")).unwrap();
    let (head, rest) = manifest.split_once("[source]").unwrap();
    let (_, rest) = rest.split_once("\n[build]").unwrap();
    let text = format!("{head}[source]\n{source}\n[build]{rest}");
    project.write("tidelib.toml", &text);
    sh(&repo, &format!("git init -q -b main; {COMMIT}"));
    let run = "[run]\nlimit = 1\niterations = 1\n";
    project.configure("manifest = \"tidelib.toml\"", run, &[UNCHANGED]);
    project
}

/// A project that follows a branch with our own library, whose builds are there: made once per test
/// binary, and nothing evaluated.
pub fn built() -> Project {
    static BUILT: OnceLock<Project> = OnceLock::new();
    let on_branch = || project("git = \"repo\"\nrevision = \"main\"\n");
    let first = BUILT.get_or_init(|| {
        let project = on_branch();
        project.run(["plan", "--build"]).ok();
        project
    });
    let project = on_branch();
    let built = first.dir.join(".everbench");
    copy(&built, &project.dir.join(".everbench"));
    project
}

#[test]
fn a_branch_is_looked_up_once_and_stays_the_commit_it_was() {
    let project = project("git = \"repo\"\nrevision = \"main\"\n");
    project.run(["score"]).exits(3);
    let first = project.run(JSON).ok().json();
    let commit = sh(&project.dir.join("repo"), "git rev-parse main");
    let lock = project.read("everbench.lock");
    assert!(lock.contains(&format!("commit = \"{commit}\"")), "{lock}");
    assert!(lock.contains("[subject.tidelib]"), "{lock}");
    assert!(first.to_string().contains(&commit[..12]), "{first:#}");

    // The branch goes on, and then the repository is gone: the board is what it was.
    let more = format!("echo 'int more(void) {{ return 1; }}' >> src/more.c; {COMMIT}");
    sh(&project.dir.join("repo"), &more);
    fs::rename(project.dir.join("repo"), project.dir.join("moved")).unwrap();
    let again = project.run(JSON).ok().json();
    assert_eq!(again["executed"], serde_json::json!({}));
    assert_eq!(again["rows"], first["rows"]);
    project.run(["score", "--format", "json"]).ok();

    // Another place and another name for the same commit: looked up, and nothing to do.
    let text = project.read("tidelib.toml");
    let text = text.replace("git = \"repo\"", "git = \"moved\"");
    let text = text.replace("revision = \"main\"", "revision = \"main~1\"");
    project.write("tidelib.toml", &text);
    let said = [
        "revision `main~1` of moved is not in everbench.lock yet",
        "everbench run",
    ];
    project.run(["score"]).exits(3).says(&said);
    let moved = project.run(JSON).ok().json();
    assert_eq!(moved["executed"], serde_json::json!({}));
    let lock = project.read("everbench.lock");
    assert!(
        lock.contains("revision = \"main~1\"") && lock.contains(&commit),
        "{lock}"
    );
    assert!(!lock.contains("\"main\""), "{lock}");
}

#[test]
fn a_source_that_cannot_be_had_is_explained() {
    let project = project("git = \"repo\"\nrevision = \"mian\"\n");
    let said = ["no revision `mian`", "It has: main", "mend `[source]`"];
    project.run(JSON).exits(3).says(&said);
    assert!(!project.dir.join("everbench.lock").exists());
    let manifest = project.read("tidelib.toml");
    let with = |source: &str| {
        let text = manifest.replace("git = \"repo\"\nrevision = \"mian\"\n", source);
        project.write("tidelib.toml", &text);
        project.run(JSON)
    };
    let e = with("git = \"http://127.0.0.1:9/r\"\nrevision = \"main\"\n").exits(4);
    e.says(&["cannot reach http://127.0.0.1:9/r", "try again"]);
    fs::write(project.dir.join("x.tar"), "no tar").unwrap();
    let source = format!("tarball = \"x.tar\"\nsha256 = \"{}\"\n", "0".repeat(64));
    let e = with(&source);
    assert_ne!(e.code, Some(0));
    e.says(&["x.tar has SHA-256", "mend `[source]`"]);
    fs::write(project.dir.join("everbench.lock"), "version = 9\n").unwrap();
    let e = with("git = \"repo\"\nrevision = \"main\"\n").exits(3);
    e.says(&["everbench.lock: version 9 is not known", "remove the file"]);
    // A full commit id needs no lock.
    let commit = sh(&project.dir.join("repo"), "git rev-parse main");
    fs::remove_file(project.dir.join("everbench.lock")).unwrap();
    with(&format!("git = \"repo\"\nrevision = \"{commit}\"\n")).ok();
    assert!(!project.dir.join("everbench.lock").exists());
}
