//! Reads the command lines of compilers, linkers and what works on object files.

/// Options of GCC and Clang whose value is the next argument.
const OF_COMPILERS: &[&str] = &[
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
    "-wrapper",
    "-dumpbase",
    "-dumpdir",
    "-dumpbase-ext",
];

/// Options of the linker, by itself, whose value is the next argument.
const OF_LD: &[&str] = &[
    "-o",
    "-L",
    "-l",
    "-m",
    "-h",
    "-soname",
    "--soname",
    "-T",
    "--script",
    "-rpath",
    "--rpath",
    "-rpath-link",
    "--rpath-link",
    "-dynamic-linker",
    "--dynamic-linker",
    "--version-script",
    "-e",
    "--entry",
    "-u",
    "--undefined",
    "-z",
    "-Map",
    "--Map",
    "-plugin",
    "-y",
    "--defsym",
];

/// Options of `strip` and `objcopy` whose value is the next argument.
const OF_EDITORS: &[&str] = &[
    "-o", "-I", "-O", "-F", "-B", "-j", "-R", "-N", "-K", "-L", "-G", "-W",
];

const SOURCES: &[&str] = &[
    "c", "i", "cc", "cp", "cpp", "cxx", "c++", "C", "CPP", "ii", "s", "S", "sx",
];

/// Options of `tool` whose value is the next argument.
pub fn with_value(tool: &str) -> &'static [&'static str] {
    match tool {
        "ld" => OF_LD,
        "strip" | "objcopy" => OF_EDITORS,
        _ => OF_COMPILERS,
    }
}

/// Whether the value of an option of `tool` is the next argument.
pub fn takes_value(tool: &str, option: &str) -> bool {
    with_value(tool).contains(&option)
}

/// A command line, read.
#[derive(Default)]
pub struct Parsed<'a> {
    /// `-c`.
    pub compile_only: bool,
    /// Neither compiles nor links: preprocesses, checks, prints dependencies.
    pub other_mode: bool,
    /// `-o`, with the index of the argument that holds the value.
    pub output: Option<(usize, &'a str)>,
    /// What is no option, with its index.
    pub positional: Vec<(usize, &'a str)>,
    /// `-L`, in order.
    pub library_dirs: Vec<&'a str>,
    /// `-l`, with the index of the argument that holds the name.
    pub libraries: Vec<(usize, &'a str)>,
    /// Files that may be handed to the linker inside `-Wl,`, with the index of the argument.
    pub handed_on: Vec<(usize, &'a str)>,
}

/// Reads the arguments of `tool`.
pub fn parse<'a>(tool: &str, argv: &'a [String]) -> Parsed<'a> {
    let mut p = Parsed::default();
    let valued = with_value(tool);
    let compiler = matches!(tool, "cc" | "c++");
    let mut i = 0;
    while i < argv.len() {
        let arg = argv[i].as_str();
        let value = argv.get(i + 1).map(String::as_str);
        match arg {
            "-c" if compiler => p.compile_only = true,
            "-E" | "-S" | "-M" | "-MM" | "-fsyntax-only" if compiler => p.other_mode = true,
            "-o" => p.output = value.map(|v| (i + 1, v)),
            "-L" => p.library_dirs.extend(value),
            "-l" => p.libraries.extend(value.map(|v| (i + 1, v))),
            _ if valued.contains(&arg) => {}
            _ if arg.starts_with("-Wl,") => {
                let parts = arg.split(',').skip(1).filter(|part| !part.starts_with('-'));
                p.handed_on.extend(parts.map(|part| (i, part)));
            }
            _ if arg.starts_with("-o") && !arg.starts_with("-object") && compiler => {
                p.output = Some((i, &arg[2..]))
            }
            _ if arg.starts_with("-L") => p.library_dirs.push(&arg[2..]),
            _ if arg.starts_with("-l") => p.libraries.push((i, &arg[2..])),
            _ if arg.starts_with('-') => {}
            _ => p.positional.push((i, arg)),
        }
        i += if valued.contains(&arg) { 2 } else { 1 };
    }
    p
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, e)| e)
}

/// Whether the compiler takes the file for source, by its name.
pub fn is_source(path: &str) -> bool {
    SOURCES.contains(&extension(path))
}

/// The file's name without folder and ending.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
