//! What a check of a subject found, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::board::BaselineSummary;
use super::table::counts;
use crate::app::Checked;
use crate::digest::Digest;
use crate::logs::Case;
use crate::oss::check::{Coverage, Fate};
use crate::oss::reach::Whole;

/// The version of the JSON document.
pub const SCHEMA: &str = "everbench/check/1";

/// Everything that `subjects check` gives.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectCheck {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The subject's name.
    pub subject: String,
    /// Which source it was.
    pub commit: String,
    /// The compiler's version line.
    pub compiler: String,
    /// Functions in the population.
    pub population: u64,
    /// Functions in the window that are not compiled.
    pub unrelated: u64,
    /// Other definitions, by reason.
    pub excluded: BTreeMap<String, u64>,
    /// Recorded compilations.
    pub units: u64,
    /// Recorded archives, links and the like.
    pub steps: u64,
    /// Processor seconds that each flavour took to build.
    pub build_seconds: BTreeMap<&'static str, f64>,
    /// Processor seconds of one run of all shards.
    pub suite_seconds: f64,
    /// The unchanged subject's results.
    pub baseline: BaselineSummary,
    /// Cases that fail in every run, with their shards.
    pub failing: Vec<String>,
    /// Cases that do not always do the same, with their shards.
    pub flaky: Vec<String>,
    /// What the suite executes of the population.
    pub coverage: Option<CoverageSummary>,
    /// True if lines were to be counted and no program of the subject has counted any.
    pub uncounted: bool,
    /// Each program that the suite opens, and why all of it counts in keys of runs; nothing if only
    /// what is entered of it does.
    pub programs: BTreeMap<String, Option<Whole>>,
    /// What became of planted faults, by kind.
    pub planted: BTreeMap<&'static str, PlantedSummary>,
    /// Where to look when so many cases always fail that the subject cannot be right.
    pub suspect: Option<Suspect>,
}

/// The shard of which most cases always fail, when more than a third of all do.
#[derive(Clone, Debug, Serialize)]
pub struct Suspect {
    /// Its name.
    pub shard: String,
    /// What it wrote in one run: digests of the store by what they are.
    pub logs: BTreeMap<&'static str, Digest>,
}

/// What the suite executes of the population.
#[derive(Clone, Debug, Serialize)]
pub struct CoverageSummary {
    /// See [`Coverage`].
    #[serde(flatten)]
    pub counts: Coverage,
    /// Functions executed, percent of those with code.
    pub functions_percent: f64,
    /// Lines executed, percent of those with code.
    pub lines_percent: f64,
}

/// What became of the planted faults of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct PlantedSummary {
    /// How many could be planted.
    pub planted: u64,
    /// How many of these tests or sanitizers noticed.
    pub noticed: u64,
    /// Of these, by tests.
    pub by_tests: u64,
    /// Of these, by sanitizers alone.
    pub by_sanitizers: u64,
    /// Functions drawn in which there is none of this kind to plant.
    pub not_planted: u64,
    /// Functions in which nothing noticed it.
    pub unnoticed: Vec<String>,
    /// Those of them of which the suite executes no line; absent if that was not counted.
    pub unexecuted: Option<Vec<String>>,
}

/// The document of a check.
pub fn check(checked: &Checked) -> SubjectCheck {
    let cases = |of: fn(&crate::logs::Baseline) -> &std::collections::BTreeSet<Case>| {
        let shards = checked.shards.iter().zip(&checked.baseline.shards);
        shards
            .flat_map(|(name, shard)| of(shard).iter().map(move |c| format!("{name}: {c}")))
            .collect::<Vec<String>>()
    };
    // Programs that end otherwise than by leaving write nothing: that is no 0 %.
    let coverage = checked.coverage.as_ref().filter(|c| c.lines > 0);
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let planted = checked.planted.iter().map(|(kind, fates)| {
        let count = |fate: Fate| fates.iter().filter(|p| p.fate == fate).count() as u64;
        let (tests, sanitizers) = (count(Fate::Tests), count(Fate::Sanitizers));
        let unnoticed = fates.iter().filter(|p| p.fate == Fate::Unnoticed);
        let unnoticed: Vec<String> = unnoticed.map(|p| p.function.clone()).collect();
        let unexecuted = coverage.map(|coverage| {
            let never = unnoticed.iter().filter(|f| !coverage.executed.contains(*f));
            never.cloned().collect()
        });
        let summary = PlantedSummary {
            planted: tests + sanitizers + count(Fate::Unnoticed),
            noticed: tests + sanitizers,
            by_tests: tests,
            by_sanitizers: sanitizers,
            not_planted: count(Fate::NotPlanted),
            unnoticed,
            unexecuted,
        };
        (*kind, summary)
    });
    SubjectCheck {
        schema: SCHEMA,
        subject: checked.subject.clone(),
        commit: checked.commit.clone(),
        compiler: checked.compiler.clone(),
        population: checked.population.functions.len() as u64,
        unrelated: checked.population.unrelated.len() as u64,
        excluded: checked.population.excluded.clone(),
        units: checked.base.units.len() as u64,
        steps: checked.base.steps.len() as u64,
        build_seconds: checked.build_seconds.clone(),
        suite_seconds: checked.suite_seconds,
        baseline: BaselineSummary::from(&*checked.baseline),
        failing: cases(|b| &b.failing),
        flaky: cases(|b| &b.flaky),
        uncounted: checked.coverage.is_some() && coverage.is_none(),
        coverage: coverage.map(|c| CoverageSummary {
            functions_percent: percent(c.functions, c.functions_with_code),
            lines_percent: percent(c.lines, c.lines_with_code),
            counts: c.clone(),
        }),
        programs: checked.programs.clone(),
        planted: planted.collect(),
        suspect: match &checked.failing_logs {
            Some((shard, logs)) if 3 * checked.baseline.failing() > checked.baseline.cases() => {
                Some(Suspect {
                    shard: shard.clone(),
                    logs: logs.iter().copied().collect(),
                })
            }
            _ => None,
        },
    }
}

/// The check as text.
pub fn check_text(c: &SubjectCheck) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} ({}), {}", c.subject, c.commit, c.compiler);
    let _ = writeln!(
        out,
        "functions: {} in the window and compiled, {} not compiled; others: {}",
        c.population,
        c.unrelated,
        counts(&c.excluded)
    );
    let builds: Vec<String> = c
        .build_seconds
        .iter()
        .map(|(flavour, seconds)| format!("{flavour} {seconds:.1} CPU s"))
        .collect();
    let _ = writeln!(
        out,
        "build: {} units, {} archives and links; {}",
        c.units,
        c.steps,
        builds.join(", ")
    );
    let b = &c.baseline;
    let _ = writeln!(
        out,
        "tests: {} cases in {} shards, {:.1} CPU s; {} failing, {} flaky, {} skipped; {} runs passed {} %; {} alerts of its own",
        b.cases,
        b.shards,
        c.suite_seconds,
        b.failing,
        b.flaky,
        b.skipped,
        b.runs,
        b.rates(),
        b.alerts
    );
    for (what, cases) in [("failing", &c.failing), ("flaky", &c.flaky)] {
        for case in cases {
            let _ = writeln!(out, "  {what}: {case}");
        }
    }
    if let Some(found) = &c.coverage {
        let n = &found.counts;
        let _ = writeln!(
            out,
            "executed by the tests: {:.0} % of lines ({} of {}), {:.0} % of functions ({} of {}){}",
            found.lines_percent,
            n.lines,
            n.lines_with_code,
            found.functions_percent,
            n.functions,
            n.functions_with_code,
            match n.cut_short {
                0 => String::new(),
                n => format!("; {n} shards were cut short and are not counted"),
            }
        );
    }
    if c.uncounted {
        let _ = writeln!(
            out,
            "executed by the tests: not known; no program of the subject wrote its counts, as it does when it leaves by itself"
        );
    }
    programs(&mut out, c);
    for (kind, p) in &c.planted {
        let _ = writeln!(
            out,
            "planted {kind}: {} of {} noticed ({} by tests, {} by sanitizers alone){}",
            p.noticed,
            p.planted,
            p.by_tests,
            p.by_sanitizers,
            match p.not_planted {
                0 => String::new(),
                n => format!("; {n} functions have nothing to plant it in"),
            }
        );
        unnoticed(&mut out, p);
    }
    if let Some(suspect) = &c.suspect {
        suspicion(&mut out, c, suspect);
    }
    out
}

/// Which programs' runs a change can leave alone: the maintainer's daily cost hangs on it.
fn programs(out: &mut String, c: &SubjectCheck) {
    if c.programs.is_empty() {
        return;
    }
    let whole: Vec<_> = c
        .programs
        .iter()
        .filter(|(_, whole)| whole.is_some())
        .collect();
    let _ = writeln!(
        out,
        "programs: {} opened by the tests; of {} a change counts only in functions that are entered, of {} wherever it is",
        c.programs.len(),
        c.programs.len() - whole.len(),
        whole.len()
    );
    // Programs are often linked from the same units: each reason once.
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, why) in whole
        .into_iter()
        .filter_map(|(p, w)| Some((p, w.as_ref()?)))
    {
        by_reason.entry(why.to_string()).or_default().push(path);
    }
    for (why, paths) in by_reason {
        let more = match paths.len() {
            0..=3 => String::new(),
            n => format!(" and {} more", n - 3),
        };
        let shown = paths[..paths.len().min(3)].join(", ");
        let _ = writeln!(out, "  wherever: {shown}{more}: {why}");
    }
}

/// The functions in which nothing noticed the fault: that a test does not look is one thing, that
/// none comes by another.
fn unnoticed(out: &mut String, p: &PlantedSummary) {
    let mut line = |what: &str, names: &[&str]| {
        if !names.is_empty() {
            let _ = writeln!(out, "  {what}: {}", names.join(", "));
        }
    };
    let all: Vec<&str> = p.unnoticed.iter().map(String::as_str).collect();
    let Some(never) = &p.unexecuted else {
        return line("unnoticed", &all);
    };
    let (never, executed): (Vec<&str>, Vec<&str>) =
        all.into_iter().partition(|f| never.iter().any(|n| n == f));
    line("unnoticed, though executed", &executed);
    line("unnoticed, not executed by the tests", &never);
}

/// What to look at when the unchanged subject fails its own tests.
fn suspicion(out: &mut String, c: &SubjectCheck, suspect: &Suspect) {
    let _ = writeln!(
        out,
        "NOT FIT: {} of {} cases always fail, though nothing was changed: rather the build with \
         sanitizers or the shard's command is at fault than the tests. What `{}` wrote:",
        c.baseline.failing, c.baseline.cases, suspect.shard
    );
    for (what, digest) in &suspect.logs {
        let _ = writeln!(out, "  {what}: `everbench store cat {}`", digest.short());
    }
    let _ = writeln!(
        out,
        "  a shared library of the project cannot be used by a program that has `-static-libasan`: \
         docs/subjects.md, \"From a directory to a subject\""
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(unnoticed: &[&str], unexecuted: Option<&[&str]>) -> PlantedSummary {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        PlantedSummary {
            planted: 5,
            noticed: 5 - unnoticed.len() as u64,
            by_tests: 5 - unnoticed.len() as u64,
            by_sanitizers: 0,
            not_planted: 0,
            unnoticed: owned(unnoticed),
            unexecuted: unexecuted.map(owned),
        }
    }

    #[test]
    fn the_text_names_what_is_to_be_looked_at() {
        let log = Digest::of(b"log");
        let checked = SubjectCheck {
            schema: SCHEMA,
            subject: "mylib".into(),
            commit: "1.0".into(),
            compiler: "cc 1".into(),
            population: 9,
            unrelated: 1,
            excluded: BTreeMap::new(),
            units: 2,
            steps: 1,
            build_seconds: BTreeMap::from([("plain", 1.0)]),
            suite_seconds: 0.5,
            baseline: BaselineSummary {
                shards: 1,
                groups: Vec::new(),
                cases: 5,
                passing: 3,
                failing: 2,
                flaky: 0,
                skipped: 0,
                runs: 1,
                pass_rates: vec![60.0],
                alerts: 0,
            },
            failing: vec!["t: a".into(), "t: b".into()],
            flaky: Vec::new(),
            coverage: None,
            uncounted: true,
            programs: BTreeMap::from([
                ("t/alone".into(), None),
                (
                    "t/a".into(),
                    Some(Whole::Option {
                        unit: "x.o".into(),
                        option: "-O2".into(),
                    }),
                ),
                (
                    "t/b".into(),
                    Some(Whole::Option {
                        unit: "x.o".into(),
                        option: "-O2".into(),
                    }),
                ),
                (
                    "t/c".into(),
                    Some(Whole::NotFollowed { path: "y.a".into() }),
                ),
            ]),
            planted: BTreeMap::from([
                ("all_noticed", planted(&[], Some(&[]))),
                ("counted", planted(&["f", "g", "h"], Some(&["g"]))),
                ("uncounted", planted(&["f", "g"], None)),
            ]),
            suspect: Some(Suspect {
                shard: "t".into(),
                logs: BTreeMap::from([("stderr", log)]),
            }),
        };
        insta::assert_snapshot!(check_text(&checked));
    }
}
