//! Why there is no reply, in the kinds that make a difference to whoever asks again.

use std::fmt;

use super::limits::RateLimits;

/// What a server did instead of answering. None of these is a result of a model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Too much was asked in too short a time; it passes by waiting.
    #[error("the provider's rate limit is reached: {message}")]
    RateLimited {
        /// What it said.
        message: String,
        /// What the headers say.
        limits: Box<RateLimits>,
    },
    /// Credit or a quota of a day or longer is used up: waiting for it is not for a run.
    #[error("the provider's quota is used up: {message}")]
    QuotaExhausted {
        /// What it said.
        message: String,
        /// What the headers say.
        limits: Box<RateLimits>,
    },
    /// The provider has too much to do.
    #[error("the provider is overloaded ({status}): {message}")]
    Overloaded {
        /// The status, or that which an error in a stream stands for.
        status: u16,
        /// What it said.
        message: String,
        /// What the headers say.
        limits: Box<RateLimits>,
    },
    /// Something broke at the provider's.
    #[error("the provider failed ({status}): {message}")]
    Server {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
        /// What the headers say.
        limits: Box<RateLimits>,
    },
    /// The provider, or a machine before it, gave up waiting.
    #[error("the provider took too long ({status}): {message}")]
    TimedOut {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The key is missing, wrong, or not good for this.
    #[error("the provider refuses the key ({status}): {message}")]
    Unauthorized {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// There is no such model, or no such address.
    #[error("the provider does not know the model or the address ({status}): {message}")]
    NotFound {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The provider cannot do what the request asks for.
    #[error("the provider refuses the request ({status}): {message}")]
    BadRequest {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The server names another address.
    #[error("the server sends us elsewhere ({status}): {}", .to.as_deref().unwrap_or("it does not say where"))]
    Redirected {
        /// The status.
        status: u16,
        /// Where.
        to: Option<String>,
    },
    /// What came is no reply of this API.
    #[error("what came is no reply: {0}")]
    Malformed(Malformed),
}

/// In what way it is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// No bytes at all.
    Empty,
    /// Bytes that are not UTF-8, or stop within a character.
    NotUtf8,
    /// Text that is not JSON, or stops within it.
    NotJson(String),
    /// A page for people.
    Html,
    /// Something that calls itself neither JSON nor a stream of events.
    ContentType(String),
    /// JSON without an answer: what is missing or wrong.
    NoAnswer(String),
    /// A success that carries an error: what that says.
    ErrorInside(String),
    /// A stream that stopped before its end: after what.
    BrokenStream(String),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Empty => f.write_str("there is nothing in it"),
            Malformed::NotUtf8 => f.write_str("it is not UTF-8, or ends within a character"),
            Malformed::NotJson(why) => write!(f, "it is not JSON, or not all of it: {why}"),
            Malformed::Html => f.write_str("it is an HTML page"),
            Malformed::ContentType(kind) => write!(f, "it calls itself `{kind}`, not JSON"),
            Malformed::NoAnswer(what) => write!(f, "there is no answer in it: {what}"),
            Malformed::ErrorInside(what) => write!(f, "it says success and holds an error: {what}"),
            Malformed::BrokenStream(what) => write!(f, "the stream ends too early: {what}"),
        }
    }
}

/// What can be done about a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Ask again after a while.
    Retry,
    /// Ask this model nothing more in this run: every request would meet the same.
    StopModel,
    /// Ask other things; this request will not be answered.
    StopRequest,
}

impl Fault {
    /// What can be done.
    pub fn remedy(&self) -> Remedy {
        match self {
            Fault::RateLimited { .. }
            | Fault::Overloaded { .. }
            | Fault::Server { .. }
            | Fault::TimedOut { .. }
            | Fault::Malformed(_) => Remedy::Retry,
            Fault::QuotaExhausted { .. }
            | Fault::Unauthorized { .. }
            | Fault::NotFound { .. }
            | Fault::Redirected { .. } => Remedy::StopModel,
            Fault::BadRequest { .. } => Remedy::StopRequest,
        }
    }

    /// The kind in one word, for logs and counts.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::RateLimited { .. } => "rate-limited",
            Fault::QuotaExhausted { .. } => "quota-exhausted",
            Fault::Overloaded { .. } => "overloaded",
            Fault::Server { .. } => "server",
            Fault::TimedOut { .. } => "timed-out",
            Fault::Unauthorized { .. } => "unauthorized",
            Fault::NotFound { .. } => "not-found",
            Fault::BadRequest { .. } => "bad-request",
            Fault::Redirected { .. } => "redirected",
            Fault::Malformed(_) => "malformed",
        }
    }

    /// Takes `secret` out of what the provider said, should it have repeated it.
    pub fn redact(&mut self, secret: &str) {
        let text = match self {
            Fault::RateLimited { message, .. }
            | Fault::QuotaExhausted { message, .. }
            | Fault::Overloaded { message, .. }
            | Fault::Server { message, .. }
            | Fault::TimedOut { message, .. }
            | Fault::Unauthorized { message, .. }
            | Fault::NotFound { message, .. }
            | Fault::BadRequest { message, .. } => message,
            Fault::Redirected { to: Some(to), .. } => to,
            Fault::Malformed(
                Malformed::NotJson(what)
                | Malformed::ContentType(what)
                | Malformed::NoAnswer(what)
                | Malformed::ErrorInside(what)
                | Malformed::BrokenStream(what),
            ) => what,
            Fault::Redirected { to: None, .. }
            | Fault::Malformed(Malformed::Empty | Malformed::NotUtf8 | Malformed::Html) => return,
        };
        if !secret.is_empty() {
            *text = text.replace(secret, "[key]");
        }
    }

    /// What the headers said, where the kind keeps it.
    pub fn limits(&self) -> Option<&RateLimits> {
        match self {
            Fault::RateLimited { limits, .. }
            | Fault::QuotaExhausted { limits, .. }
            | Fault::Overloaded { limits, .. }
            | Fault::Server { limits, .. } => Some(limits),
            _ => None,
        }
    }
}

/// A provider's words, made fit to be shown: one line, not too long.
pub(super) fn said(text: &str) -> String {
    const MOST: usize = 400;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() > MOST {
            line.extend(word.chars().take(MOST.saturating_sub(line.len())));
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    if line.is_empty() {
        line.push_str("it does not say why");
    }
    line
}
