//! A subject out of a package whose version is followed: locked when it is first looked up, moved by
//! `sync` alone, and told apart from a registry that does not answer or has something else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::live::executed;
use crate::sources::project;
use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];
const CHECK: [&str; 4] = ["sync", "--check", "--format", "json"];
const SMALL: &str = "[run]\nlimit = 6\niterations = 1\n[score]\nscorings = [\"paired\"]\n";

/// A registry of crates in a folder, and the home of a cargo that knows no other.
struct Registry {
    dir: PathBuf,
}

impl Registry {
    fn new(dir: &Path) -> Registry {
        let registry = Registry {
            dir: dir.join("registry"),
        };
        fs::create_dir_all(registry.dir.join("index/ti/de")).unwrap();
        fs::create_dir_all(registry.home()).unwrap();
        let config = format!(
            "[source.crates-io]\nreplace-with = \"local\"\n[source.local]\nlocal-registry = {:?}\n",
            registry.dir.display().to_string()
        );
        fs::write(registry.home().join("config.toml"), config).unwrap();
        registry
    }

    fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    fn index(&self) -> PathBuf {
        self.dir.join("index/ti/de/tide")
    }

    /// Packs the folder as a version of the crate `tide`; its line in the index.
    fn pack(&self, folder: &Path, version: &str, yanked: bool) -> String {
        let script = format!(
            "rm -rf tide-*/; mkdir -p tide-{version}/src; cp -a \"$1\" tide-{version}/c; rm -rf tide-{version}/c/.git\n\
             : > tide-{version}/src/lib.rs\n\
             printf '[package]\\nname = \"tide\"\\nversion = \"{version}\"\\nedition = \"2021\"\\n' > tide-{version}/Cargo.toml\n\
             tar -czf tide-{version}.crate tide-{version}; sha256sum tide-{version}.crate | cut -d' ' -f1"
        );
        let output = Command::new("sh")
            .args(["-ec", &script, "sh"])
            .arg(folder)
            .current_dir(&self.dir)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let sum = String::from_utf8(output.stdout).unwrap();
        let line = json!({
            "name": "tide", "vers": version, "deps": [], "cksum": sum.trim(), "features": {},
            "yanked": yanked,
        });
        format!("{line}\n")
    }

    fn publish(&self, folder: &Path, version: &str, yanked: bool) {
        let line = self.pack(folder, version, yanked);
        let old = fs::read_to_string(self.index()).unwrap_or_default();
        fs::write(self.index(), old + &line).unwrap();
    }
}

#[test]
fn a_version_is_followed_when_asked_to_and_locked_until_then() {
    let project = project("crate = \"tide\"\nversion = \"latest\"\npath-inside = \"c\"\n");
    project.configure("manifest = \"tidelib.toml\"", SMALL, &[PRESERVING]);
    let repo = project.dir.join("repo");
    let registry = Registry::new(&project.dir);
    registry.publish(&repo, "1.9.0", false);
    let run = |args: &[&str]| {
        let mut command = project.command(args);
        ended({
            command.env("CARGO_HOME", registry.home());
            command
        })
    };
    // Looked up by a run alone, once.
    run(&["score"]).exits(3);
    assert!(!project.dir.join("everbench.lock").exists());
    let first = run(&JSON).ok().json();
    assert_eq!(first["rows"][0]["commit"], "tide 1.9.0");
    let lock = project.read("everbench.lock");
    for part in [
        "from = \"crate\"",
        "follows = \"latest\"",
        "version = \"1.9.0\"",
    ] {
        assert!(lock.contains(part), "{lock}");
    }
    run(&["release", "freeze", "first"]).ok();
    let check = run(&CHECK).ok().json();
    assert_eq!(check["subjects"][0]["state"], "same");

    // A newer one, one that is withdrawn, one that is not released: only `sync` moves.
    let path = repo.join("src/expr.c");
    let text = fs::read(&path).unwrap();
    fs::write(&path, [b"/* A remark. */\n".as_slice(), &text].concat()).unwrap();
    registry.publish(&repo, "1.10.0", false);
    registry.publish(&repo, "1.11.0", true);
    registry.publish(&repo, "2.0.0-rc.1", false);
    let check = run(&CHECK).exits(7).json();
    let moved = &check["subjects"][0];
    assert_eq!(
        (&moved["state"], &moved["old"], &moved["new"]),
        (&json!("new"), &json!("1.9.0"), &json!("1.10.0"))
    );
    assert_eq!(moved["follows"], "version latest of crate tide");
    assert_eq!(project.read("everbench.lock"), lock);
    assert_eq!(run(&JSON).ok().json()["executed"], json!({}));
    let said = run(&["sync"]).ok().out;
    assert!(said.contains("now 1.10.0, was 1.9.0"), "{said}");
    run(&CHECK).ok();
    let plan = run(&["plan", "--format", "json"]).ok().json();
    let kinds = plan["subjects"][0]["groups"].as_array().unwrap();
    assert_eq!(kinds[0]["kind"], "source/snapshot", "{plan:#}");
    // A remark between functions costs the source and its builds.
    let second = run(&JSON).ok().json();
    assert_eq!(executed(&second), Default::default());
    assert_eq!(second["executed"]["source/snapshot"], 1);
    assert_eq!(second["rows"][0]["commit"], "tide 1.10.0");
    let history = run(&["history", "--format", "json"]).ok().json();
    let commits = history["subjects"][0]["commits"].as_array().unwrap();
    let commits: Vec<&Value> = commits.iter().map(|c| &c["commit"]).collect();
    assert_eq!(commits, ["tide 1.9.0", "tide 1.10.0"]);
    // What was frozen is of its own version.
    run(&["release", "verify", "first"]).ok();

    // Another bound is looked up anew, and what is known of its version is known.
    let manifest = project.read("tidelib.toml");
    project.write("tidelib.toml", &manifest.replace("\"latest\"", "\"1.9.*\""));
    let said = [
        "version 1.9.* of crate tide is not in everbench.lock yet",
        "everbench run",
    ];
    run(&["score"]).exits(3).says(&said);
    let within = run(&JSON).ok().json();
    assert_eq!(within["rows"][0]["commit"], "tide 1.9.0");
    assert_eq!(within["executed"], json!({}));
    run(&CHECK).ok();
    project.write("tidelib.toml", &manifest);
    assert_eq!(run(&JSON).ok().json()["executed"], json!({}));

    // Nobody answers: what is locked goes on, and who asks for news is told that there is no answer.
    let cut_off = |args: &[&str]| {
        let mut command = project.command(args);
        ended({
            command
                .env("CARGO_HOME", project.dir.join("other-home"))
                .env("CARGO_HTTP_PROXY", "http://127.0.0.1:9")
                .env("CARGO_NET_RETRY", "0");
            command
        })
    };
    let lock = project.read("everbench.lock");
    let said = cut_off(&["sync"]).ok().out;
    assert!(
        said.contains("goes on with 1.10.0, as locked: cannot reach"),
        "{said}"
    );
    let check = cut_off(&CHECK).exits(75).json();
    assert_eq!(check["subjects"][0]["state"], "unknown");
    assert_eq!(cut_off(&JSON).ok().json()["executed"], json!({}));

    // The same version with other bytes; then no such package at all.
    let line = registry.pack(&repo, "1.10.0", false);
    let mut other: Value = serde_json::from_str(&line).unwrap();
    other["cksum"] = "0".repeat(64).into();
    fs::write(registry.index(), format!("{other}\n")).unwrap();
    let sum = "0".repeat(64);
    let said = [
        "tide 1.10.0",
        "was exchanged",
        &sum,
        "remove",
        "everbench.lock",
    ];
    run(&["sync"]).exits(3).says(&said);
    fs::remove_file(registry.index()).unwrap();
    run(&["sync"]).exits(3).says(&["there is no crate `tide`"]);
    assert_eq!(project.read("everbench.lock"), lock);
    assert_eq!(run(&JSON).ok().json()["executed"], json!({}));
}
