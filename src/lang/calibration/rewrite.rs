//! Edits of the syntax tree: rewrites that keep the behaviour, and mutations that change it. A
//! statement a macro may be hidden in is never moved into or out of a branch.

use std::cmp::Reverse;
use std::ops::Range;

use tree_sitter::Node;

use super::insert::early_return;
use super::tree::Parsed;

/// A replacement in the span.
type Change = (Range<usize>, Vec<u8>);

/// Deeper than this, nested rewrites keep the inner text as it is.
const DEEPEST: usize = 40;

/// Texts that compute the same: all rewrites at once, only those of expressions, only a block
/// around the body.
pub(super) fn preserving(parsed: &Parsed<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let mut expressions = returns(parsed);
    if parsed.constant && !expressions.is_empty() {
        // Before C++14 it is one statement and no block.
        let text = rewritten(parsed, 0..parsed.original().len(), &expressions, &[], 0);
        return vec![("expressions", text)];
    }
    if !parsed.strange {
        expressions.extend(assignments(parsed));
    }
    let mut all = expressions.clone();
    let mut moves = Vec::new();
    if !parsed.strange {
        all.extend(loops(parsed));
        moves.extend(braces(parsed));
        moves.extend(swaps(parsed));
        moves.sort_by_key(|m| (m.range().start, Reverse(m.range().end), m.rank()));
    }
    let whole = rewritten(parsed, 0..parsed.original().len(), &all, &moves, 0);
    let mut found = Vec::new();
    if whole != parsed.original() {
        found.push(("rewritten", whole.clone()));
    }
    if !expressions.is_empty() {
        let text = rewritten(parsed, 0..parsed.original().len(), &expressions, &[], 0);
        if text != whole {
            found.push(("expressions", text));
        }
    }
    found.push(("nested_block", nested_block(parsed)));
    found
}

/// `{ ... }` as `{ { ... } }`.
fn nested_block(parsed: &Parsed<'_>) -> Vec<u8> {
    let original = parsed.original();
    let (open, close) = (parsed.body.start + 1, parsed.body.end - 1);
    [
        &original[..open],
        b" {",
        &original[open..close],
        b"} ",
        &original[close..],
    ]
    .concat()
}

/// `return e;` as `return (e);`.
fn returns(parsed: &Parsed<'_>) -> Vec<Change> {
    parsed
        .captured("return")
        .into_iter()
        .filter_map(|node| node.named_child(0).filter(|e| !e.is_extra()))
        // A list cannot be bracketed, and what is moved out of the function is named without.
        .filter(|value| {
            let kind = value.kind();
            !parsed.objects
                || !(parsed.exact_type || kind == "initializer_list" || kind == "identifier")
        })
        .flat_map(|value| {
            let (start, end) = (value.start_byte(), value.end_byte());
            [(start..start, b"(".to_vec()), (end..end, b")".to_vec())]
        })
        .collect()
}

/// `x += e` as `x = x + (e)`, for variables of the function itself.
fn assignments(parsed: &Parsed<'_>) -> Vec<Change> {
    let locals = parsed.locals();
    let mut found = Vec::new();
    for node in parsed.captured("assignment") {
        let field = |name: &str| node.child_by_field_name(name);
        let (Some(left), Some(operator), Some(right)) =
            (field("left"), field("operator"), field("right"))
        else {
            continue;
        };
        let name = parsed.node_text(left);
        let Some(operation) = parsed.node_text(operator).strip_suffix(b"=") else {
            continue;
        };
        // An assignment inside of the right side would be moved with it.
        let simple = !parsed.node_text(right).contains(&b'=');
        if operation.is_empty() || !locals.contains(name) || !simple {
            continue;
        }
        found.push((
            operator.start_byte()..operator.end_byte(),
            [b"= ", name, b" ", operation, b" ("].concat(),
        ));
        found.push((right.end_byte()..right.end_byte(), b")".to_vec()));
    }
    found
}

/// `while (c) s` as `for (; c; ) s`.
fn loops(parsed: &Parsed<'_>) -> Vec<Change> {
    let mut found = Vec::new();
    for node in parsed.captured("while") {
        let (Some(keyword), Some(condition)) =
            (node.child(0), node.child_by_field_name("condition"))
        else {
            continue;
        };
        let range = condition.byte_range();
        if parsed.node_text(keyword) != b"while" || !bracketed(parsed, condition) {
            continue;
        }
        found.push((keyword.byte_range(), b"for".to_vec()));
        found.push((range.start + 1..range.start + 1, b"; ".to_vec()));
        found.push((range.end - 1..range.end - 1, b"; ".to_vec()));
    }
    found
}

/// `if (c) s` without `else` as `if (c) { s }`.
fn braces(parsed: &Parsed<'_>) -> Vec<Move> {
    let mut found = Vec::new();
    for node in parsed.captured("if") {
        if node.child_by_field_name("alternative").is_some() {
            continue;
        }
        let Some(branch) = node.child_by_field_name("consequence") else {
            continue;
        };
        if branch.kind() != "compound_statement" && certain(branch, 0) {
            found.push(Move::Wrap(branch.byte_range()));
        }
    }
    found
}

/// A change of structure.
enum Move {
    /// Braces around a statement.
    Wrap(Range<usize>),
    /// An `if` whose branches change places.
    Swap {
        whole: Range<usize>,
        condition: Range<usize>,
        first: Range<usize>,
        second: Range<usize>,
    },
}

impl Move {
    fn range(&self) -> &Range<usize> {
        match self {
            Move::Wrap(range) | Move::Swap { whole: range, .. } => range,
        }
    }

    /// Of two moves of the same statement the lower one is the outer one.
    fn rank(&self) -> u8 {
        match self {
            Move::Wrap(_) => 0,
            Move::Swap { .. } => 1,
        }
    }
}

/// The `if (c) a else b` that can become `if (!(c)) b else a`.
fn swaps(parsed: &Parsed<'_>) -> Vec<Move> {
    let mut found = Vec::new();
    for node in parsed.captured("if") {
        let field = |name: &str| node.child_by_field_name(name);
        let (Some(condition), Some(first), Some(otherwise)) = (
            field("condition"),
            field("consequence"),
            field("alternative"),
        ) else {
            continue;
        };
        let mut cursor = otherwise.walk();
        let second = otherwise
            .named_children(&mut cursor)
            .find(|n| !n.is_extra());
        let Some(second) = second else { continue };
        if bracketed(parsed, condition) && certain(first, 0) && certain(second, 0) {
            found.push(Move::Swap {
                whole: node.byte_range(),
                condition: condition.byte_range(),
                first: first.byte_range(),
                second: second.byte_range(),
            });
        }
    }
    found
}

fn bracketed(parsed: &Parsed<'_>, condition: Node<'_>) -> bool {
    let text = parsed.node_text(condition);
    let expression = match condition.kind() {
        "parenthesized_expression" => true,
        // C++ allows declarations there.
        "condition_clause" => {
            let value = condition.child_by_field_name("value");
            let declares = |n: Node<'_>| n.kind().ends_with("declaration");
            condition.named_child_count() == 1 && value.is_some_and(|v| !declares(v))
        }
        _ => false,
    };
    expression && text.starts_with(b"(") && text.ends_with(b")")
}

/// Whether a branch is the statement it looks like. A bare call may be a macro that expands to
/// several statements or to an `if`.
fn certain(branch: Node<'_>, depth: usize) -> bool {
    match branch.kind() {
        "compound_statement" | "return_statement" | "break_statement" | "continue_statement"
        | "goto_statement" => true,
        "expression_statement" => branch
            .named_child(0)
            .is_some_and(|e| matches!(e.kind(), "assignment_expression" | "update_expression")),
        "if_statement" if depth < DEEPEST => {
            let first = branch.child_by_field_name("consequence");
            let otherwise = branch.child_by_field_name("alternative");
            first.is_some_and(|n| certain(n, depth + 1))
                && otherwise.is_none_or(|o| {
                    let mut cursor = o.walk();
                    let mut children = o.named_children(&mut cursor);
                    children
                        .find(|n| !n.is_extra())
                        .is_some_and(|n| certain(n, depth + 1))
                })
        }
        _ => false,
    }
}

/// The bytes of `range` with all changes and moves done. `moves` are those inside of `range`, an
/// outer one before those inside of it.
fn rewritten(
    parsed: &Parsed<'_>,
    range: Range<usize>,
    changes: &[Change],
    moves: &[Move],
    depth: usize,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = range.start;
    let mut moves = moves;
    while let Some((outer, rest)) = moves.split_first() {
        let whole = outer.range();
        let (inner, after) = rest.split_at(rest.partition_point(|m| m.range().start < whole.end));
        moves = after;
        if depth >= DEEPEST {
            continue;
        }
        let part = |r: &Range<usize>| {
            let from = inner.partition_point(|m| m.range().start < r.start);
            let to = inner.partition_point(|m| m.range().start < r.end);
            rewritten(parsed, r.clone(), changes, &inner[from..to], depth + 1)
        };
        out.extend(changed(parsed, at..whole.start, changes));
        at = whole.end;
        out.extend(match outer {
            Move::Wrap(range) => [b"{ ", &part(range)[..], b" }"].concat(),
            Move::Swap {
                condition,
                first,
                second,
                ..
            } => [
                changed(parsed, whole.start..condition.start, changes),
                b"(!".to_vec(),
                changed(parsed, condition.clone(), changes),
                b")".to_vec(),
                changed(parsed, condition.end..first.start, changes),
                braced(part(second)),
                changed(parsed, first.end..second.start, changes),
                braced(part(first)),
            ]
            .concat(),
        });
    }
    out.extend(changed(parsed, at..range.end, changes));
    out
}

fn braced(statement: Vec<u8>) -> Vec<u8> {
    match statement.starts_with(b"{") {
        true => statement,
        false => [b"{ ", &statement[..], b" }"].concat(),
    }
}

/// The bytes of `range` with the changes inside of it done.
fn changed(parsed: &Parsed<'_>, range: Range<usize>, changes: &[Change]) -> Vec<u8> {
    let mut inside: Vec<&Change> = changes
        .iter()
        .filter(|(r, _)| range.start <= r.start && r.end <= range.end)
        .collect();
    inside.sort_by_key(|(r, _)| (r.start, r.end));
    let mut out = Vec::new();
    let mut at = range.start;
    for (r, text) in inside {
        if r.start < at {
            continue;
        }
        out.extend_from_slice(parsed.slice(at..r.start));
        out.extend_from_slice(text);
        at = r.end;
    }
    out.extend_from_slice(parsed.slice(at..range.end));
    out
}

/// Texts that compute something else: a condition turned round, a comparison off by one, a
/// constant changed, a return at the start.
pub(super) fn breaks_behaviour(parsed: &Parsed<'_>) -> Vec<(&'static str, Vec<u8>)> {
    if parsed.constant {
        // Where it is computed while compiling, another value may not compile.
        return Vec::new();
    }
    let whole = 0..parsed.original().len();
    let apply = |change: Change| changed(parsed, whole.clone(), &[change]);
    let mut found = Vec::new();
    if let Some(condition) = first_condition(parsed) {
        let text = parsed.slice(condition.clone());
        found.push((
            "negated_condition",
            apply((condition, [b"(!(", text, b"))"].concat())),
        ));
    }
    if let Some(change) = off_by_one(parsed) {
        found.push(("off_by_one", apply(change)));
    }
    let values: Vec<Node<'_>> = parsed
        .captured("return")
        .into_iter()
        .filter_map(|n| n.named_child(0).filter(|e| !e.is_extra()))
        .collect();
    let literal = values.iter().find(|v| v.kind() == "number_literal");
    if let (Some(literal), Some(result)) = (literal, parsed.result.as_deref()) {
        let text = parsed.node_text(*literal);
        found.push((
            "other_constant",
            apply((
                literal.byte_range(),
                [b"(", result, b") (__UINTPTR_TYPE__) (!", text, b")"].concat(),
            )),
        ));
    }
    if let Some(text) = early_return(parsed) {
        found.push(("early_return", text));
    }
    found
}

/// The first `if` condition, or what chooses in the first `?:`.
fn first_condition(parsed: &Parsed<'_>) -> Option<Range<usize>> {
    let condition = |n: Node<'_>| n.child_by_field_name("condition").map(|c| c.byte_range());
    let branch = parsed
        .captured("if")
        .into_iter()
        .find(|n| {
            n.child_by_field_name("condition")
                .is_some_and(|c| bracketed(parsed, c))
        })
        .and_then(condition);
    branch.or_else(|| parsed.captured("choice").first().map(|n| n.byte_range()))
}

fn off_by_one(parsed: &Parsed<'_>) -> Option<Change> {
    let locals = parsed.locals();
    let number = |node: Node<'_>, side: &str| {
        node.child_by_field_name(side)
            .is_some_and(|n| n.kind() == "number_literal" || locals.contains(parsed.node_text(n)))
    };
    let comparison = parsed
        .captured("comparison")
        .into_iter()
        // Objects that can be compared by one operator need not have the other.
        .find(|n| !parsed.objects || number(*n, "left") || number(*n, "right"))?;
    let operator = comparison.child_by_field_name("operator")?;
    let other: &[u8] = match parsed.node_text(operator) {
        b"<" => b"<=",
        b"<=" => b"<",
        b">" => b">=",
        b">=" => b">",
        _ => return None,
    };
    Some((operator.byte_range(), other.to_vec()))
}
