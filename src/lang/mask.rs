//! The text of a head with macros blanked out, so that the grammar takes it and every offset
//! stays. Nothing is ever removed or moved.

use std::ops::Range;

use super::head::Guess;
use super::lex::{Conditional, Kind};
use super::outline::Outline;
use super::words::{is_attribute, is_specifier, is_type_keyword};

/// The text of a head in which things can be blanked out.
#[derive(Clone)]
pub(super) struct Mask {
    /// Where in the source the text starts.
    pub(super) at: usize,
    pub(super) text: Vec<u8>,
}

impl Mask {
    /// The bytes of `tokens`, directives and dead branches blanked out.
    pub(super) fn new(o: &Outline<'_>, tokens: &Range<usize>) -> Self {
        let at = o.tokens.get(tokens.start).map_or(0, |t| t.start);
        let last = tokens.end.saturating_sub(1);
        let end = o.tokens.get(last).map_or(at, |t| t.end).max(at);
        let mut mask = Mask {
            at,
            text: o.source.get(at..end).unwrap_or_default().to_vec(),
        };
        let mut dead = 0usize;
        let mut level = 0usize;
        for i in tokens.clone() {
            match o.conditional(i) {
                Some(Conditional::Open { .. }) => level += 1,
                Some(Conditional::Next) if dead == 0 => dead = level,
                Some(Conditional::Close) => {
                    if dead == level {
                        dead = 0;
                    }
                    level = level.saturating_sub(1);
                }
                _ => {}
            }
            if dead > 0 || o.kind(i) == Some(Kind::Directive) {
                mask.blank(o, i);
            }
        }
        mask
    }

    /// Blanks out what the grammar cannot take: attributes, macros before the type and after the
    /// parameters.
    pub(super) fn macros(&mut self, o: &Outline<'_>, tokens: &Range<usize>, guess: &Guess) {
        let mut i = tokens.start;
        while i < tokens.end {
            if o.is_word(i)
                && (is_attribute(o.text(i)) || o.is(i, "__extension__") || o.is(i, "_Noreturn"))
            {
                let end = match o.closing(i + 1, tokens.end) {
                    Some(close) if o.is(i + 1, "(") => close,
                    _ => i,
                };
                (i..=end).for_each(|k| self.blank(o, k));
                i = end;
            }
            i += 1;
        }
        // Before the name: one thing is the type, other plain words are macros.
        let plain: Vec<usize> = (guess.first..guess.name)
            .filter(|i| o.is_word(*i) && !is_specifier(o.text(*i)) && !self.blanked(o, *i))
            .collect();
        let tag = |i: usize| matches!(o.text(i), b"struct" | b"union" | b"enum");
        let has_type = plain.iter().any(|i| is_type_keyword(o.text(*i)));
        for (k, i) in plain.iter().enumerate() {
            let named_tag = *i > 0 && tag(*i - 1);
            let is_type = is_type_keyword(o.text(*i)) || named_tag;
            if !(is_type || (!has_type && k + 1 == plain.len())) {
                self.blank(o, *i);
                if o.is(i + 1, "(")
                    && let Some(close) = o.closing(i + 1, guess.name)
                {
                    (i + 1..=close).for_each(|k| self.blank(o, k));
                }
            }
        }
        // `char *end UNUSED` among the parameters.
        for i in guess.open + 2..guess.close {
            let shouts = o.is_word(i) && !o.text(i).iter().any(u8::is_ascii_lowercase);
            let ends = o.is(i + 1, ",") || o.is(i + 1, ")");
            if shouts && ends && o.is_word(i - 1) && !is_type_keyword(o.text(i - 1)) {
                self.blank(o, i);
            }
        }
        if !o.tokens[guess.close + 1..tokens.end.max(guess.close + 1)]
            .iter()
            .any(|t| t.is(o.source, ";"))
        {
            (guess.close + 1..tokens.end).for_each(|k| self.blank(o, k));
        }
    }

    fn place(&self, o: &Outline<'_>, i: usize) -> Option<Range<usize>> {
        let token = o.tokens.get(i)?;
        let range = token.start.checked_sub(self.at)?..token.end.checked_sub(self.at)?;
        (range.end <= self.text.len()).then_some(range)
    }

    fn blank(&mut self, o: &Outline<'_>, i: usize) {
        if let Some(range) = self.place(o, i) {
            for c in &mut self.text[range] {
                if *c != b'\n' && *c != b'\r' {
                    *c = b' ';
                }
            }
        }
    }

    fn blanked(&self, o: &Outline<'_>, i: usize) -> bool {
        self.place(o, i)
            .is_none_or(|range| self.text[range].trim_ascii().is_empty())
    }
}
