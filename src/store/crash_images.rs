//! Invariant: whatever part of the writes after the last sync reaches the disk, in whatever order
//! and however torn, a store that is opened afterwards holds every batch that was acknowledged
//! and no half of the one that was not. Models a loss of power, which killing a process does not.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::index::{self, Handle};
use super::layout::Layout;
use super::tests::{done, job, noise, open};
use super::{Access, Completed, Store};
use crate::digest::Digest;

const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Io {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

impl Io {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Io::Write(offset, data) => {
                let at = *offset as usize;
                if image.len() < at + data.len() {
                    image.resize(at + data.len(), 0);
                }
                image[at..at + data.len()].copy_from_slice(data);
            }
            Io::SetLen(len) => image.resize(*len as usize, 0),
            Io::Sync => {}
        }
    }
}

/// Keeps everything that was done to the file, in order.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<(Vec<u8>, Vec<Io>)>>);

impl Recorder {
    fn does(&self, io: Io) -> std::io::Result<()> {
        let (live, log) = &mut *self.0.lock().unwrap();
        io.apply(live);
        log.push(io);
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }
}

impl redb::StorageBackend for Recorder {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.lock().unwrap().0.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let live = &self.0.lock().unwrap().0;
        let at = offset as usize;
        let Some(bytes) = live.get(at..at + out.len()) else {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        out.copy_from_slice(bytes);
        Ok(())
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.does(Io::SetLen(len))
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.does(Io::Sync)
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.does(Io::Write(offset, data.to_vec()))
    }
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, redb::BackendError> {
        Ok(true)
    }
    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), redb::BackendError> {
        Ok(())
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 += 1;
        let hash = Digest::of(&self.0.to_le_bytes());
        let word = u64::from_le_bytes(hash.0[..8].try_into().unwrap());
        (word % below as u64) as usize
    }
}

/// What the disk holds after a loss of power before operation `at`.
fn image(log: &[Io], at: usize, random: &mut Random) -> Vec<u8> {
    let synced = log[..at]
        .iter()
        .rposition(|io| matches!(io, Io::Sync))
        .map_or(0, |i| i + 1);
    let mut image = Vec::new();
    log[..synced].iter().for_each(|io| io.apply(&mut image));
    let mut pending: Vec<Io> = Vec::new();
    for io in &log[synced..at] {
        match io {
            // A disk writes sectors: each may arrive or not.
            Io::Write(offset, data) => {
                for (i, part) in data.chunks(SECTOR).enumerate() {
                    pending.push(Io::Write(offset + (i * SECTOR) as u64, part.to_vec()));
                }
            }
            io => pending.push(io.clone()),
        }
    }
    // Nothing, everything, or a part of what was not synced.
    let share = [0, 100, 50, 90, 10][random.next(5)];
    for io in pending {
        if random.next(100) < share {
            io.apply(&mut image);
        }
    }
    image
}

fn batch(i: i64) -> Vec<Completed> {
    let mut batch: Vec<_> = (0..3)
        .map(|j| done(job(i * 10 + j), &noise((i * 10 + j) as u64, 3_000)))
        .collect();
    batch[2].blobs = vec![noise(1000 + i as u64, 70_000)];
    batch
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().map(Result::unwrap) {
        let path = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::copy(entry.path(), path).unwrap();
        }
    }
}

#[test]
fn a_loss_of_power_loses_no_acknowledged_batch_and_halves_none() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout {
        dir: dir.path().to_path_buf(),
    };
    layout.create_dirs().unwrap();
    let recorder = Recorder::default();
    let db = redb::Builder::new()
        .create_with_backend(recorder.clone())
        .unwrap();
    assert!(index::create_tables(&db).is_ok());
    let handle = Handle::Rw(Box::new(db));
    let store = Store::assemble(layout, Access::ReadWrite, handle, "0.1.0").unwrap();
    let created = recorder.len();
    // After how many operations each batch was acknowledged, with the blobs there were then.
    let mut acknowledged = Vec::new();
    for i in 0..12 {
        store.commit(batch(i)).unwrap();
        if i % 4 == 3 {
            store.remove(&job(i * 10).key()).unwrap();
        }
        let blobs = tempfile::tempdir().unwrap();
        copy(&dir.path().join("blobs"), blobs.path());
        acknowledged.push((recorder.len(), blobs));
    }
    let log = recorder.0.lock().unwrap().1.clone();
    drop(store);

    let mut random = Random(7);
    let mut half_way = 0;
    for round in 0..300 {
        let at = created + random.next(log.len() - created + 1);
        let safe = acknowledged.iter().filter(|(n, _)| *n <= at).count();
        let crashed = tempfile::tempdir().unwrap();
        // The files of a batch are durable before the first write of its transaction.
        let blobs = &acknowledged[safe.min(acknowledged.len() - 1)].1;
        copy(blobs.path(), &crashed.path().join("blobs"));
        fs::copy(dir.path().join("STORE"), crashed.path().join("STORE")).unwrap();
        fs::write(
            crashed.path().join("index.redb"),
            image(&log, at, &mut random),
        )
        .unwrap();

        let store = open(crashed.path());
        let reader = store.reader().unwrap();
        for i in 0..12 {
            let mut there: BTreeMap<bool, usize> = BTreeMap::new();
            for (j, completed) in batch(i).iter().enumerate() {
                let output = reader.output(&completed.job.key()).unwrap();
                if i % 4 == 3 && j == 0 && output.is_none() {
                    continue;
                }
                *there.entry(output.is_some()).or_default() += 1;
                if let Some(output) = output {
                    assert_eq!(output, Digest::of(&completed.output));
                    let action = reader.action(&completed.job.key()).unwrap().unwrap();
                    for digest in action.blobs.iter().chain([&output]) {
                        assert!(reader.blob(digest).unwrap().is_some());
                    }
                }
            }
            assert_eq!(
                there.len(),
                1,
                "round {round}, {at}: half of batch {i}: {there:?}"
            );
            let stored = there.contains_key(&true);
            assert!(
                stored || i as usize >= safe,
                "round {round}, {at}: batch {i} is lost"
            );
            half_way += u32::from(stored && i as usize == safe);
        }
        // It goes on from there, and is sound.
        store.commit(batch(99)).unwrap();
        let verified = store.verify().unwrap();
        assert!(verified.is_sound(), "round {round}, {at}: {verified:?}");
    }
    // Some crashes came after a batch's commit and before its acknowledgement.
    assert!(half_way > 0);
}
