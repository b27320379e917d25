//! The rooms keep to themselves: which room may use which is written down here, and a pure room
//! does not so much as name what only impure rooms may touch. The lint `disallowed_methods` guards
//! the calls; this guards the edges, the `use`s and the paths written in full.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Room -> rooms it may use. `date`, `digest`, `job` and `cancel` are everybody's.
const EDGES: &[(&str, &[&str])] = &[
    ("stats", &[]),
    ("logs", &[]),
    ("lang", &[]),
    ("ask", &["lang"]),
    ("subject", &["lang", "logs"]),
    ("engine", &[]),
    ("config", &["ask", "oss", "lang", "stats", "subject"]),
    ("store", &["engine"]),
    ("source", &["subject"]),
    (
        "oss",
        &[
            "ask", "engine", "lang", "logs", "source", "stats", "subject",
        ],
    ),
    ("tosss", &["ask", "engine", "lang", "stats"]),
    ("contamination", &["ask", "lang", "stats", "tosss"]),
    (
        "exec",
        &[
            "ask",
            "contamination",
            "engine",
            "lang",
            "logs",
            "oss",
            "source",
            "subject",
            "tosss",
        ],
    ),
    (
        "report",
        &[
            "app",
            "ask",
            "config",
            "contamination",
            "logs",
            "oss",
            "stats",
            "subject",
            "tosss",
        ],
    ),
    (
        "app",
        &[
            "ask",
            "config",
            "contamination",
            "engine",
            "exec",
            "lang",
            "oss",
            "source",
            "stats",
            "store",
            "subject",
            "tosss",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "ask",
            "config",
            "contamination",
            "engine",
            "exec",
            "oss",
            "report",
            "store",
            "subject",
            "tosss",
        ],
    ),
];

const EVERYBODYS: &[&str] = &["date", "digest", "job", "cancel", "CODE"];

/// Rooms that must not read files, run programs, or know the time and the environment.
const PURE: &[&str] = &[
    "stats",
    "logs",
    "lang",
    "ask",
    "subject",
    "oss",
    "tosss",
    "contamination",
    "report",
    "config",
    "date",
    "digest",
    "job",
    "cancel",
];

/// What they must not name.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "SystemTime",
    "Instant::now",
    "println!",
    "eprintln!",
    "reqwest",
    "tokio",
    "redb",
];

/// The room of a source file: its folder under `src`, or its own name.
fn room(path: &Path) -> String {
    let below = path
        .strip_prefix(root().join("src"))
        .expect("a file under src");
    let first = below
        .components()
        .next()
        .expect("a file")
        .as_os_str()
        .to_string_lossy()
        .into_owned();
    first.trim_end_matches(".rs").to_string()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file of the library with its text, tests left out.
fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(root().join("src")) {
        let path = entry.expect("src can be read").into_path();
        let is_test = path.components().any(|c| c.as_os_str() == "tests")
            || path.file_stem().is_some_and(|s| {
                s == "tests" || s.to_string_lossy().ends_with("_tests") || s == "crash_images"
            });
        let is_init = path.components().any(|c| c.as_os_str() == "init");
        if path.extension().is_some_and(|e| e == "rs") && !is_test && !is_init {
            let text = std::fs::read_to_string(&path).expect("a source file can be read");
            files.push((path, without_tests(&text).to_string()));
        }
    }
    assert!(
        files.len() > 60,
        "only {} source files were found",
        files.len()
    );
    files
}

/// The text before its module of tests, whoever may see that.
fn without_tests(text: &str) -> &str {
    let mut at = 0;
    while let Some(found) = text[at..].find("\n#[cfg(test)]\n") {
        at += found + 1;
        let next = text[at..].lines().nth(1).unwrap_or_default();
        if next.ends_with("mod tests {") {
            return &text[..at];
        }
    }
    text
}

/// The lines of code, comments left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, l)| (i + 1, l))
        .filter(|(_, l)| !l.trim_start().starts_with("//"))
}

#[test]
fn rooms_use_only_the_rooms_they_may() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = EDGES
        .iter()
        .map(|(r, to)| (*r, to.iter().copied().collect()))
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let room = room(&path);
        if matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        for (line, code) in code(&text) {
            for part in code.split("crate::").skip(1) {
                let used: String = part
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                let fine = used.is_empty()
                    || used == room
                    || EVERYBODYS.contains(&used.as_str())
                    || allowed
                        .get(room.as_str())
                        .is_some_and(|to| to.contains(used.as_str()));
                if !fine {
                    wrong.push(format!(
                        "{}:{line}: room `{room}` uses `{used}`",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "edges that are not in the table:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn pure_rooms_touch_nothing_outside() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if !PURE.contains(&room(&path).as_str()) {
            continue;
        }
        for (line, code) in code(&text) {
            for name in IMPURE.iter().filter(|name| code.contains(*name)) {
                wrong.push(format!(
                    "{}:{line}: a pure room names `{name}`",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_cli_prints() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        // What the worker writes goes to the executor that started it, not to a user.
        if room(&path) == "cli" || path.ends_with("exec/libclang_worker.rs") {
            continue;
        }
        for (line, code) in code(&text) {
            if code.contains("println!") || code.contains("print!(") || code.contains("stdout()") {
                wrong.push(format!("{}:{line}", path.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these print and are not in cli:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn redb_stays_in_the_store() {
    for (path, text) in sources() {
        if room(&path) != "store" {
            let found = code(&text).find(|(_, l)| l.contains("redb::"));
            assert_eq!(found, None, "{}", path.display());
        }
    }
}

/// Names of registries' hosts and paths of one machine have no place in what is published.
#[test]
fn nothing_names_a_host_of_a_registry() {
    let hosts = [
        ["index", "crates", "io"].join("."),
        ["static", "crates", "io"].join("."),
        ["pypi", "org"].join("."),
        ["deb", "debian", "org"].join("."),
    ];
    for folder in ["src", "docs", "tests", "tools", "fixtures", "queries"] {
        for entry in walkdir::WalkDir::new(root().join(folder)) {
            let path = entry.expect("the folder can be read").into_path();
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            for host in &hosts {
                assert!(!text.contains(host), "{} names {host}", path.display());
            }
        }
    }
}
