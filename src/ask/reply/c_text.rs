//! As much of C and its relatives as is needed to find code in a reply: comments, literals, directives, brackets,
//! and which names are defined as functions at the top level. It reads anything, also half of a
//! function or prose, and is no judge of C: the language's own parser looks at the result again.
//! Every pass is linear in the text.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::lang::LanguageId;

/// Follows a text line by line to tell whether a block comment is open.
#[derive(Default)]
pub(super) struct CommentState {
    open: bool,
}

impl CommentState {
    pub(super) fn in_block_comment(&self) -> bool {
        self.open
    }

    /// Takes the next line, without its line end.
    pub(super) fn feed(&mut self, line: &str) {
        let bytes = line.as_bytes();
        let mut i = 0;
        let mut quote = 0u8;
        while i < bytes.len() {
            let two = &bytes[i..(i + 2).min(bytes.len())];
            match (self.open, quote) {
                (true, _) if two == b"*/" => {
                    self.open = false;
                    i += 1;
                }
                (true, _) => {}
                (false, 0) if two == b"/*" => {
                    self.open = true;
                    i += 1;
                }
                (false, 0) if two == b"//" => return,
                (false, 0) if bytes[i] == b'"' || bytes[i] == b'\'' => quote = bytes[i],
                (false, q) if q != 0 && bytes[i] == b'\\' => i += 1,
                (false, q) if q != 0 && bytes[i] == q => quote = 0,
                _ => {}
            }
            i += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Word(&'a str),
    Mark(u8),
}

/// One function definition at the top level.
struct Definition<'a> {
    /// Words that may be its name: those before `(`, and the first one inside; `operator` for one.
    names: Vec<&'a str>,
    /// From its first word to its last brace.
    range: Range<usize>,
}

/// A text read as C.
pub(super) struct CText<'a> {
    definitions: Vec<Definition<'a>>,
    /// A definition that the text does not finish.
    unfinished: Option<Vec<&'a str>>,
    balanced: bool,
    /// Names are paths, and places may stand around functions.
    paths: bool,
}

/// What a head shows of a name: its last part, `operator` for any operator, the class's name for a
/// destructor.
fn own_name(name: &str) -> &str {
    if name.starts_with("operator") || name.contains("::operator") {
        return "operator";
    }
    let own = name.rsplit("::").next().unwrap_or(name);
    own.trim_start_matches('~')
}

/// Behind `template <...>` at the start of a head.
fn behind_arguments(head: &[(Token<'_>, Range<usize>)]) -> usize {
    let mut depth = 0usize;
    for (i, (token, _)) in head.iter().enumerate().skip(1) {
        match token {
            Token::Mark(b'<') => depth += 1,
            Token::Mark(b'>') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    head.len()
}

impl<'a> CText<'a> {
    pub(super) fn of(text: &'a str, language: LanguageId) -> Self {
        let (tokens, comment_open) = tokens(text, language);
        let mut c = CText {
            definitions: Vec::new(),
            unfinished: None,
            balanced: !comment_open,
            paths: language != LanguageId::C,
        };
        c.read(&tokens);
        c
    }

    /// Whether `name` is defined here, be the definition finished or not.
    pub(super) fn defines(&self, name: &str) -> bool {
        let name = if self.paths { own_name(name) } else { name };
        let named = |names: &[&str]| names.contains(&name);
        self.definitions.iter().any(|d| named(&d.names))
            || self.unfinished.as_deref().is_some_and(named)
    }

    /// Whether all brackets and comments are closed.
    pub(super) fn is_whole(&self) -> bool {
        self.balanced
    }

    /// Whether any function is defined in full.
    pub(super) fn has_functions(&self) -> bool {
        !self.definitions.is_empty()
    }

    /// Behind the last brace of the last finished definition, unless another one is unfinished.
    pub(super) fn end_of_last_definition(&self) -> Option<usize> {
        match (&self.unfinished, self.definitions.last()) {
            (None, Some(last)) => Some(last.range.end),
            _ => None,
        }
    }

    fn read(&mut self, tokens: &[(Token<'a>, Range<usize>)]) {
        let mut item = 0; // index of the item's first token
        let mut before = 0; // of the item before, if it ended in `;`
        let mut braces: usize = 0;
        let mut parens: usize = 0;
        let mut body: Option<(usize, Vec<&'a str>)> = None;
        let mut places: usize = 0; // namespaces and classes that are open
        let mut members: usize = 0; // braces of a constructor's initialisers that are open
        let mut head = Head::default();
        for (i, (token, range)) in tokens.iter().enumerate() {
            match token {
                Token::Mark(b'(' | b'[') => parens += 1,
                Token::Mark(b')' | b']') => {
                    if parens == 0 {
                        self.balanced = false;
                    }
                    parens = parens.saturating_sub(1);
                }
                Token::Mark(b'{')
                    if members > 0
                        || self.paths
                            && braces + parens == 0
                            && head.up_to(tokens, item, i).is_of_member(&tokens[item..i]) =>
                {
                    members += 1;
                }
                Token::Mark(b'}') if members > 0 => members -= 1,
                Token::Mark(b'{')
                    if self.paths
                        && braces + parens == 0
                        && head.up_to(tokens, item, i).is_of_place() =>
                {
                    places += 1;
                    (item, before) = (i + 1, i + 1);
                }
                Token::Mark(b'}') if braces == 0 && places > 0 => {
                    places -= 1;
                    (item, before) = (i + 1, i + 1);
                }
                Token::Mark(b'{') => {
                    if braces == 0 && parens == 0 {
                        // Parameter declarations of old: `int f(a) int a; {`
                        let start = if i == item { before } else { item };
                        let names = function_names(&tokens[start..i], self.paths);
                        body = (!names.is_empty()).then_some((start, names));
                    }
                    braces += 1;
                }
                Token::Mark(b'}') => {
                    if braces == 0 {
                        self.balanced = false;
                        continue;
                    }
                    braces -= 1;
                    if braces == 0 {
                        if parens > 0 {
                            self.balanced = false;
                            parens = 0;
                        }
                        if let Some((start, names)) = body.take() {
                            self.definitions.push(Definition {
                                names,
                                range: tokens[start].1.start..range.end,
                            });
                            (item, before) = (i + 1, i + 1);
                        }
                    }
                }
                Token::Mark(b';') if braces == 0 && parens == 0 => {
                    // Only a head can be followed by declarations and then by a body.
                    if !function_names(&tokens[item..i], self.paths).is_empty() {
                        before = item;
                    }
                    item = i + 1;
                }
                _ => {}
            }
        }
        if braces > 0 || parens > 0 || places > 0 || members > 0 {
            self.balanced = false;
            let names = body.map_or_else(
                || function_names(&tokens[item..], self.paths),
                |(_, names)| names,
            );
            self.unfinished = (!names.is_empty()).then_some(names);
        }
    }
}

/// What an item has shown so far, each of its tokens looked at once: a reply may hold thousands of
/// braces in one item.
#[derive(Default)]
struct Head {
    /// The item's first token.
    item: usize,
    /// Behind the last token looked at.
    seen: usize,
    /// `:` alone, as before initialisers.
    colon: bool,
    opened: bool,
    closed: bool,
    /// `namespace`, `class`, `struct` or `union`.
    place: bool,
}

impl Head {
    fn up_to(&mut self, tokens: &[(Token<'_>, Range<usize>)], item: usize, at: usize) -> &Head {
        if self.item != item {
            *self = Head {
                item,
                seen: item,
                ..Head::default()
            };
        }
        let colon = |k: usize| tokens[k].0 == Token::Mark(b':');
        for (k, (token, _)) in tokens.iter().enumerate().take(at).skip(self.seen) {
            match token {
                Token::Mark(b'(') => self.opened = true,
                Token::Mark(b')') => self.closed = true,
                Token::Word("namespace" | "class" | "struct" | "union") => self.place = true,
                _ => {}
            }
            // The token before, now that what stands on both of its sides is known.
            self.colon |= k >= item + 2 && colon(k - 1) && !colon(k - 2) && !colon(k);
        }
        self.seen = self.seen.max(at);
        self
    }

    /// Whether a brace behind it is that of a member in a constructor's initialisers: `: a{1} {`.
    fn is_of_member(&self, head: &[(Token<'_>, Range<usize>)]) -> bool {
        const BEFORE_BODIES: &[&str] =
            &["const", "noexcept", "override", "final", "try", "mutable"];
        let named = match head.last() {
            Some((Token::Word(word), _)) => !BEFORE_BODIES.contains(word),
            Some((Token::Mark(b'>'), _)) => true,
            _ => false,
        };
        self.colon && self.closed && named
    }

    /// Whether a brace behind it opens a namespace or a class.
    fn is_of_place(&self) -> bool {
        self.place && !self.opened
    }
}

/// The words that may be a function's name in what stands before its body; empty if that is no
/// function's head.
fn function_names<'a>(mut head: &[(Token<'a>, Range<usize>)], paths: bool) -> Vec<&'a str> {
    const NOT_HEADS: &[&str] = &[
        "if", "for", "while", "switch", "do", "else", "return", "typedef", "case", "goto", "sizeof",
    ];
    const ATTRIBUTES: &[&str] = &["__attribute__", "__declspec", "__asm__", "asm", "_Alignas"];
    let mut names = Vec::new();
    let mut depth = 0usize;
    while paths && matches!(head.first(), Some((Token::Word("template"), _))) {
        head = &head[behind_arguments(head)..];
    }
    if paths && head.iter().any(|(t, _)| *t == Token::Word("operator")) {
        return vec!["operator"];
    }
    for (i, (token, _)) in head.iter().enumerate() {
        match token {
            Token::Mark(b'=') if depth == 0 => return Vec::new(),
            Token::Mark(b'(') => depth += 1,
            Token::Mark(b')') => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && i == 0 && NOT_HEADS.contains(word) => {
                return Vec::new();
            }
            Token::Word(word) => {
                // `f<int>(` in C++.
                let next = match head.get(i + 1) {
                    Some((Token::Mark(b'<'), _)) if paths => i + behind_arguments(&head[i..]),
                    _ => i + 1,
                };
                let opens = matches!(head.get(next), Some((Token::Mark(b'('), _)));
                let first_inside = depth > 0
                    && names.len() < 2
                    && matches!(
                        head.get(i.wrapping_sub(1)),
                        Some((Token::Mark(b'(' | b'*'), _))
                    );
                if (opens && !ATTRIBUTES.contains(word)) || first_inside {
                    names.push(*word);
                }
            }
            Token::Mark(_) => {}
        }
    }
    names
}

/// Words and marks outside of comments, literals and directives, and whether a comment is open at
/// the end. Of conditional directives the first branch is read, of `#if 0` the second.
fn tokens(text: &str, language: LanguageId) -> (Vec<(Token<'_>, Range<usize>)>, bool) {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut line_start = true;
    // For every open conditional: whether its current branch is left out.
    let mut branches: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let start = i;
        match bytes[i] {
            b'\n' => {
                line_start = true;
                i += 1;
                continue;
            }
            b if b.is_ascii_whitespace() => {
                i += 1;
                continue;
            }
            b'#' if line_start => {
                i = end_of_directive(bytes, i);
                branch(text[start + 1..i].trim_start(), &mut branches);
            }
            b'/' if bytes.get(i + 1) == Some(&b'*') => {
                match text[i + 2..].find("*/") {
                    Some(at) => i += 2 + at + 2,
                    None => return (out, true),
                }
                continue;
            }
            b'/' if bytes.get(i + 1) == Some(&b'/') => {
                i = text[i..].find('\n').map_or(bytes.len(), |at| i + at);
                continue;
            }
            quote @ (b'"' | b'\'') => i = end_of_literal(bytes, i, quote),
            b if b.is_ascii_digit() && language != LanguageId::C => {
                // `1'000` holds no literal.
                let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'\'' | b'.');
                while i < bytes.len() && part(bytes[i]) {
                    i += 1;
                }
            }
            b'R' | b'u' | b'U' | b'L'
                if language != LanguageId::C && end_of_raw(text, i).is_some() =>
            {
                i = end_of_raw(text, i).unwrap_or(i + 1);
            }
            b if b.is_ascii_alphabetic() || b == b'_' => {
                while i < bytes.len() && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_') {
                    i += 1;
                }
                if !branches.contains(&true) {
                    out.push((Token::Word(&text[start..i]), start..i));
                }
            }
            b => {
                i += 1;
                if !branches.contains(&true) {
                    out.push((Token::Mark(b), start..i));
                }
            }
        }
        line_start = false;
    }
    (out, false)
}

fn end_of_directive(bytes: &[u8], mut i: usize) -> usize {
    while i < bytes.len() && bytes[i] != b'\n' {
        let continued = bytes[i] == b'\\'
            && (bytes.get(i + 1) == Some(&b'\n')
                || (bytes.get(i + 1) == Some(&b'\r') && bytes.get(i + 2) == Some(&b'\n')));
        i += match (continued, bytes.get(i + 1)) {
            (true, Some(b'\r')) => 3,
            (true, _) => 2,
            _ => 1,
        };
    }
    i.min(bytes.len())
}

fn branch(directive: &str, branches: &mut Vec<bool>) {
    let mut words = directive.split_whitespace();
    match words.next() {
        Some("if") => branches.push(words.next() == Some("0")),
        Some("ifdef" | "ifndef") => branches.push(false),
        // After `#if 0` the first branch that counts is the next one.
        Some("else" | "elif") => {
            if let Some(left_out) = branches.last_mut() {
                *left_out = !*left_out;
            }
        }
        Some("endif") => {
            branches.pop();
        }
        _ => {}
    }
}

/// Behind the closing quote; an unclosed literal ends with its line.
fn end_of_literal(bytes: &[u8], mut i: usize, quote: u8) -> usize {
    i += 1;
    while i < bytes.len() && bytes[i] != b'\n' {
        match bytes[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    i.min(bytes.len())
}

/// Behind the raw string that starts at `at`; nothing if none does.
fn end_of_raw(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let prefix = ["R\"", "LR\"", "uR\"", "UR\"", "u8R\""];
    let prefix = prefix.iter().find(|p| rest.starts_with(**p))?;
    let (delimiter, inside) = rest[prefix.len()..].split_once('(')?;
    let odd = |c: char| c.is_whitespace() || matches!(c, '\\' | ')' | '"');
    if delimiter.len() > 16 || delimiter.contains(odd) {
        return None;
    }
    let close = format!("){delimiter}\"");
    let start = at + prefix.len() + delimiter.len() + 1;
    let end = inside.find(&close).map(|n| start + n + close.len());
    Some(end.unwrap_or(text.len()))
}

/// What [`in_prose`] found.
pub(super) enum InProse {
    /// A definition in full.
    Whole {
        range: Range<usize>,
        other_name: bool,
    },
    /// The beginning of a definition, up to the end of the text.
    CutOff,
    Nothing,
}

/// Looks for a definition of `name` that begins at the beginning of a line of `text`, which may
/// hold prose before and behind it. Of several, the last in full counts.
pub(super) fn in_prose(text: &str, name: &str, language: LanguageId) -> InProse {
    let own = match language {
        LanguageId::C => name,
        _ => own_name(name),
    };
    // A line that begins like a declaration and gets to a parenthesis.
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^[A-Za-z_][A-Za-z0-9_ \t*]*\(").expect("a pattern of this file compiles")
    });
    // Many lines of one long text can look like heads; a few of them are enough.
    const MOST: usize = 64;
    // In C++ with paths, template arguments and references.
    static CPP_HEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^[A-Za-z_~][A-Za-z0-9_ \t*&:<>,~\[\]=+!-]*\(")
            .expect("a pattern of this file compiles")
    });
    let head = match language {
        LanguageId::C => &HEAD,
        _ => &CPP_HEAD,
    };
    let heads: Vec<Range<usize>> = head.find_iter(text).map(|m| m.range()).collect();
    let mut other = None;
    let mut cut_off = false;
    for head in heads.iter().rev().take(MOST) {
        let line = text[head.start..].lines().next().unwrap_or("");
        let named = contains_word(line, own);
        if !named && !starts_like_code(line) {
            continue;
        }
        let rest = &text[head.start..];
        let end = first_definition(rest, language);
        let c = CText::of(&rest[..end.unwrap_or(rest.len())], language);
        if named && c.defines(name) {
            match end {
                Some(end) => {
                    return InProse::Whole {
                        range: widened(text, head.start..head.start + end, language),
                        other_name: false,
                    };
                }
                None => cut_off = true,
            }
        } else if let Some(end) = end
            && c.has_functions()
            && other.is_none()
        {
            other = Some(head.start..head.start + end);
        }
    }
    match other {
        _ if cut_off => InProse::CutOff,
        Some(range) => InProse::Whole {
            range: widened(text, range, language),
            other_name: true,
        },
        None => InProse::Nothing,
    }
}

/// Behind the brace that ends the definition with which `text` begins.
fn first_definition(text: &str, language: LanguageId) -> Option<usize> {
    if language != LanguageId::C {
        // Initialisers have braces too.
        return CText::of(text, language)
            .definitions
            .first()
            .map(|d| d.range.end);
    }
    let (tokens, _) = tokens(text, language);
    let mut depth = 0usize;
    for (token, range) in tokens {
        match token {
            Token::Mark(b'{') => depth += 1,
            Token::Mark(b'}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(range.end);
                }
            }
            _ => {}
        }
    }
    None
}

/// `found` with the return type, comment and directives on the lines right above it; or all of
/// `text` if all of it is code.
fn widened(text: &str, found: Range<usize>, language: LanguageId) -> Range<usize> {
    let all = text.trim();
    let start = text.len() - text.trim_start().len();
    let first = all.lines().next().unwrap_or("");
    let ends_like_code =
        all.ends_with(['}', ';']) || all.ends_with("*/") || all.ends_with("#endif");
    if (starts_like_code(first) || start == found.start)
        && ends_like_code
        && CText::of(all, language).is_whole()
    {
        return start..start + all.len();
    }
    let mut from = found.start;
    let mut in_comment = false;
    for line in text[..found.start].split_inclusive('\n').rev() {
        let t = line.trim();
        let belongs =
            in_comment || starts_like_code(t) && !t.ends_with(['}', ';']) || t.ends_with("*/");
        if !belongs {
            break;
        }
        in_comment = (in_comment || t.ends_with("*/")) && !t.starts_with("/*");
        from -= line.len();
    }
    if in_comment {
        from = found.start;
    }
    from..found.end
}

/// Whether a line begins as C does and English does not.
fn starts_like_code(line: &str) -> bool {
    const WORDS: &[&str] = &[
        "static", "inline", "extern", "const", "unsigned", "signed", "int", "char", "void", "long",
        "short", "float", "double", "struct", "union", "enum", "bool", "_Bool", "typedef",
    ];
    if line.starts_with("//") || line.starts_with("/*") {
        return true;
    }
    if let Some(directive) = line.strip_prefix('#') {
        let word: String = directive
            .trim_start()
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .collect();
        return [
            "include", "define", "if", "ifdef", "ifndef", "undef", "pragma", "endif",
        ]
        .contains(&word.as_str());
    }
    let word: String = line
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    WORDS.contains(&word.as_str())
        || word.ends_with("_t")
        || (word.len() > 2
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()))
}

fn contains_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !word.is_empty()
        && line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_in_their_forms() {
        for (text, name, defines) in [
            ("int f(void) { return 0; }", "f", true),
            ("int f(void);\nint g(void) { return f(); }", "f", false),
            ("static char *\nf (int a)\n{\n}", "f", true),
            ("int f(a, b) int a; char *b; { return a; }", "f", true),
            ("PHP_FUNCTION(f)\n{\n}", "f", true),
            ("int (*f(void))(int) { return 0; }", "f", true),
            ("__attribute__((noinline)) int f(void) { }", "f", true),
            ("int x = f(3);\nstruct s { int f; };", "f", false),
            (
                "struct s { int a; } f(void) { struct s r = {0}; return r; }",
                "f",
                true,
            ),
            ("#define f(x) { x }\n", "f", false),
            ("/* int f(void) { } */ int g(void) { }", "f", false),
            ("int g(void) { f(1); if (f(2)) { } }", "f", false),
            ("int f(void) { return '{' + \"}\"[0]; }", "f", true),
        ] {
            let c = CText::of(text, LanguageId::C);
            assert_eq!(c.defines(name), defines, "{text}");
            assert!(c.is_whole(), "{text}");
        }
    }

    #[test]
    fn definitions_of_cpp_in_their_forms() {
        for (text, name, defines) in [
            ("int ns::A::f(int a) const { return 0; }", "ns::A::f", true),
            (
                "A::A(int a) : a_{a}, b_(2), c_{{1, 2}} { g(); }",
                "A::A",
                true,
            ),
            ("A::~A() { }", "ns::A::~A", true),
            (
                "template <> bool A::as<bool>() const { return b(); }",
                "A::as",
                true,
            ),
            (
                "bool operator==(const A &a, const A &b) { return true; }",
                "operator==",
                true,
            ),
            ("template <class T = int> T f(T t) { return t; }", "f", true),
            ("const char *f() { return R\"x(}}{\" )x\"; }", "f", true),
            ("int f() { return 1'000; }", "f", true),
            (
                "namespace a { class B { int f() { return 1; } }; }",
                "a::B::f",
                true,
            ),
            ("int g() { f(); return 1; }", "f", false),
        ] {
            let c = CText::of(text, LanguageId::CPP);
            assert_eq!(c.defines(name), defines, "{text}");
            assert!(c.is_whole(), "{text}");
            let last = text.len();
            assert!(
                c.end_of_last_definition().is_some_and(|end| end + 7 > last),
                "{text}"
            );
        }
    }

    #[test]
    fn braces_split_by_conditionals_are_whole() {
        let text =
            "int f(int a) {\n#ifdef A\n if (a) {\n#else\n if (!a) {\n#endif\n }\n return 1;\n}";
        assert!(CText::of(text, LanguageId::C).is_whole());
        let text = "int f(int a) {\n#if 0\n }}}\n#else\n a++;\n#endif\n return 1;\n}";
        assert!(CText::of(text, LanguageId::C).is_whole());
    }

    #[test]
    fn unfinished_text_is_not_whole() {
        for text in [
            "int f(void) {",
            "int f(void",
            "int f(void) { /* ",
            "int f(void) { } }",
        ] {
            assert!(!CText::of(text, LanguageId::C).is_whole(), "{text}");
        }
        assert!(CText::of("int f(void) { if (1) {", LanguageId::C).defines("f"));
    }
}
