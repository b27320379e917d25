//! What users get wrong, and what machines lack: a message that says what, where and the way out,
//! the published exit code, and nothing lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::*;

/// The smallest run there is.
const SMALL: &str = "[run]\nlimit = 1\niterations = 1\n";
const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];

/// The project still scores what it scored, and a run executes nothing.
#[track_caller]
fn is_as_it_was(project: &Project) {
    let board = project.run(JSON).ok().json();
    assert_eq!(board["executed"], serde_json::json!({}));
    assert_eq!(board["rows"], project.first()["rows"]);
}

#[test]
fn a_folder_without_a_project() {
    let project = Project::empty();
    for command in [
        &["run"][..],
        &["score"],
        &["list"],
        &["prompts"],
        &["store", "stats"],
    ] {
        let ended = project.run(command).exits(3);
        ended.says(&["there is no everbench.toml", "everbench init", "--dir"]);
    }
    assert_eq!(fs::read_dir(&project.dir).unwrap().count(), 0);
    // And one where nothing was run.
    let project = Project::fresh(&[UNCHANGED]);
    for command in [
        &["score"][..],
        &["list"],
        &["prompts"],
        &["show", "f"],
        &["store", "stats"],
    ] {
        let ended = project.run(command).exits(3);
        ended.says(&["nothing was run here yet", "everbench run"]);
    }
}

#[test]
fn an_unknown_key_in_the_project_file() {
    let project = Project::prepared();
    let text = project.read("everbench.toml");
    project.write(
        "everbench.toml",
        &text.replace("iterations = 2", "iteration = 2"),
    );
    project.run(JSON).exits(3).says(&[
        "everbench.toml: ",
        "line 6",
        "unknown field `iteration`",
        "did you mean `iterations`?",
    ]);
    project.write("everbench.toml", &text);
    is_as_it_was(&project);
}

#[test]
fn unknown_keys_in_the_manifest_are_all_named() {
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], |subject| {
        let manifest = subject.join("everbench.toml");
        edit(&manifest, "\nleaks = true", "\nleak = true");
        edit(&manifest, "\nmin-tokens = 10", "\nmin-token = 10");
    });
    project.run(JSON).exits(3).says(&[
        "subject/everbench.toml:30:1: sanitizers: unknown key `leak`; did you mean `leaks`?",
        "unknown key `min-token`; did you mean `min-tokens`?",
    ]);
}

#[test]
fn an_unknown_model() {
    let project = Project::prepared();
    for command in ["run", "score", "list"] {
        project
            .run([command, "--model", "unchangd"])
            .exits(3)
            .says(&[
                "no model `unchangd`",
                "everbench.toml",
                "unchanged, preserving",
            ]);
    }
    is_as_it_was(&project);
}

#[test]
fn a_subject_that_does_not_compile() {
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], |subject| {
        edit(
            &subject.join("src/arena.c"),
            "#include",
            "int broken( {\n#include",
        );
    });
    for _ in 0..2 {
        let ended = project.run(JSON).exits(5).says(&[
            "the unchanged subject `tidelib` does not build",
            "src/arena.c:",
            "expected",
            "everbench store cat ",
        ]);
        let (_, rest) = ended.err.split_once("store cat ").unwrap();
        let log = project.run(["store", "cat", &rest[..12]]).ok().out;
        assert!(
            log.contains("src/arena.c") && log.contains("make: ***"),
            "{log}"
        );
    }
}

#[test]
fn a_program_of_the_build_that_is_not_there() {
    let configure = |command: &'static str| {
        move |subject: &std::path::Path| {
            let manifest = subject.join("everbench.toml");
            edit(
                &manifest,
                "[build]\n",
                &format!("[build]\nconfigure = [[\"{command}\"]]\n"),
            );
        }
    };
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], configure("autoreconf-none"));
    project
        .run(JSON)
        .exits(4)
        .says(&["`autoreconf-none` was not found", "apt-get install"]);
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], configure("./configure"));
    project.run(JSON).exits(5).says(&[
        "the unchanged subject `tidelib` does not build",
        "`./configure` did not start: no such program",
        "`[build]` in the manifest",
    ]);
}

#[test]
fn a_package_that_the_build_needs_is_missing() {
    const PACKAGES: &str = "[build]\npackages = [\"no-such-package\", \"dpkg\"]\n";
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], |subject| {
        edit(
            &subject.join("src/arena.c"),
            "#include",
            "#include <of_no_such_package.h>\n#include",
        );
        edit(&subject.join("everbench.toml"), "[build]\n", PACKAGES);
    });
    let said = project.run(["doctor"]).exits(4).out;
    assert!(said.contains("ok      package dpkg: installed"), "{said}");
    assert!(
        said.contains("MISSING package no-such-package: the subject's build needs it: `apt-get install no-such-package`"),
        "{said}"
    );
    let said = project.run(["doctor", "--missing-packages"]).ok().out;
    assert_eq!(said, "no-such-package\n");
    let problems = project.run(JSON).exits(75).json()["problems"].to_string();
    for part in [
        "the unchanged subject does not build",
        "of_no_such_package.h",
        "not installed: no-such-package",
        "`apt-get install no-such-package`",
    ] {
        assert!(problems.contains(part), "`{part}` is not in {problems}");
    }
    // It was no result: once nothing is missing, the build is tried again, and what it gives stays.
    edit(
        &project.dir.join("subject/everbench.toml"),
        "\"no-such-package\", ",
        "",
    );
    assert_eq!(project.run(["doctor", "--missing-packages"]).ok().out, "\n");
    project.run(JSON).exits(5).says(&[
        "the unchanged subject `tidelib` does not build",
        "everbench store cat ",
    ]);
}

#[test]
fn a_subject_without_tests() {
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], |subject| {
        let manifest = subject.join("everbench.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let (head, tail) = text.split_once("[[tests.shard]]").unwrap();
        let (_, tail) = tail.split_once("[functions]").unwrap();
        fs::write(&manifest, format!("{head}[functions]{tail}")).unwrap();
    });
    project
        .run(JSON)
        .exits(3)
        .says(&["everbench.toml:", "`shard` is missing", "[[tests.shard]]"]);
    // Tests whose log says nothing that the patterns fit.
    let project = Project::on_changed_subject(SMALL, &[UNCHANGED], |subject| {
        let manifest = subject.join("everbench.toml");
        edit(&manifest, "'^OK: ", "'^PASSED ");
    });
    project.run(JSON).exits(5).says(&[
        "of subject `tidelib` are of no use",
        "`text` reported no case",
        "check its command and the parser",
        "`[tests.parser]`",
    ]);
}

#[test]
fn a_compiler_where_the_sandbox_does_not_look() {
    let project = Project::prepared();
    let path = project.dir.join("cc");
    fs::write(&path, "#!/bin/sh\nexec /usr/bin/gcc \"$@\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let path = path.to_str().unwrap();
    project
        .run(["run", "--quiet", "--compiler", path])
        .exits(4)
        .says(&[path, "the sandbox shows /usr", "install it there"]);
    project
        .run(["run", "--quiet", "--compiler", "no-such-cc"])
        .exits(4)
        .says(&["`no-such-cc` was not found", "apt-get install"]);
    is_as_it_was(&project);
}

/// A folder with a compiler that has no sanitizers, to be shown as `/usr/local/bin`.
fn without_sanitizers(project: &Project) {
    let path = project.dir.join("local/plain-cc");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\nfor word in \"$@\"; do case $word in -fsanitize=*)\n\
                  echo \"cc: error: unrecognized command-line option '$word'\" >&2; exit 1;; esac; done\n\
                  exec gcc \"$@\"\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_compiler_without_sanitizers() {
    let project = Project::fresh(&[UNCHANGED]);
    without_sanitizers(&project);
    // The script calls `gcc` by its name, as wrappers of compilers do.
    let ended = project
        .elsewhere("mount --bind local /usr/local/bin; $EB run --quiet --compiler plain-cc")
        .exits(5);
    ended.says(&[
        "does not build (sanitized)",
        "unrecognized command-line option '-fsanitize=",
        "everbench store cat ",
    ]);
}

#[test]
fn no_sandbox_no_run() {
    let project = Project::prepared();
    let hidden = "mount --bind /dev/null \"$(readlink -f /usr/bin/bwrap)\";";
    project
        .elsewhere(&format!("{hidden} $EB run --quiet --seed 9"))
        .exits(4)
        .says(&[
            "bubblewrap is not installed",
            "/usr/bin",
            "apt-get install bubblewrap",
        ]);
    let said = project
        .elsewhere(&format!("{hidden} $EB doctor"))
        .exits(4)
        .out;
    assert!(
        said.contains("MISSING sandbox: bubblewrap is not installed"),
        "{said}"
    );
    // What needs no execution needs no sandbox.
    let board = project
        .elsewhere(&format!("{hidden} $EB run --quiet --format json"))
        .ok()
        .json();
    assert_eq!(board["rows"], project.first()["rows"]);
}

#[test]
fn a_replay_file_for_other_prompts() {
    let project = Project::prepared();
    let id = "ab".repeat(32);
    project.write(
        "recorded.jsonl",
        &replay("r1", [(id, "```c\n```".to_string())]),
    );
    project.add_model("[[model]]\nname = \"recorded\"\nreplay = \"recorded.jsonl\"\n");
    let ended = project.run(["run", "--quiet"]).exits(75);
    let problems = ended
        .out
        .lines()
        .filter(|l| l.starts_with("problem: "))
        .count();
    assert_eq!(problems, 1, "{}", ended.out);
    for part in [
        "recorded.jsonl has no reply to a prompt of this run",
        "everbench prompts",
        "still missing ask/completion 16",
    ] {
        assert!(ended.out.contains(part), "{}", ended.out);
    }
    // The others have their rows nevertheless.
    let board = project.run(JSON).exits(75).json();
    for old in project.first()["rows"].as_array().unwrap() {
        let new = row(
            &board,
            old["model"].as_str().unwrap(),
            old["scoring"].as_str().unwrap(),
        );
        assert_eq!(new, old);
    }
    assert_eq!(row(&board, "recorded", "paper")["complete"], false);
}

#[test]
fn a_replay_file_with_a_broken_line() {
    let project = Project::prepared();
    let text = project.read("everbench.toml");
    project.add_model("[[model]]\nname = \"recorded\"\nreplay = \"recorded.jsonl\"\n");
    project
        .run(JSON)
        .exits(3)
        .says(&["recorded.jsonl: ", "No such file"]);
    let good = replay("r1", prompts_like(3));
    // The third line ends in the middle, as after a crash of what recorded it.
    let mut lines: Vec<&str> = good.lines().collect();
    lines[2] = &lines[2][..lines[2].len() / 2];
    project.write("recorded.jsonl", &lines.join("\n"));
    let ended = project
        .run(JSON)
        .exits(3)
        .says(&["recorded.jsonl:3: EOF while parsing", "at column "]);
    assert!(!ended.err.contains("line 1"), "{}", ended.err);
    project.write("recorded.jsonl", &good[good.find('\n').unwrap() + 1..]);
    project
        .run(JSON)
        .exits(3)
        .says(&["recorded.jsonl:1: ", "header"]);
    project.write(
        "recorded.jsonl",
        &good.replace("everbench-replies/1", "everbench-replies/9"),
    );
    project.run(JSON).exits(3).says(&[
        "recorded.jsonl:1: ",
        "everbench-replies/9",
        "everbench-replies/1",
    ]);
    project.write("everbench.toml", &text);
    is_as_it_was(&project);
}

fn prompts_like(n: u8) -> Vec<(String, String)> {
    (0..n)
        .map(|i| (format!("{i:02x}").repeat(32), "x".to_string()))
        .collect()
}

#[test]
fn a_store_of_a_newer_version() {
    let project = Project::prepared();
    let path = project.store().join("STORE");
    let text = fs::read_to_string(&path).unwrap();
    let newer = text
        .replace("format 1", "format 7")
        .replace("min_reader 1", "min_reader 6")
        .replace("needs 0.1.0", "needs 3.2.1");
    fs::write(&path, &newer).unwrap();
    let index = fs::read(project.store().join("index.redb")).unwrap();
    for command in [
        &["run", "--quiet"][..],
        &["score"],
        &["store", "verify"],
        &["store", "gc"],
    ] {
        project
            .run(command)
            .exits(3)
            .says(&["the store has format 7", "use everbench 3.2.1 or later"]);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    assert!(index == fs::read(project.store().join("index.redb")).unwrap());
    fs::write(&path, text).unwrap();
    is_as_it_was(&project);
}

#[test]
fn files_of_the_store_that_were_cut_off() {
    // A blob: what gave it is executed again, and the store is sound.
    let project = Project::prepared();
    let blobs = walkdir::WalkDir::new(project.store().join("blobs"));
    let mut cut = 0;
    for entry in blobs.into_iter().flatten().filter(|e| e.path().is_file()) {
        let length = entry.metadata().unwrap().len();
        let file = fs::OpenOptions::new()
            .write(true)
            .open(entry.path())
            .unwrap();
        file.set_len(length / 2).unwrap();
        cut += 1;
    }
    assert!(cut > 0);
    let verified = project.run(["store", "verify"]).exits(1).json();
    assert_eq!(verified["problems"].as_array().unwrap().len(), cut);
    let board = project.run(JSON).ok().json();
    assert_eq!(board["rows"], project.first()["rows"]);
    let again = project.run(JSON).ok().json();
    assert_eq!(again["executed"], serde_json::json!({}));

    // The index: refused with the way out, whatever the length.
    let project = Project::prepared();
    let path = project.store().join("index.redb");
    let whole = fs::read(&path).unwrap();
    for length in [0, 1000, whole.len() / 2, whole.len() - 4096] {
        fs::write(&path, &whole[..length]).unwrap();
        for command in [&["run", "--quiet"][..], &["score"]] {
            let ended = project.run(command).exits(3);
            assert!(ended.err.contains("damaged"), "{length}: {}", ended.err);
        }
    }
    fs::write(&path, &whole).unwrap();
    is_as_it_was(&project);

    // The file that names the format.
    let path = project.store().join("STORE");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..20]).unwrap();
    project.run(JSON).exits(3).says(&["STORE"]);
    fs::remove_file(&path).unwrap();
    project.run(JSON).exits(3).says(&["STORE", "missing"]);
    fs::write(&path, &whole).unwrap();
    is_as_it_was(&project);
}

#[test]
fn usage() {
    let project = Project::prepared();
    for args in [
        &["run", "--limit", "0"][..],
        &["run", "--penalty", "-1"],
        &["run", "--penalty", "nan"],
        &["run", "--iterations", "many"],
        &["frobnicate"],
        &["run", "--jobs", "0"],
    ] {
        project.run(args).exits(2).says(&["help"]);
    }
}
