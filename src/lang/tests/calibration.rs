//! Calibration edits do what they say, by a real compiler and real runs of a program that prints
//! the results of functions of many shapes.

use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;

use super::c;
use super::functions::c_like;
use crate::digest::Digest;
use crate::lang::calibration::{Edit, MenuItem, menu};
use crate::lang::{Definition, Splice, functions, splice};

const PROGRAM: &[u8] = include_bytes!("../../../fixtures/lang/calibration.c");

/// Every function but `main`, with its menu.
fn menus() -> Vec<(Definition, Vec<MenuItem>)> {
    let found = functions(&c(), PROGRAM);
    assert!(found.skipped.is_empty());
    let mut all: Vec<_> = found
        .definitions
        .into_iter()
        .map(|d| {
            let menu = menu(&c(), &d, PROGRAM);
            (d, menu)
        })
        .collect();
    all.retain(|(d, _)| d.name != "main");
    assert_eq!(all.len(), 13);
    all
}

/// The program with one item for each of some functions.
fn with<'a>(items: impl Iterator<Item = (&'a Definition, &'a MenuItem)>) -> Vec<u8> {
    let splices: Vec<Splice> = items
        .map(|(d, item)| Splice {
            range: d.span.clone(),
            expected: Digest::of(&PROGRAM[d.span.clone()]),
            replacement: item.text.clone(),
        })
        .collect();
    splice(PROGRAM, &splices).unwrap()
}

/// Compiles and links; what the compiler says when it does not.
fn build(dir: &Path, text: &[u8], flags: &[&str]) -> Result<std::path::PathBuf, String> {
    let (source, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&source, text).unwrap();
    let out = Command::new("cc")
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    match out.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
    }
}

fn run(program: &Path) -> Output {
    Command::new("timeout")
        .arg("10")
        .arg(program)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap()
}

/// All warnings are errors but those of the program itself.
const STRICT: [&str; 7] = [
    "-std=gnu89",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wdeclaration-after-statement",
    "-Wno-multistatement-macros",
    "-Wno-dangling-else",
];

fn expected(dir: &Path) -> Vec<u8> {
    run(&build(dir, PROGRAM, &STRICT).unwrap()).stdout
}

#[test]
fn preserving_edits_and_planted_errors_keep_the_behaviour() {
    let dir = tempfile::tempdir().unwrap();
    let menus = menus();
    let expected = expected(dir.path());
    for edit in [Edit::Unchanged, Edit::Preserving, Edit::PlantsMemoryError] {
        for index in 0..4 {
            let chosen = menus.iter().filter_map(|(d, menu)| {
                let item = menu.iter().find(|i| (i.edit, i.index) == (edit, index));
                item.map(|i| (d, i))
            });
            let text = with(chosen);
            assert_eq!(
                text == PROGRAM,
                edit == Edit::Unchanged || (edit, index) == (Edit::Preserving, 3)
            );
            for optimised in ["-O0", "-O2"] {
                let flags = [&STRICT[..], &[optimised]].concat();
                let program = build(dir.path(), &text, &flags)
                    .unwrap_or_else(|e| panic!("{edit:?} {index}: {e}"));
                let out = run(&program);
                assert!(
                    out.status.success() && out.stdout == expected,
                    "{edit:?} {index}"
                );
            }
        }
    }
}

#[test]
fn every_function_has_a_rewrite_that_is_more_than_a_block_or_none_to_make() {
    for (d, menu) in menus() {
        let first = menu.iter().find(|i| i.edit == Edit::Preserving).unwrap();
        let expected = match d.name.as_str() {
            "with_labels" => "rewritten",
            "add_to_total" => "nested_block",
            _ => "rewritten",
        };
        assert_eq!(first.how, expected, "{}", d.name);
    }
}

#[test]
fn what_breaks_compilation_does_not_build() {
    let dir = tempfile::tempdir().unwrap();
    for (d, menu) in menus() {
        let items: Vec<_> = menu
            .iter()
            .filter(|i| i.edit == Edit::BreaksCompile)
            .collect();
        assert_eq!(items.len(), 4);
        for item in items {
            let text = with([(&d, item)].into_iter());
            let error = build(dir.path(), &text, &["-std=gnu89", "-w"]);
            assert!(error.is_err(), "{} {}", d.name, item.how);
            // The compiler itself must reject it: a linker only sees what a program pulls in, and
            // then what was planted could not be counted exactly.
            let error = error.unwrap_err();
            assert!(
                !error.contains("undefined reference"),
                "{} {}: {error}",
                d.name,
                item.how
            );
        }
    }
}

#[test]
fn what_breaks_behaviour_builds_and_shows() {
    let dir = tempfile::tempdir().unwrap();
    let expected = expected(dir.path());
    for (d, menu) in menus() {
        let mut shown = 0;
        for item in menu.iter().filter(|i| i.edit == Edit::BreaksBehaviour) {
            let text = with([(&d, item)].into_iter());
            let program = build(dir.path(), &text, &["-std=gnu89", "-w"])
                .unwrap_or_else(|e| panic!("{} {}: {e}", d.name, item.how));
            shown += usize::from(run(&program).stdout != expected);
        }
        assert!(shown > 0, "{}", d.name);
    }
}

#[test]
fn planted_errors_are_reported_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    for (d, menu) in menus() {
        for (how, report) in [
            ("heap_overflow", "heap-buffer-overflow"),
            ("use_after_free", "heap-use-after-free"),
            ("stack_overflow", "stack-buffer-overflow"),
            ("signed_overflow", "signed integer overflow"),
        ] {
            // One function of each shape is enough for three of the kinds.
            if how != "heap_overflow" && d.name != "sum_of" && d.name != "mirror" {
                continue;
            }
            let item = menu.iter().find(|i| i.how == how).unwrap();
            let text = with([(&d, item)].into_iter());
            let flags = [
                "-std=gnu89",
                "-w",
                "-g",
                "-O1",
                "-fsanitize=address,undefined",
            ];
            let program = build(dir.path(), &text, &flags).unwrap();
            let out = run(&program);
            let error = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(error.contains(report), "{} {how}: {error}", d.name);
        }
    }
}

#[test]
fn lines_stay_where_they_were() {
    for (d, menu) in menus() {
        let lines = |text: &[u8]| text.iter().filter(|c| **c == b'\n').count();
        let before = lines(&PROGRAM[d.span.clone()]);
        for item in menu {
            assert_eq!(lines(&item.text), before, "{} {}", d.name, item.how);
        }
    }
}

proptest! {
    /// Any function gives a menu, and every text of it but those meant to be broken is read as
    /// the same function again.
    #[test]
    fn any_function_has_a_menu_of_the_same_function(source in c_like()) {
        for d in functions(&c(), &source).definitions {
            let found = menu(&c(), &d, &source);
            prop_assert_eq!(&found[0].text[..], &source[d.span.clone()]);
            for item in found.iter().filter(|i| i.edit != Edit::BreaksCompile) {
                let again = functions(&c(), &item.text).definitions;
                prop_assert_eq!(again.len(), 1, "{}: {}", item.how, String::from_utf8_lossy(&item.text));
                prop_assert_eq!(&again[0].name, &d.name);
            }
        }
    }
}
