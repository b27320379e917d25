//! Compiles `src/exec/init/main.rs`, the small program that runs inside every sandbox, and leaves
//! it in `OUT_DIR` for `src/exec/supervise.rs` to embed. It must be a program of its own: it is
//! the first process of a namespace in which nothing of this crate may be present.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = "src/exec/init/main.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=build.rs");
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
