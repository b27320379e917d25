//! Word co-occurrences: sequences of identifiers that several functions have, by PrefixSpan (Pei et
//! al., ICDE 2001) with a bound on the gap. Since what is wanted is what comes *next* after some
//! identifiers, the projection grows from a sequence's last item backwards.

use rayon::prelude::*;

use super::signature::Settings;

/// A sequence with the functions that have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Frequent {
    /// Its items, in order.
    pub items: Vec<u32>,
    /// How many functions have it.
    pub support: u32,
}

/// Where a sequence is found while it grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    function: u32,
    /// Its first item.
    first: u32,
    /// Its last item.
    last: u32,
}

/// All frequent sequences, in order: the whole answer, for small inputs.
pub fn frequent(functions: &[Vec<u32>], settings: &Settings) -> Vec<Frequent> {
    let mut found = Vec::new();
    let all = |f: usize| (0..functions[f].len() as u32).collect::<Vec<_>>();
    let wanted: Vec<Vec<u32>> = (0..functions.len()).map(all).collect();
    for (item, matches) in by_item(functions, &wanted) {
        let mut items = vec![item];
        grow(
            functions,
            settings,
            &mut items,
            &matches,
            &mut |items, support, _| {
                found.push(Frequent {
                    items: items.iter().rev().copied().collect(),
                    support,
                });
            },
        );
    }
    found.sort();
    found
}

/// For the wanted places of each function, given in order, the sequence that ends there: the longest, of
/// these the one that most functions have, of these the first in order. Parallel to `wanted`.
///
/// Only wanted places are ends of sequences, and support counts the functions in which the end is
/// wanted: what is asked for is what several functions go on with.
pub fn ending(
    functions: &[Vec<u32>],
    wanted: &[Vec<u32>],
    settings: &Settings,
) -> Vec<Vec<Option<Frequent>>> {
    let best: Vec<(Match, Frequent)> = by_item(functions, wanted)
        .into_par_iter()
        .flat_map_iter(|(item, matches)| {
            let mut best: Vec<(Match, Frequent)> = Vec::new();
            grow(
                functions,
                settings,
                &mut vec![item],
                &matches,
                &mut |items, support, at| {
                    let items: Vec<u32> = items.iter().rev().copied().collect();
                    let found = Frequent { items, support };
                    best.extend(at.iter().map(|m| {
                        let place = Match { first: 0, ..*m };
                        (place, found.clone())
                    }));
                },
            );
            best.sort_by(|(a, f), (b, g)| {
                let rank = |f: &Frequent| std::cmp::Reverse((f.items.len(), f.support));
                (a, rank(f), &f.items).cmp(&(b, rank(g), &g.items))
            });
            best.dedup_by(|(b, _), (a, _)| a == b);
            best
        })
        .collect();
    let mut out: Vec<Vec<Option<Frequent>>> = wanted.iter().map(|w| vec![None; w.len()]).collect();
    for (place, found) in best {
        let function = place.function as usize;
        if let Ok(at) = wanted[function].binary_search(&place.last) {
            out[function][at] = Some(found);
        }
    }
    out
}

/// The wanted places by what is there.
fn by_item(functions: &[Vec<u32>], wanted: &[Vec<u32>]) -> Vec<(u32, Vec<Match>)> {
    let mut places: Vec<(u32, Match)> = Vec::new();
    for (function, at) in wanted.iter().enumerate() {
        places.extend(at.iter().map(|at| {
            let place = Match {
                function: function as u32,
                first: *at,
                last: *at,
            };
            (functions[function][*at as usize], place)
        }));
    }
    places.par_sort_unstable();
    let groups = places.chunk_by(|a, b| a.0 == b.0);
    let group = |g: &[(u32, Match)]| (g[0].0, g.iter().map(|p| p.1).collect());
    groups.map(group).collect()
}

/// Is told of a sequence, from the last item to the first, its support and its matches.
type Tell<'a> = dyn FnMut(&[u32], u32, &[Match]) + 'a;

/// Tells of every frequent sequence that continues `items`, which are given from the last to the first,
/// with its matches.
fn grow(
    functions: &[Vec<u32>],
    settings: &Settings,
    items: &mut Vec<u32>,
    matches: &[Match],
    tell: &mut Tell<'_>,
) {
    let (least, most) = settings.sequence_items;
    let support = matches.chunk_by(|a, b| a.function == b.function).count();
    if support < settings.support.max(1) {
        return;
    }
    if items.len() >= least {
        tell(items, support as u32, matches);
    }
    if items.len() >= most {
        return;
    }
    let mut before: Vec<(u32, Match)> = Vec::with_capacity(matches.len() * settings.gap);
    for m in matches {
        let function = &functions[m.function as usize];
        for step in 1..=settings.gap as u32 {
            if let Some(first) = m.first.checked_sub(step) {
                before.push((function[first as usize], Match { first, ..*m }));
            }
        }
    }
    before.sort_unstable();
    before.dedup();
    for group in before.chunk_by(|a, b| a.0 == b.0) {
        items.push(group[0].0);
        let matches: Vec<Match> = group.iter().map(|g| g.1).collect();
        grow(functions, settings, items, &matches, tell);
        items.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Every choice of places that keeps the bounds, function by function.
    fn by_enumeration(functions: &[Vec<u32>], settings: &Settings) -> Vec<Frequent> {
        let mut having: BTreeMap<Vec<u32>, BTreeSet<usize>> = BTreeMap::new();
        for (f, function) in functions.iter().enumerate() {
            let mut open: Vec<Vec<usize>> = (0..function.len()).map(|at| vec![at]).collect();
            while let Some(places) = open.pop() {
                let items = places.iter().map(|at| function[*at]).collect();
                having.entry(items).or_default().insert(f);
                if places.len() < settings.sequence_items.1 {
                    let last = places[places.len() - 1];
                    for next in last + 1..=(last + settings.gap).min(function.len() - 1) {
                        open.push([&places[..], &[next]].concat());
                    }
                }
            }
        }
        let fits = |items: &Vec<u32>| items.len() >= settings.sequence_items.0;
        having
            .into_iter()
            .filter(|(items, f)| fits(items) && f.len() >= settings.support)
            .map(|(items, f)| Frequent {
                items,
                support: f.len() as u32,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn all_frequent_sequences_are_found_with_their_support(
            functions in proptest::collection::vec(proptest::collection::vec(0..5u32, 0..9), 0..6),
            support in 1..4usize,
            gap in 1..4usize,
        ) {
            let settings = Settings { support, gap, ..Settings::default() };
            let expected = by_enumeration(&functions, &settings);
            prop_assert_eq!(frequent(&functions, &settings), expected);
        }

        #[test]
        fn the_sequence_of_a_place_is_the_longest_that_ends_there(
            functions in proptest::collection::vec(proptest::collection::vec(0..4u32, 0..8), 0..5),
        ) {
            let settings = Settings::default();
            let all = by_enumeration(&functions, &settings);
            let wanted: Vec<Vec<u32>> =
                functions.iter().map(|f| (0..f.len() as u32).collect()).collect();
            let ends = |function: &[u32], at: usize, items: &[u32]| {
                let mut open = vec![(at, items.len())];
                while let Some((at, left)) = open.pop() {
                    if function[at] != items[left - 1] {
                        continue;
                    }
                    if left == 1 {
                        return true;
                    }
                    open.extend((1..=settings.gap.min(at)).map(|step| (at - step, left - 1)));
                }
                false
            };
            let found = ending(&functions, &wanted, &settings);
            for (f, function) in functions.iter().enumerate() {
                for (at, found) in found[f].iter().enumerate() {
                    let fitting = all.iter().filter(|s| ends(function, at, &s.items));
                    let best = fitting.max_by_key(|s| {
                        (s.items.len(), s.support, std::cmp::Reverse(s.items.clone()))
                    });
                    prop_assert_eq!(found.as_ref(), best);
                }
            }
        }
    }
}
