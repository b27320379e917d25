//! Which parts of a repository tell how the end of a context goes on: by the last tokens before a target, all
//! other places that have them, with the target or with something else. Rows of tokens are compared
//! by hashes, of which that of any row follows from two.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;
use rustc_hash::FxBuildHasher;

use super::signature::{Reach, Settings};
use super::words::{Token, hash};
use crate::stats::mix::mix64;

/// Tokens of a part: what is learnt or forgotten together.
const PART: usize = 64;
/// More parts than these are known by those with most tokens.
const MOST_PARTS: usize = 256;
/// Into so many pieces of work a repository is cut.
const CHUNKS: usize = 64;
/// The multiplier of hashes of rows of tokens.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes of the rows of tokens that begin at the first one; that of any row follows from two.
pub(super) fn row_hashes(all: &[Token], bytes: &[u8]) -> Vec<u64> {
    summed(all.iter().map(|token| hash(&bytes[token.range()])))
}

fn summed(tokens: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sum = 0u64;
    let mut out = vec![0];
    out.extend(tokens.map(|token| {
        sum = sum.wrapping_mul(STEP).wrapping_add(token);
        sum
    }));
    out
}

/// What [`row`] needs for a row of `n` tokens.
pub(super) fn power(n: usize) -> u64 {
    (0..n).fold(1, |p: u64, _| p.wrapping_mul(STEP))
}

/// The hash of tokens `from..to`; `power` is that of their number.
pub(super) fn row(hashes: &[u64], from: usize, to: usize, power: u64) -> u64 {
    let hash = hashes[to].wrapping_sub(hashes[from].wrapping_mul(power));
    mix64(hash, &[(to - from) as u64])
}

/// The end of a context: which stream of tokens it is in, the token that the target begins with, and how
/// many tokens that has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    pub(super) stream: usize,
    pub(super) token: usize,
    pub(super) words: usize,
}

type Numbers = HashMap<u64, u32, FxBuildHasher>;

/// The reach of each end; `streams` are the row hashes of the repository's files.
pub(super) fn reaches(streams: &[&[u64]], ends: &[End], settings: &Settings) -> Vec<Reach> {
    let longest = settings.end_tokens.min(usize::from(u8::MAX));
    let lengths: BTreeSet<usize> = ends.iter().map(|end| end.words).collect();
    let powers: Vec<u64> = (0..=longest + lengths.last().copied().unwrap_or(0))
        .map(power)
        .collect();
    let before = |hashes: &[u64], to: usize, n: usize| row(hashes, to - n, to, powers[n]);
    let with_target = |hashes: &[u64], to: usize, n: usize, words: usize| {
        let whole = row(hashes, to - n, to + words, powers[n + words]);
        mix64(n as u64, &[whole])
    };
    // What is looked for: ends, and these with their targets.
    let (mut wanted, mut wanted_whole) = (Numbers::default(), Numbers::default());
    let numbered: Vec<Vec<(u32, u32)>> = ends
        .iter()
        .map(|end| {
            let (hashes, to) = (streams[end.stream], end.token);
            let number = |map: &mut Numbers, key: u64| {
                let next = map.len() as u32;
                *map.entry(key).or_insert(next)
            };
            let both = (1..=longest.min(to)).map(|n| {
                let plain = number(&mut wanted, before(hashes, to, n));
                let whole = with_target(hashes, to, n, end.words);
                (plain, number(&mut wanted_whole, whole))
            });
            both.collect()
        })
        .collect();
    let firsts: Vec<u32> = streams
        .iter()
        .scan(0, |next: &mut u32, hashes| {
            let first = *next;
            *next += (hashes.len() - 1).div_ceil(PART) as u32;
            Some(first)
        })
        .collect();
    // Ends are nearly everywhere, so they are counted in place; those with their targets are few.
    let found = |(streams, firsts): (&[&[u64]], &[u32])| {
        let mut counts = vec![0u32; wanted.len()];
        let mut last = vec![u32::MAX; wanted.len()];
        let mut whole = Vec::new();
        for (hashes, first) in streams.iter().zip(firsts) {
            let tokens = hashes.len() - 1;
            for to in 1..tokens {
                let part = first + (to / PART) as u32;
                for n in 1..=longest.min(to) {
                    // Whoever wants a longer end wants this one, too.
                    let Some(number) = wanted.get(&before(hashes, to, n)) else {
                        break;
                    };
                    let number = *number as usize;
                    if last[number] != part {
                        (last[number], counts[number]) = (part, counts[number] + 1);
                    }
                    for words in lengths.iter().filter(|words| to + **words <= tokens) {
                        let key = with_target(hashes, to, n, *words);
                        whole.extend(wanted_whole.get(&key).map(|number| (*number, part)));
                    }
                }
            }
        }
        whole.sort_unstable();
        whole.dedup();
        (counts, whole)
    };
    let chunk = streams.len().div_ceil(CHUNKS).max(1);
    let chunks = streams.par_chunks(chunk).zip(firsts.par_chunks(chunk));
    let all: Vec<_> = chunks.map(found).collect();
    let mut counts = vec![0u32; wanted.len()];
    let mut parts: Vec<Vec<u32>> = vec![Vec::new(); wanted_whole.len()];
    for (own, whole) in all {
        for (sum, count) in counts.iter_mut().zip(own) {
            *sum += count;
        }
        for (number, part) in whole {
            parts[number as usize].push(part);
        }
    }
    numbered
        .par_iter()
        .map(|numbers| {
            let mut others = Vec::with_capacity(numbers.len());
            let mut deepest: BTreeMap<u32, u8> = BTreeMap::new();
            for (n, (plain, whole)) in numbers.iter().enumerate() {
                let with = &parts[*whole as usize];
                others.push(counts[*plain as usize].saturating_sub(with.len() as u32));
                deepest.extend(with.iter().map(|part| (*part, n as u8 + 1)));
            }
            let mut parts: Vec<(u32, u8)> = deepest.into_iter().collect();
            if parts.len() > MOST_PARTS {
                // Of those with as many tokens, whichever a hash says, not the first files.
                let key =
                    |(part, n): &(u32, u8)| (std::cmp::Reverse(*n), mix64(0, &[u64::from(*part)]));
                parts.sort_by_key(key);
                parts.truncate(MOST_PARTS);
            }
            Reach { others, parts }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by its definition: every place of every stream is compared, token by token.
    fn by_comparing(streams: &[Vec<u64>], end: &End, longest: usize) -> Reach {
        let (mut others, mut deepest) = (Vec::new(), BTreeMap::new());
        let own = &streams[end.stream];
        let target = &own[end.token..end.token + end.words];
        for n in 1..=longest.min(end.token) {
            let context = &own[end.token - n..end.token];
            let (mut any, mut with) = (BTreeSet::new(), BTreeSet::new());
            let mut first = 0;
            for stream in streams {
                for to in n..stream.len() {
                    if stream[to - n..to] == *context {
                        any.insert(first + to / PART);
                        if stream[to..].starts_with(target) {
                            with.insert(first + to / PART);
                        }
                    }
                }
                first += stream.len().div_ceil(PART);
            }
            others.push((any.len() - with.len()) as u32);
            deepest.extend(with.into_iter().map(|part| (part as u32, n as u8)));
        }
        Reach {
            others,
            parts: deepest.into_iter().collect(),
        }
    }

    proptest! {
        #[test]
        fn reach_is_what_comparing_every_place_gives(
            streams in proptest::collection::vec(proptest::collection::vec(0..3u64, 5..200), 1..4),
            at in proptest::collection::vec((0..4usize, 1..200usize, 1..4usize), 1..6),
        ) {
            let settings = Settings { end_tokens: 4, ..Settings::default() };
            let ends: Vec<End> = at
                .iter()
                .map(|(stream, token, words)| {
                    let stream = stream % streams.len();
                    let words = *words.min(&(streams[stream].len() - 1));
                    let token = 1 + token % (streams[stream].len() - words);
                    End { stream, token: token.min(streams[stream].len() - words), words }
                })
                .collect();
            let rows: Vec<Vec<u64>> =
                streams.iter().map(|s| summed(s.iter().map(|t| mix64(7, &[*t])))).collect();
            let expected: Vec<Reach> =
                ends.iter().map(|end| by_comparing(&streams, end, 4)).collect();
            let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(reaches(&rows, &ends, &settings), expected);
        }
    }

    #[test]
    fn of_many_parts_those_with_most_tokens_are_kept() {
        // In each part the target follows its end, in the last ten with a token more before it.
        let parts = MOST_PARTS + 10;
        let mut stream = vec![9u64; parts * PART];
        for part in 0..parts {
            stream[part * PART + 20] = if part >= MOST_PARTS { 3 } else { 4 };
            stream[part * PART + 21] = 1;
            stream[part * PART + 22] = 2;
        }
        let end = End {
            stream: 0,
            token: MOST_PARTS * PART + 22,
            words: 1,
        };
        let settings = Settings {
            end_tokens: 2,
            ..Settings::default()
        };
        let rows = summed(stream.iter().map(|t| mix64(7, &[*t])));
        let reach = &reaches(&[&rows], &[end], &settings)[0];
        assert_eq!(reach.parts.len(), MOST_PARTS);
        let longest: BTreeSet<u32> = reach
            .parts
            .iter()
            .filter(|p| p.1 == 2)
            .map(|p| p.0)
            .collect();
        assert_eq!(longest, (MOST_PARTS as u32..parts as u32).collect());
        assert_eq!(reach.others, [0, 0]);
    }
}
