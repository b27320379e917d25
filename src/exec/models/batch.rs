//! Batches of a model: its questions are sent by the thousand, answered within a day, and cost less.
//! What is under way is noted before it is sent and as soon as it has a name, so that a process that
//! is killed at any moment is followed by one that collects, and does not send again.
//!
//! A batch is forgotten only when its replies are surely in the store; until then a question that is
//! asked again is looked for in it first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::client::{Answer, SendError};
use super::lane::{Lane, Question};
use super::patience::{Next, Record, Trouble};
use super::purse::Grant;
use super::{Shared, clock};
use crate::ask::Reply;
use crate::ask::wire::batch::{self, Batch, Call, State as Progress};
use crate::ask::wire::{self, Api, Fault, Wire};
use crate::digest::Digest;
use crate::engine::Failure;
use crate::job::Key;

/// How batches are made and asked after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batches {
    /// What was not joined by another question for so long is sent.
    pub quiet: Duration,
    /// When it is first looked how far a batch is; then at growing intervals.
    pub first_look: Duration,
    /// No interval is longer.
    pub longest: Duration,
}

impl Default for Batches {
    fn default() -> Self {
        Batches {
            quiet: Duration::from_secs(10),
            first_look: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

/// Replies are surely in the store so long after they were given.
const SURE: Duration = Duration::from_secs(10);

/// A batch as it is noted.
#[derive(Clone, Serialize, Deserialize)]
struct Noted {
    /// By which it is recognised if its name did not arrive.
    mark: String,
    /// Its name at the provider's; absent until that is known.
    id: Option<String>,
    /// When it was about to be sent, in milliseconds after 1970 began.
    since: u64,
    /// The questions in it, by the keys of their jobs.
    names: BTreeSet<String>,
    /// True if it was collected.
    #[serde(default)]
    collected: bool,
}

struct Open {
    noted: Noted,
    /// Those of its questions that somebody waits for, with what is reserved for each.
    asked: BTreeMap<String, (Question, u64)>,
    /// Whether somebody sends it or looks after it.
    watched: bool,
    collected_at: Option<Instant>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Question>,
    last: Option<Instant>,
    open: Vec<Open>,
}

/// The batches of one model.
#[derive(Default)]
pub(super) struct Tray(Mutex<State>);

fn notes_name(model: &str) -> String {
    format!("models/{model}/batches")
}

fn name_of(question: &Question) -> String {
    question.key().to_string()
}

impl Tray {
    /// What earlier processes noted.
    pub(super) fn read(shared: &dyn super::Notes, model: &str) -> Tray {
        let noted = shared.read(&notes_name(model));
        let noted: Vec<Noted> = noted
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let open = noted.into_iter().map(|noted| Open {
            noted,
            asked: BTreeMap::new(),
            watched: false,
            collected_at: None,
        });
        Tray(Mutex::new(State {
            open: open.collect(),
            ..State::default()
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what is not kept: what is under way can be collected another time.
    pub(super) fn forget(&self, lane: &Lane, shared: &Shared, keep: &dyn Fn(&Key) -> bool) {
        let mut gone = Vec::new();
        {
            let mut state = self.lock();
            let waiting = std::mem::take(&mut state.waiting);
            let (kept, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|q| keep(&q.key()));
            state.waiting = kept;
            gone.extend(left.into_iter().map(|question| (question, 0)));
            for open in &mut state.open {
                let asked = std::mem::take(&mut open.asked);
                for (name, (question, reserved)) in asked {
                    match keep(&question.key()) {
                        true => {
                            open.asked.insert(name, (question, reserved));
                        }
                        false => gone.push((question, reserved)),
                    }
                }
            }
        }
        for (question, reserved) in gone {
            shared.purse.settle(lane.number, reserved, 0);
            question.give_back();
        }
    }
}

impl State {
    fn note(&self, lane: &Lane, shared: &Shared) {
        let noted: Vec<&Noted> = self.open.iter().map(|open| &open.noted).collect();
        let bytes = serde_json::to_vec(&noted).expect("texts and numbers are always JSON");
        shared.keep_note(&notes_name(&lane.model.name), &bytes);
    }

    fn of(&mut self, mark: &str) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.noted.mark == mark)
    }

    /// Takes the questions of a batch out of it.
    fn take_asked(&mut self, mark: &str) -> Vec<(Question, u64)> {
        let asked = self.of(mark).map(|open| std::mem::take(&mut open.asked));
        asked.unwrap_or_default().into_values().collect()
    }
}

/// Takes a question in: into the batch in which it was sent already, or for the next one.
pub(super) fn take(lane: &Arc<Lane>, shared: &Arc<Shared>, tray: &Tray, mut question: Question) {
    let name = name_of(&question);
    let mut state = tray.lock();
    let sent = state
        .open
        .iter_mut()
        .find(|o| o.noted.names.contains(&name));
    if let Some(open) = sent {
        let worst = lane.model.worst(&question.request);
        shared.purse.owe(lane.number, worst);
        question.order.begin();
        open.asked.insert(name, (question, worst));
        if !std::mem::replace(&mut open.watched, true) {
            watch(lane, shared, open.noted.mark.clone());
        }
        return;
    }
    state.waiting.push(question);
    state.last = Some(Instant::now());
    let most = batch::limits(lane.model.shape.api).map_or(1, |(n, _)| n);
    if state.waiting.len() >= most {
        drop(state);
        send_waiting(lane, shared, tray);
    } else if state.waiting.len() == 1 {
        drop(state);
        let (lane, shared) = (lane.clone(), Arc::downgrade(shared));
        let quiet = lane.model.batches.map_or(Duration::ZERO, |b| b.quiet);
        let Some(handle) = shared.upgrade().map(|s| s.runtime.clone()) else {
            return;
        };
        handle.spawn(async move {
            loop {
                tokio::time::sleep(quiet).await;
                let (Some(shared), Some(tray)) = (shared.upgrade(), &lane.tray) else {
                    return;
                };
                let (empty, last) = {
                    let state = tray.lock();
                    (state.waiting.is_empty(), state.last)
                };
                if empty {
                    return;
                }
                if last.is_none_or(|last| last.elapsed() >= quiet) {
                    send_waiting(&lane, &shared, tray);
                    return;
                }
            }
        });
    }
}

/// Nothing more will come for now: what waits is sent, and what is surely kept is forgotten.
pub(super) fn flush(lane: &Arc<Lane>, shared: &Arc<Shared>, tray: &Tray) {
    {
        let mut state = tray.lock();
        let before = state.open.len();
        state.open.retain(|open| {
            let sure = open.collected_at.is_none_or(|at| at.elapsed() >= SURE);
            !(open.noted.collected && open.asked.is_empty() && sure)
        });
        if state.open.len() < before {
            state.note(lane, shared);
        }
    }
    send_waiting(lane, shared, tray);
}

fn send_waiting(lane: &Arc<Lane>, shared: &Arc<Shared>, tray: &Tray) {
    let Some((most, most_bytes)) = batch::limits(lane.model.shape.api) else {
        return;
    };
    loop {
        let mut state = tray.lock();
        // A reply that arrived under another revision may be the answer already, and one that is
        // under way may become it.
        let now = lane.revision();
        let waiting = std::mem::take(&mut state.waiting);
        let mut known = Vec::new();
        for question in waiting {
            match lane.moved(&question.key()) {
                Some(output) => known.push((question, Ok(output))),
                None if question.request.model == now => state.waiting.push(question),
                None => known.push((question, Err(Failure::Cancelled))),
            }
        }
        let others = state.open.iter().flat_map(|open| open.asked.values());
        let wait = others.into_iter().any(|(q, _)| q.request.model != now);
        if wait || !known.is_empty() {
            drop(state);
            let more = !known.is_empty();
            for (question, result) in known {
                question.order.end(result);
            }
            if wait || !more {
                return;
            }
            continue;
        }
        let mut requests: Vec<(String, Wire)> = Vec::new();
        let mut asked = BTreeMap::new();
        let (mut bytes, mut refused) = (0, None);
        while let Some(question) = state.waiting.last() {
            let wire = wire::encode(&lane.model.shape, &question.request);
            let size = wire.body.len() + 200;
            if requests.len() >= most || (bytes + size > most_bytes && !requests.is_empty()) {
                break;
            }
            let worst = lane.model.worst(&question.request);
            match shared.purse.reserve(lane.number, worst) {
                Grant::Yes => {}
                Grant::Wait => break,
                Grant::No(limit) => {
                    refused = Some((limit, worst));
                    break;
                }
            }
            let mut question = state.waiting.pop().expect("it was just seen");
            question.order.begin();
            bytes += size;
            let name = name_of(&question);
            requests.push((name.clone(), wire));
            asked.insert(name, (question, worst));
        }
        let left = state.waiting.len();
        if requests.is_empty() {
            drop(state);
            // While a batch is under way its money may come back.
            if let Some((limit, worst)) = refused {
                let failure = lane.penniless(limit, worst, left);
                end_all(lane, shared, tray, None, &failure);
            }
            return;
        }
        requests.sort_by(|a, b| a.0.cmp(&b.0));
        let since = clock();
        let names: BTreeSet<String> = asked.keys().cloned().collect();
        let text: String = names.iter().map(String::as_str).collect();
        let mark = Digest::of(format!("{since} {text}").as_bytes()).short();
        state.open.push(Open {
            noted: Noted {
                mark: mark.clone(),
                id: None,
                since,
                names,
                collected: false,
            },
            asked,
            watched: true,
            collected_at: None,
        });
        // The intent is durable before anything is sent.
        state.note(lane, shared);
        drop(state);
        lane.sent(requests.len());
        let (lane, shared_) = (lane.clone(), shared.clone());
        shared.runtime.spawn(async move {
            send(&lane, &shared_, &mark, &requests).await;
        });
    }
}

/// Ends all questions of a batch, or of all; the model is asked nothing more if all are meant.
fn end_all(lane: &Lane, shared: &Shared, tray: &Tray, mark: Option<&str>, failure: &Failure) {
    let mut gone: Vec<(Question, u64)> = Vec::new();
    {
        let mut state = tray.lock();
        match mark {
            Some(mark) => gone.extend(state.take_asked(mark)),
            None => {
                gone.extend(
                    std::mem::take(&mut state.waiting)
                        .into_iter()
                        .map(|q| (q, 0)),
                );
                // What is under way at the end of the money is paid for already.
                if !matches!(failure, Failure::Money { .. }) {
                    for open in &mut state.open {
                        gone.extend(std::mem::take(&mut open.asked).into_values());
                    }
                }
            }
        }
    }
    if mark.is_none() {
        for question in lane.halt(failure.clone()) {
            gone.push((question, 0));
        }
    }
    for (question, reserved) in gone {
        shared.purse.settle(lane.number, reserved, 0);
        question.order.end(Err(failure.clone()));
    }
}

async fn call(lane: &Lane, call: Call) -> Result<Answer, SendError> {
    match call.post {
        true => {
            lane.address
                .post(&call.path, &call.headers, call.body)
                .await
        }
        false => lane.address.get(&call.path, &call.headers).await,
    }
}

fn redacted<T>(lane: &Lane, result: Result<T, Fault>) -> Result<T, Trouble> {
    result.map_err(|mut fault| {
        lane.address.redact(&mut fault);
        Trouble::Fault(fault)
    })
}

/// Sends a batch; what it is called.
async fn create(lane: &Lane, mark: &str, requests: &[(String, Wire)]) -> Result<Batch, Trouble> {
    let api = lane.model.shape.api;
    let mut file = String::new();
    if api != Api::Anthropic {
        let uploaded = call(lane, batch::upload(&batch::lines(requests))).await?;
        let read = batch::read_upload(uploaded.status, &uploaded.headers, &uploaded.body);
        file = redacted(lane, read)?;
    }
    let made = call(lane, batch::submit(api, requests, &file, mark)).await?;
    let read = batch::read_batch(api, made.status, &made.headers, &made.body);
    redacted(lane, read)
}

/// Looks for a batch whose name did not arrive, by its mark or, where there is none, by its size and
/// time.
async fn find(lane: &Lane, noted: &Noted) -> Result<Option<String>, Trouble> {
    let api = lane.model.shape.api;
    let mut list = batch::look(api, "?limit=100");
    list.path = list.path.replace("/?", "?");
    let answer = call(lane, list).await?;
    let value: serde_json::Value = match serde_json::from_slice(&answer.body) {
        Ok(value) if (200..300).contains(&answer.status) => value,
        _ => {
            let read = batch::read_batch(api, answer.status, &answer.headers, &answer.body);
            redacted(lane, read)?;
            return Ok(None);
        }
    };
    let all = value["data"].as_array().cloned().unwrap_or_default();
    let ours = |one: &&serde_json::Value| match api {
        Api::Anthropic => {
            let counts = one["request_counts"].as_object();
            let size: u64 = counts
                .map(|c| c.values().filter_map(serde_json::Value::as_u64).sum())
                .unwrap_or(0);
            // Clocks differ.
            let about = (noted.since / 1000).saturating_sub(120);
            let about = crate::date::time(about.cast_signed());
            let created = one["created_at"].as_str().and_then(|at| at.get(..19));
            let near = created.is_some_and(|at| at >= about.get(..19).unwrap_or_default());
            near && size == noted.names.len() as u64
        }
        _ => one["metadata"]["everbench"] == noted.mark.as_str(),
    };
    let found = all.iter().find(ours);
    Ok(found.and_then(|one| one["id"].as_str()).map(str::to_string))
}

/// Sends a batch until it has a name, or is given up.
async fn send(lane: &Arc<Lane>, shared: &Arc<Shared>, mark: &str, requests: &[(String, Wire)]) {
    let Some(tray) = &lane.tray else {
        return;
    };
    let mut tries = 0;
    // Whether it was made cannot be told from an answer that did not come.
    let mut unclear = false;
    loop {
        let noted = tray.lock().of(mark).map(|open| open.noted.clone());
        let Some(noted) = noted else {
            return;
        };
        let made = match unclear {
            true => find(lane, &noted).await,
            false => Ok(None),
        };
        let made = match made {
            Ok(Some(id)) => Ok(id),
            Ok(None) => create(lane, mark, requests).await.map(|made| made.id),
            Err(trouble) => Err(trouble),
        };
        let trouble = match made {
            Ok(id) => {
                named(lane, shared, tray, mark, id);
                return look_after(lane, shared, tray, mark).await;
            }
            Err(trouble) => trouble,
        };
        tries += 1;
        let next = failed(lane, tray, mark, &trouble, tries);
        unclear |= match &trouble {
            Trouble::Send(SendError::Unreachable { .. } | SendError::Request(_)) => false,
            Trouble::Send(_) => true,
            Trouble::Fault(fault) => matches!(
                fault,
                Fault::Server { .. } | Fault::TimedOut { .. } | Fault::Malformed(_)
            ),
        };
        match next {
            Next::Again(wait) | Next::Pause(wait) if somebody_waits(tray, mark) => {
                tokio::time::sleep(wait).await;
            }
            next => {
                if !unclear {
                    let mut state = tray.lock();
                    let Some(open) = state.of(mark) else {
                        return;
                    };
                    open.noted.names.clear();
                    open.noted.collected = true;
                    state.note(lane, shared);
                }
                let what = format!("model `{}`: {trouble}", lane.model.name);
                give_up(lane, shared, tray, mark, next, what);
                return;
            }
        }
    }
}

/// Logs an attempt of a batch under one of its questions; what it calls for.
fn failed(lane: &Lane, tray: &Tray, mark: &str, trouble: &Trouble, tries: u32) -> Next {
    let mut state = tray.lock();
    let first = state.of(mark).and_then(|open| open.asked.values().next());
    let key = first.map_or(Key(Digest::of(mark.as_bytes())), |(q, _)| q.key());
    let record = Record {
        tries,
        in_a_row: tries,
        ever_answered: true,
    };
    let next = lane.model.patience.next(trouble, record, &key, clock());
    if let Some((question, _)) = first {
        let transient = !matches!(next, Next::StopModel { .. });
        question.order.failed(transient, &trouble.to_string());
    }
    lane.tried();
    next
}

fn somebody_waits(tray: &Tray, mark: &str) -> bool {
    let mut state = tray.lock();
    state.of(mark).is_some_and(|open| !open.asked.is_empty())
}

fn give_up(lane: &Lane, shared: &Shared, tray: &Tray, mark: &str, next: Next, what: String) {
    if let Some(open) = tray.lock().of(mark) {
        open.watched = false;
    }
    match next {
        Next::StopModel { help } => {
            let help = help.into();
            end_all(lane, shared, tray, None, &Failure::Fatal { what, help });
        }
        _ => {
            let failure = Failure::Transient(format!(
                "{what}\n  help: run again later; a batch that is under way is collected then"
            ));
            end_all(lane, shared, tray, Some(mark), &failure);
        }
    }
}

fn named(lane: &Lane, shared: &Shared, tray: &Tray, mark: &str, id: String) {
    let mut state = tray.lock();
    if let Some(open) = state.of(mark) {
        open.noted.id = Some(id.clone());
        // Durable before anything is asked of it.
        state.note(lane, shared);
    }
    drop(state);
    shared.tell(format!(
        "model `{}`: batch {id} was submitted; it can take a day, and a run that is ended goes on with it later",
        lane.model.name
    ));
}

/// Looks after a batch that another process sent.
fn watch(lane: &Arc<Lane>, shared: &Arc<Shared>, mark: String) {
    let (lane, shared_) = (lane.clone(), shared.clone());
    shared.runtime.spawn(async move {
        let Some(tray) = &lane.tray else {
            return;
        };
        let noted = tray.lock().of(&mark).map(|open| open.noted.clone());
        let Some(noted) = noted else {
            return;
        };
        if noted.id.is_none() {
            // Others of its questions come in this moment: if it has to be sent, then whole.
            tokio::time::sleep(lane.model.batches.unwrap_or_default().quiet).await;
            // It was about to be sent when that process ended: was it?
            match find(&lane, &noted).await {
                Ok(Some(id)) => named(&lane, &shared_, tray, &mark, id),
                Ok(None) => return again(&lane, &shared_, tray, &mark, None),
                Err(trouble) => {
                    let next = failed(&lane, tray, &mark, &trouble, u32::MAX);
                    let what = format!("model `{}`: {trouble}", lane.model.name);
                    return give_up(&lane, &shared_, tray, &mark, next, what);
                }
            }
        }
        look_after(&lane, &shared_, tray, &mark).await;
    });
}

/// Asks for the questions of a batch anew: it does not exist, or did not come to them.
fn again(lane: &Arc<Lane>, shared: &Arc<Shared>, tray: &Tray, mark: &str, why: Option<&str>) {
    let mut ended = Vec::new();
    {
        let mut state = tray.lock();
        for (mut question, reserved) in state.take_asked(mark) {
            shared.purse.settle(lane.number, reserved, 0);
            if let Some(why) = why {
                question.order.failed(true, why);
                question.tries += 1;
            }
            match question.tries >= lane.model.patience.tries {
                true => ended.push(question),
                false => state.waiting.push(question),
            }
        }
        state.open.retain(|open| open.noted.mark != mark);
        state.note(lane, shared);
    }
    for question in ended {
        let what = format!("model `{}`: {}", lane.model.name, why.unwrap_or_default());
        question.order.end(Err(Failure::Transient(what)));
    }
    send_waiting(lane, shared, tray);
}

/// Asks how far a batch is until it has ended, and collects it.
async fn look_after(lane: &Arc<Lane>, shared: &Arc<Shared>, tray: &Tray, mark: &str) {
    let api = lane.model.shape.api;
    let pace = lane.model.batches.unwrap_or_default();
    let mut interval = pace.first_look;
    let mut tries = 0;
    loop {
        tokio::time::sleep(interval).await;
        interval = interval.mul_f64(1.5).min(pace.longest);
        let id = {
            let mut state = tray.lock();
            let Some(open) = state.of(mark) else {
                return;
            };
            if open.asked.is_empty() {
                open.watched = false;
                return;
            }
            open.noted.id.clone().unwrap_or_default()
        };
        let looked = async {
            let answer = call(lane, batch::look(api, &id)).await?;
            let read = batch::read_batch(api, answer.status, &answer.headers, &answer.body);
            let found = redacted(lane, read)?;
            let Progress::Ended { results } = &found.state else {
                return Ok((found.state, Vec::new()));
            };
            let mut all = Vec::new();
            for path in results {
                let answer = call(lane, batch::fetch(api, path)).await?;
                let read = batch::read_results(api, answer.status, &answer.headers, &answer.body);
                all.extend(redacted(lane, read)?);
            }
            Ok::<_, Trouble>((found.state, all))
        };
        match looked.await {
            Ok((Progress::Running { .. }, _)) => tries = 0,
            Ok((Progress::Ended { .. }, results)) => {
                return collect(lane, shared, tray, mark, results);
            }
            Ok((Progress::Failed { message }, _)) if message.starts_with("expired") => {
                let why = format!("batch {id} expired before anything was answered");
                return again(lane, shared, tray, mark, Some(&why));
            }
            Ok((Progress::Failed { message }, _)) => {
                let message = lane.address.redacted(&message);
                let failure = Failure::Fatal {
                    what: format!("model `{}`: batch {id}: {message}", lane.model.name),
                    help: "mend what the provider names in the model's settings, or leave `batch` out, in everbench.toml".into(),
                };
                let mut state = tray.lock();
                let gone = state.take_asked(mark);
                state.open.retain(|open| open.noted.mark != mark);
                state.note(lane, shared);
                drop(state);
                for (question, reserved) in gone {
                    shared.purse.settle(lane.number, reserved, 0);
                    question.order.failed(false, &message);
                    question.order.end(Err(failure.clone()));
                }
                return;
            }
            Err(Trouble::Fault(Fault::NotFound { .. })) => {
                let why = format!("batch {id} is not known to the provider any more");
                return again(lane, shared, tray, mark, Some(&why));
            }
            Err(trouble) => {
                tries += 1;
                match failed(lane, tray, mark, &trouble, tries) {
                    Next::Again(wait) | Next::Pause(wait) => interval = interval.max(wait),
                    next => {
                        let what = format!("model `{}`: batch {id}: {trouble}", lane.model.name);
                        return give_up(lane, shared, tray, mark, next, what);
                    }
                }
            }
        }
    }
}

/// Gives each question of a batch what came for it.
fn collect(
    lane: &Arc<Lane>,
    shared: &Arc<Shared>,
    tray: &Tray,
    mark: &str,
    results: Vec<(String, Result<Reply, Fault>)>,
) {
    let mut answered = BTreeSet::new();
    // Answered, and not asked for in this run: they stay at the provider's, and in the note.
    let mut left_there = false;
    for (name, result) in results {
        let asked = {
            let mut state = tray.lock();
            if result.is_ok() {
                answered.insert(name.clone());
            }
            state.of(mark).and_then(|open| open.asked.remove(&name))
        };
        let Some((mut question, reserved)) = asked else {
            left_there |= result.is_ok();
            continue;
        };
        match result {
            Ok(reply) => {
                let spent = lane.answered(shared, question, reply);
                shared.purse.settle(lane.number, reserved, spent);
            }
            Err(mut fault) => {
                lane.address.redact(&mut fault);
                shared.purse.settle(lane.number, reserved, 0);
                question.tries += 1;
                lane.tried();
                let trouble = Trouble::Fault(fault);
                let record = Record {
                    tries: question.tries,
                    in_a_row: 1,
                    ever_answered: true,
                };
                let key = question.key();
                let next = lane.model.patience.next(&trouble, record, &key, clock());
                question.order.failed(true, &trouble.to_string());
                let what = format!("model `{}`: {trouble}", lane.model.name);
                match next {
                    Next::Again(_) | Next::Pause(_) if !question.order.is_stopping() => {
                        tray.lock().waiting.push(question);
                    }
                    Next::Again(_) | Next::Pause(_) => question.give_back(),
                    Next::StopModel { help } | Next::StopRequest { help } if trouble.is_final() => {
                        let help = help.into();
                        question.order.end(Err(Failure::Fatal { what, help }));
                    }
                    _ => question.order.end(Err(Failure::Transient(what))),
                }
            }
        }
    }
    // What is in no result was not answered.
    let mut state = tray.lock();
    let left = state.take_asked(mark);
    if let Some(open) = state.of(mark) {
        open.noted.names = answered;
        open.noted.collected = !left_there;
        open.collected_at = Some(Instant::now());
        open.watched = false;
    }
    let mut ended = Vec::new();
    for (mut question, reserved) in left {
        shared.purse.settle(lane.number, reserved, 0);
        question
            .order
            .failed(true, "the batch ended without an answer to it");
        question.tries += 1;
        match question.tries >= lane.model.patience.tries {
            true => ended.push(question),
            false => state.waiting.push(question),
        }
    }
    state.note(lane, shared);
    drop(state);
    for question in ended {
        let what = format!("model `{}`: batches end without an answer", lane.model.name);
        question.order.end(Err(Failure::Transient(what)));
    }
    send_waiting(lane, shared, tray);
}
