//! The code that a version has where a patch's blocks stand, put into the base of the patch: what tests
//! of the patch are run on where comparing leaves open whether it is there.

use std::collections::BTreeMap;
use std::ops::Range;

use super::edit::{Edit, Site};
use super::measure::Found;
use super::walk::{Visit, Walk};

/// Files of the base with a version's code; nothing for a file that is not there then.
pub type Files = BTreeMap<String, Option<Vec<u8>>>;

/// Bytes of a file of the base, and what comes in their place.
type Piece = (Range<usize>, Vec<u8>);

/// Why nothing can be put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoSplice {
    /// A function or file of the patch is not there at the version.
    NotThere(String),
    /// A block has no place in the version, or two blocks have the same place in the base.
    NoPlace(String),
}

impl NoSplice {
    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            NoSplice::NotThere(path) => format!("{path} has no such code at the snapshot"),
            NoSplice::NoPlace(path) => format!("a hunk of {path} has no place of its own"),
        }
    }
}

/// The base's files, given by `base`, with what stands at position `at` of the walk in place of each block
/// of the edit. `seen` gives the file that a visit saw.
///
/// # Errors
/// Outer: those of `seen`. Inner: why nothing can be put together.
pub fn splice<E>(
    edit: &Edit,
    walk: &Walk,
    at: usize,
    base: &BTreeMap<String, Vec<u8>>,
    mut seen: impl FnMut(&Visit) -> Result<Option<Vec<u8>>, E>,
) -> Result<Result<Files, NoSplice>, E> {
    let mut pieces: BTreeMap<&str, Vec<Piece>> = BTreeMap::new();
    let mut files = Files::new();
    for (site, trail) in edit.sites.iter().zip(&walk.trails) {
        let visit = trail.visits.iter().rev().find(|visit| visit.at <= at);
        let path = trail.head.path.as_str();
        let (Some(from), Some(_)) = (&site.from, &site.to) else {
            // A file that the patch makes or removes: as it is then.
            let there = visit.filter(|visit| visit.seen.found != Found::NoFile);
            let bytes = match there {
                Some(visit) => seen(visit)?,
                None => None,
            };
            files.insert(path.to_string(), bytes);
            continue;
        };
        let there = visit.filter(|v| !matches!(v.seen.found, Found::NoFile | Found::Gone));
        if there.is_none() && site.after.is_none() {
            // What the patch takes out of its file is not there.
            let gone = site.blocks.iter().map(|b| (b.stands.clone(), Vec::new()));
            pieces.entry(from).or_default().extend(gone);
            continue;
        }
        let Some(visit) = there else {
            return Ok(Err(NoSplice::NotThere(path.to_string())));
        };
        let Some(file) = seen(visit)? else {
            return Ok(Err(NoSplice::NotThere(path.to_string())));
        };
        match own(site, visit, &file) {
            Some(own) => pieces.entry(from).or_default().extend(own),
            None => return Ok(Err(NoSplice::NoPlace(path.to_string()))),
        }
    }
    for (path, mut own) in pieces {
        own.sort_by_key(|(range, _)| (range.start, range.end));
        let apart = own.windows(2).all(|w| w[0].0.end <= w[1].0.start);
        let (Some(base), true) = (base.get(path), apart) else {
            return Ok(Err(NoSplice::NoPlace(path.to_string())));
        };
        let mut file = base.clone();
        for (range, mut text) in own.into_iter().rev() {
            let behind = range.start.checked_sub(1).map(|at| file[at]);
            if range.is_empty() && behind.is_some_and(|byte| byte != b'\n') {
                text.insert(0, b'\n');
            }
            file.splice(range, text);
        }
        files.insert(path.to_string(), Some(file));
    }
    Ok(Ok(files))
}

/// For each block where it stands in the base, and what stands in its place then: of the two regions
/// that were compared the one that is more alike.
fn own(site: &Site, visit: &Visit, file: &[u8]) -> Option<Vec<Piece>> {
    let pairs = site.blocks.iter().zip(&visit.seen.blocks);
    let pieces = pairs.map(|(block, measure)| {
        let region = &measure.regions[usize::from(measure.after >= measure.before)];
        let mut text = file.get(region.clone())?.to_vec();
        if block.stands.is_empty() {
            // A function that the patch makes, between those that are there, as far in as it is.
            let line = file[..region.start].iter().rposition(|b| *b == b'\n');
            let before = &file[line.map_or(0, |at| at + 1)..region.start];
            if before.trim_ascii().is_empty() {
                text.splice(0..0, before.iter().copied());
            }
            text.extend_from_slice(b"\n\n");
        }
        (!region.is_empty()).then(|| (block.stands.clone(), text))
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::super::diff::read;
    use super::super::edit::edit;
    use super::super::measure::measure;
    use super::super::source::Source;
    use super::super::walk::{Head, Trail};
    use super::*;

    const BASE: &str = "int f(int a)\n{\n    int b = a;\n    use(b);\n    return b;\n}\n\nint g(void)\n{\n    return 1;\n}\n";
    const PATCH: &str = "--- a/m.c\n+++ b/m.c\n@@ -3,3 +3,4 @@\n     int b = a;\n+    if (b < 0) return 0;\n     use(b);\n     return b;\n";

    fn spliced(version: Option<&str>) -> Result<Files, NoSplice> {
        let edit = edit(&read(PATCH.as_bytes()), |_| Some(BASE.as_bytes().to_vec())).unwrap();
        let seen = match version {
            Some(text) => measure(&edit.sites[0], &Source::read("m.c", text.as_bytes())),
            None => super::super::measure::Seen {
                found: Found::NoFile,
                blocks: Vec::new(),
            },
        };
        let visit = Visit {
            at: 3,
            path: "m.c".into(),
            object: String::new(),
            seen,
        };
        let walk = Walk {
            trails: vec![Trail {
                head: Head::of(&edit.sites[0]),
                visits: vec![visit],
            }],
            ..Walk::default()
        };
        let base = BTreeMap::from([("m.c".to_string(), BASE.as_bytes().to_vec())]);
        let seen = |_: &Visit| Ok::<_, ()>(version.map(|text| text.as_bytes().to_vec()));
        splice(&edit, &walk, 3, &base, seen).unwrap()
    }

    fn text(files: &Files) -> &str {
        std::str::from_utf8(files["m.c"].as_ref().unwrap()).unwrap()
    }

    #[test]
    fn the_base_alone_and_the_patch_alone_give_themselves() {
        assert_eq!(text(&spliced(Some(BASE)).unwrap()), BASE);
        let fixed = BASE.replace("    use(b)", "    if (b < 0) return 0;\n    use(b)");
        assert_eq!(text(&spliced(Some(&fixed)).unwrap()), fixed);
    }

    #[test]
    fn another_way_to_fix_it_comes_into_the_base_and_nothing_else_does() {
        let other = BASE
            .replace(
                "    use(b)",
                "    if (a < 0)\n        return 0;\n    use(b)",
            )
            .replace("return 1", "return 2");
        let files = spliced(Some(&other)).unwrap();
        assert!(text(&files).contains("if (a < 0)\n        return 0;"));
        assert!(text(&files).contains("return 1"));
    }

    #[test]
    fn a_function_that_the_patch_makes_comes_to_where_it_puts_it() {
        let patch = "--- a/m.c\n+++ b/m.c\n@@ -3,8 +3,13 @@\n     int b = a;\n-    use(b);\n+    use(h(b));\n     return b;\n }\n \n+int h(int c)\n+{\n+    return c < 0 ? 0 : c;\n+}\n+\n int g(void)\n {\n     return 1;\n";
        let diff = read(patch.as_bytes());
        let edit = edit(&diff, |_| Some(BASE.as_bytes().to_vec())).unwrap();
        let version = String::from_utf8(diff.files[0].apply(BASE.as_bytes()).unwrap()).unwrap();
        let version = version.replace("c < 0 ? 0 : c", "c > 0 ? c : 0");
        let trails = edit.sites.iter().map(|site| Trail {
            head: Head::of(site),
            visits: vec![Visit {
                at: 0,
                path: "m.c".into(),
                object: String::new(),
                seen: measure(site, &Source::read("m.c", version.as_bytes())),
            }],
        });
        let walk = Walk {
            trails: trails.collect(),
            ..Walk::default()
        };
        let base = BTreeMap::from([("m.c".to_string(), BASE.as_bytes().to_vec())]);
        let seen = |_: &Visit| Ok::<_, ()>(Some(version.as_bytes().to_vec()));
        let files = splice(&edit, &walk, 0, &base, seen).unwrap().unwrap();
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(text(&files)), words(&version));
    }

    /// The base with what a version has where the patch from base to `fixed` has its blocks: lines of code.
    fn put_in(path: &str, base: &str, fixed: &str, version: &str) -> Result<Vec<String>, NoSplice> {
        let diff = similar::TextDiff::from_lines(base, fixed);
        let (from, to) = (format!("a/{path}"), format!("b/{path}"));
        let patch = diff.unified_diff().header(&from, &to).to_string();
        let edit = edit(&read(patch.as_bytes()), |_| Some(base.as_bytes().to_vec())).unwrap();
        let trails = edit.sites.iter().map(|site| Trail {
            head: Head::of(site),
            visits: vec![Visit {
                at: 0,
                path: path.into(),
                object: String::new(),
                seen: measure(site, &Source::read(path, version.as_bytes())),
            }],
        });
        let walk = Walk {
            trails: trails.collect(),
            ..Walk::default()
        };
        let base = BTreeMap::from([(path.to_string(), base.as_bytes().to_vec())]);
        let seen = |_: &Visit| Ok::<_, ()>(Some(version.as_bytes().to_vec()));
        let files = splice(&edit, &walk, 0, &base, seen).unwrap()?;
        let text = String::from_utf8(files[path].clone().unwrap()).unwrap();
        Ok(lines(&text))
    }

    fn lines(text: &str) -> Vec<String> {
        // Comments are not compared, and go with whichever function stands below them.
        let is_code = |line: &str| {
            let marks = ["/*", "* ", "*/", "///"];
            !line.is_empty() && !marks.iter().any(|mark| line.starts_with(mark))
        };
        let lines = text.lines().filter(|line| is_code(line.trim()));
        lines.map(|line| line.trim_end().to_string()).collect()
    }

    /// What two functions begin with, a difference takes for the end of the one before: the new one must come
    /// in whole, and the other must stay so. `NEW` is where the new one goes, and `how` what differs in the version.
    fn comes_in_whole(path: &str, text: &str, new: &str, how: (&str, &str)) {
        let base = text.replace("NEW", "");
        let fixed = text.replace("NEW", new);
        assert_eq!(put_in(path, &base, &fixed, &fixed), Ok(lines(&fixed)));
        let other = fixed.replace(how.0, how.1);
        assert_ne!(other, fixed);
        assert_eq!(put_in(path, &base, &fixed, &other), Ok(lines(&other)));
    }

    #[test]
    fn what_a_function_begins_with_comes_once() {
        let c = |head: &str| {
            let text = format!(
                "#include <stddef.h>\n\n{head}\nf(int a)\n{{\n    return a;\n}}\n\nNEW{head}\ng(int b)\n{{\n    return b + 1;\n}}\n"
            );
            let new = format!("{head}\nh(int c)\n{{\n    return c < 0 ? 0 : c;\n}}\n\n");
            comes_in_whole("m.c", &text, &new, ("c < 0 ? 0 : c", "c > 0 ? c : 0"));
        };
        for head in [
            "int",
            "static int",
            "static inline const int",
            "__attribute__((noinline))\nstatic int",
            "/**\n * Does it.\n */\nstatic int",
            "/* Does it. */\n[[nodiscard]] static\nint",
        ] {
            c(head);
        }
    }

    #[test]
    fn decorators_and_attributes_come_once() {
        for head in [
            "@staticmethod\n    def",
            "@cached(\n        size=3,\n    )\n    async def",
            "def",
        ] {
            let text = format!(
                "import os\n\n\nclass A:\n    {head} f(a):\n        return a\n\nNEW    {head} g(b):\n        return b + 1\n"
            );
            let new = format!(
                "    {head} h(c):\n        if c < 0:\n            return 0\n        return c\n\n"
            );
            comes_in_whole("m.py", &text, &new, ("return 0", "return None"));
        }
        for head in ["fn", "pub async fn", "#[inline]\n    pub fn"] {
            let text = format!(
                "struct A;\n\nimpl A {{\n    {head} f(a: i32) -> i32 {{\n        a\n    }}\n\nNEW    {head} g(b: i32) -> i32 {{\n        b + 1\n    }}\n}}\n"
            );
            let new = format!(
                "    {head} h(c: i32) -> i32 {{\n        if c < 0 {{\n            return 0;\n        }}\n        c\n    }}\n\n"
            );
            comes_in_whole("m.rs", &text, &new, ("return 0;", "return 1;"));
        }
    }

    #[test]
    fn what_is_not_there_gives_nothing() {
        assert_eq!(spliced(None), Err(NoSplice::NotThere("m.c".into())));
    }
}
