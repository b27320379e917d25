//! Where reports begin and end in a log, and which line belongs to which report.
//!
//! A report is opened by its header and closed by its SUMMARY line. Frames go to an open report
//! whose current stack waits for just that number, so lines of others in between do no harm.
//! A last line without a line end is believed only as far as more text could not change it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::LazyLock;

use bstr::ByteSlice;
use regex::bytes::Regex;

use super::frame::{self, Frame};
use super::kind::{self, bytes_regex};
use super::{Access, Alert, Location, Sanitizer, Scan, Unparsed};

/// How many reports can be open at once; processes that share one log are few.
const MAX_OPEN: usize = 16;
/// UBSan prints at most a note and three lines of memory between its message and its stack.
const UBSAN_STACK_WITHIN: usize = 8;
const MAX_EXCERPT: usize = 4096;
const MAX_UNPARSED: usize = 400;

/// Reads all reports in `log`: the content of a `log_path` file, or anything that holds reports.
pub fn parse(log: &[u8]) -> Scan {
    let mut parser = Parser::default();
    for line in log.split_inclusive(|&b| b == b'\n') {
        parser.number += 1;
        let whole = line.ends_with(b"\n");
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        parser.line(&without_colours(line), whole);
    }
    if let Some(unparsed) = parser.leaks_announced.take() {
        parser.scan.unparsed.push(unparsed);
        parser.scan.unparsed.sort_by_key(|u| u.line);
    }
    parser.scan
}

/// The stack of a report that the next frames belong to.
#[derive(Clone, Copy, PartialEq)]
enum Stack {
    Main,
    Allocated,
    Freed,
    Other,
    Ignored,
    None,
}

struct Open {
    /// Index in the scan's alerts.
    alert: usize,
    stack: Stack,
    /// The number the next frame of that stack has.
    next: u32,
    /// The program counter in the header, to tell the stacks of two headers apart.
    pc: Option<u64>,
    /// The last line on which the main stack may begin.
    deadline: usize,
}

/// Whose stack the last frame was in.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nobody,
    Alert(usize),
    /// A stack that belongs to no alert; its frames up to this number were seen.
    Stray(u32),
}

struct Parser {
    scan: Scan,
    open: VecDeque<Open>,
    last: Last,
    number: usize,
    leaks_announced: Option<Unparsed>,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            scan: Scan::default(),
            open: VecDeque::new(),
            last: Last::Nobody,
            number: 0,
            leaks_announced: None,
        }
    }
}

impl Parser {
    fn line(&mut self, line: &[u8], whole: bool) {
        if let Some(found) = frame::find(line, whole) {
            self.frame(found.frame, &line[found.start..]);
            // Another process's header may be glued to the frame.
            if !line.contains_str("Sanitizer: ") {
                return;
            }
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            self.end_of_stack();
            return;
        }
        let _ = self.report(line, whole)
            || self.runtime_error(line, whole)
            || self.summary(line, whole)
            || self.leak(line, whole)
            || self.section(line, whole)
            || self.announced(line);
    }

    /// `==1==ERROR: AddressSanitizer: heap-buffer-overflow on address ...`
    fn report(&mut self, line: &[u8], whole: bool) -> bool {
        static HEADER: LazyLock<Regex> = LazyLock::new(|| {
            bytes_regex(
                r"(ERROR|WARNING): (Address|HWAddress|Leak|Memory|Thread|UndefinedBehavior)Sanitizer:? ?(.*)$",
            )
        });
        static PC: LazyLock<Regex> = LazyLock::new(|| bytes_regex(r"\bpc 0x([0-9a-f]{1,16})\b"));
        if !line.contains_str("Sanitizer") {
            return false;
        }
        let Some(header) = HEADER.captures(line) else {
            return false;
        };
        let Some(sanitizer) = sanitizer(&header[2]) else {
            return false;
        };
        let message = &header[3];
        if sanitizer == Sanitizer::Leak && b"detected memory leaks".starts_with(message) {
            self.leaks_announced = Some(self.unparsed(line));
            return true;
        }
        let may_warn = matches!(sanitizer, Sanitizer::Memory | Sanitizer::Thread);
        let kind = kind::of_report(sanitizer, message, whole)
            .filter(|_| may_warn || &header[1] == b"ERROR");
        let Some(kind) = kind else {
            let unparsed = self.unparsed(line);
            self.scan.unparsed.push(unparsed);
            self.last = Last::Stray(0);
            return true;
        };
        let start = header.get(0).expect("group 0 is the match").start();
        let pc = PC
            .captures(message)
            .and_then(|c| u64::from_str_radix(c[1].to_str().ok()?, 16).ok());
        self.begin(sanitizer, kind, None, &line[start..], pc, usize::MAX);
        true
    }

    /// `a.c:3:9: runtime error: signed integer overflow: ...`
    fn runtime_error(&mut self, line: &[u8], whole: bool) -> bool {
        const MARK: &[u8] = b": runtime error: ";
        let Some(at) = line.find(MARK) else {
            return false;
        };
        let start = line[..at]
            .rfind_byteset(b" \t")
            .map_or(0, |blank| blank + 1);
        let place = String::from_utf8_lossy(&line[start..at]);
        let location = frame::location(&place).and_then(|(file, line, column)| {
            let printed = format!(
                "{file}:{line}{}",
                column.map_or(String::new(), |c| format!(":{c}"))
            );
            (printed == place).then(|| Location {
                file: file.to_string(),
                line,
                column,
            })
        });
        let unknown = place == "<unknown>" || (place.starts_with('(') && place.contains("+0x"));
        if location.is_none() && !unknown {
            return false;
        }
        match kind::of_runtime_error(&line[at + MARK.len()..], whole) {
            Some(kind) => self.begin(
                Sanitizer::Undefined,
                kind,
                location,
                &line[start..],
                None,
                self.number + UBSAN_STACK_WITHIN,
            ),
            None => {
                let unparsed = self.unparsed(line);
                self.scan.unparsed.push(unparsed);
            }
        }
        true
    }

    /// `Direct leak of 16 byte(s) in 1 object(s) allocated from:`
    fn leak(&mut self, line: &[u8], whole: bool) -> bool {
        static LEAK: LazyLock<Regex> = LazyLock::new(|| {
            bytes_regex(
                r"(Direct|Indirect) leak of \d+ byte\(s\) in \d+ object\(s\) allocated from:",
            )
        });
        let Some(found) = LEAK.captures(line).filter(|_| whole) else {
            return false;
        };
        let kind = if &found[1] == b"Direct" {
            "direct-leak"
        } else {
            "indirect-leak"
        };
        self.leaks_announced = None;
        let start = found.get(0).expect("group 0 is the match").start();
        self.begin(
            Sanitizer::Leak,
            kind.to_string(),
            None,
            &line[start..],
            None,
            usize::MAX,
        );
        true
    }

    /// `SUMMARY: AddressSanitizer: double-free /a.c:4 in drop` closes a report; where the log has
    /// lost the report's beginning, it is the report.
    fn summary(&mut self, line: &[u8], whole: bool) -> bool {
        static SUMMARY: LazyLock<Regex> =
            LazyLock::new(|| bytes_regex(r"SUMMARY: (\w+)Sanitizer: (.*)$"));
        let Some(found) = SUMMARY.captures(line) else {
            return false;
        };
        let start = found.get(0).expect("group 0 is the match").start();
        let Some(sanitizer) = sanitizer(&found[1]).filter(|_| whole) else {
            let unparsed = self.unparsed(line);
            if whole {
                self.scan.unparsed.push(unparsed);
            }
            return true;
        };
        let message = &found[2];
        if message.contains_str(" byte(s) leaked in ") {
            let alerts = &self.scan.alerts;
            self.open
                .retain(|o| alerts[o.alert].sanitizer != Sanitizer::Leak);
            return true;
        }
        let (words, place) = summary_parts(message);
        let same = |alert: &Alert| {
            alert.sanitizer == sanitizer
                && (alert.kind == words
                    || words == "undefined-behavior"
                    || sanitizer == Sanitizer::Undefined && !is_signal(alert))
        };
        let closes = (0..self.open.len())
            .rev()
            .find(|&i| same(&self.scan.alerts[self.open[i].alert]));
        let alert = match closes.and_then(|i| self.open.remove(i)) {
            Some(open) => {
                self.append(open.alert, &line[start..]);
                open.alert
            }
            None if words.is_empty() => {
                let unparsed = self.unparsed(line);
                self.scan.unparsed.push(unparsed);
                return true;
            }
            None => {
                self.begin(sanitizer, words, None, &line[start..], None, 0);
                self.open.pop_back();
                self.scan.alerts.len() - 1
            }
        };
        self.last = Last::Nobody;
        let alert = &mut self.scan.alerts[alert];
        if alert.frames.is_empty() && place.file.is_some() | place.function.is_some() {
            if let (None, Some(file), Some(line)) = (&alert.location, &place.file, place.line) {
                alert.location = Some(Location {
                    file: file.clone(),
                    line,
                    column: place.column,
                });
            }
            if place.function.is_some() {
                alert.frames.push(place);
            }
        }
        true
    }

    /// Lines inside a report that say whose stack comes next, or what the access was.
    fn section(&mut self, line: &[u8], whole: bool) -> bool {
        static ACCESS: LazyLock<Regex> = LazyLock::new(|| {
            bytes_regex(
                r"(?i)(previous )?(?:atomic )?\b(read|write) of (?:size (\d{1,15})|unknown size)",
            )
        });
        static SIGNAL: LazyLock<Regex> =
            LazyLock::new(|| bytes_regex(r"caused by a (READ|WRITE) memory access"));
        static SECTION: LazyLock<Regex> = LazyLock::new(|| {
            bytes_regex(
                r"(freed by (?:main )?thread)|(allocated by (?:main )?thread|Uninitialized value was created by)|(Uninitialized value was stored to memory at)|(is located in stack of thread|Thread T\d+ .*created by|Mutex M\d+ .*created at|As if synchronized via sleep)",
            )
        });
        if !whole {
            return false;
        }
        let Some(i) = (0..self.open.len()).rev().find(|&i| {
            let alert = &self.scan.alerts[self.open[i].alert];
            alert.sanitizer != Sanitizer::Undefined || is_signal(alert)
        }) else {
            return false;
        };
        let index = self.open[i].alert;
        let alert = &mut self.scan.alerts[index];
        let stack = if let Some(found) = ACCESS.captures(line) {
            if found.get(1).is_some() {
                Stack::Other
            } else {
                alert.access = Some(Access {
                    write: found[2].eq_ignore_ascii_case(b"write"),
                    size: found
                        .get(3)
                        .and_then(|m| m.as_bytes().to_str().ok()?.parse().ok()),
                });
                Stack::Main
            }
        } else if let Some(found) = SIGNAL.captures(line) {
            alert.access = Some(Access {
                write: &found[1] == b"WRITE",
                size: None,
            });
            Stack::Main
        } else if let Some(found) = SECTION.captures(line) {
            let stacks = [Stack::Freed, Stack::Allocated, Stack::Other, Stack::Ignored];
            let group = (1..=4).find(|&g| found.get(g).is_some()).unwrap_or(4);
            stacks[group - 1]
        } else {
            return false;
        };
        // A second stack of a kind (another thread's, another origin's) does not extend the first.
        let stack = match stack_of(alert, stack) {
            Some(frames) if !frames.is_empty() => Stack::Ignored,
            _ => stack,
        };
        let open = &mut self.open[i];
        (open.stack, open.next) = (stack, 0);
        open.deadline = usize::MAX;
        self.last = Last::Nobody;
        self.append(index, line);
        true
    }

    /// A sanitizer's own fault, which comes with a stack of its own.
    fn announced(&mut self, line: &[u8]) -> bool {
        let own = line.contains_str("Sanitizer")
            && ["CHECK failed", "nested bug", "FATAL"]
                .iter()
                .any(|mark| line.contains_str(mark));
        if own {
            let unparsed = self.unparsed(line);
            self.scan.unparsed.push(unparsed);
            self.last = Last::Stray(0);
        }
        own
    }

    fn begin(
        &mut self,
        sanitizer: Sanitizer,
        kind: String,
        location: Option<Location>,
        text: &[u8],
        pc: Option<u64>,
        deadline: usize,
    ) {
        let alert = self.scan.alerts.len();
        self.scan.alerts.push(Alert {
            sanitizer,
            class: kind::class(&kind),
            kind,
            access: None,
            location,
            frames: Vec::new(),
            allocated: Vec::new(),
            freed: Vec::new(),
            other: Vec::new(),
            excerpt: String::new(),
        });
        self.append(alert, text);
        if self.open.len() == MAX_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Open {
            alert,
            stack: Stack::Main,
            next: 0,
            pc,
            deadline,
        });
        self.last = Last::Nobody;
    }

    fn frame(&mut self, frame: Frame, text: &[u8]) {
        let fits = |o: &Open| {
            o.stack != Stack::None
                && o.next == frame.number
                && (frame.number > 0 || self.number <= o.deadline)
        };
        let by_pc = |o: &Open| {
            o.pc.is_some_and(|pc| frame.address == pc || frame.address.wrapping_add(1) == pc)
        };
        let chosen = match self.last {
            Last::Stray(next) if next == frame.number => None,
            Last::Alert(a)
                if frame.number > 0 && self.open.iter().any(|o| o.alert == a && fits(o)) =>
            {
                self.open.iter().position(|o| o.alert == a)
            }
            _ => (0..self.open.len())
                .rev()
                .find(|&i| frame.number == 0 && fits(&self.open[i]) && by_pc(&self.open[i]))
                .or_else(|| (0..self.open.len()).rev().find(|&i| fits(&self.open[i]))),
        };
        let Some(i) = chosen else {
            self.last = Last::Stray(frame.number.saturating_add(1));
            return;
        };
        let open = &mut self.open[i];
        open.next += 1;
        let (index, stack) = (open.alert, open.stack);
        self.last = Last::Alert(index);
        if let Some(frames) = stack_of(&mut self.scan.alerts[index], stack) {
            frames.push(frame);
            let mut line = b"    ".to_vec();
            line.extend_from_slice(text);
            self.append(index, &line);
        }
    }

    fn end_of_stack(&mut self) {
        if let Last::Alert(a) = self.last
            && let Some(open) = self.open.iter_mut().find(|o| o.alert == a)
        {
            open.stack = Stack::None;
        }
        self.last = Last::Nobody;
    }

    fn append(&mut self, alert: usize, line: &[u8]) {
        let excerpt = &mut self.scan.alerts[alert].excerpt;
        let text = String::from_utf8_lossy(line);
        if excerpt.len() + text.len() < MAX_EXCERPT {
            excerpt.push_str(text.trim_end());
            excerpt.push('\n');
        }
    }

    fn unparsed(&self, line: &[u8]) -> Unparsed {
        let cut = &line[..line.len().min(MAX_UNPARSED)];
        Unparsed {
            line: self.number,
            text: String::from_utf8_lossy(cut).into_owned(),
        }
    }
}

fn sanitizer(name: &[u8]) -> Option<Sanitizer> {
    Some(match name {
        b"Address" | b"HWAddress" => Sanitizer::Address,
        b"UndefinedBehavior" => Sanitizer::Undefined,
        b"Leak" => Sanitizer::Leak,
        b"Memory" => Sanitizer::Memory,
        b"Thread" => Sanitizer::Thread,
        _ => return None,
    })
}

/// Kinds that are names of signals are written in capitals.
fn is_signal(alert: &Alert) -> bool {
    alert.kind == "stack-overflow" || alert.kind.bytes().all(|b| b.is_ascii_uppercase())
}

fn stack_of(alert: &mut Alert, stack: Stack) -> Option<&mut Vec<Frame>> {
    match stack {
        Stack::Main => Some(&mut alert.frames),
        Stack::Allocated => Some(&mut alert.allocated),
        Stack::Freed => Some(&mut alert.freed),
        Stack::Other => Some(&mut alert.other),
        Stack::Ignored | Stack::None => None,
    }
}

/// The kind and the place in `data race /build/race.c:8 in bump`.
fn summary_parts(message: &[u8]) -> (String, Frame) {
    let text = String::from_utf8_lossy(message);
    let is_place = |w: &&str| w.starts_with(['/', '(', '.', '<']) || frame::location(w).is_some();
    let words: Vec<&str> = text.split(' ').take_while(|w| !is_place(w)).collect();
    let mut place = Frame::default();
    if let Some(word) = text.split(' ').find(is_place)
        && let Some((file, line, column)) = frame::location(word)
    {
        place.file = Some(file.to_string());
        place.line = Some(line);
        place.column = column;
    }
    if let Some((_, function)) = text.rsplit_once(" in ")
        && !function.trim().is_empty()
    {
        place.function = Some(function.trim().to_string());
    }
    (words.join("-").trim_matches('-').to_string(), place)
}

/// `line` without the escape sequences that `color=always` puts in.
fn without_colours(line: &[u8]) -> Cow<'_, [u8]> {
    static COLOUR: LazyLock<Regex> = LazyLock::new(|| bytes_regex(r"\x1b\[[0-9;]*m"));
    if line.contains(&0x1b) {
        COLOUR.replace_all(line, &b""[..])
    } else {
        Cow::Borrowed(line)
    }
}
