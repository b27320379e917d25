//! What of a recorded command libclang is given, and what is left out and told.

use super::Libclang;
use crate::exec::commands;

impl Libclang {
    /// Arguments for a recorded command's unit, and the flags that were left out.
    pub(super) fn args(
        &self,
        tool: &str,
        argv: &[String],
        source: &str,
    ) -> (Vec<String>, Vec<String>) {
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
        } else if commands::takes_value("cc", arg) {
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
}
