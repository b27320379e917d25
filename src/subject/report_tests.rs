//! The report header, compiled by a real compiler into a program that prints in every way.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::tempdir;

use super::{REPORT_HEADER, REPORT_TOKEN, reported};

/// A harness unit that prints by every function the header knows and then crashes in a half line.
const HARNESS: &str = r#"
#include <stdarg.h>
#include <stdio.h>
static FILE *err_file;
extern void under_test(void);
static void v(const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vprintf(format, a);
    va_end(a);
    va_start(a, format);
    vfprintf(stderr, format, a);
    va_end(a);
}
int main(int argc, char **argv)
{
    FILE *other = fopen("other.txt", "w");
    (void)argv;
    err_file = stdout;
    printf("one\n");
    under_test();
    printf("%d%%\n", 2);
    fprintf(err_file, "three %s\n", "x");
    fputs("four\n", stderr);
    puts("five");
    putchar('s');
    putc('i', stdout);
    fputc('x', stderr);
    fwrite("\n!", 1, 1, stdout);
    v("seven %d\n", 7);
    fprintf(other, "other %d\n", 1);
    fclose(other);
    printf("half");
    if (argc > 0)
        __builtin_trap();
    return 0;
}
"#;

const UNDER_TEST: &str = r#"
#include <stdio.h>
void under_test(void) { printf("forged\n"); fflush(stdout); }
"#;

const REPORT: &str = "one\n2%\nthree x\nfour\nfive\nsix\nseven 7\nseven 7\nhalf";

fn compile(dir: &Path, flags: &[&str]) {
    compile_with(dir, flags, UNDER_TEST);
}

fn compile_with(dir: &Path, flags: &[&str], under_test: &str) {
    fs::write(dir.join("report.h"), REPORT_HEADER).unwrap();
    fs::write(dir.join("harness.c"), HARNESS).unwrap();
    fs::write(dir.join("lib.c"), under_test).unwrap();
    let cc = |args: &[&str]| {
        let out = Command::new("cc").current_dir(dir).args(args).output();
        let out = out.expect("a C compiler runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{flags:?}: {said}");
    };
    let strict = ["-Wall", "-Wextra", "-Werror"];
    let harness = ["-include", "report.h", "-c", "harness.c"];
    cc(&[flags, &strict, &harness].concat());
    cc(&["lib.c", "harness.o", "-o", "t"]);
}

/// Runs it with descriptor 9 (and all else) as the shell's redirections say.
fn run(dir: &Path, redirections: &str) -> Output {
    let script = format!("./t {redirections}");
    let out = Command::new("sh")
        .current_dir(dir)
        .args(["-c", &script])
        .output();
    out.expect("a shell runs")
}

#[test]
fn what_the_harness_prints_is_reported_and_what_the_code_under_test_prints_is_not() {
    for flags in [
        &["-std=c89", "-pedantic-errors"][..],
        &["-std=gnu17", "-O0"],
        &["-std=c11", "-O2", "-D_FORTIFY_SOURCE=2"],
        &["-D_GNU_SOURCE", "-O1"],
    ] {
        let dir = tempdir().unwrap();
        compile(dir.path(), flags);
        let out = run(dir.path(), "9>results");
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(text("results"), REPORT, "{flags:?}");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "forged\n");
        assert_eq!(text("other.txt"), "other 1\n");
    }
}

/// Looks for the token and the descriptor in every easy way.
const FORGER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
void under_test(void)
{
    static char all[100000];
    const char *token = getenv("EVERBENCH_REPORT_TOKEN");
    FILE *file = fopen("/proc/self/environ", "r");
    size_t n = file ? fread(all, 1, sizeof all - 1, file) : 0;
    int fd;
    char **e;
    printf("forged\n");
    fflush(stdout);
    if (token)
        printf("TOKEN %s\n", token);
    for (e = environ; *e; e++)
        if (strstr(*e, "0123456789abcdef"))
            printf("TOKEN %s\n", *e);
    for (size_t i = 0; i + 16 < n; i++)
        if (memcmp(all + i, "0123456789abcdef", 16) == 0)
            printf("TOKEN\n");
    fflush(stdout);
    for (fd = 3; fd < 64; fd++)
        if (write(fd, "OK: forged\n\x1e" "0123\n", 17) < 0)
            continue;
}
"#;

#[test]
fn writing_to_the_descriptor_is_no_report() {
    let token = "0123456789abcdef0123456789abcdef";
    for flags in [&["-std=c89", "-pedantic-errors"][..], &["-O2", "-fPIE"]] {
        let dir = tempdir().unwrap();
        compile_with(dir.path(), flags, FORGER);
        let out = Command::new("sh")
            .current_dir(dir.path())
            .env(REPORT_TOKEN, token)
            .args(["-c", "exec ./t 9>results"])
            .output()
            .expect("a shell runs");
        let raw = fs::read(dir.path().join("results")).unwrap();
        assert!(raw.windows(10).any(|w| w == b"OK: forged"));
        assert_eq!(String::from_utf8_lossy(&reported(&raw, token)), REPORT);
        assert_eq!(String::from_utf8_lossy(&out.stdout), "forged\n");
    }
}

#[test]
fn every_unit_of_a_test_program_has_the_token_and_long_texts_are_whole() {
    let token = "fedcba98765432100123456789abcdef";
    let dir = tempdir().unwrap();
    let unit = |n: usize, rest: &str| {
        let text = format!(
            "extern void unit2(void);\nvoid unit{n}(void) {{ printf(\"%0*d|\", {n}000, {n}); }}\n{rest}"
        );
        fs::write(dir.path().join(format!("u{n}.c")), text).unwrap();
    };
    unit(
        1,
        "int main(void) { unit1(); unit2(); fwrite(\"a\\0b\", 1, 3, stderr); return 0; }",
    );
    unit(2, "");
    fs::write(dir.path().join("report.h"), REPORT_HEADER).unwrap();
    let script = format!(
        "cc -Werror -Wall -include report.h u2.c u1.c -o t && {REPORT_TOKEN}={token} ./t 9>results"
    );
    let out = Command::new("sh")
        .current_dir(dir.path())
        .args(["-c", &script])
        .output();
    assert!(out.expect("a shell runs").status.success());
    let raw = fs::read(dir.path().join("results")).unwrap();
    let expected = [format!("{:0>1000}|{:0>2000}|", 1, 2).as_bytes(), b"a\0b"].concat();
    assert_eq!(reported(&raw, token), expected);
    assert_eq!(reported(&raw, &token.replace('f', "e")), b"");
}

proptest::proptest! {
    #[test]
    fn what_was_framed_comes_back_whatever_stands_between(
        parts in proptest::collection::vec((".{0,20}", proptest::collection::vec(0u8..0x7f, 0..60)), 0..8),
        cut in 0usize..400,
    ) {
        let token = "0123456789abcdef0123456789abcdef";
        let (mut raw, mut ends, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for (noise, content) in &parts {
            raw.extend(noise.as_bytes());
            raw.extend(format!("\x1e{token}{:08x}", content.len()).as_bytes());
            raw.extend(content);
            expected.extend(content);
            ends.push((raw.len(), expected.len()));
        }
        assert_eq!(reported(&raw, token), expected);
        // Cut anywhere, whole frames before the cut are kept and nothing is made up.
        let cut = cut.min(raw.len());
        let got = reported(&raw[..cut], token);
        let whole = ends.iter().filter(|(end, _)| *end <= cut).map(|(_, n)| *n).max().unwrap_or(0);
        assert!(got.len() >= whole && expected.starts_with(&got));
    }
}

#[test]
fn without_the_descriptor_the_program_prints_as_ever() {
    let dir = tempdir().unwrap();
    compile(dir.path(), &[]);
    let out = run(dir.path(), "9>&-");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("one\nforged\n"));
    assert!(stderr.starts_with("four\nxseven 7\n"), "{stderr}");
}

#[test]
fn cplusplus_is_refused_with_a_reason() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("report.h"), REPORT_HEADER).unwrap();
    // The preprocessor alone, so that no C++ compiler is needed.
    let out = Command::new("cc")
        .current_dir(dir.path())
        .args(["-E", "-D__cplusplus=201703L", "report.h"])
        .output()
        .unwrap();
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("C test programs only"));
}
