//! Hashes the code of the pure rooms and the versions of all dependencies: derived values that an
//! earlier build remembered are used again only if this digest is the same.

use std::path::{Path, PathBuf};

const PURE: &[&str] = &["src/ask", "src/lang", "src/logs", "src/oss", "src/stats", "src/subject", "queries", "Cargo.lock"];

fn main() {
    let mut files = Vec::new();
    for root in PURE {
        println!("cargo:rerun-if-changed={root}");
        collect(Path::new(root), &mut files);
    }
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_default();
        hasher.update(file.to_string_lossy().as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    }
    println!("cargo:rustc-env=EVERBENCH_CODE={}", hasher.finalize().to_hex());
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), files);
        }
    } else {
        files.push(path.to_path_buf());
    }
}
