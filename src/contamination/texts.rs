//! Text duplications: paragraphs and comments with nearly the same words, by 64-bit fingerprints
//! (Charikar's simhash over word shingles) that differ in few bits. All pairs of fingerprints within that
//! distance are found: two that differ in at most h bits are equal in one of h + 1 parts.

use std::collections::HashMap;

use super::clones::stars;
use super::signature::Settings;
use crate::stats::mix::mix64;

/// The fingerprint of a row of words, given as hashes; nothing if there are fewer than a shingle.
pub fn fingerprint(words: &[u64], settings: &Settings) -> Option<u64> {
    let width = settings.shingle_words.max(1);
    let mut votes = [0i32; 64];
    if words.len() < width {
        return None;
    }
    for shingle in words.windows(width) {
        let hash = mix64(0, shingle);
        for (bit, vote) in votes.iter_mut().enumerate() {
            *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    let set = |(bit, vote): (usize, &i32)| u64::from(*vote > 0) << bit;
    Some(votes.iter().enumerate().map(set).sum())
}

/// All pairs (a, b), a < b, of fingerprints that differ in at most `distance` bits, in order.
pub fn pairs(fingerprints: &[u64], distance: u32) -> Vec<(u32, u32)> {
    let parts = (distance + 1).min(64);
    let mut found = Vec::new();
    for part in 0..parts {
        let (from, to) = (part * 64 / parts, (part + 1) * 64 / parts);
        let key = |f: u64| f << (64 - to) >> (64 - (to - from));
        let mut table: HashMap<u64, Vec<u32>> = HashMap::new();
        for (at, fingerprint) in fingerprints.iter().enumerate() {
            let bucket = table.entry(key(*fingerprint)).or_default();
            for other in bucket.iter() {
                let differing = (fingerprint ^ fingerprints[*other as usize]).count_ones();
                if differing <= distance {
                    found.push((*other, at as u32));
                }
            }
            bucket.push(at as u32);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// For each fingerprint the group it is in, named by the place of its first one; nothing if it is
/// alone.
pub fn groups(fingerprints: &[u64], distance: u32) -> Vec<Option<u32>> {
    // Equal ones are compared once: a header in every file would make pairs of all files.
    let mut first: HashMap<u64, u32> = HashMap::new();
    let mut distinct: Vec<u64> = Vec::new();
    let of: Vec<u32> = fingerprints
        .iter()
        .map(|f| {
            *first.entry(*f).or_insert_with(|| {
                distinct.push(*f);
                distinct.len() as u32 - 1
            })
        })
        .collect();
    let order: Vec<u32> = (0..distinct.len() as u32).collect();
    let star = stars(distinct.len(), &pairs(&distinct, distance), &order);
    let mut members: HashMap<u32, (u32, u32)> = HashMap::new();
    for (at, d) in of.iter().enumerate() {
        let entry = members.entry(star[*d as usize]).or_insert((at as u32, 0));
        entry.1 += 1;
    }
    of.iter()
        .map(|d| {
            let (first, count) = members[&star[*d as usize]];
            (count > 1).then_some(first)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_pairs_within_the_distance_are_found(
            seeds in proptest::collection::vec(any::<u64>(), 1..12),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..64u32, 0..64u32, 0..64u32, 0..64u32), 0..30),
            distance in 0..5u32,
        ) {
            let mut all = seeds.clone();
            for (which, a, b, c, d) in flips {
                all.push(which.get(&seeds) ^ (1 << a) ^ (1 << b) ^ (1 << c) ^ (1 << d));
            }
            let mut expected = Vec::new();
            for i in 0..all.len() {
                for j in i + 1..all.len() {
                    if (all[i] ^ all[j]).count_ones() <= distance {
                        expected.push((i as u32, j as u32));
                    }
                }
            }
            prop_assert_eq!(pairs(&all, distance), expected);
        }

        #[test]
        fn the_fingerprint_is_the_majority_of_its_shingles(
            words in proptest::collection::vec(0..9u64, 0..30),
        ) {
            let settings = Settings::default();
            let shingles: Vec<u64> = words.windows(3).map(|w| mix64(0, w)).collect();
            let bit = |bit: u32| {
                let ones = shingles.iter().filter(|h| *h >> bit & 1 == 1).count();
                u64::from(2 * ones > shingles.len()) << bit
            };
            let expected = (!shingles.is_empty()).then(|| (0..64).map(bit).sum::<u64>());
            prop_assert_eq!(fingerprint(&words, &settings), expected);
        }
    }

    #[test]
    fn a_paragraph_with_one_other_word_is_near_and_another_is_not() {
        let settings = Settings::default();
        let one: Vec<u64> = (0..900).map(|n| n * n % 997).collect();
        let mut two = one.clone();
        two[899] = 1000;
        let other: Vec<u64> = (0..900).map(|n| 1000 + n).collect();
        let prints = [&one, &two, &other].map(|w| fingerprint(w, &settings).expect("long enough"));
        assert_eq!(groups(&prints, settings.hamming), [Some(0), Some(0), None]);
    }
}
