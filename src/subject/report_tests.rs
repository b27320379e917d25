//! The report header, compiled by a real compiler into a program that prints in every way.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::tempdir;

use super::REPORT_HEADER;

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
    fs::write(dir.join("report.h"), REPORT_HEADER).unwrap();
    fs::write(dir.join("harness.c"), HARNESS).unwrap();
    fs::write(dir.join("lib.c"), UNDER_TEST).unwrap();
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
