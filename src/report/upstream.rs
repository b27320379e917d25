//! What is said of upstream's own commits: those that cannot be measured, and what became of the
//! unchanged subject's tests.

use std::fmt::Write;

use serde::Serialize;

use crate::oss::upstream::{Told, Upstream};

/// A subject that cannot be measured at its commit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BrokenSubject {
    /// Its name.
    pub subject: String,
    /// Which source it is.
    pub commit: String,
    /// What is wrong.
    pub what: String,
    /// The way out.
    pub help: String,
    /// The commit of the last complete evaluation, if there is one.
    pub last_good: Option<String>,
}

/// `1a2b3c is baseline_broken: it does not build; the last good evaluation is of 4d5e6f`.
pub fn broken_line(commit: &str, reason: &str, last_good: Option<&str>) -> String {
    let last_good = match last_good {
        Some(commit) => format!("the last good evaluation is of {commit}"),
        None => "there is no good evaluation yet".to_string(),
    };
    format!("{commit} is baseline_broken: {reason}; {last_good}")
}

/// How many cases of a list are named in text.
const NAMED: usize = 8;

/// A short paragraph on what became of the unchanged subject's tests; nothing if all do as before.
pub(super) fn paragraph(upstream: &Upstream, out: &mut String) {
    let told = upstream.told();
    if told.is_empty() {
        return;
    }
    let _ = writeln!(out, "upstream since {}:", upstream.since);
    for (what, cases) in told {
        let name = |told: &Told| format!("{} ({})", told.case, told.shard);
        let named: Vec<String> = cases.iter().take(NAMED).map(name).collect();
        let more = match cases.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let _ = writeln!(out, "  {} {what}: {}{more}", cases.len(), named.join(", "));
    }
}
