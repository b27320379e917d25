//! Lists of glob patterns over paths inside a tree. `*` and `?` stop at `/`, `**` does not.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Compiled patterns; equal when their texts are.
#[derive(Clone)]
pub struct Globs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl Default for Globs {
    /// No pattern: nothing matches.
    fn default() -> Self {
        Globs {
            patterns: Vec::new(),
            set: GlobSet::empty(),
        }
    }
}

impl Globs {
    /// Compiles `patterns`; the error names why a pattern is not one, and its index.
    pub fn new(patterns: Vec<String>) -> Result<Globs, (usize, String)> {
        let mut set = GlobSetBuilder::new();
        for (i, pattern) in patterns.iter().enumerate() {
            set.add(compile(pattern).map_err(|why| (i, why))?);
        }
        let set = set.build().map_err(|e| (0, e.to_string()))?;
        Ok(Globs { patterns, set })
    }

    /// Why `pattern` cannot be used, if so.
    pub fn check(pattern: &str) -> Result<(), String> {
        compile(pattern).map(|_| ())
    }

    /// The patterns as written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether a pattern matches the whole of `path`.
    pub fn matches(&self, path: &str) -> bool {
        self.set.is_match(path)
    }

    /// The first pattern that matches, for reports.
    pub fn which(&self, path: &str) -> Option<&str> {
        let first = self.set.matches(path).into_iter().min()?;
        Some(&self.patterns[first])
    }

    /// All patterns that match.
    pub fn all(&self, path: &str) -> impl Iterator<Item = &str> {
        let matching = self.set.matches(path).into_iter();
        matching.map(|at| self.patterns[at].as_str())
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

fn compile(pattern: &str) -> Result<globset::Glob, String> {
    if pattern.is_empty() {
        return Err("it is empty".into());
    }
    if pattern.starts_with('/') || pattern.split('/').any(|name| name == ".." || name == ".") {
        return Err(
            "patterns are relative to the root of the tree, without `/` at the start, `.` or `..`"
                .into(),
        );
    }
    if pattern.ends_with('/') {
        return Err(format!(
            "it ends with `/` and so matches nothing; write `{pattern}**` for everything below"
        ));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|e| e.kind().to_string())
}

impl PartialEq for Globs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}
impl Eq for Globs {}
impl fmt::Debug for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.patterns).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        let globs = Globs::new(vec!["src/*.c".into(), "lib/**".into()]).unwrap();
        assert_eq!(globs.which("src/a.c"), Some("src/*.c"));
        assert_eq!(globs.which("lib/x/y.h"), Some("lib/**"));
        assert!(!globs.matches("src/sub/a.c"));
        assert!(!globs.matches("other/src/a.c"));
    }

    #[test]
    fn patterns_that_could_never_match_are_refused() {
        for bad in ["", "/src/*.c", "../x", "./a.c", "test/", "a[", "{a"] {
            assert!(Globs::check(bad).is_err(), "{bad:?}");
        }
    }
}
