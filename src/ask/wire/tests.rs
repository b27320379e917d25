//! What is sent, compared with what the vendors' own libraries send (`tools/capture-wire`) and byte
//! for byte with what is written down; what is made of replies, compared with what these libraries
//! make of them; and what of errors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::ask::{Sampling, Stop};

/// A request of `fixtures/wire/asks.json`, in everbench's terms.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Ask {
    api: Api,
    model: String,
    system: String,
    user: String,
    temperature: f64,
    seed: i64,
    top_p: Option<f64>,
    max_tokens: u32,
    effort: Option<String>,
    budget: Option<u32>,
    stream: bool,
    route: Option<String>,
    extra: Option<Json>,
    headers: BTreeMap<String, String>,
    without: BTreeSet<Setting>,
    max_tokens_field: MaxTokensField,
    effort_field: EffortField,
    reply: String,
}

impl Default for Ask {
    fn default() -> Self {
        Ask {
            api: Api::OpenaiChat,
            model: String::new(),
            system: "You improve C.".into(),
            user: "int f(void) { return \"é\"[0]; }\n".into(),
            temperature: 0.0,
            seed: 0,
            top_p: None,
            max_tokens: 4096,
            effort: None,
            budget: None,
            stream: false,
            route: None,
            extra: None,
            headers: BTreeMap::new(),
            without: BTreeSet::new(),
            max_tokens_field: MaxTokensField::default(),
            effort_field: EffortField::default(),
            reply: String::new(),
        }
    }
}

impl Ask {
    fn shape(&self) -> Shape {
        Shape {
            stream: self.stream,
            max_tokens: self.max_tokens_field,
            effort: self.effort_field,
            without: self.without.clone(),
            ..Shape::new(self.api, &self.model)
        }
    }

    fn request(&self) -> Request {
        let milli = |n: f64| crate::ask::request::milli(n).unwrap();
        Request {
            system: self.system.as_str().into(),
            user: self.user.as_str().into(),
            model: "p/m@1".into(),
            sampling: Sampling {
                temperature_milli: milli(self.temperature),
                seed: self.seed,
                top_p_milli: self.top_p.map(milli),
                max_tokens: self.max_tokens,
                thinking: match (&self.effort, self.budget) {
                    (Some(level), _) => Thinking::Effort(level.clone()),
                    (None, Some(n)) => Thinking::Budget(n),
                    (None, None) => Thinking::Off,
                },
                route: self.route.clone(),
                extra: self.extra.as_ref().map(Json::canonical).unwrap_or_default(),
                headers: self.headers.clone(),
            },
            sample: 0,
        }
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/wire")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap()
}

fn asks() -> BTreeMap<String, Ask> {
    serde_json::from_str(&read("asks.json")).unwrap()
}

fn captured(name: &str) -> Value {
    serde_json::from_str(&read(&format!("captured/{name}.json"))).unwrap()
}

/// Equal but for how numbers are written: 0 and 0.0 are one number.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().unwrap().to_string().into(),
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), plain(v))).collect(),
        other => other.clone(),
    }
}

fn headers_of(file: &str) -> Headers {
    Headers::of([(
        "content-type",
        match file.rsplit_once('.').unwrap().1 {
            "sse" => "text/event-stream; charset=utf-8",
            _ => "application/json",
        },
    )])
}

#[test]
fn requests_are_those_of_the_vendors_own_libraries() {
    let asks = asks();
    let apis: BTreeSet<Api> = asks.values().map(|ask| ask.api).collect();
    assert_eq!(apis.len(), Api::ALL.len(), "every API has a request");
    for (name, ask) in asks {
        let wire = encode(&ask.shape(), &ask.request());
        let captured = captured(&name);
        let theirs = &captured["request"];
        assert_eq!(theirs["method"], "POST", "{name}");
        assert_eq!(theirs["path"], wire.path, "{name}");
        let mut body = plain(&theirs["body"]);
        let mut headers: BTreeMap<String, String> =
            serde_json::from_value(theirs["headers"].clone()).unwrap();
        let mut expected_credential = ask.api.credential();
        if ask.api == Api::Ollama {
            // Its library always names its tools, and has no word for the two that keep the
            // server from shortening a question in silence.
            let fields = body.as_object_mut().unwrap();
            assert_eq!(fields.remove("tools"), Some(Value::Array(vec![])), "{name}");
            fields.insert("truncate".into(), false.into());
            fields.insert("shift".into(), false.into());
        }
        if ask.api == Api::Anthropic {
            // Keys go as the reference's own examples have them; the library writes a bearer token.
            expected_credential = Api::OpenaiChat.credential();
            if body.get("temperature").is_some() || body.get("top_p").is_some() {
                // What the library's version of the API refuses, and the one before has.
                headers.insert("anthropic-version".into(), "2023-06-01".into());
            }
        }
        let credential = headers.remove(expected_credential.header);
        let key = format!("{}KEY", expected_credential.prefix);
        assert_eq!(credential, Some(key), "{name}");
        let ours: Value = serde_json::from_slice(&wire.body).unwrap();
        assert_eq!(plain(&ours), body, "{name}");
        assert_eq!(
            wire.headers.into_iter().collect::<BTreeMap<_, _>>(),
            headers,
            "{name}"
        );
    }
}

#[test]
fn requests_are_these_bytes() {
    let mut all = String::new();
    for (name, ask) in asks() {
        let wire = encode(&ask.shape(), &ask.request());
        all.push_str(&format!("{name}: POST {}\n", wire.path));
        for (header, value) in &wire.headers {
            all.push_str(&format!("{header}: {value}\n"));
        }
        all.push_str(std::str::from_utf8(&wire.body).unwrap());
        all.push_str(&format!("\nomitted: {}\n\n", wire.omitted.join(", ")));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn replies_are_read_as_the_vendors_own_libraries_read_them() {
    for (name, ask) in asks() {
        let body = read(&format!("replies/{}", ask.reply));
        let reply = decode(ask.api, 200, &headers_of(&ask.reply), body.as_bytes()).unwrap();
        let captured = captured(&name);
        let theirs = &captured["read"];
        assert_eq!(theirs["text"], reply.text, "{name}");
        assert_eq!(theirs["model"], Value::from(reply.served_model), "{name}");
        let usage = reply.usage.unwrap();
        let count = |part: &str| theirs[part].as_u64();
        assert_eq!(count("input"), Some(usage.input_tokens), "{name}");
        assert_eq!(count("output"), Some(usage.output_tokens), "{name}");
        if theirs.get("cached").is_some() {
            assert_eq!(count("cached"), usage.cached_input_tokens, "{name}");
            assert_eq!(count("reasoning"), usage.reasoning_tokens, "{name}");
        }
        if let Some(fingerprint) = theirs.get("fingerprint") {
            assert_eq!(*fingerprint, Value::from(reply.fingerprint), "{name}");
        }
        let refused = theirs["refused"] == true;
        let expected = match theirs["reason"].as_str().unwrap() {
            _ if refused => Stop::Refusal,
            "length" | "max_tokens" | "max_output_tokens" | "MAX_TOKENS" => Stop::Length,
            "content_filter" | "refusal" => Stop::Refusal,
            "stop" | "completed" | "end_turn" | "STOP" => Stop::Complete,
            other => panic!("{name}: {other}"),
        };
        assert_eq!(reply.stop, expected, "{name}");
    }
}

/// One of `fixtures/wire/errors.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    what: String,
    api: Api,
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    text: Option<String>,
    expected: String,
}

#[test]
fn what_servers_say_instead_of_answering_is_told_apart() {
    let all: Vec<Failed> = serde_json::from_str(&read("errors.json")).unwrap();
    let mut kinds = BTreeSet::new();
    for failed in all {
        let headers = failed.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let headers = Headers::of(headers);
        let body = match (&failed.body, &failed.text) {
            (Some(body), None) => body.to_string(),
            (None, Some(text)) => text.clone(),
            _ => panic!("{}: a body or a text", failed.what),
        };
        let kind = match decode(failed.api, failed.status, &headers, body.as_bytes()) {
            Err(fault) => fault.kind(),
            Ok(reply) if reply.stop == Stop::Context => "context",
            Ok(reply) if reply.stop == Stop::Refusal => "refusal",
            Ok(_) => "an answer",
        };
        assert_eq!(kind, failed.expected, "{}", failed.what);
        kinds.insert(failed.expected);
    }
    assert_eq!(
        kinds.len(),
        12,
        "every kind of fault and both kinds of reply: {kinds:?}"
    );
}

#[test]
fn what_a_provider_says_of_waiting_comes_along() {
    let body = br#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"retryDelay":"34s"}]}}"#;
    let fault = decode(Api::Gemini, 429, &Headers::default(), body).unwrap_err();
    let wait = When::In(std::time::Duration::from_secs(34));
    assert_eq!(fault.limits().unwrap().retry_after, Some(wait));
    assert_eq!(fault.remedy(), Remedy::Retry);
}

#[test]
fn what_a_provider_repeats_of_a_key_can_be_taken_out() {
    let body = br#"{"error":{"message":"Incorrect API key provided: sk-12345."}}"#;
    let mut fault = decode(Api::OpenaiChat, 401, &Headers::default(), body).unwrap_err();
    fault.redact("sk-12345");
    assert!(!fault.to_string().contains("12345"), "{fault}");
    assert_eq!(fault.remedy(), Remedy::StopModel);
}

#[test]
fn a_stream_that_is_cut_anywhere_is_no_answer() {
    for (api, file) in [
        (Api::OpenaiChat, "openai-chat.sse"),
        (Api::Anthropic, "anthropic.sse"),
    ] {
        let text = read(&format!("replies/{file}"));
        let whole = decode(api, 200, &headers_of(file), text.as_bytes()).unwrap();
        assert_eq!(whole.text, "```c\nint f(void) { return 'é'; }\n```\n");
        let mut cut_off = 0;
        for end in 0..text.len() {
            match decode(api, 200, &headers_of(file), &text.as_bytes()[..end]) {
                // The last words may be lacking once the answer is all there and its reason given.
                Ok(reply) => {
                    assert_eq!(
                        (&reply.text, reply.stop),
                        (&whole.text, whole.stop),
                        "{file} {end}"
                    );
                }
                Err(fault) => {
                    assert!(
                        matches!(fault, Fault::Malformed(_)),
                        "{file} {end}: {fault}"
                    );
                    cut_off += 1;
                }
            }
        }
        assert!(cut_off > text.len() / 2, "{file}");
    }
}

#[test]
fn draws_have_seeds_of_their_own() {
    let request = Ask::default().request();
    let body = |sample| {
        let request = Request {
            sample,
            ..request.clone()
        };
        String::from_utf8(encode(&Shape::new(Api::OpenaiChat, "m"), &request).body).unwrap()
    };
    assert!(body(0).contains(r#""seed":0,"#));
    assert!(body(2).contains(r#""seed":2,"#));
}

fn two() -> Vec<(String, Wire)> {
    let ask = Ask {
        model: "m".into(),
        ..Ask::default()
    };
    let wire = |api| encode(&Shape::new(api, "m"), &ask.request());
    ["k1", "k2"]
        .map(|k| (k.to_string(), wire(Api::OpenaiChat)))
        .into()
}

/// The parts of a multipart body: name, file name, text.
fn parts(call: &batch::Call) -> Vec<(String, Option<String>, String)> {
    let kind = &call.headers[0].1;
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let text = std::str::from_utf8(&call.body).unwrap();
    let text = text.strip_suffix(&format!("--{boundary}--\r\n")).unwrap();
    let between = |head: &str, name: &str| {
        let from = head.find(&format!(" {name}=\""))? + name.len() + 3;
        let to = head[from..].find('"')?;
        Some(head[from..from + to].to_string())
    };
    let mark = format!("--{boundary}\r\n");
    text.split(mark.as_str())
        .skip(1)
        .map(|part| {
            let (head, text) = part.split_once("\r\n\r\n").unwrap();
            let text = text.strip_suffix("\r\n").unwrap().to_string();
            (
                between(head, "name").unwrap(),
                between(head, "filename"),
                text,
            )
        })
        .collect()
}

#[test]
fn batches_of_openai_are_those_of_its_own_library() {
    let captured = captured("openai-batch");
    let theirs = captured["requests"].as_array().unwrap();
    let requests = two();
    let lines = batch::lines(&requests);
    for (line, (name, wire)) in lines.lines().zip(&requests) {
        let line: Value = serde_json::from_str(line).unwrap();
        let body: Value = serde_json::from_slice(&wire.body).unwrap();
        let expected = serde_json::json!({
            "custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body,
        });
        assert_eq!(line, expected);
    }
    let upload = batch::upload(&lines);
    assert_eq!(theirs[0]["path"], upload.path);
    let mut ours = parts(&upload);
    ours.sort();
    let names = |i: usize| {
        (
            &theirs[0]["parts"][i]["name"],
            &theirs[0]["parts"][i]["file"],
        )
    };
    assert_eq!(names(0), (&"file".into(), &"batch.jsonl".into()));
    assert_eq!(ours[0], ("file".into(), Some("batch.jsonl".into()), lines));
    assert_eq!(names(1), (&"purpose".into(), &Value::Null));
    assert_eq!(ours[1], ("purpose".into(), None, "batch".into()));

    let json = headers_of("x.json");
    let reply = |file: &str| read(&format!("replies/{file}")).into_bytes();
    let file = batch::read_upload(200, &json, &reply("openai-file.json")).unwrap();
    assert_eq!(captured["read"]["file"], file);
    let submit = batch::submit(Api::OpenaiChat, &requests, &file, "b1");
    assert_eq!(theirs[1]["path"], submit.path);
    let body: Value = serde_json::from_slice(&submit.body).unwrap();
    assert_eq!(theirs[1]["body"], body);
    let read_batch = |file| batch::read_batch(Api::OpenaiChat, 200, &json, &reply(file)).unwrap();
    let first = read_batch("openai-batch.json");
    assert_eq!(captured["read"]["batch"], first.id);
    assert_eq!(first.state, batch::State::Running { done: 0 });
    assert_eq!(
        theirs[2]["path"],
        batch::look(Api::OpenaiChat, &first.id).path
    );
    let results = ["/files/file-2/content", "/files/file-3/content"].map(String::from);
    let last = read_batch("openai-batch-done.json").state;
    assert_eq!(
        last,
        batch::State::Ended {
            results: results.clone().into()
        }
    );
    let fetch = batch::fetch(Api::OpenaiChat, &results[0]);
    assert_eq!(
        (&theirs[3]["path"], fetch.post),
        (&fetch.path.as_str().into(), false)
    );
}

#[test]
fn batches_of_anthropic_are_those_of_its_own_library() {
    let captured = captured("anthropic-batch");
    let theirs = captured["requests"].as_array().unwrap();
    let request = Request {
        system: "".into(),
        user: "x".into(),
        sampling: Sampling {
            max_tokens: 9,
            ..Sampling::default()
        },
        ..Ask::default().request()
    };
    let mut shape = Shape::new(Api::Anthropic, "m");
    shape.without.insert(Setting::Temperature);
    let requests: Vec<(String, Wire)> = ["k1", "k2"]
        .map(|k| (k.to_string(), encode(&shape, &request)))
        .into();
    let submit = batch::submit(Api::Anthropic, &requests, "", "");
    let body: Value = serde_json::from_slice(&submit.body).unwrap();
    assert_eq!(
        (&theirs[0]["path"], &theirs[0]["body"]),
        (&submit.path.into(), &body)
    );
    let version = |headers: &[(String, String)]| {
        let found = headers.iter().find(|(n, _)| n == "anthropic-version");
        Value::from(found.map(|(_, v)| v.clone()))
    };
    assert_eq!(
        theirs[0]["headers"]["anthropic-version"],
        version(&submit.headers)
    );
    let json = headers_of("x.json");
    let state = |file: &str| {
        let body = read(&format!("replies/{file}"));
        batch::read_batch(Api::Anthropic, 200, &json, body.as_bytes()).unwrap()
    };
    let first = state("anthropic-batch.json");
    let look = batch::look(Api::Anthropic, &first.id);
    assert_eq!(theirs[1]["path"], look.path);
    assert_eq!(
        theirs[1]["headers"]["anthropic-version"],
        version(&look.headers)
    );
    let batch::State::Ended { results } = state("anthropic-batch-done.json").state else {
        panic!("it has ended")
    };
    assert_eq!(
        theirs[2]["path"],
        batch::fetch(Api::Anthropic, &results[0]).path
    );
}

#[test]
fn results_of_batches_come_in_any_order_and_each_for_itself() {
    for (api, file) in [
        (Api::OpenaiChat, "openai-batch-results.jsonl"),
        (Api::Anthropic, "anthropic-batch-results.jsonl"),
    ] {
        let text = read(&format!("replies/{file}"));
        let results = batch::read_results(api, 200, &Headers::default(), text.as_bytes()).unwrap();
        let of = |name: &str| &results.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(of("k2").as_ref().unwrap().text, "two", "{file}");
        assert_eq!(of("k1").as_ref().unwrap().stop, Stop::Context, "{file}");
        assert_eq!(
            of("k3").as_ref().unwrap_err().remedy(),
            Remedy::Retry,
            "{file}"
        );
        // Half a file is none.
        let half = &text.as_bytes()[..text.len() - 10];
        assert!(batch::read_results(api, 200, &Headers::default(), half).is_err());
    }
}

proptest! {
    #[test]
    fn nothing_that_comes_makes_the_reader_panic(
        status in prop_oneof![Just(200u16), 100u16..600],
        body in proptest::collection::vec(any::<u8>(), 0..200),
        stream in any::<bool>(),
    ) {
        let kind = if stream { "text/event-stream" } else { "application/json" };
        for api in Api::ALL {
            let _ = decode(api, status, &Headers::of([("content-type", kind)]), &body);
            let _ = batch::read_results(api, status, &Headers::default(), &body);
        }
    }
}
