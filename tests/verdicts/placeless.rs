//! An edit that moves lines and changes nothing else leaves the sanitized programs as they were, and
//! what their sanitizers report is still told with the lines of the source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use everbench::digest::Digest;
use everbench::engine::{Db, EngineDb, Hold};
use everbench::oss::artifact::{self, BaseDoc, PROGRAM, ProgramDoc, Replacement};
use everbench::oss::inputs::{Scoring, Settings, Subject};
use everbench::oss::iteration::{self, AlertInfo, Set};
use everbench::oss::population::{self, FlavourArg, FunctionArg};
use everbench::oss::{baseline, jobs};

use super::support::*;

const LEAP: &str = "src/calendar.c:td_is_leap";
/// Reads behind the end of a block, and overflows, each on a line that says so.
const FAULTS: &str = "    {
        volatile int most = 2147483647;

        most += 1; /* too much */
        int *block = __builtin_malloc(8);
        most = block[2 + (year & 1)]; /* too far */
        __builtin_free(block);
    }
";
const COMMENT: &str = "/* What a file begins with.\n *\n * It goes on. */\n\n\n\n\n\n\n\n\n\n\n";

fn has(compiler: &str) -> bool {
    let mut command = Command::new(compiler);
    let command = command.arg("--version").stdout(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

/// A copy of a fixture.
fn copy(of: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let all = of.join(".");
    let status = Command::new("cp")
        .arg("-a")
        .arg(all)
        .arg(dir.path())
        .status();
    assert!(status.expect("cp runs").success());
    dir
}

fn edit(dir: &Path, path: &str, change: impl Fn(&str) -> String) {
    let file = dir.join(path);
    // Not all of them are UTF-8.
    let text: String = fs::read(&file)
        .expect("a file")
        .iter()
        .map(|b| *b as char)
        .collect();
    let bytes: Vec<u8> = change(&text).chars().map(|c| c as u8).collect();
    fs::write(file, bytes).expect("a file");
}

/// The line of the one place where `text` is.
fn line_of(source: &str, text: &str) -> u32 {
    let at = source.find(text).expect("it is there");
    1 + source[..at].matches('\n').count() as u32
}

fn linked(doc: &BaseDoc) -> BTreeMap<&str, Digest> {
    let linked = |path: &str| doc.steps.iter().any(|s| s.output == path);
    let files = doc.files.iter().filter(|f| linked(&f.path));
    files.map(|f| (f.path.as_str(), f.digest)).collect()
}

fn placed(doc: &BaseDoc) -> Vec<(&str, &Option<String>)> {
    let units = doc.units.iter().filter(|u| u.placed.is_some());
    units.map(|u| (u.source.as_str(), &u.placed)).collect()
}

/// The sanitized base, and the alerts of the unchanged subject.
fn built(lab: &mut Lab) -> (BaseDoc, BTreeMap<String, AlertInfo>) {
    lab.drive(None, |db, settings, subject| {
        let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
        let baseline = baseline::baseline(db, settings, subject)?;
        Ok((BaseDoc::clone(&doc), baseline.alerts.clone()))
    })
}

/// A function with another text in its place, which a verdict brings into the store.
fn replaced(
    db: &EngineDb,
    settings: Settings,
    subject: Subject,
    function: &str,
    change: impl Fn(&str) -> String,
) -> Result<Replacement, Hold> {
    let population = population::population(db, settings, subject)?;
    let function = find(&population, function);
    let arg = FunctionArg::new(db, function.clone());
    let text = population::text(db, settings, subject, arg)?;
    let variant: Arc<[u8]> = change(&shown(&text)).into_bytes().into();
    let replacement = jobs::replacement(&function, Digest::of(&variant));
    db.demand(&jobs::verdict(db, subject, &function, text, variant)?)?;
    Ok(replacement)
}

/// The alerts of the subject with faults in one function.
fn with_faults(lab: &mut Lab) -> BTreeMap<String, AlertInfo> {
    lab.drive(None, |db, settings, subject| {
        let faulty = |text: &str| text.replacen("    return", &format!("{FAULTS}    return"), 1);
        let set = Set::of_one(replaced(db, settings, subject, LEAP, faulty)?);
        Ok(iteration::measured(db, settings, subject, Scoring::Paper, &set)?.alerts)
    })
}

#[test]
fn a_comment_at_the_top_of_files_leaves_programs_and_alerts_as_they_were() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            continue;
        }
        let dir = copy(tidelib_dir());
        let mut lab = Lab::with_compiler(compiler, TIDELIB, dir.path(), None);
        let (before, none) = built(&mut lab);
        assert_eq!(placed(&before), [], "{compiler}");
        assert!(none.is_empty(), "{compiler}: {none:?}");
        let faults = with_faults(&mut lab);

        for source in ["calendar.c", "stats.c", "sort.c", "map.c"] {
            edit(dir.path(), &format!("src/{source}"), |text| {
                format!("{COMMENT}{text}")
            });
        }
        edit(dir.path(), "include/tide.h", |text| {
            text.replacen("\n\n", "\n\n/* about this */\n\n", 3)
        });
        let mut lab = Lab::with_compiler(compiler, TIDELIB, dir.path(), None);
        let (after, _) = built(&mut lab);
        assert!(linked(&before).len() > 3, "{compiler}");
        assert_eq!(linked(&before), linked(&after), "{compiler}");
        let moved = with_faults(&mut lab);
        assert!(faults.keys().eq(moved.keys()), "{compiler}");

        let original = fs::read_to_string(tidelib_dir().join("src/calendar.c")).expect("a file");
        let text = original.replacen("    return year", &format!("{FAULTS}    return year"), 1);
        for (alerts, text) in [(&faults, &text), (&moved, &format!("{COMMENT}{text}"))] {
            let mut found: Vec<(&str, &str, u32)> = alerts
                .values()
                .filter(|a| a.kind.ends_with("-overflow"))
                .map(|a| (a.kind.as_str(), a.function.as_str(), a.line))
                .collect();
            found.sort_unstable();
            let expected = [
                (
                    "heap-buffer-overflow",
                    "td_is_leap",
                    line_of(text, "too far"),
                ),
                (
                    "signed-integer-overflow",
                    "td_is_leap",
                    line_of(text, "too much"),
                ),
            ];
            assert_eq!(found, expected, "{compiler}: {alerts:?}");
        }
    }
}

#[test]
fn a_program_holds_the_bytes_that_a_build_of_the_same_text_gives() {
    for (manifest, fixture, function, path, from, to) in [
        (
            TIDELIB,
            tidelib_dir(),
            LEAP,
            "src/calendar.c",
            "    return year % 4",
            "    year += 0;\n\n    return year % 4",
        ),
        (
            QUAYLIB,
            quaylib_dir(),
            "include/quay.hpp:berths::berth::fits",
            "include/quay.hpp",
            "taken.empty()",
            "!taken.size()",
        ),
    ] {
        let mut lab = Lab::open(manifest, fixture, None);
        let program = lab.drive(None, |db, settings, subject| {
            let change = |text: &str| text.replacen(from, to, 1);
            let replacement = replaced(db, settings, subject, function, change)?;
            let job = jobs::program(db, subject, &[replacement])?;
            let doc: ProgramDoc = artifact::read(PROGRAM, &db.blob(db.demand(&job)?)?)?;
            Ok(doc)
        });
        assert!(!program.files.is_empty(), "{program:?}");

        let dir = copy(fixture);
        edit(dir.path(), path, |text| {
            // Elsewhere, and moved.
            format!("{COMMENT}{}", text.replacen(from, to, 1))
        });
        let (doc, _) = built(&mut Lab::open(manifest, dir.path(), None));
        assert_eq!(placed(&doc), []);
        let built = linked(&doc);
        for file in &program.files {
            assert_eq!(built[file.path.as_str()], file.digest, "{}", file.path);
        }
    }
}
