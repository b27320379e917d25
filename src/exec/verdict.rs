//! Metric I: does the subject still build with one function replaced? The front end first, whose
//! rejection is final; then code generation; then everything that is linked from it. And the same
//! question put to the subject's own build commands, for audits.

use std::path::Path;
use std::sync::Arc;

use super::Status;
use super::base::{self, describe};
use super::replay::{Replay, Stuck, splice_all};
use super::runner::{Workshop, host, limit_name, stable_log};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::logs::first_error;
use crate::oss::artifact::{self, BaseDoc, BrokenBuild, Replacement, Stage, VerdictDoc};

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
        let doc = base_doc(base_job, context)?;
        let replacement = replacement(job)?;
        let set = std::slice::from_ref(&replacement);
        let mut blobs = Vec::new();
        let built = base::tree(shop, base_job, context)?;
        let mut broken = rebuilt(shop, base_job, &doc, context, set, Some(&built), &mut blobs)?;
        let generated = doc.generated.iter().any(|f| f.path == replacement.path);
        if broken.is_some() && !generated {
            // Some builds cannot be run a second time (`ln -s` without `-f`): only a build from the
            // start says that it is the variant that fails.
            broken = rebuilt(shop, base_job, &doc, context, set, None, &mut blobs)?;
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

/// Runs the subject's own build with `set` in place: its build commands in a copy of the tree
/// `built`, or, without one, all commands in a new tree.
fn rebuilt(
    shop: &Workshop,
    base_job: &Job,
    doc: &BaseDoc,
    context: &Context<'_>,
    set: &[Replacement],
    built: Option<&Path>,
    blobs: &mut Vec<Vec<u8>>,
) -> Result<Option<BrokenBuild>, Failure> {
    let scratch = shop
        .trees
        .scratch()
        .map_err(host("making a scratch folder"))?;
    let tree = scratch.path().join("tree");
    match built {
        // A faithful copy keeps the times, by which `make` sees what is out of date.
        Some(built) => copy_tree(built, &tree).map_err(host("copying the build tree"))?,
        None => base::write_snapshot(base_job.digest("snapshot"), &tree, context)?,
    }
    let spliced = splice_all(shop, scratch.path(), base_job, doc, context, set)?;
    for (path, file) in &spliced {
        let place = tree.join(path);
        let times = std::fs::metadata(&place).and_then(|m| m.modified());
        std::fs::copy(file, &place).map_err(host("writing a spliced file"))?;
        if built.is_none() {
            // In a new tree all files are equally old, or make would remake what is shipped.
            times
                .and_then(|time| {
                    std::fs::File::options()
                        .write(true)
                        .open(&place)?
                        .set_modified(time)
                })
                .map_err(host("writing a spliced file"))?;
        }
    }
    base::hand_over(shop, &tree)?;
    let record = scratch.path().join("record");
    std::fs::create_dir(&record).map_err(host("making a scratch folder"))?;
    base::hand_over(shop, &record)?;
    let phases: &[&str] = match built {
        Some(_) => &["build"],
        None => &["configure", "build"],
    };
    let broken = base::rebuild(shop, base_job, context, (&tree, &record), phases, blobs)?;
    for (path, file) in &spliced {
        if std::fs::read(tree.join(path)).ok() != std::fs::read(file).ok() {
            return Err(Failure::Fatal {
                what: format!("the subject's build makes {path} again over a variant in it"),
                help: "an audit needs a build that leaves a generated file alone which is newer \
                       than what it is made from"
                    .into(),
            });
        }
    }
    Ok(broken)
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
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

pub fn replacement(job: &Job) -> Result<Replacement, Failure> {
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
