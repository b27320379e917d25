//! What commands of real builds are understood as, and how they are replayed.

use super::understand::{Understood, understand};
use super::*;
use crate::oss::artifact::{Step, Unit};

fn recorded(tool: &str, line: &str) -> Recorded {
    Recorded {
        tool: tool.into(),
        argv: line.split(' ').map(str::to_string).collect(),
        cwd: "/eb/tree/build".into(),
        harness: false,
    }
}

fn understood(tool: &str, line: &str) -> Understood {
    understand(&recorded(tool, line), &|path| path == "build/lib/libx.a")
}

fn step(tool: &str, line: &str) -> Step {
    match steps(tool, line).as_slice() {
        [step] => step.clone(),
        other => panic!("{other:?}"),
    }
}

fn steps(tool: &str, line: &str) -> Vec<Step> {
    match understood(tool, line) {
        Understood::Make(steps) => steps,
        other => panic!("{other:?}"),
    }
}

fn unit(line: &str) -> Unit {
    Unit {
        tool: "cc".into(),
        argv: line.split(' ').map(str::to_string).collect(),
        cwd: "/eb/tree/build".into(),
        source: "src/a.c".into(),
        object: "build/a.o".into(),
        reads: Vec::new(),
        harness: false,
        preprocessed: crate::digest::Digest::of(b""),
        symbols: crate::digest::Digest::of(b""),
        placed: None,
    }
}

#[test]
fn a_compilation_names_its_source_and_object() {
    let pairs = |line| match understood("cc", line) {
        Understood::Compile(pairs) => pairs,
        other => panic!("{other:?}"),
    };
    let expected = vec![("src/a.c".to_string(), "build/x/a.c.o".to_string())];
    assert_eq!(
        pairs("-I ../src -O0 -MD -MF a.d -o x/a.c.o -c ../src/a.c"),
        expected
    );
    assert_eq!(pairs("-c /eb/tree/src/a.c -ox/a.c.o"), expected);
    assert_eq!(
        pairs("-c ../src/a.c b.c"),
        vec![
            ("src/a.c".into(), "build/a.o".into()),
            ("build/b.c".into(), "build/b.o".into())
        ]
    );
    assert_eq!(understood("cc", "-E a.c"), Understood::Nothing);
    assert_eq!(understood("cc", "--version"), Understood::Nothing);
}

#[test]
fn archives_and_links_name_their_files() {
    let ar = step("ar", "qc libonig.a x/a.o x/b.o");
    assert_eq!(ar.output, "build/libonig.a");
    assert_eq!(
        ar.inputs,
        [(2, "build/x/a.o".into()), (3, "build/x/b.o".into())]
    );
    assert_eq!(understood("ar", "t libonig.a"), Understood::Nothing);
    assert_eq!(step("ranlib", "libonig.a").output, "build/libonig.a");
    let link = step("cc", "-g t.o -o t -Llib -lx -lm libonig.a");
    assert_eq!(link.output, "build/t");
    assert_eq!(
        link.inputs,
        [
            (1, "build/t.o".into()),
            (5, "build/lib/libx.a".into()),
            (7, "build/libonig.a".into())
        ]
    );
    assert_eq!(step("cc", "a.c b.o").output, "build/a.out");
}

#[test]
fn every_use_of_a_unit_keeps_its_flags_and_drops_its_outputs() {
    let unit = unit("-I ../src -DX=1 -MD -MT a.o -MF a.d -o a.o -c ../src/a.c");
    assert_eq!(
        syntax_only(&unit).join(" "),
        "-I ../src -DX=1 ../src/a.c -fsyntax-only"
    );
    assert_eq!(
        preprocess(&unit).join(" "),
        "-I ../src -DX=1 ../src/a.c -E -dD"
    );
    assert_eq!(
        compile_to(&unit, "/eb/out/a.o").join(" "),
        "-I ../src -DX=1 ../src/a.c -c -o /eb/out/a.o"
    );
}

#[test]
fn one_source_of_several_is_singled_out() {
    let argv: Vec<String> = ["-c", "../src/a.c", "b.c"].map(str::to_string).to_vec();
    assert_eq!(
        only(&argv, "/eb/tree/build", "src/a.c"),
        ["-c", "../src/a.c"]
    );
}

#[test]
fn a_change_reaches_archives_filled_twice_and_what_links_them() {
    let steps = [
        step("ar", "qc one.a a.o"),
        step("ar", "q one.a b.o"),
        step("ranlib", "one.a"),
        step("ar", "qc two.a c.o"),
        step("cc", "-o t t.o one.a"),
        step("cc", "-o u u.o two.a"),
    ];
    let reached = reached(&steps, &["build/b.o".into()]);
    let outputs: Vec<&str> = reached.iter().map(|s| s.output.as_str()).collect();
    assert_eq!(
        outputs,
        ["build/one.a", "build/one.a", "build/one.a", "build/t"]
    );
}

#[test]
fn replayed_commands_write_beside_the_tree_and_read_under_their_own_names() {
    let replayed = |tool: &str, line: &str| retarget(&step(tool, line)).join(" ");
    assert_eq!(
        replayed("ar", "qc one.a a.o b.o"),
        "qc /eb/out/build/one.a a.o b.o"
    );
    assert_eq!(
        replayed("cc", "-o t a.o -Llib -lx"),
        "-o /eb/out/build/t a.o -Llib -lx"
    );
    assert_eq!(replayed("cc", "a.o"), "a.o -o /eb/out/build/a.out");
    assert_eq!(
        replayed("cc", "a.o -Wl,--cref,-Map=t.map -ot"),
        "a.o -Wl,--cref,-Map=/eb/out/map -o/eb/out/build/t"
    );
    assert_eq!(replayed("strip", "-g t -o u"), "-g t -o /eb/out/build/u");
}

#[test]
fn what_works_on_finished_files_is_a_step() {
    let edit = step("objcopy", "--weaken -j .text a.o b.o");
    assert_eq!(edit.output, "build/b.o");
    assert_eq!(edit.inputs, [(3, "build/a.o".into())]);
    let alone = steps("strip", "-g t u");
    let shown: Vec<_> = alone
        .iter()
        .map(|s| (s.argv.join(" "), &s.output))
        .collect();
    let expected = ["build/t".to_string(), "build/u".to_string()];
    assert_eq!(
        shown,
        [("-g t".into(), &expected[0]), ("-g u".into(), &expected[1])]
    );
    assert!(alone.iter().all(continues));
    let partial = step("ld", "-m elf_x86_64 -r -o all.o a.o b.o");
    assert_eq!(partial.output, "build/all.o");
    assert_eq!(
        partial.inputs,
        [(5, "build/a.o".into()), (6, "build/b.o".into())]
    );
    let whole = step(
        "cc",
        "-shared t.o -Wl,--whole-archive,lib/libx.a,--no-whole-archive -o x.so",
    );
    assert_eq!(
        whole.inputs,
        [(1, "build/t.o".into()), (2, "build/lib/libx.a".into())]
    );
}

#[test]
fn a_command_that_compiles_and_links_is_taken_apart_as_the_driver_does() {
    let parts = |line: &str| {
        let argv: Vec<String> = line.split(' ').map(str::to_string).collect();
        let parts = split("cc", &argv, "/eb/tree/build")?;
        let shown = parts.iter().map(|p| p.argv.join(" "));
        let shown: Vec<String> = shown.collect();
        let hash = regex::Regex::new("[0-9a-f]{12}").expect("a constant");
        Some(hash.replace_all(&shown.join("\n"), "HASH").into_owned())
    };
    insta::assert_snapshot!(parts("-O1 -DX -x c ../a.c b.c -x none x.o -Llib -lx -Wl,-z,now -MD -o t -lm").unwrap(), @r"
    -O1 -DX -x c ../a.c -x none -c -o /eb/tree/.everbench/HASH/a.o
    -O1 -DX -x c b.c -x none -c -o /eb/tree/.everbench/HASH/b.o
    -O1 -DX /eb/tree/.everbench/HASH/a.o /eb/tree/.everbench/HASH/b.o x.o -Llib -lx -Wl,-z,now -lm -o /eb/tree/build/t
    ");
    insta::assert_snapshot!(parts("a.c -MMD -MF a.d").unwrap(), @r"
    a.c -MMD -MF a.d -c -o /eb/tree/.everbench/HASH/a.o
    /eb/tree/.everbench/HASH/a.o -o /eb/tree/build/a.out
    ");
    insta::assert_snapshot!(parts("-c a.c b.c -DX").unwrap(), @r"
    -c a.c -DX
    -c b.c -DX
    ");
    assert_eq!(parts("-c a.c -o a.o"), None);
    assert_eq!(parts("-E a.c"), None);
    assert_eq!(parts("a.o -o t"), None);
    assert_eq!(parts("a.c -o /tmp/t"), None);
}
