//! Answers prompts without a network: calibration models by the fixed menu of edits, replayed
//! models from recorded replies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ask::{Reply, Request, Sampling, Stop, Usage};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::Job;
use crate::lang::{self, Language, QueryTexts};
use crate::oss::inputs::Card;

/// Runs jobs of kind `ask/calibration`.
pub struct Calibration {
    /// The queries by which C is read.
    pub queries: Arc<QueryTexts>,
}

impl Executor for Calibration {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let fault = |what: String| Failure::Fatal {
            what,
            help: "this is a fault in everbench; please report it with the function's text".into(),
        };
        let language = Language::c(&self.queries).map_err(|e| fault(e.to_string()))?;
        let text = (context.blob)(job.digest("function"))?;
        let edit = job.text("edit");
        let name = job.text("name");
        let found = lang::functions(&language, &text);
        let definition = found
            .definitions
            .iter()
            .find(|d| d.name == name)
            .ok_or_else(|| fault(format!("the text of `{name}` holds no definition of it")))?;
        let menu = lang::calibration::menu(&language, definition, &text);
        let items: Vec<_> = menu
            .iter()
            .filter(|item| item.edit.name() == edit)
            .collect();
        // Every edit has an item for every function but one that leaves nothing to rewrite: that
        // one is answered unchanged, as a cautious model would.
        let code = match items.len() {
            0 => text.to_vec(),
            n => items[(job.int("item") as u64 % n as u64) as usize]
                .text
                .clone(),
        };
        let reply = Reply {
            text: format!("```c\n{}\n```\n", crate::ask::decode(&code)),
            stop: Stop::Complete,
            served_model: None,
            usage: None,
        };
        Ok(Output {
            bytes: reply.encode(),
            blobs: vec![],
        })
    }
}

/// The first line of a replay file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayHeader {
    /// `everbench replay 1`.
    pub format: String,
    /// The model and its revision: what was asked, to the byte of its weights.
    pub revision: String,
    /// How it sampled.
    pub sampling: Sampling,
    /// What is known of it.
    #[serde(default)]
    pub card: Card,
    /// How and when the replies were recorded; for people.
    #[serde(default)]
    pub recorded: String,
}

/// What [`ReplayHeader::format`] says.
pub const REPLAY_FORMAT: &str = "everbench replay 1";

#[derive(Deserialize)]
struct RecordedUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[derive(Deserialize)]
struct Record {
    id: Digest,
    text: String,
    finish_reason: Option<String>,
    #[serde(default)]
    usage: Option<RecordedUsage>,
}

/// What an API of the usual kind says of the end of an answer.
fn stop(finish_reason: Option<&str>) -> Stop {
    match finish_reason {
        Some("length" | "max_tokens") => Stop::Length,
        Some("content_filter" | "refusal") => Stop::Refusal,
        Some("context_length_exceeded") => Stop::Context,
        _ => Stop::Complete,
    }
}

/// Recorded replies by the digest of their prompt.
#[derive(Debug)]
pub struct Replay {
    /// Where they came from.
    pub path: PathBuf,
    /// The first line.
    pub header: ReplayHeader,
    replies: BTreeMap<Digest, Reply>,
}

/// A replay file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl Replay {
    /// Reads a replay file.
    pub fn read(path: &Path) -> Result<Replay, ReplayError> {
        let text = std::fs::read_to_string(path).map_err(|source| ReplayError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        let wrong = |line: usize, what: String| ReplayError::Line {
            path: path.to_path_buf(),
            line,
            what,
        };
        let mut lines = text.lines().enumerate();
        let first = lines.next().map(|(_, l)| l).unwrap_or_default();
        let header: ReplayHeader = serde_json::from_str(first)
            .map_err(|e| wrong(1, format!("this is no header of a replay file ({e}); the first line names format, revision and sampling")))?;
        if header.format != REPLAY_FORMAT {
            return Err(wrong(
                1,
                format!(
                    "format `{}` is not known; this version reads `{REPLAY_FORMAT}`",
                    header.format
                ),
            ));
        }
        let mut replies = BTreeMap::new();
        for (at, line) in lines.filter(|(_, l)| !l.trim().is_empty()) {
            let record: Record =
                serde_json::from_str(line).map_err(|e| wrong(at + 1, e.to_string()))?;
            let reply = Reply {
                text: record.text,
                stop: stop(record.finish_reason.as_deref()),
                served_model: None,
                usage: record.usage.map(|u| Usage {
                    input_tokens: u.prompt_tokens,
                    output_tokens: u.completion_tokens,
                }),
            };
            if replies.insert(record.id, reply).is_some() {
                return Err(wrong(
                    at + 1,
                    format!("a second reply to prompt {}", record.id),
                ));
            }
        }
        Ok(Replay {
            path: path.to_path_buf(),
            header,
            replies,
        })
    }
}

/// Runs jobs of kind `ask/completion` from replay files, by model revision.
pub struct Replays(pub BTreeMap<String, Arc<Replay>>);

impl Executor for Replays {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let request =
            Request::of_job(job, |d| (context.blob)(d).ok()).map_err(|e| Failure::Fatal {
                what: e.to_string(),
                help: "this is a fault in everbench; please report it".into(),
            })?;
        let Some(replay) = self.0.get(&request.model) else {
            return Err(Failure::Fatal {
                what: format!("nothing answers for model `{}`", request.model),
                help: "add it to `everbench.toml`".into(),
            });
        };
        match replay.replies.get(&request.prompt_digest()) {
            Some(reply) => Ok(Output {
                bytes: reply.encode(),
                blobs: vec![],
            }),
            None => Err(Failure::Fatal {
                what: format!(
                    "{} has no reply to a prompt of this run: it was recorded for other functions or with another prompt template",
                    replay.path.display()
                ),
                help: "record replies to the output of `everbench prompts`, or leave the model out"
                    .into(),
            }),
        }
    }
}
