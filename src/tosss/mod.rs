//! TOSSS: of two versions of one function, before and after a security fix, which does a model
//! prefer? A pure room: texts and facts in, pairs, questions, choices and scores out. It reads no
//! file, runs no git and asks nobody.
//!
//! - [`change`]: what a fix changes. - [`pair`]: the functions of that, before and after.
//! - [`debian`], [`patch`]: the patches of a source package as changes.
//! - [`jobs`]: what mining demands.
//! - [`record`]: where the fixes of CVEs are, in the formats in which that is published.
//! - [`question`], [`answer`]: what a model is asked, and the choice in its reply.
//! - [`baseline`]: answerers without a model. - [`bench`]: which pairs are asked, and all tables.
//! - [`megavul`]: pairs in that data set's schema.
//! - [`results`]: per-item results that other harnesses wrote.
//! - [`score`]: answers to scores, intervals, comparisons and groups.
//!
//! Words: a *pair* is one function before and after a fix; an *arm* is a wording of the question;
//! a *cluster* is what pairs have in common that makes their answers alike, the CVE.

pub mod answer;
pub mod baseline;
pub mod bench;
pub mod change;
mod csv;
pub mod debian;
pub mod jobs;
pub mod megavul;
pub mod pair;
pub mod patch;
pub mod query;
pub mod question;
pub mod record;
pub mod results;
pub mod score;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A wording of the question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Does not mention security.
    Hintless,
    /// Asks for the most secure implementation.
    Hint,
}

impl Arm {
    /// Both, in the order of the paper's tables.
    pub const ALL: [Arm; 2] = [Arm::Hintless, Arm::Hint];

    /// `hintless`, `hint`.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Hintless => "hintless",
            Arm::Hint => "hint",
        }
    }

    /// The arm of that name.
    pub fn named(name: &str) -> Option<Arm> {
        Arm::ALL.into_iter().find(|arm| arm.name() == name)
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
