//! The list of a corpus' sources as a file: `[[family]]` tables.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::app::AppError;
use crate::subject::{
    CrateSource, DebianSource, DirectorySource, Follow, GitSource, Globs, SdistSource, Source,
    TarballSource,
};

/// A list of sources.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The entries, in order.
    pub families: Vec<Entry>,
    /// Where relative paths start.
    pub(super) dir: PathBuf,
}

/// One entry: a family, or with `each` one family for everything in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What it is called, if not as its source.
    name: Option<String>,
    /// Its upstream repository, if not the one that its own files name.
    pub url: Option<String>,
    pub(super) from: From,
}

/// Where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum From {
    Crate {
        name: String,
        version: Option<String>,
    },
    Sdist {
        name: String,
        version: Option<String>,
    },
    Debian {
        name: String,
        version: Option<String>,
    },
    Git {
        location: String,
        revision: String,
    },
    Directory(String),
    Archive {
        location: String,
        sha256: Option<String>,
    },
    Each(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    family: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: Option<String>,
    url: Option<String>,
    #[serde(rename = "crate")]
    krate: Option<String>,
    sdist: Option<String>,
    debian: Option<String>,
    git: Option<String>,
    directory: Option<String>,
    archive: Option<String>,
    each: Option<String>,
    version: Option<String>,
    revision: Option<String>,
    sha256: Option<String>,
}

impl List {
    /// Reads a list.
    ///
    /// # Errors
    /// No such file, or what is wrong in it and where.
    pub fn read(path: &Path) -> Result<List, AppError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| AppError::Input(format!("{}: {e}", path.display())))?;
        let dir = path.parent().unwrap_or(Path::new("")).to_path_buf();
        List::parse(&text, dir).map_err(|e| AppError::Input(format!("{}: {e}", path.display())))
    }

    /// A list from its text; `dir` is where relative paths start.
    pub(super) fn parse(text: &str, dir: PathBuf) -> Result<List, String> {
        let written: Written = toml::from_str(text).map_err(|e| e.to_string())?;
        let entries = written.family.into_iter().enumerate();
        let families: Result<Vec<Entry>, String> = entries
            .map(|(at, table)| {
                table
                    .entry()
                    .map_err(|e| format!("[[family]] number {}: {e}", at + 1))
            })
            .collect();
        Ok(List {
            families: families?,
            dir,
        })
    }

    /// A list of these entries; relative paths start where this process does.
    pub fn with(families: Vec<Entry>) -> List {
        List {
            families,
            dir: PathBuf::new(),
        }
    }

    /// A list of one source, as somebody names it on a command line: a folder, an archive, or
    /// `crate:NAME[=VERSION]`, `sdist:NAME[=VERSION]`, `debian:NAME[=VERSION]`, `git:LOCATION[#REVISION]`.
    pub fn of(named: &str) -> List {
        let split = |rest: &str, at: char| match rest.split_once(at) {
            Some((name, version)) => (name.to_string(), Some(version.to_string())),
            None => (rest.to_string(), None),
        };
        let from = match named.split_once(':') {
            Some((kind @ ("crate" | "sdist" | "debian"), rest)) => {
                let (name, version) = split(rest, '=');
                match kind {
                    "crate" => From::Crate { name, version },
                    "sdist" => From::Sdist { name, version },
                    _ => From::Debian { name, version },
                }
            }
            Some(("git", rest)) => {
                let (location, revision) = split(rest, '#');
                From::Git {
                    location,
                    revision: revision.unwrap_or_else(|| "HEAD".into()),
                }
            }
            _ if Path::new(named).is_file() => From::Archive {
                location: named.to_string(),
                sha256: None,
            },
            _ => From::Directory(named.to_string()),
        };
        List::with(vec![Entry {
            name: None,
            url: None,
            from,
        }])
    }
}

impl Table {
    fn entry(self) -> Result<Entry, String> {
        let (version, revision, sha256) = (self.version, self.revision, self.sha256);
        let given = [
            ("version", version.is_some()),
            ("revision", revision.is_some()),
            ("sha256", sha256.is_some()),
        ];
        let mut chosen: Vec<(From, &str)> = Vec::new();
        let named = |name: Option<String>, of: fn(String, Option<String>) -> From| {
            name.map(|name| (of(name, version.clone()), "version"))
        };
        chosen.extend(named(self.krate, |name, version| From::Crate {
            name,
            version,
        }));
        chosen.extend(named(self.sdist, |name, version| From::Sdist {
            name,
            version,
        }));
        chosen.extend(named(self.debian, |name, version| From::Debian {
            name,
            version,
        }));
        chosen.extend(self.git.map(|location| {
            let revision = revision.clone().unwrap_or_else(|| "HEAD".into());
            (From::Git { location, revision }, "revision")
        }));
        chosen.extend(self.directory.map(|path| (From::Directory(path), "")));
        chosen.extend(self.each.map(|path| (From::Each(path), "")));
        chosen.extend(self.archive.map(|location| {
            let sha256 = sha256.clone();
            (From::Archive { location, sha256 }, "sha256")
        }));
        let [(from, own)] = &chosen[..] else {
            return Err(
                "exactly one of `crate`, `sdist`, `debian`, `git`, `directory`, `archive` and `each` is needed"
                    .into(),
            );
        };
        if let Some((key, _)) = given.iter().find(|(key, is)| *is && key != own) {
            return Err(format!("`{key}` does not go with this kind of source"));
        }
        if let From::Archive { location, sha256 } = from
            && location.contains("://")
            && sha256.is_none()
        {
            return Err("an archive that is fetched needs its `sha256`".into());
        }
        if let (From::Each(_), Some(key)) = (
            from,
            self.name
                .as_ref()
                .map(|_| "name")
                .or(self.url.as_ref().map(|_| "url")),
        ) {
            return Err(format!("`{key}` does not go with `each`: there are many"));
        }
        Ok(Entry {
            name: self.name,
            url: self.url,
            from: from.clone(),
        })
    }
}

impl Entry {
    /// A commit of a clone on this machine.
    pub fn commit(name: &str, clone: &Path, id: &str) -> Entry {
        Entry {
            name: Some(name.to_string()),
            url: None,
            from: From::Git {
                location: clone.display().to_string(),
                revision: id.to_string(),
            },
        }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.from.name())
    }
}

impl From {
    pub(super) fn name(&self) -> String {
        let versioned = |name: &str, version: &Option<String>| match version {
            Some(version) => format!("{name} {version}"),
            None => name.to_string(),
        };
        match self {
            From::Crate { name, version }
            | From::Sdist { name, version }
            | From::Debian { name, version } => versioned(name, version),
            From::Git { location, .. } => location.clone(),
            From::Directory(path) | From::Each(path) => path.clone(),
            From::Archive { location, .. } => location.clone(),
        }
    }

    /// What its version or commit is noted under.
    pub(super) fn key(&self) -> String {
        match self {
            From::Crate { .. } => format!("crate {}", self.name()),
            From::Sdist { .. } => format!("sdist {}", self.name()),
            From::Debian { .. } => format!("debian {}", self.name()),
            From::Git { location, revision } => format!("git {location} {revision}"),
            From::Directory(path) | From::Each(path) => format!("directory {path}"),
            From::Archive { location, .. } => format!("archive {location}"),
        }
    }

    /// As the room of sources has it; without a version the newest is followed.
    pub(super) fn source(&self) -> Source {
        let follow = |version: &Option<String>| {
            Some(Follow {
                within: version.clone(),
                pre_releases: version.is_some(),
            })
        };
        let written = |version: &Option<String>| version.clone().unwrap_or_else(|| "latest".into());
        match self {
            From::Crate { name, version } => Source::Crate(CrateSource {
                name: name.clone(),
                version: written(version),
                follow: follow(version),
                checksum: String::new(),
                path_inside: None,
            }),
            From::Sdist { name, version } => Source::Sdist(SdistSource {
                name: name.clone(),
                version: written(version),
                follow: follow(version),
                sha256: String::new(),
                archive_inside: None,
                path_inside: None,
            }),
            From::Debian { name, version } => Source::Debian(DebianSource {
                name: name.clone(),
                version: Some(written(version)),
                follow: follow(&None).filter(|_| version.is_none()),
                sha256: None,
                patched: false,
                path_inside: None,
            }),
            From::Git { location, revision } => Source::Git(GitSource {
                url: location.clone(),
                revision: revision.clone(),
                path_inside: None,
                without_submodules: true,
            }),
            From::Directory(path) | From::Each(path) => Source::Directory(DirectorySource {
                path: path.clone(),
                ignore: Globs::default(),
            }),
            From::Archive { location, sha256 } => Source::Tarball(TarballSource {
                location: location.clone(),
                sha256: sha256.clone().unwrap_or_default(),
                archive_inside: None,
                path_inside: None,
            }),
        }
    }
}
