//! Measures the client for models against a bare loop of requests, and what a kill costs.
//! `tools/bench-client` runs it. Server, client and loop are processes of their own, which this
//! program starts from itself; each measures itself.
#![allow(clippy::print_stdout, reason = "a tool that prints what it measures")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everbench::ask::wire::{Api, Shape};
use everbench::ask::{COMPLETION, Request, Sampling};
use everbench::cancel::Cancel;
use everbench::engine::{Db, Driver, EngineDb, Hold, Registry};
use everbench::exec::models::{Model, Models, Notes, Patience, Timeouts};
use everbench::job::Job;
use everbench::store::{Access, Store, StoreLedger};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUESTS: usize = 10_000;
const AT_ONCE: usize = 500;
const LATENCY: Duration = Duration::from_millis(20);
const ROUNDS: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => serve(),
        ["bare", url] => bare(url),
        ["ask", url, store] => ask(url, Path::new(store)),
        [] => measure(),
        _ => panic!("this program takes no arguments"),
    }
}

fn measure() {
    let scratch = tempfile::tempdir().expect("a folder");
    let server = Process::start(&["serve"]);
    let url = server.line();
    let mut rates = (Vec::new(), Vec::new());
    let mut memory = 0.0f64;
    println!("round  bare requests/s  ours requests/s  ratio");
    for round in 0..ROUNDS {
        let reference = Process::start(&["bare", &url]).document();
        let store = scratch.path().join(format!("store-{round}"));
        let ours = Process::start(&["ask", &url, &store.display().to_string()]).document();
        assert_eq!(ours["stored"], REQUESTS);
        let rate = |document: &Value| REQUESTS as f64 / document["seconds"].as_f64().unwrap();
        let (bare, own) = (rate(&reference), rate(&ours));
        println!("{round:>5}  {bare:>15.0}  {own:>15.0}  {:>5.2}", own / bare);
        memory = memory.max(ours["peak_mib"].as_f64().unwrap());
        rates.0.push(bare);
        rates.1.push(own);
    }
    let (bare, ours) = (median(rates.0), median(rates.1));
    println!("peak resident memory of ours: {memory:.0} MiB");
    let killed = kill_half_way(&server, &url, &scratch.path().join("store-killed"));
    println!(
        "killed after {} answers: {} of {REQUESTS} stored in the end, {} asked twice ({} were under way or arrived within the last second)",
        killed.answered, killed.stored, killed.twice, killed.excused
    );
    let measure = |name: &str, ours: f64, reference: f64, unit: &str, goal: f64, met: bool| {
        json!({
            "name": name, "ours": ours, "reference": reference, "ratio": ours / reference,
            "unit": unit, "goal": goal, "met": met,
        })
    };
    let line = json!({ "bench": "client", "measures": [
        measure("throughput", ours, bare, "requests/s", 0.9, ours >= 0.9 * bare),
        measure("peak memory", memory, 512.0, "MiB", 1.0, memory <= 512.0),
        measure("stored after a kill", killed.stored as f64, REQUESTS as f64, "replies", 1.0,
            killed.stored == REQUESTS),
        measure("asked twice after a kill", killed.twice as f64, killed.excused as f64, "requests",
            1.0, killed.twice <= killed.excused),
    ]});
    println!("{line}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Killed {
    answered: usize,
    stored: usize,
    twice: usize,
    excused: usize,
}

/// Kills a client when half is answered, and runs it again.
fn kill_half_way(server: &Process, url: &str, store: &Path) -> Killed {
    server.say("forget");
    let args = ["ask", url, &store.display().to_string()];
    let mut first = Process::start(&args);
    let mut seen: Vec<(Instant, usize)> = Vec::new();
    let answered = loop {
        server.say("count");
        let answered: usize = server.line().parse().expect("a number");
        seen.push((Instant::now(), answered));
        if answered >= REQUESTS / 2 {
            break answered;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    first.child.kill().expect("it runs");
    first.child.wait().expect("it has ended");
    let last = Instant::now();
    let old = seen
        .iter()
        .rev()
        .find(|(at, _)| last - *at > Duration::from_secs(1));
    let arrived = answered - old.map_or(0, |(_, n)| *n);
    let again = Process::start(&args).document();
    server.say("twice");
    let twice = server.line().parse().expect("a number");
    Killed {
        answered,
        stored: again["stored"].as_u64().unwrap_or(0) as usize,
        twice,
        excused: AT_ONCE + arrived,
    }
}

/// This program in another role.
struct Process {
    child: Child,
    out: std::cell::RefCell<BufReader<std::process::ChildStdout>>,
}

impl Process {
    fn start(args: &[&str]) -> Process {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started again");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Process {
            child,
            out: out.into(),
        }
    }

    fn line(&self) -> String {
        let mut line = String::new();
        let mut out = self.out.borrow_mut();
        out.read_line(&mut line).expect("a line");
        line.trim().to_string()
    }

    fn document(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: `{line}`"))
    }

    fn say(&self, word: &str) {
        let mut pipe = self.child.stdin.as_ref().expect("a pipe");
        writeln!(pipe, "{word}").expect("it listens");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is asked: a function of some size.
fn prompt(n: usize) -> String {
    let body = "    total += step(values[i], weights[i]);\n".repeat(25);
    format!("question {n}\n```c\nint f_{n}(void)\n{{\n{body}}}\n```\n")
}

/// Counts how often each question was answered.
fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime
        .block_on(TcpListener::bind("127.0.0.1:0"))
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    println!("http://{address}/v1");
    let counts: Arc<Vec<AtomicU32>> = Arc::new((0..REQUESTS).map(|_| AtomicU32::new(0)).collect());
    let all = counts.clone();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, all.clone()));
        }
    });
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let loads = || counts.iter().map(|n| n.load(Ordering::SeqCst));
        match line.as_str() {
            "forget" => counts.iter().for_each(|n| n.store(0, Ordering::SeqCst)),
            "count" => println!("{}", loads().filter(|n| *n > 0).count()),
            "twice" => println!("{}", loads().map(|n| n.saturating_sub(1)).sum::<u32>()),
            _ => {}
        }
    }
}

async fn answer(mut stream: TcpStream, counts: Arc<Vec<AtomicU32>>) {
    let _ = stream.set_nodelay(true);
    let text = "Here it is.\n".repeat(80);
    let mut buffer = Vec::with_capacity(8192);
    loop {
        let end = loop {
            if let Some(end) = find(&buffer, b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read_buf(&mut buffer).await {
                Ok(n) if n > 0 => {}
                _ => return,
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
        let whole = end + length.unwrap_or(0usize);
        while buffer.len() < whole {
            match stream.read_buf(&mut buffer).await {
                Ok(n) if n > 0 => {}
                _ => return,
            }
        }
        let body = &buffer[end..whole];
        let number = find(body, b"question ").map_or(0, |at| {
            let digits = body[at + 9..].iter().take_while(|b| b.is_ascii_digit());
            digits.fold(0, |n, digit| n * 10 + usize::from(digit - b'0'))
        });
        buffer.drain(..whole);
        tokio::time::sleep(LATENCY).await;
        counts[number].fetch_add(1, Ordering::SeqCst);
        let body = json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": text } }],
            "usage": { "prompt_tokens": 400, "completion_tokens": 300, "total_tokens": 700 },
        })
        .to_string();
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|w| w == part)
}

/// Sends and reads, and does nothing with what comes.
fn bare(url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let client = reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(4096)
        .build()
        .expect("a client");
    let url = format!("{url}/chat/completions");
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (client, url, next) = (client.clone(), url.clone(), next.clone());
                tokio::spawn(async move {
                    loop {
                        let n = next.fetch_add(1, Ordering::SeqCst);
                        if n >= REQUESTS {
                            return;
                        }
                        let body = json!({ "model": "m", "max_tokens": 4096, "messages": [
                            { "role": "system", "content": "Improve the function." },
                            { "role": "user", "content": prompt(n) },
                        ]});
                        let request = client
                            .post(&url)
                            .header("content-type", "application/json")
                            .body(body.to_string());
                        let reply = request.send().await.expect("a reply");
                        let bytes = reply.bytes().await.expect("all of it");
                        assert!(!bytes.is_empty());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it ends");
        }
    });
    println!("{}", json!({ "seconds": started.elapsed().as_secs_f64() }));
}

struct Unkept;

impl Notes for Unkept {
    fn read(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn write(&self, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// Asks everything that the store lacks, as a run does.
fn ask(url: &str, dir: &Path) {
    let store = Arc::new(Store::open(dir, Access::ReadWrite, "bench").expect("a store"));
    let jobs: Vec<Job> = (0..REQUESTS)
        .map(|n| {
            let request = Request {
                system: "Improve the function.".into(),
                user: prompt(n).as_str().into(),
                model: "bench/m".into(),
                sampling: Sampling::default(),
                sample: 0,
            };
            request.to_job(COMPLETION)
        })
        .collect();
    let model = Model {
        name: "m".into(),
        revision: "bench/m".into(),
        sampling: Sampling::default(),
        shape: Shape::new(Api::OpenaiChat, "m"),
        base_url: url.into(),
        secrets: Ok(Vec::new()),
        most_in_flight: AT_ONCE,
        timeouts: Timeouts::default(),
        batches: None,
        patience: Patience::default(),
        price: None,
        max_cost: None,
        spent: 0,
    };
    let service = Models::new(vec![model], [], None, Arc::new(Unkept)).expect("a service");
    let service = Arc::new(service);
    // As of the loop: from when there is a client.
    let started = Instant::now();
    let mut registry = Registry::default();
    registry.add_service(COMPLETION, service.clone());
    let reader = store.reader().expect("a reader");
    let ledger = StoreLedger::new(store.clone(), &reader, "bench");
    let driver = Driver {
        registry: &registry,
        ledger: &ledger,
        cores: 2,
        cancel: Cancel::new(),
    };
    let mut db = EngineDb::new(Arc::new(reader));
    let driven = driver.drive(&mut db, &mut (), |db| {
        let mut hold = Hold::default();
        for job in &jobs {
            if let Err(missing) = db.demand(job) {
                hold.merge(&missing);
            }
        }
        ((), hold.settle())
    });
    let driven = driven.unwrap_or_else(|e| panic!("{e}"));
    assert!(driven.hold.is_empty(), "{:?}", driven.failures.first());
    let seconds = started.elapsed().as_secs_f64();
    let reader = store.reader().expect("a reader");
    let stored = reader
        .actions(Some(COMPLETION.name))
        .expect("a list")
        .count();
    println!(
        "{}",
        json!({ "seconds": seconds, "stored": stored, "peak_mib": peak_mib() })
    );
}

/// The most memory that this process ever had, in MiB.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
