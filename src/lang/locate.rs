//! Where the text that a variant replaces is in a file: by name and rank where the file's own
//! reading has the function, else by the text itself if it occurs only once. Refuses rather than
//! guesses.

use std::ops::Range;

use super::facts::LanguageId;
use super::functions::{Definition, FileFunctions};
use super::outline::Outline;

/// The first rank of functions that the file's own reading does not have. It has no file with so
/// many definitions of one name.
pub const FOREIGN: usize = 1 << 20;

/// Why a text is not found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LocateError {
    /// No definition of that rank.
    #[error("there is no definition {ordinal} of `{name}`")]
    NoDefinition {
        /// The name.
        name: String,
        /// The rank asked for.
        ordinal: usize,
    },
    /// The text is not there, or not only once.
    #[error("the text of `{name}` occurs {times} times, not once")]
    NotOnce {
        /// The name.
        name: String,
        /// How often.
        times: usize,
    },
}

/// The range of the function of this name and rank in `source`. `original` gives its text, which
/// is asked for only when the file's own reading does not have the function ([`FOREIGN`]).
///
/// # Errors
/// [`LocateError`], or what `original` gives.
pub fn locate<E: From<LocateError>>(
    found: &FileFunctions,
    source: &[u8],
    (name, ordinal): (&str, usize),
    original: impl FnOnce() -> Result<std::sync::Arc<[u8]>, E>,
) -> Result<Range<usize>, E> {
    if ordinal < FOREIGN {
        let own = found
            .definitions
            .iter()
            .find(|d| d.name == name && d.ordinal == ordinal);
        return own.map(|d| d.span.clone()).ok_or_else(|| {
            let name = name.to_string();
            LocateError::NoDefinition { name, ordinal }.into()
        });
    }
    let text = original()?;
    let places = occurrences(source, &text);
    match places.as_slice() {
        [at] => Ok(*at..at + text.len()),
        _ => Err(LocateError::NotOnce {
            name: name.to_string(),
            times: places.len(),
        }
        .into()),
    }
}

/// Where `text` is in `source`, overlapping occurrences included; an empty text is nowhere.
pub fn occurrences(source: &[u8], text: &[u8]) -> Vec<usize> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = bstr::ByteSlice::find(&source[from..], text) {
        found.push(from + at);
        from += at + 1;
    }
    found
}

/// A definition that starts at `start`, together with the comment directly before it, by the rule
/// of [`functions`](super::functions()).
pub fn with_comment(language: LanguageId, source: &[u8], start: usize) -> usize {
    let o = Outline::of(language, source);
    let lines = super::lex::Lines::of(source);
    super::functions::leading_comment(&o, &lines, start).unwrap_or(start)
}

/// The definition of `name` in a text that is to be one function and nothing else, as it must be
/// to be asked about: the grammar reads it, alone, the same way in the file and in a reply.
pub fn alone<'f>(found: &'f FileFunctions, name: &str) -> Option<&'f Definition> {
    match (found.definitions.as_slice(), found.skipped.as_slice()) {
        ([definition], []) if definition.name == name => Some(definition),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_text_is_found_only_where_it_is_alone() {
        let none = FileFunctions::default();
        let find = |source: &str, text: &str| {
            let original = || Ok::<Arc<[u8]>, LocateError>(text.as_bytes().into());
            locate(&none, source.as_bytes(), ("f", FOREIGN), original)
        };
        assert_eq!(find("int f;f{}", "f{}"), Ok(6..9));
        for (source, text, times) in [
            ("f{}f{}", "f{}", 2),
            ("aaa", "aa", 2),
            ("x", "f", 0),
            ("x", "", 0),
        ] {
            let name = "f".to_string();
            assert_eq!(
                find(source, text),
                Err(LocateError::NotOnce { name, times })
            );
        }
    }
}
