//! Was a repository in a model's training data? A pure room: files in, signature snippets out. It
//! reads no file, runs no git and asks nobody.
//!
//! - [`patch`]: was the patch of a bug's fix in a version of its repository?
//! - [`signature`]: what a signature snippet is, and every threshold as a setting.
//! - [`words`]: files as tokens. - [`leaf`]: what mining takes from one file alone.
//! - [`clones`], [`texts`], [`sequences`]: the three kinds of pattern.
//! - [`mine`](mod@mine): from files to candidates. - [`model`]: how surprising a word is.
//! - [`corpus`]: families, and in how many of them a word is. - [`reach`]: which parts of the repository tell
//!   how a context goes on. - [`select`](mod@select): which snippets are asked.
//! - [`probe`]: a snippet as a question to a model, and its answer as a hit or not.
//! - [`verdict`]: whether there are more hits than luck explains.
//! - [`findings`]: what was found, and which code scores leave out for it.
//! - [`named`]: OSS-Bench's own probe: does a model name the project of a function?
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
pub mod findings;
pub mod leaf;
pub mod mine;
pub mod model;
pub mod named;
pub mod patch;
pub mod probe;
mod reach;
pub mod select;
pub mod sequences;
pub mod signature;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod verdict;
pub mod words;

pub use corpus::{Corpus, Family};
pub use mine::{mine, random};
pub use select::select;
pub use signature::{
    Candidate, File, Mined, Pattern, Reach, Reason, Renaming, Selected, Settings, Snippet,
};
