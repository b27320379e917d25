//! The top level of a text as a list of things: functions with their braces, declarations,
//! directives. It works on tokens, so that a macro no grammar understands costs nothing but
//! itself, and it never guesses silently: where conditionals make the braces ambiguous, it says so.

use std::ops::Range;
use std::sync::Arc;

use super::braces::End;
use super::facts::{Family, LanguageId};
use super::lex::{Conditional, Kind, Token, conditional, lex};
use super::scopes;
use super::words::{is_attribute, is_type_keyword};

/// A text with its top-level things. Token numbers count tokens without comments.
pub(super) struct Outline<'s> {
    pub(super) language: LanguageId,
    pub(super) source: &'s [u8],
    /// Without comments.
    pub(super) tokens: Vec<Token>,
    pub(super) comments: Vec<Token>,
    pub(super) items: Vec<Top>,
    pub(super) open_comment: bool,
}

/// One thing at top level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Top {
    /// Something with parentheses before its braces.
    Function(Block),
    /// Braces without parentheses before them that are no aggregate: a macro's, or stray ones.
    Block(Block),
    /// Tokens that end with `;`, or that end with the text.
    Declaration(Range<usize>),
    /// A preprocessor line.
    Directive(usize),
    /// `extern "C" {`.
    Linkage(Range<usize>),
    /// The head of a namespace or a class, brace included: what is inside follows as items.
    Scope(Range<usize>),
    /// A lone `;`.
    Empty(usize),
    /// A closing brace that closes nothing here (the end of a linkage block, or one too many).
    Closing(usize),
}

/// Braces and what stands before them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// Tokens before the brace, directives included.
    pub(super) head: Range<usize>,
    /// Whether parameter declarations stand between the parameters and the brace.
    pub(super) old_style: bool,
    pub(super) open: usize,
    /// The closing brace, or the last token when nothing closes it.
    pub(super) close: usize,
    /// Whether there is a closing brace.
    pub(super) closed: bool,
    /// Conditionals cut through the braces: `close` is the likeliest of several.
    pub(super) split: bool,
    /// The last token of the definition: `close`, or the last brace of the handlers behind a
    /// function's `try`.
    pub(super) end: usize,
    /// What it stands in.
    pub(super) place: Arc<Place>,
}

/// What a definition stands in: namespaces and classes, from the outermost on.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Place {
    /// Their names; those without a name are left out.
    pub(super) path: Vec<String>,
    /// How many of `path`, counted from its end, are classes.
    pub(super) classes: usize,
    /// The innermost is a class, with or without a name.
    pub(super) in_class: bool,
    /// One of them is a template.
    pub(super) in_template: bool,
}

impl<'s> Outline<'s> {
    /// The outline of a whole file. Never fails.
    pub(super) fn of(language: LanguageId, source: &'s [u8]) -> Self {
        Outline::within(language, source, Place::default())
    }

    /// The outline of a text that stands in `place`.
    pub(super) fn within(language: LanguageId, source: &'s [u8], place: Place) -> Self {
        let facts = language.facts();
        let lexed = lex(facts.dialect, source);
        let (comments, tokens) = lexed
            .tokens
            .into_iter()
            .partition(|t| t.kind == Kind::Comment);
        let mut outline = Outline {
            language,
            source,
            tokens,
            comments,
            items: Vec::new(),
            open_comment: lexed.open_comment,
        };
        outline.items = match facts.family {
            Family::C => Walk::new(&outline).run(),
            Family::Cpp => scopes::walk(&outline, place),
        };
        outline
    }

    /// The bytes of token `i`; empty beyond the end.
    pub(super) fn text(&self, i: usize) -> &'s [u8] {
        self.tokens.get(i).map_or(b"", |t| t.text(self.source))
    }

    pub(super) fn is(&self, i: usize, text: &str) -> bool {
        self.tokens.get(i).is_some_and(|t| t.is(self.source, text))
    }

    pub(super) fn kind(&self, i: usize) -> Option<Kind> {
        self.tokens.get(i).map(|t| t.kind)
    }

    pub(super) fn is_word(&self, i: usize) -> bool {
        self.kind(i) == Some(Kind::Word)
    }

    /// The effect of token `i` on conditionals, if it is such a directive.
    pub(super) fn conditional(&self, i: usize) -> Option<Conditional> {
        let token = self.tokens.get(i)?;
        if token.kind != Kind::Directive {
            return None;
        }
        conditional(token.text(self.source))
    }

    /// The token that closes the bracket at `open`, looking no further than `end`.
    pub(super) fn closing(&self, open: usize, end: usize) -> Option<usize> {
        let mut depth = 0usize;
        for i in open..end {
            match self.text(i) {
                b"(" | b"[" | b"{" => depth += 1,
                b")" | b"]" | b"}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The token that opens the bracket closed at `close`, looking back no further than `start`.
    pub(super) fn opening(&self, close: usize, start: usize) -> Option<usize> {
        let mut depth = 0usize;
        for i in (start..=close).rev() {
            match self.text(i) {
                b")" | b"]" | b"}" => depth += 1,
                b"(" | b"[" | b"{" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Whether the token starts its line at column 0.
    pub(super) fn at_margin(&self, i: usize) -> bool {
        self.tokens
            .get(i)
            .is_some_and(|t| t.start == 0 || self.source[t.start - 1] == b'\n')
    }

    /// The conditional directive of the same level that ends the branch `from` is in.
    pub(super) fn branch_end(&self, from: usize) -> usize {
        let mut level = 0usize;
        for i in from..self.tokens.len() {
            match self.conditional(i) {
                Some(Conditional::Open { .. }) => level += 1,
                Some(Conditional::Close) if level > 0 => level -= 1,
                Some(Conditional::Close | Conditional::Next) if level == 0 => return i,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// The `#endif` that ends the conditional whose inside token `from` is in.
    pub(super) fn conditional_end(&self, from: usize) -> usize {
        let mut i = self.branch_end(from);
        while matches!(self.conditional(i), Some(Conditional::Next)) {
            i = self.branch_end(i + 1);
        }
        i
    }

    /// Whether every conditional that opens in `range` closes there and the other way round.
    pub(super) fn conditionals_balance(&self, range: Range<usize>) -> bool {
        let mut level = 0usize;
        for i in range {
            match self.conditional(i) {
                Some(Conditional::Open { .. }) => level += 1,
                Some(Conditional::Close) if level == 0 => return false,
                Some(Conditional::Next) if level == 0 => return false,
                Some(Conditional::Close) => level -= 1,
                _ => {}
            }
        }
        level == 0
    }
}

/// One walk over the tokens of a C text; `scopes` has that of C++.
struct Walk<'o, 's> {
    o: &'o Outline<'s>,
    items: Vec<Top>,
    /// First token of the thing being read.
    start: usize,
    /// First token of the last of several declarations being read (parameter declarations).
    segment: usize,
    /// Parameter declarations may be being read.
    old_style: bool,
    /// Open parentheses and square brackets.
    brackets: usize,
    /// An initialiser was seen.
    initialiser: bool,
    /// A block ran to the end of the text: from here on a brace at the margin ends a block, which
    /// keeps the walk linear.
    margin_ends: bool,
    /// C has no places.
    place: Arc<Place>,
}

/// More old-style parameter declarations than this are something else.
const MOST_PARAMETERS: usize = 64;

impl<'o, 's> Walk<'o, 's> {
    fn new(o: &'o Outline<'s>) -> Self {
        Walk {
            o,
            items: Vec::new(),
            start: 0,
            segment: 0,
            old_style: false,
            brackets: 0,
            initialiser: false,
            margin_ends: false,
            place: Arc::default(),
        }
    }

    fn run(mut self) -> Vec<Top> {
        let mut i = 0;
        let mut segments = 0;
        while i < self.o.tokens.len() {
            match self.o.text(i) {
                _ if self.o.kind(i) == Some(Kind::Directive) && self.start == i => {
                    self.items.push(Top::Directive(i));
                    self.begin(i + 1);
                }
                b"(" | b"[" => self.brackets += 1,
                b")" | b"]" => self.brackets = self.brackets.saturating_sub(1),
                b"=" if self.brackets == 0 => {
                    self.initialiser = true;
                    self.old_style = false;
                }
                b";" => {
                    let more = self.old_style && segments < MOST_PARAMETERS;
                    if self.brackets == 0 && !self.initialiser && self.parameters_go_on(i, more) {
                        segments += 1;
                        self.old_style = true;
                        self.segment = i + 1;
                    } else {
                        segments = 0;
                        self.declaration(i + 1);
                    }
                }
                b"{" => {
                    i = self.brace(i);
                    segments = if self.old_style { segments } else { 0 };
                    continue;
                }
                b"}" => {
                    self.declaration(i);
                    self.items.push(Top::Closing(i));
                    self.begin(i + 1);
                }
                _ => {}
            }
            i += 1;
        }
        self.declaration(self.o.tokens.len());
        self.items
    }

    fn begin(&mut self, at: usize) {
        self.start = at;
        self.segment = at;
        self.old_style = false;
        self.brackets = 0;
        self.initialiser = false;
    }

    /// Ends what is being read before token `end`.
    fn declaration(&mut self, end: usize) {
        if end == self.start + 1 && self.o.is(self.start, ";") {
            self.items.push(Top::Empty(self.start));
        } else if end > self.start {
            self.items.push(Top::Declaration(self.start..end));
        }
        self.begin(end);
    }

    /// Whether the `;` at `i` ends a parameter declaration of an old-style definition: `more` when
    /// one was read already.
    fn parameters_go_on(&self, i: usize, more: bool) -> bool {
        let o = self.o;
        if more {
            return i >= self.segment + 2 && o.is_word(self.segment);
        }
        if self.start != self.segment || o.is(self.start, "typedef") {
            return false;
        }
        // name ( a , b ) type declarator ;
        let Some(open) = (self.start..i).find(|k| o.is(*k, "(")) else {
            return false;
        };
        let Some(close) = o.closing(open, i) else {
            return false;
        };
        // `f MACRO((a, b)) int a; int b; {`
        let wrapped = o.is(open + 1, "(") && o.is(close - 1, ")");
        let (open, close) = (open + usize::from(wrapped), close - usize::from(wrapped));
        let names = open + 1 < close
            && (open + 1..close).all(|k| {
                if (k - open) % 2 == 1 {
                    o.is_word(k) && !is_type_keyword(o.text(k))
                } else {
                    o.is(k, ",")
                }
            });
        let after = close + 1 + usize::from(wrapped);
        let before = open.saturating_sub(1 + usize::from(wrapped));
        before >= self.start
            && o.is_word(before)
            && !is_attribute(o.text(before))
            && names
            && i >= after + 2
            && o.is_word(after)
            && !is_attribute(o.text(after))
    }

    /// Handles the `{` at `i`; returns the token to go on with.
    fn brace(&mut self, i: usize) -> usize {
        if self.brackets > 0 || self.initialiser {
            let resume = self.end_of(i).resume;
            // A block inside brackets (an argument of a macro, a statement expression) is followed by
            // what goes on with the expression. A word or a directive there means that a bracket
            // was never closed, as in code that no compiler reads: what follows must not be lost.
            if self.brackets > 0
                && (self.o.is_word(resume) || self.o.kind(resume) == Some(Kind::Directive))
            {
                self.declaration(resume);
            }
            return resume;
        }
        let old_style = self.old_style && self.segment == i;
        if self.old_style && !old_style {
            // Not parameters after all: what came before is its own.
            let segment = self.segment;
            let end = std::mem::replace(&mut self.start, segment);
            self.items.push(Top::Declaration(end..segment));
            self.old_style = false;
        }
        let head = self.start..i;
        if self.is_linkage(&head) {
            self.items.push(Top::Linkage(self.start..i + 1));
            self.begin(i + 1);
            return i + 1;
        }
        let shape = if old_style {
            Shape::Function
        } else {
            self.shape(&head)
        };
        let end = self.end_of(i);
        if shape == Shape::Aggregate {
            return end.resume;
        }
        let block = Block {
            head,
            old_style,
            open: i,
            close: end.close,
            closed: end.closed,
            split: end.split,
            end: end.close,
            place: self.place.clone(),
        };
        self.items.push(match shape {
            Shape::Function => Top::Function(block),
            _ => Top::Block(block),
        });
        self.begin(end.resume);
        end.resume
    }

    fn end_of(&mut self, open: usize) -> End {
        self.o.end_of(open, self.start, &mut self.margin_ends)
    }

    fn is_linkage(&self, head: &Range<usize>) -> bool {
        head.len() >= 2
            && self.o.is(head.end - 2, "extern")
            && self.o.kind(head.end - 1) == Some(Kind::Literal)
    }

    fn shape(&self, head: &Range<usize>) -> Shape {
        let o = self.o;
        let aggregate = |k: usize| matches!(o.text(k), b"struct" | b"union" | b"enum");
        let mut end = head.end;
        let mut words = 0;
        while end > head.start {
            let last = end - 1;
            if o.kind(last) == Some(Kind::Directive) {
                end = last;
            } else if o.is(last, ")") {
                let Some(open) = o.opening(last, head.start) else {
                    return Shape::Function;
                };
                if open > head.start && is_attribute(o.text(open - 1)) {
                    end = open - 1;
                    continue;
                }
                let tagged = open >= head.start + 2 && o.is_word(open - 1) && aggregate(open - 2);
                return if tagged {
                    Shape::Aggregate
                } else {
                    Shape::Function
                };
            } else if o.is_word(last) {
                if aggregate(last) || words > 8 {
                    break;
                }
                words += 1;
                end = last;
            } else {
                break;
            }
        }
        if head.clone().any(aggregate) {
            Shape::Aggregate
        } else {
            Shape::Block
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Function,
    Aggregate,
    Block,
}
