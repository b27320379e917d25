//! Metric I: does the subject still build with one function replaced? The front end first, whose
//! rejection is final; then code generation; then everything that is linked from it. And the same
//! question put to the subject's own build commands, for audits.

use std::sync::Arc;

use super::Status;
use super::base::{self, describe};
use super::replay::{Replay, Stuck, splice_all};
use super::runner::{Workshop, host, limit_name, stable_log};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::logs::first_error;
use crate::oss::artifact::{self, BaseDoc, Replacement, Stage, VerdictDoc};

/// Runs jobs of kind `oss/verdict`.
pub struct Verdict(pub Arc<Workshop>);

impl Executor for Verdict {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let base = job.material("base");
        let doc = base_doc(base, context)?;
        let replay = Replay::new(&self.0, context, base, &doc, vec![replacement(job)?])?;
        if let Some(stuck) = replay.syntax()? {
            return Ok(fails(stuck));
        }
        match replay.build()? {
            Ok(_) => Ok(compiles()),
            Err(stuck) => Ok(fails(stuck)),
        }
    }
}

/// Runs jobs of kind `oss/audit`.
pub struct Audit(pub Arc<Workshop>);

impl Executor for Audit {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let shop = &self.0;
        let base_job = job.material("base");
        let built = base::tree(shop, base_job, context)?;
        let scratch = shop
            .trees
            .scratch()
            .map_err(host("making a scratch folder"))?;
        let tree = scratch.path().join("tree");
        // A faithful copy keeps the times, by which `make` sees what is out of date.
        copy_tree(&built, &tree).map_err(host("copying the build tree"))?;
        let replacement = replacement(job)?;
        let doc = base_doc(base_job, context)?;
        let set = std::slice::from_ref(&replacement);
        let spliced = splice_all(scratch.path(), base_job, &doc, context, set)?;
        for (path, file) in &spliced {
            std::fs::copy(file, tree.join(path)).map_err(host("writing a spliced file"))?;
        }
        base::hand_over(shop, &tree)?;
        let mut blobs = Vec::new();
        let record = scratch.path().join("record");
        std::fs::create_dir(&record).map_err(host("making a scratch folder"))?;
        base::hand_over(shop, &record)?;
        let broken = base::rebuild(shop, base_job, context, &tree, &record, &mut blobs)?;
        for (path, file) in &spliced {
            let kept = std::fs::read(tree.join(path)).ok() == std::fs::read(file).ok();
            if !kept {
                return Err(Failure::Fatal {
                    what: format!("the subject's build makes {path} again over a variant in it"),
                    help:
                        "an audit needs a build that leaves a generated file alone which is newer \
                           than what it is made from"
                            .into(),
                });
            }
        }
        let doc = VerdictDoc {
            compiles: broken.is_none(),
            stage: broken.is_some().then_some(Stage::Build),
            error: broken.as_ref().and_then(|b| b.error.clone()),
            limit: broken
                .as_ref()
                .and_then(|b| b.ended.strip_prefix("limit: ").map(str::to_string)),
            log: broken.map(|b| b.log),
        };
        Ok(Output {
            bytes: artifact::write(&doc),
            blobs,
        })
    }
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    let status = std::process::Command::new("/bin/cp")
        .args(["-a", "--"])
        .arg(from)
        .arg(to)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(std::io::Error::other(format!("cp: {status}")))
    }
}

/// The document of the base that a job works on.
pub fn base_doc(base: &Job, context: &Context<'_>) -> Result<BaseDoc, Failure> {
    let digest = (context.output)(base)?
        .ok_or_else(|| Failure::Transient("the base is not in the store any more".into()))?;
    let bytes = (context.blob)(digest)?;
    serde_json::from_slice(&bytes).map_err(|e| Failure::Fatal {
        what: format!("the base's document cannot be read: {e}"),
        help: "run `everbench store verify`".into(),
    })
}

fn replacement(job: &Job) -> Result<Replacement, Failure> {
    job.inputs()
        .get("replace")
        .and_then(|v: &Value| Replacement::from_value(v))
        .ok_or_else(|| Failure::Fatal {
            what: format!("{job:?} does not say what it replaces"),
            help: "this is a fault in everbench; please report it".into(),
        })
}

fn compiles() -> Output {
    let doc = VerdictDoc {
        compiles: true,
        stage: None,
        error: None,
        limit: None,
        log: None,
    };
    Output {
        bytes: artifact::write(&doc),
        blobs: vec![],
    }
}

fn fails(stuck: Stuck) -> Output {
    let log = stable_log(&[stuck.ended.stderr, stuck.ended.stdout].concat());
    let limit = match stuck.ended.status {
        Status::Limit(limit) => Some(limit_name(limit).to_string()),
        _ => None,
    };
    let error = first_error(&log).map(|e| e.to_string());
    // How far a command got before a limit is chance: its output is no part of the verdict.
    let log = limit.is_none().then_some(log);
    let doc = VerdictDoc {
        compiles: false,
        stage: Some(stuck.stage),
        error: Some(error.unwrap_or_else(|| describe(&stuck.ended.status))),
        limit,
        log: log.as_deref().map(Digest::of),
    };
    Output {
        bytes: artifact::write(&doc),
        blobs: Vec::from_iter(log),
    }
}
