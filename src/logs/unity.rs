//! `unity`: what test programs with ThrowTheSwitch's Unity print, `FILE:LINE:NAME:PASS` and the
//! like, and with its fixtures and `-v` also `TEST(GROUP, NAME) PASS`. Its own count of the
//! tests of a program is compared with the lines.

use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;

use super::cases::{Outcome, Reports, lines};
use super::parser::{CHECK_COUNTS, Log, LogParser, ParserType, Reading, counted};

/// Unity by ThrowTheSwitch.
pub const UNITY: ParserType = ParserType {
    name: "unity",
    options: &[CHECK_COUNTS],
    make: |_| Ok(Arc::new(Unity)),
};

#[derive(Debug)]
struct Unity;

/// Not anchored: output of the code under test lands before it. A name is one of C, with arguments
/// where the case has some.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?-u):\d+:(?<name>[A-Za-z_]\w*|[A-Za-z_]\w*\([^\n]*?\)):(?<word>PASS|FAIL|IGNORE)\b",
    )
    .expect("the pattern is a constant")
});
/// How a case of a fixture begins; what it prints may stand before its result.
static FIXTURE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)(?<ignored>IGNORE_)?(?<name>TEST\([^()\n]*\))")
        .expect("the pattern is a constant")
});
/// A result that does not name its case, since the line began with it.
static NAMELESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u):\d+::(?<word>FAIL|IGNORE)\b").expect("the pattern is a constant")
});
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)\b(?<tests>\d{1,9}) Tests \d+ Failures \d+ Ignored")
        .expect("the pattern is a constant")
});

impl LogParser for Unity {
    fn read(&self, log: &Log<'_>) -> Reading {
        let mut reports = Reports::default();
        let mut said = None;
        let mut waiting: Option<&[u8]> = None;
        for line in lines(log.text) {
            if let Some(captures) = FIXTURE.captures(line) {
                waiting = captures.name("name").map(|name| name.as_bytes());
                if captures.name("ignored").is_some()
                    && let Some(name) = waiting.take()
                {
                    reports.add(name, Outcome::Skipped);
                }
            }
            for captures in LINE.captures_iter(line) {
                waiting = None;
                let outcome = match &captures["word"] {
                    b"PASS" => Outcome::Passed,
                    b"IGNORE" => Outcome::Skipped,
                    _ => Outcome::Failed,
                };
                reports.add(&captures["name"], outcome);
            }
            if let Some(name) = waiting {
                let nameless = NAMELESS.captures(line);
                let outcome = match nameless.as_ref().map(|captures| &captures["word"]) {
                    Some(b"FAIL") => Some(Outcome::Failed),
                    Some(_) => Some(Outcome::Skipped),
                    None => line.ends_with(b" PASS").then_some(Outcome::Passed),
                };
                if let Some(outcome) = outcome {
                    reports.add(name, outcome);
                    waiting = None;
                }
            }
            if let Some(captures) = COUNT.captures(line) {
                let tests = std::str::from_utf8(&captures["tests"]).unwrap_or_default();
                *said.get_or_insert(0) += tests.parse::<usize>().unwrap_or(0);
            }
        }
        let doubt = said.and_then(|said| counted("tests", said, reports.len()));
        Reading {
            doubts: doubt.into_iter().collect(),
            ..reports.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::tests::{plain, recorded, shown};
    use super::*;

    #[test]
    fn a_runners_log() {
        insta::assert_snapshot!(shown(&plain(&UNITY), &recorded("unity.log")));
    }

    #[test]
    fn a_log_of_fixtures() {
        insta::assert_snapshot!(shown(&plain(&UNITY), &recorded("unity-fixture.log")));
    }

    #[test]
    fn a_crash_in_the_middle() {
        insta::assert_snapshot!(shown(&plain(&UNITY), &recorded("unity-crash.log")));
    }

    #[test]
    fn text_of_others_hides_nothing() {
        let log = b"a.c:3:5: runtime error: shift exponent 40t/test_a.c:7:adds:PASS\n\
            partial t/a.c:9:subtracts:FAIL: Expected 2 Was 3\n\
            a.c:11:with_args(1, \"a:b\"):PASS\n";
        insta::assert_snapshot!(shown(&plain(&UNITY), log), @r#"
        Passed  adds
        Failed  subtracts
        Passed  with_args(1, "a:b")
        "#);
    }
}
