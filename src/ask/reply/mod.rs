//! A stored reply, and the code in it. [`extract`] is pure and has a [`VERSION`]: raw replies are
//! kept, so a better parser scores them again for free. Whatever a reply holds, the result is one
//! of a few typed outcomes, and never text that the model did not write: the code is a piece of
//! the reply as it stands, except where a [`Note`] says what was undone.
//!
//! Which text is the answer:
//! 1. What the provider says of how the reply ended comes first: refused, or no room for the
//!    question. Thinking (`<think>...</think>`) is no part of the answer.
//! 2. Fenced blocks. Labelled as the language asked for (`c`) before unlabelled before its relatives
//!    (`cpp`); other labels
//!    are never code. Among blocks of one rank that hold a whole definition of the function, the
//!    last one counts, since drafts come first; one that only repeats the original counts if
//!    there is no other.
//! 3. A definition of that name that is not whole: `truncated` where the fence is not closed or
//!    the token limit was hit, else the model's own mistake, handed on for the compiler to judge.
//! 4. Whole definitions of other names only: handed on with a note; whether to accept a renamed
//!    function is decided elsewhere.
//! 5. No fences: the definition in the bare text, with its comment, or all of it if all is code.
//!
//! A whole file and helper functions are handed on as they are. A diff is not applied.
//! Files: `fences` finds blocks, `c_text` sees definitions, `clean` undoes what a chat added.

mod c_text;
mod clean;
mod fences;

use serde::{Deserialize, Serialize};

use c_text::CText;
use fences::{Block, Label};

use crate::lang::LanguageId;

/// Raised when the same reply can give another outcome.
pub const VERSION: u32 = 1;

/// Why the model stopped, whatever its provider calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done.
    Complete,
    /// The limit of tokens was reached.
    Length,
    /// It, or a filter, declined.
    Refusal,
    /// The question does not fit into its context.
    Context,
}

/// Tokens as the provider counted them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Of the question, whether or not the provider had some of it at hand.
    pub input_tokens: u64,
    /// Of the answer, thinking included.
    pub output_tokens: u64,
    /// Those of `input_tokens` that the provider had at hand, and charges less for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// Those of `output_tokens` that were thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// What is stored of an answer. Calibrations without a model write the same envelope.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The answer's text as it came.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// The model that the provider says answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What the provider says of the configuration that answered, such as a fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Where a router says that it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Defaults of the request that the API has no field for: they were not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
}

/// Bytes that are not a stored reply.
#[derive(Debug, thiserror::Error)]
#[error("not a stored reply: {0}")]
pub struct BadEnvelope(#[from] serde_json::Error);

impl Reply {
    /// A finished answer of which only the text is known.
    pub fn complete(text: impl Into<String>) -> Self {
        Reply::ended(Stop::Complete, text)
    }

    /// An answer of which only the text and its end are known.
    pub fn ended(stop: Stop, text: impl Into<String>) -> Self {
        Reply {
            text: text.into(),
            stop,
            served_model: None,
            usage: None,
            fingerprint: None,
            provider: None,
            omitted: Vec::new(),
        }
    }

    /// The stored form: JSON with the fields in the order above.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are always JSON")
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadEnvelope> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// What the reply should be an answer to.
#[derive(Clone, Copy, Debug)]
pub struct ReplyContext<'a> {
    /// The function's name.
    pub function: &'a str,
    /// The text that was shown to the model.
    pub original: &'a [u8],
    /// Its language.
    pub language: LanguageId,
}

/// What was in a reply.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Code, without white space around it.
    Code {
        /// The text, for the language's own parser to judge.
        text: String,
        /// What is worth knowing of how it was found.
        notes: Vec<Note>,
    },
    /// The model declined.
    Refused,
    /// The answer ends before the code does.
    Truncated,
    /// Nothing was said.
    Empty,
    /// Something else was said.
    Unparsable {
        /// What.
        why: Why,
    },
    /// The question did not fit.
    ContextExceeded,
}

/// How code was found. Those for which [`Note::alters`] holds say how it differs from the reply.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// No fence stood around it.
    NoFence,
    /// The fence was never closed.
    UnclosedFence,
    /// Thinking was begun and never ended.
    UnclosedThinking,
    /// The block's label is another language's.
    OtherLabel(String),
    /// So many blocks hold the function; this is the last that changes anything.
    Versions(u32),
    /// It holds no definition of the name asked for, but of others.
    OtherName,
    /// Brackets do not match, though the answer is finished.
    Unbalanced,
    /// It is the original, white space aside.
    Echo,
    /// Typographic quotes stand in it; they were left.
    TypographicQuotes,
    /// The fence's own indentation was taken off every line.
    Dedented,
    /// Numbers in front of all lines were taken off.
    LineNumbersRemoved,
    /// `&lt;` and the like were decoded.
    EntitiesDecoded,
    /// CRLF became LF, since the original has only LF.
    CrlfToLf,
}

impl Note {
    /// Whether the code is not a literal piece of the reply because of this.
    pub fn alters(&self) -> bool {
        matches!(
            self,
            Note::Dedented | Note::LineNumbersRemoved | Note::EntitiesDecoded | Note::CrlfToLf
        )
    }
}

/// Why there is no code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The bytes are not a stored reply.
    Envelope(String),
    /// A patch instead of a function.
    Diff,
    /// Prose.
    NoCode,
    /// Code, but no function.
    NoFunction,
    /// Only blocks labelled as another language.
    OtherLanguage(String),
}

/// Finds the code in a stored reply ([`Reply::encode`]). The rules are at the top of this file.
pub fn extract(raw: &[u8], ctx: &ReplyContext) -> Outcome {
    match Reply::decode(raw) {
        Ok(reply) => extract_reply(&reply, ctx),
        Err(error) => unparsable(Why::Envelope(error.to_string())),
    }
}

/// As [`extract`], of a reply already decoded.
pub fn extract_reply(reply: &Reply, ctx: &ReplyContext) -> Outcome {
    match reply.stop {
        Stop::Context => return Outcome::ContextExceeded,
        Stop::Refusal => return Outcome::Refused,
        Stop::Complete | Stop::Length => {}
    }
    let cut = reply.stop == Stop::Length;
    let (answer, thinking_open) = after_thinking(&reply.text);
    if answer.trim().is_empty() {
        return if cut || thinking_open {
            Outcome::Truncated
        } else {
            Outcome::Empty
        };
    }
    if thinking_open && cut {
        return Outcome::Truncated;
    }
    let mut outcome = answer_of(answer, cut, ctx);
    if thinking_open {
        match &mut outcome {
            Outcome::Code { notes, .. }
                if !notes.contains(&Note::NoFence) && !notes.contains(&Note::UnclosedFence) =>
            {
                notes.push(Note::UnclosedThinking);
            }
            _ => outcome = Outcome::Truncated,
        }
    }
    outcome
}

/// The reply without its thinking, and whether that was never ended.
pub fn after_thinking(text: &str) -> (&str, bool) {
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        let begins = text.trim_start().starts_with(open);
        // Some servers strip the opening tag, which is part of their prompt.
        let end = text
            .rfind(close)
            .filter(|end| begins || alone(text, *end, close));
        match end {
            Some(end) => return (&text[end + close.len()..], false),
            None if begins => {
                let start = text.find(open).unwrap_or(0) + open.len();
                return (&text[start..], true);
            }
            None => {}
        }
    }
    (text, false)
}

/// Whether `tag` at `at` is the only thing on its line.
fn alone(text: &str, at: usize, tag: &str) -> bool {
    let before = text[..at].rsplit('\n').next().unwrap_or("");
    let after = text[at + tag.len()..].split('\n').next().unwrap_or("");
    before.trim().is_empty() && after.trim().is_empty()
}

/// A block that may be the answer.
struct Candidate {
    rank: u8,
    closed: bool,
    /// Something other than white space was left off behind the last definition.
    rest: bool,
    defines: bool,
    whole: bool,
    functions: bool,
    diff: bool,
    text: String,
    notes: Vec<Note>,
}

fn answer_of(answer: &str, cut: bool, ctx: &ReplyContext) -> Outcome {
    let blocks = fences::blocks(answer, ctx.language);
    let candidates: Vec<Candidate> = blocks
        .iter()
        .filter_map(|b| candidate(answer, b, ctx))
        .collect();
    let code: Vec<&Candidate> = candidates.iter().filter(|c| !c.diff).collect();

    for rank in 0..3 {
        let of_rank = || code.iter().filter(|c| c.rank == rank);
        let whole: Vec<_> = of_rank().filter(|c| c.defines && c.whole).collect();
        let chosen = whole
            .iter()
            .rfind(|c| !c.notes.contains(&Note::Echo))
            .or(whole.last());
        if let Some(chosen) = chosen {
            let mut notes = chosen.notes.clone();
            if whole.len() > 1 {
                notes.push(Note::Versions(whole.len() as u32));
            }
            return found(&chosen.text, notes);
        }
    }
    if let Some(partly) = code.iter().rfind(|c| c.defines) {
        return if !partly.closed || cut {
            Outcome::Truncated
        } else {
            let mut notes = partly.notes.clone();
            notes.push(Note::Unbalanced);
            found(&partly.text, notes)
        };
    }
    if code.iter().any(|c| !c.closed && (cut || c.rest)) {
        return Outcome::Truncated;
    }
    for rank in 0..3 {
        let other = |c: &&&Candidate| c.rank == rank && c.functions && c.whole;
        if let Some(other) = code.iter().rfind(other) {
            let mut notes = other.notes.clone();
            notes.push(Note::OtherName);
            return found(&other.text, notes);
        }
    }
    if blocks.iter().any(|b| b.label == Label::Diff) || candidates.iter().any(|c| c.diff) {
        return unparsable(Why::Diff);
    }
    if let Some(outcome) = bare(answer, cut, ctx) {
        return outcome;
    }
    if cut {
        return Outcome::Truncated;
    }
    if refuses(answer) {
        return Outcome::Refused;
    }
    unparsable(match blocks.first() {
        None => Why::NoCode,
        Some(_) if !code.is_empty() => Why::NoFunction,
        Some(block) => Why::OtherLanguage(block.word.clone()),
    })
}

fn candidate(answer: &str, block: &Block, ctx: &ReplyContext) -> Option<Candidate> {
    let mut notes = Vec::new();
    let rank = match block.label {
        Label::Own => 0,
        Label::Plain => 1,
        Label::Relative => {
            notes.push(Note::OtherLabel(block.word.clone()));
            2
        }
        Label::Diff | Label::Other => return None,
    };
    let raw = &answer[block.content.clone()];
    let mut text = clean::clean(raw, block.indent, ctx.original, &mut notes);
    let mut rest = false;
    if !block.closed {
        notes.push(Note::UnclosedFence);
        // Prose may follow that nothing sets apart from the code.
        let end = CText::of(&text, ctx.language).end_of_last_definition();
        if let Some(end) = end {
            rest = !text[end..].trim().is_empty();
            text.truncate(end);
        } else {
            rest = true;
        }
    }
    // Before trimming: the blank in front of a patch's first line is part of its form.
    let diff = clean::is_diff(&text);
    let text = text.trim().to_string();
    if text.is_empty() {
        return None;
    }
    let c = CText::of(&text, ctx.language);
    describe(&text, ctx, &mut notes);
    Some(Candidate {
        rank,
        closed: block.closed,
        rest,
        defines: c.defines(ctx.function),
        whole: c.is_whole(),
        functions: c.has_functions(),
        diff,
        text,
        notes,
    })
}

/// Code in text without fences, or the sign that it was cut off.
fn bare(answer: &str, cut: bool, ctx: &ReplyContext) -> Option<Outcome> {
    if clean::is_diff(answer) {
        return Some(unparsable(Why::Diff));
    }
    let mut notes = vec![Note::NoFence];
    let text = clean::clean(answer, 0, ctx.original, &mut notes);
    match c_text::in_prose(&text, ctx.function, ctx.language) {
        c_text::InProse::Whole { range, other_name } => {
            if other_name {
                notes.push(Note::OtherName);
            }
            let code = text[range].trim();
            describe(code, ctx, &mut notes);
            Some(found(code, notes))
        }
        c_text::InProse::CutOff => Some(Outcome::Truncated),
        c_text::InProse::Nothing => cut.then_some(Outcome::Truncated),
    }
}

/// Notes on the code itself.
fn describe(text: &str, ctx: &ReplyContext, notes: &mut Vec<Note>) {
    if text.contains(['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}']) {
        notes.push(Note::TypographicQuotes);
    }
    let words = |t: &str| t.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    if words(text) == words(&String::from_utf8_lossy(ctx.original)) {
        notes.push(Note::Echo);
    }
}

/// Whether prose without code declines the task.
pub fn refuses(answer: &str) -> bool {
    const PHRASES: &[&str] = &[
        "i can't",
        "i cannot",
        "i can not",
        "i won't",
        "i will not",
        "i'm unable",
        "i am unable",
        "i'm not able",
        "i am not able",
        "i'm sorry",
        "i am sorry",
        "i apologize",
        "i must decline",
        "i have to decline",
        "unable to help",
        "unable to assist",
        "can't assist",
        "cannot assist",
        "can't help with",
        "cannot help with",
        "not comfortable",
    ];
    let start: String = answer.chars().take(600).collect();
    let start = start.to_lowercase().replace('\u{2019}', "'");
    PHRASES.iter().any(|p| start.contains(p))
}

fn found(text: &str, notes: Vec<Note>) -> Outcome {
    Outcome::Code {
        text: text.to_string(),
        notes,
    }
}

fn unparsable(why: Why) -> Outcome {
    Outcome::Unparsable { why }
}

#[cfg(test)]
mod tests;
