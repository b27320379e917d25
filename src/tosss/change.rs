//! What a fix changes, as mining hands it on: the two sides of every source file. The job that
//! reads it out of a repository or a source package gives a [`Change`]'s encoding as its output.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A fix's commit or patch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Change {
    /// Parents of the commit; 1 for a patch.
    pub parents: usize,
    /// Files changed in all, of whatever kind.
    pub files: usize,
    /// The day it was made, `2019-05-15`, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The licence of the repository, by its file, as `MIT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Files in a language that is read, that are there on both sides.
    pub sources: Vec<ChangedFile>,
    /// Files in a language that is read, that are not taken: path and reason.
    pub left_out: Vec<(String, Dropped)>,
}

/// A source file on both sides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path after the fix.
    pub path: String,
    /// Its path before, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its bytes before.
    pub before: Digest,
    /// Its bytes after.
    pub after: Digest,
}

/// Why a function, a file or a whole fix gives no pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// The repository does not have the commit.
    CommitGone,
    /// The repository could not be had.
    RepositoryGone,
    /// The repository did not answer; it is asked again next time.
    Unreachable,
    /// The patch does not fit the tree.
    PatchFails,
    /// The commit has several parents.
    Merge,
    /// The commit has no parent.
    Root,
    /// The commit changes too many files.
    TooManyFiles,
    /// The commit changes too many functions.
    TooManyFunctions,
    /// No file in a language that is read is changed.
    NoSource,
    /// Test or example code, by its path.
    Test,
    /// The file was added or removed.
    OneSided,
    /// The file holds zero bytes.
    Binary,
    /// The file says that a program wrote it.
    Generated,
    /// The file is too long to be read.
    TooLarge,
    /// No function of the file changes: declarations, macros, data.
    NoFunction,
    /// The function is there only after the fix, or can be read only there.
    OnlyAfter,
    /// The function is there only before the fix, or can be read only there.
    OnlyBefore,
    /// Conditionals split its head or its braces.
    SplitByIfdef,
    /// Where it begins or ends cannot be told for another reason.
    Undelimited,
    /// Only comments or layout change.
    LayoutOnly,
    /// The sides are equal once line ends and trailing blanks are gone.
    Equal,
    /// Longer than the limit of words.
    TooLong,
    /// A side has no body, or holds characters that no source has.
    Garbled,
    /// The same two texts are a pair already.
    Duplicate,
}

impl Dropped {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Dropped::CommitGone => "the repository does not have the commit",
            Dropped::RepositoryGone => "the repository cannot be had",
            Dropped::Unreachable => "the repository does not answer for now",
            Dropped::PatchFails => "the patch does not fit the tree",
            Dropped::Merge => "a merge",
            Dropped::Root => "a commit without a parent",
            Dropped::TooManyFiles => "changes too many files",
            Dropped::TooManyFunctions => "changes too many functions",
            Dropped::NoSource => "changes no file in a language that is read",
            Dropped::Test => "test or example code",
            Dropped::OneSided => "the file was added or removed",
            Dropped::Binary => "a binary file",
            Dropped::Generated => "a generated file",
            Dropped::TooLarge => "too long a file",
            Dropped::NoFunction => "no function of the file changes",
            Dropped::OnlyAfter => "the function is there, or can be read, only after the fix",
            Dropped::OnlyBefore => "the function is there, or can be read, only before the fix",
            Dropped::SplitByIfdef => "conditionals split the function",
            Dropped::Undelimited => "where the function begins or ends cannot be told",
            Dropped::LayoutOnly => "only comments or layout change",
            Dropped::Equal => "both sides are equal but for line ends and blanks",
            Dropped::TooLong => "too long a function",
            Dropped::Garbled => "a side is empty or garbled",
            Dropped::Duplicate => "another pair has the same two texts",
        }
    }
}

impl Change {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Change, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// The licence whose text this is, by its SPDX name; nothing for one that is not known.
pub fn licence(text: &str) -> Option<&'static str> {
    let start: String = text.chars().take(3000).collect();
    let words: Vec<&str> = start.split_whitespace().collect();
    let words = words.join(" ").to_lowercase();
    let has = |part: &str| words.contains(part);
    let known = [
        (has("apache license") && has("version 2.0"), "Apache-2.0"),
        (has("mozilla public license") && has("2.0"), "MPL-2.0"),
        (has("affero general public license"), "AGPL-3.0"),
        (
            has("lesser general public license") && has("version 3"),
            "LGPL-3.0",
        ),
        (has("lesser general public license"), "LGPL-2.1"),
        (has("general public license") && has("version 3"), "GPL-3.0"),
        (has("general public license") && has("version 2"), "GPL-2.0"),
        (has("permission is hereby granted, free of charge"), "MIT"),
        (
            has("redistribution and use in source and binary forms") && has("neither the name"),
            "BSD-3-Clause",
        ),
        (
            has("redistribution and use in source and binary forms"),
            "BSD-2-Clause",
        ),
        (
            has("permission to use, copy, modify, and/or distribute"),
            "ISC",
        ),
        (
            has("altered source versions must be plainly marked"),
            "Zlib",
        ),
    ];
    known.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
}

/// Whether the path is one of tests, examples or documentation.
pub fn is_test(path: &str) -> bool {
    const FOLDERS: [&str; 17] = [
        "test",
        "tests",
        "testing",
        "testsuite",
        "unittest",
        "unittests",
        "testcases",
        "regress",
        "t",
        "example",
        "examples",
        "demo",
        "demos",
        "sample",
        "samples",
        "doc",
        "docs",
    ];
    let path = path.to_ascii_lowercase();
    let mut words: Vec<&str> = path.split('/').collect();
    let name = words.pop().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let of_name = stem.starts_with("test_")
        || stem.starts_with("test-")
        || stem.ends_with("_test")
        || stem.ends_with("-test")
        || stem.ends_with("_tests")
        || stem == "test"
        || stem == "tests";
    let java = path.ends_with(".java") && (stem.ends_with("test") || stem.ends_with("tests"));
    of_name
        || java
        || words
            .iter()
            .any(|w| FOLDERS.contains(w) || w.starts_with("test_"))
}

/// Whether a program wrote the file, by what its first lines say.
pub fn is_generated(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).to_lowercase();
    let marks = [
        "do not edit",
        "do not modify",
        "@generated",
        "automatically generated",
        "autogenerated by",
        "generated by bison",
        "a bison parser, made by",
        "a lexical scanner generated by flex",
    ];
    marks.iter().any(|mark| start.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_examples_are_known_by_their_paths() {
        for path in [
            "tests/a.c",
            "src/test/java/p/A.java",
            "lib/ATest.java",
            "examples/x.c",
            "a/test_x.c",
            "x_test.go",
            "fuzz/testcases/y.c",
            "Doc/a.c",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in [
            "src/contest.c",
            "latest/a.c",
            "attest.c",
            "src/Fastest.java.c",
            "protest/x.c",
        ] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn generated_files_say_so() {
        assert!(is_generated(
            b"/* A Bison parser, made by GNU Bison 3.8. */\n"
        ));
        assert!(is_generated(b"// Code generated by x. DO NOT EDIT.\n"));
        assert!(!is_generated(b"/* Edits what was generated. */\n"));
    }
}
