//! The edit distance of two ordered trees, and which nodes it keeps: Zhang and Shasha, "Simple fast
//! algorithms for the editing distance between trees and related problems", 1989.
//!
//! Inserting and deleting cost 1, another label costs 1, and a node never becomes one of another
//! kind: deleting and inserting is as cheap, so that the distance is the same and kinds are kept.

use super::tree::Tree;

/// A subtree in postorder, as the algorithm numbers it.
struct Ordered {
    /// Places in the tree.
    places: Vec<usize>,
    /// For each node the number of the leftmost leaf below it.
    leftmost: Vec<usize>,
    /// The numbers of the nodes that are nobody's leftmost child, and of the root.
    keyroots: Vec<usize>,
}

impl Ordered {
    fn of(tree: &Tree, root: usize) -> Ordered {
        let mut places = Vec::new();
        let mut leftmost = Vec::new();
        // Nodes that are open, each with the number of its leftmost leaf, once that is known.
        let mut open: Vec<(usize, Option<usize>)> = Vec::new();
        let close = |open: &mut Vec<(usize, Option<usize>)>,
                     places: &mut Vec<usize>,
                     leftmost: &mut Vec<usize>| {
            let Some((at, first)) = open.pop() else {
                return;
            };
            let first = first.unwrap_or(places.len());
            places.push(at);
            leftmost.push(first);
            if let Some((_, up)) = open.last_mut() {
                up.get_or_insert(first);
            }
        };
        for at in root..tree.node(root).end {
            while open
                .last()
                .is_some_and(|(last, _)| tree.node(*last).end <= at)
            {
                close(&mut open, &mut places, &mut leftmost);
            }
            open.push((at, None));
        }
        while !open.is_empty() {
            close(&mut open, &mut places, &mut leftmost);
        }
        let n = places.len();
        let keyroots = (0..n).filter(|i| !leftmost[i + 1..].contains(&leftmost[*i]));
        Ordered {
            keyroots: keyroots.collect(),
            places,
            leftmost,
        }
    }
}

/// What it costs to make node `x` of `a` into node `y` of `b`.
fn relabel(a: &Tree, x: usize, b: &Tree, y: usize) -> u32 {
    let (m, n) = (a.node(x), b.node(y));
    match (m.kind == n.kind, m.label == n.label) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    }
}

/// The distance between the subtrees at `x` and `y`, and the pairs of nodes that are kept, those of
/// one kind only. Takes time and room of the product of both sizes, times both heights at worst.
pub fn edit_distance(a: &Tree, x: usize, b: &Tree, y: usize) -> (u32, Vec<(usize, usize)>) {
    let (left, right) = (Ordered::of(a, x), Ordered::of(b, y));
    let (m, n) = (left.places.len(), right.places.len());
    let mut trees = vec![vec![0_u32; n]; m];
    for &i in &left.keyroots {
        for &j in &right.keyroots {
            let forest = forests(a, b, &left, &right, i, j, &trees);
            let (li, lj) = (left.leftmost[i], right.leftmost[j]);
            for p in li..=i {
                for q in lj..=j {
                    if left.leftmost[p] == li && right.leftmost[q] == lj {
                        trees[p][q] = forest[p - li + 1][q - lj + 1];
                    }
                }
            }
        }
    }
    let mut kept = Vec::new();
    let mut todo = vec![(m - 1, n - 1)];
    while let Some((i, j)) = todo.pop() {
        let forest = forests(a, b, &left, &right, i, j, &trees);
        let (li, lj) = (left.leftmost[i], right.leftmost[j]);
        let (mut p, mut q) = (i + 1 - li, j + 1 - lj);
        while p > 0 && q > 0 {
            if forest[p][q] == forest[p - 1][q] + 1 {
                p -= 1;
                continue;
            }
            if forest[p][q] == forest[p][q - 1] + 1 {
                q -= 1;
                continue;
            }
            let (at, to) = (li + p - 1, lj + q - 1);
            if left.leftmost[at] == li && right.leftmost[to] == lj {
                let pair = (left.places[at], right.places[to]);
                if a.node(pair.0).kind == b.node(pair.1).kind {
                    kept.push(pair);
                }
                p -= 1;
                q -= 1;
            } else {
                todo.push((at, to));
                p = left.leftmost[at] - li;
                q = right.leftmost[to] - lj;
            }
        }
    }
    kept.sort_unstable();
    (trees[m - 1][n - 1], kept)
}

/// Distances of all forests that begin at the leftmost leaves of `i` and `j`.
fn forests(
    a: &Tree,
    b: &Tree,
    left: &Ordered,
    right: &Ordered,
    i: usize,
    j: usize,
    trees: &[Vec<u32>],
) -> Vec<Vec<u32>> {
    let (li, lj) = (left.leftmost[i], right.leftmost[j]);
    let (m, n) = (i - li + 2, j - lj + 2);
    // To nothing from p nodes takes p deletions, and as many insertions the other way.
    let row = |p: usize| {
        (0..n)
            .map(|q| if p == 0 { q as u32 } else { p as u32 })
            .collect()
    };
    let mut forest: Vec<Vec<u32>> = (0..m).map(row).collect();
    for p in 1..m {
        for q in 1..n {
            let (at, to) = (li + p - 1, lj + q - 1);
            let either = forest[p - 1][q].min(forest[p][q - 1]) + 1;
            let both = match left.leftmost[at] == li && right.leftmost[to] == lj {
                true => forest[p - 1][q - 1] + relabel(a, left.places[at], b, right.places[to]),
                false => forest[left.leftmost[at] - li][right.leftmost[to] - lj] + trees[at][to],
            };
            forest[p][q] = either.min(both);
        }
    }
    forest
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::tree::tests::trees;
    use super::*;

    /// The definition: of two forests the last trees are taken apart in every way there is.
    fn defined(
        a: &Tree,
        x: &[usize],
        b: &Tree,
        y: &[usize],
        known: &mut HashMap<(Vec<usize>, Vec<usize>), u32>,
    ) -> u32 {
        let (Some((&m, before)), Some((&n, earlier))) = (x.split_last(), y.split_last()) else {
            let size =
                |t: &Tree, f: &[usize]| f.iter().map(|r| t.below(*r) as u32 + 1).sum::<u32>();
            return size(a, x) + size(b, y);
        };
        if let Some(cost) = known.get(&(x.to_vec(), y.to_vec())) {
            return *cost;
        }
        let opened = |t: &Tree, before: &[usize], root: usize| -> Vec<usize> {
            before.iter().copied().chain(t.children(root)).collect()
        };
        let (inside, within): (Vec<_>, Vec<_>) = (a.children(m).collect(), b.children(n).collect());
        let deleted = defined(a, &opened(a, before, m), b, y, known) + 1;
        let inserted = defined(a, x, b, &opened(b, earlier, n), known) + 1;
        let both = defined(a, &inside, b, &within, known)
            + defined(a, before, b, earlier, known)
            + relabel(a, m, b, n);
        let cost = deleted.min(inserted).min(both);
        known.insert((x.to_vec(), y.to_vec()), cost);
        cost
    }

    proptest! {
        #[test]
        fn the_distance_is_that_of_the_definition(a in trees(9), b in trees(9)) {
            let (cost, kept) = edit_distance(&a, 0, &b, 0);
            prop_assert_eq!(cost, defined(&a, &[0], &b, &[0], &mut HashMap::new()));
            // What is kept accounts for the distance: it is no other mapping.
            let changed: u32 = kept.iter().map(|(x, y)| relabel(&a, *x, &b, *y)).sum();
            let gone = a.len() + b.len() - 2 * kept.len();
            prop_assert_eq!(changed + gone as u32, cost);
        }

        #[test]
        fn what_is_kept_keeps_order_and_ancestors(a in trees(12), b in trees(12)) {
            let (_, kept) = edit_distance(&a, 0, &b, 0);
            for (x, y) in &kept {
                prop_assert_eq!(a.node(*x).kind, b.node(*y).kind);
                for (v, w) in &kept {
                    prop_assert_eq!(x == v, y == w);
                    prop_assert_eq!(x < v, y < w);
                    prop_assert_eq!(*v < a.node(*x).end && v > x, *w < b.node(*y).end && w > y);
                }
            }
        }

        #[test]
        fn a_tree_is_no_distance_from_itself(a in trees(15)) {
            let (cost, kept) = edit_distance(&a, 0, &a, 0);
            prop_assert_eq!((cost, kept.len()), (0, a.len()));
        }
    }
}
