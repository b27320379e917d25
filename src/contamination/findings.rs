//! What tests found of models, and of which code: for scores that leave out what a model knows. Code is
//! recognised by its text, not by where somebody keeps it, so that forks, copies and packages of a
//! repository are known with it, and what was written anew since is not.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::corpus::upstream;
use super::signature::File;
use super::verdict::Presence;
use crate::lang::SnippetLanguage;

/// What the document says of its format.
pub const FORMAT: &str = "everbench-contamination/2";

/// A whole set of code is taken for a repository that a model knows if at least this part of its
/// functions is in it.
pub const MOST: f64 = 0.5;

/// A function's code without white space, as a number; comments in front of it do not count.
pub fn fingerprint(language: SnippetLanguage, text: &[u8]) -> u64 {
    let found = language.snippets(text).found;
    let code = match found.first() {
        Some(one) => &text[one.range.clone()],
        None => text,
    };
    dense(code)
}

fn dense(code: &[u8]) -> u64 {
    let dense: Vec<u8> = code
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    let hash = blake3::hash(&dense);
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// The fingerprints of all functions in files of a language, in order, each once.
pub fn functions(language: SnippetLanguage, files: &[File]) -> Vec<u64> {
    let own = files.par_iter();
    let own = own.filter(|file| SnippetLanguage::of_path(&file.path) == Some(language));
    let each = own.flat_map_iter(|file| {
        let found = language.snippets(&file.bytes).found.into_iter();
        found.map(|one| dense(&file.bytes[one.range]))
    });
    let all: BTreeSet<u64> = each.collect();
    all.into_iter().collect()
}

/// A repository as it was tested.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tested {
    /// What it is called.
    pub name: String,
    /// Its upstream repository, if it tells.
    pub url: Option<String>,
    /// Which of [`Findings::functions`] are its own.
    pub functions: String,
    /// The verdict.
    pub presence: Presence,
}

/// What was found of one model.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Model {
    /// The repositories that were tested: by upstream address where there is one, else by name.
    pub repositories: BTreeMap<String, Tested>,
    /// Functions from which it named their project, by project.
    pub named: BTreeMap<String, BTreeSet<u64>>,
}

/// What was found of all models.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Findings {
    /// [`FORMAT`].
    pub format: String,
    /// By model and revision, as keys of answers have them.
    pub models: BTreeMap<String, Model>,
    /// Fingerprints of the functions of repositories, in order, by a digest of them.
    pub functions: BTreeMap<String, Vec<u64>>,
}

impl Default for Findings {
    fn default() -> Self {
        Findings {
            format: FORMAT.into(),
            models: BTreeMap::new(),
            functions: BTreeMap::new(),
        }
    }
}

impl Findings {
    /// Notes the verdict over a repository with these functions, in place of what was known of it.
    pub fn note(
        &mut self,
        model: &str,
        name: &str,
        url: Option<&str>,
        functions: &[u64],
        presence: Presence,
    ) {
        let bytes: Vec<u8> = functions.iter().flat_map(|f| f.to_le_bytes()).collect();
        let digest = blake3::hash(&bytes).to_hex()[..16].to_string();
        self.functions.insert(digest.clone(), functions.to_vec());
        let tested = Tested {
            name: name.to_string(),
            url: url.map(str::to_string),
            functions: digest,
            presence,
        };
        let key = url.map_or_else(|| name.to_string(), upstream);
        let own = self.models.entry(model.to_string()).or_default();
        own.repositories.insert(key, tested);
        let models = self.models.values();
        let used: BTreeSet<&String> = models
            .flat_map(|m| m.repositories.values().map(|t| &t.functions))
            .collect();
        self.functions.retain(|digest, _| used.contains(digest));
    }

    /// Notes from which functions a model named a project, in place of what was known of that.
    pub fn note_named(&mut self, model: &str, project: &str, functions: BTreeSet<u64>) {
        let own = self.models.entry(model.to_string()).or_default();
        own.named.insert(project.to_string(), functions);
    }

    /// What was found of a model; nothing if it was never tested.
    pub fn of(&self, model: &str) -> Option<Known<'_>> {
        let model = self.models.get(model)?;
        Some(Known { all: self, model })
    }
}

/// Why code is left out for a model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why<'a> {
    /// It is of a repository that the model knows.
    Repository(&'a str),
    /// The model named its project when it was shown the function.
    Named(&'a str),
}

impl Why<'_> {
    /// Which repository or project it is.
    pub fn whose(&self) -> &str {
        match self {
            Why::Repository(name) | Why::Named(name) => name,
        }
    }

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Why::Repository(_) => "repository",
            Why::Named(_) => "named",
        }
    }
}

/// What was found of one model.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    all: &'a Findings,
    model: &'a Model,
}

impl<'a> Known<'a> {
    /// Why a function is left out, if it is.
    pub fn function(&self, function: u64) -> Option<Why<'a>> {
        let mut all = self.model.repositories.values();
        let own = all
            .find(|t| t.presence == Presence::Contaminated && self.holds(t, function))
            .map(|t| Why::Repository(&t.name));
        own.or_else(|| {
            let mut named = self.model.named.iter();
            let found = named.find(|(_, functions)| functions.contains(&function));
            found.map(|(project, _)| Why::Named(project))
        })
    }

    /// Whether a function is of a repository that was tested, or was shown by itself, whatever came of
    /// that.
    pub fn is_tested(&self, function: u64) -> bool {
        let mut repositories = self.model.repositories.values();
        let conclusive = |t: &&Tested| t.presence != Presence::Inconclusive;
        repositories.any(|t| conclusive(&t) && self.holds(t, function))
            || self.function(function).is_some()
    }

    /// The repository at this address, if the model knows it.
    pub fn repository(&self, address: &str) -> Option<Why<'a>> {
        let address = upstream(address);
        let mut all = self.model.repositories.iter();
        all.find(|(key, t)| t.presence == Presence::Contaminated && **key == address)
            .map(|(_, t)| Why::Repository(&t.name))
    }

    /// The repository that the model knows and that at least [`MOST`] of these functions are in: they
    /// are a version of it.
    pub fn version(&self, functions: &[u64]) -> Option<Why<'a>> {
        let known = self.model.repositories.values();
        let known = known.filter(|t| t.presence == Presence::Contaminated);
        let most = known.filter_map(|t| {
            let inside = functions.iter().filter(|f| self.holds(t, **f)).count();
            let is_most = inside > 0 && inside as f64 >= MOST * functions.len() as f64;
            is_most.then_some((inside, t))
        });
        most.max_by_key(|(inside, _)| *inside)
            .map(|(_, t)| Why::Repository(&t.name))
    }

    fn holds(&self, tested: &Tested, function: u64) -> bool {
        let own = self.all.functions.get(&tested.functions);
        own.is_some_and(|own| own.binary_search(&function).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c() -> SnippetLanguage {
        SnippetLanguage::of_path("a.c").unwrap()
    }

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            bytes: text.as_bytes().into(),
        }
    }

    const ONE: &str = "int one(int x)\n{\n    return x + 1; /* in it */\n}\n";
    const TWO: &str = "int two(int x) { return x + 2; }\n";

    #[test]
    fn a_function_is_the_same_wherever_it_stands_and_however_it_is_laid_out() {
        let print = fingerprint(c(), ONE.as_bytes());
        let documented = format!("/* What it is. */\n{ONE}");
        assert_eq!(fingerprint(c(), documented.as_bytes()), print);
        let indented = ONE.replace("    ", "\t").replace("\n{", " {");
        assert_eq!(fingerprint(c(), indented.as_bytes()), print);
        assert_ne!(fingerprint(c(), TWO.as_bytes()), print);
        let other = ONE.replace("+ 1", "+ 3");
        assert_ne!(fingerprint(c(), other.as_bytes()), print);
        let files = [
            file("a.c", &format!("int v;\n{TWO}\n{documented}")),
            file("b.py", "def one(x):\n    return x\n"),
        ];
        let mut both = vec![print, fingerprint(c(), TWO.as_bytes())];
        both.sort_unstable();
        assert_eq!(functions(c(), &files), both);
    }

    #[test]
    fn a_later_test_replaces_an_earlier_one_of_the_same_repository() {
        let mut all = Findings::default();
        let url = Some("https://example.com/o/n.git");
        all.note("m@1", "n", url, &[1, 2, 3], Presence::Contaminated);
        all.note("m@1", "other", None, &[7, 8], Presence::NotShown);
        let known = all.of("m@1").unwrap();
        assert!(all.of("m@2").is_none(), "another revision is another model");
        assert_eq!(known.function(2), Some(Why::Repository("n")));
        assert_eq!(known.function(7), None);
        assert!(known.is_tested(7) && !known.is_tested(9));
        let address = "git@example.com:o/n";
        assert_eq!(known.repository(address), Some(Why::Repository("n")));
        assert_eq!(known.repository("example.com/o/m"), None);
        assert_eq!(known.version(&[1, 2, 9, 10]), Some(Why::Repository("n")));
        assert_eq!(known.version(&[1, 9, 10]), None, "less than half of it");
        assert_eq!(known.version(&[7, 8]), None, "it does not know that one");
        assert_eq!(known.version(&[]), None);

        all.note(
            "m@1",
            "n",
            Some("example.com/o/n"),
            &[1, 4],
            Presence::Inconclusive,
        );
        let known = all.of("m@1").unwrap();
        assert_eq!(known.function(1), None);
        assert!(!known.is_tested(1), "it said nothing");
        assert_eq!(all.functions.len(), 2, "nobody's functions are dropped");
    }

    #[test]
    fn what_was_named_is_left_out_alone() {
        let mut all = Findings::default();
        all.note_named("m@1", "tide", BTreeSet::from([5]));
        let known = all.of("m@1").unwrap();
        assert_eq!(known.function(5), Some(Why::Named("tide")));
        assert_eq!(known.function(6), None);
        assert_eq!(known.version(&[5, 6]), None);
        all.note_named("m@1", "tide", BTreeSet::new());
        assert_eq!(all.of("m@1").unwrap().function(5), None);
    }
}
