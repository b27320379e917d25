//! `automake`: the console lines of a test suite of Automake, `PASS: NAME`, `XFAIL: NAME` and so
//! on, of its parallel and its serial harness and of drivers for TAP. The closing count is
//! compared with the lines.
//!
//! `XFAIL`, a failure that was expected, is a skip: such a case could not fail by what is done to
//! the code. `XPASS` and `ERROR` are failures, as for Automake.

use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;

use super::cases::{Outcome, Reports, lines};
use super::parser::{CHECK_COUNTS, Log, LogParser, ParserType, Reading, counted};

/// GNU Automake's `make check`.
pub const AUTOMAKE: ParserType = ParserType {
    name: "automake",
    options: &[CHECK_COUNTS],
    make: |_| Ok(Arc::new(Automake)),
};

#[derive(Debug)]
struct Automake;

/// Behind the output of others a name is one word, so that what follows it in the line is not
/// taken for a part of it. Sanitizers say `ERROR: AddressSanitizer: ...`.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?-u)^(?<word>PASS|FAIL|SKIP|XFAIL|XPASS|ERROR): (?<name>[^\n]+)$|(?<inner>PASS|FAIL|SKIP|XFAIL|XPASS|ERROR): (?<short>[^\s:]+)\s*$",
    )
    .expect("the pattern is a constant")
});
static COLOUR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)\x1b\[[0-9;]*m").expect("the pattern is a constant"));
static TOTAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)^# TOTAL: +(?<n>\d{1,9})$").expect("the pattern is a constant")
});

impl LogParser for Automake {
    fn read(&self, log: &Log<'_>) -> Reading {
        let mut reports = Reports::default();
        let mut doubts = Vec::new();
        // With VERBOSE=1 the logs follow the console lines, and say everything again.
        let (mut quoted, mut checked) = (false, false);
        // Cases since the last total: `make check` of several directories is several suites.
        let mut from = 0;
        let all: Vec<_> = lines(log.text)
            .map(|line| COLOUR.replace_all(line, &b""[..]))
            .collect();
        for (at, line) in all.iter().enumerate() {
            if let Some(captures) = TOTAL.captures(line) {
                if !checked {
                    let n = std::str::from_utf8(&captures["n"]).unwrap_or_default();
                    let read = reports.len() - from;
                    doubts.extend(counted("tests", n.parse().unwrap_or(0), read));
                    checked = true;
                }
                continue;
            }
            if line.starts_with(b".. contents::") {
                quoted = true;
            }
            if line.starts_with(b"Testsuite summary for ") {
                quoted = false;
            }
            if line.starts_with(b"make") && line.ends_with(b" check-TESTS") {
                (quoted, checked, from) = (false, false, reports.len());
            }
            if quoted || line.starts_with(b"# ") {
                continue;
            }
            let Some(captures) = LINE.captures(line) else {
                continue;
            };
            let (word, name) = match captures.name("word") {
                Some(word) => (word.as_bytes(), &captures["name"]),
                None => (&captures["inner"], &captures["short"]),
            };
            let underlined = all
                .get(at + 1)
                .is_some_and(|next| next.len() == line.len() && next.iter().all(|b| *b == b'='));
            let sanitizer = name.split(|b| *b == b':').next();
            if underlined || sanitizer.is_some_and(|s| s.ends_with(b"Sanitizer")) {
                continue;
            }
            let outcome = match word {
                b"PASS" => Outcome::Passed,
                b"SKIP" | b"XFAIL" => Outcome::Skipped,
                _ => Outcome::Failed,
            };
            reports.add(name, outcome);
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
    fn the_parallel_harness_with_a_tap_driver() {
        insta::assert_snapshot!(shown(&plain(&AUTOMAKE), &recorded("automake.log")));
    }

    #[test]
    fn logs_shown_behind_the_lines_say_nothing_new() {
        let parser = plain(&AUTOMAKE);
        let verbose = shown(&parser, &recorded("automake-verbose.log"));
        assert_eq!(verbose, shown(&parser, &recorded("automake.log")));
    }

    #[test]
    fn the_serial_harness() {
        insta::assert_snapshot!(shown(&plain(&AUTOMAKE), &recorded("automake-serial.log")));
    }

    #[test]
    fn a_sanitizer_is_no_test() {
        let log = b"==7==ERROR: AddressSanitizer: SEGV on unknown address\n\
            ERROR: LeakSanitizer: detected memory leaks\n\
            a.c:3:5: runtime error: overflowPASS: glued\n\
            \x1b[0;32mPASS\x1b[m: coloured\n";
        insta::assert_snapshot!(shown(&plain(&AUTOMAKE), log), @r"
        Passed  glued
        Passed  coloured
        ");
    }
}
