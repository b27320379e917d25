//! A compilation taken apart so that its text can be freed of places in between: into the
//! preprocessor's command and the compiler's on what came of it.

use super::rewrite::bare;
use super::words::{is_source, parse, stem, takes_value};
use crate::lang::LanguageId;

/// The two halves of a compilation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Halves {
    /// The language of the source.
    pub language: LanguageId,
    /// Preprocesses it, to standard output.
    pub preprocess: Vec<String>,
    /// Compiles the preprocessed text from standard input; what follows has to be the path of the
    /// object.
    pub compile: Vec<String>,
    /// The object that the whole command writes, as it names it.
    pub object: String,
}

/// Options that let a compilation write more than its object, or text that is not what is expected.
const OTHER_OUTPUTS: &[&str] = &[
    "--coverage",
    "-fprofile",
    "-ftest-coverage",
    "-save-temps",
    "-gsplit-dwarf",
    "-fdump-",
    "-fstack-usage",
    "-fcallgraph-info",
    "-traditional",
    "-fdirectives-only",
    "-frewrite-includes",
    "-dumpbase",
    "-fmodules",
    "-aux-info",
];

/// Options of the preprocessor alone, with a value that may stand in the same word, or by itself.
const PREPROCESSING: &[&str] = &[
    "-I",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-Wp,",
    "-Xpreprocessor",
    "-nostdinc",
    "-H",
];

/// Options by which a warning ends the compilation. What is warned of was said before.
const STRICT: &[&str] = &["-Werror", "-pedantic-errors", "-Wfatal-errors"];

/// The halves of a compilation of one source into an object.
///
/// # Errors
/// Why it has none.
pub fn halves(tool: &str, argv: &[String]) -> Result<Halves, String> {
    let p = parse(tool, argv);
    let other = |arg: &&String| OTHER_OUTPUTS.iter().any(|option| arg.starts_with(option));
    if let Some(option) = argv.iter().find(other) {
        return Err(format!("it is compiled with `{option}`"));
    }
    let sources: Vec<&str> = p.positional.iter().map(|(_, a)| *a).collect();
    let (true, false, [source]) = (p.compile_only, p.other_mode, sources.as_slice()) else {
        return Err("it is not one source that is compiled".into());
    };
    let language = language(tool, argv, source)?;
    let output = match language == LanguageId::CPP {
        true => "c++-cpp-output",
        false => "cpp-output",
    };
    let plain = bare(argv);
    let shown = |arg: &&String| !is_about_text(arg);
    let mut preprocess: Vec<String> = plain.iter().filter(shown).cloned().collect();
    preprocess.push("-E".into());
    let mut compile = Vec::new();
    let mut i = 0;
    while i < plain.len() {
        let arg = plain[i].as_str();
        let width = 1 + usize::from(takes_value(tool, arg) || arg == "-Xpreprocessor");
        let gone = arg == *source
            || arg.starts_with("-x")
            || PREPROCESSING.iter().any(|option| arg.starts_with(option))
            || STRICT.iter().any(|option| arg.starts_with(option))
            || is_about_text(arg);
        if !gone {
            let end = (i + width).min(plain.len());
            compile.extend(plain[i..end].iter().cloned());
        }
        i += width;
    }
    compile.extend(["-w", "-x", output, "-", "-c", "-o"].map(String::from));
    Ok(Halves {
        language,
        preprocess,
        compile,
        object: match p.output {
            Some((_, output)) => output.to_string(),
            None => format!("{}.o", stem(source)),
        },
    })
}

/// Whether an option has the preprocessor leave markers out, or print what is no token.
fn is_about_text(arg: &str) -> bool {
    matches!(
        arg,
        "-P" | "-C" | "-CC" | "-dD" | "-dM" | "-dN" | "-dI" | "-dU"
    )
}

/// What the source is compiled as.
fn language(tool: &str, argv: &[String], source: &str) -> Result<LanguageId, String> {
    let said = argv.iter().enumerate().filter_map(|(i, arg)| {
        let value = arg.strip_prefix("-x")?;
        match value.is_empty() {
            true => argv.get(i + 1).map(String::as_str),
            false => Some(value),
        }
    });
    // What stands behind the source is about others.
    let at = argv.iter().rposition(|arg| arg == source);
    let before = argv.iter().take(at.unwrap_or(argv.len()));
    let count = before.filter(|arg| arg.starts_with("-x")).count();
    let said = said.take(count).last().filter(|value| *value != "none");
    let ending = source.rsplit_once('.').map_or("", |(_, e)| e);
    match said {
        Some("c") => return Ok(LanguageId::C),
        Some("c++") => return Ok(LanguageId::CPP),
        Some(other) => return Err(format!("its language is `{other}`")),
        None if !is_source(source) => {}
        None => match ending {
            "c" if tool == "c++" => return Ok(LanguageId::CPP),
            "c" => return Ok(LanguageId::C),
            "cc" | "cp" | "cpp" | "cxx" | "c++" | "C" | "CPP" => return Ok(LanguageId::CPP),
            _ => {}
        },
    }
    Err(format!("it is no source in C or C++: `{source}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tool: &str, line: &str) -> String {
        let argv: Vec<String> = line.split(' ').map(str::to_string).collect();
        match halves(tool, &argv) {
            Ok(h) => format!(
                "{}\n{}\n{} {}",
                h.preprocess.join(" "),
                h.compile.join(" "),
                h.language.name(),
                h.object
            ),
            Err(why) => why,
        }
    }

    #[test]
    fn a_compilation_is_preprocessed_by_itself_and_compiled_without_what_that_needed() {
        insta::assert_snapshot!(shown("cc", "-I ../src -DX=1 -include /eb/report.h -O1 -g1 -fsanitize=address -Werror=vla -MD -MF a.d -o x/a.o -c ../src/a.c"), @r"
        -I ../src -DX=1 -include /eb/report.h -O1 -g1 -fsanitize=address -Werror=vla ../src/a.c -E
        -O1 -g1 -fsanitize=address -w -x cpp-output - -c -o
        c x/a.o
        ");
        insta::assert_snapshot!(shown("cc", "-x c++ -P --param n=1 -c a.c"), @r"
        -x c++ --param n=1 a.c -E
        --param n=1 -w -x c++-cpp-output - -c -o
        c++ a.o
        ");
    }

    #[test]
    fn what_is_no_such_compilation_says_why() {
        for (tool, line, why) in [
            ("cc", "-c a.s", "it is no source in C or C++: `a.s`"),
            ("cc", "-c a.i", "it is no source in C or C++: `a.i`"),
            (
                "cc",
                "-c a.c --coverage",
                "it is compiled with `--coverage`",
            ),
            (
                "cc",
                "-x objective-c -c a.c",
                "its language is `objective-c`",
            ),
            ("cc", "-c a.c b.c", "it is not one source that is compiled"),
            ("cc", "a.c -o a", "it is not one source that is compiled"),
        ] {
            assert_eq!(shown(tool, line), why);
        }
        for (tool, line, language) in [
            ("c++", "-c a.c", "c++ a.o"),
            ("cc", "-c a.cc", "c++ a.o"),
            ("cc", "-c -x c a.c -x none -o b.o", "c b.o"),
        ] {
            assert!(shown(tool, line).ends_with(language), "{line}");
        }
    }
}
