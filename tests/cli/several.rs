//! Several subjects in one project: rows for each, and an aggregate in which all weigh the same.

use serde_json::Value;

use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];

/// Adds a second subject to a project on the preset: the same sources and tests, other functions.
fn with_second(project: &Project) {
    let manifest = std::fs::read_to_string(fixtures("tidelib").join("everbench.toml")).unwrap();
    let source = fixtures("tidelib");
    let manifest = manifest
        .replace("name = \"tidelib\"", "name = \"second\"")
        .replace(
            "directory = \".\"",
            &format!("directory = {:?}", source.display().to_string()),
        )
        .replace("min-tokens = 10", "min-tokens = 40");
    assert!(manifest.contains("second") && manifest.contains("min-tokens = 40"));
    project.write("second.toml", &manifest);
    let text = project.read("everbench.toml").replace(
        "[subject]\npreset = \"tidelib\"",
        "[[subject]]\npreset = \"tidelib\"\n[[subject]]\nmanifest = \"second.toml\"\nlimit = 12\npenalty = 2.0",
    );
    project.write("everbench.toml", &text);
}

fn of<'a>(board: &'a Value, part: &str, model: &str, scoring: &str) -> Vec<&'a Value> {
    let rows = board[part].as_array().unwrap().iter();
    rows.filter(|r| r["model"] == model && r["scoring"] == scoring)
        .collect()
}

#[test]
fn a_subject_more_runs_its_own_and_every_subject_weighs_the_same() {
    let project = Project::prepared();
    let first = project.first();
    assert_eq!(first["aggregate"].as_array().unwrap().len(), 0);
    with_second(&project);
    let both = project.run(JSON).ok().json();
    // The same sources are built, and the same unchanged tests are run, but once.
    assert_eq!(both["executed"]["oss/base"], Value::Null);
    assert!(total(&both["executed"]) > 0);
    assert!(total(&both["executed"]) < total(&first["executed"]));
    assert_eq!(
        both["rows"].as_array().unwrap()[..8],
        first["rows"].as_array().unwrap()[..]
    );
    let subjects = both["subjects"].as_array().unwrap();
    assert_eq!(
        (&subjects[0]["subject"], &subjects[1]["subject"]),
        (&"tidelib".into(), &"second".into())
    );
    assert_eq!(subjects[1]["penalty"], 2.0);
    assert_ne!(subjects[0]["penalty"], subjects[1]["penalty"]);
    assert_eq!(both["penalty"], Value::Null);

    assert_eq!(both["aggregate"].as_array().unwrap().len(), 8);
    for model in ["unchanged", "preserving", "breaker", "sloppy"] {
        for scoring in ["paired", "paper"] {
            let parts = of(&both, "rows", model, scoring);
            let [all] = of(&both, "aggregate", model, scoring)[..] else {
                panic!("one aggregate row for {model} {scoring}");
            };
            assert_eq!(parts.len(), 2);
            assert_eq!(parts[1]["functions"], 12);
            for key in ["s1", "s2", "s3", "d", "c1", "c2", "c3", "score"] {
                let number = |row: &Value| row[key].as_f64().unwrap();
                let mean = (number(parts[0]) + number(parts[1])) / 2.0;
                assert!((number(all) - mean).abs() < 1e-6, "{model} {scoring} {key}");
            }
            let width = |row: &Value| {
                row["interval"][1].as_f64().unwrap() - row["interval"][0].as_f64().unwrap()
            };
            // Independent parts: no wider than the mean of the two widths.
            assert!(width(all) <= (width(parts[0]) + width(parts[1])) / 2.0 + 1e-9);
            assert_eq!(all["complete"], true);
        }
    }

    let again = project.run(JSON).ok().json();
    assert_eq!(total(&again["executed"]), 0);
    assert_eq!(again["aggregate"], both["aggregate"]);
    let text = project.run(["score"]).ok().out;
    assert!(
        text.contains("all subjects, paired: means of tidelib, second, each with the same weight")
    );

    let alone = project
        .run(["score", "--subject", "second", "--format", "json"])
        .ok()
        .json();
    assert_eq!(alone["rows"].as_array().unwrap().len(), 8);
    assert_eq!(
        alone["rows"].as_array().unwrap()[..],
        both["rows"].as_array().unwrap()[8..]
    );
    let listed = project.run(["list", "--model", "breaker"]).ok().out;
    assert!(listed.lines().any(|l| l.starts_with("second ")));
    assert!(listed.lines().any(|l| l.starts_with("tidelib ")));
    let shared = listed
        .lines()
        .filter(|l| l.starts_with("second "))
        .map(|l| l.split_whitespace().nth(4).unwrap())
        .find(|name| {
            listed
                .lines()
                .any(|l| l.starts_with("tidelib ") && l.contains(&format!(" {name} ")))
        });
    if let Some(name) = shared {
        project
            .run(["show", name])
            .exits(3)
            .says(&["in tidelib and second", "--subject"]);
        project.run(["show", name, "--subject", "second"]).ok();
    }
}

#[test]
fn a_subject_that_is_not_there_and_a_name_used_twice_are_errors() {
    let project = Project::prepared();
    project
        .run(["score", "--subject", "tidelip"])
        .exits(3)
        .says(&["no subject `tidelip`", "there are: tidelib"]);
    let text = project.read("everbench.toml").replace(
        "[subject]\npreset = \"tidelib\"",
        "[[subject]]\npreset = \"tidelib\"\n[[subject]]\npreset = \"tidelib\"",
    );
    project.write("everbench.toml", &text);
    project
        .run(["score"])
        .exits(3)
        .says(&["two subjects are called `tidelib`"]);
}
