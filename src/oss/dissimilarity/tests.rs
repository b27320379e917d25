//! The counts against Python's, recorded in a fixture, and the limits of the work done.

use super::*;
use proptest::prelude::*;

#[derive(serde::Deserialize)]
struct Fixture {
    pairs: Vec<Pair>,
}

#[derive(serde::Deserialize)]
struct Pair {
    name: String,
    encoding: String,
    a: String,
    b: String,
    changed: u32,
}

impl Pair {
    fn bytes(&self, text: &str) -> Vec<u8> {
        match self.encoding.as_str() {
            "utf-8" => text.as_bytes().to_vec(),
            "latin-1" => text
                .chars()
                .map(|c| u8::try_from(u32::from(c)).expect("Latin-1"))
                .collect(),
            other => panic!("{}: unknown encoding {other}", self.name),
        }
    }
}

#[test]
fn counts_equal_pythons() {
    let text = include_str!("../../../fixtures/difflib/pairs.json");
    let fixture: Fixture = serde_json::from_str(text).expect("the fixture is JSON");
    assert!(fixture.pairs.len() >= 200, "{} pairs", fixture.pairs.len());
    let mut heuristic = 0;
    for pair in &fixture.pairs {
        let (a, b) = (pair.bytes(&pair.a), pair.bytes(&pair.b));
        assert_eq!(
            changed_lines_within(&a, &b, STEP_LIMIT),
            (pair.changed, true),
            "{}",
            pair.name
        );
        heuristic += u32::from(pair.changed != without_heuristics(&a, &b));
    }
    // Otherwise the fixture would not tell difflib from an exact diff.
    assert!(
        heuristic >= 20,
        "only {heuristic} pairs need the heuristics"
    );
}

/// Lines outside a longest common subsequence: the least any line diff can report.
fn without_heuristics(a: &[u8], b: &[u8]) -> u32 {
    let encoding = if std::str::from_utf8(a).and(std::str::from_utf8(b)).is_ok() {
        Encoding::Utf8
    } else {
        Encoding::Latin1
    };
    let a: Vec<&[u8]> = encoding.lines(a).collect();
    let b: Vec<&[u8]> = encoding.lines(b).collect();
    let mut row = vec![0; b.len() + 1];
    for x in &a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y {
                diagonal + 1
            } else {
                above.max(row[j])
            };
            diagonal = above;
        }
    }
    (a.len() + b.len()) as u32 - 2 * row[b.len()]
}

#[test]
fn an_edited_line_counts_twice_and_a_line_ending_not_at_all() {
    let original = b"int f(int a)\n{\n  return a + 1;\n}\n";
    assert_eq!(
        changed_lines(original, b"int f(int a)\n{\n  return a + 2;\n}\n"),
        2
    );
    assert_eq!(
        changed_lines(original, b"int f(int a)\r\n{\r\n  return a + 1;\r\n}"),
        0
    );
    assert_eq!(changed_lines(original, b""), 4);
}

#[test]
fn the_same_letter_in_another_encoding_is_a_change() {
    assert_eq!(
        changed_lines(b"/* \xe9 */\n", "/* \u{e9} */\n".as_bytes()),
        2
    );
}

#[test]
fn pathological_texts_end_and_are_bounded_from_above() {
    // Ten thousand lines of two kinds in no order: every line popular.
    let mixed = |salt: usize| -> Vec<u8> {
        (0..10_000_usize)
            .flat_map(|i| {
                if (i * i / 7 + salt).is_multiple_of(3) {
                    *b"}\n"
                } else {
                    *b"{\n"
                }
            })
            .collect()
    };
    // Lines just below the popularity limit, so that each has a hundred places.
    let frequent = |step: usize| -> Vec<u8> {
        (0..10_000_usize)
            .flat_map(|i| format!("  x = {};\n", i * step % 101).into_bytes())
            .collect()
    };
    // Two hundred and more close lines of ten thousand characters each.
    let wide = |c: &str| -> Vec<u8> {
        (0..250)
            .flat_map(|i| format!("}}\n{}{i}\n", ["ab", c].concat().repeat(3_000)).into_bytes())
            .collect()
    };
    for (a, b) in [
        (mixed(0), mixed(1)),
        (frequent(1), frequent(7)),
        (wide("c"), wide("d")),
    ] {
        let (count, _) = changed_lines_within(&a, &b, 1 << 22);
        let lines = |text: &[u8]| Encoding::Utf8.lines(text).count() as u32;
        assert!(count <= lines(&a) + lines(&b));
    }
    // Running out of steps never lowers the count.
    let (a, b) = (frequent(1), frequent(7));
    let counts: Vec<u32> = [1, 1 << 16, 1 << 20]
        .map(|limit| changed_lines_within(&a, &b, limit).0)
        .into();
    assert!(
        counts.windows(2).all(|pair| pair[0] >= pair[1]),
        "{counts:?}"
    );
    assert_eq!(counts[0], 20_000);
}

/// Texts of lines from a small stock, around the length where the heuristics begin.
fn few_kinds_of_lines() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec!["", "}", "  x = y;", "  x = z;", "\treturn;", "\u{e9}"]);
    prop::collection::vec(line, 0..230).prop_map(|lines| lines.join("\n").into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_count_lies_between_an_exact_diff_and_all_lines(
        a in few_kinds_of_lines(), b in few_kinds_of_lines(),
    ) {
        let count = changed_lines(&a, &b);
        let all = (Encoding::Utf8.lines(&a).count() + Encoding::Utf8.lines(&b).count()) as u32;
        prop_assert!(count >= without_heuristics(&a, &b));
        prop_assert!(count <= all);
        prop_assert_eq!(count % 2, all % 2);
    }

    #[test]
    fn any_bytes_are_accepted(
        a in prop::collection::vec(any::<u8>(), 0..300), b in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        changed_lines(&a, &b);
        prop_assert_eq!(changed_lines(&a, &a), 0);
    }
}
