//! A text in which formatting cannot be seen, for a dissimilarity that reformatting does not
//! change. It is made for comparison only and never compiled.

use std::iter::Peekable;

use super::facts::LanguageId;
use super::lex::{Dialect, Kind, lex};

/// `text` without comments and layout: tokens separated by one space, a line ending after `;`
/// outside of parentheses, after `{`, after `}` (unless `;` or `,` follows) and around directives.
/// Any bytes are accepted; texts that differ in white space and comments only give the same bytes.
pub fn normalised(language: LanguageId, text: &[u8]) -> Vec<u8> {
    let dialect = language.facts().dialect;
    let mut out = Vec::with_capacity(text.len());
    let mut line: Vec<&[u8]> = Vec::new();
    let mut parentheses = 0usize;
    let end = |line: &mut Vec<&[u8]>, out: &mut Vec<u8>| {
        if !line.is_empty() {
            out.extend_from_slice(&line.join(&b' '));
            out.push(b'\n');
            line.clear();
        }
    };
    let lexed = lex(dialect, text);
    let mut tokens = lexed
        .tokens
        .iter()
        .filter(|t| t.kind != Kind::Comment)
        .map(|t| (t.kind, t.text(text)))
        .peekable();
    while let Some((kind, token)) = tokens.next() {
        if kind == Kind::Directive {
            end(&mut line, &mut out);
            out.extend_from_slice(&directive(dialect, token));
            out.push(b'\n');
            continue;
        }
        line.push(token);
        match token {
            b"(" => parentheses += 1,
            b")" => parentheses = parentheses.saturating_sub(1),
            b"{" => end(&mut line, &mut out),
            b"}" if !followed(&mut tokens) => end(&mut line, &mut out),
            b";" if parentheses == 0 => end(&mut line, &mut out),
            _ => {}
        }
    }
    end(&mut line, &mut out);
    out
}

/// Whether the next token goes on with what a brace closed.
fn followed<'t>(tokens: &mut Peekable<impl Iterator<Item = (Kind, &'t [u8])>>) -> bool {
    tokens
        .peek()
        .is_some_and(|(_, next)| matches!(*next, b";" | b","))
}

/// A directive's words, its comments and continued lines gone.
fn directive(dialect: Dialect, text: &[u8]) -> Vec<u8> {
    let rest = text.strip_prefix(b"#").unwrap_or(text);
    let lexed = lex(dialect, rest);
    let mut out = b"#".to_vec();
    let mut last = 0;
    let mut spaced = false;
    for token in lexed.tokens.iter() {
        spaced |= token.start > last;
        last = token.end;
        if token.kind == Kind::Comment {
            spaced = true;
            continue;
        }
        if spaced && out.len() > 1 {
            out.push(b' ');
        }
        spaced = false;
        out.extend_from_slice(token.text(rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normalised(text: &[u8]) -> Vec<u8> {
        super::normalised(LanguageId::C, text)
    }

    #[test]
    fn one_statement_is_one_line() {
        let text = b"int f(int a)\r\n{ /* c */ for(;;a++) if(a>=1){return a;} // x\n #  define  A /* y */ 1 \\\n 2\n}";
        assert_eq!(
            String::from_utf8(normalised(text)).unwrap(),
            "int f ( int a ) {\nfor ( ; ; a ++ ) if ( a >= 1 ) {\nreturn a ;\n}\n#define A 1 2\n}\n"
        );
    }

    /// Pieces that stay apart whatever stands between them.
    const PIECES: [&str; 12] = [
        "int", "x", "(", ")", "{", "}", ";", "\"a b\"", "'c'", "12", ",", "[",
    ];

    proptest! {
        #[test]
        fn layout_and_comments_do_not_show(
            picks in proptest::collection::vec((0..PIECES.len(), 0usize..5, 0usize..5), 0..60),
        ) {
            const GAPS: [&str; 5] = [" ", "\n", "\t\r\n ", " /* { */ ", " // x;\n"];
            let text = |pick: fn(&(usize, usize, usize)) -> usize| {
                picks.iter().map(|p| format!("{}{}", PIECES[p.0], GAPS[pick(p)])).collect::<String>()
            };
            let a = normalised(text(|p| p.1).as_bytes());
            prop_assert_eq!(&a, &normalised(text(|p| p.2).as_bytes()));
            prop_assert_eq!(&normalised(&a), &a, "it is its own normal form");
        }

        #[test]
        fn any_bytes_are_accepted(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            normalised(&text);
        }
    }
}
