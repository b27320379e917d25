//! `php-run-tests`: the result file of PHP's `run-tests.php -W FILE`, one line a test: a word, a
//! tab and the test's path. Cases are called by the path inside the tree.
//!
//! Tests that are known to fail or to leak (`XFAILED`, `XLEAKED`), and those of them that pass
//! (`WARNED`), are skips: they say nothing about what is done to the code.

use std::sync::Arc;

use super::cases::{Outcome, Reports, lines};
use super::parser::{Log, LogParser, ParserType, Reading};

/// PHP's own runner.
pub const PHP_RUN_TESTS: ParserType = ParserType {
    name: "php-run-tests",
    options: &[],
    make: |_| Ok(Arc::new(RunTests)),
};

#[derive(Debug)]
struct RunTests;

impl LogParser for RunTests {
    fn read(&self, log: &Log<'_>) -> Reading {
        let mut reports = Reports::default();
        for line in lines(log.text) {
            let Some(tab) = line.iter().position(|b| *b == b'\t') else {
                continue;
            };
            let (word, path) = (&line[..tab], &line[tab + 1..]);
            let outcome = match word {
                b"PASSED" => Outcome::Passed,
                b"FAILED" | b"BORKED" | b"LEAKED" => Outcome::Failed,
                b"SKIPPED" | b"XFAILED" | b"XLEAKED" | b"WARNED" => Outcome::Skipped,
                // `REDIRECTED` announces others.
                _ => continue,
            };
            let inside = path
                .strip_prefix(log.tree.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"/"));
            reports.add(inside.unwrap_or(path), outcome);
        }
        reports.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::tests::{plain, recorded, shown};
    use super::*;

    #[test]
    fn every_word() {
        insta::assert_snapshot!(shown(&plain(&PHP_RUN_TESTS), &recorded("php-results.txt")));
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_result() {
        let log = b"PASSED\t/eb/tree/Zend/tests/a.phpt\nPASS";
        let said = shown(&plain(&PHP_RUN_TESTS), log);
        assert_eq!(said, "Passed  Zend/tests/a.phpt");
    }
}
