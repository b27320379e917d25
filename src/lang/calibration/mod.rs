//! Calibration edits: for any function a fixed menu of texts whose outcome is known
//! beforehand, with which the whole chain from splice to score can be checked. The edits need no
//! header, keep every line where it was, and work for any return type, parameter list and
//! dialect from gnu89 on; they are made by the syntax tree, not by text search.
//!
//! What they promise: [`Edit::Preserving`] computes the same; [`Edit::BreaksCompile`] does not
//! compile (one item only fails to link, where the function is emitted and linked);
//! [`Edit::BreaksBehaviour`] computes something else when it is reached, as far as a syntax tree
//! can tell; [`Edit::PlantsMemoryError`] adds an error that a sanitizer reports each time the
//! function is entered and that is harmless without one.

mod insert;
mod rewrite;
mod tree;

use serde::{Deserialize, Serialize};

use super::functions::Definition;
use super::language::Language;
use tree::Parsed;

/// What an edit is known to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// The original bytes.
    Unchanged,
    /// Other text, the same behaviour.
    Preserving,
    /// Rejected by the compiler.
    BreaksCompile,
    /// Compiles and computes something else.
    BreaksBehaviour,
    /// Compiles, computes the same and makes a memory error or an undefined operation.
    PlantsMemoryError,
}

impl Edit {
    /// As it is written in project files and keys.
    pub fn name(self) -> &'static str {
        match self {
            Edit::Unchanged => "unchanged",
            Edit::Preserving => "preserving",
            Edit::BreaksCompile => "breaks_compile",
            Edit::BreaksBehaviour => "breaks_behaviour",
            Edit::PlantsMemoryError => "plants_memory_error",
        }
    }
}

/// One text for a function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MenuItem {
    /// What it does.
    pub edit: Edit,
    /// Its number among the function's items of the same edit, from 0.
    pub index: usize,
    /// How it does it, for example `heap_overflow`.
    pub how: String,
    /// What replaces the function's span.
    pub text: Vec<u8>,
}

/// The menu of `definition`, a function of `source`, sorted by edit and index. The same function
/// text always has the same menu. Edits that find nothing to act on are absent:
/// [`Edit::BreaksBehaviour`] may have no item, nor may [`Edit::PlantsMemoryError`] in a `constexpr`
/// function of C++, which can hold no such thing; the others have at least one.
pub fn menu(language: &Language, definition: &Definition, source: &[u8]) -> Vec<MenuItem> {
    let Some(parsed) = Parsed::of(language, definition, source) else {
        return Vec::new();
    };
    let mut items = Vec::new();
    let mut add = |edit: Edit, found: Vec<(&str, Vec<u8>)>| {
        for (index, (how, text)) in found.into_iter().enumerate() {
            items.push(MenuItem {
                edit,
                index,
                how: how.to_string(),
                text,
            });
        }
    };
    let original = vec![("unchanged", parsed.original().to_vec())];
    add(Edit::Unchanged, original);
    add(Edit::Preserving, rewrite::preserving(&parsed));
    add(Edit::BreaksCompile, insert::breaks_compile(&parsed));
    add(Edit::BreaksBehaviour, rewrite::breaks_behaviour(&parsed));
    add(
        Edit::PlantsMemoryError,
        insert::plants_memory_error(&parsed),
    );
    items
}
