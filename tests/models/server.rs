//! A server that speaks just enough HTTP to answer, and to fail in every way that servers fail in.
//! It writes bytes itself: half a reply or a reply too many is nothing that a library for servers
//! would send. Listens on this machine only, on a port that is free.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// How many came before it.
    pub nth: usize,
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub at: Instant,
    /// How many others were being answered when it came.
    pub beside: usize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// What the user says in a chat.
    pub fn prompt(&self) -> String {
        let body = self.json();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().map(|m| m["content"].clone());
        match last {
            Some(Value::String(text)) => text,
            _ => String::new(),
        }
    }
}

/// What the server does.
#[derive(Clone, Debug)]
pub enum Say {
    /// A whole reply: status, further headers, body.
    Reply(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// The same, after a while.
    After(Duration, Box<Say>),
    /// These bytes as they are; then the connection is closed.
    Bytes(Vec<u8>),
    /// These pieces with so long before each; then the connection is closed.
    Drip(Duration, Vec<Vec<u8>>),
    /// Two replies to one request.
    Twice(Box<Say>),
    /// Nothing, until the client has enough.
    Nothing,
}

impl Say {
    /// A reply in JSON.
    pub fn json(status: u16, body: &Value) -> Say {
        Say::Reply(
            status,
            vec![("content-type", "application/json".into())],
            body.to_string().into_bytes(),
        )
    }

    /// An error as most providers give it.
    pub fn error(status: u16, message: &str) -> Say {
        Say::json(status, &json!({ "error": { "message": message } }))
    }

    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Say {
        match self {
            Say::Reply(status, mut headers, body) => {
                headers.retain(|(n, _)| *n != name);
                headers.push((name, value.into()));
                Say::Reply(status, headers, body)
            }
            other => panic!("{other:?} has no headers"),
        }
    }

    /// The bytes of a whole reply.
    pub fn bytes(&self) -> Vec<u8> {
        let Say::Reply(status, headers, body) = self else {
            panic!("{self:?} is no whole reply");
        };
        let mut out = format!(
            "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        out.extend_from_slice(body);
        out
    }
}

/// A chat completion by `model`.
pub fn chat(model: &str, text: &str) -> Value {
    json!({
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": text },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 },
    })
}

/// A chat completion as a whole reply.
pub fn answer(text: &str) -> Say {
    Say::json(200, &chat("m", text))
}

type Handler = dyn Fn(&Asked) -> Say + Send + Sync;

struct Shared {
    handler: Box<Handler>,
    asked: Mutex<Vec<Asked>>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

/// A running server. It ends when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    /// Starts a server that does what `handler` says.
    pub fn start(handler: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Server {
        Server::at("127.0.0.1:0".parse().unwrap(), handler)
    }

    /// The same, at an address.
    pub fn at(
        address: SocketAddr,
        handler: impl Fn(&Asked) -> Say + Send + Sync + 'static,
    ) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            asked: Mutex::default(),
            under_way: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let address = listener.local_addr().unwrap();
        let all = shared.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, all.clone()));
            }
        });
        Server {
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    /// The base of an API like OpenAI's.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Everything that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub fn requests(&self) -> usize {
        self.shared.asked.lock().unwrap().len()
    }

    /// The most requests that were being answered at once.
    pub fn most_at_once(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some(mut asked) = read(&mut stream, &mut buffer).await {
        asked.beside = shared.under_way.fetch_add(1, Ordering::SeqCst);
        shared.most.fetch_max(asked.beside + 1, Ordering::SeqCst);
        {
            let mut all = shared.asked.lock().unwrap();
            asked.nth = all.len();
            all.push(asked.clone());
        }
        let say = (shared.handler)(&asked);
        let open = say_it(&mut stream, &say).await;
        shared.under_way.fetch_sub(1, Ordering::SeqCst);
        if !open {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// Whether the connection stays open.
async fn say_it(stream: &mut TcpStream, say: &Say) -> bool {
    let mut say = say;
    while let Say::After(wait, then) = say {
        tokio::time::sleep(*wait).await;
        say = then;
    }
    match say {
        Say::Reply(..) => stream.write_all(&say.bytes()).await.is_ok(),
        Say::Twice(one) => {
            let bytes = [one.bytes(), one.bytes()].concat();
            stream.write_all(&bytes).await.is_ok()
        }
        Say::Bytes(bytes) => {
            let _ = stream.write_all(bytes).await;
            false
        }
        Say::Drip(wait, pieces) => {
            for piece in pieces {
                tokio::time::sleep(*wait).await;
                if stream.write_all(piece).await.is_err() {
                    break;
                }
            }
            false
        }
        Say::Nothing => {
            let mut rest = [0; 64];
            while matches!(stream.read(&mut rest).await, Ok(n) if n > 0) {}
            false
        }
        Say::After(..) => unreachable!("the wait is over"),
    }
}

/// The next request; nothing when the client has gone.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_string(), first.next()?.to_string());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, n)| n.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Some(Asked {
        nth: 0,
        method,
        path,
        headers,
        body,
        at: Instant::now(),
        beside: 0,
    })
}
