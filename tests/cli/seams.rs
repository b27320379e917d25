//! The seams, each by its second instance: another language, another task, another metric.

use serde_json::json;

use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];

#[test]
fn a_subject_in_cpp_goes_the_whole_way() {
    let project = Project::empty();
    let planting = "[[model]]\nname = \"planting\"\ncalibration = { plants_memory_error = 1.0 }\n";
    let breaking = "[[model]]\nname = \"breaking\"\ncalibration = { breaks_compile = 1.0 }\n";
    project.configure(
        "preset = \"quaylib\"",
        "[run]\niterations = 3\nseed = 5\n[score]\nscorings = [\"paired\"]\n",
        &[UNCHANGED, PRESERVING, planting, breaking],
    );
    let board = project.run(JSON).ok().json();
    let of = |model: &str| row(&board, model, "paired");
    let functions = of("unchanged")["functions"].as_u64().unwrap();
    assert!(functions > 45, "{functions}");
    assert_eq!(
        board["excluded"]["split_by_ifdef"], 1,
        "{}",
        board["excluded"]
    );
    assert_eq!(
        board["excluded"]["macro_defined"], 3,
        "{}",
        board["excluded"]
    );
    let baseline = &of("unchanged")["baseline"];
    assert_eq!(
        (
            &baseline["cases"],
            &baseline["passing"],
            &baseline["alerts"]
        ),
        (&json!(48), &json!(48), &json!(0)),
        "{baseline}"
    );
    for model in ["unchanged", "preserving"] {
        let row = of(model);
        assert_eq!(
            (&row["compiles"], &row["s1"], &row["s2"], &row["alerts"]),
            (&json!(functions), &json!(100.0), &json!(100.0), &json!(0)),
            "{row:#}"
        );
    }
    assert!(of("preserving")["d"].as_f64().unwrap() > 1.0);
    assert_eq!(of("breaking")["compiles"], 0);
    assert_eq!(of("planting")["s1"], 100.0);
    assert_eq!(of("planting")["s2"], 100.0);
    assert!(
        of("planting")["alerts"].as_u64().unwrap() > 3,
        "{:#}",
        of("planting")
    );
    // What a model is asked speaks of its language.
    let prompts = prompts(&project);
    assert!(
        prompts
            .iter()
            .all(|(_, p)| p.contains("C++ function") && p.contains("```cpp\n"))
    );
}

/// The code of the fenced block of a prompt.
fn shown(prompt: &str) -> &str {
    let (_, code) = prompt.split_once("\n```c\n").unwrap();
    code.rsplit_once("\n```").unwrap().0
}

const RUN: &str = "[run]\niterations = 2\nseed = 3\nlimit = 6\n[score]\nscorings = [\"paired\"]\n";

#[test]
fn a_repair_is_judged_against_the_original() {
    let project = Project::empty().with_builds();
    project.configure("preset = \"tidelib\"", RUN, &[UNCHANGED]);
    let improve = project.run(JSON).ok().json();
    assert_eq!(row(&improve, "unchanged", "paired")["task"], "improve");
    let before = project.jobs();

    // Edits of the original are other models' answers to the same functions: nothing is new.
    let repair = project
        .run([&JSON[..], &["--task", "repair"]].concat())
        .ok()
        .json();
    assert_eq!(repair["executed"], json!({}));
    let perfect = row(&repair, "unchanged", "paired");
    assert_eq!(
        (&perfect["task"], &perfect["unchanged"], &perfect["s2"]),
        (&json!("repair"), &json!(6), &json!(100.0))
    );
    // Far from the original is no merit here.
    assert_eq!(repair["weights"][3], 0.0);
    assert_eq!(project.jobs(), before);

    // Whoever gives back what was shown has repaired nothing: it differs from the original, and
    // the planted error is still there.
    let text = project.read("everbench.toml");
    project.write(
        "everbench.toml",
        &text.replace("[run]", "[run]\ntask = \"repair\""),
    );
    let prompts = prompts(&project);
    assert!(prompts.iter().all(|(_, p)| shown(p).contains("everbench_")));
    let echoes = prompts
        .iter()
        .map(|(id, p)| (id.clone(), format!("```c\n{}\n```\n", shown(p))));
    project.write("echo.jsonl", &replay("echo", echoes));
    project.add_model("[[model]]\nname = \"echo\"\nreplay = \"echo.jsonl\"\n");
    let board = project.run(JSON).ok().json();
    let echo = row(&board, "echo", "paired");
    assert_eq!(
        (&echo["unchanged"], &echo["compiles"], &echo["s2"]),
        (&json!(0), &json!(6), &json!(100.0)),
        "{echo:#}"
    );
    assert!(echo["d"].as_f64().unwrap() > 0.0);
    assert!(echo["alerts"].as_u64().unwrap() > 0);
    assert_eq!(
        echo["unranked"],
        serde_json::Value::Null,
        "few edits are no fault here"
    );
}

#[test]
fn synthesis_shows_no_body_and_takes_the_whole_function() {
    let project = Project::empty().with_builds();
    project.configure("preset = \"tidelib\"", RUN, &[UNCHANGED]);
    project.run(JSON).ok();
    let originals: Vec<String> = prompts(&project)
        .iter()
        .map(|(_, p)| shown(p).into())
        .collect();
    let text = project.read("everbench.toml");
    project.write(
        "everbench.toml",
        &text.replace("[run]", "[run]\ntask = \"synthesise\""),
    );
    let prompts = prompts(&project);
    assert_eq!(prompts.len(), originals.len());
    for ((_, prompt), original) in prompts.iter().zip(&originals) {
        let start = shown(prompt);
        assert!(original.starts_with(start), "{start}\n{original}");
        assert!(
            original[start.len()..].trim_start().starts_with('{'),
            "{start}"
        );
    }
    let answers = prompts.iter().zip(&originals);
    let answers = answers.map(|((id, _), text)| (id.clone(), format!("```c\n{text}\n```\n")));
    project.write("whole.jsonl", &replay("whole", answers));
    project.add_model("[[model]]\nname = \"whole\"\nreplay = \"whole.jsonl\"\n");
    let board = project.run(JSON).ok().json();
    let whole = row(&board, "whole", "paired");
    assert_eq!(
        (&whole["task"], &whole["unchanged"]),
        (&json!("synthesise"), &json!(6))
    );
    assert_eq!(whole["s2"], 100.0);
}

#[test]
fn an_unknown_task_or_metric_is_named_with_those_there_are() {
    let project = Project::empty();
    project.configure("preset = \"tidelib\"", RUN, &[UNCHANGED]);
    project
        .run(["run", "--task", "improv"])
        .exits(3)
        .says(&["no task `improv`", "improve, repair, synthesise"]);
    let metrics = RUN.replace("[score]", "[score]\nmetrics = [\"lint\"]");
    project.configure("preset = \"tidelib\"", &metrics, &[UNCHANGED]);
    project
        .run(["run"])
        .exits(3)
        .says(&["names `lint`", "warnings"]);
}

#[test]
fn warnings_are_counted_when_they_are_asked_for_and_only_then() {
    let project = Project::empty().with_builds();
    project.configure("preset = \"tidelib\"", RUN, &[UNCHANGED]);
    let plain = project.run(JSON).ok().json();
    assert!(plain["executed"]["oss/warnings"].is_null());
    assert!(row(&plain, "unchanged", "paired")["metrics"].is_null());

    // A variable that nothing uses, in every function, and a function that does not compile.
    let mut broken = false;
    let replies: Vec<_> = prompts(&project)
        .iter()
        .map(|(id, prompt)| {
            let (head, body) = shown(prompt).split_once('{').unwrap();
            let extra = match std::mem::replace(&mut broken, true) {
                false => "nonsense here;",
                true => "int left_over;",
            };
            (id.clone(), format!("```c\n{head}{{ {extra}{body}\n```\n"))
        })
        .collect();
    project.write("lax.jsonl", &replay("lax", replies));
    project.add_model("[[model]]\nname = \"lax\"\nreplay = \"lax.jsonl\"\n");
    let without = project.run(JSON).ok().json();
    assert!(without["executed"]["oss/warnings"].is_null());

    let text = project.read("everbench.toml");
    let text = text.replace("[score]", "[score]\nmetrics = [\"warnings\"]");
    project.write("everbench.toml", &text);
    let board = project.run(JSON).ok().json();
    let executed = board["executed"].as_object().unwrap();
    assert_eq!(executed.keys().collect::<Vec<_>>(), ["oss/warnings"]);
    // Of five functions the original and the variant.
    assert_eq!(executed["oss/warnings"], 10);
    let metric = &row(&board, "lax", "paired")["metrics"]["warnings"];
    assert_eq!(
        (&metric["measured"], &metric["unmeasured"]),
        (&json!(5), &json!(0))
    );
    let added = &metric["groups"]["added"];
    assert_eq!(added["by_label"]["-Wunused-variable"], 5, "{metric:#}");
    assert_eq!(metric["groups"]["removed"]["total"], 0);
    let unchanged = &row(&board, "unchanged", "paired")["metrics"]["warnings"];
    assert_eq!(
        (
            &unchanged["measured"],
            &unchanged["groups"]["added"]["total"]
        ),
        (&json!(6), &json!(0))
    );
    // The scores are what they were.
    assert_eq!(
        row(&board, "lax", "paired")["score"],
        row(&without, "lax", "paired")["score"]
    );

    let again = project.run(JSON).ok().json();
    assert_eq!(again["executed"], json!({}));
    let table = project.run(["score"]).ok().out;
    assert!(
        table.contains("warn +") && table.contains("warn -"),
        "{table}"
    );
}
