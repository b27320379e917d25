//! The families of a corpus: a list of sources in a file becomes trees of files. What comes over the
//! network goes into the store once, with the version or commit that it was found to be; folders and
//! archives of this machine are read each time. docs/contamination.md has the keys of the list.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

mod list;
mod mining;
mod upstream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use list::{Entry, List};
pub use mining::{Mining, mine_files, mine_in};

use super::stored::store_to_fill;
use super::{AppError, TOOL};
use crate::cancel::Cancel;
use crate::contamination::{Family, File};
use crate::job::Job;
use crate::oss::artifact;
use crate::source::archive::{Wanted, read_archive};
use crate::source::{self, Fetcher, Git, Limits, Place, Snapshot, SourceError, Tree};
use crate::store::{Completed, Entry as RootEntry, Manifest, Provenance, Store};
use crate::subject::{Globs, Pin, Source};
use list::From;

/// The root of what corpora rest on.
const ROOT: &str = "contamination/corpus";
/// Where it is noted which version or commit a name was found to be.
const PINS: &str = "corpus.json";

/// The families of a list.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// In the order of the list.
    pub families: Vec<Family>,
    /// What could not be had: its name and why. The rest goes on.
    pub missing: Vec<(String, String)>,
    /// How many sources were fetched, and not found in the store or on this machine.
    pub fetched: usize,
}

/// Reads and fetches the sources of a list into the store in `dir`. `tell` is told what is being
/// fetched.
///
/// # Errors
/// A store that cannot be used. A source that cannot be had is no error: see
/// [`Imported::missing`].
pub fn import(
    dir: &Path,
    list: &List,
    cancel: &Cancel,
    tell: &mut dyn FnMut(&str),
) -> Result<Imported, AppError> {
    let mut importer = Importer::open(dir, &list.dir)?;
    let mut all = Imported::default();
    for entry in &list.families {
        if cancel.is_stopping() {
            break;
        }
        for (name, place) in importer.places(entry) {
            tell(&name);
            match importer.tree(&place) {
                Ok(files) => all.families.push(Family {
                    url: entry.url.clone().or_else(|| upstream::of(&files)),
                    name,
                    files,
                }),
                Err(error) => all.missing.push((name, error.to_string())),
            }
        }
    }
    all.fetched = importer.fetched;
    importer.close()?;
    Ok(all)
}

/// Where the files of one family are.
enum Where {
    Folder(PathBuf),
    Archive(PathBuf),
    Fetched(From),
}

struct Importer<'a> {
    dir: &'a Path,
    /// Relative paths start here.
    list: &'a Path,
    store: Arc<Store>,
    pins: BTreeMap<String, Pin>,
    roots: Vec<RootEntry>,
    fetched: usize,
}

impl<'a> Importer<'a> {
    fn open(dir: &'a Path, list: &'a Path) -> Result<Self, AppError> {
        let store = Arc::new(store_to_fill(dir)?);
        let path = dir.join(".everbench").join(PINS);
        let pins = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                AppError::Input(format!(
                    "{}: {e}\n  help: remove it; versions are then looked up again",
                    path.display()
                ))
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(AppError::Environment(format!("{}: {e}", path.display()))),
        };
        Ok(Importer {
            dir,
            list,
            store,
            pins,
            roots: Vec::new(),
            fetched: 0,
        })
    }

    /// Notes the pins, and what in the store the corpus rests on.
    fn close(mut self) -> Result<(), AppError> {
        let path = self.dir.join(".everbench").join(PINS);
        let fault = |e: std::io::Error| AppError::Environment(format!("{}: {e}", path.display()));
        let folder = path.parent().unwrap_or(self.dir);
        let bytes = serde_json::to_vec_pretty(&self.pins).expect("texts are JSON");
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
        std::io::Write::write_all(&mut file, &bytes).map_err(fault)?;
        file.persist(&path).map_err(|e| fault(e.error))?;
        // Lists share a store, so what another one has is kept.
        let reader = self.store.reader()?;
        if let Some(known) = reader.root(ROOT)? {
            self.roots
                .extend(Manifest::load(&reader, known)?.entries()?);
        }
        self.roots.sort_by(|a, b| a.id.cmp(&b.id));
        self.roots.dedup_by(|b, a| a.id == b.id);
        self.store
            .put_manifest(ROOT, &Manifest::build(self.roots)?)?;
        Ok(())
    }

    /// What an entry stands for: one source, or everything in a folder.
    fn places(&self, entry: &Entry) -> Vec<(String, Where)> {
        let from = match &entry.from {
            From::Each(path) => {
                let path = self.list.join(path);
                let found = std::fs::read_dir(&path).into_iter().flatten().flatten();
                let mut found: Vec<PathBuf> = found.map(|e| e.path()).collect();
                found.sort();
                let each = found.into_iter().map(|path| {
                    let name = path.file_name().unwrap_or_default();
                    let name = name.to_string_lossy().into_owned();
                    let place = match path.is_dir() {
                        true => Where::Folder(path),
                        false => Where::Archive(path),
                    };
                    (name, place)
                });
                return each.collect();
            }
            From::Directory(path) => Where::Folder(self.list.join(path)),
            From::Archive { location, sha256 } if sha256.is_none() => {
                Where::Archive(self.list.join(location))
            }
            other => Where::Fetched(other.clone()),
        };
        vec![(entry.name(), from)]
    }

    fn tree(&mut self, place: &Where) -> Result<Vec<File>, AppError> {
        match place {
            Where::Folder(path) => {
                let tree = source::read_directory(path, &Globs::default(), &Limits::default())?;
                Ok(files(&tree))
            }
            Where::Archive(path) => {
                let name = path.display().to_string();
                let bytes =
                    std::fs::read(path).map_err(|e| AppError::Input(format!("{name}: {e}")))?;
                let tree = read_archive(&name, &bytes, Wanted::default(), Limits::default());
                Ok(files(&tree.map_err(|e| AppError::Input(e.to_string()))?))
            }
            Where::Fetched(from) => self.stored(from),
        }
    }

    /// The files of a source that is fetched, from the store if they are there.
    fn stored(&mut self, from: &From) -> Result<Vec<File>, AppError> {
        let private = self.dir.join(".everbench").join("sources");
        let scratch = std::fs::create_dir_all(&private)
            .and_then(|()| tempfile::tempdir_in(&private))
            .map_err(|e| AppError::from(SourceError::Folder(e)))?;
        let place = Place {
            manifest: self.list,
            private: &private,
            scratch: scratch.path(),
        };
        let source = self.pinned(from, place)?;
        let identity = source
            .identity()
            .map_err(|_| AppError::Input(format!("{}: its version cannot be told", from.name())))?;
        let job = Job::of(artifact::SOURCE);
        let put = |job: crate::job::JobBuilder, (name, value)| job.put(name, value);
        let job = identity.into_iter().fold(job, put).done();
        let known = self.store.reader()?.output(&job.key())?;
        if known.is_none() {
            // What pinning left there is in the way.
            let scratch = tempfile::tempdir_in(&private)
                .map_err(|e| AppError::from(SourceError::Folder(e)))?;
            let place = Place {
                scratch: scratch.path(),
                ..place
            };
            let tree = source::fetch(&source, place)?;
            self.store.commit(vec![Completed {
                job: job.clone(),
                output: tree.snapshot.canonical(),
                blobs: tree.blobs.values().map(|b| b.to_vec()).collect(),
                provenance: Provenance {
                    tool: TOOL.into(),
                    ..Provenance::default()
                },
            }])?;
            self.fetched += 1;
        }
        let reader = self.store.reader()?;
        let damaged = || {
            AppError::Environment(format!(
                "{}: its files are damaged or gone from the store\n  help: `everbench store verify` says \
                 what else is damaged",
                from.name()
            ))
        };
        let output = reader.output(&job.key())?.ok_or_else(damaged)?;
        self.roots.push(RootEntry {
            id: from.key(),
            key: job.key(),
            output,
        });
        let listed = reader.blob(&output)?.ok_or_else(damaged)?;
        let snapshot = Snapshot::decode(&listed).map_err(|_| damaged())?;
        let mut files = Vec::with_capacity(snapshot.files.len());
        for (path, entry) in snapshot.files {
            let bytes: Arc<[u8]> = match wanted(&path) {
                true => reader.blob(&entry.digest)?.ok_or_else(damaged)?,
                false => Arc::default(),
            };
            files.push(File { path, bytes });
        }
        Ok(files)
    }

    /// The source at one exact version or commit, which is looked up once.
    fn pinned(&mut self, from: &From, place: Place<'_>) -> Result<Source, AppError> {
        let source = from.source();
        if source.identity().is_ok() {
            return Ok(source);
        }
        let key = from.key();
        let pin = match self.pins.get(&key) {
            Some(pin) => pin.clone(),
            None => {
                let pin = self.look_up(from, &source, place)?;
                self.pins.insert(key, pin.clone());
                pin
            }
        };
        Ok(match source {
            Source::Git(git) => Source::Git(crate::subject::GitSource {
                revision: pin.version,
                ..git
            }),
            source => source.at(&pin),
        })
    }

    fn look_up(&self, from: &From, source: &Source, place: Place<'_>) -> Result<Pin, AppError> {
        let error = |e: SourceError| AppError::from(e);
        if let Source::Git(git) = source {
            let commit = Git::new(place.private).resolve(git, place.manifest);
            return Ok(Pin {
                version: commit.map_err(|e| error(e.into()))?,
                checksum: String::new(),
            });
        }
        if let (
            Source::Crate(krate),
            From::Crate {
                version: Some(version),
                ..
            },
        ) = (source, from)
        {
            let pin = Fetcher::default().pin(krate, version, place.scratch);
            return pin.map_err(|e| error(e.into()));
        }
        let found = source::newest(source, place).map_err(error)?;
        found.ok_or_else(|| AppError::Input(format!("{}: its version cannot be told", from.name())))
    }
}

/// Whether a file's bytes can matter: code, prose, and what says where the upstream is.
fn wanted(path: &str) -> bool {
    use crate::contamination::leaf::reading;
    use crate::lang::SnippetLanguage;
    upstream::says(path) || SnippetLanguage::all().any(|l| reading(l, path).is_ok())
}

fn files(tree: &Tree) -> Vec<File> {
    let all = tree.snapshot.files.keys();
    all.filter_map(|path| {
        Some(File {
            path: path.clone(),
            bytes: match wanted(path) {
                true => tree.bytes(path)?.clone(),
                false => Arc::default(),
            },
        })
    })
    .collect()
}

#[cfg(test)]
mod tests;
