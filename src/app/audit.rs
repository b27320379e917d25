//! Verdicts beside the subject's own build: the root query of an audit.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use crate::digest::Digest;
use crate::engine::{Db, EngineDb, Hold};
use crate::job::Key;
use crate::oss::inputs::{Model, Settings, Subject};
use crate::oss::leaderboard;
use crate::oss::{artifact, population};
use std::collections::BTreeMap;

/// One case seen by both ways of deciding a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// The function.
    pub function: String,
    /// The variant.
    pub variant: Digest,
    /// By replaying the touched commands.
    pub verdict: artifact::VerdictDoc,
    /// By the subject's own build.
    pub audit: artifact::VerdictDoc,
}

pub(super) fn audits(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    models: &[Model],
) -> Result<Vec<Audited>, Hold> {
    let mut seen: BTreeMap<Key, ()> = BTreeMap::new();
    let mut out = Vec::new();
    let mut hold = Hold::default();
    for model in models {
        let cases = match leaderboard::cases_of(db, settings, subject, *model) {
            Ok(cases) => cases,
            Err(h) => {
                hold.merge(&h);
                continue;
            }
        };
        for (function, case) in cases {
            let (Some(variant), Some(verdict)) = (case.variant, case.verdict) else {
                continue;
            };
            let arg = population::FunctionArg::new(db, function.clone());
            let one = || -> Result<Option<Audited>, Hold> {
                let text = population::text(db, settings, subject, arg)?;
                let job = crate::oss::jobs::audit(db, subject, &function, text, db.blob(variant)?)?;
                let audit = db.demand(&job)?;
                Ok(Some(Audited {
                    function: function.id.clone(),
                    variant,
                    verdict: artifact::read(artifact::VERDICT, &db.blob(verdict)?)?,
                    audit: artifact::read(artifact::AUDIT, &db.blob(audit)?)?,
                }))
            };
            let key = Key(Digest::of(&[function.id.as_bytes(), &variant.0].concat()));
            if seen.insert(key, ()).is_some() {
                continue;
            }
            match one() {
                Ok(audited) => out.extend(audited),
                Err(h) => hold.merge(&h),
            }
        }
    }
    if hold.is_empty() {
        Ok(out)
    } else {
        Err(hold.settle())
    }
}
