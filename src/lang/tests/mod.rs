//! Tests of the room over text written for them, and of what holds for any bytes.

mod calibration;
mod functions;
mod unit;
mod variant;

use super::{Language, QueryTexts};

/// C with the queries that come with the program.
pub(super) fn c() -> Language {
    Language::c(&QueryTexts::c()).unwrap()
}
