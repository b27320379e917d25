//! The job that asks libclang about one unit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{Libclang, VARIABLE};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::exec::base::{self, environment};
use crate::exec::libclang_worker::{NAME, NO_LIBRARY, Report, Request};
use crate::exec::runner::{Call, Workshop, limit_name};
use crate::exec::verdict::base_doc;
use crate::exec::{Bind, Status};
use crate::job::{Job, Value};
use crate::oss::artifact;
use crate::oss::compiled::{Definition, ExtractDoc};
use crate::oss::layout::{BIN, TREE, in_tree};

/// Runs jobs of kind `oss/extract`.
pub struct Extract(pub Arc<Workshop>);

impl Executor for Extract {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let shop = &self.0;
        let libclang = shop.libclang.as_ref().ok_or_else(|| Failure::Fatal {
            what: "libclang is needed and was not looked for".into(),
            help: "this is a fault in everbench; please report it".into(),
        })?;
        let built = job.material("base");
        base_doc(built, context)?;
        let tree = base::tree(shop, built, context)?;
        let argv: Vec<String> = job
            .list("argv")
            .iter()
            .filter_map(|v| match v {
                Value::Text(s) => Some(s.clone()),
                _ => None,
            })
            .collect();
        let unit = (
            job.text("tool"),
            argv.as_slice(),
            job.text("cwd"),
            job.text("source"),
        );
        let (asked, dropped) = ask(shop, libclang, &tree, unit, environment(job), context)?;
        let report = match asked {
            Ok(report) => report,
            Err(why) => return Ok(written(ExtractDoc::lost(why, dropped))),
        };
        if let Some(code) = report.failed {
            // 2: it crashed and caught itself.
            let why = if code == 2 { "crashed" } else { "failed" };
            return Ok(written(ExtractDoc::lost(why.into(), dropped)));
        }
        let mut doc = ExtractDoc {
            lost: None,
            errors: report.errors,
            first_error: report.first_error,
            dropped,
            found: Vec::new(),
            generated: 0,
        };
        let sources = sources(job);
        let mut texts: BTreeMap<String, Arc<[u8]>> = BTreeMap::new();
        for mut found in report.found {
            let Some(path) = in_tree(job.text("cwd"), &found.file) else {
                continue;
            };
            let Some(digest) = sources.get(&path) else {
                doc.generated += 1;
                continue;
            };
            if !texts.contains_key(&path) {
                texts.insert(path.clone(), (context.blob)(*digest)?);
            }
            let range = found.start as usize..found.end as usize;
            // Offsets in a file that is not the source's own would be a fault of the tree.
            let bytes = texts[&path].get(range).ok_or_else(|| Failure::Fatal {
                what: format!("libclang reports `{}` outside of {path}", found.name),
                help: "the build tree does not fit the source: remove the project's folder `trees`"
                    .into(),
            })?;
            found.file = path;
            doc.found.push(Definition {
                text: Digest::of(bytes),
                found,
            });
        }
        doc.found.sort();
        doc.found.dedup();
        Ok(written(doc))
    }
}

impl ExtractDoc {
    fn lost(why: String, dropped: Vec<String>) -> ExtractDoc {
        ExtractDoc {
            lost: Some(why),
            errors: 0,
            first_error: None,
            dropped,
            found: Vec::new(),
            generated: 0,
        }
    }
}

fn written(doc: ExtractDoc) -> Output {
    Output {
        bytes: artifact::write(&doc),
        blobs: vec![],
    }
}

/// The files of the source tree that the unit reads.
fn sources(job: &Job) -> BTreeMap<String, Digest> {
    let pair = |value: &Value| match value {
        Value::List(pair) => match pair.as_slice() {
            [Value::Text(path), Value::Digest(digest)] => Some((path.clone(), *digest)),
            _ => None,
        },
        _ => None,
    };
    job.list("files").iter().filter_map(pair).collect()
}

/// What a worker says, or how it was lost; and the flags it was not given.
type Asked = (Result<Report, String>, Vec<String>);

/// Asks a worker about a unit (tool, arguments, working directory, source) of `tree`, in the
/// environment of the build.
fn ask(
    shop: &Workshop,
    libclang: &Libclang,
    tree: &Path,
    (tool, argv, cwd, source): (&str, &[String], &str, &str),
    mut env: BTreeMap<String, String>,
    context: &Context<'_>,
) -> Result<Asked, Failure> {
    let (args, dropped) = libclang.args(tool, argv, source);
    let request = Request {
        source: format!("{TREE}/{source}"),
        args,
        below: format!("{TREE}/"),
    };
    let request = serde_json::to_string(&request).expect("a request has string keys");
    // `CPATH` and its like decide which headers clang finds, as they do for gcc.
    env.insert(VARIABLE.into(), libclang.library.display().to_string());
    let worker = format!("{BIN}/{NAME}");
    let call = Call {
        cwd: cwd.to_string(),
        binds: vec![Bind {
            host: shop.recorder.clone(),
            inside: worker.clone().into(),
            writable: false,
        }],
        env,
        limits: shop.limits,
        ..Call::on(tree, vec![worker, request])
    };
    let ended = shop.run(&call, context)?;
    let asked = match ended.status {
        Status::Exited(0) => serde_json::from_slice(&ended.stdout).map_err(|e| Failure::Fatal {
            what: format!("the report of libclang's worker cannot be read: {e}"),
            help: "this is a fault in everbench; please report it".into(),
        })?,
        Status::Exited(NO_LIBRARY) => {
            return Err(Failure::Fatal {
                what: format!(
                    "libclang cannot be loaded: {}",
                    String::from_utf8_lossy(&ended.stderr).trim()
                ),
                help: "run `everbench doctor`; another libclang is chosen by LIBCLANG_PATH".into(),
            });
        }
        Status::Limit(limit) => {
            return Ok((Err(format!("limit: {}", limit_name(limit))), dropped));
        }
        Status::NotStarted(errno) => {
            let why = std::io::Error::from_raw_os_error(errno);
            return Err(Failure::Fatal {
                what: format!("libclang's worker cannot be started: {why}"),
                help: "run `everbench doctor`".into(),
            });
        }
        // Which signal or status ends it is libclang's matter.
        _ => return Ok((Err("crashed".into()), dropped)),
    };
    Ok((Ok(asked), dropped))
}
