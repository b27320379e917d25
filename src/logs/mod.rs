//! What is read out of logs: test cases, sanitizer reports, the first compiler error.
//! A pure room: bytes in, values out. Stored raw logs are parsed again whenever a parser changes,
//! so nothing here may depend on anything but its arguments, and no byte string may make it panic.
//!
//! - [`cases`]: the lines of a test log as reports of cases, by a subject's own patterns.
//! - [`fold`]: reports against the baseline's list of cases; what did not report is not a pass.
//! - [`sanitizer`]: reports of ASan, UBSan, LSan, MSan and TSan as alerts with a stable identity.
//! - [`compiler`]: the first error of a compiler's or linker's log.
//!
//! A log is written by the code under test and can say anything. What it says is therefore never
//! enough for a pass: [`fold::fold`] weighs it against how the process ended.

pub mod cases;
pub mod compiler;
pub mod fold;
pub mod sanitizer;

pub use cases::{BadPattern, Case, LineParser, Outcome, Report};
pub use compiler::{CompilerError, first_error};
pub use fold::{
    Baseline, BaselineError, CaseOutcome, Ended, Expected, ShardResult, Tally, Usual, fold,
};
pub use sanitizer::{Alert, AlertId, Class, Sanitizer, parse as parse_sanitizer, unique_key};
