//! A web server on loopback that serves what a test gives it, and counts nothing else.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Path -> status, content type, body.
pub type Pages = BTreeMap<String, (u16, &'static str, Vec<u8>)>;

/// Serves `pages` until the process ends; gives the address, as in `http://127.0.0.1:1234`.
pub fn serve(pages: Pages) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let Ok(copy) = stream.try_clone() else {
                continue;
            };
            let mut lines = BufReader::new(copy).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            let path = first.split(' ').nth(1).unwrap_or_default().to_string();
            // The rest of the request, up to the empty line.
            while lines.next().is_some_and(|l| !l.is_empty()) {}
            let none = (404, "text/plain", b"none".to_vec());
            let (status, kind, body) = pages.get(&path).unwrap_or(&none);
            // A status of 0 stands for a connection that breaks in the middle.
            let (status, length) = match status {
                0 => (200, body.len() + 10),
                status => (*status, body.len()),
            };
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body);
        }
    });
    address
}
