//! `everbench contamination repo` against models over HTTP: one that has seen a repository, one that
//! declines, one that answers in prose, one that echoes, one that says nothing; and `contamination
//! patches` with both of its stages, and with a model that gives vectors.

use std::collections::BTreeSet;
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
        let Ok(file) = fs::read_to_string(entry.unwrap().path()) else {
            continue;
        };
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
pub fn set_up() -> (Project, Server) {
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

pub fn tested(project: &Project) -> Value {
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
    let place = &verdict(&with, "knows", 1)["evidence"][0]["snippet"]["path"];
    let file = project.dir.join("unseen").join(place.as_str().unwrap());
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(" = ", " += ")).unwrap();
    let before = server.requests();
    let changed = tested(&project);
    let contexts = |document: &Value| -> BTreeSet<String> {
        let evidence = verdict(document, "knows", 1)["evidence"].clone();
        let all = evidence.as_array().unwrap().iter();
        all.map(|e| e["snippet"]["context"].as_str().unwrap().to_string())
            .collect()
    };
    let new = contexts(&changed).difference(&contexts(&with)).count();
    assert!((1..=12).contains(&new), "{new} of the snippets are new");
    assert_eq!(changed["executed"], json!({ "ask/completion": 2 * new }));
    assert_eq!(server.requests() - before, 2 * new, "of each of two models");
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

/// Makes `folder` a clone in which a fix of one function came in 2022, and what it was at hand; gives the
/// commit before.
pub fn git_fix(folder: &Path) -> String {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let file = &files[0];
    let whole = fs::read_to_string(file).unwrap();
    // The first function lacks its last but one line, and returns something else.
    let lines: Vec<&str> = whole.lines().collect();
    let end = lines
        .iter()
        .position(|l| l.starts_with("    return"))
        .unwrap();
    let mut buggy = lines.clone();
    buggy[end] = "    return None";
    buggy.remove(end - 1);
    git(folder, "2021-01-01", &["init", "-q", "-b", "main"]);
    fs::write(file, buggy.join("\n") + "\n").unwrap();
    git(folder, "2021-01-01", &["add", "-A"]);
    git(folder, "2021-01-01", &["commit", "-q", "-m", "x"]);
    let base = git(folder, "2021-01-01", &["rev-parse", "HEAD"]);
    fs::write(file, whole).unwrap();
    git(folder, "2022-01-01", &["commit", "-q", "-a", "-m", "y"]);
    base.trim().to_string()
}

/// Makes `folder` such a clone; gives the instance of a benchmark that it is.
fn fixed_in_2022(folder: &Path, name: &str) -> Value {
    let base = git_fix(folder);
    json!({"instance_id": name, "repo": format!("maker/{name}"), "base_commit": base,
        "patch": git(folder, "2022-01-01", &["diff", "HEAD~", "HEAD"]), "created_at": "2022-01-01T00:00:00Z"})
}

/// A benchmark of one fix in each of two repositories, of which a model has seen one.
fn benchmark() -> (Project, Server) {
    let (project, server) = set_up();
    let mut rows = String::new();
    let mut places = serde_json::Map::new();
    for name in ["seen", "unseen"] {
        let folder = project.dir.join(name);
        rows.push_str(&format!("{}\n", fixed_in_2022(&folder, name)));
        places.insert(format!("maker/{name}"), name.into());
    }
    project.write("bench.jsonl", &rows);
    project.write("clones.json", &Value::Object(places).to_string());
    (project, server)
}

fn patches(project: &Project, command: &str, more: &[&str]) -> Value {
    let path = |name: &str| project.dir.join(name).display().to_string();
    let (bench, clones) = (path("bench.jsonl"), path("clones.json"));
    let mut args = vec!["contamination", command, &bench, "--repositories", &clones];
    args.extend(["--quiet", "--format", "json"]);
    args.extend(more);
    project.run(args).ok().json()
}

#[test]
fn both_stages_are_one_command_and_ask_only_where_a_patch_was_there() {
    let (project, server) = benchmark();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let (corpus, controls) = (path("corpus.toml"), path("controls.toml"));
    let told = |cutoff: &str, more: &[&str]| {
        let ask = [
            "--language",
            "python",
            "--corpus",
            &corpus,
            "--control",
            &controls,
        ];
        patches(
            &project,
            "patches",
            &[&["--cutoff", cutoff], &ask[..], more].concat(),
        )
    };
    // Before the fix nobody need be asked: whatever a model knows, this it has not seen.
    let early = told("2021-06", &[]);
    assert_eq!((server.requests(), &early["presence"]), (0, &Value::Null));
    assert_eq!(early["verdicts"], json!({"absent": 2}));

    let late = told("2022-06", &[]);
    let of = |told: &Value, at: usize| told["instances"][at]["models"][0].clone();
    assert_eq!(of(&late, 0)["verdict"], "contaminated", "{late:#}");
    assert!(of(&late, 0)["score"].as_f64() > Some(0.99));
    assert_eq!(of(&late, 1)["verdict"], "repository_not_shown");
    for instance in late["instances"].as_array().unwrap() {
        assert_eq!(instance["verdict"], "present");
        assert!(instance["commit"]["id"].is_string() && instance["decided"]["hunk"] == 1);
        assert!(!instance["reason"].as_str().unwrap().is_empty());
    }
    // The snapshot was asked about, and not what came later.
    let asked = server.requests();
    let out = path("clean.jsonl");
    let again = told("2022-06", &["--filtered", &out]);
    assert_eq!(
        (server.requests(), &again["instances"]),
        (asked, &late["instances"])
    );
    assert_eq!(
        fs::read_to_string(out).unwrap().lines().count(),
        1,
        "the other is clean for this model"
    );
}

/// A vector that counts words.
fn embedding(text: &str) -> Vec<f64> {
    let mut vector = vec![0.0; 64];
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let hash = word
            .bytes()
            .fold(7_u64, |h, b| h.wrapping_mul(31) ^ u64::from(b));
        vector[(hash % 64) as usize] += 1.0;
    }
    vector
}

#[test]
fn a_model_that_gives_vectors_compares_code_is_calibrated_and_asked_nothing_else() {
    let (project, _) = benchmark();
    let server = Server::start(|asked| {
        assert_eq!(asked.path, "/v1/embeddings");
        let text = asked.json()["input"].as_str().unwrap().to_string();
        Say::json(
            200,
            &json!({ "object": "list", "model": "counts", "usage": { "prompt_tokens": 9, "total_tokens": 9 },
                "data": [{ "object": "embedding", "index": 0, "embedding": embedding(&text) }] }),
        )
    });
    let model = format!(
        "[[model]]\nname = \"vectors\"\napi = \"openai-embeddings\"\nbase-url = \"{}\"\nid = \"counts\"\nrevision = \"1\"\n",
        server.url()
    );
    project.configure("preset = \"tidelib\"", "", &[&model]);
    let found = patches(&project, "calibrate", &["--embedder", "vectors"]);
    assert_eq!(
        (&found["absent"], &found["present"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(found["true_positives"], 1.0);
    assert!(found["false_positives"].as_f64() <= Some(0.05), "{found}");
    assert!(
        found["embedder"].as_str().unwrap().contains("counts"),
        "{found}"
    );
    let calibrated = server.requests();
    assert!(calibrated > 0);
    assert_eq!(
        patches(&project, "calibrate", &["--embedder", "vectors"]),
        found
    );
    assert_eq!(server.requests(), calibrated, "nobody is asked twice");

    for (cutoff, verdict) in [("2021-06", "absent"), ("2022-06", "present")] {
        let told = patches(
            &project,
            "patches",
            &["--cutoff", cutoff, "--embedder", "vectors"],
        );
        assert_eq!(told["verdicts"], json!({ verdict: 2 }), "{told:#}");
        assert_eq!(told["asked"]["embedder"], found["embedder"]);
        assert_eq!(told["asked"]["similarity"], found["theta"]);
    }
    let asked = server.requests();
    let again = patches(
        &project,
        "patches",
        &["--cutoff", "2022-06", "--embedder", "vectors"],
    );
    assert_eq!((server.requests(), &again["executed"]), (asked, &json!({})));

    // It is no model that answers.
    project
        .run(["run", "--model", "vectors", "--quiet"])
        .exits(3)
        .says(&["`vectors` gives vectors"]);
    project
        .run([
            "contamination",
            "calibrate",
            "bench.jsonl",
            "--repositories",
            "x",
            "--embedder",
            "careful",
        ])
        .exits(3);
}
