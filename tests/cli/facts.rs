//! What is known beforehand comes out: calibration models have known effects.

use std::collections::BTreeMap;

use everbench::lang::calibration::Edit;
use everbench::oss::case::calibration_edit;

use crate::support::*;

const SEED: u64 = 3;

#[test]
fn the_unchanged_and_the_preserving_model_lose_nothing() {
    let board = Project::prepared().first();
    for scoring in ["paired", "paper"] {
        let row = row(&board, "unchanged", scoring);
        let baseline = row["baseline"]["pass_rates"].as_array().unwrap();
        let mean =
            baseline.iter().map(|r| r.as_f64().unwrap()).sum::<f64>() / baseline.len() as f64;
        assert_eq!(row["s1"], 100.0);
        assert_eq!(row["s2"].as_f64().unwrap(), mean);
        assert_eq!(row["s3"], 100.0);
        assert_eq!(row["d"], 0.0);
        assert_eq!(row["mean_applied"], 0.0);
        assert_eq!(row["unchanged"], 16);
    }
    for scoring in ["paired", "paper"] {
        let row = row(&board, "preserving", scoring);
        for part in ["s1", "s2", "s3"] {
            assert_eq!(row[part], 100.0, "{part} {scoring}");
        }
        assert!(row["d"].as_f64().unwrap() > 0.0);
        assert_eq!(row["mean_applied"], 8.0);
        assert_eq!(row["na"], 0);
    }
}

#[test]
fn a_baseline_with_a_failing_test_is_the_unchanged_models_score() {
    let run = "[run]\nlimit = 2\niterations = 1\n";
    let project = Project::on_changed_subject(run, &[UNCHANGED], |subject| {
        edit(
            &subject.join("tests/check.h"),
            "    checks++;\n",
            "    checks++;\n    if (checks == 3)\n        ok = 0;\n",
        );
    });
    let board = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    // The third check of each of the four programs: `paper` keeps what fails without any change in
    // the denominator, `paired` leaves it out.
    let (paper, paired) = (
        row(&board, "unchanged", "paper"),
        row(&board, "unchanged", "paired"),
    );
    let baseline = &paper["baseline"];
    assert_eq!(
        (&baseline["failing"], &baseline["cases"]),
        (&4.into(), &406.into())
    );
    assert!((paper["s2"].as_f64().unwrap() - 100.0 * 402.0 / 406.0).abs() < 1e-9);
    assert_eq!(paper["s2"], baseline["pass_rates"][0]);
    assert_eq!(paired["s2"], 100.0);
    assert_eq!(
        (&paper["s3"], &paired["s3"]),
        (&100.0.into(), &100.0.into())
    );
}

#[test]
fn planted_compile_errors_are_counted_to_the_last_one() {
    let project = Project::prepared();
    let listed = project
        .run(["list", "--model", "breaker", "--format", "json"])
        .ok()
        .json();
    let rows = listed["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    let shares = BTreeMap::from([(Edit::Preserving, 0.6), (Edit::BreaksCompile, 0.4)]);
    let mut planted = 0;
    for row in rows {
        let id = row["function"].as_str().unwrap();
        let (edit, _) = calibration_edit(&shares, "breaker", SEED, id);
        let breaks = edit == Edit::BreaksCompile;
        planted += u64::from(breaks);
        assert_eq!(row["compiles"], !breaks, "{id}");
        assert_eq!(row["why"].is_string(), breaks, "{id}");
    }
    assert!((1..16).contains(&planted));
    let board = project.first();
    for scoring in ["paired", "paper"] {
        let row = row(&board, "breaker", scoring);
        assert_eq!(row["fails"], planted);
        assert_eq!(row["compiles"], 16 - planted);
        let s1 = 100.0 * (16 - planted) as f64 / 16.0;
        assert!((row["s1"].as_f64().unwrap() - s1).abs() < 1e-9);
    }
    // What breaks the build takes no other function down: all that is left passes.
    assert_eq!(row(&board, "breaker", "paired")["s2"], 100.0);
}

#[test]
fn planted_memory_errors_are_alerts_in_the_functions_that_hold_them() {
    let project = Project::prepared();
    let board = project.first();
    assert!(row(&board, "sloppy", "paired")["alerts"].as_u64().unwrap() > 0);
    let shares = BTreeMap::from([(Edit::BreaksBehaviour, 0.6), (Edit::PlantsMemoryError, 0.4)]);
    let listed = project
        .run(["list", "--model", "sloppy", "--format", "json"])
        .ok()
        .json();
    let mut blamed = 0;
    for row in listed["rows"].as_array().unwrap() {
        let id = row["function"].as_str().unwrap();
        let (edit, _) = calibration_edit(&shares, "sloppy", SEED, id);
        let shown = project
            .run(["show", id, "--model", "sloppy", "--format", "json"])
            .ok()
            .json();
        let alerts = shown["models"][0]["alerts"].as_array().unwrap().len();
        if edit == Edit::PlantsMemoryError {
            blamed += alerts;
        }
    }
    assert!(blamed > 0);
}

/// A generated source that functions are drawn from is as much the project's as any other: its
/// alerts have a function and a line.
#[test]
fn alerts_in_a_generated_source_name_its_function_and_line() {
    let project = Project::empty();
    let write = |path: &str, text: &str| project.write(path, text);
    std::fs::create_dir(project.dir.join("subject")).unwrap();
    write(
        "subject/sum.in",
        "int NAME(const int *a, int n) {\n  int s = 0;\n  for (int i = 0; i < n; i++) s = s + a[i];\n  return s;\n}\n",
    );
    write(
        "subject/t.c",
        "#include <stdio.h>\nint sum(const int *, int);\nint main(void) { int a[] = {1, 2}; puts(sum(a, 2) == 3 ? \"ok 1 - sum\" : \"not ok 1 - sum\"); return 0; }\n",
    );
    write(
        "subject/Makefile",
        "t: t.c sum.c\n\t$(CC) $(CFLAGS) t.c sum.c -o t $(LDFLAGS)\nsum.c: sum.in\n\tsed s/NAME/sum/ sum.in > sum.c\n",
    );
    write(
        "subject/everbench.toml",
        r#"
name = "made"
[source]
directory = "."
[build]
build = [["make", "CC={cc}", "CFLAGS={cflags}", "LDFLAGS={ldflags}"]]
cflags = ["-O0", "-g1"]
[sanitizers]
cflags = ["-fsanitize=address,undefined", "-fsanitize-recover=address,undefined"]
ldflags = ["-fsanitize=address,undefined", "-static-libasan", "-static-libubsan"]
leaks = false
[tests]
report = "stdout"
parser = { type = "tap" }
harness = ["t.c"]
[[tests.shard]]
name = "t"
argv = ["./t"]
cpu-seconds = 5
wall-seconds = 20
[functions]
generated = ["sum.c"]
[scoring]
functions-per-iteration = 1
"#,
    );
    let planter = "[[model]]\nname = \"planter\"\ncalibration = { plants_memory_error = 1.0 }\n";
    project.configure(
        "manifest = \"subject/everbench.toml\"",
        "[run]\niterations = 1\n",
        &[planter],
    );
    let board = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    assert_eq!(row(&board, "planter", "paired")["alerts"], 1);
    let shown = project.run(["show", "sum", "--format", "json"]).ok().json();
    let alert = &shown["models"][0]["alerts"][0];
    assert_eq!(
        (&alert["function"], &alert["file"]),
        (&"sum".into(), &"sum.c".into())
    );
    assert!(alert["line"].as_u64().unwrap() > 0, "{alert}");
}
