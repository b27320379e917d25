//! A first manifest for a source tree, from a look at its files: what builds it, what tests it,
//! which folders hold no functions to ask about. Pure: paths and a few texts in, a manifest's text
//! out. It guesses; what must be looked at is said in comments and notes.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::lang::LanguageId;

mod cmake;

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
    /// The text of a file, if it is there.
    pub text: &'a dyn Fn(&str) -> Option<String>,
    /// How many functions the tree defines outside the folders that are left out.
    pub functions: &'a dyn Fn(&[String]) -> usize,
    /// The Debian source package that the tree is, or is in.
    pub debian: Option<Debian>,
}

/// A Debian source package, as its changelog names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Debian {
    /// The package.
    pub name: String,
    /// The version.
    pub version: String,
    /// Where in the package the tree lies; empty if it is all of it.
    pub inside: String,
}

impl Debian {
    /// Reads the text of a `debian/changelog`: `name (version) distribution; urgency=low`.
    pub fn of_changelog(text: &str, inside: &str) -> Option<Debian> {
        let (name, rest) = text.lines().next()?.split_once(" (")?;
        let (version, _) = rest.split_once(')')?;
        let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| " \"\\".contains(c));
        (plain(name) && plain(version)).then(|| Debian {
            name: name.into(),
            version: version.into(),
            inside: inside.into(),
        })
    }
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
     at the root of the tree\n  help: {}", self.help()
)]
pub struct NothingFound {
    /// Folders that have what the root lacks, the nearest to it.
    pub inside: Vec<String>,
}

impl NothingFound {
    fn help(&self) -> String {
        let by_hand = "write the manifest by hand (docs/subjects.md)";
        let Some(first) = self.inside.first() else {
            return format!("name the folder that holds one, or {by_hand}");
        };
        let some: Vec<String> = self
            .inside
            .iter()
            .take(8)
            .map(|f| format!("`{f}`"))
            .collect();
        let more = match self.inside.len() - some.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        format!(
            "there is one in {}{more}: give that folder instead, and if the source is to be a package, \
             an archive or a repository, `path-inside = {first:?}` makes it the root; or {by_hand}",
            some.join(", ")
        )
    }
}

/// What says at the root of a tree how it is built, the first that is there counting.
const SYSTEMS: [(&str, BuildSystem); 7] = [
    ("CMakeLists.txt", BuildSystem::Cmake),
    ("configure", BuildSystem::Autotools),
    ("configure.ac", BuildSystem::AutotoolsSources),
    ("configure.in", BuildSystem::AutotoolsSources),
    ("GNUmakefile", BuildSystem::Make),
    ("makefile", BuildSystem::Make),
    ("Makefile", BuildSystem::Make),
];

/// Words in the names of folders that usually hold no function to ask about.
const ASIDE: [&str; 32] = [
    "bench",
    "benches",
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
    "fuzzer",
    "fuzzers",
    "fuzzing",
    "perf",
    "sample",
    "samples",
    "test",
    "testcase",
    "testcases",
    "testing",
    "tests",
    "testsuite",
    "thirdparty",
    "3rdparty",
    "unittest",
    "unittests",
    "vendor",
    "vendored",
    "wrapper",
    "wrappers",
];

/// Names of such folders that only count as a whole, and at the root.
const ASIDE_AT_ROOT: [&str; 2] = ["t", "third_party"];

/// Where `dpkg-source` keeps the files that patches changed, as they were before.
const UNPATCHED: &str = ".pc";

/// Guesses a manifest for the tree; `directory` is how it is named in the manifest.
///
/// # Errors
/// Nothing at the root says how it is built.
pub fn guess(name: &str, directory: &str, tree: &Tree<'_>) -> Result<Guess, NothingFound> {
    let at_root = |(file, _): &&(&str, BuildSystem)| tree.paths.contains(*file);
    let Some((file, system)) = SYSTEMS.iter().find(at_root) else {
        return Err(NothingFound {
            inside: built_inside(tree.paths),
        });
    };
    let mut notes = Vec::new();
    let (build, tests) = match *system {
        BuildSystem::Cmake => {
            notes.push(
                "the option that builds the tests is often a project's own: see its CMakeLists.txt \
                 for option(...TEST...)"
                    .to_string(),
            );
            let found = cmake_files(tree);
            if !found.ctest {
                notes.push("no CMake file adds tests for ctest: see [tests]".into());
            }
            (found.build(), found.suite())
        }
        BuildSystem::Autotools => (autotools(false), automake()),
        BuildSystem::AutotoolsSources => {
            notes.push("`autoreconf` runs first: it needs autoconf, automake and libtool".into());
            (autotools(true), automake())
        }
        BuildSystem::Make => {
            let text = (tree.text)(file).unwrap_or_default();
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
    let aside = aside(tree.paths);
    let unpatched = below(tree.paths, UNPATCHED).then(|| format!("{UNPATCHED}/**"));
    let uncounted: Vec<String> = aside.iter().cloned().chain(unpatched).collect();
    let functions = (tree.functions)(&uncounted);
    if functions == 0 {
        notes.push(
            "no function was found outside the folders that are left out: check `exclude`".into(),
        );
    }
    let mut text = format!(
        "# A first guess, made from the files of the tree. Look at every line that says `check`, then run\n\
         # `everbench subjects check` on this file. docs/subjects.md explains all keys.\n\
         name = {name:?}\n\n{}",
        source(directory, tree)
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
        system: *system,
        text,
        notes,
    })
}

/// The table of the source, with what may take the directory's place.
fn source(directory: &str, tree: &Tree<'_>) -> String {
    let mut text = format!("[source]\ndirectory = {directory:?}\n");
    if below(tree.paths, UNPATCHED) {
        let _ = writeln!(
            text,
            "# Files as they were before Debian's patches.\nignore = [{UNPATCHED:?}]"
        );
    }
    match &tree.debian {
        Some(debian) => {
            let _ = write!(
                text,
                "# The same from Debian's archive, which others can fetch as well; in place of the lines above:\n\
                 # debian = {:?}\n# version = {:?}\n",
                debian.name, debian.version
            );
            if !debian.inside.is_empty() {
                let _ = writeln!(text, "# path-inside = {:?}", debian.inside);
            }
        }
        None => text.push_str(
            "# Others can fetch a package, an archive or a commit as well. In place of `directory`: `debian`\n\
             # with `version`, or `tarball`, `git`, `sdist`, `crate`; if this is a folder of it, with `path-inside`.\n",
        ),
    }
    text
}

/// Whether there is a file below a folder.
fn below(paths: &BTreeSet<String>, folder: &str) -> bool {
    let prefix = format!("{folder}/");
    let first = paths.range(prefix.clone()..).next();
    first.is_some_and(|path| path.starts_with(&prefix))
}

/// What the CMake files say, less those of folders that hold other projects.
fn cmake_files(tree: &Tree<'_>) -> cmake::Found {
    let others = ["contrib", "thirdparty", "3rdparty", "vendor", "vendored"];
    let own = |path: &&String| {
        let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folders = folders.split('/');
        let other = |f: &str| {
            let mut words = words(f).into_iter();
            f.starts_with('.') || f == "third_party" || words.any(|w| others.contains(&w.as_str()))
        };
        (file == "CMakeLists.txt" || file.ends_with(".cmake")) && !folders.any(other)
    };
    let mut paths: Vec<&String> = tree.paths.iter().filter(own).collect();
    paths.sort_by_key(|path| (path.matches('/').count(), *path));
    let texts: Vec<String> = paths.iter().filter_map(|path| (tree.text)(path)).collect();
    cmake::read(texts.iter().map(String::as_str))
}

/// The words of a folder's or a target's name, in lower case.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.map(str::to_ascii_lowercase).collect()
}

fn is_aside(folder: &str) -> bool {
    words(folder).iter().any(|w| ASIDE.contains(&w.as_str()))
}

/// Patterns of the folders that hold no function to ask about: those at the root by their name
/// alone, further down those that hold something to be found.
fn aside(paths: &BTreeSet<String>) -> Vec<String> {
    let mut found = BTreeSet::new();
    for path in paths {
        let folders: Vec<&str> = path.split('/').collect();
        let folders = &folders[..folders.len() - 1];
        let Some(first) = folders.first().filter(|f| !f.starts_with('.')) else {
            continue;
        };
        if ASIDE_AT_ROOT.contains(first) {
            found.insert(first.to_string());
        } else if let Some(depth) = folders.iter().position(|f| is_aside(f))
            && (depth == 0 || LanguageId::of_path(path).is_some())
        {
            found.insert(folders[..=depth].join("/"));
        }
    }
    // One pattern for a name that is in many places, as with a folder of tests for each module.
    let name = |folder: &String| folder.rsplit('/').next().unwrap_or_default().to_string();
    let many = |folder: &String| {
        let same = found
            .iter()
            .filter(|f| name(f) == name(folder) && f.contains('/'));
        folder.contains('/') && same.count() > 2
    };
    let patterns = found.iter().map(|folder| match many(folder) {
        true => format!("**/{}/**", name(folder)),
        false => format!("{folder}/**"),
    });
    let patterns: BTreeSet<String> = patterns.collect();
    patterns.into_iter().collect()
}

/// The folders nearest to the root that say how they are built.
fn built_inside(paths: &BTreeSet<String>) -> Vec<String> {
    let folders = paths.iter().filter_map(|path| path.rsplit_once('/'));
    let folders: BTreeSet<&str> = folders
        .filter(|(_, file)| SYSTEMS.iter().any(|(system, _)| file == system))
        .map(|(folder, _)| folder)
        .filter(|folder| !folder.split('/').any(|f| f.starts_with('.') || is_aside(f)))
        .collect();
    let depth = |folder: &&str| folder.matches('/').count();
    let nearest = folders.iter().map(depth).min();
    let nearest = folders.iter().filter(|f| Some(depth(f)) == nearest);
    nearest.map(ToString::to_string).collect()
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|i| format!("{i:?}")).collect();
    format!("[{}]", items.join(", "))
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
#[path = "guess_tests.rs"]
mod tests;
