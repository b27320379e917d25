//! Scores without what a model knows: tested by the two commands that find that out, over HTTP, and left
//! out of OSS-Bench's scores and TOSSS's.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contamination::{git_fix, set_up, tested};
use crate::server::*;
use crate::support::*;

const WITHOUT: [&str; 4] = ["score", "--without-contaminated", "--format", "json"];
const NAMING: &str = "Could you recognize";

fn row_of(document: &Value, model: &str) -> Value {
    let rows = document["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["model"] == model);
    row.unwrap_or_else(|| panic!("{document:#}")).clone()
}

#[test]
fn functions_that_a_model_names_and_subjects_that_it_knows_are_left_out() {
    let server = Server::start(|asked| {
        let prompt = asked.prompt();
        answer(match prompt.contains(NAMING) {
            true if prompt.contains("td_date") => "Yes. It belongs to Tidelib.",
            true => "I dont know",
            false => "int nothing;",
        })
    });
    let project = Project::empty().with_builds();
    let run = "[run]\nlimit = 12\niterations = 2\n[score]\nscorings = [\"paired\"]\n";
    let model = format!(
        "[[model]]\nname = \"m\"\napi = \"openai-chat\"\nbase-url = \"{}\"\nid = \"m\"\n",
        server.url()
    );
    let yardstick = "[[model]]\nname = \"yardstick\"\ncalibration = { unchanged = 1.0 }\n";
    project.configure("preset = \"tidelib\"", run, &[&model, yardstick]);
    let board = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();

    // Nothing was tested: nothing is left out, and that is said.
    let before = row_of(&project.run(WITHOUT).ok().json(), "m");
    assert_eq!(
        (&before["asked"], &before["tested"]),
        (&json!(12), &json!(0))
    );
    assert_eq!(before["left_out"], json!({}));
    assert_eq!(before["clean"]["s1"], before["all"]["s1"]);
    assert_eq!(before["all"]["score"], row(&board, "m", "paired")["score"]);
    let text = project.run(&WITHOUT[..2]).ok().out;
    assert!(text.contains("not tested"), "{text}");

    let asked_before = server.requests();
    let subject = fixtures("tidelib").display().to_string();
    let other = fixtures("quaylib").display().to_string();
    let probe = ["contamination", "probe", "--quiet", "--name", "tidelib"];
    let probe = probe.iter().map(ToString::to_string).chain(
        [
            "--control",
            &other,
            "--limit",
            "200",
            "--evidence",
            &subject,
        ]
        .map(str::to_string),
    );
    let probe: Vec<String> = probe.collect();
    let said = project.run(&probe).ok().out;
    assert!(said.contains("td_date"), "{said}");
    let after = server.requests();
    project.run(&probe).ok();
    assert_eq!(server.requests(), after, "nobody is asked twice");

    // As many as were shown and named are left out, and no others.
    let shown: BTreeSet<String> = server
        .asked()
        .iter()
        .skip(asked_before)
        .filter_map(|a| {
            Some(
                a.prompt()
                    .split_once("The code snippet is: ")?
                    .1
                    .to_string(),
            )
        })
        .filter(|code| code.contains("td_date"))
        .collect();
    let functions: Vec<String> = prompts(&project).iter().map(|(_, p)| asked(p)).collect();
    let named = functions
        .iter()
        .filter(|f| shown.iter().any(|code| f.contains(code.as_str())))
        .count();
    assert!((1..12).contains(&named), "{named} of 12");
    let rows = project.run(WITHOUT).ok().json();
    let without = row_of(&rows, "m");
    assert_eq!(
        without["left_out"],
        json!({ "named": named }),
        "{without:#}"
    );
    assert_eq!(without["clean"]["functions"], 12 - named);
    assert_eq!(without["all"], before["all"]);
    let yardstick = row_of(&rows, "yardstick");
    assert_eq!(yardstick["left_out"], json!({}), "{yardstick:#}");
    assert_eq!(yardstick["clean"]["functions"], 12);
    // The leaderboard itself is what it was.
    let now = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(row(&now, "m", "paired"), row(&board, "m", "paired"));

    // The model does not know the subject; what if it did?
    let path = |p: &str| p.to_string();
    let repo = [
        "contamination",
        "repo",
        "--quiet",
        "--language",
        "c",
        "--corpus",
    ];
    let repo = repo.map(path).into_iter();
    let repo = repo.chain([
        path(&other),
        path("--control"),
        path(&other),
        path(&subject),
    ]);
    project.run(repo).ok();
    let file = ".everbench/contamination.json";
    let noted = project.read(file);
    assert!(noted.contains("\"presence\":\"not_shown\""), "{noted:.300}");
    let tested = row_of(&project.run(WITHOUT).ok().json(), "m");
    assert_eq!(tested["tested"], 12);
    assert_eq!(tested["left_out"], without["left_out"]);
    project.write(file, &noted.replace("not_shown", "contaminated"));
    let all = row_of(&project.run(WITHOUT).ok().json(), "m");
    assert_eq!(
        (&all["version_of"], &all["left_out"], &all["tested"]),
        (&json!(subject), &json!({ "repository": 12 }), &json!(12))
    );
    let text = project.run(&WITHOUT[..2]).ok().out;
    let said =
        format!("no function is left (the model knows {subject}, of which this is a version)");
    assert!(text.contains(&said), "{text}");

    project.write(file, "{ \"format\": \"everbench-contamination/1\" }");
    let ended = project.run(WITHOUT).exits(3);
    ended.says(&[
        "contamination.json",
        "everbench-contamination/1",
        "nobody is asked twice",
    ]);
}

#[test]
fn pairs_of_a_repository_that_a_model_knows_are_left_out_of_its_scores() {
    let (project, _server) = set_up();
    let mut list = String::from("cve,repository,commit\n");
    for name in ["seen", "unseen"] {
        let folder = project.dir.join(name);
        git_fix(&folder);
        let commit = git(&folder, "2022-01-01", &["rev-parse", "HEAD"]);
        let (place, commit) = (folder.display(), commit.trim());
        list.push_str(&format!("CVE-2022-{:04},{place},{commit}\n", name.len()));
    }
    tested(&project);
    project.write("fixes.csv", &list);
    let list = project.dir.join("fixes.csv").display().to_string();
    project
        .run(["tosss", "mine", "--quiet", "--list", &list])
        .ok();
    project.run(["tosss", "run", "--quiet"]).ok();
    let plain = ["tosss", "score", "--format", "json"];
    assert_eq!(
        project.run(plain).ok().json()["without_contaminated"],
        Value::Null
    );
    let scores = project.run(plain.iter().chain(&["--without-contaminated"]));
    let scores = scores.ok().json();
    let clean = &scores["without_contaminated"];
    assert_eq!(
        clean["left_out"]["knows"],
        json!({ "asked": 2, "tested": 2, "pairs": { "repository": 1 } }),
        "{clean:#}"
    );
    let pairs = |document: &Value, model: &str| row_of(document, model)["pairs"].clone();
    assert_eq!(
        (pairs(&scores, "knows"), pairs(clean, "knows")),
        (json!(2), json!(1))
    );
    assert_eq!(
        pairs(clean, "baseline/coin"),
        2,
        "who knows nothing keeps all"
    );
    let text = project
        .run(["tosss", "score", "--without-contaminated"])
        .ok()
        .out;
    let said = "knows: 2 of 2 pairs are of code that was tested; left out: 1 of repositories that it knows, 0 that it named";
    assert!(text.contains(said), "{text}");
}
