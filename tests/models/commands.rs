//! `everbench models`: what is listed, what a check says, and that a recording answers as the model did.

use std::collections::BTreeSet;

use crate::server::*;
use crate::support::*;

const KEY: &str = "sk-planted-0123456789";

fn project(server: &Server, more: &str) -> Project {
    let project = Project::empty();
    let model = format!(
        "[[model]]\nname = \"m\"\napi = \"openai-chat\"\nbase-url = \"{}\"\nid = \"m\"\nkey-env = \"EB_TEST_KEY\"\n{more}",
        server.url()
    );
    let run = "[run]\nlimit = 6\niterations = 1\nseed = 3\n";
    project.configure("preset = \"tidelib\"", run, &[&model]);
    project
}

fn with_key(project: &Project, args: &[&str]) -> Ended {
    let mut command = project.command(args);
    command.env("EB_TEST_KEY", KEY);
    let ended = ended(command);
    assert!(!ended.out.contains(KEY) && !ended.err.contains(KEY));
    ended
}

#[test]
fn providers_are_listed_and_each_is_in_the_documentation() {
    let project = Project::empty();
    let json = ["models", "providers", "--format", "json"];
    let rows = project.run(json).ok().json()["rows"].clone();
    let text = project.run(["models", "providers"]).ok().out;
    let page = include_str!("../../docs/models.md");
    let rows = rows.as_array().unwrap();
    assert_eq!(text.lines().count(), rows.len());
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(page.contains(&format!("`{name}`")), "{name}");
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains(row["base_url"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn a_list_says_what_is_there_and_asks_nobody() {
    let server = Server::start(|_| answer("x"));
    let project = project(&server, "card = { family = \"F\", cutoff = \"2026-01\" }\n");
    project.add_model("[[model]]\nname = \"hosted\"\nprovider = \"anthropic\"\nid = \"claude-opus-5\"\nrevision = \"a\"\n");
    project.add_model("[[model]]\nname = \"yardstick\"\ncalibration = { unchanged = 1.0 }\n");
    let list = ["models", "list", "--format", "json"];
    let models = with_key(&project, &list).ok().json()["models"].clone();
    assert_eq!(models[0]["revision"], "custom/m");
    assert_eq!(models[0]["http"]["key"]["state"], "present");
    assert_eq!(models[0]["http"]["price"]["state"], "unknown");
    assert_eq!(models[0]["card"]["family"], "F");
    assert_eq!(models[1]["revision"], "anthropic/claude-opus-5@a");
    assert_eq!(models[1]["http"]["price"]["state"], "known");
    assert_eq!(
        models[1]["http"]["omitted"],
        serde_json::json!(["temperature", "seed"])
    );
    assert_eq!(models[2]["kind"], "calibration");
    let mut bare = project.command(["models", "list"]);
    bare.env_remove("EB_TEST_KEY")
        .env_remove("ANTHROPIC_API_KEY");
    let said = ended(bare).ok();
    assert!(said.out.contains("MISSING (EB_TEST_KEY)"), "{}", said.out);
    assert!(
        said.out.contains("MISSING (ANTHROPIC_API_KEY)"),
        "{}",
        said.out
    );
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_check_asks_once_and_says_what_came_and_what_is_lacking() {
    let server = Server::start(|asked| match asked.nth {
        0 => Say::json(200, &chat("m-2026", "return")),
        1 => Say::error(401, &format!("{KEY} is no key")),
        2 => Say::error(503, "loading"),
        _ => Say::error(404, "no such model"),
    });
    let project = project(&server, "");
    let check = ["models", "check", "m"];
    let said = with_key(&project, &check).ok();
    for part in [
        "answered in",
        "by m-2026",
        "100 tokens in",
        "  return",
        "alias",
        "a price",
        "cutoff",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let json = ["models", "check", "m", "--format", "json"];
    let refused = with_key(&project, &json).exits(3).json();
    assert_eq!(refused["trouble"]["kind"], "unauthorized");
    assert!(
        refused["trouble"]["said"]
            .as_str()
            .unwrap()
            .contains("[key]")
    );
    let passing = with_key(&project, &json).exits(75).json();
    assert_eq!(passing["trouble"]["kind"], "overloaded");
    let gone = with_key(&project, &check).exits(3);
    assert!(
        gone.out.contains("NO ANSWER") && gone.out.contains("no such model"),
        "{}",
        gone.out
    );
    assert_eq!(server.requests(), 4, "nothing is tried again");
    // Nothing was kept of any of it.
    assert!(
        project
            .jobs()
            .values()
            .all(|(kind, _)| kind != "ask/completion")
    );
    let mut bare = project.command(check);
    bare.env_remove("EB_TEST_KEY");
    let said = ended(bare).exits(3);
    assert!(said.out.contains("EB_TEST_KEY is not set"), "{}", said.out);
    assert_eq!(server.requests(), 4);
}

#[test]
fn a_recording_answers_under_the_same_keys_without_a_network() {
    let system = "system = \"Write C11.\"\ntemperature = 0.5\nextra = { top_k = 3 }\n";
    let server = Server::start(|asked| {
        assert_eq!(
            asked.header("authorization"),
            Some(format!("Bearer {KEY}").as_str())
        );
        let text = format!("```c\n{}```\n", crate::support::asked(&asked.prompt()));
        Say::json(200, &chat("m-2026", &text))
    });
    let live = project(&server, system).with_builds();
    let board = with_key(&live, &["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    let asked = server.requests();
    let recording = with_key(&live, &["models", "record", "m"]).ok().out;
    assert_eq!(recording.lines().count(), 1 + 6);

    let replayed = Project::empty().with_builds();
    let run = "[run]\nlimit = 6\niterations = 1\nseed = 3\n";
    let model = "[[model]]\nname = \"m\"\nreplay = \"m.jsonl\"\n";
    replayed.configure("preset = \"tidelib\"", run, &[model]);
    replayed.write("m.jsonl", &recording);
    let again = replayed
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    let completions = |project: &Project| -> BTreeSet<(String, String)> {
        let jobs = project.jobs().into_iter();
        let jobs = jobs.filter(|(_, (kind, _))| kind == "ask/completion");
        jobs.map(|(key, (_, output))| (key, output)).collect()
    };
    assert_eq!(completions(&live), completions(&replayed));
    assert_eq!(completions(&live).len(), 6);
    assert_eq!(
        row(&board, "m", "paired")["score"],
        row(&again, "m", "paired")["score"]
    );
    assert_eq!(server.requests(), asked);
    // And a recording of the recording is the same file.
    let second = replayed.run(["models", "record", "m"]).ok().out;
    assert_eq!(second, recording);
}
