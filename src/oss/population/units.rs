//! The recorded units: what their preprocessed texts say, with all files named relative to the tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::reading::{Text, UnitFacts, unit_facts};
use super::{Context, FlavourArg, base};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{CompiledDefinition, LanguageId};
use crate::oss::artifact::{self, BaseDoc, Unit};
use crate::oss::inputs::{Settings, Subject};
use crate::oss::layout;
use crate::subject::Manifest;

/// The recorded units without the test programs' own, by number.
pub(super) struct Units {
    /// The plain base, whose units they are.
    pub(super) doc: Arc<BaseDoc>,
    /// Their places in the document.
    places: Vec<usize>,
    facts: Vec<Arc<UnitFacts>>,
    definitions: Vec<Vec<CompiledDefinition>>,
    /// Objects of units that a replaced function might leave by ways that cannot be followed.
    untracked: BTreeSet<String>,
}

impl Units {
    pub(super) fn read(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Units, Hold> {
        let (_, doc) = base(db, subject, FlavourArg::Plain)?;
        let manifest = subject.rules(db);
        let places: Vec<usize> = (0..doc.units.len())
            .filter(|n| !doc.units[*n].harness)
            .collect();
        let facts = crate::engine::fold(places.iter().map(|n| {
            let unit = &doc.units[*n];
            let text = Text::new(db, unit.preprocessed);
            unit_facts(db, settings, language_of(manifest, unit), text)
        }))?;
        let untracked = doc.untracked.iter().flat_map(|u| u.units.iter().cloned());
        let mut units = Units {
            places,
            definitions: Vec::new(),
            untracked: untracked.collect(),
            facts,
            doc,
        };
        for (n, facts) in units.facts.iter().enumerate() {
            let named = facts.definitions.iter().map(|d| CompiledDefinition {
                file: units.named(n, &d.file),
                ..d.clone()
            });
            let named = named.collect();
            units.definitions.push(named);
        }
        Ok(units)
    }

    fn unit(&self, number: usize) -> &Unit {
        &self.doc.units[self.places[number]]
    }

    /// What a name in the line markers of a unit stands for: they name files as the compiler was
    /// told, relative to where it runs. A copy that the build makes stands for its original.
    pub(super) fn named(&self, number: usize, file: &str) -> String {
        match layout::in_tree(&self.unit(number).cwd, file) {
            Some(path) => self.doc.copies.get(&path).cloned().unwrap_or(path),
            None => file.to_string(),
        }
    }

    /// The definitions of each unit.
    pub(super) fn definitions(&self) -> Vec<&[CompiledDefinition]> {
        self.definitions.iter().map(Vec::as_slice).collect()
    }

    /// Whether what one of these units holds may go ways that cannot be followed.
    pub(super) fn untracked(&self, numbers: &[usize]) -> bool {
        let mut objects = numbers.iter().map(|n| &self.unit(*n).object);
        objects.any(|object| self.untracked.contains(object))
    }

    /// What a unit gives to the function that is its definition number `order`.
    pub(super) fn context(&self, number: usize, order: usize) -> Context {
        let (unit, facts, env) = (self.unit(number), &self.facts[number], &self.doc.env);
        Context {
            stripped: facts.stripped,
            macros: facts.macros,
            order: u32::try_from(order).unwrap_or(u32::MAX),
            command: Digest::of(&match env.is_empty() {
                true => artifact::write(&(&unit.tool, &unit.argv, &unit.cwd)),
                false => artifact::write(&(&unit.tool, &unit.argv, &unit.cwd, env)),
            }),
        }
    }

    /// The place of the function called `name` on this line among the definitions of a unit, or
    /// how many of its file come before it if its preprocessed text is read otherwise.
    pub(super) fn order(&self, number: usize, name: &str, line: usize, path: &str) -> usize {
        let definitions = &self.definitions[number];
        let is = |d: &CompiledDefinition| d.file == path && d.line == line && d.name == name;
        let before = || {
            definitions
                .iter()
                .filter(|d| d.file == path && d.line < line)
        };
        let own = definitions.iter().position(is);
        own.unwrap_or_else(|| before().count())
    }
}

/// Name and line of each function of a file that a unit of `doc` compiles.
pub(in crate::oss) fn compiled_lines(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
    doc: &BaseDoc,
    path: &str,
) -> Result<BTreeSet<(String, usize)>, Hold> {
    let manifest = subject.rules(db);
    let mut lines = BTreeSet::new();
    for unit in &doc.units {
        if !unit.reads.iter().any(|read| read == path) {
            continue;
        }
        let text = Text::new(db, unit.preprocessed);
        let facts = unit_facts(db, settings, language_of(manifest, unit), text)?;
        let is_here = |d: &&CompiledDefinition| {
            let file = layout::in_tree(&unit.cwd, &d.file);
            file.is_some_and(|f| f == path || doc.copies.get(&f).is_some_and(|of| of == path))
        };
        let here = facts.definitions.iter().filter(is_here);
        lines.extend(here.map(|d| (d.name.clone(), d.line)));
    }
    Ok(lines)
}

/// The language in which a unit is read: what its compiler is for, else that of its source.
pub fn language_of(manifest: &Manifest, unit: &Unit) -> LanguageId {
    let compiler = LanguageId::all().find(|l| *l != LanguageId::C && l.facts().tool == unit.tool);
    let own = || manifest.functions.language_of(&unit.source);
    compiler.or_else(own).unwrap_or(LanguageId::C)
}
