//! What stands before the brace of a C++ function: its name with the path to it, its parameters,
//! where it starts. Tokens find them; the grammar has a veto where it understands the head. Never
//! looks into the body.

use std::ops::Range;

use super::functions::SkipReason;
use super::head::{Head, NoHead, definition};
use super::language::Language;
use super::lex::Kind;
use super::mask::Mask;
use super::outline::{Block, Outline, Place};
use super::words::{is_attribute, is_statement_keyword, is_type_keyword};

/// A list of template arguments of more tokens than this is none.
const LONGEST_ARGUMENTS: usize = 600;

/// Behind the `>` that closes the `<` at `open`; nothing if there is none before a `;` or a brace
/// that closes nothing.
pub(super) fn angle(o: &Outline<'_>, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for i in open..(open + LONGEST_ARGUMENTS).min(o.tokens.len()) {
        match o.text(i) {
            b"(" | b"[" | b"{" => brackets += 1,
            b")" | b"]" | b"}" => brackets = brackets.checked_sub(1)?,
            _ if brackets > 0 => {}
            b"<" => depth += 1,
            b">" => depth = depth.checked_sub(1)?,
            b">>" => depth = depth.checked_sub(2)?,
            b";" => return None,
            _ => {}
        }
        if depth == 0 {
            return Some(i + 1);
        }
    }
    None
}

/// The token of the `<` that the `>` at `close` closes, looking back no further than `start`.
fn angle_back(o: &Outline<'_>, close: usize, start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let from = start.max(close.saturating_sub(LONGEST_ARGUMENTS));
    for i in (from..=close).rev() {
        match o.text(i) {
            b">" => depth += 1,
            b">>" => depth += 2,
            b"<" => depth = depth.checked_sub(1)?,
            b";" => return None,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// `public` and the like, which end with a colon and begin nothing.
pub(super) fn is_access(word: &[u8]) -> bool {
    matches!(
        word,
        b"public" | b"private" | b"protected" | b"signals" | b"slots" | b"Q_SIGNALS" | b"Q_SLOTS"
    )
}

/// Words that take an argument in parentheses and are no function's name.
pub(super) fn is_cpp_attribute(word: &[u8]) -> bool {
    is_attribute(word)
        || matches!(
            word,
            b"noexcept"
                | b"decltype"
                | b"explicit"
                | b"throw"
                | b"requires"
                | b"alignof"
                | b"typeof"
        )
}

/// Specifiers: words before a name that are no type.
fn is_cpp_specifier(word: &[u8]) -> bool {
    matches!(
        word,
        b"static"
            | b"extern"
            | b"inline"
            | b"virtual"
            | b"explicit"
            | b"constexpr"
            | b"consteval"
            | b"constinit"
            | b"friend"
            | b"mutable"
            | b"thread_local"
            | b"const"
            | b"volatile"
            | b"typename"
            | b"__inline"
            | b"__inline__"
            | b"__extension__"
            | b"register"
            | b"export"
    )
}

fn shouts(word: &[u8]) -> bool {
    word.iter().any(u8::is_ascii_uppercase) && !word.iter().any(u8::is_ascii_lowercase)
}

/// What tokens say about a head. Numbers are of tokens.
pub(super) struct Declarator {
    /// The first token of the definition.
    pub(super) first: usize,
    /// The name with the path before it, as it is written.
    pub(super) name: Range<usize>,
    /// Its parts, template arguments left out.
    pub(super) parts: Vec<String>,
    /// The brackets of the parameters.
    pub(super) parameters: (usize, usize),
    /// Words that can be a type stand before the name.
    typed: bool,
    /// A constructor, destructor or conversion, which has no type.
    untyped: bool,
}

/// The declarator of a function in `tokens`, which end before its initialisers: the first name
/// before parentheses that nothing but what may follow parameters stands behind.
pub(super) fn declarator(
    o: &Outline<'_>,
    tokens: &Range<usize>,
    place: &Place,
) -> Option<Declarator> {
    let mut i = tokens.start;
    let mut introduced = tokens.start;
    while i < tokens.end {
        match o.text(i) {
            b"template" if o.is(i + 1, "<") => {
                i = angle(o, i + 1)?;
                introduced = i;
            }
            b"requires" if i == introduced => {
                i = requirement(o, i + 1, tokens.end);
                introduced = i;
            }
            b"operator" => {
                let open = operator(o, i + 1, tokens.end)?;
                return named(o, tokens, introduced, i, open, place);
            }
            b"[" => i = o.closing(i, tokens.end)? + 1,
            b"(" => {
                let close = o.closing(i, tokens.end)?;
                let before = i.checked_sub(1).filter(|b| *b >= tokens.start);
                let is_name = before.is_some_and(|b| {
                    let word = o.text(b);
                    (o.is_word(b)
                        && !is_cpp_attribute(word)
                        && !is_type_keyword(word)
                        && !is_cpp_specifier(word)
                        && word != b"auto")
                        || o.is(b, ">")
                });
                if is_name
                    && is_tail(o, close + 1, tokens.end)
                    && let Some(found) = named(o, tokens, introduced, before.unwrap_or(i), i, place)
                {
                    return Some(found);
                }
                // `int (max)(int a, int b)`, by which a macro of that name is avoided.
                if close == i + 2 && o.is_word(i + 1) && o.is(close + 1, "(") {
                    return named(o, tokens, introduced, i + 1, close + 1, place);
                }
                i = close + 1;
            }
            _ => i += 1,
        }
    }
    None
}

/// Behind the condition of a `requires` that starts at `i`.
fn requirement(o: &Outline<'_>, mut i: usize, end: usize) -> usize {
    loop {
        while o.is(i, "!") {
            i += 1;
        }
        if o.is(i, "(") {
            match o.closing(i, end) {
                Some(close) => i = close + 1,
                None => return i,
            }
        } else {
            while i < end && (o.is_word(i) || o.is(i, "::") || o.is(i, "<")) {
                if o.is(i, "<") {
                    match angle(o, i) {
                        Some(next) => i = next,
                        None => return i,
                    }
                    // The path goes on only with `::`.
                    if !o.is(i, "::") {
                        break;
                    }
                } else {
                    i += 1;
                }
            }
        }
        if o.is(i, "&&") || o.is(i, "||") {
            i += 1;
        } else {
            return i;
        }
    }
}

/// The parenthesis of the parameters behind `operator`, whose symbol starts at `i`.
fn operator(o: &Outline<'_>, i: usize, end: usize) -> Option<usize> {
    let mut k = i;
    if o.is(k, "(") && o.is(k + 1, ")") {
        k += 2;
    }
    while k < end && !o.is(k, "(") {
        k = match o.text(k) {
            // A conversion to a template's instance.
            b"<" if k > i && o.is_word(k - 1) => angle(o, k)?,
            _ => k + 1,
        };
    }
    (k < end && o.closing(k, end).is_some()).then_some(k)
}

/// Whether nothing but what may follow parameters stands from `i` to `end`.
fn is_tail(o: &Outline<'_>, mut i: usize, end: usize) -> bool {
    while i < end {
        let word = o.text(i);
        match word {
            _ if o.kind(i) == Some(Kind::Directive) => i += 1,
            b"const" | b"volatile" | b"override" | b"final" | b"&" | b"&&" | b"mutable"
            | b"try" => {
                i += 1;
            }
            // A type or a condition follows, which may be anything.
            b"->" | b"requires" => return true,
            b"[" => match o.closing(i, end) {
                Some(close) => i = close + 1,
                None => return false,
            },
            _ if o.is_word(i) && (is_cpp_attribute(word) || shouts(word)) => {
                i += 1;
                if o.is(i, "(") {
                    match o.closing(i, end) {
                        Some(close) => i = close + 1,
                        None => return false,
                    }
                }
            }
            _ => return false,
        }
    }
    true
}

/// The declarator whose name ends with the word, `>` or `operator` at `last`.
fn named(
    o: &Outline<'_>,
    tokens: &Range<usize>,
    introduced: usize,
    last: usize,
    open: usize,
    place: &Place,
) -> Option<Declarator> {
    let close = o.closing(open, tokens.end)?;
    let text = |i: usize| String::from_utf8_lossy(o.text(i)).into_owned();
    let is_operator = o.is(last, "operator");
    let end = match is_operator {
        true => open,
        false => last + 1,
    };
    let mut word = match o.is(last, ">") {
        true => angle_back(o, last, tokens.start)?.checked_sub(1)?,
        false => last,
    };
    if word < introduced || !o.is_word(word) {
        return None;
    }
    let mut start = word;
    let mut part = text(word);
    if is_operator {
        part = operator_name(o, last..open);
    } else if word > introduced && o.is(word - 1, "~") {
        start = word - 1;
        part.insert(0, '~');
    }
    let mut parts = vec![part];
    while start >= introduced + 2 && o.is(start - 1, "::") {
        let before = start - 2;
        word = match o.text(before) {
            b">" | b">>" => match angle_back(o, before, introduced) {
                Some(open) if open > introduced => open - 1,
                _ => break,
            },
            _ => before,
        };
        let keyword = is_type_keyword(o.text(word)) || is_cpp_specifier(o.text(word));
        if !o.is_word(word) || keyword {
            break;
        }
        parts.insert(0, text(word));
        start = word;
    }
    let parts_of_path = |k: usize| parts.len().checked_sub(k).map(|i| parts[i].as_str());
    let class = parts_of_path(2).or(match place.in_class {
        true => place.path.last().map(String::as_str),
        false => None,
    });
    let name = parts.last().map(String::as_str).unwrap_or_default();
    let conversion = is_operator && {
        let first = o.text(last + 1);
        o.is_word(last + 1) && !matches!(first, b"new" | b"delete" | b"co_await")
    };
    let untyped = name.starts_with('~') || conversion || class == Some(name);
    let first = first(o, tokens.start..start, untyped);
    let typed = (introduced.max(first)..start).any(|i| is_type_word(o, i));
    Some(Declarator {
        first,
        name: start..end,
        parts,
        parameters: (open, close),
        typed,
        untyped,
    })
}

fn is_type_word(o: &Outline<'_>, i: usize) -> bool {
    let word = o.text(i);
    o.is_word(i) && !is_cpp_specifier(word) && (!is_cpp_attribute(word) || word == b"decltype")
}

/// `operator+`, `operator new[]`, `operator unsigned int`.
fn operator_name(o: &Outline<'_>, tokens: Range<usize>) -> String {
    let mut name = String::new();
    for i in tokens {
        let text = String::from_utf8_lossy(o.text(i));
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        if name.ends_with(joins) && text.starts_with(joins) {
            name.push(' ');
        }
        name.push_str(&text);
    }
    name
}

/// The first token of the definition: after leading `MACRO(...)` and leading words in capitals that
/// have their line for themselves, which may belong to what comes before.
fn first(o: &Outline<'_>, before: Range<usize>, untyped: bool) -> usize {
    let enough = |from: usize| untyped || (from..before.end).any(|i| is_type_word(o, i));
    let mut first = before.start;
    while first < before.end && o.is_word(first) && shouts(o.text(first)) {
        let last = if o.is(first + 1, "(") {
            o.closing(first + 1, before.end)
        } else {
            let next = o.tokens.get(first + 1).map_or(o.source.len(), |t| t.start);
            let gap = &o.source[o.tokens[first].end..next];
            gap.contains(&b'\n').then_some(first)
        };
        match last {
            Some(last) if enough(last + 1) => first = last + 1,
            _ => break,
        }
    }
    first
}

/// Reads the head of `block`. Only a source file's heads are shown to the grammar (`ask`): a
/// preprocessed unit holds thousands that nobody will replace, and no macros to be wrong about.
pub(super) fn head(
    language: &Language,
    o: &Outline<'_>,
    block: &Block,
    ask: bool,
) -> Result<Head, NoHead> {
    let all = block.head.clone();
    let mut directives = all.clone().filter(|i| o.kind(*i) == Some(Kind::Directive));
    // What precedes a directive is usually a thing of its own.
    if let Some(last) = directives.next_back()
        && let Ok(found) = read(language, o, block, last + 1..all.end, ask)
    {
        return Ok(found);
    }
    if !o.conditionals_balance(all.clone()) {
        return Err(none(o, block, &all, None, SkipReason::SplitByIfdef));
    }
    read(language, o, block, all, ask)
}

fn none(
    o: &Outline<'_>,
    block: &Block,
    tokens: &Range<usize>,
    name: Option<Range<usize>>,
    reason: SkipReason,
) -> NoHead {
    let first = o.tokens.get(tokens.start.min(block.open));
    NoHead {
        name,
        start: first.map_or(0, |t| t.start),
        reason,
    }
}

fn read(
    language: &Language,
    o: &Outline<'_>,
    block: &Block,
    tokens: Range<usize>,
    ask: bool,
) -> Result<Head, NoHead> {
    let refused = |name, reason| Err(none(o, block, &tokens, name, reason));
    let Some(found) = declarator(o, &tokens, &block.place) else {
        return refused(None, SkipReason::ParseError);
    };
    let name = o.tokens[found.name.start].start..o.tokens[found.name.end - 1].end;
    if is_statement_keyword(o.text(tokens.start)) || is_statement_keyword(o.text(found.name.start))
    {
        return refused(None, SkipReason::ParseError);
    }
    if !found.typed && !found.untyped {
        return refused(Some(name), SkipReason::MacroDefined);
    }
    let tokens = found.first..tokens.end;
    if ask && vetoed(language, o, &tokens, &name) {
        return refused(Some(name), SkipReason::ParseError);
    }
    let (open, close) = found.parameters;
    let before = found.first..found.name.start;
    let says = |words: &[&str]| before.clone().any(|i| words.iter().any(|w| o.is(i, w)));
    // A friend is a function of the namespace around the class.
    let mut path = block.place.path.clone();
    if says(&["friend"]) {
        path.truncate(path.len() - block.place.classes.min(path.len()));
    }
    path.extend(found.parts.iter().cloned());
    let trailing = (close..tokens.end).any(|i| o.is(i, "->"));
    let last = tokens.end.max(close + 1) - 1;
    Ok(Head {
        start: o.tokens[found.first].start,
        end: o.tokens[last].end,
        name,
        called: path.join("::"),
        written: found.parts.len(),
        parameters: o.tokens[open].start..o.tokens[close].end,
        is_static: says(&["static"]),
        old_style: false,
        variadic: (open..close).any(|i| o.is(i, "...") && matches!(o.text(i + 1), b")")),
        // Others see more of these than their declaration.
        transparent: block.place.in_template
            || says(&["template", "constexpr", "consteval"])
            || (says(&["auto"]) && !trailing),
    })
}

/// Whether the grammar understands the head and finds another function in it, or none.
fn vetoed(
    language: &Language,
    o: &Outline<'_>,
    tokens: &Range<usize>,
    name: &Range<usize>,
) -> bool {
    let mask = Mask::new(o, tokens);
    let text = [&mask.text[..], b"\n{}\n"].concat();
    let Some(tree) = language.parse(&text) else {
        return false;
    };
    let root = tree.root_node();
    if root.has_error() || root.named_child_count() != 1 {
        return false;
    }
    // Conversions have no node for their name.
    if o.source[name.clone()].windows(8).any(|w| w == b"operator") {
        return false;
    }
    match definition(language, root, &text) {
        Some(found) => {
            let at = found.name.start + mask.at..found.name.end + mask.at;
            at.end <= name.start || name.end <= at.start
        }
        None => true,
    }
}
