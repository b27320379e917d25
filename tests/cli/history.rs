//! A subject through its commits: scores of each, what changed over the functions that two have in
//! common, and which functions a model cannot have seen.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sources::{built, sh};
use crate::support::*;

const RUN_QUIET: [&str; 4] = ["run", "--quiet", "--format", "json"];
const HISTORY: [&str; 3] = ["history", "--format", "json"];
const SETTINGS: &str = "[run]\nlimit = 12\niterations = 2\n[score]\nscorings = [\"paired\"]\n";

/// Two models: what the first was trained on ends in 2019, what the second was, nobody says.
const MODELS: [&str; 2] = [
    "[[model]]\nname = \"known\"\ncalibration = { preserving = 1.0 }\ncard = { cutoff = \"2019-12\" }\n",
    UNCHANGED,
];

/// Commits everything, as if it was that day.
fn commit(repo: &Path, day: &str) -> String {
    let script = format!(
        "export GIT_COMMITTER_DATE={day}T12:00:00Z; git add .; git -c user.name=a -c user.email=a commit -qm x --allow-empty; git rev-parse HEAD"
    );
    sh(repo, &script)
}

/// A project on a branch whose first commit is of 2019, run to its end.
fn followed() -> (Project, PathBuf) {
    let project = built();
    let repo = project.dir.join("repo");
    sh(&repo, "rm -rf .git; git init -q -b main");
    commit(&repo, "2019-06-01");
    project.configure("manifest = \"tidelib.toml\"", SETTINGS, &MODELS);
    project.run(RUN_QUIET).ok();
    (project, repo)
}

/// Changes the body of a sampled function; gives its name.
fn change_a_body(project: &Project, repo: &Path) -> String {
    let list = project.run(["list", "--format", "json"]).ok().json();
    let rows = list["rows"].as_array().unwrap();
    let text = |row: &Value, what: &str| row[what].as_str().unwrap().to_string();
    let row = rows
        .iter()
        .find(|r| r["outcome"] == "code" && !text(r, "function").contains('#'))
        .unwrap();
    let (function, path) = (text(row, "function"), repo.join(text(row, "path")));
    let mut source = fs::read(&path).unwrap();
    let name = format!("{function}(");
    let at = source
        .windows(name.len())
        .rposition(|w| w == name.as_bytes());
    let from = at.unwrap();
    let brace = from + source[from..].iter().position(|b| *b == b'{').unwrap();
    let more = *b"\n    do {\n    } while (0);\n";
    source.splice(brace + 1..brace + 1, more);
    fs::write(&path, source).unwrap();
    function
}

#[test]
fn scores_by_commit_compare_what_both_have_and_young_functions_are_told_from_old() {
    let (project, repo) = followed();
    let first = sh(&repo, "git rev-parse main");
    let function = change_a_body(&project, &repo);
    let second = commit(&repo, "2024-05-05");
    project.run(["sync"]).ok();
    let board = project.run(RUN_QUIET).ok().json();

    let history = project.run(HISTORY).ok().json();
    let commits = history["subjects"][0]["commits"].as_array().unwrap();
    assert_eq!(commits.len(), 2, "{history:#}");
    let is = |line: &Value, commit: &str| {
        let said = line["commit"].as_str().unwrap();
        commit.starts_with(said.rsplit(' ').next().unwrap()) || said.contains(&commit[..12])
    };
    assert!(
        is(&commits[0], &first) && is(&commits[1], &second),
        "{history:#}"
    );
    assert_eq!(commits[0]["committed"], "2019-06-01T12:00:00Z");
    assert_eq!(commits[0]["composition"], Value::Null);
    let composition = &commits[1]["composition"];
    assert_eq!(
        composition,
        &json!({ "common": 12, "changed": [function], "added": [], "removed": [] })
    );
    // What is remembered is what was scored, and over all functions in common nothing is left out.
    for row_of in commits[1]["rows"].as_array().unwrap() {
        let scored = row(&board, row_of["model"].as_str().unwrap(), "paired");
        for number in ["s1", "s2", "s3", "d", "score", "functions", "compiles"] {
            assert_eq!(row_of["all"][number], scored[number], "{number}");
        }
        assert_eq!(row_of["common"]["all"][1]["s1"], scored["s1"]);
        assert_eq!(row_of["common"]["all"][1]["iterations"], 2);
        assert_eq!(row_of["common"]["unchanged"][1]["functions"], 11);
    }
    // Nothing of it is evaluated again, and running again adds nothing.
    project.run(RUN_QUIET).ok();
    assert_eq!(project.run(HISTORY).ok().json(), history);
    let text = project.run(["history"]).ok().out;
    assert!(text.contains("12 in common; 1 with another text"), "{text}");

    // The changed text cannot be older than the commit before; of what was there first, nobody knows.
    let since = |options: &[&str]| {
        let args = ["score", "--format", "json"];
        let board = project.run(args.iter().chain(options)).ok().json();
        let rows = board["rows"].as_array().unwrap();
        rows.iter()
            .map(|r| {
                let counts = ["older", "unknown"].map(|n| r[n].as_u64().unwrap());
                (r["young"]["functions"].as_u64(), counts[0], counts[1])
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(since(&["--since", "2019-06-01"]), [(Some(1), 0, 11); 2]);
    // The day of the first commit is over before the text can have been written, but not a later one.
    let (old, unknown) = (12, 0);
    assert_eq!(
        since(&["--since", "2020-01-01"]),
        [(Some(0), old, unknown); 2]
    );
    assert_eq!(
        since(&["--since-cutoff"]),
        [(Some(0), old, unknown), (None, 0, 0)]
    );
    let text = project.run(["score", "--since-cutoff"]).ok().out;
    assert!(text.contains("its card has no cutoff"), "{text}");
    project
        .run(["score", "--since", "yesterday"])
        .exits(2)
        .says(&["YYYY-MM-DD"]);
}

#[test]
fn a_retired_model_is_not_asked_any_more_and_keeps_its_last_row() {
    let project = Project::prepared();
    let before = project.first();
    let text = project.read("everbench.toml");
    let retired = text.replace(
        "name = \"sloppy\"\n",
        "name = \"sloppy\"\nretired = \"2026-01-01\"\n",
    );
    assert_ne!(text, retired);
    project.write("everbench.toml", &retired);
    let board = project.run(RUN_QUIET).ok().json();
    assert_eq!(board["executed"], json!({}));
    assert_eq!(board["rows"].as_array().unwrap().len(), 6);
    let rows = board["retired"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{rows:#?}");
    for kept in rows {
        let scored = row(&before, "sloppy", kept["scoring"].as_str().unwrap());
        for number in ["s1", "s2", "s3", "d", "score"] {
            assert_eq!(kept["all"][number], scored[number], "{number}");
        }
    }
    let text = project.run(["score"]).ok().out;
    assert!(text.contains("retired: sloppy on tidelib"), "{text}");
    let e = project.run(["run", "--model", "sloppy"]).exits(3);
    e.says(&["retired since 2026-01-01", "remove `retired`"]);
    let text = project.read("everbench.toml").replace("2026-01-01", "soon");
    project.write("everbench.toml", &text);
    project
        .run(["score"])
        .exits(3)
        .says(&["`retired` is `soon`"]);
}

#[test]
fn another_compiler_is_bridged_by_the_cases_that_both_have_judged() {
    let project = Project::empty().with_builds();
    let run = "[run]\nlimit = 6\niterations = 1\n[score]\nscorings = [\"paired\"]\n";
    project.configure("preset = \"tidelib\"", run, &[PRESERVING, BREAKER]);
    project.run(RUN_QUIET).ok();
    let none = project.run(["rollover"]).ok().out;
    assert!(none.contains("one toolchain only"), "{none}");
    // A sample is enough.
    let clang = ["--compiler", "clang", "--limit", "3"];
    project.run(RUN_QUIET.into_iter().chain(clang)).ok();
    let doc = project.run(["rollover", "--format", "json"]).ok().json();
    let found = &doc["subjects"][0];
    let compilers = found["compilers"].to_string();
    assert!(
        compilers.contains("gcc") && compilers.contains("clang"),
        "{found:#}"
    );
    let bridge = &found["bridge"];
    let cases = bridge["cases"].as_u64().unwrap();
    assert!((1..=6).contains(&cases), "{found:#}");
    // What is planted breaks the build under either, and what keeps it does.
    assert_eq!(
        (&bridge["agree"], &bridge["flipped"]),
        (&cases.into(), &json!([]))
    );
    let text = project.run(["rollover"]).ok().out;
    assert!(text.contains("agree (100.0 %)"), "{text}");
}
