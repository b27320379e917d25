//! Verdicts of contamination as text and JSON: one table for each model, what was left out, and the
//! evidence, snippet by snippet.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::app::presence::{Found, Repository, Tested};
use crate::contamination::verdict::{Probed, Verdict};

/// What the JSON is; raised when a field changes its meaning.
pub const PRESENCE_SCHEMA: &str = "everbench/contamination-repo/1";

/// The tables.
pub fn presence_text(found: &Found) -> String {
    let mut out = format!(
        "corpus: {} families, {} tokens; controls: {}\n",
        found.families,
        found.tokens,
        found.controls.len()
    );
    for tested in &found.models {
        let luck = &tested.luck;
        let kinds: Vec<String> = luck
            .counts
            .iter()
            .map(|(pattern, (hits, trials))| format!("{} {hits} of {trials}", word(pattern)))
            .collect();
        let _ = writeln!(
            out,
            "\n{}: hits by luck in {} controls: {}; correlation {:.3}",
            tested.revision,
            luck.controls,
            if kinds.is_empty() {
                "nothing was answered".into()
            } else {
                kinds.join(", ")
            },
            luck.rho
        );
        out.push_str(&table(found, tested));
    }
    for repository in &found.repositories {
        if !repository.left_out.is_empty() {
            let _ = writeln!(
                out,
                "{}: left out of the corpus, being the same or overlapping: {}",
                repository.name,
                repository.left_out.join(", ")
            );
        }
        if repository.snippets.len() < 20 {
            let _ = writeln!(out, "{}: {}", repository.name, few(repository));
        }
    }
    out
}

/// Why a repository has few snippets.
fn few(repository: &Repository) -> String {
    let mut reasons: Vec<_> = repository.excluded.iter().collect();
    reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), **reason));
    let reasons: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!(
        "{} signature snippets; left out: {}",
        repository.snippets.len(),
        if reasons.is_empty() {
            "nothing".into()
        } else {
            reasons.join(", ")
        }
    )
}

fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn table(found: &Found, tested: &Tested) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "repository",
        "verdict",
        "hits",
        "asked",
        "by luck",
        "p",
        "q",
        "binomial",
        "beta",
        "not answered",
    ]);
    for (repository, (verdict, probed)) in found.repositories.iter().zip(&tested.verdicts) {
        let test = &verdict.test;
        let silent: Vec<String> = test
            .outcomes
            .iter()
            .filter(|(outcome, _)| !outcome.tried())
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        table.add_row([
            repository.name.clone(),
            verdict.presence.words().to_string(),
            test.hits.to_string(),
            probed.len().to_string(),
            format!("{:.1}", test.chance * test.probes as f64),
            small(test.p),
            verdict.q.map_or("-".into(), small),
            small(test.binomial),
            small(test.beta),
            silent.join(", "),
        ]);
    }
    for at in 2..9 {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// A probability in few characters.
fn small(p: f64) -> String {
    match p {
        p if p >= 0.001 => format!("{p:.3}"),
        p if p > 0.0 => format!("{p:.0e}"),
        _ => "0".into(),
    }
}

/// What was asked, expected and answered, for every repository and model.
pub fn presence_evidence(found: &Found) -> String {
    let mut out = String::new();
    for tested in &found.models {
        for (repository, (verdict, probed)) in found.repositories.iter().zip(&tested.verdicts) {
            let _ = writeln!(
                out,
                "\n== {} and {}: {}, {} of {} hit",
                tested.model,
                repository.name,
                verdict.presence,
                verdict.test.hits,
                verdict.test.probes
            );
            for one in probed {
                let snippet = &one.snippet;
                let _ = writeln!(
                    out,
                    "\n{} {} byte {}: {}, {} times, in {} families, {:.1} bits",
                    one.answer.outcome,
                    snippet.path,
                    snippet.offset,
                    word(&snippet.pattern),
                    snippet.repeats,
                    snippet.df,
                    snippet.bits
                );
                for line in snippet.context.lines() {
                    let _ = writeln!(out, "  | {line}");
                }
                let _ = writeln!(out, "  expected: {}", snippet.target);
                let _ = writeln!(out, "  answered: {}", one.answer.said.replace('\n', " "));
            }
        }
    }
    out
}

/// The document: `corpus`, `controls`, `repositories`, `models` with a verdict for each repository,
/// and the evidence if it is wanted.
pub fn presence_json(found: &Found, evidence: bool) -> Value {
    let verdict = |repository: &Repository, (verdict, probed): &(Verdict, Vec<Probed>)| {
        let mut document = json!(verdict);
        document["repository"] = json!(repository.name);
        document["url"] = json!(repository.url);
        document["asked"] = json!(probed.len());
        if evidence {
            document["evidence"] = json!(probed);
        }
        document
    };
    let models = found.models.iter().map(|tested| {
        let rows = found.repositories.iter().zip(&tested.verdicts);
        let rows: Vec<Value> = rows.map(|(r, v)| verdict(r, v)).collect();
        json!({
            "model": tested.model,
            "revision": tested.revision,
            "luck": tested.luck,
            "verdicts": rows,
        })
    });
    let repository = |r: &Repository| {
        let mut document = json!(r);
        document["snippets"] = json!(r.snippets.len());
        document
    };
    json!({
        "schema": PRESENCE_SCHEMA,
        "corpus": { "families": found.families, "tokens": found.tokens },
        "controls": found.controls.iter().map(repository).collect::<Vec<_>>(),
        "repositories": found.repositories.iter().map(repository).collect::<Vec<_>>(),
        "missing": found.missing,
        "models": models.collect::<Vec<_>>(),
        "incomplete": found.incomplete,
        "executed": found.executed,
        "asked": found.statement,
    })
}
