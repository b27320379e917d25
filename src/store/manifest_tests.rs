//! Manifests against maps: what is read back, what differs, and how little changes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::{job, open};
use super::*;
use crate::digest::Digest;
use crate::job::Key;

type Map = BTreeMap<String, (Key, Digest)>;

fn entry(id: &str, output: u64) -> Entry {
    Entry {
        id: id.to_string(),
        key: Key(Digest::of(id.as_bytes())),
        output: Digest::of(&output.to_le_bytes()),
    }
}

fn entries(map: &Map) -> impl Iterator<Item = Entry> + '_ {
    map.iter().map(|(id, (key, output))| Entry {
        id: id.clone(),
        key: *key,
        output: *output,
    })
}

fn large(n: u64) -> Map {
    (0..n)
        .map(|i| {
            let e = entry(&format!("case/subject/file{}.c/f{i}", i % 97), i);
            (e.id, (e.key, e.output))
        })
        .collect()
}

fn new_chunks(old: &Built, new: &Built) -> usize {
    let old: BTreeSet<&Vec<u8>> = old.chunks.iter().collect();
    new.chunks.iter().filter(|c| !old.contains(c)).count()
}

#[test]
fn one_change_makes_few_new_chunks() {
    let map = large(100_000);
    let old = Manifest::build(entries(&map)).unwrap();
    assert!(old.chunks.len() > 400, "{}", old.chunks.len());
    for i in (0..100_000).step_by(9_973) {
        let id = map.keys().nth(i).unwrap().clone();
        let mut changed = map.clone();
        changed.get_mut(&id).unwrap().1 = Digest::of(b"new");
        let new = Manifest::build(entries(&changed)).unwrap();
        // One for each level, and there are three.
        assert_eq!(new_chunks(&old, &new), 3);
        changed.remove(&id);
        assert!(new_chunks(&old, &Manifest::build(entries(&changed)).unwrap()) <= 6);
        changed.insert(format!("{id}/new"), (job(1).key(), Digest::of(b"x")));
        changed.insert(id.clone(), map[&id]);
        assert!(new_chunks(&old, &Manifest::build(entries(&changed)).unwrap()) <= 9);
    }
}

#[test]
fn a_stored_manifest_is_read_whole_and_by_id() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let map = large(5_000);
    let built = Manifest::build(entries(&map)).unwrap();
    store.put_manifest("latest", &built).unwrap();
    let reader = store.reader().unwrap();
    let manifest = Manifest::load(&reader, reader.root("latest").unwrap().unwrap()).unwrap();
    assert_eq!(manifest.len(), 5_000);
    assert_eq!(manifest.entries().unwrap(), Vec::from_iter(entries(&map)));
    for (id, found) in &map {
        assert_eq!(manifest.get(id).unwrap(), Some(*found));
        assert_eq!(manifest.get(&format!("{id}\0")).unwrap(), None);
    }
    assert_eq!(manifest.get("").unwrap(), None);
    assert_eq!(manifest.get("zzz").unwrap(), None);
}

#[test]
fn an_id_has_one_meaning() {
    let twice = [entry("a", 1), entry("a", 1), entry("b", 1)];
    assert_eq!(Manifest::build(twice).unwrap().len, 2);
    let two = Manifest::build([entry("a", 1), entry("a", 2)]);
    assert!(matches!(two, Err(StoreError::BadManifest { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn diff_is_the_difference_of_the_maps(
        size in 0..2_500u64,
        edits in prop::collection::vec((0..3_000u64, 0..4u64), 0..40),
        swap in any::<bool>(),
    ) {
        let old = large(size);
        let mut new = old.clone();
        for (i, how) in edits {
            let e = entry(&format!("case/subject/file{}.c/f{i}", i % 97), i + how);
            if how == 3 { new.remove(&e.id); } else { new.insert(e.id, (e.key, e.output)); }
        }
        let (old, new) = if swap { (new, old) } else { (old, new) };
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let built = [&old, &new].map(|m| Manifest::build(entries(m)).unwrap());
        store.put_blobs(&built[0].chunks).unwrap();
        store.put_blobs(&built[1].chunks).unwrap();
        let reader = store.reader().unwrap();
        let [a, b] = built.map(|m| Manifest::load(&reader, m.root).unwrap());
        let ids: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let expected: Vec<Change> = ids.into_iter().filter(|id| old.get(*id) != new.get(*id))
            .map(|id| Change { id: id.clone(), old: old.get(id).copied(), new: new.get(id).copied() })
            .collect();
        prop_assert_eq!(Manifest::diff(&a, &b).unwrap(), expected);
    }

    #[test]
    fn hostile_chunks_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..120), level in 0..45u8, n in 0..5u32) {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let mut chunk = b"EVMF\x01".to_vec();
        chunk.push(level);
        chunk.extend_from_slice(&n.to_le_bytes());
        chunk.extend_from_slice(&bytes);
        let root = store.put_blobs(&[chunk]).unwrap()[0];
        let reader = store.reader().unwrap();
        if let Ok(m) = Manifest::load(&reader, root) {
            let _ = m.entries();
            let _ = m.get("a");
        }
    }
}
