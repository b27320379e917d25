//! The fenced blocks of a reply. As CommonMark has them, and beyond it what models really write:
//! an opening fence behind prose on its line, a closing one behind the last brace, a second
//! opening one where the first was never closed. A closing fence inside a C comment closes nothing
//! if a better one follows. Nothing here knows which block is the answer.

use std::ops::Range;

use super::c_text::CommentState;
use crate::lang::LanguageId;

/// What the label of a block says its language is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    /// The one asked for.
    Own,
    /// None, or one that names no language.
    Plain,
    /// A near relative of it.
    Relative,
    /// A patch.
    Diff,
    /// Any other.
    Other,
}

/// One block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block {
    pub(super) label: Label,
    /// The label's first word as written.
    pub(super) word: String,
    /// Its content in the reply.
    pub(super) content: Range<usize>,
    /// Whether a closing fence was there.
    pub(super) closed: bool,
    /// Columns of blanks before the opening fence.
    pub(super) indent: usize,
}

#[derive(Clone, Copy)]
struct Line<'a> {
    start: usize,
    /// With its line end.
    end: usize,
    /// Without.
    text: &'a str,
}

struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    label: Label,
    word: String,
}

/// All blocks of `text`, in order.
pub(super) fn blocks(text: &str, language: LanguageId) -> Vec<Block> {
    let lines = lines(text);
    let mut blocks = Vec::new();
    // One comment that never ends is enough to stop believing in comments.
    let mut mind_comments = true;
    let mut i = 0;
    while i < lines.len() {
        let Some(fence) = opening(lines[i].text, language) else {
            i += 1;
            continue;
        };
        let start = lines[i].end;
        let (end, next) = close(&lines, i + 1, &fence, &mut mind_comments, language);
        blocks.push(Block {
            label: fence.label,
            word: fence.word,
            content: start..end.unwrap_or(next.map_or(text.len(), |n| lines[n].start)),
            closed: end.is_some(),
            indent: fence.indent,
        });
        i = match (end, next) {
            (Some(_), Some(next)) => next + 1,
            (None, Some(next)) => next,
            (_, None) => lines.len(),
        };
    }
    blocks
}

/// Where the content ends if the fence is closed, and the line that closes it or opens the next.
fn close(
    lines: &[Line],
    from: usize,
    fence: &Fence,
    mind_comments: &mut bool,
    language: LanguageId,
) -> (Option<usize>, Option<usize>) {
    let is_c = matches!(fence.label, Label::Own | Label::Plain | Label::Relative);
    let mut state = CommentState::default();
    let mut in_comment_at = None;
    for (i, line) in lines.iter().enumerate().skip(from) {
        let closing = ends_block(line.text, fence);
        if let Some(before) = closing {
            let inside = is_c && *mind_comments && state.in_block_comment();
            if !inside {
                return (Some(line.start + before), Some(i));
            }
            in_comment_at.get_or_insert((line.start + before, i));
        } else if reopens(line.text, fence, language) && !state.in_block_comment() {
            return (None, Some(i));
        }
        state.feed(line.text);
    }
    if let Some((end, i)) = in_comment_at {
        *mind_comments = false;
        return (Some(end), Some(i));
    }
    (None, None)
}

/// How much of a line that closes `fence` is still content; `None` if it does not close it.
fn ends_block(line: &str, fence: &Fence) -> Option<usize> {
    let trimmed = line.trim_end();
    let marks = trimmed.len() - trimmed.trim_end_matches(fence.mark).len();
    if marks < fence.length {
        return None;
    }
    let before = &trimmed[..trimmed.len() - marks];
    if before.trim().is_empty() {
        return Some(0);
    }
    // `}```` ends the function and the block, and `;` a declaration.
    let code = before.trim_end();
    (code.ends_with(['}', ';']) && marks == fence.length && fence.mark == '`')
        .then_some(before.len())
}

/// Whether a line opens another block of the same kind, so that this one was never closed.
fn reopens(line: &str, fence: &Fence, language: LanguageId) -> bool {
    opening(line, language).is_some_and(|next| {
        next.mark == fence.mark && next.length == fence.length && !next.word.is_empty()
    })
}

fn opening(line: &str, language: LanguageId) -> Option<Fence> {
    let indented = line.trim_start_matches([' ', '\t']);
    let indent = line.len() - indented.len();
    for mark in ['`', '~'] {
        let length = indented.len() - indented.trim_start_matches(mark).len();
        let info = indented[length..].trim();
        if length >= 3 && !(mark == '`' && info.contains('`')) {
            let (label, word) = label(info, language);
            return Some(Fence {
                mark,
                length,
                indent,
                label,
                word,
            });
        }
    }
    // `Here it is: ```c`
    let trimmed = line.trim_end();
    let at = trimmed.find("```")?;
    let (label, word) = label(&trimmed[at + 3..], language);
    let named = label == Label::Own && trimmed[at + 3..].trim() == word;
    named.then_some(Fence {
        mark: '`',
        length: 3,
        indent: 0,
        label,
        word,
    })
}

fn label(info: &str, language: LanguageId) -> (Label, String) {
    let facts = language.facts();
    let word = info
        .trim_start_matches(['{', '.'])
        .split([' ', '\t', ',', '}', ':'])
        .next()
        .unwrap_or("");
    let lower = word.to_ascii_lowercase();
    let label = match lower.as_str() {
        "" | "text" | "txt" | "plaintext" | "plain" | "code" | "none" => Label::Plain,
        "diff" | "patch" | "udiff" => Label::Diff,
        name if facts.labels.contains(&name) => Label::Own,
        name if facts.relatives.contains(&name) => Label::Relative,
        // `src/file.c`
        name if name.contains('.') && is_file_of(name, language) => Label::Own,
        _ => Label::Other,
    };
    (label, word.to_string())
}

fn is_file_of(name: &str, language: LanguageId) -> bool {
    let (_, extension) = name.rsplit_once('.').unwrap_or_default();
    extension == "h" || language.facts().extensions.contains(&extension)
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let at = start;
            start += line.len();
            Line {
                start: at,
                end: start,
                text: line.trim_end_matches(['\n', '\r']),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(Label, &str, bool)> {
        blocks(text, LanguageId::C)
            .into_iter()
            .map(|b| (b.label, &text[b.content], b.closed))
            .collect()
    }

    #[test]
    fn a_longer_fence_holds_shorter_ones() {
        assert_eq!(
            shown("````c\n/*\n```\n*/\nint x;\n```\n````\n"),
            [(Label::Own, "/*\n```\n*/\nint x;\n```\n", true)]
        );
    }

    #[test]
    fn a_fence_in_a_comment_closes_nothing_unless_nothing_else_does() {
        assert_eq!(
            shown("```c\n/*\n```\n*/\nint x;\n```\n"),
            [(Label::Own, "/*\n```\n*/\nint x;\n", true)]
        );
        assert_eq!(
            shown("```c\n/* open\n```\n```c\nint y;\n```"),
            [
                (Label::Own, "/* open\n", true),
                (Label::Own, "int y;\n", true)
            ]
        );
    }

    #[test]
    fn what_models_write_for_fences() {
        assert_eq!(
            shown("So: ```c\nint x;```\nbye"),
            [(Label::Own, "int x;", true)]
        );
        assert_eq!(
            shown("```c\nint x;\n```c\nint y;\n```"),
            [
                (Label::Own, "int x;\n", false),
                (Label::Own, "int y;\n", true)
            ]
        );
        assert_eq!(
            shown("~~~ C\nint x;\n~~~"),
            [(Label::Own, "int x;\n", true)]
        );
        assert_eq!(shown("use ```x``` here\n"), []);
        assert_eq!(
            shown("```cpp\nint x;\n```"),
            [(Label::Relative, "int x;\n", true)]
        );
        assert_eq!(shown("```src/a.c\nint x;"), [(Label::Own, "int x;", false)]);
    }
}
