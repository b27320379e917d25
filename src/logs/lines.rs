//! `lines`: logs of no known format. A subject gives regular expressions for lines that say passed,
//! failed and skipped; nothing here knows any particular test runner.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

use super::cases::{Outcome, Report, Reports, lines};
use super::parser::{BadOption, Log, LogParser, OptionKind, OptionType, ParserType, Reading};

/// Lines by the subject's own patterns.
pub const LINES: ParserType = ParserType {
    name: "lines",
    options: &[
        OptionType {
            key: "pass",
            kind: OptionKind::Texts {
                required: Some("pass = ['^ok (?<name>.*)']"),
            },
        },
        OptionType {
            key: "fail",
            kind: OptionKind::Texts { required: None },
        },
        OptionType {
            key: "skip",
            kind: OptionKind::Texts { required: None },
        },
    ],
    make: |options| {
        let [pass, fail, skip] = ["pass", "fail", "skip"].map(|key| options.texts(key));
        Ok(Arc::new(LineParser::new(pass, fail, skip)?))
    },
};

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
    pub fn new<S: AsRef<str>>(pass: &[S], fail: &[S], skip: &[S]) -> Result<Self, Vec<BadOption>> {
        let (mut patterns, mut bad) = (Vec::new(), Vec::new());
        for (outcome, list) in [
            (Outcome::Failed, fail),
            (Outcome::Skipped, skip),
            (Outcome::Passed, pass),
        ] {
            for (index, pattern) in list.iter().enumerate() {
                match compile(outcome, index, pattern.as_ref()) {
                    Ok(regex) => patterns.push((outcome, regex)),
                    Err(why) => bad.push(why),
                }
            }
        }
        if bad.is_empty() {
            Ok(LineParser { patterns })
        } else {
            Err(bad)
        }
    }

    /// All reports of `log`, in the order in which they stand there.
    pub fn parse(&self, log: &[u8]) -> Vec<Report> {
        let mut reports = Reports::default();
        for line in lines(log) {
            for (outcome, name) in self.line(line) {
                reports.add(name, outcome);
            }
        }
        reports.into_list()
    }

    fn line<'a>(&self, line: &'a [u8]) -> Vec<(Outcome, &'a [u8])> {
        // By where they begin; they never overlap, so only the nearest one before can be in the way.
        let mut taken: BTreeMap<usize, (usize, Outcome, &[u8])> = BTreeMap::new();
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
                taken.insert(whole.start, (whole.end, *outcome, name));
            }
        }
        taken
            .into_values()
            .map(|(_, outcome, name)| (outcome, name))
            .collect()
    }
}

impl LogParser for LineParser {
    fn read(&self, log: &Log<'_>) -> Reading {
        Reading {
            reports: self.parse(log.text),
            doubts: Vec::new(),
        }
    }
}

fn compile(outcome: Outcome, index: usize, pattern: &str) -> Result<Regex, BadOption> {
    let bad = |why: String| BadOption {
        key: match outcome {
            Outcome::Passed => "pass",
            Outcome::Failed => "fail",
            Outcome::Skipped => "skip",
        },
        index,
        why,
    };
    let regex = RegexBuilder::new(pattern)
        .unicode(false)
        .build()
        .map_err(|e| {
            // The last line says what is wrong; those before it draw the pattern.
            let all = e.to_string();
            let last = all.lines().last().unwrap_or_default();
            let last = last.trim_start_matches("error: ");
            bad(format!("not a regular expression: {last}"))
        })?;
    if regex.capture_names().flatten().any(|n| n == "name") {
        Ok(regex)
    } else {
        Err(bad(
            "it needs a group `(?<name>...)` around what the case is called".into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::cases::Case;
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
        let bad = LineParser::new(&["(?<name>x)", "(?<name>"], &["FAIL (.*)"], &[]).unwrap_err();
        let places: Vec<_> = bad.iter().map(|b| (b.key, b.index)).collect();
        assert_eq!(places, [("fail", 0), ("pass", 1)]);
        assert!(bad[0].why.contains("a group `(?<name>...)`"));
    }

    #[test]
    fn a_name_that_looks_like_an_ordinal_is_another_case() {
        let reports = tap().parse(b"ok 1 - a\nok 2 - a\nok 3 - a#2\n");
        assert_ne!(reports[1].case, reports[2].case);
    }

    proptest! {
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
