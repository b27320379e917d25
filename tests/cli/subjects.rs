//! A subject before it is measured on: a first manifest, and a check where there is no project.

use std::fs;

use crate::support::*;

#[test]
fn a_suite_that_mostly_fails_is_not_fit_and_its_logs_can_be_read_without_a_project() {
    let project = Project::empty();
    let subject = project.dir.join("subject");
    copy(&fixtures("tidelib"), &subject);
    edit(
        &subject.join("tests/check.h"),
        "    checks++;\n",
        "    checks++;\n    if (checks % 2)\n        ok = 0;\n",
    );
    let manifest = subject.join("everbench.toml");
    let check = |more: &[&str]| {
        let manifest = manifest.to_str().unwrap();
        let args = [
            "subjects",
            "check",
            manifest,
            "--planted=0",
            "--no-coverage",
        ];
        project.run(args.iter().chain(more))
    };
    let text = check(&[]).exits(5).out;
    assert!(text.contains("NOT FIT: "), "{text}");
    let document = check(&["--format=json"]).exits(5).json();
    let logs = document["suspect"]["logs"].as_object().unwrap();
    let log = logs["results"].as_str().unwrap();
    let named = format!("results: `everbench store cat {}`", &log[..12]);
    assert!(text.contains(&named), "{named}: {text}");
    assert!(!project.dir.join("everbench.toml").exists());
    let log = project.run(["store", "cat", &log[..12]]).ok().out;
    assert!(log.contains("FAIL: "), "{log}");
    // The store is no project: what needs one says so.
    project
        .run(["score"])
        .exits(3)
        .says(&["there is no everbench.toml"]);
}

#[test]
fn a_shard_without_a_case_says_what_it_wrote() {
    let project = Project::empty();
    let subject = project.dir.join("subject");
    copy(&fixtures("tidelib"), &subject);
    let manifest = subject.join("everbench.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let (head, rest) = text.split_once("[[tests.shard]]").unwrap();
    let (_, tail) = rest.split_once("[functions]").unwrap();
    let only = "[[tests.shard]]\nname = \"only\"\nargv = [\"./test_text\"]\ncpu-seconds = 10\nwall-seconds = 30\n\n";
    let text = format!("{head}{only}[functions]{tail}").replace("'^OK: ", "'^PASSED ");
    let text = text.replace("'^FAIL: ", "'^FAILED ");
    fs::write(&manifest, text).unwrap();
    let args = ["subjects", "check", manifest.to_str().unwrap()];
    let ended = project.run(args).exits(5);
    assert!(!ended.err.contains("may-be-empty"), "{}", ended.err);
    let (_, hint) = ended
        .err
        .split_once("results: `everbench store cat ")
        .unwrap();
    let (digest, _) = hint.split_once('`').unwrap();
    let log = project.run(["store", "cat", digest]).ok().out;
    assert!(log.contains("OK: "), "{log}");
}

#[test]
fn a_first_manifest_for_a_folder_of_a_package() {
    let project = Project::empty();
    let root = project.dir.join("pack-1.0");
    fs::create_dir_all(root.join("debian")).unwrap();
    fs::create_dir_all(root.join("lib")).unwrap();
    fs::write(root.join("debian/changelog"), "pack (1.0-2) unstable\n").unwrap();
    fs::write(root.join("lib/Makefile"), "check:\n\t./t\n").unwrap();
    let new = |dir: &str| project.run(["subjects", "new", root.join(dir).to_str().unwrap()]);
    new("")
        .exits(3)
        .says(&["there is one in `lib`", "path-inside"]);
    new("lib").ok();
    let text = project.read("lib.toml");
    let source = "# debian = \"pack\"\n# version = \"1.0-2\"\n# path-inside = \"lib\"\n";
    assert!(text.contains(source), "{text}");
}
