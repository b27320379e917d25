//! Gemini's `generateContent` (`POST /v1/models/MODEL:generateContent`).

use std::fmt::Write as _;

use serde_json::Value;

use super::json::object;
use super::{Fault, Json, Said, count_at, no_answer, text_at};
use crate::ask::{Reply, Stop, Usage};

pub(super) fn encode(said: &mut Said) -> (String, Json) {
    let (shape, request) = (said.shape, said.request);
    let content = |text: &str| {
        let part = object([("text", text.into())]);
        object([("parts", vec![part].into()), ("role", "user".into())])
    };
    let mut body = vec![("contents", vec![content(&request.user)].into())];
    if !request.system.is_empty() {
        body.push(("systemInstruction", content(&request.system)));
    }
    let mut config = Vec::new();
    config.extend(said.temperature().map(|t| ("temperature", t)));
    config.extend(said.top_p().map(|p| ("topP", p)));
    config.extend(said.max_tokens().map(|n| ("maxOutputTokens", n)));
    config.extend(said.seed().map(|s| ("seed", s)));
    // The names and the capitals within are those that Google's own library sends.
    let level = said.effort();
    let level = level.map(|l| ("thinking_level", Json::Text(l.to_uppercase())));
    let thinking = said
        .budget()
        .map(|n| ("thinking_budget", n.into()))
        .or(level);
    config.extend(thinking.map(|t| ("thinkingConfig", object([t]))));
    body.push(("generationConfig", Json::fields(config)));
    let path = format!("/v1/models/{}:generateContent", escaped(&shape.model));
    (path, Json::fields(body))
}

/// A model's name as part of a path.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

pub(super) fn decode(value: &Value) -> Result<Reply, Fault> {
    let usage = value.get("usageMetadata").and_then(|usage| {
        let thoughts = count_at(usage, "/thoughtsTokenCount");
        Some(Usage {
            input_tokens: count_at(usage, "/promptTokenCount")?,
            output_tokens: count_at(usage, "/candidatesTokenCount").unwrap_or(0)
                + thoughts.unwrap_or(0),
            cached_input_tokens: count_at(usage, "/cachedContentTokenCount"),
            reasoning_tokens: thoughts,
        })
    });
    let (text, stop) = match value.pointer("/candidates/0") {
        Some(candidate) => {
            let parts = candidate
                .pointer("/content/parts")
                .and_then(Value::as_array);
            let thought =
                |part: &&Value| part.get("thought").and_then(Value::as_bool) == Some(true);
            let text: String = parts
                .into_iter()
                .flatten()
                .filter(|part| !thought(part))
                .filter_map(|part| part.get("text").and_then(Value::as_str))
                .collect();
            let reason = candidate.get("finishReason").and_then(Value::as_str);
            (text, ended(reason)?)
        }
        // Declined before anything was said.
        None if value.pointer("/promptFeedback/blockReason").is_some() => {
            (String::new(), Stop::Refusal)
        }
        None => return Err(no_answer("there are no `candidates`")),
    };
    Ok(Reply {
        served_model: text_at(value, "/modelVersion"),
        usage,
        ..Reply::ended(stop, text)
    })
}

fn ended(reason: Option<&str>) -> Result<Stop, Fault> {
    Ok(match reason {
        Some("MAX_TOKENS") => Stop::Length,
        Some(
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "MODEL_ARMOR",
        ) => Stop::Refusal,
        // What the server could not make of an answer, or does not say.
        Some(reason @ ("OTHER" | "MALFORMED_RESPONSE" | "FINISH_REASON_UNSPECIFIED")) => {
            return Err(no_answer(&format!("it ended for the reason `{reason}`")));
        }
        None => return Err(no_answer("there is no `finishReason`")),
        Some(_) => Stop::Complete,
    })
}
