//! OSS-Bench's own probe in a folder: functions of a project, as they are and with its names taken out,
//! and functions of other projects are shown to models, which are asked where they are from. Answers
//! are facts in the store.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::asking::{Answerer, Asked, Run, Whom, ask_all};
use super::corpus::{List, import};
use super::{AppError, Statement, findings};
use crate::ask::Request;
use crate::contamination::Family;
use crate::contamination::findings::fingerprint;
use crate::contamination::named::{Arm, Project, Rate, Said, rate, read, request};
use crate::lang::SnippetLanguage;
use crate::stats::mix::keyed;

/// The root of what answers rest on.
const ROOT: &str = "contamination/named";

/// Which functions are shown.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the project is called.
    pub project: Project,
    /// Where its functions are.
    pub sources: Vec<List>,
    /// Other projects.
    pub controls: Vec<List>,
    /// Their language.
    pub language: SnippetLanguage,
    /// Functions of each arm.
    pub limit: usize,
    /// Functions of fewer bytes are not shown, nor those of more.
    pub bytes: (usize, usize),
    /// Of the draw of functions.
    pub seed: u64,
}

/// One function in one arm.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Shown {
    /// The arm.
    pub arm: Arm,
    /// The file, and the function's name in it.
    pub function: String,
    /// Its text as it is shown.
    #[serde(skip)]
    pub text: String,
}

/// What one model said.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// As tables call it.
    pub model: String,
    /// The model and its revision.
    pub revision: String,
    /// By arm.
    pub rates: Vec<Rate>,
    /// What was said of each function, with the answer's text.
    pub said: Vec<(Said, String)>,
}

/// What asking gave.
pub struct Probe {
    /// What was shown.
    pub shown: Vec<Shown>,
    /// What was said, by model.
    pub models: Vec<Named>,
    /// Sources that could not be had, and why.
    pub missing: Vec<(String, String)>,
    /// Questions without an answer, by model.
    pub incomplete: BTreeMap<String, usize>,
    /// Jobs that were run, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Why questions have no answer, each reason once.
    pub failures: Vec<String>,
    /// What models over HTTP were asked, and what that cost.
    pub statement: Option<Statement>,
}

/// Shows functions to models, and counts who names the project.
///
/// # Errors
/// No function to show; no model to ask; a store that cannot be used.
pub fn probe(dir: &Path, plan: &Plan, whom: &Whom, run: Run<'_>) -> Result<Probe, AppError> {
    let mut missing = Vec::new();
    let mut all = |lists: &[List]| -> Result<Vec<Family>, AppError> {
        let mut families = Vec::new();
        for list in lists {
            let imported = import(dir, list, run.cancel, &mut |_| {})?;
            families.extend(imported.families);
            missing.extend(imported.missing);
        }
        Ok(families)
    };
    let (own, others) = (all(&plan.sources)?, all(&plan.controls)?);
    let own = functions(&own, plan);
    if own.is_empty() {
        let why = missing.first().map_or(String::new(), |(name, why)| {
            format!("; {name} could not be had: {why}")
        });
        return Err(AppError::Input(format!(
            "there is no function of {} to show{why}\n  help: sources are folders, archives, crate:NAME, debian:NAME, git:LOCATION; `--language` says in which language",
            plan.language.name()
        )));
    }
    let mut shown = Vec::new();
    for (function, text) in own {
        let redacted = plan.project.redacted(&text);
        shown.push((Arm::AsIs, function.clone(), text));
        shown.push((Arm::Redacted, function, redacted));
    }
    // What names the project itself is no control: a copy of it, or code made for it.
    let foreign = |(_, text): &(String, String)| !plan.project.named_in(text);
    let controls = functions(&others, plan).into_iter().filter(foreign);
    shown.extend(controls.map(|(function, text)| (Arm::Control, function, text)));
    let shown = shown.into_iter().map(|(arm, function, text)| Shown {
        arm,
        function,
        text,
    });
    let shown: Vec<Shown> = shown.collect();
    let questions = |model: &Answerer| -> Vec<Request> {
        let ask = |one: &Shown| request(&one.text, &model.revision, &model.system, &model.sampling);
        shown.iter().map(ask).collect()
    };
    let Asked {
        value,
        executed,
        failures,
        statement,
        ..
    } = ask_all(dir, whom, ROOT, run, questions)?;
    let mut models = Vec::new();
    let mut incomplete = BTreeMap::new();
    for answers in value {
        let unanswered = answers.replies.iter().filter(|r| r.is_none()).count();
        if unanswered > 0 {
            incomplete.insert(answers.model.name, unanswered);
            continue;
        }
        let replies = answers.replies.iter().flatten();
        let said: Vec<(Said, String)> = replies
            .map(|reply| (read(reply, &plan.project), reply.text.clone()))
            .collect();
        let of_arm = |arm| {
            let all = shown.iter().zip(&said);
            let of: Vec<Said> = all
                .filter(|(s, _)| s.arm == arm)
                .map(|(_, s)| s.0)
                .collect();
            rate(arm, &of)
        };
        models.push(Named {
            model: answers.model.name,
            revision: answers.model.revision,
            rates: Arm::ALL.into_iter().map(of_arm).collect(),
            said,
        });
    }
    note(dir, plan, &shown, &models)?;
    Ok(Probe {
        shown,
        models,
        missing,
        incomplete,
        executed,
        failures,
        statement,
    })
}

/// Notes from which functions a model named their project, for scores that leave these out. A model that
/// names it as often from other projects' functions, as far as the intervals tell, knows none of them.
fn note(dir: &Path, plan: &Plan, shown: &[Shown], models: &[Named]) -> Result<(), AppError> {
    let Some(project) = plan.project.names.first() else {
        return Ok(());
    };
    findings::note(dir, |all| {
        for model in models {
            let share = |arm| model.rates.iter().find(|r| r.arm == arm)?.share;
            let by_luck = share(Arm::Control).map_or(0.0, |(rate, ..)| rate);
            let knows = share(Arm::AsIs).is_some_and(|(_, lo, _)| lo > by_luck);
            let named = shown
                .iter()
                .zip(&model.said)
                .filter(|(one, (said, _))| knows && one.arm == Arm::AsIs && *said == Said::Named);
            let named = named.map(|(one, _)| fingerprint(plan.language, one.text.as_bytes()));
            all.note_named(&model.revision, project, named.collect());
        }
    })
}

/// Functions in an order by keyed hash, each text once, with what they are called.
fn functions(families: &[Family], plan: &Plan) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for file in families.iter().flat_map(|family| &family.files) {
        if SnippetLanguage::of_path(&file.path) != Some(plan.language) {
            continue;
        }
        for one in plan.language.snippets(&file.bytes).found {
            let bytes = &file.bytes[one.range];
            let Ok(text) = std::str::from_utf8(bytes) else {
                continue;
            };
            let fits = (plan.bytes.0..=plan.bytes.1).contains(&text.len());
            if fits && seen.insert(text.to_string()) {
                let order = keyed(plan.seed, 0, bytes);
                found.push((
                    order,
                    format!("{}: {}", file.path, one.name),
                    text.to_string(),
                ));
            }
        }
    }
    found.sort();
    found.truncate(plan.limit);
    found
        .into_iter()
        .map(|(_, name, text)| (name, text))
        .collect()
}
