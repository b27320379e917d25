//! The commands that are replayed: a unit's with another purpose, a step's with another output.

use super::words::{is_source, parse, with_value};
use crate::oss::artifact::{Step, Unit};
use crate::oss::layout::{OUT, TREE, in_tree};

/// The arguments of a compilation without its outputs and dependency files: what every other use
/// of it starts from.
pub(super) fn bare(argv: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(argv.len());
    let mut i = 0;
    while i < argv.len() {
        let arg = argv[i].as_str();
        match arg {
            "-o" | "-MF" | "-MT" | "-MQ" => i += 1,
            "-c" | "-MD" | "-MMD" | "-MP" | "-MG" => {}
            _ if arg.starts_with("-Wp,-M") => {}
            _ if arg.starts_with("-o") && !arg.starts_with("-object") => {}
            _ => {
                kept.push(arg.to_string());
                if with_value("cc").contains(&arg)
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
    let others: Vec<usize> = parse("cc", argv)
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

/// The unit's front end only, for what it says: with `flags` added and without the options that
/// turn warnings off or into errors.
pub fn diagnosed(unit: &Unit, flags: &[&str]) -> Vec<String> {
    let hides = |arg: &String| {
        matches!(
            arg.as_str(),
            "-w" | "-Werror" | "-Wfatal-errors" | "-pedantic-errors"
        ) || arg.starts_with("-Werror=")
            || arg.starts_with("-fmax-errors")
    };
    let plain = ["-fdiagnostics-color=never", "-fno-diagnostics-show-caret"];
    let mut argv = syntax_only(unit);
    argv.retain(|arg| !hides(arg));
    argv.extend(flags.iter().chain(&plain).map(|f| f.to_string()));
    argv
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

/// The arguments of `step` with its output under [`OUT`]. Its inputs keep their names: what was
/// made again lies over the tree's own, so that every path that a link writes into its output is
/// the build's.
pub fn retarget(step: &Step) -> Vec<String> {
    let mut argv = step.argv.clone();
    set_output(step, &mut argv, &out_path(&step.output));
    // A map of the link would be written into the tree.
    let handed_on = |i: usize| {
        let before = i.checked_sub(1).and_then(|before| step.argv.get(before));
        before.is_some_and(|word| word == "-Xlinker")
    };
    for (i, arg) in argv.iter_mut().enumerate() {
        if arg.starts_with("-Wl,") || step.tool == "ld" || handed_on(i) {
            *arg = map_outside(arg);
        }
    }
    argv
}

/// An argument for the linker with the file of its map under [`OUT`].
fn map_outside(arg: &str) -> String {
    let mut parts: Vec<String> = arg.split(',').map(str::to_string).collect();
    for i in 0..parts.len() {
        if parts[i].starts_with("-Map=") || parts[i].starts_with("--Map=") {
            parts[i] = format!("-Map={OUT}/map");
        } else if i > 0 && matches!(parts[i - 1].as_str(), "-Map" | "--Map") {
            parts[i] = format!("{OUT}/map");
        }
    }
    parts.join(",")
}

/// `step` with its output at `output` and the files in `inputs` (index of the argument, path in
/// the tree) instead of those at the same arguments.
pub fn relocate(step: &Step, output: &str, inputs: &[(usize, String)]) -> Step {
    let mut moved = step.clone();
    for (index, path) in inputs {
        let Some(old) = moved
            .inputs
            .iter_mut()
            .find(|(i, p)| i == index && p != path)
        else {
            continue;
        };
        let inside = format!("{TREE}/{path}");
        let word = &mut moved.argv[*index];
        if word.starts_with("-Wl,") {
            let part = |part: &str| match in_tree(&step.cwd, part) {
                Some(p) if p == old.1 => inside.clone(),
                _ => part.to_string(),
            };
            *word = word.split(',').map(part).collect::<Vec<_>>().join(",");
        } else {
            *word = inside;
            if *index > 0 && step.argv[index - 1] == "-l" {
                // `-l name` became the file itself.
                moved.argv[index - 1] = "-Wl,--no-as-needed".into();
            }
        }
        old.1.clone_from(path);
    }
    if output != step.output {
        set_output(step, &mut moved.argv, &format!("{TREE}/{output}"));
        moved.output = output.to_string();
    }
    moved
}

/// Puts `path`, inside the sandbox, where `argv` names the output of `step`.
fn set_output(step: &Step, argv: &mut Vec<String>, path: &str) {
    let names = |word: &str| in_tree(&step.cwd, word).as_deref() == Some(&step.output);
    if matches!(step.tool.as_str(), "ar" | "ranlib" | "strip" | "objcopy") {
        for arg in argv.iter_mut().filter(|arg| names(arg)) {
            *arg = path.to_string();
        }
        return;
    }
    match parse(&step.tool, &step.argv).output {
        Some((index, _)) if argv[index].starts_with("-o") => argv[index] = format!("-o{path}"),
        Some((index, _)) => argv[index] = path.to_string(),
        None => argv.extend(["-o".into(), path.into()]),
    }
}
