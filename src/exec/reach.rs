//! Which functions of the programs that a run opened it entered, as `reach.h` has noted it: one bit
//! for every 16 bytes of a program's code. Functions are told by their names in the program's
//! symbol table; several of one name all count as entered when one is, and so do two that start
//! within the same 16 bytes.

use std::collections::BTreeSet;
use std::path::Path;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSymbol, SymbolKind};

use super::Collected;
use crate::digest::Digest;
use crate::oss::layout::{REACH_FILE, TREE};
use crate::oss::reach;

/// What every program and library has that notes what is entered.
const HOOK: &[u8] = b"everbench_reach_bits";

/// What a run entered.
#[derive(Default)]
pub struct Entered {
    /// For each program or library that notes it, a name for what was opened; see `oss::reach`.
    pub names: BTreeSet<String>,
    /// The lists behind the names.
    pub lists: Vec<Vec<u8>>,
}

/// Reads what was noted of the files `opened`; `host` says where each lies.
pub fn entered<'a>(
    opened: impl Iterator<Item = &'a String>,
    collected: &[Collected],
    host: impl Fn(&str) -> std::path::PathBuf,
) -> Entered {
    let mut all = Entered::default();
    for path in opened.filter(|path| !path.ends_with('/')) {
        let Some(program) = Program::read(&host(path)) else {
            continue;
        };
        let noted = file_of(path);
        let noted = collected.iter().find(|c| c.path == Path::new(&noted));
        let list = match noted.map(|c| &c.content) {
            Some(Ok(bits)) => Some(program.entered(bits)),
            // It was opened and has noted nothing: run without a folder to note in, or only read.
            Some(Err(_)) | None => None,
        };
        match list {
            Some(list) => {
                let list = list.into_iter().collect::<Vec<_>>().join("\n").into_bytes();
                all.names.insert(reach::entry(path, &Digest::of(&list)));
                all.lists.push(list);
            }
            None => {
                all.names.insert(reach::whole(path));
            }
        }
    }
    all
}

/// The file in which a program of the tree notes.
fn file_of(path: &str) -> String {
    let full = format!("{TREE}/{path}");
    let hash = full.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{REACH_FILE}{hash:016x}")
}

/// A program's functions by the place of their bits.
struct Program {
    functions: Vec<(u64, String)>,
}

impl Program {
    /// Nothing for a file that is no program, or that notes nothing.
    fn read(path: &Path) -> Option<Program> {
        use std::io::Read;
        let mut file = std::fs::File::open(path).ok()?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic).ok()?;
        if magic != *b"\x7fELF" {
            return None;
        }
        let mut bytes = magic.to_vec();
        file.read_to_end(&mut bytes).ok()?;
        Program::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Option<Program> {
        let elf = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let endian = elf.endian();
        let loads = elf.elf_program_headers().iter();
        let loads = loads.filter(|h| h.p_type(endian) == object::elf::PT_LOAD);
        let first = loads.min_by_key(|h| h.p_vaddr(endian))?;
        let base = first.p_vaddr(endian) - first.p_offset(endian);
        let mut hooked = false;
        let mut functions = Vec::new();
        for symbol in elf.symbols() {
            let Ok(name) = symbol.name_bytes() else {
                continue;
            };
            hooked |= name == HOOK;
            if symbol.kind() == SymbolKind::Text && symbol.is_definition() {
                let place = symbol.address().checked_sub(base)? >> 4;
                // What a compiler has split off or copied is the function's too.
                let name = String::from_utf8_lossy(name);
                let name = name.split('.').next().unwrap_or_default();
                functions.push((place, name.to_string()));
            }
        }
        hooked.then_some(Program { functions })
    }

    fn entered(&self, bits: &[u8]) -> BTreeSet<String> {
        let is_set = |place: u64| {
            let byte = usize::try_from(place >> 3).ok().and_then(|at| bits.get(at));
            byte.is_some_and(|byte| byte >> (place & 7) & 1 == 1)
        };
        let entered = self.functions.iter().filter(|(place, _)| is_set(*place));
        entered.map(|(_, name)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;
    use crate::subject::REACH_HEADER;

    const PROGRAM: &str = "#include <stdio.h>\n#include <unistd.h>\n#include <sys/wait.h>\n\
        static int f(int x) { return x + 1; }\n\
        static int g(int x) { return x * 2; }\n\
        int in_child(int x) { return x - 1; }\n\
        int before_the_crash(int *x) { return *x; }\n\
        int never(int x) { return g(x); }\n\
        __attribute__((constructor)) static void at_start(void) { }\n\
        int main(int c, char **v) {\n\
            if (fork() == 0) { _exit(in_child(c)); }\n\
            wait(NULL);\n\
            if (c > 5) return never(c);\n\
            return f(c) + (c > 1 ? before_the_crash(NULL) : 0);\n\
        }\n";

    /// Compiles the program with the header, its folder and its files moved to `dir`.
    fn built(dir: &Path, cc: &str, flags: &[&str]) -> PathBuf {
        let header = REACH_HEADER
            .replace("/tmp/everbench-reach", &format!("{}/on", dir.display()))
            .replace("\"/tmp/reach.", &format!("\"{}/r.", dir.display()))
            .replace(
                "name[11 + i]",
                &format!("name[{} + i]", dir.as_os_str().len() + 3),
            );
        std::fs::write(dir.join("reach.h"), header).unwrap();
        std::fs::write(dir.join("p.c"), PROGRAM).unwrap();
        let program = dir.join("p");
        let status = Command::new(cc)
            .args(["-O0", "-finstrument-functions", "-include"])
            .arg(dir.join("reach.h"))
            .args(flags)
            .arg(dir.join("p.c"))
            .arg("-o")
            .arg(&program)
            .status()
            .unwrap();
        assert!(status.success(), "{cc} {flags:?}");
        program
    }

    fn noted(dir: &Path) -> Option<Vec<u8>> {
        let mut files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let file = files.find(|p| p.file_name().unwrap().to_string_lossy().starts_with("r."))?;
        let bits = std::fs::read(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        Some(bits)
    }

    #[test]
    fn what_is_entered_is_noted_by_every_process_even_before_a_crash() {
        let sanitizers = [
            "-fsanitize=address,undefined",
            "-fsanitize-recover=address,undefined",
        ];
        let strict = [
            "-std=c99",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic-errors",
            "-Wno-unused-parameter",
        ];
        for (cc, flags) in [
            ("gcc", &strict[..]),
            ("gcc", &sanitizers),
            ("clang", &sanitizers),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = built(dir.path(), cc, flags);
            let program = Program::read(&path).expect("it notes");
            Command::new(&path).status().unwrap();
            assert_eq!(
                noted(dir.path()),
                None,
                "without the folder nothing is written"
            );
            std::fs::create_dir(dir.path().join("on")).unwrap();
            let entered = |args: &[&str]| {
                Command::new(&path).args(args).output().unwrap();
                let entered = program.entered(&noted(dir.path()).expect("it has noted"));
                entered.into_iter().collect::<Vec<_>>()
            };
            let calm = ["at_start", "f", "in_child", "main"];
            assert_eq!(entered(&[]), calm, "{cc}");
            let crash = ["at_start", "before_the_crash", "f", "in_child", "main"];
            assert_eq!(entered(&["1"]), crash, "{cc}");
            let other = ["at_start", "g", "in_child", "main", "never"];
            assert_eq!(entered(&["1", "2", "3", "4", "5"]), other, "{cc}");
        }
    }

    #[test]
    fn a_program_without_the_header_notes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("p.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let program = dir.path().join("p");
        let status = Command::new("gcc")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status();
        assert!(status.unwrap().success());
        assert!(Program::read(&program).is_none());
        assert!(Program::read(&source).is_none());
    }

    #[test]
    fn a_program_that_notes_and_has_noted_nothing_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = built(dir.path(), "gcc", &[]);
        let opened = BTreeSet::from(["p".to_string(), "p.c".to_string(), "sub/".to_string()]);
        let host = |name: &str| path.with_file_name(name);
        let found = entered(opened.iter(), &[], host);
        assert_eq!(found.names, BTreeSet::from([reach::whole("p")]));
        let noted = Collected {
            path: file_of("p").into(),
            content: Ok(vec![0xff; 1 << 16]),
        };
        let found = entered(opened.iter(), &[noted], host);
        assert_eq!(found.lists.len(), 1);
        let name = reach::entry("p", &Digest::of(&found.lists[0]));
        assert_eq!(found.names, BTreeSet::from([name]));
    }
}
