//! `[[model]]`: who answers, and for a model over HTTP how it is reached and asked. Pure: files and
//! variables that hold keys are named here, and read elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::provider::{Provider, provider, providers};
use crate::ask::request::milli;
use crate::ask::wire::{self, Api, Json, Setting, Shape};
use crate::ask::{Request, Sampling, Thinking};
use crate::lang::calibration::Edit;
use crate::oss::inputs::Card;

/// A model: a name and one way to answer. Everything from `provider` on is of models over HTTP.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ModelConfig {
    /// Unique in the project.
    pub name: String,
    /// Shares of edits with known effects; no language model.
    pub calibration: Option<BTreeMap<Edit, f64>>,
    /// A file of recorded replies, relative to the project file.
    pub replay: Option<PathBuf>,
    /// What is known of it, in place of what a replay file says.
    pub card: Option<Card>,
    /// Since when it is not asked any more, `YYYY-MM-DD`: its rows stay what they last were.
    pub retired: Option<String>,

    /// The name of a preset.
    pub provider: Option<String>,
    /// The API, where the preset's is not meant or there is no preset.
    pub api: Option<Api>,
    /// The server, in place of the preset's: what stands before `/chat/completions` and the like.
    pub base_url: Option<String>,
    /// The model's name on the wire.
    pub id: Option<String>,
    /// Which of the models that ever had the name: a digest of the weights, a date.
    pub revision: Option<String>,
    /// The variable of the environment that holds the key.
    pub key_env: Option<String>,
    /// The file that holds the key, relative to the project file.
    pub key_file: Option<PathBuf>,
    /// From 0, with at most three decimal places.
    pub temperature: Option<f64>,
    /// See [`Sampling::seed`].
    pub seed: Option<i64>,
    /// From 0 to 1, with at most three decimal places.
    pub top_p: Option<f64>,
    /// See [`Sampling::max_tokens`].
    pub max_tokens: Option<u32>,
    /// How much it shall think, in the provider's words.
    pub effort: Option<String>,
    /// How many tokens it may think.
    pub thinking_budget: Option<u32>,
    /// A text that stands behind the task's own system text.
    pub system: Option<String>,
    /// Further fields of the request's body.
    pub extra: Option<Json>,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderValue>,
    /// The upstream provider that a router must take.
    pub route: Option<String>,
    /// The most requests that wait for an answer at once.
    pub max_in_flight: Option<u32>,
    /// Whether answers come as streams.
    pub stream: Option<bool>,
    /// Whether requests are sent by the thousand, for less, to be answered within a day.
    pub batch: Option<bool>,
    /// Seconds after which a request is given up, and sent again.
    pub timeout: Option<u32>,
    /// The name in the price table, where it is not `PROVIDER/ID`.
    pub price: Option<String>,
    /// What its replies may cost in all runs, in dollars.
    pub max_cost: Option<f64>,
}

/// What a header says.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a header's value is a text, or `{ env = \"NAME\" }` for a secret"
)]
pub enum HeaderValue {
    /// This. It may change answers, so it is part of the request's identity.
    Text(String),
    /// What a variable of the environment holds: a secret, which changes no answer.
    Env(FromEnv),
}

/// See [`HeaderValue::Env`].
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromEnv {
    /// The variable.
    pub env: String,
}

/// Where a key is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// None is sent.
    None,
    /// In this variable of the environment.
    Env(String),
    /// In this file, relative to the project file.
    File(PathBuf),
}

/// A model over HTTP, as it will be asked.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoteModel {
    /// The preset's name; `custom` without one.
    pub provider: String,
    /// What stands before a [`wire::Wire::path`]; without `/` at its end.
    pub base_url: String,
    /// How it is talked to.
    pub shape: Shape,
    /// Which of the models that ever had the id; `None` where the first answer has to tell.
    pub revision: Option<String>,
    /// How it is asked.
    pub sampling: Sampling,
    /// What stands behind the task's own system text; may be empty.
    pub system: String,
    /// Where the key is.
    pub key: KeySource,
    /// Headers whose values are in the environment: name in lower case, variable.
    pub secret_headers: Vec<(String, String)>,
    /// The most requests that wait for an answer at once; `None` leaves it to the limits that the
    /// provider tells.
    pub max_in_flight: Option<u32>,
    /// Whether requests go in batches.
    pub batch: bool,
    /// When a request is given up.
    pub timeout: Duration,
    /// The name in the price table.
    pub price: String,
    /// What its replies may cost in all runs, in millionths of a dollar.
    pub max_cost: Option<u64>,
}

/// How long a request may take where nothing is said: models that think take minutes.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Words in a header's name that tell of a secret.
const SECRET: [&str; 6] = ["auth", "key", "token", "secret", "cookie", "password"];

impl RemoteModel {
    /// What a completion's key calls the model: provider, id and revision. `pinned` is what the
    /// first answer told, for a model of which the project file names no revision.
    pub fn identity(&self, pinned: Option<&str>) -> String {
        let name = format!("{}/{}", self.provider, self.shape.model);
        match self.revision.as_deref().or(pinned) {
            Some(revision) => format!("{name}@{revision}"),
            None => name,
        }
    }
}

impl ModelConfig {
    /// Whether this is a model over HTTP.
    pub fn is_remote(&self) -> bool {
        self.provider.is_some()
            || self.api.is_some()
            || self.base_url.is_some()
            || self.id.is_some()
    }

    /// The model over HTTP that this describes, if it describes one; or what is wrong.
    pub fn remote(&self) -> Result<Option<RemoteModel>, String> {
        if !self.is_remote() {
            return match self.written().first() {
                None => Ok(None),
                Some(setting) => Err(self.wrong(format!(
                    "`{setting}` is for models over HTTP: give `provider` and `id` too"
                ))),
            };
        }
        let id = match self.id.as_deref() {
            Some(id) if !id.trim().is_empty() => id,
            _ => {
                return Err(self.wrong(
                    "`id` is missing: the name by which the provider knows the model".into(),
                ));
            }
        };
        let preset = self.provider.as_deref().map(provider).transpose();
        let preset = preset.map_err(|e| self.wrong(e))?;
        let api = match self.api.or(preset.map(|p| p.api)) {
            Some(api) => api,
            None => {
                let names: Vec<&str> = providers().iter().map(|p| p.name.as_str()).collect();
                return Err(self.wrong(format!(
                    "there is neither `provider` nor `api`\n  help: providers are {}",
                    names.join(", ")
                )));
            }
        };
        let base_url = self.base_url(preset)?;
        let mut shape = match preset {
            Some(preset) => preset.shape(api, id),
            None => Shape::new(api, id),
        };
        shape.stream = self.stream == Some(true);
        self.check_written(&shape)?;
        let sampling = self.sampling(&shape)?;
        Ok(Some(RemoteModel {
            provider: preset.map_or("custom", |p| &p.name).to_string(),
            base_url,
            revision: self.revision.clone(),
            system: self.system.clone().unwrap_or_default(),
            key: self.key(preset)?,
            secret_headers: self.secret_headers(),
            max_in_flight: self.max_in_flight,
            batch: self.batch == Some(true),
            timeout: self
                .timeout
                .map_or(TIMEOUT, |s| Duration::from_secs(s.into())),
            max_cost: self.max_cost()?,
            price: match (&self.price, preset) {
                (Some(name), _) => name.clone(),
                (None, Some(preset)) => format!("{}/{id}", preset.name),
                (None, None) => format!("custom/{id}"),
            },
            sampling,
            shape,
        }))
    }

    fn wrong(&self, what: String) -> String {
        format!("model `{}`: {what}", self.name)
    }

    /// Settings of models over HTTP that the project file has, by their names there.
    fn written(&self) -> Vec<&'static str> {
        let all = [
            ("revision", self.revision.is_some()),
            ("key-env", self.key_env.is_some()),
            ("key-file", self.key_file.is_some()),
            ("temperature", self.temperature.is_some()),
            ("seed", self.seed.is_some()),
            ("top-p", self.top_p.is_some()),
            ("max-tokens", self.max_tokens.is_some()),
            ("effort", self.effort.is_some()),
            ("thinking-budget", self.thinking_budget.is_some()),
            ("system", self.system.is_some()),
            ("extra", self.extra.is_some()),
            ("headers", !self.headers.is_empty()),
            ("route", self.route.is_some()),
            ("max-in-flight", self.max_in_flight.is_some()),
            ("stream", self.stream.is_some()),
            ("batch", self.batch.is_some()),
            ("timeout", self.timeout.is_some()),
            ("price", self.price.is_some()),
            ("max-cost", self.max_cost.is_some()),
        ];
        all.into_iter()
            .filter(|(_, is)| *is)
            .map(|(n, _)| n)
            .collect()
    }

    /// What was written must be sent.
    fn check_written(&self, shape: &Shape) -> Result<(), String> {
        let written = [
            (Setting::Temperature, self.temperature.is_some()),
            (Setting::Seed, self.seed.is_some()),
            (Setting::TopP, self.top_p.is_some()),
            (Setting::MaxTokens, self.max_tokens.is_some()),
            (Setting::Effort, self.effort.is_some()),
            (Setting::ThinkingBudget, self.thinking_budget.is_some()),
            (Setting::Route, self.route.is_some()),
            (Setting::Stream, self.stream == Some(true)),
            (Setting::Batch, self.batch == Some(true)),
        ];
        for (setting, is) in written {
            if is && shape.lacks(setting) {
                return Err(self.wrong(format!(
                    "`{}` cannot be said to `{}` over the API `{}`: remove it",
                    setting.name(),
                    shape.model,
                    shape.api.name()
                )));
            }
        }
        if self.effort.is_some() && self.thinking_budget.is_some() {
            return Err(self.wrong("there are `effort` and `thinking-budget`: give one".into()));
        }
        if shape.api == Api::Anthropic
            && self.thinking_budget.is_some()
            && self.temperature.is_some()
        {
            return Err(self.wrong(
                "`temperature` cannot be said together with `thinking-budget` over this API: remove one".into(),
            ));
        }
        if self.batch == Some(true) && self.stream == Some(true) {
            return Err(self.wrong("batches are not streamed: remove `batch` or `stream`".into()));
        }
        if self.max_in_flight == Some(0) || self.timeout == Some(0) {
            return Err(self.wrong("`max-in-flight` and `timeout` must be at least 1".into()));
        }
        Ok(())
    }

    fn base_url(&self, preset: Option<&Provider>) -> Result<String, String> {
        let Some(url) = self
            .base_url
            .as_deref()
            .or(preset.map(|p| p.base_url.as_str()))
        else {
            return Err(self.wrong("`base-url` is missing, and no `provider` has one".into()));
        };
        let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
        let host = rest.map(|r| r.split('/').next().unwrap_or_default());
        match host {
            Some(host) if host.contains('@') => Err(self.wrong(
                "`base-url` holds a name or a password: give the key by `key-env` or `key-file`"
                    .into(),
            )),
            Some(host) if !host.is_empty() && !url.contains(['?', '#', ' ']) => {
                Ok(url.trim_end_matches('/').to_string())
            }
            _ => Err(self.wrong(format!(
                "`base-url` is `{url}`: give an address such as `http://127.0.0.1:8000/v1`"
            ))),
        }
    }

    fn key(&self, preset: Option<&Provider>) -> Result<KeySource, String> {
        match (&self.key_env, &self.key_file) {
            (Some(_), Some(_)) => {
                Err(self.wrong("there are `key-env` and `key-file`: give one".into()))
            }
            (Some(name), None) if !is_variable(name) => Err(self.wrong(
                "`key-env` is no name of a variable: the key itself does not belong into this file"
                    .into(),
            )),
            (Some(name), None) => Ok(KeySource::Env(name.clone())),
            (None, Some(path)) => Ok(KeySource::File(path.clone())),
            // A key is for whom it was made: another server does not get the preset's.
            (None, None) if self.base_url.is_some() => Ok(KeySource::None),
            (None, None) => Ok(preset
                .and_then(|p| p.key_env.clone())
                .map_or(KeySource::None, KeySource::Env)),
        }
    }

    fn max_cost(&self) -> Result<Option<u64>, String> {
        match self.max_cost {
            None => Ok(None),
            Some(dollars) if (0.0..=1e9).contains(&dollars) => {
                Ok(Some((dollars * 1e6).round() as u64))
            }
            Some(dollars) => Err(self.wrong(format!(
                "`max-cost` is {dollars}: give dollars, such as 2.50"
            ))),
        }
    }

    fn secret_headers(&self) -> Vec<(String, String)> {
        let pairs = self.headers.iter();
        pairs
            .filter_map(|(name, value)| match value {
                HeaderValue::Env(from) => Some((name.to_ascii_lowercase(), from.env.clone())),
                HeaderValue::Text(_) => None,
            })
            .collect()
    }

    fn sampling(&self, shape: &Shape) -> Result<Sampling, String> {
        let usual = Sampling::default();
        let thousandths = |name: &str, value: Option<f64>, most: f64| match value {
            None => Ok(None),
            Some(n) if n > most => Err(self.wrong(format!("`{name}` is {n}: give at most {most}"))),
            Some(n) => milli(n)
                .map(Some)
                .map_err(|e| self.wrong(format!("`{name}`: {e}"))),
        };
        let mut headers = BTreeMap::new();
        for (name, value) in &self.headers {
            let lower = name.to_ascii_lowercase();
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(token) {
                return Err(self.wrong(format!("`{}` is no name of a header", name.escape_debug())));
            }
            if matches!(lower.as_str(), "content-type" | "content-length" | "host") {
                return Err(self.wrong(format!("the header `{name}` is set by everbench")));
            }
            match value {
                HeaderValue::Env(from) if !is_variable(&from.env) => {
                    return Err(
                        self.wrong(format!("header `{name}`: `env` is no name of a variable"))
                    );
                }
                HeaderValue::Env(_) => {}
                HeaderValue::Text(_) if SECRET.iter().any(|word| lower.contains(word)) => {
                    return Err(self.wrong(format!(
                        "the header `{name}` seems to hold a secret, which does not belong into this file: write `{{ env = \"NAME\" }}`"
                    )));
                }
                HeaderValue::Text(text) if text.chars().any(char::is_control) => {
                    return Err(
                        self.wrong(format!("header `{name}`: the value has control characters"))
                    );
                }
                HeaderValue::Text(text) => {
                    headers.insert(lower, text.clone());
                }
            }
        }
        let sampling = Sampling {
            temperature_milli: thousandths("temperature", self.temperature, 2.0)?
                .unwrap_or(usual.temperature_milli),
            seed: self.seed.unwrap_or(usual.seed),
            top_p_milli: thousandths("top-p", self.top_p, 1.0)?,
            max_tokens: self.max_tokens.unwrap_or(usual.max_tokens),
            thinking: match (&self.effort, self.thinking_budget) {
                (Some(level), _) => Thinking::Effort(level.clone()),
                (None, Some(tokens)) => Thinking::Budget(tokens),
                (None, None) => Thinking::Off,
            },
            route: self.route.clone(),
            extra: self.extra(shape)?,
            headers,
        };
        if sampling.max_tokens == 0 {
            return Err(self.wrong("`max-tokens` must be at least 1".into()));
        }
        if let Thinking::Budget(tokens) = sampling.thinking
            && tokens >= sampling.max_tokens
        {
            return Err(self.wrong(format!(
                "`thinking-budget` is {tokens}, and an answer has at most {} tokens, thinking included: raise `max-tokens`",
                sampling.max_tokens
            )));
        }
        Ok(sampling)
    }

    /// The canonical text of `extra`, which must not say again what has a setting of its own.
    fn extra(&self, shape: &Shape) -> Result<String, String> {
        let extra = match &self.extra {
            None => return Ok(String::new()),
            Some(Json::Object(fields)) if fields.is_empty() => return Ok(String::new()),
            Some(extra @ Json::Object(_)) => extra,
            Some(_) => return Err(self.wrong("`extra` must be a table".into())),
        };
        let request = Request {
            system: "s".into(),
            user: "u".into(),
            model: String::new(),
            sampling: Sampling {
                top_p_milli: self.top_p.map(|_| 1000),
                thinking: match (&self.effort, self.thinking_budget) {
                    (Some(level), _) => Thinking::Effort(level.clone()),
                    (None, Some(tokens)) => Thinking::Budget(tokens),
                    (None, None) => Thinking::Off,
                },
                route: self.route.clone(),
                ..Sampling::default()
            },
            sample: 0,
        };
        let clashes = wire::clashes(shape, &request, extra);
        if let Some(name) = clashes.first() {
            return Err(self.wrong(format!(
                "`extra` sets `{name}`, which everbench sets itself: use the setting of its own"
            )));
        }
        Ok(extra.canonical())
    }
}

/// Whether this can name a variable of the environment.
fn is_variable(name: &str) -> bool {
    let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(word)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
