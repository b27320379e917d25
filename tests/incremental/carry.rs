//! Iterations that are kept from an earlier commit: exactly what is run in spite of it, how what is
//! kept is labelled, and that nothing of it is left once everything is measured.

use std::collections::BTreeMap;

use everbench::oss::carry::Note;
use everbench::oss::iteration::Iteration;

use super::edits::compare;
use super::oracle::{self, Footprint, Place, Wanted};
use super::synthetic::workbench::{self, Rows, SCORINGS, Workbench};
use super::synthetic::{Function, World};
use super::{Settled, settled, small};

const SHARE: f64 = 0.1;

/// The small world with more iterations, so that most of them miss an edit.
fn wide() -> World {
    World {
        iterations: 12,
        per_iteration: 3,
        ..small()
    }
}

/// Every iteration by its place.
fn iterations(world: &World, rows: &Rows) -> BTreeMap<Place, Iteration> {
    let mut out = BTreeMap::new();
    let mut rows = rows.iter();
    for scoring in SCORINGS {
        for model in &world.models {
            let row = rows.next().and_then(Option::as_ref).expect("a whole row");
            for (i, iteration) in (0..).zip(&row.iterations) {
                let place = (model.name.clone(), scoring.name(), i);
                out.insert(place, iteration.clone());
            }
        }
    }
    out
}

fn settle(workbench: &mut Workbench) -> (Rows, Wanted) {
    let (rows, waves) = workbench.settle();
    (rows, oracle::items(waves.iter().flatten()))
}

fn edited(world: &World) -> World {
    let mut after = world.clone();
    after.function("part002_step01").body[0] = "int r = a - b;".into();
    after
}

#[test]
fn a_changed_body_runs_the_iterations_that_hold_it_and_the_audited_ones() {
    let before = wide();
    let after = edited(&before);
    let kept = oracle::kept(&oracle::sets(&before), &after, SHARE);
    let (footprint, sets) = oracle::evaluated(&after, &kept);
    let expected = oracle::missing(&[oracle::footprint(&before)], &footprint);

    let Settled {
        mut workbench,
        rows: old,
        dir,
        ..
    } = settled(before.clone());
    let old = iterations(&before, &old);
    let note = workbench.note("one");
    workbench.carry(Some((note.clone(), SHARE)));
    workbench.apply(&after);
    let (rows, wanted) = settle(&mut workbench);
    compare(&wanted, &expected, "in the same process");
    // One function is asked; most iterations are kept, some are not.
    assert_eq!(wanted["ask/completion"].len(), 2);
    let (all, programs) = (sets.len(), wanted["oss/program"].len());
    assert!(
        kept.len() > all / 2 && programs > 0,
        "{} of {all}",
        kept.len()
    );

    let new = iterations(&after, &rows);
    let mut audited = 0;
    // What is measured for one is measured for all that have the same set.
    let measured = sets.iter().filter(|(place, _)| !kept.contains(*place));
    let measured: Vec<_> = measured.map(|(_, set)| set).collect();
    for (place, iteration) in &new {
        let stale = kept.contains(place) && !measured.contains(&&sets[place]);
        let label = stale.then(|| "one".to_string());
        assert_eq!(iteration.stale, label, "{place:?}");
        if label.is_some() {
            let plain = Iteration {
                stale: None,
                ..iteration.clone()
            };
            assert_eq!(plain, old[place], "{place:?}");
        }
        if let Some(audit) = &iteration.audited {
            assert_eq!((audit.measured_at.as_str(), audit.differs), ("one", false));
            audited += 1;
        }
    }
    // Each row has at least one.
    assert!(audited >= 6, "{audited}");

    // Another process over the same store has the same, and runs nothing.
    drop(workbench);
    let mut later = Workbench::new(workbench::store(dir.path()), &after);
    later.carry(Some((note, SHARE)));
    let (again, wanted) = settle(&mut later);
    assert_eq!((again, wanted), (rows, Wanted::new()));

    // Measured after all: what was kept is run, and nothing else; no label is left.
    later.carry(None);
    let (rows, wanted) = settle(&mut later);
    let all = oracle::missing(
        &[oracle::footprint(&before), footprint],
        &oracle::footprint(&after),
    );
    compare(&wanted, &all, "without carrying");
    assert_eq!(
        wanted.keys().collect::<Vec<_>>(),
        ["oss/program", "oss/run"]
    );
    assert_eq!(rows, settled(after).rows);
}

#[test]
fn what_is_measured_is_not_kept_even_where_it_could_be() {
    let before = wide();
    let after = edited(&before);
    let Settled {
        mut workbench, dir, ..
    } = settled(before);
    let note = workbench.note("one");
    workbench.apply(&after);
    let (rows, _) = settle(&mut workbench);
    workbench.carry(Some((note.clone(), 0.0)));
    let stale = |rows: &Rows| {
        rows.iter()
            .flatten()
            .map(|r| r.stale().count())
            .sum::<usize>()
    };
    assert_eq!(stale(&workbench.settle().0), 0);
    drop(workbench);
    let mut later = Workbench::new(workbench::store(dir.path()), &after);
    later.carry(Some((note, 0.0)));
    let (again, wanted) = settle(&mut later);
    assert_eq!((again, wanted), (rows, Wanted::new()));
}

#[test]
fn a_second_commit_keeps_the_oldest_label() {
    let before = wide();
    let Settled { mut workbench, .. } = settled(before.clone());
    let mut world = edited(&before);
    let first = workbench.note("one");
    workbench.carry(Some((first.clone(), SHARE)));
    workbench.apply(&world);
    let (rows, _) = settle(&mut workbench);
    let second_rows = iterations(&world, &rows);
    let second = workbench.note("two").over(&first);

    world.function("part004_step02").body[0] = "int r = b - a;".into();
    workbench.carry(Some((second, SHARE)));
    workbench.apply(&world);
    let (rows, _) = settle(&mut workbench);
    let mut labels: BTreeMap<String, u32> = BTreeMap::new();
    for (place, iteration) in iterations(&world, &rows) {
        if let Some(label) = iteration.stale {
            let then = second_rows[&place].stale.as_deref().unwrap_or("two");
            assert_eq!(label, then, "{place:?}");
            *labels.entry(label).or_default() += 1;
        }
    }
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn nothing_is_kept_where_other_cases_count_or_other_rules_hold() {
    let before = wide();
    let edits: [fn(&mut World); 3] = [
        // A test fails upstream: it is in no denominator any more.
        |w| {
            let data = "what the first shard reads\nfails 3";
            w.others.insert("data/first.txt".into(), data.into());
        },
        |w| w.pass = "^OK: (?<name>.* case [023456789])$".into(),
        |w| w.toolchain = "its next release".into(),
    ];
    for edit in edits {
        let mut after = edited(&before);
        edit(&mut after);
        let Settled { mut workbench, .. } = settled(before.clone());
        let note = workbench.note("one");
        workbench.carry(Some((note, SHARE)));
        workbench.apply(&after);
        let (rows, wanted) = settle(&mut workbench);
        compare(
            &wanted,
            &oracle::wanted(&[&before], &after),
            "with nothing to keep",
        );
        assert_eq!(rows, settled(after).rows);
    }
}

/// Many commits in a row: each runs what the oracle lists, and in the end nothing is left of it.
#[test]
fn a_history_that_carries_ends_where_one_ends_that_does_not() {
    let mut world = wide();
    let Settled { mut workbench, .. } = settled(world.clone());
    let mut done: Vec<Footprint> = vec![oracle::footprint(&world)];
    let mut sets = oracle::sets(&world);
    let mut note: Note = workbench.note("start");
    for step in 0..8 {
        match step % 4 {
            0 => {
                let name = format!("part00{}_step00", step % 5);
                world.function(&name).body[0] = format!("int r = a - {step};");
            }
            1 => world.files[step % 5].functions.swap(0, 2),
            2 => {
                let new = Function::new(format!("new{step}"), step, step % 4 == 0);
                world.files[step % 5].functions.push(new);
            }
            _ => drop(world.files[step % 5].functions.remove(1)),
        }
        let kept = oracle::kept(&sets, &world, SHARE);
        let (footprint, new_sets) = oracle::evaluated(&world, &kept);
        workbench.carry(Some((note.clone(), SHARE)));
        workbench.apply(&world);
        let (_, wanted) = settle(&mut workbench);
        let expected = oracle::missing(&done, &footprint);
        compare(&wanted, &expected, &format!("at step {step}"));
        note = workbench.note(&format!("step {step}")).over(&note);
        (sets, _) = (new_sets, done.push(footprint));
    }
    workbench.carry(None);
    let (rows, _) = settle(&mut workbench);
    assert_eq!(rows, settled(world).rows);
}
