//! Iterations that are kept over a commit: what is run all the same, how the board says it, and that
//! a run that keeps nothing measures the rest.

use serde_json::{Value, json};

use crate::sources::{COMMIT, built, sh};
use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];
const DAILY: [&str; 6] = ["run", "--quiet", "--format", "json", "--tier", "daily"];
const ITERATIONS: u64 = 6;

/// Puts a variable into the body of a function, which changes what is built.
fn touch(project: &Project, function: &str, variable: &str) {
    let shown = project
        .run(["show", function, "--format", "json"])
        .ok()
        .json();
    let word = |key: &str| shown[key].as_str().unwrap().to_string();
    let (path, text) = (project.dir.join("repo").join(word("path")), word("text"));
    let head = text.split_once('{').unwrap().0;
    let body = format!("{head}{{ volatile int {variable} = 1;");
    edit(&path, &format!("{head}{{"), &body);
    sh(&project.dir.join("repo"), COMMIT);
    project.run(["sync"]).ok();
}

/// A function of the sample that few iterations replace, with how many these are.
fn rare(project: &Project) -> (String, u64) {
    let list = project.run(["list", "--format", "json"]).ok().json();
    let rows = list["rows"].as_array().unwrap();
    let named = rows.iter().filter(|r| r["outcome"] == "code");
    let named = named.map(|r| r["function"].as_str().unwrap().to_string());
    let counted = named.filter(|function| !function.contains('#'));
    let counted = counted.map(|function| {
        let shown = project.run(["show", &function, "--format", "json"]).ok();
        let iterations = shown.json()["models"][0]["iterations"].clone();
        (function, iterations.as_array().unwrap().len() as u64)
    });
    let mut counted = counted.filter(|(_, n)| *n == 1 || *n == 2);
    counted.next().expect("a function in one or two iterations")
}

fn executed(board: &Value, kind: &str) -> u64 {
    board["executed"][kind].as_u64().unwrap_or(0)
}

#[test]
fn a_commit_keeps_the_iterations_that_miss_it_and_a_release_measures_them() {
    let project = built();
    let run =
        format!("[run]\nlimit = 40\niterations = {ITERATIONS}\n[score]\nscorings = [\"paired\"]\n");
    project.configure("manifest = \"tidelib.toml\"", &run, &[PRESERVING]);
    let first = project.run(JSON).ok().json();
    assert_eq!(first["subjects"][0]["carry"], Value::Null);
    let commit = first["rows"][0]["commit"].clone();
    let (function, with) = rare(&project);
    touch(&project, &function, "one");

    // One is audited of those without it; the rest is kept.
    let kept = ITERATIONS - with - 1;
    let plan = ["plan", "--build", "--carry", "--format", "json"];
    let plan = project.run(plan).ok().json();
    let stage = &plan["subjects"][0]["models"][0]["iterations"]["paired"];
    assert_eq!(stage["carried"], kept, "{plan:#}");
    let second = project.run(DAILY).ok().json();
    assert_eq!(executed(&second, "ask/calibration"), 1);
    assert_eq!(executed(&second, "oss/verdict"), 1);
    assert_eq!(executed(&second, "oss/program"), with + 1, "{second:#}");
    assert!(executed(&second, "oss/run") < executed(&first, "oss/run"));
    let carry = json!({
        "stale": kept, "of": ITERATIONS, "audited": 1, "differ": 0, "measured_at": [commit],
    });
    assert_eq!(second["subjects"][0]["carry"], carry);
    let stale = json!({ "iterations": kept, "of": ITERATIONS, "measured_at": [commit] });
    assert_eq!(second["rows"][0]["stale"], stale);
    assert_ne!(second["rows"][0]["commit"], commit);

    // A score shows what the last run was asked for, and says it in words.
    let again = project.run(DAILY).ok().json();
    assert_eq!(
        (&again["executed"], &again["rows"]),
        (&json!({}), &second["rows"])
    );
    let text = project.run(["score"]).ok().out;
    let line = format!(
        "stale: {kept} of {ITERATIONS} iterations, measured at {}; 1 audited, 0 differ",
        commit.as_str().unwrap()
    );
    assert!(text.contains(&line), "{text}");
    assert!(
        text.contains("preserving *") && text.contains("without `--carry`"),
        "{text}"
    );

    // Another commit: what is kept a second time has the label it had. What was kept is listed by the
    // evaluation that kept it, so that a plan can say why it would run.
    touch(&project, &function, "two");
    let third = project
        .run(["run", "--quiet", "--format", "json", "--carry"])
        .ok()
        .json();
    let labels = third["subjects"][0]["carry"]["measured_at"]
        .as_array()
        .unwrap();
    assert!(labels.contains(&commit), "{third:#}");
    let plan = project.run(["plan", "--format", "json"]).ok().json();
    let groups = plan["subjects"][0]["groups"].as_array().unwrap();
    let programs = groups.iter().find(|g| g["kind"] == "oss/program").unwrap();
    let kept = third["rows"][0]["stale"]["iterations"].clone();
    assert_eq!(programs["jobs"], kept);
    assert!(
        !programs["why"].to_string().contains("not run before"),
        "{plan:#}"
    );

    let all = project
        .run(["run", "--quiet", "--format", "json", "--tier", "release"])
        .ok()
        .json();
    assert_eq!(all["executed"]["oss/program"], kept);
    assert_eq!(all["rows"][0]["stale"], Value::Null);
    assert_eq!(all["subjects"][0]["carry"], Value::Null);
    let text = project.run(["score"]).ok().out;
    assert!(!text.contains("stale") && !text.contains(" *"), "{text}");
    // And what is measured is shown as that, whoever asks.
    let daily = project.run(DAILY).ok().json();
    assert_eq!(daily["subjects"][0]["carry"]["stale"], 0);
    assert_eq!(daily["executed"], json!({}));
}

#[test]
fn shares_and_tiers_are_checked() {
    let project = Project::fresh(&[UNCHANGED]);
    project.run(["run", "--tier", "daily", "--carry"]).exits(2);
    project
        .run(["run", "--carry", "--carry-audit", "1.5"])
        .exits(2);
    project
        .run(["run", "--carry-audit", "0.5"])
        .exits(3)
        .says(&["nothing is kept that could be audited", "`--carry`"]);
}
