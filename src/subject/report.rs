//! The report of a test program: the header by which it is written, and what of it counts. Pure.

/// The header forced into a subject's test programs when `report = "results"`: what they print to
/// stdout or stderr goes to descriptor 9, in frames that the code under test cannot make.
pub const REPORT_HEADER: &str = include_str!("../exec/report.h");

/// The same for test programs in C++.
pub const REPORT_HEADER_CPP: &str = include_str!("../exec/report.hpp");

/// The header forced into units whose functions are to note that they are entered.
pub const REACH_HEADER: &str = include_str!("../exec/reach.h");

/// The variable by which a run's token reaches the header.
pub const REPORT_TOKEN: &str = "EVERBENCH_REPORT_TOKEN";

/// Characters of a token: hexadecimal digits.
pub const REPORT_TOKEN_LENGTH: usize = 32;

/// Digits of a frame's length.
const DIGITS: usize = 8;

/// What the test program itself reported: the contents of the frames that carry `token`. Bytes
/// outside of frames were written by somebody else and are dropped; a last frame that was cut off
/// keeps what there is of it.
pub fn reported(raw: &[u8], token: &str) -> Vec<u8> {
    let mark = [b"\x1e", token.as_bytes()].concat();
    let mut out = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.windows(mark.len()).position(|w| w == mark) {
        rest = &rest[at + mark.len()..];
        let digits = rest.get(..DIGITS).and_then(|d| std::str::from_utf8(d).ok());
        let Some(size) = digits.and_then(|d| usize::from_str_radix(d, 16).ok()) else {
            continue;
        };
        let content = &rest[DIGITS..];
        let (content, later) = content.split_at(size.min(content.len()));
        out.extend_from_slice(content);
        rest = later;
    }
    out
}
