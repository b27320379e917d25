//! Groups of files, profiles, and what authors are told about both.

use super::*;
use crate::subject::read::reading_tests::EXAMPLE;

const GROUP: &str = r#"
[[tests.files]]
name = "sh"
include = ["test/*.sh", "more/**/*.sh"]
exclude = ["test/slow-*", "test/gone.sh"]
argv = ["sh", "{tree}/{file}", "{stem}"]
cwd = "{scratch}"
cpu-seconds = 5
wall-seconds = 9
"#;

/// The example with a part put in front of `[functions]`.
fn with(part: &str) -> String {
    EXAMPLE.replace("[functions]", &format!("{part}\n[functions]"))
}

fn parse(text: &str) -> Manifest {
    Manifest::parse(text, "m.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn problems(text: &str) -> String {
    Manifest::parse(text, "m.toml").unwrap_err().to_string()
}

const FILES: [&str; 6] = [
    "README",
    "more/a/c.tar.sh",
    "more/b.sh",
    "test/a.sh",
    "test/slow-b.sh",
    "test/sub/d.sh",
];

#[test]
fn there_is_a_shard_for_each_file_called_by_its_path() {
    let suite = parse(&with(GROUP)).tests.expand(FILES.into_iter()).unwrap();
    let names: Vec<&str> = suite.shards.iter().map(|s| s.name.as_str()).collect();
    let own = ["unit", "files"];
    assert_eq!(
        names,
        [
            &own[..],
            &["sh/more/a/c.tar.sh", "sh/more/b.sh", "sh/test/a.sh"]
        ]
        .concat()
    );
    assert_eq!(
        suite.groups,
        [GroupCount {
            name: "sh".into(),
            shards: 3,
            excluded: 1,
            unused: vec!["test/gone.sh".into()],
        }]
    );
    let places = Places {
        tree: "/t",
        results: "/r",
        scratch: "/s",
    };
    let argv = |shard: &Shard| -> Vec<String> {
        shard.argv.iter().map(|a| shard.text(a, places)).collect()
    };
    assert_eq!(
        argv(&suite.shards[2]),
        ["sh", "/t/more/a/c.tar.sh", "c.tar"]
    );
    assert!(suite.shards[2].needs_scratch() && !suite.shards[0].needs_scratch());
}

#[test]
fn braces_in_a_files_name_stay() {
    let text = with(&GROUP.replace("\"{stem}\"", "\"{{{stem}}}\""));
    let suite = parse(&text).tests.expand(["test/{tree}.sh"].into_iter());
    let suite = suite.unwrap();
    let places = Places {
        tree: "/t",
        results: "/r",
        scratch: "/s",
    };
    let shard = &suite.shards[2];
    assert_eq!(shard.text(&shard.argv[1], places), "/t/test/{tree}.sh");
    assert_eq!(shard.text(&shard.argv[2], places), "{{tree}}");
}

#[test]
fn a_group_without_a_file_is_told_what_was_looked_at() {
    let tests = parse(&with(GROUP)).tests;
    let empty = tests.expand(["README", "test/slow-b.sh"].into_iter());
    insta::assert_snapshot!(empty.unwrap_err());
}

#[test]
fn a_profile_selects_shards_and_leaves_no_trace_of_the_others() {
    let profiles = "profiles = [\"full\"]\n";
    let text = with(&format!("{GROUP}{profiles}"))
        .replace(
            "name = \"files\"",
            "name = \"files\"\nprofiles = [\"quick\", \"full\"]",
        )
        .replace("[tests]", "[tests]\nprofile = \"quick\"");
    let manifest = parse(&text);
    let selected = |profile| {
        let tests = manifest.with_profile(profile).unwrap().tests;
        let groups = tests.files.iter().map(|g| g.shard.name.clone());
        let shards = tests.shards.iter().map(|s| s.name.clone());
        shards.chain(groups).collect::<Vec<_>>()
    };
    assert_eq!(selected(None), ["unit", "files"]);
    assert_eq!(selected(Some("quick")), ["unit", "files"]);
    assert_eq!(selected(Some("full")), ["unit", "files", "sh"]);
    // What is selected has the same part as if there were nothing else.
    let quick = manifest.with_profile(None).unwrap();
    assert_eq!(quick.tests_part(), parse(EXAMPLE).tests_part());
    assert_eq!(quick.with_profile(None).unwrap(), quick);

    let unknown = manifest.with_profile(Some("quik")).unwrap_err().to_string();
    insta::assert_snapshot!(unknown, @"subject `mylib` has no profile `quik`; did you mean `quick`? (all: full, quick)");
    let none = parse(EXAMPLE).with_profile(Some("quick")).unwrap_err();
    insta::assert_snapshot!(none, @"subject `mylib` has no profile `quick`: its tests are in no profiles; leave it out");
}

#[test]
fn all_problems_of_the_tests_are_reported_at_once() {
    let bad = r#"
[[tests.shard]]
name = "bad"
argv = ["./t", "{file}", "{results}", "{treee}"]
env = { X = "{cc}" }
writable = ["a/b", "a", "../c"]
memory-mib = 0
processes = "many"
profiles = []
cpu-seconds = 1
wall-seconds = 1

[[tests.files]]
name = "sh"
include = []
argv = ["sh"]
may-be-empty = 1
cpu-seconds = 1
wall-seconds = 1

[[tests.files]]
name = "sh"
argv = ["{file}"]
profiles = ["night"]
colour = "blue"
cpu-seconds = 1
wall-seconds = 1
"#;
    insta::assert_snapshot!(problems(&with(bad)));
}

#[test]
fn profiles_need_a_usual_one_and_a_report_file_its_place() {
    let night = "profiles = [\"night\"]";
    let text = with(&format!("{GROUP}{night}"));
    let missing = "`profile` is missing: which one is meant when none is asked for; write for example `profile = \"night\"`";
    assert_eq!(problems(&text), format!("m.toml:21:1: tests: {missing}"));
    let text = text.replace("[tests]", "[tests]\nprofile = \"nigth\"");
    let unknown = "no shard is in profile `nigth`; did you mean `night`?";
    assert_eq!(
        problems(&text),
        format!("m.toml:22:11: tests.profile: {unknown}")
    );
    let text = EXAMPLE.replace("report = \"results\"", "report = \"file\"");
    let all = problems(&text);
    assert_eq!(
        all.matches("report = \"file\" needs `{results}`").count(),
        2,
        "{all}"
    );
    let text = text.replace("\"./t\"", "\"./t\", \"{results}\"");
    let text = text.replace("\"--all\"", "\"--all={results}\"");
    assert_eq!(parse(&text).tests.report, Report::File);
}

#[test]
fn options_of_parsers_are_typed() {
    let parser = |text: &str| {
        let from = EXAMPLE.find("type = \"lines\"").unwrap();
        let to = EXAMPLE.find("[[tests.shard]]").unwrap();
        format!("{}{text}\n{}", &EXAMPLE[..from], &EXAMPLE[to..])
    };
    for (text, said) in [
        (
            "type = \"exit\"\nskip-codes = [77, 300]",
            "300 is no exit status",
        ),
        (
            "type = \"exit\"\nskip-codes = [\"77\"]",
            "a whole number is expected",
        ),
        (
            "type = \"exit\"\nskip = [77]",
            "unknown key `skip`; known: type, skip-codes",
        ),
        ("type = \"tap\"\nsubtests = 1", "true or false is expected"),
        ("type = \"unity\"\npass = ['x']", "unknown key `pass`"),
        ("type = \"ctset\"", "did you mean `ctest`?"),
        ("pass = ['x']", "`type` is missing"),
        ("type = \"lines\"", "`pass` is missing"),
    ] {
        let all = problems(&parser(text));
        assert!(all.contains(said), "{text}\n{all}");
    }
    let tap = parse(&parser("type = \"tap\"\nsubtests = true"))
        .tests
        .parser;
    assert_eq!(tap.name(), "tap");
    assert_ne!(
        tap.canonical(),
        parse(&parser("type = \"tap\"")).tests.parser.canonical()
    );
    // An option at its default is as if it were not written.
    assert_eq!(
        parse(&parser("type = \"tap\"\nsubtests = false"))
            .tests
            .parser,
        parse(&parser("type = \"tap\"")).tests.parser
    );
}
