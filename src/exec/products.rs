//! Follows the products of a build from compilation to program by their bytes. Builds copy, move,
//! link, extract and delete what they make, by commands that are not recorded (`mv`, `ar x`,
//! `cmake -E`); but each recorded command says what its inputs and outputs held when it ran. So a
//! file is known by what it holds, wherever it went, and a file that no recorded command made is
//! noticed. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::commands::{Recorded, continues, only, relocate};
use crate::digest::Digest;
use crate::oss::artifact::{Step, Unit, Untracked};
use crate::oss::layout::KEPT;

/// One thing that a recorded command made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Made {
    /// The command.
    pub recorded: Recorded,
    /// How it made it.
    pub work: Work,
    /// The file. Here and below: relative to the tree, without symbolic links.
    pub output: String,
    /// What was there before.
    pub before: Option<Digest>,
    /// What is there after it.
    pub after: Digest,
    /// What it read, objects and libraries only: index of the argument, path, bytes.
    pub inputs: Vec<(usize, String, Digest)>,
    /// Why it could not be made without places, where it should have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<String>,
}

/// How a command makes a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// It compiles this source.
    Compile(String),
    /// It makes a file of files.
    Step(Step),
    /// It takes the members out of its input, an archive, into the folder that is its output.
    Extract,
}

/// What a build consists of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Products {
    /// The compilations (not yet examined), by source and object.
    pub units: Vec<Unit>,
    /// Everything that is made of their objects, in an order in which it can be made.
    pub steps: Vec<Step>,
    /// The files among the above that are not in the tree any more and have to be made again, with
    /// what they must hold.
    pub lost: BTreeMap<String, Digest>,
    /// The files that no recorded command made; without the units that they may stand for.
    pub unknown: BTreeSet<String>,
    /// What was made of something that is gone and that no recorded command made.
    pub untracked: Vec<Untracked>,
}

type Id = usize;

enum From {
    /// Another product.
    Product(Id),
    /// A file of the source, of the system's, or made by something unknown, which is still there.
    Outside,
    /// A file that was made by something unknown and is gone, or one of several possible.
    Lost(String),
}

struct Product<'a> {
    made: &'a Made,
    /// What its file held before, for what is made in several steps.
    earlier: Option<Id>,
    inputs: Vec<From>,
    /// Why it cannot be made again.
    broken: Option<String>,
}

/// `files` are the objects, archives, libraries and programs that are in the tree after the build,
/// without what the source brought; `holds` says what any file of the tree holds then.
pub fn products(
    all: &[Made],
    files: &BTreeMap<String, Digest>,
    holds: &dyn Fn(&str) -> Option<Digest>,
) -> Products {
    let mut graph = Graph::default();
    for made in all {
        graph.add(made, holds);
    }
    graph.place(files);
    graph.collect(files)
}

#[derive(Default)]
struct Graph<'a> {
    products: Vec<Product<'a>>,
    /// Folders into which archives were taken apart: path -> what may be there.
    extracted: BTreeMap<&'a str, BTreeSet<Id>>,
    /// The last product at a path.
    current: BTreeMap<&'a str, Id>,
    by_digest: BTreeMap<Digest, Vec<Id>>,
    /// Where a product is after the build.
    home: BTreeMap<Id, String>,
    /// Copies of products: path -> which.
    copies: BTreeMap<String, Id>,
    unknown: BTreeSet<String>,
}

impl<'a> Graph<'a> {
    fn add(&mut self, made: &'a Made, holds: &dyn Fn(&str) -> Option<Digest>) {
        if made.work == Work::Extract {
            for (_, path, digest) in &made.inputs {
                if let Ok(Some(id)) = self.find(path, *digest) {
                    let parts = self.made_of(id);
                    self.extracted
                        .entry(&made.output)
                        .or_default()
                        .extend(parts);
                }
            }
            return;
        }
        let mut broken = None;
        let inputs: Vec<From> = made
            .inputs
            .iter()
            .map(|(_, path, digest)| match self.find(path, *digest) {
                Ok(Some(id)) => From::Product(id),
                Ok(None) if holds(path) == Some(*digest) => From::Outside,
                Ok(None) => From::Lost(format!(
                    "`{path}`, which no recorded command made, was read and is not there any more"
                )),
                Err(why) => From::Lost(why),
            })
            .collect();
        for from in &inputs {
            match from {
                From::Lost(why) => broken = broken.or(Some(why.clone())),
                From::Product(id) => broken = broken.or(self.products[*id].broken.clone()),
                From::Outside => {}
            }
        }
        let mut earlier = None;
        if let Work::Step(step) = &made.work
            && continues(step)
            && let Some(before) = made.before
        {
            match self.find(&made.output, before) {
                Ok(Some(id)) => {
                    earlier = Some(id);
                    broken = broken.or(self.products[id].broken.clone());
                }
                _ => {
                    broken = broken.or(Some(format!(
                        "`{}` was changed by `{}` after something else had made it",
                        made.output, step.tool
                    )));
                }
            }
        }
        let id = self.products.len();
        self.products.push(Product {
            made,
            earlier,
            inputs,
            broken,
        });
        self.current.insert(&made.output, id);
        self.by_digest.entry(made.after).or_default().push(id);
    }

    /// The product that a file with these bytes is: the one made there, else one that came from
    /// elsewhere.
    fn find(&self, path: &str, digest: Digest) -> Result<Option<Id>, String> {
        if let Some(id) = self.current.get(path)
            && self.products[*id].made.after == digest
        {
            return Ok(Some(*id));
        }
        let Some(all) = self.by_digest.get(&digest) else {
            return Ok(None);
        };
        let named = |id: &&Id| name(&self.products[**id].made.output) == name(path);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut likely = all.clone();
        // What an archive was filled with decides, then the name.
        if let Some(parts) = self.extracted.get(folder)
            && all.iter().any(|id| parts.contains(id))
        {
            likely.retain(|id| parts.contains(id));
        }
        if likely.iter().any(|id| named(&id)) {
            likely.retain(|id| named(&id));
        }
        let last = *likely.last().expect("a list of a digest is not empty");
        let same = |id: &Id| {
            let (a, b) = (self.products[*id].made, self.products[last].made);
            a.output == b.output || a.work == b.work && bare(&a.recorded) == bare(&b.recorded)
        };
        if likely.iter().all(same) {
            return Ok(Some(last));
        }
        Err(format!(
            "`{path}` has the bytes of several files, and it is not known which of them it is"
        ))
    }

    /// Finds where each product is, and which files are copies of one.
    fn place(&mut self, files: &BTreeMap<String, Digest>) {
        for (path, digest) in files {
            if let Some(id) = self.current.get(path.as_str())
                && self.products[*id].made.after == *digest
            {
                self.home.insert(*id, path.clone());
            }
        }
        let placed: BTreeSet<String> = self.home.values().cloned().collect();
        for (path, digest) in files.iter().filter(|(path, _)| !placed.contains(*path)) {
            match self.find(path, *digest) {
                Ok(Some(id)) if !self.home.contains_key(&id) => {
                    self.home.insert(id, path.clone());
                }
                Ok(Some(id)) => {
                    self.copies.insert(path.clone(), id);
                }
                Ok(None) | Err(_) => {
                    self.unknown.insert(path.clone());
                }
            }
        }
    }

    /// Everything that what is in the tree was made of.
    fn collect(mut self, files: &BTreeMap<String, Digest>) -> Products {
        let mut out = Products {
            unknown: std::mem::take(&mut self.unknown),
            ..Products::default()
        };
        let mut wanted: Vec<Id> = self.home.keys().copied().collect();
        let mut seen: BTreeSet<Id> = BTreeSet::new();
        let mut steps: Vec<Step> = Vec::new();
        let mut units: BTreeMap<(String, String), Unit> = BTreeMap::new();
        while let Some(id) = wanted.pop() {
            if !seen.insert(id) {
                continue;
            }
            let made = self.products[id].made;
            let home = self.home.entry(id).or_insert_with(|| {
                let place = kept(made);
                out.lost.insert(place.clone(), made.after);
                place
            });
            let home = home.clone();
            let mut chain = vec![id];
            while let Some(earlier) = self.products[chain[chain.len() - 1]].earlier {
                chain.push(earlier);
            }
            for id in chain.into_iter().rev() {
                let product = &self.products[id];
                let mut inputs = Vec::new();
                for (from, (at, _, _)) in product.inputs.iter().zip(&product.made.inputs) {
                    if let From::Product(input) = from {
                        wanted.push(*input);
                        inputs.push((*at, *input));
                    }
                }
                if product.broken.is_some() {
                    continue;
                }
                match &product.made.work {
                    Work::Compile(source) => {
                        let unit = unit(product.made, source, &home);
                        units.insert((unit.source.clone(), home.clone()), unit);
                    }
                    Work::Extract => {}
                    Work::Step(step) => {
                        let inputs: Vec<(usize, String)> = inputs
                            .into_iter()
                            .map(|(at, input)| {
                                let made = self.products[input].made;
                                let place = self.home.entry(input).or_insert_with(|| {
                                    let place = kept(made);
                                    out.lost.insert(place.clone(), made.after);
                                    place
                                });
                                (at, place.clone())
                            })
                            .collect();
                        steps.push(relocate(step, &home, &inputs));
                    }
                }
            }
        }
        for (path, id) in &self.copies {
            if self.products[*id].broken.is_some() {
                continue;
            }
            steps.push(Step {
                tool: "copy".into(),
                argv: Vec::new(),
                cwd: String::new(),
                output: path.clone(),
                inputs: vec![(0, self.home[id].clone())],
            });
        }
        for (id, product) in self.products.iter().enumerate() {
            if let Some(why) = &product.broken
                && self.home.get(&id).is_some_and(|p| files.contains_key(p))
            {
                out.untracked.push(Untracked {
                    path: self.home[&id].clone(),
                    reason: why.clone(),
                    units: self.objects_of(id),
                });
            }
        }
        out.units = units.into_values().collect();
        out.steps = in_order(steps);
        out
    }

    /// The objects that a product was made of.
    fn objects_of(&self, id: Id) -> Vec<String> {
        let compiled = |id: &Id| matches!(self.products[*id].made.work, Work::Compile(_));
        let all = self.made_of(id);
        let objects = all.iter().filter(|id| compiled(id));
        let homes: BTreeSet<&String> = objects.filter_map(|id| self.home.get(id)).collect();
        homes.into_iter().cloned().collect()
    }

    /// A product, and all that it was made of.
    fn made_of(&self, id: Id) -> BTreeSet<Id> {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![id]);
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            let product = &self.products[id];
            todo.extend(product.earlier);
            todo.extend(product.inputs.iter().filter_map(|from| match from {
                From::Product(id) => Some(*id),
                _ => None,
            }));
        }
        seen
    }
}

fn unit(made: &Made, source: &str, object: &str) -> Unit {
    let recorded = &made.recorded;
    Unit {
        tool: recorded.tool.clone(),
        argv: only(&recorded.argv, &recorded.cwd, source),
        cwd: recorded.cwd.clone(),
        source: source.to_string(),
        object: object.to_string(),
        reads: Vec::new(),
        harness: recorded.harness,
        preprocessed: Digest::of(b""),
        symbols: Digest::of(b""),
        placed: made.placed.clone(),
    }
}

/// The command without the names of what it writes.
fn bare(recorded: &Recorded) -> (&str, &str, Vec<&String>) {
    let outputs = ["-o", "-MF", "-MT", "-MQ"];
    let word = |i: &usize| {
        let after = i
            .checked_sub(1)
            .map(|before| recorded.argv[before].as_str());
        !after.is_some_and(|before| outputs.contains(&before))
    };
    let words = (0..recorded.argv.len()).filter(word);
    let words = words.map(|i| &recorded.argv[i]).collect();
    (&recorded.tool, &recorded.cwd, words)
}

/// Where a product is put that the build has not left in the tree.
fn kept(made: &Made) -> String {
    let recorded = &made.recorded;
    let command = [std::slice::from_ref(&recorded.cwd), &recorded.argv].concat();
    let place = Digest::of(command.join("\0").as_bytes());
    format!(
        "{KEPT}/{}-{}/{}",
        place.short(),
        made.after.short(),
        name(&made.output)
    )
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Sorts steps by their output, each after the steps that make what it reads; the steps of one
/// output keep the order in which they ran. Parallel makes record in any order.
fn in_order(steps: Vec<Step>) -> Vec<Step> {
    let mut by_output: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for step in steps {
        by_output.entry(step.output.clone()).or_default().push(step);
    }
    let mut ordered = Vec::new();
    while !by_output.is_empty() {
        let ready = by_output
            .iter()
            .find(|(output, steps)| {
                let mut inputs = steps.iter().flat_map(|s| &s.inputs);
                inputs.all(|(_, path)| path == *output || !by_output.contains_key(path))
            })
            // A circle cannot be built from; should one be recorded, any order is as good.
            .or_else(|| by_output.iter().next())
            .map(|(output, _)| output.clone())
            .expect("it is not empty");
        ordered.extend(by_output.remove(&ready).expect("it was just found"));
    }
    ordered
}

#[cfg(test)]
#[path = "products_tests.rs"]
mod tests;
