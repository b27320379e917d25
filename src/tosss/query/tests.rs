//! What an edit costs: which queries run again, and which questions are wanted, which is money.

use std::collections::{BTreeSet, HashMap};

use super::*;
use crate::engine::{Facts, FactsError};
use crate::job::{Job, Key};
use crate::lang::SnippetLanguage;
use crate::tosss::record::Vulnerability;

/// A store in memory.
#[derive(Clone, Default)]
struct Memory {
    outputs: HashMap<Key, Digest>,
    blobs: HashMap<Digest, Arc<[u8]>>,
    rows: HashMap<Digest, Arc<[u8]>>,
}

impl Facts for Memory {
    fn output(&self, key: &Key) -> Result<Option<Digest>, FactsError> {
        Ok(self.outputs.get(key).copied())
    }
    fn noted(&self, _: &Key) -> Result<Option<Digest>, FactsError> {
        Ok(None)
    }
    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, FactsError> {
        Ok(self.blobs.get(digest).cloned())
    }
    fn row(&self, key: &Digest) -> Option<Arc<[u8]>> {
        self.rows.get(key).cloned()
    }
}

impl Memory {
    fn keep(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.blobs.insert(digest, bytes.into());
        digest
    }

    /// Answers these jobs with `text`, and makes that known to the database.
    fn answer(&mut self, db: &mut EngineDb, jobs: &[Job], text: &str) {
        let output = self.keep(&Reply::complete(text).encode());
        let known: Vec<_> = jobs.iter().map(|job| (job.key(), output)).collect();
        self.outputs.extend(known.iter().copied());
        db.arrive(&known, Arc::new(self.clone()));
    }
}

fn pair(n: usize) -> Pair {
    Pair {
        vulnerability: Vulnerability {
            id: format!("CVE-2020-{n:04}"),
            ..Vulnerability::default()
        },
        also: Vec::new(),
        repository: "r".into(),
        commit: "c".into(),
        path: "a.c".into(),
        function: format!("f{n}"),
        language: SnippetLanguage::named("c").unwrap(),
        licence: None,
        functions_in_fix: 1,
        before: format!("int f{n}(int a) {{ return a; }}"),
        after: format!("int f{n}(int a) {{ if (a) return 0; return a; }}"),
    }
}

fn model(name: &str) -> Answerer {
    Answerer {
        name: name.into(),
        revision: format!("{name}@1"),
        sampling: crate::ask::Sampling::default(),
        system: String::new(),
        continues: false,
    }
}

/// What is missing when these models are asked about so many pairs.
fn missing(db: &EngineDb, pairs: usize, models: &[&str]) -> Arc<Answered> {
    let pairs: Vec<Pair> = (0..pairs).map(pair).collect();
    let models: Vec<Answerer> = models.iter().map(|name| model(name)).collect();
    let orders = vec![Order::Drawn];
    answered(db, Board::new(db, Arc::new(pairs), models, orders, 1))
}

/// The questions of a model about pairs, both arms.
fn oracle(name: &str, pairs: std::ops::Range<usize>) -> BTreeSet<Key> {
    let all = pairs.flat_map(|n| Arm::ALL.map(|arm| (n, arm)));
    all.map(|(n, arm)| {
        let text = question(&pair(n), arm, 1, Order::Drawn).text;
        model(name).request(text, 0).to_job(COMPLETION).key()
    })
    .collect()
}

fn keys(answered: &Answered) -> BTreeSet<Key> {
    answered.hold.jobs().iter().map(Job::key).collect()
}

fn executed(db: &EngineDb) -> BTreeMap<String, u64> {
    let mut counts = db.take_executed();
    counts.retain(|name, _| ["asked", "chosen", "column", "fix_pairs"].contains(&name.as_str()));
    counts
}

fn counts<const N: usize>(all: [(&str, u64); N]) -> BTreeMap<String, u64> {
    all.map(|(name, n)| (name.to_string(), n)).into()
}

#[test]
fn a_reply_is_read_once_and_a_new_model_or_pair_asks_only_its_own() {
    let mut memory = Memory::default();
    let mut db = EngineDb::new(Arc::new(memory.clone()));
    let first = missing(&db, 3, &["m"]);
    assert_eq!(keys(&first), oracle("m", 0..3));
    assert_eq!(first.incomplete["m"], 6);
    assert_eq!(
        executed(&db),
        counts([("asked", 6), ("chosen", 6), ("column", 2)])
    );

    // One reply: its own choice, and the column that holds it.
    memory.answer(&mut db, &first.hold.jobs()[..1], "A");
    let second = missing(&db, 3, &["m"]);
    assert_eq!(second.incomplete["m"], 5);
    assert_eq!(executed(&db), counts([("chosen", 1), ("column", 1)]));

    // All of them, and then another model: no text is written and no reply read again.
    memory.answer(&mut db, second.hold.jobs(), "B");
    assert!(missing(&db, 3, &["m"]).hold.is_empty());
    executed(&db);
    let both = missing(&db, 3, &["m", "n"]);
    assert_eq!(keys(&both), oracle("n", 0..3));
    let ran = executed(&db);
    assert_eq!((ran["chosen"], ran.get("asked")), (6, None));

    // Another pair: its two texts, put to both.
    memory.answer(&mut db, both.hold.jobs(), "A");
    missing(&db, 3, &["m", "n"]);
    executed(&db);
    let more = missing(&db, 4, &["m", "n"]);
    let wanted: BTreeSet<Key> = [oracle("m", 3..4), oracle("n", 3..4)].concat_sets();
    assert_eq!(keys(&more), wanted);
    let ran = executed(&db);
    assert_eq!((ran["chosen"], ran["asked"]), (4, 2));
}

/// Joins sets.
trait Joined {
    fn concat_sets(self) -> BTreeSet<Key>;
}

impl Joined for [BTreeSet<Key>; 2] {
    fn concat_sets(self) -> BTreeSet<Key> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn complete_answers_are_recalled_by_a_later_process_and_not_by_another_reader() {
    let mut memory = Memory::default();
    let mut db = EngineDb::new(Arc::new(memory.clone()));
    let first = missing(&db, 3, &["m"]);
    memory.answer(&mut db, first.hold.jobs(), "A");
    let whole = missing(&db, 3, &["m"]);
    assert!(whole.hold.is_empty());
    for (key, row) in db.take_rows() {
        memory.rows.insert(key, row.into());
    }
    let later = EngineDb::new(Arc::new(memory.clone()));
    assert_eq!(*missing(&later, 3, &["m"]), *whole);
    assert_eq!(executed(&later), counts([("column", 2)]));
    // A better reader reads all replies again, and asks nobody.
    let better = EngineDb::new(Arc::new(memory)).with_code("better");
    assert_eq!(*missing(&better, 3, &["m"]), *whole);
    assert_eq!(executed(&better)["chosen"], 6);
}

#[test]
fn a_new_fix_is_read_alone() {
    let mut memory = Memory::default();
    let mut known = Vec::new();
    let fixes: Vec<Fix> = (0..3)
        .map(|n| Fix {
            vulnerability: pair(n).vulnerability,
            repository: "r".into(),
            commit: format!("{n:040x}"),
        })
        .collect();
    for (n, fix) in fixes.iter().enumerate() {
        let (before, after) = (pair(n).before, pair(n).after);
        let file = crate::tosss::change::ChangedFile {
            path: "a.c".into(),
            from: None,
            before: memory.keep(before.as_bytes()),
            after: memory.keep(after.as_bytes()),
        };
        let change_of = Change {
            parents: 1,
            files: 1,
            sources: vec![file],
            ..Change::default()
        };
        let output = memory.keep(&change_of.encode());
        known.push((change(&fix.repository, &fix.commit, 200).key(), output));
    }
    let mut db = EngineDb::new(Arc::new(memory.clone()));
    let all = |db: &EngineDb| -> Vec<usize> {
        let one = |fix: &Fix| {
            let arg = FixArg::new(db, fix.clone(), Limits::default(), 200);
            fix_pairs(db, arg).map_or(0, |mined| mined.pairs.len())
        };
        fixes.iter().map(one).collect()
    };
    assert_eq!(all(&db), [0, 0, 0]);
    assert_eq!(executed(&db), counts([("fix_pairs", 3)]));
    for (n, fact) in known.iter().enumerate() {
        memory.outputs.insert(fact.0, fact.1);
        db.arrive(&[*fact], Arc::new(memory.clone()));
        let found = all(&db);
        assert_eq!(found.iter().sum::<usize>(), n + 1);
        assert_eq!(executed(&db), counts([("fix_pairs", 1)]));
    }
}
