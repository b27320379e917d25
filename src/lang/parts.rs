//! A preprocessed unit in parts: the bodies of its functions, and all the rest. A run that enters
//! none of some functions does not depend on their bodies, as long as the compiler makes code of each
//! function by itself (no optimisation); see `oss::reach`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{Family, LanguageId};
use super::head::head;
use super::language::Language;
use super::lex::Kind;
use super::outline::{Outline, Top};
use super::unit::marker;
use crate::digest::Digest;

/// A function whose head says one of these is compiled into others, or enters unseen: its body stays
/// among the rest.
const KEPT: &[&[u8]] = &[
    b"inline",
    b"__inline",
    b"__inline__",
    b"always_inline",
    b"__always_inline__",
    b"naked",
    b"__naked__",
    b"ifunc",
    b"__ifunc__",
    UNSEEN[0],
    UNSEEN[1],
];

/// What keeps a function from noting that it is entered.
const UNSEEN: &[&[u8]] = &[b"no_instrument_function", b"__no_instrument_function__"];

/// What has a function called by whoever loads the program.
const STARTS: &[&[u8]] = &[
    b"constructor",
    b"__constructor__",
    b"destructor",
    b"__destructor__",
];

/// See the top of the file. Comments, white space and line markers are in no part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parts {
    /// Of everything but the bodies, with the place of each body.
    pub rest: Digest,
    /// Of the bodies, by function.
    pub bodies: BTreeMap<String, Digest>,
    /// Whether a function may be entered and not note it, though its own head does not say so.
    pub unseen: bool,
    /// Whether something of it is called when the program is loaded.
    pub starts: bool,
}

impl Parts {
    /// Of a unit as `-E -dD` gives it, or of a function alone. Nothing where braces are in doubt, and
    /// for other languages than C: there a body decides over the code of others.
    pub fn of(language: &Language, text: &[u8]) -> Option<Parts> {
        let id: LanguageId = language.id();
        if id.facts().family != Family::C {
            return None;
        }
        let o = Outline::of(id, text);
        let is = |words: &[&[u8]], i: usize| words.contains(&o.tokens[i].text(text));
        // First and last token of each body, and whose it is.
        let mut found: Vec<(usize, usize, String)> = Vec::new();
        let mut heads: Vec<std::ops::Range<usize>> = Vec::new();
        for item in &o.items {
            let block = match item {
                Top::Function(block) => block,
                Top::Block(block) if block.closed && !block.split => continue,
                Top::Block(_) | Top::Closing(_) => return None,
                _ => continue,
            };
            if !block.closed || block.split {
                return None;
            }
            let Ok(head) = head(language, &o, block, true) else {
                continue;
            };
            if block.head.clone().any(|i| is(KEPT, i)) {
                heads.push(block.head.clone());
                continue;
            }
            found.push((block.open, block.end, head.called));
        }
        let mut rest = blake3::Hasher::new();
        let mut bodies: BTreeMap<String, blake3::Hasher> = BTreeMap::new();
        let (mut unseen, mut starts) = (false, false);
        let mut coming = found.into_iter().peekable();
        for (i, token) in o.tokens.iter().enumerate() {
            while coming.next_if(|(_, end, _)| *end < i).is_some() {}
            let word = token.text(text);
            let is_directive = token.kind == Kind::Directive;
            if is_directive && marker(word).is_some() {
                continue;
            }
            let hasher = match coming.peek() {
                Some((open, _, name)) if *open <= i => {
                    if *open == i {
                        rest.update(&u64::MAX.to_le_bytes());
                    }
                    bodies.entry(name.clone()).or_default()
                }
                _ => &mut rest,
            };
            hasher.update(&(word.len() as u64).to_le_bytes());
            hasher.update(word);
            if !is_directive {
                starts |= is(STARTS, i);
                unseen |= is(UNSEEN, i) && !heads.iter().any(|head| head.contains(&i));
            }
        }
        let digest = |hasher: &blake3::Hasher| Digest(*hasher.finalize().as_bytes());
        Some(Parts {
            rest: digest(&rest),
            bodies: bodies.iter().map(|(n, h)| (n.clone(), digest(h))).collect(),
            unseen,
            starts,
        })
    }

    /// Whether another text of the function `name` alone differs in its body only.
    pub fn differs_in_body_only(&self, other: &Parts, name: &str) -> bool {
        let alone = |parts: &Parts| parts.bodies.len() == 1 && parts.bodies.contains_key(name);
        self.rest == other.rest && alone(self) && alone(other) && !other.unseen && !other.starts
    }
}

#[cfg(test)]
mod tests {
    use super::super::language::{Language, QueryTexts};
    use super::*;

    fn parts(text: &str) -> Parts {
        let c = Language::new(LanguageId::C, &QueryTexts::of(LanguageId::C)).unwrap();
        Parts::of(&c, text.as_bytes()).unwrap_or_else(|| panic!("no parts:\n{text}"))
    }

    const UNIT: &str = "# 1 \"a.c\"\n#define X 1\nint a;\nstatic int f(int x) { return x + a; }\nint g(void)\n{\n  static int n;\n  return f(n++);\n}\nint b;\n";

    #[test]
    fn a_body_is_a_part_and_everything_else_the_rest() {
        let unit = parts(UNIT);
        assert_eq!(unit.bodies.keys().collect::<Vec<_>>(), ["f", "g"]);
        assert!(!unit.unseen && !unit.starts);
        // (edit, whether the rest, f and g stay as they are)
        let cases = [
            ("x + a", "x - a", [true, false, true]),
            ("n++", "++n", [true, true, false]),
            ("static int n;", "static long n;", [true, true, false]),
            ("int a;", "long a;", [false, true, true]),
            ("#define X 1", "#define X 2", [false, true, true]),
            ("f(int x)", "f(long x)", [false, true, true]),
            ("int b;", "", [false, true, true]),
            ("int b;", "/* b */ int\n b;", [true, true, true]),
            ("{ return x + a; }", "{\n\nreturn x+a;}", [true, true, true]),
        ];
        for (from, to, stays) in cases {
            assert!(UNIT.contains(from));
            let other = parts(&UNIT.replace(from, to));
            let same = |name: &str| other.bodies.get(name) == unit.bodies.get(name);
            let got = [other.rest == unit.rest, same("f"), same("g")];
            assert_eq!(got, stays, "{from} -> {to}");
        }
        // A body that moves to another function is not the same rest.
        let moved = "int f(void) { return 1; }\nint g(void) { return 2; }\nint h(void);\n";
        let other = "int f(void);\nint g(void) { return 2; }\nint h(void) { return 1; }\n";
        assert_ne!(parts(moved).rest, parts(other).rest);
    }

    #[test]
    fn what_is_compiled_into_others_or_enters_unseen_is_no_part() {
        let inline =
            parts("static inline int f(void) { return 1; }\nint g(void) { return f(); }\n");
        assert_eq!(inline.bodies.keys().collect::<Vec<_>>(), ["g"]);
        let own = parts(
            "__attribute__((no_instrument_function)) int f(void) { return 1; }\nint g(void) { return 2; }\n",
        );
        assert_eq!(own.bodies.keys().collect::<Vec<_>>(), ["g"]);
        assert!(!own.unseen, "it is kept whole");
        let before = parts(
            "int f(void) __attribute__((no_instrument_function));\nint f(void) { return 1; }\n",
        );
        assert!(before.unseen, "its own head does not say so");
        assert!(parts("__attribute__((constructor)) static void f(void) { }\n").starts);
        assert!(!parts("#define c __attribute__((constructor))\nint a;\n").starts);
    }

    #[test]
    fn the_header_that_notes_reach_hides_nothing() {
        let text = crate::subject::REACH_HEADER.replace("#pragma GCC system_header", "");
        // As the preprocessor leaves it: without directives and with one of the branches.
        let lines: Vec<&str> = text.lines().collect();
        let mut out = Vec::new();
        let (mut depth, mut skipped) = (0, None);
        for line in lines {
            let directive = line.trim_start();
            if directive.starts_with("#if") {
                depth += 1;
            } else if directive.starts_with("#else") && depth > 2 {
                skipped = Some(depth);
            } else if directive.starts_with("#endif") {
                if skipped == Some(depth) {
                    skipped = None;
                }
                depth -= 1;
            } else if skipped.is_none() && !directive.starts_with('#') {
                out.push(line.replace(" EVERBENCH_REACH_FAST", ""));
            }
        }
        let header = parts(&out.join("\n"));
        assert!(
            !header.unseen && !header.starts && header.bodies.is_empty(),
            "{header:?}"
        );
    }

    #[test]
    fn a_text_of_one_function_differs_in_its_body_only_or_not() {
        let original = parts("int f(int x) { return x; }");
        let only = |text: &str| original.differs_in_body_only(&parts(text), "f");
        assert!(only("int f(int x)\n{ return x + 1; }"));
        for other in [
            "long f(int x) { return x; }",
            "static int n; int f(int x) { return n = x; }",
            "static int h(int x) { return x; } int f(int x) { return h(x); }",
            "#define Y 1\nint f(int x) { return x; }",
            "int g(int x) { return x; }",
        ] {
            assert!(!only(other), "{other}");
        }
    }

    #[test]
    fn where_braces_are_in_doubt_there_are_no_parts() {
        let c = Language::new(LanguageId::C, &QueryTexts::of(LanguageId::C)).unwrap();
        for text in ["int f(void) { return 1;", "int f(void) { return 1; } }"] {
            assert!(Parts::of(&c, text.as_bytes()).is_none(), "{text}");
        }
        let cpp = Language::new(LanguageId::CPP, &QueryTexts::of(LanguageId::CPP)).unwrap();
        assert!(Parts::of(&cpp, b"int f() { return 1; }").is_none());
    }
}
