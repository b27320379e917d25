//! Anthropic's messages (`POST /v1/messages`).
//!
//! The API's present version has no `temperature` and no `top_p`, whatever the model; the one before
//! has them, for models that take them. So the version is that which can say what is asked.

use serde_json::Value;

use super::json::object;
use super::{
    Fault, Headers, Json, Malformed, Said, Setting, count_at, errors, no_answer, sse, text_at,
};
use crate::ask::{Reply, Stop, Usage};

/// The present version of the API.
pub(super) const VERSION: &str = "2026-10-21";

/// The one before, in which sampling can be set.
const SAMPLING_VERSION: &str = "2023-06-01";

/// The version in which `body` can be said.
pub(super) fn version(body: &Json) -> &'static str {
    let sampled = ["temperature", "top_p", "top_k"];
    match sampled.iter().any(|name| body.get(name).is_some()) {
        true => SAMPLING_VERSION,
        false => VERSION,
    }
}

pub(super) fn encode(said: &mut Said) -> (String, Json) {
    let (shape, request) = (said.shape, said.request);
    let mut body = vec![("model", shape.model.as_str().into())];
    body.extend(said.max_tokens().map(|n| ("max_tokens", n)));
    if !request.system.is_empty() {
        body.push(("system", (&*request.system).into()));
    }
    let message = object([
        ("role", "user".into()),
        ("content", (&*request.user).into()),
    ]);
    body.push(("messages", Json::List(vec![message])));
    let budget = said.budget();
    // A model that thinks takes no temperature but its own.
    match budget {
        Some(_) => said.omitted.push(Setting::Temperature.name().into()),
        None => body.extend(said.temperature().map(|t| ("temperature", t))),
    }
    body.extend(said.top_p().map(|p| ("top_p", p)));
    let _ = said.seed();
    if let Some(tokens) = budget {
        let thinking = object([("type", "enabled".into()), ("budget_tokens", tokens.into())]);
        body.push(("thinking", thinking));
    }
    if let Some(level) = said.effort() {
        body.push(("output_config", object([("effort", Json::Text(level))])));
    }
    if shape.stream {
        body.push(("stream", true.into()));
    }
    ("/v1/messages".into(), Json::fields(body))
}

pub(super) fn decode(value: &Value) -> Result<Reply, Fault> {
    let content = value
        .get("content")
        .and_then(Value::as_array)
        .ok_or_else(|| no_answer("there is no `content`"))?;
    let stop = match value.get("stop_reason").and_then(Value::as_str) {
        Some(reason) => ended(reason),
        None => return Err(no_answer("there is no `stop_reason`")),
    };
    // Thinking is in blocks of its own.
    let text: String = content
        .iter()
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
        .filter_map(|block| block.get("text").and_then(Value::as_str))
        .collect();
    Ok(Reply {
        served_model: text_at(value, "/model"),
        usage: usage(value.get("usage")),
        ..Reply::ended(stop, text)
    })
}

/// What a stream of events amounts to. It ends with `message_stop`.
pub(super) fn decode_stream(headers: &Headers, text: &str) -> Result<Reply, Fault> {
    let broken = |what: &str| Fault::Malformed(Malformed::BrokenStream(what.to_string()));
    let mut answer = String::new();
    let (mut model, mut reason) = (None, None);
    let mut counts = serde_json::Map::new();
    let mut whole = false;
    for event in sse::events(text) {
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|e| Fault::Malformed(Malformed::NotJson(e.to_string())))?;
        if let Some(instead) = errors::inside(headers, &data) {
            return instead;
        }
        let kind = data.get("type").and_then(Value::as_str);
        let used = data.pointer("/message/usage").or_else(|| data.get("usage"));
        // Later counts replace earlier ones; they are sums, not steps.
        for (name, count) in used.and_then(Value::as_object).into_iter().flatten() {
            if !count.is_null() {
                counts.insert(name.clone(), count.clone());
            }
        }
        match kind {
            Some("message_start") => model = text_at(&data, "/message/model"),
            Some("content_block_start") => {
                answer.push_str(
                    data.pointer("/content_block/text")
                        .and_then(Value::as_str)
                        .unwrap_or(""),
                );
            }
            Some("content_block_delta") => {
                answer.push_str(
                    data.pointer("/delta/text")
                        .and_then(Value::as_str)
                        .unwrap_or(""),
                );
            }
            Some("message_delta") => reason = text_at(&data, "/delta/stop_reason").or(reason),
            Some("message_stop") => {
                whole = true;
                break;
            }
            _ => {}
        }
    }
    if !whole {
        return Err(broken("there is no `message_stop`"));
    }
    let reason = reason.ok_or_else(|| broken("there is no `stop_reason`"))?;
    Ok(Reply {
        served_model: model,
        usage: usage(Some(&Value::Object(counts))),
        ..Reply::ended(ended(&reason), answer)
    })
}

/// Tokens read from or written to a cache are counted apart there, and are input all the same.
fn usage(usage: Option<&Value>) -> Option<Usage> {
    let usage = usage?;
    let cached = count_at(usage, "/cache_read_input_tokens");
    let written = count_at(usage, "/cache_creation_input_tokens").unwrap_or(0);
    Some(Usage {
        input_tokens: count_at(usage, "/input_tokens")? + cached.unwrap_or(0) + written,
        output_tokens: count_at(usage, "/output_tokens").unwrap_or(0),
        cached_input_tokens: cached,
        reasoning_tokens: count_at(usage, "/output_tokens_details/thinking_tokens"),
    })
}

fn ended(reason: &str) -> Stop {
    match reason {
        // The latter: the answer grew until the context was full.
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refusal,
        _ => Stop::Complete,
    }
}
