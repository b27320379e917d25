//! A full disk is the host's trouble and never a value: nothing false is stored, what was stored
//! stays, and with room again the run goes on.

use std::sync::OnceLock;

use crate::support::*;

/// Another seed than the prepared project's, so that there is something to do.
const RUN: &str = "$EB run --quiet --format json --seed 21 --limit 8";

/// So many MiB beside the copy of the program that the trees hold.
fn mib_beside_the_program(room: u64) -> u64 {
    (std::fs::metadata(BIN).unwrap().len() >> 20) + 1 + room
}

#[test]
fn no_room_for_trees_decides_no_verdict() {
    let project = Project::prepared();
    // Room for the tools and the bases, and for a few programs.
    let size = mib_beside_the_program(80);
    let script = format!(
        "mkdir trees; mount -t tmpfs -o size={size}m,mode=755 none trees; cp -a .everbench/trees/. trees/; \
         mount --move trees .everbench/trees || mount --bind trees .everbench/trees; \
         dd if=/dev/zero of=.everbench/trees/filler bs=64k status=none || true; \
         set +e; {RUN} >full.json; echo $?; rm .everbench/trees/filler; \
         mount -o remount,size=1g .everbench/trees; {RUN} >roomy.json; echo $?"
    );
    let ended = project.elsewhere(&script).ok();
    let codes: Vec<&str> = ended.out.lines().collect();
    assert_eq!(codes[1], "0", "{}{}", ended.out, ended.err);
    let roomy: serde_json::Value = serde_json::from_str(&project.read("roomy.json")).unwrap();
    match codes[0] {
        "75" => {
            let full: serde_json::Value = serde_json::from_str(&project.read("full.json")).unwrap();
            let problems = full["problems"].to_string();
            assert!(
                problems.contains("No space left") || problems.contains("no room left"),
                "{problems}"
            );
        }
        "4" => assert!(ended.err.contains("No space left"), "{}", ended.err),
        other => panic!("{other}: {}", ended.err),
    }
    same_as_with_room(&project, &roomy);
}

#[test]
fn no_room_to_build_the_subject_is_not_its_fault() {
    let project = Project::fresh(&[UNCHANGED]);
    let small = "$EB run --quiet --limit 1 --iterations 1";
    let size = mib_beside_the_program(10);
    let script = format!(
        "mkdir -p .everbench/trees; mount -t tmpfs -o size={size}m,mode=755 none .everbench/trees; \
         set +e; {small}; echo $?; mount -o remount,size=1g .everbench/trees; {small}; echo $?"
    );
    let ended = project.elsewhere(&script).ok();
    assert!(
        ended.out.contains("no room left"),
        "{}{}",
        ended.out,
        ended.err
    );
    assert!(
        ended.out.contains("make room and run again"),
        "{}",
        ended.out
    );
    let codes: Vec<&str> = ended
        .out
        .lines()
        .filter(|l| l.parse::<u8>().is_ok())
        .collect();
    assert_eq!(codes, ["75", "0"], "{}{}", ended.out, ended.err);
}

#[test]
fn no_room_for_the_store_ends_the_run_and_loses_nothing() {
    let project = Project::prepared();
    let before = project.ran();
    let script = format!(
        "mkdir store; mount -t tmpfs -o size=64m none store; cp -a .everbench/store/. store/; \
         mount --bind store .everbench/store; \
         dd if=/dev/zero of=.everbench/store/filler bs=64k status=none || true; \
         set +e; {RUN}; echo $?; $EB store ls >ls; rm .everbench/store/filler; $EB store verify >verified; \
         {RUN} >roomy.json; echo $?; $EB store ls >ls2"
    );
    let ended = project.elsewhere(&script).ok();
    let codes: Vec<&str> = ended
        .out
        .lines()
        .filter(|l| l.parse::<u8>().is_ok())
        .collect();
    assert_eq!(codes, ["4", "0"], "{}{}", ended.out, ended.err);
    let ended = ended.says(&["no room left", "everything before it is safe", "make room"]);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    for key in before.keys() {
        assert!(project.read("ls").contains(key.as_str()));
        assert!(project.read("ls2").contains(key.as_str()));
    }
    assert!(project.read("verified").contains("\"problems\": []"));
    let roomy: serde_json::Value = serde_json::from_str(&project.read("roomy.json")).unwrap();
    same_as_with_room(&project, &roomy);
}

#[test]
fn a_limit_on_file_sizes_is_not_taken_for_the_subjects_fault() {
    let project = Project::prepared();
    let limited = |blocks: u32, args: &str| {
        let script = format!("ulimit -f {blocks}; exec $0 --dir $1 {args}");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script, BIN]).arg(&project.dir);
        ended(command)
    };
    let before = project.ran();
    // Blocks of 1 KiB: enough for the store, not for what builds may write.
    limited(100_000, "run --quiet --seed 21")
        .exits(4)
        .says(&["ulimit -f", "raise the limit"]);
    // Too little for the store itself.
    let ended = limited(1000, "run --quiet --seed 21").exits(4);
    assert!(
        ended.err.contains("ulimit -f") || ended.err.contains("no room left"),
        "{}",
        ended.err
    );
    assert_eq!(project.ran(), before);
    let board = project
        .run(["run", "--quiet", "--format", "json"])
        .ok()
        .json();
    assert_eq!(board["rows"], project.first()["rows"]);
}

/// The rows are those of a run that never met a full disk.
#[track_caller]
fn same_as_with_room(project: &Project, roomy: &serde_json::Value) {
    static NEVER_FULL: OnceLock<serde_json::Value> = OnceLock::new();
    let board = NEVER_FULL.get_or_init(|| {
        let never_full = Project::prepared();
        let run = [
            "run", "--quiet", "--format", "json", "--seed", "21", "--limit", "8",
        ];
        never_full.run(run).ok().json()
    });
    assert_eq!(roomy["rows"], board["rows"], "{}", project.dir.display());
}
