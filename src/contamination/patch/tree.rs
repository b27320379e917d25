//! Trees for alignment: labelled, ordered, in preorder, with a height and a hash of each subtree.

/// A node of a [`Tree`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// What kind of thing it is; only nodes of one kind are ever mapped to each other.
    pub kind: u32,
    /// What it says: the hash of a leaf's text, 0 for inner nodes.
    pub label: u64,
    /// Its parent's place; its own for the root.
    pub parent: usize,
    /// The place behind the last node below it.
    pub end: usize,
    /// 1 for a leaf.
    pub height: u32,
    /// Equal for isomorphic subtrees: same kinds, labels and shape.
    pub hash: u64,
}

/// A tree in preorder: the root is at 0, and what is below a node follows it up to its `end`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// A tree from kind, label and parent of each node in preorder.
    pub fn new(parts: impl IntoIterator<Item = (u32, u64, usize)>) -> Tree {
        let mut nodes: Vec<Node> = Vec::new();
        for (kind, label, parent) in parts {
            let end = nodes.len() + 1;
            nodes.push(Node {
                kind,
                label,
                parent,
                end,
                height: 1,
                hash: 0,
            });
        }
        // Children come after their parents, so that one walk backwards finishes each node.
        let mut hashes = vec![0xcbf2_9ce4_8422_2325_u64; nodes.len()];
        for at in (0..nodes.len()).rev() {
            let mut below = Vec::new();
            let mut child = at + 1;
            while child < nodes[at].end {
                below.push(nodes[child].hash);
                child = nodes[child].end;
            }
            let own = &mut hashes[at];
            *own = absorb(*own, u64::from(nodes[at].kind));
            *own = absorb(*own, nodes[at].label);
            *own = below
                .iter()
                .fold(absorb(*own, below.len() as u64), |h, b| absorb(h, *b));
            nodes[at].hash = *own;
            let Node {
                parent,
                end,
                height,
                ..
            } = nodes[at];
            if parent != at {
                let up = &mut nodes[parent];
                up.end = up.end.max(end);
                up.height = up.height.max(height + 1);
            }
        }
        Tree { nodes }
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at a place.
    pub fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Places of the children of a node.
    pub fn children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes[at].end;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.nodes[child].end;
                child
            })
        })
    }

    /// How many nodes are below a node.
    pub fn below(&self, at: usize) -> usize {
        self.nodes[at].end - at - 1
    }

    /// Places in postorder: what is below a node comes before it.
    pub fn postorder(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.nodes.len() {
            while let Some(&last) = open.last()
                && self.nodes[last].end <= at
            {
                order.push(last);
                open.pop();
            }
            open.push(at);
        }
        while let Some(last) = open.pop() {
            order.push(last);
        }
        order
    }
}

/// The hash of a text, for labels. Pinned: labels are compared between processes.
pub fn label(text: &[u8]) -> u64 {
    let hash = text.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        absorb(hash, u64::from_le_bytes(word))
    });
    // 0 is the label of inner nodes.
    absorb(hash, text.len() as u64).max(1)
}

fn absorb(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Random trees of at most `most` nodes with few kinds and labels, so that much is alike.
    pub fn trees(most: usize) -> impl Strategy<Value = Tree> {
        prop::collection::vec((0_u32..3, 1_u64..4, any::<prop::sample::Index>()), 1..=most)
            .prop_map(|parts| {
                // A parent is any node on the path to the last one, which keeps preorder.
                let mut path: Vec<usize> = Vec::new();
                let mut list: Vec<(u32, u64, usize)> = Vec::new();
                for (at, (kind, label, pick)) in parts.into_iter().enumerate() {
                    let parent = match path.is_empty() {
                        true => at,
                        false => {
                            let keep = pick.index(path.len()) + 1;
                            path.truncate(keep);
                            path[keep - 1]
                        }
                    };
                    path.push(at);
                    list.push((kind, label, parent));
                }
                let inner: Vec<bool> = (0..list.len())
                    .map(|at| list.iter().enumerate().any(|(o, n)| n.2 == at && o != at))
                    .collect();
                let labelled = list.into_iter().zip(inner);
                Tree::new(labelled.map(|((k, l, p), inner)| (k, if inner { 0 } else { l }, p)))
            })
    }

    /// Whether two subtrees are the same, by looking at all of both.
    pub fn same(a: &Tree, x: usize, b: &Tree, y: usize) -> bool {
        let (m, n) = (a.node(x), b.node(y));
        let (left, right): (Vec<_>, Vec<_>) = (a.children(x).collect(), b.children(y).collect());
        m.kind == n.kind
            && m.label == n.label
            && left.len() == right.len()
            && left.iter().zip(&right).all(|(l, r)| same(a, *l, b, *r))
    }

    proptest! {
        #[test]
        fn hashes_are_equal_where_subtrees_are(a in trees(14), b in trees(14)) {
            for x in 0..a.len() {
                for y in 0..b.len() {
                    prop_assert_eq!(a.node(x).hash == b.node(y).hash, same(&a, x, &b, y));
                }
            }
        }

        #[test]
        fn postorder_has_each_node_once_and_behind_what_is_below_it(tree in trees(20)) {
            let order = tree.postorder();
            let mut place = vec![usize::MAX; tree.len()];
            for (at, node) in order.iter().enumerate() {
                place[*node] = at;
            }
            prop_assert!(place.iter().all(|p| *p < tree.len()));
            for at in 1..tree.len() {
                prop_assert!(place[at] < place[tree.node(at).parent]);
            }
            for at in 0..tree.len() {
                let tallest = tree.children(at).map(|c| tree.node(c).height).max();
                prop_assert_eq!(tree.node(at).height, tallest.unwrap_or(0) + 1);
                prop_assert_eq!(tree.children(at).map(|c| tree.below(c) + 1).sum::<usize>(), tree.below(at));
            }
        }
    }
}
