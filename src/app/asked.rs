//! What the last run was asked with: a score that is asked for otherwise is a score of something
//! else, of which most is missing.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use super::board::Plan;
use super::{App, AppError, Options};
use crate::oss::inputs::Scoring;

/// Under which name it is noted, beside the other surroundings.
const ASKED: &str = "asked";

/// The options of a command line that say what is evaluated. Which subjects is noted by where the
/// note stands; points and compilers change nothing that is looked for.
fn words(options: &Options) -> String {
    let mut words = Vec::new();
    let mut say = |option: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{option} {value}")));
    };
    say("limit", options.limit.map(|n| n.to_string()));
    say("iterations", options.iterations.map(|n| n.to_string()));
    say("seed", options.seed.map(|n| n.to_string()));
    say("task", options.task.clone());
    for model in &options.models {
        say("model", Some(model.clone()));
    }
    let mut scorings: Vec<Scoring> = options.scorings.clone();
    scorings.sort();
    for scoring in scorings {
        say("scoring", Some(scoring.name().to_string()));
    }
    say("profile", options.profile.clone());
    say("extractor", options.extractor.map(|e| e.name().to_string()));
    words.join(" ")
}

impl App {
    /// Notes what a run was asked with.
    pub(super) fn remember_asked(&self, options: &Options, plan: &Plan) -> Result<(), AppError> {
        for subject in &plan.subjects {
            self.note(&subject.manifest.name, ASKED, words(options).as_bytes())?;
        }
        Ok(())
    }

    /// What the last run was asked with, if it was something else than this; a sentence.
    pub fn asked_otherwise(&self, options: &Options) -> Result<Option<String>, AppError> {
        let now = words(options);
        let mut others: Vec<(String, String)> = Vec::new();
        for subject in self.project.chosen(&options.subjects)? {
            let name = &subject.manifest.name;
            if let Some(bytes) = self.surrounding(name, ASKED)? {
                let then = String::from_utf8_lossy(&bytes).into_owned();
                if then != now && !others.iter().any(|(_, other)| *other == then) {
                    others.push((name.clone(), then));
                }
            }
        }
        let with = |then: &str| match then {
            "" => "without options".to_string(),
            then => format!("with `{then}`"),
        };
        Ok(match others.as_slice() {
            [] => None,
            [(_, then)] => Some(format!("the last run was asked {}", with(then))),
            several => {
                let each = several
                    .iter()
                    .map(|(subject, then)| format!("that of `{subject}` {}", with(then)));
                let each: Vec<String> = each.collect();
                Some(format!("of the last runs was asked {}", each.join(", ")))
            }
        }
        .map(|said| format!("{said}: ask for the same, or write it into everbench.toml")))
    }
}
