//! OSS-Bench's own probe as text and JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::app::naming::{Named, Probe};

/// What the JSON is; raised when a field changes its meaning.
pub const NAMING_SCHEMA: &str = "everbench/contamination-probe/1";

/// For each model, how often it named the project in each arm.
pub fn naming_text(probe: &Probe, evidence: bool) -> String {
    let mut out = String::new();
    for named in &probe.models {
        let _ = writeln!(
            out,
            "{}: functions of which it named the project",
            named.revision
        );
        for rate in &named.rates {
            let share = match rate.share {
                Some((share, low, high)) => format!(
                    "{:5.1} % [{:.1}, {:.1}]",
                    100.0 * share,
                    100.0 * low,
                    100.0 * high
                ),
                None => "none shown".into(),
            };
            let others = rate
                .said
                .iter()
                .filter(|(said, _)| **said != crate::contamination::named::Said::Named);
            let others: Vec<String> = others
                .map(|(said, count)| format!("{count} {}", word(said)))
                .collect();
            let _ = writeln!(
                out,
                "  {:14} {:>3} of {:>3}  {share}  {}",
                rate.arm.to_string(),
                rate.named,
                rate.functions,
                others.join(", ")
            );
        }
        if evidence {
            for (shown, (said, text)) in probe.shown.iter().zip(&named.said) {
                let text = text.trim().replace('\n', " ");
                let _ = writeln!(
                    out,
                    "  {}, {}: {}: {text}",
                    shown.function,
                    shown.arm,
                    word(said)
                );
            }
        }
    }
    out
}

fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// The document: `models`, each with a rate for each arm, and the evidence if it is wanted.
pub fn naming_json(probe: &Probe, evidence: bool) -> Value {
    let model = |named: &Named| {
        let mut document = json!({
            "model": named.model,
            "revision": named.revision,
            "arms": named.rates,
        });
        if evidence {
            let said = probe.shown.iter().zip(&named.said);
            let said = said.map(|(shown, (said, text))| {
                json!({ "function": shown.function, "arm": shown.arm, "said": said, "answer": text })
            });
            document["evidence"] = said.collect();
        }
        document
    };
    json!({
        "schema": NAMING_SCHEMA,
        "functions": probe.shown.len(),
        "models": probe.models.iter().map(model).collect::<Vec<_>>(),
        "missing": probe.missing,
        "incomplete": probe.incomplete,
        "executed": probe.executed,
        "asked": probe.statement,
    })
}
