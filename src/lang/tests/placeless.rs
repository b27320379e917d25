//! Preprocessed units without places: what stands around a declaration is not in its lines, the
//! tokens stay, and real compilers make the same objects and programs of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::lex::{Kind, lex};
use super::super::{BODY, LanguageId, Placed, functions, placeless, source_line};
use super::{c, cpp};

fn canonical(language: LanguageId, text: &str) -> String {
    let text = placeless(language, text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    String::from_utf8(text).unwrap()
}

#[test]
fn declarations_start_on_line_1_and_their_bodies_on_line_1000() {
    let text = "# 0 \"a.c\"\n# 1 \"/eb/tree//\"\n# 0 \"<built-in>\"\n# 1 \"/usr/include/x.h\" 1 3 4\n\
                # 7 \"/usr/include/x.h\" 3 4\nint x;   int\n y;\n# 3 \"a.c\" 2\n\n\n  struct s { int a; } v;\n\
                #pragma pack(1)\n\nint f(int a,\n      int b) {\n  int c = a;\n\n# 30 \"a.c\"\n\treturn c\n\
                # 30 \"a.c\" 3 4\n              + 1\n# 30 \"a.c\"\n                   ;\n# 1 \"in.h\" 1\n  b++;\n\
                # 32 \"a.c\" 2\n}\n";
    insta::assert_snapshot!(canonical(LanguageId::C, text), @r#"
    # 0 "a.c"
    # 1 "/eb/tree//"
    # 0 "<built-in>"
    # 1 "/usr/include/x.h" 3 4
    int x;
    # 1 "/usr/include/x.h" 3 4
    int
     y;
    # 1 "a.c"
    struct s
    # 1000 "a.c"
    { int a; } v;
    # 1 "a.c"
    #pragma pack(1)
    # 1 "a.c"
    int f(int a,
          int b)
    # 1000 "a.c"
    {
      int c = a;
    # 1021 "a.c"
    	return c
    # 1021 "a.c" 3 4
    + 1
    # 1021 "a.c"
    ;
    # 1 "in.h"
      b++;
    # 1023 "a.c"
    }
    "#);
}

#[test]
fn what_stands_in_namespaces_classes_and_linkage_blocks_is_counted_by_itself() {
    let text = "# 1 \"a.cpp\"\nextern \"C\" {\nint f();\n}\nnamespace a::b { inline namespace {\n\ntemplate <class T>\nclass S : public R<T>\n{\npublic:\n\n  S() : x{1}\n  {\n    y();\n  }\n\n  int x;\n};\n}}\n";
    insta::assert_snapshot!(canonical(LanguageId::CPP, text), @r#"
    # 1 "a.cpp"
    # 1 "a.cpp"
    extern "C" {
    # 1 "a.cpp"
    int f();
    # 1 "a.cpp"
    }
    # 1 "a.cpp"
    namespace a::b {
    # 1 "a.cpp"
    inline namespace {
    # 1 "a.cpp"
    template <class T>
    class S : public R<T>
    {
    # 1 "a.cpp"
    public:
    # 1 "a.cpp"
    S() : x{1}
    # 1000 "a.cpp"
    {
        y();
      }
    # 1 "a.cpp"
    int x;
    # 1 "a.cpp"
    }
    # 1 "a.cpp"
    ;
    # 1 "a.cpp"
    }
    # 1 "a.cpp"
    }
    "#);
}

#[test]
fn lines_that_a_generator_gave_stay_what_they_are() {
    let text = |blank: &str| {
        format!(
            "# 1 \"a.c\"\nint x;\n# 90 \"a.y\"\n{blank}int f(void)\n{{\n  g();\n# 22 \"a.y\"\n  h();\n# 24 \"a.y\"\n  i(); }}\n"
        )
    };
    insta::assert_snapshot!(canonical(LanguageId::C, &text("")), @r#"
    # 1 "a.c"
    # 1 "a.c"
    int x;
    # 1 "a.y"
    int f(void)
    # 1000 "a.y"
    {
      g();
    # 22 "a.y"
      h();

      i(); }
    "#);
    let moved = canonical(LanguageId::C, &text("\n\n\n"));
    assert_eq!(canonical(LanguageId::C, &text("")), moved);
}

#[test]
fn texts_that_know_their_place_and_broken_ones_are_refused() {
    let asks = |word: &str| Placed::Asks(word.into());
    for (text, why) in [
        (
            "int f(void) { return __builtin_LINE(); }",
            asks("__builtin_LINE"),
        ),
        ("const char *f = __builtin_FILE();", asks("__builtin_FILE")),
        ("int f(void) { return 1; ", Placed::Brackets),
        ("int f(void) { return (1; }", Placed::Brackets),
        ("}", Placed::Brackets),
        ("char *s = \"abc\\\";\nint x;", Placed::Literal),
        ("int x = 'a;\n", Placed::Literal),
        ("int x \\ y;\n", Placed::Raw("\\".into())),
        ("int x; /* y */", Placed::Raw("/* y */".into())),
        ("#include <x.h>\n", Placed::Raw("#include <x.h>".into())),
    ] {
        assert_eq!(
            placeless(LanguageId::C, text.as_bytes()),
            Err(why),
            "{text}"
        );
    }
    let closed = "char *s = \"a\\\\\"; char c = '\\''; char *r = R\"x(\" ')x\";\n";
    assert!(placeless(LanguageId::CPP, closed.as_bytes()).is_ok());
}

/// A declaration: its lines, each with words of its own; what a line is told as.
#[derive(Clone, Debug)]
struct Piece {
    /// Text, with the line that it must be on in the output.
    lines: Vec<(String, u32)>,
}

/// How a piece stands in a file.
#[derive(Clone, Debug)]
struct Around {
    blank: usize,
    indent: usize,
    /// On the line on which the piece before ends.
    beside: bool,
}

fn piece(kind: u8, id: usize, body: &[u8]) -> Piece {
    let word = |n: usize| format!("w{id}_{n}");
    let mut lines: Vec<(String, u32)> = Vec::new();
    match kind {
        0 => lines.push((format!("int {};", word(0)), 1)),
        1 => {
            lines.push((format!("static int {}[2] =", word(0)), 1));
            lines.push((format!("{{ {}, ", word(1)), BODY));
            lines.push((format!("  {} }};", word(2)), BODY + 1));
        }
        2 => lines.push((format!("#pragma {}", word(0)), 0)),
        _ => {
            let head = 1 + usize::from(kind % 3);
            for n in 0..head {
                let text = match n {
                    0 => format!("static int {}(", word(0)),
                    _ => format!("    int {},", word(n)),
                };
                lines.push((text, 1 + n as u32));
            }
            // The brace stands where the last parameter does, or on a line of its own.
            if kind.is_multiple_of(2) {
                lines.push((format!("    int {}) {{", word(head)), 1 + head as u32));
            } else {
                lines.push((format!("    int {})", word(head)), 1 + head as u32));
                lines.push(("{".to_string(), BODY));
            }
            let mut at = BODY;
            for (n, blank) in body.iter().enumerate() {
                at += 1 + u32::from(*blank);
                lines.push((format!("  {}();", word(100 + n)), at));
            }
            lines.push((format!("  {}; }}", word(99)), at + 1));
        }
    }
    Piece { lines }
}

/// The pieces as a preprocessor leaves them that took the comments between them away.
fn rendered(pieces: &[(Piece, Around)]) -> String {
    let mut out = "# 0 \"a.c\"\n# 0 \"<built-in>\"\n# 1 \"a.c\"\n".to_string();
    let mut line = 1;
    let down = |out: &mut String, line: &mut usize, by: usize| {
        *line += by;
        match by > 8 {
            true => out.push_str(&format!("\n# {line} \"a.c\"\n")),
            false => out.push_str(&"\n".repeat(by)),
        }
    };
    for (piece, around) in pieces {
        let directive = piece.lines[0].0.starts_with('#');
        if !around.beside || directive {
            down(&mut out, &mut line, 1 + around.blank);
        }
        let mut before = 0;
        for (n, (text, told)) in piece.lines.iter().enumerate() {
            if n > 0 {
                // Up to the brace lines follow each other.
                let by = match *told > BODY && before >= BODY {
                    true => told - before,
                    false => 1,
                };
                let opened = before < BODY && *told > BODY;
                let by = if opened { told - BODY } else { by };
                down(&mut out, &mut line, by as usize);
            } else if !directive {
                out.push_str(&" ".repeat(around.indent));
            }
            before = *told;
            out.push_str(text);
        }
        if directive {
            down(&mut out, &mut line, 1);
        }
    }
    out.push('\n');
    out
}

fn tokens(language: LanguageId, text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let lexed = lex(language.facts().dialect, bytes);
    let kept = lexed.tokens.iter().filter(|t| {
        let text = t.text(bytes);
        t.kind != Kind::Directive || text.starts_with(b"#pragma")
    });
    kept.map(|t| String::from_utf8_lossy(t.text(bytes)).into_owned())
        .collect()
}

/// The line of each word by the markers, read line by line.
fn told(text: &str) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut line = 1;
    for text in text.lines() {
        let marker = text.strip_prefix("# ").and_then(|t| t.split(' ').next());
        if let Some(number) = marker.and_then(|n| n.parse::<u32>().ok()) {
            line = number;
            continue;
        }
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
            found.insert(word.to_string(), line);
        }
        line += 1;
    }
    found
}

fn around() -> impl Strategy<Value = Around> {
    (0usize..14, 0usize..5, any::<bool>()).prop_map(|(blank, indent, beside)| Around {
        blank,
        indent,
        beside,
    })
}

fn pieces() -> impl Strategy<Value = Vec<(Piece, Around, Around)>> {
    let one = (
        0u8..9,
        proptest::collection::vec(0u8..14, 0..4),
        around(),
        around(),
    );
    proptest::collection::vec(one, 1..9).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.map(|(id, (kind, body, one, other))| (piece(kind, id, &body), one, other))
            .collect()
    })
}

proptest! {
    #[test]
    fn nothing_around_a_declaration_is_in_the_text(all in pieces()) {
        let one: Vec<_> = all.iter().map(|(p, a, _)| (p.clone(), a.clone())).collect();
        let other: Vec<_> = all.iter().map(|(p, _, a)| (p.clone(), a.clone())).collect();
        let (one, other) = (rendered(&one), rendered(&other));
        for language in [LanguageId::C, LanguageId::CPP] {
            let text = canonical(language, &one);
            prop_assert_eq!(&text, &canonical(language, &other));
            prop_assert_eq!(&text, &canonical(language, &text));
            prop_assert_eq!(tokens(language, &one), tokens(language, &text));
            let lines = told(&text);
            for (piece, _, _) in &all {
                for (text, line) in &piece.lines {
                    let mut word = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                    let word = word.rfind(|w| w.starts_with('w'));
                    if let (Some(word), 1..) = (word, line) {
                        prop_assert_eq!(lines[word], *line, "{} in\n{}", word, one);
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(text in "[a-c \n(){};:#\"'\\\\0-9]{0,80}") {
        for language in [LanguageId::C, LanguageId::CPP] {
            if let Ok(once) = placeless(language, text.as_bytes()) {
                let once = String::from_utf8(once).unwrap();
                prop_assert_eq!(tokens(language, &text), tokens(language, &once));
            }
        }
    }
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>
#include "own.h"
@
static const char *const names[] = { "one",
    "two" };
@
struct pair { int a; bool b; } static pairs[3];
@
static int add(int a,
               int b)
{
    int c = a + b;

    if (names[a & 1] == NULL) return 0;
    return c;
}
@
static int old(a, b)
    int a;
    const char *b;
{
    return a + (int)strlen(b);
}
@
TWICE(first) @ TWICE(second)
@
int main(int argc, char **argv) {
    int *p = malloc(argc * sizeof *p);
    p[argc - 1] = add(argc, 3);
    /* what is
       inside counts */
    printf("%d %d %s %d %d\n", p[0], old(1, names[1]), argv[0] ? "y" : "n", first(2), second(3));
    volatile int sink = argc > 1 ? p[argc] + (2147483647 + argc) : 0;
    (void)sink;
    free(p);
    return pairs[0].a;
}
"#;

const PROGRAM_CPP: &str = r#"
#include <map>
#include <string>
#include <vector>
#include <cstdio>
@
extern "C" {
@
int plain(int a) { return a + 1; }
}
namespace quay { namespace {
@
template <class T> struct box : std::vector<T> {
@
    box(int n)
        : extra{n}, more(n) {
        this->push_back(T(n));
    }
@
    T sum() const {
        T all{};
        for (auto &x : *this) all += x;
        return all;
    }
    int extra, more;
};
@
auto twice = [](int a) {
    return a * 2;
};
} }
@
int main(int argc, char **argv) {
    quay::box<int> b(argc);
    std::map<std::string, int> m{{"x", 1}};
    const char *raw = R"x(
"} )x";
    std::printf("%d %d %d %s\n", b.sum() + b.extra, quay::twice(m["x"]), plain(1), raw);
    volatile int sink = argc > 1 ? b.data()[argc] : 0;
    return sink - sink;
}
"#;

/// Before and after edits between declarations, in a source of which `@` marks these places.
fn edited(program: &str) -> [String; 2] {
    let comment = "/* A comment\n   of two lines. */\n\n\n\n\n\n\n\n\n\n// and more\n   ";
    [program.replace('@', ""), program.replace('@', comment)]
}

struct Bench<'a> {
    compiler: &'a str,
    dir: &'a Path,
    language: LanguageId,
}

impl Bench<'_> {
    fn run(&self, args: &[&str], input: Option<&[u8]>) -> Vec<u8> {
        let mut command = Command::new(self.compiler);
        command.args(args).current_dir(self.dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.unwrap_or_default().to_vec();
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{} {args:?}", self.compiler);
        output.stdout
    }

    /// The object of a source by way of the text without places, and that of the source itself.
    fn objects(&self, name: &str, source: &str) -> [PathBuf; 2] {
        let cpp = self.language == LanguageId::CPP;
        let file = if cpp { "a.cpp" } else { "a.c" };
        std::fs::write(self.dir.join(file), source).unwrap();
        let flags: Vec<&str> = FLAGS.to_vec();
        let text = self.run(&[&flags[..], &["-E", file]].concat(), None);
        let text = placeless(self.language, &text).unwrap();
        let out = |what: &str| format!("{name}-{what}.o");
        let (placed, placeless) = (out("placed"), out("placeless"));
        self.run(&[&flags[..], &["-c", file, "-o", &placed]].concat(), None);
        let x = if cpp { "c++-cpp-output" } else { "cpp-output" };
        let args = ["-w", "-x", x, "-", "-c", "-o", &placeless];
        self.run(&[&flags[..], &args].concat(), Some(&text));
        [placeless, placed].map(|o| self.dir.join(o))
    }

    /// What a program of this object prints, with and without an argument.
    fn printed(&self, object: &Path) -> Vec<(Option<i32>, Vec<u8>)> {
        let program = object.with_extension("");
        let (object, out) = (object.to_str().unwrap(), program.to_str().unwrap());
        self.run(&["-fsanitize=address,undefined", object, "-o", out], None);
        let run = |args: &[&str]| {
            let mut command = Command::new(&program);
            let options = "halt_on_error=0:detect_leaks=0:log_path=/dev/null";
            command.env("ASAN_OPTIONS", options).args(args);
            let output = command.stderr(Stdio::null()).output().unwrap();
            (output.status.code(), output.stdout)
        };
        vec![run(&[]), run(&["x"])]
    }
}

const FLAGS: [&str; 5] = [
    "-g1",
    "-O1",
    "-fsanitize=address,undefined",
    "-fsanitize-recover=address,undefined",
    "-fno-omit-frame-pointer",
];

fn is_there(compiler: &str) -> bool {
    let mut command = Command::new(compiler);
    let command = command.arg("--version").stdout(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

#[test]
fn real_compilers_make_the_same_objects_and_the_same_programs() {
    for (compiler, language, program) in [
        ("gcc", LanguageId::C, PROGRAM),
        ("g++", LanguageId::CPP, PROGRAM_CPP),
        ("clang", LanguageId::C, PROGRAM),
        ("clang++", LanguageId::CPP, PROGRAM_CPP),
    ] {
        if !is_there(compiler) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let own =
            "#pragma once\n#define TWICE(f) static int f(int a) { \\\n  return add(a, a); }\n";
        std::fs::write(dir.path().join("own.h"), own).unwrap();
        let bench = Bench {
            compiler,
            dir: dir.path(),
            language,
        };
        let [before, after] = edited(program);
        let [one, placed] = bench.objects("before", &before);
        let [other, moved] = bench.objects("after", &after);
        let read = |path: &Path| std::fs::read(path).unwrap();
        assert!(
            read(&one) == read(&other),
            "{compiler}: lines are in the object"
        );
        assert!(
            read(&placed) != read(&moved),
            "{compiler}: there is nothing to test"
        );
        assert_eq!(bench.printed(&one), bench.printed(&placed), "{compiler}");
    }
}

#[test]
fn told_lines_lead_back_to_the_source() {
    let source = "// c\n\nint f(int a,\n      int b)\n{\n  a++;\n  return a;\n}\nint g(void) { return 1; }\n";
    let found = functions(&c(), source.as_bytes()).definitions;
    let back = |n: usize, line: u32| source_line(source.as_bytes(), &found[n], line);
    for (line, placed) in [
        (1, 3),
        (2, 4),
        (3, 5),
        (BODY, 5),
        (BODY + 1, 6),
        (BODY + 3, 8),
    ] {
        assert_eq!(back(0, line), Some(placed), "{line}");
    }
    for line in [0, 4, 900, BODY - 3, BODY + 4, u32::MAX] {
        assert_eq!(back(0, line), None, "{line}");
    }
    assert_eq!(back(1, BODY), Some(9));
    let source = "struct s { int x;\n  s()\n    : x{\n 1}\n  {\n f();\n }\n};\n";
    let found = functions(&cpp(), source.as_bytes()).definitions;
    assert_eq!(source_line(source.as_bytes(), &found[0], BODY + 1), Some(6));
}
