//! What servers say instead of answering, told apart. Providers agree on little: status, a code or
//! type in one of several places, and a sentence. Where only the sentence tells, it is read.

use serde_json::Value;

use super::fault::{Fault, Malformed, said};
use super::limits::{RateLimits, duration};
use super::{Headers, When};
use crate::ask::{Reply, Stop};

/// An error's parts, wherever its provider puts them.
struct Words {
    /// Code, type and status names, in lower case, with blanks between.
    codes: String,
    /// A code that is an HTTP status.
    status: Option<u16>,
    /// The sentence.
    message: String,
    /// When to come back, if the body says so.
    retry: Option<When>,
}

/// A reply of another status than success.
pub(super) fn refused(status: u16, headers: &Headers, body: &[u8]) -> Result<Reply, Fault> {
    let text = String::from_utf8_lossy(body);
    let words = match serde_json::from_str::<Value>(&text) {
        Ok(value) => words(&value),
        Err(_) if is_html(headers, &text) => Words {
            codes: String::new(),
            status: None,
            message: "an HTML page".into(),
            retry: None,
        },
        Err(_) => Words {
            codes: String::new(),
            status: None,
            message: said(&text),
            retry: None,
        },
    };
    told_apart(status, headers, words)
}

/// The error that a successful reply holds, if it holds one.
pub(super) fn inside(headers: &Headers, value: &Value) -> Option<Result<Reply, Fault>> {
    let is_error = value.get("error").is_some_and(|e| !e.is_null())
        || value.get("type").and_then(Value::as_str) == Some("error")
        || value.get("object").and_then(Value::as_str) == Some("error");
    is_error.then(|| error_in(headers, value))
}

/// An error in place of an answer, with the status that its code stands for.
pub(super) fn error_in(headers: &Headers, value: &Value) -> Result<Reply, Fault> {
    let words = words(value);
    match words.status.or_else(|| status_of(&words.codes)) {
        Some(status) => told_apart(status, headers, words),
        None if exceeds_context(&words) => Ok(Reply::ended(Stop::Context, "")),
        None => Err(Fault::Malformed(Malformed::ErrorInside(words.message))),
    }
}

/// The status for which an error's name stands where there is none, as in a stream.
fn status_of(codes: &str) -> Option<u16> {
    const NAMES: &[(&str, u16)] = &[
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("insufficient_quota", 429),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
        ("rate_limit", 429),
        ("overloaded_error", 529),
        ("timeout_error", 504),
        ("api_error", 500),
        ("server_error", 500),
        // Of responses, which fail after they were accepted.
        ("invalid_prompt", 400),
        ("policy", 400),
    ];
    NAMES
        .iter()
        .find(|(name, _)| codes.contains(name))
        .map(|(_, status)| *status)
}

fn told_apart(status: u16, headers: &Headers, words: Words) -> Result<Reply, Fault> {
    let mut limits = Box::new(RateLimits::of(headers));
    limits.retry_after = limits.retry_after.or(words.retry);
    if matches!(status, 400 | 413 | 422 | 500) && exceeds_context(&words) {
        return Ok(Reply::ended(Stop::Context, ""));
    }
    if status == 400 && filtered(&words) {
        return Ok(Reply::ended(Stop::Refusal, ""));
    }
    let spent = spent(&words);
    let keyless = words.codes.contains("api_key_invalid");
    let message = words.message;
    Err(match status {
        400 if keyless => Fault::Unauthorized { status, message },
        402 => Fault::QuotaExhausted { message, limits },
        400 | 403 | 429 if spent => Fault::QuotaExhausted { message, limits },
        429 => Fault::RateLimited { message, limits },
        401 | 403 | 407 => Fault::Unauthorized { status, message },
        404 | 405 | 410 => Fault::NotFound { status, message },
        408 | 504 | 522 | 524 | 598 => Fault::TimedOut { status, message },
        // A conflict, a request too early, a misdirected one: of the moment.
        409 | 421 | 425 => Fault::Server {
            status,
            message,
            limits,
        },
        503 | 529 => Fault::Overloaded {
            status,
            message,
            limits,
        },
        400..=499 => Fault::BadRequest { status, message },
        _ => Fault::Server {
            status,
            message,
            limits,
        },
    })
}

/// Credit, or a quota of a day or longer.
fn spent(words: &Words) -> bool {
    const CODES: &[&str] = &[
        "insufficient_quota",
        "billing",
        "insufficient_balance",
        "spend_limit",
        "organization_on_hold",
    ];
    const SENTENCES: &[&str] = &[
        "exceeded your current quota",
        "credit balance is too low",
        "insufficient credits",
        "insufficient balance",
        "insufficient funds",
        "requires more credits",
        "billing hard limit",
        "spend limit",
        "spending limit",
        "usage limit",
        "per day",
        "(rpd)",
        "(tpd)",
        "perday",
        "per-day",
        "daily limit",
        "daily quota",
        "per month",
        "monthly limit",
        "monthly quota",
    ];
    // Gemini says the first sentence of every limit; which one it was stands in the quota's name.
    if words.codes.contains("resource_exhausted") {
        return words.codes.contains("perday");
    }
    let message = words.message.to_lowercase();
    CODES.iter().any(|code| words.codes.contains(code))
        || SENTENCES.iter().any(|part| message.contains(part))
}

/// The question is too long for the model.
fn exceeds_context(words: &Words) -> bool {
    const CODES: &[&str] = &["context_length_exceeded", "exceed_context_size"];
    const SENTENCES: &[&str] = &[
        "maximum context length",
        "prompt is too long",
        "prompt too long",
        "exceed context limit",
        "exceeds the available context size",
        "exceeds the context",
        "exceeds the model's context",
        "exceeds the maximum number of tokens",
        "exceeds the context window",
        "context length exceeded",
        "context window",
        "input is too long",
        "input length and `max_tokens` exceed",
        "too large for model with",
    ];
    if CODES.iter().any(|code| words.codes.contains(code)) {
        return true;
    }
    let message = words.message.to_lowercase();
    if let (Some(asked), Some(most)) = (
        number_behind(&message, "is too large: "),
        number_behind(&message, "maximum context length is "),
    ) && asked >= most
    {
        // The limit of the answer alone is larger than the context: a setting, not the question.
        return false;
    }
    SENTENCES.iter().any(|part| message.contains(part))
}

fn number_behind(message: &str, words: &str) -> Option<u64> {
    let rest = &message[message.find(words)? + words.len()..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A filter declined before the model was asked.
fn filtered(words: &Words) -> bool {
    const CODES: &[&str] = &[
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "bio_policy",
        "misalignment_policy_violation",
    ];
    CODES.iter().any(|code| words.codes.contains(code))
}

/// Takes an error apart.
fn words(value: &Value) -> Words {
    // Some send a list of one.
    let value = match value {
        Value::Array(list) => list.first().unwrap_or(value),
        _ => value,
    };
    let error = match value.get("error") {
        Some(error) if !error.is_null() => error,
        _ => value,
    };
    let mut codes = String::new();
    let mut status = None;
    for place in ["type", "code", "status", "reason", "object"] {
        match error.get(place) {
            Some(Value::String(code)) => {
                codes.push_str(&code.to_lowercase());
                codes.push(' ');
                status = status.or(code.parse().ok());
            }
            Some(Value::Number(code)) => {
                status = status.or(code.as_u64().and_then(|n| u16::try_from(n).ok()));
            }
            _ => {}
        }
    }
    let mut retry = None;
    let details = error.get("details");
    for code in [
        error.get("error_code"),
        details.and_then(|d| d.get("error_code")),
    ] {
        if let Some(code) = code.and_then(Value::as_str) {
            codes.push_str(&code.to_lowercase());
            codes.push(' ');
        }
    }
    let details = details.and_then(Value::as_array);
    for detail in details.into_iter().flatten() {
        if let Some(reason) = detail.get("reason").and_then(Value::as_str) {
            codes.push_str(&reason.to_lowercase());
            codes.push(' ');
        }
        if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
            retry = duration(delay).map(When::In);
        }
        let violations = detail.get("violations").and_then(Value::as_array);
        for violation in violations.into_iter().flatten() {
            if let Some(id) = violation.get("quotaId").and_then(Value::as_str) {
                codes.push_str(&id.to_lowercase());
                codes.push(' ');
            }
        }
    }
    let sentence = match error {
        Value::String(sentence) => Some(sentence.as_str()),
        _ => ["message", "detail", "error", "error_message"]
            .iter()
            .find_map(|place| error.get(place).and_then(Value::as_str)),
    };
    let message = match (sentence, error.get("detail")) {
        (Some(sentence), _) => said(sentence),
        (None, Some(detail)) => said(&detail.to_string()),
        (None, None) => said(&error.to_string()),
    };
    // A router's own sentence says little; its provider's stands behind.
    let behind = error.pointer("/metadata/raw").and_then(Value::as_str);
    Words {
        codes,
        status: status.filter(|s| (400..600).contains(s)),
        message: match behind {
            Some(raw) => said(&format!("{message}: {raw}")),
            None => message,
        },
        retry,
    }
}

/// Whether this is a page for people.
pub(super) fn is_html(headers: &Headers, text: &str) -> bool {
    let kind = headers.get("content-type").unwrap_or_default();
    let start = text.trim_start().get(..15).unwrap_or(text.trim_start());
    let start = start.to_ascii_lowercase();
    kind.to_ascii_lowercase().starts_with("text/html")
        || start.starts_with("<!doctype html")
        || start.starts_with("<html")
}
