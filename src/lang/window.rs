//! Of two sides of a file, the part that has to be read to find the functions that differ: from the end
//! of a function before the first difference to the end of one behind the last. What is outside of it
//! is equal on both sides.
//!
//! Where a function ends is guessed by a brace alone at the margin. The guess decides nothing: a part
//! whose outline is not that of whole things, or that may begin inside of a comment, is not used, and
//! the whole of both sides is read. C only: in C++ the name of a function depends on what is around it.

use std::ops::Range;

use super::facts::{Family, LanguageId};
use super::lex::Conditional;
use super::outline::{Outline, Top};
use super::words::is_statement_keyword;

/// The part of each side, and its outline.
pub(super) struct Window<'s> {
    /// Where it is in its side.
    pub(super) range: Range<usize>,
    /// Of that part alone.
    pub(super) outline: Outline<'s>,
}

/// The parts of both sides that hold all that differs; nothing where that cannot be told by less than
/// reading everything.
pub(super) fn windows<'s>(id: LanguageId, sides: [&'s [u8]; 2]) -> Option<[Window<'s>; 2]> {
    if id.facts().family != Family::C {
        return None;
    }
    let [start, tail] = bounds(sides)?;
    let window = |side: &'s [u8]| {
        let range = start..side.len() - tail;
        let outline = Outline::of(id, &side[range.clone()]);
        stands_alone(&outline).then_some(Window { range, outline })
    };
    Some([window(sides[0])?, window(sides[1])?])
}

/// How many bytes before and behind the window both sides have in common.
fn bounds([a, b]: [&[u8]; 2]) -> Option<[usize; 2]> {
    let head = common_head(a, b);
    let tail = common_tail(&a[head..], &b[head..]);
    let end = "\n}\n".len();
    let start = a[..head]
        .windows(end)
        .rposition(|w| w == b"\n}\n")
        .map_or(0, |at| at + end);
    let behind = &a[a.len() - tail..];
    let kept = behind
        .windows(end)
        .position(|w| w == b"\n}\n")
        .map_or(0, |at| tail - at - end);
    let mut marks = a[..start].windows(2).rev();
    let mark = marks.find(|w| matches!(*w, b"/*" | b"*/"));
    let inside_comment = mark == Some(b"/*");
    let whole = start == 0 && kept == 0;
    (!inside_comment && !whole).then_some([start, kept])
}

/// Bytes are compared in pieces of this length first, which a processor does many at once.
const PIECE: usize = 64;

fn common_head(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.chunks_exact(PIECE).zip(b.chunks_exact(PIECE));
    let whole = PIECE * pieces.take_while(|(x, y)| x == y).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(x, y)| x == y).count()
}

fn common_tail(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.rchunks_exact(PIECE).zip(b.rchunks_exact(PIECE));
    let whole = PIECE * pieces.take_while(|(x, y)| x == y).count();
    let rest = a[..a.len() - whole].iter().rev();
    let rest = rest.zip(b[..b.len() - whole].iter().rev());
    whole + rest.take_while(|(x, y)| x == y).count()
}

/// Whether a part of a file consists of whole things, as far as its tokens tell: it begins and ends at top
/// level.
fn stands_alone(o: &Outline<'_>) -> bool {
    let mut level = 0usize;
    for i in 0..o.tokens.len() {
        match o.conditional(i) {
            Some(Conditional::Open { .. }) => level += 1,
            Some(Conditional::Next) if level == 0 => return false,
            Some(Conditional::Close) => match level.checked_sub(1) {
                Some(less) => level = less,
                None => return false,
            },
            _ => {}
        }
        // The end of a comment that began before.
        let adjacent = |next: usize| o.tokens[i].end == o.tokens[next].start;
        if o.is(i, "*") && o.is(i + 1, "/") && adjacent(i + 1) {
            return false;
        }
    }
    let whole = |item: &Top| match item {
        Top::Function(block) => {
            block.closed && !block.head.clone().any(|i| is_statement_keyword(o.text(i)))
        }
        Top::Block(_) | Top::Closing(_) => false,
        _ => true,
    };
    level == 0 && !o.open_comment && o.items.iter().all(whole)
}
