//! The canonical request and the reply in the words of each provider's API: bytes in, bytes out.
//!
//! [`encode`] makes the request's path, headers and body, [`decode`] makes a [`Reply`] or a
//! [`Fault`] of what came back. Nothing here is part of a completion's identity, which is
//! [`Request`] alone: two APIs that serve one model share its replies, and a field that is renamed
//! on the wire costs nothing. Secrets never come here: [`Api::credential`] says in which header a
//! key belongs, and whoever sends puts it there.
//!
//! One file per API (`openai_chat`, `anthropic`, ...); `errors` reads what servers say
//! instead of answering; `limits` their headers; `sse` streams of events; [`batch`] many requests at once.

mod anthropic;
pub mod batch;
mod errors;
mod fault;
mod gemini;
mod json;
mod limits;
mod ollama;
mod openai_chat;
mod openai_completions;
mod openai_embeddings;
mod openai_responses;
mod sse;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use fault::{Fault, Malformed, Remedy};
pub use json::Json;
pub use limits::{Limit, RateLimits, When};

use super::{Reply, Request, Thinking};

/// A way of talking to models.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// OpenAI's chat completions, which most servers speak.
    OpenaiChat,
    /// OpenAI's completions: text that goes on, without roles.
    OpenaiCompletions,
    /// OpenAI's responses.
    OpenaiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// OpenAI's embeddings: vectors of texts, which answer no question.
    OpenaiEmbeddings,
}

/// Where a key belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credential {
    /// The header, in lower case.
    pub header: &'static str,
    /// What stands before the key in its value.
    pub prefix: &'static str,
}

impl Api {
    /// All of them.
    pub const ALL: [Api; 7] = [
        Api::OpenaiChat,
        Api::OpenaiCompletions,
        Api::OpenaiResponses,
        Api::Anthropic,
        Api::Gemini,
        Api::Ollama,
        Api::OpenaiEmbeddings,
    ];

    /// As in project files.
    pub fn name(self) -> &'static str {
        match self {
            Api::OpenaiChat => "openai-chat",
            Api::OpenaiCompletions => "openai-completions",
            Api::OpenaiResponses => "openai-responses",
            Api::Anthropic => "anthropic",
            Api::Gemini => "gemini",
            Api::Ollama => "ollama",
            Api::OpenaiEmbeddings => "openai-embeddings",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Api> {
        Api::ALL.into_iter().find(|api| api.name() == name)
    }

    /// In which header a key is sent.
    pub fn credential(self) -> Credential {
        let (header, prefix) = match self {
            Api::Anthropic => ("x-api-key", ""),
            Api::Gemini => ("x-goog-api-key", ""),
            _ => ("authorization", "Bearer "),
        };
        Credential { header, prefix }
    }

    /// Whether the API has a way to say this at all.
    fn has(self, setting: Setting) -> bool {
        use Setting as S;
        match self {
            Api::OpenaiChat => setting != S::ThinkingBudget,
            Api::OpenaiCompletions => !matches!(
                setting,
                S::ThinkingBudget | S::Effort | S::Route | S::Stream
            ),
            Api::OpenaiResponses => {
                !matches!(setting, S::ThinkingBudget | S::Seed | S::Route | S::Stream)
            }
            Api::Anthropic => !matches!(setting, S::Seed | S::Route),
            Api::Gemini => !matches!(setting, S::Route | S::Stream | S::Batch),
            Api::Ollama => !matches!(setting, S::ThinkingBudget | S::Route | S::Stream | S::Batch),
            Api::OpenaiEmbeddings => false,
        }
    }

    /// Whether it gives vectors, and answers nothing.
    pub fn embeds(self) -> bool {
        self == Api::OpenaiEmbeddings
    }
}

/// Something that can be set, and that an API or a model may lack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// [`super::Sampling::temperature_milli`]
    Temperature,
    /// [`super::Sampling::seed`]
    Seed,
    /// [`super::Sampling::top_p_milli`]
    TopP,
    /// [`super::Sampling::max_tokens`]
    MaxTokens,
    /// [`Thinking::Effort`]
    Effort,
    /// [`Thinking::Budget`]
    ThinkingBudget,
    /// [`super::Sampling::route`]
    Route,
    /// [`Shape::stream`]
    Stream,
    /// Requests by the thousand, for less, within a day.
    Batch,
}

impl Setting {
    /// As in project files, and as in [`Reply::omitted`].
    pub fn name(self) -> &'static str {
        match self {
            Setting::Temperature => "temperature",
            Setting::Seed => "seed",
            Setting::TopP => "top-p",
            Setting::MaxTokens => "max-tokens",
            Setting::Effort => "effort",
            Setting::ThinkingBudget => "thinking-budget",
            Setting::Route => "route",
            Setting::Stream => "stream",
            Setting::Batch => "batch",
        }
    }
}

/// How a model is talked to: provenance, which changes no answer and is in no key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Which API.
    pub api: Api,
    /// The model's name on the wire.
    pub model: String,
    /// Whether the answer comes as a stream of events.
    pub stream: bool,
    /// What the limit of tokens is called.
    pub max_tokens: MaxTokensField,
    /// What the seed is called.
    pub seed: SeedField,
    /// How an effort is said.
    pub effort: EffortField,
    /// What this model or server lacks although the API has it.
    pub without: BTreeSet<Setting>,
}

/// Names of the limit of tokens of an answer, in OpenAI's chat completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// What all understand but OpenAI's reasoning models.
    #[default]
    MaxTokens,
    /// What these understand.
    MaxCompletionTokens,
}

/// Names of the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedField {
    /// The usual one.
    #[default]
    Seed,
    /// Mistral's.
    RandomSeed,
}

/// Ways to say how much a model shall think, in OpenAI's chat completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// `"reasoning_effort": "low"`
    #[default]
    ReasoningEffort,
    /// `"reasoning": {"effort": "low"}` or `{"max_tokens": 1000}`, as OpenRouter has it.
    Reasoning,
}

impl Shape {
    /// The usual shape of an API.
    pub fn new(api: Api, model: impl Into<String>) -> Shape {
        Shape {
            api,
            model: model.into(),
            stream: false,
            max_tokens: MaxTokensField::default(),
            seed: SeedField::default(),
            effort: EffortField::default(),
            without: BTreeSet::new(),
        }
    }

    /// Whether this cannot be said. What a person wrote and this lacks is their mistake; a default
    /// that it lacks is left out, see [`Wire::omitted`].
    pub fn lacks(&self, setting: Setting) -> bool {
        let budget_by_router = self.api == Api::OpenaiChat
            && self.effort == EffortField::Reasoning
            && setting == Setting::ThinkingBudget;
        self.without.contains(&setting) || !(self.api.has(setting) || budget_by_router)
    }
}

/// Headers of a reply; names are compared without regard to case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Of pairs of name and value. Values that are no text belong left out.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Headers {
        let pairs = pairs.into_iter();
        Headers(
            pairs
                .map(|(n, v)| (n.to_ascii_lowercase(), v.to_string()))
                .collect(),
        )
    }

    /// The names, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A request as it is sent, but for what is secret. The method is POST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wire {
    /// What follows the base URL; begins with `/`.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Names of defaults that the API or the model lacks, which were not sent. They belong into
    /// [`Reply::omitted`].
    pub omitted: Vec<String>,
}

/// The request in the words of `shape`'s API. The same arguments give the same bytes.
///
/// Draw `n` of a request is sent with its seed plus `n`: a server that honours seeds would
/// else give the same answer each time.
pub fn encode(shape: &Shape, request: &Request) -> Wire {
    let mut said = Said {
        shape,
        request,
        omitted: Vec::new(),
    };
    let (path, mut body) = match shape.api {
        Api::OpenaiChat => openai_chat::encode(&mut said),
        Api::OpenaiCompletions => openai_completions::encode(&mut said),
        Api::OpenaiResponses => openai_responses::encode(&mut said),
        Api::Anthropic => anthropic::encode(&mut said),
        Api::Gemini => gemini::encode(&mut said),
        Api::Ollama => ollama::encode(&mut said),
        Api::OpenaiEmbeddings => openai_embeddings::encode(&mut said),
    };
    let omitted = said.omitted;
    let sampling = &request.sampling;
    if let Ok(extra) = Json::parse(&sampling.extra) {
        body.merge(&extra);
    }
    let mut headers = vec![("content-type".to_string(), "application/json".to_string())];
    if shape.api == Api::Anthropic {
        headers.push(("anthropic-version".into(), anthropic::version(&body).into()));
    }
    headers.extend(sampling.headers.iter().map(|(n, v)| (n.clone(), v.clone())));
    Wire {
        path,
        headers,
        body: body.text().into_bytes(),
        omitted,
    }
}

/// The fields that `extra` would set and that a request of this shape sets by itself, by their
/// dotted names: such a request cannot be meant.
pub fn clashes(shape: &Shape, request: &Request, extra: &Json) -> Vec<String> {
    let plain = Request {
        sampling: super::Sampling {
            extra: String::new(),
            ..request.sampling.clone()
        },
        ..request.clone()
    };
    let body = encode(shape, &plain).body;
    let text = String::from_utf8(body).unwrap_or_default();
    match Json::parse(&text) {
        Ok(mut body) => body.merge(extra),
        Err(_) => Vec::new(),
    }
}

/// A request on its way into an API's words: gives settings that can be said, and notes the rest.
struct Said<'a> {
    shape: &'a Shape,
    request: &'a Request,
    omitted: Vec<String>,
}

impl Said<'_> {
    /// `value`, if the setting can be said.
    fn if_known<T>(&mut self, setting: Setting, value: T) -> Option<T> {
        if self.shape.lacks(setting) {
            self.omitted.push(setting.name().to_string());
            return None;
        }
        Some(value)
    }

    fn temperature(&mut self) -> Option<Json> {
        let milli = self.request.sampling.temperature_milli;
        self.if_known(Setting::Temperature, Json::thousandths(milli))
    }

    fn top_p(&mut self) -> Option<Json> {
        let milli = self.request.sampling.top_p_milli?;
        self.if_known(Setting::TopP, Json::thousandths(milli))
    }

    fn seed(&mut self) -> Option<Json> {
        let seed = self.request.sampling.seed;
        let seed = seed.wrapping_add(i64::from(self.request.sample));
        self.if_known(Setting::Seed, seed.into())
    }

    fn max_tokens(&mut self) -> Option<Json> {
        let most = self.request.sampling.max_tokens;
        self.if_known(Setting::MaxTokens, most.into())
    }

    fn effort(&mut self) -> Option<String> {
        match &self.request.sampling.thinking {
            Thinking::Effort(level) => self.if_known(Setting::Effort, level.clone()),
            _ => None,
        }
    }

    fn budget(&mut self) -> Option<u32> {
        match self.request.sampling.thinking {
            Thinking::Budget(tokens) => self.if_known(Setting::ThinkingBudget, tokens),
            _ => None,
        }
    }

    fn route(&mut self) -> Option<String> {
        let route = self.request.sampling.route.clone()?;
        self.if_known(Setting::Route, route)
    }
}

/// What came back, read. A stream is told by its content type, whether or not one was asked for.
///
/// A reply has no [`Reply::omitted`] yet: that is known from [`Wire::omitted`].
pub fn decode(api: Api, status: u16, headers: &Headers, body: &[u8]) -> Result<Reply, Fault> {
    if (300..400).contains(&status) {
        return Err(Fault::Redirected {
            status,
            to: headers.get("location").map(str::to_string),
        });
    }
    if !(200..300).contains(&status) {
        return errors::refused(status, headers, body);
    }
    let kind = content_type(headers);
    if kind == "text/event-stream" {
        let text = text(headers, body)?;
        return match api {
            Api::OpenaiChat => openai_chat::decode_stream(headers, text),
            Api::Anthropic => anthropic::decode_stream(headers, text),
            _ => Err(Fault::Malformed(Malformed::ContentType(kind))),
        };
    }
    answer(api, headers, &document(headers, body)?)
}

/// The content type in lower case, without parameters; JSON where none is given.
fn content_type(headers: &Headers) -> String {
    let kind = headers.get("content-type").unwrap_or("application/json");
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.to_ascii_lowercase()
}

/// The text of a successful reply, which is no page for people.
fn text<'a>(headers: &Headers, body: &'a [u8]) -> Result<&'a str, Fault> {
    let malformed = |what| Err(Fault::Malformed(what));
    if body.iter().all(u8::is_ascii_whitespace) {
        return malformed(Malformed::Empty);
    }
    match std::str::from_utf8(body) {
        Err(_) => malformed(Malformed::NotUtf8),
        Ok(text) if errors::is_html(headers, text) => malformed(Malformed::Html),
        Ok(text) => Ok(text),
    }
}

/// The document of a successful reply.
fn document(headers: &Headers, body: &[u8]) -> Result<serde_json::Value, Fault> {
    let text = text(headers, body)?;
    let kind = content_type(headers);
    if kind != "application/json" && !kind.ends_with("+json") {
        return Err(Fault::Malformed(Malformed::ContentType(fault::said(&kind))));
    }
    serde_json::from_str(text).map_err(|e| Fault::Malformed(Malformed::NotJson(e.to_string())))
}

/// The document of a successful reply, read.
fn answer(api: Api, headers: &Headers, value: &serde_json::Value) -> Result<Reply, Fault> {
    if let Some(instead) = errors::inside(headers, value) {
        return instead;
    }
    match api {
        Api::OpenaiChat => openai_chat::decode(headers, value),
        Api::OpenaiCompletions => openai_completions::decode(headers, value),
        Api::OpenaiResponses => openai_responses::decode(value),
        Api::Anthropic => anthropic::decode(value),
        Api::Gemini => gemini::decode(value),
        Api::Ollama => ollama::decode(value),
        Api::OpenaiEmbeddings => openai_embeddings::decode(headers, value),
    }
}

/// The fault of a document in which the answer is not where it belongs.
fn no_answer(what: &str) -> Fault {
    Fault::Malformed(Malformed::NoAnswer(what.to_string()))
}

/// What is at a pointer through objects whose names need no escape: a dozen are followed in each
/// reply, and the library's own way makes a text of every name.
fn at<'a>(value: &'a serde_json::Value, pointer: &str) -> Option<&'a serde_json::Value> {
    let mut names = pointer.split('/').skip(1);
    names.try_fold(value, |value, name| value.get(name))
}

/// A text at a pointer, if it is there and not empty.
fn text_at(value: &serde_json::Value, pointer: &str) -> Option<String> {
    let text = at(value, pointer)?.as_str()?;
    (!text.is_empty()).then(|| text.to_string())
}

/// A count at a pointer, if it is there.
fn count_at(value: &serde_json::Value, pointer: &str) -> Option<u64> {
    at(value, pointer)?.as_u64()
}

#[cfg(test)]
mod tests;
