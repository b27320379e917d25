//! The canonical request: what is asked, of which model, how it samples, and which draw it is.
//! Its job's key is the identity of a completion. Everything that can change the answer is an
//! input; nothing else is: no provider's field names, no address, no time. Nothing here sends.
//!
//! The task's name and the template's file are not: two templates that give the same texts ask the
//! same.
//!
//! Inputs of kind [`COMPLETION`]: `system` and `user`
//! blobs, `model` text, `temperature_milli` int, `seed` int, `top_p_milli` list of at most one
//! int, `max_tokens` int, `thinking` list, `sample` int. Only where there is something to say:
//! `route` text, `extra` text (canonical JSON), `headers` list of name, value, name, value, ...

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::job::{Job, Kind, Nature, Value};

/// The kind of a model's completion; its output is an encoded [`super::Reply`].
pub const COMPLETION: Kind = Kind {
    name: "ask/completion",
    version: 1,
    nature: Nature::Sampled,
};

/// How long the model may think before it answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Nothing is asked for: the model's own way.
    #[default]
    Off,
    /// At most this many tokens.
    Budget(u32),
    /// A level by the provider's name, such as `low`.
    Effort(String),
}

/// How the answer is drawn. Fractions are in thousandths, so that equal settings are equal bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Sampling {
    /// Temperature in thousandths: 700 is 0.7.
    pub temperature_milli: u32,
    /// The seed sent with the request.
    pub seed: i64,
    /// Nucleus sampling in thousandths; `None` leaves it to the provider's default.
    pub top_p_milli: Option<u32>,
    /// The most tokens of an answer.
    pub max_tokens: u32,
    /// Thinking, off unless asked for.
    pub thinking: Thinking,
    /// The upstream provider that a router must take; `None` without a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Further fields of the request's body as a JSON object in canonical form
    /// ([`super::wire::Json::canonical`]); empty when there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub extra: String,
    /// Further headers by name in lower case: they can switch features on, and are no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature_milli: 0,
            seed: 0,
            top_p_milli: None,
            max_tokens: 4096,
            thinking: Thinking::Off,
            route: None,
            extra: String::new(),
            headers: BTreeMap::new(),
        }
    }
}

/// A fraction that has more than three decimal places or is out of range.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("{0} is not usable here: give a number from 0 to 1000 with at most three decimal places")]
pub struct NotThousandths(pub f64);

/// `value` in thousandths, exactly.
pub fn milli(value: f64) -> Result<u32, NotThousandths> {
    let scaled = (value * 1000.0).round();
    if value.is_finite() && (0.0..=1e6).contains(&scaled) && (scaled / 1000.0 - value).abs() < 1e-9
    {
        Ok(scaled as u32)
    } else {
        Err(NotThousandths(value))
    }
}

/// One question to one model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The system text, filled in; may be empty.
    pub system: Arc<str>,
    /// The user text, filled in.
    pub user: Arc<str>,
    /// The model and its revision; never an alias that can come to mean another model.
    pub model: String,
    /// How the answer is drawn.
    pub sampling: Sampling,
    /// Which of several draws, from 0.
    pub sample: u32,
}

/// A model as it is asked, in whatever benchmark.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Answerer {
    /// As tables call it.
    pub name: String,
    /// The model and its revision, as keys have it.
    pub revision: String,
    /// How it samples.
    pub sampling: Sampling,
    /// Its own system text; may be empty.
    pub system: String,
    /// Whether it goes on with a text (OpenAI's completions) in place of answering a message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
}

impl Answerer {
    /// The request that puts `user` to it; `sample` tells draws of the same text apart.
    pub fn request(&self, user: impl Into<Arc<str>>, sample: u32) -> Request {
        Request {
            system: self.system.as_str().into(),
            user: user.into(),
            model: self.revision.clone(),
            sampling: self.sampling.clone(),
            sample,
        }
    }
}

/// A job that is no request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotARequest {
    /// An input is missing or of another type.
    #[error(
        "input `{0}` of the job is missing or not of its type: the job is of another kind or version"
    )]
    Input(&'static str),
    /// The bytes behind a digest are not at hand.
    #[error("the bytes of input `{0}` ({1}) are not at hand")]
    NoBlob(&'static str, Digest),
    /// The bytes behind a digest are no text.
    #[error("the bytes of input `{0}` are not UTF-8")]
    NotUtf8(&'static str),
}

impl Request {
    /// The job of kind `kind` (for a model, [`COMPLETION`]) that gets this request answered.
    pub fn to_job(&self, kind: Kind) -> Job {
        let s = &self.sampling;
        let optional =
            |n: Option<u32>| Value::List(n.map(|n| Value::Int(n.into())).into_iter().collect());
        let thinking = Value::List(match &s.thinking {
            Thinking::Off => vec![],
            Thinking::Budget(n) => vec!["budget".into(), Value::Int((*n).into())],
            Thinking::Effort(level) => vec!["effort".into(), level.as_str().into()],
        });
        let mut job = Job::of(kind)
            .blob("system", self.system.as_bytes())
            .blob("user", self.user.as_bytes())
            .put("model", self.model.as_str())
            .put("temperature_milli", i64::from(s.temperature_milli))
            .put("seed", s.seed)
            .put("top_p_milli", optional(s.top_p_milli))
            .put("max_tokens", i64::from(s.max_tokens))
            .put("thinking", thinking)
            .put("sample", i64::from(self.sample));
        if let Some(route) = &s.route {
            job = job.put("route", route.as_str());
        }
        if !s.extra.is_empty() {
            job = job.put("extra", s.extra.as_str());
        }
        if !s.headers.is_empty() {
            let headers = s.headers.iter().flat_map(|(name, value)| [name, value]);
            let headers: Vec<Value> = headers.map(|text| text.as_str().into()).collect();
            job = job.put("headers", Value::List(headers));
        }
        job.done()
    }

    /// What replies are recorded under: the digest of both texts, whoever is asked.
    pub fn prompt_digest(&self) -> Digest {
        let mut bytes = (self.system.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(self.system.as_bytes());
        bytes.extend_from_slice(self.user.as_bytes());
        Digest::of(&bytes)
    }

    /// Reads a request back from its job. Bytes the job does not carry come from `blob`.
    pub fn of_job(
        job: &Job,
        blob: impl Fn(Digest) -> Option<Arc<[u8]>>,
    ) -> Result<Self, NotARequest> {
        let text = |name| match job.inputs().get(name) {
            Some(Value::Text(s)) => Ok(s.clone()),
            _ => Err(NotARequest::Input(name)),
        };
        let int = |name| match job.inputs().get(name) {
            Some(Value::Int(n)) => Ok(*n),
            _ => Err(NotARequest::Input(name)),
        };
        let optional = |name| match job.inputs().get(name) {
            None => Ok(None),
            Some(Value::Text(s)) => Ok(Some(s.clone())),
            Some(_) => Err(NotARequest::Input(name)),
        };
        let small = |name| u32::try_from(int(name)?).map_err(|_| NotARequest::Input(name));
        let list = |name| match job.inputs().get(name) {
            Some(Value::List(v)) => Ok(v.as_slice()),
            _ => Err(NotARequest::Input(name)),
        };
        let bytes = |name| -> Result<Arc<str>, NotARequest> {
            let Some(Value::Digest(digest)) = job.inputs().get(name) else {
                return Err(NotARequest::Input(name));
            };
            let carried = job.preimages().iter().find(|(d, _)| d == digest);
            let bytes = carried
                .map(|(_, bytes)| bytes.clone())
                .or_else(|| blob(*digest))
                .ok_or(NotARequest::NoBlob(name, *digest))?;
            let text = std::str::from_utf8(&bytes).map_err(|_| NotARequest::NotUtf8(name))?;
            Ok(text.into())
        };
        let as_u32 = |n: &i64, name| u32::try_from(*n).map_err(|_| NotARequest::Input(name));
        Ok(Request {
            system: bytes("system")?,
            user: bytes("user")?,
            model: text("model")?,
            sampling: Sampling {
                temperature_milli: small("temperature_milli")?,
                seed: int("seed")?,
                top_p_milli: match list("top_p_milli")? {
                    [] => None,
                    [Value::Int(n)] => Some(as_u32(n, "top_p_milli")?),
                    _ => return Err(NotARequest::Input("top_p_milli")),
                },
                max_tokens: small("max_tokens")?,
                thinking: match list("thinking")? {
                    [] => Thinking::Off,
                    [Value::Text(t), Value::Int(n)] if t == "budget" => {
                        Thinking::Budget(as_u32(n, "thinking")?)
                    }
                    [Value::Text(t), Value::Text(level)] if t == "effort" => {
                        Thinking::Effort(level.clone())
                    }
                    _ => return Err(NotARequest::Input("thinking")),
                },
                route: optional("route")?,
                extra: optional("extra")?.unwrap_or_default(),
                headers: headers_of(job).ok_or(NotARequest::Input("headers"))?,
            },
            sample: small("sample")?,
        })
    }
}

/// The input `headers`, which may be absent.
fn headers_of(job: &Job) -> Option<BTreeMap<String, String>> {
    let values = match job.inputs().get("headers") {
        None => return Some(BTreeMap::new()),
        Some(Value::List(values)) => values,
        Some(_) => return None,
    };
    let (pairs, []) = values.as_chunks() else {
        return None;
    };
    let pairs = pairs.iter().map(|pair| match pair {
        [Value::Text(name), Value::Text(value)] => Some((name.clone(), value.clone())),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn request() -> Request {
        Request {
            system: "s".into(),
            user: "int f(void);".into(),
            model: "maker/model@2026-01".into(),
            sampling: Sampling::default(),
            sample: 0,
        }
    }

    #[test]
    fn the_key_is_pinned() {
        insta::assert_snapshot!(request().to_job(COMPLETION).key());
    }

    #[test]
    fn every_parameter_that_changes_the_answer_changes_the_key() {
        let base = request();
        let with = |change: fn(&mut Request)| {
            let mut r = base.clone();
            change(&mut r);
            r
        };
        let all = [
            base.clone(),
            with(|r| r.system = "t".into()),
            with(|r| r.user = "int f(void); ".into()),
            with(|r| r.model = "maker/model@2026-02".into()),
            with(|r| r.sampling.temperature_milli = 1),
            with(|r| r.sampling.seed = 1),
            with(|r| r.sampling.top_p_milli = Some(0)),
            with(|r| r.sampling.top_p_milli = Some(950)),
            with(|r| r.sampling.max_tokens = 100),
            with(|r| r.sampling.thinking = Thinking::Budget(1)),
            with(|r| r.sampling.thinking = Thinking::Effort("low".into())),
            with(|r| r.sample = 1),
            with(|r| r.sampling.route = Some("maker".into())),
            with(|r| r.sampling.extra = r#"{"top_k":1}"#.into()),
            with(|r| r.sampling.headers = BTreeMap::from([("a".into(), "b".into())])),
        ];
        let keys: HashSet<_> = all.iter().map(|r| r.to_job(COMPLETION).key()).collect();
        assert_eq!(keys.len(), all.len());
        // Every input took part: none can be forgotten in the list above.
        let job = base.to_job(COMPLETION);
        let mut changed = HashSet::new();
        let mut known = HashSet::new();
        for request in &all {
            let other = request.to_job(COMPLETION);
            for name in other.inputs().keys() {
                known.insert(*name);
                if job.inputs().get(name) != other.inputs().get(name) {
                    changed.insert(*name);
                }
            }
        }
        assert_eq!(changed, known);
    }

    #[test]
    fn fractions_are_exact_or_refused() {
        assert_eq!(milli(0.7), Ok(700));
        assert_eq!(milli(0.95), Ok(950));
        assert_eq!(milli(1.0), Ok(1000));
        for bad in [0.0001, -0.5, f64::NAN, f64::INFINITY, 1e9] {
            assert!(milli(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn another_kind_of_job_is_no_request() {
        let other = Job::of(COMPLETION).put("system", 3).done();
        assert_eq!(
            Request::of_job(&other, |_| None),
            Err(NotARequest::Input("system"))
        );
    }

    proptest! {
        #[test]
        fn a_request_comes_back_from_its_job(
            (system, user, model) in (any::<String>(), any::<String>(), any::<String>()),
            (temperature_milli, seed, max_tokens, sample) in (any::<u32>(), any::<i64>(), any::<u32>(), any::<u32>()),
            top_p_milli in any::<Option<u32>>(),
            thinking in prop_oneof![
                Just(Thinking::Off),
                any::<u32>().prop_map(Thinking::Budget),
                any::<String>().prop_map(Thinking::Effort),
            ],
            route in any::<Option<String>>(),
            extra in any::<String>(),
            headers in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..3),
        ) {
            let request = Request {
                system: system.as_str().into(), user: user.as_str().into(), model,
                sampling: Sampling {
                    temperature_milli, seed, top_p_milli, max_tokens, thinking, route, extra, headers,
                },
                sample,
            };
            let back = Request::of_job(&request.to_job(COMPLETION), |_| None);
            prop_assert_eq!(back, Ok(request));
        }
    }
}
