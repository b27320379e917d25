//! The extractor libclang beside tree-sitter: the same functions with the same text where both see
//! them, verdicts that hold, and what happens where it is missing or crashes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{BREAKER, PRESERVING, Project, RUN, ended};

const BY_LIBCLANG: &str = "preset = \"tidelib\"\nextractor = \"libclang\"";

fn compared(project: &Project) -> Value {
    let args = ["extractors", "--quiet", "--format", "json"];
    let document = project.run(args).ok().json();
    document["subjects"][0].clone()
}

#[test]
fn a_subject_is_measured_on_what_libclang_finds() {
    let project = Project::empty().with_builds();
    project.configure(BY_LIBCLANG, RUN, &[PRESERVING, BREAKER]);
    let board = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    let rows = board["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["extractor"], "libclang");
        assert_eq!(row["complete"], true);
        assert!(row["score"].is_number(), "{row}");
    }
    project.run(["audit"]).ok();
    // Scoring needs no libclang: it was noted which one it was.
    let mut score = project.command(["score", "--format", "json"]);
    score.env("LIBCLANG_PATH", "/nowhere");
    assert_eq!(ended(score).ok().json()["rows"], board["rows"]);

    let both = compared(&project);
    assert_eq!(both["differing"], 0, "{both:#}");
    let only: Vec<&String> = both["only_tree_sitter"]
        .as_object()
        .expect("reasons")
        .keys()
        .collect();
    assert_eq!(only, ["not_compiled"], "{both:#}");
    assert_eq!(both["lost"], json!({}));
    assert_eq!(both["populations"][0], both["populations"][1], "{both:#}");
}

/// Functions of C++ that both find are the same functions; what only libclang finds is counted.
#[test]
fn cpp_is_compared_by_whole_names_and_nothing_is_asked_on_libclangs_word() {
    let project = Project::empty();
    project.configure("preset = \"quaylib\"", RUN, &[PRESERVING]);
    let both = compared(&project);
    assert!(both["both"].as_u64() > Some(0), "{both:#}");
    assert_eq!(both["lost"], json!({}), "{both:#}");
    assert_eq!(both["errors"], json!({}), "{both:#}");
    assert_eq!(both["only_libclang"]["asked"], Value::Null, "{both:#}");
    let by_libclang = both["populations"][1].as_u64();
    assert!(by_libclang > Some(0), "{both:#}");
    assert!(by_libclang <= both["populations"][0].as_u64(), "{both:#}");
}

#[test]
fn a_missing_libclang_is_said_and_not_replaced() {
    let project = Project::empty();
    project.configure(BY_LIBCLANG, RUN, &[PRESERVING]);
    for args in [&["run", "--quiet"][..], &["extractors", "--quiet"]] {
        let mut command = project.command(args);
        command.env("LIBCLANG_PATH", "/nowhere");
        ended(command)
            .exits(4)
            .says(&["/nowhere", "apt-get install libclang1-14"]);
    }
    let mut doctor = project.command(["doctor"]);
    doctor.env("LIBCLANG_PATH", "/nowhere");
    let doctor = ended(doctor).exits(4);
    assert!(doctor.out.contains("MISSING libclang"), "{}", doctor.out);
}

/// A unit in which only clang sees nesting that no parser survives.
#[test]
fn a_unit_that_crashes_libclang_costs_only_itself() {
    let deep = |dir: &Path| {
        let path = dir.join("src/stats.c");
        let mut text = fs::read(&path).expect("a source file");
        let nested = "if(x)".repeat(60_000);
        let more =
            format!("\n#ifdef __clang__\nint deep(int x){{{nested}return 1;return 0;}}\n#endif\n");
        text.extend_from_slice(more.as_bytes());
        fs::write(path, text).expect("a source file");
    };
    let project = Project::on_changed_subject(RUN, &[PRESERVING], deep);
    let with = compared(&project);
    let lost = with["lost"].as_object().expect("units");
    assert_eq!(lost.keys().collect::<Vec<_>>(), ["src/stats.c"], "{with:#}");
    assert!(
        with["only_tree_sitter"]["unit_lost"].as_u64() > Some(0),
        "{with:#}"
    );
    let without = compared(&Project::on_changed_subject(RUN, &[PRESERVING], |_| {}));
    let both = |c: &Value| c["both"].as_u64().expect("a number");
    let lost = with["only_tree_sitter"]["unit_lost"]
        .as_u64()
        .expect("a number");
    assert_eq!(both(&with) + lost, both(&without));
}
