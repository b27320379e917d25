//! Benchmarks of bug fixes as their makers publish them: instances out of files, and files out of the
//! instances that are left. Whatever is no instance is told with its reason.

mod folders;
mod rows;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use folders::folders;
pub use rows::rows;

/// One bug with its fix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// As the benchmark calls it.
    pub id: String,
    /// The repository, as `owner/name`, or the benchmark's name of the project.
    pub repository: String,
    /// The commit that the patch fits.
    pub base: String,
    /// Whether that commit is as after the patch, which fits it backwards.
    pub fixed: bool,
    /// The fix, from buggy to fixed.
    pub patch: Arc<[u8]>,
    /// What it adds to the tests.
    pub test_patch: Vec<u8>,
    /// Tests that fail before the fix and pass after it.
    pub fail_to_pass: Vec<String>,
    /// Tests that pass before and after.
    pub pass_to_pass: Vec<String>,
    /// How hard it is said to be.
    pub difficulty: Option<String>,
    /// When it was reported, as the benchmark writes it: `2019-05-15T…`.
    pub created_at: Option<String>,
}

impl Instance {
    /// The year in which it was reported.
    pub fn year(&self) -> Option<&str> {
        let year = self.created_at.as_deref()?.get(..4)?;
        year.bytes().all(|b| b.is_ascii_digit()).then_some(year)
    }
}

/// In which form a benchmark was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// SWE-bench and its relatives: rows of JSON.
    SweBench,
    /// Multi-SWE-bench: rows of JSON.
    MultiSweBench,
    /// Defects4J: folders with `active-bugs.csv`.
    Defects4J,
    /// BugsInPy: folders with `bug.info`.
    BugsInPy,
}

impl Form {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Form::SweBench => "SWE-bench",
            Form::MultiSweBench => "Multi-SWE-bench",
            Form::Defects4J => "Defects4J",
            Form::BugsInPy => "BugsInPy",
        }
    }
}

/// Why something is no instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInstance {
    /// It is no JSON object.
    Malformed,
    /// It lacks the repository, the base commit or its own name.
    FieldMissing,
    /// It has no patch.
    NoPatch,
    /// Another instance has its name.
    Duplicate,
}

impl NoInstance {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            NoInstance::Malformed => "no JSON object",
            NoInstance::FieldMissing => "without a repository, a base commit or a name",
            NoInstance::NoPatch => "without a patch",
            NoInstance::Duplicate => "another instance has the name",
        }
    }
}

/// A benchmark that was read.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// Its form.
    pub form: Form,
    /// Its instances, in its order.
    pub instances: Vec<Instance>,
    /// What was no instance: where it stands, and why.
    pub problems: Vec<(String, NoInstance)>,
    /// What was read, to be written again.
    source: Written,
}

#[derive(Clone, Debug)]
enum Written {
    /// Rows of JSON: the text, whether it is one array, and the bytes of each instance.
    Rows {
        text: Vec<u8>,
        array: bool,
        rows: Vec<Range<usize>>,
    },
    /// For each instance its project and its line of the project's list, and each list's head.
    Folders {
        lines: Vec<(String, String)>,
        heads: BTreeMap<String, String>,
    },
}

/// Why a text is no benchmark at all.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoBenchmark {
    /// Nothing in it is an instance.
    #[error("there is no instance in it{}", .0.as_ref().map(|r| format!("; the first row: {r}")).unwrap_or_default())]
    Nothing(Option<String>),
    /// Rows of two forms.
    #[error("it has rows of SWE-bench and of Multi-SWE-bench")]
    Mixed,
}

impl Benchmark {
    /// The instances for which `keep` is true, in the benchmark's own form: a file's name within what
    /// is written, and its bytes. Rows of JSON are one file without a name.
    pub fn filtered(&self, keep: impl Fn(&Instance) -> bool) -> BTreeMap<String, Vec<u8>> {
        let kept = (0..self.instances.len()).filter(|at| keep(&self.instances[*at]));
        match &self.source {
            Written::Rows { text, array, rows } => {
                let kept: Vec<&[u8]> = kept.map(|at| &text[rows[at].clone()]).collect();
                let bytes = match array {
                    false => kept
                        .iter()
                        .flat_map(|row| [row, &b"\n"[..]])
                        .flatten()
                        .copied()
                        .collect(),
                    true => [b"[\n", &kept.join(&b",\n"[..])[..], b"\n]\n"].concat(),
                };
                BTreeMap::from([(String::new(), bytes)])
            }
            Written::Folders { lines, heads } => {
                let mut files: BTreeMap<String, Vec<u8>> = heads
                    .iter()
                    .map(|(file, head)| (file.clone(), head.clone().into_bytes()))
                    .collect();
                for at in kept {
                    let (file, line) = &lines[at];
                    let text = files.entry(file.clone()).or_default();
                    text.extend_from_slice(line.as_bytes());
                    text.push(b'\n');
                }
                files
            }
        }
    }
}
