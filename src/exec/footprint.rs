//! Which files of the system a build opens: what its units include, what its links read, what its
//! programs load. The build that finds this out is not thrown away: it is kept in this process
//! until the base takes it over that is keyed by what these files hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::base::{self, Built, hand_over};
use super::commands;
use super::examine::{output_of, side_by_side};
use super::observe::{ELF, first_bytes, interpreters, shown};
use super::runner::{Call, Workshop, host};
use super::toolchain::{LDD_HELP, find, listed};
use crate::engine::{Context, Executor, Failure, Output};
use crate::job::{Job, Key};
use crate::oss::artifact::{self, BrokenBuild, Opened, Step};
use crate::oss::environment::Files;
use crate::oss::layout::TREE;

/// Runs jobs of kind `oss/footprint`.
pub struct Footprint(pub Arc<Workshop>);

impl Executor for Footprint {
    fn run(&self, job: &Job, context: &Context<'_>) -> Result<Output, Failure> {
        let shop = &self.0;
        let built = sound(shop, base::build(shop, job, context)?)?;
        let bytes = artifact::write(&built.doc.opened);
        shop.kept.put(job.key(), Kept::new(shop, built)?);
        Ok(Output {
            bytes,
            blobs: vec![],
        })
    }

    fn cores(&self) -> usize {
        usize::MAX
    }
}

/// A build that says something of the subject.
pub(super) fn sound(shop: &Workshop, built: Built) -> Result<Built, Failure> {
    if let Some(broken) = &built.doc.broken {
        lacking(&shop.missing_packages, broken)?;
    }
    Ok(built)
}

/// The files of the system in a base's key, with what they held.
pub(super) fn environment_of(job: &Job, context: &Context<'_>) -> Result<Files, Failure> {
    let bytes = (context.blob)(job.digest("environment"))?;
    serde_json::from_slice(&bytes).map_err(|e| Failure::Fatal {
        what: format!("the environment of {job:?} cannot be read: {e}"),
        help: "run `everbench store verify`".into(),
    })
}

/// A build that failed on a machine which lacks a package says nothing of the subject. It is not
/// stored, since its key would be the same when the package is there.
fn lacking(packages: &[String], broken: &BrokenBuild) -> Result<(), Failure> {
    if packages.is_empty() {
        return Ok(());
    }
    let why = broken.error.as_ref();
    Err(Failure::Fatal {
        what: format!(
            "the unchanged subject does not build: `{}` ended with {}{}; packages that builds need \
             are not installed: {}",
            broken.command,
            broken.ended,
            why.map(|e| format!(": {e}")).unwrap_or_default(),
            packages.join(" "),
        ),
        help: format!("install them: `apt-get install {}`", packages.join(" ")),
    })
}

/// A build with what the files held that it opened.
pub struct Kept {
    built: Built,
    seen: Files,
}

impl Kept {
    /// Looks at the files that a build opened, now that it is done.
    pub fn new(shop: &Workshop, built: Built) -> Result<Kept, Failure> {
        let opened = &built.doc.opened;
        let seen = shop.system.files(opened.files())?;
        shop.system.unchanged(seen.keys())?;
        Ok(Kept { built, seen })
    }

    /// Whether all that it opened is among the files of `environment`.
    pub fn is_closed_in(&self, environment: &Files) -> bool {
        self.seen.keys().all(|name| environment.contains_key(name))
    }

    /// The build.
    pub fn built(&self) -> &Built {
        &self.built
    }

    /// The build.
    pub fn into_built(self) -> Built {
        self.built
    }
}

/// The builds of this process that no base has taken over yet, by their footprints.
#[derive(Default)]
pub struct KeptBuilds(Mutex<HashMap<Key, Kept>>);

impl KeptBuilds {
    /// Keeps a build for the base that will be demanded next.
    pub fn put(&self, footprint: Key, kept: Kept) {
        let mut all = self
            .0
            .lock()
            .expect("nothing panics while it holds the lock");
        all.insert(footprint, kept);
    }

    /// The build of this footprint if it was made in this environment.
    pub fn take(&self, footprint: Key, environment: &Files) -> Option<Kept> {
        let mut all = self
            .0
            .lock()
            .expect("nothing panics while it holds the lock");
        let kept = all.remove(&footprint)?;
        let same = |(name, digest): (&String, &_)| {
            environment.get(name).is_none_or(|known| known == digest)
        };
        kept.seen.iter().all(same).then_some(kept)
    }
}

/// Finds what links open and programs load; `headers` and `binaries` are known from looking at the
/// tree.
pub fn opened(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    (steps, env): (&[Step], &BTreeMap<String, String>),
    headers: BTreeSet<String>,
    binaries: &mut dyn Iterator<Item = &String>,
) -> Result<Opened, Failure> {
    let links: Vec<&Step> = steps
        .iter()
        .filter(|step| matches!(step.tool.as_str(), "cc" | "c++" | "ld"))
        .collect();
    let mut link = BTreeSet::new();
    for traced in side_by_side(&links, |step| traced(shop, context, tree, env, step)) {
        link.extend(traced?);
    }
    let programs: Vec<String> = binaries
        .filter(|path| is_loaded(&tree.join(path)))
        .map(|path| format!("{TREE}/{path}"))
        .collect();
    Ok(Opened {
        headers,
        link,
        loaded: libraries(shop, context, tree, &programs)?,
        scripts: scripts(tree).map_err(host("looking for scripts"))?,
    })
}

/// The files of the system that a link reads, as the linker names them when it is asked to.
fn traced(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    env: &BTreeMap<String, String>,
    step: &Step,
) -> Result<BTreeSet<String>, Failure> {
    let scratch = shop
        .trees
        .scratch()
        .map_err(host("making a scratch folder"))?;
    let file = scratch.path().join(&step.output);
    let folder = file.parent().expect("a path in a folder has a parent");
    std::fs::create_dir_all(folder).map_err(host("making a scratch folder"))?;
    hand_over(shop, scratch.path())?;
    let program = shop.tools.tool(&step.tool).display().to_string();
    let trace = match step.tool.as_str() {
        "ld" => "--trace",
        _ => "-Wl,--trace",
    };
    let argv = [vec![program], commands::retarget(step), vec![trace.into()]].concat();
    let call = Call {
        cwd: step.cwd.clone(),
        out: Some(scratch.path()),
        env: env.clone(),
        ..Call::on(tree, argv)
    };
    // A link that cannot be made again has named what it read before it failed; nothing else is
    // ever made by it, since no variant can be linked by it either.
    let ended = shop.run(&call, context)?;
    let text = [ended.stdout, ended.stderr].concat();
    Ok(traced_files(&String::from_utf8_lossy(&text)))
}

/// Reads `/lib/libm.so.6`, `(/usr/lib/libx.a)member.o`, `/usr/lib/libx.a(member.o)` and
/// `-lm (/usr/lib/libm.so)`, the ways in which linkers name a file.
fn traced_files(text: &str) -> BTreeSet<String> {
    let parts = text.lines().flat_map(|line| line.split(['(', ')']));
    let paths = parts.map(str::trim).filter(|part| part.starts_with('/'));
    paths.filter_map(shown).collect()
}

/// Whether a file is a program or a shared library.
fn is_loaded(path: &Path) -> bool {
    let start = first_bytes(path).unwrap_or_default();
    // The type of an ELF file is at byte 16: 2 is a program, 3 one that can lie anywhere, or a
    // library. Its two bytes are in the machine's order.
    let kind = start.get(16..18).and_then(|kind| kind.try_into().ok());
    start.starts_with(ELF) && matches!(kind.map(u16::from_ne_bytes), Some(2 | 3))
}

/// The libraries of the system that `programs` load, and the loader, as the sandbox resolves them.
fn libraries(
    shop: &Workshop,
    context: &Context<'_>,
    tree: &Path,
    programs: &[String],
) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    if programs.is_empty() {
        return Ok(found);
    }
    let ldd = find("ldd").ok_or_else(|| Failure::Fatal {
        what: "`ldd` was not found, which says what programs load".into(),
        help: LDD_HELP.into(),
    })?;
    for programs in programs.chunks(100) {
        let argv = [&[ldd.display().to_string()], programs].concat();
        // It fails when one of them is linked statically, and lists the others all the same.
        let listing = output_of(shop, context, tree, argv)?;
        let paths = listed(&String::from_utf8_lossy(&listing));
        found.extend(paths.iter().filter_map(|path| shown(path.to_str()?)));
    }
    Ok(found)
}

/// The scripts among the executable files of the tree, with the programs that they name.
fn scripts(tree: &Path) -> std::io::Result<BTreeMap<String, Vec<String>>> {
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(tree) {
        let entry = entry?;
        let path = entry.path().strip_prefix(tree).ok();
        let (true, Some(path)) = (entry.file_type().is_file(), path.and_then(Path::to_str)) else {
            continue;
        };
        if entry.metadata()?.permissions().mode() & 0o111 == 0 {
            continue;
        }
        let start = first_bytes(entry.path())?;
        if start.starts_with(b"#!") {
            found.insert(path.to_string(), interpreters(&start));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linkers_name_files_in_several_ways() {
        // Any file that is everywhere: what it is plays no part.
        let libc = shown("/usr/bin/env").expect("the sandbox shows it");
        for line in [
            libc.clone(),
            format!("-lc ({libc})"),
            format!("({libc})member.o"),
            format!("{libc}(member.o)\n/eb/tree/a.o\nb.o\n/tmp/ccXXXXXX.o"),
        ] {
            assert_eq!(
                traced_files(&line),
                BTreeSet::from([libc.clone()]),
                "{line}"
            );
        }
    }
}
