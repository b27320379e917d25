//! Undoes what a chat added around code: the fence's indentation, numbers in front of lines, HTML
//! entities, CRLF. Each only where it is certain, and each with a note. Everything else is the
//! model's own text and stays.

use std::sync::LazyLock;

use regex::Regex;

use super::Note;

/// `raw` as the model meant it; says in `notes` what was undone.
pub(super) fn clean(raw: &str, indent: usize, original: &[u8], notes: &mut Vec<Note>) -> String {
    let mut text = raw.to_string();
    let mut undo = |note: Note, done: Option<String>| {
        if let Some(done) = done {
            notes.push(note);
            text = done;
        }
        text.clone()
    };
    let now = undo(Note::Dedented, dedented(raw, indent));
    let now = undo(Note::LineNumbersRemoved, without_numbers(&now));
    let now = undo(Note::EntitiesDecoded, decoded(&now, original));
    let crlf = now.contains("\r\n") && !original.windows(2).any(|w| w == b"\r\n");
    undo(Note::CrlfToLf, crlf.then(|| now.replace("\r\n", "\n")))
}

/// Without up to `indent` blanks before each line, as CommonMark reads an indented fence.
fn dedented(text: &str, indent: usize) -> Option<String> {
    let strip = |line: &str| {
        let blanks = line
            .bytes()
            .take(indent)
            .take_while(|b| *b == b' ' || *b == b'\t');
        line[blanks.count()..].to_string()
    };
    let out: String = text.split_inclusive('\n').map(strip).collect();
    (out != text).then_some(out)
}

/// Without the numbers, if every line that is not blank has one and they count up one by one.
fn without_numbers(text: &str) -> Option<String> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[ \t]*(\d{1,6})(?: ?[:|.)\u{2502}] ?|[ \t]|$)")
            .expect("a pattern of this file compiles")
    });
    let mut out = String::with_capacity(text.len());
    let mut last: Option<u32> = None;
    let mut blank = 0;
    let mut numbered = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        if body.trim().is_empty() {
            blank += 1;
            out.push_str(line);
            continue;
        }
        let found = NUMBER.captures(body)?;
        let number: u32 = found[1].parse().ok()?;
        let counts = |last: u32| number > last && number - last <= 1 + blank;
        if !last.is_none_or(counts) {
            return None;
        }
        (last, blank) = (Some(number), 0);
        numbered += 1;
        out.push_str(&line[found.get(0)?.end()..]);
    }
    (numbered >= 2).then_some(out)
}

/// With HTML entities decoded, if they stand where C has operators. In a literal or a comment they
/// may be meant, and where the original has them they are.
fn decoded(text: &str, original: &[u8]) -> Option<String> {
    const ENTITIES: &[(&str, &str)] = &[
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    let at = |rest: &str| ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
    let original = String::from_utf8_lossy(original);
    if !bare_text(text).contains(['\u{1}']) || ENTITIES.iter().any(|(e, _)| original.contains(e)) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.find('&') {
        out.push_str(&rest[..next]);
        rest = &rest[next..];
        let (entity, plain) = at(rest).copied().unwrap_or(("&", "&"));
        out.push_str(plain);
        rest = &rest[entity.len()..];
    }
    out.push_str(rest);
    Some(out)
}

/// `text` with every entity outside of literals and comments replaced by U+0001.
fn bare_text(text: &str) -> String {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|&(?:lt|gt|amp|quot|apos|#34|#39|#x27);"#,
        )
        .expect("a pattern of this file compiles")
    });
    PART.replace_all(text, |found: &regex::Captures| {
        if found[0].starts_with('&') {
            "\u{1}"
        } else {
            ""
        }
    })
    .into_owned()
}

/// Whether `text` is a patch: hunk headers, file headers, or lines marked as old and new.
pub(super) fn is_diff(text: &str) -> bool {
    let mut lines = text.lines().peekable();
    let (mut old, mut new, mut context, mut other) = (0, 0, 0, 0);
    while let Some(line) = lines.next() {
        if line.starts_with("@@ -") && line[3..].contains(" @@") {
            return true;
        }
        if line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ ")) {
            return true;
        }
        match line.bytes().next() {
            Some(b'-') => old += 1,
            Some(b'+') => new += 1,
            Some(b' ') => context += 1,
            Some(_) => other += 1,
            None => {}
        }
    }
    old > 0 && new > 0 && other == 0 && old + new + context > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_only_if_they_count() {
        let gone = |t: &str| without_numbers(t);
        assert_eq!(
            gone("1: int f(void)\n2: {\n\n3: }\n").unwrap(),
            "int f(void)\n{\n\n}\n"
        );
        assert_eq!(
            gone(" 9 | int x;\n10 |   y();\n").unwrap(),
            "int x;\n  y();\n"
        );
        assert_eq!(gone("7\tint x;\n8\t\ty();").unwrap(), "int x;\n\ty();");
        assert_eq!(gone("1\n1\n2\n"), None);
        assert_eq!(gone("1: int x;\nint y;\n"), None);
        assert_eq!(gone("1: int x;\n"), None);
    }

    #[test]
    fn entities_in_literals_are_meant() {
        assert_eq!(
            decoded("if (a &lt; b &amp;&amp; c) s = &quot;&lt;&quot;;", b"").unwrap(),
            "if (a < b && c) s = \"<\";"
        );
        assert_eq!(
            decoded(
                "puts(\"&lt;\"); /* &gt; */ x = y &lt;1;",
                b"puts(\"&lt;\");"
            ),
            None
        );
        assert_eq!(decoded("puts(\"&lt;\");", b""), None);
        assert_eq!(
            decoded("a = &amplitude; b = &amp;amp;c;", b"").unwrap(),
            "a = &amplitude; b = &amp;c;"
        );
    }
}
