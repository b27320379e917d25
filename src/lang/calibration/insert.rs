//! Edits that add one declaration at the start of the body. Its initialiser is a statement
//! expression, so that it stands before the function's own declarations in every dialect, also
//! where a declaration after a statement is an error, and needs no header.

use super::tree::Parsed;

/// `int` variable that is set by `{ ... }`; the attribute keeps `-Werror=unused` quiet.
fn probe(statements: &str) -> String {
    format!(
        " int everbench_probe __attribute__((__unused__)) = __extension__ ({{ {statements} 0; }});"
    )
}

/// The function with `text` added behind its opening brace.
pub(super) fn at_start(parsed: &Parsed<'_>, text: &str) -> Vec<u8> {
    let at = start(parsed);
    let original = parsed.original();
    [&original[..at], text.as_bytes(), &original[at..]].concat()
}

/// Behind the opening brace and the label declarations that must come first.
fn start(parsed: &Parsed<'_>) -> usize {
    let mut at = parsed.body.start + 1;
    loop {
        let rest = parsed.slice(at..parsed.body.end);
        let words = rest.trim_ascii_start();
        let end = words.iter().position(|c| *c == b';');
        match end {
            Some(end) if words.starts_with(b"__label__") => {
                at += rest.len() - words.len() + end + 1
            }
            _ => return at,
        }
    }
}

/// Texts that the compiler, or in the last case only the linker, rejects.
pub(super) fn breaks_compile(parsed: &Parsed<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let unused = "__attribute__((__unused__))";
    let original = parsed.original();
    vec![
        (
            "undeclared_identifier",
            at_start(
                parsed,
                &format!(" int everbench_probe {unused} = everbench_undeclared;"),
            ),
        ),
        (
            "missing_semicolon",
            at_start(
                parsed,
                &format!(" int everbench_probe {unused} = 0 int everbench_other {unused} = 0;"),
            ),
        ),
        (
            "unknown_type",
            at_start(
                parsed,
                &format!(" everbench_unknown everbench_probe {unused};"),
            ),
        ),
        (
            "unbalanced_brace",
            [
                &original[..parsed.body.end - 1],
                &original[parsed.body.end..],
            ]
            .concat(),
        ),
    ]
}

/// Texts with an error that is made whenever the function is entered. Sizes and indexes are
/// volatile, so that no compiler sees the error, warns of it or removes it.
pub(super) fn plants_memory_error(parsed: &Parsed<'_>) -> Vec<(&'static str, Vec<u8>)> {
    if parsed.constant {
        return Vec::new();
    }
    // The byte behind the request is still inside of what any allocator hands out for it.
    let heap_overflow = "volatile __SIZE_TYPE__ everbench_n = 5; \
        volatile char *volatile everbench_p = (volatile char *) __builtin_malloc(everbench_n); \
        if (everbench_p) { everbench_p[everbench_n] = 1; \
        __builtin_free((void *) (__UINTPTR_TYPE__) everbench_p); }";
    let use_after_free = "volatile __SIZE_TYPE__ everbench_n = 5; \
        volatile char *volatile everbench_p = (volatile char *) __builtin_malloc(everbench_n); \
        if (everbench_p) { everbench_p[0] = 1; \
        __builtin_free((void *) (__UINTPTR_TYPE__) everbench_p); (void) everbench_p[0]; }";
    // Read, not written: what lies behind the array must keep its value.
    let stack_overflow = "volatile char everbench_b[5] = {0}; \
        volatile char *volatile everbench_p = everbench_b; \
        volatile __SIZE_TYPE__ everbench_n = 5; (void) everbench_p[everbench_n];";
    let signed_overflow = "volatile int everbench_i = __INT_MAX__; \
        everbench_i = everbench_i + 1;";
    [
        ("heap_overflow", heap_overflow),
        ("use_after_free", use_after_free),
        ("stack_overflow", stack_overflow),
        ("signed_overflow", signed_overflow),
    ]
    .into_iter()
    .map(|(how, statements)| (how, at_start(parsed, &probe(statements))))
    .collect()
}

/// The function returning at once: nothing, or zero in its own type.
pub(super) fn early_return(parsed: &Parsed<'_>) -> Option<Vec<u8>> {
    let result = parsed.result.as_deref()?;
    let void = result == b"void";
    if parsed.objects {
        let body = parsed.slice(parsed.body.start + 1..parsed.body.end - 1);
        if body.trim_ascii().is_empty() || (!void && !parsed.returns_value) {
            return None;
        }
        let text = String::from_utf8(result.to_vec()).ok()?;
        return Some(at_start(
            parsed,
            &match void {
                true => " return;".to_string(),
                false => format!(" return static_cast<{text}>(0);"),
            },
        ));
    }
    if !void && !parsed.returns_value {
        // A type from a macro that may be nothing, or a function that does not return.
        return None;
    }
    let text = String::from_utf8(result.to_vec()).ok()?;
    let value = if void {
        "return;".to_string()
    } else {
        format!("return __extension__ ({text}) {{0}};")
    };
    Some(at_start(parsed, &probe(&value)))
}
