//! Where a block ends, when conditionals may cut through its braces. Shared by the walks over the
//! top level of every language.

use super::lex::Conditional;
use super::outline::Outline;

/// Where a block ends.
pub(super) struct End {
    pub(super) close: usize,
    pub(super) resume: usize,
    pub(super) closed: bool,
    pub(super) split: bool,
}

impl Outline<'_> {
    /// Where the block opened at `open` ends.
    /// Once one ran to the end of the text, `margin_ends`: from there on a brace at the margin ends a
    /// block, which keeps a walk linear. `start` is the first token of what the block belongs to.
    pub(super) fn end_of(&self, open: usize, start: usize, margin_ends: &mut bool) -> End {
        let o = self;
        let margin =
            |from: usize| (from..o.tokens.len()).find(|k| o.is(*k, "}") && o.at_margin(*k));
        let unclosed = |close: Option<usize>| {
            let close = close.unwrap_or(o.tokens.len() - 1);
            End {
                close,
                resume: close + 1,
                closed: false,
                split: false,
            }
        };
        match self.follow(open, *margin_ends) {
            Some(end) if end.split => match margin(open).filter(|m| *m < end.close) {
                Some(close) if o.at_margin(start) => End {
                    close,
                    resume: close + 1,
                    ..end
                },
                _ => end,
            },
            Some(end) => end,
            None => {
                *margin_ends = true;
                unclosed(margin(open))
            }
        }
    }

    /// Follows the first live branch of every conditional to the closing brace.
    fn follow(&self, open: usize, margin_ends: bool) -> Option<End> {
        struct Branch {
            base: usize,
            first: Option<usize>,
        }
        let o = self;
        let mut depth = 1usize;
        let mut split = false;
        let mut stack: Vec<Branch> = Vec::new();
        let mut i = open + 1;
        while i < o.tokens.len() {
            match o.conditional(i) {
                Some(Conditional::Open { never }) => {
                    if never {
                        i = o.branch_end(i + 1);
                        if o.conditional(i) != Some(Conditional::Next) {
                            i += 1;
                            continue;
                        }
                    }
                    stack.push(Branch {
                        base: depth,
                        first: None,
                    });
                }
                Some(Conditional::Next) => match stack.last_mut() {
                    Some(branch) => {
                        split |= depth != branch.base;
                        branch.first.get_or_insert(depth);
                        depth = branch.base;
                    }
                    None => {
                        split = true;
                        i = o.conditional_end(i + 1);
                    }
                },
                Some(Conditional::Close) => match stack.pop() {
                    Some(branch) => {
                        split |= depth != branch.base;
                        depth = branch.first.unwrap_or(depth);
                    }
                    None => split = true,
                },
                None => match o.text(i) {
                    b"{" => depth += 1,
                    b"}" => {
                        depth -= 1;
                        if depth == 0 && stack.is_empty() {
                            return Some(End {
                                close: i,
                                resume: i + 1,
                                closed: true,
                                split,
                            });
                        }
                        if depth == 0 {
                            return Some(self.closed_within(i, stack.len()));
                        }
                        if margin_ends && o.at_margin(i) {
                            return Some(End {
                                close: i,
                                resume: i + 1,
                                closed: false,
                                split,
                            });
                        }
                    }
                    _ => {}
                },
            }
            i += 1;
        }
        None
    }

    /// The function is closed at `close` inside `levels` conditionals that opened in its body: it
    /// ends with the last brace before they end.
    fn closed_within(&self, close: usize, levels: usize) -> End {
        let o = self;
        let mut end = close;
        for _ in 0..levels {
            end = o.conditional_end(end + 1);
        }
        let end = end.min(o.tokens.len() - 1);
        let last = (close..=end).rev().find(|k| o.is(*k, "}"));
        End {
            close: last.unwrap_or(close),
            resume: end + 1,
            closed: true,
            split: true,
        }
    }
}
