//! Simulated models and what they answer: those with a memory, and those that could pass for having
//! one. The same text gets the same answer, over HTTP or not.

use crate::memory::{Memory, pieces};

/// A simulated model.
pub enum Mind {
    /// Goes on as where it was trained.
    Remembers(Memory),
    /// Goes on as the text in front of it did where it was alike: it knows nothing.
    Copies,
    /// Says what it was shown.
    Echoes,
    /// Declines.
    Refuses,
    /// Talks about what it was shown.
    Talks,
    /// Says nothing.
    Silent,
}

/// What is asked.
pub struct Question<'a> {
    /// The text to go on with, or the message of a chat.
    pub text: &'a str,
    /// Whether it is a chat.
    pub chat: bool,
    /// The most tokens of the answer.
    pub max_tokens: usize,
    /// 0 for the likeliest answer.
    pub temperature: f64,
    /// Of the draw.
    pub seed: u64,
}

/// An answer.
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Whether the limit of tokens ended it.
    pub cut: bool,
}

/// A continuation needs no more: eight words are looked at.
const MOST: usize = 32;

impl Mind {
    /// Answers a question.
    pub fn answer(&self, question: &Question<'_>) -> Answer {
        let shown = match question.chat {
            true => fenced(question.text),
            false => question.text,
        };
        let limit = question.max_tokens.min(MOST);
        let said = match self {
            Mind::Remembers(memory) => memory
                .goes_on(shown, limit, question.temperature, question.seed)
                .join(" "),
            Mind::Copies => copied(shown, limit).join(" "),
            Mind::Echoes => shown.to_string(),
            Mind::Refuses => "I'm sorry, but I can't continue that file.".to_string(),
            Mind::Talks => {
                "This code is a part of a larger file, and does several things.".to_string()
            }
            Mind::Silent => String::new(),
        };
        let cut =
            matches!(self, Mind::Remembers(_) | Mind::Copies) && pieces(&said).count() >= limit;
        let text = match (question.chat, self) {
            (true, Mind::Remembers(_) | Mind::Copies | Mind::Echoes) => {
                // Longer than any within, so that the answer ends where it ends.
                let runs = said.split(|c| c != '`').map(str::len).max();
                let fence = "`".repeat(runs.unwrap_or(0).max(2) + 1);
                format!("{fence}\n{said}\n{fence}")
            }
            _ => said,
        };
        Answer { text, cut }
    }
}

/// What stands between the first and the last fence of a message, of which the text may have some of
/// its own; all of it without any.
fn fenced(message: &str) -> &str {
    let Some(close) = message.rfind("\n```") else {
        return message;
    };
    let before = &message[..close];
    let Some(open) = before.find("\n\n```") else {
        return message;
    };
    let inside = &before[open + 2..];
    inside.split_once('\n').map_or("", |(_, inside)| inside)
}

/// Goes on as the text did after the longest end of it that stood in it before; where there is
/// none, with its last word.
fn copied(shown: &str, limit: usize) -> Vec<&str> {
    let mut text: Vec<&str> = pieces(shown).collect();
    let length = text.len();
    let word = text
        .iter()
        .rev()
        .find(|p| p.starts_with(|c: char| c.is_alphabetic()));
    let word = word.copied();
    while text.len() < length + limit {
        let longest = (1..text.len())
            .rev()
            .max_by_key(|&end| {
                let same = text[..end].iter().rev().zip(text.iter().rev());
                (same.take_while(|(a, b)| a == b).count(), end)
            })
            .filter(|&end| text[end - 1] == text[text.len() - 1]);
        match longest.map(|end| text[end]).or(word) {
            Some(next) => text.push(next),
            None => break,
        }
    }
    text.split_off(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_fences_of_its_own_is_one_text() {
        let text = "/// As in\n///\n\n```\nlet a = 1;\n```\n\n/// this.";
        let message = format!("Go on.\n\n````\n{text}\n````\n\nNext:");
        assert_eq!(fenced(&message), text);
        let question = Question {
            text: &message,
            chat: true,
            max_tokens: 512,
            temperature: 0.0,
            seed: 0,
        };
        let answer = Mind::Echoes.answer(&question).text;
        assert_eq!(answer, format!("````\n{text}\n````"));
    }
}
