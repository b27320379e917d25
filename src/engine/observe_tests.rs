//! Observations: every process looks for itself, and what it sees is no fact.

use super::*;

const WEATHER: Kind = Kind {
    name: "test/weather",
    version: 1,
    nature: Nature::Observed,
};

/// Says something else in each process; counts how often it looked.
struct Sky {
    says: &'static [u8],
    looks: AtomicU64,
}

impl Executor for Sky {
    fn run(&self, _: &Job, _: &Context<'_>) -> Result<Output, Failure> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Ok(Output {
            bytes: self.says.to_vec(),
            blobs: vec![],
        })
    }
}

/// A node keyed by what was observed.
fn under_the_sky(db: &EngineDb) -> (Option<Digest>, Hold) {
    let node = || db.demand(&node_job(vec![db.demand(&Job::of(WEATHER).done())?]));
    match node() {
        Ok(digest) => (Some(digest), Hold::default()),
        Err(hold) => (None, hold),
    }
}

#[test]
fn every_process_looks_for_itself_and_what_it_sees_is_no_fact() {
    let memory = Memory::default();
    let process = |says: &'static [u8]| {
        let sky = Arc::new(Sky {
            says,
            looks: AtomicU64::new(0),
        });
        let mut registry = Registry::default();
        registry.add(WEATHER, 0, sky.clone());
        registry.add(
            NODE,
            0,
            Arc::new(Flaky {
                percent: 0,
                tries: AtomicU64::new(0),
                ran: Mutex::default(),
            }),
        );
        let driver = Driver {
            registry: &registry,
            ledger: &memory,
            cores: 2,
            cancel: Cancel::new(),
        };
        let mut db = EngineDb::new(memory.facts().unwrap());
        let driven = driver.drive(&mut db, &mut (), under_the_sky).unwrap();
        assert!(driven.hold.is_empty() && driven.failures.is_empty());
        assert_eq!(sky.looks.load(Ordering::SeqCst), 1);
        (driven.value, driven.executed)
    };
    let node = |n| Tally::from([("test/node", n)]);
    let (rain, executed) = process(b"rain");
    assert_eq!(executed, node(1));
    // The same weather: nothing to do. Another: the node of another key.
    assert_eq!(process(b"rain"), (rain, Tally::new()));
    let (sun, executed) = process(b"sun");
    assert_eq!(executed, node(1));
    assert_ne!(rain, sun);
    let observation = Job::of(WEATHER).done().key();
    assert!(!memory.0.lock().unwrap().outputs.contains_key(&observation));
    // Who cannot look believes the last one who could.
    let late = EngineDb::new(memory.facts().unwrap()).looking_back();
    assert_eq!(under_the_sky(&late), (sun, Hold::default()));
    let blind = EngineDb::new(memory.facts().unwrap());
    assert_eq!(under_the_sky(&blind).1.jobs(), [Job::of(WEATHER).done()]);
}

#[test]
fn a_look_runs_observations_and_nothing_else() {
    let memory = Memory::default();
    let mut registry = Registry::default();
    let sky = Sky {
        says: b"fog",
        looks: AtomicU64::new(0),
    };
    registry.add(WEATHER, 0, Arc::new(sky));
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 1,
        cancel: Cancel::new(),
    };
    let mut db = EngineDb::new(memory.facts().unwrap());
    let mut failures = Vec::new();
    let (value, hold) = driver
        .look(&mut db, &mut failures, &mut under_the_sky)
        .unwrap();
    assert_eq!((value, failures.len()), (None, 0));
    assert_eq!(hold.jobs(), [node_job(vec![Digest::of(b"fog")])]);
}
