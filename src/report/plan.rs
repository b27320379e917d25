//! What a run would do, as JSON and as text: jobs that can run now with the reason for each group,
//! and what waits for them.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

/// The version of the JSON document.
pub const SCHEMA: &str = "everbench/plan/1";

/// Everything that `plan` gives.
#[derive(Clone, Debug, Serialize)]
pub struct PlanDoc {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// By subject, in the project's order.
    pub subjects: Vec<SubjectPlan>,
    /// Jobs that can run now, each counted once however many rows need it.
    pub jobs: u64,
    /// True if nothing is missing.
    pub complete: bool,
}

/// One subject's part.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectPlan {
    /// Its name.
    pub subject: String,
    /// Which source it is.
    pub commit: String,
    /// What there is to do, by kind, then by model.
    pub groups: Vec<Group>,
    /// How far each model is.
    pub models: Vec<ModelPlan>,
    /// Why nothing can be said of the models yet.
    pub unknown: Option<String>,
    /// The smallest true difference between two models' s1 that would be found in four of five
    /// cases at a level of 0.05, in points, at this number of functions: the bound for independent
    /// functions of which half compile. Correlation within files makes it larger, the pairing of
    /// functions smaller.
    pub detectable_s1: Option<f64>,
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
}

/// How far one model is.
#[derive(Clone, Debug, Serialize)]
pub struct ModelPlan {
    /// Its name.
    pub model: String,
    /// Replies.
    pub replies: StageDoc,
    /// Verdicts.
    pub verdicts: StageDoc,
    /// Iterations, by scoring.
    pub iterations: BTreeMap<&'static str, StageDoc>,
}

/// How far one stage is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StageDoc {
    /// Known already.
    pub known: u64,
    /// Can be worked on now.
    pub now: u64,
    /// Wait for an earlier stage; at most.
    pub later: u64,
}

impl PlanDoc {
    /// The document as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let several = self.subjects.len() > 1;
        for (i, subject) in self.subjects.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            let _ = writeln!(out, "{} at {}", subject.subject, subject.commit);
            subject.write(&mut out);
        }
        let _ = match (self.complete, self.jobs) {
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
}

impl SubjectPlan {
    fn write(&self, out: &mut String) {
        if !self.groups.is_empty() {
            let _ = writeln!(
                out,
                "  {:<18} {:<16} {:>6}  {:>9}  why",
                "to run now", "model", "jobs", "CPU"
            );
        }
        for group in &self.groups {
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
        }
        if let Some(unknown) = &self.unknown {
            let _ = writeln!(out, "  {unknown}");
        }
        if !self.models.is_empty() {
            let _ = writeln!(out, "  {:<18} known / now / later", "stage");
        }
        for model in &self.models {
            let stages = [("replies", model.replies), ("verdicts", model.verdicts)];
            let iterations = model.iterations.iter();
            let iterations = iterations.map(|(scoring, stage)| (*scoring, *stage));
            let stages: Vec<String> = stages
                .into_iter()
                .chain(iterations)
                .map(|(name, s)| format!("{name} {}/{}/{}", s.known, s.now, s.later))
                .collect();
            let _ = writeln!(out, "  {:<18} {}", model.model, stages.join(", "));
        }
        if let Some(points) = self.detectable_s1 {
            let _ = writeln!(
                out,
                "  with so many functions, differences in s1 of {points:.1} points and more are found (80 % power, level 0.05, at worst)"
            );
        }
    }
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
