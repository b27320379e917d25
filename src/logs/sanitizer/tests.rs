//! Tests on the real logs in `fixtures/sanitizer/logs`, cut and interleaved, and on what gcc's
//! runtimes say here and now about the programs beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sanitizer")
}

fn logs() -> &'static BTreeMap<String, Vec<u8>> {
    static LOGS: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(read_logs);
    &LOGS
}

fn read_logs() -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder().join("logs"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "log"))
        .map(|p| {
            let name = p.file_stem().unwrap().to_str().unwrap().to_string();
            (name, std::fs::read(p).unwrap())
        })
        .collect()
}

fn project(path: &str) -> bool {
    path.starts_with("/build/") || !path.contains('/')
}

fn source_line(path: &str, line: u32) -> Option<String> {
    let name = path.rsplit('/').next().unwrap();
    let text = std::fs::read_to_string(folder().join(name)).ok()?;
    text.lines()
        .nth((line as usize).checked_sub(1)?)
        .map(str::to_string)
}

fn id(alert: &Alert) -> AlertId {
    unique_key(alert, project, source_line)
}

/// One line per alert: what a person would read off the log.
fn shown(scan: &Scan) -> String {
    let mut out = String::new();
    for a in &scan.alerts {
        let top = a.top_project_frame(project);
        let place = a.location.as_ref().map_or_else(
            || {
                top.map_or("-".into(), |f| {
                    format!("{}:{}", f.file.as_deref().unwrap(), f.line.unwrap_or(0))
                })
            },
            |l| format!("{}:{}", l.file, l.line),
        );
        let access = a.access.map_or(String::new(), |x| {
            format!(
                " {}{}",
                if x.write { "w" } else { "r" },
                x.size.map_or("?".into(), |s| s.to_string())
            )
        });
        out += &format!(
            "  {:?} {} {:?}{access} {} {place} [{} {} {} {}]\n",
            a.sanitizer,
            a.kind,
            a.class,
            top.and_then(|f| f.function.as_deref()).unwrap_or("-"),
            a.frames.len(),
            a.allocated.len(),
            a.freed.len(),
            a.other.len()
        );
    }
    for u in &scan.unparsed {
        out += &format!("  unparsed {}: {:.60}\n", u.line, u.text);
    }
    out
}

#[test]
fn every_recorded_log_is_read_as_a_person_reads_it() {
    let mut all = String::new();
    for (name, log) in logs() {
        all += &format!("{name}\n{}", shown(&parse(log)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn gcc_and_clang_agree_on_what_each_program_did() {
    let logs = logs();
    let kinds = |name: &str| -> BTreeSet<(String, Class)> {
        let scan = parse(&logs[name]);
        scan.alerts.into_iter().map(|a| (a.kind, a.class)).collect()
    };
    let mut compared = 0;
    for name in logs.keys().filter_map(|n| n.strip_prefix("gcc-")) {
        // Both compilers check different things, or gcc's UBSan leaves signals to the shell.
        let differ = ["undefined", "race", "fpe-ub", "segv_null-ub"];
        if differ.iter().any(|d| name.starts_with(d)) {
            continue;
        }
        let (gcc, clang) = (
            kinds(&format!("gcc-{name}")),
            kinds(&format!("clang-{name}")),
        );
        assert_eq!(gcc, clang, "{name}");
        assert!(!gcc.is_empty(), "{name}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn a_cut_log_gives_the_beginning_of_the_whole() {
    for (name, log) in logs() {
        let whole = parse(log).alerts;
        // Every byte of the short logs, a sample of those with hundreds of frames.
        let step = 1 + log.len() / 4000;
        for end in (0..log.len()).step_by(step) {
            let cut = parse(&log[..end]).alerts;
            assert!(cut.len() <= whole.len(), "{name} at {end}");
            for (a, b) in cut.iter().zip(&whole) {
                let same = (a.sanitizer, &a.kind) == (b.sanitizer, &b.kind)
                    && (a.location.is_none() || a.location == b.location)
                    && (a.access.is_none() || a.access == b.access)
                    && b.frames.starts_with(&a.frames)
                    && b.allocated.starts_with(&a.allocated)
                    && b.freed.starts_with(&a.freed)
                    && b.other.starts_with(&a.other);
                assert!(same, "{name} at {end}: {a:#?}\n{b:#?}");
            }
        }
    }
}

#[test]
fn a_log_that_lost_its_beginning_still_tells_by_its_summary() {
    let log = &logs()["gcc-heap_overflow"];
    let start = log.windows(7).position(|w| w == b"SUMMARY").unwrap();
    let scan = parse(&log[start - 40..]);
    assert_eq!(scan.alerts.len(), 1);
    assert_eq!(scan.alerts[0].kind, "heap-buffer-overflow");
    assert_eq!(id(&scan.alerts[0]), id(&parse(log).alerts[0]));
}

#[test]
fn repeated_reports_are_one_alert_and_different_faults_are_not() {
    let logs = logs();
    let ids =
        |name: &str| -> BTreeSet<AlertId> { parse(&logs[name]).alerts.iter().map(id).collect() };
    let log = [&logs["gcc-several"][..], &logs["gcc-several"][..]].concat();
    assert_eq!(parse(&log).alerts.len(), 6);
    assert_eq!(
        parse(&log)
            .alerts
            .iter()
            .map(id)
            .collect::<BTreeSet<_>>()
            .len(),
        3
    );
    let undefined = parse(&logs["clang-undefined-stack"]).alerts;
    assert_eq!(
        undefined.iter().map(id).collect::<BTreeSet<_>>().len(),
        undefined.len()
    );
    // Two calls of one leaking function: the same chain of project frames but for `main`'s line.
    assert_eq!(parse(&logs["gcc-leak"]).alerts.len(), 3);
    assert_eq!(ids("gcc-leak").len(), 2);
    assert_eq!(ids("gcc-leak"), ids("clang-leak"));
}

#[test]
fn a_moved_line_is_the_same_alert_and_a_changed_one_is_not() {
    let logs = logs();
    let log = String::from_utf8(logs["gcc-heap_overflow"].clone()).unwrap();
    let before = &parse(log.as_bytes()).alerts[0];
    let moved = log.replace("heap_overflow.c:8", "heap_overflow.c:108");
    let moved = &parse(moved.as_bytes()).alerts[0];
    let shifted = |path: &str, line: u32| source_line(path, line.checked_sub(100)?);
    assert_eq!(id(before), unique_key(moved, project, shifted));
    assert_ne!(id(before), id(moved));
    let without = |a: &Alert| unique_key(a, project, |_: &str, _: u32| None);
    assert_eq!(without(before), without(moved));
    let dotted = log.replace("/build/heap", "/build/./lib/../heap");
    assert_eq!(id(before), id(&parse(dotted.as_bytes()).alerts[0]));
    let elsewhere = log.replace("in sum ", "in total ");
    assert_ne!(id(before), id(&parse(elsewhere.as_bytes()).alerts[0]));
}

#[test]
fn reports_of_two_processes_in_one_log_are_both_read() {
    let logs = logs();
    let (one, two) = (&logs["gcc-use_after_free"], &logs["gcc-stack_overflow"]);
    let lines = |log: &[u8]| -> Vec<Vec<u8>> {
        log.split_inclusive(|b| *b == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    };
    // Headers first, then the first's stack, then the second's.
    let (a, b) = (lines(one), lines(two));
    let mixed: Vec<u8> = [&a[..2], &b[..2], &a[2..], &b[2..]].concat().concat();
    let (mixed, a, b) = (
        parse(&mixed).alerts,
        &parse(one).alerts[0],
        &parse(two).alerts[0],
    );
    assert_eq!(mixed.len(), 2);
    assert_eq!((&mixed[0].frames, &mixed[1].frames), (&a.frames, &b.frames));
    // UBSan of another process in the middle of a stack, and a test runner's line.
    let mut lines = lines(one);
    lines.insert(4, b"ok 3 - reads\nx.c:7:2: runtime error: division by zero\n    #0 0x1 in f /build/x.c:7\n    #1 0x2 in g /build/x.c:9\n\n".to_vec());
    let mixed = parse(&lines.concat()).alerts;
    assert_eq!(mixed[0].frames, a.frames);
    assert_eq!(mixed[1].frames.len(), 2);
}

#[test]
fn coloured_logs_and_carriage_returns_change_nothing() {
    for (name, log) in logs() {
        let text = String::from_utf8(log.clone()).unwrap();
        let dressed = text
            .replace("==ERROR", "\x1b[1m\x1b[31m==ERROR")
            .replace("READ of", "\x1b[1m\x1b[34mREAD of")
            .replace(
                "runtime error: ",
                "\x1b[1m\x1b[31mruntime error: \x1b[1m\x1b[0m",
            )
            .replace('\n', "\x1b[0m\r\n");
        let kinds = |log: &[u8]| parse(log).alerts.iter().map(id).collect::<Vec<_>>();
        assert_eq!(kinds(log), kinds(dressed.as_bytes()), "{name}");
    }
}

#[test]
fn a_program_that_speaks_of_runtime_errors_is_not_believed_without_a_place() {
    for text in [
        "Notice: runtime error: bad\n",
        "runtime error: x\n",
        "a: b: runtime error: x\n",
    ] {
        assert_eq!(parse(text.as_bytes()), Scan::default(), "{text}");
    }
    let told = parse(b"x.c:3:1: runtime error: load of 12 odd things at 'place' was refused\n");
    assert_eq!(told.alerts[0].kind, "load-of-odd-things-at-was-refused");
}

#[test]
fn what_gcc_says_here_and_now_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    for (program, kind, class, function) in [
        (
            "heap_overflow",
            "heap-buffer-overflow",
            Class::Spatial,
            "sum",
        ),
        (
            "heap_write_memcpy",
            "heap-buffer-overflow",
            Class::Spatial,
            "fill",
        ),
        (
            "stack_overflow",
            "stack-buffer-overflow",
            Class::Spatial,
            "put",
        ),
        (
            "global_overflow",
            "global-buffer-overflow",
            Class::Spatial,
            "look",
        ),
        (
            "use_after_free",
            "heap-use-after-free",
            Class::Temporal,
            "set",
        ),
        ("double_free", "double-free", Class::Temporal, "drop"),
        ("segv_wild", "SEGV", Class::Segv, "look"),
        (
            "several",
            "signed-integer-overflow",
            Class::Undefined,
            "grow",
        ),
    ] {
        let binary = dir.path().join(program);
        let status = Command::new("gcc")
            .args([
                "-g",
                "-w",
                "-fsanitize=address,undefined",
                "-static-libasan",
                "-static-libubsan",
            ])
            .arg("-fsanitize-recover=address,undefined")
            .arg(folder().join(program).with_extension("c"))
            .arg("-o")
            .arg(&binary)
            .status()
            .unwrap();
        assert!(status.success(), "{program}");
        let log = dir.path().join(format!("{program}.log"));
        let options = format!(
            "log_path={}:detect_leaks=0:halt_on_error=0:print_stacktrace=1",
            log.display()
        );
        let mut child = Command::new(&binary)
            .env("ASAN_OPTIONS", &options)
            .env("UBSAN_OPTIONS", &options)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let text = std::fs::read(format!("{}.{pid}", log.display())).unwrap();
        let scan = parse(&text);
        let ours = |path: &str| path.ends_with(&format!("{program}.c"));
        let found = scan.alerts.iter().find(|a| a.kind == kind);
        let found = found.unwrap_or_else(|| panic!("{program}: {scan:#?}"));
        assert_eq!(found.class, class, "{program}");
        let top = found.top_project_frame(ours).unwrap();
        assert_eq!(top.function.as_deref(), Some(function), "{program}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn no_mixture_of_real_lines_makes_it_panic_or_lose_a_frame_twice(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..60)
    ) {
        let logs: Vec<&Vec<u8>> = logs().values().collect();
        let mut log = Vec::new();
        let mut frames = 0;
        for (which, line, noise) in picks {
            let lines: Vec<&[u8]> = which.get(&logs).split(|b| *b == b'\n').collect();
            let line = line.get(&lines);
            log.extend_from_slice(line);
            match noise {
                0..=9 => {}
                10..=19 => log.push(noise),
                _ => log.push(b'\n'),
            }
            frames += line.starts_with(b"    #") as usize;
        }
        let scan = parse(&log);
        let given: usize = scan.alerts.iter()
            .map(|a| a.frames.len() + a.allocated.len() + a.freed.len() + a.other.len()).sum();
        // A SUMMARY line without its report stands for one frame.
        prop_assert!(given <= frames + scan.alerts.len());
        for alert in &scan.alerts { let _ = id(alert); }
    }
}
