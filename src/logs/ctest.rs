//! `ctest`: what CMake's ctest prints for each test, `3/12 Test #3: NAME ....   Passed  0.01 sec`,
//! with and without `-V`. Its closing count of failures is compared with the lines.

use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;

use super::cases::{Outcome, Reports, lines};
use super::parser::{CHECK_COUNTS, Log, LogParser, ParserType, Reading, counted};

/// CMake's test runner.
pub const CTEST: ParserType = ParserType {
    name: "ctest",
    options: &[CHECK_COUNTS],
    make: |_| Ok(Arc::new(Ctest)),
};

#[derive(Debug)]
struct Ctest;

/// The name is filled up with dots. Some words stand before the stars: `Subprocess aborted***`.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?-u)\d+/\d+ Test +#\d+: (?<name>[^\n]*?) \.{2,} *(?:(?<passed>Passed)\b|[A-Za-z ]*\*\*\*(?<word>[^\n]*))",
    )
    .expect("the pattern is a constant")
});
/// What a test printed, as `-V` shows it: no word of ctest's.
static SHOWN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)^\d+: ").expect("the pattern is a constant"));
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)^\d+% tests passed, (?<failed>\d{1,9}) tests failed out of \d+")
        .expect("the pattern is a constant")
});

impl LogParser for Ctest {
    fn read(&self, log: &Log<'_>) -> Reading {
        let mut reports = Reports::default();
        let mut doubts = Vec::new();
        for line in lines(log.text) {
            if SHOWN.is_match(line) {
                continue;
            }
            if let Some(captures) = LINE.captures(line) {
                let outcome = match captures.name("word").map(|word| word.as_bytes()) {
                    None => Outcome::Passed,
                    Some(word) if word.starts_with(b"Skipped") => Outcome::Skipped,
                    Some(word) if word.starts_with(b"Not Run (Disabled)") => Outcome::Skipped,
                    // Failed, Timeout, Exception, Not Run for want of a program or a fixture.
                    Some(_) => Outcome::Failed,
                };
                reports.add(&captures["name"], outcome);
            }
            if let Some(captures) = COUNT.captures(line) {
                let failed = std::str::from_utf8(&captures["failed"]).unwrap_or_default();
                let read = reports.count(Outcome::Failed);
                doubts.extend(counted("failures", failed.parse().unwrap_or(0), read));
            }
        }
        Reading {
            doubts,
            ..reports.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::tests::{plain, recorded, shown};
    use super::*;

    #[test]
    fn every_way_to_end() {
        insta::assert_snapshot!(shown(&plain(&CTEST), &recorded("ctest.log")));
    }

    #[test]
    fn with_the_output_of_the_tests_in_between() {
        let parser = plain(&CTEST);
        let verbose = shown(&parser, &recorded("ctest-verbose.log"));
        assert_eq!(verbose, shown(&parser, &recorded("ctest.log")));
    }
}
