//! The functions of a file against what the compiler really got: which are compiled, in which
//! units, and what only one of the two sides sees, with the reason. Nothing is dropped: every
//! definition of either side is in exactly one list.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::facts::LanguageId;
use super::functions::{Definition, FileFunctions, SkipReason, path_of};
use super::outline::Outline;
use super::unit::{CompiledDefinition, Markers};

/// Whether a definition reaches the compiler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reality {
    /// In these units, by their number, ascending.
    Compiled {
        /// Numbers of units in the list that was given.
        units: Vec<usize>,
        /// Its place among the definitions of each of these.
        orders: Vec<usize>,
        /// Other names it is compiled under, when a macro renames it; sorted.
        renamed: Vec<String>,
    },
    /// In none: its variants could not fail, so it is unrelated.
    NotCompiled,
}

/// A definition of the compiler's side that has no replaceable counterpart in the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OnlyCompiled {
    /// The function's name.
    pub name: String,
    /// The file its name stands in, as the units name it.
    pub file: String,
    /// The line of its name in the file.
    pub line: usize,
    /// The units it is in, ascending.
    pub units: Vec<usize>,
    /// Why the file has no counterpart.
    pub reason: OnlyCompiledReason,
}

/// Why the file has no counterpart of a compiled definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyCompiledReason {
    /// Conditionals cut through it.
    SplitByIfdef,
    /// A macro makes it or its name.
    MacroDefined,
    /// The file's text there is not C.
    ParseError,
    /// Nothing on that line: the line marker names a file the text was generated from.
    Generated,
}

impl fmt::Display for OnlyCompiledReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnlyCompiledReason::SplitByIfdef => "split_by_ifdef",
            OnlyCompiledReason::MacroDefined => "macro_defined",
            OnlyCompiledReason::ParseError => "parse_error",
            OnlyCompiledReason::Generated => "generated",
        })
    }
}

/// What [`intersect`] finds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Intersection {
    /// Every definition of the file, in its order.
    pub definitions: Vec<(Definition, Reality)>,
    /// What only the preprocessed side sees, in order of line.
    pub only_compiled: Vec<OnlyCompiled>,
}

/// Matches the functions of the file at `path` (`source` is its text) with the definitions of all
/// `units`: the same name, on the line of the name. A definition whose head a macro spreads over
/// lines still matches on any line of its head; one that a macro renames (`#define find my_find`)
/// matches under the other name when it is the only one with its name on that line.
///
/// A file may say by `#line` that its lines are another file's. What such a name stands for depends
/// on the unit, by its number, and is what `named` gives: the files of `units` must be named alike.
pub fn intersect(
    language: LanguageId,
    found: &FileFunctions,
    source: &[u8],
    path: &str,
    units: &[&[CompiledDefinition]],
    named: &dyn Fn(usize, &str) -> String,
) -> Intersection {
    let lines = super::lex::Lines::of(source);
    let last_line = lines.line(source.len());
    let markers = Markers::of(&Outline::of(language, source));
    let heads: Vec<(String, RangeInclusive<usize>, usize)> = found
        .definitions
        .iter()
        .map(|d| {
            let (file, line) = markers.place(d.name_range.start);
            let first = markers.place(d.definition.start).1;
            (file, first..=markers.place(d.body.start).1, line)
        })
        .collect();
    let mut seen: Vec<Vec<usize>> = vec![Vec::new(); found.definitions.len()];
    let mut orders: Vec<Vec<usize>> = vec![Vec::new(); found.definitions.len()];
    let mut renamed: Vec<Vec<String>> = vec![Vec::new(); found.definitions.len()];
    let mut only: Vec<OnlyCompiled> = Vec::new();
    for (unit, definitions) in units.iter().enumerate() {
        let names: BTreeMap<&str, String> = heads
            .iter()
            .filter(|(name, _, _)| !name.is_empty())
            .map(|(name, _, _)| (name.as_str(), named(unit, name)))
            .collect();
        let here =
            |file: &str| same_path(file, path) || names.values().any(|name| same_path(name, file));
        for (order, compiled) in definitions.iter().enumerate() {
            if !here(&compiled.file) {
                continue;
            }
            let in_file = |k: usize| {
                let name = names.get(heads[k].0.as_str());
                same_path(name.map_or(path, String::as_str), &compiled.file)
            };
            let matching = (0..heads.len()).find(|k| {
                same_function(&found.definitions[*k].name, &compiled.name)
                    && heads[*k].1.contains(&compiled.line)
                    && in_file(*k)
            });
            let mut on_line =
                (0..heads.len()).filter(|k| heads[*k].2 == compiled.line && in_file(*k));
            let matching = matching.or_else(|| match (on_line.next(), on_line.next()) {
                (Some(k), None) => {
                    renamed[k].push(compiled.name.clone());
                    Some(k)
                }
                _ => None,
            });
            let units = match matching {
                Some(k) => {
                    if seen[k].last() != Some(&unit) {
                        orders[k].push(order);
                    }
                    &mut seen[k]
                }
                None => {
                    let known = only.iter().position(|o| {
                        (&o.name, &o.file, o.line)
                            == (&compiled.name, &compiled.file, compiled.line)
                    });
                    let k = known.unwrap_or_else(|| {
                        only.push(OnlyCompiled {
                            name: compiled.name.clone(),
                            file: compiled.file.clone(),
                            line: compiled.line,
                            units: Vec::new(),
                            reason: reason(found, source, &lines, last_line, compiled),
                        });
                        only.len() - 1
                    });
                    &mut only[k].units
                }
            };
            if units.last() != Some(&unit) {
                units.push(unit);
            }
        }
    }
    only.sort_by(|a, b| (a.line, &a.name, &a.file).cmp(&(b.line, &b.name, &b.file)));
    let definitions = found
        .definitions
        .iter()
        .cloned()
        .zip(seen.into_iter().zip(orders).zip(renamed))
        .map(|(definition, ((units, orders), mut renamed))| {
            renamed.sort();
            renamed.dedup();
            let reality = if units.is_empty() {
                Reality::NotCompiled
            } else {
                Reality::Compiled {
                    units,
                    orders,
                    renamed,
                }
            };
            (definition, reality)
        })
        .collect();
    Intersection {
        definitions,
        only_compiled: only,
    }
}

fn reason(
    found: &FileFunctions,
    source: &[u8],
    lines: &super::lex::Lines,
    last_line: usize,
    compiled: &CompiledDefinition,
) -> OnlyCompiledReason {
    let covering = found
        .skipped
        .iter()
        .find(|s| (s.lines.0..=s.lines.1).contains(&compiled.line));
    match covering.map(|s| s.reason) {
        Some(SkipReason::SplitByIfdef) => OnlyCompiledReason::SplitByIfdef,
        Some(SkipReason::MacroDefined) => OnlyCompiledReason::MacroDefined,
        Some(SkipReason::ParseError) => OnlyCompiledReason::ParseError,
        None if compiled.line > last_line => OnlyCompiledReason::Generated,
        None => {
            let line = source
                .split(|c| *c == b'\n')
                .nth(compiled.line.saturating_sub(1))
                .unwrap_or_default();
            let inside = found.definitions.iter().any(|d| {
                (lines.line(d.definition.start)..=lines.line(d.definition.end))
                    .contains(&compiled.line)
            });
            if inside || line.contains(&b'(') {
                OnlyCompiledReason::MacroDefined
            } else {
                OnlyCompiledReason::Generated
            }
        }
    }
}

/// Whether two names can be one function's: a macro may open a namespace that the file's own text
/// does not show.
fn same_function(a: &str, b: &str) -> bool {
    a == b || {
        let (a, b) = (path_of(a), path_of(b));
        a.last() == b.last() && (a.len() > 1 || b.len() > 1)
    }
}

/// Whether two paths are spelt alike once `.` and `..` are resolved by their text alone.
pub(super) fn same_path(a: &str, b: &str) -> bool {
    a == b || (may_be_same(a, b) && resolved(a) == resolved(b))
}

/// False when the last parts differ and mean what they say: most pairs are told apart by that.
fn may_be_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.rsplit('/').next(), b.rsplit('/').next());
    let odd = |part: Option<&str>| matches!(part, None | Some("" | "." | ".."));
    a == b || odd(a) || odd(b)
}

fn resolved(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = Vec::new();
    for (k, part) in path.split('/').enumerate() {
        match part {
            "" if k > 0 => {}
            "." => {}
            ".." if parts.last().is_some_and(|p| *p != ".." && !p.is_empty()) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts
}
