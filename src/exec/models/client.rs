//! One request over HTTP: sent once, its reply read whole within limits of size and time. Nothing is
//! tried again here, and no redirection is followed: a key must not go to another host.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};

use super::secret::Secret;
use crate::ask::wire::{Fault, Headers};

/// No reply is longer.
const MAX_BYTES: usize = 32 << 20;

/// How long is waited for a server, in its several ways to be late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Until there is a connection.
    pub connect: Duration,
    /// Between two pieces of a reply, once it has begun.
    pub idle: Duration,
    /// From the beginning of the request to the end of the reply.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(20),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(600),
        }
    }
}

/// A reply as it came.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

/// Why there is none. The texts hold no key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum SendError {
    /// Nobody is there.
    #[error("cannot reach {host}: {said}")]
    Unreachable { host: String, said: String },
    /// The connection broke.
    #[error("the connection to {host} broke: {said}")]
    Broken { host: String, said: String },
    /// Too late.
    #[error("{host} took longer than {seconds} s {what}")]
    TimedOut {
        host: String,
        seconds: u64,
        what: &'static str,
    },
    /// Too much.
    #[error("{host} sent more than {} MiB", MAX_BYTES >> 20)]
    TooLarge { host: String },
    /// It cannot be sent at all.
    #[error("no request can be made: {0}")]
    Request(String),
}

/// A client for one provider: its connections are kept and shared by all its models.
///
/// # Errors
/// What keeps a client from being made, for people.
pub(super) fn client(base: &Url, timeouts: &Timeouts) -> Result<Client, String> {
    // Two versions of one library may each bring a way to encrypt: this says which. An error
    // means that it was said before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("everbench/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(timeouts.connect)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(4096);
    // This machine is not reached by way of another.
    if is_here(base) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|e| chain(&e))
}

/// Whether an address is on this machine.
pub(super) fn is_here(url: &Url) -> bool {
    match url.host_str().unwrap_or_default() {
        "localhost" | "[::1]" => true,
        host => host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback()),
    }
}

/// Where requests of a model go.
pub(super) struct Address {
    pub(super) client: Client,
    /// Without a slash at its end.
    pub(super) base: Url,
    /// Headers whose values are secrets.
    pub(super) secrets: Vec<(HeaderName, &'static str, Secret)>,
    pub(super) timeouts: Timeouts,
    /// The path that was asked for first, which is that of most requests, and where it leads.
    pub(super) usual: OnceLock<(String, Url)>,
}

impl Address {
    /// Sends a body to a path below the base.
    pub(super) async fn post(
        &self,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Answer, SendError> {
        let request = self.client.post(self.url(path)?).body(body);
        self.send(request, headers).await
    }

    /// Asks for what is under a path below the base.
    pub(super) async fn get(
        &self,
        path: &str,
        headers: &[(String, String)],
    ) -> Result<Answer, SendError> {
        self.send(self.client.get(self.url(path)?), headers).await
    }

    fn url(&self, path: &str) -> Result<Url, SendError> {
        if let Some((usual, url)) = self.usual.get()
            && usual == path
        {
            return Ok(url.clone());
        }
        let text = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let url = Url::parse(&text).map_err(|e| SendError::Request(format!("{text}: {e}")))?;
        // Whatever a server calls the place of a thing, the key goes to nobody else.
        if url.origin() != self.base.origin() {
            return Err(SendError::Request(format!(
                "{} is not at {}",
                url, self.base
            )));
        }
        let _ = self.usual.set((path.to_string(), url.clone()));
        Ok(url)
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        headers: &[(String, String)],
    ) -> Result<Answer, SendError> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let bad = || SendError::Request(format!("header `{name}` cannot be sent"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            all.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
        }
        for (name, prefix, secret) in &self.secrets {
            all.insert(name.clone(), secret.header(prefix));
        }
        let whole = self.exchange(request.headers(all));
        match tokio::time::timeout(self.timeouts.total, whole).await {
            Ok(result) => result,
            Err(_) => Err(self.late(self.timeouts.total, "to answer")),
        }
    }

    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<Answer, SendError> {
        let mut response = request.send().await.map_err(|e| self.error(e))?;
        if response
            .content_length()
            .is_some_and(|n| n > MAX_BYTES as u64)
        {
            return Err(SendError::TooLarge { host: self.host() });
        }
        let mut body = Vec::new();
        loop {
            let piece = tokio::time::timeout(self.timeouts.idle, response.chunk());
            match piece.await {
                Err(_) => return Err(self.late(self.timeouts.idle, "between two pieces")),
                Ok(Err(e)) => return Err(self.error(e)),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(bytes))) if body.len() + bytes.len() > MAX_BYTES => {
                    return Err(SendError::TooLarge { host: self.host() });
                }
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            }
        }
        Ok(Answer {
            status: response.status().as_u16(),
            headers: headers_of(&response),
            body,
        })
    }

    pub(super) fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        }
    }

    fn late(&self, limit: Duration, what: &'static str) -> SendError {
        SendError::TimedOut {
            host: self.host(),
            seconds: limit.as_secs(),
            what,
        }
    }

    fn error(&self, e: reqwest::Error) -> SendError {
        let host = self.host();
        let connecting = e.is_connect();
        let timed_out = e.is_timeout();
        if e.is_builder() {
            return SendError::Request(self.redacted(&chain(&e.without_url())));
        }
        if timed_out && connecting {
            return self.late(self.timeouts.connect, "to take a connection");
        }
        // An address in an error can hold what nobody should see.
        let said = self.redacted(&chain(&e.without_url()));
        match connecting {
            true => SendError::Unreachable { host, said },
            false => SendError::Broken { host, said },
        }
    }

    /// A text without the secrets.
    pub(super) fn redacted(&self, text: &str) -> String {
        let mut text = text.to_string();
        for (_, _, secret) in &self.secrets {
            text = secret.redacted(&text);
        }
        text
    }

    /// Takes the secrets out of what a provider said.
    pub(super) fn redact(&self, fault: &mut Fault) {
        for (_, _, secret) in &self.secrets {
            secret.redact(fault);
        }
    }
}

fn headers_of(response: &Response) -> Headers {
    let all = response.headers().iter();
    Headers::of(all.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))))
}

/// An error with its causes, in one line.
fn chain(e: &dyn std::error::Error) -> String {
    let mut said = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        let text = e.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        cause = e.source();
    }
    said
}
