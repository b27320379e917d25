//! What a patch changes, ready to be looked for in any version: for each function (or what stands
//! outside of functions) that it touches both sides, and in them the blocks of its hunks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::diff::{Diff, LeftOut, is_documentation};
use super::source::{Source, Unit};
use crate::tosss::change::is_test;
use crate::tosss::patch::FilePatch;

/// A patch with the files that it fits.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// What it touches, in the order of the patch.
    pub sites: Vec<Site>,
    /// What of it is not compared.
    pub left_out: Vec<(String, LeftOut)>,
}

/// One function, or what stands outside of functions, or a file that is made or removed.
#[derive(Clone, Debug)]
pub struct Site {
    /// The file before; nothing if the patch makes it.
    pub from: Option<String>,
    /// The file after; nothing if the patch removes it.
    pub to: Option<String>,
    /// What of the file.
    pub place: Place,
    /// It before the patch; nothing if the patch makes it.
    pub before: Option<Unit>,
    /// It after the patch; nothing if the patch removes it.
    pub after: Option<Unit>,
    /// The names of the functions of both sides of the file.
    pub known: BTreeSet<String>,
    /// The blocks that are compared.
    pub blocks: Vec<Block>,
}

/// What of a file is compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A function, by its name and parameters.
    Function {
        /// With the scopes it is in.
        name: String,
        /// Where functions may share a name.
        parameters: String,
    },
    /// What stands outside of functions.
    Outside,
    /// All of a file.
    File,
}

/// What one hunk changes in one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The hunk's number in its file, from 0.
    pub hunk: usize,
    /// Its tokens before, with those around them that the hunk shows.
    pub before: Range<usize>,
    /// Its tokens after.
    pub after: Range<usize>,
    /// The tokens of lines that it takes away, in the unit before.
    pub deleted: Vec<usize>,
    /// The tokens of lines that it adds, in the unit after.
    pub added: Vec<usize>,
    /// The text of either side, from the first token to the last.
    pub says: [String; 2],
    /// The bytes of its file on which the side before stands; where there is none, the place at which the
    /// patch puts the side after.
    pub stands: Range<usize>,
}

/// Why a patch cannot be looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoEdit {
    /// The base does not have the file.
    NoFile(String),
    /// A hunk does not fit the file.
    Misfit(String),
}

/// What `diff` changes. `bytes` gives a file of the base, with plain line ends.
///
/// # Errors
/// The patch does not fit the base.
pub fn edit(diff: &Diff, mut bytes: impl FnMut(&str) -> Option<Vec<u8>>) -> Result<Edit, NoEdit> {
    let mut edit = Edit {
        sites: Vec::new(),
        left_out: diff.left_out.clone(),
    };
    let path_of = |file: &FilePatch| file.after.clone().or_else(|| file.before.clone());
    let beside = |path: &str| {
        if is_documentation(path) {
            Some(LeftOut::Documentation)
        } else {
            is_test(path).then_some(LeftOut::Test)
        }
    };
    // Documentation and tests are compared only where a patch is nothing else.
    let code = diff
        .files
        .iter()
        .filter_map(path_of)
        .any(|path| beside(&path).is_none());
    for file in &diff.files {
        let path = path_of(file).unwrap_or_default();
        if let Some(reason) = beside(&path).filter(|_| code) {
            edit.left_out.push((path, reason));
            continue;
        }
        let before = match &file.before {
            Some(from) => bytes(from).ok_or_else(|| NoEdit::NoFile(from.clone()))?,
            None => Vec::new(),
        };
        if before.contains(&0) {
            edit.left_out.push((path, LeftOut::Binary));
            continue;
        }
        let misfit = || NoEdit::Misfit(path.clone());
        let after = file.apply(&before).ok_or_else(misfit)?;
        let places = file.places(&before).ok_or_else(misfit)?;
        if places.is_empty() {
            edit.left_out.push((path, LeftOut::Empty));
            continue;
        }
        let found = match (&file.before, &file.after) {
            (Some(from), Some(to)) => both_sides(from, to, &before, &after, &places),
            _ => vec![one_side(file, &before, &after)],
        };
        let compared: BTreeSet<usize> = found
            .iter()
            .flat_map(|site| site.blocks.iter().map(|block| block.hunk))
            .collect();
        for hunk in 0..places.len() {
            if !compared.contains(&hunk) {
                edit.left_out.push((path.clone(), LeftOut::Trivial));
            }
        }
        edit.sites.extend(found);
    }
    Ok(edit)
}

/// A file that is made or removed: all of it.
fn one_side(file: &FilePatch, before: &[u8], after: &[u8]) -> Site {
    let whole = |path: &Option<String>, text: &[u8]| {
        let path = path.as_ref()?;
        Some(Source::read(path, text).whole())
    };
    let (old, new) = (whole(&file.before, before), whole(&file.after, after));
    let all = |unit: &Option<Unit>| 0..unit.as_ref().map_or(0, |u| u.tokens.len());
    let block = Block {
        hunk: 0,
        deleted: all(&old).collect(),
        added: all(&new).collect(),
        says: [
            said(&old, &all(&old), before),
            said(&new, &all(&new), after),
        ],
        stands: 0..before.len(),
        before: all(&old),
        after: all(&new),
    };
    let trivial = block.deleted.is_empty() && block.added.is_empty();
    Site {
        from: file.before.clone(),
        to: file.after.clone(),
        place: Place::File,
        before: old,
        after: new,
        known: BTreeSet::new(),
        blocks: match trivial {
            true => Vec::new(),
            false => vec![block],
        },
    }
}

/// Lines of one hunk that change in one place.
#[derive(Default)]
struct Touched {
    deleted: BTreeSet<usize>,
    added: BTreeSet<usize>,
}

impl Touched {
    /// All that is touched, as if by the first hunk.
    fn all(hunks: &BTreeMap<usize, Touched>) -> BTreeMap<usize, Touched> {
        let lines = |of: fn(&Touched) -> &BTreeSet<usize>| {
            hunks
                .values()
                .flat_map(of)
                .copied()
                .collect::<BTreeSet<_>>()
        };
        let all = Touched {
            deleted: lines(|touched| &touched.deleted),
            added: lines(|touched| &touched.added),
        };
        let first = hunks.keys().next().copied();
        first.map(|hunk| (hunk, all)).into_iter().collect()
    }
}

fn both_sides(
    from: &str,
    to: &str,
    before: &[u8],
    after: &[u8],
    hunks: &[(Range<usize>, Range<usize>)],
) -> Vec<Site> {
    let (old, new) = (Source::read(from, before), Source::read(to, after));
    let (old_lines, new_lines) = (lines(before), lines(after));
    let known: BTreeSet<String> = old
        .functions()
        .iter()
        .chain(new.functions())
        .map(|f| f.name.clone())
        .collect();
    // By place, in order of the first hunk that touches it.
    let mut touched: BTreeMap<Place, BTreeMap<usize, Touched>> = BTreeMap::new();
    let mut order: Vec<Place> = Vec::new();
    for (hunk, (left, right)) in hunks.iter().enumerate() {
        let (gone, come) = changed_lines(&old_lines[left.clone()], &new_lines[right.clone()]);
        let mut note = |source: &Source<'_>, line: usize, is_new: bool| {
            let place = place_of(source, line);
            if !order.contains(&place) {
                order.push(place.clone());
            }
            let touched = touched.entry(place).or_default().entry(hunk).or_default();
            match is_new {
                true => touched.added.insert(line),
                false => touched.deleted.insert(line),
            };
        };
        gone.iter().for_each(|l| note(&old, left.start + l, false));
        come.iter().for_each(|l| note(&new, right.start + l, true));
    }
    let mut sites = Vec::new();
    for place in order {
        let (unit, other) = (unit_of(&old, &place), unit_of(&new, &place));
        let mut blocks = Vec::new();
        let own = &touched[&place];
        let merged;
        let own = match unit.is_some() && other.is_some() {
            true => own,
            false => {
                merged = Touched::all(own);
                &merged
            }
        };
        for (hunk, touched) in own {
            // Of a function that is made or removed all is new or goes, also lines that a difference takes for
            // another's.
            let all = 0..before.len().max(after.len());
            let (left, right) = match (&unit, &other) {
                (Some(_), Some(_)) => (&hunks[*hunk].0, &hunks[*hunk].1),
                _ => (&all, &all),
            };
            let block = Block {
                hunk: *hunk,
                before: unit.as_ref().map_or(0..0, |u| u.on_lines(left)),
                after: other.as_ref().map_or(0..0, |u| u.on_lines(right)),
                deleted: on(&unit, &touched.deleted),
                added: on(&other, &touched.added),
                says: Default::default(),
                stands: 0..0,
            };
            let labels = |unit: &Option<Unit>, at: &Range<usize>| -> Vec<u64> {
                let tokens = unit.as_ref().map(|u| &u.tokens[at.clone()]);
                tokens.unwrap_or_default().iter().map(|t| t.label).collect()
            };
            // What only comments and layout tell apart is no change.
            if labels(&unit, &block.before) != labels(&other, &block.after) {
                let mut block = widened(block, &unit, &other);
                block.says = [
                    said(&unit, &block.before, before),
                    said(&other, &block.after, after),
                ];
                block.stands = match block.before.is_empty() {
                    false => stands(&unit, &block.before),
                    true => {
                        let hunk = &hunks[*hunk];
                        let at = put_at(&old_lines, &new_lines, hunk, &touched.added);
                        let at = old.place(at);
                        at..at
                    }
                };
                blocks.push(block);
            }
        }
        if !blocks.is_empty() {
            sites.push(Site {
                from: Some(from.to_string()),
                to: Some(to.to_string()),
                place,
                before: unit,
                after: other,
                known: known.clone(),
                blocks,
            });
        }
    }
    sites
}

/// The block with more around it, if its hunk shows few tokens: without any a block cannot be found
/// again. What stands around a hunk is the same on both sides.
fn widened(mut block: Block, unit: &Option<Unit>, other: &Option<Unit>) -> Block {
    const FEW: usize = 24;
    const MORE: usize = 12;
    let (Some(unit), Some(other)) = (unit, other) else {
        return block;
    };
    if block.before.len().min(block.after.len()) >= FEW {
        return block;
    }
    let label = |unit: &Unit, at: usize| unit.tokens[at].label;
    for _ in 0..MORE {
        let (left, right) = (&mut block.before, &mut block.after);
        if left.start > 0
            && right.start > 0
            && label(unit, left.start - 1) == label(other, right.start - 1)
        {
            left.start -= 1;
            right.start -= 1;
        }
        if left.end < unit.tokens.len()
            && right.end < other.tokens.len()
            && label(unit, left.end) == label(other, right.end)
        {
            left.end += 1;
            right.end += 1;
        }
    }
    block
}

/// What stands from the first of these tokens to the last; `text` is the file's.
fn said(unit: &Option<Unit>, tokens: &Range<usize>, text: &[u8]) -> String {
    String::from_utf8_lossy(&text[stands(unit, tokens)]).into_owned()
}

/// The byte of the old file at which a hunk puts the first of the lines that it adds.
fn put_at(
    old: &[&[u8]],
    new: &[&[u8]],
    (left, right): &(Range<usize>, Range<usize>),
    added: &BTreeSet<usize>,
) -> usize {
    let first = added.first().map_or(0, |line| line - right.start);
    let ops = similar::capture_diff_slices(
        similar::Algorithm::Myers,
        &old[left.clone()],
        &new[right.clone()],
    );
    let op = ops.iter().find(|op| op.new_range().contains(&first));
    let before = op.map_or(left.len(), |op| op.old_range().end);
    let lines = &old[..left.start + before];
    lines.iter().map(|line| line.len()).sum()
}

/// The bytes from the first of these tokens to the last.
fn stands(unit: &Option<Unit>, tokens: &Range<usize>) -> Range<usize> {
    let tokens = unit.as_ref().map_or(&[][..], |u| &u.tokens[tokens.clone()]);
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => first.start..last.end,
        _ => 0..0,
    }
}

fn on(unit: &Option<Unit>, lines: &BTreeSet<usize>) -> Vec<usize> {
    let Some(unit) = unit else {
        return Vec::new();
    };
    let tokens = unit.tokens.iter().enumerate();
    let touched = tokens.filter(|(_, t)| lines.range(t.line..=t.last.max(t.line)).next().is_some());
    touched.map(|(at, _)| at).collect()
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|b| *b == b'\n').collect()
}

/// Which lines of either side have no like in the other, in order.
fn changed_lines(old: &[&[u8]], new: &[&[u8]]) -> (Vec<usize>, Vec<usize>) {
    let (mut gone, mut come) = (vec![true; old.len()], vec![true; new.len()]);
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, old, new) {
        if let similar::DiffOp::Equal {
            old_index,
            new_index,
            len,
        } = op
        {
            gone[old_index..old_index + len].fill(false);
            come[new_index..new_index + len].fill(false);
        }
    }
    let which = |flags: Vec<bool>| {
        let all = flags.into_iter().enumerate();
        all.filter(|(_, is)| *is).map(|(at, _)| at).collect()
    };
    (which(gone), which(come))
}

/// In what a line stands.
fn place_of(source: &Source<'_>, line: usize) -> Place {
    let inside = (0..source.functions().len()).find(|at| source.lines_of(*at).contains(&line));
    match inside.map(|at| &source.functions()[at]) {
        Some(function) => Place::Function {
            name: function.name.clone(),
            parameters: function.parameters.clone(),
        },
        None => Place::Outside,
    }
}

fn unit_of(source: &Source<'_>, place: &Place) -> Option<Unit> {
    match place {
        Place::Outside => Some(source.outside()),
        Place::File => Some(source.whole()),
        Place::Function { name, parameters } => {
            let mut functions = source.functions().iter();
            let at = functions.position(|f| f.name == *name && f.parameters == *parameters);
            at.map(|at| source.function(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::diff::read;
    use super::*;

    const BASE: &str = "import os\n\n\ndef f(x):\n    a = x\n    return a\n\n\ndef g(y):\n    b = y\n    return b\n";

    fn edit_of(patch: &str) -> Result<Edit, NoEdit> {
        edit(&read(patch.as_bytes()), |path| {
            (path == "m.py").then(|| BASE.as_bytes().to_vec())
        })
    }

    #[test]
    fn a_hunk_over_two_functions_is_a_block_in_each() {
        let patch = "--- a/m.py\n+++ b/m.py\n@@ -4,7 +4,8 @@\n def f(x):\n     a = x\n-    return a\n+    return a + 1\n \n \n def g(y):\n+    y = y or 0\n     b = y\n";
        let edit = edit_of(patch).unwrap();
        let places: Vec<_> = edit.sites.iter().map(|s| s.place.clone()).collect();
        let function = |name: &str| Place::Function {
            name: name.into(),
            parameters: String::new(),
        };
        assert_eq!(places, [function("f"), function("g")]);
        let [f, g] = &edit.sites[..] else { panic!() };
        assert_eq!((f.blocks.len(), g.blocks.len()), (1, 1));
        // Where a block begins or ends is a token, too.
        assert_eq!((f.blocks[0].deleted.len(), f.blocks[0].added.len()), (3, 5));
        assert_eq!((g.blocks[0].deleted.len(), g.blocks[0].added.len()), (0, 6));
        assert!(edit.left_out.is_empty());
    }

    #[test]
    fn what_changes_no_token_is_trivial_and_counted() {
        let patch = "--- a/m.py\n+++ b/m.py\n@@ -4,3 +4,4 @@\n def f(x):\n+    # Why.\n     a = x\n     return a\n";
        let edit = edit_of(patch).unwrap();
        assert!(edit.sites.is_empty());
        assert_eq!(edit.left_out, [("m.py".to_string(), LeftOut::Trivial)]);
    }

    #[test]
    fn files_that_are_made_and_removed_are_compared_whole() {
        let made = "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+def h():\n+    return 1\n";
        let site = edit_of(made).unwrap().sites.remove(0);
        assert_eq!((site.from, site.place), (None, Place::File));
        assert_eq!(
            (site.blocks[0].deleted.len(), site.blocks[0].added.len()),
            (0, 9)
        );
    }

    #[test]
    fn a_patch_that_does_not_fit_is_told() {
        let patch = "--- a/m.py\n+++ b/m.py\n@@ -4,2 +4,2 @@\n def f(x):\n-    a = z\n+    a = y\n";
        assert_eq!(edit_of(patch).unwrap_err(), NoEdit::Misfit("m.py".into()));
        let other = patch.replace("m.py", "n.py");
        assert_eq!(edit_of(&other).unwrap_err(), NoEdit::NoFile("n.py".into()));
    }

    #[test]
    fn tests_and_documentation_stand_aside_for_code() {
        let test = "--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-a\n+b\n";
        let code = "--- a/m.py\n+++ b/m.py\n@@ -1,1 +1,1 @@\n-import os\n+import re\n";
        let edit = edit_of(&format!("{test}{code}")).unwrap();
        assert_eq!(edit.sites.len(), 1);
        assert_eq!(edit.left_out, [("tests/t.py".to_string(), LeftOut::Test)]);
        assert_eq!(
            edit_of(test).unwrap_err(),
            NoEdit::NoFile("tests/t.py".into())
        );
    }
}
