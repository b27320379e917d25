//! The population as libclang sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Function;
use super::extract::{Making, Selected};
use crate::lang::{self, Language, Reality};
use crate::oss::{compiled, extractors};

/// Adds the functions of a file that libclang finds. One that the file's own reading has too is the
/// same function with the same text, so that its verdicts are shared; one that only libclang has is
/// found again by its text.
pub(super) fn by_libclang(
    making: &mut Making<'_>,
    file: &Selected,
    language: &Language,
    documents: &[compiled::ExtractDoc],
) {
    let Selected {
        found,
        both,
        source,
        path,
        ..
    } = file;
    let view = extractors::view(language, found, source, path, documents);
    for skipped in &found.skipped {
        let seen = |f: &extractors::Foreign| (skipped.lines.0..=skipped.lines.1).contains(&f.line);
        if !view.foreign.iter().any(seen) {
            making.exclude(&skipped.reason.to_string(), 1);
        }
    }
    let before = making.population.functions.len();
    for ((definition, reality), seen) in both.definitions.iter().zip(&view.seen) {
        let id = making.id(&definition.name);
        if !making.in_window(definition.tokens) {
            continue;
        }
        match (extractors::missing(reality, *seen, documents), reality) {
            (None, Reality::Compiled { units, orders, .. }) => {
                making.add(id, file, definition, (units, orders));
            }
            (Some("not_compiled") | None, _) => making.population.unrelated.push(id),
            (Some(reason), _) => making.exclude(reason, 1),
        }
    }
    let mut foreign_ranks: BTreeMap<&str, usize> = BTreeMap::new();
    for foreign in &view.foreign {
        let span = match &foreign.span {
            Ok(span) => span.clone(),
            Err(reason) => {
                making.exclude(reason, 1);
                continue;
            }
        };
        let rank = foreign_ranks.entry(&foreign.name).or_default();
        let ordinal = lang::FOREIGN + *rank;
        *rank += 1;
        let id = making.id(&foreign.name);
        let text = &source[span.clone()];
        let alone = lang::functions(language, text);
        let tokens = lang::alone(&alone, &foreign.name).map_or(0, |d| d.tokens);
        if !making.in_window(tokens) {
            continue;
        }
        let line = 1 + source[..span.start].iter().filter(|c| **c == b'\n').count();
        let order = |unit| making.units.order(unit, &foreign.name, foreign.line, path);
        let contexts = foreign.units.iter();
        let contexts = contexts.map(|unit| making.units.context(*unit, order(*unit)));
        let contexts = contexts.collect();
        let name = (foreign.name.as_str(), ordinal);
        making.place(id, file, name, (span, line), &foreign.units, contexts);
    }
    // Those that only libclang has take their places among the others.
    let place = |f: &Arc<Function>| making.places[&f.id].start;
    let mut here: Vec<Arc<Function>> = making.population.functions[before..].to_vec();
    here.sort_by_key(place);
    making.population.functions.splice(before.., here);
}
