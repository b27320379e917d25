//! A subject's manifest, typed and checked: every value here is possible. Made by
//! [`Manifest::parse`]; nothing here runs a command or reads a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::globs::Globs;
use super::source::Source;
use super::suite::Tests;
use super::template::{Template, Values};
use crate::lang::LanguageId;

/// Everything that is known of a subject before its source is looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// What the subject is called in commands and reports: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Where the source comes from.
    pub source: Source,
    /// How it is built.
    pub build: Build,
    /// What the `sanitized` flavour adds.
    pub sanitizers: Sanitizers,
    /// How it is tested.
    pub tests: Tests,
    /// Which functions are drawn from.
    pub functions: Functions,
    /// How much is replaced at once, and what an alert costs.
    pub scoring: Scoring,
}

/// How a subject is built. Commands run in the root of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// Run once per tree, before anything is built.
    pub configure: Vec<Vec<Template>>,
    /// Run after every change of the source.
    pub build: Vec<Vec<Template>>,
    /// The environment of both, beyond what the runner sets.
    pub env: BTreeMap<String, Template>,
    /// Compiler flags of both flavours.
    pub cflags: Vec<String>,
    /// Linker flags of both flavours.
    pub ldflags: Vec<String>,
    /// Debian packages that the commands need beyond the programs they name. Only for messages: no
    /// key depends on them.
    pub packages: Vec<String>,
}

/// What the `sanitized` flavour adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sanitizers {
    /// Added after [`Build::cflags`].
    pub cflags: Vec<String>,
    /// Added after [`Build::ldflags`].
    pub ldflags: Vec<String>,
    /// Run-time options by variable (`ASAN_OPTIONS`, ...), beyond what the runner sets.
    pub options: BTreeMap<String, String>,
    /// Whether leaks are looked for: only where the unchanged subject has none.
    pub leaks: bool,
    /// Whether units in C note which of their functions are entered, so that runs stand that enter
    /// nothing of what has changed.
    pub reach: bool,
}

/// The ways a subject is built.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Flavour {
    /// Without sanitizers: for verdicts of Metric I.
    Plain,
    /// With sanitizers: for tests and alerts.
    Sanitized,
    /// Counting which lines are executed: to see what the suite reaches.
    Coverage,
}

/// Where programs of the flavour `coverage` write their counts, inside the sandbox.
pub const COUNTS: &str = "/eb/counts";

/// The flags by which gcc counts executed lines, when it compiles and when it links. The place is no
/// matter of the environment, of which a program may have nothing left when it ends.
const COUNT: [&str; 2] = ["--coverage", "-fprofile-dir=/eb/counts"];

impl Flavour {
    /// `plain`, `sanitized` or `coverage`.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Plain => "plain",
            Flavour::Sanitized => "sanitized",
            Flavour::Coverage => "coverage",
        }
    }
}

/// Where test programs leave their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// On standard output and standard error, where the code under test can write too.
    Stdout,
    /// On a descriptor of their own: the harness is compiled with [`super::REPORT_HEADER`].
    Results,
    /// In the file that is `{results}` in a shard's command: what runs the tests writes it.
    File,
}

impl Report {
    /// The word for it in manifests and keys.
    pub fn name(self) -> &'static str {
        match self {
            Report::Stdout => "stdout",
            Report::Results => "results",
            Report::File => "file",
        }
    }
}

/// Which functions form the population.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Functions {
    /// Files that are looked at.
    pub include: Globs,
    /// Files of these that are not.
    pub exclude: Globs,
    /// Files that the build makes and whose functions are drawn from as well.
    pub generated: Globs,
    /// Shortest function, in tokens between white space, inclusive.
    pub min_tokens: u32,
    /// Longest function, exclusive.
    pub max_tokens: u32,
    /// Files whose language is not the one that their extension means, by pattern.
    pub languages: Vec<(Globs, LanguageId)>,
    /// Who finds the functions.
    pub extractor: Extractor,
}

/// Who finds the functions of a subject.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Extractor {
    /// The reader of this program, on the source and on the preprocessed units.
    #[default]
    TreeSitter,
    /// libclang over the recorded compile commands.
    Libclang,
}

impl Extractor {
    /// `tree-sitter` or `libclang`.
    pub fn name(self) -> &'static str {
        match self {
            Extractor::TreeSitter => "tree-sitter",
            Extractor::Libclang => "libclang",
        }
    }
}

impl Functions {
    /// The language of a file: that of the longest pattern of `languages` that matches, else the
    /// one its extension means; none for what is no source.
    pub fn language_of(&self, path: &str) -> Option<LanguageId> {
        let matching = self.languages.iter().filter(|(g, _)| g.matches(path));
        let longest = matching.max_by_key(|(g, _)| g.patterns().iter().map(String::len).max());
        match longest {
            Some((_, language)) => Some(*language),
            None => LanguageId::of_path(path),
        }
    }
}

/// Why a file is or is not looked at for functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection<'a> {
    /// It is.
    Selected,
    /// It is one of the test programs' own, by this pattern.
    Harness(&'a str),
    /// It is excluded, by this pattern.
    Excluded(&'a str),
    /// No pattern includes it.
    NotIncluded,
}

/// Numbers of the metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scoring {
    /// n, the functions replaced at once in an iteration.
    pub functions_per_iteration: u32,
    /// Points lost per unique alert; computed from the number of functions when absent.
    pub penalty: Option<f64>,
    /// How many iterations are run unless the command says otherwise.
    pub iterations: u32,
}

/// The programs a build uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tools {
    /// The C compiler.
    pub cc: String,
    /// The C++ compiler.
    pub cxx: String,
    /// The archiver.
    pub ar: String,
    /// The archive indexer.
    pub ranlib: String,
    /// Processes at once.
    pub jobs: u32,
}

/// The commands of one flavour with nothing left to fill in; they run in the root of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildPlan {
    /// Once per tree.
    pub configure: Vec<Vec<String>>,
    /// After every change.
    pub build: Vec<Vec<String>>,
    /// Environment of both.
    pub env: BTreeMap<String, String>,
}

impl Manifest {
    /// The compiler flags of a flavour.
    pub fn cflags(&self, flavour: Flavour) -> Vec<String> {
        joined(&self.build.cflags, &self.sanitizers.cflags, flavour)
    }

    /// The linker flags of a flavour.
    pub fn ldflags(&self, flavour: Flavour) -> Vec<String> {
        joined(&self.build.ldflags, &self.sanitizers.ldflags, flavour)
    }

    /// The commands that build a flavour with these tools.
    pub fn plan(&self, flavour: Flavour, tools: &Tools) -> BuildPlan {
        let (cflags, ldflags) = (self.cflags(flavour), self.ldflags(flavour));
        let values = Values {
            cc: &tools.cc,
            cxx: &tools.cxx,
            ar: &tools.ar,
            ranlib: &tools.ranlib,
            jobs: tools.jobs,
            cflags: &cflags,
            ldflags: &ldflags,
        };
        let fill = |commands: &[Vec<Template>]| {
            let one = |c: &Vec<Template>| c.iter().flat_map(|t| t.arguments(&values)).collect();
            commands.iter().map(one).collect()
        };
        let env = self.build.env.iter();
        BuildPlan {
            configure: fill(&self.build.configure),
            build: fill(&self.build.build),
            env: env.map(|(k, v)| (k.clone(), v.expand(&values))).collect(),
        }
    }

    /// Whether functions are looked for in the file at `path`.
    pub fn selection(&self, path: &str) -> Selection<'_> {
        if let Some(glob) = self.tests.harness.which(path) {
            return Selection::Harness(glob);
        }
        if !self.functions.include.matches(path) {
            return Selection::NotIncluded;
        }
        match self.functions.exclude.which(path) {
            Some(glob) => Selection::Excluded(glob),
            None => Selection::Selected,
        }
    }
}

fn joined(common: &[String], sanitizers: &[String], flavour: Flavour) -> Vec<String> {
    match flavour {
        Flavour::Plain => common.to_vec(),
        Flavour::Sanitized => [common, sanitizers].concat(),
        Flavour::Coverage => [common, &COUNT.map(str::to_string)].concat(),
    }
}
