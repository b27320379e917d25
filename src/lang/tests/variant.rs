//! What becomes of the code in a reply.

use proptest::prelude::*;

use super::c;
use super::functions::c_like;
use crate::digest::Digest;
use crate::lang::{ExtraKind, Note, Refusal, Splice, Variant, functions, splice, variant_of};

const SOURCE: &str =
    "int before;\n/* Adds. */\nstatic int\nadd(int a, int b)\n{\n  return a + b;\n}\nint after;\n";

fn of(source: &str, code: &str) -> Result<Variant, Refusal> {
    let found = functions(&c(), source.as_bytes());
    variant_of(
        &c(),
        &found.definitions[0],
        source.as_bytes(),
        code.as_bytes(),
    )
}

fn text(code: &str) -> String {
    String::from_utf8(of(SOURCE, code).unwrap().text).unwrap()
}

#[test]
fn the_function_replaces_definition_and_keeps_the_comment_unless_it_brings_one() {
    let plain = of(
        SOURCE,
        "\nstatic int add(int a, int b) { return b + a; }\n\n",
    )
    .unwrap();
    assert_eq!(
        plain.text,
        b"/* Adds. */\nstatic int add(int a, int b) { return b + a; }"
    );
    assert_eq!((plain.helpers, plain.notes), (0, vec![Note::KeptComment]));
    assert_eq!(
        text("/* New. */\nstatic int add(int a, int b) { return b + a; }"),
        "/* New. */\nstatic int add(int a, int b) { return b + a; }"
    );
}

#[test]
fn helpers_and_their_prototypes_come_along() {
    let code = "static int twice(int a);\nint add(int a, int b) { return twice(a) + b; }\nstatic int twice(int a) { return 2 * a; }";
    let variant = of(SOURCE, code).unwrap();
    assert_eq!(variant.helpers, 1);
    assert_eq!(
        String::from_utf8(variant.text).unwrap(),
        code.replace("int add(", "/* Adds. */\nint add("),
        "the comment stays with its function"
    );
}

#[test]
fn includes_are_dropped_and_noted() {
    let variant = of(
        SOURCE,
        "/* a\n */ #include <stdio.h>\n#include \"a.h\"\n\n// New.\nint add(int a, int b) { return a; }",
    )
    .unwrap();
    assert_eq!(
        variant.text,
        b"/* a\n */ \n// New.\nint add(int a, int b) { return a; }"
    );
    let dropped = |s: &str| Note::DroppedInclude(s.to_string());
    assert_eq!(
        variant.notes,
        [dropped("#include <stdio.h>"), dropped("#include \"a.h\"")]
    );
}

#[test]
fn line_ends_become_those_of_the_file() {
    let crlf = SOURCE.replace('\n', "\r\n");
    let variant = of(&crlf, "int add(int a, int b)\n{\n  return a;\r\n}\n").unwrap();
    assert_eq!(
        variant.text,
        b"/* Adds. */\r\nint add(int a, int b)\r\n{\r\n  return a;\r\n}"
    );
    assert!(variant.notes.contains(&Note::LineEnds));
    assert_eq!(
        text("int add(int a, int b)\r\n{ }"),
        "/* Adds. */\nint add(int a, int b)\n{ }"
    );
}

#[test]
fn wrong_code_is_the_models_answer_and_is_left_to_the_compiler() {
    for code in [
        "static int add(int a, int b) { return a + ; }",
        "static int add(int a, int b) { if (a) { return b;",
        "static int add(int a, int b { return b; }",
        "Here is the function:\nstatic int add(int a, int b) { return b; }",
        "static int add(int a, int b) { return b; } }",
        "static int add(int a, int b) {\n#ifdef X\n  if (a) {\n#else\n  {\n#endif\n  }\n}",
    ] {
        assert!(text(code).contains(code), "{code}");
    }
}

#[test]
fn other_things_than_the_function_are_refused_by_kind() {
    let kind = |code: &str| match of(SOURCE, code) {
        Err(Refusal::ExtraItem { kind, .. }) => kind,
        other => panic!("{code}: {other:?}"),
    };
    let add = "static int add(int a, int b) { return a; }\n";
    for (extra, expected) in [
        ("int main(void) { return add(1, 2); }", ExtraKind::Main),
        ("typedef unsigned size;", ExtraKind::Type),
        ("struct s { int a; };", ExtraKind::Type),
        ("static int counter;", ExtraKind::Declaration),
        ("static int table[] = { 1, 2 };", ExtraKind::Declaration),
        ("void *other(int);", ExtraKind::Declaration),
        ("#define X 1", ExtraKind::Directive),
        ("extern \"C\" {\n}", ExtraKind::Linkage),
    ] {
        assert_eq!(kind(&format!("{add}{extra}\n")), expected, "{extra}");
        assert_eq!(kind(&format!("{extra}\n{add}")), expected, "{extra} first");
    }
    assert_eq!(kind(&format!("{add}\nThat is all.")), ExtraKind::Other);
}

#[test]
fn code_without_the_function_is_refused() {
    assert_eq!(of(SOURCE, ""), Err(Refusal::NoDefinition));
    assert_eq!(of(SOURCE, "add(1, 2);"), Err(Refusal::NoDefinition));
    assert_eq!(
        of(SOURCE, "int add(int a, int b);"),
        Err(Refusal::NoDefinition)
    );
    assert!(matches!(
        of(SOURCE, "int add2(int a, int b) { return add(a, b); }"),
        Err(Refusal::WrongName { found, .. }) if found == "add2"
    ));
    let add = "int add(int a, int b) { return a; }\n";
    assert_eq!(
        of(SOURCE, &add.repeat(2)),
        Err(Refusal::DuplicateDefinition("add".to_string()))
    );
}

#[test]
fn code_that_would_reach_beyond_its_place_is_refused() {
    let add = "int add(int a, int b) { return a; }\n";
    for code in [
        format!("{add}/* and so on"),
        format!("#if 0\n{add}"),
        "int add(int a, int b) {\n#endif\n return a; }".to_string(),
    ] {
        assert!(
            matches!(of(SOURCE, &code), Err(Refusal::Unparsable(_))),
            "{code}"
        );
    }
    // What follows on the line stays code.
    let tight = "static int add(int a, int b) { return a; } int after;";
    let variant = of(tight, "int add(int a, int b) { return a; } // done").unwrap();
    assert!(variant.text.ends_with(b"// done\n"));
}

proptest! {
    /// Whatever comes back, it can be spliced, and the rest of the file stays.
    #[test]
    fn any_code_is_refused_or_spliced(code in c_like()) {
        let found = functions(&c(), SOURCE.as_bytes());
        let d = &found.definitions[0];
        if let Ok(variant) = variant_of(&c(), d, SOURCE.as_bytes(), &code) {
            let spliced = splice(SOURCE.as_bytes(), &[Splice {
                range: d.span.clone(),
                expected: Digest::of(&SOURCE.as_bytes()[d.span.clone()]),
                replacement: variant.text,
            }]).unwrap();
            prop_assert!(spliced.starts_with(b"int before;\n"));
            prop_assert!(spliced.ends_with(b"\nint after;\n"));
        }
    }

    /// A function given back as it is changes nothing.
    #[test]
    fn the_original_is_its_own_variant(crlf in any::<bool>(), with_comment in any::<bool>()) {
        let source = if crlf { SOURCE.replace('\n', "\r\n") } else { SOURCE.to_string() };
        let found = functions(&c(), source.as_bytes());
        let d = &found.definitions[0];
        let range = if with_comment { d.span.clone() } else { d.definition.clone() };
        let variant = of(&source, &source[range]).unwrap();
        prop_assert_eq!(&variant.text[..], &source.as_bytes()[d.span.clone()]);
    }
}
