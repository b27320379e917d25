//! `debian`: a source package, by the machine's own apt sources, in private state and cache folders
//! and as whatever user this is. Apt checks every file against the signed index; `dpkg-source`
//! unpacks and applies the package's patches. Nothing of the package is built or run.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use super::apt::{Derived, Record, records};
use super::collect::{Refused, inside};
use super::directory::{Limits, ReadError, read_directory};
use super::download::sha256;
use super::snapshot::Tree;
use crate::subject::{DebianSource, Globs};

/// Where `dpkg-source` notes which patches it applied; nothing of the source.
const QUILT: &str = ".pc";
/// The formats that are plain archives and patches. Others run version control systems.
const FORMATS: [&str; 3] = ["1.0", "3.0 (native)", "3.0 (quilt)"];

/// Apt locks its folders; a second command would fail instead of waiting.
pub(super) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How apt is run.
#[derive(Clone, Debug)]
pub struct Apt {
    /// The folder of its state and cache; created if absent.
    pub private: PathBuf,
    /// Environment beyond this process's own.
    pub env: Vec<(OsString, OsString)>,
}

/// Why a source package could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DebianError {
    /// Not a Debian system.
    #[error(
        "cannot run `{program}`: {error}; source packages come by apt, which only Debian and its \
         relatives have. Elsewhere use `tarball` or `git`"
    )]
    NoApt {
        /// What was run.
        program: &'static str,
        /// Why it did not.
        error: io::Error,
    },
    /// The package that unpacks source packages is not installed.
    #[error("cannot run `dpkg-source`: {0}; install it: `apt-get install dpkg-dev`")]
    NoDpkgSource(io::Error),
    /// No archive is configured.
    #[error("no apt source is configured in {0}; add the distribution's own")]
    NoSources(String),
    /// The archive was not reached, or is being updated.
    #[error("cannot fetch source package {package}: {said}; try again later")]
    Network {
        /// Name and version.
        package: String,
        /// Apt's words.
        said: String,
    },
    /// No archive has it.
    #[error(
        "there is no source package `{name}` in this machine's apt sources; check `debian` in the subject's manifest{said}"
    )]
    NoSuchPackage {
        /// The name.
        name: String,
        /// What apt complained about, if it did.
        said: String,
    },
    /// The version is not on offer, or none was given.
    #[error("source package `{name}` {asked}; on offer: {offered}")]
    NoSuchVersion {
        /// The name.
        name: String,
        /// What was asked for.
        asked: String,
        /// The versions that apt's index has.
        offered: String,
    },
    /// The index still lists the version, the archive has it no more.
    #[error(
        "{package} is listed, but no longer served ({said}); {}",
        others(offered)
    )]
    Gone {
        /// Name and version.
        package: String,
        /// Apt's words.
        said: String,
        /// The other versions that apt's index has.
        offered: String,
    },
    /// The package is not the one the manifest pins.
    #[error(
        "the .dsc file of {package} has SHA-256 {found}, but the subject's manifest says \
         {expected} (or everbench.lock, of a version that is followed): either that is wrong or this is \
         another archive's package"
    )]
    Checksum {
        /// Name and version.
        package: String,
        /// The manifest's.
        expected: String,
        /// The file's.
        found: String,
    },
    /// The package's format cannot be used like this.
    #[error("{package} is of format {format}{why}")]
    Format {
        /// Name and version.
        package: String,
        /// Its format.
        format: String,
        /// Why that does not do.
        why: &'static str,
    },
    /// A program failed for another reason.
    #[error("{program} failed on {package}: {said}")]
    Failed {
        /// Which.
        program: &'static str,
        /// Name and version.
        package: String,
        /// Its words.
        said: String,
    },
    /// The unpacked package could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The package is no source tree.
    #[error("{package}: {why}")]
    Refused {
        /// Name and version.
        package: String,
        /// What is wrong.
        why: Refused,
    },
    /// A folder of our own could not be used.
    #[error("cannot use {}: {error}", path.display())]
    Folder {
        /// It.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl DebianError {
    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, DebianError::Network { .. })
    }
}

/// What apt says when it did not get through.
pub(super) const NETWORK: [&str; 9] = [
    "Could not resolve",
    "Temporary failure",
    "Could not connect",
    "Unable to connect",
    "Connection failed",
    "Connection timed out",
    "Network is unreachable",
    "Hash Sum mismatch",
    "File has unexpected size",
];

impl Apt {
    /// The machine's apt, with state below the private folder of a project.
    pub fn new(private: &Path) -> Apt {
        Apt {
            private: private.join("apt"),
            env: Vec::new(),
        }
    }

    /// The tree of `source`. `scratch` is a directory for this call alone.
    pub fn fetch(&self, source: &DebianSource, scratch: &Path) -> Result<Tree, DebianError> {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let version = source.version.as_deref();
        let package = format!("{} {}", source.name, version.unwrap_or("(no version)"));
        self.check_dpkg_source()?;
        let machine = self.prepare()?;
        let record = self.find(&machine, source, &package)?;
        if !FORMATS.contains(&record.format.as_str()) {
            return Err(DebianError::Format {
                package,
                format: record.format,
                why: ", which is not unpacked: it is not made of archives and patches",
            });
        }
        if record.format == "1.0" && !source.patched {
            return Err(DebianError::Format {
                package,
                format: record.format,
                why: ", whose patches are one with the packaging; leave out `patched = false`",
            });
        }
        let files = scratch.join("files");
        fs::create_dir_all(&files).map_err(folder(&files))?;
        self.download(&machine, source, &record, &package, &files)?;
        self.unpack(source, &package, &files, &scratch.join("tree"))
    }

    fn check_dpkg_source(&self) -> Result<(), DebianError> {
        let mut command = Command::new("dpkg-source");
        command.arg("--version").envs(self.env.iter().cloned());
        match command.stdin(Stdio::null()).output() {
            Ok(_) => Ok(()),
            // Where there is no apt either, that is what to say.
            Err(error) => match self.apt("apt-get").arg("--version").output() {
                Ok(_) => Err(DebianError::NoDpkgSource(error)),
                Err(error) => Err(DebianError::NoApt {
                    program: "apt-get",
                    error,
                }),
            },
        }
    }

    pub(super) fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("LC_ALL", "C")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Writes the private configuration and gives its path.
    pub(super) fn prepare(&self) -> Result<PathBuf, DebianError> {
        fs::create_dir_all(&self.private).map_err(folder(&self.private))?;
        let private = self.private.canonicalize().map_err(folder(&self.private))?;
        for name in ["state/lists/partial", "cache/archives/partial", "parts"] {
            let path = private.join(name);
            fs::create_dir_all(&path).map_err(folder(&path))?;
        }
        let derived = self.derive()?;
        let conf = private.join("apt.conf");
        let texts = [
            (
                private.join("sources.list"),
                derived.lines.join("\n") + "\n",
            ),
            (
                private.join("parts/derived.sources"),
                derived.stanzas.join("\n"),
            ),
            (conf.clone(), configuration(&private)),
        ];
        for (path, text) in texts {
            fs::write(&path, text).map_err(folder(&path))?;
        }
        Ok(conf)
    }

    /// The machine's sources, wherever its configuration has them.
    fn derive(&self) -> Result<Derived, DebianError> {
        let names = [
            "LIST",
            "Dir::Etc::sourcelist/f",
            "PARTS",
            "Dir::Etc::sourceparts/d",
        ];
        let output = self.apt("apt-config").arg("shell").args(names).output();
        let output = output.map_err(|error| DebianError::NoApt {
            program: "apt-config",
            error,
        })?;
        let said = String::from_utf8_lossy(&output.stdout);
        let value = |name: &str| {
            let line = said.lines().find_map(|l| l.strip_prefix(name))?;
            Some(PathBuf::from(line.trim_matches('\'').replace("'\\''", "'")))
        };
        let list = value("LIST=").unwrap_or_else(|| "/etc/apt/sources.list".into());
        let parts = value("PARTS=").unwrap_or_else(|| "/etc/apt/sources.list.d".into());
        let mut files = vec![list.clone()];
        if let Ok(entries) = fs::read_dir(&parts) {
            let mut names: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
            names.sort();
            files.extend(names);
        }
        let mut derived = Derived::default();
        for path in files {
            let kind = path
                .extension()
                .and_then(|e| e.to_str())
                .unwrap_or_default();
            if !matches!(kind, "list" | "sources") {
                continue;
            }
            let text = match fs::read(&path) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(DebianError::Folder { path, error }),
            };
            match kind {
                "list" => derived.add_list(&text),
                _ => derived.add_sources(&text),
            }
        }
        if derived.is_empty() {
            let places = format!("{} and {}", list.display(), parts.display());
            return Err(DebianError::NoSources(places));
        }
        Ok(derived)
    }

    /// The record of the version in apt's index, which is fetched anew if it does not have it.
    fn find(
        &self,
        conf: &Path,
        source: &DebianSource,
        package: &str,
    ) -> Result<Record, DebianError> {
        let ours = |r: &&Record| Some(r.version.as_str()) == source.version.as_deref();
        let known = self.records(conf, &source.name, package)?;
        if let Some(record) = known.iter().find(ours) {
            return Ok(record.clone());
        }
        let updated = self.update(conf)?;
        let known = self.records(conf, &source.name, package)?;
        if let Some(record) = known.iter().find(ours) {
            return Ok(record.clone());
        }
        // Apt goes on without an archive that it did not reach, which may be the one.
        if let (Some(said), Some(_)) = (complaint(&updated, &NETWORK), &source.version) {
            return Err(DebianError::Network {
                package: package.to_string(),
                said,
            });
        }
        if known.is_empty() {
            let said = complaint(&updated, &["E: ", "Failed to fetch"]);
            return Err(DebianError::NoSuchPackage {
                name: source.name.clone(),
                said: said.map(|s| format!(". Apt says: {s}")).unwrap_or_default(),
            });
        }
        let asked = match &source.version {
            Some(version) => format!("is not to be had in version {version}; check `version`"),
            None => "needs an exact `version` in the subject's manifest".to_string(),
        };
        Err(DebianError::NoSuchVersion {
            name: source.name.clone(),
            asked,
            offered: offered(&known),
        })
    }

    pub(super) fn update(&self, conf: &Path) -> Result<Output, DebianError> {
        let mut command = self.apt("apt-get");
        command.arg("-c").arg(conf).args(["-q", "update"]);
        command.output().map_err(|error| DebianError::NoApt {
            program: "apt-get",
            error,
        })
    }

    pub(super) fn records(
        &self,
        conf: &Path,
        name: &str,
        package: &str,
    ) -> Result<Vec<Record>, DebianError> {
        let mut command = self.apt("apt-cache");
        command.arg("-c").arg(conf);
        command.args(["-q", "showsrc", "--only-source", name]);
        let output = command.output().map_err(|error| DebianError::NoApt {
            program: "apt-cache",
            error,
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        // Before the first update, and for a name that no archive has, it fails: that is "none".
        let none = ["No packages found", "Unable to locate", "You must put some"];
        if !output.status.success() && !none.iter().any(|n| said.contains(n)) {
            return Err(failed("apt-cache", package, &said));
        }
        Ok(records(&String::from_utf8_lossy(&output.stdout), name))
    }

    fn download(
        &self,
        conf: &Path,
        source: &DebianSource,
        record: &Record,
        package: &str,
        files: &Path,
    ) -> Result<(), DebianError> {
        let wanted = format!("{}={}", source.name, record.version);
        let run = || {
            let mut command = self.apt("apt-get");
            command.arg("-c").arg(conf).current_dir(files);
            command.args(["-q", "source", "--only-source", "--download-only", &wanted]);
            command.output().map_err(|error| DebianError::NoApt {
                program: "apt-get",
                error,
            })
        };
        let mut output = run()?;
        if !output.status.success() {
            // The index may be older than the archive.
            self.update(conf)?;
            output = run()?;
        }
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let line = |words: &[&str]| {
            let mut lines = said.lines();
            let found = lines.find(|l| words.iter().any(|w| l.contains(w)));
            found.map(|l| l.trim().to_string())
        };
        if let Some(said) = line(&["404 ", "410 ", "File not found"]) {
            let mut known = self.records(conf, &source.name, package)?;
            known.retain(|other| other.version != record.version);
            return Err(DebianError::Gone {
                package: package.to_string(),
                said,
                offered: offered(&known),
            });
        }
        if let Some(said) = line(&NETWORK) {
            return Err(DebianError::Network {
                package: package.to_string(),
                said,
            });
        }
        Err(failed("apt-get", package, &said))
    }

    fn unpack(
        &self,
        source: &DebianSource,
        package: &str,
        files: &Path,
        to: &Path,
    ) -> Result<Tree, DebianError> {
        let entries = fs::read_dir(files).map_err(folder(files))?;
        let dsc = entries
            .flatten()
            .map(|e| e.path())
            .find(|p| p.extension().is_some_and(|e| e == "dsc"))
            .ok_or_else(|| failed("apt-get", package, "there is no .dsc file"))?;
        if let Some(expected) = &source.sha256 {
            let found = sha256(&fs::read(&dsc).map_err(folder(&dsc))?);
            if found != *expected {
                return Err(DebianError::Checksum {
                    package: package.to_string(),
                    expected: expected.clone(),
                    found,
                });
            }
        }
        let mut command = Command::new("dpkg-source");
        command
            .env("LC_ALL", "C")
            // A package may have a series of patches for each distribution.
            .env("DEB_VENDOR", "debian")
            .env_remove("TAR_OPTIONS")
            .envs(self.env.iter().cloned())
            .current_dir(files)
            .stdin(Stdio::null());
        if !source.patched {
            command.arg("--skip-patches");
        }
        let output = command.arg("--extract").arg(&dsc).arg(to).output();
        let output = output.map_err(DebianError::NoDpkgSource)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed("dpkg-source", package, &said));
        }
        let ignore = Globs::new(vec![QUILT.to_string()])
            .map_err(|(_, said)| failed("everbench", package, &said))?;
        let tree = read_directory(to, &ignore, &Limits::default())?;
        inside(tree, source.path_inside.as_deref()).map_err(|why| DebianError::Refused {
            package: package.to_string(),
            why,
        })
    }
}

/// The first line with one of these words of what apt complained about.
pub(super) fn complaint(output: &Output, words: &[&str]) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines();
    let found = lines.find(|l| words.iter().any(|w| l.contains(w)));
    found.map(|l| l.trim_start_matches(['W', 'E', ':', ' ']).to_string())
}

/// Read by apt after all other configuration, which stays in force for proxies and the like. What
/// the machine runs after an update is for its own package lists; as root, apt would not get into
/// folders that are closed to its own user.
fn configuration(private: &Path) -> String {
    let quoted = |path: PathBuf| path.display().to_string().replace('"', "%22");
    let mut text = String::new();
    for hook in ["Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"] {
        text.push_str(&format!("#clear APT::Update::{hook};\n"));
    }
    for (name, path) in [
        ("Dir::State", "state"),
        ("Dir::State::lists", "state/lists"),
        ("Dir::Cache", "cache"),
        ("Dir::Cache::archives", "cache/archives"),
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::Etc::sourceparts", "parts"),
    ] {
        text.push_str(&format!("{name} \"{}\";\n", quoted(private.join(path))));
    }
    text.push_str(
        "APT::Sandbox::User \"root\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"1\";\n\
         Acquire::AllowInsecureRepositories \"false\";\n\
         Acquire::AllowWeakRepositories \"false\";\n\
         APT::Get::AllowUnauthenticated \"false\";\n",
    );
    text
}

/// What to take in place of a version that is gone.
fn others(offered: &str) -> String {
    match offered {
        NO_VERSION => "no other version is on offer: name a `tarball` or a `git` commit".into(),
        versions => format!("take one of these: {versions}"),
    }
}

/// Said in place of versions when there is none.
const NO_VERSION: &str = "none";

pub(super) fn offered(known: &[Record]) -> String {
    let mut versions: Vec<&str> = known.iter().map(|r| r.version.as_str()).collect();
    versions.dedup();
    match versions[..] {
        [] => NO_VERSION.into(),
        _ => versions.join(", "),
    }
}

pub(super) fn failed(program: &'static str, package: &str, said: &str) -> DebianError {
    let said: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    // The last lines have the reason.
    let last = said[said.len().saturating_sub(3)..].join("; ");
    DebianError::Failed {
        program,
        package: package.to_string(),
        said: match last.as_str() {
            "" => "it said nothing".into(),
            last => last.into(),
        },
    }
}

fn folder(path: &Path) -> impl FnOnce(io::Error) -> DebianError + use<> {
    let path = path.to_path_buf();
    move |error| DebianError::Folder { path, error }
}
