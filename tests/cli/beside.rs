//! One process writes, and others look meanwhile.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

const RUN: [&str; 6] = ["run", "--quiet", "--format", "json", "--seed", "11"];

#[test]
fn whoever_only_looks_works_beside_a_run_and_sees_how_far_it_is() {
    let project = Project::prepared();
    let finished_jobs = project.ran().len();
    let child = project.started(&RUN, 3);
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    // Held where it is, so that it is there for as long as others look.
    kill_process(pid, Signal::STOP).unwrap();
    let now = project.ran().len();
    assert!(now >= finished_jobs + 3);

    let plan = ["plan", "--format", "json", "--seed", "11"];
    let plan = project.run(plan).ok().json();
    let left = plan["jobs"].as_u64().unwrap();
    let why = project.run(["why", "unchanged", "--seed", "11"]).ok().out;
    assert!(why.contains("unchanged"), "{why}");
    let scored = project.run(["score", "--format", "json"]).ok().json();
    assert_eq!(scored["rows"], project.first()["rows"]);
    project.run(["score", "--seed", "11"]).exits(75);
    let stats = ["store", "stats", "--format", "json"];
    let stats = project.run(stats).ok().json();
    let stored: u64 = stats["by_kind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|k| k["actions"].as_u64().unwrap())
        .sum();
    assert_eq!(stored as usize, project.jobs().len());
    project.run(["list"]).ok();
    let verified = project.run(["store", "verify"]).ok().json();
    assert_eq!(verified["index"], "not_checked");
    let file = project.dir.join("beside.everbench");
    let file = file.to_str().unwrap();
    project.run(["store", "export", file]).ok();
    // Who changes something is told by whom the store is held.
    let holder = format!("being written by process {}", child.id());
    for words in [
        &["run", "--quiet"][..],
        &["store", "gc"],
        &["store", "compact"],
        &["store", "import", file],
    ] {
        project.run(words).exits(75).says(&[&holder]);
    }
    assert_eq!(project.ran().len(), now);

    kill_process(pid, Signal::CONT).unwrap();
    let board = finished(child.wait_with_output().unwrap()).ok().json();
    assert!(board["missing"].as_object().unwrap().is_empty());
    // What the plan knew of was to be run, and was.
    let more = (project.ran().len() - now) as u64;
    assert!(left <= more, "{left} were planned, {more} were run");
    assert!(left > 0);
}
