//! A provider of batches, in the words of OpenAI's API or of Anthropic's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::server::*;

/// What becomes of a request in a batch.
pub enum Fate {
    /// It is answered with this.
    Text(String),
    /// It fails with this status.
    Status(u16),
    /// The day is over before its turn.
    Expired,
    /// It is in no result at all.
    Missing,
}

#[derive(Default)]
struct State {
    /// By file: name and body of each request.
    files: Vec<Vec<(String, Value)>>,
    /// By batch: the file and the mark.
    batches: Vec<(usize, String)>,
}

type Judge = dyn Fn(usize, &Value) -> Fate + Send + Sync;

/// The provider.
pub struct Provider {
    state: Mutex<State>,
    /// What becomes of a request, by the number of its batch and its body.
    fate: Box<Judge>,
    /// Batches are worked on until this is set.
    pub done: AtomicBool,
    /// Replies to so many submissions are lost, although they are accepted.
    pub lose: AtomicUsize,
    /// The model's name in answers.
    pub model: Mutex<String>,
}

impl Provider {
    pub fn new(fate: impl Fn(usize, &Value) -> Fate + Send + Sync + 'static) -> Arc<Provider> {
        Arc::new(Provider {
            state: Mutex::default(),
            fate: Box::new(fate),
            done: AtomicBool::new(true),
            lose: AtomicUsize::new(0),
            model: Mutex::new("m".into()),
        })
    }

    /// How many batches were made.
    pub fn batches(&self) -> usize {
        self.state.lock().unwrap().batches.len()
    }

    /// The requests of a batch by the keys of their jobs.
    pub fn requests(&self, batch: usize) -> BTreeMap<String, Value> {
        let state = self.state.lock().unwrap();
        state.files[state.batches[batch].0]
            .iter()
            .cloned()
            .collect()
    }

    /// Starts a server that speaks for it; `seen` is called with each request first.
    pub fn serve(self: &Arc<Provider>, seen: impl Fn(&Asked) + Send + Sync + 'static) -> Server {
        let provider = self.clone();
        Server::start(move |asked| {
            seen(asked);
            provider.answer(asked)
        })
    }

    fn answer(&self, asked: &Asked) -> Say {
        let path = asked.path.split('?').next().unwrap();
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        let mut state = self.state.lock().unwrap();
        match (asked.method.as_str(), parts.as_slice()) {
            ("POST", ["v1", "files"]) => {
                let text = String::from_utf8(asked.body.clone()).unwrap();
                let lines = text.lines().filter(|line| line.starts_with('{'));
                let requests = lines.map(|line| {
                    let line: Value = serde_json::from_str(line).unwrap();
                    assert_eq!(line["url"], "/v1/chat/completions");
                    let name = line["custom_id"].as_str().unwrap();
                    (name.to_string(), line["body"].clone())
                });
                state.files.push(requests.collect());
                let id = format!("file-{}", state.files.len() - 1);
                Say::json(200, &json!({ "id": id, "object": "file" }))
            }
            ("POST", ["v1", "batches"]) => {
                let body = asked.json();
                assert_eq!(body["endpoint"], "/v1/chat/completions");
                let file = number(body["input_file_id"].as_str().unwrap());
                let mark = body["metadata"]["everbench"].as_str().unwrap();
                state.batches.push((file, mark.to_string()));
                self.made(&state)
            }
            ("GET", ["v1", "batches"]) => {
                let all = (0..state.batches.len()).map(|n| self.described(&state, n));
                Say::json(
                    200,
                    &json!({ "object": "list", "data": all.collect::<Vec<_>>() }),
                )
            }
            ("GET", ["v1", "batches", id]) => Say::json(200, &self.described(&state, number(id))),
            ("GET", ["v1", "files", id, "content"]) => {
                let (lines, batch) = (id.starts_with("out"), number(id));
                self.lines(&state, batch, lines)
            }
            ("POST", ["v1", "messages", "batches"]) => {
                let body = asked.json();
                let list = body["requests"].as_array().unwrap();
                let requests = list.iter().map(|r| {
                    (
                        r["custom_id"].as_str().unwrap().to_string(),
                        r["params"].clone(),
                    )
                });
                state.files.push(requests.collect());
                let file = state.files.len() - 1;
                state.batches.push((file, String::new()));
                self.made(&state)
            }
            ("GET", ["v1", "messages", "batches"]) => {
                let all = (0..state.batches.len()).map(|n| self.described(&state, n));
                Say::json(200, &json!({ "data": all.collect::<Vec<_>>() }))
            }
            ("GET", ["v1", "messages", "batches", id, "results"]) => {
                self.lines(&state, number(id), true)
            }
            ("GET", ["v1", "messages", "batches", id]) => {
                Say::json(200, &self.described(&state, number(id)))
            }
            other => panic!("{other:?}"),
        }
    }

    fn made(&self, state: &State) -> Say {
        let lost = self
            .lose
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match lost {
            Ok(_) => Say::Bytes(Vec::new()),
            Err(_) => Say::json(200, &self.described(state, state.batches.len() - 1)),
        }
    }

    fn described(&self, state: &State, batch: usize) -> Value {
        let done = self.done.load(Ordering::SeqCst);
        let (file, mark) = &state.batches[batch];
        json!({
            "id": format!("batch-{batch}"),
            "status": if done { "completed" } else { "in_progress" },
            "output_file_id": if done { json!(format!("out-{batch}")) } else { Value::Null },
            "error_file_id": if done { json!(format!("err-{batch}")) } else { Value::Null },
            "metadata": { "everbench": mark },
            "processing_status": if done { "ended" } else { "in_progress" },
            "created_at": "2999-01-01T00:00:00Z",
            "request_counts": { "processing": state.files[*file].len() },
        })
    }

    /// The results, the last request first; successes and failures apart, where the API has them so.
    fn lines(&self, state: &State, batch: usize, successes: bool) -> Say {
        let mut out = String::new();
        let model = self.model.lock().unwrap().clone();
        for (name, body) in state.files[state.batches[batch].0].iter().rev() {
            let anthropic =
                body.get("max_tokens").is_some() && body["messages"][0]["role"] == "user";
            let fate = (self.fate)(batch, body);
            let line = match (fate, anthropic) {
                (Fate::Missing, _) => continue,
                (Fate::Text(text), true) => json!({ "custom_id": name, "result": {
                    "type": "succeeded",
                    "message": {
                        "id": "msg", "type": "message", "role": "assistant", "model": model,
                        "content": [{ "type": "text", "text": text }],
                        "stop_reason": "end_turn",
                        "usage": { "input_tokens": 100, "output_tokens": 20 },
                    },
                }}),
                (Fate::Expired, true) => {
                    json!({ "custom_id": name, "result": { "type": "expired" } })
                }
                (Fate::Status(_), true) => json!({ "custom_id": name, "result": {
                    "type": "errored",
                    "error": { "type": "error", "error": { "type": "invalid_request_error", "message": "no" } },
                }}),
                (Fate::Text(text), false) if successes => json!({ "custom_id": name,
                    "response": { "status_code": 200, "body": chat(&model, &text) }, "error": null }),
                (Fate::Status(status), false) if !successes => json!({ "custom_id": name,
                    "response": { "status_code": status, "body": { "error": { "message": "no" } } }, "error": null }),
                (Fate::Expired, false) if !successes => json!({ "custom_id": name,
                    "response": null, "error": { "code": "batch_expired", "message": "too late" } }),
                _ => continue,
            };
            out.push_str(&format!("{line}\n"));
        }
        Say::Reply(
            200,
            vec![("content-type", "application/octet-stream".into())],
            out.into_bytes(),
        )
    }
}

fn number(id: &str) -> usize {
    id.rsplit('-').next().unwrap().parse().unwrap()
}
