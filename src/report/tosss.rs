//! Scores of TOSSS as JSON and text: the paper's table, then each language and arm with intervals,
//! ranks and groups, then what the hint does.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::app::tosss::ask::Clean;
use crate::tosss::Arm;
use crate::tosss::bench::Report;
use crate::tosss::score::{Row, Scores, few};

/// What the JSON is; raised when a field changes its meaning.
pub const TOSSS_SCHEMA: &str = "everbench/tosss/1";

/// The JSON document: `rows`, `comparisons`, `hint_effects`, `averages`, `random`.
pub fn tosss_json(scores: &Scores) -> serde_json::Value {
    let mut document = serde_json::to_value(scores).expect("scores have string keys");
    document["schema"] = TOSSS_SCHEMA.into();
    document
}

/// The tables.
pub fn tosss_text(scores: &Scores) -> String {
    let mut out = published(scores);
    let mut tables: BTreeMap<(&str, Arm), Vec<&Row>> = BTreeMap::new();
    for row in &scores.rows {
        let key = (row.language.as_str(), row.arm);
        tables.entry(key).or_default().push(row);
    }
    for ((language, arm), rows) in &tables {
        let first = rows[0];
        let _ = writeln!(
            out,
            "\n{language}, {arm}: {} pairs of {} CVEs; strict score (secure / pairs) with 95 % interval",
            most(rows, |r| r.pairs),
            most(rows, |r| r.clusters),
        );
        out.push_str(&detail(rows));
        let compared = || {
            let all = scores.comparisons.iter();
            all.filter(|c| c.language == *language && c.arm == *arm)
        };
        if compared().next().is_some() {
            let raw = compared().filter(|c| c.difference.p.is_some_and(|p| p < 0.05));
            let _ = writeln!(
                out,
                "{} pairs of models: {} differ at p < 0.05, {} of them after Holm's correction; \
                 models with a letter in common are not told apart",
                compared().count(),
                raw.count(),
                compared().filter(|c| c.told_apart).count(),
            );
        }
        for row in rows.iter().filter(|r| r.below_chance) {
            let why = match row.prefers_vulnerable {
                true => "prefers the vulnerable side".to_string(),
                false => format!(
                    "left {} of {} questions without a choice",
                    row.questions - row.answered,
                    row.questions
                ),
            };
            let _ = writeln!(out, "below chance: {} {why}", row.model);
        }
        if few(first.clusters)
            && let Some(warning) = &first.warning
        {
            let _ = writeln!(out, "note: {warning}");
        }
    }
    if !scores.hint_effects.is_empty() {
        out.push_str("\neffect of the hint, on the same pairs; p after Holm's correction\n");
        out.push_str(&hints(scores));
    }
    out
}

/// The paper's Table 2: its own score in every language and arm.
fn published(scores: &Scores) -> String {
    let mut columns: Vec<(&str, Arm)> = Vec::new();
    let mut models: Vec<&str> = Vec::new();
    for row in &scores.rows {
        if !columns.contains(&(&row.language, row.arm)) {
            columns.push((&row.language, row.arm));
        }
        if !models.contains(&row.model.as_str()) {
            models.push(&row.model);
        }
    }
    let mut table = plain();
    let mut header = vec!["model".to_string()];
    header.extend(columns.iter().map(|(l, arm)| format!("{l}\n{arm}")));
    table.set_header(header);
    let three = |score: Option<f64>| score.map_or("-".to_string(), |s| format!("{s:.3}"));
    for model in models {
        let mut cells = vec![model.to_string()];
        for (language, arm) in &columns {
            let mut rows = scores.rows.iter();
            let row = rows.find(|r| r.model == model && r.language == *language && r.arm == *arm);
            cells.push(three(row.and_then(|r| r.paper)));
        }
        table.add_row(cells);
    }
    let mut average = vec!["Average".to_string()];
    let mut random = vec!["Random".to_string()];
    for (language, arm) in &columns {
        let mut all = scores.averages.iter();
        let own = all.find(|a| a.language == *language && a.arm == *arm);
        average.push(three(own.and_then(|a| a.paper)));
        random.push(three(Some(scores.random)));
    }
    table.add_row(average).add_row(random);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "score as in the paper (secure / answered)\n{}\n",
        trimmed(&table)
    )
}

fn detail(rows: &[&Row]) -> String {
    let mut table = plain();
    table.set_header([
        "rank", "strict", "interval", "groups", "paper", "answered", "deff", "model",
    ]);
    for row in rows {
        let [best, worst] = row.ranks;
        table.add_row([
            match best == worst {
                true => best.to_string(),
                false => format!("{best}-{worst}"),
            },
            format!("{:.3}", row.strict),
            match row.interval {
                Some([lo, hi]) => format!("{lo:.3} {hi:.3}"),
                None => "none".into(),
            },
            row.groups.clone(),
            row.paper.map_or("-".into(), |p| format!("{p:.3}")),
            format!("{}/{}", row.answered, row.questions),
            row.design_effect.map_or("-".into(), |d| format!("{d:.2}")),
            row.model.clone(),
        ]);
    }
    format!("{}\n", trimmed(&table))
}

fn hints(scores: &Scores) -> String {
    let mut table = plain();
    table.set_header(["language", "effect", "interval", "p", "pairs", "model"]);
    for effect in &scores.hint_effects {
        let d = &effect.difference;
        table.add_row([
            Cell::new(&effect.language),
            Cell::new(format!("{:+.3}", d.difference)),
            Cell::new(match d.interval {
                Some([lo, hi]) => format!("{lo:+.3} {hi:+.3}"),
                None => "none".into(),
            }),
            Cell::new(d.holm.map_or("-".into(), |p| format!("{p:.3}"))),
            Cell::new(d.pairs),
            Cell::new(&effect.model),
        ]);
    }
    format!("{}\n", trimmed(&table))
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// The table without the blanks that pad its last column.
fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn most(rows: &[&Row], of: impl Fn(&Row) -> usize) -> usize {
    rows.iter().map(|r| of(r)).max().unwrap_or(0)
}

/// The JSON of scores over pairs: as [`tosss_json`], with `single_function`, `weaknesses`,
/// `positions`, `outcomes`, and how many jobs are missing.
pub fn tosss_report_json(report: &Report, missing: usize) -> serde_json::Value {
    let mut document = serde_json::to_value(report).expect("reports have string keys");
    document["schema"] = TOSSS_SCHEMA.into();
    document["missing"] = missing.into();
    document
}

/// The tables of scores over pairs.
pub fn tosss_report_text(report: &Report) -> String {
    let mut out = tosss_text(&report.all);
    let single = &report.single_function;
    if !single.rows.is_empty() && single.rows.len() == report.all.rows.len() {
        out.push_str("\nfixes that change one function only, strict score\n");
        let mut table = plain();
        table.set_header(["language", "arm", "strict", "interval", "pairs", "model"]);
        for row in &single.rows {
            table.add_row([
                row.language.clone(),
                row.arm.to_string(),
                format!("{:.3}", row.strict),
                interval(row.interval),
                row.pairs.to_string(),
                row.model.clone(),
            ]);
        }
        let _ = writeln!(out, "{}", trimmed(&table));
    }
    let no_choice = |outcome: &&String| !["A", "B"].contains(&outcome.as_str());
    let open = report.outcomes.iter().filter_map(|(who, outcomes)| {
        let all: usize = outcomes.values().sum();
        let open = outcomes.iter().filter(|(outcome, _)| no_choice(outcome));
        let open: Vec<String> = open.map(|(outcome, n)| format!("{n} {outcome}")).collect();
        (!open.is_empty()).then(|| format!("{who}: {} of {all}\n", open.join(", ")))
    });
    let open: String = open.collect();
    if !open.is_empty() {
        let _ = write!(out, "\nanswers that are no choice\n{open}");
    }
    if !report.positions.is_empty() {
        out.push_str(
            "\nposition: share of A among the choices, and pairs answered alike in both orders\n",
        );
        let mut table = plain();
        table.set_header(["language", "arm", "A", "interval", "alike", "model"]);
        for position in &report.positions {
            table.add_row([
                position.language.clone(),
                position.arm.to_string(),
                position.share_a.map_or("-".into(), |s| format!("{s:.3}")),
                interval(position.interval),
                match position.consistency {
                    Some(share) => format!("{share:.3} of {}", position.both),
                    None => "not asked".into(),
                },
                position.model.clone(),
            ]);
        }
        let _ = writeln!(out, "{}", trimmed(&table));
    }
    if !report.weaknesses.is_empty() {
        out.push_str("\nby weakness, strict score\n");
        let mut table = plain();
        table.set_header([
            "weakness", "language", "arm", "strict", "pairs", "CVEs", "model",
        ]);
        for weakness in &report.weaknesses {
            for row in &weakness.scores.rows {
                table.add_row([
                    weakness.cwe.clone(),
                    row.language.clone(),
                    row.arm.to_string(),
                    format!("{:.3}", row.strict),
                    row.pairs.to_string(),
                    row.clusters.to_string(),
                    row.model.clone(),
                ]);
            }
        }
        let _ = writeln!(out, "{}", trimmed(&table));
    }
    out
}

/// Scores with and without the pairs that models were found to know.
pub fn tosss_clean_text(report: &Report, clean: &Clean) -> String {
    let mut out = String::from(
        "\nwithout the pairs that a model was found to know (`everbench contamination repo` and `probe`), strict score\n",
    );
    let mut table = plain();
    table.set_header([
        "language", "arm", "all", "pairs", "without", "interval", "pairs", "model",
    ]);
    for row in &report.all.rows {
        let left = clean
            .scores
            .rows
            .iter()
            .find(|r| (&r.model, &r.language, r.arm) == (&row.model, &row.language, row.arm));
        table.add_row([
            row.language.clone(),
            row.arm.to_string(),
            format!("{:.3}", row.strict),
            row.pairs.to_string(),
            left.map_or("-".into(), |r| format!("{:.3}", r.strict)),
            left.map_or("none".into(), |r| interval(r.interval)),
            left.map_or(0, |r| r.pairs).to_string(),
            row.model.clone(),
        ]);
    }
    let _ = writeln!(out, "{}", trimmed(&table));
    for (model, left_out) in &clean.left_out {
        let of = |why: &str| left_out.pairs.get(why).copied().unwrap_or(0);
        let _ = match left_out.tested {
            0 => writeln!(out, "{model}: no pair is of code that was tested"),
            tested => writeln!(
                out,
                "{model}: {tested} of {} pairs are of code that was tested; left out: {} of repositories that it knows, {} that it named",
                left_out.asked,
                of("repository"),
                of("named")
            ),
        };
    }
    out
}

fn interval(ends: Option<[f64; 2]>) -> String {
    match ends {
        Some([lo, hi]) => format!("{lo:.3} {hi:.3}"),
        None => "none".into(),
    }
}

/// Two texts beside each other in `width` columns, `|` between lines that differ, `<` and `>` where
/// only one side has a line.
pub fn side_by_side(before: &str, after: &str, width: usize) -> String {
    let column = (width.max(24) - 3) / 2;
    let pieces = |line: &str| -> Vec<String> {
        let plain = line.trim_end_matches(['\n', '\r']).replace('\t', "    ");
        let chars: Vec<char> = plain.chars().collect();
        match chars.is_empty() {
            true => vec![String::new()],
            false => chars.chunks(column).map(|c| c.iter().collect()).collect(),
        }
    };
    let mut out = String::new();
    let mut row = |left: Option<&str>, mark: char, right: Option<&str>| {
        let left = left.map(pieces).unwrap_or_default();
        let right = right.map(pieces).unwrap_or_default();
        for n in 0..left.len().max(right.len()) {
            let piece = |side: &[String]| side.get(n).cloned().unwrap_or_default();
            let line = format!("{:<column$} {mark} {}", piece(&left), piece(&right));
            out.push_str(line.trim_end());
            out.push('\n');
        }
    };
    let diff = similar::TextDiff::from_lines(before, after);
    let old: Vec<&str> = diff.iter_old_slices().collect();
    let new: Vec<&str> = diff.iter_new_slices().collect();
    for op in diff.ops() {
        let (x, y) = (op.old_range(), op.new_range());
        let (x, y) = (&old[x], &new[y]);
        let equal = op.tag() == similar::DiffTag::Equal;
        for n in 0..x.len().max(y.len()) {
            let (left, right) = (x.get(n).copied(), y.get(n).copied());
            let mark = match (equal, left, right) {
                (true, _, _) => ' ',
                (false, Some(_), Some(_)) => '|',
                (false, Some(_), None) => '<',
                (false, None, _) => '>',
            };
            row(left, mark, right);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_stand_beside_each_other() {
        let before = "int f(int n)\n{\n\treturn v[n];\n}\n";
        let after = "int f(unsigned n)\n{\n\tif (n > 9)\n\t\treturn 0;\n\treturn v[n];\n}\n";
        insta::assert_snapshot!(side_by_side(before, after, 53));
        let long = side_by_side("a very long line indeed", "b", 24);
        assert!(long.lines().all(|l| l.chars().count() <= 24) && long.lines().count() == 3);
        assert_eq!(side_by_side("", "", 80), "");
    }
}
