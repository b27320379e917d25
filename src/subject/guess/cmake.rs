//! What the CMake files of a tree say of tests and shared libraries. They are read, not run: a
//! variable that CMake itself puts together stays unknown.

use std::fmt::Write;

/// What was found in all CMake files of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    /// Options that look as if they switched tests on.
    pub(super) tests: Vec<String>,
    /// Options that look as if they built a shared library, each with what switches it off.
    pub(super) shared: Vec<(String, &'static str)>,
    /// Libraries that are shared whatever the options say.
    pub(super) always_shared: Vec<String>,
    /// Whether anything is there for `ctest`.
    pub(super) ctest: bool,
    /// Targets whose name looks like a suite's, each with the command it runs.
    pub(super) targets: Vec<(String, String)>,
}

/// Reads CMake files, the root's first.
pub(super) fn read<'a>(texts: impl Iterator<Item = &'a str>) -> Found {
    let mut found = Found::default();
    let mut plain_tests = false;
    for text in texts {
        plain_tests |= text.contains("BUILD_TESTING");
        for (command, arguments) in commands(text) {
            found.command(&command, &arguments);
        }
    }
    // CTest's own switch: unknown where neither CTest nor the project asks for it.
    if (found.ctest || plain_tests) && !found.tests.iter().any(|t| t == "BUILD_TESTING") {
        found.tests.insert(0, "BUILD_TESTING".into());
    }
    found
}

impl Found {
    fn command(&mut self, command: &str, arguments: &[String]) {
        let Some(first) = arguments.first() else {
            self.ctest |= command == "enable_testing";
            return;
        };
        match command {
            "enable_testing" | "add_test" => self.ctest = true,
            "include" => self.ctest |= first == "CTest",
            "add_library" => {
                let shared = arguments.get(1).is_some_and(|kind| kind == "SHARED")
                    && !arguments.iter().any(|word| word == "IMPORTED");
                if shared && !self.always_shared.contains(first) {
                    self.always_shared.push(first.clone());
                }
            }
            "add_custom_target" => {
                let suite = super::words(first)
                    .iter()
                    .any(|word| matches!(word.as_str(), "check" | "test" | "tests"));
                if suite {
                    let words = arguments[1..]
                        .iter()
                        .skip_while(|word| matches!(word.as_str(), "ALL" | "COMMAND"));
                    let words = words.take_while(|word| !KEYWORDS.contains(&word.as_str()));
                    let command: Vec<&str> = words.map(String::as_str).collect();
                    self.targets.push((first.clone(), command.join(" ")));
                }
            }
            // `gtest_discover_tests` and its like call `add_test`.
            _ if command.ends_with("discover_tests") || command == "gtest_add_tests" => {
                self.ctest = true;
            }
            _ => self.option(command, first, arguments),
        }
    }

    /// Notes what may be a switch: an `option`, or a variable of the cache, also one that a macro of
    /// the project's own sets.
    fn option(&mut self, command: &str, name: &str, arguments: &[String]) {
        let mut pairs = arguments.windows(2);
        let switch = matches!(command, "option" | "cmake_dependent_option")
            || pairs.any(|pair| pair[0] == "CACHE" && pair[1] == "BOOL");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !switch || !name.chars().all(plain) || name.starts_with("CMAKE_") {
            return;
        }
        let upper = name.to_ascii_uppercase();
        let words: Vec<&str> = upper.split('_').collect();
        let negated = ["NO", "DISABLE", "WITHOUT", "SKIP"];
        let negated = words.iter().any(|word| negated.contains(word));
        if upper.contains("SHARED") {
            let known = name == "BUILD_SHARED_LIBS" || self.shared.iter().any(|(n, _)| n == name);
            if !known {
                let off = if negated { "ON" } else { "OFF" };
                self.shared.push((name.to_string(), off));
            }
        } else if upper.contains("TEST")
            && !upper.contains("FUZZ")
            && !negated
            && !self.tests.iter().any(|t| t == name)
        {
            self.tests.push(name.to_string());
        }
    }

    /// The lines of `[build]`.
    pub(super) fn build(&self) -> String {
        let mut options = String::new();
        for (name, off) in &self.shared {
            let _ = writeln!(
                options,
                "    \"-D{name}={off}\", # check: no shared library"
            );
        }
        for name in &self.tests {
            let _ = writeln!(options, "    \"-D{name}=ON\", # check");
        }
        // Where there is an option it is taken to be what turns them off.
        let always = match self.always_shared.as_slice() {
            names if !names.is_empty() && self.shared.is_empty() => format!(
                "# Shared as the CMake files have it: {}; check that tests use programs linked with a static\n\
                 # library: a sanitized program cannot use a shared one of the tree.\n",
                names.join(", ")
            ),
            _ => String::new(),
        };
        format!(
            "{always}configure = [[\n    \"cmake\", \"-S\", \".\", \"-B\", \"build\", \"-DBUILD_SHARED_LIBS=OFF\", \"-DCMAKE_BUILD_TYPE=None\",\n{options}    \
             \"-DCMAKE_C_COMPILER={{cc}}\", \"-DCMAKE_CXX_COMPILER={{cxx}}\", \"-DCMAKE_AR={{ar}}\", \"-DCMAKE_RANLIB={{ranlib}}\",\n    \
             \"-DCMAKE_C_FLAGS={{cflags}}\", \"-DCMAKE_CXX_FLAGS={{cflags}}\", \"-DCMAKE_EXE_LINKER_FLAGS={{ldflags}}\",\n]]\n\
             build = [[\"cmake\", \"--build\", \"build\", \"-j{{jobs}}\"]]\n"
        )
    }

    /// The tables of `[tests]`.
    pub(super) fn suite(&self) -> String {
        if self.ctest {
            return "[tests]\nreport = \"stdout\"\nparser = { type = \"ctest\" }\n\n\
                 [[tests.shard]]\nname = \"ctest\"\nargv = [\"ctest\", \"--test-dir\", \"build\"]\nwritable = [\"build\"]\ncpu-seconds = 300\nwall-seconds = 600\n"
                .into();
        }
        let mut said = String::from(
            "# No CMake file has enable_testing, include(CTest) or add_test: there is nothing for ctest.\n",
        );
        let argv = match self.targets.first() {
            None => {
                said.push_str(
                    "# Nor does a custom target look like a suite. Name the test program; check.\n",
                );
                "[\"build/test\"]".to_string()
            }
            Some((first, _)) => {
                said.push_str("# Custom targets that look like a suite, with what they run:\n");
                for (name, command) in &self.targets {
                    let _ = writeln!(said, "#   {name}: {command}");
                }
                said.push_str(
                    "# Better name that command itself than the target, and a parser for its lines; check.\n",
                );
                format!("[\"cmake\", \"--build\", \"build\", \"--target\", {first:?}]")
            }
        };
        format!(
            "[tests]\n{said}report = \"stdout\"\nparser = {{ type = \"exit\" }}\n\n\
             [[tests.shard]]\nname = \"suite\"\nargv = {argv} # check\nwritable = [\"build\"]\ncpu-seconds = 300\nwall-seconds = 600\n"
        )
    }
}

/// What ends the first command of a custom target.
const KEYWORDS: [&str; 8] = [
    "COMMAND",
    "DEPENDS",
    "BYPRODUCTS",
    "WORKING_DIRECTORY",
    "COMMENT",
    "VERBATIM",
    "USES_TERMINAL",
    "SOURCES",
];

/// The commands of a CMake file, names in lower case, with their arguments as they are written, less
/// quotes.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut rest = text;
    // The word before a parenthesis, the words inside, and how many parentheses are open.
    let (mut word, mut inside, mut depth) = (String::new(), Vec::new(), 0u32);
    let mut name = String::new();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '#' => {
                rest = match bracket(rest) {
                    Some((_, after)) => after,
                    None => rest.split_once('\n').map_or("", |(_, after)| after),
                };
                end(&mut word, depth, &mut inside);
            }
            '"' => {
                let mut escaped = false;
                let close = rest.find(|c| {
                    let closes = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    closes
                });
                let (quoted, after) = rest.split_at(close.unwrap_or(rest.len()));
                word.push_str(quoted);
                rest = after.strip_prefix('"').unwrap_or_default();
                // An empty string is an argument too.
                inside.extend((depth > 0).then(|| std::mem::take(&mut word)));
            }
            '[' if bracket(&text[text.len() - rest.len() - 1..]).is_some() => {
                let whole = &text[text.len() - rest.len() - 1..];
                let (quoted, after) = bracket(whole).unwrap_or_default();
                inside.extend((depth > 0).then(|| quoted.to_string()));
                rest = after;
            }
            '(' => {
                if depth == 0 {
                    name = std::mem::take(&mut word).to_ascii_lowercase();
                }
                end(&mut word, depth, &mut inside);
                depth += 1;
            }
            ')' => {
                end(&mut word, depth, &mut inside);
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push((std::mem::take(&mut name), std::mem::take(&mut inside)));
                }
            }
            // Between a name and its parenthesis there may be blanks.
            ' ' | '\t' if depth == 0 && rest.trim_start().starts_with('(') => {}
            c if c.is_whitespace() || c == ';' => end(&mut word, depth, &mut inside),
            c => word.push(c),
        }
    }
    found
}

/// Ends a word: inside of parentheses it is an argument.
fn end(word: &mut String, depth: u32, inside: &mut Vec<String>) {
    let word = std::mem::take(word);
    inside.extend((depth > 0 && !word.is_empty()).then_some(word));
}

/// What stands in `[[...]]` or `[=[...]=]` at the beginning of a text, and what comes after it.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let equals = text.strip_prefix('[')?;
    let inner = equals.trim_start_matches('=');
    let close = format!("]{}]", &equals[..equals.len() - inner.len()]);
    inner.strip_prefix('[')?.split_once(&close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_comments_and_strings() {
        let text = "Option (A \"say \\\"(no)\\\"\" OFF) # option(B)\n#[[ option(C)\n) ]]\nset(\n  D  ON\n  CACHE BOOL [=[a ]] b]=])\nif((A AND B) OR E)\nendif()\n";
        let found = commands(text);
        let words = |at: usize| found[at].1.join("|");
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["option", "set", "if", "endif"]);
        assert_eq!(words(0), "A|say \\\"(no)\\\"|OFF");
        assert_eq!(words(1), "D|ON|CACHE|BOOL|a ]] b");
        assert_eq!(words(2), "A|AND|B|OR|E");
        // What breaks off breaks nothing.
        for broken in ["option(A \"x", "set(A", ")(", "#[[ x", "\"", "add_test"] {
            commands(broken);
        }
    }

    #[test]
    fn switches_of_shared_libraries_and_tests() {
        let found = read(
            [
                "option(ML_SHARED \"\" ON)\noption(BUILD_SHARED_LIBS \"\" ON)\nset(NAME_SHARED x CACHE STRING \"\")\n\
                 own_set(ML_SHARED_LIBS ${x} CACHE BOOL \"\")\noption(ML_DISABLE_SHARED \"\" OFF)\n\
                 option(${P}_SHARED \"\" ON)\nset(CMAKE_SHARED_LINKER_FLAGS x CACHE BOOL \"\")\n\
                 cmake_dependent_option(ML_TESTS \"\" ON \"A\" OFF)\noption(ML_NO_TESTS \"\" OFF)\noption(ML_FUZZ_TESTS \"\" ON)",
                "option(ML_SHARED \"\" ON)\nadd_library(ml SHARED a.c)\nadd_library(mls STATIC a.c)\nadd_library(o SHARED IMPORTED)",
            ]
            .into_iter(),
        );
        assert_eq!(
            found.shared,
            [
                ("ML_SHARED".into(), "OFF"),
                ("ML_SHARED_LIBS".into(), "OFF"),
                ("ML_DISABLE_SHARED".into(), "ON"),
            ]
        );
        assert_eq!(found.tests, ["ML_TESTS"]);
        assert_eq!(found.always_shared, ["ml"]);
        assert!(!found.ctest);
    }

    #[test]
    fn only_what_is_there_for_ctest_counts() {
        let ctest = |text: &str| read([text].into_iter()).ctest;
        assert!(ctest("enable_testing()"));
        assert!(ctest("INCLUDE( CTest )"));
        assert!(ctest("if(X)\n  add_test(NAME a COMMAND a)\nendif()"));
        assert!(ctest("gtest_discover_tests(t)"));
        assert!(!ctest(
            "# enable_testing()\nmessage(\"add_test(x)\")\ninclude(Other)"
        ));
    }
}
