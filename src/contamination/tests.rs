//! Mining and selection on small repositories of our own: what is found, and what is left out and
//! why.

use std::collections::BTreeSet;

use super::*;
use crate::lang::SnippetLanguage;

fn language(name: &str) -> SnippetLanguage {
    SnippetLanguage::named(name).expect("it is in the table")
}

fn file(path: &str, bytes: impl AsRef<[u8]>) -> File {
    File {
        path: path.into(),
        bytes: bytes.as_ref().into(),
    }
}

/// First limits alone, and what is repeated is repeated over eight tokens.
fn long_repeats() -> Settings {
    Settings {
        repeated_tokens: 8,
        rounds: 1,
        ..Settings::default()
    }
}

/// A function of ten and more statements, with names of its own where `n` stands.
fn function(language: &str, n: usize) -> String {
    let (head, ends, tail) = match language {
        "python" => (format!("def measure_{n}(basket):\n"), "", ""),
        "rust" => (
            format!("pub fn measure_{n}(basket: &Basket) {{\n"),
            ";",
            "}\n",
        ),
        _ => (
            format!("void measure_{n}(struct basket *basket) {{\n"),
            ";",
            "}\n",
        ),
    };
    let own = (0..3).map(|i| format!("    step_{n}_{i}(basket, {n}, {i}){ends}\n"));
    let shared = [
        "open_scales(basket, 4)",
        "settle(basket)",
        "weigh(basket, 1, 2)",
        "weigh(basket, 3, 4)",
        "subtract(basket, 100)",
        "check(basket, 7, 8, 9)",
        "note(basket, 11) ",
        "calibrate_pendulum(basket)",
        "close(basket)",
    ];
    let shared = shared.iter().map(|s| format!("    {s}{ends}\n"));
    head + &own.collect::<String>() + &shared.collect::<String>() + tail
}

/// A repository of near copies in two files.
fn repository(name: &str) -> Vec<File> {
    let extension = match name {
        "python" => "py",
        "rust" => "rs",
        "c++" => "cpp",
        other => other,
    };
    let text = |from: usize| {
        (from..from + 2)
            .map(|n| function(name, n))
            .collect::<String>()
    };
    vec![
        file(&format!("src/one.{extension}"), text(0)),
        file(&format!("src/two.{extension}"), text(2)),
    ]
}

fn family(name: &str, url: Option<&str>, files: Vec<File>) -> Family {
    Family {
        name: name.into(),
        url: url.map(String::from),
        files,
    }
}

/// A corpus of three families that speak of nothing in [`repository`].
fn corpus(name: &str) -> Corpus {
    let path = repository(name)[0].path.clone();
    let text =
        |n: usize| format!("int other_{n}_function = {n}; weigh(settle, open, {n});\n").repeat(30);
    let all: Vec<Family> = (0..3)
        .map(|n| family(&format!("f{n}"), None, vec![file(&path, text(n))]))
        .collect();
    Corpus::build(language(name), &all, &Settings::default())
}

#[test]
fn near_copies_give_a_snippet_in_every_language() {
    for name in ["c", "c++", "python", "rust"] {
        let mined = mine(language(name), &repository(name), &long_repeats());
        let selected = select(&mined, &corpus(name), &long_repeats());
        let clone: Vec<&Snippet> = selected
            .snippets
            .iter()
            .filter(|s| s.pattern == Pattern::Clone)
            .collect();
        assert_eq!(clone.len(), 1, "{name}: {mined:?} {:?}", selected.excluded);
        let snippet = clone[0];
        assert_eq!((snippet.repeats, snippet.df), (4, 0), "{name}");
        assert!(snippet.bits >= 8.0, "{name}");
        let source = repository(name);
        let source = source.iter().find(|f| f.path == snippet.path).expect(name);
        let text = std::str::from_utf8(&source.bytes).expect("it is ours");
        let at = snippet.offset as usize;
        assert!(text[..at].ends_with(&snippet.context), "{name}");
        assert!(text[at..].starts_with(&snippet.target), "{name}");
        assert!(!snippet.context.contains(&snippet.target), "{name}");
    }
}

#[test]
fn what_the_corpus_has_or_can_guess_is_left_out_and_counted() {
    let (settings, name) = (Settings::default(), "c");
    let mined = mine(language(name), &repository(name), &settings);
    let targets: BTreeSet<&str> = mined.candidates.iter().map(|c| &*c.target).collect();
    assert!(targets.contains("calibrate_pendulum") && targets.contains("subtract"));
    let knowing = |words: &str| {
        let all: Vec<Family> = ["a", "b"]
            .map(|n| family(n, None, vec![file("x.c", format!("int {n}; {words}"))]))
            .into();
        select(
            &mined,
            &Corpus::build(language(name), &all, &settings),
            &settings,
        )
    };
    let common: String = targets.iter().map(|t| format!("{t}();\n")).collect();
    let selected = knowing(&common);
    assert_eq!(selected.snippets, []);
    assert_eq!(selected.excluded[&Reason::Common], mined.candidates.len());
    // One family with all of the text is no more than one; but then nothing is surprising.
    let tolerant = Settings {
        df_share: 1.0,
        ..settings.clone()
    };
    let text = repository(name)[0].bytes.to_vec();
    let all = [family("a", None, vec![file("x.c", text)])];
    let known = Corpus::build(language(name), &all, &settings);
    let selected = select(&mined, &known, &tolerant);
    assert_eq!(selected.snippets, []);
    assert!(selected.excluded[&Reason::Guessable] > 0);
}

#[test]
fn paragraphs_that_are_repeated_give_words_as_targets() {
    let words = "the basket is weighed twice because the pendulum of an uncalibrated scale drifts \
                 while somebody walks across the wooden floor of the market hall in the morning";
    let unit = |n: usize| format!("/* {words} */\nint weigh_{n}(void) {{ return {n}; }}\n");
    let files = [file("a.c", unit(0)), file("b.c", unit(1))];
    let mined = mine(language("c"), &files, &long_repeats());
    let selected = select(&mined, &corpus("c"), &long_repeats());
    assert_eq!(selected.snippets.len(), 1, "{mined:?}");
    let snippet = &selected.snippets[0];
    assert_eq!((snippet.pattern, snippet.repeats), (Pattern::Text, 2));
    let count = snippet.target.split(' ').count();
    assert!((2..=4).contains(&count) && words.contains(&snippet.target));
}

#[test]
fn limits_widen_in_rounds_until_there_are_enough_and_what_they_add_does_not_overlap() {
    let long = |n: usize| -> String {
        let own =
            (0..40).map(|i| format!("    step_{n}_{i}_of_measure(basket, scales, {i} + {n});\n"));
        own.collect()
    };
    // One file of two functions with the same text: one class.
    let text = [0, 1]
        .map(|f| format!("void f_{f}(void) {{\n{}}}\n", long(7)))
        .concat();
    let files = [file("a.c", text)];
    let mined = mine(language("c"), &files, &Settings::default());
    let count = |rounds: usize| {
        let settings = Settings {
            rounds,
            ..Settings::default()
        };
        let selected = select(&mined, &corpus("c"), &settings);
        let mut places: Vec<(u64, u64)> = selected
            .snippets
            .iter()
            .map(|s| {
                (
                    s.offset - s.context.len() as u64,
                    s.offset + s.target.len() as u64,
                )
            })
            .collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|p| p[0].1 <= p[1].0), "{places:?}");
        let reasons = selected.excluded;
        (places.len(), reasons.contains_key(&Reason::SamePlace))
    };
    assert_eq!(count(1), (1, false));
    assert_eq!(count(2), (2, false));
    let (all, overlapping) = count(6);
    assert!(all > 4 && overlapping, "{all}");
    assert_eq!(count(7).0, all);
}

#[test]
fn identifiers_that_several_functions_have_in_common_give_snippets_where_blocks_differ() {
    let unit = |n: usize| {
        let own = (0..12).map(|i| format!("    if (first_{n} > {i}) {{ own_{n}_{i}(); }}\n"));
        let own: String = own.collect();
        let each = if n == 0 {
            own
        } else {
            own.replace("if", "while").replace("();", "(1, 2);")
        };
        format!(
            "int f_{n}(void) {{\n{each}    return finish(open_scales, settle, weigh_pendulum);\n}}\n"
        )
    };
    let files = [file("a.c", unit(0)), file("b.c", unit(1))];
    let mined = mine(language("c"), &files, &long_repeats());
    let mut found: Vec<(Pattern, &str)> = mined
        .candidates
        .iter()
        .map(|c| (c.pattern, &*c.target))
        .collect();
    found.sort();
    let of = |target| (Pattern::Cooccurrence, target);
    assert_eq!(found, [of("settle"), of("weigh_pendulum")]);
}

#[test]
fn licence_headers_give_nothing() {
    let header = "/*\n * Copyright 2020 the Basket Weighing Company of Upper Pendulum.\n * You may use this \
                  file as long as you tell everybody whom you meet on your way about the scales and the \
                  pendulum and the floor.\n */\n";
    let mut files = repository("c");
    for file in &mut files {
        let text = [header.as_bytes(), &file.bytes].concat();
        file.bytes = text.into();
    }
    let mined = mine(language("c"), &files, &Settings::default());
    assert!(mined.candidates.iter().all(|c| c.pattern != Pattern::Text));
    assert!(mined.candidates.iter().all(|c| !header.contains(&c.target)));
    let readme = file("README.md", "a");
    assert_eq!(
        mine(language("c"), &[readme], &Settings::default()).files,
        1
    );
}

#[test]
fn files_that_nobody_wrote_for_this_repository_are_counted_with_the_reason() {
    let code = function("c", 0);
    let cases: [(&str, Vec<u8>, Reason); 14] = [
        ("src/a.py", code.clone().into(), Reason::OtherLanguage),
        ("data.bin", b"x".to_vec(), Reason::OtherLanguage),
        ("Makefile", b"x".to_vec(), Reason::OtherLanguage),
        ("vendor/z/a.c", code.clone().into(), Reason::Vendored),
        ("lib/Third_Party/a.c", code.clone().into(), Reason::Vendored),
        (
            "a.c",
            format!("/* @generated */\n{code}").into(),
            Reason::Generated,
        ),
        (
            "a.c",
            format!("// DO NOT EDIT\n{code}").into(),
            Reason::Generated,
        ),
        ("a.c", code.replace('\n', " ").into(), Reason::Minified),
        ("a.c", [code.as_bytes(), b"\0"].concat(), Reason::Binary),
        (
            "a.c",
            [code.as_bytes(), b"// \xe9\n"].concat(),
            Reason::NotUtf8,
        ),
        ("a.c", b" \n\n".to_vec(), Reason::Empty),
        ("a.c", Vec::new(), Reason::Empty),
        ("LICENSE.txt", b"x".to_vec(), Reason::Licence),
        ("COPYING", b"x".to_vec(), Reason::Licence),
    ];
    for (path, bytes, reason) in cases {
        let mined = mine(language("c"), &[file(path, bytes)], &Settings::default());
        assert_eq!(mined.excluded, [(reason, 1)].into(), "{path}");
        assert_eq!((mined.files, mined.candidates.len()), (0, 0), "{path}");
    }
    let settings = Settings {
        file_bytes: 10,
        ..Settings::default()
    };
    let mined = mine(language("c"), &[file("a.c", &code)], &settings);
    assert_eq!(mined.excluded, [(Reason::TooLarge, 1)].into());
}

#[test]
fn an_empty_repository_one_file_and_one_without_repetition_give_no_snippet_and_no_error() {
    let settings = Settings::default();
    let mined = mine(language("c"), &[], &settings);
    assert_eq!(mined, Mined::default());
    let selected = select(&mined, &corpus("c"), &settings);
    assert_eq!(selected, Selected::default());
    let one = [file("a.c", function("c", 0))];
    let mined = mine(language("c"), &one, &settings);
    assert_eq!((mined.files, &*mined.candidates), (1, &[][..]));
    assert!(mined.excluded[&Reason::NotRepeated] > 0, "{mined:?}");
    // An empty corpus knows nothing, and so everything is surprising.
    let nothing = Corpus::build(language("c"), &[], &settings);
    let mined = mine(language("c"), &repository("c"), &settings);
    assert_eq!(select(&mined, &nothing, &settings).snippets[0].df, 0);
}

#[test]
fn a_corpus_that_contains_the_repository_is_used_without_it() {
    let settings = Settings::default();
    let of = |n: usize| {
        (0..40)
            .map(|i| function("c", 100 * n + i))
            .collect::<String>()
    };
    let own: Vec<File> = vec![file("a.c", of(1))];
    // Another layout of the same files, and more of them: a fork that nobody told of.
    let fork = vec![
        file("lib/b.c", of(1)),
        file("lib/c.c", "int nothing = 1;\n"),
    ];
    let other = vec![file(
        "a.c",
        "int weigh(void) { return other_things(1, 2, 3); }\n".repeat(9),
    )];
    let mined = mine(language("c"), &own, &settings);
    let url = Some("https://example.com/owner/basket");
    let corpus = Corpus::build(
        language("c"),
        &[
            family("fork", Some("https://example.com/fork/basket"), fork),
            family(
                "same",
                Some("git@example.com:Owner/basket.git"),
                other.clone(),
            ),
            family("other", None, other),
        ],
        &settings,
    );
    assert_eq!(corpus.len(), 3);
    assert_eq!(corpus.same_as(&mined, None), ["fork"]);
    assert_eq!(corpus.same_as(&mined, url), ["fork", "same"]);
    let left = corpus.without(&mined, url);
    let names: Vec<&str> = left.families().map(|(name, _)| name).collect();
    assert_eq!(names, ["other"]);
    assert_eq!((corpus.frequency("weigh"), left.frequency("weigh")), (3, 1));
    assert!(!select(&mined, &left, &settings).snippets.is_empty());
}

#[test]
fn sources_with_one_upstream_are_one_family() {
    let same = [
        "https://github.com/Owner/Name",
        "git+https://github.com/owner/name.git",
        "git@github.com:owner/name.git",
        "ssh://git@github.com/owner/name/",
        "https://www.github.com/owner/name/tree/main/sub#readme",
        "https://user@github.com/owner/name?x=1",
    ];
    for url in same {
        assert_eq!(corpus::upstream(url), "github.com/owner/name", "{url}");
    }
    assert_eq!(
        corpus::upstream("https://gitlab.com/group/sub/name/-/tree/main"),
        "gitlab.com/group/sub/name"
    );
    assert_eq!(corpus::upstream("http://host:8080/a"), "host:8080/a");
    let text = |n: usize| vec![file(&format!("{n}.c"), format!("int variable_{n};"))];
    let all: Vec<Family> = same
        .iter()
        .enumerate()
        .map(|(n, url)| family(&format!("{n}"), Some(url), text(n)))
        .collect();
    let corpus = Corpus::build(language("c"), &all, &Settings::default());
    assert_eq!((corpus.len(), corpus.frequency("variable_3")), (1, 1));
}

#[test]
fn no_more_snippets_are_asked_than_the_settings_say() {
    let settings = long_repeats();
    // Groups of two functions with a word of their own, thirty in a file.
    let group = |n: usize| -> String {
        let two = [2 * n, 2 * n + 1].map(|m| function("c", m));
        let two = two
            .concat()
            .replace("calibrate_pendulum", &format!("calibrate_{n}_pendulum"));
        // Other shapes, or all would be one class.
        two.replace(";\n", &format!("{};\n", " + 1".repeat(n)))
    };
    let all: String = (0..30).map(group).collect();
    let mined = mine(language("c"), &[file("a.c", &all)], &settings);
    let corpus = corpus("c");
    let selected = select(&mined, &corpus, &settings);
    assert_eq!(selected.snippets.len(), 3);
    assert!(selected.excluded[&Reason::SameFile] > 0);
    let loose = Settings {
        per_file: 1000,
        probes: 5,
        ..settings.clone()
    };
    let more = select(&mined, &corpus, &loose);
    assert_eq!(more.snippets.len(), 5);
    assert!(more.excluded[&Reason::Enough] > 0);
    // Everything that was found is in one of the two.
    let sum = |s: &Selected| s.snippets.len() + s.excluded.values().sum::<usize>();
    let places = mined.candidates.len() + mined.excluded.values().sum::<usize>();
    assert_eq!([sum(&selected), sum(&more)], [places; 2]);
}

#[test]
fn the_order_is_that_of_the_seed_and_nothing_else() {
    let settings = Settings::default();
    let mut files = repository("rust");
    let first = mine(language("rust"), &files, &settings);
    assert_eq!(mine(language("rust"), &files, &settings), first);
    files.reverse();
    assert_eq!(
        mine(language("rust"), &files, &settings).candidates,
        first.candidates
    );
    let other = Settings {
        seed: 1,
        ..settings
    };
    assert_ne!(
        mine(language("rust"), &files, &other).candidates,
        first.candidates
    );
}

#[test]
fn random_snippets_have_the_same_shape() {
    let settings = Settings::default();
    let files = repository("python");
    let found = random(language("python"), &files, &settings);
    assert!(found.len() > 5);
    for snippet in &found {
        let source = files
            .iter()
            .find(|f| f.path == snippet.path)
            .expect("a file");
        let text = std::str::from_utf8(&source.bytes).expect("ours");
        let at = snippet.offset as usize;
        assert!(text[..at].ends_with(&snippet.context));
        assert!(text[at..].starts_with(&snippet.target) && snippet.target.len() >= 6);
        let targets = found.iter().filter(|s| s.target == snippet.target);
        assert!(targets.count() <= settings.per_target);
    }
}
