//! Variants that make the compiler work without end: each must end within its limits, as a verdict
//! of its own, and leave nothing behind.

use std::time::Duration;

use everbench::engine::fold;
use everbench::exec::runner::compiler_limits;

use super::support::*;

/// A chain of macros, each the one before it twice.
fn doubling(first: &str, joined: &str, levels: usize) -> String {
    let mut text = format!("\n#define B0 {first}\n");
    for i in 1..=levels {
        text += &format!("#define B{i} B{p}{joined}B{p}\n", p = i - 1);
    }
    text
}

fn bombs() -> Vec<(&'static str, Edit)> {
    let many = |n: usize, f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<String>();
    vec![
        (
            "macros without end",
            Body(doubling("year", " + ", 40) + "year = B40;"),
        ),
        (
            "a string without end",
            Body(doubling("\"0123456789abcdef\"", " ", 40) + "year = sizeof(B40);"),
        ),
        (
            "a file that includes itself twice",
            body("#include \"calendar.c\"\n#include \"calendar.c\""),
        ),
        ("an endless device", body("#include \"/dev/zero\"")),
        (
            "an endless device, for the assembler",
            body("__asm__(\".include \\\"/dev/zero\\\"\");"),
        ),
        (
            "binary data without end",
            body("__asm__(\".incbin \\\"/dev/zero\\\"\");"),
        ),
        (
            "its own output as input",
            body("#include \"/proc/self/fd/2\""),
        ),
        ("an input that never comes", body("#include \"/dev/tty\"")),
        (
            "instructions without end",
            body("__asm__(\".rept 2000000000\\nnop\\nnop\\nnop\\nnop\\n.endr\");"),
        ),
        (
            "a file without end",
            body("__asm__(\".data\\n.fill 1 << 42, 1, 7\\n.text\");"),
        ),
        (
            "an object without end",
            body("static char a[1UL << 40] = {1}; year += a[year];"),
        ),
        (
            "errors without end",
            Body(many(150_000, &|i| {
                format!("undeclared_name_number_{i}++;\n")
            })),
        ),
        (
            "300,000 conditions in one another",
            Body(format!("{}year = 1;", "if (year) ".repeat(300_000))),
        ),
        (
            "600,000 nested parentheses",
            Body(format!(
                "year = {}year{};",
                "(".repeat(600_000),
                ")".repeat(600_000)
            )),
        ),
        (
            "600,000 nested blocks",
            Body(format!(
                "{}year = 1;{}",
                "if (year) {".repeat(600_000),
                "}".repeat(600_000)
            )),
        ),
    ]
}

#[test]
fn what_compiles_without_end_ends() {
    let mut limits = compiler_limits();
    limits.cpu = Duration::from_secs(2);
    limits.wall = Duration::from_secs(6);
    limits.memory = 512 << 20;
    limits.file_size = 128 << 20;
    limits.disk = 128 << 20;
    limits.output = 4 << 20;
    let mut lab = Lab::open(TIDELIB, tidelib_dir(), Some(limits));
    let one = |(what, edit)| Try {
        what,
        function: "src/calendar.c:td_is_leap",
        edit,
        expect: Fails,
    };
    let all: Vec<Try> = bombs().into_iter().map(one).collect();
    let judged = lab.drive(None, |db, settings, subject| {
        fold(all.iter().map(|t| judge(db, settings, subject, t, false)))
    });
    for (one, judged) in all.iter().zip(&judged) {
        match judged {
            Judged::Compiled { verdict, .. } => {
                assert!(!verdict.compiles, "{}: {verdict:?}", one.what);
                assert!(verdict.error.is_some() && verdict.stage.is_some());
            }
            Judged::Refused(..) => panic!("{}: {judged:?}", one.what),
        }
    }
}
