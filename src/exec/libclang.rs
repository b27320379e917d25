//! libclang as an extractor: where it is on this machine and what identifies it, and the job that
//! asks it about one unit. The library is loaded in a worker inside the sandbox only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::libclang_worker::{NAME, NO_LIBRARY, Report, Request};
use super::runner::{Call, Workshop};
use super::toolchain::visible;
use super::verdict::base_doc;
use super::{Bind, Status};
use crate::digest::Digest;
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Value};
use crate::oss::artifact;
use crate::oss::compiled::{Definition, ExtractDoc};
use crate::oss::layout::{BIN, TREE, in_tree};

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

    /// Arguments for a recorded command's unit, and the flags that were left out.
    fn args(&self, tool: &str, argv: &[String], source: &str) -> (Vec<String>, Vec<String>) {
        let (flags, dropped) = known_flags(argv);
        let cxx = tool == "c++" || !source.ends_with(".c");
        // Without a standard, gcc reads C++ as its own newest default; clang's is older.
        let standard = (cxx && !flags.iter().any(|f| f.starts_with("-std=")))
            .then(|| "-std=gnu++17".to_string());
        let args = [
            format!("-resource-dir={}", self.resources.display()),
            format!("--target={}", self.identity.target),
            "-ferror-limit=0".to_string(),
            "-w".to_string(),
        ];
        let language = (tool == "c++" && source.ends_with(".c"))
            .then(|| ["-x".to_string(), "c++".to_string()]);
        (
            args.into_iter()
                .chain(standard)
                .chain(flags)
                .chain(language.into_iter().flatten())
                .collect(),
            dropped,
        )
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

/// Options whose value is the next argument and that both compilers know.
const PAIRS: &[&str] = &[
    "-I",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "-x",
];
/// Beginnings of options that decide what is declared and that both compilers know.
const KEPT: &[&str] = &[
    "-I",
    "-D",
    "-U",
    "-std=",
    "-O",
    "-isystem",
    "-iquote",
    "-idirafter",
    "--sysroot=",
    "-march=",
    "-msse",
    "-mavx",
    "-mno-sse",
    "-mno-avx",
];
/// Whole options of that sort.
const KEPT_WHOLE: &[&str] = &[
    "-ansi",
    "-pthread",
    "-m32",
    "-m64",
    "-nostdinc",
    "-nostdinc++",
    "-undef",
    "-trigraphs",
    "-ffreestanding",
    "-fhosted",
    "-fno-builtin",
    "-fsigned-char",
    "-funsigned-char",
    "-fshort-enums",
    "-fshort-wchar",
    "-fgnu89-inline",
    "-fms-extensions",
    "-fplan9-extensions",
    "-fno-exceptions",
    "-fexceptions",
    "-fno-rtti",
    "-frtti",
    "-fopenmp",
    "-fPIC",
    "-fpic",
    "-fPIE",
    "-fpie",
    "-fno-pic",
    "-fno-pie",
    "-fwrapv",
    "-fcommon",
    "-fno-common",
];
/// Beginnings of options that change no declaration: outputs, warnings, debugging, linking.
const WITHOUT_EFFECT: &[&str] = &[
    "-c",
    "-o",
    "-g",
    "-W",
    "-w",
    "-M",
    "-pipe",
    "-v",
    "-l",
    "-L",
    "-s",
    "-E",
    "-pedantic",
    "-fdiagnostics",
    "-save-temps",
    "-Xlinker",
    "-rdynamic",
    "-shared",
    "-static",
    "-pie",
];

/// The flags of a recorded command that libclang is given, and those it is not although they might
/// mean something. Positional arguments are left out.
fn known_flags(argv: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    let mut args = argv.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        if PAIRS.contains(&arg) {
            kept.push(arg.to_string());
            kept.extend(args.next().map(str::to_string));
        } else if KEPT_WHOLE.contains(&arg) || KEPT.iter().any(|k| arg.starts_with(k)) {
            kept.push(arg.to_string());
        } else if super::commands::takes_value("cc", arg) {
            let value = args.next().unwrap_or_default();
            if !WITHOUT_EFFECT.iter().any(|w| arg.starts_with(w)) {
                dropped.push(format!("{arg} {value}"));
            }
        } else if arg.starts_with('-') && !WITHOUT_EFFECT.iter().any(|w| arg.starts_with(w)) {
            dropped.push(arg.to_string());
        }
    }
    (kept, dropped)
}

/// Runs jobs of kind `oss/extract`.
pub struct Extract(pub Arc<Workshop>);

impl Executor for Extract {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let shop = &self.0;
        let libclang = shop.libclang.as_ref().ok_or_else(|| Failure::Fatal {
            what: "libclang is needed and was not looked for".into(),
            help: "this is a fault in everbench; please report it".into(),
        })?;
        let base = job.material("base");
        base_doc(base, context)?;
        let tree = super::base::tree(shop, base, context)?;
        let argv: Vec<String> = job
            .list("argv")
            .iter()
            .filter_map(|v| match v {
                Value::Text(s) => Some(s.clone()),
                _ => None,
            })
            .collect();
        let unit = (
            job.text("tool"),
            argv.as_slice(),
            job.text("cwd"),
            job.text("source"),
        );
        let (asked, dropped) = ask(shop, libclang, &tree, unit, context)?;
        let report = match asked {
            Ok(report) => report,
            Err(why) => return Ok(written(ExtractDoc::lost(why, dropped))),
        };
        if let Some(code) = report.failed {
            // 2: it crashed and caught itself.
            let why = if code == 2 { "crashed" } else { "failed" };
            return Ok(written(ExtractDoc::lost(why.into(), dropped)));
        }
        let mut doc = ExtractDoc {
            lost: None,
            errors: report.errors,
            first_error: report.first_error,
            dropped,
            found: Vec::new(),
            generated: 0,
        };
        let sources = sources(job);
        let mut texts: BTreeMap<String, Arc<[u8]>> = BTreeMap::new();
        for mut found in report.found {
            let Some(path) = in_tree(job.text("cwd"), &found.file) else {
                continue;
            };
            let Some(digest) = sources.get(&path) else {
                doc.generated += 1;
                continue;
            };
            if !texts.contains_key(&path) {
                texts.insert(path.clone(), (context.blob)(*digest)?);
            }
            let range = found.start as usize..found.end as usize;
            // Offsets in a file that is not the source's own would be a fault of the tree.
            let bytes = texts[&path].get(range).ok_or_else(|| Failure::Fatal {
                what: format!("libclang reports `{}` outside of {path}", found.name),
                help: "the build tree does not fit the source: remove the project's folder `trees`"
                    .into(),
            })?;
            found.file = path;
            doc.found.push(Definition {
                text: Digest::of(bytes),
                found,
            });
        }
        doc.found.sort();
        doc.found.dedup();
        Ok(written(doc))
    }
}

impl ExtractDoc {
    fn lost(why: String, dropped: Vec<String>) -> ExtractDoc {
        ExtractDoc {
            lost: Some(why),
            errors: 0,
            first_error: None,
            dropped,
            found: Vec::new(),
            generated: 0,
        }
    }
}

fn written(doc: ExtractDoc) -> Output {
    Output {
        bytes: artifact::write(&doc),
        blobs: vec![],
    }
}

/// The files of the source tree that the unit reads.
fn sources(job: &Job) -> BTreeMap<String, Digest> {
    let pair = |value: &Value| match value {
        Value::List(pair) => match pair.as_slice() {
            [Value::Text(path), Value::Digest(digest)] => Some((path.clone(), *digest)),
            _ => None,
        },
        _ => None,
    };
    job.list("files").iter().filter_map(pair).collect()
}

/// What a worker says, or how it was lost; and the flags it was not given.
type Asked = (Result<Report, String>, Vec<String>);

/// Asks a worker about a unit (tool, arguments, working directory, source) of `tree`.
pub fn ask(
    shop: &Workshop,
    libclang: &Libclang,
    tree: &Path,
    (tool, argv, cwd, source): (&str, &[String], &str, &str),
    context: &Context<'_>,
) -> Result<Asked, Failure> {
    let (args, dropped) = libclang.args(tool, argv, source);
    let request = Request {
        source: format!("{TREE}/{source}"),
        args,
        below: format!("{TREE}/"),
    };
    let request = serde_json::to_string(&request).expect("a request has string keys");
    let worker = format!("{BIN}/{NAME}");
    let call = Call {
        argv: vec![worker.clone(), request],
        cwd: cwd.to_string(),
        tree,
        tree_writable: false,
        over: Vec::new(),
        out: None,
        binds: vec![Bind {
            host: shop.recorder.clone(),
            inside: worker.into(),
            writable: false,
        }],
        env: BTreeMap::from([(VARIABLE.to_string(), libclang.library.display().to_string())]),
        limits: shop.limits,
        results: false,
        writable: Vec::new(),
        collect: Vec::new(),
        folders: Vec::new(),
        before: None,
    };
    let ended = shop.run(&call, context)?;
    let asked = match ended.status {
        Status::Exited(0) => serde_json::from_slice(&ended.stdout).map_err(|e| Failure::Fatal {
            what: format!("the report of libclang's worker cannot be read: {e}"),
            help: "this is a fault in everbench; please report it".into(),
        })?,
        Status::Exited(NO_LIBRARY) => {
            return Err(Failure::Fatal {
                what: format!(
                    "libclang cannot be loaded: {}",
                    String::from_utf8_lossy(&ended.stderr).trim()
                ),
                help: "run `everbench doctor`; another libclang is chosen by LIBCLANG_PATH".into(),
            });
        }
        Status::Limit(limit) => {
            return Ok((
                Err(format!("limit: {}", super::runner::limit_name(limit))),
                dropped,
            ));
        }
        // Which signal or status ends it is libclang's matter.
        _ => return Ok((Err("crashed".into()), dropped)),
    };
    Ok((Ok(asked), dropped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_only_gcc_knows_are_left_out_and_told() {
        let argv: Vec<String> = "-g -O2 -Wall -Iinc -I src -DX=1 -D Y -fno-ipa-sra --param max-inline=3 -std=gnu99 -mfancy -MF a.d -c a.c -o a.o"
            .split(' ')
            .map(String::from)
            .collect();
        let (kept, dropped) = known_flags(&argv);
        assert_eq!(
            kept,
            [
                "-O2",
                "-Iinc",
                "-I",
                "src",
                "-DX=1",
                "-D",
                "Y",
                "-std=gnu99"
            ]
        );
        assert_eq!(dropped, ["-fno-ipa-sra", "--param max-inline=3", "-mfancy"]);
    }

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
