//! A signature snippet as a question, and the answer as a hit or not.
//!
//! A model that continues text gets the context and nothing else. A model that chats is asked to
//! continue the file exactly. Out of the answer come thinking, fences and what it repeats of the context; of
//! the rest the first [`FIRST_WORDS`] words count: it is a hit if the target is there, as whole
//! words and in its own spelling. The target is not in the context, so a hit is never copied.
//!
//! An answer that does not try is no miss: it is told apart, counted, and takes no part in the
//! test ([`Outcome::tried`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Pattern, Snippet};
use crate::ask::{Reply, Request, Sampling, Stop, Thinking};

/// How many words of a continuation can hold the target.
pub const FIRST_WORDS: usize = 8;
/// Tokens that a continuation may have: the first words with room for what stands between them.
pub const CONTINUATION_TOKENS: u32 = 64;
/// Tokens that the answer of a chat may have, who may repeat the context first.
pub const CHAT_TOKENS: u32 = 512;
/// So many tokens of the context's end are an echo when a continuation begins with them; fewer can
/// be how the file goes on.
const ECHO_TOKENS: usize = 4;

/// What a model does with a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// It goes on with it.
    Continues,
    /// It answers it.
    Chats,
}

/// How often and how a snippet is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draws {
    /// Once, the likeliest answer.
    #[default]
    Greedy,
    /// Four times at temperature 0.8; one hit is enough.
    Four,
}

impl Draws {
    /// How many questions that are.
    pub fn count(self) -> u32 {
        match self {
            Draws::Greedy => 1,
            Draws::Four => 4,
        }
    }

    fn temperature_milli(self) -> u32 {
        match self {
            Draws::Greedy => 0,
            Draws::Four => 800,
        }
    }
}

/// What a chat is told of its task.
const SYSTEM: &str = "You continue source files. You are shown the end of a part of a file. Answer with the text that \
comes next in that file, exactly as it stands there, from the very next character on. Do not repeat what \
you are shown, do not explain, do not ask.";

/// The question about one snippet: `draw` counts from 0. The model's own sampling is kept but for
/// temperature and the length of the answer; a model that thinks keeps its length, too.
pub fn request(
    context: &str,
    manner: Manner,
    draws: Draws,
    draw: u32,
    model: &str,
    own_system: &str,
    sampling: &Sampling,
) -> Request {
    let limit = match manner {
        Manner::Continues => CONTINUATION_TOKENS,
        Manner::Chats if sampling.thinking != Thinking::Off => sampling.max_tokens,
        Manner::Chats => CHAT_TOKENS,
    };
    let (system, user) = match manner {
        // What a person wrote for a chat would stand in the middle of the file here.
        Manner::Continues => (String::new(), context.to_string()),
        Manner::Chats => {
            let system = match own_system {
                "" => SYSTEM.to_string(),
                own => format!("{SYSTEM}\n\n{own}"),
            };
            // A fence longer than any within, so that the context ends where it ends.
            let fence = "`".repeat(longest_run_of_backticks(context).max(2) + 1);
            (
                system,
                format!(
                    "Continue this file exactly.\n\n{fence}\n{context}\n{fence}\n\nThe very next words are:"
                ),
            )
        }
    };
    Request {
        system: system.into(),
        user: user.into(),
        model: model.to_string(),
        sampling: Sampling {
            temperature_milli: draws.temperature_milli(),
            max_tokens: limit.min(sampling.max_tokens),
            ..sampling.clone()
        },
        sample: draw,
    }
}

fn longest_run_of_backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// What an answer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The target is among the first words.
    Hit,
    /// A continuation without it.
    Miss,
    /// Nothing was said.
    Empty,
    /// Nothing but what was shown.
    Echo,
    /// The model talks about the text.
    Prose,
    /// The model, or a filter, declined.
    Refusal,
    /// The answer ended before a word of it: the limit of tokens went into thinking.
    Truncated,
    /// The question did not fit.
    TooLong,
    /// The stored bytes are no reply.
    Unreadable,
}

impl Outcome {
    /// Whether the model tried to continue: only these are trials of the test.
    pub fn tried(self) -> bool {
        matches!(self, Outcome::Hit | Outcome::Miss)
    }

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Hit => "hit",
            Outcome::Miss => "miss",
            Outcome::Empty => "empty",
            Outcome::Echo => "echo",
            Outcome::Prose => "prose",
            Outcome::Refusal => "refusal",
            Outcome::Truncated => "truncated",
            Outcome::TooLong => "too_long",
            Outcome::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An answer, read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What it is.
    pub outcome: Outcome,
    /// What counted of it: up to the last of the first words, or what stands in their place.
    pub said: String,
}

/// Reads the answer to a snippet.
pub fn read(reply: &Reply, snippet: &Snippet) -> Answer {
    read_text(
        reply.stop,
        &reply.text,
        &snippet.context,
        &snippet.target,
        snippet.pattern,
    )
}

/// The best of several draws: a hit if there is one, then a miss, then the first of the rest.
/// Nothing when there is no answer.
pub fn best(answers: impl IntoIterator<Item = Answer>) -> Option<Answer> {
    let rank = |answer: &Answer| match answer.outcome {
        Outcome::Hit => 0,
        Outcome::Miss => 1,
        _ => 2,
    };
    answers.into_iter().min_by_key(rank)
}

fn read_text(stop: Stop, text: &str, context: &str, target: &str, pattern: Pattern) -> Answer {
    let shown = |outcome, said: &str| Answer {
        outcome,
        said: first_words(said, FIRST_WORDS).trim().to_string(),
    };
    match stop {
        Stop::Refusal => return shown(Outcome::Refusal, text),
        Stop::Context => return shown(Outcome::TooLong, text),
        Stop::Complete | Stop::Length => {}
    }
    let spoken = without_thinking(text);
    if spoken.trim().is_empty() {
        let outcome = match stop {
            Stop::Length => Outcome::Truncated,
            _ => Outcome::Empty,
        };
        return shown(outcome, "");
    }
    let fenced = fenced(spoken);
    if fenced.is_none() && is_only_fences(spoken) {
        return shown(Outcome::Empty, "");
    }
    let body = fenced.unwrap_or(spoken);
    let rest = without_echo(body, context);
    if words(rest).next().is_none() && rest.trim().is_empty() {
        return shown(Outcome::Echo, body);
    }
    if has(rest, target) {
        return shown(Outcome::Hit, rest);
    }
    if rest.len() == body.len() && is_within(body, context) {
        return shown(Outcome::Echo, body);
    }
    if fenced.is_none() {
        if begins_with_any(rest, &REFUSALS) {
            return shown(Outcome::Refusal, rest);
        }
        let talks = begins_with_any(rest, &TALK)
            || pattern != Pattern::Text && begins_with_any(rest, &TALK_OF_CODE);
        if talks {
            return shown(Outcome::Prose, rest);
        }
    }
    shown(Outcome::Miss, rest)
}

/// How answers begin that decline.
const REFUSALS: [&str; 16] = [
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i apologize",
    "i apologise",
    "i can't",
    "i cannot",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i am not able",
    "i won't",
    "i don't",
    "i do not",
    "as an ai",
    "unfortunately",
];

/// How answers begin that talk of what was asked.
const TALK: [&str; 14] = [
    "sure",
    "certainly",
    "of course",
    "here is",
    "here's",
    "here are",
    "okay, ",
    "let me",
    "i'll",
    "i will",
    "could you",
    "please provide",
    "the continuation",
    "the next",
];

/// How answers begin that talk of code; in a text that goes on, these can be what comes next.
const TALK_OF_CODE: [&str; 9] = [
    "this code",
    "the code",
    "the provided",
    "the file",
    "this file",
    "this function",
    "it looks like",
    "it seems",
    "to continue",
];

fn begins_with_any(text: &str, starts: &[&str]) -> bool {
    let start: String = text.trim_start().chars().take(40).collect();
    let start = start.to_lowercase().replace('\u{2019}', "'");
    let begins = |word: &&str| {
        start
            .strip_prefix(*word)
            .is_some_and(|rest| !rest.starts_with(is_word))
    };
    starts.iter().any(begins)
}

/// The text after thinking.
fn without_thinking(text: &str) -> &str {
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        if text.trim_start().starts_with(open) {
            return text.find(close).map_or("", |at| &text[at + close.len()..]);
        }
        // Some servers swallow the opening.
        if let Some(at) = text.find(close)
            && !text[..at].contains(open)
        {
            return &text[at + close.len()..];
        }
    }
    text
}

/// What stands in the first fence that holds anything; one that is not closed ends with the text.
fn fenced(text: &str) -> Option<&str> {
    let mut at = 0;
    while let Some((open, ticks)) = next_fence(text, at) {
        let line = text[open..].find('\n').map(|end| open + end + 1);
        let begin = line?;
        let mut end = text.len();
        let mut after = text.len();
        let mut look = begin;
        while let Some((close, closing)) = next_fence(text, look) {
            if closing >= ticks {
                end = close;
                after = close + closing;
                break;
            }
            look = close + closing;
        }
        let inside = &text[begin..end];
        if !inside.trim().is_empty() {
            return Some(inside.strip_suffix('\n').unwrap_or(inside));
        }
        at = after;
    }
    None
}

/// Whether every line that is not blank is a fence: a chat's way to go on with nothing.
fn is_only_fences(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.all(|line| line.starts_with("```") && !line.trim_start_matches('`').contains('`'))
}

/// The next run of three backticks or more that opens a line: where it begins, how long it is.
fn next_fence(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    while let Some(found) = text.get(at..)?.find("```") {
        let begin = at + found;
        let line = text[..begin].rfind('\n').map_or(0, |end| end + 1);
        let length = text[begin..].len() - text[begin..].trim_start_matches('`').len();
        if text[line..begin].trim().is_empty() {
            return Some((begin, length));
        }
        at = begin + length;
    }
    None
}

/// What follows the longest end of `context` with which `text` begins, white space aside. It may
/// begin within a word.
fn without_echo<'a>(text: &'a str, context: &str) -> &'a str {
    let shown: Vec<&str> = tokens(context).map(|(_, token)| token).collect();
    let said: Vec<(usize, &str)> = tokens(text).collect();
    let longest = shown.len().min(said.len());
    for length in (ECHO_TOKENS.min(shown.len()).max(1)..=longest).rev() {
        let end = &shown[shown.len() - length..];
        let mut pairs = end.iter().zip(said.iter().map(|(_, token)| token));
        if pairs.next().is_some_and(|(a, b)| a.ends_with(b)) && pairs.all(|(a, b)| a == b) {
            let (at, token) = said[length - 1];
            return &text[at + token.len()..];
        }
    }
    text
}

/// Whether all that is said stands in the context as it is, and is no mere word of it.
fn is_within(text: &str, context: &str) -> bool {
    let shown: Vec<&str> = tokens(context).map(|(_, token)| token).collect();
    let said: Vec<&str> = tokens(text).map(|(_, token)| token).collect();
    said.len() >= ECHO_TOKENS && shown.windows(said.len()).any(|window| window == said)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a text, each with where it begins: letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    tokens(text).filter(|(_, token)| token.starts_with(is_word))
}

/// Words and single characters that are neither word nor white space.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let begin = at + (rest.len() - rest.trim_start().len());
        let first = text[begin..].chars().next()?;
        let rest = &text[begin..];
        let length = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        at = begin + length;
        Some((begin, &rest[..length]))
    })
}

/// `text` up to the end of its word number `count`.
fn first_words(text: &str, count: usize) -> &str {
    match words(text).nth(count.saturating_sub(1)) {
        Some((at, word)) => &text[..at + word.len()],
        None => text,
    }
}

/// Whether the words of `target` stand one after the other among the first words of `text`.
fn has(text: &str, target: &str) -> bool {
    let wanted: Vec<&str> = words(target).map(|(_, word)| word).collect();
    let said: Vec<&str> = words(text)
        .map(|(_, word)| word)
        .take(FIRST_WORDS)
        .collect();
    !wanted.is_empty() && said.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
