//! `everbench contamination repo` against models over HTTP: one that has seen a repository, one that
//! declines, one that answers in prose, one that echoes, one that says nothing.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::*;
use crate::support::*;

/// A name that nobody guesses and that is the same each time.
fn name(family: &str, n: usize) -> String {
    const SYLLABLES: [&str; 16] = [
        "ka", "ri", "mo", "tu", "ze", "lo", "pi", "xa", "vu", "ne", "go", "shi", "dra", "wu", "qo",
        "by",
    ];
    let mut bits = family.bytes().fold(n as u64 + 7, |h, b| {
        (h ^ u64::from(b))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(17)
    });
    let mut out = String::new();
    for at in 0..6 {
        out.push_str(SYLLABLES[(bits >> 59) as usize % 16]);
        bits = bits.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(23) ^ n as u64;
        if at == 2 {
            out.push('_');
        }
    }
    out
}

/// A repository of `files` files, in each of which two functions are near copies of each other.
fn repository(folder: &Path, family: &str, files: usize) {
    fs::create_dir_all(folder).unwrap();
    for file in 0..files {
        let word = |n: usize| name(family, file * 100 + n);
        let body: String = (0..14)
            .map(|line| {
                let at = 10 + 4 * line;
                let (a, b, c, d) = (word(at), word(at + 1), word(1), word(at + 2));
                // Files differ in more than names: those are one to whoever looks for clones.
                let shape =
                    name("shape", file * 100 + line).len() * 7 + file * 5 + line * (file + 3);
                match (shape ^ (file * line)) % 6 {
                    0 => format!("    {a} = {b}({c}, {d})\n"),
                    1 => format!("    {a} = {c} + {b} * {d}\n"),
                    2 => format!("    {a} = [{b}, {c}, {d}]\n"),
                    3 => format!("    {a}[{c}] = {b}.{d}\n"),
                    4 => format!("    assert {c} in {b}, {a} - {d}\n"),
                    _ => format!("    {c}.{a}({b} or not {d})\n"),
                }
            })
            .collect();
        let function = |copy: &str| {
            format!(
                "def {}_{copy}({}):\n{body}    return {}\n\n\n",
                word(0),
                word(1),
                word(10)
            )
        };
        let text = format!("{}{}", function("first"), function("second"));
        fs::write(folder.join(format!("{}.py", word(5))), text).unwrap();
    }
}

/// What stands in the repository after the end of a text.
fn continued(folder: &Path, text: &str) -> Option<String> {
    let end: String = text
        .chars()
        .rev()
        .take(50)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    for entry in fs::read_dir(folder).unwrap() {
        let file = fs::read_to_string(entry.unwrap().path()).unwrap();
        if let Some(at) = file.find(&end) {
            return Some(file[at + end.len()..].chars().take(60).collect());
        }
    }
    None
}

fn completion(model: &str, text: &str) -> Say {
    Say::json(
        200,
        &json!({ "model": model, "choices": [{ "index": 0, "text": text, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 50, "completion_tokens": 9 } }),
    )
}

fn model(server: &Server, id: &str) -> String {
    format!(
        "[[model]]\nname = \"{id}\"\napi = \"openai-completions\"\nbase-url = \"{}\"\nid = \"{id}\"\nrevision = \"1\"\n",
        server.url()
    )
}

/// A project with repositories, and a server of models of which `knows` has seen `seen`.
fn set_up() -> (Project, Server) {
    let project = Project::empty();
    for (folder, family) in [("seen", "heron"), ("unseen", "bittern")] {
        repository(&project.dir.join(folder), family, 26);
    }
    for family in 0..4 {
        repository(
            &project.dir.join(format!("corpus/c{family}")),
            &format!("c{family}"),
            4,
        );
        repository(
            &project.dir.join(format!("controls/k{family}")),
            &format!("k{family}"),
            26,
        );
    }
    project.write("corpus.toml", "[[family]]\neach = \"corpus\"\n");
    project.write("controls.toml", "[[family]]\neach = \"controls\"\n");
    let seen = project.dir.join("seen");
    let server = Server::start(move |asked| {
        let body = asked.json();
        let shown = body["prompt"].as_str().unwrap_or_default().to_string();
        let id = body["model"].as_str().unwrap_or_default().to_string();
        let text = match id.as_str() {
            "knows" => continued(&seen, &shown).unwrap_or("other_value(1)\n".into()),
            "refuses" => "I'm sorry, but I can't continue that.".into(),
            "talks" => "This code defines a function that calls another.".into(),
            "echoes" => shown,
            _ => String::new(),
        };
        completion(&id, &text)
    });
    project.configure("preset = \"tidelib\"", "", &[&model(&server, "knows")]);
    (project, server)
}

fn tested(project: &Project) -> Value {
    let path = |name: &str| project.dir.join(name).display().to_string();
    let ended = project.run([
        "contamination",
        "repo",
        "--quiet",
        "--language",
        "python",
        "--corpus",
        &path("corpus.toml"),
        "--control",
        &path("controls.toml"),
        "--format",
        "json",
        "--evidence",
        &path("seen"),
        &path("unseen"),
    ]);
    ended.ok().json()
}

fn verdict<'a>(document: &'a Value, model: &str, repository: usize) -> &'a Value {
    let models = document["models"].as_array().unwrap();
    let found = models.iter().find(|m| m["model"] == model);
    &found.unwrap_or_else(|| panic!("{document:#}"))["verdicts"][repository]
}

#[test]
fn who_has_seen_a_repository_is_found_out_and_nobody_is_asked_twice() {
    let (project, server) = set_up();
    let document = tested(&project);
    let seen = verdict(&document, "knows", 0);
    assert_eq!(seen["presence"], "contaminated", "{seen:#}");
    assert!(seen["probes"].as_u64() >= Some(20) && seen["q"].as_f64() < Some(0.001));
    let evidence = &seen["evidence"][0];
    let target = evidence["snippet"]["target"].as_str().unwrap();
    assert!(
        evidence["answer"]["said"]
            .as_str()
            .unwrap()
            .contains(target)
    );
    let unseen = verdict(&document, "knows", 1);
    assert_eq!(
        (&unseen["presence"], &unseen["hits"]),
        (&json!("not_shown"), &json!(0))
    );

    // The same again asks nobody.
    let asked = server.requests();
    let again = tested(&project);
    assert_eq!((server.requests(), &again["executed"]), (asked, &json!({})));
    assert_eq!(again["models"], document["models"]);

    // A new model is asked its own questions, and nobody else is.
    project.add_model(&model(&server, "refuses"));
    let with = tested(&project);
    let own = server
        .asked()
        .iter()
        .skip(asked)
        .filter(|a| a.json()["model"] == "refuses")
        .count();
    assert_eq!((own, server.requests()), (asked, 2 * asked));
    assert_eq!(verdict(&with, "knows", 0), seen);

    // A file that changed asks what is new in it.
    let file = fs::read_dir(project.dir.join("unseen"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("return", "return 1 +")).unwrap();
    let before = server.requests();
    tested(&project);
    assert!(
        server.requests() - before <= 12,
        "{}",
        server.requests() - before
    );
}

#[test]
fn models_that_do_not_try_get_no_verdict_and_their_answers_are_counted() {
    let (project, server) = set_up();
    let ids = ["refuses", "talks", "echoes", "silent"];
    let models: Vec<String> = ids.iter().map(|id| model(&server, id)).collect();
    let models: Vec<&str> = models.iter().map(String::as_str).collect();
    project.configure("preset = \"tidelib\"", "", &models);
    let document = tested(&project);
    for (id, outcome) in ids.iter().zip(["refusal", "prose", "echo", "empty"]) {
        let verdict = verdict(&document, id, 0);
        assert_eq!(verdict["presence"], "inconclusive", "{id}: {verdict:#}");
        assert_eq!(verdict["outcomes"][outcome], verdict["asked"], "{id}");
        assert_eq!(verdict["q"], Value::Null);
    }
}

#[test]
fn what_is_missing_is_said() {
    let project = Project::empty();
    let run = |args: &[&str]| {
        let base = ["contamination", "repo", "--quiet", "--language"];
        project.run(base.iter().chain(args))
    };
    run(&["cobol", "--corpus", "x", "--control", "y", "z"])
        .exits(3)
        .says(&["`cobol` is no language", "python"]);
    run(&[
        "python",
        "--corpus",
        "nowhere",
        "--control",
        "nowhere",
        "nowhere",
    ])
    .exits(3)
    .says(&["there is no", "nowhere"]);
}
