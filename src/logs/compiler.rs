//! The first error in the log of gcc, clang, GNU ld, gold or lld: what a per-function page shows
//! beside a variant that does not compile. Pure; normalised so that two machines show the same:
//! an absolute path keeps its file name only, quotes are ASCII, names of temporary objects go.

use std::sync::LazyLock;

use bstr::ByteSlice;
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

/// Why a build failed first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompilerError {
    /// The source file; `None` where only the linker or the driver spoke.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// The message without place and severity. Linker errors read alike for all linkers:
    /// ``undefined reference to 'f'``, ``multiple definition of 'f'``.
    pub message: String,
}

impl std::fmt::Display for CompilerError {
    /// `file:line:column: message`, as far as they are known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            if let Some(column) = self.column {
                write!(f, "{column}:")?;
            }
            f.write_str(" ")?;
        }
        f.write_str(&self.message)
    }
}

/// The first error in `log`, or `None` if no line of it is one.
///
/// Warnings are no errors unless `-Werror` made them some. A line of make or of collect2 that
/// only says that something failed is returned if nothing better is found.
pub fn first_error(log: &[u8]) -> Option<CompilerError> {
    let mut fallback = None;
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(mut error) = undefined_or_twice(line) {
            if error.file.is_none()
                && let Some(next) = lines.peek()
            {
                // lld names the place on a line of its own.
                (error.file, error.line) = referenced_by(next);
            }
            return Some(error);
        }
        if let Some(error) = compiler(line).or_else(|| driver(line)) {
            return Some(error);
        }
        fallback = fallback.or_else(|| gave_up(line));
    }
    fallback
}

/// `a.c:3:9: error: ...`, `a.c:3: fatal error: ...`; the assembler's `a.c:3: Error: ...`
fn compiler(line: &[u8]) -> Option<CompilerError> {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^\s*([^:]+):(\d{1,9}):(?:(\d{1,9}):)? (?:(?:fatal )?error|(?:Fatal e|E)rror): (.+)$",
        )
    });
    let found = LINE.captures(line)?;
    Some(CompilerError {
        file: Some(file(&found[1])),
        line: number(&found[2]),
        column: found.get(3).and_then(|m| number(m.as_bytes())),
        message: message(&found[4]),
    })
}

/// ``ld: a.c:3: undefined reference to `f'``, `ld.lld: error: duplicate symbol: f`, ...
fn undefined_or_twice(line: &[u8]) -> Option<CompilerError> {
    static GNU: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?:^|[ /])(?:(?:[\w./+-]*ld(?:\.\w+)?): )?([^ ]*?):?(?:(\d{1,9})|\(\.[^)]*\)): (?:error: )?(undefined reference to|multiple definition of) .?.?.?[`'](.+?)'",
        )
    });
    static LLD: LazyLock<Regex> =
        LazyLock::new(|| regex(r"lld[\w.-]*: error: (undefined|duplicate)(?: \w+)? symbol: (.+)$"));
    if let Some(found) = LLD.captures(line) {
        let what = match &found[1] {
            b"undefined" => "undefined reference to",
            _ => "multiple definition of",
        };
        return Some(CompilerError {
            file: None,
            line: None,
            column: None,
            message: format!("{what} '{}'", text(&found[2])),
        });
    }
    let ascii = text(line);
    let found = GNU.captures(ascii.as_bytes())?;
    let place = &found[1];
    let object = place.ends_with(b".o") || place.is_empty();
    Some(CompilerError {
        file: (!object).then(|| file(place)),
        line: found.get(2).and_then(|m| number(m.as_bytes())),
        column: None,
        message: format!("{} '{}'", text(&found[3]), text(&found[4])),
    })
}

/// `>>> referenced by a.c:3`, `>>> defined at a.c:3`
fn referenced_by(line: &[u8]) -> (Option<String>, Option<u32>) {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| regex(r"^>>> (?:referenced by|defined at) ([^:]+\.\w+)(?::(\d{1,9}))?"));
    let Some(found) = LINE.captures(line) else {
        return (None, None);
    };
    (
        Some(file(&found[1])).filter(|f| !f.ends_with(".o")),
        found.get(2).and_then(|m| number(m.as_bytes())),
    )
}

/// `cc1: error: ...`, `clang: error: ...`, `gcc: fatal error: ...`, `/usr/bin/ld: cannot find -lx`
fn driver(line: &[u8]) -> Option<CompilerError> {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^(?:[^ :]*/)?(?:[\w+.-]*(?:gcc|g\+\+|clang|clang\+\+|cc|cc1|c\+\+|lld|as|Assembler messages)(?:-\d+)?): (?:internal compiler |fatal )?error: (.+)$|^(?:[^ :]*/)?[\w-]*ld(?:\.\w+)?: (?:error: )?(cannot find .+|final link failed.*|unrecognized option .+)$",
        )
    });
    let found = LINE.captures(line)?;
    let said = found.get(1).or_else(|| found.get(2))?.as_bytes();
    // `linker command failed` only says that what follows or went before is the reason.
    if said.contains_str("linker command failed") {
        return None;
    }
    Some(place_unknown(said))
}

/// What is said when something failed elsewhere.
fn gave_up(line: &[u8]) -> Option<CompilerError> {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^(?:collect2: error: |clang[\w.+-]*: error: |g?make(?:\[\d+\])?: \*\*\* |ninja: )(.+)$",
        )
    });
    LINE.captures(line).map(|found| place_unknown(&found[1]))
}

fn place_unknown(said: &[u8]) -> CompilerError {
    CompilerError {
        file: None,
        line: None,
        column: None,
        message: message(said),
    }
}

/// A relative path as it is, of an absolute one the file's name.
fn file(path: &[u8]) -> String {
    let path = text(path.trim_ascii());
    match path.strip_prefix('/') {
        Some(rest) => rest.rsplit('/').next().unwrap_or(rest).to_string(),
        None => path.trim_start_matches("./").to_string(),
    }
}

/// A message with absolute paths shortened as [`file`] does.
fn message(said: &[u8]) -> String {
    static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r"(^|[ '(])/[^ ':)]+/([^ '/:)]+)"));
    let said = text(said.trim_ascii());
    let short = PATH.replace_all(said.as_bytes(), &b"$1$2"[..]);
    text(&short)
}

/// With ASCII quotes.
fn text(bytes: &[u8]) -> String {
    bytes.to_str_lossy().replace(['\u{2018}', '\u{2019}'], "'")
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.to_str().ok()?.parse().ok()
}

fn regex(pattern: &str) -> Regex {
    super::sanitizer::kind::bytes_regex(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn shown(error: Option<CompilerError>) -> String {
        let Some(e) = error else {
            return "no error".into();
        };
        format!(
            "{}:{}:{} {}",
            e.file.as_deref().unwrap_or("-"),
            e.line.map_or("-".into(), |n| n.to_string()),
            e.column.map_or("-".into(), |n| n.to_string()),
            e.message
        )
    }

    fn gcc(files: &[(&str, &str)], args: &[&str]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let sources = files.iter().filter(|(n, _)| n.ends_with(".c"));
        // An absolute path for every source: none may reach the result.
        let out = Command::new("gcc")
            .args(args)
            .args(sources.map(|(n, _)| dir.path().join(n)))
            .args(["-o", "program"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(!out.status.success());
        shown(first_error(&out.stderr))
    }

    #[test]
    fn what_gcc_and_ld_say_here_and_now() {
        let main = "int f(void);\nint main(void) { return f(); }\n";
        for (files, args, expected) in [
            (
                vec![("a.c", "int main(void) {\n    return x;\n}\n")],
                vec![],
                "a.c:2:12 'x' undeclared (first use in this function)",
            ),
            (
                vec![("a.c", "#include \"gone.h\"\n")],
                vec![],
                "a.c:1:10 gone.h: No such file or directory",
            ),
            (
                vec![("a.c", "int main(void) { int x; return 0; }\n")],
                vec!["-Wall", "-Werror"],
                "a.c:1:22 unused variable 'x' [-Werror=unused-variable]",
            ),
            (
                vec![("a.c", "int main(void) { int *p = 3; return y }\n")],
                vec![],
                "a.c:1:37 'y' undeclared (first use in this function)",
            ),
            (
                vec![("a.c", main)],
                vec!["-g"],
                "a.c:2:- undefined reference to 'f'",
            ),
            (
                vec![("a.c", main)],
                vec![],
                "a.c:-:- undefined reference to 'f'",
            ),
            (
                vec![
                    ("a.c", main),
                    ("b.c", "int f(void) { return 1; }\n"),
                    ("c.c", "int f(void) { return 2; }\n"),
                ],
                vec!["-g"],
                "c.c:1:- multiple definition of 'f'",
            ),
            (
                vec![("a.c", "int main(void) { return 0; }\n")],
                vec!["-qqzzyyxx"],
                "-:-:- unrecognized command-line option '-qqzzyyxx'",
            ),
            (
                vec![("a.c", "int main(void) { return 0; }\n")],
                vec!["-lnosuchlib"],
                "-:-:- cannot find -lnosuchlib: No such file or directory",
            ),
        ] {
            assert_eq!(gcc(&files, &args), expected, "{files:?} {args:?}");
        }
    }

    #[test]
    fn other_tools_and_the_order_of_lines() {
        for (log, expected) in [
            (
                "src/a.c: In function ‘f’:\nsrc/a.c:4:2: warning: unused variable ‘q’\nsrc/a.c:5:2: error: expected ‘;’ before ‘}’ token\nsrc/a.c:9:1: error: later\n",
                "src/a.c:5:2 expected ';' before '}' token",
            ),
            (
                "ld.lld: error: undefined symbol: helper\n>>> referenced by parse.c:12 (/build/x/parse.c:12)\nclang: error: linker command failed with exit code 1\n",
                "parse.c:12:- undefined reference to 'helper'",
            ),
            (
                "src/a.c: Assembler messages:\nsrc/a.c:29: Error: no such instruction: `bogus'\n",
                "src/a.c:29:- no such instruction: `bogus'",
            ),
            (
                "ld.lld: error: duplicate symbol: helper\n>>> defined at a.c:1\n",
                "a.c:1:- multiple definition of 'helper'",
            ),
            (
                "/usr/bin/ld: /tmp/ccAbCdEf.o: in function `main':\n/build/a.c:(.text+0x9): undefined reference to `g'\ncollect2: error: ld returned 1 exit status\n",
                "a.c:-:- undefined reference to 'g'",
            ),
            (
                "/usr/bin/ld: /tmp/ccAbCdEf.o:(.data+0x0): multiple definition of `g'; /tmp/ccXyZ.o:(.data+0x0): first defined here\n",
                "-:-:- multiple definition of 'g'",
            ),
            (
                "/usr/bin/ld: b.o: in function `g':\nb.c:1: multiple definition of `g'; a.o:a.c:1: first defined here\r\n",
                "b.c:1:- multiple definition of 'g'",
            ),
            (
                "make[2]: *** [Makefile:7: all] Error 2\n",
                "-:-:- [Makefile:7: all] Error 2",
            ),
            (
                "make: nothing to do\nno errors: 0\nerror: not ours\n",
                "no error",
            ),
        ] {
            assert_eq!(shown(first_error(log.as_bytes())), expected, "{log}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = first_error(&bytes);
        }

        #[test]
        fn lines_of_the_subject_before_the_error_do_not_hide_it(
            noise in prop::collection::vec("[ -~]{0,30}", 0..10)
        ) {
            let noise: Vec<_> = noise.into_iter()
                .filter(|l| !l.to_lowercase().contains("error") && !l.contains("undefined") && !l.contains("make") && !l.contains("ninja"))
                .collect();
            let log = format!("{}\nx/a.c:7:3: error: 'q' undeclared\n", noise.join("\n"));
            let error = first_error(log.as_bytes()).unwrap();
            prop_assert_eq!((error.file.as_deref(), error.line), (Some("x/a.c"), Some(7)));
        }
    }
}
