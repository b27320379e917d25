//! Fetching a crate that carries a C project, by the ordinary cargo: a manifest that depends on the
//! exact version is written to a scratch directory and `cargo vendor` unpacks it there. Nothing of
//! the crate is built or run. Cargo checks the archive against the registry's index; this room
//! checks the index against the subject's manifest, and every file against cargo's list.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::collect::{Refused, inside};
use super::directory::{Limits, ReadError, read_directory};
use super::hex;
use super::snapshot::Tree;
use crate::subject::{CrateSource, Globs};

/// What the package is called that depends on the crate.
pub(super) const FETCH: &str = "everbench-fetch";
/// What cargo says before the versions that there are, when none of them is meant.
pub(super) const CANDIDATES: &str = "candidate versions found";
/// What cargo writes beside an unpacked crate.
const CHECKSUMS: &str = ".cargo-checksum.json";

/// How cargo is run.
#[derive(Clone, Debug)]
pub struct Fetcher {
    /// The program, looked up in `PATH` when it has no `/`.
    pub cargo: PathBuf,
    /// Environment beyond this process's own.
    pub env: Vec<(OsString, OsString)>,
}

impl Default for Fetcher {
    fn default() -> Self {
        Fetcher {
            cargo: PathBuf::from("cargo"),
            env: Vec::new(),
        }
    }
}

/// Why a crate could not be had.
#[derive(Debug, thiserror::Error)]
pub enum CrateError {
    /// There is no cargo.
    #[error("cannot run `{}`: {error}; cargo is needed to fetch crates", cargo.display())]
    NoCargo {
        /// What was run.
        cargo: PathBuf,
        /// Why it did not.
        error: io::Error,
    },
    /// The registry was not reached.
    #[error("cannot reach the crate registry for {krate}: {said}; try again when it answers")]
    Network {
        /// Name and version.
        krate: String,
        /// Cargo's words.
        said: String,
    },
    /// The registry has no crate of that name.
    #[error("there is no crate `{name}`; check `crate` in the subject's manifest")]
    NoSuchCrate {
        /// The name.
        name: String,
    },
    /// The crate has no such version, or it was withdrawn.
    #[error("crate `{name}` has no version {version} to be had ({said}); check `version`")]
    NoSuchVersion {
        /// The crate.
        name: String,
        /// The version asked for.
        version: String,
        /// Cargo's words.
        said: String,
    },
    /// The registry's crate is not the one the manifest pins.
    #[error(
        "{krate} has checksum {found}, but the subject's manifest says {expected} (or \
         everbench.lock, of a version that is followed): either that is wrong or this is not the crate \
         that was meant"
    )]
    Checksum {
        /// Name and version.
        krate: String,
        /// The manifest's.
        expected: String,
        /// The registry's.
        found: String,
    },
    /// An unpacked file differs from cargo's list, is missing from it, or is missing.
    #[error("{krate}: file {path} {what}; remove the scratch directory and try again")]
    File {
        /// Name and version.
        krate: String,
        /// The file.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Cargo failed for another reason, or left something unexpected.
    #[error("cargo could not fetch {krate}: {said}")]
    Cargo {
        /// Name and version.
        krate: String,
        /// Its words, or what was unexpected.
        said: String,
    },
    /// The unpacked crate could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The crate has no such directory, or a link in it leaves `path-inside`.
    #[error("{krate}: {why}")]
    Refused {
        /// Name and version.
        krate: String,
        /// What is wrong.
        why: Refused,
    },
    /// The scratch directory could not be used.
    #[error("cannot use the scratch directory {}: {error}", path.display())]
    Scratch {
        /// It, or what was to be written there.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A `Cargo.lock`, as far as it is of use here.
#[derive(Deserialize)]
pub(super) struct Lock {
    #[serde(default)]
    pub(super) package: Vec<Locked>,
}

/// A package of it.
#[derive(Deserialize)]
pub(super) struct Locked {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) checksum: Option<String>,
    #[serde(default)]
    pub(super) dependencies: Vec<String>,
}

#[derive(Deserialize)]
struct Checksums {
    files: BTreeMap<String, String>,
    package: Option<String>,
}

impl Fetcher {
    /// The tree of `source`, verified. Uses what cargo has already downloaded, and the network
    /// only when that is not enough. `scratch` is for this call alone; created if absent.
    pub fn fetch(&self, source: &CrateSource, scratch: &Path) -> Result<Tree, CrateError> {
        let krate = format!("{} {}", source.name, source.version);
        self.vendor(source, &krate, scratch)?;
        check_lock(source, &krate, scratch)?;
        let unpacked = unpacked(source, scratch);
        let none = Globs::new(Vec::new()).map_err(|(_, said)| CrateError::Cargo {
            krate: krate.clone(),
            said,
        })?;
        let tree = read_directory(&unpacked, &none, &Limits::default())?;
        check_files(source, &krate, &tree)?;
        part(source, &krate, tree)
    }

    /// Unpacks the crate and what it depends on below `scratch`.
    fn vendor(&self, source: &CrateSource, krate: &str, scratch: &Path) -> Result<(), CrateError> {
        let exact = format!("={}", source.version);
        prepare(&source.name, &exact, scratch)?;
        // What was downloaded before is as good, and needs no network.
        // A registry that stands for the usual one on this machine does so here too.
        let vendor = [
            "vendor",
            "--versioned-dirs",
            "--respect-source-config",
            "vendor",
        ];
        let offline = self.cargo(scratch, &[&vendor[..], &["--offline"]].concat())?;
        if offline.status.success() {
            return Ok(());
        }
        prepare(&source.name, &exact, scratch)?;
        let online = self.cargo(scratch, &vendor)?;
        if online.status.success() {
            return Ok(());
        }
        Err(explain(source, krate, &online))
    }

    /// Runs cargo in `scratch`.
    pub(super) fn cargo(&self, scratch: &Path, args: &[&str]) -> Result<Output, CrateError> {
        let mut command = Command::new(&self.cargo);
        command
            .args(args)
            .args(["--quiet", "--color", "never"])
            .current_dir(scratch)
            // Which compiler of Rust is here does not matter: nothing of the crate is built.
            .env("CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS", "allow")
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null());
        command.output().map_err(|error| CrateError::NoCargo {
            cargo: self.cargo.clone(),
            error,
        })
    }
}

/// Where cargo unpacks the crate.
fn unpacked(source: &CrateSource, scratch: &Path) -> PathBuf {
    let folder = format!("{}-{}", source.name, source.version);
    scratch.join("vendor").join(folder)
}

/// An empty package that depends on the crate, at what the requirement says. It is a workspace of its
/// own, so that no manifest above the scratch directory takes part.
pub(super) fn prepare(name: &str, requirement: &str, scratch: &Path) -> Result<(), CrateError> {
    let at = |path: PathBuf| move |error| CrateError::Scratch { path, error };
    let manifest = format!(
        "[workspace]\n\n[package]\nname = \"{FETCH}\"\nversion = \"0.0.0\"\n\
         edition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n[dependencies]\n\
         fetched = {{ package = \"{name}\", version = \"{requirement}\", default-features = false }}\n"
    );
    fs::create_dir_all(scratch).map_err(at(scratch.to_path_buf()))?;
    for (name, text) in [("Cargo.toml", manifest.as_str()), ("lib.rs", "")] {
        let path = scratch.join(name);
        fs::write(&path, text).map_err(at(path))?;
    }
    for stale in ["Cargo.lock", "vendor"] {
        let path = scratch.join(stale);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(path)(e)),
            _ => {}
        }
    }
    Ok(())
}

/// Why cargo failed, from its words.
pub(super) fn explain(source: &CrateSource, krate: &str, output: &Output) -> CrateError {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let lines = || said.lines().map(str::trim).filter(|l| !l.is_empty());
    let line = |part: &str| lines().find(|l| l.contains(part)).map(str::to_string);
    let has = |parts: &[&str]| parts.iter().any(|p| said.contains(p));
    if let Some(said) = line("using offline mode") {
        let krate = krate.to_string();
        return CrateError::Network { krate, said };
    }
    if let Some(said) = line(CANDIDATES).or_else(|| line("is yanked")) {
        return CrateError::NoSuchVersion {
            name: source.name.clone(),
            version: source.version.clone(),
            said,
        };
    }
    if has(&["no matching package named"]) {
        return CrateError::NoSuchCrate {
            name: source.name.clone(),
        };
    }
    let network = [
        "failed to download",
        "download of",
        "network",
        "Could not resolve",
        "Could not connect",
        "Couldn't connect",
        "timed out",
        "Timeout",
        "failed to query replaced source",
    ];
    // Cargo tells causes from the outermost in: the last line is the reason.
    let last = lines().next_back().unwrap_or("it said nothing").to_string();
    if has(&network) {
        return CrateError::Network {
            krate: krate.to_string(),
            said: last,
        };
    }
    let krate = krate.to_string();
    let said = match said {
        "" => format!("it said nothing ({})", output.status),
        said => said.to_string(),
    };
    CrateError::Cargo { krate, said }
}

/// The registry's checksum, which cargo checked the archive against, must be the manifest's.
fn check_lock(source: &CrateSource, krate: &str, scratch: &Path) -> Result<(), CrateError> {
    let path = scratch.join("Cargo.lock");
    let unexpected = |said: String| CrateError::Cargo {
        krate: krate.to_string(),
        said,
    };
    let text = fs::read_to_string(&path).map_err(|error| CrateError::Scratch { path, error })?;
    let lock: Lock =
        toml::from_str(&text).map_err(|e| unexpected(format!("its lock file is odd: {e}")))?;
    let ours = |p: &&Locked| p.name == source.name && p.version == source.version;
    let found = lock.package.iter().find(ours);
    match found.and_then(|p| p.checksum.as_ref()) {
        Some(found) if *found == source.checksum => Ok(()),
        Some(found) => Err(CrateError::Checksum {
            krate: krate.to_string(),
            expected: source.checksum.clone(),
            found: found.clone(),
        }),
        None => Err(unexpected("its lock file has no checksum for it".into())),
    }
}

/// Every file must be on cargo's list with its SHA-256, and every file on the list must be there.
fn check_files(source: &CrateSource, krate: &str, tree: &Tree) -> Result<(), CrateError> {
    let file = |path: &str, what| CrateError::File {
        krate: krate.to_string(),
        path: path.to_string(),
        what,
    };
    let list = tree
        .bytes(CHECKSUMS)
        .ok_or_else(|| file(CHECKSUMS, "is missing"))?;
    let list: Checksums =
        serde_json::from_slice(list).map_err(|_| file(CHECKSUMS, "is not a list of checksums"))?;
    if list.package.as_ref() != Some(&source.checksum) {
        return Err(file(CHECKSUMS, "is of another crate"));
    }
    if let Some(path) = tree.snapshot.links.keys().next() {
        return Err(file(path, "is a link, which no packed crate contains"));
    }
    for path in tree.snapshot.files.keys().filter(|p| *p != CHECKSUMS) {
        let expected = list
            .files
            .get(path)
            .ok_or_else(|| file(path, "is not on cargo's list"))?;
        let bytes = tree.bytes(path).ok_or_else(|| file(path, "is missing"))?;
        if hex(&Sha256::digest(bytes)) != *expected {
            return Err(file(path, "differs from cargo's list"));
        }
    }
    let missing = |p: &&String| !tree.snapshot.files.contains_key(*p);
    match list.files.keys().find(missing) {
        Some(path) => Err(file(path, "is missing")),
        None => Ok(()),
    }
}

/// The part of the crate that is the subject's tree.
fn part(source: &CrateSource, krate: &str, mut tree: Tree) -> Result<Tree, CrateError> {
    tree.snapshot.files.remove(CHECKSUMS);
    tree.forget_unused();
    inside(tree, source.path_inside.as_deref()).map_err(|why| CrateError::Refused {
        krate: krate.to_string(),
        why,
    })
}
