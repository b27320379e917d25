//! What a signature snippet is, what mining and selection give, and every threshold they use. Types
//! only: how snippets are found is in the files beside this one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A file of a repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its path in the repository, with `/`.
    pub path: String,
    /// Its bytes, whatever they are.
    pub bytes: Arc<[u8]>,
}

/// What kind of repetition a snippet was found by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// It stands in a block of code of which there is a near copy.
    Clone,
    /// It stands in a paragraph or comment of which there is a near copy.
    Text,
    /// Its target ends a sequence of identifiers that several functions have.
    Cooccurrence,
}

/// A signature snippet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snippet {
    /// How it was found.
    pub pattern: Pattern,
    /// The file it stands in.
    pub path: String,
    /// The byte of that file at which the target begins.
    pub offset: u64,
    /// q: the file's text before the target, as it is there, 24 to 64 tokens that end where the
    /// target begins. It starts at the beginning of a line where that can be.
    pub context: String,
    /// t: one identifier, or two to four words of text.
    pub target: String,
    /// Of the clone class, of the group of near copies, or of the sequence: of each, one snippet is
    /// asked.
    pub class: Digest,
    /// In how many different functions or files the end of the context is followed by the target.
    pub repeats: u32,
    /// How many families of the corpus have the target.
    pub df: u32,
    /// Surprisal of the target after the context under the corpus' reference model, in bits.
    pub bits: f64,
}

/// A snippet before anything is known of the corpus: repetitive, and its target is not in its
/// context.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// How it was found.
    pub pattern: Pattern,
    /// The file it stands in.
    pub path: String,
    /// The byte of that file at which the target begins.
    pub offset: u64,
    /// As [`Snippet::context`].
    pub context: String,
    /// As [`Snippet::target`].
    pub target: String,
    /// As [`Snippet::class`].
    pub class: Digest,
    /// As [`Snippet::repeats`].
    pub repeats: u32,
    /// Where in the repository the target follows the end of the context.
    pub reach: Reach,
}

/// Which parts of a repository show that a target follows the end of a context. A part is a block of 64
/// tokens of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reach {
    /// For the last token of the context, the last two, and so on up to [`Settings::end_tokens`]: in how
    /// many parts they are followed by something else, and not by the target.
    pub others: Vec<u32>,
    /// The numbers of the parts in which the target follows, each with how many of the context's last
    /// tokens stand before it there; at most 256, those with most tokens.
    pub parts: Vec<(u32, u8)>,
}

/// What a repository gives without a corpus.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Mined {
    /// In order: what is repeated most often, then by keyed hash.
    pub candidates: Vec<Candidate>,
    /// Files and places that were left out.
    pub excluded: BTreeMap<Reason, usize>,
    /// Files that were read.
    pub files: usize,
    /// Their tokens.
    pub tokens: usize,
    /// A sample of the hashes of what the files hold, sorted: by this a family that is the same
    /// repository, or holds it, or is held by it, is known.
    pub sample: Vec<u64>,
}

/// The snippets to be asked.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Selected {
    /// In the order in which they were chosen, at most [`Settings::probes`].
    pub snippets: Vec<Snippet>,
    /// Everything that was left out, in mining and in selection.
    pub excluded: BTreeMap<Reason, usize>,
}

/// Why a file or a place gives no snippet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A file in another language, and no text.
    OtherLanguage,
    /// A file of nothing but white space.
    Empty,
    /// A file in a tree of other people's code, by the name of a folder.
    Vendored,
    /// A file that says that a program wrote it.
    Generated,
    /// A file whose lines nobody wrote by hand: a minified one, or a table of data.
    Minified,
    /// A file with NUL bytes.
    Binary,
    /// A file that is not UTF-8, so that its text cannot be shown as it is.
    NotUtf8,
    /// A file larger than [`Settings::file_bytes`].
    TooLarge,
    /// A file that is a licence, or a place in a comment that speaks of one.
    Licence,
    /// A place whose text is like one elsewhere, but not followed by the same words.
    NotRepeated,
    /// A place that is repeated and in none of the three kinds of pattern.
    NoPattern,
    /// A place with fewer than [`Settings::context_tokens`] tokens before it.
    ShortContext,
    /// The target is in the context.
    InContext,
    /// The target is in too many families of the corpus.
    Common,
    /// The target can be guessed: its surprisal is below [`Settings::bits`].
    Guessable,
    /// Another snippet of its class is asked.
    SameClass,
    /// Enough snippets have this target.
    SameTarget,
    /// Enough snippets are in this file.
    SameFile,
    /// It overlaps with a snippet that is asked.
    SamePlace,
    /// There are enough snippets.
    Enough,
}

impl Reason {
    /// As in JSON: `other_language`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::OtherLanguage => "other_language",
            Reason::Empty => "empty",
            Reason::Vendored => "vendored",
            Reason::Generated => "generated",
            Reason::Minified => "minified",
            Reason::Binary => "binary",
            Reason::NotUtf8 => "not_utf8",
            Reason::TooLarge => "too_large",
            Reason::Licence => "licence",
            Reason::NotRepeated => "not_repeated",
            Reason::NoPattern => "no_pattern",
            Reason::ShortContext => "short_context",
            Reason::InContext => "in_context",
            Reason::Common => "common",
            Reason::Guessable => "guessable",
            Reason::SameClass => "same_class",
            Reason::SameTarget => "same_target",
            Reason::SameFile => "same_file",
            Reason::SamePlace => "same_place",
            Reason::Enough => "enough",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What becomes of identifiers before blocks are compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renaming {
    /// All are one name.
    Blind,
    /// Each is numbered by its first use in the block.
    Consistent,
}

/// Every threshold of mining and selection. The defaults are those of docs/contamination.md.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Fewest and most tokens of a context.
    pub context_tokens: (usize, usize),
    /// How many tokens at the end of the context must be followed by the target elsewhere, too.
    pub repeated_tokens: usize,
    /// Fewest characters of an identifier that is a target.
    pub identifier_chars: usize,
    /// Fewest and most words of a text that is a target.
    pub target_words: (usize, usize),
    /// The largest share of families that may have a target; one always may.
    pub df_share: f64,
    /// The least surprisal of a target, in bits.
    pub bits: f64,
    /// The longest context of the reference model, in tokens.
    pub order: usize,
    /// The weight of copying from the context beside the reference model.
    pub copy_weight: f64,
    /// Fewest and most lines of a block, one statement a line.
    pub block_lines: (usize, usize),
    /// The largest part of either block's lines that the other may lack.
    pub dissimilarity: f64,
    /// What becomes of identifiers before blocks are compared.
    pub renaming: Renaming,
    /// Fewest words of a paragraph or comment.
    pub paragraph_words: usize,
    /// Words in a shingle.
    pub shingle_words: usize,
    /// The most bits in which the fingerprints of near copies differ.
    pub hamming: u32,
    /// Fewest functions that have a sequence.
    pub support: usize,
    /// Fewest and most identifiers of a sequence.
    pub sequence_items: (usize, usize),
    /// How far the next identifier of a sequence may be, counted in identifiers.
    pub gap: usize,
    /// A family of which this part is in the repository, or the other way round, is left out of the
    /// corpus.
    pub overlap: f64,
    /// Tokens of a family that the reference model is trained on at most.
    pub family_tokens: usize,
    /// Larger files are left out, in bytes.
    pub file_bytes: usize,
    /// Repeated places of one repository that are looked at: of these the first in order.
    pub candidates: usize,
    /// Most snippets of one class, in the first round.
    pub per_class: usize,
    /// Most snippets with one target.
    pub per_target: usize,
    /// Most snippets in one file, in the first round.
    pub per_file: usize,
    /// While there are fewer snippets than [`Settings::probes`], the limits of a class and of a file are
    /// doubled, in at most so many rounds; 1 for the first limits alone.
    pub rounds: usize,
    /// Most snippets.
    pub probes: usize,
    /// How many tokens of the end of a context are looked at to see which parts of the repository tell how
    /// it goes on.
    pub end_tokens: usize,
    /// The share of everything that a model is thought to have learnt when snippets are chosen: so
    /// likely is each other place where the end of a context stands to answer in the repository's place.
    pub learnt_share: f64,
    /// The key of the hash by which snippets are ordered.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            context_tokens: (24, 64),
            repeated_tokens: 3,
            identifier_chars: 6,
            target_words: (2, 4),
            df_share: 0.01,
            bits: 8.0,
            order: 5,
            copy_weight: 0.3,
            block_lines: (10, 2500),
            dissimilarity: 0.3,
            renaming: Renaming::Blind,
            paragraph_words: 20,
            shingle_words: 3,
            hamming: 3,
            support: 2,
            sequence_items: (2, 4),
            gap: 3,
            overlap: 0.5,
            family_tokens: 250_000,
            file_bytes: 1 << 20,
            candidates: 40_000,
            per_class: 1,
            per_target: 2,
            per_file: 3,
            rounds: 6,
            probes: 60,
            end_tokens: 8,
            learnt_share: 0.01,
            seed: 0,
        }
    }
}

impl Settings {
    /// tau: how many of `families` may have a target.
    pub fn most_families(&self, families: usize) -> u32 {
        let share = (self.df_share * families as f64).floor();
        (share as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_family_may_always_have_a_target_and_of_many_one_in_a_hundred() {
        let most = |families| Settings::default().most_families(families);
        assert_eq!([0, 99, 199, 200, 1000].map(most), [1, 1, 1, 2, 10]);
    }

    #[test]
    fn settings_are_read_with_defaults_and_unknown_ones_are_refused() {
        let read = |text| toml::from_str::<Settings>(text);
        let expected = Settings {
            bits: 9.0,
            ..Settings::default()
        };
        assert_eq!(read("bits = 9.0").ok(), Some(expected));
        assert!(read("bit = 9.0").is_err());
    }
}
