//! OSV records written as YAML, as oss-fuzz-vulns and PyPA's database keep them: those fields that are
//! read of a record, in the form that its JSON has.
//!
//! The fields are texts here, whatever YAML takes them for: a commit's id of digits alone would become
//! a number, and `12e4` the number 120,000.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Problem;

/// The one record in a file.
pub(super) fn record(bytes: &[u8]) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::NotYaml)?;
    match serde_saphyr::from_str::<Osv>(text) {
        Ok(record) => Ok(said(&record)),
        // What is wrong: the YAML, or what it says?
        Err(_) => match serde_saphyr::from_str::<IgnoredAny>(text) {
            Ok(_) => Err(Problem::UnknownFormat),
            Err(_) => Err(Problem::NotYaml),
        },
    }
}

/// The fields that a record has.
fn said(record: &Osv) -> Value {
    let mut value = serde_json::to_value(record).expect("texts are JSON");
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

#[derive(Deserialize, Serialize)]
struct Osv {
    id: Option<String>,
    modified: Option<String>,
    published: Option<String>,
    withdrawn: Option<String>,
    aliases: Option<Vec<String>>,
    upstream: Option<Vec<String>>,
    severity: Option<Vec<Severity>>,
    affected: Option<Vec<Affected>>,
    references: Option<Vec<Reference>>,
    database_specific: Option<Specific>,
}

#[derive(Deserialize, Serialize)]
struct Severity {
    r#type: Option<String>,
    score: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Affected {
    ranges: Option<Vec<Range>>,
}

#[derive(Deserialize, Serialize)]
struct Range {
    r#type: Option<String>,
    repo: Option<String>,
    events: Option<Vec<Event>>,
}

#[derive(Deserialize, Serialize)]
struct Event {
    fixed: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Reference {
    r#type: Option<String>,
    url: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Specific {
    cwe_ids: Option<Vec<String>>,
}
