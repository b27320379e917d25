//! A version of a file as it is compared: its functions and what stands outside of them, each as a
//! list of tokens and, where there is a grammar, a tree. Comments, layout, the kind of quotes and
//! commas before a closing bracket are no part of it.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::tree::{Tree, label};
use crate::lang::{Snippet, SnippetLanguage, SyntaxNode};

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// The hash of what it says.
    pub label: u64,
    /// Whether it is a name.
    pub name: bool,
    /// Its first byte in the file.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// Its line in the file, from 0.
    pub line: usize,
    /// The line on which it ends.
    pub last: usize,
}

/// A function, or what stands outside of functions, or a whole file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unit {
    /// What it says.
    pub tokens: Vec<Token>,
    /// Its structure, where there is a grammar and it is not too large.
    pub tree: Option<UnitTree>,
}

/// The structure of a unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitTree {
    /// The tree.
    pub tree: Tree,
    /// The token that a leaf is; `usize::MAX` for inner nodes.
    pub token_of: Vec<usize>,
}

/// How often each token occurs.
pub type Bag = FxHashMap<u64, u32>;

/// Trees of more nodes are not aligned; their tokens are.
const MOST_NODES: usize = 4000;

impl Unit {
    /// How often each token occurs, for a first look at what is like what.
    pub fn bag(&self) -> Bag {
        let mut bag = Bag::default();
        for token in &self.tokens {
            *bag.entry(token.label).or_default() += 1;
        }
        bag
    }

    /// The tokens on these lines, which must be in order.
    pub fn on_lines(&self, lines: &Range<usize>) -> Range<usize> {
        let start = self.tokens.partition_point(|t| t.last < lines.start);
        let end = self.tokens.partition_point(|t| t.line < lines.end);
        start..end.max(start)
    }
}

/// How much two bags have in common, from 0 to 1.
pub fn dice(a: &Bag, b: &Bag) -> f64 {
    let size = |bag: &Bag| bag.values().map(|n| u64::from(*n)).sum::<u64>();
    let common: u64 = a
        .iter()
        .map(|(label, n)| u64::from(*n.min(b.get(label).unwrap_or(&0))))
        .sum();
    match size(a) + size(b) {
        0 => 0.0,
        all => 2.0 * common as f64 / all as f64,
    }
}

/// A version of a file.
pub struct Source<'a> {
    text: &'a [u8],
    language: Option<SnippetLanguage>,
    functions: Outline,
    /// The first byte of each line.
    lines: Vec<usize>,
}

/// The functions of a file, in order of position: what reading it takes longest for, and what all patches
/// of a repository can share.
pub type Outline = Arc<Vec<Snippet>>;

/// The functions of a file; where its extension means no language, it has none. The attributes of a
/// function, which are beside it in Rust's grammar, are part of it, as decorators and qualifiers are elsewhere.
pub fn outline(path: &str, text: &[u8]) -> Outline {
    let language = SnippetLanguage::of_path(path);
    let mut found = language.map_or_else(Vec::new, |l| l.snippets(text).found);
    if language.is_some_and(|l| l.name() == "rust") {
        let mut end = 0;
        for function in &mut found {
            let before = &text[end..function.range.start];
            function.range.start = end + attributes(before);
            end = function.range.end;
        }
    }
    Arc::new(found)
}

/// Where the attributes begin with which a text ends; its end if there are none.
fn attributes(text: &[u8]) -> usize {
    let mut start = text.len();
    loop {
        let before = text[..start].trim_ascii_end();
        if before.last() != Some(&b']') {
            return start;
        }
        // Back to the bracket that this one closes.
        let mut depth = 0;
        let open = before.iter().rposition(|byte| {
            match byte {
                b']' => depth += 1,
                b'[' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        match open.and_then(|open| open.checked_sub(1)) {
            Some(hash) if before[hash] == b'#' => start = hash,
            _ => return start,
        }
    }
}

impl<'a> Source<'a> {
    /// Reads a file.
    pub fn read(path: &str, text: &'a [u8]) -> Source<'a> {
        Source::outlined(path, text, outline(path, text))
    }

    /// A file whose functions are known.
    pub fn outlined(path: &str, text: &'a [u8], functions: Outline) -> Source<'a> {
        let language = SnippetLanguage::of_path(path);
        let ends = text.iter().enumerate().filter(|(_, b)| **b == b'\n');
        Source {
            text,
            language,
            functions,
            lines: std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
        }
    }

    /// Its functions, in order of position.
    pub fn functions(&self) -> &[Snippet] {
        &self.functions
    }

    /// The bytes of a function.
    pub fn bytes(&self, at: usize) -> &'a [u8] {
        &self.text[self.functions[at].range.clone()]
    }

    /// The line that a byte is on, from 0.
    pub fn line(&self, byte: usize) -> usize {
        self.lines.partition_point(|start| *start <= byte).max(1) - 1
    }

    /// The lines that a function is on.
    pub fn lines_of(&self, at: usize) -> Range<usize> {
        let range = &self.functions[at].range;
        self.line(range.start)..self.line(range.end.saturating_sub(1).max(range.start)) + 1
    }

    /// The place for another function at a byte or, where that is in a function or a comment, before it: a
    /// line that two functions begin with can be taken for either's.
    pub fn place(&self, byte: usize) -> usize {
        let inside = |f: &&Snippet| f.range.start < byte && byte < f.range.end;
        if let Some(function) = self.functions.iter().find(inside) {
            return self.line_start(function.range.start);
        }
        let before = self.functions.iter().map(|f| f.range.end);
        let mut at = before.filter(|end| *end <= byte).max().unwrap_or(0);
        while at < byte {
            match self.comment_at(self.text, at) {
                Some(end) if end > byte => return self.line_start(at),
                Some(end) => at = end,
                None => at += 1,
            }
        }
        byte
    }

    /// The first byte of the line of one, if only blanks stand between them.
    fn line_start(&self, byte: usize) -> usize {
        let start = self.lines[self.line(byte)];
        match self.text[start..byte].trim_ascii().is_empty() {
            true => start,
            false => byte,
        }
    }

    /// A function as it is compared.
    pub fn function(&self, at: usize) -> Unit {
        self.unit(self.functions[at].range.clone())
    }

    /// All of the file.
    pub fn whole(&self) -> Unit {
        self.unit(0..self.text.len())
    }

    /// What stands outside of functions: tokens alone.
    pub fn outside(&self) -> Unit {
        let mut unit = Unit::default();
        let mut from = 0;
        let ends = self.functions.iter().map(|f| f.range.clone());
        for function in ends.chain(std::iter::once(self.text.len()..self.text.len())) {
            if function.start > from {
                let gap = &self.text[from..function.start];
                // Between functions nothing need parse: it is read as words.
                unit.tokens.extend(self.words(gap, from));
            }
            from = from.max(function.end);
        }
        unit
    }

    fn unit(&self, range: Range<usize>) -> Unit {
        let text = &self.text[range.clone()];
        let nodes = self.language.and_then(|l| l.syntax(text));
        match nodes {
            Some(nodes) => self.of_nodes(nodes, text, range.start),
            None => Unit {
                tokens: self.words(text, range.start),
                tree: None,
            },
        }
    }

    fn of_nodes(&self, nodes: Vec<SyntaxNode>, text: &[u8], offset: usize) -> Unit {
        let mut unit = Unit::default();
        let leaves: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].leaf).collect();
        let mut dropped = vec![false; nodes.len()];
        for pair in leaves.windows(2) {
            let says = |at: usize| &text[nodes[at].range.clone()];
            let closes = [&b")"[..], b"]", b"}"].contains(&says(pair[1]));
            dropped[pair[0]] = says(pair[0]) == b"," && closes;
        }
        let mut place = vec![usize::MAX; nodes.len()];
        let mut parts = Vec::with_capacity(nodes.len());
        let mut token_of = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            if dropped[at] {
                continue;
            }
            place[at] = parts.len();
            let own = match node.leaf {
                false => 0,
                true if node.range.is_empty() => u64::from(node.kind),
                true => self.label_of(&text[node.range.clone()]),
            };
            token_of.push(match node.leaf {
                true => unit.tokens.len(),
                false => usize::MAX,
            });
            if node.leaf {
                unit.tokens.push(Token {
                    label: own,
                    name: node.name,
                    start: offset + node.range.start,
                    end: offset + node.range.end,
                    line: self.line(offset + node.range.start),
                    last: self.line(offset + node.range.end.max(node.range.start + 1) - 1),
                });
            }
            parts.push((u32::from(node.kind), own, place[node.parent]));
        }
        if parts.len() <= MOST_NODES {
            unit.tree = Some(UnitTree {
                tree: Tree::new(parts),
                token_of,
            });
        }
        unit
    }

    /// Words, numbers and signs, for texts without a grammar; comments are left out where a line
    /// begins with one.
    fn words(&self, text: &[u8], offset: usize) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            if byte.is_ascii_whitespace() {
                at += 1;
                continue;
            }
            if let Some(end) = self.comment_at(text, at) {
                at = end;
                continue;
            }
            let in_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
            let length = text[at..].iter().take_while(|b| in_word(b)).count().max(1);
            let word = &text[at..at + length];
            tokens.push(Token {
                label: label(word),
                name: in_word(&byte) && !byte.is_ascii_digit(),
                start: offset + at,
                end: offset + at + length,
                line: self.line(offset + at),
                last: self.line(offset + at),
            });
            at += length;
        }
        tokens
    }

    /// The label of a token; in Python a string is the same in either kind of quotes.
    fn label_of(&self, text: &[u8]) -> u64 {
        let python = self.language.is_some_and(|l| l.name() == "python");
        let prefix = text.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let quotes = [&b"\"\"\""[..], b"'''", b"\"", b"'"];
        for quote in quotes.into_iter().filter(|_| python && prefix <= 2) {
            let rest = &text[prefix..];
            let long = rest.len() >= 2 * quote.len();
            if long && rest.starts_with(quote) && rest.ends_with(quote) {
                let mut written = text[..prefix].to_ascii_lowercase();
                written.push(b'"');
                written.extend_from_slice(&rest[quote.len()..rest.len() - quote.len()]);
                return label(&written);
            }
        }
        label(text)
    }

    /// Where the comment ends that begins here, if one does.
    fn comment_at(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        let line_end = || at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        if self.language?.name() == "python" {
            return (rest[0] == b'#').then(line_end);
        }
        if rest.starts_with(b"//") {
            return Some(line_end());
        }
        rest.starts_with(b"/*").then(|| {
            let close = rest.windows(2).skip(2).position(|w| w == b"*/");
            at + close.map_or(rest.len(), |c| c + 4)
        })
    }
}

/// The text with plain line ends.
pub fn plain_lines(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        if !(*byte == b'\r' && text.get(at + 1) == Some(&b'\n')) {
            out.push(*byte);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: &Unit) -> Vec<u64> {
        unit.tokens.iter().map(|t| t.label).collect()
    }

    #[test]
    fn what_a_formatter_changes_is_not_seen() {
        let plain = b"def f(a, b):\n    g('x', [1, 2])  # why\n    return a\n";
        let black =
            b"def f(\n    a,\n    b,\n):\n    # Why.\n    g(\"x\", [1, 2,])\n\n    return a\n";
        let unit = |text: &[u8]| labels(&Source::read("a.py", text).function(0));
        assert_eq!(unit(plain), unit(black));
        assert_ne!(
            unit(plain),
            unit(b"def f(a, b):\n    g('y', [1, 2])\n    return a\n")
        );
    }

    #[test]
    fn functions_and_what_is_outside_of_them() {
        let text = b"import a\n# b\nx = 1\n\n\ndef f():\n    pass\n\n\ny = 2\n";
        let source = Source::read("a.py", text);
        assert_eq!(source.functions().len(), 1);
        assert_eq!(source.lines_of(0), 5..7);
        let outside = source.outside();
        let lines: Vec<usize> = outside.tokens.iter().map(|t| t.line).collect();
        assert_eq!(lines, [0, 0, 2, 2, 2, 9, 9, 9]);
        assert_eq!(outside.on_lines(&(2..9)), 2..5);
        assert_eq!(source.function(0).tokens[1].line, 5);
    }

    #[test]
    fn a_text_without_a_grammar_has_words() {
        let source = Source::read("a.zig", b"fn f(x: u8) { x }\n");
        assert_eq!(source.functions().len(), 0);
        assert_eq!(source.whole().tokens.len(), 10);
    }

    #[test]
    fn bags_are_compared_by_what_they_share() {
        let unit = |text: &'static str| Source::read("a.txt", text.as_bytes()).whole().bag();
        assert!((dice(&unit("a b b"), &unit("b b c")) - 4.0 / 6.0).abs() < 1e-12);
        assert_eq!(dice(&unit(""), &unit("")), 0.0);
    }

    #[test]
    fn attributes_are_part_of_their_function() {
        let text = "#[derive(Debug)]\nstruct S([u8; 2]);\n\n/// One.\n#[cfg(any(\n    a,\n    b\n))]\n#[inline]\nfn one() {}\nfn two() {}\n";
        let source = Source::read("a.rs", text.as_bytes());
        assert!(source.bytes(0).starts_with(b"#[cfg"));
        assert_eq!(source.bytes(1), b"fn two() {}");
        let lines: Vec<usize> = source.outside().tokens.iter().map(|t| t.line).collect();
        assert_eq!(lines.iter().max(), Some(&1));
    }

    #[test]
    fn a_place_is_in_no_function_and_no_comment() {
        let text = "int x;\n/*\n * f.\n */\nstatic int\nf(void)\n{\n}\n";
        let source = Source::read("a.c", text.as_bytes());
        let place = |before: &str| source.place(text.find(before).unwrap());
        assert_eq!(place("/*"), 7);
        assert_eq!(place(" * f."), 7);
        assert_eq!(place("static"), text.find("static").unwrap());
        assert_eq!(place("f(void)"), text.find("static").unwrap());
    }

    #[test]
    fn line_ends_are_plain() {
        assert_eq!(plain_lines(b"a\r\nb\rc\n\r\n"), b"a\nb\rc\n\n");
    }
}
