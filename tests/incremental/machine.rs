//! What a change of the machine costs: a file of the system that the build opens, or that programs
//! load, is in the keys of what it matters to, and of nothing else.

use std::collections::BTreeSet;

use everbench::job::{Job, Value};

use super::edits::compare;
use super::oracle::{self, Wanted};
use super::synthetic::workbench::{self, Rows, Workbench};
use super::synthetic::{HEADER, LINKED, LOADED, RUNNER, SHARED, UNRELATED, World};
use super::{settled, small};

/// Evaluates `before`, and in a later process `after`; what the later one asks for.
fn later(before: &World, after: &World) -> (Rows, Rows, Vec<Job>) {
    let old = settled(before.clone());
    drop(old.workbench);
    let mut fresh = Workbench::new(workbench::store(old.dir.path()), after);
    let (rows, waves) = fresh.settle();
    (old.rows, rows, waves.into_iter().flatten().collect())
}

/// What is wanted by a process that starts after `edit` of the system; rows stay as they were.
fn asked(before: &World, edit: impl FnOnce(&mut World)) -> Wanted {
    let mut after = before.clone();
    edit(&mut after);
    let (old, new, jobs) = later(before, &after);
    let wanted = oracle::items(&jobs);
    compare(
        &wanted,
        &oracle::wanted(&[before], &after),
        "on another machine",
    );
    assert_eq!(old, new);
    wanted
}

fn upgraded(name: &'static str) -> impl FnOnce(&mut World) {
    move |world| drop(world.system.insert(name.into(), "its next release".into()))
}

fn kinds(wanted: &Wanted) -> Vec<&str> {
    wanted.keys().map(String::as_str).collect()
}

#[test]
fn the_same_environment_asks_nothing_in_another_process() {
    assert_eq!(asked(&small(), |_| {}), Wanted::new());
}

#[test]
fn a_file_that_no_build_opens_renews_nothing() {
    assert_eq!(asked(&small(), upgraded(UNRELATED)), Wanted::new());
    // Nor does a program that no test is run by.
    assert_eq!(asked(&small(), upgraded(RUNNER)), Wanted::new());
}

#[test]
fn a_header_renews_the_bases_and_what_its_text_reaches() {
    // Here no unit has another text by it.
    assert_eq!(kinds(&asked(&small(), upgraded(HEADER))), ["oss/base"]);
}

#[test]
fn what_links_read_renews_verdicts_and_programs() {
    let wanted = asked(&small(), upgraded(LINKED));
    // The programs come out the same, so their runs stand.
    assert_eq!(kinds(&wanted), ["oss/base", "oss/program", "oss/verdict"]);
}

#[test]
fn what_programs_load_renews_runs() {
    let runs = ["oss/base", "oss/run"];
    assert_eq!(kinds(&asked(&small(), upgraded(LOADED))), runs);
    let both = asked(&small(), upgraded(SHARED));
    let all = ["oss/base", "oss/program", "oss/run", "oss/verdict"];
    assert_eq!(kinds(&both), all);
}

#[test]
fn the_program_that_runs_the_tests_renews_runs_only() {
    let mut world = small();
    world.runner = Some(RUNNER.into());
    assert_eq!(kinds(&asked(&world, upgraded(RUNNER))), ["oss/run"]);
}

#[test]
fn a_machine_that_is_as_before_asks_nothing() {
    let (before, mut between) = (small(), small());
    upgraded(SHARED)(&mut between);
    let old = settled(before.clone());
    drop(old.workbench);
    for (world, waves) in [(&between, true), (&before, false), (&between, false)] {
        let mut process = Workbench::new(workbench::store(old.dir.path()), world);
        assert_eq!(process.settle().1.is_empty(), !waves);
    }
}

/// The names of the files in a base's key.
fn environment(job: &Job) -> BTreeSet<String> {
    let digest = job.digest("environment");
    let (_, bytes) = job.preimages().iter().find(|(d, _)| *d == digest).unwrap();
    let files: everbench::oss::environment::Files = serde_json::from_slice(bytes).unwrap();
    files.into_keys().collect()
}

fn plain_bases(jobs: &[Job]) -> Vec<&Job> {
    let plain = Value::from("plain");
    let bases = jobs.iter().filter(|j| j.kind().name == "oss/base");
    bases.filter(|j| j.inputs()["flavour"] == plain).collect()
}

#[test]
fn a_header_that_includes_another_is_closed_over_both() {
    const MORE: &str = "/usr/include/more.h";
    let before = small();
    let mut after = before.clone();
    after.system.insert(HEADER.into(), format!("{MORE}\n"));
    after.system.insert(MORE.into(), "more".into());
    let old = settled(before);
    drop(old.workbench);
    let process = |world: &World| -> Vec<Job> {
        let mut process = Workbench::new(workbench::store(old.dir.path()), world);
        process.settle().1.into_iter().flatten().collect()
    };
    let jobs = process(&after);
    // First with the names that are known, then with those that were opened.
    let bases = plain_bases(&jobs);
    assert_eq!(bases.len(), 2);
    let names: Vec<bool> = bases
        .iter()
        .map(|b| environment(b).contains(MORE))
        .collect();
    assert_eq!(names, [false, true]);
    assert!(jobs.iter().all(|j| j.kind().name != "oss/footprint"));
    assert_eq!(process(&after), []);
    // From now on the other header is in the keys.
    after.system.insert(MORE.into(), "even more".into());
    let jobs = process(&after);
    let bases = plain_bases(&jobs);
    assert_eq!(bases.len(), 1);
    assert!(environment(bases[0]).contains(MORE));
}

#[test]
fn a_process_that_runs_nothing_believes_the_last_that_looked() {
    let old = settled(small());
    drop(old.workbench);
    let mut upgrade = small();
    upgraded(SHARED)(&mut upgrade);
    let store = workbench::store(old.dir.path());
    let mut scores = Workbench::new(store, &upgrade).looking_back();
    let (rows, waves) = scores.settle();
    assert_eq!((rows, waves.len()), (old.rows, 0));
}
