//! Tests over `fixtures/answers`, one file a case: a remark, the reply below a line
//! `%%%% reply [stop=...]`, and the outcome behind `%%%% outcome`.

use std::path::Path;

use proptest::prelude::*;

use super::*;

struct Case {
    file: String,
    reply: Reply,
    expected: String,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/answers");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    let case = |path: &std::path::PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let (remark, rest) = text
            .split_once("\n%%%% reply")
            .unwrap_or_else(|| panic!("{file}"));
        assert!(remark.len() > 8, "{file}: no remark");
        let (head, rest) = rest.split_once('\n').unwrap();
        let (body, expected) = rest.rsplit_once("%%%% outcome ").unwrap();
        let mut reply = Reply::complete(body.strip_suffix('\n').unwrap_or(body));
        if let Some(stop) = head.trim().strip_prefix("stop=") {
            reply.stop = serde_json::from_value(stop.into()).unwrap();
        }
        Case {
            file,
            reply,
            expected: expected.trim().to_string(),
        }
    };
    paths.iter().map(case).collect()
}

#[test]
fn every_reply_is_read_as_a_person_reads_it() {
    let cases = cases();
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .map(|c| (c, read(&c.reply).to_string()))
        .filter(|(c, got)| *got != c.expected)
        .map(|(c, got)| format!("{}: {got}, expected {}", c.file, c.expected))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is said of one letter holds for the other: letters that stand for themselves are exchanged,
/// and the outcome must be the other one. No rule may favour an option.
#[test]
fn the_letters_are_read_by_the_same_rules() {
    let capital = Regex::new(r"\b[AB]\b").unwrap();
    let swap = |text: &str| {
        let other = |c: &regex::Captures<'_>| match &c[0] {
            "A" => "B".to_string(),
            _ => "A".to_string(),
        };
        capital.replace_all(text, other).into_owned()
    };
    let mut swapped = 0;
    for case in cases() {
        // Where A is an article, exchanging it makes another sentence.
        if case.file.contains("article") {
            continue;
        }
        let Outcome::Chose(choice) = read(&case.reply) else {
            continue;
        };
        let mut reply = case.reply.clone();
        reply.text = swap(&reply.text);
        if reply.text == case.reply.text {
            continue;
        }
        assert_eq!(
            read(&reply),
            Outcome::Chose(choice.other()),
            "{}",
            case.file
        );
        swapped += 1;
    }
    assert!(swapped > 25, "only {swapped}");
}

proptest! {
    #[test]
    fn any_text_has_an_outcome(text in "[ABab .,:*\n\"{}a-z]{0,60}") {
        read(&Reply::complete(text));
    }

    #[test]
    fn prose_without_a_letter_is_no_choice(words in prop::collection::vec("[c-z]{2,9}", 1..20)) {
        let outcome = read(&Reply::complete(words.join(" ")));
        prop_assert!(!matches!(outcome, Outcome::Chose(_)), "{:?}", outcome);
    }
}
