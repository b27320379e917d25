//! Which paths may name something inside a source tree: relative, `/`-separated, UTF-8, and unable
//! to leave the tree. Checks text only; never looks at a file system.

/// Longest path, in bytes.
pub const MAX_PATH: usize = 1024;
/// Longest name between two slashes, in bytes: what common file systems take.
pub const MAX_NAME: usize = 255;

/// Why a text is not a path inside a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// No text at all.
    #[error("it is empty")]
    Empty,
    /// It begins with `/`.
    #[error("it is absolute; give it relative to the root of the tree")]
    Absolute,
    /// `..` is one of its names.
    #[error("it contains `..`, which could leave the tree")]
    Parent,
    /// `.` is one of its names, or two slashes follow each other, or it ends with one.
    #[error("it is not in its shortest form (`.`, `//` or a `/` at the end)")]
    NotShortest,
    /// It contains a NUL byte.
    #[error("it contains a NUL byte")]
    Nul,
    /// Longer than [`MAX_PATH`], or a name in it is longer than [`MAX_NAME`].
    #[error("it is too long (at most {MAX_PATH} bytes, each name at most {MAX_NAME})")]
    TooLong,
}

/// Checks that `path` names something below a tree's root.
pub fn check(path: &str) -> Result<(), BadPath> {
    if path.is_empty() {
        return Err(BadPath::Empty);
    }
    if path.starts_with('/') {
        return Err(BadPath::Absolute);
    }
    if path.contains('\0') {
        return Err(BadPath::Nul);
    }
    if path.len() > MAX_PATH || path.split('/').any(|name| name.len() > MAX_NAME) {
        return Err(BadPath::TooLong);
    }
    if path.split('/').any(|name| name == "..") {
        return Err(BadPath::Parent);
    }
    if path.split('/').any(|name| name.is_empty() || name == ".") {
        return Err(BadPath::NotShortest);
    }
    Ok(())
}

/// As [`check`], but `.`, the root itself, is allowed.
pub fn check_directory(path: &str) -> Result<(), BadPath> {
    if path == "." { Ok(()) } else { check(path) }
}

/// Checks where a symbolic link may point: `..` only at its start and not above the root, counted
/// from the directory of the link (`depth` names below the root). With these, no chain of links
/// inside the tree can leave it: a `..` after a name could, when that name is itself a link.
pub fn check_link(depth: usize, target: &str) -> Result<(), BadPath> {
    if target.is_empty() {
        return Err(BadPath::Empty);
    }
    let names: Vec<&str> = target.split('/').collect();
    let ups = names.iter().take_while(|name| **name == "..").count();
    if ups > depth {
        return Err(BadPath::Parent);
    }
    let rest = names[ups..].join("/");
    match rest.as_str() {
        "" if ups == names.len() => Ok(()),
        rest => check_directory(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_paths_are_refused_each_for_its_reason() {
        for (path, why) in [
            ("", BadPath::Empty),
            ("/etc/passwd", BadPath::Absolute),
            ("..", BadPath::Parent),
            ("a/../../b", BadPath::Parent),
            ("a//b", BadPath::NotShortest),
            ("a/", BadPath::NotShortest),
            ("./a", BadPath::NotShortest),
            ("a\0b", BadPath::Nul),
        ] {
            assert_eq!(check(path), Err(why), "{path:?}");
        }
        assert_eq!(check(&"n".repeat(256)), Err(BadPath::TooLong));
        assert_eq!(check(&"n/".repeat(600)), Err(BadPath::TooLong));
        for path in ["a", "a/b.c", "..a/b..", "größe/日本.c", "a b/c\nd"] {
            assert_eq!(check(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn links_may_climb_to_the_root_and_not_above() {
        assert_eq!(check_link(2, "../../x"), Ok(()));
        assert_eq!(check_link(1, ".."), Ok(()));
        assert_eq!(check_link(1, "../../x"), Err(BadPath::Parent));
        assert_eq!(check_link(5, "a/../b"), Err(BadPath::Parent));
        assert_eq!(check_link(0, "/etc"), Err(BadPath::Absolute));
        assert_eq!(check_link(1, "..//etc"), Err(BadPath::Absolute));
        assert_eq!(check_link(0, ""), Err(BadPath::Empty));
    }
}
