//! What goes by a budget and what never does; counters of runs.

use super::tests::{KIND, OTHER, done, job, noise, open};
use super::*;
use crate::digest::Digest;
use crate::job::{Job, Key};

fn verdict(n: i64) -> Job {
    Job::of(OTHER).put("n", n).done()
}

/// A manifest with the replies and verdicts of these numbers, under a name.
fn list(store: &Store, name: &str, numbers: &[i64]) {
    let entry = |job: Job, output: &[u8]| Entry {
        id: job.key().to_string(),
        key: job.key(),
        output: Digest::of(output),
    };
    let entries = numbers.iter().flat_map(|n| {
        let log = noise(*n as u64, 1000);
        [entry(job(*n), b"reply"), entry(verdict(*n), &log)]
    });
    let built = Manifest::build(entries).unwrap();
    store.put_manifest(name, &built).unwrap();
}

/// Replies and verdicts 0 to 5, in this order of time; each verdict has 1000 bytes of its own.
fn filled(dir: &std::path::Path) -> Store {
    let store = open(dir);
    for n in 0..6 {
        let log = noise(n as u64, 1000);
        let batch = vec![done(job(n), b"reply"), done(verdict(n), &log)];
        store.commit(batch).unwrap();
        // Ages are told apart by milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    list(&store, "evaluation/a", &[0, 1, 2, 3]);
    list(&store, "evaluation/b", &[3, 4, 5]);
    list(&store, "release/1", &[0, 4]);
    store
}

fn with<T>(budget: Option<u64>, forget: &[&str], f: impl FnOnce(&Retention) -> T) -> T {
    let classes = [
        Class {
            name: "replies",
            kinds: &[KIND.name],
            budget: Some(0),
        },
        Class {
            name: "verdicts",
            kinds: &[OTHER.name],
            budget,
        },
    ];
    let forget: Vec<String> = forget.iter().map(ToString::to_string).collect();
    f(&Retention {
        also: &[],
        always: &[KIND.name],
        forget: &forget,
        pins: |name| !name.starts_with("evaluation/"),
        classes: &classes,
    })
}

fn verdicts(store: &Store) -> Vec<i64> {
    let reader = store.reader().unwrap();
    let there = |key: Key| reader.output(&key).unwrap().is_some();
    (0..6).filter(|n| there(verdict(*n).key())).collect()
}

#[test]
fn a_budget_takes_the_oldest_that_nothing_pins() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    // What stays by the budget of this many verdicts: 0 and 4 are released.
    let expected: [(u64, &[i64]); 6] = [
        (6, &[0, 1, 2, 3, 4, 5]),
        (5, &[0, 2, 3, 4, 5]),
        (4, &[0, 3, 4, 5]),
        (3, &[0, 4, 5]),
        (2, &[0, 4]),
        (0, &[0, 4]),
    ];
    for (n, stay) in expected {
        // A verdict takes up its 1000 bytes, which do not compress.
        let budget = Some(n * 1000 + 99);
        let would = with(budget, &[], |r| store.sweep(r, true)).unwrap();
        let did = with(budget, &[], |r| store.sweep(r, false)).unwrap();
        assert_eq!(would.classes, did.classes);
        assert_eq!(verdicts(&store), stay, "{n}");
        let class = &did.classes[1];
        assert_eq!(class.kept_bytes, 1000 * stay.len() as u64);
        assert_eq!(class.by_budget, class.actions);
        // No budget takes a reply.
        assert_eq!(did.classes[0].kept_actions, 6);
        assert!(store.verify().unwrap().is_sound());
    }
}

#[test]
fn what_only_a_forgotten_root_reached_goes_and_its_replies_stay() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let report = with(None, &["evaluation/a"], |r| store.sweep(r, false)).unwrap();
    assert_eq!(report.forgotten_roots, ["evaluation/a"]);
    assert_eq!(verdicts(&store), [0, 3, 4, 5]);
    assert_eq!((report.actions, report.classes[1].by_budget), (2, 0));
    let reader = store.reader().unwrap();
    assert_eq!(reader.root("evaluation/a").unwrap(), None);
    assert_eq!(reader.counts_by_kind().unwrap()[0].actions, 6);
    let prompt = job(1).preimages()[0].0;
    assert!(reader.blob(&prompt).unwrap().is_some());
}

#[test]
fn runs_are_counted_one_by_one_and_then_added_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.reader().unwrap().runs().unwrap(), None);
    let mut sum = RunTally::default();
    for n in 0..230u64 {
        let mut run = RunTally {
            runs: 1,
            complete: n % 2,
            wall_us: n,
            ..RunTally::default()
        };
        run.of(if n % 3 == 0 { "a" } else { "b" }).executed = n;
        run.of("b").cpu_us = 7;
        store.record_run(run.clone()).unwrap();
        sum.add(&run);
        let (last, mut all) = store.reader().unwrap().runs().unwrap().unwrap();
        assert_eq!(last.kinds, run.kinds);
        all.ended_ms = 0;
        assert_eq!(all, sum);
    }
    let kept = store.reader().unwrap().each_run().unwrap();
    assert_eq!(kept.len(), 101);
    assert!(store.verify().unwrap().is_sound());
}
