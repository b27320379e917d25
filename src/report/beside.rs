//! Two leaderboards side by side: a release and what is evaluated now, or two releases. They are read
//! as JSON, since a release's may have been written by another version of the program.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// The version of the JSON document.
pub const BESIDE_SCHEMA: &str = "everbench/beside/1";

/// What of a row is compared.
const COLUMNS: [&str; 10] = [
    "score",
    "s1",
    "s2",
    "s3",
    "d",
    "rank",
    "functions",
    "compiles",
    "alerts",
    "iterations",
];

/// What of a board has to be equal for its rows to be comparable at all.
const SETTINGS: [&str; 3] = ["weights", "seed", "penalty"];

/// Two leaderboards.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Beside {
    /// [`BESIDE_SCHEMA`].
    pub schema: &'static str,
    /// What the two are called.
    pub names: [String; 2],
    /// Settings of the boards that differ, each with both values.
    pub settings: BTreeMap<&'static str, [Value; 2]>,
    /// The rows of both.
    pub rows: Vec<RowBeside>,
}

/// A row of both.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RowBeside {
    /// The subject's name.
    pub subject: String,
    /// `paired` or `paper`.
    pub scoring: String,
    /// The model's name.
    pub model: String,
    /// In which it is: `both`, `first` or `second`.
    pub there: &'static str,
    /// The sources that were measured.
    pub commits: [Value; 2],
    /// The numbers of both.
    pub numbers: BTreeMap<&'static str, [Value; 2]>,
    /// Whether anything differs.
    pub differs: bool,
}

/// Puts two leaderboards side by side, each with its name.
pub fn beside(first: (&str, &Value), second: (&str, &Value)) -> Beside {
    let boards = [first.1, second.1];
    let mut rows: Vec<(String, String, String)> = Vec::new();
    let by_key = boards.map(|board| {
        let mut found = BTreeMap::new();
        for row in board["rows"].as_array().into_iter().flatten() {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_string();
            let key = (text("subject"), text("scoring"), text("model"));
            if !rows.contains(&key) {
                rows.push(key.clone());
            }
            found.insert(key, row);
        }
        found
    });
    let settings = SETTINGS.into_iter().filter_map(|name| {
        let both = boards.map(|board| board[name].clone());
        (both[0] != both[1]).then_some((name, both))
    });
    let rows = rows.into_iter().map(|key| {
        let found = [by_key[0].get(&key).copied(), by_key[1].get(&key).copied()];
        let both = |name: &str| found.map(|row| row.map_or(Value::Null, |r| r[name].clone()));
        let numbers: BTreeMap<&str, [Value; 2]> =
            COLUMNS.into_iter().map(|name| (name, both(name))).collect();
        let (subject, scoring, model) = key;
        RowBeside {
            subject,
            scoring,
            model,
            there: match found {
                [Some(_), Some(_)] => "both",
                [Some(_), None] => "first",
                _ => "second",
            },
            commits: both("commit"),
            differs: numbers.values().any(|[a, b]| a != b),
            numbers,
        }
    });
    Beside {
        schema: BESIDE_SCHEMA,
        names: [first.0.to_string(), second.0.to_string()],
        settings: settings.collect(),
        rows: rows.collect(),
    }
}

/// The same for people.
pub fn beside_text(beside: &Beside) -> String {
    let [first, second] = &beside.names;
    let mut out = String::new();
    for (name, [a, b]) in &beside.settings {
        let _ = writeln!(
            out,
            "note: `{name}` is {a} in {first} and {b} in {second}: scores are not on one scale."
        );
    }
    let mut sources: Vec<String> = Vec::new();
    for row in beside.rows.iter().filter(|r| r.there == "both") {
        if let [Value::String(a), Value::String(b)] = &row.commits
            && a != b
        {
            let note = format!(
                "note: {} is {a} in {first} and {b} in {second}: other functions may have been asked; `everbench history` compares over those in both.",
                row.subject
            );
            if !sources.contains(&note) {
                sources.push(note);
            }
        }
    }
    for note in sources {
        let _ = writeln!(out, "{note}");
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let mut head: Vec<String> = ["subject", "scoring", "model"].map(String::from).into();
    head.extend([
        format!("score, {first}"),
        format!("score, {second}"),
        "difference".into(),
        "s1".into(),
        "s2".into(),
        "s3".into(),
        "rank".into(),
    ]);
    table.set_header(head);
    for row in &beside.rows {
        let [a, b] = &row.numbers["score"];
        let difference = match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => format!("{:+.2}", b - a),
            _ => "-".into(),
        };
        let mut cells: Vec<Cell> = [&row.subject, &row.scoring, &row.model]
            .map(Cell::new)
            .into();
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        cells.extend([number(a), number(b), difference].map(right));
        for name in ["s1", "s2", "s3", "rank"] {
            let [a, b] = &row.numbers[name];
            let said = match a == b {
                true => number(a),
                false => format!("{} -> {}", number(a), number(b)),
            };
            cells.push(right(said));
        }
        table.add_row(cells);
    }
    let _ = writeln!(out, "{table}");
    let same = beside.rows.iter().all(|row| !row.differs);
    if same {
        let _ = writeln!(out, "no row differs");
    }
    out
}

fn number(value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(n), _) => n.to_string(),
        (None, Some(x)) => format!("{x:.2}"),
        (None, None) => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_matched_by_subject_scoring_and_model() {
        let row = |model: &str, s1: f64| json!({ "subject": "t", "scoring": "paired", "model": model, "commit": "c", "s1": s1, "score": s1 });
        let old = json!({ "rows": [row("a", 50.0), row("b", 60.0)], "seed": 1 });
        let new = json!({ "rows": [row("c", 1.0), row("a", 55.5)], "seed": 2 });
        let both = beside(("2026", &old), ("now", &new));
        let there: Vec<(&str, &str, bool)> = both
            .rows
            .iter()
            .map(|r| (r.model.as_str(), r.there, r.differs))
            .collect();
        assert_eq!(
            there,
            [
                ("a", "both", true),
                ("b", "first", true),
                ("c", "second", true)
            ]
        );
        assert_eq!(both.rows[0].numbers["s1"], [json!(50.0), json!(55.5)]);
        assert_eq!(both.settings.keys().collect::<Vec<_>>(), [&"seed"]);
        let text = beside_text(&both);
        assert!(
            text.contains("+5.50") && text.contains("`seed` is 1 in 2026"),
            "{text}"
        );
        assert!(beside_text(&beside(("x", &old), ("y", &old))).contains("no row differs"));
    }
}
