//! Tests of the room over text written for them, and of what holds for any bytes.

mod calibration;
mod cpp;
mod functions;
mod placeless;
mod snippets;
mod unit;
mod variant;

use std::sync::OnceLock;

use super::{Language, LanguageId, QueryTexts};

/// C with the queries that come with the program.
pub(super) fn c() -> Language {
    static C: OnceLock<Language> = OnceLock::new();
    C.get_or_init(|| built_in(LanguageId::C)).clone()
}

/// C++ with the queries that come with the program.
pub(super) fn cpp() -> Language {
    static CPP: OnceLock<Language> = OnceLock::new();
    CPP.get_or_init(|| built_in(LanguageId::CPP)).clone()
}

fn built_in(language: LanguageId) -> Language {
    Language::new(language, &QueryTexts::of(language)).unwrap()
}
