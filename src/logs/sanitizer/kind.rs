//! What a sanitizer's message says happened, as one word without values, and the class it counts
//! in. Tables only; where a report begins and ends is [`super::parse`]'s business.
//!
//! Kinds of ASan are those of its own SUMMARY lines (`heap-buffer-overflow`, `double-free`,
//! `SEGV`). UBSan prints sentences, which get the names below; a sentence that is in no table
//! becomes its first words without quoted names and numbers.
//!
//! | class | kinds |
//! |---|---|
//! | `Segv` | SEGV, BUS, stack-overflow (no room left on the stack), and anything else a signal reports but the following |
//! | `Spatial` | `*-overflow` and `*-underflow` of buffers and containers, `*-param-overlap`, negative-size-param, invalid-pointer-pair, UBSan's index-out-of-bounds and `*-insufficient-space` |
//! | `Temporal` | `*use-after-*`, double-free, bad-free and the other misuses of the allocator, use-after-poison |
//! | `Leak` | direct-leak, indirect-leak |
//! | `Undefined` | everything else: UBSan's other kinds, uninitialised values, races, FPE, ILL, ABRT, TRAP, allocation sizes |

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::Sanitizer;

/// The column of the memory-safety table in which an alert counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The processor refused an access.
    Segv,
    /// An access outside of its object.
    Spatial,
    /// An access to an object that is gone, or a misuse of the allocator.
    Temporal,
    /// Any other undefined behaviour.
    Undefined,
    /// Memory nobody can free any more.
    Leak,
}

/// The class of an alert; the table is at the top of this file.
pub fn class(kind: &str) -> Class {
    let ends = |list: &[&str]| list.iter().any(|end| kind.ends_with(end));
    match kind {
        "SEGV" | "BUS" | "stack-overflow" => Class::Segv,
        "direct-leak" | "indirect-leak" => Class::Leak,
        "double-free"
        | "bad-free"
        | "use-after-poison"
        | "alloc-dealloc-mismatch"
        | "new-delete-type-mismatch"
        | "bad-malloc_usable_size"
        | "bad-__sanitizer_get_allocated_size" => Class::Temporal,
        "negative-size-param"
        | "invalid-pointer-pair"
        | "index-out-of-bounds"
        | "container-overflow"
        | "intra-object-overflow" => Class::Spatial,
        _ if kind.contains("use-after-") => Class::Temporal,
        _ if ends(&[
            "buffer-overflow",
            "buffer-underflow",
            "-param-overlap",
            "-insufficient-space",
        ]) =>
        {
            Class::Spatial
        }
        _ => Class::Undefined,
    }
}

/// The kind in what follows `ERROR: AddressSanitizer: ` and the like. `None` if it names none, or
/// if the line was cut off (`whole` is false) before the name was certainly over.
pub(super) fn of_report(sanitizer: Sanitizer, message: &[u8], whole: bool) -> Option<String> {
    /// Headers that are sentences, and the name the SUMMARY line would give.
    const SENTENCES: &[(&str, &str)] = &[
        ("attempting double-free", "double-free"),
        ("attempting free on address", "bad-free"),
        (
            "attempting to call malloc_usable_size()",
            "bad-malloc_usable_size",
        ),
        (
            "attempting to call __sanitizer_get_allocated_size()",
            "bad-__sanitizer_get_allocated_size",
        ),
        ("requested allocation size", "allocation-size-too-big"),
        ("allocator is out of memory", "out-of-memory"),
        ("failed to allocate", "out-of-memory"),
        ("specified RSS limit exceeded", "rss-limit-exceeded"),
        (
            "invalid allocation alignment",
            "invalid-allocation-alignment",
        ),
        (
            "invalid alignment requested in aligned_alloc",
            "invalid-aligned-alloc-alignment",
        ),
        (
            "invalid alignment requested in posix_memalign",
            "invalid-posix-memalign-alignment",
        ),
        ("calloc parameters overflow", "calloc-overflow"),
        ("reallocarray parameters overflow", "reallocarray-overflow"),
        ("pvalloc parameters overflow", "pvalloc-overflow"),
    ];
    if let Some((_, kind)) = SENTENCES
        .iter()
        .find(|(start, _)| message.starts_with(start.as_bytes()))
    {
        return Some((*kind).to_string());
    }
    let end = if sanitizer == Sanitizer::Thread
        && message.first().is_some_and(u8::is_ascii_lowercase)
    {
        // `data race on vptr (pid=7)`: several words, up to the process id.
        memchr_str(message, b" (")?
    } else {
        static WORD: LazyLock<Regex> = LazyLock::new(|| bytes_regex(r"^[A-Za-z][A-Za-z0-9_-]*"));
        WORD.find(message)?.end()
    };
    if end == message.len() && !whole {
        return None;
    }
    let words = &message[..end];
    if words == b"CHECK" {
        return None;
    }
    // ASan's own names have a hyphen, signals are in capitals; any other word begins a sentence.
    let named = sanitizer == Sanitizer::Thread
        || words.contains(&b'-')
        || words.iter().all(u8::is_ascii_uppercase);
    if !named {
        return whole.then(|| plain_words(message));
    }
    Some(String::from_utf8_lossy(words).replace(' ', "-"))
}

/// The kind of what UBSan says after `runtime error: `. `None` only if the line was cut off
/// (`whole` is false) before the sentence could be told from others.
pub(super) fn of_runtime_error(message: &[u8], whole: bool) -> Option<String> {
    static TABLE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"^signed integer overflow: ", "signed-integer-overflow"),
            (r"^unsigned integer overflow: ", "unsigned-integer-overflow"),
            (r"^negation of ", "negation-overflow"),
            (r"^division by zero", "division-by-zero"),
            (r"^division of .+ by -1 cannot", "division-overflow"),
            (r"^shift exponent ", "shift-exponent"),
            (r"^left shift of ", "shift-base"),
            (r"^index .+ out of bounds", "index-out-of-bounds"),
            (r"^load of value .+ is not a valid value", "invalid-value"),
            (
                r"is outside the range of representable",
                "float-cast-overflow",
            ),
            (r"^null pointer passed as argument ", "null-argument"),
            (r"^null pointer returned from function", "null-return"),
            (
                r"^applying zero offset to null pointer",
                "zero-offset-to-null-pointer",
            ),
            (
                r"^applying non-zero offset .*to null pointer",
                "nonzero-offset-to-null-pointer",
            ),
            (
                r"^applying non-zero offset .*produced null pointer",
                "offset-produced-null-pointer",
            ),
            (r"^pointer index expression with base ", "pointer-overflow"),
            (
                r"^(addition|subtraction) of unsigned offset ",
                "pointer-overflow",
            ),
            (r"^variable length array bound evaluates to ", "vla-bound"),
            (r"^passing zero to ", "invalid-builtin-argument"),
            (r"^execution reached an unreachable", "unreachable-reached"),
            (r"^execution reached the end of a value", "missing-return"),
            (r"^implicit conversion from ", "implicit-conversion"),
            (
                r"^call to function .+ through pointer to incorrect",
                "function-type-mismatch",
            ),
            (
                r"^assumption of .+ alignment .*failed",
                "alignment-assumption",
            ),
        ]
        .map(|(regex, kind)| (bytes_regex(regex), kind))
        .to_vec()
    });
    /// `load of misaligned address`, `member access within null pointer`, ...
    static ACCESS: LazyLock<Regex> = LazyLock::new(|| {
        bytes_regex(
            r"^(load of|store to|member access within|member call on|reference binding to|constructor call on|downcast of|upcast of|cast to virtual base of|dynamic operation on|_Nonnull binding to) (misaligned address|null pointer|address .+ with insufficient space|address .+ which does not point to)",
        )
    });
    if let Some(found) = ACCESS.captures(message) {
        let verb = match &found[1] {
            b"load of" => "load",
            b"store to" => "store",
            b"member access within" => "member-access",
            b"member call on" => "member-call",
            b"reference binding to" | b"_Nonnull binding to" => "binding",
            b"constructor call on" => "constructor-call",
            b"dynamic operation on" => "dynamic-operation",
            _ => "cast",
        };
        let what = match &found[2] {
            b"misaligned address" => "misaligned-address",
            b"null pointer" => "null-pointer",
            what if what.ends_with(b"space") => "insufficient-space",
            _ => "wrong-type",
        };
        return Some(format!("{verb}-{what}"));
    }
    if let Some((_, kind)) = TABLE.iter().find(|(regex, _)| regex.is_match(message)) {
        return Some((*kind).to_string());
    }
    whole.then(|| plain_words(message))
}

/// The first eight words of a sentence, joined by `-`, without quoted names and numbers.
fn plain_words(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let mut words = Vec::new();
    for (i, part) in text.split(['\'', '"', '`']).enumerate() {
        if i % 2 == 1 {
            continue;
        }
        words.extend(
            part.split(|c: char| c.is_whitespace() || ",;:()[]".contains(c))
                .filter(|w| {
                    w.chars().any(char::is_alphabetic) && !w.contains(|c: char| c.is_ascii_digit())
                })
                .map(str::to_ascii_lowercase),
        );
    }
    words.truncate(8);
    if words.is_empty() {
        "undefined-behavior".to_string()
    } else {
        words.join("-")
    }
}

/// A regex over bytes: `.` is any byte but the newline. For patterns written in this room.
pub(in crate::logs) fn bytes_regex(pattern: &str) -> Regex {
    RegexBuilder::new(pattern)
        .unicode(false)
        .build()
        .expect("a pattern written in this room compiles")
}

fn memchr_str(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
