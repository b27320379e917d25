//! Arguments of build commands with placeholders: `{cc} {cxx} {ar} {ranlib} {jobs} {cflags}
//! {ldflags}`; `{{` and `}}` are braces.
//!
//! An argument that is nothing but `{cflags}` or `{ldflags}` becomes one argument for each flag,
//! possibly none; inside a longer argument the flags are joined by spaces, as make and cmake
//! expect them. Flags therefore must not contain white space (checked when a manifest is read).
//!
//! The commands of tests have placeholders of their own, [`super::suite::TestHole`].

use std::fmt;

/// What can stand between braces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placeholder {
    /// The C compiler.
    Cc,
    /// The C++ compiler.
    Cxx,
    /// The archiver.
    Ar,
    /// The archive indexer.
    Ranlib,
    /// How many processes a build may run at once.
    Jobs,
    /// The compiler flags of the flavour.
    Cflags,
    /// The linker flags of the flavour.
    Ldflags,
}

/// A set of placeholders.
pub trait Hole: Copy + 'static {
    /// All names, as written between braces.
    const NAMES: &'static [(&'static str, Self)];
}

impl Hole for Placeholder {
    const NAMES: &'static [(&'static str, Placeholder)] = &[
        ("cc", Placeholder::Cc),
        ("cxx", Placeholder::Cxx),
        ("ar", Placeholder::Ar),
        ("ranlib", Placeholder::Ranlib),
        ("jobs", Placeholder::Jobs),
        ("cflags", Placeholder::Cflags),
        ("ldflags", Placeholder::Ldflags),
    ];
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece<H> {
    Text(String),
    Hole(H),
}

/// One argument or environment value, parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template<H = Placeholder> {
    source: String,
    pieces: Vec<Piece<H>>,
}

/// Why a text is not a template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadTemplate {
    /// A name between braces that is no placeholder.
    #[error("unknown placeholder `{{{0}}}`")]
    Unknown(String),
    /// A brace that opens or closes nothing.
    #[error("a lone `{0}`; a brace itself is written twice: `{0}{0}`")]
    LoneBrace(char),
}

impl<H: Hole> Template<H> {
    /// Parses `source`.
    pub fn parse(source: &str) -> Result<Template<H>, BadTemplate> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = if rest[at..].starts_with('{') {
                '{'
            } else {
                '}'
            };
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                text.push(brace);
                rest = after;
                continue;
            }
            let Some((name, after)) = rest.split_once('}').filter(|_| brace == '{') else {
                return Err(BadTemplate::LoneBrace(brace));
            };
            let known = H::NAMES.iter().find(|(known, _)| *known == name);
            let hole = known.ok_or_else(|| BadTemplate::Unknown(name.to_string()))?;
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Hole(hole.1));
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Template {
            source: source.to_string(),
            pieces,
        })
    }

    /// The text as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The placeholders in it, in order.
    pub fn holes(&self) -> impl Iterator<Item = H> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Hole(hole) => Some(*hole),
        })
    }

    /// The text with `value` in the place of each placeholder.
    pub fn fill<'a>(&'a self, value: impl Fn(H) -> &'a str) -> String {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Hole(hole) => value(*hole),
            })
            .collect()
    }
}

impl Template {
    /// The one text this stands for, flags joined by spaces.
    pub fn expand(&self, values: &Values<'_>) -> String {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Hole(hole) => values.of(*hole).join(" "),
            })
            .collect()
    }

    /// The arguments this stands for: several or none for a lone `{cflags}` or `{ldflags}`.
    pub fn arguments(&self, values: &Values<'_>) -> Vec<String> {
        match self.pieces[..] {
            [Piece::Hole(hole)] => values.of(hole),
            _ => vec![self.expand(values)],
        }
    }
}

impl<H> fmt::Display for Template<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// What the placeholders stand for in one build.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The C compiler.
    pub cc: &'a str,
    /// The C++ compiler.
    pub cxx: &'a str,
    /// The archiver.
    pub ar: &'a str,
    /// The archive indexer.
    pub ranlib: &'a str,
    /// Processes at once.
    pub jobs: u32,
    /// Compiler flags.
    pub cflags: &'a [String],
    /// Linker flags.
    pub ldflags: &'a [String],
}

impl Values<'_> {
    fn of(&self, hole: Placeholder) -> Vec<String> {
        match hole {
            Placeholder::Cc => vec![self.cc.to_string()],
            Placeholder::Cxx => vec![self.cxx.to_string()],
            Placeholder::Ar => vec![self.ar.to_string()],
            Placeholder::Ranlib => vec![self.ranlib.to_string()],
            Placeholder::Jobs => vec![self.jobs.to_string()],
            Placeholder::Cflags => self.cflags.to_vec(),
            Placeholder::Ldflags => self.ldflags.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(source: &str) -> Result<Template, BadTemplate> {
        Template::parse(source)
    }

    fn values<'a>(cflags: &'a [String], ldflags: &'a [String]) -> Values<'a> {
        Values {
            cc: "gcc",
            cxx: "g++",
            ar: "ar",
            ranlib: "ranlib",
            jobs: 3,
            cflags,
            ldflags,
        }
    }

    #[test]
    fn flags_alone_are_spliced_and_within_text_are_joined() {
        let flags = ["-O0".to_string(), "-g1".to_string()];
        let v = values(&flags, &[]);
        let args = |s: &str| parse(s).unwrap().arguments(&v);
        assert_eq!(args("{cflags}"), ["-O0", "-g1"]);
        assert_eq!(args("{ldflags}"), [""; 0]);
        assert_eq!(args("-DFLAGS={cflags}"), ["-DFLAGS=-O0 -g1"]);
        assert_eq!(args("-j{jobs}"), ["-j3"]);
        assert_eq!(args(""), [""]);
        assert_eq!(args("a{{b}}{cc}"), ["a{b}gcc"]);
    }

    #[test]
    fn what_is_no_placeholder_is_refused() {
        assert_eq!(parse("{cflag}"), Err(BadTemplate::Unknown("cflag".into())));
        assert_eq!(parse("a{cc"), Err(BadTemplate::LoneBrace('{')));
        assert_eq!(parse("a}b"), Err(BadTemplate::LoneBrace('}')));
    }

    proptest! {
        #[test]
        fn doubled_braces_give_any_text_back(text in "[a-z{}\\PC]{0,30}") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            let template = parse(&doubled).unwrap();
            prop_assert_eq!(template.expand(&values(&[], &[])), text);
        }

        #[test]
        fn parsing_never_panics(text in "[{}a-z]{0,40}") {
            let _ = parse(&text);
        }
    }
}
