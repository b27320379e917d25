//! How good a subject is to measure with: which of its functions and lines the suite executes, and
//! how many planted faults it notices. What is never executed cannot fail a test.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, COVERAGE, CoverageDoc};
use super::case;
use super::inputs::{Model, Scoring, Settings, Subject};
use super::iteration::{self, Set};
use super::jobs;
use super::population::{self, FunctionArg};
use super::suite::suite;
use crate::engine::{Db, Hold, fold};

/// What of the population the suite executes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// Functions of the population of which a line is executed.
    pub functions: u64,
    /// Functions of the population that have code.
    pub functions_with_code: u64,
    /// Lines of these that are executed.
    pub lines: u64,
    /// Lines of these for which there is code.
    pub lines_with_code: u64,
    /// Shards that a signal or a limit ended, so that what they execute is not counted.
    pub cut_short: u64,
    /// The functions of which a line is executed. Too many for a report, which asks for a few.
    #[serde(skip)]
    pub executed: BTreeSet<String>,
}

/// What the suite executes, from one run of each shard.
#[salsa::tracked(returns(clone))]
pub fn coverage(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Coverage, Hold> {
    let suite = suite(db, subject)?;
    let outputs = fold(
        suite
            .shards
            .iter()
            .map(|shard| db.demand(&jobs::coverage(db, subject, shard)?)),
    )?;
    let mut all = CoverageDoc::default();
    let mut found = Coverage::default();
    for output in outputs {
        let doc: CoverageDoc = artifact::read(COVERAGE, &db.blob(output)?)?;
        found.cut_short += u64::from(doc.cut_short);
        all.merge(&doc);
    }
    for f in &population::population(db, settings, subject)?.functions {
        let Some(place) = population::place(db, settings, subject, &f.id)? else {
            continue;
        };
        let Some(file) = all.files.get(&f.path) else {
            continue;
        };
        let text = population::text(db, settings, subject, FunctionArg::new(db, f.clone()))?;
        let first = u32::try_from(place.line).unwrap_or(u32::MAX);
        let newlines = text.iter().filter(|b| **b == b'\n').count();
        let last = first.saturating_add(u32::try_from(newlines).unwrap_or(u32::MAX));
        let executed = file.executed.range(first..=last).count() as u64;
        let missed = file.missed.range(first..=last).count() as u64;
        if executed > 0 {
            found.functions += 1;
            found.executed.insert(f.id.clone());
        }
        found.functions_with_code += u64::from(executed + missed > 0);
        found.lines += executed;
        found.lines_with_code += executed + missed;
    }
    Ok(found)
}

/// A fault planted in one function, and whether anything noticed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Planted {
    /// The function.
    pub function: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a planted fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A test failed or did not report.
    Tests,
    /// No test failed, a sanitizer gave an alert.
    Sanitizers,
    /// Nothing noticed it.
    Unnoticed,
    /// There is none of this kind for the function, or the subject does not build with it.
    NotPlanted,
}

/// One fault in each function of the sample, alone: what `planter`, a calibration model, answers.
#[salsa::tracked(returns(clone))]
pub fn planted(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    planter: Model,
) -> Result<Arc<Vec<Planted>>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    let fates = sample.iter().map(|f| {
        let arg = FunctionArg::new(db, f.clone());
        let case = case::case(db, settings, subject, planter, arg)?;
        let fate = match case.variant.filter(|_| case.compiles) {
            None => Fate::NotPlanted,
            Some(variant) => {
                let set = Set::of_one(jobs::replacement(f, variant));
                let seen = iteration::measured(db, settings, subject, Scoring::Paired, &set)?;
                if seen.na.is_some() || seen.passed < seen.total {
                    Fate::Tests
                } else if !seen.alerts.is_empty() {
                    Fate::Sanitizers
                } else {
                    Fate::Unnoticed
                }
            }
        };
        Ok(Planted {
            function: f.id.clone(),
            fate,
        })
    });
    Ok(Arc::new(fold(fates)?))
}
