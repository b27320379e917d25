//! When two alerts are the same: same sanitizer, same kind, same function, same file, and the same
//! text of the source line. Line numbers, columns, addresses and values take no part, so code that
//! moved keeps its alerts and a second build has the first one's.
//!
//! - The place is the innermost frame in the project's code, or without one the place UBSan names.
//! - Where the line's text is not to be had, the innermost three project frames stand for it.
//! - A leak is placed at its allocation, which in most projects is one wrapper around `malloc`:
//!   its identity is the innermost five project frames.
//! - Nothing of the project in sight (not symbolised, or a fault inside a library): the innermost
//!   three frames as function, or as module and offset. Offsets change with every build; symbolise.
//! - Frames repeated by recursion count once.
//!
//! Files are compared as printed, with `.`, `..` and doubled slashes resolved: build with
//! `-ffile-prefix-map` so that they name no machine's folders.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Alert, Class, Frame};
use crate::digest::Digest;

/// The identity of an alert: equal for equal alerts of different builds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AlertId(pub Digest);

impl fmt::Display for AlertId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const DOMAIN: &str = "everbench 2026-11 alert identity v1";
const FRAMES: usize = 3;
const LEAK_FRAMES: usize = 5;

/// The identity of `alert`; the rules are at the top of this file.
///
/// `is_project_path` says of a path in the report whether it is the project's own source;
/// `line_text` gives the text of a line (from 1) of such a file, without its line end. White
/// space around and runs of it within the text do not count.
pub fn unique_key(
    alert: &Alert,
    is_project_path: impl Fn(&str) -> bool,
    line_text: impl Fn(&str, u32) -> Option<String>,
) -> AlertId {
    let top = alert.top_project_frame(&is_project_path);
    let own = alert
        .location
        .as_ref()
        .filter(|l| is_project_path(&l.file))
        .map(|l| (l.file.as_str(), l.line));
    let place = own.or_else(|| top.and_then(|f| Some((f.file.as_deref()?, f.line?))));

    let mut parts = Parts::default();
    parts.text(&format!("{:?}", alert.sanitizer));
    parts.text(&alert.kind);
    parts.text(top.and_then(|f| f.function.as_deref()).unwrap_or(""));
    parts.text(&place.map_or(String::new(), |(file, _)| resolved(file)));
    let text = place
        .filter(|_| alert.class != Class::Leak)
        .and_then(|(file, line)| line_text(file, line));
    if let Some(text) = text {
        parts.text("line");
        parts.text(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        return parts.done();
    }

    let depth = if alert.class == Class::Leak {
        LEAK_FRAMES
    } else {
        FRAMES
    };
    let project: Vec<&Frame> = alert
        .frames
        .iter()
        .filter(|f| f.file.as_deref().is_some_and(&is_project_path))
        .collect();
    let frames = if project.is_empty() && place.is_none() {
        parts.text("foreign frames");
        alert.frames.iter().map(foreign).collect::<Vec<_>>()
    } else {
        parts.text("project frames");
        project.into_iter().map(named).collect()
    };
    let mut frames = frames;
    frames.dedup();
    for (function, file) in frames.into_iter().take(depth) {
        parts.text(&function);
        parts.text(&file);
    }
    parts.done()
}

fn named(frame: &Frame) -> (String, String) {
    (
        frame.function.clone().unwrap_or_default(),
        resolved(frame.file.as_deref().unwrap_or("")),
    )
}

fn foreign(frame: &Frame) -> (String, String) {
    match (&frame.function, &frame.module) {
        (Some(function), _) => (function.clone(), String::new()),
        (None, Some(module)) => {
            let name = module.rsplit('/').next().unwrap_or(module);
            (
                format!("+{:#x}", frame.offset.unwrap_or(0)),
                name.to_string(),
            )
        }
        (None, None) => Default::default(),
    }
}

/// `path` without `.`, `..` and empty components, as far as its text alone allows.
fn resolved(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if out.last().is_some_and(|last| *last != "..") => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", out.join("/"))
}

/// Length-prefixed texts, hashed.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Parts {
    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn done(self) -> AlertId {
        AlertId(Digest(blake3::derive_key(DOMAIN, &self.0)))
    }
}
