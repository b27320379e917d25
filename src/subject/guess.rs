//! A first manifest for a source tree, from a look at its files: what builds it, what tests it,
//! which folders hold no functions to ask about. Pure: paths and a few texts in, a manifest's text
//! out. It guesses; what must be looked at is said in comments and notes.

use std::collections::BTreeSet;
use std::fmt::Write;

/// How a tree is built, as far as its files tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildSystem {
    /// A `CMakeLists.txt` at the root.
    Cmake,
    /// A `configure` script at the root.
    Autotools,
    /// Only the sources of a `configure` script.
    AutotoolsSources,
    /// A makefile at the root.
    Make,
}

/// What is known of a tree.
pub struct Tree<'a> {
    /// All files, relative to the root.
    pub paths: &'a BTreeSet<String>,
    /// The text of a file at the root, if it is there.
    pub text: &'a dyn Fn(&str) -> Option<String>,
    /// How many functions the tree defines outside the folders that are left out.
    pub functions: &'a dyn Fn(&[String]) -> usize,
}

/// A manifest's text with what its reader should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guess {
    /// What was found.
    pub system: BuildSystem,
    /// The manifest.
    pub text: String,
    /// What to look at, a sentence each.
    pub notes: Vec<String>,
}

/// A tree in which nothing was recognised.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "no build system was recognised: there is no CMakeLists.txt, configure, configure.ac or makefile \
     at the root of the tree\n  help: name the folder that holds one, or write the manifest by hand \
     (docs/subjects.md)"
)]
pub struct NothingFound;

/// Folders that usually hold no function to ask about.
const ASIDE: [&str; 21] = [
    "bench",
    "benchmark",
    "benchmarks",
    "contrib",
    "demo",
    "demos",
    "doc",
    "docs",
    "example",
    "examples",
    "fuzz",
    "fuzzing",
    "perf",
    "sample",
    "samples",
    "t",
    "test",
    "testing",
    "tests",
    "third_party",
    "vendor",
];

/// Guesses a manifest for the tree; `directory` is how it is named in the manifest.
///
/// # Errors
/// Nothing at the root says how it is built.
pub fn guess(name: &str, directory: &str, tree: &Tree<'_>) -> Result<Guess, NothingFound> {
    let at_root = |file: &str| tree.paths.contains(file);
    let makefile = ["GNUmakefile", "makefile", "Makefile"]
        .into_iter()
        .find(|f| at_root(f));
    let system = if at_root("CMakeLists.txt") {
        BuildSystem::Cmake
    } else if at_root("configure") {
        BuildSystem::Autotools
    } else if at_root("configure.ac") || at_root("configure.in") {
        BuildSystem::AutotoolsSources
    } else if makefile.is_some() {
        BuildSystem::Make
    } else {
        return Err(NothingFound);
    };
    let mut notes = Vec::new();
    let (build, tests) = match system {
        BuildSystem::Cmake => {
            notes.push(
                "the option that builds the tests is often a project's own: see its CMakeLists.txt \
                 for option(...TEST...)"
                    .to_string(),
            );
            let options = cmake_test_options(&(tree.text)("CMakeLists.txt").unwrap_or_default());
            (cmake(&options), ctest())
        }
        BuildSystem::Autotools => (autotools(false), automake()),
        BuildSystem::AutotoolsSources => {
            notes.push("`autoreconf` runs first: it needs autoconf, automake and libtool".into());
            (autotools(true), automake())
        }
        BuildSystem::Make => {
            let text = makefile.and_then(tree.text).unwrap_or_default();
            let target = ["check", "test", "tests"]
                .into_iter()
                .find(|t| has_target(&text, t));
            if target.is_none() {
                notes.push(
                    "the makefile has no target `check` or `test`: write the command that runs \
                     the tests into [[tests.shard]]"
                        .into(),
                );
            }
            notes.push(
                "a makefile that sets CFLAGS by itself may need its flags repeated in `cflags`: what \
                 is given on the command line replaces them"
                    .into(),
            );
            (make(), make_test(target.unwrap_or("test")))
        }
    };
    let aside: Vec<String> = ASIDE
        .iter()
        .filter(|folder| {
            tree.paths
                .iter()
                .any(|p| p.starts_with(&format!("{folder}/")))
        })
        .map(|folder| format!("{folder}/**"))
        .collect();
    let functions = (tree.functions)(&aside);
    if functions == 0 {
        notes.push(
            "no function was found outside the folders that are left out: check `exclude`".into(),
        );
    }
    let mut text = format!(
        "# A first guess, made from the files of the tree. Look at every line that says `check`, then run\n\
         # `everbench subjects check` on this file. docs/subjects.md explains all keys.\n\
         name = {name:?}\n\n[source]\ndirectory = {directory:?}\n"
    );
    let _ = write!(
        text,
        "\n[build]\n{build}cflags = [\"-O0\", \"-g1\"]\n\n\
         [sanitizers]\n\
         cflags = [\"-fsanitize=address,undefined\", \"-fsanitize-recover=address,undefined\", \"-fno-omit-frame-pointer\"]\n\
         ldflags = [\"-fsanitize=address,undefined\", \"-static-libasan\", \"-static-libubsan\"]\n\
         leaks = false\n\n{tests}\n\
         [functions]\nexclude = {}\n\n\
         [scoring]\n\
         # One in a hundred of the {functions} functions found.\n\
         functions-per-iteration = {}\n",
        list(&aside),
        (functions / 100).max(1),
    );
    Ok(Guess {
        system,
        text,
        notes,
    })
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|i| format!("{i:?}")).collect();
    format!("[{}]", items.join(", "))
}

/// Options that look as if they switched tests on.
fn cmake_test_options(text: &str) -> Vec<String> {
    let mut found = vec!["BUILD_TESTING".to_string()];
    for line in text.lines().map(str::trim) {
        let lower = line.to_ascii_lowercase();
        let Some(rest) = lower
            .strip_prefix("option(")
            .map(|_| &line["option(".len()..])
        else {
            continue;
        };
        let name: String = rest
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        let upper = name.to_ascii_uppercase();
        if upper.contains("TEST") && !upper.contains("FUZZ") && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn cmake(options: &[String]) -> String {
    let on: String = options
        .iter()
        .map(|o| format!("    \"-D{o}=ON\", # check\n"))
        .collect();
    format!(
        "configure = [[\n    \"cmake\", \"-S\", \".\", \"-B\", \"build\", \"-DBUILD_SHARED_LIBS=OFF\", \"-DCMAKE_BUILD_TYPE=None\",\n{on}    \
         \"-DCMAKE_C_COMPILER={{cc}}\", \"-DCMAKE_CXX_COMPILER={{cxx}}\", \"-DCMAKE_AR={{ar}}\", \"-DCMAKE_RANLIB={{ranlib}}\",\n    \
         \"-DCMAKE_C_FLAGS={{cflags}}\", \"-DCMAKE_CXX_FLAGS={{cflags}}\", \"-DCMAKE_EXE_LINKER_FLAGS={{ldflags}}\",\n]]\n\
         build = [[\"cmake\", \"--build\", \"build\", \"-j{{jobs}}\"]]\n"
    )
}

fn autotools(generate: bool) -> String {
    let first = if generate {
        "[\"autoreconf\", \"-fi\"], "
    } else {
        ""
    };
    format!(
        "configure = [{first}[\n    \"./configure\", \"--disable-shared\", \"CC={{cc}}\", \"CXX={{cxx}}\", \"AR={{ar}}\", \"RANLIB={{ranlib}}\",\n    \
         \"CFLAGS={{cflags}}\", \"CXXFLAGS={{cflags}}\", \"LDFLAGS={{ldflags}}\",\n]]\n\
         # The second command builds the test programs and runs none.\n\
         build = [[\"make\", \"-j{{jobs}}\"], [\"make\", \"-j{{jobs}}\", \"check\", \"TESTS=\"]]\n"
    )
}

fn make() -> String {
    "build = [[\"make\", \"-j{jobs}\", \"CC={cc}\", \"CXX={cxx}\", \"AR={ar}\", \"RANLIB={ranlib}\", \"CFLAGS={cflags}\", \"LDFLAGS={ldflags}\"]] # check\n".into()
}

fn ctest() -> String {
    "[tests]\nreport = \"stdout\"\nparser = { type = \"ctest\" }\n\n\
     [[tests.shard]]\nname = \"ctest\"\nargv = [\"ctest\", \"--test-dir\", \"build\"]\nwritable = [\"build\"]\ncpu-seconds = 300\nwall-seconds = 600\n"
        .into()
}

fn automake() -> String {
    "[tests]\nreport = \"stdout\"\nparser = { type = \"automake\" }\n\n\
     [[tests.shard]]\nname = \"check\"\nargv = [\"make\", \"check\"]\nwritable = [\".\"]\ncpu-seconds = 300\nwall-seconds = 600\n"
        .into()
}

fn make_test(target: &str) -> String {
    format!(
        "[tests]\nreport = \"stdout\"\n# The whole suite as one case. If it prints a line for each test, `lines` reads them; check.\nparser = {{ type = \"exit\" }}\n\n\
         [[tests.shard]]\nname = {target:?}\nargv = [\"make\", {target:?}]\nwritable = [\".\"]\ncpu-seconds = 300\nwall-seconds = 600\n"
    )
}

/// Whether a makefile has a rule for `target`.
fn has_target(text: &str, target: &str) -> bool {
    text.lines().any(|line| {
        let Some((targets, rest)) = line.split_once(':') else {
            return false;
        };
        !line.starts_with(['\t', ' ', '#', '.'])
            && !rest.starts_with('=')
            && targets.split_whitespace().any(|t| t == target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Manifest;

    fn guessed(files: &[(&str, &str)]) -> Result<Guess, NothingFound> {
        let paths = files.iter().map(|(p, _)| p.to_string()).collect();
        let text = |path: &str| {
            let found = files.iter().find(|(p, _)| *p == path);
            found.map(|(_, t)| t.to_string())
        };
        let functions = |aside: &[String]| 350 - 100 * aside.len();
        let tree = Tree {
            paths: &paths,
            text: &text,
            functions: &functions,
        };
        guess("mylib", "../mylib", &tree)
    }

    #[test]
    fn every_guess_is_a_valid_manifest() {
        let cases: [&[(&str, &str)]; 5] = [
            &[
                (
                    "CMakeLists.txt",
                    "option(MYLIB_BUILD_TESTS \"x\" OFF)\noption(WITH_ZLIB \"\" ON)",
                ),
                ("src/a.c", ""),
                ("tests/t.c", ""),
            ],
            &[("configure", ""), ("a.c", "")],
            &[("configure.ac", ""), ("doc/x", "")],
            &[
                (
                    "Makefile",
                    "all: a\ncheck test: all\n\t./t\nfoo := check:\n",
                ),
                ("t/x.c", ""),
            ],
            &[("makefile", "CHECK:=1\n\tcheck: x\n"), ("a.c", "")],
        ];
        for files in cases {
            let guess = guessed(files).unwrap();
            let manifest = Manifest::parse(&guess.text, "guess")
                .unwrap_or_else(|e| panic!("{e}\n{}", guess.text));
            assert_eq!(manifest.name, "mylib");
        }
    }

    #[test]
    fn what_is_found_is_used() {
        let cmake = guessed(&[
            ("CMakeLists.txt", "  OPTION( MYLIB_BUILD_TESTS \"x\" OFF)\noption(FUZZ_TESTS \"\" ON)\n# option(TEST_X)"),
            ("tests/t.c", ""),
        ])
        .unwrap();
        insta::assert_snapshot!(cmake.text);
        let make = guessed(&[("Makefile", "test: all\n\t./t\n")]).unwrap();
        assert!(make.text.contains("argv = [\"make\", \"test\"]"));
        assert_eq!(make.notes.len(), 1);
        let bare = guessed(&[("makefile", "CHECK:=1\n\tcheck: x\n")]).unwrap();
        assert!(bare.notes[0].contains("no target"));
        assert!(
            guessed(&[("meson.build", "")])
                .unwrap_err()
                .to_string()
                .contains("CMakeLists.txt")
        );
    }
}
