//! What a simulated model remembers: for the last 16 tokens or fewer of a text, what followed them
//! where it was trained. It knows only blocks of 64 tokens that a keyed draw kept, so that how much it
//! remembers of what it was trained on is a number, and what it was trained on is known.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use everbench::stats::mix::{keyed, mix64, uniform};
use rayon::prelude::*;

/// The longest context that is looked up, in tokens.
const ORDER: usize = 16;
/// Tokens that are kept or forgotten together.
const BLOCK: usize = 64;
/// Stands between files.
const END: u32 = 0;
/// A token that nobody trained on.
const UNKNOWN: u32 = u32::MAX;
/// Ranges of more places are counted once.
const LARGE: usize = 64;

/// Words and single marks of a text; white space is no token.
pub fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let length = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some(piece)
    })
}

/// Everything that models can be trained on, as tokens, with the draw of each block.
pub struct Training {
    ids: HashMap<String, u32>,
    words: Vec<String>,
    tokens: Vec<u32>,
    /// For each block of `tokens` the number in (0, 1) below which a model must be to forget it.
    draws: Vec<(std::ops::Range<usize>, f64)>,
}

impl Training {
    /// From families, each a name and the texts of its files. `seed` decides which blocks are kept
    /// together with the family's name and the block's number: more is kept with a larger share, and
    /// what a smaller share keeps is among it.
    pub fn of<'a>(
        families: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>,
        seed: u64,
    ) -> Training {
        let mut training = Training {
            ids: HashMap::new(),
            words: vec![String::new()],
            tokens: vec![END; ORDER],
            draws: Vec::new(),
        };
        for (name, texts) in families {
            let begin = training.tokens.len();
            for text in texts {
                for piece in pieces(text) {
                    let id = training.id_for(piece);
                    training.tokens.push(id);
                }
                training.tokens.extend([END; ORDER]);
            }
            let family = keyed(seed, 0, name.as_bytes());
            let mut at = begin;
            let mut block = 0;
            while at < training.tokens.len() {
                let to = (at + BLOCK).min(training.tokens.len());
                let draw = uniform(mix64(seed, &[family, block]));
                training.draws.push((at..to, draw));
                (at, block) = (to, block + 1);
            }
        }
        training
    }

    fn id_for(&mut self, piece: &str) -> u32 {
        if let Some(&id) = self.ids.get(piece) {
            return id;
        }
        let id = self.words.len() as u32;
        self.words.push(piece.to_string());
        self.ids.insert(piece.to_string(), id);
        id
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The two contexts that end before `a` and before `b`, compared from their ends.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let back = |at: usize| self.tokens[at - ORDER..at].iter().rev();
        back(a).cmp(back(b))
    }
}

/// A model that remembers a share of its training.
pub struct Memory {
    training: Arc<Training>,
    /// Places of tokens that are remembered, in the order of what stands before them.
    places: Vec<u32>,
    counted: Mutex<HashMap<(usize, usize), u32>>,
}

impl Memory {
    /// The model that remembers `share` of the blocks.
    pub fn new(training: Arc<Training>, share: f64) -> Memory {
        let kept = training.draws.iter().filter(|(_, draw)| *draw < share);
        let mut places: Vec<u32> = kept
            .flat_map(|(range, _)| range.clone())
            .filter(|&at| training.tokens[at] != END)
            .map(|at| at as u32)
            .collect();
        places.par_sort_unstable_by(|&a, &b| {
            training.compare(a as usize, b as usize).then(a.cmp(&b))
        });
        Memory {
            training,
            places,
            counted: Mutex::new(HashMap::new()),
        }
    }

    /// How many tokens are remembered.
    pub fn remembered(&self) -> usize {
        self.places.len()
    }

    /// Goes on with a text for at most `limit` tokens: each time the longest end of the text that is
    /// remembered decides, and of what followed it the most frequent, or at a temperature a draw by
    /// `seed`. Ends where nothing is remembered.
    pub fn goes_on(&self, text: &str, limit: usize, temperature: f64, seed: u64) -> Vec<&str> {
        let id = |piece: &str| self.training.ids.get(piece).copied().unwrap_or(UNKNOWN);
        let mut context: Vec<u32> = pieces(text).map(id).collect();
        let mut said = Vec::new();
        while said.len() < limit {
            let draw = mix64(seed, &[said.len() as u64]);
            let Some(next) = self.next(&context, temperature, draw) else {
                break;
            };
            said.push(self.training.words[next as usize].as_str());
            context.push(next);
        }
        said
    }

    fn next(&self, context: &[u32], temperature: f64, draw: u64) -> Option<u32> {
        let known = &self.training.tokens;
        let end = &context[context.len().saturating_sub(ORDER)..];
        // How far a place's context agrees with the text's end, and on which side it stands if not.
        let agrees = |place: u32| {
            let before = known[place as usize - ORDER..place as usize].iter().rev();
            let same = before.zip(end.iter().rev());
            same.take_while(|(a, b)| a == b).count()
        };
        let side = |place: u32, order: usize| {
            let before = known[place as usize - order..place as usize].iter().rev();
            before.cmp(end.iter().rev().take(order))
        };
        let at = self
            .places
            .partition_point(|&place| side(place, end.len()) == Ordering::Less);
        let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let order = neighbours
            .filter_map(|at| self.places.get(at))
            .map(|&place| agrees(place))
            .max()?;
        if order == 0 {
            return None;
        }
        let low = self
            .places
            .partition_point(|&place| side(place, order) == Ordering::Less);
        let high = self
            .places
            .partition_point(|&place| side(place, order) != Ordering::Greater);
        let large = high - low > LARGE && temperature == 0.0;
        if large && let Some(&next) = self.counted.lock().expect("no panic").get(&(low, high)) {
            return Some(next);
        }
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for &place in &self.places[low..high] {
            *counts.entry(known[place as usize]).or_default() += 1;
        }
        let mut counts: Vec<(u32, u32)> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        if temperature == 0.0 {
            let next = counts[0].0;
            if large {
                let mut counted = self.counted.lock().expect("no panic");
                counted.insert((low, high), next);
            }
            return Some(next);
        }
        let weights: Vec<f64> = counts
            .iter()
            .map(|(_, count)| f64::from(*count).powf(1.0 / temperature))
            .collect();
        let mut left = uniform(draw) * weights.iter().sum::<f64>();
        for ((id, _), weight) in counts.iter().zip(&weights) {
            left -= weight;
            if left <= 0.0 {
                return Some(*id);
            }
        }
        counts.last().map(|(id, _)| *id)
    }
}
