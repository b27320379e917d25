//! The top level of a C++ text: namespaces and classes are walked into, functions come out with the
//! place they stand in, initialiser lists and handlers included in their definition. It works on
//! tokens, as the walk of `outline` does for C, and for the same reason.

use std::ops::Range;
use std::sync::Arc;

use super::head_cpp::{angle, declarator, is_access, is_cpp_attribute};
use super::lex::{Conditional, Kind};
use super::outline::{Block, Outline, Place, Top};

/// Deeper nested places keep the name of the last one.
const DEEPEST: usize = 64;

/// A head of more tokens than this is no head.
const LONGEST_HEAD: usize = 4000;

/// The things of a text that stands in `place`.
pub(super) fn walk(o: &Outline<'_>, place: Place) -> Vec<Top> {
    let mut walk = Walk {
        o,
        partners: partners(o),
        items: Vec::new(),
        start: 0,
        initialiser: false,
        margin_ends: false,
        places: vec![Arc::new(place)],
        too_deep: 0,
        branches: Vec::new(),
    };
    walk.run();
    walk.items
}

/// For every bracket the token of its partner; its own number where it has none. Conditionals are
/// not minded, so this serves what stands on a few lines, never the bodies of functions.
fn partners(o: &Outline<'_>) -> Vec<usize> {
    let mut partners: Vec<usize> = (0..o.tokens.len()).collect();
    let mut open: Vec<usize> = Vec::new();
    for i in 0..o.tokens.len() {
        let opener: &[u8] = match o.text(i) {
            b"(" | b"[" | b"{" => {
                open.push(i);
                continue;
            }
            b")" => b"(",
            b"]" => b"[",
            b"}" => {
                // What was opened inside of braces ends with them.
                while open.last().is_some_and(|top| !o.is(*top, "{")) {
                    open.pop();
                }
                b"{"
            }
            _ => continue,
        };
        if open.last().is_some_and(|top| o.text(*top) == opener) {
            let top = open.pop().expect("it was just looked at");
            partners[top] = i;
            partners[i] = top;
        }
    }
    partners
}

struct Walk<'o, 's> {
    o: &'o Outline<'s>,
    partners: Vec<usize>,
    items: Vec<Top>,
    /// First token of the thing being read.
    start: usize,
    /// An initialiser was seen: braces belong to it.
    initialiser: bool,
    /// See [`Outline::end_of`].
    margin_ends: bool,
    /// What is open here, the text's own place first.
    places: Vec<Arc<Place>>,
    /// Places opened beyond [`DEEPEST`].
    too_deep: usize,
    /// For every open conditional the number of places where it opened, and the places at the end
    /// of its first branch, which count behind it.
    branches: Vec<(usize, Option<Vec<Arc<Place>>>)>,
}

/// What a head with braces behind it is.
enum Shape {
    Scope(Place),
    Linkage,
    Enumeration,
    Function,
    Other,
}

impl Walk<'_, '_> {
    fn run(&mut self) {
        let o = self.o;
        let mut i = 0;
        while i < o.tokens.len() {
            if o.kind(i) == Some(Kind::Directive) {
                self.conditional(i);
                if self.start == i {
                    self.items.push(Top::Directive(i));
                    self.begin(i + 1);
                }
                i += 1;
                continue;
            }
            match o.text(i) {
                b"template" if o.is(i + 1, "<") => i = angle(o, i + 1).unwrap_or(i + 1),
                // Its signs are no initialiser and no bracket.
                b"operator" => {
                    i += 1;
                    while i < o.tokens.len()
                        && o.kind(i) == Some(Kind::Punct)
                        && !matches!(o.text(i), b"(" | b";" | b"{" | b"}")
                    {
                        i += 1;
                    }
                }
                b"(" | b"[" => i = self.partners[i] + 1,
                b"=" => {
                    self.initialiser = true;
                    i += 1;
                }
                b";" => {
                    self.declaration(i + 1);
                    i += 1;
                }
                b":" if i > self.start && is_access(o.text(i - 1)) && self.inside().in_class => {
                    self.declaration(i + 1);
                    i += 1;
                }
                b":" if !self.initialiser && self.is_constructor(self.start..i) => {
                    i = match self.initialisers(i + 1) {
                        Some(body) => self.function(self.start..i, body),
                        None => i + 1,
                    }
                }
                b"{" => i = self.brace(i),
                b"}" => {
                    self.declaration(i);
                    self.items.push(Top::Closing(i));
                    self.begin(i + 1);
                    self.close();
                    i += 1;
                }
                _ => i += 1,
            }
        }
        self.declaration(o.tokens.len());
    }

    fn inside(&self) -> &Arc<Place> {
        self.places.last().expect("the text's own place stays")
    }

    fn open(&mut self, place: Place) {
        if self.places.len() < DEEPEST {
            self.places.push(Arc::new(place));
        } else {
            self.too_deep += 1;
        }
    }

    fn close(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if self.places.len() > 1 {
            self.places.pop();
        }
    }

    /// Every branch of a conditional starts in the places where it opened.
    fn conditional(&mut self, i: usize) {
        match self.o.conditional(i) {
            Some(Conditional::Open { .. }) => self.branches.push((self.places.len(), None)),
            Some(Conditional::Next) => {
                if let Some((depth, first)) = self.branches.last_mut() {
                    first.get_or_insert_with(|| self.places.clone());
                    self.places.truncate((*depth).max(1));
                }
            }
            Some(Conditional::Close) => {
                if let Some((_, Some(first))) = self.branches.pop() {
                    self.places = first;
                }
            }
            None => {}
        }
    }

    fn begin(&mut self, at: usize) {
        self.start = at;
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

    /// Handles the `{` at `i`; returns the token to go on with.
    fn brace(&mut self, i: usize) -> usize {
        if self.initialiser || self.is_requirement(i) {
            return self.past(i);
        }
        let head = self.start..i;
        match self.shape(&head) {
            Shape::Scope(place) => {
                self.items.push(Top::Scope(self.start..i + 1));
                self.begin(i + 1);
                self.open(place);
                i + 1
            }
            Shape::Linkage => {
                self.items.push(Top::Linkage(self.start..i + 1));
                self.begin(i + 1);
                // Its brace closes something too.
                self.open(Place::clone(&self.inside().clone()));
                i + 1
            }
            Shape::Enumeration => self.past(i),
            Shape::Function => self.function(head, i),
            Shape::Other => {
                let close = self.partners[i];
                if !head.is_empty() && close > i && matches!(self.o.text(close + 1), b";" | b",") {
                    // `thing name{1, 2};`
                    return close + 1;
                }
                let (block, resume) = self.block(head, i);
                self.items.push(Top::Block(block));
                self.begin(resume);
                resume
            }
        }
    }

    /// Behind braces that belong to an expression.
    fn past(&mut self, open: usize) -> usize {
        match self.partners[open] {
            close if close > open => close + 1,
            _ => {
                self.o
                    .end_of(open, self.start, &mut self.margin_ends)
                    .resume
            }
        }
    }

    fn block(&mut self, head: Range<usize>, open: usize) -> (Block, usize) {
        let end = self.o.end_of(open, self.start, &mut self.margin_ends);
        let block = Block {
            head,
            old_style: false,
            open,
            close: end.close,
            closed: end.closed,
            split: end.split,
            end: end.close,
            place: self.inside().clone(),
        };
        (block, end.resume)
    }

    /// A function with the body at `open`; `head` ends before its initialisers.
    fn function(&mut self, head: Range<usize>, open: usize) -> usize {
        let o = self.o;
        let tries = o.is(head.end.saturating_sub(1), "try") && head.end > head.start;
        let head = head.start..head.end - usize::from(tries);
        let (mut block, mut resume) = self.block(head, open);
        while tries && block.closed && o.is(resume, "catch") && o.is(resume + 1, "(") {
            let handler = self.partners[resume + 1] + 1;
            if !o.is(handler, "{") {
                break;
            }
            let end = o.end_of(handler, self.start, &mut self.margin_ends);
            block.end = end.close;
            block.closed &= end.closed;
            block.split |= end.split;
            resume = end.resume;
        }
        self.items.push(Top::Function(block));
        self.begin(resume);
        resume
    }

    /// Whether a `:` behind `head` begins the initialisers of a constructor.
    fn is_constructor(&self, head: Range<usize>) -> bool {
        // The length first: it bounds the work on a text that is all colons.
        head.len() < LONGEST_HEAD
            && (head.start..head.end).any(|k| self.o.is(k, ")"))
            && !matches!(self.shape(&head), Shape::Scope(_) | Shape::Enumeration)
            && declarator(self.o, &head, self.inside()).is_some()
    }

    /// The brace of the body behind the initialisers that start at `i`: `a(1), b{2}, c(x)... {`.
    fn initialisers(&self, mut i: usize) -> Option<usize> {
        let o = self.o;
        loop {
            loop {
                match o.text(i) {
                    b"(" | b"{" => break,
                    b"<" => i = angle(o, i)?,
                    b"::" => i += 1,
                    _ if o.is_word(i) || o.kind(i) == Some(Kind::Directive) => i += 1,
                    _ => return None,
                }
            }
            let close = self.partners[i];
            if close <= i {
                return None;
            }
            i = close + 1;
            while o.kind(i) == Some(Kind::Directive) || o.is(i, "...") {
                i += 1;
            }
            match o.text(i) {
                b"," => i += 1,
                b"{" => return Some(i),
                _ => return None,
            }
        }
    }

    /// Whether the `{` at `i` opens the requirements of a `requires` expression.
    fn is_requirement(&self, i: usize) -> bool {
        let o = self.o;
        let Some(before) = i.checked_sub(1).filter(|b| *b >= self.start) else {
            return false;
        };
        let word = match o.text(before) {
            b")" => match self.partners[before].checked_sub(1) {
                Some(word) => word,
                None => return false,
            },
            b"requires" => before,
            _ => return false,
        };
        o.is(word, "requires")
            && (word == before
                || word.checked_sub(1).is_some_and(|b| {
                    matches!(o.text(b), b"requires" | b"&&" | b"||" | b"!" | b"(" | b"=")
                }))
    }

    fn shape(&self, head: &Range<usize>) -> Shape {
        let o = self.o;
        if head.len() > LONGEST_HEAD {
            return Shape::Other;
        }
        let mut template = false;
        let mut parentheses = false;
        let mut k = head.start;
        while k < head.end {
            match o.text(k) {
                b"template" if o.is(k + 1, "<") => {
                    // `template <>` makes no template: what it specialises is a type like others.
                    template |= !o.is(k + 2, ">");
                    k = angle(o, k + 1).unwrap_or(k + 1);
                    continue;
                }
                b"(" | b"[" => {
                    parentheses |=
                        o.is(k, "(") && !(k > head.start && is_cpp_attribute(o.text(k - 1)));
                    k = self.partners[k].max(k) + 1;
                    continue;
                }
                b"operator" => break,
                b"namespace" => return Shape::Scope(self.namespace(k + 1..head.end)),
                b"extern" if o.kind(k + 1) == Some(Kind::Literal) && k + 2 == head.end => {
                    return Shape::Linkage;
                }
                b"enum" if !parentheses => {
                    let called = (k..head.end).any(|p| o.is(p, "("));
                    if !called {
                        return Shape::Enumeration;
                    }
                }
                b"class" | b"struct" | b"union" if !parentheses => {
                    if let Some(name) = self.class_name(k + 1..head.end) {
                        return Shape::Scope(self.class(name, template));
                    }
                }
                _ => {}
            }
            k += 1;
        }
        match (head.start..head.end).any(|k| o.is(k, "(")) {
            true => Shape::Function,
            false => Shape::Other,
        }
    }

    /// `name`, `a::b`, or nothing, behind `namespace`.
    fn namespace(&self, tokens: Range<usize>) -> Place {
        let o = self.o;
        let mut place = Place::clone(self.inside());
        let mut k = tokens.start;
        let mut names = Vec::new();
        while k < tokens.end {
            match o.text(k) {
                b"[" | b"(" => k = self.partners[k].max(k),
                b"inline" => {}
                word if o.is_word(k) && !is_cpp_attribute(word) => {
                    // A macro may stand before the name.
                    if k > tokens.start && o.is_word(k - 1) && !o.is(k - 1, "inline") {
                        names.clear();
                    }
                    names.push(String::from_utf8_lossy(word).into_owned());
                }
                _ => {}
            }
            k += 1;
        }
        place.path.extend(names);
        place.classes = 0;
        place.in_class = false;
        place
    }

    /// The name between `class` and its bases or its brace, without template arguments; empty for
    /// a class without a name, nothing if this is no head of a class.
    fn class_name(&self, tokens: Range<usize>) -> Option<Vec<String>> {
        let o = self.o;
        let mut name: Vec<String> = Vec::new();
        let mut joined = false;
        let mut k = tokens.start;
        while k < tokens.end {
            match o.text(k) {
                _ if o.kind(k) == Some(Kind::Directive) => {}
                b"[" => k = self.partners[k].max(k),
                b"::" => joined = true,
                b"<" if !name.is_empty() => {
                    k = angle(o, k)?;
                    continue;
                }
                b":" => return Some(name),
                b"final" if !name.is_empty() => {}
                word if o.is_word(k) => {
                    let close = self.partners[(k + 1).min(o.tokens.len() - 1)];
                    if o.is(k + 1, "(") {
                        // `class EXPORT(x) Name`, but not `struct point origin(void)`.
                        let attribute = is_cpp_attribute(word) || name.is_empty();
                        if !attribute || close >= tokens.end {
                            return None;
                        }
                        k = close;
                    } else {
                        if !joined {
                            name.clear();
                        }
                        joined = false;
                        name.push(String::from_utf8_lossy(word).into_owned());
                    }
                }
                _ => return None,
            }
            k += 1;
        }
        Some(name)
    }

    fn class(&self, name: Vec<String>, template: bool) -> Place {
        let mut place = Place::clone(self.inside());
        place.classes += name.len().min(1);
        place.path.extend(name);
        place.in_class = true;
        place.in_template |= template;
        place
    }
}
