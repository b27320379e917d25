//! Variants of the fixture's functions that fail in every way, or build in odd ways.

use super::support::*;

const LEAP: &str = "src/calendar.c:td_is_leap";
const MEAN: &str = "src/stats.c:td_mean";
const MAP_FREE: &str = "src/map.c:td_map_free";
const MONTH: &str = "src/text_latin1.c:td_french_month";
const PUTC: &str = "src/buf_crlf.c:td_buf_putc";
const LAST: &str = "src/ring_no_newline.c:td_ring_count";
const INCLUDED: &str = "src/utf8_decode.c:sequence_length";
const HEADER: &str = "include/tide_inline.h:td_mul_size";
const OLD_STYLE: &str = "src/kr_checksum.c:td_crc16";
const SUM: &str = "src/variadic.c:td_sum_ints";

fn lab() -> Lab {
    // Functions of headers, too: a change of one reaches several units.
    let manifest = TIDELIB.replace(
        r#"include = ["src/*.c"]"#,
        r#"include = ["src/*.c", "include/*.h"]"#,
    );
    assert_ne!(manifest, TIDELIB);
    Lab::open(&manifest, tidelib_dir(), None)
}

fn tries(expect: Expect, list: Vec<(&'static str, &'static str, Edit)>) -> Vec<Try> {
    let one = |(what, function, edit)| Try {
        what,
        function,
        edit,
        expect,
    };
    list.into_iter().map(one).collect()
}

/// What the front end rejects.
fn front_end() -> Vec<(&'static str, &'static str, Edit)> {
    vec![
        (
            "a syntax error",
            LEAP,
            Sub("return year", "return return year"),
        ),
        ("an unknown type", LEAP, body("td_year y = year;")),
        (
            "an undeclared identifier",
            MEAN,
            Sub("(double)n :", "(double)count :"),
        ),
        (
            "a wrong number of arguments",
            "src/buf_crlf.c:td_buf_append_str",
            Sub("strlen(s))", "strlen(s), 0)"),
        ),
        ("a parameter defined again", LEAP, body("int year = 0;")),
        (
            "another signature than the header's",
            LEAP,
            Sub("int td_is_leap(int year)", "long td_is_leap(long year)"),
        ),
        (
            "static, against the header",
            LEAP,
            Sub("int td_is_leap", "static int td_is_leap"),
        ),
        (
            "a helper that the file has already",
            MEAN,
            Before("static double square(double x) { return x * x; }"),
        ),
        (
            "a static assertion",
            LEAP,
            body("_Static_assert(sizeof(int) == 3, \"three\");"),
        ),
        ("an error directive", LEAP, body("#error \"stop here\"")),
        ("an include of nothing", LEAP, body("#include \"nope.h\"")),
        (
            "an include of what only root may read",
            LEAP,
            body("#include \"/etc/shadow\""),
        ),
        ("an include of a folder", LEAP, body("#include \"/etc\"")),
        (
            "a macro that breaks what follows",
            LEAP,
            body("#define return nope nope"),
        ),
        (
            "a macro that empties what follows",
            LEAP,
            body("#define long"),
        ),
        (
            "a name that is poisoned for what follows",
            LEAP,
            body("#pragma GCC poison td_date_to_days"),
        ),
        (
            "an array of variable length that is static",
            LEAP,
            body("static int a[year]; a[0] = 1;"),
        ),
        ("a jump to nowhere", LEAP, body("goto nowhere;")),
        ("a label twice", LEAP, body("again: year++; again: year--;")),
        (
            "a case twice",
            LEAP,
            body("switch (year) { case 1: case 1: break; }"),
        ),
        ("a break outside of everything", LEAP, body("break;")),
        (
            "an assignment to a constant",
            LEAP,
            body("const int c = 1; c = year;"),
        ),
        (
            "a void value that is used",
            LEAP,
            body("int v = (void)year;"),
        ),
        (
            "no choice for a type",
            LEAP,
            body("year = _Generic(year, float: 1);"),
        ),
        ("a member that is not there", MAP_FREE, body("m->nope = 1;")),
        (
            "a member of what is incomplete",
            LEAP,
            body("struct nope *p = 0; p->x = year;"),
        ),
        (
            "a callback of another type, as the table has it",
            "src/dispatch.c:op_hamming",
            Sub(
                "long op_hamming(long a, long b)",
                "struct td_date op_hamming(long a, long b)",
            ),
        ),
        (
            "an array that is larger than anything",
            LEAP,
            body("char a[1UL << 63]; a[0] = 1;"),
        ),
        ("a negative array", LEAP, body("char a[-1]; a[0] = 1;")),
        (
            "a body that is not closed",
            LEAP,
            Sub("== 0);\n}", "== 0);\n"),
        ),
        ("a brace too many", LEAP, After("}")),
        (
            "old-style declarations of no parameter",
            OLD_STYLE,
            Sub("    size_t n;", "    size_t n, m;"),
        ),
        (
            "other bytes in a Latin-1 file",
            MONTH,
            Sub("\"f\u{e9}vrier\"", "f\u{e9}vrier"),
        ),
        ("in a file with CRLF", PUTC, Sub("int rc", "intt rc")),
        (
            "in the last line of a file without line end",
            LAST,
            Sub("r->count : 0", "r->counts : 0"),
        ),
        (
            "in an included .c file",
            INCLUDED,
            Sub("return 4", "return four"),
        ),
        ("in a header", HEADER, Sub("a * b;", "a * c;")),
        (
            "in a header, but only for one of its units",
            HEADER,
            body(
                "_Static_assert(sizeof(__BASE_FILE__) != sizeof(\"src/ring_no_newline.c\"), \"not there\");",
            ),
        ),
        (
            "a type that is only known elsewhere",
            SUM,
            body("struct slot s; (void)s;"),
        ),
    ]
}

/// What only code generation, the assembler or the linker rejects.
fn back_end() -> Vec<(&'static str, &'static str, Edit)> {
    vec![
        (
            "a weak function made strong",
            "src/trace.c:td_on_error",
            Sub("__attribute__((weak)) void", "void"),
        ),
        (
            "an instruction that no machine has",
            LEAP,
            body("__asm__(\"bogus\");"),
        ),
        (
            "an assembler error directive",
            LEAP,
            body("__asm__(\".err\");"),
        ),
        (
            "an assembler label twice",
            LEAP,
            body("__asm__(\"twice: nop\"); __asm__(\"twice: nop\");"),
        ),
        (
            "an assembler include of nothing",
            LEAP,
            body("__asm__(\".include \\\"nope.s\\\"\");"),
        ),
        (
            "binary data from nowhere",
            LEAP,
            body("__asm__(\".incbin \\\"/eb/nope\\\"\");"),
        ),
        (
            "an operand that must be constant",
            LEAP,
            body("__asm__(\"\" : : \"i\"(year));"),
        ),
        (
            "a builtin whose argument must be constant",
            LEAP,
            body("__builtin_prefetch(&year, year);"),
        ),
        (
            "a frame number that must be constant",
            LEAP,
            body("year += __builtin_return_address(year) != 0;"),
        ),
        (
            "a call of a function that must not be called",
            LEAP,
            body("extern void stop(void) __attribute__((error(\"stop\"))); stop();"),
        ),
        (
            "a data section that is larger than memory",
            LEAP,
            body("static char a[1UL << 62]; a[year] = 1;"),
        ),
        (
            "a function that nobody defines",
            MEAN,
            Sub("exact_sum(v, n)", "exact_total(v, n)"),
        ),
        (
            "a declared function that nobody defines",
            LEAP,
            body("extern int td_nope(int); year = td_nope(year);"),
        ),
        (
            "a variable that nobody defines",
            LEAP,
            body("extern int td_nope_count; year += td_nope_count;"),
        ),
        (
            "a thread's variable that nobody defines",
            LEAP,
            body("extern __thread int td_nope_each; year += td_nope_each;"),
        ),
        (
            "a static function of another file",
            LEAP,
            body("extern double exact_sum(const double *, size_t); year += exact_sum(0, 0) > 0;"),
        ),
        (
            "a macro that renames what follows",
            LEAP,
            body("#define td_is_leap(x) td_nope(x)"),
        ),
        (
            "a function that another unit defines as well",
            MAP_FREE,
            Before("int td_max(int a, int b) { return a > b ? a : b; }"),
        ),
        (
            "the same in assembler",
            MAP_FREE,
            body("__asm__(\".globl td_max\\ntd_max:\");"),
        ),
        (
            "a second main, in assembler",
            LEAP,
            body("__asm__(\".globl main\\nmain:\");"),
        ),
        (
            "an assembler that stops before the rest of the file",
            LEAP,
            body("__asm__(\".end\");"),
        ),
        (
            "assembler text that swallows the rest of the file",
            LEAP,
            body("__asm__(\".if 0\");"),
        ),
        (
            "a static helper whose only definition is renamed away",
            "src/expr.c:fail",
            Sub(
                "static long fail(struct parser *p, int status)\n{",
                "static long fail(struct parser *p, int status) __asm__(\"fail_elsewhere\");\nstatic long fail(struct parser *p, int status)\n{ extern long td_nope(void); td_nope();",
            ),
        ),
        (
            "a static that is declared and not defined",
            LEAP,
            body(
                "extern int td_hidden __attribute__((visibility(\"hidden\"))); year += td_hidden;",
            ),
        ),
        (
            "a helper that a test program has as well",
            MEAN,
            Before("void td_on_error(int s) { (void)s; }"),
        ),
        (
            "a helper that nobody defines, in the last line",
            LAST,
            Sub("r->count : 0", "r->count : td_nope()"),
        ),
        (
            "the same in a header",
            HEADER,
            Sub("a * b;", "a * td_nope(b);"),
        ),
        (
            "the same in an included .c file",
            INCLUDED,
            Sub("return 4;", "return td_nope();"),
        ),
        (
            "the same in a file with CRLF",
            PUTC,
            Sub("grow(b, 1)", "growing(b, 1)"),
        ),
    ]
}

/// What is no variant of the function.
fn refused() -> Vec<(&'static str, &'static str, Edit)> {
    vec![
        (
            "an alias of nothing",
            LEAP,
            Before(
                "int td_other_leap(int) __attribute__((alias(\"nope\")));\nint td_other_leap(int year);",
            ),
        ),
        ("a condition that does not end", LEAP, body("#if 0")),
        ("an end of no condition", LEAP, body("#endif")),
        ("a comment that does not end", LEAP, After("\n/* and so on")),
        (
            "a function by another name",
            LEAP,
            Sub("int td_is_leap", "int td_is_leap_year"),
        ),
        (
            "the function twice",
            LEAP,
            After("\nint td_is_leap(int year) { return year % 4 == 0; }"),
        ),
        (
            "the function under a condition",
            LEAP,
            Whole("#if 1\nint td_is_leap(int year) { return year % 4 == 0; }\n#endif".into()),
        ),
        ("a macro in front", LEAP, Before("#define FOUR 4\n")),
        ("a type in front", LEAP, Before("typedef int td_year;\n")),
        ("a variable in front", LEAP, Before("static int calls;\n")),
        (
            "a main behind",
            LEAP,
            After("\nint main(void) { return 0; }"),
        ),
        (
            "a prototype alone",
            LEAP,
            Whole("int td_is_leap(int year);".into()),
        ),
        ("prose", LEAP, Whole("It is fine as it is.".into())),
        (
            "a patch",
            LEAP,
            Whole("--- a/calendar.c\n+++ b/calendar.c\n@@ -1,1 +1,1 @@\n-int x;\n+int y;".into()),
        ),
    ]
}

/// What builds, in odd ways.
fn odd() -> Vec<(&'static str, &'static str, Edit)> {
    vec![
        (
            "200,000 additions",
            LEAP,
            Body(format!("year = {}year;", "year + ".repeat(200_000))),
        ),
        (
            "20,000 conditions in one another",
            LEAP,
            Body(format!("{}year = 1;", "if (year) ".repeat(20_000))),
        ),
        (
            "sections of two kinds",
            LEAP,
            body("static int x __attribute__((section(\".text\"))) = 1; x++;"),
        ),
        (
            "a frame that is larger than memory",
            LEAP,
            body("char a[1UL << 62]; a[year] = 1;"),
        ),
        (
            "an alias of nothing that nobody uses",
            LEAP,
            body("extern int td_other(void) __attribute__((alias(\"nope\")));"),
        ),
        (
            "no return type and no int",
            "src/stats.c:square",
            Sub("static double square(double x)", "static square(x)"),
        ),
        (
            "a new static helper in front",
            LEAP,
            Before("static int divides(int a, int b) { return b % a == 0; }\n"),
        ),
        (
            "a function behind that nobody calls",
            LEAP,
            After("\nint td_never_called(void) { return 7; }"),
        ),
        (
            "a helper by the name of another unit's, where no program links both",
            SUM,
            Before("int td_max(int a, int b) { return a > b ? a : b; }"),
        ),
        (
            "a helper by the name of a libc function",
            LEAP,
            Before("int abs(int x) { return x < 0 ? -x : x; }"),
        ),
        (
            "a static made extern, by a name that other files have as a static",
            "src/calendar.c:clamp_int",
            Sub("static int", "int"),
        ),
        (
            "a static made extern that was one of several",
            "src/map.c:grow",
            Sub("static int", "int"),
        ),
        ("no return type", LEAP, Sub("int td_is_leap", "td_is_leap")),
        (
            "a statement expression",
            LEAP,
            body("year = ({ int y = year; y; });"),
        ),
        (
            "a nested function",
            LEAP,
            body("int by(int n) { return year % n == 0; } if (by(4) && !by(100)) return 1;"),
        ),
        (
            "attributes",
            LEAP,
            Sub(
                "int td_is_leap",
                "__attribute__((noinline, cold, aligned(64)))\nint td_is_leap",
            ),
        ),
        ("a static local", LEAP, body("static int calls; calls++;")),
        ("jumps", LEAP, body("void *to = &&on; goto *to; on:;")),
        (
            "alloca",
            LEAP,
            body("int *p = __builtin_alloca(sizeof *p); *p = year; year = *p;"),
        ),
        (
            "an array of variable length",
            LEAP,
            body("int a[year > 0 ? year : 1]; a[0] = year; year = a[0];"),
        ),
        (
            "a function's own name",
            LEAP,
            body("const char *me = __func__; (void)me;"),
        ),
        (
            "a comment that holds everything",
            LEAP,
            body("/* } #if 0 \" ' \\ */ // } \\\n and on"),
        ),
        (
            "a comment at the end that ends in a backslash",
            LEAP,
            After(" // the end \\"),
        ),
        (
            "CRLF in a file without",
            LEAP,
            Sub("int year)\n{\n", "int year)\r\n{\r\n    year += 0;\r\n"),
        ),
        ("Latin-1 in a file of ASCII", LEAP, body("/* ann\u{e9}e */")),
        (
            "Latin-1 in a file of Latin-1",
            MONTH,
            Sub("\"ao\u{fb}t\"", "\"a\u{f4}ut\""),
        ),
        (
            "a conditional inside",
            LEAP,
            body("#ifdef __GNUC__\nyear += 0;\n#else\nnope nope\n#endif"),
        ),
        (
            "a macro that lasts to the end of the file",
            LEAP,
            body("#define TD_FOUR 4\nyear += TD_FOUR - 4;\n#undef TD_FOUR"),
        ),
        (
            "an include inside",
            LEAP,
            body("#include <errno.h>\nyear += 0 * EINVAL;"),
        ),
        (
            "a weak function that nobody defines",
            LEAP,
            body("extern int td_nope(void) __attribute__((weak)); if (td_nope) return td_nope();"),
        ),
        (
            "a symbol that only the assembler knows",
            LEAP,
            body("__asm__(\".set td_leap_place, .\");"),
        ),
        (
            "a constructor",
            LEAP,
            Before("__attribute__((constructor)) static void boot_calendar(void) { }"),
        ),
        (
            "a large array that takes no room",
            LEAP,
            body("static char a[1 << 28]; a[year & 1] = 1;"),
        ),
        (
            "old style, as it was",
            OLD_STYLE,
            Sub("    int bit;", "    register int bit;"),
        ),
        (
            "old style made new",
            OLD_STYLE,
            Sub(
                "td_crc16(data, n, crc)\n    const unsigned char *data;\n    size_t n;\n    unsigned int crc;\n",
                "td_crc16(const unsigned char *data, size_t n, unsigned int crc)\n",
            ),
        ),
        (
            "a variable number of arguments, read otherwise",
            SUM,
            Sub(
                "while (count-- > 0)\n        sum += va_arg(ap, int);",
                "for (; count > 0; count--) {\n        int v = va_arg(ap, int);\n        sum += v;\n    }",
            ),
        ),
        (
            "the last line of a file without line end",
            LAST,
            Sub("r->count : 0;", "r->count : (size_t)0;"),
        ),
        ("a line comment in that last line", LAST, After(" // done")),
        (
            "in a file with CRLF",
            PUTC,
            Sub("int rc = grow(b, 1);", "int rc;\n\n    rc = grow(b, 1);"),
        ),
        (
            "in an included .c file",
            INCLUDED,
            Sub("return 4;", "return 3 + 1;"),
        ),
        (
            "in a header",
            HEADER,
            Sub("b && a > (size_t)-1 / b", "b != 0 && a > (size_t)-1 / b"),
        ),
        (
            "an attribute that was dropped",
            "src/arena.c:td_arena_strdup",
            Sub("__attribute__((nonnull(1)))\n", ""),
        ),
        (
            "an unused static that is left behind",
            "src/stats.c:td_variance",
            Sub("square(v[i] - mean)", "(v[i] - mean) * (v[i] - mean)"),
        ),
    ]
}

#[test]
fn every_verdict_is_that_of_the_subjects_own_build() {
    let mut all = tries(Fails, front_end());
    all.extend(tries(Fails, back_end()));
    all.extend(tries(Builds, odd()));
    all.extend(tries(Refused, refused()));
    let mut lab = lab();
    let wrong = disagreements(&mut lab, &all);
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}
