//! The life of a store: what it says of itself, what is kept, and how it is carried elsewhere.

use std::fs;

use serde_json::json;

use crate::support::*;

#[test]
fn an_export_scores_elsewhere_and_nothing_runs_there() {
    let project = Project::prepared();
    let path = project.dir.join("all.everbench");
    let file = path.to_str().unwrap();
    let exported = project
        .run(["store", "export", file, "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        exported["contents"]["actions"],
        project.jobs().len(),
        "{exported}"
    );
    assert_eq!(exported["absent"], json!([]));

    // Cut short, or with one byte changed: refused before anything is made.
    let elsewhere = Project::empty();
    elsewhere.write("everbench.toml", &project.read("everbench.toml"));
    let whole = fs::read(&path).unwrap();
    let broken = project.dir.join("broken.everbench");
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 4;
    for bytes in [&altered[..], &whole[..whole.len() - 1]] {
        fs::write(&broken, bytes).unwrap();
        elsewhere
            .run(["store", "import", broken.to_str().unwrap()])
            .exits(3)
            .says(&["cut short or changed", "nothing was imported"]);
    }
    let would = elsewhere
        .run(["store", "import", "--dry-run", "--format", "json", file])
        .ok()
        .json();
    assert!(!elsewhere.store().exists());

    let imported = elsewhere
        .run(["store", "import", "--format", "json", file])
        .ok()
        .json();
    for what in ["new_actions", "new_blobs", "new_bytes", "new_roots"] {
        assert_eq!(imported[what], would[what], "{what}");
    }
    assert_eq!(elsewhere.jobs(), project.jobs());
    let again = elsewhere.dir.join("again.everbench");
    let again_name = again.to_str().unwrap();
    elsewhere.run(["store", "export", again_name]).ok();
    assert!(fs::read(&again).unwrap() == whole, "another file");

    let scored = elsewhere.run(["score", "--format", "json"]).ok().json();
    assert_eq!(scored["rows"], project.first()["rows"]);
    assert_eq!(prompts(&elsewhere), prompts(&project));
    let ran = elsewhere.run(["run", "--quiet", "--format", "json"]);
    let ran = ran.ok().json();
    assert_eq!((&ran["executed"], total(&ran["missing"])), (&json!({}), 0));
    assert_eq!(ran["rows"], project.first()["rows"]);
    let verified = elsewhere.run(["store", "verify"]).ok().json();
    assert_eq!(verified["problems"], json!([]));
}

#[test]
fn one_root_takes_along_what_it_rests_on_and_no_more() {
    let project = Project::prepared();
    let path = project.dir.join("latest.everbench");
    let file = path.to_str().unwrap();
    // A job that no evaluation lists any more is in no export.
    let small = ["run", "--quiet", "--seed", "12", "--limit", "2"];
    project.run(small).ok();
    project
        .run(["store", "export", file, "--root", "latest/tidelib"])
        .ok();
    let elsewhere = Project::empty();
    elsewhere.write("everbench.toml", &project.read("everbench.toml"));
    let text = elsewhere.run(["store", "import", file]).ok().out;
    assert!(text.contains("root `latest/tidelib` is set"), "{text}");
    assert!(!text.contains("previous/"), "{text}");
    let score = ["score", "--format", "json", "--seed", "12", "--limit", "2"];
    let here = project.run(score).ok().json();
    assert_eq!(elsewhere.run(score).ok().json()["rows"], here["rows"]);
    assert!(elsewhere.jobs().len() < project.jobs().len());
    // The rest comes with the rest.
    project.run(["store", "export", file]).ok();
    let text = elsewhere.run(["store", "import", file]).ok().out;
    assert!(text.contains("with the same output"), "{text}");
    assert_eq!(elsewhere.jobs(), project.jobs());

    project
        .run(["store", "export", file, "--root", "latest/tidelab"])
        .exits(3)
        .says(&["no root `latest/tidelab`", "latest/tidelib"]);
    let toml = project.dir.join("everbench.toml");
    project
        .run(["store", "export", toml.to_str().unwrap()])
        .exits(3)
        .says(&["is no export"]);
}

#[test]
fn stats_say_what_runs_found_and_what_they_executed() {
    let project = Project::prepared();
    let first = project.first();
    let stats = ["cache", "stats", "--format", "json"];
    let figures = project.run(stats).ok().json();
    let last = &figures["runs"]["last"];
    for (kind, n) in first["executed"].as_object().unwrap() {
        let tally = &last["kinds"][kind];
        assert_eq!(&tally["executed"], n, "{kind}");
        assert_eq!(tally["missing"], 0, "{kind}");
        assert!(tally["bytes"].as_u64().unwrap() > 0, "{kind}");
    }
    assert!(last["kinds"]["oss/program"]["cpu_us"].as_u64().unwrap() > 0);

    let again = project.run(["run", "--quiet", "--format", "json"]);
    let again = again.ok().json();
    let figures = project.run(stats).ok().json();
    let (last, all) = (&figures["runs"]["last"], &figures["runs"]["all"]);
    assert_eq!((&last["runs"], &last["complete"]), (&json!(1), &json!(1)));
    for (kind, n) in again["reused"].as_object().unwrap() {
        let tally = &last["kinds"][kind];
        assert_eq!((&tally["hits"], &tally["executed"]), (n, &json!(0)));
        assert_eq!(
            all["kinds"][kind]["executed"], first["executed"][kind],
            "{kind}"
        );
    }
    let program = figures["usage"].as_array().unwrap();
    let program = program.iter().find(|u| u["kind"] == "oss/program").unwrap();
    // Every program was found; the mean is of whole microseconds.
    let saved = last["saved_cpu_us"]["oss/program"].as_u64().unwrap();
    let once = program["cpu_us"].as_u64().unwrap();
    let jobs = program["actions"].as_u64().unwrap();
    assert!(saved <= once && once - saved < jobs, "{saved} of {once}");
    let stored: u64 = figures["usage"]
        .as_array()
        .unwrap()
        .iter()
        .map(|u| u["bytes"].as_u64().unwrap())
        .sum();
    let all_bytes = |key: &str| figures[key].as_u64().unwrap();
    assert_eq!(
        stored + all_bytes("other_bytes"),
        all_bytes("inline_bytes") + all_bytes("file_bytes")
    );
    let text = project.run(["store", "stats"]).ok().out;
    assert!(text.contains("all 2 runs"), "{text}");
}

#[test]
fn old_evaluations_go_when_the_project_says_so_and_the_user_too() {
    let project = Project::prepared();
    let small = |seed: &'static str| ["--seed", seed, "--limit", "2", "--format", "json"];
    for seed in ["12", "13"] {
        let words = ["run", "--quiet"].into_iter().chain(small(seed));
        project.run(words).ok();
    }
    let text = project.read("everbench.toml");
    let limits = "[store.keep]\nevaluations = 0\nruns = \"1 B\"\n";
    project.write("everbench.toml", &format!("{text}\n{limits}"));
    let before = project.jobs();
    let would = project.run(["store", "gc", "--dry-run"]).ok().json();
    assert_eq!(would["forgotten_roots"].as_array().unwrap().len(), 1);
    assert!(would["actions"].as_u64().unwrap() > 20, "{would}");
    // Without the word, what an evaluation lists stays.
    let plain = project.run(["store", "gc"]).ok();
    assert_eq!(plain.json()["actions"], 0);
    plain.says(&["--yes"]);
    assert_eq!(project.jobs(), before);

    let text = project.run(["store", "gc", "--yes", "--format", "text"]);
    let text = text.ok().out;
    let runs = text.lines().find(|l| l.starts_with("runs ")).unwrap();
    assert!(runs.contains("needed by the last evaluations"), "{text}");
    assert_eq!(
        project.jobs().len() as u64,
        before.len() as u64 - would["actions"].as_u64().unwrap()
    );
    for seed in ["12", "13"] {
        project.run(["score"].into_iter().chain(small(seed))).ok();
    }
    project.run(["score"]).exits(75);
    let verified = project.run(["store", "verify"]).ok().json();
    assert_eq!(verified["problems"], json!([]));
    project.run(["store", "compact"]).ok();
    // What went is computed again, to the same scores.
    let again = project.run(["run", "--quiet", "--format", "json"]);
    assert_eq!(again.ok().json()["rows"], project.first()["rows"]);

    project.write(
        "everbench.toml",
        "[subject]\npreset = \"tidelib\"\n[store.keep]\nruns = \"2 GB\"\n",
    );
    project
        .run(["store", "gc"])
        .exits(3)
        .says(&["`2 GB` is no size", "2 GiB"]);
}
