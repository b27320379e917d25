//! Test logs, line by line, as reports of cases. A subject gives regular expressions for lines
//! that say passed, failed and skipped; nothing here knows any particular test runner, and
//! nothing here decides what counts as a pass (see [`super::fold`]).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fmt::Write as _;

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// What one line of a log said of a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The runner said that the case passed.
    Passed,
    /// The runner said that the case failed.
    Failed,
    /// The runner said that it did not run the case, and why is its own business.
    Skipped,
}

/// A test case of a subject: a name, and which of the cases that have this name.
///
/// Written `name`, and from the second on `name#2`. The name is the log's bytes as [`lossless`]
/// text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The name as [`lossless`] text.
    pub name: String,
    /// 1 for the first report of that name in a log, 2 for the second, ...
    pub ordinal: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.ordinal > 1 {
            write!(f, "#{}", self.ordinal)?;
        }
        Ok(())
    }
}

/// One report of one case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Which case.
    pub case: Case,
    /// What the log said of it.
    pub outcome: Outcome,
}

/// A subject's pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPattern {
    /// Not a regular expression.
    #[error(
        "{outcome:?} pattern {index} `{pattern}` is not a regular expression over bytes: {cause}"
    )]
    Syntax {
        /// The list it is in.
        outcome: Outcome,
        /// Its place in the list, from 0.
        index: usize,
        /// The pattern.
        pattern: String,
        /// What the regex compiler said.
        cause: Box<regex::Error>,
    },
    /// No group called `name`.
    #[error(
        "{outcome:?} pattern {index} `{pattern}` has no group `(?<name>...)` to tell which case it reports"
    )]
    NoName {
        /// The list it is in.
        outcome: Outcome,
        /// Its place in the list, from 0.
        index: usize,
        /// The pattern.
        pattern: String,
    },
}

/// Reads reports out of a test log.
///
/// Patterns are tried on every line (without its line end) and match anywhere in it, because
/// output of the code under test or of a sanitizer lands in front of what the runner prints; a
/// pattern that must start the line says `^`. Patterns are over bytes: `.` is any byte but the
/// newline, `\w` and `\s` are ASCII. One line may hold several reports. Where matches overlap, a
/// failure wins over a skip, a skip over a pass, so that `ok` inside `not ok` is no pass.
/// White space around a name is dropped; where the group took no part in the match, the name is
/// the whole match.
#[derive(Clone, Debug)]
pub struct LineParser {
    /// Failures first, then skips, then passes: the order of precedence.
    patterns: Vec<(Outcome, Regex)>,
}

impl LineParser {
    /// Compiles a subject's patterns; each needs a group called `name`.
    pub fn new<S: AsRef<str>>(pass: &[S], fail: &[S], skip: &[S]) -> Result<Self, BadPattern> {
        let mut patterns = Vec::new();
        for (outcome, list) in [
            (Outcome::Failed, fail),
            (Outcome::Skipped, skip),
            (Outcome::Passed, pass),
        ] {
            for (index, pattern) in list.iter().enumerate() {
                patterns.push((outcome, compile(outcome, index, pattern.as_ref())?));
            }
        }
        Ok(LineParser { patterns })
    }

    /// All reports of `log`, in the order in which they stand there.
    pub fn parse(&self, log: &[u8]) -> Vec<Report> {
        let mut seen: HashMap<String, u32> = HashMap::new();
        let mut reports = Vec::new();
        for line in log.split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            for (outcome, name) in self.line(line) {
                let ordinal = seen.entry(name.clone()).or_insert(0);
                *ordinal = ordinal.saturating_add(1);
                let case = Case {
                    name,
                    ordinal: *ordinal,
                };
                reports.push(Report { case, outcome });
            }
        }
        reports
    }

    fn line(&self, line: &[u8]) -> Vec<(Outcome, String)> {
        // By where they begin; they never overlap, so only the nearest one before can be in the way.
        let mut taken: BTreeMap<usize, (usize, Outcome, String)> = BTreeMap::new();
        for (outcome, regex) in &self.patterns {
            for captures in regex.captures_iter(line) {
                let whole = captures.get(0).expect("group 0 is the match").range();
                let nearest = taken.range(..whole.end.max(whole.start + 1)).next_back();
                if nearest
                    .is_some_and(|(start, (end, ..))| *end > whole.start || *start == whole.start)
                {
                    continue;
                }
                let name = captures
                    .name("name")
                    .map_or(&line[whole.clone()], |m| m.as_bytes());
                let name = lossless(name.trim_ascii());
                taken.insert(whole.start, (whole.end, *outcome, name));
            }
        }
        taken
            .into_values()
            .map(|(_, outcome, name)| (outcome, name))
            .collect()
    }
}

fn compile(outcome: Outcome, index: usize, pattern: &str) -> Result<Regex, BadPattern> {
    let regex = RegexBuilder::new(pattern)
        .unicode(false)
        .build()
        .map_err(|cause| BadPattern::Syntax {
            outcome,
            index,
            pattern: pattern.to_string(),
            cause: Box::new(cause),
        })?;
    if regex.capture_names().flatten().any(|n| n == "name") {
        Ok(regex)
    } else {
        Err(BadPattern::NoName {
            outcome,
            index,
            pattern: pattern.to_string(),
        })
    }
}

/// `bytes` as text, such that different bytes are different texts: UTF-8 without `\x` stays as it
/// is, else every backslash is doubled and every byte that is not UTF-8 becomes `\xHH`.
pub fn lossless(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains("\\x") => text.to_string(),
        _ => {
            let mut out = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                out.push_str(&chunk.valid().replace('\\', "\\\\"));
                for byte in chunk.invalid() {
                    write!(out, "\\x{byte:02x}").expect("writing to a String");
                }
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tap() -> LineParser {
        LineParser::new(
            &[r"ok \d+ - (?<name>.+)"],
            &[r"not ok \d+ - (?<name>.+)"],
            &[r"ok \d+ - (?<name>.+?) # SKIP"],
        )
        .unwrap()
    }

    fn short(parser: &LineParser, log: &[u8]) -> Vec<String> {
        parser
            .parse(log)
            .iter()
            .map(|r| format!("{} {:?}", r.case, r.outcome))
            .collect()
    }

    #[test]
    fn a_failure_is_never_read_as_the_pass_inside_it() {
        let log = b"1..4\nok 1 - open\nnot ok 2 - read\r\nok 3 - write # SKIP no disk\nok 4 - read";
        assert_eq!(
            short(&tap(), log),
            [
                "open Passed",
                "read Failed",
                "write Skipped",
                "read#2 Passed"
            ]
        );
    }

    #[test]
    fn text_of_others_in_the_line_does_not_hide_a_report() {
        let log =
            b"a.c:3:1: runtime error: shift exponent 40ok 1 - open\n\x1b[32mok 2 - close\xff\n";
        assert_eq!(short(&tap(), log), ["open Passed", "close\\xff Passed"]);
    }

    #[test]
    fn two_reports_glued_into_one_line_are_two() {
        let parser =
            LineParser::new(&[r"PASS (?<name>\w+);"], &[r"FAIL (?<name>\w+);"], &[]).unwrap();
        assert_eq!(
            short(&parser, b"PASS a;FAIL b;PASS c;"),
            ["a Passed", "b Failed", "c Passed"]
        );
    }

    #[test]
    fn one_endless_line_is_read_all_the_same() {
        let parser = LineParser::new(&["\\+(?<name>.)"], &["-(?<name>.)"], &[]).unwrap();
        let log = b"+a-b".repeat(100_000);
        assert_eq!(parser.parse(&log).len(), 200_000);
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let error = LineParser::new(&["(?<name>x)", "(?<name>"], &[], &[]).unwrap_err();
        assert!(matches!(
            error,
            BadPattern::Syntax {
                outcome: Outcome::Passed,
                index: 1,
                ..
            }
        ));
        let error = LineParser::new(&[], &["FAIL (.*)"], &[]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("Failed pattern 0 `FAIL (.*)` has no group")
        );
    }

    #[test]
    fn a_name_that_looks_like_an_ordinal_is_another_case() {
        let reports = tap().parse(b"ok 1 - a\nok 2 - a\nok 3 - a#2\n");
        assert_ne!(reports[1].case, reports[2].case);
    }

    proptest! {
        #[test]
        fn lossless_is_injective(
            a in prop::collection::vec(prop::sample::select(b"\\xfe\xc3\xa90".to_vec()), 0..6),
            b in prop::collection::vec(prop::sample::select(b"\\xfe\xc3\xa90".to_vec()), 0..6),
        ) {
            prop_assert_eq!(a == b, lossless(&a) == lossless(&b));
        }

        #[test]
        fn every_line_of_the_runner_is_found_whatever_stands_before_it(
            lines in prop::collection::vec(("[a-z]{1,4}", 0u8..2, prop::collection::vec(any::<u8>(), 0..6)), 0..20)
        ) {
            let mut log = Vec::new();
            let mut counts: HashMap<String, u32> = HashMap::new();
            let mut expected = Vec::new();
            for (name, passed, noise) in &lines {
                log.extend(noise.iter().filter(|b| **b != b'\n'));
                let word = if *passed == 1 { "ok" } else { "not ok" };
                log.extend(format!(": {word} 7 - {name}\n").bytes());
                let n = counts.entry(name.clone()).or_insert(0);
                *n += 1;
                expected.push((Case { name: name.clone(), ordinal: *n }, *passed == 1));
            }
            let found: Vec<_> = tap().parse(&log).into_iter()
                .map(|r| (r.case, r.outcome == Outcome::Passed)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
