//! Functions to be shown and compared, not to be compiled: in every language of which there is a
//! grammar and a `queries/<language>/functions.scm`. C and C++ are read as everywhere else; any
//! other language is one entry in the table below, and its query says what a function is.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tree_sitter::{Node, Parser, Query, QueryCursor, StreamingIterator, Tree};

use super::facts::LanguageId;
use super::functions::{FileFunctions, SkipReason, delimited, differing, lossy};
use super::language::{Language, QueryTexts};
use super::normalise::normalised;
use super::outline::Outline;
use super::window::{Window, windows};
use crate::digest::Digest;

/// What is known of a language that is read by its query alone.
struct Grammar {
    name: &'static str,
    extensions: &'static [&'static str],
    /// Whether functions of one name may differ in their parameters.
    overloads: bool,
    grammar: fn() -> tree_sitter::Language,
    functions: &'static str,
    compiled: OnceLock<Option<(tree_sitter::Language, Query)>>,
}

/// The languages beside C and C++. Another one is one more entry and one more query.
static GRAMMARS: [Grammar; 4] = [
    Grammar {
        name: "java",
        extensions: &["java"],
        overloads: true,
        grammar: || tree_sitter_java::LANGUAGE.into(),
        functions: include_str!("../../queries/java/functions.scm"),
        compiled: OnceLock::new(),
    },
    Grammar {
        name: "go",
        extensions: &["go"],
        overloads: false,
        grammar: || tree_sitter_go::LANGUAGE.into(),
        functions: include_str!("../../queries/go/functions.scm"),
        compiled: OnceLock::new(),
    },
    Grammar {
        name: "python",
        extensions: &["py"],
        overloads: false,
        grammar: || tree_sitter_python::LANGUAGE.into(),
        functions: include_str!("../../queries/python/functions.scm"),
        compiled: OnceLock::new(),
    },
    Grammar {
        name: "rust",
        extensions: &["rs"],
        overloads: false,
        grammar: || tree_sitter_rust::LANGUAGE.into(),
        functions: include_str!("../../queries/rust/functions.scm"),
        compiled: OnceLock::new(),
    },
];

/// A language in which functions are found and compared. Written by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnippetLanguage {
    /// One of those whose functions can be compiled, too.
    Compiled(LanguageId),
    /// One that is read by its query: its place in the table.
    Queried(u8),
}

/// A function where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snippet {
    /// With the scopes it is in: `shop::Basket::add`, `Basket.add`.
    pub name: String,
    /// Its parameters without layout, where functions may share a name; empty elsewhere.
    pub parameters: String,
    /// Its bytes in the file, without the comment before it.
    pub range: Range<usize>,
    /// The grammar cannot make sense of all of it. Macros do that in C, so that it says nothing
    /// there.
    pub broken: bool,
}

/// What a file holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snippets {
    /// In order of position. A function within another one is part of that.
    pub found: Vec<Snippet>,
    /// What looks like a function and cannot be delimited.
    pub skipped: Vec<NoSnippet>,
}

/// Something that looks like a function and is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoSnippet {
    /// The name it seems to have.
    pub name: Option<String>,
    /// Its bytes, as far as they can be known.
    pub range: Range<usize>,
    /// Why.
    pub reason: SkipReason,
}

impl Snippets {
    /// The same where the text stands `by` bytes further on.
    fn moved(mut self, by: usize) -> Snippets {
        let found = self.found.iter_mut().map(|s| &mut s.range);
        for range in found.chain(self.skipped.iter_mut().map(|s| &mut s.range)) {
            *range = range.start + by..range.end + by;
        }
        self
    }
}

impl SnippetLanguage {
    /// All there are.
    pub fn all() -> impl Iterator<Item = SnippetLanguage> {
        let queried = (0..GRAMMARS.len()).map(|i| SnippetLanguage::Queried(i as u8));
        LanguageId::all()
            .map(SnippetLanguage::Compiled)
            .chain(queried)
    }

    fn grammar(self) -> Option<&'static Grammar> {
        match self {
            SnippetLanguage::Compiled(_) => None,
            SnippetLanguage::Queried(at) => GRAMMARS.get(usize::from(at)),
        }
    }

    /// `c`, `c++`, `java`.
    pub fn name(self) -> &'static str {
        match self {
            SnippetLanguage::Compiled(id) => id.name(),
            SnippetLanguage::Queried(_) => self.grammar().map_or("", |g| g.name),
        }
    }

    /// Under which name scores of it are given: C and C++ are one group.
    pub fn group(self) -> &'static str {
        match self {
            SnippetLanguage::Compiled(_) => "c/c++",
            SnippetLanguage::Queried(_) => self.name(),
        }
    }

    /// The language called `name`.
    pub fn named(name: &str) -> Option<SnippetLanguage> {
        SnippetLanguage::all().find(|l| l.name() == name)
    }

    /// The language that a file's extension means.
    pub fn of_path(path: &str) -> Option<SnippetLanguage> {
        if let Some(id) = LanguageId::of_path(path) {
            return Some(SnippetLanguage::Compiled(id));
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let (_, extension) = name.rsplit_once('.')?;
        SnippetLanguage::all().find(|l| {
            l.grammar()
                .is_some_and(|g| g.extensions.contains(&extension))
        })
    }

    /// Changes whenever the query of any language does.
    pub fn queries_digest() -> Digest {
        let mut hasher = blake3::Hasher::new_derive_key("everbench lang snippets v1");
        for language in SnippetLanguage::all() {
            let text = match language {
                SnippetLanguage::Compiled(id) => QueryTexts::of(id).functions,
                SnippetLanguage::Queried(_) => language
                    .grammar()
                    .map_or(String::new(), |g| g.functions.to_string()),
            };
            for part in [language.name(), &text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// The functions in `source`, which may be any bytes.
    pub fn snippets(self, source: &[u8]) -> Snippets {
        self.snippets_and_tree(source).0
    }

    /// The same, with the tree of the file where the functions were found in one.
    pub(super) fn snippets_and_tree(self, source: &[u8]) -> (Snippets, Option<Tree>) {
        match self {
            SnippetLanguage::Compiled(id) => (of_compiled(id, source), None),
            SnippetLanguage::Queried(_) => self
                .grammar()
                .map_or_else(Default::default, |g| of_queried(g, source)),
        }
    }

    /// The syntax tree of a text, or nothing when the parser gives up.
    pub(super) fn parse(self, text: &[u8]) -> Option<Tree> {
        match self {
            SnippetLanguage::Compiled(id) => compiled_language(id)?.parse(text),
            SnippetLanguage::Queried(_) => self.grammar()?.parse(text),
        }
    }

    /// The functions on two sides of a file, as [`snippets`](Self::snippets) gives them, but those that
    /// both have with the same text may be left out: the work is that of what differs.
    pub fn differing(self, before: &[u8], after: &[u8]) -> [Snippets; 2] {
        match self {
            SnippetLanguage::Compiled(id) => of_both(id, [before, after]),
            SnippetLanguage::Queried(_) => [self.snippets(before), self.snippets(after)],
        }
    }

    /// What of `text` is neither comment nor layout: equal for texts that mean the same to whoever
    /// ignores both. Where layout has a meaning, it is in the tree and so in this.
    pub fn substance(self, text: &[u8]) -> Vec<u8> {
        match self {
            SnippetLanguage::Compiled(id) => normalised(id, text),
            SnippetLanguage::Queried(_) => self
                .grammar()
                .map_or_else(|| text.to_vec(), |g| tree_of(g, text)),
        }
    }
}

/// The language with the queries that come with the program.
fn compiled_language(id: LanguageId) -> Option<&'static Language> {
    // Each when it is wanted: to analyse the queries of a language takes a tenth of a second.
    static LANGUAGES: OnceLock<Vec<OnceLock<Option<Language>>>> = OnceLock::new();
    let languages = LANGUAGES.get_or_init(|| LanguageId::all().map(|_| OnceLock::new()).collect());
    let at = LanguageId::all().position(|l| l == id);
    languages[at?]
        .get_or_init(|| Language::new(id, &QueryTexts::of(id)).ok())
        .as_ref()
}

fn of_compiled(id: LanguageId, source: &[u8]) -> Snippets {
    compiled_language(id).map_or_else(Snippets::default, |language| {
        shown(id, source, delimited(language, source))
    })
}

/// Both sides without the blocks they have in common.
fn of_both(id: LanguageId, sides: [&[u8]; 2]) -> [Snippets; 2] {
    let Some(language) = compiled_language(id) else {
        return [Snippets::default(), Snippets::default()];
    };
    if let Some([old, new]) = windows(id, sides) {
        let found = differing(language, [&old.outline, &new.outline]);
        let [x, y] = found;
        let of = |window: Window<'_>, found| {
            shown(id, window.outline.source, found).moved(window.range.start)
        };
        return [of(old, x), of(new, y)];
    }
    let outlines = sides.map(|side| Outline::of(id, side));
    let [x, y] = differing(language, [&outlines[0], &outlines[1]]);
    [shown(id, sides[0], x), shown(id, sides[1], y)]
}

/// Definitions as snippets.
fn shown(id: LanguageId, source: &[u8], all: FileFunctions) -> Snippets {
    let definitions = all.definitions.into_iter();
    let mut snippets = Snippets {
        found: definitions
            .map(|d| Snippet {
                parameters: match id.may_overload() {
                    true => lossy(&normalised(id, &source[d.parameters.clone()])),
                    false => String::new(),
                },
                name: d.name,
                range: d.definition,
                broken: false,
            })
            .collect(),
        skipped: Vec::new(),
    };
    for skipped in all.skipped {
        // Nothing is compiled here, so that a head which only a macro knows does no harm: its words
        // are the name.
        match macro_head(id, &source[skipped.span.clone()]) {
            Some(name) if skipped.reason == SkipReason::MacroDefined => {
                snippets.found.push(Snippet {
                    name,
                    parameters: String::new(),
                    range: skipped.span,
                    broken: false,
                });
            }
            _ => snippets.skipped.push(NoSnippet {
                name: skipped.name,
                range: skipped.span,
                reason: skipped.reason,
            }),
        }
    }
    snippets.found.sort_by_key(|s| s.range.start);
    snippets
}

/// The head of a text like `MACRO(name) (parameters) { body }`.
fn macro_head(id: LanguageId, text: &[u8]) -> Option<String> {
    let open = text.iter().position(|b| *b == b'{')?;
    let head = normalised(id, &text[..open]);
    let head = head.trim_ascii();
    let is_function = head.ends_with(b")") && !head.contains(&b'=') && !head.contains(&b'#');
    (is_function && text.trim_ascii_end().ends_with(b"}")).then(|| lossy(head))
}

impl Grammar {
    /// The grammar and its query; nothing if they do not fit, which a test keeps from happening.
    fn compiled(&self) -> Option<&(tree_sitter::Language, Query)> {
        let compile = || {
            let language = (self.grammar)();
            let query = Query::new(&language, self.functions).ok()?;
            Some((language, query))
        };
        self.compiled.get_or_init(compile).as_ref()
    }

    fn parse(&self, text: &[u8]) -> Option<Tree> {
        let (language, _) = self.compiled()?;
        let mut parser = Parser::new();
        parser.set_language(language).ok()?;
        // Bounded by the length of the text, as everywhere in this room.
        let mut left = 10_000 + text.len() as u64 * 4;
        let mut stop = |_: &tree_sitter::ParseState| {
            left = left.saturating_sub(1);
            match left {
                0 => std::ops::ControlFlow::Break(()),
                _ => std::ops::ControlFlow::Continue(()),
            }
        };
        let options = tree_sitter::ParseOptions::new().progress_callback(&mut stop);
        parser.parse_with_options(
            &mut |at, _| text.get(at..).unwrap_or_default(),
            None,
            Some(options),
        )
    }
}

fn of_queried(grammar: &Grammar, source: &[u8]) -> (Snippets, Option<Tree>) {
    let mut all = Snippets::default();
    let (Some((_, query)), Some(tree)) = (grammar.compiled(), grammar.parse(source)) else {
        return (all, None);
    };
    // Only parameters that tell functions apart are written out without them.
    let comments = match grammar.overloads {
        true => comments(query, &tree, source),
        false => HashSet::new(),
    };
    let mut scopes: Vec<(Range<usize>, String)> = Vec::new();
    let mut found: Vec<Snippet> = Vec::new();
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches(query, tree.root_node(), source);
    while let Some(m) = matches.next() {
        let capture = |wanted: &str| {
            let mut all = m.captures().iter();
            let is = |index: u32| query.capture_names().get(index as usize) == Some(&wanted);
            all.find(|c| is(c.index)).map(|c| c.node)
        };
        let text = |node: Node<'_>| lossy(&source[node.byte_range()]);
        let scope = capture("scope.name").map(text);
        if let (Some(node), Some(name)) = (capture("scope"), &scope) {
            scopes.push((node.byte_range(), name.clone()));
        } else if let (Some(node), Some(name)) = (capture("definition"), capture("name")) {
            let own = text(name);
            let parameters = capture("parameters").filter(|_| grammar.overloads);
            let parameters = parameters.map(|p| lossy(&written(p, source, &comments, false)));
            found.push(Snippet {
                name: scope.map_or(own.clone(), |scope| format!("{scope}.{own}")),
                parameters: parameters.unwrap_or_default(),
                range: node.byte_range(),
                broken: node.has_error(),
            });
        }
    }
    let around = |range: &Range<usize>, other: &Range<usize>| {
        other.start <= range.start && range.end <= other.end && range != other
    };
    found.sort_by_key(|s| (s.range.start, std::cmp::Reverse(s.range.end)));
    let mut end = 0;
    found.retain(|s| {
        let outer = s.range.start >= end;
        end = end.max(s.range.end);
        outer
    });
    for snippet in &mut found {
        let mut path: Vec<_> = scopes
            .iter()
            .filter(|(r, _)| around(&snippet.range, r))
            .collect();
        path.sort_by_key(|(r, _)| r.start);
        for (_, name) in path.into_iter().rev() {
            snippet.name = format!("{name}.{}", snippet.name);
        }
    }
    if tree.root_node().has_error() && found.is_empty() && !source.is_empty() {
        all.skipped.push(NoSnippet {
            name: None,
            range: 0..source.len(),
            reason: SkipReason::ParseError,
        });
    }
    all.found = found;
    (all, Some(tree))
}

/// The comments of a tree, by their nodes' numbers.
fn comments(query: &Query, tree: &Tree, text: &[u8]) -> HashSet<usize> {
    let mut found = HashSet::new();
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches(query, tree.root_node(), text);
    while let Some(m) = matches.next() {
        let is = |index: u32| query.capture_names().get(index as usize) == Some(&"comment");
        let nodes = m.captures().iter().filter(|c| is(c.index));
        found.extend(nodes.map(|c| c.node.id()));
    }
    found
}

/// What leaves below a node say, comments left out, each behind a space; `shape` puts brackets with
/// the kind of node around what is below one node.
fn written(root: Node<'_>, text: &[u8], comments: &HashSet<usize>, shape: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if !comments.contains(&node.id()) {
            let leaf = node.child_count() == 0;
            if leaf {
                out.extend_from_slice(&text[node.byte_range()]);
                out.push(b' ');
            } else if shape {
                out.extend_from_slice(node.kind().as_bytes());
                out.push(b'(');
            }
            if cursor.goto_first_child() {
                continue;
            }
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return out;
            }
            if shape {
                out.push(b')');
            }
        }
    }
}

/// The syntax tree as text, comments left out.
fn tree_of(grammar: &Grammar, text: &[u8]) -> Vec<u8> {
    match (grammar.parse(text), grammar.compiled()) {
        (Some(tree), Some((_, query))) => {
            let comments = comments(query, &tree, text);
            written(tree.root_node(), text, &comments, true)
        }
        _ => text.to_vec(),
    }
}

impl fmt::Debug for SnippetLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for SnippetLanguage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for SnippetLanguage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        SnippetLanguage::named(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("no language is called `{name}`")))
    }
}
