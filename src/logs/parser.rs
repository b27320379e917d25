//! What a parser of test logs is, and the list of those there are. A parser is one file of this
//! room: a [`ParserType`] with its name, its options and how it is made, and an implementation of
//! [`LogParser`]; it is known as soon as it stands in [`PARSERS`]. Manifests are read, and keys of
//! rows made, from what is declared here: no other room knows a format.

use std::fmt;
use std::sync::Arc;

use super::cases::{Report, Reports};
use super::fold::Ended;

/// All types of parsers, by name. A new one is one line here.
pub const PARSERS: [&ParserType; 8] = [
    &super::automake::AUTOMAKE,
    &super::ctest::CTEST,
    &super::exit::EXIT,
    &super::lines::LINES,
    &super::php::PHP_RUN_TESTS,
    &super::tap::TAP,
    &super::testfixture::TESTFIXTURE,
    &super::unity::UNITY,
];

/// The log of one run of one shard.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    /// What was written where the subject reports: never decoded.
    pub text: &'a [u8],
    /// The shard's name.
    pub shard: &'a str,
    /// Where the source tree was for the run, without a `/` at the end.
    pub tree: &'a str,
    /// How the process ended.
    pub ended: Ended,
}

/// What a log says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// The reports, in the log's order.
    pub reports: Vec<Report>,
    /// Where the log contradicts what was read of it: a count of its own that is another one.
    /// Asked for where the process ended by itself, in baselines: there it says that the parser
    /// does not fit. What a variant's log counts is of no interest.
    pub doubts: Vec<String>,
}

impl From<Reports> for Reading {
    fn from(reports: Reports) -> Reading {
        Reading {
            reports: reports.into_list(),
            doubts: Vec::new(),
        }
    }
}

/// Reads test logs. No byte string may make it panic, and equal logs are read equally.
pub trait LogParser: fmt::Debug + Send + Sync {
    /// All that `log` says of cases.
    fn read(&self, log: &Log<'_>) -> Reading;
}

/// Makes a parser of its options, or says what is wrong with them.
pub type Make = fn(&Options) -> Result<Arc<dyn LogParser>, Vec<BadOption>>;

/// A parser that a manifest can choose.
pub struct ParserType {
    /// The word for it in manifests.
    pub name: &'static str,
    /// What it may be told, in the order of the canonical part. Adding one changes the parts, and
    /// so the rows, of this parser's subjects.
    pub options: &'static [OptionType],
    /// Makes it of options that have been read; or everything that is wrong with them.
    pub make: Make,
}

/// Something that a parser may be told.
#[derive(Clone, Copy, Debug)]
pub struct OptionType {
    /// The key in the manifest.
    pub key: &'static str,
    /// What may stand there.
    pub kind: OptionKind,
}

/// The types of options.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A list of texts.
    Texts {
        /// What to write where at least one is needed; `None`: it may be left out.
        required: Option<&'static str>,
    },
    /// True or false; the default.
    Flag(bool),
    /// A list of exit statuses, 0 to 255; empty when left out.
    Codes,
}

/// The value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionValue {
    /// Of [`OptionKind::Texts`].
    Texts(Vec<String>),
    /// Of [`OptionKind::Flag`].
    Flag(bool),
    /// Of [`OptionKind::Codes`].
    Codes(Vec<i32>),
}

/// An option that cannot be used as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadOption {
    /// Which.
    pub key: &'static str,
    /// Which of its values, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub why: String,
}

/// The values of all options of a type, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options(Vec<(&'static str, OptionValue)>);

impl Options {
    /// Of a type's options with their values.
    pub fn new(values: Vec<(&'static str, OptionValue)>) -> Options {
        Options(values)
    }

    fn get(&self, key: &str) -> Option<&OptionValue> {
        self.0.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// An option of [`OptionKind::Texts`].
    pub fn texts(&self, key: &str) -> &[String] {
        match self.get(key) {
            Some(OptionValue::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// An option of [`OptionKind::Flag`].
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some(OptionValue::Flag(true)))
    }

    /// An option of [`OptionKind::Codes`].
    pub fn codes(&self, key: &str) -> &[i32] {
        match self.get(key) {
            Some(OptionValue::Codes(codes)) => codes,
            _ => &[],
        }
    }
}

/// A subject's parser: a type with its options, which make one.
#[derive(Clone)]
pub struct ParserChoice {
    kind: &'static ParserType,
    options: Options,
    parser: Arc<dyn LogParser>,
}

impl ParserChoice {
    /// Makes the parser.
    pub fn new(
        kind: &'static ParserType,
        options: Options,
    ) -> Result<ParserChoice, Vec<BadOption>> {
        let parser = (kind.make)(&options)?;
        Ok(ParserChoice {
            kind,
            options,
            parser,
        })
    }

    /// The type's name.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Reads a log.
    pub fn read(&self, log: &Log<'_>) -> Reading {
        let mut reading = self.parser.read(log);
        let key = CHECK_COUNTS.key;
        if self.options.get(key).is_some() && !self.options.flag(key) {
            reading.doubts.clear();
        }
        reading
    }

    /// Canonical bytes of type and options: JSON, options in the declared order. Preimages of
    /// digests in the keys of rows, pinned by a golden test.
    pub fn canonical(&self) -> Vec<u8> {
        // Written by hand, since a map would sort the options.
        let mut out = format!("{{\"part\":\"subject/parser/{} 1\"", self.kind.name);
        for (key, value) in &self.options.0 {
            let value = match value {
                OptionValue::Texts(texts) => serde_json::to_string(texts),
                OptionValue::Flag(flag) => serde_json::to_string(flag),
                OptionValue::Codes(codes) => serde_json::to_string(codes),
            };
            out.push_str(&format!(",\"{key}\":{}", value.expect("plain data")));
        }
        out.push('}');
        out.into_bytes()
    }
}

impl PartialEq for ParserChoice {
    fn eq(&self, other: &Self) -> bool {
        self.kind.name == other.kind.name && self.options == other.options
    }
}
impl Eq for ParserChoice {}
impl fmt::Debug for ParserChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.name, self.options)
    }
}

/// For parsers of logs that count themselves, and have no other doubts: whether another count is
/// one. Obeyed by [`ParserChoice::read`].
pub(super) const CHECK_COUNTS: OptionType = OptionType {
    key: "check-counts",
    kind: OptionKind::Flag(true),
};

/// The doubt that goes with a log's own count, if it is another one.
pub(super) fn counted(what: &str, said: usize, read: usize) -> Option<String> {
    (said != read).then(|| format!("the log counts {said} {what}, but {read} were read from it"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A parser of type `kind` with every option at its default, `texts` for those required.
    pub(in crate::logs) fn plain(kind: &'static ParserType) -> ParserChoice {
        chosen(kind, &[])
    }

    pub(in crate::logs) fn chosen(
        kind: &'static ParserType,
        given: &[(&'static str, OptionValue)],
    ) -> ParserChoice {
        let options = kind.options.iter().map(|option| {
            let value = match given.iter().find(|(key, _)| *key == option.key) {
                Some((_, value)) => value.clone(),
                None => match option.kind {
                    OptionKind::Texts { required: None } => OptionValue::Texts(vec![]),
                    OptionKind::Texts { required: Some(_) } => {
                        OptionValue::Texts(vec!["OK (?<name>.*)".into()])
                    }
                    OptionKind::Flag(default) => OptionValue::Flag(default),
                    OptionKind::Codes => OptionValue::Codes(vec![]),
                },
            };
            (option.key, value)
        });
        ParserChoice::new(kind, Options::new(options.collect())).expect("good options")
    }

    /// What a parser reads of a log whose process left with status 0, for people.
    pub(in crate::logs) fn shown(parser: &ParserChoice, text: &[u8]) -> String {
        let reading = parser.read(&Log {
            text,
            shard: "shard",
            tree: "/eb/tree",
            ended: Ended::Exit(0),
        });
        let reports = reading.reports.iter();
        let mut lines: Vec<String> = reports
            .map(|r| format!("{:<8}{}", format!("{:?}", r.outcome), r.case))
            .collect();
        lines.extend(reading.doubts.iter().map(|d| format!("doubt: {d}")));
        lines.join("\n")
    }

    /// The bytes of a recorded log.
    pub(in crate::logs) fn recorded(name: &str) -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/logs");
        let path = std::path::Path::new(path).join(name);
        #[allow(clippy::disallowed_methods, reason = "a test")]
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    #[test]
    fn types_are_sorted_and_their_options_distinct() {
        let names: Vec<&str> = PARSERS.iter().map(|p| p.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        for kind in PARSERS {
            let mut keys: Vec<&str> = kind.options.iter().map(|o| o.key).collect();
            keys.push("type");
            let all = keys.len();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), all, "{}", kind.name);
        }
    }

    #[test]
    fn the_canonical_bytes_are_pinned() {
        let parts: Vec<String> = PARSERS
            .iter()
            .map(|kind| String::from_utf8(plain(kind).canonical()).unwrap())
            .collect();
        insta::assert_snapshot!(parts.join("\n"));
    }

    /// Lines of all formats, so that random logs come near to what parsers look for.
    fn fragments() -> Vec<Vec<u8>> {
        let words: [&[u8]; 34] = [
            b"ok 1 - a",
            b"not ok 2",
            b"1..4",
            b"1..99999999999999",
            b"Bail out! ",
            b"# Subtest: x",
            b"    ",
            b"  ---",
            b"  ...",
            b"# SKIP",
            b"# TODO",
            b"ok ",
            b"a.c:3:t:PASS",
            b":FAIL: ",
            b"1/2 Test #1: a ....",
            b"   Passed",
            b"***Failed",
            b"PASS: a",
            b"XFAIL: a",
            b"# TOTAL: 3",
            b"====",
            b"a-1... Ok",
            b"b-2...",
            b" Ok",
            b"! b-2 expected: [",
            b"\nError: ",
            b"0 errors out of 3 tests on x",
            b"Omitted test cases:",
            b"PASSED\t/eb/tree/a",
            b"FAILED\t",
            b"\r\n",
            b"\n",
            b"\xff\xfe",
            b"x.c:3:5: runtime error: z",
        ];
        words.into_iter().map(<[u8]>::to_vec).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_every_case_is_one_of_its_name(
            pieces in prop::collection::vec(prop::sample::select(fragments()), 0..30)
        ) {
            let text = pieces.concat();
            for kind in PARSERS {
                let log = Log { text: &text, shard: "s", tree: "/eb/tree", ended: Ended::Exit(0) };
                let reading = plain(kind).read(&log);
                let mut seen = std::collections::BTreeSet::new();
                for report in reading.reports {
                    prop_assert!(report.case.ordinal >= 1);
                    prop_assert!(seen.insert(report.case), "{}", kind.name);
                }
            }
        }
    }
}
