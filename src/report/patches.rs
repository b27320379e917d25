//! What histories say of a benchmark's patches, as JSON and text: each instance with the commit, the
//! hunk and the reason, what was no instance, and what the contaminated ones do to a leaderboard.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::contamination::patch::benchmark::{Benchmark, Instance};
use crate::contamination::patch::diff::LeftOut;
use crate::contamination::patch::joint::{Joint, Known, joint};
use crate::contamination::patch::leaderboard::{Effect, Rate, Row};
use crate::contamination::patch::verdict::{Commit, Told, Verdict, Where};

/// What the JSON is; raised when a field changes its meaning.
pub const PATCHES_SCHEMA: &str = "everbench/contamination-patches/1";

/// What is told of a benchmark.
pub struct Patches<'a> {
    /// The benchmark.
    pub benchmark: &'a Benchmark,
    /// What is said of each of its instances; nothing where a job is missing.
    pub told: &'a [Option<Told>],
    /// What was asked, as the command has it.
    pub asked: Value,
    /// What Stage I says of models, if it was asked.
    pub known: &'a [Known],
    /// The leaderboard, if there is one.
    pub rows: &'a [Row],
    /// Jobs that were run, by kind.
    pub executed: &'a BTreeMap<String, u64>,
    /// Jobs that are missing.
    pub missing: usize,
}

impl Patches<'_> {
    fn each(&self) -> impl Iterator<Item = (&Instance, Option<&Told>)> {
        let instances = self.benchmark.instances.iter();
        instances.zip(self.told.iter().map(Option::as_ref))
    }

    /// Both stages together, for each model.
    fn joint(&self, instance: &Instance, told: &Told) -> Vec<(&str, Joint, f64)> {
        let models = self.known.iter();
        models
            .map(|known| {
                let repository = known.repository(&instance.repository);
                let (verdict, score) = joint(repository, told.verdict);
                (&*known.model, verdict, score)
            })
            .collect()
    }

    fn verdicts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (_, told) in self.each() {
            let name = told.map_or("missing", |t| t.verdict.name());
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    fn categories(&self) -> BTreeMap<u8, usize> {
        let mut counts = BTreeMap::new();
        for category in self.each().filter_map(|(_, t)| t?.category) {
            *counts.entry(category.into()).or_default() += 1;
        }
        counts
    }

    fn left_out(&self) -> BTreeMap<LeftOut, usize> {
        let mut counts = BTreeMap::new();
        let all = self.each().filter_map(|(_, t)| t);
        for (_, reason) in all.flat_map(|t| &t.left_out) {
            *counts.entry(*reason).or_default() += 1;
        }
        counts
    }

    fn problems(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for problem in self.each().filter_map(|(_, t)| t?.problem) {
            *counts.entry(problem.words()).or_default() += 1;
        }
        counts
    }
}

/// The JSON document.
pub fn patches_json(patches: &Patches<'_>) -> Value {
    let instances = patches.each().map(|(instance, told)| {
        let mut value = serde_json::to_value(told).expect("what is told has string keys");
        if told.is_none() {
            value = json!({"verdict": "missing"});
        }
        if let (Some(told), false) = (told, patches.known.is_empty()) {
            let joint = patches.joint(instance, told).into_iter();
            let joint = joint.map(|(model, verdict, score)| {
                json!({"model": model, "verdict": verdict, "score": score})
            });
            value["models"] = joint.collect();
        }
        value["id"] = json!(instance.id);
        value["repository"] = json!(instance.repository);
        value["base"] = json!(instance.base);
        value
    });
    let bad = patches.benchmark.problems.iter();
    json!({
        "schema": PATCHES_SCHEMA,
        "benchmark": patches.benchmark.form.name(),
        "asked": patches.asked,
        "verdicts": patches.verdicts(),
        "categories": patches.categories().into_iter().map(|(c, n)| (c.to_string(), n)).collect::<BTreeMap<_, _>>(),
        "problems": patches.problems(),
        "left_out": patches.left_out(),
        "no_instances": bad.map(|(at, why)| json!({"at": at, "reason": why})).collect::<Vec<_>>(),
        "instances": instances.collect::<Vec<_>>(),
        "leaderboard": patches.rows,
        "executed": patches.executed,
        "missing": patches.missing,
    })
}

/// The tables.
pub fn patches_text(patches: &Patches<'_>) -> String {
    let mut out = String::new();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["instance", "verdict", "cat.", "since", "where", "why"]);
    for (instance, told) in patches.each() {
        let Some(told) = told else {
            table.add_row([&*instance.id, "missing", "", "", "", ""]);
            continue;
        };
        table.add_row([
            Cell::new(&instance.id),
            Cell::new(told.verdict.name()),
            Cell::new(
                told.category
                    .map_or("-".into(), |c| u8::from(c).to_string()),
            ),
            Cell::new(told.commit.as_ref().map_or("-".into(), since)),
            Cell::new(told.decided.as_ref().map_or("-".into(), place)),
            Cell::new(why(told)),
        ]);
    }
    let _ = writeln!(out, "{}\n", table.trim_fmt());
    let verdicts: Vec<String> = patches
        .verdicts()
        .iter()
        .map(|(v, n)| format!("{n} {v}"))
        .collect();
    let _ = writeln!(
        out,
        "{} instances of {}: {}",
        patches.benchmark.instances.len(),
        patches.benchmark.form.name(),
        verdicts.join(", ")
    );
    let categories = patches.categories();
    if !categories.is_empty() {
        let named: Vec<String> = categories
            .iter()
            .map(|(c, n)| format!("{c}: {n}"))
            .collect();
        let _ = writeln!(out, "categories: {}", named.join(", "));
    }
    let mut counted = |title: &str, counts: Vec<(&str, usize)>| {
        if !counts.is_empty() {
            let _ = writeln!(out, "{title}:");
        }
        for (what, n) in counts {
            let _ = writeln!(out, "{n:>7}  {what}");
        }
    };
    counted("unknown because", patches.problems().into_iter().collect());
    let left = patches.left_out().into_iter();
    counted("not compared", left.map(|(r, n)| (r.words(), n)).collect());
    let mut bad: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, reason) in &patches.benchmark.problems {
        *bad.entry(reason.words()).or_default() += 1;
    }
    counted("no instances", bad.into_iter().collect());
    for known in patches.known {
        let mut counts: BTreeMap<Joint, usize> = BTreeMap::new();
        let told = patches.each().filter_map(|(i, t)| Some((i, t?)));
        let all = told.flat_map(|(instance, told)| patches.joint(instance, told));
        for (_, verdict, _) in all.filter(|(model, ..)| *model == known.model) {
            *counts.entry(verdict).or_default() += 1;
        }
        counted(
            &format!("both stages, {}", known.model),
            counts.iter().map(|(v, n)| (v.words(), *n)).collect(),
        );
    }
    if !patches.rows.is_empty() {
        let _ = write!(
            out,
            "\nresolved before and after the contaminated instances are taken out\n{}",
            board(patches.rows)
        );
    }
    let executed: u64 = patches.executed.values().sum();
    let _ = writeln!(out, "executed {executed} jobs");
    out
}

fn since(commit: &Commit) -> String {
    format!(
        "{} {}",
        commit.day,
        commit.id.get(..10).unwrap_or(&commit.id)
    )
}

fn place(at: &Where) -> String {
    let mut out = at.path.clone();
    if let Some(now) = &at.now {
        let _ = write!(out, " (now {now})");
    }
    if let Some(hunk) = at.hunk {
        let _ = write!(out, " hunk {hunk}");
    }
    if let Some(function) = &at.function {
        let _ = write!(out, " in {function}");
    }
    out
}

fn why(told: &Told) -> String {
    match (&told.decided, told.verdict) {
        (Some(at), Verdict::Present) => format!("{} ({:.2})", told.reason, at.similarity),
        _ => told.reason.clone(),
    }
}

fn board(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["entry", "instances", "before", "after", "less", "relative"]);
    for row in rows {
        let groups = row
            .by_difficulty
            .iter()
            .map(|(name, effect)| (format!("difficulty {name}"), effect))
            .chain(
                row.by_year
                    .iter()
                    .map(|(name, effect)| (format!("year {name}"), effect)),
            );
        let all = std::iter::once(("all".to_string(), &row.all)).chain(groups);
        for (at, (group, effect)) in all.enumerate() {
            let name = match at {
                0 => &*row.name,
                _ => "",
            };
            table.add_row(line(name, &group, effect));
        }
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn line(name: &str, group: &str, effect: &Effect) -> Vec<String> {
    let rate = |rate: &Rate| match rate.share() {
        Some(share) => format!("{}/{} {:.1} %", rate.resolved, rate.of, 100.0 * share),
        None => "-".into(),
    };
    let percent = |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.1} %", 100.0 * s));
    vec![
        name.to_string(),
        group.to_string(),
        rate(&effect.before),
        rate(&effect.after),
        percent(effect.absolute),
        percent(effect.relative),
    ]
}
