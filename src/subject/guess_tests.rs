use super::*;
use crate::subject::Manifest;

fn guessed(files: &[(&str, &str)]) -> Result<Guess, NothingFound> {
    guessed_in(files, None)
}

fn guessed_in(files: &[(&str, &str)], debian: Option<Debian>) -> Result<Guess, NothingFound> {
    let paths = files.iter().map(|(p, _)| p.to_string()).collect();
    let text = |path: &str| {
        let found = files.iter().find(|(p, _)| *p == path);
        found.map(|(_, t)| t.to_string())
    };
    let functions = |aside: &[String]| 350usize.saturating_sub(100 * aside.len());
    let tree = Tree {
        paths: &paths,
        text: &text,
        functions: &functions,
        debian,
    };
    guess("mylib", "../mylib", &tree)
}

#[test]
fn every_guess_is_a_valid_manifest() {
    let cases: [&[(&str, &str)]; 5] = [
        &[
            (
                "CMakeLists.txt",
                "option(MYLIB_BUILD_TESTS \"x\" OFF)\noption(WITH_ZLIB \"\" ON)",
            ),
            ("src/a.c", ""),
            ("tests/t.c", ""),
        ],
        &[("configure", ""), ("a.c", "")],
        &[("configure.ac", ""), ("doc/x", "")],
        &[
            (
                "Makefile",
                "all: a\ncheck test: all\n\t./t\nfoo := check:\n",
            ),
            ("t/x.c", ""),
        ],
        &[("makefile", "CHECK:=1\n\tcheck: x\n"), ("a.c", "")],
    ];
    for files in cases {
        let guess = guessed(files).unwrap();
        let manifest =
            Manifest::parse(&guess.text, "guess").unwrap_or_else(|e| panic!("{e}\n{}", guess.text));
        assert_eq!(manifest.name, "mylib");
    }
}

#[test]
fn what_is_found_is_used() {
    let cmake = guessed(&[
        ("CMakeLists.txt", "  OPTION( MYLIB_BUILD_TESTS \"x\" OFF)\noption(FUZZ_TESTS \"\" ON)\n# option(TEST_X)\noption(MYLIB_SHARED \"\" ON)\ninclude(CTest)"),
        ("tests/t.c", ""),
    ])
    .unwrap();
    insta::assert_snapshot!(cmake.text);
    let make = guessed(&[("Makefile", "test: all\n\t./t\n")]).unwrap();
    assert!(make.text.contains("argv = [\"make\", \"test\"]"));
    assert_eq!(make.notes.len(), 1);
    let bare = guessed(&[("makefile", "CHECK:=1\n\tcheck: x\n")]).unwrap();
    assert!(bare.notes[0].contains("no target"));
    assert!(
        guessed(&[("meson.build", "")])
            .unwrap_err()
            .to_string()
            .contains("CMakeLists.txt")
    );
}

/// The patterns of a guess for a tree with these files.
fn excluded(files: &[&str]) -> Vec<String> {
    let paths = files.iter().map(ToString::to_string).collect();
    aside(&paths)
}

#[test]
fn folders_are_left_out_by_the_words_in_their_names() {
    assert_eq!(
        excluded(&[
            "api_test/main.c",
            "bench/x",
            "contest/a.c",
            "latest/a.c",
            "lib/resample/a.c",
            "lib-fuzz/a.c",
            "my-examples/x",
            "perf/a.c",
            "src/a.c",
            "src/doc/notes.txt",
            "src/Unit-Tests/deep/a.c",
            "t/a.c",
            "third_party/z/a.c",
            "wrappers/w.py",
            ".pc/fix.patch/test/a.c",
            "test.c",
        ]),
        [
            "api_test/**",
            "bench/**",
            "lib-fuzz/**",
            "my-examples/**",
            "perf/**",
            "src/Unit-Tests/**",
            "t/**",
            "third_party/**",
            "wrappers/**",
        ]
    );
    // One pattern where each module has such a folder.
    assert_eq!(
        excluded(&[
            "m/a/tests/t.c",
            "m/b/tests/t.c",
            "m/c/tests/t.c",
            "m/c/demo/d.c"
        ]),
        ["**/tests/**", "m/c/demo/**"]
    );
}

#[test]
fn without_tests_for_ctest_it_is_not_named() {
    let cmake = "project(x)\nadd_library(x SHARED a.c)\n\
                 Add_Custom_Target(test\n  COMMAND ${SRC}/run.sh ${P}\n  WORKING_DIRECTORY ${B})\n\
                 add_custom_target(test-api ${SRC}/api.sh)\nadd_custom_target(latest x)";
    let guess = guessed(&[
        ("CMakeLists.txt", cmake),
        ("vendor/z/CMakeLists.txt", "enable_testing()"),
    ])
    .unwrap();
    insta::assert_snapshot!(guess.text);
    Manifest::parse(&guess.text, "guess").unwrap();
    let bare = guessed(&[("CMakeLists.txt", "project(x)")]).unwrap();
    assert!(bare.text.contains("# Nor does a custom target"));
    assert!(!bare.text.contains("BUILD_TESTING"));
    Manifest::parse(&bare.text, "guess").unwrap();
    // Below the root counts too.
    let below = guessed(&[
        ("CMakeLists.txt", "add_subdirectory(test)"),
        ("test/CMakeLists.txt", "add_test(a b)"),
    ])
    .unwrap();
    assert!(below.text.contains("argv = [\"ctest\""));
}

#[test]
fn a_build_system_in_a_folder_is_named() {
    let said = |files: &[&str]| {
        let files: Vec<(&str, &str)> = files.iter().map(|f| (*f, "")).collect();
        guessed(&files).unwrap_err().to_string()
    };
    let one = said(&[
        "README",
        "expr/CMakeLists.txt",
        "expr/lib/CMakeLists.txt",
        "tests/Makefile",
    ]);
    assert!(
        one.contains("there is one in `expr`: give that folder"),
        "{one}"
    );
    assert!(one.contains("`path-inside = \"expr\"`"), "{one}");
    let two = said(&["x/a/configure", "x/b/makefile", "y/z/w/Makefile"]);
    assert!(two.contains("in `x/a`, `x/b`: give"), "{two}");
    let none = said(&["meson.build", ".pc/p/CMakeLists.txt"]);
    assert!(none.contains("name the folder that holds one"), "{none}");
}

#[test]
fn what_can_take_the_directorys_place_is_said() {
    let files = [
        ("Makefile", "check:\n"),
        (".pc/fix.patch/a.c", ""),
        ("a.c", ""),
    ];
    let plain = guessed(&files).unwrap().text;
    assert!(plain.contains("ignore = [\".pc\"]"));
    assert!(plain.contains("# with `version`, or `tarball`"));
    // What is ignored is not counted.
    assert!(plain.contains("of the 250 functions found"));
    let debian = Debian::of_changelog("mylib (1:2.0-3+b1) unstable; urgency=low\n\n  * x\n", "lib");
    let text = guessed_in(&files, debian).unwrap().text;
    let place = "# debian = \"mylib\"\n# version = \"1:2.0-3+b1\"\n# path-inside = \"lib\"\n";
    assert!(text.contains(place), "{text}");
    // Without the signs of a comment it is a source.
    let start = text.find("directory = ").unwrap();
    let ready = text
        .replace("# debian", "debian")
        .replace("# version", "version");
    let ready = ready.replace("# path-inside", "path-inside");
    let lines = ready[start..].find("# The same").unwrap() + start;
    let ready = format!("{}{}", &ready[..start], &ready[lines..]);
    let manifest = Manifest::parse(&ready, "guess").unwrap_or_else(|e| panic!("{e}\n{ready}"));
    assert_eq!(manifest.source.label(), "mylib 1:2.0-3+b1");
    for other in [
        "",
        "mylib",
        "my lib (1)",
        "mylib (",
        "mylib () x",
        "my\"lib (1) x",
    ] {
        assert_eq!(Debian::of_changelog(other, ""), None, "{other}");
    }
}
