//! OSV records, as oss-fuzz-vulns, PyPA, RustSec and GHSA publish them, in JSON's form: a commit is the `fixed`
//! event of a range of type GIT, or a reference of type FIX.

use serde_json::Value;

use super::{Record, Vulnerability, commit_of_url, cwe, day, list_of, text};

pub(super) fn record(value: &Value) -> Option<Record> {
    let own = text(value, "id")?;
    let aliases = list_of(value, "aliases").chain(list_of(value, "upstream"));
    let mut names = std::iter::once(own).chain(aliases.filter_map(Value::as_str));
    let id = names.find(|n| n.starts_with("CVE-")).unwrap_or(own);
    let mut commits = Vec::new();
    for range in list_of(value, "affected").flat_map(|a| list_of(a, "ranges")) {
        let (Some("GIT"), Some(repo)) = (text(range, "type"), text(range, "repo")) else {
            continue;
        };
        for fixed in list_of(range, "events").filter_map(|e| text(e, "fixed")) {
            if super::url::is_id(fixed) {
                commits.push((super::url::repository(repo), fixed.to_lowercase()));
            }
        }
    }
    let fixes = list_of(value, "references").filter(|r| text(r, "type") == Some("FIX"));
    commits.extend(fixes.filter_map(|r| commit_of_url(text(r, "url")?)));
    let scores = || list_of(value, "severity");
    let third = scores().find(|s| text(s, "type") == Some("CVSS_V3"));
    let cvss = third.or(scores().next()).and_then(|s| text(s, "score"));
    let specific = value.get("database_specific");
    let cwes = specific.into_iter().flat_map(|s| list_of(s, "cwe_ids"));
    Some(Record {
        vulnerability: Vulnerability {
            id: id.to_string(),
            cwes: cwes.filter_map(|c| cwe(c.as_str()?)).collect(),
            cvss: cvss.map(str::to_string),
            published: text(value, "published").and_then(day),
        },
        commits,
        withdrawn: text(value, "withdrawn").is_some(),
    })
}
