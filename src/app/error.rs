//! What keeps a command from doing its work, by whose turn it is to mend it.
#![allow(clippy::disallowed_methods, reason = "an impure room")]

use crate::config::{self};
use crate::digest::Digest;
use crate::engine::{Broken, DriveError, Failure, Hold, Whose};
use crate::exec::NoSandbox;
use crate::exec::answer::ReplayError;
use crate::exec::libclang::NoLibclang;
use crate::exec::toolchain::ToolchainError;
use crate::source::{ReadError, SourceError};
use crate::store::StoreError;
use crate::subject::{Problems, UnknownPreset};

/// Anything that keeps a command from doing its work, by whose turn it is.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A file that the user wrote is wrong.
    #[error("{0}")]
    Input(String),
    /// The machine lacks something.
    #[error("{0}")]
    Environment(String),
    /// The unchanged subject cannot be measured.
    #[error("{what}\n  help: {help}")]
    Broken {
        /// What is wrong.
        what: String,
        /// The way out.
        help: String,
    },
    /// The store was found damaged in the middle of an evaluation.
    #[error("{what}\n  help: {help}")]
    Damaged {
        /// What cannot be read.
        what: String,
        /// The way out.
        help: String,
    },
    /// The store.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The drive ended early.
    #[error("{0}")]
    Drive(DriveError),
}

impl From<config::ConfigError> for AppError {
    fn from(e: config::ConfigError) -> Self {
        AppError::Input(e.to_string())
    }
}

impl From<Problems> for AppError {
    fn from(e: Problems) -> Self {
        AppError::Input(e.to_string())
    }
}

impl From<UnknownPreset> for AppError {
    fn from(e: UnknownPreset) -> Self {
        AppError::Input(e.to_string())
    }
}

impl From<ReplayError> for AppError {
    fn from(e: ReplayError) -> Self {
        AppError::Input(e.to_string())
    }
}

impl From<ReadError> for AppError {
    fn from(e: ReadError) -> Self {
        AppError::Input(e.to_string())
    }
}

impl From<SourceError> for AppError {
    fn from(e: SourceError) -> Self {
        match e.is_transient() || e.is_environment() {
            true => AppError::Environment(e.to_string()),
            false => AppError::Input(format!("{e}\n  help: {}", e.help())),
        }
    }
}

impl From<ToolchainError> for AppError {
    fn from(e: ToolchainError) -> Self {
        AppError::Environment(e.to_string())
    }
}

impl From<NoLibclang> for AppError {
    fn from(e: NoLibclang) -> Self {
        AppError::Environment(e.to_string())
    }
}

impl From<NoSandbox> for AppError {
    fn from(e: NoSandbox) -> Self {
        AppError::Environment(e.to_string())
    }
}

pub(super) fn fault_of(hold: &Hold) -> Result<(), AppError> {
    match hold.faults().first() {
        Some(fault) => Err(broken(fault)),
        None => Ok(()),
    }
}

/// A fault as an error of the command.
pub fn broken(fault: &Broken) -> AppError {
    let (what, help) = (fault.what.clone(), fault.help.clone());
    match fault.whose {
        Whose::Store => AppError::Damaged { what, help },
        Whose::Project | Whose::Request => AppError::Broken { what, help },
    }
}

/// A blob that is needed is not what it was, or gone.
pub fn lost(digest: &Digest, help: &str) -> AppError {
    AppError::Damaged {
        what: format!("blob {digest} is damaged or gone from the store"),
        help: help.to_string(),
    }
}

/// What is said where a run makes the blob again.
pub const MADE_AGAIN: &str =
    "`everbench run` makes it again; `everbench store verify` says what else is damaged";

/// A failure as an error of the command.
pub fn failure_error(failure: &Failure) -> AppError {
    match failure {
        Failure::Transient(why) => AppError::Environment(why.clone()),
        Failure::Fatal { what, help }
        | Failure::Absent { what, help, .. }
        | Failure::Money { what, help } => AppError::Input(format!("{what}\n  help: {help}")),
        Failure::Cancelled => AppError::Environment("stopped".into()),
    }
}

/// What keeps a command that only looks from saying what it was asked for.
pub(super) fn unusable(hold: Hold) -> AppError {
    match fault_of(&hold) {
        Err(fault) => fault,
        Ok(()) => match hold.corrupt_blobs().first() {
            Some(digest) => lost(digest, MADE_AGAIN),
            None => nothing_stored(),
        },
    }
}

pub(super) fn nothing_stored() -> AppError {
    AppError::Input("nothing was run here yet\n  help: `everbench run` comes first; `score` only reads the store".into())
}
