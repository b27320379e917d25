//! One model over HTTP: its queue, how many of its requests are under way, when it is left alone, and
//! what became of each request. Requests run on the runtime of [`super::Models`]; everything here
//! that decides is done under one lock and does not wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::batch::{self, Tray};
use super::client::{Address, Answer};
use super::patience::{Next, Record, Trouble, spent_until};
use super::pins::{Pins, Seen};
use super::purse::{Grant, Limit};
use super::{Model, Shared, clock, is_of, pins_name};
use crate::ask::prices::dollars;
use crate::ask::wire::{self, RateLimits};
use crate::ask::{COMPLETION, Reply, Request};
use crate::engine::{Failure, Order, Output};
use crate::job::Key;

/// How many requests are under way at once before anything is known of a model.
const FIRST_LIMIT: f64 = 16.0;
/// How many more may be under way for each success until the first sign of too much: with two, as
/// many again twice in each round.
const EAGERNESS: f64 = 2.0;
/// No more, where neither the project nor the provider sets a limit.
pub(super) const USUAL_MOST: usize = 64;
/// More new names than this in one run, and a name says nothing.
const MOST_REVISIONS: u32 = 3;

/// A question that is to be asked.
pub(super) struct Question {
    pub(super) order: Order,
    pub(super) request: Request,
    /// Attempts that failed.
    pub(super) tries: u32,
}

impl Question {
    pub(super) fn new(order: Order, request: Request) -> Question {
        Question {
            order,
            request,
            tries: 0,
        }
    }

    pub(super) fn key(&self) -> Key {
        self.order.job().key()
    }

    pub(super) fn give_back(self) {
        self.order.end(Err(Failure::Cancelled));
    }
}

/// A model's counts in this run.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Counts {
    /// Requests that were sent.
    pub requests: u64,
    /// Replies that were kept.
    pub replies: u64,
    /// Attempts that gave nothing.
    pub failed: u64,
    /// Tokens of the questions.
    pub input_tokens: u64,
    /// Those of them that the provider had at hand.
    pub cached_input_tokens: u64,
    /// Tokens of the answers, thinking included.
    pub output_tokens: u64,
    /// Those of them that were thinking.
    pub reasoning_tokens: u64,
    /// What the replies cost, in millionths of a dollar; absent if the price is not known.
    pub micro_usd: Option<u64>,
    /// Replies that did not say how many tokens they took.
    pub without_usage: u64,
    /// How often the provider named another fingerprint.
    pub fingerprint_changes: u64,
    /// The most requests that were under way at once.
    pub most_in_flight: u64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Question>,
    /// Until when each is to be left alone.
    later: Vec<(Instant, Question)>,
    /// Asked for under a new revision, while replies under way can still turn out to be theirs.
    held: Vec<Question>,
    in_flight: InFlight,
    limit: f64,
    /// Tripling until the first sign of too much.
    eager: bool,
    paused: Option<Instant>,
    /// For which moment a timer is set.
    timer: Option<Instant>,
    stopped: Option<Failure>,
    pins: Pins,
    /// Outputs that turned out to belong to other keys than those asked for.
    moved: HashMap<Key, Output>,
    revisions: u32,
    turns: u32,
    /// Failures without a success in between. Those that were sent before the last one that
    /// counts say nothing new and are not counted.
    in_a_row: u32,
    last_failure: Option<Instant>,
    ever_answered: bool,
    counts: Counts,
}

/// What is under way.
#[derive(Default)]
struct InFlight {
    /// The keys under which it was asked, with the revision.
    keys: HashMap<Key, String>,
    /// How many of each revision.
    revisions: BTreeMap<String, usize>,
}

impl InFlight {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn begin(&mut self, key: Key, revision: &str) {
        self.keys.insert(key, revision.to_string());
        match self.revisions.get_mut(revision) {
            Some(n) => *n += 1,
            None => {
                self.revisions.insert(revision.to_string(), 1);
            }
        }
    }

    fn end(&mut self, key: &Key) {
        let Some(revision) = self.keys.remove(key) else {
            return;
        };
        if let Some(n) = self.revisions.get_mut(&revision) {
            *n -= 1;
            if *n == 0 {
                self.revisions.remove(&revision);
            }
        }
    }

    /// Whether something was asked under another revision than this.
    fn any_but(&self, revision: &str) -> bool {
        self.revisions.keys().any(|other| other != revision)
    }
}

/// A model with its state.
pub(super) struct Lane {
    pub(super) model: Model,
    pub(super) address: Address,
    pub(super) number: usize,
    /// Where its questions are gathered, if they go in batches.
    pub(super) tray: Option<Tray>,
    state: Mutex<State>,
}

/// A task to be started once the lock is free.
struct Start {
    question: Question,
    reserved: u64,
    sent: Instant,
}

impl Lane {
    pub(super) fn new(
        model: Model,
        address: Address,
        number: usize,
        pins: Pins,
        stopped: Option<Failure>,
        tray: Option<Tray>,
    ) -> Lane {
        let priced = model.price.is_some();
        let state = State {
            limit: FIRST_LIMIT.min(model.most_in_flight as f64),
            eager: true,
            pins,
            stopped,
            counts: Counts {
                micro_usd: priced.then_some(0),
                ..Counts::default()
            },
            ..State::default()
        };
        Lane {
            model,
            address,
            number,
            tray,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests that name this revision are asked here.
    pub(super) fn owns(&self, revision: &str) -> bool {
        is_of(revision, &self.model.revision)
    }

    /// The revision of what is asked now.
    pub(super) fn revision(&self) -> String {
        self.lock().pins.revision(&self.model.shape.model)
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Why the model is asked nothing more.
    pub(super) fn stopped(&self) -> Option<Failure> {
        self.lock().stopped.clone()
    }

    /// Takes a question in.
    pub(super) fn take(self: &Arc<Self>, shared: &Arc<Shared>, question: Question) {
        let mut state = self.lock();
        if let Some(failure) = state.stopped.clone() {
            drop(state);
            question.order.end(Err(failure));
            return;
        }
        // A reply that arrived under another revision may be the answer already.
        if let Some(output) = state.moved.get(&question.key()) {
            let output = output.clone();
            drop(state);
            question.order.end(Ok(output));
            return;
        }
        let now = state.pins.revision(&self.model.shape.model);
        if question.request.model != now {
            drop(state);
            question.give_back();
            return;
        }
        if let Some(tray) = &self.tray {
            drop(state);
            batch::take(self, shared, tray, question);
            return;
        }
        if state.in_flight.any_but(&now) {
            state.held.push(question);
            return;
        }
        state.queue.push_back(question);
        drop(state);
        self.pump(shared);
    }

    /// Sends what may be sent now.
    pub(super) fn pump(self: &Arc<Self>, shared: &Arc<Shared>) {
        loop {
            let mut done = Vec::new();
            let start = self.next(&mut self.lock(), shared, &mut done);
            for (question, result) in done {
                question.order.end(result);
            }
            let Some(mut start) = start else {
                return;
            };
            start.question.order.begin();
            let (lane, shared) = (self.clone(), shared.clone());
            let handle = shared.runtime.clone();
            handle.spawn(async move {
                let mut aborted = shared.aborted.subscribe();
                let ask = lane.ask(&start.question.request);
                // What has arrived counts, even if everything is to end.
                let outcome = tokio::select! {
                    biased;
                    outcome = ask => Some(outcome),
                    _ = aborted.wait_for(|is| *is) => None,
                };
                lane.settle(&shared, start, outcome);
            });
        }
    }

    fn next(
        self: &Arc<Self>,
        state: &mut State,
        shared: &Arc<Shared>,
        done: &mut Vec<(Question, Result<Output, Failure>)>,
    ) -> Option<Start> {
        let now = Instant::now();
        if *shared.aborted.borrow() {
            let all = drain(state);
            done.extend(all.map(|q| (q, Err(Failure::Cancelled))));
            return None;
        }
        if let Some(until) = state.paused {
            if now < until {
                self.wake(state, shared, until);
                return None;
            }
            state.paused = None;
        }
        let due: Vec<usize> = (0..state.later.len())
            .rev()
            .filter(|at| state.later[*at].0 <= now)
            .collect();
        for at in due {
            let (_, question) = state.later.swap_remove(at);
            state.queue.push_front(question);
        }
        if let Some(next) = state.later.iter().map(|(at, _)| *at).min() {
            self.wake(state, shared, next);
        }
        let limit = match state.pins.is_open() {
            // Who answers is known after the first answer, and with it all other keys.
            true => 1,
            false => (state.limit as usize).max(1),
        };
        if state.in_flight.len() >= limit {
            return None;
        }
        while state.queue.front().is_some_and(|q| q.order.is_stopping()) {
            let question = state.queue.pop_front()?;
            done.push((question, Err(Failure::Cancelled)));
        }
        let worst = self.model.worst(&state.queue.front()?.request);
        match shared.purse.reserve(self.number, worst) {
            Grant::Yes => {}
            Grant::Wait => return None,
            Grant::No(limit) => {
                let left = state.queue.len() + state.later.len() + state.held.len();
                let failure = self.penniless(limit, worst, left);
                state.stopped = Some(failure.clone());
                done.extend(drain(state).map(|q| (q, Err(failure.clone()))));
                return None;
            }
        }
        let question = state.queue.pop_front()?;
        let revision = &question.request.model;
        state.in_flight.begin(question.key(), revision);
        state.counts.requests += 1;
        let under_way = state.in_flight.len() as u64;
        state.counts.most_in_flight = state.counts.most_in_flight.max(under_way);
        Some(Start {
            question,
            reserved: worst,
            sent: now,
        })
    }

    /// Sees to it that the queue is looked at again at that time.
    fn wake(self: &Arc<Self>, state: &mut State, shared: &Arc<Shared>, at: Instant) {
        if state
            .timer
            .is_some_and(|set| set <= at && set > Instant::now())
        {
            return;
        }
        state.timer = Some(at);
        let handle = shared.runtime.clone();
        let (lane, shared) = (Arc::downgrade(self), Arc::downgrade(shared));
        handle.spawn(async move {
            tokio::time::sleep_until(at).await;
            if let (Some(lane), Some(shared)) = (lane.upgrade(), shared.upgrade()) {
                lane.pump(&shared);
            }
        });
    }

    /// Sends one request and reads what comes back.
    pub(super) async fn ask(&self, request: &Request) -> Result<(Reply, RateLimits), Trouble> {
        let wire = wire::encode(&self.model.shape, request);
        let sent = self.address.post(&wire.path, &wire.headers, wire.body);
        let Answer {
            status,
            headers,
            body,
        } = sent.await?;
        let decoded = wire::decode(self.model.shape.api, status, &headers, &body);
        let mut reply = decoded.map_err(|mut fault| {
            self.address.redact(&mut fault);
            fault
        })?;
        reply.omitted = wire.omitted;
        Ok((reply, RateLimits::of(&headers)))
    }

    /// Says what became of a request. Without an outcome it was ended from this side.
    fn settle(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        start: Start,
        outcome: Option<Result<(Reply, RateLimits), Trouble>>,
    ) {
        let Start {
            question,
            reserved,
            sent,
        } = start;
        let mut spent = 0;
        let mut state = self.lock();
        let mut done: Vec<(Question, Result<Output, Failure>)> = Vec::new();
        let key = question.key();
        match outcome {
            None => {
                state.in_flight.end(&key);
                done.push((question, Err(Failure::Cancelled)));
            }
            Some(Ok((reply, limits))) => {
                spent = self.count(&mut state, &reply);
                self.succeeded(&mut state, &limits);
                self.place(&mut state, shared, question, reply, &mut done);
                state.in_flight.end(&key);
                self.release(&mut state, &mut done);
            }
            Some(Err(trouble)) => {
                state.in_flight.end(&key);
                self.failed(&mut state, question, sent, &trouble, &mut done);
                self.release(&mut state, &mut done);
            }
        }
        drop(state);
        for (question, result) in done {
            question.order.end(result);
        }
        let waited = shared.purse.settle(self.number, reserved, spent);
        self.pump(shared);
        if waited {
            for lane in shared.lanes.iter().filter(|l| l.number != self.number) {
                lane.pump(shared);
            }
        }
    }

    /// Takes in a reply of a batch; what it cost.
    pub(super) fn answered(&self, shared: &Shared, question: Question, mut reply: Reply) -> u64 {
        reply.omitted = wire::encode(&self.model.shape, &question.request).omitted;
        let mut done = Vec::new();
        let mut state = self.lock();
        let spent = self.count(&mut state, &reply);
        self.place(&mut state, shared, question, reply, &mut done);
        state.ever_answered = true;
        drop(state);
        for (question, result) in done {
            question.order.end(result);
        }
        spent
    }

    /// Counts requests that were sent.
    pub(super) fn sent(&self, n: usize) {
        self.lock().counts.requests += n as u64;
    }

    /// Counts an attempt that gave nothing.
    pub(super) fn tried(&self) {
        self.lock().counts.failed += 1;
    }

    /// A reply that turned out to be the answer to the job with this key.
    pub(super) fn moved(&self, key: &Key) -> Option<Output> {
        self.lock().moved.get(key).cloned()
    }

    fn count(&self, state: &mut State, reply: &Reply) -> u64 {
        let counts = &mut state.counts;
        counts.replies += 1;
        let Some(usage) = &reply.usage else {
            counts.without_usage += 1;
            return 0;
        };
        counts.input_tokens += usage.input_tokens;
        counts.cached_input_tokens += usage.cached_input_tokens.unwrap_or(0);
        counts.output_tokens += usage.output_tokens;
        counts.reasoning_tokens += usage.reasoning_tokens.unwrap_or(0);
        let cost = self.model.cost(usage);
        if let Some(sum) = &mut counts.micro_usd {
            *sum += cost;
        }
        cost
    }

    fn succeeded(&self, state: &mut State, limits: &RateLimits) {
        state.in_a_row = 0;
        state.ever_answered = true;
        let most = self.model.most_in_flight as f64;
        // More than what is wanted says nothing of what would be borne.
        if state.in_flight.len() >= state.limit as usize {
            let more = if state.eager {
                EAGERNESS
            } else {
                1.0 / state.limit
            };
            state.limit = (state.limit + more).min(most);
        }
        if let Some(wait) = spent_until(limits, clock())
            && wait > Duration::ZERO
            && wait <= self.model.patience.longest_pause
        {
            pause(state, wait);
        }
    }

    /// Keeps a reply under the key of the model that gave it.
    fn place(
        &self,
        state: &mut State,
        shared: &Shared,
        question: Question,
        reply: Reply,
        done: &mut Vec<(Question, Result<Output, Failure>)>,
    ) {
        let output = Output {
            bytes: reply.encode(),
            blobs: vec![],
        };
        let asked = &self.model.shape.model;
        let revision = self.see(state, shared, &reply);
        if question.request.model == revision {
            question.order.end(Ok(output));
            return;
        }
        let request = Request {
            model: revision,
            ..question.request
        };
        let job = request.to_job(COMPLETION);
        state.moved.insert(job.key(), output.clone());
        question.order.end_as(job, output);
        // Nothing more is asked under another revision than the current one.
        let now = state.pins.revision(asked);
        let stale = |q: &Question| q.request.model != now;
        let later = std::mem::take(&mut state.later);
        let (gone, kept): (Vec<_>, Vec<_>) = later.into_iter().partition(|(_, q)| stale(q));
        state.later = kept;
        let queue = std::mem::take(&mut state.queue);
        let (old, new): (Vec<_>, Vec<_>) = queue.into_iter().partition(stale);
        state.queue = new.into();
        let gone = gone.into_iter().map(|(_, q)| q).chain(old);
        done.extend(gone.map(|q| (q, Err(Failure::Cancelled))));
        if let Some(failure) = state.stopped.clone() {
            done.extend(drain(state).map(|q| (q, Err(failure.clone()))));
        }
    }

    /// Takes in who answered; the revision under which the reply is kept.
    fn see(&self, state: &mut State, shared: &Shared, reply: &Reply) -> String {
        let asked = &self.model.shape.model;
        let first = state.pins.is_open();
        let seen = state.pins.see(
            asked,
            reply.served_model.as_deref(),
            reply.fingerprint.as_deref(),
        );
        let name = &self.model.name;
        let mut stop = |what: String| {
            state.stopped.get_or_insert(Failure::Fatal {
                what,
                help: "ask for a dated name of the model, or pin the upstream provider by `route`"
                    .into(),
            });
        };
        let revision = match &seen {
            Seen::Same | Seen::First | Seen::Fingerprint { .. } => state.pins.revision(asked),
            Seen::New { now, .. } => now.clone(),
            Seen::Old { revision } => revision.clone(),
        };
        match &seen {
            Seen::Same => return revision,
            Seen::First => {}
            Seen::Fingerprint { before, now } => {
                state.counts.fingerprint_changes += 1;
                shared.tell(format!(
                    "model `{name}`: the fingerprint changed from {before} to {now}; the revision is as it was"
                ));
            }
            Seen::New { now, .. } if first => {
                shared.tell(format!("model `{name}` is {now}"));
            }
            Seen::New { before, now } => {
                state.revisions += 1;
                shared.tell(format!(
                    "model `{name}`: another model answers now, {now} instead of {before}: a new revision begins, and its replies are asked for anew"
                ));
                if state.revisions > MOST_REVISIONS {
                    stop(format!(
                        "model `{name}`: the provider names another model again and again, now {now}"
                    ));
                }
            }
            Seen::Old { revision } => {
                state.turns += 1;
                if state.turns > MOST_REVISIONS {
                    stop(format!(
                        "model `{name}`: different models answer in turn, now {revision} again"
                    ));
                }
                return revision.clone();
            }
        }
        shared.keep_note(&pins_name(&self.model.name), &state.pins.text());
        revision
    }

    /// Lets go what waited for replies under another revision, once there are none.
    fn release(&self, state: &mut State, done: &mut Vec<(Question, Result<Output, Failure>)>) {
        if state.held.is_empty() {
            return;
        }
        let now = state.pins.revision(&self.model.shape.model);
        if state.in_flight.any_but(&now) {
            return;
        }
        for question in std::mem::take(&mut state.held) {
            if let Some(failure) = state.stopped.clone() {
                done.push((question, Err(failure)));
            } else if let Some(output) = state.moved.get(&question.key()) {
                let output = output.clone();
                done.push((question, Ok(output)));
            } else if question.request.model == now {
                state.queue.push_back(question);
            } else {
                done.push((question, Err(Failure::Cancelled)));
            }
        }
    }

    fn failed(
        &self,
        state: &mut State,
        mut question: Question,
        sent: Instant,
        trouble: &Trouble,
        done: &mut Vec<(Question, Result<Output, Failure>)>,
    ) {
        let limited = matches!(trouble, Trouble::Fault(wire::Fault::RateLimited { .. }));
        state.counts.failed += 1;
        let news = state.last_failure.is_none_or(|last| sent >= last);
        if news {
            state.in_a_row += 1;
            state.last_failure = Some(Instant::now());
        }
        if news && trouble.is_too_much() {
            state.eager = false;
            state.limit = (state.limit / 2.0).max(1.0);
        }
        question.tries += u32::from(!limited);
        let record = Record {
            tries: question.tries,
            in_a_row: state.in_a_row,
            ever_answered: state.ever_answered,
        };
        let key = question.key();
        let next = self.model.patience.next(trouble, record, &key, clock());
        let transient = !matches!(next, Next::StopModel { .. });
        question.order.failed(transient, &trouble.to_string());
        let name = &self.model.name;
        let what = format!("model `{name}`: {trouble}");
        let stopping = question.order.is_stopping() || state.stopped.is_some();
        match next {
            Next::Again(_) | Next::Pause(_) if stopping => {
                let failure = state.stopped.clone().unwrap_or(Failure::Cancelled);
                done.push((question, Err(failure)));
            }
            Next::Again(wait) => {
                state.later.push((Instant::now() + wait, question));
            }
            Next::Pause(wait) => {
                pause(state, wait);
                state.queue.push_front(question);
            }
            Next::StopRequest { help } => {
                let failure = match trouble.is_final() {
                    true => Failure::Fatal {
                        what,
                        help: help.into(),
                    },
                    false => Failure::Transient(format!(
                        "{what} (after {} attempts)\n  help: {help}",
                        question.tries
                    )),
                };
                done.push((question, Err(failure)));
            }
            Next::Later => {
                let failure = Failure::Transient(format!(
                    "{what} ({} failures in a row; the model is left alone for this run)\n  help: run again when the network or the provider is back; what was answered is kept",
                    state.in_a_row
                ));
                self.stop(state, question, failure, done);
            }
            Next::StopModel { help } => {
                let failure = Failure::Fatal {
                    what,
                    help: help.into(),
                };
                self.stop(state, question, failure, done);
            }
        }
    }

    fn stop(
        &self,
        state: &mut State,
        question: Question,
        failure: Failure,
        done: &mut Vec<(Question, Result<Output, Failure>)>,
    ) {
        let failure = state.stopped.get_or_insert(failure).clone();
        done.push((question, Err(failure.clone())));
        done.extend(drain(state).map(|q| (q, Err(failure.clone()))));
    }

    pub(super) fn penniless(&self, limit: Limit, worst: u64, left: usize) -> Failure {
        let name = &self.model.name;
        let (whose, cap, spent, help) = match limit {
            Limit::Run { cap, spent } => (
                "this run",
                cap,
                spent,
                "run again with a higher `--max-cost`, or without it; what was answered is kept",
            ),
            Limit::Model { cap, spent } => (
                "this model in all runs",
                cap,
                spent,
                "raise the model's `max-cost` in everbench.toml; what was answered is kept",
            ),
        };
        Failure::Money {
            what: format!(
                "model `{name}`: the money is at its end: {} of the {} for {whose} are spent, the next request can cost {}; {left} requests are not asked",
                dollars(spent),
                dollars(cap),
                dollars(worst),
            ),
            help: help.into(),
        }
    }

    /// Gives back what is not under way and is not kept.
    pub(super) fn forget(&self, shared: &Shared, keep: &dyn Fn(&Key) -> bool) {
        if let Some(tray) = &self.tray {
            tray.forget(self, shared, keep);
        }
        let mut state = self.lock();
        let mut gone = Vec::new();
        let all = drain(&mut state).collect::<Vec<_>>();
        for question in all {
            match keep(&question.key()) {
                true => state.queue.push_back(question),
                false => gone.push(question),
            }
        }
        drop(state);
        gone.into_iter().for_each(Question::give_back);
    }

    /// Stops asking for good.
    pub(super) fn halt(&self, failure: Failure) -> Vec<Question> {
        let mut state = self.lock();
        state.stopped.get_or_insert(failure);
        drain(&mut state).collect()
    }
}

fn pause(state: &mut State, wait: Duration) {
    let until = Instant::now() + wait;
    if state.paused.is_none_or(|set| set < until) {
        state.paused = Some(until);
    }
}

/// All that is not under way.
fn drain(state: &mut State) -> impl Iterator<Item = Question> + use<> {
    let queue = std::mem::take(&mut state.queue);
    let later = std::mem::take(&mut state.later);
    let held = std::mem::take(&mut state.held);
    let later = later.into_iter().map(|(_, question)| question);
    queue.into_iter().chain(later).chain(held)
}
