//! Metrics beside the three of the benchmark: what is measured of a variant that compiles, asked for
//! by name in the project file. Nothing of a metric is demanded, and so nothing of it runs, unless
//! it was asked for. A metric is one file in this folder and one entry in [`ALL`].

mod warnings;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::case::{self, Case};
use super::inputs::{Model, Settings, Subject};
use super::population::{self, Function, FunctionArg};
use crate::engine::{Db, Hold, fold};
use crate::job::Job;

/// What a metric needs to know of a case.
pub struct Measured<'a> {
    /// The subject.
    pub subject: Subject,
    /// The function.
    pub function: &'a Function,
    /// Its own text.
    pub original: Arc<[u8]>,
    /// The variant's: one that compiles, and another text than the original.
    pub variant: Arc<[u8]>,
}

/// A metric.
pub struct Metric {
    /// As in project files, reports and documents.
    pub name: &'static str,
    /// The columns it has in a table: the group of counts, and its heading.
    pub columns: &'static [(&'static str, &'static str)],
    /// What a case counts for, once what it rests on is there.
    pub measure: fn(&dyn Db, &Measured<'_>) -> Result<Measure, Hold>,
    /// The jobs that it rests on.
    pub jobs: fn(&dyn Db, &Measured<'_>) -> Vec<Job>,
}

/// Every metric. Another one is one more entry.
pub const ALL: [Metric; 1] = [warnings::METRIC];

/// The metric called `name`.
pub fn named(name: &str) -> Option<&'static Metric> {
    static METRICS: [Metric; ALL.len()] = ALL;
    METRICS.iter().find(|m| m.name == name)
}

/// Counts by group and label; nothing if the case could not be measured.
pub type Measure = Option<BTreeMap<&'static str, BTreeMap<String, u64>>>;

/// What a metric gives for a row: sums over its cases.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summary {
    /// Cases that were measured: code that compiles. Of a text that is the original's all counts
    /// are zero.
    pub measured: u64,
    /// Cases that compile and could not be measured.
    pub unmeasured: u64,
    /// Counts by group.
    pub groups: BTreeMap<&'static str, Group>,
}

/// Counts of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Group {
    /// Their sum.
    pub total: u64,
    /// By label.
    pub by_label: BTreeMap<String, u64>,
}

/// The summary of a metric over a model's cases.
pub fn summary(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    metric: &'static Metric,
) -> Result<Arc<Summary>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    let measures = fold(sample.iter().map(|f| {
        let arg = FunctionArg::new(db, f.clone());
        let case = case::case(db, settings, subject, model, arg)?;
        match measured(db, settings, subject, f, &case)? {
            Some(m) => (metric.measure)(db, &m).map(Some),
            None if case.compiles => Ok(Some(Some(BTreeMap::new()))),
            None => Ok(None),
        }
    }))?;
    let mut summary = Summary::default();
    for (group, _) in metric.columns {
        summary.groups.entry(group).or_default();
    }
    for measure in measures.into_iter().flatten() {
        let Some(groups) = measure else {
            summary.unmeasured += 1;
            continue;
        };
        summary.measured += 1;
        for (group, counts) in groups {
            let group = summary.groups.entry(group).or_default();
            for (label, n) in counts {
                group.total += n;
                *group.by_label.entry(label).or_default() += n;
            }
        }
    }
    Ok(Arc::new(summary))
}

/// The jobs that a metric's row rests on, by the function's identity.
pub fn entries(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    metric: &'static Metric,
) -> Result<Vec<(String, Job)>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    let mut out = Vec::new();
    for f in sample.iter() {
        let arg = FunctionArg::new(db, f.clone());
        let case = case::case(db, settings, subject, model, arg)?;
        if let Some(m) = measured(db, settings, subject, f, &case)? {
            let jobs = (metric.jobs)(db, &m);
            out.extend(jobs.into_iter().map(|job| (f.id.clone(), job)));
        }
    }
    Ok(out)
}

/// What there is to measure of a case; nothing if it does not compile or is the original.
fn measured<'a>(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    function: &'a Arc<Function>,
    case: &Case,
) -> Result<Option<Measured<'a>>, Hold> {
    let (true, Some(variant)) = (case.compiles, case.variant) else {
        return Ok(None);
    };
    let arg = FunctionArg::new(db, function.clone());
    Ok(Some(Measured {
        subject,
        function,
        original: population::text(db, settings, subject, arg)?,
        variant: db.blob(variant)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_by_their_names() {
        for metric in &ALL {
            assert_eq!(named(metric.name).map(|m| m.name), Some(metric.name));
            assert!(!metric.columns.is_empty());
        }
        assert!(named("no such metric").is_none());
    }
}
