//! Understands the recorded commands of a build and rewrites them: for the front end only, for
//! the preprocessor, with other outputs. Pure; nothing is run here.
//!
//! `words` reads a command line, `understand` says what it makes of what, `split` takes a command
//! that compiles and links apart, `rewrite` gives the commands that are replayed, `placeless` those
//! between which a text is freed of places.

mod placeless;
mod rewrite;
mod split;
#[cfg(test)]
mod tests;
mod understand;
mod words;

use serde::{Deserialize, Serialize};

use crate::oss::layout::REACH_HEADER;

pub use placeless::{Halves, halves};

/// What makes a unit note which of its functions are entered; see `reach.h`.
pub const REACHING: [&str; 3] = ["-finstrument-functions", "-include", REACH_HEADER];
pub use rewrite::{
    compile_to, diagnosed, only, out_path, preprocess, reached, relocate, retarget, syntax_only,
};
pub use split::{Part, split};
pub use understand::{Understood, continues, extracts, understand};
pub use words::takes_value;

/// One command as the recording tool saw it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// `cc`, `c++`, `ar`, `ranlib`, `ld`, `strip` or `objcopy`.
    pub tool: String,
    /// The arguments, without the program, response files expanded.
    pub argv: Vec<String>,
    /// The working directory inside the sandbox.
    pub cwd: String,
    /// True if the harness header was put in.
    pub harness: bool,
}
