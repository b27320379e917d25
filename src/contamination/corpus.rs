//! The reference corpus: families of repositories of one language, in how many of them a word or
//! phrase is, and the model trained on them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;

use super::leaf::{readable, reading};
use super::mine::sampled;
use super::model::{Model, Vocabulary};
use super::signature::{Candidate, File, Mined, Reason, Settings, Snippet};
use super::words::{Kind, Reading, Token, hash, tokens};
use crate::lang::SnippetLanguage;
use crate::stats::mix::mix64;

/// Everything that was published from one upstream repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Family {
    /// What it is called in reports.
    pub name: String,
    /// Its upstream repository: sources with the same one are one family.
    pub url: Option<String>,
    /// Its files.
    pub files: Vec<File>,
}

/// What is kept of a family.
#[derive(Clone, Debug)]
struct Kept {
    name: String,
    url: Option<String>,
    /// Hashes of its words and of its phrases of two to four words, sorted.
    terms: Vec<u64>,
    /// A sample of the hashes of its content, sorted.
    sample: Vec<u64>,
    /// Its words in order, file by file, as numbers of the vocabulary.
    streams: Vec<Vec<u32>>,
    excluded: BTreeMap<Reason, usize>,
}

/// A corpus of one language.
#[derive(Clone, Debug)]
pub struct Corpus {
    language: SnippetLanguage,
    settings: Settings,
    vocabulary: Vocabulary,
    families: Vec<Kept>,
    /// In how many families each term is.
    frequency: HashMap<u64, u32>,
    model: Model,
}

/// The words of a text as they are there.
struct Words {
    terms: Vec<u64>,
    sample: Vec<u64>,
    files: Vec<(usize, Vec<Token>)>,
    excluded: BTreeMap<Reason, usize>,
}

impl Corpus {
    /// A corpus of these families, merged by upstream URL. A family without a file of the language is left
    /// out.
    pub fn build(language: SnippetLanguage, families: &[Family], settings: &Settings) -> Corpus {
        let read: Vec<Words> = families
            .par_iter()
            .map(|family| words(language, &family.files, settings))
            .collect();
        let mut vocabulary = Vocabulary::default();
        let mut merged: BTreeMap<String, Kept> = BTreeMap::new();
        for (family, words) in families.iter().zip(read) {
            let url = family.url.as_deref().map(upstream);
            let key = url.clone().unwrap_or_else(|| format!(" {}", family.name));
            let kept = merged.entry(key).or_insert_with(|| Kept {
                name: family.name.clone(),
                url,
                terms: Vec::new(),
                sample: Vec::new(),
                streams: Vec::new(),
                excluded: BTreeMap::new(),
            });
            kept.terms.extend(words.terms);
            kept.sample.extend(words.sample);
            for (reason, count) in words.excluded {
                *kept.excluded.entry(reason).or_default() += count;
            }
            let mut left = settings.family_tokens.saturating_sub(kept.tokens());
            for (at, all) in words.files {
                let bytes = &family.files[at].bytes;
                let all = &all[..all.len().min(left)];
                left -= all.len();
                if !all.is_empty() {
                    let ids = all.iter().map(|t| vocabulary.add(&bytes[t.range()]));
                    kept.streams.push(ids.collect());
                }
            }
        }
        let mut families: Vec<Kept> = merged.into_values().collect();
        families.par_iter_mut().for_each(Kept::settle);
        families.retain(|f| !f.streams.is_empty());
        Corpus::of(language, settings.clone(), vocabulary, families)
    }

    fn of(
        language: SnippetLanguage,
        settings: Settings,
        vocabulary: Vocabulary,
        families: Vec<Kept>,
    ) -> Corpus {
        let mut frequency: HashMap<u64, u32> = HashMap::new();
        for term in families.iter().flat_map(|f| &f.terms) {
            *frequency.entry(*term).or_default() += 1;
        }
        let streams: Vec<&[u32]> = families
            .iter()
            .flat_map(|f| f.streams.iter().map(Vec::as_slice))
            .collect();
        let model = Model::train(&vocabulary, &streams, settings.order, settings.copy_weight);
        Corpus {
            language,
            settings,
            vocabulary,
            families,
            frequency,
            model,
        }
    }

    /// The language.
    pub fn language(&self) -> SnippetLanguage {
        self.language
    }

    /// How many families it has.
    pub fn len(&self) -> usize {
        self.families.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// How many words its model is trained on.
    pub fn tokens(&self) -> usize {
        self.families.iter().map(Kept::tokens).sum()
    }

    /// The families' names, with the files that were left out of each.
    pub fn families(&self) -> impl Iterator<Item = (&str, &BTreeMap<Reason, usize>)> {
        self.families.iter().map(|f| (f.name.as_str(), &f.excluded))
    }

    /// Names of the families that are the repository under test, hold it, or are held by it: by upstream URL,
    /// and by the part of the smaller one's content that both have.
    pub fn same_as(&self, mined: &Mined, url: Option<&str>) -> Vec<&str> {
        let url = url.map(upstream);
        let same = |family: &&Kept| {
            let by_url = url.is_some() && family.url == url;
            by_url || overlap(&family.sample, &mined.sample) >= self.settings.overlap
        };
        let found = self.families.iter().filter(same);
        found.map(|f| f.name.as_str()).collect()
    }

    /// The corpus without the repository under test: itself, if that is not in it.
    pub fn without(&self, mined: &Mined, url: Option<&str>) -> Cow<'_, Corpus> {
        let same: BTreeSet<&str> = self.same_as(mined, url).into_iter().collect();
        if same.is_empty() {
            return Cow::Borrowed(self);
        }
        let others = self.families.iter();
        let others = others.filter(|f| !same.contains(f.name.as_str())).cloned();
        Cow::Owned(Corpus::of(
            self.language,
            self.settings.clone(),
            self.vocabulary.clone(),
            others.collect(),
        ))
    }

    /// How many families have the target.
    pub fn frequency(&self, target: &str) -> u32 {
        let all = tokens(Reading::Prose, target.as_bytes());
        let words: Vec<u64> = all
            .iter()
            .map(|t| hash(&target.as_bytes()[t.range()]))
            .collect();
        self.frequency.get(&term(&words)).copied().unwrap_or(0)
    }

    /// The surprisal of the target after its context, in bits.
    pub fn bits(&self, candidate: &Candidate) -> f64 {
        let (context, target) = (candidate.context.as_bytes(), candidate.target.as_bytes());
        let read = tokens(Reading::Code(self.language), context);
        let before: Vec<&[u8]> = read.iter().map(|t| &context[t.range()]).collect();
        let read = tokens(Reading::Prose, target);
        let next: Vec<&[u8]> = read.iter().map(|t| &target[t.range()]).collect();
        self.model.bits(&self.vocabulary, &before, &next)
    }

    /// How often the last token of the candidate's context, the last two and so on are in the corpus, as far as
    /// they are.
    pub fn ends(&self, candidate: &Candidate) -> Vec<u32> {
        let context = candidate.context.as_bytes();
        let read = tokens(Reading::Code(self.language), context);
        let before: Vec<&[u8]> = read.iter().map(|t| &context[t.range()]).collect();
        self.model.ends(&self.vocabulary, &before)
    }

    /// The candidate with what the corpus says of it.
    pub fn rate(&self, candidate: &Candidate) -> Snippet {
        Snippet {
            pattern: candidate.pattern,
            path: candidate.path.clone(),
            offset: candidate.offset,
            context: candidate.context.clone(),
            target: candidate.target.clone(),
            class: candidate.class,
            repeats: candidate.repeats,
            df: self.frequency(&candidate.target),
            bits: self.bits(candidate),
        }
    }
}

impl Kept {
    fn tokens(&self) -> usize {
        self.streams.iter().map(Vec::len).sum()
    }

    fn settle(&mut self) {
        for list in [&mut self.terms, &mut self.sample] {
            list.sort_unstable();
            list.dedup();
            list.shrink_to_fit();
        }
    }
}

/// A word or phrase as one number.
fn term(words: &[u64]) -> u64 {
    match words {
        [word] => *word,
        words => mix64(words.len() as u64, words),
    }
}

fn words(language: SnippetLanguage, files: &[File], settings: &Settings) -> Words {
    let mut found = Words {
        terms: Vec::new(),
        sample: Vec::new(),
        files: Vec::new(),
        excluded: BTreeMap::new(),
    };
    for (at, file) in files.iter().enumerate() {
        let reading = reading(language, &file.path);
        let read = reading.and_then(|r| readable(r, &file.bytes, settings).map(|()| r));
        let reading = match read {
            Ok(reading) => reading,
            Err(reason) => {
                *found.excluded.entry(reason).or_default() += 1;
                continue;
            }
        };
        let all = tokens(reading, &file.bytes);
        let hashes: Vec<u64> = all.iter().map(|t| hash(&file.bytes[t.range()])).collect();
        found.terms.extend(&hashes);
        let (least, most) = settings.target_words;
        for words in least.max(2)..=most {
            let spoken = all.windows(words).zip(hashes.windows(words));
            let spoken = spoken.filter(|(t, _)| t.iter().all(|t| t.kind == Kind::Text));
            found.terms.extend(spoken.map(|(_, h)| term(h)));
        }
        if reading != Reading::Prose {
            found.sample.extend(sampled(&all, &file.bytes));
            found.files.push((at, all));
        }
    }
    found.terms.sort_unstable();
    found.terms.dedup();
    found
}

/// Fewer hashes say nothing of whose content it is.
const LEAST_SAMPLE: usize = 8;

/// The part of the smaller sorted list that is in the other one.
fn overlap(a: &[u64], b: &[u64]) -> f64 {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if small.len() < LEAST_SAMPLE {
        return 0.0;
    }
    let common = small.iter().filter(|h| large.binary_search(h).is_ok());
    common.count() as f64 / small.len() as f64
}

/// An upstream URL without what differs between people who mean the same: scheme, user, case, `.git`, and
/// what of a host's page follows owner and name.
pub fn upstream(url: &str) -> String {
    let url = url.trim().to_lowercase();
    let url = url.strip_prefix("git+").unwrap_or(&url);
    let url = url.strip_prefix("scm:git:").unwrap_or(url);
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['#', '?']).next().unwrap_or(rest);
    let rest = match rest.split_once('@') {
        Some((user, rest)) if !user.contains('/') => rest,
        _ => rest,
    };
    // `host:owner/name`, as ssh has it.
    let rest = match rest.split_once(':') {
        Some((host, path))
            if !host.contains('/') && !path.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            format!("{host}/{path}")
        }
        _ => rest.to_string(),
    };
    let rest = rest.strip_prefix("www.").unwrap_or(&rest);
    let parts: Vec<&str> = rest.split('/').filter(|p| !p.is_empty()).collect();
    let hosted = parts
        .first()
        .is_some_and(|h| ["github.com", "codeberg.org", "bitbucket.org"].contains(h));
    let own = match parts.iter().position(|p| *p == "-") {
        Some(at) => &parts[..at],
        None if hosted => &parts[..parts.len().min(3)],
        None => &parts[..],
    };
    let joined = own.join("/");
    joined.strip_suffix(".git").unwrap_or(&joined).to_string()
}
