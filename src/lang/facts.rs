//! The table of languages: everything this program knows of one that is not in its grammar or its
//! queries. A language is one entry here, a grammar crate, and a folder of `queries`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::lex::Dialect;

/// What is known of a language.
pub struct Facts {
    /// As in manifests, keys and reports.
    pub name: &'static str,
    /// As people write it.
    pub title: &'static str,
    /// Its folder below `queries`.
    pub folder: &'static str,
    /// File name extensions that mean this language unless a manifest says otherwise.
    pub extensions: &'static [&'static str],
    /// Labels of fences in replies, in lower case; the first is the one this program writes.
    pub labels: &'static [&'static str],
    /// Labels of languages near enough that code under them may be meant.
    pub relatives: &'static [&'static str],
    /// The recording tool that compiles it: a unit compiled by it is read in this language.
    pub tool: &'static str,
    /// How its top level and the heads of its functions are read.
    pub(super) family: Family,
    /// How its tokens differ from those of C.
    pub(super) dialect: Dialect,
    pub(super) grammar: fn() -> tree_sitter::Language,
    /// The embedded `functions.scm` and `edits.scm`.
    pub(super) queries: [&'static str; 2],
}

/// How the top level of a text is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// Functions and declarations one after another; names are single words.
    C,
    /// Namespaces and classes around functions; names are paths, and may be overloaded.
    Cpp,
}

/// Every language. Another one is one more entry.
static LANGUAGES: [Facts; 2] = [
    Facts {
        name: "c",
        title: "C",
        folder: "c",
        extensions: &["c", "h"],
        labels: &[
            "c", "h", "c89", "c90", "c99", "c11", "c17", "c18", "c23", "ansi-c", "gnu-c",
        ],
        relatives: &[
            "cpp",
            "c++",
            "cc",
            "cxx",
            "hpp",
            "objc",
            "objective-c",
            "cuda",
        ],
        tool: "cc",
        family: Family::C,
        dialect: Dialect {
            raw_strings: false,
            digit_quotes: false,
            scope_operator: false,
        },
        grammar: || tree_sitter_c::LANGUAGE.into(),
        queries: [
            include_str!("../../queries/c/functions.scm"),
            include_str!("../../queries/c/edits.scm"),
        ],
    },
    Facts {
        name: "c++",
        title: "C++",
        folder: "cpp",
        extensions: &[
            "cpp", "cc", "cxx", "c++", "cp", "C", "CPP", "hpp", "hh", "hxx", "h++", "H", "ipp",
            "inl", "tcc", "tpp",
        ],
        labels: &[
            "cpp", "c++", "cc", "cxx", "hpp", "hh", "hxx", "h", "c++98", "c++11", "c++14", "c++17",
            "c++20", "c++23", "cpp11", "cpp14", "cpp17", "cpp20", "gnu-c++",
        ],
        relatives: &["c", "c99", "c11", "objc++", "cuda"],
        tool: "c++",
        family: Family::Cpp,
        dialect: Dialect {
            raw_strings: true,
            digit_quotes: true,
            scope_operator: true,
        },
        grammar: || tree_sitter_cpp::LANGUAGE.into(),
        queries: [
            include_str!("../../queries/cpp/functions.scm"),
            include_str!("../../queries/cpp/edits.scm"),
        ],
    },
];

/// A language of the table. Written by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LanguageId(u8);

impl LanguageId {
    /// C.
    pub const C: LanguageId = LanguageId(0);
    /// C++.
    pub const CPP: LanguageId = LanguageId(1);

    /// All, in the order of the table.
    pub fn all() -> impl Iterator<Item = LanguageId> {
        (0..LANGUAGES.len()).map(|i| LanguageId(i as u8))
    }

    /// What is known of it.
    pub fn facts(self) -> &'static Facts {
        &LANGUAGES[usize::from(self.0)]
    }

    /// `c`, `c++`.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether functions may share a name and differ in their parameters.
    pub(super) fn may_overload(self) -> bool {
        self.facts().family == Family::Cpp
    }

    /// The language called `name`.
    pub fn named(name: &str) -> Option<LanguageId> {
        LanguageId::all().find(|l| l.name() == name)
    }

    /// The language that a file's extension means.
    pub fn of_path(path: &str) -> Option<LanguageId> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (_, extension) = name.rsplit_once('.')?;
        LanguageId::all().find(|l| l.facts().extensions.contains(&extension))
    }
}

impl fmt::Debug for LanguageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for LanguageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for LanguageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        LanguageId::named(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("no language is called `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_are_unique_and_lead_back() {
        for language in LanguageId::all() {
            assert_eq!(LanguageId::named(language.name()), Some(language));
            for extension in language.facts().extensions {
                assert_eq!(
                    LanguageId::of_path(&format!("a.b/x.{extension}")),
                    Some(language),
                    "{extension}"
                );
            }
        }
        assert_eq!(LanguageId::of_path("a.c/README"), None);
        assert_eq!(LanguageId::C.name(), "c");
        assert_eq!(LanguageId::CPP.name(), "c++");
    }
}
