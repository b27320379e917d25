//! Preprocessed units against a real preprocessor where one is at hand, and against text written
//! for them; the promises of stripped units.

use proptest::prelude::*;

use super::c;
use super::functions::c_like;
use crate::lang::{
    LanguageId, OnlyCompiledReason, Reality, StrippedUnit, compiled_definitions, functions,
    intersect, strip_unit,
};

const UNIT: &str = r##"# 0 "src/a.c"
# 0 "<built-in>"
# 1 "src/a.c"
# 1 "src/a.h" 1



extern __inline __attribute__ ((__gnu_inline__)) int
__attribute__ ((__leaf__)) from_header (const char *p)
{ return __extension__ ({ *p; }); }
typedef struct { int a; _Float128 b; } pair __attribute__((packed));
extern int renamed (int) __asm__ ("" "other") __attribute__ ((__nothrow__ , __leaf__));
# 2 "src/a.c" 2

static int
first(int a)
{
  return a + 1;
}
# 20 "src/a.c"
int my_find(pair *p) { return p->a; }
#pragma pack(1)
int old(x) int x; { return x; }
# 7 "gram\\mar.y"
int generated(void) { return 0; }
"##;

fn names(unit: &str) -> Vec<(String, String, usize)> {
    compiled_definitions(&c(), unit.as_bytes())
        .into_iter()
        .map(|d| (d.name, d.file, d.line))
        .collect()
}

/// Names in line markers stand for themselves.
fn as_written(_: usize, name: &str) -> String {
    name.to_string()
}

#[test]
fn definitions_are_found_with_the_place_they_come_from() {
    let place = |n: &str, f: &str, l| (n.to_string(), f.to_string(), l);
    assert_eq!(
        names(UNIT),
        [
            place("from_header", "src/a.h", 5),
            place("first", "src/a.c", 4),
            place("my_find", "src/a.c", 20),
            place("old", "src/a.c", 22),
            place("generated", "gram\\mar.y", 7),
        ]
    );
}

#[test]
fn what_one_side_alone_sees_is_told_with_its_reason() {
    let source = "#include \"a.h\"\n\nstatic int\nfirst(int a)\n{\n  return a + 1;\n}\n\
        #ifdef NEVER\nint unused(void) { return 2; }\n#endif\n\n\n\n\n\n\n\n\n\n\
        int find(pair *p) { return p->a; }\nMAKE(old)\n";
    let unit = UNIT.replace("# 20 \"src/a.c\"", "# 20 \"src/../src/./a.c\"");
    let unit = unit.replace("#pragma pack(1)\n", "");
    let compiled = compiled_definitions(&c(), unit.as_bytes());
    let found = functions(&c(), source.as_bytes());
    let seen = intersect(
        LanguageId::C,
        &found,
        source.as_bytes(),
        "src/a.c",
        &[&[], &compiled, &compiled],
        &as_written,
    );
    let told: Vec<(&str, &Reality)> = seen
        .definitions
        .iter()
        .map(|(d, r)| (d.name.as_str(), r))
        .collect();
    let compiled = |order, renamed: &[&str]| Reality::Compiled {
        units: vec![1, 2],
        orders: vec![order; 2],
        renamed: renamed.iter().map(|s| s.to_string()).collect(),
    };
    assert_eq!(
        told,
        [
            ("first", &compiled(1, &[])),
            ("unused", &Reality::NotCompiled),
            ("find", &compiled(2, &["my_find"])),
        ]
    );
    let only: Vec<(&str, OnlyCompiledReason, &[usize])> = seen
        .only_compiled
        .iter()
        .map(|o| (o.name.as_str(), o.reason, o.units.as_slice()))
        .collect();
    assert_eq!(
        only,
        [("old", OnlyCompiledReason::MacroDefined, &[1, 2][..])]
    );
}

#[test]
fn a_file_generated_from_another_is_matched_by_its_own_line_directives() {
    let source = "int one(void) { return 1; }\n#line 7 \"gram\\\\mar.y\"\nint generated(void) { return 0; }\n";
    let compiled = compiled_definitions(&c(), UNIT.as_bytes());
    let found = functions(&c(), source.as_bytes());
    let seen = intersect(
        LanguageId::C,
        &found,
        source.as_bytes(),
        "out.c",
        &[&compiled],
        &as_written,
    );
    assert_eq!(seen.definitions[0].1, Reality::NotCompiled);
    assert!(matches!(seen.definitions[1].1, Reality::Compiled { .. }));

    // Such a name is relative to where the compiler runs, which each unit may do elsewhere.
    let below = |unit: usize, file: &str| format!("{}/{file}", ["one", "two"][unit]);
    let mut moved = compiled.clone();
    for definition in &mut moved {
        definition.file = below(1, &definition.file);
    }
    let seen = intersect(
        LanguageId::C,
        &found,
        source.as_bytes(),
        "out.c",
        &[&moved, &moved],
        &below,
    );
    let units = match &seen.definitions[1].1 {
        Reality::Compiled { units, .. } => units.as_slice(),
        Reality::NotCompiled => &[],
    };
    assert_eq!(units, [1]);
}

#[test]
fn the_stripped_text_holds_declarations_only() {
    let text = String::from_utf8(strip_unit(&c(), UNIT.as_bytes(), None)).unwrap();
    assert_eq!(
        text,
        r##"extern __inline __attribute__ ((__gnu_inline__)) int
__attribute__ ((__leaf__)) from_header (const char *p);
typedef struct { int a; _Float128 b; } pair __attribute__((packed));
extern int renamed (int) __asm__ ("" "other") __attribute__ ((__nothrow__ , __leaf__));
static int
first(int a);
int my_find(pair *p);
#pragma pack(1)
int old(x);
int generated(void);"##
    );
    let start = UNIT.find("int my_find").unwrap();
    let kept = strip_unit(&c(), UNIT.as_bytes(), Some(start..start + 1));
    let kept = String::from_utf8(kept).unwrap();
    assert!(kept.contains("my_find(pair *p) { return p->a; }\n"));
    assert!(kept.contains("first(int a);\n"));
}

#[test]
fn only_edits_outside_of_bodies_change_the_context() {
    let context = |unit: &str| {
        StrippedUnit::new(&c(), unit.as_bytes())
            .context_of("my_find", "src/a.c", 20)
            .unwrap()
    };
    let plain = context(UNIT);
    assert_eq!(plain.order, 2);
    for (from, to) in [
        ("a + 1", "a\n\n + 2; { int local; }"),
        ("*p; })", "p[1]; })"),
        ("{ return p->a; }", "{ return p->b; }"),
        ("\n\n\n\nextern", "\nextern"),
        ("# 2 \"src/a.c\" 2\n", "\n\n"),
    ] {
        let edited = UNIT.replace(from, to);
        assert_ne!(edited, UNIT);
        let same = StrippedUnit::new(&c(), edited.as_bytes());
        assert_eq!(same.digest(), plain.digest, "{from}");
    }
    for (from, to) in [
        ("int a; _Float128", "long a; _Float128"),
        ("first(int a)", "first(long a)"),
        ("static int\n", "int\n"),
        ("pack(1)", "pack(2)"),
        ("extern int renamed (int)", "extern int renamed (long)"),
    ] {
        let edited = UNIT.replace(from, to);
        assert_ne!(edited, UNIT);
        assert_ne!(context(&edited).digest, plain.digest, "{from}");
    }
    let more = UNIT.replace(
        "static int\nfirst",
        "int zeroth(void) { } static int\nfirst",
    );
    assert_eq!(context(&more).order, 3);
}

proptest! {
    #[test]
    fn any_text_can_be_stripped(unit in c_like()) {
        let stripped = StrippedUnit::new(&c(), &unit);
        prop_assert_eq!(stripped.definitions(), compiled_definitions(&c(), &unit));
        for d in stripped.definitions() {
            prop_assert!(d.span.end <= unit.len());
        }
    }

    /// Whatever a body holds, as long as its braces pair up.
    #[test]
    fn the_digest_does_not_see_bodies(
        a in proptest::collection::vec(0usize..7, 0..30),
        b in proptest::collection::vec(0usize..7, 0..30),
    ) {
        const PARTS: [&str; 7] =
            ["x = 1; ", "\n", "{ int y; } ", "\"}\" ", "if (a) { b(); }\n", "f(\"{\", '}'); ", "({ 1; }); "];
        let digest = |parts: &[usize]| {
            let body: String = parts.iter().map(|p| PARTS[*p]).collect();
            StrippedUnit::new(&c(), UNIT.replace("return a + 1;", &body).as_bytes()).digest()
        };
        prop_assert_eq!(digest(&a), digest(&b));
    }
}

/// A real preprocessor with real system headers: every function of the program is found at its
/// place, what the headers define is another file's, and the program's own edits stay local.
#[test]
fn a_real_preprocessor_leads_back_to_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.c");
    let unit = |source: &[u8]| {
        std::fs::write(&path, source).unwrap();
        let out = std::process::Command::new("cc")
            .args(["-E", "-O2"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(out.status.success());
        StrippedUnit::new(&c(), &out.stdout)
    };
    let source = include_bytes!("../../../fixtures/lang/calibration.c");
    let before = unit(source);
    let found = functions(&c(), source);
    let name = path.to_str().unwrap();
    let seen = intersect(
        LanguageId::C,
        &found,
        source,
        name,
        &[before.definitions()],
        &as_written,
    );
    assert_eq!(seen.definitions.len(), 14);
    for (d, reality) in &seen.definitions {
        assert!(matches!(reality, Reality::Compiled { renamed, .. } if renamed.is_empty()));
        assert!(before.context_of(&d.name, name, d.line).is_some());
    }
    assert!(seen.only_compiled.is_empty());

    let text = std::str::from_utf8(source).unwrap();
    let body = text.replace(
        "  total += n;",
        "\n\n  total += n;\n\n\n\n\n\n\n\n\n  (void) stdout;",
    );
    let after = unit(body.as_bytes());
    assert_eq!(before.digest(), after.digest());
    let add = |u: &StrippedUnit, line| u.context_of("add", name, line).unwrap();
    let line = |s: &str| s[..s.find("int add(").unwrap()].matches('\n').count() + 1;
    assert_eq!(add(&before, line(text)), add(&after, line(&body)));
    let declaration = text.replace("total = 0;\n\n/*", "total = 1;\n\n/*");
    assert_ne!(before.digest(), unit(declaration.as_bytes()).digest());
}
