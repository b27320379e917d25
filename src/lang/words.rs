//! What the words of C are, as far as telling heads of functions from other things needs it.

/// Words that take an argument in parentheses and are no function's name.
pub(super) fn is_attribute(word: &[u8]) -> bool {
    matches!(
        word,
        b"__attribute__"
            | b"__attribute"
            | b"__declspec"
            | b"_Alignas"
            | b"alignas"
            | b"__asm__"
            | b"__asm"
            | b"asm"
            | b"_Pragma"
            | b"__pragma"
    )
}

/// Words that start or make up a type.
pub(super) fn is_type_keyword(word: &[u8]) -> bool {
    matches!(
        word,
        b"void"
            | b"char"
            | b"short"
            | b"int"
            | b"long"
            | b"float"
            | b"double"
            | b"signed"
            | b"unsigned"
            | b"_Bool"
            | b"bool"
            | b"_Complex"
            | b"struct"
            | b"union"
            | b"enum"
            | b"typeof"
            | b"__typeof__"
            | b"__typeof"
            | b"__int128"
    )
}

/// Storage classes, qualifiers and function specifiers.
pub(super) fn is_specifier(word: &[u8]) -> bool {
    matches!(
        word,
        b"static"
            | b"extern"
            | b"inline"
            | b"__inline"
            | b"__inline__"
            | b"const"
            | b"__const"
            | b"volatile"
            | b"__volatile__"
            | b"register"
            | b"auto"
            | b"restrict"
            | b"__restrict"
            | b"_Noreturn"
            | b"_Thread_local"
            | b"__thread"
            | b"__extension__"
            | b"_Atomic"
    )
}

/// Words that start a statement: at top level they mean that the braces went wrong before.
pub(super) fn is_statement_keyword(word: &[u8]) -> bool {
    matches!(
        word,
        b"if"
            | b"else"
            | b"for"
            | b"while"
            | b"do"
            | b"switch"
            | b"case"
            | b"default"
            | b"return"
            | b"break"
            | b"continue"
            | b"goto"
            | b"sizeof"
    )
}
