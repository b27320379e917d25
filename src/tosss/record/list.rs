//! Plain lists: CSV with the columns `cve`, `repository` and `commit`, in any order, and if there
//! `cwe` and `published`. A repository is an address, a path, or `owner/name` on GitHub.

use std::collections::BTreeSet;

use super::{Fix, Found, Problem, Vulnerability, cwe, day, url};
use crate::tosss::csv;

/// Reads a list. `name` is only told.
///
/// # Errors
/// A text of which the first line names no such columns.
pub fn list(name: &str, text: &str) -> Result<Found, String> {
    let mut records = csv::records(text).into_iter();
    let header = records.next().map(|(_, fields)| fields).unwrap_or_default();
    let column = |title: &str| {
        let same = |h: &String| h.trim().eq_ignore_ascii_case(title);
        header.iter().position(same)
    };
    let (Some(cve), Some(repository), Some(commit)) =
        (column("cve"), column("repository"), column("commit"))
    else {
        return Err(format!(
            "{name}: the first line must name the columns `cve`, `repository` and `commit`"
        ));
    };
    let (own_cwe, published) = (column("cwe"), column("published"));
    let mut found = Found::default();
    let mut known = BTreeSet::new();
    for (line, fields) in records {
        found.records += 1;
        let field = |at: usize| fields.get(at).map(|f| f.trim()).unwrap_or_default();
        let problem = match () {
            () if fields.len() < header.len() => Some(Problem::ShortLine),
            () if field(cve).is_empty() => Some(Problem::NoId),
            () if field(repository).is_empty() || !url::is_id(field(commit)) => {
                Some(Problem::NoCommit)
            }
            () => None,
        };
        if let Some(problem) = problem {
            found.problems.push((format!("{name}:{line}"), problem));
            continue;
        }
        let fix = Fix {
            vulnerability: Vulnerability {
                id: field(cve).to_uppercase(),
                cwes: own_cwe.and_then(|at| cwe(field(at))).into_iter().collect(),
                cvss: None,
                published: published.and_then(|at| day(field(at))),
            },
            repository: url::repository(field(repository)),
            commit: field(commit).to_lowercase(),
        };
        match known.insert(fix.clone()) {
            true => found.fixes.push(fix),
            false => found
                .problems
                .push((format!("{name}:{line}"), Problem::DuplicateId)),
        }
    }
    Ok(found)
}
