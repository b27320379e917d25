//! Builds the subject with a set of functions replaced, and keeps what the tests run.

use std::path::PathBuf;
use std::sync::Arc;

use super::base::{describe, receipt};
use super::replay::Replay;
use super::runner::{Workshop, host, stable_log};
use super::verdict::base_doc;
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::Job;
use crate::logs::first_error;
use crate::oss::artifact::{self, BrokenBuild, ProgramDoc, Replacement};

/// Runs jobs of kind `oss/program`.
pub struct Program(pub Arc<Workshop>);

impl Executor for Program {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let lock = self.0.trees.lock(&job.key().0);
        let _making = lock.lock().expect("nothing panics while it holds the lock");
        build(&self.0, job, context)
    }
}

/// The folder with the files of a program that is in the store, made again if need be.
pub fn files(
    shop: &Workshop,
    job: &Job,
    doc: &ProgramDoc,
    context: &Context<'_>,
) -> Result<PathBuf, Failure> {
    let place = shop.trees.program(&job.key().0);
    let lock = shop.trees.lock(&job.key().0);
    let _making = lock.lock().expect("nothing panics while it holds the lock");
    if !place.exists() {
        let again = build(shop, job, context)?;
        if again.bytes != artifact::write(doc) {
            super::trees::remove_dir(&place).map_err(host("removing a program"))?;
            return Err(Failure::Fatal {
                what: "building the same functions again gave another program".into(),
                help: "the subject's build is not reproducible (a time or a random number in it?)"
                    .into(),
            });
        }
    }
    Ok(place)
}

fn build(shop: &Workshop, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
    let base = job.material("base");
    let doc = base_doc(base, context)?;
    let set: Option<Vec<Replacement>> = job
        .list("set")
        .iter()
        .map(Replacement::from_value)
        .collect();
    let set = set.ok_or_else(|| Failure::Fatal {
        what: format!("{job:?} does not say what it replaces"),
        help: "this is a fault in everbench; please report it".into(),
    })?;
    let replay = Replay::new(shop, context, base, &doc, set)?;
    let made = match replay.build()? {
        Ok(made) => made,
        Err(stuck) => {
            let log = stable_log(&[stuck.ended.stderr, stuck.ended.stdout].concat());
            let failed = BrokenBuild {
                command: stuck.command,
                ended: describe(&stuck.ended.status),
                error: first_error(&log).map(|e| e.to_string()),
                log: Digest::of(&log),
            };
            let doc = ProgramDoc {
                failed: Some(failed),
                files: vec![],
            };
            return Ok(Output {
                bytes: artifact::write(&doc),
                blobs: vec![log],
            });
        }
    };
    // Archives were only a way to the executables: nothing that a test runs reads them.
    let kept: Vec<String> = made
        .into_iter()
        .filter(|path| !path.ends_with(".a"))
        .collect();
    let out = replay.out();
    let files = kept.iter().filter_map(|path| receipt(&out, path)).collect();
    let scratch = shop
        .trees
        .scratch()
        .map_err(host("making a scratch folder"))?;
    let place = scratch.path().join("program");
    for path in &kept {
        let to = place.join(path);
        let dir = to.parent().expect("a path in a folder has a parent");
        std::fs::create_dir_all(dir).map_err(host("keeping a program"))?;
        std::fs::rename(out.join(path), to).map_err(host("keeping a program"))?;
    }
    std::fs::create_dir_all(&place).map_err(host("keeping a program"))?;
    shop.trees
        .adopt(&place, &shop.trees.program(&job.key().0))
        .map_err(host("keeping a program"))?;
    Ok(Output {
        bytes: artifact::write(&ProgramDoc {
            failed: None,
            files,
        }),
        blobs: vec![],
    })
}
