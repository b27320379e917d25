//! What the driver promises to services and of them: many jobs at once on no core, one layer that
//! tries again, replies that are durable while an evaluation lasts, ends that lose nothing.

use std::sync::Condvar;

use super::*;

/// Keeps orders until a test says what becomes of them.
#[derive(Default)]
struct Desk {
    orders: Mutex<Vec<Order>>,
    came: Condvar,
    taken: AtomicU64,
    flushed: AtomicU64,
    aborted: AtomicU64,
}

impl Service for Desk {
    fn take(&self, mut order: Order) {
        order.begin();
        self.taken.fetch_add(1, Ordering::SeqCst);
        self.orders.lock().unwrap().push(order);
        self.came.notify_all();
    }

    fn flush(&self) {
        self.flushed.fetch_add(1, Ordering::SeqCst);
        self.came.notify_all();
    }

    fn forget(&self, _: &dyn Fn(&Key) -> bool) {}

    fn abort(&self) {
        self.aborted.fetch_add(1, Ordering::SeqCst);
    }
}

impl Desk {
    /// Waits for as many orders and takes them.
    fn orders(&self, n: usize) -> Vec<Order> {
        let held = self.orders.lock().unwrap();
        let mut held = self.came.wait_while(held, |o| o.len() < n).unwrap();
        held.drain(..n).collect()
    }
}

fn answer(order: Order) {
    let bytes = order.job().encoding();
    order.end(Ok(Output {
        bytes,
        blobs: vec![],
    }));
}

fn desk() -> (Registry, Arc<Desk>) {
    let desk = Arc::new(Desk::default());
    let mut registry = Registry::default();
    registry.add_service(LEAF, desk.clone());
    let (_, flaky) = setting(0);
    registry.add(NODE, 1, flaky);
    (registry, desk)
}

/// Drives on one core while `meanwhile` runs.
fn drive(
    memory: &Memory,
    groups: &[Vec<i64>],
    cancel: &Cancel,
    (registry, desk): &(Registry, Arc<Desk>),
    meanwhile: impl FnOnce(&Desk) + Send,
) -> Driven<Option<Vec<Digest>>> {
    let driver = Driver {
        registry,
        ledger: memory,
        cores: 1,
        cancel: cancel.clone(),
    };
    let (mut db, root) = database(memory, groups);
    std::thread::scope(|scope| {
        scope.spawn(move || meanwhile(desk));
        driver
            .drive(&mut db, &mut (), |db| evaluate(db, root))
            .unwrap()
    })
}

#[test]
fn as_many_jobs_are_under_way_as_the_service_likes() {
    let memory = Memory::default();
    let leaves: Vec<i64> = (0..200).collect();
    let driven = drive(
        &memory,
        &[leaves],
        &Cancel::new(),
        &desk(),
        // Nothing is answered before all have come, in the order in which none came.
        |desk| desk.orders(200).into_iter().rev().for_each(answer),
    );
    assert_eq!(
        driven.executed,
        BTreeMap::from([("test/leaf", 200), ("test/node", 1)])
    );
    assert!(driven.hold.is_empty());
}

#[test]
fn what_a_service_gives_up_is_not_tried_again_and_it_says_itself_what_it_tried() {
    let memory = Memory::default();
    let shop = desk();
    let driven = drive(
        &memory,
        &[vec![1], vec![2]],
        &Cancel::new(),
        &shop,
        |desk| {
            for order in desk.orders(2) {
                if order.job().key() == leaf_job(1).key() {
                    order.failed(true, "503");
                    order.failed(true, "503 again");
                    order.end(Err(Failure::Transient("503 three times".into())));
                } else {
                    answer(order);
                }
            }
        },
    );
    assert_eq!(shop.1.taken.load(Ordering::SeqCst), 2);
    assert_eq!(
        driven.failures,
        [(leaf_job(1), Failure::Transient("503 three times".into()))]
    );
    assert_eq!(driven.hold.jobs(), [leaf_job(1)]);
    assert_eq!(memory.0.lock().unwrap().attempts, 2);
}

#[test]
fn a_service_is_told_when_nothing_more_will_come() {
    let memory = Memory::default();
    let shop = desk();
    let driven = drive(&memory, &[vec![1, 2, 3]], &Cancel::new(), &shop, |desk| {
        let held = desk.orders.lock().unwrap();
        let told = |_: &mut Vec<Order>| desk.flushed.load(Ordering::SeqCst) == 0;
        let mut held = desk.came.wait_while(held, told).unwrap();
        assert_eq!(held.len(), 3);
        held.drain(..).for_each(answer);
    });
    assert!(driven.hold.is_empty());
}

#[test]
fn a_reply_is_in_the_store_before_an_evaluation_under_way_has_ended() {
    let memory = Memory::default();
    let (mut registry, desk) = (Registry::default(), Arc::new(Desk::default()));
    registry.add_service(LEAF, desk.clone());
    registry.add(NODE, 1, setting(0).1);
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 1,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &[vec![1], vec![2]]);
    let mut evaluations = 0;
    let driven = driver
        .drive(&mut db, &mut (), |db| {
            evaluations += 1;
            if evaluations == 1 {
                let desk = desk.clone();
                std::thread::spawn(move || answer(desk.orders(1).remove(0)));
            }
            if evaluations == 2 {
                let order = desk.orders(1).remove(0);
                let key = order.job().key();
                answer(order);
                while !memory.0.lock().unwrap().outputs.contains_key(&key) {
                    std::thread::yield_now();
                }
            }
            evaluate(db, root)
        })
        .unwrap();
    assert!(driven.hold.is_empty() && evaluations > 2);
}

#[test]
fn an_output_can_turn_out_to_be_another_jobs_and_what_is_asked_can_follow() {
    let memory = Memory::default();
    let (registry, desk) = desk();
    let driver = Driver {
        registry: &registry,
        ledger: &memory,
        cores: 1,
        cancel: Cancel::new(),
    };
    let (mut db, root) = database(&memory, &[vec![1, 2]]);
    let group = root.groups(&db)[0];
    let moved = AtomicU64::new(0);
    let driven = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut first = desk.orders(2);
            // The answer to 1 was one to 11; 2 has not been asked yet and is given back.
            first.sort_by_key(|order| order.job().key() != leaf_job(1).key());
            moved.store(1, Ordering::SeqCst);
            let output = Output {
                bytes: leaf_job(11).encoding(),
                blobs: vec![],
            };
            first.remove(0).end_as(leaf_job(11), output);
            first.remove(0).end(Err(Failure::Cancelled));
            answer(desk.orders(1).remove(0));
        });
        driver
            .drive_adjusting(
                &mut db,
                &mut (),
                &mut |db| {
                    if moved.swap(0, Ordering::SeqCst) == 1 {
                        group.set_leaves(db).to(vec![11, 12]);
                    }
                },
                |db| evaluate(db, root),
            )
            .unwrap()
    });
    assert!(driven.hold.is_empty());
    let keys: BTreeSet<Key> = memory.0.lock().unwrap().outputs.keys().copied().collect();
    let node = node_job(vec![
        Digest::of(&leaf_job(11).encoding()),
        Digest::of(&leaf_job(12).encoding()),
    ]);
    assert_eq!(
        keys,
        BTreeSet::from([leaf_job(11).key(), leaf_job(12).key(), node.key()])
    );
    assert_eq!(desk.taken.load(Ordering::SeqCst), 3);
}

#[test]
fn a_stopped_drive_waits_for_what_is_under_way() {
    let memory = Memory::default();
    let cancel = Cancel::new();
    let driven = drive(&memory, &[vec![1], vec![2]], &cancel, &desk(), |desk| {
        let mut orders = desk.orders(2);
        cancel.stop();
        orders.remove(0).end(Err(Failure::Cancelled));
        answer(orders.remove(0));
    });
    assert!(driven.stopped);
    assert_eq!(driven.executed, BTreeMap::from([("test/leaf", 1)]));
    // The other leaf is missing, and the node of the one that is there.
    assert_eq!(driven.hold.jobs().len(), 2);
    assert_eq!(driven.failures, []);
}

#[test]
fn a_killed_drive_ends_although_a_service_does_not_answer() {
    let memory = Memory::default();
    let cancel = Cancel::new();
    let shop = desk();
    let kept = Mutex::new(Vec::new());
    let driven = drive(&memory, &[vec![1], vec![2]], &cancel, &shop, |desk| {
        let mut orders = desk.orders(2);
        answer(orders.remove(0));
        cancel.kill();
        kept.lock().unwrap().extend(orders);
    });
    assert!(driven.stopped && shop.1.aborted.load(Ordering::SeqCst) > 0);
    // What had arrived is kept.
    assert_eq!(memory.0.lock().unwrap().outputs.len(), 1);
}

#[test]
fn an_order_that_is_never_answered_is_a_reported_fault() {
    let memory = Memory::default();
    let driven = drive(&memory, &[vec![1]], &Cancel::new(), &desk(), |desk| {
        drop(desk.orders(1));
    });
    let [(_, Failure::Fatal { what, .. })] = driven.failures.as_slice() else {
        panic!("{:?}", driven.failures)
    };
    assert!(what.contains("never answered"), "{what}");
}

/// Answers from threads of its own, in any order; gives up for a share of the tries.
struct Elsewhere(Arc<Flaky>);

impl Service for Elsewhere {
    fn take(&self, mut order: Order) {
        let flaky = self.0.clone();
        std::thread::spawn(move || {
            order.begin();
            let spent = Spent::default();
            let cancel = Cancel::new();
            let context = Context {
                blob: &|_| Err(Failure::Cancelled),
                output: &|_| Ok(None),
                cancel: &cancel,
                spent: &spent,
            };
            let result = flaky.run(order.job(), &context);
            let draw = order.job().key().0.0[1] % 3;
            std::thread::sleep(std::time::Duration::from_millis(draw.into()));
            order.end(result);
        });
    }

    fn forget(&self, _: &dyn Fn(&Key) -> bool) {}

    fn abort(&self) {}
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    /// Workers and services together: whatever fails, each job is run to its end once, and a
    /// failure of the service leaves its job wanted.
    #[test]
    fn no_order_is_lost(
        groups in prop::collection::vec(prop::collection::vec(0i64..30, 0..6), 1..12),
    ) {
        let memory = Memory::default();
        let (_, flaky) = setting(30);
        let mut registry = Registry::default();
        registry.add_service(LEAF, Arc::new(Elsewhere(flaky.clone())));
        registry.add(NODE, 1, flaky.clone());
        let (mut db, root) = database(&memory, &groups);
        let driver = Driver { registry: &registry, ledger: &memory, cores: 2, cancel: Cancel::new() };
        let mut drives = 0;
        loop {
            let driven = driver.drive(&mut db, &mut (), |db| evaluate(db, root)).unwrap();
            let wanted: BTreeSet<Key> = driven.hold.jobs().iter().map(Job::key).collect();
            prop_assert_eq!(&wanted, &oracle(&memory.0.lock().unwrap(), &groups));
            let failed: BTreeSet<Key> = driven.failures.iter().map(|(job, _)| job.key()).collect();
            prop_assert_eq!(wanted, failed);
            if driven.hold.is_empty() {
                break;
            }
            drives += 1;
            prop_assert!(drives < 200);
        }
        prop_assert!(flaky.ran.lock().unwrap().values().all(|n| *n == 1));
    }
}
