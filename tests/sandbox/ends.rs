//! Whatever ends a run, no process of it is left.

use std::fs;
use std::process;
use std::time::{Duration, Instant};

use everbench::cancel::Cancel;
use everbench::exec::{Limit, Metering, Policy, Sandbox, SandboxError, Status};

use crate::support::*;

#[test]
fn daemons_do_not_outlive_the_command() {
    expect(&hostile(&["daemon"]), Status::Exited(5));
}

#[test]
fn cancelling_ends_runs_at_once() {
    for sandbox in sandboxes() {
        let cancel = Cancel::new();
        let command = hostile(&["stubborn"]);
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| sandbox.run(&command, &cancel)))
                .collect();
            while left(&command).len() < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            cancel.stop();
            assert!(
                runs.iter().all(|run| !run.is_finished()),
                "asked to start nothing new only"
            );
            cancel.kill();
            for run in runs {
                let ended = run.join().expect("no panic");
                assert_eq!(ended, Err(SandboxError::Cancelled));
            }
        });
        assert_eq!(left(&command), Vec::<String>::new());
        assert_eq!(sandbox.run(&command, &cancel), Err(SandboxError::Cancelled));
    }
}

#[test]
fn a_killed_supervisor_takes_everything_along() {
    if let Some(mark) = std::env::var_os(VICTIM) {
        // The copy below: runs until it is killed.
        let mut command = hostile(&["stubborn"]);
        command.env.insert(MARK.into(), mark);
        let ended = sandboxes()[0].run(&command, &Cancel::new());
        panic!("was to be killed, but: {ended:?}");
    }
    let mark = format!("victim-{}", process::id());
    let mut victim = process::Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "ends::a_killed_supervisor_takes_everything_along",
        ])
        .env(VICTIM, &mark)
        .stdout(process::Stdio::null())
        .stderr(process::Stdio::null())
        .spawn()
        .expect("started");
    let (mark, victim_id) = (format!("{MARK}={mark}\0"), victim.id());
    let folder = programs_of(victim_id);
    // Until the program itself runs, below bubblewrap and the first process.
    while !marked(&mark)
        .iter()
        .any(|process| process.contains("plain"))
    {
        assert_eq!(
            victim.try_wait().expect("a state"),
            None,
            "the victim ended by itself"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    let start = Instant::now();
    while !marked(&mark).is_empty() && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(marked(&mark), Vec::<String>::new());
    Sandbox::remove(&folder).expect("removed");
    // The groups it left are swept by a probe, as soon as the kernel has let go of the dead.
    let name = format!("everbench-{victim_id}-");
    let left = || -> Vec<_> {
        let controllers = ["memory", "pids", "cpuacct"].map(|c| format!("/sys/fs/cgroup/{c}"));
        let entries = controllers
            .iter()
            .flat_map(|c| walkdir::WalkDir::new(c).into_iter().flatten());
        entries
            .filter(|e| e.file_name().to_string_lossy().starts_with(&name))
            .map(walkdir::DirEntry::into_path)
            .collect()
    };
    let start = Instant::now();
    loop {
        Sandbox::probe(Policy::Required).expect("a sandbox");
        if left().is_empty() || start.elapsed() > Duration::from_secs(30) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn without_a_sandbox_the_limits_still_hold() {
    let sandbox = Sandbox::probe(Policy::UnsafeNone).expect("always there");
    assert!(sandbox.describe().to_string().contains("NO SANDBOX"));
    let local = |words: &[&str]| {
        let mut command = hostile(words);
        command.binds.clear();
        command.argv[0] = programs().join("plain").into();
        command
    };
    assert_eq!(
        run(&sandbox, &local(&["exit", "139"])).status,
        Status::Exited(139)
    );
    assert_eq!(
        run(&sandbox, &local(&["crash", "11"])).status,
        Status::Signaled(11)
    );
    assert_eq!(run(&sandbox, &local(&["daemon"])).status, Status::Exited(5));
    let mut command = local(&["stubborn"]);
    command.limits.wall = Duration::from_secs(1);
    assert_eq!(run(&sandbox, &command).status, Status::Limit(Limit::Wall));
    let mut command = local(&["burn", "3"]);
    command.limits.cpu = Duration::from_millis(300);
    assert_eq!(run(&sandbox, &command).status, Status::Limit(Limit::Cpu));
    let mut command = local(&["flood", "1"]);
    command.limits.output = 1000;
    assert_eq!(run(&sandbox, &command).status, Status::Limit(Limit::Output));
    match sandbox.run(&hostile(&["exit", "0"]), &Cancel::new()) {
        Err(SandboxError::Setup(what)) => assert!(what.contains("use the same path"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn root_becomes_nobody_and_a_user_stays_itself() {
    let features = sandboxes()[0].describe();
    assert_eq!(features.drops_to_nobody, is_root());
    assert!(matches!(
        sandboxes()[1].describe().metering,
        Metering::Watcher(_)
    ));
    if !is_root() {
        return;
    }
    // All of it again as a user without any right.
    let folder = programs().join("user");
    fs::create_dir(&folder).expect("a folder");
    fs::copy(
        std::env::current_exe().expect("this program"),
        folder.join("tests"),
    )
    .expect("copied");
    let done = process::Command::new("setpriv")
        .args(["--reuid=23456", "--regid=23456", "--clear-groups", "--"])
        .arg(folder.join("tests"))
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .output()
        .expect("setpriv");
    assert!(
        done.status.success(),
        "{}\n{}",
        text(&done.stdout),
        text(&done.stderr)
    );
}
