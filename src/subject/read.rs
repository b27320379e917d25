//! From a manifest's text to a [`Manifest`], or to every problem in it. Reads no file.

use toml::de::DeTable;

use super::check::{
    all, arguments, choice, commands, defaulted, flags, globs, identifier, ok, patterns, template,
    valid, variable, whole,
};
use super::globs::Globs;
use super::manifest::{
    Build, Functions, LineParser, Manifest, Parser, Report, Sanitizers, Scoring, Shard, Tests,
};
use super::path;
use super::problem::{Problem, Problems, suggest};
use super::source::source;
use super::toml_tree::{At, Log, Section};
use crate::lang::LanguageId;

/// The largest limit of time: a week, in seconds.
const MAX_SECONDS: i64 = 7 * 24 * 3600;
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
    })
}

fn sanitizers(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Sanitizers> {
    s.require("cflags", "cflags = [\"-fsanitize=address,undefined\"]");
    let cflags = flags(log, &mut s, "cflags");
    s.require("ldflags", "ldflags = [\"-fsanitize=address,undefined\"]");
    let ldflags = flags(log, &mut s, "ldflags");
    s.require("leaks", "leaks = false");
    let leaks = s.boolean("leaks").map(|b| b.value);
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

fn tests(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Tests> {
    s.require("report", "report = \"stdout\"");
    let report = s.text("report").and_then(|r| {
        let known = [("stdout", Report::Stdout), ("results", Report::Results)];
        choice(log, &r, &known)
    });
    let harness = globs(log, &mut s, "harness", &[]);
    if report == Some(Report::Results) && harness.as_ref().is_some_and(Globs::is_empty) {
        s.say(
            "report = \"results\" needs `harness`: which files are the test programs' own",
            Some("write for example `harness = [\"test/*.c\"]`".into()),
        );
    }
    s.require("parser", "[tests.parser]");
    let parser = s.table("parser").and_then(|p| parser(log, p));
    s.require("shard", "[[tests.shard]]");
    let shards = s.tables("shard").and_then(|shards| {
        if shards.is_empty() {
            s.say("no shard: at least one test program is needed", None);
        }
        let mut names = Vec::new();
        all(shards.into_iter().map(|one| shard(log, one, &mut names)))
    });
    s.finish();
    Some(Tests {
        shards: shards?,
        parser: parser?,
        report: report?,
        harness: harness?,
    })
}

fn shard(log: &Log<'_>, mut s: Section<'_, '_, '_>, names: &mut Vec<String>) -> Option<Shard> {
    s.require("name", "name = \"unit\"");
    let name = s.text("name").and_then(|n| {
        if names.contains(&n.value) {
            let message = format!("another shard is called `{}` too", n.value);
            log.at(&n, message, None);
            return None;
        }
        names.push(n.value.clone());
        identifier(log, n)
    });
    s.require("argv", "argv = [\"./run-tests\"]");
    let argv = s.texts("argv").and_then(|argv| arguments(log, argv));
    let cwd = match s.has("cwd") {
        false => Some(".".to_string()),
        true => s.text("cwd").and_then(|p| {
            let checked = path::check_directory(&p.value).map_err(|e| e.to_string());
            ok(log, p, checked)
        }),
    };
    let env = s.text_map("env").and_then(|map| {
        all(map.into_iter().map(|(name, value)| {
            variable(log, &name, &value)?;
            Some((name, value.value))
        }))
    });
    s.require("cpu-seconds", "cpu-seconds = 60");
    let cpu_seconds = whole(log, &mut s, "cpu-seconds", 1, MAX_SECONDS);
    s.require("wall-seconds", "wall-seconds = 120");
    let wall_seconds = whole(log, &mut s, "wall-seconds", 1, MAX_SECONDS);
    s.finish();
    Some(Shard {
        name: name?,
        argv: argv?,
        cwd: cwd?,
        env: env?.into_iter().collect(),
        cpu_seconds: cpu_seconds?,
        wall_seconds: wall_seconds?,
    })
}

fn parser(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Parser> {
    s.require("type", "type = \"lines\"");
    let kind = s
        .text("type")
        .and_then(|t| choice(log, &t, &[("lines", ())]));
    s.require("pass", "pass = ['^ok (?<name>.*)']");
    if let Some(pass) = s.texts("pass").filter(|p| p.value.is_empty()) {
        log.at(&pass, "at least one pattern is needed", None);
    }
    let pass = patterns(log, &mut s, "pass");
    let fail = patterns(log, &mut s, "fail");
    let skip = patterns(log, &mut s, "skip");
    s.finish();
    kind?;
    Some(Parser::Lines(LineParser {
        pass: pass?,
        fail: fail?,
        skip: skip?,
    }))
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
    s.finish();
    Some(Functions {
        include: include?,
        exclude: exclude?,
        generated: generated?,
        min_tokens: min?,
        max_tokens: max?,
        languages: languages?,
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
pub(super) mod tests;
