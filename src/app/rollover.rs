//! After a change of the toolchain: the evaluations before and after it, bridged.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;

use serde::Serialize;

use super::{App, AppError};
use crate::digest::Digest;
use crate::oss::bridge::{Bridge, bridge};
use crate::oss::history::Summary;
use crate::store::{Manifest, Reader};

/// What the last evaluation says of the cases that were judged under another toolchain too.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Rollover {
    /// The subject's name.
    pub subject: String,
    /// The version lines of the two compilers, if there are two.
    pub compilers: Option<[String; 2]>,
    /// The sources that were evaluated.
    pub commits: Option<[String; 2]>,
    /// What they agree in.
    pub bridge: Option<Bridge>,
}

impl App {
    /// Puts the last evaluation of each subject beside the last one under another toolchain.
    ///
    /// # Errors
    /// A subject that is not there; those of the store.
    pub fn rollovers(&self, subjects: &[String]) -> Result<Vec<Rollover>, AppError> {
        let reader = self.store.reader()?;
        let mut out = Vec::new();
        for subject in self.project.chosen(subjects)? {
            let name = &subject.manifest.name;
            let mut summaries = self.summaries(name)?;
            summaries.sort_by(|a, b| a.evaluated.cmp(&b.evaluated));
            let pair = summaries.split_last().and_then(|(new, earlier)| {
                let other = |s: &&Summary| {
                    s.toolchain != new.toolchain
                        && (&s.task, &s.extractor) == (&new.task, &new.extractor)
                };
                Some((earlier.iter().rev().find(other)?, new))
            });
            let mut rollover = Rollover {
                subject: name.clone(),
                compilers: None,
                commits: None,
                bridge: None,
            };
            if let Some((old, new)) = pair {
                let replies = [replies(&reader, old)?, replies(&reader, new)?];
                let same = |model: &str, function: &str| {
                    let id = format!("{name}/case/{function}/{model}/reply");
                    let [was, is] = replies.each_ref().map(|of| of.get(&id));
                    was.is_some() && was == is
                };
                rollover.compilers = Some([old.compiler.clone(), new.compiler.clone()]);
                rollover.commits = Some([old.commit.clone(), new.commit.clone()]);
                rollover.bridge = Some(bridge(old, new, &same));
            }
            out.push(rollover);
        }
        Ok(out)
    }
}

/// The replies that an evaluation rests on, by name.
fn replies(reader: &Reader, summary: &Summary) -> Result<BTreeMap<String, Digest>, AppError> {
    let root = reader.root(&super::drive::evaluation_name(summary.evaluation))?;
    let Some(root) = root else {
        return Ok(BTreeMap::new());
    };
    let entries = Manifest::load(reader, root)?.entries()?.into_iter();
    let replies = entries.filter(|entry| entry.id.ends_with("/reply"));
    Ok(replies.map(|entry| (entry.id, entry.output)).collect())
}
