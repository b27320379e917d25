//! A language of C's family as a sequence of tokens over bytes. It never fails, never decodes and never looks at what a
//! token means: it is what must be right about a file before any grammar is asked (comments,
//! strings, directives, braces), and it is right for files no grammar can parse.

use bstr::ByteSlice;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Identifier or keyword.
    Word,
    /// Preprocessing number.
    Number,
    /// String or character literal; an unterminated one ends with its line.
    Literal,
    /// Operator or bracket, longest match.
    Punct,
    /// `// ...` or `/* ... */`.
    Comment,
    /// A preprocessor line, `#` to the last byte before its newline, continued lines included.
    Directive,
}

/// A token: its kind and its place in the source, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Token {
    /// The token's bytes.
    pub(super) fn text<'s>(&self, source: &'s [u8]) -> &'s [u8] {
        source.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether this is the punctuator or word `text`.
    pub(super) fn is(&self, source: &[u8], text: &str) -> bool {
        matches!(self.kind, Kind::Punct | Kind::Word) && self.text(source) == text.as_bytes()
    }
}

/// The tokens of a text.
pub(super) struct Lexed {
    /// Every token, comments included, in order and disjoint.
    pub(super) tokens: Vec<Token>,
    /// A block comment runs to the end of the text.
    pub(super) open_comment: bool,
}

/// Where the tokens of C's relatives differ from those of C.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Dialect {
    /// `R"x( ... )x"` is one literal, whatever quotes and braces are in it.
    pub(super) raw_strings: bool,
    /// `1'000` is one number.
    pub(super) digit_quotes: bool,
    /// `::`, `.*`, `->*` and `<=>` are one token each.
    pub(super) scope_operator: bool,
}

/// Splits `source` into tokens; white space and line splices are between them.
pub(super) fn lex(dialect: Dialect, source: &[u8]) -> Lexed {
    let mut lexer = Lexer {
        dialect,
        source,
        at: 0,
        line_start: true,
        open_comment: false,
    };
    let mut tokens = Vec::with_capacity(source.len() / 5);
    while let Some(token) = lexer.next_token() {
        tokens.push(token);
    }
    Lexed {
        tokens,
        open_comment: lexer.open_comment,
    }
}

struct Lexer<'s> {
    dialect: Dialect,
    source: &'s [u8],
    at: usize,
    line_start: bool,
    open_comment: bool,
}

impl Lexer<'_> {
    fn next_token(&mut self) -> Option<Token> {
        self.skip_space();
        let start = self.at;
        let first = *self.source.get(start)?;
        let kind = match first {
            b'/' if self.peek(1) == Some(b'*') => {
                self.at = self.block_comment_end(start);
                Kind::Comment
            }
            b'/' if self.peek(1) == Some(b'/') => {
                self.at = self.line_end(start);
                Kind::Comment
            }
            b'#' if self.line_start => {
                self.directive();
                Kind::Directive
            }
            b'"' | b'\'' => {
                self.at = self.literal_end(start);
                Kind::Literal
            }
            c if is_word(c) && !c.is_ascii_digit() => {
                self.at = self.run(start, is_word);
                match self.raw_string_end(start) {
                    Some(end) => {
                        self.at = end;
                        Kind::Literal
                    }
                    None => Kind::Word,
                }
            }
            c if c.is_ascii_digit()
                || (c == b'.' && self.peek(1).is_some_and(|d| d.is_ascii_digit())) =>
            {
                self.at = self.number_end(start);
                Kind::Number
            }
            _ => {
                self.at += punct_len(self.dialect, &self.source[start..]);
                Kind::Punct
            }
        };
        // A comment before `#` does not hide the directive.
        self.line_start = self.line_start && kind == Kind::Comment;
        Some(Token {
            kind,
            start,
            end: self.at,
        })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                b'\n' => self.line_start = true,
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                b'\\' if splice_len(&self.source[self.at..]) > 0 => {
                    self.at += splice_len(&self.source[self.at..]) - 1;
                }
                _ => return,
            }
            self.at += 1;
        }
    }

    fn run(&self, from: usize, keep: impl Fn(u8) -> bool) -> usize {
        let rest = &self.source[from..];
        from + rest.iter().position(|c| !keep(*c)).unwrap_or(rest.len())
    }

    fn number_end(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(c) = self.source.get(at) {
            let exponent_sign = matches!(c, b'+' | b'-')
                && matches!(self.source[at - 1], b'e' | b'E' | b'p' | b'P')
                && at > from;
            let digit_quote = self.dialect.digit_quotes
                && *c == b'\''
                && self.source.get(at + 1).is_some_and(|n| is_word(*n));
            if !(is_word(*c) || *c == b'.' || exponent_sign || digit_quote) {
                break;
            }
            at += 1;
        }
        at
    }

    /// End of the raw string whose prefix is the word from `from` to here, if it is one; one that
    /// is never closed ends with the text.
    fn raw_string_end(&self, from: usize) -> Option<usize> {
        // No longer delimiter is allowed.
        const LONGEST: usize = 16;
        let prefix = self.source.get(from..self.at)?;
        let raw = matches!(prefix, b"R" | b"LR" | b"uR" | b"UR" | b"u8R");
        if !(self.dialect.raw_strings && raw && self.peek(0) == Some(b'"')) {
            return None;
        }
        let rest = &self.source[self.at + 1..];
        let open = rest.iter().take(LONGEST + 1).position(|c| *c == b'(')?;
        let odd = |c: &u8| c.is_ascii_whitespace() || matches!(c, b'\\' | b')' | b'"');
        if rest[..open].iter().any(odd) {
            return None;
        }
        let close = [b")", &rest[..open], b"\""].concat();
        let inside = &rest[open + 1..];
        let end = inside.windows(close.len()).position(|w| w == close);
        Some(self.at + 1 + open + 1 + end.map_or(inside.len(), |n| n + close.len()))
    }

    /// End of the block comment that starts at `from`.
    fn block_comment_end(&mut self, from: usize) -> usize {
        let rest = &self.source[(from + 2).min(self.source.len())..];
        match rest.windows(2).position(|w| w == b"*/") {
            Some(n) => from + 2 + n + 2,
            None => {
                self.open_comment = true;
                self.source.len()
            }
        }
    }

    /// End of the logical line `from` is on: before its newline (and the carriage return).
    fn line_end(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(c) = self.source.get(at) {
            match c {
                b'\\' => at += splice_len(&self.source[at..]).max(1),
                b'\n' => return at - usize::from(at > from && self.source[at - 1] == b'\r'),
                _ => at += 1,
            }
        }
        self.source.len()
    }

    /// End of the literal that starts at `from`: after its quote, or before the line's end.
    fn literal_end(&self, from: usize) -> usize {
        let quote = self.source[from];
        let mut at = from + 1;
        while let Some(c) = self.source.get(at) {
            match *c {
                b'\\' => at += splice_len(&self.source[at..]).max(2),
                b'\n' => return at,
                c if c == quote => return at + 1,
                _ => at += 1,
            }
        }
        self.source.len()
    }

    /// Moves over a directive. Block comments in it may hold newlines; quotes matter only where
    /// they close on their line (`#error don't`).
    fn directive(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                b'\n' => {
                    let cr = self.at > 0 && self.source[self.at - 1] == b'\r';
                    self.at -= usize::from(cr);
                    return;
                }
                b'\\' => self.at += splice_len(&self.source[self.at..]).max(1),
                b'/' if self.peek(1) == Some(b'*') => self.at = self.block_comment_end(self.at),
                b'/' if self.peek(1) == Some(b'/') => {
                    self.at = self.line_end(self.at);
                    return;
                }
                b'"' | b'\'' => {
                    let end = self.literal_end(self.at);
                    let closed = end > self.at + 1 && self.source[end - 1] == c;
                    self.at = if closed { end } else { self.at + 1 };
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.source.len());
    }
}

/// Length of a backslash-newline at the start of `rest`, or 0.
fn splice_len(rest: &[u8]) -> usize {
    match rest {
        [b'\\', b'\n', ..] => 2,
        [b'\\', b'\r', b'\n', ..] => 3,
        _ => 0,
    }
}

/// Bytes above ASCII count as letters: identifiers may hold them and nothing else in C does.
fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || c >= 0x80
}

fn punct_len(dialect: Dialect, rest: &[u8]) -> usize {
    if dialect.scope_operator {
        match rest {
            [b'-', b'>', b'*', ..] | [b'<', b'=', b'>', ..] => return 3,
            [b':', b':', ..] | [b'.', b'*', ..] => return 2,
            _ => {}
        }
    }
    match rest {
        [b'.', b'.', b'.', ..] | [b'<', b'<', b'=', ..] | [b'>', b'>', b'=', ..] => 3,
        [
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'<' | b'>' | b'=' | b'!',
            b'=',
            ..,
        ]
        | [b'-' | b'>', b'>', ..]
        | [b'+', b'+', ..]
        | [b'-', b'-', ..]
        | [b'<', b'<', ..]
        | [b'&', b'&', ..]
        | [b'|', b'|', ..]
        | [b'#', b'#', ..] => 2,
        _ => 1,
    }
}

/// What a directive does to the nesting of conditionals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Conditional {
    /// `#if`, `#ifdef`, `#ifndef`; `never` for the literal `#if 0`.
    Open { never: bool },
    /// `#else`, `#elif` and the like.
    Next,
    /// `#endif`.
    Close,
}

/// The role of a directive among conditionals, if it has one.
pub(super) fn conditional(directive: &[u8]) -> Option<Conditional> {
    let (word, rest) = directive_word(directive);
    Some(match word {
        b"if" => Conditional::Open {
            never: rest.trim_ascii() == b"0",
        },
        b"ifdef" | b"ifndef" => Conditional::Open { never: false },
        b"else" | b"elif" | b"elifdef" | b"elifndef" => Conditional::Next,
        b"endif" => Conditional::Close,
        _ => return None,
    })
}

/// The word after `#` (empty for `#` alone, digits for a line marker) and what follows it.
pub(super) fn directive_word(directive: &[u8]) -> (&[u8], &[u8]) {
    let mut rest = directive.strip_prefix(b"#").unwrap_or(directive);
    loop {
        rest = rest.trim_ascii_start();
        if !rest.starts_with(b"/*") {
            break;
        }
        match rest.windows(2).skip(2).position(|w| w == b"*/") {
            Some(n) => rest = &rest[n + 4..],
            None => return (b"", b""),
        }
    }
    let end = rest.iter().position(|c| !is_word(*c)).unwrap_or(rest.len());
    rest.split_at(end)
}

/// Starts of lines, for byte to line number.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(source: &[u8]) -> Self {
        let mut starts = vec![0];
        starts.extend(source.find_iter("\n").map(|at| at + 1));
        Lines(starts)
    }

    /// The 1-based line that byte `at` is on.
    pub(super) fn line(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }

    /// The first byte of the line that byte `at` is on.
    pub(super) fn start_of(&self, at: usize) -> usize {
        self.0[self.line(at) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &[u8]) -> Vec<(Kind, String)> {
        lexed(Dialect::default(), source)
    }

    fn lexed(dialect: Dialect, source: &[u8]) -> Vec<(Kind, String)> {
        lex(dialect, source)
            .tokens
            .iter()
            .map(|t| (t.kind, String::from_utf8_lossy(t.text(source)).into_owned()))
            .collect()
    }

    #[test]
    fn comments_strings_and_directives_hide_braces() {
        let source = b"/* { */ \"{\" '{' // {\r\n #define X { \\\r\n } /* \n } */ y\n'}\nz";
        assert_eq!(
            texts(source),
            [
                (Kind::Comment, "/* { */".into()),
                (Kind::Literal, "\"{\"".into()),
                (Kind::Literal, "'{'".into()),
                (Kind::Comment, "// {".into()),
                (Kind::Directive, "#define X { \\\r\n } /* \n } */ y".into()),
                (Kind::Literal, "'}".into()),
                (Kind::Word, "z".into()),
            ]
        );
    }

    #[test]
    fn an_apostrophe_in_a_message_does_not_swallow_a_comment() {
        let source = b"#error don't /* a\nb */\nx";
        assert_eq!(texts(source)[1], (Kind::Word, "x".into()));
    }

    #[test]
    fn raw_strings_and_digit_quotes_are_those_of_the_dialect() {
        let source = b"R\"x({ )\" \" }\n)x\" 1'000'000 A::b R\"(\n";
        let dialect = Dialect {
            raw_strings: true,
            digit_quotes: true,
            scope_operator: true,
        };
        assert_eq!(
            lexed(dialect, source),
            [
                (Kind::Literal, "R\"x({ )\" \" }\n)x\"".into()),
                (Kind::Number, "1'000'000".into()),
                (Kind::Word, "A".into()),
                (Kind::Punct, "::".into()),
                (Kind::Word, "b".into()),
                (Kind::Literal, "R\"(\n".into()),
            ]
        );
        assert_eq!(texts(b"R\"(\" x")[0], (Kind::Word, "R".into()));
        assert_eq!(texts(b"1'0' x")[1], (Kind::Literal, "'0'".into()));
    }

    #[test]
    fn conditionals_are_recognised() {
        assert_eq!(
            conditional(b"# /* c */ if 0 "),
            Some(Conditional::Open { never: true })
        );
        assert_eq!(conditional(b"#elif X"), Some(Conditional::Next));
        assert_eq!(conditional(b"#endif /* X */"), Some(Conditional::Close));
        assert_eq!(conditional(b"# 12 \"if\""), None);
    }
}
