//! OpenAI's chat completions (`POST /chat/completions`), which vLLM, llama.cpp, Ollama, LM Studio,
//! OpenRouter and most hosts speak too, with additions of their own.

use serde_json::Value;

use super::json::object;
use super::{
    EffortField, Fault, Headers, Json, Malformed, MaxTokensField, Said, SeedField, count_at,
    errors, no_answer, sse, text_at,
};
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
    let mut body = vec![
        ("model", shape.model.as_str().into()),
        ("messages", Json::List(messages)),
    ];
    body.extend(said.temperature().map(|t| ("temperature", t)));
    body.extend(said.top_p().map(|p| ("top_p", p)));
    let seed = match shape.seed {
        SeedField::Seed => "seed",
        SeedField::RandomSeed => "random_seed",
    };
    body.extend(said.seed().map(|s| (seed, s)));
    let most = match shape.max_tokens {
        MaxTokensField::MaxTokens => "max_tokens",
        MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
    };
    body.extend(said.max_tokens().map(|n| (most, n)));
    let effort = said.effort().map(Json::Text);
    let budget = said.budget();
    match shape.effort {
        EffortField::ReasoningEffort => body.extend(effort.map(|e| ("reasoning_effort", e))),
        EffortField::Reasoning => {
            let field = effort.map(|e| ("effort", e));
            let field = field.or(budget.map(|n| ("max_tokens", n.into())));
            body.extend(field.map(|f| ("reasoning", object([f]))));
        }
    }
    if let Some(route) = said.route() {
        let provider = object([
            ("order", Json::List(vec![route.as_str().into()])),
            ("allow_fallbacks", false.into()),
        ]);
        body.push(("provider", provider));
    }
    if shape.stream {
        body.push(("stream", true.into()));
        body.push(("stream_options", object([("include_usage", true.into())])));
    }
    ("/chat/completions".into(), Json::fields(body))
}

pub(super) fn decode(headers: &Headers, value: &Value) -> Result<Reply, Fault> {
    let choice = match value.get("choices").and_then(Value::as_array) {
        Some(choices) => choices
            .first()
            .ok_or_else(|| no_answer("`choices` is empty"))?,
        None => return Err(no_answer("there are no `choices`")),
    };
    if let Some(instead) = errors::inside(headers, choice) {
        return instead;
    }
    let message = choice
        .get("message")
        .filter(|m| m.is_object())
        .ok_or_else(|| no_answer("the choice has no `message`"))?;
    let text = match message.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // Parts, of which those of text are the answer.
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        Some(_) => return Err(no_answer("`content` is no text")),
    };
    let refusal = text_at(message, "/refusal");
    let stop = ended(choice.get("finish_reason"))?;
    Ok(whole(value, text, refusal, stop))
}

/// What a stream of chunks amounts to. It ends with `[DONE]`; a server that does not send that has
/// at least given a reason for its end.
pub(super) fn decode_stream(headers: &Headers, text: &str) -> Result<Reply, Fault> {
    let broken = |what: &str| Fault::Malformed(Malformed::BrokenStream(what.to_string()));
    let (mut content, mut refusal) = (String::new(), String::new());
    let mut reason = None;
    let mut whole_of = serde_json::Map::new();
    let mut any = false;
    for event in sse::events(text) {
        if event.data.trim() == "[DONE]" {
            if reason.is_none() {
                return Err(broken("no choice says why it ended"));
            }
            break;
        }
        let chunk: Value = serde_json::from_str(&event.data)
            .map_err(|e| Fault::Malformed(Malformed::NotJson(e.to_string())))?;
        if let Some(instead) = errors::inside(headers, &chunk) {
            return instead;
        }
        any = true;
        for name in [
            "model",
            "system_fingerprint",
            "provider",
            "usage",
            "timings",
        ] {
            if let Some(value) = chunk.get(name).filter(|v| !v.is_null()) {
                whole_of.insert(name.to_string(), value.clone());
            }
        }
        let Some(choice) = chunk.pointer("/choices/0") else {
            continue;
        };
        if let Some(instead) = errors::inside(headers, choice) {
            return instead;
        }
        content.push_str(
            choice
                .pointer("/delta/content")
                .and_then(Value::as_str)
                .unwrap_or(""),
        );
        refusal.push_str(
            choice
                .pointer("/delta/refusal")
                .and_then(Value::as_str)
                .unwrap_or(""),
        );
        if let Some(given) = choice.get("finish_reason").filter(|r| !r.is_null()) {
            reason = Some(given.clone());
        }
    }
    let Some(reason) = reason else {
        return Err(broken(if any {
            "after part of an answer"
        } else {
            "before the answer began"
        }));
    };
    let stop = ended(Some(&reason))?;
    let refusal = (!refusal.is_empty()).then_some(refusal);
    Ok(whole(&Value::Object(whole_of), content, refusal, stop))
}

/// The reply, with what the document says beside the answer.
fn whole(value: &Value, text: String, refusal: Option<String>, stop: Stop) -> Reply {
    let (text, stop) = match refusal {
        Some(refusal) if text.is_empty() => (refusal, Stop::Refusal),
        Some(_) => (text, Stop::Refusal),
        None => (text, stop),
    };
    Reply {
        served_model: text_at(value, "/model"),
        usage: usage(value),
        fingerprint: text_at(value, "/system_fingerprint"),
        provider: text_at(value, "/provider"),
        ..Reply::ended(stop, text)
    }
}

/// The `usage` of chat completions and completions.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let usage = value.get("usage")?;
    Some(Usage {
        input_tokens: count_at(usage, "/prompt_tokens")?,
        output_tokens: count_at(usage, "/completion_tokens").unwrap_or(0),
        cached_input_tokens: count_at(usage, "/prompt_tokens_details/cached_tokens")
            .or_else(|| count_at(usage, "/prompt_cache_hit_tokens")),
        reasoning_tokens: count_at(usage, "/completion_tokens_details/reasoning_tokens"),
    })
}

/// Why it ended, in one of the many words for it.
pub(super) fn ended(reason: Option<&Value>) -> Result<Stop, Fault> {
    let reason = reason.and_then(Value::as_str).unwrap_or_default();
    Ok(match reason {
        "length" | "max_tokens" | "model_length" => Stop::Length,
        "content_filter" | "refusal" | "safety" => Stop::Refusal,
        // The server stopped, not the model.
        "error" | "abort" | "insufficient_system_resource" => {
            return Err(Fault::Malformed(Malformed::ErrorInside(format!(
                "the answer ended for the reason `{reason}`"
            ))));
        }
        _ => Stop::Complete,
    })
}
