//! What a program may use, and what ends it when it uses more.

use std::fs;
use std::time::Duration;

use everbench::exec::{Limit, Sandbox, Status};

use crate::support::*;

#[test]
fn forks_and_threads_without_end() {
    for words in [&["forks"][..], &["forks", "quiet"], &["threads"]] {
        let mut command = hostile(words);
        command.limits.processes = 40;
        command.limits.cpu = Duration::from_secs(100);
        expect(&command, Status::Limit(Limit::Processes));
    }
}

#[test]
fn memory_is_bounded_and_address_space_is_not() {
    let mut command = hostile(&["memory"]);
    command.limits.memory = 100 * MIB;
    for ended in expect(&command, Status::Limit(Limit::Memory)) {
        assert!(ended.usage.max_rss < 2048 * MIB, "{:?}", ended.usage);
    }
    for ended in expect(&hostile(&["reserve"]), Status::Exited(0)) {
        assert_eq!(text(&ended.stdout), "start\nreserve: DONE\n");
    }
    // Nine processes share 40 MiB.
    let mut command = hostile(&["shared"]);
    command.limits.memory = 120 * MIB;
    expect(&command, Status::Exited(0));
}

#[test]
fn files_in_private_memory_count_as_memory() {
    let mut command = hostile(&["fill", "/tmp/large"]);
    command.limits.memory = 60 * MIB;
    command.limits.scratch = 4096 * MIB;
    command.limits.file_size = 4096 * MIB;
    expect(&command, Status::Limit(Limit::Memory));
}

#[test]
fn disks_cannot_be_filled() {
    for path in ["/tmp/large", "/dev/shm/large"] {
        let mut command = hostile(&["fill", path]);
        command.limits.scratch = 8 * MIB;
        for ended in expect(&command, Status::Limit(Limit::Disk)) {
            let output = text(&ended.stdout);
            assert!(
                output.contains(&format!("errno {}", libc::ENOSPC)),
                "{output}"
            );
        }
    }
    for (file_size, words) in [
        (16 * MIB, &["fill", "/work/large"][..]),
        (4096 * MIB, &["fill", "/work/large"]),
        (4096 * MIB, &["fill", "/work/large", "deleted"]),
        (4096 * MIB, &["files", "/work"]),
    ] {
        let scratch = Scratch::new();
        let mut command = hostile(words);
        command.binds.push(scratch.bind("/work"));
        command.limits.disk = 64 * MIB;
        command.limits.file_size = file_size;
        expect(&command, Status::Limit(Limit::Disk));
    }
}

#[test]
fn what_is_there_already_does_not_count_as_growth() {
    let scratch = Scratch::new();
    fs::write(scratch.0.join("old"), vec![1; 8 << 20]).expect("a file");
    let mut command = hostile(&["exit", "0"]);
    command.binds.push(scratch.bind("/work"));
    command.limits.disk = MIB;
    expect(&command, Status::Exited(0));
}

#[test]
fn floods_end_the_run_and_keep_what_fits() {
    for fd in ["1", "2", "9"] {
        let mut command = hostile(&["flood", fd]);
        command.results = true;
        command.limits.output = 100_000;
        command.limits.results = 50_000;
        for ended in expect(&command, Status::Limit(Limit::Output)) {
            let (stream, full) = match fd {
                "1" => (&ended.stdout[6..], 99_994),
                "2" => (&ended.stderr[..], 100_000),
                _ => (&ended.results[..], 50_000),
            };
            assert_eq!(stream.len(), full);
            assert!(stream.iter().all(|&byte| byte == b'x'));
        }
    }
}

#[test]
fn waiting_for_ever_meets_the_wall() {
    for (words, output) in [
        ("sleep", "start\n"),
        ("stubborn", "start\ndeaf\n"),
        ("polite", "start\ngoodbye\n"),
    ] {
        let mut command = hostile(&[words]);
        command.limits.wall = Duration::from_secs(2);
        for ended in expect(&command, Status::Limit(Limit::Wall)) {
            assert_eq!(text(&ended.stdout), output);
            assert!(ended.usage.wall >= command.limits.wall);
        }
    }
}

#[test]
fn processor_time_is_that_of_the_whole_tree() {
    for words in [&["burn", "1"][..], &["burn", "4"], &["generations"]] {
        let mut command = hostile(words);
        command.limits.cpu = Duration::from_millis(500);
        for ended in expect(&command, Status::Limit(Limit::Cpu)) {
            assert!(ended.usage.cpu >= command.limits.cpu, "{:?}", ended.usage);
        }
    }
}

#[test]
fn deep_recursion_is_a_crash() {
    expect(&hostile(&["recurse"]), Status::Signaled(libc::SIGSEGV));
}

#[test]
fn folders_nested_without_end_are_a_limit_and_can_be_removed() {
    for sandbox in sandboxes() {
        let scratch = Scratch::new();
        let mut command = hostile(&["nest"]);
        command.binds.push(scratch.bind("/work"));
        command.cwd = "/work".into();
        let ended = run(sandbox, &command);
        assert_eq!(ended.status, Status::Limit(Limit::Disk));
        let error = Sandbox::reclaim(&scratch.0).expect_err("too deep");
        assert!(error.to_string().contains("128 deep"), "{error}");
        Sandbox::remove(&scratch.0).expect("removed");
        assert!(!scratch.0.exists());
    }
}
