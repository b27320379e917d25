//! What the engine promises, on a small graph of its own: no demand is ever lost, whatever fails
//! and in whatever order; the wanted set is exact; a query re-runs only when what it read changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use salsa::Setter;

use super::*;
use crate::cancel::Cancel;
use crate::digest::Digest;
use crate::job::{Job, Key, Kind, Nature};

const LEAF: Kind = Kind {
    name: "test/leaf",
    version: 1,
    nature: Nature::Deterministic,
};
const NODE: Kind = Kind {
    name: "test/node",
    version: 1,
    nature: Nature::Deterministic,
};

/// A store in memory.
#[derive(Default, Clone)]
struct Memory(Arc<Mutex<Kept>>);

#[derive(Default, Clone)]
struct Kept {
    outputs: BTreeMap<Key, Digest>,
    noted: BTreeMap<Key, Digest>,
    blobs: HashMap<Digest, Arc<[u8]>>,
    attempts: u64,
    full: bool,
}

struct Snapshot(Kept);

impl Facts for Snapshot {
    fn output(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Ok(self.0.outputs.get(key).copied())
    }
    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, FactsError> {
        match self.0.blobs.get(digest) {
            Some(bytes) if Digest::of(bytes) != *digest => Err(FactsError::Corrupt(*digest)),
            other => Ok(other.cloned()),
        }
    }
    fn noted(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Ok(self.0.noted.get(key).copied())
    }
    fn row(&self, _: &Digest) -> Option<Arc<[u8]>> {
        None
    }
}

impl Ledger for Memory {
    fn commit(&self, done: Vec<Done>) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap();
        if kept.full {
            return Err("the disk is full".into());
        }
        for d in done {
            let output = Digest::of(&d.output.bytes);
            kept.outputs.entry(d.job.key()).or_insert(output);
            kept.blobs.insert(output, d.output.bytes.into());
        }
        Ok(())
    }
    fn note(&self, seen: Vec<(Job, Output)>) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap();
        for (job, output) in seen {
            let digest = Digest::of(&output.bytes);
            kept.noted.insert(job.key(), digest);
            kept.blobs.insert(digest, output.bytes.into());
        }
        Ok(())
    }
    fn attempts(&self, tried: Vec<Tried>) {
        self.0.lock().unwrap().attempts += tried.len() as u64;
    }
    fn facts(&self) -> Result<Arc<dyn Facts>, String> {
        Ok(Arc::new(Snapshot(self.0.lock().unwrap().clone())))
    }
    fn remember(&self, _: Vec<(Digest, Vec<u8>)>) {}
}

/// Fails transiently for a share of the tries, drawn from a counter.
struct Flaky {
    percent: u64,
    tries: AtomicU64,
    ran: Mutex<BTreeMap<Key, u32>>,
}

impl Executor for Flaky {
    fn run(&self, job: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        let n = self.tries.fetch_add(1, Ordering::SeqCst);
        let draw = Digest::of(&[job.key().0.0.as_slice(), &n.to_le_bytes()].concat());
        if u64::from(draw.0[0]) * 100 / 256 < self.percent {
            return Err(Failure::Transient("host trouble".into()));
        }
        *self.ran.lock().unwrap().entry(job.key()).or_default() += 1;
        Ok(Output {
            bytes: job.encoding(),
            blobs: vec![],
        })
    }
}

/// A group of leaves whose outputs feed one node; several groups may share leaves.
#[salsa::input]
struct Group {
    #[returns(ref)]
    leaves: Vec<i64>,
}

#[salsa::input]
struct Root {
    #[returns(ref)]
    groups: Vec<Group>,
}

fn leaf_job(n: i64) -> Job {
    Job::of(LEAF).put("n", n).done()
}

fn node_job(outputs: Vec<Digest>) -> Job {
    Job::of(NODE).put("of", outputs).done()
}

#[salsa::tracked(returns(clone))]
fn node(db: &dyn Db, group: Group) -> Result<Digest, Hold> {
    let outputs = fold(group.leaves(db).iter().map(|n| db.demand(&leaf_job(*n))))?;
    db.demand(&node_job(outputs))
}

#[salsa::tracked(returns(clone))]
fn total(db: &dyn Db, root: Root) -> Result<Vec<Digest>, Hold> {
    fold(root.groups(db).iter().map(|group| node(db, *group)))
}

fn evaluate(db: &EngineDb, root: Root) -> (Option<Vec<Digest>>, Hold) {
    match total(db, root) {
        Ok(value) => (Some(value), Hold::default()),
        Err(hold) => (None, hold),
    }
}

/// What is wanted, worked out from the store alone.
fn oracle(kept: &Kept, groups: &[Vec<i64>]) -> BTreeSet<Key> {
    let mut wanted = BTreeSet::new();
    for leaves in groups {
        let jobs: Vec<Job> = leaves.iter().map(|n| leaf_job(*n)).collect();
        let outputs: Vec<Digest> = jobs
            .iter()
            .filter_map(|j| kept.outputs.get(&j.key()).copied())
            .collect();
        if outputs.len() < jobs.len() {
            wanted.extend(
                jobs.iter()
                    .map(Job::key)
                    .filter(|k| !kept.outputs.contains_key(k)),
            );
        } else if !kept.outputs.contains_key(&node_job(outputs.clone()).key()) {
            wanted.insert(node_job(outputs).key());
        }
    }
    wanted
}

fn setting(percent: u64) -> (Registry, Arc<Flaky>) {
    let flaky = Arc::new(Flaky {
        percent,
        tries: AtomicU64::new(0),
        ran: Mutex::default(),
    });
    let mut registry = Registry::default();
    registry.add(LEAF, 0, flaky.clone());
    registry.add(NODE, 1, flaky.clone());
    (registry, flaky)
}

fn database(memory: &Memory, groups: &[Vec<i64>]) -> (EngineDb, Root) {
    let db = EngineDb::new(memory.facts().unwrap());
    let groups = groups
        .iter()
        .map(|leaves| Group::new(&db, leaves.clone()))
        .collect();
    let root = Root::new(&db, groups);
    (db, root)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The wanted set equals the oracle's in every wave, although 40 % of the runs fail, inputs
    /// change between waves and only some of what is wanted is ever tried.
    #[test]
    fn no_demand_is_lost(
        groups in prop::collection::vec(prop::collection::vec(0i64..12, 0..5), 1..6),
        steps in prop::collection::vec((any::<u64>(), 0usize..6, prop::collection::vec(0i64..12, 0..5)), 1..25),
    ) {
        let memory = Memory::default();
        let mut groups = groups;
        let (mut db, root) = database(&memory, &groups);
        for (draw, which, leaves) in steps {
            let (_, hold) = evaluate(&db, root);
            let wanted: BTreeSet<Key> = hold.jobs().iter().map(Job::key).collect();
            prop_assert_eq!(&wanted, &oracle(&memory.0.lock().unwrap(), &groups));
            let mut arrived = Vec::new();
            for (i, job) in hold.jobs().iter().enumerate() {
                // 40 % fail: their jobs stay wanted.
                if crate::digest::Digest::of(&[draw.to_le_bytes(), (i as u64).to_le_bytes()].concat()).0[0] < 153 {
                    memory.commit(vec![Done {
                        job: job.clone(),
                        output: Output { bytes: job.encoding(), blobs: vec![] },
                        wall: Default::default(),
                        cpu: Default::default(),
                    }]).unwrap();
                    arrived.push((job.key(), Digest::of(&job.encoding())));
                }
            }
            db.arrive(&arrived, memory.facts().unwrap());
            if which < groups.len() && groups[which] != leaves {
                let group = root.groups(&db)[which];
                group.set_leaves(&mut db).to(leaves.clone());
                groups[which] = leaves;
            }
        }
    }

    /// Driven with real threads to the end, every wanted job is run exactly once.
    #[test]
    fn a_drive_ends_complete_and_runs_each_job_once(
        groups in prop::collection::vec(prop::collection::vec(0i64..30, 0..6), 1..12),
    ) {
        let memory = Memory::default();
        let (registry, flaky) = setting(40);
        let (mut db, root) = database(&memory, &groups);
        let driver = Driver { registry: &registry, ledger: &memory, cores: 3, cancel: Cancel::new() };
        let mut runs = 0;
        loop {
            let driven = driver.drive(&mut db, &mut (), |db| evaluate(db, root)).unwrap();
            runs += 1;
            // Jobs that failed three times are still wanted and are tried again by the next drive.
            prop_assert_eq!(driven.hold.is_empty(), driven.failures.is_empty());
            if driven.hold.is_empty() {
                prop_assert_eq!(driven.value.unwrap().len(), groups.len());
                break;
            }
            prop_assert!(runs < 200);
        }
        prop_assert!(oracle(&memory.0.lock().unwrap(), &groups).is_empty());
        prop_assert!(flaky.ran.lock().unwrap().values().all(|n| *n == 1));
        let jobs = memory.0.lock().unwrap().outputs.len();
        prop_assert_eq!(flaky.ran.lock().unwrap().len(), jobs);
    }
}

#[test]
fn a_second_process_runs_nothing() {
    let memory = Memory::default();
    let (registry, _) = setting(0);
    let groups = vec![vec![1, 2, 3], vec![3, 4]];
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 2,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &groups);
    let first = driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    assert_eq!(
        first.executed,
        BTreeMap::from([("test/leaf", 4), ("test/node", 2)])
    );
    let (mut db, root) = database(&memory, &groups);
    let second = driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    assert_eq!(second.executed, BTreeMap::new());
    assert_eq!(second.value, first.value);
}

#[test]
fn an_irrelevant_change_re_runs_nothing_and_an_equal_output_cuts_off() {
    let memory = Memory::default();
    let (registry, _) = setting(0);
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 2,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &[vec![1, 2], vec![3], vec![]]);
    driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    db.take_executed();
    evaluate(&db, root);
    assert_eq!(db.take_executed(), BTreeMap::new());

    // Another group's leaves: that node and the root, nothing else.
    let group = root.groups(&db)[1];
    group.set_leaves(&mut db).to(vec![2]);
    evaluate(&db, root);
    assert_eq!(
        db.take_executed(),
        BTreeMap::from([("node".into(), 1), ("total".into(), 1)])
    );

    // The node re-runs because its input was set; its value is equal, so the root is cut off.
    driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    db.take_executed();
    group.set_leaves(&mut db).to(vec![2]);
    evaluate(&db, root);
    assert_eq!(db.take_executed(), BTreeMap::from([("node".into(), 1)]));
}

#[test]
fn only_the_jobs_of_what_changed_are_wanted() {
    let memory = Memory::default();
    let (registry, _) = setting(0);
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 2,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &[vec![1, 2], vec![3]]);
    driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    let group = root.groups(&db)[0];
    group.set_leaves(&mut db).to(vec![1, 3, 9]);
    let (_, hold) = evaluate(&db, root);
    assert_eq!(hold.jobs(), [leaf_job(9)]);
}

#[test]
fn a_full_store_ends_the_drive_and_keeps_what_was_committed() {
    let memory = Memory::default();
    let (registry, _) = setting(0);
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 2,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &[vec![1]]);
    driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    memory.0.lock().unwrap().full = true;
    let (mut db, root) = database(&memory, &[vec![1], vec![2]]);
    let error = driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap_err();
    assert_eq!(error.to_string(), "the disk is full");
    memory.0.lock().unwrap().full = false;
    let (mut db, root) = database(&memory, &[vec![1], vec![2]]);
    let driven = driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    assert_eq!(
        driven.executed,
        BTreeMap::from([("test/leaf", 1), ("test/node", 1)])
    );
}

#[test]
fn a_stopped_drive_starts_nothing_and_says_what_is_left() {
    let memory = Memory::default();
    let (registry, _) = setting(0);
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 2,
        cancel: Cancel::new(),
    };
    driver.cancel.stop();
    let (mut db, root) = database(&memory, &[vec![1, 2]]);
    let driven = driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    assert!(driven.stopped);
    assert_eq!(driven.hold.jobs().len(), 2);
}

struct Panics;

impl Executor for Panics {
    fn run(&self, _: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        panic!("index out of bounds")
    }
}

#[test]
fn an_executor_that_panics_is_a_reported_failure() {
    let memory = Memory::default();
    let mut registry = Registry::default();
    registry.add(LEAF, 0, Arc::new(Panics));
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 2,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &[vec![1]]);
    let driven = driver
        .drive(&mut db, &mut (), |db| evaluate(db, root))
        .unwrap();
    let [(_, Failure::Fatal { what, .. })] = driven.failures.as_slice() else {
        panic!("{:?}", driven.failures)
    };
    assert!(what.contains("index out of bounds"), "{what}");
    assert_eq!(memory.0.lock().unwrap().attempts, 1);
}

#[path = "observe_tests.rs"]
mod observe;
#[path = "service_tests.rs"]
mod service;
