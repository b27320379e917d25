//! Canonical bytes of the parts of a manifest which different stages depend on, so that changing a
//! penalty does not rebuild anything. The bytes are JSON of the structs below, fields in the order
//! written here, maps sorted; they are preimages of digests in job keys, so a change of them is a
//! change of every key (pinned by a golden test).
//!
//! The subject's name, its shards' names and the manifest's comments are in no part but where they
//! are shown; the source tree has a digest of its own.

use std::collections::BTreeMap;

use serde::Serialize;

use super::REPORT_HEADER;
use super::manifest::{Flavour, Manifest, Report};
use super::suite::{Cwd, Shard, ShardLimits};
use super::template::Template;
use crate::digest::Digest;

/// The digests of all parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digests {
    /// Of [`Manifest::build_part`] with [`Flavour::Plain`].
    pub build_plain: Digest,
    /// Of [`Manifest::build_part`] with [`Flavour::Sanitized`].
    pub build_sanitized: Digest,
    /// Of [`Manifest::tests_part`].
    pub tests: Digest,
    /// Of [`Manifest::parser_part`].
    pub parser: Digest,
    /// Of [`Manifest::functions_part`].
    pub functions: Digest,
    /// Of [`Manifest::scoring_part`].
    pub scoring: Digest,
}

#[derive(Serialize)]
struct BuildPart<'a> {
    part: &'static str,
    configure: Vec<Vec<&'a str>>,
    build: Vec<Vec<&'a str>>,
    env: BTreeMap<&'a str, &'a str>,
    cflags: Vec<String>,
    ldflags: Vec<String>,
    harness: Option<HarnessPart<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    generated: &'a [String],
}

#[derive(Serialize)]
struct HarnessPart<'a> {
    globs: &'a [String],
    header: String,
}

#[derive(Serialize)]
struct ShardPart<'a> {
    part: &'static str,
    argv: Vec<&'a str>,
    cwd: &'a str,
    env: BTreeMap<&'a str, &'a str>,
    file: Option<&'a str>,
    writable: &'a [String],
    cpu_seconds: u32,
    wall_seconds: u32,
    memory_mib: u32,
    scratch_mib: u32,
    processes: u32,
    file_mib: u32,
    report: &'static str,
    options: Option<&'a BTreeMap<String, String>>,
    leaks: bool,
}

#[derive(Serialize)]
struct TestsPart<'a> {
    part: &'static str,
    /// With their names and whether they may be empty, which no run depends on.
    shards: Vec<(&'a str, bool, ShardPart<'a>)>,
    files: Vec<FilesPart<'a>>,
}

#[derive(Serialize)]
struct FilesPart<'a> {
    include: &'a [String],
    exclude: &'a [String],
    name: &'a str,
    may_be_empty: bool,
    shard: ShardPart<'a>,
}

#[derive(Serialize)]
struct FunctionsPart<'a> {
    part: &'static str,
    include: &'a [String],
    exclude: &'a [String],
    harness: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    generated: &'a [String],
    min_tokens: u32,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    languages: Vec<(&'a str, &'static str)>,
}

#[derive(Serialize)]
struct ScoringPart {
    part: &'static str,
    functions_per_iteration: u32,
    /// As Rust writes the shortest decimal that reads back: no other writer of floats is asked.
    penalty: Option<String>,
    iterations: u32,
}

impl Manifest {
    /// What a build of `flavour` depends on, apart from source and tools.
    pub fn build_part(&self, flavour: Flavour) -> Vec<u8> {
        fn commands(commands: &[Vec<Template>]) -> Vec<Vec<&str>> {
            let commands = commands.iter();
            commands
                .map(|command| command.iter().map(Template::source).collect())
                .collect()
        }
        let env = self.build.env.iter();
        json(&BuildPart {
            part: "subject/build 1",
            configure: commands(&self.build.configure),
            build: commands(&self.build.build),
            env: env.map(|(k, v)| (k.as_str(), v.source())).collect(),
            cflags: self.cflags(flavour),
            ldflags: self.ldflags(flavour),
            harness: (self.tests.report == Report::Results).then(|| HarnessPart {
                globs: self.tests.harness.patterns(),
                header: Digest::of(REPORT_HEADER.as_bytes()).hex(),
            }),
            generated: self.functions.generated.patterns(),
        })
    }

    /// What a run of one shard of a program of `flavour` depends on; its name does not count.
    pub fn shard_part(&self, shard: &Shard, flavour: Flavour) -> Vec<u8> {
        json(&self.shard_fields(shard, flavour))
    }

    /// The whole suite on the sanitized flavour: names and parts of all shards and groups of files,
    /// in order.
    pub fn tests_part(&self) -> Vec<u8> {
        let fields = |s| self.shard_fields(s, Flavour::Sanitized);
        let shards = self.tests.shards.iter();
        let groups = self.tests.files.iter();
        json(&TestsPart {
            part: "subject/tests 2",
            shards: shards
                .map(|s| (s.name.as_str(), s.may_be_empty, fields(s)))
                .collect(),
            files: groups
                .map(|group| FilesPart {
                    include: group.include.patterns(),
                    exclude: group.exclude.patterns(),
                    name: &group.shard.name,
                    may_be_empty: group.shard.may_be_empty,
                    shard: fields(&group.shard),
                })
                .collect(),
        })
    }

    /// How a report is read.
    pub fn parser_part(&self) -> Vec<u8> {
        self.tests.parser.canonical()
    }

    /// What the population depends on, apart from source and extractor.
    pub fn functions_part(&self) -> Vec<u8> {
        json(&FunctionsPart {
            part: "subject/functions 1",
            include: self.functions.include.patterns(),
            exclude: self.functions.exclude.patterns(),
            harness: self.tests.harness.patterns(),
            generated: self.functions.generated.patterns(),
            min_tokens: self.functions.min_tokens,
            max_tokens: self.functions.max_tokens,
            languages: self
                .functions
                .languages
                .iter()
                .flat_map(|(globs, l)| globs.patterns().iter().map(|g| (g.as_str(), l.name())))
                .collect(),
        })
    }

    /// The numbers of the metrics.
    pub fn scoring_part(&self) -> Vec<u8> {
        json(&ScoringPart {
            part: "subject/scoring 1",
            functions_per_iteration: self.scoring.functions_per_iteration,
            penalty: self.scoring.penalty.map(|p| p.to_string()),
            iterations: self.scoring.iterations,
        })
    }

    /// The digests of all parts.
    pub fn digests(&self) -> Digests {
        Digests {
            build_plain: Digest::of(&self.build_part(Flavour::Plain)),
            build_sanitized: Digest::of(&self.build_part(Flavour::Sanitized)),
            tests: Digest::of(&self.tests_part()),
            parser: Digest::of(&self.parser_part()),
            functions: Digest::of(&self.functions_part()),
            scoring: Digest::of(&self.scoring_part()),
        }
    }

    fn shard_fields<'a>(&'a self, shard: &'a Shard, flavour: Flavour) -> ShardPart<'a> {
        let sanitized = flavour == Flavour::Sanitized;
        let ShardLimits {
            cpu_seconds,
            wall_seconds,
            memory_mib,
            scratch_mib,
            processes,
            file_mib,
        } = shard.limits;
        let env = shard.env.iter();
        ShardPart {
            part: "subject/shard 2",
            argv: shard.argv.iter().map(Template::source).collect(),
            cwd: match &shard.cwd {
                Cwd::Tree(path) => path,
                Cwd::Scratch => "{scratch}",
            },
            env: env.map(|(k, v)| (k.as_str(), v.source())).collect(),
            file: shard.file.as_deref(),
            writable: &shard.writable,
            cpu_seconds,
            wall_seconds,
            memory_mib,
            scratch_mib,
            processes,
            file_mib,
            report: self.tests.report.name(),
            options: sanitized.then_some(&self.sanitizers.options),
            leaks: sanitized && self.sanitizers.leaks,
        }
    }
}

fn json<T: Serialize>(part: &T) -> Vec<u8> {
    // Structs of strings and whole numbers cannot fail to serialise.
    serde_json::to_vec(part).expect("plain data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::read::reading_tests::EXAMPLE;

    fn changed(from: &str, to: &str) -> [bool; 6] {
        let before = Manifest::parse(EXAMPLE, "m").unwrap().digests();
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE, "{from} is in the example");
        let after = Manifest::parse(&text, "m")
            .unwrap_or_else(|e| panic!("{e}"))
            .digests();
        [
            before.build_plain != after.build_plain,
            before.build_sanitized != after.build_sanitized,
            before.tests != after.tests,
            before.parser != after.parser,
            before.functions != after.functions,
            before.scoring != after.scoring,
        ]
    }

    #[test]
    fn a_change_reaches_exactly_the_stages_that_depend_on_it() {
        let (yes, no) = (true, false);
        for (from, to, expected) in [
            (
                "cpu-seconds = 10",
                "cpu-seconds = 10\nmemory-mib = 64",
                [no, no, yes, no, no, no],
            ),
            (
                "cpu-seconds = 10",
                "cpu-seconds = 10\nwritable = [\"test\"]",
                [no, no, yes, no, no, no],
            ),
            (
                "cpu-seconds = 10",
                "cpu-seconds = 10\nmay-be-empty = true",
                [no, no, yes, no, no, no],
            ),
            ("penalty = 0.69", "penalty = 0.7", [no, no, no, no, no, yes]),
            (
                "per-iteration = 8",
                "per-iteration = 9",
                [no, no, no, no, no, yes],
            ),
            (
                "'^ok (?<name>.*)'",
                "'^okay (?<name>.*)'",
                [no, no, no, yes, no, no],
            ),
            (
                "max-tokens = 256",
                "max-tokens = 255",
                [no, no, no, no, yes, no],
            ),
            ("src/gen/**", "src/generated/**", [no, no, no, no, yes, no]),
            (
                "cpu-seconds = 10",
                "cpu-seconds = 11",
                [no, no, yes, no, no, no],
            ),
            ("leaks = true", "leaks = false", [no, no, yes, no, no, no]),
            (
                "allocator_may_return_null=1",
                "quarantine_size_mb=1",
                [no, no, yes, no, no, no],
            ),
            (
                "\"-fsanitize=address\"",
                "\"-fsanitize=undefined\"",
                [no, yes, no, no, no, no],
            ),
            ("\"-O0\"", "\"-O1\"", [yes, yes, no, no, no, no]),
            ("\"-j{jobs}\"", "\"-k\"", [yes, yes, no, no, no, no]),
            ("\"test/*.c\"", "\"test/**\"", [yes, yes, no, no, yes, no]),
            (
                "report = \"results\"",
                "report = \"stdout\"",
                [yes, yes, yes, no, no, no],
            ),
            ("name = \"mylib\"", "name = \"other\"", [no; 6]),
            ("# A comment", "# Another", [no; 6]),
            (
                "[build]\n",
                "[build]\npackages = [\"libfoo-dev\"]\n",
                [no; 6],
            ),
            ("directory = \".\"", "directory = \"..\"", [no; 6]),
        ] {
            assert_eq!(changed(from, to), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn a_shard_run_does_not_depend_on_its_name_or_on_the_others() {
        let m = Manifest::parse(EXAMPLE, "m").unwrap();
        let mut renamed = m.tests.shards[0].clone();
        renamed.name = "other".into();
        let of = |s: &Shard, f| m.shard_part(s, f);
        let shard = &m.tests.shards[0];
        assert_eq!(of(shard, Flavour::Plain), of(&renamed, Flavour::Plain));
        assert_ne!(of(shard, Flavour::Plain), of(shard, Flavour::Sanitized));
        assert_ne!(
            of(shard, Flavour::Plain),
            of(&m.tests.shards[1], Flavour::Plain)
        );
    }

    #[test]
    fn the_bytes_are_pinned() {
        let m = Manifest::parse(EXAMPLE, "m").unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        // The header's digest is data of this part, not of its encoding.
        let header = Digest::of(REPORT_HEADER.as_bytes()).hex();
        let build = text(m.build_part(Flavour::Sanitized)).replace(&header, "HEADER");
        let parts = [
            build,
            text(m.tests_part()),
            text(m.parser_part()),
            text(m.functions_part()),
            text(m.scoring_part()),
        ];
        insta::assert_snapshot!(parts.join("\n"), @r##"
        {"part":"subject/build 1","configure":[["./configure","CC={cc}","CFLAGS={cflags}"]],"build":[["make","-j{jobs}"],["{cc}","{cflags}","-o","t","test/t.c","{ldflags}"]],"env":{"HOSTCC":"{cc}","LC_ALL":"C"},"cflags":["-O0","-fsanitize=address"],"ldflags":["-lm","-fsanitize=address"],"harness":{"globs":["test/*.c"],"header":"HEADER"}}
        {"part":"subject/tests 2","shards":[["unit",false,{"part":"subject/shard 2","argv":["./t"],"cwd":".","env":{},"file":null,"writable":[],"cpu_seconds":10,"wall_seconds":30,"memory_mib":2048,"scratch_mib":256,"processes":64,"file_mib":256,"report":"results","options":{"ASAN_OPTIONS":"allocator_may_return_null=1"},"leaks":true}],["files",false,{"part":"subject/shard 2","argv":["test/t","--all"],"cwd":"test/data","env":{"TZ":"UTC"},"file":null,"writable":[],"cpu_seconds":60,"wall_seconds":90,"memory_mib":2048,"scratch_mib":256,"processes":64,"file_mib":256,"report":"results","options":{"ASAN_OPTIONS":"allocator_may_return_null=1"},"leaks":true}]],"files":[]}
        {"part":"subject/parser/lines 1","pass":["^ok (?<name>.*)"],"fail":["^not ok (?<name>.*)"],"skip":["(?<name>.*) # SKIP"]}
        {"part":"subject/functions 1","include":["src/**/*.c"],"exclude":["src/gen/**"],"harness":["test/*.c"],"min_tokens":10,"max_tokens":256}
        {"part":"subject/scoring 1","functions_per_iteration":8,"penalty":"0.69","iterations":200}
        "##);
    }
}
