//! The kinds of jobs of OSS-Bench and the documents they give: what executors write and queries
//! read. Documents are JSON with fields in the order written here; a change of their meaning is a
//! new version of their kind. Paths are relative to the root of the subject's tree; no document
//! holds a time, a host name or an absolute path of the machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::engine::Hold;
use crate::job::{Kind, Nature, Value};
use crate::lang::LanguageId;

/// A source tree fetched from where the manifest says: a snapshot.
pub const SOURCE: Kind = Kind {
    name: "source/snapshot",
    version: 1,
    nature: Nature::Deterministic,
};
/// The names of the system's files that a build of the unchanged subject opens: [`Opened`]. Which
/// these are depends on what the files hold, so the first answer is a place to start from, no more.
pub const FOOTPRINT: Kind = Kind {
    name: "oss/footprint",
    version: 1,
    nature: Nature::Measured,
};
/// The unchanged subject, built in one flavour: a [`BaseDoc`].
pub const BASE: Kind = Kind {
    name: "oss/base",
    version: 6,
    nature: Nature::Deterministic,
};
/// Whether the subject still builds with one function replaced: a [`VerdictDoc`].
pub const VERDICT: Kind = Kind {
    name: "oss/verdict",
    version: 1,
    nature: Nature::Deterministic,
};
/// The same question answered by the subject's own build commands: a [`VerdictDoc`].
pub const AUDIT: Kind = Kind {
    name: "oss/audit",
    version: 2,
    nature: Nature::Deterministic,
};
/// The subject built with a set of functions replaced: a [`ProgramDoc`].
pub const PROGRAM: Kind = Kind {
    name: "oss/program",
    version: 3,
    nature: Nature::Deterministic,
};
/// One shard of the test suite run on a program: a [`RunDoc`].
pub const RUN: Kind = Kind {
    name: "oss/run",
    version: 3,
    nature: Nature::Measured,
};
/// A first run of a shard on the unchanged subject, to learn which files of the tree it opens: a
/// [`RunDoc`] of which only that counts. Any answer is a place to start from.
pub const READS: Kind = Kind {
    name: "oss/reads",
    version: 2,
    nature: Nature::Measured,
};
/// In [`RunDoc::opened`]: it cannot be said what was opened, so it may be any file.
pub const EVERYTHING: &str = "*";

/// The compiler's warnings about one function: a [`WarningsDoc`].
pub const WARNINGS: Kind = Kind {
    name: "oss/warnings",
    version: 1,
    nature: Nature::Deterministic,
};

/// One shard of the test suite run on the unchanged subject, its lines counted: a [`CoverageDoc`].
pub const COVERAGE: Kind = Kind {
    name: "oss/coverage",
    version: 2,
    nature: Nature::Measured,
};

/// A build of the unchanged subject.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BaseDoc {
    /// Why it does not build, if it does not; the rest is then empty.
    pub broken: Option<BrokenBuild>,
    /// Whether the objects were compiled from text without places (`lang::placeless`): then the
    /// programs tell lines that are counted from each function's brace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placeless: bool,
    /// The recorded compilations, in the order of their source files.
    pub units: Vec<Unit>,
    /// The recorded archive and link commands, in the order they ran.
    pub steps: Vec<Step>,
    /// Every file that a recorded command wrote.
    pub files: Vec<BuiltFile>,
    /// Names under which units read files of the source: copies that the build makes, and symbolic
    /// links. Name -> file of the source.
    pub copies: BTreeMap<String, String>,
    /// The source files that the build makes and the manifest asks for; their bytes are in the store.
    pub generated: Vec<BuiltFile>,
    /// The files of the source that the build writes over and the manifest does not ask for.
    pub rewritten: Vec<String>,
    /// What a replaced function might reach unseen.
    pub untracked: Vec<Untracked>,
    /// The environment that the manifest gives the build; recorded commands are run again in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The files of the system that this build opened; all are in the job's `environment`, or the
    /// base is demanded again with those that were not.
    #[serde(default)]
    pub opened: Opened,
    /// Of the sanitized flavour: the files of the built tree that are neither as the source brought
    /// them nor among `files`, with what they hold. Without that for files in which build systems
    /// write down a time or a machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, Option<Digest>>,
}

/// Files outside of the tree, named as the sandbox shows them: only names, no contents.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Opened {
    /// What units include, the compiler's own headers among them.
    pub headers: BTreeSet<String>,
    /// What links read: libraries, start files, the linker scripts among them.
    pub link: BTreeSet<String>,
    /// The shared libraries that the built programs load, directly or not, and the loader.
    pub loaded: BTreeSet<String>,
    /// Scripts among the executable files of the tree, with the programs that the first line names.
    pub scripts: BTreeMap<String, Vec<String>>,
}

impl Opened {
    /// All files, each at least once.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.headers.iter().chain(&self.link).chain(&self.loaded)
    }
}

/// A product that no recorded command made, or that cannot be made again: a change of the units
/// which it may stand for could not be followed through it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Untracked {
    /// The file.
    pub path: String,
    /// What is known of it.
    pub reason: String,
    /// The objects of the units that it may hold code of.
    pub units: Vec<String>,
}

/// A build that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BrokenBuild {
    /// The command that failed.
    pub command: String,
    /// How it ended.
    pub ended: String,
    /// The first error in its output, if one was recognised.
    pub error: Option<String>,
    /// The whole output.
    pub log: Digest,
}

/// One recorded compilation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unit {
    /// `cc` or `c++`.
    pub tool: String,
    /// The arguments, without the program.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// The source file.
    pub source: String,
    /// The object file.
    pub object: String,
    /// The files of the tree it reads, itself included, sorted.
    pub reads: Vec<String>,
    /// True for the test programs' own units.
    pub harness: bool,
    /// The preprocessed text with its macro definitions (`-E -dD`).
    pub preprocessed: Digest,
    /// The global symbols of the object, as `nm` lists them: kind and name, sorted.
    pub symbols: Digest,
    /// Why the object tells lines of the file, though those of its base do not: see
    /// [`BaseDoc::placeless`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<String>,
}

/// One recorded command that makes a file of other files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// `cc`, `c++`, `ar`, `ranlib`, `ld`, `strip` or `objcopy`; or `copy`, for a file that the build
    /// copied or moved in whatever way.
    pub tool: String,
    /// The arguments, without the program.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// The file it writes.
    pub output: String,
    /// The files of the tree it reads, with the index of the argument that names each.
    pub inputs: Vec<(usize, String)>,
}

/// A file that a build wrote.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct BuiltFile {
    /// Where.
    pub path: String,
    /// Its bytes.
    pub digest: Digest,
    /// How many.
    pub size: u64,
}

/// At which stage a verdict fell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The compiler's front end.
    Syntax,
    /// Code generation and the assembler.
    Compile,
    /// Archives and the linker.
    Link,
    /// The subject's own build commands, in an audit.
    Build,
}

/// Whether the subject builds with one function replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VerdictDoc {
    /// True if every stage went well.
    pub compiles: bool,
    /// The stage that failed.
    pub stage: Option<Stage>,
    /// The first error.
    pub error: Option<String>,
    /// The limit that the compiler ran into (`cpu`, `memory`, ...), if it did.
    pub limit: Option<String>,
    /// The output of the command that failed.
    pub log: Option<Digest>,
}

/// What the compiler's front end warns of in one function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WarningsDoc {
    /// The limit that the compiler ran into, if it did; there are no warnings then.
    pub limit: Option<String>,
    /// Sorted, each once, whatever the number of units that gave it.
    pub warnings: Vec<Warning>,
}

/// One warning.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Warning {
    /// The line, from 0 for the first of the function's text.
    pub line: u32,
    /// The column, from 1; 0 when the compiler names none.
    pub column: u32,
    /// The flag that switches it on, as in `-Wunused-variable`; empty when none does.
    pub flag: String,
    /// What the compiler says.
    pub message: String,
}

/// A build with a set of functions replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgramDoc {
    /// Why it does not build, if it does not.
    pub failed: Option<BrokenBuild>,
    /// The executables and libraries that differ in the making from the base's, sorted by path.
    pub files: Vec<BuiltFile>,
}

/// How a process in the sandbox ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndDoc {
    /// It returned this exit status.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ran into this limit: `cpu`, `wall`, `memory`, `processes`, `output`, `disk`.
    Limit(String),
    /// It could not be executed: this error number.
    #[serde(rename = "not_started")]
    NotStarted(i32),
}

/// A run of one shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunDoc {
    /// How it ended, as the supervisor saw it.
    pub end: EndDoc,
    /// What it wrote to standard output.
    pub stdout: Digest,
    /// What it wrote to standard error.
    pub stderr: Digest,
    /// What the test program reported out of band.
    pub results: Digest,
    /// The sanitizers' own log files, one after another.
    pub sanitizers: Digest,
    /// What of the tree was opened: files, and folders with a `/` at the end (the root is `/`);
    /// [`EVERYTHING`] alone if that is not known. Files that the run itself made can be among them.
    /// For programs that note it, also what was entered of them ([`super::reach`]).
    pub opened: BTreeSet<String>,
}

impl RunDoc {
    /// What of it is not empty, by what it is.
    pub fn written(&self) -> Vec<(&'static str, Digest)> {
        let all = [
            ("sanitizers", self.sanitizers),
            ("stderr", self.stderr),
            ("stdout", self.stdout),
            ("results", self.results),
        ];
        let empty = Digest::of(b"");
        all.into_iter().filter(|(_, d)| *d != empty).collect()
    }
}

/// Which lines a run executed, by source file of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoverageDoc {
    /// Only files for which there is code.
    pub files: BTreeMap<String, CoveredFile>,
    /// True if a signal or a limit ended the run: then what it executed is not counted.
    pub cut_short: bool,
}

/// The lines of a file for which there is code.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoveredFile {
    /// Those that were executed.
    pub executed: BTreeSet<u32>,
    /// Those that were not.
    pub missed: BTreeSet<u32>,
}

impl CoverageDoc {
    /// Takes in what another run executed.
    pub fn merge(&mut self, other: &CoverageDoc) {
        self.cut_short |= other.cut_short;
        for (path, theirs) in &other.files {
            let ours = self.files.entry(path.clone()).or_default();
            ours.executed.extend(&theirs.executed);
            ours.missed.extend(&theirs.missed);
            let CoveredFile { executed, missed } = ours;
            missed.retain(|line| !executed.contains(line));
        }
    }
}

/// A function of the subject and what goes in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// The source file.
    pub path: String,
    /// The function's name.
    pub name: String,
    /// Its rank among the definitions of that name in the file.
    pub ordinal: u32,
    /// Digest of the text that is replaced.
    pub original: Digest,
    /// Digest of the text that goes in its place.
    pub variant: Digest,
    /// The language by which it is found.
    pub language: LanguageId,
    /// The digest of that language's queries, unless they are those that come with the program.
    pub queries: Option<Digest>,
}

impl Replacement {
    /// As it stands in a job's inputs.
    pub fn to_value(&self) -> Value {
        let mut parts: Vec<Value> = vec![
            self.path.as_str().into(),
            self.name.as_str().into(),
            i64::from(self.ordinal).into(),
            self.original.into(),
            self.variant.into(),
        ];
        // What is read as C always was reads on like that.
        if self.language != LanguageId::C || self.queries.is_some() {
            parts.push(self.language.name().into());
            parts.extend(self.queries.map(Value::from));
        }
        Value::List(parts)
    }

    /// Reads back what [`Replacement::to_value`] wrote.
    pub fn from_value(value: &Value) -> Option<Replacement> {
        let Value::List(parts) = value else {
            return None;
        };
        let [
            Value::Text(path),
            Value::Text(name),
            Value::Int(ordinal),
            Value::Digest(original),
            Value::Digest(variant),
            reading @ ..,
        ] = parts.as_slice()
        else {
            return None;
        };
        let (language, queries) = match reading {
            [] => (LanguageId::C, None),
            [Value::Text(name)] => (LanguageId::named(name)?, None),
            [Value::Text(name), Value::Digest(queries)] => {
                (LanguageId::named(name)?, Some(*queries))
            }
            _ => return None,
        };
        Some(Replacement {
            path: path.clone(),
            name: name.clone(),
            ordinal: u32::try_from(*ordinal).ok()?,
            original: *original,
            variant: *variant,
            language,
            queries,
        })
    }
}

/// Reads a document that an executor wrote.
pub fn read<T: for<'a> Deserialize<'a>>(kind: Kind, bytes: &[u8]) -> Result<T, Hold> {
    serde_json::from_slice(bytes).map_err(|e| {
        Hold::broken(
            format!("an output of kind {} cannot be read: {e}", kind.name),
            "the store was written by another version of everbench; use that version, or a new store",
        )
    })
}

/// Writes a document.
pub fn write<T: Serialize>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("documents have string keys only")
}
