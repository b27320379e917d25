//! From a manifest's text to a [`Manifest`], or to every problem in it. Reads no file.

use toml::de::DeTable;

use super::check::{
    all, choice, commands, defaulted, flags, globs, identifier, template, valid, variable, whole,
};
use super::globs::Globs;
use super::manifest::{Build, Extractor, Functions, Manifest, Sanitizers, Scoring};
use super::problem::{Problem, Problems, suggest};
use super::read_suite::tests;
use super::source::source;
use super::toml_tree::{At, Log, Section};
use crate::lang::LanguageId;

/// Iterations unless the manifest says otherwise.
const ITERATIONS: u32 = 1000;
/// Bounds of a function in tokens unless the manifest says otherwise; the upper one is exclusive.
const TOKENS: (u32, u32) = (10, 256);
/// Variables that sanitizers read.
const OPTION_VARIABLES: [&str; 5] = [
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "MSAN_OPTIONS",
    "TSAN_OPTIONS",
    "UBSAN_OPTIONS",
];

impl Manifest {
    /// Reads a manifest; `origin` is what messages call it, usually its path.
    ///
    /// # Errors
    /// All problems at once. When the text is not TOML, only how it is not.
    pub fn parse(text: &str, origin: &str) -> Result<Manifest, Problems> {
        let fail = |problems| {
            Err(Problems {
                origin: origin.to_string(),
                problems,
            })
        };
        let (document, errors) = DeTable::parse_recoverable(text);
        let log = Log::new(text);
        if !errors.is_empty() {
            for error in errors {
                let at = error.span().map_or(0, |s| s.start);
                let message = error.message().replace('\n', ", ");
                log.say(at, "", format!("not TOML: {message}"), None);
            }
            return fail(log.into_problems());
        }
        let manifest = manifest(&log, Section::root(&log, document.get_ref()));
        match (manifest, log.into_problems()) {
            (Some(manifest), problems) if problems.is_empty() => Ok(manifest),
            (None, problems) if problems.is_empty() => fail(vec![Problem {
                line: 1,
                column: 1,
                key: String::new(),
                message: "cannot be read, and no reason was found: a fault of this program".into(),
                hint: None,
            }]),
            (_, problems) => fail(problems),
        }
    }
}

fn manifest(log: &Log<'_>, mut root: Section<'_, '_, '_>) -> Option<Manifest> {
    root.require("name", "name = \"mylib\"");
    let name = root.text("name").and_then(|n| identifier(log, n));
    root.require("source", "[source]");
    let source = root.table("source").and_then(|s| source(log, s));
    root.require("build", "[build]");
    let build = root.table("build").and_then(|s| build(log, s));
    root.require("sanitizers", "[sanitizers]");
    let sanitizers = root.table("sanitizers").and_then(|s| sanitizers(log, s));
    root.require("tests", "[tests]");
    let tests = root.table("tests").and_then(|s| tests(log, s));
    root.require("functions", "[functions]");
    let functions = root.table("functions").and_then(|s| functions(log, s));
    root.require("scoring", "[scoring]");
    let scoring = root.table("scoring").and_then(|s| scoring(log, s));
    root.finish();
    Some(Manifest {
        name: name?,
        source: source?,
        build: build?,
        sanitizers: sanitizers?,
        tests: tests?,
        functions: functions?,
        scoring: scoring?,
    })
}

fn build(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Build> {
    let configure = commands(log, &mut s, "configure");
    s.require("build", "build = [[\"make\", \"-j{jobs}\", \"CC={cc}\"]]");
    if let Some(commands) = s.commands("build").filter(|c| c.value.is_empty()) {
        log.at(&commands, "at least one command is needed", None);
    }
    let build = commands(log, &mut s, "build");
    let cflags = flags(log, &mut s, "cflags");
    let ldflags = flags(log, &mut s, "ldflags");
    let packages = packages(log, &mut s);
    let env = s.text_map("env").and_then(|map| {
        all(map.into_iter().map(|(name, value)| {
            variable(log, &name, &value)?;
            template(log, value).map(|t| (name, t))
        }))
    });
    s.finish();
    Some(Build {
        configure: configure?,
        build: build?,
        env: env?.into_iter().collect(),
        cflags: cflags?,
        ldflags: ldflags?,
        packages: packages?,
    })
}

/// Names of Debian packages, as Debian's policy has them.
fn packages(log: &Log<'_>, s: &mut Section<'_, '_, '_>) -> Option<Vec<String>> {
    if !s.has("packages") {
        return Some(Vec::new());
    }
    all(s.texts("packages")?.value.into_iter().map(|name| {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = name.value.starts_with(letter)
            && name.value.len() >= 2
            && name.value.chars().all(|c| letter(c) || "+-.".contains(c));
        let hint = "write each package as a string of its own, without a version".to_string();
        valid(
            log,
            name,
            good,
            "not a name of a Debian package",
            Some(hint),
        )
    }))
}

fn sanitizers(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Sanitizers> {
    s.require("cflags", "cflags = [\"-fsanitize=address,undefined\"]");
    let cflags = flags(log, &mut s, "cflags");
    s.require("ldflags", "ldflags = [\"-fsanitize=address,undefined\"]");
    let ldflags = flags(log, &mut s, "ldflags");
    s.require("leaks", "leaks = false");
    let leaks = s.boolean("leaks").map(|b| b.value);
    let reach = match s.has("reach") {
        true => s.boolean("reach").map(|b| b.value),
        false => Some(true),
    };
    let options = s.text_map("options").and_then(|map| {
        all(map.into_iter().map(|(name, value)| {
            if !OPTION_VARIABLES.contains(&name.as_str()) {
                let hint = suggest(&name, &OPTION_VARIABLES);
                log.at(&value, format!("no sanitizer reads `{name}`"), hint);
                return None;
            }
            sanitizer_options(log, value).map(|v| (name, v))
        }))
    });
    s.finish();
    Some(Sanitizers {
        cflags: cflags?,
        ldflags: ldflags?,
        options: options?.into_iter().collect(),
        leaks: leaks?,
        reach: reach?,
    })
}

fn sanitizer_options(log: &Log<'_>, value: At<String>) -> Option<String> {
    for (name, instead) in [
        ("detect_leaks", "use `leaks`"),
        ("log_path", "leave it out: the runner sets it"),
    ] {
        let here = |o: &str| o.trim_start().starts_with(&format!("{name}="));
        if value.value.split(':').any(here) {
            let message = format!("`{name}` cannot be set here");
            log.at(&value, message, Some(instead.into()));
            return None;
        }
    }
    Some(value.value)
}

fn functions(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Functions> {
    let include = globs(log, &mut s, "include", &["**/*.c"]);
    if include.as_ref().is_some_and(Globs::is_empty) {
        s.say("`include` is empty: no function would be found", None);
    }
    let exclude = globs(log, &mut s, "exclude", &[]);
    let generated = globs(log, &mut s, "generated", &[]);
    let languages = match s.has("languages") {
        false => Some(Vec::new()),
        true => s.text_map("languages").and_then(|map| {
            all(map.into_iter().map(|(pattern, name)| {
                let language = language(log, &name);
                match Globs::new(vec![pattern.clone()]) {
                    Ok(globs) => Some((globs, language?)),
                    Err((_, why)) => {
                        log.at(&name, format!("`{pattern}` is no pattern: {why}"), None);
                        None
                    }
                }
            }))
        }),
    };
    let most = i64::from(u32::MAX);
    let min = defaulted(log, &mut s, "min-tokens", TOKENS.0, most);
    let max = defaulted(log, &mut s, "max-tokens", TOKENS.1, most);
    if let (Some(min), Some(max)) = (min, max)
        && min >= max
    {
        let message = format!("no length is at least {min} and below {max} tokens");
        s.say(
            message,
            Some("`min-tokens` must be less than `max-tokens`".into()),
        );
    }
    let extractor = match s.has("extractor") {
        false => Some(Extractor::default()),
        true => s.text("extractor").and_then(|e| {
            let known = [Extractor::TreeSitter, Extractor::Libclang].map(|e| (e.name(), e));
            choice(log, &e, &known)
        }),
    };
    s.finish();
    Some(Functions {
        include: include?,
        exclude: exclude?,
        generated: generated?,
        min_tokens: min?,
        max_tokens: max?,
        languages: languages?,
        extractor: extractor?,
    })
}

fn language(log: &Log<'_>, name: &At<String>) -> Option<LanguageId> {
    let found = LanguageId::named(&name.value);
    if found.is_none() {
        let known: Vec<&str> = LanguageId::all().map(LanguageId::name).collect();
        let hint = suggest(&name.value, &known);
        log.at(
            name,
            format!(
                "`{}` is no language; there are {}",
                name.value,
                known.join(", ")
            ),
            hint,
        );
    }
    found
}

fn scoring(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Scoring> {
    s.require("functions-per-iteration", "functions-per-iteration = 8");
    let n = whole(log, &mut s, "functions-per-iteration", 1, 1_000_000);
    let penalty = match s.has("penalty") {
        false => Some(None),
        true => s.float("penalty").and_then(|p| {
            let good = p.value > 0.0 && p.value <= 100.0;
            let message = "points are expected, above 0 and at most 100";
            valid(log, p, good, message, None).map(Some)
        }),
    };
    let iterations = defaulted(log, &mut s, "iterations", ITERATIONS, 1_000_000);
    s.finish();
    Some(Scoring {
        functions_per_iteration: n?,
        penalty: penalty?,
        iterations: iterations?,
    })
}

#[cfg(test)]
#[path = "read_tests.rs"]
pub(super) mod reading_tests;
