//! `sdist`: a Python source distribution. Pip itself would run code of the package even for a
//! download, to learn its dependencies; so pip is only asked which package index it is set to use,
//! and the file is fetched from there by its checksum. Nothing of the package is run.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use regex::Regex;
use reqwest::Url;
use serde::Deserialize;

use super::archive::{ArchiveError, Wanted, read_archive};
use super::directory::Limits;
use super::download::{self, DownloadError};
use super::snapshot::Tree;
use crate::subject::SdistSource;

/// What an index may answer with, in the order of preference.
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, \
                      application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";
/// How the names of source distributions end.
const ENDS: [&str; 6] = [".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip"];

/// Where to look for source distributions.
#[derive(Clone, Debug)]
pub struct Index {
    /// The commands that are pip, tried in turn.
    pub pip: Vec<Vec<String>>,
    /// Environment beyond this process's own.
    pub env: Vec<(OsString, OsString)>,
}

impl Default for Index {
    fn default() -> Self {
        let pip = ["pip", "pip3", "python3 -m pip"];
        let words = |c: &&str| c.split(' ').map(str::to_string).collect();
        Index {
            pip: pip.iter().map(words).collect(),
            env: Vec::new(),
        }
    }
}

/// Why a source distribution could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SdistError {
    /// There is no pip to ask.
    #[error(
        "cannot run pip ({0}); it is asked which package index to use, and from version 21.2 on which \
         of several versions is the newest. Install it (on Debian: `apt-get install python3-pip`)"
    )]
    NoPip(String),
    /// Pip names no index that is understood.
    #[error(
        "pip's package index {0:?} cannot be used: an http or https URL is needed; see `pip config list`"
    )]
    Index(String),
    /// The index has no such project.
    #[error("the package index has no project `{0}`; check `sdist` in the subject's manifest")]
    NoSuchProject(String),
    /// The project has no source distribution of that version.
    #[error(
        "`{name}` has no source distribution of version {version}; check `version`. It has those of: {offered}"
    )]
    NoSuchVersion {
        /// The project.
        name: String,
        /// The version asked for.
        version: String,
        /// Those that there are.
        offered: String,
    },
    /// The index or the file has another checksum.
    #[error(
        "{file} has SHA-256 {found}, but the subject's manifest says {expected} (or \
         everbench.lock, of a version that is followed): either that is wrong or this is not the file \
         that was meant"
    )]
    Checksum {
        /// The file.
        file: String,
        /// The manifest's.
        expected: String,
        /// The one found.
        found: String,
    },
    /// The index's answer is not understood.
    #[error("the package index answers {url} with something else than a list of files: {said}")]
    Odd {
        /// What was asked for.
        url: String,
        /// What is wrong.
        said: String,
    },
    /// The scratch directory could not be used.
    #[error("cannot use the scratch directory {0}: {1}")]
    Scratch(String, io::Error),
    /// Over the network.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// It is no source tree.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl SdistError {
    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, SdistError::Download(e) if e.is_transient())
    }
}

/// A file that the index lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    url: String,
    pub(super) sha256: Option<String>,
    /// Whether it was withdrawn: it is there for those who name its version.
    pub(super) yanked: bool,
}

/// What the index has of a project.
pub(super) struct Listing {
    /// Where it said so.
    url: Url,
    pub(super) files: Vec<Listed>,
}

impl Listing {
    /// Where a file of it is.
    pub(super) fn file(&self, file: &Listed) -> Result<Url, SdistError> {
        self.url.join(&file.url).map_err(|e| SdistError::Odd {
            url: self.url.to_string(),
            said: e.to_string(),
        })
    }
}

impl Index {
    /// The tree of `source`.
    pub fn fetch(&self, source: &SdistSource) -> Result<Tree, SdistError> {
        let page = self.page(&source.name)?;
        let file = choose(source, &page.files)?;
        let mismatch = |found: &str| SdistError::Checksum {
            file: file.name.clone(),
            expected: source.sha256.clone(),
            found: found.to_string(),
        };
        if let Some(found) = file.sha256.as_ref().filter(|f| **f != source.sha256) {
            return Err(mismatch(found));
        }
        let bytes = download::get(page.file(file)?.as_str(), "*/*")?.bytes;
        let found = download::sha256(&bytes);
        if found != source.sha256 {
            return Err(mismatch(&found));
        }
        let wanted = Wanted {
            archive_inside: source.archive_inside.as_deref(),
            path_inside: source.path_inside.as_deref(),
        };
        Ok(read_archive(&file.name, &bytes, wanted, Limits::default())?)
    }

    /// What the index lists of a project.
    pub(super) fn page(&self, name: &str) -> Result<Listing, SdistError> {
        let index = self.url()?;
        let page = format!("{}/{}/", index.trim_end_matches('/'), normal(name));
        let answer = download::get(&page, ACCEPT).map_err(|e| match e.is_absent() {
            true => SdistError::NoSuchProject(name.to_string()),
            false => e.into(),
        })?;
        let text = String::from_utf8_lossy(&answer.bytes);
        let files = if answer.content_type.contains("json") {
            json(&text).map_err(|said| SdistError::Odd {
                url: answer.url.to_string(),
                said,
            })?
        } else {
            html(&text)
        };
        Ok(Listing {
            url: answer.url,
            files,
        })
    }

    /// The index that pip is set to use: its environment and files say so, else its help has the
    /// default. The help alone would do, but it hides passwords.
    pub(super) fn url(&self) -> Result<String, SdistError> {
        let listed = self.pip(&["config", "list"], &[])?;
        let url = match configured(&listed) {
            Some(url) => url,
            None => {
                let help = self.pip(&["download", "--help"], &[])?;
                let pattern = Regex::new(r"--index-url <url>\s[^()]*\(default\s+([^\s)]+)\)")
                    .expect("the pattern is well-formed");
                let found = pattern.captures(&help);
                found.map(|c| c[1].to_string()).unwrap_or_default()
            }
        };
        match Url::parse(&url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => Ok(url),
            _ => Err(SdistError::Index(url)),
        }
    }

    /// What pip prints; `env` stands over all other environment.
    pub(super) fn pip(&self, args: &[&str], env: &[(&str, &str)]) -> Result<String, SdistError> {
        let mut said = String::new();
        for pip in &self.pip {
            let [program, words @ ..] = &pip[..] else {
                continue;
            };
            let mut command = Command::new(PathBuf::from(program));
            command
                .args(words)
                .args(["--no-input", "--disable-pip-version-check"])
                .args(args)
                // A URL must not be broken into lines.
                .env("COLUMNS", "2000")
                .env("LC_ALL", "C.UTF-8")
                .envs(self.env.iter().cloned())
                .envs(env.iter().copied())
                .stdin(Stdio::null());
            match command.output() {
                Ok(output) if output.status.success() => {
                    return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
                }
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stderr);
                    let last = text.lines().next_back().unwrap_or("it said nothing");
                    said = last.to_string();
                }
                Err(e) if said.is_empty() || e.kind() != io::ErrorKind::NotFound => {
                    said = e.to_string();
                }
                Err(_) => {}
            }
        }
        Err(SdistError::NoPip(said))
    }
}

/// The index among the lines of `pip config list`, by the order in which they count.
fn configured(listed: &str) -> Option<String> {
    let value = |key: &str| {
        let line = listed.lines().find_map(|l| l.strip_prefix(key))?;
        Some(
            line.trim_start_matches('=')
                .trim_matches(['\'', '"'])
                .to_string(),
        )
    };
    [":env:.index-url", "download.index-url", "global.index-url"]
        .iter()
        .find_map(|key| value(key))
}

/// A project's name as indexes write it: separators are all alike, and case does not count.
pub(super) fn normal(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// The version in a source distribution's file name; `None` if it is none of the project.
pub(super) fn version_in<'a>(file: &'a str, project: &str) -> Option<&'a str> {
    let stem = ENDS.iter().find_map(|end| file.strip_suffix(end))?;
    // Names and, in old files, versions may contain dashes.
    let mut dashes = stem.match_indices('-').map(|(at, _)| at);
    let at = dashes.find(|at| normal(&stem[..*at]) == project)?;
    Some(&stem[at + 1..])
}

fn choose<'a>(source: &SdistSource, files: &'a [Listed]) -> Result<&'a Listed, SdistError> {
    let project = normal(&source.name);
    let versions: Vec<(&str, &Listed)> = files
        .iter()
        .filter_map(|f| Some((version_in(&f.name, &project)?, f)))
        .collect();
    let asked = || versions.iter().filter(|(v, _)| *v == source.version);
    // A version may have been packed in several ways.
    let exact = asked().find(|(_, f)| f.sha256.as_ref() == Some(&source.sha256));
    if let Some((_, file)) = exact.or_else(|| asked().next()) {
        return Ok(file);
    }
    let versions: Vec<&str> = versions.iter().map(|(v, _)| *v).collect();
    Err(SdistError::NoSuchVersion {
        name: source.name.clone(),
        version: source.version.clone(),
        offered: offered(files, &versions),
    })
}

/// The versions of which there are source distributions, for a message.
pub(super) fn offered(files: &[Listed], versions: &[&str]) -> String {
    let mut versions = versions.to_vec();
    versions.dedup();
    match versions[..] {
        [] if files.is_empty() => "none".into(),
        [] => format!(
            "none; its files ({}) are built packages or withdrawn",
            files.len()
        ),
        _ => versions.join(", "),
    }
}

#[derive(Deserialize)]
struct Page {
    files: Vec<PageFile>,
}

#[derive(Deserialize)]
struct PageFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
    /// A reason, or whether it is so.
    #[serde(default)]
    yanked: serde_json::Value,
}

fn json(text: &str) -> Result<Vec<Listed>, String> {
    let page: Page = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let listed = |mut f: PageFile| Listed {
        name: f.filename,
        url: f.url,
        sha256: f.hashes.remove("sha256"),
        yanked: match f.yanked {
            serde_json::Value::Bool(yanked) => yanked,
            serde_json::Value::String(reason) => !reason.is_empty(),
            _ => false,
        },
    };
    Ok(page.files.into_iter().map(listed).collect())
}

/// The links of a page: the text is the file's name, the fragment its checksum.
fn html(text: &str) -> Vec<Listed> {
    let pattern = Regex::new(r#"(?is)<a\s([^>]*?)href\s*=\s*["']([^"']*)["']([^>]*)>(.*?)</a>"#)
        .expect("the pattern is well-formed");
    let yanked = |attributes: &str| attributes.to_ascii_lowercase().contains("data-yanked");
    let plain = |t: &str| t.replace("&amp;", "&").trim().to_string();
    pattern
        .captures_iter(text)
        .map(|c| {
            let link = plain(&c[2]);
            let (url, fragment) = link.split_once('#').unwrap_or((&link, ""));
            Listed {
                name: plain(&c[4]),
                url: url.to_string(),
                sha256: fragment.strip_prefix("sha256=").map(str::to_string),
                yanked: yanked(&c[1]) || yanked(&c[3]),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pip_says_of_its_index_is_read_in_the_order_that_counts() {
        let listed = ":env:.cert='/x'\nglobal.index-url='http://g/simple'\n";
        assert_eq!(configured(listed).unwrap(), "http://g/simple");
        let env = format!("{listed}:env:.index-url='http://e/simple'\n");
        assert_eq!(configured(&env).unwrap(), "http://e/simple");
    }

    #[test]
    fn names_and_versions_come_apart_whatever_separators_they_have() {
        assert_eq!(normal("Foo.._Bar-baz"), "foo-bar-baz");
        assert_eq!(version_in("Foo_Bar-1.0.tar.gz", "foo-bar"), Some("1.0"));
        assert_eq!(
            version_in("foo-bar-1.0-rc1.zip", "foo-bar"),
            Some("1.0-rc1")
        );
        assert_eq!(version_in("foo-1.0.tar.gz", "foo-bar"), None);
        assert_eq!(version_in("foo_bar-1.0-py3-none-any.whl", "foo-bar"), None);
    }

    #[test]
    fn links_are_read_from_both_kinds_of_pages() {
        let page = html(
            "<a href=\"../../f/x-1.0.tar.gz#sha256=ab\" data-requires-python=\"&gt;=3\">x-1.0.tar.gz</a>\
             <A HREF='x-2.0.zip?a=1&amp;b=2' Data-Yanked=''>\n x-2.0.zip </A>",
        );
        assert_eq!([page[0].yanked, page[1].yanked], [false, true]);
        assert_eq!(page[0].url, "../../f/x-1.0.tar.gz");
        assert_eq!(page[0].sha256.as_deref(), Some("ab"));
        assert_eq!(
            (page[1].name.as_str(), page[1].url.as_str()),
            ("x-2.0.zip", "x-2.0.zip?a=1&b=2")
        );
        let page =
            json(r#"{"files":[{"filename":"x-1.0.zip","url":"u","hashes":{"sha256":"cd"}}]}"#);
        assert_eq!(page.unwrap()[0].sha256.as_deref(), Some("cd"));
        assert!(json("<html>").is_err());
    }
}
