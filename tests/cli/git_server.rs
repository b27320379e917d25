//! Git repositories over HTTP on loopback: by git's own CGI program, which gives single commits, or as
//! plain files, of which only a whole repository can be fetched.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// What is served, and what was asked for.
pub struct GitServer {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl GitServer {
    /// Serves the repositories below `root` until the process ends; with `smart` by git's program.
    pub fn start(root: &Path, smart: bool) -> GitServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, root) = (asked.clone(), root.to_path_buf());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, root) = (log.clone(), root.clone());
                std::thread::spawn(move || answer(stream, &root, smart, &log));
            }
        });
        GitServer { address, asked }
    }

    /// Such as `http://127.0.0.1:1234`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The paths that were asked for so far, with their queries.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request, one answer.
fn answer(mut stream: TcpStream, root: &Path, smart: bool, log: &Mutex<Vec<String>>) {
    let mut read = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    read.read_line(&mut line).unwrap();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (method, path) = (method.to_string(), path.to_string());
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        line.clear();
        read.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_string())),
            None => break,
        }
    }
    log.lock().unwrap().push(path.clone());
    let header = |name: &str| {
        let found = headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    read.read_exact(&mut body).unwrap();
    let (file, query) = path.split_once('?').unwrap_or((&path, ""));
    let answer = match smart {
        false => plain(&root.join(file.trim_start_matches('/'))),
        true => {
            let mut backend = Command::new("git");
            backend
                .arg("http-backend")
                .env("GIT_PROJECT_ROOT", root)
                .env("GIT_HTTP_EXPORT_ALL", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("REQUEST_METHOD", method)
                .env("PATH_INFO", file)
                .env("QUERY_STRING", query)
                .env("CONTENT_TYPE", header("content-type"))
                .env("CONTENT_LENGTH", body.len().to_string())
                .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
                .env("GIT_PROTOCOL", header("git-protocol"));
            by(backend, &body)
        }
    };
    // Who has read enough may have gone.
    let _ = stream.write_all(&answer);
}

fn plain(file: &PathBuf) -> Vec<u8> {
    let (status, bytes) = match fs::read(file) {
        Ok(bytes) => ("200 OK", bytes),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = bytes.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.into_bytes(), bytes].concat()
}

/// What a CGI program says.
fn by(mut program: Command, body: &[u8]) -> Vec<u8> {
    let mut child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let said = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(body));
        child.wait_with_output().unwrap().stdout
    });
    // Its headers may name a status; whatever it is, git looks at the first line.
    let head = String::from_utf8_lossy(&said[..said.len().min(1000)]);
    let status = head.lines().find_map(|l| l.strip_prefix("Status: "));
    let first = format!(
        "HTTP/1.1 {}\r\nConnection: close\r\n",
        status.unwrap_or("200 OK")
    );
    [first.into_bytes(), said].concat()
}
