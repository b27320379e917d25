//! The commands beside `run` and `score`.

use serde_json::json;

use crate::support::*;

#[test]
fn list_names_what_fails_and_why() {
    let project = Project::prepared();
    let text = project.run(["list", "--outcome", "fails"]).ok().out;
    let fails = row(&project.first(), "breaker", "paired")["fails"]
        .as_u64()
        .unwrap();
    assert_eq!(text.lines().count() as u64, fails);
    for line in text.lines() {
        assert!(line.starts_with("fails "), "{line}");
        assert!(line.contains(" breaker "), "{line}");
        // Where, and what the compiler or the linker said.
        assert!(line.contains("(src/") && line.contains("): "), "{line}");
    }
    let unchanged = project
        .run(["list", "--outcome", "unchanged", "--model", "unchanged"])
        .ok()
        .out;
    assert_eq!(unchanged.lines().count(), 16);
    project
        .run(["list", "--outcome", "nonsense"])
        .exits(2)
        .says(&["nonsense", "compiles", "unparsable"]);
}

#[test]
fn show_tells_all_about_a_function() {
    let project = Project::prepared();
    let listed = project
        .run(["list", "--outcome", "fails", "--format", "json"])
        .ok()
        .json();
    // One whose planted error the compiler names.
    let failing = listed["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["why"].as_str().is_some_and(|w| w.contains("everbench_")))
        .unwrap();
    let id = failing["function"].as_str().unwrap();
    let shown = project.run(["show", id, "--model", "breaker"]).ok().out;
    for part in [
        id,
        "== breaker (calibration): code, fails",
        "first error (",
        "--- original",
        "+++ variant",
        "\n+",
        "everbench_",
    ] {
        assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
    }
    let shown = project
        .run(["show", id, "--model", "breaker", "--format", "json"])
        .ok()
        .json();
    let model = &shown["models"][0];
    assert_eq!(model["verdict"]["error"], failing["why"]);
    assert!(model["reply"].as_str().unwrap().starts_with("```c\n"));
    assert!(shown["line"].as_u64().unwrap() > 0);

    // A planted memory error: its alert, in its function.
    let alerted = project
        .run(["list", "--model", "sloppy", "--format", "json"])
        .ok()
        .json();
    let rows = alerted["rows"].as_array().unwrap().iter();
    let shown = rows.map(|r| {
        let id = r["function"].as_str().unwrap();
        project.run(["show", id, "--model", "sloppy"]).ok().out
    });
    let shown: Vec<String> = shown.filter(|s| s.contains("\nalert: ")).collect();
    assert!(!shown.is_empty());
    assert!(shown.iter().all(|s| s.contains("passed")));

    project
        .run(["show", "no_such_function"])
        .exits(3)
        .says(&["no_such_function", "everbench list"]);
    project
        .run(["show", "td_gray_encode"])
        .exits(3)
        .says(&["td_gray_encode", "help: it is"]);
}

#[test]
fn what_the_last_run_was_asked_with_is_said_where_something_is_missing() {
    let project = Project::prepared();
    let missing = |args: &[&str]| project.run(args).exits(75).out;
    let more = ["score", "--limit", "40"];
    let without = "the last run was asked without options";
    assert!(missing(&more).contains(without), "{}", missing(&more));
    let few = ["--limit", "3", "--iterations", "1"];
    project.run(["run", "--quiet"].iter().chain(&few)).ok();
    let with = "the last run was asked with `--limit 3 --iterations 1`: ask for the same, or write it into everbench.toml";
    assert!(missing(&more).contains(with), "{}", missing(&more));
    assert!(missing(&["list", "--limit", "40"]).contains(with));
    let board = project.run(["score", "--limit", "40", "--format", "json"]);
    let board = board.exits(75).json();
    assert_eq!(board["asked_otherwise"], with);
    // The same options, or all of it there: nothing to say.
    let same = project.run(["score"].iter().chain(&few)).ok().out;
    assert!(!same.contains("the last run"), "{same}");
    let board = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(board.get("asked_otherwise"), None);
}

/// A project on the subject with one shard in the profile `short`, which is the usual one, and the
/// three others in `long`.
fn with_profiles() -> Project {
    let run = "[run]\nlimit = 2\niterations = 1\n";
    Project::on_changed_subject(run, &[UNCHANGED], |subject| {
        let manifest = subject.join("everbench.toml");
        edit(&manifest, "[tests]\n", "[tests]\nprofile = \"short\"\n");
        for (shard, profiles) in [
            ("text", "\"short\", \"long\""),
            ("data", "\"long\""),
            ("math", "\"long\""),
            ("strict", "\"long\""),
        ] {
            let name = format!("name = \"{shard}\"\n");
            edit(
                &manifest,
                &name,
                &format!("{name}profiles = [{profiles}]\n"),
            );
        }
    })
}

#[test]
fn only_the_tests_of_the_profile_are_run() {
    let project = with_profiles();
    let runs = |args: &[&str]| {
        let args = [&["run", "--quiet", "--format", "json"], args].concat();
        project.run(args).ok().json()["executed"]["oss/run"].clone()
    };
    assert_eq!(runs(&[]), json!(3), "one shard, three times");
    assert_eq!(runs(&["--profile", "long"]), json!(9), "the three others");
    assert_eq!(runs(&["--profile", "short"]), json!(null));
}

#[test]
fn doctor_says_what_this_machine_has() {
    let project = Project::prepared();
    let said = project.run(["doctor"]).ok().out;
    for part in [
        "ok      compiler: gcc",
        "ok      sandbox: bubblewrap",
        "ok      make: ",
        "ok      project: ",
    ] {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    let said = project
        .run(["doctor", "--compiler", "no-such-cc"])
        .exits(4)
        .out;
    assert!(
        said.contains("MISSING compiler: `no-such-cc` was not found"),
        "{said}"
    );
}

#[test]
fn prompts_hold_every_function_of_the_sample_once() {
    let project = Project::prepared();
    let prompts = prompts(&project);
    assert_eq!(prompts.len(), 16);
    let ids: std::collections::BTreeSet<_> = prompts.iter().map(|p| &p.0).collect();
    assert_eq!(ids.len(), 16);
    assert!(
        prompts
            .iter()
            .all(|p| p.1.contains("Rewrite the C function `"))
    );
    assert_eq!(
        project
            .run(["prompts", "--limit", "3"])
            .ok()
            .out
            .lines()
            .count(),
        3
    );
}

#[test]
fn the_store_can_be_looked_into() {
    let project = Project::prepared();
    let first = project.first();
    let stats = project.run(["store", "stats"]).ok().out;
    let runs = first["executed"]["oss/run"].as_u64().unwrap();
    let line = stats.lines().find(|l| l.starts_with("oss/run ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[2], runs.to_string(), "{line}");

    let listed = project.run(["store", "ls", "--kind", "oss/run"]).ok().out;
    assert_eq!(listed.lines().count() as u64, runs);
    let words: Vec<&str> = listed.lines().next().unwrap().split(' ').collect();
    let job = project.run(["store", "job", &words[0][..16]]).ok().json();
    assert_eq!(job["job"]["kind"], "oss/run");
    assert_eq!(job["output"], words[2]);
    assert!(
        job["provenance"]["tool"]
            .as_str()
            .unwrap()
            .starts_with("everbench ")
    );
    let output = project.run(["store", "cat", words[2]]).ok().json();
    assert!(output["end"]["exit"].is_i64());

    project
        .run(["store", "job", "0000000000000000"])
        .exits(3)
        .says(&["no job", "0000000000000000"]);
    project
        .run(["store", "rm", ""])
        .exits(3)
        .says(&["give more digits"]);
    let absent = "ab".repeat(32);
    project
        .run(["store", "cat", &absent])
        .exits(3)
        .says(&["no blob", &absent]);

    let verified = project.run(["store", "verify"]).ok().json();
    assert_eq!(verified["index"], "sound");
    assert_eq!(verified["problems"], json!([]));
}

#[test]
fn gc_takes_nothing_that_an_evaluation_needs() {
    let project = Project::prepared();
    let would = project.run(["store", "gc", "--dry-run"]).ok().json();
    assert_eq!(would["actions"], 0);
    // An evaluation that was not finished leaves something to take.
    let child = project.started(&["run", "--quiet", "--seed", "12"], 20);
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    finished(child.wait_with_output().unwrap()).exits(75);
    let swept = project.run(["store", "gc"]).ok().json();
    assert!(swept["actions"].as_u64().unwrap() >= 20, "{swept}");
    let scored = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(scored["rows"], project.first()["rows"]);
    assert_eq!(prompts(&project).len(), 16);
    assert_eq!(project.run(["list"]).ok().out.lines().count(), 64);
    let again = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    assert_eq!(again["executed"], json!({}));
}

#[test]
fn the_published_table_comes_out_of_its_raw_scores() {
    let path = fixtures("tables/oss-bench-table1.csv");
    let scored = Project::empty()
        .run(["score", "--raw", path.to_str().unwrap(), "--format", "json"])
        .ok()
        .json();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut published: Vec<(String, f64)> = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (
                format!("{}/{}", cells[0], cells[1]),
                cells[6].parse().unwrap(),
            )
        })
        .collect();
    assert_eq!(published.len(), 27);
    let mut computed: Vec<(String, f64)> = scored["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            let name = format!(
                "{}/{}",
                r["benchmark"].as_str().unwrap(),
                r["model"].as_str().unwrap()
            );
            (name, r["score"].as_f64().unwrap())
        })
        .collect();
    published.sort_by(|a, b| a.0.cmp(&b.0));
    computed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(computed.len(), 27);
    for (ours, theirs) in computed.iter().zip(&published) {
        assert_eq!(ours.0, theirs.0);
        // The table has one decimal place.
        assert!(
            (ours.1 - theirs.1).abs() <= 0.05 + 1e-9,
            "{ours:?} {theirs:?}"
        );
    }
}

#[test]
fn init_writes_a_project_and_never_over_one() {
    let project = Project::empty();
    project.run(["init", "--subject", "tidelib"]).ok();
    let text = project.read("everbench.toml");
    assert!(text.contains("preset = \"tidelib\""));
    project
        .run(["init"])
        .exits(3)
        .says(&["everbench.toml exists", "--force"]);
    assert_eq!(project.read("everbench.toml"), text);
    project
        .run(["init", "--force", "--subject", "tidelab"])
        .exits(3)
        .says(&["tidelab", "tidelib"]);
    assert_eq!(project.read("everbench.toml"), text);
}
