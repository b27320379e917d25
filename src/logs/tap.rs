//! `tap`: the Test Anything Protocol, versions 12 to 14: numbered test points, plans, directives,
//! subtests, `Bail out!`; of one producer or of several one after another, as `prove -v` shows them.
//!
//! - A point that the plan promises and that was not given is a failure, called by its number.
//! - `# SKIP` and `# TODO` are skips, whatever stands before them: a case that is known to fail
//!   says nothing about what is done to the code.
//! - Points of subtests count only with `subtests = true`, as `parent / child`: the parent's own
//!   point sums them up.
//! - A point may stand behind output of others in its line if its number is the next one.

use std::sync::{Arc, LazyLock};

use regex::bytes::{Captures, Regex};

use super::cases::{Outcome, Reports, lines};
use super::parser::{Log, LogParser, OptionKind, OptionType, ParserType, Reading};

/// The Test Anything Protocol.
pub const TAP: ParserType = ParserType {
    name: "tap",
    options: &[OptionType {
        key: "subtests",
        kind: OptionKind::Flag(false),
    }],
    make: |options| {
        Ok(Arc::new(Tap {
            subtests: options.flag("subtests"),
        }))
    },
};

/// A plan larger than this is noise: nobody waits for so many points.
const MOST: u64 = 100_000;
/// How many missing points of one log are named, and how long a name may be: logs are written by
/// the code under test, and must cost no more memory than they have bytes, within reason.
const MISSING: u64 = 100_000;
const LONGEST: usize = 500;
/// Subtests nested deeper than this are not looked at.
const DEEPEST: usize = 32;

#[derive(Debug)]
struct Tap {
    subtests: bool,
}

static POINT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)^(?<indent> *)(?<not>not )?ok\b(?: +(?<number>\d{1,9})\b)?(?<rest>[^\n]*)$")
        .expect("the pattern is a constant")
});
static GLUED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)(?<indent>)(?<not>not )?ok (?<number>\d{1,9})(?<rest>(?: [^\n]*)?)$")
        .expect("the pattern is a constant")
});
static PLAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)^(?<indent> *)1\.\.(?<last>\d{1,19})(?:\s*#\s*(?<why>[^\n]*))?\s*$")
        .expect("the pattern is a constant")
});
static DIRECTIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i-u)(?:^|\s)#\s*(?:skip\S*|todo)\b").expect("the pattern is a constant")
});
static SUBTEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)^(?<indent> *)# Subtest: *(?<name>[^\n]*)$")
        .expect("the pattern is a constant")
});
static SANITIZER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)[^\s:]*:\d+(?::\d+)?: runtime error: |=+\d+==").expect("a constant")
});

/// A point with all that is known of it but its parents.
struct Point {
    name: Vec<u8>,
    outcome: Outcome,
    /// Of a subtest.
    nested: bool,
}

impl Point {
    fn below(self, parent: &[u8]) -> Point {
        Point {
            name: [parent, &b" / "[..], &self.name].concat(),
            nested: true,
            ..self
        }
    }
}

/// What was read at one depth since its producer began.
#[derive(Default)]
struct Level {
    /// What the subtest is called, as far as it was announced.
    announced: Option<Vec<u8>>,
    plan: Option<u64>,
    given: std::collections::BTreeSet<u64>,
    last: u64,
    points: Vec<Point>,
}

impl Level {
    /// Whether every promised point was given.
    fn complete(&self) -> bool {
        self.plan
            .is_some_and(|plan| self.given.len() as u64 >= plan)
    }

    /// The points, with those that were promised and not given.
    fn close(&mut self, budget: &mut u64) -> Vec<Point> {
        let mut points = std::mem::take(&mut self.points);
        let missing = (1..=self.plan.unwrap_or(0)).filter(|n| !self.given.contains(n));
        for number in missing.take(usize::try_from(*budget).unwrap_or(0)) {
            *budget -= 1;
            points.push(Point {
                name: numbered(number),
                outcome: Outcome::Failed,
                nested: false,
            });
        }
        *self = Level::default();
        points
    }
}

fn numbered(number: u64) -> Vec<u8> {
    format!("test {number}").into_bytes()
}

impl LogParser for Tap {
    fn read(&self, log: &Log<'_>) -> Reading {
        let mut reader = Reader {
            subtests: self.subtests,
            levels: vec![Level::default()],
            reports: Reports::default(),
            budget: MISSING,
        };
        let mut quoted: Option<usize> = None;
        for line in lines(log.text) {
            let indent = line.iter().take_while(|b| **b == b' ').count();
            // A block of YAML belongs to the point before it.
            if let Some(block) = quoted {
                if indent == block && line[indent..].trim_ascii_end() == b"..." {
                    quoted = None;
                }
                if indent >= block || line.is_empty() {
                    continue;
                }
                quoted = None;
            }
            if indent >= 2 && line[indent..].trim_ascii_end() == b"---" {
                quoted = Some(indent);
                continue;
            }
            reader.line(line);
        }
        reader.finish().into()
    }
}

struct Reader {
    subtests: bool,
    /// The program's own points, those of its subtest, ...
    levels: Vec<Level>,
    reports: Reports,
    /// How many missing points may still be named.
    budget: u64,
}

impl Reader {
    fn line(&mut self, line: &[u8]) {
        if let Some(captures) = SUBTEST.captures(line) {
            // Announced inside (Test::More) or in front of it (version 14): the depth of the
            // comment does not say which, the next point does.
            let depth = captures["indent"].len() / 4 + 1;
            if let Some(level) = self.level(depth) {
                let name = captures["name"].trim_ascii();
                level.announced = Some(name[..name.len().min(LONGEST)].to_vec());
            }
            return;
        }
        if line.trim_ascii_start().starts_with(b"#") {
            return;
        }
        if line.starts_with(b"TAP version ") {
            return self.next_producer();
        }
        if line.starts_with(b"Bail out!") {
            // What was promised and is not given any more is missing, which `finish` sees.
            return;
        }
        if let Some(captures) = PLAN.captures(line) {
            return self.plan(&captures);
        }
        if let Some(captures) = POINT.captures(line) {
            return self.point(&captures);
        }
        if let Some(captures) = GLUED.captures(line) {
            let next = self.levels[0].last + 1;
            if number(&captures) == Some(next) {
                self.point(&captures);
            }
        }
    }

    fn plan(&mut self, captures: &Captures<'_>) {
        let depth = captures["indent"].len() / 4;
        let last = std::str::from_utf8(&captures["last"]).unwrap_or_default();
        let Some(last) = last.parse().ok().filter(|last| *last <= MOST) else {
            return;
        };
        if depth == 0 && self.levels[0].plan.is_some() {
            self.next_producer();
        }
        let Some(level) = self.level(depth) else {
            return;
        };
        level.plan = Some(last);
        if last == 0 && depth == 0 {
            let why = captures.name("why").map_or(&b""[..], |why| why.as_bytes());
            let name = [b"everything: ", why].concat();
            let name = name.strip_suffix(b": ").unwrap_or(&name).to_vec();
            level.points.push(Point {
                name,
                outcome: Outcome::Skipped,
                nested: false,
            });
        }
    }

    fn point(&mut self, captures: &Captures<'_>) {
        let depth = captures["indent"].len() / 4;
        let rest = cut(&captures["rest"]);
        let number = number(captures);
        // `prove` closes each file with a word of its own.
        let bare = number.is_none() && rest.is_empty() && captures.name("not").is_none();
        if depth == 0 && bare && self.levels[0].complete() {
            return;
        }
        if depth == 0 && number == Some(1) && self.levels[0].last > 0 {
            self.next_producer();
        }
        let children = match self.levels.get_mut(depth + 1) {
            Some(level) => {
                let points = level.close(&mut self.budget);
                self.levels.truncate(depth + 1);
                points
            }
            None => Vec::new(),
        };
        if depth > DEEPEST {
            return;
        }
        let subtests = self.subtests;
        let level = self.level(depth).expect("it is not too deep");
        let number = number.unwrap_or(level.last + 1);
        let directive = DIRECTIVE.find(rest);
        let described = directive.map_or(rest, |d| &rest[..d.start()]);
        let described = described.trim_ascii();
        let described = described.strip_prefix(b"-").unwrap_or(described);
        let name = match described.trim_ascii() {
            b"" => numbered(number),
            name => name[..name.len().min(LONGEST)].to_vec(),
        };
        let outcome = match (directive, captures.name("not")) {
            (Some(_), _) => Outcome::Skipped,
            (None, Some(_)) => Outcome::Failed,
            (None, None) => Outcome::Passed,
        };
        level.last = number;
        level.given.insert(number);
        if subtests {
            let below = children.into_iter().map(|child| child.below(&name));
            level.points.extend(below);
        }
        level.points.push(Point {
            name,
            outcome,
            nested: false,
        });
    }

    /// The points of a depth, if it is not too deep; those in between are made.
    fn level(&mut self, depth: usize) -> Option<&mut Level> {
        if depth > DEEPEST {
            return None;
        }
        while self.levels.len() <= depth {
            self.levels.push(Level::default());
        }
        self.levels.get_mut(depth)
    }

    /// Reports what the producer so far has given.
    fn next_producer(&mut self) {
        // Subtests whose parent never came.
        while self.levels.len() > 1 {
            let mut level = self.levels.pop().expect("there are two");
            let parent = level
                .announced
                .take()
                .unwrap_or_else(|| b"subtest".to_vec());
            let points = level.close(&mut self.budget);
            let above = self.levels.last_mut().expect("there was another");
            above
                .points
                .extend(points.into_iter().map(|p| p.below(&parent)));
        }
        for point in self.levels[0].close(&mut self.budget) {
            if self.subtests || !point.nested {
                self.reports.add(&point.name, point.outcome);
            }
        }
    }

    fn finish(mut self) -> Reports {
        self.next_producer();
        self.reports
    }
}

fn number(captures: &Captures<'_>) -> Option<u64> {
    let digits = captures.name("number")?.as_bytes();
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What stands behind a point, without a sanitizer's report in the same line.
fn cut(rest: &[u8]) -> &[u8] {
    let end = SANITIZER.find(rest).map_or(rest.len(), |m| m.start());
    rest[..end].trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::super::parser::OptionValue;
    use super::super::parser::tests::{chosen, plain, recorded, shown};
    use super::*;

    #[test]
    fn plans_directives_and_subtests_of_test_more() {
        insta::assert_snapshot!(shown(&plain(&TAP), &recorded("tap-prove.log")));
    }

    #[test]
    fn subtests_one_by_one() {
        let parser = chosen(&TAP, &[("subtests", OptionValue::Flag(true))]);
        insta::assert_snapshot!(shown(&parser, &recorded("tap-nested.log")));
    }

    #[test]
    fn what_was_planned_before_a_bail_out_is_missing() {
        insta::assert_snapshot!(shown(&plain(&TAP), &recorded("tap-bail.log")), @r"
        Passed  before
        Failed  test 2
        Failed  test 3
        Failed  test 4
        ");
    }

    #[test]
    fn a_c_program_with_output_in_the_middle_of_lines() {
        insta::assert_snapshot!(shown(&plain(&TAP), &recorded("tap-c.log")));
        insta::assert_snapshot!(shown(&plain(&TAP), &recorded("tap-c-abort.log")));
    }

    #[test]
    fn a_skipped_producer_is_one_skip() {
        assert_eq!(
            shown(&plain(&TAP), b"1..0 # SKIP no network\n"),
            "Skipped everything: SKIP no network"
        );
    }

    #[test]
    fn a_hostile_plan_is_bounded() {
        let log = b"1..99999\n".repeat(50);
        assert!(shown(&plain(&TAP), &log).lines().count() <= MISSING as usize);
        let long = [&b"ok 1 - "[..], &b"x".repeat(1 << 20)].concat();
        assert!(shown(&plain(&TAP), &long).len() < 600);
    }
}
