//! C++: what is found in a file, what of it the compiler sees, what becomes of replies, and that
//! calibration edits do what they say, by a real compiler and real runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;

use super::cpp;
use super::functions::{c_like, told};
use crate::digest::Digest;
use crate::lang::calibration::{Edit, MenuItem, menu};
use crate::lang::{
    Definition, ExtraKind, LanguageId, Note, Reality, Refusal, Splice, StrippedUnit, Variant,
    function_alone, functions, intersect, is_called, splice, variant_of,
};

const SHAPES: &[u8] = include_bytes!("../../../fixtures/lang/functions.cpp");
const PROGRAM: &[u8] = include_bytes!("../../../fixtures/lang/calibration.cpp");

#[test]
fn every_shape_is_found_named_and_delimited() {
    insta::assert_snapshot!(told(&cpp(), SHAPES));
}

/// The text of a file as g++ gets it.
fn preprocessed(path: &str, text: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(path);
    std::fs::write(&file, text).unwrap();
    let out = Command::new("g++")
        .args(["-std=c++20", "-E", path])
        .current_dir(dir.path())
        .output()
        .expect("g++ is needed: apt-get install g++");
    assert!(out.status.success());
    out.stdout
}

#[test]
fn what_the_file_shows_is_what_the_compiler_gets() {
    let found = functions(&cpp(), SHAPES);
    let text = preprocessed("shapes.cpp", SHAPES);
    let unit = StrippedUnit::new(&cpp(), &text);
    let seen = intersect(
        LanguageId::CPP,
        &found,
        SHAPES,
        "shapes.cpp",
        &[unit.definitions()],
        &|_, name| name.to_string(),
    );
    let absent: Vec<&str> = seen
        .definitions
        .iter()
        .filter(|(_, r)| *r == Reality::NotCompiled)
        .map(|(d, _)| d.name.as_str())
        .collect();
    assert_eq!(absent, ["Stack::never"]);
    let only: Vec<(&str, String)> = seen
        .only_compiled
        .iter()
        .map(|o| (o.name.as_str(), o.reason.to_string()))
        .collect();
    assert_eq!(
        only,
        [
            ("Stack::get_count", "macro_defined".to_string()),
            ("split", "split_by_ifdef".to_string())
        ]
    );
    // The standard library is read without losing the place: what is behind it has its own name.
    let names: Vec<&str> = unit.definitions().iter().map(|d| d.name.as_str()).collect();
    assert!(names.contains(&"shop::in_a_macro"));
    assert!(
        names.contains(&"std::exception::exception"),
        "{}",
        names.len()
    );
}

#[test]
fn a_body_is_part_of_the_context_only_where_others_can_see_it() {
    let text = |f: &str, t: &str| {
        format!(
            "int f(int a) {{ return {f}; }}\ntemplate <class T> T g(T t) {{ return {t}; }}\nint h() {{ return g(f(1)); }}\n"
        )
    };
    let digest = |f: &str, t: &str| StrippedUnit::new(&cpp(), text(f, t).as_bytes()).digest();
    assert_eq!(digest("a", "t"), digest("a + 1", "t"));
    assert_ne!(digest("a", "t"), digest("a", "t + 1"));
    let class = |i: &str| {
        let text = format!("struct A {{ A(int a) : a_{{{i}}} {{ }} int a_; }};\n");
        StrippedUnit::new(&cpp(), text.as_bytes()).digest()
    };
    assert_eq!(class("a"), class("a + 1"));
}

#[test]
fn every_function_is_found_again_in_its_own_text() {
    for source in [SHAPES, PROGRAM] {
        for d in functions(&cpp(), source).definitions {
            let alone = function_alone(&cpp(), &source[d.span.clone()], &d.name);
            let alone = alone.unwrap_or_else(|| panic!("{}", d.name));
            assert_eq!(alone.body.len(), d.body.len(), "{}", d.name);
        }
    }
}

#[test]
fn what_a_symbolizer_says_is_told_to_be_the_function() {
    let is = |reported: &str, name: &str| is_called(LanguageId::CPP, reported, name);
    assert!(is("n::A::f(int, std::vector<int> const&) const", "n::A::f"));
    assert!(is("int n::A<int, 4ul>::pop()", "n::A::pop"));
    assert!(is("n::(anonymous namespace)::digits(char)", "n::digits"));
    assert!(is("n::operator<(n::A, n::A)", "n::operator<"));
    assert!(is("main", "main"));
    assert!(!is("n::A::ff(int)", "n::A::f"));
    assert!(!is("n::operator<=(n::A, n::A)", "n::operator<"));
    assert!(!is_called(LanguageId::C, "f(int)", "f"));
}

const CLASS: &str = "namespace n {\nclass A {\n public:\n  /* Adds. */\n  int add(int b) const { return a_ + b; }\n  A(int a) : a_(a) { check(); }\n  int add(int b, int c) const;\n  int a_;\n};\nint A::add(int b, int c) const {\n  return a_ + b + c;\n}\nint add(int a, int b) { return a + b; }\n}\n";

fn variant(name: &str, ordinal: usize, code: &str) -> Result<Variant, Refusal> {
    let found = functions(&cpp(), CLASS.as_bytes()).definitions;
    let d = found
        .iter()
        .find(|d| d.name == name && d.ordinal == ordinal)
        .unwrap();
    let text = &CLASS.as_bytes()[d.span.clone()];
    let alone = function_alone(&cpp(), text, name).unwrap();
    variant_of(&cpp(), &alone, text, code.as_bytes())
}

#[test]
fn a_reply_is_the_function_of_its_place() {
    let text = |v: Result<Variant, Refusal>| String::from_utf8(v.unwrap().text).unwrap();
    let inside = "int add(int b) const { return b + a_; }";
    assert_eq!(
        text(variant("n::A::add", 0, inside)),
        format!("/* Adds. */\n  {inside}")
    );
    let outside = "int A::add(int b, int c) const { return a_ + c + b; }";
    assert_eq!(text(variant("n::A::add", 1, outside)), outside);
    let whole = "int n::A::add(int b, int c) const { return 0; }";
    assert_eq!(text(variant("n::A::add", 1, whole)), whole);
    let constructor = "A(int a) : a_{a} { check(); }";
    assert_eq!(text(variant("n::A::A", 0, constructor)), constructor);
    // For the compiler to reject.
    let qualified = "int A::add(int b) const { return b; }";
    assert!(text(variant("n::A::add", 0, qualified)).ends_with(qualified));
    let helped =
        "static int half(int a) { return a / 2; }\nint add(int b) const { return half(b); }";
    assert_eq!(variant("n::A::add", 0, helped).unwrap().helpers, 1);
    let overload =
        "int add(int b, long c) const { return b; }\nint add(int b) const { return add(b, 1L); }";
    assert_eq!(variant("n::A::add", 0, overload).unwrap().helpers, 1);
    let raw = "int add(int b) const { return R\"(})\"[0] + b; }";
    assert!(
        !variant("n::A::add", 0, raw)
            .unwrap()
            .notes
            .contains(&Note::NotRead)
    );
}

#[test]
fn another_function_is_refused_and_says_why() {
    // Defined beside the member, not in its place.
    let free = "int add(int b, int c) { return b + c; }";
    assert!(matches!(
        variant("n::A::add", 1, free),
        Err(Refusal::WrongName { asked, found }) if asked == "n::A::add" && found == "n::add"
    ));
    let other = "int add(int b, int c) const { return b + c; }";
    assert_eq!(
        variant("n::A::add", 0, other).unwrap_err().to_string(),
        "the code defines `n::A::add` with 2 parameters; the one asked for has 1"
    );
    let twice = "int add(int b) const { return b; }\nint add(long b) const { return b; }";
    assert!(matches!(
        variant("n::A::add", 0, twice),
        Err(Refusal::DuplicateDefinition(_))
    ));
    let kind = |code: &str| match variant("n::add", 0, code) {
        Err(Refusal::ExtraItem { kind, .. }) => kind,
        other => panic!("{code}: {other:?}"),
    };
    let add = "int add(int a, int b) { return a; }";
    assert_eq!(
        kind(&format!("namespace {{ int x() {{ return 1; }} }}\n{add}")),
        ExtraKind::Scope
    );
    assert_eq!(
        kind(&format!("{add}\nclass B {{ int b; }};")),
        ExtraKind::Scope
    );
    assert_eq!(kind(&format!("{add}\nusing std::swap;")), ExtraKind::Type);
    assert_eq!(
        kind(&format!("{add}\nint main() {{ return 0; }}")),
        ExtraKind::Main
    );
}

/// Every function but `main`, with its menu.
fn menus() -> Vec<(Definition, Vec<MenuItem>)> {
    let found = functions(&cpp(), PROGRAM);
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    let mut all: Vec<_> = found
        .definitions
        .into_iter()
        .map(|d| {
            let menu = menu(&cpp(), &d, PROGRAM);
            (d, menu)
        })
        .collect();
    all.retain(|(d, _)| d.name != "main");
    assert_eq!(all.len(), 16);
    all
}

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

fn build(dir: &Path, text: &[u8], flags: &[&str]) -> Result<PathBuf, String> {
    let (source, program) = (dir.join("program.cpp"), dir.join("program"));
    std::fs::write(&source, text).unwrap();
    let out = Command::new("g++")
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("g++ is needed: apt-get install g++");
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

const STRICT: [&str; 4] = ["-std=c++17", "-Wall", "-Wextra", "-Werror"];

#[test]
fn preserving_edits_and_planted_errors_keep_the_behaviour() {
    let dir = tempfile::tempdir().unwrap();
    let menus = menus();
    let expected = run(&build(dir.path(), PROGRAM, &STRICT).unwrap()).stdout;
    for edit in [Edit::Unchanged, Edit::Preserving, Edit::PlantsMemoryError] {
        for index in 0..4 {
            let chosen: Vec<_> = menus
                .iter()
                .filter_map(|(d, menu)| {
                    let item = menu.iter().find(|i| (i.edit, i.index) == (edit, index));
                    item.map(|i| (d, i))
                })
                .collect();
            if chosen.is_empty() {
                continue;
            }
            let text = with(chosen.into_iter());
            assert_eq!(text == PROGRAM, edit == Edit::Unchanged);
            let program = build(dir.path(), &text, &STRICT)
                .unwrap_or_else(|e| panic!("{edit:?} {index}: {e}"));
            let out = run(&program);
            assert!(
                out.status.success() && out.stdout == expected,
                "{edit:?} {index}"
            );
        }
    }
}

#[test]
fn what_breaks_compilation_is_rejected_by_the_compiler_itself() {
    let dir = tempfile::tempdir().unwrap();
    for (d, menu) in menus() {
        let items = menu.iter().filter(|i| i.edit == Edit::BreaksCompile);
        assert_eq!(items.clone().count(), 4);
        for item in items {
            let text = with([(&d, item)].into_iter());
            let flags = ["-std=c++17", "-w", "-fsyntax-only"];
            let error = build(dir.path(), &text, &flags);
            assert!(error.is_err(), "{} {}", d.name, item.how);
        }
    }
}

#[test]
fn what_breaks_behaviour_builds_and_shows() {
    let dir = tempfile::tempdir().unwrap();
    let expected = run(&build(dir.path(), PROGRAM, &STRICT).unwrap()).stdout;
    let mut silent = Vec::new();
    for (d, menu) in menus() {
        let mut shown = 0;
        for item in menu.iter().filter(|i| i.edit == Edit::BreaksBehaviour) {
            let text = with([(&d, item)].into_iter());
            let program = build(dir.path(), &text, &["-std=c++17", "-w"])
                .unwrap_or_else(|e| panic!("{} {}: {e}", d.name, item.how));
            shown += usize::from(run(&program).stdout != expected);
        }
        if shown == 0 {
            silent.push(d.name);
        }
    }
    // A reference to return and a constant expression leave nothing to break safely, and the bound of
    // the conversion is not touched by this program.
    assert_eq!(
        silent,
        [
            "shapes::Counter::name",
            "shapes::Counter::operator bool",
            "shapes::cube"
        ]
    );
}

#[test]
fn planted_errors_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (name, how, report) in [
        (
            "shapes::Counter::Counter",
            "heap_overflow",
            "heap-buffer-overflow",
        ),
        ("shapes::joined", "use_after_free", "heap-use-after-free"),
        ("shapes::largest", "stack_overflow", "stack-buffer-overflow"),
        (
            "shapes::Counter::next",
            "signed_overflow",
            "signed integer overflow",
        ),
    ] {
        let menus = menus();
        let (d, menu) = menus.iter().find(|(d, _)| d.name == name).unwrap();
        let item = menu.iter().find(|i| i.how == how).unwrap();
        let text = with([(d, item)].into_iter());
        let flags = [
            "-std=c++17",
            "-w",
            "-g",
            "-O1",
            "-fsanitize=address,undefined",
        ];
        let program = build(dir.path(), &text, &flags).unwrap();
        let error = String::from_utf8_lossy(&run(&program).stderr).into_owned();
        assert!(error.contains(report), "{name} {how}: {error}");
    }
}

#[test]
fn hostile_depth_and_length_are_survived() {
    for (piece, times) in [
        ("namespace a {", 20_000),
        ("template <", 50_000),
        ("#if 1\nnamespace a {\n", 10_000),
        ("class A : ", 20_000),
        ("A::A() : a{", 20_000),
        ("operator", 50_000),
        ("(", 50_000),
        ("x<", 50_000),
        ("R\"x(", 20_000),
        ("requires {", 20_000),
    ] {
        let body = piece.repeat(times);
        functions(&cpp(), body.as_bytes());
        functions(&cpp(), format!("int f() {{ {body} }}").as_bytes());
    }
}

/// Bytes that look enough like C++ to reach every corner.
fn cpp_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("namespace n {"),
        Just("class A : public B {"),
        Just("A(int a) : a_{a}, b_(1) { }"),
        Just("~A() { }"),
        Just("template <class T = int> "),
        Just("operator"),
        Just("=="),
        Just("::"),
        Just("A::f"),
        Just("() const { }"),
        Just("public:"),
        Just("R\"x("),
        Just(")x\""),
        Just("} catch (...) { }"),
        Just("try : a(1) {"),
        Just("enum class E : int { a };"),
        Just("requires (x) "),
        Just("friend "),
        Just("auto f() -> int { return 1; }"),
        Just(" = default;"),
    ];
    let pieces = proptest::collection::vec((piece, c_like()), 0..12);
    pieces.prop_map(|parts| {
        let mut out = Vec::new();
        for (piece, noise) in parts {
            out.extend_from_slice(piece.as_bytes());
            if noise.len() < 30 {
                out.extend(noise);
            }
        }
        out
    })
}

proptest! {
    #[test]
    fn spans_are_in_bounds_sorted_and_disjoint(source in cpp_like()) {
        let found = functions(&cpp(), &source);
        let mut last = 0;
        for d in &found.definitions {
            prop_assert!(last <= d.span.start, "{:?}", found);
            prop_assert!(d.span.start <= d.definition.start);
            prop_assert!(d.definition.start <= d.name_range.start);
            prop_assert!(d.name_range.end <= d.body.start && d.signature.end <= d.body.start);
            prop_assert!(d.body.end <= d.span.end && d.definition.end == d.span.end);
            last = d.span.end;
        }
        for s in &found.skipped {
            prop_assert!(s.span.end <= source.len() && s.lines.0 <= s.lines.1);
        }
    }

    /// Any function gives a menu whose texts are read as the same function again.
    #[test]
    fn any_function_has_a_menu_of_the_same_function(source in cpp_like()) {
        for d in functions(&cpp(), &source).definitions {
            let found = menu(&cpp(), &d, &source);
            prop_assert_eq!(&found[0].text[..], &source[d.span.clone()]);
            for item in found.iter().filter(|i| i.edit != Edit::BreaksCompile) {
                // What follows a function's brace on its own is not always readable alone.
                if function_alone(&cpp(), &found[0].text, &d.name).is_some() {
                    let again = function_alone(&cpp(), &item.text, &d.name);
                    prop_assert!(again.is_some(), "{}: {}", item.how, String::from_utf8_lossy(&item.text));
                }
            }
        }
    }
}
