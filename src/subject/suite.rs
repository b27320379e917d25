//! A subject's test suite as its manifest has it: shards, groups of shards of which there is one
//! for each file of the source tree, and the profiles that choose among them. Pure: which files
//! there are is told by the caller.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::globs::Globs;
use super::manifest::{Manifest, Report};
use super::problem::suggest;
use super::template::{Hole, Template};
use crate::logs::ParserChoice;

/// The test suite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tests {
    /// Parts that run and are cached by themselves; names unique.
    pub shards: Vec<Shard>,
    /// Shards of which there is one for each file; with `shards`, at least one.
    pub files: Vec<FileGroup>,
    /// How the report of a shard is read.
    pub parser: ParserChoice,
    /// Where the report of a shard is.
    pub report: Report,
    /// The test programs' own source files. Never among the functions.
    pub harness: Globs,
    /// The profile that is meant when none is asked for; there if any shard names one. Once one is
    /// selected, that one.
    pub profile: Option<String>,
}

/// One run of one test program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Unique in the subject.
    pub name: String,
    /// The command; a first word with a `/` is relative to the root of the tree.
    pub argv: Vec<TestText>,
    /// Where it runs.
    pub cwd: Cwd,
    /// Environment beyond what the runner sets.
    pub env: BTreeMap<String, TestText>,
    /// The file that it is for, relative to the tree, if it is one of a group.
    pub file: Option<String>,
    /// Directories of the tree that the run may write to, in a copy of its own; `.` is all of it.
    pub writable: Vec<String>,
    /// What it may use.
    pub limits: ShardLimits,
    /// Whether the unchanged subject may report no case in it: then it counts for nothing.
    pub may_be_empty: bool,
    /// The profiles that it is in; empty: all.
    pub profiles: Vec<String>,
}

/// Where a shard runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cwd {
    /// In this directory of the tree; `.` is the root.
    Tree(String),
    /// In an empty folder of the run's own.
    Scratch,
}

/// What a shard may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardLimits {
    /// Processor time, in seconds.
    pub cpu_seconds: u32,
    /// Passed time, in seconds.
    pub wall_seconds: u32,
    /// Memory of all processes.
    pub memory_mib: u32,
    /// What the private `/tmp` holds, and by how much `writable` may grow.
    pub scratch_mib: u32,
    /// Processes and threads at one time.
    pub processes: u32,
    /// The largest file.
    pub file_mib: u32,
}

impl ShardLimits {
    /// The limits of a shard that only says how long it may take.
    pub fn of_time(cpu_seconds: u32, wall_seconds: u32) -> ShardLimits {
        ShardLimits {
            cpu_seconds,
            wall_seconds,
            memory_mib: 2048,
            scratch_mib: 256,
            processes: 64,
            file_mib: 256,
        }
    }
}

/// Shards of which there is one for each file of the tree that matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileGroup {
    /// Which files.
    pub include: Globs,
    /// Which of these not.
    pub exclude: Globs,
    /// What every shard of the group is like; its name is the prefix of theirs.
    pub shard: Shard,
}

/// A word of a test's command, or a value of its environment.
pub type TestText = Template<TestHole>;

/// What can stand between braces in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TestHole {
    /// The root of the tree.
    Tree,
    /// The file to which results are written.
    Results,
    /// An empty folder of the run's own.
    Scratch,
    /// The file of a group's shard, relative to the tree.
    File,
    /// Its name without folders and without what follows the last dot.
    Stem,
}

impl Hole for TestHole {
    const NAMES: &'static [(&'static str, TestHole)] = &[
        ("tree", TestHole::Tree),
        ("results", TestHole::Results),
        ("scratch", TestHole::Scratch),
        ("file", TestHole::File),
        ("stem", TestHole::Stem),
    ];
}

/// Where things are when a test runs.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// For [`TestHole::Tree`].
    pub tree: &'a str,
    /// For [`TestHole::Results`].
    pub results: &'a str,
    /// For [`TestHole::Scratch`].
    pub scratch: &'a str,
}

impl Shard {
    /// A word of its command or a value of its environment with nothing left to fill in.
    pub fn text(&self, text: &TestText, places: Places<'_>) -> String {
        let file = self.file.as_deref().unwrap_or_default();
        text.fill(|hole| match hole {
            TestHole::Tree => places.tree,
            TestHole::Results => places.results,
            TestHole::Scratch => places.scratch,
            TestHole::File => file,
            TestHole::Stem => stem(file),
        })
    }

    /// Whether it uses a placeholder, in its command or in its environment.
    pub fn mentions(&self, hole: TestHole) -> bool {
        let texts = self.argv.iter().chain(self.env.values());
        texts.flat_map(Template::holes).any(|h| h == hole)
    }

    /// Whether it needs an empty folder of its own.
    pub fn needs_scratch(&self) -> bool {
        self.cwd == Cwd::Scratch || self.mentions(TestHole::Scratch)
    }
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// The shards that a suite comes to on a source tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suite {
    /// The manifest's own, then those of each group by path.
    pub shards: Vec<Shard>,
    /// What became of the groups, in the manifest's order.
    pub groups: Vec<GroupCount>,
}

/// What became of a group of files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupCount {
    /// Its name.
    pub name: String,
    /// How many shards it gave.
    pub shards: usize,
    /// How many files `exclude` left out.
    pub excluded: usize,
    /// Patterns of either list that no file matches.
    pub unused: Vec<String>,
}

/// A group that matches no file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "[[tests.files]] `{name}` is no test at all: of {files} files in the source tree, {included} match `include` = {include:?} and none of these is left by `exclude` = {exclude:?}"
)]
pub struct EmptyGroup {
    /// Its name.
    pub name: String,
    /// How many files there are.
    pub files: usize,
    /// How many match `include`.
    pub included: usize,
    /// Its patterns.
    pub include: Vec<String>,
    /// Its patterns.
    pub exclude: Vec<String>,
}

impl Tests {
    /// The shards on a source tree with these files, sorted.
    pub fn expand<'a>(
        &self,
        files: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Suite, EmptyGroup> {
        let mut suite = Suite {
            shards: self.shards.clone(),
            groups: Vec::new(),
        };
        for group in &self.files {
            let (mut used, mut excluded) = (BTreeSet::new(), 0);
            let before = suite.shards.len();
            for file in files.clone() {
                if !group.include.matches(file) {
                    continue;
                }
                used.extend(group.include.all(file));
                if group.exclude.matches(file) {
                    used.extend(group.exclude.all(file));
                    excluded += 1;
                    continue;
                }
                suite.shards.push(Shard {
                    name: format!("{}/{file}", group.shard.name),
                    file: Some(file.to_string()),
                    ..group.shard.clone()
                });
            }
            let shards = suite.shards.len() - before;
            let (include, exclude) = (group.include.patterns(), group.exclude.patterns());
            if shards == 0 {
                return Err(EmptyGroup {
                    name: group.shard.name.clone(),
                    files: files.count(),
                    included: excluded,
                    include: include.to_vec(),
                    exclude: exclude.to_vec(),
                });
            }
            let patterns = include.iter().chain(exclude);
            suite.groups.push(GroupCount {
                name: group.shard.name.clone(),
                shards,
                excluded,
                unused: patterns
                    .filter(|p| !used.contains(p.as_str()))
                    .cloned()
                    .collect(),
            });
        }
        Ok(suite)
    }

    /// The profiles that shards name, sorted.
    pub fn profiles(&self) -> BTreeSet<&str> {
        let groups = self.files.iter().map(|group| &group.shard);
        let shards = self.shards.iter().chain(groups);
        shards
            .flat_map(|s| s.profiles.iter().map(String::as_str))
            .collect()
    }
}

/// A profile that no shard names.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "subject `{subject}` has no profile `{profile}`{}",
    hint(known, profile)
)]
pub struct UnknownProfile {
    /// The subject's name.
    pub subject: String,
    /// What was asked for.
    pub profile: String,
    /// What there is.
    pub known: Vec<String>,
}

fn hint(known: &[String], profile: &str) -> String {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    match suggest(profile, &names) {
        Some(hint) => format!("; {hint} (all: {})", known.join(", ")),
        None => ": its tests are in no profiles; leave it out".into(),
    }
}

impl Manifest {
    /// The manifest with the shards of one profile, by default the manifest's own: what is not
    /// selected is as if it were not written. Of profiles only the name of the one is left.
    pub fn with_profile(&self, profile: Option<&str>) -> Result<Manifest, UnknownProfile> {
        let known = self.tests.profiles();
        if let Some(profile) = profile
            && !known.contains(profile)
        {
            return Err(UnknownProfile {
                subject: self.name.clone(),
                profile: profile.to_string(),
                known: known.into_iter().map(str::to_string).collect(),
            });
        }
        let chosen = profile.or(self.tests.profile.as_deref());
        let select = |shard: &mut Shard| {
            let named = std::mem::take(&mut shard.profiles);
            named.is_empty() || chosen.is_none_or(|profile| named.iter().any(|p| p == profile))
        };
        let mut selected = self.clone();
        selected.tests.shards.retain_mut(select);
        selected
            .tests
            .files
            .retain_mut(|group| select(&mut group.shard));
        selected.tests.profile = chosen.map(str::to_string);
        Ok(selected)
    }
}

#[cfg(test)]
#[path = "suite_tests.rs"]
mod tests;
