//! Any sequence of operations does to a store what it does to a map, and any changed bit of a
//! record is noticed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::record::{ActionRecord, Bad};
use super::tests::{damage, done, job, noise, open};
use super::*;
use crate::digest::Digest;
use crate::job::{Key, Nature};

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<(u8, u8)>),
    Remove(u8),
    Quarantine(u8),
    Row(u8, bool),
    Reopen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..6u8;
    let op = prop_oneof![
        4 => prop::collection::vec((key.clone(), 0..5u8), 0..5).prop_map(Op::Commit),
        2 => key.clone().prop_map(Op::Remove),
        2 => (0..5u8).prop_map(Op::Quarantine),
        2 => (key, any::<bool>()).prop_map(|(k, stale)| Op::Row(k, stale)),
        1 => Just(Op::Reopen),
    ];
    prop::collection::vec(op, 1..25)
}

/// Values 0 to 2 are large and live in files; the others are in the index.
fn value(v: u8) -> Vec<u8> {
    noise(u64::from(v), if v < 3 { 70_000 } else { 50 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_store_does_as_a_map_does(ops in ops()) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let mut actions: BTreeMap<u8, u8> = BTreeMap::new();
        let mut conflicts: BTreeSet<(Key, Digest)> = BTreeSet::new();
        let mut rows: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        let mut values: BTreeSet<u8> = BTreeSet::new();
        let (mut removed, mut quarantined, mut epoch) = (0, 0, 0);
        for op in ops {
            match op {
                Op::Commit(batch) => {
                    let completed = batch.iter().map(|(k, v)| done(job(i64::from(*k)), &value(*v)));
                    let got = store.commit(completed.collect()).unwrap();
                    let (mut stored, mut equal, mut clashes) = (BTreeSet::new(), 0, 0);
                    for (k, v) in batch {
                        values.insert(v);
                        let key = job(i64::from(k)).key();
                        match actions.get(&k) {
                            None => { actions.insert(k, v); stored.insert(key); }
                            Some(old) if *old == v => equal += 1,
                            Some(_) => {
                                clashes += 1;
                                conflicts.insert((key, Digest::of(&value(v))));
                            }
                        }
                    }
                    prop_assert_eq!(got.stored, Vec::from_iter(stored));
                    prop_assert_eq!((got.equal, got.conflicts.len()), (equal, clashes));
                }
                Op::Remove(k) => {
                    let was = actions.remove(&k).is_some();
                    prop_assert_eq!(store.remove(&job(i64::from(k)).key()).unwrap(), was);
                    if was { removed += 1; epoch += 1; rows.clear(); }
                }
                Op::Quarantine(v) => {
                    let digest = Digest::of(&value(v));
                    let hurt = v < 3 && values.remove(&v);
                    if hurt { damage(dir.path(), &digest); }
                    if hurt || !values.contains(&v) {
                        // Also one that was never there: then no action names it.
                        let gone: BTreeSet<Key> = actions.iter().filter(|(_, a)| **a == v)
                            .map(|(k, _)| job(i64::from(*k)).key()).collect();
                        quarantined += gone.len();
                        actions.retain(|_, a| *a != v);
                        conflicts.retain(|(_, other)| *other != digest);
                        epoch += 1;
                        rows.clear();
                        prop_assert_eq!(store.quarantine(&digest).unwrap(), Vec::from_iter(gone));
                    } else {
                        prop_assert_eq!(store.quarantine(&digest).unwrap(), vec![]);
                    }
                }
                Op::Row(k, stale) => {
                    let at = if stale { epoch + 1 } else { epoch };
                    let row = vec![k; 3];
                    let put = store.put_rows(at, vec![(Digest::of(&[k]), row.clone())]).unwrap();
                    prop_assert_eq!(put, !stale);
                    if put { rows.insert(k, row); }
                }
                Op::Reopen => { drop(store); store = open(dir.path()); }
            }
            let reader = store.reader().unwrap();
            prop_assert_eq!(reader.epoch(), epoch);
            for k in 0..6u8 {
                let expected = actions.get(&k).map(|v| value(*v));
                let output = reader.output(&job(i64::from(k)).key()).unwrap();
                prop_assert_eq!(output, expected.as_deref().map(Digest::of));
                if let Some(bytes) = expected {
                    let read = reader.blob(&output.unwrap()).unwrap().unwrap();
                    prop_assert_eq!(&*read, &*bytes);
                }
                prop_assert_eq!(reader.row(&Digest::of(&[k])).unwrap(), rows.get(&k).cloned());
            }
            let got = reader.conflicts().unwrap();
            let got: BTreeSet<_> = got.iter().map(|c| (c.key, c.other)).collect();
            prop_assert_eq!(got, conflicts.clone());
            prop_assert_eq!(reader.removed().unwrap().len(), removed);
            prop_assert_eq!(reader.quarantined().unwrap().len(), quarantined);
        }
        let verified = store.verify().unwrap();
        prop_assert!(verified.is_sound(), "{:?}", verified);
    }

    #[test]
    fn a_record_with_any_bit_changed_is_refused(bit in 0..8u32, at in 0..400usize, other in any::<[u8; 32]>()) {
        let key = job(1).key();
        let record = ActionRecord {
            output: Digest::of(b"o"), nature: Nature::Measured, committed_at: 5,
            kind: "test/kind".into(), version: 3, blobs: vec![Digest::of(b"b")],
            provenance: Provenance { note: Some("n".into()), ..Provenance::default() },
        };
        let mut bytes = record.seal(&key);
        prop_assert_eq!(ActionRecord::open(&key, &bytes), Ok(record));
        let elsewhere = Key(Digest(other));
        prop_assert_eq!(ActionRecord::open(&elsewhere, &bytes), Err(Bad("its seal does not fit")));
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(ActionRecord::open(&key, &bytes).is_err());
        prop_assert!(ActionRecord::open(&key, &bytes[..at]).is_err());
    }
}
