//! Tests over `fixtures/replies`, one file a case, and over mutilations of them.
//!
//! A fixture is a remark and sections, each begun by a line `%%%% name arguments`:
//! `function NAME`, `original`, `reply [stop=...] [crlf]`, and either `code NOTES` (comma
//! separated, the code below) or `outcome NAME`. A section's last line end is not part of it;
//! `crlf` puts CRLF for the reply's line ends, which git might otherwise change.

use std::path::Path;

use proptest::prelude::*;

use super::*;

struct Fixture {
    file: String,
    function: String,
    original: String,
    reply: Reply,
    expected: String,
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/replies");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect();
    paths.sort();
    paths.iter().map(|p| fixture(p)).collect()
}

fn fixture(path: &Path) -> Fixture {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let mut f = Fixture {
        file: file.clone(),
        function: String::new(),
        original: String::new(),
        reply: Reply::complete(""),
        expected: String::new(),
    };
    let mut sections = text.split("\n%%%% ");
    let remark = sections.next().unwrap();
    assert!(remark.len() > 10, "{file}: no remark");
    for section in sections {
        let section = section.strip_suffix('\n').unwrap_or(section);
        let (head, body) = section.split_once('\n').unwrap_or((section, ""));
        let (name, arguments) = head.split_once(' ').unwrap_or((head, ""));
        match name {
            "function" => f.function = arguments.to_string(),
            "original" => f.original = body.to_string(),
            "reply" => {
                f.reply.text = body.to_string();
                for argument in arguments.split_whitespace() {
                    match argument.split_once('=') {
                        Some(("stop", stop)) => {
                            f.reply.stop = serde_json::from_value(stop.into()).unwrap();
                        }
                        _ if argument == "crlf" => f.reply.text = body.replace('\n', "\r\n"),
                        _ => panic!("{file}: {argument}?"),
                    }
                }
            }
            "code" => f.expected = format!("code {arguments}\n{body}"),
            "outcome" => f.expected = arguments.to_string(),
            _ => panic!("{file}: section {name}?"),
        }
    }
    assert!(
        !f.function.is_empty() && !f.original.is_empty() && !f.expected.is_empty(),
        "{file}"
    );
    f
}

fn shown(outcome: &Outcome) -> String {
    // `{"versions":2}` as `versions=2`, `"echo"` as `echo`.
    let flat = |v: serde_json::Value| match v {
        serde_json::Value::String(s) => s,
        v => v.to_string().replace(['{', '}', '"'], "").replace(':', "="),
    };
    match outcome {
        Outcome::Code { text, notes } => {
            let notes: Vec<_> = notes
                .iter()
                .map(|n| flat(serde_json::to_value(n).unwrap()))
                .collect();
            format!("code {}\n{text}", notes.join(","))
        }
        Outcome::Unparsable { why } => {
            format!("unparsable {}", flat(serde_json::to_value(why).unwrap()))
        }
        other => flat(serde_json::to_value(other).unwrap()),
    }
}

fn run(f: &Fixture, reply: &Reply) -> Outcome {
    let ctx = ReplyContext {
        function: &f.function,
        original: f.original.as_bytes(),
        language: LanguageId::C,
    };
    extract(&reply.encode(), &ctx)
}

/// No code but what the reply holds.
fn check_literal(reply: &Reply, outcome: &Outcome) -> Result<(), String> {
    match outcome {
        Outcome::Code { text, notes } if text.is_empty() => Err(format!("empty code, {notes:?}")),
        Outcome::Code { text, notes } if !notes.iter().any(Note::alters) => reply
            .text
            .contains(text.as_str())
            .then_some(())
            .ok_or(format!("not in the reply: {text}")),
        _ => Ok(()),
    }
}

#[test]
fn every_recorded_reply_has_the_outcome_its_fixture_says() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 40, "only {}", fixtures.len());
    let mut wrong = String::new();
    for f in &fixtures {
        let outcome = run(f, &f.reply);
        let found = shown(&outcome);
        if found != f.expected {
            wrong += &format!("== {}\nexpected {}\nfound    {found}\n", f.file, f.expected);
        }
        check_literal(&f.reply, &outcome).unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_reply_cut_anywhere_never_gives_half_a_function() {
    for f in fixtures() {
        if !matches!(run(&f, &f.reply), Outcome::Code { .. }) {
            continue;
        }
        for (end, _) in f.reply.text.char_indices() {
            let cut = Reply {
                text: f.reply.text[..end].to_string(),
                stop: Stop::Length,
                ..f.reply.clone()
            };
            let outcome = run(&f, &cut);
            check_literal(&cut, &outcome).unwrap();
            if let Outcome::Code { text, .. } = outcome {
                assert!(
                    c_text::CText::of(&text, LanguageId::C).is_whole(),
                    "{} at {end}:\n{text}",
                    f.file
                );
            }
        }
    }
}

#[test]
fn an_envelope_is_pinned_and_strict() {
    let reply = Reply {
        served_model: Some("m-1".into()),
        usage: Some(Usage {
            input_tokens: 7,
            output_tokens: 9,
            ..Usage::default()
        }),
        ..Reply::ended(Stop::Length, "a\n")
    };
    let json = r#"{"text":"a\n","stop":"length","served_model":"m-1","usage":{"input_tokens":7,"output_tokens":9}}"#;
    assert_eq!(String::from_utf8(reply.encode()).unwrap(), json);
    assert_eq!(Reply::decode(json.as_bytes()).unwrap(), reply);
    assert_eq!(
        Reply::complete("x").encode(),
        br#"{"text":"x","stop":"complete"}"#
    );
    let whole = Reply {
        usage: Some(Usage {
            input_tokens: 7,
            output_tokens: 9,
            cached_input_tokens: Some(3),
            reasoning_tokens: Some(4),
        }),
        fingerprint: Some("fp".into()),
        provider: Some("p".into()),
        omitted: vec!["seed".into()],
        ..Reply::complete("x")
    };
    assert_eq!(Reply::decode(&whole.encode()).unwrap(), whole);
    let ctx = ReplyContext {
        function: "f",
        original: b"",
        language: LanguageId::C,
    };
    for bad in [
        &b"int f(void) {}"[..],
        br#"{"text":"x"}"#,
        br#"{"text":"x","stop":"complete","error":1}"#,
        b"\xff",
    ] {
        assert!(matches!(
            extract(bad, &ctx),
            Outcome::Unparsable {
                why: Why::Envelope(_)
            }
        ));
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "```c\n",
            "```\n",
            "````\n",
            "~~~\n",
            "```cpp\n",
            "```diff\n",
            "<think>\n",
            "</think>\n",
            "int f(int a) {\n",
            "static int g(void) {\n",
            "int f(int a);\n",
            "    return a;\n",
            "}\n",
            "/*\n",
            "*/\n",
            "\"",
            "'",
            "#if 0\n",
            "#else\n",
            "#endif\n",
            "1: int x;\n",
            "2: }\n",
            "&lt;",
            "&amp;lt;",
            "@@ -1,2 +1,2 @@\n",
            "+a\n",
            "-b\n",
            "I'm sorry, I can't.\n",
            "   ",
            "\r\n",
            "\n",
            "é“",
            "(",
            ")",
            ";",
            "\\",
        ])
        .prop_map(str::to_string),
        ".{0,12}",
    ];
    prop::collection::vec(piece, 0..30).prop_map(|v| v.concat())
}

fn stops() -> impl Strategy<Value = Stop> {
    prop::sample::select(vec![
        Stop::Complete,
        Stop::Length,
        Stop::Refusal,
        Stop::Context,
    ])
}

/// Quadratic work on any of these would take minutes.
#[test]
fn large_and_deep_replies_are_read_all_the_same() {
    let many = |piece: &str| piece.repeat(400_000 / piece.len());
    for text in [
        many("f(a);"),
        many("int f(int a) {\n"),
        many("```c\n/*\n```\n"),
        many("```c\nint f(void) {}\n```\n"),
        many("{("),
        many("})"),
        many("&lt;"),
        many("1: x\n"),
        many("int f(a) int b; "),
        many("<think>\n"),
        many("#if 0\n"),
        many("/*"),
        many("int f(void) { }\n"),
    ] {
        let reply = Reply::complete(text);
        let ctx = ReplyContext {
            function: "f",
            original: b"x",
            language: LanguageId::C,
        };
        check_literal(&reply, &extract(&reply.encode(), &ctx)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_reply_makes_it_panic_or_invent(text in pieces(), stop in stops()) {
        let reply = Reply { stop, ..Reply::complete(text) };
        let ctx = ReplyContext { function: "f", original: b"int f(int a) { return a; }", language: LanguageId::C };
        let outcome = extract(&reply.encode(), &ctx);
        prop_assert_eq!(check_literal(&reply, &outcome), Ok(()));
        match stop {
            Stop::Refusal => prop_assert_eq!(outcome, Outcome::Refused),
            Stop::Context => prop_assert_eq!(outcome, Outcome::ContextExceeded),
            _ => {}
        }
    }

    #[test]
    fn prose_around_a_block_does_not_change_what_is_in_it(
        before in "[a-zA-Z .,'()\n]{0,80}", after in "[a-zA-Z .,'()\n]{0,80}", body in "[a-z =+;\n]{0,60}"
    ) {
        let code = format!("int f(int a)\n{{\n{body}\n    return a;\n}}");
        let reply = Reply::complete(format!("{before}\n```c\n{code}\n```\n{after}"));
        let ctx = ReplyContext { function: "f", original: b"x", language: LanguageId::C };
        prop_assert_eq!(
            extract(&reply.encode(), &ctx),
            Outcome::Code { text: code, notes: vec![] }
        );
    }
}
