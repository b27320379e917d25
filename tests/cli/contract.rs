//! What programs may rely on in the JSON, and what people see.

use serde_json::Value;

use crate::support::*;

const ROW: [&str; 28] = [
    "subject",
    "commit",
    "model",
    "calibration",
    "scoring",
    "functions",
    "compiles",
    "fails",
    "unrelated",
    "outcomes",
    "s1",
    "s2",
    "s3",
    "alerts",
    "d",
    "c1",
    "c2",
    "c3",
    "score",
    "interval",
    "iterations",
    "na",
    "mean_applied",
    "extractor",
    "compiler",
    "baseline",
    "complete",
    "unranked",
];

fn holds_to_the_contract(board: &Value) {
    assert_eq!(board["schema"], "everbench/leaderboard/1");
    for part in ["executed", "reused", "excluded"] {
        let counts = board[part].as_object().unwrap();
        assert!(counts.values().all(Value::is_u64), "{part}");
    }
    assert_eq!(board["excluded"]["split_by_ifdef"], 3);
    let rows = board["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let row = row.as_object().unwrap();
        for key in ROW {
            assert!(row.contains_key(key), "{key} is not in {row:?}");
        }
        let number = |key: &str| {
            row[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {row:?}"))
        };
        for key in ["s1", "s2", "s3", "c1", "c2", "c3"] {
            assert!((0.0..=100.0).contains(&number(key)), "{key}: {row:?}");
        }
        assert_eq!(number("functions"), number("compiles") + number("fails"));
        let outcomes = row["outcomes"].as_object().unwrap();
        let replies: u64 = outcomes.values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(replies, 16);
        assert!((number("c1") - number("s1")).abs() < 1e-9);
        assert!((number("c2") - number("s2") * number("c1") / 100.0).abs() < 1e-9);
        assert!((number("c3") - number("s3") * number("c2") / 100.0).abs() < 1e-9);
        let interval = row["interval"].as_array().unwrap();
        let (lo, hi) = (interval[0].as_f64().unwrap(), interval[1].as_f64().unwrap());
        assert!(lo <= number("score") + 1e-9 && number("score") <= hi + 1e-9);
        assert_eq!(row["subject"], "tidelib");
        assert_eq!(row["iterations"], 2);
        assert_eq!(row["unrelated"], 5);
        assert_eq!(row["complete"], true);
        assert_eq!(row["extractor"], "tree-sitter");
        assert_eq!(row["baseline"]["cases"], 406);
        assert!(row["compiler"].as_str().unwrap().contains("gcc"));
    }
}

#[test]
fn run_and_score_give_the_same_document() {
    let project = Project::prepared();
    holds_to_the_contract(&project.first());
    let scored = project.run(["score", "--format", "json"]).ok().json();
    holds_to_the_contract(&scored);
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&scored), keys(&project.first()));
    assert_eq!(keys(&scored["rows"][0]), keys(&project.first()["rows"][0]));
}

#[test]
fn the_leaderboard_is_a_table() {
    let project = Project::prepared();
    let models = [
        "--model",
        "unchanged",
        "--model",
        "preserving",
        "--model",
        "breaker",
    ];
    let text = project.run([&["score"], &models[..]].concat()).ok().out;
    // What differs between machines: the compiler, and the digest of the subject's files.
    let redacted = regex::Regex::new(r"tidelib \([0-9a-f]{12}\)").unwrap();
    let text = redacted.replace(&text, "tidelib (COMMIT)");
    let redacted = regex::Regex::new(r"not compiled; gcc .*").unwrap();
    let text = redacted.replace(&text, "not compiled; COMPILER");
    insta::assert_snapshot!("leaderboard", text);
}

#[test]
fn the_help_says_what_there_is() {
    let help = Project::empty().run(["--help"]).ok().out;
    insta::assert_snapshot!("help", help);
}

#[test]
fn nobody_who_reads_is_no_fault() {
    let project = Project::prepared();
    let script = format!("{BIN} --dir {} store ls | head -n 1", project.dir.display());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    let ended = ended(command).ok();
    assert_eq!(ended.out.lines().count(), 1);
    assert_eq!(ended.err, "");
}
