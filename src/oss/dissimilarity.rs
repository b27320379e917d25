//! Dissimilarity of two versions of a function: the number of lines that Python's
//! `difflib.ndiff` marks `+ ` or `- `, which is how OSS-Bench defines `d`.
//!
//! The counts equal CPython's up to and including 3.12, heuristics included; 3.13 chooses synch
//! points differently, which can change the count only where a side has 200 lines or more.
//!
//! How bytes become lines: if both texts are UTF-8 they are read as UTF-8, otherwise both as
//! Latin-1, so two lines are equal exactly when their bytes are. Lines end where Python's
//! `str.splitlines()` ends them (`\n`, `\r`, `\r\n`, vertical tab, form feed, `\x1c`-`\x1e`,
//! U+0085, U+2028, U+2029), and the ending itself is not compared: a file converted to CRLF has
//! no changed line. In Python:
//! `sum(l[:2] in ("+ ", "- ") for l in ndiff(a.splitlines(), b.splitlines()))`.
//!
//! This file must never let hostile text stop the process: work is bounded (see [`STEP_LIMIT`]),
//! there is no recursion, and nothing here fails.

use std::collections::HashMap;
use std::ops::Range;

/// Comparisons spent on one pair of texts before the rest is counted as replaced. Reaching it
/// takes thousands of adversarial lines (Python would need many minutes), and the count is then
/// an upper bound of Python's. A number of steps, not a time, so that the result never depends
/// on the machine.
pub const STEP_LIMIT: u64 = 1 << 29;

/// Sequences at least this long have their frequent elements ignored as anchors of a match.
const POPULAR_FROM: usize = 200;
/// Two different lines are paired when their similarity is at least this ...
const CLOSE: f64 = 0.75;
/// ... and above this, where the search starts.
const NOT_CLOSE: f64 = 0.74;

/// Lines of `a` and `b` that `ndiff` marks as removed or added, without its `? ` hint lines.
///
/// A line that was edited counts twice (removed and added). The order of arguments matters in
/// rare cases, as in Python; `a` is the original.
pub fn changed_lines(a: &[u8], b: &[u8]) -> u32 {
    changed_lines_within(a, b, STEP_LIMIT).0
}

/// [`changed_lines`] with a limit of its own; the flag tells whether the count is exact.
fn changed_lines_within(a: &[u8], b: &[u8], limit: u64) -> (u32, bool) {
    if a == b {
        return (0, true);
    }
    let encoding = if std::str::from_utf8(a).is_ok() && std::str::from_utf8(b).is_ok() {
        Encoding::Utf8
    } else {
        Encoding::Latin1
    };
    let mut lines = Lines::default();
    let a: Vec<u32> = encoding.lines(a).map(|line| lines.id(line)).collect();
    let b: Vec<u32> = encoding.lines(b).map(|line| lines.id(line)).collect();
    let mut budget = Budget { left: limit };

    let no_junk = vec![false; lines.texts.len()];
    let matcher = Matcher::new(&b, &no_junk);
    let mut similarity = Similarity::new(&lines.texts, encoding);
    let mut count = 0;
    for block in matcher.differing_blocks(&a, &mut budget) {
        count += count_in_block(&a, &b, block, &mut similarity, &mut budget);
    }
    (u32::try_from(count).unwrap_or(u32::MAX), budget.left > 0)
}

/// A pair of ranges of two sequences.
type Block = (Range<usize>, Range<usize>);

/// Changed lines in a block of lines that the line matcher found no anchor in.
///
/// Such a block holds a line of both sides only when that line was too frequent to be an anchor.
/// `ndiff` then looks for the most similar pair of different lines, or failing that for the first
/// equal pair, and goes on before and after it; equal lines are lost or kept depending on where
/// those pairs lie. Without a line in common every line counts, whatever the pairs.
fn count_in_block(
    a: &[u32],
    b: &[u32],
    block: Block,
    similarity: &mut Similarity,
    budget: &mut Budget,
) -> usize {
    let mut count = 0;
    let mut blocks = vec![block];
    while let Some((in_a, in_b)) = blocks.pop() {
        let pivot = if have_common(&a[in_a.clone()], &b[in_b.clone()], budget) {
            similarity.pivot(a, b, (in_a.clone(), in_b.clone()), budget)
        } else {
            None
        };
        let Some((i, j)) = pivot else {
            count += in_a.len() + in_b.len();
            continue;
        };
        if a[i] != b[j] {
            count += 2;
        }
        blocks.push((in_a.start..i, in_b.start..j));
        blocks.push((i + 1..in_a.end, j + 1..in_b.end));
    }
    count
}

fn have_common(a: &[u32], b: &[u32], budget: &mut Budget) -> bool {
    if !budget.spend((a.len() + b.len()) as u64) || a.is_empty() || b.is_empty() {
        return false;
    }
    let in_b: std::collections::HashSet<u32> = b.iter().copied().collect();
    a.iter().any(|line| in_b.contains(line))
}

/// Steps left; at zero every search ends early.
struct Budget {
    left: u64,
}

impl Budget {
    fn spend(&mut self, steps: u64) -> bool {
        self.left = self.left.saturating_sub(steps);
        self.left > 0
    }
}

/// How both texts of a pair are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Utf8,
    Latin1,
}

impl Encoding {
    fn lines(self, text: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = text;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let ending = (0..rest.len()).find_map(|at| match self.ending(&rest[at..]) {
                0 => None,
                length => Some((at, length)),
            });
            let (end, length) = ending.unwrap_or((rest.len(), 0));
            let line = &rest[..end];
            rest = &rest[end + length..];
            Some(line)
        })
    }

    /// Length of the line ending that `text` begins with, 0 if it begins with none.
    fn ending(self, text: &[u8]) -> usize {
        match (self, text) {
            (_, [b'\r', b'\n', ..]) => 2,
            (_, [b'\n' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1e, ..]) => 1,
            (Encoding::Latin1, [0x85, ..]) => 1,
            (Encoding::Utf8, [0xc2, 0x85, ..]) => 2,
            (Encoding::Utf8, [0xe2, 0x80, 0xa8 | 0xa9, ..]) => 3,
            _ => 0,
        }
    }

    fn chars(self, line: &[u8]) -> Vec<char> {
        match (self, std::str::from_utf8(line)) {
            (Encoding::Utf8, Ok(text)) => text.chars().collect(),
            _ => line.iter().map(|&byte| char::from(byte)).collect(),
        }
    }
}

/// Distinct lines by number, in order of first occurrence.
#[derive(Default)]
struct Lines<'t> {
    ids: HashMap<&'t [u8], u32>,
    texts: Vec<&'t [u8]>,
}

impl<'t> Lines<'t> {
    fn id(&mut self, line: &'t [u8]) -> u32 {
        *self.ids.entry(line).or_insert_with(|| {
            self.texts.push(line);
            (self.texts.len() - 1) as u32
        })
    }
}

/// Finds common blocks of a sequence with a fixed second sequence `b`, as difflib's
/// `SequenceMatcher` does: the longest run first (the earliest in `a`, then in `b`, among
/// equals), then the same to the left and to the right of it. Runs are anchored only on elements
/// that are neither junk nor popular, and grow over those afterwards.
struct Matcher<'m> {
    b: &'m [u32],
    junk: &'m [bool],
    /// Where each element may be anchored in `b`, ascending: `places[starts[x]..starts[x + 1]]`.
    starts: Vec<usize>,
    places: Vec<u32>,
}

impl<'m> Matcher<'m> {
    /// `junk` has one entry for every element that can occur.
    fn new(b: &'m [u32], junk: &'m [bool]) -> Self {
        let mut counts = vec![0_usize; junk.len()];
        for &x in b {
            counts[x as usize] += 1;
        }
        let most = if b.len() >= POPULAR_FROM {
            b.len() / 100 + 1
        } else {
            usize::MAX
        };
        for (count, &junk) in counts.iter_mut().zip(junk) {
            if junk || *count > most {
                *count = 0;
            }
        }
        let mut starts = Vec::with_capacity(junk.len() + 1);
        let mut total = 0;
        starts.push(0);
        for &count in &counts {
            total += count;
            starts.push(total);
        }
        let mut places = vec![0; total];
        let mut next = starts.clone();
        for (j, &x) in b.iter().enumerate() {
            let x = x as usize;
            if counts[x] > 0 {
                places[next[x]] = j as u32;
                next[x] += 1;
            }
        }
        Matcher {
            b,
            junk,
            starts,
            places,
        }
    }

    /// The blocks of `a` and `b` between the common runs, in order. What the budget left
    /// unsearched is returned as differing.
    fn differing_blocks(&self, a: &[u32], budget: &mut Budget) -> Vec<Block> {
        let mut runs = self.runs(a, budget);
        runs.sort_unstable();
        runs.push((a.len(), self.b.len(), 0));
        let mut blocks = Vec::new();
        let (mut i, mut j) = (0, 0);
        for (run_i, run_j, size) in runs {
            if i < run_i || j < run_j {
                blocks.push((i..run_i, j..run_j));
            }
            (i, j) = (run_i + size, run_j + size);
        }
        blocks
    }

    /// Number of elements of `a` in common runs.
    fn matching(&self, a: &[u32], budget: &mut Budget) -> usize {
        self.runs(a, budget).iter().map(|run| run.2).sum()
    }

    fn runs(&self, a: &[u32], budget: &mut Budget) -> Vec<(usize, usize, usize)> {
        let mut runs = Vec::new();
        let mut scratch = Scratch {
            previous: vec![0; self.b.len()],
            current: vec![0; self.b.len()],
        };
        let mut todo = vec![(0..a.len(), 0..self.b.len())];
        while let Some((in_a, in_b)) = todo.pop() {
            let (i, j, size) = self.longest(a, in_a.clone(), in_b.clone(), &mut scratch, budget);
            if budget.left == 0 {
                return runs;
            }
            if size == 0 {
                continue;
            }
            runs.push((i, j, size));
            if in_a.start < i && in_b.start < j {
                todo.push((in_a.start..i, in_b.start..j));
            }
            if i + size < in_a.end && j + size < in_b.end {
                todo.push((i + size..in_a.end, j + size..in_b.end));
            }
        }
        runs
    }

    fn longest(
        &self,
        a: &[u32],
        in_a: Range<usize>,
        in_b: Range<usize>,
        scratch: &mut Scratch,
        budget: &mut Budget,
    ) -> (usize, usize, usize) {
        let (mut i, mut j, mut size) = (in_a.start, in_b.start, 0_usize);
        // Of element x and row r: the length of the run that ends at (r, place of x).
        let mut previous: &[u32] = &[];
        for row in in_a.clone() {
            let current = self.places_within(a[row], &in_b);
            for &place in current {
                let place = place as usize;
                let before = if place == 0 {
                    0
                } else {
                    scratch.previous[place - 1]
                };
                let length = before + 1;
                scratch.current[place] = length;
                if length as usize > size {
                    size = length as usize;
                    (i, j) = (row + 1 - size, place + 1 - size);
                }
            }
            for &place in previous {
                scratch.previous[place as usize] = 0;
            }
            std::mem::swap(&mut scratch.previous, &mut scratch.current);
            previous = current;
            if !budget.spend(1 + current.len() as u64) {
                break;
            }
        }
        for &place in previous {
            scratch.previous[place as usize] = 0;
        }
        // First over elements that are not junk, then over those that are.
        for junk in [false, true] {
            let same = |i: usize, j: usize| a[i] == self.b[j] && self.junk[a[i] as usize] == junk;
            while i > in_a.start && j > in_b.start && same(i - 1, j - 1) {
                (i, j, size) = (i - 1, j - 1, size + 1);
            }
            while i + size < in_a.end && j + size < in_b.end && same(i + size, j + size) {
                size += 1;
            }
        }
        (i, j, size)
    }

    fn places_within(&self, element: u32, range: &Range<usize>) -> &[u32] {
        let x = element as usize;
        let places = &self.places[self.starts[x]..self.starts[x + 1]];
        let from = places.partition_point(|&place| (place as usize) < range.start);
        let to = places.partition_point(|&place| (place as usize) < range.end);
        &places[from..to]
    }
}

/// Run lengths per place of `b` in the row above and in this row; zero between searches.
struct Scratch {
    previous: Vec<u32>,
    current: Vec<u32>,
}

/// Similarity of pairs of lines by their characters, remembered per pair.
struct Similarity<'t> {
    texts: &'t [&'t [u8]],
    encoding: Encoding,
    alphabet: HashMap<char, u32>,
    /// Spaces and tabs, which never anchor a run.
    junk: Vec<bool>,
    lines: Vec<Option<CharLine>>,
    matching: HashMap<(u32, u32), usize>,
}

/// A line as numbered characters, and the same sorted.
#[derive(Clone)]
struct CharLine {
    chars: Vec<u32>,
    sorted: Vec<u32>,
}

impl<'t> Similarity<'t> {
    fn new(texts: &'t [&'t [u8]], encoding: Encoding) -> Self {
        Similarity {
            texts,
            encoding,
            alphabet: HashMap::new(),
            junk: Vec::new(),
            lines: vec![None; texts.len()],
            matching: HashMap::new(),
        }
    }

    /// The pair of lines that `ndiff` synchronises a block on: the most similar different pair
    /// that is close (the first among equals, by `b` and then by `a`), else the first equal pair.
    fn pivot(
        &mut self,
        a: &[u32],
        b: &[u32],
        (in_a, in_b): Block,
        budget: &mut Budget,
    ) -> Option<(usize, usize)> {
        for &line in a[in_a.clone()].iter().chain(&b[in_b.clone()]) {
            self.read(line);
        }
        let mut best = NOT_CLOSE;
        let mut close = None;
        let mut equal = None;
        for j in in_b {
            for i in in_a.clone() {
                if !budget.spend(1) {
                    return None;
                }
                if a[i] == b[j] {
                    equal.get_or_insert((i, j));
                } else if let Some(ratio) = self.ratio_above(a[i], b[j], best, budget) {
                    best = ratio;
                    close = Some((i, j));
                }
            }
        }
        if budget.left == 0 {
            return None;
        }
        if best < CLOSE { equal } else { close }
    }

    /// The similarity of two lines if it is above `floor`.
    fn ratio_above(&mut self, a: u32, b: u32, floor: f64, budget: &mut Budget) -> Option<f64> {
        let (Some(line_a), Some(line_b)) = (&self.lines[a as usize], &self.lines[b as usize])
        else {
            return None;
        };
        let total = line_a.chars.len() + line_b.chars.len();
        let ratio = |matching: usize| {
            if total == 0 {
                1.0
            } else {
                2.0 * matching as f64 / total as f64
            }
        };
        if let Some(&matching) = self.matching.get(&(a, b)) {
            return Some(ratio(matching)).filter(|&ratio| ratio > floor);
        }
        // Two upper bounds, cheapest first, spare most of the work and never change the result.
        if ratio(line_a.chars.len().min(line_b.chars.len())) <= floor {
            return None;
        }
        budget.spend(total as u64);
        if ratio(in_both(&line_a.sorted, &line_b.sorted)) <= floor {
            return None;
        }
        let matcher = Matcher::new(&line_b.chars, &self.junk);
        let matching = matcher.matching(&line_a.chars, budget);
        self.matching.insert((a, b), matching);
        Some(ratio(matching)).filter(|&ratio| ratio > floor)
    }

    fn read(&mut self, line: u32) {
        if self.lines[line as usize].is_some() {
            return;
        }
        let mut chars = Vec::new();
        for c in self.encoding.chars(self.texts[line as usize]) {
            let next = self.junk.len() as u32;
            let id = *self.alphabet.entry(c).or_insert(next);
            if id == next {
                self.junk.push(matches!(c, ' ' | '\t'));
            }
            chars.push(id);
        }
        let mut sorted = chars.clone();
        sorted.sort_unstable();
        self.lines[line as usize] = Some(CharLine { chars, sorted });
    }
}

/// Size of the intersection of two sorted multisets.
fn in_both(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, count) = (i + 1, j + 1, count + 1),
        }
    }
    count
}

#[cfg(test)]
mod tests;
