//! Answers prompts without a network: calibration models by the fixed menu of edits, replayed
//! models from recorded replies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::ask::{Reply, Request, Sampling, Stop, Thinking, Usage};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::lang::{self, LanguageId, QuerySet};
use crate::oss::inputs::Card;

/// Runs jobs of kind `ask/calibration`.
pub struct Calibration {
    /// The queries by which each language is read.
    pub queries: Arc<QuerySet>,
}

impl Executor for Calibration {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let fault = |what: String| Failure::Fatal {
            what,
            help: "this is a fault in everbench; please report it with the function's text".into(),
        };
        let id = match job.inputs().get("language") {
            None => LanguageId::C,
            Some(name) => match name {
                Value::Text(name) => LanguageId::named(name),
                _ => None,
            }
            .ok_or_else(|| fault(format!("{name:?} is no language")))?,
        };
        let language = self
            .queries
            .language(id)
            .map_err(|e| fault(e.to_string()))?;
        let text = (context.blob)(job.digest("function"))?;
        let edit = job.text("edit");
        let name = job.text("name");
        let definition = lang::function_alone(&language, &text, name)
            .ok_or_else(|| fault(format!("the text of `{name}` holds no definition of it")))?;
        let menu = lang::calibration::menu(&language, &definition, &text);
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
        let reply = Reply::complete(format!(
            "```{}\n{}\n```\n",
            id.facts().labels[0],
            crate::ask::decode(&code)
        ));
        Ok(Output {
            bytes: reply.encode(),
            blobs: vec![],
        })
    }
}

/// What the first line of a replay file must say of its format.
pub const REPLAY_FORMAT: &str = "everbench-replies/1";

/// The first line of a replay file: who was asked, and how. What else stands in it (server,
/// packages, date) is for people.
#[derive(Deserialize)]
struct Header {
    format: String,
    model: ReplayedModel,
    sampling: RecordedSampling,
    /// What stood behind the task's own system text.
    #[serde(default)]
    system: String,
}

#[derive(Deserialize)]
struct ReplayedModel {
    name: String,
    /// What completions' keys call it, in place of the name and its revision.
    identity: Option<String>,
    /// Which of the models that ever had the name; a digest of the weights will do.
    revision: Option<String>,
    sha256: Option<String>,
    family: Option<String>,
    parameters: Option<u64>,
    size: Option<String>,
    weights: Option<String>,
    precision: Option<String>,
    released: Option<String>,
    cutoff: Option<String>,
    license: Option<String>,
}

#[derive(Deserialize)]
struct RecordedSampling {
    temperature: f64,
    seed: i64,
    max_tokens: u32,
    top_p: Option<f64>,
    #[serde(default)]
    thinking: Thinking,
    route: Option<String>,
    #[serde(default)]
    extra: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl Header {
    fn revision(&self) -> Result<String, String> {
        let model = &self.model;
        if let Some(identity) = &model.identity {
            return Ok(identity.clone());
        }
        match model.revision.as_ref().or(model.sha256.as_ref()) {
            Some(revision) => Ok(format!("{}@{revision}", model.name)),
            None => Err(format!(
                "model `{}` needs a `revision` or a `sha256`: a name alone can come to mean another model",
                model.name
            )),
        }
    }

    fn sampling(&self) -> Result<Sampling, String> {
        let milli = |n| crate::ask::request::milli(n).map_err(|e| e.to_string());
        Ok(Sampling {
            temperature_milli: milli(self.sampling.temperature)?,
            seed: self.sampling.seed,
            top_p_milli: self.sampling.top_p.map(milli).transpose()?,
            max_tokens: self.sampling.max_tokens,
            thinking: self.sampling.thinking.clone(),
            route: self.sampling.route.clone(),
            extra: self.sampling.extra.clone(),
            headers: self.sampling.headers.clone(),
        })
    }

    fn card(&self) -> Card {
        let model = &self.model;
        Card {
            family: model.family.clone(),
            size: model
                .size
                .clone()
                .or(model.parameters.map(|n| n.to_string())),
            weights: model.weights.clone(),
            precision: model.precision.clone(),
            released: model.released.clone(),
            cutoff: model.cutoff.clone(),
            licence: model.license.clone(),
        }
    }
}

#[derive(Deserialize)]
struct RecordedUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[derive(Deserialize)]
struct Record {
    id: Digest,
    text: Option<String>,
    finish_reason: Option<String>,
    usage: Option<RecordedUsage>,
    error: Option<RecordedError>,
    /// All of it, as it was stored, in place of the parts above.
    reply: Option<Reply>,
}

/// The server refused the request: the one reason that is an answer is a prompt that is too long.
#[derive(Deserialize)]
struct RecordedError {
    message: String,
}

impl Record {
    fn reply(self) -> Result<Reply, String> {
        if let Some(reply) = self.reply {
            return Ok(reply);
        }
        match (self.text, self.error) {
            (Some(text), None) => Ok(Reply {
                usage: self.usage.map(|u| Usage {
                    input_tokens: u.prompt_tokens,
                    output_tokens: u.completion_tokens,
                    ..Usage::default()
                }),
                ..Reply::ended(stop(self.finish_reason.as_deref()), text)
            }),
            (None, Some(error)) if error.message.contains("context") => {
                Ok(Reply::ended(Stop::Context, ""))
            }
            (None, Some(error)) => Err(format!(
                "an error is no reply: {}; ask again",
                error.message
            )),
            _ => Err("a record needs `text`, `reply` or `error`".into()),
        }
    }
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
    /// The model and its revision.
    pub revision: String,
    /// How it sampled.
    pub sampling: Sampling,
    /// What stood behind the task's own system text; may be empty.
    pub system: String,
    /// What is known of it.
    pub card: Card,
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
        let header: Header = serde_json::from_str(first).map_err(|e| {
            wrong(1, format!("this is no header of a replay file ({}); the first line names format, model and sampling", in_line(&e)))
        })?;
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
                serde_json::from_str(line).map_err(|e| wrong(at + 1, in_line(&e)))?;
            let id = record.id;
            let reply = record.reply().map_err(|what| wrong(at + 1, what))?;
            if replies.insert(id, reply).is_some() {
                return Err(wrong(at + 1, format!("a second reply to prompt {id}")));
            }
        }
        Ok(Replay {
            path: path.to_path_buf(),
            revision: header.revision().map_err(|what| wrong(1, what))?,
            sampling: header.sampling().map_err(|what| wrong(1, what))?,
            card: header.card(),
            system: header.system,
            replies,
        })
    }
}

/// The lines of a replay file: what a model that is asked so has answered, by the digests of
/// the prompts. [`Replay::read`] gives the same back, and the same keys.
pub fn recording(
    (revision, sampling, system): (&str, &Sampling, &str),
    card: &Card,
    replies: &BTreeMap<Digest, Reply>,
) -> String {
    let fraction = |milli: u32| f64::from(milli) / 1000.0;
    let mut asked = serde_json::json!({
        "temperature": fraction(sampling.temperature_milli),
        "seed": sampling.seed,
        "max_tokens": sampling.max_tokens,
        "top_p": sampling.top_p_milli.map(fraction),
        "thinking": sampling.thinking,
        "route": sampling.route,
        "extra": sampling.extra,
        "headers": sampling.headers,
    });
    let mut model = serde_json::json!({
        "name": revision.split('@').next().unwrap_or_default(),
        "identity": revision,
        "family": card.family,
        "size": card.size,
        "weights": card.weights,
        "precision": card.precision,
        "released": card.released,
        "cutoff": card.cutoff,
        "license": card.licence,
    });
    for part in [&mut asked, &mut model] {
        if let Some(fields) = part.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    let mut header = serde_json::json!({
        "format": REPLAY_FORMAT, "model": model, "sampling": asked,
    });
    if !system.is_empty() {
        header["system"] = system.into();
    }
    let mut out = format!("{header}\n");
    for (id, reply) in replies {
        out.push_str(&format!(
            "{}\n",
            serde_json::json!({ "id": id, "reply": reply })
        ));
    }
    out
}

/// What is wrong with the JSON of one line; which line it is in the file is said before.
fn in_line(e: &serde_json::Error) -> String {
    e.to_string().replace(" at line 1 column ", " at column ")
}

/// What a recording has for a request.
///
/// # Errors
/// [`Failure::Fatal`] if it has nothing.
pub fn replayed(replay: &Replay, request: &Request) -> Result<Output, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_reads_back_as_what_was_recorded() {
        let sampling = Sampling {
            temperature_milli: 700,
            seed: 7,
            top_p_milli: Some(950),
            max_tokens: 900,
            thinking: Thinking::Budget(800),
            route: Some("maker".into()),
            extra: r#"{"top_k":1}"#.into(),
            headers: BTreeMap::from([("x-title".into(), "bench".into())]),
        };
        let card = Card {
            family: Some("F".into()),
            size: Some("7B".into()),
            cutoff: Some("2026-01".into()),
            ..Card::default()
        };
        let reply = Reply {
            served_model: Some("m-1".into()),
            usage: Some(Usage {
                input_tokens: 3,
                output_tokens: 4,
                cached_input_tokens: Some(1),
                reasoning_tokens: Some(2),
            }),
            omitted: vec!["seed".into()],
            ..Reply::ended(Stop::Length, "a\nb \u{e9}")
        };
        let replies = BTreeMap::from([
            (Digest::of(b"1"), reply),
            (Digest::of(b"2"), Reply::ended(Stop::Context, "")),
        ]);
        let text = recording(("p/m@1", &sampling, "Be brief."), &card, &replies);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replies.jsonl");
        std::fs::write(&path, text).unwrap();
        let replay = Replay::read(&path).unwrap();
        assert_eq!((&*replay.revision, &replay.sampling), ("p/m@1", &sampling));
        assert_eq!((&*replay.system, &replay.card), ("Be brief.", &card));
        assert_eq!(replay.replies, replies);
        // Without anything special, too, and without a revision.
        let plain = Sampling::default();
        let text = recording(("p/m", &plain, ""), &Card::default(), &replies);
        std::fs::write(&path, text).unwrap();
        let replay = Replay::read(&path).unwrap();
        assert_eq!((&*replay.revision, &replay.sampling), ("p/m", &plain));
    }
}
