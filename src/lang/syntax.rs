//! The syntax tree of any text in a language that is read, as plain values: for comparing two texts
//! by their structure. Comments and layout are not in it; where layout has a meaning, a block begins
//! and ends with a leaf that has no bytes.

use std::ops::Range;

use tree_sitter::Node;

use super::snippets::SnippetLanguage;

/// A node; a list of them is a tree in preorder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxNode {
    /// The grammar's number for its kind; [`OPENS`] and [`CLOSES`] are ours.
    pub kind: u16,
    /// Its parent's place in the list; its own place for the root.
    pub parent: usize,
    /// Its bytes.
    pub range: Range<usize>,
    /// Whether it is taken as one token: it has nothing below it.
    pub leaf: bool,
    /// Whether it is a name.
    pub name: bool,
}

/// The kind of the leaf with which a block begins that layout alone delimits.
pub const OPENS: u16 = u16::MAX - 1;
/// The kind of the leaf with which it ends.
pub const CLOSES: u16 = u16::MAX - 2;

impl SnippetLanguage {
    /// The tree of `text`, which may be any bytes; nothing if the grammar gives up.
    pub fn syntax(self, text: &[u8]) -> Option<Vec<SyntaxNode>> {
        let tree = self.parse(text)?;
        let by_layout = self.name() == "python";
        let mut nodes: Vec<SyntaxNode> = Vec::new();
        let mut cursor = tree.walk();
        // Places of the nodes above the cursor's.
        let mut above: Vec<usize> = Vec::new();
        loop {
            let node = cursor.node();
            let mut below = false;
            if !is_passed_over(node, by_layout) {
                let place = nodes.len();
                let kind = node.kind();
                let leaf = node.child_count() == 0 || is_one_token(kind);
                if !(leaf && node.byte_range().is_empty()) {
                    nodes.push(SyntaxNode {
                        kind: node.kind_id(),
                        parent: above.last().copied().unwrap_or(place),
                        range: node.byte_range(),
                        leaf,
                        name: leaf && kind.ends_with("identifier"),
                    });
                    below = !leaf && cursor.goto_first_child();
                }
                if below {
                    above.push(place);
                    if by_layout && kind == "block" {
                        nodes.push(edge(OPENS, place, node.start_byte()));
                    }
                }
            }
            while !below && !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Some(nodes);
                }
                let place = above.pop().unwrap_or_default();
                let node = cursor.node();
                if by_layout && node.kind() == "block" {
                    nodes.push(edge(CLOSES, place, node.end_byte()));
                }
            }
        }
    }
}

fn edge(kind: u16, parent: usize, at: usize) -> SyntaxNode {
    SyntaxNode {
        kind,
        parent,
        range: at..at,
        leaf: true,
        name: false,
    }
}

/// Comments, and the strings that document a Python function.
fn is_passed_over(node: Node<'_>, by_layout: bool) -> bool {
    let only_string = || {
        let only = node.named_child(0).filter(|_| node.child_count() == 1);
        only.is_some_and(|child| child.kind() == "string")
    };
    node.kind().ends_with("comment")
        || by_layout && node.kind() == "expression_statement" && only_string()
}

/// Literals, whatever the grammar sees in them.
fn is_one_token(kind: &str) -> bool {
    kind == "string" || kind.ends_with("string_literal") || kind == "char_literal"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(language: &str, text: &str) -> Vec<String> {
        let language = SnippetLanguage::named(language).unwrap();
        let nodes = language.syntax(text.as_bytes()).unwrap();
        for (at, node) in nodes.iter().enumerate() {
            assert!(node.parent < at || at == 0 && node.parent == 0);
            assert!(!nodes[node.parent].leaf || at == 0);
        }
        let leaves = nodes.iter().filter(|n| n.leaf);
        leaves
            .map(|n| match n.kind {
                OPENS => "<".into(),
                CLOSES => ">".into(),
                _ => text[n.range.clone()].to_string(),
            })
            .collect()
    }

    #[test]
    fn comments_and_layout_are_left_out_and_literals_are_whole() {
        assert_eq!(
            leaves("c", "int f(void) { /* x */ return g(\"a b\"); } // end\n").join(" "),
            "int f ( void ) { return g ( \"a b\" ) ; }"
        );
        assert_eq!(
            leaves(
                "python",
                "def f(x):\n    \"\"\"Says.\"\"\"\n    if x:  # why\n        y()\n    return 'a b'\n"
            )
            .join(" "),
            "def f ( x ) : < if x : < y ( ) > return 'a b' >"
        );
    }

    #[test]
    fn where_a_block_ends_is_seen() {
        let inside = "def f(x):\n    for y in x:\n        g(y)\n        h(y)\n";
        let behind = "def f(x):\n    for y in x:\n        g(y)\n    h(y)\n";
        assert_ne!(leaves("python", inside), leaves("python", behind));
    }

    #[test]
    fn any_text_gives_a_tree() {
        for language in SnippetLanguage::all() {
            for text in ["", "}{)(", "\u{0}\u{1}", "def class int ((((", "/*"] {
                language.syntax(text.as_bytes());
            }
        }
    }
}
