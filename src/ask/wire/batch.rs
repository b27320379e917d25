//! Batches: many requests that are answered within a day, for less. OpenAI takes a file of lines,
//! Anthropic a list; both give the answers in any order, by names that we choose. Bytes in, bytes out, as in all
//! of this module; what is sent when, and what is written down before, is the sender's.
//!
//! The way of a batch: for OpenAI [`upload`] and [`read_upload`], then for both [`submit`] and
//! [`read_batch`], then [`look`] and [`read_batch`] until it has ended, then each of
//! [`State::Ended`]'s paths and [`read_results`]. A name that is in no result was not answered.

use serde_json::Value;

use super::json::object;
use super::{
    Api, Fault, Headers, Json, Malformed, Wire, anthropic, decode, document, errors, no_answer,
};
use crate::ask::Reply;
use crate::digest::Digest;

/// One request of a batch's life. Keys are not in it, see [`Api::credential`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// GET without a body, or POST.
    pub post: bool,
    /// What follows the base URL.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A batch at a provider's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Its name there.
    pub id: String,
    /// How far it is.
    pub state: State,
}

/// How far a batch is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Being worked on; so many requests are done, as far as is told.
    Running {
        /// How many.
        done: u64,
    },
    /// Over, whole or not: what was answered is behind these paths.
    Ended {
        /// What to GET, one after the other, for [`read_results`].
        results: Vec<String>,
    },
    /// Not accepted, or given up, with nothing answered.
    Failed {
        /// What the provider says.
        message: String,
    },
}

/// The most that a batch may hold: requests, and bytes of their bodies.
pub fn limits(api: Api) -> Option<(usize, usize)> {
    match api {
        Api::OpenaiChat | Api::OpenaiCompletions | Api::OpenaiResponses => {
            Some((50_000, 200_000_000))
        }
        Api::Anthropic => Some((100_000, 256_000_000)),
        Api::Gemini | Api::Ollama | Api::OpenaiEmbeddings => None,
    }
}

/// The lines of a file of requests, by name, for OpenAI.
pub fn lines(requests: &[(String, Wire)]) -> String {
    let mut out = String::new();
    for (name, wire) in requests {
        let line = object([
            ("custom_id", name.as_str().into()),
            ("method", "POST".into()),
            ("url", format!("/v1{}", wire.path).as_str().into()),
            ("body", body_of(wire)),
        ]);
        out.push_str(&line.text());
        out.push('\n');
    }
    out
}

/// The call that uploads [`lines`].
pub fn upload(lines: &str) -> Call {
    // Never part of what it separates: it depends on all of it.
    let boundary = format!("everbench-{}", Digest::of(lines.as_bytes()));
    let part = |disposition: &str, text: &str| {
        format!("--{boundary}\r\ncontent-disposition: form-data; {disposition}\r\n\r\n{text}\r\n")
    };
    let mut body = part("name=\"purpose\"", "batch");
    body.push_str(&part("name=\"file\"; filename=\"batch.jsonl\"", lines));
    body.push_str(&format!("--{boundary}--\r\n"));
    Call {
        post: true,
        path: "/files".into(),
        headers: vec![(
            "content-type".into(),
            format!("multipart/form-data; boundary={boundary}"),
        )],
        body: body.into_bytes(),
    }
}

/// The name of the file that was uploaded.
pub fn read_upload(status: u16, headers: &Headers, body: &[u8]) -> Result<String, Fault> {
    let value = read(status, headers, body)?;
    let id = value.get("id").and_then(Value::as_str);
    Ok(id.ok_or_else(|| no_answer("the file has no `id`"))?.into())
}

/// The call that makes a batch of requests. For OpenAI `file` is the upload's name and
/// `mark` a text by which the batch can be recognised; Anthropic has neither.
///
/// `requests` must not be empty, and be of one shape.
pub fn submit(api: Api, requests: &[(String, Wire)], file: &str, mark: &str) -> Call {
    let first = requests.first().map(|(_, wire)| wire);
    let mut headers = first.map(|wire| wire.headers.clone()).unwrap_or_default();
    let body = if api == Api::Anthropic {
        let list = requests.iter().map(|(name, wire)| {
            object([
                ("custom_id", name.as_str().into()),
                ("params", body_of(wire)),
            ])
        });
        object([("requests", Json::List(list.collect()))])
    } else {
        let path = first.map(|wire| wire.path.as_str()).unwrap_or_default();
        headers.retain(|(name, _)| name == "content-type");
        object([
            ("input_file_id", file.into()),
            ("endpoint", format!("/v1{path}").as_str().into()),
            ("completion_window", "24h".into()),
            ("metadata", object([("everbench", mark.into())])),
        ])
    };
    Call {
        post: true,
        path: path_of(api).into(),
        headers,
        body: body.text().into_bytes(),
    }
}

/// The call that asks how far a batch is.
pub fn look(api: Api, id: &str) -> Call {
    get(api, format!("{}/{id}", path_of(api)))
}

/// The call that fetches one of [`State::Ended`]'s paths.
pub fn fetch(api: Api, path: &str) -> Call {
    get(api, path.to_string())
}

/// A batch, as [`submit`] and [`look`] are answered.
pub fn read_batch(api: Api, status: u16, headers: &Headers, body: &[u8]) -> Result<Batch, Fault> {
    let value = read(status, headers, body)?;
    let text = |name| value.get(name).and_then(Value::as_str);
    let id = text("id").ok_or_else(|| no_answer("the batch has no `id`"))?;
    let count = |pointer| value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let state = if api == Api::Anthropic {
        match text("processing_status") {
            Some("ended") => State::Ended {
                results: vec![format!("{}/{id}/results", path_of(api))],
            },
            Some(_) => State::Running {
                done: count("/request_counts/succeeded") + count("/request_counts/errored"),
            },
            None => return Err(no_answer("the batch has no `processing_status`")),
        }
    } else {
        let files = ["output_file_id", "error_file_id"];
        let files = files.iter().filter_map(|name| text(name));
        let results: Vec<String> = files.map(|id| format!("/files/{id}/content")).collect();
        match text("status") {
            // What was answered before the end of the day, or before it was cancelled, is there.
            Some("completed") => State::Ended { results },
            Some("expired" | "cancelled") if !results.is_empty() => State::Ended { results },
            Some(status @ ("failed" | "expired" | "cancelled")) => State::Failed {
                message: match value
                    .pointer("/errors/data/0/message")
                    .and_then(Value::as_str)
                {
                    Some(message) => format!("{status}: {message}"),
                    None => status.into(),
                },
            },
            Some(_) => State::Running {
                done: count("/request_counts/completed") + count("/request_counts/failed"),
            },
            None => return Err(no_answer("the batch has no `status`")),
        }
    };
    Ok(Batch {
        id: id.into(),
        state,
    })
}

/// What came of single requests of a batch: by name, in the provider's order.
pub type Results = Vec<(String, Result<Reply, Fault>)>;

/// The lines of results. One line that is cut off makes all of it a fault: it is fetched again.
pub fn read_results(
    api: Api,
    status: u16,
    headers: &Headers,
    body: &[u8],
) -> Result<Results, Fault> {
    if !(200..300).contains(&status) {
        return Err(match errors::refused(status, headers, body) {
            Err(fault) => fault,
            Ok(_) => no_answer("an error of a single request"),
        });
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return Err(Fault::Malformed(Malformed::NotUtf8));
    };
    let none = Headers::default();
    let mut results = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line)
            .map_err(|e| Fault::Malformed(Malformed::NotJson(e.to_string())))?;
        let name = value.get("custom_id").and_then(Value::as_str);
        let name = name.ok_or_else(|| no_answer("a result has no `custom_id`"))?;
        let result = if api == Api::Anthropic {
            let result = value.get("result").unwrap_or(&Value::Null);
            match result.get("type").and_then(Value::as_str) {
                Some("succeeded") => {
                    let message = result.get("message").unwrap_or(&Value::Null);
                    anthropic::decode(message)
                }
                Some("errored") => {
                    let error = result.get("error").unwrap_or(&Value::Null);
                    errors::error_in(&none, error)
                }
                kind => Err(not_done(kind.unwrap_or("without a type"))),
            }
        } else if let Some(response) = value.get("response").filter(|r| r.is_object()) {
            let status = response.get("status_code").and_then(Value::as_u64);
            let status = status.and_then(|s| u16::try_from(s).ok()).unwrap_or(200);
            let body = response.get("body").map(Value::to_string);
            decode(api, status, &none, body.unwrap_or_default().as_bytes())
        } else {
            let code = value.pointer("/error/code").and_then(Value::as_str);
            Err(not_done(code.unwrap_or("without a response")))
        };
        results.push((name.to_string(), result));
    }
    Ok(results)
}

/// A request that the provider did not come to.
fn not_done(why: &str) -> Fault {
    Fault::TimedOut {
        status: 0,
        message: format!("the batch ended before the request was answered: {why}"),
    }
}

fn read(status: u16, headers: &Headers, body: &[u8]) -> Result<Value, Fault> {
    if (200..300).contains(&status) {
        return document(headers, body);
    }
    Err(match errors::refused(status, headers, body) {
        Err(fault) => fault,
        Ok(_) => Fault::BadRequest {
            status,
            message: "the batch as a whole is refused".into(),
        },
    })
}

fn get(api: Api, path: String) -> Call {
    let headers = match api {
        Api::Anthropic => vec![("anthropic-version".into(), anthropic::VERSION.into())],
        _ => Vec::new(),
    };
    Call {
        post: false,
        path,
        headers,
        body: Vec::new(),
    }
}

fn path_of(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "/v1/messages/batches",
        _ => "/batches",
    }
}

fn body_of(wire: &Wire) -> Json {
    let text = std::str::from_utf8(&wire.body).unwrap_or_default();
    Json::parse(text).unwrap_or(Json::Null)
}
