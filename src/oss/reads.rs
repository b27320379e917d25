//! What of the tree a run depends on: the files it opens. Which these are is known only after it,
//! so this goes as with the system's files of a build: the names come from an earlier run, what
//! the files hold now is in the key, and a run that opens more is demanded again with these names
//! too, until nothing is opened that the key does not hold. A run takes the tree as it is, so names
//! that are missing cost another job, never a wrong result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::artifact::{BuiltFile, EVERYTHING};
use super::inputs::Subject;
use super::population::{self, FlavourArg};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::oss::artifact;

/// How often a key is taken to the names that a run has opened; after that the names of all runs
/// together are in it, since a test that opens other files each time would never come to an end.
pub(super) const ROUNDS: u32 = 4;

/// Under this name the symbolic links of the tree are in a key: no file is called so.
pub const LINKS: &str = "//";

/// Names of files of the tree, and of folders with a `/` at the end.
pub type Names = BTreeSet<String>;

/// What shards opened in earlier runs, by the shard's name, the last first.
pub type Remembered = BTreeMap<String, Vec<Names>>;

/// At most so many earlier answers of a shard are kept: a commit taken back finds its own.
const REMEMBERED: usize = 8;

/// Puts what a shard opened first among what is remembered.
pub fn remember(all: &mut Remembered, shard: &str, names: &Names) {
    let known = all.entry(shard.to_string()).or_default();
    known.retain(|other| other != names);
    known.insert(0, names.clone());
    known.truncate(REMEMBERED);
}

/// [`Names`] as an argument of queries.
#[salsa::interned]
pub struct NamesArg<'db> {
    #[returns(ref)]
    names: Names,
}

/// What everything in the tree of the sanitized flavour holds.
#[derive(PartialEq, Eq, Debug)]
struct Contents {
    /// Files as the source brought them or as the build left them; nothing for what no two builds
    /// leave alike.
    files: BTreeMap<String, Option<Digest>>,
    /// What recorded commands made.
    products: BTreeMap<String, Digest>,
    /// Of each folder, its entries' names.
    folders: BTreeMap<String, Digest>,
    /// All symbolic links with their targets.
    links: Option<Digest>,
    /// Of all of it.
    all: Digest,
}

/// The part of a run's key that says what is in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reads {
    /// What is in the tree of the names that were asked for.
    pub names: Arc<Names>,
    /// What these hold, products left out: a JSON object from name to digest, `null` for what no two
    /// builds leave alike, and under [`LINKS`] the symbolic links of the tree.
    pub held: Arc<[u8]>,
    /// The products among them.
    pub products: BTreeMap<String, Digest>,
}

impl Reads {
    /// The same names where `files` take the place of the tree's own.
    pub fn with(&self, files: &[BuiltFile]) -> Reads {
        let mut reads = self.clone();
        for file in files {
            // Nothing but the whole holds the digest of everything.
            if let Some(digest) = reads.products.get_mut(EVERYTHING) {
                let both = [digest.0, Digest::of(file.path.as_bytes()).0, file.digest.0];
                *digest = Digest::of(both.as_flattened());
            } else if let Some(digest) = reads.products.get_mut(&file.path) {
                *digest = file.digest;
            }
        }
        reads
    }

    /// Whether the key holds all of these names, as far as they are in the tree.
    pub fn cover(&self, opened: &Names) -> bool {
        self.names.contains(EVERYTHING) || opened.iter().all(|name| self.names.contains(name))
    }
}

/// What of `names` is in the built tree, and what it holds.
#[salsa::tracked(returns(clone))]
pub fn reads<'db>(
    db: &'db dyn Db,
    subject: Subject,
    names: NamesArg<'db>,
) -> Result<Arc<Reads>, Hold> {
    let contents = contents(db, subject)?;
    let asked = names.names(db);
    if asked.contains(EVERYTHING) {
        return Ok(Arc::new(Reads {
            names: Arc::new(Names::from([EVERYTHING.to_string()])),
            held: artifact::write(&BTreeMap::<String, Digest>::new()).into(),
            products: BTreeMap::from([(EVERYTHING.to_string(), contents.all)]),
        }));
    }
    let mut held: BTreeMap<&str, Option<Digest>> = BTreeMap::new();
    let mut products = BTreeMap::new();
    let mut there = Names::new();
    for name in asked {
        let folder = name.strip_suffix('/');
        let found = match folder {
            Some(folder) => contents.folders.get(folder).map(|digest| Some(*digest)),
            None => contents.files.get(name).copied(),
        };
        if let Some(digest) = contents.products.get(name) {
            products.insert(name.clone(), *digest);
        } else if let Some(digest) = found {
            held.insert(name, digest);
        } else {
            continue;
        }
        there.insert(name.clone());
    }
    held.extend(contents.links.map(|links| (LINKS, Some(links))));
    Ok(Arc::new(Reads {
        names: Arc::new(there),
        held: artifact::write(&held).into(),
        products,
    }))
}

#[salsa::tracked(returns(clone))]
fn contents(db: &dyn Db, subject: Subject) -> Result<Arc<Contents>, Hold> {
    let (_, snapshot) = population::snapshot(db, subject)?;
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let brought = snapshot.files.iter().map(|(path, file)| {
        let digest = match file.executable {
            true => Digest::of(&[b"executable ".as_slice(), &file.digest.0].concat()),
            false => file.digest,
        };
        (path.clone(), Some(digest))
    });
    let mut files: BTreeMap<String, Option<Digest>> = brought.collect();
    files.extend(doc.others.iter().map(|(path, held)| (path.clone(), *held)));
    let made = doc.files.iter();
    let products: BTreeMap<String, Digest> =
        made.map(|file| (file.path.clone(), file.digest)).collect();
    let mut folders: BTreeMap<&str, Names> = BTreeMap::new();
    let paths = files.keys().chain(products.keys());
    for mut path in paths.chain(snapshot.links.keys()).map(String::as_str) {
        loop {
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            let new = folders.entry(above).or_default().insert(name.to_string());
            if above.is_empty() || !new {
                break;
            }
            path = above;
        }
    }
    let folders = folders
        .into_iter()
        .map(|(folder, names)| (folder.to_string(), Digest::of(&artifact::write(&names))))
        .collect();
    let links = match snapshot.links.is_empty() {
        true => None,
        false => Some(Digest::of(&artifact::write(&snapshot.links))),
    };
    Ok(Arc::new(Contents {
        all: Digest::of(&artifact::write(&(&files, &products, &snapshot.links))),
        files,
        products,
        folders,
        links,
    }))
}
