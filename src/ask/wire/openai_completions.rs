//! OpenAI's completions (`POST /completions`), of which only base models and local servers are left: a
//! text that goes on. There are no roles, so the system text stands before the user's.

use serde_json::Value;

use super::{Fault, Headers, Json, Said, errors, no_answer, openai_chat, text_at};
use crate::ask::Reply;

pub(super) fn encode(said: &mut Said) -> (String, Json) {
    let (shape, request) = (said.shape, said.request);
    let prompt = match &*request.system {
        "" => request.user.to_string(),
        system => format!("{system}\n\n{}", request.user),
    };
    let mut body = vec![
        ("model", shape.model.as_str().into()),
        ("prompt", Json::Text(prompt)),
    ];
    body.extend(said.temperature().map(|t| ("temperature", t)));
    body.extend(said.top_p().map(|p| ("top_p", p)));
    body.extend(said.seed().map(|s| ("seed", s)));
    body.extend(said.max_tokens().map(|n| ("max_tokens", n)));
    ("/completions".into(), Json::fields(body))
}

pub(super) fn decode(headers: &Headers, value: &Value) -> Result<Reply, Fault> {
    let choice = value.pointer("/choices/0");
    let choice = choice.ok_or_else(|| no_answer("there are no `choices`"))?;
    if let Some(instead) = errors::inside(headers, choice) {
        return instead;
    }
    let text = choice.get("text").and_then(Value::as_str);
    let text = text.ok_or_else(|| no_answer("the choice has no `text`"))?;
    let stop = openai_chat::ended(choice.get("finish_reason"))?;
    Ok(Reply {
        served_model: text_at(value, "/model"),
        usage: openai_chat::usage(value),
        fingerprint: text_at(value, "/system_fingerprint"),
        ..Reply::ended(stop, text)
    })
}
