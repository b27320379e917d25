//! The wanted set of every kind of edit, exact: in a process that saw the world before, and in
//! one that starts from the store.

use std::collections::BTreeSet;

use super::oracle::{self, Wanted};
use everbench::job::{Job, Value};

use super::synthetic::workbench::{self, Workbench};
use super::synthetic::{Function, World, model};
use super::{Settled, settled, small};

/// What an edit asked for.
struct Asked {
    wanted: Wanted,
    /// Names of functions, by kind.
    before: World,
    after: World,
}

impl Asked {
    fn count(&self, kind: &str) -> usize {
        self.wanted.get(kind).map_or(0, BTreeSet::len)
    }

    fn kinds(&self) -> Vec<&str> {
        self.wanted.keys().map(String::as_str).collect()
    }

    /// The functions whose replies, or verdicts, are wanted.
    fn functions(&self, kind: &str) -> BTreeSet<String> {
        let names = self.after.files.iter().chain(&self.before.files);
        let names: BTreeSet<&String> = names
            .flat_map(|f| f.functions.iter().map(|f| &f.name))
            .collect();
        let items = self.wanted.get(kind).into_iter().flatten();
        items
            .map(|item| {
                let mut found = names.iter().filter(|n| item.contains(n.as_str()));
                let name = found.next().expect("it names a function");
                name.to_string()
            })
            .collect()
    }
}

/// Applies `edit` to the small world and compares what is wanted with the oracle, within the
/// process and in a fresh one; both must give the same rows.
fn asked(edit: impl FnOnce(&mut World)) -> Asked {
    let before = small();
    let mut after = before.clone();
    edit(&mut after);
    asked_between(before, after)
}

fn asked_between(before: World, after: World) -> Asked {
    let expected = oracle::wanted(&[&before], &after);

    let Settled { mut workbench, .. } = settled(before.clone());
    workbench.apply(&after);
    let (rows, waves) = workbench.settle();
    let wanted = oracle::items(waves.iter().flatten());
    compare(&wanted, &expected, "in the same process");

    let old = settled(before.clone());
    drop(old.workbench);
    let mut fresh = Workbench::new(workbench::store(old.dir.path()), &after);
    let (fresh_rows, waves) = fresh.settle();
    compare(
        &oracle::items(waves.iter().flatten()),
        &expected,
        "in a fresh process",
    );
    assert_eq!(rows, fresh_rows);
    // And the rows are those of a world that never was another.
    assert_eq!(rows, settled(after.clone()).rows);
    Asked {
        wanted,
        before,
        after,
    }
}

pub(super) fn compare(wanted: &Wanted, expected: &Wanted, how: &str) {
    let kinds: BTreeSet<&String> = wanted.keys().chain(expected.keys()).collect();
    let none = BTreeSet::new();
    for kind in kinds {
        let (wanted, expected) = (
            wanted.get(kind).unwrap_or(&none),
            expected.get(kind).unwrap_or(&none),
        );
        let too_many: Vec<_> = wanted.difference(expected).collect();
        let too_few: Vec<_> = expected.difference(wanted).collect();
        assert!(
            too_many.is_empty() && too_few.is_empty(),
            "{kind} {how}: {} of {} wanted without need, {} of {} needed and not wanted\n{:#?}\n{:#?}",
            too_many.len(),
            wanted.len(),
            too_few.len(),
            expected.len(),
            too_many.iter().take(3).collect::<Vec<_>>(),
            too_few.iter().take(3).collect::<Vec<_>>(),
        );
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| n.to_string()).collect()
}

/// The builds of the unchanged subject: what any edit of the source tree costs.
const BUILDS: [&str; 2] = ["oss/base", "oss/footprint"];

#[test]
fn the_first_evaluation_wants_everything_once() {
    let world = small();
    let dir = tempfile::tempdir().unwrap();
    let mut workbench = Workbench::new(workbench::store(dir.path()), &world);
    let (rows, waves) = workbench.settle();
    let wanted = oracle::items(waves.iter().flatten());
    compare(&wanted, &oracle::wanted(&[], &world), "at first");
    assert_eq!(wanted["ask/completion"].len(), 2 * 30);
    assert_eq!(wanted["ask/calibration"].len(), 30);
    assert_eq!(wanted["oss/footprint"].len(), 2);
    assert_eq!(wanted["oss/base"].len(), 2);
    assert!(wanted["oss/verdict"].len() > 50);
    // The world has something of everything that the edits below could lose.
    let rows: Vec<_> = rows.into_iter().map(Option::unwrap).collect();
    let cases = rows.iter().flat_map(|r| &r.cases);
    let outcomes: BTreeSet<_> = cases
        .map(|c| (c.outcome.name(), c.compiles, c.differs))
        .collect();
    assert!(outcomes.contains(&("code", true, true)), "{outcomes:?}");
    assert!(outcomes.contains(&("code", true, false)), "{outcomes:?}");
    assert!(outcomes.contains(&("code", false, true)), "{outcomes:?}");
    let iterations: Vec<_> = rows.iter().flat_map(|r| &r.iterations).collect();
    assert!(iterations.iter().any(|i| i.passed < i.total));
    assert!(iterations.iter().any(|i| !i.alerts.is_empty()));
}

#[test]
fn nothing_changed_wants_nothing() {
    assert_eq!(asked(|_| {}).wanted, Wanted::new());
}

#[test]
fn comments_and_white_space_outside_functions_cost_two_builds_and_nothing_else() {
    let edits: [fn(&mut World); 4] = [
        |w| w.files[1].remark = "Another remark, as long as a line.".into(),
        |w| w.files[1].remark = "Now of\ntwo lines.".into(),
        |w| w.files[1].blank = 3,
        |w| w.files.iter_mut().for_each(|f| f.blank += 1),
    ];
    for edit in edits {
        assert_eq!(asked(edit).kinds(), BUILDS);
    }
}

#[test]
fn documentation_costs_two_builds_and_nothing_else() {
    let edits: [fn(&mut World); 3] = [
        |w| drop(w.others.insert("README.md".into(), "Better said.".into())),
        |w| drop(w.others.insert("doc/more.md".into(), "More.".into())),
        |w| drop(w.others.remove("README.md")),
    ];
    for edit in edits {
        assert_eq!(asked(edit).kinds(), BUILDS);
    }
}

#[test]
fn what_one_shard_reads_runs_that_shard() {
    let asked = asked(|w| drop(w.others.insert("data/second.txt".into(), "harder".into())));
    assert_eq!(asked.kinds(), ["oss/base", "oss/footprint", "oss/run"]);
    let runs = &asked.wanted["oss/run"];
    assert!(runs.iter().all(|run| run.contains(" second ")), "{runs:?}");
    // Of every program there is, and three of the unchanged one.
    let programs = oracle::footprint(&asked.after)["oss/program"].len();
    assert_eq!(runs.len(), programs + 3);
}

#[test]
fn a_variant_that_can_tell_its_line_is_built_again_when_its_lines_move() {
    let mut before = small();
    before.function("part001_step01").body[0] = "int r = __LINE__;".into();
    let moved = |at: usize| {
        let mut after = before.clone();
        after.files[at].blank = 3;
        wanted(&before, &after)
    };
    assert_eq!(moved(2).keys().collect::<Vec<_>>(), BUILDS);
    let wanted = moved(1);
    let kinds = ["oss/base", "oss/footprint", "oss/program"];
    assert_eq!(wanted.keys().collect::<Vec<_>>(), kinds);
    let programs = &wanted["oss/program"];
    assert!(
        programs.iter().all(|set| set.contains("part001_step01")),
        "{programs:?}"
    );
}

/// A test that starts to read another file: its key holds it from the next run on.
#[test]
fn a_file_that_a_test_begins_to_read_is_in_its_key_from_then_on() {
    let before = small();
    let mut reads_more = before.clone();
    let mut write = |path: &str, text: &str| {
        let all = &mut reads_more.others;
        all.insert(path.into(), text.into());
    };
    write("data/first.txt", "data/more.txt");
    write("data/more.txt", "more");
    let mut more_changed = reads_more.clone();
    let more = &mut more_changed.others;
    more.insert("data/more.txt".into(), "even more".into());

    let Settled { mut workbench, .. } = settled(before.clone());
    let mut runs = |world: &World| -> Vec<(String, bool)> {
        workbench.apply(world);
        let (_, waves) = workbench.settle();
        let jobs = waves
            .iter()
            .flatten()
            .filter(|j| j.kind().name == "oss/run");
        let held = |job: &Job| {
            let (_, bytes) = &job.preimages()[0];
            String::from_utf8_lossy(bytes).contains("data/more.txt")
        };
        let shard = |job: &Job| match job.list("argv").last() {
            Some(Value::Text(shard)) => shard.clone(),
            other => panic!("{other:?}"),
        };
        jobs.map(|job| (shard(job), held(job))).collect()
    };
    let first = runs(&reads_more);
    // Once with the names that were known, then with the new one; no other shard.
    let (with, without): (Vec<_>, Vec<_>) = first.iter().partition(|(_, held)| *held);
    assert_eq!(with.len(), without.len() + programs_of(&before));
    assert!(first.iter().all(|(shard, _)| shard == "first"), "{first:?}");
    // Now it is known where to start only to those that remember: the names of the first run of
    // all are where a process without memory starts, and those runs are there.
    let second = runs(&more_changed);
    assert!(
        !second.is_empty() && second.iter().all(|(_, held)| *held),
        "{second:?}"
    );
    assert_eq!(runs(&reads_more), []);
    assert_eq!(runs(&before), []);
}

/// Programs with something replaced.
fn programs_of(world: &World) -> usize {
    oracle::footprint(world)["oss/program"].len()
}

#[test]
fn a_changed_body_is_asked_again_and_no_other() {
    let asked = asked(|w| {
        w.function("part002_step01").body[0] = "int r = a - b;".into();
    });
    let changed = names(&["part002_step01"]);
    assert_eq!(asked.functions("ask/completion"), changed);
    assert_eq!(asked.count("ask/completion"), 2);
    assert_eq!(asked.functions("ask/calibration"), changed);
    assert!(asked.functions("oss/verdict").is_subset(&changed));
}

#[test]
fn a_body_that_calls_something_new_judges_no_other_function() {
    let asked = asked(|w| {
        w.function("part002_step01").body[0] = "int r = lib_round(a);".into();
    });
    let changed = names(&["part002_step01"]);
    assert_eq!(asked.functions("ask/completion"), changed);
    assert!(asked.functions("oss/verdict").is_subset(&changed));
}

#[test]
fn a_changed_doc_comment_is_a_changed_function() {
    let asked = asked(|w| w.function("part000_step03").comment = Some("Better said.".into()));
    let changed = names(&["part000_step03"]);
    assert_eq!(asked.functions("ask/completion"), changed);
    assert_eq!(asked.functions("ask/calibration"), changed);
    assert!(asked.functions("oss/verdict").is_subset(&changed));
    // No program has comments in it, but the sets name what they replace.
    let programs = asked.wanted.get("oss/program").into_iter().flatten();
    for set in programs {
        assert!(set.contains("part000_step03"), "{set}");
    }
}

#[test]
fn a_new_local_function_is_asked_alone_and_its_file_compiled_again() {
    let new = Function::new("part003_new".into(), 4, true);
    let asked = asked(|w| w.files[3].functions.push(new));
    assert_eq!(asked.functions("ask/completion"), names(&["part003_new"]));
    assert_eq!(asked.functions("ask/calibration"), names(&["part003_new"]));
    // A verdict is keyed by the whole unit without bodies: the new declaration is in it.
    let verdicts = asked.functions("oss/verdict");
    assert!(
        verdicts.iter().all(|name| name.starts_with("part003_")),
        "{verdicts:?}"
    );
}

#[test]
fn a_new_global_function_is_asked_alone_and_every_variant_linked_again() {
    let new = Function::new("part003_new".into(), 4, false);
    let asked = asked(|w| w.files[3].functions.push(new));
    assert_eq!(asked.functions("ask/completion"), names(&["part003_new"]));
    // A verdict is keyed by all symbols: any variant could now clash with the new one.
    let variants = oracle::footprint(&asked.after)["oss/verdict"].len();
    assert_eq!(asked.count("oss/verdict"), variants);
}

#[test]
fn a_removed_function_asks_nothing() {
    let asked = asked(|w| {
        w.files[3].functions.retain(|f| f.name != "part003_step02");
    });
    assert_eq!(
        asked.count("ask/completion") + asked.count("ask/calibration"),
        0
    );
    // It was local: what is compiled again is what its file still has.
    let verdicts = asked.functions("oss/verdict");
    assert!(
        verdicts.iter().all(|name| name.starts_with("part003_")),
        "{verdicts:?}"
    );
}

#[test]
fn a_moved_function_asks_nothing() {
    let asked = asked(|w| w.files[4].functions.swap(0, 5));
    assert_eq!(
        asked.count("ask/completion") + asked.count("ask/calibration"),
        0
    );
    let verdicts = asked.functions("oss/verdict");
    assert!(
        verdicts.iter().all(|name| name.starts_with("part004_")),
        "{verdicts:?}"
    );
}

#[test]
fn a_renamed_file_asks_nothing() {
    let asked = asked(|w| w.files[0].path = "src/first.c".into());
    assert_eq!(
        asked.count("ask/completion") + asked.count("ask/calibration"),
        0
    );
}

#[test]
fn a_changed_macro_compiles_its_files_variants_again_and_asks_nothing() {
    let asked = asked(|w| w.files[2].preamble[0] = "#define PART 22".into());
    assert_eq!(
        asked.count("ask/completion") + asked.count("ask/calibration"),
        0
    );
    let verdicts = asked.functions("oss/verdict");
    assert!(!verdicts.is_empty());
    assert!(
        verdicts.iter().all(|name| name.starts_with("part002_")),
        "{verdicts:?}"
    );
}

#[test]
fn a_new_model_wants_its_own_jobs() {
    let asked = asked(|w| w.models.push(model("latecomer")));
    assert_eq!(asked.count("ask/completion"), 30);
    let mine = |item: &String| item.starts_with("latecomer@1\n");
    assert!(asked.wanted["ask/completion"].iter().all(mine));
    assert_eq!(asked.count("oss/base") + asked.count("ask/calibration"), 0);
    assert!(asked.count("oss/program") <= 2 * 5);
}

#[test]
fn a_model_that_leaves_wants_nothing() {
    assert_eq!(asked(|w| w.models.truncate(1)).wanted, Wanted::new());
}

#[test]
fn a_model_with_the_draws_of_another_shares_its_jobs() {
    let asked = asked(|w| {
        let mut twin = w.models[0].clone();
        twin.name = "twin".into();
        w.models.push(twin);
    });
    assert_eq!(asked.wanted, Wanted::new());
}

#[test]
fn prices_want_nothing() {
    assert_eq!(asked(|w| w.penalty = 2.5).wanted, Wanted::new());
}

#[test]
fn another_log_parser_wants_nothing_and_is_heard() {
    let before = small();
    let mut after = before.clone();
    // The case with number 1 and those from 10 on are no cases any more.
    after.pass = "^OK: (?<name>.* case [023456789])$".into();
    let total = |w: &World| settled(w.clone()).rows[0].clone().unwrap().iterations[0].total;
    assert!(total(&after) < total(&before));
    assert_eq!(asked_between(before, after).wanted, Wanted::new());
}

#[test]
fn another_template_asks_again_and_compiles_what_is_new() {
    let asked = asked(|w| w.template = w.template.replace("Improve", "Kindly improve"));
    // The fakes look at the function alone: every variant stays, and all that rests on it.
    assert_eq!(asked.kinds(), ["ask/completion"]);
    assert_eq!(asked.count("ask/completion"), 60);
}

#[test]
fn another_revision_of_a_model_is_another_model() {
    let asked = asked(|w| w.models[0] = model("model00b"));
    assert_eq!(asked.count("ask/completion"), 30);
    assert!(asked.count("oss/verdict") > 0);
    assert_eq!(asked.count("oss/base"), 0);
}

#[test]
fn another_seed_draws_again_but_asks_no_model_by_prompt() {
    let asked = asked(|w| w.seed = 8);
    assert_eq!(asked.count("ask/completion") + asked.count("oss/base"), 0);
    assert!(asked.count("oss/program") > 0);
}

#[test]
fn more_iterations_want_their_own_runs() {
    let asked = asked(|w| w.iterations = 7);
    assert_eq!(asked.kinds(), ["oss/program", "oss/run"]);
    // Two more in two scorings of three models, each of two shards.
    assert!(asked.count("oss/program") <= 12);
    assert_eq!(asked.count("oss/run"), 2 * asked.count("oss/program"));
}

#[test]
fn fewer_iterations_want_nothing() {
    assert_eq!(asked(|w| w.iterations = 3).wanted, Wanted::new());
}

#[test]
fn another_toolchain_keeps_every_reply() {
    let asked = asked(|w| w.toolchain = "its next release".into());
    let kinds = [
        "oss/base",
        "oss/footprint",
        "oss/program",
        "oss/run",
        "oss/verdict",
    ];
    assert_eq!(asked.kinds(), kinds);
}

/// What is wanted when `after` comes after `before` in one process, with the items by kind.
fn wanted(before: &World, after: &World) -> Wanted {
    let Settled { mut workbench, .. } = settled(before.clone());
    workbench.apply(after);
    let (_, waves) = workbench.settle();
    oracle::items(waves.iter().flatten())
}

#[test]
fn another_profile_runs_what_it_adds_and_nothing_when_it_takes_away() {
    let mut quick = small();
    quick.tested = Some("src/*.c".into());
    let mut full = quick.clone();
    full.profile = Some("full".into());
    let more = wanted(&quick, &full);
    assert_eq!(more.keys().collect::<Vec<_>>(), ["oss/reads", "oss/run"]);
    // Of the unchanged program, three runs of each of the five files.
    let runs = &more["oss/run"];
    assert!(runs.len() > 3 * 5);
    assert!(runs.iter().all(|run| run.contains("src/part")), "{runs:?}");
    assert_eq!(wanted(&full, &quick), Wanted::new());
}

#[test]
fn a_new_file_of_a_group_is_a_new_shard() {
    let mut before = small();
    before.tested = Some("src/*.c".into());
    before.profile = Some("full".into());
    let mut after = before.clone();
    let mut file = after.files[4].clone();
    file.path = "src/part009.c".into();
    for f in &mut file.functions {
        f.name = format!("{}_too", f.name);
    }
    after.files.push(file);
    // Its functions are in the program that all shards run; the new one is among them.
    let runs = &wanted(&before, &after)["oss/run"];
    for shard in ["first", "second", "src/part000.c", "src/part009.c"] {
        assert!(runs.iter().any(|run| run.contains(shard)), "{shard}");
    }
    let mut narrower = before.clone();
    narrower.tested = Some("src/part00[0-3].c".into());
    assert_eq!(wanted(&before, &narrower), Wanted::new());
    let added = wanted(&narrower, &before);
    assert_eq!(added.keys().collect::<Vec<_>>(), ["oss/reads", "oss/run"]);
    let runs = &added["oss/run"];
    assert!(
        runs.iter().all(|run| run.contains("src/part004.c")),
        "{runs:?}"
    );
}

#[test]
fn an_edit_taken_back_wants_nothing() {
    let before = small();
    let mut after = before.clone();
    after.function("part001_step01").body[0] = "int r = b;".into();
    let Settled {
        mut workbench,
        rows,
        ..
    } = settled(before.clone());
    workbench.apply(&after);
    workbench.settle();
    workbench.apply(&before);
    let (again, waves) = workbench.settle();
    assert_eq!(waves.len(), 0);
    assert_eq!(again, rows);
}

/// Many edits in a row, in one process and one store: each wants exactly what is new.
#[test]
fn a_history_of_edits_pays_for_each_text_once() {
    let mut world = small();
    let mut past = vec![world.clone()];
    let Settled { mut workbench, .. } = settled(world.clone());
    for step in 0..12 {
        match step % 6 {
            0 => {
                world.function(&format!("part00{}_step00", step % 5)).body[0] = "int r = a;".into()
            }
            1 => world.files[step % 5].blank += 1,
            2 => world.files[step % 5].functions.push(Function::new(
                format!("new{step}"),
                step,
                step % 4 == 0,
            )),
            3 => world.files[step % 5].functions.swap(0, 2),
            4 => world.files[step % 5].remark = format!("Step {step}."),
            _ => drop(world.files[step % 5].functions.remove(1)),
        }
        workbench.apply(&world);
        let (_, waves) = workbench.settle();
        let wanted = oracle::items(waves.iter().flatten());
        let seen: Vec<&World> = past.iter().collect();
        let expected = oracle::wanted(&seen, &world);
        compare(&wanted, &expected, &format!("at step {step}"));
        past.push(world.clone());
    }
}
