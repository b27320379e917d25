//! Fetching one file over HTTP, whole, into memory, with a limit. Tells what may be different next
//! time (no network, a server in trouble) from what will not (no such file).

use std::io::Read;
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use sha2::{Digest as _, Sha256};

/// The largest file that is fetched.
pub const MAX_BYTES: u64 = 1 << 30;

/// Why a file could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// Nobody answered, or not to the end.
    #[error("cannot fetch {url}: {said}; try again when the network or the server is back")]
    Network {
        /// What was asked for.
        url: String,
        /// Why.
        said: String,
    },
    /// The server says no.
    #[error(
        "cannot fetch {url}: the server answers {status}; check the URL and what is still served"
    )]
    Status {
        /// What was asked for.
        url: String,
        /// The status line.
        status: String,
    },
    /// More than the limit.
    #[error("{url} is larger than {MAX_BYTES} bytes; is it the right file?")]
    TooLarge {
        /// What was asked for.
        url: String,
    },
    /// Not a URL, or no client can be made.
    #[error("cannot fetch {url}: {said}")]
    Request {
        /// What was asked for.
        url: String,
        /// Why.
        said: String,
    },
}

impl DownloadError {
    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, DownloadError::Network { .. })
    }

    /// Whether the server does not have it.
    pub fn is_absent(&self) -> bool {
        let gone = |s: &str| s.starts_with("404") || s.starts_with("410");
        matches!(self, DownloadError::Status { status, .. } if gone(status))
    }
}

/// What was fetched.
pub struct Fetched {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What the server says they are.
    pub content_type: String,
    /// Where they came from in the end, after redirections: what relative links start at.
    pub url: reqwest::Url,
}

/// Fetches `url`; `accept` lists the content types that are understood.
pub fn get(url: &str, accept: &str) -> Result<Fetched, DownloadError> {
    // Two versions of one library may each bring a way to encrypt: this says which. An error
    // means that it was said before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = |e: reqwest::Error| DownloadError::Request {
        url: url.to_string(),
        said: chain(&e),
    };
    let client = Client::builder()
        .user_agent(concat!("everbench/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(30))
        .timeout(Duration::from_secs(900))
        .build()
        .map_err(request)?;
    let answer = client.get(url).header(ACCEPT, accept).send();
    let answer = answer.map_err(|e| {
        if e.is_builder() || e.is_redirect() {
            request(e)
        } else {
            network(url, &e)
        }
    })?;
    check(url, &answer)?;
    let content_type = answer.headers().get(CONTENT_TYPE);
    let content_type = content_type
        .and_then(|t| t.to_str().ok())
        .unwrap_or_default()
        .to_string();
    let landed = answer.url().clone();
    let expected = answer.content_length();
    let mut bytes = Vec::new();
    let read = answer.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    if let Err(e) = read {
        return Err(network(url, &e));
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(DownloadError::TooLarge {
            url: url.to_string(),
        });
    }
    if expected.is_some_and(|n| n != bytes.len() as u64) {
        return Err(DownloadError::Network {
            url: url.to_string(),
            said: "the connection ended early".into(),
        });
    }
    Ok(Fetched {
        bytes,
        content_type,
        url: landed,
    })
}

fn check(url: &str, answer: &Response) -> Result<(), DownloadError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let url = url.to_string();
    if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
        return Err(DownloadError::Network {
            url,
            said: format!("the server answers {status}"),
        });
    }
    Err(DownloadError::Status {
        url,
        status: status.to_string(),
    })
}

fn network(url: &str, error: &dyn std::error::Error) -> DownloadError {
    DownloadError::Network {
        url: url.to_string(),
        said: chain(error),
    }
}

/// An error with its causes; the outermost says only that something was wrong.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// SHA-256 as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    super::hex(&Sha256::digest(bytes))
}
