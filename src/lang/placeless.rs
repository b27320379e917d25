//! A preprocessed unit without places: the same tokens, with line markers by which the line of each
//! depends on nothing outside the top-level declaration it is in. What a compiler writes into an
//! object from such a text (sanitizers' data, line tables) stays the same when comments, blank lines
//! or other declarations come, go or move around it.
//!
//! A declaration starts on line 1 of its file, and its opening brace is on line [`BODY`], whatever
//! stands before it. From either on, lines count as in the source. Namespaces, linkage blocks and
//! the bodies of classes hold declarations of their own. [`source_line`] is the way back.

use std::collections::BTreeSet;

use super::facts::LanguageId;
use super::functions::Definition;
use super::lex::{Kind, Lines, Token, directive_word};
use super::outline::{Outline, Top};

/// The line of a declaration's opening brace.
pub const BODY: u32 = 1000;

/// Lines from here on are counted from the brace; none before a body gets so far.
const HEADS_END: u32 = 900;

/// More blank lines than this are told by a marker.
const BLANK_LINES: i64 = 8;

/// Words whose value is a place.
const PLACES: &[&[u8]] = &[
    b"__builtin_LINE",
    b"__builtin_FILE",
    b"__builtin_COLUMN",
    b"__builtin_source_location",
    b"source_location",
];

/// Why a text cannot be without places.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Placed {
    /// It asks for its own place while it is compiled.
    #[error("it uses `{0}`")]
    Asks(String),
    /// Its brackets do not match.
    #[error("its brackets do not match")]
    Brackets,
    /// A string or a character is not closed.
    #[error("a string or a character is not closed")]
    Literal,
    /// It is no output of a preprocessor.
    #[error("it holds `{0}`, which no preprocessor leaves")]
    Raw(String),
}

/// The text without places. `preprocessed` is what gcc or clang write with `-E`.
///
/// # Errors
/// [`Placed`]; the text then has to be compiled as it is.
pub fn placeless(language: LanguageId, preprocessed: &[u8]) -> Result<Vec<u8>, Placed> {
    let o = Outline::of(language, preprocessed);
    check(&o)?;
    let cuts = Cuts::of(&o);
    let mut writer = Writer {
        out: Vec::with_capacity(preprocessed.len()),
        at: None,
        line_start: true,
    };
    let mut reader = Reader {
        source: preprocessed,
        at: 0,
        here: Place {
            file: b"\"\"",
            flags: "",
            line: 1,
        },
    };
    let mut names: BTreeSet<&[u8]> = BTreeSet::new();
    let mut started = false;
    let mut declaration = Declaration::default();
    for (i, token) in o.tokens.iter().enumerate() {
        let text = token.text(preprocessed);
        let between = reader.advance(token);
        if token.kind == Kind::Directive {
            match directive(text)? {
                Directive::Marker(place) => {
                    // What names the unit, its folder and the compiler's own files stays in front.
                    let is_head = names.is_empty()
                        || place.file.starts_with(b"\"<")
                        || place.file.ends_with(b"//\"");
                    if !started && is_head && names.insert(place.file) {
                        writer.marker(&place);
                    }
                    // The newline behind the marker is still to be read.
                    reader.here = Place {
                        line: place.line - 1,
                        ..place
                    };
                }
                Directive::Definition => {}
                Directive::Kept => {
                    let place = match i > declaration.first && i <= declaration.last && started {
                        true => declaration.relative(&reader.here),
                        false => {
                            writer.at = None;
                            reader.here.on(1)
                        }
                    };
                    writer.line(&place, false);
                    writer.newline();
                    writer.token(text);
                    writer.newline();
                }
            }
            continue;
        }
        started = true;
        if cuts.starts.contains(&i) {
            declaration = Declaration {
                first: i,
                last: cuts.last(&o, i),
                file: reader.here.file,
                start: reader.here.line,
                from: reader.here.line,
                to: 1,
                elsewhere: false,
            };
            writer.line(&declaration.relative(&reader.here), true);
        } else if cuts.braces.contains(&i) && reader.here.file == declaration.file {
            declaration.from = reader.here.line;
            declaration.to = i64::from(BODY);
            writer.line(&declaration.relative(&reader.here), true);
        } else {
            declaration.notice(&reader.here);
            let moved = writer.line(&declaration.relative(&reader.here), false);
            writer.space(between, moved);
        }
        writer.token(text);
        reader.within(text);
    }
    writer.newline();
    Ok(writer.out)
}

fn check(o: &Outline<'_>) -> Result<(), Placed> {
    let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    if let Some(comment) = o.comments.first() {
        return Err(Placed::Raw(lossy(comment.text(o.source))));
    }
    let mut open: Vec<u8> = Vec::new();
    for token in &o.tokens {
        let text = token.text(o.source);
        match token.kind {
            Kind::Word if PLACES.contains(&text) => return Err(Placed::Asks(lossy(text))),
            Kind::Literal if !is_closed(text) => return Err(Placed::Literal),
            Kind::Punct => match text {
                b"(" => open.push(b')'),
                b"[" => open.push(b']'),
                b"{" => open.push(b'}'),
                b")" | b"]" | b"}" if open.pop() != Some(text[0]) => return Err(Placed::Brackets),
                // Before the end of a line it would take the next one in.
                b"\\" => return Err(Placed::Raw(lossy(text))),
                _ => {}
            },
            _ => {}
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(Placed::Brackets),
    }
}

/// Whether a literal ends with its own quote.
fn is_closed(literal: &[u8]) -> bool {
    let quote = literal[0];
    if !matches!(quote, b'"' | b'\'') {
        // A raw string: what closes it stands in front of its bracket.
        let open = literal.iter().position(|c| *c == b'"');
        let Some((_, rest)) = open.map(|at| literal.split_at(at + 1)) else {
            return false;
        };
        let Some(bracket) = rest.iter().position(|c| *c == b'(') else {
            return false;
        };
        let close = [b")", &rest[..bracket], b"\""].concat();
        return rest[bracket + 1..].ends_with(&close);
    }
    let mut escaped = false;
    for (i, c) in literal.iter().enumerate().skip(1) {
        match c {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            c if *c == quote => return i + 1 == literal.len(),
            _ => {}
        }
    }
    false
}

enum Directive<'s> {
    Marker(Place<'s>),
    /// Of a macro, which nothing uses any more.
    Definition,
    Kept,
}

fn directive(text: &[u8]) -> Result<Directive<'_>, Placed> {
    let raw = || Placed::Raw(String::from_utf8_lossy(text).into_owned());
    let (word, rest) = directive_word(text);
    match word {
        b"pragma" | b"ident" => return Ok(Directive::Kept),
        b"define" | b"undef" => return Ok(Directive::Definition),
        _ => {}
    }
    let line = std::str::from_utf8(word).ok().and_then(|w| w.parse().ok());
    let line: u32 = line.ok_or_else(raw)?;
    let rest = rest.trim_ascii();
    let mut escaped = false;
    let end = rest.iter().skip(1).position(|c| {
        let closes = *c == b'"' && !escaped;
        escaped = *c == b'\\' && !escaped;
        closes
    });
    let (true, Some(end)) = (rest.starts_with(b"\""), end) else {
        return Err(raw());
    };
    let (file, flags) = rest.split_at(end + 2);
    // The first two tell of entering and leaving files, which do not matter any more.
    let flag = |flag: u8| flags.contains(&flag);
    Ok(Directive::Marker(Place {
        file,
        flags: match (flag(b'3'), flag(b'4')) {
            (true, true) => " 3 4",
            (true, false) => " 3",
            _ => "",
        },
        line: line.into(),
    }))
}

/// Where declarations start and which braces are those of their bodies, as numbers of tokens.
#[derive(Default)]
struct Cuts {
    starts: BTreeSet<usize>,
    braces: BTreeSet<usize>,
}

impl Cuts {
    fn of(o: &Outline<'_>) -> Cuts {
        let mut cuts = Cuts::default();
        for item in &o.items {
            let (range, brace) = match item {
                Top::Function(block) => (block.head.start..block.end + 1, Some(block.open)),
                Top::Block(block) => (block.head.start..block.end + 1, Some(block.open)),
                Top::Declaration(range) => (range.clone(), first_brace(o, range.clone())),
                Top::Linkage(range) | Top::Scope(range) => (range.clone(), None),
                Top::Empty(i) | Top::Closing(i) => (*i..*i + 1, None),
                Top::Directive(_) => continue,
            };
            // A line of the preprocessor may stand in front of the first word.
            let first = range.clone().find(|i| o.kind(*i) != Some(Kind::Directive));
            cuts.starts.extend(first);
            cuts.braces.extend(brace.filter(|b| Some(*b) != first));
        }
        cuts
    }

    /// The last token of the declaration that starts at `first`.
    fn last(&self, o: &Outline<'_>, first: usize) -> usize {
        let next = self.starts.range(first + 1..).next();
        let mut last = next.copied().unwrap_or(o.tokens.len()) - 1;
        while last > first && o.kind(last) == Some(Kind::Directive) {
            last -= 1;
        }
        last
    }
}

/// The first brace in no other bracket.
fn first_brace(o: &Outline<'_>, range: std::ops::Range<usize>) -> Option<usize> {
    let mut depth = 0usize;
    for i in range {
        match o.text(i) {
            b"(" | b"[" => depth += 1,
            b")" | b"]" => depth = depth.saturating_sub(1),
            b"{" if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

/// A place as markers tell it. The file is quoted as it is there.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place<'s> {
    file: &'s [u8],
    flags: &'static str,
    line: i64,
}

impl Place<'_> {
    fn on(&self, line: i64) -> Self {
        Place {
            line,
            ..self.clone()
        }
    }
}

/// Follows newlines.
struct Reader<'s> {
    source: &'s [u8],
    at: usize,
    here: Place<'s>,
}

impl<'s> Reader<'s> {
    /// Goes to the start of `token`; gives what stands before it.
    fn advance(&mut self, token: &Token) -> &'s [u8] {
        let between = &self.source[self.at..token.start];
        self.here.line += newlines(between);
        self.at = token.end;
        between
    }

    /// Goes to the end of a token that may hold newlines.
    fn within(&mut self, text: &[u8]) {
        self.here.line += newlines(text);
    }
}

fn newlines(text: &[u8]) -> i64 {
    text.iter().filter(|c| **c == b'\n').count() as i64
}

/// The declaration being read.
#[derive(Default)]
struct Declaration<'s> {
    first: usize,
    last: usize,
    file: &'s [u8],
    /// Its first line.
    start: i64,
    /// This line of the file ...
    from: i64,
    /// ... is told as this one.
    to: i64,
    /// A `#line` in it leads to before its start: what follows has lines that somebody gave it.
    elsewhere: bool,
}

impl Declaration<'_> {
    fn notice(&mut self, place: &Place<'_>) {
        self.elsewhere |= place.file == self.file && place.line < self.start;
    }

    fn relative<'s>(&self, place: &Place<'s>) -> Place<'s> {
        match place.file == self.file && !self.elsewhere {
            true => place.on((place.line - self.from + self.to).max(1)),
            false => place.clone(),
        }
    }
}

struct Writer<'s> {
    out: Vec<u8>,
    /// What a reader of `out` takes its end for; not known at its start.
    at: Option<Place<'s>>,
    line_start: bool,
}

/// How the writer came to the place of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// It was there.
    Not,
    /// By a marker, on the same line.
    Beside,
    /// It is another line.
    Line,
}

impl<'s> Writer<'s> {
    /// Goes to `place`; `anew` by a marker in any case.
    fn line(&mut self, place: &Place<'s>, anew: bool) -> Moved {
        let near = |at: &Place<'s>| {
            let down = place.line - at.line;
            at.file == place.file && at.flags == place.flags && (0..=BLANK_LINES).contains(&down)
        };
        let same = |at: &Place<'s>| at.file == place.file && at.line == place.line;
        let moved = match &self.at {
            Some(at) if same(at) && !self.line_start => Moved::Beside,
            _ => Moved::Line,
        };
        match &self.at {
            Some(at) if near(at) && !anew => {
                let down = place.line - at.line;
                for _ in 0..down {
                    self.out.push(b'\n');
                }
                self.line_start |= down > 0;
                self.at = Some(place.clone());
                match moved {
                    Moved::Beside => Moved::Not,
                    other => other,
                }
            }
            _ => {
                self.newline();
                self.marker(place);
                moved
            }
        }
    }

    fn marker(&mut self, place: &Place<'s>) {
        self.out
            .extend_from_slice(format!("# {} ", place.line).as_bytes());
        self.out.extend_from_slice(place.file);
        self.out.extend_from_slice(place.flags.as_bytes());
        self.out.push(b'\n');
        self.at = Some(place.clone());
    }

    /// The white space before a token that was not started anew.
    fn space(&mut self, between: &[u8], moved: Moved) {
        let last = between.iter().rposition(|c| *c == b'\n');
        match moved {
            Moved::Line => {
                let indent = &between[last.map_or(0, |at| at + 1)..];
                self.out.extend_from_slice(indent);
            }
            // How far a line of the output is moved to the right says where it stood in the source.
            Moved::Beside => {}
            Moved::Not if last.is_some() => self.out.push(b' '),
            Moved::Not => self.out.extend_from_slice(between),
        }
    }

    fn token(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
        self.line_start = false;
        if let Some(at) = &mut self.at {
            at.line += newlines(text);
        }
    }

    /// Ends a line that was begun.
    fn newline(&mut self) {
        if !self.line_start {
            self.out.push(b'\n');
            self.line_start = true;
            if let Some(at) = &mut self.at {
                at.line += 1;
            }
        }
    }
}

/// The line of `source` that is told as `line` where `definition` is compiled without places;
/// nothing if the definition has no such line.
pub fn source_line(source: &[u8], definition: &Definition, line: u32) -> Option<u32> {
    let lines = Lines::of(source);
    let first = lines.line(definition.definition.start);
    let brace = lines.line(definition.body.start);
    let last = lines.line(definition.definition.end.saturating_sub(1));
    let (from, to, range) = match line >= HEADS_END {
        true => (brace, BODY, first..=last),
        false => (first, 1, first..=brace),
    };
    let found = (from as u64 + u64::from(line)).checked_sub(to.into())?;
    let found = usize::try_from(found).ok()?;
    range
        .contains(&found)
        .then(|| u32::try_from(found).ok())
        .flatten()
}
