//! `everbench store stats`

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::super::common::{CliResult, Format, exit, print};
use super::super::run::json;
use crate::app::store_to_look;
use crate::config::Size;
use crate::store::{KindUsage, RunTally, Stats};

/// All figures.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    stats: Stats,
    /// What each kind takes up, and what its jobs once took.
    usage: Vec<KindUsage>,
    /// Stored bytes of what no job gave: inputs, lists of evaluations, notes.
    other_bytes: u64,
    /// The last run, and all together.
    runs: Option<Runs>,
}

#[derive(Serialize)]
struct Runs {
    last: Counted,
    all: Counted,
}

#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    tally: RunTally,
    /// Processor time that hits saved, microseconds by kind: their number times what a job of the
    /// kind took on the mean.
    saved_cpu_us: BTreeMap<String, u64>,
}

/// Runs the command.
pub fn run(dir: &Path, format: Format) -> CliResult {
    let store = store_to_look(dir)?;
    let reader = store.reader()?;
    let (usage, other_bytes) = reader.usage()?;
    let count = |tally: RunTally| Counted {
        saved_cpu_us: saved(&tally, &usage),
        tally,
    };
    let figures = Figures {
        stats: store.stats()?,
        runs: reader.runs()?.map(|(last, all)| Runs {
            last: count(last),
            all: count(all),
        }),
        usage,
        other_bytes,
    };
    print(&match format {
        Format::Json => json(&figures),
        Format::Text => text(&figures),
    })?;
    Ok(exit::OK)
}

fn saved(tally: &RunTally, usage: &[KindUsage]) -> BTreeMap<String, u64> {
    let mean = |kind: &str| {
        let of = usage.iter().filter(|u| u.kind == kind);
        let (cpu, n) = of.fold((0, 0), |(cpu, n), u| (cpu + u.cpu_us, n + u.actions));
        cpu.checked_div(n).unwrap_or(0)
    };
    let kinds = tally.kinds.iter();
    kinds
        .map(|(kind, t)| (kind.clone(), t.hits.saturating_mul(mean(kind))))
        .collect()
}

fn seconds(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e6)
}

fn text(figures: &Figures) -> String {
    let mut out = format!(
        "{:<18} {:>3} {:>9} {:>11} {:>9}\n",
        "in the store", "v", "jobs", "bytes", "cpu s"
    );
    for u in &figures.usage {
        out.push_str(&format!(
            "{:<18} {:>3} {:>9} {:>11} {:>9}\n",
            u.kind,
            u.version,
            u.actions,
            Size(u.bytes).to_string(),
            seconds(u.cpu_us)
        ));
    }
    out.push_str(&format!(
        "{:<18} {:>3} {:>9} {:>11}\n",
        "inputs and lists",
        "",
        "",
        Size(figures.other_bytes).to_string()
    ));
    if let Some(runs) = &figures.runs {
        let last = &runs.last.tally;
        let how = match last.complete {
            0 => "the last run, not complete",
            _ => "the last run",
        };
        out.push('\n');
        counted(&mut out, how, &runs.last);
        let all = &runs.all.tally;
        if all.runs > 1 {
            out.push('\n');
            let how = format!("all {} runs", all.runs);
            counted(&mut out, &how, &runs.all);
            if all.complete < all.runs {
                out.push_str(&format!(
                    "hits are counted in the {} runs that were complete\n",
                    all.complete
                ));
            }
        }
    }
    out.push('\n');
    let rest = serde_json::to_value(&figures.stats).unwrap_or_default();
    let single = |v: &serde_json::Value| !v.is_array() && !v.is_object();
    for (name, value) in rest.as_object().into_iter().flatten() {
        if single(value) {
            out.push_str(&format!("{name}: {value}\n"));
        }
    }
    out
}

/// Jobs found and executed; executions that gave nothing, by reason; what was spent and saved.
fn counted(out: &mut String, how: &str, counted: &Counted) {
    out.push_str(&format!(
        "{how} ({} s)\n{:<18} {:>8} {:>8} {:>8} {:>9} {:>6} {:>9} {:>11} {:>9} {:>9}\n",
        seconds(counted.tally.wall_us),
        "",
        "hits",
        "executed",
        "missing",
        "transient",
        "fatal",
        "cancelled",
        "bytes",
        "cpu s",
        "saved s"
    ));
    for (kind, t) in &counted.tally.kinds {
        let saved = counted.saved_cpu_us.get(kind).copied().unwrap_or(0);
        out.push_str(&format!(
            "{:<18} {:>8} {:>8} {:>8} {:>9} {:>6} {:>9} {:>11} {:>9} {:>9}\n",
            kind,
            t.hits,
            t.executed,
            t.missing,
            t.transient,
            t.fatal,
            t.cancelled,
            Size(t.bytes).to_string(),
            seconds(t.cpu_us),
            seconds(saved)
        ));
    }
}
