//! `exit`: a run is one case, named after its shard, that passed if the process left with status 0.
//! For suites of one program per test, whatever the programs print.

use std::sync::Arc;

use super::cases::{Outcome, Reports};
use super::fold::Ended;
use super::parser::{Log, LogParser, OptionKind, OptionType, ParserType, Reading};

/// The exit status, and nothing of the log.
pub const EXIT: ParserType = ParserType {
    name: "exit",
    options: &[OptionType {
        key: "skip-codes",
        kind: OptionKind::Codes,
    }],
    make: |options| {
        Ok(Arc::new(ExitStatus {
            skip: options.codes("skip-codes").to_vec(),
        }))
    },
};

#[derive(Debug)]
struct ExitStatus {
    skip: Vec<i32>,
}

impl LogParser for ExitStatus {
    fn read(&self, log: &Log<'_>) -> Reading {
        let outcome = match log.ended {
            Ended::Exit(code) if self.skip.contains(&code) => Outcome::Skipped,
            Ended::Exit(0) => Outcome::Passed,
            Ended::Exit(_) => Outcome::Failed,
            // It reported nothing, and how it ended says whether it crashed or ran out of time.
            Ended::Signal(_) | Ended::Limit => return Reading::default(),
        };
        let mut reports = Reports::default();
        reports.add(log.shard.as_bytes(), outcome);
        reports.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::OptionValue;
    use super::super::parser::tests::chosen;
    use super::*;

    #[test]
    fn the_status_alone_decides() {
        let parser = chosen(&EXIT, &[("skip-codes", OptionValue::Codes(vec![77]))]);
        let said = |ended| {
            let log = Log {
                text: b"PASS: everything\n",
                shard: "unit/test/a.sh",
                tree: "/eb/tree",
                ended,
            };
            let reports = parser.read(&log).reports;
            reports.first().map(|r| (r.case.to_string(), r.outcome))
        };
        let case = |outcome| Some(("unit/test/a.sh".to_string(), outcome));
        assert_eq!(said(Ended::Exit(0)), case(Outcome::Passed));
        assert_eq!(said(Ended::Exit(1)), case(Outcome::Failed));
        assert_eq!(said(Ended::Exit(77)), case(Outcome::Skipped));
        assert_eq!(said(Ended::Exit(127)), case(Outcome::Failed));
        assert_eq!(said(Ended::Signal(11)), None);
        assert_eq!(said(Ended::Limit), None);
    }
}
