//! The subjects that come with the program. Reads no file: a preset is either a manifest's text or
//! the path of one in this project's own repository.

/// A subject that comes with the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// The manifest itself.
    Text(&'static str),
    /// Where the manifest lies, relative to the root of this project's checkout; its source lies
    /// beside it.
    Path(&'static str),
}

const PRESETS: &[(&str, Preset)] = &[
    ("cjson", Preset::Text(include_str!("presets/cjson.toml"))),
    (
        "jansson",
        Preset::Text(include_str!("presets/jansson.toml")),
    ),
    (
        "oniguruma",
        Preset::Text(include_str!("presets/oniguruma.toml")),
    ),
    ("php", Preset::Text(include_str!("presets/php.toml"))),
    ("quaylib", Preset::Path("fixtures/quaylib/everbench.toml")),
    ("sqlite", Preset::Text(include_str!("presets/sqlite.toml"))),
    (
        "sqlite-files",
        Preset::Text(include_str!("presets/sqlite-files.toml")),
    ),
    ("tidelib", Preset::Path("fixtures/tidelib/everbench.toml")),
];

/// A name that is no preset's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no subject `{name}` built in{hint}; a path of a manifest works too")]
pub struct UnknownPreset {
    /// What was asked for.
    pub name: String,
    hint: String,
}

/// The names of all presets, sorted.
pub fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The preset called `name`.
pub fn preset(name: &str) -> Result<Preset, UnknownPreset> {
    let found = PRESETS.iter().find(|(n, _)| *n == name);
    found.map(|(_, p)| *p).ok_or_else(|| {
        let names: Vec<&str> = presets().collect();
        let hint = super::problem::suggest(name, &names);
        UnknownPreset {
            name: name.to_string(),
            hint: hint.map(|h| format!(" ({h})")).unwrap_or_default(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Flavour, Manifest, Report, Selection, Source, Tools};

    fn manifest(name: &str) -> Manifest {
        let Ok(Preset::Text(text)) = preset(name) else {
            panic!("{name} is a text");
        };
        Manifest::parse(text, name).unwrap_or_else(|e| panic!("{e}"))
    }

    fn oniguruma() -> Manifest {
        manifest("oniguruma")
    }

    #[test]
    fn both_forms_of_sqlite_are_tested_alike_and_no_script_twice() {
        let (one, files) = (manifest("sqlite"), manifest("sqlite-files"));
        assert_eq!(one.tests, files.tests);
        assert_eq!(one.source, files.source);
        assert_eq!(one.scoring, files.scoring);
        assert!(one.functions.generated.matches("sqlite3.c"));
        assert_eq!(one.selection("src/btree.c"), Selection::NotIncluded);
        assert_eq!(files.selection("src/btree.c"), Selection::Selected);
        assert_eq!(
            files.selection("src/test1.c"),
            Selection::Excluded("src/test*.c")
        );

        let [quick, full] = one.tests.files.as_slice() else {
            panic!("two groups");
        };
        let twice = |path: &&String| {
            let full = full.include.matches(path) && !full.exclude.matches(path);
            full || path.contains('*')
        };
        let quick = quick.include.patterns();
        assert_eq!(quick.iter().find(twice), None);
        assert!(full.include.matches("test/walcrash.test"));
    }

    #[test]
    fn oniguruma_reads_as_written() {
        let m = oniguruma();
        assert!(matches!(&m.source, Source::Crate(c) if c.version == "69.9.3"));
        assert_eq!(m.tests.report, Report::Results);
        assert_eq!(m.tests.shards.len(), 6);
        assert_eq!(m.scoring.functions_per_iteration, 8);
        assert_eq!(m.selection("src/regexec.c"), Selection::Selected);
        assert_eq!(m.selection("test/testc.c"), Selection::Harness("test/*.c"));
        assert_eq!(
            m.selection("sample/simple.c"),
            Selection::Excluded("sample/**")
        );
        assert_eq!(m.selection("src/regint.h"), Selection::NotIncluded);
    }

    #[test]
    fn the_two_flavours_differ_in_flags_only() {
        let m = oniguruma();
        let tools = Tools {
            cc: "/w/cc".into(),
            cxx: "/w/c++".into(),
            ar: "ar".into(),
            ranlib: "ranlib".into(),
            jobs: 2,
        };
        let plain = m.plan(Flavour::Plain, &tools);
        let sanitized = m.plan(Flavour::Sanitized, &tools);
        assert_eq!(plain.build, sanitized.build);
        let has = |plan: &crate::subject::BuildPlan, arg: &str| {
            plan.configure[0].iter().any(|a| a == arg)
        };
        assert!(has(&plain, "-DCMAKE_C_FLAGS=-O0 -g1"));
        assert!(has(&plain, "-DCMAKE_EXE_LINKER_FLAGS="));
        assert!(has(&plain, "-DCMAKE_C_COMPILER=/w/cc"));
        assert!(has(
            &sanitized,
            "-DCMAKE_EXE_LINKER_FLAGS=-fsanitize=address,undefined -static-libasan -static-libubsan"
        ));
    }

    #[test]
    fn php_has_a_quick_profile_that_the_full_one_adds_to() {
        let m = manifest("php");
        assert!(matches!(&m.source, Source::Debian(d) if d.name == "php8.2" && !d.patched));
        assert_eq!(m.tests.report, Report::File);
        assert_eq!(m.tests.profile.as_deref(), Some("quick"));
        let of = |profile: &str| -> Vec<&str> {
            let named = |s: &&crate::subject::Shard| s.profiles.iter().any(|p| p == profile);
            let shards = m.tests.shards.iter().filter(named);
            shards.map(|s| s.name.as_str()).collect()
        };
        assert!(of("quick").iter().all(|name| of("full").contains(name)));
        assert_eq!(of("full").len(), m.tests.shards.len());
        assert_eq!(m.scoring.functions_per_iteration, 100);
        assert_eq!(m.selection("Zend/zend_hash.c"), Selection::Selected);
        assert_eq!(m.selection("ext/curl/multi.c"), Selection::NotIncluded);
        assert_eq!(
            m.selection("Zend/zend_vm_execute.h"),
            Selection::NotIncluded
        );
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_nearest() {
        let e = preset("onigurma").unwrap_err().to_string();
        assert!(e.contains("did you mean `oniguruma`?"), "{e}");
    }
}
