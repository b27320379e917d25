//! Which token of a version stands where in another version of the same code: what the trees map to
//! each other first, as far as it keeps its order, then the longest common subsequences between.
//! Names that were changed throughout are followed.

use std::collections::{BTreeMap, HashSet};

use rustc_hash::FxHashMap;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::gumtree::{Settings, gumtree};
use super::source::Unit;
use crate::stats::mix::mix64;

/// Where the tokens of one unit stand in another one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Alignment {
    /// For each token of the first unit its like in the second, in rising order.
    pub to: Vec<Option<usize>>,
    /// What names of the second unit are called in the first.
    pub renames: BTreeMap<u64, u64>,
}

/// Aligns the tokens of `x` with those of `s`.
pub fn align(x: &Unit, s: &Unit) -> Alignment {
    let labels = |unit: &Unit| -> Vec<u64> { unit.tokens.iter().map(|t| t.label).collect() };
    let (mine, mut theirs) = (labels(x), labels(s));
    if mine == theirs {
        return Alignment {
            to: (0..mine.len()).map(Some).collect(),
            renames: BTreeMap::new(),
        };
    }
    let mapped = mapped(x, s);
    // Names that stand alone between what is the same count as pairs, too.
    let first = aligned(&mine, &theirs, &mapped);
    let mut pairs = mapped.clone();
    pairs.extend(instead(&first, theirs.len()));
    let renames = renames(x, s, &pairs);
    if renames.is_empty() {
        return Alignment { to: first, renames };
    }
    for label in &mut theirs {
        if let Some(own) = renames.get(label) {
            *label = *own;
        }
    }
    Alignment {
        to: aligned(&mine, &theirs, &mapped),
        renames,
    }
}

/// The alignment of a text without a tree with `s`, when it is known how it stood to a version with the
/// tokens `old`. Where both versions are the same it stands as it did, and only what is between is
/// aligned: in the long history of a large file a commit costs what it changes. Nothing where little is
/// the same, or a name comes that another one was taken for: then it must be aligned anew.
pub fn realigned(x: &Unit, known: &Alignment, old: &[u64], s: &Unit) -> Option<Alignment> {
    if x.tree.is_some() && s.tree.is_some() {
        return None;
    }
    let called = |label: u64| known.renames.get(&label).copied().unwrap_or(label);
    let new: Vec<u64> = s.tokens.iter().map(|t| t.label).collect();
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[same..].iter().rev().zip(new[same..].iter().rev());
    let behind = rest.take_while(|(a, b)| a == b).count();
    if 2 * (same + behind) < old.len().max(new.len()) {
        return None;
    }
    // A name that was taken for another one cannot be where that one is, too.
    let taken = |label: &u64| known.renames.values().any(|own| own == label);
    if !known.renames.is_empty() && new[same..new.len() - behind].iter().any(taken) {
        return None;
    }
    let (gone, come) = (old.len() - behind, new.len() - behind);
    let moved = |j: usize| match j {
        _ if j < same => Some(j),
        _ if j >= gone => Some(j - gone + come),
        _ => None,
    };
    let mut to: Vec<Option<usize>> = known.to.iter().map(|j| moved((*j)?)).collect();
    let last = to.iter().rposition(|j| j.is_some_and(|j| j < same));
    let (from, start) = match last {
        Some(i) => (i + 1, to[i].expect("it was just seen") + 1),
        None => (0, 0),
    };
    let next = to[from..].iter().position(Option::is_some);
    let (until, end) = match next.map(|i| from + i) {
        Some(i) => (i, to[i].expect("it was just seen")),
        None => (to.len(), new.len()),
    };
    let mine: Vec<u64> = x.tokens.iter().map(|t| t.label).collect();
    let mut new: Vec<u64> = new.into_iter().map(called).collect();
    fill(&mine, from..until, &new, start..end, &mut to);
    let mut further = renames(x, s, &instead(&to, new.len()));
    further.retain(|other, own| !known.renames.contains_key(other) && !taken(own));
    let mut renames = known.renames.clone();
    if !further.is_empty() {
        let mut touched = vec![false; new.len()];
        for (label, touched) in new.iter_mut().zip(&mut touched) {
            if let Some(own) = further.get(label) {
                (*label, *touched) = (*own, true);
            }
        }
        refill(&mine, &new, &touched, &mut to);
        renames.extend(further);
    }
    Some(Alignment { to, renames })
}

/// Aligns what stands between pairs where a token of the second side is touched.
fn refill(mine: &[u64], theirs: &[u64], touched: &[bool], to: &mut [Option<usize>]) {
    let known: Vec<(usize, usize)> = to
        .iter()
        .enumerate()
        .filter_map(|(i, j)| Some((i, (*j)?)))
        .collect();
    let (mut i, mut j) = (0, 0);
    for (a, b) in known.into_iter().chain([(mine.len(), theirs.len())]) {
        if i < a && touched[j..b].contains(&true) {
            fill(mine, i..a, theirs, j..b, to);
        }
        (i, j) = (a + 1, b + 1);
    }
}

/// Tokens with their likes: those that are mapped to each other, and the longest common subsequences
/// between them.
fn aligned(mine: &[u64], theirs: &[u64], mapped: &[(usize, usize)]) -> Vec<Option<usize>> {
    let alike = mapped.iter().copied();
    let alike = alike.filter(|(i, j)| mine[*i] == theirs[*j]);
    let anchors = rising(&alike.collect::<Vec<_>>());
    let mut to = vec![None; mine.len()];
    let (mut i, mut j) = (0, 0);
    for (a, b) in anchors.into_iter().chain([(mine.len(), theirs.len())]) {
        fill(mine, i..a, theirs, j..b, &mut to);
        if a < mine.len() {
            to[a] = Some(b);
        }
        (i, j) = (a + 1, b + 1);
    }
    to
}

/// Pairs of single tokens that stand in each other's place between aligned ones.
fn instead(to: &[Option<usize>], all: usize) -> Vec<(usize, usize)> {
    let alone = |i: &usize| {
        let before = match i.checked_sub(1) {
            None => Some(0),
            Some(last) => to[last].map(|j| j + 1),
        };
        let behind = match to.get(i + 1) {
            None => Some(all),
            Some(next) => *next,
        };
        let (j, end) = before.zip(behind)?;
        (to[*i].is_none() && j + 1 == end).then_some((*i, j))
    };
    (0..to.len()).filter_map(|i| alone(&i)).collect()
}

/// Pairs of tokens whose leaves the trees' mapping has, in the order of the first.
fn mapped(x: &Unit, s: &Unit) -> Vec<(usize, usize)> {
    let (Some(a), Some(b)) = (&x.tree, &s.tree) else {
        return Vec::new();
    };
    let mapping = gumtree(&a.tree, &b.tree, &Settings::default());
    let pairs = mapping.pairs().map(|(v, w)| (a.token_of[v], b.token_of[w]));
    let mut pairs: Vec<_> = pairs.filter(|(i, j)| i.max(j) != &usize::MAX).collect();
    pairs.sort_unstable();
    pairs
}

/// Names of `s` that stand where `x` has another name, if neither has the other's, and if most of
/// their occurrences say so.
fn renames(x: &Unit, s: &Unit, mapped: &[(usize, usize)]) -> BTreeMap<u64, u64> {
    let differ = |(i, j): &(usize, usize)| {
        let (own, other) = (&x.tokens[*i], &s.tokens[*j]);
        own.name && other.name && own.label != other.label
    };
    if !mapped.iter().any(differ) {
        return BTreeMap::new();
    }
    let names = |unit: &Unit| -> FxHashMap<u64, usize> {
        let mut names = FxHashMap::default();
        for token in unit.tokens.iter().filter(|t| t.name) {
            *names.entry(token.label).or_default() += 1;
        }
        names
    };
    let (mine, theirs) = (names(x), names(s));
    let mut votes: BTreeMap<u64, BTreeMap<u64, usize>> = BTreeMap::new();
    for (i, j) in mapped.iter().filter(|pair| differ(pair)) {
        let (own, other) = (&x.tokens[*i], &s.tokens[*j]);
        if !theirs.contains_key(&own.label) && !mine.contains_key(&other.label) {
            *votes
                .entry(other.label)
                .or_default()
                .entry(own.label)
                .or_default() += 1;
        }
    }
    let mut ranked: Vec<(usize, u64, u64)> = Vec::new();
    for (other, votes) in votes {
        for (own, n) in votes {
            ranked.push((n, other, own));
        }
    }
    ranked.sort_unstable_by_key(|(n, other, own)| (std::cmp::Reverse(*n), *other, *own));
    let mut taken = HashSet::new();
    let mut renames = BTreeMap::new();
    for (n, other, own) in ranked {
        let enough = 2 * n >= theirs[&other].min(mine[&own]);
        if enough && !renames.contains_key(&other) && taken.insert(own) {
            renames.insert(other, own);
        }
    }
    renames
}

/// The longest part of the pairs that rises on both sides; of the first side each occurs once.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The last pairs of the best chains of each length, and before each pair the one it follows.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (at, (_, j)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *j);
        before[at] = length.checked_sub(1).map(|l| ends[l]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut chain = Vec::new();
    let mut next = ends.last().copied();
    while let Some(at) = next {
        chain.push(pairs[at]);
        next = before[at];
    }
    chain.reverse();
    chain
}

/// Gaps up to this product of lengths are compared as they are.
const SMALL: usize = 1 << 18;
/// Gaps beyond this product are left open: nothing in them is known to be alike.
const MOST: usize = 1 << 22;
/// So many tokens in a row that occur once on either side are taken to be the same.
const RUN: usize = 5;

/// Aligns what stands between two pairs. Of large gaps first what occurs once on either side, so that
/// it takes about as long as they are, whatever they hold.
fn fill(
    mine: &[u64],
    left: std::ops::Range<usize>,
    theirs: &[u64],
    right: std::ops::Range<usize>,
    to: &mut [Option<usize>],
) {
    if left.len().saturating_mul(right.len()) <= SMALL {
        return small(mine, left, theirs, right, to);
    }
    let (left, right) = trimmed(mine, left, theirs, right, to);
    if left.len().saturating_mul(right.len()) <= SMALL {
        return small(mine, left, theirs, right, to);
    }
    let (mut i, mut j) = (left.start, right.start);
    let runs = rising(&once(&mine[left.clone()], &theirs[right.clone()]));
    let runs = runs
        .into_iter()
        .map(|(a, b)| (left.start + a, right.start + b));
    for (a, b) in runs.chain([(left.end, right.end)]) {
        if (a - i).saturating_mul(b - j) <= MOST {
            small(mine, i..a, theirs, j..b, to);
        }
        if a < left.end {
            to[a] = Some(b);
        }
        (i, j) = (a + 1, b + 1);
    }
}

/// What is left when that is aligned which both begin and end with.
fn trimmed(
    mine: &[u64],
    mut left: std::ops::Range<usize>,
    theirs: &[u64],
    mut right: std::ops::Range<usize>,
    to: &mut [Option<usize>],
) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    while !left.is_empty() && !right.is_empty() && mine[left.start] == theirs[right.start] {
        to[left.start] = Some(right.start);
        (left.start, right.start) = (left.start + 1, right.start + 1);
    }
    while !left.is_empty() && !right.is_empty() && mine[left.end - 1] == theirs[right.end - 1] {
        (left.end, right.end) = (left.end - 1, right.end - 1);
        to[left.end] = Some(right.end);
    }
    (left, right)
}

/// Where runs of tokens begin that occur once on either side.
fn once(mine: &[u64], theirs: &[u64]) -> Vec<(usize, usize)> {
    let places = |all: &[u64]| -> FxHashMap<u64, Option<usize>> {
        let mut places = FxHashMap::default();
        places.reserve(all.len());
        for (at, run) in all.windows(RUN).enumerate() {
            let place = places.entry(mix64(run[0], &run[1..]));
            place.and_modify(|p| *p = None).or_insert(Some(at));
        }
        places
    };
    let (left, right) = (places(mine), places(theirs));
    let both = left
        .into_iter()
        .filter_map(|(run, a)| Some((a?, (*right.get(&run)?)?)));
    let mut pairs: Vec<_> = both.collect();
    pairs.sort_unstable();
    pairs
}

fn small(
    mine: &[u64],
    left: std::ops::Range<usize>,
    theirs: &[u64],
    right: std::ops::Range<usize>,
    to: &mut [Option<usize>],
) {
    if left.is_empty() || right.is_empty() {
        return;
    }
    let (from, start) = (left.start, right.start);
    for op in capture_diff_slices(Algorithm::Myers, &mine[left], &theirs[right]) {
        if let DiffOp::Equal {
            old_index,
            new_index,
            len,
        } = op
        {
            for step in 0..len {
                to[from + old_index + step] = Some(start + new_index + step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::source::Source;
    use super::*;

    fn unit(text: &str) -> Unit {
        Source::read("a.c", text.as_bytes()).whole()
    }

    /// How many tokens of the first text are found in the second.
    fn found(x: &str, s: &str) -> (usize, usize) {
        let (x, s) = (unit(x), unit(s));
        let alignment = align(&x, &s);
        let rising: Vec<usize> = alignment.to.iter().flatten().copied().collect();
        assert!(rising.is_sorted_by(|a, b| a < b));
        (rising.len(), x.tokens.len())
    }

    #[test]
    fn locals_may_be_called_otherwise() {
        let text = "int f(int a)\n{\n    int total = 0;\n    total += a;\n    return total;\n}\n";
        let (n, all) = found(text, &text.replace("total", "sum"));
        assert_eq!(n, all);
        let other = align(&unit(text), &unit(&text.replace("total", "sum")));
        assert_eq!(other.renames.len(), 1);
    }

    #[test]
    fn a_name_that_both_have_is_no_other_name() {
        let text = "int f(int a, int b)\n{\n    return a + b;\n}\n";
        let swapped = "int f(int a, int b)\n{\n    return b + a;\n}\n";
        assert!(align(&unit(text), &unit(swapped)).renames.is_empty());
    }

    proptest! {
        /// The oracle tries every part of the list.
        #[test]
        fn the_longest_rising_part(values in prop::collection::vec(0_usize..9, 0..10)) {
            let pairs: Vec<(usize, usize)> = values.into_iter().enumerate().collect();
            let best = (0_u32..1 << pairs.len())
                .filter(|mask| {
                    let part: Vec<_> = (0..pairs.len()).filter(|i| mask >> i & 1 == 1).collect();
                    part.windows(2).all(|w| pairs[w[0]].1 < pairs[w[1]].1)
                })
                .map(|mask| mask.count_ones() as usize)
                .max();
            let chain = rising(&pairs);
            prop_assert!(chain.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            prop_assert_eq!(Some(chain.len()), best);
        }

        /// In large texts, too, and all of what was only cut and put together again.
        #[test]
        fn large_texts_are_aligned(seed in 0_u64..1000, cut in 0_usize..900) {
            let mine: Vec<u64> = (0..900).map(|i| (i * 7 + seed) % 389 + i / 300).collect();
            let mut theirs = mine.clone();
            theirs.splice(cut..cut, [5000, 5001, 5002]);
            let mut to = vec![None; mine.len()];
            fill(&mine, 0..mine.len(), &theirs, 0..theirs.len(), &mut to);
            let found: Vec<usize> = to.iter().flatten().copied().collect();
            prop_assert_eq!(found.len(), mine.len());
            prop_assert!(found.is_sorted_by(|a, b| a < b));
        }

        /// Through any number of versions, each a little unlike the one before, as much is found as when
        /// each is aligned alone, or hardly less.
        #[test]
        fn a_text_is_followed_through_its_versions(
            edits in prop::collection::vec((0_usize..400, 0_usize..6, 0_usize..6), 1..12),
        ) {
            let text = |v: &[usize]| v.iter().map(|i| format!("w{i}")).collect::<Vec<_>>().join(" ");
            let words = |v: &[usize]| Source::read("a", text(v).as_bytes()).whole();
            let first: Vec<usize> = (0..400).map(|i| i * i % 97).collect();
            let x = words(&first);
            let labels = |unit: &Unit| unit.tokens.iter().map(|t| t.label).collect::<Vec<u64>>();
            let (mut now, mut known, mut old) = (first.clone(), align(&x, &x), labels(&x));
            for (at, gone, come) in edits {
                let at = at.min(now.len());
                let end = (at + gone).min(now.len());
                now.splice(at..end, (0..come).map(|i| (at + i) % 103));
                let unit = words(&now);
                let alone = align(&x, &unit);
                let next = realigned(&x, &known, &old, &unit);
                let next = next.unwrap_or_else(|| alone.clone());
                let pairs = || next.to.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?)));
                prop_assert!(next.to.iter().flatten().is_sorted_by(|a, b| a < b));
                let called = |label: u64| next.renames.get(&label).copied().unwrap_or(label);
                let alike = |(i, j): (usize, usize)| x.tokens[i].label == called(unit.tokens[j].label);
                prop_assert!(pairs().all(alike));
                let all = alone.to.iter().flatten().count();
                prop_assert!(pairs().count() + 4 >= all, "{} of {all}", pairs().count());
                (known, old) = (next, labels(&unit));
            }
        }

        #[test]
        fn tokens_are_aligned_with_their_likes(
            x in prop::collection::vec(0_usize..6, 0..30),
            s in prop::collection::vec(0_usize..6, 0..30),
        ) {
            let words = ["a", "b", "(", ")", ";", "{"];
            let text = |v: &[usize]| v.iter().map(|i| words[*i]).collect::<Vec<_>>().join(" ");
            let (x, s) = (unit(&text(&x)), unit(&text(&s)));
            let alignment = align(&x, &s);
            let rising: Vec<usize> = alignment.to.iter().flatten().copied().collect();
            prop_assert!(rising.is_sorted_by(|a, b| a < b));
            for (i, j) in alignment.to.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?))) {
                let other = s.tokens[j].label;
                let own = alignment.renames.get(&other).copied().unwrap_or(other);
                prop_assert_eq!(x.tokens[i].label, own);
            }
        }
    }
}
