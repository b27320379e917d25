//! What was computed is never computed again, and what depends on it is.

use serde_json::json;

use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];

#[test]
fn a_second_run_executes_nothing_and_gives_the_same_rows() {
    let project = Project::prepared();
    let first = project.first();
    let second = project.run(JSON).ok().json();
    assert!(total(&first["executed"]) > 100, "{}", first["executed"]);
    assert_eq!(second["executed"], json!({}));
    assert_eq!(second["rows"], first["rows"]);
    assert_eq!(total(&second["reused"]), total(&first["executed"]));
    // Elsewhere than where it was computed: no path is part of a key.
    assert_eq!(first["rows"].as_array().unwrap().len(), 8);
    let scored = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(scored["rows"], first["rows"]);
    assert_eq!(scored["executed"], json!({}));
}

#[test]
fn one_removed_run_is_the_one_that_is_executed() {
    let project = Project::prepared();
    let before = project.jobs();
    let listed = project.run(["store", "ls", "--kind", "oss/run"]).ok().out;
    let key = listed.lines().next().unwrap().split(' ').next().unwrap();
    project.run(["store", "rm", key]).ok();
    let without = project.jobs();
    assert_eq!(before.len(), without.len() + 1);
    assert!(!without.contains_key(key));

    let again = project.run(JSON).ok().json();
    assert_eq!(again["executed"], json!({ "oss/run": 1 }));
    assert_eq!(again["rows"], project.first()["rows"]);
    assert_eq!(project.jobs(), before);
}

#[test]
fn a_penalty_moves_the_score_and_executes_nothing() {
    let project = Project::prepared();
    let first = project.first();
    for command in ["run", "score"] {
        let cheap = project
            .run([command, "--penalty", "0.5", "--format", "json"])
            .ok()
            .json();
        assert_eq!(cheap["executed"], json!({}), "{command}");
        assert_eq!(cheap["penalty"], 0.5);
        let (old, new) = (
            row(&first, "sloppy", "paired"),
            row(&cheap, "sloppy", "paired"),
        );
        let alerts = old["alerts"].as_u64().unwrap();
        assert!(alerts > 0);
        assert_eq!(new["alerts"], alerts);
        assert_eq!(new["s3"], 100.0 - 0.5 * alerts as f64);
        assert!(new["score"].as_f64().unwrap() > old["score"].as_f64().unwrap());
        assert_eq!(new["s2"], old["s2"]);
        // Nothing to charge: nothing moves.
        assert_eq!(
            row(&cheap, "preserving", "paired")["score"],
            row(&first, "preserving", "paired")["score"]
        );
    }
}

#[test]
fn a_new_model_runs_its_own_jobs_and_no_other() {
    let project = Project::prepared();
    let before = project.ran();
    project.add_model("[[model]]\nname = \"newcomer\"\ncalibration = { breaks_behaviour = 1.0 }\n");
    let board = project.run(JSON).ok().json();
    let first = project.first();
    for old in first["rows"].as_array().unwrap() {
        let (model, scoring) = (
            old["model"].as_str().unwrap(),
            old["scoring"].as_str().unwrap(),
        );
        assert_eq!(row(&board, model, scoring), old);
    }
    assert_eq!(row(&board, "newcomer", "paired")["complete"], true);

    // Exactly what was not there: replies that no other model gave, their verdicts, programs, runs.
    let after = project.ran();
    let new: Vec<_> = after
        .iter()
        .filter(|(k, _)| !before.contains_key(*k))
        .collect();
    assert_eq!(total(&board["executed"]), new.len() as u64);
    assert!(board["executed"]["oss/base"].is_null());
    let verdicts = board["executed"]["oss/verdict"].as_u64().unwrap();
    assert!((1..=16).contains(&verdicts), "{verdicts}");
    let programs = board["executed"]["oss/program"].as_u64().unwrap();
    assert!((1..=4).contains(&programs), "{programs}");
    for (key, job) in &before {
        assert_eq!(after.get(key), Some(job));
    }
}

#[test]
fn trees_are_only_a_cache() {
    let project = Project::prepared();
    std::fs::remove_dir_all(project.dir.join(".everbench/trees")).unwrap();
    let key = {
        let listed = project.run(["store", "ls", "--kind", "oss/run"]).ok().out;
        listed.split(' ').next().unwrap().to_string()
    };
    let output = project.jobs()[&key].1.clone();
    project.run(["store", "rm", &key]).ok();
    let again = project.run(JSON).ok().json();
    assert_eq!(again["executed"], json!({ "oss/run": 1 }));
    assert_eq!(again["rows"], project.first()["rows"]);
    assert_eq!(project.jobs()[&key].1, output);
}
