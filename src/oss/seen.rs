//! How old the texts of a subject's functions are. Of each text is kept when a commit that was
//! followed first had it, and the date of the commit before, which lacked it: it was not there before
//! that. Only dates that the source itself has bound an age from below; when this program came to look
//! says nothing about when a text was written.
//!
//! A commit lacks a text if its lines but the first and the last, without white space, stand together
//! in no file of the commit's tree, whatever of it is compiled or selected. So a function that moved,
//! was renamed, indented anew or is drawn from only now is not young. What cannot be seen from here:
//! text that was published elsewhere before, and text from before the first commit that was followed
//! and came back.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The version of the document.
pub const SCHEMA: &str = "everbench/texts/1";

/// The ages of a subject's texts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ages {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was looked at, in the order in which that was.
    pub followed: Vec<Followed>,
    /// By the digest of a text.
    pub texts: BTreeMap<Digest, Age>,
}

/// A state of a subject that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Followed {
    /// A version, or a snapshot's digest.
    pub commit: String,
    /// The source tree.
    pub tree: Digest,
    /// When it was committed, or when it was looked at: `2026-11-30T18:52:34Z`.
    pub date: String,
    /// Whether the date is the source's own.
    pub dated: bool,
}

/// The age of a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Age {
    /// The date of the first state that had it.
    pub seen: String,
    /// The date of the last one before, which lacked it; absent when that is not known.
    pub not_before: Option<String>,
}

impl Default for Ages {
    fn default() -> Self {
        Ages {
            schema: SCHEMA.into(),
            followed: Vec::new(),
            texts: BTreeMap::new(),
        }
    }
}

impl Ages {
    /// The state by which the ages of new texts of `now` are bound: the last one that is not younger.
    pub fn before(&self, now: &Followed) -> Option<&Followed> {
        let older = |f: &&Followed| f.dated && f.date <= now.date && f.tree != now.tree;
        let dated = self.followed.iter().filter(older);
        dated.max_by_key(|f| &f.date).filter(|_| now.dated)
    }

    /// The texts among these that are not known yet.
    pub fn unknown<'a>(&self, texts: impl IntoIterator<Item = &'a Digest>) -> HashSet<Digest> {
        let new = texts.into_iter().filter(|t| !self.texts.contains_key(t));
        new.copied().collect()
    }

    /// Takes in a state with its texts. `lacked` are those of its unknown texts of which it was
    /// found out that the state [before](Ages::before) lacks them.
    pub fn follow<'a>(
        &mut self,
        now: Followed,
        texts: impl IntoIterator<Item = &'a Digest>,
        lacked: &HashSet<Digest>,
    ) {
        let bound = self.before(&now).map(|f| f.date.clone());
        for text in texts {
            let new = Age {
                seen: now.date.clone(),
                not_before: bound.clone().filter(|_| lacked.contains(text)),
            };
            let age = self.texts.entry(*text).or_insert(new);
            if now.date < age.seen {
                // It was there earlier than thought, and perhaps earlier than it was thought absent.
                age.seen.clone_from(&now.date);
                age.not_before = age.not_before.take().filter(|bound| *bound <= now.date);
            }
        }
        if !self.followed.contains(&now) {
            self.followed.push(now);
        }
    }

    /// Whether a text cannot have existed in this source before `date`; nothing when its age is not
    /// known.
    pub fn since(&self, text: &Digest, date: &str) -> Option<bool> {
        let age = self.texts.get(text)?;
        match &age.not_before {
            Some(bound) if bound.as_str() >= date => Some(true),
            // It was there by then, as far as its source's dates can be believed.
            _ if age.seen.as_str() < date && self.dated(&age.seen) => Some(false),
            Some(_) => Some(false),
            None => None,
        }
    }

    fn dated(&self, date: &str) -> bool {
        self.followed.iter().any(|f| f.dated && f.date == date)
    }
}

/// The lines of the files of a tree, without white space.
#[derive(Default)]
pub struct Lines {
    files: Vec<Vec<u64>>,
    /// Of each line, where it stands.
    places: HashMap<u64, Vec<(u32, u32)>>,
    /// The files' bytes without white space, for texts of so few lines that none is whole.
    plain: Vec<Vec<u8>>,
}

impl Lines {
    /// Adds a file.
    pub fn add(&mut self, bytes: &[u8]) {
        let file = self.files.len() as u32;
        let lines: Vec<u64> = lines(bytes).collect();
        for (at, line) in lines.iter().enumerate() {
            self.places
                .entry(*line)
                .or_default()
                .push((file, at as u32));
        }
        self.files.push(lines);
        self.plain.push(without_space(bytes));
    }

    /// Whether the text is in none of the files.
    pub fn lack(&self, text: &[u8]) -> bool {
        let all: Vec<u64> = lines(text).collect();
        let inner = match all.as_slice() {
            [_, inner @ .., _] if !inner.is_empty() => inner,
            _ => {
                let text = without_space(text);
                let has = |file: &Vec<u8>| file.windows(text.len().max(1)).any(|w| w == text);
                return !self.plain.iter().any(has);
            }
        };
        // The line that stands in the fewest places is looked at there.
        let places = |line: &u64| self.places.get(line).map_or(0, Vec::len);
        let rarest = inner
            .iter()
            .enumerate()
            .min_by_key(|(_, line)| places(line));
        let Some((offset, line)) = rarest else {
            return true;
        };
        let here = |(file, at): &(u32, u32)| {
            let start = (*at as usize).checked_sub(offset);
            let file = &self.files[*file as usize];
            start.is_some_and(|start| file.get(start..start + inner.len()) == Some(inner))
        };
        !self.places.get(line).into_iter().flatten().any(here)
    }
}

/// The hashes of the lines that are not empty.
fn lines(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.split(|b| *b == b'\n').filter_map(|line| {
        let line = without_space(line);
        let hash = blake3::hash(&line);
        let word = hash.as_bytes()[..8].try_into().expect("8 bytes");
        (!line.is_empty()).then(|| u64::from_le_bytes(word))
    })
}

fn without_space(bytes: &[u8]) -> Vec<u8> {
    let solid = bytes.iter().filter(|b| !b.is_ascii_whitespace());
    solid.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn state(date: &str, dated: bool) -> Followed {
        Followed {
            commit: date.into(),
            tree: text(date),
            date: date.into(),
            dated,
        }
    }

    fn follow(ages: &mut Ages, date: &str, dated: bool, texts: &[&str]) {
        let texts: Vec<Digest> = texts.iter().map(|t| text(t)).collect();
        let new = ages.unknown(&texts);
        ages.follow(state(date, dated), &texts, &new);
    }

    fn since(ages: &Ages, name: &str, date: &str) -> Option<bool> {
        ages.since(&text(name), date)
    }

    #[test]
    fn an_age_is_bound_by_the_commit_before_and_only_if_there_was_one() {
        let mut ages = Ages::default();
        follow(&mut ages, "2024-01-10", true, &["old"]);
        follow(&mut ages, "2024-03-01", true, &["old", "new"]);
        assert_eq!(
            since(&ages, "old", "2023-01-01"),
            None,
            "older than the first"
        );
        assert_eq!(since(&ages, "old", "2024-02-01"), Some(false));
        assert_eq!(since(&ages, "new", "2024-01-10"), Some(true));
        // It may be from any day between the two.
        assert_eq!(since(&ages, "new", "2024-02-01"), Some(false));
        assert_eq!(since(&ages, "never", "2024-02-01"), None);
        // Going back finds a text earlier: then it may be of any age.
        follow(&mut ages, "2023-12-01", true, &["new"]);
        assert_eq!(since(&ages, "new", "2023-06-01"), None);
        assert_eq!(since(&ages, "new", "2024-01-10"), Some(false));
        // What came back is what it was.
        follow(&mut ages, "2024-05-01", true, &["old", "newer"]);
        assert_eq!(since(&ages, "old", "2024-04-01"), Some(false));
        assert_eq!(since(&ages, "newer", "2024-03-01"), Some(true));
    }

    #[test]
    fn the_clock_bounds_nothing() {
        let mut ages = Ages::default();
        follow(&mut ages, "2024-01-10", false, &["a"]);
        follow(&mut ages, "2024-02-10", false, &["a", "b"]);
        assert_eq!(since(&ages, "b", "2024-01-01"), None);
        assert_eq!(since(&ages, "a", "2024-06-01"), None);
        follow(&mut ages, "2024-03-10", true, &["a", "b", "c"]);
        assert_eq!(
            since(&ages, "c", "2024-01-01"),
            None,
            "no dated commit before"
        );
    }

    #[test]
    fn moved_renamed_and_indented_text_is_not_lacking() {
        let mut tree = Lines::default();
        tree.add(b"int f(int a)\n{\n    a += 1;\n    return a;\n}\n\nint g(void) { return 1; }\n");
        tree.add(b"x\n");
        for there in [
            "int f(int a)\n{\n    a += 1;\n    return a;\n}",
            "int other(int a)\n{\n\ta += 1;\n\n\treturn a;\n}",
            "int g(void)\n{ return 1; }",
        ] {
            assert!(!tree.lack(there.as_bytes()), "{there}");
        }
        for lacking in [
            "int f(int a)\n{\n    a += 2;\n    return a;\n}",
            "int f(int a)\n{\n    return a;\n    a += 1;\n}",
            "int g(void) { return 2; }",
        ] {
            assert!(tree.lack(lacking.as_bytes()), "{lacking}");
        }
    }
}
