//! A synthetic world: a C project that exists only as text, and executors that answer for the
//! compiler, the models and the tests at once. What they give follows from the job alone, so an
//! edit of the world changes exactly what a real edit would. Everything else (queries, engine,
//! store) is the product's own. Shared by `tests/incremental.rs` and `tools/bench_rescore.rs`.

pub mod fakes;
pub mod workbench;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use everbench::ask::Sampling;
use everbench::digest::Digest;
use everbench::lang::QuerySet;
use everbench::lang::calibration::Edit;
use everbench::oss::inputs::{Answers, Card, ModelSpec};
use everbench::source::{FileEntry, Snapshot};

/// A function of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Unique in the project.
    pub name: String,
    /// A comment directly before it: part of its text.
    pub comment: Option<String>,
    /// Local to its file.
    pub local: bool,
    /// The lines between the braces, without indentation.
    pub body: Vec<String>,
}

impl Function {
    /// A function of `lines` lines that computes something of its own.
    pub fn new(name: String, lines: usize, local: bool) -> Function {
        let mut body = vec![format!("int r = a * {} + b;", name.len())];
        for n in 0..lines {
            body.push(match n % 3 {
                0 => format!("if (r > {}) r -= b + {n};", 100 + n),
                1 => format!("r ^= (a << {}) + {n};", n % 7),
                _ => format!("r += (b & {n}) ? a : {};", n * 3),
            });
        }
        body.push("return r;".into());
        Function {
            comment: Some(format!("What {name} makes of a and b.")),
            name,
            local,
            body,
        }
    }

    /// Its declaration without the semicolon.
    pub fn head(&self) -> String {
        let local = if self.local { "static " } else { "" };
        format!("{local}int {}(int a, int b)", self.name)
    }

    /// Its text, comment included.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(comment) = &self.comment {
            let _ = writeln!(out, "/* {comment} */");
        }
        let _ = write!(out, "{}\n{{\n", self.head());
        for line in &self.body {
            let _ = writeln!(out, "    {line}");
        }
        out.push('}');
        out
    }
}

/// A source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where.
    pub path: String,
    /// A comment that belongs to no function.
    pub remark: String,
    /// Lines of code before the first function: macros, declarations.
    pub preamble: Vec<String>,
    /// Blank lines before each function.
    pub blank: usize,
    /// In order.
    pub functions: Vec<Function>,
}

impl File {
    /// Its text.
    pub fn text(&self) -> String {
        let mut out = format!("/* {} */\n", self.remark);
        for line in &self.preamble {
            out.push_str(line);
            out.push('\n');
        }
        for f in &self.functions {
            out.push_str(&"\n".repeat(self.blank));
            out.push_str(&f.text());
            out.push('\n');
        }
        out
    }
}

/// The project, and what an evaluation of it starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Unique paths below `src/`.
    pub files: Vec<File>,
    /// Files that are not compiled. A shard opens `data/SHARD.txt`, and the files that are named in
    /// its lines.
    pub others: BTreeMap<String, String>,
    /// Who is asked.
    pub models: Vec<ModelSpec>,
    /// The prompt template's text.
    pub template: String,
    /// The tree-sitter queries.
    pub queries: QuerySet,
    /// The toolchain's canonical bytes.
    pub toolchain: String,
    /// The files of the system that are opened or looked at, by name. One that ends in `.h` is
    /// included; the lines of a header that begin with `/` name further ones.
    pub system: BTreeMap<String, String>,
    /// The program of the system that runs the tests, if one does.
    pub runner: Option<String>,
    /// The name of the test program's shards.
    pub shards: Vec<String>,
    /// A glob of files for each of which there is a shard too, in profile `full` only.
    pub tested: Option<String>,
    /// The profile that is asked for; `quick` has the shards alone.
    pub profile: Option<String>,
    /// The pattern by which a passed case is told.
    pub pass: String,
    /// n.
    pub per_iteration: u32,
    /// Points per alert.
    pub penalty: f64,
    /// Iterations per model.
    pub iterations: u32,
    /// Of every draw.
    pub seed: u64,
    /// Functions asked; all when absent.
    pub limit: Option<u32>,
}

/// A header that every unit includes.
pub const HEADER: &str = "/usr/include/std.h";
/// A library that only links read.
pub const LINKED: &str = "/usr/lib/libstart.a";
/// A library that links read and programs load.
pub const SHARED: &str = "/usr/lib/libshared.so";
/// A library that only programs load: one that the shared one needs.
pub const LOADED: &str = "/usr/lib/libneeded.so";
/// What no build opens.
pub const UNRELATED: &str = "/usr/lib/libunrelated.so";
/// Runs tests.
pub const RUNNER: &str = "/usr/bin/runner";
const SYSTEM: [&str; 6] = [HEADER, LINKED, SHARED, LOADED, UNRELATED, RUNNER];

/// A prompt that shows a function and nothing more.
pub const TEMPLATE: &str =
    "=== system ===\nYou write C.\n=== user ===\nImprove `{{name}}`.\n```c\n{{function}}\n```\n";

impl World {
    /// Files of the same shape, models that answer by their name's hash.
    pub fn new(files: usize, per_file: usize, lines: usize, models: usize) -> World {
        let files = (0..files).map(|i| File {
            path: format!("src/part{i:03}.c"),
            remark: format!("Part {i} of a project that exists only here."),
            preamble: vec![format!("#define PART {i}"), "extern int total;".into()],
            blank: 1,
            functions: (0..per_file)
                .map(|j| Function::new(format!("part{i:03}_step{j:02}"), lines + j % 5, j % 3 == 2))
                .collect(),
        });
        let others = [
            ("README.md", "A project that exists only here."),
            ("data/first.txt", "what the first shard reads"),
            ("data/second.txt", "what the second shard reads"),
        ];
        World {
            files: files.collect(),
            others: others.map(|(path, text)| (path.into(), text.into())).into(),
            models: (0..models)
                .map(|i| model(&format!("model{i:02}")))
                .collect(),
            template: TEMPLATE.into(),
            queries: QuerySet::default(),
            toolchain: "a compiler that exists only here".into(),
            system: SYSTEM
                .map(|name| (name.into(), format!("what {name} holds")))
                .into(),
            runner: None,
            shards: vec!["first".into(), "second".into()],
            tested: None,
            profile: None,
            pass: "^OK: (?<name>.*)$".into(),
            per_iteration: 4,
            penalty: 1.0,
            iterations: 5,
            seed: 7,
            limit: None,
        }
    }

    /// The manifest's text.
    pub fn manifest(&self) -> String {
        let mut out = format!(
            "name = \"synthetic\"\n\
             [source]\ndirectory = \".\"\n\
             [build]\nbuild = [[\"make\"]]\ncflags = [\"-O0\"]\n\
             [sanitizers]\ncflags = [\"-fsanitize=undefined\"]\n\
             ldflags = [\"-fsanitize=undefined\"]\nleaks = false\n\
             [tests]\nreport = \"results\"\nharness = [\"tests/*.c\"]\n\
             [tests.parser]\ntype = \"lines\"\npass = ['{}']\nfail = ['^FAIL: (?<name>.*)$']\n",
            self.pass
        );
        let runner = self.runner.iter().map(|runner| format!("\"{runner}\", "));
        let runner: String = runner.collect();
        for shard in &self.shards {
            let _ = write!(
                out,
                "[[tests.shard]]\nname = \"{shard}\"\nargv = [{runner}\"./test\", \"{shard}\"]\n\
                 cpu-seconds = 10\nwall-seconds = 30\n"
            );
        }
        if let Some(glob) = &self.tested {
            out = out.replace("[tests]\n", "[tests]\nprofile = \"quick\"\n");
            for name in self.shards.iter().take(1) {
                let named = format!("name = \"{name}\"\n");
                let both = format!("{named}profiles = [\"quick\", \"full\"]\n");
                out = out.replacen(&named, &both, 1);
            }
            let _ = write!(
                out,
                "[[tests.files]]\nname = \"each\"\ninclude = [\"{glob}\"]\n\
                 argv = [\"./test\", \"{{file}}\"]\nprofiles = [\"full\"]\n\
                 cpu-seconds = 10\nwall-seconds = 30\n"
            );
        }
        let _ = write!(
            out,
            "[functions]\ninclude = [\"src/*.c\"]\n\
             [scoring]\nfunctions-per-iteration = {}\npenalty = {:?}\niterations = {}\n",
            self.per_iteration, self.penalty, self.iterations
        );
        out
    }

    /// The source tree, and the bytes of its files.
    pub fn tree(&self) -> (Snapshot, Vec<Vec<u8>>) {
        let mut snapshot = Snapshot::default();
        let mut blobs = Vec::new();
        let sources = self.files.iter().map(|file| (&file.path, file.text()));
        let others = self.others.iter().map(|(path, text)| (path, text.clone()));
        for (path, text) in sources.chain(others) {
            let bytes = text.into_bytes();
            let entry = FileEntry {
                digest: Digest::of(&bytes),
                executable: false,
                size: bytes.len() as u64,
            };
            snapshot.files.insert(path.clone(), entry);
            blobs.push(bytes);
        }
        (snapshot, blobs)
    }

    /// The headers that every unit reads, directly or not.
    pub fn headers(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![HEADER.to_string()];
        while let Some(name) = open.pop() {
            let text = self.system.get(&name).map_or("", String::as_str);
            open.extend(
                text.lines()
                    .filter(|l| l.starts_with('/'))
                    .map(String::from),
            );
            found.insert(name);
        }
        found
    }

    /// The function of this name.
    pub fn function(&mut self, name: &str) -> &mut Function {
        let mut all = self.files.iter_mut().flat_map(|f| &mut f.functions);
        all.find(|f| f.name == name).expect("the world has it")
    }
}

/// A model that is asked by prompt.
pub fn model(name: &str) -> ModelSpec {
    ModelSpec {
        name: name.into(),
        answers: Answers::Replay {
            revision: format!("{name}@1"),
            sampling: Sampling::default(),
            system: String::new(),
        },
        card: Card::default(),
    }
}

/// A model that is asked by edit.
pub fn calibration(name: &str, shares: &[(Edit, f64)]) -> ModelSpec {
    ModelSpec {
        name: name.into(),
        answers: Answers::Calibration(shares.iter().copied().collect::<BTreeMap<_, _>>()),
        card: Card::default(),
    }
}

/// Shares its bytes.
pub fn shared(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}
