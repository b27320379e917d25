//! The reference model: how surprising a word is to somebody who knows the corpus and what was just
//! said, and not the repository. PPM with escape method C (Moffat, 1990), interpolated: each order's
//! counts are mixed with the next lower order's prediction by the share of different continuations. Below order 0
//! words are spelled by the same model over characters, trained on the corpus' vocabulary, so that every word
//! has a probability. Beside it a model that copies from the context.

use std::collections::HashMap;

use rayon::prelude::*;

use super::words::hash;
use crate::stats::mix::mix64;

/// What came after each context, of one length: contexts sorted by hash, continuations below them.
#[derive(Clone, Debug, Default)]
struct Counts {
    contexts: Vec<u64>,
    /// Where each context's continuations begin; one more than contexts.
    starts: Vec<u32>,
    /// How often each context was there.
    totals: Vec<u32>,
    symbols: Vec<u32>,
    counts: Vec<u32>,
}

impl Counts {
    fn of(mut seen: Vec<(u64, u32)>) -> Counts {
        seen.par_sort_unstable();
        let mut all = Counts::default();
        for context in seen.chunk_by(|a, b| a.0 == b.0) {
            all.contexts.push(context[0].0);
            all.starts.push(all.symbols.len() as u32);
            all.totals.push(context.len() as u32);
            for symbol in context.chunk_by(|a, b| a.1 == b.1) {
                all.symbols.push(symbol[0].1);
                all.counts.push(symbol.len() as u32);
            }
        }
        all.starts.push(all.symbols.len() as u32);
        all.shrink();
        all
    }

    fn shrink(&mut self) {
        self.contexts.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.totals.shrink_to_fit();
        self.symbols.shrink_to_fit();
        self.counts.shrink_to_fit();
    }

    /// Mixes the prediction of the next lower order with what was seen here; nothing if the context
    /// was not.
    fn mixed(&self, context: u64, symbol: Option<u32>, lower: f64) -> Option<f64> {
        let at = self.contexts.binary_search(&context).ok()?;
        let range = self.starts[at] as usize..self.starts[at + 1] as usize;
        let different = range.len() as f64;
        let own = symbol.and_then(|s| self.symbols[range.clone()].binary_search(&s).ok());
        let count = own.map_or(0, |i| self.counts[range.start + i]);
        let total = f64::from(self.totals[at]);
        Some((f64::from(count) + different * lower) / (total + different))
    }
}

/// How long contexts of characters are at most, in bytes.
const SPELLING: usize = 4;
/// Byte values and the end of a word.
const LETTERS: usize = 257;

/// The spelling of words.
#[derive(Clone, Debug, Default)]
struct Spelling {
    orders: Vec<Counts>,
}

impl Spelling {
    fn of<'w>(words: impl Iterator<Item = &'w [u8]>) -> Spelling {
        let mut seen: Vec<Vec<(u64, u32)>> = vec![Vec::new(); SPELLING + 1];
        for word in words {
            for (context, letter) in letters(word) {
                for (order, seen) in seen.iter_mut().enumerate().take(context.len() + 1) {
                    let context = &context[context.len() - order..];
                    seen.push((packed(context), letter));
                }
            }
        }
        Spelling {
            orders: seen.into_iter().map(Counts::of).collect(),
        }
    }

    fn probability(&self, word: &[u8]) -> f64 {
        let letter = |(context, letter): (&[u8], u32)| {
            let mut p = 1.0 / LETTERS as f64;
            for (order, counts) in self.orders.iter().enumerate().take(context.len() + 1) {
                let context = packed(&context[context.len() - order..]);
                match counts.mixed(context, Some(letter), p) {
                    Some(mixed) => p = mixed,
                    None => break,
                }
            }
            p
        };
        letters(word).map(letter).product()
    }
}

/// The letters of a word and its end, each with the letters before it.
fn letters(word: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    (0..=word.len()).map(move |at| {
        let context = &word[at.saturating_sub(SPELLING)..at];
        let letter = word.get(at).map_or(256, |c| u32::from(*c));
        (context, letter)
    })
}

fn packed(context: &[u8]) -> u64 {
    let bytes = context.iter().fold(0, |p: u64, c| p << 8 | u64::from(*c));
    (context.len() as u64) << 56 | bytes
}

/// Numbers for words.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    ids: HashMap<u64, u32>,
    words: Vec<Box<[u8]>>,
}

impl Vocabulary {
    /// The number of a word, which it gets if it has none.
    pub fn add(&mut self, word: &[u8]) -> u32 {
        let next = self.words.len() as u32;
        let id = *self.ids.entry(hash(word)).or_insert(next);
        if id == next {
            self.words.push(word.into());
        }
        id
    }

    /// The number of a word.
    pub fn id(&self, word: &[u8]) -> Option<u32> {
        self.ids.get(&hash(word)).copied()
    }
}

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// By length of context, from 0.
    orders: Vec<Counts>,
    spelling: Spelling,
    copy_weight: f64,
}

impl Model {
    /// Trains on streams of words, each by itself, with contexts of up to `order` words.
    pub fn train(
        vocabulary: &Vocabulary,
        streams: &[&[u32]],
        order: usize,
        copy_weight: f64,
    ) -> Model {
        let orders = (0..=order).map(|order| {
            let mut seen = Vec::with_capacity(streams.iter().map(|s| s.len()).sum());
            for stream in streams {
                for at in order..stream.len() {
                    seen.push((context_of(&stream[at - order..at]), stream[at]));
                }
            }
            Counts::of(seen)
        });
        let orders: Vec<Counts> = orders.collect();
        // Only words of these streams: the vocabulary may have more.
        let known = orders[0].symbols.iter();
        let words = known.map(|id| &*vocabulary.words[*id as usize]);
        Model {
            spelling: Spelling::of(words),
            orders,
            copy_weight,
        }
    }

    /// The probability of the word after `context` by the corpus alone.
    fn corpus(&self, vocabulary: &Vocabulary, context: &[Option<u32>], word: &[u8]) -> f64 {
        let id = vocabulary.id(word);
        let mut p = self.spelling.probability(word);
        for (order, counts) in self.orders.iter().enumerate() {
            let Some(from) = context.len().checked_sub(order) else {
                break;
            };
            let ids: Option<Vec<u32>> = context[from..].iter().copied().collect();
            let Some(ids) = ids else { break };
            match counts.mixed(context_of(&ids), id, p) {
                Some(mixed) => p = mixed,
                None => break,
            }
        }
        p
    }

    /// How often the last token of `context`, the last two and so on stand before anything in the corpus, up
    /// to the longest that do.
    pub fn ends(&self, vocabulary: &Vocabulary, context: &[&[u8]]) -> Vec<u32> {
        let longest = (1..self.orders.len().min(context.len() + 1)).map_while(|order| {
            let words = context[context.len() - order..].iter();
            let ids: Option<Vec<u32>> = words.map(|w| vocabulary.id(w)).collect();
            let counts = &self.orders[order];
            let at = counts.contexts.binary_search(&context_of(&ids?)).ok()?;
            Some(counts.totals[at])
        });
        longest.collect()
    }

    /// The surprisal of `target` after `context`, in bits: of its words, one after another.
    pub fn bits(&self, vocabulary: &Vocabulary, context: &[&[u8]], target: &[&[u8]]) -> f64 {
        let mut before: Vec<&[u8]> = context.to_vec();
        let mut ids: Vec<Option<u32>> = before.iter().map(|w| vocabulary.id(w)).collect();
        let mut bits = 0.0;
        for word in target {
            let p = (1.0 - self.copy_weight) * self.corpus(vocabulary, &ids, word)
                + self.copy_weight * copied(&before, word);
            bits -= p.log2();
            before.push(word);
            ids.push(vocabulary.id(word));
        }
        bits
    }
}

fn context_of(words: &[u32]) -> u64 {
    words
        .iter()
        .fold(words.len() as u64, |h, w| mix64(h, &[u64::from(*w)]))
}

/// The probability of a word for somebody who looks for the longest end of the text earlier in it, and
/// goes on as it went on there; if nothing of the end is there, any word of it is as likely.
fn copied(text: &[&[u8]], word: &[u8]) -> f64 {
    let common = |at: usize| {
        let pairs = text[..at].iter().rev().zip(text.iter().rev());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let ends: Vec<usize> = (0..text.len()).map(common).collect();
    let longest = ends.iter().copied().max().unwrap_or(0);
    let all = ends.iter().zip(text).filter(|(n, _)| **n == longest);
    let (hits, count) = all.fold((0, 0), |(hits, count), (_, w)| {
        (hits + usize::from(*w == word), count + 1)
    });
    match count {
        0 => 0.0,
        _ => f64::from(hits as u32) / f64::from(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The same by its definition, with maps of lists.
    struct Naive(BTreeMap<Vec<u32>, BTreeMap<u32, u32>>);

    impl Naive {
        fn of(streams: &[Vec<u32>], order: usize) -> Naive {
            let mut seen: BTreeMap<Vec<u32>, BTreeMap<u32, u32>> = BTreeMap::new();
            for stream in streams {
                for at in 0..stream.len() {
                    for from in at.saturating_sub(order)..=at {
                        let next = seen.entry(stream[from..at].to_vec()).or_default();
                        *next.entry(stream[at]).or_default() += 1;
                    }
                }
            }
            Naive(seen)
        }

        fn probability(&self, context: &[u32], symbol: u32, order: usize, base: f64) -> f64 {
            let mut p = base;
            for length in 0..=order.min(context.len()) {
                let Some(next) = self.0.get(&context[context.len() - length..]) else {
                    break;
                };
                let total: u32 = next.values().sum();
                let own = next.get(&symbol).copied().unwrap_or(0);
                let different = next.len() as f64;
                p = (f64::from(own) + different * p) / (f64::from(total) + different);
            }
            p
        }
    }

    fn word(n: u32) -> Vec<u8> {
        format!("w{n}").into_bytes()
    }

    fn spell(words: &Vocabulary) -> Spelling {
        Spelling::of(words.words.iter().map(|w| &**w))
    }

    proptest! {
        #[test]
        fn words_are_as_likely_as_the_definition_says(
            streams in proptest::collection::vec(proptest::collection::vec(0..6u32, 0..30), 1..5),
            context in proptest::collection::vec(0..6u32, 0..8),
            symbol in 0..7u32,
        ) {
            let mut words = Vocabulary::default();
            for stream in &streams {
                for n in stream {
                    words.add(&word(*n));
                }
            }
            let id = |n: &u32| words.id(&word(*n));
            let ids: Vec<Vec<u32>> =
                streams.iter().map(|s| s.iter().filter_map(id).collect()).collect();
            let lists: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
            let model = Model::train(&words, &lists, 3, 0.3);
            let spelt = context.clone();
            let context: Vec<Option<u32>> = context.iter().map(id).collect();
            // What is before an unknown word is no context.
            let known = context.iter().rposition(Option::is_none).map_or(0, |i| i + 1);
            let plain: Vec<u32> = context[known..].iter().copied().flatten().collect();
            let base = spell(&words).probability(&word(symbol));
            let expected = Naive::of(&ids, 3).probability(
                &plain,
                id(&symbol).unwrap_or(u32::MAX),
                3,
                base,
            );
            let found = model.corpus(&words, &context, &word(symbol));
            prop_assert!((found - expected).abs() < 1e-12, "{} {}", found, expected);
            let naive = Naive::of(&ids, 3);
            let total = |n: usize| naive.0.get(&plain[plain.len() - n..]).map(|m| m.values().sum());
            let counts: Vec<u32> = (1..=plain.len().min(3)).map_while(total).collect();
            let text: Vec<Vec<u8>> = spelt.iter().map(|n| word(*n)).collect();
            let text: Vec<&[u8]> = text.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(model.ends(&words, &text), counts);
        }

        #[test]
        fn all_words_together_are_no_more_than_certain(
            stream in proptest::collection::vec(0..6u32, 1..30),
            context in proptest::collection::vec(0..6u32, 0..4),
        ) {
            let mut words = Vocabulary::default();
            let ids: Vec<u32> = stream.iter().map(|n| words.add(&word(*n))).collect();
            let model = Model::train(&words, &[&ids], 3, 0.3);
            let context: Vec<Option<u32>> =
                context.iter().map(|n| words.id(&word(*n))).collect();
            let sum: f64 = (0..50).map(|n| model.corpus(&words, &context, &word(n))).sum();
            prop_assert!(sum > 0.0 && sum <= 1.0 + 1e-9, "{}", sum);
            let spelling = spell(&words);
            let short: f64 = (0..=255u8).map(|a| spelling.probability(&[a])).sum();
            prop_assert!(short + spelling.probability(b"") <= 1.0 + 1e-9);
        }
    }

    #[test]
    fn copying_follows_the_longest_end_that_was_there() {
        let text: Vec<&[u8]> = "a b c a b d x a b".split(' ').map(str::as_bytes).collect();
        assert_eq!(copied(&text, b"c"), 0.5);
        assert_eq!(copied(&text, b"d"), 0.5);
        assert_eq!(copied(&text, b"x"), 0.0);
        assert_eq!(copied(&[b"a", b"b"], b"b"), 0.5);
        assert_eq!(copied(&[], b"b"), 0.0);
    }

    #[test]
    fn what_the_corpus_often_says_is_less_surprising_than_what_it_never_says() {
        let mut words = Vocabulary::default();
        let text = "return result ; ".repeat(20) + "return buffer ;";
        let stream: Vec<u32> = text
            .split_whitespace()
            .map(|w| words.add(w.as_bytes()))
            .collect();
        let model = Model::train(&words, &[&stream], 5, 0.3);
        let bits = |target: &str| {
            let target: Vec<&[u8]> = target.split(' ').map(str::as_bytes).collect();
            model.bits(&words, &[b";", b"return"], &target)
        };
        assert!(bits("result") < 1.0, "{}", bits("result"));
        assert!((3.0..8.0).contains(&bits("buffer")), "{}", bits("buffer"));
        assert!(bits("zygote_of_quux") > 20.0, "{}", bits("zygote_of_quux"));
        assert!(bits("result ;") > bits("result"));
    }
}
