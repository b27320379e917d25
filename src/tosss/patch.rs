//! Unified diffs over bytes: which files a patch changes, and the file after it. As `patch` without
//! fuzz: a hunk may have moved, but every line that it names must be there.

use std::ops::Range;

/// What a patch does to one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePatch {
    /// Its path before, without the first folder; nothing if the patch makes it.
    pub before: Option<String>,
    /// Its path after; nothing if the patch removes it.
    pub after: Option<String>,
    hunks: Vec<Hunk>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Hunk {
    /// The first line that it replaces, from 0.
    start: usize,
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

/// The files that `patch` changes, `strip` folders taken off their paths. What is no diff is passed
/// over: a patch has a header, and may have words between its files.
pub fn files(patch: &[u8], strip: usize) -> Vec<FilePatch> {
    let lines: Vec<&[u8]> = patch.split_inclusive(|b| *b == b'\n').collect();
    let mut found: Vec<FilePatch> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (line, next) = (lines[at], lines.get(at + 1).copied().unwrap_or_default());
        let hunk = lines.get(at + 2).copied().unwrap_or_default();
        if line.starts_with(b"--- ") && next.starts_with(b"+++ ") && hunk.starts_with(b"@@ ") {
            let (before, after) = (path(&line[4..], strip), path(&next[4..], strip));
            // `x.c.orig` and the like: the new name is the file's.
            let before = before.map(|own| after.clone().unwrap_or(own));
            found.push(FilePatch {
                before,
                after,
                hunks: Vec::new(),
            });
            at += 2;
        } else if let (Some(numbers), Some(file)) = (numbers(line), found.last_mut()) {
            let (hunk, end) = hunk_at(&lines, at + 1, &numbers);
            file.hunks.push(hunk);
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

impl FilePatch {
    /// Where its hunks stand: their lines in the file, which is `bytes`, and in the file after the
    /// patch, from 0; nothing if it does not fit.
    pub fn places(&self, bytes: &[u8]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
        let mut places = Vec::with_capacity(self.hunks.len());
        let (mut done, mut longer) = (0, 0_isize);
        let mut moved = 0_isize;
        for hunk in &self.hunks {
            let expected = hunk.start.checked_add_signed(moved).unwrap_or(0);
            let at = place(&lines, &hunk.before, done, expected)?;
            moved = at as isize - hunk.start as isize;
            done = at + hunk.before.len();
            let after = at.checked_add_signed(longer)?;
            places.push((at..done, after..after + hunk.after.len()));
            longer += hunk.after.len() as isize - hunk.before.len() as isize;
        }
        Some(places)
    }

    /// What takes it back.
    pub fn inverted(&self) -> FilePatch {
        let mut moved = 0_isize;
        let mut hunks = Vec::with_capacity(self.hunks.len());
        for hunk in &self.hunks {
            hunks.push(Hunk {
                start: hunk.start.saturating_add_signed(moved),
                before: hunk.after.clone(),
                after: hunk.before.clone(),
            });
            moved += hunk.after.len() as isize - hunk.before.len() as isize;
        }
        FilePatch {
            before: self.after.clone(),
            after: self.before.clone(),
            hunks,
        }
    }

    /// The file after the patch; nothing if it does not fit.
    pub fn apply(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
        let mut out = Vec::with_capacity(bytes.len() + 256);
        let mut done = 0;
        for (hunk, (before, _)) in self.hunks.iter().zip(self.places(bytes)?) {
            let at = before.start;
            lines[done..at]
                .iter()
                .for_each(|l| out.extend_from_slice(l));
            hunk.after.iter().for_each(|l| out.extend_from_slice(l));
            done = at + hunk.before.len();
        }
        lines[done..].iter().for_each(|l| out.extend_from_slice(l));
        Some(out)
    }
}

/// Where `wanted` stands in `lines`, not before `from`, the nearest to `expected`.
fn place(lines: &[&[u8]], wanted: &[Vec<u8>], from: usize, expected: usize) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let fits = |at: usize| {
        let there = &lines[at..at + wanted.len()];
        at >= from && there.iter().zip(wanted).all(|(a, b)| *a == &b[..])
    };
    let expected = expected.clamp(from.min(last), last);
    let mut far = 0;
    while far <= lines.len() {
        let below = expected.checked_sub(far).filter(|at| *at >= from);
        if let Some(at) = below.filter(|at| fits(*at)) {
            return Some(at);
        }
        let above = expected + far;
        if above <= last && fits(above) {
            return Some(above);
        }
        far += 1;
    }
    None
}

/// The path of a `---` or `+++` line; nothing for `/dev/null`.
fn path(line: &[u8], strip: usize) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let name = text
        .split(['\t', '\n', '\r'])
        .next()
        .unwrap_or_default()
        .trim_end();
    if name == "/dev/null" {
        return None;
    }
    let parts: Vec<&str> = name.split('/').collect();
    let kept = parts.get(strip..).filter(|kept| !kept.is_empty());
    Some(kept.map_or_else(|| name.to_string(), |kept| kept.join("/")))
}

/// Starts and lengths of a line `@@ -1,2 +3,4 @@`.
fn numbers(line: &[u8]) -> Option<(Range<usize>, usize)> {
    line.strip_prefix(b"@@ -")?;
    // What follows the second `@@` need not be text.
    let end = line.windows(3).skip(3).position(|w| w == b" @@")? + 3;
    let head = line.get(4..end)?;
    let (old, new) = std::str::from_utf8(head).ok()?.split_once(" +")?;
    let pair = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let ((start, count), (_, added)) = (pair(old)?, pair(new)?);
    Some((start..start.checked_add(count)?, added))
}

/// The hunk whose lines begin at `at`, and where it ends.
fn hunk_at(lines: &[&[u8]], mut at: usize, numbers: &(Range<usize>, usize)) -> (Hunk, usize) {
    let (old, added) = numbers;
    let mut hunk = Hunk {
        // Without lines to replace, the number is that of the line before.
        start: match old.is_empty() {
            true => old.start,
            false => old.start.saturating_sub(1),
        },
        ..Hunk::default()
    };
    while at < lines.len() && (hunk.before.len() < old.len() || hunk.after.len() < *added) {
        let line = lines[at];
        let (sign, rest) = line.split_first().unwrap_or((&b' ', &[]));
        match sign {
            b'-' => hunk.before.push(rest.to_vec()),
            b'+' => hunk.after.push(rest.to_vec()),
            b' ' => {
                hunk.before.push(rest.to_vec());
                hunk.after.push(rest.to_vec());
            }
            // An empty line whose blank somebody took away.
            b'\n' | b'\r' => {
                hunk.before.push(line.to_vec());
                hunk.after.push(line.to_vec());
            }
            b'\\' => open_end(lines, at, &mut hunk),
            _ => break,
        }
        at += 1;
    }
    if lines.get(at).is_some_and(|l| l.starts_with(b"\\")) {
        open_end(lines, at, &mut hunk);
        at += 1;
    }
    (hunk, at)
}

/// `\ No newline at end of file`: of the line before it.
fn open_end(lines: &[&[u8]], at: usize, hunk: &mut Hunk) {
    let sign = at.checked_sub(1).and_then(|at| lines[at].first());
    let cut = |lines: &mut Vec<Vec<u8>>| {
        if let Some(last) = lines.last_mut()
            && last.last() == Some(&b'\n')
        {
            last.pop();
        }
    };
    if sign != Some(&b'+') {
        cut(&mut hunk.before);
    }
    if sign != Some(&b'-') {
        cut(&mut hunk.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(patch: &str) -> FilePatch {
        let mut files = files(patch.as_bytes(), 1);
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    const HEAD: &str = "Description: x\n--- \nfrom\n--- a/src/x.c\t2020-01-01\n+++ b/src/x.c\n";

    #[test]
    fn paths_hunks_and_what_stands_around_them() {
        let patch = format!(
            "{HEAD}@@ -1,3 +1,3 @@ int f(void)\n a\n-b\n+B\n c\nmore words\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+x\n--- a/old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n"
        );
        let found = files(patch.as_bytes(), 1);
        let paths: Vec<_> = found
            .iter()
            .map(|f| (f.before.as_deref(), f.after.as_deref()))
            .collect();
        assert_eq!(
            paths,
            [
                (Some("src/x.c"), Some("src/x.c")),
                (None, Some("new.c")),
                (Some("old.c"), None)
            ]
        );
        assert_eq!(found[0].apply(b"a\nb\nc\nd\n").unwrap(), b"a\nB\nc\nd\n");
        assert_eq!(found[1].apply(b"").unwrap(), b"x\n");
        assert_eq!(found[2].apply(b"y\n").unwrap(), b"");
    }

    #[test]
    fn a_hunk_may_have_moved_but_every_line_must_be_there() {
        let patch = one(&format!(
            "{HEAD}@@ -1,2 +1,3 @@\n a\n+n\n b\n@@ -10,2 +11,1 @@\n-y\n z\n"
        ));
        assert_eq!(
            patch.apply(b"0\n0\na\nb\ny\nz\n").unwrap(),
            b"0\n0\na\nn\nb\nz\n"
        );
        assert_eq!(patch.apply(b"a\nB\ny\nz\n"), None);
        assert_eq!(patch.apply(b"y\nz\na\nb\n"), None, "hunks keep their order");
        assert_eq!(patch.apply(b""), None);
    }

    #[test]
    fn the_end_of_a_file_without_a_line_end() {
        let patch = one(&format!(
            "{HEAD}@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
        ));
        assert_eq!(patch.apply(b"a\nb").unwrap(), b"a\nc\n");
        let patch = one(&format!(
            "{HEAD}@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"
        ));
        assert_eq!(patch.apply(b"a\nb\n").unwrap(), b"a\nb");
        let patch = one(&format!("{HEAD}@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"));
        assert_eq!(patch.apply(b"a\n\nb\n").unwrap(), b"a\n\nc\n");
    }

    fn text(lines: &[u8]) -> String {
        lines.iter().map(|l| format!("{}\n", l % 5)).collect()
    }

    proptest! {
        /// The oracle is another program's diff: what `similar` says differs makes one of the other.
        #[test]
        fn a_diff_makes_the_new_text_of_the_old(
            old in prop::collection::vec(any::<u8>(), 0..40),
            new in prop::collection::vec(any::<u8>(), 0..40),
            context in 0_usize..4,
        ) {
            let (old, new) = (text(&old), text(&new));
            prop_assume!(old != new);
            let diff = similar::TextDiff::from_lines(&old, &new);
            let patch = diff.unified_diff().context_radius(context).header("a/x", "b/x").to_string();
            let found = files(patch.as_bytes(), 1);
            prop_assert_eq!(found.len(), 1);
            let made = found[0].apply(old.as_bytes());
            // Without context a hunk that only adds fits everywhere, first where it is expected.
            prop_assert_eq!(made.as_deref().map(String::from_utf8_lossy), Some((&new).into()));
            let back = found[0].inverted().apply(new.as_bytes());
            prop_assert_eq!(back.as_deref().map(String::from_utf8_lossy), Some((&old).into()));
            // Between the places of its hunks nothing changes.
            let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
            let (mut i, mut j) = (0, 0);
            let ends = (old.len()..old.len(), new.len()..new.len());
            for (before, after) in found[0].places((old.join("\n") + "\n").as_bytes()).unwrap().into_iter().chain([ends]) {
                prop_assert_eq!(&old[i..before.start], &new[j..after.start]);
                (i, j) = (before.end, after.end);
            }
        }

        #[test]
        fn any_bytes_are_a_patch_of_something(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut patch = b"--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n".to_vec();
            patch.extend_from_slice(&bytes);
            for file in files(&patch, 1) {
                file.apply(&bytes);
            }
        }
    }
}
