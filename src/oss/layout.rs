//! Where things are inside the sandbox: the same on every machine, so that commands, logs and
//! debug information name no path of the host.

/// The root of the subject's tree.
pub const TREE: &str = "/eb/tree";
/// The recording tools, first in `PATH` while a subject is built.
pub const BIN: &str = "/eb/bin";
/// Where the recording tools write.
pub const RECORD: &str = "/eb/record";
/// Where replayed commands write.
pub const OUT: &str = "/eb/out";
/// Where, in the tree, files are kept that a build would have thrown away.
pub const KEPT: &str = ".everbench";
/// The header that redirects the reports of test programs.
pub const REPORT_HEADER: &str = "/eb/report.h";
/// The same for test programs in C++.
pub const REPORT_HEADER_CPP: &str = "/eb/report.hpp";
/// The header that notes which functions are entered.
pub const REACH_HEADER: &str = "/eb/reach.h";
/// The folder, in the private `/tmp`, without which that header notes nothing.
pub const REACH_FOLDER: &str = "/tmp/everbench-reach";
/// Prefix of the files in which it notes.
pub const REACH_FILE: &str = "/tmp/reach.";
/// Where a test runner writes its report when `report = "file"`; in the private `/tmp`.
pub const RESULTS_FILE: &str = "/tmp/everbench-results";
/// An empty folder of a test run's own; in the private `/tmp`.
pub const SCRATCH: &str = "/tmp/everbench-scratch";
/// Prefix of the sanitizers' log files.
pub const SANITIZER_LOG: &str = "/tmp/sanitizer";

/// `path` as seen from `cwd` (both relative to the tree, or absolute inside the sandbox), relative
/// to the tree; `None` when it lies outside.
pub fn in_tree(cwd: &str, path: &str) -> Option<String> {
    let absolute = if path.starts_with('/') {
        path.to_string()
    } else if cwd.starts_with('/') {
        format!("{cwd}/{path}")
    } else {
        format!("{TREE}/{cwd}/{path}")
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in absolute.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let normal = format!("/{}", parts.join("/"));
    normal.strip_prefix(&format!("{TREE}/")).map(str::to_string)
}

/// What is started for the first word of a test's command: a word with a `/` that is not absolute is
/// a file of the tree, from its root, whatever the working directory is. A bare name stays what it is,
/// and is looked up along `PATH`.
pub fn program(word: &str) -> String {
    match word.contains('/') && !word.starts_with('/') {
        true => format!("{TREE}/{}", word.trim_start_matches("./")),
        false => word.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{in_tree, program};

    #[test]
    fn a_program_of_the_tree_is_named_from_its_root() {
        assert_eq!(program("./t"), "/eb/tree/t");
        assert_eq!(program("build/t"), "/eb/tree/build/t");
        assert_eq!(program("/usr/bin/prove"), "/usr/bin/prove");
        assert_eq!(program("prove"), "prove");
    }

    #[test]
    fn paths_are_taken_relative_to_the_tree() {
        assert_eq!(
            in_tree("/eb/tree/build", "../src/a.c").as_deref(),
            Some("src/a.c")
        );
        assert_eq!(
            in_tree("build/test", "./x/../t.o").as_deref(),
            Some("build/test/t.o")
        );
        assert_eq!(
            in_tree("/anywhere", "/eb/tree/src/a.c").as_deref(),
            Some("src/a.c")
        );
        assert_eq!(in_tree("/eb/tree", "../../usr/include/stdio.h"), None);
        assert_eq!(in_tree("/eb/tree", "/usr/include/stdio.h"), None);
        assert_eq!(in_tree("/eb/tree", "/eb/treehouse/a.c"), None);
    }
}
