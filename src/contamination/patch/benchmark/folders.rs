//! Benchmarks that are folders of files: Defects4J, whose patches run from fixed to buggy (and are cut
//! down to the fault, so that it is the fixed revision they fit), and BugsInPy.

use std::collections::{BTreeMap, HashSet};

use super::{Benchmark, Form, Instance, NoBenchmark, NoInstance, Written};
use crate::contamination::patch::diff::reversed;

/// Reads the files of a benchmark, or of one of its projects, by their paths below its folder.
/// Others than those that are named here may be among them.
///
/// # Errors
/// No instance is in them.
pub fn folders(files: &BTreeMap<String, Vec<u8>>) -> Result<Benchmark, NoBenchmark> {
    let is = |name: &str| {
        files
            .keys()
            .any(|path| path == name || path.ends_with(&format!("/{name}")))
    };
    let benchmark = match is("active-bugs.csv") {
        true => defects4j(files),
        false => bugs_in_py(files),
    };
    match benchmark.instances.is_empty() {
        true => {
            let first = benchmark.problems.first();
            Err(NoBenchmark::Nothing(
                first.map(|(id, p)| format!("{id}: {}", p.words())),
            ))
        }
        false => Ok(benchmark),
    }
}

fn empty(form: Form) -> Benchmark {
    Benchmark {
        form,
        instances: Vec::new(),
        problems: Vec::new(),
        source: Written::Folders {
            lines: Vec::new(),
            heads: BTreeMap::new(),
        },
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The name of the folder that a path ends with, or what a project is called without one.
fn last(folder: &str) -> &str {
    let name = folder.rsplit('/').next().unwrap_or(folder);
    match name {
        "" => "project",
        name => name,
    }
}

fn defects4j(files: &BTreeMap<String, Vec<u8>>) -> Benchmark {
    let mut benchmark = empty(Form::Defects4J);
    let (mut lines, mut heads) = (Vec::new(), BTreeMap::new());
    for (path, bytes) in files {
        let Some(folder) = path.strip_suffix("active-bugs.csv") else {
            continue;
        };
        let project = last(folder.trim_end_matches('/'));
        let list = text(bytes);
        let mut rows = list.lines();
        let head = rows.next().unwrap_or_default();
        let columns: Vec<&str> = head.split(',').collect();
        let column = |name: &str| columns.iter().position(|c| c.trim() == name);
        let (number, base) = (column("bug.id"), column("revision.id.fixed"));
        heads.insert(path.clone(), format!("{head}\n"));
        for row in rows.filter(|row| !row.trim().is_empty()) {
            // Addresses come last, so that a comma in one does no harm.
            let cells: Vec<&str> = row.split(',').collect();
            let cell =
                |at: Option<usize>| at.and_then(|at| cells.get(at)).filter(|c| !c.is_empty());
            let (Some(number), Some(base)) = (cell(number), cell(base)) else {
                benchmark
                    .problems
                    .push((format!("{path}: {row}"), NoInstance::FieldMissing));
                continue;
            };
            let id = format!("{project}-{number}");
            let Some(patch) = files.get(&format!("{folder}patches/{number}.src.patch")) else {
                benchmark.problems.push((id, NoInstance::NoPatch));
                continue;
            };
            let tests = files.get(&format!("{folder}patches/{number}.test.patch"));
            let triggers = files.get(&format!("{folder}trigger_tests/{number}"));
            let triggers = triggers.map(|t| text(t)).unwrap_or_default();
            let named = triggers.lines().filter_map(|l| l.strip_prefix("--- "));
            benchmark.instances.push(Instance {
                id,
                repository: project.to_string(),
                base: base.to_string(),
                fixed: true,
                patch: reversed(patch).into(),
                test_patch: tests.map(|t| reversed(t)).unwrap_or_default(),
                fail_to_pass: named.map(|l| l.trim().to_string()).collect(),
                pass_to_pass: Vec::new(),
                difficulty: None,
                created_at: None,
            });
            lines.push((path.clone(), row.to_string()));
        }
    }
    benchmark.source = Written::Folders { lines, heads };
    benchmark
}

fn bugs_in_py(files: &BTreeMap<String, Vec<u8>>) -> Benchmark {
    const LIST: &str = "bugs.txt";
    let mut benchmark = empty(Form::BugsInPy);
    let mut lines = Vec::new();
    let mut known = HashSet::new();
    let infos = files.iter().filter_map(|(path, bytes)| {
        let folder = path.strip_suffix("/bug.info")?;
        let (project, number) = folder.rsplit_once("/bugs/").or_else(|| {
            let number = folder.strip_prefix("bugs/")?;
            Some(("", number))
        })?;
        Some((project, number.parse::<u64>().ok(), folder, bytes))
    });
    let mut infos: Vec<_> = infos.collect();
    infos.sort_by_key(|(project, number, folder, _)| (*project, *number, *folder));
    for (project, _, folder, bytes) in infos {
        let number = last(folder);
        let about = match project.is_empty() {
            true => files.get("project.info"),
            false => files.get(&format!("{project}/project.info")),
        };
        let about = about.map(|b| text(b)).unwrap_or_default();
        let address = setting(&about, "github_url").unwrap_or_default();
        let repository = address.trim_end_matches('/').trim_end_matches(".git");
        let words: Vec<&str> = repository.rsplit('/').take(2).collect();
        let repository = match words[..] {
            [name, owner] => format!("{owner}/{name}"),
            _ => last(project).to_string(),
        };
        let name = match last(project) {
            "project" => last(&repository).to_string(),
            name => name.to_string(),
        };
        let id = format!("{name}-{number}");
        let info = text(bytes);
        let Some(base) = setting(&info, "buggy_commit_id") else {
            benchmark.problems.push((id, NoInstance::FieldMissing));
            continue;
        };
        let patch = files.get(&format!("{folder}/bug_patch.txt"));
        let Some(patch) = patch.filter(|p| !p.trim_ascii().is_empty()) else {
            benchmark.problems.push((id, NoInstance::NoPatch));
            continue;
        };
        if !known.insert(id.clone()) {
            benchmark.problems.push((id, NoInstance::Duplicate));
            continue;
        }
        let commands = files.get(&format!("{folder}/run_test.sh"));
        let commands = commands.map(|t| text(t)).unwrap_or_default();
        let commands = commands.lines().map(str::trim).filter(|l| !l.is_empty());
        benchmark.instances.push(Instance {
            id,
            repository,
            base,
            fixed: false,
            patch: patch.as_slice().into(),
            test_patch: Vec::new(),
            fail_to_pass: commands.map(str::to_string).collect(),
            pass_to_pass: Vec::new(),
            difficulty: None,
            created_at: None,
        });
        lines.push((LIST.to_string(), folder.to_string()));
    }
    benchmark.source = Written::Folders {
        lines,
        heads: BTreeMap::from([(LIST.to_string(), String::new())]),
    };
    benchmark
}

/// The value of a line `name="value"`.
fn setting(text: &str, name: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_string())
    });
    values.rfind(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        files
            .iter()
            .map(|(p, t)| (p.to_string(), t.as_bytes().to_vec()))
            .collect()
    }

    const BACKWARDS: &str = "diff --git a/A.java b/A.java\n--- a/A.java\n+++ b/A.java\n@@ -1,3 +1,2 @@\n a\n-fixed\n-more\n+buggy\n";

    #[test]
    fn patches_of_defects4j_run_from_fixed_to_buggy() {
        let files = tree(&[
            (
                "Lang/active-bugs.csv",
                "bug.id,revision.id.buggy,revision.id.fixed,report.id,report.url\n1,b1,f1,L-1,http://x\n2,b2,f2,L-2,http://y\n3,b3,,,\n",
            ),
            ("Lang/patches/1.src.patch", BACKWARDS),
            ("Lang/trigger_tests/1", "--- org.A::one\njava.lang.Error\n"),
        ]);
        let benchmark = folders(&files).unwrap();
        let [one] = &benchmark.instances[..] else {
            panic!()
        };
        assert_eq!(
            (&*one.id, &*one.repository, &*one.base, one.fixed),
            ("Lang-1", "Lang", "f1", true)
        );
        assert_eq!(one.fail_to_pass, ["org.A::one"]);
        let forwards = text(&one.patch);
        assert!(
            forwards.contains("@@ -1,2 +1,3 @@\n a\n+fixed\n+more\n-buggy\n"),
            "{forwards}"
        );
        let reasons: Vec<_> = benchmark.problems.iter().map(|(_, r)| *r).collect();
        assert_eq!(reasons, [NoInstance::NoPatch, NoInstance::FieldMissing]);
        let kept = benchmark.filtered(|_| true);
        assert_eq!(
            text(&kept["Lang/active-bugs.csv"]),
            "bug.id,revision.id.buggy,revision.id.fixed,report.id,report.url\n1,b1,f1,L-1,http://x\n"
        );
    }

    #[test]
    fn bugs_in_py_are_numbered_folders() {
        let info = "python_version=\"3.6.9\"\nbuggy_commit_id=\"c0\"\nfixed_commit_id=\"c1\"";
        let patch = "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n";
        let files = tree(&[
            (
                "projects/tqdm/project.info",
                "github_url=\"https://example.org/owner/tqdm\"\n",
            ),
            ("projects/tqdm/bugs/10/bug.info", info),
            ("projects/tqdm/bugs/10/bug_patch.txt", patch),
            ("projects/tqdm/bugs/2/bug.info", info),
            ("projects/tqdm/bugs/2/bug_patch.txt", patch),
            (
                "projects/tqdm/bugs/2/run_test.sh",
                "python -m pytest a.py::t\n\n",
            ),
            ("projects/tqdm/bugs/3/bug.info", info),
            ("projects/tqdm/bugs/4/bug.info", "x=1\n"),
        ]);
        let benchmark = folders(&files).unwrap();
        let ids: Vec<_> = benchmark.instances.iter().map(|i| &*i.id).collect();
        assert_eq!(ids, ["tqdm-2", "tqdm-10"]);
        assert_eq!(benchmark.instances[0].repository, "owner/tqdm");
        assert_eq!(
            benchmark.instances[0].fail_to_pass,
            ["python -m pytest a.py::t"]
        );
        assert_eq!(
            benchmark.problems,
            [
                ("tqdm-3".to_string(), NoInstance::NoPatch),
                ("tqdm-4".to_string(), NoInstance::FieldMissing)
            ]
        );
        let kept = benchmark.filtered(|i| i.id == "tqdm-10");
        assert_eq!(text(&kept["bugs.txt"]), "projects/tqdm/bugs/10\n");
        assert!(folders(&tree(&[("a", "b")])).is_err());
    }
}
