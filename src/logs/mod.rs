//! What is read out of logs: test cases, sanitizer reports, the first compiler error.
//! A pure room: bytes in, values out. Stored raw logs are parsed again whenever a parser changes,
//! so nothing here may depend on anything but its arguments, and no byte string may make it panic.
//!
//! - [`cases`]: cases of a suite and reports of them.
//! - [`parser`]: what reads a test log, and the list of those there are, each in a file of its own:
//!   `automake`, `ctest`, `exit`, `lines`, `php`, `tap`, `testfixture`, `unity`.
//! - [`fold`]: reports against the baseline's list of cases; what did not report is not a pass.
//! - [`sanitizer`]: reports of ASan, UBSan, LSan, MSan and TSan as alerts with a stable identity.
//! - [`compiler`]: the first error of a compiler's or linker's log.
//!
//! A log is written by the code under test and can say anything. What it says is therefore never
//! enough for a pass: [`fold::fold`] weighs it against how the process ended.

mod automake;
pub mod cases;
pub mod compiler;
mod ctest;
mod exit;
pub mod fold;
pub mod lines;
pub mod parser;
mod php;
pub mod sanitizer;
mod tap;
mod testfixture;
mod unity;

pub use cases::{Case, Outcome, Report};
pub use compiler::{CompilerError, first_error};
pub use fold::{
    Baseline, BaselineError, CaseOutcome, Ended, Expected, ShardResult, Tally, Usual, fold,
};
pub use lines::LineParser;
pub use parser::{
    BadOption, Log, LogParser, OptionKind, OptionType, OptionValue, Options, PARSERS, ParserChoice,
    ParserType, Reading,
};
pub use sanitizer::{Alert, AlertId, Class, Sanitizer, parse as parse_sanitizer, unique_key};
