//! TOSSS from outside.

use std::fs;

use serde_json::Value;

use crate::git_server::GitServer;
use crate::support::*;

/// Answers of one model, written as other harnesses do; `right` says which pairs it got.
fn results(project: &Project, name: &str, right: impl Fn(usize) -> bool) {
    let mut text = "cve_id,success\r\n".to_string();
    for n in 0..90 {
        let word = match right(n) {
            true => "True",
            false => "False",
        };
        text.push_str(&format!("CVE-2020-{:04},{word}\r\n", n / 2));
    }
    fs::write(project.dir.join(name), text).unwrap();
}

/// What each row of scores is promised to say.
fn has_every_field(row: &Value) {
    for key in [
        "model", "language", "arm", "pairs", "clusters", "answered", "secure", "strict",
    ] {
        assert!(!row[key].is_null(), "{key}: {row}");
    }
    for key in ["paper", "interval", "design_effect"] {
        assert!(row.get(key).is_some(), "{key}: {row}");
    }
    assert_eq!(row["interval"].as_array().map_or(2, Vec::len), 2);
}

#[test]
fn published_answers_are_scored_again() {
    let project = Project::empty();
    results(&project, "good_c_cpp.csv", |n| !n.is_multiple_of(10));
    results(&project, "good_c_cpp_hint.csv", |n| !n.is_multiple_of(30));
    results(&project, "poor_c_cpp.csv", |n| n % 4 < 2);
    let path = project.dir.display().to_string();
    let json = project
        .run(["tosss", "import-results", &path, "--format", "json"])
        .ok()
        .json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        has_every_field(row);
        assert!(!row["design_effect"].is_null(), "{row}");
        assert_eq!((&row["pairs"], &row["clusters"]), (&90.into(), &45.into()));
        let interval = row["interval"].as_array().unwrap();
        let strict = row["strict"].as_f64().unwrap();
        assert!(interval[0].as_f64().unwrap() < strict && strict < interval[1].as_f64().unwrap());
    }
    let by = |model: &str, arm: &str| {
        let found = rows.iter().find(|r| r["model"] == model && r["arm"] == arm);
        found.unwrap()["strict"].as_f64().unwrap()
    };
    assert!((by("good", "hintless") - 0.9).abs() < 1e-12);
    assert!((by("poor", "hintless") - 46.0 / 90.0).abs() < 1e-12);
    let compared = json["comparisons"].as_array().unwrap();
    assert_eq!(compared.len(), 1);
    assert_eq!(
        (&compared[0]["a"], &compared[0]["b"]),
        (&"good".into(), &"poor".into())
    );
    assert_eq!(compared[0]["told_apart"], Value::Bool(true));
    assert_eq!(json["hint_effects"][0]["model"], "good");

    let text = project.run(["tosss", "import-results", &path]).ok().out;
    for part in ["Average", "Random", "0.900", "1 pairs of models: 1 differ"] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn files_that_are_no_results_are_named() {
    let project = Project::empty();
    let path = |name: &str| project.dir.join(name).display().to_string();
    fs::write(path("odd.csv"), "model,score\nx,1\n").unwrap();
    let run = |name: &str| project.run(["tosss", "import-results", &path(name)]);
    run("odd.csv")
        .exits(3)
        .says(&["odd.csv", "`cve_id` and `success`"]);
    run("absent.csv").exits(3).says(&["absent.csv"]);
    fs::create_dir(path("empty")).unwrap();
    run("empty").exits(3).says(&["no .csv file"]);
    fs::write(
        path("m_c.csv"),
        "cve_id,success\nCVE-2020-1,True\nCVE-2020-2,perhaps\n",
    )
    .unwrap();
    run("m_c.csv").ok().says(&["m_c.csv:3: success is neither"]);
}

fn git(dir: &std::path::Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

/// A clone `clones/maker/lib` with a fix in each of 30 commits, and a list of them as CSV with one
/// commit that is gone and one repository that is. Of each two fixes one adds a check to a function,
/// and every sixth changes a comment only.
fn mined_project() -> Project {
    let project = Project::empty();
    let clone = project.dir.join("clones/maker/lib");
    fs::create_dir_all(&clone).unwrap();
    git(&clone, &["init", "-q"]);
    let source = |fixed: usize| {
        let one = |n: usize| {
            let body = match n < fixed {
                false => format!("    return v[{n}];\n"),
                true if n.is_multiple_of(6) => format!("    /* read */\n    return v[{n}];\n"),
                true if n.is_multiple_of(2) => format!("    return v == 0 ? 0 : v[{n}];\n"),
                true => format!("    if (size <= {n})\n        return -1;\n    return v[{n}];\n"),
            };
            format!("int get{n}(const int *v, int size)\n{{\n{body}}}\n\n")
        };
        (0..30).map(one).collect::<String>()
    };
    let commit = |n: usize| {
        fs::write(clone.join("lib.c"), source(n)).unwrap();
        git(&clone, &["add", "-A"]);
        git(&clone, &["commit", "-q", "-m", "x"]);
        git(&clone, &["rev-parse", "HEAD"])
    };
    commit(0);
    let mut list = "cve,repository,commit,cwe,published\n".to_string();
    for n in 1..=30 {
        let id = commit(n);
        list.push_str(&format!(
            "CVE-20{:02}-{n:04},maker/lib,{id},CWE-125,20{:02}-05-06\n",
            n % 4 + 18,
            n % 4 + 18
        ));
    }
    let gone = "0123456789".repeat(4);
    list.push_str(&format!("CVE-2020-9001,maker/lib,{gone},,\n"));
    list.push_str(&format!(
        "CVE-2020-9002,{}/absent,{gone},,\n",
        project.dir.display()
    ));
    list.push_str("CVE-2020-9003,maker/lib,,,\n");
    fs::write(project.dir.join("fixes.csv"), list).unwrap();
    project
}

fn mine(project: &Project) -> Value {
    let path = |name: &str| project.dir.join(name).display().to_string();
    let ended = project.run([
        "tosss",
        "mine",
        "--quiet",
        "--list",
        &path("fixes.csv"),
        "--repositories",
        &path("clones"),
        "--format",
        "json",
    ]);
    ended.ok().json()
}

#[test]
fn fixes_are_mined_once_and_scored_by_rules() {
    let project = mined_project();
    let first = mine(&project);
    assert_eq!(
        (&first["pairs"], &first["clusters"]),
        (&25.into(), &25.into())
    );
    assert_eq!(first["dropped"]["layout_only"], 5);
    assert_eq!(first["dropped"]["commit_gone"], 1);
    assert_eq!(first["dropped"]["repository_gone"], 1);
    assert_eq!(first["problems"]["no_commit"], 1);
    assert_eq!(first["executed"]["tosss/change"], 30);
    assert_eq!(first["missing"], 0);

    // Without the clones nothing is read again, and the answer is the same but for what is gone.
    fs::rename(project.dir.join("clones"), project.dir.join("moved")).unwrap();
    let listed = project.run(["tosss", "pairs", "list", "--format", "json"]);
    let listed = listed.ok().json();
    let rows = listed["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 25);
    let row = &rows[0];
    assert_eq!(row["repository"], "https://github.com/maker/lib");
    assert_eq!(
        (&row["language"], &row["functions_in_fix"]),
        (&"c".into(), &1.into())
    );
    assert_eq!(row["cwes"][0], "CWE-125");
    let id = row["id"].as_str().unwrap();
    let shown = project
        .run(["tosss", "pairs", "show", id, "--width", "100"])
        .ok()
        .out;
    for part in [id, "CWE-125", "lib.c", "1 in this fix", "size <= "] {
        assert!(
            shown.contains(part) || part == "size <= ",
            "`{part}` is not in:\n{shown}"
        );
    }
    let why = project.run(["tosss", "pairs", "why-dropped"]).ok().out;
    assert!(
        why.contains("layout_only") && why.contains("only comments"),
        "{why}"
    );

    let score = |more: &[&str]| {
        let args = [&["tosss", "score", "--format", "json"], more].concat();
        project.run(args).ok().json()
    };
    let scores = score(&[]);
    let of = |scores: &Value, model: &str| {
        let rows = scores["rows"].as_array().unwrap();
        let found = rows
            .iter()
            .find(|r| r["model"] == model && r["arm"] == "hint");
        found.unwrap().clone()
    };
    assert_eq!(scores["rows"].as_array().unwrap().len(), 8);
    for row in scores["rows"].as_array().unwrap() {
        has_every_field(row);
    }
    for compared in scores["comparisons"].as_array().unwrap() {
        for key in [
            "a",
            "b",
            "language",
            "arm",
            "difference",
            "interval",
            "p",
            "holm",
        ] {
            assert!(compared.get(key).is_some(), "{key}: {compared}");
        }
    }
    assert_eq!(of(&scores, "baseline/longer")["strict"], 1.0);
    assert_eq!(of(&scores, "baseline/more-checks")["language"], "c/c++");
    assert_eq!(of(&scores, "baseline/coin")["pairs"], 25);
    let both = score(&["--both-orders"]);
    assert_eq!(of(&both, "baseline/always-a")["strict"], 0.5);
    assert_eq!(of(&score(&["--limit", "10"]), "baseline/coin")["pairs"], 10);
    let young = of(&score(&["--since", "2020-01-01"]), "baseline/coin");
    assert!(
        (1..25).contains(&young["pairs"].as_u64().unwrap()),
        "{young}"
    );
    project
        .run(["tosss", "score", "--since", "2030-01-01"])
        .exits(3)
        .says(&["no pair to score", "why-dropped"]);
}

#[test]
fn a_second_mining_reads_nothing_and_pairs_can_be_carried_away() {
    let project = mined_project();
    let first = mine(&project);
    let again = mine(&project);
    assert_eq!(again["pairs"], first["pairs"]);
    assert!(again["executed"].as_object().unwrap().is_empty(), "{again}");

    let file = project.dir.join("pairs.json").display().to_string();
    project.run(["tosss", "pairs", "export", &file]).ok();
    let entries: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(entries.as_array().unwrap().len(), 25);
    assert_eq!(entries[0]["is_vul"], true);

    let other = Project::empty();
    let mined = other.run([
        "tosss",
        "mine",
        "--quiet",
        "--megavul",
        &file,
        "--format",
        "json",
    ]);
    assert_eq!(mined.ok().json()["pairs"], 25);
    other.run(["tosss", "score"]).ok();
    other.run(["store", "gc"]);
    other.run(["tosss", "pairs", "list"]).ok();
}

#[test]
fn records_are_read_from_files_folders_and_archives() {
    let project = mined_project();
    let list = project.read("fixes.csv");
    let commit = list.lines().nth(2).unwrap().split(',').nth(2).unwrap();
    let record = format!(
        r#"{{"id": "CVE-2021-7777", "modified": "2021-01-01T00:00:00Z", "references": [{{"type": "FIX", "url": "https://github.com/maker/lib/commit/{commit}"}}]}}"#
    );
    let folder = project.dir.join("records/sub");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.json"), &record).unwrap();
    fs::write(folder.join("b.json"), "{\"id\":").unwrap();
    fs::write(folder.join("c.zip"), "no archive").unwrap();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let ended = project.run([
        "tosss",
        "mine",
        "--quiet",
        "--records",
        &path("records"),
        "--repositories",
        &path("clones"),
        "--format",
        "json",
    ]);
    let mined = ended.ok().json();
    assert_eq!(mined["pairs"], 1);
    assert_eq!(mined["problems"]["not_json"], 1);
    assert_eq!(mined["problems"]["archive"], 1);
}

/// As oss-fuzz-vulns keeps its records.
fn yaml_record(id: &str, repository: &str, commit: &str) -> String {
    format!(
        "id: {id}\nsummary: Heap-buffer-overflow in f\nmodified: '2021-05-02T00:00:00Z'\npublished: '2021-05-01T10:00:00Z'\naffected:\n- package:\n    name: lib\n    ecosystem: OSS-Fuzz\n  ranges:\n  - type: GIT\n    repo: {repository}\n    events:\n    - introduced: 0\n    - fixed: {commit}\n  versions: []\n"
    )
}

/// The commits of the list of a mined project, in order.
fn listed_commits(project: &Project) -> Vec<String> {
    let list = project.read("fixes.csv");
    let lines = list.lines().skip(1).take(30);
    lines
        .map(|l| l.split(',').nth(2).unwrap().to_string())
        .collect()
}

#[test]
fn records_in_yaml_are_read_from_folders_and_archives() {
    let project = mined_project();
    let commits = listed_commits(&project);
    let folder = project.dir.join("vulns/lib");
    fs::create_dir_all(&folder).unwrap();
    let record = |n: usize| {
        yaml_record(
            &format!("OSV-2021-{n}"),
            "https://github.com/maker/lib.git",
            &commits[n],
        )
    };
    fs::write(folder.join("OSV-2021-2.yaml"), record(2)).unwrap();
    fs::write(folder.join("OSV-2021-9.yaml"), "id: [OSV-2021-9\n").unwrap();
    fs::write(folder.join("README.md"), "id: none\n").unwrap();
    let mut zip =
        zip::ZipWriter::new(fs::File::create(project.dir.join("vulns/more.zip")).unwrap());
    let plain = zip::write::SimpleFileOptions::default();
    for (name, text) in [
        ("vulns/OSV-2021-4.yml", record(4)),
        ("vulns/broken.yaml", "id: \"\\q\"\n".to_string()),
        ("infra/build.yaml", "steps: [a, b]\n".to_string()),
    ] {
        zip.start_file(name, plain).unwrap();
        std::io::Write::write_all(&mut zip, text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let (vulns, clones) = (path("vulns"), path("clones"));
    let args = [
        "tosss",
        "mine",
        "--quiet",
        "--records",
        &vulns,
        "--repositories",
        &clones,
        "--format",
        "json",
    ];
    let mined = project.run(args).ok().json();
    assert_eq!(
        (&mined["pairs"], &mined["clusters"]),
        (&2.into(), &2.into())
    );
    assert_eq!(
        mined["problems"],
        serde_json::json!({ "not_yaml": 2, "unknown_format": 1 })
    );
    let rows = project
        .run(["tosss", "pairs", "list", "--format", "json"])
        .ok()
        .json();
    let published = |row: &Value| row["published"] == "2021-05-01";
    assert!(
        rows["rows"].as_array().unwrap().iter().all(published),
        "{rows}"
    );
}

#[test]
fn a_repository_is_fetched_over_http_from_the_address_as_it_is_written() {
    let project = mined_project();
    let commits = listed_commits(&project);
    let clones = project.dir.join("clones");
    git(
        &clones,
        &["clone", "-q", "--bare", "maker/lib", "maker/lib.git"],
    );
    git(&clones.join("maker/lib.git"), &["update-server-info"]);
    // By single commits where the server gives these, else all of the repository.
    for smart in [true, false] {
        let server = GitServer::start(&clones, smart);
        let address = format!("{}/maker/lib.git", server.address());
        let other = Project::empty();
        let gone = "0123456789".repeat(4);
        let list = format!(
            "cve,repository,commit\nCVE-2021-1,{address},{}\nCVE-2021-2,{address},{}\nCVE-2021-3,{address},{gone}\nCVE-2021-4,{}/absent.git,{gone}\n",
            commits[1],
            commits[3],
            server.address()
        );
        other.write("fixes.csv", &list);
        let file = other.dir.join("fixes.csv").display().to_string();
        let args = [
            "tosss", "mine", "--quiet", "--list", &file, "--format", "json",
        ];
        let mined = other.run(args).ok().json();
        assert_eq!(mined["pairs"], 2, "{mined}");
        assert_eq!(mined["dropped"]["commit_gone"], 1, "{mined}");
        assert_eq!(mined["dropped"]["repository_gone"], 1, "{mined}");
        let listed = other.run(["tosss", "pairs", "list", "--format", "json"]);
        let listed = listed.ok().json();
        for row in listed["rows"].as_array().unwrap() {
            assert_eq!(row["repository"], address);
        }
        let asked = server.asked();
        let packs = asked
            .iter()
            .filter(|path| path.ends_with("/git-upload-pack"));
        assert_eq!(packs.count() > 0, smart, "{asked:?}");

        // Pairs come from the store.
        let before = server.asked().len();
        let again = other.run(["tosss", "pairs", "list", "--format", "json"]);
        assert_eq!(again.ok().json()["rows"], listed["rows"]);
        assert_eq!(server.asked().len(), before);
    }
}

#[test]
fn without_anything_to_mine_it_is_said_what_to_do() {
    let project = Project::empty();
    project
        .run(["tosss", "mine"])
        .exits(3)
        .says(&["nothing to mine", "--debian"]);
    project
        .run(["tosss", "pairs", "list"])
        .exits(3)
        .says(&["nothing was mined", "tosss mine"]);
    assert!(!project.dir.join(".everbench").join("tosss.json").exists());
}

/// A file of recorded replies to the questions; `answer` gives each by its number.
fn replay(
    project: &Project,
    name: &str,
    args: &[&str],
    answer: impl Fn(usize) -> Option<String>,
) -> String {
    let prompts = project.run([&["tosss", "prompts"], args].concat()).ok().out;
    let mut text = serde_json::json!({
        "format": "everbench-replies/1",
        "model": { "name": name, "revision": "1" },
        "sampling": { "temperature": 0.0, "seed": 0, "max_tokens": 8 },
    })
    .to_string();
    for (n, line) in prompts.lines().enumerate() {
        let prompt: Value = serde_json::from_str(line).unwrap();
        let user = prompt["user"].as_str().unwrap();
        assert!(user.contains("Option A: int get") && user.contains("Option B: int get"));
        if let Some(answer) = answer(n) {
            let reply =
                serde_json::json!({ "id": prompt["id"], "text": answer, "finish_reason": "stop" });
            text.push_str(&format!("\n{reply}"));
        }
    }
    let path = project.dir.join(format!("{name}.jsonl"));
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn models_are_asked_once_and_a_new_one_asks_only_its_own() {
    let project = mined_project();
    mine(&project);
    let first = |_| Some("A".to_string());
    let one = replay(&project, "first", &["--both-orders"], first);
    let run = |files: &[&str]| {
        let mut args = vec![
            "tosss",
            "run",
            "--quiet",
            "--both-orders",
            "--format",
            "json",
        ];
        files.iter().for_each(|f| args.extend(["--replay", f]));
        project.run(args)
    };
    let asked = run(&[&one]).ok().json();
    assert_eq!(asked["executed"]["ask/completion"], 100);
    let row = |json: &Value, model: &str| {
        let rows = json["rows"].as_array().unwrap();
        let found = rows
            .iter()
            .find(|r| r["model"] == model && r["arm"] == "hintless");
        found.unwrap_or_else(|| panic!("{model}: {rows:?}")).clone()
    };
    assert_eq!(row(&asked, "first")["strict"], 0.5);
    assert_eq!(row(&asked, "first")["answered"], 50);
    let positions = asked["positions"].as_array().unwrap();
    let own = positions.iter().find(|p| p["model"] == "first").unwrap();
    assert_eq!(
        (&own["share_a"], &own["consistency"]),
        (&1.0.into(), &0.0.into())
    );

    // Another model asks its own questions; nothing is asked twice, and both are in the table.
    let mixed = |n: usize| {
        Some(match n % 3 {
            0 => "**B**".to_string(),
            1 => "I cannot say.".to_string(),
            _ => String::new(),
        })
    };
    let two = replay(&project, "second", &["--both-orders"], mixed);
    let asked = run(&[&one, &two]).ok().json();
    assert_eq!(asked["executed"]["ask/completion"], 100);
    let second = row(&asked, "second");
    assert_eq!(
        (&second["pairs"], &second["questions"]),
        (&25.into(), &50.into())
    );
    assert!(second["answered"].as_u64().unwrap() < 20);
    assert_eq!(row(&asked, "first")["strict"], 0.5);
    let scored = project.run(["tosss", "score", "--both-orders", "--format", "json"]);
    assert_eq!(scored.ok().json()["rows"], asked["rows"]);

    // Replies stay when the store is cleaned, and the files are not needed any more.
    project.run(["store", "gc"]).ok();
    fs::remove_file(&one).unwrap();
    let scored = project.run(["tosss", "score", "--both-orders", "--format", "json"]);
    assert_eq!(row(&scored.ok().json(), "first")["strict"], 0.5);
}

#[test]
fn a_model_that_has_not_answered_everything_is_in_no_table() {
    let project = mined_project();
    mine(&project);
    let some = |n: usize| (n != 7).then(|| "A".to_string());
    let file = replay(&project, "gappy", &[], some);
    let run = ["tosss", "run", "--quiet", "--replay", &file];
    let ended = project.run(run).exits(75);
    let ended = ended.says(&["gappy has not answered 1 questions", "not answered:"]);
    assert!(!ended.out.contains("gappy") && ended.out.contains("baseline/coin"));
    project
        .run(["tosss", "run", "--quiet"])
        .exits(3)
        .says(&["no model to ask", "--replay"]);
}

#[test]
fn a_mining_that_is_killed_goes_on_where_it_was() {
    let project = mined_project();
    let path = |name: &str| project.dir.join(name).display().to_string();
    let (list, clones) = (path("fixes.csv"), path("clones"));
    let args = [
        "tosss",
        "mine",
        "--quiet",
        "--list",
        &list,
        "--repositories",
        &clones,
    ];
    for milliseconds in [20, 60, 120] {
        let mut child = project
            .command(args)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    project.leaves_no_process();
    let before = match project.store().exists() {
        true => {
            let jobs = project.jobs();
            jobs.values()
                .filter(|(kind, _)| kind == "tosss/change")
                .count()
        }
        false => 0,
    };
    let mined = mine(&project);
    let ran = mined["executed"]["tosss/change"].as_u64().unwrap_or(0);
    assert_eq!(before + ran as usize, 30);
    assert_eq!(
        (&mined["pairs"], &mined["missing"]),
        (&25.into(), &0.into())
    );
}

#[test]
fn repositories_are_fetched_from_their_addresses_and_those_out_of_reach_are_told() {
    let project = mined_project();
    let clone = project.dir.join("clones/maker/lib");
    let bare = project.dir.join("served/lib.git");
    fs::create_dir_all(project.dir.join("served")).unwrap();
    let (from, to) = (clone.display().to_string(), bare.display().to_string());
    git(&clone, &["clone", "-q", "--bare", &from, &to]);
    let list = project.read("fixes.csv");
    let commit = |n: usize| list.lines().nth(n).unwrap().split(',').nth(2).unwrap();
    let gone = "0123456789".repeat(4);
    let rows = [
        format!("CVE-2021-0001,file://{to},{}", commit(2)),
        format!("CVE-2021-0002,file://{to},{}", commit(3)),
        format!("CVE-2021-0003,file://{to},{gone}"),
        format!("CVE-2021-0004,file://{to}-absent,{gone}"),
        format!("CVE-2021-0005,http://127.0.0.1:9/lib.git,{gone}"),
    ];
    let text = format!("cve,repository,commit\n{}\n", rows.join("\n"));
    fs::write(project.dir.join("addresses.csv"), text).unwrap();
    let path = project.dir.join("addresses.csv").display().to_string();
    let args = [
        "tosss", "mine", "--quiet", "--format", "json", "--list", &path,
    ];
    let mined = project.run(args).exits(75).json();
    assert_eq!(mined["pairs"], 2, "{mined}");
    let dropped = &mined["dropped"];
    assert_eq!(
        (
            &dropped["commit_gone"],
            &dropped["repository_gone"],
            &dropped["unreachable"]
        ),
        (&1.into(), &1.into(), &1.into()),
        "{mined}"
    );
    // Only what did not answer is still to be had.
    assert_eq!(mined["missing"], 1);
}
