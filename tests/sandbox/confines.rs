//! What a program sees, what it can touch, and what it can make us believe.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process;
use std::time::Duration;

use everbench::cancel::Cancel;
use everbench::exec::{Bind, Command, Limit, Sandbox, SandboxError, Status};

use crate::support::*;

#[test]
fn a_plain_program_gets_what_it_was_promised() {
    let mut command = Command::new([
        "sh",
        "-c",
        "cat; env; pwd; id -u; hostname; umask; echo no >&2; echo out >&9; exit 7",
    ]);
    let mark = mark();
    command.env.insert(MARK.into(), mark.clone().into());
    command.stdin = Some(b"in\0put\n".to_vec());
    command.results = true;
    command.cwd = "/usr".into();
    for ended in expect(&command, Status::Exited(7)) {
        let mut lines: Vec<String> = text(&ended.stdout).lines().map(str::to_owned).collect();
        // The shell adds one of its own.
        lines.retain(|line| !line.starts_with("PWD=") && !line.starts_with("OLDPWD="));
        lines[1..6].sort();
        assert_eq!(
            lines,
            [
                "in\0put",
                &format!("{MARK}={mark}"),
                "HOME=/tmp",
                "LC_ALL=C",
                "PATH=/usr/bin:/bin",
                "TZ=UTC",
                "/usr",
                "65534",
                "sandbox",
                "0022"
            ]
        );
        assert_eq!(
            (text(&ended.stderr), text(&ended.results)),
            ("no\n".into(), "out\n".into())
        );
        assert!(ended.usage.cpu > Duration::ZERO && ended.usage.max_rss > 100_000);
    }
}

#[test]
fn the_environment_of_a_run_is_the_given_one() {
    let mut command = Command::new(["env"]);
    command.env.clear();
    let mark = mark();
    command.env.insert(MARK.into(), mark.clone().into());
    command
        .env
        .insert("LD_PRELOAD".into(), "/no/such.so".into());
    command
        .env
        .insert("PATH".into(), "/nowhere:/usr/bin".into());
    for ended in expect(&command, Status::Exited(0)) {
        let expected = format!("{MARK}={mark}\nLD_PRELOAD=/no/such.so\nPATH=/nowhere:/usr/bin\n");
        assert_eq!(text(&ended.stdout), expected);
        // Only the command itself was given the library to load.
        assert_eq!(
            text(&ended.stderr).matches("/no/such.so").count(),
            1,
            "{}",
            text(&ended.stderr)
        );
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    for (words, status) in [
        (["exit", "0"], Status::Exited(0)),
        (["exit", "139"], Status::Exited(139)),
        (["exit", "255"], Status::Exited(255)),
        (["crash", "11"], Status::Signaled(11)),
        (["crash", "6"], Status::Signaled(6)),
        (["crash", "9"], Status::Signaled(9)),
    ] {
        expect(&hostile(&words), status);
    }
}

#[test]
fn what_cannot_be_executed_is_a_value_and_what_cannot_be_set_up_is_not() {
    let scratch = Scratch::new();
    fs::write(scratch.0.join("text"), "no program").expect("a file");
    fs::set_permissions(scratch.0.join("text"), fs::Permissions::from_mode(0o755)).expect("mode");
    let with = |program: &str| {
        let mut command = hostile(&[]);
        command.argv = vec![program.into()];
        command.binds.push(scratch.bind("/work"));
        command
    };
    expect(&with("/no/such/program"), Status::NotStarted(libc::ENOENT));
    expect(&with("no-such-program"), Status::NotStarted(libc::ENOENT));
    expect(&with("/work"), Status::NotStarted(libc::EACCES));
    // execvp hands a text without a first line for the kernel to the shell, which finds no `no`.
    expect(&with("/work/text"), Status::Exited(127));

    let setup = |change: &dyn Fn(&mut Command), words: &str| {
        let mut command = with("true");
        change(&mut command);
        match sandboxes()[0].run(&command, &Cancel::new()) {
            Err(SandboxError::Setup(what)) => assert!(what.contains(words), "{what}"),
            other => panic!("{other:?}"),
        }
    };
    setup(
        &|command| command.cwd = "/no/such".into(),
        "working directory /no/such",
    );
    setup(&|command| command.cwd = "relative".into(), "not absolute");
    setup(&|command| command.argv.clear(), "no program");
    setup(&|command| command.argv.push("a\0b".into()), "zero byte");
    setup(
        &|command| command.binds[1].host = "/no/such".into(),
        "/no/such",
    );
    setup(
        &|command| command.binds[1].inside = "/usr/new/folder".into(),
        "/usr/new",
    );
    setup(
        &|command| command.binds[1].inside = "/tmp/../etc".into(),
        "..",
    );
    setup(&|command| command.binds[1].host = "/".into(), "never bound");
    setup(
        &|command| command.collect = vec!["/etc/passwd".into()],
        "/tmp/NAME",
    );
    setup(
        &|command| command.collect = vec!["/tmp/a/b".into()],
        "/tmp/NAME",
    );
    if is_root() {
        fs::create_dir_all(programs().join("closed/in")).expect("a folder");
        fs::set_permissions(programs().join("closed"), fs::Permissions::from_mode(0o700))
            .expect("mode");
        setup(
            &|command| command.binds[1].host = programs().join("closed/in"),
            "chmod o+x",
        );
    }
}

#[test]
fn nothing_of_the_host_is_seen_or_written() {
    let outside = Scratch::new();
    let file = outside.0.join("file");
    fs::write(&file, "secret").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("permissions");
    fs::set_permissions(&outside.0, fs::Permissions::from_mode(0o777)).expect("permissions");
    let file = file.to_str().expect("text");
    let root = format!("/proc/{}/root/etc/shadow", process::id());
    let paths = [
        "/etc/shadow",
        "/etc/passwd",
        "/root",
        "/home",
        "/var",
        "/sys",
        "/run",
        file,
        &root,
        "/proc/1/root/etc",
        "/proc/1/environ",
        "/proc/1/fd",
        "/dev/vda",
        "/dev/sda",
        "/oldroot",
        "/proc/kcore",
        "/dev/kmsg",
    ];
    let words: Vec<&str> = [&["look"], &paths[..]].concat();
    for ended in expect(&hostile(&words), Status::Exited(0)) {
        let refused: String = paths
            .iter()
            .map(|path| format!("{path}: refused\n"))
            .collect();
        assert_eq!(text(&ended.stdout), format!("start\n{refused}"));
    }

    let paths = [
        "/usr/bin/new",
        "/usr/bin/env",
        "/etc/new",
        "/new",
        "/dev/new",
        "/programs/new",
        "/programs/plain",
        file,
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
    ];
    let words: Vec<&str> = [&["write"], &paths[..]].concat();
    for ended in expect(&hostile(&words), Status::Exited(0)) {
        let refused: String = paths
            .iter()
            .map(|path| format!("{path}: refused\n"))
            .collect();
        assert_eq!(text(&ended.stdout), format!("start\n{refused}"));
    }
    assert_eq!(fs::read_to_string(file).expect("the file"), "secret");
}

#[test]
fn no_privilege_can_be_won_back() {
    for ended in expect(&hostile(&["privileges"]), Status::Exited(0)) {
        let expected =
            "start\nsetuid: refused\nnamespace: refused\nmount: refused\nlimit: refused\n";
        assert_eq!(text(&ended.stdout), expected);
    }
}

#[test]
fn the_network_is_empty() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("non-blocking");
    let port = listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string();
    for ended in expect(&hostile(&["connect", &port]), Status::Exited(0)) {
        assert_eq!(text(&ended.stdout), "start\nconnect: refused\n");
    }
    let error = listener.accept().expect_err("nobody came");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn nothing_can_kill_or_trace_the_first_process() {
    // It kills itself with kill(0), or is told to end by the SIGTERM that process 1 passes on.
    for sandbox in sandboxes() {
        let ended = run(sandbox, &hostile(&["kill"]));
        assert!(
            matches!(ended.status, Status::Signaled(9 | 15)),
            "{:?}",
            ended.status
        );
    }
    for ended in expect(&hostile(&["trace"]), Status::Exited(7)) {
        assert_eq!(
            text(&ended.stdout),
            "start\nattach: refused\nmemory: refused\n"
        );
    }
}

#[test]
fn no_text_forges_a_status() {
    let mut command = hostile(&["lie"]);
    command.results = true;
    for ended in expect(&command, Status::Exited(3)) {
        assert_eq!(ended.results, b"exit 0\nS\0\0\0\0S\0\0\0\0");
        assert!(text(&ended.stdout).ends_with("wrote to 9\n"));
    }
    // Without its channel there is nothing to write to.
    for ended in expect(&hostile(&["lie"]), Status::Exited(3)) {
        assert_eq!(ended.results, b"");
        assert!(!text(&ended.stdout).contains("wrote to"));
    }
}

#[test]
fn only_the_promised_descriptors_are_open() {
    let open = |all: &[i32]| {
        let lines = all.iter().map(|fd| format!("open {fd}\n"));
        ["start\n".to_owned()]
            .into_iter()
            .chain(lines)
            .collect::<String>()
    };
    let mut command = hostile(&["descriptors"]);
    for ended in expect(&command, Status::Exited(0)) {
        assert_eq!(text(&ended.stdout), open(&[0, 1, 2]));
    }
    command.results = true;
    for ended in expect(&command, Status::Exited(0)) {
        assert_eq!(text(&ended.stdout), open(&[0, 1, 2, 9]));
    }
    expect(&hostile(&["close"]), Status::Exited(6));
    let mut command = hostile(&["close", "stay"]);
    command.limits.wall = Duration::from_secs(1);
    expect(&command, Status::Limit(Limit::Wall));
}

#[test]
fn addresses_are_fixed_on_demand() {
    let mut command = hostile(&["address"]);
    command.fixed_addresses = true;
    let mut seen: Vec<Vec<u8>> = (0..3)
        .flat_map(|_| expect(&command, Status::Exited(0)))
        .map(|ended| ended.stdout)
        .collect();
    seen.dedup();
    assert_eq!(seen.len(), 1);
    command.fixed_addresses = false;
    seen.extend(
        expect(&command, Status::Exited(0))
            .into_iter()
            .map(|ended| ended.stdout),
    );
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn no_planted_link_is_followed() {
    let target = Scratch::new();
    let secret = target.0.join("secret");
    fs::write(&secret, "secret").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).expect("permissions");
    symlink(&secret, target.0.join("link")).expect("a link");
    let before = fs::metadata(&secret).expect("metadata");
    for sandbox in sandboxes() {
        for lure in [&secret, &target.0] {
            let scratch = Scratch::new();
            let mut command = hostile(&["links", lure.to_str().expect("text")]);
            command.binds.push(scratch.bind("/work"));
            command.cwd = "/work".into();
            command.collect = vec!["/tmp/san".into()];
            command.limits.scratch = 4 * MIB;
            let ended = run(sandbox, &command);
            assert_eq!(ended.status, Status::Exited(0), "{}", text(&ended.stdout));

            let collected: Vec<(&str, Result<&[u8], &str>)> = ended
                .collected
                .iter()
                .map(|one| {
                    let content = one.content.as_deref().map_err(String::as_str);
                    (one.path.to_str().expect("text"), content)
                })
                .collect();
            assert_eq!(
                collected,
                [
                    ("/tmp/san.a\nb", Ok(&b"\0\x01\xff\n"[..])),
                    ("/tmp/san.closed", Ok(&b""[..])),
                    ("/tmp/san.fifo", Err("not a regular file: Fifo")),
                    ("/tmp/san.folder", Err("not a regular file: Directory")),
                    (
                        "/tmp/san.large",
                        Err("6291456 bytes, more than the 4194300 left")
                    ),
                    ("/tmp/san.link", Err("not a regular file: Symlink")),
                ]
            );

            Sandbox::reclaim(&scratch.0).expect("reclaimed");
            let program = fs::metadata(scratch.0.join("deep/program")).expect("metadata");
            assert_eq!(program.mode() & 0o7777, 0o755);
            assert_eq!(program.uid(), rustix::process::geteuid().as_raw());
            assert_eq!(
                fs::read_link(scratch.0.join("deep/link")).expect("a link"),
                *lure
            );
            fs::read_dir(scratch.0.join("closed")).expect("readable");
            Sandbox::remove(&scratch.0).expect("removed");
            assert!(!scratch.0.exists());
        }
    }
    // A folder that is itself a link is not entered either.
    Sandbox::remove(&target.0.join("link")).expect("removed");
    let after = fs::metadata(&secret).expect("the target is still there");
    assert_eq!(
        (after.mode(), after.uid(), after.len()),
        (before.mode(), before.uid(), before.len())
    );
}

#[test]
fn a_compiler_works_inside() {
    let scratch = Scratch::new();
    let source = programs().join("hostile.c");
    let mut command = hostile(&[]);
    command.argv = ["gcc", "-w", "-pthread", "-o", "/work/out", "/source.c"]
        .map(OsString::from)
        .into();
    command.binds.push(Bind {
        host: source,
        inside: "/source.c".into(),
        writable: false,
    });
    command.binds.push(scratch.bind("/work"));
    expect(&command, Status::Exited(0));
    let mut command = hostile(&["exit", "4"]);
    command.argv[0] = "/work/out".into();
    command.binds.push(scratch.bind("/work"));
    expect(&command, Status::Exited(4));
}

#[test]
fn sanitizers_work_inside_and_their_reports_are_collected() {
    for (words, heading) in [
        (
            &["overflow", "9"][..],
            "ERROR: AddressSanitizer: heap-buffer-overflow",
        ),
        (&["leak"], "ERROR: LeakSanitizer: detected memory leaks"),
    ] {
        let mut command = compiled("asan", words);
        let options = "log_path=/tmp/san:detect_leaks=1:exitcode=23:symbolize=0";
        command.env.insert("ASAN_OPTIONS".into(), options.into());
        command.collect = vec!["/tmp/san.".into()];
        command.fixed_addresses = true;
        command.limits.memory = 512 * MIB;
        for ended in expect(&command, Status::Exited(23)) {
            let [report] = &ended.collected[..] else {
                panic!("{:?}", ended.collected)
            };
            let report = text(report.content.as_ref().expect("readable"));
            assert!(report.contains(heading), "{report}");
        }
    }
}
