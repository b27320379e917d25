//! Code block clones, as NiCad finds them: blocks in lines of one statement each, and two of them are
//! clones if at most a given part of either's lines is not in their longest common subsequence.
//! Exact: nothing is left out that a comparison of all pairs would find (that is the test).

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::signature::Settings;

/// A block: where it is and its lines, as hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block<'a> {
    /// The file's number.
    pub file: u32,
    /// Its bytes in the file.
    pub range: Range<u32>,
    /// Its lines.
    pub lines: &'a [u64],
}

impl Block<'_> {
    fn overlaps(&self, other: &Block<'_>) -> bool {
        self.file == other.file
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }

    fn holds(&self, other: &Block<'_>) -> bool {
        self.file == other.file
            && self.range.start <= other.range.start
            && other.range.end <= self.range.end
    }
}

/// For each block the class it is in, named by the number of one block of that class, its exemplar.
/// Classes are made as NiCad makes them: the largest block that is in no class yet, with all blocks in no class
/// that are its clones. So a chain of small steps does not join what is not alike. A class has at
/// least two blocks that do not overlap; a block within another one of its class is not counted.
pub fn classes(blocks: &[Block<'_>], settings: &Settings) -> Vec<Option<u32>> {
    // Equal blocks are compared once.
    let mut distinct: HashMap<&[u64], u32> = HashMap::new();
    let mut texts: Vec<&[u64]> = Vec::new();
    let text_of: Vec<u32> = blocks
        .iter()
        .map(|b| {
            *distinct.entry(b.lines).or_insert_with(|| {
                texts.push(b.lines);
                texts.len() as u32 - 1
            })
        })
        .collect();
    let near = pairs(&texts, settings);
    let mut order: Vec<u32> = (0..texts.len() as u32).collect();
    order.sort_by_key(|t| std::cmp::Reverse(texts[*t as usize].len()));
    let star = stars(texts.len(), &near, &order);
    let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
    for (at, text) in text_of.iter().enumerate() {
        let exemplar = star[*text as usize];
        members.entry(exemplar).or_default().push(at as u32);
    }
    let mut class = vec![None; blocks.len()];
    for mut all in members.into_values() {
        all.sort_by_key(|at| {
            let b = &blocks[*at as usize];
            (b.file, b.range.start, std::cmp::Reverse(b.range.end), *at)
        });
        let mut kept: Vec<u32> = Vec::new();
        for at in all {
            let inside = |k: &u32| blocks[*k as usize].holds(&blocks[at as usize]);
            if !kept.last().is_some_and(inside) {
                kept.push(at);
            }
        }
        let apart = kept
            .windows(2)
            .any(|w| !blocks[w[0] as usize].overlaps(&blocks[w[1] as usize]));
        if apart {
            for at in &kept {
                class[*at as usize] = Some(kept[0]);
            }
        }
    }
    class
}

/// Groups around exemplars: of each item the exemplar, perhaps itself. In the order given, an item in no group is
/// the exemplar of a new one, to which all its neighbours in no group belong.
pub(super) fn stars(items: usize, pairs: &[(u32, u32)], order: &[u32]) -> Vec<u32> {
    let mut near: Vec<Vec<u32>> = vec![Vec::new(); items];
    for (a, b) in pairs {
        near[*a as usize].push(*b);
        near[*b as usize].push(*a);
    }
    let mut star: Vec<Option<u32>> = vec![None; items];
    for item in order {
        if star[*item as usize].is_none() {
            star[*item as usize] = Some(*item);
            for other in &near[*item as usize] {
                star[*other as usize].get_or_insert(*item);
            }
        }
    }
    let own = |(at, s): (usize, Option<u32>)| s.unwrap_or(at as u32);
    star.into_iter().enumerate().map(own).collect()
}

/// How many of `n` lines must be common at least.
fn needed(n: usize, dissimilarity: f64) -> usize {
    // A part of a part in a million million is a matter of rounding.
    (n as f64 * (1.0 - dissimilarity) - 1e-9).ceil().max(0.0) as usize
}

/// All pairs (a, b), a < b, of lists of lines that are near copies, in order. Lists shorter or longer
/// than [`Settings::block_lines`] have none.
pub fn pairs(texts: &[&[u64]], settings: &Settings) -> Vec<(u32, u32)> {
    let (least, most) = settings.block_lines;
    let needed = |n| needed(n, settings.dissimilarity);
    let mut order: Vec<u32> = (0..texts.len() as u32)
        .filter(|t| (least.max(1)..=most).contains(&texts[*t as usize].len()))
        .collect();
    order.sort_by_key(|t| (texts[*t as usize].len(), *t));
    let ranked = ranked(texts, &order);
    // Two lists with `needed` lines in common share one of the first of their rarest lines.
    let prefix = |lines: &[u32]| lines.len() - needed(lines.len()).min(lines.len()) + 1;
    let mut postings: HashMap<u32, Vec<u32>> = HashMap::new();
    for (at, lines) in ranked.iter().enumerate() {
        for line in &lines[..prefix(lines).min(lines.len())] {
            postings.entry(*line).or_default().push(at as u32);
        }
    }
    let length = |at: u32| ranked[at as usize].len();
    let mut found: Vec<(u32, u32)> = (0..ranked.len() as u32)
        .into_par_iter()
        .map_init(
            || vec![u32::MAX; ranked.len()],
            |seen, at| {
                let lines = &ranked[at as usize];
                let need = needed(lines.len());
                let mut pattern = None;
                let mut near = Vec::new();
                for line in &lines[..prefix(lines).min(lines.len())] {
                    let shorter = postings.get(line).map_or(&[][..], Vec::as_slice);
                    let shorter = &shorter[..shorter.partition_point(|o| *o < at)];
                    let from = shorter.partition_point(|o| length(*o) < need);
                    for other in &shorter[from..] {
                        if std::mem::replace(&mut seen[*other as usize], at) == at
                            || !share(lines, &ranked[*other as usize], need)
                        {
                            continue;
                        }
                        let own = texts[order[at as usize] as usize];
                        let pattern = pattern.get_or_insert_with(|| Pattern::of(own));
                        let text = texts[order[*other as usize] as usize];
                        if pattern.lcs(text) >= need {
                            let (a, b) = (order[at as usize], order[*other as usize]);
                            near.push((a.min(b), a.max(b)));
                        }
                    }
                }
                near
            },
        )
        .flatten_iter()
        .collect();
    found.par_sort_unstable();
    found
}

/// Each list's lines as ranks, the rarest first; the second of a line in a list is another line than
/// the first, so that lists are sets.
fn ranked(texts: &[&[u64]], order: &[u32]) -> Vec<Vec<u32>> {
    let mut ids: HashMap<(u64, u32), u32> = HashMap::new();
    let mut counts: Vec<u32> = Vec::new();
    let mut lists: Vec<Vec<u32>> = Vec::with_capacity(order.len());
    let mut times: HashMap<u64, u32> = HashMap::new();
    for text in order {
        times.clear();
        let mut list = Vec::with_capacity(texts[*text as usize].len());
        for line in texts[*text as usize] {
            let time = times.entry(*line).or_default();
            *time += 1;
            let id = *ids.entry((*line, *time)).or_insert_with(|| {
                counts.push(0);
                counts.len() as u32 - 1
            });
            counts[id as usize] += 1;
            list.push(id);
        }
        lists.push(list);
    }
    let mut by_count: Vec<u32> = (0..counts.len() as u32).collect();
    by_count.sort_by_key(|id| (counts[*id as usize], *id));
    let mut rank = vec![0; counts.len()];
    for (at, id) in by_count.iter().enumerate() {
        rank[*id as usize] = at as u32;
    }
    lists.par_iter_mut().for_each(|list| {
        list.iter_mut().for_each(|id| *id = rank[*id as usize]);
        list.sort_unstable();
    });
    lists
}

/// Whether two sorted lists have at least `need` items in common.
fn share(a: &[u32], b: &[u32], need: usize) -> bool {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while common < need {
        if common + (a.len() - i).min(b.len() - j) < need {
            return false;
        }
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                (i, j) = (i + 1, j + 1);
                common += 1;
            }
        }
    }
    true
}

/// A list of lines, ready to be compared with others: for each different line the bits of the places
/// where it is.
pub struct Pattern {
    words: usize,
    row: HashMap<u64, u32>,
    masks: Vec<u64>,
}

impl Pattern {
    /// Of a list.
    pub fn of(lines: &[u64]) -> Pattern {
        let words = lines.len().div_ceil(64);
        let mut pattern = Pattern {
            words,
            row: HashMap::with_capacity(lines.len()),
            masks: Vec::new(),
        };
        for (at, line) in lines.iter().enumerate() {
            let next = pattern.row.len() as u32;
            let row = *pattern.row.entry(*line).or_insert(next) as usize;
            if row == next as usize {
                pattern.masks.resize(pattern.masks.len() + words, 0);
            }
            pattern.masks[row * words + at / 64] |= 1 << (at % 64);
        }
        pattern
    }

    /// The length of the longest common subsequence, 64 lines at a time (Hyyrö, 2004).
    pub fn lcs(&self, other: &[u64]) -> usize {
        let mut state = vec![u64::MAX; self.words];
        for line in other {
            let Some(row) = self.row.get(line) else {
                continue;
            };
            let masks = &self.masks[*row as usize * self.words..][..self.words];
            let mut carry = false;
            for (s, mask) in state.iter_mut().zip(masks) {
                let matched = *s & mask;
                let (sum, first) = s.overflowing_add(matched);
                let (sum, second) = sum.overflowing_add(u64::from(carry));
                carry = first || second;
                *s = sum | (*s & !mask);
            }
        }
        // Bits beyond the list are never matched and stay.
        let zeros: u32 = state.iter().map(|s| s.count_zeros()).sum();
        zeros as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By the textbook's table.
    fn lcs_by_table(a: &[u64], b: &[u64]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..a.len() {
            for j in 0..b.len() {
                table[i + 1][j + 1] = match a[i] == b[j] {
                    true => table[i][j] + 1,
                    false => table[i][j + 1].max(table[i + 1][j]),
                };
            }
        }
        table[a.len()][b.len()]
    }

    fn all_pairs(texts: &[Vec<u64>], settings: &Settings) -> Vec<(u32, u32)> {
        let (least, most) = settings.block_lines;
        let mut found = Vec::new();
        for (i, a) in texts.iter().enumerate() {
            for (j, b) in texts.iter().enumerate().skip(i + 1) {
                let sizes = [a.len(), b.len()];
                let fits = sizes.iter().all(|n| (least..=most).contains(n));
                let lcs = lcs_by_table(a, b);
                let near = |n: usize| (n - lcs) as f64 / n as f64 <= settings.dissimilarity + 1e-12;
                if fits && sizes.into_iter().all(near) {
                    found.push((i as u32, j as u32));
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn the_longest_common_subsequence_is_that_of_the_table(
            a in proptest::collection::vec(0..6u64, 0..200),
            b in proptest::collection::vec(0..6u64, 0..200),
        ) {
            prop_assert_eq!(Pattern::of(&a).lcs(&b), lcs_by_table(&a, &b));
        }

        #[test]
        fn every_pair_is_found_that_comparing_all_finds(
            mut texts in proptest::collection::vec(proptest::collection::vec(0..9u64, 1..14), 1..24),
            edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..9u64), 0..24),
            dissimilarity in prop_oneof![Just(0.0), Just(0.1), Just(0.3), Just(0.5)],
            least in 1..6usize,
        ) {
            // Near copies, or random lists would hardly ever be pairs.
            for (which, place, line) in edits {
                let mut copy = which.get(&texts).clone();
                let at = place.index(copy.len());
                copy[at] = line;
                texts.push(copy);
            }
            let settings = Settings { dissimilarity, block_lines: (least, 12), ..Settings::default() };
            let lists: Vec<&[u64]> = texts.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(pairs(&lists, &settings), all_pairs(&texts, &settings));
        }
    }

    fn block(file: u32, range: Range<u32>, lines: &[u64]) -> Block<'_> {
        Block { file, range, lines }
    }

    #[test]
    fn a_block_and_what_is_within_it_are_no_clones() {
        let settings = Settings {
            block_lines: (3, 100),
            ..Settings::default()
        };
        let outer: Vec<u64> = (0..10).collect();
        let inner = &outer[1..9];
        let all = [block(0, 0..100, &outer), block(0, 10..90, inner)];
        assert_eq!(classes(&all, &settings), [None, None]);
        let all = [
            block(0, 0..100, &outer),
            block(0, 10..90, inner),
            block(1, 0..80, inner),
        ];
        assert_eq!(classes(&all, &settings), [Some(0), None, Some(0)]);
    }

    #[test]
    fn a_chain_of_small_steps_is_not_one_class() {
        let settings = Settings {
            block_lines: (3, 100),
            ..Settings::default()
        };
        let step = |n: u64| -> Vec<u64> { (n..n + 10).collect() };
        let texts = [step(0), step(3), step(6)];
        let all: Vec<Block<'_>> = texts
            .iter()
            .enumerate()
            .map(|(at, t)| block(at as u32, 0..9, t))
            .collect();
        assert_eq!(classes(&all, &settings), [Some(0), Some(0), None]);
    }
}
