//! A patch as its files: what can be compared, and everything else with the reason. Line ends are
//! plain, whatever the patch was written with.

use serde::{Deserialize, Serialize};

use super::source::plain_lines;
use crate::tosss::patch::{FilePatch, files};

/// A patch, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    /// Files with hunks.
    pub files: Vec<FilePatch>,
    /// What is no text to be compared: path and reason.
    pub left_out: Vec<(String, LeftOut)>,
    /// Whether lines of it end as on Windows.
    pub crlf: bool,
}

impl Diff {
    /// A path that is none of a file in a project, if there is one.
    pub fn outside(&self) -> Option<&str> {
        let files = self.files.iter();
        let paths = files.flat_map(|f| [f.before.as_deref(), f.after.as_deref()]);
        let left_out = self.left_out.iter().map(|(path, _)| Some(&**path));
        let mut paths = paths.chain(left_out).flatten();
        paths.find(|path| !is_inside(path))
    }
}

/// Whether a path is one of a file in a project: relative, with names between its slashes.
pub fn is_inside(path: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    path.split('/').all(is_name)
}

/// Why a file or a hunk of a patch is not compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// A binary file.
    Binary,
    /// Only who may read or run the file changes.
    ModeOnly,
    /// The file only gets another name.
    RenameOnly,
    /// The file has no hunk, or a hunk that changes nothing.
    Empty,
    /// Only comments, layout or the order of nothing change: no token does.
    Trivial,
    /// Documentation, beside code that is compared.
    Documentation,
    /// A test, beside code that is compared.
    Test,
}

impl LeftOut {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            LeftOut::Binary => "a binary file",
            LeftOut::ModeOnly => "only the file's mode changes",
            LeftOut::RenameOnly => "the file is only renamed",
            LeftOut::Empty => "a file or hunk without a change",
            LeftOut::Trivial => "only comments or layout change",
            LeftOut::Documentation => "documentation beside code",
            LeftOut::Test => "a test beside code",
        }
    }
}

/// What git says of a file before its hunks.
#[derive(Default)]
struct Header {
    path: String,
    from: Option<String>,
    to: Option<String>,
    mode: bool,
    binary: bool,
    made: bool,
    hunks: bool,
}

/// Reads a patch, as git writes it or without git's headers. Any bytes are accepted.
pub fn read(patch: &[u8]) -> Diff {
    let plain = plain_lines(patch);
    let crlf = plain.len() != patch.len();
    let headers = headers(&plain);
    let mut diff = Diff {
        files: files(&plain, 1),
        left_out: Vec::new(),
        crlf,
    };
    for file in &mut diff.files {
        let named = headers
            .iter()
            .find(|h| h.to.is_some() && h.to == file.after);
        if let Some(Header {
            from: Some(from), ..
        }) = named
        {
            file.before = Some(from.clone());
        }
    }
    for header in headers.into_iter().filter(|h| !h.hunks) {
        let reason = if header.binary {
            LeftOut::Binary
        } else if header.from.is_some() {
            LeftOut::RenameOnly
        } else if header.mode && !header.made {
            LeftOut::ModeOnly
        } else {
            LeftOut::Empty
        };
        diff.left_out.push((header.path, reason));
    }
    diff
}

fn headers(patch: &[u8]) -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
    for line in patch.split(|b| *b == b'\n') {
        if let Some(paths) = line.strip_prefix(b"diff --git ") {
            let paths = text(paths);
            let path = paths.rsplit_once(" b/").map_or(&*paths, |(_, path)| path);
            headers.push(Header {
                path: path.to_string(),
                ..Header::default()
            });
            continue;
        }
        let Some(header) = headers.last_mut().filter(|h| !h.hunks) else {
            continue;
        };
        if let Some(from) = line.strip_prefix(b"rename from ") {
            header.from = Some(text(from));
        } else if let Some(to) = line.strip_prefix(b"rename to ") {
            header.to = Some(text(to));
        } else if line.starts_with(b"old mode ") {
            header.mode = true;
        } else if line.starts_with(b"new file mode") || line.starts_with(b"deleted file mode") {
            header.made = true;
        } else if line.starts_with(b"Binary files ") || line.starts_with(b"GIT binary patch") {
            header.binary = true;
        } else if line.starts_with(b"@@ ") {
            header.hunks = true;
        }
    }
    headers
}

/// The patch that takes back what this one does.
pub fn reversed(patch: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(patch.len());
    let lines: Vec<&[u8]> = patch.split_inclusive(|b| *b == b'\n').collect();
    let mut put = |start: &[u8], rest: &[u8]| {
        out.extend_from_slice(start);
        out.extend_from_slice(rest);
    };
    // How many lines of either side the hunk still has.
    let mut left = (0_usize, 0_usize);
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if left != (0, 0) {
            let take = |n: &mut usize| *n = n.saturating_sub(1);
            match line.first() {
                Some(b'-') => {
                    take(&mut left.0);
                    put(b"+", &line[1..]);
                }
                Some(b'+') => {
                    take(&mut left.1);
                    put(b"-", &line[1..]);
                }
                Some(b'\\') => put(b"", line),
                _ => {
                    take(&mut left.0);
                    take(&mut left.1);
                    put(b"", line);
                }
            }
        } else if let Some((old, new, rest)) = hunk_head(line) {
            left = (count(old), count(new));
            put(format!("@@ -{new} +{old} @@").as_bytes(), rest);
        } else if let (true, Some(next)) = (
            line.starts_with(b"--- "),
            lines.get(at).filter(|l| l.starts_with(b"+++ ")),
        ) {
            // Which side is called a and which b says nothing of their order here.
            put(b"--- ", &other_side(&next[4..], b"b/", b"a/"));
            put(b"+++ ", &other_side(&line[4..], b"a/", b"b/"));
            at += 1;
        } else {
            const PAIRS: [(&[u8], &[u8]); 6] = [
                (b"rename from ", b"rename to "),
                (b"rename to ", b"rename from "),
                (b"new file mode ", b"deleted file mode "),
                (b"deleted file mode ", b"new file mode "),
                (b"old mode ", b"new mode "),
                (b"new mode ", b"old mode "),
            ];
            let known = PAIRS.iter().find(|(is, _)| line.starts_with(is));
            match known {
                Some((is, other)) => put(other, &line[is.len()..]),
                None => put(b"", line),
            }
        }
    }
    out
}

fn other_side(path: &[u8], is: &[u8], other: &[u8]) -> Vec<u8> {
    match path.strip_prefix(is) {
        Some(rest) => [other, rest].concat(),
        None => path.to_vec(),
    }
}

/// The numbers of a hunk's head as text, and what stands behind them.
fn hunk_head(line: &[u8]) -> Option<(&str, &str, &[u8])> {
    let inside = line.strip_prefix(b"@@ -")?;
    let end = inside.windows(3).position(|w| w == b" @@")?;
    let (old, new) = std::str::from_utf8(&inside[..end]).ok()?.split_once(" +")?;
    Some((old, new, &inside[end + 3..]))
}

fn count(numbers: &str) -> usize {
    let count = numbers.split_once(',').map_or("1", |(_, count)| count);
    count.parse().unwrap_or(0)
}

/// Whether a file documents and does nothing.
pub fn is_documentation(path: &str) -> bool {
    const ENDINGS: [&str; 9] = [
        ".md", ".rst", ".txt", ".adoc", ".html", ".xml", ".po", ".tex", ".org",
    ];
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let known = [
        "changes",
        "changelog",
        "news",
        "authors",
        "readme",
        "copying",
    ];
    let built = ["cmakelists.txt", "requirements.txt", "pom.xml", "build.xml"];
    (ENDINGS.iter().any(|ending| name.ends_with(ending)) && !built.contains(&name))
        || known.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_of_file_is_told() {
        let patch = b"diff --git a/old.c b/new.c\nsimilarity index 90%\nrename from old.c\nrename to new.c\n\
index 1..2 100644\n--- a/old.c\n+++ b/new.c\n@@ -1 +1 @@\n-a\n+b\n\
diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n\
diff --git a/y.png b/y.png\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n\n\
diff --git a/run b/run\nold mode 100644\nnew mode 100755\n\
diff --git a/p/q.c b/p/r.c\nsimilarity index 100%\nrename from p/q.c\nrename to p/r.c\n\
diff --git a/none b/none\nnew file mode 100644\nindex 0000000..e69de29\n";
        let diff = read(patch);
        assert_eq!(diff.files.len(), 1);
        assert_eq!(diff.files[0].before.as_deref(), Some("old.c"));
        assert_eq!(diff.files[0].after.as_deref(), Some("new.c"));
        let left: Vec<_> = diff.left_out.iter().map(|(p, r)| (&**p, *r)).collect();
        assert_eq!(
            left,
            [
                ("x.png", LeftOut::Binary),
                ("y.png", LeftOut::Binary),
                ("run", LeftOut::ModeOnly),
                ("p/r.c", LeftOut::RenameOnly),
                ("none", LeftOut::Empty),
            ]
        );
        assert!(!diff.crlf);
    }

    #[test]
    fn line_ends_of_either_kind_give_the_same_files() {
        let patch = "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
        let windows = read(patch.replace('\n', "\r\n").as_bytes());
        assert!(windows.crlf);
        assert_eq!(windows.files, read(patch.as_bytes()).files);
    }

    #[test]
    fn documentation_is_known_by_its_name() {
        for path in ["docs/a.rst", "CHANGES", "README.md"] {
            assert!(is_documentation(path), "{path}");
        }
        for path in ["src/a.c", "changes.py", "doc/conf.py", "lib/CMakeLists.txt"] {
            assert!(!is_documentation(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_is_reversed_takes_back(
            old in prop::collection::vec(0_u8..4, 1..20),
            new in prop::collection::vec(0_u8..4, 1..20),
        ) {
            let text = |v: &[u8]| v.iter().map(|l| format!("{l}\n")).collect::<String>();
            let (old, new) = (text(&old), text(&new));
            prop_assume!(old != new);
            let diff = similar::TextDiff::from_lines(&old, &new);
            let patch = diff.unified_diff().header("a/x", "b/x").to_string();
            let back = read(&reversed(patch.as_bytes()));
            let made = back.files[0].apply(new.as_bytes());
            prop_assert_eq!(made, Some(old.into_bytes()));
            prop_assert_eq!(reversed(&reversed(patch.as_bytes())).len(), patch.len());
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
            let mut patch = b"diff --git a/x b/x\nold mode 1\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n".to_vec();
            patch.extend(bytes);
            read(&patch);
        }
    }
}
