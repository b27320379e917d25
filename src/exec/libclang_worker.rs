//! The worker that asks libclang which functions a unit defines: this program under another name,
//! inside the sandbox, one process per unit, since a deep or odd input ends the process that reads
//! it. It only reports; what of it is a function to ask about is decided elsewhere.

#![allow(non_upper_case_globals, reason = "constants of libclang in patterns")]

use std::ffi::{CStr, CString};
use std::io::Write;
use std::os::raw::c_char;
use std::path::Path;
use std::process::ExitCode;

use clang_sys::*;
use serde::{Deserialize, Serialize};

use crate::oss::compiled::{Found, FoundKind, Storage};

/// The name under which this program is the worker.
pub const NAME: &str = "everbench-libclang";

/// Exit code of a worker that has no libclang: the machine's fault, and no answer.
pub const NO_LIBRARY: i32 = 4;

/// What the worker is asked, as JSON in its first argument.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The source file as the sandbox sees it.
    pub source: String,
    /// Arguments of the compiler.
    pub args: Vec<String>,
    /// Absolute names are reported on if they begin so.
    pub below: String,
}

/// What it answers on standard output.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// libclang's version line.
    pub version: String,
    /// libclang's error code when it gives no unit at all.
    pub failed: Option<i32>,
    /// Diagnostics that are errors, fatal ones included.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// The definitions, in libclang's order. Files are as libclang names them.
    pub found: Vec<Found>,
}

/// Acts as the worker if the program was called as one.
pub fn act_as_worker() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    if Path::new(&name).file_name()? != NAME {
        return None;
    }
    let request = args.next().and_then(|a| a.into_string().ok());
    let request: Option<Request> = request.and_then(|a| serde_json::from_str(&a).ok());
    let mut err = std::io::stderr();
    let Some(request) = request else {
        let _ = writeln!(err, "{NAME}: the argument is no request");
        return Some(ExitCode::from(2));
    };
    if let Err(why) = clang_sys::load() {
        let _ = writeln!(err, "{NAME}: {why}");
        return Some(ExitCode::from(NO_LIBRARY as u8));
    }
    let report = read(&request);
    let text = serde_json::to_vec(&report).expect("a report has string keys");
    let mut out = std::io::stdout().lock();
    let written = out.write_all(&text).and_then(|()| out.flush());
    // Nothing is freed and no destructor of the library runs: the process ends here.
    Some(ExitCode::from(u8::from(written.is_err())))
}

fn read(request: &Request) -> Report {
    let c = |text: &str| CString::new(text).expect("arguments of a command hold no NUL");
    let source = c(&request.source);
    let args: Vec<CString> = request.args.iter().map(|a| c(a)).collect();
    let args: Vec<*const c_char> = args.iter().map(|a| a.as_ptr()).collect();
    let mut report = Report::default();
    // SAFETY: libclang was loaded on this thread, every pointer outlives the call that takes it,
    // and the unit is never disposed of, so that cursors stay valid until the process ends.
    unsafe {
        report.version = text(clang_getClangVersion());
        let index = clang_createIndex(0, 0);
        let mut unit: CXTranslationUnit = std::ptr::null_mut();
        let code = clang_parseTranslationUnit2(
            index,
            source.as_ptr(),
            args.as_ptr(),
            args.len() as i32,
            std::ptr::null_mut(),
            0,
            // A header that is not there must not cost all that follows.
            CXTranslationUnit_KeepGoing,
            &mut unit,
        );
        if code != CXError_Success || unit.is_null() {
            report.failed = Some(code);
            return report;
        }
        for i in 0..clang_getNumDiagnostics(unit) {
            let diagnostic = clang_getDiagnostic(unit, i);
            if clang_getDiagnosticSeverity(diagnostic) >= CXDiagnostic_Error {
                report.errors += 1;
                if report.first_error.is_none() {
                    let options = clang_defaultDiagnosticDisplayOptions();
                    report.first_error = Some(text(clang_formatDiagnostic(diagnostic, options)));
                }
            }
        }
        let mut visit = Visit {
            below: &request.below,
            found: Vec::new(),
        };
        let data = (&raw mut visit).cast();
        clang_visitChildren(clang_getTranslationUnitCursor(unit), visitor, data);
        report.found = visit.found;
    }
    report
}

struct Visit<'a> {
    below: &'a str,
    found: Vec<Found>,
}

extern "C" fn visitor(cursor: CXCursor, _: CXCursor, data: CXClientData) -> CXChildVisitResult {
    // SAFETY: `data` is the visit of `read`, which waits for this and uses it no other way
    // meanwhile.
    unsafe {
        let kind = match clang_getCursorKind(cursor) {
            CXCursor_Namespace
            | CXCursor_FriendDecl
            | CXCursor_LinkageSpec
            | CXCursor_UnexposedDecl
            | CXCursor_ClassDecl
            | CXCursor_StructDecl
            | CXCursor_UnionDecl
            | CXCursor_ClassTemplate
            | CXCursor_ClassTemplatePartialSpecialization => return CXChildVisit_Recurse,
            CXCursor_FunctionDecl => FoundKind::Function,
            CXCursor_CXXMethod => FoundKind::Method,
            CXCursor_Constructor => FoundKind::Constructor,
            CXCursor_Destructor => FoundKind::Destructor,
            CXCursor_ConversionFunction => FoundKind::Conversion,
            CXCursor_FunctionTemplate => FoundKind::Template,
            _ => return CXChildVisit_Continue,
        };
        if clang_isCursorDefinition(cursor) != 0 {
            let visit = &mut *data.cast::<Visit<'_>>();
            visit.found.extend(definition(cursor, kind, visit.below));
        }
        CXChildVisit_Continue
    }
}

unsafe fn definition(cursor: CXCursor, kind: FoundKind, below: &str) -> Option<Found> {
    // SAFETY: the cursor is one of a living unit.
    unsafe {
        let name = Spot::of(clang_getCursorLocation(cursor))?;
        // Relative names, as relative include folders give, are for whoever knows the folder.
        if name.file.starts_with('/') && !name.file.starts_with(below) {
            return None;
        }
        let extent = clang_getCursorExtent(cursor);
        let start = Spot::of(clang_getRangeStart(extent))?;
        let end = Spot::of(clang_getRangeEnd(extent))?;
        let mut body: Option<CXCursor> = None;
        clang_visitChildren(cursor, last_body, (&raw mut body).cast());
        let body = Spot::of(clang_getRangeStart(clang_getCursorExtent(body?)))?;
        Some(Found {
            name: text(clang_getCursorSpelling(cursor)),
            kind,
            storage: match clang_Cursor_getStorageClass(cursor) {
                CX_SC_Static => Storage::Static,
                CX_SC_Extern => Storage::Extern,
                _ => Storage::None,
            },
            line: name.line,
            name_at: name.offset,
            start: start.offset,
            end: end.offset,
            body_at: body.offset,
            name_in_macro: name.in_macro,
            body_in_macro: body.in_macro,
            one_file: start.file == name.file && end.file == name.file && body.file == name.file,
            file: name.file,
        })
    }
}

/// Keeps the last statement among a definition's children: its body.
extern "C" fn last_body(cursor: CXCursor, _: CXCursor, data: CXClientData) -> CXChildVisitResult {
    // SAFETY: `data` is the option of `definition`, which waits for this.
    unsafe {
        let kind = clang_getCursorKind(cursor);
        if kind == CXCursor_CompoundStmt || kind == CXCursor_CXXTryStmt {
            *data.cast::<Option<CXCursor>>() = Some(cursor);
        }
    }
    CXChildVisit_Continue
}

/// Where something stands in the file that the compiler read.
struct Spot {
    file: String,
    offset: u32,
    line: u32,
    in_macro: bool,
}

impl Spot {
    /// Of something that a macro makes: where the macro is used.
    unsafe fn of(location: CXSourceLocation) -> Option<Spot> {
        let place =
            |get: unsafe fn(CXSourceLocation, *mut CXFile, *mut u32, *mut u32, *mut u32)| {
                let mut file: CXFile = std::ptr::null_mut();
                let (mut line, mut column, mut offset) = (0, 0, 0);
                // SAFETY: all pointers are to locals.
                unsafe { get(location, &mut file, &mut line, &mut column, &mut offset) };
                (file, line, offset)
            };
        let (file, line, offset) = place(clang_getExpansionLocation);
        let (spelt_in, _, spelt_at) = place(clang_getSpellingLocation);
        if file.is_null() {
            return None;
        }
        // SAFETY: the file is one of a living unit.
        let name = unsafe { text(clang_getFileName(file)) };
        Some(Spot {
            file: name,
            offset,
            line,
            in_macro: spelt_in != file || spelt_at != offset,
        })
    }
}

unsafe fn text(string: CXString) -> String {
    // SAFETY: a string of libclang is valid until it is disposed of, which is after the copy.
    unsafe {
        let bytes = clang_getCString(string);
        let copy = if bytes.is_null() {
            String::new()
        } else {
            CStr::from_ptr(bytes).to_string_lossy().into_owned()
        };
        clang_disposeString(string);
        copy
    }
}
