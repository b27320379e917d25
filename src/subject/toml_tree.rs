//! A cursor over a parsed TOML document which collects problems instead of stopping at one: wrong
//! types, missing keys, keys nobody asked for. Knows TOML, nothing of what the keys mean.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, place, suggest};

/// A value with the place it was read from.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub value: T,
    pub span: Range<usize>,
    pub key: String,
}

/// A list of texts, each with its place.
pub(super) type Texts = At<Vec<At<String>>>;

/// Where problems are collected while one document is read.
pub(super) struct Log<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Log<'t> {
    pub fn new(text: &'t str) -> Self {
        Log {
            text,
            problems: RefCell::default(),
        }
    }

    pub fn say(&self, at: usize, key: &str, message: String, hint: Option<String>) {
        let (line, column) = place(self.text, at);
        self.problems.borrow_mut().push(Problem {
            line,
            column,
            key: key.to_string(),
            message,
            hint,
        });
    }

    /// A problem of a value that was read.
    pub fn at<T>(&self, at: &At<T>, message: impl Into<String>, hint: Option<String>) {
        self.say(at.span.start, &at.key, message.into(), hint);
    }

    /// All problems, by place.
    pub fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|p| (p.line, p.column));
        problems
    }
}

type Node<'i> = Spanned<DeValue<'i>>;

/// A table being read: every key asked for is a known key, the others are reported by `finish`.
pub(super) struct Section<'a, 'i, 't> {
    log: &'a Log<'t>,
    table: &'a DeTable<'i>,
    at: usize,
    path: String,
    known: Vec<&'static str>,
}

impl<'a, 'i, 't> Section<'a, 'i, 't> {
    pub fn root(log: &'a Log<'t>, table: &'a DeTable<'i>) -> Self {
        Section {
            log,
            table,
            at: 0,
            path: String::new(),
            known: Vec::new(),
        }
    }

    pub fn has(&mut self, key: &'static str) -> bool {
        self.node(key).is_some()
    }

    /// Reports `key` when it is missing; `example` shows what to write.
    pub fn require(&mut self, key: &'static str, example: &str) {
        if !self.has(key) {
            self.log.say(
                self.at,
                &self.path,
                format!("`{key}` is missing"),
                Some(format!("write for example `{example}`")),
            );
        }
    }

    /// Reports a problem of the table as a whole.
    pub fn say(&self, message: impl Into<String>, hint: Option<String>) {
        self.log.say(self.at, &self.path, message.into(), hint);
    }

    pub fn text(&mut self, key: &'static str) -> Option<At<String>> {
        let node = self.node(key)?;
        as_text(self.log, node, self.name(key))
    }

    pub fn integer(&mut self, key: &'static str) -> Option<At<i64>> {
        let node = self.node(key)?;
        let key = self.name(key);
        self.whole(node, key)
    }

    fn whole(&self, node: &Node<'_>, key: String) -> Option<At<i64>> {
        let DeValue::Integer(n) = node.get_ref() else {
            return self.wrong(node, key, "a whole number");
        };
        // The parser keeps digits without underscores, and the radix apart.
        match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(value) => Some(at(node, key, value)),
            Err(_) => self.wrong(node, key, "a number of at most 64 bits"),
        }
    }

    pub fn float(&mut self, key: &'static str) -> Option<At<f64>> {
        let node = self.node(key)?;
        let key = self.name(key);
        let value = match node.get_ref() {
            DeValue::Float(n) => n.as_str().parse().ok(),
            DeValue::Integer(n) if n.radix() == 10 => n.as_str().parse().ok(),
            _ => None,
        };
        match value {
            Some(value) => Some(at(node, key, value)),
            None => self.wrong(node, key, "a number"),
        }
    }

    pub fn boolean(&mut self, key: &'static str) -> Option<At<bool>> {
        let node = self.node(key)?;
        let key = self.name(key);
        match node.get_ref() {
            DeValue::Boolean(b) => Some(at(node, key, *b)),
            _ => self.wrong(node, key, "true or false"),
        }
    }

    pub fn texts(&mut self, key: &'static str) -> Option<Texts> {
        let node = self.node(key)?;
        as_texts(self.log, node, self.name(key))
    }

    pub fn integers(&mut self, key: &'static str) -> Option<At<Vec<At<i64>>>> {
        let node = self.node(key)?;
        let key = self.name(key);
        let DeValue::Array(nodes) = node.get_ref() else {
            return self.wrong(node, key, "a list of whole numbers");
        };
        let read: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(i, node)| self.whole(node, format!("{key}[{i}]")))
            .collect();
        let all: Option<Vec<_>> = read.into_iter().collect();
        Some(at(node, key, all?))
    }

    /// A list of lists of texts.
    pub fn commands(&mut self, key: &'static str) -> Option<At<Vec<Texts>>> {
        let node = self.node(key)?;
        let key = self.name(key);
        let DeValue::Array(commands) = node.get_ref() else {
            return self.wrong(node, key, "a list of commands, each a list of arguments");
        };
        let mut all = Vec::new();
        for (i, command) in commands.iter().enumerate() {
            all.push(as_texts(self.log, command, format!("{key}[{i}]"))?);
        }
        Some(at(node, key, all))
    }

    /// A table of texts; empty when it is missing.
    pub fn text_map(&mut self, key: &'static str) -> Option<BTreeMap<String, At<String>>> {
        let Some(node) = self.node(key) else {
            return Some(BTreeMap::new());
        };
        let key = self.name(key);
        let DeValue::Table(table) = node.get_ref() else {
            return self.wrong(node, key, "a table of strings");
        };
        let read: Vec<_> = table
            .iter()
            .map(|(k, v)| {
                let name = k.get_ref().to_string();
                let value = as_text(self.log, v, format!("{key}.{name}"));
                value.map(|v| (name, v))
            })
            .collect();
        read.into_iter().collect()
    }

    pub fn table(&mut self, key: &'static str) -> Option<Section<'a, 'i, 't>> {
        let node = self.node(key)?;
        self.section(node, self.name(key))
    }

    pub fn tables(&mut self, key: &'static str) -> Option<Vec<Section<'a, 'i, 't>>> {
        let node = self.node(key)?;
        let key = self.name(key);
        let DeValue::Array(nodes) = node.get_ref() else {
            return self.wrong(node, key, "a list of tables, written `[[...]]`");
        };
        let read: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(i, node)| self.section(node, format!("{key}[{i}]")))
            .collect();
        read.into_iter().collect()
    }

    /// Reports every key that was never asked for.
    pub fn finish(self) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !self.known.contains(&name) {
                let message = format!("unknown key `{name}`");
                let hint = suggest(name, &self.known);
                self.log.say(key.span().start, &self.path, message, hint);
            }
        }
    }

    fn node(&mut self, key: &'static str) -> Option<&'a Node<'i>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_string()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn section(&self, node: &'a Node<'i>, path: String) -> Option<Section<'a, 'i, 't>> {
        match node.get_ref() {
            DeValue::Table(table) => Some(Section {
                log: self.log,
                table,
                at: node.span().start,
                path,
                known: Vec::new(),
            }),
            _ => self.wrong(node, path, "a table"),
        }
    }

    fn wrong<T>(&self, node: &Node<'_>, key: String, wanted: &str) -> Option<T> {
        wrong(self.log, node, &key, wanted);
        None
    }
}

fn at<T>(node: &Node<'_>, key: String, value: T) -> At<T> {
    At {
        value,
        span: node.span(),
        key,
    }
}

fn wrong(log: &Log<'_>, node: &Node<'_>, key: &str, wanted: &str) {
    let found = node.get_ref().type_str();
    let message = format!("{wanted} is expected here, not a value of type {found}");
    log.say(node.span().start, key, message, None);
}

fn as_text(log: &Log<'_>, node: &Node<'_>, key: String) -> Option<At<String>> {
    match node.get_ref() {
        DeValue::String(s) => Some(at(node, key, s.to_string())),
        _ => {
            wrong(log, node, &key, "a string");
            None
        }
    }
}

fn as_texts(log: &Log<'_>, node: &Node<'_>, key: String) -> Option<Texts> {
    let DeValue::Array(nodes) = node.get_ref() else {
        wrong(log, node, &key, "a list of strings");
        return None;
    };
    let read: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(i, node)| as_text(log, node, format!("{key}[{i}]")))
        .collect();
    let all: Option<Vec<_>> = read.into_iter().collect();
    Some(at(node, key, all?))
}
