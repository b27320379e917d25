//! Was a repository in a model's training data? A pure room: files in, signature snippets out. It
//! reads no file, runs no git and asks nobody.
//!
//! - [`signature`]: what a signature snippet is, and every threshold as a setting.
//! - [`words`]: files as tokens. - [`leaf`]: what mining takes from one file alone.
//! - [`clones`], [`texts`], [`sequences`]: the three kinds of pattern.
//! - [`mine`](mod@mine): from files to candidates. - [`model`]: how surprising a word is.
//! - [`corpus`]: families, in how many of them a word is, and the selection of snippets.
//!
//! Words: a *signature snippet* is a piece of a repository's text (its *context*) with what comes
//! next there (its *target*), such that who has seen the repository can know the target and nobody
//! else can guess it. A *family* is everything that was published from one upstream repository. The
//! *corpus* is a set of families of one language, without the repository under test.
//!
//! The method is BenchChecker's; what is chosen here because the paper's text is not to be had is
//! told in docs/contamination.md.

pub mod clones;
pub mod corpus;
pub mod leaf;
pub mod mine;
pub mod model;
pub mod sequences;
pub mod signature;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod words;

pub use corpus::{Corpus, Family, select};
pub use mine::{mine, random};
pub use signature::{
    Candidate, File, Mined, Pattern, Reason, Renaming, Selected, Settings, Snippet,
};
