//! Reports of ASan, UBSan, LSan, MSan and TSan, as the runtimes of gcc 12 and clang 14 print them,
//! as alerts, and the identity by which two alerts are the same. Symbolised or not, several in a
//! log, in files of their own or in the middle of other output, cut off anywhere.
//! Pure; no byte string makes it panic. What looks like a report and is not understood is
//! returned in [`Scan::unparsed`], never dropped.
//!
//! - `parse`: where reports begin and end, and which lines belong to which.
//! - [`frame`]: a line of a stack.
//! - [`kind`]: what happened, and the class it counts in.
//! - [`unique`]: the identity of an alert.
//!
//! Limits: a program can print a report that never happened, so reports count from where it cannot
//! write (`log_path`) or are believed on both sides of a comparison alike. A UBSan path with white
//! space in it loses what stands before the last blank. In stacks of two processes that alternate
//! line by line, frames can land in the other's stack; headers, kinds and counts stay right.

pub mod frame;
pub mod kind;
mod parse;
pub mod unique;

use serde::{Deserialize, Serialize};

pub use frame::Frame;
pub use kind::Class;
pub use parse::parse;
pub use unique::{AlertId, unique_key};

/// Which sanitizer reported, as it names itself. Where ASan and UBSan are linked together
/// statically by gcc, a deadly signal is reported in UBSan's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sanitizer {
    /// AddressSanitizer, the hardware-assisted one included.
    Address,
    /// UndefinedBehaviorSanitizer.
    Undefined,
    /// LeakSanitizer, also when it runs inside ASan.
    Leak,
    /// MemorySanitizer.
    Memory,
    /// ThreadSanitizer.
    Thread,
}

/// The access that was reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// Whether it was a write.
    pub write: bool,
    /// Its size in bytes; unknown for signals.
    pub size: Option<u64>,
}

/// A place in a source file, as printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Location {
    /// The path.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: Option<u32>,
}

/// One report. A report that was repeated is several alerts with one [`AlertId`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Alert {
    /// Who reported.
    pub sanitizer: Sanitizer,
    /// What happened, without values; see [`kind`].
    pub kind: String,
    /// The class in which it counts.
    pub class: Class,
    /// The access, where there was one.
    pub access: Option<Access>,
    /// The place that UBSan's message or a SUMMARY line names.
    pub location: Option<Location>,
    /// Where it happened, or for leaks where the block was allocated; innermost first.
    pub frames: Vec<Frame>,
    /// Where the memory was allocated, or the uninitialised value was made.
    pub allocated: Vec<Frame>,
    /// Where the memory was freed.
    pub freed: Vec<Frame>,
    /// The other side of a race, or where an uninitialised value was stored.
    pub other: Vec<Frame>,
    /// The report's lines, at most 4 KiB, without what others printed in between.
    pub excerpt: String,
}

impl Alert {
    /// The innermost frame in a file for which `is_project_path` holds.
    pub fn top_project_frame(&self, is_project_path: impl Fn(&str) -> bool) -> Option<&Frame> {
        self.frames
            .iter()
            .find(|f| f.file.as_deref().is_some_and(&is_project_path))
    }
}

/// A line that says that a sanitizer had something to report, and no more that could be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unparsed {
    /// The line in the log, from 1.
    pub line: usize,
    /// Its text, at most 400 bytes.
    pub text: String,
}

/// All that was found in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Scan {
    /// The alerts, by the place of their first line.
    pub alerts: Vec<Alert>,
    /// Lines that announce a report but give none: headers cut off, faults of the sanitizer itself.
    pub unparsed: Vec<Unparsed>,
}

#[cfg(test)]
mod tests;
