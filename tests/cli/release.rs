//! Releases: what was frozen is evaluated again from raw replies and logs, byte for byte, and any
//! byte that was altered shows.

use std::fs;
use std::path::Path;

use everbench::digest::Digest;
use everbench::job::{Job, Key, Kind, Nature};
use everbench::store::{Access, Completed, Provenance, Store};
use redb::{ReadableTable, TableDefinition};
use serde_json::Value;

use crate::support::*;

const SCORE: [&str; 3] = ["score", "--format", "json"];

fn frozen() -> Project {
    let project = Project::prepared();
    project.run(["release", "freeze", "first"]).ok();
    project
}

/// Changes one byte of a blob where it lies, in a file or in the index.
fn alter(project: &Project, digest: &str) {
    let file = project.store().join("blobs").join(&digest[..2]);
    let file = file.join(&digest[2..]);
    if file.exists() {
        let mut bytes = fs::read(&file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        return fs::write(&file, bytes).unwrap();
    }
    let digest: Digest = digest.parse().unwrap();
    in_index(project, |record| {
        let mut record = record(&digest).unwrap();
        *record.last_mut().unwrap() ^= 1;
        Some((digest, Some(record)))
    });
}

/// Takes a blob's record out of the index.
fn lose(project: &Project, digest: &str) {
    let digest: Digest = digest.parse().unwrap();
    in_index(project, |_| Some((digest, None)));
}

fn in_index(
    project: &Project,
    change: impl Fn(&dyn Fn(&Digest) -> Option<Vec<u8>>) -> Option<(Digest, Option<Vec<u8>>)>,
) {
    const BLOBS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("blobs");
    let db = redb::Database::open(project.store().join("index.redb")).unwrap();
    let txn = db.begin_write().unwrap();
    {
        let mut table = txn.open_table(BLOBS).unwrap();
        let changed = change(&|d: &Digest| {
            let record = table.get(&d.0).unwrap();
            record.map(|r| r.value().to_vec())
        });
        match changed {
            Some((digest, Some(record))) => {
                table.insert(&digest.0, record.as_slice()).unwrap();
            }
            Some((digest, None)) => assert!(table.remove(&digest.0).unwrap().is_some()),
            None => {}
        }
    }
    txn.commit().unwrap();
}

/// Key and output of some job of a kind.
fn some(project: &Project, kind: &str) -> (String, String) {
    let jobs = project.jobs();
    let found = jobs.iter().find(|(_, (k, _))| k == kind);
    let (key, (_, output)) = found.unwrap();
    (key.clone(), output.clone())
}

/// What the test programs of a run reported, as they did.
fn raw_log(project: &Project, output: &str) -> String {
    let doc = project.run(["store", "cat", output]).ok().json();
    doc["results"].as_str().unwrap().to_string()
}

fn faults(ended: &Ended) -> Vec<Value> {
    let doc = ended.json();
    assert_eq!(doc["stands"], false);
    doc["faults"].as_array().unwrap().clone()
}

const VERIFY: [&str; 5] = ["release", "verify", "first", "--format", "json"];

#[test]
fn a_release_is_what_was_scored_and_stays_that() {
    let project = frozen();
    let scored = project.run(SCORE).ok().out;
    let shown = project.run(["release", "show", "first", "--format", "json"]);
    assert_eq!(shown.ok().out, scored, "byte for byte what `score` prints");
    let verified = project.run(VERIFY).ok().json();
    assert_eq!(verified["stands"], true, "{verified:#}");
    assert!(verified["facts"].as_u64().unwrap() > 100, "{verified:#}");

    // What comes later changes no release, and both stand side by side.
    project.add_model("[[model]]\nname = \"late\"\ncalibration = { unchanged = 1.0 }\n");
    project.run(["run", "--quiet", "--iterations", "1"]).ok();
    let options = ["--iterations", "1"];
    let shown = project.run(["release", "show", "first", "--format", "json"]);
    assert_eq!(shown.ok().out, scored);
    project.run(VERIFY).ok();
    let args = ["release", "diff", "first", "--format", "json"];
    let diff = project.run(args.into_iter().chain(options)).ok().json();
    let rows = diff["rows"].as_array().unwrap();
    let late: Vec<&Value> = rows.iter().filter(|r| r["model"] == "late").collect();
    assert_eq!(late.len(), 2);
    assert!(late.iter().all(|r| r["there"] == "second"), "{diff:#}");
    let of = |r: &&Value| r["model"] == "preserving" && r["scoring"] == "paired";
    let row = rows.iter().find(of).unwrap();
    assert_eq!(row["numbers"]["iterations"], serde_json::json!([2, 1]));
    let args = ["score", "--beside", "first"];
    let text = project.run(args.into_iter().chain(options)).ok().out;
    assert!(
        text.contains("score, first") && text.contains("score, now"),
        "{text}"
    );

    let listed = project.run(["release", "list"]).ok().out;
    assert!(listed.contains("release first, frozen 20"), "{listed}");
    let e = project.run(["release", "freeze", "first"]).exits(3);
    e.says(&["a release is never changed", "take another name"]);
    let e = project.run(["release", "freeze", "a/b"]).exits(3);
    e.says(&["cannot be a release's name"]);
    let e = project.run(["release", "verify", "second"]).exits(3);
    e.says(&["there is no release `second`", "there are: first"]);
    project.add_model(SLOPPY.replace("sloppy", "later").as_str());
    let e = project.run(["release", "freeze", "second"]).exits(3);
    e.says(&[
        "only a complete evaluation can be frozen",
        "ask for the same",
    ]);
}

#[test]
fn one_altered_byte_shows_whatever_was_remembered() {
    for (kind, part) in [
        ("ask/calibration", "reply"),
        ("oss/run", "log"),
        ("oss/verdict", "verdict"),
    ] {
        let project = frozen();
        // Everything is remembered: scores do not look at the facts any more.
        project.run(SCORE).ok();
        let (key, output) = some(&project, kind);
        let blob = match part {
            "log" => raw_log(&project, &output),
            _ => output,
        };
        alter(&project, &blob);
        let ended = project.run(VERIFY).exits(8);
        let faults = faults(&ended);
        let own: Vec<&Value> = faults
            .iter()
            .filter(|f| f["digest"] == blob.as_str())
            .collect();
        assert!(!own.is_empty(), "{part}: {faults:#?}");
        assert!(
            own[0]["what"].as_str().unwrap().contains("altered"),
            "{own:?}"
        );
        let text = project.run(["release", "verify", "first"]).exits(8).out;
        assert!(
            text.contains(&blob) && text.contains("does not stand"),
            "{text}"
        );
        // Several jobs may have given the same bytes: the first that rests on them is named.
        let named = own[0]["key"].as_str().unwrap();
        assert!(text.contains(named) && named.len() == key.len(), "{text}");
    }
}

#[test]
fn a_missing_blob_and_another_result_show() {
    let project = frozen();
    let (_, output) = some(&project, "oss/run");
    let log = raw_log(&project, &output);
    lose(&project, &log);
    let gone = faults(&project.run(VERIFY).exits(8));
    let missing = gone
        .iter()
        .any(|f| f["digest"] == log.as_str() && f["what"].as_str().unwrap().contains("missing"));
    assert!(missing, "{gone:#?}");

    // The same job with another answer, as if it had been so from the start.
    let project = frozen();
    let (key, output) = some(&project, "ask/calibration");
    answer_otherwise(&project.store(), &key);
    let other = faults(&project.run(VERIFY).exits(8));
    assert_eq!(other[0]["key"], key.as_str(), "{other:#?}");
    assert_eq!(other[0]["digest"], output.as_str());
    assert!(
        other[0]["what"]
            .as_str()
            .unwrap()
            .contains("another result")
    );
    project.run(["store", "rm", &key]).ok();
    let none = faults(&project.run(VERIFY).exits(8));
    assert!(
        none[0]["what"]
            .as_str()
            .unwrap()
            .contains("not in the store")
    );
}

fn answer_otherwise(store: &Path, key: &str) {
    let store = Store::open(store, Access::ReadWrite, "test").unwrap();
    let key = Key(key.parse().unwrap());
    let action = store.reader().unwrap().action(&key).unwrap().unwrap();
    let kind = Kind {
        name: "ask/calibration",
        version: action.job.version,
        nature: Nature::Deterministic,
    };
    let mut job = Job::of(kind);
    for (name, value) in action.job.inputs {
        job = job.put(name.leak(), value);
    }
    let job = job.done();
    assert_eq!(job.key(), key);
    store.remove(&key).unwrap();
    let provenance = Provenance::default();
    let other = Completed {
        job,
        output: b"another".to_vec(),
        blobs: Vec::new(),
        provenance,
    };
    store.commit(vec![other]).unwrap();
}

#[test]
fn what_a_release_pins_is_kept_and_what_it_let_go_is_not() {
    let project = frozen();
    {
        let store = Store::open(&project.store(), Access::ReadWrite, "test").unwrap();
        for (root, _) in store.reader().unwrap().roots().unwrap() {
            if !root.starts_with("release/") {
                store.remove_root(&root).unwrap();
            }
        }
    }
    project.run(["store", "gc"]).ok();
    // Neither the project's file nor the subject's is needed.
    fs::remove_file(project.dir.join("everbench.toml")).unwrap();
    assert_eq!(project.run(VERIFY).ok().json()["stands"], true);
    project.run(["release", "show", "first"]).ok();
    let kept = project.jobs().len();
    assert!(kept > 100, "{kept}");
    project.run(["release", "drop", "first"]).ok();
    project.run(["release", "verify", "first"]).exits(3);
    assert_eq!(project.jobs().len(), kept, "nothing goes unasked");
}

#[test]
fn a_release_stands_on_an_empty_machine_with_nothing_but_its_file() {
    let project = frozen();
    let file = project.dir.join("first.everbench");
    let path = file.to_str().unwrap();
    project.run(["release", "export", "first", path]).ok();
    let shown = project.run(["release", "show", "first", "--format", "json"]);

    // No project, no compiler, no program at all; and the file is all there is.
    let elsewhere = Project::empty();
    let verify = |more: &[&str]| {
        let mut command = elsewhere.command(["release", "verify", "first"].iter().chain(more));
        command
            .env("PATH", "/nowhere")
            .env("TMPDIR", &elsewhere.dir);
        ended(command)
    };
    let verified = verify(&["--from", path, "--format", "json"]).ok().json();
    assert_eq!(verified["stands"], true, "{verified:#}");
    let left = fs::read_dir(&elsewhere.dir).unwrap().count();
    assert_eq!(left, 0, "nothing stays behind");

    // Or it becomes a store, which has the release and nothing else.
    elsewhere.run(["store", "import", path]).ok();
    assert_eq!(
        verify(&["--format", "json"]).ok().json()["facts"],
        verified["facts"]
    );
    let there = elsewhere.run(["release", "show", "first", "--format", "json"]);
    assert_eq!(there.ok().out, shown.ok().out);

    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    verify(&["--from", path])
        .exits(3)
        .says(&["cut short or changed"]);
    verify(&["--from", "no.file"]).exits(3).says(&["no.file"]);
}

#[test]
fn what_was_taken_back_is_in_no_score_and_releases_say_that_they_rest_on_it() {
    let project = frozen();
    let before = project.run(SCORE).ok().json();
    let args = [
        "retract",
        "--model",
        "sloppy",
        "--reason",
        "another model answered",
    ];
    let between = |from: &'static str, until: &'static str| {
        project.run(args.into_iter().chain(["--between", from, until]))
    };
    between("2020-01-01", "2020-01-02")
        .exits(3)
        .says(&["replies of `sloppy` was committed"]);
    between("today", "2020-01-02")
        .exits(3)
        .says(&["`today` is no time"]);
    let said = between("2020-01-01", "9999-01-01").ok().out;
    assert!(said.contains("retracted"), "{said}");

    // The row is there, without a score; the others are what they were, and nothing is asked again.
    let scored = project.run(SCORE).ok().json();
    for scoring in ["paired", "paper"] {
        let gone = row(&scored, "sloppy", scoring);
        assert_eq!(
            (&gone["score"], &gone["unranked"]),
            (&Value::Null, &"retracted".into())
        );
        assert_eq!(
            gone["retracted"]["reasons"],
            serde_json::json!(["another model answered"])
        );
        let other = row(&scored, "unchanged", scoring);
        assert_eq!(other["score"], row(&before, "unchanged", scoring)["score"]);
    }
    let ran = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    assert_eq!(ran["executed"], serde_json::json!({}));
    let text = project.run(["score"]).ok().out;
    assert!(
        text.contains("retracted: sloppy on tidelib (paired)"),
        "{text}"
    );
    let history = project.run(["history"]).ok().out;
    assert!(
        history.contains("sloppy: retracted: another model answered"),
        "{history}"
    );

    let shown = project.run(["release", "show", "first"]).ok().out;
    assert!(shown.contains("rests on"), "{shown}");
    let verified = project.run(VERIFY).ok().json();
    assert_eq!(verified["stands"], true, "it is what was frozen");
    assert!(
        verified["retracted"]["facts"].as_u64().unwrap() > 0,
        "{verified:#}"
    );
    let e = project.run(["release", "freeze", "second"]).exits(3);
    e.says(&["was retracted: another model answered"]);
    // Whoever gets the release is told, too.
    let file = project.dir.join("first.everbench");
    let path = file.to_str().unwrap();
    project.run(["release", "export", "first", path]).ok();
    let from = project
        .run(["release", "verify", "first", "--from", path])
        .ok()
        .out;
    assert!(from.contains("taken back since"), "{from}");

    let list = project.run(["retract", "--list"]).ok().out;
    let (id, _) = list.split_once(' ').unwrap();
    project.run(["retract", "--undo", id]).ok();
    assert_eq!(project.run(SCORE).ok().json(), before);
    let e = project.run(["retract", "--undo", id]).exits(3);
    e.says(&["there is no retraction"]);
    // One fact that all rows rest on: no row is left.
    let (key, _) = some(&project, "oss/base");
    project
        .run(["retract", &key[..12], "--reason", "a broken machine"])
        .ok();
    let rows = project.run(SCORE).ok().json()["rows"]
        .as_array()
        .unwrap()
        .clone();
    let all = rows.iter().any(|r| r["retracted"].is_object());
    assert!(all, "{rows:#?}");
}
