//! Takes a command apart that compiles and links at once, or compiles several files: into one
//! compilation for each source and the link of their objects, as the compiler's driver would do by
//! itself. So each source becomes a unit that can be replayed alone.

use super::rewrite::bare;
use super::words::{is_source, parse, stem, with_value};
use crate::digest::Digest;
use crate::oss::layout::{KEPT, TREE, in_tree};

/// One command of those that stand for the whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The source it compiles; none for the link.
    pub source: Option<String>,
    /// Its arguments.
    pub argv: Vec<String>,
}

/// Options that only the linker reads, alone and with a value after them.
const LINKING: &[&str] = &[
    "-shared",
    "-static",
    "-static-pie",
    "-rdynamic",
    "-pie",
    "-s",
    "-nostdlib",
    "-nodefaultlibs",
    "-nolibc",
    "-nostartfiles",
    "-static-libgcc",
    "-static-libstdc++",
    "-static-libasan",
    "-static-libubsan",
    "-static-liblsan",
    "-static-libtsan",
];
const LINKING_WITH_VALUE: &[&str] = &["-L", "-l", "-Xlinker", "-T", "-u", "-z", "-e"];

/// The parts of a command of a compiler; `None` if it is one thing already, or writes outside the
/// tree. The folders of the objects are to be made.
pub fn split(tool: &str, argv: &[String], cwd: &str) -> Option<Vec<Part>> {
    let p = parse(tool, argv);
    let sources: Vec<(usize, &str)> = p
        .positional
        .iter()
        .filter(|(_, a)| is_source(a))
        .copied()
        .collect();
    if p.other_mode || sources.is_empty() {
        return None;
    }
    if p.compile_only {
        if sources.len() == 1 {
            return None;
        }
        let part = |(at, source): &(usize, &str)| Part {
            source: Some(source.to_string()),
            argv: without(argv, &sources, Some(*at)),
        };
        return Some(sources.iter().map(part).collect());
    }
    let output = p.output.map_or("a.out", |(_, o)| o);
    let output = in_tree(cwd, output)?;
    let mut parts = Vec::new();
    let mut link = bare(argv);
    for (at, source) in &sources {
        in_tree(cwd, source)?;
        let object = object(cwd, &output, *at, source);
        let word = link.iter_mut().find(|word| word == source)?;
        word.clone_from(&object);
        let mut argv = compiling(tool, argv, *at);
        argv.extend(["-c".into(), "-o".into(), object]);
        parts.push(Part {
            source: Some(source.to_string()),
            argv,
        });
    }
    // What follows is an object, whatever the sources were said to be written in.
    let language = |i: &usize| {
        let after = i.checked_sub(1).map(|before| link[before].as_str());
        !link[*i].starts_with("-x") && after != Some("-x")
    };
    let kept: Vec<usize> = (0..link.len()).filter(language).collect();
    let mut link: Vec<String> = kept.into_iter().map(|i| link[i].clone()).collect();
    link.extend(["-o".into(), format!("{TREE}/{output}")]);
    parts.push(Part {
        source: None,
        argv: link,
    });
    Some(parts)
}

/// Where the object of a source is kept that the driver would have thrown away.
fn object(cwd: &str, output: &str, at: usize, source: &str) -> String {
    let place = Digest::of(format!("{cwd}\0{output}\0{at}\0{source}").as_bytes());
    format!("{TREE}/{KEPT}/{}/{}.o", place.short(), stem(source))
}

/// `argv` without the sources but for the one at `kept`.
fn without(argv: &[String], sources: &[(usize, &str)], kept: Option<usize>) -> Vec<String> {
    let gone = |i: usize| sources.iter().any(|(at, _)| *at == i && Some(i) != kept);
    let words = argv.iter().enumerate();
    words
        .filter(|(i, _)| !gone(*i))
        .map(|(_, a)| a.clone())
        .collect()
}

/// What of a command belongs to the compilation of the source at `kept`. A file of dependencies
/// that is asked for by name is still written.
fn compiling(tool: &str, argv: &[String], kept: usize) -> Vec<String> {
    let named = argv.iter().any(|a| a == "-MF");
    let p = parse(tool, argv);
    let mut words = Vec::new();
    let mut i = 0;
    while i < argv.len() {
        let arg = argv[i].as_str();
        let value = with_value(tool).contains(&arg);
        let drop = matches!(arg, "-o")
            || p.output.is_some_and(|(at, _)| at == i)
            || LINKING.contains(&arg)
            || LINKING_WITH_VALUE.contains(&arg)
            || ["-L", "-l", "-Wl,", "-fuse-ld"]
                .iter()
                .any(|prefix| arg.starts_with(prefix))
            || !named && matches!(arg, "-MD" | "-MMD" | "-MP" | "-MT" | "-MQ")
            || p.positional.iter().any(|(at, _)| *at == i && i != kept);
        let width = if value { 2 } else { 1 };
        if !drop {
            words.extend(argv[i..(i + width).min(argv.len())].iter().cloned());
        }
        i += width;
    }
    words
}
