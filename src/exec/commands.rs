//! Understands the recorded commands of a build and rewrites them: for the front end only, for
//! the preprocessor, with other outputs. Pure; nothing is run here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::oss::artifact::{Step, Unit};
use crate::oss::layout::{OUT, in_tree};

/// One command as the recording tool saw it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// `cc`, `c++`, `ar` or `ranlib`.
    pub tool: String,
    /// The arguments, without the program, response files expanded.
    pub argv: Vec<String>,
    /// The working directory inside the sandbox.
    pub cwd: String,
    /// True if the harness header was put in.
    pub harness: bool,
}

/// What a recorded command does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Understood {
    /// Compiles source files into one object each: `(source, object)`, relative to the tree.
    Compile(Vec<(String, String)>),
    /// Makes a file of files.
    Make(Step),
    /// Has no effect on what is linked (prints a version, preprocesses, writes outside the tree).
    Nothing,
}

/// Options of GCC and Clang whose value is the next argument.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-isysroot",
    "-MF",
    "-MT",
    "-MQ",
    "-x",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-T",
    "-u",
    "-z",
    "-e",
    "-aux-info",
    "--param",
    "-B",
    "-target",
    "-Xclang",
    "-mllvm",
    "-arch",
];

const SOURCES: &[&str] = &[
    "c", "i", "cc", "cp", "cpp", "cxx", "c++", "C", "CPP", "ii", "s", "S", "sx",
];

struct Parsed<'a> {
    compile_only: bool,
    other_mode: bool,
    output: Option<(usize, &'a str)>,
    /// Positional arguments with their index.
    positional: Vec<(usize, &'a str)>,
    library_dirs: Vec<&'a str>,
    libraries: Vec<(usize, &'a str)>,
}

fn parse(argv: &[String]) -> Parsed<'_> {
    let mut p = Parsed {
        compile_only: false,
        other_mode: false,
        output: None,
        positional: Vec::new(),
        library_dirs: Vec::new(),
        libraries: Vec::new(),
    };
    let mut i = 0;
    while i < argv.len() {
        let arg = argv[i].as_str();
        let value = argv.get(i + 1).map(String::as_str);
        match arg {
            "-c" => p.compile_only = true,
            "-E" | "-S" | "-M" | "-MM" | "-fsyntax-only" => p.other_mode = true,
            "-o" => p.output = value.map(|v| (i + 1, v)),
            "-L" => p.library_dirs.extend(value),
            "-l" => p.libraries.extend(value.map(|v| (i + 1, v))),
            _ if arg.starts_with("-o") && !arg.starts_with("-object") => {
                p.output = Some((i, &arg[2..]))
            }
            _ if arg.starts_with("-L") => p.library_dirs.push(&arg[2..]),
            _ if arg.starts_with("-l") => p.libraries.push((i, &arg[2..])),
            _ if arg.starts_with('-') => {}
            _ => p.positional.push((i, arg)),
        }
        i += if WITH_VALUE.contains(&arg) { 2 } else { 1 };
    }
    p
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, e)| e)
}

fn is_source(path: &str) -> bool {
    SOURCES.contains(&extension(path))
}

/// What `recorded` does; `exists` says whether a file of the tree is there after the build, which
/// decides where `-l` finds its library.
pub fn understand(recorded: &Recorded, exists: &dyn Fn(&str) -> bool) -> Understood {
    let cwd = &recorded.cwd;
    match recorded.tool.as_str() {
        "ar" => {
            // `ar [-]operation archive member...`; an operation with a, b or i names a member first.
            let argv: Vec<&String> = recorded
                .argv
                .iter()
                .filter(|a| !a.starts_with("--"))
                .collect();
            let Some(operation) = argv.first() else {
                return Understood::Nothing;
            };
            let letters = operation.trim_start_matches('-');
            if !letters.contains(['q', 'r']) {
                return Understood::Nothing;
            }
            let at = if letters.contains(['a', 'b', 'i']) {
                2
            } else {
                1
            };
            let Some(archive) = argv.get(at).and_then(|a| in_tree(cwd, a)) else {
                return Understood::Nothing;
            };
            let first = recorded
                .argv
                .iter()
                .position(|a| a == argv[at])
                .unwrap_or(at)
                + 1;
            let inputs = recorded.argv.iter().enumerate().skip(first);
            let inputs = inputs
                .filter_map(|(i, a)| Some((i, in_tree(cwd, a)?)))
                .collect();
            make(recorded, archive, inputs)
        }
        "ranlib" => match recorded.argv.iter().rev().find_map(|a| in_tree(cwd, a)) {
            Some(archive) => make(recorded, archive, Vec::new()),
            None => Understood::Nothing,
        },
        _ => {
            let p = parse(&recorded.argv);
            if p.other_mode {
                return Understood::Nothing;
            }
            let sources: Vec<&str> = p
                .positional
                .iter()
                .map(|(_, a)| *a)
                .filter(|a| is_source(a))
                .collect();
            if p.compile_only {
                let object = |source: &str| match p.output {
                    Some((_, output)) => in_tree(cwd, output),
                    None => {
                        let name = source.rsplit('/').next().unwrap_or(source);
                        let stem = name.rsplit_once('.').map_or(name, |(s, _)| s);
                        in_tree(cwd, &format!("{stem}.o"))
                    }
                };
                let pairs = sources
                    .iter()
                    .filter_map(|s| Some((in_tree(cwd, s)?, object(s)?)))
                    .collect();
                return Understood::Compile(pairs);
            }
            if p.positional.is_empty() {
                return Understood::Nothing;
            }
            let Some(output) = in_tree(cwd, p.output.map_or("a.out", |(_, o)| o)) else {
                return Understood::Nothing;
            };
            let mut inputs: Vec<(usize, String)> = p
                .positional
                .iter()
                .filter_map(|(i, a)| Some((*i, in_tree(cwd, a)?)))
                .collect();
            for (i, name) in &p.libraries {
                let found = p.library_dirs.iter().find_map(|dir| {
                    [format!("lib{name}.so"), format!("lib{name}.a")]
                        .iter()
                        .filter_map(|file| in_tree(cwd, &format!("{dir}/{file}")))
                        .find(|path| exists(path))
                });
                inputs.extend(found.map(|path| (*i, path)));
            }
            inputs.sort();
            make(recorded, output, inputs)
        }
    }
}

fn make(recorded: &Recorded, output: String, inputs: Vec<(usize, String)>) -> Understood {
    Understood::Make(Step {
        tool: recorded.tool.clone(),
        argv: recorded.argv.clone(),
        cwd: recorded.cwd.clone(),
        output,
        inputs,
    })
}

/// The arguments of a compilation without its outputs and dependency files: what every other use
/// of it starts from.
fn bare(argv: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(argv.len());
    let mut i = 0;
    while i < argv.len() {
        let arg = argv[i].as_str();
        match arg {
            "-o" | "-MF" | "-MT" | "-MQ" => i += 1,
            "-c" | "-MD" | "-MMD" | "-MP" | "-MG" => {}
            _ if arg.starts_with("-o") && !arg.starts_with("-object") => {}
            _ => {
                kept.push(arg.to_string());
                if WITH_VALUE.contains(&arg)
                    && let Some(value) = argv.get(i + 1)
                {
                    kept.push(value.clone());
                    i += 1;
                }
            }
        }
        i += 1;
    }
    kept
}

/// A compilation of several sources, reduced to one of them.
pub fn only(argv: &[String], cwd: &str, source: &str) -> Vec<String> {
    let others: Vec<usize> = parse(argv)
        .positional
        .iter()
        .filter(|(_, a)| is_source(a) && in_tree(cwd, a).as_deref() != Some(source))
        .map(|(i, _)| *i)
        .collect();
    let kept = argv.iter().enumerate().filter(|(i, _)| !others.contains(i));
    kept.map(|(_, a)| a.clone()).collect()
}

/// The unit's front end only.
pub fn syntax_only(unit: &Unit) -> Vec<String> {
    [bare(&unit.argv), vec!["-fsyntax-only".into()]].concat()
}

/// The unit's preprocessed text with the macro definitions, to standard output.
pub fn preprocess(unit: &Unit) -> Vec<String> {
    [bare(&unit.argv), vec!["-E".into(), "-dD".into()]].concat()
}

/// The unit compiled into `object`, a path inside the sandbox.
pub fn compile_to(unit: &Unit, object: &str) -> Vec<String> {
    [
        bare(&unit.argv),
        vec!["-c".into(), "-o".into(), object.into()],
    ]
    .concat()
}

/// Where a replayed command writes what the build wrote to `path`.
pub fn out_path(path: &str) -> String {
    format!("{OUT}/{path}")
}

/// The steps of `steps` that a change of the files in `changed` reaches, in their order.
pub fn reached<'a>(steps: &'a [Step], changed: &[String]) -> Vec<&'a Step> {
    let mut files: std::collections::BTreeSet<&str> = changed.iter().map(String::as_str).collect();
    // An archive may be filled by several commands: once one of them is reached, all are.
    loop {
        let before = files.len();
        for step in steps {
            if step
                .inputs
                .iter()
                .any(|(_, path)| files.contains(path.as_str()))
            {
                files.insert(&step.output);
            }
        }
        if files.len() == before {
            break;
        }
    }
    steps
        .iter()
        .filter(|s| files.contains(s.output.as_str()))
        .collect()
}

/// The arguments of `step` with the files in `moved` (path in the tree -> path inside the sandbox)
/// in place of the build's own, and with its output under [`OUT`].
pub fn retarget(step: &Step, moved: &BTreeMap<String, String>) -> Vec<String> {
    let mut argv = step.argv.clone();
    for (index, path) in &step.inputs {
        if let Some(new) = moved.get(path) {
            // `-lname` and `-l name` become the library's own path.
            if *index > 0 && argv[index - 1] == "-l" {
                argv[index - 1] = "-Wl,--no-as-needed".into();
            }
            argv[*index].clone_from(new);
        }
    }
    let output = out_path(&step.output);
    if step.tool == "ar" || step.tool == "ranlib" {
        for arg in &mut argv {
            if in_tree(&step.cwd, arg).as_deref() == Some(&step.output) {
                arg.clone_from(&output);
            }
        }
        return argv;
    }
    match parse(&step.argv).output {
        Some((index, _)) if argv[index].starts_with("-o") => argv[index] = format!("-o{output}"),
        Some((index, _)) => argv[index] = output,
        None => argv.extend(["-o".into(), output]),
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(tool: &str, line: &str) -> Recorded {
        Recorded {
            tool: tool.into(),
            argv: line.split(' ').map(str::to_string).collect(),
            cwd: "/eb/tree/build".into(),
            harness: false,
        }
    }

    fn understood(tool: &str, line: &str) -> Understood {
        understand(&recorded(tool, line), &|path| path == "build/lib/libx.a")
    }

    fn step(tool: &str, line: &str) -> Step {
        match understood(tool, line) {
            Understood::Make(step) => step,
            other => panic!("{other:?}"),
        }
    }

    fn unit(line: &str) -> Unit {
        Unit {
            tool: "cc".into(),
            argv: line.split(' ').map(str::to_string).collect(),
            cwd: "/eb/tree/build".into(),
            source: "src/a.c".into(),
            object: "build/a.o".into(),
            reads: Vec::new(),
            harness: false,
            preprocessed: crate::digest::Digest::of(b""),
            symbols: crate::digest::Digest::of(b""),
        }
    }

    #[test]
    fn a_compilation_names_its_source_and_object() {
        let pairs = |line| match understood("cc", line) {
            Understood::Compile(pairs) => pairs,
            other => panic!("{other:?}"),
        };
        let expected = vec![("src/a.c".to_string(), "build/x/a.c.o".to_string())];
        assert_eq!(
            pairs("-I ../src -O0 -MD -MF a.d -o x/a.c.o -c ../src/a.c"),
            expected
        );
        assert_eq!(pairs("-c /eb/tree/src/a.c -ox/a.c.o"), expected);
        assert_eq!(
            pairs("-c ../src/a.c b.c"),
            vec![
                ("src/a.c".into(), "build/a.o".into()),
                ("build/b.c".into(), "build/b.o".into())
            ]
        );
        assert_eq!(understood("cc", "-E a.c"), Understood::Nothing);
        assert_eq!(understood("cc", "--version"), Understood::Nothing);
    }

    #[test]
    fn archives_and_links_name_their_files() {
        let ar = step("ar", "qc libonig.a x/a.o x/b.o");
        assert_eq!(ar.output, "build/libonig.a");
        assert_eq!(
            ar.inputs,
            [(2, "build/x/a.o".into()), (3, "build/x/b.o".into())]
        );
        assert_eq!(understood("ar", "t libonig.a"), Understood::Nothing);
        assert_eq!(step("ranlib", "libonig.a").output, "build/libonig.a");
        let link = step("cc", "-g t.o -o t -Llib -lx -lm libonig.a");
        assert_eq!(link.output, "build/t");
        assert_eq!(
            link.inputs,
            [
                (1, "build/t.o".into()),
                (5, "build/lib/libx.a".into()),
                (7, "build/libonig.a".into())
            ]
        );
        assert_eq!(step("cc", "a.c b.o").output, "build/a.out");
    }

    #[test]
    fn every_use_of_a_unit_keeps_its_flags_and_drops_its_outputs() {
        let unit = unit("-I ../src -DX=1 -MD -MT a.o -MF a.d -o a.o -c ../src/a.c");
        assert_eq!(
            syntax_only(&unit).join(" "),
            "-I ../src -DX=1 ../src/a.c -fsyntax-only"
        );
        assert_eq!(
            preprocess(&unit).join(" "),
            "-I ../src -DX=1 ../src/a.c -E -dD"
        );
        assert_eq!(
            compile_to(&unit, "/eb/out/a.o").join(" "),
            "-I ../src -DX=1 ../src/a.c -c -o /eb/out/a.o"
        );
    }

    #[test]
    fn one_source_of_several_is_singled_out() {
        let argv: Vec<String> = ["-c", "../src/a.c", "b.c"].map(str::to_string).to_vec();
        assert_eq!(
            only(&argv, "/eb/tree/build", "src/a.c"),
            ["-c", "../src/a.c"]
        );
    }

    #[test]
    fn a_change_reaches_archives_filled_twice_and_what_links_them() {
        let steps = [
            step("ar", "qc one.a a.o"),
            step("ar", "q one.a b.o"),
            step("ranlib", "one.a"),
            step("ar", "qc two.a c.o"),
            step("cc", "-o t t.o one.a"),
            step("cc", "-o u u.o two.a"),
        ];
        let reached = reached(&steps, &["build/b.o".into()]);
        let outputs: Vec<&str> = reached.iter().map(|s| s.output.as_str()).collect();
        assert_eq!(
            outputs,
            ["build/one.a", "build/one.a", "build/one.a", "build/t"]
        );
    }

    #[test]
    fn replayed_commands_write_beside_the_tree() {
        let moved = BTreeMap::from([
            ("build/a.o".to_string(), "/eb/out/build/a.o".to_string()),
            (
                "build/lib/libx.a".to_string(),
                "/eb/out/build/lib/libx.a".to_string(),
            ),
        ]);
        let ar = step("ar", "qc one.a a.o b.o");
        assert_eq!(
            retarget(&ar, &moved).join(" "),
            "qc /eb/out/build/one.a /eb/out/build/a.o b.o"
        );
        let link = step("cc", "-o t a.o -Llib -lx");
        assert_eq!(
            retarget(&link, &moved).join(" "),
            "-o /eb/out/build/t /eb/out/build/a.o -Llib /eb/out/build/lib/libx.a"
        );
        let link = step("cc", "a.o");
        assert_eq!(
            retarget(&link, &moved).join(" "),
            "/eb/out/build/a.o -o /eb/out/build/a.out"
        );
    }
}
