//! Cases of a test suite and what a log says of them; the builder that counts equal names, and the
//! lossless reading of a log's bytes as text. Nothing here knows a format (see [`super::parser`])
//! or decides what counts as a pass (see [`super::fold`]).

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// What one line of a log said of a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The runner said that the case passed.
    Passed,
    /// The runner said that the case failed.
    Failed,
    /// The runner said that it did not run the case, and why is its own business.
    Skipped,
}

/// A test case of a subject: a name, and which of the cases that have this name.
///
/// Written `name`, and from the second on `name#2`. The name is the log's bytes as [`lossless`]
/// text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The name as [`lossless`] text.
    pub name: String,
    /// 1 for the first report of that name in a log, 2 for the second, ...
    pub ordinal: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.ordinal > 1 {
            write!(f, "#{}", self.ordinal)?;
        }
        Ok(())
    }
}

impl Case {
    /// Whether somebody else's `test` means it: by its name or by the text that the log has; a name without a
    /// number means all cases that have it.
    pub fn is_called(&self, test: &str) -> bool {
        let own = self.to_string();
        let means = |test: &str| own == test || self.name == test;
        means(test) || means(&lossless(test.as_bytes()))
    }
}

/// One report of one case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Which case.
    pub case: Case,
    /// What the log said of it.
    pub outcome: Outcome,
}

/// Reports in the order in which a log gives them, with equal names counted.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    seen: HashMap<String, u32>,
    list: Vec<Report>,
}

impl Reports {
    /// Adds a report of the case called `name`, surrounding white space dropped.
    pub fn add(&mut self, name: &[u8], outcome: Outcome) {
        let name = lossless(name.trim_ascii());
        let ordinal = self.seen.entry(name.clone()).or_insert(0);
        *ordinal = ordinal.saturating_add(1);
        let case = Case {
            name,
            ordinal: *ordinal,
        };
        self.list.push(Report { case, outcome });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many have this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.list.iter().filter(|r| r.outcome == outcome).count()
    }

    /// All of them.
    pub fn into_list(self) -> Vec<Report> {
        self.list
    }
}

/// The lines of a log, without their line ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// `bytes` as text, such that different bytes are different texts: UTF-8 without `\x` stays as it
/// is, else every backslash is doubled and every byte that is not UTF-8 becomes `\xHH`.
pub fn lossless(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains("\\x") => text.to_string(),
        _ => {
            let mut out = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                out.push_str(&chunk.valid().replace('\\', "\\\\"));
                for byte in chunk.invalid() {
                    write!(out, "\\x{byte:02x}").expect("writing to a String");
                }
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_case_is_known_by_the_text_of_the_log() {
        let mut reports = Reports::default();
        for name in [&b"/\\x61/ 'a'"[..], b"plain", b"plain"] {
            reports.add(name, Outcome::Passed);
        }
        let cases: Vec<Case> = reports.into_list().into_iter().map(|r| r.case).collect();
        assert_ne!(cases[0].name, r"/\x61/ 'a'");
        assert!(cases[0].is_called(r"/\x61/ 'a'") && cases[0].is_called(&cases[0].name));
        assert!(!cases[0].is_called("/a/ 'a'"));
        assert!(cases[2].is_called("plain#2") && !cases[1].is_called("plain#2"));
        assert!(cases[1].is_called("plain") && cases[2].is_called("plain"));
    }

    proptest! {
        #[test]
        fn lossless_is_injective(
            a in prop::collection::vec(prop::sample::select(b"\\xfe\xc3\xa90".to_vec()), 0..6),
            b in prop::collection::vec(prop::sample::select(b"\\xfe\xc3\xa90".to_vec()), 0..6),
        ) {
            prop_assert_eq!(a == b, lossless(&a) == lossless(&b));
        }
    }
}
