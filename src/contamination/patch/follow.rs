//! A site of a patch through a line of commits, backwards from the base to the first commit and, leg by
//! leg, forwards to the tip: where its file is renamed or its function moves to another file, it is
//! followed. What is unchanged is not read twice.

use std::sync::Arc;

use super::course::Index;
use super::edit::{Edit, Place, Site};
use super::measure::{Found, Memory, Seen, find, measure, measure_again};
use super::source::{Outline, Source, plain_lines};
use super::walk::{Head, Leg, Stand, Step, Trail, Visit};
use crate::lang::SnippetLanguage;

/// A function is looked for in at most so many other files of a commit.
const MOST_OTHERS: usize = 60;
/// A function in another file is taken for the one that left, if a block is so much alike.
const MOVED: f64 = 0.5;

/// Gives the bytes of an object; nothing if there are too many.
pub type Blobs<'a, E> = &'a mut dyn FnMut(&str) -> Result<Option<Arc<[u8]>>, E>;

/// Gives the functions of an object: of its name, a path at which it is, and its text.
pub type Outlines<'a> = &'a dyn Fn(&str, &str, &[u8]) -> Outline;

/// The first leg of a patch's walk: from the base back to the first commit. `base` is the position whose
/// tree has the base's code, and `file` gives the object of a path in that tree. Nothing behind the base is
/// looked at.
///
/// # Errors
/// What `blobs` and `file` give.
pub fn start<E>(
    edit: &Edit,
    index: &Index,
    base: usize,
    blobs: Blobs<'_, E>,
    outlines: Outlines<'_>,
    file: &mut dyn FnMut(&str) -> Result<Option<String>, E>,
) -> Result<Leg, E> {
    let mut leg = Leg::default();
    leg.walk.base = base;
    leg.walk.left_out = edit.left_out.clone();
    for site in &edit.sites {
        let path = site
            .from
            .clone()
            .or_else(|| site.to.clone())
            .unwrap_or_default();
        let object = file(&path)?;
        let mut follower = Follower::new(site, index, &mut *blobs, outlines);
        let at_base = match object {
            Some(object) => follower.look(&path, &object)?,
            None => nowhere(path),
        };
        let mut end = Stand {
            path: at_base.path.clone(),
            seen: at_base.seen.clone(),
            gone: false,
            touching: 0,
        };
        let mut visits = Vec::new();
        follower.backwards(base, at_base, &mut visits)?;
        visits.reverse();
        end.touching = follower.touching;
        leg.push(site, visits, end);
    }
    Ok(leg)
}

/// A further leg, from where another one has come to, at `from`, to a commit towards the tip. What it gives
/// rests on these commits, the edit and `ends` alone, not on what else was walked before or what comes
/// behind.
///
/// # Errors
/// What `blobs` gives.
pub fn further<E>(
    edit: &Edit,
    index: &Index,
    before: &Leg,
    (from, to): (usize, usize),
    blobs: Blobs<'_, E>,
    outlines: Outlines<'_>,
) -> Result<Leg, E> {
    let mut leg = Leg::default();
    leg.walk.base = before.walk.base;
    for (site, end) in edit.sites.iter().zip(&before.ends) {
        let mut follower = Follower::new(site, index, &mut *blobs, outlines);
        follower.gone = end.gone;
        follower.touching = end.touching;
        let start = Spot {
            path: end.path.clone(),
            object: String::new(),
            seen: end.seen.clone(),
        };
        let mut visits = Vec::new();
        let last = follower.forwards(from, to, start, &mut visits)?;
        let end = Stand {
            path: last.path,
            seen: last.seen,
            gone: follower.gone,
            touching: follower.touching,
        };
        leg.push(site, visits, end);
    }
    Ok(leg)
}

impl Leg {
    fn push(&mut self, site: &Site, visits: Vec<Visit>, end: Stand) {
        let mut trail = Trail {
            head: Head::of(site),
            visits,
        };
        trail.settle();
        self.walk.trails.push(trail);
        self.walk.touching = self.walk.touching.max(end.touching);
        self.ends.push(end);
    }
}

struct Follower<'a, E> {
    site: &'a Site,
    index: &'a Index,
    blobs: Blobs<'a, E>,
    outlines: Outlines<'a>,
    touching: usize,
    /// The last text in which something was seen, and the bytes of the function there.
    known: Option<(Seen, Vec<u8>)>,
    /// Whether the function was not in the text that was looked at last.
    gone: bool,
    /// What is remembered of the texts that were looked at.
    memory: Memory,
}

/// Where the site is after, or before, a commit.
struct Spot {
    path: String,
    object: String,
    seen: Seen,
}

impl<'a, E> Follower<'a, E> {
    fn new(
        site: &'a Site,
        index: &'a Index,
        blobs: Blobs<'a, E>,
        outlines: Outlines<'a>,
    ) -> Follower<'a, E> {
        Follower {
            site,
            index,
            blobs,
            outlines,
            touching: 0,
            known: None,
            gone: false,
            memory: Memory::default(),
        }
    }

    /// Visits behind `from` up to `to`, and where it is then.
    fn forwards(
        &mut self,
        from: usize,
        to: usize,
        start: Spot,
        visits: &mut Vec<Visit>,
    ) -> Result<Spot, E> {
        let (mut at, mut spot) = (from, start);
        loop {
            let Some(next) = self.index.next(&spot.path, at, to) else {
                return Ok(spot);
            };
            at = next;
            self.touching += 1;
            let step = step_of(self.index, at, &spot.path, false);
            let to = step.and_then(|s| s.to.clone());
            let there = !matches!(spot.seen.found, Found::Gone | Found::NoFile);
            let mut new = match to {
                Some((path, object)) => {
                    let path = self.index.path(at, path).to_string();
                    self.look(&path, &object)?
                }
                None => nowhere(spot.path.clone()),
            };
            if there && is_lost(&spot.seen, &new.seen) {
                new = self.elsewhere(at, &new, false)?.unwrap_or(new);
            }
            spot = new;
            visits.push(spot.visit(at));
        }
    }

    /// Visits from the base back, each at the commit that made what was seen.
    fn backwards(&mut self, base: usize, start: Spot, visits: &mut Vec<Visit>) -> Result<(), E> {
        let (mut until, mut spot) = (base + 1, start);
        loop {
            let Some(at) = self.index.previous(&spot.path, until) else {
                visits.push(spot.visit(0));
                return Ok(());
            };
            self.touching += 1;
            visits.push(spot.visit(at));
            until = at;
            let step = step_of(self.index, at, &spot.path, true);
            let from = step.and_then(|s| s.from.clone());
            let there = !matches!(spot.seen.found, Found::Gone | Found::NoFile);
            let mut old = match from {
                Some((path, object)) => {
                    let path = self.index.path(at, path).to_string();
                    self.look(&path, &object)?
                }
                None => nowhere(spot.path.clone()),
            };
            if there && is_lost(&spot.seen, &old.seen) {
                old = self.elsewhere(at, &old, true)?.unwrap_or(old);
            }
            spot = old;
            if at == 0 {
                return Ok(());
            }
        }
    }

    /// What an object says of the site.
    fn look(&mut self, path: &str, object: &str) -> Result<Spot, E> {
        let bytes = (self.blobs)(object)?;
        let spot = |seen| Spot {
            path: path.to_string(),
            object: object.to_string(),
            seen,
        };
        let Some(bytes) = bytes.filter(|b| !b.contains(&0)) else {
            return Ok(nowhere(path.to_string()));
        };
        let text = plain_lines(&bytes);
        if let Some((seen, function)) = &self.known
            && occurs_once(&text, function)
        {
            let mut seen = seen.clone();
            let start = bstr::ByteSlice::find(&text[..], function).unwrap_or_default();
            moved_to(&mut seen, &text, start, function.len());
            return Ok(spot(seen));
        }
        // Under another name it was looked for when it left. Until its own is there again it need not
        // be: most of a long history is from before a function was written.
        if self.gone && !self.is_named(&text) {
            return Ok(spot(Seen {
                found: Found::Gone,
                blocks: Vec::new(),
            }));
        }
        let functions = (self.outlines)(object, path, &text);
        let source = Source::outlined(path, &text, functions);
        let seen = measure_again(self.site, &source, &mut self.memory);
        self.gone = seen.found == Found::Gone;
        self.known = anchor(self.site, &source, &seen);
        Ok(spot(seen))
    }

    /// Whether the text has the function's name, or the site is no function.
    fn is_named(&self, text: &[u8]) -> bool {
        match &self.site.place {
            Place::Function { name, .. } => {
                let last = name.rsplit(['.', ':']).next().unwrap_or(name);
                bstr::ByteSlice::contains_str(text, last)
            }
            Place::Outside | Place::File => true,
        }
    }

    /// The function in another file of the same commit, in the same language, if it is more alike
    /// there than what was found in its own.
    fn elsewhere(&mut self, at: usize, own: &Spot, before: bool) -> Result<Option<Spot>, E> {
        let Place::Function { name, .. } = &self.site.place else {
            return Ok(None);
        };
        let name = name.rsplit(['.', ':']).next().unwrap_or(name).to_string();
        let path = &own.path;
        let language = SnippetLanguage::of_path(path).map(SnippetLanguage::group);
        let mut best: Option<(f64, Spot)> = None;
        let enough = alike(&own.seen).max(MOVED);
        let mut left = MOST_OTHERS;
        for step in self.index.steps(at) {
            let side = match before {
                true => &step.from,
                false => &step.to,
            };
            let Some((place, object)) = side else {
                continue;
            };
            let other = self.index.path(at, *place).to_string();
            let same = SnippetLanguage::of_path(&other).map(SnippetLanguage::group) == language;
            if other == *path || !same || left == 0 {
                continue;
            }
            left -= 1;
            let Some(bytes) = (self.blobs)(object)? else {
                continue;
            };
            let text = plain_lines(&bytes);
            if !bstr::ByteSlice::contains_str(&text[..], &name) {
                continue;
            }
            let functions = (self.outlines)(object, &other, &text);
            let source = Source::outlined(&other, &text, functions);
            let seen = measure(self.site, &source);
            let alike = alike(&seen);
            if alike >= enough && best.as_ref().is_none_or(|(known, _)| alike > *known) {
                best = Some((
                    alike,
                    Spot {
                        path: other,
                        object: object.clone(),
                        seen,
                    },
                ));
            }
        }
        self.known = None;
        self.gone &= best.is_none();
        Ok(best.map(|(_, spot)| spot))
    }
}

impl Spot {
    fn visit(&self, at: usize) -> Visit {
        Visit {
            at,
            path: self.path.clone(),
            object: self.object.clone(),
            seen: self.seen.clone(),
        }
    }
}

/// How like what was found is to the patch, whichever side of it; 0 if nothing was found.
fn alike(seen: &Seen) -> f64 {
    let blocks = seen.blocks.iter().map(|m| m.before.max(m.after));
    blocks.reduce(f64::min).unwrap_or(0.0)
}

/// Whether a function that was there has left its file; what took a new name there may be another.
fn is_lost(was: &Seen, is: &Seen) -> bool {
    match is.found {
        Found::Gone | Found::NoFile => true,
        Found::Renamed(_) => is.found != was.found && alike(is) < alike(was),
        Found::Same => false,
    }
}

fn nowhere(path: String) -> Spot {
    Spot {
        path,
        object: String::new(),
        seen: Seen {
            found: Found::NoFile,
            blocks: Vec::new(),
        },
    }
}

/// What a commit does to a path: seen from after it, or from before it.
fn step_of<'a>(index: &'a Index, at: usize, path: &str, after: bool) -> Option<&'a Step> {
    let is = |side: &Option<(u32, String)>| {
        side.as_ref()
            .is_some_and(|(p, _)| index.path(at, *p) == path)
    };
    let steps = index.steps(at).iter();
    let own = |step: &&Step| match after {
        true => is(&step.to),
        false => is(&step.from),
    };
    let first = steps.clone().find(own);
    // A file that comes where there was none, or that goes.
    first.or_else(|| {
        steps.clone().find(|step| match after {
            true => is(&step.from) && step.to.is_none(),
            false => is(&step.to),
        })
    })
}

/// The bytes that decide what was seen, if they are those of one function.
fn anchor(site: &Site, source: &Source<'_>, seen: &Seen) -> Option<(Seen, Vec<u8>)> {
    let at = find(site, source)?;
    let range = &source.functions()[at].range;
    let inside = |m: &super::measure::Measure| {
        m.regions
            .iter()
            .all(|r| r.is_empty() || range.start <= r.start && r.end <= range.end)
    };
    let own = seen.blocks.iter().all(inside);
    own.then(|| {
        let mut seen = seen.clone();
        // Relative to the function, until it is found again.
        for m in &mut seen.blocks {
            m.line -= source.line(range.start).min(m.line - 1);
            for region in &mut m.regions {
                if region.start < region.end {
                    *region = region.start - range.start..region.end - range.start;
                }
            }
        }
        (seen, source.bytes(at).to_vec())
    })
}

fn occurs_once(text: &[u8], function: &[u8]) -> bool {
    let mut places = bstr::ByteSlice::find_iter(text, function);
    !function.is_empty() && places.next().is_some() && places.next().is_none()
}

/// Puts what was seen within a function where the function is.
fn moved_to(seen: &mut Seen, text: &[u8], start: usize, length: usize) {
    let lines = text[..start].iter().filter(|b| **b == b'\n').count();
    for m in &mut seen.blocks {
        m.line += lines;
        for region in &mut m.regions {
            if region.start < region.end && region.end <= length {
                *region = region.start + start..region.end + start;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::super::category::stays;
    use super::super::course::{Stretch, stretches};
    use super::super::decide::Thresholds;
    use super::super::diff::read;
    use super::super::edit::edit;
    use super::super::source::outline;
    use super::super::walk::{Changes, Walk};
    use super::*;

    const BUGGY: &str =
        "int get(const int *v, int n, int i)\n{\n    int found = v[i];\n    return found;\n}\n";
    const OTHER: &str = "\nint last(const int *v, int n)\n{\n    return get(v, n, n - 1);\n}\n";
    const PATCH: &str = "--- a/a.c\n+++ b/a.c\n@@ -1,5 +1,7 @@\n int get(const int *v, int n, int i)\n {\n+    if (i < 0 || i >= n)\n+        return -1;\n     int found = v[i];\n     return found;\n }\n";

    fn fixed() -> String {
        let file = &read(PATCH.as_bytes()).files[0];
        String::from_utf8(file.apply(BUGGY.as_bytes()).unwrap()).unwrap()
    }

    type Tree = BTreeMap<&'static str, String>;

    /// What the commits of a line change that have these trees. Renames are files of the same text.
    fn changes(trees: &[Tree]) -> Changes {
        let mut paths: Vec<String> = Vec::new();
        let mut place = |path: &str| {
            let known = paths.iter().position(|p| p == path);
            known.unwrap_or_else(|| {
                paths.push(path.to_string());
                paths.len() - 1
            }) as u32
        };
        let mut commits = Vec::new();
        for at in 0..trees.len() {
            let old = at
                .checked_sub(1)
                .map(|b| trees[b].clone())
                .unwrap_or_default();
            let mut steps = Vec::new();
            let mut gone: Vec<_> = old.keys().filter(|p| !trees[at].contains_key(*p)).collect();
            for (path, text) in &trees[at] {
                let object = |p: &str, t: &String| Some((p.to_string(), t.clone()));
                let from = match old.get(path) {
                    Some(same) if same == text => continue,
                    Some(was) => object(path, was),
                    None => gone.iter().position(|p| old[**p] == *text).map(|i| {
                        let p = gone.remove(i);
                        (p.to_string(), old[p].clone())
                    }),
                };
                steps.push(Step {
                    from: from.map(|(p, t)| (place(&p), t)),
                    to: Some((place(path), text.clone())),
                });
            }
            for path in gone {
                steps.push(Step {
                    from: Some((place(path), old[path].clone())),
                    to: None,
                });
            }
            commits.push(steps);
        }
        Changes { paths, commits }
    }

    fn index(trees: &[Tree], length: usize) -> Index {
        let Changes { paths, commits } = changes(trees);
        let stretch = |range: std::ops::Range<usize>| {
            let (first, paths) = (range.start, paths.clone());
            let commits = commits[range].to_vec();
            Arc::new(Stretch::new(first, Changes { paths, commits }))
        };
        Index::new(
            stretches(trees.len(), length).map(stretch).collect(),
            length,
        )
    }

    fn edit_of(trees: &[Tree], base: usize) -> Edit {
        let diff = read(PATCH.as_bytes());
        edit(&diff, |path| Some(trees[base][path].clone().into_bytes())).unwrap()
    }

    /// The legs that were walked before, by what they rest on, and how often one was walked.
    #[derive(Default)]
    struct Legs(BTreeMap<String, Leg>, usize);

    /// The walk of the patch through the line, in stretches of this length; of `legs` what rests on the same
    /// is taken.
    fn walked_in(trees: &[Tree], base: usize, length: usize, legs: &mut Legs) -> Walk {
        let index = index(trees, length);
        let edit = edit_of(trees, base);
        let mut blobs = |object: &str| Ok::<_, Infallible>(Some(Arc::from(object.as_bytes())));
        let outlines = |_: &str, path: &str, text: &[u8]| outline(path, text);
        let mut known = |key: String, leg: &mut dyn FnMut() -> Leg| {
            let Legs(all, walked) = &mut *legs;
            let new = || {
                *walked += 1;
                leg()
            };
            all.entry(key).or_insert_with(new).clone()
        };
        let mut leg = known(format!("{:?}", &trees[..=base]), &mut || {
            let mut file = |path: &str| Ok(trees[base].get(path).cloned());
            start(&edit, &index, base, &mut blobs, &outlines, &mut file).unwrap()
        });
        let mut walk = leg.walk.clone();
        let mut from = base;
        while let Some(to) = index.further(&leg.ends, from) {
            // What a job's key has: what it goes on from, and the commit, which stands for all before it.
            let key = format!("{:?} {from} {:?}", leg.encode(), &trees[..=to]);
            leg = known(key, &mut || {
                further(&edit, &index, &leg, (from, to), &mut blobs, &outlines).unwrap()
            });
            walk.extend(&leg.walk);
            from = to;
        }
        walk
    }

    fn walked(trees: &[Tree], base: usize) -> Walk {
        walked_in(trees, base, 256, &mut Legs::default())
    }

    fn there(trees: &[Tree], base: usize) -> Vec<(usize, Option<usize>)> {
        let walk = walked(trees, base);
        let stays = stays(&walk.states(&Thresholds::default()));
        stays.iter().map(|s| (s.from, s.until)).collect()
    }

    fn tree(files: &[(&'static str, &str)]) -> Tree {
        files.iter().map(|(p, t)| (*p, t.to_string())).collect()
    }

    #[test]
    fn a_fix_is_there_from_its_commit_to_its_removal() {
        let (old, new) = (format!("{BUGGY}{OTHER}"), format!("{}{OTHER}", fixed()));
        let more = format!("{new}\nint one(void)\n{{\n    return 1;\n}}\n");
        let trees = [
            tree(&[("b.c", "int x;\n")]),
            tree(&[("a.c", &old)]),
            tree(&[("a.c", &old), ("b.c", "int y;\n")]),
            tree(&[("a.c", &new)]),
            tree(&[("a.c", &more)]),
            tree(&[("a.c", &old)]),
            tree(&[]),
        ];
        assert_eq!(there(&trees[..5], 1), [(3, None)]);
        assert_eq!(there(&trees, 2), [(3, Some(5))]);
    }

    #[test]
    fn files_that_are_renamed_and_functions_that_move_are_followed() {
        let (old, new) = (format!("{BUGGY}{OTHER}"), format!("{}{OTHER}", fixed()));
        let trees = [
            tree(&[("was.c", &old)]),
            tree(&[("a.c", &old)]),
            tree(&[("a.c", &new)]),
            tree(&[("new.c", &new)]),
            tree(&[("new.c", OTHER), ("get.c", &fixed())]),
            tree(&[("new.c", OTHER), ("get.c", BUGGY)]),
        ];
        assert_eq!(there(&trees, 1), [(2, Some(5))]);
        let walk = walked(&trees, 1);
        let paths: Vec<_> = walk.trails[0]
            .visits
            .iter()
            .map(|v| (v.at, &*v.path))
            .collect();
        assert_eq!(
            paths,
            [
                (0, "was.c"),
                (1, "a.c"),
                (2, "a.c"),
                (3, "new.c"),
                (4, "get.c"),
                (5, "get.c")
            ]
        );
    }

    #[test]
    fn a_function_that_is_not_there_yet_or_comes_back_is_seen_when_it_is() {
        const ONE: &str = "int one(void)\n{\n    return 1;\n}\n";
        const TWO: &str = "int two(void)\n{\n    return 2;\n}\n";
        let both = format!("{ONE}{TWO}");
        let files = [ONE, &both, BUGGY, &fixed(), ONE, &both, &fixed(), TWO, ONE];
        let trees = files.map(|text| tree(&[("a.c", text)]));
        assert_eq!(there(&trees, 2), [(3, Some(4)), (6, Some(7))]);
        let walk = walked(&trees, 2);
        let gone = |v: &&Visit| v.seen.found == Found::Gone;
        let gone: Vec<usize> = walk.trails[0]
            .visits
            .iter()
            .filter(gone)
            .map(|v| v.at)
            .collect();
        assert_eq!(gone, [0, 4, 7], "what looks the same again is one visit");
    }

    #[test]
    fn what_is_recognised_without_reading_it_again_stands_where_it_is() {
        let new = format!("{}{OTHER}", fixed());
        let lower = format!("int x;\nint y;\n{new}");
        let trees = [
            tree(&[("a.c", &format!("{BUGGY}{OTHER}"))]),
            tree(&[("a.c", &new)]),
            tree(&[("a.c", &lower)]),
        ];
        let walk = walked(&trees, 0);
        let last = &walk.trails[0].visits.last().unwrap().seen.blocks[0];
        let text = &lower[last.regions[1].clone()];
        assert_eq!(last.line, 3);
        assert!(text.starts_with("int get") && text.ends_with('}'), "{text}");
    }

    /// Histories of two files whose texts come and go, with and without the fix, move and are renamed.
    fn histories() -> impl Strategy<Value = (Vec<Tree>, usize)> {
        let texts = || {
            let fix = fixed();
            prop::sample::select(vec![
                String::new(),
                BUGGY.to_string(),
                format!("{BUGGY}{OTHER}"),
                fix.clone(),
                format!("{fix}{OTHER}"),
                format!("int x;\n{fix}{OTHER}"),
                fix.replace("return -1", "return 0"),
                fix.replace("get", "fetch"),
                BUGGY.replace("found", "value"),
                OTHER.to_string(),
                "int x;\n".to_string(),
                "int y;\n".to_string(),
            ])
        };
        let tree = (texts(), texts(), texts()).prop_map(|(a, b, c)| {
            let files = [("a.c", a), ("b.c", b), ("c.c", c)].into_iter();
            files.filter(|(_, text)| !text.is_empty()).collect::<Tree>()
        });
        (prop::collection::vec(tree, 2..14), 0_usize..14).prop_map(|(mut trees, base)| {
            let base = base % trees.len();
            let text = format!("{BUGGY}{OTHER}");
            trees[base].insert("a.c", text);
            (trees, base)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A history that grows commit by commit is walked as if it had always been there, and where the
        /// stretches are cut makes no difference to what is seen.
        #[test]
        fn a_walk_in_steps_is_the_walk_at_once((trees, base) in histories(), length in 1_usize..6) {
            let mut legs = Legs::default();
            for tip in base..trees.len() {
                let trees = &trees[..=tip];
                let steps = walked_in(trees, base, length, &mut legs);
                let before = legs.1;
                prop_assert_eq!(&walked_in(trees, base, length, &mut legs), &steps);
                prop_assert_eq!(legs.1, before, "the same tip walks nothing");
                let cold = walked_in(trees, base, length, &mut Legs::default());
                prop_assert_eq!(steps.encode(), cold.encode());
                prop_assert_eq!(&steps, &walked(trees, base), "{}", length);
            }
        }
    }

    #[test]
    fn commits_beside_a_patch_walk_nothing_and_others_only_the_last_leg() {
        let (old, new) = (format!("{BUGGY}{OTHER}"), format!("{}{OTHER}", fixed()));
        let mut trees = vec![tree(&[("a.c", &old)])];
        trees.extend((0..9).map(|n| tree(&[("a.c", &format!("{old}int x{n};\n"))])));
        let mut legs = Legs::default();
        let mut walks = |trees: &[Tree]| {
            let before = legs.1;
            let walk = walked_in(trees, 0, 4, &mut legs);
            (legs.1 - before, walk)
        };
        // Back to the first commit, and one leg for each stretch: 1 to 3, 4 to 7, 8 and 9.
        assert_eq!(walks(&trees).0, 4);
        let mut beside = trees.last().unwrap().clone();
        beside.insert("b.c", "int y;\n".into());
        trees.push(beside);
        assert_eq!(walks(&trees).0, 0);
        let mut fix = trees.last().unwrap().clone();
        fix.insert("a.c", new);
        trees.push(fix);
        let (n, walk) = walks(&trees);
        assert_eq!(n, 1);
        let stays = stays(&walk.states(&Thresholds::default()));
        assert_eq!(stays.iter().map(|s| s.from).collect::<Vec<_>>(), [11]);
    }
}
