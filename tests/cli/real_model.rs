//! A real, weak model: what SmolLM2-135M answered when it was asked for every function of our
//! library, recorded once. Its replies go the whole way, and none of them is lost on it.

use std::collections::BTreeMap;

use crate::support::*;

#[test]
fn the_recorded_replies_of_a_real_model_are_scored() {
    let project = Project::prepared();
    let recorded = fixtures("replay/smollm2-135m.jsonl");
    project.add_model(&format!(
        "[[model]]\nname = \"smollm2-135m\"\nreplay = \"{}\"\n",
        recorded.display()
    ));
    // The whole population, so that every prompt must be one that was recorded.
    let all = [
        "--limit",
        "1000",
        "--iterations",
        "2",
        "--model",
        "smollm2-135m",
    ];
    let board = project
        .run([&["run", "--quiet", "--format", "json"], &all[..]].concat())
        .ok()
        .json();
    let row = row(&board, "smollm2-135m", "paired");
    let functions = row["functions"].as_u64().unwrap();
    assert!(functions > 100, "{row:#}");
    assert_eq!(row["complete"], true);
    assert_eq!(row["calibration"], false);
    assert_eq!(row["card"]["family"], "SmolLM2");

    // It answers in many wrong ways; each is typed, and all of them fail.
    let outcomes: BTreeMap<String, u64> = serde_json::from_value(row["outcomes"].clone()).unwrap();
    assert_eq!(outcomes.values().sum::<u64>(), functions);
    assert!(outcomes["truncated"] > 20, "{outcomes:?}");
    assert!(outcomes["unparsable"] > 20, "{outcomes:?}");
    let compiles = row["compiles"].as_u64().unwrap();
    assert!(compiles >= 1 && compiles <= outcomes["code"], "{row:#}");
    assert_eq!(row["fails"].as_u64().unwrap(), functions - compiles);

    // Who hardly edits is not ranked, and why is said.
    assert_eq!(row["rank"], serde_json::Value::Null);
    assert_eq!(row["unranked"], "too_few_changes");

    // Every reply can be looked at.
    let listed = project
        .run(
            [
                &["list", "--outcome", "truncated", "--format", "json"],
                &all[..],
            ]
            .concat(),
        )
        .ok()
        .json();
    assert_eq!(
        listed["rows"].as_array().unwrap().len() as u64,
        outcomes["truncated"]
    );
}
