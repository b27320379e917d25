//! What hostile programs may try, and what must come of it: a typed status, an unharmed host, and
//! no process left. Runs real programs in the real sandbox, once with control groups (where the
//! machine lets us make them) and once with the watcher that stands in for them.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everbench::cancel::Cancel;
use everbench::exec::{
    Bind, Command, Ended, Limit, Metering, Policy, Sandbox, SandboxError, Status,
};

const MIB: u64 = 1 << 20;
/// The variable by which the processes of one run are found again.
const MARK: &str = "EVERBENCH_TEST_MARK";
/// Set for the copy of this test that is to be killed.
const VICTIM: &str = "EVERBENCH_TEST_VICTIM";

/// Both ways to bound a run.
fn sandboxes() -> &'static [Sandbox] {
    static ALL: OnceLock<Vec<Sandbox>> = OnceLock::new();
    ALL.get_or_init(|| {
        let automatic = Sandbox::probe(Policy::Required).unwrap_or_else(|error| panic!("{error}"));
        let watcher = Metering::Watcher("for the test".into());
        let watcher = Sandbox::probe_with(Policy::Required, watcher);
        vec![automatic, watcher.unwrap_or_else(|error| panic!("{error}"))]
    })
}

/// A folder for one test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        Scratch(
            sandboxes()[0]
                .scratch_dir(&std::env::temp_dir())
                .expect("a scratch folder"),
        )
    }

    fn bind(&self, inside: &str) -> Bind {
        Bind {
            host: self.0.clone(),
            inside: inside.into(),
            writable: true,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        Sandbox::remove(&self.0).expect("the scratch folder can be removed");
    }
}

/// The folder with the compiled programs.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("everbench-hostile-{}", process::id()));
        Sandbox::remove(&folder).expect("an old folder can be removed");
        fs::create_dir(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        let source = folder.join("hostile.c");
        fs::write(&source, include_str!("hostile/hostile.c")).expect("the source");
        for (name, flags) in [("plain", "-O1"), ("asan", "-fsanitize=address")] {
            let built = process::Command::new("gcc")
                .args(["-g", "-w", "-pthread", flags, "-o"])
                .arg(folder.join(name))
                .arg(&source)
                .output()
                .expect("these tests need gcc: apt-get install gcc");
            assert!(
                built.status.success(),
                "{}",
                String::from_utf8_lossy(&built.stderr)
            );
        }
        folder
    })
}

fn compiled(program: &str, words: &[&str]) -> Command {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut command = Command::new([format!("/programs/{program}")]);
    command.argv.extend(words.iter().map(OsString::from));
    let mark = format!(
        "{}-{}",
        process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    command.env.insert(MARK.into(), mark.into());
    let (host, inside) = (programs().to_path_buf(), "/programs".into());
    command.binds.push(Bind {
        host,
        inside,
        writable: false,
    });
    // Far above what an honest run needs here on a busy machine, so that a test that waits for
    // another limit does not meet this one.
    command.limits.wall = Duration::from_secs(120);
    command
}

fn hostile(words: &[&str]) -> Command {
    compiled("plain", words)
}

/// Runs and checks what holds for every run.
fn run(sandbox: &Sandbox, command: &Command) -> Ended {
    let start = Instant::now();
    let ended = sandbox.run(command, &Cancel::new()).expect("a result");
    assert_eq!(left(command), Vec::<String>::new(), "processes left");
    let output = command.limits.output as usize;
    assert!(ended.stdout.len() <= output && ended.stderr.len() <= output);
    assert!(ended.results.len() as u64 <= command.limits.results);
    assert!(ended.usage.wall <= start.elapsed());
    ended
}

/// Runs in both sandboxes and expects a status.
fn expect(command: &Command, status: Status) -> Vec<Ended> {
    let run_one = |sandbox| {
        let ended = run(sandbox, command);
        assert_eq!(
            ended.status,
            status,
            "{}\n{}",
            sandbox.describe(),
            text(&ended.stderr)
        );
        ended
    };
    sandboxes().iter().map(run_one).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Living processes of a run, by the mark in their environment or arguments.
fn left(command: &Command) -> Vec<String> {
    let mark = command.env[&OsString::from(MARK)].to_str().expect("text");
    marked(&format!("{MARK}={mark}\0"))
}

fn marked(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let own = entry.file_name() == process::id().to_string().as_str();
        if own
            || entry
                .file_name()
                .as_bytes()
                .iter()
                .any(|byte| !byte.is_ascii_digit())
        {
            continue;
        }
        for file in ["environ", "cmdline"] {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            if bytes
                .windows(mark.len())
                .any(|part| part == mark.as_bytes())
            {
                let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
                found.push(status.lines().take(3).collect::<Vec<_>>().join(" "));
                break;
            }
        }
    }
    found
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_plain_program_gets_what_it_was_promised() {
    let mut command = Command::new([
        "sh",
        "-c",
        "cat; env; pwd; id -u; hostname; umask; echo no >&2; echo out >&9; exit 7",
    ]);
    command.env.insert(MARK.into(), "plain".into());
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
                "EVERBENCH_TEST_MARK=plain",
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
    command.env.insert(MARK.into(), "environment".into());
    command
        .env
        .insert("LD_PRELOAD".into(), "/no/such.so".into());
    command
        .env
        .insert("PATH".into(), "/nowhere:/usr/bin".into());
    for ended in expect(&command, Status::Exited(0)) {
        let expected =
            "EVERBENCH_TEST_MARK=environment\nLD_PRELOAD=/no/such.so\nPATH=/nowhere:/usr/bin\n";
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
        &|command| command.collect = Some("/etc/passwd".into()),
        "/tmp/NAME",
    );
    setup(
        &|command| command.collect = Some("/tmp/a/b".into()),
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
fn daemons_do_not_outlive_the_command() {
    expect(&hostile(&["daemon"]), Status::Exited(5));
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
            command.collect = Some("/tmp/san".into());
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
        command.collect = Some("/tmp/san.".into());
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
        .args(["--exact", "a_killed_supervisor_takes_everything_along"])
        .env(VICTIM, &mark)
        .stdout(process::Stdio::null())
        .stderr(process::Stdio::null())
        .spawn()
        .expect("started");
    let (mark, victim_id) = (format!("{MARK}={mark}\0"), victim.id());
    let folder = std::env::temp_dir().join(format!("everbench-hostile-{victim_id}"));
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
    // The groups it left are swept by the next probe.
    Sandbox::probe(Policy::Required).expect("a sandbox");
    for controller in ["memory", "pids", "cpuacct"] {
        let left = walkdir::WalkDir::new(format!("/sys/fs/cgroup/{controller}"));
        let name = format!("everbench-{victim_id}-");
        for entry in left.into_iter().flatten() {
            assert!(
                !entry.file_name().to_string_lossy().starts_with(&name),
                "{entry:?}"
            );
        }
    }
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
