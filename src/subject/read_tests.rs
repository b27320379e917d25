//! What authors of manifests see: a good one read, and every kind of mistake with its place.

use super::*;
use crate::subject::{Cwd, Source};
use proptest::prelude::*;

pub(in crate::subject) const EXAMPLE: &str = r##"# A comment
name = "mylib"

[source]
directory = "."
ignore = ["build/**"]

[build]
configure = [["./configure", "CC={cc}", "CFLAGS={cflags}"]]
build = [["make", "-j{jobs}"], ["{cc}", "{cflags}", "-o", "t", "test/t.c", "{ldflags}"]]
cflags = ["-O0"]
ldflags = ["-lm"]
env = { LC_ALL = "C", HOSTCC = "{cc}" }

[sanitizers]
cflags = ["-fsanitize=address"]
ldflags = ["-fsanitize=address"]
leaks = true
options = { ASAN_OPTIONS = "allocator_may_return_null=1" }

[tests]
report = "results"
harness = ["test/*.c"]

[tests.parser]
type = "lines"
pass = ['^ok (?<name>.*)']
fail = ['^not ok (?<name>.*)']
skip = ['(?<name>.*) # SKIP']

[[tests.shard]]
name = "unit"
argv = ["./t"]
cpu-seconds = 10
wall-seconds = 30

[[tests.shard]]
name = "files"
argv = ["test/t", "--all"]
cwd = "test/data"
env = { TZ = "UTC" }
cpu-seconds = 60
wall-seconds = 90

[functions]
include = ["src/**/*.c"]
exclude = ["src/gen/**"]
min-tokens = 10
max-tokens = 256

[scoring]
functions-per-iteration = 8
penalty = 0.69
iterations = 200
"##;

fn problems(text: &str) -> String {
    match Manifest::parse(text, "m.toml") {
        Ok(_) => panic!("it reads without a problem"),
        Err(problems) => problems.to_string(),
    }
}

/// The problems after one edit of the example.
fn edited(from: &str, to: &str) -> String {
    let text = EXAMPLE.replacen(from, to, 1);
    assert_ne!(text, EXAMPLE, "`{from}` is in the example");
    problems(&text)
}

#[test]
fn the_example_reads_as_written() {
    let m = Manifest::parse(EXAMPLE, "m.toml").unwrap();
    assert_eq!(m.name, "mylib");
    assert!(matches!(&m.source, Source::Directory(d) if d.ignore.matches("build/x/y.o")));
    assert_eq!(m.build.build.len(), 2);
    assert_eq!(
        m.sanitizers.options["ASAN_OPTIONS"],
        "allocator_may_return_null=1"
    );
    assert_eq!(m.tests.shards[0].cwd, Cwd::Tree(".".into()));
    assert_eq!(m.tests.shards[1].env["TZ"].source(), "UTC");
    assert_eq!(m.tests.shards[1].limits.wall_seconds, 90);
    assert_eq!(m.scoring.penalty, Some(0.69));
    let tools = crate::subject::Tools {
        cc: "gcc".into(),
        cxx: "g++".into(),
        ar: "ar".into(),
        ranlib: "ranlib".into(),
        jobs: 4,
    };
    let plan = m.plan(crate::subject::Flavour::Sanitized, &tools);
    assert_eq!(plan.build[0], ["make", "-j4"]);
    assert_eq!(
        plan.build[1],
        [
            "gcc",
            "-O0",
            "-fsanitize=address",
            "-o",
            "t",
            "test/t.c",
            "-lm",
            "-fsanitize=address"
        ]
    );
    assert_eq!(plan.configure[0][2], "CFLAGS=-O0 -fsanitize=address");
    assert_eq!(plan.env["HOSTCC"], "gcc");
}

#[test]
fn what_may_be_left_out_has_the_documented_defaults() {
    let text = EXAMPLE
        .replace("iterations = 200", "")
        .replace("penalty = 0.69", "")
        .replace("min-tokens = 10", "")
        .replace("max-tokens = 256", "")
        .replace("include = [\"src/**/*.c\"]", "")
        .replace("skip = ['(?<name>.*) # SKIP']", "");
    let m = Manifest::parse(&text, "m.toml").unwrap();
    assert_eq!(m.scoring.iterations, 1000);
    assert_eq!(m.scoring.penalty, None);
    assert_eq!((m.functions.min_tokens, m.functions.max_tokens), (10, 256));
    assert_eq!(m.functions.include.patterns(), ["**/*.c"]);
    assert!(m.functions.generated.is_empty());
}

#[test]
fn all_problems_are_reported_at_once_in_order() {
    let text = EXAMPLE
        .replace("name = \"mylib\"", "name = 3")
        .replace("[source]", "[source]\ncolour = \"blue\"")
        .replace("cflags = [\"-O0\"]", "cflag = [\"-O0\"]")
        .replace("{jobs}", "{job}")
        .replace("leaks = true", "")
        .replace("'^ok (?<name>.*)'", "'^ok ('")
        .replace("cpu-seconds = 10", "cpu_seconds = 10")
        .replace("\"src/gen/**\"", "\"src/gen[/**\"")
        .replace(
            "functions-per-iteration = 8",
            "functions-per-iteration = -8",
        )
        .replace("penalty = 0.69", "penalty = \"much\"");
    insta::assert_snapshot!(problems(&text), @r##"
        m.toml:2:8: name: a string is expected here, not a value of type integer
        m.toml:5:1: source: unknown key `colour`; known: crate, debian, directory, git, sdist, tarball, ignore
        m.toml:11:19: build.build[0][1]: unknown placeholder `{job}`; did you mean `jobs`?
        m.toml:12:1: build: unknown key `cflag`; did you mean `cflags`?
        m.toml:16:1: sanitizers: `leaks` is missing; write for example `leaks = false`
        m.toml:28:9: tests.parser.pass[0]: not a regular expression: unclosed group
        m.toml:32:1: tests.shard[0]: `cpu-seconds` is missing; write for example `cpu-seconds = 60`
        m.toml:35:1: tests.shard[0]: unknown key `cpu_seconds`; did you mean `cpu-seconds`?
        m.toml:48:12: functions.exclude[0]: not a glob pattern: unclosed character class; missing ']'
        m.toml:53:27: scoring.functions-per-iteration: -8 is not between 1 and 1000000
        m.toml:54:11: scoring.penalty: a number is expected here, not a value of type string
        "##);
}

#[test]
fn packages_are_names_of_debian() {
    let with = |list: &str| {
        let text = EXAMPLE.replacen("[build]\n", &format!("[build]\npackages = {list}\n"), 1);
        Manifest::parse(&text, "m.toml").map(|m| m.build.packages)
    };
    assert_eq!(
        with("[\"libfoo1.2-dev\", \"g++\"]").unwrap(),
        ["libfoo1.2-dev", "g++"]
    );
    for wrong in ["a b-dev", "-y", "Foo", "x", "tcl-dev=8.6", "a;b", ""] {
        let said = with(&format!("[\"{wrong}\"]")).unwrap_err().to_string();
        assert!(
            said.contains("m.toml:9:13: build.packages[0]: not a name"),
            "{said}"
        );
    }
}

#[test]
fn an_empty_manifest_is_told_what_it_needs() {
    insta::assert_snapshot!(problems(""), @r##"
        m.toml:1:1: `name` is missing; write for example `name = "mylib"`
        m.toml:1:1: `source` is missing; write for example `[source]`
        m.toml:1:1: `build` is missing; write for example `[build]`
        m.toml:1:1: `sanitizers` is missing; write for example `[sanitizers]`
        m.toml:1:1: `tests` is missing; write for example `[tests]`
        m.toml:1:1: `functions` is missing; write for example `[functions]`
        m.toml:1:1: `scoring` is missing; write for example `[scoring]`
        "##);
}

#[test]
fn text_that_is_not_toml_is_told_where() {
    let said = problems("name = \"x\"\n[source\ndirectory = .\n");
    assert!(said.starts_with("m.toml:2:"), "{said}");
    assert!(said.contains("not TOML"), "{said}");
}

#[test]
fn impossible_values_are_refused() {
    for (from, to, said) in [
        (
            "functions-per-iteration = 8",
            "functions-per-iteration = 0",
            "0 is not between 1 and",
        ),
        (
            "functions-per-iteration = 8",
            "functions-per-iteration = 8.5",
            "a whole number is expected",
        ),
        (
            "functions-per-iteration = 8",
            "functions-per-iteration = 99999999999999999999",
            "at most 64 bits",
        ),
        ("penalty = 0.69", "penalty = 0.0", "above 0 and at most 100"),
        ("penalty = 0.69", "penalty = nan", "above 0 and at most 100"),
        (
            "penalty = 0.69",
            "penalty = -inf",
            "above 0 and at most 100",
        ),
        ("iterations = 200", "iterations = 0", "scoring.iterations"),
        (
            "min-tokens = 10",
            "min-tokens = 256",
            "`min-tokens` must be less than `max-tokens`",
        ),
        (
            "include = [\"src/**/*.c\"]",
            "include = []",
            "no function would be found",
        ),
        ("[\"src/**/*.c\"]", "[\"/src/*.c\"]", "relative to the root"),
        (
            "cwd = \"test/data\"",
            "cwd = \"../data\"",
            "could leave the tree",
        ),
        ("cwd = \"test/data\"", "cwd = \"/data\"", "it is absolute"),
        (
            "name = \"files\"",
            "name = \"unit\"",
            "another shard is called `unit`",
        ),
        ("name = \"files\"", "name = \"a b\"", "a name is 1 to 64"),
        ("argv = [\"./t\"]", "argv = []", "a command needs a program"),
        (
            "argv = [\"test/t\"",
            "argv = [\"../t\"",
            "`../t` is outside of the tree",
        ),
        (
            "argv = [\"./t\"]",
            "argv = [\"{tree}/x/../../t\"]",
            "is outside of the tree",
        ),
        (
            "argv = [\"./t\"]",
            "argv = [\"{cc}\"]",
            "only known in [build]",
        ),
        (
            "argv = [\"./t\"]",
            "argv = \"./t\"",
            "a list of strings is expected here, not a value of type string",
        ),
        (
            "wall-seconds = 30",
            "wall-seconds = 0",
            "tests.shard[0].wall-seconds",
        ),
        (
            "pass = ['^ok (?<name>.*)']",
            "pass = []",
            "at least one pattern is needed",
        ),
        (
            "type = \"lines\"",
            "type = \"line\"",
            "did you mean `lines`?",
        ),
        (
            "report = \"results\"",
            "report = \"result\"",
            "did you mean `results`?",
        ),
        ("harness = [\"test/*.c\"]", "", "needs `harness`"),
        ("[\"-O0\"]", "[\"-O0 -g\"]", "a flag is one word"),
        (
            "\"make\", \"-j{jobs}\"",
            "\"make\", \"-j{jobs\"",
            "a lone `{`",
        ),
        (
            "[[\"./configure\"",
            "[[], [\"./configure\"",
            "a command needs a program",
        ),
        ("HOSTCC =", "\"HOST=CC\" =", "not an environment variable"),
        (
            "ASAN_OPTIONS =",
            "ASAN_OPTION =",
            "did you mean `ASAN_OPTIONS`?",
        ),
        (
            "allocator_may_return_null=1",
            "x=1:detect_leaks=0",
            "use `leaks`",
        ),
        (
            "leaks = true",
            "leaks = \"yes\"",
            "true or false is expected",
        ),
        (
            "directory = \".\"",
            "directory = \".\"\ncrate = \"x\"",
            "more than one source is given: `crate`, `directory`",
        ),
        (
            "directory = \".\"",
            "",
            "one of `crate`, `debian`, `directory`, `git`, `sdist`, `tarball` is needed",
        ),
        (
            "directory = \".\"",
            "directory = \".\"\nversion = \"1.0.0\"",
            "unknown key `version`",
        ),
        ("[scoring]", "[[scoring]]", "a table is expected here"),
        ("[functions]", "[function]", "did you mean `functions`?"),
    ] {
        let all = edited(from, to);
        assert!(all.contains(said), "{from} -> {to}\n{all}");
    }
}

#[test]
fn crates_are_pinned_exactly() {
    let with = |version: &str, checksum: &str, inside: &str| {
        let source = format!(
            "crate = \"x\"\nversion = \"{version}\"\nchecksum = \"{checksum}\"\npath-inside = \"{inside}\""
        );
        let text = EXAMPLE.replace("directory = \".\"\nignore = [\"build/**\"]", &source);
        Manifest::parse(&text, "m.toml").map_err(|p| p.to_string())
    };
    let sum = "0".repeat(64);
    assert!(with("1.2.3", &sum, "c/lib").is_ok());
    assert!(with("1.2.3-rc.1+up9", &sum, "c").is_ok());
    for version in ["1.2", "^1.2.3", "=1.2.3", "*", "1.2.x", "", "1.2.3\\n"] {
        assert!(
            with(version, &sum, "c")
                .unwrap_err()
                .contains("exact version"),
            "{version}"
        );
    }
    for checksum in ["", "00", &"G".repeat(64), &"A".repeat(64)] {
        assert!(
            with("1.2.3", checksum, "c")
                .unwrap_err()
                .contains("hexadecimal")
        );
    }
    for inside in ["", "/etc", "a/../..", "a/"] {
        assert!(with("1.2.3", &sum, inside).is_err(), "{inside}");
    }
}

proptest! {
    #[test]
    fn any_damage_is_read_or_explained(at in 0..EXAMPLE.len(), cut in 0usize..30, put in "[ -~\n]{0,6}") {
        let end = (at + cut).min(EXAMPLE.len());
        let text = format!("{}{put}{}", &EXAMPLE[..at], &EXAMPLE[end..]);
        if let Err(e) = Manifest::parse(&text, "m") {
            prop_assert!(!e.problems.is_empty());
            for p in &e.problems {
                prop_assert!(!p.message.contains("fault of this program"), "{}", p.message);
                prop_assert!(p.line <= text.lines().count() + 1 && p.column >= 1);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_explained(text in "\\PC{0,80}") {
        let _ = Manifest::parse(&text, "m");
    }
}
