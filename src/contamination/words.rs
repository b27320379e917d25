//! A file as a row of tokens: words, numbers and signs of code, and the words of comments, strings
//! and prose. Nothing is parsed: it works on any bytes, in time linear in their number, and knows of
//! a language only what separates code from comments and strings.

use std::ops::Range;

use crate::lang::SnippetLanguage;
use crate::stats::mix;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A name in code.
    Identifier,
    /// A word of the language, as far as it is long enough to be taken for a target.
    Keyword,
    /// A number in code.
    Number,
    /// A single character of code that is in no word.
    Sign,
    /// A word in a string.
    Quoted,
    /// A word of a comment, a documentation string or prose.
    Text,
    /// A single other character of those.
    Mark,
}

/// A token: its kind and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Where it starts.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    /// What it is.
    pub kind: Kind,
}

impl Token {
    /// Its bytes of the file.
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether it is part of a comment or of prose.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Mark)
    }
}

/// How a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// As code of a language.
    Code(SnippetLanguage),
    /// As prose.
    Prose,
}

impl Reading {
    /// Whether it is read as code.
    pub fn is_code(self) -> bool {
        matches!(self, Reading::Code(_))
    }
}

/// What is known of a language.
struct Syntax {
    names: &'static [&'static str],
    line_comment: &'static [u8],
    /// `/* */`, and whether they nest.
    block_comments: Option<bool>,
    /// `"""` and `'''`, which are documentation as a rule.
    triple_quotes: bool,
    /// `'` also begins a lifetime.
    lifetimes: bool,
    /// A back tick begins a string.
    back_ticks: bool,
    /// Words of the language of six letters and more.
    keywords: &'static [&'static str],
}

static SYNTAXES: [Syntax; 5] = [
    Syntax {
        names: &["c", "c++"],
        line_comment: b"//",
        block_comments: Some(false),
        triple_quotes: false,
        lifetimes: false,
        back_ticks: false,
        keywords: &[
            "continue",
            "decltype",
            "default",
            "define",
            "defined",
            "delete",
            "double",
            "explicit",
            "export",
            "extern",
            "friend",
            "ifndef",
            "include",
            "inline",
            "mutable",
            "namespace",
            "nullptr",
            "operator",
            "pragma",
            "private",
            "protected",
            "public",
            "register",
            "restrict",
            "return",
            "signed",
            "sizeof",
            "static",
            "static_assert",
            "static_cast",
            "struct",
            "switch",
            "template",
            "typedef",
            "typename",
            "unsigned",
            "virtual",
            "volatile",
        ],
    },
    Syntax {
        names: &["java"],
        line_comment: b"//",
        block_comments: Some(false),
        triple_quotes: false,
        lifetimes: false,
        back_ticks: false,
        keywords: &[
            "abstract",
            "assert",
            "boolean",
            "continue",
            "default",
            "double",
            "extends",
            "finally",
            "implements",
            "import",
            "instanceof",
            "interface",
            "native",
            "package",
            "private",
            "protected",
            "public",
            "return",
            "static",
            "switch",
            "synchronized",
            "throws",
            "transient",
            "volatile",
        ],
    },
    Syntax {
        names: &["go"],
        line_comment: b"//",
        block_comments: Some(false),
        triple_quotes: false,
        lifetimes: false,
        back_ticks: true,
        keywords: &[
            "continue",
            "default",
            "fallthrough",
            "import",
            "interface",
            "package",
            "return",
            "select",
            "struct",
            "switch",
        ],
    },
    Syntax {
        names: &["python"],
        line_comment: b"#",
        block_comments: None,
        triple_quotes: true,
        lifetimes: false,
        back_ticks: false,
        keywords: &[
            "assert", "continue", "except", "finally", "global", "import", "lambda", "nonlocal",
            "return",
        ],
    },
    Syntax {
        names: &["rust"],
        line_comment: b"//",
        block_comments: Some(true),
        triple_quotes: false,
        lifetimes: true,
        back_ticks: false,
        keywords: &["continue", "extern", "return", "static", "struct", "unsafe"],
    },
];

impl Syntax {
    fn of(language: SnippetLanguage) -> &'static Syntax {
        let name = language.name();
        let mut all = SYNTAXES.iter();
        all.find(|s| s.names.contains(&name))
            .unwrap_or(&SYNTAXES[0])
    }
}

/// The tokens of a file.
pub fn tokens(reading: Reading, source: &[u8]) -> Vec<Token> {
    let mut lexer = Lexer {
        source,
        out: Vec::with_capacity(source.len() / 4),
    };
    match reading {
        Reading::Code(language) => lexer.code(Syntax::of(language)),
        Reading::Prose => lexer.words(0..source.len(), Kind::Text, Kind::Mark, false),
    }
    lexer.out
}

/// The hash of a token: equal tokens are equal, whatever their kind.
pub fn hash(token: &[u8]) -> u64 {
    mix::keyed(0, 0, token)
}

struct Lexer<'s> {
    source: &'s [u8],
    out: Vec<Token>,
}

impl Lexer<'_> {
    fn code(&mut self, syntax: &Syntax) {
        let source = self.source;
        let mut at = 0;
        while let Some(&c) = source.get(at) {
            let rest = &source[at..];
            if c.is_ascii_whitespace() {
                at += 1;
            } else if rest.starts_with(syntax.line_comment) {
                let end = line_end(source, at);
                self.words(at..end, Kind::Text, Kind::Mark, true);
                at = end;
            } else if syntax.block_comments.is_some() && rest.starts_with(b"/*") {
                let end = block_end(source, at, syntax.block_comments == Some(true));
                self.words(at..end, Kind::Text, Kind::Mark, true);
                at = end;
            } else if is_word(c) && !c.is_ascii_digit() {
                let end = run(source, at, is_word);
                if let Some((from, to, close)) = raw_string(syntax, source, at, end) {
                    self.push(at, end, Kind::Identifier);
                    self.words(from..to, Kind::Quoted, Kind::Sign, false);
                    at = close;
                    continue;
                }
                let keyword = end - at >= 6
                    && std::str::from_utf8(&source[at..end])
                        .is_ok_and(|w| syntax.keywords.contains(&w));
                let kind = if keyword {
                    Kind::Keyword
                } else {
                    Kind::Identifier
                };
                self.push(at, end, kind);
                at = end;
            } else if c.is_ascii_digit() {
                let end = run(source, at, |c| is_word(c) || c == b'.');
                self.push(at, end, Kind::Number);
                at = end;
            } else if c == b'"' || c == b'\'' || c == b'`' && syntax.back_ticks {
                at = self.string(syntax, at);
            } else {
                self.push(at, at + 1, Kind::Sign);
                at += 1;
            }
        }
    }

    /// A string or character from its quote on; where it ends.
    fn string(&mut self, syntax: &Syntax, at: usize) -> usize {
        let source = self.source;
        let quote = source[at];
        if syntax.triple_quotes && source[at..].starts_with(&[quote; 3]) {
            let inside = at + 3;
            let found = source[inside..].windows(3).position(|w| w == [quote; 3]);
            let end = found.map_or(source.len(), |n| inside + n);
            self.words(inside..end, Kind::Text, Kind::Mark, false);
            return (end + 3).min(source.len());
        }
        if syntax.lifetimes && quote == b'\'' {
            let end = run(source, at + 1, is_word);
            // `'a'` is a character and `'a` a lifetime.
            if end > at + 1 && source.get(end) != Some(&b'\'') {
                self.push(at, at + 1, Kind::Sign);
                return at + 1;
            }
        }
        let mut end = at + 1;
        while let Some(&c) = source.get(end) {
            match c {
                b'\\' if quote != b'`' => end += 2,
                // A string of Rust may have line ends; elsewhere one that is never closed ends with
                // its line, or all that follows would be taken for it.
                b'\n' if !(quote == b'`' || syntax.lifetimes && quote == b'"') => break,
                c if c == quote => break,
                _ => end += 1,
            }
        }
        let end = end.min(source.len());
        self.push(at, at + 1, Kind::Sign);
        self.words(at + 1..end, Kind::Quoted, Kind::Sign, false);
        if source.get(end) == Some(&quote) {
            self.push(end, end + 1, Kind::Sign);
            return end + 1;
        }
        end.max(at + 1)
    }

    /// The words and other characters of a stretch of text; the signs by which a comment begins, and
    /// goes on in the next line, are left out if it is one.
    fn words(&mut self, range: Range<usize>, word: Kind, other: Kind, comment: bool) {
        let source = &self.source[..range.end];
        let mut at = range.start;
        let mut line_start = true;
        while let Some(&c) = source.get(at) {
            if c == b'\n' {
                line_start = true;
                at += 1;
            } else if c.is_ascii_whitespace() {
                at += 1;
            } else if is_word(c) {
                let end = run(source, at, is_word);
                self.push(at, end, word);
                line_start = false;
                at = end;
            } else if comment && line_start && matches!(c, b'/' | b'*' | b'#' | b'!') {
                at += 1;
            } else if comment && source[at..] == *b"*/" || c == b'\\' && word == Kind::Quoted {
                // The end of the comment, or something escaped.
                at += 2;
            } else {
                // Rulers count as one.
                let end = run(source, at, |d| d == c);
                let end = if end - at >= 3 { end } else { at + 1 };
                self.push(at, end, other);
                line_start = false;
                at = end;
            }
        }
    }

    fn push(&mut self, start: usize, end: usize, kind: Kind) {
        // Files of more than 4 GiB are refused long before.
        let [start, end] = [start, end].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        self.out.push(Token { start, end, kind });
    }
}

/// Bytes above ASCII are letters of words.
fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80
}

fn run(source: &[u8], from: usize, keep: impl Fn(u8) -> bool) -> usize {
    let rest = &source[from.min(source.len())..];
    from + rest.iter().position(|c| !keep(*c)).unwrap_or(rest.len())
}

fn line_end(source: &[u8], from: usize) -> usize {
    run(source, from, |c| c != b'\n')
}

fn block_end(source: &[u8], from: usize, nested: bool) -> usize {
    let mut depth = 1;
    let mut at = from + 2;
    while at < source.len() {
        if source[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else if nested && source[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    source.len()
}

/// If the word from `at` to `end` begins a raw string: where its text starts and ends, and where the
/// string ends.
fn raw_string(
    syntax: &Syntax,
    source: &[u8],
    at: usize,
    end: usize,
) -> Option<(usize, usize, usize)> {
    let word = &source[at..end];
    let (from, close) = if syntax.lifetimes && matches!(word, b"r" | b"br" | b"cr") {
        let quote = run(source, end, |c| c == b'#');
        (source.get(quote) == Some(&b'"')).then_some(())?;
        let close = [b"\"", &source[end..quote]].concat();
        (quote + 1, close)
    } else if syntax.names.contains(&"c++") && matches!(word, b"R" | b"LR" | b"uR" | b"UR" | b"u8R")
    {
        (source.get(end) == Some(&b'"')).then_some(())?;
        let open = run(source, end + 1, |c| c != b'(' && c != b'\n' && c != b'"');
        (source.get(open) == Some(&b'(') && open - end <= 17).then_some(())?;
        let close = [b")", &source[end + 1..open], b"\""].concat();
        (open + 1, close)
    } else {
        return None;
    };
    let found = source[from..].windows(close.len()).position(|w| w == close);
    let to = found.map_or(source.len(), |n| from + n);
    Some((from, to, (to + close.len()).min(source.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(language: &str, source: &str) -> String {
        let language = SnippetLanguage::named(language).expect("it is in the table");
        let mark = |t: &Token| {
            let text = &source[t.range()];
            match t.kind {
                Kind::Identifier => format!("i:{text}"),
                Kind::Keyword => format!("k:{text}"),
                Kind::Number => format!("n:{text}"),
                Kind::Sign => text.to_string(),
                Kind::Quoted => format!("q:{text}"),
                Kind::Text => format!("t:{text}"),
                Kind::Mark => format!("m:{text}"),
            }
        };
        let all = tokens(Reading::Code(language), source.as_bytes());
        all.iter().map(mark).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn code_comments_and_strings_are_told_apart_in_every_language() {
        let cases = [
            (
                "c",
                "int a_1 = 0x1f; // ends here\n/* two\n * lines. */ return \"a\\n b\" 'x';",
                "i:int i:a_1 = n:0x1f ; t:ends t:here t:two t:lines m:. k:return \" q:a q:b \" ' q:x ' ;",
            ),
            (
                "c++",
                "auto s = R\"x(// no)x\"; a::b",
                "i:auto i:s = i:R / / q:no ; i:a : : i:b",
            ),
            (
                "python",
                "def f(s):\n    \"\"\"Says it.\"\"\"\n    return 'it''s' # so\n",
                "i:def i:f ( i:s ) : t:Says t:it m:. k:return ' q:it ' ' q:s ' t:so",
            ),
            (
                "rust",
                "/// Doc.\nfn f<'a>(c: char) { c == 'a' /* x /* y */ z */ } r#\"a \" b\"# '\\''",
                "t:Doc m:. i:fn i:f < ' i:a > ( i:c : i:char ) { i:c = = ' q:a ' t:x m:/ m:* t:y m:* m:/ t:z } i:r q:a \" q:b ' '",
            ),
            ("go", "x := `a\nb` // c", "i:x : = ` q:a q:b ` t:c"),
            ("java", "int x; /** d */", "i:int i:x ; t:d"),
        ];
        for (language, source, expected) in cases {
            assert_eq!(read(language, source), expected, "{language}");
        }
    }

    #[test]
    fn a_string_that_is_never_closed_ends_with_its_line() {
        assert_eq!(read("c", "\"a\nb"), "\" q:a i:b");
        assert_eq!(read("c", "'"), "'");
    }

    proptest! {
        #[test]
        fn any_bytes_give_tokens_in_order(
            source in proptest::collection::vec(
                prop_oneof![
                    proptest::sample::select(b"/*'\"#r(`\\\n a1_!".to_vec()),
                    any::<u8>(),
                ],
                0..80,
            )
        ) {
            for language in SnippetLanguage::all() {
                let mut at = 0;
                for token in tokens(Reading::Code(language), &source) {
                    let range = token.range();
                    prop_assert!(at <= range.start && range.start < range.end);
                    prop_assert!(range.end <= source.len());
                    at = range.end;
                }
            }
        }
    }
}
