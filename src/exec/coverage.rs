//! Which lines of the unchanged subject a shard of its tests executes. The subject is built to count
//! them; the counts are written to a folder of the run's own and read by the compiler's `gcov`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use walkdir::WalkDir;

use super::runner::{Call, Workshop, compiler_limits, host};
use super::{Bind, Limits, Sandbox, Status};
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::Job;
use crate::oss::artifact::{self, CoverageDoc};
use crate::oss::layout::{OUT, in_tree};
use crate::subject::COUNTS;

/// Runs jobs of kind `oss/coverage`.
pub struct CoverageRun(pub Arc<Workshop>);

impl Executor for CoverageRun {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let shop = &self.0;
        let scratch = shop
            .trees
            .scratch()
            .map_err(host("making a scratch folder"))?;
        let counts = scratch.path().join("counts");
        std::fs::create_dir(&counts).map_err(host("making a scratch folder"))?;
        super::base::hand_over(shop, &counts)?;
        let env = super::run::own_environment(job);
        let bind = Bind {
            host: counts.clone(),
            inside: COUNTS.into(),
            writable: true,
        };
        let ended = super::run::tested(shop, job, context, env, vec![bind], false)?.ended;
        Sandbox::reclaim(&counts).map_err(host("taking a folder back"))?;

        let tree = super::base::tree(shop, job.material("base"), context)?;
        let out = scratch.path().join("out");
        std::fs::create_dir(&out).map_err(host("making a scratch folder"))?;
        let notes = gather(&tree, &counts, &out).map_err(host("gathering the counts"))?;
        super::base::hand_over(shop, &out)?;
        let mut doc = read(shop, context, &tree, &out, &notes)?;
        // Processes write their counts when they leave by themselves.
        doc.cut_short = !matches!(ended.status, Status::Exited(_));
        Ok(Output {
            bytes: artifact::write(&doc),
            blobs: vec![],
        })
    }
}

/// Puts the compiler's notes, and beside them the counts where there are any, into `out`. Gives the
/// notes' paths, relative to the tree, sorted.
fn gather(tree: &Path, counts: &Path, out: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut notes = Vec::new();
    let written = written(counts)?;
    for entry in WalkDir::new(tree).sort_by_file_name() {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type().is_file() || path.extension().is_none_or(|e| e != "gcno") {
            continue;
        }
        let inside = path.strip_prefix(tree).expect("it is below the tree");
        let to = out.join(inside);
        std::fs::create_dir_all(to.parent().expect("it is in a folder"))?;
        std::fs::copy(path, &to)?;
        if let Some(counted) = written.get(&inside.with_extension("gcda")) {
            std::fs::copy(counted, to.with_extension("gcda"))?;
        }
        notes.push(inside.to_path_buf());
    }
    Ok(notes)
}

/// The files of counts, by where they would lie in the tree if they lay beside their objects.
fn written(counts: &Path) -> std::io::Result<BTreeMap<PathBuf, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(counts)? {
        let entry = entry?;
        let name = entry.file_name();
        if let (true, Some(name)) = (entry.file_type()?.is_file(), name.to_str())
            && let Some(path) = in_tree("/", &unmangled(name))
        {
            found.insert(path.into(), entry.path());
        }
    }
    Ok(found)
}

/// The path that a file of counts is named by: the compiler writes `#` for `/` and `^` for `..`.
fn unmangled(name: &str) -> String {
    let parts = name.split('#').map(|part| match part {
        "^" => "..",
        part => part,
    });
    parts.collect::<Vec<&str>>().join("/")
}

fn read(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    out: &Path,
    notes: &[PathBuf],
) -> Result<CoverageDoc, Failure> {
    let gcov = shop.tools.gcov().map_err(|e| Failure::Fatal {
        what: e.to_string(),
        help: "`subjects check --no-coverage` does without".into(),
    })?;
    let mut doc = CoverageDoc::default();
    // As many at once as fit on a command line.
    for notes in notes.chunks(200) {
        let mut argv = vec![
            gcov.display().to_string(),
            "--json-format".into(),
            "--stdout".into(),
        ];
        argv.extend(notes.iter().map(|path| format!("{OUT}/{}", path.display())));
        let call = Call {
            cwd: OUT.into(),
            out: Some(out),
            limits: Limits {
                output: 1 << 30,
                ..compiler_limits()
            },
            ..Call::on(tree, argv)
        };
        let ended = shop.run(&call, context)?;
        if ended.status != Status::Exited(0) {
            return Err(Failure::Fatal {
                what: format!(
                    "gcov ended with {}: {}",
                    super::base::describe(&ended.status),
                    String::from_utf8_lossy(&ended.stderr).trim()
                ),
                help: "gcov must be that of the compiler; `everbench doctor` shows which is used"
                    .into(),
            });
        }
        for line in ended
            .stdout
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
        {
            let unit: Unit = serde_json::from_slice(line).map_err(|e| Failure::Fatal {
                what: format!("the output of gcov cannot be read: {e}"),
                help: "gcov 9 or newer is needed".into(),
            })?;
            unit.into_doc(&mut doc);
        }
    }
    Ok(doc)
}

/// What gcov says of one object.
#[derive(Deserialize)]
struct Unit {
    current_working_directory: String,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    file: String,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    line_number: u32,
    count: u64,
}

impl Unit {
    fn into_doc(self, doc: &mut CoverageDoc) {
        let mut of_unit = CoverageDoc::default();
        for file in self.files {
            let Some(path) = in_tree(&self.current_working_directory, &file.file) else {
                continue;
            };
            let counts = of_unit.files.entry(path).or_default();
            // A line with several blocks or instances is there several times.
            let mut lines: BTreeMap<u32, u64> = BTreeMap::new();
            for line in file.lines {
                *lines.entry(line.line_number).or_default() |= line.count;
            }
            for (line, count) in lines {
                let which = match count {
                    0 => &mut counts.missed,
                    _ => &mut counts.executed,
                };
                which.insert(line);
            }
        }
        doc.merge(&of_unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_counts_are_named_by_their_objects() {
        let of = |name: &str| in_tree("/", &unmangled(name));
        let object = Some("Zend/zend_hash.gcda".to_string());
        assert_eq!(of("#eb#tree#Zend#zend_hash.gcda"), object);
        assert_eq!(of("#eb#tree#build#^#Zend#zend_hash.gcda"), object);
        assert_eq!(of("#tmp#conftest.gcda"), None);
    }

    #[test]
    fn a_line_executed_in_one_unit_is_executed() {
        let unit = |text: &str| serde_json::from_str::<Unit>(text).expect("gcov's form");
        let mut doc = CoverageDoc::default();
        unit(
            r#"{"current_working_directory": "/eb/tree/build", "files": [
            {"file": "../src/a.c", "functions": [], "lines": [
                {"line_number": 3, "count": 0, "branches": []}, {"line_number": 3, "count": 2},
                {"line_number": 4, "count": 0}]},
            {"file": "/usr/include/stdio.h", "lines": [{"line_number": 1, "count": 9}]}]}"#,
        )
        .into_doc(&mut doc);
        unit(r#"{"current_working_directory": "/eb/tree", "files": [
            {"file": "src/a.c", "lines": [{"line_number": 4, "count": 1}, {"line_number": 5, "count": 0},
                {"line_number": 3, "count": 0}]}]}"#)
        .into_doc(&mut doc);
        assert_eq!(doc.files.keys().collect::<Vec<_>>(), ["src/a.c"]);
        let file = &doc.files["src/a.c"];
        assert_eq!(file.executed, [3, 4].into());
        assert_eq!(file.missed, [5].into());
    }
}
