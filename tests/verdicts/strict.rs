//! A subject that is built with warnings as errors and optimisation, where what the front end says
//! depends on the rest of the unit; one of its sources is compiled twice.

use std::fs;

use super::support::*;

const MANIFEST: &str = r#"
name = "strict"
[source]
directory = "."
[build]
build = [["make", "-j{jobs}", "all", "CC={cc}", "AR={ar}", "CFLAGS={cflags}", "LDFLAGS={ldflags}"]]
cflags = ["-O2", "-Wall", "-Werror"]
[sanitizers]
cflags = []
ldflags = []
leaks = false
[tests]
report = "stdout"
harness = ["tests/*.c"]
[tests.parser]
type = "lines"
pass = ['^OK: (?<name>.*)$']
fail = ['^FAIL: (?<name>.*)$']
[[tests.shard]]
name = "all"
argv = ["./t"]
cpu-seconds = 10
wall-seconds = 30
[functions]
include = ["src/*.c"]
min-tokens = 1
max-tokens = 256
[scoring]
functions-per-iteration = 2
"#;

const MAKEFILE: &str = "all: t
OBJS = src/sums.o src/twice.o src/second.o
src/sums.o: src/sums.c
\t$(CC) -Iinclude $(CFLAGS) -c -o $@ src/sums.c
src/twice.o: src/twice.c
\t$(CC) -Iinclude $(CFLAGS) -c -o $@ src/twice.c
src/second.o: src/twice.c
\t$(CC) -Iinclude $(CFLAGS) -DSECOND -c -o $@ src/twice.c
libs.a: $(OBJS)
\trm -f $@
\t$(AR) cr $@ $(OBJS)
t: tests/t.c libs.a
\t$(CC) -Iinclude $(CFLAGS) $(LDFLAGS) -o $@ tests/t.c libs.a
";

const HEADER: &str = "#ifndef STRICT_H\n#define STRICT_H\nint total(const int *v, int n);\n\
                      int spread(const int *v, int n);\nint first_level(int n);\nint second_level(int n);\n#endif\n";

const SUMS: &str = "#include \"strict.h\"
#include <stdio.h>

static int larger(int a, int b)
{
    return a > b ? a : b;
}

int total(const int *v, int n)
{
    int sum = 0;

    for (int i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

int spread(const int *v, int n)
{
    int high = v[0];

    for (int i = 1; i < n; i++)
        high = larger(high, v[i]);
    return high;
}
";

const TWICE: &str = "#include \"strict.h\"

#ifdef SECOND
#define level second_level
#else
#define level first_level
#endif

int level(int n)
{
    return n + 1;
}

#ifdef SECOND
static int twice(int n)
{
    return 2 * n;
}

int strict_extra(int n);
int strict_extra(int n)
{
    return twice(n);
}
#endif
";

const TEST: &str = "#include \"strict.h\"
#include <stdio.h>
int main(void)
{
    int v[] = {1, 2, 3};
    printf(total(v, 3) == 6 && spread(v, 3) == 3 ? \"OK: sums\\n\" : \"FAIL: sums\\n\");
    printf(first_level(1) == second_level(1) ? \"OK: levels\\n\" : \"FAIL: levels\\n\");
    return 0;
}
";

const TOTAL: &str = "src/sums.c:total";
const SPREAD: &str = "src/sums.c:spread";
const LARGER: &str = "src/sums.c:larger";
const EXTRA: &str = "src/twice.c:strict_extra";

fn tries() -> Vec<Try> {
    let list = vec![
        // The front end's warnings.
        (Fails, "an unused variable", TOTAL, body("int unused = 3;")),
        (Fails, "a helper that nobody uses", TOTAL, Before("static int half(int n) { return n / 2; }")),
        (Fails, "a helper that lost its only caller", SPREAD, Sub("larger(high, v[i])", "high > v[i] ? high : v[i]")),
        (Fails, "a helper that is used by itself alone", TOTAL, Before("static int down(int n) { return n ? down(n - 1) : 0; }")),
        (Fails, "an implicit declaration", TOTAL, Sub("sum += v[i]", "sum += take(v[i])")),
        (Fails, "a return that is missing", TOTAL, Sub("    return sum;\n", "")),
        (Fails, "an assignment as a condition", TOTAL, body("if (n = 3) return 1;")),
        (Fails, "a label that nobody uses", TOTAL, body("here: n++;")),
        (Fails, "a format and its argument", TOTAL, body("printf(\"%s\\n\", n);")),
        (Fails, "a comment in a comment", TOTAL, body("/* /* */")),
        (Fails, "no return type", TOTAL, Sub("int total", "total")),
        (Fails, "a declared static that is used and not defined", TOTAL, Sub("int sum = 0;", "int sum = 0; extern int nope(int); sum = nope(n);")),
        (Fails, "a helper that is declared and not defined", TOTAL, Before("static int half(int n);\nstatic int half(int n) { return n / 2; }\nstatic int third(int n) { return n / 3; }")),
        // Warnings that only optimisation finds.
        (Fails, "an index beyond an array", TOTAL, body("int a[2]; a[0] = n; a[1] = n; n = a[n > 1] + a[5];")),
        (Fails, "a value that may never be set", TOTAL, body("int x; if (n > 3) x = n; n += x;")),
        (Fails, "a write beyond a string", TOTAL, body("char s[2]; sprintf(s, \"longer %d\", n); n += s[0];")),
        (Fails, "a use after the end", TOTAL, body("char *p = __builtin_malloc(4); __builtin_free(p); n += p[0];")),
        // One of two compilations of a source.
        (Fails, "only in the second compilation", "src/twice.c:strict_extra", Sub("twice(n)", "2 * n")),
        (Fails, "only under the second's macro", EXTRA, body("#ifdef SECOND\n#error \"second\"\n#endif")),
        // What must not fail for all that.
        (Builds, "a helper that is used", TOTAL, Whole("static int one(const int *v, int i) { return v[i]; }\nint total(const int *v, int n)\n{\n    int sum = 0;\n\n    for (int i = 0; i < n; i++)\n        sum += one(v, i);\n    return sum;\n}".into())),
        (Builds, "a helper that may be unused", TOTAL, Before("__attribute__((unused)) static int half(int n) { return n / 2; }")),
        (Builds, "an inline helper that nobody uses", TOTAL, Before("static inline int half(int n) { return n / 2; }")),
        (Builds, "a helper that is declared first", TOTAL, Whole("static int one(int x);\nint total(const int *v, int n)\n{\n    int sum = 0;\n\n    for (int i = 0; i < n; i++)\n        sum += one(v[i]);\n    return sum;\n}\nstatic int one(int x) { return x; }".into())),
        (Builds, "a helper that is used through its address", TOTAL, Whole("static int one(int x) { return x; }\nint total(const int *v, int n)\n{\n    int (*f)(int) = one;\n    int sum = 0;\n\n    for (int i = 0; i < n; i++)\n        sum += f(v[i]);\n    return sum;\n}".into())),
        (Builds, "a helper that is used in what is never run", TOTAL, Whole("static int one(int x) { return x; }\nint total(const int *v, int n)\n{\n    int sum = 0;\n\n    if (0)\n        sum = one(n);\n    for (int i = 0; i < n; i++)\n        sum += v[i];\n    return sum;\n}".into())),
        (Builds, "a helper that only a size is taken of", TOTAL, Whole("static int one(int x) { return x; }\nint total(const int *v, int n)\n{\n    int sum = 0 * (int)sizeof(one(n));\n\n    for (int i = 0; i < n; i++)\n        sum += v[i];\n    return sum;\n}".into())),
        (Builds, "a warning that is turned off", TOTAL, body("#pragma GCC diagnostic ignored \"-Wunused-variable\"\nint unused = 3;")),
        (Builds, "a static made extern", LARGER, Sub("static int", "int")),
        (Builds, "a static constant that nobody uses", TOTAL, body("static const int unused __attribute__((unused)) = 3;")),
        (Builds, "in both compilations", EXTRA, Sub("twice(n)", "twice(n) + 0")),
    ];
    let one = |(expect, what, function, edit)| Try {
        what,
        function,
        edit,
        expect,
    };
    list.into_iter().map(one).collect()
}

#[test]
fn warnings_that_are_errors_are_the_same_both_ways() {
    let dir = tempfile::tempdir().expect("a folder");
    for (path, text) in [
        ("Makefile", MAKEFILE),
        ("include/strict.h", HEADER),
        ("src/sums.c", SUMS),
        ("src/twice.c", TWICE),
        ("tests/t.c", TEST),
    ] {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    let mut lab = Lab::open(MANIFEST, dir.path(), None);
    let all = tries();
    let wrong = disagreements(&mut lab, &all);
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}
