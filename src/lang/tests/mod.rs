//! Tests of the room over text written for them, and of what holds for any bytes.

mod calibration;
mod functions;
mod unit;
mod variant;

use std::sync::OnceLock;

use super::{Language, QueryTexts};

/// C with the queries that come with the program.
pub(super) fn c() -> Language {
    static C: OnceLock<Language> = OnceLock::new();
    C.get_or_init(|| Language::c(&QueryTexts::c()).unwrap())
        .clone()
}
