//! A preprocessed unit without its layout: what a compiler makes code of. Two units of the same
//! substance have the same code; only the positions that a compiler writes down may differ, and
//! what a new text in the unit makes of `__LINE__`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::facts::LanguageId;
use super::lex::{Kind, lex};
use super::unit::marker;
use crate::digest::Digest;

/// Words whose value is a position.
const POSITIONS: [&[u8]; 5] = [
    b"__LINE__",
    b"__builtin_LINE",
    b"__builtin_COLUMN",
    b"__builtin_source_location",
    b"source_location",
];

/// See the top of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Substance {
    /// Of all tokens and directives in their order, without line markers, comments and white space.
    pub digest: Digest,
    /// The macros that may give a position where they are used.
    positional: BTreeSet<String>,
}

impl Substance {
    /// Of a unit as `-E -dD` gives it.
    pub fn of(language: LanguageId, preprocessed: &[u8]) -> Substance {
        let dialect = language.facts().dialect;
        let mut hasher = blake3::Hasher::new();
        let mut bodies: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
        for token in &lex(dialect, preprocessed).tokens {
            let text = token.text(preprocessed);
            match token.kind {
                Kind::Comment => continue,
                Kind::Directive if marker(text).is_some() => continue,
                Kind::Directive => {
                    if let Some((name, body)) = definition(text) {
                        bodies.entry(name).or_default().push(body);
                    }
                }
                _ => {}
            }
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        let words = |body: &[u8]| -> BTreeSet<Vec<u8>> {
            let tokens = lex(dialect, body).tokens.into_iter();
            let words = tokens.filter(|t| t.kind == Kind::Word);
            words.map(|t| t.text(body).to_vec()).collect()
        };
        let uses: BTreeMap<&[u8], BTreeSet<Vec<u8>>> = bodies
            .into_iter()
            .map(|(name, bodies)| (name, bodies.into_iter().flat_map(words).collect()))
            .collect();
        let mut positional: BTreeSet<&[u8]> = BTreeSet::new();
        loop {
            let gives = |word: &Vec<u8>| {
                POSITIONS.contains(&word.as_slice()) || positional.contains(word.as_slice())
            };
            let more = uses.iter().filter(|(_, words)| words.iter().any(gives));
            let more: BTreeSet<&[u8]> = more.map(|(name, _)| *name).collect();
            if more.len() == positional.len() {
                break;
            }
            positional = more;
        }
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        Substance {
            digest: Digest(*hasher.finalize().as_bytes()),
            positional: positional.into_iter().map(name).collect(),
        }
    }

    /// Whether what `code` means in this unit may depend on where it stands.
    pub fn is_positional(&self, language: LanguageId, code: &[u8]) -> bool {
        lex(language.facts().dialect, code).tokens.iter().any(|t| {
            let text = t.text(code);
            match t.kind {
                Kind::Word => {
                    POSITIONS.contains(&text)
                        || std::str::from_utf8(text).is_ok_and(|w| self.positional.contains(w))
                }
                // It may define a macro, or anything else.
                Kind::Directive => POSITIONS
                    .iter()
                    .any(|word| text.windows(word.len()).any(|w| w == *word)),
                _ => false,
            }
        })
    }
}

/// Name and body (with parameters) of a macro definition.
fn definition(directive: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = directive.strip_prefix(b"#")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"define")?;
    let rest = rest
        .first()
        .is_some_and(u8::is_ascii_whitespace)
        .then(|| rest.trim_ascii_start())?;
    let word = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_' || *c == b'$' || *c >= 0x80;
    let end = rest.iter().position(|c| !word(c)).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Substance {
        Substance::of(LanguageId::C, text.as_bytes())
    }

    #[test]
    fn layout_is_no_substance_and_everything_else_is() {
        let unit = "# 1 \"a.c\"\n#define X 1\nint a;\nint f(void) { return a + 1; }\n";
        let same = [
            "# 7 \"b/a.c\" 2\n#define X 1\n\n\nint a;\n# 40 \"a.c\"\nint f(void)\n{\n  return a + 1;\n}\n",
            "#define X 1\nint a; /* new */ int f(void) { return a+1; }",
        ];
        for text in same {
            assert_eq!(of(text).digest, of(unit).digest, "{text}");
        }
        let others = [
            "#define X 2\nint a;\nint f(void) { return a + 1; }\n",
            "int a;\nint f(void) { return a + 1; }\n",
            "#define X 1\nint a;\n#pragma pack(1)\nint f(void) { return a + 1; }\n",
            "#define X 1\nint a;\nint f(void) { return a ++ 1; }\n",
            "#define X 1\nint f(void) { return a + 1; }\nint a;\n",
            "#define X 1\nint a;\nint f(void) { return a + 1; }\n\"\"",
        ];
        for text in others {
            assert_ne!(of(text).digest, of(unit).digest, "{text}");
        }
        // Where one token ends and the next begins counts.
        assert_ne!(of("int ab;").digest, of("inta b;").digest);
    }

    #[test]
    fn macros_lead_to_positions_through_others() {
        let unit = of("#define AT __LINE__\n#define check(x) fail(#x, AT)\n#define plain(x) (x)\n");
        let positional = |code: &str| unit.is_positional(LanguageId::C, code.as_bytes());
        assert!(positional("int f(int x) { check(x); return x; }"));
        assert!(positional("int f(void) { return __LINE__; }"));
        assert!(positional(
            "#define OWN __LINE__\nint f(void) { return OWN; }"
        ));
        assert!(!positional("int f(int x) { return plain(x); } // check"));
        assert!(!positional("char *f(void) { return \"__LINE__\"; }"));
    }
}
