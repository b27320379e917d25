//! What a run would do, as JSON and as text: jobs that can run now with the reason for each group,
//! and what waits for them.

use std::fmt::Write;

use serde::Serialize;

use super::upstream::broken_line;
use crate::app::{Asking, Forecast, SubjectForecast, Tokens};
use crate::ask::prices::dollars;

/// The version of the JSON document.
pub const PLAN_SCHEMA: &str = "everbench/plan/1";

/// Everything that `plan` gives.
#[derive(Clone, Debug, Serialize)]
pub struct PlanDoc<'a> {
    /// [`PLAN_SCHEMA`].
    pub schema: &'static str,
    /// The rest.
    #[serde(flatten)]
    pub forecast: &'a Forecast,
}

/// A forecast as a document.
pub fn plan(forecast: &Forecast) -> PlanDoc<'_> {
    PlanDoc {
        schema: PLAN_SCHEMA,
        forecast,
    }
}

/// A forecast as text.
pub fn plan_text(forecast: &Forecast) -> String {
    let mut out = String::new();
    let several = forecast.subjects.len() > 1;
    for (i, subject) in forecast.subjects.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let _ = writeln!(out, "{} at {}", subject.subject, subject.commit);
        write_subject(subject, &mut out);
    }
    let _ = match (forecast.complete, forecast.jobs) {
        (true, _) => writeln!(out, "{}nothing to do", if several { "\n" } else { "" }),
        (false, 1) => writeln!(
            out,
            "\n1 job can run now; `everbench run` runs it and what follows"
        ),
        (false, n) => writeln!(
            out,
            "\n{n} jobs can run now; `everbench run` runs them and what follows"
        ),
    };
    out
}

fn write_subject(plan: &SubjectForecast, out: &mut String) {
    if let Some(broken) = &plan.baseline_broken {
        let reason = broken.what.lines().next().unwrap_or_default();
        let said = broken_line(&plan.commit, reason, broken.last_good.as_deref());
        let _ = writeln!(out, "  {said}\n  help: {}", broken.help);
    }
    if !plan.groups.is_empty() {
        let _ = writeln!(
            out,
            "  {:<18} {:<16} {:>6}  {:>9}  why",
            "to run now", "model", "jobs", "CPU"
        );
    }
    for group in &plan.groups {
        let why: Vec<String> = match group.why.len() {
            1 => group.why.keys().cloned().collect(),
            _ => group.why.iter().map(|(w, n)| format!("{n} {w}")).collect(),
        };
        let _ = writeln!(
            out,
            "  {:<18} {:<16} {:>6}  {:>9}  {}",
            group.kind,
            group.model.as_deref().unwrap_or("(all)"),
            group.jobs,
            group.cpu_seconds.map_or("?".into(), seconds),
            why.join("; ")
        );
        if let Some(asking) = &group.asking {
            let _ = writeln!(out, "  {:<18} {}", "", asked(asking));
        }
    }
    if let Some(unknown) = &plan.unknown {
        let _ = writeln!(out, "  {unknown}");
    }
    if !plan.models.is_empty() {
        let _ = writeln!(out, "  {:<18} known / now / later", "stage");
    }
    for model in &plan.models {
        let stages = [("replies", model.replies), ("verdicts", model.verdicts)];
        let iterations = model.iterations.iter();
        let iterations = iterations.map(|(scoring, stage)| (*scoring, *stage));
        let stages: Vec<String> = stages
            .into_iter()
            .chain(iterations)
            .map(|(name, s)| {
                let carried = match s.carried {
                    0 => String::new(),
                    n => format!(" and {n} carried"),
                };
                format!("{name} {}/{}/{}{carried}", s.known, s.now, s.later)
            })
            .collect();
        let _ = writeln!(out, "  {:<18} {}", model.model, stages.join(", "));
    }
    match plan.detectable_s1 {
        Some(points) if points < 100.0 => {
            let _ = writeln!(
                out,
                "  with so many functions, differences in s1 of {points:.1} points and more are found (80 % power, level 0.05, at worst)"
            );
        }
        Some(_) => out.push_str("  with so few functions no two models can be told apart by s1\n"),
        None => {}
    }
}

/// What requests take, for people.
fn asked(asking: &Asking) -> String {
    let tokens = |t: &Tokens| {
        let money = t.micro_usd.map(|m| format!(", {}", dollars(m)));
        let money = money.unwrap_or_default();
        format!("{} tokens in, {} out{money}", t.input, t.output)
    };
    let mut said = match &asking.usual {
        Some(usual) => format!(
            "{} if answers are as the last {}; ",
            tokens(usual),
            asking.answers
        ),
        None => String::new(),
    };
    let _ = write!(said, "at most {}", tokens(&asking.at_most));
    match (&asking.price_date, asking.at_most.micro_usd) {
        (Some(date), _) => {
            let _ = write!(said, " (price of {date})");
        }
        (None, None) => said.push_str(" (no price known: `[[price]]` in everbench.toml gives one)"),
        (None, Some(_)) => {}
    }
    said
}

/// Seconds for people.
fn seconds(s: f64) -> String {
    match s {
        s if s < 0.95 => format!("{:.0} ms", s * 1000.0),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
