//! Were repositories in the training data of models? Sources become files, files signature snippets,
//! snippets questions, and answers verdicts. Answers are facts in the store: a new model is asked
//! its own questions only, a repository that did not change asks nobody again.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::asking::{Answerer, Replies, Run, Whom, ask_all};
use super::corpus::{List, import, mine_in};
use super::{AppError, Statement, findings};
use crate::ask::Request;
use crate::contamination::findings::functions;
use crate::contamination::probe::{Answer, Draws, Manner, Outcome, best, read, request};
use crate::contamination::verdict::{Luck, Probed, Rules, Verdict, test, verdicts};
use crate::contamination::{Corpus, Family, Reason, Selected, Settings, Snippet, select};
use crate::lang::SnippetLanguage;

/// The root of what answers rest on.
const ROOT: &str = "contamination/asked";

/// What is tested, against what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The language of the repositories.
    pub language: SnippetLanguage,
    /// Repositories under test.
    pub repositories: Vec<List>,
    /// The reference corpus.
    pub corpus: Vec<List>,
    /// Repositories that cannot have been in the training data.
    pub controls: Vec<List>,
    /// Of mining and selection.
    pub settings: Settings,
    /// Of the verdict.
    pub rules: Rules,
    /// How often each snippet is asked.
    pub draws: Draws,
}

/// The language called `name`.
///
/// # Errors
/// There is none of that name.
pub fn language(name: &str) -> Result<SnippetLanguage, AppError> {
    SnippetLanguage::named(name).ok_or_else(|| {
        let names: Vec<&str> = SnippetLanguage::all().map(SnippetLanguage::name).collect();
        AppError::Input(format!(
            "`{name}` is no language of this program\n  help: there are {}",
            names.join(", ")
        ))
    })
}

/// A repository with its snippets.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Repository {
    /// What it is called.
    pub name: String,
    /// Its upstream repository, if it tells.
    pub url: Option<String>,
    /// What is asked of it.
    #[serde(skip)]
    pub snippets: Vec<Snippet>,
    /// Fingerprints of its functions.
    #[serde(skip)]
    pub functions: Vec<u64>,
    /// Files and places that give no snippet, by reason.
    pub excluded: BTreeMap<Reason, usize>,
    /// Families of the corpus that were left out, because they are this repository or overlap it.
    pub left_out: Vec<String>,
}

/// What asking gave.
pub struct Found {
    /// Families of the corpus.
    pub families: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Repositories under test, in order.
    pub repositories: Vec<Repository>,
    /// Controls, in order.
    pub controls: Vec<Repository>,
    /// Sources that could not be had, and why.
    pub missing: Vec<(String, String)>,
    /// What each model's answers come to.
    pub models: Vec<Tested>,
    /// Questions without an answer, by model: it is in no table.
    pub incomplete: BTreeMap<String, usize>,
    /// Jobs that were run, by kind.
    pub executed: BTreeMap<String, u64>,
    /// Why questions have no answer, each reason once.
    pub failures: Vec<String>,
    /// What models over HTTP were asked, and what that cost.
    pub statement: Option<Statement>,
}

/// One model's answers.
#[derive(Clone, PartialEq, Debug)]
pub struct Tested {
    /// As tables call it.
    pub model: String,
    /// The model and its revision.
    pub revision: String,
    /// What luck explains.
    pub luck: Luck,
    /// Verdicts, in the order of the repositories, each with its evidence.
    pub verdicts: Vec<(Verdict, Vec<Probed>)>,
}

/// Who is told what is going on.
pub struct Told<'a> {
    /// Stops it, and is told of jobs.
    pub run: Run<'a>,
    /// Is told what is read or fetched.
    pub tell: &'a mut dyn FnMut(&str),
}

/// Mines what is to be asked, asks models what is missing, and tests.
///
/// # Errors
/// No repository, corpus or control; no model to ask; a store that cannot be used.
pub fn test_presence(
    dir: &Path,
    plan: &Plan,
    whom: &Whom,
    told: Told<'_>,
) -> Result<Found, AppError> {
    let mut missing = Vec::new();
    let mut all = |lists: &[List], tell: &mut dyn FnMut(&str)| -> Result<Vec<Family>, AppError> {
        let mut families = Vec::new();
        for list in lists {
            let imported = import(dir, list, told.run.cancel, tell)?;
            families.extend(imported.families);
            missing.extend(imported.missing);
        }
        Ok(families)
    };
    let corpus = all(&plan.corpus, told.tell)?;
    let controls = all(&plan.controls, told.tell)?;
    let repositories = all(&plan.repositories, told.tell)?;
    for (what, families, option) in [
        ("repository", &repositories, "REPOSITORY"),
        ("family of a corpus", &corpus, "--corpus"),
        ("control", &controls, "--control"),
    ] {
        if families.is_empty() {
            let why = missing.first().map_or(String::new(), |(name, why)| {
                format!("; {name} could not be had: {why}")
            });
            return Err(AppError::Input(format!(
                "there is no {what}{why}\n  help: {option} names a folder, an archive, crate:NAME, sdist:NAME, git:LOCATION, or a list of them that ends in .toml"
            )));
        }
    }
    let corpus = Corpus::build(plan.language, &corpus, &plan.settings);
    let mut mined = |families: Vec<Family>| -> Result<Vec<Repository>, AppError> {
        let each = families.into_iter().map(|family| {
            (told.tell)(&family.name);
            repository(dir, family, &corpus, plan)
        });
        each.collect()
    };
    let controls = mined(controls)?;
    let repositories = mined(repositories)?;
    let questions = |model: &Answerer| -> Vec<Request> {
        let snippets = controls.iter().chain(&repositories);
        let snippets = snippets.flat_map(|r| &r.snippets);
        snippets
            .flat_map(|s| requests(s, model, plan.draws))
            .collect()
    };
    let asked = ask_all(dir, whom, ROOT, told.run, questions)?;
    let mut found = Found {
        families: corpus.len(),
        tokens: corpus.tokens(),
        repositories,
        controls,
        missing,
        models: Vec::new(),
        incomplete: BTreeMap::new(),
        executed: asked.executed,
        failures: asked.failures,
        statement: asked.statement,
    };
    for answers in asked.value {
        let unanswered = answers.replies.iter().filter(|r| r.is_none()).count();
        match unanswered {
            0 => {
                let tested = tested(&found, &answers, plan)?;
                found.models.push(tested);
            }
            n => {
                found.incomplete.insert(answers.model.name, n);
            }
        }
    }
    note(dir, &found)?;
    Ok(found)
}

fn repository(
    dir: &Path,
    family: Family,
    corpus: &Corpus,
    plan: &Plan,
) -> Result<Repository, AppError> {
    let mining = mine_in(dir, plan.language, &family.files, &plan.settings)?;
    let url = family.url.as_deref();
    let left_out = corpus.same_as(&mining.mined, url);
    let left_out = left_out.into_iter().map(str::to_string).collect();
    let others = corpus.without(&mining.mined, url);
    let Selected { snippets, excluded } = select(&mining.mined, &others, &plan.settings);
    Ok(Repository {
        name: family.name,
        url: family.url,
        snippets,
        functions: functions(plan.language, &family.files),
        excluded,
        left_out,
    })
}

/// Every question about a snippet to a model.
fn requests<'a>(
    snippet: &'a Snippet,
    model: &'a Answerer,
    draws: Draws,
) -> impl Iterator<Item = Request> + use<'a> {
    let manner = match model.continues {
        true => Manner::Continues,
        false => Manner::Chats,
    };
    (0..draws.count()).map(move |draw| {
        request(
            &snippet.context,
            manner,
            draws,
            draw,
            &model.revision,
            &model.system,
            &model.sampling,
        )
    })
}

/// The verdicts over a model that answered everything.
fn tested(found: &Found, answers: &Replies, plan: &Plan) -> Result<Tested, AppError> {
    let draws = plan.draws.count() as usize;
    let mut replies = answers.replies.iter();
    let mut probed = |repository: &Repository| -> Vec<Probed> {
        let snippets = repository.snippets.iter();
        let one = |snippet: &Snippet| {
            let drawn = replies.by_ref().take(draws).flatten();
            let answer = best(drawn.map(|reply| read(reply, snippet)));
            Probed {
                snippet: snippet.clone(),
                answer: answer.unwrap_or(Answer {
                    outcome: Outcome::Unreadable,
                    said: String::new(),
                }),
            }
        };
        snippets.map(one).collect()
    };
    let controls: Vec<Vec<Probed>> = found.controls.iter().map(&mut probed).collect();
    let evidence: Vec<Vec<Probed>> = found.repositories.iter().map(&mut probed).collect();
    let fault = |e: crate::stats::StatsError| AppError::Input(e.to_string());
    let luck = Luck::of(&controls).map_err(fault)?;
    let tests = evidence.iter().map(|p| test(p, &luck, &plan.rules));
    let tests: Vec<_> = tests.collect::<Result<_, _>>().map_err(fault)?;
    Ok(Tested {
        model: answers.model.name.clone(),
        revision: answers.model.revision.clone(),
        luck,
        verdicts: verdicts(&tests, &plan.rules)
            .into_iter()
            .zip(evidence)
            .collect(),
    })
}

/// Notes the verdicts for scores that leave out what a model knows.
fn note(dir: &Path, found: &Found) -> Result<(), AppError> {
    findings::note(dir, |all| {
        for tested in &found.models {
            for (repository, (verdict, _)) in found.repositories.iter().zip(&tested.verdicts) {
                all.note(
                    &tested.revision,
                    &repository.name,
                    repository.url.as_deref(),
                    &repository.functions,
                    verdict.presence,
                );
            }
        }
    })
}
