//! Two things are made while the crate is built.
//!
//! It compiles `src/exec/init/main.rs`, the small program that runs inside every sandbox, and leaves
//! it in `OUT_DIR` for `src/exec/supervise.rs` to embed. It must be a program of its own: it is
//! the first process of a namespace in which nothing of this crate may be present.
//!
//! And it hashes the code of the pure rooms and the versions of all dependencies: derived values
//! that an earlier build remembered are used again only if this digest is the same.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "src/exec/init/main.rs";

/// What the digest covers: everything that decides what a pure query gives.
const PURE: &[&str] = &[
    "src/ask",
    "src/contamination",
    "src/lang",
    "src/logs",
    "src/oss",
    "src/stats",
    "src/subject",
    "src/tosss",
    "queries",
    "Cargo.lock",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    compile_init();
    hash_code();
}

fn hash_code() {
    let mut files = Vec::new();
    for root in PURE {
        println!("cargo::rerun-if-changed={root}");
        collect(Path::new(root), &mut files);
    }
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        hasher.update(file.to_string_lossy().as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    }
    println!(
        "cargo::rustc-env=EVERBENCH_CODE={}",
        hasher.finalize().to_hex()
    );
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

fn compile_init() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = Path::new(&variable("OUT_DIR")).join("sandbox-init");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-name", "sandbox_init"])
        .args(["--crate-type", "bin", "--target", &variable("TARGET")])
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=2",
            "-C",
            "strip=symbols",
        ])
        .arg("-o")
        .arg(out)
        .arg(SOURCE);
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let done = rustc
        .output()
        .unwrap_or_else(|error| panic!("cannot start rustc: {error}"));
    if !done.status.success() {
        panic!(
            "cannot compile {SOURCE}\n{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}
