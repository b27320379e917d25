//! Which tools build a subject, and what they are: found on the machine, identified by the bytes
//! of the files that do the work (compiler proper, assembler, linker, runtimes), not by the
//! version line of a driver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::digest::Digest;

/// The tools in use.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The C compiler's path.
    pub cc: PathBuf,
    /// The C++ compiler's path, if there is one.
    pub cxx: Option<PathBuf>,
    /// The archiver's path.
    pub ar: PathBuf,
    /// The archive indexer's path.
    pub ranlib: PathBuf,
    /// The lister of symbols.
    pub nm: PathBuf,
    /// The linker by itself.
    pub ld: PathBuf,
    /// The editors of object files.
    pub strip: PathBuf,
    /// See `strip`.
    pub objcopy: PathBuf,
    /// What sanitizers of clang find names and lines with; those of GCC do it by themselves.
    pub symbolizer: Option<PathBuf>,
    /// The compiler's version line, for people.
    pub version: String,
    /// What it is, in bytes.
    pub identity: Identity,
}

/// The digests of the files that do the work, by a name that says what each is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Identity {
    /// `-dumpmachine`.
    pub target: String,
    /// Name -> digest.
    pub files: BTreeMap<String, Digest>,
}

impl Identity {
    /// Canonical bytes: the preimage of the toolchain's digest in keys.
    pub fn canonical(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names are strings")
    }
}

/// What a tool is missing, and how to get it.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// A program is not there.
    #[error("`{program}` was not found: {help}")]
    Missing {
        /// The program.
        program: String,
        /// How to get it.
        help: String,
    },
    /// A program is there, but not where the sandbox looks.
    #[error(
        "`{program}` cannot be used: the sandbox shows {} and nothing else; install it there, for example in /usr/local",
        VISIBLE.join(", ")
    )]
    Hidden {
        /// The program.
        program: String,
    },
    /// A program is there and does not work.
    #[error("`{program}` does not work: {why}")]
    Fails {
        /// The program.
        program: String,
        /// What it said.
        why: String,
    },
}

const SANDBOXED: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin"];

/// The folders of programs and libraries that the sandbox shows.
const VISIBLE: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Whether the sandbox shows a file: the path it is called by, and what is behind it.
pub(super) fn visible(path: &Path) -> bool {
    let real = path.canonicalize();
    let below = |path: &Path| VISIBLE.iter().any(|dir| path.starts_with(dir));
    below(path) && real.is_ok_and(|real| below(&real))
}

/// Where a program is, among the folders which the sandbox shows.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| PathBuf::from(program));
    }
    SANDBOXED
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.is_file())
}

impl Toolchain {
    /// Finds and identifies the tools; `cc` names the C compiler (`gcc`, `clang-19`, a path).
    pub fn probe(cc: &str) -> Result<Toolchain, ToolchainError> {
        let cc_path = need(cc, if cc.contains("clang") { "clang" } else { "gcc" })?;
        if !visible(&cc_path) {
            return Err(ToolchainError::Hidden {
                program: cc_path.display().to_string(),
            });
        }
        let cxx =
            find(&cc.replace("gcc", "g++").replace("clang", "clang++")).filter(|p| *p != cc_path);
        let binutils = |program: &str| need(program, "binutils");
        let (ar, ranlib, nm) = (binutils("ar")?, binutils("ranlib")?, binutils("nm")?);
        let (ld, strip, objcopy) = (binutils("ld")?, binutils("strip")?, binutils("objcopy")?);
        let version = ask(&cc_path, &["--version"])?
            .lines()
            .next()
            .unwrap_or_default()
            .to_string();
        let target = ask(&cc_path, &["-dumpmachine"])?;
        let clang = version.contains("clang");
        let mut files = BTreeMap::new();
        let mut add = |name: &str, path: &Path| {
            if let Ok(bytes) = std::fs::read(path) {
                files.insert(name.to_string(), Digest::of(&bytes));
            }
        };
        let mut programs = vec![cc_path.clone(), ar.clone(), objcopy.clone()];
        add("driver", &cc_path);
        if let Some(cxx) = &cxx {
            add("driver-c++", cxx);
        }
        add("ar", &ar);
        add("ranlib", &ranlib);
        add("strip", &strip);
        add("objcopy", &objcopy);
        for program in ["cc1", "cc1plus", "as", "ld", "collect2", "lto-wrapper"] {
            let path = ask(&cc_path, &[&format!("-print-prog-name={program}")])?;
            if let Some(path) = find(&path) {
                add(program, &path);
                programs.push(path);
            }
        }
        // The assembler, the linker and clang are small programs around large libraries.
        let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
        for path in loaded(&programs) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            add(&format!("library {name}"), &path);
        }
        let libraries = [
            "crt1.o",
            "Scrt1.o",
            "crti.o",
            "crtn.o",
            "crtbegin.o",
            "crtbeginS.o",
            "crtend.o",
            "crtendS.o",
            "libgcc.a",
            "libgcc_s.so.1",
            "libc.so.6",
            "libc_nonshared.a",
            "libm.so.6",
            "libpthread.a",
            "libasan.a",
            "libubsan.a",
            "libasan.so",
            "libubsan.so",
            "ld-linux-x86-64.so.2",
            "ld-linux-aarch64.so.1",
            "libstdc++.so.6",
            "liblto_plugin.so",
        ];
        for library in libraries {
            let path = ask(&cc_path, &[&format!("-print-file-name={library}")])?;
            if path.contains('/') {
                add(library, Path::new(&path));
            }
        }
        let mut symbolizer = None;
        if clang {
            let found = ask(&cc_path, &["-print-prog-name=llvm-symbolizer"])?;
            let found = find(&found).filter(|path| visible(path));
            let found = found.ok_or_else(|| ToolchainError::Missing {
                program: "llvm-symbolizer".into(),
                help: "without it alerts have no names; install `llvm` of the compiler's version"
                    .into(),
            })?;
            add("symbolizer", &found);
            symbolizer = Some(found);
            // Clang has its runtimes to itself.
            let resources =
                PathBuf::from(ask(&cc_path, &["-print-resource-dir"])?).join("lib/linux");
            let runtimes = std::fs::read_dir(&resources).map(|dir| dir.flatten());
            for entry in runtimes.into_iter().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let wanted = ["asan", "ubsan", "lsan", "builtins"];
                if wanted.iter().any(|part| name.contains(part)) {
                    add(&format!("runtime {name}"), &entry.path());
                }
            }
        }
        Ok(Toolchain {
            cc: cc_path,
            cxx,
            ar,
            ranlib,
            nm,
            ld,
            strip,
            objcopy,
            symbolizer,
            version,
            identity: Identity { target, files },
        })
    }

    /// The identity together with further programs that a subject's build runs (`cmake`, `make`).
    pub fn identity_with(&self, programs: &[String]) -> Result<Identity, ToolchainError> {
        let mut identity = self.identity.clone();
        for program in programs {
            let path = need(program, program)?;
            if let Ok(bytes) = std::fs::read(path) {
                let name = format!("program {program}");
                identity.files.insert(name, Digest::of(&bytes));
            }
        }
        Ok(identity)
    }

    /// The program that reads the counts of executed lines.
    ///
    /// # Errors
    /// The compiler is not gcc (others have no such output), or it came without.
    pub fn gcov(&self) -> Result<PathBuf, ToolchainError> {
        if self.version.contains("clang") {
            return Err(ToolchainError::Fails {
                program: "gcov".into(),
                why: "lines can only be counted with gcc: use `--compiler gcc`".into(),
            });
        }
        let name = self.cc.file_name().unwrap_or_default().to_string_lossy();
        let beside = name.contains("gcc").then(|| name.replace("gcc", "gcov"));
        let found = beside.as_deref().and_then(find).or_else(|| find("gcov"));
        found.ok_or_else(|| ToolchainError::Missing {
            program: "gcov".into(),
            help: "it comes with gcc's own package".into(),
        })
    }

    /// The real program behind a recorded tool.
    pub fn tool(&self, name: &str) -> &Path {
        match name {
            "c++" => self.cxx.as_deref().unwrap_or(&self.cc),
            "ar" => &self.ar,
            "ranlib" => &self.ranlib,
            "ld" => &self.ld,
            "strip" => &self.strip,
            "objcopy" => &self.objcopy,
            _ => &self.cc,
        }
    }
}

fn need(program: &str, package: &str) -> Result<PathBuf, ToolchainError> {
    find(program).ok_or_else(|| ToolchainError::Missing {
        program: program.to_string(),
        help: format!("install it, on Debian with `apt-get install {package}`"),
    })
}

/// Where `ldd` comes from.
pub(super) const LDD_HELP: &str = "it comes with the C library, on Debian in `libc-bin`";

/// The libraries that programs of the system load, directly or not, and the loader, as this one
/// lists them.
pub(super) fn loaded(programs: &[&Path]) -> Vec<PathBuf> {
    let Some(ldd) = find("ldd") else {
        return Vec::new();
    };
    // It fails when one of them is linked statically, and lists the others all the same.
    let output = tool_command(&ldd).args(programs).output();
    let listing = output.map(|output| output.stdout).unwrap_or_default();
    listed(&String::from_utf8_lossy(&listing))
}

/// The files in a listing of the loader: `libm.so.6 => /lib/libm.so.6 (0x...)`, and by itself
/// `/lib64/ld-linux-x86-64.so.2 (0x...)`.
pub(super) fn listed(listing: &str) -> Vec<PathBuf> {
    let lines = listing.lines().filter(|line| line.starts_with('\t'));
    let named = lines.map(|line| line.split_once("=> ").map_or(line, |(_, path)| path));
    let paths = named.filter_map(|rest| rest.split_whitespace().next());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// A program of the system, in the same environment whoever calls.
fn tool_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LC_ALL", "C");
    command
}

fn ask(program: &Path, args: &[&str]) -> Result<String, ToolchainError> {
    let fails = |why: String| ToolchainError::Fails {
        program: program.display().to_string(),
        why,
    };
    let output = tool_command(program)
        .args(args)
        .output()
        .map_err(|e| fails(e.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    } else {
        Err(fails(
            String::from_utf8_lossy(&output.stderr).trim().to_string(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_identified_by_its_files() {
        let tools = Toolchain::probe("gcc").expect("gcc is needed");
        let identity = tools
            .identity_with(&["make".to_string()])
            .expect("make is needed");
        for name in [
            "driver",
            "cc1",
            "as",
            "ld",
            "ar",
            "libc.so.6",
            "crt1.o",
            "libasan.a",
            "program make",
            "liblto_plugin.so",
            // For C++; `tools/setup` installs it.
            "driver-c++",
            "cc1plus",
            "libstdc++.so.6",
        ] {
            assert!(
                identity.files.contains_key(name),
                "{name} is not identified"
            );
        }
        // What the assembler and the linker are made of.
        let library = |name: &&String| name.starts_with("library libbfd");
        assert!(identity.files.keys().any(|name| library(&name)));
    }

    #[test]
    fn clang_is_identified_by_its_libraries_and_runtimes() {
        let tools = Toolchain::probe("clang").expect("clang and llvm are needed: tools/setup");
        let files = &tools.identity.files;
        for part in ["symbolizer", "library libLLVM", "asan", "ubsan"] {
            assert!(
                files.keys().any(|name| name.contains(part)),
                "{part} is not identified: {:?}",
                files.keys()
            );
        }
    }

    #[test]
    fn a_missing_program_is_named_with_a_way_out() {
        let error = Toolchain::probe("gcc")
            .and_then(|tools| tools.identity_with(&["no-such-tool".to_string()]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no-such-tool") && error.contains("apt-get install"),
            "{error}"
        );
    }
}
