//! Benchmarks whose instances are JSON objects, one to a line or in one array: SWE-bench with its
//! relatives (Lite, Verified, Live), and Multi-SWE-bench.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::{Benchmark, Form, Instance, NoBenchmark, NoInstance, Written};

/// Reads JSON lines or an array.
///
/// # Errors
/// No row is an instance.
pub fn rows(text: &[u8]) -> Result<Benchmark, NoBenchmark> {
    let (array, elements) = elements(text);
    let mut benchmark = Benchmark {
        form: Form::SweBench,
        instances: Vec::new(),
        problems: Vec::new(),
        source: Written::Rows {
            text: text.to_vec(),
            array,
            rows: Vec::new(),
        },
    };
    let mut forms = HashSet::new();
    let mut known = HashSet::new();
    let mut kept = Vec::new();
    for (number, row) in elements.into_iter().enumerate() {
        let place = format!("row {}", number + 1);
        let read = match serde_json::from_slice::<Value>(&text[row.clone()]) {
            Ok(value @ Value::Object(_)) => instance(&value),
            _ => Err(NoInstance::Malformed),
        };
        match read {
            Ok((_, one)) if !known.insert(one.id.clone()) => {
                benchmark.problems.push((one.id, NoInstance::Duplicate));
            }
            Ok((form, one)) => {
                forms.insert(form);
                benchmark.instances.push(one);
                kept.push(row);
            }
            Err(problem) => benchmark.problems.push((place, problem)),
        }
    }
    let forms: Vec<Form> = forms.into_iter().collect();
    match forms[..] {
        [form] => benchmark.form = form,
        [] => {
            let first = benchmark.problems.first();
            return Err(NoBenchmark::Nothing(first.map(|(_, p)| p.words().into())));
        }
        _ => return Err(NoBenchmark::Mixed),
    }
    if let Written::Rows { rows, .. } = &mut benchmark.source {
        *rows = kept;
    }
    Ok(benchmark)
}

/// Where the rows are, and whether they are elements of an array.
fn elements(text: &[u8]) -> (bool, Vec<Range<usize>>) {
    let blank = |at: usize| {
        at + text[at..]
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count()
    };
    let start = blank(0);
    if text.get(start) != Some(&b'[') {
        let mut rows = Vec::new();
        let mut from = 0;
        for line in text.split_inclusive(|b| *b == b'\n') {
            let inside = line.trim_ascii();
            if !inside.is_empty() {
                let lead = line.len() - line.trim_ascii_start().len();
                rows.push(from + lead..from + lead + inside.len());
            }
            from += line.len();
        }
        return (false, rows);
    }
    let mut rows = Vec::new();
    let mut at = blank(start + 1);
    while at < text.len() && text[at] != b']' {
        let mut values =
            serde_json::Deserializer::from_slice(&text[at..]).into_iter::<serde::de::IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                let end = at + values.byte_offset();
                rows.push(at..end);
                at = blank(end);
                if text.get(at) == Some(&b',') {
                    at = blank(at + 1);
                }
            }
            // What follows is told as one row that cannot be read.
            _ => {
                rows.push(at..text.len());
                break;
            }
        }
    }
    (true, rows)
}

fn instance(row: &Value) -> Result<(Form, Instance), NoInstance> {
    let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_string);
    let number = || {
        let number = row.get("number")?;
        number
            .as_u64()
            .map(|n| n.to_string())
            .or_else(|| number.as_str().map(str::to_string))
    };
    let multi = row.get("fix_patch").is_some() || row.get("org").is_some();
    let (form, id, repository, base, patch) = match multi {
        true => {
            let (org, repo, number) = (text("org"), text("repo"), number());
            let full = org.zip(repo);
            let id = text("instance_id").or_else(|| {
                let (org, repo) = full.as_ref()?;
                Some(format!("{org}__{repo}-{}", number?))
            });
            let base = row.pointer("/base/sha").and_then(Value::as_str);
            (
                Form::MultiSweBench,
                id,
                full.map(|(org, repo)| match repo.contains('/') {
                    true => repo,
                    false => format!("{org}/{repo}"),
                }),
                base.map(str::to_string),
                text("fix_patch"),
            )
        }
        false => (
            Form::SweBench,
            text("instance_id"),
            text("repo"),
            text("base_commit"),
            text("patch"),
        ),
    };
    let (Some(id), Some(repository), Some(base)) = (id, repository, base) else {
        return Err(NoInstance::FieldMissing);
    };
    let patch = patch
        .filter(|p| !p.trim().is_empty())
        .ok_or(NoInstance::NoPatch)?;
    let names = |all: [&str; 2]| {
        all.iter()
            .find_map(|name| row.get(*name))
            .map(tests)
            .unwrap_or_default()
    };
    Ok((
        form,
        Instance {
            id,
            repository,
            base,
            fixed: false,
            patch: patch.into_bytes().into(),
            test_patch: text("test_patch").unwrap_or_default().into_bytes(),
            fail_to_pass: names(["FAIL_TO_PASS", "f2p_tests"]),
            pass_to_pass: names(["PASS_TO_PASS", "p2p_tests"]),
            difficulty: text("difficulty").filter(|d| !d.is_empty()),
            created_at: text("created_at").filter(|d| !d.is_empty()),
        },
    ))
}

/// Names of tests: a list, a list written as a JSON text, or the keys of an object.
fn tests(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_string)
            .collect(),
        Value::Object(all) => all.keys().cloned().collect(),
        Value::String(text) => match serde_json::from_str::<Vec<String>>(text) {
            Ok(all) => all,
            Err(_) if text.trim().is_empty() => Vec::new(),
            Err(_) => vec![text.clone()],
        },
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SWE: &str = r#"{"repo": "a/b", "instance_id": "a__b-1", "base_commit": "c0", "patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "test_patch": "", "FAIL_TO_PASS": "[\"t::one\", \"t::two\"]", "PASS_TO_PASS": ["t::three"], "created_at": "2019-05-15T10:00:00Z", "difficulty": "<15 min fix", "zebra": 1, "apple": 2}"#;
    const MULTI: &str = r#"{"org": "o", "repo": "r", "number": 7, "base": {"label": "x", "ref": "main", "sha": "d1"}, "fix_patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "test_patch": "t", "f2p_tests": {"t1": {"run": "PASS"}}}"#;

    #[test]
    fn lines_and_arrays_are_the_same() {
        let other = SWE.replace("a__b-1", "a__b-2");
        let lines = format!("{SWE}\n\n{other}\n");
        let array = format!("[{SWE},\n {other}]");
        for text in [&lines, &array] {
            let benchmark = rows(text.as_bytes()).unwrap();
            assert_eq!(benchmark.form, Form::SweBench);
            let [one, two] = &benchmark.instances[..] else {
                panic!()
            };
            assert_eq!(
                (&*one.id, &*two.id, &*one.repository, &*one.base),
                ("a__b-1", "a__b-2", "a/b", "c0")
            );
            assert_eq!(one.fail_to_pass, ["t::one", "t::two"]);
            assert_eq!(one.pass_to_pass, ["t::three"]);
            assert_eq!(
                (one.difficulty.as_deref(), one.year()),
                (Some("<15 min fix"), Some("2019"))
            );
            assert!(benchmark.problems.is_empty());
        }
    }

    #[test]
    fn what_is_kept_is_written_as_it_was() {
        let other = SWE.replace("a__b-1", "a__b-2");
        let benchmark = rows(format!("{SWE}\n{other}\n").as_bytes()).unwrap();
        let files = benchmark.filtered(|i| i.id == "a__b-2");
        assert_eq!(files[""], format!("{other}\n").into_bytes());
        let benchmark = rows(format!("[{SWE}, {other}]").as_bytes()).unwrap();
        let files = benchmark.filtered(|_| true);
        assert_eq!(files[""], format!("[\n{SWE},\n{other}\n]\n").into_bytes());
        let none = benchmark.filtered(|_| false);
        assert_eq!(
            serde_json::from_slice::<Value>(&none[""]).unwrap(),
            serde_json::json!([])
        );
    }

    #[test]
    fn multi_swe_bench_has_other_fields() {
        let benchmark = rows(MULTI.as_bytes()).unwrap();
        assert_eq!(benchmark.form, Form::MultiSweBench);
        let one = &benchmark.instances[0];
        assert_eq!(
            (&*one.id, &*one.repository, &*one.base),
            ("o__r-7", "o/r", "d1")
        );
        assert_eq!(one.fail_to_pass, ["t1"]);
        assert_eq!(
            rows(format!("{SWE}\n{MULTI}").as_bytes()).unwrap_err(),
            NoBenchmark::Mixed
        );
    }

    #[test]
    fn what_is_no_instance_is_told_by_its_row() {
        let text = format!(
            "{SWE}\n{SWE}\nno json\n{}\n{}\n",
            SWE.replace("\"base_commit\": \"c0\", ", "")
                .replace("b-1", "b-3"),
            r#"{"repo": "a/b", "instance_id": "i", "base_commit": "c", "patch": " "}"#,
        );
        let benchmark = rows(text.as_bytes()).unwrap();
        let problems: Vec<_> = benchmark.problems.iter().map(|(p, r)| (&**p, *r)).collect();
        assert_eq!(
            problems,
            [
                ("a__b-1", NoInstance::Duplicate),
                ("row 3", NoInstance::Malformed),
                ("row 4", NoInstance::FieldMissing),
                ("row 5", NoInstance::NoPatch),
            ]
        );
        assert!(matches!(
            rows(b"[1, 2").unwrap_err(),
            NoBenchmark::Nothing(Some(_))
        ));
        assert_eq!(rows(b"").unwrap_err(), NoBenchmark::Nothing(None));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[\\[\\]{}\",:a1 \n]{0,40}") {
            let _ = rows(text.as_bytes());
            let _ = rows(format!("[{SWE},{text}").as_bytes());
        }
    }
}
