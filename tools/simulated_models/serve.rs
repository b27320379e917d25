//! Simulated models behind HTTP, as servers of models speak it: completions and chat completions,
//! without log-probabilities. Listens on this machine only.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::answers::{Mind, Question};
use crate::memory::pieces;

/// Models by the names under which they are asked.
pub type Minds = BTreeMap<String, Arc<Mind>>;

/// Serves on a port that is free, and gives its address; ends with the process.
pub fn serve(minds: Minds) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let minds = Arc::new(minds);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let minds = minds.clone();
            std::thread::spawn(move || converse(stream, &minds));
        }
    });
    Ok(address)
}

/// Answers requests on one connection until it is closed.
fn converse(stream: TcpStream, minds: &Minds) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (path, body) = request(&mut reader)?;
        let (status, answer) = respond(&path, &body, minds);
        let body = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all(head.as_bytes()).ok()?;
        writer.write_all(body.as_bytes()).ok()?;
    }
}

/// The longest body that is read.
const BODY: usize = 1 << 20;

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let path = line.split(' ').nth(1)?.to_string();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok().filter(|n| *n <= BODY)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn respond(path: &str, body: &[u8], minds: &Minds) -> (&'static str, Value) {
    let fault = |status, what: &str| (status, json!({ "error": { "message": what } }));
    if path.ends_with("/models") {
        let names = minds
            .keys()
            .map(|name| json!({ "id": name, "object": "model" }));
        let list: Vec<Value> = names.collect();
        return ("200 OK", json!({ "object": "list", "data": list }));
    }
    let Ok(asked) = serde_json::from_slice::<Value>(body) else {
        return fault("400 Bad Request", "the body is no JSON");
    };
    let name = asked["model"].as_str().unwrap_or_default();
    let Some(mind) = minds.get(name) else {
        return fault("404 Not Found", "there is no such model");
    };
    let chat = path.ends_with("/chat/completions");
    let text = match chat {
        true => asked["messages"]
            .as_array()
            .and_then(|messages| messages.last()?["content"].as_str()),
        false => asked["prompt"].as_str(),
    };
    let Some(text) = text.filter(|_| chat || path.ends_with("/completions")) else {
        return fault(
            "404 Not Found",
            "completions and chat completions are served",
        );
    };
    let question = Question {
        text,
        chat,
        max_tokens: asked["max_tokens"].as_u64().unwrap_or(16) as usize,
        temperature: asked["temperature"].as_f64().unwrap_or(0.0),
        seed: asked["seed"].as_u64().unwrap_or(0),
    };
    let answer = mind.answer(&question);
    let reason = if answer.cut { "length" } else { "stop" };
    let tokens = (pieces(text).count(), pieces(&answer.text).count());
    let choice = match chat {
        true => json!({ "index": 0, "finish_reason": reason,
            "message": { "role": "assistant", "content": answer.text } }),
        false => json!({ "index": 0, "finish_reason": reason, "text": answer.text }),
    };
    let document = json!({
        "id": "simulated", "model": name, "choices": [choice],
        "usage": { "prompt_tokens": tokens.0, "completion_tokens": tokens.1 },
    });
    ("200 OK", document)
}
