//! From a repository's files to candidates: what is repeated in it, and by which kind of pattern.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use super::clones::{Block, classes};
use super::leaf::{Leaf, leaf, reading};
use super::reach::{End, power, reaches, row, row_hashes};
use super::sequences::{Frequent, ending};
use super::signature::{Candidate, File, Mined, Pattern, Reach, Reason, Settings};
use super::texts::groups;
use super::words::{Kind, Reading, Token, hash, tokens};
use crate::digest::Digest;
use crate::lang::SnippetLanguage;
use crate::stats::mix::keyed;

/// Of a repeated place, so many occurrences are tried.
const TRIES: usize = 8;
/// One of so many hashes of what a file holds is in the sample.
const SAMPLED: u64 = 32;
/// Tokens in each row of those hashes; shorter rows are in everybody's code.
const SAMPLED_TOKENS: usize = 8;
/// More repeats than these count as these.
const MOST_REPEATS: u32 = 64;

/// What the files of a repository give.
pub fn mine(language: SnippetLanguage, files: &[File], settings: &Settings) -> Mined {
    let leaves: Vec<Leaf> = files
        .par_iter()
        .map(|file| leaf(language, file, settings))
        .collect();
    assemble(language, files, &leaves, settings)
}

/// The same from what each file gave alone; `leaves` is parallel to `files`.
pub fn assemble(
    language: SnippetLanguage,
    files: &[File],
    leaves: &[Leaf],
    settings: &Settings,
) -> Mined {
    let mut mined = Mined::default();
    let mut texts: Vec<Text<'_>> = Vec::new();
    for (file, leaf) in files.iter().zip(leaves) {
        match (leaf.reason, reading(language, &file.path)) {
            (Some(reason), _) | (None, Err(reason)) => mined.exclude(reason, 1),
            (None, Ok(reading)) => texts.push(Text {
                file,
                leaf,
                reading,
                tokens: Vec::new(),
                rows: Vec::new(),
                paragraph_groups: Vec::new(),
                classes: Vec::new(),
            }),
        }
    }
    mined.files = texts.len();
    // In whichever order the files come, the answer is the same.
    texts.sort_by(|a, b| a.file.path.cmp(&b.file.path));
    texts.par_iter_mut().for_each(|text| {
        text.tokens = tokens(text.reading, &text.file.bytes);
        text.rows = row_hashes(&text.tokens, &text.file.bytes);
    });
    let (clones, groups) = rayon::join(
        || class_places(&texts, settings),
        || paragraph_groups(&texts, settings),
    );
    for ((text, classes), groups) in texts.iter_mut().zip(clones).zip(groups) {
        text.classes = classes;
        text.paragraph_groups = groups;
    }
    let (tokens, sample, places) = repeated(&texts, settings, &mut mined.excluded);
    (mined.tokens, mined.sample) = (tokens, sample);
    let sequences = sequences(&texts, &places, settings);
    let (found, excluded) = candidates(&texts, places, &sequences, settings);
    for (reason, count) in excluded {
        mined.exclude(reason, count);
    }
    mined.candidates = found;
    mined
}

/// Identifiers of a repository's code in an order by keyed hash, with what stands before them: what
/// signature snippets are measured against. At most [`Settings::probes`], and of one target at most
/// [`Settings::per_target`].
pub fn random(language: SnippetLanguage, files: &[File], settings: &Settings) -> Vec<Candidate> {
    let mut places: Vec<(u64, usize, usize)> = files
        .par_iter()
        .enumerate()
        .flat_map_iter(|(at, file)| {
            let all = readable_tokens(language, file, settings);
            let whole = all.iter().enumerate().skip(settings.context_tokens.0);
            let fits = |t: &Token| is_target(t, settings);
            whole
                .filter(|(_, t)| fits(t))
                .map(|(i, t)| (order_key(settings, &file.path, t.start), at, i))
                .collect::<Vec<_>>()
        })
        .collect();
    places.par_sort_unstable();
    let mut out: Vec<Candidate> = Vec::new();
    let mut per_target: HashMap<String, usize> = HashMap::new();
    let mut read: HashMap<usize, Vec<Token>> = HashMap::new();
    for (key, at, i) in places {
        if out.len() >= settings.probes {
            break;
        }
        let file = &files[at];
        let all = read
            .entry(at)
            .or_insert_with(|| readable_tokens(language, file, settings));
        let target = text_of(&file.bytes[all[i].range()]);
        let count = per_target.entry(target.clone()).or_default();
        if *count >= settings.per_target {
            continue;
        }
        *count += 1;
        let from = context_start(all, i, 0, &file.bytes, settings);
        out.push(Candidate {
            pattern: Pattern::Cooccurrence,
            path: file.path.clone(),
            offset: u64::from(all[i].start),
            context: text_of(&file.bytes[from..all[i].start as usize]),
            target,
            class: Digest::of(&key.to_le_bytes()),
            repeats: 1,
            reach: Reach::default(),
        });
    }
    out
}

/// The tokens of a file that is code and can be read; else none.
fn readable_tokens(language: SnippetLanguage, file: &File, settings: &Settings) -> Vec<Token> {
    match reading(language, &file.path) {
        Ok(reading @ Reading::Code(_))
            if super::leaf::readable(reading, &file.bytes, settings).is_ok() =>
        {
            tokens(reading, &file.bytes)
        }
        _ => Vec::new(),
    }
}

impl Mined {
    fn exclude(&mut self, reason: Reason, count: usize) {
        if count > 0 {
            *self.excluded.entry(reason).or_default() += count;
        }
    }
}

/// A file that is read.
struct Text<'a> {
    file: &'a File,
    leaf: &'a Leaf,
    reading: Reading,
    tokens: Vec<Token>,
    /// The hashes by which rows of tokens are compared.
    rows: Vec<u64>,
    /// Of each paragraph of the leaf the group it is in.
    paragraph_groups: Vec<Option<Digest>>,
    /// Blocks that are in a class, the outermost only, in order.
    classes: Vec<((u32, u32), Digest)>,
}

/// A place whose end of the context and target are there more than once.
struct Repeated {
    /// Where: the file, and the tokens of the target.
    places: Vec<Place>,
    /// In how many functions or files.
    repeats: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: u64,
    text: u32,
    unit: u32,
    token: u32,
    words: u32,
}

/// For each file the outermost blocks that are in a class of clones.
fn class_places(texts: &[Text<'_>], settings: &Settings) -> Vec<Vec<((u32, u32), Digest)>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        blocks.extend(text.leaf.blocks.iter().map(|b| Block {
            file: at as u32,
            range: b.range.0..b.range.1,
            lines: &b.lines,
        }));
    }
    let class = classes(&blocks, settings);
    let mut names: HashMap<u32, Digest> = HashMap::new();
    let mut found = vec![Vec::new(); texts.len()];
    for (block, class) in blocks.iter().zip(class) {
        let Some(class) = class else { continue };
        let name = *names.entry(class).or_insert_with(|| {
            let lines = blocks[class as usize].lines;
            let bytes: Vec<u8> = lines.iter().flat_map(|l| l.to_le_bytes()).collect();
            Digest::of(&bytes)
        });
        found[block.file as usize].push(((block.range.start, block.range.end), name));
    }
    for all in &mut found {
        all.sort_by_key(|((start, end), _)| (*start, std::cmp::Reverse(*end)));
        let mut reached = 0;
        all.retain(|((_, end), _)| {
            let outer = *end > reached;
            reached = reached.max(*end);
            outer
        });
    }
    found
}

fn paragraph_groups(texts: &[Text<'_>], settings: &Settings) -> Vec<Vec<Option<Digest>>> {
    let prints: Vec<u64> = texts
        .iter()
        .flat_map(|t| t.leaf.paragraphs.iter().map(|p| p.fingerprint))
        .collect();
    let groups = groups(&prints, settings.hamming);
    let mut named = groups.iter().map(|g| {
        let first = prints[(*g)? as usize];
        Some(Digest::of(
            &[b"text".as_slice(), &first.to_le_bytes()].concat(),
        ))
    });
    let of = |t: &Text<'_>| named.by_ref().take(t.leaf.paragraphs.len()).collect();
    texts.iter().map(of).collect()
}

fn inside(ranges: &[(u32, u32)], at: u32) -> Option<usize> {
    let next = ranges.partition_point(|r| r.0 <= at);
    let last = next.checked_sub(1)?;
    (at < ranges[last].1).then_some(last)
}

impl Text<'_> {
    fn bytes(&self) -> &[u8] {
        &self.file.bytes
    }

    fn licensed(&self, from: u32, to: u32) -> bool {
        let ranges = &self.leaf.licences;
        let next = ranges.partition_point(|r| r.0 < to);
        next > 0 && ranges[next - 1].1 > from
    }

    /// The group of near copies that the token is in.
    fn paragraph(&self, at: u32) -> Option<(usize, Digest)> {
        let paragraphs = &self.leaf.paragraphs;
        let next = paragraphs.partition_point(|p| p.range.0 <= at);
        let last = next.checked_sub(1)?;
        let group = self.paragraph_groups[last]?;
        (at < paragraphs[last].range.1).then_some((last, group))
    }

    fn clone_class(&self, at: u32) -> Option<Digest> {
        let next = self.classes.partition_point(|((start, _), _)| *start <= at);
        let ((_, end), class) = self.classes.get(next.checked_sub(1)?)?;
        (at < *end).then_some(*class)
    }

    /// Which function it is, or the one that comes next: two comments before two functions are two
    /// places.
    fn unit(&self, at: u32) -> u32 {
        self.leaf.functions.partition_point(|f| f.1 <= at) as u32
    }
}

/// Whether the token can be a target by itself.
fn is_target(token: &Token, settings: &Settings) -> bool {
    token.kind == Kind::Identifier
        && (token.end - token.start) as usize >= settings.identifier_chars
}

/// A sample of the hashes of all rows of eight tokens of a file.
pub(super) fn sampled(all: &[Token], bytes: &[u8]) -> Vec<u64> {
    sample_of(&row_hashes(all, bytes), SAMPLED_TOKENS)
}

fn sample_of(hashes: &[u64], width: usize) -> Vec<u64> {
    let power = power(width);
    let rows = (width..hashes.len()).map(|to| row(hashes, to - width, to, power));
    rows.filter(|h| h.is_multiple_of(SAMPLED)).collect()
}

/// What one file holds of interest: the number of its tokens, a sample of its content, its places,
/// and how many could be none.
type Scan = (usize, Vec<u64>, Vec<Place>, BTreeMap<Reason, usize>);

fn scan(at: usize, text: &Text<'_>, settings: &Settings) -> Scan {
    let bytes = text.bytes();
    let (all, hashes) = (&text.tokens, &text.rows);
    let before = settings.repeated_tokens;
    let mut excluded: BTreeMap<Reason, usize> = BTreeMap::new();
    let mut places = Vec::new();
    let sample = match text.reading {
        Reading::Prose => Vec::new(),
        Reading::Code(_) => sample_of(hashes, SAMPLED_TOKENS),
    };
    let powers: Vec<u64> = (0..=settings.target_words.1.max(1))
        .map(|n| power(before + n))
        .collect();
    for (i, token) in all.iter().enumerate() {
        if i < before {
            continue;
        }
        let group = match token.kind {
            Kind::Text => text.paragraph(token.start),
            _ => None,
        };
        if !is_target(token, settings) && group.is_none() {
            continue;
        }
        let reason = if text.licensed(all[i - before].start, token.end) {
            Some(Reason::Licence)
        } else if i < settings.context_tokens.0 {
            Some(Reason::ShortContext)
        } else {
            None
        };
        if let Some(reason) = reason {
            *excluded.entry(reason).or_default() += 1;
            continue;
        }
        let counts = match group {
            None => 1..=1,
            Some((paragraph, _)) => {
                let end = text.leaf.paragraphs[paragraph].range.1;
                let longest = phrase(&all[i..], bytes, end, settings.target_words.1);
                settings.target_words.0..=longest
            }
        };
        for words in counts {
            places.push(Place {
                key: row(hashes, i - before, i + words, powers[words]),
                text: at as u32,
                unit: text.unit(token.start),
                token: i as u32,
                words: words as u32,
            });
        }
    }
    (all.len(), sample, places, excluded)
}

/// How many words from the first token on, at most `most`, follow each other with one space between.
fn phrase(all: &[Token], bytes: &[u8], end: u32, most: usize) -> usize {
    let mut count = 1;
    for pair in all.windows(2).take(most.saturating_sub(1)) {
        let between = &bytes[pair[0].end as usize..pair[1].start as usize];
        if pair[1].kind != Kind::Text || between != b" " || pair[1].end > end {
            break;
        }
        count += 1;
    }
    // Words of three letters and fewer say nothing.
    let long = |t: &Token| (t.end - t.start) > 3 && bytes[t.start as usize].is_ascii_alphabetic();
    match all[..count].iter().any(long) {
        true => count,
        false => 0,
    }
}

/// All tokens, the sample of the content, and the places that are repeated, in the order in which they
/// are taken.
fn repeated(
    texts: &[Text<'_>],
    settings: &Settings,
    excluded: &mut BTreeMap<Reason, usize>,
) -> (usize, Vec<u64>, Vec<Repeated>) {
    let scans: Vec<Scan> = texts
        .par_iter()
        .enumerate()
        .map(|(at, text)| scan(at, text, settings))
        .collect();
    let mut count = 0;
    let mut sample = Vec::new();
    let mut all: Vec<Place> = Vec::with_capacity(scans.iter().map(|s| s.2.len()).sum());
    for (tokens, own, places, reasons) in scans {
        count += tokens;
        sample.extend(own);
        all.extend(places);
        for (reason, n) in reasons {
            *excluded.entry(reason).or_default() += n;
        }
    }
    sample.par_sort_unstable();
    sample.dedup();
    all.par_sort_unstable();
    let mut found = Vec::new();
    let mut alone = 0;
    for group in all.chunk_by(|a, b| a.key == b.key) {
        let same = |a: &Place, b: &Place| (a.text, a.unit) == (b.text, b.unit);
        let repeats = group.chunk_by(same).count();
        match repeats {
            1 => alone += group.len(),
            _ => found.push(Repeated {
                places: tried(group, texts, settings),
                repeats: repeats as u32,
            }),
        }
    }
    found.par_sort_by_cached_key(|r: &Repeated| {
        // What is repeated as often is in the order of the hash.
        let first = std::cmp::Reverse(r.repeats.min(MOST_REPEATS));
        let place = r.places[0];
        let path = &texts[place.text as usize].file.path;
        let key = order_key(settings, path, place.token);
        (first, key, place.words, path)
    });
    let surplus = found.len().saturating_sub(settings.candidates);
    found.truncate(settings.candidates);
    for (reason, n) in [(Reason::NotRepeated, alone), (Reason::Enough, surplus)] {
        if n > 0 {
            *excluded.entry(reason).or_default() += n;
        }
    }
    (count, sample, found)
}

/// The occurrences that are tried, in the order in which they are.
fn tried(group: &[Place], texts: &[Text<'_>], settings: &Settings) -> Vec<Place> {
    let mut all = group.to_vec();
    all.sort_by_cached_key(|p| {
        let path = &texts[p.text as usize].file.path;
        order_key(settings, path, p.token)
    });
    all.truncate(TRIES);
    all
}

fn order_key(settings: &Settings, path: &str, at: u32) -> u64 {
    keyed(settings.seed, u64::from(at), path.as_bytes())
}

/// The sequences that end at repeated places of code outside of clones, by file and token.
fn sequences(
    texts: &[Text<'_>],
    places: &[Repeated],
    settings: &Settings,
) -> HashMap<(u32, u32), Digest> {
    let mut wanted: Vec<Vec<u32>> = vec![Vec::new(); texts.len()];
    for place in places.iter().flat_map(|r| &r.places) {
        wanted[place.text as usize].push(place.token);
    }
    // For each file its functions: identifiers, and the places of the wanted ones among them.
    type Function = (Vec<u64>, Vec<(u32, u32)>);
    let functions: Vec<Vec<Function>> = texts
        .par_iter()
        .zip(wanted.par_iter_mut())
        .map(|(text, wanted)| {
            wanted.sort_unstable();
            wanted.dedup();
            let all = &text.tokens;
            let mut functions: Vec<Function> = vec![Function::default(); text.leaf.functions.len()];
            for (i, token) in all.iter().enumerate() {
                if token.kind != Kind::Identifier {
                    continue;
                }
                let Some(at) = inside(&text.leaf.functions, token.start) else {
                    continue;
                };
                let (items, ends) = &mut functions[at];
                let fits = is_target(token, settings)
                    && wanted.binary_search(&(i as u32)).is_ok()
                    && text.clone_class(token.start).is_none();
                if fits {
                    ends.push((items.len() as u32, i as u32));
                }
                items.push(hash(&text.bytes()[token.range()]));
            }
            functions
        })
        .collect();
    let mut ids: HashMap<u64, u32> = HashMap::new();
    let mut lists: Vec<Vec<u32>> = Vec::new();
    let mut ends: Vec<Vec<u32>> = Vec::new();
    let mut names: Vec<u64> = Vec::new();
    let all = functions
        .iter()
        .flatten()
        .filter(|(_, ends)| !ends.is_empty());
    for (items, own) in all.clone() {
        lists.push(
            items
                .iter()
                .map(|item| {
                    *ids.entry(*item).or_insert_with(|| {
                        names.push(*item);
                        names.len() as u32 - 1
                    })
                })
                .collect(),
        );
        ends.push(own.iter().map(|(at, _)| *at).collect());
    }
    let best = ending(&lists, &ends, settings);
    let mut found = HashMap::new();
    let mut best = best.into_iter();
    for (at, functions) in functions.iter().enumerate() {
        for (_, own) in functions.iter().filter(|(_, ends)| !ends.is_empty()) {
            let best = best.next().unwrap_or_default();
            for ((_, token), sequence) in own.iter().zip(best) {
                if let Some(sequence) = sequence {
                    found.insert((at as u32, *token), class_of(&sequence, &names));
                }
            }
        }
    }
    found
}

fn class_of(sequence: &Frequent, names: &[u64]) -> Digest {
    let items = sequence.items.iter().map(|item| names[*item as usize]);
    let mut bytes = b"sequence".to_vec();
    bytes.extend(items.flat_map(u64::to_le_bytes));
    Digest::of(&bytes)
}

type Excluded = BTreeMap<Reason, usize>;

/// The candidates, in the order of the places, and how many of these are none.
fn candidates(
    texts: &[Text<'_>],
    places: Vec<Repeated>,
    sequences: &HashMap<(u32, u32), Digest>,
    settings: &Settings,
) -> (Vec<Candidate>, Excluded) {
    // Files are read one after another, so that their tokens are there once.
    let mut by_file: Vec<Vec<(u32, Place)>> = vec![Vec::new(); texts.len()];
    for (at, repeated) in places.iter().enumerate() {
        for place in &repeated.places {
            by_file[place.text as usize].push((at as u32, *place));
        }
    }
    let tried: Vec<(u32, Place, Result<Candidate, Reason>)> = by_file
        .par_iter()
        .enumerate()
        .flat_map_iter(|(at, own)| {
            let text = &texts[at];
            let of = |(r, place): &(u32, Place)| {
                let repeats = places[*r as usize].repeats;
                (
                    *r,
                    *place,
                    candidate(text, *place, repeats, sequences, settings),
                )
            };
            own.iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    // Of each repeated place the first occurrence that will do.
    let mut best: Vec<Option<(usize, Result<Candidate, Reason>)>> = Vec::new();
    best.resize_with(places.len(), || None);
    for (r, place, result) in tried {
        let rank = places[r as usize].places.iter().position(|p| *p == place);
        let rank = rank.unwrap_or(TRIES);
        let slot = &mut best[r as usize];
        let better = match (&*slot, &result) {
            (None, _) | (Some((_, Err(_))), Ok(_)) => true,
            (Some((known, Ok(_))), Ok(_)) | (Some((known, Err(_))), Err(_)) => rank < *known,
            (Some((_, Ok(_))), Err(_)) => false,
        };
        if better {
            *slot = Some((rank, result));
        }
    }
    let mut excluded = Excluded::new();
    let mut found = Vec::new();
    let mut at = Vec::new();
    for ((rank, result), repeated) in best
        .into_iter()
        .zip(&places)
        .filter_map(|(b, r)| Some((b?, r)))
    {
        match result {
            Ok(candidate) => {
                let place = repeated.places[rank];
                at.push(End {
                    stream: place.text as usize,
                    token: place.token as usize,
                    words: place.words as usize,
                });
                found.push(candidate);
            }
            Err(reason) => *excluded.entry(reason).or_default() += 1,
        }
    }
    let rows: Vec<&[u64]> = texts.iter().map(|text| &text.rows[..]).collect();
    for (candidate, reach) in found.iter_mut().zip(reaches(&rows, &at, settings)) {
        candidate.reach = reach;
    }
    (found, excluded)
}

fn candidate(
    text: &Text<'_>,
    place: Place,
    repeats: u32,
    sequences: &HashMap<(u32, u32), Digest>,
    settings: &Settings,
) -> Result<Candidate, Reason> {
    let (all, at) = (&text.tokens[..], place.token as usize);
    let first = all[at];
    let last = all[at + place.words as usize - 1];
    let (pattern, class) = if first.is_text() {
        let (_, group) = text.paragraph(first.start).ok_or(Reason::NoPattern)?;
        (Pattern::Text, group)
    } else if let Some(class) = text.clone_class(first.start) {
        (Pattern::Clone, class)
    } else {
        let class = sequences.get(&(place.text, place.token));
        (Pattern::Cooccurrence, *class.ok_or(Reason::NoPattern)?)
    };
    let bytes = text.bytes();
    let target = &bytes[first.start as usize..last.end as usize];
    let fewest = at - settings.context_tokens.0.min(at);
    let floor = floor(all, at, place.words as usize, bytes, settings);
    if floor > fewest {
        return Err(Reason::InContext);
    }
    let from = context_start(all, at, floor, bytes, settings);
    Ok(Candidate {
        pattern,
        path: text.file.path.clone(),
        offset: u64::from(first.start),
        context: text_of(&bytes[from..first.start as usize]),
        target: text_of(target),
        class,
        repeats,
        reach: Reach::default(),
    })
}

/// The first token of the longest context before `at` in which the target is not.
fn floor(all: &[Token], at: usize, words: usize, bytes: &[u8], settings: &Settings) -> usize {
    let lowest = at.saturating_sub(settings.context_tokens.1);
    let text = |t: &Token| &bytes[t.range()];
    let same = |i: usize| (0..words).all(|w| text(&all[i + w]) == text(&all[at + w]));
    let last = (lowest..at).rev().find(|i| same(*i));
    last.map_or(lowest, |i| i + 1)
}

/// The byte at which the context of token `at` begins: the first line that begins at or after
/// token `floor` and within the bounds, else the token as far back as is allowed.
fn context_start(
    all: &[Token],
    at: usize,
    floor: usize,
    bytes: &[u8],
    settings: &Settings,
) -> usize {
    let (fewest, most) = settings.context_tokens;
    let lowest = at.saturating_sub(most).max(floor);
    let highest = at.saturating_sub(fewest);
    let line_start = |i: usize| {
        let start = all[i].start as usize;
        let before = match i {
            0 => 0,
            _ => all[i - 1].end as usize,
        };
        let newline = bytes[before..start].iter().rposition(|b| *b == b'\n');
        match (i, newline) {
            (_, Some(n)) => Some(before + n + 1),
            (0, None) => Some(0),
            _ => None,
        }
    };
    let line = (lowest..=highest).find_map(line_start);
    line.unwrap_or(all[lowest.min(highest)].start as usize)
}

/// Files are UTF-8 when they get here, and tokens end between characters.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
