//! How much of a board was kept from earlier commits, and what the audited sample says of that.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::app::SubjectBoard;
use crate::oss::iteration::Iteration;

/// What of a row was kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StaleRow {
    /// Iterations kept.
    pub iterations: u64,
    /// Of so many.
    pub of: u64,
    /// The commits at which they were measured.
    pub measured_at: Vec<String>,
}

/// What of a subject's rows was kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CarrySummary {
    /// Iterations kept, over all rows.
    pub stale: u64,
    /// Of so many.
    pub of: u64,
    /// Iterations that could have been kept and were measured to compare.
    pub audited: u64,
    /// Of these, those whose passed cases or alerts are others.
    pub differ: u64,
    /// The commits at which what was kept was measured.
    pub measured_at: Vec<String>,
}

/// What of a row's iterations was kept; nothing if all were measured.
pub(super) fn stale_row(iterations: &[Iteration]) -> Option<StaleRow> {
    let stale: Vec<&String> = iterations.iter().filter_map(|i| i.stale.as_ref()).collect();
    (!stale.is_empty()).then(|| StaleRow {
        iterations: stale.len() as u64,
        of: iterations.len() as u64,
        measured_at: commits(stale),
    })
}

/// What of a subject's iterations was kept, for an evaluation that may keep some.
pub(super) fn carry_summary(board: &SubjectBoard) -> CarrySummary {
    let rows = board.board.rows.iter();
    let all: Vec<&Iteration> = rows
        .filter_map(|row| row.facts.as_deref())
        .flat_map(|facts| &facts.iterations)
        .collect();
    let stale: Vec<&String> = all.iter().filter_map(|i| i.stale.as_ref()).collect();
    let audited = || all.iter().filter_map(|i| i.audited.as_ref());
    CarrySummary {
        stale: stale.len() as u64,
        of: all.len() as u64,
        audited: audited().count() as u64,
        differ: audited().filter(|a| a.differs).count() as u64,
        measured_at: commits(stale),
    }
}

fn commits(of: Vec<&String>) -> Vec<String> {
    let unique: BTreeSet<&String> = of.into_iter().collect();
    unique.into_iter().cloned().collect()
}

impl CarrySummary {
    /// `stale: 7 of 20 iterations, measured at 1a2b3c; 2 audited, 0 differ`.
    pub(super) fn line(&self) -> String {
        let measured_at = match self.measured_at.as_slice() {
            [] => String::new(),
            commits => format!(", measured at {}", commits.join(", ")),
        };
        format!(
            "stale: {} of {} iterations{measured_at}; {} audited, {} differ",
            self.stale, self.of, self.audited, self.differ
        )
    }
}
