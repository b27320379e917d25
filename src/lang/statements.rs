//! Functions pretty-printed: one statement a line, comments dropped, so that two of them can be
//! compared line by line whatever their layout. NiCad does the same (Roy and Cordy, ICPC 2008).

use std::ops::Range;

use tree_sitter::Node;

use super::snippets::SnippetLanguage;

/// A function in lines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Printed {
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// Its leaves, in order.
    pub leaves: Vec<Leaf>,
    /// The lines: ranges of leaves, in order, without gaps.
    pub lines: Vec<Range<usize>>,
    /// The blocks of more than one line within it: ranges of lines.
    pub blocks: Vec<Range<usize>>,
}

/// A leaf of the syntax tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// Whether it is a name that the program's author chose, and not a word or sign of the language.
    pub identifier: bool,
}

impl Printed {
    /// The lines as text, leaves separated by a space: what a person would compare.
    pub fn text(&self, source: &[u8]) -> Vec<String> {
        let leaf = |l: &Leaf| String::from_utf8_lossy(&source[l.range.clone()]).into_owned();
        let line = |r: &Range<usize>| self.leaves[r.clone()].iter().map(leaf).collect::<Vec<_>>();
        self.lines.iter().map(|r| line(r).join(" ")).collect()
    }
}

impl SnippetLanguage {
    /// The functions of a file, pretty-printed, in order of position. The bytes may be any.
    pub fn printed(self, source: &[u8]) -> Vec<Printed> {
        let (found, tree) = self.snippets_and_tree(source);
        let mut all = Vec::with_capacity(found.found.len());
        for snippet in found.found {
            let range = snippet.range;
            let printed = match &tree {
                Some(tree) => {
                    let node = tree
                        .root_node()
                        .descendant_for_byte_range(range.start, range.end);
                    node.map(|node| print(node, source, range.clone(), 0))
                }
                // A function of C is parsed alone, so that macros around it spoil nothing.
                None => {
                    let text = &source[range.clone()];
                    let alone = self.parse(text);
                    alone.map(|tree| print(tree.root_node(), text, 0..text.len(), range.start))
                }
            };
            all.extend(printed.filter(|p| !p.lines.is_empty()));
        }
        all
    }
}

/// The printer's state.
struct Printer {
    printed: Printed,
    /// The next leaf begins a line.
    fresh: bool,
    /// Blocks that are open: at which line each begins.
    open: Vec<usize>,
}

/// The lines of what of `node` is in `range`; `base` is where `source` starts in the file.
fn print(node: Node<'_>, source: &[u8], range: Range<usize>, base: usize) -> Printed {
    let mut printer = Printer {
        printed: Printed {
            range: base + range.start..base + range.end,
            ..Printed::default()
        },
        fresh: true,
        open: Vec::new(),
    };
    let mut cursor = node.walk();
    // Kinds of the nodes above: to ask a node for its parent costs a walk from the root.
    let mut above: Vec<&str> = Vec::new();
    'walk: loop {
        let node = cursor.node();
        let inside = range.start <= node.start_byte() && node.end_byte() <= range.end;
        let comment = node.is_extra() && node.kind().contains("comment");
        if !comment && node.start_byte() < node.end_byte() {
            let shape = Shape::of(node, cursor.field_name(), above.last());
            printer.enter(shape);
            let children = node.child_count() > 0 && !whole(node);
            if children && cursor.goto_first_child() {
                above.push(node.kind());
                continue;
            }
            if inside && !children {
                printer.leaf(node, source, base);
            }
            printer.leave(shape);
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                break 'walk;
            }
            above.pop();
            printer.leave(Shape::of(cursor.node(), cursor.field_name(), above.last()));
        }
    }
    printer.printed
}

/// What a node does to the lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Nothing.
    Part,
    /// It has a line, or several, of its own.
    Statement,
    /// It holds statements: its opening bracket ends a line, its closing one has its own.
    Block,
    /// `{` of a block.
    Open,
    /// `}` of a block.
    Close,
}

impl Shape {
    fn of(node: Node<'_>, field: Option<&str>, parent: Option<&&str>) -> Shape {
        let kind = node.kind();
        if is_block(kind) {
            return Shape::Block;
        }
        let parent = parent.copied().unwrap_or_default();
        if !node.is_named() {
            return match kind {
                "{" if is_block(parent) => Shape::Open,
                "}" if is_block(parent) => Shape::Close,
                _ => Shape::Part,
            };
        }
        let statement = is_block(parent)
            || ["_statement", "_clause", "_item", "match_arm"]
                .iter()
                .any(|end| kind.ends_with(end));
        // What stands between the brackets of a `for` is not on lines of its own.
        let header = parent.starts_with("for") && !matches!(field, Some("body" | "alternative"));
        match statement && !header {
            true => Shape::Statement,
            false => Shape::Part,
        }
    }
}

fn is_block(kind: &str) -> bool {
    matches!(
        kind,
        "compound_statement"
            | "block"
            | "statement_list"
            | "translation_unit"
            | "source_file"
            | "module"
            | "program"
            | "match_block"
            | "switch_block"
            | "class_body"
            | "constructor_body"
            | "declaration_list"
            | "field_declaration_list"
            | "enumerator_list"
    )
}

/// A string is one leaf, whatever the grammar sees in it.
fn whole(node: Node<'_>) -> bool {
    let kind = node.kind();
    kind.contains("string") || kind.contains("char_literal")
}

impl Printer {
    fn enter(&mut self, shape: Shape) {
        match shape {
            Shape::Statement | Shape::Close => self.fresh = true,
            Shape::Block => self.open.push(self.printed.lines.len()),
            Shape::Open | Shape::Part => {}
        }
    }

    fn leave(&mut self, shape: Shape) {
        match shape {
            Shape::Statement | Shape::Open | Shape::Close => self.fresh = true,
            Shape::Block => {
                self.fresh = true;
                let from = self.open.pop().unwrap_or(0);
                let to = self.printed.lines.len();
                if to > from + 1 && self.printed.blocks.last() != Some(&(from..to)) {
                    self.printed.blocks.push(from..to);
                }
            }
            Shape::Part => {}
        }
    }

    fn leaf(&mut self, node: Node<'_>, source: &[u8], base: usize) {
        let range = node.byte_range();
        // What only ends a statement is no line: in some languages it need not be there.
        let text = source[range.clone()].trim_ascii();
        if text.is_empty() || text == b";" && self.fresh {
            return;
        }
        let at = self.printed.leaves.len();
        self.printed.leaves.push(Leaf {
            range: base + range.start..base + range.end,
            identifier: node.is_named() && node.kind().contains("identifier"),
        });
        match self.printed.lines.last_mut() {
            Some(line) if !self.fresh => line.end = at + 1,
            _ => self.printed.lines.push(at..at + 1),
        }
        self.fresh = false;
    }
}
