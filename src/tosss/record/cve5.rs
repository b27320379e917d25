//! CVE JSON 5 records: references of the CNA and of those that enriched the record.

use serde_json::Value;

use super::{Record, Vulnerability, cwe, day, list_of, of_references, text};

pub(super) fn record(value: &Value) -> Option<Record> {
    let metadata = value.get("cveMetadata")?;
    let id = text(metadata, "cveId")?;
    let containers = value.get("containers");
    let cna = containers.and_then(|c| c.get("cna"));
    let adp = containers.into_iter().flat_map(|c| list_of(c, "adp"));
    let parts: Vec<&Value> = cna.into_iter().chain(adp).collect();
    let references = parts.iter().flat_map(|p| list_of(p, "references"));
    let references = references.filter_map(|r| {
        let marked = list_of(r, "tags").any(|t| t.as_str() == Some("patch"));
        Some((text(r, "url")?, marked))
    });
    let described = parts
        .iter()
        .flat_map(|p| list_of(p, "problemTypes"))
        .flat_map(|p| list_of(p, "descriptions"));
    let cwes = described.filter_map(|d| {
        let named = text(d, "cweId").or_else(|| text(d, "description"))?;
        cwe(named)
    });
    let versions = ["cvssV3_1", "cvssV3_0", "cvssV4_0", "cvssV2_0"];
    let metrics = || parts.iter().flat_map(|p| list_of(p, "metrics"));
    let cvss = versions.iter().find_map(|version| {
        let mut found = metrics().filter_map(|m| text(m.get(*version)?, "vectorString"));
        found.next()
    });
    Some(Record {
        commits: of_references(references),
        vulnerability: Vulnerability {
            id: id.to_string(),
            cwes: cwes.collect(),
            cvss: cvss.map(str::to_string),
            published: text(metadata, "datePublished").and_then(day),
        },
        withdrawn: text(metadata, "state") == Some("REJECTED"),
    })
}
