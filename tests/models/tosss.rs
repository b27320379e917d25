//! Questions about pairs to a model over HTTP: what fails is tried again, and nothing is asked twice.

use std::fs;

use serde_json::{Value, json};

use crate::server::*;
use crate::support::*;

/// So many pairs in MegaVul's schema.
fn pairs(count: usize) -> String {
    let one = |n: usize| {
        json!({
            "cve_id": format!("CVE-2021-{n:04}"), "cwe_ids": ["CWE-125"], "is_vul": true,
            "repo_name": "maker/lib", "commit_hash": format!("{n:040x}"),
            "git_url": "https://github.com/maker/lib", "file_path": "lib.c",
            "func_name": format!("get{n}"),
            "func_before": format!("int get{n}(const int *v, int size)\n{{\n    return v[{n}];\n}}"),
            "func": format!("int get{n}(const int *v, int size)\n{{\n    if (size <= {n})\n        return -1;\n    return v[{n}];\n}}"),
        })
    };
    Value::Array((0..count).map(one).collect()).to_string()
}

fn mine(project: &Project, count: usize) {
    let path = project.dir.join("pairs.json");
    fs::write(&path, pairs(count)).unwrap();
    let path = path.display().to_string();
    project
        .run(["tosss", "mine", "--quiet", "--megavul", &path])
        .ok();
}

fn model(name: &str, server: &Server) -> String {
    format!(
        "[[model]]\nname = \"{name}\"\napi = \"openai-chat\"\nbase-url = \"{}\"\nid = \"{name}\"\nmax-in-flight = 4\n",
        server.url()
    )
}

fn run(project: &Project) -> Ended {
    project.run(["tosss", "run", "--quiet", "--format", "json"])
}

fn strict(scores: &Value, model: &str) -> f64 {
    let rows = scores["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["model"] == model);
    row.unwrap_or_else(|| panic!("{model}: {rows:?}"))["strict"]
        .as_f64()
        .unwrap()
}

#[test]
fn pairs_are_asked_over_http_once_whatever_fails_on_the_way() {
    // The fixed side is the one that looks at the size.
    let server = Server::start(|asked| {
        let prompt = asked.prompt();
        let (_, sides) = prompt.split_once("Option A:").unwrap();
        let (a, _) = sides.split_once("Option B:").unwrap();
        let letter = if a.contains("size <=") { "A" } else { "B" };
        let name = asked.json()["model"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        match asked.nth {
            1 => Say::error(429, "slow down").with("retry-after", "0"),
            3 => Say::error(500, "oh"),
            _ => Say::json(200, &chat(&name, letter)),
        }
    });
    let project = Project::empty();
    project.configure("preset = \"tidelib\"", "", &[&model("m", &server)]);
    mine(&project, 6);
    let scores = run(&project).ok().json();
    assert_eq!(strict(&scores, "m"), 1.0);
    assert_eq!(scores["executed"]["ask/completion"], 12);
    // Twelve questions, two of them twice because of what failed.
    assert_eq!(server.requests(), 14);
    run(&project).ok();
    assert_eq!(server.requests(), 14);

    // Another model asks its own questions, another pair its own.
    project.add_model(&model("n", &server));
    run(&project).ok();
    assert_eq!(server.requests(), 14 + 12);
    mine(&project, 7);
    let scores = run(&project).ok().json();
    assert_eq!(server.requests(), 14 + 12 + 4);
    assert_eq!((strict(&scores, "m"), strict(&scores, "n")), (1.0, 1.0));
    // What reads the store asks nobody.
    let scored = project.run(["tosss", "score", "--format", "json"]).ok();
    assert_eq!(scored.json()["rows"], scores["rows"]);
    assert_eq!(server.requests(), 14 + 12 + 4);
}

#[test]
fn a_server_that_refuses_is_no_answer() {
    let server = Server::start(|asked| match asked.nth {
        0..4 => answer("B"),
        _ => Say::error(401, "no such key"),
    });
    let project = Project::empty();
    project.configure("preset = \"tidelib\"", "", &[&model("m", &server)]);
    mine(&project, 6);
    let ended = run(&project).exits(75);
    let ended = ended.says(&["m has not answered", "no such key"]);
    let scores = ended.json();
    let named = |row: &Value| row["model"] == "m";
    assert!(!scores["rows"].as_array().unwrap().iter().any(named));
    let missing = scores["incomplete"]["m"].as_u64().unwrap();
    assert!((1..=8).contains(&missing), "{missing}");
}
