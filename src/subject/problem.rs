//! What is wrong with a manifest: every problem with its place and, where one is likely, the
//! spelling that was meant.

use std::fmt;

/// One thing to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key concerned, as in `tests.shard[2].argv`; empty for the manifest as a whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do, where that is more than the message says.
    pub hint: Option<String>,
}

/// All problems of one manifest, in the order of their places; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems {
    /// What the manifest was called when it was read, usually its path.
    pub origin: String,
    /// In order of line and column.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            let Problem { line, column, .. } = problem;
            write!(f, "{}:{line}:{column}: ", self.origin)?;
            if !problem.key.is_empty() {
                write!(f, "{}: ", problem.key)?;
            }
            f.write_str(&problem.message)?;
            if let Some(hint) = &problem.hint {
                write!(f, "; {hint}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The candidate that was most likely meant by `word`, when one is near enough.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let plain = |s: &str| s.to_lowercase().replace('_', "-");
    let word = plain(word);
    candidates
        .iter()
        .map(|c| (strsim::damerau_levenshtein(&word, &plain(c)), *c))
        .filter(|(distance, c)| *distance <= 1 + c.len().min(word.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// A hint with the nearest candidate, or else all of them.
pub(crate) fn suggest(word: &str, candidates: &[&str]) -> Option<String> {
    match nearest(word, candidates) {
        Some(c) => Some(format!("did you mean `{c}`?")),
        None if candidates.is_empty() => None,
        None => Some(format!("known: {}", candidates.join(", "))),
    }
}

/// Line and column, from 1, of byte `at` in `text`.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_suggested_and_a_far_one_is_not() {
        let keys = ["configure", "build", "cflags", "cpu-seconds"];
        assert_eq!(nearest("buidl", &keys), Some("build"));
        assert_eq!(nearest("cpu_seconds", &keys), Some("cpu-seconds"));
        assert_eq!(nearest("CFlag", &keys), Some("cflags"));
        assert_eq!(nearest("colour", &keys), None);
        assert!(suggest("colour", &keys).unwrap().contains("known: "));
    }

    #[test]
    fn places_count_characters() {
        assert_eq!(place("äö = 1", 5), (1, 4));
        assert_eq!(place("a\nb\n", 3), (2, 2));
        assert_eq!(place("a\nb\n", 99), (3, 1));
    }
}
