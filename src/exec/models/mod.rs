//! Models over HTTP: the service that answers completions. Requests of all models are under way at
//! once, on a runtime of their own with two threads; nothing asynchronous is seen from outside.
//!
//! - `batch`: requests by the thousand, collected within a day.
//! - `client`: one request, sent once, its reply read within limits.
//! - `patience`: what a failed attempt calls for; the only place that decides about trying again.
//! - `lane`: one model, its queue, and how many of its requests are under way.
//! - `pins`: which model answered under a name.
//! - `purse`: what may be spent.
//! - `secret`: keys, which cannot be shown.
//!
//! Recorded replies are answered here too: to queries both are completions.

mod batch;
mod client;
mod lane;
mod patience;
mod pins;
mod purse;
mod secret;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Url;
use reqwest::header::HeaderName;
use tokio::sync::watch;

pub use batch::Batches;
pub use client::Timeouts;
pub use lane::Counts;
pub use patience::Patience;
pub use pins::Pins;
pub use secret::{Secret, SecretError};

use super::answer::{Replay, replayed};
use crate::ask::prices::dollars;
use crate::ask::wire::Shape;
use crate::ask::{Reply, Request, Sampling, Usage};
use crate::engine::{Failure, Order, Service};
use crate::job::Key;
use batch::Tray;
use client::Address;
use lane::{Lane, Question};
use patience::Trouble;
use purse::Purse;

/// What requests cost, in millionths of a dollar.
pub trait Price: Send + Sync {
    /// The most that a request can cost.
    fn worst(&self, request: &Request) -> u64;
    /// What a reply did cost.
    fn cost(&self, usage: &Usage) -> u64;
}

/// What is kept beside the store's facts: who answered, which batches are under way.
pub trait Notes: Send + Sync {
    /// What was last kept under a name.
    fn read(&self, name: &str) -> Option<Vec<u8>>;
    /// Keeps something under a name, durably.
    ///
    /// # Errors
    /// Why it could not be kept.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String>;
}

/// A model over HTTP, as a run asks it.
pub struct Model {
    /// Its name in the project.
    pub name: String,
    /// What its completions' keys call it, without what the provider says of it.
    pub revision: String,
    /// How it samples: two models of a project can differ in nothing else.
    pub sampling: Sampling,
    /// How it is talked to.
    pub shape: Shape,
    /// What stands before the path of a request.
    pub base_url: String,
    /// Headers whose values are secrets: name, what stands before the secret, the secret. Or why
    /// there are none: then every request is answered with that.
    pub secrets: Result<Vec<(String, &'static str, Secret)>, Failure>,
    /// The most requests that are under way at once; usually a few dozen.
    pub most_in_flight: usize,
    /// How long is waited for it.
    pub timeouts: Timeouts,
    /// Whether its questions go in batches, and how these are made.
    pub batches: Option<Batches>,
    /// How often and how long is waited after failures.
    pub patience: Patience,
    /// What it costs, if that is known.
    pub price: Option<Arc<dyn Price>>,
    /// What it may cost in all runs, in millionths of a dollar.
    pub max_cost: Option<u64>,
    /// What it has cost so far.
    pub spent: u64,
}

/// Requests that are under way at once where nobody sets a limit.
pub const USUAL_MOST_IN_FLIGHT: usize = lane::USUAL_MOST;

impl Model {
    fn worst(&self, request: &Request) -> u64 {
        self.price.as_ref().map_or(0, |price| price.worst(request))
    }

    fn cost(&self, usage: &Usage) -> u64 {
        self.price.as_ref().map_or(0, |price| price.cost(usage))
    }
}

/// What a model was asked in a run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Account {
    /// The model's name in the project.
    pub model: String,
    /// The revision that is asked now.
    pub revision: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// Why it was not asked further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// What a run was told and what it spent.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Statement {
    /// Models over HTTP, in the project's order.
    pub models: Vec<Account>,
    /// What all of them cost in this run, in millionths of a dollar, as far as prices are known.
    pub micro_usd: u64,
    /// What this run may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_micro_usd: Option<u64>,
    /// True if requests were not sent because of what they could have cost.
    pub out_of_money: bool,
    /// What happened that people should know: who answers, and what changed about that.
    pub events: Vec<String>,
}

/// The service for completions.
pub struct Models {
    shared: Arc<Shared>,
    replays: BTreeMap<String, Arc<Replay>>,
    runtime: Option<tokio::runtime::Runtime>,
}

struct Shared {
    lanes: Vec<Arc<Lane>>,
    purse: Purse,
    notes: Arc<dyn Notes>,
    events: Mutex<Vec<String>>,
    aborted: watch::Sender<bool>,
    runtime: tokio::runtime::Handle,
}

impl Shared {
    fn tell(&self, what: String) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(what);
    }

    /// Keeps a note. That it could not be kept must not end a run whose replies can be.
    fn keep_note(&self, name: &str, bytes: &[u8]) {
        if let Err(e) = self.notes.write(name, bytes) {
            self.tell(format!("{name} could not be noted: {e}"));
        }
    }
}

/// Models that cannot be asked as the project says.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// An address that is none.
    #[error("model `{model}`: `{url}` is no address: {why}")]
    Address {
        /// The model.
        model: String,
        /// What is said.
        url: String,
        /// Why.
        why: String,
    },
    /// There is no way to speak HTTP here.
    #[error("requests cannot be sent: {0}")]
    Client(String),
    /// What may be spent is limited, and what is spent is not known.
    #[error(
        "model `{0}`: there is a limit to what may be spent, and its price is not known\n  help: name its price in the price table, or leave the model out by `--model`"
    )]
    NoPrice(String),
}

impl Models {
    /// A service that asks these models and answers for these recordings; `max_cost` is what the
    /// run may cost, in millionths of a dollar.
    ///
    /// # Errors
    /// See [`ModelsError`].
    pub fn new(
        models: Vec<Model>,
        replays: impl IntoIterator<Item = Arc<Replay>>,
        max_cost: Option<u64>,
        notes: Arc<dyn Notes>,
    ) -> Result<Models, ModelsError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("models")
            .enable_all()
            .build()
            .map_err(|e| ModelsError::Client(e.to_string()))?;
        let accounts: Vec<_> = models.iter().map(|m| (m.max_cost, m.spent)).collect();
        let mut clients: HashMap<(String, Duration), reqwest::Client> = HashMap::new();
        let mut lanes = Vec::new();
        for (number, mut model) in models.into_iter().enumerate() {
            let limited = max_cost.is_some() || model.max_cost.is_some();
            if limited && model.price.is_none() {
                return Err(ModelsError::NoPrice(model.name));
            }
            let bad = |why: String| ModelsError::Address {
                model: model.name.clone(),
                url: model.base_url.clone(),
                why,
            };
            let base = Url::parse(&model.base_url).map_err(|e| bad(e.to_string()))?;
            if !matches!(base.scheme(), "http" | "https") {
                return Err(bad("it is neither http nor https".into()));
            }
            let shared_by = (base.origin().ascii_serialization(), model.timeouts.connect);
            let client = match clients.get(&shared_by) {
                Some(client) => client.clone(),
                None => {
                    let client =
                        client::client(&base, &model.timeouts).map_err(ModelsError::Client)?;
                    clients.insert(shared_by, client.clone());
                    client
                }
            };
            let mut secrets = Vec::new();
            let (given, unusable) = match std::mem::replace(&mut model.secrets, Ok(Vec::new())) {
                Ok(given) => (given, None),
                Err(failure) => (Vec::new(), Some(failure)),
            };
            for (name, prefix, secret) in given {
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| bad(format!("`{name}` is no name of a header")))?;
                secrets.push((name, prefix, secret));
            }
            let address = Address {
                client,
                base,
                secrets,
                timeouts: model.timeouts,
                usual: OnceLock::new(),
            };
            let noted = notes.read(&pins_name(&model.name));
            let pins = Pins::read(noted.as_deref(), &model.revision);
            let tray = model.batches.map(|_| Tray::read(&*notes, &model.name));
            let lane = Lane::new(model, address, number, pins, unusable, tray);
            lanes.push(Arc::new(lane));
        }
        let shared = Shared {
            lanes,
            purse: Purse::new(max_cost, accounts),
            notes,
            events: Mutex::default(),
            aborted: watch::Sender::new(false),
            runtime: runtime.handle().clone(),
        };
        Ok(Models {
            shared: Arc::new(shared),
            replays: replays
                .into_iter()
                .map(|replay| (replay.revision.clone(), replay))
                .collect(),
            runtime: Some(runtime),
        })
    }

    /// The revision that each model over HTTP is asked under now, by the model's name.
    pub fn revisions(&self) -> Vec<(String, String)> {
        let lanes = self.shared.lanes.iter();
        lanes
            .map(|lane| (lane.model.name.clone(), lane.revision()))
            .collect()
    }

    /// What was asked and spent so far.
    pub fn statement(&self) -> Statement {
        let (micro_usd, max_micro_usd) = self.shared.purse.run();
        let lanes = self.shared.lanes.iter();
        let events = self.shared.events.lock();
        Statement {
            models: lanes
                .map(|lane| Account {
                    model: lane.model.name.clone(),
                    revision: lane.revision(),
                    counts: lane.counts(),
                    stopped: lane.stopped().map(said),
                })
                .collect(),
            micro_usd,
            max_micro_usd,
            out_of_money: self
                .shared
                .lanes
                .iter()
                .any(|lane| matches!(lane.stopped(), Some(Failure::Money { .. }))),
            events: events.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// Asks a model one thing, once, apart from any run: nothing is tried again, kept or noted. Why there
/// is no answer comes as a word, a sentence, and whether it can pass.
///
/// # Errors
/// See [`ModelsError`].
pub fn ask_once(
    model: Model,
    request: &Request,
) -> Result<Result<Reply, (&'static str, String, bool)>, ModelsError> {
    struct Nowhere;
    impl Notes for Nowhere {
        fn read(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn write(&self, _: &str, _: &[u8]) -> Result<(), String> {
            Ok(())
        }
    }
    let no_key = model.secrets.as_ref().err().map(|f| said(f.clone()));
    if let Some(why) = no_key {
        return Ok(Err(("no-key", why, false)));
    }
    let model = Model {
        max_cost: None,
        batches: None,
        ..model
    };
    let models = Models::new(vec![model], [], None, Arc::new(Nowhere))?;
    let lane = Arc::clone(&models.shared.lanes[0]);
    let answered = models.shared.runtime.block_on(lane.ask(request));
    Ok(match answered {
        Ok((reply, _)) => Ok(reply),
        Err(Trouble::Fault(fault)) => {
            let passing = fault.remedy() == crate::ask::wire::Remedy::Retry;
            Err((fault.kind(), fault.to_string(), passing))
        }
        Err(Trouble::Send(e)) => Err(("unreachable", e.to_string(), true)),
    })
}

/// Why a model is asked no more, in one line.
fn said(failure: Failure) -> String {
    let text = match failure {
        Failure::Transient(why) => why,
        Failure::Fatal { what, .. }
        | Failure::Absent { what, .. }
        | Failure::Money { what, .. } => what,
        Failure::Cancelled => "stopped".into(),
    };
    text.lines().next().unwrap_or_default().to_string()
}

impl Service for Models {
    fn take(&self, mut order: Order) {
        let request = match Request::of_job(order.job(), |digest| order.blob(digest)) {
            Ok(request) => request,
            Err(e) => {
                order.end(Err(Failure::Fatal {
                    what: e.to_string(),
                    help: "this is a fault in everbench; please report it".into(),
                }));
                return;
            }
        };
        if let Some(replay) = self.replays.get(&request.model) {
            order.begin();
            let reply = replayed(replay, &request);
            if let Err(Failure::Fatal { what, .. }) = &reply {
                order.failed(false, what);
            }
            order.end(reply);
            return;
        }
        let lanes = self.shared.lanes.iter();
        let own: Vec<&Arc<Lane>> = lanes.filter(|l| l.owns(&request.model)).collect();
        let same = own.iter().find(|l| l.model.sampling == request.sampling);
        match same.or(own.first()).map(|lane| Arc::clone(lane)) {
            Some(lane) => lane.take(&self.shared, Question::new(order, request)),
            None => {
                let what = format!("nothing answers for model `{}`", request.model);
                order.end(Err(Failure::Fatal {
                    what,
                    help: "add it to `everbench.toml`".into(),
                }));
            }
        }
    }

    fn flush(&self) {
        for lane in &self.shared.lanes {
            if let Some(tray) = &lane.tray {
                batch::flush(lane, &self.shared, tray);
            }
        }
    }

    fn forget(&self, keep: &dyn Fn(&Key) -> bool) {
        for lane in &self.shared.lanes {
            lane.forget(&self.shared, keep);
        }
    }

    fn abort(&self) {
        self.shared.aborted.send_replace(true);
        for lane in &self.shared.lanes {
            lane.forget(&self.shared, &|_| false);
        }
    }

    fn status(&self) -> Option<String> {
        if self.shared.lanes.is_empty() {
            return None;
        }
        let all: Vec<Counts> = self.shared.lanes.iter().map(|l| l.counts()).collect();
        let tokens: u64 = all.iter().map(|c| c.input_tokens + c.output_tokens).sum();
        let mut text = format!("{} tokens", thousands(tokens));
        let (spent, cap) = self.shared.purse.run();
        if all.iter().any(|c| c.micro_usd.is_some()) {
            text.push_str(&format!(", {} spent", dollars(spent)));
        }
        if let Some(cap) = cap {
            text.push_str(&format!(" of {}", dollars(cap)));
        }
        Some(text)
    }
}

/// `1234` as `1.2k`.
fn thousands(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        _ => format!("{:.2}M", n as f64 / 1e6),
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        self.shared.aborted.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Under which name it is noted who answered for a model: see [`Pins`].
pub fn pins_name(model: &str) -> String {
    format!("models/{model}/pins")
}

/// Whether `model`, as a completion's key has it, is a revision of the one that the project calls
/// `revision`.
pub fn is_of(model: &str, revision: &str) -> bool {
    let rest = model.strip_prefix(revision);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

/// Milliseconds after 1970 began.
fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
