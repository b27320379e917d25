//! Keys of providers. A [`Secret`] can be put into a request's header and taken out of a text; there
//! is no other way to its value, so that no log, error or document can show it by accident.

use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;

use crate::ask::wire::Fault;

/// A key. Not to be shown, compared or stored: it implements none of the traits for that.
pub struct Secret(String);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others may read the file.
    #[error(
        "{}: others may read this key (mode {mode:03o})\n  help: `chmod 600 {}`, and replace the key if others could have seen it",
        path.display(),
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Not something that can be in a header.
    #[error("{from} holds no key: {what}")]
    NoKey {
        /// The file or the variable.
        from: String,
        /// What it holds instead, without showing it.
        what: &'static str,
    },
}

/// What stands in a text in place of a key.
const INSTEAD: &str = "[key]";

impl Secret {
    /// A key as it stands in `from`, which is the name of a variable or a file. White space around
    /// it is no part of it.
    ///
    /// # Errors
    /// [`SecretError::NoKey`]
    pub fn new(text: &str, from: &str) -> Result<Secret, SecretError> {
        let key = text.trim();
        let what = if key.is_empty() {
            "it is empty"
        } else if key.contains(char::is_whitespace) {
            "there is white space in it"
        } else if !key.bytes().all(|b| b.is_ascii_graphic()) {
            "there are characters in it that no key has"
        } else {
            return Ok(Secret(key.to_string()));
        };
        Err(SecretError::NoKey {
            from: from.to_string(),
            what,
        })
    }

    /// Reads a key from a file that nobody but its owner may read.
    ///
    /// # Errors
    /// Any of [`SecretError`].
    pub fn read(path: &Path) -> Result<Secret, SecretError> {
        use std::io::Read;
        use std::os::unix::fs::PermissionsExt;
        let io = |source| SecretError::Io {
            path: path.to_path_buf(),
            source,
        };
        // The permissions of what is read, not of what has the name a moment later.
        let mut file = std::fs::File::open(path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretError::Open {
                path: path.to_path_buf(),
                mode,
            });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(io)?;
        Secret::new(&text, &path.display().to_string())
    }

    /// The value of the header in which the key is sent.
    pub(super) fn header(&self, prefix: &str) -> HeaderValue {
        let text = format!("{prefix}{}", self.0);
        let mut value = HeaderValue::from_str(&text).expect("keys are visible ASCII");
        value.set_sensitive(true);
        value
    }

    /// `text` without the key, should it be in it.
    pub fn redacted(&self, text: &str) -> String {
        text.replace(&self.0, INSTEAD)
    }

    /// Takes the key out of what a provider said.
    pub(super) fn redact(&self, fault: &mut Fault) {
        fault.redact(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(result: Result<Secret, SecretError>) -> String {
        result.err().expect("no key").to_string()
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        for (text, what) in [
            ("", "empty"),
            (" \n", "empty"),
            ("two words", "white space"),
            ("kéy", "characters"),
        ] {
            let said = error(Secret::new(text, "MY_KEY"));
            assert!(said.starts_with("MY_KEY") && said.contains(what), "{said}");
            assert!(text.trim().is_empty() || !said.contains(text), "{said}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "sk-planted\n").unwrap();
        let allow = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o644, 0o640, 0o604] {
            allow(mode);
            let said = error(Secret::read(&path));
            assert!(said.contains("chmod 600"), "{said}");
            assert!(!said.contains("sk-planted"), "{said}");
        }
        allow(0o600);
        let key = Secret::read(&path).expect("a key");
        assert_eq!(key.redacted("got sk-planted!"), "got [key]!");
    }
}
