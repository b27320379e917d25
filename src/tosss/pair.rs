//! From the two sides of a fix's files to pairs: functions matched by file, name and parameters,
//! kept if their code differs, and everything that gives no pair with the reason.
//!
//! Where the paper is silent, these choices are ours: a function inside another one is part of it;
//! a function whose parameters changed is matched if its name occurs once on either side; a fix
//! that a limit excludes gives no pair at all, since what it changes beside the fault cannot be
//! told from the fix.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::{Change, Dropped, is_generated, is_test};
use super::record::{Fix, Vulnerability};
use crate::ask::decode;
use crate::digest::Digest;
use crate::lang::{NoSnippet, SkipReason, Snippet, SnippetLanguage, Snippets};

/// What a fix may change and how long a function may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Files of a fix.
    pub files: usize,
    /// Functions of a fix.
    pub functions: usize,
    /// White-space separated words of a function, on either side.
    pub words: usize,
    /// Bytes of a file.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            files: 10,
            functions: 20,
            words: 2000,
            bytes: 4 << 20,
        }
    }
}

/// One function before and after a security fix.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// What was fixed.
    #[serde(flatten)]
    pub vulnerability: Vulnerability,
    /// Other vulnerabilities whose fix has the same two texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Where.
    pub repository: String,
    /// The commit, or the patch of a source package.
    pub commit: String,
    /// The file after the fix.
    pub path: String,
    /// The function, with the scopes it is in.
    pub function: String,
    /// Its language.
    pub language: SnippetLanguage,
    /// The licence of the repository, if it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// How many functions the fix changes, tests left out.
    pub functions_in_fix: usize,
    /// The vulnerable side.
    pub before: String,
    /// The fixed side.
    pub after: String,
}

impl Pair {
    /// What the pair is: its language and both texts, and nothing of where it was found.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new_derive_key("everbench tosss pair v1");
        for part in [self.language.name(), &self.before, &self.after] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// What its answer has in common with others: the vulnerability, or the commit.
    pub fn cluster(&self) -> &str {
        match self.vulnerability.id.is_empty() {
            true => &self.commit,
            false => &self.vulnerability.id,
        }
    }
}

/// Something that gives no pair.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct NoPair {
    /// Of which vulnerability.
    pub id: String,
    /// The commit or patch.
    pub commit: String,
    /// The file, if it is one file or function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The function, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Why.
    pub reason: Dropped,
}

/// What fixes gave.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mined {
    /// The pairs, in the order of the fixes, each pair of texts once.
    pub pairs: Vec<Pair>,
    /// What gave none.
    pub dropped: Vec<NoPair>,
}

impl Mined {
    /// How often each reason occurred.
    pub fn counts(&self) -> BTreeMap<Dropped, usize> {
        let mut counts = BTreeMap::new();
        for dropped in &self.dropped {
            *counts.entry(dropped.reason).or_default() += 1;
        }
        counts
    }

    /// Puts the pairs of several fixes together; the first fix of a pair of texts keeps it, and
    /// names the others.
    pub fn join<'a>(all: impl IntoIterator<Item = &'a Mined>) -> Mined {
        let mut joined = Mined::default();
        let mut known: BTreeMap<Digest, usize> = BTreeMap::new();
        for mined in all {
            joined.dropped.extend_from_slice(&mined.dropped);
            for pair in &mined.pairs {
                let digest = pair.digest();
                let Some(&first) = known.get(&digest) else {
                    known.insert(digest, joined.pairs.len());
                    joined.pairs.push(pair.clone());
                    continue;
                };
                let kept = &mut joined.pairs[first];
                let id = pair.vulnerability.id.clone();
                if kept.vulnerability.id != id && !kept.also.contains(&id) {
                    kept.also.push(id);
                }
                joined.dropped.push(NoPair {
                    id: pair.vulnerability.id.clone(),
                    commit: pair.commit.clone(),
                    path: Some(pair.path.clone()),
                    function: Some(pair.function.clone()),
                    reason: Dropped::Duplicate,
                });
            }
        }
        joined
    }
}

/// The pairs of one fix. `bytes` gives what is behind a digest of the change.
///
/// # Errors
/// What `bytes` gives.
pub fn pairs<E>(
    fix: &Fix,
    change: &Change,
    limits: &Limits,
    bytes: impl Fn(Digest) -> Result<Arc<[u8]>, E>,
) -> Result<Mined, E> {
    let mut mined = Mined::default();
    let note = |path: Option<&str>, function: Option<&str>, reason| NoPair {
        id: fix.vulnerability.id.clone(),
        commit: fix.commit.clone(),
        path: path.map(str::to_string),
        function: function.map(str::to_string),
        reason,
    };
    let excluded = match change.parents {
        0 => Some(Dropped::Root),
        2.. => Some(Dropped::Merge),
        _ if change.files > limits.files => Some(Dropped::TooManyFiles),
        _ => None,
    };
    if let Some(reason) = excluded {
        mined.dropped.push(note(None, None, reason));
        return Ok(mined);
    }
    for (path, reason) in &change.left_out {
        mined.dropped.push(note(Some(path), None, *reason));
    }
    if change.sources.is_empty() && change.left_out.is_empty() {
        mined.dropped.push(note(None, None, Dropped::NoSource));
    }
    let mut functions = 0;
    let mut found = Vec::new();
    for file in &change.sources {
        let Some(language) = SnippetLanguage::of_path(&file.path) else {
            mined
                .dropped
                .push(note(Some(&file.path), None, Dropped::NoSource));
            continue;
        };
        let (before, after) = (bytes(file.before)?, bytes(file.after)?);
        let sides = [&before[..], &after[..]];
        let unfit = if is_test(&file.path) {
            Some(Dropped::Test)
        } else if sides.iter().any(|s| s.len() > limits.bytes) {
            Some(Dropped::TooLarge)
        } else if sides.iter().any(|s| s.contains(&0)) {
            Some(Dropped::Binary)
        } else if is_generated(&after) {
            Some(Dropped::Generated)
        } else {
            None
        };
        if let Some(reason) = unfit {
            mined.dropped.push(note(Some(&file.path), None, reason));
            continue;
        }
        let changed = changed(language, &before, &after);
        functions += changed.pairs.len();
        for (name, reason) in &changed.dropped {
            let name = (!name.is_empty()).then_some(name.as_str());
            mined.dropped.push(note(Some(&file.path), name, *reason));
        }
        if changed.pairs.is_empty() && changed.dropped.is_empty() {
            mined
                .dropped
                .push(note(Some(&file.path), None, Dropped::NoFunction));
        }
        found.extend(changed.pairs.into_iter().map(|c| (file, language, c)));
    }
    if functions > limits.functions {
        mined
            .dropped
            .push(note(None, None, Dropped::TooManyFunctions));
        return Ok(mined);
    }
    for (file, language, changed) in found {
        if let Some(reason) = unfit(&changed, limits) {
            mined
                .dropped
                .push(note(Some(&file.path), Some(&changed.name), reason));
            continue;
        }
        let mut vulnerability = fix.vulnerability.clone();
        vulnerability.published = vulnerability.published.or_else(|| change.date.clone());
        mined.pairs.push(Pair {
            vulnerability,
            also: Vec::new(),
            repository: fix.repository.clone(),
            commit: fix.commit.clone(),
            path: file.path.clone(),
            function: changed.name,
            language,
            licence: change.licence.clone(),
            functions_in_fix: functions,
            before: changed.before,
            after: changed.after,
        });
    }
    Ok(mined)
}

/// A function whose code differs.
struct ChangedFunction {
    name: String,
    before: String,
    after: String,
}

/// What differs between two sides of a file.
#[derive(Default)]
struct ChangedFunctions {
    pairs: Vec<ChangedFunction>,
    dropped: Vec<(String, Dropped)>,
}

fn changed(language: SnippetLanguage, before: &[u8], after: &[u8]) -> ChangedFunctions {
    let mut result = ChangedFunctions::default();
    let [old, new] = language.differing(before, after);
    let split = split(&old, &new);
    let text = |side: &[u8], s: &Snippet| decode(&side[s.range.clone()]);
    let (matched, only_before, only_after) = matched(&old.found, &new.found);
    for (x, y) in matched {
        let name = y.name.clone();
        let (a, b) = (&before[x.range.clone()], &after[y.range.clone()]);
        if a == b {
            continue;
        }
        let reason = if plain(a) == plain(b) {
            Some(Dropped::Equal)
        } else if language.substance(a) == language.substance(b) {
            Some(Dropped::LayoutOnly)
        } else {
            None
        };
        match reason {
            Some(reason) => result.dropped.push((name, reason)),
            None if (x.broken || y.broken) && !matches!(language, SnippetLanguage::Compiled(_)) => {
                result.dropped.push((name, Dropped::Garbled));
            }
            None => result.pairs.push(ChangedFunction {
                name,
                before: text(before, x),
                after: text(after, y),
            }),
        }
    }
    for (side, reason) in [
        (only_before, Dropped::OnlyBefore),
        (only_after, Dropped::OnlyAfter),
    ] {
        for snippet in side {
            let reason = match split.contains(snippet.name.as_str()) {
                true => Dropped::SplitByIfdef,
                false => reason,
            };
            result.dropped.push((snippet.name.clone(), reason));
        }
    }
    for snippet in &new.skipped {
        let same = |s: &&NoSnippet| s.name == snippet.name && s.reason == snippet.reason;
        let texts: Vec<&[u8]> = old
            .skipped
            .iter()
            .filter(same)
            .map(|s| &before[s.range.clone()])
            .collect();
        // It is on both sides, and none of those before has this text.
        if !texts.is_empty() && !texts.contains(&&after[snippet.range.clone()]) {
            let reason = match snippet.reason {
                SkipReason::SplitByIfdef => Dropped::SplitByIfdef,
                _ => Dropped::Undelimited,
            };
            let name = snippet.name.clone().unwrap_or_default();
            result.dropped.push((name, reason));
        }
    }
    result
}

/// Names that conditionals split on either side.
fn split<'a>(old: &'a Snippets, new: &'a Snippets) -> BTreeSet<&'a str> {
    let all = old.skipped.iter().chain(&new.skipped);
    all.filter(|s| s.reason == SkipReason::SplitByIfdef)
        .filter_map(|s| s.name.as_deref())
        .collect()
}

type Matched<'a> = (
    Vec<(&'a Snippet, &'a Snippet)>,
    Vec<&'a Snippet>,
    Vec<&'a Snippet>,
);

/// Functions of both sides that are one function, in the order of the new side, and what is left
/// on either.
fn matched<'a>(old: &'a [Snippet], new: &'a [Snippet]) -> Matched<'a> {
    let mut by_name: BTreeMap<&str, Vec<&Snippet>> = BTreeMap::new();
    for snippet in old {
        by_name.entry(&snippet.name).or_default().push(snippet);
    }
    let mut pairs = Vec::new();
    let mut rest: Vec<&Snippet> = Vec::new();
    // Equal parameters first, in order: two of the same name and parameters are branches of one
    // conditional.
    for snippet in new {
        let candidates = by_name.entry(&snippet.name).or_default();
        match candidates
            .iter()
            .position(|s| s.parameters == snippet.parameters)
        {
            Some(at) => pairs.push((candidates.remove(at), snippet)),
            None => rest.push(snippet),
        }
    }
    // What is left of a name on both sides, once each, is one function with other parameters.
    let (single, only_after): (Vec<&Snippet>, Vec<&Snippet>) = rest.iter().partition(|s| {
        let same = |o: &&&Snippet| o.name == s.name;
        let left = by_name.get(s.name.as_str()).map_or(0, Vec::len);
        left == 1 && rest.iter().filter(same).count() == 1
    });
    for snippet in single {
        if let Some(other) = by_name.get_mut(snippet.name.as_str()).and_then(Vec::pop) {
            pairs.push((other, snippet));
        }
    }
    pairs.sort_by_key(|(_, s)| s.range.start);
    let mut only_before: Vec<&Snippet> = by_name.into_values().flatten().collect();
    only_before.sort_by_key(|s| s.range.start);
    (pairs, only_before, only_after)
}

/// A text without carriage returns and blanks at the ends of lines.
fn plain(text: &[u8]) -> Vec<&[u8]> {
    let lines = text.split(|b| *b == b'\n');
    lines.map(<[u8]>::trim_ascii_end).collect()
}

fn unfit(changed: &ChangedFunction, limits: &Limits) -> Option<Dropped> {
    let sides = [&changed.before, &changed.after];
    let garbled = |text: &&String| {
        let layout = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{c}');
        let strange = |c: char| c == '\u{fffd}' || (c.is_control() && !layout(c));
        text.trim().is_empty() || text.chars().any(strange)
    };
    if sides.iter().any(garbled) {
        return Some(Dropped::Garbled);
    }
    // A word is a character at least, and between two there is another one.
    let words = |text: &&String| {
        text.len() / 2 >= limits.words && text.split_whitespace().count() > limits.words
    };
    sides.iter().any(words).then_some(Dropped::TooLong)
}

#[cfg(test)]
mod tests;
