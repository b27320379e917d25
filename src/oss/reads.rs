//! What of the tree a run depends on: the files it opens. Which these are is known only after it,
//! so this goes as with the system's files of a build: the names come from an earlier run, what
//! the files hold now is in the key, and a run that opens more is demanded again with these names
//! too, until nothing is opened that the key does not hold. A run takes the tree as it is, so names
//! that are missing cost another job, never a wrong result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::artifact::{BuiltFile, EVERYTHING, Replacement};
use super::inputs::Subject;
use super::population::{self, FlavourArg};
use super::reach;
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::oss::artifact;

/// How often a key is taken to the names that a run has opened; after that the names of all runs
/// together are in it, since a test that opens other files each time would never come to an end.
pub(super) const ROUNDS: u32 = 4;

/// Under this name the symbolic links of the tree are in a key: no file is called so.
pub const LINKS: &str = "//";

/// Names of files of the tree, of folders with a `/` at the end, and of what was entered of programs
/// ([`reach`]).
pub type Names = BTreeSet<String>;

/// What shards opened in earlier runs, by the shard's name, the last first.
pub type Remembered = BTreeMap<String, Vec<Names>>;

/// At most so many earlier answers of a shard are kept: a commit taken back finds its own.
const REMEMBERED: usize = 8;

/// What is remembered, without what names lists that are not `there` any more.
pub fn still(mut all: Remembered, mut there: impl FnMut(&Digest) -> bool) -> Remembered {
    for known in all.values_mut() {
        known.retain(|names| {
            let mut lists = names.iter().filter_map(|name| reach::entered(name)?.1);
            lists.all(|list| there(&list))
        });
    }
    all.retain(|_, known| !known.is_empty());
    all
}

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
    pub products: BTreeMap<String, Product>,
}

/// What a key says of a file that the build made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Product {
    /// Its bytes; or, with lists, the parts of it that these make it depend on.
    pub digest: Digest,
    /// The lists of the functions entered, sorted; none if all its bytes count.
    pub lists: Vec<Digest>,
}

impl Reads {
    /// The same names where `files`, the program of `set`, take the place of the tree's own.
    pub fn with(
        &self,
        db: &dyn Db,
        subject: Subject,
        files: &[BuiltFile],
        set: &[Replacement],
    ) -> Result<Reads, Hold> {
        let mut reads = self.clone();
        for file in files {
            // Nothing but the whole holds the digest of everything.
            if let Some(product) = reads.products.get_mut(EVERYTHING) {
                let both = [
                    product.digest.0,
                    Digest::of(file.path.as_bytes()).0,
                    file.digest.0,
                ];
                product.digest = Digest::of(both.as_flattened());
            } else if let Some(product) = reads.products.get_mut(&file.path) {
                let told = match product.lists.is_empty() {
                    true => None,
                    false => reach::told(db, subject, &file.path, &product.lists, set)?,
                };
                product.digest = told.unwrap_or(file.digest);
            }
        }
        Ok(reads)
    }

    /// Whether the key holds all of these names, as far as they are in the tree.
    pub fn cover(&self, db: &dyn Db, opened: &Names) -> Result<bool, Hold> {
        Ok(self.names.contains(EVERYTHING)
            || reach::cover(&self.names, opened, |list| db.blob(list))?)
    }

    /// Whether all bytes count of the programs of which a run cannot tell what it entered.
    pub fn tells(&self, opened: &Names) -> bool {
        !opened.iter().any(|name| match reach::entered(name) {
            Some((path, None)) => self
                .products
                .get(path)
                .is_some_and(|product| !product.lists.is_empty()),
            _ => false,
        })
    }

    /// The names of the key and those of another one. Where that does not know what was entered of a
    /// program, what this one knows does not help.
    pub fn and(&self, others: &Names) -> Names {
        let unknown: Vec<&str> = others
            .iter()
            .filter_map(|name| match reach::entered(name) {
                Some((path, None)) => Some(path),
                _ => None,
            })
            .collect();
        let helps = |name: &&String| match reach::entered(name) {
            Some((path, _)) => !unknown.contains(&path),
            None => true,
        };
        let both = self.names.iter().filter(helps).chain(others);
        both.cloned().collect()
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
            products: BTreeMap::from([(
                EVERYTHING.to_string(),
                Product {
                    digest: contents.all,
                    lists: Vec::new(),
                },
            )]),
        }));
    }
    let mut held: BTreeMap<&str, Option<Digest>> = BTreeMap::new();
    let mut products = BTreeMap::new();
    let mut there = Names::new();
    // Of each program what was entered; nothing where that is not known.
    let mut entered: BTreeMap<&str, Option<Vec<Digest>>> = BTreeMap::new();
    for name in asked {
        if let Some((path, list)) = reach::entered(name) {
            let lists = entered.entry(path).or_insert_with(|| Some(Vec::new()));
            match list {
                Some(list) => lists.iter_mut().for_each(|lists| lists.push(list)),
                None => *lists = None,
            }
            continue;
        }
        let folder = name.strip_suffix('/');
        let found = match folder {
            Some(folder) => contents.folders.get(folder).map(|digest| Some(*digest)),
            None => contents.files.get(name).copied(),
        };
        if let Some(digest) = contents.products.get(name) {
            let product = Product {
                digest: *digest,
                lists: Vec::new(),
            };
            products.insert(name.clone(), product);
        } else if let Some(digest) = found {
            held.insert(name, digest);
        } else {
            continue;
        }
        there.insert(name.clone());
    }
    for (path, lists) in entered {
        let (Some(product), Some(mut lists)) = (products.get_mut(path), lists) else {
            continue;
        };
        lists.sort();
        let Some(told) = reach::told(db, subject, path, &lists, &[])? else {
            continue;
        };
        there.extend(lists.iter().map(|list| reach::entry(path, list)));
        *product = Product {
            digest: told,
            lists,
        };
    }
    held.extend(contents.links.map(|links| (LINKS, Some(links))));
    Ok(Arc::new(Reads {
        names: Arc::new(there),
        held: artifact::write(&held).into(),
        products,
    }))
}

/// The digest of what files of the tree hold that are no products; nothing if that is not the same
/// after any two builds.
pub(super) fn held(
    db: &dyn Db,
    subject: Subject,
    files: &[String],
) -> Result<Option<Digest>, Hold> {
    let contents = contents(db, subject)?;
    let held = files.iter().map(|path| contents.files.get(path).copied()?);
    let held: Option<Vec<Digest>> = held.collect();
    Ok(held.map(|held| Digest::of(&artifact::write(&held))))
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
