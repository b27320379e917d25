//! Was the patch in it? A benchmark against a history, from outside.

use std::fs;

use serde_json::{Value, json};

use crate::support::*;

const HEAD: &str = "#include <stddef.h>\n\n";
const GET: &str =
    "int get(const int *v, int n, int i)\n{\n    int found = v[i];\n    return found;\n}\n\n";
const GET_FIXED: &str = "int get(const int *v, int n, int i)\n{\n    if (i < 0 || i >= n)\n        return -1;\n    int found = v[i];\n    return found;\n}\n\n";
const SUM: &str = "int sum(const int *v, int n)\n{\n    int all = 0;\n    n = n - 1;\n    for (int i = 0; i < n; i++)\n        all += v[i];\n    return all;\n}\n\n";
const SUM_FIXED: &str = "int sum(const int *v, int n)\n{\n    int all = 0;\n    for (int i = 0; i < n; i++)\n        all += v[i];\n    return all;\n}\n\n";

/// A clone `clones/maker/lib` without a commit.
fn empty_clone(project: &Project) -> std::path::PathBuf {
    let clone = project.dir.join("clones/maker/lib");
    fs::create_dir_all(&clone).unwrap();
    git(&clone, "2020-01-01", &["init", "-q", "-b", "main"]);
    clone
}

/// Commits all that is there, and gives the commit.
fn committed(clone: &std::path::Path, date: &str) -> String {
    git(clone, date, &["add", "-A"]);
    git(clone, date, &["commit", "-q", "-m", "x"]);
    git(clone, date, &["rev-parse", "HEAD"]).trim().to_string()
}

/// A clone `clones/maker/lib`, whose two functions are fixed in 2021 and 2022; in between the file is
/// renamed and a function moves; the first fix is taken back in 2023. Gives its commits.
fn history(project: &Project) -> Vec<String> {
    let clone = empty_clone(project);
    let mut commits = Vec::new();
    let mut commit = |date: &str, files: &[(&str, String)]| {
        git(&clone, date, &["rm", "-rqf", "--ignore-unmatch", "."]);
        for (path, text) in files {
            fs::create_dir_all(clone.join(path).parent().unwrap()).unwrap();
            fs::write(clone.join(path), text).unwrap();
        }
        commits.push(committed(&clone, date));
    };
    commit("2020-01-01", &[("lib.c", format!("{HEAD}{GET}{SUM}"))]);
    commit(
        "2021-01-01",
        &[("lib.c", format!("{HEAD}{GET_FIXED}{SUM}"))],
    );
    commit(
        "2021-06-01",
        &[("src/lib.c", format!("{HEAD}{GET_FIXED}{SUM}"))],
    );
    commit(
        "2021-07-01",
        &[
            ("src/lib.c", format!("{HEAD}{GET_FIXED}")),
            ("src/sum.c", SUM.into()),
        ],
    );
    commit(
        "2022-01-01",
        &[
            ("src/lib.c", format!("{HEAD}{GET_FIXED}")),
            ("src/sum.c", SUM_FIXED.into()),
        ],
    );
    commit(
        "2023-01-01",
        &[
            ("src/lib.c", format!("{HEAD}{GET}")),
            ("src/sum.c", SUM_FIXED.into()),
        ],
    );
    commits
}

fn row(id: &str, base: &str, patch: &str) -> Value {
    json!({"instance_id": id, "repo": "maker/lib", "base_commit": base, "patch": patch,
        "test_patch": "", "FAIL_TO_PASS": "[\"t\"]", "PASS_TO_PASS": "[]",
        "created_at": "2020-12-01T00:00:00Z", "difficulty": if id == "get" { "easy" } else { "hard" }})
}

/// A benchmark of the two fixes and of everything that can be wrong with an instance.
fn benchmark(project: &Project) -> Vec<String> {
    let commits = history(project);
    let clone = project.dir.join("clones/maker/lib");
    let diff = |a: usize, b: usize| git(&clone, "2020-01-01", &["diff", &commits[a], &commits[b]]);
    let get = diff(0, 1);
    let sum = diff(3, 4);
    let gone = "0123456789".repeat(4);
    let binary =
        "diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n";
    let mode = "diff --git a/lib.c b/lib.c\nold mode 100644\nnew mode 100755\n";
    let layout = "--- a/lib.c\n+++ b/lib.c\n@@ -3,3 +3,4 @@\n int get(const int *v, int n, int i)\n {\n+    /* Reads. */\n     int found = v[i];\n";
    let mut rows = vec![
        row("get", &commits[0], &get),
        row("sum", &commits[3], &sum),
        row("crlf", &commits[0], &get.replace('\n', "\r\n")),
        row("gone", &gone, &get),
        row("misfit", &commits[1], &get),
        row("no-file", &commits[0], &get.replace("lib.c", "other.c")),
        row("binary", &commits[0], binary),
        row("mode", &commits[0], mode),
        row("layout", &commits[0], layout),
        row("words", &commits[0], "no patch at all"),
    ];
    let mut elsewhere = row("elsewhere", &commits[0], &get);
    elsewhere["repo"] = "maker/absent".into();
    rows.push(elsewhere);
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(
        project.dir.join("bench.jsonl"),
        lines.join("\n") + "\nno json\n",
    )
    .unwrap();
    commits
}

fn patches(project: &Project, cutoff: &str, more: &[&str]) -> Value {
    let clones = project.dir.join("clones").display().to_string();
    let bench = project.dir.join("bench.jsonl").display().to_string();
    let mut args = vec![
        "contamination",
        "patches",
        &bench,
        "--repositories",
        &clones,
    ];
    args.extend(["--cutoff", cutoff, "--quiet", "--format", "json"]);
    args.extend(more);
    project.run(args).ok().json()
}

fn of<'a>(told: &'a Value, id: &str) -> &'a Value {
    let all = told["instances"].as_array().unwrap();
    all.iter().find(|i| i["id"] == id).unwrap()
}

#[test]
fn each_instance_is_told_with_commit_hunk_and_reason() {
    let project = Project::empty();
    let commits = benchmark(&project);
    let told = patches(&project, "2022-06", &[]);
    let get = of(&told, "get");
    assert_eq!(
        (&get["verdict"], &get["category"]),
        (&json!("present"), &json!(1))
    );
    assert_eq!(get["commit"]["id"], commits[1]);
    assert_eq!(get["snapshot"]["id"], commits[4]);
    assert_eq!(get["decided"]["function"], "get");
    assert_eq!(
        (&get["decided"]["hunk"], &get["decided"]["now"]),
        (&json!(1), &json!("src/lib.c"))
    );
    // A hunk that only deletes, in a function that has moved before.
    let sum = of(&told, "sum");
    assert_eq!(
        (&sum["verdict"], &sum["commit"]["id"]),
        (&json!("present"), &json!(commits[4]))
    );
    assert_eq!(sum["reason"], "the deleted lines are gone");
    assert_eq!(of(&told, "crlf")["verdict"], "present");
    let problems = [
        ("gone", "base_gone"),
        ("misfit", "misfit"),
        ("no-file", "no_file"),
        ("binary", "nothing_compared"),
        ("mode", "nothing_compared"),
        ("layout", "nothing_compared"),
        ("words", "no_hunks"),
        ("elsewhere", "repository_gone"),
    ];
    for (id, problem) in problems {
        let one = of(&told, id);
        assert_eq!(
            (&one["verdict"], &one["problem"]),
            (&json!("unknown"), &json!(problem)),
            "{one}"
        );
    }
    assert_eq!(
        told["left_out"],
        json!({"binary": 1, "mode_only": 1, "trivial": 1})
    );
    assert_eq!(
        told["no_instances"],
        json!([{"at": "row 12", "reason": "malformed"}])
    );
}

#[test]
fn another_cutoff_reads_nothing_and_a_new_instance_only_its_own() {
    let project = Project::empty();
    let commits = benchmark(&project);
    let first = patches(&project, "2022-06", &[]);
    // One line in one stretch, and back from the base a walk of each instance that has one; of the three that fit
    // the legs to the tip, two where the file is renamed in between.
    assert_eq!(
        first["executed"],
        json!({"contamination/line": 1, "contamination/stretch": 1, "contamination/join": 1,
            "contamination/walk": 9, "contamination/leg": 5})
    );
    let verdicts = |told: &Value| -> Vec<(String, u64)> {
        ["get", "sum"]
            .map(|id| {
                let one = of(told, id);
                (
                    one["verdict"].as_str().unwrap().to_string(),
                    one["category"].as_u64().unwrap(),
                )
            })
            .to_vec()
    };
    let of_day = |cutoff: &str, more: &[&str]| {
        let told = patches(&project, cutoff, more);
        assert_eq!(told["executed"], json!({}), "{cutoff}");
        verdicts(&told)
    };
    let said = |one: (&str, u64), two: (&str, u64)| {
        vec![(one.0.to_string(), one.1), (two.0.to_string(), two.1)]
    };
    assert_eq!(of_day("2020-06", &[]), said(("absent", 5), ("absent", 5)));
    assert_eq!(of_day("2021-03", &[]), said(("present", 1), ("absent", 5)));
    assert_eq!(
        of_day("2022-06", &["--collection-end", "2021-12"]),
        said(("present", 1), ("present", 2))
    );
    assert_eq!(of_day("2023-06", &[]), said(("absent", 3), ("present", 1)));
    assert_eq!(of_day("2025-06", &[]), said(("absent", 4), ("present", 1)));
    let early = patches(&project, "2019-01", &[]);
    assert_eq!(of(&early, "get")["problem"], "no_snapshot");

    let text = project.read("bench.jsonl");
    let patch = "--- a/lib.c\n+++ b/lib.c\n@@ -3,4 +3,4 @@\n int get(const int *v, int n, int i)\n {\n-    int found = v[i];\n+    int found = v[i] + 1;\n     return found;\n";
    let more = row("more", &commits[0], patch);
    fs::write(project.dir.join("bench.jsonl"), format!("{text}{more}\n")).unwrap();
    let told = patches(&project, "2022-06", &[]);
    assert_eq!(
        told["executed"],
        json!({"contamination/walk": 1, "contamination/leg": 2})
    );
    assert_eq!(of(&told, "more")["verdict"], "absent");
    // What a benchmark rests on stays.
    project.run(["store", "gc"]).ok();
    assert_eq!(patches(&project, "2022-06", &[])["executed"], json!({}));
}

/// Puts commits of 2020 on the branch, each with the files that it changes; a minute lies between them.
fn import(clone: &std::path::Path, from: usize, commits: &[Vec<(&str, String)>]) {
    use std::io::Write as _;
    let mut stream = String::new();
    for (number, files) in (from..).zip(commits) {
        let time = 1_577_880_000 + 60 * number;
        let who = format!("a <a@example.org> {time} +0000");
        stream += &format!("commit refs/heads/main\ncommitter {who}\ndata 1\nx\n");
        if number > 0 && number == from {
            stream += "from refs/heads/main^0\n";
        }
        for (path, text) in files {
            stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        }
        stream += "\n";
    }
    let mut child = std::process::Command::new("git")
        .current_dir(clone)
        .args(["fast-import", "--quiet"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(stream.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_new_commit_walks_only_the_patches_whose_files_it_touches_and_these_from_their_last_stretch() {
    let project = Project::empty();
    let clone = empty_clone(&project);
    // Three stretches; every tenth commit touches the one file, every tenth the other.
    let commit = |n: usize| match n % 10 {
        _ if n == 0 => vec![("get.c", GET.to_string()), ("sum.c", SUM.to_string())],
        0 => vec![("get.c", format!("{GET}int n{n};\n"))],
        5 => vec![("sum.c", format!("{SUM}int n{n};\n"))],
        _ => vec![("README", format!("{n}\n"))],
    };
    let commits: Vec<_> = (0..530).map(commit).collect();
    import(&clone, 0, &commits);
    let base = git(
        &clone,
        "2020-01-01",
        &["rev-list", "--max-parents=0", "main"],
    );
    let patch = |path: &str, old: &str, new: &str| {
        let diff = similar::TextDiff::from_lines(old, new);
        let (from, to) = (format!("a/{path}"), format!("b/{path}"));
        diff.unified_diff().header(&from, &to).to_string()
    };
    let rows = [
        row("get", base.trim(), &patch("get.c", GET, GET_FIXED)),
        row("sum", base.trim(), &patch("sum.c", SUM, SUM_FIXED)),
    ];
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(project.dir.join("bench.jsonl"), lines.join("\n")).unwrap();
    let told = || patches(&project, "2020-06", &[]);
    let verdicts = |told: &Value| ["get", "sum"].map(|id| of(told, id)["verdict"].clone());
    let first = told();
    assert_eq!(
        first["executed"],
        json!({"contamination/line": 1, "contamination/stretch": 3, "contamination/walk": 2,
            "contamination/leg": 6})
    );
    assert_eq!(verdicts(&first), ["absent", "absent"]);
    // Of a commit that touches neither, what it changes is read, and nothing is walked.
    import(&clone, 530, &[vec![("README", "more\n".to_string())]]);
    assert_eq!(
        told()["executed"],
        json!({"contamination/line": 1, "contamination/stretch": 1})
    );
    // One that is in the file of the other patch only walks that, through the last stretch.
    import(&clone, 531, &[vec![("sum.c", SUM_FIXED.to_string())]]);
    let fixed = told();
    assert_eq!(
        fixed["executed"],
        json!({"contamination/line": 1, "contamination/stretch": 1, "contamination/leg": 1})
    );
    assert_eq!(verdicts(&fixed), ["absent", "present"]);
    assert_eq!(told()["executed"], json!({}));
    // Who sees this tip first says the same.
    let other = Project::empty();
    fs::write(other.dir.join("bench.jsonl"), lines.join("\n")).unwrap();
    fs::create_dir(other.dir.join("clones")).unwrap();
    std::os::unix::fs::symlink(
        project.dir.join("clones/maker"),
        other.dir.join("clones/maker"),
    )
    .unwrap();
    let cold = patches(&other, "2020-06", &[]);
    assert_eq!(cold["executed"]["contamination/leg"], 6);
    assert_eq!(cold["instances"], fixed["instances"]);
}

#[test]
fn the_benchmark_and_the_leaderboard_without_what_was_there() {
    let project = Project::empty();
    benchmark(&project);
    let board = json!([
        {"name": "one", "resolved": ["get", "sum", "gone"]},
        {"name": "two", "resolved": ["misfit", "unheard"]},
    ]);
    fs::write(project.dir.join("board.json"), board.to_string()).unwrap();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let (out, board) = (path("clean.jsonl"), path("board.json"));
    let told = patches(
        &project,
        "2021-03",
        &["--filtered", &out, "--leaderboard", &board],
    );
    // Of what nothing can be said, nothing is kept unless it is asked for.
    let kept: Vec<Value> = project
        .read("clean.jsonl")
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let ids: Vec<&str> = kept
        .iter()
        .map(|r| r["instance_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["sum"]);
    let lines = project.read("bench.jsonl");
    assert!(
        lines.contains(project.read("clean.jsonl").trim()),
        "rows are written as they were"
    );
    let one = &told["leaderboard"][0];
    assert_eq!(one["all"]["before"], json!({"resolved": 3, "of": 11}));
    assert_eq!(one["all"]["after"], json!({"resolved": 2, "of": 9}));
    assert_eq!(one["by_difficulty"]["easy"]["after"]["of"], 0);
    assert_eq!(told["leaderboard"][1]["unknown"], 1);
    patches(&project, "2021-03", &["--filtered", &out, "--keep-unknown"]);
    assert_eq!(project.read("clean.jsonl").lines().count(), 9);

    let clones = path("clones");
    let bench = path("bench.jsonl");
    let text = project
        .run([
            "contamination",
            "patches",
            &bench,
            "--repositories",
            &clones,
            "--cutoff",
            "2021-03",
            "--leaderboard",
            &board,
            "--quiet",
        ])
        .ok()
        .out;
    for part in [
        "2021-01-01",
        "lib.c hunk 1 in get",
        "like the code after the patch",
        "11 instances of SWE-bench",
        "difficulty easy",
        "the patch has no hunk",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn both_stages_give_a_verdict_and_a_score_for_each_model() {
    let project = Project::empty();
    benchmark(&project);
    let verdict =
        |presence: &str, p: f64| json!([{"repository": "maker/lib", "presence": presence, "p": p}]);
    let presence = json!({"models": [
        {"model": "old", "verdicts": verdict("contaminated", 0.01)},
        {"model": "new", "verdicts": verdict("not_shown", 0.8)},
    ]});
    fs::write(project.dir.join("presence.json"), presence.to_string()).unwrap();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let (presence, out) = (path("presence.json"), path("clean.jsonl"));
    let told = patches(&project, "2021-03", &["--presence", &presence]);
    let models = &of(&told, "get")["models"];
    assert_eq!(
        models[0],
        json!({"model": "old", "verdict": "contaminated", "score": 0.99})
    );
    assert_eq!(models[1]["verdict"], "repository_not_shown");
    assert_eq!(of(&told, "sum")["models"][0]["verdict"], "patch_absent");
    // What is clean for one model need not be for another.
    let filtered = |model: &str| {
        patches(
            &project,
            "2021-03",
            &[
                "--presence",
                &presence,
                "--model",
                model,
                "--filtered",
                &out,
            ],
        );
        project.read("clean.jsonl").lines().count()
    };
    assert_eq!((filtered("old"), filtered("new")), (1, 3));
    let (bench, clones) = (path("bench.jsonl"), path("clones"));
    project
        .run([
            "contamination",
            "patches",
            &bench,
            "--repositories",
            &clones,
            "--cutoff",
            "2021-03",
            "--presence",
            &presence,
            "--model",
            "none",
        ])
        .exits(3)
        .says(&["says nothing of `none`", "old, new"]);
}

#[test]
fn files_that_are_no_benchmark_are_named() {
    let project = Project::empty();
    fs::write(project.dir.join("odd.json"), "{\"a\": 1}\n").unwrap();
    fs::create_dir(project.dir.join("empty")).unwrap();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let run = |name: &str| {
        let (bench, clones) = (path(name), path("empty"));
        project.run([
            "contamination",
            "patches",
            &bench,
            "--repositories",
            &clones,
            "--cutoff",
            "2021",
        ])
    };
    run("odd.json").exits(2).says(&["a date such as"]);
    let run = |name: &str, clones: &str| {
        let (bench, clones) = (path(name), path(clones));
        project.run([
            "contamination",
            "patches",
            &bench,
            "--repositories",
            &clones,
            "--cutoff",
            "2021-01",
        ])
    };
    run("odd.json", "empty")
        .exits(3)
        .says(&["odd.json", "no instance", "without a repository"]);
    run("empty", "empty")
        .exits(3)
        .says(&["no instance", "Defects4J"]);
    run("absent", "empty").exits(3).says(&["absent"]);
}

#[test]
fn a_patch_of_defects4j_fits_the_fixed_revision_and_is_looked_for_from_there() {
    let project = Project::empty();
    let commits = history(&project);
    let clone = project.dir.join("clones/maker/lib");
    let fixed = &commits[1];
    let patch = git(&clone, "2020-01-01", &["diff", fixed, &commits[0]]);
    let write = |path: &str, text: &str| {
        let path = project.dir.join("d4j").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "Lib/active-bugs.csv",
        &format!(
            "bug.id,revision.id.buggy,revision.id.fixed\n1,{},{fixed}\n2,{fixed},{}\n",
            "0".repeat(40),
            commits[5]
        ),
    );
    write("Lib/patches/1.src.patch", &patch);
    write("Lib/patches/2.src.patch", &patch);
    project.write("clones.json", "{\"Lib\": \"clones/maker/lib\"}");
    let bench = project.dir.join("d4j").display().to_string();
    let places = project.dir.join("clones.json").display().to_string();
    let told = |cutoff: &str| {
        let args = [
            "contamination",
            "patches",
            &bench,
            "--repositories",
            &places,
            "--cutoff",
            cutoff,
        ];
        project
            .run([&args[..], &["--quiet", "--format", "json"]].concat())
            .ok()
            .json()
    };
    for (cutoff, verdict) in [
        ("2020-06", "absent"),
        ("2022-06", "present"),
        ("2023-06", "absent"),
    ] {
        let told = told(cutoff);
        assert_eq!(of(&told, "Lib-1")["verdict"], verdict, "{cutoff}: {told:#}");
        // A revision that the patch cannot be taken out of says so.
        assert_eq!(of(&told, "Lib-2")["problem"], "no_file");
    }
}

const MANIFEST: &str = r#"name = "lib"

[source]
directory = "."

[build]
build = [["make", "all", "CC={cc}", "CFLAGS={cflags}", "LDFLAGS={ldflags}"]]
cflags = ["-O0", "-g1"]

[sanitizers]
cflags = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
ldflags = ["-fsanitize=address,undefined", "-static-libasan", "-static-libubsan"]
leaks = false

[tests]
report = "stdout"
harness = ["test.c"]
parser = { type = "lines", pass = ['^OK: (?<name>.*)$'], fail = ['^FAIL: (?<name>.*)$'] }

[[tests.shard]]
name = "unit"
argv = ["./unit"]
cpu-seconds = 10
wall-seconds = 30

[functions]
include = ["lib.c"]
min-tokens = 5

[scoring]
functions-per-iteration = 1
"#;
const MAKEFILE: &str = "all: unit\n\nunit: test.o lib.o\n\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ test.o lib.o\n\n%.o: %.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\n";
const TEST: &str = "#include <stdio.h>\n\nint get(const int *v, int n, int i);\nint sum(const int *v, int n);\n\nstatic void say(int ok, const char *what)\n{\n    printf(\"%s: %s\\n\", ok ? \"OK\" : \"FAIL\", what);\n}\n\nint main(void)\n{\n    int v[3] = {1, 2, 3};\n    say(get(v, 3, 1) == 2, \"get inside\");\n    return 0;\n}\n";
/// The fix as upstream wrote it, which shares few words with the benchmark's.
const GET_OTHERWISE: &str = "int get(const int *v, int n, int i)\n{\n    unsigned long at = (unsigned long)(long)i;\n    switch (at < (unsigned long)(long)n) {\n    case 1:\n        return *(v + at);\n    default:\n        break;\n    }\n    return ~0;\n}\n\n";

#[test]
fn tests_decide_where_code_says_nothing_if_the_patch_itself_passes_them() {
    let project = Project::empty();
    let clone = empty_clone(&project);
    let commit = |date: &str, get: &str| {
        fs::write(clone.join("lib.c"), format!("{HEAD}{get}{SUM_FIXED}")).unwrap();
        fs::write(clone.join("test.c"), TEST).unwrap();
        fs::write(clone.join("Makefile"), MAKEFILE).unwrap();
        committed(&clone, date)
    };
    let base = commit("2020-01-01", GET);
    // The benchmark's fix, on a branch of its own.
    git(&clone, "2020-01-01", &["checkout", "-q", "-b", "fixed"]);
    let fixed = commit("2020-02-01", GET_FIXED);
    let patch = git(&clone, "2020-01-01", &["diff", &base, &fixed]);
    git(&clone, "2020-01-01", &["checkout", "-q", "main"]);
    commit("2021-01-01", GET_OTHERWISE);
    let more = "--- a/test.c\n+++ b/test.c\n@@ -14,4 +14,5 @@\n     int v[3] = {1, 2, 3};\n     say(get(v, 3, 1) == 2, \"get inside\");\n+    say(get(v, 2, 2) == -1, \"get outside\");\n     return 0;\n }\n";
    let instance = |id: &str, cured: &str, kept: &str| {
        let mut one = row(id, &base, &patch);
        one["test_patch"] = more.into();
        one["FAIL_TO_PASS"] = json!([cured]);
        one["PASS_TO_PASS"] = json!([kept]);
        one
    };
    let rows = [
        instance("both", "get outside", "unit/get inside"),
        instance("strange", "no such test", "get inside"),
        // Passes without the patch, too.
        instance("idle", "get inside", "get inside"),
    ];
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(project.dir.join("bench.jsonl"), lines.join("\n")).unwrap();
    project.write("lib.toml", MANIFEST);
    project.write(
        "environments.toml",
        "[[environment]]\nrepository = \"maker/lib\"\nmanifest = \"lib.toml\"\n",
    );
    let told = |cutoff: &str, more: &[&str]| {
        let environments = project.dir.join("environments.toml").display().to_string();
        let all = [&["--environments", &environments], more].concat();
        patches(&project, cutoff, &all)
    };
    // Read, the code of 2021 is not the patch; run, it does what the patch does.
    assert_ne!(
        of(&patches(&project, "2021-06", &[]), "both")["verdict"],
        "present"
    );
    let after = told("2021-06", &["--test-all"]);
    let both = of(&after, "both");
    assert_eq!(
        (&both["verdict"], &both["by"]),
        (&json!("present"), &json!("tests")),
        "{both:#}"
    );
    assert!(
        both["reason"].as_str().unwrap().contains("1 of 1"),
        "{both:#}"
    );
    // Before that it was not there, and the tests say the same as the code.
    let before = told("2020-06", &["--test-all"]);
    let both = of(&before, "both");
    assert_eq!(
        (&both["verdict"], &both["by"]),
        (&json!("absent"), &json!("tests")),
        "{both:#}"
    );
    // An environment that does not know the benchmark's tests decides nothing, nor do tests that the code
    // without the patch passes.
    for open in ["strange", "idle"] {
        assert_eq!(of(&after, open)["by"], "code");
    }
}

#[test]
fn a_patch_that_leads_out_of_the_project_is_refused_and_writes_nothing_there() {
    let project = Project::empty();
    let clone = empty_clone(&project);
    let victim = project.dir.join("victim");
    fs::create_dir_all(&victim).unwrap();
    fs::write(clone.join("lib.c"), format!("{HEAD}{GET}{SUM_FIXED}")).unwrap();
    fs::write(clone.join("test.c"), TEST).unwrap();
    fs::write(clone.join("Makefile"), MAKEFILE).unwrap();
    fs::create_dir(clone.join("kept")).unwrap();
    fs::write(clone.join("kept/x.txt"), "x\n").unwrap();
    std::os::unix::fs::symlink("kept", clone.join("link")).unwrap();
    let base = &committed(&clone, "2020-01-01");
    let made = |path: &str| {
        format!(
            "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,3 @@\n+int made(void)\n+{{\n+    return 1; }}\n"
        )
    };
    let absolute = victim.join("x.c").display().to_string();
    let good = "--- a/lib.c\n+++ b/lib.c\n@@ -3,4 +3,6 @@\n int get(const int *v, int n, int i)\n {\n+    if (i < 0 || i >= n)\n+        return -1;\n     int found = v[i];\n     return found;\n";
    let row = |id: &str, patch: &str, tests: &str| {
        let mut one = row(id, base, patch);
        one["test_patch"] = tests.into();
        one
    };
    let rows = [
        row("up", &made("../../x.c"), ""),
        row("within", &made("kept/../../x.c"), ""),
        row("absolute", &made(&absolute), ""),
        row("link", &made("link/x.c"), ""),
        row("tests", good, &made("../../x.c")),
        row("tests-absolute", good, &made(&absolute)),
        row("tests-link", good, &made("link/x.c")),
    ];
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(project.dir.join("bench.jsonl"), lines.join("\n")).unwrap();
    project.write("lib.toml", MANIFEST);
    project.write(
        "environments.toml",
        "[[environment]]\nrepository = \"maker/lib\"\nmanifest = \"lib.toml\"\n",
    );
    let path = |name: &str| project.dir.join(name).display().to_string();
    let args = [
        "contamination",
        "patches",
        &path("bench.jsonl"),
        "--repositories",
        &path("clones"),
        "--cutoff",
        "2020-06",
        "--environments",
        &path("environments.toml"),
        "--test-all",
        "--quiet",
        "--format",
        "json",
    ];
    let ended = project.run(args).ok();
    let told = ended.json();
    for id in ["up", "within", "absolute"] {
        let one = of(&told, id);
        assert_eq!(
            (&one["verdict"], &one["problem"]),
            (&json!("unknown"), &json!("outside")),
            "{one}"
        );
    }
    assert_eq!(
        told["problems"],
        json!({"a path of the patch leads out of the project": 3})
    );
    for id in ["link", "tests", "tests-absolute", "tests-link"] {
        assert_eq!(of(&told, id)["by"], "code");
    }
    ended.says(&[
        "tests decided 0 instances",
        "1  not: with the patch itself, ../../x.c leads out of the project",
        &format!("1  not: with the patch itself, {absolute} leads out of the project"),
        "2  not: with the patch itself, link/x.c leads out of the project",
    ]);
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    let made = |entry: &walkdir::DirEntry| entry.file_name() == "x.c";
    let all = walkdir::WalkDir::new(&project.dir).into_iter();
    assert!(!all.flatten().any(|entry| made(&entry)));
}
