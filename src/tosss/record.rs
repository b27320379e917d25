//! Where a CVE's fix is: readers of the formats in which that is published. Each gives [`Fix`]es
//! and, for everything that gives none, a [`Problem`]; nothing is fetched here.
//!
//! - `osv`: OSV records. - `cve5`: CVE JSON 5. - `nvd`: NVD's API 2.0. - `list`: `cve,repository,commit`.
//! - `yaml`: OSV records that are written as YAML.
//! - [`dep3`]: headers of Debian's patches. - [`url`](commit_of_url): addresses that name a commit.

mod cve5;
pub mod dep3;
mod list;
mod nvd;
mod osv;
mod url;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use list::list;
pub use url::commit_of_url;

/// What is known of a vulnerability.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Vulnerability {
    /// `CVE-2019-12111`; the record's own id where it names no CVE.
    pub id: String,
    /// `CWE-476` and so on, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cwes: Vec<String>,
    /// A CVSS vector, version 3 before others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cvss: Option<String>,
    /// The day it was published, `2019-05-15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

/// A commit that is said to fix a vulnerability.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Fix {
    /// Which vulnerability.
    pub vulnerability: Vulnerability,
    /// The repository, as it is cloned where its address tells.
    pub repository: String,
    /// The commit's id, at least seven hexadecimal digits.
    pub commit: String,
}

/// Why a record gives no fix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// Its bytes are not JSON.
    NotJson,
    /// Its bytes are not one document of YAML.
    NotYaml,
    /// It is JSON or YAML of no format that is known.
    UnknownFormat,
    /// It has no id.
    NoId,
    /// It names no commit.
    NoCommit,
    /// It was withdrawn or rejected.
    Withdrawn,
    /// Another record has this id, and comes first.
    DuplicateId,
    /// A line of a list has fewer fields than the header.
    ShortLine,
    /// An archive that is damaged, or that unpacks to more than is allowed.
    Archive,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::NotJson => "not JSON",
            Problem::NotYaml => "not YAML",
            Problem::UnknownFormat => "neither OSV, CVE JSON 5 nor NVD 2.0",
            Problem::NoId => "no id",
            Problem::NoCommit => "names no commit",
            Problem::Withdrawn => "withdrawn or rejected",
            Problem::DuplicateId => "the id is there already",
            Problem::ShortLine => "fewer fields than the header",
            Problem::Archive => "an archive that is damaged or too large",
        })
    }
}

/// What records gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The fixes, each once, in the order of the records.
    pub fixes: Vec<Fix>,
    /// Records read, whatever came of them.
    pub records: usize,
    /// What gave none: where it was (a file's name, with a line or an id) and why.
    pub problems: Vec<(String, Problem)>,
}

impl Found {
    /// How often each problem occurred.
    pub fn counts(&self) -> BTreeMap<Problem, usize> {
        let mut counts = BTreeMap::new();
        for (_, problem) in &self.problems {
            *counts.entry(*problem).or_default() += 1;
        }
        counts
    }
}

/// What one record says.
struct Record {
    vulnerability: Vulnerability,
    /// Repository and commit.
    commits: Vec<(String, String)>,
    withdrawn: bool,
}

/// Whether a file's name says that it may hold records.
pub fn is_record(name: &str) -> bool {
    name.ends_with(".json") || is_yaml(name)
}

fn is_yaml(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Reads files of OSV records, CVE JSON 5 records and answers of NVD's API 2.0, each a name and its
/// bytes. They are JSON, unless the name says that it is YAML, which holds one OSV record. Of what
/// format JSON is, is seen from its content; a list of records is several.
pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Found {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    for (name, bytes) in files {
        let value = match is_yaml(name) {
            true => yaml::record(bytes),
            false => serde_json::from_slice::<Value>(bytes).map_err(|_| Problem::NotJson),
        };
        let value = match value {
            Ok(value) => value,
            Err(problem) => {
                found.records += 1;
                found.problems.push((name.to_string(), problem));
                continue;
            }
        };
        for record in records(&value) {
            found.records += 1;
            if let Err((id, problem)) = take(record, &mut seen, &mut found.fixes) {
                let place = match id {
                    Some(id) => format!("{name}: {id}"),
                    None => name.to_string(),
                };
                found.problems.push((place, problem));
            }
        }
    }
    found
}

/// The records that a document holds.
fn records(value: &Value) -> Vec<&Value> {
    let inside = match value {
        Value::Array(all) => Some(all),
        Value::Object(o) => ["vulnerabilities", "vulns"]
            .iter()
            .find_map(|key| o.get(*key)?.as_array()),
        _ => None,
    };
    inside.map_or_else(|| vec![value], |all| all.iter().collect())
}

fn take(
    value: &Value,
    seen: &mut BTreeSet<String>,
    fixes: &mut Vec<Fix>,
) -> Result<(), (Option<String>, Problem)> {
    let nvd = value.get("cve").filter(|v| v.is_object());
    let record = if value.get("cveMetadata").is_some() {
        cve5::record(value)
    } else if let Some(cve) = nvd.or(value.get("vulnStatus").map(|_| value)) {
        nvd::record(cve)
    } else if value.get("affected").is_some() || value.get("modified").is_some() {
        osv::record(value)
    } else {
        return Err((None, Problem::UnknownFormat));
    };
    let mut record = record.ok_or((None, Problem::NoId))?;
    let id = record.vulnerability.id.clone();
    let because = |problem| Err((Some(id.clone()), problem));
    if !seen.insert(id.clone()) {
        return because(Problem::DuplicateId);
    }
    if record.withdrawn {
        return because(Problem::Withdrawn);
    }
    let mut known = BTreeSet::new();
    record.commits.retain(|c| known.insert(c.clone()));
    if record.commits.is_empty() {
        return because(Problem::NoCommit);
    }
    record.vulnerability.cwes.sort();
    record.vulnerability.cwes.dedup();
    for (repository, commit) in record.commits {
        fixes.push(Fix {
            vulnerability: record.vulnerability.clone(),
            repository,
            commit,
        });
    }
    Ok(())
}

/// The commits among references, each an address and whether it is marked as the patch. Where any is
/// marked, those that are not are of something else: a report, a test, the cause.
fn of_references<'a>(references: impl Iterator<Item = (&'a str, bool)>) -> Vec<(String, String)> {
    let found: Vec<_> = references
        .filter_map(|(url, marked)| Some((commit_of_url(url)?, marked)))
        .collect();
    let any = found.iter().any(|(_, marked)| *marked);
    let wanted = found.into_iter().filter(|(_, marked)| *marked || !any);
    wanted.map(|(commit, _)| commit).collect()
}

/// The CWE ids in a text.
fn cwe(text: &str) -> Option<String> {
    let at = text.find("CWE-")?;
    let digits: String = text[at + 4..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    (!digits.is_empty()).then(|| format!("CWE-{digits}"))
}

/// The CVE ids in a text, in upper case, each once, in order.
pub fn cves(text: &str) -> Vec<String> {
    let upper = text.to_ascii_uppercase();
    let mut found: Vec<String> = Vec::new();
    for (at, _) in upper.match_indices("CVE") {
        let rest = &upper[at + 3..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let Some(rest) = rest.strip_prefix(['-', '_', ' ']) else {
            continue;
        };
        let year = digits(rest);
        let Some(number) = rest[year..].strip_prefix(['-', '_']) else {
            continue;
        };
        let length = digits(number);
        if year == 4 && (4..=7).contains(&length) {
            let id = format!("CVE-{}-{}", &rest[..4], &number[..length]);
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found
}

/// The day in a date or time.
fn day(text: &str) -> Option<String> {
    let day = text.get(..10)?;
    let digit = |(n, c): (usize, char)| match n {
        4 | 7 => c == '-',
        _ => c.is_ascii_digit(),
    };
    day.chars().enumerate().all(digit).then(|| day.to_string())
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn list_of<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests;
