//! Bytes that change under a finished project: a wrong value is never served. What is noticed is
//! computed again or said.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use everbench::stats::mix::mix64;
use serde_json::json;

use crate::support::*;

const JSON: [&str; 4] = ["run", "--quiet", "--format", "json"];

fn blobs(project: &Project) -> Vec<PathBuf> {
    let walk = walkdir::WalkDir::new(project.store().join("blobs")).sort_by_file_name();
    let files = walk.into_iter().flatten().map(|e| e.into_path());
    files.filter(|p| p.is_file()).collect()
}

fn overwrite(path: &Path, at: u64, len: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let noise: Vec<u8> = (0..len).map(|i| mix64(at, &[i]) as u8).collect();
    file.write_all_at(&noise, at).unwrap();
}

#[test]
fn blobs_with_other_bytes_and_blobs_that_are_gone_are_computed_again() {
    let project = Project::prepared();
    let files = blobs(&project);
    assert!(files.len() >= 2, "{files:?}");
    for (i, path) in files.iter().enumerate() {
        match i % 2 {
            0 => overwrite(path, fs::metadata(path).unwrap().len() / 2, 40),
            _ => fs::remove_file(path).unwrap(),
        }
    }
    let verified = project.run(["store", "verify"]).exits(1).json();
    assert_eq!(verified["problems"].as_array().unwrap().len(), files.len());
    let scored = project.run(["score", "--format", "json"]);
    match scored.code {
        Some(0) => assert_eq!(scored.json()["rows"], project.first()["rows"]),
        // What is needed and gone is said.
        _ => assert!(scored.err.contains("store"), "{}", scored.err),
    }
    // With one job taken out, rows that are remembered do not count, and everything is read.
    let runs = project.run(["store", "ls", "--kind", "oss/run"]).ok().out;
    project.run(["store", "rm", &runs[..64]]).ok();
    let board = project.run(JSON).ok().json();
    assert_eq!(board["rows"], project.first()["rows"]);
    assert!(total(&board["executed"]) > 1, "{}", board["executed"]);
    // Of what was noticed nothing is left; what no evaluation reads is still named by verify.
    assert_eq!(project.run(JSON).ok().json()["executed"], json!({}));
    let left = project.run(["store", "verify"]);
    let left = left.json()["problems"].as_array().unwrap().len();
    assert!(left < files.len(), "nothing was mended");
}

#[test]
fn an_index_with_other_bytes_gives_the_same_rows_or_an_error() {
    let project = Project::prepared();
    let path = project.store().join("index.redb");
    let whole = fs::read(&path).unwrap();
    let first = project.first();
    let mut refused = 0;
    for round in 0..12u64 {
        fs::write(&path, &whole).unwrap();
        let len = 16 << round;
        // The first pages are the header and the roots of the trees.
        let within = match round % 4 {
            0 => 3 * 4096,
            _ => whole.len() as u64 - len,
        };
        overwrite(&path, mix64(round, &[0]) % within, len);
        for words in [
            &["score", "--format", "json"][..],
            &["store", "stats"],
            &["store", "verify"],
        ] {
            let ended = project.run(words);
            assert!(!ended.err.contains("panicked"), "{}", ended.err);
            match (ended.code, words[0]) {
                (Some(0), "score") => assert_eq!(ended.json()["rows"], first["rows"]),
                (Some(0), _) => {}
                // Incomplete: what cannot be read is missing.
                (Some(75), "score") => refused += 1,
                (Some(1), "store") => {
                    refused += 1;
                    let sound = ended.out.contains("\"index\": \"sound\"");
                    assert!(!sound, "{}", ended.out);
                }
                (Some(3), _) => {
                    refused += 1;
                    assert!(ended.err.contains("error: "), "{}", ended.err);
                }
                other => panic!("{other:?}: {}", ended.err),
            }
        }
    }
    assert!(refused > 0, "no round met anything");
    fs::write(&path, &whole).unwrap();
    assert_eq!(project.run(JSON).ok().json()["rows"], first["rows"]);
}
