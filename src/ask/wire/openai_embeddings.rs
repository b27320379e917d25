//! OpenAI's embeddings (`POST /embeddings`): a text becomes a vector. The reply's text is the vector, as a
//! list in JSON, so that all that holds of replies (keys, retries, prices, the store) holds of vectors.

use serde_json::Value;

use super::{Fault, Headers, Json, Said, errors, no_answer, openai_chat, text_at};
use crate::ask::{Reply, Stop};

pub(super) fn encode(said: &mut Said) -> (String, Json) {
    let (shape, request) = (said.shape, said.request);
    let body = vec![
        ("model", shape.model.as_str().into()),
        ("input", Json::Text(request.user.to_string())),
        ("encoding_format", "float".into()),
    ];
    ("/embeddings".into(), Json::fields(body))
}

pub(super) fn decode(headers: &Headers, value: &Value) -> Result<Reply, Fault> {
    let first = value.pointer("/data/0");
    let first = first.ok_or_else(|| no_answer("there is no `data`"))?;
    if let Some(instead) = errors::inside(headers, first) {
        return instead;
    }
    let vector = first.get("embedding").and_then(Value::as_array);
    let vector = vector.ok_or_else(|| no_answer("there is no list `embedding`"))?;
    if vector.is_empty() || !vector.iter().all(Value::is_number) {
        return Err(no_answer("`embedding` is no list of numbers"));
    }
    let text = Value::from(vector.clone()).to_string();
    Ok(Reply {
        served_model: text_at(value, "/model"),
        usage: openai_chat::usage(value),
        ..Reply::ended(Stop::Complete, text)
    })
}
