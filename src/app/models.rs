//! Models over HTTP, as a project has them: keys, prices, what was pinned and spent before, and the
//! service that asks them.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::sync::Arc;

use salsa::Setter;

use super::project::{Answering, models};
use super::{App, AppError, Options};
use crate::ask::prices::{Price, Prices};
use crate::ask::{Reply, Request, Usage};
use crate::config::{KeySource, RemoteModel};
use crate::engine::{EngineDb, Failure};
use crate::exec::models::{
    self, Batches, Model, Models, ModelsError, Notes, Patience, Pins, Secret, SecretError,
    Timeouts, USUAL_MOST_IN_FLIGHT,
};
use crate::job::Value;
use crate::oss::inputs::{self, Answers, ModelSpec};
use crate::store::{Action, Listed, Reader, Store, StoreError};

/// Where values of the environment come from: the library does not look by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment(pub Option<fn(&str) -> Option<String>>);

impl Environment {
    pub(super) fn get(self, name: &str) -> Option<String> {
        self.0.and_then(|get| get(name))
    }
}

/// The price of a model, asked one by one or in batches.
struct Priced {
    price: Price,
    batch: bool,
}

impl models::Price for Priced {
    fn worst(&self, request: &Request) -> u64 {
        self.price.worst_case(request, self.batch)
    }

    fn cost(&self, usage: &Usage) -> u64 {
        self.price.cost(usage, self.batch)
    }
}

/// What is known of a model's cost before it is asked.
pub(super) struct Tariff {
    /// Its identity without what was pinned.
    pub(super) revision: String,
    /// Its price, if one is known.
    pub(super) price: Option<Price>,
    /// Whether it is asked in batches.
    pub(super) batch: bool,
}

/// Notes of the models' service, in the store.
pub(super) struct StoreNotes(pub(super) Arc<Store>);

impl Notes for StoreNotes {
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let reader = self.0.reader().ok()?;
        let digest = reader.root(name).ok()??;
        Some(reader.blob(&digest).ok()??.to_vec())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let write = || -> Result<(), StoreError> {
            let digests = self.0.put_blobs(&[bytes])?;
            self.0.set_root(name, digests[0])
        };
        write().map_err(|e| e.to_string())
    }
}

impl From<ModelsError> for AppError {
    fn from(e: ModelsError) -> Self {
        match e {
            ModelsError::Client(_) => AppError::Environment(e.to_string()),
            _ => AppError::Input(e.to_string()),
        }
    }
}

impl App {
    /// The models called by `only` (all when there is no name), over HTTP under the revision that
    /// answered last. Those that give vectors answer nothing, and are not among them.
    ///
    /// # Errors
    /// No model of a name, or one that gives vectors.
    pub(super) fn answering(&self, only: &[String]) -> Result<Vec<Answering>, AppError> {
        let mut all = self.under_their_revisions(only)?;
        if let Some(one) = all.iter().find(|one| one.embeds() && !only.is_empty()) {
            return Err(AppError::Input(format!(
                "`{}` gives vectors and answers no question\n  help: `--embedder` takes it; name another model",
                one.spec.name
            )));
        }
        all.retain(|one| !one.embeds());
        Ok(all)
    }

    /// The model of this name, which gives vectors.
    ///
    /// # Errors
    /// There is none, or it answers questions.
    pub(super) fn embedder(&self, name: &str) -> Result<Answering, AppError> {
        let found = self.under_their_revisions(&[name.to_string()])?;
        let found = found.into_iter().find(Answering::embeds);
        found.ok_or_else(|| {
            AppError::Input(format!(
                "`{name}` gives no vectors\n  help: a model with `api = \"openai-embeddings\"` does"
            ))
        })
    }

    /// The models called by `only` (all when there is no name), those that give vectors among them.
    pub(super) fn under_their_revisions(
        &self,
        only: &[String],
    ) -> Result<Vec<Answering>, AppError> {
        let mut all = models(&self.project, only)?;
        let notes = StoreNotes(self.store.clone());
        for one in &mut all {
            let Some(remote) = &one.remote else {
                continue;
            };
            let noted = notes.read(&models::pins_name(&one.spec.name));
            let pins = Pins::read(noted.as_deref(), &remote.identity(None));
            let revision = pins.revision(&remote.shape.model);
            if let Some(spec) = under(&one.spec, &revision) {
                one.spec = Arc::new(spec);
            }
        }
        Ok(all)
    }

    /// The service that answers for these models.
    pub(super) fn asks(
        &self,
        answering: &[Answering],
        options: &Options,
    ) -> Result<Arc<Models>, AppError> {
        let prices = self.project.prices()?;
        let mut remote = Vec::new();
        for one in answering {
            if let Some(model) = &one.remote {
                remote.push(self.over_http(&one.spec, model, options, &prices)?);
            }
        }
        let replays = answering.iter().filter_map(|a| a.replay.clone());
        let notes = Arc::new(StoreNotes(self.store.clone()));
        Ok(Arc::new(Models::new(
            remote,
            replays,
            options.max_cost,
            notes,
        )?))
    }

    /// The tariffs of the models over HTTP, by name.
    pub(super) fn tariffs(
        &self,
        answering: &[Answering],
    ) -> Result<BTreeMap<String, Tariff>, AppError> {
        let prices = self.project.prices()?;
        let remote = answering.iter().filter_map(|one| {
            let remote = one.remote.as_ref()?;
            let tariff = Tariff {
                revision: remote.identity(None),
                price: prices.of(&remote.price).cloned(),
                batch: remote.batch,
            };
            Some((one.spec.name.clone(), tariff))
        });
        Ok(remote.collect())
    }

    pub(super) fn over_http(
        &self,
        spec: &ModelSpec,
        remote: &RemoteModel,
        options: &Options,
        prices: &Prices,
    ) -> Result<Model, AppError> {
        let batch = remote.batch;
        let known = prices.of(&remote.price).cloned();
        let price = known.map(|price| Arc::new(Priced { price, batch }) as Arc<dyn models::Price>);
        let revision = remote.identity(None);
        let max_cost = remote.max_cost;
        let spent = match (&price, max_cost) {
            (Some(price), Some(_)) => self.spent_on(&revision, &**price)?,
            _ => 0,
        };
        Ok(Model {
            name: spec.name.clone(),
            revision,
            sampling: remote.sampling.clone(),
            shape: remote.shape.clone(),
            base_url: remote.base_url.clone(),
            secrets: self.secrets(&spec.name, remote, options),
            most_in_flight: remote
                .max_in_flight
                .map_or(USUAL_MOST_IN_FLIGHT, |n| n as usize),
            timeouts: Timeouts {
                total: remote.timeout,
                ..Timeouts::default()
            },
            batches: remote.batch.then(Batches::default),
            patience: Patience::default(),
            price,
            max_cost,
            spent,
        })
    }

    /// The keys of a model, or what to say to everything that it is asked.
    fn secrets(
        &self,
        name: &str,
        remote: &RemoteModel,
        options: &Options,
    ) -> Result<Vec<(String, &'static str, Secret)>, Failure> {
        let refused = |what: String, help: &str| Failure::Fatal {
            what: format!("model `{name}`: {what}"),
            help: help.into(),
        };
        let of_variable = |variable: &str| match options.environment.get(variable) {
            None => Err(refused(
                format!("the variable {variable} is not set"),
                "set it to the provider's key, or name another one by `key-env`, or a file by `key-file`, in everbench.toml",
            )),
            Some(text) => Secret::new(&text, variable)
                .map_err(|e| refused(e.to_string(), "set it to the key as the provider gave it")),
        };
        let mut secrets = Vec::new();
        let credential = remote.shape.api.credential();
        let key = match &remote.key {
            KeySource::None => None,
            KeySource::Env(variable) => Some(of_variable(variable)?),
            KeySource::File(path) => {
                let read = Secret::read(&self.project.dir.join(path));
                Some(read.map_err(|e| match &e {
                    SecretError::Open { .. } => {
                        let said = e.to_string();
                        let (what, help) = said.split_once("\n  help: ").unwrap_or((&said, ""));
                        refused(what.to_string(), help)
                    }
                    _ => refused(
                        e.to_string(),
                        "put the key into that file, and nothing else",
                    ),
                })?)
            }
        };
        if let Some(key) = key {
            secrets.push((credential.header.to_string(), credential.prefix, key));
        }
        for (header, variable) in &remote.secret_headers {
            secrets.push((header.clone(), "", of_variable(variable)?));
        }
        Ok(secrets)
    }

    /// What all stored replies of a model cost, each counted once however often it was asked for.
    fn spent_on(&self, revision: &str, price: &dyn models::Price) -> Result<u64, AppError> {
        let reader = self.store.reader()?;
        let mut sum = 0;
        for answer in answers(&reader, revision)? {
            sum += price.cost(&answer?.1);
        }
        Ok(sum)
    }
}

/// What the stored answers of a model took, whatever was pinned, each with its job.
pub(super) fn answers<'a>(
    reader: &'a Reader,
    revision: &'a str,
) -> Result<impl Iterator<Item = Result<(Action, Usage), StoreError>> + use<'a>, StoreError> {
    let read = move |listed: Result<Listed, StoreError>| {
        let Some(action) = reader.action(&listed?.key)? else {
            return Ok(None);
        };
        let of_model = match action.job.inputs.get("model") {
            Some(Value::Text(model)) => models::is_of(model, revision),
            _ => false,
        };
        if !of_model {
            return Ok(None);
        }
        let reply = reader.blob(&action.output)?;
        let reply = reply.and_then(|bytes| Reply::decode(&bytes).ok());
        Ok(reply
            .and_then(|reply| reply.usage)
            .map(|usage| (action, usage)))
    };
    let all = reader.actions(Some(crate::ask::COMPLETION.name))?;
    Ok(all.filter_map(move |listed| read(listed).transpose()))
}

/// The model under another revision; nothing if it has that one, or none at all.
fn under(spec: &ModelSpec, revision: &str) -> Option<ModelSpec> {
    let mut spec = spec.clone();
    match &mut spec.answers {
        Answers::Remote { revision: old, .. } if old != revision => {
            *old = revision.to_string();
            Some(spec)
        }
        _ => None,
    }
}

/// Sets the models' inputs to the revisions that answer now.
pub(super) fn follow(db: &mut EngineDb, inputs: &[inputs::Model], service: &Models) {
    let now: BTreeMap<String, String> = service.revisions().into_iter().collect();
    for input in inputs {
        let spec = input.spec(db).clone();
        if let Some(revision) = now.get(&spec.name)
            && let Some(spec) = under(&spec, revision)
        {
            input.set_spec(db).to(Arc::new(spec));
        }
    }
}
