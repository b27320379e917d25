//! How much of a patch is in one version of a file: where each block stands there, and how like it is
//! to the block before and after. Numbers only; what they mean is decided in `decide`.

use std::ops::Range;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::align::{Alignment, align, realigned};
use super::edit::{Block, Place, Site};
use super::source::{Source, Unit, dice};
use super::tree::label;
use crate::stats::mix::mix64;

/// What one version says of a site.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Where the function was found.
    pub found: Found,
    /// For each block of the site, what of it is there; empty if nothing was found.
    pub blocks: Vec<Measure>,
}

/// Where a site was found in a version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Under its own name, or it is no function.
    Same,
    /// Under another name.
    Renamed(String),
    /// Not in the file.
    Gone,
    /// There is no such file.
    NoFile,
}

/// How like a version is to the two sides of a block, each number from 0 to 1.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measure {
    /// The hunk's number in its file, from 0.
    pub hunk: usize,
    /// Similarity to the block before the patch.
    pub before: f64,
    /// Similarity to the block after it.
    pub after: f64,
    /// How much of the added lines is there; nothing if none are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<f64>,
    /// How much of the deleted lines is there; nothing if none are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<f64>,
    /// The line at which it stands in the version, from 1.
    pub line: usize,
    /// The bytes that were compared with the block before, and after.
    pub regions: [Range<usize>; 2],
}

/// What each other name costs in similarity: where both sides fit equally well but for names, the
/// one that has the names is the one that is there.
const RENAMED: f64 = 0.01;
/// A function of another name is taken for the same if so much of it is alike.
const SAME_FUNCTION: f64 = 0.6;

/// What is remembered of the versions that were measured before. It saves work and decides nothing but
/// which of two alignments of equal worth is taken.
#[derive(Debug, Default)]
pub struct Memory {
    stood: Option<Stood>,
    /// How like each block was to functions that have nothing to do with the site: before and after.
    others: FxHashMap<u64, Vec<[f64; 2]>>,
}

/// How the two sides of a site stood to the last version that has no tree: what is outside of functions, or
/// a large one. Most commits change nothing of it, or little.
#[derive(Debug)]
struct Stood {
    labels: Vec<u64>,
    sides: [Option<Alignment>; 2],
}

/// What `source`, a version of the site's file, says of the site.
pub fn measure(site: &Site, source: &Source<'_>) -> Seen {
    measure_again(site, source, &mut Memory::default())
}

/// The same, with what is remembered of versions that were measured before.
pub fn measure_again(site: &Site, source: &Source<'_>, memory: &mut Memory) -> Seen {
    let mut fixed = |unit: Unit| Seen {
        found: Found::Same,
        blocks: blocks_again(site, &unit, &mut memory.stood),
    };
    match &site.place {
        Place::Outside => fixed(source.outside()),
        Place::File => fixed(source.whole()),
        Place::Function { name, .. } => match find(site, source) {
            None => Seen {
                found: Found::Gone,
                blocks: Vec::new(),
            },
            Some(at) => {
                let own = &source.functions()[at].name;
                let seen = Seen {
                    found: match own == name {
                        true => Found::Same,
                        false => Found::Renamed(own.clone()),
                    },
                    blocks: blocks_again(site, &source.function(at), &mut memory.stood),
                };
                extracted(site, source, at, seen, memory)
            }
        },
    }
}

/// Where the site's function is in a version: by its name, else by what it says.
pub fn find(site: &Site, source: &Source<'_>) -> Option<usize> {
    let Place::Function { name, parameters } = &site.place else {
        return None;
    };
    let last = |name: &str| name.rsplit(['.', ':']).next().unwrap_or(name).to_string();
    let all = || 0..source.functions().len();
    let named: Vec<usize> = all()
        .filter(|at| source.functions()[*at].name == *name)
        .collect();
    if let [only] = named[..] {
        return Some(only);
    }
    let exact = named
        .iter()
        .find(|at| source.functions()[**at].parameters == *parameters);
    if let (Some(at), false) = (exact, parameters.is_empty()) {
        return Some(*at);
    }
    let bags: Vec<_> = [&site.before, &site.after]
        .into_iter()
        .flatten()
        .map(Unit::bag)
        .collect();
    let alike = |at: usize| -> f64 {
        let own = source.function(at).bag();
        bags.iter().map(|bag| dice(bag, &own)).fold(0.0, f64::max)
    };
    let best = |among: Vec<usize>, least: f64| {
        let ranked = among.into_iter().map(|at| (alike(at), at));
        let first = ranked.fold(None, |best: Option<(f64, usize)>, one| match best {
            Some(known) if known.0 >= one.0 => Some(known),
            _ => Some(one),
        });
        first.filter(|(alike, _)| *alike >= least).map(|(_, at)| at)
    };
    if !named.is_empty() {
        return best(named, 0.0);
    }
    let strange = |at: &usize| !site.known.contains(&source.functions()[*at].name);
    let moved = all().filter(strange);
    let moved: Vec<usize> = moved
        .filter(|at| last(&source.functions()[*at].name) == last(name))
        .collect();
    best(moved, SAME_FUNCTION / 2.0)
        .or_else(|| best(all().filter(strange).collect(), SAME_FUNCTION))
}

/// A block that left its function for one that neither side of the patch has: where that fits better.
fn extracted(
    site: &Site,
    source: &Source<'_>,
    at: usize,
    mut seen: Seen,
    memory: &mut Memory,
) -> Seen {
    const LOST: f64 = 0.7;
    let lost = |m: &Measure| m.before < LOST && m.after < LOST;
    if !seen.blocks.iter().any(lost) {
        return seen;
    }
    for other in 0..source.functions().len() {
        if other == at || site.known.contains(&source.functions()[other].name) {
            continue;
        }
        let text = source.bytes(other);
        let print = mix64(text.len() as u64, &[label(text)]);
        // Where it stands may have changed, but not how like it is.
        if let Some(known) = memory.others.get(&print)
            && !better(&seen, known, lost)
        {
            continue;
        }
        let there = blocks(site, &source.function(other));
        let alike = there.iter().map(|m| [m.before, m.after]).collect();
        memory.others.insert(print, alike);
        for (known, one) in seen.blocks.iter_mut().zip(there) {
            if lost(known) && one.after.max(one.before) > known.after.max(known.before) {
                *known = one;
            }
        }
    }
    seen
}

/// Whether a block that is lost is more like what another function has.
fn better(seen: &Seen, other: &[[f64; 2]], lost: impl Fn(&Measure) -> bool) -> bool {
    let pairs = seen.blocks.iter().zip(other);
    let mut better = pairs.map(|(known, [before, after])| {
        lost(known) && after.max(*before) > known.after.max(known.before)
    });
    better.any(|better| better)
}

/// Each block of a site in one unit of a version.
fn blocks(site: &Site, unit: &Unit) -> Vec<Measure> {
    measured(site, &sides(site, unit), unit)
}

/// Where the two sides of a site stand in a unit.
fn sides(site: &Site, unit: &Unit) -> [Option<Alignment>; 2] {
    [&site.before, &site.after].map(|side| side.as_ref().map(|own| align(own, unit)))
}

/// Each block of a site in one unit of a version, from where they stood in the version before, and notes
/// where they stand now. What has a tree is small, and is aligned by that.
fn blocks_again(site: &Site, unit: &Unit, stood: &mut Option<Stood>) -> Vec<Measure> {
    if unit.tree.is_some() {
        return blocks(site, unit);
    }
    let labels = || unit.tokens.iter().map(|t| t.label);
    let same = |known: &&mut Stood| known.labels.iter().copied().eq(labels());
    let sides = match stood.as_mut().filter(same) {
        Some(known) => &known.sides,
        None => {
            let known = Stood {
                sides: sides_again(site, unit, stood.as_ref()),
                labels: labels().collect(),
            };
            &stood.insert(known).sides
        }
    };
    measured(site, sides, unit)
}

fn sides_again(site: &Site, unit: &Unit, stood: Option<&Stood>) -> [Option<Alignment>; 2] {
    let again = |side: &Option<Unit>, at: usize| {
        let own = side.as_ref()?;
        let moved = stood.and_then(|stood| {
            let known = stood.sides[at].as_ref()?;
            realigned(own, known, &stood.labels, unit)
        });
        Some(moved.unwrap_or_else(|| align(own, unit)))
    };
    [again(&site.before, 0), again(&site.after, 1)]
}

fn measured(site: &Site, sides: &[Option<Alignment>; 2], unit: &Unit) -> Vec<Measure> {
    let [before, after] = sides.each_ref().map(Option::as_ref);
    let measures = site.blocks.iter();
    measures
        .map(|block| one(block, before, after, unit))
        .collect()
}

fn one(
    block: &Block,
    before: Option<&Alignment>,
    after: Option<&Alignment>,
    unit: &Unit,
) -> Measure {
    let (was, left) = side(before, &block.before, unit);
    let (is, right) = side(after, &block.after, unit);
    let share = |alignment: Option<&Alignment>, tokens: &[usize]| {
        let found = tokens
            .iter()
            .filter(|at| alignment.is_some_and(|a| a.to[**at].is_some()));
        (!tokens.is_empty()).then(|| round(found.count() as f64 / tokens.len() as f64))
    };
    let shown = match is >= was {
        true => &right,
        false => &left,
    };
    Measure {
        hunk: block.hunk,
        before: was,
        after: is,
        added: share(after, &block.added),
        deleted: share(before, &block.deleted),
        line: unit.tokens.get(shown.start).map_or(0, |t| t.line) + 1,
        regions: [bytes(unit, &left), bytes(unit, &right)],
    }
}

/// How like the version is to one side of a block, and the tokens that were compared with it.
fn side(alignment: Option<&Alignment>, block: &Range<usize>, unit: &Unit) -> (f64, Range<usize>) {
    let Some(alignment) = alignment else {
        return (0.0, 0..0);
    };
    let all = unit.tokens.len();
    let region = region(alignment, block, all);
    let inside = alignment.to[block.clone()].iter().flatten();
    let found: Vec<usize> = inside.copied().filter(|to| region.contains(to)).collect();
    let names: std::collections::BTreeSet<u64> = found
        .iter()
        .map(|to| unit.tokens[*to].label)
        .filter(|label| alignment.renames.contains_key(label))
        .collect();
    let alike = match block.len() + region.len() {
        // Nothing against nothing: the function itself is what was made or removed.
        0 => 1.0,
        both => 2.0 * found.len() as f64 / both as f64,
    };
    (
        round((alike - RENAMED * names.len() as f64).max(0.0)),
        region,
    )
}

/// The tokens of a version that a block is compared with: from the token behind the like of the one
/// before the block to that before the like of the one behind it, but not far beyond its own.
fn region(alignment: &Alignment, block: &Range<usize>, all: usize) -> Range<usize> {
    let to = &alignment.to;
    let behind = to[..block.start]
        .iter()
        .rev()
        .flatten()
        .next()
        .map_or(0, |at| at + 1);
    let next = to[block.end..]
        .iter()
        .flatten()
        .next()
        .copied()
        .unwrap_or(all);
    let own = || to[block.clone()].iter().flatten();
    let (Some(first), Some(last)) = (own().next(), own().next_back()) else {
        let end = next.min(behind + block.len());
        return behind..end.max(behind);
    };
    let room = block.len();
    behind.max(first.saturating_sub(room))..next.min(last + 1 + room)
}

fn bytes(unit: &Unit, tokens: &Range<usize>) -> Range<usize> {
    match &unit.tokens[tokens.clone()] {
        [] => 0..0,
        [first, .., last] => first.start..last.end,
        [only] => only.start..only.end,
    }
}

/// To four places, so that what is stored is the same everywhere.
fn round(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::diff::read;
    use super::super::edit::edit;
    use super::*;

    pub const BEFORE: &str = "import os\n\n\ndef area(shape):\n    total = 0\n    for side in shape:\n        total += side\n    return total\n\n\ndef other():\n    return 1\n";
    const PATCH: &str = "--- a/m.py\n+++ b/m.py\n@@ -4,5 +4,7 @@\n def area(shape):\n     total = 0\n     for side in shape:\n+        if side < 0:\n+            raise ValueError(side)\n         total += side\n     return total\n";

    fn site(patch: &str) -> Site {
        let base = |_: &str| Some(BEFORE.as_bytes().to_vec());
        edit(&read(patch.as_bytes()), base).unwrap().sites.remove(0)
    }

    fn seen(text: &str) -> Seen {
        measure(&site(PATCH), &Source::read("m.py", text.as_bytes()))
    }

    fn after() -> String {
        let file = &read(PATCH.as_bytes()).files[0];
        String::from_utf8(file.apply(BEFORE.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn both_sides_know_themselves() {
        let old = seen(BEFORE);
        let [m] = &old.blocks[..] else { panic!() };
        assert_eq!((old.found, m.before), (Found::Same, 1.0));
        assert!(m.after < 1.0 && m.added.unwrap() < 0.5, "{m:?}");
        let new = seen(&after());
        let [m] = &new.blocks[..] else { panic!() };
        assert_eq!((m.after, m.added, m.line), (1.0, Some(1.0), 4));
        assert!(m.before < 1.0);
    }

    #[test]
    fn a_patch_is_known_again_in_other_clothes() {
        let fixed = after();
        let others = [
            (
                "renamed locals",
                fixed.replace("total", "whole").replace("side", "edge"),
            ),
            (
                "a comment",
                fixed.replace("        total +=", "        # Add.\n        total +="),
            ),
            ("another name", fixed.replace("def area", "def surface")),
            (
                "layout",
                fixed.replace(
                    "ValueError(side)",
                    "ValueError(\n                side,\n            )",
                ),
            ),
        ];
        for (what, text) in others {
            let seen = seen(&text);
            let [m] = &seen.blocks[..] else {
                panic!("{what}: {seen:?}")
            };
            assert!(m.after >= 0.9 && m.after > m.before, "{what}: {m:?}");
            assert!(m.added >= Some(0.9), "{what}: {m:?}");
        }
    }

    #[test]
    fn a_function_that_is_not_there_is_gone() {
        assert_eq!(seen("def other():\n    return 1\n").found, Found::Gone);
    }

    #[test]
    fn a_block_that_moved_into_a_new_function_is_followed() {
        let text = "def area(shape):\n    return add_up(shape)\n\n\ndef add_up(shape):\n    total = 0\n    for side in shape:\n        if side < 0:\n            raise ValueError(side)\n        total += side\n    return total\n";
        let seen = seen(text);
        assert!(seen.blocks[0].after > 0.8, "{seen:?}");
    }

    const OUTSIDE: &str = "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,4 @@\n import os\n+import re\n \n \n";

    proptest! {
        /// The oracle forgets what it saw. Versions come by twos and threes with the same text outside.
        #[test]
        fn what_is_remembered_of_a_version_changes_nothing(versions in prop::collection::vec((0_usize..4, 0_usize..4), 1..12)) {
            let outside = ["import os\n", "import os\nimport re\n", "x = 1\n", "import re\nimport os\nx = 1\n"];
            let inside = ["", "def f():\n    return 1\n", "\n\ndef f():\n    return 2\n", "# What.\n\ndef g(a):\n    pass\n"];
            let site = site(OUTSIDE);
            prop_assert_eq!(&site.place, &Place::Outside);
            let mut stood = Memory::default();
            for (a, b) in versions {
                let text = format!("{}{}", outside[a], inside[b]);
                let source = Source::read("m.py", text.as_bytes());
                prop_assert_eq!(measure_again(&site, &source, &mut stood), measure(&site, &source));
            }
        }

        #[test]
        fn every_number_is_a_share(words in prop::collection::vec(0_usize..8, 0..60)) {
            let parts = ["total", "\n    ", "side ", "= 0", "if x:", "(", "raise ", "def area(shape):\n    "];
            let text: String = words.into_iter().map(|i| parts[i]).collect();
            let seen = seen(&text);
            for m in &seen.blocks {
                for x in [Some(m.before), Some(m.after), m.added, m.deleted].into_iter().flatten() {
                    prop_assert!((0.0..=1.0).contains(&x));
                }
                for range in &m.regions {
                    prop_assert!(range.start <= range.end && range.end <= text.len());
                }
            }
        }
    }
}
