//! What upstream does to itself: a commit that cannot be measured is skipped with its reason, and what
//! became of the project's own tests is told.

use serde_json::{Value, json};

use crate::sources::{COMMIT, built, sh};
use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];
const SMALL: &str = "[run]\nlimit = 6\niterations = 1\n[score]\nscorings = [\"paired\"]\n";

/// Commits what was edited and follows; what reports call the commit.
fn follow(project: &Project) -> String {
    let commit = sh(
        &project.dir.join("repo"),
        &format!("{COMMIT}; git rev-parse main"),
    );
    project.run(["sync"]).ok();
    commit[..12].to_string()
}

#[test]
fn a_broken_commit_is_skipped_and_the_next_is_compared_with_the_last_good_one() {
    let project = built();
    project.configure("manifest = \"tidelib.toml\"", SMALL, &[PRESERVING]);
    let repo = project.dir.join("repo");
    let first = project.run(JSON).ok().json();
    let good = first["rows"][0]["commit"].as_str().unwrap().to_string();
    assert_eq!(first["subjects"][0]["upstream"], Value::Null);

    edit(
        &repo.join("src/arena.c"),
        "#include",
        "int broken( {\n#include",
    );
    let bad = follow(&project);
    let ended = project.run(JSON).exits(5).says(&[
        "the unchanged subject `tidelib` does not build",
        &format!("the last good evaluation is of {good}"),
    ]);
    let board = ended.json();
    let broken = &board["baseline_broken"][0];
    assert_eq!(
        (&broken["subject"], &broken["commit"], &broken["last_good"]),
        (&json!("tidelib"), &json!(bad), &json!(good))
    );
    assert!(broken["what"].as_str().unwrap().contains("src/arena.c:"));
    assert_eq!(board["rows"], json!([]));
    assert_eq!(board["executed"]["ask/calibration"], Value::Null);
    // It is known now: nothing is built again to say it.
    let again = project.run(JSON).exits(5).json();
    assert_eq!(again["executed"], json!({}));
    assert_eq!(again["baseline_broken"], board["baseline_broken"]);
    let said = format!("{bad} is baseline_broken: the unchanged subject");
    let last = format!("the last good evaluation is of {good}");
    for command in ["plan", "sync"] {
        let ended = project.run([command]);
        assert_eq!(ended.code, Some(if command == "plan" { 5 } else { 0 }));
        assert!(
            ended.out.contains(&said) && ended.out.contains(&last),
            "{}",
            ended.out
        );
    }
    let text = project.run(["run", "--quiet"]).exits(5).out;
    assert_eq!(text, "");
    project.run(["score"]).exits(5).says(&["does not build"]);

    // Mended; a test fails now, and one is gone.
    edit(&repo.join("src/arena.c"), "int broken( {\n", "");
    let tests = repo.join("tests/test_math.c");
    edit(
        &tests,
        "check(td_is_leap(2000) &&",
        "check(!td_is_leap(2000) &&",
    );
    edit(
        &tests,
        "check(!td_is_leap(1900) && !td_is_leap(2023) && !td_is_leap(-1), \"leap.no\");",
        "",
    );
    follow(&project);
    let third = project.run(JSON).ok().json();
    let upstream = json!({
        "since": good,
        "newly_failing": [{ "shard": "math", "case": "leap.yes" }],
        "newly_flaky": [], "newly_skipped": [], "recovered": [],
        "vanished": [{ "shard": "math", "case": "leap.no" }],
        "appeared": [],
    });
    assert_eq!(third["subjects"][0]["upstream"], upstream);
    assert_eq!(third["baseline_broken"], Value::Null);
    // Asked again it is still told, and by a score too.
    assert_eq!(
        project.run(JSON).ok().json()["subjects"][0]["upstream"],
        upstream
    );
    let text = project.run(["score"]).ok().out;
    for part in [
        format!("upstream since {good}:"),
        "1 newly failing: leap.yes (math)".into(),
        "1 vanished: leap.no (math)".into(),
    ] {
        assert!(text.contains(&part), "`{part}` is not in:\n{text}");
    }

    // The history lists what was skipped, between two good commits and after the last one.
    edit(
        &repo.join("src/arena.c"),
        "#include",
        "int broken( {\n#include",
    );
    let last = follow(&project);
    project.run(JSON).exits(5);
    let history = project.run(["history", "--format", "json"]).ok().json();
    let history = &history["subjects"][0];
    let commits = history["commits"].as_array().unwrap();
    let skipped: Vec<&Value> = commits.iter().map(|c| &c["skipped"]).collect();
    assert_eq!(skipped, [0, 1], "{history:#}");
    let listed = |at: usize, what: &str| history["broken"][at][what].clone();
    assert_eq!(history["broken"].as_array().unwrap().len(), 2);
    for (at, commit, after) in [
        (0, &bad, &commits[0]["commit"]),
        (1, &last, &commits[1]["commit"]),
    ] {
        assert_eq!(listed(at, "commit"), **commit);
        assert_eq!(&listed(at, "after"), after);
        let reason = "the unchanged subject `tidelib` does not build";
        assert!(listed(at, "reason").as_str().unwrap().starts_with(reason));
        for date in ["committed", "seen"] {
            assert!(listed(at, date).as_str().unwrap().ends_with('Z'));
        }
    }
    let text = project.run(["history"]).ok().out;
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    let order = [
        place(&format!("  {good} (committed ")),
        place(&format!("  {bad} (committed ")),
        place(&format!("against {good} (1 broken commit skipped): ")),
        place(&format!("  {last} (committed ")),
    ];
    assert!(order.is_sorted(), "{text}");
    assert!(text.contains("): baseline_broken, skipped: the unchanged subject"));
}

#[test]
fn of_several_subjects_the_broken_one_is_skipped() {
    let project = built();
    let second = project.dir.join("second");
    copy(&fixtures("tidelib"), &second);
    let manifest = second.join("everbench.toml");
    edit(&manifest, "name = \"tidelib\"", "name = \"second\"");
    // Its tests say nothing that the patterns read.
    edit(&manifest, "'^OK: ", "'^PASSED ");
    let both = "manifest = \"second/everbench.toml\"\n[[subject]]\nmanifest = \"tidelib.toml\"";
    project.configure(both, SMALL, &[UNCHANGED]);
    let text = project.read("everbench.toml");
    project.write(
        "everbench.toml",
        &text.replacen("[subject]", "[[subject]]", 1),
    );

    let board = project.run(JSON).exits(5).json();
    assert_eq!(board["baseline_broken"][0]["subject"], "second");
    assert_eq!(board["baseline_broken"][0]["last_good"], Value::Null);
    let rows = board["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["subject"]), (1, &json!("tidelib")));
    assert_eq!(rows[0]["complete"], true);
    assert_eq!(board["missing"], json!({}));
    // The whole one is kept as an evaluation: a plan has nothing to do for it.
    let plan = project.run(["plan", "--format", "json"]).exits(5).json();
    let subjects = plan["subjects"].as_array().unwrap();
    assert!(subjects[0]["baseline_broken"]["what"].is_string());
    assert_eq!(subjects[1]["groups"], json!([]));
    let ended = project
        .run(["run", "--quiet"])
        .exits(5)
        .says(&["of no use"]);
    for part in [
        "tidelib (",
        "skipped: second at ",
        "there is no good evaluation yet",
    ] {
        assert!(
            ended.out.contains(part),
            "`{part}` is not in:\n{}",
            ended.out
        );
    }
}
