//! Both stages together: was the patch of an instance in what a model was trained on? Stage I says
//! whether the model knows the repository, Stage II whether the patch was in it then.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::verdict::Verdict;

/// What Stage I says of one model: of each repository, by name.
#[derive(Clone, PartialEq, Debug)]
pub struct Known {
    /// The model.
    pub model: String,
    /// Verdicts by the names and addresses of repositories.
    pub repositories: BTreeMap<String, Repository>,
}

/// What Stage I says of a repository.
#[derive(Clone, PartialEq, Debug)]
pub struct Repository {
    /// `contaminated`, `not_shown` or `inconclusive`.
    pub presence: String,
    /// The p-value, if there was a test.
    pub p: Option<f64>,
}

/// What is said of an instance and a model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Joint {
    /// The model knows the repository, and the patch was in it.
    Contaminated,
    /// The patch was not in it.
    PatchAbsent,
    /// It was not shown that the model knows the repository.
    RepositoryNotShown,
    /// Too little is known.
    Unknown,
}

impl Joint {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Joint::Contaminated => "contaminated: the repository is known, and the patch was in it",
            Joint::PatchAbsent => "clean: the patch was not in the repository",
            Joint::RepositoryNotShown => "not shown: nothing shows that the repository is known",
            Joint::Unknown => "unknown",
        }
    }
}

/// The verdict, and a score from 0 to 1 that is higher the more speaks for contamination: 1 - p of the
/// repository times 1, 0.5 or 0 for a patch that was there, of which nothing is known, or that was not
/// there. Where the repository was not tested p counts as 0.5.
pub fn joint(repository: Option<&Repository>, patch: Verdict) -> (Joint, f64) {
    let presence = repository.map_or("", |r| &*r.presence);
    let verdict = match (presence, patch) {
        (_, Verdict::Absent) => Joint::PatchAbsent,
        ("contaminated", Verdict::Present) => Joint::Contaminated,
        ("not_shown", _) => Joint::RepositoryNotShown,
        _ => Joint::Unknown,
    };
    let known = 1.0 - repository.and_then(|r| r.p).unwrap_or(0.5);
    let there = match patch {
        Verdict::Present => 1.0,
        Verdict::Unknown => 0.5,
        Verdict::Absent => 0.0,
    };
    (verdict, known * there)
}

impl Known {
    /// The repository that an instance calls `name`: by that name, by the end of its address, or by
    /// the last part of its name if only one has it.
    pub fn repository(&self, name: &str) -> Option<&Repository> {
        let fits = |key: &str| {
            let key = key.trim_end_matches('/').trim_end_matches(".git");
            key == name || key.ends_with(&format!("/{name}"))
        };
        let exact = self.repositories.iter().find(|(key, _)| fits(key));
        let last = name.rsplit('/').next().unwrap_or(name);
        let mut alike = self.repositories.iter().filter(|(key, _)| *key == last);
        exact
            .or_else(|| alike.next().filter(|_| alike.next().is_none()))
            .map(|(_, r)| r)
    }
}

/// Reads what `everbench contamination repo --format json` wrote.
///
/// # Errors
/// What is wrong, in words.
pub fn read(text: &[u8]) -> Result<Vec<Known>, String> {
    let value: Value = serde_json::from_slice(text).map_err(|e| format!("no JSON: {e}"))?;
    let list = |value: &Value, name: &str| -> Result<Vec<Value>, String> {
        let list = value.get(name).and_then(Value::as_array);
        list.cloned().ok_or(format!(
            "it has no list `{name}`; `everbench contamination repo --format json` writes one"
        ))
    };
    let models = list(&value, "models")?.into_iter().map(|model| {
        let name = model
            .get("model")
            .and_then(Value::as_str)
            .ok_or("a model has no name")?;
        let mut repositories = BTreeMap::new();
        for verdict in list(&model, "verdicts")? {
            let text = |name: &str| verdict.get(name).and_then(Value::as_str);
            let one = Repository {
                presence: text("presence")
                    .ok_or("a verdict has no `presence`")?
                    .to_string(),
                p: verdict.get("p").and_then(Value::as_f64),
            };
            for key in ["url", "repository"].into_iter().filter_map(text) {
                repositories.insert(key.to_string(), one.clone());
            }
        }
        Ok(Known {
            model: name.to_string(),
            repositories,
        })
    });
    models.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"models": [{"model": "m", "verdicts": [
        {"repository": "lib", "url": "https://example.org/maker/lib.git", "presence": "contaminated", "p": 0.01},
        {"repository": "other", "url": null, "presence": "not_shown", "p": 0.6},
        {"repository": "few", "presence": "inconclusive", "p": null}]}]}"#;

    #[test]
    fn both_stages_must_speak_for_it() {
        let known = &read(TEXT.as_bytes()).unwrap()[0];
        let of = |name: &str, patch| {
            let (joint, score) = joint(known.repository(name), patch);
            (joint, (score * 1000.0).round() / 1000.0)
        };
        assert_eq!(
            of("maker/lib", Verdict::Present),
            (Joint::Contaminated, 0.99)
        );
        assert_eq!(of("maker/lib", Verdict::Absent), (Joint::PatchAbsent, 0.0));
        assert_eq!(of("maker/lib", Verdict::Unknown), (Joint::Unknown, 0.495));
        assert_eq!(
            of("x/other", Verdict::Present),
            (Joint::RepositoryNotShown, 0.4)
        );
        assert_eq!(of("x/few", Verdict::Present), (Joint::Unknown, 0.5));
        assert_eq!(of("x/unheard", Verdict::Present), (Joint::Unknown, 0.5));
    }

    #[test]
    fn what_is_no_result_of_stage_one_is_told() {
        for wrong in [
            "",
            "{}",
            r#"{"models": [{}]}"#,
            r#"{"models": [{"model": "m", "verdicts": [{}]}]}"#,
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
