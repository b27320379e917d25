//! The choice in a stored reply, read strictly: a letter that stands for itself, never an article.
//! Both letters are read by the same rules, so that no rule favours one of them.
//!
//! 1. How the reply ended comes first: refused, no room for the question. Thinking is no answer.
//! 2. The whole answer, or a line of it, is a letter, perhaps in emphasis, quotes or brackets, behind
//!    "Option" or "Answer:"; or it is JSON with such a value.
//! 3. A sentence declares a letter in capitals: "I choose B", "the answer is B", "B is safer".
//! 4. If 2 and 3 give nothing, the answer begins with a letter and a reason: "B, because ...".
//!
//! Two letters are no choice. In an answer that was cut off only its first line counts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::question::Choice;
use crate::ask::reply::{after_thinking, refuses};
use crate::ask::{Reply, Stop};

/// Raised when the same reply can give another outcome.
pub const VERSION: u32 = 1;

/// What a reply says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A choice.
    Chose(Choice),
    /// Something else.
    Unparsable,
    /// It declines.
    Refused,
    /// It ends before it chooses.
    Truncated,
    /// Nothing.
    Empty,
    /// That the question does not fit.
    ContextExceeded,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Chose(choice) => choice.fmt(f),
            Outcome::Unparsable => f.write_str("unparsable"),
            Outcome::Refused => f.write_str("refused"),
            Outcome::Truncated => f.write_str("truncated"),
            Outcome::Empty => f.write_str("empty"),
            Outcome::ContextExceeded => f.write_str("context_exceeded"),
        }
    }
}

/// Reads a reply.
pub fn read(reply: &Reply) -> Outcome {
    match reply.stop {
        Stop::Context => return Outcome::ContextExceeded,
        Stop::Refusal => return Outcome::Refused,
        Stop::Complete | Stop::Length => {}
    }
    let cut = reply.stop == Stop::Length;
    let (answer, thinking_open) = after_thinking(&reply.text);
    let answer = answer.trim();
    if thinking_open || (answer.is_empty() && cut) {
        return Outcome::Truncated;
    }
    if answer.is_empty() {
        return Outcome::Empty;
    }
    match chosen(answer, cut) {
        Some(choice) => Outcome::Chose(choice),
        None if refuses(answer) => Outcome::Refused,
        None if cut => Outcome::Truncated,
        None => Outcome::Unparsable,
    }
}

fn chosen(answer: &str, cut: bool) -> Option<Choice> {
    if let Some(choice) = of_json(answer) {
        return Some(choice);
    }
    let lines: Vec<&str> = answer
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("```"))
        .collect();
    let single = lines.len() == 1;
    if cut {
        // The first line is whole if another one follows, or if it is nothing but a choice.
        return lines.first().and_then(|line| alone(line, single));
    }
    let mut letters: BTreeSet<Choice> = lines.iter().filter_map(|l| alone(l, single)).collect();
    letters.extend(declared(answer));
    if letters.is_empty() {
        letters.extend(lines.iter().filter_map(|l| leading(l)));
    }
    match letters.len() {
        1 => letters.into_iter().next(),
        _ => None,
    }
}

fn letter(text: &str) -> Option<Choice> {
    match text {
        "A" | "a" => Some(Choice::A),
        "B" | "b" => Some(Choice::B),
        _ => None,
    }
}

/// `"B"`, `{"answer": "Option B"}`, also in a fence.
fn of_json(answer: &str) -> Option<Choice> {
    let inner = answer
        .trim_start_matches("```json")
        .trim_start_matches("```")
        .trim_end_matches("```");
    let value: serde_json::Value = serde_json::from_str(inner.trim()).ok()?;
    let texts: Vec<&str> = match &value {
        serde_json::Value::String(text) => vec![text],
        serde_json::Value::Array(all) if all.len() == 1 => vec![all[0].as_str()?],
        serde_json::Value::Object(fields) => {
            let named = |name: &&str| {
                let mut fields = fields.iter();
                let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
                found.is_some()
            };
            const NAMES: [&str; 8] = [
                "answer",
                "choice",
                "option",
                "selection",
                "selected",
                "preference",
                "version",
                "result",
            ];
            let name = NAMES.iter().find(|name| named(name))?;
            let field = fields
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))?;
            vec![field.1.as_str()?]
        }
        _ => return None,
    };
    texts.first().and_then(|text| alone(text, true))
}

/// A line that is nothing but a choice.
fn alone(line: &str, lower_case: bool) -> Option<Choice> {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?xi)^ (?: (?:(?:the|my)\s+)? (?:final\s+|preferred\s+|best\s+)?
               (?:answer|choice|option|version|selection|pick|preference|snippet|response|function)
               (?:\s+is|\s+would\s+be)? [\s:=\-\u{2013}\u{2014}\u{ff1a}>*_`"']* )* ([ab]) $"#,
        )
    });
    const AROUND: &[char] = &[
        '*',
        '_',
        '`',
        '~',
        '#',
        '>',
        '"',
        '\'',
        '(',
        ')',
        '[',
        ']',
        '{',
        '}',
        '<',
        '.',
        ':',
        ',',
        ';',
        '!',
        '$',
        '-',
        '=',
        '\u{201c}',
        '\u{201d}',
        '\u{2018}',
        '\u{2019}',
        '\u{ff1a}',
        '\u{2705}',
        '\u{1f449}',
    ];
    let bare = |c: char| c.is_whitespace() || AROUND.contains(&c);
    let mut text = line.trim_matches(bare);
    for wrapped in ["\\boxed{", "boxed{", "\\text{", "text{", "\\textbf{"] {
        text = text
            .strip_prefix(wrapped)
            .unwrap_or(text)
            .trim_matches(bare);
    }
    let found = LINE.captures(text)?.get(1)?.as_str();
    // "answer a" of a longer answer may be half a sentence.
    match lower_case || found.chars().all(char::is_uppercase) {
        true => letter(found),
        false => None,
    }
}

/// Letters that sentences declare.
fn declared(answer: &str) -> Vec<Choice> {
    // What may follow a letter that stands for itself: an end, or a word that no article precedes.
    const END: &str = r#"[*_`"')\]]* (?: \s*(?:[.,;:!?\n\u{2014}]|$) | \s+(?:because|since|as|over|is|for|due|given|and|but|which|in|here|overall)\b | \s+[-\u{2013}\u{2014}(] )"#;
    const LETTER: &str =
        r#"(?:(?i:the\s+)?(?i:option|version|snippet|choice|function)\s+)? [*_`"'(\[]* ([AB])"#;
    static CHOSEN: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r"(?x) (?i:\b(?:choose|chose|pick|picked|prefer|select|selected|selecting|recommend|go\s+with|going\s+with|opt\s+for)) \s*:?\s+ {LETTER} {END}"
        ))
    });
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r#"(?x) (?i:\b(?:answer|choice|selection|pick|preference|option|version|one|implementation)) [*_`"']* (?:\s+(?i:is|would\s+be)\s*:?|\s*[:=])\s* {LETTER} {END}"#
        ))
    });
    static BETTER: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?x) (?:^|[\s*_`"'(]) ([AB]) [*_`"')\]]* \s+ (?:is|looks|seems|appears) \s+ (?:(?:clearly|definitely|the|a|much|far|slightly)\s+)*
               (?:more\s+secure|most\s+secure|safer|safest|better|best|preferable|preferred|correct|secure|safe|right)\b"#,
        )
    });
    let mut found = Vec::new();
    for declaration in [&*CHOSEN, &*NAMED, &*BETTER] {
        for captures in declaration.captures_iter(answer) {
            let (Some(whole), Some(own)) = (captures.get(0), captures.get(1)) else {
                continue;
            };
            let before: String = answer[..whole.start()].chars().rev().take(12).collect();
            let before: String = before.chars().rev().collect::<String>().to_lowercase();
            let denied = [
                "not ",
                "n't ",
                "n\u{2019}t ",
                "never ",
                "cannot ",
                "if you ",
                "if i ",
            ];
            if !denied.iter().any(|word| before.ends_with(word)) {
                found.extend(letter(own.as_str()));
            }
        }
    }
    found
}

/// A letter that an answer or a line begins with, a reason behind it.
fn leading(line: &str) -> Option<Choice> {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?x)^ [*_`"'(\[]* (?:(?i:option|version|answer)[\s:]+)? [*_`"'(\[]* ([AB]) [*_`"')\]]* (?: \s*[,.:;\u{2014}\u{2013}]\s | \s+[-\u{2014}\u{2013}(] | \s+(?:because|since)\b )"#,
        )
    });
    letter(LEAD.captures(line)?.get(1)?.as_str())
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are tested")
}

#[cfg(test)]
mod tests;
