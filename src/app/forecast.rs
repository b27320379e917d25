//! What a run would do: the evaluation of a run without its last step. Executes nothing, unless it
//! is told to build the unchanged subject first, without which nothing is known of a new commit.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::board::{Bench, SubjectPlan, World};
use super::drive::{Drove, Ready};
use super::error::unusable;
use super::models::Tariff;
use super::why::{Last, count};
use super::{App, AppError, Options};
use crate::ask::prices::{Price, most_input};
use crate::ask::{COMPLETION, Request, Usage};
use crate::cancel::Cancel;
use crate::engine::{EngineDb, Hold, Observer};
use crate::job::{Key, Value};
use crate::oss::leaderboard::Entry;
use crate::oss::outlook::{self, Stage};
use crate::oss::population;
use crate::store::Reader;

/// What a run would do.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// By subject, in the project's order.
    pub subjects: Vec<SubjectForecast>,
    /// Jobs that can run now, each counted once however many rows need it.
    pub jobs: u64,
    /// True if nothing is missing.
    pub complete: bool,
}

/// One subject's part.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectForecast {
    /// Its name.
    pub subject: String,
    /// Which source it is.
    pub commit: String,
    /// What there is to do, by kind, then by model.
    pub groups: Vec<Group>,
    /// How far each model is.
    pub models: Vec<ModelForecast>,
    /// Why nothing can be said of the models yet.
    pub unknown: Option<String>,
    /// Why the unchanged subject cannot be measured at this commit: then there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_broken: Option<BrokenForecast>,
    /// The smallest true difference between two models' s1 that would be found in four of five
    /// cases at a level of 0.05, in points, at this number of functions: the bound for independent
    /// functions of which half compile. Correlation within files makes it larger, the pairing of
    /// functions smaller.
    pub detectable_s1: Option<f64>,
}

/// A commit at which the unchanged subject cannot be measured.
#[derive(Clone, Debug, Serialize)]
pub struct BrokenForecast {
    /// What is wrong.
    pub what: String,
    /// The way out.
    pub help: String,
    /// What reports call the commit of the last complete evaluation, if there is one.
    pub last_good: Option<String>,
}

/// Jobs of one kind for one model.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The kind.
    pub kind: String,
    /// Whose: absent for what all models share. A job that several need is the first one's.
    pub model: Option<String>,
    /// How many can run now.
    pub jobs: u64,
    /// Why they have to run, by reason.
    pub why: BTreeMap<String, u64>,
    /// Processor seconds of them all, by what such jobs took here before.
    pub cpu_seconds: Option<f64>,
    /// Of requests over HTTP: what they take in tokens and money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asking: Option<Asking>,
}

/// What requests take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Asking {
    /// What they take at most: a token for each byte of their texts, answers of the full length.
    pub at_most: Tokens,
    /// What they take if answers are as earlier ones of this model; absent where there are none.
    pub usual: Option<Tokens>,
    /// How many earlier answers `usual` rests on.
    pub answers: u64,
    /// When the price was read, if the price table says so.
    pub price_date: Option<String>,
}

/// Tokens and what they cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tokens {
    /// Of questions.
    pub input: u64,
    /// Of answers, thinking included.
    pub output: u64,
    /// Millionths of a dollar; absent where no price is known.
    pub micro_usd: Option<u64>,
}

/// How far one model is.
#[derive(Clone, Debug, Serialize)]
pub struct ModelForecast {
    /// Its name.
    pub model: String,
    /// Replies.
    pub replies: Stage,
    /// Verdicts.
    pub verdicts: Stage,
    /// Iterations, by scoring.
    pub iterations: BTreeMap<&'static str, Stage>,
}

/// How many past jobs of a kind a guess at its cost looks at.
const PAST: usize = 200;

impl App {
    /// What `run` with the same options would do. With `build`, what the unchanged subjects lack
    /// for their functions to be known is run first: their sources and builds.
    ///
    /// # Errors
    /// Those of a run; faults of the subject included.
    pub fn forecast(
        &self,
        options: &Options,
        build: bool,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Forecast, AppError> {
        let answering = self.answering(&options.models)?;
        let tools = self.tools(options)?;
        let plan = self.plan(options, &answering, Some(&tools))?;
        if build {
            self.remember_surroundings(&plan, &tools)?;
            let ready = Ready {
                plan: &plan,
                tools,
                answering: &[],
                options,
            };
            self.driven(ready, cancel, observer, "the build", |world| {
                let subjects: Vec<_> = world.benches.iter().map(|b| b.subject).collect();
                move |db: &EngineDb| {
                    let mut hold = Hold::default();
                    for subject in &subjects {
                        if let Err(h) = outlook::built(db, *subject) {
                            hold.merge(&h.set_aside());
                        }
                    }
                    ((), hold.settle())
                }
            })?;
        }
        let Drove { world, boards, .. } = self.drive(&plan, None, cancel, &mut ())?;
        let reader = self.store.reader()?;
        let costs = Costs {
            reader: &reader,
            known: HashMap::new(),
        };
        let mut counting = Counting {
            costs,
            seen: HashSet::new(),
            tariffs: self.tariffs(&answering)?,
        };
        let mut subjects = Vec::new();
        for ((bench, subject), board) in world.benches.iter().zip(&plan.subjects).zip(boards) {
            subjects.push(match board.broken {
                None => counting.subject(&world, *bench, &reader, subject)?,
                Some(broken) => {
                    if self.writable {
                        self.remember_broken(subject, Some(&broken))?;
                    }
                    SubjectForecast {
                        baseline_broken: Some(BrokenForecast {
                            what: broken.what,
                            help: broken.help,
                            last_good: self.last_good(&subject.manifest.name)?,
                        }),
                        ..SubjectForecast::of(subject)
                    }
                }
            });
        }
        let complete = subjects.iter().all(|s| {
            let open = |s: &Stage| s.now + s.later > 0;
            s.groups.is_empty()
                && s.unknown.is_none()
                && !s.models.iter().any(|m| {
                    open(&m.replies) || open(&m.verdicts) || m.iterations.values().any(open)
                })
        });
        Ok(Forecast {
            jobs: subjects
                .iter()
                .flat_map(|s| &s.groups)
                .map(|g| g.jobs)
                .sum(),
            subjects,
            complete,
        })
    }
}

impl SubjectForecast {
    /// Nothing but which subject it is.
    fn of(plan: &SubjectPlan) -> SubjectForecast {
        SubjectForecast {
            subject: plan.manifest.name.clone(),
            commit: plan.commit(),
            groups: Vec::new(),
            models: Vec::new(),
            unknown: None,
            baseline_broken: None,
            detectable_s1: None,
        }
    }
}

struct Counting<'a> {
    costs: Costs<'a>,
    /// A job that two rows need runs once.
    seen: HashSet<Key>,
    /// Of models over HTTP, by name.
    tariffs: BTreeMap<String, Tariff>,
}

impl Counting<'_> {
    fn subject(
        &mut self,
        world: &World,
        bench: Bench,
        reader: &Reader,
        plan: &SubjectPlan,
    ) -> Result<SubjectForecast, AppError> {
        let (db, subject, settings) = (&world.db, bench.subject, bench.settings);
        let names: Vec<&str> = world
            .models
            .iter()
            .map(|m| m.spec(db).name.as_str())
            .collect();
        let last = Last::of(reader, &plan.manifest.name, &names)?;
        let mut out = SubjectForecast::of(plan);
        let ground = outlook::ground(db, subject).map_err(unusable)?;
        self.groups(ground, None, last.as_ref(), &mut out)?;
        if outlook::built(db, subject).is_err() {
            out.unknown = Some(
                "which functions there are is known once it is built: `everbench plan --build` builds it"
                    .into(),
            );
            return Ok(out);
        }
        for (model, name) in world.models.iter().zip(&names) {
            let outlook = outlook::outlook(db, settings, subject, *model, &world.scorings)
                .map_err(unusable)?;
            let iterations = outlook.iterations.iter();
            out.models.push(ModelForecast {
                model: name.to_string(),
                replies: outlook.replies,
                verdicts: outlook.verdicts,
                iterations: iterations.map(|(s, stage)| (s.name(), *stage)).collect(),
            });
            self.groups(outlook.jobs, Some(name), last.as_ref(), &mut out)?;
        }
        if let Ok(sample) = population::sample(db, settings, subject)
            && !sample.is_empty()
        {
            out.detectable_s1 = Some(outlook::detectable_s1(sample.len()));
        }
        Ok(out)
    }

    /// Adds jobs to the groups of their kinds.
    fn groups(
        &mut self,
        jobs: Vec<Entry>,
        model: Option<&str>,
        last: Option<&Last>,
        out: &mut SubjectForecast,
    ) -> Result<(), AppError> {
        let mut by_kind: BTreeMap<&'static str, Vec<Entry>> = BTreeMap::new();
        for entry in jobs {
            if self.seen.insert(entry.job.key()) {
                by_kind
                    .entry(entry.job.kind().name)
                    .or_default()
                    .push(entry);
            }
        }
        for (kind, entries) in by_kind {
            let mut reasons = Vec::new();
            for entry in &entries {
                reasons.push(match last {
                    Some(last) => last.reason(&entry.name, model, &entry.job)?,
                    None => "first run".to_string(),
                });
            }
            let each = self.costs.of(kind)?;
            let tariff = model.and_then(|model| self.tariffs.get(model));
            let asking = match tariff.filter(|_| kind == COMPLETION.name) {
                Some(tariff) => Some(self.costs.asking(&entries, tariff)?),
                None => None,
            };
            out.groups.push(Group {
                kind: kind.into(),
                model: model.map(str::to_string),
                jobs: entries.len() as u64,
                why: count(reasons),
                cpu_seconds: each.map(|s| s * entries.len() as f64),
                asking,
            });
        }
        Ok(())
    }
}

/// What jobs of each kind took here before.
struct Costs<'a> {
    reader: &'a Reader,
    known: HashMap<&'static str, Option<f64>>,
}

impl Costs<'_> {
    /// What the requests among `entries`, all of one model, take.
    fn asking(&self, entries: &[Entry], tariff: &Tariff) -> Result<Asking, AppError> {
        let blob = |digest| self.reader.blob(&digest).ok().flatten();
        let requests = entries.iter().map(|e| Request::of_job(&e.job, blob));
        let requests: Vec<Request> = requests
            .collect::<Result<_, _>>()
            .map_err(|e| AppError::Input(format!("a question cannot be read: {e}")))?;
        let bytes = |r: &Request| (r.system.len() + r.user.len()) as u64;
        let mut at_most = Tokens::default();
        for request in &requests {
            at_most.input += most_input(request);
            at_most.output += u64::from(request.sampling.max_tokens);
        }
        let price = tariff.price.as_ref();
        let worst = |price: &Price| {
            let each = requests.iter();
            each.map(|r| price.worst_case(r, tariff.batch)).sum()
        };
        at_most.micro_usd = price.map(worst);
        let (mut past, mut answers) = (Usage::default(), 0);
        let mut asked = 0;
        for answer in super::models::answers(self.reader, &tariff.revision)?.take(PAST) {
            let (action, usage) = answer?;
            for text in ["system", "user"] {
                if let Some(Value::Digest(digest)) = action.job.inputs.get(text)
                    && let Some(text) = self.reader.blob(digest)?
                {
                    asked += text.len() as u64;
                }
            }
            past.input_tokens += usage.input_tokens;
            past.output_tokens += usage.output_tokens;
            answers += 1;
        }
        let usual = (answers > 0 && asked > 0).then(|| {
            let mut usual = Tokens::default();
            let mut cost = 0;
            for request in &requests {
                // Tokens for a byte as they were before.
                let one = Usage {
                    input_tokens: (bytes(request) * past.input_tokens).div_ceil(asked),
                    output_tokens: past.output_tokens.div_ceil(answers),
                    ..Usage::default()
                };
                usual.input += one.input_tokens;
                usual.output += one.output_tokens;
                cost += price.map_or(0, |price| price.cost(&one, tariff.batch));
            }
            usual.micro_usd = price.map(|_| cost);
            usual
        });
        Ok(Asking {
            at_most,
            usual,
            answers,
            price_date: price.and_then(|price| price.date.clone()),
        })
    }

    /// Mean processor seconds of a job, if one was ever run.
    fn of(&mut self, kind: &'static str) -> Result<Option<f64>, AppError> {
        if let Some(known) = self.known.get(kind) {
            return Ok(*known);
        }
        let (mut sum, mut n) = (0.0, 0u32);
        for listed in self.reader.actions(Some(kind))?.take(PAST) {
            if let Some(action) = self.reader.action(&listed?.key)? {
                sum += action.provenance.cpu_us as f64 / 1e6;
                n += 1;
            }
        }
        let mean = (n > 0).then(|| sum / f64::from(n));
        self.known.insert(kind, mean);
        Ok(mean)
    }
}
