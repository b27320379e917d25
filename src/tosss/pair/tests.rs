//! Pairs out of small fixes of our own: what is matched, what is dropped and why.

use super::*;
use crate::tosss::change::ChangedFile;
use proptest::prelude::*;

const FIXED: &str = "int get(const int *v, int n, int i)\n{\n    if (i < 0 || i >= n)\n        return -1;\n    return v[i];\n}\n";
const BROKEN: &str = "int get(const int *v, int n, int i)\n{\n    return v[i];\n}\n";

fn fix(id: &str) -> Fix {
    Fix {
        vulnerability: Vulnerability {
            id: id.into(),
            ..Vulnerability::default()
        },
        repository: "https://example.org/r".into(),
        commit: format!("commit of {id}"),
    }
}

/// What a change of these files gives: path, before, after.
fn mine(files: &[(&str, &[u8], &[u8])], change: impl Fn(&mut Change)) -> Mined {
    let mut blobs: BTreeMap<Digest, Arc<[u8]>> = BTreeMap::new();
    let mut put = |bytes: &[u8]| {
        blobs.insert(Digest::of(bytes), bytes.into());
        Digest::of(bytes)
    };
    let sources: Vec<ChangedFile> = files
        .iter()
        .map(|(path, before, after)| ChangedFile {
            path: path.to_string(),
            from: None,
            before: put(before),
            after: put(after),
        })
        .collect();
    let mut whole = Change {
        parents: 1,
        files: sources.len(),
        date: Some("2020-02-03".into()),
        sources,
        ..Change::default()
    };
    change(&mut whole);
    let fix = fix("CVE-2020-1");
    pairs(&fix, &whole, &Limits::default(), |d| {
        blobs.get(&d).cloned().ok_or("no blob")
    })
    .unwrap()
}

fn one(path: &str, before: &str, after: &str) -> Mined {
    mine(&[(path, before.as_bytes(), after.as_bytes())], |_| {})
}

fn why(mined: &Mined) -> Vec<(Option<&str>, Dropped)> {
    let all = mined.dropped.iter();
    all.map(|d| (d.function.as_deref(), d.reason)).collect()
}

#[test]
fn the_function_that_changes_is_the_pair() {
    let other = "int other(void)\n{\n    return 1;\n}\n\n";
    let mined = one(
        "src/a.c",
        &format!("{other}{BROKEN}"),
        &format!("{other}{FIXED}"),
    );
    assert_eq!(mined.dropped, []);
    let [pair] = &mined.pairs[..] else {
        panic!("{mined:?}")
    };
    assert_eq!((pair.function.as_str(), pair.functions_in_fix), ("get", 1));
    assert_eq!(pair.before, BROKEN.trim_end());
    assert_eq!(pair.after, FIXED.trim_end());
    assert_eq!(pair.vulnerability.published.as_deref(), Some("2020-02-03"));
    assert_eq!(pair.cluster(), "CVE-2020-1");
}

#[test]
fn limits_and_kinds_of_commits_exclude_a_fix_as_a_whole() {
    let files = [("a.c", BROKEN.as_bytes(), FIXED.as_bytes())];
    let reason = |change: &dyn Fn(&mut Change)| {
        let mined = mine(&files, change);
        assert!(mined.pairs.is_empty());
        why(&mined)[0].1
    };
    assert_eq!(reason(&|c| c.parents = 2), Dropped::Merge);
    assert_eq!(reason(&|c| c.parents = 0), Dropped::Root);
    assert_eq!(reason(&|c| c.files = 11), Dropped::TooManyFiles);
    assert_eq!(reason(&|c| c.sources.clear()), Dropped::NoSource);
    assert_eq!(mine(&files, |c| c.files = 10).pairs.len(), 1);
    let many = |n: usize, one: &str| {
        let line = |i: usize| format!("int f{i}(void) {{ return {one}; }}\n");
        (0..n).map(line).collect::<String>()
    };
    let twenty = one("a.c", &many(20, "1"), &many(20, "2"));
    assert_eq!(twenty.pairs.len(), 20);
    assert!(twenty.pairs.iter().all(|p| p.functions_in_fix == 20));
    let more = one("a.c", &many(21, "1"), &many(21, "2"));
    assert_eq!(why(&more), [(None, Dropped::TooManyFunctions)]);
}

#[test]
fn files_that_say_nothing_of_the_fault_are_left_out() {
    let reason = |path: &str, before: &str, after: &str| {
        let mined = one(path, before, after);
        assert!(mined.pairs.is_empty(), "{path}");
        why(&mined)[0].1
    };
    assert_eq!(reason("tests/a.c", BROKEN, FIXED), Dropped::Test);
    let generated = |text: &str| format!("/* Do not edit: made from a.y */\n{text}");
    assert_eq!(
        reason("a.c", &generated(BROKEN), &generated(FIXED)),
        Dropped::Generated
    );
    assert_eq!(
        reason("a.c", &format!("\0{BROKEN}"), FIXED),
        Dropped::Binary
    );
    assert_eq!(
        reason("a.c", "int x = 1;\n", "int x = 2;\n"),
        Dropped::NoFunction
    );
    assert_eq!(reason("a.txt", "a", "b"), Dropped::NoSource);
    let mined = mine(&[], |c| {
        c.left_out = vec![("new.c".into(), Dropped::OneSided)]
    });
    assert_eq!(why(&mined), [(None, Dropped::OneSided)]);
}

#[test]
fn functions_that_do_not_change_in_substance_are_dropped() {
    let reason = |before: &str, after: &str| {
        let mined = one("a.c", before, after);
        assert!(mined.pairs.is_empty(), "{mined:?}");
        let (function, reason) = why(&mined)[0];
        assert_eq!(function, Some("get"));
        reason
    };
    let comment = BROKEN.replace("{\n", "{ /* look here */\n");
    assert_eq!(reason(BROKEN, &comment), Dropped::LayoutOnly);
    let crlf = BROKEN.replace('\n', "\r\n");
    assert_eq!(reason(BROKEN, &crlf), Dropped::Equal);
    assert_eq!(reason("int x;\n", FIXED), Dropped::OnlyAfter);
    assert_eq!(reason(BROKEN, "int x;\n"), Dropped::OnlyBefore);
    let long = format!("int get(void) {{ {} }}", "f( );".repeat(2000));
    assert_eq!(
        reason(&long, &long.replacen("f(", "g(", 1)),
        Dropped::TooLong
    );
    let bell = BROKEN.replace("return", "\u{7}return");
    assert_eq!(reason(&bell, FIXED), Dropped::Garbled);
    let split = "#ifdef A\nint get(int a) {\n#else\nint get(long a) {\n#endif\n  return 1;\n}\n";
    assert_eq!(reason(split, FIXED), Dropped::SplitByIfdef);
}

#[test]
fn heads_that_only_a_macro_knows_and_heads_that_are_split() {
    let of = |check: &str| {
        format!(
            "DECLARE(cpRows)\n{{\n{check}    return 0;\n}}\n\nint NAME(get)(const int *v, int n)\n{{\n{check}    return v[n];\n}}\n\nCheck table[] = {{ {{ 1 }} }};\n"
        )
    };
    let mined = one("a.c", &of(""), &of("    if (n < 0)\n        return 1;\n"));
    assert_eq!(mined.pairs.len(), 2, "{mined:?}");
    let split = |value: u8| {
        format!(
            "#ifdef A\nint get(int a) {{\n#else\nint get(long a) {{\n#endif\n  return {value};\n}}\n"
        )
    };
    let mined = one("a.c", &split(1), &split(2));
    assert!(mined.pairs.is_empty());
    assert_eq!(why(&mined), [(Some("get"), Dropped::SplitByIfdef)]);
}

#[test]
fn a_changed_signature_is_still_the_same_function() {
    let after = FIXED.replace("int n,", "unsigned n,");
    assert_eq!(one("a.c", BROKEN, &after).pairs.len(), 1);
    // Overloads are told apart by their parameters, wherever they stand.
    let f = |parameters: &str, value: u8| format!("int f({parameters}) {{ return {value}; }}\n");
    let before = f("int a", 1) + &f("long a", 2);
    let after = f("long a", 2) + &f("int a", 3);
    let mined = one("a.cc", &before, &after);
    assert_eq!(mined.pairs.len(), 1);
    assert!(mined.pairs[0].before.contains("int a") && mined.pairs[0].after.contains("int a"));
    // One overload whose parameters change, beside one that stays.
    let mined = one("a.cc", &before, &(f("int a", 1) + &f("unsigned long a", 5)));
    assert_eq!(mined.pairs.len(), 1);
    assert!(mined.pairs[0].before.contains("long a"));
}

#[test]
fn latin_1_sources_lose_nothing() {
    let latin = |text: &str| {
        let text = text.replace("return v", "/* caf# */ return v");
        text.bytes()
            .map(|b| if b == b'#' { 0xe9 } else { b })
            .collect::<Vec<u8>>()
    };
    let mined = mine(&[("a.c", &latin(BROKEN), &latin(FIXED))], |_| {});
    assert_eq!(mined.pairs.len(), 1);
    assert!(mined.pairs[0].after.contains("caf\u{e9}"));
}

#[test]
fn other_languages_give_pairs_too() {
    let cases = [
        (
            "a/B.java",
            "class B { int f(int[] v, int i) { return v[i]; } }",
            "class B { int f(int[] v, int i) { if (i < 0) return 0; return v[i]; } }",
            "B.f",
        ),
        (
            "a.go",
            "package p\nfunc (s *S) F(i int) int { return s.v[i] }\n",
            "package p\nfunc (s *S) F(i int) int { if i < 0 { return 0 }; return s.v[i] }\n",
            "S.F",
        ),
        (
            "a.py",
            "class A:\n    def f(self, p):\n        return open(p)\n",
            "class A:\n    def f(self, p):\n        check(p)\n        return open(p)\n",
            "A.f",
        ),
    ];
    for (path, before, after, name) in cases {
        let mined = one(path, before, after);
        assert_eq!(mined.pairs.len(), 1, "{path}: {mined:?}");
        assert_eq!(mined.pairs[0].function, name);
    }
    let broken = one(
        "a.py",
        "def f(a):\n    return (a\n",
        "def f(a):\n    return (a)\n",
    );
    assert!(broken.pairs.is_empty());
}

#[test]
fn the_same_two_texts_are_one_pair() {
    let of = |id: &str| {
        let mut mined = one("a.c", BROKEN, FIXED);
        mined.pairs[0].vulnerability.id = id.into();
        mined
    };
    let joined = Mined::join(&[of("CVE-1"), of("CVE-2"), of("CVE-1")]);
    assert_eq!(joined.pairs.len(), 1);
    assert_eq!(joined.pairs[0].also, ["CVE-2"]);
    assert_eq!(joined.counts(), BTreeMap::from([(Dropped::Duplicate, 2)]));
}

#[test]
fn a_pair_is_its_texts_whatever_else_is_known_of_it() {
    let mut pair = one("a.c", BROKEN, FIXED).pairs.remove(0);
    let digest = pair.digest();
    pair.vulnerability.id = "CVE-9".into();
    pair.commit = "other".into();
    assert_eq!(pair.digest(), digest);
    std::mem::swap(&mut pair.before, &mut pair.after);
    assert_ne!(pair.digest(), digest);
    let back: Pair = serde_json::from_str(&serde_json::to_string(&pair).unwrap()).unwrap();
    assert_eq!(back, pair);
}

proptest! {
    /// Every function that differs is a pair or is dropped, and nothing else is.
    #[test]
    fn each_function_has_one_fate(
        old in prop::collection::btree_map("[a-f]", 0_u8..4, 0..6),
        new in prop::collection::btree_map("[a-f]", 0_u8..4, 0..6),
    ) {
        let text = |all: &BTreeMap<String, u8>| {
            let line = |(name, value): (&String, &u8)| format!("int {name}(void)\n{{\n    return {value};\n}}\n");
            all.iter().map(line).collect::<String>()
        };
        let mined = one("a.c", &text(&old), &text(&new));
        for name in old.keys().chain(new.keys()) {
            let paired = mined.pairs.iter().filter(|p| p.function == *name).count();
            let dropped = mined.dropped.iter().filter(|d| d.function.as_ref() == Some(name));
            let dropped: Vec<Dropped> = dropped.map(|d| d.reason).collect();
            let expected = match (old.get(name), new.get(name)) {
                (Some(x), Some(y)) if x == y => (0, vec![]),
                (Some(_), Some(_)) => (1, vec![]),
                (Some(_), None) => (0, vec![Dropped::OnlyBefore]),
                _ => (0, vec![Dropped::OnlyAfter]),
            };
            prop_assert_eq!((paired, dropped), expected);
        }
    }
}
