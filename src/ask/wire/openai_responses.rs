//! OpenAI's responses (`POST /responses`). Nothing is kept at the provider's (`store` is false).

use serde_json::Value;

use super::json::object;
use super::{Fault, Json, Said, count_at, no_answer, text_at};
use crate::ask::{Reply, Stop, Usage};

pub(super) fn encode(said: &mut Said) -> (String, Json) {
    let (shape, request) = (said.shape, said.request);
    let mut body = vec![("model", shape.model.as_str().into())];
    if !request.system.is_empty() {
        body.push(("instructions", (&*request.system).into()));
    }
    body.push(("input", (&*request.user).into()));
    body.extend(said.temperature().map(|t| ("temperature", t)));
    body.extend(said.top_p().map(|p| ("top_p", p)));
    let _ = said.seed();
    body.extend(said.max_tokens().map(|n| ("max_output_tokens", n)));
    let effort = said.effort().map(Json::Text);
    body.extend(effort.map(|e| ("reasoning", object([("effort", e)]))));
    body.push(("store", false.into()));
    ("/responses".into(), Json::fields(body))
}

pub(super) fn decode(value: &Value) -> Result<Reply, Fault> {
    let cut = value.pointer("/incomplete_details/reason");
    let stop = match value.get("status").and_then(Value::as_str) {
        Some("completed") => Stop::Complete,
        Some("incomplete") => match cut.and_then(Value::as_str) {
            Some("content_filter") => Stop::Refusal,
            _ => Stop::Length,
        },
        Some(status) => return Err(no_answer(&format!("the response is `{status}`"))),
        None => return Err(no_answer("there is no `status`")),
    };
    let output = value.get("output").and_then(Value::as_array);
    let output = output.ok_or_else(|| no_answer("there is no `output`"))?;
    let (mut text, mut refusal) = (String::new(), String::new());
    let of = |item: &Value, kind: &str| item.get("type").and_then(Value::as_str) == Some(kind);
    for item in output.iter().filter(|item| of(item, "message")) {
        for part in item
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let said = |name| part.get(name).and_then(Value::as_str).unwrap_or_default();
            if of(part, "output_text") {
                text.push_str(said("text"));
            } else if of(part, "refusal") {
                refusal.push_str(said("refusal"));
            }
        }
    }
    let (text, stop) = match refusal.is_empty() {
        true => (text, stop),
        false if text.is_empty() => (refusal, Stop::Refusal),
        false => (text, Stop::Refusal),
    };
    let usage = value.get("usage").and_then(|usage| {
        Some(Usage {
            input_tokens: count_at(usage, "/input_tokens")?,
            output_tokens: count_at(usage, "/output_tokens").unwrap_or(0),
            cached_input_tokens: count_at(usage, "/input_tokens_details/cached_tokens"),
            reasoning_tokens: count_at(usage, "/output_tokens_details/reasoning_tokens"),
        })
    });
    Ok(Reply {
        served_model: text_at(value, "/model"),
        usage,
        ..Reply::ended(stop, text)
    })
}
