//! Records of NVD's API 2.0: the object called `cve`.

use serde_json::Value;

use super::{Record, Vulnerability, cwe, day, list_of, of_references, text};

pub(super) fn record(cve: &Value) -> Option<Record> {
    let id = text(cve, "id")?;
    let references = list_of(cve, "references").filter_map(|r| {
        let marked = list_of(r, "tags").any(|t| t.as_str() == Some("Patch"));
        Some((text(r, "url")?, marked))
    });
    let weaknesses = list_of(cve, "weaknesses").flat_map(|w| list_of(w, "description"));
    let metrics = cve.get("metrics");
    let versions = [
        "cvssMetricV31",
        "cvssMetricV30",
        "cvssMetricV40",
        "cvssMetricV2",
    ];
    let cvss = versions.iter().find_map(|version| {
        let mut all = metrics.into_iter().flat_map(|m| list_of(m, version));
        all.find_map(|m| text(m.get("cvssData")?, "vectorString"))
    });
    Some(Record {
        commits: of_references(references),
        vulnerability: Vulnerability {
            id: id.to_string(),
            cwes: weaknesses.filter_map(|d| cwe(text(d, "value")?)).collect(),
            cvss: cvss.map(str::to_string),
            published: text(cve, "published").and_then(day),
        },
        withdrawn: text(cve, "vulnStatus") == Some("Rejected"),
    })
}
