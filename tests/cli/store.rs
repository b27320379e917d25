//! A store is carried elsewhere in a file, and scores there as it did here.

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
