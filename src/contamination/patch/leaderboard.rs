//! What contaminated instances do to a leaderboard: how many instances each entry resolves of all,
//! and of those that are left when the contaminated ones are taken out.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::benchmark::Instance;

/// An entry of a leaderboard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Instances it resolves.
    pub resolved: BTreeSet<String>,
}

/// Resolved of asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Instances resolved.
    pub resolved: usize,
    /// Instances in all.
    pub of: usize,
}

impl Rate {
    /// From 0 to 1; nothing of nothing.
    pub fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.resolved as f64 / self.of as f64)
    }

    fn count(&mut self, resolved: bool) {
        self.of += 1;
        self.resolved += usize::from(resolved);
    }
}

/// An entry before and after.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Effect {
    /// Of all instances.
    pub before: Rate,
    /// Of those that are left.
    pub after: Rate,
    /// By how much the rate is less: before minus after; nothing if nothing is left.
    pub absolute: Option<f64>,
    /// The same as a share of the rate before; nothing of a rate of 0.
    pub relative: Option<f64>,
}

impl Effect {
    fn settle(mut self) -> Effect {
        let rates = self.before.share().zip(self.after.share());
        self.absolute = rates.map(|(before, after)| before - after);
        let relative = rates.filter(|(before, _)| *before > 0.0);
        self.relative = relative.map(|(before, after)| (before - after) / before);
        self
    }
}

/// What the filter does to one entry.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The entry.
    pub name: String,
    /// On all instances.
    pub all: Effect,
    /// By difficulty, as the benchmark writes it.
    pub by_difficulty: BTreeMap<String, Effect>,
    /// By the year of the report.
    pub by_year: BTreeMap<String, Effect>,
    /// Instances it says it resolves that the benchmark does not have.
    pub unknown: usize,
}

/// Instances without a difficulty or a date are listed under this name.
const UNTOLD: &str = "untold";

/// What taking out the instances for which `contaminated` is true does to each entry.
pub fn effects(
    entries: &[Entry],
    instances: &[Instance],
    contaminated: impl Fn(&Instance) -> bool,
) -> Vec<Row> {
    let out: Vec<bool> = instances.iter().map(contaminated).collect();
    let known: BTreeSet<&str> = instances.iter().map(|i| &*i.id).collect();
    let rows = entries.iter().map(|entry| {
        let mut all = Effect::default();
        let mut by_difficulty: BTreeMap<String, Effect> = BTreeMap::new();
        let mut by_year: BTreeMap<String, Effect> = BTreeMap::new();
        for (instance, out) in instances.iter().zip(&out) {
            let resolved = entry.resolved.contains(&instance.id);
            let difficulty = instance.difficulty.as_deref().unwrap_or(UNTOLD);
            let year = instance.year().unwrap_or(UNTOLD);
            let groups = [
                &mut all,
                by_difficulty.entry(difficulty.to_string()).or_default(),
                by_year.entry(year.to_string()).or_default(),
            ];
            for effect in groups {
                effect.before.count(resolved);
                if !out {
                    effect.after.count(resolved);
                }
            }
        }
        let settle = |groups: BTreeMap<String, Effect>| {
            groups
                .into_iter()
                .map(|(name, e)| (name, e.settle()))
                .collect()
        };
        Row {
            name: entry.name.clone(),
            all: all.settle(),
            by_difficulty: settle(by_difficulty),
            by_year: settle(by_year),
            unknown: entry
                .resolved
                .iter()
                .filter(|id| !known.contains(&***id))
                .count(),
        }
    });
    rows.collect()
}

/// Reads a leaderboard: an object of entries with the instances each resolves, or a list of objects
/// with `name` (or `model`) and `resolved`.
///
/// # Errors
/// What is wrong, in words.
pub fn read(text: &[u8]) -> Result<Vec<Entry>, String> {
    let value: Value = serde_json::from_slice(text).map_err(|e| format!("no JSON: {e}"))?;
    let ids = |name: &str, value: &Value| -> Result<BTreeSet<String>, String> {
        let list = value
            .as_array()
            .ok_or(format!("`{name}`: a list of instances is expected"))?;
        let ids = list.iter().map(|id| id.as_str().map(str::to_string));
        ids.collect::<Option<_>>().ok_or(format!(
            "`{name}`: something in the list is no name of an instance"
        ))
    };
    let entries: Result<Vec<Entry>, String> = match &value {
        Value::Object(all) => all
            .iter()
            .map(|(name, value)| {
                let resolved = ids(name, value.get("resolved").unwrap_or(value))?;
                Ok(Entry {
                    name: name.clone(),
                    resolved,
                })
            })
            .collect(),
        Value::Array(all) => all
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let name = ["name", "model"]
                    .iter()
                    .find_map(|key| value.get(*key)?.as_str());
                let name = name.ok_or(format!("entry {}: it has no `name`", at + 1))?;
                let resolved = value
                    .get("resolved")
                    .ok_or(format!("`{name}`: it has no `resolved`"))?;
                Ok(Entry {
                    name: name.to_string(),
                    resolved: ids(name, resolved)?,
                })
            })
            .collect(),
        _ => Err("an object or a list of entries is expected".into()),
    };
    match entries {
        Ok(entries) if entries.is_empty() => Err("it has no entry".into()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(n: usize, difficulty: &str) -> Instance {
        Instance {
            id: format!("i{n}"),
            repository: "a/b".into(),
            base: "c".into(),
            fixed: false,
            patch: Vec::new().into(),
            test_patch: Vec::new(),
            fail_to_pass: Vec::new(),
            pass_to_pass: Vec::new(),
            difficulty: (!difficulty.is_empty()).then(|| difficulty.into()),
            created_at: (n < 3).then(|| format!("202{n}-01-01T00:00:00Z")),
        }
    }

    #[test]
    fn rates_before_and_after_by_difficulty_and_year() {
        let instances = [
            instance(0, "easy"),
            instance(1, "easy"),
            instance(2, "hard"),
            instance(3, ""),
        ];
        let text = br#"[{"name": "m", "resolved": ["i0", "i1", "i2", "other"]}, {"model": "n", "resolved": []}]"#;
        let entries = read(text).unwrap();
        let rows = effects(&entries, &instances, |i| i.id == "i0" || i.id == "i2");
        let m = &rows[0];
        assert_eq!(m.unknown, 1);
        assert_eq!(
            (m.all.before, m.all.after),
            (Rate { resolved: 3, of: 4 }, Rate { resolved: 1, of: 2 })
        );
        assert_eq!(
            (m.all.absolute, m.all.relative),
            (Some(0.25), Some(1.0 / 3.0))
        );
        let hard = &m.by_difficulty["hard"];
        assert_eq!((hard.before.of, hard.after.of, hard.absolute), (1, 0, None));
        assert_eq!(m.by_difficulty["easy"].absolute, Some(0.0));
        let years: Vec<_> = m.by_year.keys().map(|y| &**y).collect();
        assert_eq!(years, ["2020", "2021", "2022", "untold"]);
        assert_eq!(
            (rows[1].all.absolute, rows[1].all.relative),
            (Some(0.0), None)
        );
        // Groups add up to all.
        for groups in [&m.by_difficulty, &m.by_year] {
            assert_eq!(groups.values().map(|e| e.before.of).sum::<usize>(), 4);
            assert_eq!(groups.values().map(|e| e.after.resolved).sum::<usize>(), 1);
        }
    }

    #[test]
    fn leaderboards_in_either_form_and_what_is_none() {
        let one = read(br#"{"m": ["i1"], "n": {"resolved": ["i2"]}}"#).unwrap();
        assert_eq!(one.len(), 2);
        assert!(one[1].resolved.contains("i2"));
        for wrong in [
            "",
            "[]",
            "3",
            "{\"m\": 1}",
            "[{\"resolved\": []}]",
            "{\"m\": [1]}",
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
