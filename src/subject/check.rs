//! Checks of single values of a manifest: each gives the value back or logs why it cannot stand.
//! Pure; knows what a value may be, not which section it is in.

use super::globs::Globs;
use super::problem::suggest;
use super::template::{BadTemplate, Hole, Placeholder, Template};
use super::toml_tree::{At, Log, Section};

/// All values, or none when one is missing; every one is looked at.
pub(super) fn all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let values: Vec<Option<T>> = values.collect();
    values.into_iter().collect()
}

pub(super) fn valid<T>(
    log: &Log<'_>,
    at: At<T>,
    good: bool,
    why: &str,
    hint: Option<String>,
) -> Option<T> {
    if !good {
        log.at(&at, why, hint);
        return None;
    }
    Some(at.value)
}

pub(super) fn ok<T, U>(log: &Log<'_>, at: At<T>, checked: Result<U, String>) -> Option<T> {
    match checked {
        Ok(_) => Some(at.value),
        Err(why) => {
            log.at(&at, why, None);
            None
        }
    }
}

pub(super) fn identifier(log: &Log<'_>, at: At<String>) -> Option<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fine = at.value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && at.value.len() <= 64
        && at.value.chars().all(good);
    let why =
        "a name is 1 to 64 letters, digits, `-`, `_` or `.`, and begins with a letter or digit";
    valid(log, at, fine, why, None)
}

pub(super) fn exact_version(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let number = |n: &&str| !n.is_empty() && n.len() <= 18 && n.bytes().all(|b| b.is_ascii_digit());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    numbers.len() == 3 && numbers.iter().all(number) && version.chars().all(plain)
}

pub(super) fn choice<T: Copy>(
    log: &Log<'_>,
    at: &At<String>,
    known: &[(&'static str, T)],
) -> Option<T> {
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == at.value) {
        return Some(*value);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let message = format!("`{}` is not a choice", at.value);
    log.at(at, message, suggest(&at.value, &names));
    None
}

pub(super) fn whole(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    key: &'static str,
    least: i64,
    most: i64,
) -> Option<u32> {
    let n = s.integer(key)?;
    let good = (least..=most).contains(&n.value);
    let why = format!("{} is not between {least} and {most}", n.value);
    valid(log, n, good, &why, None).and_then(|n| u32::try_from(n).ok())
}

pub(super) fn defaulted(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    key: &'static str,
    default: u32,
    most: i64,
) -> Option<u32> {
    match s.has(key) {
        true => whole(log, s, key, 1, most),
        false => Some(default),
    }
}

pub(super) fn globs(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    key: &'static str,
    default: &[&str],
) -> Option<Globs> {
    let patterns = match s.has(key) {
        false => default.iter().map(|p| p.to_string()).collect(),
        true => all(s.texts(key)?.value.into_iter().map(|p| {
            let checked =
                Globs::check(&p.value).map_err(|why| format!("not a glob pattern: {why}"));
            ok(log, p, checked)
        }))?,
    };
    match Globs::new(patterns) {
        Ok(globs) => Some(globs),
        Err((_, why)) => {
            s.say(format!("`{key}` cannot be used: {why}"), None);
            None
        }
    }
}

/// Flags are joined by spaces where a build wants one text, so each must survive that.
pub(super) fn flags(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    key: &'static str,
) -> Option<Vec<String>> {
    if !s.has(key) {
        return Some(Vec::new());
    }
    all(s.texts(key)?.value.into_iter().map(|flag| {
        let good = !flag.value.is_empty() && !flag.value.contains([' ', '\t', '\n', '\r', '\0']);
        let hint = "write each flag as a string of its own".to_string();
        valid(log, flag, good, "a flag is one word", Some(hint))
    }))
}

pub(super) fn commands(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    key: &'static str,
) -> Option<Vec<Vec<Template>>> {
    if !s.has(key) {
        return Some(Vec::new());
    }
    all(s.commands(key)?.value.into_iter().map(|command| {
        if command
            .value
            .first()
            .is_none_or(|first| first.value.is_empty())
        {
            log.at(&command, "a command needs a program to run", None);
            return None;
        }
        all(command.value.into_iter().map(|a| template(log, a)))
    }))
}

pub(super) fn template(log: &Log<'_>, at: At<String>) -> Option<Template> {
    if at.value.contains('\0') {
        log.at(&at, "it contains a NUL byte", None);
        return None;
    }
    Template::parse(&at.value)
        .map_err(|e| {
            let hint = match &e {
                BadTemplate::Unknown(name) => suggest(name, &names::<Placeholder>()),
                BadTemplate::LoneBrace(_) => None,
            };
            log.at(&at, e.to_string(), hint);
        })
        .ok()
}

/// The names of a set of placeholders.
pub(super) fn names<H: Hole>() -> Vec<&'static str> {
    H::NAMES.iter().map(|(name, _)| *name).collect()
}

pub(super) fn variable(log: &Log<'_>, name: &str, at: &At<String>) -> Option<()> {
    let start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let good = name.starts_with(start)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !at.value.contains('\0');
    if !good {
        log.at(at, format!("`{name}` is not an environment variable"), None);
        return None;
    }
    Some(())
}
