//! Source text in C and its relatives as values: which functions a file defines, which of them the compiler gets, how
//! a function is replaced, and texts for a function whose outcome is known beforehand.
//!
//! Everything here is pure: bytes in, values out. Files are never decoded, never opened, never
//! run through a preprocessor; hostile bytes give a value, never a panic.
//!
//! Tokens come first (`lex`), then the top level of a text as a list of things (`outline`), then
//! the grammar decides on each head alone (`head`). So a macro that no grammar understands spoils
//! the function it is in and no other, and the same code reads sources, preprocessed units and
//! models' replies. What a definition looks like to the grammar is in `queries/<language>/*.scm`,
//! whose digest belongs into keys ([`Queries::digest`]). What else is particular to a language is
//! its entry in the table of `facts`; C++ has its own walk over the top level (`scopes`) and its
//! own reading of heads (`head_cpp`), and shares everything else.
//!
//! - [`LanguageId`]: the languages there are, and which one a file is in.
//! - [`functions`]: definitions of a file, and what is left out with the reason.
//! - [`compiled_definitions`], [`intersect`]: the compiler's view and how the two compare.
//! - [`StrippedUnit`]: what a function's verdict can depend on besides its own text.
//! - [`Parts`]: the bodies of a unit's functions, and all the rest.
//! - [`Substance`]: what of a unit is in its code, whatever its layout.
//! - [`placeless`]: a preprocessed unit in which no line depends on what stands around it.
//! - [`locate`]: where the text to be replaced is.
//! - [`splice`]: verified replacement of ranges.
//! - [`variant_of`]: from the code in a reply to the text to splice, or to a refusal.
//! - [`normalised`]: a text without its formatting.
//! - [`SnippetLanguage`]: functions to be shown and compared only, in more languages.
//! - [`Printed`]: functions with one statement a line, to be compared line by line.
//! - [`SyntaxNode`]: the syntax tree of any text in them, as values.
//! - [`calibration`]: edits with a known outcome.

mod braces;
pub mod calibration;
mod facts;
mod functions;
mod head;
mod head_cpp;
mod language;
mod lex;
mod locate;
mod mask;
mod normalise;
mod outline;
mod parts;
mod placeless;
mod reality;
mod scopes;
mod snippets;
mod splice;
mod statements;
mod substance;
mod syntax;
#[cfg(test)]
mod tests;
mod unit;
mod variant;
mod window;
mod words;

pub use facts::{Facts, LanguageId};
pub use functions::{
    Definition, FileFunctions, SkipReason, Skipped, function_alone, functions, is_called,
};
pub use language::{Language, Queries, QueryFault, QuerySet, QueryTexts};
pub use locate::{FOREIGN, LocateError, alone, locate, occurrences, with_comment};
pub use normalise::normalised;
pub use parts::Parts;
pub use placeless::{BODY, Placed, placeless, source_line};
pub use reality::{Intersection, OnlyCompiled, OnlyCompiledReason, Reality, intersect};
pub use snippets::{NoSnippet, Snippet, SnippetLanguage, Snippets};
pub use splice::{Splice, SpliceError, splice};
pub use statements::{Leaf, Printed};
pub use substance::Substance;
pub use syntax::{CLOSES, OPENS, SyntaxNode};
pub use unit::{CompiledDefinition, Context, StrippedUnit, compiled_definitions, strip_unit};
pub use variant::{ExtraKind, Note, Refusal, Variant, variant_of};

use reality::same_path;
