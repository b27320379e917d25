//! How tests are run, in the sandbox: report files, writable places, limits, a shard for each file,
//! and what an author is told of shards that are of no use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use everbench::engine::{Db, fold};
use everbench::oss::artifact::{self, EndDoc, PROGRAM, ProgramDoc, RUN, RunDoc};
use everbench::oss::inputs::Subject;
use everbench::oss::population::{self, FunctionArg};
use everbench::oss::{baseline, jobs, suite};

use super::support::*;

const HEAD: &str = r#"
name = "suite"
[source]
directory = "."
[build]
build = [["make", "all", "CC={cc}", "CFLAGS={cflags}", "LDFLAGS={ldflags}"]]
cflags = ["-O0"]
[sanitizers]
cflags = []
ldflags = []
leaks = false
[functions]
include = ["lib.c"]
min-tokens = 1
[scoring]
functions-per-iteration = 1
"#;

const MAKEFILE: &str = "all: bin/tool\nbin/tool: lib.c main.c\n\tmkdir -p bin\n\
    \t$(CC) $(CFLAGS) -c -o lib.o lib.c\n\t$(CC) $(CFLAGS) -c -o main.o main.c\n\
    \t$(CC) $(LDFLAGS) -o bin/tool lib.o main.o\n";
const LIB: &str = "int twice(int n)\n{\n    return n + n;\n}\n";
const MAIN: &str = "#include <stdio.h>\n#include <stdlib.h>\nint twice(int n);\n\
    int main(int argc, char **argv)\n{\n    printf(\"%d\\n\", twice(argc > 1 ? atoi(argv[1]) : 1));\n    return 0;\n}\n";

/// A project of ours with these files beside its own, and the manifest's `[tests]`.
fn lab(tests: &str, files: &[(&str, &str)]) -> Lab {
    let dir = tempfile::tempdir().unwrap();
    let own = [("Makefile", MAKEFILE), ("lib.c", LIB), ("main.c", MAIN)];
    for (path, text) in own.iter().chain(files) {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Lab::open(&format!("{HEAD}\n{tests}"), Path::new(dir.path()), None)
}

fn shard(name: &str, script: &str, more: &str) -> String {
    format!(
        "[[tests.shard]]\nname = \"{name}\"\nargv = [\"sh\", \"-ec\", '''{script}''']\n\
         cpu-seconds = 10\nwall-seconds = 30\n{more}\n"
    )
}

/// How a run ended, and what it left.
#[derive(Debug)]
struct Ran {
    end: EndDoc,
    stdout: String,
    results: String,
}

/// Runs every shard once, on the unchanged subject or with another `twice`.
fn run(lab: &mut Lab, twice: Option<&str>) -> BTreeMap<String, Ran> {
    lab.drive(None, |db, settings, subject: Subject| {
        let (mut files, mut program, mut set) = (Vec::new(), None, Vec::new());
        if let Some(variant) = twice {
            let population = population::population(db, settings, subject)?;
            let function = find(&population, "lib.c:twice");
            let arg = FunctionArg::new(db, function.clone());
            let text = population::text(db, settings, subject, arg)?;
            let digest = everbench::digest::Digest::of(variant.as_bytes());
            let verdict = jobs::verdict(db, subject, &function, text, variant.as_bytes().into())?;
            db.demand(&verdict)?;
            set = vec![jobs::replacement(&function, digest)];
            let job = jobs::program(db, subject, &set)?;
            let doc: ProgramDoc = artifact::read(PROGRAM, &db.blob(db.demand(&job)?)?)?;
            assert!(doc.failed.is_none(), "{doc:?}");
            files = doc.files;
            program = Some(job);
        }
        let suite = suite::suite(db, subject)?;
        let ran = suite.shards.iter().enumerate().map(|(at, shard)| {
            let reads = baseline::reads_of(db, subject, at)?;
            let reads = reads.with(db, subject, &files, &set)?;
            let job = jobs::run(db, subject, shard, &reads, program.clone(), 0)?;
            let doc: RunDoc = artifact::read(RUN, &db.blob(db.demand(&job)?)?)?;
            let text = |digest| -> Result<String, everbench::engine::Hold> {
                Ok(String::from_utf8_lossy(&db.blob(digest)?).into_owned())
            };
            let ran = Ran {
                stdout: text(doc.stdout)?,
                results: text(doc.results)?,
                end: doc.end,
            };
            Ok((shard.name.clone(), ran))
        });
        Ok(fold(ran)?.into_iter().collect())
    })
}

#[test]
fn a_shard_for_each_file_is_a_case_by_its_exit_status() {
    let group = r#"
[tests]
report = "stdout"
[tests.parser]
type = "exit"
skip-codes = [77]
[[tests.files]]
name = "sh"
include = ["tests/**/*.sh"]
exclude = ["tests/broken-*"]
argv = ["sh", "-e", "{tree}/{file}", "{stem}"]
cwd = "{scratch}"
cpu-seconds = 10
wall-seconds = 30
"#;
    // What every test may count on: an empty place to write, a tree that it cannot, and not root.
    let checks = "[ \"$(ls -A)\" = '' ]\necho x > here\n[ ! -w /eb/tree/tests ]\n\
        [ \"$(id -u)\" = 65534 ]\n[ \"$(/eb/tree/bin/tool 4)\" = 8 ]\n[ \"$1\" = good ]\n";
    let files = [
        ("tests/deep/good.sh", checks),
        ("tests/fails.sh", "exit 3\n"),
        ("tests/skips.sh", "exit 77\n"),
        ("tests/broken-one.sh", "exit 1\n"),
    ];
    let mut lab = lab(group, &files);
    let found = lab.drive(None, |db, settings, subject| {
        baseline::baseline(db, settings, subject)
    });
    let names = |pick: fn(&everbench::logs::Baseline) -> &std::collections::BTreeSet<_>| {
        let shards = found.shards.iter().flat_map(|s| pick(s).iter());
        shards
            .map(|c: &everbench::logs::Case| c.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(|s| &s.stable_pass), ["sh/tests/deep/good.sh"]);
    assert_eq!(names(|s| &s.failing), ["sh/tests/fails.sh"]);
    assert_eq!(names(|s| &s.skipped), ["sh/tests/skips.sh"]);
    assert_eq!((found.groups[0].shards, found.groups[0].excluded), (3, 1));
    assert_eq!(found.cases(), 2);
}

#[test]
fn a_report_file_comes_back_however_the_run_ended() {
    let tests = format!(
        "[tests]\nreport = \"file\"\n[tests.parser]\ntype = \"tap\"\n{}{}{}{}{}",
        shard(
            "good",
            "echo 'not ok 1 - printed'; echo 'ok 1 - a' > {results}",
            ""
        ),
        shard("killed", "echo 'ok 1 - a' > {results}; kill -9 $$", ""),
        shard("silent", "true {results}", ""),
        shard("link", "ln -s /eb/tree/lib.c {results}", ""),
        shard(
            "by-env",
            "echo 'ok 1 - b' > \"$OUT\"",
            "env = { OUT = \"{results}\" }"
        ),
    );
    let ran = run(&mut lab(&tests, &[]), None);
    assert_eq!(ran["good"].results, "ok 1 - a\n");
    assert_eq!(ran["killed"].results, "ok 1 - a\n");
    assert_eq!(ran["killed"].end, EndDoc::Signal(9));
    assert_eq!(ran["by-env"].results, "ok 1 - b\n");
    for none in ["silent", "link"] {
        assert_eq!(ran[none].results, "", "{none}");
    }
}

#[test]
fn what_a_run_may_write_is_its_own_and_limits_hold() {
    let append = "echo x >> data/log; cat data/log; [ data/old -ot Makefile ] || echo time kept";
    let tests = format!(
        "[tests]\nreport = \"stdout\"\n[tests.parser]\ntype = \"exit\"\n{}{}{}{}{}",
        shard("some", append, "writable = [\"data\", \"bin\"]"),
        shard("again", append, "writable = [\"data\"]"),
        shard(
            "all",
            "bin/tool 4; rm bin/tool; echo y > new; cat new",
            "writable = [\".\"]"
        ),
        shard("none", "bin/tool 4; echo x >> data/log", ""),
        shard(
            "full",
            "cd data; while head -c 500000 /dev/zero > f$((n = n + 1)); do sleep 0.1; done",
            "writable = [\"data\"]\nscratch-mib = 1"
        ),
    );
    let files = [("data/log", "first\n"), ("data/old", "")];
    let mut lab = lab(&tests, &files);
    for twice in [None, Some("int twice(int n)\n{\n    return 3 * n;\n}\n")] {
        let ran = run(&mut lab, twice);
        let tool = if twice.is_some() { "12" } else { "8" };
        for name in ["some", "again"] {
            assert_eq!(ran[name].stdout, "first\nx\ntime kept\n", "{:?}", ran[name]);
        }
        // The program is the variant's in the copy as well as in the tree.
        assert_eq!(
            ran["all"].stdout,
            format!("{tool}\ny\n"),
            "{:?}",
            ran["all"]
        );
        assert_eq!(ran["none"].stdout, format!("{tool}\n"));
        assert_ne!(ran["none"].end, EndDoc::Exit(0));
        assert_eq!(ran["full"].end, EndDoc::Limit("disk".into()));
    }
}

#[test]
fn shards_of_no_use_are_named_with_what_to_do() {
    let group = "[[tests.files]]\nname = \"sh\"\ninclude = [\"tests/*.sh\"]\nargv = [\"sh\", \"{file}\"]\n\
        cpu-seconds = 10\nwall-seconds = 1\n";
    let tests = format!(
        "[tests]\nreport = \"stdout\"\n[tests.parser]\ntype = \"tap\"\n{}{}{}{group}",
        shard("good", "echo ok 1 - a", ""),
        shard("empty", "true", "may-be-empty = true"),
        shard("dies", "echo ok 1 - a; kill -SEGV $$", ""),
    );
    let files = [
        ("tests/hangs.sh", "echo ok 1; sleep 9\n"),
        ("tests/silent.sh", "exit 3\n"),
    ];
    let mut lab = lab(&tests, &files);
    let fault = lab.fault(|db, settings, subject| baseline::baseline(db, settings, subject));
    insta::assert_snapshot!(fault);
}

#[test]
fn a_program_that_does_not_start_is_named_with_where_it_was_looked_for() {
    let shard = |name: &str, program: &str| {
        format!(
            "[[tests.shard]]\nname = \"{name}\"\nargv = [\"{program}\"]\ncwd = \"tests\"\n\
             cpu-seconds = 10\nwall-seconds = 30\n"
        )
    };
    // To this parser a program that is missing is one more case that fails.
    let tests = format!(
        "[tests]\nreport = \"stdout\"\n[tests.parser]\ntype = \"exit\"\n{}{}{}{}{}",
        shard("good", "./bin/tool"),
        shard("gone", "./bin/toll"),
        shard("bare", "toll"),
        shard("absolute", "/opt/toll"),
        shard("plain", "./main.c"),
    );
    let mut lab = lab(&tests, &[("tests/data", "x\n")]);
    let fault = lab.fault(|db, settings, subject| baseline::baseline(db, settings, subject));
    insta::assert_snapshot!(fault, @"
    4 of the 5 shards of subject `suite` are of no use in the unchanged subject:
      `gone` did not start its program `./bin/toll`, looked for at `bin/toll` in the built tree: there is none, or its first line names an interpreter that is not there; a program with a `/` is looked for from the root of the tree, whatever `cwd` is: mend `argv`, or leave its tests out
      `bare` did not start its program `toll`, looked for in /usr/bin:/bin: there is none; one of the tree is written with a `/`, as in `./toll`: mend `argv`, or leave its tests out
      `absolute` did not start its program `/opt/toll`, looked for at `/opt/toll` in the sandbox: there is none, or its first line names an interpreter that is not there: mend `argv`, or leave its tests out
      `plain` did not start its program `./main.c`, looked for at `main.c` in the built tree: it may not be executed: mend `argv`, or leave its tests out
      help: run the unchanged tests by hand; check `[tests]` in the manifest: the commands, the limits, where results are reported and the options of `[tests.parser]`
    ");
}
