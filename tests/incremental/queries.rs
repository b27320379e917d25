//! Which queries run again. A number of executions is per evaluation: one for every wave of
//! missing jobs, and the last.

use std::collections::{BTreeMap, BTreeSet};

use everbench::app;
use everbench::cancel::Cancel;
use everbench::engine::Driver;
use everbench::oss::leaderboard::RowFacts;
use everbench::oss::population;

use super::synthetic::workbench::{self, SCORINGS, Workbench};
use super::synthetic::{Function, World, model};
use super::{Settled, oracle, settled, small};

/// How often each query ran for an edit, and in how many evaluations.
struct Ran {
    counts: BTreeMap<String, u64>,
    evaluations: u64,
}

impl Ran {
    #[track_caller]
    fn never(&self, queries: &[&str]) {
        for query in queries {
            assert_eq!(self.counts.get(*query), None, "{query}: {:?}", self.counts);
        }
    }

    #[track_caller]
    fn times(&self, query: &str, n: u64) {
        let ran = self.counts.get(query).copied().unwrap_or(0);
        assert_eq!(ran, n, "{query}: {:?}", self.counts);
    }
}

/// Applies `edit` to the evaluated small world, and evaluates to the end.
fn after(edit: impl FnOnce(&mut World)) -> Ran {
    let Settled {
        mut world,
        mut workbench,
        dir: _dir,
        ..
    } = settled(small());
    edit(&mut world);
    workbench.apply(&world);
    let (_, waves) = workbench.settle();
    Ran {
        counts: workbench.db.take_executed(),
        evaluations: waves.len() as u64 + 1,
    }
}

/// What hangs on functions and replies alone.
const CASES: [&str; 4] = ["file_sample", "file_cases", "case", "fresh_case"];
/// What hangs on which functions there are.
const DRAWS: [&str; 4] = ["sample", "ranking", "set", "language"];
/// What hangs on the compiler's view of the source.
const SOURCE: [&str; 6] = [
    "snapshot",
    "file_functions",
    "unit_facts",
    "population",
    "link_context",
    "text",
];

#[test]
fn nothing_runs_when_nothing_changed() {
    assert_eq!(after(|_| {}).counts, BTreeMap::new());
}

#[test]
fn a_comment_outside_functions_is_cut_off_at_the_population() {
    let ran = after(|w| w.files[1].remark = "Another remark, as long as a line.".into());
    // One file is read again; the unit it is compiled in has the same text.
    ran.times("file_functions", 1);
    ran.never(&["unit_facts"]);
    ran.times("extraction", 1);
    ran.times("population", 1);
    ran.times("link_context", 1);
    // Texts are cut out of files again, and found to be the same.
    ran.times("text", 30);
    ran.never(&CASES);
    ran.never(&DRAWS);
}

#[test]
fn moved_lines_are_cut_off_at_the_population() {
    let ran = after(|w| w.files[1].blank = 3);
    ran.times("file_functions", 1);
    ran.times("unit_facts", 1);
    ran.times("population", 1);
    ran.never(&CASES);
    ran.never(&DRAWS);
}

#[test]
fn a_changed_body_re_runs_its_own_cases_only() {
    let ran = after(|w| w.function("part002_step01").body[0] = "int r = a - b;".into());
    ran.times("file_functions", 1);
    ran.times("unit_facts", 1);
    // One function of three models, in one file; two evaluations wait for footprint and base.
    let waves = ran.evaluations - 2;
    assert_eq!(waves, 3);
    ran.times("fresh_case", 3 * waves);
    ran.times("file_cases", 3 * waves);
    // The draws are made again, from the same names.
    ran.times("ranking", 5);
    ran.times("set", 30);
}

#[test]
fn a_new_model_re_runs_nothing_of_the_others() {
    let ran = after(|w| w.models.push(model("latecomer")));
    ran.never(&SOURCE);
    ran.never(&[
        "sample",
        "ranking",
        "file_sample",
        "baseline",
        "expected",
        "base",
    ]);
    ran.times("row_facts", 2 * ran.evaluations);
    // Five files: without replies, without verdicts, and with both.
    ran.times("file_cases", 5 * 3);
}

#[test]
fn prices_re_run_nothing() {
    let ran = after(|w| w.penalty = 9.0);
    assert_eq!(ran.counts, BTreeMap::from([("rules".into(), 1)]));
}

#[test]
fn another_log_parser_reads_the_logs_again_and_no_source() {
    let ran = after(|w| w.pass = "^OK: (?<name>.* case [023456789])$".into());
    assert_eq!(ran.evaluations, 1);
    ran.never(&CASES);
    ran.never(&SOURCE);
    ran.never(&["sample", "ranking"]);
    ran.times("iteration", 30);
    ran.times("baseline", 1);
}

#[test]
fn another_template_re_runs_cases_of_models_that_read_it() {
    let ran = after(|w| w.template = w.template.replace("Improve", "Kindly improve"));
    ran.never(&SOURCE);
    ran.never(&["sample", "ranking", "baseline", "expected"]);
    // Two of the three models are asked by prompt.
    ran.times("fresh_case", 60 * ran.evaluations);
    // The replies say the same, so every set is what it was: iterations waited and are as before.
    ran.times("iteration", 20 * ran.evaluations);
}

#[test]
fn another_seed_re_runs_draws_and_no_source() {
    let ran = after(|w| w.seed = 8);
    ran.never(&SOURCE);
    ran.never(&["sample", "file_sample", "baseline", "expected"]);
    ran.times("ranking", 5);
}

#[test]
fn another_iteration_re_runs_no_case_and_draws_once() {
    let ran = after(|w| w.iterations = 6);
    ran.never(&CASES);
    ran.never(&SOURCE);
    ran.never(&["sample"]);
    ran.times("ranking", 1);
}

#[test]
fn a_sample_re_runs_nothing_of_the_source() {
    let ran = after(|w| w.limit = Some(10));
    assert_eq!(ran.evaluations, 3);
    ran.never(&SOURCE);
    ran.times("sample", 1);
    ran.never(&["fresh_case", "baseline"]);
}

/// One verdict of many arrives: its own case runs again, and no other function's.
#[test]
fn an_arrival_re_runs_its_own_case() {
    let world = small();
    let dir = tempfile::tempdir().unwrap();
    let mut workbench = Workbench::new(workbench::store(dir.path()), &world);
    let verdicts = loop {
        let (_, hold) = workbench.rows();
        let of_kind = |kind| hold.jobs().iter().filter(move |j| j.kind().name == kind);
        if of_kind("oss/verdict").next().is_some() && of_kind("ask/completion").next().is_none() {
            break of_kind("oss/verdict").cloned().collect::<Vec<_>>();
        }
        workbench.run(hold.jobs());
    };
    assert!(verdicts.len() > 50);
    workbench.db.take_executed();
    workbench.run(&verdicts[..1]);
    workbench.rows();
    let executed = workbench.db.take_executed();
    assert_eq!(executed["fresh_case"], 1, "{executed:?}");
    assert_eq!(executed["file_cases"], 1);
    assert!(executed["case"] <= 6);
    for query in [
        "population",
        "text",
        "link_context",
        "baseline",
        "ranking",
        "language",
    ] {
        assert_eq!(executed.get(query), None, "{executed:?}");
    }
}

#[test]
fn a_later_process_recalls_its_rows() {
    let Settled {
        world,
        workbench,
        rows,
        dir,
    } = settled(small());
    drop(workbench);
    let mut later = Workbench::new(workbench::store(dir.path()), &world);
    let (again, waves) = later.settle();
    assert_eq!((again, waves.len()), (rows, 0));
    let executed = later.db.take_executed();
    assert_eq!(executed["kept_row"], 6);
    let computed = [
        "fresh_case",
        "file_cases",
        "case",
        "set",
        "ranking",
        "iteration",
        "extraction",
        "places",
        "text",
        "unit_facts",
    ];
    for query in computed {
        assert_eq!(executed.get(query), None, "{query}: {executed:?}");
    }
}

/// Another parser of replies, of units, of anything: all is derived anew from what is stored, and
/// nothing is asked.
#[test]
fn other_code_derives_everything_anew_and_wants_nothing() {
    let Settled {
        world,
        workbench,
        rows,
        dir,
    } = settled(small());
    drop(workbench);
    let mut executed = Vec::new();
    for _ in 0..2 {
        let store = workbench::store(dir.path());
        let mut later = Workbench::with_code(store, &world, "the next version");
        let (again, waves) = later.settle();
        assert_eq!((&again, waves.len()), (&rows, 0));
        executed.push(later.db.take_executed());
    }
    assert_eq!(executed[0]["fresh_case"], 90);
    assert_eq!(executed[0]["unit_facts"], 5);
    assert_eq!(executed[0]["iteration"], 30);
    assert_eq!(executed[1].get("fresh_case"), None);
}

/// The driver with its threads and waves runs what the oracle lists, each job once.
#[test]
fn a_drive_runs_what_the_oracle_lists() {
    let world = small();
    let dir = tempfile::tempdir().unwrap();
    let mut workbench = Workbench::new(workbench::store(dir.path()), &world);
    let driver = Driver {
        registry: &workbench.registry,
        ledger: &workbench.ledger,
        cores: 2,
        cancel: Cancel::new(),
    };
    let (settings, subject, models) = (
        workbench.settings,
        workbench.subject,
        workbench.models.clone(),
    );
    let driven = driver
        .drive(&mut workbench.db, &mut (), |db| {
            app::board(db, settings, subject, &models, &SCORINGS)
        })
        .unwrap();
    assert!(driven.hold.is_empty() && driven.failures.is_empty());
    let expected: BTreeMap<&str, u64> = oracle::footprint(&world)
        .into_iter()
        .map(|(kind, items)| (kind, items.len() as u64))
        .collect();
    assert_eq!(driven.executed, expected);
    let rows: Vec<_> = driven.value.rows.into_iter().map(|r| r.facts).collect();
    assert_eq!(rows, settled(world).rows);
}

/// A function that comes or goes moves at most one place of each paired draw; what stays keeps
/// its order.
#[test]
fn a_draw_changes_by_at_most_one_member() {
    let drawn = |world: &World| -> Vec<BTreeSet<String>> {
        let Settled {
            workbench, rows, ..
        } = settled(world.clone());
        let sample = population::sample(&workbench.db, workbench.settings, workbench.subject)
            .expect("there");
        let row: &RowFacts = rows[0].as_deref().expect("complete");
        let name = |at: &u32| sample[*at as usize].id.clone();
        let iterations = row.iterations.iter();
        iterations
            .map(|i| i.drawn.iter().map(name).collect())
            .collect()
    };
    let mut world = World::new(5, 6, 2, 1);
    world.iterations = 20;
    let before = drawn(&world);
    let mut more = world.clone();
    more.files[2]
        .functions
        .insert(3, Function::new("newcomer".into(), 3, false));
    let mut fewer = world.clone();
    fewer.files[4].functions.remove(2);
    let (more, fewer) = (drawn(&more), drawn(&fewer));
    let (mut came, mut went) = (0, 0);
    for (old, (more, fewer)) in before.iter().zip(more.iter().zip(&fewer)) {
        assert_eq!((old.len(), more.len(), fewer.len()), (4, 4, 4));
        // Only the new function pushes another out; only the lost one lets another in.
        let new: Vec<_> = more.difference(old).collect();
        assert!(new.is_empty() || new == ["newcomer"], "{new:?}");
        let lost: Vec<_> = old.difference(fewer).collect();
        assert!(lost.is_empty() || lost == ["part004_step02"], "{lost:?}");
        came += new.len();
        went += lost.len();
    }
    assert!(came > 0 && went > 0, "{came} {went}");
}
