//! Puts variants into a base's tree and replays the recorded commands that they reach: only the
//! touched units are compiled again, only what is made of them is linked again. The tree itself
//! stays as it is; changed files are laid over it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::base::{hand_over, snapshot};
use super::commands;
use super::placeless::{self, Compiler};
use super::runner::{Call, Workshop, host};
use super::{Ended, Status};
use crate::digest::Digest;
use crate::engine::{Context, Failure};
use crate::job::Job;
use crate::lang;
use crate::oss::artifact::{BaseDoc, Replacement, Stage, Unit};
use crate::oss::layout::TREE;
use crate::source::Snapshot;

/// A base's tree with replaced functions, being built.
pub struct Replay<'a> {
    shop: &'a Workshop,
    context: &'a Context<'a>,
    base_key: Digest,
    doc: &'a BaseDoc,
    tree: PathBuf,
    scratch: tempfile::TempDir,
    set: Vec<Replacement>,
    /// Spliced source files: path in the tree -> file on the host.
    over: Vec<(String, PathBuf)>,
}

/// A stage that failed, with how its command ended.
pub struct Stuck {
    /// Which.
    pub stage: Stage,
    /// The command.
    pub command: String,
    /// How it ended and what it wrote.
    pub ended: Ended,
}

impl<'a> Replay<'a> {
    /// Splices `set` into copies of the source files. `base` is the job whose tree is used.
    pub fn new(
        shop: &'a Workshop,
        context: &'a Context<'a>,
        base: &Job,
        doc: &'a BaseDoc,
        set: Vec<Replacement>,
    ) -> Result<Replay<'a>, Failure> {
        let tree = super::base::tree(shop, base, context)?;
        let scratch = shop
            .trees
            .scratch()
            .map_err(host("making a scratch folder"))?;
        let out = scratch.path().join("out");
        std::fs::create_dir(&out).map_err(host("making a scratch folder"))?;
        hand_over(shop, &out)?;
        let over = splice_all(shop, scratch.path(), base, doc, context, &set)?;
        let over = with_copies(&tree, doc, over);
        Ok(Replay {
            shop,
            context,
            base_key: base.key().0,
            doc,
            tree,
            scratch,
            set,
            over,
        })
    }

    /// The units that read a spliced file.
    pub fn touched(&self) -> Vec<&'a Unit> {
        let reads = |unit: &&Unit| {
            unit.reads
                .iter()
                .any(|path| self.over.iter().any(|(p, _)| p == path))
        };
        self.doc.units.iter().filter(reads).collect()
    }

    /// Front end only, for every touched unit.
    pub fn syntax(&self) -> Result<Option<Stuck>, Failure> {
        for unit in self.touched() {
            let stuck = self.replay(
                Stage::Syntax,
                &unit.tool,
                &unit.cwd,
                commands::syntax_only(unit),
                &self.over,
            )?;
            if stuck.is_some() {
                return Ok(stuck);
            }
        }
        Ok(None)
    }

    /// The front end's word on a touched unit, with `flags` added; how it ends decides nothing.
    pub fn diagnose(&self, unit: &Unit, flags: &[&str]) -> Result<Ended, Failure> {
        let args = commands::diagnosed(unit, flags);
        Ok(self.command(&unit.tool, &unit.cwd, args, &self.over)?.1)
    }

    /// Compiles every touched unit, then makes again everything that is made of it. Gives the
    /// paths of what was made, objects left out.
    pub fn build(&self) -> Result<Result<Vec<String>, Stuck>, Failure> {
        let mut changed = Vec::new();
        for unit in self.touched() {
            let out = commands::out_path(&unit.object);
            let on_host = self.prepare(&unit.object)?;
            let cached = self.shop.trees.object(&self.object_key(unit));
            if !cached.exists() {
                let argv = commands::compile_to(unit, &out);
                let stuck = self.compile(unit, argv)?;
                if let Some(stuck) = stuck {
                    return Ok(Err(stuck));
                }
                let copy = self.scratch.path().join("object");
                std::fs::copy(&on_host, &copy).map_err(host("keeping an object"))?;
                self.shop
                    .trees
                    .adopt(&copy, &cached)
                    .map_err(host("keeping an object"))?;
            } else {
                std::fs::copy(&cached, &on_host).map_err(host("using a kept object"))?;
            }
            changed.push(unit.object.clone());
        }
        // What was made again lies over the tree's own, so that links find it under its name.
        let mut over = self.over.clone();
        let lay = |over: &mut Vec<(String, PathBuf)>, path: &str, file: PathBuf| {
            over.retain(|(p, _)| p != path);
            over.push((path.to_string(), file));
        };
        for path in &changed {
            lay(&mut over, path, self.out().join(path));
        }
        let mut made = Vec::new();
        for step in commands::reached(&self.doc.steps, &changed) {
            let file = self.prepare(&step.output)?;
            if step.tool == "copy" {
                let from = self.out().join(&step.inputs[0].1);
                std::fs::copy(from, &file).map_err(host("copying a product"))?;
            } else {
                let argv = commands::retarget(step);
                let stuck = self.replay(Stage::Link, &step.tool, &step.cwd, argv, &over)?;
                if let Some(stuck) = stuck {
                    return Ok(Err(stuck));
                }
            }
            lay(&mut over, &step.output, file);
            made.push(step.output.clone());
        }
        made.sort();
        made.dedup();
        Ok(Ok(made))
    }

    /// The folder in which replayed commands wrote; paths in it are those of the tree.
    pub fn out(&self) -> PathBuf {
        self.scratch.path().join("out")
    }

    /// What an object depends on: the base, the unit, and the variants in the files it reads.
    fn object_key(&self, unit: &Unit) -> Digest {
        let mut bytes = b"everbench object 1".to_vec();
        bytes.extend(self.base_key.0);
        bytes.extend(unit.object.as_bytes());
        for r in self.set.iter().filter(|r| unit.reads.contains(&r.path)) {
            bytes.push(0);
            bytes.extend(r.path.as_bytes());
            bytes.push(0);
            bytes.extend(r.name.as_bytes());
            bytes.extend(r.ordinal.to_le_bytes());
            bytes.extend(r.variant.0);
        }
        Digest::of(&bytes)
    }

    fn prepare(&self, path: &str) -> Result<PathBuf, Failure> {
        let file = self.out().join(path);
        let dir = file.parent().expect("a path in a folder has a parent");
        std::fs::create_dir_all(dir).map_err(host("making a scratch folder"))?;
        hand_over(self.shop, &self.out())?;
        Ok(file)
    }

    /// Compiles a unit as the base did.
    fn compile(&self, unit: &Unit, args: Vec<String>) -> Result<Option<Stuck>, Failure> {
        let placeless = self.doc.placeless && unit.placed.is_none();
        let compiler = placeless::compiler(self.shop, &unit.tool, placeless);
        let (mut argv, ended) = self.command_by(compiler, &unit.cwd, args, &self.over)?;
        argv[0] = self.shop.tools.tool(&unit.tool).display().to_string();
        Ok(stuck(Stage::Compile, &argv, ended))
    }

    fn replay(
        &self,
        stage: Stage,
        tool: &str,
        cwd: &str,
        args: Vec<String>,
        over: &[(String, PathBuf)],
    ) -> Result<Option<Stuck>, Failure> {
        let (argv, ended) = self.command(tool, cwd, args, over)?;
        Ok(stuck(stage, &argv, ended))
    }

    fn command(
        &self,
        tool: &str,
        cwd: &str,
        args: Vec<String>,
        over: &[(String, PathBuf)],
    ) -> Result<(Vec<String>, Ended), Failure> {
        let tool = placeless::compiler(self.shop, tool, false);
        self.command_by(tool, cwd, args, over)
    }

    fn command_by(
        &self,
        tool: Compiler,
        cwd: &str,
        args: Vec<String>,
        over: &[(String, PathBuf)],
    ) -> Result<(Vec<String>, Ended), Failure> {
        let out = self.out();
        let mut env = self.doc.env.clone();
        env.extend(tool.env);
        let call = Call {
            cwd: cwd.to_string(),
            over: over.to_vec(),
            out: Some(&out),
            binds: tool.binds,
            env,
            limits: self.shop.limits,
            ..Call::on(&self.tree, [vec![tool.program], args].concat())
        };
        let ended = self.shop.run(&call, self.context)?;
        Ok((call.argv, ended))
    }
}

fn stuck(stage: Stage, argv: &[String], ended: Ended) -> Option<Stuck> {
    (ended.status != Status::Exited(0)).then(|| Stuck {
        stage,
        command: argv.join(" "),
        ended,
    })
}

/// A spliced file also stands for the copies that the build made of it. Symbolic links lead to it
/// by themselves.
fn with_copies(tree: &Path, doc: &BaseDoc, over: Vec<(String, PathBuf)>) -> Vec<(String, PathBuf)> {
    let is_file = |path: &String| {
        let place = tree.join(path);
        place.canonicalize().is_ok_and(|real| real == place)
    };
    let copies = doc.copies.iter().flat_map(|(copy, of)| {
        let files = over.iter().filter(move |(path, _)| path == of);
        files.map(move |(_, file)| (copy.clone(), file.clone()))
    });
    let copies: Vec<(String, PathBuf)> = copies.filter(|(copy, _)| is_file(copy)).collect();
    [over, copies].concat()
}

/// The line, from 1, on which the text that `r` replaces starts in its file.
pub fn first_line(
    shop: &Workshop,
    base: &Job,
    doc: &BaseDoc,
    context: &Context<'_>,
    r: &Replacement,
) -> Result<usize, Failure> {
    let snapshot = snapshot(base.digest("snapshot"), context)?;
    let source = source(&snapshot, doc, context, &r.path)?;
    let found = places(shop, &r.path, &source, &[r], context)?;
    let before = &source[..found[0].1.start];
    Ok(1 + before.iter().filter(|c| **c == b'\n').count())
}

/// Writes the source files of `set` with the variants in them; gives path in the tree -> file.
pub fn splice_all(
    shop: &Workshop,
    scratch: &Path,
    base: &Job,
    doc: &BaseDoc,
    context: &Context<'_>,
    set: &[Replacement],
) -> Result<Vec<(String, PathBuf)>, Failure> {
    let snapshot = snapshot(base.digest("snapshot"), context)?;
    let mut by_path: BTreeMap<&str, Vec<&Replacement>> = BTreeMap::new();
    for replacement in set {
        by_path
            .entry(&replacement.path)
            .or_default()
            .push(replacement);
    }
    let mut over = Vec::new();
    for (i, (path, replacements)) in by_path.into_iter().enumerate() {
        let source = source(&snapshot, doc, context, path)?;
        let bytes = spliced(shop, path, &source, &replacements, context)?;
        let file = scratch.join(format!("spliced-{i}"));
        std::fs::write(&file, bytes).map_err(host("writing a spliced file"))?;
        over.push((path.to_string(), file));
    }
    Ok(over)
}

/// The bytes of a source file, as it came or as the build made it.
fn source(
    snapshot: &Snapshot,
    doc: &BaseDoc,
    context: &Context<'_>,
    path: &str,
) -> Result<Arc<[u8]>, Failure> {
    let generated = doc.generated.iter().find(|file| file.path == path);
    let digest = generated
        .map(|file| file.digest)
        .or_else(|| Some(snapshot.files.get(path)?.digest))
        .ok_or_else(|| fault(format!("{path} is not in the snapshot")))?;
    (context.blob)(digest)
}

/// The ranges of `source` that `set` replaces, each with its replacement.
fn places<'r>(
    shop: &Workshop,
    path: &str,
    source: &[u8],
    set: &[&'r Replacement],
    context: &Context<'_>,
) -> Result<Vec<(&'r Replacement, Range<usize>)>, Failure> {
    let Some(first) = set.first() else {
        return Ok(Vec::new());
    };
    let language = shop.queries.language(first.language);
    let language = language.map_err(|e| fault(e.to_string()))?;
    let digest = language.queries().digest();
    if first.queries.is_some_and(|d| d != digest) {
        return Err(fault(format!(
            "{path} is to be read by other queries than those in use"
        )));
    }
    let functions = lang::functions(&language, source);
    set.iter()
        .map(|r| {
            let function = (r.name.as_str(), r.ordinal as usize);
            let original = || (context.blob)(r.original).map_err(Unplaced::Host);
            match lang::locate(&functions, source, function, original) {
                Ok(range) => Ok((*r, range)),
                Err(Unplaced::Host(failure)) => Err(failure),
                Err(Unplaced::Text(e)) => Err(fault(format!("{path}: {e}"))),
            }
        })
        .collect()
}

fn spliced(
    shop: &Workshop,
    path: &str,
    source: &Arc<[u8]>,
    set: &[&Replacement],
    context: &Context<'_>,
) -> Result<Vec<u8>, Failure> {
    let mut edits = Vec::new();
    for (r, range) in places(shop, path, source, set, context)? {
        edits.push(lang::Splice {
            range,
            expected: r.original,
            replacement: (context.blob)(r.variant)?.to_vec(),
        });
    }
    lang::splice(source, &edits).map_err(|e| fault(format!("{path}: {e}")))
}

/// Why the place of a replacement is not known.
enum Unplaced {
    Host(Failure),
    Text(lang::LocateError),
}

impl From<lang::LocateError> for Unplaced {
    fn from(e: lang::LocateError) -> Unplaced {
        Unplaced::Text(e)
    }
}

fn fault(what: String) -> Failure {
    Failure::Fatal {
        what,
        help: "the job does not fit its snapshot: this is a fault in everbench; please report it"
            .into(),
    }
}

/// The path of a file of the tree inside the sandbox.
pub fn inside(path: &str) -> String {
    format!("{TREE}/{path}")
}
