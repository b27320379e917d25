//! One function asked of one model: prompt, completion, reply, variant, verdict.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::artifact::{self, VERDICT, VerdictDoc};
use super::dissimilarity::changed_lines;
use super::environment;
use super::inputs::{Answers, Model, ModelSpec, Settings, Subject};
use super::jobs;
use super::population::{self, FlavourArg, Function, FunctionArg};
use super::shown::shown;
use crate::ask::{self, Reply};
use crate::digest::Digest;
use crate::engine::{Db, Hold, fold};
use crate::job::{Job, Kind, Nature};
use crate::lang::{self, LanguageId, calibration::Edit};
use crate::stats::mix;

/// An edit of a calibration model: a reply's envelope.
pub const CALIBRATION: Kind = Kind {
    name: "ask/calibration",
    version: 2,
    nature: Nature::Deterministic,
};

/// What became of a reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It holds the function.
    Code,
    /// The model declined.
    Refused,
    /// It ends in the middle.
    Truncated,
    /// There is nothing in it.
    Empty,
    /// There is no such function in it.
    Unparsable,
    /// The prompt did not fit.
    ContextExceeded,
}

impl Outcome {
    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Code => "code",
            Outcome::Refused => "refused",
            Outcome::Truncated => "truncated",
            Outcome::Empty => "empty",
            Outcome::Unparsable => "unparsable",
            Outcome::ContextExceeded => "context_exceeded",
        }
    }
}

/// A function, a model, and what came of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Case {
    /// What the reply is.
    pub outcome: Outcome,
    /// Why it is not code, if it is not.
    pub why: Option<String>,
    /// The raw reply.
    pub reply: Digest,
    /// The text that goes in the function's place; absent when there is none or it is the same.
    pub variant: Option<Digest>,
    /// True if the subject builds with it. Without code it does not count as compiling.
    pub compiles: bool,
    /// The verdict's document, unless the text is the same or absent.
    pub verdict: Option<Digest>,
    /// Lines that differ from the original, by the rule of ndiff; 0 without code.
    pub changed_lines: u32,
    /// The same after normalising the formatting of both.
    pub changed_lines_normalised: u32,
}

/// What a calibration model answers for a function: which edit, and which item of the menu.
/// Drawn from the model's shares by seed and identity, so that models with the same draw share
/// everything that follows.
pub fn calibration_edit(
    shares: &BTreeMap<Edit, f64>,
    name: &str,
    seed: u64,
    id: &str,
) -> (Edit, u64) {
    const CALIBRATION_DRAW: u64 = 0x6361_6c69;
    let draw = mix::uniform(mix::keyed(
        seed,
        CALIBRATION_DRAW,
        format!("{name}\0{id}").as_bytes(),
    ));
    let mut sum = 0.0;
    let mut chosen = None;
    for (edit, share) in shares {
        sum += share;
        chosen = Some(*edit);
        if draw < sum {
            break;
        }
    }
    // The item does not depend on the model: two models with the same edit have the same text.
    let item = mix::keyed(seed, CALIBRATION_DRAW + 1, id.as_bytes());
    (chosen.unwrap_or(Edit::Unchanged), item)
}

/// The job whose output is the model's reply.
pub fn completion_job(
    db: &dyn Db,
    settings: Settings,
    model: &ModelSpec,
    function: &Function,
    text: &Arc<[u8]>,
) -> Result<Job, Hold> {
    match &model.answers {
        Answers::Calibration(shares) => {
            let (edit, item) =
                calibration_edit(shares, &model.name, settings.seed(db), &function.id);
            let id = function.language;
            let mut job = Job::of(CALIBRATION)
                .blob("function", text.clone())
                .put("name", function.name.as_str())
                .put("edit", edit.name())
                .put("item", item as i64)
                .put(
                    "queries",
                    population::language(db, settings, id)?.0.queries().digest(),
                );
            // C is what is meant when no language is named.
            if id != LanguageId::C {
                job = job.put("language", id.name());
            }
            Ok(job.done())
        }
        Answers::Replay {
            revision,
            sampling,
            system,
        }
        | Answers::Remote {
            revision,
            sampling,
            system,
        } => {
            let mut request = request(db, settings, revision, sampling, function, text)?;
            if !system.is_empty() {
                request.system = match &*request.system {
                    "" => system.as_str().into(),
                    task => format!("{task}\n\n{system}").into(),
                };
            }
            Ok(request.to_job(ask::COMPLETION))
        }
    }
}

/// The prompt template, read.
#[salsa::tracked(returns(ref))]
fn template(db: &dyn Db, settings: Settings) -> Result<ask::Template, Hold> {
    let task = settings.task(db);
    ask::Template::parse(task.name, task, settings.template(db).as_bytes())
        .map_err(|e| bad_template(&e))
}

fn bad_template(e: &ask::TemplateError) -> Hold {
    Hold::broken(e.to_string(), "mend the template file")
}

/// The canonical request for a function.
pub fn request(
    db: &dyn Db,
    settings: Settings,
    revision: &str,
    sampling: &ask::Sampling,
    function: &Function,
    text: &[u8],
) -> Result<ask::Request, Hold> {
    let template = template(db, settings).as_ref().map_err(Hold::clone)?;
    let text = ask::decode(&shown(db, settings, function, text)?);
    let facts = function.language.facts();
    let values = BTreeMap::from([
        ("function", text.as_str()),
        ("name", function.name.as_str()),
        ("context", ""),
        ("language", facts.title),
        ("label", facts.labels[0]),
    ]);
    let rendered = template.render(&values).map_err(|e| bad_template(&e))?;
    Ok(ask::Request {
        system: rendered.system.into(),
        user: rendered.user.into(),
        model: revision.to_string(),
        sampling: sampling.clone(),
        sample: 0,
    })
}

/// A function asked of a model: out of its file's cases once they are all there, else by itself,
/// so that one missing reply does not hold up the functions beside it.
#[salsa::tracked(returns(clone))]
pub fn case<'db>(
    db: &'db dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    function: FunctionArg<'db>,
) -> Result<Arc<Case>, Hold> {
    let f = function.function(db);
    if let Ok(cases) = file_cases(
        db,
        settings,
        subject,
        model,
        PathArg::new(db, f.path.clone()),
    ) && let Some(case) = cases.get(&f.id)
    {
        return Ok(case.clone());
    }
    fresh_case(db, settings, subject, model, function)
}

/// A path as an argument of queries.
#[salsa::interned]
pub struct PathArg<'db> {
    /// It.
    #[returns(ref)]
    pub path: String,
}

/// The sampled functions of a file.
#[salsa::tracked(returns(clone))]
fn file_sample<'db>(
    db: &'db dyn Db,
    settings: Settings,
    subject: Subject,
    path: PathArg<'db>,
) -> Result<Arc<Vec<Arc<Function>>>, Hold> {
    let sample = population::sample(db, settings, subject)?;
    Ok(Arc::new(
        sample
            .iter()
            .filter(|f| f.path == *path.path(db))
            .cloned()
            .collect(),
    ))
}

/// All cases of a file and a model, by function: what a later process recalls at once.
#[salsa::tracked(returns(clone))]
pub fn file_cases<'db>(
    db: &'db dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    path: PathArg<'db>,
) -> Result<Arc<BTreeMap<String, Arc<Case>>>, Hold> {
    let functions = file_sample(db, settings, subject, path)?;
    let mut inputs = case_inputs(db, settings, subject, model)?;
    inputs.push(population::identity(&functions));
    population::recalled(db, "cases", &inputs, || {
        let cases = functions.iter().map(|f| {
            let case = fresh_case(
                db,
                settings,
                subject,
                model,
                FunctionArg::new(db, f.clone()),
            )?;
            Ok((f.id.clone(), case))
        });
        Ok(fold(cases)?.into_iter().collect())
    })
    .map(Arc::new)
}

/// Everything but the functions that the cases of a model depend on.
pub fn case_inputs(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
) -> Result<Vec<Digest>, Hold> {
    let spec = model.spec(db);
    let answers = match &spec.answers {
        // The draw depends on the name.
        Answers::Calibration(shares) => {
            let shares: Vec<(&str, String)> = shares
                .iter()
                .map(|(k, v)| (k.name(), v.to_string()))
                .collect();
            artifact::write(&("calibration", &spec.name, shares, settings.seed(db)))
        }
        Answers::Replay {
            revision,
            sampling,
            system,
        }
        | Answers::Remote {
            revision,
            sampling,
            system,
        } => match system.as_str() {
            "" => artifact::write(&("replay", revision, sampling)),
            system => artifact::write(&("replay", revision, sampling, system)),
        },
    };
    let task = settings.task(db);
    let mut inputs = vec![
        Digest::of(&answers),
        Digest::of(settings.template(db).as_bytes()),
        Digest::of(&artifact::write(&(task.name, task.version))),
        Digest::of(subject.toolchain(db)),
        population::link_context(db, subject)?,
        Digest::of(&environment::link(db, subject, FlavourArg::Plain)?),
    ];
    inputs.extend(population::readings(db, settings, subject)?);
    Ok(inputs)
}

/// A function asked of a model, from replies and verdicts.
#[salsa::tracked(returns(clone))]
fn fresh_case<'db>(
    db: &'db dyn Db,
    settings: Settings,
    subject: Subject,
    model: Model,
    function: FunctionArg<'db>,
) -> Result<Arc<Case>, Hold> {
    let f = function.function(db);
    let spec = model.spec(db);
    let text = population::text(db, settings, subject, function)?;
    let reply_digest = db.demand(&completion_job(db, settings, spec, f, &text)?)?;
    let reply = Reply::decode(&db.blob(reply_digest)?).map_err(|e| {
        Hold::broken(
            format!("reply {reply_digest}: {e}"),
            "run `everbench store verify`",
        )
    })?;
    let mut case = Case {
        outcome: Outcome::Code,
        why: None,
        reply: reply_digest,
        variant: None,
        compiles: false,
        verdict: None,
        changed_lines: 0,
        changed_lines_normalised: 0,
    };
    let variant = match variant(db, settings, f, &text, &reply)? {
        Ok(variant) => variant,
        Err((outcome, why)) => {
            case.outcome = outcome;
            case.why = why;
            return Ok(Arc::new(case));
        }
    };
    if *variant == *text {
        // The unchanged subject builds: that is what its base says.
        case.compiles = true;
        return Ok(Arc::new(case));
    }
    case.changed_lines = changed_lines(&text, &variant);
    case.changed_lines_normalised = changed_lines(
        &lang::normalised(f.language, &text),
        &lang::normalised(f.language, &variant),
    );
    case.variant = Some(Digest::of(&variant));
    let verdict = jobs::demand_verdict(db, subject, f, text, variant)?;
    let doc: VerdictDoc = artifact::read(VERDICT, &db.blob(verdict)?)?;
    case.verdict = Some(verdict);
    case.compiles = doc.compiles;
    Ok(Arc::new(case))
}

/// The text that a reply puts in the function's place, or what the reply is instead. `text` is the
/// function's own, whatever the task showed of it: that is what is replaced and compared with.
#[allow(clippy::type_complexity)]
pub fn variant(
    db: &dyn Db,
    settings: Settings,
    function: &Function,
    text: &[u8],
    reply: &Reply,
) -> Result<Result<Arc<[u8]>, (Outcome, Option<String>)>, Hold> {
    let language = population::language(db, settings, function.language)?.0;
    let shown = shown(db, settings, function, text)?;
    let context = ask::ReplyContext {
        function: &function.name,
        original: &shown,
        language: function.language,
    };
    let code = match ask::extract_reply(reply, &context) {
        ask::Outcome::Code { text, .. } => text,
        ask::Outcome::Refused => return Ok(Err((Outcome::Refused, None))),
        ask::Outcome::Truncated => return Ok(Err((Outcome::Truncated, None))),
        ask::Outcome::Empty => return Ok(Err((Outcome::Empty, None))),
        ask::Outcome::ContextExceeded => return Ok(Err((Outcome::ContextExceeded, None))),
        ask::Outcome::Unparsable { why } => {
            return Ok(Err((Outcome::Unparsable, Some(said(&why)))));
        }
    };
    let Some(asked) = lang::function_alone(&language, text, &function.name) else {
        return Err(Hold::broken(
            format!(
                "the text of `{}` is not read as a function by itself",
                function.id
            ),
            "this is a fault in everbench; please report it with the function's text",
        ));
    };
    let code = ask::encode_like(text, &code);
    Ok(match lang::variant_of(&language, &asked, text, &code) {
        Ok(variant) => Ok(variant.text.into()),
        Err(refusal) => Err((Outcome::Unparsable, Some(refusal.to_string()))),
    })
}

/// Why there is no code, for people.
fn said(why: &ask::Why) -> String {
    match why {
        ask::Why::Envelope(e) => format!("the stored reply cannot be read: {e}"),
        ask::Why::Diff => "a patch instead of the function".into(),
        ask::Why::NoCode => "no code".into(),
        ask::Why::NoFunction => "code, but no function".into(),
        ask::Why::OtherLanguage(label) => format!("only code labelled `{label}`"),
    }
}
