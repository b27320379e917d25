//! Functions in languages that are read by their query alone.

use crate::lang::{SnippetLanguage, Snippets};

fn named(language: &str) -> SnippetLanguage {
    SnippetLanguage::named(language).unwrap()
}

fn told(found: &Snippets) -> Vec<String> {
    let line = |s: &crate::lang::Snippet| format!("{}{}", s.name, s.parameters);
    found.found.iter().map(line).collect()
}

#[test]
fn every_language_finds_a_function_in_its_own_text() {
    let texts = [
        ("c", "int f(int a) { return a; }\n"),
        ("c++", "namespace n { int f(int a) { return a; } }\n"),
        ("java", "class A { int f(int a) { return a; } }\n"),
        ("go", "package p\nfunc f(a int) int { return a }\n"),
        ("python", "def f(a):\n    return a\n"),
        ("rust", "fn f(a: i32) -> i32 { a }\n"),
    ];
    assert_eq!(texts.len(), SnippetLanguage::all().count(), "one for each");
    for (language, text) in texts {
        let found = named(language).snippets(text.as_bytes());
        assert_eq!(found.found.len(), 1, "{language}");
        assert!(!found.found[0].broken, "{language}");
    }
}

#[test]
fn java_methods_have_their_classes_and_parameters() {
    let text = "package p;\nclass Shop {\n  // one\n  Shop(int size) { this.size = size; }\n  \
                int add(int a) { return a; }\n  int add(int a, String /* of */ b) { return a; }\n  \
                abstract void none();\n  static class Basket {\n    @Override public void put() {\n      \
                Runnable r = new Runnable() { public void run() { put(); } };\n    }\n  }\n}\n\
                interface I { default int g() { return 1; } }\n";
    assert_eq!(
        told(&named("java").snippets(text.as_bytes())),
        [
            "Shop.Shop( int size ) ".to_string(),
            "Shop.add( int a ) ".to_string(),
            "Shop.add( int a , String b ) ".to_string(),
            "Shop.Basket.put( ) ".to_string(),
            "I.g( ) ".to_string(),
        ]
    );
}

#[test]
fn go_methods_have_their_receivers() {
    let text = "package p\n\nfunc f() {}\nfunc (s *Shop) Add(a int) int { return a }\n\
                func (s Shop[T]) Get() T { g := func() {}; g(); return s.t }\n";
    assert_eq!(
        told(&named("go").snippets(text.as_bytes())),
        ["f", "Shop.Add", "Shop.Get"]
    );
}

#[test]
fn python_functions_have_their_decorators_and_what_is_inside() {
    let text = "import os\n\nclass A:\n    @checked\n    def f(self):\n        def inner():\n            \
                return 1\n        return inner\n\ndef g(): pass\n";
    let found = named("python").snippets(text.as_bytes());
    assert_eq!(told(&found), ["A.f", "g"]);
    let first = &text[found.found[0].range.clone()];
    assert!(
        first.starts_with("@checked") && first.ends_with("return inner"),
        "{first}"
    );
}

#[test]
fn substance_is_what_is_neither_comment_nor_layout() {
    let same = [
        (
            "c",
            "int f(void){return 1;}",
            "int f(void)\n{ /* one */\n  return 1; // 1\n}",
        ),
        (
            "java",
            "int f() { return 1; }",
            "int f()\n{ // one\n  return /**/ 1;\n}",
        ),
        (
            "go",
            "func f() int { return 1 }",
            "func f() int {\n\t// one\n\treturn 1\n}",
        ),
        (
            "python",
            "def f():\n  return 1\n",
            "def f():  # one\n    return 1\n",
        ),
    ];
    for (language, a, b) in same {
        let substance = |text: &str| named(language).substance(text.as_bytes());
        assert_eq!(substance(a), substance(b), "{language}");
        assert_ne!(substance(a), substance(&a.replace('1', "2")), "{language}");
    }
    // The last line is inside of the condition, or not.
    let inside = "def f(a):\n    if a:\n        g()\n        h()\n";
    let outside = "def f(a):\n    if a:\n        g()\n    h()\n";
    let substance = |text: &str| named("python").substance(text.as_bytes());
    assert_ne!(substance(inside), substance(outside));
}

#[test]
fn hostile_bytes_give_a_value() {
    for language in SnippetLanguage::all() {
        for text in [
            &b"\xff\xfe\0{{{("[..],
            b"",
            b"class A { void f() { ",
            b"def f(:\n\t\t\n  x",
        ] {
            let found = language.snippets(text);
            for snippet in &found.found {
                assert!(snippet.range.end <= text.len(), "{language:?}");
            }
            language.substance(text);
        }
    }
}

#[test]
fn files_are_in_the_language_of_their_extension() {
    let of = |path: &str| SnippetLanguage::of_path(path).map(SnippetLanguage::name);
    assert_eq!(of("a/b.java"), Some("java"));
    assert_eq!(of("a.cc"), Some("c++"));
    assert_eq!(of("py"), None);
    assert_eq!(of("a.txt"), None);
    assert_eq!(named("c").group(), named("c++").group());
}

#[test]
fn rust_functions_have_their_types_traits_and_modules() {
    let text = "mod m {\n    impl<T> Shop<T> {\n        pub fn add(&self) { fn inner() {} }\n    }\n    impl \
                fmt::Debug for a::Basket { fn fmt(&self) {} }\n}\ntrait Sells { fn sell(&self); fn give(&self) \
                {} }\n#[inline]\npub async fn free<T: Copy>(x: T) -> T { x }\n";
    assert_eq!(
        told(&named("rust").snippets(text.as_bytes())),
        ["m.Shop.add", "m.Basket.fmt", "Sells.give", "free"]
    );
}

/// The lines of the only function of a text, and its blocks in lines.
fn printed(language: &str, text: &str) -> (Vec<String>, Vec<std::ops::Range<usize>>) {
    let all = named(language).printed(text.as_bytes());
    assert_eq!(all.len(), 1, "{language}");
    (all[0].text(text.as_bytes()), all[0].blocks.clone())
}

#[test]
fn functions_are_printed_one_statement_a_line_without_comments() {
    let c = "int f(int n) { /* all */ int a = 0, b; for (int i = 0; i < n; i++) if (i % 2) { a += i; g(\"x y\"); }\n  \
             else\n b = 1; // one\n while (n\n > 0) n--; return a; }";
    let (lines, blocks) = printed("c", c);
    assert_eq!(
        lines,
        [
            "int f ( int n ) {",
            "int a = 0 , b ;",
            "for ( int i = 0 ; i < n ; i ++ )",
            "if ( i % 2 ) {",
            "a += i ;",
            "g ( \"x y\" ) ;",
            "}",
            "else",
            "b = 1 ;",
            "while ( n > 0 )",
            "n -- ;",
            "return a ;",
            "}",
        ]
    );
    assert!(blocks.contains(&(4..7)), "{blocks:?}");
    let python = "def f(n):\n    # none\n    if n: return 1\n    for i in n:\n        g(i,\n          2)\n    return 'a b'\n";
    assert_eq!(
        printed("python", python).0,
        [
            "def f ( n ) :",
            "if n :",
            "return 1",
            "for i in n :",
            "g ( i , 2 )",
            "return 'a b'"
        ]
    );
    let rust = "fn f(n: u8) -> u8 { let a = if n > 1 { g(n); 2 } else { 3 }; match a { 0 => 1, _ => { h(); a } } }";
    assert_eq!(
        printed("rust", rust).0,
        [
            "fn f ( n : u8 ) -> u8 {",
            "let a = if n > 1 {",
            "g ( n ) ;",
            "2",
            "}",
            "else {",
            "3",
            "}",
            "match a {",
            "0 => 1 ,",
            "_ => {",
            "h ( ) ;",
            "a",
            "}",
            "}",
            "}",
        ]
    );
}

#[test]
fn layout_and_comments_do_not_change_what_is_printed() {
    let pairs = [
        (
            "c",
            "int f(void){a();b();}",
            "int f(void)\n{\n  a(); /* x */\n\n  b();\n}\n",
        ),
        (
            "java",
            "class A{int f(){a();return 1;}}",
            "class A {\n  int f()\n  {\n    a(); // x\n    return 1;\n  }\n}",
        ),
        (
            "go",
            "package p\nfunc f() { a(); b() }",
            "package p\n\nfunc f() {\n\ta()\n\tb() // x\n}\n",
        ),
    ];
    for (language, left, right) in pairs {
        let without = |text| {
            let lines = printed(language, text).0.join("\n");
            lines.replace(";\n", "\n")
        };
        assert_eq!(without(left), without(right), "{language}");
    }
}

/// A function of a C file: its number, and what its body says.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    name: usize,
    body: usize,
}

/// Bodies that try what a part of a file must not be cut at: braces at the margin, comments, conditionals,
/// heads that a macro makes.
const BODIES: [&str; 9] = [
    "{\n  return 1;\n}\n",
    "{\n  return 2;\n}\n",
    "{\nif (a)\n{\n  b();\n}\nwhile (a)\n{\n  c();\n}\n}\n",
    "{\nif (a)\n{\n  b();\n}\nwhile (b)\n{\n  c();\n}\n}\n",
    "{\n  /* }\n}\n*/\n  return 3;\n}\n",
    "{\n#if X\n  return 4;\n}\n#else\n  return 5;\n}\n#endif\n",
    "{\n  return 6;\n}\n/* void old(void)\n{\n}\n*/\n",
    "{\n  static int t[] = {\n1\n}\n;\n  return t[0];\n}\n",
    "{\n#ifdef Y\n  return '}';\n#endif\n  return \"}\\n}\\n\"[0];\n}\nMACRO(x)\n{\n}\n",
];

fn file(pieces: &[Piece]) -> String {
    let one = |p: &Piece| format!("int f{}(int a)\n{}\n", p.name, BODIES[p.body]);
    pieces.iter().map(one).collect()
}

/// What is on one side and not on the other, by name and text.
fn changed(old: (&Snippets, &str), new: (&Snippets, &str)) -> [Vec<(String, String)>; 2] {
    let all = |(found, text): (&Snippets, &str)| -> Vec<(String, String)> {
        let one = |s: &crate::lang::Snippet| (s.name.clone(), text[s.range.clone()].to_string());
        let mut all: Vec<_> = found.found.iter().map(one).collect();
        all.sort();
        all
    };
    let (old, new) = (all(old), all(new));
    let without = |all: &[(String, String)], other: &[(String, String)]| {
        let mut left = other.to_vec();
        let mut kept = all.to_vec();
        kept.retain(|one| match left.iter().position(|o| o == one) {
            Some(at) => {
                left.remove(at);
                false
            }
            None => true,
        });
        kept
    };
    [without(&old, &new), without(&new, &old)]
}

proptest::proptest! {
    #[test]
    fn what_differs_is_what_both_whole_files_say(
        before in proptest::collection::vec((0..6usize, 0..BODIES.len()), 1..7),
        edit in (0..7usize, 0..3u8, 0..6usize, 0..BODIES.len()),
    ) {
        let piece = |(name, body): &(usize, usize)| Piece { name: *name, body: *body };
        let before: Vec<Piece> = before.iter().map(piece).collect();
        let mut after = before.clone();
        let at = edit.0.min(after.len() - 1);
        match edit.1 {
            0 => after[at].body = edit.3,
            1 => after.insert(at, Piece { name: edit.2, body: edit.3 }),
            _ => { after.remove(at); }
        }
        let (old, new) = (file(&before), file(&after));
        let c = named("c");
        let whole = [c.snippets(old.as_bytes()), c.snippets(new.as_bytes())];
        let some = c.differing(old.as_bytes(), new.as_bytes());
        let of = |found: &[Snippets; 2]| changed((&found[0], &old), (&found[1], &new));
        proptest::prop_assert_eq!(of(&some), of(&whole), "{}\n=====\n{}", old, new);
    }
}
