//! One line of a stack trace, in the forms the sanitizers of gcc and clang print, with and without
//! a symbolizer. A frame that was cut off by the end of the log is not read at all: half a path or
//! half a line number would be a wrong one.

use std::sync::LazyLock;

use bstr::ByteSlice;
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::kind::bytes_regex;

/// One frame of a stack. Text that is not UTF-8 is replaced by U+FFFD.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Its place in the stack as printed, from 0.
    pub number: u32,
    /// The address, 0 where none is printed (ThreadSanitizer).
    pub address: u64,
    /// The function; `None` without a symbolizer.
    pub function: Option<String>,
    /// The source file as printed; `None` where the symbolizer knew none.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1; gcc prints none.
    pub column: Option<u32>,
    /// The executable or library, printed where no source file is.
    pub module: Option<String>,
    /// The offset in the module.
    pub offset: Option<u64>,
}

/// Where in a line a frame was found, and the frame.
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) frame: Frame,
}

/// The frame in `line`, anywhere in it. `whole` is false for a last line without a line end.
pub(super) fn find(line: &[u8], whole: bool) -> Option<Found> {
    // `#0 0x55 in f /a.c:1:2`, `#0 0x55  (prog+0x1)`
    static ADDRESS: LazyLock<Regex> =
        LazyLock::new(|| bytes_regex(r"#(\d{1,9}) 0x([0-9a-f]{1,16}) (?:in )?"));
    // ThreadSanitizer: `    #0 f /a.c:1 (prog+0x1)`. Without the indentation, `#3 something` is
    // anybody's text.
    static NAME: LazyLock<Regex> = LazyLock::new(|| bytes_regex(r"^ {4,}#(\d{1,9}) "));
    if !whole || !line.contains(&b'#') {
        return None;
    }
    let start = ADDRESS.captures(line).or_else(|| NAME.captures(line))?;
    let at = start.get(0).expect("group 0 is the match");
    let address = start.get(2).map(|m| hex(m.as_bytes()));
    let rest = String::from_utf8_lossy(&line[at.end()..]).into_owned();
    let mut frame = Frame {
        number: std::str::from_utf8(&start[1]).ok()?.parse().ok()?,
        address: address.unwrap_or(0),
        ..Frame::default()
    };
    if address.is_none() && !(rest.contains(" (") && rest.contains("+0x")) {
        return None;
    }
    fill(&mut frame, rest.trim());
    Some(Found {
        start: at.start() + line[at.start()..].find_byte(b'#').unwrap_or(0),
        frame,
    })
}

fn fill(frame: &mut Frame, rest: &str) {
    let (function, place) = split_function(rest);
    if !function.is_empty() {
        frame.function = Some(function.to_string());
    }
    let place = place.strip_prefix("<null>").unwrap_or(place).trim_start();
    if place.starts_with('(') {
        module(frame, place);
    } else if let Some((file, line, column)) = location(place) {
        frame.file = Some(file.to_string());
        frame.line = Some(line);
        frame.column = column;
        if let Some(at) = place.find(" (") {
            module(frame, &place[at + 1..]);
        }
    } else if !place.is_empty() {
        frame.file = Some(place.to_string());
    }
}

/// Splits `operator new(unsigned long) /a b.cpp:3` where the place begins: at the first blank
/// outside brackets after which a path, a module or `<null>` stands.
fn split_function(rest: &str) -> (&str, &str) {
    if rest.starts_with('(') && rest.contains("+0x") && !rest.starts_with("(anonymous") {
        return ("", rest);
    }
    let mut depth = 0i32;
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = (depth - 1).max(0),
            ' ' if depth == 0 => {
                let place = &rest[at + 1..];
                let word = place.split(' ').next().unwrap_or("");
                if place.starts_with(['/', '(', '.'])
                    || place.starts_with("<null>")
                    || location(word).is_some()
                {
                    return (&rest[..at], place);
                }
            }
            _ => {}
        }
    }
    (rest, "")
}

/// `path:line` or `path:line:column` at the start of `text`; whatever follows is ignored, since
/// other output may be glued to it.
pub(super) fn location(text: &str) -> Option<(&str, u32, Option<u32>)> {
    let mut from = 0;
    while let Some(colon) = text[from..].find(':').map(|i| i + from) {
        let (line, after) = number(&text[colon + 1..]);
        if let Some(line) = line
            && colon > 0
        {
            let column = after.strip_prefix(':').and_then(|t| number(t).0);
            return Some((&text[..colon], line, column));
        }
        from = colon + 1;
    }
    None
}

/// The number at the start of `text`, if it fits, and what follows its digits.
fn number(text: &str) -> (Option<u32>, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

/// `(module+0x1f)`, with or without a build id behind it.
fn module(frame: &mut Frame, text: &str) {
    let inner = text
        .strip_prefix('(')
        .and_then(|t| t.split_once(')'))
        .map(|(inner, _)| inner);
    if let Some((module, offset)) = inner.and_then(|t| t.rsplit_once("+0x")) {
        frame.module = Some(module.to_string());
        frame.offset = u64::from_str_radix(offset, 16).ok();
    }
}

fn hex(digits: &[u8]) -> u64 {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|d| u64::from_str_radix(d, 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let f = find(line.as_bytes(), true).unwrap().frame;
        format!(
            "{} {} {} {} {} {}",
            f.number,
            f.function.as_deref().unwrap_or("-"),
            f.file.as_deref().unwrap_or("-"),
            f.line.map_or("-".into(), |l| l.to_string()),
            f.column.map_or("-".into(), |l| l.to_string()),
            f.module.as_deref().unwrap_or("-"),
        )
    }

    #[test]
    fn frames_in_all_their_forms() {
        for (line, expected) in [
            ("    #0 0x55 in sum /build/a.c:8", "0 sum /build/a.c 8 - -"),
            (
                "    #1 0x55 in main /b d/a.c:8:12",
                "1 main /b d/a.c 8 12 -",
            ),
            (
                "    #2 0x55 in malloc (/tmp/x/p+0x9d1ff)",
                "2 malloc - - - /tmp/x/p",
            ),
            (
                "    #12 0x55  (/tmp/x/p+0x9) (BuildId: 9ad0)",
                "12 - - - - /tmp/x/p",
            ),
            (
                "    #0 bump /build/race.c:8:4 (race+0x11) (BuildId: 1)",
                "0 bump /build/race.c 8 4 race",
            ),
            (
                "    #0 pthread_create <null> (race+0x51)",
                "0 pthread_create - - - race",
            ),
            (
                "    #0 0x5 in operator new(unsigned long) ../../asan.cpp:95",
                "0 operator new(unsigned long) ../../asan.cpp 95 - -",
            ),
            (
                "    #3 0x5 in std::map<int, char *>::at(int) const /m.h:1:2",
                "3 std::map<int, char *>::at(int) const /m.h 1 2 -",
            ),
            (
                "    #2 0x7f in __libc_start_main csu/../csu/libc-start.c:360:3",
                "2 __libc_start_main csu/../csu/libc-start.c 360 3 -",
            ),
            ("ok 3    #0 0x55 in f a.c:7ok 4 - b", "0 f a.c 7 - -"),
            ("test #3     #1 0x55 in f a.c:7", "1 f a.c 7 - -"),
            (
                "    #0 0x55 in f.part.0 (/tmp/x/p+0x9)",
                "0 f.part.0 - - - /tmp/x/p",
            ),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn other_text_with_a_hash_is_no_frame() {
        for line in [
            "test #3 passed",
            "    #3 of 7",
            "#1 f /a.c:1 (p+0x1)",
            "    #99999999999 0x1 in f",
        ] {
            assert!(find(line.as_bytes(), true).is_none(), "{line}");
        }
        assert!(find(b"    #0 0x55 in sum /build/a.c:8", false).is_none());
    }
}
