//! Which nodes of two trees are the same things: GumTree, after Falleri and others, "Fine-grained and
//! accurate source code differencing", 2014. Top-down, the greatest isomorphic subtrees; bottom-up,
//! containers most of whose nodes are mapped already; and within small containers, what the edit
//! distance keeps.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::edit_distance::edit_distance;
use super::tree::Tree;

/// What the algorithm may do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Subtrees that are not so high are not mapped top-down.
    pub min_height: u32,
    /// Containers are mapped if so large a share of their nodes is mapped to each other.
    pub min_dice: f64,
    /// Within containers of more nodes the edit distance is not asked.
    pub max_size: usize,
}

impl Default for Settings {
    /// Those of the paper, but for the dice, which our specification sets.
    fn default() -> Self {
        Settings {
            min_height: 2,
            min_dice: 0.5,
            max_size: 100,
        }
    }
}

/// Pairs of nodes: one to one, and of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    to: Vec<Option<usize>>,
    from: Vec<Option<usize>>,
}

impl Mapping {
    fn new(a: &Tree, b: &Tree) -> Mapping {
        Mapping {
            to: vec![None; a.len()],
            from: vec![None; b.len()],
        }
    }

    /// The node of the second tree that a node of the first is mapped to.
    pub fn to(&self, x: usize) -> Option<usize> {
        self.to[x]
    }

    /// The node of the first tree that is mapped to a node of the second.
    pub fn from(&self, y: usize) -> Option<usize> {
        self.from[y]
    }

    /// All pairs, in the order of the first tree.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let pairs = self.to.iter().enumerate();
        pairs.filter_map(|(x, y)| Some((x, (*y)?)))
    }

    fn put(&mut self, x: usize, y: usize) {
        if self.to[x].is_none() && self.from[y].is_none() {
            self.to[x] = Some(y);
            self.from[y] = Some(x);
        }
    }

    /// Maps all nodes of two isomorphic subtrees.
    fn put_all(&mut self, a: &Tree, x: usize, b: &Tree, y: usize) {
        for step in 0..=a.below(x).min(b.below(y)) {
            self.put(x + step, y + step);
        }
    }

    /// How much of what is below two nodes is mapped to each other, from 0 to 1.
    fn dice(&self, a: &Tree, x: usize, b: &Tree, y: usize) -> f64 {
        let inside = y + 1..b.node(y).end;
        let common = (x + 1..a.node(x).end)
            .filter(|v| self.to[*v].is_some_and(|w| inside.contains(&w)))
            .count();
        match a.below(x) + b.below(y) {
            0 => 0.0,
            all => 2.0 * common as f64 / all as f64,
        }
    }
}

/// The mapping of two trees.
pub fn gumtree(a: &Tree, b: &Tree, settings: &Settings) -> Mapping {
    let mut mapping = top_down(a, b, settings);
    bottom_up(a, b, settings, &mut mapping);
    mapping
}

/// Maps the greatest isomorphic subtrees, the highest first. Where there are several to choose from,
/// those whose parents have most in common, then those that come first.
pub fn top_down(a: &Tree, b: &Tree, settings: &Settings) -> Mapping {
    let mut mapping = Mapping::new(a, b);
    let mut several: Vec<(usize, usize)> = Vec::new();
    let mut queues = [Queue::default(), Queue::default()];
    if let (false, false) = (a.is_empty(), b.is_empty()) {
        queues[0].push(a, 0, settings);
        queues[1].push(b, 0, settings);
    }
    while let (Some(high), Some(tall)) = (queues[0].top(), queues[1].top()) {
        if high != tall {
            let (queue, tree) = match high > tall {
                true => (&mut queues[0], a),
                false => (&mut queues[1], b),
            };
            for at in queue.pop() {
                queue.push_children(tree, at, settings);
            }
            continue;
        }
        let [left, right] = &mut queues;
        let (mine, theirs) = (left.pop(), right.pop());
        let mut groups: HashMap<u64, [Vec<usize>; 2]> = HashMap::new();
        for x in &mine {
            groups.entry(a.node(*x).hash).or_default()[0].push(*x);
        }
        for y in &theirs {
            groups.entry(b.node(*y).hash).or_default()[1].push(*y);
        }
        for x in &mine {
            match &groups[&a.node(*x).hash] {
                [_, none] if none.is_empty() => left.push_children(a, *x, settings),
                [one, other] if one.len() == 1 && other.len() == 1 => {
                    mapping.put_all(a, *x, b, other[0]);
                }
                [_, all] => several.extend(all.iter().map(|y| (*x, *y))),
            }
        }
        for y in &theirs {
            if groups[&b.node(*y).hash][0].is_empty() {
                right.push_children(b, *y, settings);
            }
        }
    }
    choose(a, b, several, &mut mapping);
    mapping
}

/// Of subtrees that are alike, maps those with the most similar parents first.
fn choose(a: &Tree, b: &Tree, several: Vec<(usize, usize)>, mapping: &mut Mapping) {
    let mut ranked: Vec<_> = several
        .into_iter()
        .map(|(x, y)| {
            let (up, above) = (a.node(x).parent, b.node(y).parent);
            let alike = mapping.dice(a, up, b, above);
            // The greater first, then the nearer to where it was.
            let far = x.abs_diff(y);
            (std::cmp::Reverse((alike * 1e6) as u64), far, x, y)
        })
        .collect();
    ranked.sort_unstable();
    for (_, _, x, y) in ranked {
        if mapping.to[x].is_none() && mapping.from[y].is_none() {
            mapping.put_all(a, x, b, y);
        }
    }
}

/// Maps what contains mapped nodes, and what is left within small containers.
fn bottom_up(a: &Tree, b: &Tree, settings: &Settings, mapping: &mut Mapping) {
    if a.is_empty() || b.is_empty() {
        return;
    }
    for x in a.postorder() {
        let is_root = x == 0;
        if mapping.to[x].is_some() || a.below(x) == 0 && !is_root {
            continue;
        }
        let chosen = match is_root && mapping.from[0].is_none() {
            true if a.node(0).kind == b.node(0).kind => Some(0),
            _ => container(a, x, b, settings, mapping),
        };
        let Some(y) = chosen else {
            continue;
        };
        mapping.put(x, y);
        if a.below(x) < settings.max_size && b.below(y) < settings.max_size {
            recover(a, x, b, y, mapping);
        }
    }
}

/// The node with most in common with `x` among those above the nodes that what is below `x` is
/// mapped to.
fn container(
    a: &Tree,
    x: usize,
    b: &Tree,
    settings: &Settings,
    mapping: &Mapping,
) -> Option<usize> {
    let mut seen = BTreeSet::new();
    for v in x + 1..a.node(x).end {
        let Some(mut w) = mapping.to[v] else {
            continue;
        };
        while w != 0 {
            w = b.node(w).parent;
            if !seen.insert(w) {
                break;
            }
        }
    }
    let fits = |y: &usize| mapping.from[*y].is_none() && b.node(*y).kind == a.node(x).kind;
    let ranked = seen.into_iter().filter(fits).map(|y| {
        let dice = mapping.dice(a, x, b, y);
        (dice, y)
    });
    let best = ranked.fold(None, |best: Option<(f64, usize)>, one| match best {
        Some(known) if known.0 >= one.0 => Some(known),
        _ => Some(one),
    });
    best.filter(|(dice, _)| *dice >= settings.min_dice)
        .map(|(_, y)| y)
}

/// Maps what the edit distance keeps of what is not mapped yet.
fn recover(a: &Tree, x: usize, b: &Tree, y: usize, mapping: &mut Mapping) {
    let (_, kept) = edit_distance(a, x, b, y);
    for (v, w) in kept {
        mapping.put(v, w);
    }
}

/// Nodes that are still to be looked at, by height.
#[derive(Default)]
struct Queue(BTreeMap<u32, Vec<usize>>);

impl Queue {
    fn push(&mut self, tree: &Tree, at: usize, settings: &Settings) {
        let height = tree.node(at).height;
        if height >= settings.min_height {
            self.0.entry(height).or_default().push(at);
        }
    }

    fn push_children(&mut self, tree: &Tree, at: usize, settings: &Settings) {
        for child in tree.children(at) {
            self.push(tree, child, settings);
        }
    }

    fn top(&self) -> Option<u32> {
        self.0.last_key_value().map(|(height, _)| *height)
    }

    fn pop(&mut self) -> Vec<usize> {
        let mut nodes = self
            .0
            .pop_last()
            .map(|(_, nodes)| nodes)
            .unwrap_or_default();
        nodes.sort_unstable();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tree::tests::{same, trees};
    use super::*;

    /// Top-down by looking at every pair of nodes: a pair is mapped at once if each is the only one
    /// like the other outside of what is mapped; the rest is chosen among as above.
    fn naive(a: &Tree, b: &Tree, settings: &Settings) -> Mapping {
        let mut mapping = Mapping::new(a, b);
        let mut several = Vec::new();
        let mut aside: [Vec<usize>; 2] = Default::default();
        let tallest = a.node(0).height.min(b.node(0).height);
        for height in (settings.min_height..=tallest).rev() {
            // A node counts unless it is below one that something is like.
            let open = |tree: &Tree, aside: &[usize]| -> Vec<usize> {
                let free = |at: &usize| {
                    !aside
                        .iter()
                        .any(|top| (*top..tree.node(*top).end).contains(at))
                };
                let all = (0..tree.len()).filter(|at| tree.node(*at).height == height);
                all.filter(free).collect()
            };
            let (mine, theirs) = (open(a, &aside[0]), open(b, &aside[1]));
            for x in &mine {
                let alike: Vec<usize> = theirs
                    .iter()
                    .copied()
                    .filter(|y| same(a, *x, b, *y))
                    .collect();
                let rivals = mine.iter().filter(|v| same(a, **v, a, *x)).count();
                match (rivals, &alike[..]) {
                    (_, []) => continue,
                    (1, [y]) => {
                        for step in 0..=a.below(*x) {
                            mapping.put(x + step, y + step);
                        }
                    }
                    _ => several.extend(alike.iter().map(|y| (*x, *y))),
                }
                aside[0].push(*x);
                aside[1].extend(alike);
            }
        }
        choose(a, b, several, &mut mapping);
        mapping
    }

    proptest! {
        #[test]
        fn top_down_finds_what_comparing_all_pairs_finds(a in trees(24), b in trees(24)) {
            let settings = Settings::default();
            prop_assert_eq!(top_down(&a, &b, &settings), naive(&a, &b, &settings));
        }

        #[test]
        fn what_is_mapped_top_down_is_isomorphic(a in trees(24), b in trees(24)) {
            for (x, y) in top_down(&a, &b, &Settings::default()).pairs() {
                prop_assert!(same(&a, x, &b, y));
            }
        }

        #[test]
        fn mappings_are_one_to_one_and_keep_kinds(a in trees(40), b in trees(40)) {
            let mapping = gumtree(&a, &b, &Settings::default());
            for (x, y) in mapping.pairs() {
                prop_assert_eq!(mapping.from(y), Some(x));
                prop_assert_eq!(a.node(x).kind, b.node(y).kind);
            }
            for y in 0..b.len() {
                prop_assert!(mapping.from(y).is_none_or(|x| mapping.to(x) == Some(y)));
            }
            // What was found top-down stays.
            for (x, y) in top_down(&a, &b, &Settings::default()).pairs() {
                prop_assert_eq!(mapping.to(x), Some(y));
            }
        }

        #[test]
        fn a_tree_is_mapped_to_itself_whole(a in trees(40)) {
            let mapping = gumtree(&a, &a, &Settings::default());
            prop_assert_eq!(mapping.pairs().count(), a.len());
        }
    }
}
