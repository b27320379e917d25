//! Reads `[tests]` of a manifest: shards, groups of files, profiles and the parser. Which options a
//! parser has is told by the room `logs`.

use super::check::{all, choice, defaulted, globs, identifier, names, ok, valid, variable, whole};
use super::globs::Globs;
use super::manifest::Report;
use super::path;
use super::problem::suggest;
use super::suite::{Cwd, FileGroup, Shard, ShardLimits, TestHole, TestText, Tests};
use super::template::{BadTemplate, Hole, Placeholder, Template};
use super::toml_tree::{At, Log, Section};
use crate::logs::{OptionKind, OptionValue, Options, PARSERS, ParserChoice, ParserType};

/// The largest limit of time: a week, in seconds.
const MAX_SECONDS: i64 = 7 * 24 * 3600;
/// The largest limit of memory or of a file, in MiB.
const MAX_MIB: i64 = 1 << 20;
/// The largest limit of processes.
const MAX_PROCESSES: i64 = 4096;

pub(super) fn tests(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<Tests> {
    s.require("report", "report = \"stdout\"");
    let report = s.text("report").and_then(|r| {
        let known = [Report::Stdout, Report::Results, Report::File].map(|r| (r.name(), r));
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
    let mut names = Vec::new();
    let (some_shard, some_files) = (s.has("shard"), s.has("files"));
    if !some_shard && !some_files {
        s.require("shard", "[[tests.shard]]");
    }
    let mut read = Reader {
        log,
        report,
        names: &mut names,
    };
    let shards = match some_shard {
        false => Some(Vec::new()),
        true => s.tables("shard").and_then(|shards| {
            all(shards.into_iter().map(|mut one| {
                let shard = read.shard(&mut one, false);
                one.finish();
                shard
            }))
        }),
    };
    let files = match some_files {
        false => Some(Vec::new()),
        true => s
            .tables("files")
            .and_then(|groups| all(groups.into_iter().map(|one| read.group(one)))),
    };
    if (some_shard || some_files)
        && shards.as_ref().is_some_and(Vec::is_empty)
        && files.as_ref().is_some_and(Vec::is_empty)
    {
        s.say("no shard: at least one test program is needed", None);
    }
    let profile = match s.has("profile") {
        false => Some(None),
        true => s.text("profile").map(Some),
    };
    let tests = Tests {
        shards: shards?,
        files: files?,
        parser: parser?,
        report: report?,
        harness: harness?,
        profile: profile.as_ref()?.as_ref().map(|at| at.value.clone()),
    };
    let known: Vec<&str> = tests.profiles().into_iter().collect();
    match &profile? {
        Some(at) if !known.contains(&at.value.as_str()) => {
            let message = format!("no shard is in profile `{}`", at.value);
            log.at(at, message, suggest(&at.value, &known));
        }
        None if !known.is_empty() => s.say(
            "`profile` is missing: which one is meant when none is asked for",
            Some(format!("write for example `profile = \"{}\"`", known[0])),
        ),
        _ => {}
    }
    s.finish();
    Some(tests)
}

/// What the shards of one manifest have in common while they are read.
struct Reader<'a, 't> {
    log: &'a Log<'t>,
    report: Option<Report>,
    /// The names so far.
    names: &'a mut Vec<String>,
}

impl Reader<'_, '_> {
    fn group(&mut self, mut s: Section<'_, '_, '_>) -> Option<FileGroup> {
        let log = self.log;
        s.require("include", "include = [\"test/*.test\"]");
        let include = globs(log, &mut s, "include", &[]);
        if s.has("include") && include.as_ref().is_some_and(Globs::is_empty) {
            s.say("`include` is empty: no file would be a test", None);
        }
        let exclude = globs(log, &mut s, "exclude", &[]);
        let shard = self.shard(&mut s, true);
        if let Some(shard) = &shard
            && !shard.mentions(TestHole::File)
            && !shard.mentions(TestHole::Stem)
        {
            s.say(
                "neither `argv` nor `env` says which file is meant: all shards of the group would be the same",
                Some("put `{file}` or `{stem}` into `argv`".into()),
            );
        }
        s.finish();
        Some(FileGroup {
            include: include?,
            exclude: exclude?,
            shard: shard?,
        })
    }

    /// The keys that a shard and a group of files have in common.
    fn shard(&mut self, s: &mut Section<'_, '_, '_>, group: bool) -> Option<Shard> {
        let log = self.log;
        s.require("name", "name = \"unit\"");
        let name = s.text("name").and_then(|n| {
            if self.names.contains(&n.value) {
                let message = format!("another shard is called `{}` too", n.value);
                log.at(&n, message, None);
                return None;
            }
            self.names.push(n.value.clone());
            identifier(log, n)
        });
        s.require("argv", "argv = [\"./run-tests\"]");
        let argv = s.texts("argv").and_then(|argv| {
            if argv
                .value
                .first()
                .is_none_or(|first| first.value.is_empty())
            {
                log.at(&argv, "a command needs a program to run", None);
                return None;
            }
            if let Some(first) = argv.value.first()
                && leaves_the_tree(&first.value)
            {
                let message = format!(
                    "`{}` is outside of the tree: a program with a `/` is relative to its root, whatever `cwd` is",
                    first.value
                );
                let hint = "write the path from the root, as in \"./run-tests\"".to_string();
                log.at(first, message, Some(hint));
                return None;
            }
            all(argv.value.into_iter().map(|a| self.text(a, group)))
        });
        let cwd = match s.has("cwd") {
            false => Some(Cwd::Tree(".".into())),
            true => s.text("cwd").and_then(|p| {
                if p.value == "{scratch}" {
                    return Some(Cwd::Scratch);
                }
                let checked = path::check_directory(&p.value).map_err(|e| e.to_string());
                ok(log, p, checked).map(Cwd::Tree)
            }),
        };
        let env = s.text_map("env").and_then(|map| {
            all(map.into_iter().map(|(name, value)| {
                variable(log, &name, &value)?;
                self.text(value, group).map(|text| (name, text))
            }))
        });
        let writable = match s.has("writable") {
            false => Some(Vec::new()),
            true => s.texts("writable").and_then(|w| writable(log, w.value)),
        };
        s.require("cpu-seconds", "cpu-seconds = 60");
        let cpu_seconds = whole(log, s, "cpu-seconds", 1, MAX_SECONDS);
        s.require("wall-seconds", "wall-seconds = 120");
        let wall_seconds = whole(log, s, "wall-seconds", 1, MAX_SECONDS);
        let usual = ShardLimits::of_time(1, 1);
        let memory_mib = defaulted(log, s, "memory-mib", usual.memory_mib, MAX_MIB);
        let scratch_mib = defaulted(log, s, "scratch-mib", usual.scratch_mib, MAX_MIB);
        let processes = defaulted(log, s, "processes", usual.processes, MAX_PROCESSES);
        let file_mib = defaulted(log, s, "file-mib", usual.file_mib, MAX_MIB);
        let may_be_empty = match s.has("may-be-empty") {
            false => Some(false),
            true => s.boolean("may-be-empty").map(|b| b.value),
        };
        let profiles = match s.has("profiles") {
            false => Some(Vec::new()),
            true => s.texts("profiles").and_then(|list| {
                if list.value.is_empty() {
                    let hint = "leave `profiles` out for a shard that is in all".to_string();
                    log.at(&list, "a shard in no profile would never run", Some(hint));
                    return None;
                }
                all(list.value.into_iter().map(|p| identifier(log, p)))
            }),
        };
        let shard = Shard {
            name: name?,
            argv: argv?,
            cwd: cwd?,
            env: env?.into_iter().collect(),
            file: None,
            writable: writable?,
            limits: ShardLimits {
                cpu_seconds: cpu_seconds?,
                wall_seconds: wall_seconds?,
                memory_mib: memory_mib?,
                scratch_mib: scratch_mib?,
                processes: processes?,
                file_mib: file_mib?,
            },
            may_be_empty: may_be_empty?,
            profiles: profiles?,
        };
        if self.report == Some(Report::File) && !shard.mentions(TestHole::Results) {
            s.say(
                "report = \"file\" needs `{results}` in `argv` or `env`: where the report is to be written",
                None,
            );
        }
        Some(shard)
    }

    fn text(&self, at: At<String>, group: bool) -> Option<TestText> {
        let log = self.log;
        if at.value.contains('\0') {
            log.at(&at, "it contains a NUL byte", None);
            return None;
        }
        let text: TestText = match Template::parse(&at.value) {
            Ok(text) => text,
            Err(BadTemplate::Unknown(name)) if Placeholder::NAMES.iter().any(|n| n.0 == name) => {
                log.at(&at, format!("`{{{name}}}` is only known in [build]"), None);
                return None;
            }
            Err(e) => {
                let hint = match &e {
                    BadTemplate::Unknown(name) => suggest(name, &names::<TestHole>()),
                    BadTemplate::LoneBrace(_) => None,
                };
                log.at(&at, e.to_string(), hint);
                return None;
            }
        };
        let misplaced = text.holes().find_map(|hole| match hole {
            TestHole::File | TestHole::Stem if !group => Some("[[tests.files]]"),
            TestHole::Results if self.report.is_some_and(|r| r != Report::File) => {
                Some("shards of `report = \"file\"`")
            }
            _ => None,
        });
        if let Some(place) = misplaced {
            log.at(
                &at,
                format!("a placeholder in it is only known in {place}"),
                None,
            );
            return None;
        }
        Some(text)
    }
}

/// Whether the first word of a command, as the manifest writes it, has more `..` than can be taken
/// from the root of the tree.
fn leaves_the_tree(program: &str) -> bool {
    let below = program.strip_prefix("{tree}/").unwrap_or(program);
    // What is absolute is somewhere in the sandbox, which has a root.
    if ["/", "{scratch}", "{results}"]
        .iter()
        .any(|start| below.starts_with(start))
    {
        return false;
    }
    let mut depth = 0_i32;
    below.split('/').any(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

fn writable(log: &Log<'_>, list: Vec<At<String>>) -> Option<Vec<String>> {
    let mut read: Vec<String> = Vec::new();
    all(list.into_iter().map(|w| {
        let inside = |a: &str, b: &str| b == "." || a == b || a.starts_with(&format!("{b}/"));
        let other = read
            .iter()
            .find(|o| inside(&w.value, o) || inside(o, &w.value));
        if let Some(other) = other {
            let message = format!("`{}` and `{other}`: one holds the other", w.value);
            log.at(&w, message, None);
            return None;
        }
        read.push(w.value.clone());
        let checked = path::check_directory(&w.value).map_err(|e| e.to_string());
        ok(log, w, checked)
    }))
}

fn parser(log: &Log<'_>, mut s: Section<'_, '_, '_>) -> Option<ParserChoice> {
    s.require("type", "type = \"tap\"");
    let known = PARSERS.map(|kind| (kind.name, kind));
    let kind = s.text("type").and_then(|t| choice(log, &t, &known));
    let Some(kind) = kind else {
        // Which keys belong here depends on a choice that was not made: all are known.
        for option in PARSERS.iter().flat_map(|kind| kind.options) {
            s.has(option.key);
        }
        s.finish();
        return None;
    };
    let values = all(kind.options.iter().map(|option| {
        let value = option_value(log, &mut s, option.key, option.kind)?;
        Some((option.key, value))
    }));
    let chosen = values.and_then(|values| made(log, &mut s, kind, Options::new(values)));
    s.finish();
    chosen
}

fn option_value(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    key: &'static str,
    kind: OptionKind,
) -> Option<OptionValue> {
    match kind {
        OptionKind::Texts { required } => {
            if let Some(example) = required {
                s.require(key, example);
            }
            if !s.has(key) {
                return required.is_none().then(|| OptionValue::Texts(Vec::new()));
            }
            let texts = s.texts(key)?;
            if required.is_some() && texts.value.is_empty() {
                log.at(&texts, "at least one pattern is needed", None);
                return None;
            }
            let texts = texts.value.into_iter().map(|t| t.value);
            Some(OptionValue::Texts(texts.collect()))
        }
        OptionKind::Flag(default) => match s.has(key) {
            false => Some(OptionValue::Flag(default)),
            true => s.boolean(key).map(|b| OptionValue::Flag(b.value)),
        },
        OptionKind::Codes => {
            if !s.has(key) {
                return Some(OptionValue::Codes(Vec::new()));
            }
            let codes = s.integers(key)?.value.into_iter().map(|code| {
                let good = (0..=255).contains(&code.value);
                let why = format!("{} is no exit status: 0 to 255", code.value);
                let code = valid(log, code, good, &why, None)?;
                i32::try_from(code).ok()
            });
            all(codes).map(OptionValue::Codes)
        }
    }
}

fn made(
    log: &Log<'_>,
    s: &mut Section<'_, '_, '_>,
    kind: &'static ParserType,
    options: Options,
) -> Option<ParserChoice> {
    match ParserChoice::new(kind, options) {
        Ok(chosen) => Some(chosen),
        Err(bad) => {
            for option in bad {
                let texts = s.texts(option.key).map(|t| t.value).unwrap_or_default();
                match texts.get(option.index) {
                    Some(at) => log.at(at, option.why, None),
                    None => s.say(format!("`{}`: {}", option.key, option.why), None),
                }
            }
            None
        }
    }
}
