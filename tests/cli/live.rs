//! Following upstream: `sync` moves to a new commit, `plan` says what that costs and why, `run` does
//! that and no more, `why` explains it afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::sources::{COMMIT, built, project, sh};
use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];
const PLAN: [&str; 3] = ["plan", "--format", "json"];

/// How many jobs of each kind a plan has, and for which reasons.
fn groups(plan: &Value) -> BTreeMap<String, (u64, Vec<String>)> {
    let mut out: BTreeMap<String, (u64, Vec<String>)> = BTreeMap::new();
    for group in plan["subjects"][0]["groups"].as_array().unwrap() {
        let kind = group["kind"].as_str().unwrap().to_string();
        let known = out.entry(kind).or_default();
        known.0 += group["jobs"].as_u64().unwrap();
        known
            .1
            .extend(group["why"].as_object().unwrap().keys().cloned());
    }
    out
}

fn of(plan: &Value, kind: &str) -> (u64, Vec<String>) {
    groups(plan).remove(kind).unwrap_or_default()
}

#[test]
fn a_plan_runs_nothing_and_is_what_the_run_then_does() {
    let project = Project::prepared();
    let done = project.run(PLAN).ok().json();
    assert_eq!(
        (&done["complete"], &done["jobs"]),
        (&true.into(), &0.into())
    );
    assert!(project.run(["plan"]).ok().out.contains("nothing to do"));

    project.add_model(
        "[[model]]\nname = \"late\"\ncalibration = { breaks_compile = 0.5, preserving = 0.5 }\n",
    );
    let before = project.jobs();
    let plan = project.run(PLAN).ok().json();
    assert_eq!(project.jobs(), before, "a plan runs nothing");
    assert_eq!(plan["complete"], false);
    // Replies that another calibration model has given are there already; the rest are the new
    // model's, and nobody else has anything to do.
    let (asked, why) = of(&plan, "ask/calibration");
    assert_eq!(why, ["new model"]);
    let models = plan["subjects"][0]["models"].as_array().unwrap();
    let late = models.iter().find(|m| m["model"] == "late").unwrap();
    assert_eq!(late["replies"]["now"], asked);
    assert!(asked > 0 && asked < 16, "{plan:#}");
    for other in models.iter().filter(|m| m["model"] != "late") {
        assert_eq!(other["replies"]["known"], 16);
        assert_eq!(other["verdicts"]["now"], 0);
        assert_eq!(other["iterations"]["paired"]["now"], 0);
    }
    let ran = project.run(JSON).ok().json();
    assert_eq!(ran["executed"]["ask/calibration"], asked);
    assert_eq!(project.run(PLAN).ok().json()["jobs"], 0);
    let text = project.run(["why", "late"]).ok().out;
    assert!(text.contains("new"), "{text}");
}

/// A file of the sample with one of its functions, out of `list`.
fn sampled(project: &Project) -> (String, PathBuf) {
    let list = project.run(["list", "--format", "json"]).ok().json();
    let rows = list["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|r| r["outcome"] == "code" && !r["function"].as_str().unwrap().contains('#'))
        .unwrap();
    let path = project.dir.join("repo").join(row["path"].as_str().unwrap());
    (row["function"].as_str().unwrap().to_string(), path)
}

#[test]
fn a_commit_costs_what_it_changed_and_why_says_what_that_was() {
    let project = project("git = \"repo\"\nrevision = \"main\"\n");
    let repo = project.dir.join("repo");
    let run = "[run]\nlimit = 12\niterations = 1\n[score]\nscorings = [\"paired\"]\n";
    project.configure("manifest = \"tidelib.toml\"", run, &[PRESERVING]);
    // Nothing is there yet: what there is to do is known only for the source.
    let first = project.run(PLAN).ok().json();
    assert_eq!(of(&first, "source/snapshot"), (1, vec!["first run".into()]));
    assert!(first["subjects"][0]["unknown"].is_string());
    project.run(JSON).ok();
    project.run(["sync", "--check"]).ok();

    // A comment behind everything: no reply and no verdict is asked for again.
    let (function, path) = sampled(&project);
    let mut text = fs::read(&path).unwrap();
    text.extend(b"\n/* the end */\n");
    fs::write(&path, &text).unwrap();
    let second = sh(&repo, &format!("{COMMIT}; git rev-parse main"));
    let lock = project.read("everbench.lock");
    let check = project
        .run(["sync", "--check", "--format", "json"])
        .exits(7);
    assert_eq!(check.json()["subjects"][0]["new"], second.as_str());
    assert_eq!(
        project.read("everbench.lock"),
        lock,
        "--check changes nothing"
    );
    assert!(project.run(["sync"]).ok().out.contains(&second));
    project.run(["sync", "--check"]).ok();
    let plan = project
        .run(["plan", "--build", "--format", "json"])
        .ok()
        .json();
    let kinds = groups(&plan);
    assert!(!kinds.contains_key("ask/calibration"), "{plan:#}");
    assert!(!kinds.contains_key("oss/verdict"), "{plan:#}");
    let ran = project.run(JSON).ok().json();
    assert_eq!(ran["executed"]["ask/calibration"], Value::Null);
    assert_eq!(ran["executed"]["oss/verdict"], Value::Null);

    // One body: that function alone is asked again, and judged again.
    let name = format!("{function}(");
    let at = text.windows(name.len()).rposition(|w| w == name.as_bytes());
    let from = at.unwrap_or_else(|| panic!("{function} is not in {}", path.display()));
    let brace = from + text[from..].iter().position(|b| *b == b'{').unwrap();
    text.splice(brace + 1..brace + 1, *b" ;");
    fs::write(&path, &text).unwrap();
    sh(&repo, COMMIT);
    project.run(["sync"]).ok();
    let plan = project
        .run(["plan", "--build", "--format", "json"])
        .ok()
        .json();
    let (asked, why) = of(&plan, "ask/calibration");
    assert_eq!((asked, why), (1, vec!["the function's text".into()]));
    let ran = project.run(JSON).ok().json();
    assert_eq!(ran["executed"]["ask/calibration"], 1);
    assert_eq!(ran["executed"]["oss/verdict"], 1);

    let why = project
        .run(["why", &function, "--format", "json"])
        .ok()
        .json();
    let rows = why["rows"].as_array().unwrap();
    let reply = rows
        .iter()
        .find(|r| r["kind"] == "ask/calibration")
        .unwrap();
    assert_eq!(
        (&reply["state"], &reply["missing"]),
        (&"changed".into(), &false.into())
    );
    assert_eq!(reply["changed"][0]["said"], "the function's text");
    let details = reply["changed"][0]["details"].to_string();
    assert!(details.contains("{ ;"), "{details}");
    let e = project.run(["why", "no_such_function"]).exits(3);
    e.says(&["no part of the evaluation is called `no_such_function`"]);
}

/// What was executed, without what every new commit costs: its source and its two builds.
pub fn executed(ran: &Value) -> BTreeMap<String, u64> {
    let counts = ran["executed"].as_object().unwrap().iter();
    counts
        .filter(|(kind, _)| {
            !["source/snapshot", "oss/footprint", "oss/base"].contains(&kind.as_str())
        })
        .map(|(kind, n)| (kind.clone(), n.as_u64().unwrap()))
        .collect()
}

#[test]
fn tests_run_again_only_if_they_open_something_that_changed() {
    let project = built();
    let repo = project.dir.join("repo");
    let run = "[run]\nlimit = 12\niterations = 1\n[score]\nscorings = [\"paired\"]\n";
    project.configure("manifest = \"tidelib.toml\"", run, &[PRESERVING]);
    let first = project.run(JSON).ok().json();
    let commit = || {
        sh(&repo, COMMIT);
        project.run(["sync"]).ok();
        project.run(JSON).ok().json()
    };

    // A comment and blank lines before all functions, and a new document.
    let path = repo.join("src/expr.c");
    let text = fs::read(&path).unwrap();
    let moved = [b"/* A remark\n   of two lines. */\n\n\n".as_slice(), &text].concat();
    fs::write(&path, moved).unwrap();
    fs::write(repo.join("NOTES.md"), "New.\n").unwrap();
    let second = commit();
    assert_eq!(executed(&second), BTreeMap::new());
    let rows = |ran: &Value| {
        let mut rows = ran["rows"].as_array().unwrap().clone();
        rows.iter_mut().for_each(|row| drop(row["commit"].take()));
        rows
    };
    assert_eq!(rows(&second), rows(&first));

    // One test program: its shard runs, three times as it is and once for the iteration.
    let path = repo.join("tests/test_math.c");
    let mut text = fs::read(&path).unwrap();
    text.extend(b"\n__attribute__((used)) static int added(void) { return 41; }\n");
    fs::write(&path, &text).unwrap();
    let runs = BTreeMap::from([("oss/program".into(), 1), ("oss/run".into(), 4)]);
    assert_eq!(executed(&commit()), runs);
    let why = project.run(["why", "run", "--format", "json"]).ok().json();
    for row in why["rows"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        let state = if id.ends_with("/math") {
            "changed"
        } else {
            "same"
        };
        assert_eq!(row["state"], state, "{id}");
    }
}

/// Puts a statement first into the body of a function.
fn edited(path: &std::path::Path, function: &str, statement: &str) {
    let mut text = fs::read_to_string(path).unwrap();
    let at = text.rfind(&format!("{function}(const")).unwrap();
    let brace = at + text[at..].find('{').unwrap();
    text.insert_str(brace + 1, statement);
    fs::write(path, text).unwrap();
}

#[test]
fn tests_run_again_only_if_they_enter_something_that_changed() {
    let project = built();
    let repo = project.dir.join("repo");
    let run = "[run]\nlimit = 3\niterations = 1\n[score]\nscorings = [\"paired\"]\n";
    project.configure("manifest = \"tidelib.toml\"", run, &[PRESERVING]);
    project.run(JSON).ok();
    let commit = || {
        sh(&repo, COMMIT);
        project.run(["sync"]).ok();
        project.run(JSON).ok().json()
    };
    let counts = |ran: &Value, kind: &str| executed(ran).get(kind).copied().unwrap_or(0);

    // No test calls it, though all that use the library are linked to it.
    edited(&repo.join("src/map.c"), "td_map_debug", " if (!m) return;");
    assert_eq!(counts(&commit(), "oss/run"), 0);
    // One shard does: three times as it is, and once for the iteration.
    edited(
        &repo.join("src/matrix.c"),
        "td_mat_det",
        " if (!a) return 0;",
    );
    let ran = commit();
    assert_eq!(counts(&ran, "oss/run"), 4);
    let why = project.run(["why", "run", "--format", "json"]).ok().json();
    for row in why["rows"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        assert_eq!(row["state"] == "changed", id.ends_with("/math"), "{id}");
    }
    // A fault that shows: the runs that would tell are made, and tell.
    edited(
        &repo.join("src/matrix.c"),
        "td_mat_det",
        " if (a) return 7;",
    );
    let failed = commit();
    assert_eq!(counts(&failed, "oss/run"), 4);
    assert_ne!(failed["rows"][0]["baseline"], ran["rows"][0]["baseline"]);

    // From nothing, and without noting anything: the same rows.
    let text = project.read("tidelib.toml");
    let without = text.replace("leaks = true", "leaks = true\nreach = false");
    assert_ne!(text, without);
    project.write("tidelib.toml", &without);
    fs::remove_dir_all(project.dir.join(".everbench")).unwrap();
    let plain = project.run(JSON).ok().json();
    assert_eq!(plain["rows"], failed["rows"]);
}
