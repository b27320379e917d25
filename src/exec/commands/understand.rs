//! What a recorded command makes, and of which files.

use super::Recorded;
use super::words::{is_source, parse, stem};
use crate::oss::artifact::Step;
use crate::oss::layout::in_tree;

/// What a recorded command does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Understood {
    /// Compiles source files into one object each: `(source, object)`, relative to the tree.
    Compile(Vec<(String, String)>),
    /// Makes files of files, or changes them in place.
    Make(Vec<Step>),
    /// Has no effect on what is linked (prints a version, preprocesses, writes outside the tree).
    Nothing,
}

/// What `recorded` does; `exists` says whether a file of the tree is there, which decides where
/// `-l` finds its library.
pub fn understand(recorded: &Recorded, exists: &dyn Fn(&str) -> bool) -> Understood {
    let steps = match recorded.tool.as_str() {
        "ar" => archive(recorded),
        "ranlib" => in_place(recorded),
        "strip" | "objcopy" => edit(recorded),
        "ld" => link(recorded, exists),
        _ => {
            let p = parse(&recorded.tool, &recorded.argv);
            if p.other_mode {
                return Understood::Nothing;
            }
            if p.compile_only {
                return compile(recorded);
            }
            link(recorded, exists)
        }
    };
    if steps.is_empty() {
        Understood::Nothing
    } else {
        Understood::Make(steps)
    }
}

/// True if a step adds to what its output held before, or changes it.
pub fn continues(step: &Step) -> bool {
    match step.tool.as_str() {
        "ar" | "ranlib" => true,
        "strip" | "objcopy" => step.inputs.is_empty(),
        _ => false,
    }
}

/// True if `ar` takes members out into the working directory.
pub fn extracts(recorded: &Recorded) -> bool {
    let operation = recorded.argv.iter().find(|a| !a.starts_with("--"));
    operation.is_some_and(|letters| letters.trim_start_matches('-').starts_with('x'))
}

fn compile(recorded: &Recorded) -> Understood {
    let cwd = &recorded.cwd;
    let p = parse(&recorded.tool, &recorded.argv);
    let object = |source: &str| match p.output {
        Some((_, output)) => in_tree(cwd, output),
        None => in_tree(cwd, &format!("{}.o", stem(source))),
    };
    let sources = p.positional.iter().filter(|(_, a)| is_source(a));
    let pairs = sources.filter_map(|(_, s)| Some((in_tree(cwd, s)?, object(s)?)));
    Understood::Compile(pairs.collect())
}

fn link(recorded: &Recorded, exists: &dyn Fn(&str) -> bool) -> Vec<Step> {
    let cwd = &recorded.cwd;
    let p = parse(&recorded.tool, &recorded.argv);
    if p.positional.is_empty() && p.handed_on.is_empty() {
        return Vec::new();
    }
    let Some(output) = in_tree(cwd, p.output.map_or("a.out", |(_, o)| o)) else {
        return Vec::new();
    };
    let mut inputs: Vec<(usize, String)> = p
        .positional
        .iter()
        .filter_map(|(i, a)| Some((*i, in_tree(cwd, a)?)))
        .collect();
    let handed_on = p.handed_on.iter();
    inputs.extend(handed_on.filter_map(|(i, a)| {
        let path = in_tree(cwd, a)?;
        exists(&path).then_some((*i, path))
    }));
    for (i, name) in &p.libraries {
        let files = match name.strip_prefix(':') {
            Some(file) => vec![file.to_string()],
            None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
        };
        let found = p.library_dirs.iter().find_map(|dir| {
            let mut paths = files
                .iter()
                .filter_map(|file| in_tree(cwd, &format!("{dir}/{file}")));
            paths.find(|path| exists(path))
        });
        inputs.extend(found.map(|path| (*i, path)));
    }
    inputs.sort();
    vec![step(recorded, recorded.argv.clone(), output, inputs)]
}

/// `ar [-]operation archive member...`; an operation with a, b or i names a member first.
fn archive(recorded: &Recorded) -> Vec<Step> {
    let cwd = &recorded.cwd;
    let argv = &recorded.argv;
    let mut words = Vec::new();
    let mut i = 0;
    while i < argv.len() {
        match argv[i].as_str() {
            "--plugin" | "--target" => i += 1,
            arg if arg.starts_with("--") => {}
            _ => words.push(i),
        }
        i += 1;
    }
    let Some(letters) = words
        .first()
        .map(|at| argv[*at].trim_start_matches('-').to_string())
    else {
        return Vec::new();
    };
    let at = if letters.contains(['a', 'b', 'i']) {
        2
    } else {
        1
    };
    let Some(archive) = words.get(at).and_then(|at| in_tree(cwd, &argv[*at])) else {
        return Vec::new();
    };
    let fills = letters.contains(['q', 'r']);
    // Members that are taken out, moved or only indexed are no files that are read.
    if !fills && !letters.contains(['d', 'm', 's']) || letters.contains(['t', 'p', 'x']) {
        return Vec::new();
    }
    let members = words.iter().skip(at + 1).filter(|_| fills);
    let inputs = members
        .filter_map(|i| Some((*i, in_tree(cwd, &argv[*i])?)))
        .collect();
    vec![step(recorded, argv.clone(), archive, inputs)]
}

/// Every file named is changed where it is.
fn in_place(recorded: &Recorded) -> Vec<Step> {
    let p = parse(&recorded.tool, &recorded.argv);
    let alone = |kept: usize| {
        let others = |i: &usize| !p.positional.iter().any(|(j, _)| j == i && *j != kept);
        let words = (0..recorded.argv.len()).filter(others);
        words.map(|i| recorded.argv[i].clone()).collect()
    };
    let files = p.positional.iter();
    files
        .filter_map(|(i, a)| {
            let path = in_tree(&recorded.cwd, a)?;
            Some(step(recorded, alone(*i), path, Vec::new()))
        })
        .collect()
}

/// `strip [-o OUT] FILE...`, `objcopy IN [OUT]`.
fn edit(recorded: &Recorded) -> Vec<Step> {
    let cwd = &recorded.cwd;
    let p = parse(&recorded.tool, &recorded.argv);
    let to = |from: (usize, &str), output: Option<String>| {
        let (Some(input), Some(output)) = (in_tree(cwd, from.1), output) else {
            return Vec::new();
        };
        if input == output {
            return in_place(recorded);
        }
        vec![step(
            recorded,
            recorded.argv.clone(),
            output,
            vec![(from.0, input)],
        )]
    };
    match (recorded.tool.as_str(), p.output, p.positional.as_slice()) {
        ("strip", Some((_, output)), [from]) => to(*from, in_tree(cwd, output)),
        ("objcopy", _, [from, (_, output)]) => to(*from, in_tree(cwd, output)),
        _ => in_place(recorded),
    }
}

fn step(
    recorded: &Recorded,
    argv: Vec<String>,
    output: String,
    inputs: Vec<(usize, String)>,
) -> Step {
    Step {
        tool: recorded.tool.clone(),
        argv,
        cwd: recorded.cwd.clone(),
        output,
        inputs,
    }
}
