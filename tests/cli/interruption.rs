//! A run may end at any moment: nothing that was done is lost or done again, and no process stays.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

/// Another seed than the prepared project's: the bases are there, the rest is to be done.
const RUN: [&str; 6] = ["run", "--quiet", "--format", "json", "--seed", "11"];

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// What is in the store stays as it is, and a run executes exactly what is missing.
#[track_caller]
fn goes_on(project: &Project) {
    let before = project.ran();
    let board = project.run(RUN).ok().json();
    let after = project.ran();
    let missing = after.keys().filter(|k| !before.contains_key(*k)).count();
    assert_eq!(total(&board["executed"]), missing as u64);
    for (key, job) in &before {
        assert_eq!(after.get(key), Some(job));
    }
    let rows = board["rows"].as_array().unwrap();
    assert!(rows.iter().all(|r| r["complete"] == true));
    assert!(board["missing"].as_object().unwrap().is_empty());
    assert_eq!(total(&project.run(RUN).ok().json()["executed"]), 0);
    let verified = project.run(["store", "verify"]).ok().json();
    assert_eq!(verified["problems"], serde_json::json!([]));
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let project = Project::prepared();
    let mut kept = project.ran();
    for more in [0, 1, 25, 10] {
        let mut child = project.started(&RUN, more);
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        project.leaves_no_process();
        let now = project.ran();
        for (key, job) in &kept {
            assert_eq!(now.get(key), Some(job));
        }
        kept = now;
    }
    goes_on(&project);
}

#[test]
fn a_run_killed_while_it_builds_the_subject_goes_on() {
    let project = Project::fresh(&[UNCHANGED]);
    let run = ["run", "--quiet", "--limit", "1", "--iterations", "1"];
    let mut child = project.command(run).spawn().unwrap();
    wait_for("a compiler in the sandbox", || {
        let scratch = project.dir.join(".everbench/trees/scratch");
        let objects = walkdir::WalkDir::new(scratch).into_iter().flatten();
        let built = objects.filter(|e| e.path().extension().is_some_and(|x| x == "o"));
        built.count() > 2 || child.try_wait().unwrap().is_some()
    });
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    project.leaves_no_process();
    project.run(run).ok();
    let again = project.run([
        "run",
        "--quiet",
        "--limit",
        "1",
        "--iterations",
        "1",
        "--format",
        "json",
    ]);
    assert_eq!(total(&again.ok().json()["executed"]), 0);
}

#[test]
fn one_interrupt_keeps_what_is_done_and_says_that_more_is_to_do() {
    let project = Project::prepared();
    let before = project.ran().len();
    let child = project.started(&RUN, 5);
    signal(&child, Signal::INT);
    let ended = finished(child.wait_with_output().unwrap()).exits(75);
    let ended = ended.says(&["stopping", "once more"]);
    let board = ended.json();
    assert!(total(&board["missing"]) > 0);
    assert!(total(&board["executed"]) >= 5);
    let unfinished = |r: &serde_json::Value| r["complete"] == false && r["score"].is_null();
    assert!(board["rows"].as_array().unwrap().iter().any(unfinished));
    assert_eq!(
        project.ran().len(),
        before + total(&board["executed"]) as usize
    );
    project.leaves_no_process();

    // Rows that lack something are shown as such, and not scored.
    let scored = project.run(["score", "--seed", "11"]).exits(75);
    assert!(
        scored.out.contains("incomplete: still missing"),
        "{}",
        scored.out
    );
    goes_on(&project);
}

#[test]
fn two_interrupts_end_what_runs() {
    let project = Project::prepared();
    let child = project.started(&RUN, 1);
    signal(&child, Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(100));
    // It may have ended after the first.
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let _ = kill_process(pid, Signal::INT);
    finished(child.wait_with_output().unwrap()).exits(75);
    project.leaves_no_process();
    goes_on(&project);
}

#[test]
fn a_second_run_beside_the_first_is_refused_and_a_score_is_not() {
    let project = Project::prepared();
    let child = project.started(&RUN, 2);
    project.run(["run", "--quiet"]).exits(75).says(&[
        "store",
        "being written by",
        "wait until it ends",
    ]);
    project
        .run(["store", "gc"])
        .exits(75)
        .says(&["being written by"]);
    let scored = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(scored["rows"], project.first()["rows"]);
    let board = finished(child.wait_with_output().unwrap()).ok().json();
    assert!(board["missing"].as_object().unwrap().is_empty());
}
