//! Comma separated values as RFC 4180 has them: quoted fields, doubled quotes, CRLF or LF.

/// The records of `text` with the line each begins on, from 1; empty lines are none, and lines
/// that begin with `#` are remarks. A byte order mark is skipped. A quote that never closes ends
/// with the text.
pub(super) fn records(text: &str) -> Vec<(usize, Vec<String>)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while chars.peek().is_some() {
        let first = line;
        let remark = chars.peek() == Some(&'#');
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut bare = true;
        while let Some(c) = chars.next() {
            line += usize::from(c == '\n');
            let field = fields.last_mut().expect("there is always one");
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                '"' if quoted => quoted = false,
                '"' if field.is_empty() && bare && !remark => {
                    quoted = true;
                    bare = false;
                }
                ',' if !quoted => {
                    fields.push(String::new());
                    bare = true;
                }
                '\n' if !quoted => break,
                '\r' if !quoted && matches!(chars.peek(), Some('\n') | None) => {}
                c => field.push(c),
            }
        }
        let empty = fields.len() == 1 && fields[0].trim().is_empty();
        if !remark && !empty {
            found.push((first, fields));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_line_ends_and_remarks() {
        let text = "\u{feff}# a, remark\r\na,\"b, \"\"c\"\"\"\r\n\n\"two\nlines\",\nlast,x\"y";
        let expected: Vec<(usize, Vec<String>)> = vec![
            (2, vec!["a".into(), "b, \"c\"".into()]),
            (4, vec!["two\nlines".into(), String::new()]),
            (6, vec!["last".into(), "x\"y".into()]),
        ];
        assert_eq!(records(text), expected);
        assert!(records("").is_empty());
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back(rows in prop::collection::vec(prop::collection::vec("[a-c\",#\r\n]{0,6}", 2..4), 0..6)) {
            let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let text: String = rows
                .iter()
                .map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n")
                .collect();
            let back: Vec<Vec<String>> = records(&text).into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(back, rows);
        }
    }
}
