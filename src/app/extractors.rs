//! The extractors beside each other: the root query of a comparison, driven.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::sync::Arc;

use super::drive::whole;
use super::project::{Options, cores};
use super::{App, AppError, TOOL, registry};
use crate::cancel::Cancel;
use crate::engine::{Driver, Hold, Observer};
use crate::oss::extractors::{Comparison, comparison};
use crate::store::StoreLedger;

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
        let shop = Arc::new(self.workshop(tools, options, &plan)?);
        let registry = registry(&shop, &plan, self.sources(&plan), std::iter::empty());
        let reader = self.store.reader()?;
        let mut world = plan.world(&reader);
        let ledger = StoreLedger::new(self.store.clone(), &reader, TOOL);
        let driver = Driver {
            registry: &registry,
            ledger: &ledger,
            cores: options.jobs.unwrap_or_else(cores),
            cancel: cancel.clone(),
        };
        let benches = world.benches.clone();
        let driven = driver
            .drive(&mut world.db, observer, |db| {
                let mut compared = Vec::new();
                let mut hold = Hold::default();
                for bench in &benches {
                    match comparison(db, bench.settings, bench.subject) {
                        Ok(one) => compared.push(one),
                        Err(h) => hold.merge(&h),
                    }
                }
                (compared, hold)
            })
            .map_err(AppError::Drive)?;
        whole(driven, "the comparison")
    }
}
