//! `functions` against the literate fixture, and on any bytes.

use proptest::prelude::*;

use super::c;
use crate::lang::{Language, LanguageId, QueryFault, QueryTexts, functions};

const FIXTURE: &str = include_str!("../../../fixtures/lang/functions.md");

/// Title, source and expectation of every section.
fn sections() -> Vec<(&'static str, &'static str, &'static str)> {
    let fenced = |text: &'static str, language: &str| {
        let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    FIXTURE
        .split("\n## ")
        .skip(1)
        .map(|s| {
            (
                s.lines().next().unwrap(),
                fenced(s, "c"),
                fenced(s, "expect"),
            )
        })
        .collect()
}

/// What is found, in the fixture's words, by position.
pub(super) fn told(language: &Language, source: &[u8]) -> String {
    let found = functions(language, source);
    let mut lines: Vec<(usize, String)> = Vec::new();
    for d in &found.definitions {
        let first = source[d.span.clone()]
            .split(|b| *b == b'\n')
            .next()
            .unwrap();
        let first = String::from_utf8_lossy(first);
        let mut line = format!(
            "def {}#{} line {} from `{}` tokens {}",
            d.name,
            d.ordinal,
            d.line,
            first.trim_end(),
            d.tokens
        );
        for (flag, word) in [
            (d.is_static, " static"),
            (d.old_style, " old_style"),
            (d.variadic, " variadic"),
            (d.has_directives, " directives"),
            (d.errors > 0, " errors"),
        ] {
            line.push_str(if flag { word } else { "" });
        }
        lines.push((d.span.start, line));
    }
    for s in &found.skipped {
        let name = s.name.as_deref().unwrap_or("-");
        let (from, to) = s.lines;
        lines.push((
            s.span.start,
            format!("skip {} {name} lines {from}-{to}", s.reason),
        ));
    }
    lines.sort();
    lines.into_iter().map(|(_, l)| l + "\n").collect()
}

#[test]
fn the_fixture_is_read_as_it_says() {
    let sections = sections();
    assert_eq!(sections.len(), 8);
    for (title, source, expected) in sections {
        assert_eq!(
            told(&c(), source.as_bytes()),
            expected,
            "in section: {title}"
        );
    }
}

#[test]
fn other_line_ends_other_encodings_and_a_missing_last_newline_change_nothing() {
    for (title, source, expected) in sections() {
        let crlf = source.trim_end().replace('\n', "\r\n");
        let expected = expected.replace("// Really.\r", "// Really.");
        assert_eq!(
            told(&c(), crlf.as_bytes()),
            expected,
            "CRLF, in section: {title}"
        );
        let mut latin1 = b"/* \xe9\xff */\n\nchar *s = \"\xe9{\";\n".to_vec();
        latin1.extend_from_slice(source.as_bytes());
        let before = functions(&c(), source.as_bytes());
        let after = functions(&c(), &latin1);
        assert_eq!(before.definitions.len(), after.definitions.len());
        let moved = latin1.len() - source.len();
        for (a, b) in before.definitions.iter().zip(&after.definitions) {
            assert_eq!(a.span.start + moved, b.span.start);
            assert_eq!(source.as_bytes()[a.span.clone()], latin1[b.span.clone()]);
            assert_eq!((a.line + 3, a.errors), (b.line, b.errors));
        }
    }
}

#[test]
fn an_error_in_one_function_does_not_reach_another() {
    let broken = b"int a(void) { ((((( } ] ; }\nint b(void) { return 1; }\n";
    let names: Vec<String> = functions(&c(), broken)
        .definitions
        .into_iter()
        .map(|d| d.name)
        .collect();
    assert!(names.contains(&"b".to_string()), "{names:?}");
}

#[test]
fn the_parts_of_a_definition_are_where_they_should_be() {
    let source = b"int x;\n/* c */\nstatic int\nf(a)\n  int a; /* d */\n{ return a; }\n";
    let found = functions(&c(), source);
    let d = &found.definitions[0];
    let text = |r: &std::ops::Range<usize>| std::str::from_utf8(&source[r.clone()]).unwrap();
    assert_eq!(text(&d.signature), "static int\nf(a)\n  int a;");
    assert_eq!(text(&d.body), "{ return a; }");
    assert_eq!(text(&d.name_range), "f");
    assert!(text(&d.span).starts_with("/* c */\nstatic"));
    assert_eq!((d.span_line, d.line), (2, 4));
}

#[test]
fn a_broken_query_file_says_where() {
    let mut texts = QueryTexts::of(LanguageId::C);
    texts.functions = "(function_definition) @definition\n  (no_such_node) @x".to_string();
    let Err(QueryFault::Broken {
        file, line, column, ..
    }) = Language::new(LanguageId::C, &texts)
    else {
        panic!("accepted");
    };
    assert_eq!((file, line, column), ("functions", 2, 4));
    texts.functions = "(function_definition) @definition".to_string();
    assert!(matches!(
        Language::new(LanguageId::C, &texts),
        Err(QueryFault::MissingCapture {
            capture: "declarator",
            ..
        })
    ));
}

#[test]
fn queries_are_compiled_once_for_each_text() {
    let queries = |texts: &QueryTexts| {
        let language = Language::new(LanguageId::C, texts).unwrap();
        std::ptr::from_ref(language.queries()) as usize
    };
    // Of no other test, so that what is known in between is this one's.
    let mut texts = QueryTexts::of(LanguageId::C);
    texts.edits += "\n; of this test\n";
    let kept = Language::new(LanguageId::C, &texts).unwrap();
    assert_eq!(queries(&texts), std::ptr::from_ref(kept.queries()) as usize);
    texts.edits += "(comment) @if";
    assert_ne!(queries(&texts), std::ptr::from_ref(kept.queries()) as usize);
}

#[test]
fn any_change_of_a_query_changes_the_digest() {
    let digest = |texts: &QueryTexts| {
        Language::new(LanguageId::C, texts)
            .unwrap()
            .queries()
            .digest()
    };
    let plain = QueryTexts::of(LanguageId::C);
    let mut functions = plain.clone();
    functions.functions.push('\n');
    let mut edits = plain.clone();
    edits.edits.push('\n');
    assert_eq!(digest(&plain), digest(&plain));
    assert_ne!(digest(&plain), digest(&functions));
    assert_ne!(digest(&plain), digest(&edits));
    assert_ne!(digest(&functions), digest(&edits));
}

#[test]
fn hostile_depth_and_length_are_survived() {
    for (piece, times) in [
        ("{", 50_000),
        ("(", 50_000),
        ("#if 0\n", 50_000),
        ("int f(){\n", 20_000),
        ("int f(){{\n}\n", 20_000),
        ("if(1)", 20_000),
        ("x+", 50_000),
        ("struct a {} ", 20_000),
        ("f(a) int b; ", 20_000),
        ("int (*", 20_000),
    ] {
        let body = piece.repeat(times);
        functions(&c(), body.as_bytes());
        let inside = format!("int f(void) {{ {body} }}");
        functions(&c(), inside.as_bytes());
    }
}

/// Bytes that look enough like C to reach every corner.
pub(super) fn c_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("int "),
        Just("f"),
        Just("("),
        Just(")"),
        Just("{"),
        Just("}"),
        Just(";"),
        Just("a, b"),
        Just("\n"),
        Just("#if X\n"),
        Just("#if 0\n"),
        Just("#else\n"),
        Just("#endif\n"),
        Just("/* "),
        Just("*/"),
        Just("// x\n"),
        Just("\""),
        Just("'"),
        Just("struct s "),
        Just("= "),
        Just("int g(int a) { return a; }\n"),
        Just("FOO(x)\n"),
        Just("static "),
        Just("extern \"C\" {"),
        Just("\\\n"),
        Just("\r\n"),
        Just("*"),
        Just("if (a) { b(); } else c();"),
        Just("__attribute__((x)) "),
        Just("# 3 \"a.c\"\n"),
        Just("while (a) a += 1;"),
        Just("int h(a) int a; { }\n"),
    ];
    let bytes = proptest::collection::vec(any::<u8>(), 0..4);
    proptest::collection::vec((piece, bytes, 0u8..12), 0..60).prop_map(|parts| {
        let mut out = Vec::new();
        for (piece, bytes, noise) in parts {
            out.extend_from_slice(piece.as_bytes());
            if noise == 0 {
                out.extend_from_slice(&bytes);
            }
        }
        out
    })
}

proptest! {
    #[test]
    fn spans_are_in_bounds_sorted_and_disjoint(source in c_like()) {
        let found = functions(&c(), &source);
        let mut last = 0;
        for d in &found.definitions {
            prop_assert!(last <= d.span.start, "{:?}", found);
            prop_assert!(d.span.start <= d.definition.start);
            prop_assert!(d.definition.start <= d.name_range.start);
            prop_assert!(d.name_range.end <= d.body.start && d.signature.end <= d.body.start);
            prop_assert!(d.body.end == d.span.end && d.definition.end == d.span.end);
            let body = &source[d.body.clone()];
            prop_assert_eq!((body.first(), body.last()), (Some(&b'{'), Some(&b'}')));
            last = d.span.end;
        }
        for s in &found.skipped {
            prop_assert!(s.span.end <= source.len() && s.lines.0 <= s.lines.1);
        }
    }

    #[test]
    fn any_bytes_give_a_value(source in proptest::collection::vec(any::<u8>(), 0..400)) {
        functions(&c(), &source);
    }

    /// A function's own text is all that decides how it is read.
    #[test]
    fn what_precedes_a_function_does_not_change_it(before in c_like()) {
        let one = b"\n\nstatic int zz(int a)\n{\n  return a;\n}\n";
        let alone = functions(&c(), b"int g(int a) { return a; }\n");
        prop_assert_eq!(alone.definitions.len(), 1);
        let source = [b"int g(int a) { return a; }\n", &one[..], &before].concat();
        let found = functions(&c(), &source);
        prop_assert_eq!(&found.definitions[0].name, "g");
        prop_assert_eq!(&found.definitions[1].name, "zz");
    }
}
