//! Ollama's own chat (`POST /api/chat`). Its server shortens questions that do not fit and says
//! nothing of it, unless it is told not to: `truncate` and `shift` are false.

use serde_json::Value;

use super::json::object;
use super::{Fault, Json, Said, count_at, no_answer, text_at};
use crate::ask::{Reply, Stop, Usage};

pub(super) fn encode(said: &mut Said) -> (String, Json) {
    let (shape, request) = (said.shape, said.request);
    let message =
        |role: &str, text: &str| object([("role", role.into()), ("content", text.into())]);
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(message("system", &request.system));
    }
    messages.push(message("user", &request.user));
    let mut options = Vec::new();
    options.extend(said.temperature().map(|t| ("temperature", t)));
    options.extend(said.top_p().map(|p| ("top_p", p)));
    options.extend(said.seed().map(|s| ("seed", s)));
    options.extend(said.max_tokens().map(|n| ("num_predict", n)));
    let mut body = vec![
        ("model", shape.model.as_str().into()),
        ("messages", Json::List(messages)),
        ("stream", false.into()),
        ("truncate", false.into()),
        ("shift", false.into()),
    ];
    body.extend(said.effort().map(|level| {
        let think = match level.as_str() {
            "true" => true.into(),
            "false" | "none" => false.into(),
            level => level.into(),
        };
        ("think", think)
    }));
    body.push(("options", Json::fields(options)));
    ("/api/chat".into(), Json::fields(body))
}

pub(super) fn decode(value: &Value) -> Result<Reply, Fault> {
    let text = value.pointer("/message/content").and_then(Value::as_str);
    let text = text.ok_or_else(|| no_answer("there is no `message.content`"))?;
    if value.get("done").and_then(Value::as_bool) != Some(true) {
        return Err(no_answer("it is not `done`"));
    }
    let stop = match value.get("done_reason").and_then(Value::as_str) {
        Some("length") => Stop::Length,
        // The model was only put into memory, or taken out of it.
        Some(reason @ ("load" | "unload")) => {
            return Err(no_answer(&format!("`done_reason` is `{reason}`")));
        }
        _ => Stop::Complete,
    };
    let usage = count_at(value, "/prompt_eval_count").map(|input_tokens| Usage {
        input_tokens,
        output_tokens: count_at(value, "/eval_count").unwrap_or(0),
        ..Usage::default()
    });
    Ok(Reply {
        served_model: text_at(value, "/model"),
        usage,
        ..Reply::ended(stop, text)
    })
}
