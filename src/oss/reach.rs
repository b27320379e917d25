//! What of a program a run depends on: all but the bodies of functions that it does not enter.
//!
//! A run notes which functions of each program it enters (`exec/reach.h`). In a key, a program that is
//! opened is then told by its parts (`lang::Parts`): the commands that link it, what they read, the
//! rest of each unit, and the bodies of the functions entered. Another program with the same parts
//! runs the same: it is never started. This needs that a compiler makes code of each function by
//! itself, so units must be compiled without optimisation; where that or anything else is in doubt
//! ([`parts_of`]) the program counts with all its bytes, as every other file does.
//!
//! Names follow the way of [`super::reads`]: `build/test//DIGEST` among the names of what is opened
//! says that what the list behind the digest names was entered; `build/test//*` that it is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::Serialize;

use super::artifact::{self, Unit};
use super::environment;
use super::inputs::Subject;
use super::population::{self, FlavourArg, Text};
use super::reads::{self, LINKS};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::lang::{Language, LanguageId, Parts, QuerySet};
use crate::oss::artifact::Replacement;

/// Between a file and what of it was entered; in no path are two of them together.
const MARK: &str = "//";
/// In the place of a list: any function may have been entered.
const WHOLE: &str = "*";

/// The name for what was entered of `path`: a list with this digest.
pub fn entry(path: &str, list: &Digest) -> String {
    format!("{path}{MARK}{}", list.hex())
}

/// The name for a program of which any function may have been entered.
pub fn whole(path: &str) -> String {
    format!("{path}{MARK}{WHOLE}")
}

/// The file and what was entered of it, if `name` is such a name: a list, or nothing for all of it.
pub fn entered(name: &str) -> Option<(&str, Option<Digest>)> {
    let (path, list) = name.split_once(MARK)?;
    match name == LINKS {
        true => None,
        false => Some((path, list.parse().ok())),
    }
}

/// The functions in a list.
pub fn functions(list: &[u8]) -> impl Iterator<Item = &str> {
    let text = std::str::from_utf8(list).unwrap_or_default();
    text.split('\n').filter(|name| !name.is_empty())
}

/// The lists that `known` names of a program.
fn lists_of<'a>(known: &'a BTreeSet<String>, path: &str) -> impl Iterator<Item = Digest> + use<'a> {
    let from = format!("{path}{MARK}");
    let names = known.range(from.clone()..);
    let names = names.take_while(move |name| name.starts_with(&from));
    names.filter_map(|name| entered(name)?.1)
}

/// Whether all that `opened` names is among `known`, where a program in `known` without a list of
/// what is entered stands for all of it. `list` gives the bytes behind a digest.
///
/// # Errors
/// Those of `list`.
pub fn cover<E>(
    known: &BTreeSet<String>,
    opened: &BTreeSet<String>,
    mut list: impl FnMut(Digest) -> Result<Arc<[u8]>, E>,
) -> Result<bool, E> {
    for name in opened.iter().filter(|name| !known.contains(*name)) {
        let Some((path, found)) = entered(name) else {
            return Ok(false);
        };
        let lists: Vec<Digest> = lists_of(known, path).collect();
        if lists.is_empty() {
            // Its bytes are in the key, or it is not in the tree.
            continue;
        }
        let Some(found) = found else {
            return Ok(false);
        };
        let mut all = BTreeSet::new();
        for digest in lists {
            all.extend(functions(&list(digest)?).map(str::to_string));
        }
        if !functions(&list(found)?).all(|name| all.contains(name)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `opened` without what was entered of programs that stand in `known` with all their bytes.
pub fn counted(known: &BTreeSet<String>, opened: &BTreeSet<String>) -> BTreeSet<String> {
    let whole = |path: &str| known.contains(path) && lists_of(known, path).next().is_none();
    let counts = |name: &&String| entered(name).is_none_or(|(path, _)| !whole(path));
    opened.iter().filter(counts).cloned().collect()
}

static C: LazyLock<Option<Language>> =
    LazyLock::new(|| QuerySet::default().language(LanguageId::C).ok());

/// The parts of a preprocessed unit or of a function alone.
#[salsa::tracked(returns(clone))]
fn parts<'db>(db: &'db dyn Db, text: Text<'db>) -> Result<Option<Arc<Parts>>, Hold> {
    let digest = text.digest(db);
    let found = population::recalled(db, "parts", &[digest], || {
        let language = C.as_ref();
        let text = db.blob(digest)?;
        Ok(language.and_then(|language| Parts::of(language, &text)))
    })?;
    Ok(found.map(Arc::new))
}

/// What a program of the sanitized flavour is linked from.
#[derive(PartialEq, Eq, Debug)]
struct Made {
    /// Its units, as positions in the base's document.
    units: Vec<usize>,
    /// The digest of all else: commands, and what they read that is of no unit.
    commands: Digest,
    /// Whether a unit comes out of an archive that does something when the program is loaded: then
    /// it matters which symbols are referred to, whoever does, since that decides whether it is linked.
    pulls: bool,
}

/// Why a program counts with all its bytes. Units are told by their objects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Whole {
    /// The build made it, or something that it is linked from, in a way that is not followed.
    NotFollowed {
        /// What was made so.
        path: String,
    },
    /// No unit of the subject is in it.
    NoUnit,
    /// A file that it is linked from is not what it was.
    NotHeld,
    /// Functions of this unit do not note that they are entered.
    NotNoting {
        /// Its object.
        unit: String,
    },
    /// This unit is compiled with an option by which code of one function can depend on another's.
    Option {
        /// Its object.
        unit: String,
        /// The option.
        option: String,
    },
    /// This unit is not C.
    Language {
        /// Its object.
        unit: String,
    },
    /// Functions of this unit may be entered unseen, or it cannot be told where its bodies end.
    Unseen {
        /// Its object.
        unit: String,
    },
    /// A process of it could not note what it enters.
    NotNoted,
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whole::NotFollowed { path } => {
                write!(f, "the build makes {path} in a way that is not followed")
            }
            Whole::NoUnit => f.write_str("no recorded compilation is in it"),
            Whole::NotHeld => f.write_str("a file that it is linked from is not held"),
            Whole::NotNoting { unit } => {
                write!(f, "{unit} is compiled without -finstrument-functions")
            }
            Whole::Option { unit, option } => write!(f, "{unit} is compiled with {option}"),
            Whole::Language { unit } => write!(f, "{unit} is not C"),
            Whole::Unseen { unit } => write!(f, "functions of {unit} may be entered unseen"),
            Whole::NotNoted => f.write_str("a process of it could not note what it enters"),
        }
    }
}

/// Each program that runs `opened`, and why it counts whole, if it does.
pub fn programs<'a>(
    db: &dyn Db,
    subject: Subject,
    opened: impl IntoIterator<Item = &'a BTreeSet<String>>,
) -> Result<BTreeMap<String, Option<Whole>>, Hold> {
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let linked = doc.steps.iter().filter(|step| step.tool != "ar");
    let linked: BTreeSet<&str> = linked.map(|step| step.output.as_str()).collect();
    let mut all = BTreeMap::new();
    for names in opened {
        for name in names {
            let unnoted = matches!(entered(name), Some((_, None)));
            let path = entered(name).map_or(name.as_str(), |(path, _)| path);
            if !linked.contains(path) {
                continue;
            }
            if unnoted {
                all.insert(path.to_string(), Some(Whole::NotNoted));
            } else if !all.contains_key(path) {
                let whole = made(db, subject, path.to_string())?.err();
                all.insert(path.to_string(), whole);
            }
        }
    }
    Ok(all)
}

/// How a program is made, if its parts are all that its behaviour can depend on.
#[salsa::tracked(returns(clone))]
fn made(db: &dyn Db, subject: Subject, path: String) -> Result<Result<Arc<Made>, Whole>, Hold> {
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let objects: BTreeMap<&str, usize> = (0..doc.units.len())
        .map(|n| (doc.units[n].object.as_str(), n))
        .collect();
    let products: BTreeMap<&str, Digest> = doc
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.digest))
        .collect();
    let untracked: BTreeSet<&str> = doc.untracked.iter().map(|u| u.path.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut units = BTreeSet::new();
    let mut archived = BTreeSet::new();
    let mut commands = Vec::new();
    let mut open = vec![(path, false)];
    while let Some((path, in_archive)) = open.pop() {
        if untracked.contains(path.as_str()) {
            return Ok(Err(Whole::NotFollowed { path }));
        }
        if let Some(unit) = objects.get(path.as_str()) {
            units.insert(*unit);
            if in_archive {
                archived.insert(*unit);
            }
        }
        if !seen.insert((path.clone(), in_archive)) {
            continue;
        }
        let steps: Vec<_> = doc.steps.iter().filter(|s| s.output == path).collect();
        if steps.is_empty() && !objects.contains_key(path.as_str()) {
            // A file of the source, or one that the build made in a way that is not followed.
            match products.contains_key(path.as_str()) {
                true => return Ok(Err(Whole::NotFollowed { path })),
                false => commands.push((path, "file", Vec::new(), String::new())),
            }
            continue;
        }
        for step in steps {
            let in_archive = in_archive || step.tool == "ar";
            let inputs = step.inputs.iter().map(|(_, input)| input);
            open.extend(
                inputs
                    .filter(|i| **i != path)
                    .map(|i| (i.clone(), in_archive)),
            );
            commands.push((
                path.clone(),
                &step.tool,
                step.argv.clone(),
                step.cwd.clone(),
            ));
        }
    }
    if units.is_empty() {
        return Ok(Err(Whole::NoUnit));
    }
    let mut pulls = false;
    for n in &units {
        let unit = &doc.units[*n];
        let parts = match parts_of(db, subject, unit)? {
            Ok(parts) => parts,
            Err(whole) => return Ok(Err(whole)),
        };
        pulls |= archived.contains(n) && parts.starts;
    }
    commands.sort();
    let files: Vec<String> = commands
        .iter()
        .filter(|(_, tool, ..)| *tool == "file")
        .map(|(path, ..)| path.clone())
        .collect();
    let Some(read) = reads::held(db, subject, &files)? else {
        return Ok(Err(Whole::NotHeld));
    };
    let link = environment::link(db, subject, FlavourArg::Sanitized)?;
    let all = (
        &commands,
        read,
        Digest::of(&link),
        Digest::of(subject.toolchain(db)),
    );
    Ok(Ok(Arc::new(Made {
        units: units.into_iter().collect(),
        commands: Digest::of(&artifact::write(&all)),
        pulls,
    })))
}

/// The parts of a unit whose functions note that they are entered and are compiled each by itself.
fn parts_of(db: &dyn Db, subject: Subject, unit: &Unit) -> Result<Result<Arc<Parts>, Whole>, Hold> {
    let named = || unit.object.clone();
    if population::language_of(subject.rules(db), unit) != LanguageId::C {
        return Ok(Err(Whole::Language { unit: named() }));
    }
    if !unit.argv.iter().any(|arg| arg == "-finstrument-functions") {
        return Ok(Err(Whole::NotNoting { unit: named() }));
    }
    let level = unit.argv.iter().rev().find(|arg| arg.starts_with("-O"));
    let optimised = level.filter(|level| *level != "-O0");
    let other = unit.argv.iter().find(|arg| {
        arg.starts_with("-flto")
            || arg.starts_with("-fno-instrument")
            || arg.starts_with("-finstrument-functions-")
    });
    if let Some(option) = optimised.or(other) {
        return Ok(Err(Whole::Option {
            unit: named(),
            option: option.clone(),
        }));
    }
    let parts = parts(db, Text::new(db, unit.preprocessed))?;
    let seen = parts.filter(|parts| !parts.unseen);
    Ok(seen.ok_or_else(|| Whole::Unseen { unit: named() }))
}

/// The digest of a program's parts, where the functions of these lists are entered.
#[salsa::tracked(returns(clone))]
fn unchanged<'db>(
    db: &'db dyn Db,
    subject: Subject,
    path: String,
    lists: Lists<'db>,
) -> Result<Option<Digest>, Hold> {
    let Ok(made) = made(db, subject, path)? else {
        return Ok(None);
    };
    let names = names(db, lists)?;
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&made.commands.0);
    for n in &made.units {
        let unit = &doc.units[*n];
        let Ok(parts) = parts_of(db, subject, unit)? else {
            return Ok(None);
        };
        let bodies: Vec<_> = parts
            .bodies
            .iter()
            .filter(|(name, _)| names.contains(*name))
            .collect();
        // Where an object tells lines of the file, all that is around a function is told too.
        let placed = unit.placed.as_ref().map(|_| unit.preprocessed);
        let symbols = made.pulls.then_some(unit.symbols);
        let command = (&unit.object, &unit.argv, &unit.cwd, &unit.tool);
        let told = (command, parts.rest, bodies, placed, symbols);
        let told = artifact::write(&told);
        hasher.update(&(told.len() as u64).to_le_bytes());
        hasher.update(&told);
    }
    Ok(Some(Digest(*hasher.finalize().as_bytes())))
}

/// Lists of functions, as an argument of queries.
#[salsa::interned]
struct Lists<'db> {
    #[returns(ref)]
    digests: Vec<Digest>,
}

/// The functions in all of these lists.
#[salsa::tracked(returns(clone))]
fn names<'db>(db: &'db dyn Db, lists: Lists<'db>) -> Result<Arc<BTreeSet<String>>, Hold> {
    let mut all = BTreeSet::new();
    for list in lists.digests(db) {
        all.extend(functions(&db.blob(*list)?).map(str::to_string));
    }
    Ok(Arc::new(all))
}

/// What a key says of the program `path`, in which `set` is replaced and the functions of `lists` are
/// entered; nothing if all its bytes count.
pub fn told(
    db: &dyn Db,
    subject: Subject,
    path: &str,
    lists: &[Digest],
    set: &[Replacement],
) -> Result<Option<Digest>, Hold> {
    let lists = Lists::new(db, lists.to_vec());
    let Some(digest) = unchanged(db, subject, path.to_string(), lists)? else {
        return Ok(None);
    };
    if set.is_empty() {
        return Ok(Some(digest));
    }
    let Ok(made) = made(db, subject, path.to_string())? else {
        return Ok(None);
    };
    let names = names(db, lists)?;
    let (_, doc) = population::base(db, subject, FlavourArg::Sanitized)?;
    let mut replaced = Vec::new();
    for replacement in set {
        let units = made.units.iter().map(|n| &doc.units[*n]);
        let units: Vec<&Unit> = units
            .filter(|u| u.reads.contains(&replacement.path))
            .collect();
        if units.is_empty() {
            continue;
        }
        let variant = Text::new(db, replacement.variant);
        let [original, other] = [
            parts(db, Text::new(db, replacement.original))?,
            parts(db, variant)?,
        ];
        let by_itself = original.zip(other).is_some_and(|(original, other)| {
            original.differs_in_body_only(&other, &replacement.name)
        });
        if by_itself && !made.pulls && !names.contains(&replacement.name) {
            continue;
        }
        let mut places = Vec::new();
        for unit in units {
            let text = Text::new(db, unit.preprocessed);
            if population::is_positional(db, LanguageId::C, variant, text)? {
                places.push(unit.preprocessed);
            }
        }
        replaced.push((format!("{:?}", replacement.to_value()), places));
    }
    Ok(Some(match replaced.is_empty() {
        true => digest,
        false => Digest::of(&artifact::write(&(digest, replaced))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn list(text: &str) -> (Digest, Arc<[u8]>) {
        (Digest::of(text.as_bytes()), text.as_bytes().into())
    }

    #[test]
    fn a_name_says_of_which_program_and_which_list() {
        let (digest, _) = list("f\ng");
        assert_eq!(
            entered(&entry("build/t", &digest)),
            Some(("build/t", Some(digest)))
        );
        assert_eq!(entered(&whole("build/t")), Some(("build/t", None)));
        assert_eq!(entered("build/t"), None);
        assert_eq!(entered("build/"), None);
        assert_eq!(entered(LINKS), None);
    }

    #[test]
    fn a_key_covers_what_its_lists_name_and_programs_that_count_whole() {
        let [f, g, fg] = ["f", "g", "f\ng"].map(list);
        let bytes = |digest: Digest| {
            let found = [&f, &g, &fg].into_iter().find(|(d, _)| *d == digest);
            found.map(|(_, bytes)| bytes.clone()).ok_or(())
        };
        let covers = |known: &[String], opened: &[String]| {
            let set = |names: &[String]| names.iter().cloned().collect();
            cover(&set(known), &set(opened), bytes)
        };
        let t = || "t".to_string();
        let of = |list: &(Digest, Arc<[u8]>)| entry("t", &list.0);
        // (in the key, opened, whether the key holds it)
        let cases = [
            (vec![t(), of(&fg)], vec![t(), of(&fg)], true),
            (vec![t(), of(&fg)], vec![t(), of(&f)], true),
            (vec![t(), of(&f)], vec![t(), of(&fg)], false),
            (vec![t(), of(&f), of(&g)], vec![t(), of(&fg)], true),
            (vec![t(), of(&fg)], vec![t(), whole("t")], false),
            (vec![t()], vec![t(), of(&fg)], true),
            (vec![t()], vec![t(), whole("t")], true),
            (vec![t(), of(&fg)], vec![t(), "u".into()], false),
        ];
        for (known, opened, expected) in cases {
            assert_eq!(
                covers(&known, &opened),
                Ok(expected),
                "{known:?} {opened:?}"
            );
        }
        let unknown = entry("t", &Digest::of(b"elsewhere"));
        assert_eq!(covers(&[t(), unknown], &[t(), of(&f)]), Err(()));
    }

    #[test]
    fn what_was_entered_of_a_program_that_counts_whole_does_not_count() {
        let (list, _) = list("f");
        let opened = names(&["t", "u", &entry("t", &list), &entry("u", &list)]);
        let known = names(&["t", "u", &entry("u", &list)]);
        assert_eq!(counted(&known, &opened), known);
    }
}
