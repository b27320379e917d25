//! MegaVul's published JSON, read and written, so that what reads that data set reads what is mined
//! here, and the other way round. An entry is a function; those with `is_vul` have both sides.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pair::{Mined, Pair};
use super::record::Vulnerability;
use crate::lang::SnippetLanguage;

/// The fields that both published files have.
#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(default)]
    cve_id: Option<String>,
    #[serde(default)]
    cwe_ids: Vec<String>,
    #[serde(default)]
    cvss_vector: Option<String>,
    #[serde(default)]
    publish_date: Option<String>,
    #[serde(default)]
    repo_name: String,
    #[serde(default)]
    commit_hash: String,
    #[serde(default)]
    git_url: String,
    #[serde(default)]
    file_path: String,
    #[serde(default)]
    func_name: String,
    #[serde(default)]
    func_before: Option<String>,
    #[serde(default)]
    func: String,
    is_vul: bool,
}

/// Why entries give no pair, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Skipped {
    /// Entries of functions that were not vulnerable, which are most.
    pub not_vulnerable: usize,
    /// Entries that lack a field or have one of another type.
    pub malformed: usize,
    /// Entries of files in a language that is not read.
    pub language: usize,
    /// Entries of which a side is empty, or both are equal.
    pub sides: usize,
}

/// The pairs in a file of that schema: one list, or lists by CVE or commit.
///
/// # Errors
/// Bytes that are not JSON, with the place.
pub fn read(bytes: &[u8]) -> Result<(Vec<Pair>, Skipped), String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("not JSON: {e}"))?;
    let mut skipped = Skipped::default();
    let mut mined = Mined::default();
    for entry in entries(&value) {
        match Entry::deserialize(entry) {
            Err(_) => skipped.malformed += 1,
            Ok(entry) if !entry.is_vul => skipped.not_vulnerable += 1,
            Ok(entry) => match pair(entry) {
                Ok(pair) => mined.pairs.push(pair),
                Err(count) => *count(&mut skipped) += 1,
            },
        }
    }
    let mut fixes: std::collections::BTreeMap<(String, String), usize> = Default::default();
    for pair in &mined.pairs {
        let fix = (pair.repository.clone(), pair.commit.clone());
        *fixes.entry(fix).or_default() += 1;
    }
    for pair in &mut mined.pairs {
        let fix = (pair.repository.clone(), pair.commit.clone());
        pair.functions_in_fix = fixes.get(&fix).copied().unwrap_or(1);
    }
    Ok((Mined::join([&mined]).pairs, skipped))
}

fn entries(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(all) => all.iter().flat_map(entries).collect(),
        Value::Object(fields) if !fields.contains_key("is_vul") => {
            fields.values().flat_map(entries).collect()
        }
        Value::Object(_) => vec![value],
        _ => Vec::new(),
    }
}

type Count = fn(&mut Skipped) -> &mut usize;

fn pair(entry: Entry) -> Result<Pair, Count> {
    let language =
        SnippetLanguage::of_path(&entry.file_path).ok_or::<Count>(|s| &mut s.language)?;
    let before = entry.func_before.unwrap_or_default();
    if before.trim().is_empty() || entry.func.trim().is_empty() || before == entry.func {
        return Err(|s| &mut s.sides);
    }
    let repository = match entry.git_url.split_once("/commit/") {
        Some((repository, _)) => repository.to_string(),
        None if entry.git_url.is_empty() => entry.repo_name,
        None => entry.git_url,
    };
    let day = entry
        .publish_date
        .and_then(|d| d.get(..10).map(str::to_string));
    Ok(Pair {
        vulnerability: Vulnerability {
            id: entry.cve_id.unwrap_or_default(),
            cwes: entry.cwe_ids,
            cvss: entry.cvss_vector,
            published: day,
        },
        also: Vec::new(),
        repository,
        commit: entry.commit_hash,
        path: entry.file_path,
        function: entry.func_name,
        language,
        licence: None,
        functions_in_fix: 1,
        before,
        after: entry.func,
    })
}

/// Pairs in that schema, a list of entries.
pub fn write(pairs: &[Pair]) -> String {
    let entry = |pair: &Pair| {
        let known = &pair.vulnerability;
        let name = pair
            .repository
            .split_once("://")
            .map_or(&*pair.repository, |(_, r)| r);
        let name = name.split_once('/').map_or(name, |(_, path)| path);
        Entry {
            cve_id: (!known.id.is_empty()).then(|| known.id.clone()),
            cwe_ids: known.cwes.clone(),
            cvss_vector: known.cvss.clone(),
            publish_date: known.published.clone(),
            repo_name: name.to_string(),
            commit_hash: pair.commit.clone(),
            git_url: format!("{}/commit/{}", pair.repository, pair.commit),
            file_path: pair.path.clone(),
            func_name: pair.function.clone(),
            func_before: Some(pair.before.clone()),
            func: pair.after.clone(),
            is_vul: true,
        }
    };
    let all: Vec<Entry> = pairs.iter().map(entry).collect();
    serde_json::to_string_pretty(&all).expect("texts are JSON") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"[
      {"cve_id": "CVE-2020-1", "cwe_ids": ["CWE-125"], "cvss_vector": "AV:N", "repo_name": "o/r", "commit_hash": "abc",
       "git_url": "https://github.com/o/r/commit/abc", "file_path": "src/a.c", "func_name": "f",
       "func_before": "int f() { return 1; }", "func": "int f() { return 2; }", "is_vul": true, "diff_line_info": {}},
      {"cve_id": "CVE-2020-1", "file_path": "src/a.c", "func_name": "g", "func": "int g() { return 2; }", "is_vul": false},
      {"cve_id": "CVE-2020-2", "file_path": "a.rb", "func_before": "a", "func": "b", "is_vul": true},
      {"cve_id": "CVE-2020-3", "file_path": "a.c", "func_before": null, "func": "b", "is_vul": true},
      {"cve_id": "CVE-2020-4", "file_path": 7, "is_vul": true}]"#;

    #[test]
    fn entries_with_both_sides_are_pairs() {
        let (pairs, skipped) = read(FILE.as_bytes()).unwrap();
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].repository, "https://github.com/o/r");
        assert_eq!(pairs[0].vulnerability.cwes, ["CWE-125"]);
        let expected = Skipped {
            not_vulnerable: 1,
            malformed: 1,
            language: 1,
            sides: 1,
        };
        assert_eq!(skipped, expected);
        let grouped = format!("{{\"CVE-2020-1\": {FILE}}}");
        assert_eq!(read(grouped.as_bytes()).unwrap().0, pairs);
        assert!(read(b"[{").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (pairs, _) = read(FILE.as_bytes()).unwrap();
        let text = write(&pairs);
        let (back, skipped) = read(text.as_bytes()).unwrap();
        assert_eq!((back, skipped), (pairs, Skipped::default()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[0]["repo_name"], "o/r");
    }
}
