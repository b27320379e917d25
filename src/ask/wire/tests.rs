//! What is sent byte for byte, and what is made of what comes.

use super::*;
use crate::ask::{Sampling, Stop};

fn request() -> Request {
    Request {
        system: "You improve C.".into(),
        user: "int f(void) { return \"é\"[0]; }\n".into(),
        model: "openai/m@1".into(),
        sampling: Sampling::default(),
        sample: 0,
    }
}

fn body(shape: &Shape, request: &Request) -> String {
    String::from_utf8(encode(shape, request).body).unwrap()
}

fn json() -> Headers {
    Headers::of([("Content-Type", "application/json; charset=utf-8")])
}

#[test]
fn a_request_is_these_bytes() {
    let wire = encode(&Shape::new(Api::OpenaiChat, "m"), &request());
    assert_eq!(wire.path, "/chat/completions");
    assert_eq!(
        String::from_utf8(wire.body).unwrap(),
        r#"{"model":"m","messages":[{"role":"system","content":"You improve C."},{"role":"user","content":"int f(void) { return \"é\"[0]; }\n"}],"temperature":0,"seed":0,"max_tokens":4096}"#
    );
    assert!(wire.omitted.is_empty());
}

#[test]
fn a_default_that_is_lacking_is_left_out_and_told() {
    let wire = encode(&Shape::new(Api::Anthropic, "m"), &request());
    assert_eq!(wire.omitted, ["seed"]);
    assert!(!String::from_utf8(wire.body).unwrap().contains("seed"));
}

#[test]
fn draws_have_seeds_of_their_own() {
    let shape = Shape::new(Api::OpenaiChat, "m");
    let second = Request {
        sample: 2,
        ..request()
    };
    assert!(body(&shape, &second).contains(r#""seed":2"#));
}

#[test]
fn a_chat_completion_is_read() {
    let reply = decode(
        Api::OpenaiChat,
        200,
        &json(),
        br#"{"model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#,
    )
    .unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("x", Stop::Length));
    assert_eq!(reply.served_model.as_deref(), Some("m-1"));
    assert_eq!(reply.fingerprint.as_deref(), Some("fp"));
    assert_eq!(reply.usage.unwrap().cached_input_tokens, Some(4));
}
