//! The selection of snippets: of all that are distinctive and cannot be guessed, those that together tell most
//! about a model that has learnt a little of the repository, whichever part that is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use super::corpus::Corpus;
use super::signature::{Candidate, Mined, Reason, Selected, Settings, Snippet};
use crate::digest::Digest;

/// Below this a part counts as one that tells nothing.
const LEAST_CHANCE: f64 = 0.01;
/// Steps of what a candidate adds. Coarser than rounding errors, so that the order is the same everywhere.
const STEPS: f64 = 1e4;

/// The snippets to be asked: distinctive in the corpus, not to be guessed, and not too many that are alike.
/// The next is always the one that adds most: in more parts of the repository that are little covered by
/// those before it, its target follows the end of its context; of equal ones the first of `mined`. While
/// there are fewer than [`Settings::probes`], the limits are widened, round by round. The corpus must not
/// contain the repository ([`Corpus::without`]).
pub fn select(mined: &Mined, corpus: &Corpus, settings: &Settings) -> Selected {
    let most = settings.most_families(corpus.len());
    let all = &mined.candidates;
    let (mut fates, chances): (Vec<Fate>, Vec<Vec<(u32, f64)>>) = all
        .par_iter()
        .map(|c| match corpus.frequency(&c.target) > most {
            true => (Fate::Out(Reason::Common), Vec::new()),
            false => (Fate::Open(Reason::Enough), chances(c, corpus, settings)),
        })
        .unzip();
    let mut chosen = Chosen::default();
    let mut coverage = Coverage::default();
    for round in 0..settings.rounds.max(1) {
        let open = (0..all.len()).filter(|at| matches!(fates[*at], Fate::Open(_)));
        let mut next: BinaryHeap<(u64, Reverse<usize>)> = open
            .map(|at| (coverage.added(&chances[at]), Reverse(at)))
            .collect();
        while let Some((added, Reverse(at))) = next.pop() {
            if chosen.snippets.len() >= settings.probes {
                fates[at] = Fate::Open(Reason::Enough);
                continue;
            }
            if let Some(reason) = chosen.too_many(&all[at], settings, round) {
                fates[at] = Fate::Open(reason);
                continue;
            }
            // What is covered only grows, so that what was first by an old count and still is by the new one
            // is first.
            let now = coverage.added(&chances[at]);
            if now < added {
                next.push((now, Reverse(at)));
                continue;
            }
            let snippet = corpus.rate(&all[at]);
            if snippet.bits < settings.bits {
                fates[at] = Fate::Out(Reason::Guessable);
                continue;
            }
            coverage.add(&chances[at]);
            chosen.take(&all[at], snippet);
            fates[at] = Fate::Asked;
        }
        if chosen.snippets.len() >= settings.probes {
            break;
        }
    }
    let mut excluded = mined.excluded.clone();
    for fate in fates {
        if let Fate::Open(reason) | Fate::Out(reason) = fate {
            *excluded.entry(reason).or_default() += 1;
        }
    }
    Selected {
        snippets: chosen.snippets,
        excluded,
    }
}

/// For the parts of the repository in which the target follows the end of the context, how likely it is that
/// who has learnt that part answers with the target: that of all other places that have as much of the
/// end, in the repository and in the corpus, none was learnt.
fn chances(candidate: &Candidate, corpus: &Corpus, settings: &Settings) -> Vec<(u32, f64)> {
    let reach = &candidate.reach;
    let in_corpus = corpus.ends(candidate);
    let alone = reach.others.iter().enumerate().map(|(n, own)| {
        let others = own.saturating_add(in_corpus.get(n).copied().unwrap_or(0));
        power(1.0 - settings.learnt_share.clamp(0.0, 1.0), others)
    });
    let alone: Vec<f64> = alone.collect();
    let parts = reach.parts.iter();
    let chances = parts.map(|(part, tokens)| (*part, alone[usize::from(*tokens) - 1]));
    chances.filter(|(_, p)| *p >= LEAST_CHANCE).collect()
}

/// By multiplications alone, which give the same on every machine.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            product *= base;
        }
        base *= base;
        exponent /= 2;
    }
    product
}

/// How many snippets somebody who has learnt a part would answer, by part.
#[derive(Default)]
struct Coverage(HashMap<u32, f64>);

impl Coverage {
    /// What a candidate with these chances adds, in [`STEPS`]: its chance in each part, over the square of one more
    /// than what the part has.
    fn added(&self, chances: &[(u32, f64)]) -> u64 {
        let of = |(part, chance): &(u32, f64)| {
            let known = 1.0 + self.0.get(part).copied().unwrap_or(0.0);
            chance / (known * known)
        };
        (chances.iter().map(of).sum::<f64>() * STEPS) as u64
    }

    fn add(&mut self, chances: &[(u32, f64)]) {
        for (part, chance) in chances {
            *self.0.entry(*part).or_default() += chance;
        }
    }
}

/// What becomes of a candidate.
#[derive(Clone, Copy)]
enum Fate {
    /// Left out so far; a later round may take it.
    Open(Reason),
    Out(Reason),
    Asked,
}

/// The snippets so far, and how many are alike.
#[derive(Default)]
struct Chosen<'m> {
    snippets: Vec<Snippet>,
    classes: HashMap<Digest, usize>,
    targets: HashMap<&'m str, usize>,
    /// For each file the bytes from the context's beginning to the target's end.
    files: HashMap<&'m str, Vec<(u64, u64)>>,
}

impl<'m> Chosen<'m> {
    /// Why the candidate is not taken in this round, if so. Each round allows twice as many of a class
    /// and of a file as the one before; of what is taken beyond the first round's limits no two overlap,
    /// since a model that has learnt a place answers all questions about it.
    fn too_many(&self, candidate: &Candidate, settings: &Settings, round: usize) -> Option<Reason> {
        let wider = 1usize.checked_shl(round as u32).unwrap_or(usize::MAX);
        let count = |n: Option<&usize>| n.copied().unwrap_or(0);
        let (from, to) = extent(candidate);
        let own = self.files.get(candidate.path.as_str());
        let own = own.map_or(&[][..], Vec::as_slice);
        if count(self.classes.get(&candidate.class)) >= settings.per_class.saturating_mul(wider) {
            Some(Reason::SameClass)
        } else if count(self.targets.get(candidate.target.as_str())) >= settings.per_target {
            Some(Reason::SameTarget)
        } else if own.len() >= settings.per_file.saturating_mul(wider) {
            Some(Reason::SameFile)
        } else if round > 0 && own.iter().any(|(f, t)| from < *t && *f < to) {
            Some(Reason::SamePlace)
        } else {
            None
        }
    }

    fn take(&mut self, candidate: &'m Candidate, snippet: Snippet) {
        *self.classes.entry(candidate.class).or_default() += 1;
        *self.targets.entry(&candidate.target).or_default() += 1;
        let own = self.files.entry(&candidate.path).or_default();
        own.push(extent(candidate));
        self.snippets.push(snippet);
    }
}

/// The bytes of the file that a candidate shows and asks for.
fn extent(candidate: &Candidate) -> (u64, u64) {
    let from = candidate.offset - (candidate.context.len() as u64).min(candidate.offset);
    (from, candidate.offset + candidate.target.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contamination::{Family, File, Pattern, Reach};
    use crate::lang::SnippetLanguage;

    fn corpus(text: &str) -> Corpus {
        let family = Family {
            name: "other".to_string(),
            url: None,
            files: vec![File {
                path: "other.py".to_string(),
                bytes: Arc::from(text.as_bytes()),
            }],
        };
        let python = SnippetLanguage::named("python").expect("a language");
        Corpus::build(python, &[family], &Settings::default())
    }

    fn candidate(target: &str, others: &[u32], parts: &[(u32, u8)]) -> Candidate {
        Candidate {
            pattern: Pattern::Cooccurrence,
            path: format!("{target}.py"),
            offset: 90,
            context: "one_thing . another (".to_string(),
            target: target.to_string(),
            class: Digest::of(target.as_bytes()),
            repeats: 2,
            reach: Reach {
                others: others.to_vec(),
                parts: parts.to_vec(),
            },
        }
    }

    fn chosen(candidates: Vec<Candidate>, corpus: &Corpus, probes: usize) -> Vec<String> {
        let mined = Mined {
            candidates,
            ..Mined::default()
        };
        let settings = Settings {
            probes,
            ..Settings::default()
        };
        let selected = select(&mined, corpus, &settings);
        let snippets = selected.snippets.into_iter();
        snippets.map(|s| s.target).collect()
    }

    #[test]
    fn after_the_best_comes_what_covers_other_parts_not_what_covers_the_same_ones_again() {
        let all = vec![
            candidate("zz_widest", &[0], &[(1, 1), (2, 1), (3, 1), (4, 1)]),
            candidate("zz_again", &[0], &[(1, 1), (2, 1), (3, 1)]),
            candidate("zz_elsewhere", &[0], &[(8, 1), (9, 1)]),
        ];
        let expected = ["zz_widest", "zz_elsewhere", "zz_again"];
        assert_eq!(chosen(all, &corpus("x = 1\n"), 3), expected);
    }

    #[test]
    fn what_is_followed_by_other_things_elsewhere_is_worth_less() {
        // Four parts, each lost if one of 300 others was learnt, are worth less than one for sure.
        let all = vec![
            candidate("zz_rivals", &[300], &[(1, 1), (2, 1), (3, 1), (4, 1)]),
            candidate("zz_alone", &[0], &[(9, 1)]),
        ];
        assert_eq!(chosen(all, &corpus("x = 1\n"), 1), ["zz_alone"]);
        // In the corpus, too; a longer end, which the corpus does not have, is not lost.
        let usual = corpus(&"another(x)\n".repeat(400));
        let all = vec![
            candidate("zz_usual", &[0; 4], &[(1, 2), (2, 2), (3, 2)]),
            candidate("zz_longer", &[0; 4], &[(9, 4)]),
        ];
        assert_eq!(chosen(all, &usual, 1), ["zz_longer"]);
    }

    #[test]
    fn powers_are_those_of_repeated_multiplication() {
        for exponent in [0, 1, 2, 7, 300] {
            let expected = (0..exponent).fold(1.0, |p, _| p * 0.99);
            assert!((power(0.99, exponent) - expected).abs() < 1e-12);
        }
        assert_eq!(power(0.99, u32::MAX), 0.0);
    }
}
