//! Builds of every shape in one small project: commands that compile and link at once, objects that
//! are moved, archives taken apart, libraries with version links, stripped and copied products,
//! sources that are copied or made by the build. Verdicts are the build's own, whatever the way;
//! what cannot be followed is told and left out.

use std::collections::BTreeSet;
use std::fs;

use everbench::oss::population::{self, FlavourArg};

use super::support::*;

const MANIFEST: &str = r#"
name = "shapes"
[source]
directory = "."
[build]
build = [["make", "-j{jobs}", "all", "CC={cc}", "AR={ar}", "CFLAGS={cflags}", "LDFLAGS={ldflags}"]]
cflags = ["-O0", "-g1", "-Wall"]
[sanitizers]
cflags = ["-fsanitize=address,undefined"]
ldflags = ["-fsanitize=address,undefined", "-static-libasan", "-static-libubsan"]
leaks = false
[tests]
report = "results"
harness = ["t/*.c"]
[tests.parser]
type = "lines"
pass = ['^ok (?<name>.*)$']
[[tests.shard]]
name = "all"
argv = ["./once"]
cpu-seconds = 10
wall-seconds = 30
[functions]
include = ["**/*.c"]
generated = ["made/*.c"]
min-tokens = 1
[scoring]
functions-per-iteration = 1
"#;

const MAKEFILE: &str = r#"
all: once moved extracted shared-test copied-test generated-test merged plain.out

# Test and library in one command, as small projects do.
once: t/once.c src/once.c src/helper.c
	$(CC) $(CFLAGS) $(LDFLAGS) t/once.c src/once.c src/helper.c -o once -lm

# Compiled under another name and moved.
moved: src/moved.c t/moved.c
	$(CC) $(CFLAGS) -c src/moved.c -o moved.tmp && mv -f moved.tmp moved.o
	$(CC) $(CFLAGS) $(LDFLAGS) t/moved.c moved.o -o moved.new && mv moved.new moved

# A convenience archive, taken apart and thrown away.
extracted: src/extracted.c t/extracted.c
	$(CC) $(CFLAGS) -c src/extracted.c -o conv.o
	rm -f libconv.a && $(AR) cr libconv.a conv.o && rm conv.o
	rm -rf parts && mkdir parts && cd parts && $(AR) x ../libconv.a
	rm -f libwhole.a && $(AR) cr libwhole.a parts/*.o && rm -r parts
	$(CC) $(CFLAGS) $(LDFLAGS) t/extracted.c -L. -lwhole -o extracted

libx.so.1.2: src/shared.c
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIC -shared -Wl,-z,defs -Wl,-soname,libx.so.1 src/shared.c -o libx.so.1.2
	ln -sf libx.so.1.2 libx.so.1 && ln -sf libx.so.1 libx.so

shared-test: libx.so.1.2 t/shared.c
	$(CC) $(CFLAGS) $(LDFLAGS) t/shared.c -L. -lx -Wl,-rpath,/eb/tree -o shared-test
	strip -g shared-test

tsrc/copied.c: src/copied.c
	mkdir -p tsrc && cp src/copied.c tsrc/copied.c

copied-test: tsrc/copied.c t/copied.c
	$(CC) $(CFLAGS) $(LDFLAGS) t/copied.c tsrc/copied.c -o copied-test

made/made.c: src/made.in
	mkdir -p made && sed 's/@N@/3/' src/made.in > made/made.c

other.c: src/made.in
	sed 's/@N@/4/; s/made_/other_/' src/made.in > other.c

generated-test: made/made.c other.c t/generated.c
	$(CC) $(CFLAGS) -Isrc -c made/made.c -o made/made.o
	$(CC) $(CFLAGS) $(LDFLAGS) -Isrc t/generated.c made/made.o other.c -Wl,-Map=link.map -o generated-test

# By a linker that nobody watches.
merged: src/unseen.c t/merged.c
	$(CC) $(CFLAGS) -c src/unseen.c -o unseen.o
	/usr/bin/ld -r unseen.o -o merged.o
	$(CC) $(CFLAGS) $(LDFLAGS) t/merged.c merged.o -o merged

plain.out: src/plain.c
	$(CC) $(CFLAGS) $(LDFLAGS) src/plain.c && cp a.out plain.out
"#;

fn library(name: &str) -> String {
    format!(
        "#include \"all.h\"\nint {name}_value(int n)\n{{\n    return n + 1;\n}}\n\nint {name}_twice(int n)\n{{\n    return {name}_value(n) * 2;\n}}\n"
    )
}

fn test(names: &[&str]) -> String {
    let mut out =
        String::from("#include <stdio.h>\n#include \"../src/all.h\"\nint main(void)\n{\n");
    for name in names {
        out.push_str(&format!(
            "    if ({name}_twice(1) > 0) printf(\"ok {name}\\n\");\n"
        ));
    }
    out.push_str("    return 0;\n}\n");
    out
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let names = [
        "once",
        "helper",
        "moved",
        "extracted",
        "shared",
        "copied",
        "made",
        "other",
        "unseen",
        "plain",
    ];
    let header: String = names
        .iter()
        .map(|n| format!("int {n}_value(int n), {n}_twice(int n);\n"))
        .collect();
    let include = |text: String| text.replace("all.h", "../src/all.h");
    let mut files = vec![
        ("Makefile".to_string(), MAKEFILE.to_string()),
        ("src/all.h".into(), header),
        (
            "src/made.in".into(),
            include(library("made"))
                .replace("+ 1", "+ @N@")
                .replace("../src/", ""),
        ),
        (
            "src/plain.c".into(),
            format!(
                "{}int main(void)\n{{\n    return plain_twice(0) - 2;\n}}\n",
                library("plain")
            ),
        ),
        ("src/copied.c".into(), include(library("copied"))),
        ("t/once.c".into(), test(&["once", "helper"])),
        ("t/generated.c".into(), test(&["made", "other"])),
        ("t/merged.c".into(), test(&["unseen"])),
    ];
    for name in ["once", "helper", "moved", "extracted", "shared", "unseen"] {
        files.push((format!("src/{name}.c"), library(name)));
    }
    for name in ["moved", "extracted", "shared", "copied"] {
        files.push((format!("t/{name}.c"), test(&[name])));
    }
    for (path, text) in files {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    dir
}

/// For a function of each shape: what builds, what the compiler rejects, and what only the link
/// rejects, so that a verdict that stopped at the object would be wrong.
fn tries() -> Vec<Try> {
    let functions = [
        "src/once.c:once_twice",
        "src/helper.c:helper_twice",
        "src/moved.c:moved_twice",
        "src/extracted.c:extracted_twice",
        "src/shared.c:shared_twice",
        "src/copied.c:copied_twice",
        "made/made.c:made_twice",
        "src/plain.c:plain_twice",
    ];
    let edits = [
        ("an edit", body("n += 0;"), Builds),
        ("a syntax error", body("n +;"), Fails),
        (
            "a function that is nowhere",
            body("extern int nowhere(int); n += nowhere(n);"),
            Fails,
        ),
    ];
    let all = functions.iter().flat_map(|function| {
        edits.iter().map(|(what, edit, expect)| Try {
            what,
            function,
            edit: edit.clone(),
            expect: *expect,
        })
    });
    all.collect()
}

#[test]
fn whatever_way_a_program_is_built_verdicts_are_the_builds_own() {
    for compiler in ["gcc", "clang"] {
        let dir = project();
        let mut lab = Lab::with_compiler(compiler, MANIFEST, dir.path(), None);
        let wrong = disagreements(&mut lab, &tries());
        assert!(wrong.is_empty(), "{compiler}\n{}", wrong.join("\n"));
    }
}

/// Objects without places are made again without them: what the build threw away is as it was.
#[test]
fn a_sanitized_build_is_followed_like_any_other() {
    let dir = project();
    // One of the links is to have no undefined symbols, which sanitizers bring.
    let manifest = MANIFEST
        .replace(", \"-static-libasan\", \"-static-libubsan\"", "")
        .replace("-fsanitize=address,undefined", "-O1");
    let mut lab = Lab::open(&manifest, dir.path(), None);
    let doc = lab.drive(None, |db, _, subject| {
        Ok(population::base(db, subject, FlavourArg::Sanitized)?.1)
    });
    assert!(doc.placeless);
    let placed: Vec<_> = doc.units.iter().filter(|u| u.placed.is_some()).collect();
    assert!(placed.is_empty(), "{placed:?}");
    let untracked: Vec<&String> = doc.untracked.iter().map(|u| &u.path).collect();
    assert_eq!(untracked, ["merged.o"]);
}

#[test]
fn what_cannot_be_followed_is_told_and_counted() {
    let dir = project();
    let mut lab = Lab::open(MANIFEST, dir.path(), None);
    let (doc, population) = lab.drive(None, |db, settings, subject| {
        let (_, doc) = population::base(db, subject, FlavourArg::Plain)?;
        Ok((doc, population::population(db, settings, subject)?))
    });
    insta::assert_json_snapshot!(doc.untracked, @r#"
    [
      {
        "path": "merged.o",
        "reason": "`merged` is made of it, and no recorded command made it",
        "units": [
          "unseen.o"
        ]
      }
    ]
    "#);
    insta::assert_json_snapshot!(population.excluded, @r#"
    {
      "generated": 2,
      "harness": 7,
      "untracked": 2
    }
    "#);
    assert!(
        population.unrelated.is_empty(),
        "{:?}",
        population.unrelated
    );
    let harness: BTreeSet<&str> = doc
        .units
        .iter()
        .filter(|u| u.harness)
        .map(|u| u.source.as_str())
        .collect();
    assert!(harness.iter().all(|s| s.starts_with("t/")), "{harness:?}");
    assert!(harness.contains("t/once.c"), "{harness:?}");
    let generated: Vec<&str> = doc.generated.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(generated, ["made/made.c"]);
    assert_eq!(doc.copies["tsrc/copied.c"], "src/copied.c");
}

#[test]
fn recorded_commands_are_run_again_in_the_environment_of_the_build() {
    let dir = project();
    let once = dir.path().join("src/once.c");
    fs::create_dir(dir.path().join("env")).expect("a folder");
    fs::write(dir.path().join("env/by-cpath.h"), "#define BY_CPATH 1\n").expect("a file");
    let text = format!("#include <by-cpath.h>\n{}", library("once"));
    fs::write(once, text).expect("a file");
    let manifest = MANIFEST.replace(
        "[sanitizers]",
        "[build.env]\nCPATH = \"/eb/tree/env\"\n[sanitizers]",
    );
    let tries = [
        (
            "what the environment's header has",
            "n += BY_CPATH;",
            Builds,
        ),
        ("what it has not", "n += BY_NOBODY;", Fails),
    ];
    let tries = tries.map(|(what, edit, expect)| Try {
        what,
        function: "src/once.c:once_twice",
        edit: body(edit),
        expect,
    });
    let mut lab = Lab::open(&manifest, dir.path(), None);
    let wrong = disagreements(&mut lab, &tries);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
