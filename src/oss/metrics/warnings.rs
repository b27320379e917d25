//! Compiler warnings that a variant adds to its function or takes out of it, by flag. The front end
//! alone is asked, under `-Wall -Wextra`: warnings that need an optimiser do not show.

use std::collections::BTreeMap;

use super::{Measure, Measured, Metric};
use crate::engine::{Db, Hold};
use crate::job::Job;
use crate::oss::artifact::{self, WARNINGS, WarningsDoc};
use crate::oss::jobs;

/// `warnings`.
pub const METRIC: Metric = Metric {
    name: "warnings",
    columns: &[("added", "warn +"), ("removed", "warn -")],
    measure,
    jobs: rests_on,
};

fn measure(db: &dyn Db, m: &Measured<'_>) -> Result<Measure, Hold> {
    let doc = |text| -> Result<WarningsDoc, Hold> {
        let output = jobs::demand_warnings(db, m.subject, m.function, m.original.clone(), text)?;
        artifact::read(WARNINGS, &db.blob(output)?)
    };
    // Both are asked for at once.
    match (doc(m.original.clone()), doc(m.variant.clone())) {
        (Ok(before), Ok(after)) => Ok(compared(&before, &after)),
        (before, after) => {
            let mut hold = before.err().unwrap_or_default();
            hold.merge(&after.err().unwrap_or_default());
            Err(hold)
        }
    }
}

fn rests_on(db: &dyn Db, m: &Measured<'_>) -> Vec<Job> {
    [m.original.clone(), m.variant.clone()]
        .map(|text| jobs::warnings(db, m.subject, m.function, m.original.clone(), text))
        .to_vec()
}

/// How many more, and how many fewer, warnings there are of each flag.
fn compared(before: &WarningsDoc, after: &WarningsDoc) -> Measure {
    if before.limit.is_some() || after.limit.is_some() {
        return None;
    }
    let count = |doc: &WarningsDoc| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for warning in &doc.warnings {
            let flag = match warning.flag.as_str() {
                "" => "without a flag",
                flag => flag,
            };
            *counts.entry(flag.to_string()).or_default() += 1;
        }
        counts
    };
    let (before, after) = (count(before), count(after));
    let more = |a: &BTreeMap<String, u64>, b: &BTreeMap<String, u64>| {
        a.iter()
            .map(|(flag, n)| {
                (
                    flag.clone(),
                    n.saturating_sub(b.get(flag).copied().unwrap_or(0)),
                )
            })
            .filter(|(_, n)| *n > 0)
            .collect::<BTreeMap<String, u64>>()
    };
    Some(BTreeMap::from([
        ("added", more(&after, &before)),
        ("removed", more(&before, &after)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oss::artifact::Warning;

    fn doc(flags: &[&str]) -> WarningsDoc {
        let warning = |(line, flag): (usize, &&str)| Warning {
            line: line as u32,
            column: 1,
            flag: flag.to_string(),
            message: String::new(),
        };
        WarningsDoc {
            limit: None,
            warnings: flags.iter().enumerate().map(warning).collect(),
        }
    }

    #[test]
    fn flags_are_counted_whatever_their_lines() {
        let (a, b) = ("-Wunused-variable", "-Wsign-compare");
        let told = compared(&doc(&[a, b, b]), &doc(&[a, a, a, ""])).unwrap();
        let counts = |of: &[(&str, u64)]| {
            let mut of: Vec<_> = of.iter().map(|(f, n)| (f.to_string(), *n)).collect();
            of.sort();
            of
        };
        let list = |group: &str| told[group].clone().into_iter().collect::<Vec<_>>();
        assert_eq!(list("added"), counts(&[(a, 2), ("without a flag", 1)]));
        assert_eq!(list("removed"), counts(&[(b, 2)]));
        let limit = WarningsDoc {
            limit: Some("cpu".into()),
            warnings: vec![],
        };
        assert_eq!(compared(&doc(&[a]), &limit), None);
    }
}
