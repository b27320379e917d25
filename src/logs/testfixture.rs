//! `testfixture`: what SQLite's `testfixture` prints for a script of its test suite. A case is
//! `NAME... Ok`; a failure `! NAME expected: [...]`, or `Error: ...` below `NAME...`; the cases
//! that a script leaves out are listed at its end. Its closing count is compared with the lines.
//!
//! Whatever the code under test and sanitizers print lands between a name and its `Ok`, so the
//! names that wait for one are kept on a stack: cases may run others.

use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;

use super::cases::{Outcome, Reports, lines};
use super::parser::{CHECK_COUNTS, Log, LogParser, ParserType, Reading, counted};

/// SQLite's test program.
pub const TESTFIXTURE: ParserType = ParserType {
    name: "testfixture",
    options: &[CHECK_COUNTS],
    make: |_| Ok(Arc::new(Testfixture)),
};

#[derive(Debug)]
struct Testfixture;

static FAILED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)! (?<name>[^\n]+?) expected: \[").expect("the pattern is a constant")
});
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)(?:^|known )\b(?:\d+ errors|errors) out of (?<tests>\d{1,9}) tests\b")
        .expect("the pattern is a constant")
});
static OMITTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)^\.  (?<name>\S+) ").expect("the pattern is a constant"));
static SANITIZER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)runtime error: |==\d+==|Sanitizer").expect("the pattern is a constant")
});

/// How many names can wait: scripts nest their cases a few deep, and noise must not pile up.
const WAITING: usize = 256;

/// How a line goes on behind a name that waits.
enum Rest {
    Ok,
    Omitted,
    Open,
}

impl LogParser for Testfixture {
    fn read(&self, log: &Log<'_>) -> Reading {
        let mut reports = Reports::default();
        let mut doubts = Vec::new();
        let mut waiting: Vec<&[u8]> = Vec::new();
        // The last name of the line before, if nothing stood behind it.
        let mut bare = false;
        let mut listing = false;
        // Cases of the script; those listed as left out are not among what it counts.
        let mut ran = 0;
        for line in lines(log.text) {
            if let Some(captures) = FAILED.captures(line) {
                let name = captures
                    .name("name")
                    .expect("it is in the pattern")
                    .as_bytes();
                if let Some(at) = waiting.iter().rposition(|w| *w == name) {
                    waiting.truncate(at);
                }
                reports.add(name, Outcome::Failed);
                (ran, bare) = (ran + 1, false);
                continue;
            }
            if bare
                && line.starts_with(b"Error: ")
                && let Some(name) = waiting.pop()
            {
                reports.add(name, Outcome::Failed);
                (ran, bare) = (ran + 1, false);
                continue;
            }
            if let Some(captures) = COUNT.captures(line) {
                let tests = std::str::from_utf8(&captures["tests"]).unwrap_or_default();
                // It counts itself.
                let said = tests.parse::<usize>().unwrap_or(0).saturating_sub(1);
                doubts.extend(counted("tests", said, ran));
                ran = 0;
            }
            if listing && let Some(captures) = OMITTED.captures(line) {
                reports.add(&captures["name"], Outcome::Skipped);
                continue;
            }
            listing = line == b"Omitted test cases:";
            let rest = begin(line, &mut waiting);
            let outcome = match rest {
                Rest::Ok => Outcome::Passed,
                Rest::Omitted => Outcome::Skipped,
                Rest::Open => {
                    bare = line.ends_with(b"...");
                    continue;
                }
            };
            bare = false;
            if let Some(name) = waiting.pop() {
                reports.add(name, outcome);
                ran += 1;
            }
        }
        Reading {
            doubts,
            ..reports.into()
        }
    }
}

/// Puts the names of `line` that end in three dots on the stack; what stands behind the last.
fn begin<'a>(line: &'a [u8], waiting: &mut Vec<&'a [u8]>) -> Rest {
    let mut rest = line;
    while let Some(at) = rest.windows(3).position(|w| w == b"...") {
        let name = rest[..at].trim_ascii();
        // A name may hold spaces, but not the words of a sanitizer.
        let name = match SANITIZER.is_match(name) {
            true => name.rsplit(|b| b.is_ascii_whitespace()).next(),
            false => Some(name),
        };
        if waiting.len() == WAITING {
            waiting.remove(0);
        }
        waiting.extend(name.filter(|name| !name.is_empty()));
        rest = &rest[at + 3..];
    }
    match () {
        () if rest.ends_with(b" Ok") => Rest::Ok,
        () if rest.ends_with(b" Omitted") => Rest::Omitted,
        () => Rest::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::tests::{plain, recorded, shown};
    use super::*;

    #[test]
    fn a_script_with_every_kind_of_case() {
        insta::assert_snapshot!(shown(&plain(&TESTFIXTURE), &recorded("testfixture.log")));
    }

    #[test]
    fn a_case_that_crashes_or_hangs_reports_nothing() {
        let parser = plain(&TESTFIXTURE);
        let crash = shown(&parser, &recorded("testfixture-crash.log"));
        assert_eq!(crash, "Passed  crash-1");
        let killed = shown(&parser, &recorded("testfixture-killed.log"));
        assert_eq!(killed, "Passed  hang-1");
    }

    #[test]
    fn a_count_that_is_another_one_is_doubted() {
        let log = b"a-1... Ok\na-2... Ok\n0 errors out of 4 tests on x\n";
        insta::assert_snapshot!(shown(&plain(&TESTFIXTURE), log), @r"
        Passed  a-1
        Passed  a-2
        doubt: the log counts 3 tests, but 2 were read from it
        ");
    }
}
