//! The extractors beside each other: the root query of a comparison, driven.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use super::drive::Ready;
use super::project::Options;
use super::{App, AppError};
use crate::cancel::Cancel;
use crate::engine::{Hold, Observer};
use crate::oss::extractors::{Comparison, comparison};

impl App {
    /// Runs what a comparison of the extractors lacks, and gives it for each subject.
    pub fn compare_extractors(
        &self,
        options: &Options,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Comparison>, AppError> {
        let tools = self.tools(options)?;
        let plan = self.plan(options, &[], Some(&tools))?;
        self.remember_surroundings(&plan, &tools)?;
        let ready = Ready {
            plan: &plan,
            tools,
            answering: &[],
            options,
        };
        self.driven(ready, cancel, observer, "the comparison", |world| {
            let benches = world.benches.clone();
            move |db| {
                let mut compared = Vec::new();
                let mut hold = Hold::default();
                for bench in &benches {
                    match comparison(db, bench.settings, bench.subject) {
                        Ok(one) => compared.push(one),
                        Err(h) => hold.merge(&h),
                    }
                }
                (compared, hold)
            }
        })
    }
}
