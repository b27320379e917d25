//! libclang as an extractor: where it is on this machine and what identifies it. `extract` is the
//! job that asks it about one unit, `flags` what of a recorded command it is given. The library is
//! loaded in a worker inside the sandbox only.

mod extract;
mod flags;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::toolchain::visible;
use crate::digest::Digest;

pub use extract::Extract;

/// A libclang that can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Libclang {
    /// The shared library, as it is loaded.
    pub library: PathBuf,
    /// The folder of the compiler's own headers.
    pub resources: PathBuf,
    /// What it is, in bytes.
    pub identity: Identity,
}

/// The digests of what decides its answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Identity {
    /// Digest of the shared library.
    pub library: Digest,
    /// The name of the folder of headers, which is the version.
    pub version: String,
    /// Digest of the headers' paths and digests.
    pub headers: Digest,
    /// The target it is told to compile for.
    pub target: String,
}

impl Identity {
    /// Canonical bytes: the preimage of the digest in keys.
    pub fn canonical(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names are strings")
    }
}

/// Why there is no libclang.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoLibclang {
    /// The library is not there.
    #[error(
        "libclang was not found ({0})\n  help: install it, on Debian with `apt-get install libclang1-14 libclang-common-14-dev`, or set LIBCLANG_PATH to the library; or use `extractor = \"tree-sitter\"`"
    )]
    Library(String),
    /// Its headers are not there.
    #[error(
        "{} has no headers of its own (no `clang/VERSION/include/stddef.h` near it)\n  help: install them, on Debian with `apt-get install libclang-common-14-dev`", .0.display()
    )]
    Headers(PathBuf),
    /// It is not where the sandbox looks.
    #[error(
        "{} cannot be used: the sandbox shows /usr and /lib and nothing else\n  help: install libclang there, for example in /usr/local/lib", .0.display()
    )]
    Hidden(PathBuf),
}

/// The variable that says where the library is.
pub const VARIABLE: &str = "LIBCLANG_PATH";

impl Libclang {
    /// Finds libclang: `wish` (a library, or the folder of one) and nothing else if it is given,
    /// else the newest in the system's folders. `target` is what the subject is compiled for.
    pub fn probe(wish: Option<&Path>, target: &str) -> Result<Libclang, NoLibclang> {
        let mut candidates: Vec<PathBuf> = match wish {
            Some(path) if path.is_file() => vec![path.to_path_buf()],
            Some(path) => libraries(path),
            None => folders().iter().flat_map(|dir| libraries(dir)).collect(),
        };
        candidates.sort_by_key(|path| (version(path), path.clone()));
        let Some(library) = candidates.pop() else {
            return Err(NoLibclang::Library(match wish {
                Some(path) => format!("{VARIABLE} is {}, where there is none", path.display()),
                None => "no libclang.so in /usr/lib or /usr/local/lib".to_string(),
            }));
        };
        if !visible(&library) {
            return Err(NoLibclang::Hidden(library));
        }
        let none = |_| NoLibclang::Library(format!("{} cannot be read", library.display()));
        let bytes = std::fs::read(&library).map_err(none)?;
        let resources = resources(&library).ok_or(NoLibclang::Headers(library.clone()))?;
        let identity = Identity {
            library: Digest::of(&bytes),
            version: file_name(&resources),
            headers: headers(&resources),
            target: target.to_string(),
        };
        Ok(Libclang {
            library,
            resources,
            identity,
        })
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["/usr/local/lib", "/usr/lib", "/usr/lib64"]
        .iter()
        .map(PathBuf::from)
        .collect();
    for entry in std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("llvm") {
            folders.push(entry.path().join("lib"));
        } else if name.contains("-linux-") {
            folders.push(entry.path());
        }
    }
    folders
}

/// The files of a folder that are libclang itself; `libclang-cpp` is another library.
fn libraries(dir: &Path) -> Vec<PathBuf> {
    let is = |name: &str| {
        let Some(rest) = name.strip_prefix("libclang") else {
            return false;
        };
        let stem = rest.split(".so").next().unwrap_or_default();
        let number = stem.strip_prefix('-').unwrap_or(stem);
        rest.contains(".so") && number.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.path())
        .filter(|p| is(&file_name(p)) && p.is_file())
        .collect()
}

/// The numbers in the name of the file behind a library, or of the folder above: the newest is
/// last.
fn version(library: &Path) -> Vec<u32> {
    let real = library.canonicalize().unwrap_or_default();
    let of = |text: &str| -> Vec<u32> {
        let parts = text.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|n| n.parse().ok()).collect()
    };
    let by_headers = resources(library).map(|dir| of(&file_name(&dir)));
    by_headers.unwrap_or_else(|| of(&file_name(&real)))
}

/// Where a libclang has its headers: beside itself or beside the file behind it, as it looks
/// itself.
fn resources(library: &Path) -> Option<PathBuf> {
    let real = library.canonicalize().ok()?;
    let numbers = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_ascii_digit());
        parts
            .filter(|n| !n.is_empty())
            .map(str::to_string)
            .collect()
    };
    // The name of a link (`libclang.so.1`) may hold another number than the version.
    let major = [real.as_path(), library]
        .iter()
        .find_map(|p| numbers(&file_name(p)).into_iter().next());
    let mut found: Vec<(Vec<u32>, PathBuf)> = Vec::new();
    let mut near: Vec<PathBuf> = [library, real.as_path()]
        .iter()
        .filter_map(|p| p.parent())
        .flat_map(|dir| [dir.join("clang"), dir.join("../lib/clang")])
        .collect();
    // Debian's library in the folder of the architecture is that of /usr/lib/llvm-VERSION.
    near.extend(
        major
            .iter()
            .map(|m| PathBuf::from(format!("/usr/lib/llvm-{m}/lib/clang"))),
    );
    for dir in near {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let parts = numbers(&file_name(&path));
            let fits = major.is_none() || parts.first() == major.as_ref();
            if fits && path.join("include/stddef.h").is_file() {
                let parts = parts.iter().filter_map(|n| n.parse().ok()).collect();
                found.push((parts, path));
            }
        }
        // What is nearest is its own.
        if !found.is_empty() {
            break;
        }
    }
    found.sort();
    let path = found.pop()?.1;
    path.canonicalize().ok()
}

fn headers(resources: &Path) -> Digest {
    let mut lines = Vec::new();
    let walk = walkdir::WalkDir::new(resources.join("include")).sort_by_file_name();
    for entry in walk.into_iter().flatten().filter(|e| e.path().is_file()) {
        let path = entry.path().strip_prefix(resources).unwrap_or(entry.path());
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        lines.extend_from_slice(path.as_os_str().as_encoded_bytes());
        lines.extend_from_slice(format!(" {}\n", Digest::of(&bytes)).as_bytes());
    }
    Digest::of(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_told_from_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "libclang.so",
            "libclang-14.so.1",
            "libclang.so.14.0.6",
            "libclang-cpp.so.14",
            "libclang_rt.asan.so",
            "libclang.a",
        ];
        for name in names {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let mut found: Vec<String> = libraries(dir.path()).iter().map(|p| file_name(p)).collect();
        found.sort();
        assert_eq!(
            found,
            ["libclang-14.so.1", "libclang.so", "libclang.so.14.0.6"]
        );
    }

    #[test]
    fn a_missing_library_is_named_with_the_package_to_install() {
        let error = Libclang::probe(Some(Path::new("/nowhere")), "x").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("/nowhere") && error.contains("apt-get install libclang1-14"),
            "{error}"
        );
    }
}
