//! The models of a project: as a list, with one question asked of one of them, and what one
//! has answered as a recording.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::retract::retracted_keys;
use super::{App, AppError, Environment, Options, Project};
use crate::ask::prices::Prices;
use crate::ask::{COMPLETION, Reply, Request, Sampling, Thinking};
use crate::config::{KeySource, ModelConfig, RemoteModel};
use crate::digest::Digest;
use crate::exec::answer::recording;
use crate::exec::models::{Secret, ask_once};
use crate::job::{Job, Value};
use crate::oss::inputs::Card;

/// A model of a project.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Listed {
    /// Its name in the project.
    pub name: String,
    /// `calibration`, `replay` or `http`.
    pub kind: &'static str,
    /// Since when it is not asked any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired: Option<String>,
    /// What completions' keys call it, as far as the project file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// How it is reached over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Reached>,
    /// What is known of it.
    pub card: Card,
}

/// How a model over HTTP is reached.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reached {
    /// The preset's name, or `custom`.
    pub provider: String,
    /// What it speaks.
    pub api: &'static str,
    /// The server.
    pub base_url: String,
    /// The model's name there.
    pub id: String,
    /// Its key, never the value.
    pub key: KeyState,
    /// The day of its price, if that is known; or what to say instead of a day.
    pub price: PriceState,
    /// Settings of the usual request that cannot be said to it, and are left out.
    pub omitted: Vec<String>,
}

/// Whether there is a key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum KeyState {
    /// None is sent.
    NotNeeded,
    /// There is one.
    Present {
        /// The variable or the file.
        from: String,
    },
    /// There is none that can be used.
    Missing {
        /// The variable or the file.
        from: String,
        /// Why not.
        why: String,
    },
}

/// Whether there is a price.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum PriceState {
    /// It is in a table.
    Known {
        /// When it was read there.
        #[serde(skip_serializing_if = "Option::is_none")]
        date: Option<String>,
        /// Where.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// It is in none: runs with a limit of cost refuse the model.
    Unknown {
        /// The name to write into a `[[price]]` row.
        name: String,
    },
}

impl Project {
    /// All models of the project file, in its order. Asks nobody.
    ///
    /// # Errors
    /// A price file or a recording that cannot be read.
    pub fn roster(&self, environment: Environment) -> Result<Vec<Listed>, AppError> {
        let prices = self.prices()?;
        let models = self.config.models.iter();
        models
            .map(|model| self.listed(model, environment, &prices))
            .collect()
    }

    fn listed(
        &self,
        model: &ModelConfig,
        environment: Environment,
        prices: &Prices,
    ) -> Result<Listed, AppError> {
        let answering = super::project::answering(self, model)?;
        let http = answering.remote.as_deref();
        Ok(Listed {
            name: model.name.clone(),
            kind: match (&model.calibration, http) {
                (Some(_), _) => "calibration",
                (None, Some(_)) => "http",
                (None, None) => "replay",
            },
            retired: model.retired.clone(),
            revision: answering.spec.answers.asked().map(|(r, ..)| r.to_string()),
            http: http.map(|remote| self.reached(remote, environment, prices)),
            card: answering.spec.card.clone(),
        })
    }

    fn reached(&self, remote: &RemoteModel, environment: Environment, prices: &Prices) -> Reached {
        let request = question(remote.identity(None), &remote.sampling);
        Reached {
            provider: remote.provider.clone(),
            api: remote.shape.api.name(),
            base_url: remote.base_url.clone(),
            id: remote.shape.model.clone(),
            key: self.key_state(&remote.key, environment),
            price: match prices.of(&remote.price) {
                Some(price) => PriceState::Known {
                    date: price.date.clone(),
                    source: price.source.clone(),
                },
                None => PriceState::Unknown {
                    name: remote.price.clone(),
                },
            },
            omitted: crate::ask::wire::encode(&remote.shape, &request).omitted,
        }
    }

    fn key_state(&self, key: &KeySource, environment: Environment) -> KeyState {
        let (from, secret) = match key {
            KeySource::None => return KeyState::NotNeeded,
            KeySource::Env(name) => {
                let Some(text) = environment.get(name) else {
                    return KeyState::Missing {
                        from: name.clone(),
                        why: "the variable is not set".into(),
                    };
                };
                (name.clone(), Secret::new(&text, name))
            }
            KeySource::File(path) => {
                let path = self.dir.join(path);
                (path.display().to_string(), Secret::read(&path))
            }
        };
        match secret {
            Ok(_) => KeyState::Present { from },
            Err(e) => KeyState::Missing {
                from,
                why: e.to_string(),
            },
        }
    }

    /// What tokens cost, as the program and the project know it.
    ///
    /// # Errors
    /// A price file that cannot be read, or is wrong.
    pub fn prices(&self) -> Result<Prices, AppError> {
        let path = self.config.prices.as_ref().map(|p| self.dir.join(p));
        let text = match &path {
            Some(path) => Some(
                std::fs::read_to_string(path)
                    .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))?,
            ),
            None => None,
        };
        let place = path.unwrap_or_else(|| crate::config::FILE.into());
        self.config
            .price_table(text.as_deref())
            .map_err(|e| AppError::Input(format!("{}: {e}", place.display())))
    }
}

/// One small thing to ask.
fn question(model: String, sampling: &Sampling) -> Request {
    /// Enough for a word, and for what OpenAI takes at least.
    const WORD: u32 = 64;
    let mut sampling = sampling.clone();
    // A budget of thinking must fit into the limit.
    if !matches!(sampling.thinking, Thinking::Budget(_)) {
        sampling.max_tokens = sampling.max_tokens.min(WORD);
    }
    Request {
        system: "Answer with one word.".into(),
        user: "Which keyword of C ends a function and gives its value?".into(),
        model,
        sampling,
        sample: 0,
    }
}

/// What came of one question.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Probe {
    /// The model.
    #[serde(flatten)]
    pub model: Listed,
    /// What came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// Why nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
    /// What it cost, in millionths of a dollar, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// What the configuration lacks, in sentences.
    pub lacks: Vec<String>,
}

/// Why there was no answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Trouble {
    /// In one word.
    pub kind: &'static str,
    /// In a sentence.
    pub said: String,
    /// Whether the same can be answered a little later.
    pub passing: bool,
}

impl App {
    /// Asks a model over HTTP one small thing, once, and keeps nothing of it.
    ///
    /// # Errors
    /// There is no such model, or it is none over HTTP; its key cannot be used.
    pub fn probe(&self, name: &str, options: &Options) -> Result<Probe, AppError> {
        let project = &self.project;
        let answering = self.under_their_revisions(&[name.to_string()])?;
        let Some((spec, remote)) = answering
            .iter()
            .find_map(|a| Some((&a.spec, a.remote.as_ref()?)))
        else {
            return Err(AppError::Input(format!(
                "model `{name}` is not asked over HTTP: there is nothing to check"
            )));
        };
        let prices = project.prices()?;
        let mut roster = project.roster(options.environment)?;
        roster.retain(|listed| listed.name == name);
        let mut listed = roster.remove(0);
        let mut model = self.over_http(spec, remote, options, &prices)?;
        model.timeouts.total = model.timeouts.total.min(Duration::from_secs(120));
        let revision = spec
            .answers
            .asked()
            .map(|(revision, ..)| revision.to_string());
        let request = question(revision.clone().unwrap_or_default(), &remote.sampling);
        listed.revision = revision;
        let began = Instant::now();
        let answer = ask_once(model, &request)?;
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (reply, trouble) = match answer {
            Ok(reply) => (Some(reply), None),
            Err((kind, said, passing)) => {
                let trouble = Trouble {
                    kind,
                    said,
                    passing,
                };
                (None, Some(trouble))
            }
        };
        let usage = reply.as_ref().and_then(|reply| reply.usage);
        let micro_usd = usage.and_then(|usage| Some(prices.of(&remote.price)?.cost(&usage, false)));
        Ok(Probe {
            lacks: lacks(&listed, remote, reply.as_ref()),
            model: listed,
            reply,
            trouble,
            milliseconds,
            micro_usd,
        })
    }

    /// What a model that is asked by prompt has answered, as the lines of a replay file, and how
    /// many answers these are. Retracted ones are left out.
    ///
    /// # Errors
    /// There is no such model, or it is a calibration; those of the store.
    pub fn record(&self, name: &str) -> Result<(String, usize), AppError> {
        let answering = self.under_their_revisions(&[name.to_string()])?;
        let spec = &answering[0].spec;
        let Some(asked) = spec.answers.asked() else {
            return Err(AppError::Input(format!(
                "model `{name}` is a calibration: it has no replies to record"
            )));
        };
        let (revision, sampling, _) = asked;
        let reader = self.store.reader()?;
        let retracted = retracted_keys(&reader)?;
        let mut replies: BTreeMap<Digest, Reply> = BTreeMap::new();
        for listed in reader.actions(Some(COMPLETION.name))? {
            let key = listed?.key;
            let Some(action) = reader.action(&key)? else {
                continue;
            };
            let inputs = &action.job.inputs;
            let of_model = matches!(inputs.get("model"), Some(Value::Text(m)) if m == revision);
            if !of_model || retracted.contains_key(&key) {
                continue;
            }
            let job = inputs
                .iter()
                .fold(Job::of(COMPLETION), |job, (name, value)| {
                    job.put(known(name), value.clone())
                });
            let blob = |digest| reader.preimage(&digest).ok().flatten();
            let Ok(request) = Request::of_job(&job.done(), blob) else {
                continue;
            };
            if request.sampling != *sampling || request.sample != 0 {
                continue;
            }
            let bytes = reader.blob(&action.output)?;
            if let Some(reply) = bytes.and_then(|bytes| Reply::decode(&bytes).ok()) {
                replies.insert(request.prompt_digest(), reply);
            }
        }
        Ok((recording(asked, &spec.card, &replies), replies.len()))
    }
}

/// The name of a completion's input, as jobs want it.
fn known(name: &str) -> &'static str {
    const NAMES: [&str; 12] = [
        "system",
        "user",
        "model",
        "temperature_milli",
        "seed",
        "top_p_milli",
        "max_tokens",
        "thinking",
        "sample",
        "route",
        "extra",
        "headers",
    ];
    NAMES.into_iter().find(|n| *n == name).unwrap_or("unknown")
}

/// What a person might want to add, in sentences.
fn lacks(listed: &Listed, remote: &RemoteModel, reply: Option<&Reply>) -> Vec<String> {
    let mut lacks = Vec::new();
    if let Some(http) = &listed.http {
        if let KeyState::Missing { from, why } = &http.key {
            lacks.push(format!("the key: {from}: {why}"));
        }
        if let PriceState::Unknown { name } = &http.price {
            lacks.push(format!(
                "a price: write a `[[price]]` row for `{name}`, without which `--max-cost` refuses the model"
            ));
        }
        for setting in &http.omitted {
            lacks.push(format!(
                "`{setting}` cannot be said to this model, and is left out: its own default holds"
            ));
        }
    }
    let served = reply.and_then(|reply| reply.served_model.as_deref());
    if remote.revision.is_none() {
        match served {
            Some(served) if served != remote.shape.model => lacks.push(format!(
                "a pinned id: `{}` is an alias, of `{served}` today; the first answer of a run pins it",
                remote.shape.model
            )),
            _ => lacks.push(
                "a `revision`: a digest of the weights or a date, should the name come to mean another model".into(),
            ),
        }
    }
    if listed.card.cutoff.is_none() {
        lacks.push(
            "a `cutoff` in its card: without it `score --since-cutoff` leaves the model out".into(),
        );
    }
    if reply.is_some_and(|reply| reply.usage.is_none()) {
        lacks
            .push("counts of tokens: the server sends none, so nothing can be said of cost".into());
    }
    lacks
}
